//! `dedupe`: the first record of each id in key order, whatever the threads, shards, memory, invocations and second passes.

use std::collections::{BTreeMap, HashSet};

use dayport::domain::counts::Counts;
use dayport::run::answer::{RunAnswer, RunOutcome};
use dayport::run::driver::{Asked, Rim, Stores, run_day};

use crate::json::Json;
use crate::landed::{Value, at, json_lines};
use crate::world::{Configuration, World};

const DAY: &str = "2026-01-15";
const NEXT_DAY: &str = "2026-01-16";
const FORMATS: [&str; 2] = ["\"json\"", "\"parquet\""];

fn configuration(format: &str) -> Configuration {
    Configuration::new().with("destination.format", format).with("destination.dedupe", "\"event_id\"")
}

fn record(event: &str, id: &str, n: u32) -> String {
    format!("{{\"event_name\":\"{event}\",\"time\":1768471200,{id}\"n\":{n}}}\n")
}

/// The numbers `n` of the rows that landed, by table, in the order of their files.
fn numbers(world: &World, day: &str, format: &str) -> BTreeMap<String, Vec<u32>> {
    let landed = world.landed();
    if format == "\"json\"" {
        let tables = landed.files(day).into_iter().map(|(table, files)| {
            let lines = files.iter().flat_map(|(_, body)| json_lines(body));
            let number = |line: String| match Json::parse(&line).unwrap().get("n") {
                Some(Json::Number(number)) => number.parse().unwrap(),
                other => panic!("{other:?}"),
            };
            (table.to_string(), lines.map(number).collect())
        });
        return tables.collect();
    }
    let tables = landed.rows(day).into_iter().map(|(table, (_, rows))| {
        let number = |row| match at(row, "n") {
            Value::Int(number) => u32::try_from(*number).unwrap(),
            other => panic!("{other:?}"),
        };
        (table.to_string(), rows.iter().map(number).collect())
    });
    tables.collect()
}

