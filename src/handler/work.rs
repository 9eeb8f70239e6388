//! The work queue: a trigger's runs become messages, and each message one run whose end decides what becomes of the message.
//!
//! A message is acknowledged when nothing more is to come of it: its run is done, goes on by a message of its own, or lies among the
//! dead letters. Else it comes back: after a growing delay where time may mend what failed, or by itself where the invocation died.

use std::time::Duration;

use super::job::{Job, Why};
use super::{Invocation, Turn, Watcher, answer::one_line, drive, named, noted};
use crate::domain::error::{Error, Kind, Result};
use crate::domain::settings::Settings;
use crate::run::answer::{RunAnswer, RunOutcome};
use crate::run::due::Due;
use crate::store::lanes::{LANES, bounded};
use crate::store::queue::{Bury, Enqueue, Hold, LONGEST_DELAY, LONGEST_VISIBILITY, Message};

/// How long a message waits that comes back for the first time; each further time it is twice as long, up to [`LONGEST_DELAY`]. With the
/// template's `maxReceiveCount` of 100 a message comes back for a day: 15 minutes for the first four, then four times an hour.
const FIRST_DELAY: Duration = Duration::from_mins(1);
/// How long after an invocation's deadline its message comes back, if the invocation died.
const GRACE: Duration = Duration::from_mins(1);

/// Sends a message for each run of `turns`, those of one destination one after the other: the first alone, which knows what comes after
/// it. A run is answered `queued`, or failed where the queue did not take it.
pub(super) async fn queue_up(
    queue: &(impl Enqueue + Sync),
    turns: &[Turn<'_>],
    force: Option<&str>,
    scheduled: bool,
) -> Vec<RunAnswer> {
    let mut jobs: Vec<Job> = Vec::new();
    for turn in turns.iter().filter(|turn| !turn.is_paused && turn.unread.is_none()) {
        match jobs.iter_mut().find(|job| job.destination == turn.destination.name) {
            Some(job) => job.then.push(turn.day),
            None => jobs.push(Job::of(&turn.run(), force, scheduled)),
        }
    }
    // Each destination fails alone.
    let sent = bounded(&jobs, LANES, |job| async move { Ok((job, send(queue, job, Duration::ZERO).await)) }).await;
    let sent = sent.unwrap_or_default();
    let answer = |turn: &Turn<'_>| {
        let id = turn.run();
        if turn.is_paused {
            return RunAnswer::bare(&id, RunOutcome::Paused);
        }
        let of_destination = sent.iter().find(|(job, _)| job.destination == id.destination);
        match (&turn.unread, of_destination) {
            (Some(error), _) | (None, Some((_, Err(error)))) => RunAnswer::failed(&id, error),
            _ => RunAnswer::bare(&id, RunOutcome::Queued),
        }
    };
    turns.iter().map(answer).collect()
}

/// What came of a message.
pub(super) struct Taken {
    /// The run's answer; none where the message is no job.
    pub(super) answer: Option<RunAnswer>,
    /// Whether nothing more is to come of the message: else it comes back.
    pub(super) is_done: bool,
}

