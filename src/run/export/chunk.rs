//! What a worker makes of one chunk of whole lines: the rows of each table, in order, and what became of every record.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use arrow::array::{StructArray, UInt32Array};
use arrow::compute::take;

use super::book::SchemaBook;
use crate::columns::evidence::Evidence;
use crate::columns::shred::Shredder;
use crate::domain::counts::Counts;
use crate::domain::error::{Error, Result};
use crate::domain::format::Format;
use crate::domain::run::Day;
use crate::domain::table::{SyncMode, TableName};
use crate::records::json::Tape;
use crate::records::reader::{Place, Reader, Visit};
use crate::records::route::{Reason, Routed, RoutedTable, Router, Rules};

/// Which records of an object a pass takes.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// All but those of these tables, which have passes of their own.
    AllBut(Arc<HashSet<TableName>>),
    /// Those of these tables alone; nothing else is even counted.
    Only(Arc<HashSet<TableName>>),
}

impl Wanted {
    fn takes(&self, table: &TableName) -> bool {
        match self {
            Wanted::AllBut(tables) => !tables.contains(table),
            Wanted::Only(tables) => tables.contains(table),
        }
    }

    /// Whether this pass accounts for records that have no table: rejects, and other organisations'.
    fn accounts_for_all(&self) -> bool {
        matches!(self, Wanted::AllBut(_))
    }
}

/// How an object's records are read.
#[derive(Clone, Debug)]
pub struct ObjectRule {
    /// The configured table of its folder, if that decides.
    pub folder: Option<String>,
    /// What is taken of it.
    pub wanted: Wanted,
}

/// A chunk of an object, ready to be read.
#[derive(Debug)]
pub struct ChunkInput {
    /// The object's position in the shard.
    pub object: usize,
    /// The chunk's number in the object, from 0.
    pub number: u32,
    /// Whether it is the object's last.
    pub last: bool,
    /// Whole lines.
    pub bytes: Vec<u8>,
    /// The first line's number, from 1.
    pub first_line: u64,
    /// The first byte's offset in the unpacked object.
    pub offset: u64,
    /// The bytes are elements of an array that began earlier on an over-long line.
    pub is_elements: bool,
    /// A part of an over-long line that can't be taken, found while the object was split into lines.
    pub oversize: Option<Oversize>,
}

impl ChunkInput {
    /// Has `reader` hand the chunk's records to `visit`.
    pub fn read_by(&self, reader: &mut Reader, visit: &mut impl Visit) {
        let place = Place { line: self.first_line, offset: self.offset };
        if self.is_elements {
            reader.read_elements(&self.bytes, place, visit);
        } else {
            reader.read(&self.bytes, place, visit);
        }
    }
}

/// A record of a chunk that can't be delivered. It is small, since a hostile chunk may hold one for each two of its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Rejected {
    /// How many lines after the chunk's first it stands.
    line: u32,
    /// Where its original bytes are in the chunk's.
    start: u32,
    length: u32,
    /// Why.
    pub reason: Reason,
    /// Whether it looks like a line of a record that is spread over lines.
    pub is_spread: bool,
}

/// A part of an over-long line that can't be delivered.
#[derive(Debug)]
pub struct Oversize {
    /// Where it stands.
    pub place: Place,
    /// Why.
    pub reason: Reason,
    /// Its first `max_record_bytes` bytes.
    pub head: Vec<u8>,
    /// Its length in bytes, and the SHA-256 of all of them.
    pub whole: (u64, [u8; 32]),
}

/// Rows of one table and one partition day, in input order.
#[derive(Debug)]
pub struct ChunkTable {
    /// The table.
    pub name: Arc<TableName>,
    /// Its sync mode.
    pub sync: SyncMode,
    /// Whether it is the table of an event.
    pub is_event: bool,
    /// The partition's day.
    pub day: Day,
    /// The rows.
    pub rows: TableRows,
}

/// Rows in the form that the destination's format needs.
#[derive(Clone, Debug)]
pub enum TableRows {
    /// For Parquet.
    Columns(StructArray),
    /// For JSON; for Parquet, if they are so few that columns would cost more than they hold. Lines, each with its line feed.
    Lines(Arc<Vec<u8>>),
}

/// Rows of a table in one chunk up to which they are handed on as lines: fewer than these are cheaper read once more than made into columns.
const FEW_ROWS: usize = 16;

