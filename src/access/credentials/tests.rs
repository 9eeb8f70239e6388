//! Tests of credentials: who is asked for them, what signs, when they are asked for again, and that nothing prints them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_sts::primitives::{DateTime, DateTimeFormat};

use super::super::testing::{SECRET, THEIR_ROLE, destination};
use super::*;
use crate::domain::error::Kind;
use crate::store::ports::{Delete as _, Multipart as _};
use crate::store::s3::S3Bucket;
use crate::store::s3::replay::{KEY_ID, Replay, Reply, Seen};

const GOLDEN: &str = include_str!("../../../tests/golden/credentials.txt");
const THEIR_KEY_ID: &str = "AKIAIOSFODNN7EXAMPLE";
const THEIR_SECRET: &str = "wJalrXUtnFEMIsecretsecretEXAMPLEKEY";
const THEIR_TOKEN: &str = "their-session-token-that-nobody-may-see";
/// A session far from its end: seconds since 1970 in the year 2200.
const FAR: i64 = 7_258_118_400;

fn with_role() -> Destination {
    let credentials = Credentials::Role { role_arn: THEIR_ROLE.to_owned(), external_id: Some("dayport-acme-7".to_owned()) };
    Destination { credentials, ..destination() }
}

fn with_secret() -> Destination {
    Destination { credentials: Credentials::Secret { secret_arn: SECRET.to_owned() }, ..destination() }
}

fn with_environment() -> Destination {
    let credentials = Credentials::Environment {
        access_key_id_env: "ACME_KEY_ID".to_owned(),
        secret_access_key_env: "ACME_SECRET_KEY".to_owned(),
    };
    Destination { credentials, ..destination() }
}

fn variables(pairs: &[(&str, &str)]) -> Variables {
    let pairs: HashMap<String, String> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Arc::new(move |name: &str| pairs.get(name).cloned())
}

fn bucket(replay: &Replay, destination: &Destination, variables: &Variables) -> S3Bucket {
    let clients = replay.clients(1);
    let provider = provider(destination, &clients, variables);
    clients.destination(destination, provider)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Sts,
    Secrets,
    S3,
}

fn service(seen: &Seen) -> Asked {
    match (seen.header("x-amz-target"), seen.method.as_str(), seen.target.as_str()) {
        (Some(_), ..) => Asked::Secrets,
        (None, "POST", "/") => Asked::Sts,
        _ => Asked::S3,
    }
}

fn services(replay: &Replay) -> Vec<Asked> {
    replay.seen().iter().map(service).collect()
}

fn assumed(key_id: &str, ends: i64) -> Reply {
    let ends = DateTime::from_secs(ends).fmt(DateTimeFormat::DateTime).unwrap();
    Reply::new(
        200,
        format!(
            "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><Credentials>\
             <AccessKeyId>{key_id}</AccessKeyId><SecretAccessKey>{THEIR_SECRET}</SecretAccessKey>\
             <SessionToken>{THEIR_TOKEN}</SessionToken><Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
        ),
    )
}

fn stored(key_id: &str) -> Reply {
    let pair = serde_json::json!({ "aws_access_key_id": key_id, "aws_secret_access_key": THEIR_SECRET }).to_string();
    stored_text(&pair)
}

fn stored_text(text: &str) -> Reply {
    Reply::new(200, serde_json::json!({ "ARN": SECRET, "Name": "acme", "SecretString": text }).to_string())
}

