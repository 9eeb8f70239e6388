//! Pinned schemas: each destination's table has its columns for ever, in numbered versions that are never changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::document::{self, FORM};
use super::head::Head;
use super::paths::Paths;
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::domain::schema::{Column, TableSchema, Type};
use crate::domain::table::TableName;
use crate::store::lanes::{LANES, bounded};
use crate::store::ports::Read;

/// One version of a table's schema, as stored under `registry/<destination>/<table>/v000001.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaDocument {
    /// The document's form.
    pub form: u32,
    /// The table.
    pub table: TableName,
    /// The day of the run that made this version.
    pub day: Day,
    /// That run's generation.
    pub generation: u32,
    /// Leaf columns, out of the `parquet.max_columns` that a table may have.
    pub leaves: usize,
    /// The columns.
    pub schema: TableSchema,
}

/// A version that a commit adds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The table.
    pub table: TableName,
    /// Its new version.
    pub version: u32,
    /// The document's key in the state bucket.
    pub key: String,
    /// The document, byte for byte.
    pub body: String,
}

/// The current schema of every table that the destination ever had.
pub async fn load_all(store: &(impl Read + Sync), paths: &Paths, head: &Head) -> Result<BTreeMap<TableName, TableSchema>> {
    let schemas = bounded(&head.registry, LANES, |(table, version)| async move {
        Ok((table.clone(), load(store, paths, table, *version).await?.schema))
    });
    Ok(schemas.await?.into_iter().collect())
}

/// One version of a table's schema.
pub async fn load(store: &(impl Read + Sync), paths: &Paths, table: &TableName, version: u32) -> Result<SchemaDocument> {
    let key = paths.registry(table, version);
    document::read(store, &key).await?.ok_or_else(|| {
        Error::vendor(format!(
            "the pinned schema `{key}` is gone, restore it from the state bucket's versions or run `dayport schema rebuild {}`",
            paths.destination()
        ))
    })
}

/// What a run's schemas change: one new version for each that is not the pinned one. `pinned` are the current versions
/// ([`load_all`]), `schemas` those that the run's files have.
///
/// Fails as a bug where a schema is not the pinned one grown, or has another version than the next: no file with it may land.
pub fn changes(
    paths: &Paths,
    pinned: &BTreeMap<TableName, TableSchema>,
    schemas: &BTreeMap<TableName, TableSchema>,
    day: Day,
    generation: u32,
) -> Result<Vec<Change>> {
    let none = TableSchema::default();
    let mut changes = Vec::new();
    for (table, schema) in schemas {
        let before = pinned.get(table).unwrap_or(&none);
        if before == schema {
            continue;
        }
        if schema.version != before.version + 1 {
            return Err(Error::bug(format!(
                "table `{table}` was to go from schema version {} to {}, please report it",
                before.version, schema.version
            )));
        }
        check_growth(table, before, schema)?;
        let document =
            SchemaDocument { form: FORM, table: table.clone(), day, generation, leaves: schema.leaves(), schema: schema.clone() };
        let body = serde_json::to_string(&document)
            .map_err(|error| Error::bug("a schema could not be written as JSON, please report it").with_source(error))?;
        changes.push(Change { table: table.clone(), version: schema.version, key: paths.registry(table, schema.version), body });
    }
    Ok(changes)
}

/// Checks that `new` only adds columns to `old`, at the end, at every depth, with field ids that were never given before.
pub fn check_growth(table: &TableName, old: &TableSchema, new: &TableSchema) -> Result<()> {
    let grown = new.next_id >= old.next_id && columns_grow(&old.columns, &new.columns, old.next_id, new.next_id);
    if grown {
        return Ok(());
    }
    Err(Error::bug(format!(
        "a pinned column of table `{table}` was to be moved, renamed or given another type, please report it"
    )))
}

/// `from` and `below`: new columns have ids in `from..below`.
fn columns_grow(old: &[Column], new: &[Column], from: i32, below: i32) -> bool {
    let mut added = new.iter().skip(old.len());
    new.len() >= old.len()
        && old.iter().zip(new).all(|(old, new)| column_grows(old, new, from, below))
        && added.all(|column| column_is_new(column, from, below))
}

