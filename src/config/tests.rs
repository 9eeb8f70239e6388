use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::domain::error::Kind;
use crate::domain::layout::{Layout, Prefix};
use crate::domain::schema::{Declared, DeclaredType};
use crate::domain::settings::{
    Checksum, Credentials, Encryption, NewColumns, OnDamagedObject, PartitionBy, QueueMode, ScratchBudget, StagingQueue, Table,
};
use crate::domain::table::SyncMode;

const MINIMAL: &str = r#"[staging]
s3_bucket = "vendor-staging"

[state]
s3_bucket = "vendor-state"

[[destination]]
name = "acme"
s3_bucket = "acme-exports"
"#;

fn ready(text: &str) -> Settings {
    parse(text, &Environment::default()).unwrap()
}

/// The mistakes of a text, a line each, without the file's name.
fn mistakes(text: &str) -> Vec<String> {
    mistakes_on(text, &Environment::default())
}

fn mistakes_on(text: &str, environment: &Environment) -> Vec<String> {
    let error = parse(text, environment).unwrap_err();
    assert_eq!(error.kind(), Kind::Vendor);
    error.message().lines().map(|line| line.strip_prefix("dayport.toml:").unwrap().trim_start().to_owned()).collect()
}

/// The minimal file with `insert` after the line that starts with `after`.
fn with(after: &str, insert: &str) -> String {
    let mut text = String::new();
    for line in MINIMAL.lines() {
        text.push_str(line);
        text.push('\n');
        if line.starts_with(after) {
            text.push_str(insert);
            text.push('\n');
        }
    }
    text
}

fn in_staging(insert: &str) -> String {
    with("s3_bucket = \"vendor-staging\"", insert)
}

fn in_state(insert: &str) -> String {
    with("s3_bucket = \"vendor-state\"", insert)
}

fn in_destination(insert: &str) -> String {
    with("s3_bucket = \"acme-exports\"", insert)
}

fn in_run(insert: &str) -> String {
    format!("{MINIMAL}[run]\n{insert}\n")
}

fn in_parquet(insert: &str) -> String {
    format!("{MINIMAL}[parquet]\n{insert}\n")
}

fn columns(insert: &str) -> String {
    format!("{MINIMAL}[event_tables.columns]\n{insert}\n")
}

fn declared(path: &[&str], column_type: DeclaredType) -> Declared {
    Declared { path: path.iter().map(|&key| key.to_owned()).collect(), column_type }
}

#[test]
fn three_sections_are_enough_and_the_rest_has_defaults() {
    let environment = Environment {
        threads: 6,
        temp_dir: PathBuf::from("/scratch"),
        function_memory: Some(2000 << 20),
        ..Environment::default()
    };
    let settings = parse(MINIMAL, &environment).unwrap();

    let staging = &settings.staging;
    assert_eq!((staging.s3_bucket.as_str(), staging.s3_prefix.as_str()), ("vendor-staging", "events/{date}/"));
    assert_eq!((staging.event_field.as_str(), staging.time_field.as_str()), ("event_name", "time"));
    let unset = [&staging.s3_region, &staging.table_field, &staging.organization_field, &staging.require_marker];
    assert!(unset.into_iter().all(Option::is_none));
    assert_eq!((staging.on_damaged_object, staging.allow_empty_day), (OnDamagedObject::Fail, false));
    assert_eq!((staging.max_record_bytes, staging.max_object_bytes), (16 << 20, 64 << 30));
    assert_eq!((staging.max_ratio, staging.max_depth), (1000, 64));

    let state = &settings.state;
    assert_eq!((state.s3_bucket.as_str(), state.s3_prefix.as_str()), ("vendor-state", "dayport/"));
    assert_eq!((state.s3_region.as_deref(), state.lease), (None, Duration::from_mins(1)));

    let run = &settings.run;
    assert_eq!((run.lag_days, run.catch_up_days, run.late_check_days), (1, 7, 7));
    assert_eq!((run.shard_size, run.part_size, run.max_tables), (2 << 30, 16 << 20, 1000));
    assert_eq!((run.threads, run.memory_budget), (6, 1400 << 20), "the machine's threads and 70 % of its memory");
    assert_eq!(
        (run.scratch_dir.as_path(), run.scratch_budget),
        (environment.temp_dir.as_path(), ScratchBudget::ShareOfFree(0.8))
    );
    assert!((run.max_quarantine_ratio - 0.01).abs() < f64::EPSILON);
    assert_eq!((run.max_quarantine_records, run.deadline_margin), (1000, Duration::from_mins(1)));
    assert_eq!(run.function_role_arn, None);

    assert!(settings.event_columns.is_empty());
    let of = |sync| Table { sync: Some(sync), columns: Vec::new() };
    let tables: Vec<_> = settings.tables.into_iter().collect();
    let (incremental, snapshot) = (of(SyncMode::Incremental), of(SyncMode::Snapshot));
    let built_in = [("aliases", incremental), ("domains", snapshot.clone()), ("segment_metadata", snapshot)];
    assert_eq!(tables, built_in.map(|(name, table)| (name.to_owned(), table)));

    let parquet = &settings.parquet;
    assert_eq!((parquet.new_columns, parquet.rescue_column.as_str()), (NewColumns::SameRun, "_rescued_data"));
    assert_eq!((parquet.max_columns, parquet.max_fields, parquet.max_column_depth), (2000, 200, 12));
    assert_eq!(parquet.row_group_size, 256 << 20);

    let [destination] = settings.destinations.as_slice() else { panic!("one destination") };
    assert_eq!((destination.name.as_str(), destination.s3_bucket.as_str()), ("acme", "acme-exports"));
    assert_eq!((destination.s3_prefix.as_str(), destination.s3_region.as_deref()), ("", None));
    assert_eq!((destination.format, destination.layout), (Format::Parquet, Layout::Permutive));
    assert_eq!((destination.partition_by, destination.max_lateness_days), (PartitionBy::StagedDay, 30));
    assert_eq!((destination.target_file_size, destination.snapshot_file_size), (256 << 20, 4 << 30));
    assert_eq!((destination.enabled, destination.manifest), (true, true));
    assert!(!(destination.allow_empty_snapshot || destination.verify || destination.sweep));
    assert!(!(destination.requester_pays || destination.path_style));
    assert!(destination.dedupe.is_none() && destination.organization.is_none() && destination.acl.is_none());
    assert_eq!((destination.start_date, destination.lag_days), (None, None));
    assert_eq!((&destination.expected_bucket_owner, &destination.encryption), (&None, &None));
    assert_eq!((destination.checksum, &destination.credentials), (Checksum::Always, &Credentials::Own));

    let memory = ready(MINIMAL).run.memory_budget;
    assert_eq!(memory, 1 << 30, "outside Lambda");
    let json = ready(&in_destination("format = \"json\""));
    assert_eq!(json.destinations.first().unwrap().target_file_size, 64 << 20);
}

const FULL: &str = r#"
[staging]
s3_bucket = "staging"
s3_prefix = "/in/{organization}/{year}/{month}/{day}"
s3_region = "eu-central-1"
event_field = "event_type"
time_field = "received_at"
table_field = "table"
organization_field = "org"
require_marker = "_SUCCESS"
on_damaged_object = "skip"
allow_empty_day = true
max_record_bytes = "1MiB"
max_object_bytes = 1_000_000
max_ratio = 50
max_depth = 1000

