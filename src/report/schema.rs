//! Pinned schemas, what changes them, and how two differ, as JSON and as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::progress::count;
use super::table::{Align, TextTable};
use crate::domain::run::Day;
use crate::domain::schema::Role;
use crate::domain::table::TableName;
use crate::run::declare::Declaration;
use crate::run::manifest::ManifestColumn;
use crate::run::rebuild::Rebuilt;

/// One version of a table's schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableReport {
    /// Its name.
    pub table: TableName,
    /// The version.
    pub version: u32,
    /// The day of the run that made it.
    pub date: Day,
    /// Leaf columns.
    pub leaves: usize,
    /// How many it may have.
    pub max_columns: usize,
    /// The columns in file order, those inside others after them.
    pub columns: Vec<ManifestColumn>,
}

/// The answer of `dayport schema show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SchemaReport {
    /// The destination's name.
    pub destination: String,
    /// Its place, as `s3://bucket/prefix/`.
    pub place: String,
    /// Its tables, by name.
    pub tables: Vec<TableReport>,
}

impl SchemaReport {
    /// The report for a person: a table for each table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{} ({})\n", self.destination, self.place);
        for table in &self.tables {
            // A text takes every line.
            let _ = writeln!(
                text,
                "\n{}, version {} of {}, {} of {} columns",
                table.table,
                table.version,
                table.date,
                count(table.leaves as u64),
                count(table.max_columns as u64)
            );
            text.push_str(&columns_text(&table.columns));
        }
        if self.tables.is_empty() {
            text.push_str("no table has a pinned schema\n");
        }
        text
    }
}

fn columns_text(columns: &[ManifestColumn]) -> String {
    let mut table = TextTable::new([
        ("column", Align::Left),
        ("type", Align::Left),
        ("id", Align::Right),
        ("since", Align::Left),
        ("what", Align::Left),
    ]);
    for column in columns {
        table.push([
            column.path.clone(),
            column.column_type.clone(),
            column.id.to_string(),
            column.since.to_string(),
            what(column),
        ]);
    }
    table.text()
}

/// What is to be said of a column beside its type.
fn what(column: &ManifestColumn) -> String {
    let mut words = Vec::new();
    if column.declared {
        words.push("declared".to_owned());
    }
    words.extend(match column.role {
        None | Some(Role::Value) => None,
        Some(Role::Double) => Some("numbers that are no int64".to_owned()),
        Some(Role::Rescue) => Some("values that did not fit".to_owned()),
        Some(Role::BatchId | Role::LastSynced) => Some("the transfer".to_owned()),
    });
    words.extend(column.original.as_ref().map(|original| format!("key `{}`", original.escape_debug())));
    words.join(", ")
}

/// How a column differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Only the right side has it.
    Added,
    /// Only the left side has it.
    Removed,
    /// Both have it, with another type, field id, key or declaration.
    Changed,
    /// The configuration declares what the registry can't have.
    Contradicted,
}

/// One column that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its path.
    pub path: String,
    /// How.
    pub change: Change,
    /// What the left side has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// What the right side has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right: Option<String>,
}

/// How the columns of a table differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableDifference {
    /// The table.
    pub table: TableName,
    /// Its columns that differ, in file order, those that only the right side has last.
    pub differences: Vec<Difference>,
}

/// The answer of `dayport schema diff`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiffReport {
    /// What stands on the left side.
    pub left: String,
    /// And on the right.
    pub right: String,
    /// The tables that differ.
    pub tables: Vec<TableDifference>,
}

/// The columns of both sides that differ. `ids` says whether another field id is a difference: two destinations give their own.
#[must_use]
pub fn differences(left: &[ManifestColumn], right: &[ManifestColumn], ids: bool) -> Vec<Difference> {
    let side = |column: &ManifestColumn| {
        let mut text = column.column_type.clone();
        if ids {
            let _ = write!(text, ", id {}", column.id);
        }
        let what = what(column);
        if !what.is_empty() {
            let _ = write!(text, ", {what}");
        }
        text
    };
    let rights: BTreeMap<&str, &ManifestColumn> = right.iter().map(|column| (column.path.as_str(), column)).collect();
    let mut found = Vec::new();
    for column in left {
        let path = column.path.clone();
        let (left, right) = (side(column), rights.get(path.as_str()).map(|column| side(column)));
        let change = match &right {
            None => Change::Removed,
            Some(right) if *right != left => Change::Changed,
            Some(_) => continue,
        };
        found.push(Difference { path, change, left: Some(left), right });
    }
    for column in right.iter().filter(|column| !left.iter().any(|known| known.path == column.path)) {
        found.push(Difference { path: column.path.clone(), change: Change::Added, left: None, right: Some(side(column)) });
    }
    found
}

