//! A run's own documents: a small state, and lists beside it that are written once and never changed.
//!
//! Under `runs/<destination>/<day>/<generation>/`:
//!
//! - `state.json`: [`RunState`], moved by conditional writes;
//! - `staged-<epoch>.json`: the staged objects that the export reads;
//! - `open-<attempt>-<n>.json`: uploads that were begun;
//! - `shard-<number>-<attempt>.json`, `again-<number>-<attempt>.json`: [`ShardDone`], what a shard yielded, and what its second pass did;
//! - `<name>-<epoch>.json`: whatever else an export fixes once, such as the schemas that it guessed;
//! - `commit-<attempt>.json`: the whole list of a commit.
//!
//! An *attempt* is one invocation's work on the run; each begins by a conditional write that also says which shards of the attempts
//! before it are kept. So a holder that stalled and wakes after a takeover can only write documents that nobody will read, and what is
//! not kept may be aborted: that it is not kept was recorded first. An *epoch* is the attempt at which the export last began from
//! nothing, because the build, the configuration, the registry or the staged objects were others than before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::document::{self, FORM};
use super::head::{CommitRef, DayCommit, OpenRun};
use super::lease::check_holder;
use super::paths::Paths;
use crate::domain::error::{Error, Kind, Result};
use crate::domain::run::{Day, RunId};
use crate::store::lanes::{LANES, bounded};
use crate::store::ports::{Condition, List, Multipart, ObjectInfo, Put, Read, Write};

mod types;

pub use types::{
    Failure, Fingerprint, FinishedFile, Kept, ObjectCounts, OpenUpload, Pass, Phase, RunState, ShardDone, TableFacts,
    staged_digest,
};

/// A run's documents, in the hands of the invocation that holds the destination's lease.
pub struct Journal<'a, S> {
    store: &'a S,
    paths: Paths,
    day: Day,
    generation: u32,
    holder: String,
    writes: u64,
    state: RunState,
    etag: Option<String>,
    finished: BTreeMap<(Pass, u32), ShardDone>,
    finished_at_start: usize,
    orphans: BTreeSet<OpenUpload>,
    aborted: BTreeSet<OpenUpload>,
    opens_written: AtomicU32,
}

