//! What every torture shares: days to land, seeds to repeat them by, and what must be true of a customer's bucket at every moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

use dayport::domain::run::Day;
use dayport::handler::{Failure, Invocation, Nobody, Services, handle};
use dayport::run::answer::RunAnswer;
use dayport::run::document;
use dayport::run::head::Head;
use dayport::run::journal::{FinishedFile, OpenUpload, ShardDone};
use dayport::run::manifest::Manifest;
use tokio::sync::Mutex;

use crate::lab::{Lab, STARTED, by_hand};
use crate::landed::{json_lines, parquet_rows};

/// The day that is tortured.
pub(crate) const DAY: &str = "2026-01-15";
/// The day before it, which landed in peace.
const DAY_BEFORE: &str = "2026-01-14";

/// Objects by key.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Numbers that follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xD134_2543_DE82_EF95))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of 0 to `bound` - 1.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap()
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// What kind of day it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) layout: &'static str,
    pub(crate) format: &'static str,
    /// Whether the day landed before, with more in it, and is run again by force.
    pub(crate) is_rerun: bool,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = if self.is_rerun { "a forced re-run" } else { "a first run" };
        write!(f, "{which}, {}, {}", self.layout, self.format)
    }
}

impl Kind {
    /// All eight.
    pub(crate) fn all() -> Vec<Kind> {
        let mut all = Vec::new();
        for is_rerun in [false, true] {
            for layout in ["permutive", "pontoon"] {
                for format in ["parquet", "json"] {
                    all.push(Kind { layout, format, is_rerun });
                }
            }
        }
        all
    }

    fn configuration(self) -> String {
        let Kind { layout, format, .. } = self;
        format!(
            r#"
[staging]
s3_bucket = "staging"
[state]
s3_bucket = "state"
lease = "100ms"
[run]
threads = 2
shard_size = 2000
[parquet]
row_group_size = "2KiB"
[[destination]]
name = "acme"
s3_bucket = "acme"
s3_prefix = "exports"
layout = "{layout}"
format = "{format}"
target_file_size = "1KiB"
snapshot_file_size = "1KiB"
"#
        )
    }
}

/// A day that is ready to be run, and what it must come to.
pub(crate) struct Scene {
    pub(crate) kind: Kind,
    template: Lab,
    before: Files,
    /// What an undisturbed run comes to, by the time at which its transfer starts where the layout names files by it.
    results: Mutex<BTreeMap<i64, Arc<Result>>>,
}

/// What an undisturbed run comes to.
pub(crate) struct Result {
    files: Files,
    state: Files,
    head: Head,
}

/// A moment at which no request is under way.
pub(crate) struct Moment {
    files: Files,
    head: Head,
}

/// A record that packs badly, so that small files fill up.
fn record(random: &mut Random, event: &str, more: &str) -> String {
    let noise: String = (0..6).map(|_| format!("{:016x}", random.next())).collect();
    let seconds = 1_768_435_200 + random.below(86_400);
    format!("{{\"event_name\":\"{event}\",\"time\":{seconds},\"properties\":{{\"noise\":\"{noise}\"{more}}}}}\n")
}

fn records(seed: u64, event: &str, count: usize, more: &str) -> String {
    let mut random = Random::new(seed);
    (0..count).map(|_| record(&mut random, event, more)).collect()
}

fn rows(seed: u64, count: usize) -> String {
    let mut random = Random::new(seed);
    (0..count)
        .map(|n| format!("{{\"id\":{n},\"name\":\"{:016x}{:016x}{:016x}\"}}\n", random.next(), random.next(), random.next()))
        .collect()
}

/// The day's objects, by name: six of events, one of another incremental table, a snapshot; in one of them a record that is none.
fn objects(has_more: bool) -> Vec<(&'static str, String)> {
    let few = |count: usize| if has_more { count } else { count.div_ceil(2) };
    let mut objects = vec![
        ("0.ndjson.gz", records(10, "Pageview", few(9), ",\"n\":1") + &records(11, "LinkClick", few(3), "")),
        ("1.ndjson", records(12, "Pageview", few(4), ",\"n\":2")),
        // On the day after another, only four objects are looked at for new columns, and this is none of them.
        ("2.ndjson.gz", records(13, "Pageview", few(2), ",\"seen_late\":{\"x\":1.5}") + "no record\n"),
        ("3.ndjson", records(14, "Pageview", few(5), ",\"n\":3")),
        ("5.ndjson", records(15, "pageview", few(3), ",\"n\":\"four\"")),
        ("domains/d.ndjson.gz", rows(16, few(80))),
    ];
    if has_more {
        objects.push(("4.ndjson", records(18, "VideoPlayed", 2, "")));
        objects.push(("aliases/a.ndjson", rows(19, 6)));
    }
    objects
}

