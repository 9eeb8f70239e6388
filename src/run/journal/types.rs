//! What a run's documents hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::domain::counts::Counts;
use crate::domain::error::Error;
use crate::domain::hex::hex;
use crate::domain::run::{Day, RunId, Transfer};
use crate::domain::table::{SyncMode, TableName};
use crate::store::ports::{ObjectInfo, Upload};

/// A multipart upload that was begun.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpenUpload {
    /// The object's key.
    pub key: String,
    /// The upload's id.
    pub id: String,
}

/// A file whose parts are all uploaded and that nobody can see yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedFile {
    /// Its table.
    pub table: TableName,
    /// Its table's sync mode.
    pub sync: SyncMode,
    /// The day of the partition that its key lies in (pontoon's `dt` included); `None` where the key has no partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_day: Option<Day>,
    /// The shard in its name.
    pub shard: u32,
    /// The file number in its name.
    pub file: u32,
    /// All that completing it needs.
    pub upload: Upload,
    /// Rows.
    pub rows: u64,
    /// When the upload was begun, in milliseconds since 1970: no later than its create request was sent.
    pub created_millis: i64,
}

impl FinishedFile {
    /// Its upload, as one that was begun.
    #[must_use]
    pub fn open_upload(&self) -> OpenUpload {
        OpenUpload { key: self.upload.key.clone(), id: self.upload.id.clone() }
    }
}

/// What became of one staged object's records in one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectCounts {
    /// The object's key.
    pub key: String,
    /// Its counts.
    pub counts: Counts,
    /// Why the whole object was left out (`on_damaged_object = "skip"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// What a shard learned of one table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableFacts {
    /// Rows in the shard's files.
    pub rows: u64,
    /// Bytes of its largest record.
    pub largest_record: u64,
    /// Values that went to the rescue column, by the path of the column that they did not fit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rescued: BTreeMap<String, u64>,
    /// The kinds that were seen, in the form that the export gives them.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub evidence: serde_json::Value,
}

/// What a shard yielded. Every part of every file in it is uploaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardDone {
    /// The document's form.
    pub form: u32,
    /// The shard's number.
    pub number: u32,
    /// The one snapshot table that it makes, if it is a snapshot's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<TableName>,
    /// As in [`crate::run::plan::Shard::own_folder`].
    #[serde(default)]
    pub own_folder: bool,
    /// Its files, in the order in which they were ended.
    pub files: Vec<FinishedFile>,
    /// By table. A table without rows may be here for what it counted.
    pub tables: BTreeMap<TableName, TableFacts>,
    /// By staged object, in key order.
    pub objects: Vec<ObjectCounts>,
    /// Quarantined records by reason.
    pub reasons: BTreeMap<String, u64>,
    /// Those of the quarantined that no organisation can be told of: outside the ratio, and not told to the customer.
    pub unattributed: u64,
    /// Keys of the quarantine's parts in the state bucket.
    pub quarantine: Vec<String>,
    /// Keys of the ids that the shard was the first to see (`dedupe`), where later shards have to know them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// The key of the list of its duplicates, where a second pass may have to know them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<String>,
    /// What the answer should say, such as a file that ended early because scratch was full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ShardDone {
    /// The shard's counts in total. `rescued` is taken from the tables, since a second pass changes it.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut total = Counts::default();
        for object in &self.objects {
            total += object.counts;
        }
        total.rescued = self.tables.values().flat_map(|facts| facts.rescued.values()).sum();
        total
    }

    /// This shard with `again`, the second pass over some of its tables, put in their place.
    #[must_use]
    pub fn with_second_pass(mut self, again: ShardDone) -> ShardDone {
        self.files.retain(|file| !again.tables.contains_key(&file.table));
        self.files.extend(again.files);
        self.tables.extend(again.tables);
        self.notes.extend(again.notes);
        self
    }
}

/// Which pass over the input a document is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pass {
    /// The first, over everything, with the schemas that were guessed.
    First,
    /// The second, over the tables that were guessed wrong.
    Second,
}

impl Pass {
    pub(super) fn name(self) -> &'static str {
        match self {
            Pass::First => "shard",
            Pass::Second => "again",
        }
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It has its documents; nothing is read yet.
    Planned,
    /// Files are being made.
    Exporting,
    /// The head holds its commit: it is rolled forward by whoever comes next.
    Committing,
    /// It is done.
    Committed,
    /// It ended with a failure; the next trigger goes on from what it has, or, if its commit can't be finished, a forced re-run mends it.
    Failed,
}

/// Why a run ended without a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind's name.
    pub kind: String,
    /// What is told.
    pub message: String,
}

impl Failure {
    pub(super) fn of(error: &Error) -> Failure {
        Failure { kind: error.kind().name().to_owned(), message: error.to_string() }
    }
}

/// A shard's document that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kept {
    /// The pass.
    pub pass: Pass,
    /// The shard.
    pub number: u32,
    /// The attempt that wrote it.
    pub attempt: u32,
}

/// What has to be the same for finished shards to be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The build.
    pub build: String,
    /// The digest of the destination's ready settings.
    pub configuration: String,
    /// The digest of the head's registry versions ([`crate::run::head::Head::registry_digest`]).
    pub registry: String,
    /// The digest of the staged objects ([`staged_digest`]).
    pub staged: String,
}

/// The digest of a day's staged objects: keys, sizes and ETags, in key order.
#[must_use]
pub fn staged_digest(objects: &[ObjectInfo]) -> String {
    let mut ordered: Vec<&ObjectInfo> = objects.iter().collect();
    ordered.sort_by(|a, b| a.key.cmp(&b.key));
    let mut digest = Sha256::new();
    for object in ordered {
        digest.update(format!("{}\0{}\0{}\0", object.key, object.size, object.etag));
    }
    hex(&digest.finalize())
}

/// A run's small state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// The document's form.
    pub form: u32,
    /// Destination and day.
    pub run: RunId,
    /// How often the day was run again: 0 the first time.
    pub generation: u32,
    /// Where it stands.
    pub phase: Phase,
    /// Why it ended, with `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The invocation that works or worked on it, counted from 0.
    pub attempt: u32,
    /// The attempt at which the export began from nothing.
    pub epoch: u32,
    /// Shards of earlier attempts that are kept.
    pub kept: Vec<Kept>,
    /// What they depend on.
    pub fingerprint: Fingerprint,
    /// When the transfer started.
    pub transfer: Transfer,
    /// The ids of the triggers that forced it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forces: Vec<String>,
    /// How many invocations in a row ended at their deadline without a finished shard.
    #[serde(default)]
    pub idle: u32,
    /// Whether this invocation ended in order, to be continued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handed_on: bool,
    /// How many invocations in a row, up to the one before this, ended without a word.
    #[serde(default)]
    pub deaths: u32,
    /// The nonce of the last write.
    pub write: String,
}

impl RunState {
    /// How many invocations in a row ended without a word: killed by a lack of memory, say. The latest may also be under way still.
    #[must_use]
    pub fn silent_ends(&self) -> u32 {
        let is_open = matches!(self.phase, Phase::Planned | Phase::Exporting);
        if is_open && self.failure.is_none() && !self.handed_on { self.deaths + 1 } else { 0 }
    }
}
