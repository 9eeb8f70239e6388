//! What the room's tests share: settings, a clock that is moved by waiting, and whole lifecycles with fabricated files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use super::clock::Clock;
use super::commit::roll_forward;
use super::compose::{CommitDocument, Composition, compose, earlier};
use super::document;
use super::head::{Begun, DayCommit, Head, OpenRun};
use super::journal::{
    self, Fingerprint, FinishedFile, Journal, ObjectCounts, OpenUpload, Pass, ShardDone, TableFacts, staged_digest,
};
use super::lease::{Acquired, Lease, acquire};
use super::manifest::Manifest;
use super::paths::Paths;
use super::plan::{Plan, Shard, plan};
use super::registry;
use crate::domain::counts::Counts;
use crate::domain::error::Result;
use crate::domain::format::Format;
use crate::domain::layout::{FilePlace, Layout, Prefix};
use crate::domain::run::Day;
use crate::domain::schema::{Column, Role, TableSchema, Type};
use crate::domain::settings::{
    CHUNK_BYTES, Checksum, Credentials, Destination, NewColumns, OnDamagedObject, Parquet, PartitionBy, Run, ScratchBudget,
    Settings, Staging, State, Table,
};
use crate::domain::table::{SyncMode, TableName};
use crate::store::memory::MemoryBucket;
use crate::store::ports::{Delete, List, Multipart, ObjectInfo, Read, Upload, Write};

/// A clock that only waiting moves.
#[derive(Debug, Default)]
pub(crate) struct FakeClock {
    now: Mutex<Duration>,
}

impl FakeClock {
    pub(crate) fn advance(&self, time: Duration) {
        *self.now.lock().unwrap() += time;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap()
    }

    async fn sleep(&self, time: Duration) {
        self.advance(time);
        tokio::task::yield_now().await;
    }
}

pub(crate) fn settings() -> Settings {
    let table = |sync| Table { sync: Some(sync), columns: Vec::new() };
    Settings {
        staging: Staging {
            s3_bucket: "staging".into(),
            s3_prefix: "events/{date}/".into(),
            s3_region: None,
            event_field: "event_name".into(),
            time_field: "time".into(),
            table_field: None,
            organization_field: None,
            on_damaged_object: OnDamagedObject::Fail,
            allow_empty_day: false,
            require_marker: None,
            queue: None,
            max_record_bytes: 16 << 20,
            max_object_bytes: 64 << 30,
            max_ratio: 1000,
            max_depth: 64,
        },
        state: State {
            s3_bucket: "state".into(),
            s3_prefix: Prefix::parse("dayport").unwrap(),
            s3_region: None,
            lease: Duration::from_mins(1),
        },
        run: Run {
            work_queue_url: None,
            function_role_arn: None,
            lag_days: 1,
            catch_up_days: 7,
            late_check_days: 7,
            shard_size: 100,
            threads: 1,
            memory_budget: 1 << 30,
            chunk_bytes: CHUNK_BYTES,
            dedupe_memory: 1 << 20,
            part_size: 16 << 20,
            scratch_dir: PathBuf::from("scratch"),
            scratch_budget: ScratchBudget::Bytes(0),
            max_quarantine_ratio: 0.01,
            max_quarantine_records: 1000,
            max_tables: 1000,
            deadline_margin: Duration::from_mins(1),
        },
        event_columns: Vec::new(),
        tables: BTreeMap::from([
            ("aliases".to_owned(), table(SyncMode::Incremental)),
            ("domains".to_owned(), table(SyncMode::Snapshot)),
            ("segment_metadata".to_owned(), table(SyncMode::Snapshot)),
        ]),
        parquet: Parquet {
            new_columns: NewColumns::SameRun,
            rescue_column: "_rescued_data".into(),
            max_columns: 2000,
            max_fields: 200,
            max_column_depth: 12,
            row_group_size: 256 << 20,
        },
        destinations: Vec::new(),
    }
}

