//! Ready settings: what the configuration says, checked, with every default filled in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::format::Format;
use super::layout::{Layout, Prefix};
use super::run::Day;
use super::schema::Declared;
use super::table::SyncMode;

/// A whole configuration, ready to use.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the vendor stages a day.
    pub staging: Staging,
    /// Where Dayport keeps its state.
    pub state: State,
    /// How a run works.
    pub run: Run,
    /// Columns declared for every event table.
    pub event_columns: Vec<Declared>,
    /// The configured tables, the built-in ones among them, by name.
    pub tables: BTreeMap<String, Table>,
    /// How Parquet tables are made.
    pub parquet: Parquet,
    /// The destinations, in the file's order.
    pub destinations: Vec<Destination>,
}

/// `[staging]`: where the day's records come from, and the limits against hostile input.
#[derive(Clone, Debug, Serialize)]
pub struct Staging {
    /// The bucket.
    pub s3_bucket: String,
    /// The prefix with its placeholders (`{date}`, `{year}`, `{month}`, `{day}`, `{organization}`) still in.
    pub s3_prefix: String,
    /// The bucket's region, if it is not the function's own.
    pub s3_region: Option<String>,
    /// The top-level key that names a record's event.
    pub event_field: String,
    /// The top-level key that holds a record's time.
    pub time_field: String,
    /// The top-level key that may name a configured table.
    pub table_field: Option<String>,
    /// The top-level key that names a record's organisation.
    pub organization_field: Option<String>,
    /// What to do with a damaged object.
    pub on_damaged_object: OnDamagedObject,
    /// Whether a day without any staged object is fine.
    pub allow_empty_day: bool,
    /// An object that must be there before the day is read (a name below the staged prefix).
    pub require_marker: Option<String>,
    /// The queue that is taken into staging.
    #[serde(skip)]
    pub queue: Option<StagingQueue>,
    /// The longest record, in bytes.
    pub max_record_bytes: u64,
    /// The most bytes that one object may unpack to.
    pub max_object_bytes: u64,
    /// The most unpacked bytes per staged byte of one object.
    pub max_ratio: u64,
    /// The deepest nesting of a record; the record itself counts as 1.
    pub max_depth: usize,
}

impl Staging {
    /// `max_record_bytes` as a length in memory.
    #[must_use]
    pub fn max_record_len(&self) -> usize {
        usize::try_from(self.max_record_bytes).unwrap_or(usize::MAX)
    }

    /// Whether the staged prefix says the whole day, so that listing it finds the day's objects.
    #[must_use]
    pub fn names_day(&self) -> bool {
        let has = |placeholder: &str| self.s3_prefix.contains(placeholder);
        has("{date}") || (has("{year}") && has("{month}") && has("{day}"))
    }

    /// The staged prefix of a day, placeholders filled in; `organization` replaces `{organization}`.
    #[must_use]
    pub fn prefix_of(&self, day: Day, organization: Option<&str>) -> String {
        self.s3_prefix
            .replace("{date}", &day.to_string())
            .replace("{year}", &format!("{:04}", day.year()))
            .replace("{month}", &format!("{:02}", day.month()))
            .replace("{day}", &format!("{:02}", day.day()))
            .replace("{organization}", organization.unwrap_or_default())
    }
}

/// `staging.sqs_queue_url` and `staging.sqs_mode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagingQueue {
    /// The queue's URL.
    pub url: String,
    /// Who takes its messages.
    pub mode: QueueMode,
}

/// `staging.sqs_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueMode {
    /// A run, before it plans its day.
    Drain,
    /// A second function, which the queue triggers.
    Trigger,
}

/// `staging.on_damaged_object`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDamagedObject {
    /// The run fails, by the object's name, before anything becomes visible.
    Fail,
    /// The whole object is left out, the answer says so, and the rest is delivered.
    Skip,
}

/// `[state]`: the vendor's own bucket for heads, journals, registries and quarantine.
#[derive(Clone, Debug)]
pub struct State {
    /// The bucket.
    pub s3_bucket: String,
    /// The prefix.
    pub s3_prefix: Prefix,
    /// The bucket's region, if it is not the function's own.
    pub s3_region: Option<String>,
    /// How long a holder's lease on a destination lasts without being renewed.
    pub lease: Duration,
}

/// Unpacked bytes of a chunk: small enough for every worker to have some, large enough that handing one over costs nothing beside it.
pub const CHUNK_BYTES: usize = 2 << 20;

/// `[run]`: how a run works.
#[derive(Clone, Debug)]
pub struct Run {
    /// The queue that holds a message for each run that is to be made.
    pub work_queue_url: Option<String>,
    /// The principal that `dayport policy` names.
    pub function_role_arn: Option<String>,
    /// Days between a trigger's own UTC date and the day that it asks for.
    pub lag_days: u32,
    /// How many missed days a scheduled trigger goes back at most.
    pub catch_up_days: u32,
    /// How many committed days are looked at for objects that came later.
    pub late_check_days: u32,
    /// Staged bytes of one shard.
    pub shard_size: u64,
    /// Worker threads, at least 1.
    pub threads: usize,
    /// The most bytes that everything buffered may take.
    pub memory_budget: u64,
    /// Unpacked bytes that a worker takes at a time. No key sets it: it is always [`CHUNK_BYTES`], but where a test proves that nothing which
    /// lands depends on it.
    pub chunk_bytes: usize,
    /// Bytes that the ids of a `dedupe` may take in memory before they go to scratch. No key sets it: it is what `memory_budget` leaves.
    pub dedupe_memory: u64,
    /// Bytes of one part of a multipart upload.
    pub part_size: u64,
    /// Where encoded bytes wait when they don't fit in memory.
    pub scratch_dir: PathBuf,
    /// How much of it may be used.
    pub scratch_budget: ScratchBudget,
    /// A run fails when more than this share of its records *and* more than `max_quarantine_records` are quarantined.
    pub max_quarantine_ratio: f64,
    /// See `max_quarantine_ratio`.
    pub max_quarantine_records: u64,
    /// The most event tables in a run.
    pub max_tables: usize,
    /// How long before the function's deadline no new shard is begun.
    pub deadline_margin: Duration,
}

