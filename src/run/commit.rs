//! The commit: recorded first, then rolled forward, by this invocation or whoever comes next.
//!
//! In order: the list is written, the head records it, uploads are completed (incremental tables, then snapshots), new schemas are
//! written, the head takes registry versions and snapshot pointers over, what must go is deleted, the manifests are written (the
//! customer's is the last object), the head takes the day as committed. Every step can be repeated, so after a crash anywhere the
//! whole roll-forward runs again from the list alone. Before what can't be repeated once a later run has been here (deleting,
//! overwriting a manifest), the holder makes sure that the lease still is its own.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::clock::Clock;
use super::compose::CommitDocument;
use super::document;
use super::head::{CommitRef, OpenRun};
use super::journal::{self, FinishedFile, Journal, Phase};
use super::lease::Lease;
use super::paths::Paths;
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::domain::table::TableName;
use crate::store::lanes::{LANES, bounded};
use crate::store::ports::{Completed, Condition, Delete, List, Multipart, Read, Write};

/// How long S3 surely keeps an upload: the lifecycle rule that aborts old ones has 7 days or more (CONTRACT.md §5). An upload that is
/// younger and that S3 does not know was completed; nobody aborts one that a recorded commit lists.
const SURELY_KEPT_MILLIS: i64 = 7 * 86_400_000;

/// Commits a run: writes its list, records it in the head, rolls it forward.
///
/// Returns the list as committed. After an error the commit is either not recorded, and then nothing can be seen, or it is, and then the
/// next invocation's [`roll_forward`] finishes it. `now_millis` is the wall clock, for the age of uploads.
pub async fn commit<S, C, D>(
    lease: &Lease<'_, S, C>,
    journal: &Journal<'_, S>,
    customer: &D,
    mut commit: CommitDocument,
    now_millis: i64,
) -> Result<CommitDocument>
where
    S: List + Read + Write + Sync,
    C: Clock,
    D: Multipart + Write + Delete + Sync,
{
    commit.abort.extend(journal.leftovers(commit.files()).await?);
    let (day, reference) = (commit.run.day, commit.commit);
    let key = lease.paths().commit(day, reference.generation, reference.attempt);
    document::write(lease.store(), &key, &commit).await?;
    lease.update(|head| head.record_commit(day, reference)).await?;
    roll_forward(lease, customer, day, now_millis).await
}