/// A record that is a row, in input order over all tables.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Which of the chunk's tables.
    pub table: u32,
    /// Bytes of the record as delivered (without a line feed).
    pub length: u32,
    /// Bytes of the record as staged.
    pub original_length: u32,
    /// Where it stands.
    pub place: Place,
    /// What `dedupe` knows it by.
    pub identity: Option<u128>,
    /// Whether it was repaired.
    pub is_repaired: bool,
}

/// All that became of a chunk.
#[derive(Debug)]
pub struct ChunkRows {
    /// See [`ChunkInput`].
    pub object: usize,
    /// See [`ChunkInput`].
    pub number: u32,
    /// See [`ChunkInput`].
    pub last: bool,
    /// The rows by table and day.
    pub tables: Vec<ChunkTable>,
    /// Every row in input order.
    pub order: Vec<Row>,
    /// Every reject in input order.
    pub rejects: Vec<Rejected>,
    /// A reject before them, of an over-long line.
    pub oversize: Option<Oversize>,
    /// `read`, `filtered`, `repaired` of this chunk; the rest is counted when it is gathered.
    pub counts: Counts,
    /// What it shows about columns that are not pinned.
    pub evidence: BTreeMap<TableName, Evidence>,
    /// Rescued values by table and pointer.
    pub rescued: BTreeMap<TableName, BTreeMap<String, u64>>,
    /// The chunk's bytes, for what is rejected.
    pub bytes: Vec<u8>,
    /// Their first line, from 1.
    pub first_line: u64,
    /// Their offset in the unpacked object.
    pub offset: u64,
}

impl ChunkRows {
    /// Where a reject stands.
    #[must_use]
    pub fn place_of(&self, reject: &Rejected) -> Place {
        Place { line: self.first_line + u64::from(reject.line), offset: self.offset + u64::from(reject.start) }
    }

    /// A reject's original bytes.
    #[must_use]
    pub fn original_of(&self, reject: &Rejected) -> &[u8] {
        let start = reject.start as usize;
        self.bytes.get(start..start + reject.length as usize).unwrap_or_default()
    }

    /// Rejects a row after all: its table is one too many.
    pub fn reject(&mut self, row: &Row) {
        let first = Place { line: self.first_line, offset: self.offset };
        self.rejects.push(Rejected::new(first, row.place, Reason::TooManyTables, row.original_length as usize, false));
    }
}

const _: () = assert!(size_of::<Rejected>() <= 16, "a hostile chunk holds one for each two of its bytes");

impl Rejected {
    /// The reject at `place` in a chunk that begins at `first`. A chunk has far fewer than 2^32 bytes.
    fn new(first: Place, place: Place, reason: Reason, length: usize, is_spread: bool) -> Rejected {
        let within = |from: u64, to: u64| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        Rejected { line: within(first.line, place.line), start: within(first.offset, place.offset), length, reason, is_spread }
    }
}

/// Everything that workers share.
#[derive(Debug)]
pub struct ChunkRules {
    /// The destination's format.
    pub format: Format,
    /// How records are routed.
    pub rules: Arc<Rules>,
    /// The schemas.
    pub book: Arc<SchemaBook>,
    /// The event tables of the run, once there are `max_tables`: records of any other are rejected at once.
    pub closed: OnceLock<HashSet<TableName>>,
    /// `staging.max_depth`.
    pub max_depth: usize,
    /// `staging.max_record_bytes`.
    pub max_record_bytes: usize,
}

/// Reads chunks; one a worker thread, since it reuses its builders.
pub struct ChunkReader {
    shared: Arc<ChunkRules>,
    reader: Reader,
    router: Router,
    shredders: HashMap<TableName, Box<Shredder>>,
    tape: Tape,
}

/// How many tables' builders a worker keeps between chunks.
const MOST_SHREDDERS: usize = 2_000;

impl ChunkReader {
    /// A reader by these rules.
    #[must_use]
    pub fn new(shared: Arc<ChunkRules>) -> ChunkReader {
        ChunkReader {
            reader: Reader::new(shared.max_depth, shared.max_record_bytes),
            // Rules of its own: a count of owners that all workers share would go from one processor's cache to the other with every record.
            router: Router::new(Arc::new(Rules::clone(&shared.rules))),
            shredders: HashMap::new(),
            tape: Tape::default(),
            shared,
        }
    }

