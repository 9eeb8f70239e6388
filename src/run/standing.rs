//! Where every day of every destination stands, read from the state alone: nothing is changed, and no customer's bucket is asked.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::compose::CommitDocument;
use super::document;
use super::due::missed;
use super::head::{CommitRef, Head, OpenRun};
use super::journal::{self, Failure, Phase};
use super::late::late_objects;
use super::paths::Paths;
use super::verify::VerifiedDocument;
use crate::domain::counts::Counts;
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::domain::settings::{Destination, Settings, State};
use crate::domain::table::TableName;
use crate::store::lanes::{LANES, bounded};
use crate::store::ports::{List, Read, Staged};

/// What the configuration says of a destination that the state knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Configured {
    /// It runs.
    Enabled,
    /// `enabled = false`.
    Paused,
    /// One of its name is configured, with another bucket or prefix.
    Moved,
    /// No longer there.
    Removed,
}

/// Where a day stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DayState {
    /// It is done.
    Committed,
    /// Its run has begun; nothing is read yet.
    Planned,
    /// Files are being made; nothing can be seen.
    Exporting,
    /// Its commit is recorded and is rolled forward by whoever comes next.
    Committing,
    /// The last invocation gave up; the next goes on.
    Failed,
    /// Its commit can't be finished; a forced re-run mends it.
    Dead,
    /// No trigger came for it; the next scheduled one covers it.
    Missed,
}

impl DayState {
    /// The name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DayState::Committed => "committed",
            DayState::Planned => "planned",
            DayState::Exporting => "exporting",
            DayState::Committing => "committing",
            DayState::Failed => "failed",
            DayState::Dead => "dead",
            DayState::Missed => "missed",
        }
    }
}

/// What a committed day came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DayTotals {
    /// Records, those of other organisations too.
    pub counts: Counts,
    /// Files that the run landed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// One day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DayStanding {
    /// The staged day.
    pub date: Day,
    /// Where it stands.
    pub state: DayState,
    /// How often the day was run again: 0 the first time.
    pub generation: u32,
    /// When the run's transfer started, RFC 3339 in UTC; of open runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Invocations that worked on it; of open runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Recorded uploads that may still be open in the customer's bucket; of open runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploads: Option<u64>,
    /// Why the last invocation gave up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What it came to; of committed days whose commit is still known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<DayTotals>,
    /// Staged objects that came after it was committed; of committed days within `run.late_check_days`, where any did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_objects: Option<u64>,
    /// With `verify = true`: objects that were not as they were written when they were last read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<u64>,
}

impl DayStanding {
    /// A day of which nothing more is known.
    fn of(date: Day, state: DayState, generation: u32) -> DayStanding {
        DayStanding {
            date,
            state,
            generation,
            started: None,
            attempts: None,
            uploads: None,
            failure: None,
            totals: None,
            late_objects: None,
            faults: None,
        }
    }
}

/// A snapshot table that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotStanding {
    /// The table.
    pub table: TableName,
    /// The day of the run that landed it.
    pub date: Day,
    /// How many files it has.
    pub files: usize,
}

/// One destination at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Its name.
    pub destination: String,
    /// Its place, as `s3://bucket/prefix/`.
    pub place: String,
    /// What the configuration says of it.
    pub configured: Configured,
    /// Whether an invocation holds its lease, or died holding it.
    pub held: bool,
    /// The earliest committed day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_day: Option<Day>,
    /// The days that were asked for, and all that are not done, oldest first.
    pub days: Vec<DayStanding>,
    /// Snapshot tables that are replaced in place.
    pub snapshots: Vec<SnapshotStanding>,
    /// What could not be found out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Only the destination of that name, wherever it was.
    pub name: Option<&'a str>,
    /// How many of the latest committed days.
    pub days: usize,
    /// Today.
    pub today: Day,
}