impl<'a, S> Journal<'a, S>
where
    S: List + Read + Write + Sync,
{
    /// Begins an attempt at a run whose head entry is `open`: goes on from what earlier attempts finished if `fingerprint` is the same,
    /// else starts over. `staged` are the objects that the export reads.
    ///
    /// Call [`Journal::abort_orphans`] next.
    pub async fn begin(
        store: &'a S,
        paths: &Paths,
        day: Day,
        open: &OpenRun,
        holder: &str,
        fingerprint: &Fingerprint,
        staged: &[ObjectInfo],
    ) -> Result<Journal<'a, S>> {
        let generation = open.generation;
        let found = Documents::load(store, paths, day, generation).await?;
        let key = paths.run_state(day, generation);
        let before: Option<(RunState, String)> = match store.read_small(&key).await? {
            Some((bytes, etag)) => Some((document::decode(&key, &bytes)?, etag)),
            None => None,
        };
        // One that stalled until here would begin an attempt at a run that is done, and nobody would come to abort what it uploads.
        check_holder(store, paths, holder).await?;
        let same = before.as_ref().filter(|(state, _)| state.fingerprint == *fingerprint);
        // Without its staged list an attempt died before it read anything.
        let resumed = match same {
            Some((state, _)) => {
                let staged: Option<Vec<ObjectInfo>> =
                    document::read(store, &staged_key(paths, day, generation, state.epoch)).await?;
                staged.map(|_| state)
            }
            None => None,
        };
        let attempt = before.as_ref().map_or(0, |(state, _)| state.attempt + 1);
        let kept: Vec<Kept> = resumed.map(|state| found.kept_after(state)).unwrap_or_default();
        let state = RunState {
            form: FORM,
            run: RunId { destination: paths.destination().to_owned(), day },
            generation,
            phase: if kept.is_empty() { Phase::Planned } else { Phase::Exporting },
            failure: None,
            attempt,
            epoch: resumed.map_or(attempt, |state| state.epoch),
            kept,
            fingerprint: fingerprint.clone(),
            transfer: open.transfer,
            forces: open.forces.clone(),
            idle: resumed.map_or(0, |state| state.idle),
            handed_on: false,
            deaths: same.map_or(0, |(state, _)| state.silent_ends()),
            write: String::new(),
        };
        let finished: BTreeMap<(Pass, u32), ShardDone> =
            state.kept.iter().filter_map(|kept| Some(((kept.pass, kept.number), found.shards.get(kept)?.clone()))).collect();
        let is_new_epoch = state.epoch == attempt;
        let mut journal = Journal {
            store,
            paths: paths.clone(),
            day,
            generation,
            holder: holder.to_owned(),
            writes: 0,
            state,
            etag: before.map(|(_, etag)| etag),
            finished_at_start: finished.len(),
            orphans: found.uploads_beside(finished.values()),
            aborted: BTreeSet::new(),
            finished,
            opens_written: AtomicU32::new(0),
        };
        journal.write_state().await?;
        if is_new_epoch {
            document::write(store, &staged_key(paths, day, generation, attempt), &staged).await?;
        }
        Ok(journal)
    }

    /// Where the run stands.
    #[must_use]
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// What is finished so far, by pass and shard; these need not be done again.
    #[must_use]
    pub fn finished(&self) -> &BTreeMap<(Pass, u32), ShardDone> {
        &self.finished
    }

    /// What is finished, the second pass put in place of the first, by shard.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardDone> {
        let firsts = self.finished.iter().filter(|((pass, _), _)| *pass == Pass::First);
        firsts
            .map(|((_, number), first)| match self.finished.get(&(Pass::Second, *number)) {
                Some(second) => first.clone().with_second_pass(second.clone()),
                None => first.clone(),
            })
            .collect()
    }

    /// Notes uploads that were begun, so that they end completed or aborted even if this invocation dies. To be called before their
    /// first part is sent.
    pub async fn record_uploads(&self, uploads: &[OpenUpload]) -> Result<()> {
        let number = self.opens_written.fetch_add(1, Ordering::Relaxed);
        let key = format!("{}open-{}-{number}.json", self.folder(), self.state.attempt);
        document::write(self.store, &key, &uploads).await
    }

    /// Notes a finished shard. After an error it may or may not be noted: its uploads must then be left as they are, the next attempt
    /// finds out.
    pub async fn record_shard(&mut self, pass: Pass, mut done: ShardDone) -> Result<()> {
        done.form = FORM;
        let key = format!("{}{}-{:03}-{}.json", self.folder(), pass.name(), done.number, self.state.attempt);
        document::write(self.store, &key, &done).await?;
        self.finished.insert((pass, done.number), done);
        Ok(())
    }

    /// Fixes a document of the export once for all attempts that go on from each other, such as the schemas that were guessed: the
    /// first value that was given under `name` (`[a-z]+`) is what every later call returns.
    pub async fn fix<T: Serialize + DeserializeOwned>(&self, name: &str, value: T) -> Result<T> {
        document::write_once(self.store, &self.fixed_key(name), value).await
    }

    /// What was fixed under `name`, if anything was.
    pub async fn fixed<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        document::read(self.store, &self.fixed_key(name)).await
    }

    /// Aborts what earlier attempts began and nobody keeps. Nothing that is done later can want it: that was recorded before.
    pub async fn abort_orphans(&mut self, customer: &(impl Multipart + Sync)) -> Result<()> {
        let orphans = std::mem::take(&mut self.orphans);
        bounded(&orphans, LANES, |upload| customer.abort(&upload.key, &upload.id)).await?;
        self.aborted = orphans;
        Ok(())
    }

    /// Every recorded upload that is neither in `files` nor known to be aborted: what the commit has to abort. Looks again, since a
    /// holder that woke after the takeover may have recorded more.
    pub async fn leftovers(&self, files: impl IntoIterator<Item = &FinishedFile>) -> Result<Vec<OpenUpload>> {
        let found = Documents::load(self.store, &self.paths, self.day, self.generation).await?;
        let wanted: BTreeSet<OpenUpload> = files.into_iter().map(FinishedFile::open_upload).collect();
        let all = found.uploads_beside(std::iter::empty());
        Ok(all.into_iter().filter(|upload| !wanted.contains(upload) && !self.aborted.contains(upload)).collect())
    }

    /// Notes that files are being made.
    pub async fn exporting(&mut self) -> Result<()> {
        if self.state.phase == Phase::Exporting {
            return Ok(());
        }
        self.state.phase = Phase::Exporting;
        self.write_state().await
    }

    /// Notes that this invocation ends at its deadline, to be continued. The second in a row that finished no shard is the vendor's to
    /// mend.
    pub async fn continued(&mut self) -> Result<()> {
        const MOST_IDLE: u32 = 2;
        let has_progress = self.finished.len() > self.finished_at_start;
        self.state.idle = if has_progress { 0 } else { self.state.idle + 1 };
        self.interrupted().await?;
        if self.state.idle < MOST_IDLE {
            return Ok(());
        }
        Err(Error::vendor(format!(
            "{} invocations in a row ended without finishing one shard of {}, give the function more memory or time, make `run.shard_size` smaller, or stage smaller objects",
            self.state.idle, self.state.run
        )))
    }

    /// Notes that this invocation ends, to be continued, before it had the time that an invocation has.
    pub async fn interrupted(&mut self) -> Result<()> {
        self.state.handed_on = true;
        self.write_state().await
    }

    /// Notes why this invocation gives up. A recorded commit stays one: it is rolled forward by whoever comes next.
    pub async fn failed(&self, error: &Error) -> Result<()> {
        note_failure(self.store, &self.paths, self.day, self.generation, error).await
    }

    fn folder(&self) -> String {
        self.paths.run(self.day, self.generation)
    }

    fn fixed_key(&self, name: &str) -> String {
        format!("{}{name}-{}.json", self.folder(), self.state.epoch)
    }

    async fn write_state(&mut self) -> Result<()> {
        self.state.write = format!("{}-{}", self.holder, self.writes);
        self.writes += 1;
        let key = self.paths.run_state(self.day, self.generation);
        let body = document::encode(&self.state)?;
        let condition = self.etag.clone().map_or(Condition::Absent, Condition::Unchanged);
        let failure = match self.store.put(&key, body, "application/json", &condition).await {
            Ok(Put::Done(etag)) => {
                self.etag = Some(etag);
                return Ok(());
            }
            Ok(Put::Lost) => None,
            Err(error) if error.kind() == Kind::Retryable => Some(error),
            Err(error) => return Err(error),
        };
        if let Some((bytes, etag)) = self.store.read_small(&key).await? {
            let standing: RunState = document::decode(&key, &bytes)?;
            if standing.write == self.state.write {
                self.etag = Some(etag);
                return Ok(());
            }
        }
        Err(failure.unwrap_or_else(|| {
            Error::retryable(format!(
                "another invocation works on {} too, it goes on from what is recorded: nothing to do",
                self.state.run
            ))
        }))
    }
}

