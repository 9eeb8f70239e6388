//! One pass over a JSON value: checks it against RFC 8259 and leaves a flat tape of its tokens, without recursion.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TokenKind {
    /// `null`.
    Null,
    /// `true`.
    True,
    /// `false`.
    False,
    /// A number.
    Number,
    /// A string, as a value or as a key.
    String,
    /// An object: its keys and values follow in turn.
    Object,
    /// An array: its elements follow.
    Array,
}

/// One token. `start..end` is its text in the buffer that was read (a string's with its quotes); a container's spans all that is in it.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Where its text starts.
    pub start: u32,
    /// Where its text ends (exclusive).
    pub end: u32,
    /// The index of the token after it and all that is in it.
    pub next: u32,
    /// What it is.
    pub kind: TokenKind,
    /// A string with escapes; or a key that a later equal key of the same object overrides ([`Tape::drop_repeats`]).
    flags: u8,
}

const ESCAPED: u8 = 1;
const REPEATED: u8 = 2;
const TOO_DEEP: u8 = 4;
const KEY: u8 = 8;

impl Token {
    /// A scalar that is no key; `is_escaped` of a string that holds escapes.
    pub(crate) fn scalar(start: usize, end: usize, kind: TokenKind, is_escaped: bool) -> Token {
        Token { start: index(start), end: index(end), next: u32::MAX, kind, flags: if is_escaped { ESCAPED } else { 0 } }
    }

    /// Whether a string holds escapes, so that its text is not its value.
    #[must_use]
    pub fn is_escaped(&self) -> bool {
        self.flags & ESCAPED != 0
    }

    /// Whether a later key of the same object overrides this one.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.flags & REPEATED != 0
    }

    /// Whether a string is an object's key and no value.
    #[must_use]
    pub fn is_key(&self) -> bool {
        self.flags & KEY != 0
    }

    /// The token's text.
    #[must_use]
    pub fn text<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        buffer.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// A string's text between its quotes.
    #[must_use]
    pub fn inner<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        buffer.get(self.start as usize + 1..(self.end as usize).saturating_sub(1)).unwrap_or_default()
    }
}

/// Why a value was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not JSON from this position on.
    Syntax(usize),
    /// JSON, but nested deeper than allowed; the value ends at this position.
    TooDeep(usize),
}

/// What a value that was taken needs before it can be passed on byte for byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// A carriage return stands between tokens.
    pub carriage_return: bool,
    /// A `\u` escape is half of a surrogate pair without the other half.
    pub half_surrogate: bool,
}

impl Findings {
    /// Whether the text has to be repaired.
    #[must_use]
    pub fn any(self) -> bool {
        self.carriage_return || self.half_surrogate
    }
}

/// The tokens of one value, in the order of the text; the first is the value itself.
#[derive(Debug, Default)]
pub struct Tape {
    tokens: Vec<Token>,
    open: Vec<u32>,
    findings: Findings,
    knows_repeats: bool,
}

/// What the reader expects next.
#[derive(Clone, Copy)]
enum Expect {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    CommaOrEnd,
}

impl Tape {
    /// The tokens of the value that was read last.
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// What the value that was read last needs before it is passed on.
    #[must_use]
    pub fn findings(&self) -> Findings {
        self.findings
    }

    /// The token at `index`; a null for an index outside, which no walk along `next` ever has.
    #[must_use]
    pub fn token(&self, index: u32) -> Token {
        const NONE: Token = Token { start: 0, end: 0, next: u32::MAX, kind: TokenKind::Null, flags: 0 };
        self.tokens.get(index as usize).copied().unwrap_or(NONE)
    }

