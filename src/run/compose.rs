//! From finished shards to the whole list of a commit: what is completed, replaced, deleted and told; pure, so that it can be looked at.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::document::{self, FORM};
use super::head::{CommitRef, Head};
use super::journal::{FinishedFile, OpenUpload, RunState, ShardDone, TableFacts};
use super::manifest::{self, MANIFEST_VERSION, Manifest, ManifestCounts};
use super::paths::Paths;
use super::plan::Plan;
use super::quarantine::Quarantined;
use super::registry::{self, Change};
use crate::domain::counts::Counts;
use crate::domain::error::{Error, Result};
use crate::domain::format::Format;
use crate::domain::layout::Layout;
use crate::domain::run::{Day, RunId, Transfer};
use crate::domain::schema::TableSchema;
use crate::domain::settings::{Destination, Settings};
use crate::domain::table::{SyncMode, TableName};
use crate::store::ports::Read;

/// A snapshot table that is replaced in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// The keys of its new files.
    pub files: Vec<String>,
    /// Keys of earlier files that no new one has.
    pub leftovers: Vec<String>,
}

/// A whole commit: rolling it forward needs nothing else, and no configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommitDocument {
    /// The document's form.
    pub form: u32,
    /// Destination and day.
    pub run: RunId,
    /// Its generation and attempt.
    pub commit: CommitRef,
    /// The build that made the files.
    pub build: String,
    /// When the transfer started.
    pub transfer: Transfer,
    /// The folder structure.
    pub layout: Layout,
    /// The files' format.
    pub format: Format,
    /// The customer's prefix; no key outside it is ever touched.
    pub prefix: String,
    /// Files of incremental tables: completed first.
    pub incremental: Vec<FinishedFile>,
    /// Files of snapshot tables: completed when all of those are.
    pub snapshot: Vec<FinishedFile>,
    /// Snapshot tables that are replaced in place.
    pub swaps: BTreeMap<TableName, Swap>,
    /// Keys of the day's earlier incremental files that no new one has.
    pub delete: Vec<String>,
    /// Uploads that were begun and that nobody wants.
    pub abort: Vec<OpenUpload>,
    /// New schema versions.
    pub registry: Vec<Change>,
    /// The manifest's key in the customer's bucket, if the customer gets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_key: Option<String>,
    /// The manifest, byte for byte.
    pub manifest: String,
    /// The run's counts.
    pub counts: Counts,
    /// Quarantined records by reason.
    pub reasons: BTreeMap<String, u64>,
    /// Keys of the quarantine's parts in the state bucket.
    pub quarantine: Vec<String>,
    /// What the run has to say: snapshots that stay, objects left out, files that ended early.
    pub notes: Vec<String>,
}

impl CommitDocument {
    /// Every file that lands.
    pub fn files(&self) -> impl Iterator<Item = &FinishedFile> {
        self.incremental.iter().chain(&self.snapshot)
    }

    /// The manifest.
    pub fn manifest(&self) -> Result<Manifest> {
        Manifest::parse(&self.manifest)
    }
}

/// What the day landed before, by earlier generations: the committed one, and dead ones after it.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    /// Keys of incremental tables' files that a re-run may replace and delete.
    incremental: BTreeSet<String>,
    /// Keys of snapshot tables' files that a dead commit may have left.
    broken_snapshots: BTreeMap<TableName, BTreeSet<String>>,
    /// Uploads of dead commits, some of which may still be open.
    uploads: Vec<OpenUpload>,
    /// The committed generation's manifest.
    manifest: Option<Manifest>,
}

/// Reads what the day landed before. `head` is the holder's own.
pub async fn earlier(store: &(impl Read + Sync), paths: &Paths, head: &Head, day: Day) -> Result<Earlier> {
    let mut earlier = Earlier::default();
    let committed = head.commits.get(&day).map(|done| done.commit);
    for commit in committed.iter().chain(head.broken.get(&day).into_iter().flatten()) {
        let before: CommitDocument = document::read_present(store, &paths.commit(day, commit.generation, commit.attempt)).await?;
        let keys = |files: &[FinishedFile]| files.iter().map(|file| file.upload.key.clone()).collect::<Vec<_>>();
        if before.layout.rerun_replaces() {
            earlier.incremental.extend(keys(&before.incremental));
        }
        if committed == Some(*commit) {
            earlier.manifest = Some(before.manifest()?);
            continue;
        }
        earlier.uploads.extend(before.files().map(FinishedFile::open_upload).chain(before.abort.iter().cloned()));
        if before.layout.replaces_snapshots() {
            for file in &before.snapshot {
                earlier.broken_snapshots.entry(file.table.clone()).or_default().insert(file.upload.key.clone());
            }
        }
    }
    Ok(earlier)
}

