//! Any bytes, cut into lines and read as records: the same records wherever chunks are cut, each of them JSON to another parser too.

use dayport::records::json::Tape;
use dayport::records::lines::{Chunk, LongReason, Splitter};
use dayport::records::reader::{Place, Reader, Visit};
use dayport::records::route::Reason;
use serde_json::value::RawValue;

const MAX_RECORD_BYTES: usize = 1 << 12;
const MAX_DEPTH: usize = 64;

/// What a reader found, in order.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Record { line: u64, offset: u64, text: Vec<u8>, repaired: bool },
    Reject { line: u64, offset: u64, reason: Reason, original: Vec<u8> },
    Long { line: u64, offset: u64, reason: LongReason, length: u64, head: Vec<u8> },
}

#[derive(Default)]
struct All(Vec<Found>);

impl Visit for All {
    fn record(&mut self, place: Place, _: &mut Tape, text: &[u8], repaired: bool, _: &[u8]) {
        self.0.push(Found::Record { line: place.line, offset: place.offset, text: text.to_vec(), repaired });
    }

    fn reject(&mut self, place: Place, reason: Reason, original: &[u8], _: Option<&'static str>) {
        self.0.push(Found::Reject { line: place.line, offset: place.offset, reason, original: original.to_vec() });
    }
}

/// The bytes as chunks, appended `piece` at a time.
fn cut(data: &[u8], chunk_size: usize, piece: usize) -> Vec<Chunk> {
    let mut splitter = Splitter::new(chunk_size, MAX_RECORD_BYTES);
    let mut chunks = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let (buffer, limit) = splitter.room();
        let room = limit.saturating_sub(buffer.len());
        assert!(room > 0, "a splitter without chunks to take has room");
        let (now, later) = rest.split_at(rest.len().min(piece).min(room));
        buffer.extend_from_slice(now);
        assert!(buffer.len() <= 4 * MAX_RECORD_BYTES + 2 * chunk_size, "a splitter holds {} bytes", buffer.len());
        rest = later;
        chunks.extend(std::iter::from_fn(|| splitter.take()));
    }
    splitter.finish();
    chunks.extend(std::iter::from_fn(|| splitter.take()));
    assert!(chunks.iter().filter(|chunk| chunk.last).count() == 1 && chunks.last().is_some_and(|chunk| chunk.last));
    chunks
}

fn read(chunks: &[Chunk]) -> Vec<Found> {
    let mut reader = Reader::new(MAX_DEPTH, MAX_RECORD_BYTES);
    let mut all = All::default();
    for chunk in chunks {
        let place = Place { line: chunk.first_line, offset: chunk.offset };
        match &chunk.reject {
            Some(reject) => all.0.push(Found::Long {
                line: reject.line,
                offset: reject.offset,
                reason: reject.reason,
                length: reject.length,
                head: reject.head.clone(),
            }),
            None if chunk.elements => reader.read_elements(&chunk.bytes, place, &mut all),
            None => reader.read(&chunk.bytes, place, &mut all),
        }
    }
    all.0
}

/// How many values the text is, by another parser; `None` where it is not wholly values.
fn values(text: &str) -> Option<usize> {
    let mut count = 0;
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        value.ok()?;
        count += 1;
    }
    Some(count)
}

/// Reads `data` in several ways; panics where they differ, or where a record is not one.
pub fn run(data: &[u8]) {
    let whole = cut(data, MAX_RECORD_BYTES, usize::MAX);
    let found = read(&whole);
    for (chunk_size, piece) in [(64, 7), (1000, 4096)] {
        let other = read(&cut(data, chunk_size, piece));
        assert_eq!(other, found, "chunks of {chunk_size} bytes give other records");
    }
    let mut before = 0;
    for one in &found {
        let (Found::Record { offset, .. } | Found::Reject { offset, .. } | Found::Long { offset, .. }) = one;
        assert!(*offset >= before && *offset <= data.len() as u64, "{one:?} stands before what came before it");
        before = *offset;
        if let Found::Record { text, repaired, .. } = one {
            let text = std::str::from_utf8(text).expect("a record is UTF-8");
            assert!(text.starts_with('{') && !text.contains(['\n', '\r']), "{text} is no line");
            assert_eq!(values(text), Some(1), "{text} is one value");
            assert!(*repaired || memchr::memmem::find(data, text.as_bytes()).is_some(), "{text} was never staged");
        }
    }
    // What is called no JSON is none to the other parser either. Lines of the whole reading only: elements stand in no line of their own.
    let is_plain = whole.iter().all(|chunk| !chunk.elements && chunk.reject.is_none());
    if is_plain {
        for one in &found {
            if let Found::Reject { reason: Reason::NotJson, original, .. } = one {
                let text = String::from_utf8_lossy(original);
                assert!(values(&text).is_none_or(|count| count == 0), "`{text}` is JSON");
            }
        }
    }
}
