//! Pieces of files become parts of multipart uploads; nothing of it is visible before the commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, OnceCell, Semaphore};

use super::scratch::{Scratch, ScratchFile};
use crate::domain::error::{Error, Result};
use crate::domain::layout::ObjectKey;
use crate::run::journal::OpenUpload;
use crate::store::checksum::Crc64Nvme;
use crate::store::ports::{Multipart, Part, Upload};

/// The least that S3 takes for a part that is not the last.
const LEAST_PART: u64 = 5 << 20;

/// A file of a stream, by the stream's number and the file's.
pub type FileId = (usize, u32);

/// What comes from the workers.
#[derive(Debug)]
pub enum ToSink {
    /// The next bytes of a file.
    Bytes(FileId, Vec<u8>),
    /// The file is complete, with that many rows.
    End(FileId, u64),
}

/// A file whose parts are all uploaded.
#[derive(Debug)]
pub struct UploadedFile {
    /// Which.
    pub id: FileId,
    /// All that completing it needs.
    pub upload: Upload,
    /// Its rows.
    pub rows: u64,
    /// When its upload was begun.
    pub created_millis: i64,
}

/// Notes uploads that were begun, before their first part is sent.
pub trait Recorder: Sync {
    /// Returns when the uploads are noted for good.
    fn record(&self, uploads: &[OpenUpload]) -> impl Future<Output = Result<()>> + Send;

    /// Does `work`, which begins an upload and notes it: nobody could abort one that was begun and not noted, so whoever gives the rest
    /// up lets this come to its end.
    fn to_its_end<T: Send>(&self, work: impl Future<Output = Result<T>> + Send) -> impl Future<Output = Result<T>> + Send {
        work
    }
}

/// How bytes wait and leave.
pub struct SinkRules<'a> {
    /// Bytes of a part.
    pub part_size: u64,
    /// Bytes that may wait in memory for full parts; beyond that the largest go to scratch.
    pub waiting_bytes: u64,
    /// Parts under way at once.
    pub lanes: usize,
    /// Where bytes wait.
    pub scratch: &'a Scratch,
    /// The media type of every file.
    pub content_type: &'a str,
    /// Bytes between the workers and S3, in memory.
    pub backlog: &'a AtomicU64,
    /// Milliseconds since 1970.
    pub now_millis: &'a (dyn Fn() -> i64 + Sync),
}

struct OpenFile {
    key: ObjectKey,
    begun: Arc<OnceCell<(String, i64)>>,
    /// Pieces as they came: joined once, when a part is full.
    waiting: Vec<Vec<u8>>,
    in_memory: u64,
    spilled: Option<ScratchFile>,
    next_part: i32,
    parts: Vec<Part>,
    under_way: usize,
    size: u64,
    checksum: Crc64Nvme,
    ended: Option<u64>,
}

impl OpenFile {
    fn waiting_bytes(&self) -> u64 {
        self.in_memory + self.spilled.as_ref().map_or(0, ScratchFile::length)
    }
}

/// Joins the records of uploads that begin at about the same time into one document.
struct Notes<'a, R> {
    recorder: &'a R,
    waiting: std::sync::Mutex<Vec<OpenUpload>>,
    turn: Mutex<()>,
}

impl<R: Recorder> Notes<'_, R> {
    async fn note(&self, upload: OpenUpload) -> Result<()> {
        let waiting = || self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        waiting().push(upload.clone());
        let _turn = self.turn.lock().await;
        let mine = std::mem::take(&mut *waiting());
        // Whoever had the turn before has written ours with its own.
        if mine.contains(&upload) { self.recorder.record(&mine).await } else { Ok(()) }
    }
}

