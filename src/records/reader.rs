//! From a chunk of whole lines to records: every value is handed on as a record or as a reject, with its place.

use std::ops::Range;

use super::json::{Fault, Tape, TokenKind, repair};
use super::route::Reason;

/// Where a record stands in its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1 (of staged Parquet: the row).
    pub line: u64,
    /// The byte offset of its first byte in the unpacked object.
    pub offset: u64,
}

/// What takes what a [`Reader`] finds.
pub trait Visit {
    /// Takes `text`, valid UTF-8 that seems to be one record at its `place`, without a tape; or leaves it, and then it is read on a tape.
    ///
    /// Who takes it has checked it whole, and that it needs no repair.
    fn direct(&mut self, _place: Place, _text: &[u8], _max_depth: usize) -> bool {
        false
    }

    /// A record: an object, whole on `tape`. `text` is its bytes, fit to be delivered; `repaired` says that they are not the `original` ones.
    fn record(&mut self, place: Place, tape: &mut Tape, text: &[u8], repaired: bool, original: &[u8]);

    /// A record that can't be read; `original` is its bytes as they were. `hint` says what it probably is.
    fn reject(&mut self, place: Place, reason: Reason, original: &[u8], hint: Option<&'static str>);
}

/// Said of the lines of a record that is spread over lines.
pub const SPREAD_HINT: &str =
    "it looks like a line of a record that is spread over lines (pretty-printed), stage one record a line";

/// Reads the records of chunks; one a worker, since it reuses its buffers.
#[derive(Debug)]
pub struct Reader {
    tape: Tape,
    max_depth: usize,
    max_record_bytes: usize,
}

impl Reader {
    /// A reader with these limits.
    #[must_use]
    pub fn new(max_depth: usize, max_record_bytes: usize) -> Reader {
        Reader { tape: Tape::default(), max_depth, max_record_bytes }
    }

    /// Reads `bytes`, whole lines of which the first stands at `first`.
    ///
    /// Blank lines are passed over, a carriage return before the line feed is no part of a record. A line holds one record, or several
    /// after each other, or arrays of them; one that is not wholly such is one reject, whole.
    pub fn read(&mut self, bytes: &[u8], first: Place, visit: &mut impl Visit) {
        let Place { mut line, offset } = first;
        let mut start = 0;
        while start < bytes.len() {
            let rest = bytes.get(start..).unwrap_or_default();
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let text = rest.get(..length).unwrap_or_default();
            // Line by line, so that the tape is read from the nearest cache.
            let is_utf8 = std::str::from_utf8(text).is_ok();
            self.line(text, Place { line, offset: offset + start as u64 }, is_utf8, visit);
            start += length + 1;
            line += 1;
        }
    }

    /// Reads `bytes`, elements of an array of records with commas between them, all on one line, known to be JSON.
    pub fn read_elements(&mut self, bytes: &[u8], first: Place, visit: &mut impl Visit) {
        let is_utf8 = std::str::from_utf8(bytes).is_ok();
        let is_between = |byte: &u8| is_space(*byte) || *byte == b',';
        let mut at = 0;
        loop {
            at += bytes.get(at..).unwrap_or_default().iter().take_while(|byte| is_between(byte)).count();
            if at >= bytes.len() {
                break;
            }
            match self.value(bytes, first, at, is_utf8, visit) {
                Some(end) => at = end,
                None => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    visit.reject(place_in(first, at), Reason::NotJson, rest, None);
                    break;
                }
            }
        }
    }

    fn line(&mut self, line: &[u8], place: Place, is_utf8: bool, visit: &mut impl Visit) {
        let Some(start) = line.iter().position(|byte| !is_space(*byte)) else { return };
        let end = line.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
        let text = line.get(start..end).unwrap_or_default();
        let may_be_direct = is_utf8 && text.first() == Some(&b'{') && text.len() <= self.max_record_bytes;
        if may_be_direct && visit.direct(place_in(place, start), text, self.max_depth) {
            return;
        }
        // The usual line is one object; anything else is looked at in a second way.
        if line.get(start) == Some(&b'{') && self.tape.read(line, start, self.max_depth) == Ok(end) {
            return self.taken(line, place, start..end, is_utf8, visit);
        }
        if self.find_values(line, start, end, |reader, at| reader.end_of(line, at)).is_none() {
            let reason = if text.len() > self.max_record_bytes { Reason::TooLarge } else { Reason::NotJson };
            return visit.reject(place_in(place, start), reason, text, looks_spread(text).then_some(SPREAD_HINT));
        }
        // It is wholly values. They are read once more rather than remembered: a hostile line may hold one for each two of its bytes.
        let _ = self.find_values(line, start, end, |reader, at| reader.value(line, place, at, is_utf8, visit));
    }

