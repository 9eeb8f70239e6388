//! The lease on a destination's head: one holder, by conditional writes, judged by the watcher's own clock.
//!
//! A watcher takes a lease over when it has seen the head's ETag unchanged for a whole lease: from the end of the read that first saw
//! it to the beginning of the read that saw it last. A holder counts from the beginning of its last write, so it always knows first.

use std::collections::hash_map::RandomState;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use super::clock::Clock;
use super::document;
use super::head::{Begun, Head};
use super::journal;
use super::paths::Paths;
use crate::domain::error::{Error, Kind, Result};
use crate::domain::run::Day;
use crate::store::ports::{Condition, List, Put, Read, Write};

/// How often a conditional write is tried when something keeps getting between.
const TRIES: u32 = 20;

/// The pause after a lost conditional write: a 409 says that another write is on its way.
const PAUSE: Duration = Duration::from_millis(20);

/// A name that no other invocation has: 128 bits of the system's randomness, by way of the standard library's hash keys.
#[must_use]
pub fn nonce() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

/// What asking for the lease came to.
pub enum Acquired<'a, S, C> {
    /// It is ours.
    Held(Box<Lease<'a, S, C>>),
    /// Somebody else works on the destination: their nonce.
    Busy(String),
}

/// The lease, held. All methods take `&self`, so that one task can renew it while others work.
pub struct Lease<'a, S, C> {
    store: &'a S,
    clock: &'a C,
    paths: Paths,
    holder: String,
    length: Duration,
    held: Mutex<Held>,
}

struct Held {
    head: Head,
    etag: String,
    /// When the last successful write was begun.
    renewed: Duration,
    writes: u64,
    lost: bool,
}

