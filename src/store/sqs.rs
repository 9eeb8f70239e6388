//! SQS behind the ports of a queue: the only place that builds its requests or reads its errors.

mod errors;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, MessageSystemAttributeName,
    QueueAttributeName,
};

use self::errors::refused;
use super::queue::{Acknowledge, Bury, Enqueue, FailedEntry, Hold, MOST_AT_ONCE, Message, Receive, url_beside};
use super::s3::{Cause, plain};
use crate::domain::error::{Error, Result};

/// What is asked of a queue, and the permission that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Receive,
    Delete,
    ChangeVisibility,
    Send,
    Describe,
}

impl Action {
    /// The IAM action (Service Authorization Reference, "Actions defined by Amazon SQS": a batch needs its single operation's).
    fn permission(self) -> &'static str {
        match self {
            Action::Receive => "sqs:ReceiveMessage",
            Action::Delete => "sqs:DeleteMessage",
            Action::ChangeVisibility => "sqs:ChangeMessageVisibility",
            Action::Send => "sqs:SendMessage",
            Action::Describe => "sqs:GetQueueAttributes",
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Action::Receive => "receive from",
            Action::Delete => "delete messages of",
            Action::ChangeVisibility => "change the visibility of messages of",
            Action::Send => "send to",
            Action::Describe => "read the attributes of",
        }
    }
}

/// One queue of SQS, or of a service that speaks its API. Clones share the connection.
#[derive(Clone)]
pub struct SqsQueue {
    client: Client,
    url: Arc<str>,
}

impl fmt::Debug for SqsQueue {
    /// What it is, without the client: the SDK shows the key id of the credentials that it keeps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqsQueue").field("url", &self.url).finish_non_exhaustive()
    }
}

impl SqsQueue {
    /// The queue at `url` through `client`.
    #[must_use]
    pub fn new(client: Client, url: &str) -> Self {
        SqsQueue { client, url: Arc::from(url) }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    fn error<E>(&self, action: Action, error: &SdkError<E, HttpResponse>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        refused(action, &self.url, &Cause::read(error))
    }

    /// What can't be: an answer without what SQS's API promises.
    fn odd_answer(&self, what: &str) -> Error {
        Error::retryable(format!("the queue `{}` {what}, call again and check the endpoint if it lasts", plain(&self.url)))
    }

    fn read_message(&self, message: aws_sdk_sqs::types::Message) -> Result<Message> {
        let attribute = |name| message.attributes().and_then(|attributes| attributes.get(&name));
        let sent = attribute(MessageSystemAttributeName::SentTimestamp).and_then(|sent| sent.parse().ok());
        let receives = attribute(MessageSystemAttributeName::ApproximateReceiveCount).and_then(|count| count.parse().ok());
        let (Some(sent_millis), Some(receives)) = (sent, receives) else {
            return Err(self.odd_answer("gave a message without `SentTimestamp` or `ApproximateReceiveCount`"));
        };
        let (Some(id), Some(receipt), Some(body)) = (message.message_id, message.receipt_handle, message.body) else {
            return Err(self.odd_answer("gave a message without id, receipt or body"));
        };
        Ok(Message { id, receipt, body, sent_millis, receives })
    }
}

/// The region in a queue's URL, where it is one of AWS's: `https://sqs.REGION.amazonaws.com/…`, its FIPS and VPC forms, and the older
/// `https://REGION.queue.amazonaws.com/…` (AWS General Reference, "Amazon SQS endpoints and quotas").
#[must_use]
pub fn region_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let host = rest.split(['/', ':']).next()?;
    if !(host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn")) {
        return None;
    }
    let labels: Vec<&str> = host.split('.').collect();
    let label_at = |index: usize| labels.get(index).copied();
    let is_service = |label: &&str| matches!(*label, "sqs" | "sqs-fips");
    let region = match labels.iter().position(is_service) {
        Some(index) => label_at(index + 1),
        None => {
            labels.iter().position(|label| *label == "queue").filter(|index| *index > 0).and_then(|index| label_at(index - 1))
        }
    };
    region.filter(|region| region.contains('-'))
}

/// Whole seconds, as SQS counts; a part of one is a whole one.
fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)
}

/// The failed entries of a batch that began at `first`.
fn failures(entries: &[BatchResultErrorEntry], first: usize) -> impl Iterator<Item = FailedEntry> + '_ {
    entries.iter().map(move |entry| FailedEntry {
        index: first + entry.id().parse::<usize>().unwrap_or(0),
        code: plain(entry.code()),
        message: plain(entry.message().unwrap_or_default()),
    })
}

