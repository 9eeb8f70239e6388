//! Days that nobody thought of: whatever records a day holds, every value of them lands, and nothing but the records decides how.

use std::collections::BTreeMap;
use std::io::Write as _;

use bytes::Bytes;
use dayport::domain::settings::{ScratchBudget, Settings};
use dayport::domain::table::TableName;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::equality::{Column, differences};
use crate::json::Json;
use crate::types::{Seen, mistakes};
use crate::world::{Configuration, World};

const DAYS: [&str; 3] = ["2026-01-15", "2026-01-16", "2026-01-17"];

/// Numbers as vendors write them: exact, inexact, too large, too small, and the same value in several forms.
const NUMBERS: [&str; 26] = [
    "0",
    "-0",
    "1",
    "-7",
    "42",
    "1.0",
    "6.7E8",
    "1e3",
    "0.5",
    "-2.25",
    "1e400",
    "-1e400",
    "1e-400",
    "9007199254740992",
    "9007199254740993",
    "9007199254740993.0",
    "-9223372036854775808",
    "9223372036854775807",
    "9223372036854775808",
    "123456789012345678901234567890",
    "1E+2",
    "0.1",
    "1.7976931348623157e308",
    "5e-324",
    "0e99",
    "1e22",
];
const TEXTS: [&str; 18] = [
    "",
    "x",
    "n/a",
    "12",
    "1.5",
    "-0",
    "1e2",
    "true",
    "false",
    "null",
    "2026-01-15T10:00:00.123456789+02:00",
    "1768471200",
    r"\u0031",
    r"\ud83d\ude00",
    "é",
    r"\ud800",
    r"a\n\u0000\\\/",
    "{}",
];
const KEYS: [&str; 24] = [
    "a",
    "A",
    "b",
    "B",
    "n",
    "v",
    "url",
    "Url",
    "URL",
    r"\u0061",
    "a.b",
    "",
    "9",
    "year",
    "Day",
    "_rescued_data",
    "pontoon__x",
    "é",
    "É",
    "~x/y",
    "element",
    "a_double",
    "x y",
    "x-y",
];

fn value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        1 => prop::sample::select(&["null", "true", "false", "{}", "[]"][..]).prop_map(str::to_owned),
        2 => prop::sample::select(&["1", "2", "0.5", "\"x\"", "true"][..]).prop_map(str::to_owned),
        3 => prop::sample::select(&NUMBERS[..]).prop_map(str::to_owned),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<f64>().prop_filter("JSON has no such number", |number| number.is_finite()).prop_map(|number| format!("{number:e}")),
        3 => prop::sample::select(&TEXTS[..]).prop_map(|text| format!("\"{text}\"")),
    ];
    scalar.prop_recursive(4, 12, 4, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(|elements| format!("[{}]", elements.join(", "))),
            2 => members(inner, 4).prop_map(|members| format!("{{{members}}}")),
        ]
    })
}

fn members(value: impl Strategy<Value = String>, most: usize) -> impl Strategy<Value = String> {
    // A few keys come again and again, so that kinds meet.
    let key = prop_oneof![2 => prop::sample::select(&["a", "b", "l"][..]), 1 => prop::sample::select(&KEYS[..])];
    let member = (key, value).prop_map(|(key, value)| format!("\"{key}\":{value}"));
    prop::collection::vec(member, 0..most).prop_map(|members| members.join(","))
}

