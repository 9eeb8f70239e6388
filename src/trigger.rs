//! What an invocation asks for: Lambda's JSON event becomes a request, or an error that says what was expected.

use serde_json::{Map, Value};

use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::domain::settings::Destination;
use crate::domain::spelling::{brief, nearest};
use crate::store::queue::Message;

/// The most days that one event may name.
const MOST_DAYS: i64 = 400;
/// What the events that work look like, for the messages of those that don't.
const EXPECTED: &str = "expected is an EventBridge rule's or Scheduler's event (`{\"time\":\"2026-01-16T03:00:00Z\"}`, with `destination` if you like), or days by hand (`{\"date\":\"2026-01-15\"}` or `{\"from\":\"2026-01-01\",\"to\":\"2026-01-15\"}`, with `destination` and `force` if you like), or a connection test (`{\"check\":\"acme\"}`), or messages of a queue that Lambda hands over";
const SCHEDULER_FIELDS: [&str; 2] = ["time", "destination"];
const BY_HAND_FIELDS: [&str; 5] = ["date", "from", "to", "destination", "force"];

/// What a trigger asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A schedule's turn: the day follows from the trigger's own time, never from the clock.
    Scheduled {
        /// The trigger's time, in microseconds since 1970 (UTC); its day is within 1970 to 9998.
        time: i64,
        /// The one destination whose schedule it is; `None` means every enabled one.
        destination: Option<String>,
    },
    /// Days named by hand, at most 400.
    Days {
        /// The first day.
        from: Day,
        /// The last day, not before the first.
        to: Day,
        /// The destinations, each once, in the event's order; empty means all.
        destinations: Vec<String>,
        /// Whether a day that is committed already runs again.
        force: bool,
    },
    /// The connection test of a destination.
    Check {
        /// Its name.
        destination: String,
    },
    /// Messages of a queue that triggers the function.
    Messages {
        /// The queue's ARN.
        queue: String,
        /// The messages, at least one.
        messages: Vec<Message>,
    },
}

impl Request {
    /// What an event asks for, decided by its fields (CONTRACT.md §7).
    ///
    /// Fails with kind `Vendor` when it is none of the forms, or has a field, date or range that does not fit its form: there is no
    /// event for which nothing is done.
    pub fn from_event(event: &Value) -> Result<Request> {
        let Some(fields) = event.as_object() else {
            return Err(unexpected(&format!("is {}", kind_of(event))));
        };
        if let Some(records) = fields.get("Records") {
            return from_queue(records);
        }
        if let Some(name) = fields.get("check") {
            check_fields(fields, &["check"])?;
            return match name.as_str() {
                Some(name) if !name.is_empty() => Ok(Request::Check { destination: name.to_owned() }),
                _ => Err(Error::vendor(format!("`check` in the event is {}, write one destination's name", shown(name)))),
            };
        }
        if let Some(source) = fields.get("source") {
            return from_rule(fields, source);
        }
        if fields.contains_key("time") {
            return from_scheduler(fields);
        }
        if ["date", "from", "to"].iter().any(|name| fields.contains_key(*name)) {
            return by_hand(fields);
        }
        check_fields(fields, &["time", "date", "from", "to", "destination", "force", "check"])?;
        Err(unexpected("names neither a time nor a day"))
    }

    /// The days that the request means for a destination: those named, or the UTC day of the trigger's time minus the destination's
    /// own `lag_days`, or else minus `lag` days.
    #[must_use]
    pub fn days_for(&self, destination: &Destination, lag: u32) -> Vec<Day> {
        match self {
            Request::Scheduled { time, .. } => {
                let lag = i64::from(destination.lag_days.unwrap_or(lag));
                Day::from_epoch_micros(*time).map(|day| day.plus_days(-lag)).into_iter().collect()
            }
            Request::Days { from, to, .. } => from.up_to(*to).collect(),
            Request::Check { .. } | Request::Messages { .. } => Vec::new(),
        }
    }
}

fn unexpected(what: &str) -> Error {
    Error::vendor(format!("the event {what}: {EXPECTED}"))
}

