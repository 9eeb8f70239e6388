//! Every row of `tests/cases/index.tsv`, staged, run and read back, in both formats.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use dayport::domain::schema::Role;
use dayport::domain::table::TableName;
use dayport::handler::{Invocation, Nobody};
use dayport::records::time::{parse_number, parse_text};
use dayport::run::answer::{RunAnswer, RunOutcome};
use dayport::trigger::Request;

use crate::equality::{differences, tree};
use crate::json::Json;
use crate::lab::Lab;
use crate::landed::{self, Row, Value};
use crate::world::{Configuration, Landed, quarantine};

const BASE_DAY: &str = "2024-03-14";
const JSON: &str = "\"json\"";
const PARQUET: &str = "\"parquet\"";

/// Rows of the index that are notifications, which come as messages of a queue and not as staged objects.
const NOTIFICATIONS: [&str; 5] = [
    "b086_s3_event_keys.json",
    "b088_eventbridge.json",
    "b088_raw_in_sqs.json",
    "b088_sns_in_sqs.json",
    "b089_removed_event.json",
];

/// A row of the index.
struct Case {
    file: String,
    day: String,
    after: Option<String>,
    settings: Vec<(String, String)>,
    counts: Option<(u64, u64)>,
    fails: bool,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn index() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("index.tsv")).unwrap();
    let rows = text.lines().skip(1).map(|row| {
        let columns: Vec<&str> = row.split('\t').collect();
        let [_, file, settings, delivered, quarantined, fate, _] = columns[..] else { panic!("{row}") };
        let mut case = Case {
            file: file.to_owned(),
            day: BASE_DAY.to_owned(),
            after: None,
            settings: Vec::new(),
            counts: delivered.parse().ok().zip(quarantined.parse().ok()),
            fails: fate == "failed",
        };
        for (key, value) in settings.split_whitespace().map(|setting| setting.split_once('=').unwrap()) {
            match key {
                "date" => case.day = value.to_owned(),
                "after" => case.after = Some(value.to_owned()),
                _ => case.settings.push((key.to_owned(), value.to_owned())),
            }
        }
        case
    });
    rows.collect()
}

impl Case {
    /// `file`, and the settings that tell it from another row with the same file.
    fn name(&self) -> String {
        let by_time = self.settings.iter().any(|(key, _)| key == "destination.partition_by");
        format!("{}{}", self.file, if by_time { " by time" } else { "" })
    }

    /// A lab with the case's settings; the customer's bucket is `customer`.
    async fn lab(&self, format: &str) -> Lab {
        let base = Configuration::new()
            .with("staging.event_field", "\"event_type\"")
            .with("run.max_quarantine_ratio", "1.0")
            .with("destination.format", format);
        let mut lab = Lab::new().await;
        lab.settings(&self.settings.iter().fold(base, |all, (key, value)| all.with(key, value)).text());
        lab
    }

    /// Stages and runs the case, through S3; `None` where the run has to fail, after it was looked at.
    async fn run(&self, format: &str) -> Option<(Lab, Landed, RunAnswer)> {
        let lab = self.lab(format).await;
        let stage = async |day: &str, file: &str| {
            lab.stage(&format!("events/{day}/{file}"), std::fs::read(folder().join(file)).unwrap()).await;
        };
        if let Some(before) = &self.after {
            stage(BASE_DAY, before).await;
            assert_eq!(lab.run(BASE_DAY).await[0].state, RunOutcome::Committed);
        }
        stage(&self.day, &self.file).await;
        let answer = lab.run(&self.day).await.remove(0);
        let objects = lab.landed("customer").await.into_iter().map(|(key, body)| (key, body.into())).collect();
        let landed = Landed { objects };
        if self.fails {
            let error = answer.error.expect("a failed run says why");
            assert_eq!((answer.state, error.kind), (RunOutcome::Failed, "vendor"), "{}", self.name());
            assert!(error.message.contains(&self.file), "{}", error.message);
            assert!(landed.objects.is_empty(), "{}: nothing becomes visible", self.name());
            return None;
        }
        assert_eq!(answer.state, RunOutcome::Committed, "{}: {answer:?}", self.name());
        assert_eq!(lab.open_uploads("customer").await, 0);
        if let Some((delivered, quarantined)) = self.counts {
            let counts = answer.counts;
            assert_eq!(
                (counts.delivered, counts.quarantined, counts.read, counts.duplicates, counts.filtered),
                (delivered, quarantined, delivered + quarantined, 0, 0),
                "{}",
                self.name()
            );
            assert_eq!(answer.quarantine.reasons.values().sum::<u64>(), quarantined);
            let state = lab.landed("state").await.into_iter().map(|(key, body)| (key, Bytes::from(body))).collect();
            assert_eq!(quarantine(&state).len() as u64, quarantined, "{}: each is kept", self.name());
        }
        self.check_places(&landed, if format == JSON { ".json.gz" } else { ".parquet" });
        Some((lab, landed, answer))
    }

