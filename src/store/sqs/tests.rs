//! Tests of what goes over the wire to SQS and of what its refusals are made into.

use std::time::Duration;

use serde_json::{Value, json};

use super::{SqsQueue, region_of};
use crate::domain::error::{Error, Kind};
use crate::store::queue::{Acknowledge, Bury, Enqueue, Hold, MOST_AT_ONCE, Receive};
use crate::store::s3::replay::{Replay, Reply, SECRET, Seen, TOKEN};

const URL: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/staging";

fn queue(replay: &Replay) -> SqsQueue {
    replay.clients(2).queue(URL)
}

fn answer(body: &Value) -> Reply {
    Reply::new(200, body.to_string()).with("content-type", "application/x-amz-json-1.0")
}

/// An error answer in the JSON protocol of the SQS API Reference, with the query protocol's code beside it.
fn refusal(status: u16, code: &str, query_code: &str) -> Reply {
    let body = json!({"__type": format!("com.amazonaws.sqs#{code}"), "message": "said\nso"});
    Reply::new(status, body.to_string())
        .with("content-type", "application/x-amz-json-1.0")
        .with("x-amzn-query-error", &format!("{query_code};Sender"))
}

fn asked(seen: &Seen) -> (String, Value) {
    let target = seen.header("x-amz-target").unwrap_or_default().to_owned();
    (target, serde_json::from_slice(&seen.body).unwrap())
}

#[tokio::test]
async fn a_receive_asks_for_what_a_message_must_have_and_reads_it() {
    let replay = Replay::always(answer(&json!({"Messages": [{
        "MessageId": "m-1", "ReceiptHandle": "r-1", "Body": "{}", "MD5OfBody": "99914b932bd37a50b983c5e7c90ae93b",
        "Attributes": {"SentTimestamp": "1768478400123", "ApproximateReceiveCount": "3"},
    }]})));
    let received = queue(&replay).receive(10, Duration::from_millis(19_001), Duration::from_mins(2)).await.unwrap();
    let message = &received[0];
    assert_eq!((message.id.as_str(), message.receipt.as_str(), message.body.as_str()), ("m-1", "r-1", "{}"));
    assert_eq!((message.sent_millis, message.receives), (1_768_478_400_123, 3));
    let (target, body) = asked(&replay.seen()[0]);
    assert_eq!(target, "AmazonSQS.ReceiveMessage");
    let expected = json!({
        "QueueUrl": URL, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 20, "VisibilityTimeout": 120,
        "MessageSystemAttributeNames": ["SentTimestamp", "ApproximateReceiveCount"],
    });
    assert_eq!(body, expected);
    let signed = replay.seen()[0].header("authorization").unwrap_or_default().to_owned();
    assert!(signed.contains("/eu-central-1/sqs/"), "the queue's own region signs: {signed}");
}

#[tokio::test]
async fn a_message_without_its_time_is_not_taken_for_one_of_1970() {
    let replay = Replay::always(answer(&json!({"Messages": [{"MessageId": "m", "ReceiptHandle": "r", "Body": "b"}]})));
    let error = queue(&replay).receive(1, Duration::ZERO, Duration::from_secs(1)).await.unwrap_err();
    assert!(error.kind() == Kind::Retryable && error.message().contains("`SentTimestamp`"), "{error}");
}

