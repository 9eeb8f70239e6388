//! One trait per permission: a use case's signature says which IAM rights it needs.
//!
//! Every store is bound to one bucket with its request options. All methods retry what may succeed on a second try (throttling, 5xx,
//! connection errors: exponential with jitter, for about a minute) before they answer, and never take a 3xx for a success. An error's kind says
//! whose side it is on: that of the bucket's owner for refusals, `Retryable` for what time may mend.

use std::future::Future;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::domain::error::Result;
use crate::domain::run::Day;

/// One object of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectInfo {
    /// The key.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// The ETag as S3 gives it, quotes included.
    pub etag: String,
}

/// `s3:ListBucket`.
pub trait List {
    /// One page (at most 1,000) of the objects whose keys start with `prefix` and come after `after`, in UTF-8 byte order of their
    /// keys, and whether there are more.
    fn list_page(&self, prefix: &str, after: Option<&str>) -> impl Future<Output = Result<(Vec<ObjectInfo>, bool)>> + Send;

    /// All of them.
    fn list_all(&self, prefix: &str) -> impl Future<Output = Result<Vec<ObjectInfo>>> + Send
    where
        Self: Sync,
    {
        async move {
            let mut all: Vec<ObjectInfo> = Vec::new();
            loop {
                let after = all.last().map(|last| last.key.clone());
                let (page, more) = self.list_page(prefix, after.as_deref()).await?;
                let got_some = !page.is_empty();
                all.extend(page);
                if !more || !got_some {
                    return Ok(all);
                }
            }
        }
    }
}

/// A multipart upload that is neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UploadInfo {
    /// The key that it is of.
    pub key: String,
    /// Its id.
    pub id: String,
}

/// `s3:ListBucketMultipartUploads`.
pub trait ListUploads {
    /// One page (at most 1,000) of the open uploads whose keys start with `prefix`, in the order of their keys, after the place at which
    /// the page before ended; and where this one ends, if there are more.
    fn list_uploads_page(
        &self,
        prefix: &str,
        after: Option<&UploadInfo>,
    ) -> impl Future<Output = Result<(Vec<UploadInfo>, Option<UploadInfo>)>> + Send;

    /// All of them.
    fn list_uploads(&self, prefix: &str) -> impl Future<Output = Result<Vec<UploadInfo>>> + Send
    where
        Self: Sync,
    {
        async move {
            let mut all = Vec::new();
            let mut after: Option<UploadInfo> = None;
            loop {
                let (page, next) = self.list_uploads_page(prefix, after.as_ref()).await?;
                all.extend(page);
                if next.is_none() || next == after {
                    return Ok(all);
                }
                after = next;
            }
        }
    }
}

/// The bytes of an object on their way.
pub trait Body: Send {
    /// The next piece; `None` at the end. A connection that breaks is an error of kind `Retryable` here; [`Read`]'s callers go on with a ranged read.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes>>> + Send;
}

/// `s3:GetObject`.
pub trait Read {
    /// The body of a read.
    type Body: Body;

    /// The object's bytes from `offset` on, if its ETag still is `etag` (else an error of kind `Retryable` whose message says that the
    /// object changed while it was read).
    fn read_from(&self, key: &str, offset: u64, etag: &str) -> impl Future<Output = Result<Self::Body>> + Send;

    /// A whole small object and its ETag; `None` when there is none. (Without ListBucket S3 answers 403 for a missing key: the
    /// implementation asks by listing first where absence matters.)
    fn read_small(&self, key: &str) -> impl Future<Output = Result<Option<(Bytes, String)>>> + Send;
}

/// Where days are staged: a bucket, and what a queue brought beside it.
pub trait Staged: List + Read {
    /// The objects that are staged for `day` and not found by listing its `prefix`, in any order; this store reads them too. A plain
    /// bucket has none.
    fn elsewhere(&self, _day: Day, _prefix: &str) -> impl Future<Output = Result<Vec<ObjectInfo>>> + Send {
        std::future::ready(Ok(Vec::new()))
    }
}

/// What a conditional write came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// Written; the new ETag.
    Done(String),
    /// Somebody else wrote first (412), or is writing now (409): read again.
    Lost,
}

/// When a document may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    None,
    /// Only where no object is (`If-None-Match: *`).
    Absent,
    /// Only over the object with this ETag (`If-Match`).
    Unchanged(String),
}

/// `s3:PutObject` for small objects written in one request: the state's documents, a manifest.
pub trait Write {
    /// Writes a small object whole.
    fn put(&self, key: &str, body: Bytes, content_type: &str, condition: &Condition) -> impl Future<Output = Result<Put>> + Send;
}

/// A part that S3 has taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its number, from 1.
    pub number: i32,
    /// Its ETag, quotes included.
    pub etag: String,
    /// Its CRC64NVME in base64, where checksums are on.
    pub checksum: Option<String>,
}

/// All that completing a multipart upload needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// The key.
    pub key: String,
    /// The upload id.
    pub id: String,
    /// The parts in order; at least one.
    pub parts: Vec<Part>,
    /// Bytes of the whole object.
    pub size: u64,
    /// The whole object's CRC64NVME in base64, as computed here from what was sent, where checksums are on.
    pub checksum: Option<String>,
}

/// What a completion came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The object is there.
    Done,
    /// S3 knows no such upload: completed or aborted before.
    NoSuchUpload,
}

/// `s3:PutObject` (multipart) and `s3:AbortMultipartUpload`.
pub trait Multipart {
    /// Begins an upload; its id.
    fn create(&self, key: &str, content_type: &str) -> impl Future<Output = Result<String>> + Send;

    /// Sends one part (numbers from 1 to 10,000; every part but the last at least 5 MiB).
    fn part(&self, key: &str, id: &str, number: i32, body: Bytes) -> impl Future<Output = Result<Part>> + Send;

    /// Makes the object visible.
    fn complete(&self, upload: &Upload) -> impl Future<Output = Result<Completed>> + Send;

    /// Gives an upload up; an unknown one is fine.
    fn abort(&self, key: &str, id: &str) -> impl Future<Output = Result<()>> + Send;
}

/// `s3:DeleteObject`.
pub trait Delete {
    /// Removes one object; a missing one is fine.
    fn delete(&self, key: &str) -> impl Future<Output = Result<()>> + Send;
}

/// A reference reads as what it refers to does, so that a body may borrow its store.
impl<R: Read + Sync> Read for &R {
    type Body = R::Body;

    fn read_from(&self, key: &str, offset: u64, etag: &str) -> impl Future<Output = Result<Self::Body>> + Send {
        (**self).read_from(key, offset, etag)
    }

    fn read_small(&self, key: &str) -> impl Future<Output = Result<Option<(Bytes, String)>>> + Send {
        (**self).read_small(key)
    }
}
