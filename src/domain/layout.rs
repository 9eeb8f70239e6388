//! Where each file lands: the one place that knows the two layouts.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::format::Format;
use super::run::{Day, Transfer};
use super::table::{SyncMode, TableName};

/// The most shards in a run and files of a table in a shard: three digits each in a file's name, counted from 0.
pub const MOST_SHARDS: u32 = 999;
/// See [`MOST_SHARDS`].
pub const MOST_FILES_A_SHARD: u32 = 999;

/// A folder path in a bucket. Invariants: empty, or non-empty and ending in `/`; never starts with `/`; no empty, `.` or `..` segment,
/// no control character; at most 700 bytes, so that no key under it passes S3's 1,024.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(String);

impl Prefix {
    /// `/exports`, `exports/` and `exports` give the same prefix; so do the empty text and `/`.
    pub fn parse(text: &str) -> Result<Prefix> {
        let inner = text.trim_matches('/');
        if inner.is_empty() {
            return Ok(Prefix::default());
        }
        let bad_segment = inner.split('/').any(|segment| matches!(segment, "" | "." | ".."));
        if bad_segment || inner.chars().any(char::is_control) {
            return Err(Error::vendor(format!(
                "the prefix `{}` has an empty, `.` or `..` part or a control character, write it like `exports/acme`",
                text.escape_debug()
            )));
        }
        if inner.len() > 700 {
            return Err(Error::vendor("the prefix is over 700 bytes, S3 allows 1,024 for the whole key: use a shorter one"));
        }
        Ok(Prefix(format!("{inner}/")))
    }

    /// The prefix as text: empty, or ending in `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether one of the two holds the other or they are equal.
    #[must_use]
    pub fn overlaps(&self, other: &Prefix) -> bool {
        self.0.starts_with(&other.0) || other.0.starts_with(&self.0)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key of an object that Dayport writes to a destination. Invariants: starts with the destination's prefix, never with `/`; at
/// most 1,024 bytes; made by [`Layout`] alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One file of a table within a run: all that its key is made of, beside the destination.
#[derive(Clone, Debug)]
pub struct FilePlace<'a> {
    /// The table.
    pub table: &'a TableName,
    /// Its sync mode.
    pub sync: SyncMode,
    /// The run's staged day.
    pub run_day: Day,
    /// The day of the partition that the file goes to; ignored for snapshots.
    pub partition_day: Day,
    /// The shard, from 0; ignored for snapshots.
    pub shard: u32,
    /// Permutive: the file within shard, table and partition day. Pontoon: the file within the table's whole transfer. Both from 0.
    pub file: u32,
    /// When the transfer started.
    pub transfer: Transfer,
    /// The file's format.
    pub format: Format,
}

/// Which of the two public systems' folder structures a destination gets (CONTRACT.md §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// `data/<table>/year=2026/month=1/day=15/data-000000000000.<ext>`; snapshots are replaced in place.
    Permutive,
    /// `<model>/dt=2026-01-16/<timestamp>_<batch>_<index>.<ext>`; nothing is ever replaced or deleted.
    Pontoon,
}

impl Layout {
    /// The key of one file.
    ///
    /// Fails as a bug when a number needs more digits than its name has: planning keeps them within.
    pub fn place(self, prefix: &Prefix, file: &FilePlace<'_>) -> Result<ObjectKey> {
        let (table, extension) = (file.table, file.format.extension());
        let key = match (self, file.sync) {
            (Layout::Permutive, SyncMode::Snapshot) => {
                format!("{prefix}data/{table}/data-{}.{extension}", file_number(0, 0, file.file)?)
            }
            (Layout::Permutive, SyncMode::Incremental) => {
                let day = file.partition_day;
                let late = file.run_day.days_since(day);
                let number = file_number(late, file.shard, file.file)?;
                format!("{prefix}data/{table}/{}/data-{number}.{extension}", self.partition(file))
            }
            (Layout::Pontoon, _) => {
                let (timestamp, batch) = (file.transfer.timestamp(), file.transfer.batch_id());
                format!("{prefix}{table}/{}/{timestamp}_{batch}_{}.{extension}", self.partition(file), file.file)
            }
        };
        Ok(ObjectKey(key))
    }

    /// The Hive partition that a file lies in, such as `year=2026/month=1/day=15` (never zero padded) or `dt=2026-01-16`.
    #[must_use]
    pub fn partition(self, file: &FilePlace<'_>) -> String {
        match self {
            Layout::Permutive => {
                let day = file.partition_day;
                format!("year={}/month={}/day={}", day.year(), day.month(), day.day())
            }
            Layout::Pontoon => file.transfer.day().map_or_else(String::new, |day| format!("dt={day}")),
        }
    }

    /// The day in a file's partition; `None` where its key has none.
    #[must_use]
    pub fn partition_day(self, file: &FilePlace<'_>) -> Option<Day> {
        match (self, file.sync) {
            (Layout::Permutive, SyncMode::Snapshot) => None,
            (Layout::Permutive, SyncMode::Incremental) => Some(file.partition_day),
            (Layout::Pontoon, _) => file.transfer.day(),
        }
    }

