//! A model check of head, journal and commit: two invocations of one run, of the code itself, moved on call by call in every order.
//!
//! A state of the model is what the two buckets hold and how far each invocation has come; a transition is the next call of one of them,
//! with all that the code does until the call after it. Whoever is not moved stands still, as a process that the system froze; one may
//! end at any call for good, and the answer of any call may be lost, before its effect or after it. Time passes only where somebody
//! waits, so a lease runs out whenever the other one is left standing for long enough.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::head::Head;
use super::testing::{Answer, Staged, World, day};
use crate::domain::error::{Error, Kind, Result};
use crate::store::memory::{Fault, MemoryBody, MemoryBucket};
use crate::store::ports::{Completed, Condition, Delete, List, Multipart, ObjectInfo, Part, Put, Read, Upload, Write};

const DAY: &str = "2026-01-15";
/// More calls than any invocation makes.
const ALL: usize = 10_000;

type Objects = BTreeMap<String, Bytes>;
type Run<'a> = Pin<Box<dyn Future<Output = Result<Answer>> + 'a>>;

/// One of the two invocations: how many calls it may make, and what becomes of them.
#[derive(Default)]
struct Actor {
    allowed: AtomicUsize,
    made: AtomicUsize,
    lost: Option<(usize, Fault)>,
}

impl Actor {
    /// Waits until it may make one more call; that call's number.
    async fn turn(&self) -> usize {
        std::future::poll_fn(|context| {
            if self.allowed.load(Ordering::SeqCst) == 0 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.allowed.fetch_sub(1, Ordering::SeqCst);
            Poll::Ready(())
        })
        .await;
        self.made.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// What must be true whenever something that the customer can see has changed.
struct Judge<'a> {
    world: &'a World,
    before: &'a Objects,
    after: &'a Objects,
    /// Which run of the day it is.
    generation: u32,
    faults: Mutex<Vec<String>>,
}

impl Judge<'_> {
    fn look(&self) {
        if let Some(fault) = self.fault() {
            self.faults.lock().unwrap().push(fault);
        }
    }

    fn fault(&self) -> Option<String> {
        let (head, now) = (self.world.head(), self.world.customer.objects());
        let open = head.open.get(&day(DAY));
        let is_done = head.commits.get(&day(DAY)).is_some_and(|done| done.commit.generation == self.generation);
        let is_recorded = open.map_or(is_done, |open| open.commit.is_some());
        if !is_recorded {
            return (now != *self.before).then(|| "something can be seen, and no commit is recorded".to_owned());
        }
        let has_landed = open.is_none_or(|open| open.landed);
        for key in self.before.keys().chain(self.after.keys()).chain(now.keys()) {
            let (was, will, is) = (self.before.get(key), self.after.get(key), now.get(key));
            if is != was && is != will {
                return Some(format!("`{key}` is neither what was there nor what lands there"));
            }
            if !has_landed && is.is_none() && was.is_some() {
                return Some(format!("`{key}` is gone before all has landed"));
            }
            if has_landed && !key.contains("_dayport") && will.is_some() && is != will {
                return Some(format!("`{key}` has not landed, and the head says that all has"));
            }
        }
        None
    }
}

/// A bucket in the hands of one of the two.
struct Stepped<'a> {
    bucket: &'a MemoryBucket,
    actor: &'a Actor,
    /// Of the customer's.
    judge: Option<&'a Judge<'a>>,
}

impl Stepped<'_> {
    async fn call<T>(&self, effect: impl Future<Output = Result<T>>) -> Result<T> {
        let number = self.actor.turn().await;
        let lost = self.actor.lost.filter(|(at, _)| *at == number).map(|(_, fault)| fault);
        let gone = || Error::retryable(format!("call {number} was lost as the model asked, call again"));
        if lost == Some(Fault::Before) {
            return Err(gone());
        }
        let answer = effect.await;
        if let Some(judge) = self.judge {
            judge.look();
        }
        if lost == Some(Fault::After) { Err(gone()) } else { answer }
    }
}

impl List for Stepped<'_> {
    async fn list_page(&self, prefix: &str, after: Option<&str>) -> Result<(Vec<ObjectInfo>, bool)> {
        self.call(self.bucket.list_page(prefix, after)).await
    }
}

impl Read for Stepped<'_> {
    type Body = MemoryBody;

    async fn read_from(&self, key: &str, offset: u64, etag: &str) -> Result<MemoryBody> {
        self.call(self.bucket.read_from(key, offset, etag)).await
    }

    async fn read_small(&self, key: &str) -> Result<Option<(Bytes, String)>> {
        self.call(self.bucket.read_small(key)).await
    }
}

