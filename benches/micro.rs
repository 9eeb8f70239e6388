//! What each step of a record's way costs by itself, so that a regression shows where: `make micro`.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    unreachable_pub,
    reason = "a bench may end at the first surprise"
)]

use std::io::Write as _;
use std::sync::OnceLock;

use arrow::array::{Array, RecordBatch};
use dayport::columns::evidence::{Evidence, Limits};
use dayport::columns::fields::TypedSchema;
use dayport::columns::pin::{Given, base_schema, decide};
use dayport::columns::shred::Shredder;
use dayport::domain::run::{Day, Transfer};
use dayport::files::json::JsonFile;
use dayport::files::roll::{Recipe, RollingFile, Rows};
use dayport::records::decode::{DecodeLimits, Decoder};
use dayport::records::json::Tape;
use dayport::records::lines::Splitter;
use dayport::records::reader::{Place, Reader, Visit};
use dayport::records::route::Reason;
use dayport::sample::{SampleSpec, write_day};
use divan::Bencher;
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

/// Bytes of a chunk, as the pipeline has them.
const CHUNK_BYTES: usize = 2 << 20;
const START: Place = Place { line: 1, offset: 0 };

/// A sample day's pageviews: the lines of about one chunk, packed and plain.
struct Sample {
    packed: Vec<u8>,
    lines: Vec<u8>,
    schema: TypedSchema,
    rows: RecordBatch,
}

/// Shreds all records that it is handed, straight where that goes.
struct Straight(Shredder);

