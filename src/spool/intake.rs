//! Messages become durable: their records and what they notify of go to the spool of their day, the hopeless to quarantine.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::book::{Batch, Places, Reference, Taken, claim, digest};
use super::notification::{Content, Notified, Refusal, read};
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::domain::settings::Settings;
use crate::domain::staged::{Place, place_of};
use crate::store::lanes::{LANES, bounded};
use crate::store::ports::{Condition, List, ObjectInfo, Read, Write};
use crate::store::queue::Message;

/// What was taken in, for the log and for whoever asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Messages, those that failed left out; one that comes again counts again.
    pub messages: u64,
    /// Those that held records.
    pub with_records: u64,
    /// Created objects that they told of.
    pub objects: u64,
    /// Of these: of a day that had them already under another.
    pub known_objects: u64,
    /// Other events of S3, test events, and objects that are no staged ones: acknowledged.
    pub ignored: u64,
    /// Messages in quarantine, by reason.
    pub quarantined: BTreeMap<&'static str, u64>,
    /// Messages by the day that their content went to.
    pub days: BTreeMap<Day, u64>,
}

impl Report {
    /// The two together.
    pub fn join(&mut self, other: Report) {
        self.messages += other.messages;
        self.with_records += other.with_records;
        self.objects += other.objects;
        self.known_objects += other.known_objects;
        self.ignored += other.ignored;
        for (reason, count) in other.quarantined {
            *self.quarantined.entry(reason).or_default() += count;
        }
        for (day, count) in other.days {
            *self.days.entry(day).or_default() += count;
        }
    }

    /// One line of the log.
    pub fn log(&self) {
        let quarantined: u64 = self.quarantined.values().sum();
        let days: Vec<String> = self.days.iter().map(|(day, count)| format!("{day} ({count})")).collect();
        let Report { messages, with_records, objects, known_objects, ignored, .. } = self;
        let days = days.join(", ");
        tracing::info!(messages, with_records, objects, known_objects, ignored, quarantined, days, "messages were taken in");
        for (reason, count) in &self.quarantined {
            tracing::warn!(reason, messages = count, "messages were quarantined, look at the spool's `quarantine/`");
        }
    }
}

/// What became of messages.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was taken in.
    pub report: Report,
    /// The places of messages that are not durable, and why: they have to come again.
    pub failed: BTreeMap<usize, Failed>,
}

/// Why a message is not durable.
pub type Failed = std::sync::Arc<Error>;

/// Takes messages of the staging queue in.
#[derive(Clone, Copy, Debug)]
pub struct Intake<'a, S, V> {
    /// The configuration.
    pub settings: &'a Settings,
    /// Where the queue's spool lies.
    pub places: &'a Places,
    /// The staging bucket: asked for the ETag of an object whose notification has none.
    pub staging: &'a S,
    /// The state bucket.
    pub state: &'a V,
}

/// What goes to the spool of one day.
#[derive(Default)]
struct Group {
    members: BTreeSet<usize>,
    records: String,
    taken: Vec<Taken>,
    objects: Vec<Reference>,
    /// Those of `objects` that do not say their day themselves.
    claims: Vec<Reference>,
    refused: Vec<(usize, Refusal)>,
    first_sent: Option<i64>,
}

/// A quarantined message, one line.
#[derive(Serialize)]
struct Refused<'a> {
    message: &'a str,
    sent_millis: i64,
    reason: &'static str,
    text: &'a str,
}

