//! Many calls at once, but never more than a bound.

use std::collections::BTreeMap;
use std::future::Future;
use std::iter::Enumerate;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use crate::domain::error::{Error, Result};

/// How many requests to a bucket run at once where nothing else bounds them.
pub const LANES: usize = 16;

/// Runs `work` on every item, at most `limit` at once, and answers in the items' order.
///
/// After a failure no further item is begun, those that were are waited for, and the worst failure is returned (of equally bad ones the
/// first in the items' order).
pub fn bounded<T, F, R, W>(items: impl IntoIterator<Item = T>, limit: usize, work: W) -> Bounded<T, F, R, W>
where
    F: Future<Output = Result<R>>,
    W: FnMut(T) -> F,
{
    // A type of its own, and not an `async fn`, so that the items' iterator is no part of what is awaited: closures in it would keep
    // the caller's future from moving between threads.
    let waiting = items.into_iter().collect::<Vec<T>>().into_iter().enumerate();
    Bounded { waiting, limit: limit.max(1), work, running: Vec::new(), done: BTreeMap::new(), failures: Vec::new() }
}

/// The work of [`bounded`]; does nothing unless it is awaited.
#[must_use = "nothing happens unless it is awaited"]
pub struct Bounded<T, F, R, W> {
    waiting: Enumerate<IntoIter<T>>,
    limit: usize,
    work: W,
    running: Vec<(usize, Pin<Box<F>>)>,
    done: BTreeMap<usize, R>,
    failures: Vec<(usize, Error)>,
}

impl<T, F, R, W> Future for Bounded<T, F, R, W>
where
    T: Unpin,
    F: Future<Output = Result<R>>,
    R: Unpin,
    W: FnMut(T) -> F + Unpin,
{
    type Output = Result<Vec<R>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Bounded { waiting, limit, work, running, done, failures } = self.get_mut();
        loop {
            while failures.is_empty() && running.len() < *limit {
                let Some((index, item)) = waiting.next() else { break };
                running.push((index, Box::pin(work(item))));
            }
            if running.is_empty() {
                failures.sort_by(|(a, left), (b, right)| right.kind().cmp(&left.kind()).then(a.cmp(b)));
                return Poll::Ready(match failures.drain(..).next() {
                    Some((_, error)) => Err(error),
                    None => Ok(std::mem::take(done).into_values().collect()),
                });
            }
            let before = running.len();
            running.retain_mut(|(index, future)| match future.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(Ok(value)) => {
                    done.insert(*index, value);
                    false
                }
                Poll::Ready(Err(error)) => {
                    failures.push((*index, error));
                    false
                }
            });
            if running.len() == before {
                return Poll::Pending;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::domain::error::Kind;

    #[tokio::test]
    async fn results_keep_the_order_and_the_bound_holds() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (now, most) = (&now, &most);
        let doubled = bounded(0..100_u64, 7, |item| async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..=(item % 5) {
                tokio::task::yield_now().await;
            }
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(item * 2)
        })
        .await
        .unwrap();
        assert_eq!(doubled, (0..100).map(|item| item * 2).collect::<Vec<u64>>());
        assert_eq!(most.load(Ordering::SeqCst), 7);
    }

    #[tokio::test]
    async fn after_a_failure_nothing_is_begun_and_the_worst_is_told() {
        let begun = AtomicUsize::new(0);
        let begun_ref = &begun;
        let error = bounded(0..100, 4, |item| async move {
            begun_ref.fetch_add(1, Ordering::SeqCst);
            match item {
                1 => Err(Error::retryable("slow down")),
                2 => Err(Error::customer("denied")),
                _ => Ok(item),
            }
        })
        .await
        .unwrap_err();
        assert_eq!(error.kind(), Kind::Customer);
        assert!(begun.load(Ordering::SeqCst) <= 8, "{begun:?}");
    }
}