    /// Reads the value that starts at `at` in `buffer` (no white space before it) and returns where it ends.
    ///
    /// The text is checked whole: strict numbers, literals and escapes, no raw control characters in strings. Whether it is UTF-8 is
    /// the caller's to know. A value nested deeper than `max_depth` (a scalar is 0, `{}` is 1) is read to its end all the same.
    /// `buffer` is under 4 GiB.
    pub fn read(&mut self, buffer: &[u8], at: usize, max_depth: usize) -> Result<usize, Fault> {
        self.tokens.clear();
        self.open.clear();
        self.findings = Findings::default();
        self.knows_repeats = false;
        let mut position = at;
        let mut expect = Expect::Value;
        let mut too_deep: Vec<u8> = Vec::new();
        loop {
            let mut byte = byte_at(buffer, position);
            if byte <= b' ' {
                position = self.skip_space(buffer, position);
                byte = byte_at(buffer, position);
            }
            match expect {
                Expect::Key | Expect::KeyOrEnd => {
                    if byte == b'"' {
                        let end = self.string(buffer, position, KEY)?;
                        // Almost always the colon and the value follow at once.
                        let mut colon = end;
                        if byte_at(buffer, colon) != b':' {
                            colon = self.skip_space(buffer, colon);
                            if byte_at(buffer, colon) != b':' {
                                return Err(Fault::Syntax(colon));
                            }
                        }
                        position = colon + 1;
                        expect = Expect::Value;
                        continue;
                    }
                    if byte != b'}' || matches!(expect, Expect::Key) {
                        return Err(Fault::Syntax(position));
                    }
                    position += 1;
                    self.close(position, &mut too_deep);
                }
                Expect::CommaOrEnd => {
                    let in_object = match too_deep.last() {
                        Some(&kind) => kind == b'{',
                        None => self.innermost_is_object(),
                    };
                    match byte {
                        b',' => {
                            position += 1;
                            expect = if in_object { Expect::Key } else { Expect::Value };
                            continue;
                        }
                        b'}' if in_object => {}
                        b']' if !in_object => {}
                        _ => return Err(Fault::Syntax(position)),
                    }
                    position += 1;
                    self.close(position, &mut too_deep);
                }
                Expect::Value | Expect::ValueOrEnd => match byte {
                    b'"' => position = self.string(buffer, position, 0)?,
                    b'{' | b'[' => {
                        let kind = if byte == b'{' { TokenKind::Object } else { TokenKind::Array };
                        if too_deep.is_empty() && self.open.len() < max_depth {
                            self.open.push(index(self.tokens.len()));
                            self.push(position, position, kind, 0);
                        } else {
                            too_deep.push(byte);
                        }
                        position += 1;
                        expect = if byte == b'{' { Expect::KeyOrEnd } else { Expect::ValueOrEnd };
                        continue;
                    }
                    b']' if matches!(expect, Expect::ValueOrEnd) => {
                        position += 1;
                        self.close(position, &mut too_deep);
                    }
                    b't' => position = self.literal(buffer, position, b"true", TokenKind::True)?,
                    b'f' => position = self.literal(buffer, position, b"false", TokenKind::False)?,
                    b'n' => position = self.literal(buffer, position, b"null", TokenKind::Null)?,
                    _ => {
                        let end = number_end(buffer, position).ok_or(Fault::Syntax(position))?;
                        self.push(position, end, TokenKind::Number, 0);
                        position = end;
                    }
                },
            }
            if self.open.is_empty() && too_deep.is_empty() {
                return if self.went_too_deep(max_depth) { Err(Fault::TooDeep(position)) } else { Ok(position) };
            }
            expect = Expect::CommaOrEnd;
        }
    }

    /// Moves all tokens `by` bytes towards the start: they were read at an offset in a buffer of which only the rest is kept.
    pub fn shift_back(&mut self, by: usize) {
        let by = index(by);
        for token in &mut self.tokens {
            token.start = token.start.saturating_sub(by);
            token.end = token.end.saturating_sub(by);
        }
    }

    /// Whether the value at `index` says nothing: null, `{}`, `[]`, or a container that holds only such. What a repeat overrides counts
    /// until the repeats are marked.
    #[must_use]
    pub fn is_nothing(&self, index: u32) -> bool {
        let end = self.token(index).next as usize;
        if self.knows_repeats {
            let mut at = index as usize;
            while at < end {
                let Some(token) = self.tokens.get(at) else { return true };
                if token.is_key() && token.is_repeated() {
                    at = self.tokens.get(at + 1).map_or(end, |value| value.next as usize);
                    continue;
                }
                if !says_nothing(token) {
                    return false;
                }
                at += 1;
            }
            return true;
        }
        let within = self.tokens.get(index as usize..end).unwrap_or_default();
        within.iter().all(says_nothing)
    }

