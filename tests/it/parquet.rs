//! Staged Parquet from pyarrow and DuckDB, through the whole path to both formats; damaged, hostile, and another organisation's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field};
use dayport::run::answer::RunOutcome;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::equality::differences;
use crate::json::Json;
use crate::landed::{json_lines, parquet_rows};
use crate::world::{Configuration, World};

const DAY: &str = "2026-01-15";
const FORMATS: [&str; 2] = ["\"json\"", "\"parquet\""];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parquet")
}

/// The files of `tests/parquet`, each with the rows that it holds.
fn files() -> Vec<(String, Vec<u8>, Vec<Json>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some((kind, _)) = name.split_once('_').filter(|_| name.ends_with(".parquet")) else { continue };
        let rows = std::fs::read_to_string(folder().join(format!("rows.{kind}.ndjson"))).unwrap();
        found.push((name, std::fs::read(&path).unwrap(), rows.lines().map(|line| Json::parse(line).unwrap()).collect()));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn world(format: &str) -> World {
    World::new(&Configuration::new().with("destination.format", format))
}

type Columns<'a> = Vec<(&'a str, ArrayRef)>;

/// The columns as one batch of an object.
fn object(columns: Columns<'_>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(4)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_of_other_peoples_writers_lands_in_order_with_every_value() {
    let files = files();
    assert!(files.len() >= 9, "files of both writers, of every codec");
    for format in FORMATS {
        for (name, bytes, rows) in &files {
            let world = world(format);
            world.stage(DAY, name, bytes.clone());
            let answer = world.commit(DAY).await;
            assert_eq!((answer.counts.read, answer.counts.delivered), (rows.len() as u64, rows.len() as u64), "{name}");
            let landed = world.landed();
            if format == "\"json\"" {
                let files = landed.files(DAY).into_values().next().unwrap();
                let lines: Vec<String> = files.iter().flat_map(|(_, body)| json_lines(body)).collect();
                assert_eq!(lines.len(), rows.len(), "{name}");
                for (line, row) in lines.iter().zip(rows) {
                    let value = Json::parse(line).unwrap_or_else(|| panic!("{name}: {line}"));
                    assert!(value.is_same(row), "{name}:\n{line}\n{row:?}");
                    assert!(!name.starts_with("arrow_") || !line.contains(": "), "canonical: {line}");
                }
                continue;
            }
            let (columns, landed) = landed.rows(DAY).into_values().next().unwrap();
            assert_eq!(landed.len(), rows.len(), "{name}");
            for (row, staged) in landed.iter().zip(rows) {
                assert_eq!(differences(&columns, staged, row), [""; 0], "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_codecs_and_encodings_of_the_same_rows_give_the_same_bytes() {
    for format in FORMATS {
        let mut first: Option<Vec<u8>> = None;
        for (name, bytes, _) in files().into_iter().filter(|(name, ..)| name.starts_with("arrow_")) {
            let world = world(format);
            world.stage(DAY, "a", bytes);
            world.commit(DAY).await;
            let landed = world.landed().files(DAY).into_values().next().unwrap().remove(0).1.to_vec();
            let is_same = first.get_or_insert_with(|| landed.clone()) == &landed;
            assert!(is_same, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_beside_json_is_routed_by_folder_and_field_and_a_rejects_place_is_its_row() {
    let names = ["Pageview", "", "LinkClick", "Pageview", "Pageview", "Pageview"];
    let times =
        ["2026-01-15T10:00:00Z", "2026-01-15T10:00:00Z", "2026-01-15T10:00:00Z", "soon", "2026-01-15T10:00:00Z", "1768471200"];
    for threads in ["1", "3"] {
        let world = World::new(&Configuration::new().with("destination.format", "\"json\"").with("run.threads", threads));
        world.stage(DAY, "b.parquet", object(vec![("event_name", texts(&names)), ("time", texts(&times))]));
        world.stage(DAY, "a.ndjson", "{\"event_name\":\"Pageview\",\"time\":1768471200}\n");
        world.stage(DAY, "c.ndjson", "{\"event_name\":\"Pageview\",\"time\":1768471201}\n");
        world.stage(DAY, "domains/d", object(vec![("domain", texts(&["a.example", "b.example"]))]));
        let answer = world.commit(DAY).await;
        assert_eq!((answer.counts.read, answer.counts.delivered, answer.counts.quarantined), (10, 8, 2));
        let lines: Vec<String> =
            world.landed().files(DAY).into_values().flatten().flat_map(|(_, body)| json_lines(&body)).collect();
        assert_eq!(
            lines,
            [
                r#"{"domain":"a.example"}"#,
                r#"{"domain":"b.example"}"#,
                r#"{"event_name":"LinkClick","time":"2026-01-15T10:00:00Z"}"#,
                r#"{"event_name":"Pageview","time":1768471200}"#,
                r#"{"event_name":"Pageview","time":"2026-01-15T10:00:00Z"}"#,
                r#"{"event_name":"Pageview","time":"2026-01-15T10:00:00Z"}"#,
                r#"{"event_name":"Pageview","time":"1768471200"}"#,
                r#"{"event_name":"Pageview","time":1768471201}"#,
            ]
        );
        let held: Vec<(String, String, String)> = world
            .quarantine()
            .iter()
            .map(|line| {
                let Json::Number(row) = line.get("line").unwrap() else { panic!("{line:?}") };
                let text = |key: &str| line.get(key).unwrap().text().unwrap().to_owned();
                (row.clone(), text("reason"), text("text"))
            })
            .collect();
        assert_eq!(
            held,
            [
                ("2".into(), "no_event_name".into(), r#"{"event_name":"","time":"2026-01-15T10:00:00Z"}"#.into()),
                ("4".into(), "no_time".into(), r#"{"event_name":"Pageview","time":"soon"}"#.into()),
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_too_long_is_one_reject_and_the_others_go_on() {
    let long = "x".repeat(3_000);
    let names = ["Pageview", "Pageview", &long, "Pageview"];
    let times = ["2026-01-15T10:00:00Z"; 4];
    let world = World::new(
        &Configuration::new()
            .with("destination.format", "\"json\"")
            .with("staging.max_record_bytes", "\"1KiB\"")
            .with("run.max_quarantine_ratio", "1.0"),
    );
    world.stage(DAY, "a", object(vec![("event_name", texts(&names)), ("time", texts(&times))]));
    let answer = world.commit(DAY).await;
    assert_eq!((answer.counts.read, answer.counts.delivered, answer.counts.quarantined), (4, 3, 1));
    let line = world.quarantine().remove(0);
    assert_eq!(line.get("line"), Some(&Json::Number("3".into())));
    assert_eq!(line.get("reason").unwrap().text(), Some("too_large"));
    assert_eq!(line.get("text").unwrap().text().unwrap().len(), 1024);
    assert_eq!(line.get("length"), Some(&Json::Number("3047".into())));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_named_and_nothing_becomes_visible_unless_it_is_to_be_skipped() {
    let (_, whole, _) = files().into_iter().find(|(name, ..)| name == "duck_v1.parquet").unwrap();
    let footer = u32::from_le_bytes(whole[whole.len() - 8..whole.len() - 4].try_into().unwrap()) as usize;
    let mut wrong_footer = whole.clone();
    let at = whole.len() - 8 - footer;
    wrong_footer[at..at + 16].fill(0xFF);
    let mut encrypted = whole.clone();
    let end = encrypted.len();
    encrypted[end - 1] = b'E';
    let cases: [(&str, Vec<u8>, &str); 5] = [
        ("cut", whole[..whole.len() / 2].to_vec(), "its Parquet ends in the middle"),
        ("head", b"PAR1".to_vec(), "its Parquet ends in the middle"),
        ("text", b"PAR1 is no event\n{\"event_name\":\"a\"}\n".to_vec(), "its Parquet ends in the middle"),
        ("footer", wrong_footer, "its Parquet has a footer that is no Parquet footer"),
        ("encrypted", encrypted, "its Parquet is encrypted"),
    ];
    for (name, bytes, said) in cases {
        let world = world("\"parquet\"");
        world.stage(DAY, "a.ndjson", "{\"event_name\":\"Pageview\",\"time\":1768471200}\n");
        world.stage(DAY, name, bytes.clone());
        let answer = world.run(DAY).await;
        let error = answer.error.unwrap();
        assert_eq!((answer.state, error.kind), (RunOutcome::Failed, "vendor"), "{name}");
        assert!(error.message.contains(&format!("`events/{DAY}/{name}`: it is damaged: {said}")), "{}", error.message);
        assert!(world.landed().objects.is_empty());
        let skipping = World::new(&Configuration::new().with("staging.on_damaged_object", "\"skip\""));
        skipping.stage(DAY, "a.ndjson", "{\"event_name\":\"Pageview\",\"time\":1768471200}\n");
        skipping.stage(DAY, name, bytes);
        let answer = skipping.commit(DAY).await;
        assert_eq!(answer.counts.delivered, 1, "{name}");
        assert!(answer.notes.iter().any(|note| note.contains(name) && note.contains(said)), "{:?}", answer.notes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_on_what_an_object_unpacks_to_hold_for_rows_too() {
    // A dictionary of one long text, which every row has.
    let name = "x".repeat(200_000);
    let (names, times) = (vec![name.as_str(); 2_000], vec!["2026-01-15T10:00:00Z"; 2_000]);
    let bytes = object(vec![("event_name", texts(&names)), ("time", texts(&times))]);
    let world = World::new(&Configuration::new().with("staging.max_object_bytes", "\"100MiB\""));
    world.stage(DAY, "a", bytes);
    let error = world.run(DAY).await.error.unwrap();
    assert!(error.message.contains("it is damaged: it unpacks to more than `104857600` bytes"), "{}", error.message);
}

/// CONTRACT.md §5: a record whose field is absent, not a string, or another's is filtered, whatever it looks like.
#[tokio::test(flavor = "multi_thread")]
async fn no_row_of_another_organisation_reaches_a_destination_whatever_its_columns_are() {
    let rows = 5;
    let (names, times) = (vec!["Pageview"; rows], vec!["2026-01-15T10:00:00Z"; rows]);
    let plain = |values: &[&str]| texts(values);
    let ours = ["acme"; 5];
    let nested = |name: &str| -> ArrayRef {
        Arc::new(StructArray::from(vec![(Arc::new(Field::new(name, DataType::Utf8, true)), texts(&ours))]))
    };
    let list: ArrayRef = {
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([1; 5]);
        Arc::new(ListArray::new(Arc::new(Field::new_list_field(DataType::Utf8, true)), offsets, texts(&ours), None))
    };
    let nulls: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>; rows]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; rows]));
    let cases: [(&str, Columns<'_>, u64); 9] = [
        ("mixed", vec![("org", plain(&["acme", "other", "ACME", "acme ", ""]))], 1),
        ("absent", vec![("ORG", plain(&ours)), ("x", plain(&ours))], 0),
        ("null", vec![("org", nulls)], 0),
        ("number", vec![("org", numbers)], 0),
        ("list", vec![("org", list)], 0),
        ("struct", vec![("org", nested("org"))], 0),
        ("decoy", vec![("x", nested("org"))], 0),
        ("text of it", vec![("x", plain(&["\",\"org\":\"acme\",\"y\":\""; 5]))], 0),
        ("name of it", vec![("x\":1,\"org\":\"acme\",\"y", plain(&ours))], 0),
    ];
    for format in FORMATS {
        for (case, columns, delivered) in &cases {
            let world = World::new(
                &Configuration::new()
                    .with("destination.format", format)
                    .with("staging.organization_field", "\"org\"")
                    .with("destination.organization", "\"acme\""),
            );
            let all = [vec![("event_name", texts(&names)), ("time", texts(&times))], columns.clone()].concat();
            world.stage(DAY, "a", object(all));
            let answer = world.commit(DAY).await;
            let filtered = rows as u64 - delivered;
            assert_eq!((answer.counts.delivered, answer.counts.filtered), (*delivered, filtered), "{case} {format}");
            let files: Vec<_> = world.landed().files(DAY).into_values().flatten().collect();
            for (_, body) in files {
                let landed = if format == "\"json\"" { json_lines(&body).len() } else { parquet_rows(&body).len() };
                assert_eq!(landed as u64, *delivered, "{case}");
            }
        }
    }
}