/// Takes pieces until the channel closes, and returns the files in the order of their ids.
///
/// `key_of` gives each file's key. The first error ends it; uploads that were begun are recorded and left to the journal.
pub async fn run<M: Multipart + Sync, R: Recorder>(
    store: &M,
    recorder: &R,
    rules: &SinkRules<'_>,
    key_of: impl Fn(FileId) -> Result<ObjectKey>,
    on_room: impl Fn(),
    mut from: UnboundedReceiver<ToSink>,
) -> Result<Vec<UploadedFile>> {
    let notes = Notes { recorder, waiting: std::sync::Mutex::new(Vec::new()), turn: Mutex::new(()) };
    let lanes = Semaphore::new(rules.lanes);
    let mut open: HashMap<FileId, OpenFile> = HashMap::new();
    let mut done: Vec<UploadedFile> = Vec::new();
    let mut under_way = FuturesUnordered::new();
    let mut in_memory: u64 = 0;
    let mut closed = false;
    while !closed || !under_way.is_empty() {
        let message = tokio::select! {
            biased;
            Some(sent) = under_way.next(), if !under_way.is_empty() => {
                let (id, part, bytes): (FileId, Part, u64) = sent?;
                rules.backlog.fetch_sub(bytes, Ordering::Relaxed);
                on_room();
                let file = open.get_mut(&id).ok_or_else(lost_file)?;
                file.parts.push(part);
                file.under_way -= 1;
                if file.ended.is_some() && file.under_way == 0 {
                    let file = open.remove(&id).ok_or_else(lost_file)?;
                    done.push(close(id, file)?);
                }
                continue;
            }
            message = from.recv(), if !closed => message,
        };
        let Some(message) = message else {
            closed = true;
            continue;
        };
        let id = match &message {
            ToSink::Bytes(id, _) | ToSink::End(id, _) => *id,
        };
        let file = match open.entry(id) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(OpenFile {
                key: key_of(id)?,
                begun: Arc::new(OnceCell::new()),
                waiting: Vec::new(),
                in_memory: 0,
                spilled: None,
                next_part: 1,
                parts: Vec::new(),
                under_way: 0,
                size: 0,
                checksum: Crc64Nvme::new(),
                ended: None,
            }),
        };
        let mut ready: Vec<Bytes> = Vec::new();
        match message {
            ToSink::Bytes(_, bytes) => {
                in_memory += bytes.len() as u64;
                file.in_memory += bytes.len() as u64;
                file.waiting.push(bytes);
                if file.waiting_bytes() >= rules.part_size {
                    in_memory -= file.in_memory;
                    let whole = Bytes::from(take_waiting(file, rules)?);
                    let part = usize::try_from(rules.part_size).unwrap_or(usize::MAX);
                    let full = whole.len() - whole.len() % part;
                    ready.extend((0..full).step_by(part).map(|at| whole.slice(at..at + part)));
                    if full < whole.len() {
                        file.waiting.push(whole.slice(full..).to_vec());
                        file.in_memory = (whole.len() - full) as u64;
                        in_memory += file.in_memory;
                    }
                }
            }
            ToSink::End(_, rows) => {
                in_memory -= file.in_memory;
                let last = take_waiting(file, rules)?;
                if !last.is_empty() {
                    ready.push(Bytes::from(last));
                }
                file.ended = Some(rows);
            }
        }
        for body in ready {
            let number = file.next_part;
            file.next_part += 1;
            file.under_way += 1;
            file.size += body.len() as u64;
            file.checksum.update(&body);
            let (begun, key) = (Arc::clone(&file.begun), file.key.clone());
            let (lanes, notes) = (&lanes, &notes);
            under_way.push(async move {
                let _lane = lanes.acquire().await;
                let (upload_id, _) = begun
                    .get_or_try_init(|| {
                        notes.recorder.to_its_end(async {
                            let created = (rules.now_millis)();
                            let upload_id = store.create(key.as_str(), rules.content_type).await?;
                            notes.note(OpenUpload { key: key.as_str().to_owned(), id: upload_id.clone() }).await?;
                            Ok((upload_id, created))
                        })
                    })
                    .await?;
                let bytes = body.len() as u64;
                let part = store.part(key.as_str(), upload_id, number, body).await?;
                Ok::<_, Error>((id, part, bytes))
            });
        }
        if file.ended.is_some() && file.under_way == 0 {
            let file = open.remove(&id).ok_or_else(lost_file)?;
            done.push(close(id, file)?);
        }
        if in_memory > rules.waiting_bytes {
            in_memory -= spill(&mut open, rules)?;
            on_room();
        }
    }
    if let Some((_, file)) = open.iter().next() {
        return Err(Error::bug(format!("the file `{}` was never ended, please report it", file.key)));
    }
    done.sort_by_key(|file| file.id);
    Ok(done)
}

fn lost_file() -> Error {
    Error::bug("a part came for a file that is not open, please report it")
}

fn close(id: FileId, mut file: OpenFile) -> Result<UploadedFile> {
    file.parts.sort_by_key(|part| part.number);
    let (upload_id, created_millis) = file.begun.get().cloned().ok_or_else(lost_file)?;
    let upload = Upload {
        key: file.key.as_str().to_owned(),
        id: upload_id,
        parts: file.parts,
        size: file.size,
        checksum: Some(file.checksum.base64()),
    };
    Ok(UploadedFile { id, upload, rows: file.ended.unwrap_or_default(), created_millis })
}

/// All that waits of a file, what is on scratch first. The backlog counts it until its part is sent.
fn take_waiting(file: &mut OpenFile, rules: &SinkRules<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(file.waiting_bytes()).unwrap_or_default());
    if let Some(spilled) = &mut file.spilled {
        rules.backlog.fetch_add(spilled.length(), Ordering::Relaxed);
        rules.scratch.take(spilled, &mut bytes)?;
    }
    for piece in file.waiting.drain(..) {
        bytes.extend_from_slice(&piece);
    }
    file.in_memory = 0;
    Ok(bytes)
}

/// Moves the files that hold most in memory to scratch, until a half is free; how many bytes that was.
fn spill(open: &mut HashMap<FileId, OpenFile>, rules: &SinkRules<'_>) -> Result<u64> {
    let mut largest: Vec<(u64, FileId)> = open.iter().map(|(id, file)| (file.in_memory, *id)).collect();
    largest.sort_unstable_by(|a, b| b.cmp(a));
    let mut freed = 0;
    for (length, id) in largest {
        if freed >= rules.waiting_bytes / 2 || length == 0 {
            break;
        }
        let Some(file) = open.get_mut(&id) else { continue };
        if !rules.scratch.has_room(length) {
            return Err(Error::vendor(format!(
                "scratch is full: {} open files wait for full parts; give the function more ephemeral storage, raise `run.scratch_budget`, or lower `run.part_size` (at least {LEAST_PART} bytes)",
                open.len()
            )));
        }
        let pieces = std::mem::take(&mut file.waiting);
        file.in_memory = 0;
        let spilled = match &mut file.spilled {
            Some(spilled) => spilled,
            none => none.insert(rules.scratch.create()?),
        };
        for piece in pieces {
            rules.scratch.append(spilled, &piece)?;
        }
        rules.backlog.fetch_sub(length, Ordering::Relaxed);
        freed += length;
    }
    Ok(freed)
}
