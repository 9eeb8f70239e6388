//! From a day's listing to its shards: which staged objects are read, and which part of the run reads them.

use serde::{Deserialize, Serialize};

use crate::domain::error::{Error, Result};
use crate::domain::layout::{MOST_FILES_A_SHARD, MOST_SHARDS};
use crate::domain::run::Day;
use crate::domain::settings::{Destination, Settings};
pub use crate::domain::staged::is_staged;
use crate::domain::table::{SyncMode, TableName};
use crate::store::ports::{List, ObjectInfo, Staged};

/// How many bytes of finished files a staged byte may become before a shard could run out of file numbers: staged objects are mostly
/// packed about as well as what lands, and sixteen times leaves room for those that are packed far better.
const MOST_GROWTH: u64 = 16;

/// The staged objects of a day, in key order: everything under `prefix` that [`is_staged`], and what is staged for the day elsewhere.
pub async fn list_staged(store: &(impl Staged + Sync), day: Day, prefix: &str) -> Result<Vec<ObjectInfo>> {
    // A queue is drained here, and by then what it speaks of can be listed.
    let elsewhere = store.elsewhere(day, prefix).await?;
    let mut objects = store.list_all(prefix).await?;
    objects.retain(|object| is_staged(prefix, &object.key));
    objects.extend(elsewhere);
    objects.sort_by(|a, b| a.key.cmp(&b.key));
    if let Some(twice) =
        objects.windows(2).find(|pair| matches!(pair, [one, other] if one.key == other.key)).and_then(<[_]>::first)
    {
        return Err(Error::vendor(format!(
            "`{}` is a staged object and one of the spool's in the state bucket, give `staging.s3_prefix` and `state.s3_prefix` different names",
            twice.key
        )));
    }
    Ok(objects)
}

/// Fails, retryably, until the object `marker` is there below `prefix` (`staging.require_marker`).
pub async fn require_marker(store: &(impl List + Sync), prefix: &str, marker: &str) -> Result<()> {
    let key = format!("{prefix}{marker}");
    let (page, _) = store.list_page(&key, None).await?;
    if page.first().is_some_and(|object| object.key == key) {
        return Ok(());
    }
    Err(Error::retryable(format!(
        "the marker `{key}` is not there yet, the day is read once the vendor's staging job has put it there"
    )))
}

/// The folder directly under the staged prefix that a key lies in, if any.
#[must_use]
pub fn folder_of<'a>(prefix: &str, key: &'a str) -> Option<&'a str> {
    let (folder, _) = key.strip_prefix(prefix)?.split_once('/')?;
    Some(folder)
}

/// A part of a run's input, read and written as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its number, 0 to 999; in the names of its files.
    pub number: u32,
    /// Its objects, in key order.
    pub objects: Vec<ObjectInfo>,
    /// The one snapshot table that it makes; `None` for a shard that makes all others.
    pub snapshot: Option<TableName>,
    /// Whether `objects` also holds some that other shards read as well, of which this one takes its own table's records only.
    pub filter: bool,
    /// Whether some object lies in the snapshot table's own folder: without one, and without a record, nothing was staged for it.
    pub own_folder: bool,
}

impl Shard {
    /// Staged bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.size).sum()
    }
}

/// What a run reads, in which parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The shards by number; those of snapshot tables last, in the tables' order.
    pub shards: Vec<Shard>,
    /// Snapshot tables that nothing was staged for: what stands stays, and the run says so.
    pub snapshots_without_files: Vec<TableName>,
    /// Snapshot tables whose standing files are of a later day: they stay, and the run says so.
    pub snapshots_left: Vec<TableName>,
    /// Staged bytes of a shard, grown where needed to stay within 1,000 shards.
    pub shard_size: u64,
    /// Bytes of a finished file, grown where needed to stay within 1,000 files a shard.
    pub target_file_size: u64,
    /// The same for snapshot tables.
    pub snapshot_file_size: u64,
}

