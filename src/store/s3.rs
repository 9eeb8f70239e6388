//! S3 behind the ports: the only place that builds an SDK request or reads an SDK error.

mod client;
mod errors;
mod options;
mod refusal;

#[cfg(test)]
mod refusals;
#[cfg(test)]
pub(crate) mod replay;
#[cfg(test)]
mod requests;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::config::{IdentityCache, Region};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, ChecksumType, CompletedMultipartUpload, CompletedPart, EncodingType};
use bytes::Bytes;

pub use self::client::{Address, Clients, Retries};
pub(in crate::store) use self::errors::Answer;
pub use self::options::RequestOptions;
use self::options::{addressed, making_an_object};
pub(in crate::store) use self::refusal::Cause;
use self::refusal::{Refusal, Target};
pub use self::refusal::{Refused, Why};
pub(crate) use self::refusal::{chain, plain};
use super::checksum::Crc64Nvme;
use super::operation::Operation;
use super::ports::{
    Body, Completed, Condition, Delete, List, ListUploads, Multipart, ObjectInfo, Part, Put, Read, Staged, Upload, UploadInfo,
    Write,
};
use crate::domain::error::{Error, Result};

/// Whose bucket it is, and so whose side a refusal is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A destination.
    Customer,
    /// Staging or state: ours.
    Vendor,
}

/// How often the same request is sent again where the SDK would not.
const MOST_RESENDS: u32 = 3;

/// One bucket of S3, or of a store that speaks its API. Clones share the connection and what was found out about the region.
#[derive(Clone)]
pub struct S3Bucket {
    shared: Arc<Shared>,
}

impl fmt::Debug for S3Bucket {
    /// What it is, without the client: the SDK shows the key id of the credentials that it keeps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { name, options, side, .. } = &*self.shared;
        f.debug_struct("S3Bucket").field("name", name).field("side", side).field("options", options).finish_non_exhaustive()
    }
}

struct Shared {
    name: String,
    options: RequestOptions,
    side: Side,
    client: RwLock<Signed>,
    follows_region: bool,
    renews_credentials: bool,
}

/// A client, and how many times its credentials were asked for anew.
#[derive(Clone)]
struct Signed {
    client: Client,
    renewals: u64,
}

impl S3Bucket {
    /// The bucket `name` through `client`, whose region is taken as right.
    #[must_use]
    pub fn new(client: Client, name: &str, options: RequestOptions, side: Side) -> Self {
        let client = RwLock::new(Signed { client, renewals: 0 });
        let shared = Shared { name: name.to_owned(), options, side, client, follows_region: false, renews_credentials: false };
        S3Bucket { shared: Arc::new(shared) }
    }

    /// The same, but when S3 answers that the bucket is in another region, requests go there from then on. No request is made to
    /// find it out: the first answer tells (301 `PermanentRedirect`, 400 `AuthorizationHeaderMalformed`).
    #[must_use]
    pub fn following_region(self, follows: bool) -> Self {
        S3Bucket { shared: Arc::new(Shared { follows_region: follows, ..self.copied() }) }
    }

    /// The same, but credentials that are refused are asked for once more, and the request is sent again with the new ones: a key
    /// pair may have been rotated since it was read, a session may have been ended.
    #[must_use]
    pub fn renewing_credentials(self, renews: bool) -> Self {
        S3Bucket { shared: Arc::new(Shared { renews_credentials: renews, ..self.copied() }) }
    }

    /// The same bucket under other options.
    #[must_use]
    pub fn with_options(&self, options: RequestOptions) -> Self {
        S3Bucket { shared: Arc::new(Shared { options, ..self.copied() }) }
    }

    fn copied(&self) -> Shared {
        let Shared { name, options, side, follows_region, renews_credentials, .. } = &*self.shared;
        Shared {
            name: name.clone(),
            options: options.clone(),
            side: *side,
            client: RwLock::new(self.signed()),
            follows_region: *follows_region,
            renews_credentials: *renews_credentials,
        }
    }

    /// The bucket's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whose bucket it is.
    #[must_use]
    pub fn side(&self) -> Side {
        self.shared.side
    }

    /// What its requests carry.
    #[must_use]
    pub fn options(&self) -> &RequestOptions {
        &self.shared.options
    }

