//! Schemas that only grow: from the configuration, the registry and a run's evidence to the run's one schema.

use std::collections::HashMap;

use super::evidence::{Evidence, Kind, Limits};
use super::naming::{column_name, free_name};
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::domain::schema::{Column, Declared, DeclaredType, Role, TableSchema, Type};

/// What a run adds to a table's schema beside what its records show.
#[derive(Clone, Debug)]
pub struct Given<'a> {
    /// The columns that the configuration declares for the table, in its order.
    pub declared: &'a [Declared],
    /// The name of the rescue column.
    pub rescue_column: &'a str,
    /// Whether the files carry pontoon's two columns.
    pub transfer_columns: bool,
    /// The run's day.
    pub day: Day,
}

/// The schema before any record of the run is looked at: the registry's, with what the configuration declares added at the end.
///
/// A new table's columns are the declared ones, then the rescue column, then pontoon's two.
/// Fails (vendor) where a declared type contradicts the pinned one: a pinned column never changes.
pub fn base_schema(pinned: Option<&TableSchema>, given: &Given<'_>) -> Result<TableSchema> {
    let mut schema = pinned.cloned().unwrap_or(TableSchema { version: 0, columns: Vec::new(), next_id: 1 });
    let mut maker = Maker { next_id: schema.next_id.max(1), day: given.day, rescue_column: given.rescue_column };
    for declared in given.declared {
        let mut columns = &mut schema.columns;
        let Some((last, above)) = declared.path.split_last() else { continue };
        for (level, key) in above.iter().enumerate() {
            let at = maker.declare(columns, key, None, level == 0);
            let found = columns.get_mut(at).map(|column| &mut column.column_type);
            columns = match found {
                Some(Type::Struct(members)) => members,
                Some(Type::List(element)) => match &mut element.column_type {
                    Type::Struct(members) => members,
                    _ => return Err(contradiction(declared, "a list whose elements are no structs")),
                },
                Some(other) => return Err(contradiction(declared, &other.name())),
                None => return Err(Error::bug("a declared column was lost, please report it")),
            };
        }
        let at = maker.declare(columns, last, Some(&declared.column_type), above.is_empty());
        if let Some(column) = columns.get_mut(at) {
            maker.match_declared(column, &declared.column_type).map_err(|pinned| contradiction(declared, &pinned))?;
        }
    }
    let has = |schema: &TableSchema, role: Role| schema.columns.iter().any(|column| column.role == role);
    if !has(&schema, Role::Rescue) {
        let column = maker.own(given.rescue_column, Role::Rescue, Type::String);
        schema.columns.push(column);
    }
    if given.transfer_columns && !has(&schema, Role::BatchId) {
        schema.columns.push(maker.own("pontoon__batch_id", Role::BatchId, Type::String));
        schema.columns.push(maker.own("pontoon__last_synced_at", Role::LastSynced, Type::Timestamp));
    }
    schema.next_id = maker.next_id;
    Ok(schema)
}

/// A run's final schema with its version: one more than that of `pinned`, unless nothing was added.
#[must_use]
pub fn versioned(mut schema: TableSchema, pinned: Option<&TableSchema>) -> TableSchema {
    schema.version = match pinned {
        Some(pinned) if pinned.columns == schema.columns => pinned.version,
        Some(pinned) => pinned.version + 1,
        None => 1,
    };
    schema
}

fn contradiction(declared: &Declared, pinned: &str) -> Error {
    let path = declared.path.join(".");
    Error::vendor(format!(
        "the declared column `{path}` can't be had: files that landed have {pinned} there, and a column never changes its type; take the declaration out, or declare another key"
    ))
}

