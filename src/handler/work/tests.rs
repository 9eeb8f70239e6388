use std::cell::RefCell;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::*;
use crate::domain::run::Day;
use crate::handler::Nobody;
use crate::handler::tests::{day, settings};
use crate::store::memory::Fault;
use crate::store::memory::queue::MemoryQueue;
use crate::store::queue::Receive as _;

const NOW: i64 = 1_768_532_400_000;
/// The queue's own visibility, six times the function's timeout.
const VISIBILITY: Duration = Duration::from_mins(90);

fn turn<'s>(settings: &'s Settings, name: &str, of: &str) -> Turn<'s> {
    let destination = named(name, &settings.destinations).unwrap();
    Turn { destination, day: day(of), why: Due::Own, is_paused: !destination.enabled, unread: None }
}

fn bodies(queue: &MemoryQueue) -> Vec<Value> {
    queue.messages().iter().map(|(_, body)| serde_json::from_str(body).unwrap()).collect()
}

fn buried(queue: &MemoryQueue) -> Vec<Value> {
    queue.buried().iter().map(|body| serde_json::from_str(body).unwrap()).collect()
}

/// What Lambda's event source mapping does with one message: hands it over and deletes it unless it is to come back. `None` if there is
/// none to be had.
async fn deliver(queue: &MemoryQueue, run: impl Fn(&Turn<'_>, Option<&str>) -> RunAnswer) -> Option<Taken> {
    use crate::store::queue::Acknowledge as _;
    let message = queue.receive(1, Duration::ZERO, VISIBILITY).await.unwrap().into_iter().next()?;
    // Fifteen minutes are left.
    let invocation = Invocation::until("id", 1_900_000, 1_000_000);
    let taken =
        take(queue, &settings(), &message, &invocation, &Nobody, async |turn: &Turn<'_>, force: Option<&str>| run(turn, force))
            .await;
    if taken.is_done {
        queue.delete(&[message.receipt]).await.unwrap();
    }
    Some(taken)
}

fn committed(turn: &Turn<'_>) -> RunAnswer {
    RunAnswer::bare(&turn.run(), RunOutcome::Committed)
}

fn failed(turn: &Turn<'_>, kind: Kind) -> RunAnswer {
    RunAnswer::failed(&turn.run(), &Error::new(kind, "it is not there"))
}

/// Delivers and turns the clock until the queue is empty; what was run, in order, with the minutes that had passed.
async fn drained(queue: &MemoryQueue, run: impl Fn(&Turn<'_>) -> RunAnswer) -> Vec<String> {
    let ran = RefCell::new(Vec::new());
    for _ in 0..2_000 {
        let minutes = (queue.now_millis() - NOW) / 60_000;
        let taken = deliver(queue, |turn, _| {
            let answer = run(turn);
            ran.borrow_mut().push(format!("{minutes} {} {:?}", turn.run(), answer.state));
            answer
        });
        if taken.await.is_some() {
            continue;
        }
        if queue.messages().is_empty() {
            return ran.into_inner();
        }
        queue.advance(Duration::from_mins(1));
    }
    panic!("the queue is never empty: {:?}", ran.into_inner());
}

#[tokio::test]
async fn a_trigger_sends_one_message_a_destination_that_knows_the_days_after_it() {
    let (settings, queue) = (settings(), MemoryQueue::new(NOW));
    let mut turns = vec![
        turn(&settings, "acme", "2026-01-14"),
        turn(&settings, "globex", "2026-01-14"),
        turn(&settings, "acme", "2026-01-15"),
        turn(&settings, "resting", "2026-01-15"),
    ];
    turns[1].unread = None;
    let answers = queue_up(&queue, &turns, None, true).await;
    let states: Vec<RunOutcome> = answers.iter().map(|answer| answer.state).collect();
    assert_eq!(states, [RunOutcome::Queued, RunOutcome::Queued, RunOutcome::Queued, RunOutcome::Paused]);
    assert_eq!(
        bodies(&queue),
        [
            json!({"destination": "acme", "date": "2026-01-14", "then": ["2026-01-15"], "scheduled": true}),
            json!({"destination": "globex", "date": "2026-01-14", "scheduled": true}),
        ]
    );
}

#[tokio::test]
async fn a_destination_that_the_queue_does_not_take_fails_alone() {
    let (settings, queue) = (settings(), MemoryQueue::new(NOW));
    let mut turns = vec![
        turn(&settings, "acme", "2026-01-14"),
        turn(&settings, "globex", "2026-01-14"),
        turn(&settings, "acme", "2026-01-15"),
    ];
    turns[1].unread = Some(Error::retryable("slow down"));
    queue.fail_on(1, Fault::Before);
    let answers = queue_up(&queue, &turns, Some("request"), false).await;
    let kinds: Vec<&str> = answers.iter().map(|answer| answer.error.as_ref().unwrap().kind).collect();
    assert_eq!(kinds, ["retryable"; 3]);
    assert!(bodies(&queue).is_empty());
    queue_up(&queue, &turns[..1], Some("request"), false).await;
    assert_eq!(bodies(&queue), [json!({"destination": "acme", "date": "2026-01-14", "force": "request"})]);
}

#[tokio::test]
async fn the_days_of_a_destination_are_run_one_after_the_other_oldest_first() {
    let (settings, queue) = (settings(), MemoryQueue::new(NOW));
    let turns: Vec<Turn<'_>> =
        day("2026-01-13").up_to(day("2026-01-15")).map(|day| turn(&settings, "acme", &day.to_string())).collect();
    queue_up(&queue, &turns, None, false).await;
    let ran = drained(&queue, |turn| {
        assert!(queue.messages().len() == 1, "there is one message of the destination at a time");
        committed(turn)
    })
    .await;
    assert_eq!(ran, ["0 acme 2026-01-13 Committed", "0 acme 2026-01-14 Committed", "0 acme 2026-01-15 Committed"]);
}

#[tokio::test]
async fn a_run_that_is_continued_goes_on_by_the_next_message_and_its_own_is_deleted() {
    let queue = MemoryQueue::new(NOW);
    let body = json!({"destination": "acme", "date": "2026-01-14", "then": ["2026-01-15"], "force": true});
    let id = queue.insert(&body.to_string());
    let taken = deliver(&queue, |turn, force| {
        assert_eq!(force, Some(id.as_str()));
        RunAnswer::bare(&turn.run(), RunOutcome::Continued)
    });
    assert!(taken.await.unwrap().is_done);
    let next = json!({"destination": "acme", "date": "2026-01-14", "then": ["2026-01-15"], "force": id});
    assert_eq!(bodies(&queue), [next], "the same re-run");
    assert_ne!(
        queue.messages()[0].0,
        id,
        "SQS counts every receive of a message: a day of many invocations would be dead-lettered"
    );
    assert_eq!(queue.visible_from(&queue.messages()[0].0), Some(NOW), "at once");
}

#[tokio::test]
async fn what_time_may_mend_comes_back_after_a_growing_delay_for_a_day() {
    let queue = MemoryQueue::new(NOW);
    queue.insert(r#"{"destination":"acme","date":"2026-01-15"}"#);
    let ran = drained(&queue, |turn| {
        // The marker comes 23 hours late.
        let is_there = queue.now_millis() >= NOW + 23 * 3_600_000;
        if is_there { committed(turn) } else { failed(turn, Kind::Retryable) }
    })
    .await;
    let minutes: Vec<&str> = ran.iter().take(7).map(|line| line.split_once(' ').unwrap().0).collect();
    assert_eq!(minutes, ["0", "1", "3", "7", "15", "30", "45"]);
    assert!(ran.last().unwrap().ends_with("Committed"));
    let template = include_str!("../../../template.yaml");
    let (_, work_queue) = template.split_once("\n  WorkQueue:\n").unwrap();
    let most = work_queue.lines().find_map(|line| line.trim().strip_prefix("maxReceiveCount: ")).unwrap();
    assert!(ran.len() < most.parse().unwrap(), "{} receives are within the template's {most}", ran.len());
}

#[tokio::test]
async fn a_day_that_waits_for_its_marker_holds_up_no_other_day_and_no_day_is_sent_twice() {
    let (settings, queue) = (settings(), MemoryQueue::new(NOW));
    let turns: Vec<Turn<'_>> =
        day("2026-01-12").up_to(day("2026-01-15")).map(|day| turn(&settings, "acme", &day.to_string())).collect();
    queue_up(&queue, &turns, None, false).await;
    let ran = drained(&queue, |turn| {
        let is_there = turn.day == day("2026-01-13") || queue.now_millis() >= NOW + 60 * 60_000;
        if is_there { committed(turn) } else { failed(turn, Kind::Retryable) }
    })
    .await;
    assert_eq!(
        ran[..4],
        ["0 acme 2026-01-12 Failed", "0 acme 2026-01-13 Committed", "0 acme 2026-01-14 Failed", "0 acme 2026-01-15 Failed"]
    );
    let of_day = |of: Day| ran.iter().filter(|line| line.contains(&of.to_string())).collect::<Vec<_>>();
    assert_eq!(of_day(day("2026-01-13")).len(), 1);
    let of_last = of_day(day("2026-01-15"));
    assert!(of_last.len() < 10 && of_last.iter().filter(|line| line.ends_with("Committed")).count() == 1, "{of_last:?}");
}

#[tokio::test]
async fn a_busy_destination_is_asked_again_after_a_while() {
    let queue = MemoryQueue::new(NOW);
    let id = queue.insert(r#"{"destination":"acme","date":"2026-01-15"}"#);
    let busy = |turn: &Turn<'_>, _: Option<&str>| RunAnswer::bare(&turn.run(), RunOutcome::Busy);
    for (receives, minutes) in [(1, 1), (2, 2), (3, 4)] {
        let before = queue.now_millis();
        assert!(!deliver(&queue, busy).await.unwrap().is_done);
        assert_eq!(queue.visible_from(&id), Some(before + minutes * 60_000), "receive {receives}");
        queue.advance(Duration::from_mins(15));
    }
}

#[tokio::test]
async fn what_somebody_must_mend_is_among_the_dead_letters_at_once_and_its_day_holds_up_no_other() {
    for kind in [Kind::Customer, Kind::Vendor, Kind::Bug] {
        let queue = MemoryQueue::new(NOW);
        queue.insert(r#"{"destination":"acme","date":"2026-01-14","then":["2026-01-15"],"scheduled":true}"#);
        let ran = drained(&queue, |turn| if turn.day == day("2026-01-14") { failed(turn, kind) } else { committed(turn) }).await;
        assert_eq!(ran, ["0 acme 2026-01-14 Failed", "0 acme 2026-01-15 Committed"]);
        let error = json!({"kind": kind.name(), "message": "it is not there"});
        let expected = json!({"destination": "acme", "date": "2026-01-14", "scheduled": true, "error": error});
        assert_eq!(buried(&queue), [expected]);
        // Sent back to the queue when its cause is mended, it is run.
        queue.insert(&queue.buried()[0]);
        assert_eq!(drained(&queue, committed).await, ["0 acme 2026-01-14 Committed"]);
    }
}

#[tokio::test]
async fn a_message_that_asks_for_nothing_that_can_be_done_is_among_the_dead_letters_with_what_is_wrong() {
    let queue = MemoryQueue::new(NOW);
    queue.insert("not a job");
    queue.insert(r#"{"destination":"acmee","date":"2026-01-15"}"#);
    let ran = drained(&queue, committed).await;
    assert!(ran.is_empty(), "{ran:?}");
    let dead = buried(&queue);
    assert_eq!((&dead[0]["message"], &dead[0]["error"]["kind"]), (&json!("not a job"), &json!("vendor")));
    let message = dead[1]["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("there is no destination `acmee`, did you mean `acme`?"), "{message}");
}

#[tokio::test]
async fn a_paused_destination_rests_unless_a_person_asked() {
    let queue = MemoryQueue::new(NOW);
    queue.insert(r#"{"destination":"resting","date":"2026-01-14","then":["2026-01-15"],"scheduled":true}"#);
    let taken = deliver(&queue, |_, _| panic!("it rests")).await.unwrap();
    assert_eq!((taken.answer.unwrap().state, taken.is_done), (RunOutcome::Paused, true));
    assert!(bodies(&queue).is_empty());
    queue.insert(r#"{"destination":"resting","date":"2026-01-14"}"#);
    assert_eq!(drained(&queue, committed).await, ["0 resting 2026-01-14 Committed"]);
}

#[tokio::test]
async fn the_message_of_an_invocation_that_died_comes_back_soon_and_holds_up_no_other_day() {
    let queue = MemoryQueue::new(NOW);
    let body = r#"{"destination":"acme","date":"2026-01-14","then":["2026-01-15"]}"#;
    let id = queue.insert(body);
    let message = queue.receive(1, Duration::ZERO, VISIBILITY).await.unwrap().remove(0);
    let invocation = Invocation::until("id", 1_900_000, 1_000_000);
    // Killed while it works: its future is dropped.
    let settings = settings();
    let work = take(&queue, &settings, &message, &invocation, &Nobody, async |_: &Turn<'_>, _: Option<&str>| {
        std::future::pending::<RunAnswer>().await
    });
    assert!(work.now_or_never().is_none());
    let back = queue.visible_from(&id).unwrap() - NOW;
    assert!((15 * 60_000..=16 * 60_000).contains(&back), "a minute after its deadline, not after {VISIBILITY:?}: {back} ms");

    queue.advance(Duration::from_mins(16));
    let taken = deliver(&queue, |_, _| panic!("it is parted first")).await.unwrap();
    assert_eq!((taken.answer.unwrap().state, taken.is_done), (RunOutcome::Queued, true));
    assert_eq!(
        bodies(&queue),
        [json!({"destination": "acme", "date": "2026-01-14"}), json!({"destination": "acme", "date": "2026-01-15"})]
    );
}

#[tokio::test]
async fn a_message_of_which_the_queue_takes_no_next_comes_back_by_itself() {
    for (state, kind) in [(RunOutcome::Continued, None), (RunOutcome::Committed, None), (RunOutcome::Failed, Some(Kind::Vendor))]
    {
        let queue = MemoryQueue::new(NOW);
        queue.insert(r#"{"destination":"acme","date":"2026-01-14","then":["2026-01-15"]}"#);
        // Received, held for the invocation's time, then told to go on.
        queue.fail_on(3, Fault::Before);
        let taken =
            deliver(&queue, |turn, _| kind.map_or_else(|| RunAnswer::bare(&turn.run(), state), |kind| failed(turn, kind)));
        let taken = taken.await.unwrap();
        assert!(!taken.is_done, "{state:?}");
        assert!(taken.answer.unwrap().notes[0].contains("the work queue did not take"));
        assert_eq!(queue.messages().len(), 1);
        let ran = drained(&queue, committed).await;
        assert_eq!(ran, ["16 acme 2026-01-14 Committed", "16 acme 2026-01-15 Committed"], "{state:?}");
    }
}
