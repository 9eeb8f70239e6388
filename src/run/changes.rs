//! Days under circumstances that change: a commit of another day, another configuration, format or place, objects that come too late.

use std::collections::BTreeSet;

use super::answer::{RunAnswer, RunOutcome};
use super::due::{Due, due_days};
use super::whole_days::{A, Call, World};
use crate::domain::format::Format;
use crate::domain::layout::Prefix;
use crate::domain::run::Day;
use crate::store::memory::Fault;

const BEFORE: &str = "2026-01-14";
const DAY: &str = "2026-01-15";

fn day(text: &str) -> Day {
    text.parse().unwrap()
}

fn staged(destination: &str, days: &[&str]) -> World {
    let world = World::new(destination, "");
    for (number, day) in days.iter().enumerate() {
        world.stage_on(day, "a.ndjson", A);
        world.stage_on(day, "domains/d.ndjson", &format!("{{\"domain\":\"{number}.example\"}}\n"));
    }
    world
}

async fn commit(world: &World, call: Call<'_>) -> RunAnswer {
    let answer = world.call(call).await;
    assert_eq!(answer.state, RunOutcome::Committed, "{answer:?}");
    answer
}

/// The invocation dies at the customer's bucket as soon as `reached`: at the first call, the second, and so on, until it is.
async fn died_when(make: impl Fn() -> World, call: Call<'_>, reached: impl Fn(&World) -> bool) -> World {
    for nth in 1..100 {
        let world = make();
        world.customer.die_on(nth, Fault::Before);
        let answer = world.call(call).await;
        assert_eq!(answer.state, RunOutcome::Failed, "it is done before that is reached");
        world.customer.heal();
        if reached(&world) {
            return world;
        }
    }
    panic!("that is never reached");
}

fn is_recorded(world: &World) -> bool {
    world.head().open.values().any(|open| open.commit.is_some() && !open.landed)
}