fn s3(seen: &Seen) -> Reply {
    match seen.method.as_str() {
        "POST" => Reply::new(200, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"),
        _ => Reply::new(204, ""),
    }
}

fn signed_by(seen: &Seen) -> &str {
    let authorization = seen.header("authorization").unwrap();
    authorization.split_once("Credential=").unwrap().1.split('/').next().unwrap()
}

#[tokio::test]
async fn without_credentials_of_their_own_the_functions_sign() {
    let replay = Replay::new(|_, seen| s3(seen));
    assert!(provider(&destination(), &replay.clients(1), &variables(&[])).is_none());
    bucket(&replay, &destination(), &variables(&[])).delete("k").await.unwrap();
    assert_eq!(signed_by(&replay.seen()[0]), KEY_ID);
}

#[tokio::test]
async fn a_role_is_assumed_with_its_external_id_for_an_hour_and_its_session_signs() {
    let replay = Replay::new(|_, seen| if service(seen) == Asked::Sts { assumed(THEIR_KEY_ID, FAR) } else { s3(seen) });
    let bucket = bucket(&replay, &with_role(), &variables(&[]));
    bucket.delete("k").await.unwrap();
    bucket.delete("l").await.unwrap();
    assert_eq!(services(&replay), [Asked::Sts, Asked::S3, Asked::S3], "a session that lasts is kept");
    let seen = replay.seen();
    let body = String::from_utf8(seen[0].body.clone()).unwrap();
    for part in [
        "Action=AssumeRole",
        "RoleArn=arn%3Aaws%3Aiam%3A%3A111122223333%3Arole%2Fexports%2Fdayport-writer",
        "ExternalId=dayport-acme-7",
        "DurationSeconds=3600",
        "RoleSessionName=dayport-acme",
    ] {
        assert!(body.split('&').any(|pair| pair == part), "{part} is not in {body}");
    }
    assert_eq!(signed_by(&seen[0]), KEY_ID, "our own credentials ask for the session");
    assert_eq!(signed_by(&seen[1]), THEIR_KEY_ID);
    assert_eq!(seen[1].header("x-amz-security-token"), Some(THEIR_TOKEN));
}

#[tokio::test]
async fn a_session_near_its_end_is_renewed_before_the_next_request() {
    let count = AtomicUsize::new(0);
    let replay = Replay::new(move |_, seen| {
        if service(seen) == Asked::S3 {
            return s3(seen);
        }
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        let soon = now_seconds() + 5;
        if first { assumed("AKIAFIRSTFIRSTFIRST1", soon) } else { assumed("AKIASECONDSECONDSEC2", FAR) }
    });
    let bucket = bucket(&replay, &with_role(), &variables(&[]));
    for _ in 0..3 {
        bucket.delete("k").await.unwrap();
    }
    let signers: Vec<String> =
        replay.seen().iter().filter(|seen| service(seen) == Asked::S3).map(|seen| signed_by(seen).to_owned()).collect();
    assert_eq!(signers, ["AKIAFIRSTFIRSTFIRST1", "AKIASECONDSECONDSEC2", "AKIASECONDSECONDSEC2"]);
}

#[expect(clippy::disallowed_methods, reason = "the SDK compares a session's end with the system's clock")]
fn now_seconds() -> i64 {
    i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

#[tokio::test]
async fn a_secret_is_read_in_its_own_region_and_its_key_pair_signs() {
    let replay =
        Replay::new(|_, seen| if service(seen) == Asked::Secrets { stored(" AKIAIOSFODNN7EXAMPLE\n") } else { s3(seen) });
    bucket(&replay, &with_secret(), &variables(&[])).delete("k").await.unwrap();
    let seen = replay.seen();
    assert_eq!(seen[0].header("x-amz-target"), Some("secretsmanager.GetSecretValue"));
    assert!(
        seen[0].header("authorization").unwrap().contains("/eu-central-1/secretsmanager/"),
        "{:?}",
        seen[0].header("authorization")
    );
    assert_eq!(signed_by(&seen[0]), KEY_ID);
    assert_eq!((signed_by(&seen[1]), seen[1].header("x-amz-security-token")), (THEIR_KEY_ID, None));
}

#[tokio::test]
async fn a_key_pair_that_was_rotated_is_read_once_more() {
    for (code, status) in
        [("InvalidAccessKeyId", 403), ("SignatureDoesNotMatch", 403), ("ExpiredToken", 400), ("InvalidToken", 400)]
    {
        let reads = AtomicUsize::new(0);
        let replay = Replay::new(move |_, seen| match service(seen) {
            Asked::Secrets if reads.fetch_add(1, Ordering::SeqCst) == 0 => stored("AKIAOLDOLDOLDOLDOLD1"),
            Asked::Secrets => stored("AKIANEWNEWNEWNEWNEW2"),
            _ if signed_by(seen) == "AKIAOLDOLDOLDOLDOLD1" => Reply::error(status, code, "no"),
            _ => s3(seen),
        });
        let bucket = bucket(&replay, &with_secret(), &variables(&[]));
        assert_eq!(bucket.create("k", "application/json").await.unwrap(), "u", "{code}");
        bucket.delete("k").await.unwrap();
        assert_eq!(services(&replay), [Asked::Secrets, Asked::S3, Asked::Secrets, Asked::S3, Asked::S3], "{code}");
    }
}

#[tokio::test]
async fn many_requests_that_are_refused_at_once_read_the_secret_once_more() {
    let reads = AtomicUsize::new(0);
    let replay = Replay::new(move |_, seen| match service(seen) {
        Asked::Secrets if reads.fetch_add(1, Ordering::SeqCst) == 0 => stored("AKIAOLDOLDOLDOLDOLD1"),
        Asked::Secrets => stored("AKIANEWNEWNEWNEWNEW2"),
        _ if signed_by(seen) == "AKIAOLDOLDOLDOLDOLD1" => Reply::error(403, "InvalidAccessKeyId", "no"),
        _ => s3(seen),
    });
    let bucket = bucket(&replay, &with_secret(), &variables(&[]));
    let requests = (0..16).map(|_| bucket.delete("k"));
    for done in futures_util::future::join_all(requests).await {
        done.unwrap();
    }
    let secrets = services(&replay).iter().filter(|service| **service == Asked::Secrets).count();
    assert_eq!(secrets, 2);
}

#[tokio::test]
async fn a_key_pair_that_stays_refused_is_the_customers_and_is_read_no_third_time() {
    let replay = Replay::new(|_, seen| match service(seen) {
        Asked::Secrets => stored(THEIR_KEY_ID),
        _ => Reply::error(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."),
    });
    let error = bucket(&replay, &with_secret(), &variables(&[])).delete("k").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Customer);
    assert_eq!(services(&replay), [Asked::Secrets, Asked::S3, Asked::Secrets, Asked::S3]);
    // What is missing is a permission, not another key.
    let replay = Replay::new(|_, seen| match service(seen) {
        Asked::Secrets => stored(THEIR_KEY_ID),
        _ => Reply::error(403, "AccessDenied", "Access Denied"),
    });
    bucket(&replay, &with_secret(), &variables(&[])).delete("k").await.unwrap_err();
    assert_eq!(services(&replay), [Asked::Secrets, Asked::S3]);
}

#[tokio::test]
async fn a_key_pair_in_the_environment_signs_and_one_that_is_not_there_is_ours_to_set() {
    let replay = Replay::new(|_, seen| s3(seen));
    let set = variables(&[("ACME_KEY_ID", THEIR_KEY_ID), ("ACME_SECRET_KEY", THEIR_SECRET)]);
    bucket(&replay, &with_environment(), &set).delete("k").await.unwrap();
    assert_eq!(signed_by(&replay.seen()[0]), THEIR_KEY_ID);
    let half = variables(&[("ACME_KEY_ID", THEIR_KEY_ID), ("ACME_SECRET_KEY", " ")]);
    let error = bucket(&replay, &with_environment(), &half).delete("k").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Vendor);
    assert_eq!(
        error.to_string(),
        "could not delete `k` in the customer's bucket `acme-events`: the environment variable `ACME_SECRET_KEY` with the customer's key is not set, set it for the function"
    );
}

/// What is replayed: the destination, status, code, message.
#[rustfmt::skip]
fn refusals() -> Vec<(Destination, u16, &'static str, &'static str)> {
    let denied = "User: arn:aws:sts::999988887777:assumed-role/dayport/dayport is not authorized to perform: sts:AssumeRole on resource: arn:aws:iam::111122223333:role/exports/dayport-writer";
    let denied_by_ours = "User: arn:aws:sts::999988887777:assumed-role/dayport/dayport is not authorized to perform: sts:AssumeRole on resource: arn:aws:iam::111122223333:role/exports/dayport-writer because no identity-based policy allows the sts:AssumeRole action";
    let without_id = Destination { credentials: Credentials::Role { role_arn: THEIR_ROLE.to_owned(), external_id: None }, ..destination() };
    vec![
        (with_role(), 403, "AccessDenied", denied),
        (without_id, 403, "AccessDenied", denied),
        (with_role(), 403, "AccessDenied", denied_by_ours),
        (with_role(), 403, "ExpiredToken", "The security token included in the request is expired"),
        (with_role(), 403, "InvalidClientTokenId", "The security token included in the request is invalid."),
        (with_role(), 403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided."),
        (with_role(), 403, "RegionDisabledException", "STS is not activated in this region for account:999988887777."),
        (with_role(), 400, "ValidationError", "1 validation error detected: Value at 'externalId' failed to satisfy constraint"),
        (with_role(), 400, "Throttling", "Rate exceeded"),
        (with_role(), 503, "ServiceUnavailable", "Service is unavailable"),
        (with_secret(), 400, "AccessDeniedException", "User: arn:aws:sts::999988887777:assumed-role/dayport/dayport is not authorized to perform: secretsmanager:GetSecretValue on resource: acme because no identity-based policy allows the secretsmanager:GetSecretValue action"),
        (with_secret(), 400, "AccessDeniedException", "Access to KMS is not allowed"),
        (with_secret(), 400, "ResourceNotFoundException", "Secrets Manager can't find the specified secret."),
        (with_secret(), 400, "InvalidRequestException", "You can't perform this operation on the secret because it was marked for deletion."),
        (with_secret(), 400, "DecryptionFailure", "Secrets Manager can't decrypt the protected secret text using the provided KMS key."),
        (with_secret(), 400, "ThrottlingException", "Rate exceeded"),
        (with_secret(), 500, "InternalServiceError", "An error occurred on the server side."),
    ]
}

#[tokio::test]
async fn every_refusal_says_who_must_act_and_what_to_do() {
    let mut text = String::new();
    for (destination, status, code, message) in refusals() {
        let is_sts = matches!(destination.credentials, Credentials::Role { .. });
        let body = if is_sts {
            format!(
                "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error><RequestId>r</RequestId></ErrorResponse>"
            )
        } else {
            serde_json::json!({ "__type": code, "message": message }).to_string()
        };
        let replay = Replay::always(Reply::new(status, body));
        let error = bucket(&replay, &destination, &variables(&[])).delete("k").await.unwrap_err();
        let service = if is_sts { "STS" } else { "Secrets Manager" };
        let shown = message.replace('\n', " ");
        writeln!(text, "{service}, {status} {code}: {shown}\n  {}: {error}\n", error.kind()).unwrap();
    }
    for wrong in [
        "",
        "not json",
        "{}",
        "{\"aws_access_key_id\": \"AKIAIOSFODNN7EXAMPLE\"}",
        "{\"aws_access_key_id\": \" \", \"aws_secret_access_key\": \"x\"}",
    ] {
        let wrong = wrong.to_owned();
        let replay = Replay::new(move |_, _| stored_text(&wrong));
        let error = bucket(&replay, &with_secret(), &variables(&[])).delete("k").await.unwrap_err();
        assert_eq!(error.kind(), Kind::Vendor);
        assert!(error.message().contains("`aws_access_key_id` and `aws_secret_access_key`"), "{error}");
    }
    assert!(text == GOLDEN, "tests/golden/credentials.txt is not what is said now:\n{text}");
}

/// Everything that is written to it.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(any(feature = "cli", feature = "lambda"))]
#[tokio::test(flavor = "current_thread")]
async fn nothing_prints_a_secret_neither_debug_nor_errors_nor_a_log_at_its_finest() {
    let kept = Kept::default();
    let writer = kept.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut said = String::new();
    let set = variables(&[("ACME_KEY_ID", THEIR_KEY_ID), ("ACME_SECRET_KEY", THEIR_SECRET)]);
    for destination in [with_role(), with_secret(), with_environment()] {
        for works in [true, false] {
            let replay = Replay::new(move |_, seen| match service(seen) {
                Asked::Sts => assumed(THEIR_KEY_ID, FAR),
                Asked::Secrets => stored(THEIR_KEY_ID),
                Asked::S3 if works => s3(seen),
                // As S3 does, it tells all that it was told.
                Asked::S3 => Reply::error(403, "InvalidAccessKeyId", &format!("The key {THEIR_KEY_ID} is not in our records")),
            });
            let clients = replay.clients(1);
            let provider = provider(&destination, &clients, &set);
            let bucket = clients.destination(&destination, provider.clone());
            let outcome = bucket.delete("k").await;
            write!(said, "{provider:?} {bucket:?} {outcome:?} {destination:?}").unwrap();
            if let Err(error) = outcome {
                write!(said, "{error} {error:#?}").unwrap();
            }
        }
    }
    let log = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("read once more"), "the log was not caught: {log}");
    for secret in [THEIR_SECRET, THEIR_TOKEN] {
        assert!(!said.contains(secret), "said: {said}");
    }
    assert!(!said.contains(THEIR_KEY_ID), "said: {said}");
    for (number, line) in log.lines().enumerate() {
        assert!(![THEIR_SECRET, THEIR_TOKEN].iter().any(|secret| line.contains(secret)), "line {number} of the log: {line}");
    }
}