[state]
s3_bucket = "state"
s3_prefix = "/s"
s3_region = "us-east-1"
lease = "500ms"

[run]
function_role_arn = "arn:aws:iam::123456789012:role/dayport"
lag_days = 0
catch_up_days = 3
late_check_days = 0
shard_size = "64MB"
threads = 3
memory_budget = "512MiB"
part_size = "5MiB"
scratch_dir = "/mnt/scratch"
scratch_budget = "4GiB"
max_quarantine_ratio = 1
max_quarantine_records = 0
max_tables = 12
deadline_margin = "2m"

[event_tables]
columns = { time = "timestamp", '"a.b"' = "string", "properties.price" = "double", properties.tags = "list<string>", properties."slot.keys" = "list<{ key = string, value = list<string> }>" }

[tables.domains.columns]
domain = "string"

[tables.rates]
sync = "snapshot"
columns = { geo = { lat = "double", "pos.lon" = "double" }, rate = "int64" }

[tables.logins]

[tables.pageview_events.columns]
"properties.depth" = "int64"

[parquet]
new_columns = "next_run"
rescue_column = "_rest"
max_columns = 100
max_fields = 20
max_column_depth = 7
row_group_size = "32MiB"

[[destination]]
name = "acme"
s3_bucket = "acme.exports"
s3_prefix = "/exports/a"
s3_region = "ap-southeast-2"
format = "json"
layout = "permutive"
partition_by = "time"
max_lateness_days = 4000
target_file_size = "1MiB"
snapshot_file_size = "1GiB"
allow_empty_snapshot = true
organization = "acme inc."
enabled = false
start_date = 2026-01-01
lag_days = 2
manifest = false
verify = false
sweep = false
expected_bucket_owner = "000000000012"
encryption = "aws:kms"
kms_key_arn = "arn:aws:kms:ap-southeast-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
acl = "bucket-owner-full-control"
requester_pays = true
path_style = true
checksum = "when_required"

[[destination]]
name = "b-2"
s3_bucket = "acme.exports"
s3_prefix = "exports/ab"
layout = "pontoon"
organization = "b"
start_date = "2026-02-01"
encryption = "AES256"
"#;

#[test]
fn every_key_can_be_written() {
    let settings = ready(FULL);
    let (staging, state, run, parquet) = (&settings.staging, &settings.state, &settings.run, &settings.parquet);
    assert_eq!(staging.s3_prefix, "in/{organization}/{year}/{month}/{day}/");
    assert_eq!(staging.prefix_of("2026-01-05".parse().unwrap(), Some("b")), "in/b/2026/01/05/");
    let texts = [&staging.s3_region, &staging.table_field, &staging.organization_field, &staging.require_marker];
    assert_eq!(texts.map(|text| text.as_deref().unwrap()), ["eu-central-1", "table", "org", "_SUCCESS"]);
    assert_eq!((staging.event_field.as_str(), staging.time_field.as_str()), ("event_type", "received_at"));
    assert_eq!((staging.on_damaged_object, staging.allow_empty_day), (OnDamagedObject::Skip, true));
    assert_eq!((staging.max_record_bytes, staging.max_object_bytes), (1 << 20, 1_000_000));
    assert_eq!((staging.max_ratio, staging.max_depth), (50, 1000));
    assert_eq!((state.s3_prefix.as_str(), state.s3_region.as_deref()), ("s/", Some("us-east-1")));
    assert_eq!(state.lease, Duration::from_millis(500));
    assert_eq!(run.function_role_arn.as_deref(), Some("arn:aws:iam::123456789012:role/dayport"));
    assert_eq!((run.lag_days, run.catch_up_days, run.late_check_days), (0, 3, 0));
    assert_eq!((run.shard_size, run.threads, run.memory_budget, run.part_size), (64_000_000, 3, 512 << 20, 5 << 20));
    assert_eq!((run.scratch_dir.to_str().unwrap(), run.scratch_budget), ("/mnt/scratch", ScratchBudget::Bytes(4 << 30)));
    assert!((run.max_quarantine_ratio - 1.0).abs() < f64::EPSILON);
    assert_eq!((run.max_quarantine_records, run.max_tables, run.deadline_margin), (0, 12, Duration::from_mins(2)));
    assert_eq!((parquet.new_columns, parquet.rescue_column.as_str()), (NewColumns::NextRun, "_rest"));
    assert_eq!((parquet.max_columns, parquet.max_fields, parquet.max_column_depth), (100, 20, 7));
    assert_eq!(parquet.row_group_size, 32 << 20);

    let list = |element| DeclaredType::List(Box::new(element));
    let slot =
        DeclaredType::Struct(vec![("key".to_owned(), DeclaredType::String), ("value".to_owned(), list(DeclaredType::String))]);
    let expected = [
        declared(&["time"], DeclaredType::Timestamp),
        declared(&["a.b"], DeclaredType::String),
        declared(&["properties", "price"], DeclaredType::Double),
        declared(&["properties", "tags"], list(DeclaredType::String)),
        declared(&["properties", "slot", "keys"], list(slot)),
    ];
    assert_eq!(settings.event_columns, expected, "in the order written, a dot in a quoted TOML key still being a path");
    let names: Vec<_> = settings.tables.keys().map(String::as_str).collect();
    assert_eq!(names, ["aliases", "domains", "logins", "pageview_events", "rates", "segment_metadata"]);
    let of = |name: &str| settings.tables.get(name).unwrap();
    assert_eq!(of("logins").sync, Some(SyncMode::Incremental));
    assert_eq!(
        of("domains").sync,
        Some(SyncMode::Snapshot),
        "adding columns used to be a way to make it incremental by accident"
    );
    assert_eq!(of("domains").columns, [declared(&["domain"], DeclaredType::String)]);
    assert_eq!(of("pageview_events").sync, None);
    assert_eq!(of("pageview_events").columns, [declared(&["properties", "depth"], DeclaredType::Int64)]);
    let rates = [
        declared(&["geo", "lat"], DeclaredType::Double),
        declared(&["geo", "pos", "lon"], DeclaredType::Double),
        declared(&["rate"], DeclaredType::Int64),
    ];
    assert_eq!((of("rates").sync, of("rates").columns.as_slice()), (Some(SyncMode::Snapshot), rates.as_slice()));

    let [acme, b] = settings.destinations.as_slice() else { panic!("two destinations") };
    assert_eq!((acme.s3_prefix.as_str(), acme.s3_region.as_deref()), ("exports/a/", Some("ap-southeast-2")));
    assert_eq!((acme.format, acme.layout, acme.partition_by), (Format::Json, Layout::Permutive, PartitionBy::Time));
    assert_eq!((acme.max_lateness_days, acme.target_file_size, acme.snapshot_file_size), (4000, 1 << 20, 1 << 30));
    assert_eq!((acme.dedupe.as_deref(), acme.organization.as_deref()), (None, Some("acme inc.")));
    assert_eq!((acme.start_date, acme.lag_days), ("2026-01-01".parse().ok(), Some(2)));
    assert!(acme.allow_empty_snapshot && acme.requester_pays && acme.path_style && !acme.enabled && !acme.manifest);
    assert_eq!(acme.expected_bucket_owner.as_deref(), Some("000000000012"));
    let key = "arn:aws:kms:ap-southeast-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab";
    assert_eq!(acme.encryption, Some(Encryption::Kms(Some(key.to_owned()))));
    assert_eq!((acme.acl.as_deref(), acme.checksum), (Some("bucket-owner-full-control"), Checksum::WhenRequired));
    assert_eq!((b.layout, &b.encryption), (Layout::Pontoon, &Some(Encryption::Aes256)));
    assert_eq!((b.s3_prefix.clone(), b.start_date), (Prefix::parse("exports/ab").unwrap(), "2026-02-01".parse().ok()));
}

