//! `dayport verify`: what landed of a day, read again and compared with the manifest, as a table or JSON.

use std::process::ExitCode;

use super::{Outcome, Terminal, VerifyArguments, json_line};
use crate::cli::Output;
use crate::config::Environment;
use crate::handler::Services;
use crate::store::s3::{Clients, Retries};

pub(super) async fn verify(arguments: &VerifyArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let clients = Clients::from_environment(Retries::default()).await;
    let services = Services::load(arguments.config.as_deref(), &clients, environment).await?;
    let report = services.verify(&arguments.destination, arguments.date).await?;
    match arguments.output {
        Output::Text => terminal.tell(&report.text())?,
        Output::Json => terminal.print(&json_line(&report)?)?,
    }
    Ok(if report.found.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
