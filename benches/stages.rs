//! Where a day's CPU seconds go: each stage of the pipeline by itself, on one thread, over the day's own objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, AsArray, RecordBatch, StructArray};
use bytes::Bytes;
use dayport::columns::pin::{decide, versioned};
use dayport::domain::format::Format;
use dayport::domain::run::{Day, Transfer};
use dayport::domain::settings::Settings;
use dayport::domain::table::TableName;
use dayport::files::parquet::{ParquetFile, ParquetSchema};
use dayport::files::roll::{Piece, Recipe, RollingFile, Rows};
use dayport::records::json::Tape;
use dayport::records::reader::{Place, Reader, Visit};
use dayport::records::route::{PartitionRule, Reason, Rules};
use dayport::run::export::book::SchemaBook;
use dayport::run::export::chunk::{ChunkReader, ChunkRules, ObjectRule, Wanted};
use dayport::run::export::dedupe::Dedupe;
use dayport::run::export::gather::{Gather, Step};
use dayport::run::export::held::Held;
use dayport::run::export::scratch::Scratch;
use dayport::run::export::unpack::Unpacker;
use dayport::store::ports::ObjectInfo;

/// CPU seconds by stage.
#[derive(Clone, Copy, Default)]
pub struct Stages {
    /// gzip to chunks of whole lines.
    pub unpack: f64,
    /// Checking every byte of them as UTF-8 and JSON.
    pub check: f64,
    /// Checking, routing and shredding into columns, or copying lines.
    pub shred: f64,
    /// Accounting for every record in input order.
    pub gather: f64,
    /// Joining columns to batches and encoding these, or gzip.
    pub encode: f64,
    /// Of this, encoding alone, from ready batches (Parquet).
    pub encode_ready: f64,
    /// Bytes that came out.
    pub bytes: u64,
}

impl Stages {
    /// The whole way of a record.
    pub fn all(&self) -> f64 {
        self.unpack + self.shred + self.gather + self.encode
    }

    /// The least that this work can cost with these libraries: unpacking, checking, and encoding what is ready.
    pub fn floor(&self) -> f64 {
        self.unpack + self.check + if self.encode_ready > 0.0 { self.encode_ready } else { self.encode }
    }
}

struct NoOne;

impl Visit for NoOne {
    fn record(&mut self, _: Place, _: &mut Tape, _: &[u8], _: bool, _: &[u8]) {}
    fn reject(&mut self, _: Place, _: Reason, _: &[u8], _: Option<&'static str>) {}
}

/// CPU seconds of this thread so far.
fn now() -> f64 {
    // The time on a processor in nanoseconds, as the scheduler counts it (proc(5)).
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn timed<T>(sum: &mut f64, work: impl FnOnce() -> T) -> T {
    let before = now();
    let done = work();
    *sum += now() - before;
    done
}

/// The objects of a folder, by name.
fn objects(folder: &Path) -> Vec<(ObjectInfo, Bytes)> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let object = |path: std::path::PathBuf| {
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let key = path.file_name().unwrap().to_str().unwrap().to_owned();
        (ObjectInfo { key, size: bytes.len() as u64, etag: String::new() }, bytes)
    };
    paths.into_iter().map(object).collect()
}

/// A table's batches for the encoder alone.
struct Ready {
    schema: ParquetSchema,
    waiting: Vec<StructArray>,
    file: Option<ParquetFile>,
}

impl Ready {
    fn end_batch(&mut self, stages: &mut Stages) {
        if self.waiting.is_empty() {
            return;
        }
        let pieces: Vec<&dyn Array> = self.waiting.iter().map(|rows| rows as &dyn Array).collect();
        let joined = arrow::compute::concat(&pieces).unwrap().as_struct().clone();
        self.waiting.clear();
        let batch = RecordBatch::try_new(Arc::clone(self.schema.arrow()), joined.columns().to_vec()).unwrap();
        let file = &mut self.file;
        let schema = &self.schema;
        timed(&mut stages.encode_ready, || {
            let file = file.get_or_insert_with(|| ParquetFile::create(schema, std::slice::from_ref(&batch)).unwrap());
            file.write(&batch).unwrap();
        });
    }

    fn end_row_group(&mut self, stages: &mut Stages) {
        self.end_batch(stages);
        if let Some(file) = &mut self.file {
            timed(&mut stages.encode_ready, || {
                file.end_row_group().unwrap();
                drop(file.take_bytes());
            });
        }
    }
}

struct Bench<'s> {
    settings: &'s Settings,
    format: Format,
    day: Day,
    objects: Vec<(ObjectInfo, Bytes)>,
}