    /// The region that requests go to.
    #[must_use]
    pub fn region(&self) -> Option<String> {
        self.client().config().region().map(ToString::to_string)
    }

    fn client(&self) -> Client {
        self.signed().client
    }

    fn signed(&self) -> Signed {
        self.shared.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends requests to `region` from now on.
    fn move_to(&self, region: &str) {
        let mut signed = self.shared.client.write().unwrap_or_else(PoisonError::into_inner);
        if signed.client.config().region().is_some_and(|current| current.as_ref() == region) {
            return;
        }
        tracing::info!(bucket = self.shared.name, region, "the bucket is in another region, requests go there now");
        let config = signed.client.config().to_builder().region(Region::new(region.to_owned())).build();
        signed.client = Client::from_conf(config);
    }

    /// Forgets the credentials that `refused` signed with, unless another request has done so since: the next one asks for them.
    fn renew(&self, refused: &Signed) {
        let mut signed = self.shared.client.write().unwrap_or_else(PoisonError::into_inner);
        if signed.renewals != refused.renewals {
            return;
        }
        tracing::info!(bucket = self.shared.name, "the credentials were refused, they are read once more");
        let config = signed.client.config().to_builder().identity_cache(IdentityCache::lazy().build()).build();
        *signed = Signed { client: Client::from_conf(config), renewals: signed.renewals + 1 };
    }

    /// Sends a request, in the right region, with credentials that hold, and again where the same bytes may yet arrive whole.
    async fn send<T, E, F>(&self, operation: Operation, request: impl Fn(Client) -> F + Send + Sync) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let mut has_moved = false;
        let mut has_renewed = false;
        let mut resends = 0;
        loop {
            let signed = self.signed();
            let refusal = match request(signed.client.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => Refusal::read(operation, &error),
            };
            match refusal.right_region() {
                Some(region) if self.shared.follows_region && !has_moved => {
                    self.move_to(region);
                    has_moved = true;
                }
                _ if refusal.is_about_credentials() && self.shared.renews_credentials && !has_renewed => {
                    self.renew(&signed);
                    has_renewed = true;
                }
                _ if refusal.is_worth_sending_again() && resends < MOST_RESENDS => resends += 1,
                _ => return Err(refusal),
            }
        }
    }

    fn error(&self, refusal: Refusal, key: &str) -> Error {
        let Shared { name, options, side, .. } = &*self.shared;
        refusal.into_error(&Target { bucket: name, key, side: *side, options })
    }

    /// What can't be: an answer without what S3's API promises.
    fn odd_answer(&self, operation: Operation, key: &str, what: &str) -> Error {
        let bucket = &self.shared.name;
        Error::retryable(format!(
            "the answer to {operation} of `{key}` in `{bucket}` {what}, call again and check the endpoint if it lasts"
        ))
    }
}

impl List for S3Bucket {
    async fn list_page(&self, prefix: &str, after: Option<&str>) -> Result<(Vec<ObjectInfo>, bool)> {
        let operation = Operation::ListObjectsV2;
        let page = self.list(prefix, after, 1000).await.map_err(|refusal| self.error(refusal, prefix))?;
        // Keys may hold what XML can't: S3 says in the answer whether it has encoded them.
        let is_encoded = page.encoding_type() == Some(&EncodingType::Url);
        let mut objects = Vec::with_capacity(page.contents().len());
        for object in page.contents() {
            let (Some(key), Some(etag)) = (object.key(), object.e_tag()) else {
                return Err(self.odd_answer(operation, prefix, "lists an object without key or ETag"));
            };
            let key = if is_encoded { url_decoded(key) } else { Some(key.to_owned()) };
            let size = object.size().and_then(|size| u64::try_from(size).ok());
            let (Some(key), Some(size)) = (key, size) else {
                return Err(self.odd_answer(operation, prefix, "lists an object with an unreadable key or no size"));
            };
            objects.push(ObjectInfo { key, size, etag: etag.to_owned() });
        }
        Ok((objects, page.is_truncated().unwrap_or(false)))
    }
}