    /// The files lie where the contract says.
    fn check_places(&self, landed: &Landed, extension: &str) {
        let manifest = landed.manifest(&self.day);
        let mut found: Vec<String> = manifest.files().map(|(_, file)| format!("{} {}", file.key, file.rows)).collect();
        found.sort();
        let name = self.name();
        if let Some((_, places)) = PLACES.iter().find(|(case, _)| *case == name) {
            let wanted: Vec<String> = places.iter().map(|place| place.replacen(' ', &format!("{extension} "), 1)).collect();
            assert_eq!(found, wanted, "{name}");
        }
        let day = format!("data/pageview_events/year=2024/month=3/day=14/data-000000000000{extension}");
        let before = usize::from(self.after.is_some() && landed.objects.contains_key(&day));
        assert_eq!(landed.keys().len(), found.len() + before, "{name}: nothing else landed");
    }
}

/// The bytes under at most two wrappings.
fn unpacked(mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..2 {
        if bytes.starts_with(&[0x1F, 0x8B]) {
            bytes = gunzip_padded(&bytes);
        } else if bytes.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) || bytes.get(1..4) == Some(&[0x2A, 0x4D, 0x18]) {
            bytes = zstd::decode_all(bytes.as_slice()).unwrap();
        }
    }
    bytes
}

/// All members, up to zero padding or the end.
fn gunzip_padded(bytes: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let (mut plain, mut rest) = (Vec::new(), bytes);
    while rest.iter().any(|byte| *byte != 0) {
        // The cases' members all have the plain header of ten bytes.
        let mut deflated = flate2::bufread::DeflateDecoder::new(&rest[10..]);
        deflated.read_to_end(&mut plain).unwrap();
        rest = &rest[10 + usize::try_from(deflated.total_in()).unwrap() + 8..];
    }
    plain
}

/// The deepest nesting of a line, outside its strings.
fn depth(line: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in line.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// What has to land, by a model of its own: each record's table, text and value, in order.
fn wanted(file: &str) -> Vec<(TableName, String, Json)> {
    let bytes = unpacked(std::fs::read(folder().join(file)).unwrap());
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes)).into_owned();
    let mut wanted = Vec::new();
    for line in text.split('\n').filter(|line| depth(line) <= 64) {
        let mut values = Vec::new();
        let mut rest = line.trim();
        while let Some((value, after)) = Json::parse_first(rest) {
            values.push((rest[..rest.len() - after.len()].to_owned(), value));
            rest = after.trim_start();
        }
        if !rest.is_empty() {
            continue;
        }
        for (text, value) in values {
            let event = value.get("event_type").and_then(Json::text).filter(|name| !name.trim().is_empty());
            let time = match value.get("time") {
                Some(Json::Text(text)) => parse_text(text.as_bytes()),
                Some(Json::Number(number)) => parse_number(number),
                _ => None,
            };
            if let (Some(event), Some(_)) = (event, time) {
                wanted.push((TableName::of_event(event), text, value));
            }
        }
    }
    wanted
}

