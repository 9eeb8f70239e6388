//! A queue's messages that could never be delivered, read back: how many of which day, and why.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use super::book::Places;
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::store::ports::{List, Read};

/// What was held back of one day's messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedMessages {
    /// The queue's name.
    pub queue: String,
    /// The UTC day on which they were sent.
    pub date: Day,
    /// How many.
    pub quarantined: u64,
    /// The same by reason.
    pub reasons: BTreeMap<String, u64>,
    /// The keys that hold them, in the state bucket: gzip, a line of JSON a message (`message`, `sent_millis`, `reason`, `text`).
    pub parts: Vec<String>,
}

#[derive(Deserialize)]
struct Line {
    reason: String,
}

/// The days whose messages were held back, in order; only those of `days` if they are given, both ends included.
pub async fn refused_messages(
    store: &(impl List + Read + Sync),
    places: &Places,
    days: (Option<Day>, Option<Day>),
) -> Result<Vec<RefusedMessages>> {
    let (from, to) = days;
    let is_wanted = |day: Day| from.is_none_or(|from| from <= day) && to.is_none_or(|to| day <= to);
    let mut found: BTreeMap<Day, RefusedMessages> = BTreeMap::new();
    for object in store.list_all(&places.quarantines()).await? {
        let Some(date) = places.day_of_quarantine(&object.key).filter(|day| is_wanted(*day)) else { continue };
        let day = found.entry(date).or_insert_with(|| RefusedMessages {
            queue: places.queue().to_owned(),
            date,
            quarantined: 0,
            reasons: BTreeMap::new(),
            parts: Vec::new(),
        });
        let Some((packed, _)) = store.read_small(&object.key).await? else { continue };
        for line in BufReader::new(MultiGzDecoder::new(&packed[..])).lines() {
            let line = line.map_err(|error| damaged(&object.key, error.into()))?;
            let line: Line = serde_json::from_str(&line).map_err(|error| damaged(&object.key, error.into()))?;
            *day.reasons.entry(line.reason).or_default() += 1;
            day.quarantined += 1;
        }
        day.parts.push(object.key);
    }
    Ok(found.into_values().collect())
}

fn damaged(key: &str, source: Box<dyn std::error::Error + Send + Sync>) -> Error {
    let message = format!("the quarantined messages in `{key}` can't be read, restore an earlier version from the state bucket");
    Error::vendor(message).with_source(source)
}
