use std::cell::RefCell;
use std::sync::Mutex;

use super::*;
use crate::domain::error::Kind;
use crate::run::document;
use crate::run::head::{CommitRef, DayCommit, Head};
use crate::run::paths::Paths;
use crate::store::memory::MemoryBucket;

const CONFIGURATION: &str = r#"
[staging]
s3_bucket = "staging"
[state]
s3_bucket = "state"
[[destination]]
name = "acme"
s3_bucket = "acme"
[[destination]]
name = "globex"
s3_bucket = "globex"
lag_days = 2
[[destination]]
name = "resting"
s3_bucket = "resting"
enabled = false
"#;
const MARGIN: u64 = 60_000;

pub(super) fn settings() -> Settings {
    config::parse(CONFIGURATION, &Environment { function_memory: Some(3008 << 20), ..Environment::default() }).unwrap()
}

pub(super) fn day(text: &str) -> Day {
    text.parse().unwrap()
}

fn by_hand(from: &str, to: &str, names: &[&str]) -> Request {
    let destinations = names.iter().map(ToString::to_string).collect();
    Request::Days { from: day(from), to: day(to), destinations, force: false }
}

fn scheduled(destination: Option<&str>) -> Request {
    Request::Scheduled { time: 1_768_532_400_000_000, destination: destination.map(str::to_owned) }
}

fn planned(settings: &Settings, request: &Request) -> Vec<String> {
    let turns = turns(settings, request).unwrap();
    turns.iter().map(|turn| format!("{}{}", turn.run(), if turn.is_paused { " paused" } else { "" })).collect()
}

/// What the runs answer, and what was asked of them.
async fn driven(
    request: &Request,
    invocation: &Invocation,
    answer: impl Fn(&Turn<'_>) -> RunAnswer,
) -> (Vec<(String, RunOutcome)>, Vec<String>) {
    let settings = settings();
    let turns = turns(&settings, request).unwrap();
    let asked = RefCell::new(Vec::new());
    let answers = drive(&turns, MARGIN, invocation, &Nobody, async |turn: &Turn<'_>| {
        asked.borrow_mut().push(turn.run().to_string());
        answer(turn)
    })
    .await;
    let told = answers.iter().map(|answer| (format!("{} {}", answer.destination, answer.date), answer.state)).collect();
    (told, asked.into_inner())
}

fn committed(turn: &Turn<'_>) -> RunAnswer {
    RunAnswer::bare(&turn.run(), RunOutcome::Committed)
}

/// The same for a schedule, with what the heads in `state` say.
async fn planned_over(state: &MemoryBucket, request: &Request) -> Vec<String> {
    let settings = settings();
    let turns = covered(state, &settings, turns(&settings, request).unwrap()).await;
    let told = |turn: &Turn<'_>| format!("{:?} {}{}", turn.why, turn.run(), if turn.is_paused { " paused" } else { "" });
    turns.iter().map(told).collect()
}

fn head_of(settings: &Settings, name: &str, state: &MemoryBucket, change: impl Fn(&mut Head)) {
    let destination = settings.destinations.iter().find(|destination| destination.name == name).unwrap();
    let mut head = Head::new();
    change(&mut head);
    state.insert(&Paths::new(&settings.state, destination).head(), document::encode(&head).unwrap());
}

fn committed_on(head: &mut Head, of: &str) {
    head.commits.insert(day(of), DayCommit { commit: CommitRef { generation: 0, attempt: 0 }, forces: Vec::new() });
    head.first_commit = Some(head.first_commit.map_or(day(of), |first| first.min(day(of))));
}

