//! `dayport run`: the days and destinations that were named, in turn, and the answer as text or JSON.

use std::pin::pin;
use std::process::{self, ExitCode};

use super::signals::Signals;
use super::{Outcome, Output, RunArguments, Terminal, load, report};
use crate::config::Environment;
use crate::domain::error::Error;
use crate::handler::{Answer, Failure, Invocation, handle, now_millis};
use crate::report::progress::{error_line, run_text};
use crate::run::answer::RunOutcome;
use crate::trigger::Request;

pub(super) async fn run(arguments: &RunArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let request = request(arguments)?;
    let services = load(arguments.config.as_deref(), environment).await?;
    let mut signals = Signals::listen().map_err(|error| Error::bug("no signal can be listened to").with_source(error))?;
    // The id of this process's own trigger: a forced re-run that was interrupted is another one when it is asked for again.
    let invocation = Invocation::unlimited(format!("command-{}-{}", now_millis(), process::id()));
    let bar = terminal.bar();
    let mut work = pin!(handle(&services, &request, &invocation, &bar));
    let mut stopped_by = None;
    let outcome = loop {
        tokio::select! {
            outcome = work.as_mut() => break outcome,
            code = signals.next() => {
                if stopped_by.is_some() {
                    // Work under way on other threads would be waited for otherwise.
                    process::exit(i32::from(code));
                }
                stopped_by = Some(code);
                invocation.stop();
                terminal.say("stopping after the shard under way, once more stops at once; the next run goes on from what is done");
            }
        }
    };
    let answer = match outcome {
        Ok(answer) | Err(Failure { answer: Some(answer), .. }) => answer,
        Err(Failure { error, answer: None }) => return Err(error),
    };
    tell(&answer, arguments.output, terminal)?;
    let has_failed = answer.runs.iter().any(|run| run.state == RunOutcome::Failed);
    Ok(match stopped_by {
        Some(code) if answer.runs.iter().any(|run| run.state == RunOutcome::Continued) => ExitCode::from(code),
        _ if has_failed => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

fn request(arguments: &RunArguments) -> Result<Request, Error> {
    let (from, to) = match (arguments.date, arguments.from, arguments.to) {
        (Some(day), _, _) => (day, day),
        (None, Some(from), Some(to)) => (from, to),
        _ => return Err(Error::vendor("no day is named, write `--date`, or `--from` and `--to`")),
    };
    if from > to {
        return Err(Error::vendor(format!("`--from {from}` is later than `--to {to}`, write the first day as `--from`")));
    }
    let mut destinations: Vec<String> = Vec::new();
    for name in &arguments.destinations {
        if !destinations.contains(name) {
            destinations.push(name.clone());
        }
    }
    Ok(Request::Days { from, to, destinations, force: arguments.force })
}

fn tell(answer: &Answer, output: Output, terminal: &Terminal) -> Result<(), Error> {
    report(terminal, output, &answer.clone().fitted(), || answer.runs.iter().map(run_text).collect())?;
    for line in answer.runs.iter().filter_map(error_line) {
        terminal.say(&format!("error: {line}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(days: [Option<&str>; 3], destinations: &[&str]) -> RunArguments {
        let [date, from, to] = days.map(|day| day.map(|day| day.parse().unwrap()));
        RunArguments {
            config: None,
            date,
            from,
            to,
            destinations: destinations.iter().map(ToString::to_string).collect(),
            force: true,
            output: Output::Text,
        }
    }

    #[test]
    fn the_arguments_ask_for_what_an_event_by_hand_does() {
        let one = request(&arguments([Some("2026-01-15"), None, None], &["b", "a", "b"])).unwrap();
        let event = serde_json::json!({"date": "2026-01-15", "destination": ["b", "a"], "force": true});
        assert_eq!(one, Request::from_event(&event).unwrap());
        let several = request(&arguments([None, Some("2026-01-14"), Some("2026-01-15")], &[])).unwrap();
        let event = serde_json::json!({"from": "2026-01-14", "to": "2026-01-15", "force": true});
        assert_eq!(several, Request::from_event(&event).unwrap());
    }

    #[test]
    fn a_range_that_goes_back_is_refused() {
        let error = request(&arguments([None, Some("2026-01-16"), Some("2026-01-15")], &[])).unwrap_err();
        assert_eq!(error.message(), "`--from 2026-01-16` is later than `--to 2026-01-15`, write the first day as `--from`");
    }
}