/// The event of an SQS event source mapping (AWS Lambda Developer Guide, "Using Lambda with Amazon SQS"): messages of one queue.
fn from_queue(records: &Value) -> Result<Request> {
    let source = records.pointer("/0/eventSource").or_else(|| records.pointer("/0/EventSource")).and_then(Value::as_str);
    match source {
        Some("aws:sqs") => {}
        Some("aws:s3") => return Err(unexpected("is a notification of S3 itself, which would start a run an object")),
        Some(source) => return Err(unexpected(&format!("comes from `{}`", printable(source)))),
        None => return Err(unexpected("has `Records` without a source")),
    }
    let mut queue: Option<&str> = None;
    let mut messages = Vec::new();
    for record in records.as_array().into_iter().flatten() {
        let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str);
        let number = |name: &str| text(&format!("/attributes/{name}")).and_then(|number| number.parse::<i64>().ok());
        let of_queue = text("/eventSourceARN").filter(|arn| *queue.get_or_insert(*arn) == *arn);
        let named = text("/messageId").zip(text("/receiptHandle")).zip(text("/body"));
        let sent = number("SentTimestamp").zip(number("ApproximateReceiveCount"));
        let (Some(((id, receipt), body)), Some((sent_millis, receives)), Some(_)) = (named, sent, of_queue) else {
            return Err(unexpected(
                "comes from SQS and a record of it lacks `messageId`, `receiptHandle`, `body`, `eventSourceARN` or the attributes `SentTimestamp` and `ApproximateReceiveCount`",
            ));
        };
        messages.push(Message {
            id: id.to_owned(),
            receipt: receipt.to_owned(),
            body: body.to_owned(),
            sent_millis,
            receives: u32::try_from(receives).unwrap_or(u32::MAX),
        });
    }
    Ok(Request::Messages { queue: queue.unwrap_or_default().to_owned(), messages })
}

/// The event of an `EventBridge` rule. Its envelope is AWS's and may grow, so further fields are fine.
fn from_rule(fields: &Map<String, Value>, source: &Value) -> Result<Request> {
    if source.as_str() != Some("aws.events") {
        return Err(unexpected(&format!("has the source {}", shown(source))));
    }
    if let Some(detail) = fields.get("detail-type")
        && detail.as_str() != Some("Scheduled Event")
    {
        return Err(unexpected(&format!("is no schedule's but has the `detail-type` {}", shown(detail))));
    }
    match fields.get("time") {
        Some(time) => Ok(Request::Scheduled { time: instant(time)?, destination: None }),
        None => Err(unexpected("has no `time`")),
    }
}

fn from_scheduler(fields: &Map<String, Value>) -> Result<Request> {
    if let Some(other) = fields.keys().find(|name| BY_HAND_FIELDS.contains(&name.as_str()) && *name != "destination") {
        return Err(Error::vendor(format!(
            "the event has `time` and `{other}`, write `time` for a schedule's turn, or a date by hand, not both"
        )));
    }
    check_fields(fields, &SCHEDULER_FIELDS)?;
    let time = fields.get("time").map_or(Ok(0), instant)?;
    let destination = match fields.get("destination") {
        None => None,
        Some(Value::String(name)) if !name.is_empty() => Some(name.clone()),
        Some(other) => {
            return Err(Error::vendor(format!("`destination` in the event is {}, write one destination's name", shown(other))));
        }
    };
    Ok(Request::Scheduled { time, destination })
}

fn by_hand(fields: &Map<String, Value>) -> Result<Request> {
    check_fields(fields, &BY_HAND_FIELDS)?;
    let (from, to) = match (fields.get("date"), fields.get("from"), fields.get("to")) {
        (Some(date), None, None) => {
            let day = day("date", date)?;
            (day, day)
        }
        (None, Some(from), Some(to)) => (day("from", from)?, day("to", to)?),
        (None, None, _) => return Err(Error::vendor("the event has `to` without `from`, write both, or `date` for one day")),
        (None, _, None) => return Err(Error::vendor("the event has `from` without `to`, write both, or `date` for one day")),
        _ => {
            return Err(Error::vendor(
                "the event has `date` beside `from` or `to`, write `date` for one day, or `from` and `to`",
            ));
        }
    };
    if from > to {
        return Err(Error::vendor(format!(
            "the event goes from {from} to {to}, which is earlier, write the first day as `from`"
        )));
    }
    let days = to.days_since(from) + 1;
    if days > MOST_DAYS {
        return Err(Error::vendor(format!("the event names {days} days, ask for at most {MOST_DAYS} at a time")));
    }
    let force = match fields.get("force") {
        None => false,
        Some(Value::Bool(force)) => *force,
        Some(other) => return Err(Error::vendor(format!("`force` in the event is {}, write `true` or `false`", shown(other)))),
    };
    Ok(Request::Days { from, to, destinations: destinations(fields.get("destination"))?, force })
}

