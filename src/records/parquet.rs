//! Staged Parquet: each row becomes a line of JSON, in bounded memory, every claim of the file checked before it is believed.

mod compact;
mod pages;
mod text;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{LogicalType, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::SchemaDescriptor;

use self::compact::{Met, Walk};
use self::text::{Leaf, Rows, Text};
use super::decode::{Cap, Damage, DecodeLimits};

/// A footer of more bytes describes more column chunks than one object should have.
const MOST_FOOTER_BYTES: u64 = 16 << 20;
/// Levels of a schema; a list has three.
const MOST_SCHEMA_LEVELS: usize = 200;
/// What stands at the end of a file: the footer's length and the magic number.
const TAIL_BYTES: u64 = 8;

/// The bytes of a whole object, wherever they are.
pub trait Source: Send + Sync {
    /// How many there are.
    fn length(&self) -> u64;

    /// Fills `into` with those from `offset` on.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

/// What reading an object may take.
#[derive(Clone, Copy, Debug)]
pub struct RowLimits {
    /// As for any other object, held against the rows' text.
    pub decode: DecodeLimits,
    /// `staging.max_record_bytes`.
    pub max_record_bytes: usize,
    /// About how many bytes of text a chunk has.
    pub chunk_bytes: usize,
    /// Bytes that the pages of a row group may take at once.
    pub memory: u64,
}

/// Why an object can't be read on.
#[derive(Debug)]
pub enum Fault {
    /// The object is damaged, or over a limit.
    Damage(Damage),
    /// Its bytes could not be read.
    Source(io::Error),
}

/// A chunk of rows.
#[derive(Debug, Default)]
pub struct RowChunk {
    /// Lines of JSON, a line for each row.
    pub bytes: Vec<u8>,
    /// The first row's number, from 1.
    pub first_row: u64,
    /// Where the first row begins in the text of all rows.
    pub offset: u64,
    /// Stands for one row alone, whose text is over `max_record_bytes`; `bytes` are empty then.
    pub long: Option<LongRow>,
    /// Whether it is the object's last. Each object ends in one such chunk, which is empty.
    pub last: bool,
}

/// A row whose text is over `max_record_bytes`.
#[derive(Debug)]
pub struct LongRow {
    /// The first `max_record_bytes` of its text.
    pub head: Vec<u8>,
    /// The length of all of it.
    pub length: u64,
    /// The SHA-256 of all of it.
    pub sha256: [u8; 32],
}

/// The rows of one Parquet object.
///
/// A row is a line of JSON of its columns, in the file's order, null ones too: timestamps as RFC 3339 in UTC with microseconds (cut), dates as
/// `2026-01-15`, times of day as `10:00:00.000000`, decimals as numbers with all digits, floats as the exact double's shortest text, NaN and infinities
/// as null, binary as base64, a UUID as its usual text, maps as objects. A timestamp without a zone is UTC.
///
/// Memory: the pages of one row group that are open at once, within [`RowLimits::memory`] by what their headers claim; a batch of at most 1,024
/// rows; a chunk of text and one row.
pub struct RowReader {
    file: File,
    metadata: ArrowReaderMetadata,
    leaves: Vec<Leaf>,
    limits: RowLimits,
    cap: Cap,
    next_group: usize,
    group: Option<ParquetRecordBatchReader>,
    left_in_group: u64,
    batch: Option<(StructArray, usize)>,
    row: u64,
    offset: u64,
    made: u64,
    ready: VecDeque<RowChunk>,
}

impl fmt::Debug for RowReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowReader").field("row", &self.row).finish_non_exhaustive()
    }
}

impl RowReader {
    /// Begins to read an object of `source.length()` bytes.
    pub fn open(source: Arc<dyn Source>, limits: RowLimits) -> Result<RowReader, Fault> {
        let file = File { source, failure: Arc::default() };
        check_footer(&file)?;
        let cap = Cap::new(limits.decode, file.len());
        let (metadata, leaves) = file.guarded(|| {
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            let inferred = ArrowReaderMetadata::load(&file, options.clone())?;
            let descriptor = inferred.parquet_schema();
            let hints = hinted(inferred.schema().fields(), &mut (0..), descriptor);
            let options = options.with_schema(Arc::new(Schema::new(hints)));
            let leaves = (0..descriptor.num_columns()).map(|at| leaf_of(descriptor, at)).collect();
            Ok((ArrowReaderMetadata::try_new(Arc::clone(inferred.metadata()), options)?, leaves))
        })?;
        if let Some(column) = text::first_without_form(metadata.schema().fields()) {
            return Err(damage(format!(
                "has the column `{}`, whose type has no form in JSON, cast it to text",
                column.escape_debug()
            )));
        }
        Ok(RowReader {
            file,
            metadata,
            leaves,
            limits,
            cap,
            next_group: 0,
            group: None,
            left_in_group: 0,
            batch: None,
            row: 0,
            offset: 0,
            made: 0,
            ready: VecDeque::new(),
        })
    }

