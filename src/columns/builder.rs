//! One column while it grows: a tree of builders in the shape of the schema, filled from a record's tape.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, BooleanBufferBuilder, Float64Array, Int64Array, ListArray, NullBufferBuilder, StringArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields};
use arrow::error::ArrowError;

use super::evidence::Evidence;
use super::fields::{TIME_ZONE, TypedSchema, field_of};
use super::number::{exact_double, exact_int64, is_fraction};
use super::rescue::{Path, Rescue};
use crate::domain::schema::{Column, Role, Type};
use crate::records::json::{Tape, Token, TokenKind, is_number, unescape};
use crate::records::route::instant_of;

/// What came of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is in its column.
    Taken,
    /// It does not fit; the column is as it was.
    Misfit,
    /// The record repeats a key: the walk must begin again with the repeats marked.
    Repeat,
}

/// All that a walk through one record carries along.
pub(crate) struct Scope<'a> {
    pub(crate) tape: &'a Tape,
    pub(crate) buffer: &'a [u8],
    /// Where the value of the record's time starts and its instant in microseconds, read already when the record was routed.
    pub(crate) time: Option<(u32, i64)>,
    pub(crate) rescue: &'a mut Rescue,
    pub(crate) scratch: &'a mut Vec<u8>,
    /// Set when something was met that could change the schema.
    pub(crate) surprise: &'a mut bool,
    /// Within a list nothing is rescued for itself: the list is, whole.
    pub(crate) in_list: bool,
}

#[derive(Debug)]
pub(super) enum Values {
    Boolean(BooleanBufferBuilder),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Timestamp(Vec<i64>),
    Text { offsets: Vec<i32>, bytes: Vec<u8> },
    List { offsets: Vec<i32>, element: Box<Builder> },
    Struct(Members),
}

/// A column's values so far. Rows past `len` are padded with nulls when they are needed: an absent key costs nothing.
#[derive(Debug)]
pub(crate) struct Builder {
    field: FieldRef,
    declared: bool,
    pub(super) len: usize,
    pub(super) nulls: NullBufferBuilder,
    pub(super) values: Values,
    /// How many rows the last batch had: the next one is about as long.
    expected: usize,
    expected_bytes: usize,
}

#[derive(Debug)]
pub(super) struct Member {
    /// The key that fills it; none for a column that is filled otherwise.
    key: Option<Box<[u8]>>,
    /// The key as it mostly stands in a record, with its quotes and colon; empty if it has to be escaped there, or there is none.
    pub(super) quoted: Box<[u8]>,
    pub(super) builder: Builder,
    /// The last object that had its key.
    object: u64,
    /// The sibling that holds an `int64` column's numbers as doubles.
    pub(super) double: Option<usize>,
    /// Whether values may go straight in while the records are evidence: the path has been observed.
    pub(super) is_observed: bool,
}

#[derive(Debug)]
pub(super) struct Members {
    pub(super) list: Vec<Member>,
    pub(super) by_key: HashMap<Box<[u8]>, usize>,
    by_folded: HashMap<String, usize>,
    /// Which member came after member `i - 1` the last time (`follow[0]`: first). Most records repeat the order of the one before.
    pub(super) follow: Vec<usize>,
    /// How many objects were walked.
    pub(super) objects: u64,
}

enum Found {
    Exact(usize),
    /// Equal but for case.
    Variant(usize),
    None,
}

impl Members {
    fn new(columns: &[Column], fields: &Fields) -> Members {
        let list: Vec<Member> = columns
            .iter()
            .zip(fields)
            .map(|(column, field)| {
                let key: Option<Box<[u8]>> = (column.role == Role::Value).then(|| column.key().as_bytes().into());
                let quoted = key.as_deref().map(quoted).unwrap_or_default();
                Member { key, quoted, builder: Builder::new(column, field), object: 0, double: None, is_observed: false }
            })
            .collect();
        let mut members =
            Members { follow: (0..=list.len()).collect(), list, by_key: HashMap::new(), by_folded: HashMap::new(), objects: 0 };
        for (position, column) in columns.iter().enumerate() {
            match column.role {
                Role::Value => {
                    members.by_key.insert(column.key().as_bytes().into(), position);
                    members.by_folded.entry(column.key().to_lowercase()).or_insert(position);
                }
                Role::Double => {
                    let of = members.by_key.get(column.key().as_bytes()).copied();
                    if let Some(member) = of.and_then(|of| members.list.get_mut(of)) {
                        member.double = Some(position);
                    }
                }
                Role::Rescue | Role::BatchId | Role::LastSynced => {}
            }
        }
        members
    }