/// Makes the run that a message asks for, and sees to what becomes of the message.
///
/// `run` makes a run, forced by the id that it is given. Needs to send to the queue and its dead letters, and to change visibilities.
pub(super) async fn take<Q: Enqueue + Hold + Bury + Sync>(
    queue: &Q,
    settings: &Settings,
    message: &Message,
    invocation: &Invocation,
    watcher: &dyn Watcher,
    run: impl AsyncFn(&Turn<'_>, Option<&str>) -> RunAnswer,
) -> Taken {
    let job = match Job::read(&message.body, &message.id) {
        Ok(job) => job,
        Err(error) => {
            tracing::error!(kind = %error.kind(), "{}", one_line(&error.to_string()));
            return Taken { answer: None, is_done: bury_as_it_is(queue, message, &error).await };
        }
    };
    let destination = match named(&job.destination, &settings.destinations) {
        Ok(destination) => destination,
        Err(error) => return settle(queue, &job, message, RunAnswer::failed(&job.run(), &error)).await,
    };
    if message.receives > 1 && !job.then.is_empty() {
        // It came before, and nobody sent what comes after it: whoever had it died, or found the destination busy. From now on it blocks
        // no other day.
        return part(queue, &job, message).await;
    }
    if let Some(left) = invocation.millis_left() {
        // If this invocation dies the message comes back soon, and not after the queue's own visibility.
        let held = (Duration::from_millis(left) + GRACE).min(LONGEST_VISIBILITY);
        hold(queue, message, held).await;
    }
    let is_paused = !destination.enabled && job.scheduled;
    let turn = Turn { destination, day: job.date, why: Due::Own, is_paused, unread: None };
    let margin = settings.run.margin_millis();
    let made = drive(&[turn], margin, invocation, watcher, async |turn: &Turn<'_>| run(turn, job.force_id()).await).await;
    let Some(answer) = made.into_iter().next() else { return Taken { answer: None, is_done: false } };
    settle(queue, &job, message, answer).await
}

/// What becomes of a message whose run has answered.
async fn settle<Q: Enqueue + Hold + Bury + Sync>(queue: &Q, job: &Job, message: &Message, mut answer: RunAnswer) -> Taken {
    let kind = answer.error.as_ref().map(|error| Kind::from_name(error.kind).unwrap_or(Kind::Bug));
    let settled = match (answer.state, kind) {
        (RunOutcome::Continued, _) => send(queue, job, Duration::ZERO).await,
        (RunOutcome::Busy, _) => {
            hold(queue, message, delay_after(message.receives)).await;
            return Taken { answer: Some(answer), is_done: false };
        }
        (_, Some(Kind::Retryable)) if job.then.is_empty() => {
            hold(queue, message, delay_after(message.receives)).await;
            return Taken { answer: Some(answer), is_done: false };
        }
        // A message can't be changed: another takes its place, and what comes after it goes on.
        (_, Some(Kind::Retryable)) => send_on(queue, job, Some(delay_after(message.receives))).await,
        (_, Some(_)) => match bury(queue, job, &answer).await {
            Ok(()) => send_on(queue, job, None).await,
            Err(error) => Err(error),
        },
        // All days of a paused destination rest.
        (RunOutcome::Paused, None) => Ok(()),
        (_, None) => send_on(queue, job, None).await,
    };
    let is_done = settled.is_ok();
    if let Err(error) = settled {
        tracing::warn!(destination = job.destination, date = %job.date, "the message comes back by itself: {error}");
        answer.notes.push(format!("the work queue did not take what comes after it: {error}"));
    }
    Taken { answer: Some(answer), is_done }
}

/// Sends a message for the job alone, and one for what comes after it.
async fn part<Q: Enqueue + Sync>(queue: &Q, job: &Job, message: &Message) -> Taken {
    let parted = send_on(queue, job, Some(Duration::ZERO)).await;
    if let Err(error) = &parted {
        tracing::warn!(message = message.id, "the message comes back by itself: {error}");
    }
    let note = "queued anew, so that the days after it do not wait for it";
    Taken { answer: Some(noted(&job.run(), RunOutcome::Queued, note)), is_done: parted.is_ok() }
}

/// Sends the job alone, if it is to be tried again after `delay`, and the next.
async fn send_on(queue: &(impl Enqueue + Sync), job: &Job, delay: Option<Duration>) -> Result<()> {
    if let Some(delay) = delay {
        send(queue, &job.alone(), delay).await?;
    }
    match job.next() {
        Some(next) => send(queue, &next, Duration::ZERO).await,
        None => Ok(()),
    }
}

async fn send(queue: &(impl Enqueue + Sync), job: &Job, delay: Duration) -> Result<()> {
    queue.send(&job.body()?, delay).await.map(|_| ())
}

/// Sends a run that goes on to the queue, for an invocation that did not come from there.
pub(super) async fn go_on(queue: &(impl Enqueue + Sync), turn: &Turn<'_>, force: Option<&str>) -> Result<()> {
    send(queue, &Job::of(&turn.run(), force, false), Duration::ZERO).await
}

async fn bury(queue: &(impl Bury + Sync), job: &Job, answer: &RunAnswer) -> Result<()> {
    let dead = Job { error: answer.error.as_ref().map(Why::of), ..job.alone() };
    queue.bury(&dead.body()?).await
}

/// Sends a message that is no job to the dead letters, with what is wrong with it; whether they took it.
async fn bury_as_it_is(queue: &(impl Bury + Sync), message: &Message, error: &Error) -> bool {
    let dead = serde_json::json!({
        "message": message.body,
        "error": { "kind": error.kind().name(), "message": one_line(&error.to_string()) },
    });
    let buried = queue.bury(&dead.to_string()).await;
    if let Err(error) = &buried {
        tracing::warn!(message = message.id, "the message comes back by itself: {error}");
    }
    buried.is_ok()
}

/// Lets a message come back after `delay`. Where that fails it comes back when its visibility ends.
async fn hold(queue: &(impl Hold + Sync), message: &Message, delay: Duration) {
    let failure = match queue.change_visibility(&[(message.receipt.clone(), delay)]).await {
        Ok(failed) => failed.first().map(ToString::to_string),
        Err(error) => Some(error.to_string()),
    };
    if let Some(failure) = failure {
        tracing::warn!(message = message.id, "the message's visibility stays as it is: {failure}");
    }
}

/// How long a message waits that was received so often.
fn delay_after(receives: u32) -> Duration {
    FIRST_DELAY.saturating_mul(1 << receives.saturating_sub(1).min(10)).min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests;