impl Write for Stepped<'_> {
    async fn put(&self, key: &str, body: Bytes, content_type: &str, condition: &Condition) -> Result<Put> {
        self.call(self.bucket.put(key, body, content_type, condition)).await
    }
}

impl Multipart for Stepped<'_> {
    async fn create(&self, key: &str, content_type: &str) -> Result<String> {
        self.call(self.bucket.create(key, content_type)).await
    }

    async fn part(&self, key: &str, id: &str, number: i32, body: Bytes) -> Result<Part> {
        self.call(self.bucket.part(key, id, number, body)).await
    }

    async fn complete(&self, upload: &Upload) -> Result<Completed> {
        self.call(self.bucket.complete(upload)).await
    }

    async fn abort(&self, key: &str, id: &str) -> Result<()> {
        self.call(self.bucket.abort(key, id)).await
    }
}

impl Delete for Stepped<'_> {
    async fn delete(&self, key: &str) -> Result<()> {
        self.call(self.bucket.delete(key)).await
    }
}

fn more() -> Vec<Staged> {
    vec![("0.json", vec![("t_events", 6)]), ("domains/d.json", vec![("domains", 6)])]
}

fn fewer() -> Vec<Staged> {
    vec![("0.json", vec![("t_events", 1)]), ("domains/d.json", vec![("domains", 5)])]
}

/// Outside any runtime, where nothing is there to wait for.
fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

/// Lets an invocation make so many calls, or end before.
fn drive(run: &mut Option<Run<'_>>, actor: &Actor, calls: usize) -> Option<Result<Answer>> {
    for _ in 0..calls {
        let Some(going) = run else { return None };
        actor.allowed.store(1, Ordering::SeqCst);
        let mut turns = 0;
        while actor.allowed.load(Ordering::SeqCst) > 0 {
            if let Poll::Ready(answer) = going.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                *run = None;
                actor.allowed.store(0, Ordering::SeqCst);
                return Some(answer);
            }
            turns += 1;
            assert!(turns < ALL, "an invocation waits for something that nobody does");
        }
    }
    None
}

/// The head, but for who wrote it, how often, and at which attempt.
fn known(world: &World) -> Head {
    let mut head = world.head();
    (head.counter, head.holder, head.write) = (0, None, String::new());
    head.commits.values_mut().for_each(|done| done.commit.attempt = 0);
    head
}

/// What two invocations start from, and what one alone comes to.
struct Model {
    layout: &'static str,
    force: Option<&'static str>,
    staged: Vec<Staged>,
    start: World,
    clean: World,
}

/// An execution: who is moved on by how many calls, whose answer is lost at which call, and who ends at the last switch for good.
#[derive(Clone, Debug, Default)]
struct Schedule {
    moves: Vec<(usize, usize)>,
    lost: [Option<(usize, Fault)>; 2],
    dies: Option<usize>,
}

impl Model {
    fn new(layout: &'static str, is_rerun: bool) -> Model {
        let start = World::new(layout);
        if is_rerun {
            finish(start.invoke("before", DAY, None, &more())).unwrap();
        }
        let (force, staged) = if is_rerun { (Some("again"), fewer()) } else { (None, more()) };
        let clean = copy(layout, &start);
        finish(clean.invoke("clean", DAY, force, &staged)).unwrap();
        Model { layout, force, staged, start, clean }
    }

    /// How many calls an invocation alone makes.
    fn calls(&self) -> usize {
        let world = copy(self.layout, &self.start);
        let calls = || world.state.call_count() + world.customer.call_count();
        let before = calls();
        finish(world.invoke("alone", DAY, self.force, &self.staged)).unwrap();
        calls() - before
    }

