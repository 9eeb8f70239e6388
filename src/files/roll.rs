//! A table's files one after the other: batches in, pieces of numbered files out; a file ends when it is large enough.

use std::io::Read;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;

use super::json::JsonFile;
use super::parquet::{ParquetFile, ParquetSchema};
use crate::columns::join::Join;
use crate::domain::error::{Error, Result};
use crate::domain::run::Transfer;
use crate::domain::schema::{Role, TableSchema};

/// Rows on their way into a file.
#[derive(Clone, Debug)]
pub enum Rows {
    /// Columns, for Parquet.
    Columns(StructArray),
    /// Whole lines, for JSON.
    Lines {
        /// The lines, each with its line feed.
        bytes: Arc<Vec<u8>>,
        /// Which part of `bytes`.
        range: std::ops::Range<usize>,
        /// How many.
        rows: u64,
    },
}

/// A piece of a table's files.
#[derive(Debug)]
pub enum Piece {
    /// The next bytes of the file of that number (from 0).
    Bytes(u32, Vec<u8>),
    /// The file is complete.
    End {
        /// Its number.
        file: u32,
        /// Its rows.
        rows: u64,
    },
}

/// How a table's files are made.
#[derive(Clone, Debug)]
pub enum Recipe {
    /// Snappy Parquet.
    Parquet {
        /// The schema of all files of the table in the run.
        schema: ParquetSchema,
        /// Which columns Dayport fills itself, by position.
        own: Arc<Vec<(usize, Role)>>,
        /// The run's transfer, for pontoon's columns.
        transfer: Transfer,
    },
    /// gzip JSON.
    Json,
}

impl Recipe {
    /// The recipe of a Parquet table.
    pub fn parquet(schema: &TableSchema, indexed: Vec<String>, transfer: Transfer) -> Result<Recipe> {
        let arrow = crate::columns::fields::arrow_schema(schema);
        let own = schema.columns.iter().enumerate().filter(|(_, column)| matches!(column.role, Role::BatchId | Role::LastSynced));
        let own = Arc::new(own.map(|(position, column)| (position, column.role)).collect());
        Ok(Recipe::Parquet { schema: ParquetSchema::new(arrow, indexed)?, own, transfer })
    }
}

enum Open {
    Parquet(Box<ParquetFile>),
    Json(Box<JsonFile>),
}

/// Writes one table's rows (of one partition) into files.
///
/// What comes out is a function of the rows and of the calls' order: [`end_batch`](RollingFile::end_batch) and
/// [`end_row_group`](RollingFile::end_row_group) are made at counted rows, never by the memory of the moment.
pub struct RollingFile {
    recipe: Recipe,
    target: u64,
    open: Option<Open>,
    waiting: Option<Join>,
    /// How many rows the last batch had: the next one is about as long.
    expected: usize,
    deferred: Deferred,
    lines: Vec<u8>,
    line_rows: u64,
    next_file: u32,
}

impl RollingFile {
    /// No file yet. A file ends once it has `target` bytes, at the next end of a row group (Parquet) or batch (JSON); the first gets the
    /// number `first_file`.
    #[must_use]
    pub fn new(recipe: Recipe, target: u64, first_file: u32) -> RollingFile {
        RollingFile {
            recipe,
            target,
            open: None,
            waiting: None,
            expected: 0,
            deferred: Deferred::default(),
            lines: Vec::new(),
            line_rows: 0,
            next_file: first_file,
        }
    }

    /// Adds rows.
    pub fn push(&mut self, rows: Rows) -> Result<()> {
        match rows {
            Rows::Columns(columns) => {
                let waiting = match &mut self.waiting {
                    Some(waiting) => waiting,
                    none => none.insert(Join::new(columns.fields(), self.expected).map_err(|error| not_joined(&error))?),
                };
                waiting.push(&columns).map_err(|error| not_joined(&error))?;
            }
            Rows::Lines { bytes, range, rows } => {
                self.lines.extend_from_slice(bytes.get(range).unwrap_or_default());
                self.line_rows += rows;
            }
        }
        Ok(())
    }

    /// Encodes the rows that wait.
    pub fn end_batch(&mut self, out: &mut Vec<Piece>) -> Result<()> {
        if self.line_rows > 0 {
            return self.end_lines(out);
        }
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        // Room that is made beforehand and stays empty for long would cost memory where there are many tables with few rows.
        self.expected = if waiting.rows() < MANY_ROWS { 0 } else { waiting.rows() };
        let Recipe::Parquet { schema, own, transfer } = &self.recipe else {
            return Err(Error::bug("columns came for a JSON file, please report it"));
        };
        let batch = batch_of(schema, own, *transfer, waiting)?;
        if let Some(Open::Parquet(file)) = &mut self.open
            && file.has_open_row_group()
        {
            return file.write(&batch);
        }
        self.deferred.push(&batch)?;
        if self.deferred.rows >= DEFERRED_ROWS { self.encode_deferred() } else { Ok(()) }
    }