#[test]
fn unknown_keys_are_named_with_the_nearest_known_one() {
    for (text, expected) in [
        (in_staging("s3_buket = \"x\""), "3: unknown key `s3_buket` in `[staging]`, did you mean `s3_bucket`?"),
        (in_staging("S3_PREFIX = \"x\""), "3: unknown key `S3_PREFIX` in `[staging]`, did you mean `s3_prefix`?"),
        (in_staging("lease = \"1s\""), "3: unknown key `lease` in `[staging]`, it belongs in `[state]`"),
        (in_run("thread = 1"), "11: unknown key `thread` in `[run]`, did you mean `threads`?"),
        (in_parquet("maxcolumns = 1"), "11: unknown key `maxcolumns` in `[parquet]`, did you mean `max_columns`?"),
        (in_destination("formats = 1"), "10: unknown key `formats` in `[[destination]]` `acme`, did you mean `format`?"),
        (
            in_destination("sse_customer_key = \"x\""),
            "10: unknown key `sse_customer_key` in `[[destination]]` `acme`, customer-provided keys (SSE-C) are refused, ask for `encryption = \"aws:kms\"` instead",
        ),
        (format!("{MINIMAL}[stagin]\n"), "10: unknown section `stagin`, did you mean `[staging]`?"),
        (format!("{MINIMAL}[[destinations]]\n"), "10: unknown section `destinations`, did you mean `[[destination]]`?"),
        (format!("{MINIMAL}[table.x]\n"), "10: unknown section `table`, did you mean `[tables.NAME]`?"),
        (
            format!("s3_bucket = \"x\"\n{MINIMAL}"),
            "1: unknown key `s3_bucket` before the first section, it belongs in `[staging]`",
        ),
        (
            format!("{MINIMAL}[event_tables]\ncolums = {{}}"),
            "11: unknown key `colums` in `[event_tables]`, did you mean `columns`?",
        ),
        (format!("{MINIMAL}[tables.rates]\nsink = 1"), "11: unknown key `sink` in `[tables.rates]`, did you mean `sync`?"),
        (in_staging("\"a\\nb\" = 1"), "3: unknown key `a\\nb` in `[staging]`, did you mean `max_object_bytes`?"),
    ] {
        assert_eq!(mistakes(&text).first().unwrap(), expected);
    }
}

#[test]
fn every_mistake_is_named_at_once_in_the_order_of_the_lines() {
    let text = r#"[staging]
s3_buket = "x"
max_depth = 0

[state]
s3_bucket = "State"
lease = 60

[run]
part_size = "1MiB"
work_queue_url = "q"

[[destination]]
name = "Acme"
s3_bucket = "acme-exports"
layout = "pontoon"
partition_by = "time"
"#;
    assert_eq!(
        mistakes(text),
        [
            "1: `s3_bucket` in `[staging]` is missing, add it",
            "2: unknown key `s3_buket` in `[staging]`, did you mean `s3_bucket`?",
            "3: `max_depth` in `[staging]` is `0`, write a whole number from 1 to 1000",
            "6: `s3_bucket` in `[state]` is `State`, write a bucket's bare name: 3 to 63 of `a-z`, `0-9`, `-` and `.`, a letter or digit at both ends",
            "7: `lease` in `[state]` is `60`, write a duration from 100ms to 900s, such as `\"60s\"` or `\"5m\"`",
            "10: `part_size` in `[run]` is `1MiB`, write a size from 5MiB to 5GiB, such as `\"16MiB\"` or bytes",
            "11: `work_queue_url` in `[run]` is `q`, write a standard queue's URL such as `\"https://sqs.eu-central-1.amazonaws.com/123456789012/name\"`",
            "14: `name` in `[[destination]]` is `Acme`, write 1 to 64 of `a-z`, `0-9` and `-`",
            "17: `partition_by` in `[[destination]]` can't be `time` with `layout = \"pontoon\"`, leave one of the two out",
        ]
    );
    assert_eq!(
        mistakes(""),
        [
            "`s3_bucket` in `[staging]` is missing, add it",
            "`s3_bucket` in `[state]` is missing, add it",
            "no destination is configured, add a section `[[destination]]`",
        ]
    );
}

#[test]
fn what_is_not_toml_is_told_by_line_without_its_text() {
    let found = mistakes("[staging]\ns3_bucket = \"x\n\n[state\nlease = \"1s\" \"secret\"\n");
    assert!(found.iter().all(|line| line.contains(": this is not TOML: ")), "{found:?}");
    assert!(found.first().unwrap().starts_with("2: "), "{found:?}");
    assert!(found.iter().any(|line| line.starts_with("4: ")), "{found:?}");
    assert!(!found.concat().contains("secret"));
    assert!(mistakes(&in_staging("s3_bucket = \"again\"")).concat().contains("3: this is not TOML: duplicate key"));
}

#[test]
fn sections_of_the_wrong_shape_are_refused() {
    for (text, expected) in [
        (
            format!("state = 1\n{}", MINIMAL.replace("[state]", "[run]").replace("s3_bucket = \"vendor-state\"", "")),
            "1: `state` is `1`, write it once as the section `[state]`",
        ),
        (MINIMAL.replace("[state]", "[[state]]"), "4: `state` is a list, write it once as the section `[state]`"),
        (
            MINIMAL.replace("[[destination]]", "[destination]"),
            "7: `destination` is a table, write `[[destination]]` with two brackets for each",
        ),
        (
            format!("destination = []\n{}", MINIMAL.split("[[").next().unwrap()),
            "1: no destination is configured, add a section `[[destination]]`",
        ),
        (
            format!("destination = [1]\n{}", MINIMAL.split("[[").next().unwrap()),
            "1: a destination is `1`, write a section `[[destination]]`",
        ),
        (format!("tables = 1\n{MINIMAL}"), "1: `tables` is `1`, write sections `[tables.NAME]`"),
        (format!("{MINIMAL}[tables]\nrates = 1\n"), "11: `rates` in `[tables]` is `1`, write a section `[tables.rates]`"),
        (
            format!("{MINIMAL}[tables.Rates]\n"),
            "10: the name of `[tables.Rates]` is no table's, write a small letter and then `a-z`, `0-9` or `_`, at most 116 in all",
        ),
        (
            format!("{MINIMAL}[tables.x_events]\nsync = \"snapshot\"\n"),
            "11: `sync` in `[tables.x_events]` can't be set for an event table (its name ends in `_events`), leave it out",
        ),
        (
            format!("{MINIMAL}[event_tables]\ncolumns = 1\n"),
            "11: `columns` in `[event_tables]` is `1`, write a table such as `{ \"properties.price\" = \"double\" }`",
        ),
    ] {
        assert!(mistakes(&text).contains(&expected.to_owned()), "{expected}\n{:#?}", mistakes(&text));
    }
}

