//! The worker threads: they unpack, shred, gather and encode, whatever is nearest to the end first.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::array::Array;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use super::chunk::{ChunkInput, ChunkReader, ChunkRows, ChunkRules, ObjectRule};
use super::gather::{Gather, Step, Stream, ToState};
use super::sink::ToSink;
use super::unpack::Unpacker;
use crate::domain::error::{Error, Result};
use crate::domain::table::TableName;
use crate::files::roll::{Piece, Recipe, RollingFile, Rows};

/// Staged bytes of one object that wait to be unpacked.
const INPUT_BYTES: usize = 512 << 10;
/// Chunks that the object that comes next may have in memory when there is no room for more.
const HEAD_CHUNKS: usize = 2;

/// Pieces of rows that wait for the end of their batch before they are handed to the stream's file, if they are not small.
const LOOSE_STEPS: usize = 15;
/// The same for small ones: they cost far more than what is in them until they are joined.
const SMALL_STEPS: usize = 3;
/// Rows under which a piece is small.
const SMALL_ROWS: usize = 64;

/// What the crew needs to know of a stream's files.
pub struct StreamPlan {
    /// How they are made.
    pub recipe: Recipe,
    /// Bytes at which a file ends.
    pub target: u64,
    /// The first file's number.
    pub first_file: u32,
}

/// Everything that is fixed for a shard.
pub struct CrewRules {
    /// How chunks are read.
    pub chunks: Arc<ChunkRules>,
    /// How each object is read, by its position.
    pub objects: Vec<ObjectRule>,
    /// The objects' keys, for messages.
    pub keys: Vec<String>,
    /// Objects that may be unpacked at once.
    pub most_objects: usize,
    /// Chunks that may be in memory at once.
    pub most_chunks: usize,
    /// Bytes that may be between the workers and S3.
    pub most_backlog: u64,
    /// A piece of a staged key at which a worker panics: a documented crash point, off unless set.
    pub panic_on_object: Option<String>,
}

/// The plan of a stream, by table.
pub type StreamPlanner = dyn Fn(&TableName) -> Result<StreamPlan> + Send + Sync;

/// What is in memory, shared by the workers and the tasks that read and write S3.
pub struct Crew {
    rules: CrewRules,
    planner: Box<StreamPlanner>,
    state: Mutex<State>,
    wake: Condvar,
    /// Told whenever there is room for more input.
    room: Notify,
    sink: Mutex<Option<UnboundedSender<ToSink>>>,
    to_state: Mutex<Option<UnboundedSender<ToState>>>,
    backlog: Arc<AtomicU64>,
    unpacker: Box<dyn Fn(usize) -> Unpacker + Send + Sync>,
    /// Buffers of chunks that are done with: memory that is used again needs no clearing by the system.
    spare: Mutex<Vec<Vec<u8>>>,
}

#[derive(Default)]
struct ObjectState {
    input: VecDeque<Bytes>,
    input_bytes: usize,
    is_complete: bool,
    /// Taken while a worker unpacks.
    unpacker: Option<Box<Unpacker>>,
    is_begun: bool,
    is_done: bool,
    /// Its chunks that are not gathered yet.
    chunks: usize,
}

struct StreamState {
    of: Stream,
    steps: VecDeque<Step>,
    is_ready: bool,
    is_queued: bool,
    is_busy: bool,
    /// Its open file is to end now, whatever its size.
    must_end: bool,
    writer: Option<Box<RollingFile>>,
}

struct State {
    objects: Vec<ObjectState>,
    /// The object and the chunk that come next in input order.
    next: (usize, u32),
    first_unfinished: usize,
    /// Objects that are begun and not done.
    begun: usize,
    ready: BTreeMap<(usize, u32), ChunkInput>,
    shredding: usize,
    unpacking: usize,
    results: BTreeMap<(usize, u32), ChunkRows>,
    chunks: usize,
    gather: Option<Box<Gather>>,
    streams: Vec<StreamState>,
    runnable: VecDeque<usize>,
    encoding: usize,
    is_finishing: bool,
    is_over: bool,
    failure: Option<Error>,
}

enum Task {
    Unpack(usize, Box<Unpacker>, Vec<Bytes>, bool, bool),
    Shred(ChunkInput),
    Gather(Box<Gather>, Vec<ChunkRows>),
    Encode(usize, Option<Box<RollingFile>>, Vec<Step>, bool),
}

