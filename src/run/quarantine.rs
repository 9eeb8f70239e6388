//! Records that could not be delivered: kept byte for byte, with where they were and why.

pub mod replay;
pub mod stored;

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::domain::error::{Error, Result};
use crate::domain::hex::hex;
use crate::domain::run::RunId;
use crate::store::ports::{Condition, Write};

/// Packed bytes at which a part ends: one put request each, never much memory.
pub const PART_BYTES: usize = 8 << 20;

/// One quarantined record, one line of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineLine<'a> {
    /// The staged object's key.
    pub object: &'a str,
    /// Its ETag.
    pub etag: &'a str,
    /// The line in the unpacked object, from 1; of staged Parquet the row, from 1.
    pub line: u64,
    /// The byte in the unpacked object at which the record begins, from 0; of staged Parquet in its rows as lines of JSON.
    pub offset: u64,
    /// Why: one of a closed set of names.
    pub reason: &'a str,
    /// The record's bytes, or the first `max_record_bytes` of them.
    pub bytes: &'a [u8],
    /// Of a record that was cut: how long it was, and its whole SHA-256.
    pub cut: Option<Cut>,
}

/// What is known of a record that was too long to be kept whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Its length in bytes.
    pub length: u64,
    /// The SHA-256 of all of its bytes.
    pub sha256: [u8; 32],
}

#[derive(Serialize)]
struct Written<'a> {
    object: &'a str,
    etag: &'a str,
    line: u64,
    offset: u64,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

impl<'a> QuarantineLine<'a> {
    /// The same line with at most `max_record_bytes` of the record.
    #[must_use]
    pub fn within(mut self, max_record_bytes: u64) -> QuarantineLine<'a> {
        let most = usize::try_from(max_record_bytes).unwrap_or(usize::MAX);
        if let Some((first, _)) = self.bytes.split_at_checked(most)
            && first.len() < self.bytes.len()
        {
            let whole = self.bytes;
            self.cut.get_or_insert_with(|| Cut { length: whole.len() as u64, sha256: Sha256::digest(whole).into() });
            self.bytes = first;
        }
        self
    }

    /// The line as JSON with its newline. The record is under `text` when it is UTF-8, else under `base64`.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let text = std::str::from_utf8(self.bytes).ok();
        let written = Written {
            object: self.object,
            etag: self.etag,
            line: self.line,
            offset: self.offset,
            reason: self.reason,
            text,
            base64: text.is_none().then(|| STANDARD.encode(self.bytes)),
            length: self.cut.as_ref().map(|cut| cut.length),
            sha256: self.cut.as_ref().map(|cut| hex(&cut.sha256)),
        };
        let mut line = serde_json::to_vec(&written).map_err(|error| {
            Error::bug("a quarantined record could not be written as JSON, please report it").with_source(error)
        })?;
        line.push(b'\n');
        Ok(line)
    }
}

/// Packs lines into parts of about `part_bytes`. The same lines give the same parts.
pub struct QuarantineEncoder {
    part_bytes: usize,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

impl Default for QuarantineEncoder {
    fn default() -> Self {
        QuarantineEncoder::new(PART_BYTES)
    }
}

impl QuarantineEncoder {
    /// An encoder whose parts end at `part_bytes` packed bytes.
    #[must_use]
    pub fn new(part_bytes: usize) -> QuarantineEncoder {
        QuarantineEncoder { part_bytes, gzip: None }
    }

    /// Takes one line; answers a part when one is full.
    pub fn push(&mut self, line: &QuarantineLine<'_>) -> Result<Option<Bytes>> {
        let encoded = line.encode()?;
        let gzip = self.gzip.get_or_insert_with(|| GzEncoder::new(Vec::new(), Compression::new(6)));
        gzip.write_all(&encoded).map_err(unpackable)?;
        if gzip.get_ref().len() >= self.part_bytes { self.finish() } else { Ok(None) }
    }

    /// The last part, if there are lines that no part holds yet.
    pub fn finish(&mut self) -> Result<Option<Bytes>> {
        match self.gzip.take() {
            Some(gzip) => Ok(Some(gzip.finish().map_err(unpackable)?.into())),
            None => Ok(None),
        }
    }
}

fn unpackable(error: std::io::Error) -> Error {
    Error::bug("a quarantine part could not be packed, please report it").with_source(error)
}

/// Writes one part to the state bucket. The key comes from [`super::paths::Paths::quarantine`].
pub async fn put_part(store: &(impl Write + Sync), key: &str, part: Bytes) -> Result<()> {
    store.put(key, part, "application/gzip", &Condition::None).await.map(|_| ())
}

/// What the threshold is judged by: the destination's own records only.
#[derive(Clone, Debug, Default)]
pub struct Quarantined<'a> {
    /// The destination's own records, quarantined or not.
    pub records: u64,
    /// How many of them are quarantined.
    #[expect(clippy::struct_field_names, reason = "the word that counts use")]
    pub quarantined: u64,
    /// Quarantined records by reason.
    pub reasons: BTreeMap<&'a str, u64>,
    /// Quarantined records by staged object.
    pub objects: BTreeMap<&'a str, u64>,
}