impl<S, V> Intake<'_, S, V>
where
    S: List + Sync,
    V: Read + Write + Sync,
{
    /// Takes messages in: when it has answered, all that a message holds is durable, or its place is among the failed ones.
    ///
    /// The same message again changes nothing that a run could read. Messages of several days are as good as calls of their own: where
    /// one day's can't be written, the others' still are.
    pub async fn take(&self, messages: &[Message]) -> Outcome {
        let mut outcome = Outcome::default();
        let mut groups: BTreeMap<Day, Group> = BTreeMap::new();
        for (at, message) in messages.iter().enumerate() {
            if let Err(error) = self.sort_in(at, message, &mut groups, &mut outcome.report).await {
                outcome.failed.insert(at, Failed::new(error));
            }
        }
        for (day, group) in groups {
            match self.write(day, &group, messages).await {
                Ok(known_objects) => {
                    outcome.report.known_objects += known_objects;
                    *outcome.report.days.entry(day).or_default() += group.members.len() as u64;
                }
                Err(error) => {
                    let error = Failed::new(error);
                    outcome.failed.extend(group.members.iter().map(|at| (*at, Failed::clone(&error))));
                }
            }
        }
        outcome.report.messages = (messages.len() - outcome.failed.len()) as u64;
        outcome
    }

    /// Puts what a message holds into the groups of its days.
    async fn sort_in(&self, at: usize, message: &Message, groups: &mut BTreeMap<Day, Group>, report: &mut Report) -> Result<()> {
        let sent = message.sent_millis.checked_mul(1000).and_then(Day::from_epoch_micros);
        let Some(own_day) = sent else {
            let sent = message.sent_millis;
            return Err(Error::vendor(format!("a message says that it was sent at {sent} ms, which is no day, check the queue")));
        };
        let refuse = |refusal: Refusal, groups: &mut BTreeMap<Day, Group>, report: &mut Report| {
            group_of(groups, own_day, at, message).refused.push((at, refusal));
            *report.quarantined.entry(refusal.name()).or_default() += 1;
        };
        match read(&message.body) {
            Content::Records(text) if self.may_be_read() => {
                let group = group_of(groups, own_day, at, message);
                group.add_records(&message.id, &text);
                report.with_records += 1;
                Ok(())
            }
            Content::Records(_) => {
                refuse(Refusal::NoOrganization, groups, report);
                Ok(())
            }
            Content::Refused(refusal) => {
                refuse(refusal, groups, report);
                Ok(())
            }
            Content::TestEvent => {
                report.ignored += 1;
                Ok(())
            }
            Content::Events { objects, others, is_partly_unreadable } => {
                report.ignored += others;
                let mut refusal = is_partly_unreadable.then_some(Refusal::BadNotification);
                for object in objects {
                    let (day, is_claimed) = match place_of(&self.settings.staging.s3_prefix, &object.key) {
                        _ if object.bucket != self.settings.staging.s3_bucket => {
                            refusal.get_or_insert(Refusal::OutsideStaging);
                            continue;
                        }
                        Place::Outside => {
                            refusal.get_or_insert(Refusal::OutsideStaging);
                            continue;
                        }
                        Place::NotAnObject => {
                            report.ignored += 1;
                            continue;
                        }
                        Place::Of(day) => (day, false),
                        Place::Undated => (own_day, true),
                    };
                    let reference = self.refer_to(object, &message.id, is_claimed).await?;
                    let group = group_of(groups, day, at, message);
                    if is_claimed {
                        group.claims.push(reference.clone());
                    }
                    group.objects.push(reference);
                    report.objects += 1;
                }
                if let Some(refusal) = refusal {
                    refuse(refusal, groups, report);
                }
                Ok(())
            }
        }
    }

    /// Whether any destination may read records that a message holds: a folder says nothing of whose they are.
    fn may_be_read(&self) -> bool {
        let Settings { staging, destinations, .. } = self.settings;
        staging.organization_field.is_some() || destinations.iter().any(|destination| destination.organization.is_none())
    }

    /// What is noted of a notified object.
    async fn refer_to(&self, object: Notified, message: &str, is_claimed: bool) -> Result<Reference> {
        let Notified { bucket, key, version, etag, sequencer } = object;
        let etag = match (etag, &version) {
            (None, None) if is_claimed => find(self.staging, &key).await?.map(|found| found.etag.trim_matches('"').to_owned()),
            (etag, _) => etag,
        };
        let named = |kind: &str, value: &String| format!("{kind} {value}");
        let content = version.as_ref().map(|version| named("version", version));
        let content = content.or_else(|| etag.as_ref().map(|etag| named("etag", etag)));
        let content = content.or_else(|| sequencer.as_ref().map(|sequencer| named("sequencer", sequencer)));
        Ok(Reference { bucket, key, content: content.unwrap_or_else(|| format!("message {message}")), etag })
    }

    /// Makes a group durable; how many of its objects another day has.
    async fn write(&self, day: Day, group: &Group, messages: &[Message]) -> Result<u64> {
        let members: Vec<&Message> = group.members.iter().filter_map(|at| messages.get(*at)).collect();
        let parts = members.iter().flat_map(|message| [message.id.as_bytes(), message.body.as_bytes()]);
        let hash = digest(parts);
        let name = format!("{:013}-{}", group.first_sent.unwrap_or_default().max(0), hash.get(..16).unwrap_or_default());
        if !group.refused.is_empty() {
            let body = packed(&group.refused, messages)?;
            self.put(&self.places.quarantine(day, &name), body, "application/gzip").await?;
        }
        if group.taken.is_empty() && group.objects.is_empty() {
            return Ok(0);
        }
        if !group.records.is_empty() {
            let body = Bytes::from(group.records.clone());
            self.put(&self.places.records(day, &name), body, "application/x-ndjson").await?;
        }
        // Last of all: a batch is there once its index is.
        Batch::new(group.taken.clone(), group.objects.clone()).write(self.state, &self.places.index(day, &name)).await?;
        // Only what is in an index can be claimed, so that a claim never stands alone.
        let (state, places) = (self.state, self.places);
        let claimed = bounded(group.claims.clone(), LANES, |object| async move { claim(state, places, &object, day).await });
        Ok(claimed.await?.into_iter().filter(|is_ours| !is_ours).count() as u64)
    }

    async fn put(&self, key: &str, body: Bytes, content_type: &str) -> Result<()> {
        self.state.put(key, body, content_type, &Condition::None).await.map(|_| ())
    }
}

