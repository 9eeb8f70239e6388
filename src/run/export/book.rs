//! The schemas that a run writes with: per table what is pinned, and what the run guesses.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use crate::columns::evidence::Limits;
use crate::columns::fields::TypedSchema;
use crate::columns::pin::{Given, base_schema};
use crate::domain::error::Result;
use crate::domain::layout::Layout;
use crate::domain::run::Day;
use crate::domain::schema::{Declared, TableSchema};
use crate::domain::settings::Settings;
use crate::domain::table::TableName;

/// One table's schemas.
#[derive(Clone, Debug)]
pub struct TableEntry {
    /// What is pinned and declared: nothing of this can change.
    pub base: Arc<TableSchema>,
    /// What the run's files have: `base` and what the run expects beside it.
    pub schema: TypedSchema,
    /// Whether every record is evidence; else only those that surprise.
    pub observes_all: bool,
}

/// All tables' schemas; a table that nobody expected gets one when its first record comes.
#[derive(Debug)]
pub struct SchemaBook {
    pinned: HashMap<TableName, Arc<TableSchema>>,
    event_columns: Vec<Declared>,
    table_columns: BTreeMap<String, Vec<Declared>>,
    rescue_column: String,
    transfer_columns: bool,
    day: Day,
    limits: Limits,
    entries: RwLock<HashMap<TableName, Arc<TableEntry>>>,
}

impl SchemaBook {
    /// A book over the registry's schemas.
    #[must_use]
    pub fn new(pinned: HashMap<TableName, Arc<TableSchema>>, settings: &Settings, layout: Layout, day: Day) -> SchemaBook {
        let parquet = &settings.parquet;
        SchemaBook {
            pinned,
            event_columns: settings.event_columns.clone(),
            table_columns: settings.tables.iter().map(|(name, table)| (name.clone(), table.columns.clone())).collect(),
            rescue_column: parquet.rescue_column.clone(),
            transfer_columns: layout.adds_transfer_columns(),
            day,
            limits: Limits {
                max_columns: parquet.max_columns,
                max_fields: parquet.max_fields,
                max_column_depth: parquet.max_column_depth,
            },
            entries: RwLock::new(HashMap::new()),
        }
    }

    /// The schema that the registry has for a table.
    #[must_use]
    pub fn pinned(&self, table: &TableName) -> Option<&TableSchema> {
        self.pinned.get(table).map(AsRef::as_ref)
    }

    /// Whether the registry has any table.
    #[must_use]
    pub fn knows_tables(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// The limits of every table.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The rescue column's name.
    #[must_use]
    pub fn rescue_column(&self) -> &str {
        &self.rescue_column
    }

    /// The run's day.
    #[must_use]
    pub fn day(&self) -> Day {
        self.day
    }

    /// The table's schemas. Fails (vendor) where the configuration declares what contradicts the registry.
    pub fn entry(&self, table: &TableName) -> Result<Arc<TableEntry>> {
        if let Some(entry) = self.entries.read().unwrap_or_else(PoisonError::into_inner).get(table) {
            return Ok(Arc::clone(entry));
        }
        let base = self.base(table)?;
        let observes_all = self.pinned(table).is_none();
        let entry = Arc::new(TableEntry { schema: TypedSchema::new(base.clone()), base: Arc::new(base), observes_all });
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(entries.entry(table.clone()).or_insert(entry)))
    }

    fn base(&self, table: &TableName) -> Result<TableSchema> {
        let own = self.table_columns.get(table.as_str()).map(Vec::as_slice).unwrap_or_default();
        let mut declared: Vec<Declared> = if table.is_event_table() { self.event_columns.clone() } else { Vec::new() };
        // What a table declares itself goes before what is declared for all: it may give another type to the same path.
        declared.retain(|column| !own.iter().any(|other| other.path == column.path));
        declared.extend_from_slice(own);
        let given = Given {
            declared: &declared,
            rescue_column: &self.rescue_column,
            transfer_columns: self.transfer_columns,
            day: self.day,
        };
        base_schema(self.pinned(table), &given).map_err(|error| error.context(format!("table `{table}`")))
    }

    /// Sets what the run's files of a table have; says whether that is a change.
    pub fn expect(&self, table: &TableName, schema: TableSchema) -> Result<bool> {
        let entry = self.entry(table)?;
        let changed = entry.schema.columns != schema.columns;
        let observes_all = self.pinned(table).is_none() || entry.base.columns != schema.columns;
        let new = Arc::new(TableEntry { base: Arc::clone(&entry.base), schema: TypedSchema::new(schema), observes_all });
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(table.clone(), new);
        Ok(changed)
    }
}
