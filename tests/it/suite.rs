//! The documents of a public JSON conformance suite, each as a property's value and each as a line of its own.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::equality::differences;
use crate::json::Json;
use crate::world::{Configuration, World};

const DAY: &str = "2024-03-14";

/// Name and bytes of every document.
pub(crate) fn documents() -> Vec<(String, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/json_suite.ndjson");
    let text = std::fs::read_to_string(path).unwrap();
    let documents = text.lines().map(|line| {
        let line = Json::parse(line).unwrap();
        let field = |key: &str| line.get(key).unwrap().text().unwrap().to_owned();
        (field("name"), STANDARD.decode(field("base64")).unwrap())
    });
    documents.collect()
}

fn world(format: &str) -> World {
    World::new(&Configuration::new().with("destination.format", format).with("run.max_quarantine_ratio", "1.0"))
}

fn record(value: &[u8]) -> Vec<u8> {
    [br#"{"event_name":"a","time":"2024-03-14T10:00:00Z","properties":{"v":"#.as_slice(), value, b"}}\n"].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_property_lands_or_is_quarantined_as_the_suite_says_of_its_text() {
    for format in ["\"json\"", "\"parquet\""] {
        let world = world(format);
        let mut wanted: BTreeMap<&str, [u64; 2]> = BTreeMap::from([("y", [0; 2]), ("n", [0; 2]), ("i", [0; 2])]);
        let all = documents();
        let documents = || all.iter().filter(|(_, bytes)| !bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r')));
        for (name, bytes) in documents() {
            // An object for each, so that the counts of one document can be told from those of another.
            world.stage(DAY, name, record(bytes));
        }
        let answer = world.commit(DAY).await;
        let counts = answer.counts;
        assert_eq!(counts.read, documents().count() as u64);
        assert_eq!(counts.read, counts.delivered + counts.quarantined);
        let quarantined = world.quarantined_objects();
        for (name, _) in documents() {
            let is_quarantined = quarantined.contains(&format!("events/{DAY}/{name}"));
            let [landed, held] = wanted.get_mut(&name[..1]).unwrap();
            *(if is_quarantined { held } else { landed }) += 1;
            match &name[..1] {
                "y" => assert!(!is_quarantined, "{name} is JSON"),
                "n" => assert!(is_quarantined, "{name} is not JSON"),
                _ => {}
            }
        }
        if format == "\"parquet\"" {
            let landed = documents().filter(|(name, _)| !quarantined.contains(&format!("events/{DAY}/{name}")));
            let landed: BTreeMap<&String, &Vec<u8>> = landed.map(|(name, bytes)| (name, bytes)).collect();
            let (columns, rows) = world.landed().rows(DAY).into_values().next().unwrap();
            assert_eq!(rows.len(), landed.len());
            for ((name, bytes), row) in landed.into_iter().zip(&rows) {
                let staged = Json::parse(&String::from_utf8_lossy(&record(bytes))).unwrap();
                assert_eq!(differences(&columns, &staged, row), [""; 0], "{name}");
            }
        }
        assert!(wanted["y"][0] > 80 && wanted["n"][1] > 150, "{wanted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_as_a_line_of_its_own_takes_nothing_else_with_it() {
    for format in ["\"json\"", "\"parquet\""] {
        let world = world(format);
        let good = record(b"1");
        for (name, bytes) in documents() {
            world.stage(DAY, &name, [good.as_slice(), &bytes, b"\n", &good].concat());
        }
        let counts = world.commit(DAY).await.counts;
        assert_eq!(counts.delivered, 2 * documents().len() as u64);
        assert_eq!(counts.read, counts.delivered + counts.quarantined);
    }
}