fn staged_key(paths: &Paths, day: Day, generation: u32, epoch: u32) -> String {
    format!("{}staged-{epoch}.json", paths.run(day, generation))
}

/// The staged objects that the attempt `epoch` of a run was begun with; to see what came later.
pub async fn staged(
    store: &(impl Read + Sync),
    paths: &Paths,
    day: Day,
    generation: u32,
    epoch: u32,
) -> Result<Option<Vec<ObjectInfo>>> {
    document::read(store, &staged_key(paths, day, generation, epoch)).await
}

/// Where a run stands, read from its state document; `None` if it has none yet.
pub async fn run_state(store: &(impl Read + Sync), paths: &Paths, day: Day, generation: u32) -> Result<Option<RunState>> {
    document::read(store, &paths.run_state(day, generation)).await
}

/// Where a run stands and what its first pass made of each shard so far, in their order; `None` if it has no documents.
pub async fn finished_shards(
    store: &(impl List + Read + Sync),
    paths: &Paths,
    day: Day,
    generation: u32,
) -> Result<Option<(RunState, Vec<ShardDone>)>> {
    let Some(state) = run_state(store, paths, day, generation).await? else { return Ok(None) };
    let mut found = Documents::load(store, paths, day, generation).await?;
    let counted = found.kept_after(&state).into_iter().filter(|kept| kept.pass == Pass::First);
    let shards = counted.filter_map(|kept| found.shards.remove(&kept)).collect::<Vec<_>>();
    Ok(Some((state, shards)))
}

