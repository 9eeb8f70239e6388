//! A sample day from files to files: what the pipeline costs by itself, by threads, without a local S3 on the same cores.
//!
//! `cargo bench --bench pipeline -- [RECORDS] [parquet|json] [ROUNDS] [TYPES]`: each run is a process of its own, so that its peak memory is, too;
//! prints CPU and wall seconds, peak memory, sizes. With TYPES (say 600) event names are numbered in turn, so that there are so many.
//! Staged days are kept under the target folder.
//!
//! `cargo bench --bench pipeline -- report FOLDER [ROUNDS]` does this with a folder of staged objects, goes through it stage by stage as well, and
//! says what all cost, a line of JSON each: `peers.py` puts it into its report.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    unreachable_pub,
    reason = "a bench may end at the first surprise"
)]

mod folder;
mod stages;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use dayport::config::{Environment, digest_of, parse};
use dayport::domain::format::Format;
use dayport::domain::settings::Settings;
use dayport::run::answer::RunOutcome;
use dayport::run::driver::{Asked, Progress, Rim, Stores, run_day};
use dayport::sample::{SampleSpec, write_day};
use folder::Folder;

/// The first day, which no registry knows, and an ordinary one after it.
const DAYS: [(&str, u8); 2] = [("first day", 14), ("ordinary day", 15)];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let word = |at: usize, otherwise: &'static str| words.get(at).map_or(otherwise, String::as_str).to_owned();
    if word(0, "") == "one" {
        let day = word(5, "").parse().unwrap();
        return one(&PathBuf::from(word(1, "")), &PathBuf::from(word(2, "")), format_of(&word(3, "")), &word(4, ""), day);
    }
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    if word(0, "") == "report" {
        return report(&PathBuf::from(word(1, "")), word(2, "3").parse().unwrap(), &root);
    }
    let records: u64 = word(0, "600000").parse().unwrap();
    let (format, rounds, types): (String, usize, usize) =
        (word(1, "parquet"), word(2, "3").parse().unwrap(), word(3, "10").parse().unwrap());
    let staging = root.join(format!("staged-{records}-{types}"));
    for (_, day) in DAYS {
        stage(&staging, records, types, day);
    }
    let landed = root.join("landed");
    for round in 0..rounds {
        for threads in ["1", "2"] {
            let _ = std::fs::remove_dir_all(&landed);
            for (what, day) in DAYS {
                print!("round {round}, {threads} threads, {what}: ");
                std::io::stdout().flush().unwrap();
                let cost = run(&staging, &landed, &format, threads, day);
                let number = |key: &str| cost[key].as_f64().unwrap();
                println!(
                    "{:.2} CPU s, {:.2} wall s, peak {} MB, {:.1} MB out, {} rows, {} rescued",
                    number("cpu"),
                    number("wall"),
                    number("peak") as u64 >> 20,
                    number("bytes") / 1e6,
                    cost["rows"],
                    cost["rescued"],
                );
            }
        }
    }
}

