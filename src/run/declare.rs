//! Declares a table's columns ahead of its records: what pinning allows is added to the registry, under the destination's lease.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::clock::Clock;
use super::export::book::SchemaBook;
use super::head::Head;
use super::lease::Lease;
use super::manifest::{ManifestColumn, describe_all};
use super::registry;
use crate::columns::pin::{Given, base_schema, versioned};
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::domain::schema::{Declared, TableSchema};
use crate::domain::settings::{Destination, Settings};
use crate::domain::table::TableName;
use crate::store::ports::{Condition, Read, Write};

/// What declaring columns came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Declaration {
    /// The table.
    pub table: TableName,
    /// The version that its schema had; 0 where it never landed.
    pub version_before: u32,
    /// The version that it has; the same where there was nothing to change.
    pub version: u32,
    /// Columns that are new.
    pub added: Vec<ManifestColumn>,
    /// Paths of columns that were learned and now count as declared.
    pub declared: Vec<String>,
    /// What files that landed before then mean, a line for each column.
    pub meaning: Vec<String>,
}

/// Declares columns of a table for the runs to come.
///
/// A pinned column never changes its type, so there are two things that this may do: add a column that no record had yet, at the end,
/// with the type that is given instead of the one that its first values would decide; and say of a pinned column that it is declared
/// with the type that it has, so that from now on it takes literal strings. All else is refused (vendor), with the way out.
///
/// `day` is the first day that is to have new columns.
pub async fn declare<S, C>(
    lease: &Lease<'_, S, C>,
    settings: &Settings,
    destination: &Destination,
    table: &TableName,
    columns: &[Declared],
    day: Day,
) -> Result<Declaration>
where
    S: Read + Write + Sync,
    C: Clock,
{
    let head = lease.head().await;
    check_commits(&head)?;
    let pinned = match head.registry.get(table) {
        Some(version) => Some(registry::load(lease.store(), lease.paths(), table, *version).await?.schema),
        None => None,
    };
    let known: HashMap<_, _> = pinned.iter().map(|schema| (table.clone(), Arc::new(schema.clone()))).collect();
    let base = Arc::clone(&SchemaBook::new(known, settings, destination.layout, day).entry(table)?.base);
    let parquet = &settings.parquet;
    let mut grown = TableSchema::clone(&base);
    for column in columns {
        let given = Given {
            declared: std::slice::from_ref(column),
            rescue_column: &parquet.rescue_column,
            transfer_columns: destination.layout.adds_transfer_columns(),
            day,
        };
        grown = base_schema(Some(&grown), &given).map_err(|error| refusal(&error, table, &parquet.rescue_column))?;
    }
    let leaves = grown.leaves();
    if leaves > parquet.max_columns {
        return Err(Error::vendor(format!(
            "table `{table}` would have {leaves} leaf columns, and `parquet.max_columns` allows {}: declare fewer or raise it",
            parquet.max_columns
        )));
    }
    let schema = versioned(grown, pinned.as_ref());
    let before = pinned.as_ref().map(|schema| describe_all(&schema.columns)).unwrap_or_default();
    let version_before = pinned.as_ref().map_or(0, |schema| schema.version);
    let declaration =
        declaration(table, version_before, schema.version, &before, &describe_all(&schema.columns), &parquet.rescue_column);
    let pinned = pinned.map(|schema| BTreeMap::from([(table.clone(), schema)])).unwrap_or_default();
    let schemas = BTreeMap::from([(table.clone(), schema)]);
    for change in registry::changes(lease.paths(), &pinned, &schemas, day, 0)? {
        lease.validate().await?;
        let body = Bytes::from(change.body);
        // As a commit does: until the head names the version, whoever is next to make it writes it over.
        lease.store().put(&change.key, body, "application/json", &Condition::None).await?;
        lease
            .update(|head| {
                check_commits(head)?;
                head.registry.insert(table.clone(), change.version);
                Ok(())
            })
            .await?;
    }
    Ok(declaration)
}

/// A recorded commit brings schema versions of its own: those numbers are taken.
fn check_commits(head: &Head) -> Result<()> {
    let unfinished = head.open.iter().find(|(_, open)| open.commit.is_some() && !open.landed && !open.dead);
    match unfinished {
        None => Ok(()),
        Some((day, _)) => Err(Error::retryable(format!(
            "the commit of {day} is recorded and has not landed, run that day first and call again"
        ))),
    }
}

fn refusal(error: &Error, table: &TableName, rescue_column: &str) -> Error {
    let message = error.message().split("; ").next().unwrap_or_default();
    Error::vendor(format!(
        "table `{table}`: {message}; what does not fit a column is kept in `{rescue_column}`, and an int64 column gets a sibling `…_double` by itself: declare another key, or give the destination another prefix, where every column starts anew"
    ))
}

