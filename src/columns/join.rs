//! Columns of several pieces joined into one, as the pieces come.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Float64Builder, Int64Builder, ListArray, NullBufferBuilder, StringBuilder,
    StructArray, TimestampMicrosecondBuilder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields, Float64Type, Int64Type, TimestampMicrosecondType};
use arrow::error::ArrowError;

use super::fields::TIME_ZONE;

/// Rows of one table on their way to a batch.
///
/// What is pushed is copied, so that a hundred pieces of a row or two cost what their values do: an array by itself costs some hundred bytes
/// a column whatever is in it. Gives what arrow's `concat` would.
#[derive(Debug)]
pub struct Join {
    fields: Fields,
    columns: Vec<Joined>,
    rows: usize,
}

/// How much a join is expected to hold. More is no fault: its columns grow, which costs a copy.
#[derive(Clone, Debug, Default)]
pub struct Room {
    rows: usize,
    /// Bytes of each text column, at any depth, in order.
    texts: Vec<usize>,
}

impl Room {
    /// For as much as these rows.
    #[must_use]
    pub fn of(rows: &StructArray) -> Room {
        fn add(array: &dyn Array, texts: &mut Vec<usize>) {
            if let Some(text) = array.as_string_opt::<i32>() {
                let ends = (text.value_offsets().first(), text.value_offsets().last());
                let bytes = ends.0.zip(ends.1).and_then(|(first, last)| usize::try_from(last - first).ok());
                texts.push(bytes.unwrap_or_default());
            } else if let Some(list) = array.as_list_opt::<i32>() {
                add(list.values(), texts);
            } else if let Some(members) = array.as_struct_opt() {
                members.columns().iter().for_each(|member| add(member, texts));
            }
        }
        let mut texts = Vec::new();
        rows.columns().iter().for_each(|column| add(column, &mut texts));
        Room { rows: rows.len(), texts }
    }
}

/// A column so far.
#[derive(Debug)]
enum Joined {
    Boolean(BooleanBuilder),
    Int64(Int64Builder),
    Double(Float64Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Text(StringBuilder),
    List { field: FieldRef, offsets: Vec<i32>, nulls: NullBufferBuilder, element: Box<Joined> },
    Struct { fields: Fields, nulls: NullBufferBuilder, members: Vec<Joined>, len: usize },
}

impl Join {
    /// Nothing yet, of these columns, with that room.
    pub fn new(fields: &Fields, room: &Room) -> Result<Join, ArrowError> {
        let mut texts = room.texts.iter().copied();
        let columns =
            fields.iter().map(|field| Joined::new(field.data_type(), room.rows, &mut texts)).collect::<Result<_, _>>()?;
        Ok(Join { fields: fields.clone(), columns, rows: 0 })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends rows of the same columns.
    pub fn push(&mut self, rows: &StructArray) -> Result<(), ArrowError> {
        for (column, array) in self.columns.iter_mut().zip(rows.columns()) {
            column.push(array)?;
        }
        self.rows += rows.len();
        Ok(())
    }

    /// The rows.
    pub fn finish(self) -> Result<StructArray, ArrowError> {
        let columns = self.columns.into_iter().map(Joined::finish).collect::<Result<Vec<_>, _>>()?;
        StructArray::try_new_with_length(self.fields, columns, None, self.rows)
    }
}

fn refused(array: &dyn Array) -> ArrowError {
    ArrowError::SchemaError(format!("a piece has a column of type {}", array.data_type()))
}

fn append_nulls(nulls: &mut NullBufferBuilder, array: &dyn Array) {
    match array.nulls() {
        Some(buffer) => nulls.append_buffer(buffer),
        None => nulls.append_n_non_nulls(array.len()),
    }
}

impl Joined {
    fn new(data_type: &DataType, rows: usize, texts: &mut impl Iterator<Item = usize>) -> Result<Joined, ArrowError> {
        Ok(match data_type {
            DataType::Boolean => Joined::Boolean(BooleanBuilder::with_capacity(rows)),
            DataType::Int64 => Joined::Int64(Int64Builder::with_capacity(rows)),
            DataType::Float64 => Joined::Double(Float64Builder::with_capacity(rows)),
            DataType::Timestamp(_, _) => {
                Joined::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows).with_timezone(TIME_ZONE))
            }
            DataType::Utf8 => Joined::Text(StringBuilder::with_capacity(rows, texts.next().unwrap_or_default())),
            DataType::List(field) => {
                let mut offsets = Vec::with_capacity(rows + 1);
                offsets.push(0);
                let element = Box::new(Joined::new(field.data_type(), 0, texts)?);
                Joined::List { field: field.clone(), offsets, nulls: NullBufferBuilder::new(rows), element }
            }
            DataType::Struct(fields) => {
                let members = fields.iter().map(|field| Joined::new(field.data_type(), rows, texts)).collect::<Result<_, _>>()?;
                Joined::Struct { fields: fields.clone(), nulls: NullBufferBuilder::new(rows), members, len: 0 }
            }
            other => return Err(ArrowError::SchemaError(format!("no column is of type {other}"))),
        })
    }

