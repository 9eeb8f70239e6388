//! A line over `max_record_bytes`, taken value by value as its bytes come, up to its fault.

use memchr::memchr;
use sha2::{Digest, Sha256};

use super::scan::{Scanner, Step};
use super::{LongReason, LongReject};

/// What comes out of an over-long line: whole units, or a reject.
pub(super) struct Part {
    pub(super) bytes: Vec<u8>,
    pub(super) offset: u64,
    pub(super) elements: bool,
    /// Its line and offset are the caller's to fill in.
    pub(super) reject: Option<LongReject>,
}

/// The state of one over-long line. All places are counted in appended bytes, from the object's first.
///
/// Units gather in two runs that are not given out yet: values at the line's top (complete arrays among them), and elements of the
/// array that is open now. When together with what comes next they are over `chunk_size`, the front one is given out. As that can be decided at each
/// unit's end as well as anywhere within it, what comes out does not depend on how the bytes came.
pub(super) struct LongLine {
    chunk_size: u64,
    max_record_bytes: u64,
    scanner: Scanner,
    /// The next byte to scan.
    at: u64,
    /// Complete values at the top.
    values: Option<Run>,
    /// Where the open array begins, as long as it may still be given out whole.
    array: Option<u64>,
    /// Complete elements of the open array.
    elements: Option<Run>,
    /// Where the unit begins that is being scanned.
    unit: Option<u64>,
    swallowed: Option<Swallowed>,
    parts: Vec<Part>,
}

#[derive(Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
}

/// A reject whose bytes are not kept but for the first.
struct Swallowed {
    reason: LongReason,
    offset: u64,
    length: u64,
    hash: Sha256,
    head: Vec<u8>,
    /// It goes on to the line's end; else it ends with its value.
    rest_of_line: bool,
}

/// Bytes of the buffer by their place in the object.
#[derive(Clone, Copy)]
struct Window<'a> {
    bytes: &'a [u8],
    base: u64,
}

impl<'a> Window<'a> {
    fn from(self, start: u64) -> &'a [u8] {
        let start = usize::try_from(start.saturating_sub(self.base)).unwrap_or(usize::MAX);
        self.bytes.get(start..).unwrap_or_default()
    }

    fn between(self, start: u64, end: u64) -> &'a [u8] {
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let bytes = self.from(start);
        bytes.get(..length).unwrap_or(bytes)
    }
}

impl LongLine {
    pub(super) fn new(start: u64, chunk_size: usize, max_record_bytes: usize) -> LongLine {
        LongLine {
            chunk_size: chunk_size as u64,
            max_record_bytes: max_record_bytes as u64,
            scanner: Scanner::new(),
            at: start,
            values: None,
            array: None,
            elements: None,
            unit: None,
            swallowed: None,
            parts: Vec::new(),
        }
    }

    /// Scans what `buffer` (which begins at `base`) holds beyond the last scan. Answers where the next line begins, once this one ended.
    pub(super) fn scan(&mut self, buffer: &[u8], base: u64, object_ended: bool) -> Option<u64> {
        let window = Window { bytes: buffer, base };
        loop {
            if self.swallowed.as_ref().is_some_and(|swallowed| swallowed.rest_of_line) {
                let rest = window.from(self.at);
                self.at += memchr(b'\n', rest).unwrap_or(rest.len()) as u64;
            }
            let rest = window.from(self.at);
            match rest.first() {
                Some(b'\n') => {
                    self.end_line(window);
                    return Some(self.at + 1);
                }
                None if object_ended => {
                    self.end_line(window);
                    return Some(self.at);
                }
                None => {
                    self.relieve(window, self.at);
                    self.swallow(window, self.at);
                    return None;
                }
                Some(byte) => match self.scanner.skippable(rest) {
                    0 => self.step(window, *byte),
                    text => self.at += text as u64,
                },
            }
        }
    }

