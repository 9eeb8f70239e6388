//! `dayport quarantine`: the records that could not be delivered, listed and shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use serde::Serialize;

use super::{
    Outcome, Output, QuarantineCommand, QuarantineListArguments, QuarantineReplayArguments, QuarantineSelection,
    QuarantineShowArguments, Terminal, json_line, load, report,
};
use crate::config::Environment;
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::domain::settings::Destination;
use crate::domain::spelling::brief;
use crate::handler::{Services, named, now_millis};
use crate::run::document;
use crate::run::head::Head;
use crate::run::journal::Phase;
use crate::run::paths::Paths;
use crate::run::quarantine::replay::{Replay, Replayed};
use crate::run::quarantine::stored::{RunQuarantine, StoredRecord, read_parts, runs};
use crate::spool::book::Places;
use crate::spool::refused::{RefusedMessages, refused_messages};

/// Records that are shown unless it is said how many.
const USUAL_LIMIT: u64 = 20;
/// Characters of a record that a person is shown.
const SHOWN_CHARACTERS: usize = 2_000;

pub(super) async fn perform(command: &QuarantineCommand, environment: &Environment, terminal: &Terminal) -> Outcome {
    match command {
        QuarantineCommand::List(arguments) => list(arguments, environment, terminal).await,
        QuarantineCommand::Show(arguments) => show(arguments, environment, terminal).await,
        QuarantineCommand::Replay(arguments) => replay(arguments, environment, terminal).await,
    }
}

#[derive(Serialize)]
struct Listed {
    runs: Vec<RunQuarantine>,
    /// Of the staging queue, which is no destination's own.
    messages: Vec<RefusedMessages>,
}

async fn list(arguments: &QuarantineListArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let services = load(arguments.config.as_deref(), environment).await?;
    let settings = services.settings();
    let destinations: Vec<&Destination> = match &arguments.destination {
        Some(name) => vec![named(name, &settings.destinations)?],
        None => settings.destinations.iter().collect(),
    };
    let days = (arguments.date.or(arguments.from), arguments.date.or(arguments.to));
    let mut found = Vec::new();
    for destination in destinations {
        found.extend(runs(services.state(), &Paths::new(&settings.state, destination), days).await?);
    }
    let mut messages = Vec::new();
    if let (Some(queue), None) = (&settings.staging.queue, &arguments.destination) {
        messages = refused_messages(services.state(), &Places::new(&settings.state, &queue.url), days).await?;
    }
    match arguments.output {
        Output::Json => terminal.print(&json_line(&Listed { runs: found, messages })?)?,
        Output::Text if found.is_empty() && messages.is_empty() => terminal.say("nothing is in quarantine"),
        Output::Text => {
            let lines = found.iter().map(run_line).chain(messages.iter().map(messages_line));
            terminal.tell(&lines.collect::<String>())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(arguments: &QuarantineShowArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let services = load(arguments.config.as_deref(), environment).await?;
    let run = selected_run(&services, &arguments.selection).await?;
    let limit = arguments.limit.unwrap_or(if arguments.output == Output::Json { u64::MAX } else { USUAL_LIMIT });
    let (mut shown, mut matching) = (0, 0);
    let mut visit = |line: &str, record: &StoredRecord| {
        if !is_selected(&arguments.selection, record) {
            return Ok(ControlFlow::Continue(()));
        }
        matching += 1;
        if matching > limit {
            return Ok(ControlFlow::Break(()));
        }
        shown += 1;
        match arguments.output {
            Output::Json => terminal.print(&format!("{line}\n"))?,
            Output::Text => terminal.tell(&record_text(record))?,
        }
        Ok(ControlFlow::Continue(()))
    };
    read_parts(services.state(), &run.parts, &mut visit).await?;
    if arguments.output == Output::Text {
        let more = if matching > shown { ", there are more: raise `--limit`" } else { "" };
        terminal.say(&format!("{shown} of the {} quarantined records of {}{more}", run.quarantined, run_name(&run)));
    }
    Ok(ExitCode::SUCCESS)
}

async fn replay(arguments: &QuarantineReplayArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let services = load(arguments.config.as_deref(), environment).await?;
    let settings = services.settings();
    let run = selected_run(&services, &arguments.selection).await?;
    let destination = named(&arguments.selection.destination, &settings.destinations)?;
    let into = match arguments.into {
        Some(day) => day,
        None => open_day(&services, destination).await?,
    };
    let replay = Replay { state: services.state(), settings, destination, run: &run, into };
    let replayed = match &arguments.file {
        None => replay.selected(&|record| is_selected(&arguments.selection, record)).await?,
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Error::vendor(format!("`{}` could not be read, name the file with the corrected records", path.display()))
                    .with_source(error)
            })?;
            replay.corrected(&text).await?
        }
    };
    report(terminal, arguments.output, &replayed, || replayed_text(&replayed, into))?;
    Ok(ExitCode::SUCCESS)
}