    /// Finds the values of a line, those of its arrays each for itself: `take` gets where each starts and answers where it ends. `None` if
    /// the line is not wholly such.
    fn find_values(
        &mut self,
        line: &[u8],
        start: usize,
        end: usize,
        mut take: impl FnMut(&mut Self, usize) -> Option<usize>,
    ) -> Option<()> {
        let mut at = start;
        while at < end {
            if line.get(at) != Some(&b'[') {
                at = skip_space(line, take(self, at)?);
                continue;
            }
            at = skip_space(line, at + 1);
            if line.get(at) != Some(&b']') {
                loop {
                    at = skip_space(line, take(self, at)?);
                    match line.get(at) {
                        Some(b',') => at = skip_space(line, at + 1),
                        Some(b']') => break,
                        _ => return None,
                    }
                }
            }
            at = skip_space(line, at + 1);
        }
        Some(())
    }

    /// Where the value that starts at `start` ends, however deep it is.
    fn end_of(&mut self, line: &[u8], start: usize) -> Option<usize> {
        match self.tape.read(line, start, self.max_depth) {
            Ok(end) | Err(Fault::TooDeep(end)) => Some(end),
            Err(Fault::Syntax(_)) => None,
        }
    }

    /// Reads the value that starts at `start` and hands it on, as a record or as a reject; where it ends.
    fn value(&mut self, line: &[u8], place: Place, start: usize, is_utf8: bool, visit: &mut impl Visit) -> Option<usize> {
        match self.tape.read(line, start, self.max_depth) {
            Ok(end) => {
                self.taken(line, place, start..end, is_utf8, visit);
                Some(end)
            }
            Err(Fault::TooDeep(end)) => {
                let text = line.get(start..end).unwrap_or_default();
                let reason = if text.len() > self.max_record_bytes { Reason::TooLarge } else { Reason::TooDeep };
                visit.reject(place_in(place, start), reason, text, None);
                Some(end)
            }
            Err(Fault::Syntax(_)) => None,
        }
    }

    /// Hands on the value that is on the tape.
    #[inline]
    fn taken(&mut self, line: &[u8], place: Place, value: Range<usize>, is_utf8: bool, visit: &mut impl Visit) {
        let start = value.start;
        let text = line.get(value).unwrap_or_default();
        let place = place_in(place, start);
        if text.len() > self.max_record_bytes {
            return visit.reject(place, Reason::TooLarge, text, None);
        }
        if self.tape.token(0).kind != TokenKind::Object {
            return visit.reject(place, Reason::NotObject, text, None);
        }
        let needs_repair = self.tape.findings().any() || !is_utf8 && std::str::from_utf8(text).is_err();
        if needs_repair {
            let repaired = repair(text);
            return match self.tape.read(&repaired, 0, self.max_depth) {
                Ok(_) => visit.record(place, &mut self.tape, &repaired, true, text),
                Err(_) => visit.reject(place, Reason::NotJson, text, None),
            };
        }
        if start != 0 {
            // Token positions are those in the text that is handed on.
            self.tape.shift_back(start);
        }
        visit.record(place, &mut self.tape, text, false, text);
    }
}

