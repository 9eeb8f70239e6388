//! What S3's refusals mean: the one table from error code, status and operation to who must act and what to do.

use super::Side;
use super::refusal::{Target, plain};
use crate::domain::settings::Encryption;
use crate::store::operation::Operation;

/// An error answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Answer {
    pub(in crate::store) status: u16,
    pub(in crate::store) code: Option<String>,
    pub(super) message: Option<String>,
    /// The region that the bucket is in, where S3 said so.
    pub(super) region: Option<String>,
}

/// Who must act on an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Whoever owns the bucket.
    Owner,
    /// Whoever the credentials belong to.
    Signer,
    /// We, who configured it.
    Vendor,
    /// Nobody; time.
    Time,
    /// Dayport's authors.
    Authors,
}

use Who::{Authors, Owner, Signer, Time, Vendor};

/// An error code, who must act, what it means here, and what to do: by the customer (or the bucket's owner), and by us where that
/// reads differently.
///
/// Source: Amazon S3 API Reference, "Error responses" (list of error codes); the KMS ones come with a `KMS.` prefix and the name of
/// the AWS KMS API's exception.
#[rustfmt::skip]
const TABLE: &[(&str, Who, &str, &str, &str)] = &[
    // Permission: see `denied`, which knows the operation and the options.
    ("AccessDenied", Owner, "", "", ""),
    ("AllAccessDisabled", Owner, "all access to the bucket is disabled", "ask the customer to have AWS Support enable it", "ask AWS Support to enable it"),
    ("AccountProblem", Owner, "the bucket owner's AWS account has a problem", "ask the customer to settle it with AWS Support", "settle it with AWS Support"),
    ("InvalidPayer", Owner, "access to the bucket is disabled by its owner's payment", "ask the customer to settle it with AWS Support", "settle it with AWS Support"),
    ("NotSignedUp", Owner, "the account is not signed up for S3", "ask the customer to settle it with AWS Support", "settle it with AWS Support"),
    ("InvalidObjectState", Owner, "the object is archived", "ask the customer to restore it", "restore it and call again"),
    ("MethodNotAllowed", Owner, "the bucket does not allow the operation", "ask the customer which bucket it is to be, and check `s3_bucket`", "check `s3_bucket` and the endpoint"),
    // Bucket.
    ("NoSuchBucket", Owner, "there is no such bucket", "ask the customer to create it, or correct `s3_bucket`", "create it, or correct `s3_bucket`"),
    ("InvalidBucketName", Vendor, "that is not a bucket's name", "correct `s3_bucket`", "correct `s3_bucket`"),
    // Region: see `elsewhere`.
    ("PermanentRedirect", Owner, "", "", ""),
    ("TemporaryRedirect", Time, "S3 is still moving the bucket's name to its region", "call again in an hour", "call again in an hour"),
    ("AuthorizationHeaderMalformed", Owner, "", "", ""),
    ("IllegalLocationConstraintException", Owner, "", "", ""),
    // Encryption key. Its refusals of permission come as AccessDenied with `kms:` in the message.
    ("KMS.DisabledException", Owner, "the KMS key that encrypts the bucket is disabled", "ask the customer to enable it", "enable it"),
    ("KMS.NotFoundException", Owner, "the KMS key that encrypts the bucket does not exist in its region", "ask the customer for the key's full ARN and set `kms_key_arn`", "correct the bucket's default encryption"),
    ("KMS.KMSInvalidStateException", Owner, "the KMS key that encrypts the bucket is pending deletion or import", "ask the customer to restore it or to choose another", "restore it or choose another"),
    ("KMS.InvalidKeyUsageException", Owner, "the KMS key can't be used for encryption", "ask the customer for a symmetric encryption key", "choose a symmetric encryption key"),
    ("KMS.KeyUnavailableException", Time, "the KMS key is not available for the moment", "call again", "call again"),
    ("KMS.ThrottlingException", Time, "KMS is throttling", "call again later", "call again later"),
    // Credentials.
    ("ExpiredToken", Signer, "the session's credentials have expired", "ask the customer for new ones", "renew the credentials that Dayport runs with and call again"),
    ("TokenRefreshRequired", Signer, "the session's credentials have expired", "ask the customer for new ones", "renew the credentials that Dayport runs with and call again"),
    ("InvalidToken", Signer, "the session's credentials are not valid", "ask the customer for new ones", "renew the credentials that Dayport runs with and call again"),
    ("InvalidAccessKeyId", Signer, "AWS does not know the access key id", "ask the customer whether the key pair was deleted, and store the new one", "check the credentials that Dayport runs with"),
    ("SignatureDoesNotMatch", Signer, "the secret access key does not belong to the access key id", "store the customer's key pair anew, without a stray blank or line end", "check the credentials that Dayport runs with"),
    ("RequestTimeTooSkewed", Vendor, "this machine's clock is more than 15 minutes wrong", "set the clock and call again", "set the clock and call again"),
    ("RequestExpired", Vendor, "the request was too old when it arrived", "set the clock and call again", "set the clock and call again"),
    // Our configuration.
    ("AccessControlListNotSupported", Vendor, "the bucket has ACLs disabled (bucket owner enforced)", "take `acl` out of the destination", "take `acl` out of the configuration"),
    ("InvalidEncryptionAlgorithmError", Vendor, "the store does not know that encryption", "correct `encryption`", "correct `encryption`"),
    ("NotImplemented", Vendor, "the store does not know a header that we send", "set `checksum = \"when_required\"` for a store other than S3", "use a store that knows all of S3's API"),
    ("KeyTooLongError", Vendor, "the key is over 1,024 bytes", "shorten `s3_prefix`", "shorten `s3_prefix`"),
    // Time mends these; the SDK has tried for about a minute before we see them.
    ("SlowDown", Time, "S3 is throttling", "call again later", "call again later"),
    ("Throttling", Time, "S3 is throttling", "call again later", "call again later"),
    ("ThrottlingException", Time, "S3 is throttling", "call again later", "call again later"),
    ("ServiceUnavailable", Time, "S3 is not available for the moment", "call again later", "call again later"),
    ("InternalError", Time, "S3 failed inside", "call again", "call again"),
    ("RequestTimeout", Time, "S3 waited too long for the request's bytes", "call again", "call again"),
    ("IncompleteBody", Time, "the request's bytes did not all arrive", "call again", "call again"),
    ("BadDigest", Time, "the bytes were damaged on their way", "call again", "call again"),
    ("XAmzContentChecksumMismatch", Time, "the bytes were damaged on their way", "call again", "call again"),
    ("XAmzContentSHA256Mismatch", Time, "the bytes were damaged on their way", "call again", "call again"),
    ("OperationAborted", Time, "another request changes the same thing", "call again", "call again"),
    ("ConditionalRequestConflict", Time, "another writer was at the object at the same time", "call again", "call again"),
    ("PreconditionFailed", Time, "the object changed meanwhile", "call again", "call again"),
    ("NoSuchKey", Time, "the object vanished after it was listed", "call again to list anew", "call again to list anew"),
    ("InvalidRange", Time, "the object is shorter than it was when it was listed", "call again to list anew", "call again to list anew"),
    ("NoSuchUpload", Time, "the upload was completed or aborted meanwhile", "call again to begin it anew", "call again to begin it anew"),
    // Ours to mend in code.
    ("InvalidPart", Authors, "the parts are not those that were uploaded", "please report it", "please report it"),
    ("InvalidPartOrder", Authors, "the parts are not in order", "please report it", "please report it"),
    ("EntityTooSmall", Authors, "a part other than the last is under 5 MiB", "please report it", "please report it"),
    ("EntityTooLarge", Authors, "the object or part is over S3's limit", "please report it", "please report it"),
    ("MalformedXML", Authors, "S3 could not read our request", "please report it", "please report it"),
    ("InvalidArgument", Authors, "S3 does not accept a value that we sent", "please report it", "please report it"),
    ("InvalidDigest", Authors, "S3 does not accept the checksum's form", "please report it", "please report it"),
    ("MissingContentLength", Authors, "S3 wants a length that we did not send", "please report it", "please report it"),
    ("InvalidURI", Authors, "S3 could not read the key", "please report it", "please report it"),
    // Anything at all: see `invalid_request`.
    ("InvalidRequest", Vendor, "", "", ""),
];

