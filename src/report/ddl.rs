//! A table's definition in the words of a reader's engine: the columns as pinned, the partitions as the layout has them.

use std::fmt::Write as _;

use crate::domain::format::Format;
use crate::domain::layout::{Layout, Prefix};
use crate::domain::run::Day;
use crate::domain::schema::{Column, Role, Type};
use crate::domain::spelling::brief;
use crate::domain::table::{SyncMode, TableName};

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Amazon Athena, with partition projection: no partition has ever to be added.
    Athena,
    /// Spark SQL.
    Spark,
    /// DuckDB, as views over the files.
    DuckDb,
    /// Snowflake, as external tables over an external stage.
    Snowflake,
}

/// One table, as it is to be defined.
#[derive(Clone, Debug)]
pub struct TableDefinition<'a> {
    /// Its name.
    pub table: &'a TableName,
    /// Its sync mode.
    pub sync: SyncMode,
    /// The columns of its current schema; none where the format has none.
    pub columns: &'a [Column],
    /// The first day that may have a partition.
    pub first_day: Day,
}

/// Where the tables lie.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The bucket.
    pub bucket: &'a str,
    /// The prefix.
    pub prefix: &'a Prefix,
    /// The folder structure.
    pub layout: Layout,
    /// The files' format.
    pub format: Format,
}

/// The one column of a JSON table: the record as it was staged.
const RECORD: &str = "record";

impl Place<'_> {
    fn folder(&self, table: &TableDefinition<'_>) -> String {
        format!("s3://{}/{}", self.bucket, self.layout.table_folder(self.prefix, table.table))
    }

    fn partitions(&self, table: &TableDefinition<'_>) -> &'static [&'static str] {
        self.layout.partition_columns(table.sync)
    }
}

/// The statement that defines a table.
#[must_use]
pub fn definition(dialect: Dialect, place: &Place<'_>, table: &TableDefinition<'_>) -> String {
    match dialect {
        Dialect::Athena => athena(place, table),
        Dialect::Spark => spark(place, table),
        Dialect::DuckDb => duckdb(place, table),
        Dialect::Snowflake => snowflake(place, table),
    }
}

/// What a person has to know beside: said once, as comments before the statements.
#[must_use]
pub fn preamble(dialect: Dialect, place: &Place<'_>) -> String {
    let mut lines: Vec<String> = Vec::new();
    match dialect {
        Dialect::Athena => {}
        Dialect::Spark => {
            lines.push("Spark finds new days by MSCK REPAIR TABLE, or when the table is read as a path.".to_owned());
        }
        Dialect::DuckDb => {
            lines.push(
                "DuckDB needs the extension httpfs and a secret that may read the bucket: CREATE SECRET (TYPE s3, …).".to_owned(),
            );
        }
        Dialect::Snowflake => lines.push(format!(
            "Snowflake needs an external stage `dayport` over s3://{}/{} with a storage integration of yours.",
            place.bucket, place.prefix
        )),
    }
    if place.format == Format::Json {
        lines.push(format!("JSON has no pinned columns: a table has one, `{RECORD}`, which holds each record's text."));
    }
    lines.iter().fold(String::new(), |mut text, line| {
        // A text takes every line.
        let _ = writeln!(text, "-- {line}");
        text
    })
}

/// The key that a column's name was made from, as a comment's text.
fn key_comment(column: &Column) -> Option<String> {
    // A key may hold anything, and a comment is one line.
    match column.role {
        Role::Value | Role::Double => column.original.as_ref().map(|original| format!("key {}", brief(original, usize::MAX))),
        Role::Rescue => Some("values that did not fit, by JSON Pointer".to_owned()),
        Role::BatchId | Role::LastSynced => None,
    }
}

fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn backticked(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn double_quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in the words of Hive and Spark, whose escapes are backslashes.
fn hive_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A type in the words of Hive, which Athena and Spark take. Every name is in backticks: it may be a reserved word or begin with `_`.
fn hive_type(column_type: &Type) -> String {
    match column_type {
        Type::Boolean => "boolean".to_owned(),
        Type::Int64 => "bigint".to_owned(),
        Type::Double => "double".to_owned(),
        Type::String => "string".to_owned(),
        Type::Timestamp => "timestamp".to_owned(),
        Type::List(element) => format!("array<{}>", hive_type(&element.column_type)),
        Type::Struct(members) => {
            let members: Vec<String> =
                members.iter().map(|member| format!("{}:{}", backticked(&member.name), hive_type(&member.column_type))).collect();
            format!("struct<{}>", members.join(","))
        }
    }
}

/// A type in the words of Snowflake; what is nested stays as it is read.
fn snowflake_type(column_type: &Type) -> String {
    match column_type {
        Type::Boolean => "BOOLEAN".to_owned(),
        Type::Int64 => "NUMBER(19, 0)".to_owned(),
        Type::Double => "DOUBLE".to_owned(),
        Type::String => "VARCHAR".to_owned(),
        Type::Timestamp => "TIMESTAMP_LTZ(6)".to_owned(),
        Type::List(_) | Type::Struct(_) => "VARIANT".to_owned(),
    }
}

/// A type in the words of DuckDB.
fn duckdb_type(column_type: &Type) -> String {
    match column_type {
        Type::Boolean => "BOOLEAN".to_owned(),
        Type::Int64 => "BIGINT".to_owned(),
        Type::Double => "DOUBLE".to_owned(),
        Type::String => "VARCHAR".to_owned(),
        Type::Timestamp => "TIMESTAMP WITH TIME ZONE".to_owned(),
        Type::List(element) => format!("{}[]", duckdb_type(&element.column_type)),
        Type::Struct(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|member| format!("{} {}", double_quoted(&member.name), duckdb_type(&member.column_type)))
                .collect();
            format!("STRUCT({})", members.join(", "))
        }
    }
}

/// The columns' lines of a statement, each with its comment.
fn column_lines(place: &Place<'_>, table: &TableDefinition<'_>) -> String {
    if place.format == Format::Json {
        return format!("  {} string", backticked(RECORD));
    }
    let line = |column: &Column| {
        let comment = key_comment(column).map(|key| format!(" COMMENT {}", hive_quoted(&key))).unwrap_or_default();
        format!("  {} {}{comment}", backticked(&column.name), hive_type(&column.column_type))
    };
    table.columns.iter().map(line).collect::<Vec<_>>().join(",\n")
}

fn athena(place: &Place<'_>, table: &TableDefinition<'_>) -> String {
    let folder = place.folder(table);
    let columns = column_lines(place, table);
    let mut text = format!("CREATE EXTERNAL TABLE {} (\n{columns}\n)\n", backticked(table.table.as_str()));
    let partitions = place.partitions(table);
    // Athena User Guide, "Supported types for partition projection".
    let mut properties: Vec<(String, String)> = Vec::new();
    if !partitions.is_empty() {
        let is_date = partitions == ["dt"];
        let partition_type = if is_date { "string" } else { "int" };
        let columns: Vec<String> = partitions.iter().map(|name| format!("{} {partition_type}", backticked(name))).collect();
        // A text takes every line.
        let _ = writeln!(text, "PARTITIONED BY ({})", columns.join(", "));
        properties.push(("projection.enabled".to_owned(), "true".to_owned()));
        let ranges: Vec<(&str, String)> = if is_date {
            vec![("dt", format!("{},NOW+1DAYS", table.first_day))]
        } else {
            let year = table.first_day.year();
            vec![("year", format!("{year},{}", year + 30)), ("month", "1,12".to_owned()), ("day", "1,31".to_owned())]
        };
        for (name, range) in ranges {
            let kind = if is_date { "date" } else { "integer" };
            properties.push((format!("projection.{name}.type"), kind.to_owned()));
            properties.push((format!("projection.{name}.range"), range));
            if is_date {
                properties.push((format!("projection.{name}.format"), "yyyy-MM-dd".to_owned()));
            }
        }
        let path: Vec<String> = partitions.iter().map(|name| format!("{name}=${{{name}}}/")).collect();
        properties.push(("storage.location.template".to_owned(), format!("{folder}{}", path.concat())));
    }
    match place.format {
        Format::Parquet => {
            text.push_str("STORED AS PARQUET\n");
            properties.insert(0, ("parquet.compression".to_owned(), "SNAPPY".to_owned()));
        }
        // A separator that JSON text can't hold, so that a line is one field.
        Format::Json => text.push_str("ROW FORMAT DELIMITED FIELDS TERMINATED BY '\\001'\nSTORED AS TEXTFILE\n"),
    }
    let _ = write!(text, "LOCATION {}", single_quoted(&folder));
    if !properties.is_empty() {
        let lines: Vec<String> =
            properties.iter().map(|(name, value)| format!("  {} = {}", single_quoted(name), single_quoted(value))).collect();
        let _ = write!(text, "\nTBLPROPERTIES (\n{}\n)", lines.join(",\n"));
    }
    text.push_str(";\n");
    text
}

