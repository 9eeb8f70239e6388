//! The nine S3 operations that Dayport uses, and the permission that each needs.

use std::fmt;

/// An S3 API operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `ListObjectsV2`.
    ListObjectsV2,
    /// `GetObject`.
    GetObject,
    /// `PutObject`.
    PutObject,
    /// `CreateMultipartUpload`.
    CreateMultipartUpload,
    /// `UploadPart`.
    UploadPart,
    /// `CompleteMultipartUpload`.
    CompleteMultipartUpload,
    /// `AbortMultipartUpload`.
    AbortMultipartUpload,
    /// `DeleteObject`.
    DeleteObject,
    /// `ListMultipartUploads`.
    ListMultipartUploads,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 9] = [
        Operation::ListObjectsV2,
        Operation::GetObject,
        Operation::PutObject,
        Operation::CreateMultipartUpload,
        Operation::UploadPart,
        Operation::CompleteMultipartUpload,
        Operation::AbortMultipartUpload,
        Operation::DeleteObject,
        Operation::ListMultipartUploads,
    ];

    /// The name in the S3 API reference.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::ListObjectsV2 => "ListObjectsV2",
            Operation::GetObject => "GetObject",
            Operation::PutObject => "PutObject",
            Operation::CreateMultipartUpload => "CreateMultipartUpload",
            Operation::UploadPart => "UploadPart",
            Operation::CompleteMultipartUpload => "CompleteMultipartUpload",
            Operation::AbortMultipartUpload => "AbortMultipartUpload",
            Operation::DeleteObject => "DeleteObject",
            Operation::ListMultipartUploads => "ListMultipartUploads",
        }
    }

    /// The IAM action that it needs (Service Authorization Reference, "Actions defined by Amazon S3": the three requests of a
    /// multipart upload are all `s3:PutObject`).
    #[must_use]
    pub fn action(self) -> &'static str {
        match self {
            Operation::ListObjectsV2 => "s3:ListBucket",
            Operation::GetObject => "s3:GetObject",
            Operation::AbortMultipartUpload => "s3:AbortMultipartUpload",
            Operation::DeleteObject => "s3:DeleteObject",
            Operation::ListMultipartUploads => "s3:ListBucketMultipartUploads",
            Operation::PutObject
            | Operation::CreateMultipartUpload
            | Operation::UploadPart
            | Operation::CompleteMultipartUpload => "s3:PutObject",
        }
    }

    /// What it was to do with a key or prefix, for `could not …` messages.
    #[must_use]
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Operation::ListObjectsV2 => "list",
            Operation::GetObject => "read",
            Operation::PutObject => "write",
            Operation::CreateMultipartUpload => "begin the upload of",
            Operation::UploadPart => "upload a part of",
            Operation::CompleteMultipartUpload => "complete the upload of",
            Operation::AbortMultipartUpload => "abort the upload of",
            Operation::DeleteObject => "delete",
            Operation::ListMultipartUploads => "list the uploads under",
        }
    }

    /// Whether it makes an object: such requests carry encryption and ACL, and with a KMS key need rights on the key.
    #[must_use]
    pub fn begins_an_object(self) -> bool {
        matches!(self, Operation::PutObject | Operation::CreateMultipartUpload)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