/// All that a commit's list is made from.
pub struct Composition<'a> {
    /// The limits.
    pub settings: &'a Settings,
    /// Whose run it is.
    pub destination: &'a Destination,
    /// Where its documents lie.
    pub paths: &'a Paths,
    /// The head, as its holder last wrote it.
    pub head: &'a Head,
    /// The journal's state.
    pub state: &'a RunState,
    /// What was to be read.
    pub plan: &'a Plan,
    /// What every shard yielded ([`super::journal::Journal::shards`]).
    pub shards: Vec<ShardDone>,
    /// What the day landed before.
    pub earlier: &'a Earlier,
    /// The tables' pinned schemas before the run.
    pub pinned: &'a BTreeMap<TableName, TableSchema>,
    /// The schemas that the run's files have; empty for a format without.
    pub schemas: &'a BTreeMap<TableName, TableSchema>,
    /// The schemas that the next run begins with, of tables for which they are more than what this run's files have.
    pub next: &'a BTreeMap<TableName, TableSchema>,
}

/// Makes the commit's list, and checks all that must hold before anything becomes visible: the balance, per object and in total, the
/// quarantine's threshold, that every key lies under the prefix and is there once, that every row that was counted is in a file.
///
/// `abort` holds what dead commits left; the run's own leftovers are added when it is committed.
pub fn compose(composition: Composition<'_>) -> Result<CommitDocument> {
    let Composition { settings, destination, paths, head, state, plan, mut shards, earlier, pinned, schemas, next } = composition;
    let day = state.run.day;
    let layout = destination.layout;
    check_complete(plan, &shards)?;
    check_counts(&state.run, &shards)?;
    quarantined(&shards).check(&state.run, settings.run.max_quarantine_ratio, settings.run.max_quarantine_records)?;

    let mut notes = Vec::new();
    for (tables, why) in [(&plan.snapshots_without_files, Stays::NothingStaged), (&plan.snapshots_left, Stays::LaterDay)] {
        notes.extend(tables.iter().filter_map(|table| why.note(table, head)));
    }
    let mut swaps = BTreeMap::new();
    if layout.replaces_snapshots() {
        for shard in &mut shards {
            let Some(table) = shard.snapshot.clone() else { continue };
            if let Some(why) = stays(shard, &table, head, day, settings, destination) {
                notes.extend(why.note(&table, head));
                leave(shard);
                continue;
            }
            let standing = head.snapshots.get(&table).map(|pointer| &pointer.files);
            let swap = swap(shard, standing, earlier.broken_snapshots.get(&table));
            swaps.insert(table, swap);
        }
    }

    let files = || shards.iter().flat_map(|shard| &shard.files);
    let prefix = destination.s3_prefix.as_str();
    check_files(&state.run, prefix, files(), shards.iter().map(ShardDone::counts).map(|counts| counts.delivered).sum())?;
    let landed: BTreeSet<&str> = files().map(|file| file.upload.key.as_str()).collect();
    let stands_before = |key: &&String| !landed.contains(key.as_str());
    let delete: Vec<String> =
        if layout.rerun_replaces() { earlier.incremental.iter().filter(stands_before).cloned().collect() } else { Vec::new() };

    let mut total = Counts::default();
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for shard in &shards {
        total += shard.counts();
        for (reason, count) in &shard.reasons {
            *reasons.entry(reason.clone()).or_default() += count;
        }
        notes.extend(shard.notes.iter().cloned());
        let skipped = shard.objects.iter().filter_map(|object| Some((object, object.skipped.as_ref()?)));
        notes.extend(
            skipped.map(|(object, why)| format!("object `{}` is damaged and was left out: {why}", object.key.escape_debug())),
        );
    }
    let unattributed = shards.iter().map(|shard| shard.unattributed).sum();

    let old_snapshots = swaps.keys().filter_map(|table| head.snapshots.get(table)).flat_map(|pointer| &pointer.files);
    let mut replaced: BTreeSet<String> = old_snapshots.filter(|key| landed.contains(key.as_str())).cloned().collect();
    if layout.rerun_replaces() {
        replaced.extend(earlier.incremental.iter().filter(|key| landed.contains(key.as_str())).cloned());
    }
    let leftovers = swaps.values().flat_map(|swap| swap.leftovers.iter().cloned());
    let deleted: BTreeSet<String> = delete.iter().cloned().chain(leftovers).collect();
    let mut told = BTreeSet::new();
    notes.retain(|note| told.insert(note.clone()));
    let mut manifest = Manifest {
        manifest_version: MANIFEST_VERSION,
        destination: destination.name.clone(),
        date: day,
        layout,
        format: destination.format,
        generation: state.generation,
        transfer: (!layout.rerun_replaces()).then(|| state.transfer.into()),
        counts: ManifestCounts::own(&total, unattributed),
        tables: manifest_tables(&shards, &swaps, schemas),
        replaced: replaced.into_iter().collect(),
        deleted: deleted.into_iter().collect(),
        earlier_transfers: Vec::new(),
    };
    if !layout.rerun_replaces() {
        manifest.add_earlier(earlier.manifest.clone());
    }

    let mut registry = registry::changes(paths, pinned, schemas, day, state.generation)?;
    let mut landed_schemas = pinned.clone();
    landed_schemas.extend(schemas.clone());
    registry.extend(registry::changes(paths, &landed_schemas, next, day, state.generation)?);

    let (incremental, snapshot) = files().cloned().partition(|file: &FinishedFile| file.sync == SyncMode::Incremental);
    Ok(CommitDocument {
        form: FORM,
        run: state.run.clone(),
        commit: CommitRef { generation: state.generation, attempt: state.attempt },
        build: state.fingerprint.build.clone(),
        transfer: state.transfer,
        layout,
        format: destination.format,
        prefix: prefix.to_owned(),
        incremental,
        snapshot,
        swaps,
        delete,
        abort: earlier.uploads.clone(),
        registry,
        manifest_key: destination.manifest.then(|| layout.manifest_key(&destination.s3_prefix, day).as_str().to_owned()),
        manifest: manifest.to_text()?,
        counts: total,
        reasons,
        quarantine: shards.iter().flat_map(|shard| shard.quarantine.iter().cloned()).collect(),
        notes,
    })
}