/// Each text has exactly its one mistake.
fn check_single_mistakes<const N: usize>(cases: [(String, &str); N]) {
    for (text, expected) in cases {
        assert_eq!(mistakes(&text), [expected]);
    }
}

#[test]
fn values_of_staging_and_state_that_can_not_be_used_are_refused() {
    check_single_mistakes([
        (
            in_staging("s3_prefix = \"events/\""),
            "3: `s3_prefix` in `[staging]` does not say the day, put `{date}` or all of `{year}`, `{month}` and `{day}` into it",
        ),
        (
            in_staging("s3_prefix = \"{year}/{month}/\""),
            "3: `s3_prefix` in `[staging]` does not say the day, put `{date}` or all of `{year}`, `{month}` and `{day}` into it",
        ),
        (
            in_staging("s3_prefix = \"events/{dat}/\""),
            "3: `s3_prefix` in `[staging]` is `events/{dat}/`, in braces only `{date}`, `{year}`, `{month}`, `{day}`, `{organization}` are known",
        ),
        (
            in_staging("s3_prefix = \"events/{date\""),
            "3: `s3_prefix` in `[staging]` is `events/{date`, in braces only `{date}`, `{year}`, `{month}`, `{day}`, `{organization}` are known",
        ),
        (
            in_staging("s3_prefix = \"a//{date}\""),
            "3: `s3_prefix` in `[staging]` is `a//{date}`, write it like `\"events/{date}/\"`: no empty, `.` or `..` part, no control character, at most 700 bytes",
        ),
        (
            in_staging("event_field = \"\""),
            "3: `event_field` in `[staging]` is empty, write text that is not blank and has no control character",
        ),
        (
            in_staging("time_field = \" \""),
            "3: `time_field` in `[staging]` is ` `, write text that is not blank and has no control character",
        ),
        (
            in_staging("table_field = \"\""),
            "3: `table_field` in `[staging]` is empty, write text that is not blank and has no control character",
        ),
        (
            in_staging("organization_field = \"\""),
            "3: `organization_field` in `[staging]` is empty, write text that is not blank and has no control character",
        ),
        (
            in_staging("require_marker = \"../x\""),
            "3: `require_marker` in `[staging]` is `../x`, write a name below the day's prefix, such as `\"_SUCCESS\"`",
        ),
        (
            in_staging("on_damaged_object = \"ignore\""),
            "3: `on_damaged_object` in `[staging]` is `ignore`, write `\"fail\"` or `\"skip\"`",
        ),
        (in_staging("max_depth = 1001"), "3: `max_depth` in `[staging]` is `1001`, write a whole number from 1 to 1000"),
        (in_staging("allow_empty_day = \"yes\""), "3: `allow_empty_day` in `[staging]` is `yes`, write `true` or `false`"),
        (in_staging("s3_region = \"EU\""), "3: `s3_region` in `[staging]` is `EU`, write a region such as `\"eu-central-1\"`"),
        (
            in_state("s3_prefix = \"a/../b\""),
            "6: `s3_prefix` in `[state]` is `a/../b`, write it like `\"exports/acme\"`: no empty, `.` or `..` part, no control character, no `{` or `}`, at most 700 bytes",
        ),
        (
            in_state("lease = \"0s\""),
            "6: `lease` in `[state]` is `0s`, write a duration from 100ms to 900s, such as `\"60s\"` or `\"5m\"`",
        ),
    ]);
}

#[test]
fn values_of_a_run_and_of_parquet_that_can_not_be_used_are_refused() {
    check_single_mistakes([
        (in_run("threads = 0"), "11: `threads` in `[run]` is `0`, write a whole number from 1 to 256"),
        (
            in_run("part_size = \"6GiB\""),
            "11: `part_size` in `[run]` is `6GiB`, write a size from 5MiB to 5GiB, such as `\"16MiB\"` or bytes",
        ),
        (
            in_run("max_quarantine_ratio = 1.5"),
            "11: `max_quarantine_ratio` in `[run]` is `1.5`, write a number from 0 to 1, such as `0.01`",
        ),
        (
            in_run("max_quarantine_ratio = nan"),
            "11: `max_quarantine_ratio` in `[run]` is `nan`, write a number from 0 to 1, such as `0.01`",
        ),
        (
            in_run("scratch_dir = \"scratch\""),
            "11: `scratch_dir` in `[run]` is `scratch`, write an absolute path such as `\"/tmp\"`",
        ),
        (
            in_run("scratch_budget = \"120%\""),
            "11: `scratch_budget` in `[run]` is `120%`, write a size such as `\"8GiB\"` or a percentage such as `\"80%\"`",
        ),
        (
            in_run("function_role_arn = \"dayport\""),
            "11: `function_role_arn` in `[run]` is `dayport`, write a role's full ARN such as `\"arn:aws:iam::123456789012:role/name\"`",
        ),
        (
            in_run("memory_budget = \"250MiB\""),
            "10: `memory_budget` in `[run]` is 250MiB and has to be 264MiB for the row groups and limits configured, give the function more memory, or lower `threads`, `part_size`, `row_group_size` or `max_record_bytes`",
        ),
        (in_parquet("max_column_depth = 65"), "11: `max_column_depth` in `[parquet]` is `65`, write a whole number from 1 to 64"),
        (
            in_parquet("rescue_column = \"pontoon__x\""),
            "11: `rescue_column` in `[parquet]` is `pontoon__x`, write a name of at most 120 of `A-Za-z0-9_`, not starting with a digit, not `year`, `month`, `day`, `dt` or `pontoon__*`",
        ),
        (
            in_parquet("rescue_column = \"Year\""),
            "11: `rescue_column` in `[parquet]` is `Year`, write a name of at most 120 of `A-Za-z0-9_`, not starting with a digit, not `year`, `month`, `day`, `dt` or `pontoon__*`",
        ),
    ]);
}

