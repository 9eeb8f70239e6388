//! Reading the SDK's errors, and saying in one line what was refused, why, and what to do.

use std::error::Error as StdError;
use std::fmt;

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::errors::Answer;
use super::errors::Who::{self, Authors, Owner, Signer, Time, Vendor};
use super::{RequestOptions, Side};
use crate::domain::error::{Error, Kind};
use crate::store::operation::Operation;

/// Why a request did not succeed, read off the SDK's error once. Holds no header that was sent, no key, no token.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) operation: Operation,
    pub(super) cause: Cause,
}

/// What came back, or did not. SQS's requests read their errors so, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum Cause {
    /// The service answered.
    Answer(Answer),
    /// No answer in time.
    TimedOut,
    /// No connection, or it broke.
    NoAnswer(String),
    /// The credentials could not be had.
    NoCredentials(String),
    /// An answer that is not the service's.
    Unreadable(Option<u16>),
    /// The credentials could not be had, and whoever provides them said who must act and what to do.
    Provider(Kind, String),
    /// The request could not be built.
    NotBuilt(String),
}

/// Why S3 refused, as far as whoever asks further needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A permission is missing, or a Deny met the request: S3 says no more across accounts.
    Permission,
    /// The bucket is in another region.
    Region,
    /// The KMS key refused, or is not usable.
    Key,
    /// The credentials are not there, or S3 does not take them.
    Credentials,
    /// Anything else.
    Other,
}

/// What an error of this store carries as its source; it adds nothing to the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub why: Why,
    /// S3's error code; empty where there was none.
    pub code: String,
}

impl Refused {
    /// What an error says of its refusal, if it came from this store.
    #[must_use]
    pub fn of(error: &Error) -> Option<&Refused> {
        error.source().and_then(|source| source.downcast_ref())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code)
    }
}

impl StdError for Refused {}

/// Where a request went, for the message.
pub(super) struct Target<'a> {
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
    pub(super) side: Side,
    pub(super) options: &'a RequestOptions,
}

