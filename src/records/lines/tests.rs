//! Chunks: the same ones however the bytes come, and the same values and rejects whatever the chunk size.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::naive_bytecount,
    clippy::format_push_string,
    clippy::type_complexity,
    reason = "a test may end at the first surprise"
)]

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;

/// All chunks of `object`, whose bytes are appended up to `piece` at a time.
fn split(object: &[u8], chunk_size: usize, max_record_bytes: usize, piece: usize) -> Vec<Chunk> {
    let mut splitter = Splitter::new(chunk_size, max_record_bytes);
    let (mut chunks, mut rest) = (Vec::new(), object);
    while !rest.is_empty() {
        let (buffer, limit) = splitter.room();
        assert!(limit > buffer.len(), "no room, and no chunk to take");
        let (now, later) = rest.split_at(rest.len().min(piece).min(limit - buffer.len()));
        buffer.extend_from_slice(now);
        rest = later;
        while let Some(chunk) = splitter.take() {
            chunks.push(chunk);
        }
    }
    splitter.finish();
    while let Some(chunk) = splitter.take() {
        chunks.push(chunk);
    }
    assert_eq!(splitter.take(), None);
    for (number, chunk) in chunks.iter().enumerate() {
        assert_eq!(chunk.number as usize, number);
        assert_eq!(chunk.last, number + 1 == chunks.len());
        if chunk.reject.is_none() {
            let start = chunk.offset as usize;
            assert_eq!(object[start..][..chunk.bytes.len()], chunk.bytes, "the offset is where the bytes are");
            assert_eq!(chunk.first_line, 1 + object[..start].iter().filter(|byte| **byte == b'\n').count() as u64);
        }
    }
    chunks
}

/// Each chunk as text: rejects in `<>`, elements in `[]`.
fn shown(object: &str, chunk_size: usize, max_record_bytes: usize) -> Vec<String> {
    let chunks = split(object.as_bytes(), chunk_size, max_record_bytes, usize::MAX);
    assert_eq!(split(object.as_bytes(), chunk_size, max_record_bytes, 1), chunks);
    let show = |chunk: &Chunk| {
        let text = String::from_utf8_lossy(&chunk.bytes).into_owned();
        match &chunk.reject {
            None if chunk.elements => format!("[{text}]"),
            None => text,
            Some(reject) => {
                assert!(chunk.bytes.is_empty());
                assert_eq!((chunk.first_line, chunk.offset), (reject.line, reject.offset));
                let whole = &object.as_bytes()[reject.offset as usize..][..reject.length as usize];
                let sha256: [u8; 32] = Sha256::digest(whole).into();
                assert_eq!(reject.sha256, sha256);
                assert_eq!(reject.head, whole[..whole.len().min(max_record_bytes)]);
                format!("<{:?} {}>", reject.reason, String::from_utf8_lossy(whole))
            }
        }
    };
    chunks.iter().map(show).collect()
}

#[test]
fn a_chunk_ends_at_the_last_line_feed_within_its_size() {
    assert_eq!(shown("", 8, 100), [""]);
    assert_eq!(shown("\n", 8, 100), ["\n"]);
    assert_eq!(shown("abc", 8, 100), ["abc"]);
    assert_eq!(shown("a\nbc\ndef", 8, 100), ["a\nbc\ndef"]);
    assert_eq!(shown("a\nbc\ndefg", 8, 100), ["a\nbc\n", "defg"]);
    assert_eq!(shown("a\nbc\ndef\n", 8, 100), ["a\nbc\n", "def\n"]);
    assert_eq!(shown("a\nbc\nde\n\n\n\n", 8, 100), ["a\nbc\nde\n", "\n\n\n"]);
    assert_eq!(shown("abcdefg\r\nh\r\n", 9, 100), ["abcdefg\r\n", "h\r\n"]);
}

#[test]
fn a_line_longer_than_a_chunk_is_a_chunk_by_itself() {
    assert_eq!(shown("a\n0123456789\nb\n", 8, 100), ["a\n", "0123456789\n", "b\n"]);
    assert_eq!(shown("0123456789\n", 8, 100), ["0123456789\n", ""]);
    assert_eq!(shown("0123456789", 8, 100), ["0123456789"]);
    assert_eq!(shown("0123456789\nb", 8, 10), ["0123456789\n", "b"], "just as long as a record may be");
    assert_eq!(shown("\"23456789\"", 100, 10), ["\"23456789\""]);
}

