//! The pipeline: a shard's staged objects in, uploaded files out, none of them visible yet.

pub mod book;
pub mod chunk;
pub mod crew;
pub mod dedupe;
pub mod gather;
pub mod guess;
pub mod held;
pub mod identities;
pub mod scratch;
pub mod sink;
pub mod unpack;

pub use self::unpack::DAMAGED;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;

use self::book::SchemaBook;
use self::chunk::{ChunkRules, ObjectRule, Wanted};
use self::crew::{Crew, CrewRules, StreamPlan};
use self::dedupe::{Dedupe, DuplicatesDocument, restore};
use self::gather::{Gather, Stream, ToState};
use self::held::Held;
use self::identities::Identities;
use self::scratch::Scratch;
use self::sink::{Recorder, SinkRules, ToSink, UploadedFile};
use self::unpack::Unpacker;
use super::document;
use super::journal::{FinishedFile, ObjectCounts, Pass, ShardDone, TableFacts};
use super::plan::{Plan, Shard, table_folder};
use super::quarantine::put_part;
use crate::domain::counts::Counts;
use crate::domain::error::{Error, Result};
use crate::domain::format::Format;
use crate::domain::layout::{FilePlace, ObjectKey};
use crate::domain::run::{Day, Transfer};
use crate::domain::settings::{Destination, PartitionBy, Settings};
use crate::domain::table::{SyncMode, TableName};
use crate::files::roll::Recipe;
use crate::records::route::{PartitionRule, Rules};
use crate::store::ports::{Body, Condition, Multipart, ObjectInfo, Read, Write};
use crate::store::resume::ResumingBody;

/// Staged objects that are read at once: enough to hide the time to the first byte of small ones.
const OBJECTS_AHEAD: usize = 8;
/// Parts under way to S3 at once.
const LANES: usize = 4;
/// The most encoded bytes in memory between the workers and S3, whatever the budget: enough for every lane.
const MOST_BACKLOG: u64 = 64 << 20;
/// The most of them that wait for full parts in memory; the rest is on scratch.
const MOST_WAITING: u64 = 8 << 20;

/// Everything about a run that its shards share.
pub struct Export<'a> {
    /// The whole configuration.
    pub settings: &'a Settings,
    /// The destination.
    pub destination: &'a Destination,
    /// The run's day.
    pub day: Day,
    /// The run's transfer.
    pub transfer: Transfer,
    /// The staged prefix of the day.
    pub prefix: String,
    /// What is read in which parts.
    pub plan: &'a Plan,
    /// The schemas.
    pub book: Arc<SchemaBook>,
    /// The folder and budget for what waits.
    pub scratch: &'a Arc<Scratch>,
    /// The crash point that `DAYPORT_CRASH_POINT` names, if it does.
    pub panic_on_object: Option<String>,
    /// Milliseconds since 1970.
    pub now_millis: &'a (dyn Fn() -> i64 + Sync),
    /// The ids of the shards so far.
    pub seen: Seen,
    /// Told how many staged bytes were read more.
    pub on_progress: &'a (dyn Fn(u64) + Sync),
}

/// The ids of all shards before the one that comes next, where this invocation still has them.
#[derive(Debug, Default)]
pub struct Seen(Mutex<Option<(u32, Identities)>>);

impl Seen {
    /// The ids before shard `next`, if they are here.
    fn take(&self, next: u32) -> Option<Identities> {
        let here = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        here.and_then(|(shard, ids)| (shard == next).then_some(ids))
    }

    fn keep(&self, next: u32, ids: Identities) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((next, ids));
    }
}

/// One pass over one shard.
pub struct ShardPass<'a> {
    /// The shard.
    pub shard: &'a Shard,
    /// First or second.
    pub pass: Pass,
    /// In a second pass: the tables that are written again.
    pub again: Arc<HashSet<TableName>>,
    /// The files that earlier shards made, by table.
    pub files_before: HashMap<TableName, u32>,
    /// The event tables that earlier shards had.
    pub event_tables: BTreeSet<TableName>,
    /// Damaged objects that are left out, by key, with the reason.
    pub left_out: &'a BTreeMap<String, String>,
    /// The keys of the ids of all earlier shards.
    pub ids_before: Vec<String>,
    /// In a second pass: which rows the first one found to be duplicates.
    pub duplicates: DuplicatesDocument,
    /// Where it writes in the state bucket.
    pub keys: StateKeys<'a>,
}

