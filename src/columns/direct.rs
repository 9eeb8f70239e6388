//! From a record's bytes straight to the columns of its table, while every key and value is as expected; anything else goes by a tape.

use super::builder::{Builder, Members, Values, is_same};
use super::number::{exact_double, short_decimal};
use crate::records::json::{Findings, Token, TokenKind, byte_at, number_end, string_end};
use crate::records::route::{Found, Watch};

/// A walk through one record's bytes, valid UTF-8.
///
/// Every function of it gives `None` for what is not as expected: no JSON, a key that is no column's, twice there or spelt otherwise, a value that does not fit or
/// that rules need and is no scalar, text that needs a repair. What was appended by then is the caller's to cut off.
pub(super) struct Walk<'a> {
    pub(super) buffer: &'a [u8],
    pub(super) max_depth: usize,
    /// Which top-level columns rules ask for.
    pub(super) watch: &'a [Watch],
    pub(super) found: &'a mut Found,
    /// The records are evidence: only what [`Evidence::recount`](super::evidence::Evidence::recount) counts rightly may go straight.
    pub(super) is_evidence: bool,
}

/// What a key leads to, and where its value starts.
enum Key {
    Member(usize, usize),
    /// It is no column's.
    Stranger(usize),
}

impl Walk<'_> {
    fn byte(&self, at: usize) -> u8 {
        byte_at(self.buffer, at)
    }

    /// Where white space ends; a carriage return is not passed, since it has to be repaired.
    #[inline]
    fn skip(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), b' ' | b'\t') {
            at += 1;
        }
        at
    }

    /// The string, number or boolean at `at`.
    #[inline]
    fn scalar(&self, at: usize) -> Option<Token> {
        match self.byte(at) {
            b'"' => {
                let mut findings = Findings::default();
                let (end, is_escaped) = string_end(self.buffer, at, &mut findings).ok()?;
                (!findings.any()).then(|| Token::scalar(at, end, TokenKind::String, is_escaped))
            }
            b't' => self.literal(at, b"true").map(|end| Token::scalar(at, end, TokenKind::True, false)),
            b'f' => self.literal(at, b"false").map(|end| Token::scalar(at, end, TokenKind::False, false)),
            _ => number_end(self.buffer, at).map(|end| Token::scalar(at, end, TokenKind::Number, false)),
        }
    }

    /// The whole number of at most 18 digits at `at`, written plainly, and where it ends; `None` says nothing about anything else.
    #[inline]
    fn short_whole_number(&self, at: usize) -> Option<(i64, usize)> {
        let first = at + usize::from(self.byte(at) == b'-');
        let mut end = first;
        let mut value = 0_i64;
        loop {
            let byte = self.byte(end);
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                let is_short = end > first && end - first <= 18;
                let has_leading_zero = self.byte(first) == b'0' && end - first > 1;
                let is_plain = is_short && !has_leading_zero && !matches!(byte, b'.' | b'e' | b'E');
                return is_plain.then_some((if first > at { value.wrapping_neg() } else { value }, end));
            }
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
            end += 1;
        }
    }

    fn literal(&self, at: usize, word: &[u8]) -> Option<usize> {
        let end = at + word.len();
        (self.buffer.get(at..end) == Some(word)).then_some(end)
    }

    /// Where the value of a key that is no column's ends, if it says nothing: null, `{}` or `[]`.
    fn nothing(&self, at: usize, depth: usize) -> Option<usize> {
        let (open, close) = match self.byte(at) {
            b'n' => return self.literal(at, b"null"),
            b'{' => (at, b'}'),
            b'[' => (at, b']'),
            _ => return None,
        };
        let end = self.skip(open + 1);
        (self.byte(end) == close && depth < self.max_depth).then_some(end + 1)
    }
}

impl Members {
    /// The key that starts at `at`, in an object whose last key led to member `after - 1`.
    #[inline]
    fn key(&mut self, after: usize, at: usize, walk: &Walk<'_>) -> Option<Key> {
        if let Some(&guess) = self.follow.get(after)
            && let Some(member) = self.list.get(guess)
            && !member.quoted.is_empty()
            && let Some(text) = walk.buffer.get(at..at + member.quoted.len())
            && is_same(&member.quoted, text)
        {
            return Some(Key::Member(guess, walk.skip(at + text.len())));
        }
        self.key_slowly(after, at, walk)
    }