    /// Reads a chunk.
    pub fn read(&mut self, mut input: ChunkInput, rule: &ObjectRule) -> Result<ChunkRows> {
        self.router.shrink();
        if self.shredders.len() > MOST_SHREDDERS {
            self.shredders.clear();
        }
        let folder = rule.folder.as_deref().and_then(|name| self.router.configured(name));
        let place = Place { line: input.first_line, offset: input.offset };
        let mut pass = Pass {
            first: place,
            shared: &self.shared,
            router: &mut self.router,
            shredders: &mut self.shredders,
            folder,
            wanted: &rule.wanted,
            numbers: Vec::new(),
            tables: Vec::new(),
            order: Vec::new(),
            rejects: Vec::new(),
            counts: Counts::default(),
            failure: None,
        };
        let oversize = input.oversize.take().filter(|_| rule.wanted.accounts_for_all());
        pass.counts.read += u64::from(oversize.is_some());
        input.read_by(&mut self.reader, &mut pass);
        let Pass { numbers: _, tables, mut order, rejects, counts, failure, .. } = pass;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut rows = ChunkRows {
            object: input.object,
            number: input.number,
            last: input.last,
            tables: Vec::with_capacity(tables.len()),
            order: Vec::new(),
            rejects,
            oversize,
            counts,
            evidence: BTreeMap::new(),
            rescued: BTreeMap::new(),
            bytes: input.bytes,
            first_line: input.first_line,
            offset: input.offset,
        };
        // Where a table's days are mixed, its rows are parted by day; `base + nth day` is then their table in `order`.
        let mut parts: Vec<Vec<(Day, u32)>> = Vec::with_capacity(tables.len());
        for table in tables {
            parts.push(self.close_table(table, &mut rows)?);
        }
        for entry in &mut order {
            let place = parts.get(entry.row.table as usize).and_then(|days| days.iter().find(|(day, _)| *day == entry.day));
            entry.row.table = place.map(|(_, table)| *table).ok_or_else(lost_row)?;
        }
        rows.order = order.into_iter().map(|entry| entry.row).collect();
        Ok(rows)
    }

    fn close_table(&mut self, mut table: OpenTable, rows: &mut ChunkRows) -> Result<Vec<(Day, u32)>> {
        let mut days: Vec<Day> = Vec::new();
        for day in &table.days {
            if days.last() != Some(day) && !days.contains(day) {
                days.push(*day);
            }
        }
        let all = match table.rows {
            OpenRows::Columns(mut shredder, lines) if table.lengths.len() <= FEW_ROWS => {
                let (rescued, straight) = shredder.discard();
                if let (Some(straight), Some(evidence)) = (straight, &mut table.evidence) {
                    self.observe_straight(&lines, &straight, evidence)?;
                }
                rows.note_rescued(&table.name, rescued);
                self.shredders.insert((*table.name).clone(), shredder);
                TableRows::Lines(Arc::new(lines))
            }
            OpenRows::Columns(mut shredder, _) => {
                let shredded = shredder.finish().map_err(|error| {
                    Error::vendor(format!(
                        "a chunk of table `{}` holds more than 2 GiB of text, lower `staging.max_record_bytes`",
                        table.name
                    ))
                    .with_source(error)
                })?;
                if let (Some(straight), Some(evidence)) = (shredded.straight, &mut table.evidence) {
                    let entry = self.shared.book.entry(&table.name)?;
                    evidence.recount(&entry.schema.columns, &shredded.rows, &straight);
                }
                rows.note_rescued(&table.name, shredded.rescued);
                self.shredders.insert((*table.name).clone(), shredder);
                TableRows::Columns(shredded.rows)
            }
            OpenRows::Lines(lines) => TableRows::Lines(Arc::new(lines)),
        };
        if let Some(evidence) = table.evidence
            && !evidence.is_empty()
        {
            rows.evidence.insert((*table.name).clone(), evidence);
        }
        let mut places = Vec::with_capacity(days.len());
        for day in &days {
            let part = if days.len() == 1 { all.clone() } else { part_of(&all, &table.days, &table.lengths, *day)? };
            places.push((*day, u32::try_from(rows.tables.len()).unwrap_or(u32::MAX)));
            rows.tables.push(ChunkTable {
                name: Arc::clone(&table.name),
                sync: table.sync,
                is_event: table.is_event,
                day: *day,
                rows: part,
            });
        }
        Ok(places)
    }
}

impl ChunkReader {
    /// Counts the rows that went straight: they are few, and have no columns to be counted by.
    fn observe_straight(&mut self, lines: &[u8], straight: &[bool], evidence: &mut Evidence) -> Result<()> {
        for (line, _) in lines.split(|byte| *byte == b'\n').zip(straight).filter(|(_, is_straight)| **is_straight) {
            self.tape.read(line, 0, self.shared.max_depth).map_err(|_| lost_row())?;
            evidence.observe(&mut self.tape, line);
        }
        Ok(())
    }
}

