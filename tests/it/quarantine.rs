//! The quarantine as an operator meets it: listed, shown, by reason and by object.

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
