//! Puts a lost state together again: pinned schemas, committed days and snapshot pointers, from the customer's manifests and from the
//! footers of what landed. It only ever adds what the state does not have.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::Serialize;

use super::clock::Clock;
use super::compose::CommitDocument;
use super::document::{self, FORM};
use super::head::{CommitRef, DayCommit, Head, KEPT_COMMITS, SnapshotPointer};
use super::journal::{Fingerprint, FinishedFile, Phase, RunState, last_commit};
use super::lease::Lease;
use super::manifest::{Manifest, ManifestTable, columns_of};
use super::paths::Paths;
use super::registry::{self, SchemaDocument};
use super::verify::read_footer;
use crate::domain::counts::Counts;
use crate::domain::error::{Error, Result};
use crate::domain::format::Format;
use crate::domain::run::{Day, RunId, Transfer};
use crate::domain::schema::{Column, Role, TableSchema, Type};
use crate::domain::settings::Destination;
use crate::domain::table::{SyncMode, TableName};
use crate::store::lanes::{LANES, bounded};
use crate::store::ports::{Condition, List, ObjectInfo, Put, Read, Upload, Write};

/// What the build of a restored commit is said to be.
const BUILD: &str = "restored by dayport schema rebuild";

/// What was found of a destination outside its state.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Each day's manifest, as the customer has it.
    manifests: BTreeMap<Day, (Manifest, String)>,
    /// The columns of each table's latest Parquet file, with the day of its run, and its key.
    footers: BTreeMap<TableName, (Day, Vec<Column>, String)>,
    notes: Vec<String>,
}

impl Evidence {
    /// Takes a manifest's text; `name` is where it is from.
    ///
    /// Fails with kind `Vendor` where it is no manifest of this destination's place.
    pub fn add_manifest(&mut self, destination: &Destination, name: &str, text: String) -> Result<()> {
        let manifest = Manifest::parse(&text)
            .map_err(|_| Error::vendor(format!("`{name}` is no manifest that this build can read, leave it out")))?;
        let prefix = destination.s3_prefix.as_str();
        if let Some((_, file)) = manifest.files().find(|(_, file)| !file.key.starts_with(prefix)) {
            return Err(Error::vendor(format!(
                "`{name}` lists `{}`, which is not under the prefix `{prefix}` of `{}`: it is of another destination, leave it out",
                file.key.escape_debug(),
                destination.name
            )));
        }
        if manifest.layout != destination.layout {
            self.notes.push(format!("`{name}` is of the layout `{}` and was left out", manifest.layout.name()));
            return Ok(());
        }
        let stands = self.manifests.get(&manifest.date);
        if stands.is_none_or(|(stands, _)| stands.generation < manifest.generation) {
            self.manifests.insert(manifest.date, (manifest, text));
        }
        Ok(())
    }

    /// Reads all that the customer's bucket has: every manifest, and the footer of each table's latest Parquet file. Needs
    /// `s3:GetObject` and `s3:ListBucket` there. `today` is the first day of columns of which nothing tells when they came.
    pub async fn read<C: List + Read + Sync>(customer: &C, destination: &Destination, today: Day) -> Result<Evidence> {
        let mut evidence = Evidence::default();
        let prefix = destination.s3_prefix.as_str();
        let manifests = customer.list_all(&format!("{prefix}_dayport/")).await?;
        let manifests = manifests.into_iter().filter(|object| object.key.strip_suffix(".json").is_some());
        let manifests = bounded(manifests, LANES, |object| async move {
            let found = customer.read_small(&object.key).await?;
            Ok((object.key, found.map(|(bytes, _)| bytes)))
        });
        for (key, bytes) in manifests.await? {
            let Some(bytes) = bytes else { continue };
            let text = String::from_utf8(bytes.to_vec())
                .map_err(|_| Error::vendor(format!("`{key}` is not UTF-8 text, and so no manifest, leave it out")))?;
            evidence.add_manifest(destination, &key, text)?;
        }
        if destination.format == Format::Parquet {
            let latest = latest_files(customer, destination).await?;
            let footers = bounded(latest, LANES, |(table, (day, object))| async move {
                let day = day.unwrap_or(today);
                let footer = read_footer(customer, &object, day).await?;
                Ok((table, day, object.key, footer))
            });
            for (table, day, key, footer) in footers.await? {
                match footer {
                    Ok(footer) => {
                        evidence.footers.insert(table, (day, footer.columns, key));
                    }
                    Err(why) => evidence.notes.push(format!("the footer of `{key}` was left out: {why}")),
                }
            }
        }
        Ok(evidence)
    }
}

