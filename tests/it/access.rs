//! Policies and connection tests as their users meet them: the commands, their exit codes, the event's answer.

use dayport::domain::error::Kind;
use dayport::handler::{Failure, Invocation, Nobody, handle};
use dayport::trigger::Request;
use serde_json::Value;

use crate::command::dayport;
use crate::lab::{CONFIGURATION, Lab};

const ROLE: &str = "arn:aws:iam::999988887777:role/dayport";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_is_fine_ends_with_0_and_leaves_nothing() {
    let lab = Lab::new().await;
    lab.stage_lines("events/2026-01-15/a.json", &["{}"]).await;
    let (code, out, err) = dayport(&lab, &["check", "acme"]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with("acme (s3://acme/)\n  credentials   ok "), "{out}");
    assert!(out.ends_with("\na run would be allowed all that it does\n"), "{out}");
    assert_eq!(lab.keys("acme").await, [""; 0]);

    let (code, out, _) = dayport(&lab, &["check", "acme", "--output", "json"]).await;
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &answer["check"]["destination"]), (Some(0), &Value::from("acme")));
    assert_eq!(answer["check"]["steps"][3]["step"], "create");
    assert_eq!(answer["runs"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_is_refused_ends_with_1_and_as_an_event_fails_with_its_kind() {
    let mut lab = Lab::new().await;
    lab.settings(&format!("{CONFIGURATION}expected_bucket_owner = \"210987654321\"\n"));
    let (code, out, _) = dayport(&lab, &["check", "acme"]).await;
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("  owner         refused     customer: account `210987654321` does not own `acme`"), "{out}");

    let request = Request::Check { destination: "acme".to_owned() };
    let Err(Failure { error, answer }) = handle(&lab.services(), &request, &Invocation::unlimited("id"), &Nobody).await else {
        panic!("the check was fine");
    };
    assert_eq!(error.kind(), Kind::Customer);
    assert!(error.message().starts_with("the check of `acme` was refused at the step owner: "), "{error}");
    assert!(answer.unwrap().check.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_that_is_not_there_is_named_with_the_nearest() {
    let lab = Lab::new().await;
    for command in ["check", "policy"] {
        let (code, out, err) = dayport(&lab, &[command, "acne"]).await;
        assert_eq!((code, out.as_str()), (Some(1), ""));
        assert!(err.contains("there is no destination `acne`, did you mean `acme`?"), "{err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_is_printed_alone_and_merged_into_what_is_there() {
    let lab = Lab::new().await;
    let (code, out, err) = dayport(&lab, &["policy", "acme"]).await;
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("`function_role_arn`"), "{err}");

    let (code, out, err) = dayport(&lab, &["policy", "acme", "--principal", ROLE]).await;
    assert_eq!(code, Some(0), "{err}");
    let policy: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(policy["Statement"][0]["Resource"], "arn:aws:s3:::acme/*");
    assert!(err.contains("applying a policy replaces the one that is there"), "{err}");

    let file = lab.path().join("theirs.json");
    std::fs::write(&file, &out).unwrap();
    let file = file.to_str().unwrap();
    let (code, merged, _) = dayport(&lab, &["policy", "acme", "--principal", ROLE, "--merge", file]).await;
    assert_eq!((code, merged), (Some(0), out));
    let (code, _, err) = dayport(&lab, &["policy", "acme", "--principal", ROLE, "--merge", "nowhere.json"]).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("`nowhere.json` could not be read"), "{err}");
    let (code, _, err) = dayport(&lab, &["policy", "acme", "--principal", ROLE, "--trust"]).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("`acme` assumes no role"), "{err}");
}