    /// The table that a file's key is of, and the day that it says: of the run under `permutive` (none for a snapshot), of the transfer under
    /// `pontoon`. `None` for a key that [`Layout::place`] never makes.
    #[must_use]
    pub fn table_and_day(self, prefix: &Prefix, key: &str) -> Option<(TableName, Option<Day>)> {
        let parts: Vec<&str> = key.strip_prefix(prefix.as_str())?.split('/').collect();
        match (self, parts.as_slice()) {
            (Layout::Permutive, ["data", table, _]) => Some((TableName::stored(table)?, None)),
            (Layout::Permutive, ["data", table, year, month, day, name]) => {
                let number = |text: &str, label: &str| text.strip_prefix(label)?.parse::<i32>().ok();
                let (month, day) = (number(month, "month=")?, number(day, "day=")?);
                let partition = Day::from_ymd(number(year, "year=")?, u8::try_from(month).ok()?, u8::try_from(day).ok()?)?;
                let late: i64 = name.strip_prefix("data-")?.get(..6)?.parse().ok()?;
                // The future counts down from 999999.
                let late = if late < 500_000 { late } else { late - 1_000_000 };
                Some((TableName::stored(table)?, Some(partition.plus_days(late))))
            }
            (Layout::Pontoon, [table, partition, _]) => {
                Some((TableName::stored(table)?, Some(partition.strip_prefix("dt=")?.parse().ok()?)))
            }
            _ => None,
        }
    }

    /// The folder that holds all files of a table and nothing else, `/` at its end.
    #[must_use]
    pub fn table_folder(self, prefix: &Prefix, table: &TableName) -> String {
        match self {
            Layout::Permutive => format!("{prefix}data/{table}/"),
            Layout::Pontoon => format!("{prefix}{table}/"),
        }
    }

    /// The partition columns of a table, outermost first: whole numbers without padding under `permutive`, one date under `pontoon`.
    #[must_use]
    pub fn partition_columns(self, sync: SyncMode) -> &'static [&'static str] {
        match (self, sync) {
            (Layout::Permutive, SyncMode::Snapshot) => &[],
            (Layout::Permutive, SyncMode::Incremental) => &["year", "month", "day"],
            (Layout::Pontoon, _) => &["dt"],
        }
    }

    /// The key of the manifest of a day: the customer's signal that the day is complete.
    #[must_use]
    #[expect(clippy::unused_self, reason = "where the manifest lies is the layouts' to say, though both say the same")]
    pub fn manifest_key(self, prefix: &Prefix, day: Day) -> ObjectKey {
        ObjectKey(format!("{prefix}_dayport/{day}.json"))
    }

    /// The key of the connection test's probe: beside the manifests, and none of theirs.
    #[must_use]
    #[expect(clippy::unused_self, reason = "as with the manifest's key")]
    pub fn probe_key(self, prefix: &Prefix) -> ObjectKey {
        ObjectKey(format!("{prefix}_dayport/check.txt"))
    }

    /// Whether a destination ever needs an object deleted.
    #[must_use]
    pub fn deletes(self) -> bool {
        self.rerun_replaces() || self.replaces_snapshots()
    }

    /// Whether a snapshot table's new files replace the old ones in place (else each transfer adds its own).
    #[must_use]
    pub fn replaces_snapshots(self) -> bool {
        self == Layout::Permutive
    }

    /// Whether a re-run of a day may replace and delete what the day's earlier run landed.
    #[must_use]
    pub fn rerun_replaces(self) -> bool {
        self == Layout::Permutive
    }

    /// Whether a table's files are numbered through the whole transfer (else anew in each shard and partition).
    #[must_use]
    pub fn numbers_through_transfer(self) -> bool {
        self == Layout::Pontoon
    }

    /// Whether `partition_by = "time"` can be had.
    #[must_use]
    pub fn can_partition_by_time(self) -> bool {
        self == Layout::Permutive
    }

    /// Whether Parquet files carry `pontoon__batch_id` and `pontoon__last_synced_at`.
    #[must_use]
    pub fn adds_transfer_columns(self) -> bool {
        self == Layout::Pontoon
    }

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layout::Permutive => "permutive",
            Layout::Pontoon => "pontoon",
        }
    }
}

