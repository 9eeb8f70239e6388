//! The whole spool against a queue and buckets in memory: every form, redelivery, failures of every call, hostile messages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::book::{Batch, Places, Reference, Taken};
use super::drain::{Pace, drain};
use super::intake::{Intake, Report};
use super::refused::refused_messages;
use super::staged::SpooledStaging;
use crate::config::{Environment, parse};
use crate::domain::error::{Error, Kind, Result};
use crate::domain::run::Day;
use crate::domain::settings::Settings;
use crate::store::memory::queue::{MemoryQueue, QueueCall};
use crate::store::memory::{Fault, MemoryBody, MemoryBucket};
use crate::store::ports::{Body as _, Condition, List, ObjectInfo, Put, Read, Staged as _, Write};
use crate::store::queue::{MOST_AT_ONCE, Message, Receive};

/// 2026-01-15T12:00:00Z.
const NOON: i64 = 1_768_478_400_000;
const URL: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/events";
const HURRIED: Pace = Pace {
    wait: Duration::ZERO,
    visibility: Duration::from_mins(5),
    extend_every: Duration::from_millis(1),
    lanes: 2,
    most_messages: 20,
    most_bytes: 1 << 20,
    round: Duration::from_mins(1),
};

fn day(text: &str) -> Day {
    text.parse().unwrap()
}

struct World {
    settings: Settings,
    places: Places,
    staging: MemoryBucket,
    state: MemoryBucket,
    queue: MemoryQueue,
}

fn world(staging: &str, destination: &str) -> World {
    let text = format!(
        "[staging]\ns3_bucket = \"staging\"\nsqs_queue_url = \"{URL}\"\n{staging}\n[state]\ns3_bucket = \"state\"\n[[destination]]\nname = \"acme\"\ns3_bucket = \"acme-events\"\n{destination}"
    );
    let settings = parse(&text, &Environment::default()).unwrap();
    World {
        places: Places::new(&settings.state, URL),
        settings,
        staging: MemoryBucket::new(),
        state: MemoryBucket::new(),
        queue: MemoryQueue::new(NOON),
    }
}

/// A world whose notified objects say their day, and one where the message does.
fn dated() -> World {
    world("", "")
}

fn undated() -> World {
    world("s3_prefix = \"staged/\"", "")
}

impl World {
    fn intake(&self) -> Intake<'_, MemoryBucket, MemoryBucket> {
        Intake { settings: &self.settings, places: &self.places, staging: &self.staging, state: &self.state }
    }

    async fn drain(&self) -> Result<Report> {
        drain(&self.queue, &self.intake(), HURRIED, NOON + 86_400_000, &|| false).await
    }

    /// The keys that a run of the day reads, and the lines that they hold.
    async fn read(&self, of: &str) -> BTreeMap<String, Vec<String>> {
        let destination = &self.settings.destinations[0];
        let staged = SpooledStaging::new(&self.settings, destination, &self.staging, &self.state, ());
        let prefix = self.settings.staging.prefix_of(day(of), destination.organization.as_deref());
        let mut objects = staged.elsewhere(day(of), &prefix).await.unwrap();
        objects.extend(staged.list_all(&prefix).await.unwrap());
        let mut read = BTreeMap::new();
        for object in objects {
            let mut body = staged.read_from(&object.key, 0, &object.etag).await.unwrap();
            let mut bytes = Vec::new();
            while let Some(piece) = body.next().await {
                bytes.extend(piece.unwrap());
            }
            assert_eq!(bytes.len() as u64, object.size);
            let lines = String::from_utf8(bytes).unwrap();
            let lines = lines.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
            assert!(read.insert(object.key, lines).is_none(), "each object once");
        }
        read
    }

    async fn lines(&self, of: &str) -> Vec<String> {
        let mut lines: Vec<String> = self.read(of).await.into_values().flatten().collect();
        lines.sort();
        lines
    }

    fn quarantined(&self) -> Vec<serde_json::Value> {
        let objects = self.state.objects();
        let parts = objects.iter().filter(|(key, _)| key.starts_with("dayport/spool/events/quarantine/"));
        let mut lines = Vec::new();
        for (_, body) in parts {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut flate2::bufread::MultiGzDecoder::new(&body[..]), &mut text).unwrap();
            lines.extend(text.lines().map(|line| serde_json::from_str(line).unwrap()));
        }
        lines
    }
}