/// The run's schema: `base` with a column for each path of the evidence that has one to get, new ones last at every depth.
///
/// A column's type is the kind that most of its values have. New columns stand in the order of `guess` (the schema that the run wrote with,
/// so that a right guess is not written again for its order), then in that of the input. Limits choose by the order of the input alone.
#[must_use]
pub fn decide(
    base: &TableSchema,
    evidence: &Evidence,
    guess: Option<&TableSchema>,
    rescue_column: &str,
    day: Day,
) -> TableSchema {
    let mut schema = base.clone();
    let mut maker = Maker { next_id: base.next_id, day, rescue_column };
    let limits = evidence.limits();
    let mut decider = Decider { evidence, types: HashMap::new(), leaves: Vec::new() };
    decider.plan_members(0, base.columns.len(), &base.columns, limits);
    // The budget goes to the first leaf paths of the input.
    let room = limits.max_columns.saturating_sub(base.leaves());
    let mut leaves = std::mem::take(&mut decider.leaves);
    leaves.sort_unstable();
    if let Some(&first_over) = leaves.get(room) {
        decider.drop_from(first_over);
    }
    decider.grow(0, &mut schema.columns, guess.map(|guess| guess.columns.as_slice()), &mut maker, true);
    schema.next_id = maker.next_id;
    schema
}

/// What a path without a column becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planned {
    Boolean,
    Int64,
    Double,
    Text,
    Struct,
    List,
}

struct Decider<'a> {
    evidence: &'a Evidence,
    /// The paths that become columns.
    types: HashMap<u32, Planned>,
    /// The nodes of new leaves.
    leaves: Vec<u32>,
}