/// Where every destination stands, those that the configuration no longer has among them: first as the configuration lists them, then
/// the others by name and place.
///
/// `staging_of` gives what is staged for a destination, queues and all.
///
/// Fails with kind `Vendor` where `name` is neither configured nor known to the state.
pub async fn standings<'s, V, S>(
    state: &V,
    staging_of: impl Fn(&'s Destination) -> S,
    settings: &'s Settings,
    asked: Asked<'_>,
) -> Result<Vec<Standing>>
where
    V: List + Read + Sync,
    S: Staged + Sync,
{
    let heads = all_heads(state, &settings.state).await?;
    let mut known: BTreeMap<String, (Paths, Head)> =
        heads.into_iter().map(|(paths, head)| (paths.head(), (paths, head))).collect();
    let is_asked = |name: &str| asked.name.is_none_or(|asked| asked == name);
    let mut all = Vec::new();
    for destination in settings.destinations.iter().filter(|destination| is_asked(&destination.name)) {
        let paths = Paths::new(&settings.state, destination);
        let head = known.remove(&paths.head()).map_or_else(Head::new, |(_, head)| head);
        let configured = if destination.enabled { Configured::Enabled } else { Configured::Paused };
        let mut standing = standing(state, &paths, &head, configured, asked.days).await?;
        if destination.enabled {
            let own = settings.own_day(destination, asked.today);
            standing.days.extend(
                missed(&head, destination.start_date, own, settings.run.catch_up_days)
                    .map(|day| DayStanding::of(day, DayState::Missed, 0)),
            );
            standing.days.sort_by_key(|day| day.date);
        }
        count_late(state, &staging_of(destination), settings, destination, &head, asked.today, &mut standing).await;
        all.push(standing);
    }
    let configured_names: BTreeSet<&str> = settings.destinations.iter().map(|destination| destination.name.as_str()).collect();
    let mut others: Vec<(Paths, Head)> = known.into_values().collect();
    others.sort_by(|(a, _), (b, _)| (a.destination(), a.place()).cmp(&(b.destination(), b.place())));
    for (paths, head) in others.iter().filter(|(paths, _)| is_asked(paths.destination())) {
        let is_elsewhere = configured_names.contains(paths.destination());
        // A configured destination's own head was taken out above.
        let configured = if is_elsewhere { Configured::Moved } else { Configured::Removed };
        all.push(standing(state, paths, head, configured, asked.days).await?);
    }
    match asked.name {
        Some(name) if all.is_empty() => Err(Error::vendor(format!(
            "there is no destination `{name}`, neither in the configuration nor in the state bucket, call without a name to see all"
        ))),
        _ => Ok(all),
    }
}

/// Every destination's head with its keys, those that the configuration no longer has among them, in the order of their keys.
pub async fn all_heads(store: &(impl List + Read + Sync), state: &State) -> Result<Vec<(Paths, Head)>> {
    let listed = store.list_all(&Paths::heads(state)).await?;
    let heads = bounded(listed, LANES, |object| async move {
        let head: Option<Head> = document::read(store, &object.key).await?;
        Ok(head.and_then(|head| Some((Paths::of_head(state, &object.key, &head)?, head))))
    });
    Ok(heads.await?.into_iter().flatten().collect())
}

async fn standing<V: List + Read + Sync>(
    state: &V,
    paths: &Paths,
    head: &Head,
    configured: Configured,
    last: usize,
) -> Result<Standing> {
    let committed = head.commits.iter().rev().take(last).filter(|(day, _)| !head.open.contains_key(day));
    let committed: Vec<(Day, CommitRef)> = committed.map(|(day, done)| (*day, done.commit)).collect();
    let committed = bounded(committed, LANES, |(day, commit)| committed_day(state, paths, day, commit)).await?;
    let open = bounded(&head.open, LANES, |(day, open)| open_day(state, paths, *day, open)).await?;
    let mut days: Vec<DayStanding> = committed.into_iter().chain(open).collect();
    days.sort_by_key(|day| day.date);
    let snapshots = head.snapshots.iter().map(|(table, pointer)| SnapshotStanding {
        table: table.clone(),
        date: pointer.day,
        files: pointer.files.len(),
    });
    Ok(Standing {
        destination: paths.destination().to_owned(),
        place: format!("s3://{}", paths.place()),
        configured,
        held: head.holder.is_some(),
        first_day: head.first_commit,
        days,
        snapshots: snapshots.collect(),
        notes: Vec::new(),
    })
}

async fn committed_day<V: Read + Sync>(state: &V, paths: &Paths, date: Day, commit: CommitRef) -> Result<DayStanding> {
    let key = paths.commit(date, commit.generation, commit.attempt);
    let done: Option<CommitDocument> = document::read(state, &key).await?;
    let verified: Option<VerifiedDocument> = document::read(state, &paths.verified(date, commit.generation)).await?;
    let verified = verified.filter(|verified| verified.is_whole && verified.attempt == commit.attempt);
    let totals = done.map(|done| DayTotals {
        counts: done.counts,
        files: done.files().count() as u64,
        bytes: done.files().map(|file| file.upload.size).sum(),
    });
    Ok(DayStanding {
        totals,
        faults: verified.map(|verified| verified.found.faults.len() as u64),
        ..DayStanding::of(date, DayState::Committed, commit.generation)
    })
}

async fn open_day<V: List + Read + Sync>(state: &V, paths: &Paths, date: Day, open: &OpenRun) -> Result<DayStanding> {
    let run = journal::run_state(state, paths, date, open.generation).await?;
    let uploads =
        if open.landed || open.dead { 0 } else { journal::recorded_uploads(state, paths, date, open.generation).await?.len() };
    let phase = run.as_ref().map(|run| run.phase);
    let state = match (open.dead, open.commit.is_some(), phase) {
        (true, _, _) => DayState::Dead,
        (_, true, _) => DayState::Committing,
        (_, _, Some(Phase::Failed)) => DayState::Failed,
        (_, _, None | Some(Phase::Planned)) => DayState::Planned,
        _ => DayState::Exporting,
    };
    Ok(DayStanding {
        started: Some(open.transfer.instant()),
        attempts: run.as_ref().map(|run| run.attempt + 1),
        uploads: Some(uploads as u64),
        failure: run.and_then(|run| run.failure),
        ..DayStanding::of(date, state, open.generation)
    })
}