/// How many records of [`objects`] land.
fn deliverable(has_more: bool) -> u64 {
    let lines: usize = objects(has_more).iter().map(|(_, text)| text.lines().count()).sum();
    lines as u64 - 1
}

impl Scene {
    pub(crate) async fn new(kind: Kind) -> Scene {
        let mut lab = Lab::new().await;
        lab.settings(&kind.configuration());
        lab.stage(&format!("events/{DAY_BEFORE}/a.ndjson"), records(1, "Pageview", 3, ",\"n\":1")).await;
        lab.stage(&format!("events/{DAY_BEFORE}/domains/d.ndjson"), rows(2, 40)).await;
        assert_eq!(lab.run(DAY_BEFORE).await[0].counts.delivered, 43);
        stage(&lab, true).await;
        if kind.is_rerun {
            let first = lab.run(DAY).await.remove(0);
            assert_eq!(first.counts.delivered, deliverable(true), "{first:?}");
            for (name, _) in objects(true) {
                lab.client().delete_object().bucket("staging").key(format!("events/{DAY}/{name}")).send().await.unwrap();
            }
            stage(&lab, false).await;
        }
        let before = lab.files("acme");
        let scene = Scene { kind, template: lab, before, results: Mutex::default() };
        let clean = scene.result(STARTED).await;
        scene.has_every_row(&clean.files);
        scene
    }

    /// A lab in which the day waits to be run.
    pub(crate) async fn lab(&self) -> Lab {
        self.template.copy().await
    }

    /// What an undisturbed run comes to whose transfer starts at `millis`.
    async fn result(&self, millis: i64) -> Arc<Result> {
        let is_named_by_time = self.kind.layout == "pontoon";
        let millis = if is_named_by_time { millis } else { STARTED };
        let mut results = self.results.lock().await;
        if let Some(known) = results.get(&millis) {
            return Arc::clone(known);
        }
        let mut lab = self.lab().await;
        lab.at(millis);
        let answer = self.invoke(&lab.services(), "clean").await.remove(0);
        assert_eq!(answer.counts.delivered, deliverable(!self.kind.is_rerun), "{answer:?}");
        let result = Arc::new(Result { files: lab.files("acme"), state: lab.files("state"), head: head(&lab) });
        results.insert(millis, Arc::clone(&result));
        result
    }

    /// One invocation for the day, in this process. Whoever asks with the same `id` asks for the same re-run.
    pub(crate) async fn invoke(&self, services: &Services, id: &str) -> Vec<RunAnswer> {
        let asked = by_hand(DAY, self.kind.is_rerun);
        match handle(services, &asked, &Invocation::unlimited(id), &Nobody).await {
            Ok(answer) | Err(Failure { answer: Some(answer), .. }) => answer.runs,
            Err(failure) => panic!("{failure:?}"),
        }
    }

    fn generation(&self) -> u32 {
        u32::from(self.kind.is_rerun)
    }

    /// Whether the day is done as the head says.
    pub(crate) fn is_done(&self, head: &Head) -> bool {
        let done = head.commits.get(&day()).is_some_and(|done| done.commit.generation == self.generation());
        done && !head.open.contains_key(&day())
    }

