//! Tests of what goes over the wire: each operation's headers, addressing, retries, redirects, resumed reads.

use bytes::Bytes;

use super::replay::{Replay, Reply, Seen};
use super::{Address, Clients, RequestOptions, Retries, S3Bucket, Side};
use crate::domain::error::Kind;
use crate::domain::settings::{Checksum, Encryption};
use crate::store::checksum::Crc64Nvme;
use crate::store::operation::Operation;
use crate::store::ports::{
    Body, Completed, Condition, Delete, List, ListUploads as _, Multipart, ObjectInfo, Part, Put, Read, Upload, Write,
};
use crate::store::resume::ResumingBody;

const KEY_ARN: &str = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";

fn everything() -> RequestOptions {
    RequestOptions {
        expected_bucket_owner: Some("111122223333".to_owned()),
        encryption: Some(Encryption::Kms(Some(KEY_ARN.to_owned()))),
        acl: Some("bucket-owner-full-control".to_owned()),
        requester_pays: true,
        checksum: Checksum::Always,
        signed_by: Side::Vendor,
    }
}

fn upload_of(parts: &[&[u8]]) -> Upload {
    let mut whole = Crc64Nvme::new();
    for part in parts {
        whole.update(part);
    }
    Upload {
        key: "exports/a b.json.gz".to_owned(),
        id: "upload/1".to_owned(),
        parts: (1..)
            .zip(parts)
            .map(|(number, part)| Part {
                number,
                etag: format!("\"etag-{number}\""),
                checksum: Some(Crc64Nvme::of(part).base64()),
            })
            .collect(),
        size: whole.bytes(),
        checksum: Some(whole.base64()),
    }
}