    /// Opens a row group, and a file if none is open, for the batches that were put off.
    fn encode_deferred(&mut self) -> Result<()> {
        let deferred = std::mem::take(&mut self.deferred);
        let Recipe::Parquet { schema, .. } = &self.recipe else { return Ok(()) };
        if deferred.packed.is_empty() {
            return Ok(());
        }
        let file = match &mut self.open {
            Some(Open::Parquet(file)) => file,
            open => match open.insert(Open::Parquet(Box::new(ParquetFile::create(schema, &deferred.first()?)?))) {
                Open::Parquet(file) => file,
                Open::Json(_) => return Err(Error::bug("a Parquet file is none, please report it")),
            },
        };
        for batch in deferred.batches()? {
            file.write(&batch.map_err(|error| not_packed(&error))?)?;
        }
        Ok(())
    }

    fn end_lines(&mut self, out: &mut Vec<Piece>) -> Result<()> {
        let Open::Json(file) = self.open.get_or_insert_with(|| Open::Json(Box::default())) else {
            return Err(Error::bug("lines came for a Parquet file, please report it"));
        };
        file.write(&self.lines, self.line_rows)?;
        self.lines.clear();
        self.line_rows = 0;
        if file.size() >= self.target {
            return self.finish(out);
        }
        out.push(Piece::Bytes(self.next_file, file.take_bytes()));
        Ok(())
    }

    /// Ends the row group, and the file if it is large enough.
    pub fn end_row_group(&mut self, out: &mut Vec<Piece>) -> Result<()> {
        self.end_batch(out)?;
        self.encode_deferred()?;
        let Some(Open::Parquet(file)) = &mut self.open else { return Ok(()) };
        file.end_row_group()?;
        if file.size() >= self.target {
            return self.finish(out);
        }
        out.extend(file.take_bytes().into_iter().map(|bytes| Piece::Bytes(self.next_file, bytes)));
        Ok(())
    }

    /// Ends the file that is open, if one is.
    pub fn finish(&mut self, out: &mut Vec<Piece>) -> Result<()> {
        if self.waiting.is_some() || self.line_rows > 0 {
            self.end_batch(out)?;
        }
        self.encode_deferred()?;
        let (rows, last) = match self.open.take() {
            None => return Ok(()),
            Some(Open::Json(file)) => (file.rows(), vec![file.finish()]),
            Some(Open::Parquet(mut file)) => {
                file.end_row_group()?;
                (file.rows(), file.finish()?)
            }
        };
        let last = last.into_iter().filter(|bytes| !bytes.is_empty());
        out.extend(last.map(|bytes| Piece::Bytes(self.next_file, bytes)));
        out.push(Piece::End { file: self.next_file, rows });
        self.next_file += 1;
        Ok(())
    }
}

/// Batches of a row group that is not open yet, packed.
///
/// An open row group costs its writer some tens of kilobytes a column before it holds anything, which is too much for hundreds of tables
/// with a few rows each. Their batches are packed to about what they come to when they are encoded, and encoded once it pays, or when
/// the row group ends: the bytes of the file are the same.
#[derive(Default)]
struct Deferred {
    /// Arrow's IPC stream, so that the schema is said once.
    stream: Option<StreamWriter<Vec<u8>>>,
    /// Its bytes so far, a batch each, in Snappy.
    packed: Vec<Vec<u8>>,
    rows: usize,
}

/// Rows at which a row group is opened.
const DEFERRED_ROWS: usize = 8_192;
/// Rows that tell which columns want a dictionary.
const TELLING_ROWS: usize = 4_096;
/// Rows of a batch from which on the next one is expected to be as long.
const MANY_ROWS: usize = 512;

impl Deferred {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(StreamWriter::try_new(Vec::new(), batch.schema_ref()).map_err(|error| not_packed(&error))?),
        };
        stream.write(batch).map_err(|error| not_packed(&error))?;
        let plain = std::mem::take(stream.get_mut());
        let mut packed = snap::raw::Encoder::new().compress_vec(&plain).map_err(|error| not_packed(&error))?;
        packed.shrink_to_fit();
        self.packed.push(packed);
        self.rows += batch.num_rows();
        Ok(())
    }

    fn batches(&self) -> Result<StreamReader<Unpacked<'_>>> {
        let unpacked = Unpacked { packed: self.packed.iter(), plain: Vec::new(), at: 0 };
        StreamReader::try_new(unpacked, None).map_err(|error| not_packed(&error))
    }

    /// The first batches, enough to tell what the columns are like.
    fn first(&self) -> Result<Vec<RecordBatch>> {
        let mut first: Vec<RecordBatch> = Vec::new();
        let mut rows = 0;
        for batch in self.batches()? {
            let batch = batch.map_err(|error| not_packed(&error))?;
            rows += batch.num_rows();
            first.push(batch);
            if rows >= TELLING_ROWS {
                break;
            }
        }
        Ok(first)
    }
}

