//! The manifest: what a day came to, for the customer, and nothing that is not the customer's own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::journal::{FinishedFile, TableFacts};
use crate::domain::counts::Counts;
use crate::domain::error::{Error, Result};
use crate::domain::format::Format;
use crate::domain::layout::Layout;
use crate::domain::run::{Day, Transfer};
use crate::domain::schema::{Column, Role, TableSchema, Type};
use crate::domain::table::{SyncMode, TableName};

/// The version of the manifest's form, raised when a field changes its meaning.
pub const MANIFEST_VERSION: u32 = 1;

/// A day's manifest, `<prefix>_dayport/2026-01-15.json`. The same run gives the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`MANIFEST_VERSION`].
    #[expect(clippy::struct_field_names, reason = "the document's own word")]
    pub manifest_version: u32,
    /// The destination's name.
    pub destination: String,
    /// The staged day.
    pub date: Day,
    /// The folder structure.
    pub layout: Layout,
    /// The files' format.
    pub format: Format,
    /// How often the day was run again: 0 the first time.
    pub generation: u32,
    /// The transfer of this run, where the layout tells transfers apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<ManifestTransfer>,
    /// The customer's records.
    pub counts: ManifestCounts,
    /// The tables that this run landed, by name.
    pub tables: Vec<ManifestTable>,
    /// Keys of earlier files that this run's files replaced.
    pub replaced: Vec<String>,
    /// Keys of earlier files that this run deleted.
    pub deleted: Vec<String>,
    /// The day's earlier runs, oldest first, where the layout keeps their files beside this run's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_transfers: Vec<EarlierTransfer>,
}

/// A transfer's marks in its files' names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestTransfer {
    /// `YYYYMMDDHHMMSS`, UTC.
    pub timestamp: String,
    /// Unix milliseconds.
    pub batch_id: String,
}

/// An earlier run of the day whose files stand beside this one's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierTransfer {
    /// Its generation.
    pub generation: u32,
    /// Its marks.
    #[serde(flatten)]
    pub transfer: ManifestTransfer,
    /// Its records.
    pub counts: ManifestCounts,
    /// Its tables.
    pub tables: Vec<ManifestTable>,
}

/// The balance of the customer's own records: `read = delivered + quarantined + duplicates`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestCounts {
    /// Records found.
    pub read: u64,
    /// Rows that landed.
    pub delivered: u64,
    /// Records that could not be delivered.
    pub quarantined: u64,
    /// Records left out because their `dedupe` key was already there.
    pub duplicates: u64,
    /// Records whose bytes had to be repaired.
    pub repaired: u64,
    /// Values that went to the rescue column.
    pub rescued: u64,
}

impl ManifestCounts {
    /// The customer's part of a run's counts: without the records of others, and without those (`unattributed`) that can't be told apart.
    #[must_use]
    pub fn own(counts: &Counts, unattributed: u64) -> ManifestCounts {
        let quarantined = counts.quarantined.saturating_sub(unattributed);
        ManifestCounts {
            read: counts.delivered + quarantined + counts.duplicates,
            delivered: counts.delivered,
            quarantined,
            duplicates: counts.duplicates,
            repaired: counts.repaired,
            rescued: counts.rescued,
        }
    }
}

/// One table of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestTable {
    /// Its name.
    pub name: TableName,
    /// Whether the day added a partition or replaced the table.
    pub sync: SyncMode,
    /// Rows.
    pub rows: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Bytes of its largest record.
    pub largest_record: u64,
    /// The version of its schema, where it has one (Parquet).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<u32>,
    /// Its columns in file order, those inside others after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ManifestColumn>,
    /// Rescued values by the path of the column that they did not fit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rescued: BTreeMap<String, u64>,
    /// Its files, in key order.
    pub files: Vec<ManifestFile>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestColumn {
    /// Column names from the top, joined by dots; a list's element is `element`.
    pub path: String,
    /// The type in the configuration's words; a struct is `struct`.
    #[serde(rename = "type")]
    pub column_type: String,
    /// Its Parquet field id.
    pub id: i32,
    /// Its key in the records, where that is not its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// The day that first had it.
    pub since: Day,
    /// What it holds, where that is not the value of its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Whether its type was declared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declared: bool,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its key.
    pub key: String,
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
    /// CRC64NVME of the whole object in base64, as S3 gives it; left out where checksums are off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// The day of its partition, where it lies in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Day>,
}

/// One table's entry: its files, what was learned of it, and its schema if it has one.
#[must_use]
pub fn table(
    name: &TableName,
    sync: SyncMode,
    files: &[&FinishedFile],
    facts: &TableFacts,
    schema: Option<&TableSchema>,
) -> ManifestTable {
    let mut listed: Vec<ManifestFile> = files
        .iter()
        .map(|file| ManifestFile {
            key: file.upload.key.clone(),
            rows: file.rows,
            bytes: file.upload.size,
            checksum: file.upload.checksum.clone(),
            partition: file.partition_day,
        })
        .collect();
    listed.sort_by(|a, b| a.key.cmp(&b.key));
    let columns = schema.map(|schema| describe_all(&schema.columns)).unwrap_or_default();
    ManifestTable {
        name: name.clone(),
        sync,
        rows: listed.iter().map(|file| file.rows).sum(),
        bytes: listed.iter().map(|file| file.bytes).sum(),
        largest_record: facts.largest_record,
        schema_version: schema.map(|schema| schema.version),
        columns,
        rescued: facts.rescued.clone(),
        files: listed,
    }
}