#[test]
fn an_over_long_line_comes_value_by_value() {
    assert_eq!(shown("1\n{\"a\":1}{\"b\":2} {\"c\":3}\n{}\n", 16, 16), ["1\n", "{\"a\":1}{\"b\":2}", "{\"c\":3}", "{}\n"]);
    assert_eq!(shown("{\"a\":1}{\"b\":2} {\"c\":3}", 4, 16), ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}", ""]);
    assert_eq!(shown("1 22 333 4444 55555", 7, 10), ["1 22", "333", "4444", "55555", ""]);
    assert_eq!(shown("1 22 333 4444 55555\r\n6", 7, 10), ["1 22", "333", "4444", "55555", "6"]);
    let spaces = " ".repeat(50);
    assert_eq!(shown(&format!("{spaces}{{}}{spaces}[]{spaces}1{spaces}\n2"), 10, 10), ["{}", "[]", "1", "2"]);
    assert_eq!(shown(&format!("{spaces}\n2"), 10, 10), ["2"], "a long blank line is blank");
}

#[test]
fn a_large_array_comes_in_runs_of_elements_and_a_small_one_whole() {
    assert_eq!(shown("[{\"a\":1},{\"b\":2},{\"c\":3}]\n[1]", 16, 16), ["[{\"a\":1},{\"b\":2}]", "[{\"c\":3}]", "[1]"]);
    assert_eq!(shown("0[1,2][3,4]5 [6,7,8,9,10]11", 12, 12), ["0[1,2][3,4]5", "[6,7,8,9,10]", "11", ""]);
    assert_eq!(shown("0 [6,7,8,9,10,11,12,13]14", 12, 12), ["0", "[6,7,8,9,10]", "[11,12,13]", "14", ""]);
    assert_eq!(shown("[[1,2],[3,[4]],\"]\",\"\\\"]\"]", 6, 12), ["[[1,2]]", "[[3,[4]]]", "[\"]\"]", "[\"\\\"]\"]", ""]);
    assert_eq!(shown("[       ,1234567]", 5, 12), ["<NotJson ,1234567]>", ""]);
    assert_eq!(shown("[              ] {}", 5, 12), ["{}", ""]);
}

#[test]
fn from_a_fault_on_the_rest_of_the_line_is_one_reject() {
    assert_eq!(shown("{\"a\":1}{\"b\":2}oops{\"c\":3}\n{}", 16, 16), ["{\"a\":1}{\"b\":2}", "<NotJson oops{\"c\":3}>", "{}"]);
    assert_eq!(shown("{\"a\":1},{\"b\":2}\\n\n{}", 12, 12), ["{\"a\":1}", "<NotJson ,{\"b\":2}\\n>", "{}"]);
    assert_eq!(shown("{} {\"b\":2]{} {} {}", 12, 12), ["{}", "<NotJson {\"b\":2]{} {} {}>", ""]);
    assert_eq!(shown("[{},{},{\"b\":2],{}]\n", 12, 12), ["[{},{}]", "<NotJson {\"b\":2],{}]>", ""]);
    assert_eq!(shown("1 [2] [{},{},nil]\n", 12, 12), ["1 [2]", "[{},{}]", "<NotJson nil]>", ""]);
    assert_eq!(shown("1 [2] [{},{},]\n3", 12, 12), ["1 [2]", "[{},{}]", "<NotJson ]>", "3"]);
    assert_eq!(shown("1 [2] [{},{}   \n3", 12, 12), ["1 [2]", "[{},{}]", "<NotJson >", "3"], "the end of an array is missing");
    assert_eq!(shown("1 2 3 4 5 6 \"78", 12, 12), ["1 2 3 4 5 6", "<NotJson \"78>", ""]);
    assert_eq!(shown("no json at all, and long\n{}", 8, 8), ["<NotJson no json at all, and long>", "{}"]);
}

#[test]
fn a_value_over_the_limit_is_one_reject_and_the_line_goes_on() {
    assert_eq!(shown("{}\"0123456789\"{}\n{}", 8, 8), ["{}", "<TooLarge \"0123456789\">", "{}", "{}"]);
    assert_eq!(shown("[{},\"0123456789\",{}]\n{}", 8, 8), ["[{}]", "<TooLarge \"0123456789\">", "[{}]", "{}"]);
    assert_eq!(shown("0123456789 1", 8, 8), ["<NotJson 0123456789 1>", ""]);
    assert_eq!(shown("1234567890 1", 8, 8), ["<TooLarge 1234567890>", "1", ""]);
    assert_eq!(shown("1 1234567890", 8, 8), ["1", "<TooLarge 1234567890>", ""]);
    assert_eq!(shown("\"12345678\" \"123456\"", 8, 8), ["<TooLarge \"12345678\">", "\"123456\"", ""]);
    assert_eq!(shown("\"0123456789\t\" {}\n{}", 8, 8), ["<TooLarge \"0123456789\t\" {}>", "{}"], "too large before its fault");
    assert_eq!(shown("[\"0123456789\n{}", 8, 8), ["<TooLarge \"0123456789>", "{}"]);
}

