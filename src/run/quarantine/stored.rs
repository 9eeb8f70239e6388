//! The quarantine read back: which runs have records in it, and the records themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::run::journal::{self, Phase};
use crate::run::paths::Paths;
use crate::store::ports::{List, Read};

/// What one run holds back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunQuarantine {
    /// The destination.
    pub destination: String,
    /// The day.
    pub date: Day,
    /// The run of the day: 0 is the first, each re-run counts one more.
    pub run: u32,
    /// Where the run stands.
    pub state: Phase,
    /// Quarantined records.
    pub quarantined: u64,
    /// The same by reason.
    pub reasons: BTreeMap<String, u64>,
    /// The keys that hold them, in the state bucket.
    pub parts: Vec<String>,
}

/// The runs of a destination that hold records back, in the order of their days; only those of `days` if they are given, both ends
/// included. A run that failed is among them, since what led to that is what one wants to see.
///
/// Only what the run's documents name counts: an invocation that was killed may have left parts that the next one wrote again.
pub async fn runs(
    store: &(impl List + Read + Sync),
    paths: &Paths,
    days: (Option<Day>, Option<Day>),
) -> Result<Vec<RunQuarantine>> {
    let (from, to) = days;
    // One day's keys lie in one folder.
    let folder = paths.quarantines();
    let prefix = if let (Some(from), true) = (from, from == to) { format!("{folder}{from}/") } else { folder };
    let is_wanted = |day: Day| from.is_none_or(|from| from <= day) && to.is_none_or(|to| day <= to);
    let listing = store.list_all(&prefix).await?;
    let found: BTreeSet<(Day, u32)> = listing.iter().filter_map(|object| paths.run_of_quarantine(&object.key)).collect();
    let mut runs = Vec::new();
    for (date, generation) in found.into_iter().filter(|(day, _)| is_wanted(*day)) {
        let Some((state, shards)) = journal::finished_shards(store, paths, date, generation).await? else { continue };
        let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, count) in shards.iter().flat_map(|shard| &shard.reasons) {
            *reasons.entry(reason.clone()).or_default() += count;
        }
        runs.push(RunQuarantine {
            destination: paths.destination().to_owned(),
            date,
            run: generation,
            state: state.phase,
            quarantined: reasons.values().sum(),
            reasons,
            parts: shards.into_iter().flat_map(|shard| shard.quarantine).collect(),
        });
    }
    runs.retain(|run| run.quarantined > 0);
    Ok(runs)
}

/// One quarantined record, as [`super::QuarantineLine`] wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StoredRecord {
    /// The staged object's key.
    pub object: String,
    /// Its ETag.
    pub etag: String,
    /// The line, from 1.
    pub line: u64,
    /// The byte at which it begins, from 0.
    pub offset: u64,
    /// Why it was held back.
    pub reason: String,
    text: Option<String>,
    base64: Option<String>,
    /// How long the record was, where the line has less of it.
    pub length: Option<u64>,
}

impl StoredRecord {
    /// Reads one line.
    pub fn parse(line: &str) -> Result<StoredRecord, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// The record's bytes; `None` where the line has none that can be read.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Some(text.clone().into_bytes()),
            (None, Some(base64)) => STANDARD.decode(base64).ok(),
            _ => None,
        }
    }
}

/// Hands every record of these parts to `visit`, in order, with its line as it is kept, until `visit` breaks.
///
/// One part at a time is in memory, packed, and one line of it.
pub async fn read_parts(
    store: &(impl Read + Sync),
    parts: &[String],
    visit: &mut (dyn FnMut(&str, &StoredRecord) -> Result<ControlFlow<()>> + Send),
) -> Result<()> {
    for key in parts {
        let damaged = |source: Box<dyn std::error::Error + Send + Sync>| {
            Error::vendor(format!("the quarantine part `{key}` can't be read, restore its earlier version from the state bucket"))
                .with_source(source)
        };
        let gone = || Error::vendor(format!("the quarantine part `{key}` is gone, restore it from the state bucket's versions"));
        let (packed, _) = store.read_small(key).await?.ok_or_else(gone)?;
        let mut lines = BufReader::new(MultiGzDecoder::new(&packed[..]));
        let mut line = String::new();
        loop {
            line.clear();
            if lines.read_line(&mut line).map_err(|error| damaged(error.into()))? == 0 {
                break;
            }
            let text = line.trim_end_matches('\n');
            let record = StoredRecord::parse(text).map_err(|error| damaged(error.into()))?;
            if visit(text, &record)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::quarantine::{QuarantineEncoder, QuarantineLine, put_part};
    use crate::store::memory::MemoryBucket;

    fn line(line: u64, bytes: &[u8]) -> QuarantineLine<'_> {
        QuarantineLine { object: "events/a", etag: "\"e\"", line, offset: 10 * line, reason: "not_json", bytes, cut: None }
    }

    #[tokio::test]
    async fn what_was_written_is_read_back_in_order_until_enough_is_seen() {
        let bucket = MemoryBucket::new();
        let mut parts = Vec::new();
        let records: [&[u8]; 4] = [b"{\"a\":", b"\xff\x00", "ü\n".as_bytes(), b""];
        for (number, pair) in records.chunks(2).enumerate() {
            let mut encoder = QuarantineEncoder::default();
            for (nth, bytes) in (1..).zip(pair) {
                assert!(encoder.push(&line(2 * number as u64 + nth, bytes)).unwrap().is_none());
            }
            let key = format!("part-{number}");
            put_part(&bucket, &key, encoder.finish().unwrap().unwrap()).await.unwrap();
            parts.push(key);
        }
        let mut seen = Vec::new();
        let mut visit = |_: &str, record: &StoredRecord| {
            seen.push((record.line, record.offset, record.bytes().unwrap()));
            Ok(if record.line == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        read_parts(&bucket, &parts, &mut visit).await.unwrap();
        assert_eq!(seen, (1..4).zip(records).map(|(n, bytes)| (n, 10 * n, bytes.to_vec())).collect::<Vec<_>>());
        let error = read_parts(&bucket, &["gone".to_owned()], &mut |_, _| Ok(ControlFlow::Continue(()))).await.unwrap_err();
        assert!(error.message().contains("`gone` is gone"), "{error}");
    }
}
