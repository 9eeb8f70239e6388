//! Tells, byte by byte and in bounded memory, where the JSON values of one line begin and end, and where it stops being JSON.

/// What one byte means for the line's values. A *unit* is a value at the top of the line, or an element of an array at its top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing that the caller has to know.
    More,
    /// A unit begins with this byte.
    UnitStart,
    /// A unit ends with this byte.
    UnitEnd,
    /// A number ended before this byte, which is to be stepped over again.
    UnitEndBefore,
    /// An array at the top begins with this byte; its elements are units.
    ArrayStart,
    /// It ends with this byte.
    ArrayEnd,
    /// This byte can't be here.
    Fault,
}

/// A JSON recogniser (RFC 8259) for several values on one line, as a state machine without recursion.
///
/// What is repaired elsewhere passes: bytes above 0x7F are not checked to be UTF-8, nor surrogate escapes to be pairs.
pub(super) struct Scanner {
    state: State,
    /// One bit for each open container within the unit, from the outside in: set for an object.
    containers: Vec<u64>,
    depth: usize,
    in_array: bool,
}

#[derive(Clone, Copy)]
enum State {
    /// At the top, between values.
    Top,
    /// At the top, right after a number or literal: what follows must not run on from it.
    TopAfterScalar,
    /// After the `[` of an array at the top.
    FirstElement,
    /// After a comma in it.
    NextElement,
    /// After an element of it.
    AfterElement,
    /// Within a unit, where a value must come.
    Value,
    /// After `[`.
    ValueOrEnd,
    /// After a comma in an object.
    Key,
    /// After `{`.
    KeyOrEnd,
    Colon,
    /// After a value in a container.
    AfterValue,
    Text {
        key: bool,
    },
    Escape {
        key: bool,
    },
    Hex {
        key: bool,
        left: u8,
    },
    Literal(&'static [u8]),
    Number(Number),
}

/// How far a number has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl Scanner {
    pub(super) fn new() -> Scanner {
        Scanner { state: State::Top, containers: Vec::new(), depth: 0, in_array: false }
    }

    /// Whether an array at the top is open.
    pub(super) fn in_array(&self) -> bool {
        self.in_array
    }

    /// Whether the bytes so far end in a number that could end here.
    pub(super) fn could_end_number(&self) -> bool {
        matches!(self.state, State::Number(number) if number.is_complete()) && self.depth == 0
    }

    /// How many of the bytes, which come next, are plain text within a string: they may be skipped instead of stepped over.
    pub(super) fn skippable(&self, bytes: &[u8]) -> usize {
        if !matches!(self.state, State::Text { .. }) {
            return 0;
        }
        bytes.iter().position(|byte| matches!(byte, 0..=0x1F | b'"' | b'\\')).unwrap_or(bytes.len())
    }

    /// Takes the next byte.
    pub(super) fn step(&mut self, byte: u8) -> Step {
        match self.state {
            State::Top => self.at_top(byte),
            State::TopAfterScalar if is_space(byte) || matches!(byte, b'{' | b'[' | b'"') => self.at_top(byte),
            State::TopAfterScalar => Step::Fault,
            State::FirstElement if byte == b']' => self.end_array(),
            State::FirstElement | State::NextElement => self.between(byte),
            State::AfterElement => match byte {
                b',' => self.go(State::NextElement),
                b']' => self.end_array(),
                _ => expect_space(byte),
            },
            _ => self.within_unit(byte),
        }
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::More
    }

    fn at_top(&mut self, byte: u8) -> Step {
        if byte == b'[' {
            self.in_array = true;
            self.state = State::FirstElement;
            return Step::ArrayStart;
        }
        if is_space(byte) {
            return self.go(State::Top);
        }
        self.between(byte)
    }

    /// Where a unit may begin.
    fn between(&mut self, byte: u8) -> Step {
        if is_space(byte) {
            return Step::More;
        }
        match self.value(byte) {
            Step::More => Step::UnitStart,
            other => other,
        }
    }

    fn end_array(&mut self) -> Step {
        self.in_array = false;
        self.state = State::Top;
        Step::ArrayEnd
    }

