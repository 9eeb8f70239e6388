//! JSON values with numbers as they were written: a reader of its own, so that no fault of the tested one can hide.

/// A JSON value. Of a repeated key the last value stands, at the last one's place.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The whole of `text` as one value.
    pub fn parse(text: &str) -> Option<Json> {
        let (value, rest) = Json::parse_first(text)?;
        rest.trim_start_matches(SPACE).is_empty().then_some(value)
    }

    /// The value that `text` begins with, and what comes after it.
    pub fn parse_first(text: &str) -> Option<(Json, &str)> {
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        let value = reader.value()?;
        Some((value, &text[reader.at..]))
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        let Json::Object(members) = self else { return None };
        members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub fn text(&self) -> Option<&str> {
        let Json::Text(text) = self else { return None };
        Some(text)
    }

    /// Null, `{}`, `[]` and what contains only those.
    pub fn is_nothing(&self) -> bool {
        match self {
            Json::Null => true,
            Json::List(elements) => elements.iter().all(Json::is_nothing),
            Json::Object(members) => members.iter().all(|(_, value)| value.is_nothing()),
            Json::Bool(_) | Json::Number(_) | Json::Text(_) => false,
        }
    }

    /// Equal, numbers by value; nothing is left out.
    pub fn is_same(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Number(one), Json::Number(other)) => same_number(one, other),
            (Json::List(one), Json::List(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
            }
            (Json::Object(one), Json::Object(members)) => {
                one.len() == members.len()
                    && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| value.is_same(other)))
            }
            _ => self == other,
        }
    }
}

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    fn takes(&mut self, word: &str) -> bool {
        let takes = self.text[self.at..].starts_with(word.as_bytes());
        self.at += if takes { word.len() } else { 0 };
        takes
    }

    fn value(&mut self) -> Option<Json> {
        self.space();
        match self.peek() {
            b'n' => self.takes("null").then_some(Json::Null),
            b't' => self.takes("true").then_some(Json::Bool(true)),
            b'f' => self.takes("false").then_some(Json::Bool(false)),
            b'"' => self.string().map(Json::Text),
            b'[' => self.list(),
            b'{' => self.object(),
            _ => self.number(),
        }
    }

    fn list(&mut self) -> Option<Json> {
        self.at += 1;
        let mut elements = Vec::new();
        self.space();
        if self.takes("]") {
            return Some(Json::List(elements));
        }
        loop {
            elements.push(self.value()?);
            self.space();
            if self.takes("]") {
                return Some(Json::List(elements));
            }
            if !self.takes(",") {
                return None;
            }
        }
    }

    fn object(&mut self) -> Option<Json> {
        self.at += 1;
        let mut members: Vec<(String, Json)> = Vec::new();
        self.space();
        if self.takes("}") {
            return Some(Json::Object(members));
        }
        loop {
            self.space();
            let key = if self.peek() == b'"' { self.string()? } else { return None };
            self.space();
            if !self.takes(":") {
                return None;
            }
            let value = self.value()?;
            members.retain(|(name, _)| *name != key);
            members.push((key, value));
            self.space();
            if self.takes("}") {
                return Some(Json::Object(members));
            }
            if !self.takes(",") {
                return None;
            }
        }
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.at;
        self.takes("-");
        if !self.takes("0") {
            self.digits()?;
        }
        if self.takes(".") {
            self.digits()?;
        }
        if self.takes("e") || self.takes("E") {
            let _ = self.takes("+") || self.takes("-");
            self.digits()?;
        }
        Some(Json::Number(String::from_utf8(self.text[start..self.at].to_vec()).unwrap()))
    }

    fn string(&mut self) -> Option<String> {
        self.at += 1;
        let mut units: Vec<u16> = Vec::new();
        loop {
            let start = self.at;
            while !matches!(self.peek(), 0..=0x1F | b'"' | b'\\') {
                self.at += 1;
            }
            units.extend(std::str::from_utf8(&self.text[start..self.at]).ok()?.encode_utf16());
            if self.takes("\"") {
                return Some(String::from_utf16_lossy(&units));
            }
            if !self.takes("\\") {
                return None;
            }
            let escape = self.peek();
            self.at += 1;
            units.push(match escape {
                b'"' | b'\\' | b'/' => u16::from(escape),
                b'b' => 8,
                b'f' => 12,
                b'n' => 10,
                b'r' => 13,
                b't' => 9,
                b'u' => {
                    let hex = self.text.get(self.at..self.at + 4).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit))?;
                    self.at += 4;
                    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?
                }
                _ => return None,
            });
        }
    }
}

/// Whether two numbers' texts have the same value, whatever their size.
pub fn same_number(one: &str, other: &str) -> bool {
    one == other || Decimal::parse(one) == Decimal::parse(other)
}

/// A decimal number of any size: its digits without zeros at either end, times ten to the exponent.
#[derive(Debug, PartialEq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i128,
}

impl Decimal {
    fn parse(text: &str) -> Decimal {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_end_matches('0');
        let dropped = all.len() - digits.len();
        let digits = digits.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Decimal { is_negative: false, digits, exponent: 0 };
        }
        let exponent: i128 = exponent.strip_prefix('+').unwrap_or(exponent).parse().expect("an exponent of fewer than 38 digits");
        Decimal { is_negative, digits, exponent: exponent + dropped as i128 - fraction.len() as i128 }
    }
}

#[test]
fn numbers_of_any_size_are_compared_by_value() {
    for (one, other, same) in [
        ("1", "1.0", true),
        ("6.7E8", "670000000", true),
        ("-0", "0.00e5", true),
        ("1e400", "10e399", true),
        ("9007199254740993", "9007199254740992", false),
        ("0.1", "0.10000000000000000555", false),
        ("-1", "1", false),
        ("120e-1", "12", true),
    ] {
        assert_eq!(same_number(one, other), same, "{one} {other}");
    }
}

#[test]
fn the_tests_own_reader_reads_json() {
    let text = r#" {"a":[1, -2.5e+3,true,false,null,"\u00e9\ud83d\ude00\ud800\n"],"b":{},"a":{"c":[]}} "#;
    let expected = Json::Object(vec![
        ("b".into(), Json::Object(vec![])),
        ("a".into(), Json::Object(vec![("c".into(), Json::List(vec![]))])),
    ]);
    assert_eq!(Json::parse(text), Some(expected.clone()));
    assert!(!expected.get("a").unwrap().is_same(&Json::Null));
    assert!(expected.is_nothing());
    assert_eq!(Json::parse(r#""\ud83d\ude00\ud800x""#), Some(Json::Text("😀\u{FFFD}x".into())));
    for bad in ["", "{", "[1,]", "01", "nul", "\"\t\"", "{\"a\":1,}", "1 2", "NaN", "+1", "\"\\x\"", "-"] {
        assert_eq!(Json::parse(bad), None, "{bad}");
    }
}