impl S3Bucket {
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        most: i32,
    ) -> Result<aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output, Refusal> {
        let bucket = &*self.shared;
        self.send(Operation::ListObjectsV2, |client| {
            addressed!(client.list_objects_v2(), bucket)
                .prefix(prefix)
                .set_start_after(after.map(str::to_owned))
                .encoding_type(EncodingType::Url)
                .max_keys(most)
                .send()
        })
        .await
    }

    /// Whether there is an object `key`: the first of those whose keys start with it, if any, is it.
    async fn is_listed(&self, key: &str) -> Result<bool> {
        let page = self.list(key, None, 1).await.map_err(|refusal| self.error(refusal, key))?;
        let is_encoded = page.encoding_type() == Some(&EncodingType::Url);
        let first = page.contents().first().and_then(|object| object.key());
        Ok(first.is_some_and(|first| if is_encoded { url_decoded(first).as_deref() == Some(key) } else { first == key }))
    }

    async fn get_small(&self, key: &str) -> Result<Result<(Bytes, String), Refusal>> {
        let bucket = &*self.shared;
        let answer = self.send(Operation::GetObject, |client| addressed!(client.get_object(), bucket).key(key).send()).await;
        let object = match answer {
            Ok(object) => object,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(etag) = object.e_tag().map(str::to_owned) else {
            return Err(self.odd_answer(Operation::GetObject, key, "has no ETag"));
        };
        let promised = object.content_length();
        let body = object.body.collect().await.map_err(|error| {
            let cause = error.to_string();
            Error::retryable(format!("the connection broke while `{key}` was read, call again")).with_source(cause)
        })?;
        let body = body.into_bytes();
        if promised.is_some_and(|promised| u64::try_from(promised) != Ok(body.len() as u64)) {
            return Err(self.odd_answer(Operation::GetObject, key, "is shorter than it says"));
        }
        Ok(Ok((body, etag)))
    }
}

/// The bytes of an S3 object on their way.
#[derive(Debug)]
pub struct S3Body {
    stream: ByteStream,
    key: String,
}

impl Body for S3Body {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        let piece = self.stream.next().await?;
        Some(piece.map_err(|error| {
            Error::retryable(format!("the connection broke while `{}` was read, call again", self.key)).with_source(error)
        }))
    }
}

impl Read for S3Bucket {
    type Body = S3Body;

    async fn read_from(&self, key: &str, offset: u64, etag: &str) -> Result<S3Body> {
        let bucket = &*self.shared;
        // A range from 0 would be refused for an empty object.
        let range = (offset > 0).then(|| format!("bytes={offset}-"));
        let answer = self
            .send(Operation::GetObject, |client| {
                addressed!(client.get_object(), bucket).key(key).if_match(etag).set_range(range.clone()).send()
            })
            .await;
        let object = match answer {
            Ok(object) => object,
            Err(refusal) if refusal.status() == Some(412) => {
                return Err(Error::retryable(format!(
                    "`{key}` in `{}` changed while it was read, call again when staging is done",
                    bucket.name
                )));
            }
            Err(refusal) => return Err(self.error(refusal, key)),
        };
        let starts_right = object.content_range().map_or(offset == 0, |range| range.starts_with(&format!("bytes {offset}-")));
        if !starts_right {
            return Err(self.odd_answer(Operation::GetObject, key, "is not the range that was asked for"));
        }
        Ok(S3Body { stream: object.body, key: key.to_owned() })
    }

    /// One GET when the object is there, the usual case. When S3 says 404 or 403, one listing decides: without ListBucket a missing
    /// key is answered by 403, and then the listing is refused too and says so. A listed object that can't be read is a refusal.
    async fn read_small(&self, key: &str) -> Result<Option<(Bytes, String)>> {
        let refusal = match self.get_small(key).await? {
            Ok(found) => return Ok(Some(found)),
            Err(refusal) => refusal,
        };
        let may_be_absent = match refusal.status() {
            Some(403) => refusal.code().is_none_or(|code| code == "AccessDenied"),
            Some(404) => refusal.code() != Some("NoSuchBucket"),
            _ => false,
        };
        if !may_be_absent {
            return Err(self.error(refusal, key));
        }
        if !self.is_listed(key).await? {
            return Ok(None);
        }
        // It may have been written between the two requests.
        self.get_small(key).await?.map(Some).map_err(|refusal| self.error(refusal, key))
    }
}

