//! Reading a listed object to its end, over as many broken connections as it takes.

use std::time::Duration;

use bytes::Bytes;

use super::ports::{Body, ObjectInfo, Read};
use crate::domain::error::{Error, Result};

/// How often a body may break in a row without a single new byte.
const MOST_TRIES_WITHOUT_PROGRESS: u32 = 6;

/// The bytes of one listed object, read on from where they broke.
///
/// Guarantees: all bytes that come out, in order, are those of the object that was listed (same ETag), each once; the end is
/// reported only when as many bytes came as were listed. A body that breaks, or ends early without saying so, is read on by a
/// ranged request; six breaks in a row without a new byte are an error that names the object. What [`Read::read_from`] refuses
/// (changed, vanished, no permission) is final: it has done its own retries.
#[derive(Debug)]
pub struct ResumingBody<R: Read> {
    store: R,
    object: ObjectInfo,
    at: u64,
    body: Option<R::Body>,
    tries_without_progress: u32,
    first_pause: Duration,
    over: bool,
}

impl<R: Read> ResumingBody<R> {
    /// The whole of `object`; nothing is asked for before the first [`Body::next`].
    pub fn new(store: R, object: ObjectInfo) -> Self {
        ResumingBody {
            store,
            object,
            at: 0,
            body: None,
            tries_without_progress: 0,
            first_pause: Duration::from_millis(200),
            over: false,
        }
    }

    /// The same with another pause after the first break without progress; it doubles with each further one.
    #[must_use]
    pub fn with_first_pause(mut self, pause: Duration) -> Self {
        self.first_pause = pause;
        self
    }

    /// How many bytes have come.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next piece, or why there is none; `None` at the right end.
    async fn step(&mut self) -> Option<Result<Bytes>> {
        loop {
            if self.at == self.object.size {
                return None;
            }
            let mut body = match self.body.take() {
                Some(body) => body,
                None => match self.store.read_from(&self.object.key, self.at, &self.object.etag).await {
                    Ok(body) => body,
                    Err(error) => return Some(Err(error)),
                },
            };
            match body.next().await {
                Some(Ok(piece)) if piece.is_empty() => self.body = Some(body),
                Some(Ok(piece)) => {
                    self.body = Some(body);
                    return Some(self.take_in(piece));
                }
                broken => {
                    if let Err(error) = self.before_next_try(broken.and_then(Result::err)).await {
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    fn take_in(&mut self, piece: Bytes) -> Result<Bytes> {
        let end = self.at + piece.len() as u64;
        if end > self.object.size {
            return Err(Error::retryable(format!(
                "`{}` has more bytes than the {} that were listed, call again to list it anew",
                self.object.key, self.object.size
            )));
        }
        self.at = end;
        self.tries_without_progress = 0;
        Ok(piece)
    }

    async fn before_next_try(&mut self, cause: Option<Error>) -> Result<()> {
        self.tries_without_progress += 1;
        if self.tries_without_progress < MOST_TRIES_WITHOUT_PROGRESS {
            tracing::debug!(key = self.object.key, at = self.at, "a body broke, it is read on");
            // The first break after new bytes is ordinary, and is read on at once.
            if self.tries_without_progress > 1 {
                tokio::time::sleep(self.first_pause * 2_u32.pow(self.tries_without_progress - 2)).await;
            }
            return Ok(());
        }
        let error = Error::retryable(format!(
            "`{}` ended {MOST_TRIES_WITHOUT_PROGRESS} times after {} of the {} bytes that were listed, call again",
            self.object.key, self.at, self.object.size
        ));
        Err(match cause {
            Some(cause) => error.with_source(cause),
            None => error,
        })
    }
}

impl<R: Read + Send> Body for ResumingBody<R>
where
    R: Sync,
{
    async fn next(&mut self) -> Option<Result<Bytes>> {
        if self.over {
            return None;
        }
        let step = self.step().await;
        self.over = !matches!(step, Some(Ok(_)));
        step
    }
}
