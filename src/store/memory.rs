//! A bucket in memory that answers as S3 does, fails when it is told to, and remembers every call.

mod faults;
pub mod queue;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sha2::{Digest, Sha256};

pub use self::faults::Fault;
use self::faults::Faults;
use super::checksum::Crc64Nvme;
use super::operation::Operation;
use super::ports::{
    Body, Completed, Condition, Delete, List, ListUploads, Multipart, ObjectInfo, Part, Put, Read, Staged, Upload, UploadInfo,
    Write,
};
use crate::domain::error::{Error, Result};
use crate::domain::hex::hex;

/// S3's least size of every part but the last.
const LEAST_PART: u64 = 5 * 1024 * 1024;

/// One call, for tests that ask what was done and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What was asked.
    pub operation: Operation,
    /// The key, or the prefix of a listing.
    pub key: String,
}

/// A bucket in memory. Clones are the same bucket.
///
/// It keeps S3's promises as the ports state them: strong consistency, listing in UTF-8 byte order, uploads invisible until they are
/// completed, a repeated completion answered alike, `NoSuchUpload` after an abort, conditional writes where one of two wins, part
/// sizes and checksums checked, `ETag`s made from content alone. What it leaves out on purpose: permissions, regions, versions, delays.
#[derive(Clone, Debug, Default)]
pub struct MemoryBucket {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, OpenUpload>,
    completed: BTreeMap<String, Upload>,
    uploads_begun: u64,
    calls: Vec<Call>,
    faults: Faults,
    page_size: usize,
    least_part: u64,
    body_piece: usize,
    body_breaks_after: Option<usize>,
}

impl Default for Inner {
    fn default() -> Self {
        Inner {
            objects: BTreeMap::new(),
            uploads: BTreeMap::new(),
            completed: BTreeMap::new(),
            uploads_begun: 0,
            calls: Vec::new(),
            faults: Faults::default(),
            page_size: 1000,
            least_part: LEAST_PART,
            body_piece: 64 * 1024,
            body_breaks_after: None,
        }
    }
}

#[derive(Clone, Debug)]
struct Object {
    body: Bytes,
    etag: String,
    content_type: String,
}

#[derive(Debug)]
struct OpenUpload {
    key: String,
    content_type: String,
    parts: BTreeMap<i32, (Bytes, Part)>,
}

impl MemoryBucket {
    /// An empty bucket.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same bucket with pages of `objects` instead of 1,000, so that paging needs no thousands of objects.
    #[must_use]
    pub fn with_page_size(self, objects: usize) -> Self {
        self.lock().page_size = objects.max(1);
        self
    }

    /// The same bucket without S3's least size of a part, so that a test's uploads can have many.
    #[must_use]
    pub fn with_small_parts(self) -> Self {
        self.lock().least_part = 0;
        self
    }

    /// Puts an object there that no call made.
    pub fn insert(&self, key: &str, body: impl Into<Bytes>) {
        self.lock().store(key, body.into(), "application/octet-stream");
    }

    /// Takes an object away that no call deleted.
    pub fn remove(&self, key: &str) {
        self.lock().objects.remove(key);
    }

    /// Every object by its key.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Bytes> {
        self.lock().objects.iter().map(|(key, object)| (key.clone(), object.body.clone())).collect()
    }

    /// One object's bytes.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<Bytes> {
        self.lock().objects.get(key).map(|object| object.body.clone())
    }

    /// One object's content type.
    #[must_use]
    pub fn content_type(&self, key: &str) -> Option<String> {
        self.lock().objects.get(key).map(|object| object.content_type.clone())
    }

    /// Key and id of every upload that is neither completed nor aborted, in the order of their ids.
    #[must_use]
    pub fn open_uploads(&self) -> Vec<(String, String)> {
        self.lock().uploads.iter().map(|(id, upload)| (upload.key.clone(), id.clone())).collect()
    }

    /// Every call so far, failed ones too, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// How many calls there were.
    #[must_use]
    pub fn call_count(&self) -> usize {
        self.lock().calls.len()
    }

    /// The `nth` call from now (the next one is 1) fails, and the ones after it work: a request that was lost.
    pub fn fail_on(&self, nth: usize, fault: Fault) {
        self.lock().faults.fail_on(nth, fault);
    }

    /// The `nth` call from now and all after it fail, until [`MemoryBucket::heal`]: a process that was killed there.
    pub fn die_on(&self, nth: usize, fault: Fault) {
        self.lock().faults.die_on(nth, fault);
    }

    /// Every body breaks after `bytes` of it were read; `None` mends it.
    pub fn break_bodies_after(&self, bytes: Option<usize>) {
        self.lock().body_breaks_after = bytes;
    }

    /// No more failures.
    pub fn heal(&self) {
        let mut inner = self.lock();
        inner.faults.heal();
        inner.body_breaks_after = None;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the call, and lets `effect` happen unless a failure was told for it.
    fn call<T>(&self, operation: Operation, key: &str, effect: impl FnOnce(&mut Inner) -> Result<T>) -> Result<T> {
        let mut inner = self.lock();
        inner.calls.push(Call { operation, key: key.to_owned() });
        let (number, fault) = inner.faults.call();
        if fault == Some(Fault::Before) {
            return Err(told(number, operation, key, "was lost on its way"));
        }
        let answer = effect(&mut inner);
        if fault == Some(Fault::After) {
            return Err(told(number, operation, key, "was done, and its answer was lost"));
        }
        answer
    }
}