/// Moves a run's state to a phase it reached by the head's word, which has decided already: whoever reads it is told, nobody acts on it.
pub async fn note_phase(
    store: &(impl Read + Write + Sync),
    paths: &Paths,
    day: Day,
    generation: u32,
    phase: Phase,
    error: Option<&Error>,
) -> Result<()> {
    note(store, &paths.run_state(day, generation), |state| {
        (state.phase, state.failure) = (phase, error.map(Failure::of));
    })
    .await
}

/// Notes why a run's invocation gave up.
pub async fn note_failure(
    store: &(impl Read + Write + Sync),
    paths: &Paths,
    day: Day,
    generation: u32,
    error: &Error,
) -> Result<()> {
    note(store, &paths.run_state(day, generation), |state| {
        state.failure = Some(Failure::of(error));
        if matches!(state.phase, Phase::Planned | Phase::Exporting) {
            state.phase = Phase::Failed;
        }
    })
    .await
}

async fn note(store: &(impl Read + Write + Sync), key: &str, change: impl Fn(&mut RunState)) -> Result<()> {
    const TRIES: usize = 5;
    for _ in 0..TRIES {
        let Some((bytes, etag)) = store.read_small(key).await? else { return Ok(()) };
        let before: RunState = document::decode(key, &bytes)?;
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(());
        }
        if let Put::Done(_) = store.put(key, document::encode(&after)?, "application/json", &Condition::Unchanged(etag)).await? {
            return Ok(());
        }
    }
    Err(Error::retryable(format!("the state document `{key}` is being written by somebody else, try again")))
}

/// Every upload that a run recorded; of an open run, those that may still be open in the customer's bucket.
pub async fn recorded_uploads(
    store: &(impl List + Read + Sync),
    paths: &Paths,
    day: Day,
    generation: u32,
) -> Result<Vec<OpenUpload>> {
    let found = Documents::load(store, paths, day, generation).await?;
    Ok(found.uploads_beside(std::iter::empty()).into_iter().collect())
}

/// Aborts what `attempt` began and no later attempt keeps: for a holder that woke after a takeover, and recorded uploads after whoever
/// took over had looked for them. Says whether a later attempt has begun; before that nothing is aborted, since it may keep all.
pub async fn abort_outlived(
    store: &(impl List + Read + Sync),
    paths: &Paths,
    day: Day,
    generation: u32,
    attempt: u32,
    customer: &(impl Multipart + Sync),
) -> Result<bool> {
    let Some(state) = run_state(store, paths, day, generation).await?.filter(|state| state.attempt > attempt) else {
        return Ok(false);
    };
    let found = Documents::load(store, paths, day, generation).await?;
    let kept = found.kept_after(&state);
    let beside = found.uploads_beside(kept.iter().filter_map(|kept| found.shards.get(kept)));
    let own: Vec<&OpenUpload> = beside.iter().filter(|upload| found.begun.get(upload) == Some(&attempt)).collect();
    bounded(own, LANES, |upload| customer.abort(&upload.key, &upload.id)).await?;
    Ok(true)
}

/// The last commit of a day that the head has forgotten, found by listing the day's runs.
pub async fn last_commit(store: &(impl List + Read + Sync), paths: &Paths, day: Day) -> Result<Option<DayCommit>> {
    let folder = paths.day(day);
    let listing = store.list_all(&folder).await?;
    let generations: BTreeSet<u32> =
        listing.iter().filter_map(|object| object.key.strip_prefix(&folder)?.strip_suffix("/state.json")?.parse().ok()).collect();
    let mut last: Option<DayCommit> = None;
    for generation in generations {
        let Some(state) = run_state(store, paths, day, generation).await? else { continue };
        if state.phase != Phase::Committed {
            continue;
        }
        let mut forces = last.map(|done| done.forces).unwrap_or_default();
        forces.extend(state.forces);
        last = Some(DayCommit { commit: CommitRef { generation, attempt: state.attempt }, forces });
    }
    Ok(last)
}

