//! Which days a scheduled trigger covers: a destination's open runs, the days that were missed, and its own.

use super::document;
use super::head::Head;
use super::journal;
use super::paths::Paths;
use crate::domain::error::Result;
use crate::domain::run::Day;
use crate::domain::settings::{Destination, State};
use crate::store::ports::Read;

/// Silent ends in a row after which a day waits for all others: it may end the invocation each time that it is tried.
const MOST_SILENT_ENDS: u32 = 2;

/// Why a day is due. The order is the order in which the days of a destination are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// Its commit is recorded and has to be rolled forward.
    Recorded,
    /// A run of it is open: continued, failed, or begun by an invocation that died.
    Open,
    /// No trigger came for it.
    Missed,
    /// It is the trigger's own day.
    Own,
    /// The invocations that worked on it ended without a word, twice or more in a row: so it is tried last, and blocks no other day.
    Deadly,
}

/// The days that a scheduled trigger for `own` covers, in the order in which they are to be tried, each once; `own` is always among them.
///
/// An open run that never got to know any staged object counts as a missed day: once it is more than `catch_up_days` back, it is left
/// to whoever asks for it by hand. Needs to read and list the state bucket.
pub async fn due_days(
    store: &(impl Read + Sync),
    state: &State,
    destination: &Destination,
    own: Day,
    catch_up_days: u32,
) -> Result<Vec<(Due, Day)>> {
    let paths = Paths::new(state, destination);
    let head: Head = document::read_or_default(store, &paths.head()).await?;
    let earliest = own.plus_days(-i64::from(catch_up_days));
    let mut days = Vec::new();
    for (&day, open) in &head.open {
        if open.dead || open.commit.is_some() {
            days.push((if open.dead { Due::Open } else { Due::Recorded }, day));
            continue;
        }
        let why = match journal::run_state(store, &paths, day, open.generation).await? {
            None if day < earliest => continue,
            Some(state) if state.silent_ends() >= MOST_SILENT_ENDS => Due::Deadly,
            _ => Due::Open,
        };
        days.push((why, day));
    }
    days.extend(missed(&head, destination.start_date, own, catch_up_days).map(|day| (Due::Missed, day)));
    if !head.open.contains_key(&own) {
        days.push((Due::Own, own));
    }
    days.sort_unstable();
    Ok(days)
}

