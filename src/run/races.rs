//! Several invocations of one run at once, each stalled at random before and after the effect of any call.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::testing::{Answer, Staged, World, day};
use crate::domain::error::Result;
use crate::store::lanes::bounded;
use crate::store::memory::{MemoryBody, MemoryBucket};
use crate::store::ports::{Completed, Condition, Delete, List, Multipart, ObjectInfo, Part, Put, Read, Upload, Write};

/// A bucket whose every call takes its time, before its effect and after it.
struct Slow<'a> {
    bucket: &'a MemoryBucket,
    world: &'a World,
    chance: &'a AtomicU64,
}

impl Slow<'_> {
    async fn stall(&self) {
        let next = |seed: u64| seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = self.chance.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |seed| Some(next(seed))).unwrap() >> 33;
        let turns = if drawn.is_multiple_of(97) { 400 } else { drawn % 4 };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    /// Whether the head lets anybody see or miss anything of day 15's run.
    fn is_recorded(&self, landed: bool) -> bool {
        let head = self.world.head();
        let open = head.open.get(&day("2026-01-15"));
        open.map_or(
            head.commits.contains_key(&day("2026-01-15")),
            |open| if landed { open.landed } else { open.commit.is_some() },
        )
    }
}

impl List for Slow<'_> {
    async fn list_page(&self, prefix: &str, after: Option<&str>) -> Result<(Vec<ObjectInfo>, bool)> {
        self.stall().await;
        let answer = self.bucket.list_page(prefix, after).await;
        self.stall().await;
        answer
    }
}

impl Read for Slow<'_> {
    type Body = MemoryBody;

    async fn read_from(&self, key: &str, offset: u64, etag: &str) -> Result<MemoryBody> {
        self.bucket.read_from(key, offset, etag).await
    }

    async fn read_small(&self, key: &str) -> Result<Option<(Bytes, String)>> {
        self.stall().await;
        let answer = self.bucket.read_small(key).await;
        self.stall().await;
        answer
    }
}

impl Write for Slow<'_> {
    async fn put(&self, key: &str, body: Bytes, content_type: &str, condition: &Condition) -> Result<Put> {
        self.stall().await;
        let answer = self.bucket.put(key, body, content_type, condition).await;
        self.stall().await;
        answer
    }
}

impl Multipart for Slow<'_> {
    async fn create(&self, key: &str, content_type: &str) -> Result<String> {
        self.stall().await;
        let answer = self.bucket.create(key, content_type).await;
        self.stall().await;
        answer
    }

    async fn part(&self, key: &str, id: &str, number: i32, body: Bytes) -> Result<Part> {
        self.stall().await;
        let answer = self.bucket.part(key, id, number, body).await;
        self.stall().await;
        answer
    }

    async fn complete(&self, upload: &Upload) -> Result<Completed> {
        self.stall().await;
        assert!(self.is_recorded(false), "`{}` was made visible before the commit was recorded", upload.key);
        let answer = self.bucket.complete(upload).await;
        self.stall().await;
        answer
    }

    async fn abort(&self, key: &str, id: &str) -> Result<()> {
        self.stall().await;
        let answer = self.bucket.abort(key, id).await;
        self.stall().await;
        answer
    }
}

impl Delete for Slow<'_> {
    async fn delete(&self, key: &str) -> Result<()> {
        self.stall().await;
        assert!(self.is_recorded(true), "`{key}` was deleted before what replaces it landed");
        let answer = self.bucket.delete(key).await;
        self.stall().await;
        answer
    }
}

fn before() -> Vec<Staged> {
    vec![
        ("0.json", vec![("pageview_events", 7), ("click_events", 2)]),
        ("1.json", vec![("aliases", 4)]),
        ("domains/a.json", vec![("domains", 12)]),
    ]
}

fn after() -> Vec<Staged> {
    vec![("0.json", vec![("pageview_events", 5), ("click_events", 1)]), ("domains/a.json", vec![("domains", 3)])]
}

async fn prepared(layout: &str) -> World {
    let world = World::new(layout);
    world.invoke("before", "2026-01-15", None, &before()).await.unwrap();
    world
}

#[tokio::test]
async fn many_invocations_of_one_run_at_once_land_it_once() {
    for layout in ["permutive", "pontoon"] {
        let clean = prepared(layout).await;
        clean.invoke("clean", "2026-01-15", Some("again"), &after()).await.unwrap();
        let (mut took_over, mut committed) = (0, 0);
        for seed in 0..60_u64 {
            let world = prepared(layout).await;
            let chance = AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let slow = |bucket| Slow { bucket, world: &world, chance: &chance };
            let (state, customer) = (slow(&world.state), slow(&world.customer));
            let (state, customer, world_ref, staged) = (&state, &customer, &world, &after());
            let answers = bounded(0..8, 8, |number| async move {
                let holder = format!("holder {number}");
                Ok(world_ref.invoke_on(state, customer, &holder, day("2026-01-15"), Some("again"), staged).await)
            });
            let answers = answers.await.unwrap();
            took_over += answers
                .iter()
                .filter(|answer| answer.as_ref().is_err_and(|error| error.to_string().contains("took over")))
                .count();
            committed += answers.iter().filter(|answer| matches!(answer, Ok(Answer::Committed(_)))).count();
            let last = world.invoke("last", "2026-01-15", Some("again"), &after()).await.unwrap();
            assert!(matches!(last, Answer::Committed(_) | Answer::Already(_)), "{layout}, seed {seed}: {last:?}");
            assert_eq!(world.customer.objects(), clean.customer.objects(), "{layout}, seed {seed}: {answers:?}");
            assert_eq!(world.head().snapshots, clean.head().snapshots, "{layout}, seed {seed}");
            assert_eq!(world.head().registry, clean.head().registry, "{layout}, seed {seed}");
            let commit = world.head().commits[&day("2026-01-15")].commit;
            assert_eq!(commit.generation, 1, "{layout}, seed {seed}: one re-run, however many asked for it");
        }
        assert!(took_over > 20 && committed > 20, "{layout}: {took_over} takeovers and {committed} commits are no race");
    }
}
