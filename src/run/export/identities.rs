//! The ids that a run has seen, for `dedupe`: exact, in bounded memory, the rest on scratch.

use std::sync::Arc;

use super::scratch::{Scratch, ScratchFile};
use crate::domain::error::{Error, Result};

/// Bytes of an id: half a SHA-256. Among a thousand million ids the chance that any two different ones are taken for the same is below
/// 10⁻²⁰ (birthday bound, n²/2¹²⁹), and finding such a pair on purpose takes 2⁶⁴ tries.
pub const ID_BYTES: usize = 16;

/// Ids of a block on scratch: one look-up reads one block.
const BLOCK_IDS: usize = 256;
/// Sorted runs on scratch at which all are merged into one.
const MOST_RUNS: usize = 8;
/// Slots that a table begins with.
const FIRST_SLOTS: usize = 1 << 12;
/// Ids that are copied at a time between memory and scratch.
const COPIED_IDS: usize = 4 << 10;
/// Bits of the filter that an id sets.
const FILTER_BITS: u128 = 4;

/// A set of ids. What was inserted is found for ever, whatever the memory.
///
/// Half of the memory holds a table (16 bytes a slot, three in four used); when it is full its ids go to scratch, sorted, and a quarter of
/// the memory becomes a filter that tells most new ids from those on scratch without a read. When scratch is full, too, an insert fails
/// (vendor).
#[derive(Debug)]
pub struct Identities {
    scratch: Arc<Scratch>,
    /// Zero is an empty slot.
    slots: Vec<u128>,
    used: usize,
    most_slots: usize,
    filter: Vec<u64>,
    filter_words: usize,
    runs: Vec<SortedRun>,
}

impl Identities {
    /// An empty set that takes at most `memory` bytes (but at least 128 KiB) before it spills to `scratch`.
    #[must_use]
    pub fn new(scratch: Arc<Scratch>, memory: u64) -> Identities {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let power_within = |units: usize| 1_usize << units.max(1).ilog2();
        Identities {
            scratch,
            slots: Vec::new(),
            used: 0,
            // While a table doubles, the old half stands beside it.
            most_slots: power_within(memory / 2 / ID_BYTES).max(FIRST_SLOTS),
            filter: Vec::new(),
            filter_words: power_within(memory / 4 / 8).max(FIRST_SLOTS),
            runs: Vec::new(),
        }
    }

    /// Adds an id; whether it is new.
    pub fn insert(&mut self, id: u128) -> Result<bool> {
        // Zero marks an empty slot, so the id zero shares the one of its neighbour.
        let id = id.max(1);
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.make_room()?;
        }
        let slot = self.slot_of(id);
        if self.slots.get(slot) == Some(&id) {
            return Ok(false);
        }
        if self.may_be_spilled(id) {
            for run in &self.runs {
                if run.contains(&self.scratch, id)? {
                    return Ok(false);
                }
            }
        }
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = id;
            self.used += 1;
        }
        Ok(true)
    }

    /// How many ids are on scratch.
    #[must_use]
    pub fn spilled(&self) -> u64 {
        self.runs.iter().map(|run| run.ids).sum()
    }

    /// The slot that holds the id, or the empty one where it belongs.
    fn slot_of(&self, id: u128) -> usize {
        let mask = self.slots.len() - 1;
        // The highest bits, so that a table is nearly in order and sorted in a moment.
        let mut at = usize::try_from(id >> (128 - self.slots.len().ilog2())).unwrap_or_default() & mask;
        while self.slots.get(at).is_some_and(|slot| *slot != 0 && *slot != id) {
            at = (at + 1) & mask;
        }
        at
    }

    fn make_room(&mut self) -> Result<()> {
        if self.slots.len() >= self.most_slots {
            return self.spill();
        }
        let doubled = (self.slots.len() * 2).max(FIRST_SLOTS);
        let before = std::mem::replace(&mut self.slots, vec![0; doubled]);
        for id in before.into_iter().filter(|id| *id != 0) {
            let at = self.slot_of(id);
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = id;
            }
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        if self.filter.is_empty() {
            self.filter = vec![0; self.filter_words];
        }
        self.slots.sort_unstable();
        let first = self.slots.partition_point(|id| *id == 0);
        let mut writer = RunWriter::new(&self.scratch)?;
        for index in first..self.slots.len() {
            let Some(&id) = self.slots.get(index) else { break };
            for bit in self.bits_of(id) {
                if let Some(word) = self.filter.get_mut(bit / 64) {
                    *word |= 1 << (bit % 64);
                }
            }
            writer.push(id)?;
        }
        self.runs.push(writer.finish()?);
        self.slots.fill(0);
        self.used = 0;
        if self.runs.len() >= MOST_RUNS {
            self.merge()?;
        }
        Ok(())
    }

    /// Makes one run of all. No id is in two of them.
    fn merge(&mut self) -> Result<()> {
        let mut readers = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            readers.push(RunReader::new(run, &self.scratch)?);
        }
        let mut writer = RunWriter::new(&self.scratch)?;
        loop {
            let next = readers.iter_mut().filter(|reader| reader.id().is_some()).min_by_key(|reader| reader.id());
            let Some(reader) = next else { break };
            if let Some(id) = reader.id() {
                writer.push(id)?;
            }
            reader.advance(&self.scratch)?;
        }
        drop(readers);
        self.runs = vec![writer.finish()?];
        Ok(())
    }

    fn may_be_spilled(&self, id: u128) -> bool {
        let is_set = |bit: usize| self.filter.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1);
        !self.filter.is_empty() && self.bits_of(id).all(is_set)
    }

    /// The filter's bits of an id: an arithmetic progression, from bits of it that are independent.
    fn bits_of(&self, id: u128) -> impl Iterator<Item = usize> + use<> {
        let mask = (self.filter.len() as u128 * 64).max(1) - 1;
        let step = (id >> 60) | 1;
        (0..FILTER_BITS).map(move |nth| usize::try_from(id.wrapping_add(nth.wrapping_mul(step)) & mask).unwrap_or_default())
    }
}

