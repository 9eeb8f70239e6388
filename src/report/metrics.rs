//! The log lines that are read by machines: each commit, which an alarm counts, and each failed invocation with its whole answer.

use serde::Serialize;

use crate::domain::error::Error;
use crate::run::answer::RunAnswer;

/// The line for a run that this invocation committed: a JSON object with `"RunsCommitted":1`, `destination` and `date` at its top, as
/// the metric filter `{ $.RunsCommitted = * }` of `template.yaml` needs it, and the run's counts.
#[must_use]
pub fn commit_line(answer: &RunAnswer) -> String {
    let bytes: u64 = answer.tables.iter().map(|table| table.bytes).sum();
    serde_json::json!({
        "level": "INFO",
        "message": "committed",
        "RunsCommitted": 1,
        "destination": answer.destination,
        "date": answer.date,
        "counts": answer.counts,
        "bytes": bytes,
        "seconds": answer.seconds,
    })
    .to_string()
}

/// The line for an invocation that failed: a JSON object with the kind, the message with its causes, and the answer, if runs were tried.
#[must_use]
pub fn failure_line(error: &Error, answer: Option<&impl Serialize>) -> String {
    let mut line = serde_json::json!({
        "level": "ERROR",
        "message": error.to_string(),
        "kind": error.kind().name(),
        "errorType": error.kind().error_type(),
    });
    if let Some(answer) = answer.and_then(|answer| serde_json::to_value(answer).ok())
        && let Some(fields) = line.as_object_mut()
    {
        fields.insert("answer".to_owned(), answer);
    }
    line.to_string()
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
        assert!(!line.contains('\n'));
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["RunsCommitted"], 1);
        assert_eq!((&parsed["destination"], &parsed["date"]), (&json!("acme"), &json!("2026-01-15")));
        let template = include_str!("../../template.yaml");
        assert!(
            template.contains("FilterPattern: \"{ $.RunsCommitted = * }\"") && template.contains("MetricValue: $.RunsCommitted")
        );
    }

    #[test]
    fn a_failure_is_one_line_with_the_whole_answer() {
        let error = Error::customer("a\nb").with_source(std::io::Error::other("c"));
        let answer = json!({"runs": [RunAnswer::failed(&run(), &error)]});
        let line = failure_line(&error, Some(&answer));
        assert!(!line.contains('\n'));
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&parsed["message"], &parsed["errorType"]), (&json!("a\nb: c"), &json!("Dayport.Customer")));
        assert_eq!(parsed["answer"]["runs"][0]["error"]["kind"], "customer");
        let bare: Value = serde_json::from_str(&failure_line(&error, None::<&Value>)).unwrap();
        assert_eq!(bare.get("answer"), None);
    }
}