#[test]
fn values_of_a_destination_that_can_not_be_used_are_refused() {
    check_single_mistakes([
        (
            in_destination("format = \"csv\""),
            "10: `format` in `[[destination]]` `acme` is `csv`, write `\"parquet\"` or `\"json\"`",
        ),
        (
            in_destination("s3_prefix = \"x/{organization}\""),
            "10: `s3_prefix` in `[[destination]]` `acme` is `x/{organization}`, write it like `\"exports/acme\"`: no empty, `.` or `..` part, no control character, no `{` or `}`, at most 700 bytes",
        ),
        (
            in_destination("layout = \"pontoon\"\npartition_by = \"time\""),
            "11: `partition_by` in `[[destination]]` `acme` can't be `time` with `layout = \"pontoon\"`, leave one of the two out",
        ),
        (
            in_destination("start_date = \"2026-1-1\""),
            "10: `start_date` in `[[destination]]` `acme` is `2026-1-1`, write a day such as `\"2026-01-15\"` (1970 to 9998)",
        ),
        (
            in_destination("start_date = 2026-01-01T00:00:00Z"),
            "10: `start_date` in `[[destination]]` `acme` is `2026-01-01T00:00:00Z`, write a day such as `\"2026-01-15\"` (1970 to 9998)",
        ),
        (
            in_destination("expected_bucket_owner = 123456789012"),
            "10: `expected_bucket_owner` in `[[destination]]` `acme` is `123456789012`, write the account's 12 digits in quotes, such as `\"123456789012\"`",
        ),
        (
            in_destination("encryption = \"SSE-C\""),
            "10: `encryption` in `[[destination]]` `acme` is `SSE-C`, customer-provided keys (SSE-C) are refused, write `\"aws:kms\"` or `\"AES256\"`",
        ),
        (
            in_destination("encryption = \"kms\""),
            "10: `encryption` in `[[destination]]` `acme` is `kms`, write `\"AES256\"` or `\"aws:kms\"`",
        ),
        (
            in_destination("encryption = \"AES256\"\nkms_key_arn = \"arn:aws:kms:eu-central-1:123456789012:key/x\""),
            "11: `kms_key_arn` in `[[destination]]` `acme` goes only with `encryption = \"aws:kms\"`, write that too or leave it out",
        ),
        (
            in_destination("encryption = \"aws:kms\"\nkms_key_arn = \"alias/x\""),
            "11: `kms_key_arn` in `[[destination]]` `acme` is `alias/x`, write the key's full ARN such as `\"arn:aws:kms:eu-central-1:123456789012:key/…\"`, not an id or an alias",
        ),
        (
            in_destination("acl = \"public-read\""),
            "10: `acl` in `[[destination]]` `acme` is `public-read`, write `\"bucket-owner-full-control\"`",
        ),
        (
            in_destination("snapshot_file_size = \"200GiB\""),
            "7: `snapshot_file_size` in `[[destination]]` `acme` is 200GiB, over 10,000 parts of 16MiB, raise `part_size` in `[run]` or lower it",
        ),
    ]);
}

#[test]
fn a_staging_queue_is_read_one_way_and_lets_the_prefix_be_without_a_day() {
    let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/q";
    let queue = format!("sqs_queue_url = \"{url}\"\n");
    let of = |more: &str| ready(&in_staging(&format!("{queue}{more}"))).staging;
    let drained = of("");
    assert_eq!(drained.queue, Some(StagingQueue { url: url.to_owned(), mode: QueueMode::Drain }));
    assert!(drained.names_day() && of("s3_prefix = \"{year}/{month}/{day}/\"").names_day());
    assert_eq!(of("sqs_mode = \"trigger\"").queue.unwrap().mode, QueueMode::Trigger);
    assert!(!of("s3_prefix = \"staged/\"").names_day());
    assert_eq!(ready(MINIMAL).staging.queue, None);
    check_single_mistakes([
        (
            in_staging("sqs_mode = \"drain\""),
            "3: `sqs_mode` in `[staging]` says how a queue is read, and there is none, add `sqs_queue_url` or leave it out",
        ),
        (
            in_staging(&format!("{queue}s3_prefix = \"\"")),
            "4: `s3_prefix` in `[staging]` is empty: the queue could have every object of the bucket read, name the folder that is staged in",
        ),
        (
            in_staging(&format!("{queue}s3_prefix = \"staged/\"\nrequire_marker = \"_SUCCESS\"")),
            "5: `require_marker` in `[staging]` needs the day in `s3_prefix`, put `{date}` into it or leave one of the two out",
        ),
        (
            in_staging("sqs_queue_url = \"https://sqs.eu-central-1.amazonaws.com/123456789012/q.fifo\""),
            "3: `sqs_queue_url` in `[staging]` is `https://sqs.eu-central-1.amazonaws.com/123456789012/q.fifo`, write a standard queue's URL such as `\"https://sqs.eu-central-1.amazonaws.com/123456789012/name\"`",
        ),
        (
            in_staging(&format!("{queue}sqs_mode = \"both\"")),
            "4: `sqs_mode` in `[staging]` is `both`, write `\"drain\"` or `\"trigger\"`",
        ),
        (
            format!("{}[run]\nwork_queue_url = \"{url}\"\n", in_staging(&queue)),
            "12: `work_queue_url` in `[run]` is the `sqs_queue_url` of `[staging]`, give each a queue of its own",
        ),
    ]);
}

#[test]
fn keys_of_the_customers_own_for_encryption_are_refused_at_start() {
    for text in ["sse_customer_key = \"x\"", "SSE_C = true", "encryption = \"SSE-C\""] {
        let mistakes = mistakes(&in_destination(text)).concat();
        assert!(mistakes.contains("customer-provided keys (SSE-C) are refused"), "{text}: {mistakes}");
    }
}

#[test]
fn credentials_go_one_way_and_are_never_printed() {
    let of = |insert: &str| mistakes(&in_destination(insert));
    let both = of(
        "role_arn = \"arn:aws:iam::123456789012:role/x\"\ncredentials = { secret_arn = \"arn:aws:secretsmanager:us-east-1:123456789012:secret:x\" }",
    );
    assert!(both.contains(
        &"11: `credentials` in `[[destination]]` `acme` can't go with `role_arn`, leave one of the two out".to_owned()
    ));
    let alone = of("external_id = \"x-1\"");
    assert!(alone.contains(
        &"10: `external_id` in `[[destination]]` `acme` goes only with `role_arn`, write that too or leave it out".to_owned()
    ));
    let half = of("credentials = { access_key_id_env = \"A\" }");
    assert!(half.contains(&"10: `credentials` in `[[destination]]` `acme` is not whole, write `{ secret_arn = … }` or `{ access_key_id_env = …, secret_access_key_env = … }`".to_owned()));
    for pasted in [
        "credentials = { access_key_id_env = \"AKIA/SECRET\", secret_access_key_env = \"wJalr/SECRET\" }",
        "credentials = { secret_arn = \"SECRET\" }",
        "credentials = { aws_secret_access_key = \"SECRET\" }",
        "credentials = \"SECRET\"",
        "credentials = { access_key_id_env = \"AKIASECRETSECRET1234\", secret_access_key_env = \"B\" }",
        "credentials = { access_key_id_env = \"A\", secret_access_key_env = \"SECRETwJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPL\" }",
    ] {
        let found = of(pasted).join("\n");
        assert!(found.lines().count() >= 1 && !found.contains("SECRET"), "{found}");
    }
    let pasted = of("credentials = { aws_secret_access_key = \"x\" }");
    assert!(pasted.iter().any(|line| line.contains("keys are never written here")), "{pasted:?}");
}

#[test]
fn each_way_to_sign_is_read() {
    let of = |insert: &str| ready(&in_destination(insert)).destinations.remove(0).credentials;
    assert_eq!(of(""), Credentials::Own);
    let role_arn = "arn:aws:iam::123456789012:role/x".to_owned();
    let without_id = Credentials::Role { role_arn: role_arn.clone(), external_id: None };
    assert_eq!(of("role_arn = \"arn:aws:iam::123456789012:role/x\""), without_id);
    let with_id = Credentials::Role { role_arn, external_id: Some("acme-7".to_owned()) };
    assert_eq!(of("role_arn = \"arn:aws:iam::123456789012:role/x\"\nexternal_id = \"acme-7\""), with_id);
    let secret = Credentials::Secret { secret_arn: "arn:aws:secretsmanager:us-east-1:123456789012:secret:x".to_owned() };
    assert_eq!(of("credentials = { secret_arn = \"arn:aws:secretsmanager:us-east-1:123456789012:secret:x\" }"), secret);
    let pair = Credentials::Environment { access_key_id_env: "A_KEY".to_owned(), secret_access_key_env: "A_SECRET".to_owned() };
    assert_eq!(of("credentials = { access_key_id_env = \"A_KEY\", secret_access_key_env = \"A_SECRET\" }"), pair);
}

