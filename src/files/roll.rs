//! A table's files one after the other: batches in, pieces of numbered files out; a file ends when it is large enough.

use std::io::Read;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;

use super::json::JsonFile;
use super::parquet::{ParquetFile, ParquetSchema};
use crate::columns::fields::{TIME_ZONE, TypedSchema};
use crate::columns::join::{Join, Room};
use crate::columns::texts::TextShredder;
use crate::domain::error::{Error, Result};
use crate::domain::run::Transfer;
use crate::domain::schema::Role;

/// Rows on their way into a file.
#[derive(Clone, Debug)]
pub enum Rows {
    /// Columns, for Parquet.
    Columns(StructArray),
    /// Whole lines, for JSON; for Parquet, such as a shredder of the table's schema took before.
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

/// How a table's Parquet files are made.
#[derive(Clone, Debug)]
pub struct ParquetRecipe {
    /// The schema of all files of the table in the run.
    schema: TypedSchema,
    /// The same as the writer has it.
    writer: ParquetSchema,
    /// Which columns Dayport fills itself, by position.
    own: Arc<Vec<(usize, Role)>>,
    /// The run's transfer, for pontoon's columns.
    transfer: Transfer,
}

/// How a table's files are made.
#[derive(Clone, Debug)]
pub enum Recipe {
    /// Snappy Parquet.
    Parquet(ParquetRecipe),
    /// gzip JSON.
    Json,
}

impl Recipe {
    /// The recipe of a Parquet table.
    pub fn parquet(schema: &TypedSchema, indexed: Vec<String>, transfer: Transfer) -> Result<Recipe> {
        let writer = ParquetSchema::new(Arc::clone(schema.arrow()), indexed)?;
        let own = schema.columns.iter().enumerate().filter(|(_, column)| matches!(column.role, Role::BatchId | Role::LastSynced));
        let own = Arc::new(own.map(|(position, column)| (position, column.role)).collect());
        Ok(Recipe::Parquet(ParquetRecipe { schema: schema.clone(), writer, own, transfer }))
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
    /// For as much as the last batch: the next one is about as long.
    room: Room,
    packed: Packed,
    lines: Vec<u8>,
    line_rows: u64,
    /// Makes columns of lines while both come.
    texts: Option<Box<TextShredder>>,
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
            room: Room::default(),
            packed: Packed::default(),
            lines: Vec::new(),
            line_rows: 0,
            texts: None,
            next_file: first_file,
        }
    }

    /// Adds rows.
    pub fn push(&mut self, rows: Rows) -> Result<()> {
        match rows {
            Rows::Columns(columns) => {
                // What came before it comes before it.
                self.join_lines()?;
                self.join(&columns)?;
            }
            Rows::Lines { bytes, range, rows } => {
                self.lines.extend_from_slice(bytes.get(range).unwrap_or_default());
                self.line_rows += rows;
            }
        }
        Ok(())
    }

    fn join(&mut self, columns: &StructArray) -> Result<()> {
        let waiting = match &mut self.waiting {
            Some(waiting) => waiting,
            none => none.insert(Join::new(columns.fields(), &self.room).map_err(|error| not_joined(&error))?),
        };
        waiting.push(columns).map_err(|error| not_joined(&error))
    }

    /// Makes columns of the lines that wait, behind the columns that do.
    fn join_lines(&mut self) -> Result<()> {
        if let Recipe::Parquet(recipe) = &self.recipe
            && self.line_rows > 0
        {
            let texts = self.texts.get_or_insert_with(|| Box::new(TextShredder::new(&recipe.schema)));
            let columns = texts.push(&self.lines).and_then(|()| texts.finish()).map_err(|error| not_joined(&error))?;
            self.lines.clear();
            self.line_rows = 0;
            self.join(&columns.rows)?;
        }
        Ok(())
    }