/// The keys that a pass over a shard writes under, in the state bucket.
#[derive(Clone, Copy)]
pub struct StateKeys<'a> {
    /// That of part `n` of its quarantine.
    pub quarantine: &'a (dyn Fn(u32) -> String + Sync),
    /// That of part `n` of its ids.
    pub ids: &'a (dyn Fn(u32) -> String + Sync),
    /// That of its list of duplicates.
    pub duplicates: &'a str,
}

/// What a pass over a shard wrote to the state bucket.
#[derive(Debug, Default)]
struct Stated {
    quarantine: Vec<String>,
    ids: Vec<String>,
}

impl Stated {
    async fn put(&mut self, state: &(impl Write + Sync), keys: StateKeys<'_>, part: ToState) -> Result<()> {
        let number = |keys: &[String]| u32::try_from(keys.len()).unwrap_or(u32::MAX);
        match part {
            ToState::Quarantine(part) => {
                let key = (keys.quarantine)(number(&self.quarantine));
                put_part(state, &key, part).await?;
                self.quarantine.push(key);
            }
            ToState::Ids(part) => {
                let key = (keys.ids)(number(&self.ids));
                state.put(&key, part, "application/octet-stream", &Condition::None).await?;
                self.ids.push(key);
            }
        }
        Ok(())
    }
}

