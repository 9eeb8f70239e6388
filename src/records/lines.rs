//! Cuts unpacked bytes into numbered chunks of whole lines, always at the same places; over-long lines go value by value.

mod long;
mod scan;

use std::collections::VecDeque;

use memchr::{memchr, memchr_iter, memrchr};

use self::long::LongLine;

/// A run of whole lines of one object, or whole values of an over-long line, or one part of such a line that is rejected.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The bytes as they came. Lines end in LF, but the object's last need not; values of an over-long line never do.
    pub bytes: Vec<u8>,
    /// The number of the line that `bytes` begin in; an object's first line is 1.
    pub first_line: u64,
    /// Where `bytes` begin in the unpacked object, a byte order mark counted in.
    pub offset: u64,
    /// Counts the object's chunks from 0.
    pub number: u32,
    /// Whether this is the object's last chunk. Each object ends in exactly one such chunk, which may be empty.
    pub last: bool,
    /// `bytes` are elements of an array that began earlier on an over-long line, with commas between them: each one is a record, and
    /// an element that is an array itself is not a list of records.
    pub elements: bool,
    /// Stands for one reject; `bytes` are empty then.
    pub reject: Option<LongReject>,
}

/// One reject of an over-long line: a value over `max_record_bytes`, or all of the line from its fault on.
#[derive(Debug, PartialEq, Eq)]
pub struct LongReject {
    /// Why.
    pub reason: LongReason,
    /// The line's number, from 1.
    pub line: u64,
    /// Where it begins in the unpacked object: the first byte of the value that is too large or can't be read, or the byte that
    /// should not be there; white space, commas and brackets before it are no part of it.
    pub offset: u64,
    /// Its bytes in all. 0 where the line just ended too soon, in the middle of an array.
    pub length: u64,
    /// SHA-256 of all of them.
    pub sha256: [u8; 32],
    /// The first `max_record_bytes` of them.
    pub head: Vec<u8>,
}

/// Why a part of an over-long line is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongReason {
    /// A value over `max_record_bytes`, whether or not its end could be read.
    TooLarge,
    /// What follows is not JSON.
    NotJson,
}

/// Turns one object's unpacked bytes into chunks.
///
/// The caller appends bytes to what [`Splitter::room`] gives, then takes chunks until there are none; after [`Splitter::finish`] the
/// last one comes. Where chunks are cut depends on the bytes and the two sizes alone, never on how they were appended.
///
/// A chunk ends at the last LF within `chunk_size` bytes; a longer line is a chunk by itself. A line of more than `max_record_bytes`
/// (its LF not counted) is over-long and is never held whole: it is scanned for whole JSON values, which come in chunks of about
/// `chunk_size` that end between two of them, or between two elements of an array. A value over `max_record_bytes` becomes one
/// [`LongReject`] and the scan goes on after it; from a fault on the rest of the line is one, too. What is taken and what is rejected does
/// not depend on `chunk_size`.
///
/// Memory: two chunks; on an over-long line three times `max_record_bytes` at most.
pub struct Splitter {
    chunk_size: usize,
    max_record_bytes: usize,
    /// Where the object's first appended byte lies in it.
    origin: u64,
    /// Bytes that are in no chunk yet.
    buffer: Vec<u8>,
    /// How many bytes came before them.
    base: u64,
    /// So many of them are known to hold no LF.
    searched: usize,
    line: u64,
    next_number: u32,
    ready: VecDeque<Chunk>,
    long: Option<LongLine>,
    ended: bool,
    last_given: bool,
    spare: Vec<u8>,
}

impl Splitter {
    /// For one object. `chunk_size` above `max_record_bytes` is taken as `max_record_bytes`.
    #[must_use]
    pub fn new(chunk_size: usize, max_record_bytes: usize) -> Splitter {
        let max_record_bytes = max_record_bytes.max(1);
        let chunk_size = chunk_size.clamp(1, max_record_bytes);
        Splitter {
            chunk_size,
            max_record_bytes,
            origin: 0,
            buffer: Vec::with_capacity(chunk_size + 1),
            base: 0,
            searched: 0,
            line: 1,
            next_number: 0,
            ready: VecDeque::new(),
            long: None,
            ended: false,
            last_given: false,
            spare: Vec::new(),
        }
    }

    /// Says that so many bytes of the object came before the first appended one (a byte order mark): every offset counts them.
    pub fn set_origin(&mut self, dropped_bytes: u64) {
        self.origin = dropped_bytes;
    }

    /// Where to append unpacked bytes, and how many bytes the vector should hold at most; more than its length, once no chunk is left to take.
    pub fn room(&mut self) -> (&mut Vec<u8>, usize) {
        let wanted = match self.long {
            // One byte more than a chunk tells that the object goes on.
            None if self.buffer.len() <= self.chunk_size => self.chunk_size + 1,
            None => self.buffer.len().saturating_mul(2).min(self.max_record_bytes + 1),
            Some(_) => self.buffer.len() + self.chunk_size,
        };
        (&mut self.buffer, wanted)
    }