/// The IPC stream, unpacked as it is read.
struct Unpacked<'a> {
    packed: std::slice::Iter<'a, Vec<u8>>,
    plain: Vec<u8>,
    at: usize,
}

impl Read for Unpacked<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.plain.len() {
            let Some(packed) = self.packed.next() else { return Ok(0) };
            self.plain = snap::raw::Decoder::new().decompress_vec(packed).map_err(std::io::Error::other)?;
            self.at = 0;
        }
        let mut rest = self.plain.get(self.at..).unwrap_or_default();
        let read = rest.read(out)?;
        self.at += read;
        Ok(read)
    }
}

fn not_packed(error: &impl std::fmt::Display) -> Error {
    Error::bug(format!("a batch could not be packed: {error}, please report it"))
}

fn not_joined(error: &ArrowError) -> Error {
    Error::bug(format!("columns could not be joined: {error}, please report it"))
}

fn batch_of(schema: &ParquetSchema, own: &[(usize, Role)], transfer: Transfer, waiting: Join) -> Result<RecordBatch> {
    let rows = waiting.rows();
    let (_, mut columns, _) = waiting.finish().map_err(|error| not_joined(&error))?.into_parts();
    for (position, role) in own {
        if let Some(column) = columns.get_mut(*position) {
            *column = match role {
                Role::BatchId => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(transfer.batch_id(), rows))),
                _ => {
                    let micros = transfer.started_millis.saturating_mul(1000);
                    Arc::new(TimestampMicrosecondArray::from_value(micros, rows).with_timezone(crate::columns::fields::TIME_ZONE))
                }
            };
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema.arrow()), columns, &options).map_err(|error| not_joined(&error))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, ListArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    /// Rows `from` to `to`, some of them null, as a slice of a larger array.
    fn rows(from: i64, to: i64) -> StructArray {
        let numbers: Int64Array = (from - 3..to + 3).map(|row| (row % 7 != 0).then_some(row * 31 % 1_000)).collect();
        let texts: StringArray = (from - 3..to + 3).map(|row| (row % 5 != 0).then(|| format!("row {row}"))).collect();
        let lists = (from - 3..to + 3).map(|row| (row % 3 != 0).then(|| vec![Some(row), None, Some(row % 10)]));
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("n", Arc::new(numbers) as ArrayRef, true),
            ("t", Arc::new(texts) as ArrayRef, true),
            ("l", Arc::new(lists) as ArrayRef, true),
        ]);
        let whole = StructArray::from(batch.unwrap());
        whole.slice(3, usize::try_from(to - from).unwrap())
    }

    fn bytes_of(pieces: Vec<Piece>) -> Vec<u8> {
        let bytes = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Bytes(_, bytes) => Some(bytes),
            Piece::End { .. } => None,
        });
        bytes.collect::<Vec<_>>().concat()
    }

    /// A file of row groups of so many rows, in batches of a thousand, each pushed in pieces of `piece` rows.
    fn rolled(groups: &[i64], piece: i64) -> Vec<u8> {
        let schema = RecordBatch::from(rows(0, 1)).schema();
        let recipe = Recipe::Parquet {
            schema: ParquetSchema::new(schema, []).unwrap(),
            own: Arc::default(),
            transfer: Transfer { started_millis: 0 },
        };
        let mut file = RollingFile::new(recipe, u64::MAX, 0);
        let (mut out, mut from) = (Vec::new(), 0);
        for &group in groups {
            let end = from + group;
            while from < end {
                let batch_end = (from + 1_000).min(end);
                while from < batch_end {
                    let to = (from + piece).min(batch_end);
                    file.push(Rows::Columns(rows(from, to))).unwrap();
                    from = to;
                }
                file.end_batch(&mut out).unwrap();
            }
            file.end_row_group(&mut out).unwrap();
        }
        file.finish(&mut out).unwrap();
        bytes_of(out)
    }

    #[test]
    fn a_row_group_that_was_put_off_has_the_bytes_of_one_written_at_once() {
        let batches: Vec<RecordBatch> =
            [(0, 1_000), (1_000, 2_000), (2_000, 2_500)].map(|(from, to)| rows(from, to).into()).into();
        let schema = ParquetSchema::new(batches[0].schema(), []).unwrap();
        let mut file = ParquetFile::create(&schema, &batches).unwrap();
        for batch in &batches {
            file.write(batch).unwrap();
        }
        assert_eq!(rolled(&[2_500], 1_000), file.finish().unwrap().concat());
    }

    #[test]
    fn the_pieces_that_rows_come_in_change_no_byte() {
        // One small row group, one that is opened while it fills, and one that is put off again after it.
        let groups = [1_500, 20_000, 700];
        let whole = rolled(&groups, 1_000);
        for piece in [333, 7] {
            assert_eq!(rolled(&groups, piece), whole, "{piece}");
        }
    }
}
