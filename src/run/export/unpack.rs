//! One staged object on its way from packed bytes to chunks of whole lines.

use std::collections::VecDeque;

use bytes::Bytes;

use super::chunk::{ChunkInput, Oversize};
use crate::domain::error::{Error, Result};
use crate::domain::settings::Staging;
use crate::records::decode::{DecodeLimits, Decoder, Kind};
use crate::records::lines::{Chunk, LongReason, Splitter};
use crate::records::reader::Place;
use crate::records::route::Reason;

/// The words that mark the error of a damaged object: `on_damaged_object = "skip"` may leave it out.
pub const DAMAGED: &str = "is damaged";

/// Unpacks an object and splits it into chunks, as much at a time as the caller has room for.
pub struct Unpacker {
    decoder: Decoder,
    splitter: Splitter,
    input: VecDeque<Bytes>,
    is_unpacked: bool,
    /// Whether the last call ended with more to give, and not for want of input.
    has_more: bool,
}

impl Unpacker {
    /// For one object of `size` staged bytes, in chunks of about `chunk_bytes`.
    #[must_use]
    pub fn new(staging: &Staging, chunk_bytes: usize, size: u64) -> Unpacker {
        let limits = DecodeLimits { max_object_bytes: staging.max_object_bytes, max_ratio: staging.max_ratio };
        Unpacker {
            decoder: Decoder::new(limits, size),
            splitter: Splitter::new(chunk_bytes, staging.max_record_len()),
            input: VecDeque::new(),
            is_unpacked: false,
            has_more: false,
        }
    }

    /// Whether there is something to do without more input.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Takes the buffer of a chunk that is done with out of `spare`, for a later chunk.
    pub fn recycle(&mut self, spare: &mut Vec<Vec<u8>>) {
        if self.splitter.wants_buffer()
            && let Some(buffer) = spare.pop()
        {
            self.splitter.recycle(buffer);
        }
    }

    /// The whole lines that wait for their chunk to fill, for a caller that won't give more: a look at an object's head.
    #[must_use]
    pub fn first_lines(&mut self, most: usize) -> Option<ChunkInput> {
        let (room, _) = self.splitter.room();
        let end = memchr::memrchr(b'\n', room.get(..room.len().min(most))?)? + 1;
        let bytes = room.get(..end)?.to_vec();
        Some(ChunkInput { object: 0, number: 0, last: true, bytes, first_line: 1, offset: 0, is_elements: false, oversize: None })
    }

    /// Takes staged bytes and unpacks until a chunk is ready or the bytes are used up; whether that was the object's last chunk.
    ///
    /// `is_complete` says that no more input follows. A damaged object is an error (vendor).
    pub fn unpack(&mut self, object: usize, input: Vec<Bytes>, is_complete: bool, out: &mut Vec<ChunkInput>) -> Result<bool> {
        self.input.extend(input);
        let before = out.len();
        loop {
            while let Some(chunk) = self.splitter.take() {
                let is_last = chunk.last;
                out.push(chunk_input(object, chunk));
                if is_last {
                    self.has_more = false;
                    return Ok(true);
                }
            }
            if out.len() > before {
                self.has_more = true;
                return Ok(false);
            }
            if self.is_unpacked {
                self.splitter.finish();
                continue;
            }
            let (room, limit) = self.splitter.room();
            if let Some(next) = self.input.front_mut() {
                let progress = self.decoder.push(next, room, limit).map_err(|damage| damaged(&damage))?;
                let _ = next.split_to(progress.consumed);
                if next.is_empty() {
                    self.input.pop_front();
                }
                if self.decoder.kind() == Some(Kind::Parquet) {
                    return Err(Error::vendor("it is Parquet, which is not yet supported as staged input, stage NDJSON"));
                }
                self.splitter.set_origin(self.decoder.dropped_bytes());
            } else if is_complete {
                self.is_unpacked = self.decoder.finish(room, limit).map_err(|damage| damaged(&damage))?;
                self.splitter.set_origin(self.decoder.dropped_bytes());
            } else {
                self.has_more = false;
                return Ok(false);
            }
        }
    }
}

fn damaged(damage: &crate::records::decode::Damage) -> Error {
    Error::vendor(format!("it {DAMAGED}: {damage}"))
}

fn chunk_input(object: usize, chunk: Chunk) -> ChunkInput {
    let oversize = chunk.reject.map(|reject| Oversize {
        place: Place { line: reject.line, offset: reject.offset },
        reason: match reject.reason {
            LongReason::TooLarge => Reason::TooLarge,
            LongReason::NotJson => Reason::NotJson,
        },
        head: reject.head,
        whole: (reject.length, reject.sha256),
    });
    ChunkInput {
        object,
        number: chunk.number,
        last: chunk.last,
        bytes: chunk.bytes,
        first_line: chunk.first_line,
        offset: chunk.offset,
        is_elements: chunk.elements,
        oversize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller that keeps its chunks in one list, as the look at an object's head does, used to get the same answer for ever from the second
    /// chunk on, and the run never ended.
    #[test]
    fn chunks_are_given_one_a_call_whatever_the_caller_has_already() {
        let text = "[staging]\ns3_bucket = \"stg\"\n[state]\ns3_bucket = \"sta\"\n[[destination]]\nname = \"acme\"\ns3_bucket = \"cus\"\n";
        let settings = crate::config::parse(text, &crate::config::Environment::default()).unwrap();
        let object = "{\"event_name\":\"a\"}\n".repeat(10_000);
        let mut unpacker = Unpacker::new(&settings.staging, 4096, object.len() as u64);
        let mut chunks = Vec::new();
        let mut input = vec![Bytes::from(object.clone())];
        let mut calls = 0;
        while !unpacker.unpack(0, std::mem::take(&mut input), true, &mut chunks).unwrap() {
            calls += 1;
            assert!(calls < 1_000, "it goes round in circles");
        }
        assert!(chunks.len() > 2);
        assert_eq!(chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>(), object.len());
    }
}
