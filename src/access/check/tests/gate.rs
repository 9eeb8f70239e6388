//! The local S3 behind a gate that refuses what a bucket policy, a key, a region or an ACL setting would.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::super::credentials::{Variables, provider};
use super::super::super::testing::{KEY, SECRET as SECRET_ARN};
use super::*;
use crate::domain::settings::Encryption;
use crate::local::{LocalHandle, LocalKeys, LocalS3, OWNER};
use crate::store::operation::Operation;
use crate::store::s3::replay::{KEY_ID, Replay, Reply, SECRET, Seen};

const GOLDEN: &str = include_str!("../../../../tests/golden/check.txt");

/// What a request asks for.
fn operation(seen: &Seen) -> Operation {
    let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
    let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    let is_bucket = path.trim_matches('/').split('/').count() == 1;
    match seen.method.as_str() {
        "GET" if is_bucket && has("uploads") => Operation::ListMultipartUploads,
        "GET" if is_bucket => Operation::ListObjectsV2,
        "GET" => Operation::GetObject,
        "POST" if has("uploads") => Operation::CreateMultipartUpload,
        "POST" => Operation::CompleteMultipartUpload,
        "PUT" if has("uploadId") => Operation::UploadPart,
        "PUT" => Operation::PutObject,
        _ if has("uploadId") => Operation::AbortMultipartUpload,
        _ => Operation::DeleteObject,
    }
}

/// Sends a request on as it came, signature and all.
fn forward(to: SocketAddr, seen: &Seen) -> Reply {
    let mut request = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", seen.method, seen.target);
    for (name, value) in seen.headers.iter().filter(|(name, _)| !["connection", "expect"].contains(&name.as_str())) {
        write!(request, "{name}: {value}\r\n").unwrap();
    }
    request.push_str("\r\n");
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(&seen.body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: BTreeMap<String, String> =
        lines.map(|line| line.split_once(": ").unwrap()).map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    let mut body = answer[end + 4..].to_vec();
    if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        body = unchunked(&body);
    }
    let skipped = ["content-length", "transfer-encoding", "connection"];
    let kept = headers.iter().filter(|(name, _)| !skipped.contains(&name.as_str()));
    kept.fold(Reply::new(status, body), |reply, (name, value)| reply.with(name, value))
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
}

type Rule = fn(&Seen, Operation) -> Option<Reply>;

struct Gated {
    root: tempfile::TempDir,
    gate: Replay,
    _local: LocalHandle,
}

impl Gated {
    async fn new(rule: Rule) -> Gated {
        let root = tempfile::tempdir().unwrap();
        for bucket in ["acme-events", "dayport-state", "staged-events"] {
            std::fs::create_dir(root.path().join(bucket)).unwrap();
        }
        let keys = LocalKeys { access_key_id: KEY_ID.to_owned(), secret_access_key: SECRET.to_owned() };
        let local = LocalS3::spawn(root.path().to_owned(), keys).await.unwrap();
        let address = local.addr();
        let gate = Replay::new(move |_, seen| rule(seen, operation(seen)).unwrap_or_else(|| forward(address, seen)));
        let gated = Gated { root, gate, _local: local };
        let staging = gated.gate.clients(1).staging(&settings().staging);
        let staged =
            staging.put("events/2026-01-15/a.json", "{}\n".into(), "application/json", &crate::store::ports::Condition::None);
        // Staging is made before the rule can matter: a rule about it refuses reads alone.
        staged.await.unwrap();
        gated
    }

    async fn check(&self, destination: &Destination) -> Report {
        let (settings, clients) = (settings(), self.gate.clients(1));
        let variables: Variables = Arc::new(|_: &str| None);
        let provider = provider(destination, &clients, &variables);
        let signer = credentials(destination, &clients, provider.as_ref()).await;
        let customer = clients.destination(destination, provider);
        let (state, staging) = (clients.state(&settings.state), clients.staging(&settings.staging));
        check(&settings, destination, signer, &customer, &state, &staging).await
    }

