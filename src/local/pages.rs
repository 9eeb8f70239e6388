//! The operations that list objects, and what listings share: page sizes, encoding, markers.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use s3s::dto::{
    ChecksumAlgorithm, CommonPrefix, ETag, EncodingType, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input,
    ListObjectsV2Output, Object, Owner,
};
use s3s::{S3Error, S3Result, s3_error};

use super::access::OWNER;
use super::disk::Disk;
use super::failure::blocking;
use super::listing::{Page, Query};
use super::place::Stored;
use crate::domain::hex::digit;

/// The most entries in one answer.
const LONGEST_PAGE: i32 = 1000;

/// The owner of everything.
pub(super) fn owner() -> Owner {
    Owner { id: Some(OWNER.to_owned()), display_name: None }
}

/// How many entries an answer may have.
///
/// # Errors
///
/// `InvalidArgument` for a negative number.
pub(super) fn page_limit(asked: Option<i32>) -> S3Result<usize> {
    usize::try_from(asked.unwrap_or(LONGEST_PAGE).min(LONGEST_PAGE))
        .map_err(|_| s3_error!(InvalidArgument, "Argument must be an integer between 0 and 2147483647"))
}

/// How keys are written in an answer (`encoding-type`).
#[derive(Clone, Copy)]
pub(super) enum Encoding {
    Plain,
    Url,
}

impl Encoding {
    /// # Errors
    ///
    /// `InvalidArgument` for another type than `url`.
    pub(super) fn asked(given: Option<&EncodingType>) -> S3Result<Self> {
        match given.map(EncodingType::as_str) {
            None => Ok(Self::Plain),
            Some("url") => Ok(Self::Url),
            Some(_) => Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request")),
        }
    }

    pub(super) fn apply(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Url => url_encoded(text),
        }
    }
}

/// As a form is encoded, but for `/`, which S3 leaves alone.
fn url_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' | b'/' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            _ => encoded.extend(['%', digit(byte >> 4).to_ascii_uppercase(), digit(byte & 15).to_ascii_uppercase()]),
        }
    }
    encoded
}

pub(super) async fn list_v2(disk: Arc<Disk>, input: ListObjectsV2Input) -> S3Result<ListObjectsV2Output> {
    let limit = page_limit(input.max_keys)?;
    let encoding = Encoding::asked(input.encoding_type.as_ref())?;
    let after = match &input.continuation_token {
        Some(token) => Some(from_token(token)?),
        None => input.start_after.clone().filter(|key| !key.is_empty()),
    };
    let query = Query {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().filter(|text| !text.is_empty()),
        after,
        limit,
    };
    let page = list(disk, input.bucket.clone(), query).await?;
    let with_owner = input.fetch_owner == Some(true);
    Ok(ListObjectsV2Output {
        key_count: i32::try_from(page.objects.len() + page.prefixes.len()).ok(),
        is_truncated: Some(page.next.is_some()),
        next_continuation_token: page.next.as_deref().map(to_token),
        common_prefixes: Some(shown_prefixes(&page, encoding)),
        contents: Some(shown_objects(page.objects, encoding, with_owner)),
        name: Some(input.bucket),
        prefix: Some(encoding.apply(&input.prefix.unwrap_or_default())),
        delimiter: input.delimiter.map(|text| encoding.apply(&text)),
        start_after: input.start_after.map(|text| encoding.apply(&text)),
        continuation_token: input.continuation_token,
        max_keys: i32::try_from(limit).ok(),
        encoding_type: input.encoding_type,
        ..ListObjectsV2Output::default()
    })
}

pub(super) async fn list_v1(disk: Arc<Disk>, input: ListObjectsInput) -> S3Result<ListObjectsOutput> {
    let limit = page_limit(input.max_keys)?;
    let encoding = Encoding::asked(input.encoding_type.as_ref())?;
    let query = Query {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().filter(|text| !text.is_empty()),
        after: input.marker.clone().filter(|key| !key.is_empty()),
        limit,
    };
    let has_delimiter = query.delimiter.is_some();
    let page = list(disk, input.bucket.clone(), query).await?;
    Ok(ListObjectsOutput {
        is_truncated: Some(page.next.is_some()),
        // Without a delimiter the last key is the marker, and S3 does not say it twice.
        next_marker: page.next.as_deref().filter(|_| has_delimiter).map(|text| encoding.apply(text)),
        common_prefixes: Some(shown_prefixes(&page, encoding)),
        contents: Some(shown_objects(page.objects, encoding, true)),
        name: Some(input.bucket),
        prefix: Some(encoding.apply(&input.prefix.unwrap_or_default())),
        marker: Some(encoding.apply(&input.marker.unwrap_or_default())),
        delimiter: input.delimiter.map(|text| encoding.apply(&text)),
        max_keys: i32::try_from(limit).ok(),
        encoding_type: input.encoding_type,
        ..ListObjectsOutput::default()
    })
}

async fn list(disk: Arc<Disk>, bucket: String, query: Query) -> S3Result<Page> {
    blocking(move || {
        disk.bucket(&bucket)?;
        disk.list(&bucket, &query)
    })
    .await
}

fn shown_objects(objects: Vec<(String, Stored)>, encoding: Encoding, with_owner: bool) -> Vec<Object> {
    objects
        .into_iter()
        .map(|(key, stored)| {
            let checksum = stored.meta.checksum.as_ref();
            Object {
                key: Some(encoding.apply(&key)),
                size: i64::try_from(stored.size).ok(),
                last_modified: Some(stored.modified.into()),
                checksum_algorithm: checksum.map(|sum| vec![ChecksumAlgorithm::from_static(sum.algorithm.name())]),
                checksum_type: checksum.map(|sum| sum.kind().to_owned().into()),
                e_tag: Some(ETag::Strong(stored.meta.etag)),
                storage_class: Some(stored.meta.attributes.storage_class.unwrap_or_else(|| "STANDARD".to_owned()).into()),
                owner: with_owner.then(owner),
                ..Object::default()
            }
        })
        .collect()
}

fn shown_prefixes(page: &Page, encoding: Encoding) -> Vec<CommonPrefix> {
    let shown = page.prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(encoding.apply(prefix)) });
    shown.collect()
}

fn to_token(after: &str) -> String {
    URL_SAFE_NO_PAD.encode(after)
}

fn from_token(token: &str) -> S3Result<String> {
    let refused = || -> S3Error { s3_error!(InvalidArgument, "The continuation token provided is incorrect") };
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| refused())?;
    String::from_utf8(bytes).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_encoded_as_s3_encodes_them() {
        assert_eq!(url_encoded("a/b c+d=é~"), "a/b+c%2Bd%3D%C3%A9%7E");
    }
}