    fn push(&mut self, array: &ArrayRef) -> Result<(), ArrowError> {
        match self {
            Joined::Boolean(builder) => builder.append_array(array.as_boolean_opt().ok_or_else(|| refused(array))?),
            Joined::Int64(builder) => builder.append_array(array.as_primitive_opt::<Int64Type>().ok_or_else(|| refused(array))?),
            Joined::Double(builder) => {
                builder.append_array(array.as_primitive_opt::<Float64Type>().ok_or_else(|| refused(array))?);
            }
            Joined::Timestamp(builder) => {
                builder.append_array(array.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(|| refused(array))?);
            }
            Joined::Text(builder) => builder.append_array(array.as_string_opt::<i32>().ok_or_else(|| refused(array))?)?,
            Joined::List { offsets, nulls, element, .. } => {
                let list = array.as_list_opt::<i32>().ok_or_else(|| refused(array))?;
                let own = list.value_offsets();
                let (Some(&first), Some(&last)) = (own.first(), own.last()) else { return Ok(()) };
                let base = offsets.last().copied().unwrap_or_default();
                if base.checked_add(last - first).is_none() {
                    return Err(ArrowError::OffsetOverflowError(offsets.len()));
                }
                offsets.extend(own.iter().skip(1).map(|offset| offset - first + base));
                append_nulls(nulls, list);
                let place = |offset: i32| usize::try_from(offset).unwrap_or_default();
                element.push(&list.values().slice(place(first), place(last - first)))?;
            }
            Joined::Struct { nulls, members, len, .. } => {
                let rows = array.as_struct_opt().ok_or_else(|| refused(array))?;
                for (member, column) in members.iter_mut().zip(rows.columns()) {
                    member.push(column)?;
                }
                append_nulls(nulls, rows);
                *len += rows.len();
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Joined::Boolean(mut builder) => Arc::new(builder.finish()),
            Joined::Int64(mut builder) => Arc::new(builder.finish()),
            Joined::Double(mut builder) => Arc::new(builder.finish()),
            Joined::Timestamp(mut builder) => Arc::new(builder.finish()),
            Joined::Text(mut builder) => Arc::new(builder.finish()),
            Joined::List { field, offsets, mut nulls, element } => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                Arc::new(ListArray::try_new(field, offsets, element.finish()?, nulls.finish())?)
            }
            Joined::Struct { fields, mut nulls, members, len } => {
                let members = members.into_iter().map(Joined::finish).collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new_with_length(fields, members, nulls.finish(), len)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BooleanArray, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
    use arrow::compute::concat;
    use arrow::datatypes::Field;

    use super::*;

    fn rows(count: i64) -> StructArray {
        let some = |row: i64, of: i64| (row % of != 0).then_some(row);
        let numbers: ArrayRef = Arc::new((0..count).map(|row| some(row, 3)).collect::<Int64Array>());
        let doubles: ArrayRef = Arc::new(
            (0..count).map(|row| some(row, 5).map(|row| f64::from(i32::try_from(row).unwrap()) / 4.0)).collect::<Float64Array>(),
        );
        let flags: ArrayRef = Arc::new((0..count).map(|row| some(row, 4).map(|row| row % 2 == 0)).collect::<BooleanArray>());
        let texts: ArrayRef =
            Arc::new((0..count).map(|row| some(row, 7).map(|row| format!("text {row} é"))).collect::<StringArray>());
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(0..count).with_timezone(TIME_ZONE));
        let lists = (0..count).map(|row| some(row, 2).map(|row| (0..row % 4).map(|at| some(at, 3)).collect::<Vec<_>>()));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        let members =
            Fields::from(vec![Field::new("n", DataType::Int64, true), Field::new("l", lists.data_type().clone(), true)]);
        let nulls = arrow::buffer::NullBuffer::from((0..count).map(|row| row % 6 != 0).collect::<Vec<_>>());
        let inner: ArrayRef = Arc::new(StructArray::new(members, vec![Arc::clone(&numbers), Arc::clone(&lists)], Some(nulls)));
        let columns = [("n", numbers), ("d", doubles), ("b", flags), ("t", texts), ("w", times), ("l", lists), ("s", inner)];
        let fields: Fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
        StructArray::new(fields, columns.into_iter().map(|(_, column)| column).collect(), None)
    }

    #[test]
    fn pieces_of_any_length_give_what_concat_gives() {
        let whole = rows(100);
        for length in [1, 3, 40, 100] {
            let pieces: Vec<StructArray> =
                (0..100).step_by(length).map(|from| whole.slice(from, length.min(100 - from))).collect();
            let mut join = Join::new(whole.fields(), &Room::default()).unwrap();
            for piece in &pieces {
                join.push(piece).unwrap();
            }
            assert_eq!(join.rows(), 100);
            let by_concat = concat(&pieces.iter().map(|piece| piece as &dyn Array).collect::<Vec<_>>()).unwrap();
            assert_eq!(&join.finish().unwrap(), by_concat.as_struct(), "{length}");
        }
    }

    #[test]
    fn room_is_made_for_what_each_text_column_holds_and_changes_nothing() {
        let whole = rows(100);
        let room = Room::of(&whole.slice(10, 60));
        let text: usize =
            whole.column_by_name("t").unwrap().as_string::<i32>().iter().skip(10).take(60).flatten().map(str::len).sum();
        assert_eq!((room.rows, room.texts.as_slice()), (60, [text].as_slice()));
        let mut join = Join::new(whole.fields(), &room).unwrap();
        join.push(&whole).unwrap();
        assert_eq!(join.finish().unwrap(), whole);
    }

    #[test]
    fn a_piece_of_other_columns_is_refused() {
        let mut join = Join::new(rows(1).fields(), &Room::default()).unwrap();
        let other: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let other = StructArray::from(vec![(Arc::new(Field::new("n", DataType::Utf8, true)), other)]);
        assert!(join.push(&other).is_err());
    }
}
