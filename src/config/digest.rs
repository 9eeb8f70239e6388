//! A destination's digest: two configurations with the same one land the same bytes under the same keys.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::domain::format::Format;
use crate::domain::hex::hex;
use crate::domain::settings::{Destination, Encryption, PartitionBy, Settings, Table};

/// SHA-256, in hex, over the ready settings that decide a destination's keys and bytes, and how its uploads were begun.
///
/// What only decides how fast, when, by whom or whether a run works is left out: threads, memory, scratch, part size, leases, regions,
/// credentials, schedules, quarantine thresholds, markers. A run that was begun under another digest starts its export over.
#[must_use]
pub fn digest_of(destination: &Destination, settings: &Settings) -> String {
    // `serde_json`'s objects are sorted by key, so the text is the same for the same settings.
    let text = decisive(destination, settings).to_string();
    hex(&Sha256::digest(text.as_bytes()))
}

fn decisive(destination: &Destination, settings: &Settings) -> Value {
    let (staging, run) = (&settings.staging, &settings.run);
    let lateness = (destination.partition_by == PartitionBy::Time).then_some(destination.max_lateness_days);
    let encryption = match &destination.encryption {
        None => json!(null),
        Some(Encryption::Aes256) => json!("AES256"),
        Some(Encryption::Kms(key)) => json!(["aws:kms", key]),
    };
    json!({
        "staging": {
            "s3_bucket": staging.s3_bucket,
            "s3_prefix": staging.s3_prefix,
            "event_field": staging.event_field,
            "time_field": staging.time_field,
            "table_field": staging.table_field,
            "organization_field": staging.organization_field,
            "on_damaged_object": staging.on_damaged_object,
            "max_record_bytes": staging.max_record_bytes,
            "max_object_bytes": staging.max_object_bytes,
            "max_ratio": staging.max_ratio,
            "max_depth": staging.max_depth,
        },
        "run": { "shard_size": run.shard_size, "max_tables": run.max_tables },
        "destination": {
            "s3_bucket": destination.s3_bucket,
            "s3_prefix": destination.s3_prefix.as_str(),
            "format": destination.format,
            "layout": destination.layout,
            "partition_by": destination.partition_by,
            "max_lateness_days": lateness,
            "target_file_size": destination.target_file_size,
            "snapshot_file_size": destination.snapshot_file_size,
            "allow_empty_snapshot": destination.allow_empty_snapshot,
            "dedupe": destination.dedupe,
            "organization": destination.organization,
            "manifest": destination.manifest,
            "encryption": encryption,
            "acl": destination.acl,
            "checksum": destination.checksum,
        },
        "tables": tables(destination.format, settings),
        "parquet": (destination.format == Format::Parquet).then(|| json!([settings.parquet, settings.event_columns])),
    })
}

/// The tables, with their columns only where these decide anything.
fn tables(format: Format, settings: &Settings) -> Value {
    let of = |(name, table): (&String, &Table)| {
        let columns = (format == Format::Parquet).then_some(&table.columns);
        let decides = table.sync.is_some() || columns.is_some();
        decides.then(|| (name.clone(), json!({ "sync": table.sync, "columns": columns })))
    };
    Value::Object(settings.tables.iter().filter_map(of).collect())
}
