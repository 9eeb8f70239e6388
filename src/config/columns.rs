//! Declared columns: `NAME = TYPE`, where a dotted name is a path and a table is a struct.

use toml::de::{DeTable, DeValue};

use super::values::{Ruled, printable, shown};
use super::written::{Fields, in_order};
use crate::domain::error::{Error, Result};
use crate::domain::schema::{Declared, DeclaredType};
use crate::domain::settings::Parquet;
use crate::domain::spelling::nearest;

/// The most levels of a declared name or type; no `max_column_depth` allows more.
const DEEPEST: usize = 64;
const TYPES: [&str; 6] = ["boolean", "int64", "double", "string", "timestamp", "list"];

/// Columns as a tree: the members of the record, or of a struct in it, in the order in which they were first named.
#[derive(Clone, Default)]
pub(super) struct Members(Vec<Member>);

#[derive(Clone)]
struct Member {
    key: String,
    /// Whether it comes from `[event_tables]` and is only here to be compared with.
    shared: bool,
    shape: Shape,
}

#[derive(Clone)]
enum Shape {
    Leaf(DeclaredType),
    Struct(Members),
}

/// A path and the type of its value, which is no struct.
type Leaf = (Vec<String>, DeclaredType);

/// The columns that a section declares beside the `shared` ones: all of them as a tree, and its own as a list.
///
/// A struct is given as its members' paths, so that `properties = { price = "double" }` and `"properties.price" = "double"` are the
/// same; only inside a list does a struct stay one.
pub(super) fn read(fields: &Fields<'_>, limits: &Parquet, shared: &Members) -> (Members, Vec<Declared>) {
    let mut all = shared.clone();
    let Some((_, value)) = fields.written("columns") else {
        return (all, Vec::new());
    };
    let Some(table) = value.as_table() else {
        fields
            .mistake("columns", format!("is {}, write a table such as `{{ \"properties.price\" = \"double\" }}`", shown(value)));
        return (all, Vec::new());
    };
    add_table(fields, limits, table, &mut all);
    let leaves = all.leaves();
    if leaves > limits.max_columns {
        fields.mistake(
            "columns",
            format!("has {leaves} leaf columns, `max_columns` allows {}: declare fewer or raise it", limits.max_columns),
        );
    }
    let mut own = Vec::new();
    all.collect_own(&mut Vec::new(), &mut own);
    (all, own)
}

fn add_table(fields: &Fields<'_>, limits: &Parquet, table: &DeTable<'_>, all: &mut Members) {
    for (key, value) in in_order(Some(table)) {
        let mistake = |what: &str| {
            let message = format!("column `{}` in {} {what}", printable(key.get_ref()), fields.label);
            fields.report.add(Some(key.span().start), message);
        };
        let mut leaves = Vec::new();
        let flattened = parse_name(key.get_ref()).and_then(|path| flatten(path, value.get_ref(), &mut leaves));
        if let Err(what) = flattened {
            mistake(&what);
            continue;
        }
        for (path, column_type) in leaves {
            let depth = path.len() + type_depth(&column_type) - 1;
            if depth > limits.max_column_depth {
                let most = limits.max_column_depth;
                mistake(&format!("is {depth} levels deep, `max_column_depth` allows {most}: declare a level above or raise it"));
            } else if let Err(what) = all.insert(&path, column_type) {
                mistake(&what);
            } else if all.most_members(&path) > limits.max_fields {
                mistake(&format!(
                    "is one key too many in its struct, `max_fields` allows {}: declare fewer or raise it",
                    limits.max_fields
                ));
            }
        }
    }
}

impl Members {
    /// The same columns, marked as those of `[event_tables]`.
    pub(super) fn as_shared(&self) -> Members {
        let share = |member: &Member| {
            let shape = match &member.shape {
                Shape::Leaf(column_type) => Shape::Leaf(column_type.clone()),
                Shape::Struct(members) => Shape::Struct(members.as_shared()),
            };
            Member { key: member.key.clone(), shared: true, shape }
        };
        Members(self.0.iter().map(share).collect())
    }

