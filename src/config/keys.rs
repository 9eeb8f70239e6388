//! The table of every key of `dayport.toml`: its section, type, default and meaning.
//!
//! The reader takes its defaults from here, unknown keys are measured against it, and `docs/configuration.md` is held to it by a test.

use std::fmt::Write as _;

use Fallback::{Computed, None as Optional, Required, Toml};
use Section::{Credentials, Destination, EventTables, Parquet, Run, Staging, State, Table};

/// A section of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Staging,
    State,
    Run,
    EventTables,
    Table,
    Parquet,
    Destination,
    Credentials,
}

/// Every section, in the order of the documentation.
pub(super) const SECTIONS: [Section; 8] = [
    Section::Staging,
    Section::State,
    Section::Run,
    Section::EventTables,
    Section::Table,
    Section::Parquet,
    Section::Destination,
    Section::Credentials,
];

/// The keys at the top of the file.
pub(super) const TOP: [&str; 7] = ["staging", "state", "run", "event_tables", "tables", "parquet", "destination"];

impl Section {
    /// The section as it is written in the file.
    pub(super) fn header(self) -> &'static str {
        match self {
            Section::Staging => "[staging]",
            Section::State => "[state]",
            Section::Run => "[run]",
            Section::EventTables => "[event_tables]",
            Section::Table => "[tables.NAME]",
            Section::Parquet => "[parquet]",
            Section::Destination => "[[destination]]",
            Section::Credentials => "destination.credentials",
        }
    }
}

/// What holds where a key is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    /// It has to be written.
    Required,
    /// Nothing: the key is optional.
    None,
    /// This value, in TOML; it goes through the same rule as a written one.
    Toml(&'static str),
    /// Something that depends on another key or on the machine, in words.
    Computed(&'static str),
}

/// One key.
pub(super) struct Key {
    pub(super) section: Section,
    pub(super) name: &'static str,
    /// The type in the words of the documentation.
    pub(super) kind: &'static str,
    pub(super) default: Fallback,
    pub(super) meaning: &'static str,
}

/// The key of that name in a section.
pub(super) fn find(section: Section, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.section == section && key.name == name)
}

/// Another section that has a key of that name.
pub(super) fn home_of(name: &str) -> Option<Section> {
    KEYS.iter().find(|key| key.name == name && key.section != Section::Credentials).map(|key| key.section)
}

/// The names of a section's keys.
pub(super) fn names(section: Section) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(move |key| key.section == section).map(|key| key.name)
}

/// Every key as Markdown, a table for each section: what `docs/configuration.md` has to say.
#[must_use]
pub fn reference() -> String {
    let mut text = String::new();
    for section in SECTIONS {
        // The first lines of a table, in Markdown.
        let _ = write!(text, "## `{}`\n\n| key | type | default | meaning |\n|---|---|---|---|\n", section.header());
        for key in KEYS.iter().filter(|key| key.section == section) {
            let default = match key.default {
                Required => "required".to_owned(),
                Optional => "none".to_owned(),
                Toml(value) => format!("`{value}`"),
                Computed(words) => words.to_owned(),
            };
            let _ = writeln!(text, "| `{}` | {} | {default} | {} |", key.name, key.kind, key.meaning);
        }
        text.push('\n');
    }
    text
}

const fn key(section: Section, name: &'static str, kind: &'static str, default: Fallback, meaning: &'static str) -> Key {
    Key { section, name, kind, default, meaning }
}

