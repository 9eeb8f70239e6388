//! A queue in memory that answers as SQS's standard queues do, by a clock that a test turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::faults::{Fault, Faults};
use crate::domain::error::{Error, Result};
use crate::store::queue::{
    Acknowledge, Bury, Enqueue, FailedEntry, Hold, LONGEST_DELAY, LONGEST_POLL, LONGEST_VISIBILITY, MOST_AT_ONCE, Message,
    Receive,
};

/// One call, for tests that ask what was done and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueCall {
    /// A receive, and how many messages it gave.
    Receive(usize),
    /// Deletions, by message id.
    Delete(Vec<String>),
    /// Changes of visibility, by message id.
    ChangeVisibility(Vec<(String, Duration)>),
    /// A message that was sent.
    Send(String),
    /// A message that was sent to the dead letters.
    Bury(String),
}

/// A queue in memory. Clones are the same queue.
///
/// It keeps SQS's promises and lacks of promise as the ports state them: a message that was received comes back when its visibility
/// ends, under another receipt; an older receipt deletes nothing and says that it did; [`MemoryQueue::redeliver`] makes a message come
/// twice while it is held. Its clock stands until [`MemoryQueue::advance`]; a receive never waits.
#[derive(Clone, Debug)]
pub struct MemoryQueue {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    now_millis: i64,
    messages: Vec<Kept>,
    buried: Vec<String>,
    sent: u64,
    received: u64,
    calls: Vec<QueueCall>,
    faults: Faults,
    refused: Vec<String>,
}

#[derive(Debug)]
struct Kept {
    id: String,
    body: String,
    sent_millis: i64,
    receives: u32,
    visible_from: i64,
    receipt: Option<String>,
    is_deleted: bool,
}

