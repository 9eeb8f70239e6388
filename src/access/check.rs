//! `dayport check`: a connection test that does what a run would do, says what was refused and by whom, and takes away what it made.
//!
//! Across accounts S3 says no more than "Access Denied", so the test infers: it asks again without a header, or for an upload that does
//! not exist, and what is allowed then tells what was missing before. Nothing that it asks for leaves anything behind, but for what the
//! report names.

mod own;
mod probe;

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};

use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use serde::{Serialize, Serializer};

use crate::domain::error::{Error, Kind, Result};
use crate::domain::settings::{Credentials, Destination, Settings};
use crate::store::ports::{Delete, List, ListUploads, Multipart, Read, Write};
use crate::store::s3::{Clients, RequestOptions, S3Bucket};

/// What is tried, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The credentials that sign for the customer's bucket can be had.
    Credentials,
    /// Requests go to the bucket's region.
    Region,
    /// The account that must own the bucket does.
    Owner,
    /// An upload can be begun.
    Create,
    /// A part can be sent.
    Part,
    /// An upload can be given up.
    Abort,
    /// An upload can be completed.
    Complete,
    /// A manifest can be written.
    Manifest,
    /// What was written can be read.
    Read,
    /// The prefix can be listed.
    List,
    /// Its open uploads can be listed.
    Sweep,
    /// An object can be deleted.
    Delete,
    /// The encryption asked for is taken.
    Encryption,
    /// The customer will own the objects.
    Ownership,
    /// Our own state can be written, under conditions.
    HeadWrite,
    /// Our own staging can be listed.
    StagingList,
    /// And read.
    StagingRead,
}

impl Step {
    /// All of them, in the order of the report.
    pub const ALL: [Step; 17] = [
        Step::Credentials,
        Step::Region,
        Step::Owner,
        Step::Create,
        Step::Part,
        Step::Abort,
        Step::Complete,
        Step::Manifest,
        Step::Read,
        Step::List,
        Step::Sweep,
        Step::Delete,
        Step::Encryption,
        Step::Ownership,
        Step::HeadWrite,
        Step::StagingList,
        Step::StagingRead,
    ];

    /// The name in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Step::Credentials => "credentials",
            Step::Region => "region",
            Step::Owner => "owner",
            Step::Create => "create",
            Step::Part => "part",
            Step::Abort => "abort",
            Step::Complete => "complete",
            Step::Manifest => "manifest",
            Step::Read => "read",
            Step::List => "list",
            Step::Sweep => "sweep",
            Step::Delete => "delete",
            Step::Encryption => "encryption",
            Step::Ownership => "ownership",
            Step::HeadWrite => "head write",
            Step::StagingList => "staging list",
            Step::StagingRead => "staging read",
        }
    }
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Ok,
    /// It was done, and the customer may not get what they expect.
    Warning,
    /// It was refused, or failed; whoever is of this kind must act.
    Refused(Kind),
    /// No run of this destination does it.
    NotNeeded,
    /// It could not be tried, because of an earlier step.
    NotTried,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Ok => "ok",
            Outcome::Warning => "warning",
            Outcome::Refused(_) => "refused",
            Outcome::NotNeeded => "not needed",
            Outcome::NotTried => "not tried",
        })
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// What was tried.
    #[serde(serialize_with = "step_name")]
    pub step: Step,
    /// What it came to.
    #[serde(flatten, serialize_with = "outcome_and_kind")]
    pub outcome: Outcome,
    /// What is known of it, in one line.
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it by reference")]
fn step_name<S: Serializer>(step: &Step, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(step.name())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it by reference")]
fn outcome_and_kind<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap as _;
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("outcome", &outcome.to_string())?;
    if let Outcome::Refused(kind) = outcome {
        map.serialize_entry("kind", kind.name())?;
    }
    map.end()
}

/// The whole test of one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The destination's name.
    pub destination: String,
    /// Its place, as `s3://bucket/prefix/`.
    pub place: String,
    /// Every step, in order.
    pub steps: Vec<Line>,
    /// What of the test is, or may be, still in the customer's bucket, and why.
    pub left_behind: Vec<String>,
}

impl Report {
    /// Who must act first: the worst kind of all refused steps; `None` when none was.
    #[must_use]
    pub fn worst(&self) -> Option<Kind> {
        self.steps
            .iter()
            .filter_map(|line| match line.outcome {
                Outcome::Refused(kind) => Some(kind),
                _ => None,
            })
            .max()
    }

    /// The failure to report, in one line; `None` when no step was refused.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        let worst = self.worst()?;
        let refused: Vec<&str> =
            self.steps.iter().filter(|line| matches!(line.outcome, Outcome::Refused(_))).map(|line| line.step.name()).collect();
        let worst_line = self.steps.iter().find(|line| line.outcome == Outcome::Refused(worst))?;
        let (name, message) = (&self.destination, &worst_line.message);
        let steps = if refused.len() == 1 { "the step" } else { "the steps" };
        Some(Error::new(worst, format!("the check of `{name}` was refused at {steps} {}: {message}", refused.join(", "))))
    }

    /// The report for a person: a line a step, what is left behind, and what it comes to.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{} ({})\n", self.destination, self.place);
        for Line { step, outcome, message } in &self.steps {
            let who = match outcome {
                Outcome::Refused(kind) => format!("{kind}: "),
                _ => String::new(),
            };
            // A text takes every line.
            let _ = writeln!(text, "  {:<12}  {outcome:<10}  {who}{message}", step.name());
        }
        for left in &self.left_behind {
            let _ = writeln!(text, "left behind: {left}");
        }
        let refused = self.steps.iter().filter(|line| matches!(line.outcome, Outcome::Refused(_))).count();
        let verdict = match (self.worst(), refused) {
            (None, _) => "a run would be allowed all that it does".to_owned(),
            (Some(Kind::Retryable), _) => "it could not all be tried, call again".to_owned(),
            (Some(kind), 1) => format!("1 step was refused, for the {kind} to mend"),
            (Some(kind), refused) => format!("{refused} steps were refused, the worst for the {kind} to mend"),
        };
        let _ = writeln!(text, "{verdict}");
        text
    }
}

