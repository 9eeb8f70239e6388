//! A queue's ports: one trait per permission, as those of a bucket.
//!
//! What they promise is what SQS's standard queues promise (Amazon SQS Developer Guide): a message may come twice, in any order, and comes
//! again when nobody deletes it within its visibility timeout. All methods retry what may succeed on a second try before they answer.
//! A queue is always ours, so a refusal is of kind `Vendor`, and what time may mend is `Retryable`.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::domain::error::Result;

/// The most messages that one request takes (SQS API Reference, `ReceiveMessage`, `DeleteMessageBatch`).
pub const MOST_AT_ONCE: usize = 10;
/// The longest that a receive waits for a first message (`WaitTimeSeconds`).
pub const LONGEST_POLL: Duration = Duration::from_secs(20);
/// The longest that a sent message is held back (`DelaySeconds`).
pub const LONGEST_DELAY: Duration = Duration::from_mins(15);
/// The longest that a message stays invisible, counted from its receipt (`VisibilityTimeout`).
pub const LONGEST_VISIBILITY: Duration = Duration::from_hours(12);

/// A message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The id that SQS gave it when it was sent; the same whenever it comes again.
    pub id: String,
    /// The handle of this receipt: what deletes it, or changes how long it stays invisible.
    pub receipt: String,
    /// What was sent.
    pub body: String,
    /// When it was sent (`SentTimestamp`): milliseconds since 1970.
    pub sent_millis: i64,
    /// How often it was received, this time included (`ApproximateReceiveCount`).
    pub receives: u32,
}

/// An entry of a batch that did not succeed, where the others did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedEntry {
    /// Its place among those that were asked for, from 0.
    pub index: usize,
    /// SQS's error code.
    pub code: String,
    /// What it said, in one line.
    pub message: String,
}

impl fmt::Display for FailedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: \"{}\"", self.code, self.message)
    }
}

/// `sqs:ReceiveMessage`.
pub trait Receive {
    /// Up to `most` (at most [`MOST_AT_ONCE`]) messages, in no order, invisible to others for `visibility`. With `wait` (at most
    /// [`LONGEST_POLL`]) it asks all of the queue's servers and answers as soon as there is a message; none means that none was there.
    fn receive(&self, most: usize, wait: Duration, visibility: Duration) -> impl Future<Output = Result<Vec<Message>>> + Send;
}

/// `sqs:DeleteMessage`.
pub trait Acknowledge {
    /// Deletes messages by the handles of their last receipts, however many; those that could not be deleted are answered, and come
    /// again.
    fn delete(&self, receipts: &[String]) -> impl Future<Output = Result<Vec<FailedEntry>>> + Send;
}

/// `sqs:ChangeMessageVisibility`.
pub trait Hold {
    /// Lets messages stay invisible for that much longer from now (whole seconds, at most [`LONGEST_VISIBILITY`]; zero gives a message
    /// back at once), however many; those for which it failed are answered.
    fn change_visibility(&self, changes: &[(String, Duration)]) -> impl Future<Output = Result<Vec<FailedEntry>>> + Send;
}

/// `sqs:SendMessage`.
pub trait Enqueue {
    /// Sends a message that can be received after `delay` (whole seconds, at most [`LONGEST_DELAY`]); its id. Where an answer was lost
    /// and the request was sent again there are two.
    fn send(&self, body: &str, delay: Duration) -> impl Future<Output = Result<String>> + Send;
}

/// `sqs:GetQueueAttributes`, and `sqs:SendMessage` on the queue of dead letters.
pub trait Bury {
    /// Sends a message to the queue's dead letters (its redrive policy names them). Fails with kind `Vendor` where it has none.
    fn bury(&self, body: &str) -> impl Future<Output = Result<()>> + Send;
}

/// All that a queue can be asked.
pub trait Queue: Receive + Acknowledge + Hold + Enqueue {}

impl<Q: Receive + Acknowledge + Hold + Enqueue> Queue for Q {}

/// The URL of another queue in the same account and region, such as a queue's dead letters (SQS Developer Guide: "The dead-letter queue
/// of a standard queue must also be a standard queue", in the same account and region).
#[must_use]
pub(super) fn url_beside(url: &str, arn: &str) -> Option<String> {
    let (folder, _) = url.trim_end_matches('/').rsplit_once('/')?;
    let name = arn.rsplit(':').next().filter(|name| !name.is_empty())?;
    Some(format!("{folder}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_beside_another_has_its_place_and_another_name() {
        let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/work";
        let beside = url_beside(url, "arn:aws:sqs:eu-central-1:123456789012:dead");
        assert_eq!(beside.as_deref(), Some("https://sqs.eu-central-1.amazonaws.com/123456789012/dead"));
        assert_eq!(url_beside(url, ""), None);
    }
}