    /// Executes a schedule and then lets both end, and a third come; panics where anything is wrong. Whether the second took over.
    fn execute(&self, schedule: &Schedule) -> bool {
        let world = copy(self.layout, &self.start);
        let (before, after) = (self.start.customer.objects(), self.clean.customer.objects());
        let generation = self.clean.head().commits[&day(DAY)].commit.generation;
        let judge = Judge { world: &world, before: &before, after: &after, generation, faults: Mutex::default() };
        let actors: Vec<Actor> = schedule.lost.iter().map(|lost| Actor { lost: *lost, ..Actor::default() }).collect();
        let buckets = |bucket, judge| actors.iter().map(|actor| Stepped { bucket, actor, judge }).collect::<Vec<_>>();
        let (states, customers) = (buckets(&world.state, None), buckets(&world.customer, Some(&judge)));
        let mut answers = Vec::new();
        {
            let begin = |number: usize| -> Option<Run<'_>> {
                let holder = ["first", "second"][number];
                Some(Box::pin(world.invoke_on(&states[number], &customers[number], holder, day(DAY), self.force, &self.staged)))
            };
            // In an async block nothing happens before the first poll, so that the second does not look at the head too early.
            let mut runs = [begin(0), begin(1)];
            for (who, calls) in &schedule.moves {
                answers.extend(drive(&mut runs[*who], &actors[*who], *calls));
            }
            if let Some(dead) = schedule.dies {
                runs[dead] = None;
            }
            for who in 0..2 {
                answers.extend(drive(&mut runs[who], &actors[who], ALL));
            }
        }
        for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert_eq!(error.kind(), Kind::Retryable, "{schedule:?}: {error}");
        }
        let last = finish(world.invoke("last", DAY, self.force, &self.staged));
        assert!(matches!(last, Ok(Answer::Committed(_) | Answer::Already(_))), "{schedule:?}: {last:?}");
        assert_eq!(*judge.faults.lock().unwrap(), Vec::<String>::new(), "{schedule:?}");
        assert_eq!(world.customer.objects(), after, "{schedule:?}: {answers:?}");
        assert_eq!(known(&world), known(&self.clean), "{schedule:?}");
        let recorded = world.recorded_uploads();
        for (key, id) in world.customer.open_uploads() {
            assert!(!recorded.iter().any(|upload| upload.id == id), "{schedule:?}: the upload of `{key}` is recorded and open");
        }
        answers.iter().any(|answer| answer.as_ref().is_err_and(|error| error.to_string().contains("took over")))
    }
}

/// The same buckets anew.
fn copy(layout: &str, from: &World) -> World {
    let world = World::new(layout);
    // Upload ids go on where those that the state knows have ended.
    for _ in 0..from.recorded_uploads().len() {
        let id = finish(world.customer.create("none", "none")).unwrap();
        finish(world.customer.abort("none", &id)).unwrap();
    }
    for (key, body) in from.state.objects() {
        world.state.insert(&key, body);
    }
    for (key, body) in from.customer.objects() {
        world.customer.insert(&key, body);
    }
    world
}

#[test]
fn two_invocations_that_are_switched_twice_land_the_run_once() {
    let (mut executions, mut took_over) = (0, 0);
    for layout in ["permutive", "pontoon"] {
        for is_rerun in [true, false] {
            let model = Model::new(layout, is_rerun);
            let calls = model.calls();
            // Where most can go wrong each call of the first is one to switch at, and every other one of the second.
            let (first, second) = if is_rerun && layout == "permutive" { (1, 2) } else { (3, 4) };
            for i in (0..=calls).step_by(first) {
                // A watcher reads the head about a dozen times before a lease has run out.
                for j in (0..=calls + 14).step_by(second) {
                    took_over += usize::from(model.execute(&Schedule { moves: vec![(0, i), (1, j)], ..Schedule::default() }));
                    executions += 1;
                }
            }
        }
    }
    println!("{executions} executions, {took_over} with a takeover of one that was alive");
    assert!(took_over * 4 > executions, "{took_over} takeovers in {executions} executions");
}

#[test]
fn two_invocations_that_are_switched_often_lose_answers_and_die_land_the_run_once() {
    let mut seed = 20_260_115_u64;
    let mut draw = move |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % bound
    };
    for layout in ["permutive", "pontoon"] {
        for is_rerun in [true, false] {
            let model = Model::new(layout, is_rerun);
            let calls = model.calls();
            for _ in 0..250 {
                let moves = (0..2 + draw(5)).map(|number| (number % 2, 1 + draw(calls / 2 + 14))).collect();
                let mut lost = || {
                    let fault = [Fault::Before, Fault::After][draw(2)];
                    (draw(3) > 0).then(|| (1 + draw(calls + 14), fault))
                };
                let lost = [lost(), lost()];
                let dies = [None, Some(0), Some(1)][draw(3)];
                model.execute(&Schedule { moves, lost, dies });
            }
        }
    }
}

#[test]
fn an_invocation_that_dies_at_any_call_while_another_lives_is_gone_on_from() {
    for layout in ["permutive", "pontoon"] {
        let model = Model::new(layout, true);
        let calls = model.calls();
        for i in 0..=calls {
            for j in [0, 1, 2, 7, calls / 2] {
                model.execute(&Schedule { moves: vec![(0, i), (1, j)], dies: Some(0), ..Schedule::default() });
                // The one that took over dies too, and the first wakes.
                model.execute(&Schedule { moves: vec![(0, i), (1, j + 13)], dies: Some(1), ..Schedule::default() });
            }
        }
    }
}