impl Plan {
    /// The same plan without the shards of snapshot tables for which `stands_later` is true.
    #[must_use]
    pub fn leaving(mut self, stands_later: impl Fn(&TableName) -> bool) -> Plan {
        let (left, kept): (Vec<Shard>, Vec<Shard>) =
            self.shards.into_iter().partition(|shard| shard.snapshot.as_ref().is_some_and(&stands_later));
        self.snapshots_left.extend(left.into_iter().filter_map(|shard| shard.snapshot));
        self.shards = kept;
        self
    }
}

/// Splits a day's objects into shards (CONTRACT.md §1 and §2).
///
/// `objects` are the listing of `prefix`, in any order. The same listing and settings give the same plan. Fails retryably on an empty
/// day unless `staging.allow_empty_day`.
pub fn plan(objects: &[ObjectInfo], prefix: &str, settings: &Settings, destination: &Destination) -> Result<Plan> {
    if objects.is_empty() && !settings.staging.allow_empty_day {
        return Err(Error::retryable(format!(
            "nothing is staged under `{prefix}` yet, stage the day or set `staging.allow_empty_day = true` if a day may be empty"
        )));
    }
    let mut ordered: Vec<&ObjectInfo> = objects.iter().collect();
    ordered.sort_by(|a, b| a.key.cmp(&b.key));

    let snapshots: Vec<TableName> = settings
        .tables
        .iter()
        .filter(|(_, table)| table.sync == Some(SyncMode::Snapshot))
        .filter_map(|(name, _)| TableName::parse(name))
        .collect();
    let snapshot_of = |object: &ObjectInfo| {
        let folder = folder_of(prefix, &object.key)?;
        snapshots.iter().find(|table| table.as_str() == folder)
    };
    let has_configured_folder =
        |object: &ObjectInfo| folder_of(prefix, &object.key).is_some_and(|folder| settings.tables.contains_key(folder));

    let others: Vec<&ObjectInfo> = ordered.iter().copied().filter(|object| snapshot_of(object).is_none()).collect();
    let may_hide_snapshots = settings.staging.table_field.is_some();
    let mut snapshot_shards = Vec::new();
    let mut snapshots_without_files = Vec::new();
    for table in &snapshots {
        let is_own = |object: &ObjectInfo| snapshot_of(object) == Some(table);
        let is_shared = |object: &ObjectInfo| may_hide_snapshots && !has_configured_folder(object);
        let objects: Vec<ObjectInfo> =
            ordered.iter().filter(|object| is_own(object) || is_shared(object)).map(|&object| object.clone()).collect();
        if objects.is_empty() {
            snapshots_without_files.push(table.clone());
            continue;
        }
        let own_folder = objects.iter().any(is_own);
        let filter = objects.iter().any(is_shared);
        snapshot_shards.push(Shard { number: 0, objects, snapshot: Some(table.clone()), filter, own_folder });
    }

    let (groups, shard_size) = group(&others, settings.run.shard_size, snapshot_shards.len())?;
    let ordinary =
        groups.into_iter().map(|objects| Shard { number: 0, objects, snapshot: None, filter: false, own_folder: false });
    let shards: Vec<Shard> = ordinary.chain(snapshot_shards).zip(0..).map(|(shard, number)| Shard { number, ..shard }).collect();

    let largest = |of_snapshots: bool| {
        shards.iter().filter(|shard| shard.snapshot.is_some() == of_snapshots).map(Shard::bytes).max().unwrap_or(0)
    };
    let file_size = |wanted: u64, largest: u64| wanted.max((largest / u64::from(MOST_FILES_A_SHARD)).saturating_mul(MOST_GROWTH));
    Ok(Plan {
        target_file_size: file_size(destination.target_file_size, largest(false)),
        snapshot_file_size: file_size(destination.snapshot_file_size, largest(true)),
        shards,
        snapshots_without_files,
        snapshots_left: Vec::new(),
        shard_size,
    })
}