/// Finishes the recorded commit of a day, from wherever it stopped. Needs no configuration but where the destination is.
///
/// Fails as the vendor's to mend, and buries the commit, when an upload is gone for good.
pub async fn roll_forward<S, C, D>(lease: &Lease<'_, S, C>, customer: &D, day: Day, now_millis: i64) -> Result<CommitDocument>
where
    S: List + Read + Write + Sync,
    C: Clock,
    D: Multipart + Write + Delete + Sync,
{
    let store = lease.store();
    let (open, reference) = recorded(lease, day).await?;
    let key = lease.paths().commit(day, reference.generation, reference.attempt);
    let commit: CommitDocument = document::read_present(store, &key).await?;
    check_reach(&commit)?;
    if !open.landed {
        note(lease, &commit, Phase::Committing, None).await?;
        land(lease, customer, &commit, now_millis).await?;
    }
    clear(lease, customer, &commit).await?;
    lease.validate().await?;
    put(store, &lease.paths().manifest(day, reference.generation), &commit.manifest).await?;
    if let Some(manifest_key) = &commit.manifest_key {
        lease.validate().await?;
        put(customer, manifest_key, &commit.manifest).await?;
    }
    note(lease, &commit, Phase::Committed, None).await?;
    lease.update(|head| head.finish(day, reference)).await?;
    Ok(commit)
}

/// The list of a commit that is done.
pub async fn committed(store: &(impl Read + Sync), paths: &Paths, day: Day, commit: CommitRef) -> Result<CommitDocument> {
    document::read_present(store, &paths.commit(day, commit.generation, commit.attempt)).await
}

async fn recorded<S, C>(lease: &Lease<'_, S, C>, day: Day) -> Result<(OpenRun, CommitRef)>
where
    S: Read + Write + Sync,
    C: Clock,
{
    let head = lease.head().await;
    let open = head.open.get(&day).filter(|open| !open.dead);
    let recorded = open.and_then(|open| Some((open.clone(), CommitRef { generation: open.generation, attempt: open.commit? })));
    recorded
        .ok_or_else(|| Error::bug(format!("no commit of {day} is recorded and it was to be rolled forward, please report it")))
}

/// Makes the files visible, then lets the head say so.
async fn land<S, C, D>(lease: &Lease<'_, S, C>, customer: &D, commit: &CommitDocument, now_millis: i64) -> Result<()>
where
    S: Read + Write + Sync,
    C: Clock,
    D: Multipart + Sync,
{
    let day = commit.run.day;
    let versions: BTreeMap<TableName, u32> =
        commit.registry.iter().map(|change| (change.table.clone(), change.version)).collect();
    let mut gone = complete(customer, &commit.incremental, now_millis).await?;
    if gone.is_empty() {
        gone = complete(customer, &commit.snapshot, now_millis).await?;
    }
    // Also of a commit that can't be finished: files with these schemas may stand.
    bounded(&commit.registry, LANES, |change| put(lease.store(), &change.key, &change.body)).await?;
    let Some(first_gone) = gone.first() else {
        let snapshots: BTreeMap<TableName, Vec<String>> =
            commit.swaps.iter().map(|(table, swap)| (table.clone(), swap.files.clone())).collect();
        return lease.update(|head| head.land(day, &versions, &snapshots)).await;
    };
    let error = Error::vendor(format!(
        "the commit of {} can't be finished: {} of its uploads are gone after more than 7 days, first that of `{}`, run the day again with `--force`",
        commit.run,
        gone.len(),
        first_gone.upload.key
    ));
    lease.update(|head| head.bury(day, &versions)).await?;
    note(lease, commit, Phase::Failed, Some(&error)).await?;
    bounded(commit.files(), LANES, |file| customer.abort(&file.upload.key, &file.upload.id)).await?;
    bounded(&commit.abort, LANES, |upload| customer.abort(&upload.key, &upload.id)).await?;
    Err(error)
}

/// Completes uploads, and returns those that are gone for good.
async fn complete<'f, D>(customer: &D, files: &'f [FinishedFile], now_millis: i64) -> Result<Vec<&'f FinishedFile>>
where
    D: Multipart + Sync,
{
    let gone = bounded(files, LANES, |file| async move {
        let is_gone = match customer.complete(&file.upload).await? {
            Completed::Done => false,
            Completed::NoSuchUpload => now_millis.saturating_sub(file.created_millis) >= SURELY_KEPT_MILLIS,
        };
        Ok(is_gone.then_some(file))
    });
    Ok(gone.await?.into_iter().flatten().collect())
}

/// Deletes what the commit replaced and aborts what nobody wants.
async fn clear<S, C, D>(lease: &Lease<'_, S, C>, customer: &D, commit: &CommitDocument) -> Result<()>
where
    S: Read + Write + Sync,
    C: Clock,
    D: Multipart + Delete + Sync,
{
    bounded(&commit.abort, LANES, |upload| customer.abort(&upload.key, &upload.id)).await?;
    // A later day's snapshot may have landed in the meantime, and may use a name that this one's left over.
    let head = lease.head().await;
    let standing: BTreeSet<&String> = head.snapshots.values().flat_map(|pointer| &pointer.files).collect();
    let leftovers = commit.swaps.values().flat_map(|swap| &swap.leftovers).filter(|key| !standing.contains(key));
    bounded(commit.delete.iter().chain(leftovers), LANES, |key| async move {
        lease.validate().await?;
        customer.delete(key).await
    })
    .await?;
    Ok(())
}

/// Nothing outside the customer's prefix is touched, whatever a stored list says.
fn check_reach(commit: &CommitDocument) -> Result<()> {
    let files = commit.files().map(|file| &file.upload.key);
    let swapped = commit.swaps.values().flat_map(|swap| swap.files.iter().chain(&swap.leftovers));
    let uploads = commit.abort.iter().map(|upload| &upload.key);
    let mut keys = files.chain(swapped).chain(uploads).chain(&commit.delete).chain(&commit.manifest_key);
    match keys.find(|key| !key.starts_with(&commit.prefix)) {
        None => Ok(()),
        Some(key) => Err(Error::bug(format!("the commit of {} lists `{key}` outside the prefix, please report it", commit.run))),
    }
}

async fn put(store: &(impl Write + Sync), key: &str, text: &str) -> Result<()> {
    store.put(key, Bytes::copy_from_slice(text.as_bytes()), "application/json", &Condition::None).await.map(|_| ())
}

async fn note<S, C>(lease: &Lease<'_, S, C>, commit: &CommitDocument, phase: Phase, error: Option<&Error>) -> Result<()>
where
    S: Read + Write + Sync,
    C: Clock,
{
    journal::note_phase(lease.store(), lease.paths(), commit.run.day, commit.commit.generation, phase, error).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testing::FakeClock;
    use crate::store::memory::MemoryBucket;

    fn is_send<T: Send>(_: T) {}

    /// The runtime moves an invocation's work between threads.
    #[test]
    fn what_a_run_awaits_can_move_between_threads() {
        type Held = Lease<'static, MemoryBucket, FakeClock>;
        type Notes = Journal<'static, MemoryBucket>;
        fn all<'a>(lease: &'a Held, notes: &'a mut Notes, customer: &'a MemoryBucket, list: &CommitDocument, day: Day) {
            is_send(notes.abort_orphans(customer));
            is_send(notes.record_shard(journal::Pass::First, journal::ShardDone::default()));
            let notes: &Notes = notes;
            is_send(commit(lease, notes, customer, list.clone(), 0));
            is_send(roll_forward(lease, customer, day, 0));
            is_send(lease.keep());
            is_send(lease.begin(day, None, 0));
            is_send(notes.record_uploads(&[]));
            is_send(notes.fix("guess", 0));
        }
        async fn others(
            store: &MemoryBucket,
            clock: &FakeClock,
            paths: &Paths,
            head: &crate::run::head::Head,
            open: &OpenRun,
            day: Day,
        ) {
            is_send(crate::run::lease::acquire(store, clock, paths, std::time::Duration::ZERO, "x"));
            is_send(crate::run::compose::earlier(store, paths, head, day));
            is_send(crate::run::registry::load_all(store, paths, head));
            is_send(Journal::begin(store, paths, day, open, "x", &journal::Fingerprint::default(), &[]));
        }
        let _: fn(&'static Held, &'static mut Notes, &'static MemoryBucket, &CommitDocument, Day) = all;
        let _ = others;
    }
}