    #[inline]
    fn find(&mut self, after: usize, key: &Token, scope: &mut Scope<'_>) -> Found {
        let inner = key.inner(scope.buffer);
        if let Some(&guess) = self.follow.get(after)
            && let Some(member) = self.list.get(guess)
            && member.key.as_deref().is_some_and(|name| is_same(name, inner))
            && !key.is_escaped()
        {
            return Found::Exact(guess);
        }
        self.find_slowly(after, key, scope)
    }

    #[inline(never)]
    fn find_slowly(&mut self, after: usize, key: &Token, scope: &mut Scope<'_>) -> Found {
        scope.scratch.clear();
        unescape(key, scope.buffer, scope.scratch);
        if let Some(&position) = self.by_key.get(scope.scratch.as_slice()) {
            if let Some(follow) = self.follow.get_mut(after) {
                *follow = position;
            }
            return Found::Exact(position);
        }
        let folded = String::from_utf8_lossy(scope.scratch).to_lowercase();
        self.by_folded.get(&folded).map_or(Found::None, |&position| Found::Variant(position))
    }

    /// Whether a key equals a member's but for case.
    pub(super) fn has_folded(&self, key: &[u8]) -> bool {
        self.by_folded.contains_key(&String::from_utf8_lossy(key).to_lowercase())
    }
}

impl Builder {
    /// A builder of a column; `field` is the one that [`field_of`] gives, shared by all arrays, so that they are told equal at a glance.
    fn new(column: &Column, field: &FieldRef) -> Builder {
        let values = match &column.column_type {
            Type::Boolean => Values::Boolean(BooleanBufferBuilder::new(0)),
            Type::Int64 => Values::Int64(Vec::new()),
            Type::Double => Values::Double(Vec::new()),
            Type::Timestamp => Values::Timestamp(Vec::new()),
            Type::String => Values::Text { offsets: vec![0], bytes: Vec::new() },
            Type::List(element) => {
                let inner = match field.data_type() {
                    DataType::List(inner) => Arc::clone(inner),
                    _ => field_of(element),
                };
                Values::List { offsets: vec![0], element: Box::new(Builder::new(element, &inner)) }
            }
            Type::Struct(members) => Values::Struct(Members::new(members, &fields_of(field))),
        };
        Builder::of(Arc::clone(field), column.declared, values)
    }

    fn of(field: FieldRef, declared: bool, values: Values) -> Builder {
        Builder { field, declared, len: 0, nulls: NullBufferBuilder::new(0), values, expected: 0, expected_bytes: 0 }
    }

