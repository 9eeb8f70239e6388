//! Whole lifecycles against buckets in memory, with fabricated files: what lands, what goes, and what happens when anything fails.

use super::clock::Clock as _;
use super::commit::roll_forward;
use super::head::{Begun, Head};
use super::lease::{Acquired, acquire};
use super::testing::{Answer, Staged, World, day};
use crate::domain::error::Kind;
use crate::store::memory::Fault;
use crate::store::operation::Operation;

fn first_day() -> Vec<Staged> {
    vec![
        ("0.json", vec![("pageview_events", 7), ("click_events", 2)]),
        ("1.json", vec![("pageview_events", 1)]),
        ("2.json", vec![("pageview_events", 3), ("aliases", 4)]),
        ("domains/a.json", vec![("domains", 12)]),
        ("segment_metadata/a.json", vec![("segment_metadata", 1)]),
    ]
}

/// The same day with less in it.
fn fewer() -> Vec<Staged> {
    vec![("0.json", vec![("pageview_events", 5), ("click_events", 1)]), ("domains/a.json", vec![("domains", 3)])]
}

fn committed(answer: Answer) -> Box<super::compose::CommitDocument> {
    match answer {
        Answer::Committed(done) => done,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_day_lands_once_and_the_second_trigger_changes_nothing() {
    let world = World::new("permutive");
    let done = committed(world.invoke("a", "2026-01-15", None, &first_day()).await.unwrap());
    let partition = "year=2026/month=1/day=15";
    let expected: Vec<String> = vec![
        "_dayport/2026-01-15.json".into(),
        format!("data/aliases/{partition}/data-000000001000.json.gz"),
        format!("data/click_events/{partition}/data-000000000000.json.gz"),
        "data/domains/data-000000000000.json.gz".into(),
        "data/domains/data-000000000001.json.gz".into(),
        "data/domains/data-000000000002.json.gz".into(),
        format!("data/pageview_events/{partition}/data-000000000000.json.gz"),
        format!("data/pageview_events/{partition}/data-000000000001.json.gz"),
        format!("data/pageview_events/{partition}/data-000000001000.json.gz"),
        "data/segment_metadata/data-000000000000.json.gz".into(),
    ];
    assert_eq!(world.landed(), expected);
    assert_eq!((done.counts.read, done.counts.delivered), (30, 30));
    let last_write = world.customer.calls().into_iter().next_back().unwrap();
    assert_eq!(last_write.key, "exports/_dayport/2026-01-15.json");

    let (calls, head) = (world.customer.call_count(), world.head());
    let again = world.invoke("b", "2026-01-15", None, &fewer()).await.unwrap();
    let Answer::Already(known) = again else { panic!("{again:?}") };
    assert_eq!(known, head.commits[&day("2026-01-15")]);
    assert_eq!(world.customer.call_count(), calls, "the customer's bucket was not touched");
    assert!(head.holder.is_none() && head.open.is_empty());
}

#[tokio::test]
async fn the_manifest_tells_the_customers_own_facts() {
    let world = World::new("permutive");
    let mut staged = first_day();
    staged.push(("3.json", vec![("click_events", 5), ("bad", 2)]));
    let done = committed(world.invoke("a", "2026-01-15", None, &staged).await.unwrap());
    let manifest = world.manifest("2026-01-15");
    assert_eq!((manifest.counts.read, manifest.counts.delivered, manifest.counts.quarantined), (37, 35, 2));
    let names: Vec<&str> = manifest.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["aliases", "click_events", "domains", "pageview_events", "segment_metadata"]);
    let clicks = &manifest.tables[1];
    assert_eq!((clicks.rows, clicks.files.len(), clicks.schema_version, clicks.largest_record), (7, 2, Some(1), 105));
    assert_eq!(clicks.columns[0].path, "c1");
    assert!(clicks.files.iter().all(|file| file.checksum.is_some() && file.partition == Some(day("2026-01-15"))));
    assert!(!done.manifest.contains("events/2026-01-15/"), "no staging key is told:\n{}", done.manifest);
    let copy = world.state.object(&world.paths().manifest(day("2026-01-15"), 0)).unwrap();
    assert_eq!(Some(copy), world.customer.object("exports/_dayport/2026-01-15.json"));
    assert_eq!(manifest.to_text().unwrap(), done.manifest);
}

#[tokio::test]
async fn a_rerun_with_fewer_files_deletes_exactly_what_it_no_longer_has() {
    let world = World::new("permutive");
    world.invoke("a", "2026-01-14", None, &first_day()).await.unwrap();
    world.invoke("b", "2026-01-15", None, &first_day()).await.unwrap();
    // Not ours, and right beside ours.
    let foreign = "exports/data/pageview_events/year=2026/month=1/day=15/data-000000007000.json.gz";
    world.customer.insert(foreign, "theirs");
    let before = world.customer.objects();
    let done = committed(world.invoke("c", "2026-01-15", Some("request 1"), &fewer()).await.unwrap());
    let after = world.customer.objects();

    let mut gone: Vec<&str> = before.keys().filter(|key| !after.contains_key(*key)).map(String::as_str).collect();
    gone.sort_unstable();
    assert_eq!(
        gone,
        [
            "exports/data/aliases/year=2026/month=1/day=15/data-000000001000.json.gz",
            "exports/data/domains/data-000000000001.json.gz",
            "exports/data/domains/data-000000000002.json.gz",
            "exports/data/pageview_events/year=2026/month=1/day=15/data-000000000001.json.gz",
            "exports/data/pageview_events/year=2026/month=1/day=15/data-000000001000.json.gz",
        ]
    );
    let manifest = world.manifest("2026-01-15");
    assert_eq!(manifest.generation, 1);
    assert_eq!(manifest.deleted, gone);
    assert_eq!(
        manifest.replaced,
        [
            "exports/data/click_events/year=2026/month=1/day=15/data-000000000000.json.gz",
            "exports/data/domains/data-000000000000.json.gz",
            "exports/data/pageview_events/year=2026/month=1/day=15/data-000000000000.json.gz",
        ]
    );
    assert!(done.notes.iter().any(|note| note.contains("`segment_metadata` stays")), "{:?}", done.notes);
    assert_eq!(world.head().snapshots[&"domains".parse_table()].files.len(), 1);

    let same = world.invoke("d", "2026-01-15", Some("request 1"), &first_day()).await.unwrap();
    assert!(matches!(same, Answer::Already(_)), "the same request again is the same re-run: {same:?}");
    let other = committed(world.invoke("e", "2026-01-15", Some("request 2"), &first_day()).await.unwrap());
    assert_eq!(other.commit.generation, 2);
    let full: Vec<String> = world.customer.objects().into_keys().filter(|key| key != foreign).collect();
    assert_eq!(full, before.into_keys().filter(|key| key != foreign).collect::<Vec<_>>());
}

trait ParseTable {
    fn parse_table(&self) -> crate::domain::table::TableName;
}

impl ParseTable for str {
    fn parse_table(&self) -> crate::domain::table::TableName {
        crate::domain::table::TableName::parse(self).unwrap()
    }
}

#[tokio::test]
async fn a_pontoon_rerun_adds_a_transfer_and_deletes_nothing() {
    let world = World::new("pontoon");
    world.invoke("a", "2026-01-15", None, &first_day()).await.unwrap();
    let before = world.customer.objects();
    world.invoke("b", "2026-01-15", Some("again"), &fewer()).await.unwrap();
    let after = world.customer.objects();
    let manifest_key = "exports/_dayport/2026-01-15.json";
    for (key, body) in before.iter().filter(|(key, _)| *key != manifest_key) {
        assert_eq!(after.get(key), Some(body), "{key}");
    }
    assert!(after.contains_key("exports/pageview_events/dt=2026-01-16/20260116070000_1768546800000_2.json.gz"));
    assert!(after.contains_key("exports/pageview_events/dt=2026-01-16/20260116070001_1768546801000_0.json.gz"));
    let manifest = world.manifest("2026-01-15");
    assert_eq!(manifest.transfer.as_ref().unwrap().timestamp, "20260116070001");
    assert_eq!(manifest.earlier_transfers.len(), 1);
    assert_eq!(manifest.earlier_transfers[0].transfer.batch_id, "1768546800000");
    let mut told: Vec<String> = manifest.files().map(|(_, file)| file.key.clone()).collect();
    told.sort();
    assert_eq!(told, after.keys().filter(|key| *key != manifest_key).cloned().collect::<Vec<_>>());
    assert!(manifest.deleted.is_empty() && manifest.replaced.is_empty());
    let deletes = world.customer.calls().into_iter().filter(|call| call.operation == Operation::DeleteObject);
    assert_eq!(deletes.count(), 0);
}

#[tokio::test]
async fn an_older_days_snapshot_leaves_the_one_that_stands() {
    let world = World::new("permutive");
    world.invoke("a", "2026-01-15", None, &first_day()).await.unwrap();
    let standing = world.customer.object("exports/data/domains/data-000000000000.json.gz");
    let pointers = world.head().snapshots;
    let done = committed(world.invoke("b", "2026-01-14", None, &first_day()).await.unwrap());
    assert_eq!(world.head().snapshots, pointers);
    assert_eq!(world.customer.object("exports/data/domains/data-000000000000.json.gz"), standing);
    assert!(
        done.notes.iter().any(|note| note.contains("`domains` stays as it stands: what stands is of a later day")),
        "{:?}",
        done.notes
    );
    assert_eq!(done.counts.delivered, 17, "the snapshots' 13 rows did not land and are not counted");
    assert!(world.customer.open_uploads().is_empty(), "their uploads are given up");
    let tables = world.manifest("2026-01-14").tables;
    assert!(tables.iter().all(|table| table.name.as_str() != "domains"));
}

#[tokio::test]
async fn an_empty_snapshot_replaces_only_where_that_is_allowed() {
    let mut world = World::new("permutive");
    world.invoke("a", "2026-01-14", None, &first_day()).await.unwrap();
    let mut staged = first_day();
    staged[3].1.clear();
    let done = committed(world.invoke("b", "2026-01-15", None, &staged).await.unwrap());
    assert!(done.notes.iter().any(|note| note.contains("has no rows")), "{:?}", done.notes);
    assert_eq!(world.head().snapshots[&"domains".parse_table()].day, day("2026-01-14"));
    world.destination.allow_empty_snapshot = true;
    world.invoke("c", "2026-01-16", None, &staged).await.unwrap();
    assert!(world.landed().iter().all(|key| !key.contains("data/domains/")), "{:?}", world.landed());
    assert_eq!(world.manifest("2026-01-16").tables.iter().find(|table| table.name.as_str() == "domains").unwrap().rows, 0);
}

#[tokio::test]
async fn a_snapshot_with_too_many_quarantined_records_stays() {
    let world = World::new("permutive");
    world.invoke("a", "2026-01-14", None, &first_day()).await.unwrap();
    let mut staged = first_day();
    staged[3].1 = vec![("domains", 90), ("bad", 10)];
    let done = committed(world.invoke("b", "2026-01-15", None, &staged).await.unwrap());
    assert!(done.notes.iter().any(|note| note.contains("quarantined than")), "{:?}", done.notes);
    assert_eq!((done.counts.quarantined, done.counts.delivered), (10, 18));
    done.counts.check_balance("the run").unwrap();
    assert_eq!(world.head().snapshots[&"domains".parse_table()].day, day("2026-01-14"));
}

#[tokio::test]
async fn too_many_quarantined_records_stop_the_run_before_anything_can_be_seen() {
    let mut world = World::new("permutive");
    world.settings.run.max_quarantine_records = 5;
    let mut staged = first_day();
    staged.push(("9.json", vec![("bad", 6)]));
    let error = world.invoke("a", "2026-01-15", None, &staged).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Vendor);
    assert!(error.to_string().contains("`events/2026-01-15/9.json` (6)"), "{error}");
    assert!(world.landed().is_empty());
}

