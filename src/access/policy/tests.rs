//! Tests of what is printed: the table of CONTRACT.md §5, and every text in `tests/golden/policies.txt`.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::Value;

use super::super::testing::{KEY, ROLE, SECRET, THEIR_ROLE, destination};
use super::document::camel;
use super::*;
use crate::domain::error::Kind;
use crate::domain::layout::{Layout, Prefix};
use crate::domain::settings::Credentials;

const GOLDEN: &str = include_str!("../../../tests/golden/policies.txt");

fn wanted(destination: &Destination) -> Wanted<'_> {
    Wanted { destination, principal: Some(ROLE), output: Output::Json, merge: None }
}

fn json(printed: &Printed) -> Value {
    serde_json::from_str(&printed.text).unwrap()
}

fn statements(document: &Value) -> Vec<Value> {
    document["Statement"].as_array().unwrap().clone()
}

/// Every action with the resource that it is allowed on.
fn allowed(destination: &Destination) -> Vec<String> {
    let document = json(&bucket(&wanted(destination)).unwrap());
    let pairs = |statement: &Value| -> Vec<String> {
        let resource = statement["Resource"].as_str().unwrap();
        statement["Action"].as_array().unwrap().iter().map(|action| format!("{} {resource}", action.as_str().unwrap())).collect()
    };
    statements(&document).iter().flat_map(pairs).collect()
}

#[test]
fn each_option_adds_its_actions_and_nothing_else() {
    let objects = "arn:aws:s3:::acme-events/exports/*";
    let permutive = destination();
    let pontoon = Destination { layout: Layout::Pontoon, ..destination() };
    let base = [format!("s3:PutObject {objects}"), format!("s3:AbortMultipartUpload {objects}")];
    assert_eq!(allowed(&pontoon), base);
    let with = |more: &[&str]| base.iter().cloned().chain(more.iter().map(|&pair| pair.to_owned())).collect::<Vec<_>>();
    assert_eq!(allowed(&permutive), with(&["s3:DeleteObject arn:aws:s3:::acme-events/exports/*"]));
    let acl = Destination { acl: Some("bucket-owner-full-control".to_owned()), ..pontoon.clone() };
    assert_eq!(allowed(&acl), with(&["s3:PutObjectAcl arn:aws:s3:::acme-events/exports/*"]));
    let verify = Destination { verify: true, ..pontoon.clone() };
    assert_eq!(
        allowed(&verify),
        with(&["s3:GetObject arn:aws:s3:::acme-events/exports/*", "s3:ListBucket arn:aws:s3:::acme-events"])
    );
    let sweep = Destination { sweep: true, ..pontoon.clone() };
    assert_eq!(allowed(&sweep), with(&["s3:ListBucketMultipartUploads arn:aws:s3:::acme-events"]));
    // What changes nothing about permissions changes nothing here.
    for other in [
        Destination { manifest: false, ..pontoon.clone() },
        Destination { requester_pays: true, path_style: true, ..pontoon.clone() },
        Destination { encryption: Some(Encryption::Kms(Some(KEY.to_owned()))), ..pontoon.clone() },
    ] {
        assert_eq!(allowed(&other), base);
    }
}

#[test]
fn every_statement_allows_one_identity_over_tls_within_the_prefix() {
    for layout in [Layout::Permutive, Layout::Pontoon] {
        for prefix in ["", "exports", "a*b/c?d/e$f", "${aws:username}"] {
            let everything = Destination {
                layout,
                s3_prefix: Prefix::parse(prefix).unwrap(),
                acl: Some("bucket-owner-full-control".to_owned()),
                verify: true,
                sweep: true,
                ..destination()
            };
            for statement in statements(&json(&bucket(&wanted(&everything)).unwrap())) {
                assert_eq!(statement["Effect"], "Allow");
                assert_eq!(statement["Principal"], serde_json::json!({ "AWS": ROLE }));
                assert_eq!(statement["Condition"]["Bool"]["aws:SecureTransport"], "true");
                let resource = statement["Resource"].as_str().unwrap();
                let inside = resource.strip_prefix("arn:aws:s3:::acme-events").unwrap().replace("${*}", "").replace("${?}", "");
                assert!(!inside.trim_end_matches('*').contains(['*', '?']), "{resource}");
                assert!(!inside.replace("${$}", "").contains('$'), "{resource}");
                let listing = statement["Action"][0] == "s3:ListBucket";
                assert_eq!(statement["Condition"].get("StringLike").is_some(), listing);
            }
        }
    }
}

