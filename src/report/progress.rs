//! A run's answer as text for a person, with sizes and counts that can be read at a glance.

use std::fmt::Write as _;

use super::table::{Align, TextTable};
use crate::run::answer::{RunAnswer, RunOutcome, TableAnswer};

/// The columns of the table of tables.
const COLUMNS: [(&str, Align); 5] =
    [("table", Align::Left), ("sync", Align::Left), ("rows", Align::Right), ("bytes", Align::Right), ("files", Align::Right)];

/// One run in a few lines: where it stands, what became of its records, its tables, and what a person should know beside. Its error
/// is not among them: see [`error_line`].
#[must_use]
pub fn run_text(answer: &RunAnswer) -> String {
    let mut text = format!("{} {}: {}", answer.destination, answer.date, state_name(answer.state));
    if answer.seconds > 0.0 {
        let _ = write!(text, " in {}", seconds(answer.seconds));
    }
    text.push('\n');
    let counts = &answer.counts;
    if counts.read > 0 {
        let mut told = vec![format!("{} read", count(counts.read)), format!("{} delivered", count(counts.delivered))];
        for (number, what) in [
            (counts.quarantined, "quarantined"),
            (counts.duplicates, "duplicates"),
            (counts.filtered, "filtered"),
            (counts.repaired, "repaired"),
        ] {
            if number > 0 {
                told.push(format!("{} {what}", count(number)));
            }
        }
        if counts.rescued > 0 {
            told.push(format!("{} values rescued", count(counts.rescued)));
        }
        let _ = writeln!(text, "  records: {}", told.join(", "));
    }
    let reasons: Vec<String> = answer
        .quarantine
        .reasons
        .iter()
        .filter(|(_, number)| **number > 0)
        .map(|(why, number)| format!("{why} {}", count(*number)))
        .collect();
    if !reasons.is_empty() {
        let _ = writeln!(text, "  quarantined: {}", reasons.join(", "));
    }
    text.push_str(&tables_text(&answer.tables));
    for note in &answer.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    if let Some(manifest) = &answer.manifest {
        let _ = writeln!(text, "  manifest: {manifest}");
    }
    text
}

/// Why a run failed, in one line: which, who must act, what to do. `None` if it did not.
#[must_use]
pub fn error_line(answer: &RunAnswer) -> Option<String> {
    let error = answer.error.as_ref()?;
    let message: Vec<&str> = error.message.lines().collect();
    Some(format!("{} {} failed ({}): {}", answer.destination, answer.date, error.kind, message.join("; ")))
}

/// A state as it is written in answers.
#[must_use]
pub fn state_name(state: RunOutcome) -> &'static str {
    match state {
        RunOutcome::Committed => "committed",
        RunOutcome::AlreadyCommitted => "already_committed",
        RunOutcome::Continued => "continued",
        RunOutcome::Queued => "queued",
        RunOutcome::Busy => "busy",
        RunOutcome::Paused => "paused",
        RunOutcome::Failed => "failed",
    }
}

fn tables_text(tables: &[TableAnswer]) -> String {
    let row = |table: &TableAnswer| {
        let sync = match table.sync {
            crate::domain::table::SyncMode::Incremental => "incremental",
            crate::domain::table::SyncMode::Snapshot => "snapshot",
        };
        // An answer that was cut short lists no files.
        let files = if table.files.is_empty() { "-".to_owned() } else { count(table.files.len() as u64) };
        [table.name.to_string(), sync.to_owned(), count(table.rows), bytes(table.bytes), files]
    };
    let mut text = TextTable::new(COLUMNS);
    for table in tables {
        text.push(row(table));
    }
    text.text()
}

/// A number with its thousands apart: `1,234,567`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in binary units with three digits or so: `999 B`, `1.50 KiB`, `23.4 MiB`, `999 GiB`.
#[must_use]
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut size = number as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    // What would be rounded to 1024 is shown as 1.00 of the next unit.
    while size >= 1023.5 {
        let Some(next) = units.next() else { break };
        size /= 1024.0;
        unit = next;
    }
    let digits = if size < 9.995 { 2 } else { usize::from(size < 99.95) };
    format!("{size:.digits$} {unit}")
}

