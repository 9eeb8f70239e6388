//! Bodies between the wire and files, in bounded memory: a batch is written or read while the next one travels.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use s3s::dto::StreamingBlob;
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{S3Result, StdError, s3_error};
use tokio::task::JoinHandle;

use super::checksum::{Algorithm, Digests, Hasher};
use super::disk::{Disk, Temporary};
use super::failure;

/// Bytes that are written or read at once; three batches of a body are in memory at most.
const BATCH: usize = 512 * 1024;

/// The largest body of one request (S3 user guide, "Uploading objects"): 5 GiB.
const LARGEST_BODY: u64 = 5 * 1024 * 1024 * 1024;

/// How much of a refused body is read and dropped, so that the client gets to read the answer.
const DRAINED: u64 = 64 * 1024 * 1024;

/// A body that lies in a file in progress.
pub(super) struct Received {
    pub(super) file: Temporary,
    /// Bytes.
    pub(super) size: u64,
    pub(super) digests: Digests,
}

struct Sink {
    temporary: Temporary,
    file: File,
    hasher: Hasher,
    size: u64,
}

impl Sink {
    fn open(disk: &Disk, bucket: &str, algorithm: Option<Algorithm>) -> S3Result<Self> {
        let (temporary, file) = disk.temporary(bucket)?;
        Ok(Self { temporary, file, hasher: Hasher::new(algorithm), size: 0 })
    }

    fn write(&mut self, batch: &[Bytes]) -> S3Result<()> {
        for bytes in batch {
            self.hasher.update(bytes);
            self.file.write_all(bytes).map_err(|error| failure::internal("write a body", &error))?;
            self.size += bytes.len() as u64;
        }
        Ok(())
    }
}

/// Writes a body to a file in progress. `length` is what the request says that it holds.
///
/// # Errors
///
/// `EntityTooLarge`, `IncompleteBody`, what the signature of the body says, or `InternalError`.
pub(super) async fn receive(
    disk: &Arc<Disk>,
    bucket: &str,
    body: Option<StreamingBlob>,
    length: Option<i64>,
    algorithm: Option<Algorithm>,
) -> S3Result<Received> {
    let length = length.map(|length| u64::try_from(length).unwrap_or(u64::MAX));
    if length.is_some_and(|length| length > LARGEST_BODY) {
        drain(body).await;
        return Err(too_large());
    }
    let mut sink = {
        let (disk, bucket) = (Arc::clone(disk), bucket.to_owned());
        tokio::task::spawn_blocking(move || Sink::open(&disk, &bucket, algorithm))
    };
    let mut batches = Batches { body };
    let mut received = 0;
    while let Some(batch) = batches.next().await? {
        received += batch.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        if received > LARGEST_BODY {
            return Err(too_large());
        }
        let mut open = match joined(sink).await {
            Ok(open) => open,
            Err(error) => {
                drain(batches.body).await;
                return Err(error);
            }
        };
        sink = tokio::task::spawn_blocking(move || {
            open.write(&batch)?;
            Ok(open)
        });
    }
    let sink = joined(sink).await?;
    if length.is_some_and(|length| length != sink.size) {
        return Err(failure::incomplete_body());
    }
    Ok(Received { file: sink.temporary, size: sink.size, digests: sink.hasher.finish() })
}

/// Reads a body to its end and drops it: an answer that comes while the client still sends is lost to it.
pub(super) async fn drain(body: Option<StreamingBlob>) {
    let mut batches = Batches { body };
    let mut dropped = 0;
    while let Ok(Some(batch)) = batches.next().await {
        dropped += batch.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        if dropped > DRAINED {
            return;
        }
    }
}

fn too_large() -> s3s::S3Error {
    s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size")
}

async fn joined(sink: JoinHandle<S3Result<Sink>>) -> S3Result<Sink> {
    match sink.await {
        Ok(sink) => sink,
        Err(error) => Err(failure::internal("write a body", &io::Error::other(error))),
    }
}

/// A body in pieces of at least [`BATCH`] bytes, but for the last.
struct Batches {
    body: Option<StreamingBlob>,
}

impl Batches {
    async fn next(&mut self) -> S3Result<Option<Vec<Bytes>>> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        let mut batch = Vec::new();
        let mut size = 0;
        while size < BATCH {
            let piece = std::future::poll_fn(|context| Pin::new(&mut *body).poll_next(context));
            match piece.await {
                Some(Ok(bytes)) => {
                    size += bytes.len();
                    batch.push(bytes);
                }
                Some(Err(error)) => return Err(failure::broken_body(error.as_ref())),
                None => break,
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }
}

/// The `length` bytes of `file` from `start` on, as the body of an answer.
///
/// # Errors
///
/// `InternalError` if the file can't be read. Blocks for a small body, which is read at once.
pub(super) fn send(mut file: File, start: u64, length: u64) -> S3Result<StreamingBlob> {
    let failed = |error: io::Error| failure::internal("read an object", &error);
    file.seek(SeekFrom::Start(start)).map_err(failed)?;
    let first = read_batch(&mut file, length).map_err(failed)?;
    Ok(StreamingBlob::new(FileBody { left: length, state: State::Read(file, first) }))
}

struct FileBody {
    /// Bytes that are not yet handed out.
    left: u64,
    state: State,
}

enum State {
    Read(File, Bytes),
    Reading(JoinHandle<io::Result<(File, Bytes)>>),
    Ended,
}

impl Stream for FileBody {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (mut file, bytes) = match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => return Poll::Ready(None),
            State::Read(file, bytes) => (file, bytes),
            State::Reading(mut reading) => match Pin::new(&mut reading).poll(context) {
                Poll::Pending => {
                    self.state = State::Reading(reading);
                    return Poll::Pending;
                }
                Poll::Ready(done) => match done.map_err(io::Error::other).flatten() {
                    Ok(read) => read,
                    Err(error) => {
                        tracing::error!(%error, "an object could not be read to its end");
                        return Poll::Ready(Some(Err(error.into())));
                    }
                },
            },
        };
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= bytes.len() as u64;
        let left = self.left;
        if left > 0 {
            self.state = State::Reading(tokio::task::spawn_blocking(move || {
                let bytes = read_batch(&mut file, left)?;
                Ok((file, bytes))
            }));
        }
        Poll::Ready(Some(Ok(bytes)))
    }
}

impl ByteStream for FileBody {
    fn remaining_length(&self) -> RemainingLength {
        usize::try_from(self.left).map_or_else(|_| RemainingLength::unknown(), RemainingLength::new_exact)
    }
}

/// The next bytes of `left`, [`BATCH`] of them or what is left.
fn read_batch(file: &mut File, left: u64) -> io::Result<Bytes> {
    let wanted = usize::try_from(left).unwrap_or(BATCH).min(BATCH);
    let mut bytes = Vec::with_capacity(wanted);
    file.take(wanted as u64).read_to_end(&mut bytes)?;
    if bytes.len() < wanted {
        // Somebody cut the file short by hand.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.into())
}