    /// What is wrong at a moment, if anything is.
    fn fault_at(&self, clean: &Result, moment: &Moment) -> Option<String> {
        let (before, after, files) = (&self.before, &clean.files, &moment.files);
        if self.is_done(&moment.head) {
            return (files != after).then(|| format!("the day is committed, and {}", difference(files, after)));
        }
        let open = moment.head.open.get(&day());
        if open.is_none_or(|open| open.commit.is_none()) {
            return (files != before).then(|| format!("no commit is recorded, and {}", difference(files, before)));
        }
        let has_landed = open.is_some_and(|open| open.landed);
        let manifest = format!("exports/_dayport/{DAY}.json");
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).chain(files.keys()).collect();
        for key in keys {
            let (was, will, is) = (before.get(key), after.get(key), files.get(key));
            if is != was && is != will {
                return Some(format!("`{key}` holds neither what stood there nor what the run lands there"));
            }
            if !has_landed && will.is_none() && is != was {
                return Some(format!("`{key}` was deleted before all that replaces it had landed"));
            }
            if has_landed && will.is_some() && is != will && *key != manifest {
                return Some(format!("`{key}` is missing though the head says that all have landed"));
            }
        }
        let is_told = files.get(&manifest) != before.get(&manifest);
        (is_told && files != after).then(|| format!("the day is told to be complete, and {}", difference(files, after)))
    }

    /// Everything that is wrong with the moments of a run, and with what it has come to.
    pub(crate) async fn faults(&self, lab: &Lab, moments: &[Moment]) -> Vec<String> {
        let last = Moment::of(lab);
        let millis = last.head.last_transfer.map_or(STARTED, |transfer| transfer.started_millis);
        let clean = self.result(millis).await;
        let mut faults: Vec<String> = Vec::new();
        for (number, moment) in moments.iter().enumerate() {
            faults.extend(self.fault_at(&clean, moment).map(|fault| format!("at moment {number}: {fault}")));
        }
        if last.files != clean.files {
            faults.push(format!("at the end {}", difference(&last.files, &clean.files)));
        }
        let known = |head: &Head| {
            let commits: BTreeMap<Day, u32> = head.commits.iter().map(|(day, done)| (*day, done.commit.generation)).collect();
            (commits, head.snapshots.clone(), head.registry.clone(), head.first_commit, head.open.len(), head.broken.len())
        };
        if known(&last.head) != known(&clean.head) {
            faults.push(format!("the head says {:?} and not {:?}", known(&last.head), known(&clean.head)));
        }
        if last.head.holder.is_some() {
            faults.push("the lease was not given back".to_owned());
        }
        let state = lab.files("state");
        let registry = |files: &Files| files.clone().into_iter().filter(|(key, _)| key.contains("/registry/")).collect::<Files>();
        if registry(&state) != registry(&clean.state) {
            faults.push(format!("in the registry {}", difference(&registry(&state), &registry(&clean.state))));
        }
        faults.extend(left_over(lab, &state).await);
        faults
    }

    /// The rows of the day's own files, counted by other readers than ours.
    fn has_every_row(&self, files: &Files) {
        let text = std::str::from_utf8(&files[&format!("exports/_dayport/{DAY}.json")]).unwrap();
        let manifest = Manifest::parse(text).unwrap();
        let mut landed = 0;
        for file in manifest.tables.iter().flat_map(|table| &table.files) {
            let bytes = &files[&file.key];
            let rows = match self.kind.format {
                "json" => json_lines(bytes).len(),
                _ => parquet_rows(&bytes.clone().into()).len(),
            };
            assert_eq!(rows as u64, file.rows, "{}", file.key);
            landed += file.rows;
        }
        assert_eq!(landed, deliverable(!self.kind.is_rerun));
        let several = manifest.tables.iter().filter(|table| table.files.len() > 1).count();
        assert!(several > usize::from(!self.kind.is_rerun), "{}: {several} tables have several files", self.kind);
    }
}

impl Moment {
    pub(crate) fn of(lab: &Lab) -> Moment {
        Moment { files: lab.files("acme"), head: head(lab) }
    }
}

fn day() -> Day {
    DAY.parse().unwrap()
}

async fn stage(lab: &Lab, has_more: bool) {
    for (name, text) in objects(has_more) {
        let bytes = if name.ends_with(".gz") { gzip(&text) } else { text.into_bytes() };
        lab.stage(&format!("events/{DAY}/{name}"), bytes).await;
    }
}

pub(crate) fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// The destination's head, as it lies there.
pub(crate) fn head(lab: &Lab) -> Head {
    let state = lab.files("state");
    let found = state.iter().find(|(key, _)| key.starts_with("dayport/heads/"));
    found.map_or_else(Head::new, |(key, bytes)| document::decode(key, bytes).unwrap())
}

