//! A small random generator whose every number follows from a seed, so that a sample day can be made again.

/// The `SplitMix64` generator of Steele, Lea and Flood (OOPSLA 2014): fast, one word of state, good enough for sample data.
///
/// The same seed gives the same numbers on every machine and in every build. Not for secrets.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// A generator for one thing of the day: `what` tells the kinds of things apart, `index` those of one kind.
    ///
    /// Whoever asks for user 17 gets the same user, however many events lie between the two questions.
    pub(super) fn of(seed: u64, what: u64, index: u64) -> Self {
        let mut first = Self { state: seed ^ what.wrapping_mul(0xD6E8_FEB8_6659_FD93) };
        let state = first.next() ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self { state: Self { state }.next() }
    }

    /// The next 64 random bits.
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to but not `end`; 0 when `end` is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A number from 0 up to but not `end` that favours the small ones, as readers favour the day's first articles.
    pub(super) fn skewed(&mut self, end: u64) -> u64 {
        let bound = self.below(end) + 1;
        self.below(bound)
    }

    /// True `per_mille` times out of a thousand.
    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of the list; the type's default when the list is empty.
    pub(super) fn pick<T: Copy + Default>(&mut self, list: &[T]) -> T {
        at(list, self.next())
    }
}

/// The element at `index`, counted around the end of the list; the type's default when the list is empty.
pub(super) fn at<T: Copy + Default>(list: &[T], index: u64) -> T {
    let length = u64::try_from(list.len()).unwrap_or(u64::MAX).max(1);
    let place = usize::try_from(index % length).unwrap_or(0);
    list.get(place).copied().unwrap_or_default()
}