/// What lies in a run's folder.
#[derive(Default)]
struct Documents {
    shards: BTreeMap<Kept, ShardDone>,
    /// With the attempt that began them.
    begun: BTreeMap<OpenUpload, u32>,
}

impl Documents {
    async fn load(store: &(impl List + Read + Sync), paths: &Paths, day: Day, generation: u32) -> Result<Documents> {
        let folder = paths.run(day, generation);
        let listing = store.list_all(&folder).await?;
        let names = listing.iter().filter_map(|object| Some((object.key.as_str(), object.key.strip_prefix(&folder)?)));
        let (mut shards, mut opens) = (Vec::new(), Vec::new());
        for (key, name) in names {
            let stem = name.strip_suffix(".json").unwrap_or_default();
            let mut parts = stem.split('-');
            let (Some(word), Some(first), Some(second)) = (parts.next(), parts.next(), parts.next()) else { continue };
            let (Ok(first), Ok(second)) = (first.parse::<u32>(), second.parse::<u32>()) else { continue };
            let pass = [Pass::First, Pass::Second].into_iter().find(|pass| pass.name() == word);
            match pass {
                Some(pass) => shards.push((key, Kept { pass, number: first, attempt: second })),
                None if word == "open" => opens.push((key, first)),
                None => {}
            }
        }
        let shards =
            bounded(
                shards,
                LANES,
                |(key, kept)| async move { Ok((kept, document::read_present::<ShardDone>(store, key).await?)) },
            );
        let shards = shards.await?.into_iter().collect();
        let begun = bounded(opens, LANES, |(key, attempt)| async move {
            let uploads = document::read_present::<Vec<OpenUpload>>(store, key).await?;
            Ok(uploads.into_iter().map(move |upload| (upload, attempt)))
        });
        Ok(Documents { shards, begun: begun.await?.into_iter().flatten().collect() })
    }

    /// The documents that count for the attempt after `state`: those that it kept, and those that it wrote.
    fn kept_after(&self, state: &RunState) -> Vec<Kept> {
        self.shards.keys().filter(|kept| kept.attempt == state.attempt || state.kept.contains(kept)).copied().collect()
    }

