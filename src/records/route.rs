//! Which table a record belongs to, at what time and of which organisation; and why not, where it can't be delivered.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use memchr::memmem::Finder;
use sha2::{Digest, Sha256};

use super::json::{Tape, Token, TokenKind, unescape};
use super::time;
use crate::domain::run::Day;
use crate::domain::table::{SyncMode, TableName};

/// Why a record is quarantined: a closed set (CONTRACT.md §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Over `max_record_bytes`.
    TooLarge,
    /// Not JSON.
    NotJson,
    /// JSON, but no object.
    NotObject,
    /// Nested deeper than `max_depth`.
    TooDeep,
    /// No event name, or one that is no text or blank.
    NoEventName,
    /// No time that is on the stated list.
    NoTime,
    /// Outside the days that `partition_by = "time"` takes.
    Late,
    /// Of an event table over `max_tables`.
    TooManyTables,
}

impl Reason {
    /// The name in quarantine, answers and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::TooLarge => "too_large",
            Reason::NotJson => "not_json",
            Reason::NotObject => "not_object",
            Reason::TooDeep => "too_deep",
            Reason::NoEventName => "no_event_name",
            Reason::NoTime => "no_time",
            Reason::Late => "late",
            Reason::TooManyTables => "too_many_tables",
        }
    }

    /// Whether the record could not be read at all, so that nobody can tell whose it is.
    #[must_use]
    pub fn is_unreadable(self) -> bool {
        matches!(self, Reason::TooLarge | Reason::NotJson | Reason::NotObject | Reason::TooDeep)
    }
}

/// Which days a run's rows go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionRule {
    /// The staged day.
    StagedDay,
    /// The record's own UTC day: at most `max_lateness_days` before the run's day and one after it.
    Time {
        /// See [`Reason::Late`].
        max_lateness_days: u32,
    },
}

/// Everything about a destination and its run that decides where a record goes.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The top-level key of the event name.
    pub event_field: String,
    /// The top-level key of the time.
    pub time_field: String,
    /// The top-level key that may name a configured table.
    pub table_field: Option<String>,
    /// The top-level key of the organisation and the one whose records are wanted.
    pub organization: Option<(String, String)>,
    /// The top-level key whose values are delivered once.
    pub dedupe: Option<String>,
    /// The configured tables that records can name, with their sync modes (not those that only declare columns of an event table).
    pub tables: BTreeMap<String, SyncMode>,
    /// Which days rows go to.
    pub partition: PartitionRule,
    /// The run's day.
    pub day: Day,
}

/// Where a record goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The table's number with this router ([`Router::table`]).
    pub table: usize,
    /// Its partition's day.
    pub day: Day,
    /// Where the value of the record's time starts and its instant in microseconds, where it has a usable one.
    pub time: Option<(u32, i64)>,
    /// The first half of the SHA-256 of the `dedupe` key's value.
    pub identity: Option<u128>,
}

/// What is to become of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Routed {
    /// It is a row.
    Row(Route),
    /// It is another organisation's.
    Filtered,
    /// It can't be delivered.
    Reject(Reason),
}

/// A table that a router has met.
#[derive(Clone, Debug)]
pub struct RoutedTable {
    /// Its name.
    pub name: Arc<TableName>,
    /// Its sync mode.
    pub sync: SyncMode,
    /// Whether it is the table of an event.
    pub is_event: bool,
}

/// Routes records; one a worker, since it remembers the tables that it met.
#[derive(Debug)]
pub struct Router {
    rules: Arc<Rules>,
    tables: Vec<RoutedTable>,
    by_name: HashMap<Arc<TableName>, usize>,
    by_event: HashMap<Vec<u8>, usize>,
    last: (Vec<u8>, usize),
    /// The event's key as it mostly stands in a record.
    quoted_event: Finder<'static>,
    text: Vec<u8>,
}

/// How many event names are remembered; a day of hostile names must not grow without bound.
const MOST_REMEMBERED: usize = 20_000;

impl Router {
    /// A router by these rules.
    #[must_use]
    pub fn new(rules: Arc<Rules>) -> Router {
        let quoted_event = Finder::new(&format!("\"{}\":", rules.event_field)).into_owned();
        Router {
            rules,
            tables: Vec::new(),
            by_name: HashMap::new(),
            by_event: HashMap::new(),
            last: (Vec::new(), 0),
            quoted_event,
            text: Vec::new(),
        }
    }

    /// Forgets the tables it met if they have become too many; table numbers begin anew then. To be called between chunks only.
    pub fn shrink(&mut self) {
        if self.by_event.len() > MOST_REMEMBERED {
            *self = Router::new(Arc::clone(&self.rules));
        }
    }

