//! What went wrong and who must act: the one error type of the crate.

use std::error::Error as StdError;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Who must act on a failure; CONTRACT.md §4 lists the four kinds.
///
/// The order is the order of severity: of several failures the worst (greatest) is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Nobody: throttling, network, a marker or data that is not there yet. Calling again later may succeed.
    Retryable,
    /// The customer: permission, bucket, region or key on their side.
    Customer,
    /// The vendor, who runs Dayport: configuration, staged data, our own permissions.
    Vendor,
    /// The authors of Dayport: something that can't happen did.
    Bug,
}

impl Kind {
    /// The name in answers and logs: `retryable`, `customer`, `vendor`, `bug`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Retryable => "retryable",
            Kind::Customer => "customer",
            Kind::Vendor => "vendor",
            Kind::Bug => "bug",
        }
    }

    /// Lambda's `errorType`: `Dayport.Retryable` and so on.
    #[must_use]
    pub fn error_type(self) -> &'static str {
        match self {
            Kind::Retryable => "Dayport.Retryable",
            Kind::Customer => "Dayport.Customer",
            Kind::Vendor => "Dayport.Vendor",
            Kind::Bug => "Dayport.Bug",
        }
    }

    /// The kind of that name, if it is one of the four.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Kind> {
        [Kind::Retryable, Kind::Customer, Kind::Vendor, Kind::Bug].into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A failure with the kind that says who must act, chosen where the cause was seen.
///
/// `Display` gives one line: the message, then each source. A secret never gets in: callers pass names, not values, of credentials.
pub struct Error {
    kind: Kind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What every fallible function of the crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A failure of `kind`; `message` is lower case, without a full stop, and ends in what to do.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), source: None }
    }

    /// A failure that calling again later may mend.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self::new(Kind::Retryable, message)
    }

    /// A failure on the customer's side.
    pub fn customer(message: impl Into<String>) -> Self {
        Self::new(Kind::Customer, message)
    }

    /// A failure on the vendor's side: ours, by configuration or staged data.
    pub fn vendor(message: impl Into<String>) -> Self {
        Self::new(Kind::Vendor, message)
    }

    /// A failure that only a change of Dayport's code can mend.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(Kind::Bug, message)
    }

    /// The same failure with its cause attached; the cause is printed after the message.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same failure, said from further out: `what` goes before the message. The kind stays.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Who must act.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The message without its causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut said = self.message.clone();
        let mut source = self.source();
        while let Some(cause) = source {
            // The SDK repeats the same sentence at several levels; once is enough.
            let text = cause.to_string();
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said.push_str(&text);
            }
            source = cause.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_kind_is_the_greatest() {
        let worst = [Kind::Customer, Kind::Bug, Kind::Retryable, Kind::Vendor].into_iter().max();
        assert_eq!(worst, Some(Kind::Bug));
        assert!(Kind::Vendor > Kind::Customer && Kind::Customer > Kind::Retryable);
    }

    #[test]
    fn an_error_prints_one_line_with_each_cause_once() {
        let cause = std::io::Error::other("connection reset");
        let error = Error::retryable("could not read `a/b`, it is tried again").with_source(cause).context("acme");
        assert_eq!(error.to_string(), "acme: could not read `a/b`, it is tried again: connection reset");
        assert_eq!(format!("{error:?}"), "retryable: acme: could not read `a/b`, it is tried again: connection reset");
    }
}