fn declaration(
    table: &TableName,
    version_before: u32,
    version: u32,
    before: &[ManifestColumn],
    after: &[ManifestColumn],
    rescue_column: &str,
) -> Declaration {
    let mut declaration =
        Declaration { table: table.clone(), version_before, version, added: vec![], declared: vec![], meaning: vec![] };
    let is_first = version_before == 0;
    let files =
        if version_before == 1 { "files of version 1".to_owned() } else { format!("files of versions 1 to {version_before}") };
    for column in after {
        let path = &column.path;
        match before.iter().find(|known| known.path == *path) {
            None => {
                let is_inside_new = declaration.added.iter().any(|new| path.starts_with(&format!("{}.", new.path)));
                if !is_first && !is_inside_new {
                    declaration.meaning.push(format!(
                        "{files} have no `{path}`: readers give null there, and a value that a record had at it, if any, is in `{rescue_column}`"
                    ));
                }
                declaration.added.push(column.clone());
            }
            Some(known) if column.declared && !known.declared => {
                declaration.meaning.push(format!(
                    "{files} hold null in `{path}` where a record had a literal such as `\"1.5\"` in a string, which is in `{rescue_column}`; from now on it is taken"
                ));
                declaration.declared.push(path.clone());
            }
            Some(_) => {}
        }
    }
    declaration
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::Kind;
    use crate::domain::schema::DeclaredType;
    use crate::run::lease::{Acquired, acquire};
    use crate::run::testing::{World, day};

    async fn set(world: &World, table: &str, path: &str, column_type: DeclaredType) -> Result<Declaration> {
        let paths = world.paths();
        let Acquired::Held(lease) = acquire(&world.state, &world.clock, &paths, world.settings.state.lease, path).await? else {
            panic!("busy")
        };
        let column = Declared { path: path.split('.').map(str::to_owned).collect(), column_type };
        let table = TableName::parse(table).unwrap();
        let of = day("2026-01-16");
        let declared = declare(&lease, &world.settings, &world.destination, &table, &[column], of).await;
        lease.release().await?;
        declared
    }

    #[tokio::test]
    async fn a_column_is_added_ahead_and_a_pinned_one_only_confirmed() {
        let world = World::new("permutive");
        world.invoke("a", "2026-01-15", None, &[("0.json", vec![("t", 3)])]).await.unwrap();
        let table = TableName::parse("t").unwrap();
        assert_eq!(world.head().registry[&table], 1);
        let added = set(&world, "t", "properties.price", DeclaredType::Double).await.unwrap();
        assert_eq!((added.version_before, added.version, world.head().registry[&table]), (1, 2, 2));
        let told: Vec<String> = added.added.iter().map(|column| format!("{} {}", column.path, column.column_type)).collect();
        assert_eq!(told, ["_rescued_data string", "properties struct", "properties.price double"]);
        assert!(
            added.meaning[1].starts_with("files of version 1 have no `properties`: readers give null there"),
            "{:?}",
            added.meaning
        );
        assert_eq!(added.meaning.len(), 2, "what is inside goes without saying");

        let again = set(&world, "t", "properties.price", DeclaredType::Double).await.unwrap();
        assert_eq!((again.version, again.added.len(), again.meaning.len()), (2, 0, 0), "nothing is left to do");
        let confirmed = set(&world, "t", "c1", DeclaredType::Int64).await.unwrap();
        assert_eq!((confirmed.version, confirmed.declared), (3, vec!["c1".to_owned()]));

        let refused = set(&world, "t", "c1", DeclaredType::String).await.unwrap_err();
        assert_eq!((refused.kind(), world.head().registry[&table]), (Kind::Vendor, 3));
        assert!(
            refused.message().contains("files that landed have int64 there, and a column never changes its type; "),
            "{refused}"
        );
        assert!(refused.message().contains("declare another key"), "{refused}");

        let new = set(&world, "later", "x", DeclaredType::Timestamp).await.unwrap();
        assert_eq!((new.version_before, new.version, new.meaning.len()), (0, 1, 0));
        // The next run builds upon it.
        world.invoke("b", "2026-01-16", None, &[("0.json", vec![("t", 3)])]).await.unwrap();
        assert_eq!(world.manifest("2026-01-16").tables[0].columns[3].path, "properties.price");
    }

    #[tokio::test]
    async fn a_recorded_commit_goes_first_and_too_many_columns_are_refused() {
        let mut world = World::new("permutive");
        world.invoke("a", "2026-01-15", None, &[("0.json", vec![("t", 3)])]).await.unwrap();
        world.settings.parquet.max_columns = 2;
        let refused = set(&world, "t", "x", DeclaredType::Double).await.unwrap_err();
        assert!(refused.message().contains("would have 3 leaf columns"), "{refused}");
        let mut head = world.head();
        let crate::run::head::Begun::Open(_) = head.begin(day("2026-01-16"), None, 1) else { panic!() };
        head.record_commit(day("2026-01-16"), crate::run::head::CommitRef { generation: 0, attempt: 0 }).unwrap();
        world.state.insert(&world.paths().head(), crate::run::document::encode(&head).unwrap());
        let refused = set(&world, "t", "x", DeclaredType::Double).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Retryable);
        assert!(refused.message().contains("the commit of 2026-01-16 is recorded"), "{refused}");
    }
}