fn created(bucket: &str, object: &serde_json::Value) -> serde_json::Value {
    json!({"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": bucket}, "object": object}})
}

fn notification(keys: &[&str]) -> String {
    json!({"Records": keys.iter().map(|key| created("staging", &json!({"key": key}))).collect::<Vec<_>>()}).to_string()
}

#[tokio::test]
async fn every_form_is_spooled_for_its_day_and_the_hopeless_is_quarantined() {
    let world = dated();
    world.queue.insert("{\"n\":1}\n{\"n\":2}");
    world.queue.insert("[{\"n\":3},\n{\"n\":4}]");
    world.queue.insert(&notification(&[
        "events/2026-01-15/a%2Bb.json",
        "events/2026-01-14/_SUCCESS",
        "events/2026-01-13/late.json",
    ]));
    world.queue.insert(&json!({"Service": "Amazon S3", "Event": "s3:TestEvent"}).to_string());
    world.queue.insert(&notification(&["events/elsewhere/a", "events/2026-01-15/good.json"]));
    world.queue.insert("hello\nworld");
    world.queue.advance(Duration::from_hours(12));
    world.queue.insert("{\"n\":5}");
    let report = world.drain().await.unwrap();
    assert_eq!((report.messages, report.with_records, report.objects, report.ignored), (7, 3, 3, 2));
    assert_eq!(report.quarantined, BTreeMap::from([("not_records", 1), ("outside_staging", 1)]));
    let days: Vec<(String, u64)> = report.days.iter().map(|(day, count)| (day.to_string(), *count)).collect();
    assert_eq!(days, [("2026-01-13".to_owned(), 1), ("2026-01-15".to_owned(), 5), ("2026-01-16".to_owned(), 1)]);
    assert_eq!(world.queue.messages(), []);
    assert_eq!(world.lines("2026-01-15").await, ["[{\"n\":3}, {\"n\":4}]", "{\"n\":1}", "{\"n\":2}"]);
    assert_eq!(world.lines("2026-01-16").await, ["{\"n\":5}"]);
    let reasons: Vec<String> = world.quarantined().iter().map(|line| format!("{}: {}", line["reason"], line["text"])).collect();
    assert!(reasons.contains(&"\"not_records\": \"hello\\nworld\"".to_owned()), "{reasons:?}");
    assert_eq!(reasons.len(), 2);
    let all = refused_messages(&world.state, &world.places, (None, None)).await.unwrap();
    let reasons = BTreeMap::from([("not_records".to_owned(), 1), ("outside_staging".to_owned(), 1)]);
    assert_eq!((all.len(), all[0].queue.as_str(), all[0].date, all[0].quarantined), (1, "events", day("2026-01-15"), 2));
    assert_eq!((&all[0].reasons, all[0].parts.len()), (&reasons, 1));
    let later = (Some(day("2026-01-16")), None);
    assert_eq!(refused_messages(&world.state, &world.places, later).await.unwrap(), []);
}

#[tokio::test]
async fn a_listed_object_that_is_notified_too_is_read_once() {
    let world = dated();
    world.staging.insert("events/2026-01-15/a b", "{\"n\":1}\n");
    world.queue.insert(&notification(&["events/2026-01-15/a+b"]));
    world.queue.insert(&notification(&["events/2026-01-15/gone"]));
    world.drain().await.unwrap();
    assert_eq!(world.read("2026-01-15").await.into_keys().collect::<Vec<_>>(), ["events/2026-01-15/a b"]);
}