impl Refusal {
    /// Reads the SDK's error.
    pub(super) fn read<E>(operation: Operation, error: &SdkError<E, HttpResponse>) -> Refusal
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        Refusal { operation, cause: Cause::read(error) }
    }

    /// The error code of an answer.
    pub(super) fn code(&self) -> Option<&str> {
        match &self.cause {
            Cause::Answer(answer) => answer.code.as_deref(),
            _ => None,
        }
    }

    /// The HTTP status of an answer.
    pub(super) fn status(&self) -> Option<u16> {
        match &self.cause {
            Cause::Answer(answer) => Some(answer.status),
            Cause::Unreadable(status) => *status,
            _ => None,
        }
    }

    /// The region that S3 says the bucket is in, where this answer refuses because of it.
    pub(super) fn right_region(&self) -> Option<&str> {
        match &self.cause {
            Cause::Answer(answer) if answer.is_about_region() => answer.region.as_deref(),
            _ => None,
        }
    }

    /// Whether it is the credentials that S3 does not take, and not what they may do.
    pub(super) fn is_about_credentials(&self) -> bool {
        match &self.cause {
            Cause::Answer(answer) => answer.who(self.operation) == Signer && self.code() != Some("AccessDenied"),
            _ => false,
        }
    }

    /// Whether the same bytes may be sent again at once, where the SDK would not: damage on the way, and an error of the moment in
    /// the body of a 200 (a completion's) under a code that it does not know.
    pub(super) fn is_worth_sending_again(&self) -> bool {
        let Cause::Answer(answer) = &self.cause else { return false };
        let damaged = matches!(
            answer.code.as_deref(),
            Some("BadDigest" | "XAmzContentChecksumMismatch" | "XAmzContentSHA256Mismatch" | "IncompleteBody")
        );
        let sends_bytes = matches!(self.operation, Operation::PutObject | Operation::UploadPart);
        (damaged && sends_bytes) || (answer.status == 200 && self.who() == Time)
    }

    /// The error that a caller gets.
    pub(super) fn into_error(self, target: &Target<'_>) -> Error {
        let kind = self.kind(target);
        let whose = match target.side {
            Side::Customer => "the customer's bucket",
            Side::Vendor => "our bucket",
        };
        let verb = self.operation.verb();
        let place = match self.operation {
            Operation::ListObjectsV2 if target.key.is_empty() => format!("{verb} {whose} `{}`", target.bucket),
            _ => format!("{verb} `{}` in {whose} `{}`", plain(target.key), target.bucket),
        };
        let why = self.why();
        if let Cause::Provider(_, message) = &self.cause {
            return Error::new(kind, format!("could not {place}: {message}")).with_source(Refused { why, code: String::new() });
        }
        let (reason, what_to_do) = self.explain(target);
        let said = self.cause.said("S3");
        let code = self.code().map(plain).unwrap_or_default();
        Error::new(kind, format!("could not {place} ({said}): {reason}, {what_to_do}")).with_source(Refused { why, code })
    }

    fn why(&self) -> Why {
        match &self.cause {
            Cause::Provider(..) | Cause::NoCredentials(_) => Why::Credentials,
            Cause::Answer(_) if self.is_about_credentials() => Why::Credentials,
            Cause::Answer(answer) if answer.is_about_region() => Why::Region,
            Cause::Answer(answer) if answer.is_about_key() => Why::Key,
            Cause::Answer(answer) if answer.code.as_deref() == Some("AccessDenied") => Why::Permission,
            // An answer without a body, to a HEAD or from a proxy.
            Cause::Answer(answer) if answer.code.is_none() && answer.status == 403 => Why::Permission,
            _ => Why::Other,
        }
    }

    fn kind(&self, target: &Target<'_>) -> Kind {
        if let Cause::Provider(kind, _) = &self.cause {
            return *kind;
        }
        let side = |side: Side| match side {
            Side::Customer => Kind::Customer,
            Side::Vendor => Kind::Vendor,
        };
        match self.who() {
            Owner => side(target.side),
            Signer => side(target.options.signed_by),
            Vendor => Kind::Vendor,
            Time => Kind::Retryable,
            Authors => Kind::Bug,
        }
    }

    fn who(&self) -> Who {
        match &self.cause {
            Cause::NoCredentials(text) if text.contains("AccessDenied") => Owner,
            Cause::NoCredentials(_) if self.cause.is_of_the_moment() => Time,
            Cause::NoCredentials(_) | Cause::Provider(..) => Vendor,
            Cause::NotBuilt(_) => Authors,
            Cause::Unreadable(Some(300..=399)) => Owner,
            Cause::TimedOut | Cause::NoAnswer(_) | Cause::Unreadable(_) => Time,
            Cause::Answer(answer) => answer.who(self.operation),
        }
    }

    /// Why, and what to do.
    fn explain(&self, target: &Target<'_>) -> (String, String) {
        let pair = |why: &str, what: &str| (why.to_owned(), what.to_owned());
        match &self.cause {
            Cause::TimedOut | Cause::NoAnswer(_) => {
                pair("S3 could not be reached", "check the network if it lasts, and call again")
            }
            Cause::NoCredentials(_) | Cause::Provider(..) => match self.who() {
                Owner => pair(
                    "the role could not be assumed",
                    "check that its trust policy names our role and the external id (`dayport policy --trust` prints one)",
                ),
                Time => pair("the credentials could not be had for the moment", "call again"),
                _ => pair(
                    "there are no credentials to sign with",
                    "give the function a role, or set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` or a profile",
                ),
            },
            Cause::NotBuilt(_) => pair("the request could not be built", "please report it"),
            Cause::Unreadable(Some(300..=399)) => pair("something redirects us", "check `s3_region` and the endpoint"),
            Cause::Unreadable(_) => {
                pair("something between us and S3 answered", "check the endpoint and proxies if it lasts, and call again")
            }
            Cause::Answer(answer) => answer.explain(self.operation, target),
        }
    }
}

