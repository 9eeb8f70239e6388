//! Pinned schemas by hand: shown, compared, declared ahead, put together again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::Services;
use crate::config;
use crate::domain::error::{Error, Result};
use crate::domain::format::Format;
use crate::domain::run::Day;
use crate::domain::schema::{Column, TableSchema};
use crate::domain::settings::{Credentials, Destination, PartitionBy};
use crate::domain::table::{SyncMode, TableName};
use crate::report::ddl::{self, Dialect, Place, TableDefinition};
use crate::report::schema::{
    Change, DiffReport, Difference, RebuildReport, SchemaReport, SetReport, TableDifference, TableReport, differences,
};
use crate::run::clock::RuntimeClock;
use crate::run::commit::committed;
use crate::run::declare::declare;
use crate::run::document;
use crate::run::export::book::SchemaBook;
use crate::run::head::Head;
use crate::run::lease::{Acquired, Lease, acquire, nonce};
use crate::run::manifest::{ManifestColumn, describe_all};
use crate::run::paths::Paths;
use crate::run::rebuild::{self, Evidence};
use crate::run::registry::{self, SchemaDocument};
use crate::store::lanes::{LANES, bounded};
use crate::store::s3::S3Bucket;

/// What a destination's schemas are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Against {
    /// The configuration.
    Configuration,
    /// Another version of the same table: from, to.
    Versions(u32, u32),
    /// Another destination.
    Destination(String),
}

impl Services {
    /// The pinned schemas of a destination: those of all tables, or of one, at its current version or another.
    pub async fn schema_show(&self, name: &str, table: Option<&str>, version: Option<u32>) -> Result<SchemaReport> {
        let (destination, _, paths) = self.target(name)?;
        let documents = match (table, version) {
            (Some(table), Some(version)) => vec![self.version(&paths, &table_name(table)?, version).await?],
            _ => self.current(destination, &paths, table).await?,
        };
        let max_columns = self.settings.parquet.max_columns;
        let tables = documents.into_iter().map(|document| TableReport {
            table: document.table,
            version: document.schema.version,
            date: document.day,
            leaves: document.leaves,
            max_columns,
            columns: describe_all(&document.schema.columns),
        });
        let place = format!("s3://{}", paths.place());
        Ok(SchemaReport { destination: destination.name.clone(), place, tables: tables.collect() })
    }

    /// Compares a destination's pinned schemas, those of one table if it is named, with something else.
    pub async fn schema_diff(&self, name: &str, table: Option<&str>, against: &Against) -> Result<DiffReport> {
        let (destination, _, paths) = self.target(name)?;
        match against {
            Against::Versions(from, to) => {
                let table = table.ok_or_else(|| Error::vendor("versions are a table's own, name the table"))?;
                let table = table_name(table)?;
                let (left, right) = (self.version(&paths, &table, *from).await?, self.version(&paths, &table, *to).await?);
                let found = differences(&describe_all(&left.schema.columns), &describe_all(&right.schema.columns), true);
                let side = |version| format!("{name} {table} version {version}");
                let tables =
                    if found.is_empty() { vec![] } else { vec![TableDifference { table: table.clone(), differences: found }] };
                Ok(DiffReport { left: side(from), right: side(to), tables })
            }
            Against::Destination(other) => {
                let (other_destination, _, other_paths) = self.target(other)?;
                let left = described(self.current(destination, &paths, table).await?);
                let right = described(self.current(other_destination, &other_paths, table).await?);
                let none = Vec::new();
                let names: BTreeSet<&TableName> = left.keys().chain(right.keys()).collect();
                let tables = names.into_iter().map(|name| TableDifference {
                    table: name.clone(),
                    differences: differences(left.get(name).unwrap_or(&none), right.get(name).unwrap_or(&none), false),
                });
                let tables = tables.filter(|table| !table.differences.is_empty()).collect();
                Ok(DiffReport { left: name.to_owned(), right: other.clone(), tables })
            }
            Against::Configuration => {
                let documents = self.current(destination, &paths, table).await?;
                let configured = documents.iter().map(|document| {
                    let differences =
                        self.configured_differences(destination, &document.table, &document.schema, document.day)?;
                    Ok(TableDifference { table: document.table.clone(), differences })
                });
                let tables = configured.collect::<Result<Vec<_>>>()?;
                let tables = tables.into_iter().filter(|table| !table.differences.is_empty()).collect();
                Ok(DiffReport { left: format!("{name} as registered"), right: format!("{name} as configured"), tables })
            }
        }
    }

