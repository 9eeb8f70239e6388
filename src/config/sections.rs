//! The sections but the destinations: from what was written to ready values.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::columns::{self, Members};
use super::environment::Environment;
use super::keys::{self, Section};
use super::rules::{self, Origin};
use super::values::{self, Ruled, printable, shown};
use super::written::{Fields, Report, in_order};
use super::{MIB, destination};
use crate::domain::layout::Prefix;
use crate::domain::settings::{
    CHUNK_BYTES, NewColumns, OnDamagedObject, Parquet, QueueMode, Run, ScratchBudget, Settings, Staging, StagingQueue, State,
    Table,
};
use crate::domain::spelling::nearest;
use crate::domain::table::{SyncMode, TableName};

/// The most bytes that a size may say: the largest object that S3 keeps in 10,000 parts of 5 GiB.
pub(super) const MOST_BYTES: u64 = 10_000 * (5 << 30);
/// The largest limit on one record; it is held in memory whole.
const MOST_RECORD_BYTES: u64 = 1 << 30;
/// The share of the function's memory that `memory_budget` takes, in percent.
const MEMORY_SHARE: u64 = 70;
/// The most threads that are taken without being asked for: each costs memory, and the default budget has to hold them.
const MOST_THREADS: usize = 64;
const PLACEHOLDERS: [&str; 5] = ["date", "year", "month", "day", "organization"];

/// The whole document. After a mistake, which is in the report, the settings hold any value in its place.
pub(super) fn read(report: &Report<'_>, document: &DeTable<'_>, environment: &Environment) -> Settings {
    check_top(report, document);
    let fields = single(report, document, Section::Staging, "staging");
    let (staging, staging_origin) = staging(&fields);
    let fields = single(report, document, Section::State, "state");
    let (state, state_origin) = state(&fields);
    let fields = single(report, document, Section::Run, "run");
    let (run, run_origin) = run(&fields, environment);
    let fields = single(report, document, Section::Parquet, "parquet");
    let (parquet, parquet_origin) = parquet(&fields);
    let fields = single(report, document, Section::EventTables, "event_tables");
    let (shared, event_columns) = columns::read(&fields, &parquet, &Members::default());
    let tables = tables(report, document, &parquet, &shared.as_shared());
    let (destinations, destination_origins) = destination::read_all(report, document);

    let settings = Settings { staging, state, run, event_columns, tables, parquet, destinations };
    let origins = rules::Origins {
        staging: staging_origin,
        state: state_origin,
        run: run_origin,
        parquet: parquet_origin,
        destinations: destination_origins,
    };
    rules::check(report, &settings, &origins, environment);
    settings
}

fn check_top(report: &Report<'_>, document: &DeTable<'_>) {
    for (key, value) in in_order(Some(document)) {
        let name = key.get_ref().as_ref();
        if keys::TOP.contains(&name) {
            continue;
        }
        let (at, shown_name) = (Some(key.span().start), printable(name));
        let is_section = value.get_ref().is_table() || value.get_ref().is_array();
        if let Some(home) = keys::home_of(name).filter(|_| !is_section) {
            report.add(at, format!("unknown key `{shown_name}` before the first section, it belongs in `{}`", home.header()));
            continue;
        }
        let nearest = match nearest(name, keys::TOP.into_iter()) {
            Some("destination") => "[[destination]]".to_owned(),
            Some("tables") => "[tables.NAME]".to_owned(),
            other => format!("[{}]", other.unwrap_or("staging")),
        };
        report.add(at, format!("unknown section `{shown_name}`, did you mean `{nearest}`?"));
    }
}

/// A section that stands once.
fn single<'d>(report: &'d Report<'d>, document: &'d DeTable<'d>, section: Section, name: &str) -> Fields<'d> {
    let label = format!("`{}`", section.header());
    let Some((key, value)) = document.get_key_value(name) else {
        return Fields::new(report, section, label, None, None);
    };
    let at = Some(key.span().start);
    let table = value.get_ref().as_table();
    if table.is_none() {
        report.add(at, format!("`{name}` is {}, write it once as the section {label}", shown(value.get_ref())));
    }
    Fields::new(report, section, label, at, table)
}

