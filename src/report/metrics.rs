//! The log lines that are read by machines: each commit, which an alarm counts, and each failed invocation with its whole answer.

use serde::Serialize;

use crate::domain::counts::Counts;
use crate::domain::error::Error;
use crate::domain::run::Day;
use crate::run::answer::RunAnswer;

/// Its fields in their order; `RunsCommitted` is the metric's name in `template.yaml`.
#[derive(Serialize)]
struct CommitLine<'a> {
    level: &'static str,
    message: &'static str,
    #[serde(rename = "RunsCommitted")]
    runs_committed: u32,
    destination: &'a str,
    date: Day,
    counts: Counts,
    bytes: u64,
    seconds: f64,
}

/// Its fields in their order, named as Lambda names them in its own lines and error answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureLine<'a, A> {
    level: &'static str,
    message: &'a str,
    error_type: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'a A>,
}

/// The line for a run that this invocation committed: a JSON object with `"RunsCommitted":1`, `destination` and `date` at its top, as
/// the metric filter `{ $.RunsCommitted = * }` of `template.yaml` needs it, and the run's counts.
#[must_use]
pub fn commit_line(answer: &RunAnswer) -> String {
    line(&CommitLine {
        level: "INFO",
        message: "committed",
        runs_committed: 1,
        destination: &answer.destination,
        date: answer.date,
        counts: answer.counts,
        bytes: answer.tables.iter().map(|table| table.bytes).sum(),
        seconds: answer.seconds,
    })
}

/// The line for an invocation that failed: a JSON object with the message and its causes, the kind as Lambda's `errorType`, the
/// invocation's id, and the answer, if runs were tried.
#[must_use]
pub fn failure_line(error: &Error, request_id: &str, answer: Option<&impl Serialize>) -> String {
    let error_type = error.kind().error_type();
    line(&FailureLine { level: "ERROR", message: &error.to_string(), error_type, request_id, answer })
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"level\":\"ERROR\",\"message\":\"no JSON: {error}\"}}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::run::RunId;
    use crate::run::answer::RunOutcome;

    fn run() -> RunId {
        RunId { destination: "acme".to_owned(), day: "2026-01-15".parse().unwrap() }
    }

    #[test]
    fn a_commit_is_one_line_that_the_alarm_on_silence_counts() {
        let line = commit_line(&RunAnswer::bare(&run(), RunOutcome::Committed));
        let start = r#"{"level":"INFO","message":"committed","RunsCommitted":1,"destination":"acme","date":"2026-01-15","#;
        assert!(line.starts_with(start) && !line.contains('\n'), "{line}");
        assert!(serde_json::from_str::<Value>(&line).is_ok());
        let template = include_str!("../../template.yaml");
        assert!(
            template.contains("FilterPattern: \"{ $.RunsCommitted = * }\"") && template.contains("MetricValue: $.RunsCommitted")
        );
    }

    #[test]
    fn a_failure_is_one_line_with_the_whole_answer() {
        let error = Error::customer("a\nb").with_source(std::io::Error::other("c"));
        let answer = json!({"runs": [RunAnswer::failed(&run(), &error)]});
        let line = failure_line(&error, "id", Some(&answer));
        assert!(!line.contains('\n'));
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&parsed["message"], &parsed["errorType"]), (&json!("a\nb: c"), &json!("Dayport.Customer")));
        assert_eq!(parsed["requestId"], "id");
        assert_eq!(parsed["answer"]["runs"][0]["error"]["kind"], "customer");
        let bare: Value = serde_json::from_str(&failure_line(&error, "id", None::<&Value>)).unwrap();
        assert_eq!(bare.get("answer"), None);
    }
}
