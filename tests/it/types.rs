//! Which columns a day must get: a model that counts all values, written from the contract and not from the code.

use dayport::domain::schema::Role;

use crate::equality::Column;
use crate::json::{Json, int64_of, is_fraction};

/// What was seen at a path.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    numbers: u64,
    texts: u64,
    booleans: u64,
    objects: u64,
    lists: u64,
    all_int64: bool,
    fraction: bool,
    members: Vec<(String, Seen)>,
    element: Option<Box<Seen>>,
}

/// A column's type as a tree; members under their keys without case.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    Scalar(&'static str),
    List(Box<Wanted>),
    Struct(Vec<(String, Wanted)>),
}

impl Seen {
    pub fn new() -> Seen {
        Seen { all_int64: true, ..Seen::default() }
    }

    /// Counts a value; null, `{}`, `[]` and what contains only those say nothing.
    pub fn observe(&mut self, value: &Json) {
        match value {
            nothing if nothing.is_nothing() => {}
            Json::Null => {}
            Json::Bool(_) => self.booleans += 1,
            Json::Text(_) => self.texts += 1,
            Json::Number(number) => {
                self.numbers += 1;
                self.all_int64 &= int64_of(number).is_some();
                self.fraction |= is_fraction(number);
            }
            Json::Object(members) => {
                self.objects += 1;
                for (key, value) in members.iter().filter(|(_, value)| !value.is_nothing()) {
                    let key = key.to_lowercase();
                    let at = self.members.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                        self.members.push((key, Seen::new()));
                        self.members.len() - 1
                    });
                    self.members[at].1.observe(value);
                }
            }
            Json::List(elements) => {
                self.lists += 1;
                let element = self.element.get_or_insert_with(|| Box::new(Seen::new()));
                elements.iter().for_each(|value| element.observe(value));
            }
        }
    }

    /// The type that most values decide; none where there are no values, or none that could be a column.
    fn wanted(&self) -> Option<Wanted> {
        let counts = [self.numbers, self.texts, self.booleans, self.objects, self.lists];
        let most = *counts.iter().max()?;
        if most == 0 {
            return None;
        }
        let leaders = counts.iter().filter(|count| **count == most).count();
        Some(match counts.iter().position(|count| *count == most)? {
            _ if leaders > 1 => Wanted::Scalar("string"),
            0 if self.all_int64 => Wanted::Scalar("int64"),
            0 => Wanted::Scalar("double"),
            1 => Wanted::Scalar("string"),
            2 => Wanted::Scalar("boolean"),
            3 => {
                let members: Vec<_> = self.members.iter().filter_map(|(key, seen)| Some((key.clone(), seen.wanted()?))).collect();
                (!members.is_empty()).then_some(Wanted::Struct(members))?
            }
            _ => Wanted::List(Box::new(self.element.as_ref()?.wanted()?)),
        })
    }
}

/// Every column that should be there and is not, is there and should not be, or has another type than most values have.
pub fn mistakes(seen: &Seen, before: &[Column], columns: &[Column]) -> Vec<String> {
    let mut mistakes = Vec::new();
    members(seen, before, columns, "", false, &mut mistakes);
    mistakes
}

fn find<'c>(columns: &'c [Column], key: &str, role: Role) -> Option<&'c Column> {
    columns.iter().find(|column| column.role == role && column.key.to_lowercase() == *key)
}

fn members(seen: &Seen, before: &[Column], columns: &[Column], at: &str, in_list: bool, mistakes: &mut Vec<String>) {
    for (key, seen) in &seen.members {
        let at = format!("{at}/{key}");
        let found = find(columns, key, Role::Value);
        let Some(pinned) = find(before, key, Role::Value) else {
            let found = found.map(shape);
            let wanted = seen.wanted();
            if found != wanted.clone().map(sorted) {
                mistakes.push(format!("at `{at}`: {found:?}, though the values say {wanted:?}"));
            }
            continue;
        };
        let Some(found) = found else {
            mistakes.push(format!("at `{at}`: a pinned column is gone"));
            continue;
        };
        inside(seen, pinned, found, &at, in_list, mistakes);
        let had = find(before, key, Role::Double).is_some();
        let wants = had || (seen.fraction && pinned.column_type == "int64" && !pinned.declared && !in_list);
        if find(columns, key, Role::Double).is_some() != wants {
            mistakes.push(format!("at `{at}`: a double sibling {}", if wants { "is missing" } else { "that nobody asked for" }));
        }
    }
    for column in columns
        .iter()
        .filter(|column| column.role == Role::Value && find(before, &column.key.to_lowercase(), Role::Value).is_none())
    {
        if !seen.members.iter().any(|(key, _)| *key == column.key.to_lowercase()) {
            mistakes.push(format!("at `{at}`: `{}` has no values", column.key));
        }
    }
}

fn inside(seen: &Seen, pinned: &Column, found: &Column, at: &str, in_list: bool, mistakes: &mut Vec<String>) {
    match pinned.column_type.as_str() {
        "struct" => members(seen, &pinned.inside, &found.inside, at, in_list, mistakes),
        list if list.starts_with("list<") => {
            if let Some(element) = &seen.element {
                inside(element, &pinned.inside[0], &found.inside[0], &format!("{at}/element"), true, mistakes);
            }
        }
        _ => {}
    }
}

fn shape(column: &Column) -> Wanted {
    match column.column_type.as_str() {
        "struct" => {
            sorted(Wanted::Struct(column.inside.iter().map(|column| (column.key.to_lowercase(), shape(column))).collect()))
        }
        list if list.starts_with("list<") => Wanted::List(Box::new(shape(&column.inside[0]))),
        "boolean" => Wanted::Scalar("boolean"),
        "int64" => Wanted::Scalar("int64"),
        "double" => Wanted::Scalar("double"),
        "timestamp" => Wanted::Scalar("timestamp"),
        _ => Wanted::Scalar("string"),
    }
}

fn sorted(wanted: Wanted) -> Wanted {
    match wanted {
        Wanted::Struct(mut members) => {
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            Wanted::Struct(members.into_iter().map(|(key, member)| (key, sorted(member))).collect())
        }
        Wanted::List(element) => Wanted::List(Box::new(sorted(*element))),
        scalar => scalar,
    }
}
