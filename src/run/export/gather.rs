//! Chunks in input order: every record is accounted for, and every cut of a batch or row group is made at a counted row.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::book::SchemaBook;
use super::chunk::{ChunkRows, ChunkRules, TableRows};
use super::dedupe::Dedupe;
use super::held::Held;
use crate::columns::evidence::Evidence;
use crate::columns::texts::TextShredder;
use crate::domain::counts::Counts;
use crate::domain::error::{Error, Result};
use crate::domain::format::Format;
use crate::domain::run::Day;
use crate::domain::table::{SyncMode, TableName};
use crate::files::roll::Rows;

/// Rows of a batch: Parquet's writer looks at its limits between steps of 1,024 values.
const BATCH_ROWS: u64 = 2_048;
/// Record bytes of a batch, where its rows are large.
const BATCH_BYTES: u64 = 2 << 20;
/// Record bytes that may wait in unfinished batches of all tables together; then they are packed (or, for JSON, all batches end).
const WAITING_BYTES: u64 = 16 << 20;

/// What is to be done with a stream, in order.
#[derive(Debug)]
pub enum Step {
    /// Add rows.
    Rows(Rows),
    /// Pack the rows of the unfinished batch: there is much that waits, of all tables together.
    Pack,
    /// End the batch.
    EndBatch,
    /// End the row group.
    EndRowGroup,
}

/// A table's files in one partition.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The table.
    pub table: Arc<TableName>,
    /// Its sync mode.
    pub sync: SyncMode,
    /// The partition's day.
    pub day: Day,
    /// Rows.
    pub rows: u64,
    /// Bytes of the largest record.
    pub largest_record: u64,
    batch_rows: u64,
    batch_bytes: u64,
    /// Bytes of the batch that are not packed.
    waiting_bytes: u64,
    group_bytes: u64,
}

/// What a shard's records showed, per table.
#[derive(Debug, Default)]
pub struct TableTally {
    /// Rescued values by JSON Pointer.
    pub rescued: BTreeMap<String, u64>,
    /// What was seen of columns that are not pinned.
    pub evidence: Option<Evidence>,
}

/// Takes chunks in input order.
pub struct Gather {
    rules: Arc<ChunkRules>,
    book: Arc<SchemaBook>,
    batch_rows: u64,
    row_group_size: u64,
    max_tables: usize,
    event_tables: BTreeSet<TableName>,
    streams: Vec<Stream>,
    by_name: HashMap<(Arc<TableName>, Day), usize>,
    waiting_bytes: u64,
    group_bytes: u64,
    /// Which rows are left out since their id was there.
    pub dedupe: Dedupe,
    /// Counts per object of the shard.
    pub objects: Vec<Counts>,
    /// Tallies per table.
    pub tables: BTreeMap<TableName, TableTally>,
    /// The quarantine.
    pub held: Held,
}

/// What goes to the state bucket while a shard is read.
#[derive(Debug)]
pub enum ToState {
    /// A part of the quarantine.
    Quarantine(Bytes),
    /// Ids that later shards have to know.
    Ids(Bytes),
}

impl ToState {
    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            ToState::Quarantine(bytes) | ToState::Ids(bytes) => bytes.len() as u64,
        }
    }
}

/// A slice of a chunk's table that goes to a stream.
struct Part {
    stream: usize,
    name: Arc<TableName>,
    rows: TableRows,
    is_over: bool,
    /// Rows and bytes of the part that were passed, and that were handed on.
    row: usize,
    byte: usize,
    row_done: usize,
    byte_done: usize,
}

impl Part {
    /// The rows between what was handed on and where the walk stands.
    fn take(&mut self) -> Option<Rows> {
        let (rows, bytes) = (self.row_done..self.row, self.byte_done..self.byte);
        (self.row_done, self.byte_done) = (self.row, self.byte);
        if rows.is_empty() {
            return None;
        }
        Some(match &self.rows {
            TableRows::Columns(columns) => Rows::Columns(columns.slice(rows.start, rows.len())),
            TableRows::Lines(lines) => Rows::Lines { bytes: Arc::clone(lines), range: bytes, rows: rows.len() as u64 },
        })
    }

    /// The pointers of what was rescued in the row where the walk stands; it has `length` bytes with its line feed.
    fn rescued(&self, length: usize, book: &SchemaBook) -> Result<Vec<String>> {
        match &self.rows {
            TableRows::Columns(columns) => {
                let column = columns.column_by_name(book.rescue_column()).and_then(|column| column.as_string_opt::<i32>());
                let text = column.filter(|column| self.row < column.len() && column.is_valid(self.row));
                let text = text.map(|column| column.value(self.row));
                let pointers = text.and_then(|text| serde_json::from_str::<BTreeMap<String, &RawValue>>(text).ok());
                Ok(pointers.unwrap_or_default().into_keys().collect())
            }
            TableRows::Lines(lines) => {
                let line = lines.get(self.byte..self.byte + length).unwrap_or_default();
                let mut again = TextShredder::new(&book.entry(&self.name)?.schema);
                let shredded = again.push(line).and_then(|()| again.finish());
                Ok(shredded.map_err(|_| lost())?.rescued.into_keys().collect())
            }
        }
    }