/// A name or a list of names, each once.
fn destinations(written: Option<&Value>) -> Result<Vec<String>> {
    let names: &[Value] = match written {
        None => return Ok(Vec::new()),
        Some(Value::Array(names)) => names,
        Some(other) => std::slice::from_ref(other),
    };
    if names.is_empty() {
        return Err(Error::vendor("`destination` in the event is an empty list, name one, or leave it out for all"));
    }
    let mut destinations: Vec<String> = Vec::new();
    for name in names {
        match name.as_str() {
            Some(name) if !name.is_empty() => {
                if !destinations.iter().any(|known| known == name) {
                    destinations.push(name.to_owned());
                }
            }
            _ => {
                return Err(Error::vendor(format!(
                    "`destination` in the event is {}, write a destination's name or a list of them",
                    shown(name)
                )));
            }
        }
    }
    Ok(destinations)
}

/// Refuses fields that the form does not have, each with the nearest that it has.
fn check_fields(fields: &Map<String, Value>, known: &[&'static str]) -> Result<()> {
    let unknown: Vec<String> = fields
        .keys()
        .filter(|name| !known.contains(&name.as_str()))
        .map(|name| {
            let nearest = nearest(name, known.iter().copied());
            format!("unknown field `{}`, did you mean `{}`?", printable(name), nearest.unwrap_or("date"))
        })
        .collect();
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(Error::vendor(format!("the event has an {}: {EXPECTED}", unknown.join(" and an "))))
    }
}

fn day(field: &str, value: &Value) -> Result<Day> {
    let text = value.as_str().unwrap_or_default();
    text.parse().map_err(|_| {
        Error::vendor(format!("`{field}` in the event is {}, write a day such as `2026-01-15` (1970 to 9998)", shown(value)))
    })
}

fn instant(value: &Value) -> Result<i64> {
    let text = value.as_str().unwrap_or_default();
    if text.starts_with("<aws.scheduler.") {
        return Err(Error::vendor(format!(
            "`time` in the event is the placeholder {}, which only EventBridge Scheduler fills in, write a time such as `2026-01-16T03:00:00Z`",
            shown(value)
        )));
    }
    parse_rfc3339(text).filter(|micros| Day::from_epoch_micros(*micros).is_some()).ok_or_else(|| {
        Error::vendor(format!("`time` in the event is {}, write a time such as `2026-01-16T03:00:00Z` (RFC 3339)", shown(value)))
    })
}

/// Microseconds since 1970 of an RFC 3339 date and time: `T`, seconds and an offset are needed, a fraction is cut.
fn parse_rfc3339(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.strip_prefix(['T', 't'])?.split_at_checked(8)?;
    let day: Day = date.parse().ok()?;
    let [hour, minute, second] = two_digit_numbers(clock)?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let offset = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let offset = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if offset.len() == fraction.len() {
                return None;
            }
            offset
        }
    };
    let seconds = i64::from(day.epoch_days()) * 86_400 + hour * 3600 + minute * 60 + second.min(59) - offset_seconds(offset)?;
    seconds.checked_mul(1_000_000)
}

fn offset_seconds(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let (sign, clock) = match text.strip_prefix('+') {
        Some(clock) => (1, clock),
        None => (-1, text.strip_prefix('-')?),
    };
    let [hour, minute] = two_digit_numbers(clock)?;
    (hour <= 23 && minute <= 59).then_some(sign * (hour * 3600 + minute * 60))
}

/// `N` numbers of two digits with colons between.
fn two_digit_numbers<const N: usize>(text: &str) -> Option<[i64; N]> {
    let number = |part: &str| {
        let is_plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_plain { part.parse().ok() } else { None }
    };
    let numbers: Option<Vec<i64>> = text.split(':').map(number).collect();
    numbers?.try_into().ok()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "empty".to_owned(),
        Value::String(text) => format!("`{}`", printable(text)),
        Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
        other => kind_of(other).to_owned(),
    }
}

