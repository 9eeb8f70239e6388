//! Every staged object of `tests/cases`, decoded, cut into chunks and counted: the index says what must come of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::decode::{Damage, DecodeLimits, Decoder, Kind, Packing};
use super::lines::{Chunk, Splitter};
use super::time::{parse_number, parse_text};

const LIMITS: DecodeLimits = DecodeLimits { max_object_bytes: 64 << 30, max_ratio: 1000 };

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// Decodes and cuts as a run does, with `piece` bytes a read.
fn read(object: &[u8], piece: usize, chunk_size: usize, max_record_bytes: usize) -> Result<(Vec<Chunk>, Option<Kind>), Damage> {
    let mut decoder = Decoder::new(LIMITS, object.len() as u64);
    let mut splitter = Splitter::new(chunk_size, max_record_bytes);
    let mut chunks = Vec::new();
    for mut input in object.chunks(piece) {
        while !input.is_empty() {
            let (buffer, limit) = splitter.room();
            let progress = decoder.push(input, buffer, limit)?;
            input = &input[progress.consumed..];
            splitter.set_origin(decoder.dropped_bytes());
            chunks.extend(std::iter::from_fn(|| splitter.take()));
        }
    }
    loop {
        let (buffer, limit) = splitter.room();
        let done = decoder.finish(buffer, limit)?;
        splitter.set_origin(decoder.dropped_bytes());
        if done {
            break;
        }
        chunks.extend(std::iter::from_fn(|| splitter.take()));
    }
    splitter.finish();
    chunks.extend(std::iter::from_fn(|| splitter.take()));
    Ok((chunks, decoder.kind()))
}

/// How many records and rejects come of a chunk by its lines: the values of a line, or one reject for one that is not wholly values.
fn records_in(chunk: &Chunk) -> usize {
    if chunk.reject.is_some() {
        return 1;
    }
    let wrapped = [b"[", chunk.bytes.as_slice(), b"]"].concat();
    let text = if chunk.elements { &wrapped } else { &chunk.bytes };
    text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).map(|line| values_in(line).unwrap_or(1)).sum()
}

fn values_in(line: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(line).ok()?;
    let mut count = 0;
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value.ok()?.get();
        count += serde_json::from_str::<Vec<&RawValue>>(value).map_or(1, |list| list.len());
    }
    Some(count)
}

#[test]
fn every_staged_case_gives_the_records_and_the_fate_of_the_index() {
    let index = fs::read_to_string(folder().join("index.tsv")).unwrap();
    let mut seen = 0;
    for row in index.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [_, file, _, delivered, quarantined, fate, ..] = columns[..] else { panic!("{row}") };
        let is_notification = std::path::Path::new(file).extension().is_some_and(|extension| extension == "json");
        if is_notification {
            continue;
        }
        let object = fs::read(folder().join(file)).unwrap();
        let whole = read(&object, usize::MAX, 1 << 20, 16 << 20);
        for (piece, chunk_size) in [(1, 1 << 12), (1000, 1 << 20), (1 << 16, 1 << 16)] {
            let cut = read(&object, piece, chunk_size, 16 << 20);
            assert_eq!(cut.is_ok(), whole.is_ok(), "{file}");
        }
        match fate {
            "ok" => {
                let (chunks, _) = whole.unwrap_or_else(|damage| panic!("{file}: {damage}"));
                let expected = delivered.parse::<usize>().unwrap() + quarantined.parse::<usize>().unwrap();
                assert_eq!(chunks.iter().map(records_in).sum::<usize>(), expected, "{file}");
                // The same records, though every line is over-long now.
                if chunks.iter().all(|chunk| chunk.bytes.split(|byte| *byte == b'\n').all(|line| values_in(line).is_some())) {
                    let (small, _) = read(&object, 1000, 64, 64).unwrap();
                    assert_eq!(small.iter().map(records_in).sum::<usize>(), expected, "{file} value by value");
                }
            }
            "failed" => assert_eq!(whole.map(|_| ()), Err(Damage::TrailingGarbage(Packing::Gzip)), "{file}"),
            other => panic!("unknown fate `{other}` of {file}"),
        }
        seen += 1;
    }
    assert!(seen >= 45, "only {seen} rows");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_record() {
    for (file, kind) in [("b001_bom.ndjson", Kind::Plain), ("b001_bom.ndjson.gz", Kind::Gzip)] {
        let (chunks, told) = read(&fs::read(folder().join(file)).unwrap(), 1, 1 << 20, 16 << 20).unwrap();
        assert_eq!(told, Some(kind));
        assert!(chunks[0].bytes.starts_with(b"{\"event_type\""), "{file}");
        assert_eq!((chunks[0].offset, chunks[0].first_line), (3, 1));
    }
}

#[test]
fn packed_and_plain_cases_hold_the_same_lines() {
    let plain = |file: &str| {
        let (chunks, _) = read(&fs::read(folder().join(file)).unwrap(), 100, 1 << 20, 16 << 20).unwrap();
        chunks.into_iter().flat_map(|chunk| chunk.bytes).collect::<Vec<u8>>()
    };
    assert_eq!(plain("b001_bom.ndjson"), plain("b001_bom.ndjson.gz"));
    assert_eq!(plain("b005_multi_member.ndjson.gz"), plain("b008_multi_frame.ndjson.zst"));
    assert_eq!(plain("b007_zero_padded.ndjson.gz"), plain("b010_plain_named_gz.ndjson.gz"));
    assert_eq!(plain("b011_double_gzip.ndjson.gz"), plain("b011_gzip_named_plain.ndjson"));
}

/// The instants of a case's `time` values, in the order of its lines.
fn times(file: &str) -> Vec<Option<i64>> {
    let text = fs::read_to_string(folder().join(file)).unwrap();
    let time = |line: &str| match serde_json::from_str::<serde_json::Value>(line).unwrap().get("time") {
        Some(serde_json::Value::String(text)) => parse_text(text.as_bytes()),
        Some(serde_json::Value::Number(number)) => parse_number(&number.to_string()),
        _ => None,
    };
    text.lines().map(time).collect()
}

#[test]
fn the_times_of_the_cases_are_what_the_index_says() {
    const MICROS_A_SECOND: i64 = 1_000_000;
    const MIDNIGHT: i64 = 1_710_374_400 * MICROS_A_SECOND;
    let half_past_eleven_pm = MIDNIGHT + (23 * 3600 + 1800) * MICROS_A_SECOND;
    let ten = MIDNIGHT + 36_000 * MICROS_A_SECOND;
    assert_eq!(
        times("b046_no_offset.ndjson"),
        [half_past_eleven_pm, half_past_eleven_pm + 500_000, ten, ten + 123_000, ten, MIDNIGHT].map(Some)
    );
    let mut only_the_last = vec![None; 7];
    only_the_last.push(Some(ten + 8 * MICROS_A_SECOND));
    assert_eq!(times("b047_no_time.ndjson"), only_the_last);
    let next_midnight = MIDNIGHT + 86_400 * MICROS_A_SECOND;
    let leap_day = 1_709_208_000 * MICROS_A_SECOND;
    let leap_second = 1_483_228_800 * MICROS_A_SECOND - 1;
    assert_eq!(
        times("b049_day_edges.ndjson"),
        [MIDNIGHT, next_midnight - 1000, next_midnight - 1, next_midnight, leap_day, leap_second].map(Some)
    );
}
