//! One invocation as the rim sees it: its id, how long it may take, and who wants to hear of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::domain::run::RunId;
use crate::run::answer::RunAnswer;
use crate::run::clock::{Clock as _, RuntimeClock};
use crate::run::driver::Progress;

/// The longest time that Lambda gives a function: <https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html>.
const LONGEST_TIMEOUT: Duration = Duration::from_mins(15);
/// How far the clock that the deadline was made with may be from ours.
const SKEW: Duration = Duration::from_mins(1);

/// Hears how an invocation's runs go, as they go.
pub trait Watcher: Sync {
    /// A run begins.
    fn begins(&self, _run: &RunId) {}

    /// The run that began last goes on.
    fn progress(&self, _progress: Progress) {}

    /// A run has answered.
    fn ended(&self, _answer: &RunAnswer) {}
}

/// A watcher that nothing is told to.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Watcher for Nobody {}

/// One invocation: its id and how much of its time is left, judged by a clock that only goes forward.
#[derive(Clone, Debug)]
pub struct Invocation {
    id: String,
    limit: Option<Duration>,
    clock: RuntimeClock,
    is_stopping: Arc<AtomicBool>,
}

impl Invocation {
    /// An invocation that may take as long as it likes. A re-run that it asks for is keyed by `id`.
    #[must_use]
    pub fn unlimited(id: impl Into<String>) -> Invocation {
        let is_stopping = Arc::new(AtomicBool::new(false));
        Invocation { id: id.into(), limit: None, clock: RuntimeClock::start(), is_stopping }
    }

    /// An invocation that ends at `deadline_millis` (since 1970), which it is told at `now_millis`.
    ///
    /// A deadline that makes no sense counts as unknown: one that has passed already (`cargo lambda watch` gives one in 1970), or one
    /// further away than Lambda lets a function run.
    #[must_use]
    pub fn until(id: impl Into<String>, deadline_millis: u64, now_millis: i64) -> Invocation {
        let now = u64::try_from(now_millis).unwrap_or(0);
        let left = Duration::from_millis(deadline_millis.saturating_sub(now));
        let makes_sense = !left.is_zero() && left <= LONGEST_TIMEOUT + SKEW;
        Invocation { limit: makes_sense.then_some(left), ..Invocation::unlimited(id) }
    }

    /// The trigger's id: the same for each attempt that Lambda makes with the same event.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How long it could take from its start, if anything limits it.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Milliseconds that are left; `None` where nothing limits it, none once it was told to stop.
    #[must_use]
    pub fn millis_left(&self) -> Option<u64> {
        if self.is_stopping() {
            return Some(0);
        }
        let left = self.limit?.saturating_sub(self.clock.now());
        Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    /// Has it end soon and in order, as if its time had run out: no further shard is begun, what is done is kept.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Whether it was told to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}

/// Milliseconds since 1970 by the system's clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the rim: a transfer's instant and a deadline's distance come from here")]
pub fn now_millis() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_768_532_400_000;

    fn limit(deadline_millis: i64) -> Option<Duration> {
        Invocation::until("id", u64::try_from(deadline_millis).unwrap(), NOW).limit()
    }

    #[test]
    fn a_deadline_that_makes_no_sense_counts_as_unknown() {
        assert_eq!(limit(NOW + 900_000), Some(Duration::from_mins(15)));
        assert_eq!(limit(NOW + 3_000), Some(Duration::from_secs(3)));
        assert_eq!(limit(NOW + 930_000), Some(Duration::from_secs(930)), "another machine's clock may be off by a little");
        for senseless in [0, 600_000, NOW - 1, NOW, NOW + 961_000, NOW + 86_400_000] {
            assert_eq!(limit(senseless), None, "{senseless}");
        }
        assert_eq!(Invocation::until("id", 0, NOW).millis_left(), None);
        assert_eq!(Invocation::until("id", u64::MAX, NOW).millis_left(), None);
    }

    #[tokio::test]
    async fn time_that_passes_is_not_left() {
        let invocation = Invocation::until("id", u64::try_from(NOW + 60_000).unwrap(), NOW);
        assert!(invocation.millis_left().is_some_and(|left| (50_000..=60_000).contains(&left)));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(invocation.millis_left().is_some_and(|left| left <= 59_980));
        assert_eq!(invocation.limit(), Some(Duration::from_mins(1)), "the limit is that of the start");
    }

    #[test]
    fn an_invocation_that_is_told_to_stop_has_no_time_left() {
        let invocation = Invocation::unlimited("id");
        assert_eq!((invocation.millis_left(), invocation.is_stopping()), (None, false));
        invocation.clone().stop();
        assert_eq!((invocation.millis_left(), invocation.is_stopping()), (Some(0), true));
    }
}