impl Cause {
    /// Reads the SDK's error.
    pub(in crate::store) fn read<E>(error: &SdkError<E, HttpResponse>) -> Cause
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        let status_of = |response: Option<&HttpResponse>| response.map(|response| response.status().as_u16());
        match error {
            SdkError::ServiceError(context) => {
                let response = context.raw();
                let meta = context.err().meta();
                let body = response.body().bytes().map(String::from_utf8_lossy);
                let header = response.headers().get("x-amz-bucket-region").map(str::to_owned);
                Cause::Answer(Answer {
                    status: response.status().as_u16(),
                    code: meta.code().map(str::to_owned),
                    message: meta.message().map(str::to_owned),
                    region: header.or_else(|| body.and_then(|body| region_in(&body, meta.message()))),
                })
            }
            _ if let Some(ours) = ours_in(error) => Cause::Provider(ours.kind(), ours.to_string()),
            SdkError::TimeoutError(_) => Cause::TimedOut,
            SdkError::ResponseError(_) => Cause::Unreadable(status_of(error.raw_response())),
            SdkError::DispatchFailure(failure) => {
                let text = chain(error.source().unwrap_or(error));
                match is_about_credentials(&text) {
                    true => Cause::NoCredentials(text),
                    false if failure.is_timeout() => Cause::TimedOut,
                    false => Cause::NoAnswer(text),
                }
            }
            _ => {
                let text = chain(error.source().unwrap_or(error));
                if is_about_credentials(&text) { Cause::NoCredentials(text) } else { Cause::NotBuilt(text) }
            }
        }
    }

    /// What was said, in one line: code and message, or what stood in for an answer.
    /// `service` is who should have answered.
    pub(in crate::store) fn said(&self, service: &str) -> String {
        match self {
            Cause::Answer(answer) => {
                let code = answer.code.clone().unwrap_or_else(|| format!("status {}", answer.status));
                match answer.message.as_deref().map(plain) {
                    Some(message) if !message.is_empty() => format!("{}: \"{message}\"", plain(&code)),
                    _ => plain(&code),
                }
            }
            Cause::TimedOut => "no answer in time".to_owned(),
            Cause::NoAnswer(text) | Cause::NoCredentials(text) | Cause::Provider(_, text) | Cause::NotBuilt(text) => plain(text),
            Cause::Unreadable(Some(status)) => format!("an answer with status {status} that is not {service}'s"),
            Cause::Unreadable(None) => format!("an answer that is not {service}'s"),
        }
    }

    /// Whether credentials that could not be had may be had in a moment.
    pub(in crate::store) fn is_of_the_moment(&self) -> bool {
        let words = ["timed out", "timeout", "dispatch failure", "Throttling", "connection"];
        matches!(self, Cause::NoCredentials(text) if words.iter().any(|word| text.contains(word)))
    }
}

/// The bucket's region in an error's body: `<Region>`, or the words around it in the message.
fn region_in(body: &str, message: Option<&str>) -> Option<String> {
    let between = |text: &str, before: &str, after: &str| {
        let (_, rest) = text.split_once(before)?;
        let (region, _) = rest.split_once(after)?;
        let looks_right =
            !region.is_empty() && region.len() <= 32 && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        looks_right.then(|| region.to_owned())
    };
    between(body, "<Region>", "</Region>")
        .or_else(|| between(message?, "expecting '", "'"))
        .or_else(|| between(message?, "The ", " location constraint is incompatible"))
}

/// The error of ours among the causes: that of a credentials provider of the access room.
fn ours_in<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(ours) = cause.downcast_ref() {
            return Some(ours);
        }
        next = cause.source();
    }
    None
}

/// The causes of an error, each once, in one line.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut said = String::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        if !said.contains(&text) {
            if !said.is_empty() {
                said.push_str(": ");
            }
            said.push_str(&text);
        }
        next = cause.source();
    }
    said
}

fn is_about_credentials(chain: &str) -> bool {
    ["credential", "no identity", "identity resolver"].iter().any(|word| chain.contains(word))
}

/// Text from outside as it may stand in one line of a log: control characters escaped, at most 400 characters, and anything that
/// looks like an access key id blotted out.
pub(crate) fn plain(text: &str) -> String {
    const MOST: usize = 400;
    let mut line = String::new();
    for (index, word) in text.trim().split(' ').enumerate() {
        if index > 0 {
            line.push(' ');
        }
        let letters = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let is_key_id = (letters.starts_with("AKIA") || letters.starts_with("ASIA"))
            && letters.len() >= 16
            && letters.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        if is_key_id {
            line.push_str("(a key id)");
        } else {
            line.extend(word.chars().flat_map(|letter| -> Box<dyn Iterator<Item = char>> {
                if letter.is_control() { Box::new(letter.escape_default()) } else { Box::new(std::iter::once(letter)) }
            }));
        }
    }
    match line.char_indices().nth(MOST) {
        Some((end, _)) => {
            line.truncate(end);
            line.push('…');
            line
        }
        None => line,
    }
}