/// Asks for the lease on a destination; waits at most one lease length for another holder.
///
/// `holder` is a nonce that no other invocation has.
pub async fn acquire<'a, S, C>(
    store: &'a S,
    clock: &'a C,
    paths: &Paths,
    length: Duration,
    holder: &str,
) -> Result<Acquired<'a, S, C>>
where
    S: Read + Write + Sync,
    C: Clock,
{
    let key = paths.head();
    let take = |head, etag, renewed, writes| {
        let held = Mutex::new(Held { head, etag, renewed, writes, lost: false });
        Acquired::Held(Box::new(Lease { store, clock, paths: paths.clone(), holder: holder.to_owned(), length, held }))
    };
    let begun = clock.now();
    let mut watched: Option<(String, Duration)> = None;
    let mut has_changed = false;
    let mut first_put: Option<Duration> = None;
    let mut failure: Option<Error> = None;
    let mut writes = 0_u64;
    while writes < u64::from(TRIES) {
        let asked = clock.now();
        let found = store.read_small(&key).await?;
        let seen = clock.now();
        let (current, condition) = match found {
            None => (Head::new(), Condition::Absent),
            Some((bytes, etag)) => (document::decode::<Head>(&key, &bytes)?, Condition::Unchanged(etag)),
        };
        if let (Some(other), Condition::Unchanged(etag)) = (current.holder.clone(), &condition) {
            if other == holder
                && let Some(put) = first_put
            {
                // Our own write, whose answer was lost.
                return Ok(take(current, etag.clone(), put, writes));
            }
            let since = match &watched {
                Some((before, since)) if before == etag => *since,
                before => {
                    has_changed |= before.is_some();
                    watched = Some((etag.clone(), seen));
                    seen
                }
            };
            let unchanged = asked.saturating_sub(since);
            if other != holder && unchanged < length {
                if has_changed && seen.saturating_sub(begun) >= length {
                    return Ok(Acquired::Busy(other));
                }
                let step = (length / 10).clamp(PAUSE, Duration::from_secs(5));
                clock.sleep(step.min(length.saturating_sub(unchanged))).await;
                continue;
            }
        }
        if let Some(error) = failure {
            // The answer was lost, and so was the write.
            return Err(error);
        }
        let started = clock.now();
        first_put.get_or_insert(started);
        let write = format!("{holder}-{writes}");
        writes += 1;
        let mut next = current;
        (next.destination, next.place) = (paths.destination().to_owned(), paths.place().to_owned());
        next.holder = Some(holder.to_owned());
        next.counter += 1;
        next.write = write;
        match store.put(&key, document::encode(&next)?, "application/json", &condition).await {
            Ok(Put::Done(etag)) => return Ok(take(next, etag, started, writes)),
            Ok(Put::Lost) => clock.sleep(PAUSE).await,
            Err(error) if error.kind() == Kind::Retryable => failure = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(Error::retryable(format!("the state document `{key}` could not be written, others kept writing it: try again")))
}

impl<'a, S, C> Lease<'a, S, C>
where
    S: Read + Write + Sync,
    C: Clock,
{
    /// The head as this holder last wrote it.
    pub async fn head(&self) -> Head {
        self.held.lock().await.head.clone()
    }

    /// This holder's nonce.
    #[must_use]
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// The state bucket.
    #[must_use]
    pub fn store(&self) -> &'a S {
        self.store
    }

    /// Where the destination's documents lie.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Whether somebody else has taken over: nothing more may be done.
    pub async fn is_lost(&self) -> bool {
        self.held.lock().await.lost
    }

    /// Changes the head, by a conditional write that also renews the lease.
    ///
    /// `change` may be called several times, each time on the head as it then is; where it fails nothing is written. After an error
    /// of the store the change may or may not have happened: it must be one that can be made again.
    pub async fn update<T>(&self, mut change: impl FnMut(&mut Head) -> Result<T> + Send) -> Result<T> {
        let mut held = self.held.lock().await;
        self.write(&mut held, &mut change).await
    }

    async fn write<T>(
        &self,
        held: &mut MutexGuard<'_, Held>,
        change: &mut (impl FnMut(&mut Head) -> Result<T> + Send),
    ) -> Result<T> {
        let key = self.paths.head();
        for _ in 0..TRIES {
            if held.lost {
                return Err(self.lost());
            }
            let mut next = held.head.clone();
            let value = change(&mut next)?;
            next.counter += 1;
            next.write = format!("{}-{}", self.holder, held.writes);
            held.writes += 1;
            let started = self.clock.now();
            let condition = Condition::Unchanged(held.etag.clone());
            let failure = match self.store.put(&key, document::encode(&next)?, "application/json", &condition).await {
                Ok(Put::Done(etag)) => {
                    (held.head, held.etag, held.renewed) = (next, etag, started);
                    return Ok(value);
                }
                Ok(Put::Lost) => None,
                Err(error) if error.kind() == Kind::Retryable => Some(error),
                Err(error) => return Err(error),
            };
            // Whose write stands? Perhaps our own, and only the answer was lost.
            let Some((bytes, etag)) = self.store.read_small(&key).await? else {
                held.lost = true;
                return Err(self.lost());
            };
            let standing: Head = document::decode(&key, &bytes)?;
            if standing.holder.as_deref() != Some(&self.holder) && standing.write != next.write {
                held.lost = true;
                return Err(self.lost());
            }
            let is_this_write = standing.write == next.write;
            (held.head, held.etag) = (standing, etag);
            if is_this_write {
                held.renewed = started;
                return Ok(value);
            }
            if let Some(error) = failure {
                return Err(error);
            }
            self.clock.sleep(PAUSE).await;
        }
        Err(Error::retryable(format!("the state document `{key}` could not be written, others kept writing it: try again")))
    }

    /// Renews the lease.
    pub async fn renew(&self) -> Result<()> {
        self.update(|_| Ok(())).await
    }

    /// Makes sure that the lease still is ours, before something that can't be taken back: renews it unless that was done within the
    /// last quarter of its length.
    pub async fn validate(&self) -> Result<()> {
        let mut held = self.held.lock().await;
        let age = self.clock.now().saturating_sub(held.renewed);
        if !held.lost && age < self.length / 4 {
            return Ok(());
        }
        self.write(&mut held, &mut |_| Ok(())).await
    }

    /// Renews the lease every third of its length, for as long as it is polled; ends only when the lease can't be kept.
    pub async fn keep(&self) -> Result<Infallible> {
        loop {
            self.clock.sleep(self.length / 3).await;
            if let Err(error) = self.renew().await {
                let held = self.held.lock().await;
                let age = self.clock.now().saturating_sub(held.renewed);
                // A state bucket that is slow for a moment is no reason to throw an export away: nobody can take over yet.
                if held.lost || error.kind() != Kind::Retryable || age >= self.length {
                    return Err(error);
                }
            }
        }
    }

    /// Does `work` while the lease is kept, then gives it back. Work is cut short where the lease can't be kept.
    pub async fn hold<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let done = tokio::select! {
            done = work => done,
            kept = self.keep() => match kept {
                Err(error) => Err(error),
                Ok(never) => match never {},
            },
        };
        let released = self.release().await;
        let done = done?;
        released?;
        Ok(done)
    }

    /// Gives the lease back. One that was lost is not ours to give, and that is fine.
    pub async fn release(&self) -> Result<()> {
        let released = self
            .update(|head| {
                head.holder = None;
                Ok(())
            })
            .await;
        let mut held = self.held.lock().await;
        let is_ours_to_give = !held.lost;
        held.lost = true;
        if is_ours_to_give { released } else { Ok(()) }
    }

    fn lost(&self) -> Error {
        taken_over(&self.paths)
    }
}