impl Decider<'_> {
    /// Plans the new members of a struct that has `existing` already, and goes into those that are pinned.
    fn plan_members(&mut self, node: u32, existing: usize, columns: &[Column], limits: Limits) -> bool {
        let Some(members) = self.evidence.node(node).map(|node| node.members.clone()) else { return false };
        let mut fields = existing;
        let mut any = false;
        for member in members {
            if self.evidence.is_pinned(member) {
                let key = self.evidence.node(member).map_or("", |node| &node.key);
                if let Some(column) = columns.iter().find(|column| column.role == Role::Value && column.key() == key) {
                    self.plan_inside(member, column, limits);
                    let fraction = self.evidence.node(member).is_some_and(|node| node.kinds.not_int64 > 0);
                    if fraction && column.column_type == Type::Int64 {
                        self.leaves.push(member);
                        self.types.insert(member, Planned::Double);
                    }
                }
            } else if fields < limits.max_fields && self.plan(member, limits) {
                fields += 1;
                any = true;
            }
        }
        any
    }

    fn plan_inside(&mut self, node: u32, column: &Column, limits: Limits) {
        match &column.column_type {
            Type::Struct(members) => {
                self.plan_members(node, members.len(), members, limits);
            }
            Type::List(element) => {
                if let Some(inner) = self.evidence.node(node).and_then(|node| node.element) {
                    self.plan_inside(inner, element, limits);
                }
            }
            _ => {}
        }
    }

    /// Plans a new path; says whether it becomes a column.
    fn plan(&mut self, at: u32, limits: Limits) -> bool {
        let Some(node) = self.evidence.node(at) else { return false };
        let Some(kind) = node.kinds.majority() else { return false };
        let planned = match kind {
            Kind::Number if node.kinds.not_int64 == 0 => Planned::Int64,
            Kind::Number => Planned::Double,
            Kind::Text => Planned::Text,
            Kind::Boolean => Planned::Boolean,
            Kind::Object => Planned::Struct,
            Kind::List => Planned::List,
        };
        let becomes = match planned {
            Planned::Struct => self.plan_members(at, 0, &[], limits),
            Planned::List => node.element.is_some_and(|element| self.plan(element, limits)),
            _ => {
                self.leaves.push(at);
                true
            }
        };
        if becomes {
            self.types.insert(at, planned);
        }
        becomes
    }

    /// Takes the leaves from `first` on out, and what is left empty by that.
    fn drop_from(&mut self, first: u32) {
        self.types.retain(|&at, planned| matches!(planned, Planned::Struct | Planned::List) || at < first);
        loop {
            let empty: Vec<u32> = self
                .types
                .iter()
                .filter(|(at, planned)| {
                    let node = self.evidence.node(**at);
                    match planned {
                        Planned::Struct => {
                            !node.is_some_and(|node| node.members.iter().any(|member| self.types.contains_key(member)))
                        }
                        Planned::List => {
                            !node.and_then(|node| node.element).is_some_and(|element| self.types.contains_key(&element))
                        }
                        _ => false,
                    }
                })
                .map(|(at, _)| *at)
                .collect();
            if empty.is_empty() {
                return;
            }
            for at in empty {
                self.types.remove(&at);
            }
        }
    }

    /// Adds the planned members of `node` to `columns`, and grows those that are there.
    fn grow(&self, node: u32, columns: &mut Vec<Column>, guess: Option<&[Column]>, maker: &mut Maker<'_>, top: bool) {
        let Some(members) = self.evidence.node(node).map(|node| node.members.as_slice()) else { return };
        let guessed = |key: &str| guess?.iter().find(|column| column.role == Role::Value && column.key() == key);
        let mut siblings = Vec::new();
        for &member in members.iter().filter(|member| self.evidence.is_pinned(**member)) {
            let Some(key) = self.evidence.node(member).map(|node| node.key.as_str()) else { continue };
            if let Some(column) = columns.iter_mut().find(|column| column.role == Role::Value && column.key() == key) {
                self.grow_inside(member, column, guessed(key), maker);
                if column.column_type == Type::Int64 && self.types.contains_key(&member) {
                    siblings.push((column.name.clone(), key.to_owned()));
                }
            }
        }
        for (name, key) in siblings {
            let name = free_name(format!("{name}_double"), &key, |name| is_taken(columns, name));
            let column = maker.column(name, key, Role::Double, Type::Double);
            columns.push(column);
        }
        let position = |member: &u32| {
            let key = self.evidence.node(*member).map_or("", |node| node.key.as_str());
            guess
                .and_then(|guess| guess.iter().position(|column| column.role == Role::Value && column.key() == key))
                .unwrap_or(usize::MAX)
        };
        let mut new: Vec<u32> = members
            .iter()
            .filter(|member| !self.evidence.is_pinned(**member) && self.types.contains_key(member))
            .copied()
            .collect();
        new.sort_by_key(position);
        for member in new {
            let Some(key) = self.evidence.node(member).map(|node| node.key.clone()) else { continue };
            let wanted = column_name(&key, top.then_some(maker.rescue_column));
            let name = free_name(wanted, &key, |name| is_taken(columns, name));
            let guess = guessed(&key).map(|column| &column.column_type);
            // The id is taken before those inside, so that ids run in file order.
            let mut column = maker.column(name, key, Role::Value, Type::String);
            column.column_type = self.new_type(member, guess, maker);
            columns.push(column);
        }
    }

    fn grow_inside(&self, node: u32, column: &mut Column, guess: Option<&Column>, maker: &mut Maker<'_>) {
        match &mut column.column_type {
            Type::Struct(members) => {
                let guess = match guess.map(|guess| &guess.column_type) {
                    Some(Type::Struct(members)) => Some(members.as_slice()),
                    _ => None,
                };
                self.grow(node, members, guess, maker, false);
            }
            Type::List(element) => {
                let guess = match guess.map(|guess| &guess.column_type) {
                    Some(Type::List(element)) => Some(&**element),
                    _ => None,
                };
                if let Some(inner) = self.evidence.node(node).and_then(|node| node.element) {
                    self.grow_inside(inner, element, guess, maker);
                }
            }
            _ => {}
        }
    }

    fn new_type(&self, at: u32, guess: Option<&Type>, maker: &mut Maker<'_>) -> Type {
        match self.types.get(&at) {
            Some(Planned::Boolean) => Type::Boolean,
            Some(Planned::Int64) => Type::Int64,
            Some(Planned::Double) => Type::Double,
            Some(Planned::Text) | None => Type::String,
            Some(Planned::Struct) => {
                let mut members = Vec::new();
                let guess = match guess {
                    Some(Type::Struct(members)) => Some(members.as_slice()),
                    _ => None,
                };
                self.grow(at, &mut members, guess, maker, false);
                Type::Struct(members)
            }
            Some(Planned::List) => {
                let mut element = maker.column("element".to_owned(), "element".to_owned(), Role::Value, Type::String);
                let guess = match guess {
                    Some(Type::List(element)) => Some(&element.column_type),
                    _ => None,
                };
                if let Some(inner) = self.evidence.node(at).and_then(|node| node.element) {
                    element.column_type = self.new_type(inner, guess, maker);
                }
                Type::List(Box::new(element))
            }
        }
    }
}

