//! The Lambda function `dayport-lambda`: a cold start makes what is kept, and hands each event on.

use std::io::{Write as _, stdout};

use dayport::config::Environment;
use dayport::handler::Function;
use dayport::store::s3::{Clients, Retries};
use lambda_runtime::service_fn;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    log_as_json();
    let environment = Environment::capture();
    let clients = Clients::from_environment(Retries::default()).await;
    let function = Function::new(environment, clients, log_line);
    lambda_runtime::run(service_fn(|event| function.invoke(event))).await
}

/// One JSON object a line, on standard output, where Lambda reads the log.
fn log_as_json() {
    let levels = Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target("aws_config", LevelFilter::WARN)
        // It would log each failure a second time.
        .with_target("lambda_runtime::layers::panic", LevelFilter::OFF);
    let lines = tracing_subscriber::fmt::layer().json().flatten_event(true).with_current_span(false).with_ansi(false);
    tracing_subscriber::registry().with(levels).with(lines).init();
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(at = panic.location().map(tracing::field::display), "{}", panic.payload_as_str().unwrap_or("panic"));
    }));
}

fn log_line(line: &str) {
    // Whoever can't write its log has nowhere to say so.
    let _ = writeln!(stdout().lock(), "{line}");
}
