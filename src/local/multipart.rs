//! The operations on multipart uploads, but for their completion.

use std::sync::Arc;
use std::time::SystemTime;

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumAlgorithm, ChecksumType, CommonPrefix,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, ETag, ListMultipartUploadsInput, ListMultipartUploadsOutput,
    ListPartsInput, ListPartsOutput, MultipartUpload, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Request, S3Result, s3_error};

use super::body::{drain, receive};
use super::checksum::{Algorithm, Claim, fields, show};
use super::disk::Disk;
use super::failure::{self, blocking};
use super::listing::Query;
use super::meta::{refuse_unsupported, show_encryption, stated_attributes};
use super::pages::{Encoding, owner, page_limit};
use super::upload::Upload;

/// The most parts of an upload, and the highest number of one (S3 user guide, "Multipart upload limits").
const MOST_PARTS: i32 = 10_000;

pub(super) async fn create(
    disk: Arc<Disk>,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<CreateMultipartUploadOutput> {
    let input = request.input;
    refuse_unsupported!(input)?;
    let algorithm = input.checksum_algorithm.as_ref().map(Algorithm::parse).transpose()?;
    let kind = input.checksum_type.as_ref().map(ChecksumType::as_str);
    let upload = Upload {
        key: input.key.clone(),
        initiated: SystemTime::now(),
        attributes: stated_attributes!(input)?,
        algorithm,
        full_object: is_full_object(algorithm, kind)?,
    };
    let encryption = upload.attributes.encryption.clone();
    let kind = upload.checksum_kind();
    let bucket = input.bucket.clone();
    let upload_id = blocking(move || {
        disk.bucket(&bucket)?;
        disk.create_upload(&bucket, &upload)
    })
    .await?;
    let mut output = CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(upload_id),
        checksum_type: algorithm.map(|_| kind.to_owned().into()),
        checksum_algorithm: input.checksum_algorithm,
        ..CreateMultipartUploadOutput::default()
    };
    show_encryption!(output, encryption);
    Ok(output)
}

/// Which kind of checksum an upload keeps (S3 user guide, "Checking object integrity", table of algorithms).
fn is_full_object(algorithm: Option<Algorithm>, kind: Option<&str>) -> S3Result<bool> {
    let refused = |kind: &str, name: &str| {
        s3_error!(InvalidRequest, "The {kind} checksum type cannot be used with the {name} checksum algorithm.")
    };
    match (algorithm, kind) {
        (None, Some(_)) => Err(s3_error!(
            InvalidRequest,
            "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header."
        )),
        (Some(Algorithm::Crc64Nvme), Some("COMPOSITE")) => Err(refused("COMPOSITE", Algorithm::Crc64Nvme.name())),
        (Some(algorithm), Some("FULL_OBJECT")) if !algorithm.adds_up() => Err(refused("FULL_OBJECT", algorithm.name())),
        (None, None) | (Some(_), Some("FULL_OBJECT")) => Ok(true),
        (Some(_), Some("COMPOSITE")) => Ok(false),
        (Some(algorithm), None) => Ok(algorithm == Algorithm::Crc64Nvme),
        (Some(_), Some(_)) => Err(s3_error!(InvalidRequest, "Value for x-amz-checksum-type header is invalid.")),
    }
}

