//! Landed files, read back by the crates that users have.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::Type;

/// A value of a landed row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    /// Microseconds since 1970.
    Time(i64),
    List(Vec<Value>),
    Struct(Row),
}

/// A row, or a struct's members: values by column name, in the file's order.
pub type Row = Vec<(String, Value)>;

impl Value {
    pub fn is_nothing(&self) -> bool {
        match self {
            Value::Null => true,
            Value::List(elements) => elements.iter().all(Value::is_nothing),
            Value::Struct(members) => members.iter().all(|(_, value)| value.is_nothing()),
            _ => false,
        }
    }
}

/// The value at a path of column names; of a list, that of each element.
pub fn at<'v>(row: &'v Row, path: &str) -> &'v Value {
    static NULL: Value = Value::Null;
    let mut row = row;
    let mut value = &NULL;
    for name in path.split('.') {
        value = row.iter().find(|(column, _)| column == name).map_or(&NULL, |(_, value)| value);
        if let Value::Struct(members) = value {
            row = members;
        }
    }
    value
}

/// One member after the other, decompressed.
pub fn gunzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut plain = Vec::new();
    flate2::bufread::MultiGzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

/// The lines of a landed JSON file.
pub fn json_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8(gunzip(bytes)).unwrap();
    assert!(text.ends_with('\n'), "a file's last line ends in a line feed as well");
    text.lines().map(str::to_owned).collect()
}

/// The rows of a landed Parquet file.
pub fn parquet_rows(bytes: &Bytes) -> Vec<Row> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap().build().unwrap();
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.unwrap();
        for row in 0..batch.num_rows() {
            let fields = batch.schema_ref().fields().iter().zip(batch.columns());
            rows.push(fields.map(|(field, column)| (field.name().clone(), value(column.as_ref(), row))).collect());
        }
    }
    rows
}

fn value(array: &dyn Array, at: usize) -> Value {
    if array.is_null(at) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(at)),
        DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(at)),
        DataType::Float64 => Value::Double(array.as_primitive::<Float64Type>().value(at)),
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(at).to_owned()),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            Value::Time(array.as_primitive::<TimestampMicrosecondType>().value(at))
        }
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(at);
            Value::List((0..elements.len()).map(|element| value(elements.as_ref(), element)).collect())
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            Value::Struct(
                fields.iter().zip(columns).map(|(field, column)| (field.name().clone(), value(column.as_ref(), at))).collect(),
            )
        }
        other => panic!("a landed column is of type {other}"),
    }
}

/// A column of a footer: path, type in the contract's words, field id.
#[derive(Clone, Debug, PartialEq)]
pub struct FooterColumn {
    pub path: String,
    pub column_type: String,
    pub id: i32,
}

/// The columns in a Parquet file's footer, those inside others after them; checks what CONTRACT.md §2 says of every file.
pub fn footer(bytes: &Bytes) -> Vec<FooterColumn> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
    let metadata: &ParquetMetaData = builder.metadata();
    let file = metadata.file_metadata();
    assert!(file.created_by().unwrap().starts_with("dayport version "));
    assert!(file.key_value_metadata().is_none_or(Vec::is_empty), "no Arrow schema in the footer");
    assert!(metadata.num_row_groups() > 0, "no empty files");
    for group in metadata.row_groups() {
        assert!(group.num_rows() > 0, "no empty row group");
        for column in group.columns() {
            assert_eq!(column.compression(), Compression::SNAPPY);
            for encoding in column.encodings() {
                assert!(
                    matches!(encoding, Encoding::PLAIN | Encoding::RLE | Encoding::RLE_DICTIONARY),
                    "{} is encoded as {encoding}",
                    column.column_path()
                );
            }
        }
    }
    let mut columns = Vec::new();
    for field in file.schema_descr().root_schema().get_fields() {
        describe(field, "", &mut columns);
    }
    columns
}

fn describe(field: &Type, above: &str, into: &mut Vec<FooterColumn>) {
    let info = field.get_basic_info();
    let path = if above.is_empty() { field.name().to_owned() } else { format!("{above}.{}", field.name()) };
    assert_eq!(info.repetition(), Repetition::OPTIONAL, "every column is optional: {path}");
    let id = if info.has_id() { info.id() } else { panic!("no field id: {path}") };
    let place = into.len();
    into.push(FooterColumn { path: path.clone(), column_type: String::new(), id });
    into[place].column_type = match field {
        Type::PrimitiveType { physical_type, .. } => match (physical_type, info.logical_type_ref()) {
            (Physical::BOOLEAN, None) => "boolean".to_owned(),
            (Physical::INT64, None) => "int64".to_owned(),
            (Physical::DOUBLE, None) => "double".to_owned(),
            (Physical::BYTE_ARRAY, Some(LogicalType::String)) => "string".to_owned(),
            (Physical::INT64, Some(LogicalType::Timestamp(time))) => {
                assert!(time.is_adjusted_to_u_t_c && matches!(time.unit, parquet::basic::TimeUnit::MICROS), "{path}");
                "timestamp".to_owned()
            }
            other => panic!("{path} is {other:?}"),
        },
        Type::GroupType { fields, .. } if matches!(info.logical_type_ref(), Some(LogicalType::List)) => {
            let [list] = fields.as_slice() else { panic!("{path} is no three-level list") };
            assert_eq!((list.name(), list.get_basic_info().repetition()), ("list", Repetition::REPEATED), "{path}");
            let [element] = list.get_fields() else { panic!("{path} is no three-level list") };
            assert_eq!(element.name(), "element", "{path}");
            describe(element, &path, into);
            format!("list<{}>", into[place + 1].column_type)
        }
        Type::GroupType { fields, .. } => {
            assert!(!fields.is_empty(), "an empty struct: {path}");
            fields.iter().for_each(|member| describe(member, &path, into));
            "struct".to_owned()
        }
    };
}

/// Columns as one line: `name:type`, `name{members}`, `name[element]`.
pub fn shape(columns: &[FooterColumn]) -> String {
    let mut at = 0;
    let mut all = Vec::new();
    while at < columns.len() {
        all.push(shape_of(columns, &mut at));
    }
    all.join(" ")
}

fn shape_of(columns: &[FooterColumn], at: &mut usize) -> String {
    let column = &columns[*at];
    let name = column.path.rsplit('.').next().unwrap();
    *at += 1;
    let inside = format!("{}.", column.path);
    match column.column_type.as_str() {
        "struct" => format!("{name}{{{}}}", members(columns, at, &inside)),
        list if list.starts_with("list<") => {
            let element = shape_of(columns, at);
            let element = element.strip_prefix("element").unwrap();
            format!("{name}[{}]", element.strip_prefix(':').unwrap_or(element))
        }
        other => format!("{name}:{other}"),
    }
}

fn members(columns: &[FooterColumn], at: &mut usize, inside: &str) -> String {
    let mut members = Vec::new();
    while columns.get(*at).is_some_and(|column| column.path.starts_with(inside)) {
        members.push(shape_of(columns, at));
    }
    members.join(" ")
}