fn keys(world: &World, part: &str) -> Vec<String> {
    world.landed().into_keys().filter(|key| key.contains(part)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_stands_is_told_to_stay_and_one_that_never_landed_is_no_news() {
    let world = staged("", &[BEFORE]);
    assert_eq!(commit(&world, Call::of(BEFORE)).await.notes, Vec::<String>::new());
    world.stage_on(DAY, "a.ndjson", A);
    let answer = commit(&world, Call::of(DAY)).await;
    assert_eq!(answer.notes, ["snapshot table `domains` stays as it stands: nothing was staged for it"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_commit_of_another_day_is_rolled_forward_before_a_day_is_run() {
    // It used to be that the day was exported whole, and then refused since the other's commit went first.
    let world = died_when(|| staged("", &[BEFORE, DAY]), Call::of(BEFORE), is_recorded).await;
    let answer = commit(&world, Call::of(DAY)).await;
    let note = "the commit of 2026-01-14, which was recorded and not finished, was rolled forward first";
    // Nor is it said every day that nothing was staged for `segment_metadata`, which never landed.
    assert_eq!(answer.notes, [note]);
    let head = world.head();
    assert_eq!(head.commits.keys().copied().collect::<Vec<_>>(), [day(BEFORE), day(DAY)]);
    assert!(head.open.is_empty());
    let clean = staged("", &[BEFORE, DAY]);
    commit(&clean, Call::of(BEFORE)).await;
    commit(&clean, Call::of(DAY)).await;
    assert_eq!(world.landed().into_keys().collect::<Vec<_>>(), clean.landed().into_keys().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_waits_for_another_days_recorded_commit_only_while_that_can_be_finished() {
    let mut world = died_when(|| staged("", &[BEFORE, DAY]), Call::of(BEFORE), is_recorded).await;
    world.customer.fail_on(1, Fault::Before);
    let answer = world.call(Call::of(DAY)).await;
    let error = answer.error.unwrap();
    assert_eq!(error.kind, "retryable");
    assert!(error.message.starts_with("the recorded commit of 2026-01-14 goes first: "), "{}", error.message);

    // An upload of it is gone for good.
    let (key, id) = world.customer.open_uploads().into_iter().next().unwrap();
    crate::store::ports::Multipart::abort(&world.customer, &key, &id).await.unwrap();
    world.now_millis += 8 * 86_400_000;
    let answer = commit(&world, Call::of(DAY)).await;
    assert!(answer.notes.iter().any(|note| note.contains("2026-01-14") && note.contains("`--force`")), "{:?}", answer.notes);
    assert!(world.head().open[&day(BEFORE)].dead);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_configuration_rolls_a_recorded_commit_forward_as_it_stands() {
    let mut world = died_when(|| staged("", &[DAY]), Call::of(DAY), is_recorded).await;
    world.settings.destinations[0].format = Format::Json;
    commit(&world, Call { configuration: "another", ..Call::of(DAY) }).await;
    let clean = staged("", &[DAY]);
    commit(&clean, Call::of(DAY)).await;
    assert_eq!(world.landed(), clean.landed(), "Parquet, as it was recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_configuration_starts_an_unfinished_export_over() {
    let has_shard = |world: &World| world.state.objects().keys().any(|key| key.contains("/shard-000-"));
    let mut world = died_when(|| staged("", &[DAY]), Call::of(DAY), has_shard).await;
    let left: BTreeSet<_> = world.customer.open_uploads().into_iter().collect();
    assert!(!left.is_empty());
    world.settings.destinations[0].format = Format::Json;
    commit(&world, Call { configuration: "another", ..Call::of(DAY) }).await;
    assert!(world.customer.open_uploads().is_empty(), "what the other configuration made is aborted");
    let clean = staged("format = \"json\"", &[DAY]);
    commit(&clean, Call::of(DAY)).await;
    assert_eq!(world.landed(), clean.landed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_again_in_another_format_leaves_nothing_of_the_old_one() {
    let mut world = staged("", &[BEFORE, DAY]);
    commit(&world, Call::of(BEFORE)).await;
    commit(&world, Call::of(DAY)).await;
    world.settings.destinations[0].format = Format::Json;
    commit(&world, Call { force: Some("again"), configuration: "another", ..Call::of(DAY) }).await;
    assert_eq!(
        keys(&world, ""),
        [
            "_dayport/2026-01-14.json",
            "_dayport/2026-01-15.json",
            "data/domains/data-000000000000.json.gz",
            "data/linkclick_events/year=2026/month=1/day=14/data-000000000000.parquet",
            "data/linkclick_events/year=2026/month=1/day=15/data-000000000000.json.gz",
            "data/pageview_events/year=2026/month=1/day=14/data-000000000000.parquet",
            "data/pageview_events/year=2026/month=1/day=15/data-000000000000.json.gz",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_moved_starts_anew_and_leaves_the_old_place_as_it_is() {
    let mut world = staged("", &["2026-01-12", DAY]);
    commit(&world, Call::of("2026-01-12")).await;
    commit(&world, Call::of(DAY)).await;
    let old = world.landed();
    world.settings.destinations[0].s3_prefix = Prefix::parse("elsewhere").unwrap();
    let due = due_days(&world.state, &world.settings.state, &world.settings.destinations[0], day(DAY), 7).await.unwrap();
    assert_eq!(due, [(Due::Own, day(DAY))], "it missed nothing, since nothing was ever there");
    commit(&world, Call { configuration: "another", ..Call::of(DAY) }).await;
    let (new, kept): (Vec<_>, Vec<_>) = world.landed().into_iter().partition(|(key, _)| key.starts_with("elsewhere/"));
    assert_eq!(kept.into_iter().collect::<std::collections::BTreeMap<_, _>>(), old);
    let of_the_day = |key: &&String| !key.contains("day=12") && !key.contains("-12.json");
    let names: Vec<&str> = new.iter().map(|(key, _)| key.strip_prefix("elsewhere/").unwrap()).collect();
    assert_eq!(names, old.keys().filter(of_the_day).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_days_backfill_leaves_a_later_days_snapshot_and_says_so() {
    let world = staged("format = \"json\"", &[BEFORE, DAY]);
    commit(&world, Call::of(DAY)).await;
    let standing = world.landed().remove("data/domains/data-000000000000.json.gz");
    let answer = commit(&world, Call::of(BEFORE)).await;
    assert!(answer.notes.iter().any(|note| note.contains("`domains` stays as it stands: what stands is of a later day")));
    assert_eq!(world.landed().remove("data/domains/data-000000000000.json.gz"), standing);
    assert_eq!(keys(&world, "day=14").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_come_after_a_commit_are_told_by_the_next_runs_until_a_forced_run_delivers_them() {
    let mut world = staged("format = \"json\"", &["2026-01-13", BEFORE, DAY, "2026-01-16"]);
    commit(&world, Call::of("2026-01-13")).await;
    commit(&world, Call::of(BEFORE)).await;
    world.stage_on(BEFORE, "late.ndjson", A);
    world.stage_on(BEFORE, "a.ndjson", &format!("{A}{A}"));
    world.stage_on(BEFORE, "_SUCCESS", "");
    let late = |answer: &RunAnswer| {
        answer.notes.iter().filter(|note| note.contains("after it was committed")).cloned().collect::<Vec<_>>()
    };
    let bytes = 3 * A.len();
    let told = format!(
        "2 staged objects ({bytes} bytes) came to 2026-01-14 after it was committed, run that day again with `--force` to deliver them"
    );
    assert_eq!(late(&commit(&world, Call::of(DAY)).await), [told]);
    assert_eq!(late(&commit(&world, Call { force: Some("mend"), ..Call::of(BEFORE) }).await), [""; 0]);
    assert_eq!(late(&commit(&world, Call::of("2026-01-16")).await), [""; 0]);

    world.stage_on("2026-01-13", "late.ndjson", A);
    world.settings.run.late_check_days = 2;
    assert_eq!(late(&commit(&world, Call { force: Some("b"), ..Call::of("2026-01-16") }).await), [""; 0], "three days back");
    world.settings.run.late_check_days = 3;
    assert_eq!(late(&commit(&world, Call { force: Some("c"), ..Call::of("2026-01-16") }).await).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_is_committed_though_late_objects_could_not_be_counted() {
    let world = staged("format = \"json\"", &[BEFORE, DAY]);
    commit(&world, Call::of(BEFORE)).await;
    // Its list of staged objects is damaged.
    let list = world.state.objects().into_keys().find(|key| key.contains("2026-01-14") && key.contains("/staged-")).unwrap();
    world.state.insert(&list, "{");
    let answer = commit(&world, Call::of(DAY)).await;
    assert!(answer.notes.iter().any(|note| note.contains("could not be counted") && note.contains(&list)), "{:?}", answer.notes);
}