pub(super) async fn upload_part(disk: Arc<Disk>, request: S3Request<UploadPartInput>) -> S3Result<UploadPartOutput> {
    let mut input = request.input;
    let body = input.body.take();
    let claim = Claim::read(input.content_md5.as_deref(), fields!(input), input.checksum_algorithm.as_ref(), &request.headers);
    let (bucket, key, upload_id) = (input.bucket, input.key, input.upload_id);
    let number = input.part_number;
    let checked = async {
        let claim = claim?;
        if input.sse_customer_algorithm.is_some() {
            return Err(failure::not_implemented("x-amz-server-side-encryption-customer-algorithm"));
        }
        if !(1..=MOST_PARTS).contains(&number) {
            return Err(s3_error!(InvalidArgument, "Part number must be an integer between 1 and 10000, inclusive"));
        }
        let (disk, bucket, key, upload_id) = (Arc::clone(&disk), bucket.clone(), key.clone(), upload_id.clone());
        let upload = blocking(move || {
            disk.bucket(&bucket)?;
            disk.upload(&bucket, &key, &upload_id)
        })
        .await?;
        check_algorithm(&upload, claim.algorithm())?;
        Ok((claim, upload))
    };
    let (claim, upload) = match checked.await {
        Ok(checked) => checked,
        Err(error) => {
            drain(body).await;
            return Err(error);
        }
    };

    let received = receive(&disk, &bucket, body, input.content_length, upload.algorithm).await?;
    let trailers = request.trailing_headers.and_then(|trailers| trailers.take());
    claim.check(&received.digests, trailers.as_ref())?;
    let part = blocking(move || disk.add_part(&bucket, &key, &upload_id, number, &received)).await?;
    let mut output = UploadPartOutput { e_tag: Some(ETag::Strong(part.etag.clone())), ..UploadPartOutput::default() };
    if let Some(algorithm) = claim.algorithm() {
        show!(output, &part.checksum(algorithm));
    }
    show_encryption!(output, upload.attributes.encryption);
    Ok(output)
}

/// A part's checksum must be of the upload's algorithm, and be there if the object's is made from it.
fn check_algorithm(upload: &Upload, stated: Option<Algorithm>) -> S3Result<()> {
    if upload.algorithm == stated || (stated.is_none() && upload.full_object) {
        return Ok(());
    }
    let name = |algorithm: Option<Algorithm>| algorithm.map_or("null".to_owned(), |found| found.name().to_ascii_lowercase());
    Err(s3_error!(
        InvalidRequest,
        "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
        name(upload.algorithm),
        name(stated)
    ))
}

pub(super) async fn abort(disk: Arc<Disk>, input: AbortMultipartUploadInput) -> S3Result<AbortMultipartUploadOutput> {
    blocking(move || {
        disk.bucket(&input.bucket)?;
        let _held = disk.lock_upload(&input.upload_id);
        disk.upload(&input.bucket, &input.key, &input.upload_id)?;
        disk.drop_upload(&input.bucket, &input.upload_id)
    })
    .await?;
    Ok(AbortMultipartUploadOutput::default())
}

pub(super) async fn list_parts(disk: Arc<Disk>, input: ListPartsInput) -> S3Result<ListPartsOutput> {
    let limit = page_limit(input.max_parts)?;
    let after = input.part_number_marker.unwrap_or_default();
    let (bucket, key, upload_id) = (input.bucket.clone(), input.key.clone(), input.upload_id.clone());
    let (upload, mut parts) = blocking(move || {
        disk.bucket(&bucket)?;
        let upload = disk.upload(&bucket, &key, &upload_id)?;
        Ok((upload, disk.parts(&bucket, &upload_id)?))
    })
    .await?;
    parts.retain(|part| part.number > after);
    let is_truncated = parts.len() > limit;
    parts.truncate(limit);
    let last = parts.last().map(|part| part.number);
    let shown = parts.into_iter().map(|part| {
        let mut shown = s3s::dto::Part {
            part_number: Some(part.number),
            e_tag: Some(ETag::Strong(part.etag.clone())),
            size: i64::try_from(part.size).ok(),
            last_modified: Some(part.modified.into()),
            ..s3s::dto::Part::default()
        };
        if let Some(algorithm) = upload.algorithm {
            show!(shown, &part.checksum(algorithm));
        }
        shown
    });
    Ok(ListPartsOutput {
        parts: Some(shown.collect()),
        is_truncated: Some(is_truncated),
        next_part_number_marker: last.filter(|_| is_truncated),
        part_number_marker: input.part_number_marker,
        max_parts: i32::try_from(limit).ok(),
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        checksum_algorithm: upload.algorithm.map(algorithm_name),
        checksum_type: upload.algorithm.map(|_| upload.checksum_kind().to_owned().into()),
        owner: Some(owner()),
        storage_class: Some("STANDARD".to_owned().into()),
        ..ListPartsOutput::default()
    })
}