#[tokio::test]
async fn a_schedule_covers_open_runs_and_missed_days_before_its_own_and_nothing_of_a_paused_destination() {
    let (settings, state) = (settings(), MemoryBucket::new());
    head_of(&settings, "acme", &state, |head| {
        head.begin(day("2026-01-09"), None, 1_000);
        committed_on(head, "2026-01-12");
    });
    head_of(&settings, "globex", &state, |head| committed_on(head, "2026-01-12"));
    head_of(&settings, "resting", &state, |head| committed_on(head, "2026-01-12"));
    let expected = [
        "Open acme 2026-01-09",
        "Missed acme 2026-01-13",
        "Missed globex 2026-01-13",
        "Missed acme 2026-01-14",
        "Own globex 2026-01-14",
        "Own acme 2026-01-15",
        "Own resting 2026-01-15 paused",
    ];
    assert_eq!(planned_over(&state, &scheduled(None)).await, expected);
    let own = ["Open acme 2026-01-09", "Missed acme 2026-01-13", "Missed acme 2026-01-14", "Own acme 2026-01-15"];
    assert_eq!(planned_over(&state, &scheduled(Some("acme"))).await, own);
    assert_eq!(planned_over(&state, &scheduled(Some("resting"))).await, ["Own resting 2026-01-15 paused"]);
}

#[tokio::test]
async fn a_destination_whose_head_can_not_be_read_fails_alone() {
    let (settings, state) = (settings(), MemoryBucket::new());
    head_of(&settings, "globex", &state, |head| committed_on(head, "2026-01-12"));
    let acme = settings.destinations.iter().find(|destination| destination.name == "acme").unwrap();
    state.insert(&Paths::new(&settings.state, acme).head(), "{");
    let turns = covered(&state, &settings, turns(&settings, &scheduled(None)).unwrap()).await;
    let answers = drive(&turns, MARGIN, &Invocation::unlimited("id"), &Nobody, async |turn: &Turn<'_>| committed(turn)).await;
    let told: Vec<String> =
        answers.iter().map(|answer| format!("{} {} {:?}", answer.destination, answer.date, answer.state)).collect();
    let expected =
        ["globex 2026-01-13 Committed", "globex 2026-01-14 Committed", "acme 2026-01-15 Failed", "resting 2026-01-15 Paused"];
    assert_eq!(told, expected);
    let error = answers[2].error.clone().unwrap();
    assert_eq!(error.kind, "vendor");
    assert!(error.message.starts_with("which days are due could not be found out: "), "{}", error.message);
}

#[tokio::test]
async fn a_day_that_fails_again_is_passed_over() {
    let (settings, state) = (settings(), MemoryBucket::new());
    head_of(&settings, "acme", &state, |head| {
        head.begin(day("2026-01-13"), None, 1_000);
        committed_on(head, "2026-01-12");
    });
    let turns = covered(&state, &settings, turns(&settings, &scheduled(Some("acme"))).unwrap()).await;
    let answers = drive(&turns, MARGIN, &Invocation::unlimited("id"), &Nobody, async |turn: &Turn<'_>| {
        if turn.day == day("2026-01-13") {
            RunAnswer::failed(&turn.run(), &Error::customer("no bucket, make it"))
        } else {
            committed(turn)
        }
    })
    .await;
    let told: Vec<(u8, RunOutcome)> = answers.iter().map(|answer| (answer.date.day(), answer.state)).collect();
    assert_eq!(told, [(13, RunOutcome::Failed), (14, RunOutcome::Committed), (15, RunOutcome::Committed)]);
}

#[test]
fn a_schedule_means_every_destination_with_its_own_lag_oldest_day_first() {
    assert_eq!(planned(&settings(), &scheduled(None)), ["globex 2026-01-14", "acme 2026-01-15", "resting 2026-01-15 paused"]);
    assert_eq!(planned(&settings(), &scheduled(Some("acme"))), ["acme 2026-01-15"]);
}

