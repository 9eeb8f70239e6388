//! What a message holds: records, a notification of S3 in one of its three forms, or nothing that could ever be delivered.

use serde_json::{Map, Value};

use crate::store::s3::url_decoded;

/// Text that every form of notification has and hardly any record: only such a body is looked at as a whole.
const MARKS: [&str; 4] = [":s3\"", "s3:TestEvent", "aws.s3", "TopicArn"];
/// A BOM, which some producers put before their JSON.
const BOM: char = '\u{feff}';
/// The white space of JSON.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Why a message is quarantined: the closed set of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// Nothing in it could be a record or a notification.
    NotRecords,
    /// A notification without a bucket or key, or whose key can't be decoded.
    BadNotification,
    /// A notified object that lies outside the staged prefix or bucket.
    OutsideStaging,
    /// Records that no destination may read, since nothing says whose they are.
    NoOrganization,
}

impl Refusal {
    /// The name in the quarantine and the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Refusal::NotRecords => "not_records",
            Refusal::BadNotification => "bad_notification",
            Refusal::OutsideStaging => "outside_staging",
            Refusal::NoOrganization => "no_organization",
        }
    }
}

/// An object that S3 says was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notified {
    /// Its bucket.
    pub bucket: String,
    /// Its key, decoded by the rule of the notification's form.
    pub key: String,
    /// Its version, in a versioned bucket.
    pub version: Option<String>,
    /// Its ETag without quotes, where the notification has it.
    pub etag: Option<String>,
    /// What orders events of one key, where the notification has it.
    pub sequencer: Option<String>,
}

/// What a message holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Records: JSON lines without a line end at the end, never empty.
    Records(String),
    /// Created objects, how many events of another kind (deletions, restores, …), and whether one of the created can't be told.
    Events {
        /// The objects, in the order of the notification.
        objects: Vec<Notified>,
        /// Events that are acknowledged and counted, and no more.
        others: u64,
        /// Whether one of them names no object.
        is_partly_unreadable: bool,
    },
    /// What S3 sends when notifications are set up.
    TestEvent,
    /// Nothing that could ever be delivered.
    Refused(Refusal),
}

/// What the body of a message holds. A notification may be in the envelope of SNS, and so may records.
///
/// Sources: Amazon S3 User Guide, "Event message structure" (keys are URL-encoded, a space is `+`) and "Amazon EventBridge event message
/// structure" (keys are as they are); Amazon SNS Developer Guide, "Amazon SNS message and JSON formats".
#[must_use]
pub fn read(body: &str) -> Content {
    read_in(body, true)
}

fn read_in(body: &str, may_be_sns: bool) -> Content {
    let text = body.trim_matches(BLANKS).trim_start_matches(BOM).trim_matches(BLANKS);
    if text.starts_with('{')
        && MARKS.iter().any(|mark| text.contains(mark))
        && let Ok(Value::Object(fields)) = serde_json::from_str(text)
        && let Some(content) = event(&fields, may_be_sns)
    {
        return content;
    }
    let begins_a_value = |line: &str| line.trim_start_matches(BLANKS).starts_with(['{', '[']);
    if !text.lines().any(begins_a_value) {
        return Content::Refused(Refusal::NotRecords);
    }
    Content::Records(on_lines(text))
}

/// A message that is one JSON value spread over lines becomes one line: line ends can stand between its tokens only. Anything else is
/// lines already.
fn on_lines(text: &str) -> String {
    let has_line_ends = text.contains(['\n', '\r']);
    if has_line_ends && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return text.replace(['\n', '\r'], " ");
    }
    text.to_owned()
}

fn text_of<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
    fields.get(name)?.as_str()
}

/// The notification that an object is; `None` if it is none.
fn event(fields: &Map<String, Value>, may_be_sns: bool) -> Option<Content> {
    if text_of(fields, "Event") == Some("s3:TestEvent") {
        return Some(Content::TestEvent);
    }
    if may_be_sns && fields.contains_key("TopicArn") && fields.contains_key("Type") {
        return Some(match (text_of(fields, "Type"), text_of(fields, "Message")) {
            (Some("Notification"), Some(message)) => read_in(message, false),
            _ => Content::Refused(Refusal::NotRecords),
        });
    }
    if text_of(fields, "source") == Some("aws.s3") && fields.contains_key("detail-type") {
        return Some(of_eventbridge(fields));
    }
    let records = fields.get("Records")?.as_array()?;
    // Other stores that speak S3's API put their own name before the colon.
    let is_s3s = |record: &Value| record.get("eventSource").and_then(Value::as_str).is_some_and(|source| source.ends_with(":s3"));
    (!records.is_empty() && records.iter().all(is_s3s)).then(|| of_s3(records))
}

