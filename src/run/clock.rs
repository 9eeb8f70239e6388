//! Time that only goes forward: leases are judged by it, never by two machines' clocks.

use std::future::Future;
use std::time::Duration;

/// A monotonic clock and a way to wait on it.
pub trait Clock: Sync {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;

    /// Waits for `time`.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// The runtime's own clock.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock {
    start: tokio::time::Instant,
}

impl RuntimeClock {
    /// A clock that starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one clock that the traits stand for")]
    pub fn start() -> Self {
        RuntimeClock { start: tokio::time::Instant::now() }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
