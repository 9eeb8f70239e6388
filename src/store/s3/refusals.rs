//! Tests: S3's published error answers, replayed through the SDK, and the message that a user sees for each.
//!
//! Sources of codes, statuses and messages: Amazon S3 API Reference, "Error responses"; AWS KMS API Reference, "Common errors" and
//! `GenerateDataKey`; the messages about explicit and implicit denial from the IAM User Guide, "Access denied error messages".

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use bytes::Bytes;

use super::errors::known_codes;
use super::replay::{KEY_ID, Replay, Reply, SECRET, TOKEN, hasty};
use super::{Address, Clients, RequestOptions, Retries, S3Bucket, Side};
use crate::domain::error::{Error, Kind};
use crate::domain::settings::{Checksum, Encryption};
use crate::store::operation::Operation;
use crate::store::ports::{Condition, Delete, List, ListUploads as _, Multipart, Part, Read, Upload, Write};

const GOLDEN: &str = include_str!("../../../tests/golden/refusals.txt");

/// What is replayed: operation, bucket, options, status, code, message.
type Case = (Operation, Side, Options, u16, &'static str, &'static str);

#[derive(Clone, Copy, Debug)]
enum Options {
    Plain,
    Owner,
    Acl,
    Kms,
    CustomersKeys,
    NoChecksums,
}

impl Options {
    fn ready(self) -> RequestOptions {
        let plain = RequestOptions::default();
        match self {
            Options::Plain => plain,
            Options::Owner => RequestOptions { expected_bucket_owner: Some("111122223333".to_owned()), ..plain },
            Options::Acl => RequestOptions { acl: Some("bucket-owner-full-control".to_owned()), ..plain },
            Options::Kms => RequestOptions { encryption: Some(Encryption::Kms(None)), ..plain },
            Options::CustomersKeys => RequestOptions { signed_by: Side::Customer, ..plain },
            Options::NoChecksums => RequestOptions { checksum: Checksum::WhenRequired, ..plain },
        }
    }