    /// The table of that number.
    #[must_use]
    pub fn table(&self, number: usize) -> Option<&RoutedTable> {
        self.tables.get(number)
    }

    /// How many tables were met.
    #[must_use]
    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// The number of a configured table, for objects in a folder of its name.
    pub fn configured(&mut self, name: &str) -> Option<usize> {
        let sync = *self.rules.tables.get(name)?;
        Some(self.number(TableName::parse(name)?, sync, false))
    }

    fn number(&mut self, name: TableName, sync: SyncMode, is_event: bool) -> usize {
        if let Some(&number) = self.by_name.get(&name) {
            return number;
        }
        let name = Arc::new(name);
        let number = self.tables.len();
        self.tables.push(RoutedTable { name: Arc::clone(&name), sync, is_event });
        self.by_name.insert(name, number);
        number
    }

    /// Routes the record on `tape`, an object. `folder` is the table of the object's folder, if that decides.
    pub fn route(&mut self, tape: &Tape, buffer: &[u8], folder: Option<usize>) -> Routed {
        let found = Found::on(tape, &self.rules, buffer, &mut self.text);
        self.decide(&found, buffer, folder)
    }

    /// The table that a record's bytes seem to name, if it was met before: the first key that looks like the event's may be another's, deeper in.
    #[must_use]
    pub fn guess(&self, record: &[u8]) -> Option<usize> {
        let name = self.quoted_event.find(record)? + self.quoted_event.needle().len();
        let rest = record.get(name..)?;
        let rest = rest.get(rest.iter().position(|byte| *byte != b' ')?..)?.strip_prefix(b"\"")?;
        let text = rest.get(..memchr::memchr(b'"', rest)?)?;
        if self.last.0 == text { Some(self.last.1) } else { self.by_event.get(text).copied() }
    }

    /// Routes a record by the values that were found in it.
    pub fn decide(&mut self, found: &Found, buffer: &[u8], folder: Option<usize>) -> Routed {
        let rules = Arc::clone(&self.rules);
        if let Some((_, wanted)) = &rules.organization {
            // The filter comes first, over every table, and a record that does not say whose it is is nobody's.
            let same = found.organization.is_some_and(|value| self.is_text(&value, buffer, wanted));
            if !same {
                return Routed::Filtered;
            }
        }
        let number = match folder.or_else(|| self.named(&rules, found, buffer)) {
            Some(number) => number,
            None => match found.event.and_then(|value| self.event(&value, buffer)) {
                Some(number) => number,
                None => return Routed::Reject(Reason::NoEventName),
            },
        };
        let Some(table) = self.tables.get(number) else { return Routed::Reject(Reason::NoEventName) };
        let by_time = rules.partition != PartitionRule::StagedDay && table.sync == SyncMode::Incremental;
        if found.time.is_none() && (table.is_event || by_time) {
            return Routed::Reject(Reason::NoTime);
        }
        let mut day = rules.day;
        if let (PartitionRule::Time { max_lateness_days }, true, Some((_, micros))) = (rules.partition, by_time, found.time) {
            let Some(own) = Day::from_epoch_micros(micros) else { return Routed::Reject(Reason::NoTime) };
            let late = rules.day.days_since(own);
            if late > i64::from(max_lateness_days) || late < -1 {
                return Routed::Reject(Reason::Late);
            }
            day = own;
        }
        let identity = found.identity.map(|token| {
            self.text.clear();
            if token.kind == TokenKind::String {
                unescape(&token, buffer, &mut self.text);
            } else {
                self.text.extend_from_slice(token.text(buffer));
            }
            let digest = Sha256::digest(&self.text);
            digest.iter().take(16).fold(0_u128, |id, &byte| (id << 8) | u128::from(byte))
        });
        Routed::Row(Route { table: number, day, time: found.time, identity })
    }

    /// The configured table that the record names, if `table_field` is set and it does.
    fn named(&mut self, rules: &Rules, found: &Found, buffer: &[u8]) -> Option<usize> {
        let token = found.table?;
        if token.kind != TokenKind::String {
            return None;
        }
        self.text.clear();
        unescape(&token, buffer, &mut self.text);
        let name = std::str::from_utf8(&self.text).ok()?;
        if !rules.tables.contains_key(name) {
            return None;
        }
        let name = name.to_owned();
        self.configured(&name)
    }

