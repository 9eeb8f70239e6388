//! Table names and sync modes: from an event name to one safe folder of its own.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::hex::hex;

/// How a table's files relate to the days before (CONTRACT.md §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncMode {
    /// Each day adds a partition.
    Incremental,
    /// Each day replaces the whole table.
    Snapshot,
}

/// A table's name. Invariants:
///
/// - it matches `[a-z0-9][a-z0-9_]*` (a configured one starts with a letter), so it is one path segment and needs no escape in a key;
/// - it is at most 116 bytes long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TableName(String);

/// The longest event name, in bytes, that is kept whole in a table's name (CONTRACT.md §2).
const LONGEST_EVENT_NAME: usize = 100;

impl TableName {
    /// The name itself, if it is a table name as configured or as this type makes them.
    #[must_use]
    pub fn parse(name: &str) -> Option<TableName> {
        let bytes = name.as_bytes();
        let good_start = bytes.first().is_some_and(u8::is_ascii_lowercase);
        let good_rest = bytes.iter().all(|&byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        (good_start && good_rest && name.len() <= LONGEST_EVENT_NAME + 16).then(|| TableName(name.to_owned()))
    }

    /// A name that was made before, by [`TableName::parse`] or [`TableName::of_event`]: an event's table may start with a digit.
    #[must_use]
    pub fn stored(name: &str) -> Option<TableName> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        (!name.is_empty() && name.bytes().all(is_plain)).then(|| TableName(name.to_owned()))
    }

    /// The table of an event: its name in lower case (Unicode) and `_events`.
    ///
    /// Any other character than `[a-z0-9_]` becomes `_`. A name that was changed beyond case, starts with `_`, or is over 100 characters (then cut) gets `_` and the first 8 hex digits of the SHA-256 of the lower-cased name before
    /// `_events`, always, whether or not anything clashes: a name never depends on what else a day holds. A leading `_` gets `t`
    /// before it.
    #[must_use]
    pub fn of_event(event: &str) -> TableName {
        let lower = event.to_lowercase();
        let mut safe: String =
            lower.chars().map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' { c } else { '_' }).collect();
        let changed = safe != lower || safe.starts_with('_') || safe.len() > LONGEST_EVENT_NAME;
        safe.truncate(LONGEST_EVENT_NAME);
        if safe.starts_with('_') {
            safe.insert(0, 't');
        }
        if changed {
            safe.push('_');
            safe.push_str(&hash8(&lower));
        }
        safe.push_str("_events");
        TableName(safe)
    }

    /// Whether this is the table of an event (its name ends in `_events`).
    #[must_use]
    pub fn is_event_table(&self) -> bool {
        self.0.ends_with("_events")
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TableName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        TableName::stored(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not a table name")))
    }
}

/// The first 8 hex digits of the SHA-256 of `text`: the suffix of every name that had to be changed, of tables and columns alike.
#[must_use]
pub fn hash8(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes())).chars().take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_its_table() {
        for (event, table) in [
            ("Pageview", "pageview_events"),
            ("PAGEVIEW", "pageview_events"),
            ("slot_clicked", "slot_clicked_events"),
            ("pageview_events", "pageview_events_events"),
            ("3d_view", "3d_view_events"),
        ] {
            assert_eq!(TableName::of_event(event).as_str(), table);
        }
        for (event, start) in [
            ("Page View", "page_view_"),
            ("page-view", "page_view_"),
            ("../../etc", "t______etc_"),
            ("_hidden", "t_hidden_"),
            ("Ünï", "t_n__"),
        ] {
            let expected = format!("{start}{}_events", hash8(&event.to_lowercase()));
            assert_eq!(TableName::of_event(event).as_str(), expected, "{event}");
        }
        assert_eq!(TableName::of_event("Ä"), TableName::of_event("ä"));
        assert_ne!(TableName::of_event("page view"), TableName::of_event("page-view"));
    }

    #[test]
    fn a_long_event_name_is_cut_and_stays_unlike_its_neighbours() {
        let (a, b) = ("a".repeat(3000) + "x", "a".repeat(3000) + "y");
        let (a, b) = (TableName::of_event(&a), TableName::of_event(&b));
        assert_ne!(a, b);
        assert_eq!(a.as_str().len(), 100 + 9 + 7);
        assert_eq!(TableName::of_event(&"a".repeat(100)).as_str().len(), 107);
    }

    #[test]
    fn hash8_is_the_start_of_sha_256() {
        assert_eq!(hash8("abc"), "ba7816bf");
    }
}