pub(crate) fn destination(layout: &str) -> Destination {
    Destination {
        name: "acme".into(),
        s3_bucket: "acme-data".into(),
        s3_prefix: Prefix::parse("exports").unwrap(),
        s3_region: None,
        format: Format::Json,
        layout: if layout == "pontoon" { Layout::Pontoon } else { Layout::Permutive },
        partition_by: PartitionBy::StagedDay,
        max_lateness_days: 30,
        target_file_size: 64 << 20,
        snapshot_file_size: 4 << 30,
        allow_empty_snapshot: false,
        dedupe: None,
        organization: None,
        enabled: true,
        start_date: None,
        lag_days: None,
        manifest: true,
        verify: false,
        sweep: false,
        expected_bucket_owner: None,
        encryption: None,
        acl: None,
        requester_pays: false,
        path_style: false,
        checksum: Checksum::Always,
        credentials: Credentials::Own,
    }
}

/// A state bucket, a customer's bucket, and a driver that does what the real one does, with fabricated files.
pub(crate) struct World {
    pub(crate) state: MemoryBucket,
    pub(crate) customer: MemoryBucket,
    pub(crate) settings: Settings,
    pub(crate) destination: Destination,
    pub(crate) clock: FakeClock,
    pub(crate) now_millis: i64,
    pub(crate) build: String,
}

/// One staged object of a fabricated day: its key below the prefix, and the rows that it gives to tables.
pub(crate) type Staged = (&'static str, Vec<(&'static str, u64)>);

/// What an invocation came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Committed(Box<CommitDocument>),
    Already(DayCommit),
    Busy,
    Dead,
}

pub(crate) fn day(text: &str) -> Day {
    text.parse().unwrap()
}

impl World {
    pub(crate) fn new(layout: &str) -> World {
        World {
            state: MemoryBucket::new(),
            customer: MemoryBucket::new().with_small_parts(),
            settings: settings(),
            destination: destination(layout),
            clock: FakeClock::default(),
            now_millis: 1_768_546_800_000,
            build: "build 1".into(),
        }
    }

    pub(crate) fn since(&self, start: Duration) -> Duration {
        self.clock.now().saturating_sub(start)
    }

    pub(crate) fn paths(&self) -> Paths {
        Paths::new(&self.settings.state, &self.destination)
    }

    pub(crate) fn head(&self) -> Head {
        let bytes = self.state.object(&self.paths().head());
        bytes.map_or_else(Head::new, |bytes| document::decode("head", &bytes).unwrap())
    }

    pub(crate) fn manifest(&self, day: &str) -> Manifest {
        let key = format!("exports/_dayport/{day}.json");
        Manifest::parse(std::str::from_utf8(&self.customer.object(&key).unwrap()).unwrap()).unwrap()
    }

    /// The customer's keys, without the prefix.
    pub(crate) fn landed(&self) -> Vec<String> {
        self.customer.objects().into_keys().map(|key| key.strip_prefix("exports/").unwrap().to_owned()).collect()
    }

    /// One invocation over the world's own buckets.
    pub(crate) async fn invoke(&self, holder: &str, of: &str, force: Option<&str>, staged: &[Staged]) -> Result<Answer> {
        self.invoke_on(&self.state, &self.customer, holder, day(of), force, staged).await
    }

    /// The uploads that were recorded anywhere in the state bucket.
    pub(crate) fn recorded_uploads(&self) -> BTreeSet<OpenUpload> {
        let mut all = BTreeSet::new();
        for (key, body) in self.state.objects() {
            let name = key.rsplit('/').next().unwrap();
            if name.starts_with("open-") {
                all.extend(document::decode::<Vec<OpenUpload>>(&key, &body).unwrap());
            } else if name.starts_with("shard-") {
                all.extend(document::decode::<ShardDone>(&key, &body).unwrap().files.iter().map(FinishedFile::open_upload));
            }
        }
        all
    }

    pub(crate) async fn invoke_on<S, D>(
        &self,
        state: &S,
        customer: &D,
        holder: &str,
        day: Day,
        force: Option<&str>,
        staged: &[Staged],
    ) -> Result<Answer>
    where
        S: List + Read + Write + Sync,
        D: Multipart + Write + Delete + Sync,
    {
        let lease = match acquire(state, &self.clock, &self.paths(), self.settings.state.lease, holder).await? {
            Acquired::Held(lease) => lease,
            Acquired::Busy(_) => return Ok(Answer::Busy),
        };
        let begun = OnceLock::new();
        let answer = self.run(&lease, customer, day, force, staged, &begun).await;
        let released = lease.release().await;
        if let (Err(_), Some((generation, attempt))) = (&answer, begun.get()) {
            for _ in 0..2 {
                let _ = journal::abort_outlived(state, &self.paths(), day, *generation, *attempt, customer).await;
            }
        }
        let answer = answer?;
        released?;
        Ok(answer)
    }

