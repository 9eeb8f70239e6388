//! `dayport verify`: what landed of a day, read again and compared with the manifest, as a table or JSON.

use std::process::ExitCode;

use super::{Outcome, Terminal, VerifyArguments, load, report};
use crate::config::Environment;

pub(super) async fn verify(arguments: &VerifyArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let services = load(arguments.config.as_deref(), environment).await?;
    let found = services.verify(&arguments.destination, arguments.date).await?;
    report(terminal, arguments.output, &found, || found.text())?;
    Ok(if found.found.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