#[test]
fn wildcards_and_variables_in_a_prefix_are_meant_as_they_stand() {
    assert_eq!(literal("a*b?c$d/${aws:username}/"), "a${*}b${?}c${$}d/${$}{aws:username}/");
    let odd = Destination { s3_prefix: Prefix::parse("50%*/\"é\"").unwrap(), verify: true, ..destination() };
    let document = json(&bucket(&wanted(&odd)).unwrap());
    let statements = statements(&document);
    assert_eq!(statements[0]["Resource"], "arn:aws:s3:::acme-events/50%${*}/\"é\"/*");
    assert_eq!(statements[3]["Condition"]["StringLike"]["s3:prefix"], "50%${*}/\"é\"/*");
}

#[test]
fn ids_are_letters_and_digits_and_never_those_of_another_destination() {
    assert_eq!(camel("acme"), "Acme");
    assert_eq!(camel("acme-eu-west"), "AcmeEuWest");
    assert_eq!(camel("1a"), "1a");
    let names = ["a1", "a-1", "a--1", "-a1", "a1-", "a", "-a", "a-", "a--b", "a-b", "-", "--"];
    let ids: std::collections::BTreeSet<String> = names.iter().map(|name| camel(name)).collect();
    assert_eq!(ids.len(), names.len(), "{ids:?}");
    assert!(ids.iter().all(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric())));
}

#[test]
fn the_principal_is_one_role_or_user_and_has_to_be_named() {
    let destination = destination();
    let of = |principal| bucket(&Wanted { principal, ..wanted(&destination) });
    let error = of(None).unwrap_err();
    assert_eq!(error.kind(), Kind::Vendor);
    assert!(error.message().contains("`function_role_arn`") && error.message().contains("`--principal`"), "{error}");
    for bad in [
        "*",
        "999988887777",
        "arn:aws:iam::999988887777:root",
        "arn:aws:iam::999988887777:role/*",
        "arn:aws:iam::999988887777:role/",
        "arn:aws:iam::999988887777:role/a/",
        "arn:aws:iam::*:role/a",
        "arn:aws:sts::999988887777:assumed-role/dayport/x",
        "arn:aws:iam::999988887777:role/x\",\"AWS\":\"*",
    ] {
        assert_eq!(of(Some(bad)).unwrap_err().kind(), Kind::Vendor, "{bad}");
    }
    let china = json(&of(Some("arn:aws-cn:iam::999988887777:role/dayport")).unwrap());
    assert_eq!(china["Statement"][0]["Resource"], "arn:aws-cn:s3:::acme-events/exports/*");
}

const THEIRS: &str = r#"{
  "Version": "2012-10-17",
  "Id":  "theirs",
  "Statement": [
    {"Sid": "DayportAcmeDelete", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::999988887777:role/old"}, "Action": "s3:DeleteObject", "Resource": "*"},
    { "Resource": "arn:aws:s3:::acme-events/*", "Effect":"Deny", "Principal": "*", "Action": "s3:*", "Condition":{"Bool": {"aws:SecureTransport":"false"}} },
    {"Sid": "DayportAcmeEuWrite", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::999988887777:role/dayport"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::acme-events/eu/*"}
  ]
}"#;

fn merged(theirs: &str, destination: &Destination) -> Result<Printed> {
    bucket(&Wanted { merge: Some(theirs), ..wanted(destination) })
}

