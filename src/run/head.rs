//! A destination's head: the one small document that decides what has happened.
//!
//! This file holds the document and its transitions, which are pure; [`super::lease`] moves them by conditional writes. The phases of a
//! day as the head knows them:
//!
//! ```text
//! begin -> open -> record_commit -> recorded -> land -> landed -> finish -> committed
//!                                      └─ bury -> dead -> begin with force -> open (a generation later)
//! ```
//!
//! - *open*: a run works on the day; nothing of it can be seen.
//! - *recorded*: the commit's whole list is fixed. From here on it is only ever rolled forward.
//! - *landed*: every upload is completed, and registry and snapshot pointers say so; what it replaces is being deleted, manifests follow.
//! - *dead*: an upload of the commit is gone for good. The files that did land stand until a forced re-run replaces them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::document::FORM;
use crate::domain::error::{Error, Result};
use crate::domain::hex::hex;
use crate::domain::run::{Day, Transfer};
use crate::domain::table::TableName;

/// How many committed days the head itself remembers; older ones are found by listing their runs.
pub const KEPT_COMMITS: usize = 400;

/// A run that is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRun {
    /// How often the day was run again: 0 the first time.
    pub generation: u32,
    /// When its transfer started; the same however often it is retried.
    pub transfer: Transfer,
    /// The ids of the triggers that forced it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forces: Vec<String>,
    /// The attempt whose commit is recorded, once it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<u32>,
    /// Whether every upload of the commit is completed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub landed: bool,
    /// Whether the commit can't be finished.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dead: bool,
}

/// Names a commit's document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRef {
    /// The run's generation.
    pub generation: u32,
    /// The attempt that recorded it.
    pub attempt: u32,
}

/// A day that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayCommit {
    /// Its latest commit.
    #[serde(flatten)]
    pub commit: CommitRef,
    /// The ids of all triggers that ever forced a run of it, so that none does so twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forces: Vec<String>,
}

/// What stands of a snapshot table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotPointer {
    /// The day of the run that landed it.
    pub day: Day,
    /// The keys of its files.
    pub files: Vec<String>,
}

/// What a day's trigger has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Nothing: the day is committed, by a forced run of the same id if one was asked for.
    AlreadyCommitted(DayCommit),
    /// A run is open: a new one, or one to go on with.
    Open(OpenRun),
    /// The recorded commit has to be rolled forward; then ask again.
    RollForward(OpenRun),
    /// The recorded commit can't be finished; only a forced re-run mends the day.
    Dead(OpenRun),
}

/// A destination's head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The document's form.
    pub form: u32,
    /// The destination's name.
    #[serde(default)]
    pub destination: String,
    /// Its bucket and prefix, `bucket/prefix/`.
    #[serde(default)]
    pub place: String,
    /// Who holds the lease: an invocation's nonce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Counts writes, so that no two have the same bytes, and so the same ETag.
    pub counter: u64,
    /// The nonce of the last write, by which a writer knows its own when the answer was lost.
    pub write: String,
    /// Runs that are not done, by day.
    #[serde(default)]
    pub open: BTreeMap<Day, OpenRun>,
    /// The latest [`KEPT_COMMITS`] committed days.
    #[serde(default)]
    pub commits: BTreeMap<Day, DayCommit>,
    /// The earliest committed day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_commit: Option<Day>,
    /// Dead commits, of which files may stand, by day.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub broken: BTreeMap<Day, Vec<CommitRef>>,
    /// What stands of each snapshot table that is replaced in place.
    #[serde(default)]
    pub snapshots: BTreeMap<TableName, SnapshotPointer>,
    /// The latest transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transfer: Option<Transfer>,
    /// The current version of each table's pinned schema.
    #[serde(default)]
    pub registry: BTreeMap<TableName, u32>,
    /// What later builds added; kept as it is.
    #[serde(flatten)]
    pub later: BTreeMap<String, serde_json::Value>,
}

impl Head {
    /// The head of a destination that never ran.
    #[must_use]
    pub fn new() -> Head {
        Head { form: FORM, ..Head::default() }
    }

