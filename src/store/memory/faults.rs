//! When a twin's calls fail: told by tests, counted over all of its calls.

use std::collections::BTreeMap;

/// When a told failure strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happened: the request never arrived.
    Before,
    /// It happened, and the answer was lost.
    After,
}

/// The failures that a twin was told.
#[derive(Debug, Default)]
pub(super) struct Faults {
    calls: usize,
    told: BTreeMap<usize, Fault>,
    dead_from: Option<(usize, Fault)>,
}

impl Faults {
    /// Counts a call: its number, and how it fails.
    pub(super) fn call(&mut self) -> (usize, Option<Fault>) {
        self.calls += 1;
        let fault = match self.dead_from {
            Some((first, fault)) if self.calls == first => Some(fault),
            Some((first, _)) if self.calls > first => Some(Fault::Before),
            _ => self.told.get(&self.calls).copied(),
        };
        (self.calls, fault)
    }

    /// The `nth` call from now (the next one is 1) fails, and the ones after it work.
    pub(super) fn fail_on(&mut self, nth: usize, fault: Fault) {
        self.told.insert(self.calls + nth, fault);
    }

    /// The `nth` call from now and all after it fail.
    pub(super) fn die_on(&mut self, nth: usize, fault: Fault) {
        self.dead_from = Some((self.calls + nth, fault));
    }

    /// No more failures.
    pub(super) fn heal(&mut self) {
        self.told.clear();
        self.dead_from = None;
    }
}