    /// Marks each key that a later equal key (escapes decoded) of the same object overrides; says whether there was any.
    pub fn drop_repeats(&mut self, buffer: &[u8]) -> bool {
        self.knows_repeats = true;
        let mut any = false;
        let mut last: std::collections::HashMap<Vec<u8>, usize> = std::collections::HashMap::new();
        for object in 0..self.tokens.len() {
            let Some(token) = self.tokens.get(object).copied() else { break };
            if token.kind != TokenKind::Object {
                continue;
            }
            last.clear();
            let mut at = object + 1;
            while at < token.next as usize {
                let key = self.token(index(at));
                let value = self.token(index(at + 1));
                let mut text = Vec::new();
                unescape(&key, buffer, &mut text);
                if let Some(earlier) = last.insert(text, at)
                    && let Some(earlier) = self.tokens.get_mut(earlier)
                {
                    earlier.flags |= REPEATED;
                    any = true;
                }
                at = value.next as usize;
            }
        }
        any
    }

    /// Whether the repeats are marked already.
    #[must_use]
    pub fn knows_repeats(&self) -> bool {
        self.knows_repeats
    }

    fn went_too_deep(&self, max_depth: usize) -> bool {
        // A container that was opened beyond `max_depth` left no token; the marker is the flag on the root.
        max_depth == 0 && self.tokens.is_empty() || self.tokens.first().is_some_and(|root| root.flags & TOO_DEEP != 0)
    }

    fn innermost_is_object(&self) -> bool {
        self.open.last().is_some_and(|&open| self.token(open).kind == TokenKind::Object)
    }

    #[inline]
    fn push(&mut self, start: usize, end: usize, kind: TokenKind, flags: u8) {
        let next = index(self.tokens.len() + 1);
        self.tokens.push(Token { start: index(start), end: index(end), next, kind, flags });
    }

    #[inline]
    fn close(&mut self, end: usize, too_deep: &mut Vec<u8>) {
        if too_deep.pop().is_some() {
            // The tokens of what is too deep are of no use: only the root's mark is.
            if let Some(root) = self.tokens.first_mut() {
                root.flags |= TOO_DEEP;
            }
            return;
        }
        let next = index(self.tokens.len());
        if let Some(open) = self.open.pop()
            && let Some(container) = self.tokens.get_mut(open as usize)
        {
            container.end = index(end);
            container.next = next;
        }
    }

    fn literal(&mut self, buffer: &[u8], at: usize, word: &[u8], kind: TokenKind) -> Result<usize, Fault> {
        let end = at + word.len();
        if buffer.get(at..end) != Some(word) {
            return Err(Fault::Syntax(at));
        }
        self.push(at, end, kind, 0);
        Ok(end)
    }

    #[inline(never)]
    fn skip_space(&mut self, buffer: &[u8], mut at: usize) -> usize {
        loop {
            match byte_at(buffer, at) {
                b' ' | b'\t' | b'\n' => at += 1,
                b'\r' => {
                    self.findings.carriage_return = true;
                    at += 1;
                }
                _ => return at,
            }
        }
    }

    /// Reads the string whose opening quote is at `at`.
    #[inline]
    fn string(&mut self, buffer: &[u8], at: usize, flags: u8) -> Result<usize, Fault> {
        let (end, is_escaped) = string_end(buffer, at, &mut self.findings)?;
        self.push(at, end, TokenKind::String, flags | if is_escaped { ESCAPED } else { 0 });
        Ok(end)
    }
}