/// Runs a day in invocations that end after a shard each, to its end.
async fn run_in_turns(world: &World, day: &str) -> (RunAnswer, u32) {
    let mut invocations = 0;
    loop {
        invocations += 1;
        // Time for one shard.
        let finished = || world.state.objects().keys().filter(|key| key.contains("/shard-") || key.contains("/again-")).count();
        let at_start = finished();
        let millis_left = || Some(if finished() == at_start { 3_600_000 } else { 0 });
        let rim =
            Rim { now_millis: &|| world.now_millis, millis_left: &millis_left, on_progress: &|_| {}, panic_on_object: None };
        let stores = Stores { staging: &world.staging, state: &world.state, customer: &world.customer };
        let asked = Asked { day: day.parse().unwrap(), force: None, configuration: "configuration" };
        let answer = run_day(&rim, &world.settings, &world.settings.destinations[0], stores, asked).await;
        if answer.state != RunOutcome::Continued {
            assert_eq!(answer.state, RunOutcome::Committed, "{answer:?}");
            return (answer, invocations);
        }
        assert!(invocations < 100, "it never ends");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_record_of_an_id_stays_and_a_record_without_one_always_lands() {
    let ids = [
        ("\"event_id\":\"a\",", true),
        ("\"event_id\":\"a\",", false),
        ("\"event_id\":\"\\u0061\",", false),
        ("\"event_\\u0069d\":\"a\",", false),
        ("\"event_id\":\"A\",", true),
        ("\"event_id\":\"a \",", true),
        ("\"event_id\":7,", true),
        ("\"event_id\":7,", false),
        ("\"event_id\":\"7\",", true),
        ("\"event_id\":7.0,", true),
        ("\"event_id\":true,", true),
        ("\"event_id\":true,", false),
        ("\"event_id\":\"true\",", true),
        ("\"event_id\":\"b\",\"event_id\":\"a\",", false),
        ("\"event_id\":\"b\",", true),
        // No ids: always delivered.
        ("", true),
        ("", true),
        ("\"event_id\":null,", true),
        ("\"event_id\":null,", true),
        ("\"event_id\":\"\",", true),
        ("\"event_id\":\"\",", true),
        ("\"event_id\":{\"x\":1},", true),
        ("\"event_id\":{\"x\":1},", true),
        ("\"event_id\":[1],", true),
        ("\"event_id\":[1],", true),
        ("\"EVENT_ID\":\"a\",", true),
        ("\"p\":{\"event_id\":\"a\"},", true),
    ];
    for format in FORMATS {
        let world = World::new(&configuration(format));
        let lines: String = (0..).zip(ids).map(|(n, (id, _))| record("Pageview", id, n)).collect();
        world.stage(DAY, "b", lines);
        // Staged under an earlier key, in another table, and one that is no record at all.
        world.stage(DAY, "a", record("LinkClick", "\"event_id\":\"z\",", 100) + "{\"event_id\":\"a\"}\n");
        world.stage(DAY, "c", record("LinkClick", "\"event_id\":\"A\",", 101) + &record("Signup", "\"event_id\":\"z\",", 102));
        let answer = world.commit(DAY).await;
        let stays: Vec<u32> = (0..).zip(ids).filter(|(_, (_, stays))| *stays).map(|(n, _)| n).collect();
        let wanted = BTreeMap::from([("linkclick_events".to_owned(), vec![100]), ("pageview_events".to_owned(), stays.clone())]);
        assert_eq!(numbers(&world, DAY, format), wanted, "a table of duplicates alone has no file");
        let delivered = stays.len() as u64 + 1;
        let read = ids.len() as u64 + 4;
        assert_eq!(
            (answer.counts.read, answer.counts.delivered, answer.counts.quarantined, answer.counts.duplicates),
            (read, delivered, 1, read - delivered - 1)
        );
        let manifest = world.landed().manifest(DAY);
        assert_eq!(manifest.counts.duplicates, read - delivered - 1);
        assert_eq!(world.commit_again(DAY).await.counts, answer.counts, "and so once more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_duplicate_held_is_not_counted_as_rescued_or_repaired() {
    let world = World::new(&configuration("\"parquet\""));
    let odd = "{\"event_name\":\"Pageview\",\"time\":1768471200,\"event_id\":\"a\",\"n\":1,\"x\":1e400,\"t\":\"\\ud800\"}\n";
    let usual = record("Pageview", "\"x\":1,\"event_id\":\"b\",", 2) + &record("Pageview", "\"x\":2,\"event_id\":\"c\",", 3);
    world.stage(DAY, "a", format!("{odd}{usual}{odd}{odd}"));
    let counts = world.commit(DAY).await.counts;
    let wanted = Counts { read: 5, delivered: 3, duplicates: 2, repaired: 1, rescued: 1, ..Counts::default() };
    assert_eq!(counts, wanted);
    assert_eq!(world.landed().manifest(DAY).tables[0].rescued.values().sum::<u64>(), 1);
}

/// A snapshot table is a whole of its own: the id of an event takes nothing out of it.
#[tokio::test(flavor = "multi_thread")]
async fn each_snapshot_table_has_ids_of_its_own() {
    for format in FORMATS {
        let world = World::new(&configuration(format));
        world.stage(DAY, "a", record("Pageview", "\"event_id\":\"1\",", 1));
        let reference = |id: u32, n: u32| format!("{{\"event_id\":\"{id}\",\"n\":{n}}}\n");
        world.stage(DAY, "domains/a", reference(1, 2) + &reference(1, 3) + &reference(2, 4));
        world.stage(DAY, "segment_metadata/a", reference(1, 5));
        world.stage(DAY, "aliases/a", reference(1, 6) + &reference(3, 7));
        let answer = world.commit(DAY).await;
        let table = |name: &str, numbers: &[u32]| (name.to_owned(), numbers.to_vec());
        let wanted =
            [table("aliases", &[7]), table("domains", &[2, 4]), table("pageview_events", &[1]), table("segment_metadata", &[5])];
        assert_eq!(numbers(&world, DAY, format), BTreeMap::from(wanted));
        assert_eq!(answer.counts.duplicates, 2);
    }
}

/// A small generator: equal seeds, equal days.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

struct Day {
    objects: Vec<String>,
    /// What must land, by table.
    wanted: BTreeMap<String, Vec<u32>>,
    counts: Counts,
}

/// Eight objects with ids that come again near and far, in two tables and out of them. `late` puts a new column of one table into an object
/// that nobody looks at before the run: its table is then written once more.
fn day(seed: u64, records: u32, late: bool) -> Day {
    let mut dice = Dice(seed);
    let mut day = Day { objects: vec![String::new(); 8], wanted: BTreeMap::new(), counts: Counts::default() };
    let mut seen = HashSet::new();
    for n in 0..records {
        let object = usize::try_from(u64::from(n) * 8 / u64::from(records)).unwrap();
        let event = ["Pageview", "LinkClick"][usize::try_from(dice.roll(2)).unwrap()];
        let id = match dice.roll(4) {
            0 => None,
            1 => Some(dice.roll(u64::from(records) / 2)),
            2 => Some(u64::from(n.saturating_sub(u32::try_from(dice.roll(5)).unwrap()))),
            _ => Some(u64::from(n) + 1_000_000),
        };
        let mut fields = id.map(|id| format!("\"event_id\":\"id-{id}\",")).unwrap_or_default();
        if late && object == 3 && event == "Pageview" {
            fields.push_str("\"late\":\"x\",");
        }
        day.objects[object].push_str(&record(event, &fields, n));
        day.counts.read += 1;
        if id.is_none_or(|id| seen.insert(id)) {
            day.counts.delivered += 1;
            day.wanted.entry(format!("{}_events", event.to_lowercase())).or_default().push(n);
        } else {
            day.counts.duplicates += 1;
        }
    }
    day
}

#[tokio::test(flavor = "multi_thread")]
async fn any_day_lands_the_same_rows_whatever_the_threads_shards_memory_and_invocations() {
    for (seed, format) in (1..).zip(FORMATS.into_iter().cycle().take(6)) {
        let first = day(seed, 40, false);
        let next = day(seed + 100, 4_000, true);
        let mut bytes: Option<BTreeMap<String, bytes::Bytes>> = None;
        for (threads, shard_size, memory, chunk_bytes) in
            [(1, u64::MAX, 1 << 20, 2 << 20), (3, u64::MAX, 0, 4 << 10), (2, 1, 0, 64 << 10), (3, 1, 1 << 20, 4 << 10)]
        {
            let mut settings = configuration(format).settings();
            settings.run.threads = threads;
            settings.run.shard_size = shard_size;
            settings.run.dedupe_memory = memory;
            settings.run.chunk_bytes = chunk_bytes;
            let world = World::with_settings(settings);
            for (of, staged) in [(DAY, &first), (NEXT_DAY, &next)] {
                for (number, object) in staged.objects.iter().enumerate() {
                    world.stage(of, &format!("{number}.ndjson"), object.clone());
                }
                let in_turns = shard_size == 1;
                let (answer, invocations) = if in_turns { run_in_turns(&world, of).await } else { (world.commit(of).await, 1) };
                let what = format!("{of} of {seed} {format} {threads} {shard_size} {memory}");
                assert_eq!(answer.counts, staged.counts, "{what}");
                assert_eq!(numbers(&world, of, format), staged.wanted, "{what}");
                if in_turns {
                    let passes = if of == NEXT_DAY && format == "\"parquet\"" { 2 } else { 1 };
                    assert!(invocations >= passes * 8, "{what}: {invocations} invocations, so the second pass was one");
                }
            }
            // One shard: the same bytes, too.
            if shard_size == u64::MAX {
                let landed = world.customer.objects();
                assert!(bytes.get_or_insert_with(|| landed.clone()) == &landed, "{seed} {format} {threads}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_object_that_is_left_out_leaves_none_of_its_ids_behind() {
    for shard_size in [1, u64::MAX] {
        let mut settings = configuration("\"json\"").with("staging.on_damaged_object", "\"skip\"").settings();
        settings.run.shard_size = shard_size;
        let world = World::with_settings(settings);
        let of = |ids: std::ops::Range<u32>| {
            ids.map(|id| record("Pageview", &format!("\"event_id\":\"{id}\","), id)).collect::<String>()
        };
        world.stage(DAY, "a", of(0..3));
        // Its first half is read before its damage shows.
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        std::io::Write::write_all(&mut gzip, of(2..4_000).as_bytes()).unwrap();
        let mut damaged = gzip.finish().unwrap();
        damaged.truncate(damaged.len() - 4);
        world.stage(DAY, "b", damaged);
        world.stage(DAY, "c", of(1..6));
        let answer = world.commit(DAY).await;
        assert_eq!(numbers(&world, DAY, "\"json\"")["pageview_events"], [0, 1, 2, 3, 4, 5], "shards of {shard_size}");
        assert_eq!((answer.counts.read, answer.counts.duplicates), (8, 2));
    }
}