#[tokio::test]
async fn a_message_that_comes_again_in_another_batch_gives_no_second_row_and_moves_no_line() {
    let world = dated();
    let ids: Vec<String> = ["{\"n\":1}", "{\"n\":2}\n{\"n\":3}", "{\"n\":4}"].map(|body| world.queue.insert(body)).to_vec();
    world.drain().await.unwrap();
    world.queue.advance(Duration::from_secs(1));
    world.queue.insert("{\"n\":5}");
    world.queue.redeliver(&ids[1]);
    world.queue.insert("{\"n\":6}");
    world.drain().await.unwrap();
    world.queue.redeliver(&ids[2]);
    world.drain().await.unwrap();
    assert_eq!(world.queue.messages(), []);
    let expected: Vec<String> = (1..=6).map(|n| format!("{{\"n\":{n}}}")).collect();
    assert_eq!(world.lines("2026-01-15").await, expected);
    let objects = world.read("2026-01-15").await;
    assert_eq!(objects.len(), 2, "a batch of nothing but known messages is not read");
    // A read that goes on from anywhere sees the same.
    let staged = SpooledStaging::new(&world.settings, &world.settings.destinations[0], &world.staging, &world.state, ());
    for object in staged.elsewhere(day("2026-01-15"), "events/2026-01-15/").await.unwrap() {
        let kept = world.state.object(&object.key).unwrap();
        let mut whole = Vec::new();
        for offset in (0..object.size).rev() {
            let mut body = staged.read_from(&object.key, offset, &object.etag).await.unwrap();
            let rest = body.next().await.unwrap().unwrap();
            whole.insert(0, rest[0]);
            assert_eq!(rest, whole);
        }
        let ends = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count();
        assert_eq!(ends(&whole), ends(&kept), "lines keep their numbers");
    }
}

#[tokio::test]
async fn an_object_that_does_not_say_its_day_belongs_to_the_day_that_first_told_of_its_content() {
    let world = undated();
    let told = |etag: &str| json!({"Records": [created("staging", &json!({"key": "staged/a", "eTag": etag.trim_matches('"')}))]});
    let etag = |body: &'static str| {
        world.staging.insert("staged/a", body);
        let staging = world.staging.clone();
        async move { staging.list_all("staged/a").await.unwrap()[0].etag.clone() }
    };
    let first = etag("{\"n\":1}").await;
    for _ in 0..2 {
        world.queue.insert(&told(&first).to_string());
        world.drain().await.unwrap();
        world.queue.advance(Duration::from_hours(24));
    }
    assert_eq!(world.lines("2026-01-15").await, ["{\"n\":1}"]);
    assert_eq!(world.lines("2026-01-16").await, [""; 0], "told once more on the next day");
    // Before the first day was run, the object gets other content: that is the third day's, and the first content is gone.
    let second = etag("{\"n\":2}").await;
    world.queue.insert(&told(&second).to_string());
    let report = world.drain().await.unwrap();
    assert_eq!((report.objects, report.known_objects), (1, 0));
    assert_eq!(world.lines("2026-01-17").await, ["{\"n\":2}"]);
    assert_eq!(world.lines("2026-01-15").await, [""; 0]);
}

#[tokio::test]
async fn without_version_or_etag_the_one_that_the_bucket_has_counts() {
    let world = undated();
    world.staging.insert("staged/x", "{\"n\":1}");
    for body in [notification(&["staged/x"]), notification(&["staged/x"]), notification(&["staged/never"])] {
        world.queue.insert(&body);
    }
    world.drain().await.unwrap();
    assert_eq!(world.lines("2026-01-15").await, ["{\"n\":1}"]);
    world.queue.advance(Duration::from_hours(24));
    world.queue.insert(&notification(&["staged/x"]));
    let report = world.drain().await.unwrap();
    assert_eq!(report.known_objects, 1);
    assert_eq!(world.lines("2026-01-16").await, [""; 0]);
}

#[tokio::test]
async fn the_queue_can_not_make_a_run_read_anything_but_what_is_staged_for_it() {
    let world = world("s3_prefix = \"{organization}/\"", "organization = \"acme\"");
    for key in ["acme/a", "globex/b", "secret"] {
        world.staging.insert(key, "{\"n\":1}");
    }
    for body in [
        json!({"Records": [created("other-bucket", &json!({"key": "acme/a"}))]}).to_string(),
        notification(&["secret", "acme%2F..%2Fsecret", "%2Facme%2Fa"]),
        notification(&["acme/a", "globex/b"]),
    ] {
        world.queue.insert(&body);
    }
    let report = world.drain().await.unwrap();
    assert_eq!(report.quarantined, BTreeMap::from([("outside_staging", 2)]));
    let keys = async || world.read("2026-01-15").await.into_keys().collect::<Vec<_>>();
    assert_eq!(keys().await, ["acme/a"], "another organisation's is for its own run");
    // Whoever could write into the spool still could not have other keys or buckets read.
    let reference = |bucket: &str, key: &str| Reference {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        content: "etag x".to_owned(),
        etag: None,
    };
    let hostile = Batch::new(Vec::new(), vec![reference("staging", "secret"), reference("state", "acme/a2")]);
    hostile.write(&world.state, &world.places.index(day("2026-01-15"), "hostile")).await.unwrap();
    assert_eq!(keys().await, ["acme/a"]);
}