/// Where the string ends whose opening quote is at `at`, and whether it holds escapes.
#[inline]
pub(crate) fn string_end(buffer: &[u8], at: usize, findings: &mut Findings) -> Result<(usize, bool), Fault> {
    let mut position = at + 1;
    let mut is_escaped = false;
    loop {
        position = special_from(buffer, position);
        match byte_at(buffer, position) {
            b'"' => return Ok((position + 1, is_escaped)),
            b'\\' => {
                is_escaped = true;
                position = escape_end(buffer, position, findings)?;
            }
            _ => return Err(Fault::Syntax(position)),
        }
    }
}

fn escape_end(buffer: &[u8], at: usize, findings: &mut Findings) -> Result<usize, Fault> {
    match byte_at(buffer, at + 1) {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 2),
        b'u' => {
            let unit = hex4(buffer, at + 2).ok_or(Fault::Syntax(at))?;
            match unit {
                0xD800..=0xDBFF => {
                    let low = (byte_at(buffer, at + 6) == b'\\' && byte_at(buffer, at + 7) == b'u')
                        .then(|| hex4(buffer, at + 8))
                        .flatten();
                    if low.is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) {
                        return Ok(at + 12);
                    }
                    findings.half_surrogate = true;
                }
                0xDC00..=0xDFFF => findings.half_surrogate = true,
                _ => {}
            }
            Ok(at + 6)
        }
        _ => Err(Fault::Syntax(at)),
    }
}

/// Whether a token is no value that could be a column's.
fn says_nothing(token: &Token) -> bool {
    token.is_key() || matches!(token.kind, TokenKind::Null | TokenKind::Object | TokenKind::Array)
}

/// Positions fit in 32 bits: a buffer is a chunk, bounded by `max_record_bytes`, and the configuration keeps that under 2 GiB.
#[inline]
fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[inline]
pub(crate) fn byte_at(buffer: &[u8], at: usize) -> u8 {
    // NUL is allowed nowhere between or in tokens, so it stands for the end of the text as well.
    buffer.get(at).copied().unwrap_or(0)
}

/// The position of the first quote, backslash or control character from `from` on, or the buffer's length.
#[inline]
fn special_from(buffer: &[u8], from: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // A word's lowest flagged byte is exact: a borrow can only flag bytes above a true one.
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let mut at = from;
    while let Some(word) = buffer.get(at..at + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()) {
        let word = u64::from_le_bytes(word);
        let quote = has_zero(word ^ (ONES * u64::from(b'"')));
        let backslash = has_zero(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let special = quote | backslash | control;
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < buffer.len() && !matches!(byte_at(buffer, at), b'"' | b'\\' | 0..0x20) {
        at += 1;
    }
    at
}

#[inline]
fn digits_end(buffer: &[u8], mut at: usize) -> usize {
    while byte_at(buffer, at).is_ascii_digit() {
        at += 1;
    }
    at
}

/// The end of the number that starts at `at`, by the grammar of RFC 8259 §6.
#[inline]
pub(crate) fn number_end(buffer: &[u8], at: usize) -> Option<usize> {
    let first = at + usize::from(byte_at(buffer, at) == b'-');
    let mut end = match byte_at(buffer, first) {
        b'0' => first + 1,
        b'1'..=b'9' => digits_end(buffer, first + 1),
        _ => return None,
    };
    if byte_at(buffer, end) == b'.' {
        let fraction = digits_end(buffer, end + 1);
        if fraction == end + 1 {
            return None;
        }
        end = fraction;
    }
    if matches!(byte_at(buffer, end), b'e' | b'E') {
        let digits = end + 1 + usize::from(matches!(byte_at(buffer, end + 1), b'+' | b'-'));
        let exponent = digits_end(buffer, digits);
        if exponent == digits {
            return None;
        }
        end = exponent;
    }
    Some(end)
}

/// Whether `text` is exactly one JSON number.
#[must_use]
pub fn is_number(text: &[u8]) -> bool {
    number_end(text, 0) == Some(text.len())
}

fn hex4(buffer: &[u8], at: usize) -> Option<u32> {
    let digits = buffer.get(at..at + 4)?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?))
}