impl Bench<'_> {
    fn rules(&self, book: &Arc<SchemaBook>) -> Arc<ChunkRules> {
        let staging = &self.settings.staging;
        Arc::new(ChunkRules {
            format: self.format,
            rules: Arc::new(Rules {
                event_field: staging.event_field.clone(),
                time_field: staging.time_field.clone(),
                table_field: None,
                organization: None,
                dedupe: None,
                tables: BTreeMap::new(),
                partition: PartitionRule::StagedDay,
                day: self.day,
            }),
            book: Arc::clone(book),
            closed: OnceLock::new(),
            max_depth: staging.max_depth,
            max_record_bytes: staging.max_record_len(),
        })
    }

    fn book(&self, pinned: HashMap<TableName, Arc<dayport::domain::schema::TableSchema>>) -> Arc<SchemaBook> {
        Arc::new(SchemaBook::new(pinned, self.settings, self.settings.destinations[0].layout, self.day))
    }

    /// Goes through the day. `is_whole` is false where only the evidence is wanted.
    fn go(&self, book: &Arc<SchemaBook>, is_whole: bool) -> (Gather, Stages) {
        let mut stages = Stages::default();
        let rules = self.rules(book);
        let infos: Vec<&ObjectInfo> = self.objects.iter().map(|(info, _)| info).collect();
        let max_record_bytes = self.settings.staging.max_record_bytes;
        let held = Held::new(&infos, max_record_bytes, false);
        let group = self.settings.parquet.row_group_size;
        let mut gather = Gather::new(Arc::clone(&rules), group, 1000, BTreeSet::new(), Dedupe::Off, held);
        let mut chunk_reader = ChunkReader::new(Arc::clone(&rules));
        let mut checker = Reader::new(self.settings.staging.max_depth, self.settings.staging.max_record_len());
        let rule = ObjectRule { folder: None, wanted: Wanted::AllBut(Arc::default()) };
        let mut files: Vec<(RollingFile, Option<Ready>)> = Vec::new();
        let mut spare = Vec::new();
        let scratch = Arc::new(Scratch::open(&std::env::temp_dir(), self.settings.run.scratch_budget).unwrap());
        for (at, (info, bytes)) in self.objects.iter().enumerate() {
            let mut unpacker = Unpacker::new(&self.settings.staging, &self.settings.run, info.size, Arc::clone(&scratch));
            let mut input = vec![bytes.clone()];
            let mut is_done = false;
            while !is_done {
                let mut chunks = Vec::new();
                unpacker.recycle(&mut spare);
                let input = std::mem::take(&mut input);
                is_done = timed(&mut stages.unpack, || unpacker.unpack(at, input, true, true, &mut chunks).unwrap());
                for chunk in chunks {
                    if is_whole {
                        timed(&mut stages.check, || chunk.read_by(&mut checker, &mut NoOne));
                    }
                    let rows = timed(&mut stages.shred, || chunk_reader.read(chunk, &rule).unwrap());
                    let mut steps = Vec::new();
                    let (_, buffer) =
                        timed(&mut stages.gather, || gather.take(rows, &mut |stream, step| steps.push((stream, step))).unwrap());
                    spare.push(buffer);
                    for (stream, step) in steps.into_iter().filter(|_| is_whole) {
                        while files.len() <= stream {
                            let table = &gather.streams()[files.len()].table;
                            files.push(self.file(book, table));
                        }
                        let (file, ready) = &mut files[stream];
                        match (ready, &step) {
                            (Some(ready), Step::Rows(Rows::Columns(rows))) => ready.waiting.push(rows.clone()),
                            (Some(ready), Step::EndBatch) => ready.end_batch(&mut stages),
                            (Some(ready), Step::EndRowGroup) => ready.end_row_group(&mut stages),
                            _ => {}
                        }
                        let mut out = Vec::new();
                        timed(&mut stages.encode, || match step {
                            Step::Rows(rows) => file.push(rows).unwrap(),
                            Step::Pack => file.pack().unwrap(),
                            Step::EndBatch => file.end_batch(&mut out).unwrap(),
                            Step::EndRowGroup => file.end_row_group(&mut out).unwrap(),
                        });
                        count(&out, &mut stages.bytes);
                    }
                }
            }
        }
        for (file, ready) in &mut files {
            let mut out = Vec::new();
            timed(&mut stages.encode, || file.finish(&mut out).unwrap());
            if let Some(ready) = ready {
                ready.end_row_group(&mut stages);
                if let Some(file) = ready.file.take() {
                    timed(&mut stages.encode_ready, || drop(file.finish().unwrap()));
                }
            }
            count(&out, &mut stages.bytes);
        }
        (gather, stages)
    }
    fn file(&self, book: &Arc<SchemaBook>, table: &TableName) -> (RollingFile, Option<Ready>) {
        if self.format == Format::Json {
            return (RollingFile::new(Recipe::Json, u64::MAX, 0), None);
        }
        let schema = &book.entry(table).unwrap().schema;
        let recipe = Recipe::parquet(schema, vec!["time".to_owned()], Transfer { started_millis: 0 }).unwrap();
        let schema = ParquetSchema::new(Arc::clone(schema.arrow()), ["time".to_owned()]).unwrap();
        (RollingFile::new(recipe, u64::MAX, 0), Some(Ready { schema, waiting: Vec::new(), file: None }))
    }
}

fn count(out: &[Piece], bytes: &mut u64) {
    for piece in out {
        if let Piece::Bytes(_, piece) = piece {
            *bytes += piece.len() as u64;
        }
    }
}

/// The stages of an ordinary day of these objects: its schemas are known.
pub fn of_day(folder: &Path, format: Format, settings: &Settings) -> Stages {
    let day: Day = "2026-01-15".parse().unwrap();
    let bench = Bench { settings, format, day, objects: objects(folder) };
    let mut pinned = HashMap::new();
    if format == Format::Parquet {
        let book = bench.book(HashMap::new());
        let (gather, _) = bench.go(&book, false);
        for (table, tally) in &gather.tables {
            let entry = book.entry(table).unwrap();
            let schema = decide(&entry.base, tally.evidence.as_ref().unwrap(), None, book.rescue_column(), day);
            pinned.insert(table.clone(), Arc::new(versioned(schema, None)));
        }
    }
    bench.go(&bench.book(pinned), true).1
}
