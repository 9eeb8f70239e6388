//! The quarantine as an operator meets it: listed, shown, by reason and by object, corrected and replayed.

use serde_json::Value;

use crate::command::dayport;
use crate::lab::{CONFIGURATION, Lab};

const GOOD: &str = r#"{"event_name":"Pageview","time":"2026-01-15T10:00:00Z"}"#;

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn lab_with_rejects() -> Lab {
    let mut lab = Lab::new().await;
    lab.settings(&CONFIGURATION.replace("[state]", "[run]\nmax_quarantine_records = 3\n[state]"));
    lab.stage_lines("events/2026-01-15/a.ndjson", &[GOOD, "{\"a\":", r#"{"event_name":"Pageview"}"#]).await;
    lab.stage("events/2026-01-15/b.ndjson", [b"\xff\n".as_slice(), GOOD.as_bytes(), b"\n"].concat()).await;
    lab
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_back_is_listed_and_shown_with_its_place_reason_and_bytes() {
    let lab = lab_with_rejects().await;
    let (code, out, err) = dayport(&lab, &["quarantine", "list"]).await;
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", "nothing is in quarantine\n"));
    assert_eq!(lab.run("2026-01-15").await[0].counts.quarantined, 3);

    let (code, out, err) = dayport(&lab, &["quarantine", "list"]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, "acme 2026-01-15 run 0 (committed): 3 quarantined: 1 no_time, 2 not_json\n");
    let (_, out, _) = dayport(&lab, &["quarantine", "list", "acme", "--date", "2026-01-15", "--output", "json"]).await;
    let listed = &lines(&out)[0]["runs"][0];
    assert_eq!((&listed["run"], &listed["quarantined"], &listed["reasons"]["not_json"]), (&0.into(), &3.into(), &2.into()));
    assert_eq!(listed["parts"][0], "dayport/quarantine/acme/2026-01-15/0-0/part-0.ndjson.gz");
    for days in [["--from", "2026-01-16"], ["--to", "2026-01-14"], ["--date", "2026-01-14"]] {
        let (_, out, err) = dayport(&lab, &[&["quarantine", "list"], &days[..]].concat()).await;
        assert_eq!((out.as_str(), err.as_str()), ("", "nothing is in quarantine\n"), "{days:?}");
    }

    let show = ["quarantine", "show", "acme", "--date", "2026-01-15"];
    let (code, out, err) = dayport(&lab, &show).await;
    assert_eq!(code, Some(0));
    assert_eq!(
        out,
        "events/2026-01-15/a.ndjson line 2, byte 56: not_json\n    {\"a\":\n\
         events/2026-01-15/a.ndjson line 3, byte 62: no_time\n    {\"event_name\":\"Pageview\"}\n\
         events/2026-01-15/b.ndjson line 1, byte 0: not_json\n    \u{fffd}\n"
    );
    assert_eq!(err, "3 of the 3 quarantined records of acme 2026-01-15 run 0\n");
    let (_, out, err) = dayport(&lab, &[&show[..], &["--limit", "1"]].concat()).await;
    assert_eq!(out.lines().count(), 2);
    assert!(err.contains("there are more: raise `--limit`"), "{err}");
    let (_, out, _) = dayport(&lab, &[&show[..], &["--reason", "not_json", "--output", "json"]].concat()).await;
    let found = lines(&out);
    assert_eq!((&found[0]["text"], &found[1]["base64"]), (&"{\"a\":".into(), &"/w==".into()));
    let (_, out, _) = dayport(&lab, &[&show[..], &["--object", "events/2026-01-15/a.ndjson", "--output", "json"]].concat()).await;
    assert_eq!(lines(&out).len(), 2);
    let (code, _, err) = dayport(&lab, &[&show[..], &["--run", "1"]].concat()).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("nothing of acme 2026-01-15 run 1 is in quarantine, see `dayport quarantine list`"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_failed_for_its_quarantine_names_what_led_and_can_be_looked_at() {
    let mut lab = lab_with_rejects().await;
    lab.settings(&CONFIGURATION.replace("[state]", "[run]\nmax_quarantine_records = 2\n[state]"));
    let answer = lab.run("2026-01-15").await.remove(0);
    let error = answer.error.unwrap();
    assert_eq!(error.kind, "vendor");
    for part in [
        "3 of 5 records would be quarantined",
        "`run.max_quarantine_ratio` (0.01) and `run.max_quarantine_records` (2)",
        "reasons: `not_json` (2), `no_time` (1)",
        "objects: `events/2026-01-15/a.ndjson` (2), `events/2026-01-15/b.ndjson` (1)",
        "`dayport quarantine show acme --date 2026-01-15`",
    ] {
        assert!(error.message.contains(part), "{part}: {}", error.message);
    }
    assert!(lab.keys("acme").await.is_empty(), "nothing became visible");
    let (_, out, _) = dayport(&lab, &["quarantine", "list"]).await;
    assert_eq!(out, "acme 2026-01-15 run 0 (failed): 3 quarantined: 1 no_time, 2 not_json\n");
    let (_, out, _) = dayport(&lab, &["quarantine", "show", "acme", "--date", "2026-01-15", "--output", "json"]).await;
    assert_eq!(lines(&out).len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_run_of_a_day_has_a_quarantine_of_its_own_and_the_latest_is_shown() {
    let lab = lab_with_rejects().await;
    assert_eq!(lab.run("2026-01-15").await[0].counts.quarantined, 3);
    lab.stage_lines("events/2026-01-15/b.ndjson", &[GOOD]).await;
    assert_eq!(lab.force("2026-01-15").await[0].counts.quarantined, 2);
    let (_, out, _) = dayport(&lab, &["quarantine", "list", "acme"]).await;
    assert_eq!(
        out,
        "acme 2026-01-15 run 0 (committed): 3 quarantined: 1 no_time, 2 not_json\n\
         acme 2026-01-15 run 1 (committed): 2 quarantined: 1 no_time, 1 not_json\n"
    );
    for (arguments, records) in [(&[][..], 2), (&["--run", "0"], 3)] {
        let show = ["quarantine", "show", "acme", "--date", "2026-01-15", "--output", "json"];
        let (_, out, _) = dayport(&lab, &[&show[..], arguments].concat()).await;
        assert_eq!(lines(&out).len(), records);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn corrected_records_are_replayed_once_into_an_open_day_each_to_its_table() {
    let mut lab = lab_with_rejects().await;
    lab.settings(CONFIGURATION);
    lab.stage_lines("events/2026-01-15/aliases/x.ndjson", &["{\"alias\":", r#"{"alias":"a"}"#]).await;
    assert_eq!(lab.run("2026-01-15").await[0].counts.quarantined, 4);
    let (_, out, _) = dayport(&lab, &["quarantine", "show", "acme", "--date", "2026-01-15", "--output", "json"]).await;
    // Three of the four are corrected; one of them is spread over lines now.
    let mut records = lines(&out);
    assert_eq!(records.len(), 4);
    let corrected = |record: &mut Value, text: &str| {
        record["text"] = text.into();
        record.as_object_mut().unwrap().remove("base64");
    };
    for record in &mut records {
        match (record["object"].as_str().unwrap(), record["line"].as_u64().unwrap()) {
            ("events/2026-01-15/a.ndjson", 2) => corrected(record, &GOOD.replace("{", "{\n  ")),
            ("events/2026-01-15/b.ndjson", 1) => corrected(record, GOOD),
            ("events/2026-01-15/aliases/x.ndjson", 1) => corrected(record, r#"{"alias":"b"}"#),
            _ => {}
        }
    }
    let file = lab.path().join("corrected.ndjson");
    let written = |records: &[Value]| records.iter().map(|record| format!("{record}\n")).collect::<String>();
    std::fs::write(&file, written(&records)).unwrap();
    let replay = ["quarantine", "replay", "acme", "--date", "2026-01-15", "--file", file.to_str().unwrap()];

    let (code, _, err) = dayport(&lab, &[&replay[..], &["--into", "2026-01-15"]].concat()).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("2026-01-15 of acme is committed, name a day that is still open with `--into`"), "{err}");
    let into = [&replay[..], &["--into", "2026-01-16"]].concat();
    let (code, out, err) = dayport(&lab, &into).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, "4 records are staged for acme 2026-01-16, its run delivers them\n");
    // The same again, the same without a file, and a part of them into another day: nothing is staged twice.
    let by_reason = ["quarantine", "replay", "acme", "--date", "2026-01-15", "--reason", "not_json", "--into", "2026-01-17"];
    for again in [&into[..], &by_reason[..]] {
        let (code, out, _) = dayport(&lab, again).await;
        assert_eq!(code, Some(0));
        assert!(out.starts_with("0 records are staged for acme 2026-01-1") && out.contains(" were staged before\n"), "{out}");
    }

    lab.stage_lines("events/2026-01-16/a.ndjson", &[&GOOD.replace("-15T", "-16T")]).await;
    let answer = lab.run("2026-01-16").await.remove(0);
    let counts = answer.counts;
    assert_eq!((counts.read, counts.delivered, counts.quarantined), (5, 4, 1), "{answer:?}");
    let rows = |table: &str| answer.tables.iter().find(|found| found.name.as_str() == table).unwrap().rows;
    assert_eq!((rows("pageview_events"), rows("aliases")), (3, 1));
    // What could not be delivered again is in the quarantine of that run, and of no other.
    let (_, out, _) = dayport(&lab, &["quarantine", "show", "acme", "--date", "2026-01-16", "--output", "json"]).await;
    let held = lines(&out);
    assert_eq!((held.len(), &held[0]["reason"]), (1, &"no_time".into()));
    assert!(held[0]["object"].as_str().unwrap().starts_with("dayport/spool/acme/replay/2026-01-16/"), "{}", held[0]);
    assert_eq!(lab.run("2026-01-16").await[0].counts, counts, "committed, and so it stays");

    let mut stranger = records[..1].to_vec();
    stranger[0]["line"] = 99.into();
    std::fs::write(&file, written(&stranger)).unwrap();
    let (code, _, err) = dayport(&lab, &[&replay[..], &["--into", "2026-01-18"]].concat()).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("line 1 of the file is no quarantined record of acme 2026-01-15 run 0"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_other_settings_take_are_replayed_as_they_are_and_other_destinations_do_not_see_them() {
    let two = format!("{CONFIGURATION}\n[[destination]]\nname = \"globex\"\ns3_bucket = \"globex\"\n");
    let shallow = |depth: u32| two.replace("[state]", &format!("max_depth = {depth}\n[state]"));
    let mut lab = Lab::new().await;
    lab.settings(&shallow(2));
    let deep = r#"{"event_name":"Pageview","time":"2026-01-15T10:00:00Z","p":{"q":{"r":1}}}"#;
    lab.stage_lines("events/2026-01-15/a.ndjson", &[GOOD, deep]).await;
    lab.stage_lines("events/2026-01-16/a.ndjson", &[GOOD]).await;
    let answers = lab.run("2026-01-15").await;
    assert_eq!(answers.iter().map(|answer| answer.counts.quarantined).collect::<Vec<_>>(), [1, 1]);
    lab.settings(&shallow(64));
    let replay = ["quarantine", "replay", "acme", "--date", "2026-01-15", "--into", "2026-01-16", "--output", "json"];
    let (code, out, err) = dayport(&lab, &replay).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!((&lines(&out)[0]["staged"], &lines(&out)[0]["into"]), (&1.into(), &"2026-01-16".into()));
    let answers = lab.run("2026-01-16").await;
    assert_eq!(answers.iter().map(|answer| answer.counts.delivered).collect::<Vec<_>>(), [2, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_not_committed_is_not_replayed_since_it_reads_its_objects_again() {
    let mut lab = lab_with_rejects().await;
    lab.settings(&CONFIGURATION.replace("[state]", "[run]\nmax_quarantine_records = 2\n[state]"));
    assert!(lab.run("2026-01-15").await[0].error.is_some());
    let (code, _, err) = dayport(&lab, &["quarantine", "replay", "acme", "--date", "2026-01-15", "--into", "2026-01-16"]).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("acme 2026-01-15 run 0 is not committed: its objects are read again when the day runs"), "{err}");
}