    fn words(self) -> &'static str {
        match self {
            Options::Plain => "",
            Options::Owner => ", `expected_bucket_owner` set",
            Options::Acl => ", `acl` set",
            Options::Kms => ", `encryption = \"aws:kms\"`",
            Options::CustomersKeys => ", signed with the customer's key pair",
            Options::NoChecksums => ", `checksum = \"when_required\"`",
        }
    }
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    use Operation::{AbortMultipartUpload as Abort, CompleteMultipartUpload as Complete, CreateMultipartUpload as Create, DeleteObject as Delete, GetObject as Get, ListObjectsV2 as List, PutObject as Put, UploadPart as PartUp};
    use Options::{Acl, CustomersKeys, Kms, NoChecksums, Owner, Plain};
    use Side::{Customer, Vendor};
    vec![
        (Create, Customer, Plain, 403, "AccessDenied", "Access Denied"),
        (PartUp, Customer, Plain, 403, "AccessDenied", "Access Denied"),
        (Complete, Customer, Plain, 403, "AccessDenied", "Access Denied"),
        (Abort, Customer, Plain, 403, "AccessDenied", "Access Denied"),
        (Put, Customer, Plain, 403, "AccessDenied", "Access Denied"),
        (Delete, Customer, Plain, 403, "AccessDenied", "Access Denied"),
        (Get, Customer, Plain, 403, "AccessDenied", "Access Denied"),
        (List, Customer, Plain, 403, "AccessDenied", "Access Denied"),
        (Create, Customer, Owner, 403, "AccessDenied", "Access Denied"),
        (Create, Customer, Acl, 403, "AccessDenied", "Access Denied"),
        (Create, Customer, Kms, 403, "AccessDenied", "Access Denied"),
        (Create, Customer, Kms, 403, "AccessDenied", "User: arn:aws:sts::999988887777:assumed-role/dayport/dayport is not authorized to perform: kms:GenerateDataKey on resource: arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab because no resource-based policy allows the kms:GenerateDataKey action"),
        (Put, Customer, Plain, 403, "AccessDenied", "User: arn:aws:sts::999988887777:assumed-role/dayport/dayport is not authorized to perform: s3:PutObject on resource: \"arn:aws:s3:::acme-events/k\" with an explicit deny in a service control policy"),
        (Put, Customer, Plain, 403, "AccessDenied", "User: arn:aws:sts::999988887777:assumed-role/dayport/dayport is not authorized to perform: s3:PutObject on resource: \"arn:aws:s3:::acme-events/k\" because no identity-based policy allows the s3:PutObject action"),
        (Put, Customer, CustomersKeys, 403, "AccessDenied", "User: arn:aws:iam::111122223333:user/dayport is not authorized to perform: s3:PutObject on resource: \"arn:aws:s3:::acme-events/k\" because no identity-based policy allows the s3:PutObject action"),
        (Put, Customer, Plain, 403, "AccessDenied", "User: arn:aws:sts::999988887777:assumed-role/dayport/dayport is not authorized to perform: s3:PutObject on resource: \"arn:aws:s3:::acme-events/k\" with an explicit deny in a resource-based policy"),
        (Delete, Customer, Plain, 403, "AccessDenied", "Access Denied because object protected by object lock."),
        (List, Vendor, Plain, 403, "AccessDenied", "Access Denied"),
        (Put, Vendor, Plain, 403, "AccessDenied", "Access Denied"),
        (Put, Customer, Plain, 403, "AllAccessDisabled", "All access to this object has been disabled"),
        (Put, Customer, Plain, 403, "AccountProblem", "There is a problem with your AWS account that prevents the operation from completing successfully."),
        (Get, Vendor, Plain, 403, "InvalidPayer", "All access to this object has been disabled."),
        (Get, Vendor, Plain, 403, "NotSignedUp", "Your account is not signed up for the Amazon S3 service."),
        (Get, Vendor, Plain, 403, "InvalidObjectState", "The operation is not valid for the object's storage class"),
        (Put, Customer, Plain, 405, "MethodNotAllowed", "The specified method is not allowed against this resource."),
        (Create, Customer, Plain, 404, "NoSuchBucket", "The specified bucket does not exist"),
        (List, Vendor, Plain, 404, "NoSuchBucket", "The specified bucket does not exist"),
        (List, Vendor, Plain, 400, "InvalidBucketName", "The specified bucket is not valid."),
        (Create, Customer, Plain, 301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint. Please send all future requests to this endpoint."),
        (Create, Customer, Plain, 307, "TemporaryRedirect", "Please re-send this request to the specified temporary endpoint. Continue to use the original request endpoint for future requests."),
        (Create, Customer, Plain, 400, "AuthorizationHeaderMalformed", "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-central-1'"),
        (Create, Customer, CustomersKeys, 400, "AuthorizationHeaderMalformed", "The authorization header is malformed; a non-empty Access Key (AKID) must be provided in the credential."),
        (Create, Customer, Plain, 400, "IllegalLocationConstraintException", "The ap-east-1 location constraint is incompatible for the region specific endpoint this request was sent to."),
        (Create, Customer, Kms, 400, "KMS.DisabledException", "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab is disabled."),
        (Put, Vendor, Plain, 400, "KMS.DisabledException", "arn:aws:kms:eu-central-1:999988887777:key/1234abcd-12ab-34cd-56ef-1234567890ab is disabled."),
        (Create, Customer, Kms, 400, "KMS.NotFoundException", "Key 'arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab' does not exist"),
        (Create, Customer, Kms, 400, "KMS.KMSInvalidStateException", "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab is pending deletion."),
        (Create, Customer, Kms, 400, "KMS.InvalidKeyUsageException", "The key usage is not ENCRYPT_DECRYPT."),
        (Create, Customer, Kms, 500, "KMS.KeyUnavailableException", "The key is not available."),
        (Create, Customer, Kms, 400, "KMS.ThrottlingException", "You have exceeded the rate at which you may call KMS."),
        (Create, Customer, Kms, 400, "KMS.SomethingNew", "Something new."),
        (Create, Customer, Plain, 400, "ExpiredToken", "The provided token has expired."),
        (Create, Customer, CustomersKeys, 400, "ExpiredToken", "The provided token has expired."),
        (Create, Customer, Plain, 400, "TokenRefreshRequired", "The provided token must be refreshed."),
        (Create, Customer, Plain, 400, "InvalidToken", "The provided token is malformed or otherwise not valid."),
        (Create, Customer, Plain, 403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."),
        (Create, Customer, CustomersKeys, 403, "InvalidAccessKeyId", "The AWS Access Key Id AKIADAYPORTTEST00000 you provided does not exist in our records."),
        (Create, Customer, Plain, 403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. Check your key and signing method."),
        (Create, Customer, CustomersKeys, 403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. Check your key and signing method."),
        (Create, Customer, Plain, 403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."),
        (Create, Customer, Plain, 400, "RequestExpired", "Request has expired."),
        (Create, Customer, Acl, 400, "AccessControlListNotSupported", "The bucket does not allow ACLs"),
        (Create, Customer, Plain, 400, "InvalidEncryptionAlgorithmError", "The encryption request that you specified is not valid. The valid value is AES256."),
        (Create, Customer, Plain, 501, "NotImplemented", "A header you provided implies functionality that is not implemented."),
        (Create, Customer, Plain, 400, "KeyTooLongError", "Your key is too long."),
        (PartUp, Customer, Plain, 503, "SlowDown", "Please reduce your request rate."),
        (PartUp, Customer, Plain, 400, "Throttling", "Rate exceeded"),
        (PartUp, Customer, Plain, 400, "ThrottlingException", "Rate exceeded"),
        (PartUp, Customer, Plain, 503, "ServiceUnavailable", "Service is unable to handle request."),
        (Complete, Customer, Plain, 200, "InternalError", "We encountered an internal error. Please try again."),
        (PartUp, Customer, Plain, 400, "RequestTimeout", "Your socket connection to the server was not read from or written to within the timeout period. Idle connections will be closed."),
        (PartUp, Customer, Plain, 400, "IncompleteBody", "You did not provide the number of bytes specified by the Content-Length HTTP header."),
        (PartUp, Customer, Plain, 400, "BadDigest", "The CRC64NVME you specified did not match the calculated checksum."),
        (Complete, Customer, Plain, 400, "BadDigest", "The CRC64NVME you specified did not match the calculated checksum."),
        (PartUp, Customer, Plain, 400, "XAmzContentChecksumMismatch", "The provided 'x-amz-checksum' header does not match what was computed."),
        (PartUp, Customer, Plain, 400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed."),
        (Delete, Customer, Plain, 409, "OperationAborted", "A conflicting conditional operation is currently in progress against this resource. Try again."),
        (Put, Customer, Plain, 409, "ConditionalRequestConflict", "The conditional request cannot succeed due to a conflicting operation against this resource."),
        (Put, Customer, Plain, 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"),
        (Get, Vendor, Plain, 404, "NoSuchKey", "The specified key does not exist."),
        (Get, Vendor, Plain, 416, "InvalidRange", "The requested range is not satisfiable"),
        (PartUp, Customer, Plain, 404, "NoSuchUpload", "The specified multipart upload does not exist. The upload ID might be invalid, or the multipart upload might have been aborted or completed."),
        (Complete, Customer, Plain, 400, "InvalidPart", "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag."),
        (Complete, Customer, Plain, 400, "InvalidPartOrder", "The list of parts was not in ascending order. The parts list must be specified in order by part number."),
        (Complete, Customer, Plain, 400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed object size."),
        (PartUp, Customer, Plain, 400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size."),
        (Complete, Customer, Plain, 400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema."),
        (PartUp, Customer, Plain, 400, "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive"),
        (PartUp, Customer, Plain, 400, "InvalidDigest", "The Content-MD5 or checksum value that you specified is not valid."),
        (PartUp, Customer, Plain, 411, "MissingContentLength", "You must provide the Content-Length HTTP header."),
        (PartUp, Customer, Plain, 400, "InvalidURI", "Couldn't parse the specified URI."),
        (Put, Customer, NoChecksums, 400, "InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters"),
        (Put, Customer, Acl, 400, "InvalidRequest", "The ACL is not valid for this bucket."),
        (Create, Customer, Kms, 400, "InvalidRequest", "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms"),
        (Put, Customer, Plain, 403, "SomethingNewDenied", "Something new."),
        (Put, Vendor, Plain, 403, "SomethingNewDenied", "Something new."),
        (Put, Customer, Plain, 404, "SomethingNewMissing", "Something new."),
        (Put, Customer, Plain, 400, "SomethingNewRefused", "Something new."),
        (Put, Customer, Plain, 409, "SomethingNewConflicting", "Something new."),
        (Put, Customer, Plain, 503, "SomethingNewBroken", "Something new."),
        (Complete, Customer, Plain, 200, "SomethingNewInA200", "Something new."),
    ]
}

/// Asks for `operation` and gives back how it was refused.
async fn refused(bucket: &S3Bucket, operation: Operation) -> Error {
    let key = "exports/data/domains/data-000000000000.json.gz";
    let body = Bytes::from("body");
    match operation {
        Operation::ListObjectsV2 => bucket.list_page("events/2026-01-15/", None).await.map(drop),
        Operation::GetObject => bucket.read_from(key, 0, "\"etag\"").await.map(drop),
        Operation::PutObject => bucket.put(key, body, "application/json", &Condition::None).await.map(drop),
        Operation::CreateMultipartUpload => bucket.create(key, "application/gzip").await.map(drop),
        Operation::UploadPart => bucket.part(key, "id", 1, body).await.map(drop),
        Operation::CompleteMultipartUpload => {
            let parts = vec![Part { number: 1, etag: "\"e\"".to_owned(), checksum: None }];
            let upload = Upload { key: key.to_owned(), id: "id".to_owned(), parts, size: 4, checksum: None };
            bucket.complete(&upload).await.map(drop)
        }
        Operation::AbortMultipartUpload => bucket.abort(key, "id").await,
        Operation::DeleteObject => bucket.delete(key).await,
        Operation::ListMultipartUploads => bucket.list_uploads("exports/").await.map(drop),
    }
    .unwrap_err()
}

fn is_fit_to_print(error: &Error) {
    let said = format!("{error} {error:?}");
    for secret in [KEY_ID, SECRET, TOKEN] {
        assert!(!said.contains(secret), "{said}");
    }
    assert!(!said.chars().any(char::is_control), "one line: {said:?}");
    let message = error.message();
    assert!(message.starts_with(char::is_lowercase) && !message.ends_with('.'), "{message}");
}

#[tokio::test]
async fn every_refusal_has_its_kind_and_says_what_to_do() {
    let mut said = GOLDEN.lines().take_while(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n");
    for (operation, side, options, status, code, message) in cases() {
        let replay = Replay::always(Reply::error(status, code, message));
        let bucket = replay.bucket(options.ready(), side, Some("us-east-1"));
        let error = refused(&bucket, operation).await;
        is_fit_to_print(&error);
        let whose = if side == Side::Customer { "the customer's bucket" } else { "our bucket" };
        let words = options.words();
        write!(said, "\n\n{code} ({status}) to {operation}, {whose}{words}\n{}: {error}", error.kind()).unwrap();
    }
    said.push('\n');
    if said != GOLDEN {
        let fresh = std::env::temp_dir().join("refusals.txt");
        std::fs::write(&fresh, &said).unwrap();
        let differs = said.lines().zip(GOLDEN.lines()).find(|(now, golden)| now != golden);
        panic!("tests/golden/refusals.txt is not what is said now ({}): {differs:#?}", fresh.display());
    }
}

#[test]
fn every_code_of_the_table_is_replayed_once_at_least() {
    let replayed: BTreeSet<&str> = cases().iter().map(|case| case.4).collect();
    let missing: Vec<&str> = known_codes().into_iter().filter(|code| !replayed.contains(code)).collect();
    assert_eq!(missing, [""; 0]);
    let mut seen = BTreeSet::new();
    assert!(known_codes().into_iter().all(|code| seen.insert(code)), "a code has one row");
}

#[tokio::test]
async fn what_is_not_s3_that_answers_is_told_apart() {
    let page = "<html><body>Blocked by the proxy, \u{7} sorry</body></html>";
    for (status, kind) in [(403, Kind::Customer), (502, Kind::Retryable), (302, Kind::Customer), (400, Kind::Vendor)] {
        let replay = Replay::always(Reply::new(status, page));
        let error =
            refused(&replay.bucket(RequestOptions::default(), Side::Customer, Some("us-east-1")), Operation::PutObject).await;
        assert_eq!(error.kind(), kind, "{status}: {error}");
        is_fit_to_print(&error);
    }
}

fn clients_of(config: SdkConfig) -> Clients {
    Clients::new(config, hasty(2))
}

fn customers_bucket(clients: &Clients) -> S3Bucket {
    let address = Address { bucket: "acme-events".to_owned(), region: None, path_style: false };
    clients.bucket(&address, None, RequestOptions::default(), Side::Customer)
}

#[tokio::test]
async fn an_endpoint_that_nobody_listens_on_is_retryable() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let replay = Replay::always(Reply::new(200, ""));
    let config = replay.clients(1).sdk_config().clone();
    let config = config.into_builder().endpoint_url(format!("http://127.0.0.1:{port}")).build();
    for operation in Operation::ALL {
        let error = refused(&customers_bucket(&clients_of(config.clone())), operation).await;
        assert_eq!(error.kind(), Kind::Retryable, "{error}");
        assert!(error.message().contains("S3 could not be reached"), "{error}");
        is_fit_to_print(&error);
    }
}

#[tokio::test]
async fn missing_credentials_are_ours_to_give() {
    let replay = Replay::always(Reply::new(200, ""));
    let profile = aws_config::profile::ProfileFileCredentialsProvider::builder().profile_name("there-is-none-such").build();
    let with_profile = replay.clients(1).sdk_config().clone().into_builder();
    let with_profile = with_profile.credentials_provider(aws_sdk_s3::config::SharedCredentialsProvider::new(profile)).build();
    for operation in Operation::ALL {
        let error = refused(&customers_bucket(&clients_of(with_profile.clone())), operation).await;
        assert_eq!(error.kind(), Kind::Vendor, "{error}");
        assert!(error.message().contains("there are no credentials to sign with"), "{error}");
        is_fit_to_print(&error);
    }
    assert!(replay.seen().is_empty(), "nothing is sent unsigned");
}

/// A role of the customer's, assumed at a replayed STS.
async fn bucket_behind_a_role(sts: &Replay, s3: &Replay) -> S3Bucket {
    let ours = sts.clients(1).sdk_config().credentials_provider().unwrap();
    let config = aws_config::defaults(BehaviorVersion::latest())
        .endpoint_url(sts.url())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(ours)
        .retry_config(RetryConfig::disabled())
        .load()
        .await;
    let role = aws_config::sts::AssumeRoleProvider::builder("arn:aws:iam::111122223333:role/acme-dayport")
        .session_name("dayport")
        .configure(&config)
        .build()
        .await;
    let address = Address { bucket: "acme-events".to_owned(), region: None, path_style: false };
    let credentials = Some(aws_sdk_s3::config::SharedCredentialsProvider::new(role));
    s3.clients(1).bucket(&address, credentials, RequestOptions::default(), Side::Customer)
}

#[tokio::test]
async fn a_role_that_can_not_be_assumed_is_told_apart_from_a_bucket_that_refuses() {
    let sts_error = |status, code: &str, message: &str| {
        let body = format!(
            "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
             <Code>{code}</Code><Message>{message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"
        );
        Reply::new(status, body).with("content-type", "text/xml")
    };
    let denied = "User: arn:aws:sts::999988887777:assumed-role/dayport/dayport is not authorized to perform: sts:AssumeRole on resource: arn:aws:iam::111122223333:role/acme-dayport";
    let cases = [
        (sts_error(403, "AccessDenied", denied), Kind::Customer, "trust policy"),
        (sts_error(400, "Throttling", "Rate exceeded"), Kind::Retryable, "for the moment"),
        (
            sts_error(403, "InvalidClientTokenId", "The security token included in the request is invalid."),
            Kind::Vendor,
            "credentials",
        ),
    ];
    for (reply, kind, words) in cases {
        let (sts, s3) = (Replay::always(reply), Replay::always(Reply::new(200, "")));
        let error = refused(&bucket_behind_a_role(&sts, &s3).await, Operation::CreateMultipartUpload).await;
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(words), "{error}");
        is_fit_to_print(&error);
        assert!(s3.seen().is_empty(), "nothing is sent unsigned");
    }
}

#[tokio::test]
async fn no_secret_is_in_what_debug_prints() {
    let replay = Replay::always(Reply::error(403, "AccessDenied", "Access Denied"));
    let bucket = replay.bucket(RequestOptions::default(), Side::Customer, None);
    refused(&bucket, Operation::PutObject).await;
    let printed = format!("{bucket:?} {:?}", replay.clients(1));
    assert!(!printed.contains(SECRET) && !printed.contains(TOKEN), "{printed}");
}

#[tokio::test]
async fn a_store_that_never_answers_is_given_up_and_is_retryable() {
    let replay = Replay::new(|_, _| {
        std::thread::sleep(Duration::from_secs(2));
        Reply::new(200, "")
    });
    let patience = Retries { attempt: Duration::from_millis(500), ..hasty(2) };
    let clients = Clients::new(replay.clients(1).sdk_config().clone(), patience);
    for operation in [Operation::ListObjectsV2, Operation::UploadPart, Operation::DeleteObject] {
        let error = refused(&customers_bucket(&clients), operation).await;
        assert_eq!(error.kind(), Kind::Retryable, "{error}");
        assert!(error.message().contains("(no answer in time)"), "{error}");
    }
    assert_eq!(replay.seen().len(), 6, "each was tried twice");
}
