//! What SQS's refusals mean: the one table from error code and status to who must act and what to do.

use super::Action;
use crate::domain::error::{Error, Kind};
use crate::store::s3::{Answer, Cause, plain};

/// An error code, who must act, what it means here, and what to do. A queue and the credentials for it are always ours.
///
/// Source: Amazon SQS API Reference, "Common Errors" and each action's errors; the codes of the query protocol, which the JSON protocol's
/// answers name too (`x-amzn-query-error`), stand beside those of the JSON protocol.
#[rustfmt::skip]
const TABLE: &[(&str, Kind, &str, &str)] = &[
    // Permission: see `said_of`, which knows the action.
    ("AccessDenied", Kind::Vendor, "", ""),
    ("AccessDeniedException", Kind::Vendor, "", ""),
    // The queue.
    ("AWS.SimpleQueueService.NonExistentQueue", Kind::Vendor, "there is no such queue", "create it, or correct the queue's URL"),
    ("QueueDoesNotExist", Kind::Vendor, "there is no such queue", "create it, or correct the queue's URL"),
    ("InvalidAddress", Kind::Vendor, "that is no queue's URL", "correct the queue's URL"),
    ("InvalidSecurity", Kind::Vendor, "the queue takes nothing but TLS", "write the queue's URL and the endpoint with `https://`"),
    ("AWS.SimpleQueueService.UnsupportedOperation", Kind::Vendor, "the queue does not know the operation", "use a standard queue of SQS"),
    ("UnsupportedOperation", Kind::Vendor, "the queue does not know the operation", "use a standard queue of SQS"),
    // Credentials.
    ("ExpiredToken", Kind::Vendor, "the session's credentials have expired", "renew the credentials that Dayport runs with and call again"),
    ("ExpiredTokenException", Kind::Vendor, "the session's credentials have expired", "renew the credentials that Dayport runs with and call again"),
    ("InvalidClientTokenId", Kind::Vendor, "AWS does not know the access key id", "check the credentials that Dayport runs with"),
    ("UnrecognizedClientException", Kind::Vendor, "AWS does not know the access key id", "check the credentials that Dayport runs with"),
    ("MissingAuthenticationToken", Kind::Vendor, "the request was not signed", "check the credentials that Dayport runs with"),
    ("IncompleteSignature", Kind::Vendor, "the signature is not one", "check the credentials that Dayport runs with"),
    ("SignatureDoesNotMatch", Kind::Vendor, "the signature is wrong: the secret access key, the region or the clock", "check the credentials, the queue's region and the clock"),
    ("InvalidSignatureException", Kind::Vendor, "the signature is wrong: the secret access key, the region or the clock", "check the credentials, the queue's region and the clock"),
    ("RequestExpired", Kind::Vendor, "the request was too old when it arrived", "set the clock and call again"),
    ("OptInRequired", Kind::Vendor, "the account is not signed up for SQS", "settle it with AWS Support"),
    // Time mends these.
    ("OverLimit", Kind::Retryable, "too many messages are in flight", "call again when some were deleted or came back"),
    ("AWS.SimpleQueueService.OverLimit", Kind::Retryable, "too many messages are in flight", "call again when some were deleted or came back"),
    ("RequestThrottled", Kind::Retryable, "SQS is throttling", "call again later"),
    ("ThrottlingException", Kind::Retryable, "SQS is throttling", "call again later"),
    ("Throttling", Kind::Retryable, "SQS is throttling", "call again later"),
    ("KMS.ThrottlingException", Kind::Retryable, "KMS is throttling", "call again later"),
    ("KmsThrottled", Kind::Retryable, "KMS is throttling", "call again later"),
    ("ServiceUnavailable", Kind::Retryable, "SQS is not available for the moment", "call again later"),
    ("InternalFailure", Kind::Retryable, "SQS failed inside", "call again"),
    ("InternalError", Kind::Retryable, "SQS failed inside", "call again"),
    ("AWS.SimpleQueueService.QueueDeletedRecently", Kind::Retryable, "the queue was deleted a moment ago", "call again when it was created anew"),
    // Ours to mend in code.
    ("ReceiptHandleIsInvalid", Kind::Bug, "SQS does not know the receipt", "please report it"),
    ("InvalidMessageContents", Kind::Bug, "the message holds what SQS does not take", "please report it"),
    ("InvalidParameterValue", Kind::Bug, "SQS does not accept a value that we sent", "please report it"),
    ("MissingParameter", Kind::Bug, "SQS wants a value that we did not send", "please report it"),
];

/// The error that a caller gets.
pub(super) fn refused(action: Action, url: &str, cause: &Cause) -> Error {
    let (kind, reason, what_to_do) = said_of(action, cause);
    let (verb, url, said) = (action.verb(), plain(url), cause.said("SQS"));
    Error::new(kind, format!("could not {verb} the queue `{url}` ({said}): {reason}, {what_to_do}"))
}

fn said_of(action: Action, cause: &Cause) -> (Kind, String, String) {
    let say = |kind, reason: &str, what_to_do: &str| (kind, reason.to_owned(), what_to_do.to_owned());
    match cause {
        Cause::TimedOut | Cause::NoAnswer(_) => {
            say(Kind::Retryable, "SQS could not be reached", "check the network if it lasts, and call again")
        }
        Cause::NoCredentials(_) if cause.is_of_the_moment() => {
            say(Kind::Retryable, "the credentials could not be had for the moment", "call again")
        }
        Cause::NoCredentials(_) | Cause::Provider(..) => say(
            Kind::Vendor,
            "there are no credentials to sign with",
            "give the function a role, or set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` or a profile",
        ),
        Cause::NotBuilt(_) => say(Kind::Bug, "the request could not be built", "please report it"),
        Cause::Unreadable(Some(300..=399)) => {
            say(Kind::Vendor, "something redirects us", "check the queue's URL and the endpoint")
        }
        Cause::Unreadable(_) => say(
            Kind::Retryable,
            "something between us and SQS answered",
            "check the endpoint and proxies if it lasts, and call again",
        ),
        Cause::Answer(answer) => said_of_answer(action, answer),
    }
}

fn said_of_answer(action: Action, answer: &Answer) -> (Kind, String, String) {
    let say = |kind, reason: &str, what_to_do: &str| (kind, reason.to_owned(), what_to_do.to_owned());
    let code = answer.code.as_deref().unwrap_or_default();
    let is_denied = matches!(code, "AccessDenied" | "AccessDeniedException") || (code.is_empty() && answer.status == 403);
    if is_denied {
        let permission = action.permission();
        return (
            Kind::Vendor,
            "a permission is missing".to_owned(),
            format!("allow the function's role `{permission}` on the queue, and check the queue's own policy and key"),
        );
    }
    if let Some((_, kind, reason, what_to_do)) = TABLE.iter().find(|row| row.0 == code) {
        return say(*kind, reason, what_to_do);
    }
    if code.starts_with("KMS.") || code.starts_with("Kms") {
        return say(Kind::Vendor, "the KMS key that encrypts the queue refused", "check the key and its policy");
    }
    match answer.status {
        // The SDK could not read it.
        200..=299 => said_of(action, &Cause::Unreadable(Some(answer.status))),
        300..=399 => say(Kind::Vendor, "something redirects us", "check the queue's URL and the endpoint"),
        408 | 425 | 429 | 500..=599 => say(Kind::Retryable, "SQS could not do it for the moment", "call again"),
        _ => say(Kind::Vendor, "SQS does not accept the request", "check the queue's URL and its settings"),
    }
}