    /// What came out since the last call.
    pub(super) fn take_parts(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.parts)
    }

    /// Bytes before this place are needed no more.
    pub(super) fn keep_from(&self) -> u64 {
        if self.swallowed.is_some() { self.at } else { self.front().unwrap_or(self.at) }
    }

    fn step(&mut self, window: Window<'_>, byte: u8) {
        let at = self.at;
        let after = at + 1;
        match self.scanner.step(byte) {
            Step::More => {}
            Step::UnitStart => self.unit = Some(at),
            Step::UnitEnd => self.end_unit(window, after),
            Step::UnitEndBefore => {
                self.end_unit(window, at);
                return;
            }
            Step::ArrayStart => self.array = Some(at),
            Step::ArrayEnd => self.end_array(window, after),
            Step::Fault => {
                self.fault(window);
                return;
            }
        }
        self.at = after;
    }

    /// The first byte that is not given out yet.
    fn front(&self) -> Option<u64> {
        self.values.map(|run| run.start).or(self.array).or(self.elements.map(|run| run.start)).or(self.unit)
    }

    /// Gives out from the front until what is left fits in a chunk that ends at `end`, or is one unit.
    fn relieve(&mut self, window: Window<'_>, end: u64) {
        while self.front().is_some_and(|front| end - front > self.chunk_size) {
            if let Some(run) = self.values.take() {
                self.give(window, run, false);
            } else if self.array.is_some() {
                // Too large to be given out whole: from here on it comes as elements.
                self.array = None;
            } else if let Some(run) = self.elements.take() {
                self.give(window, run, true);
            } else {
                break;
            }
        }
    }

    fn give(&mut self, window: Window<'_>, run: Run, elements: bool) {
        let bytes = window.between(run.start, run.end).to_vec();
        self.parts.push(Part { bytes, offset: run.start, elements, reject: None });
    }

    fn give_all(&mut self, window: Window<'_>) {
        if let Some(run) = self.values.take() {
            self.give(window, run, false);
        }
        self.array = None;
        if let Some(run) = self.elements.take() {
            self.give(window, run, true);
        }
    }

    fn end_unit(&mut self, window: Window<'_>, end: u64) {
        let Some(start) = self.unit else { return };
        self.relieve(window, end);
        self.swallow(window, end);
        self.unit = None;
        if self.swallowed.is_some() {
            self.give_swallowed();
            return;
        }
        let run = if self.scanner.in_array() { &mut self.elements } else { &mut self.values };
        *run = Some(Run { start: run.map_or(start, |run| run.start), end });
    }

    fn end_array(&mut self, window: Window<'_>, end: u64) {
        self.relieve(window, end);
        let elements = self.elements.take();
        match (self.array.take(), elements) {
            (Some(start), _) => self.values = Some(Run { start: self.values.map_or(start, |run| run.start), end }),
            (None, Some(run)) => self.give(window, run, true),
            (None, None) => {}
        }
    }

    /// Begins to swallow the unit once it is over `max_record_bytes`, and swallows up to `end`.
    fn swallow(&mut self, window: Window<'_>, end: u64) {
        if let Some(start) = self.unit
            && self.swallowed.is_none()
            && end - start > self.max_record_bytes
        {
            self.swallowed = Some(Swallowed::new(LongReason::TooLarge, start));
        }
        if let Some(swallowed) = &mut self.swallowed {
            swallowed.take(window.between(swallowed.offset + swallowed.length, end), self.max_record_bytes);
        }
    }

    fn fault(&mut self, window: Window<'_>) {
        let start = self.unit.unwrap_or(self.at);
        self.relieve(window, self.at);
        self.swallow(window, self.at);
        self.give_all(window);
        self.unit = None;
        let swallowed = self.swallowed.get_or_insert_with(|| Swallowed::new(LongReason::NotJson, start));
        swallowed.rest_of_line = true;
    }

    fn end_line(&mut self, window: Window<'_>) {
        if self.scanner.could_end_number() {
            self.end_unit(window, self.at);
        }
        let swallowed_rest = self.swallowed.as_ref().is_some_and(|swallowed| swallowed.rest_of_line);
        if !swallowed_rest && (self.unit.is_some() || self.scanner.in_array()) {
            self.fault(window);
        }
        self.relieve(window, self.at);
        self.swallow(window, self.at);
        self.give_all(window);
        self.give_swallowed();
    }

    fn give_swallowed(&mut self) {
        let Some(swallowed) = self.swallowed.take() else { return };
        let Swallowed { reason, offset, length, hash, head, .. } = swallowed;
        let reject = LongReject { reason, line: 0, offset, length, sha256: hash.finalize().into(), head };
        self.parts.push(Part { bytes: Vec::new(), offset, elements: false, reject: Some(reject) });
    }
}

impl Swallowed {
    fn new(reason: LongReason, offset: u64) -> Swallowed {
        Swallowed { reason, offset, length: 0, hash: Sha256::new(), head: Vec::new(), rest_of_line: false }
    }

    fn take(&mut self, bytes: &[u8], max_record_bytes: u64) {
        let room = usize::try_from(max_record_bytes).unwrap_or(usize::MAX) - self.head.len();
        self.head.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
    }
}
