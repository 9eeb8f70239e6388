//! `dayport schema` and `dayport ddl`: what is pinned, declared ahead, compared, restored, and how a reader's catalogue says it.

use dayport::run::answer::RunOutcome;
use serde_json::Value;

use crate::command::dayport;
use crate::inspect::{assert_golden, event};
use crate::lab::{CONFIGURATION, Lab};

const GLOBEX: &str = "[[destination]]\nname = \"globex\"\ns3_bucket = \"globex\"\nlayout = \"pontoon\"\n";

fn configuration(event_columns: &str) -> String {
    format!("{CONFIGURATION}{GLOBEX}[event_tables]\ncolumns = {{ {event_columns} }}\n")
}

async fn ask(lab: &Lab, arguments: &[&str]) -> String {
    let (code, out, err) = dayport(lab, arguments).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    out
}

async fn refused(lab: &Lab, arguments: &[&str]) -> String {
    let (code, out, err) = dayport(lab, arguments).await;
    assert_eq!((code, out.as_str()), (Some(1), ""));
    err
}

async fn land(lab: &Lab, day: &str, lines: &[String]) {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    lab.stage_lines(&format!("events/{day}/a.ndjson"), &lines).await;
    lab.stage_lines(&format!("events/{day}/domains/d.ndjson"), &[r#"{"domain":"example.org","a.b":1}"#]).await;
    for answer in lab.run(day).await {
        assert_eq!(answer.state, RunOutcome::Committed, "{:?}", answer.error);
    }
}

fn first_lines() -> Vec<String> {
    vec![
        event("Pageview", r#""n":1,"price list":[{"amount":1.5}],"order":{"by":"x"}"#),
        event("Pageview", r#""n":2,"ok":true"#),
        event("Click", r#""x":1"#),
    ]
}

async fn lab_with_a_day() -> Lab {
    let mut lab = Lab::new().await;
    lab.settings(&configuration("time = \"timestamp\""));
    land(&lab, "2026-01-15", &first_lines()).await;
    lab
}

/// `schema show` as JSON.
async fn shown(lab: &Lab, name: &str) -> Value {
    serde_json::from_str(&ask(lab, &["schema", "show", name, "--output", "json"]).await).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_are_shown_declared_ahead_and_compared() {
    let mut lab = lab_with_a_day().await;
    assert_golden("schema-show", &ask(&lab, &["schema", "show", "acme"]).await);
    let report = shown(&lab, "acme").await;
    assert_eq!(report["tables"][0]["table"], "click_events");
    assert_eq!(report["tables"][0]["columns"][0]["path"], "time");
    let err = refused(&lab, &["schema", "show", "acme", "pageview_event"]).await;
    assert_eq!(err, "error (vendor): no table `pageview_event` has a pinned schema, did you mean `pageview_events`?\n");

    let set = ["schema", "set", "acme", "pageview_events"];
    let columns = ["properties.price=double", "properties.tags=list<string>", "properties.n=int64"];
    assert_golden("schema-set", &ask(&lab, &[&set[..], &columns[..]].concat()).await);
    assert_golden("schema-set-again", &ask(&lab, &[&set[..], &columns[..]].concat()).await);
    let err = refused(&lab, &[&set[..], &["properties.n=string"][..]].concat()).await;
    assert!(err.starts_with("error (vendor): table `pageview_events`: the declared column `properties.n` can't be had: files that landed have int64 there"), "{err}");
    assert!(err.contains("declare another key, or give the destination another prefix"), "{err}");
    let err = refused(&lab, &[&set[..], &["properties.n"][..]].concat()).await;
    assert!(err.contains("column `properties.n` has no type, write it like `properties.price=double`"), "{err}");
    let err = refused(&lab, &[&set[..], &["x=integer"][..]].concat()).await;
    assert!(err.contains("did you mean `int64`?"), "{err}");

    // A string that is a literal fits the declared columns from now on.
    land(&lab, "2026-01-16", &[event("Pageview", r#""price":"9.5","n":"7","tags":["a"]"#)]).await;
    let landed = lab.landed("acme").await;
    let (_, file) = landed.iter().find(|(key, _)| key.contains("pageview_events") && key.contains("day=16")).unwrap();
    let rows = crate::landed::parquet_rows(&bytes::Bytes::from(file.clone()));
    assert_eq!(crate::landed::at(&rows[0], "properties.price"), &crate::landed::Value::Double(9.5));
    assert_eq!(crate::landed::at(&rows[0], "properties.n"), &crate::landed::Value::Int(7));

    let versions = ["schema", "diff", "acme", "pageview_events", "--from", "1", "--to", "2"];
    assert_golden("schema-diff-versions", &ask(&lab, &versions).await);
    assert_golden("schema-diff-destinations", &ask(&lab, &["schema", "diff", "acme", "--with", "globex"]).await);
    assert_golden("schema-diff-nothing", &ask(&lab, &["schema", "diff", "acme", "click_events"]).await);
    lab.settings(&configuration("time = \"timestamp\", \"properties.x\" = \"string\", \"properties.later\" = \"double\""));
    assert_golden("schema-diff-configured", &ask(&lab, &["schema", "diff", "acme"]).await);
    let out = ask(&lab, &["schema", "diff", "acme", "click_events", "--output", "json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["tables"][0]["differences"][0]["change"], "contradicted");
}

fn lose_the_state(lab: &Lab) {
    std::fs::remove_dir_all(lab.bucket_folder("state")).unwrap();
    std::fs::create_dir(lab.bucket_folder("state")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_state_is_restored_from_the_customers_bucket_and_days_go_on() {
    let lab = lab_with_a_day().await;
    land(&lab, "2026-01-16", &[event("Pageview", r#""n":1.5,"new":"x""#)]).await;
    let before = [shown(&lab, "acme").await, shown(&lab, "globex").await];
    lose_the_state(&lab);
    let err = refused(&lab, &["verify", "acme", "--date", "2026-01-15"]).await;
    assert!(err.contains("2026-01-15 is not committed to `acme`"), "{err}");

    assert_golden("schema-rebuild-dry-run", &ask(&lab, &["schema", "rebuild", "acme", "--dry-run"]).await);
    assert!(lab.keys("state").await.is_empty(), "a dry run writes nothing");
    assert_golden("schema-rebuild", &ask(&lab, &["schema", "rebuild", "acme"]).await);
    assert_golden("schema-rebuild-again", &ask(&lab, &["schema", "rebuild", "acme"]).await);
    // The other customer sends the manifests, and lets nobody read.
    let folder = lab.bucket_folder("globex").join("_dayport");
    ask(&lab, &["schema", "rebuild", "globex", "--manifests", folder.to_str().unwrap()]).await;
    for (name, before) in ["acme", "globex"].into_iter().zip(before) {
        let mut after = shown(&lab, name).await;
        for (table, before) in after["tables"].as_array_mut().unwrap().iter_mut().zip(before["tables"].as_array().unwrap()) {
            assert_eq!(table["columns"], before["columns"], "{name} {}", table["table"]);
            assert_eq!((&table["version"], &table["leaves"]), (&before["version"], &before["leaves"]));
        }
    }
    let verified = ask(&lab, &["verify", "acme", "--date", "2026-01-15"]).await;
    assert!(verified.ends_with("everything is as the manifest says\n"), "{verified}");
    for answer in lab.run("2026-01-16").await {
        assert_eq!(answer.state, RunOutcome::AlreadyCommitted, "{:?}", answer.error);
    }
    land(&lab, "2026-01-17", &first_lines()).await;
    for answer in lab.force("2026-01-15").await {
        assert_eq!(answer.state, RunOutcome::Committed, "{:?}", answer.error);
    }
    let verified = ask(&lab, &["verify", "globex", "--date", "2026-01-15"]).await;
    assert!(verified.ends_with("everything is as the manifest says\n"), "{verified}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_manifests_the_footers_restore_every_column_that_files_have() {
    let mut lab = Lab::new().await;
    lab.settings(&format!("{CONFIGURATION}manifest = false\n"));
    land(&lab, "2026-01-15", &first_lines()).await;
    land(&lab, "2026-01-16", &[event("Pageview", r#""n":1.5"#)]).await;
    let before = shown(&lab, "acme").await;
    lose_the_state(&lab);
    let out = ask(&lab, &["schema", "rebuild", "acme"]).await;
    assert!(out.contains("note: there are no manifests: which days are committed can't be known"), "{out}");
    assert!(out.contains("note: the key of column `a_b_"), "{out}");
    let after = shown(&lab, "acme").await;
    for (table, before) in after["tables"].as_array().unwrap().iter().zip(before["tables"].as_array().unwrap()) {
        let pick = |table: &Value, field: &str| -> Vec<Value> {
            table["columns"].as_array().unwrap().iter().map(|column| column[field].clone()).collect()
        };
        for field in ["path", "type", "id", "role"] {
            assert_eq!(pick(table, field), pick(before, field), "{}", table["table"]);
        }
    }
    land(&lab, "2026-01-17", &[event("Pageview", r#""n":2.5"#)]).await;
    let (left, right) = (shown(&lab, "acme").await, after);
    assert_eq!(left["tables"][2]["columns"], right["tables"][2]["columns"], "known columns are filled, none is made anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_engine_gets_its_own_words() {
    let mut lab = lab_with_a_day().await;
    let odd = event("Odd", r#""select":{"_from":1,"it's a \\ \"key\"":[true]}"#);
    land(&lab, "2026-01-16", &[odd]).await;
    for dialect in ["athena", "spark", "duckdb", "snowflake"] {
        let out = ask(&lab, &["ddl", "acme", "--dialect", dialect]).await;
        assert_golden(&format!("ddl-{dialect}"), &out);
        let out = ask(&lab, &["ddl", "globex", "click_events", "--dialect", dialect]).await;
        assert_golden(&format!("ddl-{dialect}-pontoon"), &out);
    }
    let err = refused(&lab, &["ddl", "acme", "clickevents"]).await;
    assert!(err.contains("no table `clickevents` has a pinned schema, did you mean `click_events`?"), "{err}");
    lab.settings(&format!("{CONFIGURATION}format = \"json\"\ns3_prefix = \"json\"\n"));
    assert!(refused(&lab, &["ddl", "acme"]).await.contains("no table has landed in `acme` yet"));
    lab.run("2026-01-15").await;
    for dialect in ["athena", "spark", "duckdb", "snowflake"] {
        assert_golden(&format!("ddl-{dialect}-json"), &ask(&lab, &["ddl", "acme", "--dialect", dialect]).await);
    }
}
