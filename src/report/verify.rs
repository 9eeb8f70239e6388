//! What re-reading a day came to, as JSON and as text.

use std::fmt::Write as _;

use serde::Serialize;

use super::progress::{bytes, count};
use super::table::{Align, TextTable};
use crate::domain::error::Kind;
use crate::domain::run::Day;
use crate::run::verify::Verification;

/// The answer of `dayport verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// The destination's name.
    pub destination: String,
    /// The staged day.
    pub date: Day,
    /// How often the day was run again: 0 the first time.
    pub generation: u32,
    /// Its place, as `s3://bucket/prefix/`.
    pub place: String,
    /// What is as it was written, and what is not.
    #[serde(flatten)]
    pub found: Verification,
}

impl VerifyReport {
    /// The report for a person: what is as it was written, a line for each fault, what was not looked at, and what it comes to.
    #[must_use]
    pub fn text(&self) -> String {
        let Verification { files, rows, bytes: size, faults, notes } = &self.found;
        let mut text = format!(
            "{} {} ({}): {} files as they were written, {} rows, {}\n",
            self.destination,
            self.date,
            self.place,
            count(*files),
            count(*rows),
            bytes(*size)
        );
        let mut table = TextTable::new([
            ("fault", Align::Left),
            ("side", Align::Left),
            ("table", Align::Left),
            ("key", Align::Left),
            ("what", Align::Left),
        ]);
        for fault in faults {
            table.push([
                fault.kind.name().to_owned(),
                fault.side.to_string(),
                fault.table.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
                fault.key.clone(),
                fault.message.clone(),
            ]);
        }
        text.push_str(&table.text());
        for note in notes {
            // A text takes every line.
            let _ = writeln!(text, "  note: {note}");
        }
        text.push_str(&self.verdict());
        text.push('\n');
        text
    }

    fn verdict(&self) -> String {
        let faults = self.found.faults.len();
        match self.found.worst() {
            None => "everything is as the manifest says".to_owned(),
            Some(Kind::Retryable) => "not everything could be read, call again".to_owned(),
            Some(kind) if faults == 1 => format!("1 object is not as it was written, for the {kind} to mend"),
            Some(kind) => format!("{faults} objects are not as they were written, the worst for the {kind} to mend"),
        }
    }
}