/// The codes of the table, for tests.
#[cfg(test)]
pub(super) fn known_codes() -> Vec<&'static str> {
    TABLE.iter().map(|row| row.0).collect()
}

impl Answer {
    /// Its row of the table.
    fn row(&self) -> Option<&'static (&'static str, Who, &'static str, &'static str, &'static str)> {
        let code = self.code.as_deref()?;
        TABLE.iter().find(|row| row.0 == code)
    }

    fn message_has(&self, text: &str) -> bool {
        self.message.as_ref().is_some_and(|message| message.contains(text))
    }

    pub(super) fn is_about_region(&self) -> bool {
        match self.code.as_deref() {
            Some("PermanentRedirect" | "IllegalLocationConstraintException") => true,
            Some("TemporaryRedirect") => self.region.is_some(),
            // The other way to be malformed is the access key id's.
            Some("AuthorizationHeaderMalformed") => self.region.is_some() && self.message_has("region"),
            Some(_) => false,
            None => matches!(self.status, 300..=399) || (self.status == 400 && self.region.is_some()),
        }
    }

    /// Whether it is the key, and not the bucket, that refused.
    pub(super) fn is_about_key(&self) -> bool {
        let is_denied = self.code.as_deref() == Some("AccessDenied") && self.message_has("kms:");
        is_denied || self.code.as_deref().is_some_and(|code| code.starts_with("KMS."))
    }

    pub(super) fn who(&self, operation: Operation) -> Who {
        if self.is_about_region() {
            return Owner;
        }
        match (self.code.as_deref(), operation) {
            // S3 says that it is the identity's own policy that does not allow it, not the bucket's.
            (Some("AccessDenied"), _) if self.message_has("no identity-based policy") => return Signer,
            // It names no region, so it is the credential that is malformed.
            (Some("AuthorizationHeaderMalformed"), _) => return Signer,
            // Each part was checked when it arrived, so the sum that we say is wrong.
            (Some("BadDigest"), Operation::CompleteMultipartUpload) => return Authors,
            _ => {}
        }
        if let Some(row) = self.row() {
            return row.1;
        }
        match (self.status, self.code.as_deref()) {
            (_, Some(code)) if code.starts_with("KMS.") => Owner,
            // An error in a 2xx of which we know nothing: the operation did not happen.
            (200..=299 | 408 | 409 | 412 | 425 | 429 | 500..=599, _) => Time,
            (401 | 403 | 404 | 405, _) => Owner,
            _ => Vendor,
        }
    }

    pub(super) fn explain(&self, operation: Operation, target: &Target<'_>) -> (String, String) {
        if self.is_about_region() {
            return self.elsewhere();
        }
        let code = self.code.as_deref().unwrap_or_default();
        match (code, operation) {
            ("AccessDenied", _) => return self.denied(operation, target),
            ("InvalidRequest", _) => return self.invalid_request(),
            ("AuthorizationHeaderMalformed", _) => {
                return (
                    "the access key id is malformed".to_owned(),
                    "store the key pair anew, without a stray blank or line end".to_owned(),
                );
            }
            ("BadDigest", Operation::CompleteMultipartUpload) => {
                return ("the object is not what we say we sent".to_owned(), "please report it".to_owned());
            }
            _ => {}
        }
        let by_customer = match self.who(operation) {
            Signer => target.options.signed_by == Side::Customer,
            _ => target.side == Side::Customer,
        };
        if let Some((_, _, why, customer_does, vendor_does)) = self.row() {
            return ((*why).to_owned(), (*if by_customer { customer_does } else { vendor_does }).to_owned());
        }
        let (why, what_to_do) = match self.who(operation) {
            Time => ("S3 could not do it for the moment", "call again"),
            Owner if code.starts_with("KMS.") && by_customer => {
                ("the KMS key that encrypts the bucket refused", "ask the customer to check the key and its policy")
            }
            Owner if code.starts_with("KMS.") => ("the KMS key that encrypts the bucket refused", "check the key and its policy"),
            Owner if self.status == 404 => ("there is no such thing", "check `s3_bucket` and the endpoint"),
            Owner if by_customer => ("the bucket refused", "ask the customer to check the bucket and its policy"),
            Owner => ("the bucket refused", "check the bucket and its policy"),
            _ => ("S3 does not accept the request", "check the configuration of this bucket"),
        };
        (why.to_owned(), what_to_do.to_owned())
    }

    /// The bucket is in another region than the request went to.
    fn elsewhere(&self) -> (String, String) {
        match &self.region {
            Some(region) => {
                let region = plain(region);
                (
                    format!("the bucket is in the region `{region}`"),
                    format!("set `s3_region = \"{region}\"`, or leave it out to have it found"),
                )
            }
            None => (
                "the bucket is in another region, or behind another endpoint".to_owned(),
                "set `s3_region` to the bucket's own and check the endpoint".to_owned(),
            ),
        }
    }

    /// No permission. Across accounts S3 says no more than that, so what is likely missing follows from operation and options;
    /// within one it says which kind of policy refused.
    fn denied(&self, operation: Operation, target: &Target<'_>) -> (String, String) {
        let options = target.options;
        let by_customer = target.side == Side::Customer;
        if self.message_has("object lock") {
            return ("object lock protects the object".to_owned(), "wait until its retention ends, or have it lifted".to_owned());
        }
        let owner = match &options.expected_bucket_owner {
            Some(owner) => format!(", and check that account `{}` owns the bucket", plain(owner)),
            None => String::new(),
        };
        if self.message_has("kms:") {
            let why = "the KMS key that encrypts the bucket does not let us use it".to_owned();
            let actions = "`kms:GenerateDataKey` and `kms:Decrypt`";
            let what_to_do = match self.who(operation) {
                Signer => format!("allow {actions} on the key to the identity that signs"),
                _ if by_customer => format!(
                    "ask the customer to allow {actions} to our role in the key's policy (`dayport policy --kms` prints the statement)"
                ),
                _ => format!("allow {actions} on the key to the function's own role"),
            };
            return (why, what_to_do);
        }
        let mut actions = format!("`{}`", operation.action());
        if operation.begins_an_object() && options.acl.is_some() {
            actions.push_str(" and `s3:PutObjectAcl` (for `acl`)");
        }
        let why = format!("permission is missing, most likely {actions}");
        let mut what_to_do = if self.message_has("explicit deny in a service control policy") {
            "have the service control policy that denies it changed".to_owned()
        } else if self.message_has("explicit deny in a resource-based policy") && by_customer {
            "ask the customer which Deny statement of the bucket policy this meets (encryption, ACL, network)".to_owned()
        } else if self.who(operation) == Signer && options.signed_by == Side::Customer {
            "ask the customer to allow it to the user that the key pair belongs to".to_owned()
        } else if self.who(operation) == Signer || !by_customer {
            "allow it to the function's own role".to_owned()
        } else {
            "ask the customer to allow it to our role in the bucket policy (`dayport policy` prints one)".to_owned()
        };
        if matches!(options.encryption, Some(Encryption::Kms(_))) && operation.action() == "s3:PutObject" {
            what_to_do.push_str(", and `kms:GenerateDataKey` and `kms:Decrypt` in the key's policy (`--kms`)");
        }
        (why, what_to_do + &owner)
    }

    /// S3's catch-all for settings that do not go together.
    fn invalid_request(&self) -> (String, String) {
        if self.message_has("Object Lock") {
            return (
                "a bucket with object lock wants checksums".to_owned(),
                "set `checksum = \"always\"` for this destination".to_owned(),
            );
        }
        if self.message_has("ACL") {
            return ("the bucket does not take that ACL".to_owned(), "take `acl` out of the destination".to_owned());
        }
        (
            "S3 does not accept the request for this bucket".to_owned(),
            "check `encryption`, `kms_key_arn`, `acl` and `checksum` against the bucket's settings".to_owned(),
        )
    }
}