    /// The columns of all rows that wait.
    fn take_waiting(&mut self) -> Result<Option<StructArray>> {
        self.join_lines()?;
        let Some(waiting) = self.waiting.take() else { return Ok(None) };
        let rows = waiting.finish().map_err(|error| not_joined(&error))?;
        // Room that is made beforehand and stays empty for long would cost memory where there are many tables with few rows.
        self.room = if rows.len() < MANY_ROWS { Room::default() } else { Room::of(&rows) };
        Ok(Some(rows))
    }

    /// Packs the rows that wait, without ending their batch: what comes out is the same. JSON's lines are left as they are.
    pub fn pack(&mut self) -> Result<()> {
        if matches!(self.recipe, Recipe::Json) {
            return Ok(());
        }
        if self.waiting.is_none() {
            if self.line_rows > 0 {
                self.packed.push_lines(&std::mem::take(&mut self.lines), self.line_rows)?;
                self.line_rows = 0;
            }
        } else if let Some(rows) = self.take_waiting()? {
            self.packed.push(rows)?;
        }
        Ok(())
    }

    /// Ends a batch of the rows that wait.
    pub fn end_batch(&mut self, out: &mut Vec<Piece>) -> Result<()> {
        if matches!(self.recipe, Recipe::Json) {
            return if self.line_rows > 0 { self.end_lines(out) } else { Ok(()) };
        }
        let has_packed = self.packed.in_batch > 0;
        if let Some(Open::Parquet(file)) = &self.open
            && file.has_open_row_group()
            && !has_packed
        {
            let rows = self.take_waiting()?;
            if let (Some(rows), Recipe::Parquet(recipe), Some(Open::Parquet(file))) = (rows, &self.recipe, &mut self.open) {
                file.write(&recipe.batch(rows)?)?;
            }
            return Ok(());
        }
        self.pack()?;
        self.packed.end_batch();
        let is_open = matches!(&self.open, Some(Open::Parquet(file)) if file.has_open_row_group());
        if is_open || self.packed.rows >= DEFERRED_ROWS { self.encode_packed() } else { Ok(()) }
    }