    fn insert(&mut self, path: &[String], column_type: DeclaredType) -> Ruled<()> {
        let [key, rest @ ..] = path else {
            return Ok(());
        };
        let lower = key.to_lowercase();
        if let Some(other) = self.0.iter().find(|member| member.key != *key && member.key.to_lowercase() == lower) {
            let (key, other) = (printable(key), printable(&other.key));
            return Err(format!("has `{key}`, which differs from `{other}` only in case, keep one of the two"));
        }
        match self.0.iter_mut().find(|member| member.key == *key) {
            None => {
                let shape = if rest.is_empty() {
                    Shape::Leaf(column_type)
                } else {
                    let mut inner = Members::default();
                    inner.insert(rest, column_type)?;
                    Shape::Struct(inner)
                };
                self.0.push(Member { key: key.clone(), shared: false, shape });
                Ok(())
            }
            Some(member) => {
                let key = printable(key);
                match &mut member.shape {
                    Shape::Struct(inner) if !rest.is_empty() => inner.insert(rest, column_type),
                    Shape::Struct(_) => {
                        Err(format!("declares `{key}` as {}, and it is a struct already, keep one", type_text(&column_type)))
                    }
                    Shape::Leaf(before) if !rest.is_empty() => {
                        Err(format!("declares `{key}` as a struct, and it is {} already, keep one", type_text(before)))
                    }
                    Shape::Leaf(_) if member.shared => {
                        Err("is declared for every event table already, leave it out here".to_owned())
                    }
                    Shape::Leaf(_) => Err("is declared twice, keep one".to_owned()),
                }
            }
        }
    }

    /// The members of the fullest struct along a path, the record itself aside.
    fn most_members(&self, path: &[String]) -> usize {
        let [key, rest @ ..] = path else {
            return 0;
        };
        match self.0.iter().find(|member| member.key == *key).map(|member| &member.shape) {
            Some(Shape::Struct(inner)) => inner.0.len().max(inner.most_members(rest)),
            Some(Shape::Leaf(column_type)) => type_members(column_type),
            None => 0,
        }
    }

    fn leaves(&self) -> usize {
        let leaves = |member: &Member| match &member.shape {
            Shape::Leaf(column_type) => type_leaves(column_type),
            Shape::Struct(members) => members.leaves(),
        };
        self.0.iter().map(leaves).sum()
    }

    fn collect_own(&self, above: &mut Vec<String>, own: &mut Vec<Declared>) {
        for member in &self.0 {
            above.push(member.key.clone());
            match &member.shape {
                Shape::Struct(members) => members.collect_own(above, own),
                Shape::Leaf(column_type) if !member.shared => {
                    own.push(Declared { path: above.clone(), column_type: column_type.clone() });
                }
                Shape::Leaf(_) => {}
            }
            above.pop();
        }
    }

    fn into_type(self) -> DeclaredType {
        let of = |member: Member| match member.shape {
            Shape::Leaf(column_type) => (member.key, column_type),
            Shape::Struct(members) => (member.key, members.into_type()),
        };
        DeclaredType::Struct(self.0.into_iter().map(of).collect())
    }
}

/// A type in the words of the configuration, in backticks; a struct is just that.
fn type_text(column_type: &DeclaredType) -> &'static str {
    match column_type {
        DeclaredType::Boolean => "`boolean`",
        DeclaredType::Int64 => "`int64`",
        DeclaredType::Double => "`double`",
        DeclaredType::String => "`string`",
        DeclaredType::Timestamp => "`timestamp`",
        DeclaredType::List(_) => "a list",
        DeclaredType::Struct(_) => "a struct",
    }
}

fn type_depth(column_type: &DeclaredType) -> usize {
    match column_type {
        DeclaredType::List(element) => 1 + type_depth(element),
        DeclaredType::Struct(members) => 1 + members.iter().map(|(_, member)| type_depth(member)).max().unwrap_or(0),
        _ => 1,
    }
}

fn type_leaves(column_type: &DeclaredType) -> usize {
    match column_type {
        DeclaredType::List(element) => type_leaves(element),
        DeclaredType::Struct(members) => members.iter().map(|(_, member)| type_leaves(member)).sum(),
        _ => 1,
    }
}

/// The members of the fullest struct in a type.
fn type_members(column_type: &DeclaredType) -> usize {
    match column_type {
        DeclaredType::List(element) => type_members(element),
        DeclaredType::Struct(members) => {
            members.iter().map(|(_, member)| type_members(member)).max().unwrap_or(0).max(members.len())
        }
        _ => 0,
    }
}

/// The columns that `NAME=TYPE` declares, both as in the configuration: several where TYPE is a struct.
///
/// Fails with kind `Vendor` and what is wrong with it.
pub fn parse_column(text: &str, limits: &Parquet) -> Result<Vec<Declared>> {
    let mistake = |what: String| Error::vendor(format!("column `{}` {what}", printable(text)));
    let mut is_quoted = false;
    let equals = text.char_indices().find(|(_, letter)| {
        is_quoted ^= *letter == '"';
        *letter == '=' && !is_quoted
    });
    let Some((name, column_type)) = equals.and_then(|(at, _)| Some((text.get(..at)?, text.get(at + 1..)?))) else {
        return Err(mistake("has no type, write it like `properties.price=double`".to_owned()));
    };
    let mut leaves = Vec::new();
    let path = parse_name(name.trim()).map_err(mistake)?;
    flatten_type(path, parse_type(column_type.trim()).map_err(mistake)?, &mut leaves);
    let too_deep = leaves.iter().map(|(path, column_type)| path.len() + type_depth(column_type) - 1).max().unwrap_or_default();
    if too_deep > limits.max_column_depth {
        let most = limits.max_column_depth;
        return Err(mistake(format!(
            "is {too_deep} levels deep, `max_column_depth` allows {most}: declare a level above or raise it"
        )));
    }
    Ok(leaves.into_iter().map(|(path, column_type)| Declared { path, column_type }).collect())
}