#[tokio::test]
async fn records_go_to_no_destination_that_can_not_tell_whose_they_are() {
    let prefix = "s3_prefix = \"{organization}/{date}/\"";
    let closed = world(prefix, "organization = \"acme\"");
    closed.queue.insert("{\"n\":1}");
    assert_eq!(closed.drain().await.unwrap().quarantined, BTreeMap::from([("no_organization", 1)]));
    assert_eq!(closed.lines("2026-01-15").await, [""; 0]);
    let told = world(&format!("{prefix}\norganization_field = \"org\""), "organization = \"acme\"");
    told.queue.insert("{\"n\":1}");
    assert!(told.drain().await.unwrap().quarantined.is_empty());
    assert_eq!(told.lines("2026-01-15").await, ["{\"n\":1}"], "the filter looks at each");
    // What was spooled under an earlier configuration is not read under one that can't tell.
    let later = World { state: told.state.clone(), ..world(prefix, "organization = \"acme\"") };
    assert_eq!(later.lines("2026-01-15").await, [""; 0]);
}

#[tokio::test]
async fn no_message_reaches_outside_the_spool_or_into_the_shape_of_what_is_written() {
    let world = dated();
    let hostile = [
        "{\"n\":\"../../../heads/acme.json\"}",
        "PAR1{\n{\"n\":2}",
        "\u{1}\u{2}{\r\n\r\nHTTP/1.1 200 OK\r\nx: y",
        "[\u{2028}\u{202e}",
        "{\"TopicArn\":\"t\",\"Type\":\"Notification\",\"Message\":{\"a\":1}}",
        &json!({"Records": [created("staging", &json!({"key": "events/2026-01-15/%0d%0ax-amz-acl:%20public"}))]}).to_string(),
    ];
    for body in hostile {
        world.queue.insert(body);
    }
    world.drain().await.unwrap();
    for key in world.state.objects().into_keys() {
        let below = key.strip_prefix("dayport/spool/events/").unwrap_or_else(|| panic!("{key} is outside"));
        assert!(below.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c)) && !below.contains(".."), "{key}");
    }
    let bodies = world.state.objects();
    let records = bodies.iter().find(|(key, _)| key.ends_with(".ndjson")).unwrap().1;
    assert!(!records.windows(4).next().unwrap().starts_with(b"PAR1"));
    assert!(records.windows(5).any(|bytes| bytes == b"\nPAR1"), "no object begins with a message's own magic");
    for url in ["https://x/1/../../heads", "https://x/1/a%2F..%2Fb", "https://x/1/ü é"] {
        let places = Places::new(&world.settings.state, url);
        let root = places.day(day("2026-01-15"));
        assert_eq!(root.matches('/').count(), 4, "{root}");
        assert!(root.is_ascii() && !root.contains(".."), "{root}");
    }
}

/// A state bucket that refuses some keys, and writes only when the queue has seen that its messages are held.
#[derive(Clone)]
struct Picky {
    inner: MemoryBucket,
    refused: &'static str,
    waits_for: Option<MemoryQueue>,
}

impl List for Picky {
    async fn list_page(&self, prefix: &str, after: Option<&str>) -> Result<(Vec<ObjectInfo>, bool)> {
        self.inner.list_page(prefix, after).await
    }
}

impl Read for Picky {
    type Body = MemoryBody;

    async fn read_from(&self, key: &str, offset: u64, etag: &str) -> Result<MemoryBody> {
        self.inner.read_from(key, offset, etag).await
    }

    async fn read_small(&self, key: &str) -> Result<Option<(Bytes, String)>> {
        self.inner.read_small(key).await
    }
}

impl Write for Picky {
    async fn put(&self, key: &str, body: Bytes, content_type: &str, condition: &Condition) -> Result<Put> {
        if key.contains(self.refused) {
            return Err(Error::vendor("access denied, allow it"));
        }
        while self.waits_for.as_ref().is_some_and(|queue| {
            !queue.calls().iter().any(|call| matches!(call, QueueCall::ChangeVisibility(changed) if !changed.is_empty()))
        }) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.inner.put(key, body, content_type, condition).await
    }
}

