//! The operations on single objects, and deletion of many.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::sync::Arc;

use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput,
    DeleteObjectsOutput, DeletedObject, ETag, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput,
    MetadataDirective, PutObjectInput, PutObjectOutput,
};
use s3s::{S3Request, S3Result, s3_error};

use super::body::{drain, receive, send};
use super::checksum::{Algorithm, Claim, Hasher, fields, show};
use super::disk::Disk;
use super::failure::{self, blocking};
use super::meta::{
    Meta, ReadCondition, WriteCondition, describe, matches, refuse_unsupported, show_encryption, stated_attributes,
};
use super::place::Stored;
use crate::domain::hex::hex;

/// The most keys in one deletion, and the largest object that one request copies (both from the S3 API reference).
const MOST_DELETED: usize = 1000;
const LARGEST_COPY: u64 = 5 * 1024 * 1024 * 1024;

pub(super) async fn put(disk: Arc<Disk>, request: S3Request<PutObjectInput>) -> S3Result<PutObjectOutput> {
    let mut input = request.input;
    let body = input.body.take();
    let headers = request.headers;
    let checked = async {
        refuse_unsupported!(input)?;
        if input.write_offset_bytes.is_some() {
            return Err(failure::not_implemented("x-amz-write-offset-bytes"));
        }
        let condition = WriteCondition::new(input.if_match.clone(), input.if_none_match.as_ref())?;
        let claim = Claim::read(input.content_md5.as_deref(), fields!(input), input.checksum_algorithm.as_ref(), &headers)?;
        let attributes = stated_attributes!(input)?;
        let (disk, bucket) = (Arc::clone(&disk), input.bucket.clone());
        blocking(move || disk.bucket(&bucket)).await?;
        Ok((condition, claim, attributes))
    };
    let (condition, claim, attributes) = match checked.await {
        Ok(checked) => checked,
        Err(error) => {
            drain(body).await;
            return Err(error);
        }
    };

    let (bucket, key) = (input.bucket, input.key);
    let received = receive(&disk, &bucket, body, input.content_length, claim.algorithm()).await?;
    let trailers = request.trailing_headers.and_then(|trailers| trailers.take());
    claim.check(&received.digests, trailers.as_ref())?;
    let meta =
        Meta { key, etag: hex(&received.digests.md5), checksum: Some(received.digests.kept(claim.algorithm())), attributes };
    let stored = blocking(move || disk.commit(&bucket, &received.file, meta, &condition)).await?;

    let mut output = PutObjectOutput { e_tag: Some(ETag::Strong(stored.meta.etag)), ..PutObjectOutput::default() };
    if let Some(checksum) = &stored.meta.checksum {
        show!(output, checksum);
        output.checksum_type = Some(checksum.kind().to_owned().into());
    }
    show_encryption!(output, stored.meta.attributes.encryption);
    Ok(output)
}

pub(super) async fn get(disk: Arc<Disk>, input: GetObjectInput) -> S3Result<GetObjectOutput> {
    refuse_odd_read(input.version_id.as_deref(), input.part_number, input.sse_customer_algorithm.is_some())?;
    blocking(move || {
        disk.bucket(&input.bucket)?;
        let (file, stored) = disk.open_object(&input.bucket, &input.key)?.ok_or_else(failure::no_such_key)?;
        ReadCondition {
            matching: input.if_match.as_ref(),
            none_matching: input.if_none_match.as_ref(),
            modified_since: input.if_modified_since.as_ref(),
            unmodified_since: input.if_unmodified_since.as_ref(),
        }
        .check(&stored.meta.etag, stored.modified)?;
        let wanted = wanted_bytes(input.range.as_ref(), stored.size)?;
        let length = wanted.end - wanted.start;
        let mut output = GetObjectOutput {
            content_range: input.range.map(|_| content_range(&wanted, stored.size)),
            content_length: i64::try_from(length).ok(),
            body: Some(send(file, wanted.start, length)?),
            ..GetObjectOutput::default()
        };
        describe!(output, stored);
        if let Some(checksum) = &stored.meta.checksum
            && input.checksum_mode.is_some()
            && length == stored.size
        {
            show!(output, checksum);
            output.checksum_type = Some(checksum.kind().to_owned().into());
        }
        Ok(output)
    })
    .await
}