impl Crew {
    /// A crew for one shard. Pieces of files go to `sink`, full parts of the quarantine and ids to `to_state`; all count in `backlog`.
    pub fn new(
        rules: CrewRules,
        planner: Box<StreamPlanner>,
        gather: Gather,
        unpacker: Box<dyn Fn(usize) -> Unpacker + Send + Sync>,
        sink: UnboundedSender<ToSink>,
        to_state: UnboundedSender<ToState>,
        backlog: Arc<AtomicU64>,
    ) -> Crew {
        let objects = rules.objects.iter().map(|_| ObjectState::default()).collect();
        let state = State {
            objects,
            next: (0, 0),
            first_unfinished: 0,
            begun: 0,
            ready: BTreeMap::new(),
            shredding: 0,
            unpacking: 0,
            results: BTreeMap::new(),
            chunks: 0,
            gather: Some(Box::new(gather)),
            streams: Vec::new(),
            runnable: VecDeque::new(),
            encoding: 0,
            is_finishing: false,
            is_over: false,
            failure: None,
        };
        Crew {
            rules,
            planner,
            state: Mutex::new(state),
            wake: Condvar::new(),
            room: Notify::new(),
            sink: Mutex::new(Some(sink)),
            to_state: Mutex::new(Some(to_state)),
            backlog,
            unpacker,
            spare: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands in the next staged bytes of an object; waits while enough of it is waiting. An empty piece is its end.
    pub async fn feed(&self, object: usize, bytes: Bytes) -> Result<()> {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            {
                let mut state = self.lock();
                if state.failure.is_some() || state.is_over {
                    return Err(Error::bug("the workers have ended"));
                }
                let Some(input) = state.objects.get_mut(object) else {
                    return Err(Error::bug("an object is unknown, please report it"));
                };
                if input.input_bytes < INPUT_BYTES || bytes.is_empty() {
                    if bytes.is_empty() {
                        input.is_complete = true;
                    } else {
                        input.input_bytes += bytes.len();
                        input.input.push_back(bytes);
                    }
                    drop(state);
                    self.wake.notify_all();
                    return Ok(());
                }
            }
            room.await;
        }
    }

    /// Ends the crew because something else failed.
    pub fn stop(&self, error: Error) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        drop(state);
        self.close();
    }

    /// Ends the crew because nobody wants its work any more.
    pub fn stop_quietly(&self) {
        self.lock().is_over = true;
        self.close();
    }

    /// Has a stream's open file end after what was gathered by now: there is no room for what waits of it.
    pub fn end_early(&self, at: usize) {
        let mut state = self.lock();
        if let Some(stream) = state.streams.get_mut(at) {
            (stream.is_ready, stream.must_end) = (true, true);
        }
        state.queue(at);
        drop(state);
        self.wake.notify_all();
    }

    /// Wakes workers that wait for room on the way to S3.
    pub fn wake(&self) {
        self.wake.notify_all();
    }