    /// Writes the batches that are packed, into a row group and a file that are opened if none is.
    fn encode_packed(&mut self) -> Result<()> {
        let packed = std::mem::take(&mut self.packed);
        let Recipe::Parquet(recipe) = &self.recipe else { return Ok(()) };
        if packed.rows == 0 {
            return Ok(());
        }
        let file = match &mut self.open {
            Some(Open::Parquet(file)) => file,
            open => {
                let first = packed.first(recipe)?;
                match open.insert(Open::Parquet(Box::new(ParquetFile::create(&recipe.writer, &first)?))) {
                    Open::Parquet(file) => file,
                    Open::Json(_) => return Err(Error::bug("a Parquet file is none, please report it")),
                }
            }
        };
        let mut batches = packed.batches(recipe)?;
        while let Some(batch) = batches.next()? {
            file.write(&batch)?;
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
        self.encode_packed()?;
        self.texts = None;
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
        self.end_batch(out)?;
        self.encode_packed()?;
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

/// Rows that wait, packed: those of batches whose row group is not open yet, and those of an unfinished batch.
///
/// An open row group costs its writer some tens of kilobytes a column before it holds anything, which is too much for hundreds of tables
/// with a few rows each. Their batches are packed to about what they come to when they are encoded, and encoded once it pays, or when
/// the row group ends: the bytes of the file are the same.
#[derive(Default)]
struct Packed {
    /// Arrow's IPC stream, so that the schema is said once.
    stream: Option<StreamWriter<Vec<u8>>>,
    parts: Vec<Part>,
    rows: u64,
    /// Parts of the batch that has not ended.
    in_batch: usize,
}

/// A part of what is packed.
enum Part {
    /// Rows' part of the IPC stream.
    Columns(Pack),
    /// Rows as lines.
    Lines(Pack),
    /// The batch ends here.
    End,
}

/// Rows at which a row group is opened.
const DEFERRED_ROWS: u64 = 4_096;
/// Rows that tell which columns want a dictionary.
const TELLING_ROWS: usize = 4_096;
/// Rows of a batch from which on the next one is expected to be as long.
const MANY_ROWS: usize = 512;

impl Packed {
    fn push(&mut self, rows: StructArray) -> Result<()> {
        let batch = RecordBatch::from(rows);
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(StreamWriter::try_new(Vec::new(), batch.schema_ref()).map_err(|error| not_packed(&error))?),
        };
        stream.write(&batch).map_err(|error| not_packed(&error))?;
        let plain = std::mem::take(stream.get_mut());
        self.add(Part::Columns(Pack::of(&plain)?), batch.num_rows() as u64);
        Ok(())
    }

    fn push_lines(&mut self, lines: &[u8], rows: u64) -> Result<()> {
        self.add(Part::Lines(Pack::of(lines)?), rows);
        Ok(())
    }

    fn add(&mut self, part: Part, rows: u64) {
        self.parts.push(part);
        self.rows += rows;
        self.in_batch += 1;
    }

    fn end_batch(&mut self) {
        if self.in_batch > 0 {
            self.parts.push(Part::End);
            self.in_batch = 0;
        }
    }

    fn batches<'p>(&'p self, recipe: &'p ParquetRecipe) -> Result<Batches<'p>> {
        let unpacked = Unpacked { parts: self.parts.iter(), plain: Vec::new(), at: 0 };
        let stream = self.stream.as_ref().map(|_| StreamReader::try_new(unpacked, None)).transpose();
        Ok(Batches { recipe, parts: self.parts.iter(), stream: stream.map_err(|error| not_packed(&error))?, texts: None })
    }

    /// The first batches, enough to tell what the columns are like.
    fn first(&self, recipe: &ParquetRecipe) -> Result<Vec<RecordBatch>> {
        let (mut batches, mut first, mut rows) = (self.batches(recipe)?, Vec::new(), 0);
        while rows < TELLING_ROWS
            && let Some(batch) = batches.next()?
        {
            rows += batch.num_rows();
            first.push(batch);
        }
        Ok(first)
    }
}

/// Unpacks one batch after the other.
struct Batches<'p> {
    recipe: &'p ParquetRecipe,
    parts: std::slice::Iter<'p, Part>,
    stream: Option<StreamReader<Unpacked<'p>>>,
    texts: Option<TextShredder>,
}

impl Batches<'_> {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        // A batch is mostly one part, or lines alone, and then is copied no more.
        let (mut whole, mut join): (Option<StructArray>, Option<Join>) = (None, None);
        let mut add = |rows: StructArray| -> Result<(), ArrowError> {
            let Some(before) = &whole else {
                whole = Some(rows);
                return Ok(());
            };
            let join = match &mut join {
                Some(join) => join,
                none => {
                    let join = none.insert(Join::new(rows.fields(), &Room::default())?);
                    join.push(before)?;
                    join
                }
            };
            join.push(&rows)
        };
        for part in self.parts.by_ref() {
            if let (Some(texts), Part::Columns(_) | Part::End) = (&mut self.texts, part)
                && texts.rows() > 0
            {
                texts.finish().and_then(|shredded| add(shredded.rows)).map_err(|error| not_joined(&error))?;
            }
            match part {
                Part::Columns(_) => {
                    let batch = self.stream.as_mut().and_then(Iterator::next).ok_or_else(|| not_packed(&"a part is missing"))?;
                    batch.and_then(|batch| add(batch.into())).map_err(|error| not_packed(&error))?;
                }
                Part::Lines(lines) => {
                    let texts = self.texts.get_or_insert_with(|| TextShredder::new(&self.recipe.schema));
                    texts.push(&lines.unpacked()?).map_err(|error| not_joined(&error))?;
                }
                Part::End => break,
            }
        }
        let rows = match (join, whole) {
            (Some(join), _) => join.finish().map_err(|error| not_joined(&error))?,
            (None, Some(whole)) => whole,
            (None, None) => return Ok(None),
        };
        self.recipe.batch(rows).map(Some)
    }
}