#[test]
fn a_destination_that_is_not_enabled_rests_unless_it_is_named_by_hand() {
    let settings = settings();
    assert_eq!(planned(&settings, &scheduled(Some("resting"))), ["resting 2026-01-15 paused"]);
    let all = by_hand("2026-01-15", "2026-01-15", &[]);
    assert_eq!(planned(&settings, &all), ["acme 2026-01-15", "globex 2026-01-15", "resting 2026-01-15 paused"]);
    let named = by_hand("2026-01-15", "2026-01-15", &["resting", "acme"]);
    assert_eq!(planned(&settings, &named), ["acme 2026-01-15", "resting 2026-01-15"]);
}

#[test]
fn days_by_hand_are_run_day_by_day_in_the_order_of_the_configuration() {
    let request = by_hand("2026-01-14", "2026-01-15", &["globex", "acme"]);
    assert_eq!(planned(&settings(), &request), ["acme 2026-01-14", "globex 2026-01-14", "acme 2026-01-15", "globex 2026-01-15"]);
}

#[test]
fn an_unknown_destination_is_named_with_the_nearest_and_all_that_there_are() {
    for (name, expected) in [
        ("acmee", "there is no destination `acmee`, did you mean `acme`? (there are `acme`, `globex`, `resting`)"),
        ("zzz", "there is no destination `zzz` (there are `acme`, `globex`, `resting`)"),
        ("a\nb", "there is no destination `a\u{fffd}b` (there are `acme`, `globex`, `resting`)"),
    ] {
        for request in [scheduled(Some(name)), by_hand("2026-01-15", "2026-01-15", &["acme", name])] {
            let error = turns(&settings(), &request).unwrap_err();
            assert_eq!((error.kind(), error.message()), (Kind::Vendor, expected));
        }
    }
}

#[tokio::test]
async fn every_run_is_tried_whatever_became_of_those_before_it() {
    let request = by_hand("2026-01-14", "2026-01-15", &["acme", "globex"]);
    let (told, asked) =
        driven(&request, &Invocation::unlimited("id"), |turn| match (turn.destination.name.as_str(), turn.day.day()) {
            ("acme", 14) => RunAnswer::failed(&turn.run(), &Error::customer("no bucket, make it")),
            ("globex", 14) => panic!("what {}", "now"),
            _ => committed(turn),
        })
        .await;
    assert_eq!(asked.len(), 4);
    let states: Vec<RunOutcome> = told.iter().map(|(_, state)| *state).collect();
    assert_eq!(states, [RunOutcome::Failed, RunOutcome::Failed, RunOutcome::Committed, RunOutcome::Committed]);
}

#[tokio::test]
async fn a_panic_is_a_bug_of_its_own_run() {
    let turn_id = RunId { destination: "acme".to_owned(), day: day("2026-01-15") };
    let answer = to_its_end(&turn_id, &Invocation::unlimited("id"), || async { panic!("object `{}`\nbroke", "a/b") }).await;
    let error = answer.error.unwrap();
    assert_eq!((error.kind, error.message.as_str()), ("bug", "dayport panicked: object `a/b`; broke, please report it"));
}

#[tokio::test]
async fn a_paused_destination_answers_without_being_run() {
    let (told, asked) = driven(&scheduled(Some("resting")), &Invocation::unlimited("id"), committed).await;
    assert_eq!(told, [("resting 2026-01-15".to_owned(), RunOutcome::Paused)]);
    assert!(asked.is_empty());
}

#[tokio::test]
async fn without_a_deadline_a_run_goes_on_until_it_has_ended() {
    let left = Mutex::new(3);
    let (told, asked) = driven(&scheduled(Some("acme")), &Invocation::unlimited("id"), |turn| {
        let mut left = left.lock().unwrap();
        *left -= 1;
        let state = if *left == 0 { RunOutcome::Committed } else { RunOutcome::Continued };
        RunAnswer { seconds: 1.5, ..RunAnswer::bare(&turn.run(), state) }
    })
    .await;
    assert_eq!(told, [("acme 2026-01-15".to_owned(), RunOutcome::Committed)]);
    assert_eq!(asked.len(), 3);
}