/// A time: `0.05 s`, `12.3 s`, `3 min 5 s`.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    if seconds < 9.995 {
        return format!("{seconds:.2} s");
    }
    if seconds < 119.95 {
        return format!("{seconds:.1} s");
    }
    let whole = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    format!("{} min {} s", whole / 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::counts::Counts;
    use crate::domain::error::Error;
    use crate::domain::run::RunId;
    use crate::domain::table::{SyncMode, TableName};
    use crate::run::answer::{FileAnswer, QuarantineAnswer};

    fn run() -> RunId {
        RunId { destination: "acme".to_owned(), day: "2026-01-15".parse().unwrap() }
    }

    fn table(name: &str, sync: SyncMode, rows: u64, bytes: u64, files: usize) -> TableAnswer {
        let file = FileAnswer { key: "k".to_owned(), rows, bytes, partition: None };
        let name = TableName::parse(name).unwrap();
        TableAnswer { name, sync, rows, bytes, schema_version: None, files: vec![file; files] }
    }

    #[test]
    fn numbers_are_made_to_be_read() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567"), (u64::MAX, "18,446,744,073,709,551,615")]
        {
            assert_eq!(count(number), text);
        }
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (10_230, "9.99 KiB"),
            (10_236, "10.0 KiB"),
            (102_348, "99.9 KiB"),
            (102_399, "100 KiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (23 << 20, "23.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), text, "{number}");
        }
        for (time, text) in
            [(0.05, "0.05 s"), (12.34, "12.3 s"), (119.0, "119.0 s"), (185.9, "3 min 5 s"), (f64::NAN, "0 min 0 s")]
        {
            assert_eq!(seconds(time), text);
        }
    }

    #[test]
    fn a_committed_run_is_a_few_lines_and_a_table() {
        let answer = RunAnswer {
            counts: Counts { read: 20_000, delivered: 19_998, quarantined: 2, rescued: 3, ..Counts::default() },
            tables: vec![
                table("pageview_events", SyncMode::Incremental, 19_900, 1 << 20, 2),
                table("domains", SyncMode::Snapshot, 98, 900, 0),
            ],
            quarantine: QuarantineAnswer { reasons: [("late".to_owned(), 0), ("not_json".to_owned(), 2)].into() },
            manifest: Some("s3://acme/_dayport/2026-01-15.json".to_owned()),
            notes: vec!["no `aliases` were staged".to_owned()],
            seconds: 1.5,
            ..RunAnswer::bare(&run(), RunOutcome::Committed)
        };
        let expected = "\
acme 2026-01-15: committed in 1.50 s
  records: 20,000 read, 19,998 delivered, 2 quarantined, 3 values rescued
  quarantined: not_json 2
  table            sync           rows     bytes  files
  pageview_events  incremental  19,900  1.00 MiB      2
  domains          snapshot         98     900 B      -
  note: no `aliases` were staged
  manifest: s3://acme/_dayport/2026-01-15.json
";
        assert_eq!(run_text(&answer), expected);
        assert_eq!(error_line(&answer), None);
    }

    #[test]
    fn a_run_without_anything_is_one_line() {
        assert_eq!(run_text(&RunAnswer::bare(&run(), RunOutcome::Paused)), "acme 2026-01-15: paused\n");
    }

    #[test]
    fn every_state_is_named_as_in_the_answer() {
        for state in [
            RunOutcome::Committed,
            RunOutcome::AlreadyCommitted,
            RunOutcome::Continued,
            RunOutcome::Queued,
            RunOutcome::Busy,
            RunOutcome::Paused,
            RunOutcome::Failed,
        ] {
            assert_eq!(serde_json::to_value(state).unwrap(), state_name(state));
        }
    }

    #[test]
    fn a_failure_is_one_line_with_its_kind() {
        let answer = RunAnswer::failed(&run(), &Error::customer("the bucket `x` is missing,\nmake it"));
        assert_eq!(error_line(&answer).unwrap(), "acme 2026-01-15 failed (customer): the bucket `x` is missing,; make it");
        assert_eq!(run_text(&answer), "acme 2026-01-15: failed\n");
    }
}