fn staging(fields: &Fields<'_>) -> (Staging, Origin) {
    let mistakes_before = fields.report.count();
    let s3_bucket = fields.get("s3_bucket", values::bucket);
    let s3_prefix = fields.get("s3_prefix", template);
    let url = fields.get("sqs_queue_url", values::queue_url);
    let mode =
        fields.get("sqs_mode", |value| values::one_of(value, &[("drain", QueueMode::Drain), ("trigger", QueueMode::Trigger)]));
    if fields.has("sqs_mode") && !fields.has("sqs_queue_url") {
        fields.mistake("sqs_mode", "says how a queue is read, and there is none, add `sqs_queue_url` or leave it out");
    }
    let place_known = s3_bucket.is_some() && s3_prefix.is_some();
    let staging = Staging {
        s3_bucket: s3_bucket.unwrap_or_default(),
        s3_prefix: s3_prefix.unwrap_or_default(),
        queue: url.zip(mode).map(|(url, mode)| StagingQueue { url, mode }),
        s3_region: fields.get("s3_region", values::region),
        event_field: fields.ready("event_field", values::text),
        time_field: fields.ready("time_field", values::text),
        table_field: fields.get("table_field", values::text),
        organization_field: fields.get("organization_field", values::text),
        on_damaged_object: fields
            .get("on_damaged_object", |value| {
                values::one_of(value, &[("fail", OnDamagedObject::Fail), ("skip", OnDamagedObject::Skip)])
            })
            .unwrap_or(OnDamagedObject::Fail),
        allow_empty_day: fields.ready("allow_empty_day", values::boolean),
        require_marker: fields.get("require_marker", marker),
        max_record_bytes: fields.ready("max_record_bytes", |value| values::size(value, 1, MOST_RECORD_BYTES)),
        max_object_bytes: fields.ready("max_object_bytes", |value| values::size(value, 1, MOST_BYTES)),
        max_ratio: fields.ready("max_ratio", |value| values::whole(value, 1, 1_000_000_000)),
        max_depth: fields.ready("max_depth", |value| values::whole(value, 1, 1000)),
    };
    if place_known && !staging.names_day() {
        // A queue's notified objects have their day from the message.
        if !fields.has("sqs_queue_url") {
            fields.mistake("s3_prefix", "does not say the day, put `{date}` or all of `{year}`, `{month}` and `{day}` into it");
        } else if staging.s3_prefix.is_empty() {
            fields.mistake(
                "s3_prefix",
                "is empty: the queue could have every object of the bucket read, name the folder that is staged in",
            );
        } else if fields.has("require_marker") {
            fields.mistake("require_marker", "needs the day in `s3_prefix`, put `{date}` into it or leave one of the two out");
        }
    }
    (staging, Origin::of(fields, mistakes_before, place_known))
}