/// Consecutive objects up to `shard_size` bytes a group (at least one object), with as much more as keeps all groups numbered.
fn group(objects: &[&ObjectInfo], shard_size: u64, snapshot_shards: usize) -> Result<(Vec<Vec<ObjectInfo>>, u64)> {
    let numbers = MOST_SHARDS as usize + 1;
    let room = numbers.saturating_sub(snapshot_shards);
    if (room == 0 && !objects.is_empty()) || snapshot_shards > numbers {
        return Err(Error::vendor(format!(
            "the configuration has {snapshot_shards} snapshot tables, a run can take {MOST_SHARDS}: remove some `[tables.*]` sections"
        )));
    }
    let mut size = shard_size.max(1);
    loop {
        let mut groups: Vec<Vec<ObjectInfo>> = Vec::new();
        let mut bytes = 0_u64;
        for &object in objects {
            match groups.last_mut() {
                Some(group) if bytes.saturating_add(object.size) <= size => {
                    group.push(object.clone());
                    bytes += object.size;
                }
                _ => {
                    groups.push(vec![object.clone()]);
                    bytes = object.size;
                }
            }
        }
        if groups.len() <= room {
            return Ok((groups, size));
        }
        size = size.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::Kind;
    use crate::domain::settings::Table;
    use crate::run::testing::{destination, settings};
    use crate::store::memory::MemoryBucket;

    const PREFIX: &str = "events/2026-01-15/";

    fn object(name: &str, size: u64) -> ObjectInfo {
        ObjectInfo { key: format!("{PREFIX}{name}"), size, etag: "\"e\"".into() }
    }

    fn planned(objects: &[ObjectInfo], settings: &Settings) -> Plan {
        plan(objects, PREFIX, settings, &destination("permutive")).unwrap()
    }

    fn names(shard: &Shard) -> Vec<&str> {
        shard.objects.iter().map(|object| object.key.strip_prefix(PREFIX).unwrap()).collect()
    }

    #[tokio::test]
    async fn folder_markers_and_hidden_keys_are_not_staged_and_pages_are_followed() {
        let bucket = MemoryBucket::new().with_page_size(2);
        for name in ["_SUCCESS", ".tmp/a", "a", "b/", "b/_part/c", "b/c", "b/.d", "x_y", "é", "zz/.e/f"] {
            bucket.insert(&format!("{PREFIX}{name}"), "x");
        }
        bucket.insert(PREFIX, "");
        bucket.insert("events/2026-01-16/a", "x");
        bucket.insert("_events/2026-01-15/a", "x");
        let keys: Vec<String> = list_staged(&bucket, "2026-01-15".parse().unwrap(), PREFIX)
            .await
            .unwrap()
            .into_iter()
            .map(|object| object.key)
            .collect();
        assert_eq!(keys, ["a", "b/c", "x_y", "é"].map(|name| format!("{PREFIX}{name}")));
    }

    #[tokio::test]
    async fn a_missing_marker_is_retryable_and_a_longer_name_is_not_it() {
        let bucket = MemoryBucket::new();
        bucket.insert(&format!("{PREFIX}_SUCCESS.old"), "");
        let error = require_marker(&bucket, PREFIX, "_SUCCESS").await.unwrap_err();
        assert_eq!(error.kind(), Kind::Retryable);
        bucket.insert(&format!("{PREFIX}_SUCCESS"), "");
        require_marker(&bucket, PREFIX, "_SUCCESS").await.unwrap();
    }

    #[test]
    fn an_empty_day_is_retryable_unless_it_is_allowed() {
        let mut settings = settings();
        let error = plan(&[], PREFIX, &settings, &destination("permutive")).unwrap_err();
        assert_eq!(error.kind(), Kind::Retryable);
        settings.staging.allow_empty_day = true;
        let empty = planned(&[], &settings);
        assert!(empty.shards.is_empty());
        assert_eq!(empty.snapshots_without_files.len(), 2);
    }

    #[test]
    fn consecutive_objects_fill_shards_and_snapshots_come_last() {
        let objects = [
            object("z", 10),
            object("domains/b", 500),
            object("a", 60),
            object("b", 40),
            object("c", 1),
            object("d", 300),
            object("aliases/a", 5),
            object("domains/a", 500),
            object("sub/domains/a", 7),
        ];
        let plan = planned(&objects, &settings());
        let shards: Vec<(u32, Vec<&str>, Option<&str>)> = plan
            .shards
            .iter()
            .map(|shard| (shard.number, names(shard), shard.snapshot.as_ref().map(TableName::as_str)))
            .collect();
        assert_eq!(
            shards,
            [
                (0, vec!["a", "aliases/a"], None),
                (1, vec!["b", "c"], None),
                (2, vec!["d"], None),
                (3, vec!["sub/domains/a", "z"], None),
                (4, vec!["domains/a", "domains/b"], Some("domains")),
            ]
        );
        assert_eq!(plan.snapshots_without_files, [TableName::parse("segment_metadata").unwrap()]);
        assert!(plan.shards[4].own_folder && !plan.shards[4].filter);
        assert_eq!(plan.shard_size, 100);
        let left = plan.leaving(|table| table.as_str() == "domains");
        assert_eq!((left.shards.len(), left.snapshots_left.len()), (4, 1));
    }

    #[test]
    fn with_a_table_field_snapshot_rows_may_hide_in_any_object_without_a_tables_folder() {
        let mut settings = settings();
        settings.staging.table_field = Some("table".into());
        let objects = [object("a", 10), object("other/b", 10), object("aliases/c", 10), object("domains/d", 10)];
        let plan = planned(&objects, &settings);
        let snapshots: Vec<(Vec<&str>, bool, bool)> =
            plan.shards.iter().skip(1).map(|shard| (names(shard), shard.filter, shard.own_folder)).collect();
        assert_eq!(names(&plan.shards[0]), ["a", "aliases/c", "other/b"]);
        assert_eq!(snapshots, [(vec!["a", "domains/d", "other/b"], true, true), (vec!["a", "other/b"], true, false)]);
    }

    #[test]
    fn many_objects_grow_the_shards_instead_of_running_out_of_numbers() {
        let objects: Vec<ObjectInfo> = (0..5000).map(|number| object(&format!("{number:06}"), 100)).collect();
        let mut with_snapshots = objects.clone();
        with_snapshots.push(object("domains/a", 1));
        with_snapshots.push(object("segment_metadata/a", 1));
        let plan = planned(&with_snapshots, &settings());
        assert_eq!(plan.shard_size, 800);
        assert!(plan.shards.len() <= 1000);
        assert!(plan.shards.iter().zip(0..).all(|(shard, number)| shard.number == number));
        let read: Vec<ObjectInfo> = plan.shards.into_iter().flat_map(|shard| shard.objects).collect();
        assert_eq!(read, with_snapshots, "every object once, in key order");
    }

    #[test]
    fn a_huge_shard_grows_its_files_instead_of_running_out_of_numbers() {
        let plan = planned(&[object("a", 1 << 40), object("domains/a", 1 << 43)], &settings());
        assert!(plan.target_file_size >= (1 << 40) / 999 * 16);
        assert!(plan.snapshot_file_size >= (1 << 43) / 999 * 16);
        let usual = planned(&[object("a", 2 << 30)], &settings());
        assert_eq!((usual.target_file_size, usual.snapshot_file_size), (64 << 20, 4 << 30));
    }

    #[test]
    fn more_snapshot_tables_than_numbers_are_refused() {
        let mut settings = settings();
        let mut objects = vec![object("a", 1)];
        for number in 0..1000 {
            let table = Table { sync: Some(SyncMode::Snapshot), columns: Vec::new() };
            settings.tables.insert(format!("s{number:04}"), table);
            objects.push(object(&format!("s{number:04}/a"), 1));
        }
        let error = plan(&objects, PREFIX, &settings, &destination("permutive")).unwrap_err();
        assert_eq!(error.kind(), Kind::Vendor);
    }
}