/// How many calls to the customer's bucket a run makes until `reached`; a run that dies at the next one has just got there.
async fn customers_calls_until(prepare: impl AsyncFn() -> World, staged: &[Staged], reached: impl Fn(&World) -> bool) -> usize {
    for nth in 1.. {
        let trial = prepare().await;
        trial.customer.die_on(nth, Fault::Before);
        trial.invoke("trial", "2026-01-15", Some("again"), staged).await.unwrap_err();
        if reached(&trial) {
            return nth;
        }
    }
    unreachable!()
}

/// A world whose run of day 15, forced as `again`, died as soon as `reached`.
async fn died_when(prepare: impl AsyncFn() -> World, staged: &[Staged], reached: impl Fn(&World) -> bool) -> World {
    let nth = customers_calls_until(&prepare, staged, &reached).await;
    let world = prepare().await;
    world.customer.die_on(nth, Fault::Before);
    world.invoke("x", "2026-01-15", Some("again"), staged).await.unwrap_err();
    world.customer.heal();
    assert!(reached(&world));
    world
}

fn creates(world: &World) -> usize {
    world.customer.calls().iter().filter(|call| call.operation == Operation::CreateMultipartUpload).count()
}

async fn with_one_finished_shard() -> World {
    let has_shard = |world: &World| world.state.objects().keys().any(|key| key.contains("/shard-000-"));
    died_when(async || World::new("permutive"), &first_day(), has_shard).await
}