    /// The next chunk; after the last one it is that again.
    pub fn next_chunk(&mut self) -> Result<RowChunk, Fault> {
        if let Some(chunk) = self.ready.pop_front() {
            return Ok(chunk);
        }
        let mut text = Text::new(self.limits.max_record_bytes, self.cap.bytes().saturating_sub(self.made));
        let mut escaped = Vec::new();
        let (first_row, offset) = (self.row + 1, self.offset);
        let mut is_last = false;
        while text.bytes.len() < self.limits.chunk_bytes {
            let Some((columns, mut at)) = self.take_batch()? else {
                is_last = text.bytes.is_empty();
                break;
            };
            let rows = Rows::new(&columns, &self.leaves).ok_or_else(|| damage("has a type without a form in JSON".to_owned()))?;
            while at < columns.len() && text.bytes.len() < self.limits.chunk_bytes && self.ready.is_empty() {
                let start = text.bytes.len();
                text.begin_row();
                rows.write(at, &mut text, &mut escaped);
                if text.is_over() {
                    return Err(Fault::Damage(self.cap.over()));
                }
                at += 1;
                self.row += 1;
                let long = text.end_row();
                let length = long.as_ref().map_or((text.bytes.len() - start) as u64, |long| long.length);
                if let Some(long) = long {
                    let head = text.bytes.split_off(start);
                    let row = LongRow { head, length, sha256: long.sha256 };
                    self.ready.push_back(RowChunk {
                        first_row: self.row,
                        offset: self.offset,
                        long: Some(row),
                        ..RowChunk::default()
                    });
                } else {
                    text.bytes.push(b'\n');
                }
                self.offset += length + 1;
                self.made += length;
            }
            drop(rows);
            if at < columns.len() {
                self.batch = Some((columns, at));
            }
            if !self.ready.is_empty() {
                break;
            }
        }
        if text.bytes.is_empty()
            && let Some(long) = self.ready.pop_front()
        {
            return Ok(long);
        }
        Ok(RowChunk { bytes: text.bytes, first_row, offset, long: None, last: is_last })
    }

    /// The batch under way and the row in it that comes next, or the next batch.
    fn take_batch(&mut self) -> Result<Option<(StructArray, usize)>, Fault> {
        if let Some(batch) = self.batch.take() {
            return Ok(Some(batch));
        }
        loop {
            let Some(group) = &mut self.group else {
                if !self.begin_group()? {
                    return Ok(None);
                }
                continue;
            };
            let next = self.file.guarded(|| group.next().transpose().map_err(ParquetError::from))?;
            match next {
                Some(batch) if batch.num_rows() > 0 => {
                    let rows = batch.num_rows() as u64;
                    self.left_in_group = self.left_in_group.checked_sub(rows).ok_or_else(|| damage(miscounted()))?;
                    return Ok(Some((StructArray::from(batch), 0)));
                }
                Some(_) => {}
                None if self.left_in_group > 0 => return Err(damage(miscounted())),
                None => self.group = None,
            }
        }
    }

    /// Opens the next row group that has rows, if there is one.
    fn begin_group(&mut self) -> Result<bool, Fault> {
        let metadata = Arc::clone(self.metadata.metadata());
        while let Some(group) = metadata.row_groups().get(self.next_group) {
            let number = self.next_group;
            self.next_group += 1;
            let rows = u64::try_from(group.num_rows()).map_err(|_| damage(miscounted()))?;
            if rows == 0 {
                continue;
            }
            let batch_rows = pages::check(&self.file, group, self.limits.memory)?;
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone());
            let builder = builder.with_row_groups(vec![number]).with_batch_size(batch_rows);
            self.group = Some(self.file.guarded(|| builder.build())?);
            self.left_in_group = rows;
            return Ok(true);
        }
        Ok(false)
    }
}

fn miscounted() -> String {
    "has other numbers of rows than it says, write it again".to_owned()
}

fn damage(what: String) -> Fault {
    Fault::Damage(Damage::Parquet(what))
}

/// The object, in the form that the Parquet reader wants.
#[derive(Clone)]
struct File {
    source: Arc<dyn Source>,
    /// Why the source failed, if it did: the reader's errors are the object's faults otherwise.
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.source.length()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.source.read_at(offset, into).map_err(|error| {
            let kind = error.kind();
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            kind.into()
        })
    }

    /// So many bytes from `offset` on.
    fn bytes_at(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        // Looked at before room is made for it.
        if offset.checked_add(length).is_none_or(|end| end > self.source.length()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::UnexpectedEof)?];
        self.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// What the reader's own code makes of the object. It has been known to panic on damaged files; that is damage, too.
    fn guarded<T>(&self, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, Fault> {
        let done = catch_unwind(AssertUnwindSafe(read));
        if let Some(failure) = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(Fault::Source(failure));
        }
        match done {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(damage(format!("can't be read ({}), write it again", one_line(&error.to_string())))),
            Err(_) => Err(damage("can't be read, write it again".to_owned())),
        }
    }
}