    fn event(&mut self, token: &Token, buffer: &[u8]) -> Option<usize> {
        if token.kind != TokenKind::String {
            return None;
        }
        let text = token.inner(buffer);
        if self.last.0 == text && !text.is_empty() {
            return Some(self.last.1);
        }
        let number = match self.by_event.get(text) {
            Some(&number) => number,
            None => {
                self.text.clear();
                unescape(token, buffer, &mut self.text);
                let name = String::from_utf8_lossy(&self.text);
                if name.trim().is_empty() {
                    return None;
                }
                let table = TableName::of_event(&name);
                let number = self.number(table, SyncMode::Incremental, true);
                self.by_event.insert(text.to_vec(), number);
                number
            }
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(text);
        self.last.1 = number;
        Some(number)
    }

    fn is_text(&mut self, token: &Token, buffer: &[u8], wanted: &str) -> bool {
        if token.kind != TokenKind::String {
            return false;
        }
        self.text.clear();
        unescape(token, buffer, &mut self.text);
        self.text == wanted.as_bytes()
    }
}

/// Which of the rules a top-level key matters to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch(u8);

impl Watch {
    const EVENT: u8 = 1;
    const TIME: u8 = 2;
    const TABLE: u8 = 4;
    const ORGANIZATION: u8 = 8;
    const IDENTITY: u8 = 16;

    /// Whether it matters to any.
    #[must_use]
    pub fn any(self) -> bool {
        self.0 != 0
    }

    fn has(self, rule: u8) -> bool {
        self.0 & rule != 0
    }
}

impl Rules {
    /// Which of the rules a top-level key (escapes decoded) matters to.
    #[must_use]
    pub fn watch(&self, key: &[u8]) -> Watch {
        let is = |wanted: &str| key == wanted.as_bytes();
        let bit = |wanted: bool, bit: u8| if wanted { bit } else { 0 };
        Watch(
            bit(is(&self.event_field), Watch::EVENT)
                | bit(is(&self.time_field), Watch::TIME)
                | bit(self.table_field.as_deref().is_some_and(is), Watch::TABLE)
                | bit(self.organization.as_ref().is_some_and(|(field, _)| is(field)), Watch::ORGANIZATION)
                | bit(self.dedupe.as_deref().is_some_and(is), Watch::IDENTITY),
        )
    }
}

/// The values in a record that rules ask for; of a repeated key the last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    event: Option<Token>,
    /// Where the time's value starts, and its instant in microseconds.
    time: Option<(u32, i64)>,
    table: Option<Token>,
    organization: Option<Token>,
    identity: Option<Token>,
}

impl Found {
    /// Takes note of the value of a key that matters.
    pub fn note(&mut self, watch: Watch, value: &Token, buffer: &[u8]) {
        if watch.has(Watch::EVENT) {
            self.event = Some(*value);
        }
        if watch.has(Watch::TIME) {
            self.time = instant_of(value, buffer).map(|micros| (value.start, micros));
        }
        if watch.has(Watch::TABLE) {
            self.table = Some(*value);
        }
        if watch.has(Watch::ORGANIZATION) {
            self.organization = Some(*value);
        }
        if watch.has(Watch::IDENTITY) {
            self.identity = Some(*value).filter(|value| value.kind != TokenKind::Null);
        }
    }

    /// Where the value of the time starts and its instant in microseconds, if it was found and is one.
    #[must_use]
    pub fn time(&self) -> Option<(u32, i64)> {
        self.time
    }

    fn on(tape: &Tape, rules: &Rules, buffer: &[u8], text: &mut Vec<u8>) -> Found {
        let mut found = Found::default();
        let end = tape.token(0).next;
        let mut at = 1;
        while at < end {
            let key = tape.token(at);
            let value = tape.token(at + 1);
            at = value.next;
            let name = if key.is_escaped() {
                text.clear();
                unescape(&key, buffer, text);
                text.as_slice()
            } else {
                key.inner(buffer)
            };
            let watch = rules.watch(name);
            if watch.any() {
                found.note(watch, &value, buffer);
            }
        }
        found
    }
}

