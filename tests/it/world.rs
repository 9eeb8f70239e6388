//! A vendor, a state bucket and a customer, in memory, and whole days between them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dayport::config::{Environment, parse};
use dayport::domain::settings::Settings;
use dayport::domain::table::TableName;
use dayport::run::answer::{RunAnswer, RunOutcome};
use dayport::run::driver::{Asked, Progress, Rim, Stores, run_day};
use dayport::run::manifest::Manifest;
use dayport::store::memory::MemoryBucket;

use crate::equality::{Column, tree};
use crate::json::Json;
use crate::landed::{Row, json_lines, parquet_rows};

/// The configuration of a test: what is not set has its default.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    keys: BTreeMap<String, BTreeMap<String, String>>,
    more: String,
}

impl Configuration {
    pub fn new() -> Configuration {
        let buckets = [("staging.s3_bucket", "\"staging\""), ("state.s3_bucket", "\"state\""), ("state.lease", "\"5s\"")];
        let destination = [("destination.name", "\"acme\""), ("destination.s3_bucket", "\"customer\"")];
        buckets.into_iter().chain(destination).fold(Configuration::default(), |all, (key, value)| all.with(key, value))
    }

    /// Sets `section.key` to a value in TOML.
    pub fn with(mut self, key: &str, value: &str) -> Configuration {
        let (section, name) = key.split_once('.').unwrap();
        self.keys.entry(section.to_owned()).or_default().insert(name.to_owned(), value.to_owned());
        self
    }

    /// Adds sections as they are.
    pub fn with_sections(mut self, text: &str) -> Configuration {
        self.more.push_str(text);
        self.more.push('\n');
        self
    }

    /// The file, as `dayport.toml`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (section, keys) in &self.keys {
            if section != "destination" {
                push_section(&mut text, &format!("[{section}]"), keys);
            }
        }
        text.push_str(&self.more);
        push_section(&mut text, "[[destination]]", &self.keys["destination"]);
        text
    }

    pub fn settings(&self) -> Settings {
        let text = self.text();
        let environment = Environment { threads: 2, temp_dir: std::env::temp_dir(), ..Environment::default() };
        parse(&text, &environment).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

fn push_section(text: &mut String, header: &str, keys: &BTreeMap<String, String>) {
    text.push_str(header);
    text.push('\n');
    for (name, value) in keys {
        text.push_str(&format!("{name} = {value}\n"));
    }
}

/// Three buckets and what runs between them.
pub struct World {
    pub settings: Settings,
    pub staging: MemoryBucket,
    pub state: MemoryBucket,
    pub customer: MemoryBucket,
    pub now_millis: i64,
}

impl World {
    pub fn new(configuration: &Configuration) -> World {
        World::with_settings(configuration.settings())
    }

    pub fn with_settings(settings: Settings) -> World {
        World {
            settings,
            staging: MemoryBucket::new(),
            state: MemoryBucket::new(),
            customer: MemoryBucket::new().with_small_parts(),
            now_millis: 1_768_546_800_000,
        }
    }

    /// Stages an object of a day.
    pub fn stage(&self, day: &str, name: &str, body: impl Into<Bytes>) {
        self.staging.insert(&format!("events/{day}/{name}"), body);
    }

    /// Runs a day.
    pub async fn run(&self, day: &str) -> RunAnswer {
        self.run_as(day, None).await
    }

    /// Runs a day again, as a trigger of that id asks.
    pub async fn run_as(&self, day: &str, force: Option<&str>) -> RunAnswer {
        self.run_watched_as(day, force, &|_| {}).await
    }

    /// Runs a day while somebody hears how far it is.
    pub async fn run_watched(&self, day: &str, on_progress: &(dyn Fn(Progress) + Sync)) -> RunAnswer {
        self.run_watched_as(day, None, on_progress).await
    }

    async fn run_watched_as(&self, day: &str, force: Option<&str>, on_progress: &(dyn Fn(Progress) + Sync)) -> RunAnswer {
        let rim = Rim { now_millis: &|| self.now_millis, millis_left: &|| None, on_progress, panic_on_object: None };
        let stores = Stores { staging: &self.staging, state: &self.state, customer: &self.customer };
        let asked = Asked { day: day.parse().unwrap(), force, configuration: "configuration" };
        run_day(&rim, &self.settings, &self.settings.destinations[0], stores, asked).await
    }

    /// Runs a day that has to be committed.
    pub async fn commit(&self, day: &str) -> RunAnswer {
        let answer = self.run(day).await;
        assert_eq!(answer.state, RunOutcome::Committed, "{answer:?}");
        assert!(self.customer.open_uploads().is_empty());
        answer
    }

    /// Runs a committed day again, by force.
    pub async fn commit_again(&self, day: &str) -> RunAnswer {
        let answer = self.run_as(day, Some("again")).await;
        assert_eq!(answer.state, RunOutcome::Committed, "{answer:?}");
        answer
    }

    /// What the customer has.
    pub fn landed(&self) -> Landed {
        Landed { objects: self.customer.objects() }
    }

    /// The lines of the quarantine, in the order of its parts.
    pub fn quarantine(&self) -> Vec<Json> {
        quarantine(&self.state.objects())
    }

    /// The staged objects that quarantined records come from.
    pub fn quarantined_objects(&self) -> BTreeSet<String> {
        self.quarantine().iter().map(|line| line.get("object").unwrap().text().unwrap().to_owned()).collect()
    }
}

/// The lines of the quarantine in a state bucket, in the order of its parts.
pub fn quarantine(state: &BTreeMap<String, Bytes>) -> Vec<Json> {
    let parts = state.iter().filter(|(key, _)| key.contains("/quarantine/"));
    parts.flat_map(|(_, body)| json_lines(body)).map(|line| Json::parse(&line).unwrap()).collect()
}

/// A customer's bucket, without a prefix.
pub struct Landed {
    pub objects: BTreeMap<String, Bytes>,
}

impl Landed {
    pub fn manifest(&self, day: &str) -> Manifest {
        let manifest = &self.objects[&format!("_dayport/{day}.json")];
        Manifest::parse(std::str::from_utf8(manifest).unwrap()).unwrap()
    }

    /// The keys of data files.
    pub fn keys(&self) -> Vec<&str> {
        self.objects.keys().map(String::as_str).filter(|key| !key.starts_with("_dayport/")).collect()
    }

    /// The files of a day, by table.
    pub fn files(&self, day: &str) -> BTreeMap<TableName, Vec<(String, Bytes)>> {
        let tables = self.manifest(day).tables.into_iter().map(|table| {
            let files = table.files.into_iter().map(|file| (file.key.clone(), self.objects[&file.key].clone()));
            (table.name, files.collect())
        });
        tables.collect()
    }

    /// The tables of a day: their columns, and their rows in the order of their files.
    pub fn rows(&self, day: &str) -> BTreeMap<TableName, (Vec<Column>, Vec<Row>)> {
        let tables = self.manifest(day).tables.into_iter().map(|table| {
            let rows = table.files.iter().flat_map(|file| {
                let rows = parquet_rows(&self.objects[&file.key]);
                assert_eq!(rows.len() as u64, file.rows, "{}", file.key);
                rows
            });
            (table.name, (tree(&table.columns), rows.collect()))
        });
        tables.collect()
    }
}
