//! Days made to exhaust memory: each one ends, is counted, and stays within its budget.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::lab::Lab;
use crate::world::Configuration;

const DAY: &str = "2026-01-15";

/// The most memory that a run of the command line had resident, in MiB, and what it answered.
async fn run(lab: &Lab) -> (u64, String) {
    let mut child = lab
        .command(&["run", "--date", DAY, "--output", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let mut peak = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = peak.max(resident.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10));
        if child.try_wait().unwrap().is_some() {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(300), "it does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let output = child.wait_with_output().unwrap();
    (peak, String::from_utf8(output.stdout).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_nothing_but_rejects_stays_within_its_memory() {
    let megabytes = 8 << 20;
    for (name, filler) in [("lines", "{}\n"), ("objects", "{}"), ("numbers", "1 "), ("words", "x\n"), ("blank", "\n")] {
        for format in ["\"json\"", "\"parquet\""] {
            let configuration = Configuration::new()
                .with("destination.format", format)
                .with("run.memory_budget", "\"280MiB\"")
                .with("run.max_quarantine_ratio", "1.0");
            let mut lab = Lab::new().await;
            lab.settings(&configuration.text());
            lab.stage(&format!("events/{DAY}/{name}"), filler.repeat(megabytes / filler.len())).await;
            let started = Instant::now();
            let (peak, answer) = run(&lab).await;
            println!("{name} {format}: {peak} MiB, {:?} {}", started.elapsed(), &answer[..answer.len().min(300)]);
        }
    }
}
