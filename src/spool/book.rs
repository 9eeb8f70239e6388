//! The spool's places and documents in the state bucket: what a batch of messages holds, and to which day a notified object belongs.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::domain::error::{Error, Result};
use crate::domain::hex::hex;
use crate::domain::run::Day;
use crate::domain::settings::State;
use crate::store::ports::{Condition, Put, Read, Write};

/// The form of the documents. A later one that this code can't read has another number.
const FORM: u32 = 1;

/// Where the spool of one queue lies in the state bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    root: String,
}

impl Places {
    /// The places for the queue at `url`: `spool/<queue>/`, by the queue's name.
    #[must_use]
    pub fn new(state: &State, url: &str) -> Places {
        let (_, name) = account_and_name(url);
        // SQS's own rule for names; a URL may hold anything.
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect();
        Places { root: format!("{}spool/{name}/", state.s3_prefix) }
    }

    /// `spool/<queue>/<day>/`: the batches of a day.
    #[must_use]
    pub fn day(&self, day: Day) -> String {
        format!("{}{day}/", self.root)
    }

    /// `…/<batch>.ndjson`: the records of a batch.
    #[must_use]
    pub fn records(&self, day: Day, batch: &str) -> String {
        format!("{}{batch}.ndjson", self.day(day))
    }

    /// `…/<batch>.json`: what a batch holds. A batch is there once this is.
    #[must_use]
    pub fn index(&self, day: Day, batch: &str) -> String {
        format!("{}{batch}.json", self.day(day))
    }

    /// `spool/<queue>/quarantine/<day>/<batch>.ndjson.gz`: messages that can never be delivered.
    #[must_use]
    pub fn quarantine(&self, day: Day, batch: &str) -> String {
        format!("{}{day}/{batch}.ndjson.gz", self.quarantines())
    }

    /// `spool/<queue>/quarantine/`.
    #[must_use]
    pub fn quarantines(&self) -> String {
        format!("{}quarantine/", self.root)
    }

    /// The day of a key that [`quarantine`](Places::quarantine) gave.
    #[must_use]
    pub fn day_of_quarantine(&self, key: &str) -> Option<Day> {
        key.strip_prefix(&self.quarantines())?.split_once('/')?.0.parse().ok()
    }

    /// The queue's name.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.root.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
    }

    fn claim(&self, object: &Reference) -> String {
        format!("{}objects/{}.json", self.root, object.identity())
    }
}

/// Account and name of a queue, by its URL (`…/123456789012/name`) or its ARN (`…:123456789012:name`).
#[must_use]
pub fn account_and_name(queue: &str) -> (&str, &str) {
    let separator = if queue.starts_with("arn:") { ':' } else { '/' };
    let mut parts = queue.trim_end_matches('/').rsplit(separator);
    let name = parts.next().unwrap_or_default();
    (parts.next().unwrap_or_default(), name)
}

/// The index of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    form: u32,
    /// Its messages, in the order of their records.
    pub messages: Vec<Taken>,
    /// Notified objects.
    pub objects: Vec<Reference>,
}

/// A message of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The message's id.
    pub id: String,
    /// Where its records begin in the batch's, in bytes.
    pub offset: u64,
    /// How many bytes they are, the line end included; none of a message without records.
    pub length: u64,
}

/// A notified object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its bucket.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// What tells its content from another under the same key: version, ETag, or what else is known.
    pub content: String,
    /// Its ETag, without quotes, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

impl Reference {
    /// The same for the same content of the same object, and fit for a key.
    fn identity(&self) -> String {
        digest([self.bucket.as_bytes(), self.key.as_bytes(), self.content.as_bytes()])
    }
}

impl Batch {
    /// An index of these.
    #[must_use]
    pub fn new(messages: Vec<Taken>, objects: Vec<Reference>) -> Batch {
        Batch { form: FORM, messages, objects }
    }

    /// Writes it under `key`.
    pub async fn write(&self, state: &(impl Write + Sync), key: &str) -> Result<()> {
        let body = serde_json::to_vec(self).map_err(|error| unwritable(key, error))?;
        state.put(key, Bytes::from(body), "application/json", &Condition::None).await.map(|_| ())
    }

    /// Reads the one under `key`.
    pub async fn read(state: &(impl Read + Sync), key: &str) -> Result<Batch> {
        let found = state.read_small(key).await?;
        let (body, _) = found
            .ok_or_else(|| Error::vendor(format!("`{key}` of the spool is gone, restore it from the state bucket's versions")))?;
        let batch: Batch = serde_json::from_slice(&body).map_err(|error| unreadable(key, error))?;
        if batch.form == FORM { Ok(batch) } else { Err(unreadable(key, format!("its form is {}", batch.form))) }
    }
}

/// Whose day a notified object was first noted for.
#[derive(Serialize, Deserialize)]
struct Claim {
    day: Day,
    bucket: String,
    key: String,
}

/// Whether a notified object, which does not say its day itself, belongs to `day`: the first that claims it has it, for ever.
pub async fn claim(state: &(impl Read + Write + Sync), places: &Places, object: &Reference, day: Day) -> Result<bool> {
    let place = places.claim(object);
    let claim = Claim { day, bucket: object.bucket.clone(), key: object.key.clone() };
    let body = serde_json::to_vec(&claim).map_err(|error| unwritable(&place, error))?;
    if let Put::Done(_) = state.put(&place, Bytes::from(body), "application/json", &Condition::Absent).await? {
        return Ok(true);
    }
    match state.read_small(&place).await? {
        Some((body, _)) => {
            let first: Claim = serde_json::from_slice(&body).map_err(|error| unreadable(&place, error))?;
            Ok(first.day == day)
        }
        // Another writer is at it at this moment.
        None => Err(Error::retryable(format!("`{place}` is being written by another, call again"))),
    }
}

fn unwritable(key: &str, error: serde_json::Error) -> Error {
    Error::bug(format!("`{key}` of the spool could not be written as JSON, please report it")).with_source(error)
}

fn unreadable(key: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let message = format!("`{key}` of the spool can't be read, restore its earlier version from the state bucket");
    Error::vendor(message).with_source(error)
}

/// SHA-256, in hex, over parts that are told from each other by their lengths.
#[must_use]
pub fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}