#[test]
fn merging_replaces_ours_by_id_and_leaves_theirs_as_they_stand() {
    let pontoon = Destination { layout: Layout::Pontoon, ..destination() };
    let printed = merged(THEIRS, &pontoon).unwrap();
    // The old right to delete is gone with the layout that needed it.
    let sids: Vec<Value> = statements(&json(&printed)).iter().map(|statement| statement["Sid"].clone()).collect();
    assert_eq!(sids, [Value::Null, "DayportAcmeEuWrite".into(), "DayportAcmeWrite".into()]);
    let theirs = r#"{ "Resource": "arn:aws:s3:::acme-events/*", "Effect":"Deny", "Principal": "*", "Action": "s3:*", "Condition":{"Bool": {"aws:SecureTransport":"false"}} }"#;
    assert!(printed.text.contains(theirs) && printed.text.contains("\"Id\": \"theirs\""), "{}", printed.text);
    // Merged again it is the same.
    assert_eq!(merged(&printed.text, &pontoon).unwrap().text, printed.text);
    // The answer of the AWS CLI without `--query` holds the policy as a string.
    let answer = serde_json::json!({ "Policy": THEIRS }).to_string();
    assert_eq!(merged(&answer, &pontoon).unwrap().text, printed.text);
    // One statement need not be in a list.
    let single =
        r#"{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*"}}"#;
    assert_eq!(statements(&json(&merged(single, &pontoon).unwrap())).len(), 2);
}