fn told(number: usize, operation: Operation, key: &str, what: &str) -> Error {
    Error::retryable(format!("call {number}, {operation} of `{key}`, {what} as the test asked, call again"))
}

impl Inner {
    fn store(&mut self, key: &str, body: Bytes, content_type: &str) -> String {
        let etag = etag_of(&body);
        self.objects.insert(key.to_owned(), Object { body, etag: etag.clone(), content_type: content_type.to_owned() });
        etag
    }

    fn complete(&mut self, upload: &Upload) -> Result<Completed> {
        if let Some(earlier) = self.completed.get(&upload.id) {
            let same = earlier.key == upload.key && earlier.parts == upload.parts;
            return if same { Ok(Completed::Done) } else { Err(bad_complete(upload, "InvalidPart: other parts than before")) };
        }
        let Some(open) = self.uploads.get(&upload.id).filter(|open| open.key == upload.key) else {
            return Ok(Completed::NoSuchUpload);
        };
        let mut body = Vec::new();
        let mut etags = Sha256::new();
        let mut last_number = 0;
        for (index, part) in upload.parts.iter().enumerate() {
            if part.number <= last_number {
                return Err(bad_complete(upload, "InvalidPartOrder"));
            }
            last_number = part.number;
            let Some((bytes, sent)) = open.parts.get(&part.number).filter(|(_, sent)| sent == part) else {
                return Err(bad_complete(upload, "InvalidPart"));
            };
            let is_last = index + 1 == upload.parts.len();
            if !is_last && (bytes.len() as u64) < self.least_part {
                return Err(bad_complete(upload, "EntityTooSmall"));
            }
            body.extend_from_slice(bytes);
            etags.update(&sent.etag);
        }
        if upload.parts.is_empty() {
            return Err(bad_complete(upload, "MalformedXML: no parts"));
        }
        if body.len() as u64 != upload.size {
            return Err(bad_complete(upload, "InvalidRequest: the parts are not of the size that was said"));
        }
        if upload.checksum.as_ref().is_some_and(|checksum| *checksum != Crc64Nvme::of(&body).base64()) {
            return Err(bad_complete(upload, "BadDigest"));
        }
        let etag = format!("\"{}-{}\"", hex16(&etags.finalize()), upload.parts.len());
        let object = Object { body: body.into(), etag, content_type: open.content_type.clone() };
        self.objects.insert(upload.key.clone(), object);
        self.uploads.remove(&upload.id);
        self.completed.insert(upload.id.clone(), upload.clone());
        Ok(Completed::Done)
    }
}

fn bad_complete(upload: &Upload, what: &str) -> Error {
    Error::bug(format!("could not complete the upload of `{}` ({what}), please report it", upload.key))
}

fn hex16(digest: &[u8]) -> String {
    hex(digest.get(..16).unwrap_or(digest))
}

/// From content alone, as S3's: the same bytes again have the same ETag.
fn etag_of(body: &[u8]) -> String {
    format!("\"{}\"", hex16(&Sha256::digest(body)))
}

impl List for MemoryBucket {
    async fn list_page(&self, prefix: &str, after: Option<&str>) -> Result<(Vec<ObjectInfo>, bool)> {
        self.call(Operation::ListObjectsV2, prefix, |inner| {
            let mut found = inner
                .objects
                .range(prefix.to_owned()..)
                .take_while(|(key, _)| key.starts_with(prefix))
                .filter(|(key, _)| after.is_none_or(|after| key.as_str() > after))
                .map(|(key, object)| ObjectInfo { key: key.clone(), size: object.body.len() as u64, etag: object.etag.clone() });
            let page: Vec<ObjectInfo> = found.by_ref().take(inner.page_size).collect();
            let more = found.next().is_some();
            Ok((page, more))
        })
    }
}