impl Quarantined<'_> {
    /// Whether more than that share is quarantined.
    #[must_use]
    pub fn is_over_ratio(&self, max_ratio: f64) -> bool {
        // Counts are far below 2^53.
        #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more digits")]
        let (quarantined, records) = (self.quarantined as f64, self.records as f64);
        quarantined > max_ratio * records
    }

    /// Fails, as the vendor's to mend, when more than `max_ratio` of the records *and* more than `max_records` are quarantined; the
    /// message says what led to that.
    pub fn check(&self, run: &RunId, max_ratio: f64, max_records: u64) -> Result<()> {
        if self.quarantined <= max_records || !self.is_over_ratio(max_ratio) {
            return Ok(());
        }
        Err(Error::vendor(format!(
            "{} of {} records would be quarantined, more than `run.max_quarantine_ratio` ({max_ratio}) and `run.max_quarantine_records` ({max_records}) allow, nothing was committed; reasons: {}; objects: {}: see `dayport quarantine show {} --date {}`, then mend the staged objects or raise the limits",
            self.quarantined,
            self.records,
            leading(&self.reasons),
            leading(&self.objects),
            run.destination,
            run.day,
        )))
    }
}

/// The three greatest, as `name` (count).
fn leading(counts: &BTreeMap<&str, u64>) -> String {
    let mut ordered: Vec<(&str, u64)> =
        counts.iter().filter(|(_, count)| **count > 0).map(|(name, count)| (*name, *count)).collect();
    ordered.sort_by(|(a, left), (b, right)| right.cmp(left).then(a.cmp(b)));
    let rest = ordered.len().saturating_sub(3);
    let named: Vec<String> = ordered.iter().take(3).map(|(name, count)| format!("`{}` ({count})", name.escape_debug())).collect();
    let and_more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    named.join(", ") + &and_more
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::MultiGzDecoder;

    use super::*;
    use crate::domain::error::Kind;

    fn line(bytes: &[u8]) -> QuarantineLine<'_> {
        QuarantineLine { object: "events/a", etag: "\"e\"", line: 7, offset: 99, reason: "not_json", bytes, cut: None }
    }

    fn json(line: &QuarantineLine<'_>) -> serde_json::Value {
        serde_json::from_slice(&line.encode().unwrap()).unwrap()
    }

    #[test]
    fn text_stays_text_and_other_bytes_are_base64() {
        let text = json(&line("{\"ü\":".as_bytes()));
        assert_eq!(text["text"], "{\"ü\":");
        assert_eq!(
            (text["object"].as_str(), text["line"].as_u64(), text["offset"].as_u64()),
            (Some("events/a"), Some(7), Some(99))
        );
        assert!(text.get("base64").is_none() && text.get("length").is_none());
        let bytes = json(&line(b"\xff\x00"));
        assert_eq!(bytes["base64"], "/wA=");
        assert!(bytes.get("text").is_none());
    }

    #[test]
    fn a_long_record_is_cut_and_can_still_be_recognised() {
        let whole = b"abcdefgh";
        let cut = json(&line(whole).within(3));
        assert_eq!(cut["text"], "abc");
        assert_eq!(cut["length"], 8);
        assert_eq!(cut["sha256"], "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab");
        assert!(json(&line(whole).within(8)).get("sha256").is_none());
    }

    #[test]
    fn parts_are_bounded_and_hold_every_line_once() {
        let mut encoder = QuarantineEncoder::new(2000);
        let records: Vec<String> = (0..5000_u64).map(|n| STANDARD.encode(Sha256::digest(n.to_le_bytes()))).collect();
        let mut parts = Vec::new();
        for record in &records {
            parts.extend(encoder.push(&line(record.as_bytes())).unwrap());
        }
        parts.extend(encoder.finish().unwrap());
        assert!(parts.len() > 3, "{}", parts.len());
        let mut text = String::new();
        for part in &parts {
            MultiGzDecoder::new(&part[..]).read_to_string(&mut text).unwrap();
        }
        let texts: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["text"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(texts, records);
        assert!(encoder.finish().unwrap().is_none());
    }

    #[test]
    fn the_threshold_needs_both_and_names_what_led() {
        let mut quarantined = Quarantined {
            records: 10_000,
            quarantined: 101,
            reasons: BTreeMap::from([("not_json", 100), ("late", 1)]),
            objects: BTreeMap::from([("a", 1), ("b", 97), ("c", 1), ("d", 2)]),
        };
        let run = RunId { destination: "acme".into(), day: "2026-01-15".parse().unwrap() };
        assert!(quarantined.check(&run, 0.01, 101).is_ok(), "no more than the records allowed");
        assert!(quarantined.check(&run, 0.0101, 10).is_ok(), "no more than the ratio allowed");
        let error = quarantined.check(&run, 0.01, 100).unwrap_err();
        assert_eq!(error.kind(), Kind::Vendor);
        let text = error.to_string();
        assert!(text.contains("101 of 10000") && text.contains("`not_json` (100), `late` (1)"), "{text}");
        assert!(text.contains("ratio` (0.01) and") && text.contains("records` (100) allow"), "{text}");
        assert!(text.contains("`dayport quarantine show acme --date 2026-01-15`"), "{text}");
        assert!(text.contains("`b` (97), `d` (2), `a` (1) and 1 more"), "{text}");
        quarantined.records = 0;
        quarantined.quarantined = 0;
        assert!(quarantined.check(&run, 0.0, 0).is_ok());
    }
}