/// Answers each operation with success, as S3 does.
fn succeed(_: usize, seen: &Seen) -> Reply {
    let etag = "\"9b2cf535f27731c974343645a3985328\"";
    let query = seen.target.split_once('?').map_or("", |(_, query)| query);
    let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    match seen.method.as_str() {
        "GET" if has("list-type") => Reply::new(200, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"),
        "GET" if has("uploads") => {
            Reply::new(200, "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>")
        }
        "GET" => Reply::new(200, "body").with("etag", etag),
        "POST" if has("uploads") => {
            Reply::new(200, "<InitiateMultipartUploadResult><UploadId>upload/1</UploadId></InitiateMultipartUploadResult>")
        }
        "POST" => Reply::new(200, format!("<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>")),
        "DELETE" => Reply::new(204, ""),
        _ => Reply::new(200, "").with("etag", etag),
    }
}

/// Makes one request of each operation.
async fn one_of_each(bucket: &S3Bucket) {
    let key = "exports/a b.json.gz";
    bucket.list_page("exports/", None).await.unwrap();
    bucket.read_from(key, 0, "\"etag\"").await.unwrap();
    bucket.put(key, Bytes::from("body"), "application/json", &Condition::None).await.unwrap();
    let id = bucket.create(key, "application/gzip").await.unwrap();
    let part = bucket.part(key, &id, 1, Bytes::from("part")).await.unwrap();
    assert_eq!(part.number, 1);
    assert_eq!(bucket.complete(&upload_of(&[b"part"])).await.unwrap(), Completed::Done);
    bucket.abort(key, &id).await.unwrap();
    bucket.delete(key).await.unwrap();
    assert_eq!(bucket.list_uploads("exports/").await.unwrap(), []);
}

/// The headers whose presence options decide; every other one is the SDK's own.
const DECIDED: [&str; 10] = [
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-acl",
    "x-amz-checksum-algorithm",
    "x-amz-checksum-type",
    "x-amz-checksum-crc64nvme",
    "x-amz-mp-object-size",
    "x-amz-storage-class",
];

#[tokio::test]
async fn every_operation_carries_exactly_the_headers_that_the_options_say() {
    let all = everything();
    let mut without_checksums = everything();
    without_checksums.checksum = Checksum::WhenRequired;
    without_checksums.encryption = Some(Encryption::Aes256);
    let none = RequestOptions { checksum: Checksum::WhenRequired, ..RequestOptions::default() };
    for options in [all, without_checksums, none, RequestOptions::default()] {
        let replay = Replay::new(succeed);
        one_of_each(&replay.bucket(options.clone(), Side::Customer, Some("us-east-1"))).await;
        let seen = replay.seen();
        assert_eq!(seen.len(), Operation::ALL.len());
        for (operation, request) in Operation::ALL.into_iter().zip(seen) {
            let mut expected = options.headers(operation);
            expected.sort_unstable();
            let mut carried: Vec<&str> = DECIDED.into_iter().filter(|name| request.header(name).is_some()).collect();
            carried.sort_unstable();
            assert_eq!(carried, expected, "{operation} with {options:?}");
            let stray = request.headers.keys().find(|name| {
                (name.starts_with("x-amz-checksum") || name.contains("sdk-checksum") || name.contains("customer-algorithm"))
                    && !expected.contains(&name.as_str())
            });
            assert_eq!(stray, None, "{operation} with {options:?}");
        }
    }
}

#[tokio::test]
async fn the_headers_say_what_the_options_hold() {
    let replay = Replay::new(succeed);
    one_of_each(&replay.bucket(everything(), Side::Customer, Some("us-east-1"))).await;
    let seen = replay.seen();
    let [list, get, put, create, part, complete, abort, delete, uploads] = seen.as_slice() else { panic!("{seen:?}") };
    for request in &seen {
        assert_eq!(request.header("x-amz-expected-bucket-owner"), Some("111122223333"));
        assert_eq!(request.header("x-amz-request-payer"), Some("requester"));
    }
    for request in [put, create] {
        assert_eq!(request.header("x-amz-server-side-encryption"), Some("aws:kms"));
        assert_eq!(request.header("x-amz-server-side-encryption-aws-kms-key-id"), Some(KEY_ARN));
        assert_eq!(request.header("x-amz-acl"), Some("bucket-owner-full-control"));
    }
    assert_eq!(put.header("x-amz-checksum-crc64nvme"), Some(Crc64Nvme::of(b"body").base64().as_str()));
    assert_eq!(create.header("x-amz-checksum-algorithm"), Some("CRC64NVME"));
    assert_eq!(create.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
    assert_eq!(create.header("content-type"), Some("application/gzip"));
    assert_eq!(part.header("x-amz-checksum-crc64nvme"), Some(Crc64Nvme::of(b"part").base64().as_str()));
    assert_eq!(complete.header("x-amz-checksum-crc64nvme"), Some(Crc64Nvme::of(b"part").base64().as_str()));
    assert_eq!(complete.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
    assert_eq!(complete.header("x-amz-mp-object-size"), Some("4"));
    let body = String::from_utf8_lossy(&complete.body).into_owned();
    assert!(body.contains(&format!("<ChecksumCRC64NVME>{}</ChecksumCRC64NVME>", Crc64Nvme::of(b"part").base64())), "{body}");
    for request in [put, create, part] {
        assert_eq!(request.header("content-encoding"), None, "gzip is the object's type, not its transfer");
    }
    let path = "/acme-events/exports/a%20b.json.gz";
    let targets: Vec<&str> = [get, put, create, part, complete, abort, delete]
        .iter()
        .map(|request| request.target.split_once('?').map_or(request.target.as_str(), |(path, _)| path))
        .collect();
    assert_eq!(targets, [path; 7], "a custom endpoint is addressed by path");
    assert!(list.target.starts_with("/acme-events"), "{}", list.target);
    for wanted in ["prefix=exports%2F", "encoding-type=url", "max-keys=1000", "list-type=2"] {
        assert!(list.target.contains(wanted), "{wanted} in {}", list.target);
    }
    assert!(uploads.target.starts_with("/acme-events") && !uploads.target.contains("list-type"), "{}", uploads.target);
    for wanted in ["uploads", "prefix=exports%2F", "encoding-type=url", "max-uploads=1000"] {
        assert!(uploads.target.contains(wanted), "{wanted} in {}", uploads.target);
    }
    assert!(part.target.contains("partNumber=1") && part.target.contains("uploadId=upload%2F1"), "{}", part.target);
}

#[tokio::test]
async fn conditions_become_headers_and_losing_is_an_answer() {
    let replay = Replay::new(|number, _| match number {
        0 | 1 => Reply::new(200, "").with("etag", "\"new\""),
        2 => Reply::error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"),
        3 => Reply::error(409, "ConditionalRequestConflict", "A conflicting operation occurred"),
        _ => Reply::error(404, "NoSuchKey", "The specified key does not exist."),
    });
    let bucket = replay.bucket(RequestOptions::default(), Side::Vendor, Some("us-east-1"));
    let unchanged = Condition::Unchanged("\"old\"".to_owned());
    let put = |condition: Condition| {
        let bucket = bucket.clone();
        async move { bucket.put("head.json", Bytes::from("{}"), "application/json", &condition).await.unwrap() }
    };
    assert_eq!(put(Condition::Absent).await, Put::Done("\"new\"".to_owned()));
    assert_eq!(put(unchanged.clone()).await, Put::Done("\"new\"".to_owned()));
    for _ in 2..5 {
        assert_eq!(put(unchanged.clone()).await, Put::Lost);
    }
    let seen = replay.seen();
    assert_eq!((seen[0].header("if-none-match"), seen[0].header("if-match")), (Some("*"), None));
    assert_eq!((seen[1].header("if-none-match"), seen[1].header("if-match")), (None, Some("\"old\"")));
}

#[tokio::test]
async fn throttling_and_failures_of_the_moment_are_outlasted() {
    let replay = Replay::new(|number, seen| match number {
        0..=3 => Reply::error(503, "SlowDown", "Please reduce your request rate."),
        4 | 5 => Reply::error(500, "InternalError", "We encountered an internal error. Please try again."),
        6 => Reply::new(200, "").cut_after(0).with("connection", "close"),
        7 => Reply::error(400, "RequestTimeout", "Your socket connection to the server was not read from or written to"),
        _ => succeed(number, seen),
    });
    let address = Address { bucket: "acme-events".to_owned(), region: None, path_style: false };
    let bucket = replay.clients(12).bucket(&address, None, RequestOptions::default(), Side::Customer);
    bucket.create("k", "application/json").await.unwrap();
    assert_eq!(replay.seen().len(), 9);
}

#[tokio::test]
async fn damage_on_the_way_is_sent_again() {
    let replay = Replay::new(|number, seen| match number {
        0 | 1 => Reply::error(400, "BadDigest", "The CRC64NVME you specified did not match the calculated checksum."),
        _ => succeed(number, seen),
    });
    let bucket = replay.bucket(RequestOptions::default(), Side::Customer, Some("us-east-1"));
    bucket.part("k", "id", 1, Bytes::from("part")).await.unwrap();
    assert_eq!(replay.seen().len(), 3);
    let lasting = Replay::always(Reply::error(400, "BadDigest", "The CRC64NVME you specified did not match."));
    let bucket = lasting.bucket(RequestOptions::default(), Side::Customer, Some("us-east-1"));
    let error = bucket.part("k", "id", 1, Bytes::from("part")).await.unwrap_err();
    assert_eq!((error.kind(), lasting.seen().len()), (Kind::Retryable, 4));
}

#[tokio::test]
async fn a_completion_is_done_only_when_its_body_says_so() {
    // S3 sends 200 before it has begun: an error in the body is an error, and is tried again when time may mend it.
    let replay = Replay::new(|number, seen| match number {
        0 => Reply::error(200, "InternalError", "We encountered an internal error. Please try again."),
        1 => Reply::error(200, "OperationAborted", "A conflicting conditional operation is currently in progress"),
        2 => Reply::error(200, "SlowDown", "Please reduce your request rate."),
        _ => succeed(number, seen),
    });
    let address = Address { bucket: "acme-events".to_owned(), region: None, path_style: false };
    let bucket = replay.clients(5).bucket(&address, None, RequestOptions::default(), Side::Customer);
    assert_eq!(bucket.complete(&upload_of(&[b"part"])).await.unwrap(), Completed::Done);
    assert_eq!(replay.seen().len(), 4);

    let refused = Replay::always(Reply::error(200, "AccessDenied", "Access Denied"));
    let bucket = refused.bucket(RequestOptions::default(), Side::Customer, Some("us-east-1"));
    assert_eq!(bucket.complete(&upload_of(&[b"part"])).await.unwrap_err().kind(), Kind::Customer);

    // A connection that ends after the status line's 200 must not count as done either.
    for body in
        ["", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>"]
    {
        let silent = Replay::always(Reply::new(200, body));
        let bucket = silent.bucket(RequestOptions::default(), Side::Customer, Some("us-east-1"));
        let error = bucket.complete(&upload_of(&[b"part"])).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Retryable, "{body:?}: {error}");
    }
}

#[tokio::test]
async fn an_unknown_upload_is_an_answer_to_complete_and_fine_to_abort() {
    let message = "The specified multipart upload does not exist. The upload ID might be invalid, or it might have been aborted.";
    let replay = Replay::always(Reply::error(404, "NoSuchUpload", message));
    let bucket = replay.bucket(RequestOptions::default(), Side::Customer, Some("us-east-1"));
    assert_eq!(bucket.complete(&upload_of(&[b"part"])).await.unwrap(), Completed::NoSuchUpload);
    bucket.abort("k", "id").await.unwrap();
    assert_eq!(bucket.part("k", "id", 1, Bytes::from("part")).await.unwrap_err().kind(), Kind::Retryable);
}

#[tokio::test]
async fn the_region_is_found_out_when_it_is_left_out_and_remembered() {
    let moved = "The bucket you are attempting to access must be addressed using the specified endpoint.";
    let malformed = "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-central-1'";
    let opt_in =
        "The eu-central-1 location constraint is incompatible for the region specific endpoint this request was sent to.";
    let answers = [
        Reply::error(301, "PermanentRedirect", moved).with("x-amz-bucket-region", "eu-central-1"),
        Reply::error(400, "AuthorizationHeaderMalformed", malformed),
        Reply::error(400, "IllegalLocationConstraintException", opt_in),
        Reply::new(301, "").with("x-amz-bucket-region", "eu-central-1"),
        Reply::new(400, "").with("x-amz-bucket-region", "eu-central-1"),
    ];
    for answer in answers {
        let elsewhere = answer.clone();
        let replay = Replay::new(move |number, seen| {
            let signed_for_it = seen.header("authorization").unwrap().contains("/eu-central-1/s3/");
            if signed_for_it { succeed(number, seen) } else { elsewhere.clone() }
        });
        let bucket = replay.bucket(RequestOptions::default(), Side::Customer, None);
        bucket.create("k", "application/json").await.unwrap();
        bucket.clone().delete("k").await.unwrap();
        assert_eq!(replay.seen().len(), 3, "asked once in the wrong region: {answer:?}");
        assert_eq!(bucket.region().as_deref(), Some("eu-central-1"));

        // A region that was configured is not overruled: the error names the right one.
        let configured = replay.bucket(RequestOptions::default(), Side::Customer, Some("us-west-2"));
        let error = configured.create("k", "application/json").await.unwrap_err();
        assert_eq!(error.kind(), Kind::Customer, "{error}");
        assert!(error.message().contains("set `s3_region = \"eu-central-1\"`"), "{error}");
    }
}

#[tokio::test]
async fn no_redirect_is_a_success() {
    for status in [300, 301, 302, 303, 304, 307, 308] {
        let replay = Replay::always(Reply::new(status, "").with("location", "http://127.0.0.1:9/"));
        let bucket = replay.bucket(RequestOptions::default(), Side::Customer, None);
        assert!(bucket.put("k", Bytes::from("b"), "application/json", &Condition::None).await.is_err(), "{status}");
        assert!(bucket.delete("k").await.is_err(), "{status}");
        assert!(bucket.abort("k", "id").await.is_err(), "{status}");
        assert!(bucket.list_page("", None).await.is_err(), "{status}");
        assert!(bucket.read_small("k").await.is_err(), "{status}");
    }
}

#[tokio::test]
async fn keys_that_xml_can_not_hold_are_listed_as_they_are() {
    let page = "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
        <Contents><Key>d/a+b%2Bc%01%C3%A9.json</Key><Size>12</Size><ETag>&quot;e1&quot;</ETag></Contents></ListBucketResult>";
    let plain = "<ListBucketResult><IsTruncated>false</IsTruncated>\
        <Contents><Key>d/a+b%2B</Key><Size>0</Size><ETag>\"e2\"</ETag></Contents></ListBucketResult>";
    let replay = Replay::new(move |number, _| Reply::new(200, if number == 0 { page } else { plain }));
    let bucket = replay.bucket(RequestOptions::default(), Side::Vendor, Some("us-east-1"));
    let all = bucket.list_all("d/").await.unwrap();
    let info = |key: &str, size, etag: &str| ObjectInfo { key: key.to_owned(), size, etag: etag.to_owned() };
    assert_eq!(all, [info("d/a b+c\u{1}é.json", 12, "\"e1\""), info("d/a+b%2B", 0, "\"e2\"")]);
    assert!(replay.seen()[1].target.contains("start-after=d%2Fa%20b%2Bc%01%C3%A9.json"), "{}", replay.seen()[1].target);
}

#[tokio::test]
async fn a_missing_document_is_found_missing_by_listing_never_by_a_status() {
    let listing = |keys: &'static str| {
        move |_: usize, seen: &Seen| {
            if seen.target.contains("list-type") {
                Reply::new(200, keys)
            } else {
                Reply::error(403, "AccessDenied", "Access Denied")
            }
        }
    };
    let absent = Replay::new(listing("<ListBucketResult></ListBucketResult>"));
    let bucket = absent.bucket(RequestOptions::default(), Side::Vendor, Some("us-east-1"));
    assert_eq!(bucket.read_small("head.json").await.unwrap(), None);
    let longer = "<ListBucketResult><Contents><Key>head.json.old</Key></Contents></ListBucketResult>";
    let bucket = Replay::new(listing(longer));
    let bucket = bucket.bucket(RequestOptions::default(), Side::Vendor, Some("us-east-1"));
    assert_eq!(bucket.read_small("head.json").await.unwrap(), None, "a longer key is another object");

    // It is there, so the 403 means what it says.
    let there = Replay::new(listing("<ListBucketResult><Contents><Key>head.json</Key></Contents></ListBucketResult>"));
    let bucket = there.bucket(RequestOptions::default(), Side::Vendor, Some("us-east-1"));
    let error = bucket.read_small("head.json").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Vendor);
    assert!(error.message().contains("s3:GetObject"), "{error}");

    let no_list = Replay::always(Reply::error(403, "AccessDenied", "Access Denied"));
    let bucket = no_list.bucket(RequestOptions::default(), Side::Vendor, Some("us-east-1"));
    let error = bucket.read_small("head.json").await.unwrap_err();
    assert!(error.message().contains("s3:ListBucket"), "{error}");

    let usual = Replay::new(succeed);
    let bucket = usual.bucket(RequestOptions::default(), Side::Vendor, Some("us-east-1"));
    let (body, _) = bucket.read_small("head.json").await.unwrap().unwrap();
    assert_eq!((&body[..], usual.seen().len()), (&b"body"[..], 1), "the usual case is one request");
}

#[tokio::test]
async fn a_read_that_breaks_goes_on_where_it_was_with_the_same_etag() {
    let bytes: Vec<u8> = (0..50_000_u32).map(|n| (n % 251) as u8).collect();
    let source = bytes.clone();
    let replay = Replay::new(move |number, seen| {
        let from: usize = seen
            .header("range")
            .map_or(0, |range| range.strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap().parse().unwrap());
        let rest = source[from..].to_vec();
        let status = if from == 0 { 200 } else { 206 };
        let range = format!("bytes {from}-{}/{}", source.len() - 1, source.len());
        let reply = Reply::new(status, rest).with("etag", "\"e\"");
        let reply = if from == 0 { reply } else { reply.with("content-range", &range) };
        if number < 4 { reply.cut_after(7_001) } else { reply }
    });
    let bucket = replay.bucket(RequestOptions::default(), Side::Vendor, Some("us-east-1"));
    let object = ObjectInfo { key: "d/a.json".to_owned(), size: 50_000, etag: "\"e\"".to_owned() };
    let mut body = ResumingBody::new(&bucket, object);
    let mut got = Vec::new();
    while let Some(piece) = body.next().await {
        got.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(got, bytes);
    let seen = replay.seen();
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|request| request.header("if-match") == Some("\"e\"")));
    assert_eq!(seen[0].header("range"), None, "a range from 0 would be refused for an empty object");
}

