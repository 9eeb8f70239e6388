//! `dayport status`: where every day of every destination stands, as tables or JSON.

use std::process::ExitCode;

use super::{Outcome, StatusArguments, Terminal, load, report};
use crate::config::Environment;

pub(super) async fn status(arguments: &StatusArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let services = load(arguments.config.as_deref(), environment).await?;
    let found = services.status(arguments.destination.as_deref(), arguments.days).await?;
    report(terminal, arguments.output, &found, || found.text())?;
    Ok(ExitCode::SUCCESS)
}