/// Appends a string token's value: its text with the escapes resolved. A half surrogate becomes U+FFFD.
pub fn unescape(token: &Token, buffer: &[u8], out: &mut Vec<u8>) {
    let mut rest = token.inner(buffer);
    if !token.is_escaped() {
        out.extend_from_slice(rest);
        return;
    }
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        let length = match byte_at(rest, at + 1) {
            b'b' => push_byte(out, 8),
            b'f' => push_byte(out, 12),
            b'n' => push_byte(out, b'\n'),
            b'r' => push_byte(out, b'\r'),
            b't' => push_byte(out, b'\t'),
            b'u' => {
                let unit = hex4(rest, at + 2).unwrap_or(0xFFFD);
                let low = hex4(rest, at + 8).filter(|low| {
                    (0xD800..0xDC00).contains(&unit) && rest.get(at + 6..at + 8) == Some(b"\\u") && (0xDC00..0xE000).contains(low)
                });
                let (code, length) = match low {
                    Some(low) => (0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00), 12),
                    None => (unit, 6),
                };
                let character = char::from_u32(code).unwrap_or('\u{FFFD}');
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                length
            }
            other => push_byte(out, other),
        };
        rest = rest.get(at + length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

fn push_byte(out: &mut Vec<u8>, byte: u8) -> usize {
    out.push(byte);
    2
}

/// Appends `text` (a string's value) as a JSON string, quotes included.
pub fn escape(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// The text of a value (or of what is hoped to be one) made fit to be passed on: invalid UTF-8 and half surrogates become a plain
/// U+FFFD, a carriage return between tokens becomes a space.
#[must_use]
pub fn repair(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut in_string = false;
    let mut at = 0;
    while at < bytes.len() {
        let byte = byte_at(bytes, at);
        match byte {
            b'"' => in_string = !in_string,
            b'\r' if !in_string => {
                out.push(b' ');
                at += 1;
                continue;
            }
            b'\\' if in_string => {
                let unit = (byte_at(bytes, at + 1) == b'u').then(|| hex4(bytes, at + 2)).flatten();
                let length = match unit {
                    Some(0xD800..=0xDBFF) => {
                        let pair = bytes.get(at + 6..at + 8) == Some(b"\\u")
                            && hex4(bytes, at + 8).is_some_and(|low| (0xDC00..0xE000).contains(&low));
                        if pair { 12 } else { 0 }
                    }
                    Some(0xDC00..=0xDFFF) => 0,
                    Some(_) => 6,
                    None => 2,
                };
                if length == 0 {
                    out.extend_from_slice("\u{FFFD}".as_bytes());
                    at += 6;
                } else {
                    out.extend_from_slice(bytes.get(at..(at + length).min(bytes.len())).unwrap_or_default());
                    at += length;
                }
                continue;
            }
            _ => {}
        }
        out.push(byte);
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<usize, Fault> {
        Tape::default().read(text.as_bytes(), 0, 64)
    }

    #[test]
    fn a_value_ends_where_it_ends() {
        for text in ["{}", "[]", "null", "true", "-0", "1.5e-7", r#""a\u00e9\"b""#, r#"{"a":[1,{"b":{}}, "x" ] , "c":null}"#] {
            assert_eq!(read(text), Ok(text.len()), "{text}");
            assert_eq!(read(&format!("{text} tail")), Ok(text.len()), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "[1,]",
            "{\"a\":1,}",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "01x",
            "+1",
            "-",
            "1.",
            ".5",
            "1e",
            "NaN",
            "tru",
            "\"a",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\u{1}\"",
            "[1 2]",
            "{\"a\" 1}",
            "]",
            "}",
            "[}",
            "{]",
            "\"\t\"",
        ] {
            match read(text) {
                Ok(end) => assert!(end < text.len(), "`{text}` was taken whole"),
                Err(Fault::Syntax(_)) => {}
                Err(other) => panic!("{text}: {other:?}"),
            }
        }
        assert_eq!(Tape::default().read(b"[\0]", 0, 64), Err(Fault::Syntax(1)));
    }

    #[test]
    fn depth_counts_the_containers_and_a_deep_value_is_read_to_its_end() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(Tape::default().read(deep(3).as_bytes(), 0, 3), Ok(6));
        assert_eq!(Tape::default().read(deep(4).as_bytes(), 0, 3), Err(Fault::TooDeep(8)));
        let mixed = r#"{"a":[[{"b":[1,{"c":2}]}],3],"d":4} {"#;
        assert_eq!(Tape::default().read(mixed.as_bytes(), 0, 2), Err(Fault::TooDeep(mixed.len() - 2)));
        assert_eq!(Tape::default().read(deep(3_000_000).as_bytes(), 0, 64), Err(Fault::TooDeep(6_000_000)));
        assert_eq!(Tape::default().read(b"[[[[}", 0, 2), Err(Fault::Syntax(4)));
    }

    #[test]
    fn the_tape_links_each_value_to_what_comes_after_it() {
        let text = br#"{"a":[1,2],"b":"x"}"#;
        let mut tape = Tape::default();
        tape.read(text, 0, 64).unwrap();
        let kinds: Vec<_> = tape.tokens().iter().map(|token| (token.kind, token.next)).collect();
        use TokenKind::{Array, Number, Object, String};
        assert_eq!(kinds, [(Object, 7), (String, 2), (Array, 5), (Number, 4), (Number, 5), (String, 6), (String, 7)]);
        assert_eq!(tape.token(2).text(text), b"[1,2]");
        assert_eq!(tape.token(6).inner(text), b"x");
    }

    #[test]
    fn repeated_keys_are_marked_however_they_are_spelt() {
        let text = br#"{"a":1,"\u0061":2,"b":{"c":1,"c":2}}"#;
        let mut tape = Tape::default();
        tape.read(text, 0, 64).unwrap();
        assert!(tape.drop_repeats(text));
        let repeated: Vec<_> = tape.tokens().iter().filter(|token| token.is_repeated()).map(|token| token.text(text)).collect();
        assert_eq!(repeated, [b"\"a\"", b"\"c\""]);
    }

    #[test]
    fn repairs_touch_nothing_else() {
        let findings = |text: &[u8]| {
            let mut tape = Tape::default();
            tape.read(text, 0, 64).unwrap();
            tape.findings()
        };
        assert!(findings(br#"{"a":"\ud800x"}"#).half_surrogate);
        assert!(findings(br#"{"a":"\udc00"}"#).half_surrogate);
        assert!(!findings(br#"{"a":"\ud83d\ude00"}"#).any());
        assert!(findings(b"{\"a\":\r1}").carriage_return);
        assert_eq!(repair(br#"{"a":"\ud800\ud83d\ude00\\ud800"}"#), "{\"a\":\"\u{FFFD}\\ud83d\\ude00\\\\ud800\"}".as_bytes());
        assert_eq!(repair(b"{\"a\":\r\"\xff\\r\"}"), "{\"a\": \"\u{FFFD}\\r\"}".as_bytes());
    }

    #[test]
    fn a_string_is_written_as_it_was_read() {
        let mut out = Vec::new();
        let text = br#""a\n\u00e9\ud83d\ude00\/\"\\\u0000\ud800""#;
        let mut tape = Tape::default();
        tape.read(text, 0, 1).unwrap();
        unescape(&tape.token(0), text, &mut out);
        assert_eq!(std::str::from_utf8(&out).unwrap(), "a\né😀/\"\\\0\u{FFFD}");
        let mut json = Vec::new();
        escape("a\"\\\u{1}é", &mut json);
        assert_eq!(json, "\"a\\\"\\\\\\u0001é\"".as_bytes());
    }

    proptest! {
        #[test]
        fn it_agrees_with_serde_json_on_what_json_is(text in r#"[\[\]{}",:0-9a\\eE+\-. tnu]{0,24}"#) {
            let ours = read(text.trim_start()) == Ok(text.trim_start().trim_end().len());
            // serde_json refuses numbers that overflow a double and takes lone surrogates apart; neither is in this alphabet for long.
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(ours, theirs, "{}", text);
        }

        #[test]
        fn it_never_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Tape::default().read(&bytes, 0, 4);
            let _ = repair(&bytes);
        }
    }
}