fn unbuilt(error: &aws_sdk_sqs::error::BuildError) -> Error {
    Error::bug("an entry of a batch could not be built, please report it").with_source(error.to_string())
}

impl Receive for SqsQueue {
    async fn receive(&self, most: usize, wait: Duration, visibility: Duration) -> Result<Vec<Message>> {
        let answer = self
            .client
            .receive_message()
            .queue_url(&*self.url)
            .max_number_of_messages(i32::try_from(most).unwrap_or(i32::MAX))
            .wait_time_seconds(seconds(wait))
            .visibility_timeout(seconds(visibility))
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .send()
            .await
            .map_err(|error| self.error(Action::Receive, &error))?;
        answer.messages.unwrap_or_default().into_iter().map(|message| self.read_message(message)).collect()
    }
}

impl Acknowledge for SqsQueue {
    async fn delete(&self, receipts: &[String]) -> Result<Vec<FailedEntry>> {
        let mut failed = Vec::new();
        for (batch, first) in receipts.chunks(MOST_AT_ONCE).zip((0..).step_by(MOST_AT_ONCE)) {
            let entry = |(id, receipt): (usize, &String)| {
                DeleteMessageBatchRequestEntry::builder().id(id.to_string()).receipt_handle(receipt).build()
            };
            let entries: Result<Vec<_>, _> = batch.iter().enumerate().map(entry).collect();
            let entries = entries.map_err(|error| unbuilt(&error))?;
            let request = self.client.delete_message_batch().queue_url(&*self.url).set_entries(Some(entries));
            let answer = request.send().await.map_err(|error| self.error(Action::Delete, &error))?;
            failed.extend(failures(answer.failed(), first));
        }
        Ok(failed)
    }
}

impl Hold for SqsQueue {
    async fn change_visibility(&self, changes: &[(String, Duration)]) -> Result<Vec<FailedEntry>> {
        let mut failed = Vec::new();
        for (batch, first) in changes.chunks(MOST_AT_ONCE).zip((0..).step_by(MOST_AT_ONCE)) {
            let entry = |(id, (receipt, visibility)): (usize, &(String, Duration))| {
                ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(id.to_string())
                    .receipt_handle(receipt)
                    .visibility_timeout(seconds(*visibility))
                    .build()
            };
            let entries: Result<Vec<_>, _> = batch.iter().enumerate().map(entry).collect();
            let entries = entries.map_err(|error| unbuilt(&error))?;
            let request = self.client.change_message_visibility_batch().queue_url(&*self.url).set_entries(Some(entries));
            let answer = request.send().await.map_err(|error| self.error(Action::ChangeVisibility, &error))?;
            failed.extend(failures(answer.failed(), first));
        }
        Ok(failed)
    }
}

impl Enqueue for SqsQueue {
    async fn send(&self, body: &str, delay: Duration) -> Result<String> {
        let request = self.client.send_message().queue_url(&*self.url).message_body(body).delay_seconds(seconds(delay));
        let answer = request.send().await.map_err(|error| self.error(Action::Send, &error))?;
        answer.message_id.ok_or_else(|| self.odd_answer("took a message and gave it no id"))
    }
}

impl Bury for SqsQueue {
    async fn bury(&self, body: &str) -> Result<()> {
        let request = self.client.get_queue_attributes().queue_url(&*self.url).attribute_names(QueueAttributeName::RedrivePolicy);
        let answer = request.send().await.map_err(|error| self.error(Action::Describe, &error))?;
        let policy = answer.attributes().and_then(|attributes| attributes.get(&QueueAttributeName::RedrivePolicy));
        let dead_letters = policy.and_then(|policy| dead_letters_of(&self.url, policy)).ok_or_else(|| {
            Error::vendor(format!(
                "the queue `{}` has no dead-letter queue, give it one by its redrive policy, as the template does",
                plain(&self.url)
            ))
        })?;
        SqsQueue::new(self.client.clone(), &dead_letters).send(body, Duration::ZERO).await.map(|_| ())
    }
}

/// The URL of the dead letters that a `RedrivePolicy` names.
fn dead_letters_of(url: &str, policy: &str) -> Option<String> {
    let policy: serde_json::Value = serde_json::from_str(policy).ok()?;
    url_beside(url, policy.get("deadLetterTargetArn")?.as_str()?)
}
