//! What an invocation answers: all of its runs, short enough to send, and one error where any of them failed.

use std::fmt;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::access::check::Report;
use crate::domain::error::{Error, Kind};
use crate::domain::spelling::legible;
use crate::run::answer::RunAnswer;

/// The most bytes of an answer: Lambda hands at most 256 KB on to an on-failure destination, envelope included.
const MOST_BYTES: usize = 200_000;
/// The most characters of a failed invocation's message.
const MOST_CHARACTERS: usize = 2_000;

/// The answer of the function, and of `dayport run --output json` (CONTRACT.md §7).
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// One a destination and day, in the order in which they were run.
    pub runs: Vec<RunAnswer>,
    /// Whether files, or tables too, were left out because the answer would have been too long.
    pub truncated: bool,
    /// The report of a connection test, where one was asked for.
    pub check: Option<Report>,
    /// Where messages were handed over: the ids of those that have to come again. Then it is the whole answer, in the form that an event
    /// source mapping reads (AWS Lambda Developer Guide, "Implementing partial batch responses").
    pub failed_messages: Option<Vec<String>>,
}

/// One message that has to come again.
#[derive(Serialize)]
struct ItemFailure<'a> {
    #[serde(rename = "itemIdentifier")]
    id: &'a str,
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Answer", 3)?;
        if let Some(ids) = &self.failed_messages {
            let failures: Vec<ItemFailure<'_>> = ids.iter().map(|id| ItemFailure { id }).collect();
            object.serialize_field("batchItemFailures", &failures)?;
            return object.end();
        }
        object.serialize_field("runs", &self.runs)?;
        if self.truncated {
            object.serialize_field("truncated", &true)?;
        }
        if let Some(check) = &self.check {
            object.serialize_field("check", check)?;
        }
        object.end()
    }
}

impl Answer {
    /// The answer to messages that were handed over: the ids of those that have to come again.
    pub(super) fn of_messages(failed: Vec<String>) -> Answer {
        Answer { failed_messages: Some(failed), ..Answer::default() }
    }

    /// The answer to a request for a connection test.
    pub(super) fn of_check(report: Report) -> Answer {
        Answer { check: Some(report), ..Answer::default() }
    }

    /// The same, at most 200 KB as JSON: where it is longer its files are left out, then its tables; each manifest has them all.
    #[must_use]
    pub fn fitted(mut self) -> Answer {
        if self.bytes() > MOST_BYTES {
            self.truncated = true;
            self.runs.iter_mut().flat_map(|run| &mut run.tables).for_each(|table| table.files.clear());
        }
        if self.bytes() > MOST_BYTES {
            self.runs.iter_mut().for_each(|run| run.tables.clear());
        }
        self
    }

    fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |json| json.len())
    }

    /// The failure of an invocation in which any run failed: of the worst kind, with one line that names the failed runs, worst first.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        let mut failed: Vec<(Kind, String)> = self
            .runs
            .iter()
            .filter_map(|run| {
                let error = run.error.as_ref()?;
                let kind = Kind::from_name(error.kind).unwrap_or(Kind::Bug);
                Some((kind, format!("{} {} ({kind}): {}", run.destination, run.date, one_line(&error.message))))
            })
            .collect();
        failed.sort_by_key(|(kind, _)| std::cmp::Reverse(*kind));
        let (worst, _) = failed.first()?;
        let told: Vec<&str> = failed.iter().map(|(_, message)| message.as_str()).collect();
        let message = match self.runs.len() {
            1 => told.join("; "),
            all => format!("{} of {all} runs failed: {}", told.len(), told.join("; ")),
        };
        Some(Error::new(*worst, cut(message)))
    }
}

fn cut(mut message: String) -> String {
    if let Some((at, _)) = message.char_indices().nth(MOST_CHARACTERS) {
        message.truncate(at);
        message.push_str("… (the log has the whole answer)");
    }
    message
}

/// A message without line ends and control characters: several mistakes of a configuration are told one after the other.
pub(super) fn one_line(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    legible(&lines.join("; "))
}

/// How an invocation failed: before any run began, or in some of its runs, of which the answer then tells.
pub struct Failure {
    /// The kind that is reported, and one line.
    pub error: Error,
    /// Every run that was tried.
    pub answer: Option<Answer>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { error, answer: None }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::counts::Counts;
    use crate::domain::run::RunId;
    use crate::domain::table::{SyncMode, TableName};
    use crate::run::answer::{FileAnswer, RunOutcome, TableAnswer};

    fn run(destination: &str) -> RunId {
        RunId { destination: destination.to_owned(), day: "2026-01-15".parse().unwrap() }
    }

    fn failed(destination: &str, error: &Error) -> RunAnswer {
        RunAnswer::failed(&run(destination), error)
    }

