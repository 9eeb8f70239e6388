//! Whole days through the pipeline, against buckets in memory.

use std::collections::BTreeMap;
use std::io::Write as _;

use super::answer::{RunAnswer, RunOutcome};
use super::document;
use super::driver::{Asked, Progress, Rim, Stores, run_day};
use super::head::Head;
use super::paths::Paths;
use crate::config::{Environment, parse};
use crate::domain::settings::Settings;
use crate::store::memory::MemoryBucket;
use crate::store::ports::{Delete, List, ListUploads, Multipart, Read, Staged, Write};

/// A vendor, a state bucket and a customer, and one destination, `acme`.
pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) staging: MemoryBucket,
    pub(super) state: MemoryBucket,
    pub(super) customer: MemoryBucket,
    pub(super) now_millis: i64,
}

/// One invocation for a day.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) day: &'a str,
    pub(super) force: Option<&'a str>,
    pub(super) configuration: &'a str,
    pub(super) millis_left: &'a (dyn Fn() -> Option<u64> + Sync),
    pub(super) on_progress: &'a (dyn Fn(Progress) + Sync),
}

impl<'a> Call<'a> {
    /// Nothing but the day: no deadline, no force.
    pub(super) fn of(day: &'a str) -> Call<'a> {
        Call { day, force: None, configuration: "c", millis_left: &|| None, on_progress: &|_| {} }
    }
}

fn settings(destination: &str, more: &str) -> Settings {
    let text = format!(
        "[staging]\ns3_bucket = \"staging\"\n[state]\ns3_bucket = \"state\"\nlease = \"5s\"\n{more}\n[[destination]]\nname = \"acme\"\ns3_bucket = \"customer\"\n{destination}"
    );
    parse(&text, &Environment { threads: 2, temp_dir: std::env::temp_dir(), ..Environment::default() }).unwrap()
}

impl World {
    pub(super) fn new(destination: &str, more: &str) -> World {
        World {
            settings: settings(destination, more),
            staging: MemoryBucket::new(),
            state: MemoryBucket::new(),
            customer: MemoryBucket::new(),
            now_millis: 1_768_546_800_000,
        }
    }

    fn stage(&self, name: &str, body: &str) {
        self.stage_on("2026-01-15", name, body);
    }

    pub(super) fn stage_on(&self, day: &str, name: &str, body: &str) {
        self.staging.insert(&format!("events/{day}/{name}"), body.as_bytes().to_vec());
    }

    async fn run(&self, force: Option<&str>) -> RunAnswer {
        self.call(Call { force, ..Call::of("2026-01-15") }).await
    }

    pub(super) async fn call(&self, call: Call<'_>) -> RunAnswer {
        self.call_on(&self.staging, &self.customer, call).await
    }

    pub(super) async fn call_on<S, C>(&self, staging: &S, customer: &C, call: Call<'_>) -> RunAnswer
    where
        S: Staged + Clone + Send + Sync,
        C: Multipart + Write + Delete + List + ListUploads + Read + Send + Sync,
    {
        let Call { day, force, configuration, millis_left, on_progress } = call;
        let rim = Rim { now_millis: &|| self.now_millis, millis_left, on_progress, panic_on_object: None };
        let stores = Stores { staging, state: &self.state, customer };
        let asked = Asked { day: day.parse().unwrap(), force, configuration };
        Box::pin(run_day(&rim, &self.settings, &self.settings.destinations[0], stores, asked)).await
    }

    pub(super) fn head(&self) -> Head {
        let paths = Paths::new(&self.settings.state, &self.settings.destinations[0]);
        document::decode("head", &self.state.object(&paths.head()).unwrap()).unwrap()
    }

    pub(super) fn landed(&self) -> BTreeMap<String, Vec<u8>> {
        self.customer.objects().into_iter().map(|(key, body)| (key, body.to_vec())).collect()
    }
}

pub(super) const A: &str = r#"{"event_name":"Pageview","time":"2026-01-15T10:00:00Z","properties":{"n":1}}
{"event_name":"LinkClick","time":"2026-01-15T10:00:01Z","properties":{"u":"x"}}
{"event_name":"pageview","time":"2026-01-15T10:00:02Z","properties":{"n":2,"late":true}}
"#;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn gunzip(bytes: &[u8]) -> String {
    use std::io::Read as _;
    let mut text = String::new();
    flate2::bufread::MultiGzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_day_lands_as_json_byte_for_byte() {
    let world = World::new("format = \"json\"", "");
    world.stage("a.ndjson", A);
    world
        .staging
        .insert("events/2026-01-15/b.gz", gzip("{\"event_name\":\"Pageview\",\"time\":\"2026-01-15T11:00:00Z\",\"x\": [1.50]}"));
    world.stage("domains/d.ndjson", "{\"domain\":\"a.example\"}\n{\"domain\":\"b.example\"}");
    let answer = world.run(None).await;
    assert_eq!(answer.state, RunOutcome::Committed, "{answer:?}");
    assert_eq!((answer.counts.read, answer.counts.delivered), (6, 6));
    let landed = world.landed();
    let keys: Vec<&str> = landed.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "_dayport/2026-01-15.json",
            "data/domains/data-000000000000.json.gz",
            "data/linkclick_events/year=2026/month=1/day=15/data-000000000000.json.gz",
            "data/pageview_events/year=2026/month=1/day=15/data-000000000000.json.gz",
        ]
    );
    let lines: Vec<&str> = A.lines().collect();
    let expected =
        format!("{}\n{}\n{{\"event_name\":\"Pageview\",\"time\":\"2026-01-15T11:00:00Z\",\"x\": [1.50]}}\n", lines[0], lines[2]);
    assert_eq!(gunzip(&landed[keys[3]]), expected);
    assert!(world.customer.open_uploads().is_empty());
    let again = world.run(None).await;
    assert_eq!(again.state, RunOutcome::AlreadyCommitted);
    assert_eq!(again.counts, answer.counts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_day_lands_as_parquet_and_a_forced_run_gives_the_same_bytes() {
    let world = World::new("", "[event_tables]\ncolumns = { time = \"timestamp\" }");
    world.stage("a.ndjson", A);
    let answer = world.run(None).await;
    assert_eq!(answer.state, RunOutcome::Committed, "{answer:?}");
    let first = world.landed();
    let forced = world.run(Some("again")).await;
    assert_eq!(forced.state, RunOutcome::Committed, "{forced:?}");
    let second = world.landed();
    for (key, body) in &first {
        if key.ends_with(".parquet") {
            assert_eq!(Some(body), second.get(key), "{key}");
        }
    }
    assert_eq!(first.len(), 3);
}