/// The bytes of an object of a [`MemoryBucket`] on their way.
#[derive(Debug)]
pub struct MemoryBody {
    rest: Bytes,
    piece: usize,
    breaks_after: Option<usize>,
    key: String,
}

impl Body for MemoryBody {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut length = self.piece.min(self.rest.len());
        if let Some(left) = self.breaks_after.as_mut() {
            if *left == 0 {
                return Some(Err(Error::retryable(format!("the body of `{}` broke as the test asked, read on", self.key))));
            }
            length = length.min(*left);
            *left -= length;
        }
        Some(Ok(self.rest.split_to(length)))
    }
}

impl Read for MemoryBucket {
    type Body = MemoryBody;

    async fn read_from(&self, key: &str, offset: u64, etag: &str) -> Result<MemoryBody> {
        self.call(Operation::GetObject, key, |inner| {
            let Some(object) = inner.objects.get(key) else {
                return Err(Error::retryable(format!("`{key}` vanished while it was read, call again")));
            };
            if object.etag != etag {
                return Err(Error::retryable(format!("`{key}` changed while it was read, call again")));
            }
            let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(object.body.len());
            Ok(MemoryBody {
                rest: object.body.slice(offset..),
                piece: inner.body_piece,
                breaks_after: inner.body_breaks_after,
                key: key.to_owned(),
            })
        })
    }

    async fn read_small(&self, key: &str) -> Result<Option<(Bytes, String)>> {
        self.call(Operation::GetObject, key, |inner| {
            Ok(inner.objects.get(key).map(|object| (object.body.clone(), object.etag.clone())))
        })
    }
}

impl Staged for MemoryBucket {}

impl Write for MemoryBucket {
    async fn put(&self, key: &str, body: Bytes, content_type: &str, condition: &Condition) -> Result<Put> {
        self.call(Operation::PutObject, key, |inner| {
            let holds = match condition {
                Condition::None => true,
                Condition::Absent => !inner.objects.contains_key(key),
                Condition::Unchanged(etag) => inner.objects.get(key).is_some_and(|object| object.etag == *etag),
            };
            Ok(if holds { Put::Done(inner.store(key, body, content_type)) } else { Put::Lost })
        })
    }
}

impl Multipart for MemoryBucket {
    async fn create(&self, key: &str, content_type: &str) -> Result<String> {
        self.call(Operation::CreateMultipartUpload, key, |inner| {
            inner.uploads_begun += 1;
            let id = format!("upload-{:08}", inner.uploads_begun);
            let upload = OpenUpload { key: key.to_owned(), content_type: content_type.to_owned(), parts: BTreeMap::new() };
            inner.uploads.insert(id.clone(), upload);
            Ok(id)
        })
    }

    async fn part(&self, key: &str, id: &str, number: i32, body: Bytes) -> Result<Part> {
        self.call(Operation::UploadPart, key, |inner| {
            if !(1..=10_000).contains(&number) {
                return Err(Error::bug(format!("part {number} of `{key}` is not one of 1 to 10,000, please report it")));
            }
            let Some(open) = inner.uploads.get_mut(id).filter(|open| open.key == key) else {
                return Err(Error::retryable(format!("the upload of `{key}` is not open any more, call again to begin it anew")));
            };
            let part = Part { number, etag: etag_of(&body), checksum: Some(Crc64Nvme::of(&body).base64()) };
            open.parts.insert(number, (body, part.clone()));
            Ok(part)
        })
    }

    async fn complete(&self, upload: &Upload) -> Result<Completed> {
        self.call(Operation::CompleteMultipartUpload, &upload.key, |inner| inner.complete(upload))
    }

    async fn abort(&self, key: &str, id: &str) -> Result<()> {
        self.call(Operation::AbortMultipartUpload, key, |inner| {
            if inner.uploads.get(id).is_some_and(|open| open.key == key) {
                inner.uploads.remove(id);
            }
            Ok(())
        })
    }
}

