//! Staged objects that came after their day was committed: counted here, delivered by a forced re-run.

use std::collections::HashSet;

use super::head::{CommitRef, Head};
use super::journal;
use super::lanes::{LANES, bounded};
use super::paths::Paths;
use super::plan::list_staged;
use crate::domain::error::Result;
use crate::domain::run::Day;
use crate::domain::settings::{Destination, Settings};
use crate::store::ports::{List, Read};

/// What came to a committed day too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The day.
    pub day: Day,
    /// Objects that the commit did not read: new ones, and those that were staged again with other bytes.
    pub objects: u64,
    /// Their staged bytes.
    pub bytes: u64,
}

impl Late {
    /// The same for a person, ending in what to do.
    #[must_use]
    pub fn text(&self) -> String {
        let objects = if self.objects == 1 { "object" } else { "objects" };
        format!(
            "{} staged {objects} ({} bytes) came to {} after it was committed, run that day again with `--force` to deliver them",
            self.objects, self.bytes, self.day
        )
    }
}

/// Counts what came too late to the committed ones of the `run.late_check_days` days before `before`; only days that have any, oldest
/// first.
///
/// Needs to list the staging bucket, and to read and list the state bucket.
pub async fn late_objects(
    staging: &(impl List + Sync),
    state: &(impl Read + Sync),
    settings: &Settings,
    destination: &Destination,
    head: &Head,
    before: Day,
) -> Result<Vec<Late>> {
    let paths = &Paths::new(&settings.state, destination);
    let first = before.plus_days(-i64::from(settings.run.late_check_days));
    let committed: Vec<(Day, CommitRef)> = head.commits.range(first..before).map(|(day, done)| (*day, done.commit)).collect();
    let counted = bounded(committed, LANES, |(day, commit)| async move {
        let prefix = settings.staging.prefix_of(day, destination.organization.as_deref());
        late_of_day(staging, state, &prefix, paths, day, commit).await
    });
    Ok(counted.await?.into_iter().flatten().collect())
}

/// Counts what came too late to one committed day; `None` if nothing did, or if what the commit read is no longer known.
pub async fn late_of_day(
    staging: &(impl List + Sync),
    state: &(impl Read + Sync),
    prefix: &str,
    paths: &Paths,
    day: Day,
    commit: CommitRef,
) -> Result<Option<Late>> {
    let Some(run) = journal::run_state(state, paths, day, commit.generation).await? else { return Ok(None) };
    let Some(read) = journal::staged(state, paths, day, commit.generation, run.epoch).await? else { return Ok(None) };
    let known: HashSet<(&str, &str)> = read.iter().map(|object| (object.key.as_str(), object.etag.as_str())).collect();
    let mut late = Late { day, objects: 0, bytes: 0 };
    for object in list_staged(staging, prefix).await? {
        if !known.contains(&(object.key.as_str(), object.etag.as_str())) {
            late.objects += 1;
            late.bytes += object.size;
        }
    }
    Ok((late.objects > 0).then_some(late))
}