/// A prefix in which every `{…}` is one that is filled in.
fn template(value: &DeValue<'_>) -> Ruled<String> {
    let advice = "write it like `\"events/{date}/\"`: no empty, `.` or `..` part, no control character, at most 700 bytes";
    let text = value.as_str().ok_or(advice)?;
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(['{', '}']) {
        let name = after.split_once('}').map_or(after, |(name, _)| name);
        if !PLACEHOLDERS.contains(&name) || !after.contains('}') {
            let known: Vec<String> = PLACEHOLDERS.iter().map(|name| format!("`{{{name}}}`")).collect();
            return Err(format!("in braces only {} are known", known.join(", ")));
        }
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    Ok(Prefix::parse(text).map_err(|_| advice)?.as_str().to_owned())
}

/// An object's name below the day's prefix.
fn marker(value: &DeValue<'_>) -> Ruled<String> {
    let name = values::text(value)?;
    let inside = !name.starts_with('/') && !name.split('/').any(|part| matches!(part, "." | ".."));
    if inside { Ok(name) } else { Err("write a name below the day's prefix, such as `\"_SUCCESS\"`".to_owned()) }
}

fn state(fields: &Fields<'_>) -> (State, Origin) {
    let mistakes_before = fields.report.count();
    let s3_bucket = fields.get("s3_bucket", values::bucket);
    let s3_prefix = fields.get("s3_prefix", values::prefix);
    let place_known = s3_bucket.is_some() && s3_prefix.is_some();
    let state = State {
        s3_bucket: s3_bucket.unwrap_or_default(),
        s3_prefix: s3_prefix.unwrap_or_default(),
        s3_region: fields.get("s3_region", values::region),
        lease: fields.ready("lease", |value| values::duration(value, 100, 900_000)),
    };
    (state, Origin::of(fields, mistakes_before, place_known))
}

fn run(fields: &Fields<'_>, environment: &Environment) -> (Run, Origin) {
    let mistakes_before = fields.report.count();
    let default_memory = environment.function_memory.map_or(1024 * MIB, |memory| memory / 100 * MEMORY_SHARE);
    let run = Run {
        work_queue_url: fields.get("work_queue_url", values::queue_url),
        function_role_arn: fields.get("function_role_arn", values::role_arn),
        lag_days: fields.ready("lag_days", days),
        catch_up_days: fields.ready("catch_up_days", days),
        late_check_days: fields.ready("late_check_days", days),
        shard_size: fields.ready("shard_size", |value| values::size(value, 1, MOST_BYTES)),
        threads: fields
            .get("threads", |value| values::whole(value, 1, 256))
            .unwrap_or(environment.threads.clamp(1, MOST_THREADS)),
        memory_budget: fields.get("memory_budget", |value| values::size(value, 1, MOST_BYTES)).unwrap_or(default_memory),
        chunk_bytes: CHUNK_BYTES,
        dedupe_memory: 0,
        part_size: fields.ready("part_size", |value| values::size(value, 5 * MIB, 5120 * MIB)),
        scratch_dir: fields
            .get("scratch_dir", |value| {
                let path = values::text(value)?;
                if Path::new(&path).is_absolute() {
                    Ok(path)
                } else {
                    Err("write an absolute path such as `\"/tmp\"`".to_owned())
                }
            })
            .map_or_else(|| environment.temp_dir.clone(), Into::into),
        scratch_budget: fields.get("scratch_budget", values::scratch_budget).unwrap_or(ScratchBudget::Bytes(0)),
        max_quarantine_ratio: fields.ready("max_quarantine_ratio", values::share),
        max_quarantine_records: fields.ready("max_quarantine_records", |value| values::whole(value, 0, i128::from(i64::MAX))),
        max_tables: fields.ready("max_tables", |value| values::whole(value, 1, 100_000)),
        deadline_margin: fields.ready("deadline_margin", |value| values::duration(value, 0, 900_000)),
    };
    (run, Origin::of(fields, mistakes_before, true))
}

/// A number of days.
pub(super) fn days(value: &DeValue<'_>) -> Ruled<u32> {
    values::whole(value, 0, 366)
}

fn parquet(fields: &Fields<'_>) -> (Parquet, Origin) {
    let mistakes_before = fields.report.count();
    let parquet = Parquet {
        new_columns: fields
            .get("new_columns", |value| {
                values::one_of(value, &[("same_run", NewColumns::SameRun), ("next_run", NewColumns::NextRun)])
            })
            .unwrap_or(NewColumns::SameRun),
        rescue_column: fields.ready("rescue_column", values::column_name),
        max_columns: fields.get("max_columns", |value| values::whole(value, 1, 100_000)).unwrap_or(usize::MAX),
        max_fields: fields.get("max_fields", |value| values::whole(value, 1, 100_000)).unwrap_or(usize::MAX),
        max_column_depth: fields.get("max_column_depth", |value| values::whole(value, 1, 64)).unwrap_or(usize::MAX),
        row_group_size: fields.ready("row_group_size", |value| values::size(value, 1024, MOST_BYTES)),
    };
    (parquet, Origin::of(fields, mistakes_before, true))
}

/// `[tables.NAME]` over the built-in ones.
fn tables(report: &Report<'_>, document: &DeTable<'_>, limits: &Parquet, shared: &Members) -> BTreeMap<String, Table> {
    let built_in =
        [("aliases", SyncMode::Incremental), ("domains", SyncMode::Snapshot), ("segment_metadata", SyncMode::Snapshot)];
    let mut tables: BTreeMap<String, Table> =
        built_in.iter().map(|(name, sync)| ((*name).to_owned(), Table { sync: Some(*sync), columns: Vec::new() })).collect();
    let Some((key, written)) = document.get_key_value("tables") else {
        return tables;
    };
    let Some(written) = written.get_ref().as_table() else {
        report.add(Some(key.span().start), format!("`tables` is {}, write sections `[tables.NAME]`", shown(written.get_ref())));
        return tables;
    };
    for (key, value) in in_order(Some(written)) {
        if let Some((name, table)) = table(report, key, value, limits, shared, &tables) {
            tables.insert(name, table);
        }
    }
    tables
}

fn table(
    report: &Report<'_>,
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    limits: &Parquet,
    shared: &Members,
    so_far: &BTreeMap<String, Table>,
) -> Option<(String, Table)> {
    let (at, name) = (Some(key.span().start), key.get_ref().as_ref());
    let label = format!("`[tables.{}]`", printable(name));
    let Some(written) = value.get_ref().as_table() else {
        report.add(at, format!("`{}` in `[tables]` is {}, write a section {label}", printable(name), shown(value.get_ref())));
        return None;
    };
    let Some(table_name) = TableName::parse(name) else {
        report.add(
            at,
            format!("the name of {label} is no table's, write a small letter and then `a-z`, `0-9` or `_`, at most 116 in all"),
        );
        return None;
    };
    let fields = Fields::new(report, Section::Table, label, at, Some(written));
    if table_name.is_event_table() {
        if fields.has("sync") {
            fields.mistake("sync", "can't be set for an event table (its name ends in `_events`), leave it out");
        }
        let (_, columns) = columns::read(&fields, limits, shared);
        return Some((name.to_owned(), Table { sync: None, columns }));
    }
    let sync = fields
        .get("sync", |value| values::one_of(value, &[("incremental", SyncMode::Incremental), ("snapshot", SyncMode::Snapshot)]));
    // Whoever only adds columns to `domains` does not mean to make it incremental.
    let own_default = so_far.get(name).and_then(|built_in| built_in.sync).unwrap_or(SyncMode::Incremental);
    let (_, columns) = columns::read(&fields, limits, &Members::default());
    Some((name.to_owned(), Table { sync: Some(sync.unwrap_or(own_default)), columns }))
}
