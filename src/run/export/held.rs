//! Records that can't be delivered, on their way to the quarantine: counted and packed as their chunks come.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::chunk::{ChunkRows, Oversize};
use crate::domain::error::Result;
use crate::records::reader::SPREAD_HINT;
use crate::records::route::Reason;
use crate::run::quarantine::{Cut, QuarantineEncoder, QuarantineLine};
use crate::store::ports::ObjectInfo;

/// Compressed bytes of one quarantine object.
const PART_BYTES: usize = 8 << 20;

/// The rejects of a shard.
pub struct Held {
    encoder: QuarantineEncoder,
    /// Key and ETag of the shard's objects.
    objects: Vec<(String, String)>,
    max_record_bytes: u64,
    has_organizations: bool,
    /// Quarantined records by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Quarantined records that nobody can tell the organisation of.
    pub unattributed: u64,
    /// What rejects probably are.
    pub hints: BTreeSet<&'static str>,
}

impl Held {
    /// Nothing held yet. With `has_organizations` several share the staged prefix.
    #[must_use]
    pub fn new(objects: &[&ObjectInfo], max_record_bytes: u64, has_organizations: bool) -> Held {
        Held {
            encoder: QuarantineEncoder::new(PART_BYTES),
            objects: objects.iter().map(|object| (object.key.clone(), object.etag.clone())).collect(),
            max_record_bytes,
            has_organizations,
            reasons: BTreeMap::new(),
            unattributed: 0,
            hints: BTreeSet::new(),
        }
    }

    /// How many objects the shard has.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Takes a chunk's rejects, in the order of their places; parts of the quarantine that are full.
    pub fn take(&mut self, chunk: &mut ChunkRows) -> Result<Vec<Bytes>> {
        let mut parts = Vec::new();
        if let Some(Oversize { place, reason, head, whole: (length, sha256) }) = chunk.oversize.take() {
            let cut = Some(Cut { length, sha256 });
            let line = QuarantineLine {
                object: "",
                etag: "",
                line: place.line,
                offset: place.offset,
                reason: reason.name(),
                bytes: &head,
                cut,
            };
            parts.extend(self.hold(chunk.object, line, reason)?);
        }
        let mut rejects = std::mem::take(&mut chunk.rejects);
        rejects.sort_by_key(|reject| chunk.place_of(reject).offset);
        for reject in &rejects {
            let place = chunk.place_of(reject);
            if reject.is_spread {
                self.hints.insert(SPREAD_HINT);
            }
            let line = QuarantineLine {
                object: "",
                etag: "",
                line: place.line,
                offset: place.offset,
                reason: reject.reason.name(),
                bytes: chunk.original_of(reject),
                cut: None,
            };
            parts.extend(self.hold(chunk.object, line, reject.reason)?);
        }
        Ok(parts)
    }

    fn hold(&mut self, object: usize, line: QuarantineLine<'_>, reason: Reason) -> Result<Option<Bytes>> {
        *self.reasons.entry(reason.name()).or_default() += 1;
        self.unattributed += u64::from(self.has_organizations && reason.is_unreadable());
        let (key, etag) = self.objects.get(object).map(|(key, etag)| (key.as_str(), etag.as_str())).unwrap_or_default();
        self.encoder.push(&QuarantineLine { object: key, etag, ..line }.within(self.max_record_bytes))
    }

    /// The last part, if there is one.
    pub fn finish(&mut self) -> Result<Option<Bytes>> {
        self.encoder.finish()
    }
}