/// Counts what came too late. That this can't be done is no reason not to say the rest.
async fn count_late<V, S>(
    state: &V,
    staging: &S,
    settings: &Settings,
    destination: &Destination,
    head: &Head,
    today: Day,
    standing: &mut Standing,
) where
    V: Read + Sync,
    S: Staged + Sync,
{
    match late_objects(staging, state, settings, destination, head, today).await {
        Ok(late) => {
            for late in late {
                match standing.days.iter_mut().find(|day| day.date == late.day && day.state == DayState::Committed) {
                    Some(day) => day.late_objects = Some(late.objects),
                    None => standing.notes.push(late.text()),
                }
            }
        }
        Err(error) => standing.notes.push(format!("what came too late could not be counted: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testing::{World, day};
    use crate::store::memory::{Fault, MemoryBucket};

    async fn look(world: &World, settings: &Settings, name: Option<&str>) -> Result<Vec<Standing>> {
        let asked = Asked { name, days: 14, today: day("2026-01-17") };
        standings(&world.state, |_| MemoryBucket::new(), settings, asked).await
    }

    fn states(standing: &Standing) -> Vec<(String, DayState)> {
        standing.days.iter().map(|day| (day.date.to_string(), day.state)).collect()
    }

    #[tokio::test]
    async fn open_runs_are_shown_also_of_destinations_that_moved_or_are_gone() {
        let world = World::new("permutive");
        let staged = [("0.json", vec![("t", 9)])];
        world.invoke("a", "2026-01-15", None, &staged).await.unwrap();
        // It dies once its shard's files are uploaded.
        world.customer.die_on(4, Fault::Before);
        world.invoke("b", "2026-01-16", None, &staged).await.unwrap_err();
        world.customer.heal();

        let mut settings = world.settings.clone();
        settings.destinations.push(world.destination.clone());
        let [acme] = &look(&world, &settings, None).await.unwrap()[..] else { panic!() };
        assert_eq!((acme.configured, acme.held, acme.first_day), (Configured::Enabled, false, Some(day("2026-01-15"))));
        let (fifteen, sixteen) = ("2026-01-15".to_owned(), "2026-01-16".to_owned());
        assert_eq!(states(acme), [(fifteen, DayState::Committed), (sixteen, DayState::Exporting)]);
        assert_eq!(acme.days[0].totals.as_ref().map(|totals| (totals.counts.delivered, totals.files)), Some((9, 2)));
        let open = &acme.days[1];
        assert_eq!((open.attempts, open.started.as_deref()), (Some(1), Some("2026-01-16T07:00:01Z")));
        assert!(open.uploads.is_some_and(|uploads| uploads > 0), "{open:?}");

        let asked = Asked { name: None, days: 14, today: day("2026-01-20") };
        let later = standings(&world.state, |_| MemoryBucket::new(), &settings, asked).await.unwrap();
        let missed: Vec<(String, DayState)> =
            ["17", "18"].map(|day| (format!("2026-01-{day}"), DayState::Missed)).into_iter().collect();
        assert_eq!(states(&later[0])[2..], missed);

        settings.destinations[0].s3_bucket = "elsewhere".into();
        let both = look(&world, &settings, Some("acme")).await.unwrap();
        let configured: Vec<Configured> = both.iter().map(|standing| standing.configured).collect();
        assert_eq!(configured, [Configured::Enabled, Configured::Moved]);
        assert_eq!((both[0].days.len(), &both[1].days), (0, &acme.days));

        settings.destinations[0].name = "other".into();
        let gone = look(&world, &settings, Some("acme")).await.unwrap();
        assert_eq!(gone.iter().map(|standing| standing.configured).collect::<Vec<_>>(), [Configured::Removed]);
        let error = look(&world, &settings, Some("nobody")).await.unwrap_err();
        assert!(error.message().contains("no destination `nobody`"), "{error}");
    }

    #[tokio::test]
    async fn a_commit_that_is_lost_from_the_state_leaves_its_day_without_totals() {
        let world = World::new("permutive");
        world.invoke("a", "2026-01-15", None, &[("0.json", vec![("t", 9)])]).await.unwrap();
        let done = world.head().commits[&day("2026-01-15")].commit;
        world.state.remove(&world.paths().commit(day("2026-01-15"), done.generation, done.attempt));
        let mut settings = world.settings.clone();
        settings.destinations.push(world.destination.clone());
        let all = look(&world, &settings, None).await.unwrap();
        assert_eq!(all[0].days[0].totals, None);
    }
}