/// The leaves of a written value: a type in words, or a table of them.
fn flatten(path: Vec<String>, value: &DeValue<'_>, leaves: &mut Vec<Leaf>) -> Ruled<()> {
    if path.len() > DEEPEST {
        return Err(format!("is nested deeper than {DEEPEST} levels, declare a level above"));
    }
    match value {
        DeValue::String(text) => {
            flatten_type(path, parse_type(text)?, leaves);
            Ok(())
        }
        DeValue::Table(table) if table.is_empty() => Err("is an empty struct, name a member".to_owned()),
        DeValue::Table(table) => {
            for (key, inner) in in_order(Some(table)) {
                let mut inner_path = path.clone();
                inner_path.extend(parse_name(key.get_ref())?);
                flatten(inner_path, inner.get_ref(), leaves)?;
            }
            Ok(())
        }
        _ => Err(format!("is {}, write a type such as `\"double\"` or a table for a struct", shown(value))),
    }
}

fn flatten_type(path: Vec<String>, column_type: DeclaredType, leaves: &mut Vec<Leaf>) {
    let DeclaredType::Struct(members) = column_type else {
        leaves.push((path, column_type));
        return;
    };
    for (key, member) in members {
        let mut inner_path = path.clone();
        inner_path.push(key);
        flatten_type(inner_path, member, leaves);
    }
}

/// The keys of a column's name: parts between dots; a part in double quotes is one key, whatever it holds.
fn parse_name(text: &str) -> Ruled<Vec<String>> {
    let mut cursor = Cursor { rest: text };
    let path = cursor.path()?;
    if cursor.rest.is_empty() { Ok(path) } else { Err("has a `=` in its name, put that part in double quotes".to_owned()) }
}

fn parse_type(text: &str) -> Ruled<DeclaredType> {
    let mut cursor = Cursor { rest: text };
    let column_type = cursor.column_type(0)?;
    cursor.skip_space();
    if cursor.rest.is_empty() {
        Ok(column_type)
    } else {
        Err(format!("has `{}` after its type, leave it out", printable(cursor.rest)))
    }
}