/// The latest Parquet file of each table, by the day of its run; a snapshot's name says none.
async fn latest_files<C: List + Sync>(
    customer: &C,
    destination: &Destination,
) -> Result<BTreeMap<TableName, (Option<Day>, ObjectInfo)>> {
    let prefix = destination.s3_prefix.as_str();
    let mut latest: BTreeMap<TableName, (Option<Day>, ObjectInfo)> = BTreeMap::new();
    let mut after: Option<String> = None;
    loop {
        let (page, more) = customer.list_page(prefix, after.as_deref()).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        for object in page.into_iter().filter(|object| Format::of_key(&object.key) == Some(Format::Parquet)) {
            let Some((table, day)) = destination.layout.table_and_day(&destination.s3_prefix, &object.key) else { continue };
            if latest.get(&table).is_none_or(|(stands, _)| *stands <= day) {
                latest.insert(table, (day, object));
            }
        }
        if !more {
            break;
        }
    }
    Ok(latest)
}

/// What the state gets.
#[derive(Debug)]
pub struct Plan {
    /// Every version that is known, with the day and generation of its run.
    schemas: BTreeMap<TableName, BTreeMap<u32, SchemaDocument>>,
    days: BTreeMap<Day, CommitDocument>,
    snapshots: BTreeMap<TableName, SnapshotPointer>,
    last_transfer: Option<Transfer>,
    notes: Vec<String>,
}

/// One table's registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RebuiltTable {
    /// Its name.
    pub table: TableName,
    /// Its current version, as it is now.
    pub version: u32,
    /// Leaf columns of it.
    pub columns: usize,
    /// Whether the state had that version already.
    pub was_there: bool,
}

/// What a rebuild came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rebuilt {
    /// Whether anything was written.
    pub dry_run: bool,
    /// Committed days that the state did not have.
    pub days: Vec<Day>,
    /// Committed days that it had.
    pub known_days: usize,
    /// The registry.
    pub tables: Vec<RebuiltTable>,
    /// Snapshot pointers that the state did not have, with the day of the run that landed them.
    pub snapshots: BTreeMap<TableName, Day>,
    /// What could not be known.
    pub notes: Vec<String>,
}

/// Makes of the evidence what the state is to have. `known` are the registry's versions as the head has them.
///
/// Fails with kind `Vendor` where two manifests contradict each other: a pinned column never changes.
pub fn plan(paths: &Paths, destination: &Destination, rescue_column: &str, evidence: Evidence, known: &Head) -> Result<Plan> {
    let Evidence { manifests, footers, mut notes } = evidence;
    let mut schemas: BTreeMap<TableName, BTreeMap<u32, SchemaDocument>> = BTreeMap::new();
    for (manifest, _) in manifests.values() {
        let all = manifest.earlier_transfers.iter().map(|earlier| (earlier.generation, &earlier.tables));
        for (generation, tables) in all.chain([(manifest.generation, &manifest.tables)]) {
            for table in tables {
                add_version(&mut schemas, manifest.date, generation, table)?;
            }
        }
    }
    for (table, versions) in &schemas {
        let mut before: Option<&SchemaDocument> = None;
        for document in versions.values() {
            if let Some(before) = before {
                registry::check_growth(table, &before.schema, &document.schema)
                    .map_err(|_| contradiction(table, before, document))?;
            }
            before = Some(document);
        }
    }
    for (table, (day, columns, key)) in footers {
        add_footer(&mut schemas, &table, day, columns, &key, rescue_column, &mut notes);
    }
    // Versions that no manifest tells of any more: their number is taken, so the latest that is known stands for them.
    for (table, version) in &known.registry {
        match schemas.get_mut(table) {
            None => notes.push(format!("nothing that landed tells of table `{table}`, its schema can't be restored")),
            Some(versions) => {
                let Some((latest, document)) = versions.last_key_value().map(|(latest, document)| (*latest, document.clone()))
                else {
                    continue;
                };
                if latest < *version {
                    let schema = TableSchema { version: *version, ..document.schema.clone() };
                    versions.insert(*version, SchemaDocument { schema, ..document });
                }
            }
        }
    }
    let mut snapshots = BTreeMap::new();
    let mut last_transfer = None;
    let mut days = BTreeMap::new();
    for (day, (manifest, text)) in manifests {
        if destination.layout.replaces_snapshots() {
            for table in manifest.tables.iter().filter(|table| table.sync == SyncMode::Snapshot) {
                let files = table.files.iter().map(|file| file.key.clone()).collect();
                snapshots.insert(table.name.clone(), SnapshotPointer { day, files });
            }
        }
        let transfer = manifest.transfer.as_ref().and_then(|transfer| transfer.batch_id.parse().ok());
        let transfer = transfer.map(|started_millis| Transfer { started_millis });
        last_transfer = last_transfer.max(transfer);
        days.insert(day, restored_commit(paths, destination, &manifest, text, transfer));
    }
    if days.is_empty() {
        notes.push(
            "there are no manifests: which days are committed can't be known, and a day that is run again lands once more"
                .to_owned(),
        );
    }
    Ok(Plan { schemas, days, snapshots, last_transfer, notes })
}

