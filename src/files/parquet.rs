//! One Parquet file while it is written: record batches in, bytes out as row groups end.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, SchemaRef, TimestampMicrosecondType};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

use crate::domain::error::{Error, Result};

/// Who wrote the file, in its footer. The form `name version x` is what readers parse for known faults of writers.
const CREATED_BY: &str = concat!("dayport version ", env!("CARGO_PKG_VERSION"));

/// A column keeps its dictionary when at most this share of its first values is distinct. Above it (ids, times) a dictionary costs a hash a
/// value and saves no bytes.
const DISTINCT_SHARE: f64 = 0.6;

/// The schema of all files of a table in a run, ready for both worlds.
#[derive(Clone, Debug)]
pub struct ParquetSchema {
    arrow: SchemaRef,
    parquet: Arc<SchemaDescriptor>,
    /// Top-level columns that readers cut by range: they get a page index.
    indexed: Arc<HashSet<String>>,
}

impl ParquetSchema {
    /// The schema; `indexed` names the top-level columns that get statistics a page (the time, above all).
    pub fn new(arrow: SchemaRef, indexed: impl IntoIterator<Item = String>) -> Result<ParquetSchema> {
        let parquet = ArrowSchemaConverter::new().convert(&arrow).map_err(|error| failed(&error))?;
        Ok(ParquetSchema { arrow, parquet: Arc::new(parquet), indexed: Arc::new(indexed.into_iter().collect()) })
    }

    /// The Arrow schema.
    #[must_use]
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }
}

/// An open file. Guarantees: version 1 data pages, Snappy, PLAIN, RLE and RLE_DICTIONARY alone, no Arrow schema in the footer, no row group
/// without rows; the bytes are a function of the batches and of where row groups end.
pub struct ParquetFile {
    schema: ParquetSchema,
    writer: SerializedFileWriter<Vec<u8>>,
    columns: ArrowRowGroupWriterFactory,
    open: Vec<ArrowColumnWriter>,
    open_rows: u64,
    rows: u64,
}

impl ParquetFile {
    /// Begins a file. `first` is its first batch, not yet written: its values decide which columns keep a dictionary.
    pub fn create(schema: &ParquetSchema, first: &RecordBatch) -> Result<ParquetFile> {
        let properties = Arc::new(properties(schema, first));
        let root = schema.parquet.root_schema_ptr();
        let writer = SerializedFileWriter::new(Vec::new(), root, properties).map_err(|error| failed(&error))?;
        let columns = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(&schema.arrow));
        Ok(ParquetFile { schema: schema.clone(), writer, columns, open: Vec::new(), open_rows: 0, rows: 0 })
    }

    /// Appends a batch to the open row group.
    ///
    /// Page limits are looked at between steps of 1,024 values from the start of a batch, so equal bytes need equal batches.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.open.is_empty() {
            let number = self.writer.flushed_row_groups().len();
            self.open = self.columns.create_column_writers(number).map_err(|error| failed(&error))?;
        }
        let mut writers = self.open.iter_mut();
        for (field, array) in self.schema.arrow.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, array).map_err(|error| failed(&error))? {
                let writer =
                    writers.next().ok_or_else(|| Error::bug("a batch has more leaves than its file, please report it"))?;
                writer.write(&leaf).map_err(|error| failed(&error))?;
            }
        }
        let rows = batch.num_rows() as u64;
        self.open_rows += rows;
        self.rows += rows;
        Ok(())
    }

    /// Ends the open row group, if it has rows.
    pub fn end_row_group(&mut self) -> Result<()> {
        if self.open_rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(|error| failed(&error))?;
        for column in std::mem::take(&mut self.open) {
            let chunk = column.close().map_err(|error| failed(&error))?;
            chunk.append_to_row_group(&mut group).map_err(|error| failed(&error))?;
        }
        group.close().map_err(|error| failed(&error))?;
        self.open_rows = 0;
        Ok(())
    }

    /// The bytes that are final since the last call.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(self.writer.inner_mut())
    }

    /// Bytes of the file so far, without the open row group.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    /// Rows of the file so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// What the open row group holds in memory, in bytes, as the writer estimates it.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.open.iter().map(ArrowColumnWriter::memory_size).sum()
    }

    /// Ends the file; its last bytes.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.end_row_group()?;
        self.writer.into_inner().map_err(|error| failed(&error))
    }
}

