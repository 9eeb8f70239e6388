//! A table's files one after the other: batches in, pieces of numbered files out; a file ends when it is large enough.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::compute::concat;

use super::json::JsonFile;
use super::parquet::{ParquetFile, ParquetSchema};
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
    Json(JsonFile),
}

/// Writes one table's rows (of one partition) into files.
///
/// What comes out is a function of the rows and of the calls' order: [`end_batch`](RollingFile::end_batch) and
/// [`end_row_group`](RollingFile::end_row_group) are made at counted rows, never by the memory of the moment.
pub struct RollingFile {
    recipe: Recipe,
    target: u64,
    open: Option<Open>,
    waiting: Vec<StructArray>,
    lines: Vec<u8>,
    line_rows: u64,
    next_file: u32,
}

impl RollingFile {
    /// No file yet. A file ends once it has `target` bytes, at the next end of a row group (Parquet) or batch (JSON); the first gets the
    /// number `first_file`.
    #[must_use]
    pub fn new(recipe: Recipe, target: u64, first_file: u32) -> RollingFile {
        RollingFile { recipe, target, open: None, waiting: Vec::new(), lines: Vec::new(), line_rows: 0, next_file: first_file }
    }

    /// Adds rows.
    pub fn push(&mut self, rows: Rows) {
        match rows {
            Rows::Columns(columns) => self.waiting.push(columns),
            Rows::Lines { bytes, range, rows } => {
                self.lines.extend_from_slice(bytes.get(range).unwrap_or_default());
                self.line_rows += rows;
            }
        }
    }

    /// Encodes the rows that wait.
    pub fn end_batch(&mut self, out: &mut Vec<Piece>) -> Result<()> {
        if self.line_rows > 0 {
            return self.end_lines(out);
        }
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        let Recipe::Parquet { schema, own, transfer } = &self.recipe else {
            return Err(Error::bug("columns came for a JSON file, please report it"));
        };
        let batch = batch_of(schema, own, *transfer, &waiting)?;
        let file = match &mut self.open {
            Some(Open::Parquet(file)) => file,
            open => match open.insert(Open::Parquet(Box::new(ParquetFile::create(schema, &batch)?))) {
                Open::Parquet(file) => file,
                Open::Json(_) => return Err(Error::bug("a Parquet file is none, please report it")),
            },
        };
        file.write(&batch)
    }

    fn end_lines(&mut self, out: &mut Vec<Piece>) -> Result<()> {
        let Open::Json(file) = self.open.get_or_insert_with(|| Open::Json(JsonFile::default())) else {
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
        let Some(Open::Parquet(file)) = &mut self.open else { return Ok(()) };
        file.end_row_group()?;
        if file.size() >= self.target {
            return self.finish(out);
        }
        let ready = file.take_bytes();
        if !ready.is_empty() {
            out.push(Piece::Bytes(self.next_file, ready));
        }
        Ok(())
    }

    /// Ends the file that is open, if one is.
    pub fn finish(&mut self, out: &mut Vec<Piece>) -> Result<()> {
        if !self.waiting.is_empty() || self.line_rows > 0 {
            self.end_batch(out)?;
        }
        let (rows, last) = match self.open.take() {
            None => return Ok(()),
            Some(Open::Json(file)) => (file.rows(), file.finish()),
            Some(Open::Parquet(mut file)) => {
                file.end_row_group()?;
                (file.rows(), file.finish()?)
            }
        };
        if !last.is_empty() {
            out.push(Piece::Bytes(self.next_file, last));
        }
        out.push(Piece::End { file: self.next_file, rows });
        self.next_file += 1;
        Ok(())
    }
}

fn batch_of(schema: &ParquetSchema, own: &[(usize, Role)], transfer: Transfer, waiting: &[StructArray]) -> Result<RecordBatch> {
    let rows: usize = waiting.iter().map(Array::len).sum();
    let failed = |error: arrow::error::ArrowError| Error::bug(format!("columns could not be joined: {error}, please report it"));
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.arrow().fields().len());
    for position in 0..schema.arrow().fields().len() {
        let pieces: Vec<&dyn Array> = waiting.iter().filter_map(|rows| rows.columns().get(position)).map(AsRef::as_ref).collect();
        columns.push(match pieces.as_slice() {
            [only] => arrow::array::make_array(only.to_data()),
            _ => concat(&pieces).map_err(failed)?,
        });
    }
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
    RecordBatch::try_new_with_options(Arc::clone(schema.arrow()), columns, &options).map_err(failed)
}