#[test]
fn what_can_not_be_merged_is_refused_and_said() {
    let pontoon = Destination { layout: Layout::Pontoon, ..destination() };
    for bad in ["", "[]", "{}", "{\"Statement\": [7]}", "{\"Statement\": [], \"Other\": 1}", "{\"Policy\": \"{}\"}"] {
        let error = merged(bad, &pontoon).unwrap_err();
        assert_eq!(error.kind(), Kind::Vendor, "{bad}");
        assert!(error.message().contains("is not a policy"), "{bad}: {error}");
    }
    let old = r#"{"Version": "2008-10-17", "Statement": []}"#;
    assert_eq!(json(&merged(old, &pontoon).unwrap())["Version"], "2008-10-17", "what is theirs stays");
    let starred = Destination { s3_prefix: Prefix::parse("a*").unwrap(), ..pontoon.clone() };
    let error = merged(old, &starred).unwrap_err();
    assert!(error.message().contains("is no variable"), "{error}");
    let long = format!(r#"{{"Version": "2012-10-17", "Statement": [{{"Sid": "{}"}}]}}"#, "x".repeat(20_400));
    let error = merged(&long, &pontoon).unwrap_err();
    assert!(error.message().contains("S3 takes 20480"), "{error}");
}

#[test]
fn a_deny_that_would_meet_parts_is_pointed_out() {
    let policy = |condition: &str| {
        format!(
            r#"{{"Version": "2012-10-17", "Statement": [{{"Sid": "Sse", "Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "*", "Condition": {condition}}}]}}"#
        )
    };
    for bad in [
        r#"{"StringNotEquals": {"s3:x-amz-server-side-encryption": "aws:kms"}}"#,
        r#"{"StringNotEqualsIfExists": {"s3:x-amz-server-side-encryption-aws-kms-key-id": "k"}}"#,
        r#"{"Null": {"s3:X-Amz-Server-Side-Encryption": "true"}}"#,
        r#"{"StringNotEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}}"#,
    ] {
        let warnings = merge::warnings(&policy(bad));
        assert_eq!(warnings.len(), 1, "{bad}");
        assert!(warnings[0].contains("`Sse`"), "{warnings:?}");
    }
    for good in [
        r#"{"StringNotEquals": {"s3:x-amz-server-side-encryption": "aws:kms"}, "Null": {"s3:x-amz-server-side-encryption": "false"}}"#,
        r#"{"StringEquals": {"s3:x-amz-server-side-encryption": "AES256"}}"#,
        r#"{"Bool": {"aws:SecureTransport": "false"}}"#,
    ] {
        assert_eq!(merge::warnings(&policy(good)), [""; 0], "{good}");
    }
}

#[test]
fn a_key_policy_is_never_printed_without_its_owners_statement() {
    let kms_destination = Destination { encryption: Some(Encryption::Kms(Some(KEY.to_owned()))), ..destination() };
    for output in [Output::Terraform, Output::CloudFormation] {
        let error = kms(&Wanted { output, ..wanted(&kms_destination) }).unwrap_err();
        assert!(error.message().contains("lock everybody out"), "{error}");
    }
    let theirs = r#"{"Version": "2012-10-17", "Statement": [{"Sid": "Owner", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111122223333:root"}, "Action": "kms:*", "Resource": "*"}]}"#;
    let printed = kms(&Wanted { merge: Some(theirs), ..wanted(&kms_destination) }).unwrap();
    assert_eq!(statements(&json(&printed)).len(), 2);
    let error = kms(&wanted(&destination())).unwrap_err();
    assert!(error.message().contains("`kms_key_arn`"), "{error}");
}

#[test]
fn every_text_is_the_golden_one() {
    let plain = destination();
    let everything = Destination {
        name: "acme-eu".to_owned(),
        s3_prefix: Prefix::parse("exports/50% off*").unwrap(),
        acl: Some("bucket-owner-full-control".to_owned()),
        verify: true,
        sweep: true,
        encryption: Some(Encryption::Kms(Some(KEY.to_owned()))),
        ..destination()
    };
    let with_role = Destination {
        layout: Layout::Pontoon,
        credentials: Credentials::Role { role_arn: THEIR_ROLE.to_owned(), external_id: Some("dayport-acme-7".to_owned()) },
        encryption: Some(Encryption::Kms(Some(KEY.to_owned()))),
        ..destination()
    };
    let with_pair = Destination { credentials: Credentials::Secret { secret_arn: SECRET.to_owned() }, ..destination() };
    let pontoon = Destination { layout: Layout::Pontoon, ..destination() };
    type Print = fn(&Wanted<'_>) -> Result<Printed>;
    #[rustfmt::skip]
    let cases: [(&str, &Destination, Print, Output, Option<&str>); 14] = [
        ("pontoon", &pontoon, bucket, Output::Json, None),
        ("permutive", &plain, bucket, Output::Json, None),
        ("permutive, terraform", &plain, bucket, Output::Terraform, None),
        ("permutive, cloudformation", &plain, bucket, Output::CloudFormation, None),
        ("every option, a prefix with `%` and `*`", &everything, bucket, Output::Json, None),
        ("every option, terraform", &everything, bucket, Output::Terraform, None),
        ("merged", &plain, bucket, Output::Json, Some(THEIRS)),
        ("--kms", &everything, kms, Output::Json, None),
        ("with `role_arn`", &with_role, bucket, Output::Json, None),
        ("with `role_arn`, terraform", &with_role, bucket, Output::Terraform, None),
        ("with `role_arn`, cloudformation", &with_role, bucket, Output::CloudFormation, None),
        ("--trust", &with_role, trust, Output::Json, None),
        ("--trust, cloudformation", &with_role, trust, Output::CloudFormation, None),
        ("with a key pair", &with_pair, bucket, Output::Json, None),
    ];
    let mut text = String::new();
    for (title, destination, print, output, merge) in cases {
        let printed = print(&Wanted { output, merge, ..wanted(destination) }).unwrap();
        let notes: String = printed.notes.iter().map(|note| format!("# {note}\n")).collect();
        write!(text, "=== {title}\n{notes}{}\n", printed.text).unwrap();
    }
    assert!(text == GOLDEN, "tests/golden/policies.txt is not what is printed now:\n{text}");
}

proptest! {
    #[test]
    fn no_prefix_breaks_out_of_the_document(prefix in "[ -~é]{0,30}") {
        let Ok(prefix) = Prefix::parse(&prefix) else { return Ok(()) };
        let odd = Destination { s3_prefix: prefix.clone(), verify: true, ..destination() };
        let document = json(&bucket(&wanted(&odd)).unwrap());
        let statements = statements(&document);
        prop_assert_eq!(statements.len(), 4);
        let resource = statements[0]["Resource"].as_str().unwrap();
        let inside = resource.strip_prefix("arn:aws:s3:::acme-events/").unwrap().strip_suffix('*').unwrap();
        let plain = inside.replace("${*}", "*").replace("${?}", "?").replace("${$}", "$");
        prop_assert_eq!(plain.as_str(), prefix.as_str());
        bucket(&Wanted { output: Output::Terraform, ..wanted(&odd) }).unwrap();
    }
}
