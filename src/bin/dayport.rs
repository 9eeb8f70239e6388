//! The command line `dayport`: arguments to the same calls that the function makes.

use std::process::ExitCode;

use clap::Parser as _;
use dayport::cli::{self, Arguments, Terminal};
use dayport::config::Environment;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let environment = Environment::capture();
    let terminal = Terminal::new();
    log_warnings(&terminal);
    cli::perform(arguments, &environment, &terminal).await
}

/// What a person should know while a command works goes to standard error, beside its progress.
fn log_warnings(terminal: &Terminal) {
    let levels = Targets::new().with_default(LevelFilter::WARN).with_target("s3s", LevelFilter::OFF);
    let lines = tracing_subscriber::fmt::layer().without_time().with_target(false).with_ansi(false).with_writer(terminal.clone());
    tracing_subscriber::registry().with(levels).with(lines).init();
}
