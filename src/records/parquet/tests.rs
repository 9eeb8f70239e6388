//! Whole objects, cut, changed and made up: rows or damage, never anything else.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, GzipLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

use super::*;

struct InMemory(Vec<u8>);

impl Source for InMemory {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        into.copy_from_slice(&self.0[start..start + into.len()]);
        Ok(())
    }
}

fn limits() -> RowLimits {
    RowLimits {
        decode: DecodeLimits { max_object_bytes: 1 << 20, max_ratio: 1000 },
        max_record_bytes: 1 << 10,
        chunk_bytes: 64,
        memory: 8 << 20,
    }
}

/// Every line of an object, or its damage.
fn read(bytes: &[u8], limits: RowLimits) -> Result<Vec<String>, Damage> {
    let damage = |fault| match fault {
        Fault::Damage(damage) => damage,
        Fault::Source(error) => panic!("{error}"),
    };
    let mut reader = RowReader::open(Arc::new(InMemory(bytes.to_vec())), limits).map_err(damage)?;
    let mut lines = Vec::new();
    let mut offset = 0;
    loop {
        let chunk = reader.next_chunk().map_err(damage)?;
        assert_eq!((chunk.first_row, chunk.offset), (lines.len() as u64 + 1, offset));
        offset += chunk.bytes.len() as u64;
        lines.extend(chunk.bytes.split_terminator(|byte| *byte == b'\n').map(|line| String::from_utf8(line.to_vec()).unwrap()));
        if let Some(long) = chunk.long {
            offset += long.length + 1;
            lines.push(format!("{} bytes", long.length));
        }
        if chunk.last {
            return Ok(lines);
        }
    }
}

trait Lines {
    fn split_terminator(&self, at: impl Fn(&u8) -> bool) -> impl Iterator<Item = &[u8]>;
}

impl Lines for Vec<u8> {
    fn split_terminator(&self, at: impl Fn(&u8) -> bool) -> impl Iterator<Item = &[u8]> {
        self.split(at).filter(|line| !line.is_empty())
    }
}

fn batch() -> RecordBatch {
    let texts: ArrayRef = Arc::new((0..40).map(|n| (n % 5 > 0).then(|| format!("text {n}"))).collect::<StringArray>());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40));
    let element = Arc::new(Field::new_list_field(DataType::Int64, true));
    let lists: ArrayRef = Arc::new(ListArray::new(element, OffsetBuffer::from_lengths([1; 40]), Arc::clone(&numbers), None));
    RecordBatch::try_from_iter([("t", texts), ("n", numbers), ("l", lists)]).unwrap()
}

fn written(batch: &RecordBatch, set: impl FnOnce(WriterPropertiesBuilder) -> WriterPropertiesBuilder) -> Vec<u8> {
    let builder = WriterProperties::builder()
        .set_max_row_group_row_count(Some(16))
        .set_data_page_row_count_limit(4)
        .set_write_batch_size(4);
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(set(builder).build())).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn rows_come_in_order_whatever_the_chunks() {
    let bytes = written(&batch(), |as_it_is| as_it_is);
    let lines = read(&bytes, limits()).unwrap();
    assert_eq!(lines.len(), 40);
    assert_eq!((lines[0].as_str(), lines[39].as_str()), (r#"{"t":null,"n":0,"l":[0]}"#, r#"{"t":"text 39","n":39,"l":[39]}"#));
    assert_eq!(read(&bytes, RowLimits { chunk_bytes: 1, ..limits() }).unwrap(), lines);
    assert_eq!(read(&bytes, RowLimits { chunk_bytes: 1 << 20, ..limits() }).unwrap(), lines);
    let long = read(&bytes, RowLimits { max_record_bytes: 30, ..limits() }).unwrap();
    assert_eq!((long[0].as_str(), long[1].as_str(), long[39].as_str()), (lines[0].as_str(), lines[1].as_str(), "31 bytes"));
}

#[test]
fn an_object_that_is_cut_anywhere_is_damaged() {
    let bytes = written(&batch(), |as_it_is| as_it_is);
    for cut in 0..bytes.len() {
        assert!(read(&bytes[..cut], limits()).is_err(), "{cut}");
    }
}

#[test]
fn a_byte_that_is_changed_anywhere_gives_rows_or_damage_and_nothing_worse() {
    let kinds: [Vec<u8>; 3] = [
        written(&batch(), |builder| builder.set_compression(Compression::GZIP(GzipLevel::default()))),
        written(&batch(), |builder| {
            builder.set_dictionary_enabled(false).set_column_encoding("t".into(), Encoding::DELTA_BYTE_ARRAY)
        }),
        written(&batch(), |builder| builder.set_compression(Compression::SNAPPY)),
    ];
    let mut damaged = 0;
    for bytes in &kinds {
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= [0x01, 0x80, 0xFF][at % 3];
            damaged += u32::from(read(&changed, limits()).is_err());
        }
    }
    assert!(damaged > 1_000, "{damaged}");
}

#[test]
fn claims_over_the_memory_or_beside_the_object_are_refused_before_they_are_believed() {
    let bytes = written(&batch(), |as_it_is| as_it_is);
    let said = |bytes: &[u8], limits| read(bytes, limits).unwrap_err().to_string();
    assert!(said(&bytes, RowLimits { memory: 1 << 9, ..limits() }).contains("raise `run.memory_budget`"));
    let ratio = DecodeLimits { max_object_bytes: 100, max_ratio: 1000 };
    assert!(said(&bytes, RowLimits { decode: ratio, ..limits() }).contains("`staging.max_object_bytes`"));
    let mut footer = bytes.clone();
    let at = bytes.len() - 8;
    footer[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(said(&footer, limits()).contains("a footer of 4294967295 bytes"));
    footer[at..at + 4].copy_from_slice(&(1_u32 << 23).to_le_bytes());
    assert!(said(&footer, limits()).contains("ends in the middle"));
}

#[test]
fn a_row_that_holds_every_value_of_a_large_list_is_refused_by_what_it_would_take() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![7; 600_000]));
    let element = Arc::new(Field::new_list_field(DataType::Int64, true));
    let lists: ArrayRef = Arc::new(ListArray::new(element, OffsetBuffer::from_lengths([600_000]), values, None));
    let bytes = written(&RecordBatch::try_from_iter([("l", lists)]).unwrap(), |as_it_is| as_it_is);
    assert!(bytes.len() < 100_000, "a hostile object is small");
    let error = read(&bytes, limits()).unwrap_err().to_string();
    assert!(error.contains("may take") && error.contains("write smaller row groups"), "{error}");
    let enough = RowLimits { memory: 64 << 20, ..limits() };
    assert_eq!(
        read(&bytes, enough).unwrap_err(),
        Damage::OverObjectBytes { max_object_bytes: 1 << 20 },
        "its text is over the limit"
    );
}