#[tokio::test]
async fn under_a_deadline_a_run_that_could_not_end_is_answered_and_its_later_days_are_not_begun() {
    let limited = Invocation::until("id", 1_900_000, 1_000_000);
    let request = by_hand("2026-01-14", "2026-01-15", &["acme", "globex"]);
    for waiting in [RunOutcome::Continued, RunOutcome::Busy] {
        let (told, asked) = driven(&request, &limited, |turn| match turn.destination.name.as_str() {
            "acme" => RunAnswer::bare(&turn.run(), waiting),
            _ => committed(turn),
        })
        .await;
        assert_eq!(asked, ["acme 2026-01-14", "globex 2026-01-14", "globex 2026-01-15"]);
        let states: Vec<RunOutcome> = told.iter().map(|(_, state)| *state).collect();
        assert_eq!(states, [waiting, RunOutcome::Committed, waiting, RunOutcome::Committed]);
    }
}

#[tokio::test]
async fn nothing_is_begun_within_the_margin_of_the_deadline() {
    let nearly_over = Invocation::until("id", 1_059_000, 1_000_000);
    let (told, asked) = driven(&scheduled(None), &nearly_over, committed).await;
    assert!(asked.is_empty());
    let states: Vec<RunOutcome> = told.iter().map(|(_, state)| *state).collect();
    assert_eq!(states, [RunOutcome::Continued, RunOutcome::Continued, RunOutcome::Paused]);
}

#[tokio::test]
async fn a_command_that_is_told_to_stop_begins_nothing_more_and_does_not_spin() {
    let invocation = Invocation::unlimited("id");
    let request = by_hand("2026-01-14", "2026-01-15", &["acme"]);
    let (told, asked) = driven(&request, &invocation, |turn| {
        invocation.stop();
        RunAnswer::bare(&turn.run(), RunOutcome::Continued)
    })
    .await;
    assert_eq!(asked, ["acme 2026-01-14"]);
    let states: Vec<RunOutcome> = told.iter().map(|(_, state)| *state).collect();
    assert_eq!(states, [RunOutcome::Continued, RunOutcome::Continued]);
}

#[tokio::test]
async fn a_function_whose_timeout_is_too_short_for_the_lease_is_refused_before_anything_begins() {
    let clients = Clients::from_environment(crate::store::s3::Retries::default()).await;
    let services = Services::new(settings(), &clients, &Environment::default());
    let short = Invocation::until("id", 1_100_000, 1_000_000);
    let failure = handle(&services, &scheduled(None), &short, &Nobody).await.unwrap_err();
    assert_eq!(failure.error.kind(), Kind::Vendor);
    assert!(failure.error.message().contains("timeout of 100s"), "{}", failure.error);
    assert!(failure.answer.is_none());
}

#[tokio::test]
async fn a_configuration_that_is_not_there_is_the_vendors_to_mend() {
    let clients = Clients::from_environment(crate::store::s3::Retries::default()).await;
    let environment = Environment::default();
    let error = Services::load(None, &clients, &environment).await.err().unwrap();
    assert!(error.kind() == Kind::Vendor && error.message().contains("`DAYPORT_CONFIG`"), "{error}");
    let error = Services::load(Some("no/such/file.toml"), &clients, &environment).await.err().unwrap();
    assert!(error.kind() == Kind::Vendor && error.to_string().contains("`no/such/file.toml`"), "{error}");
    let error = Services::load(Some("s3://bucket"), &clients, &environment).await.err().unwrap();
    assert_eq!(error.kind(), Kind::Vendor);
}

#[test]
fn a_crash_point_names_a_part_of_an_objects_key() {
    let environment = |point: &str| Environment { crash_point: Some(point.to_owned()), ..Environment::default() };
    assert_eq!(panic_on_object(&environment("panic_on_object=a/b.gz")).as_deref(), Some("a/b.gz"));
    assert_eq!(panic_on_object(&environment("something_else")), None);
    assert_eq!(panic_on_object(&Environment::default()), None);
}
