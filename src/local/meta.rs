//! What S3 keeps about an object beside its bytes.

use std::collections::BTreeMap;
use std::time::SystemTime;

use s3s::dto::{ETagCondition, Metadata, Timestamp};
use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use super::failure;

/// The most that names and values of user metadata may take together, in bytes (S3 user guide, "Working with object metadata").
const LARGEST_USER_METADATA: usize = 2 * 1024;

/// The content type of an object that was put without one.
const DEFAULT_CONTENT_TYPE: &str = "binary/octet-stream";

/// What the client said about the object when it put it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Attributes {
    pub(super) content_type: String,
    pub(super) content_encoding: Option<String>,
    pub(super) content_language: Option<String>,
    pub(super) content_disposition: Option<String>,
    pub(super) cache_control: Option<String>,
    pub(super) expires: Option<Timestamp>,
    pub(super) user: BTreeMap<String, String>,
    pub(super) storage_class: Option<String>,
    pub(super) encryption: Encryption,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            content_type: DEFAULT_CONTENT_TYPE.to_owned(),
            content_encoding: None,
            content_language: None,
            content_disposition: None,
            cache_control: None,
            expires: None,
            user: BTreeMap::new(),
            storage_class: None,
            encryption: Encryption::default(),
        }
    }
}

/// The encryption that was asked for: echoed, as nothing here is encrypted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Encryption {
    pub(super) algorithm: String,
    pub(super) key: Option<String>,
    pub(super) bucket_key: Option<bool>,
}

impl Default for Encryption {
    /// SSE-S3, which S3 applies where nothing is asked for.
    fn default() -> Self {
        Self { algorithm: "AES256".to_owned(), key: None, bucket_key: None }
    }
}

impl Encryption {
    /// # Errors
    ///
    /// `InvalidArgument` for an unknown algorithm or a key without `aws:kms`.
    pub(super) fn asked(algorithm: Option<&str>, key: Option<&str>, bucket_key: Option<bool>) -> S3Result<Self> {
        let algorithm = algorithm.unwrap_or("AES256");
        let with_kms = matches!(algorithm, "aws:kms" | "aws:kms:dsse");
        if !with_kms && algorithm != "AES256" {
            return Err(s3_error!(InvalidArgument, "The encryption method specified is not supported"));
        }
        if !with_kms && key.is_some() {
            return Err(s3_error!(
                InvalidArgument,
                "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms"
            ));
        }
        Ok(Self { algorithm: algorithm.to_owned(), key: key.map(str::to_owned), bucket_key: bucket_key.filter(|_| with_kms) })
    }
}

/// All that is kept about an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Meta {
    /// The whole key, since the file that this is kept in is named after a hash of it.
    pub(super) key: String,
    /// Without quotes.
    pub(super) etag: String,
    pub(super) checksum: Option<Checksum>,
    pub(super) attributes: Attributes,
}

/// User metadata, if it is small enough.
///
/// # Errors
///
/// `MetadataTooLarge`.
pub(super) fn user_metadata(given: Option<&Metadata>) -> S3Result<BTreeMap<String, String>> {
    let user: BTreeMap<String, String> =
        given.into_iter().flatten().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
    let size: usize = user.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > LARGEST_USER_METADATA {
        return Err(s3_error!(MetadataTooLarge, "Your metadata headers exceed the maximum allowed metadata size"));
    }
    Ok(user)
}

/// The content encoding without the one of the transfer itself.
pub(super) fn content_encoding(given: Option<&str>) -> Option<String> {
    let kept: Vec<&str> =
        given?.split(',').map(str::trim).filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("aws-chunked")).collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

/// The attributes that a put, copy or create request states.
macro_rules! stated_attributes {
    ($input:expr) => {{
        let input = &$input;
        $crate::local::meta::Encryption::asked(
            input.server_side_encryption.as_ref().map(|asked| asked.as_str()),
            input.ssekms_key_id.as_deref(),
            input.bucket_key_enabled,
        )
        .and_then(|encryption| {
            let default = $crate::local::meta::Attributes::default();
            Ok($crate::local::meta::Attributes {
                content_type: input.content_type.clone().unwrap_or(default.content_type),
                content_encoding: $crate::local::meta::content_encoding(input.content_encoding.as_deref()),
                content_language: input.content_language.clone(),
                content_disposition: input.content_disposition.clone(),
                cache_control: input.cache_control.clone(),
                expires: input.expires.clone(),
                user: $crate::local::meta::user_metadata(input.metadata.as_ref())?,
                storage_class: input
                    .storage_class
                    .as_ref()
                    .map(|class| class.as_str().to_owned())
                    .filter(|class| class != "STANDARD"),
                encryption,
            })
        })
    }};
}