#[test]
fn declared_columns_that_contradict_each_other_are_refused() {
    for (insert, expected) in [
        ("price = \"dobule\"", "11: column `price` in `[event_tables]` has the unknown type `dobule`, did you mean `double`?"),
        ("price = 1", "11: column `price` in `[event_tables]` is `1`, write a type such as `\"double\"` or a table for a struct"),
        ("price = {}", "11: column `price` in `[event_tables]` is an empty struct, name a member"),
        (
            "a = \"string\"\n\"a.b\" = \"int64\"",
            "12: column `a.b` in `[event_tables]` declares `a` as a struct, and it is `string` already, keep one",
        ),
        (
            "\"a.b\" = \"int64\"\na = \"string\"",
            "12: column `a` in `[event_tables]` declares `a` as `string`, and it is a struct already, keep one",
        ),
        ("\"a.b\" = \"int64\"\n'a.\"b\"' = \"int64\"", "12: column `a.\"b\"` in `[event_tables]` is declared twice, keep one"),
        ("a = { b = \"int64\" }\n\"a.b\" = \"double\"", "12: column `a.b` in `[event_tables]` is declared twice, keep one"),
        (
            "Price = \"double\"\nprice = \"double\"",
            "12: column `price` in `[event_tables]` has `price`, which differs from `Price` only in case, keep one of the two",
        ),
        (
            "\"a..b\" = \"int64\"",
            "11: column `a..b` in `[event_tables]` has a part that is empty or half quoted, write a dotted path such as `properties.price`, or a whole part in double quotes",
        ),
        (
            "a = \"list<list<list<list<list<list<list<list<list<list<list<list<int64>>>>>>>>>>>>\"",
            "11: column `a` in `[event_tables]` is 13 levels deep, `max_column_depth` allows 12: declare a level above or raise it",
        ),
    ] {
        // TOML's tables are kept by key, but the order of the lines decides who came first.
        assert_eq!(mistakes(&columns(insert)), [expected], "{insert}");
    }
    let with_table = |shared: &str, own: &str| format!("{}[tables.x_events.columns]\n{own}\n", columns(shared));
    assert_eq!(
        mistakes(&with_table("id = \"int64\"", "id = \"int64\"")),
        ["13: column `id` in `[tables.x_events]` is declared for every event table already, leave it out here"]
    );
    assert_eq!(
        mistakes(&with_table("\"p.a\" = \"int64\"", "p = \"string\"")),
        ["13: column `p` in `[tables.x_events]` declares `p` as `string`, and it is a struct already, keep one"]
    );
    let beside = ready(&with_table("\"p.a\" = \"int64\"", "\"p.b\" = \"string\""));
    assert_eq!(beside.tables.get("x_events").unwrap().columns, [declared(&["p", "b"], DeclaredType::String)]);
    let other_table = ready(&format!("{}[tables.rates.columns]\nid = \"string\"\n", columns("id = \"int64\"")));
    assert_eq!(other_table.tables.get("rates").unwrap().columns, [declared(&["id"], DeclaredType::String)]);
}

#[test]
fn declared_columns_stay_within_the_budgets() {
    let narrow = |insert: &str| format!("{}[parquet]\nmax_columns = 2\nmax_fields = 2\n", columns(insert));
    assert_eq!(
        mistakes(&narrow("a = \"int64\"\nb = \"int64\"\nc = \"int64\"")),
        ["10: `columns` in `[event_tables]` has 3 leaf columns, `max_columns` allows 2: declare fewer or raise it"]
    );
    let found = mistakes(&narrow("p = { a = \"int64\", b = \"int64\", c = \"int64\" }"));
    assert!(found.contains(&"11: column `p` in `[event_tables]` is one key too many in its struct, `max_fields` allows 2: declare fewer or raise it".to_owned()), "{found:?}");
}

fn two(one: &str, other: &str) -> String {
    format!("{MINIMAL}{one}\n\n[[destination]]\nname = \"other\"\ns3_bucket = \"acme-exports\"\n{other}\n")
}

#[test]
fn places_that_overlap_are_refused() {
    let advice = "give each a bucket or prefix of its own";
    let state_in =
        |bucket: &str, prefix: &str| MINIMAL.replace("\"vendor-state\"", &format!("\"{bucket}\"\ns3_prefix = \"{prefix}\""));
    let destination_in =
        |bucket: &str, prefix: &str| MINIMAL.replace("\"acme-exports\"", &format!("\"{bucket}\"\ns3_prefix = \"{prefix}\""));
    for (text, expected) in [
        (
            two("s3_prefix = \"a\"", "s3_prefix = \"a/b\""),
            "12: `[[destination]]` `other` (`s3://acme-exports/a/b/`) overlaps `[[destination]]` `acme` (`s3://acme-exports/a/`)",
        ),
        (
            two("s3_prefix = \"/a/\"", "s3_prefix = \"a\""),
            "12: `[[destination]]` `other` (`s3://acme-exports/a/`) overlaps `[[destination]]` `acme` (`s3://acme-exports/a/`)",
        ),
        (
            two("", "s3_prefix = \"b\""),
            "12: `[[destination]]` `other` (`s3://acme-exports/b/`) overlaps `[[destination]]` `acme` (`s3://acme-exports/`)",
        ),
        (
            two("s3_prefix = \"a\"", "enabled = false"),
            "12: `[[destination]]` `other` (`s3://acme-exports/`) overlaps `[[destination]]` `acme` (`s3://acme-exports/a/`)",
        ),
        (
            state_in("vendor-staging", ""),
            "4: `[state]` (`s3://vendor-staging/`) overlaps `[staging]` (`s3://vendor-staging/events/{date}/`)",
        ),
        (
            state_in("acme-exports", "x"),
            "8: `[[destination]]` `acme` (`s3://acme-exports/`) overlaps `[state]` (`s3://acme-exports/x/`)",
        ),
        (
            destination_in("vendor-staging", "events/2026-01-15"),
            "7: `[[destination]]` `acme` (`s3://vendor-staging/events/2026-01-15/`) overlaps `[staging]` (`s3://vendor-staging/events/{date}/`)",
        ),
    ] {
        assert_eq!(mistakes(&text), [format!("{expected}, {advice}")]);
    }
    ready(&two("s3_prefix = \"a\"", "s3_prefix = \"ab\""));
    ready(&state_in("vendor-staging", "dayport"));
    ready(&destination_in("vendor-staging", "exports"));
    let nameless = mistakes(&two("s3_prefix = \"a\"", "s3_prefix = \"a//b\""));
    assert_eq!(nameless.len(), 1, "a prefix that can't be read overlaps nothing: {nameless:?}");
}