impl MemoryQueue {
    /// An empty queue whose clock stands at `now_millis` since 1970.
    #[must_use]
    pub fn new(now_millis: i64) -> Self {
        let inner = Inner {
            now_millis,
            messages: Vec::new(),
            buried: Vec::new(),
            sent: 0,
            received: 0,
            calls: Vec::new(),
            faults: Faults::default(),
            refused: Vec::new(),
        };
        MemoryQueue { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Puts a message there that no call sent, as of now; its id.
    pub fn insert(&self, body: &str) -> String {
        let mut inner = self.lock();
        let now = inner.now_millis;
        inner.insert(body, now)
    }

    /// Turns the clock.
    pub fn advance(&self, by: Duration) {
        self.lock().now_millis += millis(by);
    }

    /// What the clock says: milliseconds since 1970.
    #[must_use]
    pub fn now_millis(&self) -> i64 {
        self.lock().now_millis
    }

    /// Lets a message be received once more although it is held: standard queues deliver at least once.
    pub fn redeliver(&self, id: &str) {
        let mut inner = self.lock();
        let now = inner.now_millis;
        for message in inner.messages.iter_mut().filter(|message| message.id == id) {
            message.visible_from = now;
            message.is_deleted = false;
        }
    }

    /// Bodies by id of the messages that are not deleted, in the order in which they were sent.
    #[must_use]
    pub fn messages(&self) -> Vec<(String, String)> {
        let inner = self.lock();
        let kept = inner.messages.iter().filter(|message| !message.is_deleted);
        kept.map(|message| (message.id.clone(), message.body.clone())).collect()
    }

    /// Bodies of the dead letters, in the order in which they were sent.
    #[must_use]
    pub fn buried(&self) -> Vec<String> {
        self.lock().buried.clone()
    }

    /// When a message can be received, as milliseconds since 1970; `None` for one that is deleted or never was.
    #[must_use]
    pub fn visible_from(&self, id: &str) -> Option<i64> {
        self.lock().messages.iter().find(|message| message.id == id && !message.is_deleted).map(|message| message.visible_from)
    }

    /// Every call so far that arrived, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<QueueCall> {
        self.lock().calls.clone()
    }

    /// The `nth` call from now (the next one is 1) fails, and the ones after it work.
    pub fn fail_on(&self, nth: usize, fault: Fault) {
        self.lock().faults.fail_on(nth, fault);
    }

    /// The `nth` call from now and all after it fail, until [`MemoryQueue::heal`].
    pub fn die_on(&self, nth: usize, fault: Fault) {
        self.lock().faults.die_on(nth, fault);
    }

    /// Batch entries of this message fail, each by itself, until [`MemoryQueue::heal`].
    pub fn refuse(&self, id: &str) {
        self.lock().refused.push(id.to_owned());
    }

    /// No more failures.
    pub fn heal(&self) {
        let mut inner = self.lock();
        inner.faults.heal();
        inner.refused.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `effect` happen, and notes the call that it was, unless a failure was told for it.
    fn call<T>(&self, what: &str, effect: impl FnOnce(&mut Inner) -> Result<(QueueCall, T)>) -> Result<T> {
        let mut inner = self.lock();
        let (number, fault) = inner.faults.call();
        if fault == Some(Fault::Before) {
            return Err(told(number, what, "was lost on its way"));
        }
        let (call, answer) = effect(&mut inner)?;
        inner.calls.push(call);
        if fault == Some(Fault::After) {
            return Err(told(number, what, "was done, and its answer was lost"));
        }
        Ok(answer)
    }
}

fn told(number: usize, what: &str, how: &str) -> Error {
    Error::retryable(format!("call {number} of the queue, to {what}, {how} as the test asked, call again"))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Inner {
    fn insert(&mut self, body: &str, visible_from: i64) -> String {
        self.sent += 1;
        let id = format!("00000000-0000-4000-8000-{:012}", self.sent);
        self.messages.push(Kept {
            id: id.clone(),
            body: body.to_owned(),
            sent_millis: self.now_millis,
            receives: 0,
            visible_from,
            receipt: None,
            is_deleted: false,
        });
        id
    }

    /// The message that a receipt belongs to: its place, and whether the receipt is its last.
    fn of_receipt(&self, receipt: &str) -> Option<(usize, bool)> {
        let (id, _) = receipt.split_once('#')?;
        let index = self.messages.iter().position(|message| message.id == id)?;
        let is_last = self.messages.get(index).is_some_and(|message| message.receipt.as_deref() == Some(receipt));
        Some((index, is_last))
    }

    fn fails(&self, index: usize, message: usize) -> Option<FailedEntry> {
        let id = &self.messages.get(message)?.id;
        self.refused.contains(id).then(|| failed(index, "InternalError", "as the test asked"))
    }
}

fn failed(index: usize, code: &str, message: &str) -> FailedEntry {
    FailedEntry { index, code: code.to_owned(), message: message.to_owned() }
}

/// The place of an entry whose receipt was never given.
fn unknown(index: usize) -> FailedEntry {
    failed(index, "ReceiptHandleIsInvalid", "The specified receipt handle isn't valid.")
}

impl Receive for MemoryQueue {
    async fn receive(&self, most: usize, wait: Duration, visibility: Duration) -> Result<Vec<Message>> {
        self.call("receive", |inner| {
            if !(1..=MOST_AT_ONCE).contains(&most) || wait > LONGEST_POLL || visibility > LONGEST_VISIBILITY {
                return Err(Error::bug("a receive asked for what SQS does not take, please report it"));
            }
            let now = inner.now_millis;
            let mut received = Vec::new();
            for message in &mut inner.messages {
                if received.len() == most {
                    break;
                }
                if message.is_deleted || message.visible_from > now {
                    continue;
                }
                inner.received += 1;
                let receipt = format!("{}#{}", message.id, inner.received);
                message.receives += 1;
                message.visible_from = now + millis(visibility);
                message.receipt = Some(receipt.clone());
                received.push(Message {
                    id: message.id.clone(),
                    receipt,
                    body: message.body.clone(),
                    sent_millis: message.sent_millis,
                    receives: message.receives,
                });
            }
            Ok((QueueCall::Receive(received.len()), received))
        })
    }
}

impl Acknowledge for MemoryQueue {
    async fn delete(&self, receipts: &[String]) -> Result<Vec<FailedEntry>> {
        self.call("delete", |inner| {
            let mut deleted = Vec::new();
            let mut failures = Vec::new();
            for (index, receipt) in receipts.iter().enumerate() {
                let Some((at, is_last)) = inner.of_receipt(receipt) else {
                    failures.push(unknown(index));
                    continue;
                };
                if let Some(failure) = inner.fails(index, at) {
                    failures.push(failure);
                } else if let Some(message) = inner.messages.get_mut(at).filter(|_| is_last) {
                    message.is_deleted = true;
                    deleted.push(message.id.clone());
                }
            }
            Ok((QueueCall::Delete(deleted), failures))
        })
    }
}

impl Hold for MemoryQueue {
    async fn change_visibility(&self, changes: &[(String, Duration)]) -> Result<Vec<FailedEntry>> {
        self.call("change the visibility", |inner| {
            let now = inner.now_millis;
            let mut changed = Vec::new();
            let mut failures = Vec::new();
            for (index, (receipt, visibility)) in changes.iter().enumerate() {
                let Some((at, _)) = inner.of_receipt(receipt) else {
                    failures.push(unknown(index));
                    continue;
                };
                if let Some(failure) = inner.fails(index, at) {
                    failures.push(failure);
                    continue;
                }
                match inner.messages.get_mut(at) {
                    Some(message) if !message.is_deleted && message.visible_from > now => {
                        message.visible_from = now + millis(*visibility);
                        changed.push((message.id.clone(), *visibility));
                    }
                    _ => failures.push(failed(index, "MessageNotInflight", "The specified message isn't in flight.")),
                }
            }
            Ok((QueueCall::ChangeVisibility(changed), failures))
        })
    }
}

impl Enqueue for MemoryQueue {
    async fn send(&self, body: &str, delay: Duration) -> Result<String> {
        self.call("send", |inner| {
            if delay > LONGEST_DELAY || body.is_empty() {
                return Err(Error::bug("a message was sent that SQS does not take, please report it"));
            }
            let visible_from = inner.now_millis + millis(delay);
            let id = inner.insert(body, visible_from);
            Ok((QueueCall::Send(id.clone()), id))
        })
    }
}

impl Bury for MemoryQueue {
    async fn bury(&self, body: &str) -> Result<()> {
        self.call("bury", |inner| {
            inner.buried.push(body.to_owned());
            Ok((QueueCall::Bury(body.to_owned()), ()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_768_478_400_000;
    const HELD: Duration = Duration::from_secs(30);

    async fn received(queue: &MemoryQueue) -> Vec<Message> {
        queue.receive(MOST_AT_ONCE, LONGEST_POLL, HELD).await.unwrap()
    }

    #[tokio::test]
    async fn a_message_is_held_from_others_until_its_visibility_ends_or_is_given_up() {
        let queue = MemoryQueue::new(NOW);
        let id = queue.send("one", Duration::from_secs(5)).await.unwrap();
        assert_eq!(received(&queue).await, [], "it is delayed");
        queue.advance(Duration::from_secs(5));
        let first = received(&queue).await.remove(0);
        assert_eq!((first.id.as_str(), first.body.as_str(), first.sent_millis, first.receives), (&*id, "one", NOW, 1));
        assert_eq!(received(&queue).await, []);
        let failures = queue.change_visibility(&[(first.receipt.clone(), 2 * HELD)]).await.unwrap();
        assert_eq!(failures, []);
        queue.advance(HELD);
        assert_eq!(received(&queue).await, [], "it is held for longer");
        queue.change_visibility(&[(first.receipt.clone(), Duration::ZERO)]).await.unwrap();
        let second = received(&queue).await.remove(0);
        assert_eq!((second.id.as_str(), second.receives), (&*id, 2));
        assert_eq!(queue.delete(&[first.receipt]).await.unwrap(), [], "an older receipt is said to have deleted");
        assert_eq!(queue.messages().len(), 1, "and has not");
        queue.delete(std::slice::from_ref(&second.receipt)).await.unwrap();
        assert_eq!(queue.messages(), []);
        let late = queue.change_visibility(&[(second.receipt, HELD)]).await.unwrap();
        assert_eq!(late[0].code, "MessageNotInflight");
    }

    #[tokio::test]
    async fn entries_fail_one_by_one_and_calls_before_or_after_their_effect() {
        let queue = MemoryQueue::new(NOW);
        let ids: Vec<String> = ["a", "b", "c"].map(|body| queue.insert(body)).to_vec();
        let receipts: Vec<String> = received(&queue).await.into_iter().map(|message| message.receipt).collect();
        queue.refuse(&ids[1]);
        let failures = queue.delete(&[receipts[0].clone(), receipts[1].clone(), "nonsense".to_owned()]).await.unwrap();
        let said: Vec<(usize, &str)> = failures.iter().map(|failure| (failure.index, failure.code.as_str())).collect();
        assert_eq!(said, [(1, "InternalError"), (2, "ReceiptHandleIsInvalid")]);
        queue.heal();
        queue.fail_on(1, Fault::Before);
        queue.fail_on(2, Fault::After);
        for left in [2, 1] {
            assert!(queue.delete(&receipts[1..2]).await.is_err());
            assert_eq!(queue.messages().len(), left);
        }
        queue.redeliver(&ids[1]);
        assert_eq!(received(&queue).await[0].id, ids[1], "a deleted message may come once more, too");
        assert_eq!(queue.calls().first(), Some(&QueueCall::Receive(3)));
        queue.die_on(1, Fault::Before);
        for _ in 0..2 {
            assert!(queue.send("d", Duration::ZERO).await.is_err());
        }
    }
}