    /// Passes the row over without handing it on; what came before it must have been taken.
    fn skip(&mut self, length: usize) {
        self.row += 1;
        self.byte += length;
        (self.row_done, self.byte_done) = (self.row, self.byte);
    }
}

impl Gather {
    /// For a shard. `event_tables` are those that earlier shards of the run had.
    pub fn new(
        rules: Arc<ChunkRules>,
        row_group_size: u64,
        max_tables: usize,
        event_tables: BTreeSet<TableName>,
        dedupe: Dedupe,
        held: Held,
    ) -> Gather {
        let book = Arc::clone(&rules.book);
        let batch_rows = match rules.format {
            Format::Parquet => BATCH_ROWS,
            Format::Json => u64::MAX,
        };
        let gather = Gather {
            rules,
            book,
            batch_rows,
            row_group_size,
            max_tables,
            event_tables,
            streams: Vec::new(),
            by_name: HashMap::new(),
            waiting_bytes: 0,
            group_bytes: 0,
            dedupe,
            objects: vec![Counts::default(); held.objects()],
            tables: BTreeMap::new(),
            held,
        };
        gather.close_if_full();
        gather
    }

    /// The streams so far; a stream's number is its position.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Accounts for a chunk. `step` gets what is to be done with which stream, in order; what comes back are parts of the
    /// quarantine and ids for the state bucket, and the chunk's buffer.
    pub fn take(&mut self, mut chunk: ChunkRows, step: &mut impl FnMut(usize, Step)) -> Result<(Vec<ToState>, Vec<u8>)> {
        let object = chunk.object;
        let (tables, order) = (std::mem::take(&mut chunk.tables), std::mem::take(&mut chunk.order));
        let (evidence, mut rescued) = (std::mem::take(&mut chunk.evidence), std::mem::take(&mut chunk.rescued));
        let mut parts = Vec::with_capacity(tables.len());
        let mut over: HashSet<Arc<TableName>> = HashSet::new();
        for table in tables {
            let is_over = table.is_event && !self.accepts(&table.name);
            if is_over {
                over.insert(Arc::clone(&table.name));
            }
            let stream = if is_over { usize::MAX } else { self.stream(&table.name, table.sync, table.day) };
            let name = table.name;
            parts.push(Part { stream, name, rows: table.rows, is_over, row: 0, byte: 0, row_done: 0, byte_done: 0 });
        }
        let mut total = chunk.counts;
        for row in order {
            let Some(part) = parts.get_mut(row.table as usize) else { return Err(lost()) };
            if part.is_over {
                chunk.reject(&row);
                continue;
            }
            let length = row.length as usize + 1;
            let is_duplicate = match row.identity {
                Some(id) => self.dedupe.is_duplicate(&part.name, id)?,
                None => false,
            };
            if is_duplicate {
                let stream = part.stream;
                if let Some(rows) = part.take() {
                    step(stream, Step::Rows(rows));
                }
                if let Some(counts) = rescued.get_mut(part.name.as_ref()) {
                    forget_rescued(counts, part.rescued(length, &self.book)?);
                }
                part.skip(length);
                total.duplicates += 1;
                total.repaired -= u64::from(row.is_repaired);
                continue;
            }
            part.row += 1;
            part.byte += length;
            total.delivered += 1;
            let at = part.stream;
            let stream = self.streams.get_mut(at).ok_or_else(lost)?;
            let size = u64::from(row.length);
            stream.rows += 1;
            stream.largest_record = stream.largest_record.max(size);
            stream.batch_rows += 1;
            stream.batch_bytes += size;
            stream.waiting_bytes += size;
            stream.group_bytes += size;
            self.waiting_bytes += size;
            self.group_bytes += size;
            if stream.batch_rows >= self.batch_rows || stream.batch_bytes >= BATCH_BYTES {
                self.end_batch(at, &mut parts, step);
            }
            if self.waiting_bytes >= WAITING_BYTES {
                match self.rules.format {
                    Format::Parquet => self.pack(&mut parts, step),
                    Format::Json => (0..self.streams.len()).for_each(|stream| self.end_batch(stream, &mut parts, step)),
                }
            }
            if self.group_bytes >= self.row_group_size {
                self.end_largest_group(&mut parts, step);
            }
        }
        for part in &mut parts {
            if let Some(rows) = part.take() {
                step(part.stream, Step::Rows(rows));
            }
        }
        total.quarantined = chunk.rejects.len() as u64 + u64::from(chunk.oversize.is_some());
        // A table that is one too many leaves no trace: its records are rejects.
        for (table, pointers) in rescued.into_iter().filter(|(table, _)| !over.contains(table)) {
            let tally = self.tables.entry(table).or_default();
            for (pointer, count) in pointers {
                total.rescued += count;
                *tally.rescued.entry(pointer).or_default() += count;
            }
        }
        for (table, seen) in evidence.into_iter().filter(|(table, _)| !over.contains(table)) {
            let entry = self.book.entry(&table)?;
            let tally = self.tables.entry(table).or_default();
            tally.evidence.get_or_insert_with(|| Evidence::new(&entry.base, self.book.limits())).absorb(&seen);
        }
        if let Some(object) = self.objects.get_mut(object) {
            *object += total;
        }
        let mut to_state: Vec<ToState> = self.held.take(&mut chunk)?.into_iter().map(ToState::Quarantine).collect();
        to_state.extend(self.dedupe.take_new(false).map(ToState::Ids));
        Ok((to_state, chunk.bytes))
    }