fn contradiction(table: &TableName, before: &SchemaDocument, after: &SchemaDocument) -> Error {
    Error::vendor(format!(
        "the manifests of {} and {} contradict each other about the columns of table `{table}` (versions {} and {}), leave the wrong one out",
        before.day, after.day, before.schema.version, after.schema.version
    ))
}

fn add_version(
    schemas: &mut BTreeMap<TableName, BTreeMap<u32, SchemaDocument>>,
    day: Day,
    generation: u32,
    table: &ManifestTable,
) -> Result<()> {
    let Some(version) = table.schema_version else { return Ok(()) };
    let columns = columns_of(&table.columns).ok_or_else(|| {
        Error::vendor(format!("the manifest of {day} has columns of table `{}` that make no schema, leave it out", table.name))
    })?;
    let document = document_of(&table.name, day, generation, version, columns);
    let versions = schemas.entry(table.name.clone()).or_default();
    match versions.get(&version) {
        Some(stands) if stands.schema.columns != document.schema.columns => Err(contradiction(&table.name, stands, &document)),
        // The run that made it is the first that had it.
        Some(stands) if stands.day <= day => Ok(()),
        _ => {
            versions.insert(version, document);
            Ok(())
        }
    }
}

fn document_of(table: &TableName, day: Day, generation: u32, version: u32, columns: Vec<Column>) -> SchemaDocument {
    let next_id = greatest_id(&columns) + 1;
    let schema = TableSchema { version, columns, next_id };
    SchemaDocument { form: FORM, table: table.clone(), day, generation, leaves: schema.leaves(), schema }
}

fn greatest_id(columns: &[Column]) -> i32 {
    let of_column = |column: &Column| {
        let inside = match &column.column_type {
            Type::List(element) => greatest_id(std::slice::from_ref(element)),
            Type::Struct(members) => greatest_id(members),
            _ => 0,
        };
        inside.max(column.id)
    };
    columns.iter().map(of_column).max().unwrap_or_default()
}

/// Adds what a footer has more than the manifests: a version of its own.
fn add_footer(
    schemas: &mut BTreeMap<TableName, BTreeMap<u32, SchemaDocument>>,
    table: &TableName,
    day: Day,
    mut columns: Vec<Column>,
    key: &str,
    rescue_column: &str,
    notes: &mut Vec<String>,
) {
    let versions = schemas.entry(table.clone()).or_default();
    let latest = versions.last_key_value().map(|(version, document)| (*version, document.schema.columns.clone()));
    let (version, known) = latest.unwrap_or_default();
    let mut unknown_keys = Vec::new();
    complete(&mut columns, &known, "", rescue_column, &mut unknown_keys);
    if columns == known || greatest_id(&columns) <= greatest_id(&known) {
        return;
    }
    let document = document_of(table, day, 0, version + 1, columns);
    let before = TableSchema { version, next_id: greatest_id(&known) + 1, columns: known };
    if registry::check_growth(table, &before, &document.schema).is_err() {
        notes.push(format!("the columns of `{key}` are not those of its table's manifests grown, and were left out"));
        return;
    }
    for path in unknown_keys {
        notes.push(format!("the key of column `{path}` of table `{table}` is known from no manifest: its name had to be changed, and records fill a new column from now on"));
    }
    versions.insert(version + 1, document);
}