fn algorithm_name(algorithm: Algorithm) -> ChecksumAlgorithm {
    ChecksumAlgorithm::from_static(algorithm.name())
}

pub(super) async fn list_uploads(disk: Arc<Disk>, input: ListMultipartUploadsInput) -> S3Result<ListMultipartUploadsOutput> {
    let limit = page_limit(input.max_uploads)?;
    let encoding = Encoding::asked(input.encoding_type.as_ref())?;
    let bucket = input.bucket.clone();
    let mut uploads = blocking(move || {
        disk.bucket(&bucket)?;
        disk.uploads(&bucket)
    })
    .await?;
    let query = Query {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().filter(|text| !text.is_empty()),
        ..Query::default()
    };
    uploads.retain(|(_id, upload)| upload.key.starts_with(&query.prefix));
    skip_to_marker(
        &mut uploads,
        input.key_marker.as_deref().filter(|key| !key.is_empty()),
        input.upload_id_marker.as_deref(),
        &query,
    );

    let mut output = ListMultipartUploadsOutput::default();
    let (mut shown, mut prefixes): (Vec<MultipartUpload>, Vec<String>) = (Vec::new(), Vec::new());
    let mut last = None;
    for (upload_id, upload) in uploads {
        let prefix = query.common_prefix(&upload.key);
        if prefix.is_some() && prefix == prefixes.last().map(String::as_str) {
            continue;
        }
        if shown.len() + prefixes.len() == limit {
            output.is_truncated = Some(limit > 0);
            break;
        }
        if let Some(prefix) = prefix {
            prefixes.push(prefix.to_owned());
            last = Some((prefix.to_owned(), None));
            continue;
        }
        last = Some((upload.key.clone(), Some(upload_id.clone())));
        shown.push(MultipartUpload {
            key: Some(encoding.apply(&upload.key)),
            upload_id: Some(upload_id),
            initiated: Some(upload.initiated.into()),
            checksum_algorithm: upload.algorithm.map(algorithm_name),
            checksum_type: upload.algorithm.map(|_| upload.checksum_kind().to_owned().into()),
            owner: Some(owner()),
            storage_class: Some("STANDARD".to_owned().into()),
            ..MultipartUpload::default()
        });
    }
    if output.is_truncated == Some(true)
        && let Some((key, upload_id)) = last
    {
        output.next_key_marker = Some(encoding.apply(&key));
        output.next_upload_id_marker = upload_id;
    } else {
        output.is_truncated = Some(false);
    }
    output.uploads = Some(shown);
    output.common_prefixes = Some(prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(encoding.apply(prefix)) }).collect());
    output.bucket = Some(input.bucket);
    output.max_uploads = i32::try_from(limit).ok();
    output.prefix = input.prefix.map(|text| encoding.apply(&text));
    output.delimiter = input.delimiter.map(|text| encoding.apply(&text));
    output.key_marker = input.key_marker.map(|text| encoding.apply(&text));
    output.upload_id_marker = input.upload_id_marker;
    output.encoding_type = input.encoding_type;
    Ok(output)
}

/// Drops the uploads up to a marker: all of smaller keys, and those of its own key up to the marked id.
fn skip_to_marker(uploads: &mut Vec<(String, Upload)>, key: Option<&str>, upload_id: Option<&str>, query: &Query) {
    let Some(key) = key else {
        return;
    };
    let marked = uploads.iter().position(|(id, upload)| upload.key == key && Some(id.as_str()) == upload_id);
    match marked {
        Some(index) => {
            uploads.drain(..=index);
        }
        None => uploads.retain(|(_id, upload)| upload.key.as_str() > key && query.common_prefix(&upload.key) != Some(key)),
    }
}