    fn within_unit(&mut self, byte: u8) -> Step {
        match self.state {
            State::ValueOrEnd if byte == b']' => self.close(false),
            State::Value | State::ValueOrEnd if is_space(byte) => Step::More,
            State::Value | State::ValueOrEnd => self.value(byte),
            State::KeyOrEnd if byte == b'}' => self.close(true),
            State::Key | State::KeyOrEnd if byte == b'"' => self.go(State::Text { key: true }),
            State::Colon if byte == b':' => self.go(State::Value),
            State::AfterValue => match byte {
                b',' if self.innermost_is_object() => self.go(State::Key),
                b',' => self.go(State::Value),
                b'}' => self.close(true),
                b']' => self.close(false),
                _ => expect_space(byte),
            },
            State::Text { key } => match byte {
                b'"' if key => self.go(State::Colon),
                b'"' => self.end_value(false),
                b'\\' => self.go(State::Escape { key }),
                0..=0x1F => Step::Fault,
                _ => Step::More,
            },
            State::Escape { key } => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.go(State::Text { key }),
                b'u' => self.go(State::Hex { key, left: 4 }),
                _ => Step::Fault,
            },
            State::Hex { key, left } if byte.is_ascii_hexdigit() => match left {
                ..=1 => self.go(State::Text { key }),
                _ => self.go(State::Hex { key, left: left - 1 }),
            },
            State::Literal(rest) => match rest.split_first() {
                Some((expected, rest)) if byte == *expected => {
                    if rest.is_empty() {
                        return self.end_value(true);
                    }
                    self.go(State::Literal(rest))
                }
                _ => Step::Fault,
            },
            State::Number(number) => match number.next(byte) {
                Some(number) => self.go(State::Number(number)),
                None if !number.is_complete() => Step::Fault,
                None if self.depth == 0 => {
                    let runs_on = !is_space(byte) && !matches!(byte, b',' | b']' | b'{' | b'[' | b'"');
                    if runs_on {
                        return Step::Fault;
                    }
                    self.end_value(true);
                    Step::UnitEndBefore
                }
                None => {
                    self.state = State::AfterValue;
                    self.within_unit(byte)
                }
            },
            _ => expect_space(byte),
        }
    }

    /// The first byte of a value.
    fn value(&mut self, byte: u8) -> Step {
        match byte {
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'"' => self.go(State::Text { key: false }),
            b't' => self.go(State::Literal(b"rue")),
            b'f' => self.go(State::Literal(b"alse")),
            b'n' => self.go(State::Literal(b"ull")),
            b'-' => self.go(State::Number(Number::Minus)),
            b'0' => self.go(State::Number(Number::Zero)),
            b'1'..=b'9' => self.go(State::Number(Number::Whole)),
            _ => Step::Fault,
        }
    }

    fn open(&mut self, object: bool) -> Step {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.containers.len() {
            self.containers.push(0);
        }
        if let Some(bits) = self.containers.get_mut(word) {
            *bits = *bits & !(1 << bit) | u64::from(object) << bit;
        }
        self.depth += 1;
        self.go(if object { State::KeyOrEnd } else { State::ValueOrEnd })
    }

    fn innermost_is_object(&self) -> bool {
        let Some(innermost) = self.depth.checked_sub(1) else { return false };
        self.containers.get(innermost / 64).is_some_and(|bits| bits >> (innermost % 64) & 1 == 1)
    }

    fn close(&mut self, object: bool) -> Step {
        if self.innermost_is_object() != object {
            return Step::Fault;
        }
        self.depth -= 1;
        self.end_value(false)
    }

    fn end_value(&mut self, scalar: bool) -> Step {
        if self.depth > 0 {
            return self.go(State::AfterValue);
        }
        self.state = match (self.in_array, scalar) {
            (true, _) => State::AfterElement,
            (false, true) => State::TopAfterScalar,
            (false, false) => State::Top,
        };
        Step::UnitEnd
    }
}

impl Number {
    fn next(self, byte: u8) -> Option<Number> {
        Some(match (self, byte) {
            (Number::Minus, b'0') => Number::Zero,
            (Number::Minus, b'1'..=b'9') | (Number::Whole, b'0'..=b'9') => Number::Whole,
            (Number::Zero | Number::Whole, b'.') => Number::Point,
            (Number::Point | Number::Fraction, b'0'..=b'9') => Number::Fraction,
            (Number::Zero | Number::Whole | Number::Fraction, b'e' | b'E') => Number::Exponent,
            (Number::Exponent, b'+' | b'-') => Number::ExponentSign,
            (Number::Exponent | Number::ExponentSign | Number::ExponentDigits, b'0'..=b'9') => Number::ExponentDigits,
            _ => return None,
        })
    }