pub(super) async fn head(disk: Arc<Disk>, input: HeadObjectInput) -> S3Result<HeadObjectOutput> {
    refuse_odd_read(input.version_id.as_deref(), input.part_number, input.sse_customer_algorithm.is_some())?;
    blocking(move || {
        disk.bucket(&input.bucket)?;
        let stored = disk.head(&input.bucket, &input.key)?.ok_or_else(failure::no_such_key)?;
        ReadCondition {
            matching: input.if_match.as_ref(),
            none_matching: input.if_none_match.as_ref(),
            modified_since: input.if_modified_since.as_ref(),
            unmodified_since: input.if_unmodified_since.as_ref(),
        }
        .check(&stored.meta.etag, stored.modified)?;
        let wanted = wanted_bytes(input.range.as_ref(), stored.size)?;
        let mut output = HeadObjectOutput {
            content_range: input.range.map(|_| content_range(&wanted, stored.size)),
            content_length: i64::try_from(wanted.end - wanted.start).ok(),
            ..HeadObjectOutput::default()
        };
        describe!(output, stored);
        if let Some(checksum) = &stored.meta.checksum
            && input.checksum_mode.is_some()
            && input.range.is_none()
        {
            show!(output, checksum);
            output.checksum_type = Some(checksum.kind().to_owned().into());
        }
        Ok(output)
    })
    .await
}

/// Buckets here have no versions, and parts are not told apart once they are an object.
fn refuse_odd_read(version_id: Option<&str>, part_number: Option<i32>, with_customer_key: bool) -> S3Result<()> {
    if !matches!(version_id, None | Some("null")) {
        return Err(s3_error!(NoSuchVersion, "The specified version does not exist."));
    }
    if part_number.is_some() {
        return Err(failure::not_implemented("partNumber"));
    }
    if with_customer_key {
        return Err(failure::not_implemented("x-amz-server-side-encryption-customer-algorithm"));
    }
    Ok(())
}

/// # Errors
///
/// `InvalidRange` (416), also for any range of an empty object.
fn wanted_bytes(asked: Option<&s3s::dto::Range>, size: u64) -> S3Result<Range<u64>> {
    let refused = || s3_error!(InvalidRange, "The requested range is not satisfiable");
    match asked {
        None => Ok(0..size),
        Some(_) if size == 0 => Err(refused()),
        Some(range) => range.check(size).map_err(|_| refused()),
    }
}

fn content_range(wanted: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", wanted.start, wanted.end - 1)
}

pub(super) async fn delete(disk: Arc<Disk>, input: DeleteObjectInput) -> S3Result<DeleteObjectOutput> {
    refuse_odd_read(input.version_id.as_deref(), None, false)?;
    blocking(move || {
        disk.delete(&input.bucket, &input.key, |stored| {
            let holds = |stored: &Stored| input.if_match.as_ref().is_none_or(|condition| matches(condition, &stored.meta.etag));
            if stored.map_or(input.if_match.is_none(), holds) { Ok(()) } else { Err(failure::precondition_failed()) }
        })
    })
    .await?;
    Ok(DeleteObjectOutput::default())
}

pub(super) async fn delete_many(disk: Arc<Disk>, input: DeleteObjectsInput) -> S3Result<DeleteObjectsOutput> {
    if input.delete.objects.is_empty() || input.delete.objects.len() > MOST_DELETED {
        return Err(s3_error!(
            MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published schema"
        ));
    }
    blocking(move || {
        disk.bucket(&input.bucket)?;
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        for object in input.delete.objects {
            let answer = disk.delete(&input.bucket, &object.key, |stored| {
                let etag = stored.map(|stored| stored.meta.etag.as_str());
                match &object.e_tag {
                    Some(wanted) if Some(wanted.value()) != etag => Err(failure::precondition_failed()),
                    _ => Ok(()),
                }
            });
            match answer {
                Ok(()) => deleted.push(DeletedObject { key: Some(object.key), ..DeletedObject::default() }),
                Err(error) => errors.push(s3s::dto::Error {
                    code: Some(error.code().as_str().to_owned()),
                    message: error.message().map(str::to_owned),
                    key: Some(object.key),
                    version_id: None,
                }),
            }
        }
        let is_quiet = input.delete.quiet == Some(true);
        Ok(DeleteObjectsOutput {
            deleted: (!is_quiet).then_some(deleted),
            errors: Some(errors),
            ..DeleteObjectsOutput::default()
        })
    })
    .await
}

