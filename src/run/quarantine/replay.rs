//! Quarantined records staged once more, for their destination alone: corrected, or as they are since the settings have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::stored::{RunQuarantine, StoredRecord, read_parts};
use crate::domain::error::{Error, Result};
use crate::domain::hex::hex;
use crate::domain::replay;
use crate::domain::run::Day;
use crate::domain::settings::{Destination, Settings};
use crate::run::document::{self, FORM};
use crate::run::head::Head;
use crate::run::journal::Phase;
use crate::run::paths::Paths;
use crate::run::plan::table_folder;
use crate::store::ports::{Condition, List, Read, Write};

/// Record bytes of one object.
const OBJECT_BYTES: usize = 8 << 20;

/// What was staged once more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// The destination.
    pub destination: String,
    /// The day whose next run delivers them.
    pub into: Option<Day>,
    /// Records that were staged now.
    pub staged: u64,
    /// Records that were staged before, by an earlier call: not once more.
    pub already: u64,
    /// Records of which the quarantine has only the beginning: those can't be.
    pub partial: u64,
    /// The objects that hold them, in the state bucket.
    pub objects: Vec<String>,
}

/// The record that a line of the quarantine is of: where it was staged, whatever its bytes have become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Origin([u8; 16]);

impl Origin {
    fn of(record: &StoredRecord) -> Origin {
        let StoredRecord { object, etag, line, offset, .. } = record;
        let digest = Sha256::digest(format!("{object}\0{etag}\0{line}\0{offset}"));
        let mut first = [0; 16];
        first.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        Origin(first)
    }
}

/// Beside each object of replayed records, under a name that is never staged: whose they are. It is written first; the object is there, or
/// nothing was replayed.
#[derive(Debug, Serialize, Deserialize)]
struct Ledger {
    form: u32,
    origins: Vec<String>,
}

/// One call's work.
pub struct Replay<'a, S> {
    /// The state bucket.
    pub state: &'a S,
    /// The configuration.
    pub settings: &'a Settings,
    /// The destination.
    pub destination: &'a Destination,
    /// The run whose records are meant.
    pub run: &'a RunQuarantine,
    /// The day that is to deliver them.
    pub into: Day,
}

impl<S: List + Read + Write + Sync> Replay<'_, S> {
    /// Stages what `is_selected` says of the run's records, as they are kept.
    pub async fn selected(&self, is_selected: &(dyn Fn(&StoredRecord) -> bool + Sync)) -> Result<Replayed> {
        let mut batches = self.begin().await?;
        for part in &self.run.parts {
            let mut records = Vec::new();
            let mut visit = |_: &str, record: &StoredRecord| {
                if is_selected(record) {
                    batches.take(self, record, &mut records);
                }
                Ok(ControlFlow::Continue(()))
            };
            read_parts(self.state, std::slice::from_ref(part), &mut visit).await?;
            batches.stage(self, records).await?;
        }
        Ok(batches.replayed)
    }

    /// Stages the records of `text`, in the form of `dayport quarantine show --output json`, corrected or not.
    ///
    /// Fails (vendor) before anything is staged where a line has another form, or is no record of the run.
    pub async fn corrected(&self, text: &str) -> Result<Replayed> {
        let mut batches = self.begin().await?;
        let mut of_run = BTreeSet::new();
        let mut visit = |_: &str, record: &StoredRecord| {
            of_run.insert(Origin::of(record));
            Ok(ControlFlow::Continue(()))
        };
        read_parts(self.state, &self.run.parts, &mut visit).await?;
        let mut records = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |what: &str| {
                Error::vendor(format!(
                    "line {number} of the file {what}, write what `dayport quarantine show --output json` prints and change `text` alone"
                ))
            };
            let record = StoredRecord::parse(line).map_err(|error| wrong("can't be read").with_source(error))?;
            if record.bytes().is_none() {
                return Err(wrong("has neither `text` nor `base64`, or both"));
            }
            if !of_run.contains(&Origin::of(&record)) {
                return Err(wrong(&format!(
                    "is no quarantined record of {} {} run {}",
                    self.run.destination, self.run.date, self.run.run
                )));
            }
            batches.take(self, &record, &mut records);
        }
        batches.stage(self, records).await?;
        Ok(batches.replayed)
    }

    /// Checks that the records would land once, and finds what was staged before.
    async fn begin(&self) -> Result<Batches> {
        if self.run.state != Phase::Committed {
            return Err(Error::vendor(format!(
                "{} {} run {} is not committed: its objects are read again when the day runs, mend them or the settings and run it",
                self.run.destination, self.run.date, self.run.run
            )));
        }
        self.check_open().await?;
        let folder = replay::folder(&self.settings.state, self.destination);
        let keys: BTreeSet<String> = self.state.list_all(&folder).await?.into_iter().map(|object| object.key).collect();
        let mut known = BTreeSet::new();
        for key in &keys {
            let Some((path, name)) = key.rsplit_once('/') else { continue };
            let object =
                name.strip_prefix('_').and_then(|name| name.strip_suffix(".json")).map(|name| format!("{path}/{name}.ndjson"));
            if object.is_some_and(|object| keys.contains(&object)) {
                let ledger: Ledger = document::read_present(self.state, key).await?;
                known.extend(ledger.origins);
            }
        }
        let replayed = Replayed { destination: self.destination.name.clone(), into: Some(self.into), ..Replayed::default() };
        Ok(Batches { known, replayed })
    }

    async fn check_open(&self) -> Result<()> {
        let paths = Paths::new(&self.settings.state, self.destination);
        let head: Head = document::read_or_default(self.state, &paths.head()).await?;
        let is_taken = head.commits.contains_key(&self.into)
            || head.may_have_forgotten(self.into)
            || head.open.get(&self.into).is_some_and(|open| open.commit.is_some());
        if is_taken {
            return Err(Error::vendor(format!(
                "{} of {} is committed, name a day that is still open with `--into`, or run it again with `--force`",
                self.into, self.destination.name
            )));
        }
        Ok(())
    }
}

