//! Every file in `events/` is the request that it must be, and no file is left out.

use std::collections::BTreeSet;
use std::path::Path;

use dayport::domain::run::Day;
use dayport::store::queue::Message;
use dayport::trigger::Request;

/// 2026-01-16T03:00:00Z in microseconds since 1970.
const THREE_O_CLOCK: i64 = 1_768_532_400_000_000;

fn scheduled(destination: Option<&str>) -> Request {
    Request::Scheduled { time: THREE_O_CLOCK, destination: destination.map(str::to_owned) }
}

fn days(from: &str, to: &str, destinations: &[&str], force: bool) -> Request {
    let day = |text: &str| text.parse::<Day>().unwrap();
    Request::Days { from: day(from), to: day(to), destinations: destinations.iter().map(ToString::to_string).collect(), force }
}

fn work() -> Request {
    let message = Message {
        id: "059f36b4-87a3-44ab-83d2-661975830a7d".to_owned(),
        receipt: "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a".to_owned(),
        body: r#"{"destination":"acme-parquet","date":"2026-01-15"}"#.to_owned(),
        sent_millis: 1_768_532_400_000,
        receives: 1,
    };
    Request::Messages { queue: "arn:aws:sqs:us-east-1:123456789012:dayport-work".to_owned(), messages: vec![message] }
}

fn expected() -> Vec<(&'static str, Request)> {
    let day = "2026-01-15";
    vec![
        ("check.json", Request::Check { destination: "acme-parquet".to_owned() }),
        ("date.json", days(day, day, &[], false)),
        ("destination.json", days(day, day, &["acme-parquet"], false)),
        ("destinations.json", days(day, day, &["acme-parquet", "acme-json"], false)),
        ("eventbridge-rule.json", scheduled(None)),
        ("force.json", days(day, day, &[], true)),
        ("range-force.json", days("2026-01-14", day, &["acme-parquet", "globex-json"], true)),
        ("range.json", days("2026-01-14", day, &[], false)),
        ("scheduler-destination.json", scheduled(Some("acme-parquet"))),
        ("scheduler.json", scheduled(None)),
        ("sqs-staging.json", messages()),
        ("work.json", work()),
    ]
}

/// The two messages of `sqs-staging.json`: a record, and the notification of an object.
fn messages() -> Request {
    let event: serde_json::Value = serde_json::from_str(include_str!("../../events/sqs-staging.json")).unwrap();
    let message = |at: usize, sent_millis: i64, receives: u32| {
        let text = |name: &str| event["Records"][at][name].as_str().unwrap().to_owned();
        Message { id: text("messageId"), receipt: text("receiptHandle"), body: text("body"), sent_millis, receives }
    };
    let queue = "arn:aws:sqs:eu-central-1:123456789012:dayport-staging".to_owned();
    Request::Messages { queue, messages: vec![message(0, 1_768_471_200_000, 1), message(1, 1_768_471_200_500, 2)] }
}

/// The names of the files in `events/`.
pub(crate) fn event_files() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("events");
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_event_file_is_the_request_that_it_must_be() {
    for (name, request) in expected() {
        let text = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("events").join(name)).unwrap();
        let event = serde_json::from_slice(&text).unwrap();
        assert_eq!(Request::from_event(&event).unwrap(), request, "{name}");
    }
}

#[test]
fn every_event_file_is_listed_here() {
    let listed: BTreeSet<String> = expected().into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(listed, event_files());
}

#[test]
fn the_templates_schedule_sends_what_the_function_takes() {
    let template = include_str!("../../template.yaml");
    let input = template.lines().find_map(|line| line.trim().strip_prefix("Input: ")).unwrap().trim_matches('\'');
    let filled = input.replace("<aws.scheduler.scheduled-time>", "2026-01-16T03:00:00Z");
    assert_ne!(filled, input, "the placeholder is gone from the template");
    let event = serde_json::from_str(&filled).unwrap();
    assert_eq!(Request::from_event(&event).unwrap(), scheduled(None));
}