#[tokio::test]
async fn a_killed_export_goes_on_from_its_finished_shards() {
    let world = with_one_finished_shard().await;
    let begun = creates(&world);
    committed(world.invoke("b", "2026-01-15", None, &first_day()).await.unwrap());
    let clean = World::new("permutive");
    clean.invoke("a", "2026-01-15", None, &first_day()).await.unwrap();
    let of_first_shard = 3;
    assert_eq!(creates(&world) - begun, creates(&clean) - of_first_shard);
    assert_eq!(world.customer.objects(), clean.customer.objects());
    assert!(world.customer.open_uploads().is_empty());
}

#[tokio::test]
async fn another_build_starts_over_and_aborts_what_the_old_one_finished() {
    let mut world = with_one_finished_shard().await;
    let (begun, left) = (creates(&world), world.customer.open_uploads());
    assert_eq!(left.len(), 3);
    world.build = "build 2".into();
    let done = committed(world.invoke("b", "2026-01-15", None, &first_day()).await.unwrap());
    let clean = World::new("permutive");
    clean.invoke("a", "2026-01-15", None, &first_day()).await.unwrap();
    assert_eq!(creates(&world) - begun, creates(&clean));
    assert!(done.files().all(|file| !left.contains(&(file.upload.key.clone(), file.upload.id.clone()))));
    assert!(world.customer.open_uploads().is_empty());
}