    #[inline(never)]
    fn key_slowly(&mut self, after: usize, at: usize, walk: &Walk<'_>) -> Option<Key> {
        if walk.byte(at) != b'"' {
            return None;
        }
        let (end, is_escaped) = string_end(walk.buffer, at, &mut Findings::default()).ok()?;
        let colon = walk.skip(end);
        if is_escaped || walk.byte(colon) != b':' {
            return None;
        }
        let value = walk.skip(colon + 1);
        let key = walk.buffer.get(at + 1..end - 1)?;
        let Some(&position) = self.by_key.get(key) else {
            // One that equals a column's key but for case may fill it, if only with a list of nothing.
            let may_fill = walk.byte(value) != b'n' && self.has_folded(key);
            return (!may_fill).then_some(Key::Stranger(value));
        };
        if let Some(follow) = self.follow.get_mut(after) {
            *follow = position;
        }
        Some(Key::Member(position, value))
    }

    /// Puts the number, string or boolean at `at` into member `position`, which has a sibling of doubles.
    fn take_twice(&mut self, position: usize, double: usize, row: usize, at: usize, walk: &Walk<'_>) -> Option<usize> {
        let token = walk.scalar(at)?;
        let fits = self.list.get_mut(position)?.builder.append_token(&token, walk.buffer, None);
        let value = (token.kind == TokenKind::Number).then(|| exact_double(token.text(walk.buffer))).flatten();
        if let Some(value) = value {
            let sibling = &mut self.list.get_mut(double)?.builder;
            sibling.pad(row);
            sibling.append_double(value);
        }
        (fits || value.is_some()).then_some(token.end as usize)
    }
}

impl Builder {
    /// Fills the row at hand of a struct with the members of the object whose first byte after `{` is at `at`; where the object ends. It is
    /// nested `depth` deep; `ROOT` is for the record itself.
    pub(super) fn take_members<const ROOT: bool>(&mut self, at: usize, depth: usize, walk: &mut Walk<'_>) -> Option<usize> {
        let row = self.len;
        let Values::Struct(members) = &mut self.values else { return None };
        if depth > walk.max_depth {
            return None;
        }
        members.objects += 1;
        let mut at = walk.skip(at);
        if walk.byte(at) == b'}' {
            return Some(at + 1);
        }
        let mut after = 0;
        loop {
            let end = match members.key(after, at, walk)? {
                Key::Stranger(value) => walk.nothing(value, depth)?,
                Key::Member(position, value) => {
                    after = position + 1;
                    if members.had_already(position) {
                        return None;
                    }
                    let watch = if ROOT { walk.watch.get(position).copied().unwrap_or_default() } else { Watch::default() };
                    let member = members.list.get_mut(position)?;
                    if watch.any() {
                        let token = walk.scalar(value)?;
                        let is_told =
                            member.is_observed && member.double.is_none() && member.builder.tells_kind_of(&token, walk.buffer);
                        if walk.is_evidence && !is_told {
                            return None;
                        }
                        walk.found.note(watch, &token, walk.buffer);
                        member.builder.pad(row);
                        match member.double {
                            None => {
                                let time = walk.found.time();
                                member.builder.append_token(&token, walk.buffer, time).then_some(token.end as usize)?
                            }
                            Some(double) => members.take_twice(position, double, row, value, walk)?,
                        }
                    } else if walk.byte(value) == b'n' {
                        walk.literal(value, b"null")?
                    } else if walk.is_evidence && (!member.is_observed || member.double.is_some()) {
                        return None;
                    } else {
                        member.builder.pad(row);
                        match member.double {
                            None => member.builder.take_value(value, depth, walk)?,
                            Some(double) => members.take_twice(position, double, row, value, walk)?,
                        }
                    }
                }
            };
            at = walk.skip(end);
            match walk.byte(at) {
                b',' => at = walk.skip(at + 1),
                b'}' => return Some(at + 1),
                _ => return None,
            }
        }
    }

    /// Appends the value at `at`, which is not null; where it ends.
    #[inline]
    fn take_value(&mut self, at: usize, depth: usize, walk: &mut Walk<'_>) -> Option<usize> {
        match walk.byte(at) {
            b'{' => {
                let end = self.take_members::<false>(at + 1, depth + 1, walk)?;
                self.end_value();
                Some(end)
            }
            b'[' => self.take_elements(at + 1, depth + 1, walk),
            _ => {
                if let Values::Int64(values) = &mut self.values
                    && let Some((value, end)) = walk.short_whole_number(at)
                {
                    values.push(value);
                    self.end_value();
                    return Some(end);
                }
                let token = walk.scalar(at)?;
                if walk.is_evidence && !self.tells_kind_of(&token, walk.buffer) {
                    return None;
                }
                self.append_token(&token, walk.buffer, None).then_some(token.end as usize)
            }
        }
    }

