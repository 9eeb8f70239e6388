//! One Parquet file while it is written: record batches in, bytes out as row groups end.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, SchemaRef, TimestampMicrosecondType};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, Encoding, Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

use crate::domain::error::{Error, Result};

/// Who wrote the file, in its footer. The form `name version x` is what readers parse for known faults of writers.
const CREATED_BY: &str = concat!("dayport version ", env!("CARGO_PKG_VERSION"));

/// Rows of a data page. The writer holds an unfinished page in eight bytes a value, for every column of every open table: with its default of
/// 20,000 rows that was a hundred megabytes on a day of ten event types.
const PAGE_ROWS: usize = 4_096;

/// A column keeps its dictionary when its first values come from no more than so many different ones, by how often two of them are equal. Above
/// it (ids, times) a dictionary costs a hash a value, outgrows its page and saves no bytes.
const DISTINCT_VALUES: usize = 40_000;

/// So many first values are looked at.
const SAMPLED_VALUES: usize = 8_192;

/// So few first values tell nothing, and get a dictionary.
const FEW_VALUES: usize = 64;

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
    writer: SerializedFileWriter<Blocks>,
    columns: ArrowRowGroupWriterFactory,
    open: Vec<ArrowColumnWriter>,
    open_rows: u64,
    rows: u64,
}