#[tokio::test(flavor = "multi_thread")]
async fn every_staged_case_lands_as_json_byte_for_byte_with_the_counts_of_the_index() {
    let mut seen = 0;
    for case in index().iter().filter(|case| !NOTIFICATIONS.contains(&case.file.as_str())) {
        seen += 1;
        let Some((lab, customer, answer)) = case.run(JSON).await else { continue };
        let mut staged: BTreeMap<TableName, Vec<(String, Json)>> = BTreeMap::new();
        for (table, text, value) in wanted(&case.file) {
            staged.entry(table).or_default().push((text, value));
        }
        let landed = customer.files(&case.day);
        assert_eq!(landed.keys().collect::<Vec<_>>(), staged.keys().collect::<Vec<_>>(), "{}", case.name());
        if let Some(key) = customer.keys().first() {
            let head = lab.client().head_object().bucket("customer").key(*key).send().await.unwrap();
            assert_eq!((head.content_type(), head.content_encoding()), (Some("application/gzip"), None));
        }
        let mut repaired = 0;
        for (table, files) in landed {
            let mut records = staged.remove(&table).unwrap();
            for (_, body) in files {
                for line in landed::json_lines(&body) {
                    // With several partitions the records of a table come in another order; each is there once.
                    let at = records.iter().position(|(text, _)| *text == line).or_else(|| {
                        let value = Json::parse(&line)?;
                        repaired += 1;
                        records.iter().position(|(_, staged)| staged.is_same(&value))
                    });
                    records.remove(at.unwrap_or_else(|| panic!("{}: {line} was never staged", case.name())));
                }
            }
            assert!(records.is_empty(), "{}: {} records of {table} did not land", case.name(), records.len());
        }
        assert_eq!(answer.counts.repaired, repaired, "{}", case.name());
    }
    assert_eq!(seen, index().len() - NOTIFICATIONS.len());
}

/// What a case's Parquet has beside the usual columns and values, by `Case::name` and table.
struct Golden {
    case: &'static str,
    table: &'static str,
    /// The columns beside `event_type … workspace_id` and the rescue column, in file order.
    columns: &'static str,
    /// The rescue column's text by event id; every other row's is null.
    rescued: &'static [(&'static str, &'static str)],
    /// A column and its values, row by row.
    values: &'static [(&'static str, &'static str)],
}

const USUAL: &str = "_rescued_data:string event_type:string event_id:string time:string user_id:string session_id:string view_id:string workspace_id:string";

const fn golden(
    case: &'static str,
    columns: &'static str,
    rescued: &'static [(&'static str, &'static str)],
    values: &'static [(&'static str, &'static str)],
) -> Golden {
    Golden { case, table: "pageview_events", columns, rescued, values }
}