#[test]
fn no_more_than_the_limit_of_a_huge_line_is_held() {
    let mut splitter = Splitter::new(1 << 10, 1 << 14);
    let (mut pushed, mut given, mut peak) = (0, 0, 0);
    let after = |start: &[u8], repeated: &[u8]| [start, &repeated.repeat((1 << 20) / repeated.len())].concat();
    for object in [
        after(b"[[\"", b"x"),
        after(b"[", b"{\"a\":1},"),
        after(b"", b"{\"a\":1} "),
        after(b"", b"[{\"a\":1},"),
        after(b"", b"[1]"),
        after(b"{} ", b" "),
        after(b"", b"x"),
    ] {
        while pushed < object.len() {
            let (buffer, limit) = splitter.room();
            let end = object.len().min(pushed + limit - buffer.len());
            buffer.extend_from_slice(&object[pushed..end]);
            pushed = end;
            peak = peak.max(buffer.capacity());
            while let Some(chunk) = splitter.take() {
                given += chunk.bytes.len();
                assert!(chunk.bytes.len() <= 1 << 14);
            }
        }
        splitter = Splitter::new(1 << 10, 1 << 14);
        pushed = 0;
    }
    assert!(given > 1 << 20);
    assert!(peak <= 5 << 14, "{peak}");
}

#[test]
fn a_byte_order_mark_counts_in_every_offset() {
    let mut splitter = Splitter::new(8, 8);
    splitter.set_origin(3);
    splitter.room().0.extend_from_slice(b"{}\n123456");
    splitter.set_origin(3);
    let first = splitter.take().unwrap();
    splitter.finish();
    let second = splitter.take().unwrap();
    assert_eq!((first.offset, second.offset), (3, 6));
    assert_eq!((first.first_line, second.first_line), (1, 2));
}

#[test]
fn a_recycled_buffer_is_used_again() {
    let mut splitter = Splitter::new(8, 8);
    splitter.room().0.extend_from_slice(b"{}\n123456");
    let chunk = splitter.take().unwrap();
    let place = chunk.bytes.as_ptr();
    splitter.recycle(chunk.bytes);
    splitter.recycle(vec![1; 50]);
    splitter.room().0.extend_from_slice(b"\n\n\n");
    splitter.take().unwrap();
    assert_eq!(splitter.room().0.as_ptr(), place);
}

/// What a chunking says in the end: each line or unit with its place, and each reject.
fn meaning(chunks: &[Chunk], max_record_bytes: usize) -> Vec<(u64, u64, Vec<u8>, Option<LongReason>)> {
    let mut all = Vec::new();
    for chunk in chunks {
        if let Some(reject) = &chunk.reject {
            all.push((reject.line, reject.offset, reject.head.clone(), Some(reject.reason)));
            continue;
        }
        let mut offset = chunk.offset;
        for (line, text) in (chunk.first_line..).zip(chunk.bytes.split_inclusive(|byte| *byte == b'\n')) {
            let over_long_line = !text.ends_with(b"\n");
            if over_long_line {
                all.extend(units(text, chunk.elements).into_iter().map(|(at, unit)| (line, offset + at, unit, None)));
            } else {
                assert!(text.len() <= max_record_bytes + 1 && !chunk.elements);
                all.push((line, offset, text.to_vec(), None));
            }
            offset += text.len() as u64;
        }
    }
    all
}

/// The units of a piece of an over-long line, told apart by another implementation of JSON than ours.
fn units(piece: &[u8], elements: bool) -> Vec<(u64, Vec<u8>)> {
    let text = std::str::from_utf8(piece).unwrap();
    let wrapped = if elements { format!("[{text}]") } else { text.to_owned() };
    let shift = usize::from(elements);
    let mut units = Vec::new();
    let mut add = |value: &str| {
        let at = value.as_ptr() as usize - wrapped.as_ptr() as usize - shift;
        units.push((at as u64, value.as_bytes().to_vec()));
    };
    for value in serde_json::Deserializer::from_str(&wrapped).into_iter::<&serde_json::value::RawValue>() {
        let value = value.unwrap().get();
        match serde_json::from_str::<Vec<&serde_json::value::RawValue>>(value) {
            Ok(list) => list.iter().for_each(|element| add(element.get())),
            Err(_) => add(value),
        }
    }
    units
}

