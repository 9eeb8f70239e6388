//! The Lambda function in process: the answer of each kind of event, and what it logs.

use std::sync::{Arc, Mutex};

use dayport::handler::{Failure, Function, now_millis};
use dayport::run::answer::RunOutcome;
use lambda_runtime::{Context, Diagnostic, LambdaEvent};
use serde_json::{Value, json};

use crate::lab::{CONFIGURATION, Lab};

const EVENT: &str = r#"{"event_name":"Pageview","time":"2026-01-15T10:00:00Z","event_id":"e1"}"#;

/// The function over a lab, and the lines that it logs.
pub(crate) fn function(lab: &Lab) -> (Function, Arc<Mutex<Vec<Value>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let write = move |line: &str| {
        assert!(!line.contains('\n'), "{line}");
        log.lock().unwrap().push(serde_json::from_str(line).unwrap());
    };
    (Function::new(lab.environment(), lab.clients().clone(), write), lines)
}

/// An event as Lambda hands it over, `seconds` before the deadline.
pub(crate) fn event(payload: Value, id: &str, seconds: i64) -> LambdaEvent<Value> {
    let mut context = Context::default();
    id.clone_into(&mut context.request_id);
    context.deadline = u64::try_from(now_millis() + seconds * 1000).unwrap();
    LambdaEvent::new(payload, context)
}

pub(crate) fn told(failure: Failure) -> (String, String) {
    let diagnostic = Diagnostic::from(failure);
    assert!(!diagnostic.error_message.contains('\n'), "{}", diagnostic.error_message);
    (diagnostic.error_type, diagnostic.error_message)
}

#[tokio::test]
async fn a_commit_is_logged_once_and_a_second_trigger_changes_nothing() {
    let lab = Lab::new().await;
    lab.stage_lines("events/2026-01-15/a.ndjson", &[EVENT]).await;
    let (function, lines) = function(&lab);
    let payload = json!({"time": "2026-01-16T03:00:00Z"});

    let answer = function.invoke(event(payload.clone(), "one", 900)).await.unwrap();
    assert_eq!(answer.runs.len(), 1);
    assert_eq!(answer.runs[0].state, RunOutcome::Committed);
    assert_eq!(answer.runs[0].date.to_string(), "2026-01-15");
    let landed = lab.landed("acme").await;
    assert_eq!(
        landed.keys().collect::<Vec<_>>(),
        ["_dayport/2026-01-15.json", "data/pageview_events/year=2026/month=1/day=15/data-000000000000.parquet"]
    );

    let again = function.invoke(event(payload, "two", 900)).await.unwrap();
    assert_eq!(again.runs[0].state, RunOutcome::AlreadyCommitted);
    assert_eq!(lab.landed("acme").await, landed);

    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["RunsCommitted"], 1);
    assert_eq!((&lines[0]["destination"], &lines[0]["date"]), (&json!("acme"), &json!("2026-01-15")));
}

#[tokio::test]
async fn the_same_request_id_is_the_same_re_run_and_another_is_another() {
    let lab = Lab::new().await;
    lab.stage_lines("events/2026-01-15/a.ndjson", &[EVENT]).await;
    let (function, _) = function(&lab);
    let forced = json!({"date": "2026-01-15", "force": true});
    let mut states = Vec::new();
    for (payload, id) in [(json!({"date": "2026-01-15"}), "a"), (forced.clone(), "b"), (forced.clone(), "b"), (forced, "c")] {
        states.push(function.invoke(event(payload, id, 900)).await.unwrap().runs[0].state);
    }
    use RunOutcome::{AlreadyCommitted, Committed};
    assert_eq!(states, [Committed, Committed, AlreadyCommitted, Committed]);
}

#[tokio::test]
async fn each_destination_fails_alone_and_the_whole_answer_is_one_log_line() {
    let mut lab = Lab::new().await;
    lab.settings(&format!("{CONFIGURATION}[[destination]]\nname = \"gone\"\ns3_bucket = \"gone-bucket\"\n"));
    std::fs::remove_dir(lab.bucket_folder("gone-bucket")).unwrap();
    lab.stage_lines("events/2026-01-15/a.ndjson", &[EVENT]).await;
    let (function, lines) = function(&lab);

    let failure = function.invoke(event(json!({"date": "2026-01-15"}), "one", 900)).await.unwrap_err();
    let (error_type, message) = told(failure);
    assert_eq!(error_type, "Dayport.Customer");
    assert!(
        message.starts_with("1 of 2 runs failed: gone 2026-01-15 (customer): ") && message.contains("`gone-bucket`"),
        "{message}"
    );
    assert!(!lab.landed("acme").await.is_empty(), "the other destination got its day");

    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((&lines[0]["RunsCommitted"], &lines[0]["destination"]), (&json!(1), &json!("acme")));
    assert_eq!((&lines[1]["errorType"], &lines[1]["requestId"]), (&json!("Dayport.Customer"), &json!("one")));
    let states: Vec<&Value> = lines[1]["answer"]["runs"].as_array().unwrap().iter().map(|run| &run["state"]).collect();
    assert_eq!(states, [&json!("committed"), &json!("failed")]);
}

