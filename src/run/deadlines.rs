//! Days that no single invocation gets through: what is done is kept, what is not is given up in order, and the bytes are the same.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::answer::RunOutcome;
use super::document;
use super::driver::Progress;
use super::journal::OpenUpload;
use super::whole_days::{A, Call, World};
use crate::domain::error::Result;
use crate::store::memory::{MemoryBody, MemoryBucket};
use crate::store::ports::{
    Body, Completed, Condition, Delete, List, ListUploads, Multipart, ObjectInfo, Part, Put, Read, Staged, Upload, UploadInfo,
    Write,
};

const DAY: &str = "2026-01-15";

/// A staging bucket that brings nothing more after the first bytes of an object.
#[derive(Clone)]
struct Halting {
    bucket: MemoryBucket,
    after: usize,
    /// Only the objects whose keys contain this.
    of: &'static str,
    /// For so long; else for ever.
    pause: Option<Duration>,
}

impl Halting {
    fn new(world: &World, after: usize) -> Halting {
        Halting { bucket: world.staging.clone(), after, of: "", pause: None }
    }
}

struct HaltingBody {
    body: MemoryBody,
    left: usize,
    pause: Option<Duration>,
    kept: Bytes,
}

impl Body for HaltingBody {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        if self.left == 0 {
            match self.pause {
                None => std::future::pending::<()>().await,
                Some(pause) => tokio::time::sleep(pause).await,
            }
            self.left = usize::MAX;
        }
        let mut piece = match std::mem::take(&mut self.kept) {
            none if none.is_empty() => match self.body.next().await {
                Some(Ok(piece)) => piece,
                other => return other,
            },
            kept => kept,
        };
        self.kept = piece.split_off(piece.len().min(self.left));
        self.left -= piece.len();
        Some(Ok(piece))
    }
}

impl List for Halting {
    async fn list_page(&self, prefix: &str, after: Option<&str>) -> Result<(Vec<ObjectInfo>, bool)> {
        self.bucket.list_page(prefix, after).await
    }
}

impl Staged for Halting {}

impl Read for Halting {
    type Body = HaltingBody;

    async fn read_from(&self, key: &str, offset: u64, etag: &str) -> Result<HaltingBody> {
        let left = if key.contains(self.of) { self.after } else { usize::MAX };
        Ok(HaltingBody { body: self.bucket.read_from(key, offset, etag).await?, left, pause: self.pause, kept: Bytes::new() })
    }

    async fn read_small(&self, key: &str) -> Result<Option<(Bytes, String)>> {
        self.bucket.read_small(key).await
    }
}

/// A customer's bucket that takes its time to say which upload it has begun.
struct SlowToAnswer<'a>(&'a MemoryBucket, Duration);

impl Multipart for SlowToAnswer<'_> {
    async fn create(&self, key: &str, content_type: &str) -> Result<String> {
        let id = self.0.create(key, content_type).await?;
        tokio::time::sleep(self.1).await;
        Ok(id)
    }

    async fn part(&self, key: &str, id: &str, number: i32, body: Bytes) -> Result<Part> {
        self.0.part(key, id, number, body).await
    }

    async fn complete(&self, upload: &Upload) -> Result<Completed> {
        self.0.complete(upload).await
    }

    async fn abort(&self, key: &str, id: &str) -> Result<()> {
        self.0.abort(key, id).await
    }
}

impl Write for SlowToAnswer<'_> {
    async fn put(&self, key: &str, body: Bytes, content_type: &str, condition: &Condition) -> Result<Put> {
        self.0.put(key, body, content_type, condition).await
    }
}

impl List for SlowToAnswer<'_> {
    async fn list_page(&self, prefix: &str, after: Option<&str>) -> Result<(Vec<ObjectInfo>, bool)> {
        self.0.list_page(prefix, after).await
    }
}

impl ListUploads for SlowToAnswer<'_> {
    async fn list_uploads_page(&self, prefix: &str, after: Option<&UploadInfo>) -> Result<(Vec<UploadInfo>, Option<UploadInfo>)> {
        self.0.list_uploads_page(prefix, after).await
    }
}

impl Read for SlowToAnswer<'_> {
    type Body = MemoryBody;

    async fn read_from(&self, key: &str, offset: u64, etag: &str) -> Result<MemoryBody> {
        self.0.read_from(key, offset, etag).await
    }

    async fn read_small(&self, key: &str) -> Result<Option<(Bytes, String)>> {
        self.0.read_small(key).await
    }
}

impl Delete for SlowToAnswer<'_> {
    async fn delete(&self, key: &str) -> Result<()> {
        self.0.delete(key).await
    }
}

