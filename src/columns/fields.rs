//! A schema's columns as Arrow fields, with the names, nullability and field ids that Parquet gets.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};

use crate::domain::schema::{Column, TableSchema, Type};

/// Parquet's `isAdjustedToUTC` is set for any time zone in Arrow; this one is the truth.
pub(crate) const TIME_ZONE: &str = "UTC";

/// The key under which the Parquet writer looks for a field's id.
const FIELD_ID: &str = "PARQUET:field_id";

/// The Arrow field of a column: optional, as every column is, with its field id at every depth.
pub(crate) fn field_of(column: &Column) -> FieldRef {
    let data_type = match &column.column_type {
        Type::Boolean => DataType::Boolean,
        Type::Int64 => DataType::Int64,
        Type::Double => DataType::Float64,
        Type::String => DataType::Utf8,
        Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some(TIME_ZONE.into())),
        Type::List(element) => DataType::List(field_of(element)),
        Type::Struct(members) => DataType::Struct(members.iter().map(field_of).collect()),
    };
    let id = HashMap::from([(FIELD_ID.to_owned(), column.id.to_string())]);
    Arc::new(Field::new(&column.name, data_type, true).with_metadata(id))
}

/// A table's schema with its Arrow fields, made once for all that write the table.
///
/// A field takes half a kilobyte for its id alone, and where there are hundreds of tables each worker has builders of each.
#[derive(Clone, Debug)]
pub struct TypedSchema {
    schema: Arc<TableSchema>,
    arrow: SchemaRef,
}

impl TypedSchema {
    /// The schema with its fields.
    #[must_use]
    pub fn new(schema: TableSchema) -> TypedSchema {
        TypedSchema { arrow: arrow_schema(&schema), schema: Arc::new(schema) }
    }

    /// The same as Arrow has it.
    #[must_use]
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }
}

impl Deref for TypedSchema {
    type Target = TableSchema;

    fn deref(&self) -> &TableSchema {
        &self.schema
    }
}

/// The Arrow schema of a table.
#[must_use]
pub fn arrow_schema(schema: &TableSchema) -> SchemaRef {
    Arc::new(Schema::new(schema.columns.iter().map(field_of).collect::<Vec<_>>()))
}
