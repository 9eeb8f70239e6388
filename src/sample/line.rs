//! Writes one record as a line of JSON, with its keys in the order in which they are given.

use super::random::Random;

/// A line under construction. Commas follow from what stands before, so that each field is one call.
#[derive(Debug, Default)]
pub(super) struct Line {
    bytes: Vec<u8>,
    /// Write `é` as `\u00e9`, an emoji as two `\u` halves and `/` as `\/`, as several JSON libraries do by default.
    escapes: bool,
}

impl Line {
    /// Begins a new record.
    pub(super) fn begin(&mut self, escapes: bool) {
        self.bytes.clear();
        self.escapes = escapes;
        self.bytes.push(b'{');
    }

    /// Ends the record and gives the line, with its line feed.
    pub(super) fn finish(&mut self) -> &[u8] {
        self.bytes.extend_from_slice(b"}\n");
        &self.bytes
    }

    /// Starts a field; its value is what is written next. Keys are plain names that need no escape.
    pub(super) fn key(&mut self, key: &str) -> &mut Self {
        self.item();
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(b"\":");
        self
    }

    /// Starts an element of a list; its value is what is written next.
    pub(super) fn item(&mut self) -> &mut Self {
        if !matches!(self.bytes.last(), Some(b'{' | b'[')) {
            self.bytes.push(b',');
        }
        self
    }

    pub(super) fn open(&mut self) {
        self.bytes.push(b'{');
    }

    pub(super) fn close(&mut self) {
        self.bytes.push(b'}');
    }

    pub(super) fn open_list(&mut self) {
        self.bytes.push(b'[');
    }