impl Settings {
    /// The day that a trigger of `today` means for a destination: its own lag before, or else that of all.
    #[must_use]
    pub fn own_day(&self, destination: &Destination, today: Day) -> Day {
        today.plus_days(-i64::from(destination.lag_days.unwrap_or(self.run.lag_days)))
    }
}

impl Run {
    /// [`deadline_margin`](Run::deadline_margin) in milliseconds, as an invocation's rest of time is told.
    #[must_use]
    pub fn margin_millis(&self) -> u64 {
        u64::try_from(self.deadline_margin.as_millis()).unwrap_or(u64::MAX)
    }
}

/// `run.scratch_budget`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScratchBudget {
    /// That many bytes.
    Bytes(u64),
    /// That share (0 to 1) of what is free when the run starts.
    ShareOfFree(f64),
}

/// `[tables.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// How the table's files relate to the days before; `None` where the section only declares columns of an event table.
    pub sync: Option<SyncMode>,
    /// Its declared columns.
    pub columns: Vec<Declared>,
}

/// `[parquet]`.
#[derive(Clone, Debug, Serialize)]
pub struct Parquet {
    /// When a new key becomes a column.
    pub new_columns: NewColumns,
    /// The column for values that did not fit.
    pub rescue_column: String,
    /// The most leaf columns of a table.
    pub max_columns: usize,
    /// The most keys in one struct.
    pub max_fields: usize,
    /// The most levels of nesting that become columns; the top level is 1 and a list's element counts as one.
    pub max_column_depth: usize,
    /// Record bytes, summed over all open tables, at which the largest ends its row group.
    pub row_group_size: u64,
}

/// `parquet.new_columns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NewColumns {
    /// In the run that first sees it; the tables that were guessed wrong are written once more.
    SameRun,
    /// From the next run on; in this one it is rescued.
    NextRun,
}

/// `[[destination]]`: one customer's bucket.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Its name, `[a-z0-9-]+`.
    pub name: String,
    /// The bucket.
    pub s3_bucket: String,
    /// The prefix.
    pub s3_prefix: Prefix,
    /// The bucket's region; found out when left out.
    pub s3_region: Option<String>,
    /// JSON or Parquet.
    pub format: Format,
    /// The folder structure.
    pub layout: Layout,
    /// Which day a record's row goes to.
    pub partition_by: PartitionBy,
    /// With `partition_by = "time"`: how many days old a record may be.
    pub max_lateness_days: u32,
    /// Bytes of a finished object at which a table's next file begins.
    pub target_file_size: u64,
    /// The same for snapshot tables.
    pub snapshot_file_size: u64,
    /// Whether a staged snapshot without rows replaces the one that stands.
    pub allow_empty_snapshot: bool,
    /// The top-level key of which each value is delivered once a run.
    pub dedupe: Option<String>,
    /// Only records of this organisation.
    pub organization: Option<String>,
    /// Whether scheduled triggers cover it.
    pub enabled: bool,
    /// The first day that scheduled triggers catch up from.
    pub start_date: Option<Day>,
    /// Its own lag instead of `run.lag_days`.
    pub lag_days: Option<u32>,
    /// Whether the customer gets a manifest.
    pub manifest: bool,
    /// Whether each run re-reads what it committed.
    pub verify: bool,
    /// Whether uploads whose create answer was lost are looked for and aborted.
    pub sweep: bool,
    /// The 12 digits of the account that must own the bucket.
    pub expected_bucket_owner: Option<String>,
    /// Server-side encryption to ask for.
    pub encryption: Option<Encryption>,
    /// `bucket-owner-full-control`, or none.
    pub acl: Option<String>,
    /// Whether requests say that the requester pays.
    pub requester_pays: bool,
    /// Path-style addressing.
    pub path_style: bool,
    /// Whether uploads carry checksums S3 does not demand.
    pub checksum: Checksum,
    /// How requests to this bucket are signed.
    pub credentials: Credentials,
}

/// `destination.partition_by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionBy {
    /// Every record of a run goes to the staged day.
    StagedDay,
    /// The record's own UTC day decides.
    Time,
}

/// `destination.encryption` with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// SSE-S3.
    Aes256,
    /// SSE-KMS with the bucket's default key or the one whose full ARN is given.
    Kms(Option<String>),
}

/// `destination.checksum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Checksum {
    /// CRC64NVME, full object, on create, part and complete.
    Always,
    /// None that S3 does not demand, for stores that know none.
    WhenRequired,
}

/// How requests to a destination are signed. Holds names only; never a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The function's own role.
    Own,
    /// A role on the customer's side.
    Role {
        /// Its ARN.
        role_arn: String,
        /// The external id that its trust policy asks for.
        external_id: Option<String>,
    },
    /// A Secrets Manager secret with `aws_access_key_id` and `aws_secret_access_key`.
    Secret {
        /// Its ARN.
        secret_arn: String,
    },
    /// The names of two environment variables.
    Environment {
        /// The variable that holds the key id.
        access_key_id_env: String,
        /// The variable that holds the secret key.
        secret_access_key_env: String,
    },
}
