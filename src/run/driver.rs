//! One day to one destination, from the lease to the answer.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::RwLock;

use super::answer::{FileAnswer, QuarantineAnswer, RunAnswer, RunOutcome, TableAnswer};
use super::clock::{Clock, RuntimeClock};
use super::commit::{commit, committed, roll_forward};
use super::compose::{CommitDocument, Composition, compose, earlier};
use super::document;
use super::export::book::SchemaBook;
use super::export::dedupe::DuplicatesDocument;
use super::export::sink::Recorder;
use super::export::{DAMAGED, Export, Seen, ShardPass, StateKeys, open_scratch};
use super::head::{Begun, Head, OpenRun};
use super::journal::{self, Fingerprint, Journal, OpenUpload, Pass, ShardDone, staged_digest};
use super::late::{Late, late_objects};
use super::lease::{Acquired, Lease, acquire, nonce};
use super::paths::Paths;
use super::plan::{Plan, list_staged, plan, require_marker};
use super::registry;
use super::sweep::sweep;
use super::verify::{Verified, verify_run};
use crate::columns::evidence::{Evidence, Observed};
use crate::columns::pin::{decide, versioned};
use crate::domain::error::{Error, Kind, Result};
use crate::domain::format::Format;
use crate::domain::run::{Day, RunId};
use crate::domain::schema::TableSchema;
use crate::domain::settings::{Destination, OnDamagedObject, Settings};
use crate::domain::table::TableName;
use crate::store::ports::{Delete, List, ListUploads, Multipart, ObjectInfo, Read, Staged, Write};

/// How long a request that nobody waits for any more may still have its effect.
const SETTLING: Duration = Duration::from_millis(300);

/// What the rim knows and a run asks for: clocks, the invocation's limits, and who wants to see progress.
pub struct Rim<'a> {
    /// Milliseconds since 1970.
    pub now_millis: &'a (dyn Fn() -> i64 + Sync),
    /// Milliseconds that are left of this invocation; `None` where nothing limits it.
    pub millis_left: &'a (dyn Fn() -> Option<u64> + Sync),
    /// Told how far the run is.
    pub on_progress: &'a (dyn Fn(Progress) + Sync),
    /// The crash point `panic_on_object`, where the environment sets it.
    pub panic_on_object: Option<String>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The run will read so many staged bytes.
    Total(u64),
    /// It has read so many more.
    Read(u64),
    /// All files are uploaded; the commit begins.
    Committing,
}

/// The three buckets of a run.
pub struct Stores<'a, S, V, C> {
    /// Where the day is staged; what is spooled for it is read through it too.
    pub staging: &'a S,
    /// Where the state is.
    pub state: &'a V,
    /// The customer's. Only a destination with `verify = true` is ever listed and read, only with `sweep = true` its uploads are listed.
    pub customer: &'a C,
}

/// What a run is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The day.
    pub day: Day,
    /// The id of the trigger that asked for a re-run, if one did.
    pub force: Option<&'a str>,
    /// The digest of the destination's ready settings.
    pub configuration: &'a str,
}

/// Runs one day to one destination as far as this invocation gets, and answers; a failure is an answer too.
pub async fn run_day<S, V, C>(
    rim: &Rim<'_>,
    settings: &Settings,
    destination: &Destination,
    stores: Stores<'_, S, V, C>,
    asked: Asked<'_>,
) -> RunAnswer
where
    S: Staged + Clone + Send + Sync,
    V: List + Read + Write + Send + Sync,
    C: Multipart + Write + Delete + List + ListUploads + Read + Send + Sync,
{
    let run = RunId { destination: destination.name.clone(), day: asked.day };
    let clock = RuntimeClock::start();
    let paths = Paths::new(&settings.state, destination);
    let (begun, begins) = (OnceLock::new(), RwLock::new(()));
    let driver = Driver { rim, settings, destination, stores, asked, paths, clock, begun, begins };
    let mut answer = match driver.run(&clock, &run).await {
        Ok(answer) => answer,
        Err(error) => RunAnswer::failed(&run, &error),
    };
    answer.seconds = clock.now().as_secs_f64();
    answer
}