#[tokio::test]
async fn an_object_that_changed_or_vanished_is_said_by_name() {
    let message = "At least one of the pre-conditions you specified did not hold";
    let replay = Replay::always(Reply::error(412, "PreconditionFailed", message));
    let bucket = replay.bucket(RequestOptions::default(), Side::Vendor, Some("us-east-1"));
    let error = bucket.read_from("d/a.json", 5, "\"e\"").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retryable);
    assert!(error.message().contains("`d/a.json`") && error.message().contains("changed while it was read"), "{error}");

    let whole = Replay::always(Reply::new(200, "whole"));
    let bucket = whole.bucket(RequestOptions::default(), Side::Vendor, Some("us-east-1"));
    let error = bucket.read_from("d/a.json", 2, "\"e\"").await.unwrap_err();
    assert!(error.message().contains("not the range"), "a store that ignores ranges would repeat bytes: {error}");
}

#[test]
fn names_with_dots_and_custom_endpoints_are_addressed_by_path() {
    use aws_sdk_s3::config::endpoint::{Params, ResolveEndpoint};
    let resolve = |bucket: &str, endpoint: Option<&str>, path_style: bool| {
        let addressing = super::client::Addressing::new(path_style);
        let params =
            Params::builder().bucket(bucket).region("eu-central-1").set_endpoint(endpoint.map(str::to_owned)).build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(addressing.resolve_endpoint(&params)).unwrap().url().to_owned()
    };
    assert_eq!(resolve("acme", None, false), "https://acme.s3.eu-central-1.amazonaws.com");
    assert_eq!(resolve("acme", None, true), "https://s3.eu-central-1.amazonaws.com/acme");
    assert_eq!(resolve("data.acme.com", None, false), "https://s3.eu-central-1.amazonaws.com/data.acme.com");
    assert_eq!(resolve("acme", Some("http://localhost:9000"), false), "http://localhost:9000/acme");
}