#[tokio::test]
async fn other_staged_objects_start_the_export_over() {
    let world = with_one_finished_shard().await;
    let mut staged = first_day();
    staged[0].1[0].1 += 1;
    let done = committed(world.invoke("b", "2026-01-15", None, &staged).await.unwrap());
    assert_eq!(done.counts.delivered, 31);
    assert!(world.customer.open_uploads().is_empty());
}

fn has_landed(world: &World) -> bool {
    world.head().open.get(&day("2026-01-15")).is_some_and(|open| open.landed)
}

/// A world in which day 14 landed, and day 15 too if it is to be run again.
async fn prepared(layout: &str, is_rerun: bool) -> World {
    let world = World::new(layout);
    world.invoke("before 14", "2026-01-14", None, &first_day()).await.unwrap();
    if is_rerun {
        world.invoke("before 15", "2026-01-15", None, &first_day()).await.unwrap();
    }
    world
}

/// Fails the nth call to one of the two buckets, for every n, then runs again, and compares with a clean run. With `twice` the run after it
/// dies as well, at a call of either bucket that follows from n and that number.
async fn sweep(layout: &str, is_rerun: bool, at_customer: bool, fault: Fault, dies: bool, twice: Option<usize>) -> usize {
    let (force, staged) = if is_rerun { (Some("again"), fewer()) } else { (None, first_day()) };
    let clean = prepared(layout, is_rerun).await;
    let before = clean.customer.objects();
    clean.invoke("clean", "2026-01-15", force, &staged).await.unwrap();
    for nth in 1.. {
        let world = prepared(layout, is_rerun).await;
        let target = if at_customer { &world.customer } else { &world.state };
        let calls_before = target.call_count();
        if dies {
            target.die_on(nth, fault);
        } else {
            target.fail_on(nth, fault);
        }
        let first = world.invoke("first", "2026-01-15", force, &staged).await;
        let was_struck = target.call_count() - calls_before >= nth;
        target.heal();
        let mut what =
            format!("{layout}, rerun {is_rerun}, customer {at_customer}, {fault:?}, dies {dies}, call {nth}: {first:?}");
        let shows_nothing_early = |what: &str| {
            let head = world.head();
            let is_recorded = head.open.get(&day("2026-01-15")).is_some_and(|open| open.commit.is_some());
            let done =
                |head: &Head| head.commits.get(&day("2026-01-15")).map(|done| (done.commit.generation, done.forces.clone()));
            if !is_recorded && done(&head) != done(&clean.head()) {
                assert_eq!(world.customer.objects(), before, "nothing can be seen before the commit is recorded: {what}");
            }
        };
        shows_nothing_early(&what);
        if let Some(other) = twice {
            let target = if (nth + other).is_multiple_of(2) { &world.customer } else { &world.state };
            let call = 1 + (nth * 5 + other * 11) % 40;
            target.die_on(call, if other.is_multiple_of(2) { Fault::Before } else { Fault::After });
            let between = world.invoke("between", "2026-01-15", force, &staged).await;
            target.heal();
            what = format!("{what}, then call {call} of {other}: {between:?}");
            shows_nothing_early(&what);
        }
        let second = world.invoke("second", "2026-01-15", force, &staged).await;
        assert!(matches!(second, Ok(Answer::Committed(_) | Answer::Already(_))), "{what}, then {second:?}");
        assert_eq!(world.customer.objects(), clean.customer.objects(), "{what}");
        let recorded = world.recorded_uploads();
        let open = world.customer.open_uploads();
        assert!(
            open.iter().all(|(key, id)| !recorded.iter().any(|upload| upload.id == *id && upload.key == *key)),
            "{what}: {open:?}"
        );
        let (mut head, mut expected) = (world.head(), clean.head());
        for head in [&mut head, &mut expected] {
            (head.counter, head.holder, head.write) = (0, None, String::new());
            head.commits.values_mut().for_each(|done| done.commit.attempt = 0);
        }
        assert_eq!(head, expected, "{what}");
        let registry =
            |world: &World| world.state.objects().into_iter().filter(|(key, _)| key.contains("/registry/")).collect::<Vec<_>>();
        assert_eq!(registry(&world), registry(&clean), "{what}");
        let third = world.invoke("third", "2026-01-15", force, &staged).await.unwrap();
        assert!(matches!(third, Answer::Already(_)), "{what}, at last {third:?}");
        if !was_struck {
            return nth;
        }
    }
    unreachable!()
}