struct Driver<'a, S, V, C> {
    rim: &'a Rim<'a>,
    settings: &'a Settings,
    destination: &'a Destination,
    stores: Stores<'a, S, V, C>,
    asked: Asked<'a>,
    paths: Paths,
    clock: RuntimeClock,
    /// Generation and attempt, once the run's journal is begun.
    begun: OnceLock<(u32, u32)>,
    /// Held by whoever begins an upload until it is noted: work is given up only when nobody does.
    begins: RwLock<()>,
}

/// The schemas that an export came to; none for a format without.
#[derive(Default)]
struct Schemas {
    /// Of its files.
    files: BTreeMap<TableName, TableSchema>,
    /// For the next run: those that have more columns than the files, since `parquet.new_columns` is `next_run`.
    next: BTreeMap<TableName, TableSchema>,
}

/// What an export came to.
enum Exported {
    /// Every shard is finished.
    All(Schemas),
    /// The invocation's time is over.
    OutOfTime,
}

impl<S, V, C> Driver<'_, S, V, C>
where
    S: Staged + Clone + Send + Sync,
    V: List + Read + Write + Send + Sync,
    C: Multipart + Write + Delete + List + ListUploads + Read + Send + Sync,
{
    async fn run(&self, clock: &RuntimeClock, run: &RunId) -> Result<RunAnswer> {
        let holder = nonce();
        let lease = match acquire(self.stores.state, clock, &self.paths, self.settings.state.lease, &holder).await? {
            Acquired::Held(lease) => lease,
            Acquired::Busy(_) => return Ok(RunAnswer::bare(run, RunOutcome::Busy)),
        };
        let answer = lease.hold(self.held(&lease, run)).await;
        if answer.is_err() {
            self.abort_outlived().await;
        }
        answer
    }

    /// Gives up what this invocation began, if another has taken over and does not want it. As far as it can: the run has failed of
    /// something else, and the customer's lifecycle rule comes in the end.
    async fn abort_outlived(&self) {
        let Some((generation, attempt)) = self.begun.get() else { return };
        let Stores { state, customer, .. } = &self.stores;
        let sweep = || journal::abort_outlived(*state, &self.paths, self.asked.day, *generation, *attempt, *customer);
        // Twice: a request that was under way when this invocation gave up may have been done since.
        if !matches!(sweep().await, Ok(false)) {
            self.clock.sleep(SETTLING).await;
            let _ = sweep().await;
        }
    }

    async fn held(&self, lease: &Lease<'_, V, RuntimeClock>, run: &RunId) -> Result<RunAnswer> {
        let Asked { day, force, .. } = self.asked;
        let open = loop {
            match lease.begin(day, force, (self.rim.now_millis)()).await? {
                Begun::AlreadyCommitted(done) => {
                    let commit = committed(lease.store(), lease.paths(), day, done.commit).await?;
                    return self.verified(lease, RunOutcome::AlreadyCommitted, commit).await;
                }
                Begun::Dead(_) => {
                    return Err(Error::vendor(format!(
                        "the commit of {run} can't be finished, since an upload of it is gone; run the day again with `--force`"
                    )));
                }
                Begun::Open(open) => break open,
                Begun::RollForward(open) => {
                    let commit = roll_forward(lease, self.stores.customer, day, (self.rim.now_millis)()).await?;
                    let is_answered = force.is_none_or(|id| open.forces.iter().any(|known| known == id));
                    if is_answered {
                        return self.verified(lease, RunOutcome::Committed, commit).await;
                    }
                }
            }
        };
        self.export_and_commit(lease, run, &open).await
    }

    async fn export_and_commit(&self, lease: &Lease<'_, V, RuntimeClock>, run: &RunId, open: &OpenRun) -> Result<RunAnswer> {
        let Asked { day, configuration, .. } = self.asked;
        // An invocation that had no more than a rest of time says nothing of how long a shard takes.
        let had_its_time = self.millis_left().is_some_and(|left| left >= 2 * self.margin());
        let mut notes = self.roll_others_forward(lease).await?;
        let staging = &self.settings.staging;
        let prefix = staging.prefix_of(day, self.destination.organization.as_deref());
        if let Some(marker) = &staging.require_marker {
            require_marker(self.stores.staging, &prefix, marker).await?;
        }
        let objects = list_staged(self.stores.staging, day, &prefix).await?;
        let head = lease.head().await;
        let replaces = self.destination.layout.replaces_snapshots();
        let plan =
            plan(&objects, &prefix, self.settings, self.destination)?.leaving(|table| replaces && head.stands_later(table, day));
        let pinned = match self.destination.format {
            Format::Json => BTreeMap::new(),
            Format::Parquet => registry::load_all(lease.store(), lease.paths(), &head).await?,
        };
        let fingerprint = Fingerprint {
            build: concat!("dayport ", env!("CARGO_PKG_VERSION")).to_owned(),
            configuration: configuration.to_owned(),
            registry: head.registry_digest(),
            staged: staged_digest(&objects),
        };
        let mut journal = Journal::begin(lease.store(), lease.paths(), day, open, lease.holder(), &fingerprint, &objects).await?;
        let _ = self.begun.set((journal.state().generation, journal.state().attempt));
        journal.abort_orphans(self.stores.customer).await?;
        journal.exporting().await?;
        let exported = self.within_time(self.export(&mut journal, &plan, &objects, &prefix, &pinned)).await;
        let schemas = match exported {
            Ok(Exported::All(schemas)) => schemas,
            Ok(Exported::OutOfTime) => {
                let handed_on = if had_its_time { journal.continued().await } else { journal.interrupted().await };
                if let Err(error) = handed_on {
                    let _ = journal.failed(&error).await;
                    return Err(error);
                }
                return Ok(RunAnswer { notes, ..RunAnswer::bare(run, RunOutcome::Continued) });
            }
            Err(error) => {
                // What it failed of is told; that it failed is true whether or not this can be noted.
                let _ = journal.failed(&error).await;
                return Err(error);
            }
        };
        (self.rim.on_progress)(Progress::Committing);
        let head = lease.head().await;
        let earlier = earlier(lease.store(), lease.paths(), &head, day).await?;
        let composed = compose(Composition {
            settings: self.settings,
            destination: self.destination,
            paths: lease.paths(),
            head: &head,
            state: journal.state(),
            plan: &plan,
            shards: journal.shards(),
            earlier: &earlier,
            pinned: &pinned,
            schemas: &schemas.files,
            next: &schemas.next,
        });
        let composed = match composed {
            Ok(composed) => composed,
            Err(error) => {
                let _ = journal.failed(&error).await;
                return Err(error);
            }
        };
        let done = commit(lease, &journal, self.stores.customer, composed, (self.rim.now_millis)()).await?;
        notes.extend(self.swept(lease).await);
        let mut answer = self.verified(lease, RunOutcome::Committed, done).await?;
        notes.extend(self.late(&lease.head().await).await);
        answer.notes.extend(notes);
        Ok(answer)
    }

    /// The answer of a committed run, after what it landed was read again, if the destination asks for that.
    async fn verified(&self, lease: &Lease<'_, V, RuntimeClock>, state: RunOutcome, commit: CommitDocument) -> Result<RunAnswer> {
        if !self.destination.verify {
            return self.answer(state, commit);
        }
        let head = lease.head().await;
        let has_time = || self.has_time();
        let customer = self.stores.customer;
        match verify_run(lease.store(), customer, lease.paths(), &commit, &head, &has_time).await? {
            Verified::OutOfTime => {
                let note = "committed; what landed is not all read again yet";
                Ok(RunAnswer { notes: vec![note.to_owned()], ..RunAnswer::bare(&commit.run, RunOutcome::Continued) })
            }
            Verified::Whole(found) => match found.failure(&commit.run) {
                Some(error) => Err(error),
                None => {
                    let mut answer = self.answer(state, commit)?;
                    answer.notes.push(format!("verified: {} files were read again and are as they were written", found.files));
                    answer.notes.extend(found.notes);
                    Ok(answer)
                }
            },
        }
    }

    /// What there is to say of uploads that nobody knew of, if the destination asks for them to be looked for. The day is committed whether
    /// or not that can be done.
    async fn swept(&self, lease: &Lease<'_, V, RuntimeClock>) -> Option<String> {
        if !self.destination.sweep || !self.has_time() {
            return None;
        }
        let customer = self.stores.customer;
        match sweep(lease.store(), customer, &self.settings.state, self.destination, lease.paths()).await {
            Ok(0) => None,
            Ok(1) => Some("swept: 1 upload that nobody knew of was aborted".to_owned()),
            Ok(swept) => Some(format!("swept: {swept} uploads that nobody knew of were aborted")),
            Err(error) => Some(format!("uploads that nobody knows of could not be swept: {error}")),
        }
    }

    /// Whether there is time for more than to end in order.
    fn has_time(&self) -> bool {
        self.millis_left().is_none_or(|left| left >= self.margin())
    }

    /// Rolls every other day's recorded commit forward that has not landed: no other may be recorded before it. What there is to say of it.
    async fn roll_others_forward(&self, lease: &Lease<'_, V, RuntimeClock>) -> Result<Vec<String>> {
        let head = lease.head().await;
        let is_in_the_way = |open: &OpenRun| open.commit.is_some() && !open.landed && !open.dead;
        let others = head.open.iter().filter(|(day, open)| **day != self.asked.day && is_in_the_way(open));
        let mut notes = Vec::new();
        for (&day, _) in others {
            let rolled = roll_forward(lease, self.stores.customer, day, (self.rim.now_millis)()).await;
            notes.push(match rolled {
                Ok(_) => format!("the commit of {day}, which was recorded and not finished, was rolled forward first"),
                // It can't be finished by anybody, and so is in nobody's way any more.
                Err(error) if lease.head().await.open.get(&day).is_some_and(|open| open.dead) => error.to_string(),
                Err(error) => return Err(error.context(format!("the recorded commit of {day} goes first"))),
            });
        }
        Ok(notes)
    }

    /// What there is to say of objects that came to the days before too late. A day that is committed is so whether or not that can be
    /// found out.
    async fn late(&self, head: &Head) -> Vec<String> {
        if self.millis_left().is_some_and(|left| left < self.margin() / 2) {
            return vec!["objects that came too late to the days before were not looked for: no time was left".to_owned()];
        }
        let Stores { staging, state, .. } = self.stores;
        match late_objects(staging, state, self.settings, self.destination, head, self.asked.day).await {
            Ok(late) => late.iter().map(Late::text).collect(),
            Err(error) => vec![format!("objects that came too late to the days before could not be counted: {error}")],
        }
    }

    fn margin(&self) -> u64 {
        self.settings.run.margin_millis()
    }

    fn millis_left(&self) -> Option<u64> {
        (self.rim.millis_left)()
    }

    /// The export, unless half of the margin is all that is left before it has ended: then it is given up where it stands, so that this
    /// invocation can still say so, instead of being killed without a word. Every upload that was begun is noted by then.
    async fn within_time(&self, export: impl Future<Output = Result<Exported>>) -> Result<Exported> {
        let Some(left) = self.millis_left() else { return export.await };
        let kept = self.margin() / 2;
        let is_over = async {
            self.clock.sleep(Duration::from_millis(left.saturating_sub(kept))).await;
            tokio::select! {
                all_noted = self.begins.write() => Some(all_noted),
                // A store that hangs is not waited for: such an upload is left to the bucket's lifecycle rule, or swept.
                () = self.clock.sleep(Duration::from_millis(kept / 2)) => None,
            }
        };
        tokio::select! {
            biased;
            exported = export => exported,
            _none_begins = is_over => Ok(Exported::OutOfTime),
        }
    }

    /// Exports what is not finished yet, with the schemas that all values decide.
    async fn export(
        &self,
        journal: &mut Journal<'_, V>,
        plan: &Plan,
        objects: &[ObjectInfo],
        prefix: &str,
        pinned: &BTreeMap<TableName, TableSchema>,
    ) -> Result<Exported> {
        let day = self.asked.day;
        let is_typed = self.destination.format == Format::Parquet;
        let shared = pinned.iter().map(|(table, schema)| (table.clone(), Arc::new(schema.clone()))).collect();
        let book = Arc::new(SchemaBook::new(shared, self.settings, self.destination.layout, day));
        let scratch = open_scratch(self.settings)?;
        let on_read = |bytes| (self.rim.on_progress)(Progress::Read(bytes));
        let export = Export {
            settings: self.settings,
            destination: self.destination,
            day,
            transfer: journal.state().transfer,
            prefix: prefix.to_owned(),
            plan,
            book: Arc::clone(&book),
            scratch: &scratch,
            panic_on_object: self.rim.panic_on_object.clone(),
            now_millis: self.rim.now_millis,
            seen: Seen::default(),
            on_progress: &on_read,
        };
        (self.rim.on_progress)(Progress::Total(objects.iter().map(|object| object.size).sum()));
        if is_typed {
            let guess = match journal.fixed::<BTreeMap<TableName, TableSchema>>("guess").await? {
                Some(guess) => guess,
                None => {
                    let guess = export.guess(self.stores.staging).await?;
                    journal.fix("guess", guess).await?
                }
            };
            for (table, schema) in guess {
                book.expect(&table, schema)?;
            }
        }
        if !self.pass(&export, journal, Pass::First, &HashSet::new()).await? {
            return Ok(Exported::OutOfTime);
        }
        if !is_typed {
            return Ok(Exported::All(Schemas::default()));
        }
        let Decided { again, next } = self.decide(&export, journal)?;
        if !again.is_empty() && !self.pass(&export, journal, Pass::Second, &again).await? {
            return Ok(Exported::OutOfTime);
        }
        let mut schemas = Schemas::default();
        for file in journal.shards().iter().flat_map(|shard| &shard.files) {
            if schemas.files.contains_key(&file.table) {
                continue;
            }
            let schema = versioned(TableSchema::clone(&book.entry(&file.table)?.schema), book.pinned(&file.table));
            if let Some(next) = next.get(&file.table).filter(|next| next.columns != schema.columns) {
                schemas.next.insert(file.table.clone(), versioned(next.clone(), Some(&schema)));
            }
            schemas.files.insert(file.table.clone(), schema);
        }
        Ok(Exported::All(schemas))
    }

    /// One pass over all shards that it still has to be made over; whether it got through before the invocation's time is over.
    async fn pass(
        &self,
        export: &Export<'_>,
        journal: &mut Journal<'_, V>,
        pass: Pass,
        again: &HashSet<TableName>,
    ) -> Result<bool> {
        let again = Arc::new(again.clone());
        for shard in &export.plan.shards {
            let is_touched = |done: &ShardDone| again.iter().any(|table| done.tables.contains_key(table));
            let is_needed = pass == Pass::First || journal.finished().get(&(Pass::First, shard.number)).is_some_and(is_touched);
            if !is_needed || journal.finished().contains_key(&(pass, shard.number)) {
                continue;
            }
            if !self.has_time() {
                return Ok(false);
            }
            let done = self.shard(export, journal, pass, &again, shard).await?;
            journal.record_shard(pass, done).await?;
        }
        Ok(true)
    }

    async fn shard(
        &self,
        export: &Export<'_>,
        journal: &Journal<'_, V>,
        pass: Pass,
        again: &Arc<HashSet<TableName>>,
        shard: &super::plan::Shard,
    ) -> Result<ShardDone> {
        let mut files_before: HashMap<TableName, u32> = HashMap::new();
        let mut event_tables: BTreeSet<TableName> = BTreeSet::new();
        let mut left_out: BTreeMap<String, String> = BTreeMap::new();
        let mut ids_before: Vec<String> = Vec::new();
        for ((of, number), done) in journal.finished() {
            if *of == pass && *number < shard.number {
                for file in &done.files {
                    *files_before.entry(file.table.clone()).or_default() += 1;
                }
            }
            if *of == Pass::First {
                if *number < shard.number {
                    ids_before.extend(done.ids.iter().cloned());
                }
                let is_counted = pass == Pass::Second || *number < shard.number;
                event_tables.extend(done.tables.keys().filter(|table| is_counted && table.is_event_table()).cloned());
                left_out.extend(done.objects.iter().filter_map(|object| Some((object.key.clone(), object.skipped.clone()?))));
            }
        }
        let state = journal.state();
        let (generation, attempt) = (state.generation, state.attempt);
        let quarantine_key = |part| self.paths.quarantine(self.asked.day, generation, attempt, shard.number, part);
        let ids_key = |part| self.paths.ids(self.asked.day, generation, attempt, shard.number, part);
        let duplicates_key = self.paths.duplicates(self.asked.day, generation, attempt, shard.number);
        let known = journal.finished().get(&(Pass::First, shard.number)).filter(|_| pass == Pass::Second);
        let duplicates = match known.and_then(|first| first.duplicates.as_deref()) {
            Some(key) => document::read_present::<DuplicatesDocument>(self.stores.state, key).await?,
            None => DuplicatesDocument::new(),
        };
        loop {
            let shard_pass = ShardPass {
                shard,
                pass,
                again: Arc::clone(again),
                files_before: files_before.clone(),
                event_tables: event_tables.clone(),
                left_out: &left_out,
                ids_before: ids_before.clone(),
                duplicates: duplicates.clone(),
                keys: StateKeys { quarantine: &quarantine_key, ids: &ids_key, duplicates: &duplicates_key },
            };
            let recorder = JournalRecorder { journal, begins: &self.begins };
            let done = export.shard(&shard_pass, self.stores.staging, self.stores.customer, self.stores.state, &recorder).await;
            match done {
                Err(error) if self.settings.staging.on_damaged_object == OnDamagedObject::Skip => {
                    // The shard begins anew without the object: what was made of its first part is never completed.
                    let damaged = shard.objects.iter().find(|object| {
                        !left_out.contains_key(&object.key)
                            && error.message().contains(&format!("`{}`: it {DAMAGED}", object.key))
                    });
                    let Some(damaged) = damaged.filter(|_| error.kind() == Kind::Vendor) else { return Err(error) };
                    let why = error.message().split_once(&format!("it {DAMAGED}: ")).map_or(error.message(), |(_, why)| why);
                    left_out.insert(damaged.key.clone(), why.to_owned());
                }
                done => return done,
            }
        }
    }

    /// Decides every table's schema by what all shards showed.
    fn decide(&self, export: &Export<'_>, journal: &Journal<'_, V>) -> Result<Decided> {
        let book = &export.book;
        let firsts = || journal.finished().iter().filter(|((pass, _), _)| *pass == Pass::First).map(|(_, done)| done);
        let mut evidence: BTreeMap<&TableName, Evidence> = BTreeMap::new();
        for done in firsts() {
            for (table, facts) in done.tables.iter().filter(|(_, facts)| !facts.evidence.is_null()) {
                let entry = book.entry(table)?;
                let observed: Vec<Observed> = serde_json::from_value(facts.evidence.clone())
                    .map_err(|error| Error::bug("a journal's evidence can't be read, please report it").with_source(error))?;
                evidence.entry(table).or_insert_with(|| Evidence::new(&entry.base, book.limits())).restore(&observed);
            }
        }
        let mut decided = Decided::default();
        for (table, evidence) in evidence {
            let entry = book.entry(table)?;
            let schema = decide(&entry.base, &evidence, Some(&entry.schema), book.rescue_column(), self.asked.day);
            if export.waits_for_next_run(table) {
                decided.next.insert(table.clone(), schema);
                continue;
            }
            let has_rows = firsts().any(|done| done.tables.get(table).is_some_and(|facts| facts.rows > 0));
            if book.expect(table, schema)? && has_rows {
                decided.again.insert(table.clone());
            }
        }
        Ok(decided)
    }

    fn answer(&self, state: RunOutcome, commit: CommitDocument) -> Result<RunAnswer> {
        let manifest = commit.manifest()?;
        let location = match &commit.manifest_key {
            Some(key) => format!("s3://{}/{key}", self.destination.s3_bucket),
            None => format!(
                "s3://{}/{}",
                self.settings.state.s3_bucket,
                self.paths.manifest(commit.run.day, commit.commit.generation)
            ),
        };
        let tables = manifest.tables.into_iter().map(|table| TableAnswer {
            name: table.name,
            sync: table.sync,
            rows: table.rows,
            bytes: table.bytes,
            schema_version: table.schema_version,
            files: table
                .files
                .into_iter()
                .map(|file| FileAnswer { key: file.key, rows: file.rows, bytes: file.bytes, partition: file.partition })
                .collect(),
        });
        Ok(RunAnswer {
            counts: commit.counts,
            tables: tables.collect(),
            quarantine: QuarantineAnswer { reasons: commit.reasons },
            manifest: Some(location),
            notes: commit.notes,
            ..RunAnswer::bare(&commit.run, state)
        })
    }
}

/// What all values of a run decide.
#[derive(Default)]
struct Decided {
    /// The tables that were written with another schema than they have to have.
    again: HashSet<TableName>,
    /// The schemas of tables whose new columns wait for the next run.
    next: BTreeMap<TableName, TableSchema>,
}

struct JournalRecorder<'a, 's, V> {
    journal: &'a Journal<'s, V>,
    begins: &'a RwLock<()>,
}

impl<V: List + Read + Write + Sync> Recorder for JournalRecorder<'_, '_, V> {
    async fn record(&self, uploads: &[OpenUpload]) -> Result<()> {
        self.journal.record_uploads(uploads).await
    }

    async fn to_its_end<T: Send>(&self, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let _begins = self.begins.read().await;
        work.await
    }
}
