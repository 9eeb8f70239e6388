//! Any bytes as a staged object of a whole day, in both formats: the balance holds, what fails shows nothing, and nothing is a bug.

use std::collections::BTreeMap;

use bytes::Bytes;
use dayport::config::{Environment, parse};
use dayport::domain::counts::Counts;
use dayport::run::answer::{RunAnswer, RunOutcome};
use dayport::run::driver::{Asked, Rim, Stores, run_day};
use dayport::store::memory::MemoryBucket;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

/// Limits that small inputs reach; the memory that a run may take is bounded by them.
const CONFIGURATION: &str = r#"
[staging]
s3_bucket = "staging"
max_record_bytes = "64KiB"
max_object_bytes = "16MiB"
max_ratio = 2000
[state]
s3_bucket = "state"
[run]
threads = 1
max_quarantine_ratio = 1.0
max_tables = 50
[parquet]
max_columns = 100
max_fields = 50
[[destination]]
name = "acme"
s3_bucket = "customer"
"#;
const DAY: &str = "2026-01-15";

fn land(data: &[u8], format: &str) -> (RunAnswer, BTreeMap<String, Bytes>, usize) {
    let text = format!("{CONFIGURATION}format = \"{format}\"\n");
    let environment = Environment { threads: 1, temp_dir: std::env::temp_dir(), ..Environment::default() };
    let settings = parse(&text, &environment).unwrap_or_else(|error| panic!("{error}"));
    let (staging, state, customer) = (MemoryBucket::new(), MemoryBucket::new(), MemoryBucket::new().with_small_parts());
    staging.insert(&format!("events/{DAY}/object"), data.to_vec());
    let rim = Rim { now_millis: &|| 1_768_546_800_000, millis_left: &|| None, on_progress: &|_| {}, panic_on_object: None };
    let stores = Stores { staging: &staging, state: &state, customer: &customer };
    let asked = Asked { day: DAY.parse().expect("a day"), force: None, configuration: "configuration" };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let answer = runtime.block_on(run_day(&rim, &settings, &settings.destinations[0], stores, asked));
    (answer, customer.objects(), customer.open_uploads().len())
}

/// Lands `data` as a day of its own; gives the counts, or the kind that it failed with.
fn outcome(data: &[u8], format: &str) -> Result<Counts, &'static str> {
    let (answer, objects, open_uploads) = land(data, format);
    let counts = answer.counts;
    if answer.state != RunOutcome::Committed {
        let error = answer.error.expect("a run that is not committed says why");
        assert_eq!(answer.state, RunOutcome::Failed, "{}", error.message);
        assert_eq!(error.kind, "vendor", "{}", error.message);
        assert!(objects.is_empty(), "a failed run shows {:?}", objects.keys());
        return Err(error.kind);
    }
    assert_eq!(open_uploads, 0);
    assert_eq!(counts.read, counts.delivered + counts.quarantined + counts.duplicates + counts.filtered, "{counts:?}");
    assert_eq!(counts.quarantined, answer.quarantine.reasons.values().sum::<u64>(), "{counts:?}");
    assert_eq!(counts.delivered, answer.tables.iter().map(|table| table.rows).sum::<u64>(), "{counts:?}");
    let landed: u64 = objects.iter().filter(|(key, _)| !key.starts_with("_dayport/")).map(|(key, body)| rows(key, body)).sum();
    assert_eq!(counts.delivered, landed, "rows that landed");
    Ok(counts)
}

fn rows(key: &str, body: &Bytes) -> u64 {
    use std::io::Read as _;
    if key.ends_with(".parquet") {
        let reader = SerializedFileReader::new(body.clone()).expect("a landed file can be read");
        return reader.metadata().file_metadata().num_rows().unsigned_abs();
    }
    let mut plain = Vec::new();
    flate2::bufread::MultiGzDecoder::new(body.as_ref()).read_to_end(&mut plain).expect("a landed file can be unpacked");
    assert!(plain.ends_with(b"\n"));
    memchr::memchr_iter(b'\n', &plain).count() as u64
}

/// Lands `data` in both formats; panics where something does not hold, or where the two count differently.
pub fn run(data: &[u8]) {
    let json = outcome(data, "json");
    let parquet = outcome(data, "parquet");
    let without_rescued = |counts: Counts| Counts { rescued: 0, ..counts };
    assert_eq!(json.map(without_rescued), parquet.map(without_rescued), "the formats count differently");
}