/// Why a snapshot table stays as it stands.
#[derive(Clone, Copy)]
enum Stays {
    NothingStaged,
    LaterDay,
    NoRows,
    TooManyQuarantined,
}

impl Stays {
    /// What is said of it. A table that never landed is one that the vendor does not stage: that is no news.
    fn note(self, table: &TableName, head: &Head) -> Option<String> {
        if matches!(self, Stays::NothingStaged) && !head.snapshots.contains_key(table) {
            return None;
        }
        let why = match self {
            Stays::NothingStaged => "nothing was staged for it",
            Stays::LaterDay => "what stands is of a later day",
            Stays::NoRows => "what was staged for it has no rows, and `allow_empty_snapshot` is not set",
            Stays::TooManyQuarantined => "more of its records are quarantined than `run.max_quarantine_ratio` allows",
        };
        Some(format!("snapshot table `{table}` stays as it stands: {why}"))
    }
}

fn stays(
    shard: &ShardDone,
    table: &TableName,
    head: &Head,
    day: Day,
    settings: &Settings,
    destination: &Destination,
) -> Option<Stays> {
    if head.stands_later(table, day) {
        return Some(Stays::LaterDay);
    }
    if quarantined(std::slice::from_ref(shard)).is_over_ratio(settings.run.max_quarantine_ratio) {
        return Some(Stays::TooManyQuarantined);
    }
    if !shard.files.is_empty() {
        return None;
    }
    if !shard.own_folder {
        return Some(Stays::NothingStaged);
    }
    (!destination.allow_empty_snapshot).then_some(Stays::NoRows)
}

/// Takes a snapshot's rows out of the run; what is quarantined stays counted, since it lies in the quarantine.
fn leave(shard: &mut ShardDone) {
    shard.files.clear();
    shard.tables.clear();
    for object in &mut shard.objects {
        let Counts { quarantined, filtered, .. } = object.counts;
        object.counts = Counts { read: quarantined + filtered, quarantined, filtered, ..Counts::default() };
    }
}