impl Export<'_> {
    /// How records of this run are routed.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let staging = &self.settings.staging;
        let organization = self.destination.organization.clone();
        Rules {
            event_field: staging.event_field.clone(),
            time_field: staging.time_field.clone(),
            table_field: staging.table_field.clone(),
            organization: staging.organization_field.clone().zip(organization),
            dedupe: self.destination.dedupe.clone(),
            tables: self.settings.tables.iter().filter_map(|(name, table)| Some((name.clone(), table.sync?))).collect(),
            partition: match self.destination.partition_by {
                PartitionBy::StagedDay => PartitionRule::StagedDay,
                PartitionBy::Time => PartitionRule::Time { max_lateness_days: self.destination.max_lateness_days },
            },
            day: self.day,
        }
    }

    fn snapshot_tables(&self) -> HashSet<TableName> {
        let snapshots = self.settings.tables.iter().filter(|(_, table)| table.sync == Some(SyncMode::Snapshot));
        snapshots.filter_map(|(name, _)| TableName::parse(name)).collect()
    }

    /// The configured table of the folder that a staged key lies in, if that decides.
    fn folder_table(&self, key: &str) -> Option<&str> {
        let name = table_folder(self.settings, self.destination, &self.prefix, key)?;
        self.settings.tables.get(name)?.sync.map(|_| name)
    }

    /// How the objects of a shard are read in a pass.
    fn object_rules(&self, pass: &ShardPass<'_>, objects: &[&ObjectInfo]) -> Vec<ObjectRule> {
        let own = pass.shard.snapshot.as_ref();
        let of_own_folder = Wanted::AllBut(Arc::default());
        let of_others = match (pass.pass, own) {
            (Pass::Second, _) => Wanted::Only(Arc::clone(&pass.again)),
            (Pass::First, Some(table)) => Wanted::Only(Arc::new(HashSet::from([table.clone()]))),
            (Pass::First, None) => Wanted::AllBut(Arc::new(self.snapshot_tables())),
        };
        let rule = |object: &&ObjectInfo| {
            let folder = self.folder_table(&object.key);
            let is_own = pass.pass == Pass::First && own.is_some_and(|table| folder == Some(table.as_str()));
            let wanted = if is_own { &of_own_folder } else { &of_others };
            ObjectRule { folder: folder.map(str::to_owned), wanted: wanted.clone() }
        };
        objects.iter().map(rule).collect()
    }

    /// Reads a shard and uploads its files; what it yields is for the journal.
    ///
    /// Needs: to read the staging bucket, to write parts to the customer's, to write quarantine and ids to the state's, and to read ids there.
    pub async fn shard<S, D, Q, R>(
        &self,
        pass: &ShardPass<'_>,
        staging: &S,
        customer: &D,
        state: &Q,
        recorder: &R,
    ) -> Result<ShardDone>
    where
        S: Read + Clone + Send + Sync,
        D: Multipart + Sync,
        Q: Read + Write + Sync,
        R: Recorder,
    {
        let dedupe = self.dedupe(pass, state).await?;
        let (skipped, objects): (Vec<&ObjectInfo>, Vec<&ObjectInfo>) =
            pass.shard.objects.iter().partition(|object| pass.left_out.contains_key(&object.key));
        let chunk_rules = Arc::new(ChunkRules {
            format: self.destination.format,
            rules: Arc::new(self.rules()),
            book: Arc::clone(&self.book),
            closed: OnceLock::new(),
            max_depth: self.settings.staging.max_depth,
            max_record_bytes: self.settings.staging.max_record_len(),
        });
        let threads = self.settings.run.threads.max(1);
        let rules = CrewRules {
            chunks: Arc::clone(&chunk_rules),
            objects: self.object_rules(pass, &objects),
            keys: objects.iter().map(|object| object.key.clone()).collect(),
            most_objects: threads + 1,
            most_chunks: threads + 2,
            most_backlog: (self.settings.run.memory_budget / 4).min(MOST_BACKLOG).max(2 * self.settings.run.part_size),
            panic_on_object: self.panic_on_object.clone(),
        };
        let gather = Gather::new(
            Arc::clone(&chunk_rules),
            self.settings.parquet.row_group_size,
            self.settings.run.max_tables,
            pass.event_tables.clone(),
            dedupe,
            Held::new(&objects, self.settings.staging.max_record_bytes, chunk_rules.rules.organization.is_some()),
        );
        let (to_sink, from_crew) = mpsc::unbounded_channel::<ToSink>();
        let (to_state, for_state) = mpsc::unbounded_channel::<ToState>();
        let backlog = Arc::new(AtomicU64::new(0));
        let staging_rules = self.settings.staging.clone();
        let sizes: Vec<u64> = objects.iter().map(|object| object.size).collect();
        let (run_rules, scratch) = (self.settings.run.clone(), Arc::clone(self.scratch));
        let unpacker = Box::new(move |at: usize| {
            Unpacker::new(&staging_rules, &run_rules, sizes.get(at).copied().unwrap_or_default(), Arc::clone(&scratch))
        });
        let crew = Arc::new(Crew::new(rules, self.planner(pass), gather, unpacker, to_sink, to_state, Arc::clone(&backlog)));
        let _stop = StopOnDrop(&crew);
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let crew = Arc::clone(&crew);
                tokio::task::spawn_blocking(move || crew.work())
            })
            .collect();

        let sink_rules = SinkRules {
            part_size: self.settings.run.part_size,
            waiting_bytes: (self.settings.run.memory_budget / 8).min(MOST_WAITING),
            lanes: LANES,
            scratch: self.scratch,
            content_type: self.destination.format.content_type(),
            backlog: &backlog,
            now_millis: self.now_millis,
        };
        let key_of = |(stream, file): (usize, u32)| {
            let stream = crew.stream(stream).ok_or_else(|| Error::bug("a file has no stream, please report it"))?;
            self.key_of(&stream, pass.shard.number, file)
        };
        let feeding = stop_on_error(&crew, self.feed(&crew, &objects, staging));
        let sinking = stop_on_error(
            &crew,
            sink::run(customer, recorder, &sink_rules, key_of, || crew.wake(), |stream| crew.end_early(stream), from_crew),
        );
        let stating = stop_on_error(&crew, write_state(state, pass.keys, for_state, &backlog, || crew.wake()));
        let (fed, files, stated) = tokio::join!(feeding, sinking, stating);
        for worker in workers {
            worker.await.map_err(|error| Error::bug("a worker thread was lost, please report it").with_source(error))?;
        }
        if let Some(failure) = crew.failure() {
            return Err(failure);
        }
        let (Some(()), Some(files), Some(mut stated)) = (fed, files, stated) else {
            return Err(Error::bug("a shard ended without a word, please report it"));
        };
        let mut gathered = crew.gathered().ok_or_else(|| Error::bug("a shard lost its counts, please report it"))?;
        if let Some(last) = gathered.held.finish()? {
            stated.put(state, pass.keys, ToState::Quarantine(last)).await?;
        }
        if let Some(last) = gathered.dedupe.take_new(true) {
            stated.put(state, pass.keys, ToState::Ids(last)).await?;
        }
        let duplicates = gathered.dedupe.take_duplicates();
        let has_duplicates = !duplicates.is_empty();
        if has_duplicates {
            document::write(state, pass.keys.duplicates, &duplicates).await?;
        }
        if let Some(ids) = std::mem::take(&mut gathered.dedupe).into_ids()
            && pass.shard.snapshot.is_none()
        {
            self.seen.keep(pass.shard.number + 1, ids);
        }
        let done = self.done(pass, &objects, &skipped, &gathered, files, stated)?;
        Ok(ShardDone { duplicates: has_duplicates.then(|| pass.keys.duplicates.to_owned()), ..done })
    }

    /// How duplicates are told in a pass.
    ///
    /// The shards of a run are one sequence of ids; each snapshot table is one of its own, since it is a whole of its own.
    async fn dedupe(&self, pass: &ShardPass<'_>, state: &(impl Read + Sync)) -> Result<Dedupe> {
        if self.destination.dedupe.is_none() {
            return Ok(Dedupe::Off);
        }
        if pass.pass == Pass::Second {
            return Dedupe::known(&pass.duplicates);
        }
        let none = || Identities::new(Arc::clone(self.scratch), self.settings.run.dedupe_memory);
        let is_typed = self.destination.format == Format::Parquet;
        if pass.shard.snapshot.is_some() {
            return Ok(Dedupe::first(none(), is_typed, false));
        }
        let number = pass.shard.number;
        let ids = match self.seen.take(number) {
            Some(ids) => ids,
            None => {
                let mut ids = none();
                for key in &pass.ids_before {
                    let part = state.read_small(key).await?.ok_or_else(|| {
                        Error::vendor(format!(
                            "the ids `{key}` of an earlier shard are gone, restore them from the state bucket's versions"
                        ))
                    })?;
                    restore(&mut ids, &part.0)?;
                }
                ids
            }
        };
        let has_later = self.plan.shards.iter().any(|shard| shard.snapshot.is_none() && shard.number > number);
        Ok(Dedupe::first(ids, is_typed, has_later))
    }

    async fn feed<S>(&self, crew: &Crew, objects: &[&ObjectInfo], staging: &S) -> Result<()>
    where
        S: Read + Clone + Send + Sync,
    {
        let each = objects.iter().enumerate().map(|(at, object)| async move {
            let mut body = ResumingBody::new(staging.clone(), (*object).clone());
            while let Some(bytes) = body.next().await {
                let bytes = bytes.map_err(|error| error.context(format!("staged object `{}`", object.key)))?;
                (self.on_progress)(bytes.len() as u64);
                if !bytes.is_empty() {
                    crew.feed(at, bytes).await?;
                }
            }
            crew.feed(at, Bytes::new()).await
        });
        let mut reads = futures_util::stream::iter(each).buffer_unordered(OBJECTS_AHEAD);
        while let Some(read) = reads.next().await {
            read?;
        }
        Ok(())
    }

    fn planner(&self, pass: &ShardPass<'_>) -> Box<crew::StreamPlanner> {
        let book = Arc::clone(&self.book);
        let files_before =
            if self.destination.layout.numbers_through_transfer() { pass.files_before.clone() } else { HashMap::new() };
        let (format, transfer) = (self.destination.format, self.transfer);
        let target = if pass.shard.snapshot.is_some() { self.plan.snapshot_file_size } else { self.plan.target_file_size };
        let time_field = self.settings.staging.time_field.clone();
        Box::new(move |table: &TableName| {
            let recipe = match format {
                Format::Json => Recipe::Json,
                Format::Parquet => {
                    let entry = book.entry(table)?;
                    let time =
                        entry.schema.columns.iter().find(|column| column.key() == time_field).map(|column| column.name.clone());
                    Recipe::parquet(&entry.schema, time.into_iter().collect(), transfer)?
                }
            };
            Ok(StreamPlan { recipe, target, first_file: files_before.get(table).copied().unwrap_or_default() })
        })
    }

    fn place<'p>(&self, stream: &'p Stream, shard: u32, file: u32) -> FilePlace<'p> {
        FilePlace {
            table: &stream.table,
            sync: stream.sync,
            run_day: self.day,
            partition_day: stream.day,
            shard,
            file,
            transfer: self.transfer,
            format: self.destination.format,
        }
    }

    fn key_of(&self, stream: &Stream, shard: u32, file: u32) -> Result<ObjectKey> {
        self.destination.layout.place(&self.destination.s3_prefix, &self.place(stream, shard, file))
    }

    fn done(
        &self,
        pass: &ShardPass<'_>,
        objects: &[&ObjectInfo],
        skipped: &[&ObjectInfo],
        gathered: &Gather,
        files: Vec<UploadedFile>,
        stated: Stated,
    ) -> Result<ShardDone> {
        let layout = self.destination.layout;
        let mut tables: BTreeMap<TableName, TableFacts> = BTreeMap::new();
        for stream in gathered.streams() {
            let facts = tables.entry((*stream.table).clone()).or_default();
            facts.rows += stream.rows;
            facts.largest_record = facts.largest_record.max(stream.largest_record);
        }
        for (table, tally) in &gathered.tables {
            let facts = tables.entry(table.clone()).or_default();
            facts.rescued.clone_from(&tally.rescued);
            if let Some(evidence) = &tally.evidence {
                facts.evidence = serde_json::to_value(evidence.observed())
                    .map_err(|error| Error::bug("evidence could not be written down, please report it").with_source(error))?;
            }
        }
        let mut notes: Vec<String> =
            gathered.held.hints.iter().map(|hint| format!("some records are not JSON: {hint}")).collect();
        let mut finished = Vec::with_capacity(files.len());
        for file in files {
            let (stream, number) = file.id;
            if file.ended_early {
                notes.push(format!(
                    "`{}` ended early because scratch was full, so a re-run may name and cut files otherwise; give the function more ephemeral storage or raise `run.scratch_budget`",
                    file.upload.key
                ));
            }
            let stream = gathered.streams().get(stream).ok_or_else(|| Error::bug("a file has no stream, please report it"))?;
            finished.push(FinishedFile {
                table: (*stream.table).clone(),
                sync: stream.sync,
                partition_day: layout.partition_day(&self.place(stream, pass.shard.number, number)),
                shard: pass.shard.number,
                file: number,
                upload: file.upload,
                rows: file.rows,
                created_millis: file.created_millis,
            });
        }
        finished.sort_by(|a, b| (&a.table, a.partition_day, a.file).cmp(&(&b.table, b.partition_day, b.file)));
        let mut counts: Vec<ObjectCounts> = Vec::new();
        if pass.pass == Pass::First {
            for (object, counted) in objects.iter().zip(&gathered.objects) {
                counted.check_balance(&format!("staged object `{}`", object.key))?;
                counts.push(ObjectCounts { key: object.key.clone(), counts: *counted, skipped: None });
            }
            for object in skipped {
                let reason = pass.left_out.get(&object.key).cloned();
                counts.push(ObjectCounts { key: object.key.clone(), counts: Counts::default(), skipped: reason });
            }
            counts.sort_by(|a, b| a.key.cmp(&b.key));
        }
        Ok(ShardDone {
            number: pass.shard.number,
            snapshot: pass.shard.snapshot.clone(),
            own_folder: pass.shard.own_folder,
            files: finished,
            tables,
            objects: counts,
            reasons: gathered.held.reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect(),
            unattributed: gathered.held.unattributed,
            quarantine: stated.quarantine,
            ids: stated.ids,
            notes,
            ..ShardDone::default()
        })
    }
}

/// Opens the scratch folder of the configuration.
pub fn open_scratch(settings: &Settings) -> Result<Arc<Scratch>> {
    let dir: &Path = &settings.run.scratch_dir;
    Scratch::open(dir, settings.run.scratch_budget).map(Arc::new)
}

struct StopOnDrop<'a>(&'a Arc<Crew>);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop_quietly();
    }
}

/// The result, or `None` after the crew was told why it has to stop.
async fn stop_on_error<T>(crew: &Crew, work: impl Future<Output = Result<T>>) -> Option<T> {
    match work.await {
        Ok(done) => Some(done),
        Err(error) => {
            crew.stop(error);
            None
        }
    }
}

/// Writes what comes to the state bucket until the channel closes.
async fn write_state(
    state: &(impl Write + Sync),
    keys: StateKeys<'_>,
    mut from: mpsc::UnboundedReceiver<ToState>,
    backlog: &AtomicU64,
    on_room: impl Fn(),
) -> Result<Stated> {
    let mut stated = Stated::default();
    while let Some(part) = from.recv().await {
        let bytes = part.length();
        stated.put(state, keys, part).await?;
        backlog.fetch_sub(bytes, Ordering::Relaxed);
        on_room();
    }
    Ok(stated)
}