    async fn run<S, D>(
        &self,
        lease: &Lease<'_, S, FakeClock>,
        customer: &D,
        day: Day,
        force: Option<&str>,
        staged: &[Staged],
        begun: &OnceLock<(u32, u32)>,
    ) -> Result<Answer>
    where
        S: List + Read + Write + Sync,
        D: Multipart + Write + Delete + Sync,
    {
        let open = loop {
            match lease.begin(day, force, self.now_millis).await? {
                Begun::AlreadyCommitted(done) => return Ok(Answer::Already(done)),
                Begun::Dead(_) => return Ok(Answer::Dead),
                Begun::Open(open) => break open,
                Begun::RollForward(_) => {
                    let done = roll_forward(lease, customer, day, self.now_millis).await?;
                    if force.is_none() {
                        return Ok(Answer::Committed(Box::new(done)));
                    }
                }
            }
        };
        let mut journal = self.journal(lease, day, &open, staged).await?;
        begun.set((journal.state().generation, journal.state().attempt)).unwrap();
        journal.abort_orphans(customer).await?;
        journal.exporting().await?;
        let plan = self.plan(day, staged)?;
        for shard in &plan.shards {
            if !journal.finished().contains_key(&(Pass::First, shard.number)) {
                let done = self.export(&journal, customer, &plan, shard, day, staged).await?;
                journal.record_shard(Pass::First, done).await?;
            }
        }
        self.commit(lease, &journal, customer, &plan).await.map(|done| Answer::Committed(Box::new(done)))
    }

    pub(crate) async fn commit<S, D>(
        &self,
        lease: &Lease<'_, S, FakeClock>,
        journal: &Journal<'_, S>,
        customer: &D,
        plan: &Plan,
    ) -> Result<CommitDocument>
    where
        S: List + Read + Write + Sync,
        D: Multipart + Write + Delete + Sync,
    {
        let head = lease.head().await;
        let earlier = earlier(lease.store(), lease.paths(), &head, journal.state().run.day).await?;
        let pinned = registry::load_all(lease.store(), lease.paths(), &head).await?;
        let schemas = schemas(journal, &pinned);
        let commit = compose(Composition {
            settings: &self.settings,
            destination: &self.destination,
            paths: lease.paths(),
            head: &head,
            state: journal.state(),
            plan,
            shards: journal.shards(),
            earlier: &earlier,
            pinned: &pinned,
            schemas: &schemas,
            next: &BTreeMap::new(),
        })?;
        super::commit::commit(lease, journal, customer, commit, self.now_millis).await
    }

