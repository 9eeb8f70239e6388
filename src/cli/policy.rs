//! `dayport policy`: what the customer has to allow, on standard output, and what to do with it on standard error.

use std::process::ExitCode;

use super::{Outcome, PolicyArguments, PolicyOutput, Terminal};
use crate::access::policy::{self, Wanted};
use crate::config::Environment;
use crate::domain::error::Error;
use crate::handler::{named, settings_at};
use crate::store::s3::{Clients, Retries};

pub(super) async fn print(arguments: &PolicyArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    // Who reads policies may have no account at hand, nor a network: nothing is asked for a region or credentials.
    let clients = Clients::from_environment(Retries::default());
    let settings = Box::pin(settings_at(arguments.config.as_deref(), environment, clients)).await?;
    let destination = named(&arguments.destination, &settings.destinations)?;
    let theirs = match &arguments.merge {
        None => None,
        Some(path) => Some(std::fs::read_to_string(path).map_err(|error| {
            Error::vendor(format!("`{}` could not be read, name the file with the policy that is there", path.display()))
                .with_source(error)
        })?),
    };
    let by_default = Wanted::new(destination, &settings.run);
    let wanted = Wanted {
        principal: arguments.principal.as_deref().or(by_default.principal),
        output: match arguments.output {
            PolicyOutput::Json => policy::Output::Json,
            PolicyOutput::Terraform => policy::Output::Terraform,
            PolicyOutput::CloudFormation => policy::Output::CloudFormation,
        },
        merge: theirs.as_deref(),
        ..by_default
    };
    let printed = match (arguments.kms, arguments.trust) {
        (true, _) => policy::kms(&wanted)?,
        (_, true) => policy::trust(&wanted)?,
        _ => policy::bucket(&wanted)?,
    };
    for note in &printed.notes {
        terminal.say(note);
    }
    terminal.print(&printed.text)?;
    Ok(ExitCode::SUCCESS)
}
