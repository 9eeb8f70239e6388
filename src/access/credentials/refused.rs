//! What STS and Secrets Manager refuse with: who must act and what to do, in one table each.

use std::error::Error as StdError;

use aws_sdk_sts::config::http::HttpResponse;
use aws_sdk_sts::error::{ProvideErrorMetadata, SdkError};

use crate::domain::error::{Error, Kind};
use crate::store::s3::{chain, plain};

/// An error code, who must act, why, and what to do.
type Row = (&'static str, Kind, &'static str, &'static str);

const OWN: &str = "check the credentials that Dayport runs with";

/// Sources: AWS STS API Reference, "Common errors" and `AssumeRole`, errors. What the answer to a role that may not be assumed means
/// depends on its message: see [`by_sts`].
#[rustfmt::skip]
const STS: &[Row] = &[
    ("ExpiredToken", Kind::Vendor, "our own session has expired", OWN),
    ("ExpiredTokenException", Kind::Vendor, "our own session has expired", OWN),
    ("InvalidClientTokenId", Kind::Vendor, "AWS does not know our own access key id", OWN),
    ("UnrecognizedClientException", Kind::Vendor, "AWS does not know our own access key id", OWN),
    ("SignatureDoesNotMatch", Kind::Vendor, "our own secret access key does not belong to its access key id", OWN),
    ("RequestExpired", Kind::Vendor, "the request was too old when it arrived", "set the clock and call again"),
    ("RegionDisabledException", Kind::Vendor, "STS is not active for our account in this region", "activate it in the account's settings of IAM"),
    ("ValidationError", Kind::Vendor, "STS does not accept a value", "check `role_arn` and `external_id`"),
    ("PackedPolicyTooLarge", Kind::Bug, "the session's policy is too large, and we send none", "please report it"),
    ("MalformedPolicyDocument", Kind::Bug, "the session's policy is malformed, and we send none", "please report it"),
];

/// Sources: AWS Secrets Manager API Reference, `GetSecretValue`, errors, and "Common errors".
#[rustfmt::skip]
const SECRETS_MANAGER: &[Row] = &[
    ("ResourceNotFoundException", Kind::Vendor, "there is no such secret", "correct `secret_arn`, or store the secret"),
    ("DecryptionFailure", Kind::Vendor, "the secret's KMS key does not decrypt it", "allow `kms:Decrypt` on that key to the function's own role"),
    ("InvalidRequestException", Kind::Vendor, "the secret is marked for deletion or has no current value", "restore it, or store the key pair again"),
    ("InvalidParameterException", Kind::Vendor, "Secrets Manager does not accept a value", "correct `secret_arn`"),
    ("ExpiredTokenException", Kind::Vendor, "our own session has expired", OWN),
    ("UnrecognizedClientException", Kind::Vendor, "AWS does not know our own access key id", OWN),
    ("InvalidSignatureException", Kind::Vendor, "our own secret access key does not belong to its access key id", OWN),
    ("InternalServiceError", Kind::Retryable, "Secrets Manager failed inside", "call again"),
];

/// A role that could not be assumed.
pub(super) fn by_sts<E>(error: &SdkError<E, HttpResponse>, role: &str, has_external_id: bool) -> Error
where
    E: ProvideErrorMetadata + StdError + 'static,
{
    let could_not = format!("could not assume the role `{}`", plain(role));
    refused(error, &could_not, "STS", STS, |message| {
        if message.contains("no identity-based policy") {
            let what_to_do =
                "allow `sts:AssumeRole` on it to the function's own role (the stack's parameter `AssumableRoleArns`)";
            return (Kind::Vendor, "our own role may not", what_to_do);
        }
        if message.contains("explicit deny in a service control policy") {
            return (Kind::Vendor, "a service control policy denies it", "have that policy changed");
        }
        // STS says the same of a role that is not there.
        let what_to_do = if has_external_id {
            "ask the customer whether the role exists and its trust policy names our role and `external_id` (`dayport policy --trust` prints one)"
        } else {
            "ask the customer whether the role exists, its trust policy names our role (`dayport policy --trust` prints one) and asks for no external id"
        };
        (Kind::Customer, "it does not let us, or is not there", what_to_do)
    })
}

/// A secret that could not be read.
pub(super) fn by_secrets_manager<E>(error: &SdkError<E, HttpResponse>, secret_arn: &str) -> Error
where
    E: ProvideErrorMetadata + StdError + 'static,
{
    let could_not = format!("could not read the secret `{}`", plain(secret_arn));
    refused(error, &could_not, "Secrets Manager", SECRETS_MANAGER, |message| {
        if message.contains("kms") || message.contains("KMS") {
            let what_to_do = "allow `kms:Decrypt` on the secret's key to the function's own role";
            return (Kind::Vendor, "our own role may not decrypt it", what_to_do);
        }
        let what_to_do =
            "allow `secretsmanager:GetSecretValue` on it to the function's own role (the stack's parameter `SecretArns`)";
        (Kind::Vendor, "our own role may not", what_to_do)
    })
}

fn refused<E>(
    error: &SdkError<E, HttpResponse>,
    could_not: &str,
    service: &str,
    table: &[Row],
    denied: impl Fn(&str) -> (Kind, &'static str, &'static str),
) -> Error
where
    E: ProvideErrorMetadata + StdError + 'static,
{
    let SdkError::ServiceError(context) = error else {
        return unanswered(error, could_not, service);
    };
    let meta = context.err().meta();
    let code = meta.code().unwrap_or_default();
    let message = meta.message().unwrap_or_default();
    let status = context.raw().status().as_u16();
    let row = table.iter().find(|row| row.0 == code).map(|row| (row.1, row.2, row.3));
    let (kind, why, what_to_do) = match (row, code, status) {
        (Some(row), ..) => row,
        (None, "AccessDenied" | "AccessDeniedException", _) => denied(message),
        (None, code, 408 | 429 | 500..=599) if !code.starts_with("KMS") => {
            (Kind::Retryable, "it is busy or failed inside", "call again later")
        }
        (None, code, _) if code.starts_with("Throttl") || code.starts_with("TooManyRequests") => {
            (Kind::Retryable, "it is throttling", "call again later")
        }
        (None, _, 403) => denied(message),
        _ => (Kind::Vendor, "it does not accept the request", "check the destination's credentials in the configuration"),
    };
    let said = match (code.is_empty(), message.is_empty()) {
        (true, _) => format!("status {status}"),
        (false, true) => plain(code),
        (false, false) => format!("{}: \"{}\"", plain(code), plain(message)),
    };
    Error::new(kind, format!("{could_not} ({said}): {why}, {what_to_do}"))
}

/// No answer: the network, or credentials of our own that are not there.
fn unanswered<E>(error: &SdkError<E, HttpResponse>, could_not: &str, service: &str) -> Error
where
    E: StdError + 'static,
{
    let text = chain(error.source().unwrap_or(error));
    let is_about_own = ["credential", "no identity", "identity resolver"].iter().any(|word| text.contains(word));
    let (kind, why, what_to_do) = if is_about_own {
        let what_to_do = "give the function a role, or set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` or a profile";
        (Kind::Vendor, "there are no credentials of our own to sign with".to_owned(), what_to_do)
    } else {
        (Kind::Retryable, format!("{service} could not be reached"), "check the network if it lasts, and call again")
    };
    Error::new(kind, format!("{could_not} ({}): {why}, {what_to_do}", plain(&text)))
}
