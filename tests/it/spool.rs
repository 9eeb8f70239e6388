//! A staging queue through the function: messages that are handed over, the days that they land in, what is late.

use dayport::domain::error::Kind;
use dayport::handler::{Function, Invocation, Nobody, now_millis};
use dayport::run::answer::RunOutcome;
use dayport::trigger::Request;
use lambda_runtime::{Context, LambdaEvent};
use serde_json::{Value, json};

use crate::lab::{CONFIGURATION, Lab};

const ARN: &str = "arn:aws:sqs:eu-central-1:123456789012:events";
/// 2026-01-15T10:00:00Z.
const TEN: i64 = 1_768_471_200_000;

/// The lab's configuration with a queue that triggers.
fn configuration(more: &str) -> String {
    let queue =
        "[staging]\nsqs_queue_url = \"https://sqs.eu-central-1.amazonaws.com/123456789012/events\"\nsqs_mode = \"trigger\"\n";
    CONFIGURATION.replace("[staging]\n", queue) + "format = \"json\"\n" + more
}

fn record(id: &str) -> String {
    format!(r#"{{"event_name":"Pageview","time":"2026-01-15T09:59:00Z","event_id":"{id}"}}"#)
}

fn event(arn: &str, messages: &[(&str, &str, i64)]) -> Value {
    let record = |(id, body, sent): &(&str, &str, i64)| {
        json!({
            "messageId": id, "receiptHandle": format!("r-{id}"), "body": body, "eventSource": "aws:sqs", "eventSourceARN": arn,
            "attributes": {"SentTimestamp": sent.to_string(), "ApproximateReceiveCount": "1"},
        })
    };
    json!({"Records": messages.iter().map(record).collect::<Vec<_>>()})
}

async fn take(lab: &Lab, messages: &[(&str, &str, i64)]) -> Value {
    let request = Request::from_event(&event(ARN, messages)).unwrap();
    let answer = lab.invoke(&request, &Invocation::unlimited("take"), &Nobody).await.unwrap();
    serde_json::to_value(&answer).unwrap()
}

/// The event ids that landed, in order.
async fn ids(lab: &Lab) -> Vec<String> {
    let mut ids = Vec::new();
    for (_, body) in lab.landed("acme").await.iter().filter(|(key, _)| key.ends_with(".json.gz")) {
        for line in crate::landed::json_lines(body) {
            let line: Value = serde_json::from_str(&line).unwrap();
            ids.push(line["event_id"].as_str().unwrap().to_owned());
        }
    }
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_land_with_their_days_objects_and_what_comes_after_the_commit_is_late_until_it_is_forced() {
    let mut lab = Lab::new().await;
    lab.settings(&configuration(""));
    lab.stage_lines("events/2026-01-15/a.ndjson", &[&record("staged")]).await;
    let both = format!("{}\n{}", record("b"), record("c"));
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&record("d")).unwrap()).unwrap();
    let messages =
        [("1", record("a"), TEN), ("2", both, TEN + 1), ("3", pretty, TEN + 2), ("4", record("next"), TEN + 86_400_000)];
    let messages: Vec<(&str, &str, i64)> = messages.iter().map(|(id, body, sent)| (*id, body.as_str(), *sent)).collect();
    assert_eq!(take(&lab, &messages).await, json!({"batchItemFailures": []}));
    assert_eq!(take(&lab, &messages[1..3]).await, json!({"batchItemFailures": []}), "delivered twice");
    let run = lab.run("2026-01-15").await.remove(0);
    assert_eq!((run.state, run.counts.delivered, run.counts.quarantined), (RunOutcome::Committed, 5, 0), "{run:?}");
    assert_eq!(ids(&lab).await, ["a", "b", "c", "d", "staged"]);

    // One more for the day that is committed, and one that was taken already.
    let late = record("late");
    assert_eq!(take(&lab, &[("5", &late, TEN + 3), messages[0]]).await, json!({"batchItemFailures": []}));
    assert_eq!(lab.run("2026-01-15").await[0].state, RunOutcome::AlreadyCommitted);
    let next = lab.run("2026-01-16").await.remove(0);
    assert_eq!((next.state, next.counts.delivered), (RunOutcome::Committed, 1));
    assert!(next.notes.iter().any(|note| note.starts_with("1 staged object") && note.contains("2026-01-15")), "{:?}", next.notes);
    let forced = lab.force("2026-01-15").await.remove(0);
    assert_eq!(forced.counts.delivered, 6);
    assert_eq!(ids(&lab).await, ["a", "b", "c", "d", "late", "next", "staged"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_destination_reads_the_messages_of_its_own_organisation_alone() {
    let mut lab = Lab::new().await;
    let globex = "organization = \"acme\"\n[[destination]]\nname = \"globex\"\ns3_bucket = \"globex\"\norganization = \"globex\"\nformat = \"json\"\n";
    let text = configuration(globex).replace("[staging]\n", "[staging]\norganization_field = \"org\"\n");
    lab.settings(&text);
    let of = |org: &str| format!(r#"{{"event_name":"Pageview","time":"2026-01-15T09:59:00Z","event_id":"{org}","org":"{org}"}}"#);
    let (acme, globex) = (of("acme"), of("globex"));
    take(&lab, &[("1", &acme, TEN), ("2", &globex, TEN)]).await;
    for run in lab.run("2026-01-15").await {
        assert_eq!((run.counts.delivered, run.counts.filtered), (1, 1), "{}", run.destination);
    }
    assert_eq!(ids(&lab).await, ["acme"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_message_can_be_made_durable_the_invocation_fails_and_all_come_again() {
    let mut lab = Lab::new().await;
    lab.settings(&configuration(""));
    std::fs::remove_dir(lab.bucket_folder("state")).unwrap();
    let (one, other) = (record("a"), record("b"));
    let request = Request::from_event(&event(ARN, &[("x", &one, TEN), ("y", &other, TEN + 86_400_000)])).unwrap();
    let failure = lab.invoke(&request, &Invocation::unlimited("all"), &Nobody).await.unwrap_err();
    assert_eq!(failure.error.kind(), Kind::Vendor);
    let said = failure.error.message();
    assert!(said.starts_with("2 of 2 messages could not be spooled and will come again: ") && said.contains("`state`"), "{said}");
    assert!(failure.answer.is_none());
}

#[tokio::test]
async fn the_function_answers_its_queue_and_refuses_another() {
    let mut lab = Lab::new().await;
    lab.settings(&configuration(""));
    let function = Function::new(lab.environment(), lab.clients().clone(), |_| ());
    let call = |payload: Value| {
        let mut context = Context::default();
        context.request_id = "one".to_owned();
        // Too short for a run's lease, and enough for messages.
        context.deadline = u64::try_from(now_millis() + 9_000).unwrap();
        function.invoke(LambdaEvent::new(payload, context))
    };
    let hostile = "m\"}],\"batchItemFailures\":[{\"itemIdentifier\":\"x";
    let answer = call(event(ARN, &[(hostile, "\u{7f}not json\n\"RunsCommitted\":1", TEN)])).await.unwrap();
    assert_eq!(serde_json::to_string(&answer).unwrap(), r#"{"batchItemFailures":[]}"#, "quarantined, and not given back");
    let keys = lab.keys("state").await;
    assert_eq!(keys.len(), 1);
    assert!(keys[0].starts_with("dayport/spool/events/quarantine/2026-01-15/"), "{keys:?}");
    let other = "arn:aws:sqs:eu-central-1:123456789012:other\nqueue";
    let failure = call(event(other, &[("1", &record("a"), TEN)])).await.unwrap_err();
    assert!(failure.error.message().contains("`arn:aws:sqs:eu-central-1:123456789012:other\\nqueue`"), "{:?}", failure.error);
}