fn group_of<'g>(groups: &'g mut BTreeMap<Day, Group>, day: Day, at: usize, message: &Message) -> &'g mut Group {
    let group = groups.entry(day).or_default();
    group.members.insert(at);
    group.first_sent = Some(group.first_sent.map_or(message.sent_millis, |first| first.min(message.sent_millis)));
    group
}

impl Group {
    fn add_records(&mut self, message: &str, text: &str) {
        let offset = self.records.len();
        // An object is what its first bytes say: a message must not be able to make a batch look like Parquet.
        if !text.starts_with(['{', '[']) {
            self.records.push('\n');
        }
        self.records.push_str(text);
        self.records.push('\n');
        let length = (self.records.len() - offset) as u64;
        self.taken.push(Taken { id: message.to_owned(), offset: offset as u64, length });
    }
}

/// The object under exactly this key, as it is listed.
pub(super) async fn find(staging: &(impl List + Sync), key: &str) -> Result<Option<ObjectInfo>> {
    // No other key sorts before the one that the prefix is.
    let (page, _) = staging.list_page(key, None).await?;
    Ok(page.into_iter().next().filter(|object| object.key == key))
}

fn packed(refused: &[(usize, Refusal)], messages: &[Message]) -> Result<Bytes> {
    let unwritten = || Error::bug("a quarantined message could not be written, please report it");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    for (at, refusal) in refused {
        let Some(Message { id, sent_millis, body, .. }) = messages.get(*at) else { continue };
        let line = Refused { message: id, sent_millis: *sent_millis, reason: refusal.name(), text: body };
        serde_json::to_writer(&mut gzip, &line).map_err(|error| unwritten().with_source(error))?;
        gzip.write_all(b"\n").map_err(|error| unwritten().with_source(error))?;
    }
    Ok(gzip.finish().map_err(|error| unwritten().with_source(error))?.into())
}