    pub(crate) async fn journal<'s, S>(
        &self,
        lease: &Lease<'s, S, FakeClock>,
        day: Day,
        open: &OpenRun,
        staged: &[Staged],
    ) -> Result<Journal<'s, S>>
    where
        S: List + Read + Write + Sync,
    {
        let objects = objects(day, staged);
        let fingerprint = Fingerprint {
            build: self.build.clone(),
            configuration: "configuration 1".into(),
            registry: lease.head().await.registry_digest(),
            staged: staged_digest(&objects),
        };
        Journal::begin(lease.store(), lease.paths(), day, open, lease.holder(), &fingerprint, &objects).await
    }

    pub(crate) fn plan(&self, day: Day, staged: &[Staged]) -> Result<Plan> {
        plan(&objects(day, staged), &self.settings.staging.prefix_of(day, None), &self.settings, &self.destination)
    }

    /// Makes a shard's files, one for each five rows of a table, and uploads their parts.
    pub(crate) async fn export<S, D>(
        &self,
        journal: &Journal<'_, S>,
        customer: &D,
        plan: &Plan,
        shard: &Shard,
        day: Day,
        staged: &[Staged],
    ) -> Result<ShardDone>
    where
        S: List + Read + Write + Sync,
        D: Multipart + Sync,
    {
        let mut done = ShardDone {
            number: shard.number,
            snapshot: shard.snapshot.clone(),
            own_folder: shard.own_folder,
            ..ShardDone::default()
        };
        let mut rows: BTreeMap<&str, u64> = BTreeMap::new();
        for object in &shard.objects {
            let (_, tables) = staged.iter().find(|(name, _)| object.key.ends_with(name)).unwrap();
            let mut counts = Counts::default();
            for (table, count) in tables {
                counts.read += count;
                if *table == "bad" {
                    counts.quarantined += count;
                    *done.reasons.entry("not_json".into()).or_default() += count;
                } else {
                    counts.delivered += count;
                    *rows.entry(table).or_default() += count;
                }
            }
            done.objects.push(ObjectCounts { key: object.key.clone(), counts, skipped: None });
        }
        for (name, mut left) in rows {
            let table = TableName::parse(name).unwrap();
            let sync = self.settings.tables.get(name).and_then(|table| table.sync).unwrap_or(SyncMode::Incremental);
            done.tables.insert(table.clone(), TableFacts { rows: left, largest_record: 100 + left, ..TableFacts::default() });
            let layout = self.destination.layout;
            let before: u32 = if layout.numbers_through_transfer() {
                let earlier = journal.shards();
                earlier.iter().flat_map(|shard| &shard.files).filter(|file| file.table == table).count().try_into().unwrap()
            } else {
                0
            };
            let mut file = before;
            while left > 0 {
                let take = left.min(5);
                left -= take;
                let transfer = journal.state().transfer;
                let place = FilePlace {
                    table: &table,
                    sync,
                    run_day: day,
                    partition_day: day,
                    shard: shard.number,
                    file,
                    transfer,
                    format: Format::Json,
                };
                let key = layout.place(&self.destination.s3_prefix, &place)?;
                let body = Bytes::from(format!("{name} {day} {take} rows\n").repeat(usize::try_from(take).unwrap()));
                let id = customer.create(key.as_str(), "application/gzip").await?;
                let open = OpenUpload { key: key.as_str().to_owned(), id: id.clone() };
                journal.record_uploads(std::slice::from_ref(&open)).await?;
                let part = customer.part(key.as_str(), &id, 1, body.clone()).await?;
                let upload =
                    Upload { key: open.key, id, size: body.len() as u64, checksum: part.checksum.clone(), parts: vec![part] };
                done.files.push(FinishedFile {
                    table: table.clone(),
                    sync,
                    partition_day: (sync == SyncMode::Incremental || !layout.replaces_snapshots()).then_some(day),
                    shard: shard.number,
                    file,
                    upload,
                    rows: take,
                    created_millis: self.now_millis,
                });
                file += 1;
            }
        }
        assert!(plan.shards.contains(shard));
        Ok(done)
    }
}

pub(crate) fn objects(day: Day, staged: &[Staged]) -> Vec<ObjectInfo> {
    let object =
        |(name, tables): &Staged| ObjectInfo { key: format!("events/{day}/{name}"), size: 40, etag: format!("{tables:?}") };
    let mut objects: Vec<ObjectInfo> = staged.iter().map(object).collect();
    objects.sort_by(|a, b| a.key.cmp(&b.key));
    objects
}

/// Every table of the run has one column more than before, up to three: so that runs change the registry.
fn schemas<S: List + Read + Write + Sync>(
    journal: &Journal<'_, S>,
    pinned: &BTreeMap<TableName, TableSchema>,
) -> BTreeMap<TableName, TableSchema> {
    let mut schemas = BTreeMap::new();
    for file in journal.shards().iter().flat_map(|shard| shard.files.clone()) {
        let mut schema = pinned.get(&file.table).cloned().unwrap_or_else(|| TableSchema { next_id: 1, ..TableSchema::default() });
        if schema.columns.len() < 3 {
            schema.version += 1;
            schema.columns.push(Column {
                name: format!("c{}", schema.next_id),
                original: None,
                id: schema.next_id,
                role: Role::Value,
                declared: false,
                since: journal.state().run.day,
                column_type: Type::Int64,
            });
            schema.next_id += 1;
        }
        schemas.insert(file.table, schema);
    }
    schemas
}