    fn is_complete(self) -> bool {
        matches!(self, Number::Zero | Number::Whole | Number::Fraction | Number::ExponentDigits)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

fn expect_space(byte: u8) -> Step {
    if is_space(byte) { Step::More } else { Step::Fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line's units, `|` after each, then `!` if it has a fault or ends within something.
    fn units(line: &str) -> String {
        let (mut scanner, mut out, mut inside) = (Scanner::new(), String::new(), false);
        let mut rest = line.as_bytes();
        while let Some(byte) = rest.first() {
            let skipped = scanner.skippable(rest);
            if skipped > 0 {
                out.push_str(std::str::from_utf8(&rest[..skipped]).unwrap());
                rest = &rest[skipped..];
                continue;
            }
            match scanner.step(*byte) {
                Step::Fault => return out + "!",
                Step::UnitEndBefore => {
                    out.push('|');
                    inside = false;
                    continue;
                }
                Step::UnitStart => inside = true,
                Step::UnitEnd => {
                    out.push(char::from(*byte));
                    out.push('|');
                    inside = false;
                }
                Step::More | Step::ArrayStart | Step::ArrayEnd => {}
            }
            if inside {
                out.push(char::from(*byte));
            }
            rest = &rest[1..];
        }
        match (inside, scanner.could_end_number()) {
            (true, true) if !scanner.in_array() => out + "|",
            (false, _) if !scanner.in_array() => out,
            _ => out + "!",
        }
    }

    #[test]
    fn values_at_the_top_and_elements_of_arrays_there_are_units() {
        for (line, expected) in [
            ("", ""),
            (" \t\r", ""),
            (r#"{"a":[1,{"b":"}"}]} {"c":{}}{}"#, r#"{"a":[1,{"b":"}"}]}|{"c":{}}|{}|"#),
            (r#"[{"a":1}, [2,[]] ,"x\"]",-1.5e+3,null] [] {}"#, r#"{"a":1}|[2,[]]|"x\"]"|-1.5e+3|null|{}|"#),
            (r#"1 0 -0.5 12"a"3{} true[] false "b""c""#, r#"1|0|-0.5|12|"a"|3|{}|true|false|"b"|"c"|"#),
            (r#"{"é\u00e9\ud800\/\b\f\n\r\t\\":1}"#, ""),
        ] {
            let expected = if expected.is_empty() && !line.trim().is_empty() { format!("{line}|") } else { expected.to_owned() };
            if line.is_ascii() {
                assert_eq!(units(line), expected);
            } else {
                assert_eq!(units(line).matches('|').count(), 1, "{line}");
            }
        }
    }

    #[test]
    fn what_is_not_json_is_a_fault_where_it_stops_to_be() {
        for (line, expected) in [
            ("{},{}", "{}|!"),
            ("{}]", "{}|!"),
            ("{}\\n{}", "{}|!"),
            ("[{},]", "{}|!"),
            ("[,{}]", "!"),
            ("[{} {}]", "{}|!"),
            ("[{}", "{}|!"),
            ("[1", "1!"),
            ("truefalse", "true|!"),
            ("1true", "1!"),
            ("01", "0!"),
            ("1,2", "1|!"),
            ("-", "-!"),
            ("1.", "1.!"),
            ("1.e5", "1.!"),
            ("1e", "1e!"),
            ("+1", "!"),
            (".5", "!"),
            ("nul", "nul!"),
            ("NaN", "!"),
            ("{\"a\"}", "{\"a\"!"),
            ("{\"a\":}", "{\"a\":!"),
            ("{\"a\":1,}", "{\"a\":1,!"),
            ("{a:1}", "{!"),
            ("{,}", "{!"),
            ("{\"a\":1]", "{\"a\":1!"),
            ("{\"a\":[1}", "{\"a\":[1!"),
            ("{\"a\":[1,]}", "{\"a\":[1,!"),
            ("{\"a\":01}", "{\"a\":0!"),
            ("{\"a\":1 2}", "{\"a\":1 !"),
            ("\"a\tb\"", "\"a!"),
            ("\"a\0b\"", "\"a!"),
            ("\"\\x\"", "\"\\!"),
            ("\"\\u12g4\"", "\"\\u12!"),
            ("\"open", "\"open!"),
            ("{\"a\":1", "{\"a\":1!"),
            ("\u{1F600}", "!"),
        ] {
            assert_eq!(units(line), expected, "{line}");
        }
    }

    #[test]
    fn a_hundred_thousand_levels_need_no_stack() {
        let deep = "[{\"a\":".repeat(50_000) + "1" + &"}]".repeat(50_000);
        assert_eq!(units(&deep), format!("{}|", &deep[1..deep.len() - 1]));
        assert!(units(&deep.replacen("1}]", "1]}", 1)).ends_with('!'));
    }
}