    /// Says that no bytes follow: what is left comes out of [`Splitter::take`], the last chunk marked.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// The next chunk, if one is complete.
    pub fn take(&mut self) -> Option<Chunk> {
        while self.ready.is_empty() {
            let progressed = if self.long.is_some() { self.scan_long_line() } else { self.cut_lines() };
            if !progressed {
                break;
            }
        }
        if self.ready.is_empty() && self.ended && !self.last_given {
            self.last_given = true;
            let rest = self.buffer.len();
            self.cut_at(rest);
            if let Some(chunk) = self.ready.back_mut() {
                chunk.last = true;
            }
        }
        self.ready.pop_front()
    }

    /// Whether [`Splitter::recycle`] would keep a buffer.
    #[must_use]
    pub fn wants_buffer(&self) -> bool {
        self.spare.capacity() == 0
    }

    /// Gives back the bytes of a chunk that is done with, so that the next one needs no new memory.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        // A vector of another capacity came from an over-long line, or would be filled more slowly.
        if bytes.capacity() == self.chunk_size + 1 {
            bytes.clear();
            self.spare = bytes;
        }
    }

    /// Cuts one chunk of whole lines; answers whether it did, or came upon an over-long line.
    fn cut_lines(&mut self) -> bool {
        let Some(window) = self.buffer.get(..self.chunk_size).filter(|_| self.buffer.len() > self.chunk_size) else {
            return false;
        };
        if self.searched < self.chunk_size
            && let Some(at) = memrchr(b'\n', window)
        {
            self.cut_at(at + 1);
            return true;
        }
        let searched = self.searched.max(self.chunk_size);
        let line_end = memchr(b'\n', self.buffer.get(searched..).unwrap_or_default()).map(|at| searched + at);
        self.searched = line_end.unwrap_or(self.buffer.len());
        if self.searched > self.max_record_bytes {
            self.long = Some(LongLine::new(self.base, self.chunk_size, self.max_record_bytes));
            return true;
        }
        if let Some(at) = line_end {
            self.cut_at(at + 1);
        }
        line_end.is_some()
    }

    /// Makes a chunk of the buffer's first `length` bytes.
    fn cut_at(&mut self, length: usize) {
        let rest = self.buffer.get(length..).unwrap_or_default();
        let mut next = std::mem::take(&mut self.spare);
        next.reserve_exact(rest.len().max(self.chunk_size + 1));
        next.extend_from_slice(rest);
        let mut bytes = std::mem::replace(&mut self.buffer, next);
        bytes.truncate(length);
        let lines = memchr_iter(b'\n', &bytes).count() as u64;
        self.give(bytes, self.base, false, None);
        self.base += length as u64;
        self.line += lines;
        self.searched = 0;
    }

    fn give(&mut self, bytes: Vec<u8>, offset: u64, elements: bool, reject: Option<LongReject>) {
        let offset = self.origin + offset;
        self.ready.push_back(Chunk {
            bytes,
            first_line: self.line,
            offset,
            number: self.next_number,
            last: false,
            elements,
            reject,
        });
        self.next_number = self.next_number.wrapping_add(1);
    }

    /// Scans what there is of an over-long line; answers whether chunks came of it or the line ended.
    fn scan_long_line(&mut self) -> bool {
        let Some(mut long) = self.long.take() else { return false };
        let bytes_before = self.base;
        let line_end = long.scan(&self.buffer, bytes_before, self.ended);
        for part in long.take_parts() {
            let offset = part.offset;
            let reject = part.reject.map(|reject| LongReject { line: self.line, offset: self.origin + offset, ..reject });
            self.give(part.bytes, offset, part.elements, reject);
        }
        let keep_from = line_end.unwrap_or_else(|| long.keep_from());
        let done = usize::try_from(keep_from - bytes_before).unwrap_or(usize::MAX).min(self.buffer.len());
        if line_end.is_some() {
            let line_feeds = u64::from(done > 0 && self.buffer.get(done - 1) == Some(&b'\n'));
            let rest = self.buffer.get(done..).unwrap_or_default();
            let mut next = Vec::with_capacity(rest.len().max(self.chunk_size + 1));
            next.extend_from_slice(rest);
            self.buffer = next;
            self.base = keep_from;
            self.searched = 0;
            self.line += line_feeds;
            return true;
        }
        // Moving what is kept to the front only once it is the smaller half keeps the moves in proportion to the bytes.
        if done > self.buffer.len() / 2 {
            self.buffer.drain(..done);
            self.base = keep_from;
        }
        self.long = Some(long);
        !self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests;