fn taken_over(paths: &Paths) -> Error {
    Error::retryable(format!(
        "another invocation took over destination `{}` while this one stalled, it goes on from what is recorded: nothing to do",
        paths.destination()
    ))
}

/// Fails if the head names another holder than `holder`. Whoever takes over later changes what was read before this, so that a
/// conditional write over it fails.
pub async fn check_holder(store: &(impl Read + Sync), paths: &Paths, holder: &str) -> Result<()> {
    let head: Option<Head> = document::read(store, &paths.head()).await?;
    if head.is_none_or(|head| head.holder.as_deref() == Some(holder)) { Ok(()) } else { Err(taken_over(paths)) }
}

impl<S, C> Lease<'_, S, C>
where
    S: List + Read + Write + Sync,
    C: Clock,
{
    /// [`Head::begin`], for days of which the head no longer knows that they were committed too.
    pub async fn begin(&self, day: Day, force: Option<&str>, now_millis: i64) -> Result<Begun> {
        let head = self.head().await;
        let is_unknown = !head.commits.contains_key(&day) && !head.open.contains_key(&day);
        let forgotten = if is_unknown && head.may_have_forgotten(day) {
            journal::last_commit(self.store, &self.paths, day).await?
        } else {
            None
        };
        // A plain trigger for a committed day writes nothing.
        let mut trial = head.clone();
        if let Some(done) = &forgotten {
            trial.commits.insert(day, done.clone());
        }
        let begun = trial.begin(day, force, now_millis);
        if !matches!(begun, Begun::Open(_)) {
            return Ok(begun);
        }
        self.update(|head| {
            if let Some(done) = &forgotten {
                head.commits.entry(day).or_insert_with(|| done.clone());
            }
            Ok(head.begin(day, force, now_millis))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testing::{World, day};
    use crate::store::memory::Fault;

    const LENGTH: Duration = Duration::from_mins(1);

    async fn held<'a>(
        world: &'a World,
        holder: &str,
    ) -> Box<Lease<'a, crate::store::memory::MemoryBucket, crate::run::testing::FakeClock>> {
        match acquire(&world.state, &world.clock, &world.paths(), LENGTH, holder).await.unwrap() {
            Acquired::Held(lease) => lease,
            Acquired::Busy(other) => panic!("busy: {other}"),
        }
    }

    #[tokio::test]
    async fn a_lost_answer_to_ones_own_write_is_recognised() {
        let world = World::new("permutive");
        // The lease itself: put is the second call, after the read.
        world.state.fail_on(2, Fault::After);
        let lease = held(&world, "a").await;
        world.state.fail_on(1, Fault::After);
        let begun = lease.update(|head| Ok(head.begin(day("2026-01-15"), None, 1_000))).await.unwrap();
        assert!(matches!(begun, Begun::Open(_)));
        assert_eq!(lease.head().await, world.head());
        world.state.fail_on(1, Fault::Before);
        assert_eq!(lease.renew().await.unwrap_err().kind(), Kind::Retryable);
        lease.renew().await.unwrap();
        assert!(!lease.is_lost().await);
    }

    #[tokio::test]
    async fn a_write_that_landed_late_is_built_upon_and_not_taken_for_anothers() {
        let world = World::new("permutive");
        let lease = held(&world, "a").await;
        // Both the answer and the reading back are lost.
        world.state.fail_on(1, Fault::After);
        world.state.fail_on(2, Fault::Before);
        lease.update(|head| Ok(head.begin(day("2026-01-15"), None, 1_000))).await.unwrap_err();
        lease.update(|head| Ok(head.begin(day("2026-01-16"), None, 1_000))).await.unwrap();
        assert_eq!(lease.head().await.open.len(), 2);
    }

    #[tokio::test]
    async fn a_failed_change_writes_nothing() {
        let world = World::new("permutive");
        let lease = held(&world, "a").await;
        let calls = world.state.call_count();
        let refused: Result<()> = lease.update(|_| Err(Error::vendor("no"))).await;
        assert!(refused.is_err());
        assert_eq!(world.state.call_count(), calls);
    }

    #[tokio::test]
    async fn keeping_a_lease_outlasts_a_failed_renewal_and_ends_when_somebody_takes_over() {
        let world = World::new("permutive");
        let lease = held(&world, "a").await;
        world.state.fail_on(1, Fault::Before);
        let start = world.clock.now();
        tokio::select! {
            biased;
            ended = lease.keep() => panic!("{ended:?}"),
            () = async { while world.since(start) < LENGTH * 5 { tokio::task::yield_now().await; } } => {}
        }
        let taken = Head { holder: Some("b".into()), write: "b-0".into(), ..world.head() };
        world.state.insert(&world.paths().head(), document::encode(&taken).unwrap());
        let error = lease.keep().await.unwrap_err();
        assert!(error.to_string().contains("took over"), "{error}");
    }

    #[tokio::test]
    async fn keeping_a_lease_ends_once_it_may_have_run_out() {
        let world = World::new("permutive");
        let lease = held(&world, "a").await;
        let start = world.clock.now();
        world.state.die_on(1, Fault::Before);
        lease.keep().await.unwrap_err();
        assert_eq!(world.since(start), LENGTH);
    }

    #[tokio::test]
    async fn validating_writes_only_when_the_last_write_is_old() {
        let world = World::new("permutive");
        let lease = held(&world, "a").await;
        let calls = world.state.call_count();
        lease.validate().await.unwrap();
        assert_eq!(world.state.call_count(), calls);
        world.clock.advance(LENGTH / 4);
        lease.validate().await.unwrap();
        assert_eq!(world.state.call_count(), calls + 1);
    }

    #[tokio::test]
    async fn a_committed_day_that_the_head_forgot_is_found_and_not_run_again() {
        let world = World::new("permutive");
        let staged = [("0.json", vec![("t", 1)])];
        world.invoke("a", "2024-01-01", None, &staged).await.unwrap();
        world.invoke("b", "2024-01-01", Some("once"), &staged).await.unwrap();
        let lease = held(&world, "c").await;
        let first = day("2024-01-01");
        lease
            .update(|head| {
                let done = head.commits.remove(&first).unwrap();
                for number in 1..=i64::try_from(crate::run::head::KEPT_COMMITS).unwrap() {
                    head.commits.insert(first.plus_days(number), done.clone());
                }
                Ok(())
            })
            .await
            .unwrap();
        for force in [None, Some("once")] {
            let begun = lease.begin(first, force, 1_000).await.unwrap();
            assert!(matches!(begun, Begun::AlreadyCommitted(done) if done.commit.generation == 1), "{force:?}");
        }
        let begun = lease.begin(first, Some("twice"), 1_000).await.unwrap();
        assert!(matches!(begun, Begun::Open(open) if open.generation == 2));
    }
}