/// Three objects, each a shard of its own, the last a snapshot's.
fn staged(destination: &str) -> World {
    let world = World::new(destination, "[run]\nshard_size = 1\n");
    world.stage_on(DAY, "a.ndjson", A);
    world.stage_on(DAY, "b.ndjson", &A.replace("\"n\":1", "\"n\":7,\"m\":true"));
    world.stage_on(DAY, "domains/d.ndjson", "{\"domain\":\"a.example\"}\n");
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_that_needs_three_invocations_lands_the_same_bytes() {
    for destination in ["format = \"json\"", "format = \"parquet\"", "layout = \"pontoon\""] {
        let clean = staged(destination);
        assert_eq!(clean.call(Call::of(DAY)).await.state, RunOutcome::Committed);
        let world = staged(destination);
        let mut states = Vec::new();
        while states.last() != Some(&RunOutcome::Committed) && states.len() < 10 {
            // As soon as the first shard is read, no more than half a minute is left.
            let has_read = AtomicBool::new(false);
            let call = Call {
                millis_left: &|| Some(if has_read.load(Ordering::SeqCst) { 30_000 } else { 600_000 }),
                on_progress: &|progress| {
                    if matches!(progress, Progress::Read(_)) {
                        has_read.store(true, Ordering::SeqCst);
                    }
                },
                ..Call::of(DAY)
            };
            let answer = world.call(call).await;
            if answer.state == RunOutcome::Continued {
                assert!(world.landed().is_empty(), "nothing can be seen before the day is whole");
                assert_eq!(world.head().holder, None, "the lease is given back");
            }
            states.push(answer.state);
        }
        assert_eq!(states, [RunOutcome::Continued, RunOutcome::Continued, RunOutcome::Committed], "{destination}");
        assert_eq!(world.landed(), clean.landed(), "{destination}");
        assert!(world.customer.open_uploads().is_empty());
    }
}

fn uploads_noted(world: &World) -> BTreeSet<(String, String)> {
    let notes = world.state.objects().into_iter().filter(|(key, _)| key.contains("/open-"));
    let uploads = notes.flat_map(|(key, body)| document::decode::<Vec<OpenUpload>>(&key, &body).unwrap());
    uploads.map(|upload| (upload.key, upload.id)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_the_deadline_meets_is_given_up_and_every_upload_that_it_began_is_noted() {
    // It used to go on until Lambda killed the function: the lease stayed, nothing was counted, and the next one did the same.
    let mut world = World::new("format = \"json\"", "");
    (world.settings.run.part_size, world.settings.run.chunk_bytes) = (64 << 10, 64 << 10);
    world.settings.run.deadline_margin = Duration::from_secs(4);
    world.customer = world.customer.with_small_parts();
    let mut text = String::new();
    let mut seed = 7_u64;
    for number in 0..60_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let event = ["Pageview", "LinkClick", "Scroll"][number % 3];
        writeln!(text, "{{\"event_name\":\"{event}\",\"time\":\"2026-01-15T10:00:00Z\",\"id\":\"{seed:016x}\"}}").unwrap();
    }
    world.stage_on(DAY, "a.ndjson", &text);

    let halting = Halting::new(&world, text.len() - 1000);
    // Given up after half a second; an upload's beginning may take a second more, and takes most of it.
    let slow = SlowToAnswer(&world.customer, Duration::from_millis(700));
    let answer = world.call_on(&halting, &slow, Call { millis_left: &|| Some(2_500), ..Call::of(DAY) }).await;
    assert_eq!(answer.state, RunOutcome::Continued, "{answer:?}");
    let left: BTreeSet<(String, String)> = world.customer.open_uploads().into_iter().collect();
    let noted = uploads_noted(&world);
    assert!(left.is_subset(&noted), "{left:?} are open and {noted:?} are noted");
    assert_eq!((world.landed().len(), world.head().holder), (0, None));

    assert_eq!(world.call(Call::of(DAY)).await.state, RunOutcome::Committed);
    assert!(world.customer.open_uploads().is_empty());
    let landed = world.landed();
    let clean = World { customer: MemoryBucket::new().with_small_parts(), state: MemoryBucket::new(), ..world };
    assert_eq!(clean.call(Call::of(DAY)).await.state, RunOutcome::Committed);
    assert_eq!(landed, clean.landed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_no_invocation_gets_through_is_the_vendors_to_mend_and_lands_once_it_is() {
    let mut world = staged("format = \"json\"");
    world.settings.run.deadline_margin = Duration::from_millis(100);
    let halting = Halting::new(&world, 0);
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(world.call_on(&halting, &world.customer, Call { millis_left: &|| Some(200), ..Call::of(DAY) }).await);
    }
    let states: Vec<RunOutcome> = answers.iter().map(|answer| answer.state).collect();
    assert_eq!(states, [RunOutcome::Continued, RunOutcome::Failed, RunOutcome::Failed]);
    let error = answers[1].error.clone().unwrap();
    assert_eq!(error.kind, "vendor");
    assert!(error.message.contains("2 invocations in a row") && error.message.contains("`run.shard_size`"), "{}", error.message);
    // With more time, or smaller objects, it goes on.
    assert_eq!(world.call(Call::of(DAY)).await.state, RunOutcome::Committed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invocation_that_had_no_more_than_a_rest_of_time_proves_nothing_of_an_objects_size() {
    let mut world = staged("format = \"json\"");
    world.settings.run.deadline_margin = Duration::from_millis(100);
    let halting = Halting::new(&world, 0);
    for _ in 0..4 {
        let answer = world.call_on(&halting, &world.customer, Call { millis_left: &|| Some(150), ..Call::of(DAY) }).await;
        assert_eq!(answer.state, RunOutcome::Continued, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_rest_comes_after_all_others_is_waited_for_and_nothing_else() {
    // Eight workers that found room at once had more chunks of the later objects between them than there was room for; the first one, for
    // which they all waited, then had none either, and the run never ended.
    let mut world = World::new("format = \"json\"", "");
    (world.settings.run.threads, world.settings.run.chunk_bytes) = (8, 256 << 10);
    let long = "x".repeat(16 << 10);
    let body = format!("{{\"event_name\":\"a\",\"time\":\"2026-01-15T10:00:00Z\",\"text\":\"{long}\"}}\n").repeat(100);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(body.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    for object in 'a'..='h' {
        world.staging.insert(&format!("events/{DAY}/{object}.ndjson.gz"), packed.clone());
    }
    let halting = Halting { of: "/a.ndjson", pause: Some(Duration::from_secs(2)), ..Halting::new(&world, 100) };
    let run = world.call_on(&halting, &world.customer, Call::of(DAY));
    let answer = tokio::time::timeout(Duration::from_mins(1), run).await.expect("it ends");
    assert_eq!((answer.state, answer.counts.delivered), (RunOutcome::Committed, 800), "{answer:?}");
}