impl ChunkRows {
    fn note_rescued(&mut self, table: &TableName, rescued: HashMap<String, u64>) {
        if !rescued.is_empty() {
            self.rescued.insert(table.clone(), rescued.into_iter().collect());
        }
    }
}

fn lost_row() -> Error {
    Error::bug("a row lost its table, please report it")
}

fn part_of(all: &TableRows, days: &[Day], lengths: &[usize], wanted: Day) -> Result<TableRows> {
    match all {
        TableRows::Columns(rows) => {
            let picked: UInt32Array =
                (0..).zip(days).filter(|(_, day)| **day == wanted).map(|(row, _): (u32, _)| row).collect::<Vec<_>>().into();
            let part = take(rows, &picked, None)
                .map_err(|error| Error::bug(format!("rows could not be parted by day: {error}, please report it")))?;
            let part = part.as_any().downcast_ref::<StructArray>().cloned();
            Ok(TableRows::Columns(part.ok_or_else(lost_row)?))
        }
        TableRows::Lines(lines) => {
            let mut part = Vec::new();
            let mut at = 0;
            for (day, length) in days.iter().zip(lengths) {
                if *day == wanted {
                    part.extend_from_slice(lines.get(at..at + length).unwrap_or_default());
                }
                at += length;
            }
            Ok(TableRows::Lines(Arc::new(part)))
        }
    }
}

struct OpenTable {
    name: Arc<TableName>,
    sync: SyncMode,
    is_event: bool,
    observes_all: bool,
    evidence: Option<Evidence>,
    rows: OpenRows,
    days: Vec<Day>,
    lengths: Vec<usize>,
}

enum OpenRows {
    /// In the worker's shredder of that table, which it gets back; and, while they are few, as lines.
    Columns(Box<Shredder>, Vec<u8>),
    Lines(Vec<u8>),
}

struct OrderedRow {
    row: Row,
    day: Day,
}

/// One chunk on its way.
struct Pass<'a> {
    /// Where the chunk begins.
    first: Place,
    shared: &'a ChunkRules,
    router: &'a mut Router,
    shredders: &'a mut HashMap<TableName, Box<Shredder>>,
    folder: Option<usize>,
    wanted: &'a Wanted,
    /// From the router's table numbers to those of this chunk.
    numbers: Vec<Option<usize>>,
    tables: Vec<OpenTable>,
    order: Vec<OrderedRow>,
    rejects: Vec<Rejected>,
    counts: Counts,
    failure: Option<Error>,
}