#[test]
fn two_destinations_need_two_names() {
    let text = two("s3_prefix = \"a\"", "s3_prefix = \"b\"").replace("\"other\"", "\"acme\"");
    assert_eq!(mistakes(&text), ["12: `[[destination]]` `acme` has the name of the one in line 7, give it its own"]);
}

#[test]
fn organisations_that_nothing_tells_apart_are_refused() {
    let with_staging = |staging: &str, one: &str, other: &str| {
        two(&format!("s3_prefix = \"a\"\n{one}"), &format!("s3_prefix = \"b\"\n{other}"))
            .replace("[staging]\n", &format!("[staging]\n{staging}\n"))
    };
    let (a, b) = ("organization = \"a\"", "organization = \"b\"");
    let apart = "`[[destination]]` `other` has another `organization` than `acme`, and nothing tells their records apart, put `{organization}` into `s3_prefix` of `[staging]` or set `organization_field` there";
    assert_eq!(mistakes(&with_staging("", a, b)), [format!("14: {apart}")]);
    assert_eq!(mistakes(&with_staging("", a, "")), [format!("14: {apart}")], "none is another one too");
    ready(&with_staging("", a, a));
    ready(&with_staging("", "", ""));
    ready(&with_staging("organization_field = \"org\"", a, b));
    ready(&with_staging("organization_field = \"org\"", "", ""));
    ready(&with_staging("s3_prefix = \"{organization}/{date}\"", a, b));
    assert_eq!(
        mistakes(&with_staging("organization_field = \"org\"", a, "")),
        [
            "14: `organization` is missing in `[[destination]]` `other`, which would get every organisation's records, write the value of `org` that is its own"
        ]
    );
    assert_eq!(
        mistakes(&with_staging("s3_prefix = \"{organization}/{date}\"", a, "")),
        [
            "14: `organization` is missing in `[[destination]]` `other`, and `s3_prefix` of `[staging]` has `{organization}`, write one that fits"
        ]
    );
    for name in ["../b", "b/c", ".", "{date}"] {
        let text = with_staging("s3_prefix = \"{organization}/{date}\"", a, &format!("organization = \"{name}\""));
        let expected = format!(
            "14: `organization` is `{name}`, which can't be a folder's name in `[[destination]]` `other`, and `s3_prefix` of `[staging]` has `{{organization}}`, write one that fits"
        );
        assert_eq!(mistakes(&text), [expected]);
    }
}

#[test]
fn a_function_that_is_too_short_or_too_small_is_refused_at_start() {
    let short = Environment { function_timeout: Some(Duration::from_secs(179)), ..Environment::default() };
    let expected = "the function's timeout of 179s is under twice `lease` plus `deadline_margin` (180s), raise it or lower those";
    assert_eq!(mistakes_on(MINIMAL, &short), [format!("4: {expected}")]);
    let enough = Environment { function_timeout: Some(Duration::from_mins(3)), ..Environment::default() };
    let settings = parse(MINIMAL, &enough).unwrap();
    assert!(check_timeout(&settings, Duration::from_mins(3)).is_ok());
    let error = check_timeout(&settings, Duration::from_secs(179)).unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Vendor, expected));

    let small = Environment { function_memory: Some(128 << 20), ..Environment::default() };
    assert!(mistakes_on(MINIMAL, &small).concat().contains("`memory_budget` in `[run]` is 89MiB and has to be 264MiB"));
}

#[test]
fn the_least_memory_follows_the_limits() {
    let least = |text: &str| minimum_memory(&ready(text)) >> 20;
    assert_eq!(least(MINIMAL), 64 + 256 / 4 + 4 * 16 + 4 * 16 + 8);
    assert_eq!(least(&in_destination("format = \"json\"")), 64 + 4 * 16 + 4 * 16 + 8, "no row groups in JSON");
    assert_eq!(least(&in_run("threads = 9\npart_size = \"5MiB\"")), 64 + 256 / 4 + 4 * 16 + 4 * 5 + 8 * 9);
    assert_eq!(least(&in_destination("dedupe = \"event_id\"")), least(MINIMAL) + 64, "ids");
    let many_threads = Environment { threads: 1000, ..Environment::default() };
    assert_eq!(parse(MINIMAL, &many_threads).unwrap().run.threads, 64, "the defaults hold on the largest machine");
}

#[test]
fn every_key_of_the_table_is_read_and_every_default_is_usable() {
    for key in keys::KEYS {
        let written = format!("{} = [[1]]", key.name);
        let without = |name: &str, text: &str| {
            text.lines().filter(|line| !line.starts_with(&format!("{name} ="))).collect::<Vec<_>>().join("\n")
        };
        let text = match key.section {
            keys::Section::Staging => MINIMAL.replace(
                "[staging]\ns3_bucket",
                &format!("[staging]\n{written}\n{}", if key.name == "s3_bucket" { "#" } else { "s3_bucket" }),
            ),
            keys::Section::State => MINIMAL.replace(
                "[state]\ns3_bucket",
                &format!("[state]\n{written}\n{}", if key.name == "s3_bucket" { "#" } else { "s3_bucket" }),
            ),
            keys::Section::Run => in_run(&written),
            keys::Section::EventTables => format!("{MINIMAL}[event_tables]\n{written}\n"),
            keys::Section::Table => format!("{MINIMAL}[tables.rates]\n{written}\n"),
            keys::Section::Parquet => in_parquet(&written),
            keys::Section::Destination => {
                let (head, destination) = MINIMAL.split_once("[[destination]]").unwrap();
                format!("{head}[[destination]]\n{written}\n{}", without(key.name, destination))
            }
            keys::Section::Credentials => in_destination(&format!("credentials = {{ {written} }}")),
        };
        let found = mistakes(&text);
        let start = format!("`{}` ", key.name);
        let refused = |line: &&String| {
            line.contains(&start)
                && ([" is a list, ", " is not that, ", " is not a table, "].iter().any(|what| line.contains(what)))
        };
        assert!(found.iter().any(|line| refused(&line)), "`{}` is not read: {found:#?}", key.name);
        let section = format!("{:?}", key.section);
        assert!(
            keys::KEYS.iter().filter(|other| other.name == key.name && format!("{:?}", other.section) == section).count() == 1
        );
    }
    // The minimal file takes every default through its rule.
    ready(MINIMAL);
}