/// Run by the test below in a process of its own, since the environment of this one is everybody's.
#[tokio::test]
#[ignore = "the test below runs it with an environment of its own"]
async fn list_a_bucket_as_the_environment_says() {
    let clients = Clients::from_environment(Retries { attempts: 1, ..Retries::default() }).await;
    let address = Address { bucket: "acme-events".to_owned(), region: None, path_style: false };
    clients.bucket(&address, None, RequestOptions::default(), Side::Vendor).list_page("d/", None).await.unwrap();
}

#[test]
fn the_endpoint_of_the_environment_is_used_and_addressed_by_path() {
    for variable in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"] {
        let replay = Replay::new(succeed);
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::s3::requests::list_a_bucket_as_the_environment_says", "--ignored"])
            .env_clear()
            .envs([("AWS_ACCESS_KEY_ID", "local"), ("AWS_SECRET_ACCESS_KEY", "localsecret")])
            // What the environment says of checksums is overruled in code.
            .envs([("AWS_REQUEST_CHECKSUM_CALCULATION", "when_supported"), (variable, replay.url().as_str())])
            .output()
            .unwrap();
        assert!(child.status.success(), "{variable}: {}", String::from_utf8_lossy(&child.stdout));
        let seen = replay.seen();
        assert_eq!(seen.len(), 1, "{variable}");
        assert!(seen[0].target.starts_with("/acme-events"), "{variable}: {}", seen[0].target);
        let authorization = seen[0].header("authorization").unwrap();
        assert!(authorization.contains("/us-east-1/s3/"), "without a region it is us-east-1: {authorization}");
        assert!(seen[0].header("user-agent").unwrap().contains("app/dayport"), "{:?}", seen[0].header("user-agent"));
    }
}