/// The instant in microseconds since 1970 that a value gives, by the stated list of times (CONTRACT.md §3).
#[must_use]
pub fn instant_of(token: &Token, buffer: &[u8]) -> Option<i64> {
    match token.kind {
        TokenKind::String if token.is_escaped() => {
            let mut text = Vec::new();
            unescape(token, buffer, &mut text);
            time::parse_text(&text)
        }
        TokenKind::String => time::parse_text(token.inner(buffer)),
        TokenKind::Number => std::str::from_utf8(token.text(buffer)).ok().and_then(time::parse_number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules {
            event_field: "event_name".into(),
            time_field: "time".into(),
            table_field: Some("table".into()),
            organization: None,
            dedupe: None,
            tables: BTreeMap::from([("aliases".into(), SyncMode::Incremental), ("domains".into(), SyncMode::Snapshot)]),
            partition: PartitionRule::StagedDay,
            day: "2026-01-15".parse().unwrap(),
        }
    }

    fn route(rules: &Rules, record: &str) -> (Routed, Option<String>) {
        let mut tape = Tape::default();
        tape.read(record.as_bytes(), 0, 64).unwrap();
        let mut router = Router::new(Arc::new(rules.clone()));
        let routed = router.route(&tape, record.as_bytes(), None);
        let name = match &routed {
            Routed::Row(route) => Some(router.table(route.table).unwrap().name.to_string()),
            _ => None,
        };
        (routed, name)
    }

    #[test]
    fn the_event_field_names_the_table_and_the_last_of_repeated_keys_counts() {
        let at = r#""time":"2026-01-15T00:00:00Z""#;
        for (record, table) in [
            (format!(r#"{{"event_name":"Pageview",{at}}}"#), Some("pageview_events")),
            (format!(r#"{{"event_name":"a",{at},"event_n\u0061me":"B"}}"#), Some("b_events")),
            (r#"{"event_name":"a","table":"aliases"}"#.to_owned(), Some("aliases")),
            (format!(r#"{{"event_name":"a","table":"nope",{at}}}"#), Some("a_events")),
            (format!(r#"{{"event_name":"a","properties":{{"event_name":"b"}},{at}}}"#), Some("a_events")),
            (format!(r#"{{"event_name":" ",{at}}}"#), None),
            (format!(r#"{{"event_name":7,{at}}}"#), None),
            (format!(r#"{{"Event_Name":"a",{at}}}"#), None),
        ] {
            let (routed, name) = route(&rules(), &record);
            assert_eq!(name.as_deref(), table, "{record}");
            if table.is_none() {
                assert_eq!(routed, Routed::Reject(Reason::NoEventName), "{record}");
            }
        }
    }

    #[test]
    fn an_event_without_a_usable_time_is_no_event_of_1970() {
        for record in [r#"{"event_name":"a"}"#, r#"{"event_name":"a","time":0}"#, r#"{"event_name":"a","time":"soon"}"#] {
            assert_eq!(route(&rules(), record).0, Routed::Reject(Reason::NoTime));
        }
        assert!(matches!(route(&rules(), r#"{"table":"domains"}"#).0, Routed::Row(_)));
        let by_time = Rules { partition: PartitionRule::Time { max_lateness_days: 2 }, ..rules() };
        assert_eq!(route(&by_time, r#"{"table":"aliases"}"#).0, Routed::Reject(Reason::NoTime));
        assert!(matches!(route(&by_time, r#"{"table":"domains"}"#).0, Routed::Row(_)));
    }

    #[test]
    fn the_records_own_day_decides_within_its_window() {
        let by_time = Rules { partition: PartitionRule::Time { max_lateness_days: 2 }, ..rules() };
        for (time, day) in [
            ("2026-01-15T23:59:59.999999999Z", Some("2026-01-15")),
            ("2026-01-16T00:00:00Z", Some("2026-01-16")),
            ("2026-01-16T01:00:00+02:00", Some("2026-01-15")),
            ("2026-01-13T00:00:00Z", Some("2026-01-13")),
            ("2026-01-12T23:59:59Z", None),
            ("2026-01-17T00:00:00Z", None),
        ] {
            let record = format!(r#"{{"event_name":"a","time":"{time}"}}"#);
            match (route(&by_time, &record).0, day) {
                (Routed::Row(route), Some(day)) => assert_eq!(route.day.to_string(), day, "{time}"),
                (Routed::Reject(Reason::Late), None) => {}
                other => panic!("{time}: {other:?}"),
            }
        }
    }

    #[test]
    fn no_record_of_another_organisation_gets_through_whatever_it_looks_like() {
        let ours = Rules { organization: Some(("org".into(), "acme".into())), ..rules() };
        let rest = r#""event_name":"a","time":"2026-01-15T00:00:00Z""#;
        for (field, through) in [
            (r#""org":"acme""#, true),
            (r#""o\u0072g":"acme""#, true),
            (r#""org":"ac\u006de""#, true),
            (r#""org":"other","org":"acme""#, true),
            (r#""org":"acme","org":"other""#, false),
            (r#""org":"acme","o\u0072g":"other""#, false),
            (r#""org":"ACME""#, false),
            (r#""ORG":"acme""#, false),
            (r#""org":["acme"]"#, false),
            (r#""org":null"#, false),
            (r#""org":"acme ""#, false),
            (r#""x":{"org":"acme"}"#, false),
            (r#""x":"\"org\":\"acme\"""#, false),
        ] {
            let routed = route(&ours, &format!("{{{field},{rest}}}")).0;
            assert_eq!(matches!(routed, Routed::Row(_)), through, "{field}");
            if !through {
                assert_eq!(routed, Routed::Filtered, "{field}");
            }
        }
        assert_eq!(route(&ours, r#"{"x":1}"#).0, Routed::Filtered, "the filter comes before every other question");
    }
}
