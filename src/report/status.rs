//! Where every day stands, as JSON and as text.

use std::fmt::Write as _;

use serde::Serialize;

use super::progress::{bytes, count};
use super::table::{Align, TextTable};
use crate::run::standing::{Configured, DayStanding, DayState, Standing};

/// The answer of `dayport status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusReport {
    /// Every destination that was asked for, at each of its places.
    pub destinations: Vec<Standing>,
}

impl StatusReport {
    /// The report for a person: for each destination its days as a table, then what asks for something to be done.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<String> = self.destinations.iter().map(standing_text).collect();
        texts.join("\n")
    }
}

fn standing_text(standing: &Standing) -> String {
    let what = match standing.configured {
        Configured::Enabled => "",
        Configured::Paused => ", paused",
        Configured::Moved => ", where it was before it moved",
        Configured::Removed => ", no longer configured",
    };
    let mut text = format!("{} ({}){what}\n", standing.destination, standing.place);
    let mut table = TextTable::new([
        ("day", Align::Left),
        ("state", Align::Left),
        ("re-runs", Align::Right),
        ("rows", Align::Right),
        ("files", Align::Right),
        ("size", Align::Right),
        ("quarantined", Align::Right),
        ("late", Align::Right),
        ("verified", Align::Left),
    ]);
    for day in &standing.days {
        table.push(row(day));
    }
    text.push_str(&table.text());
    // A text takes every line.
    if standing.days.is_empty() {
        let _ = writeln!(text, "  no run yet");
    }
    for snapshot in &standing.snapshots {
        let files = if snapshot.files == 1 { "file" } else { "files" };
        let _ = writeln!(text, "  snapshot `{}` is of {}, {} {files}", snapshot.table, snapshot.date, snapshot.files);
    }
    if standing.held {
        let _ = writeln!(text, "  an invocation holds it, or died while it did");
    }
    for day in &standing.days {
        for line in advice(standing, day) {
            let _ = writeln!(text, "  {}: {line}", day.date);
        }
    }
    for note in &standing.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    text
}

fn row(day: &DayStanding) -> [String; 9] {
    let of = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), count);
    let totals = day.totals.as_ref();
    [
        day.date.to_string(),
        day.state.name().to_owned(),
        count(day.generation.into()),
        of(totals.map(|totals| totals.counts.delivered)),
        of(totals.map(|totals| totals.files)),
        totals.map_or_else(|| "-".to_owned(), |totals| bytes(totals.bytes)),
        of(totals.map(|totals| totals.counts.quarantined)),
        of(day.late_objects),
        match day.faults {
            None => "-".to_owned(),
            Some(0) => "yes".to_owned(),
            Some(faults) => format!("{} faults", count(faults)),
        },
    ]
}

/// What asks for something to be done about a day.
fn advice(standing: &Standing, day: &DayStanding) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(started) = &day.started {
        let uploads = day.uploads.unwrap_or_default();
        let open = if uploads > 0 { format!(", {} recorded uploads may be open", count(uploads)) } else { String::new() };
        let next = match (day.state, standing.configured) {
            (_, Configured::Removed | Configured::Moved) => {
                "nobody goes on with it: configure the destination as it was and run the day, or let the bucket's lifecycle rule end its uploads"
            }
            (DayState::Dead, _) => "run the day again with `--force`",
            (DayState::Committing, _) => "the next run finishes its commit",
            _ => "the next run goes on",
        };
        let tries = match day.attempts.unwrap_or_default() {
            1 => "1 invocation".to_owned(),
            more => format!("{} invocations", count(more.into())),
        };
        lines.push(format!("begun {started}, {tries}{open}; {next}"));
    }
    if let Some(failure) = &day.failure {
        let message: Vec<&str> = failure.message.lines().collect();
        lines.push(format!("failed ({}): {}", failure.kind, message.join("; ")));
    }
    if let Some(late) = day.late_objects {
        let objects = if late == 1 { "object" } else { "objects" };
        lines.push(format!("{} staged {objects} came after it was committed, run the day again with `--force`", count(late)));
    }
    if day.faults.is_some_and(|faults| faults > 0) {
        lines.push(format!("`dayport verify {} --date {}` names its faults", standing.destination, day.date));
    }
    lines
}