    /// What the configuration would add to a pinned schema, contradicts in it, or no longer declares.
    fn configured_differences(
        &self,
        destination: &Destination,
        table: &TableName,
        pinned: &TableSchema,
        day: Day,
    ) -> Result<Vec<Difference>> {
        let known = HashMap::from([(table.clone(), Arc::new(pinned.clone()))]);
        let book = |known| SchemaBook::new(known, &self.settings, destination.layout, day);
        let registered = describe_all(&pinned.columns);
        let alone = describe_all(&book(HashMap::new()).entry(table)?.base.columns);
        let mut found = match book(known).entry(table) {
            Ok(entry) => differences(&registered, &describe_all(&entry.base.columns), true),
            Err(_) => {
                let wrong = |column: &ManifestColumn| {
                    let declared = alone.iter().find(|declared| declared.path == column.path)?;
                    (declared.column_type != column.column_type).then(|| Difference {
                        path: column.path.clone(),
                        change: Change::Contradicted,
                        left: Some(column.column_type.clone()),
                        right: Some(format!("{}, which no run can have: take the declaration out", declared.column_type)),
                    })
                };
                registered.iter().filter_map(wrong).collect()
            }
        };
        for column in registered.iter().filter(|column| column.declared) {
            if !alone.iter().any(|declared| declared.path == column.path) {
                found.push(Difference {
                    path: column.path.clone(),
                    change: Change::Changed,
                    left: Some(format!("{}, declared", column.column_type)),
                    right: Some("not declared; the registry keeps it".to_owned()),
                });
            }
        }
        Ok(found)
    }

    /// Declares columns (`path=type`) of a table for the runs to come, under the destination's lease.
    pub async fn schema_set(&self, name: &str, table: &str, columns: &[String]) -> Result<SetReport> {
        let (destination, _, paths) = self.target(name)?;
        check_is_parquet(destination)?;
        let table = table_name(table)?;
        let columns = columns.iter().map(|column| config::parse_column(column, &self.settings.parquet));
        let columns: Vec<_> = columns.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        let clock = RuntimeClock::start();
        let lease = self.lease(&clock, &paths).await?;
        // The next day to be run is the first that has them.
        let last = lease.head().await.commits.last_key_value().map(|(day, _)| day.plus_days(1));
        let day = last.unwrap_or(self.settings.own_day(destination, self.today()?));
        let declared = declare(&lease, &self.settings, destination, &table, &columns, day);
        let declaration = Box::pin(lease.hold(declared)).await?;
        Ok(SetReport { destination: destination.name.clone(), declaration })
    }

    /// Puts a lost state together again from the customer's bucket, or from manifests (name and text) where that can't be read.
    pub async fn schema_rebuild(
        &self,
        name: &str,
        manifests: Option<Vec<(String, String)>>,
        dry_run: bool,
    ) -> Result<RebuildReport> {
        let (destination, customer, paths) = self.target(name)?;
        let evidence = match manifests {
            Some(manifests) => {
                let mut evidence = Evidence::default();
                for (name, text) in manifests {
                    evidence.add_manifest(destination, &name, text)?;
                }
                evidence
            }
            None => self.evidence(customer, destination).await?,
        };
        let rescue_column = &self.settings.parquet.rescue_column;
        let rebuilt = if dry_run {
            let head: Head = document::read_or_default(&self.state, &paths.head()).await?;
            let plan = rebuild::plan(&paths, destination, rescue_column, evidence, &head)?;
            rebuild::compare(&self.state, &paths, &head, &plan).await?
        } else {
            let clock = RuntimeClock::start();
            let lease = self.lease(&clock, &paths).await?;
            let rebuilding = async {
                let plan = rebuild::plan(&paths, destination, rescue_column, evidence, &lease.head().await)?;
                rebuild::apply(&lease, &plan).await
            };
            Box::pin(lease.hold(rebuilding)).await?
        };
        let place = format!("s3://{}", paths.place());
        Ok(RebuildReport { destination: destination.name.clone(), place, rebuilt })
    }