fn column_grows(old: &Column, new: &Column, from: i32, below: i32) -> bool {
    let is_same = old.name == new.name && old.key() == new.key() && old.id == new.id && old.role == new.role;
    is_same
        && match (&old.column_type, &new.column_type) {
            (Type::List(old), Type::List(new)) => column_grows(old, new, from, below),
            (Type::Struct(old), Type::Struct(new)) => columns_grow(old, new, from, below),
            (old, new) => old == new,
        }
}

fn column_is_new(column: &Column, from: i32, below: i32) -> bool {
    (from..below).contains(&column.id)
        && match &column.column_type {
            Type::List(element) => column_is_new(element, from, below),
            Type::Struct(members) => members.iter().all(|member| column_is_new(member, from, below)),
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::Kind;
    use crate::domain::schema::Role;

    fn column(name: &str, id: i32, column_type: Type) -> Column {
        let since = "2026-01-15".parse().unwrap();
        Column { name: name.into(), original: None, id, role: Role::Value, declared: false, since, column_type }
    }

    fn schema(version: u32, next_id: i32, columns: Vec<Column>) -> TableSchema {
        TableSchema { version, columns, next_id }
    }

    #[test]
    fn a_schema_may_only_grow_at_its_end_and_with_new_ids() {
        let table = TableName::parse("t").unwrap();
        let list = |members| Type::List(Box::new(column("element", 3, Type::Struct(members))));
        let old = schema(1, 5, vec![column("a", 1, Type::Int64), column("l", 2, list(vec![column("x", 4, Type::String)]))]);
        let grown_list = list(vec![column("x", 4, Type::String), column("y", 5, Type::Double)]);
        let good =
            schema(2, 7, vec![column("a", 1, Type::Int64), column("l", 2, grown_list.clone()), column("b", 6, Type::Boolean)]);
        assert!(check_growth(&table, &old, &good).is_ok());
        let bad = [
            ("moved", schema(2, 7, vec![column("l", 2, grown_list.clone()), column("a", 1, Type::Int64)])),
            ("another type", schema(2, 7, vec![column("a", 1, Type::Double), column("l", 2, grown_list.clone())])),
            ("renamed", schema(2, 7, vec![column("A", 1, Type::Int64), column("l", 2, grown_list.clone())])),
            ("left out", schema(2, 7, vec![column("a", 1, Type::Int64)])),
            ("an old id again", {
                let again = column("b", 4, Type::Boolean);
                schema(2, 7, vec![column("a", 1, Type::Int64), column("l", 2, grown_list), again])
            }),
        ];
        for (what, new) in bad {
            assert_eq!(check_growth(&table, &old, &new).unwrap_err().kind(), Kind::Bug, "{what}");
        }
    }

    #[test]
    fn an_unchanged_schema_makes_no_version_and_a_skipped_version_is_a_bug() {
        let destination = crate::run::testing::destination("permutive");
        let paths = Paths::new(&crate::run::testing::settings().state, &destination);
        let table = TableName::parse("t").unwrap();
        let (day, one) = ("2026-01-15".parse().unwrap(), schema(1, 2, vec![column("a", 1, Type::Int64)]));
        let of = |schema: &TableSchema| BTreeMap::from([(table.clone(), schema.clone())]);
        assert_eq!(changes(&paths, &of(&one), &of(&one), day, 0).unwrap(), vec![]);
        let first = changes(&paths, &BTreeMap::new(), &of(&one), day, 0).unwrap();
        assert_eq!(first.len(), 1);
        assert!(first[0].key.ends_with("/t/v000001.json"), "{}", first[0].key);
        let third = schema(3, 3, vec![column("a", 1, Type::Int64), column("b", 2, Type::Int64)]);
        assert!(changes(&paths, &of(&one), &of(&third), day, 0).is_err());
    }
}