fn owned(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn etag(value: Option<&Value>) -> Option<String> {
    owned(value).map(|etag| etag.trim_matches('"').to_owned())
}

/// S3's own form: several records, keys URL-encoded.
fn of_s3(records: &[Value]) -> Content {
    let (mut objects, mut others, mut is_partly_unreadable) = (Vec::new(), 0, false);
    for record in records {
        let name = record.get("eventName").and_then(Value::as_str).unwrap_or_default();
        if !name.trim_start_matches("s3:").starts_with("ObjectCreated:") {
            others += 1;
            continue;
        }
        let at = |pointer: &str| record.pointer(pointer);
        let key = at("/s3/object/key").and_then(Value::as_str).and_then(url_decoded).filter(|key| !key.is_empty());
        match owned(at("/s3/bucket/name")).zip(key) {
            Some((bucket, key)) => objects.push(Notified {
                bucket,
                key,
                version: owned(at("/s3/object/versionId")),
                etag: etag(at("/s3/object/eTag")),
                sequencer: owned(at("/s3/object/sequencer")),
            }),
            None => is_partly_unreadable = true,
        }
    }
    Content::Events { objects, others, is_partly_unreadable }
}

/// `EventBridge`'s form: one event, the key as it is.
fn of_eventbridge(fields: &Map<String, Value>) -> Content {
    if text_of(fields, "detail-type") != Some("Object Created") {
        return Content::Events { objects: Vec::new(), others: 1, is_partly_unreadable: false };
    }
    let at = |pointer: &str| fields.get("detail").and_then(|detail| detail.pointer(pointer));
    let found = owned(at("/bucket/name")).zip(owned(at("/object/key"))).map(|(bucket, key)| Notified {
        bucket,
        key,
        version: owned(at("/object/version-id")),
        etag: etag(at("/object/etag")),
        sequencer: owned(at("/object/sequencer")),
    });
    Content::Events { is_partly_unreadable: found.is_none(), objects: found.into_iter().collect(), others: 0 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(event: &str, object: &Value) -> Value {
        json!({"Records": [{"eventSource": "aws:s3", "eventName": event, "s3": {"bucket": {"name": "b"}, "object": object}}]})
    }

    fn bridged(detail: &str, object: &Value) -> Value {
        json!({"source": "aws.s3", "detail-type": detail, "detail": {"bucket": {"name": "b"}, "object": object}})
    }

    fn in_sns(message: &str) -> String {
        json!({"Type": "Notification", "TopicArn": "arn:aws:sns:eu-west-1:1:t", "Message": message}).to_string()
    }

    fn keys(body: &str) -> Vec<String> {
        match read(body) {
            Content::Events { objects, others: 0, is_partly_unreadable: false } => {
                objects.into_iter().map(|object| object.key).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_form_has_its_own_rule_for_keys() {
        let encoded = raw("ObjectCreated:Put", &json!({"key": "staged/a%2Bb+c%C3%BC.json"})).to_string();
        assert_eq!(keys(&encoded), ["staged/a+b cü.json"]);
        assert_eq!(keys(&in_sns(&encoded)), ["staged/a+b cü.json"]);
        let plain = bridged("Object Created", &json!({"key": "staged/a%2Bb+c.json"})).to_string();
        assert_eq!(keys(&plain), ["staged/a%2Bb+c.json"], "a key of EventBridge is not decoded");
        assert_eq!(keys(&in_sns(&plain)), ["staged/a%2Bb+c.json"]);
        let minio = encoded.replace("aws:s3", "minio:s3").replace("ObjectCreated", "s3:ObjectCreated");
        assert_eq!(keys(&minio), ["staged/a+b cü.json"]);
    }

    #[test]
    fn version_and_etag_are_read_under_each_forms_names() {
        let object = json!({"key": "k", "versionId": "v", "eTag": "e", "sequencer": "s"});
        let bridge = json!({"key": "k", "version-id": "v", "etag": "\"e\"", "sequencer": "s"});
        for body in [raw("ObjectCreated:CompleteMultipartUpload", &object), bridged("Object Created", &bridge)] {
            let Content::Events { objects, .. } = read(&body.to_string()) else { panic!("{body}") };
            let text = |text: &str| Some(text.to_owned());
            let Notified { version, etag, sequencer, bucket, .. } = &objects[0];
            assert_eq!((version, etag, sequencer, bucket.as_str()), (&text("v"), &text("e"), &text("s"), "b"));
        }
    }

    #[test]
    fn other_events_are_counted_and_test_events_are_nothing() {
        let counted = |others| Content::Events { objects: Vec::new(), others, is_partly_unreadable: false };
        let key = json!({"key": "k"});
        assert_eq!(read(&raw("ObjectRemoved:Delete", &key).to_string()), counted(1));
        assert_eq!(read(&bridged("Object Deleted", &key).to_string()), counted(1));
        let test = json!({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}).to_string();
        assert_eq!(read(&test), Content::TestEvent);
        assert_eq!(read(&in_sns(&test)), Content::TestEvent);
    }

    #[test]
    fn a_notification_that_names_no_object_is_told_from_the_others_of_its_message() {
        for object in [json!({}), json!({"key": ""}), json!({"key": "%"}), json!({"key": "%FF"}), json!({"key": 1})] {
            let mut body = raw("ObjectCreated:Put", &object);
            let good = raw("ObjectCreated:Put", &json!({"key": "k"}))["Records"][0].clone();
            body["Records"].as_array_mut().unwrap().push(good);
            let Content::Events { objects, is_partly_unreadable, .. } = read(&body.to_string()) else { panic!("{body}") };
            assert_eq!((objects.len(), is_partly_unreadable), (1, true), "{body}");
        }
        let bridge = read(&bridged("Object Created", &json!({"size": 1})).to_string());
        assert!(matches!(bridge, Content::Events { is_partly_unreadable: true, .. }));
    }

    #[test]
    fn records_are_lines_whatever_they_look_like() {
        let records = |body: &str| match read(body) {
            Content::Records(text) => text,
            other => panic!("{body}: {other:?}"),
        };
        assert_eq!(records("{\"a\":1}\r\n{\"a\":2}\n"), "{\"a\":1}\r\n{\"a\":2}");
        assert_eq!(records("\u{feff} [{\"a\":1},{\"a\":2}] "), "[{\"a\":1},{\"a\":2}]");
        assert_eq!(
            records("{\n  \"a\": \"x\\ny\",\r\n  \"b\": 1\n}"),
            "{   \"a\": \"x\\ny\",    \"b\": 1 }",
            "one value is one line"
        );
        assert_eq!(records("garbage\n{\"a\":1}"), "garbage\n{\"a\":1}", "the run quarantines the line, and delivers the other");
        assert_eq!(records(&in_sns("{\"a\":1}")), "{\"a\":1}", "records may come through SNS");
        let looks_alike = json!({"event_name": "x", "Records": [{"eventSource": "aws:s3"}, {"eventSource": "shop"}]}).to_string();
        assert_eq!(records(&looks_alike), looks_alike);
        let nested = json!({"event_name": "x", "properties": {"source": "aws.s3", "TopicArn": "t"}}).to_string();
        assert_eq!(records(&nested), nested);
        let twice = in_sns(&in_sns("{\"a\":1}"));
        assert_eq!(records(&twice), in_sns("{\"a\":1}"), "an envelope is opened once");
    }

    #[test]
    fn what_can_never_be_delivered_is_refused() {
        let confirmation = json!({"Type": "SubscriptionConfirmation", "TopicArn": "t", "Token": "x", "Message": "m"}).to_string();
        for body in ["", " \n", "hello", "12", "\"text\"", "PAR1 and more", "null\ntrue", &confirmation] {
            assert_eq!(read(body), Content::Refused(Refusal::NotRecords), "{body}");
        }
    }
}