/// Uploads that were recorded and are still open, and unrecorded ones that were given a part.
async fn left_over(lab: &Lab, state: &Files) -> Vec<String> {
    let mut recorded: BTreeSet<OpenUpload> = BTreeSet::new();
    for (key, bytes) in state {
        let name = key.rsplit('/').next().unwrap();
        if name.starts_with("open-") {
            recorded.extend(document::decode::<Vec<OpenUpload>>(key, bytes).unwrap());
        } else if name.starts_with("shard-") || name.starts_with("again-") {
            recorded.extend(document::decode::<ShardDone>(key, bytes).unwrap().files.iter().map(FinishedFile::open_upload));
        }
    }
    let client = lab.client();
    let open = client.list_multipart_uploads().bucket("acme").send().await.unwrap();
    let mut faults = Vec::new();
    for upload in open.uploads() {
        let (key, id) = (upload.key().unwrap().to_owned(), upload.upload_id().unwrap().to_owned());
        let parts = client.list_parts().bucket("acme").key(&key).upload_id(&id).send().await.unwrap().parts().len();
        if recorded.contains(&OpenUpload { key: key.clone(), id: id.clone() }) {
            faults.push(format!("the recorded upload of `{key}` was left open"));
        } else if parts > 0 {
            faults.push(format!("the upload of `{key}` was given {parts} parts before it was recorded, and left open"));
        }
    }
    faults
}

fn difference(is: &Files, should: &Files) -> String {
    let stray: Vec<&String> = is.keys().filter(|key| !should.contains_key(*key)).collect();
    let missing: Vec<&String> = should.keys().filter(|key| !is.contains_key(*key)).collect();
    let other: Vec<&String> =
        is.iter().filter(|(key, bytes)| should.get(*key).is_some_and(|all| all != *bytes)).map(|(key, _)| key).collect();
    format!("stray objects are {stray:?}, missing ones {missing:?}, and other bytes are in {other:?}")
}

/// What a seed came to.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) seeds: u64,
    pub(crate) runs: usize,
    pub(crate) kills: usize,
    pub(crate) faults: usize,
    pub(crate) violations: Vec<String>,
}

impl Tally {
    /// Whether there were seeds enough for shares to mean something; a few are run to repeat them.
    pub(crate) fn is_telling(&self) -> bool {
        self.seeds >= 30
    }
}

/// Does `work` on every item, in so many threads with a runtime each.
fn in_threads<T: Send, R: Send>(
    threads: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl AsyncFn(T) -> R + Sync,
) -> Vec<R> {
    let (items, done) = (std::sync::Mutex::new(items), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                loop {
                    let Some(item) = items.lock().unwrap().next() else { return };
                    let result = runtime.block_on(work(item));
                    done.lock().unwrap().push(result);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

/// Runs every seed, several at once, says what they came to, and fails with each violation and how to repeat it.
///
/// `TORTURE_SEEDS` says how many seeds instead of `usual`, `TORTURE_FIRST` which is the first.
pub(crate) fn each_seed(what: &str, usual: u64, threads: usize, each: impl AsyncFn(u64, &Scene) -> Tally + Sync) -> Tally {
    let number = |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse::<u64>().expect(name));
    let (first, count) = (number("TORTURE_FIRST", 1), number("TORTURE_SEEDS", usual));
    let kind_of = |seed: u64| Kind::all()[usize::try_from(seed).unwrap() % Kind::all().len()];
    let kinds: BTreeSet<Kind> = (first..first + count).map(kind_of).collect();
    let scenes = in_threads(threads, kinds.into_iter(), async |kind| (kind, Scene::new(kind).await));
    let scenes: BTreeMap<Kind, Scene> = scenes.into_iter().collect();
    let done = in_threads(threads, first..first + count, async |seed| {
        let kind = kind_of(seed);
        (seed, kind, each(seed, &scenes[&kind]).await)
    });
    let mut all = Tally { seeds: count, ..Tally::default() };
    for (seed, kind, tally) in done {
        all.runs += tally.runs;
        all.kills += tally.kills;
        all.faults += tally.faults;
        all.violations.extend(tally.violations.into_iter().map(|fault| format!("seed {seed} ({kind}): {fault}")));
    }
    println!(
        "{what}: {count} seeds from {first}, {} runs, {} kills, {} faults, {} violations",
        all.runs,
        all.kills,
        all.faults,
        all.violations.len()
    );
    assert!(all.violations.is_empty(), "{}\nrepeat one with TORTURE_FIRST=<its seed> TORTURE_SEEDS=1", all.violations.join("\n"));
    all
}
