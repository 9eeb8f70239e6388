//! `dayport.toml` and the environment: what was written becomes ready settings, or every mistake is named at once.
//!
//! Two stages. The written document is walked with its spans (`written`), each value through the rule of its key (`values`), so that one
//! mistake never hides another. Only when none is left are there [`Settings`], with every default filled in. The keys, their types,
//! defaults and meanings stand in one table (`keys`), which the walk, the defaults and `docs/configuration.md` all follow.

mod columns;
mod destination;
mod digest;
mod environment;
mod keys;
mod rules;
mod sections;
mod values;
mod written;

use std::time::Duration;

use toml::de::DeTable;

use crate::domain::error::{Error, Result};
use crate::domain::format::Format;
use crate::domain::settings::Settings;

pub use columns::parse_column;
pub use digest::digest_of;
pub use environment::{Environment, KeyPair, VARIABLES, named_variable, variable};
pub use keys::reference;

const MIB: u64 = 1 << 20;

/// The settings that `text` (a `dayport.toml`) says, with the defaults of `environment`'s machine.
///
/// Fails with kind `Vendor` and all mistakes, one a line: ``dayport.toml:12: unknown key `s3_buket` in `[staging]`, did you mean
/// `s3_bucket`?``. Never echoes a value of `credentials`.
pub fn parse(text: &str, environment: &Environment) -> Result<Settings> {
    let report = written::Report::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map(|span| span.start);
        report.add(at, format!("this is not TOML: {}", values::printable(error.message())));
    }
    // What the parser made up to go on after a syntax error would only give mistakes that nobody made.
    report.finish()?;
    let mut settings = sections::read(&report, document.get_ref(), environment);
    report.finish()?;
    settings.run.dedupe_memory = dedupe_memory(&settings);
    Ok(settings)
}

/// The least that the ids of a `dedupe` get: 1.5 million before any go to scratch.
const DEDUPE_LEAST: u64 = 64 * MIB;

/// What the ids of a `dedupe` may take: their least, and half of what the budget leaves beside all else.
fn dedupe_memory(settings: &Settings) -> u64 {
    DEDUPE_LEAST.saturating_add(settings.run.memory_budget.saturating_sub(minimum_memory(settings)) / 2)
}

/// The least `run.memory_budget` that holds what a run can't do without, in bytes; an estimate on the safe side:
///
/// - 64 MiB for the program, its runtime and its connections;
/// - a quarter of `parquet.row_group_size`, where a destination wants Parquet: open row groups are kept encoded;
/// - four times `staging.max_record_bytes`: the longest record in the read buffer, in its chunk, as columns and encoded;
/// - four times `run.part_size`: two parts on their way, one that fills, one that is being spilled;
/// - 8 MiB a thread: two chunks of lines (2 MiB each), the columns of one, and the builders of the tables that it meets;
/// - 64 MiB for ids, where a destination has `dedupe`.
#[must_use]
pub fn minimum_memory(settings: &Settings) -> u64 {
    let wants_parquet = settings.destinations.iter().any(|destination| destination.format == Format::Parquet);
    let row_groups = if wants_parquet { settings.parquet.row_group_size / 4 } else { 0 };
    let records = settings.staging.max_record_bytes.saturating_mul(4);
    let parts = settings.run.part_size.saturating_mul(4);
    let threads = (settings.run.threads as u64).saturating_mul(8 * MIB);
    let ids = if settings.destinations.iter().any(|destination| destination.dedupe.is_some()) { DEDUPE_LEAST } else { 0 };
    [row_groups, records, parts, threads, ids].into_iter().fold(64 * MIB, u64::saturating_add)
}

/// Refuses a function timeout under twice `state.lease` plus `run.deadline_margin`: an invocation that waits for a dead holder's
/// lease could never take it over and still work.
pub fn check_timeout(settings: &Settings, timeout: Duration) -> Result<()> {
    match rules::timeout_mistake(settings, timeout) {
        None => Ok(()),
        Some(mistake) => Err(Error::vendor(mistake)),
    }
}

/// The bucket and key of an `s3://bucket/key`; `None` when the text does not start with `s3://` and so is a path.
///
/// Fails with kind `Vendor` when the bucket is no bucket name or the key is missing.
pub fn split_s3_url(url: &str) -> Result<Option<(&str, &str)>> {
    let Some(rest) = url.strip_prefix("s3://") else {
        return Ok(None);
    };
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if !values::is_bucket_name(bucket) || key.is_empty() {
        return Err(Error::vendor(format!(
            "`{}` is not an object's address, write it as `s3://bucket/key`",
            values::printable(url)
        )));
    }
    Ok(Some((bucket, key)))
}

#[cfg(test)]
mod tests;