pub(super) async fn copy(disk: Arc<Disk>, input: CopyObjectInput) -> S3Result<CopyObjectOutput> {
    refuse_unsupported!(input)?;
    let CopySource::Bucket { bucket: source_bucket, key: source_key, version_id } = input.copy_source.clone() else {
        return Err(failure::not_implemented("x-amz-copy-source"));
    };
    refuse_odd_read(version_id.as_deref(), None, input.copy_source_sse_customer_algorithm.is_some())?;
    let replaces = match input.metadata_directive.as_ref().map(MetadataDirective::as_str) {
        None | Some("COPY") => false,
        Some("REPLACE") => true,
        Some(_) => return Err(s3_error!(InvalidArgument, "Unknown metadata directive.")),
    };
    if !replaces && *source_bucket == *input.bucket && *source_key == *input.key {
        return Err(s3_error!(
            InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes."
        ));
    }
    let algorithm = input.checksum_algorithm.as_ref().map(Algorithm::parse).transpose()?;
    let stated = stated_attributes!(input)?;
    blocking(move || {
        disk.bucket(&input.bucket)?;
        disk.bucket(&source_bucket)?;
        let (file, source) = disk.open_object(&source_bucket, &source_key)?.ok_or_else(failure::no_such_key)?;
        ReadCondition {
            matching: input.copy_source_if_match.as_ref(),
            none_matching: input.copy_source_if_none_match.as_ref(),
            modified_since: input.copy_source_if_modified_since.as_ref(),
            unmodified_since: input.copy_source_if_unmodified_since.as_ref(),
        }
        .check(&source.meta.etag, source.modified)
        .map_err(|_| failure::precondition_failed())?;
        if source.size > LARGEST_COPY {
            return Err(s3_error!(
                InvalidRequest,
                "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120"
            ));
        }
        let mut attributes = if replaces { stated.clone() } else { source.meta.attributes };
        attributes.encryption = stated.encryption;

        let (temporary, to) = disk.temporary(&input.bucket)?;
        let (etag, checksum) = copy_bytes(file, to, algorithm).map_err(|error| failure::internal("copy an object", &error))?;
        let meta = Meta { key: input.key, etag, checksum: Some(checksum), attributes };
        let stored = disk.commit(&input.bucket, &temporary, meta, &WriteCondition::default())?;
        let mut result = CopyObjectResult {
            e_tag: Some(ETag::Strong(stored.meta.etag)),
            last_modified: Some(stored.modified.into()),
            ..CopyObjectResult::default()
        };
        if let Some(checksum) = &stored.meta.checksum {
            show!(result, checksum);
            result.checksum_type = Some(checksum.kind().to_owned().into());
        }
        let mut output = CopyObjectOutput { copy_object_result: Some(result), ..CopyObjectOutput::default() };
        show_encryption!(output, stored.meta.attributes.encryption);
        Ok(output)
    })
    .await
}

/// Copies to the end; the `ETag` and the checksum of what was copied.
fn copy_bytes(mut from: File, mut to: File, algorithm: Option<Algorithm>) -> io::Result<(String, super::checksum::Checksum)> {
    let mut hasher = Hasher::new(algorithm);
    let mut batch = Vec::new();
    loop {
        batch.clear();
        let read = (&mut from).take(1 << 20).read_to_end(&mut batch)?;
        if read == 0 {
            break;
        }
        hasher.update(&batch);
        to.write_all(&batch)?;
    }
    let digests = hasher.finish();
    Ok((hex(&digests.md5), digests.kept(algorithm)))
}
