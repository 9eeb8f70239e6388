//! `dayport ddl`: the statements that define a destination's tables, on standard output.

use std::process::ExitCode;

use super::{DdlArguments, DdlDialect, Outcome, Terminal, load};
use crate::config::Environment;
use crate::report::ddl::Dialect;

pub(super) async fn ddl(arguments: &DdlArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let services = load(arguments.config.as_deref(), environment).await?;
    let dialect = match arguments.dialect {
        DdlDialect::Athena => Dialect::Athena,
        DdlDialect::Spark => Dialect::Spark,
        DdlDialect::DuckDb => Dialect::DuckDb,
        DdlDialect::Snowflake => Dialect::Snowflake,
    };
    terminal.print(&services.ddl(&arguments.destination, arguments.table.as_deref(), dialect).await?)?;
    Ok(ExitCode::SUCCESS)
}