/// The day that a schedule would land next, if it is open still; else today.
async fn open_day(services: &Services, destination: &Destination) -> Result<Day> {
    let settings = services.settings();
    let today = Day::from_epoch_micros(now_millis().saturating_mul(1000))
        .ok_or_else(|| Error::vendor("the clock says no day of a calendar, name one with `--into`"))?;
    let next = settings.own_day(destination, today);
    let head: Head = document::read_or_default(services.state(), &Paths::new(&settings.state, destination).head()).await?;
    Ok(if head.commits.contains_key(&next) { today } else { next })
}

fn replayed_text(replayed: &Replayed, into: Day) -> String {
    let Replayed { destination, staged, already, partial, .. } = replayed;
    let mut text = format!("{staged} records are staged for {destination} {into}, its run delivers them\n");
    if *already > 0 {
        let _ = writeln!(text, "{already} were staged before");
    }
    if *partial > 0 {
        let _ = writeln!(text, "{partial} are kept in part only (`too_large`), stage them yourself");
    }
    text
}

/// The run that is meant: the one that is named, or the day's latest.
async fn selected_run(services: &Services, selection: &QuarantineSelection) -> Result<RunQuarantine> {
    let settings = services.settings();
    let destination = named(&selection.destination, &settings.destinations)?;
    let days = (Some(selection.date), Some(selection.date));
    let found = runs(services.state(), &Paths::new(&settings.state, destination), days).await?;
    let run = found.into_iter().rfind(|run| selection.run.is_none_or(|number| number == run.run));
    run.ok_or_else(|| {
        let which = selection.run.map(|number| format!(" run {number}")).unwrap_or_default();
        Error::vendor(format!(
            "nothing of {} {}{which} is in quarantine, see `dayport quarantine list`",
            destination.name, selection.date
        ))
    })
}

fn is_selected(selection: &QuarantineSelection, record: &StoredRecord) -> bool {
    let has_reason = selection.reasons.is_empty() || selection.reasons.contains(&record.reason);
    has_reason && (selection.objects.is_empty() || selection.objects.contains(&record.object))
}

fn run_name(run: &RunQuarantine) -> String {
    format!("{} {} run {}", run.destination, run.date, run.run)
}

fn told(reasons: &BTreeMap<String, u64>) -> String {
    reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect::<Vec<_>>().join(", ")
}

/// Where they are is said: what a message held belongs to no destination that could show it.
fn messages_line(messages: &RefusedMessages) -> String {
    let RefusedMessages { queue, date, quarantined, reasons, parts } = messages;
    format!("queue {queue} {date}: {quarantined} messages quarantined: {}\n    {}\n", told(reasons), parts.join("\n    "))
}

fn run_line(run: &RunQuarantine) -> String {
    let state = match run.state {
        Phase::Committed => "committed",
        Phase::Failed => "failed",
        Phase::Planned | Phase::Exporting | Phase::Committing => "under way",
    };
    format!("{} ({state}): {} quarantined: {}\n", run_name(run), run.quarantined, told(&run.reasons))
}

fn record_text(record: &StoredRecord) -> String {
    let bytes = record.bytes().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut shown = brief(&text, SHOWN_CHARACTERS);
    let length = record.length.unwrap_or(bytes.len() as u64);
    if record.length.is_some() || shown.len() < text.len() {
        // Writing to text can't fail.
        let _ = write!(shown, "… ({length} bytes in all)");
    }
    let object: String = record.object.escape_debug().collect();
    format!("{object} line {}, byte {}: {}\n    {shown}\n", record.line, record.offset, record.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_shown_the_place_the_reason_and_no_control_characters() {
        let line =
            r#"{"object":"events/a\u001b","etag":"e","line":3,"offset":120,"reason":"not_json","text":"{\"a\":\u001b[2J"}"#;
        let record = StoredRecord::parse(line).unwrap();
        assert_eq!(record_text(&record), "events/a\\u{1b} line 3, byte 120: not_json\n    {\"a\":\u{fffd}[2J\n");
        let long = format!(
            r#"{{"object":"a","etag":"e","line":1,"offset":0,"reason":"too_large","text":"{}","length":70000}}"#,
            "x".repeat(3000)
        );
        let text = record_text(&StoredRecord::parse(&long).unwrap());
        let reasons = BTreeMap::from([("not_records".to_owned(), 2)]);
        let parts = vec!["dayport/spool/q/quarantine/2026-01-15/a.ndjson.gz".to_owned()];
        let messages =
            RefusedMessages { queue: "q".to_owned(), date: "2026-01-15".parse().unwrap(), quarantined: 2, reasons, parts };
        let said =
            "queue q 2026-01-15: 2 messages quarantined: 2 not_records\n    dayport/spool/q/quarantine/2026-01-15/a.ndjson.gz\n";
        assert_eq!(messages_line(&messages), said);
        assert!(text.ends_with("x… (70000 bytes in all)\n") && text.len() < 2_100, "{text}");
    }
}
