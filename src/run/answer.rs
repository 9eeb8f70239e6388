//! What a run answers: the part of CONTRACT.md §7 that is said of one destination and day.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::domain::counts::Counts;
use crate::domain::error::Error;
use crate::domain::run::{Day, RunId};
use crate::domain::table::{SyncMode, TableName};

/// Where a run stands when an invocation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// This invocation committed it.
    Committed,
    /// It was committed before; nothing was changed.
    AlreadyCommitted,
    /// The invocation's time ran out; the next goes on.
    Continued,
    /// It waits in the work queue.
    Queued,
    /// Another invocation works on the destination.
    Busy,
    /// The destination is not enabled.
    Paused,
    /// It failed; see the error.
    Failed,
}

/// One run's answer.
#[derive(Clone, Debug, Serialize)]
pub struct RunAnswer {
    /// The destination's name.
    pub destination: String,
    /// The day.
    pub date: Day,
    /// Where the run stands.
    pub state: RunOutcome,
    /// What became of the records.
    pub counts: Counts,
    /// What landed.
    pub tables: Vec<TableAnswer>,
    /// What did not.
    pub quarantine: QuarantineAnswer,
    /// Where the manifest is, if the run is committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// What a person should know beside: snapshots that stayed, objects that were left out, hints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorAnswer>,
    /// How long this invocation worked on it.
    pub seconds: f64,
}

/// A table's files.
#[derive(Clone, Debug, Serialize)]
pub struct TableAnswer {
    /// Its name.
    pub name: TableName,
    /// Its sync mode.
    pub sync: SyncMode,
    /// Rows of all files.
    pub rows: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// The version of its pinned schema (Parquet only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<u32>,
    /// Its files; left out of an answer that would be too long.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileAnswer>,
}

/// A file.
#[derive(Clone, Debug, Serialize)]
pub struct FileAnswer {
    /// Its key.
    pub key: String,
    /// Its rows.
    pub rows: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The day of its partition, if it lies in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Day>,
}

/// How many records were quarantined, and why.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QuarantineAnswer {
    /// By reason.
    pub reasons: BTreeMap<String, u64>,
}

/// A failure, as answered.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorAnswer {
    /// `retryable`, `customer`, `vendor` or `bug`.
    pub kind: &'static str,
    /// One line.
    pub message: String,
}

impl RunAnswer {
    /// An answer that says no more than where the run stands.
    #[must_use]
    pub fn bare(run: &RunId, state: RunOutcome) -> RunAnswer {
        RunAnswer {
            destination: run.destination.clone(),
            date: run.day,
            state,
            counts: Counts::default(),
            tables: Vec::new(),
            quarantine: QuarantineAnswer::default(),
            manifest: None,
            notes: Vec::new(),
            error: None,
            seconds: 0.0,
        }
    }

    /// The answer of a run that failed.
    #[must_use]
    pub fn failed(run: &RunId, error: &Error) -> RunAnswer {
        let error = ErrorAnswer { kind: error.kind().name(), message: error.to_string() };
        RunAnswer { error: Some(error), ..RunAnswer::bare(run, RunOutcome::Failed) }
    }
}