fn record() -> impl Strategy<Value = String> {
    let event = prop::sample::select(&["Pageview", "pageview", r"p\u0061geview", "slot viewed"][..]);
    let time = prop::sample::select(&["\"2026-01-15T10:00:00Z\"", "1768471200123", "\"1768471200\"", "\"2026-01-15\""][..]);
    (event, time, members(value(), 6)).prop_map(|(event, time, rest)| {
        let comma = if rest.is_empty() { "" } else { "," };
        format!(r#"{{"event_name":"{event}", "time":{time}{comma}{rest}}}"#)
    })
}

/// What stands between two records, or instead of one.
#[derive(Clone, Debug)]
enum Piece {
    Record(String),
    /// Several values on a line, or an array of them.
    Line(Vec<String>, bool),
    Junk(&'static str),
}

#[derive(Clone, Debug)]
struct Object {
    pieces: Vec<Piece>,
    packing: u8,
    line_end: &'static str,
}

fn object() -> impl Strategy<Value = Object> {
    let piece = prop_oneof![
        8 => record().prop_map(Piece::Record),
        1 => (prop::collection::vec(record(), 0..4), any::<bool>()).prop_map(|(records, is_array)| Piece::Line(records, is_array)),
        1 => prop::sample::select(&["", "  ", "x", "{", "[1]", "7", "{\"event_name\":\"a\"}", "{\"a\":1}}"][..]).prop_map(Piece::Junk),
    ];
    let line_end = prop::sample::select(&["\n", "\r\n"][..]);
    (prop::collection::vec(piece, 0..12), 0..4_u8, line_end).prop_map(|(pieces, packing, line_end)| Object {
        pieces,
        packing,
        line_end,
    })
}

impl Object {
    fn records(&self) -> impl Iterator<Item = &String> {
        self.pieces.iter().flat_map(|piece| match piece {
            Piece::Record(record) => std::slice::from_ref(record),
            Piece::Line(records, _) => records,
            Piece::Junk(_) => &[],
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let lines = self.pieces.iter().map(|piece| match piece {
            Piece::Record(record) => record.clone(),
            Piece::Line(records, true) => format!("[{}]", records.join(" , ")),
            Piece::Line(records, false) => records.join(" "),
            Piece::Junk(junk) => (*junk).to_owned(),
        });
        let text = lines.collect::<Vec<_>>().join(self.line_end);
        match self.packing {
            0 => text.into_bytes(),
            1 => zstd::encode_all(text.as_bytes(), 1).unwrap(),
            _ => {
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                gzip.write_all(text.as_bytes()).unwrap();
                gzip.finish().unwrap()
            }
        }
    }
}

fn day() -> impl Strategy<Value = Vec<Object>> {
    prop::collection::vec(object(), 1..5)
}

/// A configuration: declared columns or none, limits that bite or none, files and row groups of a few records or of all.
#[derive(Clone, Debug)]
struct Shape {
    declared: bool,
    limits: u8,
    small_files: bool,
    pontoon: bool,
    small_shards: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    (any::<bool>(), 0..5_u8, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(declared, limits, small_files, pontoon, small_shards)| Shape { declared, limits, small_files, pontoon, small_shards },
    )
}

impl Shape {
    fn settings(&self, format: &str) -> Settings {
        let mut all = Configuration::new()
            .with("destination.format", &format!("\"{format}\""))
            .with("staging.allow_empty_day", "true")
            .with("run.max_quarantine_ratio", "1.0");
        if self.declared {
            all = all.with(
                "event_tables.columns",
                r#"{ time = "timestamp", "a" = "int64", "b.n" = "double", "b.a" = "boolean", url = "string", v = "list<int64>", n = { x = "timestamp", a = "double" } }"#,
            );
        }
        all = match self.limits {
            1 => all.with("parquet.max_columns", "10"),
            2 => all.with("parquet.max_fields", "8"),
            3 => all.with("parquet.max_column_depth", "2"),
            _ => all,
        };
        if self.pontoon {
            all = all.with("destination.layout", "\"pontoon\"");
        }
        let mut settings = all.settings();
        if self.small_files {
            settings.parquet.row_group_size = 700;
            settings.destinations[0].target_file_size = 1;
        }
        if self.small_shards {
            settings.run.shard_size = 300;
        }
        settings
    }
}

fn stage(world: &World, day: &str, objects: &[Object]) {
    for (nth, object) in objects.iter().enumerate() {
        world.stage(day, &format!("object-{nth:03}"), object.bytes());
    }
}

/// The records that have to land, by table, in order.
fn wanted(objects: &[Object]) -> BTreeMap<TableName, Vec<Json>> {
    let mut wanted: BTreeMap<TableName, Vec<Json>> = BTreeMap::new();
    for record in objects.iter().flat_map(Object::records) {
        let record = Json::parse(record).unwrap_or_else(|| panic!("a generator made no JSON: {record}"));
        // Of a repeated key the last counts; the generator repeats none of these.
        let table = TableName::of_event(record.get("event_name").unwrap().text().unwrap());
        wanted.entry(table).or_default().push(record);
    }
    wanted
}

fn check_values(world: &World, day: &str, objects: &[Object]) -> TestCaseResult {
    let wanted = wanted(objects);
    let landed = world.landed().rows(day);
    prop_assert_eq!(landed.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (table, (columns, rows)) in landed {
        let records = &wanted[&table];
        prop_assert_eq!(rows.len(), records.len());
        for (record, row) in records.iter().zip(&rows) {
            let differences = differences(&columns, record, row);
            prop_assert!(differences.is_empty(), "{}\nof {:?}\nas {:?}", differences.join("\n"), record, row);
        }
    }
    Ok(())
}

/// Every column of the day before is where it was, with the same name, type and id, at every depth.
fn check_growth(old: &[Column], new: &[Column]) -> TestCaseResult {
    prop_assert!(new.len() >= old.len());
    for (old, new) in old.iter().zip(new) {
        prop_assert_eq!((&old.name, &old.key, old.role, old.id), (&new.name, &new.key, new.role, new.id));
        prop_assert_eq!(&old.column_type, &new.column_type);
        check_growth(&old.inside, &new.inside)?;
    }
    Ok(())
}

fn block_on(work: impl Future<Output = TestCaseResult>) -> TestCaseResult {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4_000, ..ProptestConfig::default() }
}

/// How a run is made, which must not show in what lands.
#[derive(Clone, Debug)]
struct Manner {
    chunk_bytes: usize,
    threads: usize,
    part_size: u64,
    memory_budget: u64,
    breaks_after: Option<usize>,
}

fn manner() -> impl Strategy<Value = Manner> {
    (1..400_usize, 1..5_usize, 1..3000_u64, 100..20_000_u64, prop::option::of(1..90_usize)).prop_map(
        |(chunk_bytes, threads, part_size, memory_budget, breaks_after)| Manner {
            chunk_bytes,
            threads,
            part_size,
            memory_budget,
            breaks_after,
        },
    )
}

async fn land(settings: Settings, manner: Option<&Manner>, objects: &[Object]) -> BTreeMap<String, Bytes> {
    let mut settings = settings;
    if let Some(manner) = manner {
        settings.run.chunk_bytes = manner.chunk_bytes;
        settings.run.threads = manner.threads;
        settings.run.part_size = manner.part_size;
        settings.run.memory_budget = manner.memory_budget;
        settings.run.scratch_budget = ScratchBudget::Bytes(1 << 30);
    }
    let world = World::with_settings(settings);
    stage(&world, DAYS[0], objects);
    world.staging.break_bodies_after(manner.and_then(|manner| manner.breaks_after));
    world.commit(DAYS[0]).await;
    // The manifest too: its counts, columns and checksums.
    world.customer.objects()
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn every_value_of_every_record_is_in_its_column_or_rescued(
        days in prop::collection::vec(day(), 1..4),
        shape in shape(),
        next_run in any::<bool>(),
    ) {
        block_on(async {
            let mut settings = shape.settings("parquet");
            if next_run {
                settings.parquet.new_columns = dayport::domain::settings::NewColumns::NextRun;
            }
            let world = World::with_settings(settings);
            let mut before: BTreeMap<TableName, Vec<Column>> = BTreeMap::new();
            for (day, objects) in DAYS.iter().zip(&days) {
                stage(&world, day, objects);
                let answer = world.commit(day).await;
                let counts = answer.counts;
                prop_assert_eq!(counts.delivered, objects.iter().flat_map(Object::records).count() as u64);
                prop_assert_eq!(counts.read, counts.delivered + counts.quarantined);
                check_values(&world, day, objects)?;
                for (table, (columns, _)) in world.landed().rows(day) {
                    // Where no limit bites and nothing is declared, all values decide, of a first day and of any later one.
                    if !shape.declared && matches!(shape.limits, 0 | 4) && (!next_run || !before.contains_key(&table)) {
                        let mut seen = Seen::new();
                        wanted(objects)[&table].iter().for_each(|record| seen.observe(record));
                        let mistakes = mistakes(&seen, before.get(&table).map_or(&[], Vec::as_slice), &columns);
                        prop_assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
                    }
                    if let Some(before) = before.get(&table) {
                        check_growth(before, &columns)?;
                    }
                    before.insert(table, columns);
                }
            }
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn the_same_day_gives_the_same_bytes_however_it_is_run(
        objects in day(),
        shape in shape(),
        manners in prop::collection::vec(manner(), 3),
        is_parquet in any::<bool>(),
    ) {
        block_on(async {
            let settings = || shape.settings(if is_parquet { "parquet" } else { "json" });
            let first = land(settings(), None, &objects).await;
            for manner in &manners {
                let other = land(settings(), Some(manner), &objects).await;
                prop_assert_eq!(first.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
                for (key, body) in &first {
                    let lines = |body: &Bytes| String::from_utf8_lossy(body).lines().map(str::to_owned).collect::<Vec<_>>();
                    let (one, two) = (lines(body), lines(&other[key]));
                    let differing = one.iter().zip(&two).find(|(one, two)| one != two);
                    prop_assert!(*body == other[key], "{} differs by {:?}: {:?}", key, manner, differing);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn one_value_of_another_kind_never_decides_a_columns_type(
        ordinary in prop::sample::select(&["1", "0.5", "\"x\"", "true", "{\"k\":1}", "[1]"][..]),
        other in prop::sample::select(&["1", "0.5", "\"x\"", "true", "{\"k\":1}", "[1]", "1e400", "{}", "[]", "null"][..]),
        count in 2..20_usize,
        at in any::<prop::sample::Index>(),
        objects in 1..4_usize,
    ) {
        let is_number = |value: &str| value.parse::<f64>().is_ok();
        // A fraction is a number among numbers: it is of the same kind, and makes the column double.
        prop_assume!(!(is_number(ordinary) && is_number(other)));
        block_on(async {
            let mut values = vec![ordinary; count];
            values.insert(at.index(count + 1), other);
            let mut types = Vec::new();
            for values in [&values, &vec![ordinary; count]] {
                let world = World::new(&Configuration::new());
                for (nth, values) in values.chunks(values.len().div_ceil(objects)).enumerate() {
                    let records = values.iter().map(|value| {
                        format!("{{\"event_name\":\"a\",\"time\":\"2026-01-15\",\"v\":{value},\"l\":[{{\"w\":{value}}}]}}\n")
                    });
                    world.stage(DAYS[0], &format!("{nth}"), records.collect::<String>());
                }
                world.commit(DAYS[0]).await;
                types.push(world.landed().manifest(DAYS[0]).tables[0].columns.iter().map(|column| (column.path.clone(), column.column_type.clone())).collect::<Vec<_>>());
            }
            prop_assert_eq!(&types[0], &types[1]);
            Ok(())
        })?;
    }
}

/// A column that the first record shows as one kind and all others as another used to be lost whole.
#[tokio::test]
async fn the_first_record_alone_does_not_take_a_column_away() {
    let world = World::new(&Configuration::new());
    let record =
        |value: &str| format!("{{\"event_name\":\"a\",\"time\":\"2026-01-15\",\"v\":{value},\"l\":[{{\"w\":{value}}}]}}\n");
    world.stage(DAYS[0], "0", ["1", "[1]", "[1]"].map(record).concat());
    world.commit(DAYS[0]).await;
    let columns = &world.landed().manifest(DAYS[0]).tables[0].columns;
    let types: Vec<_> = columns.iter().map(|column| (column.path.as_str(), column.column_type.as_str())).collect();
    assert_eq!(
        types[3..],
        [
            ("v", "list<int64>"),
            ("v.element", "int64"),
            ("l", "list<struct>"),
            ("l.element", "struct"),
            ("l.element.w", "list<int64>"),
            ("l.element.w.element", "int64")
        ]
    );
}