/// Text for a message: one line of at most 80 characters.
fn printable(text: &str) -> String {
    brief(text, 80)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::error::Kind;
    use crate::domain::format::Format;
    use crate::domain::layout::{Layout, Prefix};
    use crate::domain::settings::{Checksum, Credentials, PartitionBy};

    const THREE_O_CLOCK: i64 = 1_768_532_400_000_000;

    fn message(event: &Value) -> String {
        let error = Request::from_event(event).unwrap_err();
        assert_eq!(error.kind(), Kind::Vendor);
        assert!(!error.message().contains('\n'), "{error}");
        error.message().replace(EXPECTED, "EXPECTED")
    }

    fn destination(lag_days: Option<u32>) -> Destination {
        Destination {
            name: "acme".to_owned(),
            s3_bucket: "customer".to_owned(),
            s3_prefix: Prefix::default(),
            s3_region: None,
            format: Format::Parquet,
            layout: Layout::Permutive,
            partition_by: PartitionBy::StagedDay,
            max_lateness_days: 30,
            target_file_size: 256 << 20,
            snapshot_file_size: 4 << 30,
            allow_empty_snapshot: false,
            dedupe: None,
            organization: None,
            enabled: true,
            start_date: None,
            lag_days,
            manifest: true,
            verify: false,
            sweep: false,
            expected_bucket_owner: None,
            encryption: None,
            acl: None,
            requester_pays: false,
            path_style: false,
            checksum: Checksum::Always,
            credentials: Credentials::Own,
        }
    }

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    #[test]
    fn an_eventbridge_rule_asks_for_every_destination() {
        let event = json!({
            "version": "0", "id": "cdc73f9d", "detail-type": "Scheduled Event", "source": "aws.events", "account": "123456789012",
            "time": "2026-01-16T03:00:00Z", "region": "eu-central-1", "resources": ["arn:aws:events:eu-central-1:123456789012:rule/x"],
            "detail": {}, "a-field-of-tomorrow": 1,
        });
        assert_eq!(Request::from_event(&event).unwrap(), Request::Scheduled { time: THREE_O_CLOCK, destination: None });
    }

    #[test]
    fn a_scheduler_may_be_one_destinations_own() {
        let event = json!({"time": "2026-01-16T03:00:00Z"});
        assert_eq!(Request::from_event(&event).unwrap(), Request::Scheduled { time: THREE_O_CLOCK, destination: None });
        let event = json!({"time": "2026-01-16T03:00:00Z", "destination": "acme"});
        let own = Request::Scheduled { time: THREE_O_CLOCK, destination: Some("acme".to_owned()) };
        assert_eq!(Request::from_event(&event).unwrap(), own);
    }

    #[test]
    fn days_are_named_by_hand() {
        let parsed = Request::from_event(&json!({"date": "2026-01-15"})).unwrap();
        let one = Request::Days { from: day("2026-01-15"), to: day("2026-01-15"), destinations: Vec::new(), force: false };
        assert_eq!(parsed, one);
        let event = json!({"from": "2026-01-01", "to": "2026-01-15", "destination": ["b", "a", "b"], "force": true});
        let several = Request::Days {
            from: day("2026-01-01"),
            to: day("2026-01-15"),
            destinations: vec!["b".to_owned(), "a".to_owned()],
            force: true,
        };
        assert_eq!(Request::from_event(&event).unwrap(), several);
        let Request::Days { destinations, .. } = Request::from_event(&json!({"date": "2026-01-15", "destination": "a"})).unwrap()
        else {
            panic!("no days");
        };
        assert_eq!(destinations, ["a"]);
        assert!(Request::from_event(&json!({"from": "2025-01-01", "to": "2026-02-04"})).is_ok(), "400 days are allowed");
    }

    #[test]
    fn messages_of_one_queue_are_handed_over_whole() {
        let record = |id: &str, queue: &str| {
            json!({
                "messageId": id, "receiptHandle": format!("r-{id}"), "body": "{}", "messageAttributes": {}, "awsRegion": "eu-west-1",
                "attributes": {"ApproximateReceiveCount": "2", "SentTimestamp": "1768478400123", "SenderId": "s"},
                "eventSource": "aws:sqs", "eventSourceARN": format!("arn:aws:sqs:eu-west-1:1:{queue}"),
            })
        };
        let event = json!({"Records": [record("a", "q"), record("b", "q")]});
        let message = |id: &str| Message {
            id: id.to_owned(),
            receipt: format!("r-{id}"),
            body: "{}".to_owned(),
            sent_millis: 1_768_478_400_123,
            receives: 2,
        };
        let messages = vec![message("a"), message("b")];
        let expected = Request::Messages { queue: "arn:aws:sqs:eu-west-1:1:q".to_owned(), messages };
        assert_eq!(Request::from_event(&event).unwrap(), expected);
        let mut without_time = event.clone();
        without_time["Records"][1]["attributes"].as_object_mut().unwrap().remove("SentTimestamp");
        for wrong in [without_time, json!({"Records": [record("a", "q"), record("b", "other")]})] {
            assert!(Request::from_event(&wrong).unwrap_err().message().contains("a record of it lacks"), "{wrong}");
        }
    }

    #[test]
    fn the_day_is_the_triggers_utc_date_minus_the_lag() {
        let (plain, own_lag) = (destination(None), destination(Some(3)));
        let at = |time: &str| Request::from_event(&json!({ "time": time })).unwrap();
        assert_eq!(at("2026-01-16T03:00:00Z").days_for(&plain, 1), [day("2026-01-15")]);
        assert_eq!(at("2026-01-16T03:00:00Z").days_for(&plain, 0), [day("2026-01-16")]);
        assert_eq!(at("2026-01-16T03:00:00Z").days_for(&own_lag, 1), [day("2026-01-13")]);
        assert_eq!(at("2026-01-16T00:30:00+01:00").days_for(&plain, 1), [day("2026-01-14")], "the UTC date decides");
        assert_eq!(at("2026-03-01T00:00:00.5-00:00").days_for(&plain, 1), [day("2026-02-28")]);
        let by_hand = Request::from_event(&json!({"from": "2026-01-14", "to": "2026-01-15"})).unwrap();
        assert_eq!(by_hand.days_for(&own_lag, 1), [day("2026-01-14"), day("2026-01-15")], "days by hand have no lag");
    }

    #[test]
    fn times_are_rfc_3339_with_seconds_and_an_offset() {
        for (text, micros) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-01-16T03:00:00Z", THREE_O_CLOCK),
            ("2026-01-16t03:00:00z", THREE_O_CLOCK),
            ("2026-01-16T11:00:00+08:00", THREE_O_CLOCK),
            ("2026-01-15T22:00:00-05:00", THREE_O_CLOCK),
            ("2026-01-16T03:00:00.999999999Z", THREE_O_CLOCK),
            ("2026-01-16T02:59:60Z", THREE_O_CLOCK - 1_000_000),
        ] {
            assert_eq!(parse_rfc3339(text), Some(micros), "{text}");
        }
        for text in [
            "",
            "2026-01-16",
            "2026-01-16T03:00Z",
            "2026-01-16T03:00:00",
            "2026-01-16 03:00:00Z",
            "2026-01-16T24:00:00Z",
            "2026-01-16T03:60:00Z",
            "2026-02-30T03:00:00Z",
            "2026-01-16T03:00:00.Z",
            "2026-01-16T03:00:00+0800",
            "2026-01-16T03:00:00+24:00",
            "2026-01-16T03:00:00ZZ",
            "1768532400",
            "２026-01-16T03:00:00Z",
            "2026-01-16T+3:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn whatever_else_comes_is_told_what_was_expected() {
        for (event, expected) in [
            (json!(null), "the event is null: EXPECTED"),
            (json!([]), "the event is a list: EXPECTED"),
            (json!("2026-01-15"), "the event is a string: EXPECTED"),
            (json!({}), "the event names neither a time nor a day: EXPECTED"),
            (json!({"destination": "acme"}), "the event names neither a time nor a day: EXPECTED"),
            (json!({"dat": "2026-01-15"}), "the event has an unknown field `dat`, did you mean `date`?: EXPECTED"),
            (json!({"check": ["acme"]}), "`check` in the event is a list, write one destination's name"),
            (json!({"check": ""}), "`check` in the event is empty, write one destination's name"),
            (
                json!({"check": "acme", "date": "2026-01-15"}),
                "the event has an unknown field `date`, did you mean `check`?: EXPECTED",
            ),
            (
                json!({"Records": [{"eventSource": "aws:sqs"}]}),
                "the event comes from SQS and a record of it lacks `messageId`, `receiptHandle`, `body`, `eventSourceARN` or the attributes `SentTimestamp` and `ApproximateReceiveCount`: EXPECTED",
            ),
            (
                json!({"Records": [{"eventSource": "aws:s3"}]}),
                "the event is a notification of S3 itself, which would start a run an object: EXPECTED",
            ),
            (json!({"Records": [{"EventSource": "aws:sns"}]}), "the event comes from `aws:sns`: EXPECTED"),
            (json!({"Records": []}), "the event has `Records` without a source: EXPECTED"),
            (json!({"source": "aws.s3", "time": "2026-01-16T03:00:00Z"}), "the event has the source `aws.s3`: EXPECTED"),
            (
                json!({"source": "aws.events", "detail-type": "AWS API Call via CloudTrail", "time": "2026-01-16T03:00:00Z"}),
                "the event is no schedule's but has the `detail-type` `AWS API Call via CloudTrail`: EXPECTED",
            ),
            (json!({"source": "aws.events"}), "the event has no `time`: EXPECTED"),
        ] {
            assert_eq!(message(&event), expected);
        }
        assert!(EXPECTED.contains("`{\"date\":\"2026-01-15\"}`"));
    }

    #[test]
    fn a_field_that_does_not_fit_is_named() {
        let time = "2026-01-16T03:00:00Z";
        for (event, expected) in [
            (
                json!({"date": "2026-01-15", "forse": true}),
                "the event has an unknown field `forse`, did you mean `force`?: EXPECTED",
            ),
            (
                json!({"date": "2026-01-15", "Force": true, "destinations": "a"}),
                "the event has an unknown field `Force`, did you mean `force`? and an unknown field `destinations`, did you mean `destination`?: EXPECTED",
            ),
            (json!({"time": time, "dest": "a"}), "the event has an unknown field `dest`, did you mean `destination`?: EXPECTED"),
            (
                json!({"time": time, "force": true}),
                "the event has `time` and `force`, write `time` for a schedule's turn, or a date by hand, not both",
            ),
            (
                json!({"time": time, "date": "2026-01-15"}),
                "the event has `time` and `date`, write `time` for a schedule's turn, or a date by hand, not both",
            ),
            (
                json!({"time": "yesterday"}),
                "`time` in the event is `yesterday`, write a time such as `2026-01-16T03:00:00Z` (RFC 3339)",
            ),
            (
                json!({"time": 1_768_532_400}),
                "`time` in the event is `1768532400`, write a time such as `2026-01-16T03:00:00Z` (RFC 3339)",
            ),
            (
                json!({"time": "1970-01-01T00:00:00+01:00"}),
                "`time` in the event is `1970-01-01T00:00:00+01:00`, write a time such as `2026-01-16T03:00:00Z` (RFC 3339)",
            ),
            (
                json!({"time": "<aws.scheduler.scheduled-time>"}),
                "`time` in the event is the placeholder `<aws.scheduler.scheduled-time>`, which only EventBridge Scheduler fills in, write a time such as `2026-01-16T03:00:00Z`",
            ),
            (json!({"time": time, "destination": ["a"]}), "`destination` in the event is a list, write one destination's name"),
            (json!({"date": "2026-1-15"}), "`date` in the event is `2026-1-15`, write a day such as `2026-01-15` (1970 to 9998)"),
            (json!({"date": null}), "`date` in the event is null, write a day such as `2026-01-15` (1970 to 9998)"),
            (
                json!({"date": "2026-02-30"}),
                "`date` in the event is `2026-02-30`, write a day such as `2026-01-15` (1970 to 9998)",
            ),
            (json!({"from": "2026-01-15"}), "the event has `from` without `to`, write both, or `date` for one day"),
            (json!({"to": "2026-01-15"}), "the event has `to` without `from`, write both, or `date` for one day"),
            (
                json!({"date": "2026-01-15", "to": "2026-01-16"}),
                "the event has `date` beside `from` or `to`, write `date` for one day, or `from` and `to`",
            ),
            (
                json!({"from": "2026-01-16", "to": "2026-01-15"}),
                "the event goes from 2026-01-16 to 2026-01-15, which is earlier, write the first day as `from`",
            ),
            (json!({"from": "2025-01-01", "to": "2026-02-05"}), "the event names 401 days, ask for at most 400 at a time"),
            (json!({"date": "2026-01-15", "force": "yes"}), "`force` in the event is `yes`, write `true` or `false`"),
            (
                json!({"date": "2026-01-15", "destination": []}),
                "`destination` in the event is an empty list, name one, or leave it out for all",
            ),
            (
                json!({"date": "2026-01-15", "destination": ["a", 1]}),
                "`destination` in the event is `1`, write a destination's name or a list of them",
            ),
            (
                json!({"date": "2026-01-15", "destination": ""}),
                "`destination` in the event is empty, write a destination's name or a list of them",
            ),
            (json!({"date": "a\nb"}), "`date` in the event is `a\u{fffd}b`, write a day such as `2026-01-15` (1970 to 9998)"),
        ] {
            assert_eq!(message(&event), expected, "{event}");
        }
    }
}
