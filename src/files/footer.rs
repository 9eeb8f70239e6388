//! A Parquet file's footer, read back: how many rows it has, and its columns with their field ids.

use parquet::basic::{LogicalType, TimeUnit, Type as Physical};
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::schema::types::Type as Field;

use crate::domain::run::Day;
use crate::domain::schema::{Column, Role, Type};

/// The bytes at a file's end that say how long its metadata is: four of length, `PAR1` (parquet-format, "File format").
pub const TAIL_BYTES: u64 = 8;

/// The most bytes of metadata that are read; a file of ours with 2,000 columns and 100 row groups has about a tenth of it.
const MOST_BYTES: u64 = 256 << 20;

/// Where a file's metadata begins, by its size and its last [`TAIL_BYTES`] bytes; the metadata ends where these begin. `None` where that can't be.
#[must_use]
pub fn metadata_start(size: u64, tail: &[u8]) -> Option<u64> {
    let (length, magic) = tail.split_first_chunk::<4>()?;
    let length = u64::from(u32::from_le_bytes(*length));
    (magic == b"PAR1" && length <= MOST_BYTES).then_some(())?;
    size.checked_sub(TAIL_BYTES + length)
}

/// What a footer says.
#[derive(Clone, Debug, PartialEq)]
pub struct Footer {
    /// Rows of all row groups.
    pub rows: u64,
    /// Its columns in file order: names, types and field ids as the file has them. What a file does not say is left open: each is of
    /// [`Role::Value`], not declared, without another original name, and since the day that was given.
    pub columns: Vec<Column>,
}

/// Reads a footer's metadata (without its last [`TAIL_BYTES`] bytes). `since` is what each column's first day is set to.
///
/// # Errors
/// What is wrong with it, or what in it Dayport never writes.
pub fn parse(metadata: &[u8], since: Day) -> Result<Footer, String> {
    let metadata = ParquetMetaDataReader::decode_metadata(metadata).map_err(|error| error.to_string())?;
    let file = metadata.file_metadata();
    let rows = u64::try_from(file.num_rows()).map_err(|_| "it has a negative number of rows".to_owned())?;
    let fields = file.schema_descr().root_schema().get_fields();
    let columns = fields.iter().map(|field| column(field, since)).collect::<Result<_, _>>()?;
    Ok(Footer { rows, columns })
}

fn column(field: &Field, since: Day) -> Result<Column, String> {
    let info = field.get_basic_info();
    let name = field.name().to_owned();
    if !info.has_id() {
        return Err(format!("its column `{}` has no field id", name.escape_debug()));
    }
    let column_type = column_type(field, since)?;
    Ok(Column { name, original: None, id: info.id(), role: Role::Value, declared: false, since, column_type })
}

fn column_type(field: &Field, since: Day) -> Result<Type, String> {
    let info = field.get_basic_info();
    let unknown = || format!("its column `{}` is of a type that dayport never writes", field.name().escape_debug());
    match field {
        Field::PrimitiveType { physical_type, .. } => match (physical_type, info.logical_type_ref()) {
            (Physical::BOOLEAN, None) => Ok(Type::Boolean),
            (Physical::INT64, None) => Ok(Type::Int64),
            (Physical::DOUBLE, None) => Ok(Type::Double),
            (Physical::BYTE_ARRAY, Some(LogicalType::String)) => Ok(Type::String),
            (Physical::INT64, Some(LogicalType::Timestamp(time)))
                if time.is_adjusted_to_u_t_c && matches!(time.unit, TimeUnit::MICROS) =>
            {
                Ok(Type::Timestamp)
            }
            _ => Err(unknown()),
        },
        Field::GroupType { fields, .. } if matches!(info.logical_type_ref(), Some(LogicalType::List)) => {
            let [list] = fields.as_slice() else { return Err(unknown()) };
            let Field::GroupType { fields, .. } = &**list else { return Err(unknown()) };
            let [element] = fields.as_slice() else { return Err(unknown()) };
            Ok(Type::List(Box::new(column(element, since)?)))
        }
        Field::GroupType { fields, .. } => {
            Ok(Type::Struct(fields.iter().map(|member| column(member, since)).collect::<Result<_, _>>()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::RecordBatch;
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::columns::fields::arrow_schema;
    use crate::domain::schema::TableSchema;

    fn of(name: &str, id: i32, column_type: Type) -> Column {
        let since = "2026-01-15".parse().unwrap();
        Column { name: name.into(), original: None, id, role: Role::Value, declared: false, since, column_type }
    }

    fn written(columns: &[Column]) -> Vec<u8> {
        let schema = TableSchema { version: 1, columns: columns.to_vec(), next_id: 99 };
        let arrow = arrow_schema(&schema);
        let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&arrow), None).unwrap();
        let arrays = arrow.fields().iter().map(|field| arrow::array::new_null_array(field.data_type(), 3)).collect();
        writer.write(&RecordBatch::try_new(arrow, arrays).unwrap()).unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn what_was_written_is_what_the_footer_says() {
        let members = vec![of("x", 5, Type::Double), of("y", 6, Type::Timestamp)];
        let columns = vec![
            of("a", 1, Type::Int64),
            of("b", 2, Type::String),
            of("l", 3, Type::List(Box::new(of("element", 4, Type::Struct(members))))),
            of("s", 7, Type::Struct(vec![of("t", 8, Type::Boolean)])),
        ];
        let file = written(&columns);
        let size = file.len() as u64;
        let tail = &file[file.len() - 8..];
        let start = usize::try_from(metadata_start(size, tail).unwrap()).unwrap();
        let footer = parse(&file[start..file.len() - 8], "2026-01-15".parse().unwrap()).unwrap();
        assert_eq!(footer, Footer { rows: 3, columns });
    }

    #[test]
    fn what_is_no_footer_is_said_and_nothing_else() {
        assert_eq!(metadata_start(100, b"\x05\0\0\0PAR2"), None);
        assert_eq!(metadata_start(100, b"\xff\xff\xff\xffPAR1"), None);
        assert_eq!(metadata_start(10, b"\x05\0\0\0PAR1"), None, "longer than the file");
        assert_eq!(metadata_start(100, b"PAR1"), None);
        assert_eq!(metadata_start(100, b"\x05\0\0\0PAR1"), Some(87));
        assert!(parse(b"not thrift", "2026-01-15".parse().unwrap()).is_err());
    }
}