/// Bits of lines, so that most of them are nearly JSON.
fn line_bits() -> impl Strategy<Value = String> {
    let bit = prop_oneof![
        8 => Just("{\"a\":1}"), 4 => Just("{\"b\":[1,{\"c\":\"]}\"}]}"), 4 => Just(","), 3 => Just("["), 3 => Just("]"), 3 => Just(" "),
        2 => Just("\n"), 1 => Just("[1,[2]]"), 1 => Just("\"0123456789012345678901234567890\""), 1 => Just("-1.5e3 "), 1 => Just("null "),
        1 => Just("{"), 1 => Just("\""), 1 => Just("[]"), 1 => Just("       ")
    ];
    prop::collection::vec(bit, 0..40).prop_map(|bits| bits.concat())
}

/// Lines that are wholly values, in arrays or not.
fn good_lines() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just("{\"a\":1}"),
        Just("{\"b\":[1,{\"c\":\"]}\"}]}"),
        Just("[1,[2]]"),
        Just("[ ]"),
        Just("\"01234567890123456789\""),
        Just("{}")
    ];
    let values = (prop::collection::vec(value, 0..12), any::<bool>(), any::<bool>()).prop_map(|(values, array, spaced)| {
        let separator = if spaced { " " } else { "" };
        if array { format!("[{}]", values.join(&format!("{separator},"))) } else { values.join(separator) }
    });
    prop::collection::vec(values, 0..6).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn chunks_do_not_depend_on_how_the_bytes_came(object in prop_oneof![line_bits(), good_lines()], chunk_size in 1_usize..40,
        max_record_bytes in 1_usize..60, piece in 1_usize..30) {
        let whole = split(object.as_bytes(), chunk_size, max_record_bytes, usize::MAX);
        prop_assert_eq!(split(object.as_bytes(), chunk_size, max_record_bytes, piece), whole);
    }

    #[test]
    fn random_bytes_give_the_same_chunks_too(object in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'"'), Just(b'['), Just(b'1')], 0..200),
        chunk_size in 1_usize..40, max_record_bytes in 1_usize..60, piece in 1_usize..30) {
        let whole = split(&object, chunk_size, max_record_bytes, usize::MAX);
        prop_assert_eq!(split(&object, chunk_size, max_record_bytes, piece), whole);
    }

    #[test]
    fn what_is_taken_does_not_depend_on_the_chunk_size(object in prop_oneof![line_bits(), good_lines()], one in 1_usize..60, other in 1_usize..60,
        max_record_bytes in 1_usize..60) {
        // A last line without LF can't be told from a piece of an over-long line here.
        let object = object + "\n";
        let said = |chunk_size| meaning(&split(object.as_bytes(), chunk_size, max_record_bytes, usize::MAX), max_record_bytes);
        prop_assert_eq!(said(one), said(other));
    }

    #[test]
    fn good_over_long_lines_give_every_value_or_reject_it_for_its_size(object in good_lines(), chunk_size in 1_usize..40, max_record_bytes in 1_usize..40) {
        let object = object + "\n";
        let mut expected = Vec::new();
        let mut offset = 0;
        for (line, text) in (1..).zip(object.split_inclusive('\n')) {
            if text.len() - 1 > max_record_bytes {
                for (at, unit) in units(text.trim_end().as_bytes(), false) {
                    let too_large = (unit.len() > max_record_bytes).then_some(LongReason::TooLarge);
                    expected.push((line, offset + at, unit[..unit.len().min(max_record_bytes)].to_vec(), too_large));
                }
            } else {
                expected.push((line, offset, text.as_bytes().to_vec(), None));
            }
            offset += text.len() as u64;
        }
        let chunks = split(object.as_bytes(), chunk_size, max_record_bytes, usize::MAX);
        prop_assert_eq!(meaning(&chunks, max_record_bytes), expected);
    }

    #[test]
    fn ordinary_lines_come_whole_and_in_order(object in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 0..300),
        chunk_size in 1_usize..60) {
        let chunks = split(&object, chunk_size, 300, 7);
        let together: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes.clone()).collect();
        prop_assert_eq!(together, object);
        for chunk in &chunks[..chunks.len() - 1] {
            prop_assert!(chunk.bytes.ends_with(b"\n"));
            prop_assert!(chunk.bytes.len() <= chunk_size || memchr(b'\n', &chunk.bytes) == Some(chunk.bytes.len() - 1));
        }
    }
}
