//! The balance: every record that was read is delivered, quarantined, a duplicate or filtered.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};

/// What became of the records of an object, a shard or a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Records and rejects found in the input.
    pub read: u64,
    /// Rows that landed.
    pub delivered: u64,
    /// Records that could not be delivered and are kept in quarantine.
    pub quarantined: u64,
    /// Records left out because their `dedupe` key was already there.
    pub duplicates: u64,
    /// Records of another organisation.
    pub filtered: u64,
    /// Delivered or quarantined records whose bytes had to be repaired (invalid UTF-8, half surrogates, stray CR).
    pub repaired: u64,
    /// Values (not records) that did not fit their column and went to the rescue column.
    pub rescued: u64,
}

impl Counts {
    /// Checks `read = delivered + quarantined + duplicates + filtered`; a difference is a bug, and stops the commit.
    pub fn check_balance(&self, of: &str) -> Result<()> {
        let accounted = self.delivered + self.quarantined + self.duplicates + self.filtered;
        if self.read == accounted {
            return Ok(());
        }
        Err(Error::bug(format!(
            "the counts of {of} do not balance: {} read, {accounted} accounted for ({} delivered, {} quarantined, {} duplicates, {} filtered), nothing was committed, please report it",
            self.read, self.delivered, self.quarantined, self.duplicates, self.filtered
        )))
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.delivered += other.delivered;
        self.quarantined += other.quarantined;
        self.duplicates += other.duplicates;
        self.filtered += other.filtered;
        self.repaired += other.repaired;
        self.rescued += other.rescued;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::Kind;

    #[test]
    fn counts_that_lose_a_record_are_a_bug() {
        let mut counts = Counts { read: 10, delivered: 6, quarantined: 1, duplicates: 2, filtered: 1, ..Counts::default() };
        assert!(counts.check_balance("a run").is_ok());
        counts += Counts { read: 1, rescued: 5, repaired: 3, ..Counts::default() };
        let error = counts.check_balance("a run").unwrap_err();
        assert_eq!(error.kind(), Kind::Bug);
        assert!(error.to_string().contains("11 read, 10 accounted for"), "{error}");
    }
}