fn spark(place: &Place<'_>, table: &TableDefinition<'_>) -> String {
    let folder = place.folder(table).replacen("s3://", "s3a://", 1);
    let mut columns = column_lines(place, table);
    let partitions = place.partitions(table);
    let kind = if partitions == ["dt"] { "date" } else { "int" };
    for name in partitions {
        // A text takes every line.
        let _ = write!(columns, ",\n  {} {kind}", backticked(name));
    }
    let format = match place.format {
        Format::Parquet => "parquet",
        Format::Json => "text",
    };
    let name = backticked(table.table.as_str());
    let mut text = format!("CREATE TABLE {name} (\n{columns}\n)\nUSING {format}\n");
    if !partitions.is_empty() {
        let names: Vec<String> = partitions.iter().map(|name| backticked(name)).collect();
        let _ = writeln!(text, "PARTITIONED BY ({})", names.join(", "));
    }
    let _ = writeln!(text, "LOCATION {};", single_quoted(&folder));
    if !partitions.is_empty() {
        let _ = writeln!(text, "MSCK REPAIR TABLE {name};");
    }
    text
}

fn duckdb(place: &Place<'_>, table: &TableDefinition<'_>) -> String {
    let partitions = place.partitions(table);
    let depth = "*/".repeat(partitions.len());
    let files = single_quoted(&format!("{}{depth}*.{}", place.folder(table), place.format.extension()));
    let hive = match partitions {
        [] => "hive_partitioning = false".to_owned(),
        names => {
            let kind = if names == ["dt"] { "DATE" } else { "BIGINT" };
            let types: Vec<String> = names.iter().map(|name| format!("{}: {kind}", single_quoted(name))).collect();
            format!("hive_partitioning = true, hive_types = {{{}}}", types.join(", "))
        }
    };
    let name = double_quoted(table.table.as_str());
    let mut selected: Vec<String> = Vec::new();
    let source = match place.format {
        Format::Parquet => {
            let of = |column: &Column| {
                let name = double_quoted(&column.name);
                format!("  CAST({name} AS {}) AS {name}", duckdb_type(&column.column_type))
            };
            selected.extend(table.columns.iter().map(of));
            format!("read_parquet({files}, union_by_name = true, {hive})")
        }
        Format::Json => {
            selected.push(format!("  \"json\" AS {}", double_quoted(RECORD)));
            format!("read_ndjson_objects({files}, compression = 'gzip', {hive})")
        }
    };
    selected.extend(partitions.iter().map(|name| format!("  {}", double_quoted(name))));
    let mut text = format!("CREATE OR REPLACE VIEW {name} AS SELECT\n{}\nFROM {source};\n", selected.join(",\n"));
    if place.format == Format::Parquet {
        for column in table.columns {
            let Some(key) = key_comment(column) else { continue };
            // A text takes every line.
            let _ = writeln!(text, "COMMENT ON COLUMN {name}.{} IS {};", double_quoted(&column.name), single_quoted(&key));
        }
    }
    text
}

fn snowflake(place: &Place<'_>, table: &TableDefinition<'_>) -> String {
    let folder = place.layout.table_folder(&Prefix::default(), table.table);
    // A column and what is said of it: an external table's columns have no comments of their own.
    let mut columns: Vec<(String, Option<String>)> = match place.format {
        Format::Parquet => table
            .columns
            .iter()
            .map(|column| {
                let (name, kind) = (double_quoted(&column.name), snowflake_type(&column.column_type));
                (format!("  {name} {kind} AS (value:{name}::{kind})"), key_comment(column))
            })
            .collect(),
        Format::Json => vec![(format!("  {} VARIANT AS (value)", double_quoted(RECORD)), None)],
    };
    let partitions = place.partitions(table);
    for name in partitions {
        let kind = if partitions == ["dt"] { "DATE" } else { "NUMBER" };
        let part = format!("SPLIT_PART(SPLIT_PART(metadata$filename, '{name}=', 2), '/', 1)");
        columns.push((format!("  {} {kind} AS ({part}::{kind})", double_quoted(name)), None));
    }
    let mut text = format!("CREATE EXTERNAL TABLE {} (\n", double_quoted(table.table.as_str()));
    let last = columns.len().saturating_sub(1);
    for (at, (column, comment)) in columns.iter().enumerate() {
        let comma = if at == last { "" } else { "," };
        let comment = comment.as_ref().map(|comment| format!("  -- {comment}")).unwrap_or_default();
        // A text takes every line.
        let _ = writeln!(text, "{column}{comma}{comment}");
    }
    text.push_str(")\n");
    if !partitions.is_empty() {
        let names: Vec<String> = partitions.iter().map(|name| double_quoted(name)).collect();
        // A text takes every line.
        let _ = writeln!(text, "PARTITION BY ({})", names.join(", "));
    }
    let format = match place.format {
        Format::Parquet => "TYPE = PARQUET USE_LOGICAL_TYPE = TRUE",
        Format::Json => "TYPE = JSON COMPRESSION = GZIP",
    };
    let ending = place.format.extension().replace('.', "[.]");
    let _ = writeln!(text, "LOCATION = @dayport/{folder}\nPATTERN = '.*[.]{ending}'\nFILE_FORMAT = ({format});");
    text
}
