//! Days made to exhaust memory: each one ends, is counted, and stays within its budget.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::json::Json;
use crate::lab::Lab;
use crate::world::Configuration;

const DAY: &str = "2026-01-15";

/// The least that the configuration allows with two threads, and a little.
const BUDGET_MIB: u64 = 280;

/// The most memory that a run of the command line had resident, in MiB, and what it answered.
async fn run(lab: &Lab) -> (u64, String) {
    let answer = lab.path().join("answer.json");
    // A pipe would fill up, since nobody reads it before the end.
    let stdout = std::fs::File::create(&answer).unwrap();
    let mut command = lab.command(&["run", "--date", DAY, "--output", "json"]);
    let mut child = command.stdout(stdout).stderr(Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = peak.max(resident.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10));
        if child.try_wait().unwrap().is_some() {
            break;
        }
        if cpu_seconds(child.id()) > 200 {
            child.kill().unwrap();
            panic!("it does not end");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (peak, std::fs::read_to_string(&answer).unwrap())
}

/// What a process has used of processors: unlike the time on the wall, no busy machine makes it more.
fn cpu_seconds(id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap() / 100).sum()
}

/// Runs a day of one object in both formats; each must be committed, hold the balance of `read` records and stay within the budget.
async fn stays_within_its_memory(name: &str, body: &str, read: usize) {
    for format in ["\"json\"", "\"parquet\""] {
        stays_within_its_memory_as(format, name, body, read).await;
    }
}

async fn stays_within_its_memory_as(format: &str, name: &str, body: &str, read: usize) {
    let configuration = Configuration::new()
        .with("destination.format", format)
        .with("run.memory_budget", &format!("\"{BUDGET_MIB}MiB\""))
        .with("run.max_quarantine_ratio", "1.0")
        .with("run.max_tables", "200");
    let mut lab = Lab::new().await;
    lab.settings(&configuration.text());
    lab.stage(&format!("events/{DAY}/{name}"), body).await;
    let started = Instant::now();
    let (peak, answer) = run(&lab).await;
    println!("{name} {format}: {peak} MiB in {:?}", started.elapsed());
    let answer = Json::parse(&answer).unwrap_or_else(|| panic!("{name} {format}: {answer}"));
    let Some(Json::List(runs)) = answer.get("runs") else { panic!("{name}: {answer:?}") };
    let counts = runs[0].get("counts").unwrap();
    let count = |key: &str| match counts.get(key) {
        Some(Json::Number(count)) => count.parse::<usize>().unwrap(),
        other => panic!("{key}: {other:?}"),
    };
    assert_eq!(runs[0].get("state").and_then(Json::text), Some("committed"), "{name} {format}: {answer:?}");
    assert_eq!((count("read"), count("delivered") + count("quarantined")), (read, read), "{name} {format}");
    assert!(peak < BUDGET_MIB, "{name} {format} took {peak} MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_nothing_but_rejects_stays_within_its_memory() {
    let length = 128 << 10;
    for (name, filler) in [("lines", "{}\n"), ("objects", "{}"), ("numbers", "1 "), ("array", "[1,[],{}]\n")] {
        let times = length / filler.len();
        stays_within_its_memory(name, &filler.repeat(times), if name == "array" { 3 * times } else { times }).await;
    }
    stays_within_its_memory("blank", &"\n".repeat(length), 0).await;
}

/// Rejects used to be kept with their bytes, one allocation for each, and to wait without bound: this day then took all that they add up to.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_day_of_nothing_but_rejects_stays_within_its_memory() {
    stays_within_its_memory_as("\"json\"", "objects", &"{}".repeat(1 << 20), 1 << 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_odd_giants_stays_within_its_memory() {
    let head = "\"event_name\":\"a\",\"time\":1768471200";
    let keys = |from: usize, count: usize| (from..from + count).map(|n| format!(",\"key {n}\":{n}")).collect::<String>();
    let many_keys: String = (0..40).map(|n| format!("{{{head}{}}}\n", keys(n * 4_000, 4_000))).collect();
    stays_within_its_memory("many keys", &many_keys, 40).await;
    let deep = |levels: usize| format!("{{{head},\"d\":{}1{}}}\n", "{\"k\":".repeat(levels), "}".repeat(levels));
    stays_within_its_memory("deep", &(deep(200_000) + &deep(60) + &deep(10)), 3).await;
    let tables: String = (0..2_000).map(|n| format!("{{\"event_name\":\"e{n}\",\"time\":1768471200}}\n")).collect();
    stays_within_its_memory("many tables", &tables, 2_000).await;
    let numbers = format!("{{{head},\"l\":[{}1.5]}}\n", "1,".repeat(2 << 20));
    stays_within_its_memory("a long list", &numbers, 1).await;
    let text = format!("{{{head},\"t\":\"{}\"}}\n", "x".repeat(8 << 20));
    stays_within_its_memory("a long text", &text, 1).await;
    let repeats = format!("{{{head}{}}}\n", ",\"r\":1".repeat(300_000));
    stays_within_its_memory("a key again and again", &repeats, 1).await;
    let lists = format!("{{{head},\"l\":[{}]}}\n", vec!["[{\"a\":1},[]]"; 100_000].join(","));
    stays_within_its_memory("lists in lists", &lists, 1).await;
}