fn is_taken(columns: &[Column], name: &str) -> bool {
    columns.iter().any(|column| column.name.eq_ignore_ascii_case(name))
}

/// Makes columns, and gives field ids.
struct Maker<'a> {
    next_id: i32,
    day: Day,
    rescue_column: &'a str,
}

impl Maker<'_> {
    fn column(&mut self, name: String, key: String, role: Role, column_type: Type) -> Column {
        let id = self.next_id;
        self.next_id += 1;
        let original = (key != name).then_some(key);
        Column { name, original, id, role, declared: false, since: self.day, column_type }
    }

    fn own(&mut self, name: &str, role: Role, column_type: Type) -> Column {
        self.column(name.to_owned(), name.to_owned(), role, column_type)
    }

    /// The position of the column that `key` fills, added if there is none: with the declared type, or as a struct to be filled.
    fn declare(&mut self, columns: &mut Vec<Column>, key: &str, declared: Option<&DeclaredType>, top: bool) -> usize {
        let folded = key.to_lowercase();
        let found = columns.iter().position(|column| column.role == Role::Value && column.key().to_lowercase() == folded);
        if let Some(found) = found {
            return found;
        }
        let wanted = column_name(key, top.then_some(self.rescue_column));
        let name = free_name(wanted, key, |name| is_taken(columns, name));
        let mut column = self.column(name, key.to_owned(), Role::Value, Type::Struct(Vec::new()));
        if let Some(declared) = declared {
            column.column_type = self.declared_type(declared);
        }
        column.declared = true;
        columns.push(column);
        columns.len() - 1
    }

    fn declared_type(&mut self, declared: &DeclaredType) -> Type {
        match declared {
            DeclaredType::Boolean => Type::Boolean,
            DeclaredType::Int64 => Type::Int64,
            DeclaredType::Double => Type::Double,
            DeclaredType::String => Type::String,
            DeclaredType::Timestamp => Type::Timestamp,
            DeclaredType::List(inner) => {
                let mut element = self.own("element", Role::Value, Type::String);
                element.column_type = self.declared_type(inner);
                element.declared = true;
                Type::List(Box::new(element))
            }
            DeclaredType::Struct(members) => {
                let mut columns = Vec::new();
                for (key, member) in members {
                    self.declare(&mut columns, key, Some(member), false);
                }
                Type::Struct(columns)
            }
        }
    }

    /// Checks that a column has the declared type, and adds the members that a declared struct has more. `Err` names the pinned type.
    fn match_declared(&mut self, column: &mut Column, declared: &DeclaredType) -> Result<(), String> {
        match (&mut column.column_type, declared) {
            (Type::Boolean, DeclaredType::Boolean)
            | (Type::Int64, DeclaredType::Int64)
            | (Type::Double, DeclaredType::Double)
            | (Type::String, DeclaredType::String)
            | (Type::Timestamp, DeclaredType::Timestamp) => {}
            (Type::List(element), DeclaredType::List(inner)) => self.match_declared(element, inner)?,
            (Type::Struct(members), DeclaredType::Struct(wanted)) => {
                for (key, member) in wanted {
                    let at = self.declare(members, key, Some(member), false);
                    if let Some(column) = members.get_mut(at) {
                        self.match_declared(column, member)?;
                    }
                }
            }
            (pinned, _) => return Err(pinned.name()),
        }
        column.declared = true;
        Ok(())
    }
}