impl Visit for Straight {
    fn direct(&mut self, _: Place, text: &[u8], max_depth: usize) -> bool {
        let is_taken = self.0.append_direct(text, max_depth).is_some();
        if is_taken {
            self.0.keep();
        }
        is_taken
    }
    fn record(&mut self, _: Place, tape: &mut Tape, text: &[u8], _: bool, _: &[u8]) {
        self.0.append(tape, text, None);
    }
    fn reject(&mut self, _: Place, _: Reason, _: &[u8], _: Option<&'static str>) {}
}

/// Shreds all records that it is handed, by tape.
struct Shred(Shredder);

impl Visit for Shred {
    fn record(&mut self, _: Place, tape: &mut Tape, text: &[u8], _: bool, _: &[u8]) {
        self.0.append(tape, text, None);
    }
    fn reject(&mut self, _: Place, _: Reason, _: &[u8], _: Option<&'static str>) {}
}

/// Observes all records that it is handed.
struct Observe(Evidence);

impl Visit for Observe {
    fn record(&mut self, _: Place, tape: &mut Tape, text: &[u8], _: bool, _: &[u8]) {
        self.0.observe(tape, text);
    }
    fn reject(&mut self, _: Place, _: Reason, _: &[u8], _: Option<&'static str>) {}
}

struct NoOne;

impl Visit for NoOne {
    fn record(&mut self, _: Place, _: &mut Tape, _: &[u8], _: bool, _: &[u8]) {}
    fn reject(&mut self, _: Place, _: Reason, _: &[u8], _: Option<&'static str>) {}
}

fn reader() -> Reader {
    Reader::new(64, 16 << 20)
}

fn decoder(staged: usize) -> Decoder {
    Decoder::new(DecodeLimits { max_object_bytes: 1 << 36, max_ratio: 1000 }, staged as u64)
}

fn unpack(packed: &[u8]) -> Vec<u8> {
    let (mut decoder, mut lines, mut rest) = (decoder(packed.len()), Vec::new(), packed);
    while !rest.is_empty() {
        let limit = lines.len() + CHUNK_BYTES;
        let used = decoder.push(rest, &mut lines, limit).unwrap().consumed;
        rest = &rest[used..];
    }
    lines
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let date = time::Date::from_calendar_date(2026, time::Month::January, 15).unwrap();
        let spec = SampleSpec { date, records: 8_000, seed: 1, objects: 1, gzip_only: true };
        let mut lines = Vec::new();
        let put = &mut |key: &str, bytes: Vec<u8>| {
            if key.starts_with("events/") {
                let all = unpack(&bytes);
                let pageviews =
                    all.split_inclusive(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{\"event_name\":\"Pageview\""));
                lines.extend(pageviews.flatten());
            }
            Ok::<(), std::convert::Infallible>(())
        };
        write_day(&spec, put).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        gzip.write_all(&lines).unwrap();
        let packed = gzip.finish().unwrap();
        let day: Day = "2026-01-15".parse().unwrap();
        let given = Given { declared: &[], rescue_column: "_rescued_data", transfer_columns: false, day };
        let base = base_schema(None, &given).unwrap();
        let mut observe = Observe(Evidence::new(&base, Limits { max_columns: 2000, max_fields: 200, max_column_depth: 12 }));
        reader().read(&lines, START, &mut observe);
        let schema = TypedSchema::new(decide(&base, &observe.0, None, "_rescued_data", day));
        let mut shred = Shred(Shredder::new(&schema));
        reader().read(&lines, START, &mut shred);
        let rows = shred.0.finish().unwrap().rows.into();
        Sample { packed, lines, schema, rows }
    })
}

fn all_lines() -> BytesCount {
    BytesCount::new(sample().lines.len())
}

#[divan::bench]
fn decompress(bencher: Bencher) {
    let packed = &sample().packed;
    let mut out = Vec::with_capacity(CHUNK_BYTES);
    bencher.counter(all_lines()).bench_local(|| {
        let (mut decoder, mut rest) = (decoder(packed.len()), packed.as_slice());
        while !rest.is_empty() {
            out.clear();
            rest = &rest[decoder.push(rest, &mut out, CHUNK_BYTES).unwrap().consumed..];
        }
    });
}

#[divan::bench]
fn split(bencher: Bencher) {
    let lines = &sample().lines;
    bencher.counter(all_lines()).bench_local(|| {
        let mut splitter = Splitter::new(CHUNK_BYTES, 16 << 20);
        let mut rest = lines.as_slice();
        let mut chunks = 0;
        loop {
            while let Some(chunk) = splitter.take() {
                chunks += chunk.bytes.len();
            }
            if rest.is_empty() {
                break;
            }
            let (room, limit) = splitter.room();
            let (now, later) = rest.split_at(rest.len().min(limit - room.len()));
            room.extend_from_slice(now);
            rest = later;
        }
        chunks
    });
}

#[divan::bench]
fn read(bencher: Bencher) {
    let mut reader = reader();
    bencher.counter(all_lines()).bench_local(|| reader.read(&sample().lines, START, &mut NoOne));
}

#[divan::bench]
fn shred_straight(bencher: Bencher) {
    let mut reader = reader();
    let mut shred = Straight(Shredder::new(&sample().schema));
    bencher.counter(all_lines()).bench_local(|| {
        reader.read(&sample().lines, START, &mut shred);
        shred.0.finish().unwrap()
    });
}

#[divan::bench]
fn shred_by_tape(bencher: Bencher) {
    let mut reader = reader();
    let mut shred = Shred(Shredder::new(&sample().schema));
    bencher.counter(all_lines()).bench_local(|| {
        reader.read(&sample().lines, START, &mut shred);
        shred.0.finish().unwrap()
    });
}

#[divan::bench]
fn read_and_observe(bencher: Bencher) {
    let mut reader = reader();
    let given =
        Given { declared: &[], rescue_column: "_rescued_data", transfer_columns: false, day: "2026-01-15".parse().unwrap() };
    let base = base_schema(None, &given).unwrap();
    let mut observe = Observe(Evidence::new(&base, Limits { max_columns: 2000, max_fields: 200, max_column_depth: 12 }));
    bencher.counter(all_lines()).bench_local(|| reader.read(&sample().lines, START, &mut observe));
}

#[divan::bench]
fn encode_parquet(bencher: Bencher) {
    let recipe = Recipe::parquet(&sample().schema, vec!["time".to_owned()], Transfer { started_millis: 0 }).unwrap();
    let rows = arrow::array::StructArray::from(sample().rows.clone());
    bencher.counter(all_lines()).bench_local(|| {
        let mut file = RollingFile::new(recipe.clone(), u64::MAX, 0);
        let mut out = Vec::new();
        for from in (0..rows.len()).step_by(2_048) {
            file.push(Rows::Columns(rows.slice(from, (rows.len() - from).min(2_048)))).unwrap();
            file.end_batch(&mut out).unwrap();
        }
        file.finish(&mut out).unwrap();
        out
    });
}

#[divan::bench]
fn gzip_lines(bencher: Bencher) {
    let lines = &sample().lines;
    bencher.counter(all_lines()).bench_local(|| {
        let mut file = JsonFile::default();
        for block in lines.chunks(CHUNK_BYTES) {
            file.write(block, 1).unwrap();
        }
        file.finish()
    });
}