/// The words of a library, short and without what a terminal would obey.
fn one_line(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl Length for File {
    fn len(&self) -> u64 {
        self.source.length()
    }
}

impl ChunkReader for File {
    type T = BufReader<Tail>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<BufReader<Tail>> {
        Ok(BufReader::with_capacity(1 << 10, Tail { file: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        Ok(self.bytes_at(start, length as u64)?.into())
    }
}

/// The object's bytes from a place on.
struct Tail {
    file: File,
    at: u64,
}

impl Read for Tail {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.len().saturating_sub(self.at)).unwrap_or(usize::MAX);
        let most = left.min(into.len());
        let Some(room) = into.get_mut(..most) else { return Ok(0) };
        self.file.read_at(self.at, room)?;
        self.at += most as u64;
        Ok(most)
    }
}

/// Checks the footer: a reader makes room for what its lists claim, and follows its schema by recursion.
fn check_footer(file: &File) -> Result<(), Fault> {
    let cut = || damage("ends in the middle, stage the whole object again".to_owned());
    let read = |offset, length| file.bytes_at(offset, length).map_err(|error| source_fault(file, &error).unwrap_or_else(cut));
    let size = file.len();
    let tail_at = size.checked_sub(TAIL_BYTES).filter(|at| *at >= 4).ok_or_else(cut)?;
    let tail = read(tail_at, TAIL_BYTES)?;
    let (length, magic) = tail.split_first_chunk::<4>().ok_or_else(cut)?;
    match magic {
        b"PAR1" => {}
        b"PARE" => return Err(damage("is encrypted, stage it without encryption".to_owned())),
        _ => return Err(cut()),
    }
    let length = u64::from(u32::from_le_bytes(*length));
    if length > MOST_FOOTER_BYTES {
        return Err(damage(format!("has a footer of {length} bytes, write fewer columns or row groups into one object")));
    }
    let footer_at = tail_at.checked_sub(length).filter(|at| *at >= 4).ok_or_else(cut)?;
    let footer = read(footer_at, length)?;
    let mut schema = SchemaLevels::default();
    // FileMetaData: 2 is the schema's list of elements, 2.5 the number of one's children.
    let walked = Walk::new(&footer).whole_struct(&mut |path, met| match (path, met) {
        ([2, 5], Met::Integer(children)) => schema.children = children,
        ([2], Met::End) => schema.end_element(),
        _ => {}
    });
    if walked.is_none() || schema.is_bad {
        return Err(damage("has a footer that is no Parquet footer, or a schema too deep, write it again".to_owned()));
    }
    Ok(())
}

fn source_fault(file: &File, _: &io::Error) -> Option<Fault> {
    file.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map(Fault::Source)
}

/// How deep a schema goes, whose elements come with the number of their children, parents first.
#[derive(Default)]
struct SchemaLevels {
    open: Vec<i64>,
    children: i64,
    is_bad: bool,
}

impl SchemaLevels {
    fn end_element(&mut self) {
        let children = std::mem::take(&mut self.children);
        self.is_bad |= children < 0 || self.open.len() >= MOST_SCHEMA_LEVELS;
        if self.is_bad {
            return;
        }
        if let Some(siblings) = self.open.last_mut() {
            *siblings -= 1;
        }
        self.open.push(children);
        while self.open.last() == Some(&0) {
            self.open.pop();
        }
    }
}

/// The types to read as: texts and bytes as views into their pages, so that a value which many rows share is there once; the old 96-bit
/// timestamps in microseconds, which hold every year of theirs.
fn hinted(fields: &Fields, leaves: &mut impl Iterator<Item = usize>, descriptor: &SchemaDescriptor) -> Fields {
    let mut each = |field: &FieldRef| -> FieldRef {
        let hint = hint(field.data_type(), leaves, descriptor);
        Arc::new(Field::clone(field).with_data_type(hint))
    };
    fields.iter().map(&mut each).collect()
}

fn hint(of: &DataType, leaves: &mut dyn Iterator<Item = usize>, descriptor: &SchemaDescriptor) -> DataType {
    let mut leaves = leaves;
    let mut element = |field: &FieldRef| {
        let hint = hint(field.data_type(), &mut leaves, descriptor);
        Arc::new(Field::clone(field).with_data_type(hint))
    };
    match of {
        DataType::Struct(members) => DataType::Struct(members.iter().map(element).collect()),
        DataType::List(field) => DataType::List(element(field)),
        DataType::Map(field, sorted) => DataType::Map(element(field), *sorted),
        leaf => {
            let physical =
                leaves.next().filter(|at| *at < descriptor.num_columns()).map(|at| descriptor.column(at).physical_type());
            match leaf {
                DataType::Utf8 => DataType::Utf8View,
                DataType::Binary => DataType::BinaryView,
                DataType::Timestamp(TimeUnit::Nanosecond, None) if physical == Some(Physical::INT96) => {
                    DataType::Timestamp(TimeUnit::Microsecond, None)
                }
                other => other.clone(),
            }
        }
    }
}

fn leaf_of(descriptor: &SchemaDescriptor, at: usize) -> Leaf {
    match descriptor.column(at).logical_type_ref() {
        Some(LogicalType::Uuid) => Leaf::Uuid,
        _ => Leaf::Usual,
    }
}

#[cfg(test)]
mod tests;