#[tokio::test]
async fn any_one_call_may_fail_or_be_the_last_and_running_again_gives_what_a_clean_run_gives() {
    for layout in ["permutive", "pontoon"] {
        for is_rerun in [false, true] {
            for at_customer in [false, true] {
                for fault in [Fault::Before, Fault::After] {
                    for dies in [false, true] {
                        let calls = sweep(layout, is_rerun, at_customer, fault, dies, None).await;
                        assert!(calls > 10, "a run makes more than {calls} calls");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_run_that_dies_and_whose_successor_dies_as_well_still_comes_to_what_a_clean_one_gives() {
    for layout in ["permutive", "pontoon"] {
        for is_rerun in [false, true] {
            for at_customer in [false, true] {
                for twice in 0..4 {
                    let fault = if twice < 2 { Fault::Before } else { Fault::After };
                    let calls = sweep(layout, is_rerun, at_customer, fault, true, Some(twice)).await;
                    assert!(calls > 10, "a run makes more than {calls} calls");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_watcher_waits_one_lease_for_a_living_holder_and_takes_over_from_a_dead_one() {
    let world = World::new("permutive");
    let lease = world.settings.state.lease;
    let paths = world.paths();
    let Acquired::Held(living) = acquire(&world.state, &world.clock, &paths, lease, "living").await.unwrap() else { panic!() };
    let started = world.clock.now();
    let watch = acquire(&world.state, &world.clock, &paths, lease, "watcher");
    let (watched, kept) = tokio::join!(watch, async {
        for _ in 0..12 {
            living.renew().await.unwrap();
            tokio::task::yield_now().await;
        }
        world.since(started)
    });
    assert!(matches!(watched.unwrap(), Acquired::Busy(holder) if holder == "living"));
    assert!(kept <= lease + lease / 5, "{kept:?}");

    let started = world.clock.now();
    let Acquired::Held(second) = acquire(&world.state, &world.clock, &paths, lease, "second").await.unwrap() else { panic!() };
    let waited = world.since(started);
    assert!(waited >= lease && waited <= lease + lease / 10, "{waited:?}");
    let error = living.renew().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retryable);
    assert!(living.is_lost().await && living.validate().await.is_err());
    living.release().await.unwrap();
    second.renew().await.unwrap();
    second.release().await.unwrap();
    assert!(world.head().holder.is_none());
}

#[tokio::test]
async fn a_stalled_holder_that_wakes_after_a_takeover_changes_nothing() {
    let world = prepared("permutive", true).await;
    let (of, lease_time, paths) = (day("2026-01-15"), world.settings.state.lease, world.paths());
    let Acquired::Held(stalled) = acquire(&world.state, &world.clock, &paths, lease_time, "stalled").await.unwrap() else {
        panic!()
    };
    let Begun::Open(open) = stalled.begin(of, Some("again"), world.now_millis).await.unwrap() else { panic!() };
    let staged = first_day();
    let mut journal = world.journal(&stalled, of, &open, &staged).await.unwrap();
    let plan = world.plan(of, &staged).unwrap();
    let mut last = None;
    for shard in &plan.shards {
        let done = world.export(&journal, &world.customer, &plan, shard, of, &staged).await.unwrap();
        if Some(shard) == plan.shards.last() {
            last = Some(done);
        } else {
            journal.record_shard(super::journal::Pass::First, done).await.unwrap();
        }
    }
    // It stalls before the last shard is noted. Another comes, aborts that shard's uploads, and commits the same re-run.
    committed(world.invoke("other", "2026-01-15", Some("again"), &staged).await.unwrap());
    let (landed, calls) = (world.customer.objects(), world.customer.call_count());
    // It used to be that a shard noted now would count as finished, and its aborted uploads as completed.
    journal.record_shard(super::journal::Pass::First, last.unwrap()).await.unwrap();
    let error = world.commit(&stalled, &journal, &world.customer, &plan).await.unwrap_err();
    assert!(error.to_string().contains("took over"), "{error}");
    assert_eq!((world.customer.objects(), world.customer.call_count()), (landed, calls));
}

#[tokio::test]
async fn a_holder_that_stalls_in_its_commit_deletes_nothing_after_a_takeover() {
    // The re-run with fewer files is recorded and landed, and stops before it deletes.
    let world = died_when(async || prepared("permutive", true).await, &fewer(), has_landed).await;
    let (lease_time, paths) = (world.settings.state.lease, world.paths());
    let Acquired::Held(stalled) = acquire(&world.state, &world.clock, &paths, lease_time, "stalled").await.unwrap() else {
        panic!()
    };
    // Another finishes it, and a further re-run brings the deleted keys back.
    world.invoke("other", "2026-01-15", Some("again"), &fewer()).await.unwrap();
    world.invoke("third", "2026-01-15", Some("once more"), &first_day()).await.unwrap();
    let landed = world.customer.objects();
    let error = roll_forward(&stalled, &world.customer, day("2026-01-15"), world.now_millis).await.unwrap_err();
    assert!(error.to_string().contains("took over"), "{error}");
    assert_eq!(world.customer.objects(), landed);
}

/// Day 15's re-run is recorded, and one of its uploads is gone.
async fn recorded_with_a_missing_upload() -> World {
    let is_recorded = |world: &World| world.head().open.get(&day("2026-01-15")).is_some_and(|open| open.commit.is_some());
    let world = died_when(async || prepared("permutive", true).await, &fewer(), is_recorded).await;
    let (key, id) = world.customer.open_uploads().into_iter().next().unwrap();
    crate::store::ports::Multipart::abort(&world.customer, &key, &id).await.unwrap();
    world
}

#[tokio::test]
async fn an_upload_that_is_unknown_within_seven_days_was_completed() {
    let mut world = recorded_with_a_missing_upload().await;
    world.now_millis += 7 * 86_400_000 - 1;
    committed(world.invoke("y", "2026-01-15", None, &fewer()).await.unwrap());
    assert!(world.head().open.is_empty());
}

#[tokio::test]
async fn an_upload_that_is_unknown_after_seven_days_kills_the_commit_and_a_forced_rerun_mends_the_day() {
    let mut world = recorded_with_a_missing_upload().await;
    world.now_millis += 7 * 86_400_000;
    let error = world.invoke("y", "2026-01-15", None, &fewer()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Vendor);
    assert!(error.to_string().contains("--force"), "{error}");
    assert!(world.customer.open_uploads().is_empty());
    assert_eq!(world.invoke("z", "2026-01-15", None, &fewer()).await.unwrap(), Answer::Dead);
    // No other day is held up, and the dead commit's schema versions are not given again.
    let registry = world.head().registry;
    committed(world.invoke("other day", "2026-01-16", None, &first_day()).await.unwrap());
    assert!(registry.iter().all(|(table, version)| world.head().registry[table] >= *version));
    let mended = committed(world.invoke("forced", "2026-01-15", Some("mend"), &fewer()).await.unwrap());
    assert_eq!(mended.commit.generation, 2);
    let clean = prepared("permutive", true).await;
    clean.invoke("a", "2026-01-15", Some("again"), &fewer()).await.unwrap();
    let of_day = |world: &World| world.landed().into_iter().filter(|key| key.contains("day=15")).collect::<Vec<_>>();
    assert_eq!(of_day(&world), of_day(&clean));
    assert!(world.head().broken.is_empty() && world.head().open.is_empty());
}

#[tokio::test]
async fn a_commit_that_can_not_delete_yet_holds_up_no_later_day_and_spares_its_snapshot() {
    let world = died_when(async || prepared("permutive", true).await, &fewer(), has_landed).await;
    committed(world.invoke("next day", "2026-01-16", None, &first_day()).await.unwrap());
    committed(world.invoke("y", "2026-01-15", None, &fewer()).await.unwrap());
    let domains: Vec<String> = world.landed().into_iter().filter(|key| key.starts_with("data/domains/")).collect();
    assert_eq!(domains.len(), 3, "day 16's three files stand, though day 15 left two of these names over: {domains:?}");
    assert_eq!(world.head().snapshots[&"domains".parse_table()].day, day("2026-01-16"));
}

#[tokio::test]
async fn a_recorded_commit_of_one_day_goes_before_any_other_days() {
    let world = recorded_with_a_missing_upload().await;
    let error = world.invoke("other day", "2026-01-16", None, &first_day()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retryable);
    assert!(error.to_string().contains("2026-01-15 is recorded"), "{error}");
    assert!(world.landed().iter().all(|key| !key.contains("day=16")));
}
