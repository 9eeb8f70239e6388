//! Any records, made columns of: a schema within its limits that stays as it is, and a row for each record.

use std::collections::BTreeSet;

use arrow::array::{Array as _, AsArray as _};
use dayport::columns::evidence::{Evidence, Limits};
use dayport::columns::fields::TypedSchema;
use dayport::columns::pin::{Given, base_schema, decide, versioned};
use dayport::columns::shred::{Shredded, Shredder};
use dayport::domain::run::Day;
use dayport::domain::schema::{Column, Declared, DeclaredType, Role, TableSchema, Type};
use dayport::records::json::Tape;
use dayport::records::reader::{Place, Reader, Visit};
use dayport::records::route::Reason;
use serde_json::value::RawValue;

const LIMITS: Limits = Limits { max_columns: 60, max_fields: 20, max_column_depth: 6 };
const RESCUE: &str = "_rescued_data";
const MAX_DEPTH: usize = 64;

struct Texts(Vec<Vec<u8>>);

impl Visit for Texts {
    fn record(&mut self, _: Place, _: &mut Tape, text: &[u8], _: bool, _: &[u8]) {
        self.0.push(text.to_vec());
    }

    fn reject(&mut self, _: Place, _: Reason, _: &[u8], _: Option<&'static str>) {}
}

fn observed(base: &TableSchema, records: &[Vec<u8>]) -> Evidence {
    let (mut evidence, mut tape) = (Evidence::new(base, LIMITS), Tape::default());
    for record in records {
        tape.read(record, 0, MAX_DEPTH).expect("it was read before");
        evidence.observe(&mut tape, record);
    }
    evidence
}

fn shredded(schema: &TableSchema, records: &[Vec<u8>]) -> Shredded {
    let (mut shredder, mut tape) = (Shredder::new(&TypedSchema::new(schema.clone())), Tape::default());
    for record in records {
        tape.read(record, 0, MAX_DEPTH).expect("it was read before");
        shredder.append(&mut tape, record, None);
    }
    shredder.finish().expect("a batch of this size has room for its text")
}

/// Every struct's names are told apart by more than case, and no column is deeper than the limit.
fn check(columns: &[Column], level: usize) {
    assert!(columns.is_empty() || level <= LIMITS.max_column_depth, "columns at level {level}");
    let names: BTreeSet<String> = columns.iter().map(|column| column.name.to_lowercase()).collect();
    assert_eq!(names.len(), columns.len(), "two names differ by case alone: {names:?}");
    for column in columns {
        assert!(column.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "`{}`", column.name);
        check_type(&column.column_type, level);
    }
}

fn check_type(column_type: &Type, level: usize) {
    match column_type {
        Type::Struct(members) => {
            assert!(!members.is_empty(), "a struct without members");
            check(members, level + 1);
        }
        Type::List(element) => check_type(&element.column_type, level + 1),
        _ => {}
    }
}

/// Decides a schema for the records of `data` and shreds them, twice; panics where something does not hold.
pub fn run(data: &[u8]) {
    let mut texts = Texts(Vec::new());
    Reader::new(MAX_DEPTH, 1 << 16).read(data, Place { line: 1, offset: 0 }, &mut texts);
    let records = texts.0;
    let day: Day = "2026-01-15".parse().expect("a day");
    let declared = [
        Declared { path: vec!["time".to_owned()], column_type: DeclaredType::Timestamp },
        Declared { path: vec!["properties".to_owned(), "n".to_owned()], column_type: DeclaredType::Int64 },
    ];
    let given = Given { declared: &declared, rescue_column: RESCUE, transfer_columns: false, day };
    let base = base_schema(None, &given).expect("nothing contradicts");

    let evidence = observed(&base, &records);
    let schema = versioned(decide(&base, &evidence, None, RESCUE, day), None);
    check(&schema.columns, 1);
    assert!(schema.leaves() <= LIMITS.max_columns, "{} leaves", schema.leaves());

    // Observed in two parts it is the same.
    let (one, other) = records.split_at(records.len() / 2);
    let mut joined = observed(&base, one);
    joined.absorb(&observed(&base, other));
    assert_eq!(decide(&base, &joined, None, RESCUE, day).columns, schema.columns, "two shards decide otherwise");

    let first = shredded(&schema, &records);
    assert_eq!(first.rows.len(), records.len());
    check_rescue(&schema, &first);
    let bytes: usize = records.iter().map(Vec::len).sum();
    let most = (1 << 20) + 64 * bytes + 64 * records.len() * schema.leaves();
    assert!(first.rows.get_array_memory_size() <= most, "{bytes} bytes of records take {}", first.rows.get_array_memory_size());

    // The next day the same records change nothing.
    let again = base_schema(Some(&schema), &given).expect("nothing contradicts");
    let later = versioned(decide(&again, &observed(&again, &records), None, RESCUE, day), Some(&schema));
    assert_eq!(later, schema, "the same records again change the schema");
    assert_eq!(shredded(&later, &records).rows, first.rows);
}

/// What is rescued is an object of what was there, and its values are counted.
fn check_rescue(schema: &TableSchema, shredded: &Shredded) {
    let at = schema.columns.iter().position(|column| column.role == Role::Rescue).expect("a rescue column");
    let column = shredded.rows.column(at).as_string::<i32>();
    let mut count = 0;
    for text in column.iter().flatten() {
        let members: std::collections::HashMap<String, &RawValue> =
            serde_json::from_str(text).expect("the rescue column is JSON");
        assert!(!members.is_empty());
        count += members.len() as u64;
    }
    assert_eq!(count, shredded.rescued.values().sum::<u64>(), "rescued values are counted");
}
