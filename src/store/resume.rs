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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::domain::error::Kind;
    use crate::store::memory::MemoryBucket;
    use crate::store::operation::Operation;
    use crate::store::ports::List;

    async fn read_all<R: Read + Send + Sync>(body: &mut ResumingBody<R>) -> (Vec<u8>, Option<Error>) {
        let mut bytes = Vec::new();
        loop {
            match body.next().await {
                Some(Ok(piece)) => bytes.extend_from_slice(&piece),
                Some(Err(error)) => return (bytes, Some(error)),
                None => return (bytes, None),
            }
        }
    }

    async fn bucket_with(body: &[u8]) -> (MemoryBucket, ObjectInfo) {
        let bucket = MemoryBucket::new();
        bucket.insert("d/a.json", body.to_vec());
        let object = bucket.list_all("d/").await.unwrap().remove(0);
        (bucket, object)
    }

    #[tokio::test]
    async fn a_body_that_breaks_everywhere_gives_the_same_bytes() {
        let bytes: Vec<u8> = (0..1000_u32).map(|n| (n % 251) as u8).collect();
        let (bucket, object) = bucket_with(&bytes).await;
        for every in [1, 7, 333, 999, 1000] {
            bucket.break_bodies_after(Some(every));
            let mut body = ResumingBody::new(&bucket, object.clone()).with_first_pause(Duration::ZERO);
            let (got, error) = read_all(&mut body).await;
            assert!(got == bytes && error.is_none(), "every {every}: {error:?}");
            assert!(body.next().await.is_none(), "the end stays the end");
        }
        let reads = bucket.calls().iter().filter(|call| call.operation == Operation::GetObject).count();
        assert_eq!(reads, 1000 + 143 + 4 + 2 + 1, "one request for each break, none too many");
    }

    #[tokio::test]
    async fn breaks_without_progress_end_with_an_error_that_names_the_object() {
        let (bucket, object) = bucket_with(b"0123456789").await;
        bucket.break_bodies_after(Some(0));
        let mut body = ResumingBody::new(&bucket, object).with_first_pause(Duration::ZERO);
        let (got, error) = read_all(&mut body).await;
        let error = error.unwrap();
        assert_eq!((got.len(), error.kind()), (0, Kind::Retryable));
        assert!(error.message().contains("`d/a.json` ended 6 times after 0 of the 10 bytes"), "{error}");
        assert_eq!(bucket.calls().len(), 1 + 6);
        assert!(body.next().await.is_none(), "an error ends it");
    }

    #[tokio::test]
    async fn an_object_that_changes_between_two_breaks_is_an_error_and_not_a_mixture() {
        let (bucket, object) = bucket_with(b"0123456789").await;
        bucket.break_bodies_after(Some(4));
        let mut body = ResumingBody::new(bucket.clone(), object).with_first_pause(Duration::ZERO);
        assert_eq!(body.next().await.unwrap().unwrap(), "0123");
        assert_eq!(body.position(), 4);
        bucket.insert("d/a.json", "abcdefghij");
        let error = body.next().await.unwrap().unwrap_err();
        assert!(error.message().contains("changed while it was read"), "{error}");
    }

    /// A store whose bodies are what is told, one after the other.
    struct Told(Mutex<Vec<Vec<&'static str>>>);

    struct ToldBody(Vec<&'static str>);

    impl Body for ToldBody {
        async fn next(&mut self) -> Option<Result<Bytes>> {
            if self.0.is_empty() { None } else { Some(Ok(Bytes::from(self.0.remove(0)))) }
        }
    }

    impl Read for Told {
        type Body = ToldBody;

        async fn read_from(&self, _: &str, _: u64, _: &str) -> Result<ToldBody> {
            let mut bodies = self.0.lock().unwrap();
            Ok(ToldBody(if bodies.is_empty() { Vec::new() } else { bodies.remove(0) }))
        }

        async fn read_small(&self, _: &str) -> Result<Option<(Bytes, String)>> {
            Ok(None)
        }
    }

    fn told(bodies: &[&[&'static str]], size: u64) -> ResumingBody<Told> {
        let store = Told(Mutex::new(bodies.iter().map(|body| body.to_vec()).collect()));
        let object = ObjectInfo { key: "d/a.json".to_owned(), size, etag: "\"e\"".to_owned() };
        ResumingBody::new(store, object).with_first_pause(Duration::ZERO)
    }

    #[tokio::test]
    async fn a_body_that_ends_early_without_saying_so_is_read_on_and_never_taken_for_whole() {
        let (got, error) = read_all(&mut told(&[&["0123"], &["", "45"], &["6789"]], 10)).await;
        assert_eq!((got.as_slice(), error.is_none()), (&b"0123456789"[..], true));
        let (got, error) = read_all(&mut told(&[&["0123"]], 10)).await;
        assert_eq!(got, b"0123");
        assert!(error.unwrap().message().contains("after 4 of the 10 bytes"));
    }

    #[tokio::test]
    async fn a_body_longer_than_was_listed_is_an_error() {
        let (got, error) = read_all(&mut told(&[&["0123", "4567", "89ab"]], 10)).await;
        assert_eq!(got, b"01234567");
        assert!(error.unwrap().message().contains("more bytes than the 10"));
    }
}