const GOLDEN: &[Golden] = &[
    golden("b002_crlf.ndjson", "properties{path:string note:string} segments[string]", &[], &[]),
    golden(
        "b013_lone_surrogate.ndjson",
        "properties{title:string key___5bb6a0cd:int64} segments[string]",
        &[],
        &[
            ("properties.title", "\"high \u{fffd} end\" \"low \u{fffd} end\" \"swapped \u{fffd}\u{fffd}\" \"pair 😀\" null"),
            ("properties.key___5bb6a0cd", "null null null null 1"),
        ],
    ),
    golden(
        "b014_nul.ndjson",
        "properties{title:string k_ey_25f43bd1:string path:string} segments[string]",
        &[],
        &[("properties.title", r#""a\0b" null null"#), ("properties.k_ey_25f43bd1", r#"null "x" null"#)],
    ),
    golden(
        "b016_case_keys.ndjson",
        "properties{Url:string o{Id:int64}} segments[string]",
        &[("e-0001", r#"{"/properties/url":"/a"}"#), ("e-0003", r#"{"/properties/o/id":2}"#)],
        &[("properties.Url", r#""/A" "/B" null"#), ("properties.o.Id", "null null 1")],
    ),
    golden(
        "b017_dotted_and_nested.ndjson",
        "properties{a:string a_b_2e7336dc:string} segments[string]",
        &[],
        &[("properties.a", r#""x" "{\"b\":1}" null"#), ("properties.a_b_2e7336dc", r#""y" null "{\"c\":2}""#)],
    ),
    golden(
        "b019_exact_integers.ndjson",
        "properties{n:int64} segments[string]",
        &[],
        &[("properties.n", "1710410400123456789 9007199254740993 -9007199254740993 670000000 1000 1 0")],
    ),
    golden(
        "b020_floats.ndjson",
        "properties{x:double} segments[string]",
        &[],
        &[(
            "properties.x",
            "1.5777777777770001 117.63331139400017 9007199254740991.0 0.1 0.30000000000000004 5e-324 1.7976931348623157e308 10.5",
        )],
    ),
    golden(
        "b022_deep.ndjson.gz",
        "properties{path:string} segments[string]",
        &[(
            "e-0002",
            r#"{"/properties/a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}}}}}}}}}}}}}"#,
        )],
        &[],
    ),
    golden("b023_long_lines.ndjson.gz", "properties{path:string text:string} segments[string]", &[], &[]),
    golden("b031_day1_integer.ndjson", "properties{price:int64} segments[string]", &[], &[("properties.price", "5 7")]),
    golden(
        "b031_day2_float.ndjson",
        "properties{price:int64 price_double:double} segments[string]",
        &[],
        &[("properties.price", "null 7"), ("properties.price_double", "5.25 7.0")],
    ),
    golden(
        "b032_scalar_or_list.ndjson",
        "properties{path:string} segments:string",
        &[],
        &[("segments", r#""[\"trial\",\"eu\"]" "trial" null null"#)],
    ),
    golden("b034_null_only.ndjson", "properties{path:string} segments[string]", &[], &[]),
    golden("b035_late_type.ndjson.gz", "properties{n:double tags[string] ref:string} segments[string]", &[], &[]),
    golden(
        "b037_list_of_struct.ndjson",
        "segments[string] properties{items[{sku:string n:int64}]}",
        &[],
        &[("properties.items", r#"[] null [null] [{}] [{sku:"a" n:1}] [{sku:"b"},{n:2}]"#)],
    ),
    golden("b038_empty_struct.ndjson", "segments[string]", &[], &[]),
    golden(
        "b040_odd_names.ndjson",
        "properties{utm_source_089d2d86:string page_title_ac58193b:string a_b_d44362d6:int64 c1st_e01ddf65:int64 \
         c_e3b0c442:string t_ab_ce99bfff:int64 na_ve_f86fd89d:int64 ___7ec26292:string smile__aacf34c4:int64 \
         a_b_c__d__e_33aeb64b:int64 \
         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_0d4e2ca9:int64} \
         segments[string]",
        &[],
        &[("properties.c_e3b0c442", r#""empty" null"#), ("properties.___7ec26292", r#"null "x""#)],
    ),
    golden(
        "b041_names_that_collide.ndjson",
        "properties{Engine_speed:int64 EngineSpeed:int64 engine_speed_1c5a61f9:int64 engine_speed_ce6d8985:int64 \
         sinceEpoch:int64 since_epoch:int64} segments[string]",
        &[("e-0002", r#"{"/properties/SinceEpoch":6}"#)],
        &[(
            "properties",
            "{Engine_speed:1 EngineSpeed:2 engine_speed_1c5a61f9:3 engine_speed_ce6d8985:4} {sinceEpoch:5 since_epoch:7}",
        )],
    ),
    golden(
        "b043_reserved_words.ndjson",
        "properties{select:int64 user:string order:int64 table:string current_date:string timestamp:string date:string \
         values[int64] _id:string} segments[string]",
        &[],
        &[("properties.values", "[1]")],
    ),
    golden("b044_day1_struct.ndjson", "properties{device{os:string version:string}} segments[string]", &[], &[]),
    golden(
        "b044_day2_struct.ndjson",
        "properties{device{os:string version:string model:string}} segments[string]",
        &[],
        &[("properties.device", r#"{os:"A" version:"1" model:"M"}"#)],
    ),
    golden(
        "b046_no_offset.ndjson",
        "properties{expect_day:string} segments[string]",
        &[],
        &[("time", r#""2024-03-14T23:30:00" "2024-03-14 23:30:00.5" "1710410400" "1710410400123" "1710410400" "2024-03-14""#)],
    ),
    golden("b049_day_edges.ndjson", "properties{expect_day:string} segments[string]", &[], &[]),
    golden("b049_day_edges.ndjson by time", "properties{expect_day:string} segments[string]", &[], &[]),
    golden("b052_padding.ndjson", "properties{expect_day:string} segments[string]", &[], &[]),
    golden("b052_padding.ndjson by time", "properties{expect_day:string} segments[string]", &[], &[]),
    golden(
        "b053_partition_fields_inside.ndjson",
        "properties{path:string year:int64 month:int64 day:int64} segments[string] year_4cb4ea25:int64 month_a5c7d171:string",
        &[],
        &[("year_4cb4ea25", "1999 null"), ("month_a5c7d171", r#""May" null"#), ("properties.year", "null 2001")],
    ),
];

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) | Value::Time(value) => value.to_string(),
        Value::Double(value) => format!("{value:?}"),
        Value::Text(value) => format!("{value:?}"),
        Value::List(elements) => format!("[{}]", elements.iter().map(show).collect::<Vec<_>>().join(",")),
        Value::Struct(members) => {
            let members = members.iter().filter(|(_, value)| *value != Value::Null);
            format!("{{{}}}", members.map(|(name, value)| format!("{name}:{}", show(value))).collect::<Vec<_>>().join(" "))
        }
    }
}

/// Where the files of a case lie, without the extension, and their rows; the names are those of `tests/readers/rules.py`.
const PLACES: &[(&str, &[&str])] = &[
    ("b001_bom.ndjson", &["data/pageview_events/year=2024/month=3/day=14/data-000000000000 3"]),
    ("b004_empty.ndjson.gz", &[]),
    ("b004_empty.ndjson.zst", &[]),
    ("b004_zero_bytes.ndjson", &[]),
    ("b004_zero_bytes.ndjson.gz", &[]),
    ("b049_day_edges.ndjson", &["data/pageview_events/year=2024/month=3/day=14/data-000000000000 6"]),
    (
        "b049_day_edges.ndjson by time",
        &[
            "data/pageview_events/year=2016/month=12/day=31/data-002630000000 1",
            "data/pageview_events/year=2024/month=2/day=29/data-000014000000 1",
            "data/pageview_events/year=2024/month=3/day=14/data-000000000000 3",
            "data/pageview_events/year=2024/month=3/day=15/data-999999000000 1",
        ],
    ),
    (
        "b050_odd_event_types.ndjson",
        &[
            "data/a_2fb_126463b0_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/a_b_300273da_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/a_b_42144f39_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/a_b_6783a31e_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/a_b_8187fc8f_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/a_b_c14cddc0_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/a_b_c2a7b64a_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/a_b_c62016d0_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/a_b_c8687a08_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/caf__850f7dc4_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/dot__d65b1836_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/t___5ec1f7e7_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/t______other_5cbfa8e9_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/t_lead_075dbc0d_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/trail__fd04b249_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_1d449b72_events/year=2024/month=3/day=14/data-000000000000 1",
        ],
    ),
    (
        "b052_padding.ndjson by time",
        &[
            "data/pageview_events/year=2024/month=1/day=2/data-000365000000 1",
            "data/pageview_events/year=2024/month=10/day=10/data-000083000000 1",
            "data/pageview_events/year=2024/month=11/day=30/data-000032000000 1",
            "data/pageview_events/year=2024/month=12/day=31/data-000001000000 1",
            "data/pageview_events/year=2024/month=9/day=9/data-000114000000 1",
        ],
    ),
    (
        "b055_type_spelling.ndjson",
        &[
            "data/page_view_66ea2524_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/page_view_a7684501_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/page_view_events/year=2024/month=3/day=14/data-000000000000 1",
            "data/pageview_events/year=2024/month=3/day=14/data-000000000000 3",
        ],
    ),
    ("b061_nothing_usable.ndjson", &[]),
];

#[test]
fn every_place_and_every_golden_row_is_a_cases() {
    let names: BTreeSet<String> = index().iter().map(Case::name).collect();
    for name in PLACES.iter().map(|(name, _)| *name).chain(GOLDEN.iter().map(|golden| golden.case)) {
        assert!(names.contains(name), "no case `{name}`");
    }
    assert_eq!(names.len(), index().len(), "a name tells every row");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_staged_case_lands_as_parquet_with_every_value_and_the_columns_of_the_table() {
    let mut wrong: Vec<String> = Vec::new();
    for case in index().iter().filter(|case| !NOTIFICATIONS.contains(&case.file.as_str())) {
        let name = case.name();
        let Some((_, customer, answer)) = case.run(PARQUET).await else { continue };
        let mut staged: BTreeMap<TableName, Vec<Json>> = BTreeMap::new();
        for (table, _, value) in wanted(&case.file) {
            staged.entry(table).or_default().push(value);
        }
        let landed = customer.files(&case.day);
        assert_eq!(landed.keys().collect::<Vec<_>>(), staged.keys().collect::<Vec<_>>(), "{name}");
        let manifest = customer.manifest(&case.day);
        let mut rescued_values = 0;
        for table in &manifest.tables {
            let columns = tree(&table.columns);
            let mut records = staged.remove(&table.name).unwrap();
            let mut rows: Vec<Row> = Vec::new();
            let mut shape = String::new();
            for (key, body) in &landed[&table.name] {
                let footer = landed::footer(body);
                let told = table.columns.iter().map(|column| (column.path.clone(), column.column_type.clone(), column.id));
                let found = footer.iter().map(|column| (column.path.clone(), column.column_type.clone(), column.id));
                assert_eq!(found.collect::<Vec<_>>(), told.collect::<Vec<_>>(), "{name}: {key} has the manifest's columns");
                shape = landed::shape(&footer);
                rows.extend(landed::parquet_rows(body));
            }
            for row in &rows {
                let id = landed::at(row, "event_id");
                let at =
                    records.iter().position(|record| Value::Text(record.get("event_id").unwrap().text().unwrap().into()) == *id);
                let record = records.remove(at.unwrap_or_else(|| panic!("{name}: {id:?} was never staged")));
                wrong.extend(differences(&columns, &record, row).into_iter().map(|difference| format!("{name}: {difference}")));
            }
            assert!(records.is_empty(), "{name}: {} records of {} did not land", records.len(), table.name);
            let golden = GOLDEN.iter().find(|golden| golden.case == name && golden.table == table.name.as_str());
            let wanted = golden.map_or("properties{path:string} segments[string]", |golden| golden.columns);
            if shape != format!("{USUAL} {wanted}") {
                wrong.push(format!("{name}: {} has the columns\n  {shape}, not\n  … {wanted}", table.name));
            }
            let rescue = columns.iter().find(|column| column.role == Role::Rescue).unwrap();
            for row in &rows {
                let Value::Text(id) = landed::at(row, "event_id") else { panic!("{name}: no id") };
                let wanted = golden.and_then(|golden| golden.rescued.iter().find(|(event, _)| event == id));
                let found = landed::at(row, &rescue.name);
                rescued_values += match found {
                    Value::Text(text) => match Json::parse(text) {
                        Some(Json::Object(members)) => members.len(),
                        _ => 0,
                    },
                    _ => 0,
                };
                if *found != wanted.map_or(Value::Null, |(_, text)| Value::Text((*text).to_owned())) {
                    wrong.push(format!("{name}: {} {id} has {} rescued, not {wanted:?}", table.name, show(found)));
                }
            }
            for (path, values) in golden.iter().flat_map(|golden| golden.values) {
                let found: Vec<String> = rows.iter().map(|row| show(landed::at(row, path))).collect();
                if found.join(" ") != *values {
                    wrong.push(format!("{name}: {path} is {}, not {values}", found.join(" ")));
                }
            }
        }
        assert_eq!(answer.counts.rescued, rescued_values as u64, "{name}: rescued values are counted");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The keys that a notification's row must have had read, by `Case::file`: as the notes of the index say.
const NOTIFIED: &[(&str, &[&str])] = &[
    (
        "b086_s3_event_keys.json",
        &[
            "staged/red flower 1.ndjson.gz",
            "staged/a+b.ndjson",
            "staged/this im + age.ndjson",
            "staged/\u{fc}ber.ndjson",
            "staged/dt=2024-03-14/x.ndjson",
        ],
    ),
    ("b088_eventbridge.json", &["staged/red flower.ndjson.gz"]),
    ("b088_raw_in_sqs.json", &["staged/x.ndjson.gz"]),
    ("b088_sns_in_sqs.json", &["staged/x.ndjson.gz"]),
    ("b089_removed_event.json", &[]),
];

/// Objects that are there and that no notification tells of: its keys decoded too often, or not at all, and what was removed.
const NOT_NOTIFIED: [&str; 5] = [
    "staged/red+flower+1.ndjson.gz",
    "staged/a%2Bb.ndjson",
    "staged/a b.ndjson",
    "staged/x.ndjson",
    "staged/red+flower.ndjson.gz",
];

const QUEUE_ARN: &str = "arn:aws:sqs:eu-west-1:111122223333:example";

/// A case's messages as Lambda hands them over, with the attributes that SQS would give: sent at 11:00 on the base day.
fn handed_over(file: &str) -> Request {
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    let case: serde_json::Value = serde_json::from_str(&text).unwrap();
    let is_event = case.pointer("/Records/0/eventSource").and_then(serde_json::Value::as_str) == Some("aws:sqs");
    let mut event = if is_event {
        case
    } else {
        serde_json::json!({"Records": [{
            "messageId": "m-0", "receiptHandle": "r-0", "body": text, "attributes": {"ApproximateReceiveCount": "1"},
            "eventSource": "aws:sqs", "eventSourceARN": QUEUE_ARN, "awsRegion": "eu-west-1",
        }]})
    };
    event["Records"][0]["attributes"]["SentTimestamp"] = "1710414000000".into();
    Request::from_event(&event).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_notification_of_the_index_has_exactly_its_objects_read_in_both_formats() {
    let mut seen = 0;
    for case in index().iter().filter(|case| NOTIFICATIONS.contains(&case.file.as_str())) {
        for format in [JSON, PARQUET] {
            seen += 1;
            let name = &case.file;
            let base = Configuration::new()
                .with("staging.event_field", "\"event_type\"")
                .with("staging.s3_prefix", "\"staged/\"")
                .with("staging.sqs_queue_url", "\"https://sqs.eu-west-1.amazonaws.com/111122223333/example\"")
                .with("staging.sqs_mode", "\"trigger\"")
                .with("destination.format", format);
            let mut lab = Lab::new().await;
            lab.settings(&case.settings.iter().fold(base, |all, (key, value)| all.with(key, value)).text());
            let (_, keys) = NOTIFIED.iter().find(|(file, _)| file == name).unwrap();
            for key in keys.iter().chain(NOT_NOTIFIED.iter().filter(|key| !keys.contains(key))) {
                let record = format!(r#"{{"event_type":"pageview","event_id":"{key}","time":"2024-03-14T10:00:00Z"}}"#);
                lab.stage_lines(key, &[&record]).await;
            }
            // The same message twice, as SQS may deliver it.
            for id in ["one", "two"] {
                let answer = lab.invoke(&handed_over(name), &Invocation::unlimited(id), &Nobody).await.unwrap();
                assert_eq!(serde_json::to_string(&answer).unwrap(), r#"{"batchItemFailures":[]}"#, "{name}");
            }
            let answer = lab.run(BASE_DAY).await.remove(0);
            assert_eq!(answer.state, RunOutcome::Committed, "{name}: {answer:?}");
            let counts = (answer.counts.delivered, answer.counts.quarantined, answer.counts.read);
            assert_eq!(counts, (keys.len() as u64, 0, keys.len() as u64), "{name}");
            if let Some(told) = case.counts {
                assert_eq!((counts.0, counts.1), told, "{name}: as the index says");
            }
            let objects = lab.landed("customer").await.into_iter().map(|(key, body)| (key, body.into())).collect();
            let landed = Landed { objects };
            let mut ids: Vec<String> = Vec::new();
            for (_, body) in landed.files(BASE_DAY).into_values().flatten() {
                if format == JSON {
                    let lines = landed::json_lines(&body);
                    ids.extend(
                        lines.iter().map(|line| Json::parse(line).unwrap().get("event_id").unwrap().text().unwrap().to_owned()),
                    );
                } else {
                    ids.extend(landed::parquet_rows(&body).iter().map(|row| match landed::at(row, "event_id") {
                        Value::Text(id) => id.clone(),
                        other => panic!("{name}: {other:?}"),
                    }));
                }
            }
            ids.sort();
            let mut wanted: Vec<&str> = keys.to_vec();
            wanted.sort_unstable();
            assert_eq!(ids, wanted, "{name}");
        }
    }
    assert_eq!(seen, 2 * NOTIFICATIONS.len());
}