fn swap(shard: &ShardDone, standing: Option<&Vec<String>>, broken: Option<&BTreeSet<String>>) -> Swap {
    let files: Vec<String> = shard.files.iter().map(|file| file.upload.key.clone()).collect();
    let old: BTreeSet<&String> = standing.into_iter().flatten().chain(broken.into_iter().flatten()).collect();
    let leftovers = old.into_iter().filter(|key| !files.contains(key)).cloned().collect();
    Swap { files, leftovers }
}

fn manifest_tables(
    shards: &[ShardDone],
    swaps: &BTreeMap<TableName, Swap>,
    schemas: &BTreeMap<TableName, TableSchema>,
) -> Vec<manifest::ManifestTable> {
    let mut tables: BTreeMap<&TableName, (SyncMode, Vec<&FinishedFile>, TableFacts)> = BTreeMap::new();
    for file in shards.iter().flat_map(|shard| &shard.files) {
        tables.entry(&file.table).or_insert_with(|| (file.sync, Vec::new(), TableFacts::default())).1.push(file);
    }
    // One that was emptied has no file, and is told all the same.
    for table in swaps.keys() {
        tables.entry(table).or_insert_with(|| (SyncMode::Snapshot, Vec::new(), TableFacts::default()));
    }
    for (name, facts) in shards.iter().flat_map(|shard| &shard.tables) {
        let Some((_, _, sum)) = tables.get_mut(name) else { continue };
        sum.rows += facts.rows;
        sum.largest_record = sum.largest_record.max(facts.largest_record);
        for (path, count) in &facts.rescued {
            *sum.rescued.entry(path.clone()).or_default() += count;
        }
    }
    tables
        .into_iter()
        .map(|(name, (sync, files, facts))| manifest::table(name, sync, &files, &facts, schemas.get(name)))
        .collect()
}

fn quarantined(shards: &[ShardDone]) -> Quarantined<'_> {
    let mut all = Quarantined::default();
    for shard in shards {
        let counts = shard.counts();
        all.quarantined += counts.quarantined.saturating_sub(shard.unattributed);
        all.records += counts.read.saturating_sub(counts.filtered + shard.unattributed);
        for (reason, count) in &shard.reasons {
            *all.reasons.entry(reason).or_default() += count;
        }
        for object in shard.objects.iter().filter(|object| object.counts.quarantined > 0) {
            *all.objects.entry(&object.key).or_default() += object.counts.quarantined;
        }
    }
    all
}

fn check_complete(plan: &Plan, shards: &[ShardDone]) -> Result<()> {
    let done: BTreeSet<u32> = shards.iter().map(|shard| shard.number).collect();
    match plan.shards.iter().find(|shard| !done.contains(&shard.number)) {
        None => Ok(()),
        Some(missing) => {
            Err(Error::bug(format!("shard {} is not finished and its run was to be committed, please report it", missing.number)))
        }
    }
}

fn check_counts(run: &RunId, shards: &[ShardDone]) -> Result<()> {
    let mut total = Counts::default();
    for shard in shards {
        for object in &shard.objects {
            object.counts.check_balance(&format!("object `{}`", object.key.escape_debug()))?;
        }
        let reasons: u64 = shard.reasons.values().sum();
        let counts = shard.counts();
        if reasons != counts.quarantined {
            return Err(Error::bug(format!(
                "shard {} of {run} has {} quarantined records and {reasons} reasons, please report it",
                shard.number, counts.quarantined
            )));
        }
        total += counts;
    }
    total.check_balance(&run.to_string())
}

fn check_files<'f>(run: &RunId, prefix: &str, files: impl Iterator<Item = &'f FinishedFile>, delivered: u64) -> Result<()> {
    let (mut keys, mut rows) = (BTreeSet::new(), 0_u64);
    for file in files {
        let key = file.upload.key.as_str();
        if !key.starts_with(prefix) || !keys.insert(key) {
            return Err(Error::bug(format!("file `{key}` of {run} lies outside the prefix or is there twice, please report it")));
        }
        rows += file.rows;
    }
    if rows == delivered {
        return Ok(());
    }
    Err(Error::bug(format!(
        "{delivered} records of {run} were counted as delivered and {rows} rows are in files, please report it"
    )))
}