    /// Every file of the customer's bucket, parts of open uploads among them.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(self.root.path(), &mut files);
        // What it remembers of completed uploads is no object and no open upload.
        files.retain(|file| {
            let path = file.to_string_lossy();
            path.contains("acme-events") && !path.contains("/done/")
        });
        files
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a rule may also let a request through")]
fn denied() -> Option<Reply> {
    Some(Reply::error(403, "AccessDenied", "Access Denied"))
}

fn is_customers(seen: &Seen) -> bool {
    seen.target.starts_with("/acme-events")
}

fn full() -> Destination {
    Destination {
        expected_bucket_owner: Some(OWNER.to_owned()),
        acl: Some("bucket-owner-full-control".to_owned()),
        encryption: Some(Encryption::Kms(Some(KEY.to_owned()))),
        ..verified()
    }
}

fn has(seen: &Seen, header: &str) -> bool {
    seen.header(header).is_some()
}

const ACL: &str = "x-amz-acl";
const ENCRYPTION: &str = "x-amz-server-side-encryption";

/// What stands in the way, the destination, the gate's rule, and the steps that have to be named.
#[rustfmt::skip]
fn cases() -> Vec<(&'static str, Destination, Rule, &'static [Step])> {
    use Operation::{AbortMultipartUpload as Abort, CompleteMultipartUpload as Complete, CreateMultipartUpload as Create, DeleteObject as Delete, GetObject as Get, ListMultipartUploads as Uploads, ListObjectsV2 as List, PutObject as Put, UploadPart as Part};
    let pontoon_with_region = Destination { s3_region: Some("us-west-2".to_owned()), ..pontoon() };
    let of_another = Destination { expected_bucket_owner: Some("210987654321".to_owned()), ..destination() };
    let with_acl = Destination { acl: Some("bucket-owner-full-control".to_owned()), ..destination() };
    let with_kms = Destination { encryption: Some(Encryption::Kms(Some(KEY.to_owned()))), ..destination() };
    let swept = Destination { sweep: true, ..destination() };
    let elsewhere = Destination { s3_bucket: "acme-typo".to_owned(), ..destination() };
    let with_secret = Destination { credentials: Credentials::Secret { secret_arn: SECRET_ARN.to_owned() }, ..destination() };
    vec![
        ("nothing, permutive", destination(), |_, _| None, &[]),
        ("nothing, pontoon", pontoon(), |_, _| None, &[]),
        ("nothing, every option", full(), |_, _| None, &[]),
        ("`s3:PutObject` is missing", destination(), |seen, operation| if is_customers(seen) && operation.action() == "s3:PutObject" { denied() } else { None }, &[Step::Create]),
        ("`s3:AbortMultipartUpload` is missing", destination(), |_, operation| if operation == Abort { denied() } else { None }, &[Step::Abort]),
        ("`s3:DeleteObject` is missing, permutive", destination(), |_, operation| if operation == Delete { denied() } else { None }, &[Step::Delete]),
        ("`s3:DeleteObject` is missing, pontoon", pontoon(), |_, operation| if operation == Delete { denied() } else { None }, &[]),
        ("`s3:GetObject` is missing, `verify`", verified(), |seen, operation| if is_customers(seen) && operation == Get { denied() } else { None }, &[Step::Read]),
        ("`s3:ListBucket` is missing, `verify`", verified(), |seen, operation| if is_customers(seen) && operation == List { denied() } else { None }, &[Step::List]),
        ("nothing, `sweep`", swept.clone(), |_, _| None, &[]),
        ("`s3:ListBucketMultipartUploads` is missing, `sweep`", swept, |seen, operation| if is_customers(seen) && operation == Uploads { denied() } else { None }, &[Step::Sweep]),
        ("`s3:PutObjectAcl` is missing, `acl`", with_acl, |seen, operation| if operation.begins_an_object() && has(seen, ACL) { denied() } else { None }, &[Step::Create]),
        ("the key's policy lacks us, and S3 does not say so", with_kms.clone(), |seen, _| if has(seen, ENCRYPTION) { denied() } else { None }, &[Step::Encryption]),
        ("the key's policy lacks us, and S3 says so", with_kms.clone(), |seen, _| if has(seen, ENCRYPTION) {
            Some(Reply::error(403, "AccessDenied", "User: arn:aws:sts::999988887777:assumed-role/dayport/dayport is not authorized to perform: kms:GenerateDataKey on this resource because no resource-based policy allows the kms:GenerateDataKey action"))
        } else { None }, &[Step::Encryption]),
        ("the key is disabled", with_kms.clone(), |seen, _| if has(seen, ENCRYPTION) { Some(Reply::error(400, "KMS.DisabledException", "the key is disabled.")) } else { None }, &[Step::Encryption]),
        ("a Deny statement that parts meet", with_kms, |seen, operation| if is_customers(seen) && [Part, Complete].contains(&operation) && !has(seen, ENCRYPTION) { denied() } else { None }, &[Step::Part]),
        ("no policy at all", full(), |seen, _| if is_customers(seen) { denied() } else { None }, &[Step::Create, Step::Abort]),
        ("another account owns the bucket", of_another, |_, _| None, &[Step::Owner]),
        ("there is no such bucket", elsewhere, |_, _| None, &[Step::Create, Step::Abort]),
        ("the bucket is in another region", pontoon_with_region, |seen, _| if is_customers(seen) {
            Some(Reply::error(301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint.").with("x-amz-bucket-region", "eu-central-1"))
        } else { None }, &[Step::Region]),
        ("the key pair was deleted", with_secret.clone(), |seen, _| if has(seen, "x-amz-target") {
            Some(Reply::new(200, r#"{"SecretString": "{\"aws_access_key_id\": \"AKIAGONEGONEGONEGONE\", \"aws_secret_access_key\": \"x\"}"}"#))
        } else { None }, &[Step::Credentials]),
        ("the secret is not there", with_secret, |seen, _| if has(seen, "x-amz-target") {
            Some(Reply::new(400, r#"{"__type": "ResourceNotFoundException", "message": "Secrets Manager can't find the specified secret."}"#))
        } else { None }, &[Step::Credentials]),
        ("an older bucket with ACLs enabled", destination(), |seen, operation| if operation == Create && seen.header(ACL) == Some("private") {
            Some(Reply::new(200, "<InitiateMultipartUploadResult><UploadId>private</UploadId></InitiateMultipartUploadResult>"))
        } else { None }, &[]),
        ("S3 is throttling", destination(), |seen, _| if is_customers(seen) { Some(Reply::error(503, "SlowDown", "Please reduce your request rate.")) } else { None }, &[Step::Abort]),
        ("our role may not write state", destination(), |seen, operation| if seen.target.starts_with("/dayport-state") && operation == Put { denied() } else { None }, &[Step::HeadWrite]),
        ("our role may not list staging", destination(), |seen, operation| if seen.target.starts_with("/staged-events") && operation == List { denied() } else { None }, &[Step::StagingList]),
        ("our role may not read staging", destination(), |seen, operation| if seen.target.starts_with("/staged-events") && operation == Get { denied() } else { None }, &[Step::StagingRead]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_thing_that_stands_in_the_way_is_named() {
    let mut text = String::new();
    for (title, destination, rule, steps) in cases() {
        let gated = Gated::new(rule).await;
        let before = gated.files();
        let report = gated.check(&destination).await;
        writeln!(text, "=== {title}\n{}", report.text()).unwrap();
        let refused: Vec<Step> =
            report.steps.iter().filter(|line| matches!(line.outcome, Outcome::Refused(_))).map(|line| line.step).collect();
        assert_eq!(refused, steps, "{title}\n{}", report.text());
        let is_clean = gated.files() == before;
        assert_eq!(is_clean, report.left_behind.is_empty(), "{title}\n{}\n{:?}", report.text(), gated.files());
    }
    assert!(text == GOLDEN, "tests/golden/check.txt is not what is said now:\n{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_ignores_conditions_is_no_place_for_state() {
    // It answers 200 to whatever is put.
    let gated = Gated::new(|seen, operation| {
        let is_state = seen.target.starts_with("/dayport-state") && operation == Operation::PutObject;
        is_state.then(|| Reply::new(200, "").with("etag", "\"e\""))
    })
    .await;
    let report = gated.check(&destination()).await;
    assert_eq!(outcome(&report, Step::HeadWrite), Outcome::Refused(Kind::Vendor), "{}", report.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_conditions_that_hold_is_not_taken_for_another_check_in_between() {
    // As Ceph's gateway 16.2 does, which compares an ETag with its quotes to one without. "Call again" was the advice, for ever.
    let gated = Gated::new(|seen, operation| {
        let is_state = seen.target.starts_with("/dayport-state") && operation == Operation::PutObject;
        (is_state && seen.header("if-match").is_some()).then(|| Reply::error(412, "PreconditionFailed", ""))
    })
    .await;
    let report = gated.check(&destination()).await;
    assert_eq!(outcome(&report, Step::HeadWrite), Outcome::Refused(Kind::Vendor), "{}", report.text());
    let message = &report.steps.iter().find(|line| line.step == Step::HeadWrite).unwrap().message;
    assert!(message.contains("`dayport-state` refuses a write whose condition holds"), "{message}");
}
