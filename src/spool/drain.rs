//! Draining a queue: long polls, several at once; what was received is held until it is durable, then deleted.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::intake::{Intake, Report};
use crate::domain::error::{Error, Result};
use crate::store::lanes::bounded;
use crate::store::ports::{List, Read, Write};
use crate::store::queue::{Acknowledge, Hold, MOST_AT_ONCE, Message, Receive};

/// How a queue is drained.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long a receive waits for a message. Any wait asks all of the queue's servers (a short poll may miss messages that are there); a
    /// longer one would only wait for messages that are not.
    pub wait: Duration,
    /// How long a received message stays invisible to others.
    pub visibility: Duration,
    /// How often that is begun anew while messages are held.
    pub extend_every: Duration,
    /// Requests at once.
    pub lanes: usize,
    /// Messages that are held at once, and written as one batch a day.
    pub most_messages: usize,
    /// Bytes of them.
    pub most_bytes: usize,
    /// How long messages are collected before they are written.
    pub round: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            wait: Duration::from_secs(2),
            visibility: Duration::from_mins(5),
            extend_every: Duration::from_mins(1),
            lanes: 8,
            most_messages: 2000,
            most_bytes: 16 << 20,
            round: Duration::from_mins(1),
        }
    }
}

/// Empties a queue into the spool.
///
/// Ends when nothing more is there, or nothing that was sent before `started_millis`: producers can't keep a run from its day. When
/// `is_time_over` says so before, it fails retryably, with all that was received either deleted or about to come back: a day must not be
/// planned without what the queue still holds. What could not be made durable is not deleted, and fails it too.
pub async fn drain<Q, S, V>(
    queue: &Q,
    intake: &Intake<'_, S, V>,
    pace: Pace,
    started_millis: i64,
    is_time_over: &(dyn Fn() -> bool + Sync),
) -> Result<Report>
where
    Q: Receive + Acknowledge + Hold + Sync,
    S: List + Sync,
    V: Read + Write + Sync,
{
    let mut report = Report::default();
    loop {
        if is_time_over() {
            return Err(Error::retryable(format!(
                "this invocation's time is over and the queue is not empty yet ({} messages were taken in), call again to go on",
                report.messages
            )));
        }
        let messages = collect(queue, pace, is_time_over).await?;
        let Some(last) = messages.iter().map(|message| message.sent_millis).min() else {
            // No time to look is not the same as nothing there.
            if is_time_over() {
                continue;
            }
            return Ok(report);
        };
        report.join(settle(queue, intake, pace, &messages).await?);
        if last > started_millis {
            return Ok(report);
        }
    }
}

/// Receives until enough is held, or nothing is there.
async fn collect(queue: &(impl Receive + Sync), pace: Pace, is_time_over: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Message>> {
    let held: Mutex<Vec<Message>> = Mutex::default();
    let (count, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (is_empty, is_round_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let is_enough = || {
        count.load(Ordering::Relaxed) + MOST_AT_ONCE > pace.most_messages.max(MOST_AT_ONCE)
            || bytes.load(Ordering::Relaxed) >= pace.most_bytes
            || is_empty.load(Ordering::Relaxed)
            || is_round_over.load(Ordering::Relaxed)
            || is_time_over()
    };
    let (held, count, bytes, is_empty, is_enough) = (&held, &count, &bytes, &is_empty, &is_enough);
    let round = async {
        tokio::time::sleep(pace.round).await;
        is_round_over.store(true, Ordering::Relaxed);
        // The lanes end by themselves, each with what it was given.
        std::future::pending::<()>().await;
    };
    let lanes = bounded(0..pace.lanes, pace.lanes, |_| async move {
        while !is_enough() {
            let received = queue.receive(MOST_AT_ONCE, pace.wait, pace.visibility).await?;
            if received.is_empty() {
                is_empty.store(true, Ordering::Relaxed);
                break;
            }
            count.fetch_add(received.len(), Ordering::Relaxed);
            bytes.fetch_add(received.iter().map(|message| message.body.len()).sum(), Ordering::Relaxed);
            held.lock().unwrap_or_else(PoisonError::into_inner).extend(received);
        }
        Ok(())
    });
    tokio::select! {
        biased;
        ended = lanes => ended.map(drop)?,
        () = round => {}
    }
    Ok(std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Makes messages durable, then deletes them; meanwhile nobody else gets them.
async fn settle<Q, S, V>(queue: &Q, intake: &Intake<'_, S, V>, pace: Pace, messages: &[Message]) -> Result<Report>
where
    Q: Acknowledge + Hold + Sync,
    S: List + Sync,
    V: Read + Write + Sync,
{
    let work = async {
        let outcome = intake.take(messages).await;
        let receipts: Vec<String> = messages
            .iter()
            .enumerate()
            .filter(|(at, _)| !outcome.failed.contains_key(at))
            .map(|(_, message)| message.receipt.clone())
            .collect();
        let batches: Vec<Vec<String>> = receipts.chunks(MOST_AT_ONCE).map(<[String]>::to_vec).collect();
        let deleted = bounded(batches, pace.lanes, |batch| async move { queue.delete(&batch).await }).await?;
        let left = deleted.iter().map(Vec::len).sum::<usize>();
        if let Some(first) = deleted.iter().flatten().next() {
            // They come again, and then they are known.
            tracing::warn!(messages = left, first = %first, "messages that are in the spool could not be deleted");
        }
        match outcome.failed.values().next() {
            None => Ok(outcome.report),
            Some(error) => {
                let count = outcome.failed.len();
                Err(Error::new(error.kind(), format!("{count} messages could not be spooled and will come again: {error}")))
            }
        }
    };
    tokio::select! {
        done = work => done,
        never = hold(queue, pace, messages) => match never {},
    }
}

/// Keeps messages invisible, for as long as it is polled.
async fn hold(queue: &(impl Hold + Sync), pace: Pace, messages: &[Message]) -> std::convert::Infallible {
    let changes: Vec<(String, Duration)> = messages.iter().map(|message| (message.receipt.clone(), pace.visibility)).collect();
    loop {
        tokio::time::sleep(pace.extend_every).await;
        // One that is deleted by now can't be held, and needs not be; one that comes back is known by then.
        if let Err(error) = queue.change_visibility(&changes).await {
            tracing::warn!(%error, "messages may come again before they are spooled");
        }
    }
}