    /// Opens the day's run, or says what stands in its way.
    ///
    /// `force` is the id of a trigger that asks for a re-run: the same id is the same re-run. It joins a run that is open and not yet
    /// recorded. `now_millis` is when a new run's transfer starts.
    pub fn begin(&mut self, day: Day, force: Option<&str>, now_millis: i64) -> Begun {
        let mut generation = self.commits.get(&day).map_or(0, |done| done.commit.generation + 1);
        if let Some(open) = self.open.get_mut(&day) {
            let is_new_force = force.is_some_and(|id| !open.forces.iter().any(|known| known == id));
            if open.dead && !is_new_force {
                return Begun::Dead(open.clone());
            }
            if !open.dead {
                if open.commit.is_some() {
                    return Begun::RollForward(open.clone());
                }
                let done_before =
                    |id: &str| self.commits.get(&day).is_some_and(|done| done.forces.iter().any(|known| known == id));
                open.forces.extend(force.filter(|id| is_new_force && !done_before(id)).map(str::to_owned));
                return Begun::Open(open.clone());
            }
            generation = open.generation + 1;
            let dead = CommitRef { generation: open.generation, attempt: open.commit.unwrap_or_default() };
            self.broken.entry(day).or_default().push(dead);
        } else if let Some(done) = self.commits.get(&day) {
            let asks_anew = force.is_some_and(|id| !done.forces.iter().any(|known| known == id));
            if !asks_anew {
                return Begun::AlreadyCommitted(done.clone());
            }
        }
        let transfer = Transfer::after(self.last_transfer, now_millis);
        self.last_transfer = Some(transfer);
        let forces = force.map(str::to_owned).into_iter().collect();
        let run = OpenRun { generation, transfer, forces, commit: None, landed: false, dead: false };
        self.open.insert(day, run.clone());
        Begun::Open(run)
    }

    /// Records a commit: from here on it is only rolled forward. Repeating it changes nothing.
    ///
    /// While another day's commit is recorded and has not landed, it is refused: the two could want the same registry versions.
    pub fn record_commit(&mut self, day: Day, commit: CommitRef) -> Result<()> {
        let unfinished =
            self.open.iter().find(|(other, open)| **other != day && open.commit.is_some() && !open.landed && !open.dead);
        if let Some((other, _)) = unfinished {
            return Err(Error::retryable(format!(
                "the commit of {other} is recorded and has not landed, {day} is committed after it: run {other} again"
            )));
        }
        let open = self.open_run(day)?;
        let is_repeated = open.commit == Some(commit.attempt);
        if open.generation != commit.generation || open.dead || (open.commit.is_some() && !is_repeated) {
            return Err(Error::bug(format!("a second commit of {day} was to be recorded, please report it")));
        }
        open.commit = Some(commit.attempt);
        Ok(())
    }

    /// Notes that every upload of the recorded commit is completed. Repeating it changes nothing.
    pub fn land(
        &mut self,
        day: Day,
        registry: &BTreeMap<TableName, u32>,
        snapshots: &BTreeMap<TableName, Vec<String>>,
    ) -> Result<()> {
        let open = self.open_run(day)?;
        if open.landed {
            return Ok(());
        }
        open.landed = true;
        self.raise_registry(registry);
        for (table, files) in snapshots {
            if !self.stands_later(table, day) {
                self.snapshots.insert(table.clone(), SnapshotPointer { day, files: files.clone() });
            }
        }
        Ok(())
    }

    /// Notes that the recorded commit can't be finished. Its schemas are kept all the same, since files with them may stand.
    pub fn bury(&mut self, day: Day, registry: &BTreeMap<TableName, u32>) -> Result<()> {
        self.open_run(day)?.dead = true;
        self.raise_registry(registry);
        Ok(())
    }

    /// Notes that a landed commit is done. Repeating it changes nothing.
    pub fn finish(&mut self, day: Day, commit: CommitRef) -> Result<()> {
        if self.commits.get(&day).is_some_and(|done| done.commit == commit) {
            return Ok(());
        }
        let open = self.open_run(day)?;
        if !open.landed || open.commit != Some(commit.attempt) || open.generation != commit.generation {
            return Err(Error::bug(format!("the run of {day} was to be finished before its commit landed, please report it")));
        }
        let forces = std::mem::take(&mut open.forces);
        self.open.remove(&day);
        self.broken.remove(&day);
        let done = self.commits.entry(day).or_insert_with(|| DayCommit { commit, forces: Vec::new() });
        done.commit = commit;
        done.forces.extend(forces);
        self.first_commit = Some(self.first_commit.map_or(day, |first| first.min(day)));
        while self.commits.len() > KEPT_COMMITS {
            self.commits.pop_first();
        }
        Ok(())
    }

    /// Whether a snapshot table's standing files are of a later day than `day`.
    #[must_use]
    pub fn stands_later(&self, table: &TableName, day: Day) -> bool {
        self.snapshots.get(table).is_some_and(|pointer| pointer.day > day)
    }

    /// Whether the day may have been committed though the head no longer says so.
    #[must_use]
    pub fn may_have_forgotten(&self, day: Day) -> bool {
        let is_full = self.commits.len() >= KEPT_COMMITS;
        is_full && self.commits.first_key_value().is_some_and(|(oldest, _)| day < *oldest)
    }

    /// The digest of the registry versions: an export that began under others starts over.
    #[must_use]
    pub fn registry_digest(&self) -> String {
        let mut digest = Sha256::new();
        for (table, version) in &self.registry {
            digest.update(format!("{table}\0{version}\0"));
        }
        hex(&digest.finalize())
    }

    fn raise_registry(&mut self, registry: &BTreeMap<TableName, u32>) {
        for (table, version) in registry {
            let current = self.registry.entry(table.clone()).or_default();
            *current = (*current).max(*version);
        }
    }