/// The lines as they become known.
#[derive(Debug, Default)]
struct Lines(std::collections::BTreeMap<Step, (Outcome, String)>);

impl Lines {
    fn note(&mut self, step: Step, outcome: Outcome, message: impl Into<String>) {
        self.0.insert(step, (outcome, message.into()));
    }

    fn refused(&mut self, step: Step, error: &Error) {
        self.note(step, Outcome::Refused(error.kind()), error.to_string());
    }

    fn is_known(&self, step: Step) -> bool {
        self.0.contains_key(&step)
    }

    fn is_ok(&self, step: Step) -> bool {
        self.0.get(&step).is_some_and(|(outcome, _)| *outcome == Outcome::Ok)
    }

    fn is_refused(&self, step: Step) -> bool {
        self.0.get(&step).is_some_and(|(outcome, _)| matches!(outcome, Outcome::Refused(_)))
    }

    fn into_steps(mut self) -> Vec<Line> {
        let line = |step| {
            let (outcome, message) =
                self.0.remove(&step).unwrap_or((Outcome::NotTried, "an earlier step stands in the way".to_owned()));
            Line { step, outcome, message }
        };
        Step::ALL.into_iter().map(line).collect()
    }
}

/// A header that a request may go without, to see whether it is what is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variation {
    /// Without the expected bucket owner. Only for requests that change nothing.
    AnyOwner,
    /// Without an ACL.
    NoAcl,
    /// Without encryption.
    NoEncryption,
    /// With neither.
    NoAclNoEncryption,
    /// With the ACL `private`, which a bucket with ACLs disabled does not take.
    PrivateAcl,
}

/// A customer's bucket as the test sees it.
pub trait Probed: Multipart + Write + Delete + Read + List + ListUploads + Sync + Sized {
    /// The same bucket with other headers; `None` where it knows none.
    fn varied(&self, variation: Variation) -> Option<Self>;

    /// The region that requests go to, if it is known.
    fn region(&self) -> Option<String>;
}

impl Probed for S3Bucket {
    fn varied(&self, variation: Variation) -> Option<S3Bucket> {
        let options = self.options().clone();
        Some(self.with_options(match variation {
            Variation::AnyOwner => RequestOptions { expected_bucket_owner: None, ..options },
            Variation::NoAcl => RequestOptions { acl: None, ..options },
            Variation::NoEncryption => RequestOptions { encryption: None, ..options },
            Variation::NoAclNoEncryption => RequestOptions { acl: None, encryption: None, ..options },
            Variation::PrivateAcl => RequestOptions { acl: Some("private".to_owned()), ..options },
        }))
    }

    fn region(&self) -> Option<String> {
        S3Bucket::region(self)
    }
}

/// Asks for the credentials of a destination, as its first request will: what signs, or why nothing can.
pub async fn credentials(
    destination: &Destination,
    clients: &Clients,
    provider: Option<&SharedCredentialsProvider>,
) -> Result<String> {
    let own = clients.sdk_config().credentials_provider();
    let what = match &destination.credentials {
        Credentials::Own => "our own (the function's role)".to_owned(),
        Credentials::Role { role_arn, .. } => format!("a session of `{role_arn}`"),
        Credentials::Secret { secret_arn } => format!("the key pair in the secret `{secret_arn}`"),
        Credentials::Environment { access_key_id_env, .. } => format!("the key pair in the environment (`{access_key_id_env}`)"),
    };
    let Some(provider) = provider.or(own.as_ref()) else {
        return Err(no_credentials());
    };
    match provider.provide_credentials().await {
        Ok(_) => Ok(what),
        Err(error) => {
            let ours = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<Error>());
            Err(ours.map_or_else(no_credentials, |ours| Error::new(ours.kind(), ours.to_string())))
        }
    }
}

fn no_credentials() -> Error {
    Error::vendor(
        "there are no credentials to sign with, give the function a role, or set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` or a profile",
    )
}

/// Tests one destination: the customer's bucket with a probe under `<prefix>_dayport/`, then our own state and staging.
///
/// `signer` is what [`credentials`] said. The report is complete whatever fails.
pub async fn check<C: Probed, V: List + Read + Write, S: List + Read>(
    settings: &Settings,
    destination: &Destination,
    signer: Result<String>,
    customer: &C,
    state: &V,
    staging: &S,
) -> Report {
    let mut lines = Lines::default();
    let mut left_behind = Vec::new();
    match signer {
        Ok(what) => {
            lines.note(Step::Credentials, Outcome::Ok, what);
            left_behind = probe::probe(destination, settings.run.function_role_arn.as_deref(), customer, &mut lines).await;
        }
        Err(error) => lines.refused(Step::Credentials, &error),
    }
    own::head_write(settings, destination, state, &mut lines).await;
    own::staging(settings, destination, staging, &mut lines).await;
    Report {
        destination: destination.name.clone(),
        place: format!("s3://{}/{}", destination.s3_bucket, destination.s3_prefix),
        steps: lines.into_steps(),
        left_behind,
    }
}