impl ParquetFile {
    /// Begins a file. `first` are its first batches, not yet written: their values decide which columns keep a dictionary.
    pub fn create(schema: &ParquetSchema, first: &[RecordBatch]) -> Result<ParquetFile> {
        let properties = Arc::new(properties(schema, first));
        let root = schema.parquet.root_schema_ptr();
        let writer = SerializedFileWriter::new(Blocks::default(), root, properties).map_err(|error| failed(&error))?;
        let columns = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(&schema.arrow));
        Ok(ParquetFile { schema: schema.clone(), writer, columns, open: Vec::new(), open_rows: 0, rows: 0 })
    }

    /// Whether a row group is open.
    #[must_use]
    pub fn has_open_row_group(&self) -> bool {
        !self.open.is_empty()
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

    /// The bytes that are final since the last call, in pieces.
    pub fn take_bytes(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(self.writer.inner_mut()).finish()
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

    /// Ends the file; its last bytes, in pieces.
    pub fn finish(mut self) -> Result<Vec<Vec<u8>>> {
        self.end_row_group()?;
        Ok(self.writer.into_inner().map_err(|error| failed(&error))?.finish())
    }
}

/// Bytes in blocks: one vector would be copied, and be twice as long as its bytes at times, while it grows by a whole row group.
#[derive(Default)]
struct Blocks {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

/// Bytes of a block.
const BLOCK: usize = 1 << 20;

impl Blocks {
    fn finish(mut self) -> Vec<Vec<u8>> {
        if !self.last.is_empty() {
            self.last.shrink_to_fit();
            self.full.push(self.last);
        }
        self.full
    }
}

impl std::io::Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.last.len() + bytes.len() > BLOCK && !self.last.is_empty() {
            self.full.push(std::mem::take(&mut self.last));
        }
        self.last.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The writer fails on what batches hold only where a batch and its schema disagree, which is ours to mend.
fn failed(error: &ParquetError) -> Error {
    Error::bug(format!("the Parquet writer refused a batch: {error}, please report it"))
}

fn properties(schema: &ParquetSchema, first: &[RecordBatch]) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::SNAPPY)
        .set_encoding(Encoding::PLAIN)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_max_row_group_row_count(None);
    let leaves: Vec<Vec<ArrayRef>> = first
        .iter()
        .map(|batch| {
            let mut leaves = Vec::new();
            batch.columns().iter().for_each(|column| collect_leaves(column, &mut leaves));
            leaves
        })
        .collect();
    for (position, descriptor) in schema.parquet.columns().iter().enumerate() {
        let path = descriptor.path().clone();
        let leaf: Vec<&ArrayRef> = leaves.iter().filter_map(|leaves| leaves.get(position)).collect();
        let has_dictionary = dictionary_pays(&leaf);
        properties = properties.set_column_dictionary_enabled(path.clone(), has_dictionary);
        if path.parts().first().is_some_and(|name| schema.indexed.contains(name)) {
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::Page);
        } else if !has_dictionary && descriptor.physical_type() == Type::BYTE_ARRAY && leaf.iter().any(|array| has_values(array))
        {
            // The least and the greatest of ids and prose rule nothing out, and each value would be compared with both. A column that begins empty
            // keeps them: that it stays so is worth knowing.
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
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

fn has_values(array: &dyn Array) -> bool {
    array.null_count() < array.len()
}

fn dictionary_pays(leaf: &[&ArrayRef]) -> bool {
    match leaf.first().map(Array::data_type) {
        Some(DataType::Utf8) => few_values(leaf.iter().flat_map(|array| array.as_string::<i32>().iter().flatten())),
        Some(DataType::Int64) => few_values(leaf.iter().flat_map(|array| array.as_primitive::<Int64Type>().iter().flatten())),
        Some(DataType::Float64) => {
            let doubles = leaf.iter().flat_map(|array| array.as_primitive::<Float64Type>().iter().flatten());
            few_values(doubles.map(f64::to_bits))
        }
        Some(DataType::Timestamp(_, _)) => {
            few_values(leaf.iter().flat_map(|array| array.as_primitive::<TimestampMicrosecondType>().iter().flatten()))
        }
        _ => false,
    }
}

/// Whether the values seem to come from few different ones.
///
/// Of n values drawn from d, about n^2 / 2d equal an earlier one (the birthday paradox). A dictionary costs memory before it has its first
/// value, so a column that begins without any gets none.
fn few_values<T: Eq + std::hash::Hash>(values: impl Iterator<Item = T>) -> bool {
    let mut different = HashSet::new();
    let mut count = 0;
    for value in values.take(SAMPLED_VALUES) {
        different.insert(value);
        count += 1;
    }
    (1..=FEW_VALUES).contains(&count) || count > 0 && count * count <= (count - different.len()) * 2 * DISTINCT_VALUES
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
            let mut file = ParquetFile::create(&schema, std::slice::from_ref(&batch)).unwrap();
            file.write(&batch).unwrap();
            file.finish().unwrap()
        };
        let all = lists(&[&[7, 7, 7, 7], &[1, 2, 3], &[7, 7, 7]]);
        assert_eq!(file(all.slice(1, 1)), file(lists(&[&[1, 2, 3]])));
    }

    #[test]
    fn a_column_has_a_dictionary_unless_its_first_values_hardly_repeat() {
        // Titles used to have none: of a thousand first rows nearly all had another of the five thousand.
        let drawn_from = |different: u64| {
            (0..1_024_u64).map(move |row| {
                let mixed = row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                (mixed ^ mixed >> 32) % different
            })
        };
        assert!(few_values(drawn_from(400)));
        assert!(few_values(drawn_from(5_600)));
        assert!(!few_values(0..1_024_u64), "ids");
        assert!(few_values(0..10_u64), "too few to tell");
        assert!(!few_values(std::iter::empty::<u64>()));
    }

    #[test]
    fn blocks_hold_the_bytes_in_order_however_they_were_written() {
        use std::io::Write;
        let all: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
        let mut blocks = Blocks::default();
        let mut rest = all.as_slice();
        for length in [1, 700_000, 3, 2_500_000, 900_000, 0, 100_000].into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, then) = rest.split_at(length.min(rest.len()));
            blocks.write_all(now).unwrap();
            rest = then;
        }
        let pieces = blocks.finish();
        assert!(pieces.len() > 3 && pieces.iter().all(|piece| !piece.is_empty()));
        assert_eq!(pieces.concat(), all);
    }
}