/// Runs a day in a process of its own; what it cost.
fn run(staging: &Path, landed: &Path, format: &str, threads: &str, day: u8) -> serde_json::Value {
    let output = Command::new(std::env::current_exe().unwrap())
        .arg("one")
        .args([staging, landed])
        .args([format, threads, &day.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The costs of a folder of staged objects, as an ordinary day.
fn report(folder: &Path, rounds: usize, root: &Path) {
    let (staging, landed) = (root.join("reported"), root.join("landed"));
    let _ = std::fs::remove_dir_all(&staging);
    for (_, day) in DAYS {
        let to = staging.join(format!("events/2026-01-{day}"));
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(folder).unwrap() {
            let from = entry.unwrap().path();
            std::fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
        }
    }
    for format in ["parquet", "json"] {
        for _ in 0..rounds {
            let stages = stages::of_day(folder, format_of(format), &settings(format_of(format), "1"));
            println!(
                "{}",
                serde_json::json!({
                    "what": "stages", "format": format, "unpack": stages.unpack, "check": stages.check, "shred": stages.shred,
                    "gather": stages.gather, "encode": stages.encode, "encode_ready": stages.encode_ready, "all": stages.all(),
                    "floor": stages.floor(), "bytes": stages.bytes,
                })
            );
            for threads in ["1", "2"] {
                let _ = std::fs::remove_dir_all(&landed);
                for (what, day) in DAYS {
                    let mut cost = run(&staging, &landed, format, threads, day);
                    cost["what"] = what.into();
                    cost["format"] = format.into();
                    cost["threads"] = threads.parse::<u64>().unwrap().into();
                    println!("{cost}");
                }
            }
        }
    }
    std::fs::remove_dir_all(&staging).unwrap();
}

fn format_of(name: &str) -> Format {
    if name == "json" { Format::Json } else { Format::Parquet }
}

fn stage(staging: &Path, records: u64, types: usize, day: u8) {
    let folder = Folder::new(staging.to_owned());
    let done = staging.join(format!("done-{day}"));
    if done.exists() {
        return;
    }
    let date = time::Date::from_calendar_date(2026, time::Month::January, day).unwrap();
    let spec = SampleSpec { date, records, seed: u64::from(day), objects: 24, gzip_only: true };
    let mut staged = 0;
    let totals = write_day::<std::convert::Infallible>(&spec, &mut |key, bytes| {
        let bytes = if types > 10 { renamed(&bytes, types / 10) } else { bytes };
        staged += bytes.len();
        folder.insert(&format!("events/2026-01-{day}/{key}"), &bytes);
        Ok(())
    })
    .unwrap();
    println!("day {day}: {:.1} MB of JSON in {:.1} MB of gzip", totals.json_bytes as f64 / 1e6, staged as f64 / 1e6);
    std::fs::write(done, "").unwrap();
}

/// The same records with a number after each event's name, in turn.
fn renamed(packed: &[u8], each: usize) -> Vec<u8> {
    const FIELD: &[u8] = b"\"event_name\":\"";
    let mut lines = Vec::new();
    flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut lines).unwrap();
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    for (at, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let end = memchr::memmem::find(line, FIELD).map(|start| start + FIELD.len());
        let end = end.and_then(|start| Some(start + memchr::memchr(b'"', &line[start..])?));
        match end {
            Some(end) => {
                out.write_all(&line[..end]).unwrap();
                write!(out, "_{:03}", at % each).unwrap();
                out.write_all(&line[end..]).unwrap();
            }
            None => out.write_all(line).unwrap(),
        }
    }
    out.finish().unwrap()
}

fn settings(format: Format, threads: &str) -> Settings {
    let format = if format == Format::Json { "json" } else { "parquet" };
    let text = format!(
        "[staging]\ns3_bucket = \"staging\"\n[state]\ns3_bucket = \"state\"\n[run]\nthreads = {threads}\n[event_tables]\ncolumns = {{ time = \"timestamp\" }}\n[[destination]]\nname = \"acme\"\ns3_bucket = \"customer\"\nformat = \"{format}\"\n"
    );
    let environment = Environment { threads: threads.parse().unwrap(), temp_dir: std::env::temp_dir(), ..Environment::default() };
    parse(&text, &environment).unwrap()
}

fn one(staging: &Path, landed: &Path, format: Format, threads: &str, day: u8) {
    let settings = settings(format, threads);
    let destination = &settings.destinations[0];
    let configuration = digest_of(destination, &settings);
    let staging = Folder::new(staging.to_owned());
    let (state, customer) = (Folder::new(landed.join("state")), Folder::new(landed.join("customer")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let rim =
        Rim { now_millis: &|| 1_768_546_800_000, millis_left: &|| None, on_progress: &|_: Progress| {}, panic_on_object: None };
    let stores = Stores { staging: &staging, state: &state, customer: &customer };
    let asked = Asked { day: format!("2026-01-{day}").parse().unwrap(), force: None, configuration: &configuration };
    let answer = runtime.block_on(run_day(&rim, &settings, destination, stores, asked));
    assert_eq!(answer.state, RunOutcome::Committed, "{answer:?}");
    let bytes: u64 = answer.tables.iter().map(|table| table.bytes).sum();
    println!(
        "{}",
        serde_json::json!({
            "cpu": cpu_seconds() - cpu, "wall": wall.elapsed().as_secs_f64(), "peak": peak_kib() * 1024, "bytes": bytes,
            "rows": answer.counts.delivered, "rescued": answer.counts.rescued,
        })
    );
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}