    /// Every upload that is recorded somewhere, but for those of `kept`.
    fn uploads_beside<'d>(&self, kept: impl Iterator<Item = &'d ShardDone>) -> BTreeSet<OpenUpload> {
        let uploads_of = |done: &ShardDone| done.files.iter().map(FinishedFile::open_upload).collect::<Vec<_>>();
        let mut all: BTreeSet<OpenUpload> = self.begun.keys().cloned().collect();
        all.extend(self.shards.values().flat_map(uploads_of));
        for upload in kept.flat_map(uploads_of) {
            all.remove(&upload);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::run::Transfer;
    use crate::domain::table::{SyncMode, TableName};
    use crate::run::testing::{World, day, objects};
    use crate::store::memory::MemoryBucket;
    use crate::store::ports::Upload;

    /// A day's first run, of which nothing is recorded.
    fn open_run() -> OpenRun {
        OpenRun {
            generation: 0,
            transfer: Transfer { started_millis: 1_000 },
            forces: Vec::new(),
            commit: None,
            landed: false,
            dead: false,
        }
    }

    async fn begin<'a>(world: &'a World, holder: &str, build: &str) -> Journal<'a, MemoryBucket> {
        let open = open_run();
        let staged = objects(day("2026-01-15"), &[("a", vec![("t", 1)])]);
        let fingerprint = Fingerprint { build: build.into(), staged: staged_digest(&staged), ..Fingerprint::default() };
        Journal::begin(&world.state, &world.paths(), day("2026-01-15"), &open, holder, &fingerprint, &staged).await.unwrap()
    }

    async fn file(world: &World, table: &str, name: &str) -> FinishedFile {
        let key = format!("exports/{name}");
        let id = world.customer.create(&key, "x").await.unwrap();
        let part = world.customer.part(&key, &id, 1, bytes::Bytes::from_static(b"rows")).await.unwrap();
        let upload = Upload { key, id, parts: vec![part], size: 4, checksum: None };
        let table = TableName::parse(table).unwrap();
        let sync = SyncMode::Incremental;
        FinishedFile { table, sync, partition_day: None, shard: 0, file: 0, upload, rows: 1, created_millis: 0 }
    }

    fn shard(number: u32, files: Vec<FinishedFile>) -> ShardDone {
        let tables =
            files.iter().map(|file| (file.table.clone(), TableFacts { rows: file.rows, ..TableFacts::default() })).collect();
        ShardDone { number, files, tables, ..ShardDone::default() }
    }

    #[tokio::test]
    async fn a_second_pass_replaces_its_tables_and_leaves_the_firsts_uploads_to_be_aborted() {
        let world = World::new("permutive");
        let mut journal = begin(&world, "a", "1").await;
        let (kept, wrong) = (file(&world, "kept", "k").await, file(&world, "wrong", "w1").await);
        journal.record_shard(Pass::First, shard(0, vec![kept.clone(), wrong.clone()])).await.unwrap();
        let right = file(&world, "wrong", "w2").await;
        journal.record_shard(Pass::Second, shard(0, vec![right.clone()])).await.unwrap();
        let merged = journal.shards();
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0].files, [kept, right]);
        let leftovers = journal.leftovers(&merged[0].files).await.unwrap();
        assert_eq!(leftovers, [wrong.open_upload()]);
        // And so for the next attempt.
        let next = begin(&world, "b", "1").await;
        assert_eq!(next.shards(), merged);
    }

    #[tokio::test]
    async fn what_is_fixed_first_stays_until_the_export_starts_over() {
        let world = World::new("permutive");
        let journal = begin(&world, "a", "1").await;
        assert_eq!(journal.fixed::<Vec<u32>>("guess").await.unwrap(), None);
        assert_eq!(journal.fix("guess", vec![1_u32]).await.unwrap(), [1]);
        assert_eq!(journal.fix("guess", vec![2_u32]).await.unwrap(), [1]);
        assert_eq!(begin(&world, "b", "1").await.fixed("guess").await.unwrap(), Some(vec![1_u32]));
        assert_eq!(begin(&world, "c", "2").await.fixed::<Vec<u32>>("guess").await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_holder_whose_attempt_is_over_can_not_move_the_state() {
        let world = World::new("permutive");
        let mut stalled = begin(&world, "a", "1").await;
        let mut next = begin(&world, "b", "1").await;
        let error = stalled.exporting().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Retryable);
        next.exporting().await.unwrap();
        // Nor does a shard count that it notes from now on.
        stalled.record_shard(Pass::First, shard(0, vec![file(&world, "t", "x").await])).await.unwrap();
        let third = begin(&world, "c", "1").await;
        assert!(third.finished().is_empty());
        assert_eq!(third.orphans.len(), 1);
    }

    #[tokio::test]
    async fn a_holder_that_was_taken_over_before_its_attempt_begins_none() {
        // It used to begin one even where the run was committed meanwhile: the run's state said that it was exporting, for ever.
        let world = World::new("permutive");
        let staged = [("a", vec![("t", 1)])];
        let (paths, of) = (world.paths(), day("2026-01-15"));
        world.invoke("other", "2026-01-15", None, &staged).await.unwrap();
        let state = run_state(&world.state, &paths, of, 0).await.unwrap();
        let open = open_run();
        let (objects, any) = (objects(of, &staged), Fingerprint::default());
        let error = Journal::begin(&world.state, &paths, of, &open, "stalled", &any, &objects).await.err().unwrap();
        assert!(error.kind() == Kind::Retryable && error.to_string().contains("took over"), "{error}");
        assert_eq!(run_state(&world.state, &paths, of, 0).await.unwrap(), state);
        assert_eq!(state.unwrap().phase, Phase::Committed);
    }

    #[tokio::test]
    async fn what_a_holder_began_after_it_was_taken_over_is_aborted_and_what_others_keep_or_make_is_not() {
        // It used to stay open for ever: whoever had taken over had looked for uploads before these were recorded.
        let world = World::new("permutive");
        let (paths, of) = (world.paths(), day("2026-01-15"));
        let mut stalled = begin(&world, "a", "1").await;
        let (kept, own) = (file(&world, "t", "kept").await, file(&world, "t", "own").await);
        stalled.record_uploads(&[kept.open_upload(), own.open_upload()]).await.unwrap();
        stalled.record_shard(Pass::First, shard(0, vec![kept.clone()])).await.unwrap();
        let sweep = || abort_outlived(&world.state, &paths, of, 0, 0, &world.customer);
        assert!(!sweep().await.unwrap(), "the next attempt may yet keep what is not noted as finished");
        assert_eq!(world.customer.open_uploads().len(), 2);

        let next = begin(&world, "b", "1").await;
        let others = file(&world, "t", "others").await;
        next.record_uploads(&[others.open_upload()]).await.unwrap();
        let late = file(&world, "t", "late").await;
        stalled.record_uploads(&[late.open_upload()]).await.unwrap();
        // A shard that it notes now counts no more either.
        stalled.record_shard(Pass::First, shard(1, vec![late])).await.unwrap();
        assert!(sweep().await.unwrap());
        let open: BTreeSet<String> = world.customer.open_uploads().into_iter().map(|(_, id)| id).collect();
        assert_eq!(open, BTreeSet::from([kept.upload.id, others.upload.id]));
    }

    #[tokio::test]
    async fn the_second_invocation_in_a_row_without_a_finished_shard_is_the_vendors_to_mend() {
        let world = World::new("permutive");
        begin(&world, "a", "1").await.continued().await.unwrap();
        let mut busy = begin(&world, "b", "1").await;
        busy.record_shard(Pass::First, shard(0, Vec::new())).await.unwrap();
        busy.continued().await.unwrap();
        begin(&world, "c", "1").await.continued().await.unwrap();
        let error = begin(&world, "d", "1").await.continued().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Vendor);
        assert!(error.to_string().contains("shard_size"), "{error}");
    }

    #[tokio::test]
    async fn an_invocation_that_ended_without_a_word_is_told_from_one_that_handed_on() {
        let world = World::new("permutive");
        let silent = async || {
            let state = run_state(&world.state, &world.paths(), day("2026-01-15"), 0).await.unwrap().unwrap();
            state.silent_ends()
        };
        begin(&world, "a", "1").await.exporting().await.unwrap();
        begin(&world, "b", "1").await.exporting().await.unwrap();
        assert_eq!(silent().await, 2, "two that were killed");
        begin(&world, "c", "1").await.continued().await.unwrap();
        assert_eq!(silent().await, 0);
        begin(&world, "d", "1").await.interrupted().await.unwrap();
        assert_eq!(silent().await, 0);
        begin(&world, "e", "1").await.failed(&Error::customer("denied")).await.unwrap();
        assert_eq!(silent().await, 0, "it said why");
        begin(&world, "f", "1").await;
        assert_eq!(silent().await, 1);
        begin(&world, "g", "2").await;
        assert_eq!(silent().await, 1, "another build may do better");
    }

    #[tokio::test]
    async fn a_failure_is_noted_and_a_recorded_commit_stays_one() {
        let world = World::new("permutive");
        let journal = begin(&world, "a", "1").await;
        let (paths, of) = (world.paths(), day("2026-01-15"));
        journal.failed(&Error::customer("denied")).await.unwrap();
        let state = run_state(&world.state, &paths, of, 0).await.unwrap().unwrap();
        assert_eq!((state.phase, state.failure.unwrap().kind.as_str()), (Phase::Failed, "customer"));
        note_phase(&world.state, &paths, of, 0, Phase::Committing, None).await.unwrap();
        note_failure(&world.state, &paths, of, 0, &Error::retryable("slow")).await.unwrap();
        let state = run_state(&world.state, &paths, of, 0).await.unwrap().unwrap();
        assert_eq!((state.phase, state.failure.unwrap().kind.as_str()), (Phase::Committing, "retryable"));
    }

    #[test]
    fn the_staged_digest_depends_on_etags_and_not_on_order() {
        let one = objects(day("2026-01-15"), &[("a", vec![("t", 1)]), ("b", vec![("t", 2)])]);
        let mut turned = one.clone();
        turned.reverse();
        assert_eq!(staged_digest(&one), staged_digest(&turned));
        turned[0].etag.push('x');
        assert_ne!(staged_digest(&one), staged_digest(&turned));
    }
}