    fn accepts(&mut self, table: &TableName) -> bool {
        if self.event_tables.contains(table) {
            return true;
        }
        if self.event_tables.len() >= self.max_tables {
            return false;
        }
        self.event_tables.insert(table.clone());
        self.close_if_full();
        true
    }

    fn close_if_full(&self) {
        if self.event_tables.len() >= self.max_tables {
            // Workers may reject what is over from here on; whether they know in time changes nothing but the work.
            let _ = self.rules.closed.set(self.event_tables.iter().cloned().collect());
        }
    }

    fn stream(&mut self, table: &Arc<TableName>, sync: SyncMode, day: Day) -> usize {
        if let Some(&stream) = self.by_name.get(&(Arc::clone(table), day)) {
            return stream;
        }
        let stream = self.streams.len();
        self.streams.push(Stream {
            table: Arc::clone(table),
            sync,
            day,
            rows: 0,
            largest_record: 0,
            batch_rows: 0,
            batch_bytes: 0,
            waiting_bytes: 0,
            group_bytes: 0,
        });
        self.by_name.insert((Arc::clone(table), day), stream);
        stream
    }

    fn end_batch(&mut self, at: usize, parts: &mut [Part], step: &mut impl FnMut(usize, Step)) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        if stream.batch_rows == 0 {
            return;
        }
        self.waiting_bytes -= stream.waiting_bytes;
        (stream.batch_rows, stream.batch_bytes, stream.waiting_bytes) = (0, 0, 0);
        for part in parts.iter_mut().filter(|part| part.stream == at) {
            if let Some(rows) = part.take() {
                step(at, Step::Rows(rows));
            }
        }
        step(at, Step::EndBatch);
    }

    /// Has all that waits packed. Unlike the end of a batch this changes no byte, so it may be left to how much waits of all tables.
    fn pack(&mut self, parts: &mut [Part], step: &mut impl FnMut(usize, Step)) {
        for part in parts {
            if let Some(rows) = part.take() {
                step(part.stream, Step::Rows(rows));
            }
        }
        for (at, stream) in self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.waiting_bytes > 0) {
            stream.waiting_bytes = 0;
            step(at, Step::Pack);
        }
        self.waiting_bytes = 0;
    }

    fn end_largest_group(&mut self, parts: &mut [Part], step: &mut impl FnMut(usize, Step)) {
        // Of equal ones the first that the input had.
        let mut largest = 0;
        let mut most = 0;
        for (at, stream) in self.streams.iter().enumerate() {
            if stream.group_bytes > most {
                (largest, most) = (at, stream.group_bytes);
            }
        }
        self.end_batch(largest, parts, step);
        step(largest, Step::EndRowGroup);
        if let Some(stream) = self.streams.get_mut(largest) {
            self.group_bytes -= stream.group_bytes;
            stream.group_bytes = 0;
        }
    }
}

/// Takes the values of a row that does not land out of its chunk's counts.
fn forget_rescued(counts: &mut BTreeMap<String, u64>, rescued: Vec<String>) {
    for pointer in rescued {
        // Beyond the pointers that are told apart, all are counted as one.
        let counted = if counts.contains_key(&pointer) { pointer } else { String::new() };
        if let Some(count) = counts.get_mut(&counted) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&counted);
            }
        }
    }
}

fn lost() -> Error {
    Error::bug("a chunk has a row of a table that it doesn't have, please report it")
}