#[tokio::test]
async fn batches_go_ten_at_a_time_and_failed_entries_keep_their_places() {
    let replay = Replay::new(|_, _| {
        answer(&json!({
            "Successful": [{"Id": "0"}],
            "Failed": [{"Id": "1", "SenderFault": true, "Code": "ReceiptHandleIsInvalid", "Message": "no\r\nsuch"}],
        }))
    });
    let receipts: Vec<String> = (0..23).map(|number| format!("r-{number}")).collect();
    let failed = queue(&replay).delete(&receipts).await.unwrap();
    assert_eq!(failed.iter().map(|entry| entry.index).collect::<Vec<_>>(), [1, 11, 21]);
    assert_eq!(failed[0].to_string(), "ReceiptHandleIsInvalid: \"no\\r\\nsuch\"");
    let changes: Vec<(String, Duration)> = receipts.iter().map(|receipt| (receipt.clone(), Duration::from_secs(30))).collect();
    assert_eq!(queue(&replay).change_visibility(&changes[..11]).await.unwrap().len(), 2);
    let seen: Vec<(String, Value)> = replay.seen().iter().map(asked).collect();
    let sizes: Vec<usize> = seen.iter().map(|(_, body)| body["Entries"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [MOST_AT_ONCE, MOST_AT_ONCE, 3, MOST_AT_ONCE, 1]);
    assert_eq!(seen[1].1["Entries"][3], json!({"Id": "3", "ReceiptHandle": "r-13"}));
    assert_eq!(seen[4].0, "AmazonSQS.ChangeMessageVisibilityBatch");
    assert_eq!(seen[4].1["Entries"][0], json!({"Id": "0", "ReceiptHandle": "r-10", "VisibilityTimeout": 30}));
}

#[tokio::test]
async fn a_message_is_sent_with_its_delay_and_throttling_is_outlasted() {
    let replay = Replay::new(|number, _| match number {
        0 => refusal(400, "RequestThrottled", "RequestThrottled"),
        _ => answer(&json!({"MessageId": "m-2", "MD5OfMessageBody": "5eb63bbbe01eeed093cb22bb8f5acdc3"})),
    });
    let id = queue(&replay).send("hello world", Duration::from_mins(15)).await.unwrap();
    assert_eq!(id, "m-2");
    let (target, body) = asked(&replay.seen()[1]);
    assert_eq!(target, "AmazonSQS.SendMessage");
    assert_eq!(body, json!({"QueueUrl": URL, "MessageBody": "hello world", "DelaySeconds": 900}));
}

async fn refused(reply: Reply) -> Error {
    let replay = Replay::always(reply);
    let error = queue(&replay).receive(1, Duration::ZERO, Duration::from_secs(1)).await.unwrap_err();
    let said = error.to_string();
    assert!(!said.contains('\n') && !said.contains(SECRET) && !said.contains(TOKEN), "{said}");
    assert!(said.starts_with(&format!("could not receive from the queue `{URL}` (")), "{said}");
    error
}

#[tokio::test]
async fn refusals_are_told_by_kind_with_what_to_do() {
    let cases = [
        (
            refusal(400, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"),
            Kind::Vendor,
            "there is no such queue, create it",
        ),
        (refusal(403, "AccessDeniedException", "AccessDenied"), Kind::Vendor, "allow the function's role `sqs:ReceiveMessage`"),
        (
            refusal(400, "KmsAccessDenied", "KMS.AccessDeniedException"),
            Kind::Vendor,
            "the KMS key that encrypts the queue refused",
        ),
        (refusal(403, "OverLimit", "OverLimit"), Kind::Retryable, "too many messages are in flight"),
        (refusal(400, "RequestThrottled", "RequestThrottled"), Kind::Retryable, "SQS is throttling"),
        (refusal(403, "InvalidClientTokenId", "InvalidClientTokenId"), Kind::Vendor, "AWS does not know the access key id"),
        (refusal(400, "InvalidParameterValue", "InvalidParameterValue"), Kind::Bug, "please report it"),
        (refusal(400, "NeverHeardOf", "NeverHeardOf"), Kind::Vendor, "SQS does not accept the request"),
        (refusal(500, "NeverHeardOf", "NeverHeardOf"), Kind::Retryable, "SQS could not do it for the moment"),
        (Reply::new(302, "elsewhere"), Kind::Vendor, "something redirects us"),
        (Reply::new(200, "<html>"), Kind::Retryable, "something between us and SQS answered"),
    ];
    for (reply, kind, words) in cases {
        let error = refused(reply.clone()).await;
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(words), "{error}");
    }
}

#[test]
fn the_region_is_read_off_aws_queue_urls_alone() {
    for (url, region) in [
        (URL, Some("eu-central-1")),
        ("https://sqs-fips.us-east-1.amazonaws.com/1/q", Some("us-east-1")),
        ("https://vpce-0a-b.sqs.eu-west-1.vpce.amazonaws.com/1/q", Some("eu-west-1")),
        ("https://us-west-2.queue.amazonaws.com/1/q", Some("us-west-2")),
        ("https://queue.amazonaws.com/1/q", None),
        ("https://sqs.cn-north-1.amazonaws.com.cn/1/q", Some("cn-north-1")),
        ("http://127.0.0.1:5000/123456789012/sqs.eu-central-1.amazonaws.com", None),
        ("http://sqs.eu-central-1.example.com/1/q", None),
        ("nonsense", None),
    ] {
        assert_eq!(region_of(url), region, "{url}");
    }
}

#[tokio::test]
async fn what_is_buried_goes_to_the_queue_that_the_redrive_policy_names() {
    let policy = json!({"deadLetterTargetArn": "arn:aws:sqs:eu-central-1:123456789012:dead", "maxReceiveCount": 100}).to_string();
    let replay = Replay::new(move |_, seen| match seen.header("x-amz-target") {
        Some("AmazonSQS.GetQueueAttributes") => answer(&json!({"Attributes": {"RedrivePolicy": policy}})),
        _ => answer(&json!({"MessageId": "m-1", "MD5OfMessageBody": "99914b932bd37a50b983c5e7c90ae93b"})),
    });
    queue(&replay).bury("{}").await.unwrap();
    let seen = replay.seen();
    let (target, body) = asked(&seen[0]);
    assert_eq!((target.as_str(), &body["AttributeNames"]), ("AmazonSQS.GetQueueAttributes", &json!(["RedrivePolicy"])));
    let (target, body) = asked(&seen[1]);
    assert_eq!(target, "AmazonSQS.SendMessage");
    assert_eq!(body["QueueUrl"], "https://sqs.eu-central-1.amazonaws.com/123456789012/dead");
    assert_eq!(body["MessageBody"], "{}");
}

#[tokio::test]
async fn a_queue_without_dead_letters_is_the_vendors_to_mend() {
    let replay = Replay::always(answer(&json!({})));
    let error = queue(&replay).bury("{}").await.unwrap_err();
    assert!(error.kind() == Kind::Vendor && error.message().contains("redrive policy"), "{error}");
}