/// Ids on scratch, in order.
#[derive(Debug)]
struct SortedRun {
    file: ScratchFile,
    ids: u64,
    /// The first id of each block.
    fences: Vec<u128>,
}

impl SortedRun {
    fn contains(&self, scratch: &Scratch, id: u128) -> Result<bool> {
        let Some(block) = self.fences.partition_point(|first| *first <= id).checked_sub(1) else { return Ok(false) };
        let start = block as u64 * BLOCK_IDS as u64;
        let mut bytes = [0; BLOCK_IDS * ID_BYTES];
        let length = (self.ids - start).min(BLOCK_IDS as u64);
        let room = usize::try_from(length).ok().and_then(|ids| bytes.get_mut(..ids * ID_BYTES)).unwrap_or_default();
        scratch.read_at(&self.file, start * ID_BYTES as u64, room)?;
        let (ids, _) = room.as_chunks::<ID_BYTES>();
        Ok(ids.binary_search_by(|bytes| u128::from_le_bytes(*bytes).cmp(&id)).is_ok())
    }
}

struct RunWriter<'s> {
    scratch: &'s Scratch,
    run: SortedRun,
    buffer: Vec<u8>,
}

impl<'s> RunWriter<'s> {
    fn new(scratch: &'s Scratch) -> Result<RunWriter<'s>> {
        let run = SortedRun { file: scratch.create()?, ids: 0, fences: Vec::new() };
        Ok(RunWriter { scratch, run, buffer: Vec::with_capacity(COPIED_IDS * ID_BYTES) })
    }

    fn push(&mut self, id: u128) -> Result<()> {
        if self.run.ids.is_multiple_of(BLOCK_IDS as u64) {
            self.run.fences.push(id);
        }
        self.run.ids += 1;
        self.buffer.extend_from_slice(&id.to_le_bytes());
        if self.buffer.len() >= COPIED_IDS * ID_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if !self.scratch.has_room(self.buffer.len() as u64) {
            return Err(Error::vendor(
                "scratch is full of the ids of `dedupe`, give the function more memory or more ephemeral storage, or raise `run.scratch_budget`",
            ));
        }
        self.scratch.append(&mut self.run.file, &self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<SortedRun> {
        self.flush()?;
        Ok(self.run)
    }
}

struct RunReader<'r> {
    run: &'r SortedRun,
    /// The ids that come next, the last one first.
    ahead: Vec<u128>,
    read: u64,
}

impl<'r> RunReader<'r> {
    fn new(run: &'r SortedRun, scratch: &Scratch) -> Result<RunReader<'r>> {
        let mut reader = RunReader { run, ahead: Vec::new(), read: 0 };
        reader.fill(scratch)?;
        Ok(reader)
    }

    fn id(&self) -> Option<u128> {
        self.ahead.last().copied()
    }

    fn advance(&mut self, scratch: &Scratch) -> Result<()> {
        self.ahead.pop();
        if self.ahead.is_empty() { self.fill(scratch) } else { Ok(()) }
    }

    fn fill(&mut self, scratch: &Scratch) -> Result<()> {
        let ids = (self.run.ids - self.read).min(COPIED_IDS as u64);
        let mut bytes = vec![0; usize::try_from(ids).unwrap_or_default() * ID_BYTES];
        scratch.read_at(&self.run.file, self.read * ID_BYTES as u64, &mut bytes)?;
        self.read += ids;
        let (found, _) = bytes.as_chunks::<ID_BYTES>();
        self.ahead.extend(found.iter().rev().map(|bytes| u128::from_le_bytes(*bytes)));
        Ok(())
    }
}

/// Which of a table's records with an id are duplicates, in input order: how many come before each one, in one byte for most of them.
///
/// A second pass over some of a run's tables sees only their records, so it can't decide anew: it is told.
#[derive(Clone, Debug, Default)]
pub struct Duplicates {
    since_last: u64,
    gaps: Vec<u8>,
}

impl Duplicates {
    /// Notes the next record with an id.
    pub fn push(&mut self, is_duplicate: bool) {
        if !is_duplicate {
            self.since_last += 1;
            return;
        }
        let mut gap = std::mem::take(&mut self.since_last);
        loop {
            let low = (gap & 0x7F) as u8;
            gap >>= 7;
            self.gaps.push(if gap == 0 { low } else { low | 0x80 });
            if gap == 0 {
                break;
            }
        }
    }

    /// The gaps as bytes (LEB128), none where there is no duplicate.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.gaps
    }
}

/// Reads [`Duplicates`] back, record after record.
#[derive(Debug)]
pub struct KnownDuplicates {
    gaps: std::vec::IntoIter<u8>,
    until_next: Option<u64>,
}

impl KnownDuplicates {
    /// Over what [`Duplicates::into_bytes`] gave.
    #[must_use]
    pub fn new(gaps: Vec<u8>) -> KnownDuplicates {
        let mut known = KnownDuplicates { gaps: gaps.into_iter(), until_next: None };
        known.until_next = known.gap();
        known
    }

    /// Whether the next record with an id is a duplicate.
    pub fn take(&mut self) -> bool {
        match &mut self.until_next {
            None => false,
            Some(0) => {
                self.until_next = self.gap();
                true
            }
            Some(before) => {
                *before -= 1;
                false
            }
        }
    }

    fn gap(&mut self) -> Option<u64> {
        let (mut gap, mut shift) = (0_u64, 0);
        loop {
            let byte = self.gaps.next()?;
            gap |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or_default();
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(gap);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::domain::settings::ScratchBudget;

    fn scratch(budget: u64) -> Arc<Scratch> {
        Arc::new(Scratch::open(&std::env::temp_dir(), ScratchBudget::Bytes(budget)).unwrap())
    }

    fn id(number: u64) -> u128 {
        let digest = Sha256::digest(number.to_le_bytes());
        u128::from_le_bytes(digest[..16].try_into().unwrap())
    }

    #[test]
    fn a_set_far_over_its_memory_is_exact_and_scratch_is_given_back() {
        let scratch = scratch(64 << 20);
        // 3,072 ids fit in memory.
        let mut ids = Identities::new(Arc::clone(&scratch), 0);
        let all = 80_000;
        for number in 0..all {
            assert!(ids.insert(id(number)).unwrap(), "{number} is new");
            // One that came just before, one from long ago, and the first.
            for before in [number, number / 2, 0] {
                assert!(!ids.insert(id(before)).unwrap(), "{before} was there at {number}");
            }
        }
        assert!(ids.spilled() > 70_000 && ids.runs.len() < MOST_RUNS, "{} in {} runs", ids.spilled(), ids.runs.len());
        assert!(ids.slots.len() <= FIRST_SLOTS);
        assert_eq!(scratch.used(), ids.spilled() * ID_BYTES as u64, "what was merged is given back");
        drop(ids);
        assert_eq!(scratch.used(), 0);
    }

    #[test]
    fn a_scratch_that_is_full_is_said() {
        let mut ids = Identities::new(scratch(100_000), 0);
        let error = (0..20_000).find_map(|number| ids.insert(id(number)).err()).unwrap();
        assert_eq!(error.kind(), crate::domain::error::Kind::Vendor);
        assert!(error.message().contains("`dedupe`"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Small numbers, so that ids stand side by side in table, block and filter, and the edges (0, 1, the greatest) come up.
        #[test]
        fn a_set_answers_as_the_standard_librarys_does(inserts in prop::collection::vec(
            prop_oneof![any::<u128>(), (0_u128..5000), (0_u128..40).prop_map(|n| u128::MAX - n), (0_u64..20_000).prop_map(id)],
            0..9_000,
        )) {
            let mut ids = Identities::new(scratch(64 << 20), 0);
            let mut model = HashSet::new();
            for id in inserts {
                prop_assert_eq!(ids.insert(id).unwrap(), model.insert(id.max(1)));
            }
        }

        #[test]
        fn what_is_told_of_duplicates_is_what_was_noted(noted in prop::collection::vec(prop::bool::weighted(0.02), 0..3_000)) {
            let mut duplicates = Duplicates::default();
            for is_duplicate in &noted {
                duplicates.push(*is_duplicate);
            }
            let mut known = KnownDuplicates::new(duplicates.into_bytes());
            for is_duplicate in noted {
                prop_assert_eq!(known.take(), is_duplicate);
            }
            prop_assert!(!known.take(), "and no more");
        }
    }
}
