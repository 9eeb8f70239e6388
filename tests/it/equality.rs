//! When a landed record is the staged one: the equality of Dayport's tables, defined here and nowhere else in Rust.
//!
//! JSON values with numbers of any size by value, less null, `{}` and `[]` and what contains only those; declared timestamps as instants
//! cut to microseconds; a value in a string column by its JSON text; a literal string in a declared column by its value; a fraction in a
//! double column by its nearest double; what the rescue column holds, put back at its pointers; an integer column's double sibling as a
//! second home of the same number. `tests/readers/equality.py` says the same for readers in Python.

use dayport::domain::schema::Role;
use dayport::records::time::{parse_number, parse_text};
use dayport::run::manifest::ManifestColumn;

use crate::json::{Json, same_number};
use crate::landed::{Row, Value};

/// A column as the manifest tells it, with those inside it.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    /// The key that fills it.
    pub key: String,
    pub column_type: String,
    pub role: Role,
    pub declared: bool,
    pub id: i32,
    pub inside: Vec<Column>,
}

/// The columns of a table as a tree.
pub fn tree(columns: &[ManifestColumn]) -> Vec<Column> {
    let mut roots: Vec<Column> = Vec::new();
    for column in columns {
        let mut level = &mut roots;
        let parts: Vec<&str> = column.path.split('.').collect();
        for part in &parts[..parts.len() - 1] {
            level = &mut level.iter_mut().find(|column| column.name == *part).unwrap().inside;
        }
        let name = (*parts.last().unwrap()).to_owned();
        level.push(Column {
            key: column.original.clone().unwrap_or_else(|| name.clone()),
            name,
            column_type: column.column_type.clone(),
            role: column.role.unwrap_or_default(),
            declared: column.declared,
            id: column.id,
            inside: Vec::new(),
        });
    }
    roots
}

/// Every difference between a staged record and its landed row, as text; none where they are equal.
pub fn differences(columns: &[Column], record: &Json, row: &Row) -> Vec<String> {
    let rescue = columns.iter().find(|column| column.role == Role::Rescue).expect("a rescue column");
    let mut comparison = Comparison { rescued: Vec::new(), differences: Vec::new() };
    match get(row, &rescue.name) {
        Value::Null => {}
        Value::Text(text) => match Json::parse(text) {
            Some(Json::Object(members)) if !members.is_empty() => comparison.rescued = members,
            _ => comparison.differ("the rescue column", "an object", text),
        },
        other => comparison.differ("the rescue column", "a text", other),
    }
    comparison.members(columns, record, row, "", false);
    for (pointer, value) in std::mem::take(&mut comparison.rescued) {
        comparison.differ(&pointer, "no such value was staged", value);
    }
    comparison.differences
}

fn get<'v>(row: &'v Row, name: &str) -> &'v Value {
    &row.iter().find(|(column, _)| column == name).unwrap_or_else(|| panic!("no column {name}")).1
}

struct Comparison {
    /// What the rescue column holds and nobody has asked for yet.
    rescued: Vec<(String, Json)>,
    differences: Vec<String>,
}

impl Comparison {
    fn differ(&mut self, at: &str, staged: impl std::fmt::Debug, landed: impl std::fmt::Debug) {
        self.differences.push(format!("at `{at}`: staged {staged:?}, landed {landed:?}"));
    }