/// Bytes in zstd: what waits of a row group comes to less than a quarter of its records, as `minimum_memory` has it. Snappy left it two fifths.
struct Pack {
    packed: Vec<u8>,
    plain: usize,
}

/// The fastest that is as small as that.
const PACK_LEVEL: i32 = 1;

impl Pack {
    fn of(plain: &[u8]) -> Result<Pack> {
        let mut packed = zstd::bulk::compress(plain, PACK_LEVEL).map_err(|error| not_packed(&error))?;
        packed.shrink_to_fit();
        Ok(Pack { packed, plain: plain.len() })
    }

    fn unpacked(&self) -> Result<Vec<u8>> {
        zstd::bulk::decompress(&self.packed, self.plain).map_err(|error| not_packed(&error))
    }
}

/// The IPC stream, unpacked as it is read.
struct Unpacked<'a> {
    parts: std::slice::Iter<'a, Part>,
    plain: Vec<u8>,
    at: usize,
}

impl Read for Unpacked<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.plain.len() {
            let packed = self.parts.find_map(|part| match part {
                Part::Columns(pack) => Some(pack),
                Part::Lines(_) | Part::End => None,
            });
            let Some(packed) = packed else { return Ok(0) };
            self.plain = packed.unpacked().map_err(std::io::Error::other)?;
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

impl ParquetRecipe {
    /// The rows with the columns that Dayport fills itself.
    fn batch(&self, rows: StructArray) -> Result<RecordBatch> {
        let count = rows.len();
        let (_, mut columns, _) = rows.into_parts();
        for (position, role) in &*self.own {
            if let Some(column) = columns.get_mut(*position) {
                *column = match role {
                    Role::BatchId => {
                        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(self.transfer.batch_id(), count)))
                    }
                    _ => {
                        let micros = self.transfer.started_millis.saturating_mul(1000);
                        let times = TimestampMicrosecondArray::from_value(micros, count);
                        Arc::new(times.with_timezone(TIME_ZONE))
                    }
                };
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::clone(self.writer.arrow()), columns, &options).map_err(|error| not_joined(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::evidence::{Evidence, Limits};
    use crate::columns::fields::arrow_schema;
    use crate::columns::pin::{Given, base_schema, decide};
    use crate::columns::shred::Shredder;
    use crate::records::json::Tape;

    /// Rows `from` to `to` as lines: nulls, lists, one in eleven with a value that has to be rescued, one in thirteen with a key twice.
    fn lines(from: i64, to: i64) -> Vec<u8> {
        let line = |row: i64| {
            let mut members = Vec::new();
            if row % 7 != 0 {
                members.push(format!("\"n\":{}", row * 31 % 1_000));
            }
            if row % 5 != 0 {
                members.push(format!("\"t\":\"row {row}\""));
            }
            if row % 3 != 0 {
                members.push(format!("\"l\":[{row},null,{}]", row % 10));
            }
            if row % 11 == 0 {
                members.push("\"l\":\"none\",\"new\":1".to_owned());
            }
            if row % 13 == 0 {
                members.push("\"t\":\"first\",\"t\":\"last\"".to_owned());
            }
            format!("{{{}}}\n", members.join(","))
        };
        (from..to).map(line).collect::<String>().into_bytes()
    }

    fn schema() -> TypedSchema {
        let day = "2026-01-15".parse().unwrap();
        let given = Given { declared: &[], rescue_column: "_rescued_data", transfer_columns: false, day };
        let base = base_schema(None, &given).unwrap();
        let mut evidence = Evidence::new(&base, Limits { max_columns: 4, max_fields: 4, max_column_depth: 2 });
        let mut tape = Tape::default();
        let record = br#"{"n":1,"t":"x","l":[1]}"#;
        tape.read(record, 0, 8).unwrap();
        evidence.observe(&mut tape, record);
        TypedSchema::new(decide(&base, &evidence, None, "_rescued_data", day))
    }

    /// The same rows as columns, as a slice of a larger array.
    fn columns(from: i64, to: i64) -> StructArray {
        let mut shredder = Shredder::new(&schema());
        let mut tape = Tape::default();
        for line in lines(from - 3, to + 3).split_inclusive(|byte| *byte == b'\n') {
            let text = &line[..line.len() - 1];
            tape.read(text, 0, 8).unwrap();
            shredder.append(&mut tape, text, None);
        }
        shredder.finish().unwrap().rows.slice(3, usize::try_from(to - from).unwrap())
    }

    fn as_lines(from: i64, to: i64) -> Rows {
        let bytes = [b"before\n".as_slice(), &lines(from, to), b"after\n"].concat();
        let range = 7..bytes.len() - 6;
        Rows::Lines { bytes: Arc::new(bytes), range, rows: u64::try_from(to - from).unwrap() }
    }

    fn bytes_of(pieces: Vec<Piece>) -> Vec<u8> {
        let bytes = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Bytes(_, bytes) => Some(bytes),
            Piece::End { .. } => None,
        });
        bytes.collect::<Vec<_>>().concat()
    }