/// `LLLLLLSSSFFF`: days of lateness (the future counts down from 999999), shard, file.
fn file_number(late_days: i64, shard: u32, file: u32) -> Result<String> {
    if shard > MOST_SHARDS || file > MOST_FILES_A_SHARD {
        return Err(Error::bug(format!("file {file} of shard {shard} has no name of 12 digits, please report it")));
    }
    Ok(format!("{:06}{shard:03}{file:03}", late_days.rem_euclid(1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    #[test]
    fn a_prefix_is_the_same_however_its_slashes_are_written() {
        for text in ["/exports", "exports/", "exports", "//exports//"] {
            assert_eq!(Prefix::parse(text).unwrap().as_str(), "exports/");
        }
        for text in ["", "/", "//"] {
            assert_eq!(Prefix::parse(text).unwrap().as_str(), "");
        }
        for text in ["a/../b", "a//b", "./a", "a\nb", "..", &"x".repeat(701)] {
            assert!(Prefix::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn prefixes_overlap_when_one_holds_the_other() {
        let [root, a, ab, b] = ["", "a", "a/b", "ab"].map(|text| Prefix::parse(text).unwrap());
        assert!(root.overlaps(&b) && a.overlaps(&ab) && ab.overlaps(&a) && a.overlaps(&a));
        assert!(!a.overlaps(&b), "`a/` and `ab/` are two folders");
    }

    #[test]
    fn a_key_tells_its_table_and_day() {
        use Layout::{Permutive, Pontoon};
        let prefix = Prefix::parse("x").unwrap();
        let of = |layout: Layout, key: &str| {
            let (table, day) = layout.table_and_day(&prefix, key)?;
            Some((table.as_str().to_owned(), day.map(|day| day.to_string())))
        };
        let some = |table: &str, day: Option<&str>| Some((table.to_owned(), day.map(str::to_owned)));
        let in_day = "x/data/3d_events/year=2026/month=1/day=15";
        assert_eq!(of(Permutive, &format!("{in_day}/data-000000000000.parquet")), some("3d_events", Some("2026-01-15")));
        assert_eq!(of(Permutive, &format!("{in_day}/data-000003000001.parquet")), some("3d_events", Some("2026-01-18")));
        assert_eq!(of(Permutive, &format!("{in_day}/data-999999000000.parquet")), some("3d_events", Some("2026-01-14")));
        assert_eq!(of(Permutive, "x/data/domains/data-000000000000.parquet"), some("domains", None));
        assert_eq!(of(Pontoon, "x/domains/dt=2026-01-16/20260116_1_0.parquet"), some("domains", Some("2026-01-16")));
        for strange in ["x/_dayport/2026-01-15.json", "y/data/t/a", "x/data/T/a", "x/data/t/year=2026/month=1/day=15/x", "x"] {
            assert_eq!(of(Permutive, strange), None, "{strange}");
        }
    }

    #[test]
    fn golden_keys() {
        use Format::{Json, Parquet};
        use Layout::{Permutive, Pontoon};
        use SyncMode::{Incremental, Snapshot};
        let run = day("2026-01-15");
        let transfer = Transfer { started_millis: 1_768_546_800_250 };
        #[rustfmt::skip]
        let golden = [
            (Permutive, "", "pageview_events", Incremental, "2026-01-15", 0, 0, Json, "data/pageview_events/year=2026/month=1/day=15/data-000000000000.json.gz"),
            (Permutive, "/exports/", "pageview_events", Incremental, "2026-01-15", 2, 11, Parquet, "exports/data/pageview_events/year=2026/month=1/day=15/data-000000002011.parquet"),
            (Permutive, "e", "aliases", Incremental, "2025-12-31", 0, 0, Json, "e/data/aliases/year=2025/month=12/day=31/data-000015000000.json.gz"),
            (Permutive, "e", "aliases", Incremental, "2026-01-16", 999, 999, Json, "e/data/aliases/year=2026/month=1/day=16/data-999999999999.json.gz"),
            (Permutive, "e", "domains", Snapshot, "2026-01-15", 7, 0, Json, "e/data/domains/data-000000000000.json.gz"),
            (Permutive, "e", "segment_metadata", Snapshot, "2026-01-15", 7, 1, Parquet, "e/data/segment_metadata/data-000000000001.parquet"),
            (Pontoon, "", "pageview_events", Incremental, "2026-01-15", 3, 0, Parquet, "pageview_events/dt=2026-01-16/20260116070000_1768546800250_0.parquet"),
            (Pontoon, "exports", "domains", Snapshot, "2026-01-15", 3, 12, Json, "exports/domains/dt=2026-01-16/20260116070000_1768546800250_12.json.gz"),
        ];
        for (layout, prefix, table, sync, partition, shard, file, format, key) in golden {
            let table = TableName::parse(table).unwrap();
            let place =
                FilePlace { table: &table, sync, run_day: run, partition_day: day(partition), shard, file, transfer, format };
            assert_eq!(layout.place(&Prefix::parse(prefix).unwrap(), &place).unwrap().as_str(), key);
        }
        let prefix = Prefix::parse("x").unwrap();
        assert_eq!(Layout::Permutive.manifest_key(&prefix, run).as_str(), "x/_dayport/2026-01-15.json");
        assert_eq!(Layout::Pontoon.manifest_key(&Prefix::default(), run).as_str(), "_dayport/2026-01-15.json");
    }

    #[test]
    fn a_number_that_needs_more_digits_is_refused_and_not_cut() {
        assert!(file_number(0, 1000, 0).is_err());
        assert!(file_number(0, 0, 1000).is_err());
        assert_eq!(file_number(-1, 0, 0).unwrap(), "999999000000");
    }
}