/// Refuses what a put, copy or create request may ask for on AWS and can't have here.
macro_rules! refuse_unsupported {
    ($input:expr) => {{
        let input = &$input;
        let lock = input.object_lock_mode.is_some()
            || input.object_lock_legal_hold_status.is_some()
            || input.object_lock_retain_until_date.is_some();
        let granted = input.grant_full_control.is_some()
            || input.grant_read.is_some()
            || input.grant_read_acp.is_some()
            || input.grant_write_acp.is_some();
        let acl = input.acl.as_ref().map(|acl| acl.as_str());
        if input.sse_customer_algorithm.is_some() || input.sse_customer_key.is_some() {
            Err($crate::local::failure::not_implemented("x-amz-server-side-encryption-customer-algorithm"))
        } else if input.tagging.is_some() {
            Err($crate::local::failure::not_implemented("x-amz-tagging"))
        } else if input.website_redirect_location.is_some() {
            Err($crate::local::failure::not_implemented("x-amz-website-redirect-location"))
        } else if lock {
            Err(s3s::s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration"))
        } else if granted || !matches!(acl, None | Some("bucket-owner-full-control")) {
            // New buckets have ACLs disabled; this one alone is still accepted.
            Err(s3s::s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs"))
        } else {
            Ok(())
        }
    }};
}

/// Puts what is kept about an object into the answer of a get or head.
macro_rules! describe {
    ($output:expr, $stored:expr) => {{
        let attributes = $stored.meta.attributes.clone();
        $output.accept_ranges = Some("bytes".to_owned());
        $output.content_type = Some(attributes.content_type);
        $output.content_encoding = attributes.content_encoding;
        $output.content_language = attributes.content_language;
        $output.content_disposition = attributes.content_disposition;
        $output.cache_control = attributes.cache_control;
        $output.expires = attributes.expires;
        $output.metadata = Some(attributes.user.into_iter().collect());
        $output.storage_class = attributes.storage_class.map(Into::into);
        $output.e_tag = Some(s3s::dto::ETag::Strong($stored.meta.etag.clone()));
        $output.last_modified = Some($stored.modified.into());
        $crate::local::meta::show_encryption!($output, attributes.encryption);
    }};
}

/// Puts the encryption into an answer.
macro_rules! show_encryption {
    ($output:expr, $encryption:expr) => {{
        let encryption: $crate::local::meta::Encryption = $encryption;
        $output.server_side_encryption = Some(encryption.algorithm.into());
        $output.ssekms_key_id = encryption.key;
        $output.bucket_key_enabled = encryption.bucket_key;
    }};
}

pub(super) use {describe, refuse_unsupported, show_encryption, stated_attributes};

/// `If-Match` and `If-None-Match` of a write.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteCondition {
    if_match: Option<ETagCondition>,
    if_none_match: bool,
}

impl WriteCondition {
    /// # Errors
    ///
    /// `NotImplemented` for an `If-None-Match` other than `*`, as on S3.
    pub(super) fn new(if_match: Option<ETagCondition>, if_none_match: Option<&ETagCondition>) -> S3Result<Self> {
        if if_none_match.is_some_and(|condition| !condition.is_any()) {
            return Err(failure::not_implemented("If-None-Match"));
        }
        Ok(Self { if_match, if_none_match: if_none_match.is_some() })
    }

    /// Whether the write may go on over what is there now (`etag`, without quotes).
    ///
    /// # Errors
    ///
    /// `PreconditionFailed`, or `NoSuchKey` for an `If-Match` on nothing.
    pub(super) fn check(&self, etag: Option<&str>) -> S3Result<()> {
        if self.if_none_match && etag.is_some() {
            return Err(failure::precondition_failed());
        }
        match (&self.if_match, etag) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(failure::no_such_key()),
            (Some(condition), Some(etag)) if matches(condition, etag) => Ok(()),
            (Some(_), Some(_)) => Err(failure::precondition_failed()),
        }
    }
}

/// The conditions of a read (RFC 9110 section 13, in its order).
pub(super) struct ReadCondition<'a> {
    pub(super) matching: Option<&'a ETagCondition>,
    pub(super) none_matching: Option<&'a ETagCondition>,
    pub(super) modified_since: Option<&'a Timestamp>,
    pub(super) unmodified_since: Option<&'a Timestamp>,
}

impl ReadCondition<'_> {
    /// # Errors
    ///
    /// `PreconditionFailed` (412) or `NotModified` (304).
    pub(super) fn check(&self, etag: &str, modified: SystemTime) -> S3Result<()> {
        // Dates in headers are whole seconds.
        let modified = Timestamp::from(whole_seconds(modified));
        let holds = match (self.matching, self.unmodified_since) {
            (Some(condition), _) => matches(condition, etag),
            (None, Some(since)) => modified <= *since,
            (None, None) => true,
        };
        if !holds {
            return Err(failure::precondition_failed());
        }
        let unchanged = match (self.none_matching, self.modified_since) {
            (Some(condition), _) => matches(condition, etag),
            (None, Some(since)) => modified <= *since,
            (None, None) => false,
        };
        if unchanged {
            return Err(s3_error!(NotModified, "Not Modified"));
        }
        Ok(())
    }
}

pub(super) fn matches(condition: &ETagCondition, etag: &str) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(wanted) => wanted.value() == etag,
    }
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(since.as_secs())
}