impl DiffReport {
    /// The report for a person: a line for each column that differs.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("- {}\n+ {}\n", self.left, self.right);
        for TableDifference { table, differences } in &self.tables {
            // A text takes every line.
            let _ = writeln!(text, "\n{table}");
            let mut lines =
                TextTable::new([("", Align::Left), ("column", Align::Left), ("left", Align::Left), ("right", Align::Left)]);
            for difference in differences {
                let sign = match difference.change {
                    Change::Added => "+",
                    Change::Removed => "-",
                    Change::Changed => "~",
                    Change::Contradicted => "!",
                };
                let of = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".to_owned());
                lines.push([sign.to_owned(), difference.path.clone(), of(&difference.left), of(&difference.right)]);
            }
            text.push_str(&lines.text());
        }
        if self.tables.is_empty() {
            text.push_str("no difference\n");
        }
        text
    }
}

/// The answer of `dayport schema set`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetReport {
    /// The destination's name.
    pub destination: String,
    /// What it came to.
    #[serde(flatten)]
    pub declaration: Declaration,
}

impl SetReport {
    /// The report for a person: the new columns, and what older files mean.
    #[must_use]
    pub fn text(&self) -> String {
        let Declaration { table, version_before, version, added, declared, meaning } = &self.declaration;
        if version == version_before {
            return format!("{} {table}: it is so already, nothing was changed\n", self.destination);
        }
        let mut text = format!("{} {table}: version {version}, after {version_before}\n", self.destination);
        text.push_str(&columns_text(added));
        // A text takes every line.
        for path in declared {
            let _ = writeln!(text, "  `{path}` is declared from now on");
        }
        for line in meaning {
            let _ = writeln!(text, "  note: {line}");
        }
        text
    }
}

/// The answer of `dayport schema rebuild`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RebuildReport {
    /// The destination's name.
    pub destination: String,
    /// Its place, as `s3://bucket/prefix/`.
    pub place: String,
    /// What it came to.
    #[serde(flatten)]
    pub rebuilt: Rebuilt,
}

impl RebuildReport {
    /// The report for a person.
    #[must_use]
    pub fn text(&self) -> String {
        let Rebuilt { dry_run, days, known_days, tables, snapshots, notes } = &self.rebuilt;
        let mut text = format!("{} ({})\n", self.destination, self.place);
        let (were, is) = if *dry_run { ("would be", "would be") } else { ("were", "is") };
        // A text takes every line.
        let range = match (days.first(), days.last()) {
            (Some(first), Some(last)) => format!(" ({first} to {last})"),
            _ => String::new(),
        };
        let _ = writeln!(text, "  {} committed days {were} restored{range}, {known_days} were there", days.len());
        let mut lines = TextTable::new([
            ("table", Align::Left),
            ("version", Align::Right),
            ("columns", Align::Right),
            ("registry", Align::Left),
        ]);
        for table in tables {
            let state = if table.was_there { "was there".to_owned() } else { format!("{is} restored") };
            lines.push([table.table.to_string(), count(table.version.into()), count(table.columns as u64), state]);
        }
        text.push_str(&lines.text());
        for (table, day) in snapshots {
            let _ = writeln!(text, "  snapshot `{table}` {is} known to be of {day}");
        }
        for note in notes {
            let _ = writeln!(text, "  note: {note}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(path: &str, column_type: &str, id: i32) -> ManifestColumn {
        ManifestColumn {
            path: path.to_owned(),
            column_type: column_type.to_owned(),
            id,
            original: None,
            since: "2026-01-15".parse().unwrap(),
            role: None,
            declared: false,
        }
    }

    #[test]
    fn columns_differ_by_what_is_said_of_them() {
        let left = [column("a", "int64", 1), column("b", "string", 2), column("c", "double", 3)];
        let right = [column("a", "int64", 9), column("c", "string", 3), column("d", "boolean", 4)];
        let told = |ids| -> Vec<(String, Change)> {
            differences(&left, &right, ids).into_iter().map(|found| (found.path, found.change)).collect()
        };
        let (a, b, c, d) = ("a".to_owned(), "b".to_owned(), "c".to_owned(), "d".to_owned());
        let without = [(b, Change::Removed), (c, Change::Changed), (d, Change::Added)];
        assert_eq!(told(false), without);
        assert_eq!(told(true)[0], (a, Change::Changed));
        assert_eq!(told(true)[1..], without);
        assert_eq!(differences(&left, &left, true), []);
    }
}