#[test]
fn the_digest_follows_what_lands_and_nothing_else() {
    let digest = |text: &str| {
        let settings = ready(text);
        digest_of(settings.destinations.first().unwrap(), &settings)
    };
    let base = digest(MINIMAL);
    assert!(base.len() == 64 && base.bytes().all(|byte| byte.is_ascii_hexdigit()));
    for text in [
        in_run("threads = 7\nmemory_budget = \"2GiB\"\npart_size = \"5MiB\"\nlag_days = 3\nmax_quarantine_ratio = 0.5"),
        in_run("scratch_dir = \"/x\"\nscratch_budget = 1\ndeadline_margin = \"1s\"\ncatch_up_days = 0"),
        in_state("lease = \"5s\"\ns3_region = \"eu-central-1\"\ns3_prefix = \"x\""),
        in_staging(
            "s3_region = \"eu-central-1\"\nrequire_marker = \"_SUCCESS\"\nallow_empty_day = true\ns3_prefix = \"/events/{date}\"",
        ),
        in_destination("s3_region = \"eu-central-1\"\nenabled = false\nstart_date = 2026-01-01\nlag_days = 2\npath_style = true"),
        in_destination("target_file_size = \"256MiB\"\nmax_lateness_days = 5\nexpected_bucket_owner = \"123456789012\""),
        two("s3_prefix = \"\"", "")
            .replace("\"acme-exports\"\n\n[[destination]]", "\"acme-exports\"\n[[destination]]")
            .replace("name = \"other\"\ns3_bucket = \"acme-exports\"", "name = \"other\"\ns3_bucket = \"another\""),
    ] {
        assert_eq!(digest(&text), base, "{text}");
    }
    let mut seen = vec![base];
    for text in [
        in_staging("s3_prefix = \"{date}\""),
        in_staging("event_field = \"e\""),
        in_staging("max_record_bytes = \"1MiB\""),
        in_staging("on_damaged_object = \"skip\""),
        in_run("shard_size = \"1GiB\""),
        in_run("max_tables = 5"),
        in_parquet("row_group_size = \"1MiB\""),
        in_parquet("rescue_column = \"_rest\""),
        in_parquet("new_columns = \"next_run\""),
        columns("a = \"int64\""),
        columns("a = \"string\""),
        format!("{MINIMAL}[tables.rates]\n"),
        format!("{MINIMAL}[tables.x_events.columns]\na = \"int64\""),
        in_destination("format = \"json\""),
        in_destination("layout = \"pontoon\""),
        in_destination("partition_by = \"time\""),
        in_destination("partition_by = \"time\"\nmax_lateness_days = 5"),
        in_destination("s3_prefix = \"x\""),
        in_destination("target_file_size = \"1MiB\""),
        in_destination("encryption = \"AES256\""),
        in_destination("encryption = \"aws:kms\""),
        in_destination("checksum = \"when_required\""),
        in_destination("manifest = false"),
        MINIMAL.replace("acme-exports", "another"),
    ] {
        let found = digest(&text);
        assert!(!seen.contains(&found), "{text}");
        seen.push(found);
    }
    let json = in_destination("format = \"json\"");
    assert_eq!(
        digest(&format!("{json}[event_tables.columns]\na = \"int64\"\n[parquet]\nmax_columns = 5\n[tables.x_events]")),
        digest(&json),
        "JSON has no columns"
    );
}

#[test]
fn a_very_deep_file_is_refused_and_does_not_end_the_process() {
    let deep = format!("{MINIMAL}[event_tables.columns]\n{}a = \"int64\"\n", "a.".repeat(100_000));
    assert!(!mistakes(&deep).is_empty());
    let deep = columns(&format!("{}a = \"int64\"\n", "a.".repeat(70)));
    assert!(mistakes(&deep).concat().contains("levels"), "{:?}", mistakes(&deep));
    let deep = columns(&format!("a = {}", "{ a = ".repeat(3000)));
    assert!(!mistakes(&deep).is_empty());
    let deep = columns(&format!("a = {}", "[".repeat(100_000)));
    assert!(!mistakes(&deep).is_empty());
}

#[test]
fn an_s3_address_is_a_bucket_and_a_key() {
    assert_eq!(split_s3_url("s3://bucket/a/b.toml").unwrap(), Some(("bucket", "a/b.toml")));
    assert_eq!(split_s3_url("config/dayport.toml").unwrap(), None);
    for url in ["s3://", "s3://bucket", "s3://bucket/", "s3:///key", "s3://Bucket/key"] {
        let error = split_s3_url(url).unwrap_err();
        assert_eq!(error.message(), format!("`{url}` is not an object's address, write it as `s3://bucket/key`"));
    }
}

const DOCUMENT: &str = include_str!("../../docs/configuration.md");

#[test]
fn the_documentation_has_every_key_and_no_other() {
    let reference = reference();
    for section in reference.split_inclusive("\n\n") {
        assert!(DOCUMENT.contains(section.trim_end()), "docs/configuration.md lacks, as the table of keys has it:\n\n{section}");
    }
    let variables: Vec<String> = VARIABLES.iter().map(|(name, meaning)| format!("| `{name}` | {meaning} |")).collect();
    for row in DOCUMENT.lines().filter(|line| line.starts_with("| `")) {
        let known = reference.lines().any(|line| line == row) || variables.iter().any(|line| line == row);
        assert!(known, "docs/configuration.md has a row that the code does not have:\n{row}");
    }
    for row in variables {
        assert!(DOCUMENT.contains(&row), "docs/configuration.md lacks\n{row}");
    }
}

#[test]
fn the_examples_of_the_documentation_work() {
    let blocks: Vec<&str> = DOCUMENT.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 2);
    for block in blocks {
        let whole = if block.contains("[state]") { block.to_owned() } else { format!("{MINIMAL}{block}") };
        ready(&whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,200}") {
        let _ = parse(&text, &Environment::default());
    }

    #[test]
    fn no_value_under_any_key_makes_the_parser_panic(
        index in 0..keys::KEYS.len(),
        value in prop_oneof![
            "[0-9.eE_+-]{1,12}",
            "\"[a-z0-9.{}<>/:% =,-]{0,40}\"",
            "'[a-z\".{}<>=, ]{0,30}'",
            "\\{ *[a-z\"'.]{1,6} = \"[a-z{}<>=,]{0,20}\" *\\}",
            "\\[[0-9,\\[\\]]{0,6}\\]",
            "[0-9]{4}-[0-9]{2}-[0-9]{2}",
        ],
    ) {
        let key = keys::KEYS.get(index).unwrap();
        let written = format!("{} = {value}", key.name);
        let text = match key.section {
            keys::Section::Credentials => in_destination(&format!("credentials = {{ {written} }}")),
            keys::Section::Destination => in_destination(&written),
            keys::Section::Staging => in_staging(&written),
            keys::Section::State => in_state(&written),
            keys::Section::Table => format!("{MINIMAL}[tables.rates]\n{written}"),
            section => format!("{MINIMAL}{}\n{written}", section.header()),
        };
        if let Err(error) = parse(&text, &Environment::default()) {
            prop_assert!(error.message().lines().all(|line| line.starts_with("dayport.toml:")), "{}", error);
        }
    }

    #[test]
    fn any_lines_of_the_full_file_are_told_line_by_line(lines in proptest::collection::vec(
        prop_oneof![
            Just("[staging]"), Just("[state]"), Just("[run]"), Just("[[destination]]"), Just("[destination]"), Just("[tables.a]"),
            Just("[tables.a.columns]"), Just("[event_tables.columns]"), Just("[parquet]"), Just("s3_bucket = \"abc\""), Just("a.b.c = 1"),
            Just("\"a.b\" = \"int64\""), Just("a = { b = \"string\" }"), Just("name = \"x\""), Just("columns.x = \"list<{a=int64}>\""),
            Just("s3_prefix = \"{date}{organization}\""), Just("organization = \"o\""), Just("= 3"), Just("[[tables]]"), Just("]"),
        ], 0..14)
    ) {
        let _ = parse(&lines.join("\n"), &Environment::default());
    }
}