impl Staged for S3Bucket {}

impl Write for S3Bucket {
    async fn put(&self, key: &str, body: Bytes, content_type: &str, condition: &Condition) -> Result<Put> {
        let bucket = &*self.shared;
        let checksum = bucket.options.checksums().then(|| Crc64Nvme::of(&body).base64());
        let (if_match, if_none_match) = match condition {
            Condition::None => (None, None),
            Condition::Absent => (None, Some("*".to_owned())),
            Condition::Unchanged(etag) => (Some(etag.clone()), None),
        };
        let answer = self
            .send(Operation::PutObject, |client| {
                let patience = client::patient_for(&client, body.len());
                making_an_object!(client.put_object(), bucket)
                    .key(key)
                    .content_type(content_type)
                    .set_checksum_crc64_nvme(checksum.clone())
                    .set_if_match(if_match.clone())
                    .set_if_none_match(if_none_match.clone())
                    .body(ByteStream::from(body.clone()))
                    .customize()
                    .config_override(patience)
                    .send()
            })
            .await;
        match answer {
            Ok(put) => match put.e_tag() {
                Some(etag) => Ok(Put::Done(etag.to_owned())),
                None => Err(self.odd_answer(Operation::PutObject, key, "has no ETag")),
            },
            Err(refusal) if *condition != Condition::None && lost_to_another(&refusal) => Ok(Put::Lost),
            Err(refusal) => Err(self.error(refusal, key)),
        }
    }
}

/// 412 and 409, and 404 for an object that was to be unchanged and is gone.
fn lost_to_another(refusal: &Refusal) -> bool {
    match refusal.status() {
        Some(412) => true,
        Some(409) => refusal.code() == Some("ConditionalRequestConflict"),
        Some(404) => refusal.code() == Some("NoSuchKey"),
        _ => false,
    }
}

impl Multipart for S3Bucket {
    async fn create(&self, key: &str, content_type: &str) -> Result<String> {
        let bucket = &*self.shared;
        let checksums = bucket.options.checksums();
        let answer = self
            .send(Operation::CreateMultipartUpload, |client| {
                making_an_object!(client.create_multipart_upload(), bucket)
                    .key(key)
                    .content_type(content_type)
                    .set_checksum_algorithm(checksums.then_some(ChecksumAlgorithm::Crc64Nvme))
                    .set_checksum_type(checksums.then_some(ChecksumType::FullObject))
                    .send()
            })
            .await
            .map_err(|refusal| self.error(refusal, key))?;
        match answer.upload_id() {
            Some(id) => Ok(id.to_owned()),
            None => Err(self.odd_answer(Operation::CreateMultipartUpload, key, "has no upload id")),
        }
    }

    async fn part(&self, key: &str, id: &str, number: i32, body: Bytes) -> Result<Part> {
        let bucket = &*self.shared;
        let checksum = bucket.options.checksums().then(|| Crc64Nvme::of(&body).base64());
        let answer = self
            .send(Operation::UploadPart, |client| {
                let patience = client::patient_for(&client, body.len());
                addressed!(client.upload_part(), bucket)
                    .key(key)
                    .upload_id(id)
                    .part_number(number)
                    .set_checksum_crc64_nvme(checksum.clone())
                    .body(ByteStream::from(body.clone()))
                    .customize()
                    .config_override(patience)
                    .send()
            })
            .await
            .map_err(|refusal| self.error(refusal, key))?;
        let Some(etag) = answer.e_tag().map(str::to_owned) else {
            return Err(self.odd_answer(Operation::UploadPart, key, "has no ETag"));
        };
        if answer.checksum_crc64_nvme().is_some_and(|kept| Some(kept) != checksum.as_deref() && checksum.is_some()) {
            return Err(self.odd_answer(Operation::UploadPart, key, "names another checksum than was sent"));
        }
        Ok(Part { number, etag, checksum })
    }

