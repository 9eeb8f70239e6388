//! Completing a multipart upload: are these the parts, are they whole, and then the object stands.

use std::collections::HashMap;
use std::sync::Arc;

use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::{ChecksumType, CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart, ETag};
use s3s::{S3Error, S3Request, S3Result, s3_error};

use super::checksum::{self, Checksum, fields, show};
use super::disk::Disk;
use super::failure::{self, blocking};
use super::meta::{Meta, WriteCondition, show_encryption};
use super::upload::{Done, Part, Upload};
use crate::domain::hex::hex;

/// The least size of a part that is not the last (S3 user guide, "Multipart upload limits"): 5 MiB.
const SMALLEST_PART: u64 = 5 * 1024 * 1024;

pub(super) async fn complete(
    disk: Arc<Disk>,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<CompleteMultipartUploadOutput> {
    let input = request.input;
    let condition = WriteCondition::new(input.if_match.clone(), input.if_none_match.as_ref())?;
    let (bucket, key) = (input.bucket.clone(), input.key.clone());
    let done = blocking(move || {
        disk.bucket(&input.bucket)?;
        let _held = disk.lock_upload(&input.upload_id);
        if let Some(done) = disk.done(&input.bucket, &input.key, &input.upload_id)? {
            return Ok(done);
        }
        complete_pending(&disk, &input, &condition)
    })
    .await?;
    let mut output = CompleteMultipartUploadOutput {
        location: Some(format!("/{bucket}/{key}")),
        bucket: Some(bucket),
        key: Some(key),
        e_tag: Some(ETag::Strong(done.etag)),
        ..CompleteMultipartUploadOutput::default()
    };
    if let Some(checksum) = &done.checksum {
        show!(output, checksum);
        output.checksum_type = Some(checksum.kind().to_owned().into());
    }
    show_encryption!(output, done.encryption);
    Ok(output)
}

fn complete_pending(disk: &Disk, input: &CompleteMultipartUploadInput, condition: &WriteCondition) -> S3Result<Done> {
    let (bucket, upload_id) = (input.bucket.as_str(), input.upload_id.as_str());
    let upload = disk.upload(bucket, &input.key, upload_id)?;
    let listed = input.multipart_upload.as_ref().and_then(|list| list.parts.as_deref()).unwrap_or_default();
    let parts = chosen_parts(&upload, disk.parts(bucket, upload_id)?, listed)?;

    let size: u64 = parts.iter().map(|part| part.size).sum();
    if input.mpu_object_size.is_some_and(|expected| u64::try_from(expected) != Ok(size)) {
        return Err(s3_error!(InvalidRequest, "The provided 'x-amz-mp-object-size' header does not match what was computed."));
    }
    let checksum = whole_checksum(&upload, &parts)?;
    check_stated_whole(input, &upload, &checksum)?;

    let whole = disk.assemble(bucket, upload_id, &parts)?;
    let meta =
        Meta { key: upload.key.clone(), etag: multipart_etag(&parts), checksum: Some(checksum), attributes: upload.attributes };
    let stored = disk.commit(bucket, &whole, meta, condition)?;
    let done = Done {
        key: stored.meta.key,
        etag: stored.meta.etag,
        checksum: stored.meta.checksum,
        encryption: stored.meta.attributes.encryption,
    };
    disk.remember_done(bucket, upload_id, &done)?;
    disk.drop_upload(bucket, upload_id)?;
    Ok(done)
}

/// The parts that a completion lists, if it lists them rightly.
fn chosen_parts(upload: &Upload, received: Vec<Part>, listed: &[CompletedPart]) -> S3Result<Vec<Part>> {
    if listed.is_empty() {
        return Err(s3_error!(
            MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published schema"
        ));
    }
    let mut by_number: HashMap<i32, Part> = received.into_iter().map(|part| (part.number, part)).collect();
    let mut parts = Vec::with_capacity(listed.len());
    let mut last_number = 0;
    for wanted in listed {
        let number = wanted.part_number.unwrap_or_default();
        if number <= last_number {
            return Err(s3_error!(
                InvalidPartOrder,
                "The list of parts was not in ascending order. Parts must be ordered by part number."
            ));
        }
        last_number = number;
        let part = by_number.remove(&number).ok_or_else(invalid_part)?;
        let same_etag = wanted.e_tag.as_ref().map(ETag::value) == Some(part.etag.as_str());
        if !same_etag {
            return Err(invalid_part());
        }
        check_listed_checksum(upload, wanted, &part)?;
        parts.push(part);
    }
    let too_small = parts.iter().rev().skip(1).any(|part| part.size < SMALLEST_PART);
    if too_small {
        return Err(s3_error!(EntityTooSmall, "Your proposed upload is smaller than the minimum allowed size"));
    }
    Ok(parts)
}

fn check_listed_checksum(upload: &Upload, wanted: &CompletedPart, part: &Part) -> S3Result<()> {
    match checksum::stated(fields!(wanted))? {
        Some((algorithm, value)) => {
            let right = part.checksum(upload.kept_algorithm());
            if algorithm != right.algorithm || value != right.value {
                return Err(invalid_part());
            }
            Ok(())
        }
        None if upload.full_object => Ok(()),
        None => Err(s3_error!(
            InvalidRequest,
            "The upload was created using a {} checksum. The complete request must include the checksum for each part. It was missing for part {} in the request.",
            upload.kept_algorithm().name().to_ascii_lowercase(),
            part.number
        )),
    }
}

fn invalid_part() -> S3Error {
    s3_error!(
        InvalidPart,
        "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag."
    )
}

fn whole_checksum(upload: &Upload, parts: &[Part]) -> S3Result<Checksum> {
    let digests: Vec<(Vec<u8>, u64)> = parts.iter().map(|part| (part.digest(), part.size)).collect();
    checksum::of_parts(upload.kept_algorithm(), upload.full_object, &digests)
        .ok_or_else(|| failure::internal("add up the checksums of parts", &std::io::ErrorKind::InvalidData.into()))
}

/// Compares what a completion says about the whole object with what came in.
fn check_stated_whole(input: &CompleteMultipartUploadInput, upload: &Upload, computed: &Checksum) -> S3Result<()> {
    let stated_kind = input.checksum_type.as_ref().map(ChecksumType::as_str);
    if stated_kind.is_some_and(|kind| kind != upload.checksum_kind()) {
        return Err(s3_error!(
            InvalidRequest,
            "The upload was created using the {} checksum mode. The complete request must use the same checksum mode.",
            upload.checksum_kind()
        ));
    }
    match checksum::stated(fields!(input))? {
        None => Ok(()),
        Some((algorithm, _value)) if algorithm != upload.kept_algorithm() => Err(s3_error!(
            InvalidRequest,
            "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
            upload.kept_algorithm().name().to_ascii_lowercase(),
            algorithm.name().to_ascii_lowercase()
        )),
        Some((_algorithm, value)) if value == computed.value => Ok(()),
        Some((algorithm, value)) => {
            if upload.full_object {
                checksum::decode_value(algorithm, &value)?;
            }
            Err(checksum::mismatch(algorithm))
        }
    }
}

/// MD5 of the parts' MD5s, and how many they are.
fn multipart_etag(parts: &[Part]) -> String {
    let digits: Vec<u8> = parts
        .iter()
        .flat_map(|part| part.etag.bytes())
        .filter_map(|digit| char::from(digit).to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    let md5s: Vec<u8> = digits.chunks_exact(2).filter_map(|pair| Some((pair.first()? << 4) | pair.last()?)).collect();
    format!("{}-{}", hex(&Md5::checksum(&md5s)), parts.len())
}