    /// A file of row groups of so many rows, in batches of a thousand, each pushed in pieces of `piece` rows: the nth as lines if `is_lines`
    /// says so, and packed after it if `is_packed` does.
    fn rolled(groups: &[i64], piece: i64, is_lines: impl Fn(usize) -> bool, is_packed: impl Fn(usize) -> bool) -> Vec<u8> {
        let recipe = Recipe::parquet(&schema(), Vec::new(), Transfer { started_millis: 0 }).unwrap();
        let mut file = RollingFile::new(recipe, u64::MAX, 0);
        let (mut out, mut from, mut number) = (Vec::new(), 0, 0);
        for &group in groups {
            let end = from + group;
            while from < end {
                let batch_end = (from + 1_000).min(end);
                while from < batch_end {
                    let to = (from + piece).min(batch_end);
                    file.push(if is_lines(number) { as_lines(from, to) } else { Rows::Columns(columns(from, to)) }).unwrap();
                    if is_packed(number) {
                        file.pack().unwrap();
                    }
                    (from, number) = (to, number + 1);
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
            [(0, 1_000), (1_000, 2_000), (2_000, 2_500)].map(|(from, to)| columns(from, to).into()).into();
        let schema = ParquetSchema::new(arrow_schema(&schema()), []).unwrap();
        let mut file = ParquetFile::create(&schema, &batches).unwrap();
        for batch in &batches {
            file.write(batch).unwrap();
        }
        assert_eq!(rolled(&[2_500], 1_000, |_| false, |_| false), file.finish().unwrap().concat());
    }

    #[test]
    fn the_pieces_that_rows_come_in_change_no_byte() {
        // One small row group, one that is opened while it fills, and one that is put off again after it.
        let groups = [1_500, 10_000, 700];
        let whole = rolled(&groups, 1_000, |_| false, |_| false);
        for piece in [333, 7] {
            assert_eq!(rolled(&groups, piece, |_| false, |_| false), whole, "{piece}");
            assert_eq!(rolled(&groups, piece, |_| true, |_| false), whole, "{piece}, lines");
            assert_eq!(rolled(&groups, piece, |number| number % 3 == 0, |_| false), whole, "{piece}, some lines");
            assert_eq!(rolled(&groups, piece, |number| number % 3 != 0, |number| number % 5 == 0), whole, "{piece}, packed");
        }
        assert_eq!(rolled(&groups, 1_000, |_| true, |_| true), whole);
    }
}