    fn committed(destination: &str, files: usize) -> RunAnswer {
        let file = |number: usize| FileAnswer {
            key: format!("data/pageview_events/year=2026/month=1/day=15/data-{number:012}.parquet"),
            rows: 1,
            bytes: 1,
            partition: None,
        };
        let table = TableAnswer {
            name: TableName::of_event("Pageview"),
            sync: SyncMode::Incremental,
            rows: 1,
            bytes: 1,
            schema_version: Some(1),
            files: (0..files).map(file).collect(),
        };
        RunAnswer {
            tables: vec![table],
            manifest: Some("s3://acme/_dayport/2026-01-15.json".to_owned()),
            ..RunAnswer::bare(&run(destination), RunOutcome::Committed)
        }
    }

    #[test]
    fn an_answer_without_failures_is_no_failure() {
        let answer = Answer { runs: vec![committed("acme", 1)], ..Answer::default() };
        assert!(answer.failure().is_none());
        assert!(Answer::default().failure().is_none());
    }

    #[test]
    fn of_several_failures_the_worst_kind_is_reported_and_all_are_named() {
        let runs = vec![
            failed("a", &Error::retryable("nothing is staged yet")),
            committed("b", 1),
            failed("c", &Error::vendor("no table, add one")),
            failed("d", &Error::customer("bucket `x`\nis missing")),
        ];
        let error = Answer { runs, ..Answer::default() }.failure().unwrap();
        assert_eq!(error.kind(), Kind::Vendor);
        assert_eq!(
            error.message(),
            "3 of 4 runs failed: c 2026-01-15 (vendor): no table, add one; d 2026-01-15 (customer): bucket `x`; is missing; a 2026-01-15 (retryable): nothing is staged yet"
        );
    }

    #[test]
    fn one_run_that_failed_says_no_more_than_its_own_message() {
        let answer = Answer { runs: vec![failed("a", &Error::bug("1 is 2, please report it"))], ..Answer::default() };
        let error = answer.failure().unwrap();
        assert_eq!((error.kind(), error.message()), (Kind::Bug, "a 2026-01-15 (bug): 1 is 2, please report it"));
    }

    #[test]
    fn the_message_of_very_many_failures_is_cut() {
        let runs = (0..1000).map(|number| failed(&format!("ü{number}"), &Error::bug("no"))).collect();
        let message = Answer { runs, ..Answer::default() }.failure().unwrap().message().to_owned();
        assert!(message.starts_with("1000 of 1000 runs failed: ü0 2026-01-15 (bug): no; "), "{message}");
        assert!(message.chars().count() < MOST_CHARACTERS + 50 && message.ends_with("(the log has the whole answer)"));
    }

    #[test]
    fn an_answer_of_200_kb_keeps_its_files_and_a_longer_one_has_none_then_no_tables() {
        let small = Answer { runs: vec![committed("acme", 1000)], ..Answer::default() }.fitted();
        assert!(!small.truncated);
        assert_eq!(small.runs[0].tables[0].files.len(), 1000);
        assert!(!serde_json::to_string(&small).unwrap().contains("truncated"));

        let long = Answer { runs: vec![committed("acme", 3000)], ..Answer::default() }.fitted();
        assert!(long.truncated);
        assert_eq!((long.runs[0].tables.len(), long.runs[0].tables[0].files.len()), (1, 0));
        assert!(serde_json::to_string(&long).unwrap().ends_with(",\"truncated\":true}"));

        let table = committed("acme", 0).tables.remove(0);
        let many =
            RunAnswer { tables: vec![table; 3000], counts: Counts { read: 7, ..Counts::default() }, ..committed("acme", 0) };
        let many = Answer { runs: vec![many], ..Answer::default() }.fitted();
        assert!(many.truncated && many.runs[0].tables.is_empty());
        assert_eq!(many.runs[0].counts.read, 7, "the rest stays");
        assert!(many.runs[0].manifest.is_some());
    }

    #[test]
    fn messages_are_answered_in_the_form_of_a_partial_batch_response_alone() {
        let json =
            |ids: &[&str]| serde_json::to_string(&Answer::of_messages(ids.iter().map(ToString::to_string).collect())).unwrap();
        assert_eq!(json(&[]), r#"{"batchItemFailures":[]}"#);
        let hostile = "b\"},{\"itemIdentifier\":\"c";
        let parsed: serde_json::Value = serde_json::from_str(&json(&["a", hostile])).unwrap();
        assert_eq!(parsed, serde_json::json!({"batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": hostile}]}));
    }

    #[test]
    fn several_mistakes_become_one_line() {
        assert_eq!(one_line("a: b\nc: d\n"), "a: b; c: d");
        assert_eq!(one_line("a"), "a");
        // An object's key stood in it as it was, and the console that showed the error obeyed it.
        assert_eq!(one_line("`\u{1b}[31m` is damaged"), "`\\u{1b}[31m` is damaged");
    }
}