impl ListUploads for MemoryBucket {
    async fn list_uploads_page(&self, prefix: &str, after: Option<&UploadInfo>) -> Result<(Vec<UploadInfo>, Option<UploadInfo>)> {
        self.call(Operation::ListMultipartUploads, prefix, |inner| {
            let open = inner.uploads.iter().filter(|(_, upload)| upload.key.starts_with(prefix));
            let mut found: Vec<UploadInfo> =
                open.map(|(id, upload)| UploadInfo { key: upload.key.clone(), id: id.clone() }).collect();
            found.sort();
            found.retain(|upload| after.is_none_or(|after| upload > after));
            let has_more = found.len() > inner.page_size;
            found.truncate(inner.page_size);
            let next = found.last().filter(|_| has_more).cloned();
            Ok((found, next))
        })
    }
}

impl Delete for MemoryBucket {
    async fn delete(&self, key: &str) -> Result<()> {
        self.call(Operation::DeleteObject, key, |inner| {
            inner.objects.remove(key);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Operation::{CompleteMultipartUpload, CreateMultipartUpload, UploadPart};
    use super::*;
    use crate::domain::error::Kind;

    async fn put(bucket: &MemoryBucket, key: &str) -> Result<Put> {
        bucket.put(key, Bytes::from("body"), "application/json", &Condition::None).await
    }

    fn keys(bucket: &MemoryBucket) -> Vec<String> {
        bucket.objects().into_keys().collect()
    }

    #[tokio::test]
    async fn a_told_failure_strikes_once_before_or_after_the_effect() {
        let bucket = MemoryBucket::new();
        bucket.fail_on(2, Fault::Before);
        bucket.fail_on(4, Fault::After);
        for (key, fails) in [("1", false), ("2", true), ("3", false), ("4", true), ("5", false)] {
            let answer = put(&bucket, key).await;
            assert_eq!(answer.is_err(), fails, "{key}");
            assert!(answer.err().is_none_or(|error| error.kind() == Kind::Retryable));
        }
        assert_eq!(keys(&bucket), ["1", "3", "4", "5"]);
        let called: Vec<String> = bucket.calls().into_iter().map(|call| call.key).collect();
        assert_eq!(called, ["1", "2", "3", "4", "5"], "failed calls count");
        bucket.fail_on(1, Fault::Before);
        assert!(put(&bucket, "6").await.is_err(), "counted from now");
    }

    #[tokio::test]
    async fn a_dead_store_answers_nothing_until_it_is_healed() {
        for (fault, landed) in [(Fault::Before, vec!["1"]), (Fault::After, vec!["1", "2"])] {
            let bucket = MemoryBucket::new();
            bucket.die_on(2, fault);
            assert!(put(&bucket, "1").await.is_ok());
            for key in ["2", "3", "4"] {
                assert!(put(&bucket, key).await.is_err(), "{key}");
            }
            assert!(bucket.list_all("").await.is_err());
            assert_eq!(keys(&bucket), landed);
            bucket.heal();
            assert!(put(&bucket, "5").await.is_ok());
            assert_eq!(bucket.call_count(), 6);
        }
    }

    #[tokio::test]
    async fn what_is_asked_of_it_can_be_looked_up() {
        let bucket = MemoryBucket::new().with_small_parts().with_page_size(2);
        let id = bucket.create("a", "application/gzip").await.unwrap();
        let open = bucket.create("b", "application/gzip").await.unwrap();
        let mut upload = Upload { key: "a".to_owned(), id: id.clone(), parts: Vec::new(), size: 2, checksum: None };
        for number in 1..=2 {
            upload.parts.push(bucket.part("a", &id, number, Bytes::from("x")).await.unwrap());
        }
        bucket.complete(&upload).await.unwrap();
        assert_eq!(bucket.object("a").as_deref(), Some(&b"xx"[..]));
        assert_eq!(bucket.content_type("a").as_deref(), Some("application/gzip"));
        assert_eq!(bucket.open_uploads(), [("b".to_owned(), open)]);
        for key in ["c", "d", "e"] {
            bucket.insert(key, "y");
        }
        bucket.remove("c");
        let (page, more) = bucket.list_page("", None).await.unwrap();
        assert_eq!((page.len(), more), (2, true));
        assert_eq!(bucket.list_all("").await.unwrap().len(), 3);
        let operations: Vec<Operation> = bucket.calls().into_iter().map(|call| call.operation).take(5).collect();
        let expected = [CreateMultipartUpload, CreateMultipartUpload, UploadPart, UploadPart, CompleteMultipartUpload];
        assert_eq!(operations, expected);
    }
}