/// The writer fails on what batches hold only where a batch and its schema disagree, which is ours to mend.
fn failed(error: &ParquetError) -> Error {
    Error::bug(format!("the Parquet writer refused a batch: {error}, please report it"))
}

fn properties(schema: &ParquetSchema, first: &RecordBatch) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::SNAPPY)
        .set_encoding(Encoding::PLAIN)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(None);
    let mut leaves = Vec::new();
    first.columns().iter().for_each(|column| collect_leaves(column, &mut leaves));
    for (leaf, descriptor) in leaves.iter().zip(schema.parquet.columns()) {
        let path = descriptor.path().clone();
        properties = properties.set_column_dictionary_enabled(path.clone(), dictionary_pays(leaf));
        if path.parts().first().is_some_and(|name| schema.indexed.contains(name)) {
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::Page);
        }
    }
    properties.build()
}

/// The arrays of the leaf columns under `array`, in Parquet's order.
fn collect_leaves(array: &ArrayRef, leaves: &mut Vec<ArrayRef>) {
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().for_each(|column| collect_leaves(column, leaves)),
        DataType::List(_) => {
            // A list array that is a part of another holds that one's elements whole: only its own may decide.
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            let place = |offset: Option<&i32>| offset.and_then(|offset| usize::try_from(*offset).ok()).unwrap_or_default();
            let (start, end) = (place(offsets.first()), place(offsets.last()));
            collect_leaves(&list.values().slice(start, end - start), leaves);
        }
        _ => leaves.push(Arc::clone(array)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one batch")]
fn dictionary_pays(leaf: &ArrayRef) -> bool {
    let distinct_share = |values: usize, distinct: usize| distinct as f64 <= values as f64 * DISTINCT_SHARE;
    match leaf.data_type() {
        DataType::Utf8 => {
            let values: Vec<&str> = leaf.as_string::<i32>().iter().flatten().collect();
            let distinct: HashSet<&str> = values.iter().copied().collect();
            distinct_share(values.len(), distinct.len())
        }
        DataType::Int64 => {
            let values: Vec<i64> = leaf.as_primitive::<Int64Type>().iter().flatten().collect();
            distinct_share(values.len(), values.iter().collect::<HashSet<_>>().len())
        }
        DataType::Float64 => {
            let values: Vec<u64> = leaf.as_primitive::<Float64Type>().iter().flatten().map(f64::to_bits).collect();
            distinct_share(values.len(), values.iter().collect::<HashSet<_>>().len())
        }
        DataType::Timestamp(_, _) => {
            let values: Vec<i64> = leaf.as_primitive::<TimestampMicrosecondType>().iter().flatten().collect();
            distinct_share(values.len(), values.iter().collect::<HashSet<_>>().len())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::ListArray;
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn a_part_of_a_batch_gives_the_bytes_of_a_batch_of_its_own() {
        // A list column's dictionary used to be decided by the elements of all the rows that its array was cut from.
        let lists = |rows: &[&[i64]]| {
            let values = rows.iter().map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>()));
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(values)) as ArrayRef
        };
        let file = |list: ArrayRef| {
            let batch = RecordBatch::try_from_iter_with_nullable([("l", list, true)]).unwrap();
            let schema = ParquetSchema::new(batch.schema(), []).unwrap();
            let mut file = ParquetFile::create(&schema, &batch).unwrap();
            file.write(&batch).unwrap();
            file.finish().unwrap()
        };
        let all = lists(&[&[7, 7, 7, 7], &[1, 2, 3], &[7, 7, 7]]);
        assert_eq!(file(all.slice(1, 1)), file(lists(&[&[1, 2, 3]])));
    }
}