/// Gives a footer's columns what it does not say: from the column of the same id, or else by its name.
fn complete(columns: &mut [Column], known: &[Column], above: &str, rescue_column: &str, unknown_keys: &mut Vec<String>) {
    let integers: BTreeSet<String> =
        columns.iter().filter(|column| column.column_type == Type::Int64).map(|column| column.name.clone()).collect();
    for column in columns {
        let same = known.iter().find(|known| known.id == column.id && known.name == column.name);
        let path = if above.is_empty() { column.name.clone() } else { format!("{above}.{}", column.name) };
        if let Some(same) = same {
            column.original.clone_from(&same.original);
            (column.role, column.declared, column.since) = (same.role, same.declared, same.since);
        } else {
            let is_top = above.is_empty();
            let number = column.name.strip_suffix("_double").filter(|number| integers.contains(*number));
            column.role = match (column.name.as_str(), &column.column_type) {
                (name, Type::String) if is_top && name == rescue_column => Role::Rescue,
                ("pontoon__batch_id", Type::String) if is_top => Role::BatchId,
                ("pontoon__last_synced_at", Type::Timestamp) if is_top => Role::LastSynced,
                (_, Type::Double) if number.is_some() => Role::Double,
                _ => Role::Value,
            };
            match (column.role, number) {
                (Role::Double, Some(number)) => column.original = Some(number.to_owned()),
                // A name that was changed ends in eight hex digits of what it was.
                (Role::Value, _) if ends_in_hash(&column.name) => unknown_keys.push(path.clone()),
                _ => {}
            }
        }
        let known = same.map(|same| &same.column_type);
        match (&mut column.column_type, known) {
            (Type::Struct(members), known) => {
                let known = if let Some(Type::Struct(known)) = known { known.as_slice() } else { &[] };
                complete(members, known, &path, rescue_column, unknown_keys);
            }
            (Type::List(element), known) => {
                let known = if let Some(Type::List(known)) = known { std::slice::from_ref(&**known) } else { &[] };
                complete(std::slice::from_mut(&mut **element), known, &path, rescue_column, unknown_keys);
            }
            _ => {}
        }
    }
}

fn ends_in_hash(name: &str) -> bool {
    let is_hash = |hash: &str| hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    name.rsplit_once('_').is_some_and(|(_, hash)| is_hash(hash))
}

/// A commit's document as far as the manifest tells of it: enough to answer with, to verify by, and to run the day again over.
fn restored_commit(
    paths: &Paths,
    destination: &Destination,
    manifest: &Manifest,
    text: String,
    transfer: Option<Transfer>,
) -> CommitDocument {
    let file = |table: &ManifestTable, file: &super::manifest::ManifestFile| FinishedFile {
        table: table.name.clone(),
        sync: table.sync,
        partition_day: file.partition,
        shard: 0,
        file: 0,
        upload: Upload {
            key: file.key.clone(),
            id: String::new(),
            parts: Vec::new(),
            size: file.bytes,
            checksum: file.checksum.clone(),
        },
        rows: file.rows,
        created_millis: 0,
    };
    let files = manifest.tables.iter().flat_map(|table| table.files.iter().map(move |landed| file(table, landed)));
    let (incremental, snapshot) = files.partition(|file: &FinishedFile| file.sync == SyncMode::Incremental);
    let counts = Counts {
        read: manifest.counts.read,
        delivered: manifest.counts.delivered,
        quarantined: manifest.counts.quarantined,
        duplicates: manifest.counts.duplicates,
        filtered: 0,
        repaired: manifest.counts.repaired,
        rescued: manifest.counts.rescued,
    };
    CommitDocument {
        form: FORM,
        run: RunId { destination: paths.destination().to_owned(), day: manifest.date },
        commit: CommitRef { generation: manifest.generation, attempt: 0 },
        build: BUILD.to_owned(),
        transfer: transfer.unwrap_or(Transfer { started_millis: 0 }),
        layout: manifest.layout,
        format: manifest.format,
        prefix: destination.s3_prefix.as_str().to_owned(),
        incremental,
        snapshot,
        swaps: BTreeMap::new(),
        delete: Vec::new(),
        abort: Vec::new(),
        registry: Vec::new(),
        manifest_key: Some(destination.layout.manifest_key(&destination.s3_prefix, manifest.date).as_str().to_owned()),
        manifest: text,
        counts,
        reasons: BTreeMap::new(),
        quarantine: Vec::new(),
        notes: vec!["restored from the customer's manifest: what was quarantined or staged is no longer known".to_owned()],
    }
}