    pub(super) fn close_list(&mut self) {
        self.bytes.push(b']');
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(b"null");
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.bytes.extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// An integer.
    pub(super) fn number(&mut self, value: u64) {
        push_number(&mut self.bytes, value);
    }

    /// A number given in thousandths: `4990` is `4.99`, `5000` is `5`, as most serializers write whole doubles.
    pub(super) fn thousandths(&mut self, value: u64) {
        push_number(&mut self.bytes, value / 1000);
        self.decimals(value % 1000, 100);
    }

    /// A share of one, given in millionths: `0`, `1`, `0.63`, `0.482113`, and below a ten thousandth `3.2e-05`.
    pub(super) fn share(&mut self, millionths: u64) {
        if (1..100).contains(&millionths) {
            let (whole, part, exponent) =
                if millionths < 10 { (millionths, 0, "e-06") } else { (millionths / 10, millionths % 10, "e-05") };
            push_number(&mut self.bytes, whole);
            self.decimals(part, 1);
            self.bytes.extend_from_slice(exponent.as_bytes());
        } else {
            push_number(&mut self.bytes, millionths / 1_000_000);
            self.decimals(millionths % 1_000_000, 100_000);
        }
    }

    /// The digits after the point, the first worth `unit`, without trailing zeros; nothing when there are none.
    fn decimals(&mut self, part: u64, unit: u64) {
        let (mut rest, mut worth) = (part, unit);
        if rest > 0 {
            self.bytes.push(b'.');
        }
        while rest > 0 && worth > 0 {
            push_number(&mut self.bytes, rest / worth);
            rest %= worth;
            worth /= 10;
        }
    }

    /// A string, escaped as JSON asks and as the line's habit is.
    pub(super) fn text(&mut self, text: &str) {
        self.text_of(&[text]);
    }

    /// A string that is the pieces in a row.
    pub(super) fn text_of(&mut self, pieces: &[&str]) {
        self.bytes.push(b'"');
        for piece in pieces {
            self.push_escaped(piece);
        }
        self.bytes.push(b'"');
    }

    fn push_escaped(&mut self, text: &str) {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'/');
        if text.bytes().all(is_plain) {
            self.bytes.extend_from_slice(text.as_bytes());
            return;
        }
        for character in text.chars() {
            match character {
                '"' => self.bytes.extend_from_slice(b"\\\""),
                '\\' => self.bytes.extend_from_slice(b"\\\\"),
                '\n' => self.bytes.extend_from_slice(b"\\n"),
                '/' if self.escapes => self.bytes.extend_from_slice(b"\\/"),
                ' '..='~' => self.bytes.extend(u8::try_from(character)),
                _ if character.is_ascii() || self.escapes => {
                    for &half in character.encode_utf16(&mut [0; 2]).iter() {
                        self.bytes.extend_from_slice(b"\\u");
                        push_hex(&mut self.bytes, u64::from(half), 4);
                    }
                }
                _ => self.bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    /// A random (version 4) UUID in RFC 9562's text form.
    pub(super) fn uuid(&mut self, mut random: Random) {
        let (high, low) = (random.next(), random.next());
        self.bytes.push(b'"');
        push_hex(&mut self.bytes, high >> 32, 8);
        self.bytes.push(b'-');
        push_hex(&mut self.bytes, high >> 16, 4);
        self.bytes.extend_from_slice(b"-4");
        push_hex(&mut self.bytes, high, 3);
        self.bytes.push(b'-');
        push_hex(&mut self.bytes, (low >> 62) | 8, 1);
        push_hex(&mut self.bytes, low >> 48, 3);
        self.bytes.push(b'-');
        push_hex(&mut self.bytes, low, 12);
        self.bytes.push(b'"');
    }

    /// A string of `digits` random hexadecimal digits, at most 64.
    pub(super) fn hex(&mut self, mut random: Random, digits: u32) {
        self.bytes.push(b'"');
        let mut rest = digits.min(64);
        while rest > 0 {
            push_hex(&mut self.bytes, random.next(), rest.min(16));
            rest -= rest.min(16);
        }
        self.bytes.push(b'"');
    }

    /// An instant, in RFC 3339 and UTC with milliseconds: `2026-01-15T08:13:02.417Z`.
    pub(super) fn instant(&mut self, date: time::Date, millisecond_of_day: u64) {
        let (seconds, milliseconds) = (millisecond_of_day / 1000, millisecond_of_day % 1000);
        self.bytes.push(b'"');
        push_date(&mut self.bytes, date);
        for (mark, value) in [(b'T', seconds / 3600), (b':', seconds / 60 % 60), (b':', seconds % 60)] {
            self.bytes.push(mark);
            push_padded(&mut self.bytes, value, 2);
        }
        self.bytes.push(b'.');
        push_padded(&mut self.bytes, milliseconds, 3);
        self.bytes.extend_from_slice(b"Z\"");
    }
}

/// Appends a date as `2026-01-15`.
fn push_date(bytes: &mut Vec<u8>, date: time::Date) {
    push_padded(bytes, u64::from(date.year().unsigned_abs()), 4);
    bytes.push(b'-');
    push_padded(bytes, u64::from(u8::from(date.month())), 2);
    bytes.push(b'-');
    push_padded(bytes, u64::from(date.day()), 2);
}

fn push_number(bytes: &mut Vec<u8>, value: u64) {
    let mut digits = 1;
    let mut rest = value / 10;
    while rest > 0 {
        digits += 1;
        rest /= 10;
    }
    push_padded(bytes, value, digits);
}

/// Appends the last `digits` decimal digits of the value.
fn push_padded(bytes: &mut Vec<u8>, value: u64, digits: u32) {
    for place in (0..digits).rev() {
        let digit = value / 10_u64.pow(place) % 10;
        bytes.push(b'0' + u8::try_from(digit).unwrap_or(0));
    }
}

/// Appends the last `digits` hexadecimal digits of the value.
fn push_hex(bytes: &mut Vec<u8>, value: u64, digits: u32) {
    for place in (0..digits).rev() {
        let digit = u8::try_from((value >> (4 * place)) & 15).unwrap_or(0);
        bytes.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Line)) -> String {
        let mut line = Line::default();
        write(&mut line);
        String::from_utf8(line.bytes).unwrap()
    }

    #[test]
    fn shares_and_thousandths_are_written_as_serializers_write_doubles() {
        let shares =
            [(0, "0"), (1, "1e-06"), (32, "3.2e-05"), (90, "9e-05"), (100, "0.0001"), (630_000, "0.63"), (1_000_000, "1")];
        for (millionths, text) in shares {
            assert_eq!(written(|line| line.share(millionths)), text);
        }
        for (value, text) in [(0, "0"), (4990, "4.99"), (5000, "5"), (15_005, "15.005")] {
            assert_eq!(written(|line| line.thousandths(value)), text);
        }
    }

    #[test]
    fn text_is_escaped_only_as_far_as_the_line_asks() {
        assert_eq!(written(|line| line.text("a/\"é\u{1F680}\\\n")), "\"a/\\\"é\u{1F680}\\\\\\n\"");
        let escaped = written(|line| {
            line.escapes = true;
            line.text("a/é\u{1F680}");
        });
        assert_eq!(escaped, r#""a\/\u00e9\ud83d\ude80""#);
    }

    #[test]
    fn an_instant_is_rfc_3339_with_milliseconds() {
        let date = time::Date::from_calendar_date(2026, time::Month::January, 5).unwrap();
        assert_eq!(written(|line| line.instant(date, 29_582_417)), "\"2026-01-05T08:13:02.417Z\"");
        assert_eq!(written(|line| line.instant(date, 86_399_999)), "\"2026-01-05T23:59:59.999Z\"");
    }

    #[test]
    fn a_uuid_has_its_version_and_variant() {
        for index in 0..50 {
            let uuid = written(|line| line.uuid(Random::of(1, 2, index)));
            assert_eq!(uuid.len(), 38, "{uuid}");
            assert_eq!(&uuid[15..16], "4", "{uuid}");
            assert!("89ab".contains(&uuid[20..21]), "{uuid}");
        }
    }
}
