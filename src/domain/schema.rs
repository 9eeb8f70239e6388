//! A table's schema: pinned columns with stable positions, names, types and field ids.

use serde::{Deserialize, Serialize};

use super::run::Day;

/// A column type as declared in the configuration: `boolean int64 double string timestamp list<TYPE>` or a struct.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum DeclaredType {
    /// True or false.
    Boolean,
    /// A 64-bit signed integer.
    Int64,
    /// An IEEE 754 double.
    Double,
    /// UTF-8 text.
    String,
    /// Microseconds since 1970, adjusted to UTC.
    Timestamp,
    /// A list of one type.
    List(Box<DeclaredType>),
    /// Named members, in the order written.
    Struct(Vec<(String, DeclaredType)>),
}

/// One declared column: a path of keys from the record's top level, and its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Declared {
    /// The keys, outermost first; never empty.
    pub path: Vec<String>,
    /// The type of the value at the path.
    pub column_type: DeclaredType,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The value of its key.
    #[default]
    Value,
    /// The numbers of the `int64` column of the same key, as doubles: that column was learned before the first fraction came.
    Double,
    /// Values that did not fit, as a JSON object from JSON Pointer to the original value.
    Rescue,
    /// Pontoon's batch id.
    BatchId,
    /// Pontoon's transfer instant.
    LastSynced,
}

impl Role {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference to what it may skip")]
    fn is_value(&self) -> bool {
        *self == Role::Value
    }
}

/// A column's type, with the columns inside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// True or false.
    Boolean,
    /// A 64-bit signed integer.
    Int64,
    /// An IEEE 754 double.
    Double,
    /// UTF-8 text.
    String,
    /// Microseconds since 1970, adjusted to UTC.
    Timestamp,
    /// A three-level list; the element's name is `element`.
    List(Box<Column>),
    /// Members; never empty.
    Struct(Vec<Column>),
}

impl Type {
    /// The type in the words of the configuration; a struct is just `struct`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Type::Boolean => "boolean".to_owned(),
            Type::Int64 => "int64".to_owned(),
            Type::Double => "double".to_owned(),
            Type::String => "string".to_owned(),
            Type::Timestamp => "timestamp".to_owned(),
            Type::List(element) => format!("list<{}>", element.column_type.name()),
            Type::Struct(_) => "struct".to_owned(),
        }
    }
}

/// A pinned column. Once committed its name, position, type and field id never change; only a struct gains members, at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name in Parquet.
    pub name: String,
    /// Its key in the records, when that is not its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// Its Parquet field id.
    pub id: i32,
    /// What it holds.
    #[serde(default, skip_serializing_if = "Role::is_value")]
    pub role: Role,
    /// Whether the configuration declared its type (else data did): declared columns take literal strings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declared: bool,
    /// The day of the run that first had it.
    pub since: Day,
    /// Its type.
    #[serde(rename = "type")]
    #[expect(clippy::struct_field_names, reason = "`type` is taken by the language")]
    pub column_type: Type,
}

impl Column {
    /// The key that fills it.
    #[must_use]
    pub fn key(&self) -> &str {
        self.original.as_deref().unwrap_or(&self.name)
    }

    /// How many leaves (Parquet's physical columns) it has.
    #[must_use]
    pub fn leaves(&self) -> usize {
        match &self.column_type {
            Type::List(element) => element.leaves(),
            Type::Struct(members) => members.iter().map(Column::leaves).sum(),
            _ => 1,
        }
    }
}

/// A table's columns at one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSchema {
    /// Counts up with each run that added a column; 0 is a table that never landed.
    pub version: u32,
    /// The top-level columns in file order.
    pub columns: Vec<Column>,
    /// The next field id to give, from 1; ids are never given twice.
    pub next_id: i32,
}

impl TableSchema {
    /// How many leaves the table has.
    #[must_use]
    pub fn leaves(&self) -> usize {
        self.columns.iter().map(Column::leaves).sum()
    }
}