/// What of the plan the state does not have. Nothing is written.
pub async fn compare<S: List + Read + Sync>(store: &S, paths: &Paths, head: &Head, plan: &Plan) -> Result<Rebuilt> {
    let mut tables = Vec::new();
    for (table, versions) in &plan.schemas {
        let Some((version, document)) = versions.last_key_value() else { continue };
        let is_named = head.registry.get(table).is_some_and(|known| known >= version);
        let was_there = is_named && store.read_small(&paths.registry(table, *version)).await?.is_some();
        tables.push(RebuiltTable { table: table.clone(), version: *version, columns: document.leaves, was_there });
    }
    let mut days = Vec::new();
    for day in plan.days.keys().copied() {
        // One that is older than what a full head remembers may be there all the same, and one that is open is its run's to finish.
        let is_known = head.commits.contains_key(&day)
            || head.open.contains_key(&day)
            || (head.may_have_forgotten(day) && last_commit(store, paths, day).await?.is_some());
        if !is_known {
            days.push(day);
        }
    }
    let pointers = plan.snapshots.iter().filter(|(table, _)| !head.snapshots.contains_key(table));
    Ok(Rebuilt {
        dry_run: true,
        known_days: plan.days.len() - days.len(),
        days,
        tables,
        snapshots: pointers.map(|(table, pointer)| (table.clone(), pointer.day)).collect(),
        notes: plan.notes.clone(),
    })
}

