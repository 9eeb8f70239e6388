//! `dayport status`: where every day of every destination stands, as tables or JSON.

use std::process::ExitCode;

use super::{Outcome, Output, StatusArguments, Terminal, json_line};
use crate::config::Environment;
use crate::handler::Services;
use crate::store::s3::{Clients, Retries};

pub(super) async fn status(arguments: &StatusArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let clients = Clients::from_environment(Retries::default()).await;
    let services = Services::load(arguments.config.as_deref(), &clients, environment).await?;
    let report = services.status(arguments.destination.as_deref(), arguments.days).await?;
    terminal.print(&match arguments.output {
        Output::Text => report.text(),
        Output::Json => json_line(&report)?,
    })?;
    Ok(ExitCode::SUCCESS)
}