/// The days before `own` that nobody asked for: from `start`, or else after the first committed day, at most `catch_up_days` back.
pub fn missed(head: &Head, start: Option<Day>, own: Day, catch_up_days: u32) -> impl Iterator<Item = Day> {
    let first = start.or_else(|| Some(head.first_commit?.plus_days(1)));
    let earliest = first.map(|first| first.max(own.plus_days(-i64::from(catch_up_days))));
    let days = earliest.into_iter().flat_map(move |earliest| earliest.up_to(own.plus_days(-1)));
    days.filter(|day| !head.commits.contains_key(day) && !head.open.contains_key(day))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::head::{CommitRef, DayCommit, OpenRun};
    use crate::run::testing::{World, day};

    fn committed(head: &mut Head, days: &[&str]) {
        for text in days {
            let commit = CommitRef { generation: 0, attempt: 0 };
            head.commits.insert(day(text), DayCommit { commit, forces: Vec::new() });
            head.first_commit = Some(head.first_commit.map_or(day(text), |first| first.min(day(text))));
        }
    }

    fn open(head: &mut Head, text: &str, commit: Option<u32>, dead: bool) {
        let transfer = crate::domain::run::Transfer { started_millis: 1_000 };
        let run = OpenRun { generation: 0, transfer, forces: Vec::new(), commit, landed: false, dead };
        head.open.insert(day(text), run);
    }

    async fn due(world: &World, head: &Head, own: &str, catch_up_days: u32) -> Vec<String> {
        world.state.insert(&world.paths().head(), document::encode(head).unwrap());
        let days = due_days(&world.state, &world.settings.state, &world.destination, day(own), catch_up_days).await.unwrap();
        days.into_iter().map(|(why, day)| format!("{why:?} {}", &day.to_string()[5..])).collect()
    }

    #[tokio::test]
    async fn a_destination_that_never_ran_has_its_own_day_alone_unless_it_has_a_start() {
        let mut world = World::new("permutive");
        assert_eq!(due(&world, &Head::new(), "2026-01-15", 7).await, ["Own 01-15"]);
        world.destination.start_date = Some(day("2026-01-13"));
        assert_eq!(due(&world, &Head::new(), "2026-01-15", 7).await, ["Missed 01-13", "Missed 01-14", "Own 01-15"]);
        world.destination.start_date = Some(day("2020-01-01"));
        assert_eq!(due(&world, &Head::new(), "2026-01-15", 2).await, ["Missed 01-13", "Missed 01-14", "Own 01-15"]);
        assert_eq!(due(&world, &Head::new(), "2026-01-15", 0).await, ["Own 01-15"]);
        world.destination.start_date = Some(day("2026-02-01"));
        assert_eq!(due(&world, &Head::new(), "2026-01-15", 7).await, ["Own 01-15"], "a start bounds what is caught up alone");
    }

    #[tokio::test]
    async fn missed_days_are_those_after_the_first_committed_one() {
        let world = World::new("permutive");
        let mut head = Head::new();
        committed(&mut head, &["2026-01-10", "2026-01-12"]);
        assert_eq!(due(&world, &head, "2026-01-15", 7).await, ["Missed 01-11", "Missed 01-13", "Missed 01-14", "Own 01-15"]);
        assert_eq!(
            due(&world, &head, "2026-01-12", 7).await,
            ["Missed 01-11", "Own 01-12"],
            "a late trigger asks for no later day"
        );
    }

    #[tokio::test]
    async fn recorded_commits_come_first_then_open_runs_then_missed_days() {
        let world = World::new("permutive");
        let mut head = Head::new();
        committed(&mut head, &["2026-01-10"]);
        open(&mut head, "2026-01-12", None, false);
        open(&mut head, "2026-01-13", None, true);
        open(&mut head, "2026-01-14", Some(2), false);
        open(&mut head, "2026-01-15", None, false);
        assert_eq!(
            due(&world, &head, "2026-01-15", 7).await,
            ["Recorded 01-14", "Open 01-12", "Open 01-13", "Open 01-15", "Missed 01-11"],
            "its own day is there once"
        );
    }

    #[tokio::test]
    async fn a_run_that_never_had_anything_to_read_is_given_up_like_a_missed_day_and_one_that_had_is_not() {
        let world = World::new("permutive");
        // Day 2 was begun and died once; of day 3 nothing was ever staged.
        world.state.die_on(14, crate::store::memory::Fault::Before);
        world.invoke("a", "2026-01-02", None, &[("0.json", vec![("t", 1)])]).await.unwrap_err();
        world.state.heal();
        let mut head = world.head();
        assert!(head.open.contains_key(&day("2026-01-02")), "it died too early or too late");
        open(&mut head, "2026-01-03", None, false);
        assert_eq!(due(&world, &head, "2026-01-10", 7).await, ["Open 01-02", "Open 01-03", "Own 01-10"]);
        assert_eq!(due(&world, &head, "2026-01-11", 7).await, ["Open 01-02", "Own 01-11"]);
    }

    #[tokio::test]
    async fn a_day_that_kills_its_invocations_is_tried_last() {
        let world = World::new("permutive");
        let staged = [("0.json", vec![("t", 1)])];
        for expected in [["Open 01-14", "Own 01-15"], ["Own 01-15", "Deadly 01-14"]] {
            // The process ends while it makes its first file.
            world.customer.die_on(1, crate::store::memory::Fault::Before);
            world.invoke("a", "2026-01-14", None, &staged).await.unwrap_err();
            world.customer.heal();
            let head = world.head();
            assert_eq!(due(&world, &head, "2026-01-15", 7).await, expected);
        }
    }
}