    /// Why the crew ended before its time, if it did.
    pub fn failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }

    /// What was gathered; once, after the workers have ended.
    pub fn gathered(&self) -> Option<Gather> {
        self.lock().gather.take().map(|gather| *gather)
    }

    /// The stream's table, sync mode and day, while files are being made.
    pub fn stream(&self, at: usize) -> Option<Stream> {
        self.lock().streams.get(at).map(|stream| stream.of.clone())
    }

    /// One worker's life; to be called on as many threads as there are to be workers.
    pub fn work(&self) {
        let mut reader = ChunkReader::new(Arc::clone(&self.rules.chunks));
        while let Some(task) = self.next_task() {
            let object = match &task {
                Task::Unpack(object, ..) => Some(*object),
                Task::Shred(input) => Some(input.object),
                Task::Gather(_, chunks) => chunks.first().map(|chunk| chunk.object),
                Task::Encode(..) => None,
            };
            let done = catch_unwind(AssertUnwindSafe(|| self.perform(task, &mut reader)));
            let error = match done {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(panic) => {
                    let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                    let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                    let key = object.and_then(|object| self.rules.keys.get(object)).map_or("a table's files", String::as_str);
                    Error::bug(format!("a worker panicked at `{key}`: {said}; nothing was committed, please report it"))
                }
            };
            self.stop(error);
        }
    }

    /// The next thing to do; `None` when all is done or something failed.
    fn next_task(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() || state.is_over {
                return None;
            }
            if let Some(task) = self.pick(&mut state) {
                return Some(task);
            }
            if state.is_idle() {
                if state.is_finishing {
                    state.is_over = true;
                    drop(state);
                    self.close();
                    return None;
                }
                state.begin_finish();
                continue;
            }
            // The backlog shrinks without this lock, so a wake-up can be missed; the wait is short.
            let waited = self.wake.wait_timeout(state, Duration::from_millis(100));
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }

    fn pick(&self, state: &mut State) -> Option<Task> {
        if let Some(at) = state.runnable.pop_front() {
            let is_finishing = state.is_finishing;
            if let Some(stream) = state.streams.get_mut(at) {
                (stream.is_queued, stream.is_ready, stream.is_busy) = (false, false, true);
                let ends = std::mem::take(&mut stream.must_end) || is_finishing;
                let steps = stream.steps.drain(..).collect();
                let writer = stream.writer.take();
                state.encoding += 1;
                return Some(Task::Encode(at, writer, steps, ends));
            }
        }
        if state.gather.is_some() && state.results.contains_key(&state.next) {
            let mut chunks = Vec::new();
            while let Some(chunk) = state.results.remove(&state.next) {
                if let Some(object) = state.objects.get_mut(chunk.object) {
                    object.chunks -= 1;
                }
                state.next = if chunk.last { (chunk.object + 1, 0) } else { (chunk.object, chunk.number + 1) };
                chunks.push(chunk);
            }
            return state.gather.take().map(|gather| Task::Gather(gather, chunks));
        }
        if let Some((_, input)) = state.ready.pop_first() {
            state.shredding += 1;
            return Some(Task::Shred(input));
        }
        if self.backlog.load(Ordering::Relaxed) > self.rules.most_backlog {
            return None;
        }
        let (head, chunks) = (state.next.0, state.chunks);
        for at in state.first_unfinished..state.objects.len() {
            let begun = state.begun;
            let Some(object) = state.objects.get_mut(at) else { break };
            // The object that comes next gets on however many chunks the others have, since all of those wait for it. No total would do:
            // workers that find room at the same time have more chunks between them than there was room for.
            let may = chunks < self.rules.most_chunks || (at == head && object.chunks < HEAD_CHUNKS);
            if !may {
                break;
            }
            if !object.is_begun {
                // Each costs a buffer, and more than one a worker gains nothing.
                if object.input.is_empty() && !object.is_complete || begun >= self.rules.most_objects {
                    break;
                }
                object.is_begun = true;
                object.unpacker = Some(Box::new((self.unpacker)(at)));
                state.begun = begun + 1;
            }
            if object.is_done
                || (object.input.is_empty()
                    && !object.is_complete
                    && !object.unpacker.as_ref().is_some_and(|unpacker| unpacker.has_more()))
            {
                continue;
            }
            // What can't be read in parts is read by one worker at a time, since its pages take memory.
            let waits = at != head
                && object.input.is_empty()
                && object.unpacker.as_ref().is_some_and(|unpacker| unpacker.waits_for_turn());
            if waits {
                continue;
            }
            let Some(unpacker) = object.unpacker.take() else { continue };
            let input: Vec<Bytes> = object.input.drain(..).collect();
            object.input_bytes = 0;
            let is_complete = object.is_complete;
            state.unpacking += 1;
            self.room.notify_waiters();
            return Some(Task::Unpack(at, unpacker, input, is_complete, at == head));
        }
        None
    }

    fn perform(&self, task: Task, reader: &mut ChunkReader) -> Result<()> {
        match task {
            Task::Unpack(at, unpacker, input, is_complete, is_turn) => self.unpack(at, unpacker, input, is_complete, is_turn),
            Task::Shred(input) => self.shred(input, reader),
            Task::Gather(gather, chunks) => self.gather(gather, chunks),
            Task::Encode(at, writer, steps, is_last) => self.encode(at, writer, steps, is_last),
        }
    }

    fn unpack(&self, at: usize, mut unpacker: Box<Unpacker>, input: Vec<Bytes>, is_complete: bool, is_turn: bool) -> Result<()> {
        let mut chunks = Vec::new();
        let key = self.rules.keys.get(at).map_or("", String::as_str);
        unpacker.recycle(&mut self.spare.lock().unwrap_or_else(PoisonError::into_inner));
        let is_done = unpacker
            .unpack(at, input, is_complete, is_turn, &mut chunks)
            .map_err(|error| error.context(format!("staged object `{key}`")))?;
        let mut state = self.lock();
        state.unpacking -= 1;
        state.begun -= usize::from(is_done);
        state.chunks += chunks.len();
        let given = chunks.len();
        for chunk in chunks {
            state.ready.insert((chunk.object, chunk.number), chunk);
        }
        if let Some(object) = state.objects.get_mut(at) {
            object.chunks += given;
            object.is_done = is_done;
            object.unpacker = (!is_done).then_some(unpacker);
        }
        while state.objects.get(state.first_unfinished).is_some_and(|object| object.is_done) {
            state.first_unfinished += 1;
        }
        drop(state);
        self.wake.notify_all();
        Ok(())
    }

    fn shred(&self, input: ChunkInput, reader: &mut ChunkReader) -> Result<()> {
        let object = input.object;
        let key = self.rules.keys.get(object).map_or("", String::as_str);
        let is_crash_point = self.rules.panic_on_object.as_deref().is_some_and(|part| key.contains(part));
        assert!(!is_crash_point, "the crash point `panic_on_object` is set");
        let Some(rule) = self.rules.objects.get(object) else {
            return Err(Error::bug("a chunk has no object, please report it"));
        };
        let rows = reader.read(input, rule)?;
        let mut state = self.lock();
        state.shredding -= 1;
        state.results.insert((rows.object, rows.number), rows);
        drop(state);
        self.wake.notify_all();
        Ok(())
    }

    fn gather(&self, mut gather: Box<Gather>, chunks: Vec<ChunkRows>) -> Result<()> {
        let mut steps: Vec<(usize, Step)> = Vec::new();
        let count = chunks.len();
        for chunk in chunks {
            let (parts, buffer) = gather.take(chunk, &mut |stream, step| steps.push((stream, step)))?;
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() < self.rules.most_objects {
                spare.push(buffer);
            }
            drop(spare);
            for part in parts {
                if let Some(sender) = &*self.to_state.lock().unwrap_or_else(PoisonError::into_inner) {
                    self.backlog.fetch_add(part.length(), Ordering::Relaxed);
                    // Nobody listens only when the run has failed already.
                    let _ = sender.send(part);
                }
            }
        }
        let mut state = self.lock();
        state.chunks -= count;
        let known = state.streams.len();
        state.streams.extend(gather.streams().iter().skip(known).map(|stream| StreamState {
            of: stream.clone(),
            steps: VecDeque::new(),
            is_ready: false,
            is_queued: false,
            is_busy: false,
            must_end: false,
            writer: None,
        }));
        for (at, step) in steps {
            if let Some(stream) = state.streams.get_mut(at) {
                // Rows alone are taken in when they are many pieces: joined, they are smaller.
                stream.is_ready |= match &step {
                    Step::Rows(Rows::Columns(rows)) if rows.len() < SMALL_ROWS => stream.steps.len() >= SMALL_STEPS,
                    Step::Rows(_) => stream.steps.len() >= LOOSE_STEPS,
                    Step::Pack | Step::EndBatch | Step::EndRowGroup => true,
                };
                stream.steps.push_back(step);
                state.queue(at);
            }
        }
        state.gather = Some(gather);
        drop(state);
        self.wake.notify_all();
        Ok(())
    }

    fn encode(&self, at: usize, writer: Option<Box<RollingFile>>, steps: Vec<Step>, is_last: bool) -> Result<()> {
        let mut writer = match writer {
            Some(writer) => writer,
            None => {
                let table = self
                    .stream(at)
                    .map(|stream| stream.table)
                    .ok_or_else(|| Error::bug("a stream is unknown, please report it"))?;
                let plan = (self.planner)(&table)?;
                Box::new(RollingFile::new(plan.recipe, plan.target, plan.first_file))
            }
        };
        let mut out = Vec::new();
        for step in steps {
            match step {
                Step::Rows(rows) => writer.push(rows)?,
                Step::Pack => writer.pack()?,
                Step::EndBatch => writer.end_batch(&mut out)?,
                Step::EndRowGroup => writer.end_row_group(&mut out)?,
            }
        }
        if is_last {
            writer.finish(&mut out)?;
        }
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for piece in out {
            let message = match piece {
                Piece::Bytes(file, bytes) => {
                    self.backlog.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    ToSink::Bytes((at, file), bytes)
                }
                Piece::End { file, rows } => ToSink::End((at, file), rows),
            };
            if let Some(sink) = &sink {
                let _ = sink.send(message);
            }
        }
        let mut state = self.lock();
        state.encoding -= 1;
        if let Some(stream) = state.streams.get_mut(at) {
            stream.is_busy = false;
            stream.writer = Some(writer);
        }
        state.queue(at);
        drop(state);
        self.wake.notify_all();
        Ok(())
    }

    fn close(&self) {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.to_state.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.wake.notify_all();
        self.room.notify_waiters();
    }
}

impl State {
    /// Makes a stream runnable if it has something to encode and nobody does.
    fn queue(&mut self, at: usize) {
        if let Some(stream) = self.streams.get_mut(at)
            && stream.is_ready
            && !stream.is_queued
            && !stream.is_busy
        {
            stream.is_queued = true;
            self.runnable.push_back(at);
        }
    }

    /// Whether everything that came was gathered and encoded.
    fn is_idle(&self) -> bool {
        self.first_unfinished == self.objects.len()
            && self.chunks == 0
            && self.gather.is_some()
            && self.encoding == 0
            && self.runnable.is_empty()
    }

    /// Has every stream end its last file.
    fn begin_finish(&mut self) {
        self.is_finishing = true;
        for at in 0..self.streams.len() {
            if let Some(stream) = self.streams.get_mut(at) {
                stream.is_ready = true;
            }
            self.queue(at);
        }
    }
}