/// Writes what the state does not have. Nothing that is there is changed; what was written before an error is found by the next call.
pub async fn apply<S, C>(lease: &Lease<'_, S, C>, plan: &Plan) -> Result<Rebuilt>
where
    S: List + Read + Write + Sync,
    C: Clock,
{
    let (store, paths) = (lease.store(), lease.paths());
    let rebuilt = compare(store, paths, &lease.head().await, plan).await?;
    let documents: Vec<&SchemaDocument> = plan.schemas.values().flat_map(BTreeMap::values).collect();
    bounded(documents, LANES, |document| async move {
        let key = paths.registry(&document.table, document.schema.version);
        put_if_absent(store, &key, document::encode(document)?).await
    })
    .await?;
    let commits: Vec<&CommitDocument> = rebuilt.days.iter().filter_map(|day| plan.days.get(day)).collect();
    bounded(commits, LANES, |commit| write_commit(store, paths, commit)).await?;
    lease
        .update(|head| {
            restore_head(head, plan, &rebuilt);
            Ok(())
        })
        .await?;
    Ok(Rebuilt { dry_run: false, ..rebuilt })
}

async fn put_if_absent(store: &(impl Write + Sync), key: &str, body: Bytes) -> Result<()> {
    match store.put(key, body, "application/json", &Condition::Absent).await? {
        Put::Done(_) | Put::Lost => Ok(()),
    }
}

async fn write_commit(store: &(impl Write + Sync), paths: &Paths, commit: &CommitDocument) -> Result<()> {
    let (day, CommitRef { generation, attempt }) = (commit.run.day, commit.commit);
    let state = RunState {
        form: FORM,
        run: commit.run.clone(),
        generation,
        phase: Phase::Committed,
        failure: None,
        attempt,
        epoch: 0,
        kept: Vec::new(),
        fingerprint: Fingerprint { build: BUILD.to_owned(), ..Fingerprint::default() },
        transfer: commit.transfer,
        forces: Vec::new(),
        idle: 0,
        handed_on: false,
        deaths: 0,
        write: String::new(),
    };
    put_if_absent(store, &paths.commit(day, generation, attempt), document::encode(commit)?).await?;
    put_if_absent(store, &paths.manifest(day, generation), Bytes::from(commit.manifest.clone())).await?;
    put_if_absent(store, &paths.run_state(day, generation), document::encode(&state)?).await
}

fn restore_head(head: &mut Head, plan: &Plan, rebuilt: &Rebuilt) {
    for day in &rebuilt.days {
        let Some(commit) = plan.days.get(day) else { continue };
        head.commits.entry(*day).or_insert_with(|| DayCommit { commit: commit.commit, forces: Vec::new() });
        head.first_commit = Some(head.first_commit.map_or(*day, |first| first.min(*day)));
    }
    while head.commits.len() > KEPT_COMMITS {
        head.commits.pop_first();
    }
    for (table, pointer) in &plan.snapshots {
        head.snapshots.entry(table.clone()).or_insert_with(|| pointer.clone());
    }
    for table in &rebuilt.tables {
        let version = head.registry.entry(table.table.clone()).or_default();
        *version = (*version).max(table.version);
    }
    head.last_transfer = head.last_transfer.max(plan.last_transfer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::Kind;
    use crate::run::document::decode;
    use crate::run::lease::{Acquired, acquire};
    use crate::run::testing::{FakeClock, Staged, World, day};
    use crate::store::memory::MemoryBucket;

    const FIRST: &[Staged] = &[("0.json", Vec::new())];

    fn staged(rows: u64) -> Vec<Staged> {
        vec![("0.json", vec![("t", rows)]), ("domains/0", vec![("domains", 2)])]
    }

    async fn days(layout: &str) -> World {
        let world = World::new(layout);
        world.invoke("a", "2026-01-15", None, &staged(9)).await.unwrap();
        world.invoke("b", "2026-01-16", None, &staged(3)).await.unwrap();
        world.invoke("c", "2026-01-15", Some("again"), &staged(4)[..1]).await.unwrap();
        world
    }

    /// The same customer with an empty state.
    fn without_state(mut world: World) -> World {
        world.state = MemoryBucket::new();
        world.clock = FakeClock::default();
        world
    }

    async fn rebuild(world: &World) -> Result<Rebuilt> {
        let evidence = Evidence::read(&world.customer, &world.destination, day("2026-02-01")).await?;
        let paths = world.paths();
        let Acquired::Held(lease) = acquire(&world.state, &world.clock, &paths, world.settings.state.lease, "x").await? else {
            panic!("busy")
        };
        let plan = plan(&paths, &world.destination, "_rescued_data", evidence, &lease.head().await)?;
        let rebuilt = apply(&lease, &plan).await;
        lease.release().await?;
        rebuilt
    }

    #[tokio::test]
    async fn a_lost_state_is_put_together_again_and_goes_on_as_if_it_had_never_been_lost() {
        for layout in ["permutive", "pontoon"] {
            let before = days(layout).await;
            let head = before.head();
            let world = without_state(days(layout).await);
            let rebuilt = rebuild(&world).await.unwrap();
            assert_eq!(rebuilt.days, [day("2026-01-15"), day("2026-01-16")]);
            let restored = world.head();
            let generations =
                |head: &Head| head.commits.iter().map(|(day, done)| (*day, done.commit.generation)).collect::<Vec<_>>();
            assert_eq!(generations(&restored), generations(&head));
            assert_eq!((&restored.snapshots, restored.first_commit), (&head.snapshots, head.first_commit));
            assert_eq!(restored.registry, head.registry);
            for (table, version) in &head.registry {
                let key = before.paths().registry(table, *version);
                let of = |world: &World| decode::<SchemaDocument>(&key, &world.state.object(&key).unwrap()).unwrap().schema;
                assert_eq!(of(&world), of(&before), "{layout} {table}");
            }
            if layout == "pontoon" {
                assert_eq!(restored.last_transfer, head.last_transfer);
            }
            // A second call finds all there, and the next days are what they would have been.
            let again = rebuild(&world).await.unwrap();
            assert_eq!((again.days.len(), again.known_days, again.snapshots.len()), (0, 2, 0));
            assert!(again.tables.iter().all(|table| table.was_there));
            let mut worlds = [before, world];
            for world in &mut worlds {
                world.now_millis += 86_400_000;
                world.invoke("d", "2026-01-17", None, &staged(7)).await.unwrap();
                world.invoke("e", "2026-01-15", Some("once more"), &staged(1)).await.unwrap();
                assert!(
                    world
                        .invoke("f", "2026-01-16", None, FIRST)
                        .await
                        .is_ok_and(|answer| matches!(answer, crate::run::testing::Answer::Already(_)))
                );
            }
            assert_eq!(worlds[0].customer.objects(), worlds[1].customer.objects(), "{layout}");
        }
    }

    #[tokio::test]
    async fn what_the_state_has_is_never_changed_and_a_lost_schema_alone_comes_back() {
        let world = days("permutive").await;
        let head = world.head();
        let (table, version) = head.registry.first_key_value().map(|(table, version)| (table.clone(), *version)).unwrap();
        let key = world.paths().registry(&table, version);
        let document = world.state.object(&key).unwrap();
        world.state.remove(&key);
        let rebuilt = rebuild(&world).await.unwrap();
        assert_eq!((rebuilt.days.len(), rebuilt.known_days), (0, 2));
        let lost: Vec<&TableName> = rebuilt.tables.iter().filter(|table| !table.was_there).map(|table| &table.table).collect();
        assert_eq!(lost, [&table]);
        let restored: SchemaDocument = decode(&key, &world.state.object(&key).unwrap()).unwrap();
        assert_eq!(restored.schema, decode::<SchemaDocument>(&key, &document).unwrap().schema);
        let after = world.head();
        assert_eq!((after.commits, after.registry, after.snapshots), (head.commits, head.registry, head.snapshots));
    }

    #[tokio::test]
    async fn manifests_that_contradict_each_other_or_are_anothers_are_refused() {
        let world = days("permutive").await;
        let mut manifest = world.manifest("2026-01-16");
        let table = manifest.tables.iter_mut().find(|table| table.name.as_str() == "t").unwrap();
        table.columns[0].column_type = "string".into();
        let mut evidence = Evidence::default();
        let first = world.manifest("2026-01-15").to_text().unwrap();
        evidence.add_manifest(&world.destination, "15", first.clone()).unwrap();
        evidence.add_manifest(&world.destination, "16", manifest.to_text().unwrap()).unwrap();
        let error = plan(&world.paths(), &world.destination, "_rescued_data", evidence, &Head::new()).unwrap_err();
        assert_eq!(error.kind(), Kind::Vendor);
        assert!(error.message().contains("contradict each other about the columns of table"), "{error}");

        let mut elsewhere = world.destination.clone();
        elsewhere.s3_prefix = crate::domain::layout::Prefix::parse("other").unwrap();
        let error = Evidence::default().add_manifest(&elsewhere, "15.json", first).unwrap_err();
        assert!(error.message().starts_with("`15.json` lists `exports/data/"), "{error}");
        let error = Evidence::default().add_manifest(&elsewhere, "x.json", "{}".into()).unwrap_err();
        assert!(error.message().contains("is no manifest"), "{error}");
    }

    #[test]
    fn a_footer_says_more_than_the_manifests_or_stands_alone() {
        let of = |name: &str, id, column_type| Column {
            name: name.to_owned(),
            original: None,
            id,
            role: Role::Value,
            declared: false,
            since: day("2026-01-16"),
            column_type,
        };
        let table = TableName::parse("t").unwrap();
        let found = vec![
            of("n", 1, Type::Int64),
            of("_rescued_data", 2, Type::String),
            of("n_double", 3, Type::Double),
            of("a_b_0123abcd", 4, Type::Struct(vec![of("x_double", 5, Type::Double)])),
        ];
        let (mut schemas, mut notes) = (BTreeMap::new(), Vec::new());
        let key = "data/t/x.parquet";
        add_footer(&mut schemas, &table, day("2026-01-16"), found.clone(), key, "_rescued_data", &mut notes);
        let alone = &schemas[&table][&1].schema;
        let roles: Vec<Role> = alone.columns.iter().map(|column| column.role).collect();
        assert_eq!(roles, [Role::Value, Role::Rescue, Role::Double, Role::Value]);
        assert_eq!((alone.columns[2].original.as_deref(), alone.next_id), (Some("n"), 6));
        assert_eq!(notes.len(), 1);
        assert!(notes[0].starts_with("the key of column `a_b_0123abcd` of table `t` is known from no manifest"), "{notes:?}");

        let mut first = of("n", 1, Type::Int64);
        first.declared = true;
        let known = document_of(&table, day("2026-01-15"), 0, 4, vec![first.clone(), of("_rescued_data", 2, Type::String)]);
        let mut schemas = BTreeMap::from([(table.clone(), BTreeMap::from([(4, known)]))]);
        add_footer(&mut schemas, &table, day("2026-01-16"), found, key, "_rescued_data", &mut Vec::new());
        assert_eq!(schemas[&table][&5].schema.columns[0], first, "what the manifest says of a column stays");
        let mut notes = Vec::new();
        let other = vec![of("n", 1, Type::String), of("z", 9, Type::String)];
        add_footer(&mut schemas, &table, day("2026-01-16"), other, key, "_rescued_data", &mut notes);
        assert_eq!((schemas[&table].len(), notes.len()), (2, 1), "a file that is not the table grown changes nothing");
    }
}