/// Every key.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key(Staging, "s3_bucket", "bucket", Required, "the bucket in which the vendor stages a day's records"),
    key(Staging, "s3_prefix", "prefix", Toml(r#""events/{date}/""#), "the folder of one day: `{date}` is 2026-01-15, `{year}` `{month}` `{day}` are 2026 01 15, `{organization}` is the destination's; the day must be in it"),
    key(Staging, "s3_region", "region", Optional, "the bucket's region, if it is not the function's own"),
    key(Staging, "event_field", "text", Toml(r#""event_name""#), "the top-level key that names a record's event, and so its table"),
    key(Staging, "time_field", "text", Toml(r#""time""#), "the top-level key that holds a record's time"),
    key(Staging, "table_field", "text", Optional, "the top-level key that may name a configured table, for records outside such a table's folder"),
    key(Staging, "organization_field", "text", Optional, "the top-level key that names a record's organisation, where several share a prefix"),
    key(Staging, "require_marker", "text", Optional, "the name of an object below the day's prefix that must be there before the day is read, such as `_SUCCESS`"),
    key(Staging, "sqs_queue_url", "URL", Optional, "a standard queue of records and of S3 notifications, which is taken into staging; a notified object has to lie under `s3_prefix`, which then needs no day"),
    key(Staging, "sqs_mode", "`drain` or `trigger`", Toml(r#""drain""#), "whether a scheduled run drains the queue, or the queue triggers a second function"),
    key(Staging, "on_damaged_object", "`fail` or `skip`", Toml(r#""fail""#), "whether a damaged object fails the run or is left out whole, and said so"),
    key(Staging, "allow_empty_day", "boolean", Toml("false"), "whether a day without any staged object is fine; else the run fails, and may be tried again"),
    key(Staging, "max_record_bytes", "size", Toml(r#""16MiB""#), "the longest record; a longer one is quarantined"),
    key(Staging, "max_object_bytes", "size", Toml(r#""64GiB""#), "the most bytes that one object may unpack to; beyond it the object is damaged"),
    key(Staging, "max_ratio", "whole number", Toml("1000"), "the most unpacked bytes per staged byte; beyond it the object is damaged"),
    key(Staging, "max_depth", "whole number, 1 to 1000", Toml("64"), "the deepest nesting of a record, which itself counts as 1; a deeper one is quarantined"),

    key(State, "s3_bucket", "bucket", Required, "the vendor's bucket for heads, journals, registries and quarantine"),
    key(State, "s3_prefix", "prefix", Toml(r#""dayport/""#), "the folder in it"),
    key(State, "s3_region", "region", Optional, "the bucket's region, if it is not the function's own"),
    key(State, "lease", "duration, 100ms to 15m", Toml(r#""60s""#), "how long one holder of a destination may be silent before another takes over"),

    key(Run, "work_queue_url", "URL", Optional, "a standard queue with dead letters that the function is triggered by: each destination and day that a trigger asks for is a message of its own"),
    key(Run, "function_role_arn", "ARN of a role", Optional, "the function's role: the principal of `dayport policy`"),
    key(Run, "lag_days", "whole number, 0 to 366", Toml("1"), "days from the staged day to the trigger's own UTC date"),
    key(Run, "catch_up_days", "whole number, 0 to 366", Toml("7"), "how many missed days a scheduled trigger goes back at most"),
    key(Run, "late_check_days", "whole number, 0 to 366", Toml("7"), "how many committed days are looked at for objects that came later"),
    key(Run, "shard_size", "size", Toml(r#""2GiB""#), "staged bytes of one shard, the part of a day that is exported at a time"),
    key(Run, "threads", "whole number, 1 to 256", Computed("the machine's, at most 64"), "worker threads; what lands does not depend on it"),
    key(Run, "memory_budget", "size", Computed("70 % of the function's memory, or 1GiB"), "the most bytes that everything buffered may take; one that can't hold the row groups and limits is refused"),
    key(Run, "part_size", "size, 5MiB to 5GiB", Toml(r#""16MiB""#), "bytes of one part of a multipart upload; 10,000 of them must hold a file"),
    key(Run, "scratch_dir", "absolute path", Computed("the system's"), "where encoded bytes wait for a full part"),
    key(Run, "scratch_budget", "size or percentage", Toml(r#""80%""#), "how much of it may be used; a percentage is of what is free at start; when it is full, files end early and the answer names them"),
    key(Run, "max_quarantine_ratio", "number, 0 to 1", Toml("0.01"), "a run fails when more than this share of its records, and also more than `max_quarantine_records`, are quarantined"),
    key(Run, "max_quarantine_records", "whole number", Toml("1000"), "see `max_quarantine_ratio`"),
    key(Run, "max_tables", "whole number, 1 to 100000", Toml("1000"), "the most event tables in a run; records of further ones are quarantined"),
    key(Run, "deadline_margin", "duration, 0s to 15m", Toml(r#""60s""#), "how long before the function's deadline no new shard is begun"),

    key(EventTables, "columns", "columns", Optional, "columns declared for every event table"),

    key(Table, "sync", "`incremental` or `snapshot`", Computed("`\"incremental\"`; a built-in table keeps its own"), "whether each day adds a partition or replaces the whole table; not for tables that end in `_events`"),
    key(Table, "columns", "columns", Optional, "columns declared for this table; for one that ends in `_events`, beside those of `[event_tables]`"),

    key(Parquet, "new_columns", "`same_run` or `next_run`", Toml(r#""same_run""#), "whether a new key becomes a column in the run that first sees it or, rescued until then, in the next"),
    key(Parquet, "rescue_column", "text", Toml(r#""_rescued_data""#), "the column that holds the values that did not fit theirs"),
    key(Parquet, "max_columns", "whole number, 1 to 100000", Toml("2000"), "the most leaf columns of a table; further keys are rescued"),
    key(Parquet, "max_fields", "whole number, 1 to 100000", Toml("200"), "the most keys in one struct; further ones are rescued"),
    key(Parquet, "max_column_depth", "whole number, 1 to 64", Toml("12"), "the deepest nesting that becomes columns, the top level being 1; what is deeper is rescued"),
    key(Parquet, "row_group_size", "size", Toml(r#""256MiB""#), "record bytes, summed over all open tables, at which the largest ends its row group; about a quarter of it once encoded"),

    key(Destination, "name", "`[a-z0-9-]+`", Required, "the destination's name, by which commands and state know it"),
    key(Destination, "s3_bucket", "bucket", Required, "the customer's bucket"),
    key(Destination, "s3_prefix", "prefix", Toml(r#""""#), "the folder in it; `/exports`, `exports/` and `exports` mean the same"),
    key(Destination, "s3_region", "region", Computed("found out"), "the bucket's region"),
    key(Destination, "format", "`parquet` or `json`", Toml(r#""parquet""#), "typed columns (Snappy), or one record a line, byte for byte (gzip)"),
    key(Destination, "layout", "`permutive` or `pontoon`", Toml(r#""permutive""#), "which of the two folder structures lands"),
    key(Destination, "partition_by", "`staged_day` or `time`", Toml(r#""staged_day""#), "whether a record goes to the staged day or to its own UTC day; `time` only with the permutive layout"),
    key(Destination, "max_lateness_days", "whole number, 0 to 36500", Toml("30"), "with `partition_by = \"time\"`: how old a record may be; an older one is quarantined"),
    key(Destination, "target_file_size", "size", Computed("256MiB for Parquet, 64MiB for JSON"), "bytes of the finished object at which a table's next file begins"),
    key(Destination, "snapshot_file_size", "size", Toml(r#""4GiB""#), "the same for snapshot tables: one file up to this size, so that the swap is one object"),
    key(Destination, "allow_empty_snapshot", "boolean", Toml("false"), "whether a staged snapshot without rows replaces the one that stands"),
    key(Destination, "dedupe", "text", Optional, "the top-level key, such as `event_id`, of which each value is delivered once a run: the first record in key order stays, the others are counted; a record without it, or whose value is null, empty or no scalar, is always delivered"),
    key(Destination, "organization", "text", Optional, "only records of this organisation; fills `{organization}`"),
    key(Destination, "enabled", "boolean", Toml("true"), "`false` pauses the destination"),
    key(Destination, "start_date", "day", Optional, "the first day that scheduled triggers catch up from"),
    key(Destination, "lag_days", "whole number, 0 to 366", Optional, "its own lag instead of that of `[run]`"),
    key(Destination, "manifest", "boolean", Toml("true"), "whether the day's manifest is written to the customer, last of all"),
    key(Destination, "verify", "boolean", Toml("false"), "whether each run re-reads what it committed and compares it with the manifest; needs GetObject and ListBucket"),
    key(Destination, "sweep", "boolean", Toml("false"), "whether uploads whose create answer was lost are looked for and aborted; needs ListBucketMultipartUploads"),
    key(Destination, "expected_bucket_owner", "12 digits", Optional, "the account that must own the bucket; another one's is refused by S3"),
    key(Destination, "encryption", "`AES256` or `aws:kms`", Optional, "the server-side encryption to ask for; left out, the bucket's own default holds"),
    key(Destination, "kms_key_arn", "ARN of a key", Optional, "the full ARN of the key, with `encryption = \"aws:kms\"`"),
    key(Destination, "acl", "`bucket-owner-full-control`", Optional, "the ACL to ask for, for older buckets whose owner would else not own the objects"),
    key(Destination, "requester_pays", "boolean", Toml("false"), "whether requests say that the requester pays"),
    key(Destination, "path_style", "boolean", Toml("false"), "whether the bucket's name goes into the path instead of the host name"),
    key(Destination, "checksum", "`always` or `when_required`", Toml(r#""always""#), "CRC64NVME on create, part and complete, or none that S3 does not demand, for stores that know none"),
    key(Destination, "role_arn", "ARN of a role", Optional, "a role on the customer's side that is assumed for this bucket"),
    key(Destination, "external_id", "text", Optional, "the external id that its trust policy asks for"),
    key(Destination, "credentials", "table", Optional, "where a key pair is found: `secret_arn`, or both `access_key_id_env` and `secret_access_key_env`; never the keys themselves"),

    key(Credentials, "secret_arn", "ARN of a secret", Optional, "a Secrets Manager secret with `aws_access_key_id` and `aws_secret_access_key`"),
    key(Credentials, "access_key_id_env", "variable's name", Optional, "the environment variable that holds the access key id"),
    key(Credentials, "secret_access_key_env", "variable's name", Optional, "the environment variable that holds the secret key"),
];