/// A reader of names and types.
struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn take_until(&mut self, is_end: impl Fn(char) -> bool) -> &'t str {
        let length = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn path(&mut self) -> Ruled<Vec<String>> {
        let mut parts = Vec::new();
        loop {
            if parts.len() == DEEPEST {
                return Err(format!("is nested deeper than {DEEPEST} levels, declare a level above"));
            }
            parts.push(self.part()?);
            if !self.take('.') {
                return Ok(parts);
            }
        }
    }

    fn part(&mut self) -> Ruled<String> {
        if self.take('"') {
            return self.quoted();
        }
        let part = self.take_until(|c| matches!(c, '.' | '"' | '=')).trim();
        if part.is_empty() || self.rest.starts_with('"') {
            return Err("has a part that is empty or half quoted, write a dotted path such as `properties.price`, or a whole part in double quotes".to_owned());
        }
        Ok(part.to_owned())
    }

    fn quoted(&mut self) -> Ruled<String> {
        let mut part = String::new();
        let mut characters = self.rest.chars();
        while let Some(character) = characters.next() {
            match character {
                '"' => {
                    self.rest = characters.as_str().trim_start();
                    if !self.rest.is_empty() && !self.rest.starts_with(['.', '=']) {
                        break;
                    }
                    return Ok(part);
                }
                '\\' => part.extend(characters.next()),
                _ => part.push(character),
            }
        }
        Err("has a quote that does not end its part, quote a whole part or none of it".to_owned())
    }

    fn column_type(&mut self, depth: usize) -> Ruled<DeclaredType> {
        if depth > DEEPEST {
            return Err(format!("is nested deeper than {DEEPEST} levels, declare a level above"));
        }
        if self.take('{') {
            return self.members(depth);
        }
        // TOML's habit of quoting every type is fine inside a list's struct too.
        if self.take('"') {
            let mut inner = Cursor { rest: self.take_until(|c| c == '"') };
            let column_type = inner.column_type(depth + 1)?;
            inner.skip_space();
            return if self.take('"') && inner.rest.is_empty() {
                Ok(column_type)
            } else {
                Err("has a quote too many or too few, write types bare".to_owned())
            };
        }
        self.skip_space();
        match self.take_until(|c| !c.is_alphanumeric() && c != '_' && c != '-') {
            "boolean" => Ok(DeclaredType::Boolean),
            "int64" => Ok(DeclaredType::Int64),
            "double" => Ok(DeclaredType::Double),
            "string" => Ok(DeclaredType::String),
            "timestamp" => Ok(DeclaredType::Timestamp),
            "list" => {
                let opened = self.take('<');
                let element = if opened { Some(self.column_type(depth + 1)?) } else { None };
                match element {
                    Some(element) if self.take('>') => Ok(DeclaredType::List(Box::new(element))),
                    _ => Err("has a list without its element, write `list<TYPE>` such as `list<string>`".to_owned()),
                }
            }
            "" => Err("has no type, write one of `boolean int64 double string timestamp list<TYPE>`".to_owned()),
            word => {
                let word = printable(word);
                let nearest = nearest(&word, TYPES.into_iter()).unwrap_or("string");
                let nearest = if nearest == "list" { "list<TYPE>" } else { nearest };
                Err(format!("has the unknown type `{word}`, did you mean `{nearest}`?"))
            }
        }
    }

    fn members(&mut self, depth: usize) -> Ruled<DeclaredType> {
        let mut members = Members::default();
        while !self.take('}') {
            if !members.0.is_empty() && !self.take(',') {
                return Err("has a struct whose members have no comma between them, write `{ a = int64, b = string }`".to_owned());
            }
            let path = self.path()?;
            if !self.take('=') {
                return Err("has a struct's member without a type, write `{ NAME = TYPE }`".to_owned());
            }
            let mut leaves = Vec::new();
            flatten_type(path, self.column_type(depth + 1)?, &mut leaves);
            for (path, column_type) in leaves {
                members.insert(&path, column_type)?;
            }
        }
        if members.0.is_empty() { Err("has an empty struct, name a member".to_owned()) } else { Ok(members.into_type()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dotted_name_is_a_path_and_a_quoted_part_is_one_key() {
        for (name, path) in [
            ("price", vec!["price"]),
            ("properties.price", vec!["properties", "price"]),
            (r#""a.b""#, vec!["a.b"]),
            (r#"properties."a.b".c"#, vec!["properties", "a.b", "c"]),
            (r#""say \"hi\" \\""#, vec![r#"say "hi" \"#]),
            (r#"x."""#, vec!["x", ""]),
            ("größe . Ünï code", vec!["größe", "Ünï code"]),
        ] {
            assert_eq!(parse_name(name).unwrap(), path, "{name}");
        }
        for name in ["", ".", "a.", ".a", "a..b", r#"a"b"#, r#""a"b"#, r#""a"#, "a=b", &"a.".repeat(100_000)] {
            assert!(parse_name(name).is_err(), "{}", printable(name));
        }
    }

    #[test]
    fn a_type_is_a_word_a_list_or_a_struct() {
        let list = |element| DeclaredType::List(Box::new(element));
        let member = |name: &str, column_type| (name.to_owned(), column_type);
        let tag = DeclaredType::Struct(vec![member("key", DeclaredType::String), member("value", list(DeclaredType::Int64))]);
        for (text, column_type) in [
            ("boolean", DeclaredType::Boolean),
            (" timestamp ", DeclaredType::Timestamp),
            ("list<double>", list(DeclaredType::Double)),
            ("list< list<string> >", list(list(DeclaredType::String))),
            ("list<{ key = string, value = list<int64> }>", list(tag.clone())),
            (r#"list<{ key = "string", "value" = "list<int64>" }>"#, list(tag)),
            (
                r#"list<{ a.b = int64, a."c.d" = string }>"#,
                list(DeclaredType::Struct(vec![member(
                    "a",
                    DeclaredType::Struct(vec![member("b", DeclaredType::Int64), member("c.d", DeclaredType::String)]),
                )])),
            ),
        ] {
            assert_eq!(parse_type(text).unwrap(), column_type, "{text}");
        }
        for text in [
            "",
            "list",
            "list<",
            "list<string",
            "list<>",
            "string>",
            "{}",
            "{ a = }",
            "{ a string }",
            "{ a = string b = string }",
            "{ a = string, A = string }",
            "\"string",
            "int 64",
        ] {
            assert!(parse_type(text).is_err(), "{text}");
        }
        assert!(parse_type(&"list<".repeat(100_000)).is_err());
        assert!(parse_type(&"{a=".repeat(100_000)).is_err());
        assert_eq!(parse_type("integer").unwrap_err(), "has the unknown type `integer`, did you mean `int64`?");
    }
}
