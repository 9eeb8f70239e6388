//! `dayport schema`: pinned schemas shown, compared, declared ahead, put together again.

use std::path::Path;
use std::process::ExitCode;

use super::{Outcome, SchemaArguments, SchemaCommand, Terminal, load, report};
use crate::config::Environment;
use crate::domain::error::{Error, Result};
use crate::handler::Against;

pub(super) async fn schema(arguments: &SchemaArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let services = load(arguments.config.as_deref(), environment).await?;
    match &arguments.command {
        SchemaCommand::Show { destination, table, version } => {
            let found = services.schema_show(destination, table.as_deref(), *version).await?;
            report(terminal, arguments.output, &found, || found.text())?;
        }
        SchemaCommand::Set { destination, table, columns } => {
            let found = services.schema_set(destination, table, columns).await?;
            report(terminal, arguments.output, &found, || found.text())?;
        }
        SchemaCommand::Diff { destination, table, from, to, with } => {
            let against = match (with, from, to) {
                (Some(other), _, _) => Against::Destination(other.clone()),
                (None, Some(from), Some(to)) => Against::Versions(*from, *to),
                _ => Against::Configuration,
            };
            let found = services.schema_diff(destination, table.as_deref(), &against).await?;
            report(terminal, arguments.output, &found, || found.text())?;
        }
        SchemaCommand::Rebuild { destination, manifests, dry_run } => {
            let manifests = manifests.as_deref().map(read_folder).transpose()?;
            let found = services.schema_rebuild(destination, manifests, *dry_run).await?;
            report(terminal, arguments.output, &found, || found.text())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Every `.json` file of a folder, by name.
fn read_folder(folder: &Path) -> Result<Vec<(String, String)>> {
    let unreadable = |path: &Path, error| {
        Error::vendor(format!("`{}` could not be read, name a folder with manifests", path.display())).with_source(error)
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
        let path = entry.map_err(|error| unreadable(folder, error))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&path, error))?;
            found.push((path.display().to_string(), text));
        }
    }
    found.sort();
    Ok(found)
}