#[tokio::test]
async fn what_is_held_stays_invisible_until_it_is_durable() {
    let world = dated();
    let id = world.queue.insert("{\"n\":1}");
    let state = Picky { inner: world.state.clone(), refused: "\0", waits_for: Some(world.queue.clone()) };
    let intake = Intake { settings: &world.settings, places: &world.places, staging: &world.staging, state: &state };
    drain(&world.queue, &intake, HURRIED, NOON, &|| false).await.unwrap();
    let held = world.queue.calls().into_iter().find_map(|call| match call {
        QueueCall::ChangeVisibility(changed) => changed.into_iter().next(),
        _ => None,
    });
    assert_eq!(held, Some((id, HURRIED.visibility)));
    assert_eq!(world.queue.messages(), []);
}

fn message(id: &str, body: &str, sent_millis: i64) -> Message {
    Message { id: id.to_owned(), receipt: format!("r-{id}"), body: body.to_owned(), sent_millis, receives: 1 }
}

#[tokio::test]
async fn of_several_days_only_the_messages_of_the_one_that_can_not_be_written_come_again() {
    let world = dated();
    let state = Picky { inner: world.state.clone(), refused: "2026-01-14", waits_for: None };
    let intake = Intake { settings: &world.settings, places: &world.places, staging: &world.staging, state: &state };
    let messages = [
        message("a", "{\"n\":1}", NOON),
        message("b", "{\"n\":2}", NOON - 86_400_000),
        message("c", "hopeless", NOON),
        message("d", &notification(&["events/2026-01-15/x", "events/2026-01-14/y"]), NOON),
        message("e", &json!({"Event": "s3:TestEvent"}).to_string(), NOON - 86_400_000),
    ];
    let outcome = intake.take(&messages).await;
    assert_eq!(outcome.failed.keys().copied().collect::<Vec<_>>(), [1, 3], "exactly these");
    assert!(outcome.failed.values().all(|error| error.kind() == Kind::Vendor));
    assert_eq!(outcome.report.messages, 3);
    assert_eq!(world.lines("2026-01-15").await, ["{\"n\":1}"]);
}

#[tokio::test]
async fn a_drain_without_time_fails_retryably_and_loses_nothing() {
    let world = dated();
    for n in 0..50 {
        world.queue.insert(&format!("{{\"n\":{n}}}"));
    }
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let is_over = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 3;
    let error = drain(&world.queue, &world.intake(), HURRIED, NOON, &is_over).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retryable);
    assert!(error.message().contains("not empty yet"), "{error}");
    let left = world.queue.messages().len();
    assert!((1..50).contains(&left), "{left}");
    world.queue.advance(HURRIED.visibility);
    world.drain().await.unwrap();
    assert_eq!(world.lines("2026-01-15").await.len(), 50);
}

/// A queue into which somebody sends whenever something is received.
struct Busy<'q>(&'q MemoryQueue);

impl Receive for Busy<'_> {
    async fn receive(&self, most: usize, wait: Duration, visibility: Duration) -> Result<Vec<Message>> {
        self.0.advance(Duration::from_millis(1));
        for _ in 0..MOST_AT_ONCE {
            self.0.insert("{}");
        }
        self.0.receive(most, wait, visibility).await
    }
}

impl crate::store::queue::Acknowledge for Busy<'_> {
    async fn delete(&self, receipts: &[String]) -> Result<Vec<crate::store::queue::FailedEntry>> {
        self.0.delete(receipts).await
    }
}

impl crate::store::queue::Hold for Busy<'_> {
    async fn change_visibility(&self, changes: &[(String, Duration)]) -> Result<Vec<crate::store::queue::FailedEntry>> {
        self.0.change_visibility(changes).await
    }
}

#[tokio::test]
async fn producers_that_go_on_sending_do_not_keep_a_run_from_its_day() {
    let world = dated();
    for n in 0..30 {
        world.queue.insert(&format!("{{\"n\":{n}}}"));
    }
    drain(&Busy(&world.queue), &world.intake(), HURRIED, NOON, &|| false).await.unwrap();
    let sent_before = world.lines("2026-01-15").await.into_iter().filter(|line| line.contains('n')).count();
    assert_eq!(sent_before, 30, "all that was sent before");
    assert!(!world.queue.messages().is_empty());
}

