//! The commands that look at what landed and at what is known of it: text, JSON, exit codes.

use std::collections::BTreeMap;
use std::path::Path;

use dayport::run::answer::RunOutcome;
use serde_json::Value;

use crate::command::dayport;
use crate::lab::{CONFIGURATION, Lab};

/// Compares what a command printed with `tests/golden/commands/<name>.txt`, which `BLESS=1` writes anew. Sizes and checksums, which the
/// compressor's build decides, stand there as `N` and `SUM`.
pub(crate) fn assert_golden(name: &str, printed: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/commands/{name}.txt"));
    let printed = masked(printed) + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(printed, expected, "{name} printed:\n{printed}");
}

fn masked(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let masked = words.iter().enumerate().map(|(at, word)| {
            let next = words.get(at + 1).map_or("", |next| next.trim_end_matches([',', ';']));
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            if is_number && matches!(next, "B" | "KiB" | "bytes" | "were") {
                "N"
            } else if word.starts_with('`') && word.ends_with("=`") {
                "`SUM`"
            } else {
                word
            }
        });
        masked.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn event(name: &str, properties: &str) -> String {
    format!(r#"{{"event_name":"{name}","time":"2026-01-15T10:00:00Z","properties":{{{properties}}}}}"#)
}

/// One day with two event tables and a snapshot.
async fn stage_day(lab: &Lab, day: &str) {
    let lines: Vec<String> = (0..9).map(|n| event("Pageview", &format!(r#""n":{n},"text":"{}""#, "x".repeat(n)))).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    lab.stage_lines(&format!("events/{day}/a.ndjson"), &lines).await;
    lab.stage_lines(&format!("events/{day}/b.ndjson"), &[&event("Click", r#""x":1.5"#)]).await;
    lab.stage_lines(&format!("events/{day}/domains/d.ndjson"), &[r#"{"domain":"example.org"}"#]).await;
}

async fn committed(lab: &Lab, day: &str) {
    for answer in lab.run(day).await {
        assert_eq!(answer.state, RunOutcome::Committed, "{:?}", answer.error);
    }
}

fn json(out: &str) -> Value {
    assert_eq!(out.lines().count(), 1, "{out}");
    serde_json::from_str(out).unwrap()
}

/// Takes an object away, shortens another, changes one byte of a third.
fn meddle(lab: &Lab, landed: &BTreeMap<String, Vec<u8>>, ending: &str) {
    let file = |table: &str| {
        let key = landed.keys().find(|key| key.contains(table) && key.ends_with(ending)).unwrap();
        (lab.bucket_folder("acme").join(key), landed[key].clone())
    };
    std::fs::remove_file(file("/click_events/").0).unwrap();
    let (path, mut bytes) = file("/pageview_events/");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
    let (path, mut bytes) = file("/domains/");
    bytes.pop();
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_is_verified_and_each_fault_is_named_with_its_side() {
    for (format, ending) in [("parquet", ".parquet"), ("json", ".json.gz")] {
        let mut lab = Lab::new().await;
        lab.settings(&format!("{CONFIGURATION}format = \"{format}\"\n"));
        stage_day(&lab, "2026-01-15").await;
        let verify = ["verify", "acme", "--date", "2026-01-15"];
        let (code, out, err) = dayport(&lab, &verify).await;
        assert_eq!((code, out.as_str()), (Some(1), ""));
        assert!(err.starts_with("error (vendor): 2026-01-15 is not committed to `acme` at `s3://acme/`, run it first"), "{err}");

        committed(&lab, "2026-01-15").await;
        let (code, out, err) = dayport(&lab, &verify).await;
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        assert_golden(&format!("verify-{format}"), &out);

        meddle(&lab, &lab.landed("acme").await, ending);
        std::fs::write(lab.bucket_folder("acme").join("_dayport/2026-01-15.json"), "{}").unwrap();
        let (code, out, err) = dayport(&lab, &verify).await;
        assert_eq!((code, err.as_str()), (Some(1), ""), "{out}");
        assert_golden(&format!("verify-{format}-faults"), &out);
        let (code, out, _) = dayport(&lab, &[&verify[..], &["--output", "json"]].concat()).await;
        assert_eq!(code, Some(1));
        let report = json(&out);
        assert_eq!(
            (&report["destination"], &report["date"], &report["files"]),
            (&"acme".into(), &"2026-01-15".into(), &0.into())
        );
        let faults: Vec<&str> =
            report["faults"].as_array().unwrap().iter().map(|fault| fault["fault"].as_str().unwrap()).collect();
        assert_eq!(faults, ["manifest", "missing", "size", "checksum"]);
        assert!(report["faults"].as_array().unwrap().iter().all(|fault| fault["side"] == "customer"));
        assert_eq!(report["faults"][1]["table"], "click_events");

        lab.force("2026-01-15").await;
        let (code, out, _) = dayport(&lab, &verify).await;
        assert_eq!(code, Some(0), "a forced re-run mends them: {out}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_beside_an_earlier_one_is_verified_with_it() {
    let mut lab = Lab::new().await;
    lab.settings(&format!("{CONFIGURATION}layout = \"pontoon\"\n"));
    stage_day(&lab, "2026-01-15").await;
    committed(&lab, "2026-01-15").await;
    lab.force("2026-01-15").await;
    let (code, out, _) = dayport(&lab, &["verify", "acme", "--date", "2026-01-15", "--output", "json"]).await;
    assert_eq!((code, &json(&out)["files"]), (Some(0), &6.into()), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_verifies_says_so_and_fails_on_the_customers_side_when_something_was_changed() {
    let mut lab = Lab::new().await;
    lab.settings(&format!("{CONFIGURATION}verify = true\n"));
    stage_day(&lab, "2026-01-15").await;
    let answers = lab.run("2026-01-15").await;
    assert_eq!(answers[0].state, RunOutcome::Committed);
    let note = "verified: 3 files were read again and are as they were written";
    assert_eq!(answers[0].notes.last().unwrap(), note);
    let noted = lab.keys("state").await.into_iter().find(|key| key.ends_with("/verified.json"));
    assert!(noted.is_some_and(|key| key.contains("/2026-01-15/0/")), "the journal has it");
    let again = lab.run("2026-01-15").await;
    assert_eq!((again[0].state, again[0].notes.last().unwrap().as_str()), (RunOutcome::AlreadyCommitted, note));

    lab.settings(CONFIGURATION);
    stage_day(&lab, "2026-01-16").await;
    committed(&lab, "2026-01-16").await;
    let landed = lab.landed("acme").await.into_iter().filter(|(key, _)| key.contains("day=16") || key.contains("domains"));
    meddle(&lab, &landed.collect(), ".parquet");
    lab.settings(&format!("{CONFIGURATION}verify = true\n"));
    let answers = lab.run("2026-01-16").await;
    let error = answers[0].error.as_ref().unwrap();
    assert_eq!((answers[0].state, error.kind), (RunOutcome::Failed, "customer"));
    assert!(error.message.starts_with("the day is committed, and 3 of its objects are not as they were written"), "{error:?}");
    lab.force("2026-01-16").await;
    let mended = lab.run("2026-01-16").await;
    assert_eq!(mended[0].state, RunOutcome::AlreadyCommitted, "{:?}", mended[0].error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_shows_every_day_and_what_asks_for_something_to_be_done() {
    let mut lab = Lab::new().await;
    let with_globex = format!("{CONFIGURATION}verify = true\n[[destination]]\nname = \"globex\"\ns3_bucket = \"globex\"\n");
    lab.settings(&with_globex);
    let (code, out, err) = dayport(&lab, &["status"]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_golden("status-nothing", &out);

    // The command's own clock says what is late: a day of this week.
    let today = dayport::domain::run::Day::from_epoch_micros(dayport::handler::now_millis() * 1000).unwrap();
    let (before, yesterday) = (today.plus_days(-2).to_string(), today.plus_days(-1).to_string());
    for day in [&before, &yesterday] {
        stage_day(&lab, day).await;
    }
    for answer in lab.run(&before).await {
        assert_eq!(answer.state, RunOutcome::Committed);
    }
    lab.stage_lines(&format!("events/{before}/late.ndjson"), &[&event("Pageview", "")]).await;
    // A day that fails in one of them.
    std::fs::rename(lab.bucket_folder("globex"), lab.path().join("away")).unwrap();
    lab.run(&yesterday).await;
    std::fs::rename(lab.path().join("away"), lab.bucket_folder("globex")).unwrap();
    lab.settings(&format!("{CONFIGURATION}verify = true\n"));

    let dated = |text: &str| {
        let text = text.replace(&before, "2026-01-14").replace(&yesterday, "2026-01-15");
        // Which upload was begun first is not promised.
        let (start, rest) = text.split_once("the upload of `").unwrap();
        format!("{start}the upload of `KEY`{}", rest.split_once('`').unwrap().1)
    };
    let (code, out, err) = dayport(&lab, &["status"]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_golden("status", &dated(&out));
    let (_, out, _) = dayport(&lab, &["status", "globex", "--days", "0", "--output", "json"]).await;
    let report = json(&out);
    let globex = &report["destinations"][0];
    assert_eq!(
        (&globex["destination"], &globex["configured"], &globex["held"]),
        (&"globex".into(), &"removed".into(), &false.into())
    );
    assert_eq!(globex["days"].as_array().unwrap().len(), 1, "what is not done is always shown");
    assert_eq!((&globex["days"][0]["state"], &globex["days"][0]["failure"]["kind"]), (&"failed".into(), &"customer".into()));
    let (code, _, err) = dayport(&lab, &["status", "nobody"]).await;
    assert_eq!(code, Some(1));
    assert!(err.starts_with("error (vendor): there is no destination `nobody`"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_sweeps_ends_uploads_that_nobody_knows_of_and_no_others() {
    let mut lab = Lab::new().await;
    lab.settings(&format!("{CONFIGURATION}sweep = true\n"));
    stage_day(&lab, "2026-01-15").await;
    let stray = "data/pageview_events/year=2026/month=1/day=15/data-000000000009.parquet";
    for key in [stray, "theirs/backup.bin"] {
        lab.client().create_multipart_upload().bucket("acme").key(key).send().await.unwrap();
    }
    let (code, out, err) = dayport(&lab, &["run", "--date", "2026-01-15"]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("  note: swept: 1 upload that nobody knew of was aborted\n"), "{out}");
    let left = lab.client().list_multipart_uploads().bucket("acme").send().await.unwrap();
    assert_eq!(left.uploads().iter().filter_map(|upload| upload.key()).collect::<Vec<_>>(), ["theirs/backup.bin"]);
    let (_, out, _) = dayport(&lab, &["check", "acme"]).await;
    assert!(out.contains("  sweep         ok          unfinished uploads can be listed\n"), "{out}");
}
