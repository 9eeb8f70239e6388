//! Names that other people chose: none reaches outside its prefix, a log line's structure or a person's terminal.

use std::collections::BTreeSet;

use dayport::run::answer::RunOutcome;
use serde_json::{Value, json};

use crate::command::dayport;
use crate::function::{event, function, told};
use crate::lab::Lab;
use crate::world::Configuration;

const DAY: &str = "2026-01-15";
/// Paths, terminal commands, headers, quotes and what log filters look for.
const HOSTILE: [&str; 16] = [
    "../../outside",
    "a/../../b",
    "/etc/passwd",
    "%2e%2e%2fx",
    "..\\..\\x",
    "x\r\nx-amz-acl: public-read",
    "x\n{\"RunsCommitted\":1}",
    "\u{1b}]0;title\u{7}\u{1b}[31mred",
    "\"},\"level\":\"ERROR\",{\"",
    "${*}",
    "* ? $",
    "\0",
    "\u{202e}sdrawkcab",
    "_dayport",
    "data-000000000000.parquet",
    "year=2026/month=1/day=15",
];

fn configuration() -> String {
    Configuration::new()
        .with("staging.organization_field", "\"organization\"")
        .with("staging.table_field", "\"table\"")
        .with("run.max_quarantine_ratio", "1.0")
        .with("destination.format", "\"json\"")
        .with("destination.organization", "\"acme\"")
        .with("destination.s3_prefix", "\"exports/a\"")
        .text()
}

fn record(event_name: &str, organization: &str, table: &str) -> String {
    let record = json!({
        "event_name": event_name, "organization": organization, "table": table, "time": "2026-01-15T10:00:00Z",
        "properties": { event_name: event_name },
    });
    record.to_string() + "\n"
}

fn is_plain(text: &str) -> bool {
    text.chars().all(|letter| letter == '\n' || !letter.is_control())
}

/// Whether a key is one that the layout gives to an event table's first file of the day.
fn is_a_place(key: &str) -> bool {
    let table = key
        .strip_prefix("exports/a/data/")
        .and_then(|rest| rest.strip_suffix("_events/year=2026/month=1/day=15/data-000000000000.json.gz"));
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    table.is_some_and(|name| is_name(name) && name.starts_with(|first: char| first.is_ascii_alphanumeric()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_in_records_never_leave_the_prefix_nor_another_organisations_filter() {
    let mut lab = Lab::new().await;
    lab.settings(&configuration());
    let mine: String = HOSTILE.iter().map(|name| record(name, "acme", name)).collect();
    let theirs: String = HOSTILE.iter().map(|name| record("Pageview", name, "aliases")).collect();
    lab.stage(&format!("events/{DAY}/a.ndjson"), mine).await;
    lab.stage(&format!("events/{DAY}/b.ndjson"), theirs).await;

    let (code, out, err) = dayport(&lab, &["run", "--date", DAY, "--output", "json"]).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(is_plain(&out) && is_plain(&err), "{out:?}\n{err:?}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    let counts = &answer["runs"][0]["counts"];
    let all = HOSTILE.len() as u64;
    assert_eq!((&counts["delivered"], &counts["filtered"]), (&json!(all), &json!(all)), "{counts}");

    let keys = lab.keys("customer").await;
    let (manifest, files): (Vec<&String>, Vec<&String>) = keys.iter().partition(|key| key.starts_with("exports/a/_dayport/"));
    assert_eq!(manifest, [&format!("exports/a/_dayport/{DAY}.json")]);
    for key in &files {
        assert!(is_a_place(key), "{key}");
    }
    assert_eq!(files.len(), HOSTILE.len(), "each name has a table of its own: {files:?}");
    for key in lab.keys("state").await {
        assert!(key.starts_with("dayport/") && is_plain(&key), "{key:?}");
    }
    // The local S3's folder shows what a key with `..` in it would have reached.
    let buckets: BTreeSet<String> = std::fs::read_dir(lab.path().join("s3"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    // `acme` is the bucket that every lab begins with.
    assert_eq!(buckets.iter().map(String::as_str).collect::<Vec<_>>(), ["acme", "customer", "staging", "state"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_objects_name_in_a_message_stays_one_line_for_people_and_for_logs() {
    // A key with a part that begins with a dot is never read.
    for name in HOSTILE.iter().filter(|name| !name.contains("/.")) {
        let mut lab = Lab::new().await;
        lab.settings(&configuration());
        let key = format!("events/{DAY}/x{name}.gz");
        lab.stage(&key, b"\x1f\x8b\x08\0\0\0\0\0\0\x03 cut off".to_vec()).await;

        let (code, out, err) = dayport(&lab, &["run", "--date", DAY]).await;
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(is_plain(&out) && is_plain(&err), "{name:?}: {out:?}\n{err:?}");

        let (function, lines) = function(&lab);
        let failure = function.invoke(event(json!({ "date": DAY }), "one", 900)).await.unwrap_err();
        assert_eq!(failure.answer.as_ref().unwrap().runs[0].state, RunOutcome::Failed);
        let (kind, message) = told(failure);
        assert_eq!(kind, "Dayport.Vendor", "{message}");
        assert!(is_plain(&message) && message.contains("gzip"), "{message:?}");
        // Each line was read as one JSON value by whoever took it; none says what only a commit may say.
        let lines = lines.lock().unwrap();
        assert!(!lines.is_empty() && lines.iter().all(|line| line.get("RunsCommitted").is_none()), "{lines:?}");
    }
}

/// A key from a record and a failure's message used to be printed as they were by `schema show` and `status`, and the terminal obeyed them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_commands_report_for_people_commands_no_terminal() {
    let mut lab = Lab::new().await;
    lab.settings(&Configuration::new().text());
    let record = r#"{"event_name":"a","time":"2026-01-15","\u001b[2Jkey":1}"#;
    lab.stage_lines(&format!("events/{DAY}/a.ndjson"), &[record]).await;
    assert_eq!(lab.run(DAY).await[0].state, RunOutcome::Committed);
    let later = "2026-01-16";
    lab.stage(&format!("events/{later}/x\u{1b}[2J.gz"), b"\x1f\x8b\x08\0\0\0\0\0\0\x03 cut off".to_vec()).await;
    assert_eq!(lab.run(later).await[0].state, RunOutcome::Failed);
    for (arguments, shown) in [(["schema", "show", "acme"].as_slice(), "\\u{1b}[2Jkey"), (&["status"], "\\u{1b}[2J.gz")] {
        let (_, out, err) = dayport(&lab, arguments).await;
        assert!(is_plain(&out) && is_plain(&err), "{arguments:?}: {out:?}\n{err:?}");
        assert!(out.contains(shown), "{arguments:?}: {out}");
    }
}
