//! `dayport check`: the connection test of one destination, as a table or JSON.

use std::process::{self, ExitCode};

use super::{CheckArguments, Outcome, Output, Terminal, json_line, load};
use crate::config::Environment;
use crate::handler::{Failure, Invocation, Nobody, handle, now_millis};
use crate::trigger::Request;

pub(super) async fn check(arguments: &CheckArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let services = load(arguments.config.as_deref(), environment).await?;
    let request = Request::Check { destination: arguments.destination.clone() };
    let invocation = Invocation::unlimited(format!("command-{}-{}", now_millis(), process::id()));
    let (answer, code) = match handle(&services, &request, &invocation, &Nobody).await {
        Ok(answer) => (answer, ExitCode::SUCCESS),
        Err(Failure { answer: Some(answer), .. }) => (answer, ExitCode::FAILURE),
        Err(Failure { error, answer: None }) => return Err(error),
    };
    match (arguments.output, &answer.check) {
        (Output::Text, Some(report)) => terminal.tell(&report.text())?,
        _ => terminal.print(&json_line(&answer)?)?,
    }
    Ok(code)
}