    /// Whether the column's value will say of what kind the token was, and whether it was a whole number.
    fn tells_kind_of(&self, token: &Token, buffer: &[u8]) -> bool {
        match (&self.values, token.kind) {
            (Values::Text { .. }, TokenKind::String)
            | (Values::Boolean(_), TokenKind::True | TokenKind::False)
            | (Values::Int64(_), TokenKind::Number)
            | (Values::Timestamp(_), _) => true,
            (Values::Double(_), TokenKind::Number) => short_decimal(token.text(buffer)).is_some(),
            _ => false,
        }
    }

    /// Appends the list whose first byte after `[` is at `at`; where it ends.
    fn take_elements(&mut self, at: usize, depth: usize, walk: &mut Walk<'_>) -> Option<usize> {
        let Values::List { offsets, element } = &mut self.values else { return None };
        if depth > walk.max_depth {
            return None;
        }
        let mut at = walk.skip(at);
        if walk.byte(at) != b']' {
            loop {
                let end = if walk.byte(at) == b'n' {
                    element.append_null();
                    walk.literal(at, b"null")?
                } else {
                    element.take_value(at, depth, walk)?
                };
                at = walk.skip(end);
                match walk.byte(at) {
                    b',' => at = walk.skip(at + 1),
                    b']' => break,
                    _ => return None,
                }
            }
        }
        offsets.push(i32::try_from(element.len).ok()?);
        self.end_value();
        Some(at + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::columns::evidence::{Evidence, Limits};
    use crate::columns::fields::TypedSchema;
    use crate::columns::pin::{Given, base_schema, decide};
    use crate::columns::shred::{Shredded, Shredder};
    use crate::domain::schema::{Declared, DeclaredType, TableSchema};
    use crate::records::json::Tape;

    const LIMITS: Limits = Limits { max_columns: 12, max_fields: 8, max_column_depth: 4 };

    /// A declared time and price.
    fn base() -> TableSchema {
        let declare = |key: &str, column_type| Declared { path: vec![key.to_owned()], column_type };
        let declared = [declare("time", DeclaredType::Timestamp), declare("price", DeclaredType::Double)];
        let given = Given {
            declared: &declared,
            rescue_column: "_rescued_data",
            transfer_columns: false,
            day: "2026-01-15".parse().unwrap(),
        };
        base_schema(None, &given).unwrap()
    }

    /// The schema that these records get.
    fn schema_of(records: &[String]) -> TypedSchema {
        let base = base();
        let mut evidence = Evidence::new(&base, LIMITS);
        let mut tape = Tape::default();
        for record in records {
            tape.read(record.as_bytes(), 0, 64).unwrap();
            evidence.observe(&mut tape, record.as_bytes());
        }
        TypedSchema::new(decide(&base, &evidence, None, "_rescued_data", "2026-01-15".parse().unwrap()))
    }

    /// What these records come to, straight where that goes, or all by tape; and how many went straight.
    fn shred(schema: &TypedSchema, records: &[String], straight: bool) -> (Shredded, usize) {
        let mut shredder = Shredder::new(schema);
        let mut tape = Tape::default();
        let mut count = 0;
        for record in records {
            if straight && shredder.append_direct(record.as_bytes(), 64).is_some() {
                shredder.keep();
                count += 1;
                continue;
            }
            tape.read(record.as_bytes(), 0, 64).unwrap();
            shredder.append(&mut tape, record.as_bytes(), None);
        }
        (shredder.finish().unwrap(), count)
    }

    fn count_of(schema: &TypedSchema, record: &str) -> usize {
        shred(schema, &[record.to_owned()], true).1
    }

    #[test]
    fn what_is_as_expected_goes_straight_and_all_else_by_tape() {
        let usual = r#"{"time":"2026-01-15T10:00:00Z","price":1.5,"a":7,"s":"x\n","o":{"l":[1,null,2],"p":[{"q":true}]}}"#;
        let schema = schema_of(&[usual.to_owned()]);
        for record in [
            usual,
            r#"{"o": {"p": [ ], "l": [ 3 ]} , "a" :null,"s":"é","price":"2.5"}"#,
            r#"{"a":1,"new":null,"other":{},"more":[ ]}"#,
            "{}",
        ] {
            assert_eq!(count_of(&schema, record), 1, "{record}");
        }
        for record in [
            r#"{"a":0.5}"#,
            r#"{"a":01}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"a":null}"#,
            r#"{"A":1}"#,
            r#"{"O":{}}"#,
            r#"{"\u0061":1}"#,
            r#"{"new":1}"#,
            r#"{"new":[[]]}"#,
            r#"{"s":"\ud800"}"#,
            "{\"a\":\r1}",
            r#"{"s":{"x":1}}"#,
            r#"{"o":{"l":[1,"x"]}}"#,
            r#"{"a":1}}"#,
            r#"{"a":1"#,
            r#"{"a":1,}"#,
        ] {
            let mut shredder = Shredder::new(&schema);
            assert!(shredder.append_direct(record.as_bytes(), 64).is_none(), "{record}");
            assert!(shredder.append_direct(usual.as_bytes(), 64).is_some());
            shredder.keep();
            let (alone, _) = shred(&schema, &[usual.to_owned()], true);
            assert_eq!(shredder.finish().unwrap().rows, alone.rows, "{record} left something behind");
        }
        let mut shredder = Shredder::new(&schema);
        assert!(shredder.append_direct(usual.as_bytes(), 3).is_none(), "it is four levels deep");
    }

    fn value() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            4 => (-30_i64..30).prop_map(|number| number.to_string()),
            1 => Just("0.25".to_owned()),
            1 => Just("1e400".to_owned()),
            1 => Just("9223372036854775808".to_owned()),
            3 => prop_oneof![Just(r#""x""#), Just(r#""\n\u00e9""#), Just(r#""2.5""#), Just("\"é\"")].prop_map(str::to_owned),
            1 => any::<bool>().prop_map(|value| value.to_string()),
            1 => prop_oneof![Just("null"), Just("{}"), Just("[]"), Just("[null]")].prop_map(str::to_owned),
        ];
        scalar.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(|list| format!("[{}]", list.join(", "))),
                object(inner),
            ]
        })
    }

    fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
        let key = prop_oneof![
            12 => prop_oneof![Just("a"), Just("b"), Just("c"), Just("price")],
            1 => prop_oneof![Just("A"), Just(r"\u0061"), Just("time")],
        ];
        let member = (key, value, any::<bool>()).prop_map(|(key, value, spaced)| {
            let space = if spaced { " " } else { "" };
            format!("\"{key}\":{space}{value}{space}")
        });
        prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(",")))
    }

    proptest! {
        #[test]
        fn both_ways_give_the_same_columns(
            known in prop::collection::vec(object(value()), 1..6),
            records in prop::collection::vec(object(value()), 1..12),
        ) {
            let schema = schema_of(&known);
            let all: Vec<String> = known.into_iter().chain(records).collect();
            let (straight, _) = shred(&schema, &all, true);
            let (by_tape, _) = shred(&schema, &all, false);
            prop_assert_eq!(straight.rows, by_tape.rows);
            prop_assert_eq!(straight.rescued, by_tape.rescued);
        }

        #[test]
        fn records_that_go_straight_are_the_same_evidence(
            known in prop::collection::vec(object(value()), 1..6),
            records in prop::collection::vec(object(value()), 1..40),
        ) {
            let schema = schema_of(&known);
            let all: Vec<String> = known.into_iter().chain(records).collect();
            let base = base();
            let (mut evidence, mut by_tape) = (Evidence::new(&base, LIMITS), Evidence::new(&base, LIMITS));
            let mut shredder = Shredder::new(&schema).observing();
            let mut tape = Tape::default();
            for record in &all {
                tape.read(record.as_bytes(), 0, 64).unwrap();
                by_tape.observe(&mut tape, record.as_bytes());
                if shredder.append_direct(record.as_bytes(), 64).is_some() {
                    shredder.keep();
                    continue;
                }
                tape.read(record.as_bytes(), 0, 64).unwrap();
                shredder.append(&mut tape, record.as_bytes(), None);
                evidence.observe(&mut tape, record.as_bytes());
                shredder.learn(&evidence);
            }
            let shredded = shredder.finish().unwrap();
            evidence.recount(&schema.columns, &shredded.rows, &shredded.straight.unwrap());
            let seen = |evidence: &Evidence| serde_json::to_string(&evidence.observed()).unwrap();
            prop_assert_eq!(seen(&evidence), seen(&by_tape));
        }
    }
}