struct Batches {
    /// Origins that were staged before, in hex.
    known: BTreeSet<String>,
    replayed: Replayed,
}

/// A record on its way: its table's folder, its origin, its line.
type Line = (Option<String>, String, Vec<u8>);

impl Batches {
    /// Takes a record in, unless it was staged before or can't be.
    fn take<S>(&mut self, replay: &Replay<'_, S>, record: &StoredRecord, into: &mut Vec<Line>) {
        let bytes = record.bytes().unwrap_or_default();
        if record.length.is_some_and(|length| length > bytes.len() as u64) {
            self.replayed.partial += 1;
            return;
        }
        let origin = hex(&Origin::of(record).0);
        if !self.known.insert(origin.clone()) {
            self.replayed.already += 1;
            return;
        }
        let Replay { settings, destination, run, .. } = replay;
        let prefix = settings.staging.prefix_of(run.date, destination.organization.as_deref());
        let folder = table_folder(settings, destination, &prefix, &record.object).map(str::to_owned);
        // White space between tokens, if it is any: within a string neither may stand.
        let line = bytes.into_iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }).chain([b'\n']).collect();
        into.push((folder, origin, line));
    }

    /// Writes records as staged objects of the day, each table's by themselves. The same records give the same objects.
    async fn stage<S: List + Read + Write + Sync>(&mut self, replay: &Replay<'_, S>, records: Vec<Line>) -> Result<()> {
        let mut by_folder: BTreeMap<Option<String>, Vec<(String, Vec<u8>)>> = BTreeMap::new();
        for (folder, origin, line) in records {
            by_folder.entry(folder).or_default().push((origin, line));
        }
        for (folder, lines) in by_folder {
            let mut lines = lines.into_iter().peekable();
            while lines.peek().is_some() {
                let (mut origins, mut body) = (Vec::new(), Vec::new());
                while body.len() < OBJECT_BYTES
                    && let Some((origin, line)) = lines.next()
                {
                    origins.push(origin);
                    body.extend(line);
                }
                self.put(replay, folder.as_deref(), origins, body).await?;
            }
        }
        Ok(())
    }

    async fn put<S: List + Read + Write + Sync>(
        &mut self,
        replay: &Replay<'_, S>,
        folder: Option<&str>,
        origins: Vec<String>,
        body: Vec<u8>,
    ) -> Result<()> {
        let day = replay::day_folder(&replay.settings.state, replay.destination, replay.into);
        let place = folder.map_or_else(|| day.clone(), |folder| format!("{day}{folder}/"));
        let mut digest = Sha256::new();
        for origin in &origins {
            digest.update(origin);
        }
        digest.update(&body);
        let name: String = hex(&digest.finalize()).chars().take(32).collect();
        let count = origins.len() as u64;
        document::write(replay.state, &format!("{place}_{name}.json"), &Ledger { form: FORM, origins }).await?;
        let key = format!("{place}{name}.ndjson");
        replay.state.put(&key, body.into(), "application/x-ndjson", &Condition::None).await?;
        self.replayed.staged += count;
        self.replayed.objects.push(key);
        Ok(())
    }
}
