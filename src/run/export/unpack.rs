//! One staged object on its way from packed bytes to chunks of whole lines.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::chunk::{ChunkInput, Oversize};
use super::scratch::{Scratch, ScratchFile};
use crate::domain::error::{Error, Result};
use crate::domain::settings::{Run, Staging};
use crate::records::decode::{Damage, DecodeLimits, Decoder, Kind};
use crate::records::lines::{Chunk, LongReason, Splitter};
use crate::records::parquet::{Fault, RowChunk, RowLimits, RowReader, Source};
use crate::records::reader::Place;
use crate::records::route::Reason;

/// The words that mark the error of a damaged object: `on_damaged_object = "skip"` may leave it out.
pub const DAMAGED: &str = "is damaged";

/// Unpacks an object and splits it into chunks, as much at a time as the caller has room for.
///
/// Parquet, which is read from its end, goes to scratch until it is there whole.
pub struct Unpacker {
    scratch: Arc<Scratch>,
    limits: RowLimits,
    parquet: Option<Parquet>,
    decoder: Decoder,
    splitter: Splitter,
    input: VecDeque<Bytes>,
    is_unpacked: bool,
    /// Whether the last call ended with more to give, and not for want of input.
    has_more: bool,
}

/// An object that is Parquet.
struct Parquet {
    /// What came of it, until all has.
    coming: Option<ScratchFile>,
    reader: Option<RowReader>,
    next_number: u32,
}

/// A whole object on scratch.
struct OnScratch(ScratchFile);

impl Source for OnScratch {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, into)
    }
}

/// What part of the memory a staged Parquet object's pages may take; one object is read at a time.
const PARQUET_SHARE: u64 = 4;

impl Unpacker {
    /// For one object of `size` staged bytes, in chunks of about `run.chunk_bytes`.
    #[must_use]
    pub fn new(staging: &Staging, run: &Run, size: u64, scratch: Arc<Scratch>) -> Unpacker {
        let limits = DecodeLimits { max_object_bytes: staging.max_object_bytes, max_ratio: staging.max_ratio };
        let chunk_bytes = run.chunk_bytes;
        Unpacker {
            scratch,
            limits: RowLimits {
                decode: limits,
                max_record_bytes: staging.max_record_len(),
                chunk_bytes,
                memory: run.memory_budget / PARQUET_SHARE,
            },
            parquet: None,
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

    fn unpack_parquet(&mut self, object: usize, is_complete: bool, is_turn: bool, out: &mut Vec<ChunkInput>) -> Result<bool> {
        let Some(parquet) = &mut self.parquet else { return Err(Error::bug("an object is no Parquet, please report it")) };
        if let Some(coming) = &mut parquet.coming {
            for bytes in self.input.drain(..) {
                keep(&self.scratch, coming, &bytes)?;
            }
        }
        self.has_more = is_complete && is_turn;
        if !self.has_more {
            return Ok(false);
        }
        if let Some(whole) = parquet.coming.take() {
            let reader = RowReader::open(Arc::new(OnScratch(whole)), self.limits);
            parquet.reader = Some(reader.map_err(|error| fault(&self.scratch, error))?);
        }
        let Some(reader) = &mut parquet.reader else { return Err(Error::bug("a Parquet object is gone, please report it")) };
        let chunk = reader.next_chunk().map_err(|error| fault(&self.scratch, error))?;
        let is_last = chunk.last;
        out.push(row_chunk(object, parquet.next_number, chunk));
        parquet.next_number += 1;
        self.has_more = !is_last;
        Ok(is_last)
    }

    /// Whether it holds back until it is its object's turn, however much there is to do.
    #[must_use]
    pub fn waits_for_turn(&self) -> bool {
        self.parquet.is_some()
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
    /// `is_complete` says that no more input follows, `is_turn` that the object's chunks are the next ones in input order. A damaged object
    /// is an error (vendor).
    pub fn unpack(
        &mut self,
        object: usize,
        input: Vec<Bytes>,
        is_complete: bool,
        is_turn: bool,
        out: &mut Vec<ChunkInput>,
    ) -> Result<bool> {
        self.input.extend(input);
        if self.parquet.is_some() {
            return self.unpack_parquet(object, is_complete, is_turn, out);
        }
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
                    let first = std::mem::take(room);
                    let mut coming = self.scratch.create()?;
                    keep(&self.scratch, &mut coming, &first)?;
                    self.parquet = Some(Parquet { coming: Some(coming), reader: None, next_number: 0 });
                    return self.unpack_parquet(object, is_complete, is_turn, out);
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

/// Keeps staged bytes on scratch.
fn keep(scratch: &Scratch, coming: &mut ScratchFile, bytes: &[u8]) -> Result<()> {
    if !scratch.has_room(bytes.len() as u64) {
        return Err(Error::vendor(
            "it is Parquet and larger than what is free on scratch, stage smaller objects, give the function more ephemeral storage, or raise `run.scratch_budget`",
        ));
    }
    scratch.append(coming, bytes)
}

fn fault(scratch: &Scratch, fault: Fault) -> Error {
    match fault {
        Fault::Damage(damage) => damaged(&damage),
        Fault::Source(error) => scratch.unusable(error),
    }
}

fn row_chunk(object: usize, number: u32, chunk: RowChunk) -> ChunkInput {
    let oversize = chunk.long.map(|long| Oversize {
        place: Place { line: chunk.first_row, offset: chunk.offset },
        reason: Reason::TooLarge,
        head: long.head,
        whole: (long.length, long.sha256),
    });
    ChunkInput {
        object,
        number,
        last: chunk.last,
        bytes: chunk.bytes,
        first_line: chunk.first_row,
        offset: chunk.offset,
        is_elements: false,
        oversize,
    }
}

fn damaged(damage: &Damage) -> Error {
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
        let scratch = Arc::new(Scratch::open(&std::env::temp_dir(), settings.run.scratch_budget).unwrap());
        let run = Run { chunk_bytes: 4096, ..settings.run };
        let mut unpacker = Unpacker::new(&settings.staging, &run, object.len() as u64, scratch);
        let mut chunks = Vec::new();
        let mut input = vec![Bytes::from(object.clone())];
        let mut calls = 0;
        while !unpacker.unpack(0, std::mem::take(&mut input), true, true, &mut chunks).unwrap() {
            calls += 1;
            assert!(calls < 1_000, "it goes round in circles");
        }
        assert!(chunks.len() > 2);
        assert_eq!(chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>(), object.len());
    }
}
