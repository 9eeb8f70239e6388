//! Aborts uploads that nobody knows of: those that S3 had begun when the answer, and with it the id, was lost.

use std::collections::BTreeSet;

use super::journal::{OpenUpload, recorded_uploads};
use super::paths::Paths;
use super::standing::all_heads;
use crate::domain::error::Result;
use crate::domain::settings::{Destination, State};
use crate::store::lanes::{LANES, bounded};
use crate::store::ports::{List, ListUploads, Multipart, Read};

/// Aborts the uploads under the destination's prefix that have a key as Dayport makes them and that no open run's journal knows; says how
/// many. To be called under the destination's lease, when its own run is committed: then whoever could still want such an upload is a
/// holder that lost the lease, and what that one does is not kept.
///
/// An upload that is recorded anywhere is left alone: its own run ends it. So is one whose key Dayport never makes: it is somebody
/// else's. Needs `s3:ListBucketMultipartUploads` on the customer's bucket.
pub async fn sweep<S, C>(state: &S, customer: &C, settings: &State, destination: &Destination, paths: &Paths) -> Result<usize>
where
    S: List + Read + Sync,
    C: ListUploads + Multipart + Sync,
{
    // First what is there, then what is known: what is begun from now on is not touched.
    let found = customer.list_uploads(destination.s3_prefix.as_str()).await?;
    let is_ours = |key: &str| destination.layout.table_and_day(&destination.s3_prefix, key).is_some();
    let mut strays: BTreeSet<OpenUpload> = found
        .into_iter()
        .filter(|upload| is_ours(&upload.key))
        .map(|upload| OpenUpload { key: upload.key, id: upload.id })
        .collect();
    if strays.is_empty() {
        return Ok(0);
    }
    for known in open_runs_uploads(state, settings, paths).await? {
        strays.remove(&known);
    }
    bounded(&strays, LANES, |upload| customer.abort(&upload.key, &upload.id)).await?;
    Ok(strays.len())
}

/// What the journals of all open runs at the destination's place have recorded, also those of a name that it had before.
async fn open_runs_uploads<S: List + Read + Sync>(state: &S, settings: &State, paths: &Paths) -> Result<Vec<OpenUpload>> {
    let mut known = Vec::new();
    for (of, head) in all_heads(state, settings).await?.into_iter().filter(|(of, _)| of.place() == paths.place()) {
        for (day, open) in &head.open {
            known.extend(recorded_uploads(state, &of, *day, open.generation).await?);
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::answer::RunOutcome;
    use crate::run::testing::{World, day};
    use crate::run::whole_days::{self, Call};
    use crate::store::memory::Fault;
    use crate::store::operation::Operation;

    #[tokio::test]
    async fn what_no_journal_knows_is_aborted_and_what_is_recorded_or_anothers_stays() {
        let world = World::new("permutive");
        // A run dies when its uploads are begun and recorded.
        world.customer.die_on(4, Fault::Before);
        world.invoke("a", "2026-01-15", None, &[("0.json", vec![("t", 9)])]).await.unwrap_err();
        world.customer.heal();
        let recorded = world.customer.open_uploads();
        assert!(!recorded.is_empty());
        let stray = "exports/data/t_events/year=2026/month=1/day=15/data-000000000007.json.gz";
        for key in [
            stray,
            "exports/data/domains/data-000000000000.json.gz",
            "exports/theirs.bin",
            "exports/_dayport/check.txt",
            "else/data/t/x",
        ] {
            Multipart::create(&world.customer, key, "x").await.unwrap();
        }
        let sweep = async || {
            let (state, destination) = (&world.settings.state, &world.destination);
            sweep(&world.state, &world.customer, state, destination, &world.paths()).await.unwrap()
        };
        assert_eq!(sweep().await, 2);
        let left: Vec<String> = world
            .customer
            .open_uploads()
            .into_iter()
            .map(|(key, _)| key)
            .filter(|key| !key.starts_with("exports/data/"))
            .collect();
        assert_eq!(left, ["exports/theirs.bin", "exports/_dayport/check.txt", "else/data/t/x"]);
        assert!(
            recorded.iter().all(|upload| world.customer.open_uploads().contains(upload)),
            "what is recorded is its run's to end"
        );
        assert_eq!(sweep().await, 0);
        world.invoke("b", "2026-01-15", None, &[("0.json", vec![("t", 9)])]).await.unwrap();
        assert!(world.head().commits.contains_key(&day("2026-01-15")));
    }

    #[tokio::test]
    async fn an_upload_whose_create_answer_was_lost_is_gone_after_the_run_that_commits() {
        for (destination, is_swept) in [("sweep = true", true), ("", false)] {
            let world = whole_days::World::new(destination, "");
            world.stage_on("2026-01-15", "a.ndjson", whole_days::A);
            let creates = |world: &whole_days::World| {
                world.customer.calls().iter().filter(|call| call.operation == Operation::CreateMultipartUpload).count()
            };
            world.customer.fail_on(1, Fault::After);
            let lost = world.call(Call::of("2026-01-15")).await;
            assert_eq!((lost.state, creates(&world)), (RunOutcome::Failed, 1), "{:?}", lost.error);
            assert_eq!(world.customer.open_uploads().len(), 1);
            let done = world.call(Call::of("2026-01-15")).await;
            assert_eq!(done.state, RunOutcome::Committed, "{:?}", done.error);
            assert_eq!(world.customer.open_uploads().is_empty(), is_swept);
            let told = done.notes.iter().any(|note| note == "swept: 1 upload that nobody knew of was aborted");
            assert_eq!(told, is_swept, "{:?}", done.notes);
            let asked = world.customer.calls().iter().any(|call| call.operation == Operation::ListMultipartUploads);
            assert_eq!(asked, is_swept, "without the setting nobody asks");
        }
    }
}