    fn open_run(&mut self, day: Day) -> Result<&mut OpenRun> {
        self.open.get_mut(&day).ok_or_else(|| Error::bug(format!("no run of {day} is open, please report it")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::Kind;

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    fn open(begun: Begun) -> OpenRun {
        match begun {
            Begun::Open(open) => open,
            other => panic!("{other:?}"),
        }
    }

    fn commit(head: &mut Head, of: Day) {
        let reference = CommitRef { generation: head.open[&of].generation, attempt: 0 };
        head.record_commit(of, reference).unwrap();
        head.land(of, &BTreeMap::new(), &BTreeMap::new()).unwrap();
        head.finish(of, reference).unwrap();
    }

    #[test]
    fn a_day_is_run_again_once_for_each_id_that_asks() {
        let (mut head, of) = (Head::new(), day("2026-01-15"));
        let first = open(head.begin(of, None, 1_000));
        assert_eq!(open(head.begin(of, None, 999_000)), first, "the same run, the same transfer");
        commit(&mut head, of);
        assert!(matches!(head.begin(of, None, 5_000), Begun::AlreadyCommitted(_)));
        let second = open(head.begin(of, Some("a"), 1_000));
        assert_eq!(second.generation, 1);
        assert!(second.transfer.timestamp() > first.transfer.timestamp());
        // Another request while it is open and not recorded joins it.
        assert_eq!(open(head.begin(of, Some("b"), 1_000)).forces, ["a", "b"]);
        commit(&mut head, of);
        for id in ["a", "b"] {
            assert!(matches!(head.begin(of, Some(id), 5_000), Begun::AlreadyCommitted(_)), "{id}");
        }
        assert_eq!(open(head.begin(of, Some("c"), 5_000)).generation, 2);
        // One that was served before does not join anew.
        assert_eq!(open(head.begin(of, Some("a"), 5_000)).forces, ["c"]);
    }

    #[test]
    fn a_request_that_comes_after_the_commit_was_recorded_waits_for_it_and_runs_anew() {
        let (mut head, of) = (Head::new(), day("2026-01-15"));
        open(head.begin(of, None, 1_000));
        let reference = CommitRef { generation: 0, attempt: 3 };
        head.record_commit(of, reference).unwrap();
        assert!(matches!(head.begin(of, Some("late"), 1_000), Begun::RollForward(open) if open.forces.is_empty()));
        head.land(of, &BTreeMap::new(), &BTreeMap::new()).unwrap();
        head.finish(of, reference).unwrap();
        assert_eq!(open(head.begin(of, Some("late"), 1_000)).generation, 1);
    }

    #[test]
    fn steps_can_be_repeated_and_not_skipped() {
        let (mut head, of) = (Head::new(), day("2026-01-15"));
        let reference = CommitRef { generation: 0, attempt: 1 };
        assert_eq!(head.record_commit(of, reference).unwrap_err().kind(), Kind::Bug);
        open(head.begin(of, None, 1_000));
        assert!(head.finish(of, reference).is_err());
        head.record_commit(of, reference).unwrap();
        head.record_commit(of, reference).unwrap();
        assert!(head.record_commit(of, CommitRef { generation: 0, attempt: 2 }).is_err(), "a second list for the same run");
        assert!(head.finish(of, reference).is_err(), "not landed");
        let table = TableName::parse("domains").unwrap();
        let registry = BTreeMap::from([(table.clone(), 4)]);
        let files = BTreeMap::from([(table.clone(), vec!["k".to_owned()])]);
        head.land(of, &registry, &files).unwrap();
        head.land(of, &registry, &files).unwrap();
        head.finish(of, reference).unwrap();
        let done = head.clone();
        head.finish(of, reference).unwrap();
        assert_eq!(head, done);
        assert_eq!((head.registry[&table], head.snapshots[&table].day, head.first_commit), (4, of, Some(of)));
    }

    #[test]
    fn the_head_stays_small_and_says_when_it_may_have_forgotten() {
        let mut head = Head::new();
        let first = day("2024-01-01");
        for number in 0..i64::try_from(KEPT_COMMITS).unwrap() + 50 {
            let of = first.plus_days(number);
            open(head.begin(of, None, 1_000));
            commit(&mut head, of);
        }
        assert_eq!(head.commits.len(), KEPT_COMMITS);
        assert!(head.may_have_forgotten(first) && !head.may_have_forgotten(first.plus_days(50)));
        assert_eq!(head.first_commit, Some(first));
        let bytes = super::super::document::encode(&head).unwrap();
        assert!(bytes.len() < 32 * 1024, "{} bytes", bytes.len());
    }

    #[test]
    fn what_a_later_build_added_is_kept() {
        let text = r#"{"form":1,"counter":7,"write":"x","open":{},"commits":{},"snapshots":{},"registry":{},"lamp":{"on":true}}"#;
        let head: Head = serde_json::from_str(text).unwrap();
        let value = serde_json::to_value(&head).unwrap();
        assert_eq!(value["lamp"]["on"], true);
        assert_eq!(value["counter"], 7);
    }
}