impl Pass<'_> {
    /// The chunk's own number of the router's table, begun if it is new.
    fn open(&mut self, number: usize) -> Result<usize> {
        if let Some(Some(own)) = self.numbers.get(number) {
            return Ok(*own);
        }
        let table = self.router.table(number).cloned().ok_or_else(lost_row)?;
        let (rows, observes_all) = match self.shared.format {
            Format::Json => (OpenRows::Lines(Vec::new()), false),
            Format::Parquet => {
                let entry = self.shared.book.entry(&table.name)?;
                let shredder = self.shredders.remove(table.name.as_ref());
                let new = || {
                    let shredder = Shredder::new(&entry.schema).watching(&entry.schema, &self.shared.rules);
                    Box::new(if entry.observes_all { shredder.observing() } else { shredder })
                };
                (OpenRows::Columns(shredder.unwrap_or_else(new), Vec::new()), entry.observes_all)
            }
        };
        let own = self.tables.len();
        self.tables.push(OpenTable {
            name: table.name,
            sync: table.sync,
            is_event: table.is_event,
            observes_all,
            evidence: None,
            rows,
            days: Vec::new(),
            lengths: Vec::new(),
        });
        if self.numbers.len() <= number {
            self.numbers.resize(number + 1, None);
        }
        if let Some(slot) = self.numbers.get_mut(number) {
            *slot = Some(own);
        }
        Ok(own)
    }

    fn add(&mut self, number: usize, tape: &mut Tape, text: &[u8], time: Option<(u32, i64)>, row: Row, day: Day) -> Result<()> {
        let own = self.open(number)?;
        let table = self.tables.get_mut(own).ok_or_else(lost_row)?;
        match &mut table.rows {
            OpenRows::Lines(_) => {}
            OpenRows::Columns(shredder, _) => {
                let surprised = shredder.append(tape, text, time);
                if surprised || table.observes_all {
                    let evidence = match &mut table.evidence {
                        Some(evidence) => evidence,
                        none => {
                            let entry = self.shared.book.entry(&table.name)?;
                            none.insert(Evidence::new(&entry.base, self.shared.book.limits()))
                        }
                    };
                    evidence.observe(tape, text);
                    if table.observes_all {
                        shredder.learn(evidence);
                    }
                }
            }
        }
        self.keep(own, text, row, day)
    }

    /// Keeps the lines and the count of a row that was just added to the columns, if any, of the chunk's table `own`.
    fn keep(&mut self, own: usize, text: &[u8], row: Row, day: Day) -> Result<()> {
        let table = self.tables.get_mut(own).ok_or_else(lost_row)?;
        table.days.push(day);
        table.lengths.push(text.len() + 1);
        match &mut table.rows {
            OpenRows::Columns(_, lines) if table.lengths.len() > FEW_ROWS => *lines = Vec::new(),
            OpenRows::Columns(_, lines) | OpenRows::Lines(lines) => {
                lines.extend_from_slice(text);
                lines.push(b'\n');
            }
        }
        self.order.push(OrderedRow { row: Row { table: u32::try_from(own).unwrap_or(u32::MAX), ..row }, day });
        Ok(())
    }

    /// Adds the record straight from its bytes if nothing about it is unusual; whether it did.
    fn add_direct(&mut self, place: Place, text: &[u8], max_depth: usize) -> Option<()> {
        let number = self.folder.or_else(|| self.router.guess(text))?;
        let table = self.router.table(number)?;
        if !self.wanted.takes(&table.name) || self.is_over(table) {
            return None;
        }
        let own = self.open(number).ok()?;
        let OpenRows::Columns(shredder, _) = &mut self.tables.get_mut(own)?.rows else { return None };
        let found = shredder.append_direct(text, max_depth)?;
        let (day, identity) = match self.router.decide(&found, text, self.folder) {
            Routed::Row(route) if route.table == number => (route.day, route.identity),
            // It is another table's, or none's.
            _ => {
                shredder.drop_row();
                return None;
            }
        };
        shredder.keep();
        self.counts.read += 1;
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let row = Row { table: 0, length, original_length: length, place, identity, is_repaired: false };
        self.keep(own, text, row, day).ok()
    }

    /// Whether the run has as many event tables as it may, and this is none of them.
    fn is_over(&self, table: &RoutedTable) -> bool {
        table.is_event && self.shared.closed.get().is_some_and(|open| !open.contains(table.name.as_ref()))
    }

    fn rejected(&mut self, place: Place, reason: Reason, original: &[u8], hint: Option<&'static str>) {
        if self.wanted.accounts_for_all() {
            self.counts.read += 1;
            self.rejects.push(Rejected::new(self.first, place, reason, original.len(), hint.is_some()));
        }
    }
}

impl Visit for Pass<'_> {
    fn direct(&mut self, place: Place, text: &[u8], max_depth: usize) -> bool {
        self.failure.is_none() && self.shared.format == Format::Parquet && self.add_direct(place, text, max_depth).is_some()
    }

    fn record(&mut self, place: Place, tape: &mut Tape, text: &[u8], repaired: bool, original: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        match self.router.route(tape, text, self.folder) {
            Routed::Filtered => {
                if self.wanted.accounts_for_all() {
                    self.counts.read += 1;
                    self.counts.filtered += 1;
                }
            }
            Routed::Reject(reason) => {
                if self.wanted.accounts_for_all() {
                    self.counts.repaired += u64::from(repaired);
                    self.rejected(place, reason, original, None);
                }
            }
            Routed::Row(route) => {
                let Some(table) = self.router.table(route.table) else { return };
                if !self.wanted.takes(&table.name) {
                    return;
                }
                self.counts.repaired += u64::from(repaired);
                if self.is_over(table) {
                    return self.rejected(place, Reason::TooManyTables, original, None);
                }
                self.counts.read += 1;
                let row = Row {
                    table: 0,
                    length: u32::try_from(text.len()).unwrap_or(u32::MAX),
                    original_length: u32::try_from(original.len()).unwrap_or(u32::MAX),
                    place,
                    identity: route.identity,
                    is_repaired: repaired,
                };
                if let Err(error) = self.add(route.table, tape, text, route.time, row, route.day) {
                    self.failure = Some(error);
                }
            }
        }
    }

    fn reject(&mut self, place: Place, reason: Reason, original: &[u8], hint: Option<&'static str>) {
        self.rejected(place, reason, original, hint);
    }
}
