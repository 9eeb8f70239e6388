//! The staging bucket as a run sees it: with what was spooled for its day, each message and each notified object once.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;

use super::book::{Batch, Places, Reference, claim};
use super::intake::find;
use crate::domain::error::{Error, Result};
use crate::domain::replay;
use crate::domain::run::Day;
use crate::domain::settings::{Destination, Settings};
use crate::domain::staged::is_staged;
use crate::store::lanes::{LANES, bounded};
use crate::store::ports::{Body, List, ObjectInfo, Read, Staged, Write};

/// What has to be done before a day's spool is looked at.
pub trait Before: Send + Sync {
    /// Does it, or does nothing when it was done.
    fn prepare(&self) -> impl Future<Output = Result<()>> + Send;
}

impl Before for () {
    async fn prepare(&self) -> Result<()> {
        Ok(())
    }
}

/// The staging bucket and the spool as one store, for one destination.
///
/// A message that was spooled twice is read where its first batch (in key order) has it; in later ones its bytes are blanks, so that
/// lines and offsets of all others stay what they are. An object that is listed and notified is listed once; one whose key does not say
/// its day belongs to the day that first claimed that content of it, and is left out where it has other content by now: that is notified by
/// itself.
#[derive(Debug)]
pub struct SpooledStaging<'a, S, V, B> {
    of: Arc<Parts<'a, S, V, B>>,
}

#[derive(Debug)]
struct Parts<'a, S, V, B> {
    settings: &'a Settings,
    destination: &'a Destination,
    staging: &'a S,
    state: &'a V,
    before: B,
    /// The spooled objects that were listed, with what of them is not to be read.
    blanks: RwLock<BTreeMap<String, Arc<Vec<Range<u64>>>>>,
}

impl<S, V, B> Clone for SpooledStaging<'_, S, V, B> {
    fn clone(&self) -> Self {
        SpooledStaging { of: Arc::clone(&self.of) }
    }
}

impl<'a, S, V, B> SpooledStaging<'a, S, V, B> {
    /// The store for a destination; `before` is asked each time before a day's spool is looked at.
    pub fn new(settings: &'a Settings, destination: &'a Destination, staging: &'a S, state: &'a V, before: B) -> Self {
        let parts = Parts { settings, destination, staging, state, before, blanks: RwLock::default() };
        SpooledStaging { of: Arc::new(parts) }
    }

    fn blanks_of(&self, key: &str) -> Option<Arc<Vec<Range<u64>>>> {
        self.of.blanks.read().unwrap_or_else(PoisonError::into_inner).get(key).map(Arc::clone)
    }
}

impl<S, V, B> List for SpooledStaging<'_, S, V, B>
where
    S: List + Sync + Send,
    V: Sync + Send,
    B: Sync + Send,
{
    /// The staging bucket's; nothing where the prefix is that of every day: then objects are known by notification alone.
    async fn list_page(&self, prefix: &str, after: Option<&str>) -> Result<(Vec<ObjectInfo>, bool)> {
        if self.of.settings.staging.names_day() {
            return self.of.staging.list_page(prefix, after).await;
        }
        Ok((Vec::new(), false))
    }
}

impl<S, V, B> Staged for SpooledStaging<'_, S, V, B>
where
    S: List + Read + Sync + Send,
    V: List + Read + Write + Sync + Send,
    B: Before,
{
    async fn elsewhere(&self, day: Day, prefix: &str) -> Result<Vec<ObjectInfo>> {
        let Parts { settings, state, before, .. } = &*self.of;
        let mut objects = self.replayed(day).await?;
        let Some(queue) = &settings.staging.queue else { return Ok(objects) };
        before.prepare().await?;
        let places = &Places::new(&settings.state, &queue.url);
        let listed = state.list_all(&places.day(day)).await?;
        let by_key: BTreeMap<&str, &ObjectInfo> = listed.iter().map(|object| (object.key.as_str(), object)).collect();
        let indexes: Vec<String> =
            by_key.keys().filter(|key| key.strip_suffix(".json").is_some()).map(|key| (*key).to_owned()).collect();
        let batches = bounded(indexes, LANES, |key| async move {
            let batch = Batch::read(*state, &key).await?;
            Ok((key, batch))
        })
        .await?;
        objects.extend(self.records(&by_key, &batches)?);
        if !settings.staging.names_day() {
            objects.extend(self.notified(places, day, prefix, batches).await?);
        }
        Ok(objects)
    }
}