/// What every message of [`mixed`] must give, in the end.
const MIXED: [&str; 5] = ["{\"n\":0}", "{\"n\":1}", "{\"n\":2}", "{\"o\":1}", "{\"o\":2}"];

/// A queue with records, notifications (one of them twice) and a hopeless message.
fn mixed() -> World {
    let world = undated();
    for n in 0..3 {
        world.queue.insert(&format!("{{\"n\":{n}}}"));
    }
    for n in 1..3 {
        world.staging.insert(&format!("staged/{n}"), format!("{{\"o\":{n}}}"));
        world.queue.insert(&notification(&[&format!("staged/{n}")]));
    }
    world.queue.insert(&notification(&["staged/1"]));
    world.queue.insert("hopeless");
    world
}

/// What can be read of the day, whatever fails by then being mended.
async fn durable(world: &World) -> BTreeSet<String> {
    world.state.heal();
    world.staging.heal();
    world.lines("2026-01-15").await.into_iter().collect()
}

#[tokio::test]
async fn whichever_call_fails_nothing_is_deleted_before_it_is_durable_and_a_second_drain_gives_exact_rows() {
    for place in ["state", "staging", "queue"] {
        for fault in [Fault::Before, Fault::After] {
            for dies in [false, true] {
                let mut failures = 0;
                for nth in 1.. {
                    let world = mixed();
                    let bodies: BTreeMap<String, String> = world.queue.messages().into_iter().collect();
                    match (place, dies) {
                        ("state", false) => world.state.fail_on(nth, fault),
                        ("state", true) => world.state.die_on(nth, fault),
                        ("staging", false) => world.staging.fail_on(nth, fault),
                        ("staging", true) => world.staging.die_on(nth, fault),
                        (_, false) => world.queue.fail_on(nth, fault),
                        (_, true) => world.queue.die_on(nth, fault),
                    }
                    let what = format!("{place} {fault:?} dies {dies} call {nth}");
                    let first = world.drain().await;
                    world.queue.heal();
                    let left: BTreeSet<String> = world.queue.messages().into_iter().map(|(_, body)| body).collect();
                    let durable = durable(&world).await;
                    for body in bodies.values().filter(|body| !left.contains(*body) && body.starts_with("{\"n\"")) {
                        assert!(durable.contains(body), "{what}: {body} is deleted and not durable");
                    }
                    for n in 1..3 {
                        let is_gone = !left.contains(&notification(&[&format!("staged/{n}")]));
                        assert!(!is_gone || durable.contains(&format!("{{\"o\":{n}}}")), "{what}: staged/{n}");
                    }
                    if !left.contains("hopeless") {
                        assert!(!world.quarantined().is_empty(), "{what}: the hopeless one");
                    }
                    world.queue.advance(HURRIED.visibility);
                    world.drain().await.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(world.lines("2026-01-15").await, MIXED, "{what}");
                    assert_eq!(world.queue.messages(), [], "{what}");
                    failures += usize::from(first.is_err());
                    if first.is_ok() && nth > 40 {
                        break;
                    }
                }
                assert!(failures > 1, "{place} {fault:?} dies {dies}: no call was struck");
            }
        }
    }
}

#[tokio::test]
async fn a_spool_that_lost_an_object_says_so_and_reads_nothing_else_in_its_place() {
    let world = dated();
    world.queue.insert("{\"n\":1}");
    world.drain().await.unwrap();
    let staged = SpooledStaging::new(&world.settings, &world.settings.destinations[0], &world.staging, &world.state, ());
    let records = world.state.objects().into_keys().find(|key| key.ends_with(".ndjson")).unwrap();
    world.state.remove(&records);
    let error = staged.elsewhere(day("2026-01-15"), "events/2026-01-15/").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Vendor);
    assert!(error.message().contains(&records) && error.message().contains("restore"), "{error}");
    let taken = Taken { id: "x".into(), offset: 0, length: 0 };
    let index = world.places.index(day("2026-01-16"), "0");
    Batch::new(vec![taken], Vec::new()).write(&world.state, &index).await.unwrap();
    world.state.insert(&index, "{\"form\":2,\"messages\":[],\"objects\":[]}");
    let error = staged.elsewhere(day("2026-01-16"), "events/2026-01-16/").await.unwrap_err();
    assert!(error.message().contains("can't be read"), "{error}");
}
