//! What every request to a bucket carries, decided once per bucket.

use aws_sdk_s3::types::{ObjectCannedAcl, RequestPayer, ServerSideEncryption};

use super::Side;
use crate::domain::settings::{Checksum, Credentials, Destination, Encryption};
use crate::store::operation::Operation;

/// The options of a bucket's requests. Which header goes on which operation ([`RequestOptions::headers`] says the same in code; a
/// test reads it off real requests):
///
/// | operation | owner, payer | encryption, key, ACL | checksum (mode `always`) |
/// |---|---|---|---|
/// | `ListObjectsV2`, `GetObject`, `DeleteObject`, `AbortMultipartUpload`, `ListMultipartUploads` | yes | | |
/// | `PutObject` | yes | yes | the body's CRC64NVME |
/// | `CreateMultipartUpload` | yes | yes | algorithm CRC64NVME, type `FULL_OBJECT` |
/// | `UploadPart` | yes | | the part's CRC64NVME |
/// | `CompleteMultipartUpload` | yes | | the object's CRC64NVME, type `FULL_OBJECT`, and its size |
///
/// SSE-C is not among them, ever: every reader would need the key.
#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// `x-amz-expected-bucket-owner`: the 12 digits of the account that must own the bucket.
    pub expected_bucket_owner: Option<String>,
    /// `x-amz-server-side-encryption` and its key.
    pub encryption: Option<Encryption>,
    /// `x-amz-acl`.
    pub acl: Option<String>,
    /// `x-amz-request-payer: requester`.
    pub requester_pays: bool,
    /// Whether uploads carry checksums.
    pub checksum: Checksum,
    /// Whose credentials sign: the customer's where a key pair of theirs is used.
    pub signed_by: Side,
}

impl Default for RequestOptions {
    /// Nothing but checksums, signed with our own credentials: what the staging and state buckets get.
    fn default() -> Self {
        RequestOptions {
            expected_bucket_owner: None,
            encryption: None,
            acl: None,
            requester_pays: false,
            checksum: Checksum::Always,
            signed_by: Side::Vendor,
        }
    }
}

impl RequestOptions {
    /// What a destination's settings ask for.
    #[must_use]
    pub fn of_destination(destination: &Destination) -> Self {
        RequestOptions {
            expected_bucket_owner: destination.expected_bucket_owner.clone(),
            encryption: destination.encryption.clone(),
            acl: destination.acl.clone(),
            requester_pays: destination.requester_pays,
            checksum: destination.checksum,
            signed_by: match destination.credentials {
                Credentials::Own | Credentials::Role { .. } => Side::Vendor,
                Credentials::Secret { .. } | Credentials::Environment { .. } => Side::Customer,
            },
        }
    }

    /// The headers that these options put on `operation`, by name.
    #[must_use]
    pub fn headers(&self, operation: Operation) -> Vec<&'static str> {
        let mut headers = Vec::new();
        if self.expected_bucket_owner.is_some() {
            headers.push("x-amz-expected-bucket-owner");
        }
        if self.requester_pays {
            headers.push("x-amz-request-payer");
        }
        if operation.begins_an_object() {
            if self.encryption.is_some() {
                headers.push("x-amz-server-side-encryption");
            }
            if matches!(self.encryption, Some(Encryption::Kms(Some(_)))) {
                headers.push("x-amz-server-side-encryption-aws-kms-key-id");
            }
            if self.acl.is_some() {
                headers.push("x-amz-acl");
            }
        }
        if self.checksum == Checksum::Always {
            headers.extend_from_slice(match operation {
                Operation::PutObject | Operation::UploadPart => &["x-amz-checksum-crc64nvme"],
                Operation::CreateMultipartUpload => &["x-amz-checksum-algorithm", "x-amz-checksum-type"],
                Operation::CompleteMultipartUpload => {
                    &["x-amz-checksum-crc64nvme", "x-amz-checksum-type", "x-amz-mp-object-size"]
                }
                _ => &[],
            });
        }
        headers
    }

    pub(super) fn payer(&self) -> Option<RequestPayer> {
        self.requester_pays.then_some(RequestPayer::Requester)
    }

    pub(super) fn canned_acl(&self) -> Option<ObjectCannedAcl> {
        self.acl.as_deref().map(ObjectCannedAcl::from)
    }

    pub(super) fn server_side_encryption(&self) -> Option<ServerSideEncryption> {
        self.encryption.as_ref().map(|encryption| match encryption {
            Encryption::Aes256 => ServerSideEncryption::Aes256,
            Encryption::Kms(_) => ServerSideEncryption::AwsKms,
        })
    }

    pub(super) fn kms_key(&self) -> Option<String> {
        match &self.encryption {
            Some(Encryption::Kms(key)) => key.clone(),
            _ => None,
        }
    }

    pub(super) fn checksums(&self) -> bool {
        self.checksum == Checksum::Always
    }
}

/// Puts on a request what every operation takes: bucket, owner, payer.
macro_rules! addressed {
    ($request:expr, $bucket:expr) => {
        $request
            .bucket(&$bucket.name)
            .set_expected_bucket_owner($bucket.options.expected_bucket_owner.clone())
            .set_request_payer($bucket.options.payer())
    };
}

/// Puts on a request what makes an object: all of [`addressed`], encryption, its key, ACL.
macro_rules! making_an_object {
    ($request:expr, $bucket:expr) => {
        $crate::store::s3::options::addressed!($request, $bucket)
            .set_server_side_encryption($bucket.options.server_side_encryption())
            .set_ssekms_key_id($bucket.options.kms_key())
            .set_acl($bucket.options.canned_acl())
    };
}

pub(super) use {addressed, making_an_object};