    async fn complete(&self, upload: &Upload) -> Result<Completed> {
        let bucket = &*self.shared;
        let checksum = upload.checksum.clone().filter(|_| bucket.options.checksums());
        let parts: Vec<CompletedPart> = upload
            .parts
            .iter()
            .map(|part| {
                let checksum = part.checksum.clone().filter(|_| bucket.options.checksums());
                CompletedPart::builder().part_number(part.number).e_tag(&part.etag).set_checksum_crc64_nvme(checksum).build()
            })
            .collect();
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let size = i64::try_from(upload.size).ok().filter(|_| checksum.is_some());
        let answer = self
            .send(Operation::CompleteMultipartUpload, |client| {
                let patience = client::patient_for_completion(&client);
                addressed!(client.complete_multipart_upload(), bucket)
                    .key(&upload.key)
                    .upload_id(&upload.id)
                    .multipart_upload(parts.clone())
                    .set_checksum_type(checksum.is_some().then_some(ChecksumType::FullObject))
                    .set_checksum_crc64_nvme(checksum.clone())
                    .set_mpu_object_size(size)
                    .customize()
                    .config_override(patience)
                    .send()
            })
            .await;
        match answer {
            // S3 sends its 200 before it has begun: only the ETag in the body says that it has ended well.
            Ok(done) if done.e_tag().is_some() => Ok(Completed::Done),
            Ok(_) => Err(self.odd_answer(Operation::CompleteMultipartUpload, &upload.key, "ended before it said how it went")),
            Err(refusal) if refusal.code() == Some("NoSuchUpload") => Ok(Completed::NoSuchUpload),
            Err(refusal) => Err(self.error(refusal, &upload.key)),
        }
    }

    async fn abort(&self, key: &str, id: &str) -> Result<()> {
        let bucket = &*self.shared;
        let answer = self
            .send(Operation::AbortMultipartUpload, |client| {
                addressed!(client.abort_multipart_upload(), bucket).key(key).upload_id(id).send()
            })
            .await;
        match answer {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.code() == Some("NoSuchUpload") => Ok(()),
            Err(refusal) => Err(self.error(refusal, key)),
        }
    }
}

impl ListUploads for S3Bucket {
    async fn list_uploads_page(&self, prefix: &str, after: Option<&UploadInfo>) -> Result<(Vec<UploadInfo>, Option<UploadInfo>)> {
        let operation = Operation::ListMultipartUploads;
        let bucket = &*self.shared;
        let answer = self
            .send(operation, |client| {
                addressed!(client.list_multipart_uploads(), bucket)
                    .prefix(prefix)
                    .set_key_marker(after.map(|after| after.key.clone()))
                    .set_upload_id_marker(after.map(|after| after.id.clone()))
                    .encoding_type(EncodingType::Url)
                    .max_uploads(1000)
                    .send()
            })
            .await;
        let page = answer.map_err(|refusal| self.error(refusal, prefix))?;
        let is_encoded = page.encoding_type() == Some(&EncodingType::Url);
        let upload = |key: Option<&str>, id: Option<&str>| {
            let key = if is_encoded { url_decoded(key?) } else { key.map(str::to_owned) };
            Some(UploadInfo { key: key?, id: id?.to_owned() })
        };
        let unreadable = || self.odd_answer(operation, prefix, "lists an upload without a readable key or an id");
        let uploads = page.uploads().iter().map(|found| upload(found.key(), found.upload_id()).ok_or_else(unreadable));
        let uploads = uploads.collect::<Result<Vec<_>>>()?;
        if !page.is_truncated().unwrap_or(false) {
            return Ok((uploads, None));
        }
        let next = upload(page.next_key_marker(), page.next_upload_id_marker());
        let next = next.ok_or_else(|| self.odd_answer(operation, prefix, "is cut short and does not say where it goes on"))?;
        Ok((uploads, Some(next)))
    }
}

impl Delete for S3Bucket {
    async fn delete(&self, key: &str) -> Result<()> {
        let bucket = &*self.shared;
        let answer =
            self.send(Operation::DeleteObject, |client| addressed!(client.delete_object(), bucket).key(key).send()).await;
        match answer {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.code() == Some("NoSuchKey") => Ok(()),
            Err(refusal) => Err(self.error(refusal, key)),
        }
    }
}

/// The key in a listing with `encoding-type=url`, and in S3's own notifications: `+` is a space, `%XX` a byte of UTF-8.
pub(crate) fn url_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}