/// Columns in file order, those inside others after them.
#[must_use]
pub fn describe_all(columns: &[Column]) -> Vec<ManifestColumn> {
    let mut described = Vec::new();
    for column in columns {
        describe(column, "", &mut described);
    }
    described
}

fn describe(column: &Column, above: &str, into: &mut Vec<ManifestColumn>) {
    let path = if above.is_empty() { column.name.clone() } else { format!("{above}.{}", column.name) };
    into.push(ManifestColumn {
        path: path.clone(),
        column_type: column.column_type.name(),
        id: column.id,
        original: column.original.clone(),
        since: column.since,
        role: (column.role != Role::Value).then_some(column.role),
        declared: column.declared,
    });
    match &column.column_type {
        Type::List(element) => describe(element, &path, into),
        Type::Struct(members) => members.iter().for_each(|member| describe(member, &path, into)),
        _ => {}
    }
}

/// The deepest columns that [`columns_of`] takes; no configuration allows more.
const DEEPEST: usize = 64;

/// The columns that [`describe_all`] described; `None` where nothing could be described so.
#[must_use]
pub fn columns_of(described: &[ManifestColumn]) -> Option<Vec<Column>> {
    let mut rest = described;
    let columns = members_of(&mut rest, "", 0)?;
    rest.is_empty().then_some(columns)
}

/// Takes the columns whose paths begin with `above` off the front of `rest`.
fn members_of(rest: &mut &[ManifestColumn], above: &str, depth: usize) -> Option<Vec<Column>> {
    let mut columns = Vec::new();
    loop {
        let all: &[ManifestColumn] = rest;
        let Some((next, after)) = all.split_first() else { break };
        let Some(name) = next.path.strip_prefix(above) else { break };
        if name.is_empty() || name.contains('.') || depth > DEEPEST {
            return None;
        }
        *rest = after;
        let mut inside = || members_of(rest, &format!("{}.", next.path), depth + 1);
        let column_type = match next.column_type.as_str() {
            "boolean" => Type::Boolean,
            "int64" => Type::Int64,
            "double" => Type::Double,
            "string" => Type::String,
            "timestamp" => Type::Timestamp,
            "struct" => Type::Struct(inside().filter(|members| !members.is_empty())?),
            list if list.starts_with("list<") => {
                let [element] = <[Column; 1]>::try_from(inside()?).ok()?;
                Type::List(Box::new(element))
            }
            _ => return None,
        };
        columns.push(Column {
            name: name.to_owned(),
            original: next.original.clone(),
            id: next.id,
            role: next.role.unwrap_or_default(),
            declared: next.declared,
            since: next.since,
            column_type,
        });
    }
    Some(columns)
}

impl Manifest {
    /// Takes over the transfers of the day's manifest before this one, where the layout keeps their files.
    pub fn add_earlier(&mut self, before: Option<Manifest>) {
        let Some(before) = before.filter(|before| before.layout == self.layout) else { return };
        self.earlier_transfers = before.earlier_transfers;
        if let Some(transfer) = before.transfer {
            let (generation, counts, tables) = (before.generation, before.counts, before.tables);
            self.earlier_transfers.push(EarlierTransfer { generation, transfer, counts, tables });
        }
    }

    /// Every file of the day that stands, earlier transfers included.
    pub fn files(&self) -> impl Iterator<Item = (&ManifestTable, &ManifestFile)> {
        let earlier = self.earlier_transfers.iter().flat_map(|transfer| &transfer.tables);
        earlier.chain(&self.tables).flat_map(|table| table.files.iter().map(move |file| (table, file)))
    }

    /// The document: JSON, indented for people, with a last newline.
    pub fn to_text(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::bug("a manifest could not be written as JSON, please report it").with_source(error))?;
        Ok(text + "\n")
    }

    /// Reads a document that [`Manifest::to_text`] made.
    pub fn parse(text: &str) -> Result<Manifest> {
        serde_json::from_str(text).map_err(|error| {
            Error::vendor("a stored manifest can't be read, restore it from the state bucket's versions").with_source(error)
        })
    }
}

impl From<Transfer> for ManifestTransfer {
    fn from(transfer: Transfer) -> Self {
        ManifestTransfer { timestamp: transfer.timestamp(), batch_id: transfer.batch_id() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn described_columns_are_columns_again() {
        let of = |name: &str, id, column_type| Column {
            name: name.to_owned(),
            original: (id == 5).then(|| "x.y".to_owned()),
            id,
            role: if id == 2 { Role::Rescue } else { Role::Value },
            declared: id == 1,
            since: "2026-01-15".parse().unwrap(),
            column_type,
        };
        let element = of("element", 4, Type::Struct(vec![of("x_y_hash", 5, Type::Double)]));
        let list = of("element", 8, Type::List(Box::new(of("element", 9, Type::Boolean))));
        let columns = vec![
            of("time", 1, Type::Timestamp),
            of("r", 2, Type::String),
            of("l", 3, Type::List(Box::new(element))),
            of("s", 6, Type::Struct(vec![of("n", 10, Type::Int64), of("deep", 7, Type::List(Box::new(list)))])),
            of("last", 11, Type::String),
        ];
        let described = describe_all(&columns);
        assert_eq!(columns_of(&described), Some(columns));
        let mut strange = described.clone();
        strange[0].column_type = "struct".into();
        assert_eq!(columns_of(&strange), None, "a struct without members");
        strange[0].column_type = "decimal".into();
        assert_eq!(columns_of(&strange), None);
        assert_eq!(columns_of(&described[3..]), None, "a member without its struct");
    }
}