impl<S, V, B> SpooledStaging<'_, S, V, B>
where
    S: List + Read + Sync + Send,
    V: List + Read + Write + Sync + Send,
    B: Before,
{
    /// Records that were staged once more for this destination and day.
    async fn replayed(&self, day: Day) -> Result<Vec<ObjectInfo>> {
        let Parts { settings, destination, state, blanks, .. } = &*self.of;
        let folder = replay::day_folder(&settings.state, destination, day);
        let mut objects = state.list_all(&folder).await?;
        objects.retain(|object| is_staged(&folder, &object.key));
        let whole = objects.iter().map(|object| (object.key.clone(), Arc::default()));
        blanks.write().unwrap_or_else(PoisonError::into_inner).extend(whole);
        Ok(objects)
    }

    /// The batches' records: each message once.
    fn records(&self, by_key: &BTreeMap<&str, &ObjectInfo>, batches: &[(String, Batch)]) -> Result<Vec<ObjectInfo>> {
        let mut known: HashSet<&str> = HashSet::new();
        let mut objects = Vec::new();
        let mut blanks_by_key = BTreeMap::new();
        for (index, batch) in batches {
            let (mut blanks, mut is_wanted) = (Vec::new(), false);
            for message in batch.messages.iter().filter(|message| message.length > 0) {
                if known.insert(&message.id) {
                    is_wanted = true;
                } else {
                    blanks.push(message.offset..message.offset.saturating_add(message.length));
                }
            }
            if !is_wanted {
                continue;
            }
            let key = format!("{}.ndjson", index.trim_end_matches(".json"));
            let Some(object) = by_key.get(key.as_str()) else {
                return Err(Error::vendor(format!("`{key}` of the spool is gone, restore it from the state bucket's versions")));
            };
            objects.push((*object).clone());
            blanks_by_key.insert(key, Arc::new(blanks));
        }
        let Parts { settings, destination, blanks, .. } = &*self.of;
        if destination.organization.is_some() && settings.staging.organization_field.is_none() {
            if !objects.is_empty() {
                let name = &destination.name;
                tracing::warn!(
                    destination = name,
                    objects = objects.len(),
                    "records of messages were left out, since nothing says whose they are: set `staging.organization_field`"
                );
            }
            return Ok(Vec::new());
        }
        blanks.write().unwrap_or_else(PoisonError::into_inner).extend(blanks_by_key);
        Ok(objects)
    }

    /// The notified objects that belong to the day and are there still, each once.
    async fn notified(&self, places: &Places, day: Day, prefix: &str, batches: Vec<(String, Batch)>) -> Result<Vec<ObjectInfo>> {
        let Parts { settings, staging, state, .. } = &*self.of;
        // Whatever the spool says, nothing is read but what the configuration calls staged for this destination.
        let is_ours = |object: &Reference| object.bucket == settings.staging.s3_bucket && is_staged(prefix, &object.key);
        let references = batches.into_iter().flat_map(|(_, batch)| batch.objects).filter(is_ours);
        let mut by_key: BTreeMap<String, Vec<Reference>> = BTreeMap::new();
        for reference in references {
            let same_key = by_key.entry(reference.key.clone()).or_default();
            if !same_key.contains(&reference) {
                same_key.push(reference);
            }
        }
        let found = bounded(by_key, LANES, |(key, references)| async move {
            let Some(object) = find(*staging, &key).await? else { return Ok(None) };
            let etag = object.etag.trim_matches('"');
            for reference in references.iter().filter(|reference| reference.etag.as_deref().is_none_or(|known| known == etag)) {
                if claim(*state, places, reference, day).await? {
                    return Ok(Some(object));
                }
            }
            Ok(None)
        })
        .await?;
        let left_out = found.iter().filter(|object| object.is_none()).count();
        if left_out > 0 {
            tracing::info!(%day, objects = left_out, "notified objects are gone, have other content by now, or are of another day");
        }
        Ok(found.into_iter().flatten().collect())
    }
}

/// The bytes of a staged or a spooled object on their way.
#[derive(Debug)]
pub enum SpooledBody<A, B> {
    /// Of the staging bucket.
    Staged(A),
    /// Of the spool.
    Spooled {
        /// As it is kept.
        body: B,
        /// The offset of its next byte in the object.
        at: u64,
        /// What is read as blanks, in order.
        blanks: Arc<Vec<Range<u64>>>,
    },
}

impl<A: Body, B: Body> Body for SpooledBody<A, B> {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        match self {
            SpooledBody::Staged(body) => body.next().await,
            SpooledBody::Spooled { body, at, blanks } => {
                let piece = match body.next().await? {
                    Ok(piece) => piece,
                    Err(error) => return Some(Err(error)),
                };
                let start = *at;
                *at += piece.len() as u64;
                Some(Ok(blanked(piece, start, blanks)))
            }
        }
    }
}

/// A piece that begins at `start`, with blanks for these ranges. Line ends stay, so that lines keep their numbers.
fn blanked(piece: Bytes, start: u64, blanks: &[Range<u64>]) -> Bytes {
    let end = start + piece.len() as u64;
    let first = blanks.partition_point(|blank| blank.end <= start);
    let mut met = blanks.iter().skip(first).take_while(|blank| blank.start < end).peekable();
    if met.peek().is_none() {
        return piece;
    }
    let mut bytes = piece.to_vec();
    let within = |at: u64| usize::try_from(at.clamp(start, end) - start).unwrap_or(usize::MAX);
    for blank in met {
        let written = bytes.get_mut(within(blank.start)..within(blank.end)).unwrap_or_default();
        written.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    bytes.into()
}

impl<S, V, B> Read for SpooledStaging<'_, S, V, B>
where
    S: Read + Sync + Send,
    V: Read + Sync + Send,
    B: Sync + Send,
{
    type Body = SpooledBody<S::Body, V::Body>;

    async fn read_from(&self, key: &str, offset: u64, etag: &str) -> Result<Self::Body> {
        match self.blanks_of(key) {
            None => Ok(SpooledBody::Staged(self.of.staging.read_from(key, offset, etag).await?)),
            Some(blanks) => {
                let body = self.of.state.read_from(key, offset, etag).await?;
                Ok(SpooledBody::Spooled { body, at: offset, blanks })
            }
        }
    }

    async fn read_small(&self, key: &str) -> Result<Option<(Bytes, String)>> {
        self.of.staging.read_small(key).await
    }
}
