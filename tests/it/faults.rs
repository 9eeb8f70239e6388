//! Days that go wrong: bodies that break, objects that change or are damaged, too many of anything, and days that are not complete.

use std::collections::BTreeMap;
use std::io::Write as _;

use bytes::Bytes;
use dayport::run::answer::{RunAnswer, RunOutcome};
use dayport::run::document;
use dayport::run::driver::Progress;
use dayport::run::head::Head;
use dayport::run::journal::OpenUpload;
use dayport::store::memory::{Fault, MemoryBucket};
use futures_util::future::join_all;

use crate::json::Json;
use crate::landed::json_lines;
use crate::world::{Configuration, World};

const DAY: &str = "2026-01-15";

fn json() -> Configuration {
    Configuration::new().with("destination.format", "\"json\"")
}

fn record(event: &str, n: usize) -> String {
    format!("{{\"event_name\":\"{event}\",\"time\":\"2026-01-15T10:00:00Z\",\"properties\":{{\"n\":{n}}}}}\n")
}

fn records(event: &str, count: usize) -> String {
    (0..count).map(|n| record(event, n)).collect()
}

fn gzip(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_ref()).unwrap();
    encoder.finish().unwrap()
}

/// A failed run: its kind and message, with nothing that the customer could see.
fn failed(world: &World, answer: &RunAnswer) -> (&'static str, String) {
    assert_eq!(answer.state, RunOutcome::Failed, "{answer:?}");
    assert!(world.customer.objects().is_empty(), "nothing becomes visible");
    let error = answer.error.clone().unwrap();
    assert!(!error.message.contains('\n') && !error.message.ends_with('.'), "{}", error.message);
    (error.kind, error.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_break_again_and_again_give_the_same_bytes() {
    for format in ["\"json\"", "\"parquet\""] {
        let mut expected: Option<BTreeMap<String, Bytes>> = None;
        for breaks_after in [None, Some(1), Some(2), Some(7), Some(100), Some(1013)] {
            let world = World::new(&json().with("destination.format", format));
            world.stage(DAY, "a.gz", gzip(records("Pageview", 300)));
            world.stage(DAY, "b", records("LinkClick", 20));
            world.stage(DAY, "c.zst", zstd::encode_all(records("pageview", 50).as_bytes(), 3).unwrap());
            world.staging.break_bodies_after(breaks_after);
            world.commit(DAY).await;
            let landed = world.customer.objects();
            assert_eq!(landed, *expected.get_or_insert_with(|| landed.clone()), "bodies that break after {breaks_after:?} bytes");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_changes_or_vanishes_while_it_is_read_fails_the_run_and_shows_nothing() {
    // Whenever it happens: the list is taken first, and every read after it asks for the listed ETag.
    for vanishes in [false, true] {
        let world = World::new(&json());
        world.stage(DAY, "a", records("Pageview", 10));
        world.stage(DAY, "b", records("Pageview", 10));
        let key = format!("events/{DAY}/b");
        let staging = world.staging.clone();
        let progress = move |progress: Progress| {
            // The day was listed, and is not read yet.
            if matches!(progress, Progress::Total(_)) {
                if vanishes {
                    staging.remove(&key)
                } else {
                    staging.insert(&key, records("Pageview", 11))
                };
            }
        };
        let answer = world.run_watched(DAY, &progress).await;
        let (kind, message) = failed(&world, &answer);
        assert_eq!(kind, "retryable", "{message}");
        assert!(message.contains("events/2026-01-15/b"), "{message}");
        if !vanishes {
            assert_eq!(world.run(DAY).await.counts.delivered, 21, "the next invocation takes it as it is now");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_objects_are_listed_page_by_page_and_read_in_key_order() {
    let world = World::new(&json().with("run.threads", "3"));
    for n in 0..5_000 {
        world.stage(DAY, &format!("part-{n:05}"), record("Pageview", n));
    }
    for marker in ["folder/", "_SUCCESS", ".hidden", "x/_temporary/part", "_logs/a"] {
        world.stage(DAY, marker, "not a record");
    }
    let answer = world.commit(DAY).await;
    assert_eq!((answer.counts.read, answer.counts.delivered), (5_000, 5_000));
    let landed = world.landed();
    let lines: Vec<String> = landed.keys().iter().flat_map(|key| json_lines(&landed.objects[*key])).collect();
    let staged: Vec<String> = (0..5_000).map(|n| record("Pageview", n).trim_end().to_owned()).collect();
    assert_eq!(lines, staged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_object_fails_the_run_by_name_or_is_left_out_whole() {
    let good = gzip(records("Pageview", 100));
    let mut bad_crc = good.clone();
    let crc = bad_crc.len() - 8;
    bad_crc[crc] ^= 1;
    let damaged: [(&str, Vec<u8>); 5] = [
        ("cut.gz", good[..good.len() / 2].to_vec()),
        ("crc.gz", bad_crc),
        ("tail.gz", [good.as_slice(), b"tail"].concat()),
        ("cut.zst", zstd::encode_all(records("Pageview", 100).as_bytes(), 3).unwrap()[..60].to_vec()),
        ("thrice.gz", gzip(gzip(gzip(records("Pageview", 1))))),
    ];
    for (name, body) in damaged {
        let world = World::new(&json());
        world.stage(DAY, "good", records("Pageview", 5));
        world.stage(DAY, name, body.clone());
        let (kind, message) = failed(&world, &world.run(DAY).await);
        assert!(kind == "vendor" && message.contains(name), "{kind}: {message}");

        let world = World::new(&json().with("staging.on_damaged_object", "\"skip\""));
        world.stage(DAY, "good", records("Pageview", 5));
        world.stage(DAY, name, body);
        world.stage(DAY, "zz", records("LinkClick", 5));
        let answer = world.commit(DAY).await;
        assert_eq!((answer.counts.read, answer.counts.delivered), (10, 10), "{name}: none of it is counted or delivered");
        assert!(answer.notes.iter().any(|note| note.contains(name)), "{:?}", answer.notes);
        assert_eq!(world.quarantine(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_damaged_objects_are_all_left_out() {
    let world = World::new(&json().with("staging.on_damaged_object", "\"skip\"").with("run.shard_size", "200"));
    let good = gzip(records("Pageview", 100));
    for n in 0..6 {
        let body = if n % 2 == 0 { good[..good.len() - n - 1].to_vec() } else { good.clone() };
        world.stage(DAY, &format!("{n}.gz"), body);
    }
    let answer = world.commit(DAY).await;
    let left_out: Vec<&String> = answer.notes.iter().filter(|note| note.contains("left out")).collect();
    assert_eq!((answer.counts.delivered, left_out.len()), (300, 3), "{:?}", answer.notes);
    assert_eq!(
        left_out[0],
        "object `events/2026-01-15/0.gz` is damaged and was left out: its gzip ends in the middle, stage the whole object again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_waits_for_its_marker_and_for_its_first_object() {
    let world = World::new(&json().with("staging.require_marker", "\"_SUCCESS\""));
    world.stage(DAY, "a", record("Pageview", 1));
    world.stage(DAY, "_SUCCESS.tmp", "");
    let (kind, message) = failed(&world, &world.run(DAY).await);
    assert!(kind == "retryable" && message.contains("_SUCCESS"), "{kind}: {message}");
    world.stage(DAY, "_SUCCESS", "");
    assert_eq!(world.commit(DAY).await.counts.delivered, 1);

    let world = World::new(&json());
    world.stage(DAY, "_SUCCESS", "");
    let (kind, message) = failed(&world, &world.run(DAY).await);
    assert!(kind == "retryable" && message.contains(&format!("events/{DAY}/")), "{kind}: {message}");

    let world = World::new(&json().with("staging.allow_empty_day", "true"));
    let answer = world.commit(DAY).await;
    assert_eq!(answer.counts.read, 0);
    assert_eq!(world.customer.objects().into_keys().collect::<Vec<_>>(), [format!("_dayport/{DAY}.json")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_more_tables_than_there_may_be_are_quarantined_and_leave_no_trace() {
    // Later shards used to take them: a table whose records were all rejected counted as one that the run has.
    for format in ["\"json\"", "\"parquet\""] {
        let configuration = json()
            .with("destination.format", format)
            .with("run.max_tables", "2")
            .with("run.shard_size", "1")
            .with("run.max_quarantine_ratio", "1.0");
        let world = World::new(&configuration);
        world.stage(DAY, "1", records("a", 2) + &record("b", 0) + &record("c", 0) + &record("a", 3));
        world.stage(
            DAY,
            "2",
            record("c", 1) + &record("b", 1) + "{\"event_name\":\"d\",\"time\":1768471200,\"n\":\"rescued?\"}\n",
        );
        world.stage(DAY, "aliases/3", "{\"alias\":1}\n");
        world.stage(DAY, "domains/4", "{\"domain\":1}\n");
        let answer = world.commit(DAY).await;
        let counts = answer.counts;
        assert_eq!((counts.read, counts.delivered, counts.quarantined, counts.rescued), (10, 7, 3, 0));
        assert_eq!(answer.quarantine.reasons, BTreeMap::from([("too_many_tables".to_owned(), 3)]));
        let tables: Vec<String> = answer.tables.iter().map(|table| table.name.to_string()).collect();
        assert_eq!(tables, ["a_events", "aliases", "b_events", "domains"], "reference tables are no event tables");
        let held = world.quarantine();
        assert_eq!(held[0].get("text").and_then(Json::text), Some(record("c", 0).trim_end()));
        assert_eq!(held[0].get("line"), Some(&Json::Number("4".into())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_a_share_of_bad_records_fails_the_run_and_says_what_led() {
    let configuration = json().with("run.max_quarantine_ratio", "0.1").with("run.max_quarantine_records", "5");
    for (good, bad, fails) in [(50, 5, false), (59, 6, false), (50, 6, true)] {
        let world = World::new(&configuration);
        world.stage(DAY, "good", records("Pageview", good));
        world.stage(DAY, "bad", "no\n".repeat(bad));
        let answer = world.run(DAY).await;
        if fails {
            let (kind, message) = failed(&world, &answer);
            assert!(kind == "vendor" && message.contains("not_json") && message.contains("/bad"), "{kind}: {message}");
        } else {
            assert_eq!(answer.state, RunOutcome::Committed, "{good} and {bad}: {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_late_days_each_get_their_partition_and_never_share_a_name() {
    for format in ["\"json\"", "\"parquet\""] {
        let configuration = json()
            .with("destination.format", format)
            .with("destination.partition_by", "\"time\"")
            .with("destination.max_lateness_days", "400")
            .with("run.max_quarantine_ratio", "1.0")
            .with_sections("[event_tables]\ncolumns = { time = \"timestamp\" }");
        let world = World::new(&configuration);
        let at = |days_ago: i64, n: usize| {
            let seconds = 1_768_435_200 - days_ago * 86_400 + i64::try_from(n).unwrap() % 86_400;
            format!("{{\"event_name\":\"Pageview\",\"time\":{seconds},\"n\":{n}}}\n")
        };
        let late: String = (0..3_000).map(|n| at(i64::try_from(n).unwrap() * 7 % 401, n)).collect();
        world.stage(DAY, "late", late);
        world.stage(DAY, "outside", at(401, 0) + &at(-2, 0) + &at(-1, 0));
        let answer = world.commit(DAY).await;
        assert_eq!((answer.counts.delivered, answer.counts.quarantined), (3_001, 2));
        assert_eq!(answer.quarantine.reasons, BTreeMap::from([("late".to_owned(), 2)]));
        let [table] = answer.tables.as_slice() else { panic!("{:?}", answer.tables) };
        assert_eq!(table.files.len(), 402);
        assert_eq!(table.files.iter().map(|file| file.rows).sum::<u64>(), 3_001);
        for file in &table.files {
            let day = file.partition.unwrap();
            let place = format!("year={}/month={}/day={}/data-", day.year(), day.month(), day.day());
            let late = DAY.parse::<dayport::domain::run::Day>().unwrap().days_since(day);
            let number = if late < 0 { 1_000_000 + late } else { late };
            assert!(file.key.contains(&format!("{place}{number:06}000000.")), "{}", file.key);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_over_the_limit_is_held_back_with_its_first_bytes_and_the_rest_goes_on() {
    for format in ["\"json\"", "\"parquet\""] {
        let world = World::new(
            &json()
                .with("destination.format", format)
                .with("staging.max_record_bytes", "\"64KiB\"")
                .with("run.max_quarantine_ratio", "1.0"),
        );
        let large = format!("{{\"event_name\":\"Pageview\",\"time\":1768471200,\"x\":\"{}\"}}", "y".repeat(200_000));
        let text = record("Pageview", 1)
            + &large
            + "\n"
            + record("Pageview", 2).trim_end()
            + &large
            + record("Pageview", 3).trim_end()
            + "\n"
            + &record("Pageview", 4);
        world.stage(DAY, "a", text);
        let answer = world.commit(DAY).await;
        assert_eq!((answer.counts.delivered, answer.counts.quarantined), (4, 2));
        assert_eq!(answer.quarantine.reasons, BTreeMap::from([("too_large".to_owned(), 2)]));
        for (line, held) in [2, 3].iter().zip(world.quarantine()) {
            assert_eq!(held.get("line"), Some(&Json::Number(line.to_string())));
            assert_eq!(held.get("length"), Some(&Json::Number(large.len().to_string())));
            assert_eq!(held.get("text").and_then(Json::text), Some(&large[..64 << 10]));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_unpacks_to_far_more_than_it_is_stops_at_its_limit() {
    // 300 MB of zeros, of lines, and of one line, in a few hundred KB.
    let piece = records("Pageview", 1);
    let line = piece.trim_end().as_bytes();
    for filler in [b"\0".as_slice(), piece.as_bytes(), line] {
        let bomb = gzip(filler.repeat((1 << 20) / filler.len())).repeat(300);
        for (key, value) in [("staging.max_object_bytes", "\"2MiB\""), ("staging.max_ratio", "5")] {
            let world = World::new(&json().with(key, value));
            world.stage(DAY, "bomb.gz", bomb.clone());
            let (kind, message) = failed(&world, &world.run(DAY).await);
            assert!(kind == "vendor" && message.contains("bomb.gz") && message.contains(key), "{kind}: {message}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_columns_of_the_next_run_are_rescued_in_this_one_and_read_once() {
    let world = World::new(&Configuration::new().with("parquet.new_columns", "\"next_run\""));
    let stage = |day: &str, text: &str| world.stage(day, "a", text.to_owned());
    let names = |day: &str| {
        let manifest = world.landed().manifest(day);
        manifest.tables[0].columns.iter().map(|column| column.path.clone()).collect::<Vec<_>>()
    };
    let rest = r#""event_name":"a","time":1768471200"#;
    stage("2026-01-15", &format!("{{{rest},\"n\":1}}\n"));
    world.commit("2026-01-15").await;
    assert_eq!(names("2026-01-15"), ["_rescued_data", "event_name", "time", "n"], "a new table has its columns at once");

    stage("2026-01-16", &format!("{{{rest},\"n\":1.5,\"new\":\"x\"}}\n{{{rest},\"new\":2}}\n{{{rest},\"new\":\"y\"}}\n"));
    let answer = world.commit("2026-01-16").await;
    assert_eq!(names("2026-01-16"), ["_rescued_data", "event_name", "time", "n"], "a known table's are rescued");
    assert_eq!((answer.counts.rescued, answer.tables[0].schema_version), (4, Some(1)));
    let reads = |day: &str| world.staging.calls().iter().filter(|call| call.key == format!("events/{day}/a")).count();
    assert!(reads("2026-01-16") <= 2, "no second pass: once for the guess, once for the run");

    // The registry used to keep only what the run's files had, so that these never became columns.
    stage("2026-01-17", &format!("{{{rest},\"n\":2.5,\"new\":\"z\"}}\n"));
    let answer = world.commit("2026-01-17").await;
    assert_eq!(names("2026-01-17"), ["_rescued_data", "event_name", "time", "n", "n_double", "new"]);
    assert_eq!((answer.counts.rescued, answer.tables[0].schema_version), (0, Some(2)));
}

/// A day of two shards and a snapshot, whose lease is short enough to be waited for.
fn small_day(layout: &str, format: &str) -> World {
    let configuration = json()
        .with("destination.format", format)
        .with("destination.layout", layout)
        .with("state.lease", "\"100ms\"")
        .with("run.shard_size", "2000");
    let world = World::new(&configuration);
    world.stage(DAY, "a", records("Pageview", 20) + &records("LinkClick", 3));
    world.stage(DAY, "b.gz", gzip(records("Pageview", 4) + "no record\n"));
    world.stage(DAY, "domains/d", "{\"domain\":\"a.example\"}\n{\"domain\":\"b.example\"}\n");
    world
}

/// Whether any upload that is noted in the state bucket is open still.
fn has_left_a_noted_upload(world: &World) -> bool {
    let open = world.customer.open_uploads();
    let state = world.state.objects();
    let notes = state.iter().filter(|(key, _)| key.rsplit('/').next().unwrap().starts_with("open-"));
    let noted = notes.flat_map(|(key, body)| document::decode::<Vec<OpenUpload>>(key, body).unwrap());
    noted.into_iter().any(|upload| open.contains(&(upload.key, upload.id)))
}

fn has_recorded_commit(world: &World) -> bool {
    let state = world.state.objects();
    let head =
        state.iter().find(|(key, _)| key.contains("/heads/")).map(|(key, body)| document::decode::<Head>(key, body).unwrap());
    head.is_some_and(|head| !head.commits.is_empty() || head.open.values().any(|open| open.commit.is_some()))
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_of_a_whole_day_may_be_lost_or_the_last_one_and_running_again_gives_the_same_day() {
    type Bucket = fn(&World) -> &MemoryBucket;
    let buckets: [(&str, Bucket); 3] =
        [("staging", |world| &world.staging), ("state", |world| &world.state), ("customer", |world| &world.customer)];
    for (layout, format) in [("\"permutive\"", "\"parquet\""), ("\"pontoon\"", "\"json\"")] {
        let clean = small_day(layout, format);
        clean.commit(DAY).await;
        let expected = &clean.customer.objects();
        for (name, bucket) in buckets {
            let calls = bucket(&clean).call_count();
            assert!(calls >= 4, "{calls} calls to {name}");
            let cases: Vec<(usize, Fault, bool)> = (1..=calls)
                .flat_map(|nth| [Fault::Before, Fault::After].map(|fault| [false, true].map(|dies| (nth, fault, dies))))
                .flatten()
                .collect();
            for some in cases.chunks(8) {
                // Together, since a lease that nobody gave back has to be waited for.
                join_all(some.iter().map(|&(nth, fault, dies)| async move {
                    let world = small_day(layout, format);
                    let target = bucket(&world);
                    if dies {
                        target.die_on(nth, fault)
                    } else {
                        target.fail_on(nth, fault)
                    }
                    let first = world.run(DAY).await;
                    target.heal();
                    let what = format!("{layout}, call {nth} to {name}, {fault:?}, dies {dies}: {first:?}");
                    assert!(first.error.as_ref().is_none_or(|error| error.kind == "retryable"), "{what}");
                    assert!(has_recorded_commit(&world) || world.customer.objects().is_empty(), "{what}");
                    let second = world.run(DAY).await;
                    assert!(
                        matches!(second.state, RunOutcome::Committed | RunOutcome::AlreadyCommitted),
                        "{what}, then {second:?}"
                    );
                    assert_eq!(world.customer.objects(), *expected, "{what}");
                    assert!(!has_left_a_noted_upload(&world), "{what}");
                }))
                .await;
            }
        }
    }
}

/// A day of forty tables in parts that none of them fills soon, with so many bytes of scratch.
async fn day_with_scratch(format: &str, scratch: u64) -> (World, dayport::run::answer::RunAnswer) {
    let mut world = World::new(&json().with("destination.format", format));
    world.settings.run.memory_budget = 4_000;
    world.settings.run.part_size = 4_000;
    world.settings.run.chunk_bytes = 8_000;
    world.settings.run.scratch_budget = dayport::domain::settings::ScratchBudget::Bytes(scratch);
    let text: String = (0..2_000).map(|n| record(&format!("type {}", n % 40), n * 7_919 % 1_000)).collect();
    world.settings.parquet.row_group_size = 2_000;
    world.stage(DAY, "a", text);
    let answer = world.commit(DAY).await;
    (world, answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_wait_for_full_parts_go_to_scratch() {
    let (_, answer) = day_with_scratch("\"json\"", 1 << 20).await;
    assert_eq!(answer.counts.delivered, 2_000);
    assert_eq!(answer.notes, [""; 0]);
    assert!(answer.tables.iter().all(|table| table.files.len() == 1));
}

/// Full scratch used to fail the run.
#[tokio::test(flavor = "multi_thread")]
async fn files_end_early_when_scratch_is_full_and_the_answer_names_them() {
    let (_, roomy) = day_with_scratch("\"parquet\"", 1 << 20).await;
    assert_eq!(roomy.notes, [""; 0]);
    let (world, answer) = day_with_scratch("\"parquet\"", 0).await;
    assert_eq!(answer.counts.delivered, 2_000);
    assert_eq!(answer.tables.iter().map(|table| table.rows).sum::<u64>(), 2_000);
    assert!(!answer.notes.is_empty());
    for note in &answer.notes {
        let key = note.split('`').nth(1).unwrap();
        assert!(note.contains("ended early because scratch was full"), "{note}");
        assert!(world.customer.objects().keys().any(|landed| landed == key), "{note}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_day_gives_the_same_bytes_whatever_the_threads_and_chunks() {
    let mut text = String::new();
    for n in 0..4_000_usize {
        let kind = ["Pageview", "SlotViewed", "VideoPlayed"][n * 7 % 3];
        text.push_str(&format!(
            "{{\"event_name\":\"{kind}\",\"event_id\":\"{:016x}\",\"time\":{},\"properties\":{{\"n\":{},\"tags\":[\"a\",\"b{}\"],\"geo\":{{\"city\":\"c{}\",\"lat\":{}.5}}}}}}\n",
            n.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            1_768_471_200 + n,
            n % 100,
            n % 7,
            n % 13,
            n % 90
        ));
    }
    for format in ["\"json\"", "\"parquet\""] {
        let mut expected = None;
        for (threads, chunk_bytes) in [(1, 4 << 20), (4, 4 << 20), (2, 10_000), (3, 777)] {
            let mut world = World::new(&json().with("destination.format", format));
            world.settings.run.threads = threads;
            world.settings.run.chunk_bytes = chunk_bytes;
            world.settings.parquet.row_group_size = 100_000;
            world.settings.destinations[0].target_file_size = 40_000;
            for (nth, part) in text.as_bytes().chunks(300_000).enumerate() {
                // Cut anywhere: a record over a cut is two rejects, the same ones each time.
                world.stage(DAY, &format!("{nth}"), part.to_vec());
            }
            world.commit(DAY).await;
            let landed = world.customer.objects();
            assert!(landed.len() > 3, "{} files", landed.len());
            assert!(
                landed == *expected.get_or_insert_with(|| landed.clone()),
                "{format}: {threads} threads, chunks of {chunk_bytes}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tables_land_and_further_ones_are_quarantined() {
    let world = World::new(&json().with("run.max_quarantine_ratio", "1.0"));
    let text: String = (0..5_000).map(|n| record(&format!("e{n}"), n)).collect();
    world.stage(DAY, "a", text);
    let started = std::time::Instant::now();
    let answer = world.commit(DAY).await;
    println!("{:?}", started.elapsed());
    assert_eq!((answer.counts.delivered, answer.tables.len()), (1_000, 1_000));
}