    /// A builder of a whole table: a struct of its columns.
    pub(crate) fn root(schema: &TypedSchema) -> Builder {
        let fields = schema.arrow().fields();
        let members = Members::new(&schema.columns, fields);
        let field = arrow::datatypes::Field::new_struct("record", Fields::clone(fields), true);
        Builder::of(Arc::new(field), false, Values::Struct(members))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Ends a row of the root.
    pub(crate) fn end_row(&mut self) {
        self.end_value();
    }

    /// Appends the text to the top-level column at `position`, in the row at hand.
    pub(crate) fn append_text_at(&mut self, position: usize, text: &[u8]) {
        let row = self.len;
        if let Values::Struct(members) = &mut self.values
            && let Some(member) = members.list.get_mut(position)
        {
            member.builder.pad(row);
            member.builder.append_text(|out| out.extend_from_slice(text));
        }
    }

    /// Fills the row at hand with the members of the object at `object`.
    pub(crate) fn members_of(&mut self, object: u32, above: Option<&Path<'_>>, scope: &mut Scope<'_>) -> Fit {
        let row = self.len;
        let Values::Struct(members) = &mut self.values else { return Fit::Misfit };
        let tape = scope.tape;
        let end = tape.token(object).next;
        let mut variants: Vec<(usize, u32)> = Vec::new();
        let mut strangers: Vec<u32> = Vec::new();
        let mut after = 0;
        members.objects += 1;
        let mut at = object + 1;
        while at < end {
            let key = tape.token(at);
            let value_at = at + 1;
            let key_at = at;
            at = tape.token(value_at).next;
            if key.is_repeated() {
                continue;
            }
            let position = match members.find(after, &key, scope) {
                Found::Exact(position) => {
                    if members.had_already(position) {
                        return Fit::Repeat;
                    }
                    position
                }
                Found::Variant(position) => {
                    strangers.push(key_at);
                    variants.push((position, key_at));
                    continue;
                }
                Found::None => {
                    strangers.push(key_at);
                    if tape.is_nothing(value_at) {
                        continue;
                    }
                    *scope.surprise = true;
                    if scope.in_list {
                        return Fit::Misfit;
                    }
                    scope.rescue.add(&Path { parent: above, key: &key }, &tape.token(value_at), scope.buffer);
                    continue;
                }
            };
            after = position + 1;
            match members.put(position, row, &key, value_at, above, scope) {
                Fit::Taken => {}
                other => return other,
            }
        }
        if strangers.len() > 1 && !tape.knows_repeats() && has_repeats(tape, &strangers, scope.buffer) {
            return Fit::Repeat;
        }
        for (position, key_at) in variants {
            let fit = members.put_variant(position, row, object, key_at, above, scope);
            if fit != Fit::Taken {
                return fit;
            }
        }
        Fit::Taken
    }

    /// Appends the value at `value_at`. On `Misfit` the builder is as it was.
    #[inline]
    fn append(&mut self, value_at: u32, above: Option<&Path<'_>>, scope: &mut Scope<'_>) -> Fit {
        let token = scope.tape.token(value_at);
        if token.kind == TokenKind::Null {
            self.append_null();
            return Fit::Taken;
        }
        if !matches!(self.values, Values::List { .. } | Values::Struct(_)) {
            if self.append_token(&token, scope.buffer, scope.time) {
                return Fit::Taken;
            }
            let is_learned = matches!(self.values, Values::Int64(_)) && !self.declared && !scope.in_list;
            *scope.surprise |= is_learned && token.kind == TokenKind::Number && is_fraction(token.text(scope.buffer));
            return Fit::Misfit;
        }
        match &mut self.values {
            Values::List { offsets, element } => {
                if token.kind != TokenKind::Array {
                    return Fit::Misfit;
                }
                let start = element.len;
                let was_in_list = std::mem::replace(&mut scope.in_list, true);
                let mut at = value_at + 1;
                let mut fit = Fit::Taken;
                while at < token.next && fit == Fit::Taken {
                    fit = element.append(at, above, scope);
                    at = scope.tape.token(at).next;
                }
                scope.in_list = was_in_list;
                let end = i32::try_from(element.len);
                if fit != Fit::Taken || end.is_err() {
                    element.truncate(start);
                    // Its later elements were not looked at, and may have members that are new.
                    *scope.surprise |= element.has_members();
                    return if fit == Fit::Repeat { Fit::Repeat } else { Fit::Misfit };
                }
                offsets.push(end.unwrap_or_default());
                self.end_value();
            }
            Values::Struct(_) => {
                if token.kind != TokenKind::Object {
                    return Fit::Misfit;
                }
                let fit = self.members_of(value_at, above, scope);
                if fit != Fit::Taken {
                    return fit;
                }
                self.end_value();
            }
            _ => return Fit::Misfit,
        }
        Fit::Taken
    }

    /// Appends a value that is not null to a column that is no list and no struct; whether it fits. If not, the column is as it was.
    #[inline]
    pub(super) fn append_token(&mut self, token: &Token, buffer: &[u8], time: Option<(u32, i64)>) -> bool {
        match &mut self.values {
            Values::Text { .. } => {
                if token.kind == TokenKind::String {
                    self.append_text(|out| unescape(token, buffer, out));
                } else {
                    self.append_text(|out| out.extend_from_slice(token.text(buffer)));
                }
                return true;
            }
            Values::Int64(values) => {
                let literal = literal_text(token, self.declared, buffer);
                let Some(value) = literal.and_then(exact_int64) else { return false };
                values.push(value);
            }
            Values::Double(values) => {
                let literal = literal_text(token, self.declared, buffer);
                let Some(value) = literal.and_then(exact_double) else { return false };
                values.push(value);
            }
            Values::Boolean(values) => {
                let value = match token.kind {
                    TokenKind::True => true,
                    TokenKind::False => false,
                    TokenKind::String if self.declared && token.inner(buffer) == b"true" => true,
                    TokenKind::String if self.declared && token.inner(buffer) == b"false" => false,
                    _ => return false,
                };
                values.append(value);
            }
            Values::Timestamp(values) => {
                let known = time.filter(|(start, _)| *start == token.start).map(|(_, micros)| micros);
                let Some(value) = known.or_else(|| instant_of(token, buffer)) else { return false };
                values.push(value);
            }
            Values::List { .. } | Values::Struct(_) => return false,
        }
        self.end_value();
        true
    }

    /// Counts a value that was just put in.
    #[inline]
    pub(super) fn end_value(&mut self) {
        self.len += 1;
        self.nulls.append_non_null();
    }

    #[inline]
    fn append_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if let Values::Text { offsets, bytes } = &mut self.values {
            write(bytes);
            offsets.push(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        }
        self.end_value();
    }

    /// Whether new members can come in below it.
    fn has_members(&self) -> bool {
        match &self.values {
            Values::List { element, .. } => element.has_members(),
            Values::Struct(_) => true,
            _ => false,
        }
    }

    pub(super) fn append_null(&mut self) {
        self.pad(self.len + 1);
    }

    /// Fills up with nulls to `len` rows.
    #[inline]
    pub(super) fn pad(&mut self, len: usize) {
        if self.len < len {
            self.pad_slowly(len);
        }
    }

    fn pad_slowly(&mut self, len: usize) {
        let missing = len - self.len;
        match &mut self.values {
            Values::Boolean(values) => values.append_n(missing, false),
            Values::Int64(values) | Values::Timestamp(values) => values.resize(len, 0),
            Values::Double(values) => values.resize(len, 0.0),
            Values::Text { offsets, .. } | Values::List { offsets, .. } => {
                let last = offsets.last().copied().unwrap_or_default();
                offsets.resize(len + 1, last);
            }
            Values::Struct(_) => {}
        }
        self.nulls.append_n_nulls(missing);
        self.len = len;
    }

    /// Whether the elements of a list at `node` have been observed as well, however deep the lists: a path that was only ever seen with other
    /// values has none.
    fn has_paths(&self, evidence: &Evidence, node: u32) -> bool {
        let Values::List { element, .. } = &self.values else { return true };
        let inner = evidence.node(node).and_then(|node| node.element);
        inner.is_some_and(|inner| element.has_paths(evidence, inner))
    }

    /// Says of each member below whether its path, under `node`, has been observed; without evidence, that none has.
    pub(crate) fn learn(&mut self, evidence: Option<&Evidence>, node: u32) {
        match &mut self.values {
            Values::Struct(members) => {
                for member in &mut members.list {
                    let key = member.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
                    let below = evidence.zip(key).and_then(|(evidence, key)| evidence.member(node, key));
                    member.is_observed =
                        evidence.zip(below).is_some_and(|(evidence, below)| member.builder.has_paths(evidence, below));
                    member.builder.learn(evidence.filter(|_| below.is_some()), below.unwrap_or_default());
                }
            }
            Values::List { element, .. } => {
                let below = evidence.and_then(|evidence| evidence.node(node)?.element);
                element.learn(evidence.filter(|_| below.is_some()), below.unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Cuts back to at most `len` rows; a row in the making is cut as well.
    pub(crate) fn truncate(&mut self, len: usize) {
        match &mut self.values {
            Values::Boolean(values) => values.truncate(len.min(values.len())),
            Values::Int64(values) | Values::Timestamp(values) => values.truncate(len),
            Values::Double(values) => values.truncate(len),
            Values::Text { offsets, bytes } => {
                offsets.truncate(len + 1);
                bytes.truncate(usize::try_from(offsets.last().copied().unwrap_or_default()).unwrap_or_default());
            }
            Values::List { offsets, element } => {
                offsets.truncate(len + 1);
                element.truncate(usize::try_from(offsets.last().copied().unwrap_or_default()).unwrap_or_default());
            }
            Values::Struct(members) => members.list.iter_mut().for_each(|member| member.builder.truncate(len)),
        }
        if self.len > len {
            self.nulls.truncate(len);
            self.len = len;
        }
    }

    /// The root's rows; the builder is empty afterwards.
    pub(crate) fn finish_root(&mut self) -> Result<StructArray, ArrowError> {
        let rows = self.len;
        let arrays = self.finish_members(rows)?;
        self.len = 0;
        self.nulls = NullBufferBuilder::new(0);
        StructArray::try_new_with_length(fields_of(&self.field), arrays, None, rows)
    }

    fn finish_members(&mut self, rows: usize) -> Result<Vec<ArrayRef>, ArrowError> {
        let Values::Struct(members) = &mut self.values else { return Ok(Vec::new()) };
        members.list.iter_mut().map(|member| member.builder.finish(rows)).collect()
    }

    fn finish(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        self.pad(rows);
        let nulls = std::mem::replace(&mut self.nulls, NullBufferBuilder::new(0)).finish();
        self.len = 0;
        self.expected = rows;
        let expected = self.expected;
        let array: ArrayRef = match &mut self.values {
            Values::Boolean(values) => {
                let bits: BooleanBuffer = values.finish();
                Arc::new(BooleanArray::new(bits, nulls))
            }
            Values::Int64(values) => Arc::new(Int64Array::try_new(take(values, expected).into(), nulls)?),
            Values::Double(values) => Arc::new(Float64Array::try_new(take(values, expected).into(), nulls)?),
            Values::Timestamp(values) => {
                let array = TimestampMicrosecondArray::try_new(take(values, expected).into(), nulls)?;
                Arc::new(array.with_timezone(TIME_ZONE))
            }
            Values::Text { offsets, bytes } => {
                self.expected_bytes = bytes.len();
                let bytes = take(bytes, self.expected_bytes);
                Arc::new(StringArray::try_new(take_offsets(offsets, expected)?, Buffer::from_vec(bytes), nulls)?)
            }
            Values::List { offsets, element } => {
                let offsets = take_offsets(offsets, expected)?;
                let elements = usize::try_from(offsets.last()).unwrap_or_default();
                let values = element.finish(elements)?;
                Arc::new(ListArray::try_new(Arc::clone(&element.field), offsets, values, nulls)?)
            }
            Values::Struct(_) => {
                let arrays = self.finish_members(rows)?;
                Arc::new(StructArray::try_new_with_length(fields_of(&self.field), arrays, nulls, rows)?)
            }
        };
        debug_assert_eq!(array.len(), rows);
        Ok(array)
    }
}

impl Members {
    /// Whether the object at hand had the member's own key before.
    #[inline]
    pub(super) fn had_already(&mut self, position: usize) -> bool {
        let objects = self.objects;
        self.list.get_mut(position).is_some_and(|member| std::mem::replace(&mut member.object, objects) == objects)
    }

    /// Puts the value at `value_at` into member `position`, in row `row`; what does not fit is rescued, or, within a list, a misfit of the list.
    #[inline]
    fn put(
        &mut self,
        position: usize,
        row: usize,
        key: &Token,
        value_at: u32,
        above: Option<&Path<'_>>,
        scope: &mut Scope<'_>,
    ) -> Fit {
        let Some(member) = self.list.get_mut(position) else { return Fit::Misfit };
        if member.builder.len > row {
            return Fit::Repeat;
        }
        let token = scope.tape.token(value_at);
        if token.kind == TokenKind::Null {
            return Fit::Taken;
        }
        member.builder.pad(row);
        let path = Path { parent: above, key };
        let fit = member.builder.append(value_at, Some(&path), scope);
        let double = member.double;
        if fit == Fit::Repeat {
            return Fit::Repeat;
        }
        let mut taken = fit == Fit::Taken;
        if let Some(sibling) = double.and_then(|double| self.list.get_mut(double))
            && token.kind == TokenKind::Number
            && let Some(value) = exact_double(token.text(scope.buffer))
        {
            sibling.builder.pad(row);
            sibling.builder.append_double(value);
            taken = true;
        }
        if taken {
            return Fit::Taken;
        }
        if scope.in_list {
            return Fit::Misfit;
        }
        scope.rescue.add(&path, &token, scope.buffer);
        Fit::Taken
    }

    /// A key that equals a member's but for case fills it if the member's own key is absent in the object and no other variant came before.
    fn put_variant(
        &mut self,
        position: usize,
        row: usize,
        object: u32,
        key_at: u32,
        above: Option<&Path<'_>>,
        scope: &mut Scope<'_>,
    ) -> Fit {
        let (tape, key) = (scope.tape, scope.tape.token(key_at));
        let value_at = key_at + 1;
        let Some(member) = self.list.get(position) else { return Fit::Misfit };
        if !(member.builder.len > row || has_key(tape, object, member.key.as_deref().unwrap_or_default(), scope.buffer)) {
            return self.put(position, row, &key, value_at, above, scope);
        }
        if tape.is_nothing(value_at) {
            return Fit::Taken;
        }
        // What it holds was not looked at, and may have members that are new.
        *scope.surprise = true;
        if scope.in_list {
            return Fit::Misfit;
        }
        scope.rescue.add(&Path { parent: above, key: &key }, &tape.token(value_at), scope.buffer);
        Fit::Taken
    }
}

impl Builder {
    pub(super) fn append_double(&mut self, value: f64) {
        if let Values::Double(values) = &mut self.values {
            values.push(value);
            self.end_value();
        }
    }
}

/// Whether two of these keys are the same.
fn has_repeats(tape: &Tape, keys: &[u32], buffer: &[u8]) -> bool {
    let text = |key: &u32| {
        let mut text = Vec::new();
        unescape(&tape.token(*key), buffer, &mut text);
        text
    };
    let mut texts: Vec<Vec<u8>> = keys.iter().map(text).collect();
    texts.sort_unstable();
    texts.windows(2).any(|pair| matches!(pair, [a, b] if a == b))
}

fn has_key(tape: &Tape, object: u32, wanted: &[u8], buffer: &[u8]) -> bool {
    let end = tape.token(object).next;
    let mut at = object + 1;
    let mut text = Vec::new();
    while at < end {
        text.clear();
        unescape(&tape.token(at), buffer, &mut text);
        if text == wanted {
            return true;
        }
        at = tape.token(at + 1).next;
    }
    false
}

/// Whether two keys are equal. They mostly are, and short: a few words compared in place beat a call.
#[inline]
pub(crate) fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if let (Some(a_first), Some(b_first), Some(a_last), Some(b_last)) =
        (a.first_chunk::<8>(), b.first_chunk::<8>(), a.last_chunk::<8>(), b.last_chunk::<8>())
    {
        return a_first == b_first && a_last == b_last && (a.len() <= 16 || a == b);
    }
    if let (Some(a_first), Some(b_first), Some(a_last), Some(b_last)) =
        (a.first_chunk::<4>(), b.first_chunk::<4>(), a.last_chunk::<4>(), b.last_chunk::<4>())
    {
        return a_first == b_first && a_last == b_last;
    }
    a.iter().zip(b).all(|(a, b)| a == b)
}

/// The text that a number column reads: a number's, or, where the column was declared, that of a string which is exactly a number.
#[inline]
fn literal_text<'a>(token: &Token, declared: bool, buffer: &'a [u8]) -> Option<&'a [u8]> {
    match token.kind {
        TokenKind::Number => Some(token.text(buffer)),
        TokenKind::String if declared && is_number(token.inner(buffer)) => Some(token.inner(buffer)),
        _ => None,
    }
}

/// A key as it mostly stands in a record, with its quotes and colon; empty if it has to be escaped there.
fn quoted(key: &[u8]) -> Box<[u8]> {
    if key.iter().any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        return Box::default();
    }
    [b"\"", key, b"\":"].concat().into()
}

/// A struct's fields.
fn fields_of(field: &FieldRef) -> Fields {
    match field.data_type() {
        DataType::Struct(fields) => fields.clone(),
        _ => Fields::empty(),
    }
}

/// A little more than the last batch had: most batches then need no growth, which costs a copy.
fn with_slack(expected: usize) -> usize {
    expected + expected / 8
}

fn take<T>(values: &mut Vec<T>, expected: usize) -> Vec<T> {
    std::mem::replace(values, Vec::with_capacity(with_slack(expected)))
}

fn take_offsets(offsets: &mut Vec<i32>, expected: usize) -> Result<OffsetBuffer<i32>, ArrowError> {
    let mut fresh = Vec::with_capacity(with_slack(expected) + 1);
    fresh.push(0);
    let taken = std::mem::replace(offsets, fresh);
    if taken.last() == Some(&i32::MAX) {
        return Err(ArrowError::OffsetOverflowError(taken.len()));
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(taken)))
}

#[cfg(test)]
mod tests {
    use super::is_same;

    #[test]
    fn keys_are_the_same_only_byte_for_byte_at_every_length() {
        for length in 0..40 {
            let key: Vec<u8> = (0..length).map(|at| b'a' + at).collect();
            assert!(is_same(&key, &key.clone()));
            assert!(!is_same(&key, &[key.as_slice(), b"x"].concat()));
            for at in 0..key.len() {
                let mut other = key.clone();
                other[at] ^= 0x20;
                assert!(!is_same(&key, &other), "{length} {at}");
            }
        }
    }
}
