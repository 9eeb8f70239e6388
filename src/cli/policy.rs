//! `dayport policy`: what the customer has to allow, on standard output, and what to do with it on standard error.

use std::process::ExitCode;

use super::{Outcome, PolicyArguments, PolicyOutput, Terminal, load};
use crate::access::policy::{self, Wanted};
use crate::config::Environment;
use crate::domain::error::Error;
use crate::handler::named;

pub(super) async fn print(arguments: &PolicyArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let services = load(arguments.config.as_deref(), environment).await?;
    let settings = services.settings();
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
