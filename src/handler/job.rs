//! A message of the work queue: one destination and day, and which days of the destination come after it.

use serde::{Deserialize, Serialize};

use crate::domain::error::{Error, Result};
use crate::domain::run::{Day, RunId};
use crate::run::answer::ErrorAnswer;

/// What a message of the work queue holds, as JSON.
///
/// The days of a destination are sent one after the other: never two of them may run at once, and a queue keeps no order. Whoever has
/// tried one sends the next. A person may send one too: `{"destination":"acme","date":"2026-01-15"}`, with `"force":true` if need be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Job {
    /// The destination's name.
    pub(super) destination: String,
    /// The day.
    pub(super) date: Day,
    /// The destination's days that are tried after this one, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) then: Vec<Day>,
    /// Whether the day is run again, and the id that the re-run is keyed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) force: Option<Force>,
    /// Whether a schedule asked for it: a paused destination then rests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) scheduled: bool,
    /// Why it is among the dead letters. Sent back to the work queue it means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Why>,
}

/// The `force` of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Force {
    /// As a person writes it; the message's id is the key.
    Written(bool),
    /// The id of the trigger that asked for it.
    Of(String),
}

/// Why a message is among the dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Why {
    kind: String,
    message: String,
}

impl Why {
    pub(super) fn of(error: &ErrorAnswer) -> Why {
        Why { kind: error.kind.to_owned(), message: error.message.clone() }
    }
}

impl Job {
    /// A run that a trigger asks for; `force` is the trigger's id, where the day is to be run again.
    pub(super) fn of(run: &RunId, force: Option<&str>, scheduled: bool) -> Job {
        Job {
            destination: run.destination.clone(),
            date: run.day,
            then: Vec::new(),
            force: force.map(|id| Force::Of(id.to_owned())),
            scheduled,
            error: None,
        }
    }

    /// Reads a message's body. `id` is the message's own, by which a `"force":true` is known from now on.
    pub(super) fn read(body: &str, id: &str) -> Result<Job> {
        let mut job: Job = serde_json::from_str(body).map_err(|error| {
            Error::vendor(format!(
                "the message `{id}` of the work queue is no job ({error}), send one like `{{\"destination\":\"acme\",\"date\":\"2026-01-15\"}}`"
            ))
        })?;
        job.force = match job.force {
            Some(Force::Written(true)) => Some(Force::Of(id.to_owned())),
            Some(Force::Written(false)) => None,
            force => force,
        };
        job.error = None;
        Ok(job)
    }

    /// The message's body.
    pub(super) fn body(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::bug("a job is no JSON, please report it").with_source(error))
    }

    /// The run that it asks for.
    pub(super) fn run(&self) -> RunId {
        RunId { destination: self.destination.clone(), day: self.date }
    }

    /// The id that its re-run is keyed by, if it asks for one.
    pub(super) fn force_id(&self) -> Option<&str> {
        match &self.force {
            Some(Force::Of(id)) => Some(id),
            _ => None,
        }
    }

    /// The job alone, without those after it.
    pub(super) fn alone(&self) -> Job {
        Job { then: Vec::new(), ..self.clone() }
    }

    /// The job of the next day, if there is one.
    pub(super) fn next(&self) -> Option<Job> {
        let (&date, then) = self.then.split_first()?;
        Some(Job { date, then: then.to_vec(), ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::Kind;

    fn read(body: &str) -> Job {
        Job::read(body, "m-1").unwrap()
    }

    #[test]
    fn a_job_is_read_as_it_was_written_and_as_a_person_writes_it() {
        let job = read(r#"{"destination":"acme","date":"2026-01-14","then":["2026-01-15"],"force":"r-1","scheduled":true}"#);
        assert_eq!((job.run().to_string().as_str(), job.force_id(), job.scheduled), ("acme 2026-01-14", Some("r-1"), true));
        assert_eq!(read(&job.body().unwrap()), job);
        assert_eq!(read(r#"{"destination":"acme","date":"2026-01-14","force":true}"#).force_id(), Some("m-1"));
        let plain = r#"{"destination":"acme","date":"2026-01-14"}"#;
        assert_eq!(read(plain).body().unwrap(), plain);
        let buried = r#"{"destination":"acme","date":"2026-01-14","force":false,"error":{"kind":"bug","message":"x"}}"#;
        assert_eq!(read(buried), read(plain), "what it died of is no part of it");
    }

    #[test]
    fn the_next_day_is_asked_for_as_the_first_was() {
        let job = read(r#"{"destination":"acme","date":"2026-01-13","then":["2026-01-14","2026-01-15"],"force":"r-1"}"#);
        let next = r#"{"destination":"acme","date":"2026-01-14","then":["2026-01-15"],"force":"r-1"}"#;
        assert_eq!(job.next().unwrap().body().unwrap(), next);
        assert_eq!(job.alone().next(), None);
    }

    #[test]
    fn what_is_no_job_says_what_one_is() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"destination":"acme"}"#,
            r#"{"destination":"acme","date":"x"}"#,
            r#"{"destination":"a","date":"2026-01-15","dat":1}"#,
        ] {
            let error = Job::read(body, "m-1").unwrap_err();
            assert!(error.kind() == Kind::Vendor && error.message().contains("send one like"), "{error}");
        }
    }
}