#[tokio::test]
async fn a_configuration_that_was_mended_holds_at_once() {
    // The function used to keep what it had read in its init: a warm environment went on failing after the mistake was mended.
    let lab = Lab::new().await;
    lab.stage_lines("events/2026-01-15/a.ndjson", &[EVENT]).await;
    let (function, lines) = function(&lab);
    std::fs::write(lab.configuration_path(), CONFIGURATION.replace("[[destination]]", "nonsense = 1\n[[destination]]\nx = 2"))
        .unwrap();
    let failure = function.invoke(event(json!({"date": "2026-01-15"}), "one", 900)).await.unwrap_err();
    let (error_type, message) = told(failure);
    assert_eq!(error_type, "Dayport.Vendor");
    assert!(
        message.contains("unknown key `nonsense`") && message.contains("; ") && message.contains("unknown key `x`"),
        "{message}"
    );
    assert_eq!(lines.lock().unwrap().len(), 1);

    std::fs::write(lab.configuration_path(), CONFIGURATION).unwrap();
    let answer = function.invoke(event(json!({"date": "2026-01-15"}), "two", 900)).await.unwrap();
    assert_eq!(answer.runs[0].state, RunOutcome::Committed);
}

#[tokio::test]
async fn the_configuration_may_lie_in_a_bucket() {
    let lab = Lab::new().await;
    lab.stage_lines("events/2026-01-15/a.ndjson", &[EVENT]).await;
    let mut environment = lab.environment();
    environment.config = Some("s3://state/where/dayport.toml".to_owned());
    let function = Function::new(environment, lab.clients().clone(), |_| ());
    let failure = function.invoke(event(json!({"date": "2026-01-15"}), "one", 900)).await.unwrap_err();
    let missing = "there is no configuration at `s3://state/where/dayport.toml`, put `dayport.toml` there";
    assert_eq!(told(failure), ("Dayport.Vendor".to_owned(), missing.to_owned()));

    std::fs::create_dir(lab.bucket_folder("state").join("where")).unwrap();
    std::fs::write(lab.bucket_folder("state").join("where/dayport.toml"), CONFIGURATION).unwrap();
    let answer = function.invoke(event(json!({"date": "2026-01-15"}), "two", 900)).await.unwrap();
    assert_eq!(answer.runs[0].state, RunOutcome::Committed);
}

#[tokio::test]
async fn an_event_that_is_not_expected_is_an_error_and_never_nothing_to_do() {
    let lab = Lab::new().await;
    let (function, lines) = function(&lab);
    for payload in [json!(null), json!({}), json!({"chek": "acme"}), json!({"Records": [{"eventSource": "aws:sqs"}]})] {
        let failure = function.invoke(event(payload.clone(), "id", 900)).await.unwrap_err();
        let (error_type, message) = told(failure);
        assert_eq!(error_type, "Dayport.Vendor");
        assert!(message.contains("expected is"), "{payload}: {message}");
    }
    assert_eq!(lines.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_deadline_too_near_for_the_lease_is_refused_and_one_in_1970_is_unknown() {
    let lab = Lab::new().await;
    lab.stage_lines("events/2026-01-15/a.ndjson", &[EVENT]).await;
    let (function, _) = function(&lab);
    let payload = json!({"date": "2026-01-15"});
    let failure = function.invoke(event(payload.clone(), "id", 60)).await.unwrap_err();
    let (error_type, message) = told(failure);
    assert_eq!(error_type, "Dayport.Vendor");
    assert!(message.contains("timeout of 60s is under twice `lease` plus `deadline_margin` (70s)"), "{message}");
    assert!(lab.landed("acme").await.is_empty());

    // `cargo lambda watch` gives such a deadline.
    let mut from_watch = event(payload, "id", 0);
    from_watch.context.deadline = 600_000;
    assert_eq!(function.invoke(from_watch).await.unwrap().runs[0].state, RunOutcome::Committed);
}

#[tokio::test]
async fn a_panic_names_the_object_and_the_next_invocation_works() {
    let lab = Lab::new().await;
    lab.stage_lines("events/2026-01-15/a.ndjson", &[EVENT]).await;
    let mut environment = lab.environment();
    environment.crash_point = Some("panic_on_object=2026-01-15/a".to_owned());
    let crashing = Function::new(environment, lab.clients().clone(), |_| ());
    let failure = crashing.invoke(event(json!({"date": "2026-01-15"}), "one", 900)).await.unwrap_err();
    let (error_type, message) = told(failure);
    assert_eq!(error_type, "Dayport.Bug");
    assert!(message.contains("events/2026-01-15/a.ndjson"), "{message}");
    assert!(lab.landed("acme").await.is_empty());

    let (function, _) = function(&lab);
    let answer = function.invoke(event(json!({"date": "2026-01-15"}), "two", 900)).await.unwrap();
    assert_eq!(answer.runs[0].state, RunOutcome::Committed);
}