    /// The statements that define a destination's tables, or one of them, for a reader's engine: from the registry, and for JSON, which has
    /// none, from the manifests of the latest days.
    pub async fn ddl(&self, name: &str, table: Option<&str>, dialect: Dialect) -> Result<String> {
        /// Days in which a JSON destination's tables are looked for.
        const LATEST_DAYS: usize = 30;
        let (destination, _, paths) = self.target(name)?;
        let head: Head = document::read_or_default(&self.state, &paths.head()).await?;
        let mut tables: BTreeMap<TableName, (SyncMode, Vec<Column>)> = BTreeMap::new();
        match destination.format {
            Format::Parquet => {
                for document in self.current(destination, &paths, table).await? {
                    let sync = self.settings.tables.get(document.table.as_str()).and_then(|table| table.sync);
                    tables.insert(document.table, (sync.unwrap_or(SyncMode::Incremental), document.schema.columns));
                }
            }
            Format::Json => {
                let latest: Vec<_> = head.commits.iter().rev().take(LATEST_DAYS).collect();
                let commits = bounded(latest, LANES, |(day, done)| committed(&self.state, &paths, *day, done.commit));
                for commit in commits.await? {
                    for found in commit.manifest()?.tables {
                        tables.entry(found.name).or_insert((found.sync, Vec::new()));
                    }
                }
                if let Some(table) = table {
                    let wanted = table_name(table)?;
                    let Some(found) = tables.remove(&wanted) else { return Err(unknown_table(&wanted, tables.keys())) };
                    tables = BTreeMap::from([(wanted, found)]);
                }
            }
        }
        if tables.is_empty() {
            return Err(Error::vendor(format!("no table has landed in `{name}` yet, run a day first")));
        }
        let lateness = if destination.partition_by == PartitionBy::Time { destination.max_lateness_days } else { 0 };
        let first_day = head.first_commit.unwrap_or(self.today()?).plus_days(-i64::from(lateness));
        let place = Place {
            bucket: &destination.s3_bucket,
            prefix: &destination.s3_prefix,
            layout: destination.layout,
            format: destination.format,
        };
        let mut text = ddl::preamble(dialect, &place);
        for (table, (sync, columns)) in &tables {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&ddl::definition(dialect, &place, &TableDefinition { table, sync: *sync, columns, first_day }));
        }
        Ok(text)
    }

    async fn evidence(&self, customer: &S3Bucket, destination: &Destination) -> Result<Evidence> {
        let evidence = Box::pin(Evidence::read(customer, destination, self.today()?)).await;
        evidence.map_err(|error| {
            let whose = match destination.credentials {
                Credentials::Own => "our role",
                _ => "what signs",
            };
            error.context(format!(
                "what landed can't be read: allow {whose} `s3:GetObject` and `s3:ListBucket` for as long as this takes (`dayport policy` with `verify = true` prints it), or give `--manifests` a folder with the manifests that the customer has"
            ))
        })
    }

    async fn lease<'a>(&'a self, clock: &'a RuntimeClock, paths: &Paths) -> Result<Box<Lease<'a, S3Bucket, RuntimeClock>>> {
        match acquire(&self.state, clock, paths, self.settings.state.lease, &nonce()).await? {
            Acquired::Held(lease) => Ok(lease),
            Acquired::Busy(_) => Err(Error::retryable(format!(
                "an invocation works on `{}` now, call again when it has ended",
                paths.destination()
            ))),
        }
    }

    /// The current schemas of a destination, or of one table, by table.
    async fn current(&self, destination: &Destination, paths: &Paths, table: Option<&str>) -> Result<Vec<SchemaDocument>> {
        check_is_parquet(destination)?;
        let Head { registry, .. } = document::read_or_default(&self.state, &paths.head()).await?;
        let wanted = match table {
            None => registry,
            Some(table) => {
                let name = table_name(table)?;
                let Some(version) = registry.get(&name) else { return Err(unknown_table(&name, registry.keys())) };
                BTreeMap::from([(name, *version)])
            }
        };
        bounded(wanted, LANES, |(table, version)| async move { self.version(paths, &table, version).await }).await
    }

    async fn version(&self, paths: &Paths, table: &TableName, version: u32) -> Result<SchemaDocument> {
        registry::load(&self.state, paths, table, version).await
    }
}

fn check_is_parquet(destination: &Destination) -> Result<()> {
    match destination.format {
        Format::Parquet => Ok(()),
        Format::Json => Err(Error::vendor(format!(
            "`{}` lands JSON, whose records are delivered as they are: only Parquet has pinned schemas",
            destination.name
        ))),
    }
}

fn table_name(name: &str) -> Result<TableName> {
    TableName::stored(name).ok_or_else(|| {
        Error::vendor(format!("`{}` is no table's name, write it as in `dayport schema show`", name.escape_debug()))
    })
}

fn unknown_table<'k>(name: &TableName, known: impl Iterator<Item = &'k TableName> + Clone) -> Error {
    let nearest = crate::domain::spelling::nearest(name.as_str(), known.map(TableName::as_str));
    let nearest = nearest.map(|nearest| format!(", did you mean `{nearest}`?")).unwrap_or_default();
    Error::vendor(format!("no table `{name}` has a pinned schema{nearest}"))
}

fn described(documents: Vec<SchemaDocument>) -> BTreeMap<TableName, Vec<ManifestColumn>> {
    documents.into_iter().map(|document| (document.table, describe_all(&document.schema.columns))).collect()
}