    fn members(&mut self, columns: &[Column], record: &Json, row: &Row, above: &str, in_list: bool) {
        let Json::Object(members) = record else { return self.differ(above, record, row) };
        let mut filled: Vec<&str> = Vec::new();
        for (key, value) in members {
            let pointer = format!("{above}/{}", key.replace('~', "~0").replace('/', "~1"));
            if let Some(at) = self.rescued.iter().position(|(rescued, _)| *rescued == pointer) {
                let (_, rescued) = self.rescued.remove(at);
                if in_list || !rescued.is_same(value) {
                    self.differ(&pointer, value, rescued);
                }
                continue;
            }
            let mut values = columns.iter().filter(|column| column.role == Role::Value);
            let exact = values.clone().find(|column| column.key == *key);
            // A key that equals a column's but for case fills it only if the column's own key is absent.
            let home = exact.or_else(|| {
                values.find(|column| column.key.to_lowercase() == key.to_lowercase() && record.get(&column.key).is_none())
            });
            let Some(home) = home else {
                if !value.is_nothing() {
                    self.differ(&pointer, value, "neither a column nor rescued");
                }
                continue;
            };
            if filled.contains(&home.name.as_str()) {
                if !value.is_nothing() {
                    self.differ(&pointer, value, "its column holds another key's value");
                }
                continue;
            }
            if *value != Json::Null {
                filled.push(&home.name);
            }
            let sibling = columns.iter().find(|column| column.role == Role::Double && column.key == home.key);
            match (value, sibling) {
                (Json::Number(number), Some(sibling)) => {
                    filled.push(&sibling.name);
                    let homes = [get(row, &home.name), get(row, &sibling.name)];
                    let homes: Vec<&Value> = homes.into_iter().filter(|value| **value != Value::Null).collect();
                    if homes.is_empty() || !homes.iter().all(|value| is_number(number, value)) {
                        self.differ(&pointer, value, homes);
                    }
                }
                _ => self.value(home, value, get(row, &home.name), &pointer, in_list),
            }
        }
        for column in columns.iter().filter(|column| matches!(column.role, Role::Value | Role::Double)) {
            let value = get(row, &column.name);
            if !filled.contains(&column.name.as_str()) && !value.is_nothing() {
                self.differ(&format!("{above}/{}", column.name), "nothing", value);
            }
        }
    }

    fn value(&mut self, column: &Column, staged: &Json, landed: &Value, at: &str, in_list: bool) {
        let same = match (column.column_type.as_str(), staged, landed) {
            ("string", Json::Null, Value::Null) => true,
            ("string", Json::Text(text), Value::Text(landed)) => text == landed,
            ("string", other, Value::Text(landed)) => Json::parse(landed).is_some_and(|landed| landed.is_same(other)),
            ("struct", Json::Object(_), Value::Struct(row)) => return self.members(&column.inside, staged, row, at, in_list),
            (list, Json::List(staged), Value::List(landed)) if list.starts_with("list<") && staged.len() == landed.len() => {
                for (nth, (staged, landed)) in staged.iter().zip(landed).enumerate() {
                    self.value(&column.inside[0], staged, landed, &format!("{at}/{nth}"), true);
                }
                return;
            }
            ("boolean", Json::Bool(staged), Value::Bool(landed)) => staged == landed,
            ("boolean", Json::Text(text), Value::Bool(landed)) => column.declared && *text == landed.to_string(),
            ("timestamp", Json::Text(text), Value::Time(micros)) => parse_text(text.as_bytes()) == Some(*micros),
            ("timestamp", Json::Number(number), Value::Time(micros)) => parse_number(number) == Some(*micros),
            ("int64" | "double", Json::Number(number), landed) => is_number(number, landed),
            ("int64" | "double", Json::Text(text), landed) if column.declared => {
                matches!(Json::parse(text), Some(Json::Number(number)) if number == *text && is_number(&number, landed))
            }
            (_, staged, landed) => staged.is_nothing() && landed.is_nothing(),
        };
        if !same {
            self.differ(at, staged, landed);
        }
    }
}

/// Whether a number's text is the landed integer or double.
fn is_number(staged: &str, landed: &Value) -> bool {
    let is_plain = !staged.contains(['.', 'e', 'E']);
    match landed {
        Value::Int(landed) => same_number(staged, &landed.to_string()),
        // All digits of the double's exact value.
        Value::Double(landed) if is_plain => landed.is_finite() && same_number(staged, &format!("{landed:.0}")),
        Value::Double(landed) => landed.is_finite() && staged.parse::<f64>().is_ok_and(|staged| staged == *landed),
        _ => false,
    }
}
