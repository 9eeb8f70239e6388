//! A sample day from memory to memory: what the pipeline costs by itself, by threads, without a local S3 on the same cores.
//!
//! `cargo bench --bench pipeline -- [RECORDS] [parquet|json]`; prints CPU and wall seconds, peak memory and sizes.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench may end at the first surprise"
)]

use std::time::Instant;

use dayport::config::{Environment, digest_of, parse};
use dayport::run::answer::RunOutcome;
use dayport::run::driver::{Asked, Progress, Rim, Stores, run_day};
use dayport::sample::{SampleSpec, write_day};
use dayport::store::memory::MemoryBucket;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let records: u64 = words.first().map_or(600_000, |text| text.parse().unwrap());
    let format = words.get(1).map_or("parquet", String::as_str);
    let rounds: usize = words.get(2).map_or(3, |text| text.parse().unwrap());
    let staging = MemoryBucket::new();
    let date = time::Date::from_calendar_date(2026, time::Month::January, 15).unwrap();
    let mut spec = SampleSpec { date, records, seed: 1, objects: 24, gzip_only: true };
    for day in ["2026-01-14", "2026-01-15"] {
        spec.seed += 1;
        let mut staged = 0;
        let totals = write_day::<std::convert::Infallible>(&spec, &mut |key, bytes| {
            staged += bytes.len();
            staging.insert(&format!("events/{day}/{key}"), bytes);
            Ok(())
        })
        .unwrap();
        println!("{day}: {:.1} MB of JSON in {:.1} MB of gzip", totals.json_bytes as f64 / 1e6, staged as f64 / 1e6);
    }
    for round in 0..rounds {
        for threads in [1, 2] {
            let text = format!(
                "[staging]\ns3_bucket = \"staging\"\n[state]\ns3_bucket = \"state\"\n[run]\nthreads = {threads}\n[event_tables]\ncolumns = {{ time = \"timestamp\" }}\n[[destination]]\nname = \"acme\"\ns3_bucket = \"customer\"\nformat = \"{format}\"\n"
            );
            let settings =
                parse(&text, &Environment { threads, temp_dir: std::env::temp_dir(), ..Environment::default() }).unwrap();
            let destination = &settings.destinations[0];
            let configuration = digest_of(destination, &settings);
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let (state, customer) = (MemoryBucket::new(), MemoryBucket::new());
            for (what, day) in [("first day", "2026-01-14"), ("ordinary day", "2026-01-15")] {
                let (wall, cpu) = (Instant::now(), cpu_seconds());
                let rim = Rim {
                    now_millis: &|| 1_768_546_800_000,
                    millis_left: &|| None,
                    on_progress: &|_: Progress| {},
                    panic_on_object: None,
                };
                let stores = Stores { staging: &staging, state: &state, customer: &customer };
                let asked = Asked { day: day.parse().unwrap(), force: None, configuration: &configuration };
                let answer = runtime.block_on(run_day(&rim, &settings, destination, stores, asked));
                assert_eq!(answer.state, RunOutcome::Committed, "{answer:?}");
                let bytes: u64 = answer.tables.iter().map(|table| table.bytes).sum();
                println!(
                    "round {round}, {threads} threads, {what}: {:.2} CPU s, {:.2} wall s, {:.1} MB out, {} rows, {} rescued, peak {} MB",
                    cpu_seconds() - cpu,
                    wall.elapsed().as_secs_f64(),
                    bytes as f64 / 1e6,
                    answer.counts.delivered,
                    answer.counts.rescued,
                    peak_kib() / 1024
                );
            }
        }
    }
}

fn stat(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn peak_kib() -> u64 {
    stat("VmHWM")
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}