fn place_in(line: Place, start: usize) -> Place {
    Place { offset: line.offset + start as u64, ..line }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn skip_space(line: &[u8], mut at: usize) -> usize {
    while line.get(at).is_some_and(|&byte| is_space(byte)) {
        at += 1;
    }
    at
}

/// Whether a line that is no JSON looks like one of a pretty-printed record: a lone bracket, or a member.
fn looks_spread(text: &[u8]) -> bool {
    let text = text.strip_suffix(b",").unwrap_or(text);
    match text {
        b"{" | b"}" | b"[" | b"]" => true,
        _ => {
            let mut tape = Tape::default();
            let member_of_object = text.first() == Some(&b'"')
                && tape
                    .read(text, 0, 0)
                    .ok()
                    .map(|end| skip_space(text, end))
                    .is_some_and(|colon| text.get(colon) == Some(&b':'));
            member_of_object || tape.read(text, 0, 64) == Ok(text.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Log(Vec<String>);

    impl Visit for Log {
        fn record(&mut self, place: Place, tape: &mut Tape, text: &[u8], repaired: bool, _original: &[u8]) {
            assert_eq!(tape.token(0).text(text), text, "token positions are those of the text");
            let mark = if repaired { "repaired " } else { "" };
            self.0.push(format!("{}@{} {mark}{}", place.line, place.offset, String::from_utf8_lossy(text)));
        }

        fn reject(&mut self, place: Place, reason: Reason, original: &[u8], hint: Option<&'static str>) {
            let hint = if hint.is_some() { " spread" } else { "" };
            self.0.push(format!("{}@{} {}{hint} {}", place.line, place.offset, reason.name(), String::from_utf8_lossy(original)));
        }
    }

    fn read(text: &[u8]) -> Vec<String> {
        let mut log = Log::default();
        Reader::new(3, 40).read(text, Place { line: 1, offset: 100 }, &mut log);
        log.0
    }

    #[test]
    fn each_line_is_a_record_and_blank_ones_are_none() {
        assert_eq!(
            read(b"{\"a\":1}\r\n\n \t\r\n  {\"b\":2}  \n{\"c\":3}"),
            ["1@100 {\"a\":1}", "4@116 {\"b\":2}", "5@126 {\"c\":3}"]
        );
        assert_eq!(read(b""), [""; 0]);
    }

    #[test]
    fn several_values_and_arrays_on_a_line_are_records_each() {
        assert_eq!(read(b"{\"a\":1}{\"b\":2} {}"), ["1@100 {\"a\":1}", "1@107 {\"b\":2}", "1@115 {}"]);
        assert_eq!(
            read(b"[{\"a\":1}, 7 ,[{}]]{}"),
            ["1@101 {\"a\":1}", "1@110 not_object 7", "1@113 not_object [{}]", "1@118 {}"]
        );
        assert_eq!(read(b"[]"), [""; 0]);
    }

    #[test]
    fn a_line_that_is_not_wholly_values_is_one_reject() {
        for line in ["{\"a\":1}\\n{\"b\":2}", "{\"a\":1} x", "[{\"a\":1}", "[{},]", "NaN", "{\"a\":NaN}", "\0\0"] {
            assert_eq!(read(line.as_bytes()), [format!("1@100 not_json {line}")]);
        }
        for line in ["null", "42", "\"pageview\""] {
            assert_eq!(read(line.as_bytes()), [format!("1@100 not_object {line}")]);
        }
    }

    #[test]
    fn a_record_that_is_spread_over_lines_is_said_to_be() {
        for line in ["{", "}", "},", "\"a\": 1,", "\"a\": {", "\"a\": [", "\"x\",", "],"] {
            assert_eq!(read(line.as_bytes()), [format!("1@100 not_json spread {line}")]);
        }
    }

    #[test]
    fn what_is_too_deep_or_too_long_is_one_reject_and_the_rest_of_the_line_goes_on() {
        assert_eq!(read(b"{\"a\":{\"b\":{\"c\":[]}}}{}"), ["1@100 too_deep {\"a\":{\"b\":{\"c\":[]}}}", "1@120 {}"]);
        assert_eq!(read(b"{\"a\":{\"b\":{\"c\":[]}}}"), ["1@100 too_deep {\"a\":{\"b\":{\"c\":[]}}}"]);
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(40));
        assert_eq!(read(format!("{long}{{}}").as_bytes()), [format!("1@100 too_large {long}"), "1@148 {}".to_owned()]);
        assert_eq!(read(long.as_bytes()), [format!("1@100 too_large {long}")]);
    }

    #[test]
    fn repairs_are_made_on_the_record_alone() {
        assert_eq!(read(b"{\"a\":\"\xff\"}\n{}"), ["1@100 repaired {\"a\":\"\u{FFFD}\"}", "2@110 {}"]);
        assert_eq!(read(b"{\"a\":\r1}{}"), ["1@100 repaired {\"a\": 1}", "1@108 {}"]);
        assert_eq!(read(b"{\"a\":\"\\ud800\"}"), ["1@100 repaired {\"a\":\"\u{FFFD}\"}"]);
    }
}
