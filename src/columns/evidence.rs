//! What all values of a run say about columns that are not pinned yet: counts of kinds, per path, in input order.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::builder::is_same;
use super::number::{exact_int64, is_fraction};
use crate::domain::schema::{Column, Role, TableSchema, Type};
use crate::records::json::{Tape, Token, TokenKind, unescape};

/// The kinds of values that decide a column's type; each is an index into [`Kinds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Text,
    Boolean,
    Object,
    List,
}

/// How many values of each kind were seen at a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kinds {
    #[serde(rename = "n", default)]
    pub(crate) numbers: u64,
    #[serde(rename = "t", default)]
    pub(crate) texts: u64,
    #[serde(rename = "b", default)]
    pub(crate) booleans: u64,
    #[serde(rename = "o", default)]
    pub(crate) objects: u64,
    #[serde(rename = "l", default)]
    pub(crate) lists: u64,
    /// Numbers that are no 64-bit integers.
    #[serde(rename = "d", default)]
    pub(crate) not_int64: u64,
}

impl Kinds {
    /// The kind that most values have; a tie is text. `None` without any value.
    pub(crate) fn majority(&self) -> Option<Kind> {
        let counts = [
            (Kind::Number, self.numbers),
            (Kind::Text, self.texts),
            (Kind::Boolean, self.booleans),
            (Kind::Object, self.objects),
            (Kind::List, self.lists),
        ];
        let most = counts.iter().map(|(_, count)| *count).max().filter(|&most| most > 0)?;
        let mut leaders = counts.iter().filter(|(_, count)| *count == most);
        match (leaders.next(), leaders.next()) {
            (Some((kind, _)), None) => Some(*kind),
            _ => Some(Kind::Text),
        }
    }

    fn add(&mut self, seen: Seen) {
        match seen {
            Seen::Int64 => self.numbers += 1,
            Seen::OtherNumber => {
                self.numbers += 1;
                self.not_int64 += 1;
            }
            Seen::Text => self.texts += 1,
            Seen::Boolean => self.booleans += 1,
            Seen::Object => self.objects += 1,
            Seen::List => self.lists += 1,
        }
    }

    fn absorb(&mut self, other: &Kinds) {
        self.numbers += other.numbers;
        self.texts += other.texts;
        self.booleans += other.booleans;
        self.objects += other.objects;
        self.lists += other.lists;
        self.not_int64 += other.not_int64;
    }
}

#[derive(Clone, Copy, Debug)]
enum Seen {
    Int64,
    OtherNumber,
    Text,
    Boolean,
    Object,
    List,
}

/// What is watched at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// A pinned column that nothing can change.
    Nothing,
    /// A pinned `int64` column that was learned: a fraction gives it a sibling.
    Fractions,
    /// A pinned struct, for new members.
    Members,
    /// A pinned list, for new members of its elements.
    Elements,
    /// No column yet: everything.
    All,
}

/// A path.
#[derive(Debug)]
pub(crate) struct Node {
    parent: u32,
    /// The key, as the first record that had it spells it; empty for a list's element.
    pub(crate) key: String,
    is_element: bool,
    depth: usize,
    watch: Watch,
    pub(crate) kinds: Kinds,
    /// Members in the order in which they were first seen (or pinned).
    pub(crate) members: Vec<u32>,
    by_folded: HashMap<String, u32>,
    follow: Vec<u32>,
    pub(crate) element: Option<u32>,
    stamp: u64,
}

/// A new path and its counts, as a shard's journal keeps it: enough to build the same evidence again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Observed {
    #[serde(rename = "p")]
    parent: u32,
    #[serde(rename = "k", default, skip_serializing_if = "String::is_empty")]
    key: String,
    #[serde(rename = "e", default, skip_serializing_if = "std::ops::Not::not")]
    is_element: bool,
    #[serde(rename = "c")]
    kinds: Kinds,
}

/// The bounds that keep hostile records from growing a schema without end.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "the settings' own names")]
pub struct Limits {
    /// The most leaf columns of a table.
    pub max_columns: usize,
    /// The most keys in one struct.
    pub max_fields: usize,
    /// The most levels; the top level is 1 and a list's element counts as one.
    pub max_column_depth: usize,
}

/// Keys longer than this are never columns, in bytes: catalogues keep names in places that are far shorter.
const LONGEST_KEY: usize = 1_024;

/// The most keys that one key is compared with: beyond that marking all repeats of the record is cheaper.
const MOST_COMPARED: usize = 64;

/// The kinds seen at every path that is not pinned, of one table.
///
/// Two pieces of evidence from consecutive parts of the input, made over the same base, [`absorb`](Evidence::absorb) to what one over both parts would be:
/// the counts are sums, and paths stand in the order in which the input first had them.
#[derive(Debug)]
pub struct Evidence {
    nodes: Vec<Node>,
    pinned: usize,
    limits: Limits,
    objects: u64,
    pending: Vec<(u32, Seen)>,
    text: Vec<u8>,
}

/// The record repeats a key, and the walk met it: mark the repeats and observe again.
struct Repeats;

impl Evidence {
    /// No evidence yet, over the pinned columns of `base`.
    #[must_use]
    pub fn new(base: &TableSchema, limits: Limits) -> Evidence {
        let root = Node::new(0, String::new(), false, 0, Watch::Members);
        let mut evidence = Evidence { nodes: vec![root], pinned: 0, limits, objects: 0, pending: Vec::new(), text: Vec::new() };
        evidence.pin_members(0, &base.columns, false);
        evidence.pinned = evidence.nodes.len();
        evidence
    }

    fn pin_members(&mut self, parent: u32, columns: &[Column], in_list: bool) {
        for column in columns {
            if column.role == Role::Value {
                let node = self.add(parent, column.key().to_owned(), false, Watch::Nothing);
                self.pin(node, column, in_list);
            }
        }
        // An int64 column that has its sibling already has nothing to learn.
        for column in columns.iter().filter(|column| column.role == Role::Double) {
            if let Some(of) = self.member(parent, column.key()) {
                self.node_mut(of).watch = Watch::Nothing;
            }
        }
    }

    fn pin(&mut self, node: u32, column: &Column, in_list: bool) {
        let watch = match &column.column_type {
            // Within a list there is no sibling: the list is rescued.
            Type::Int64 if !column.declared && !in_list => Watch::Fractions,
            Type::Struct(members) => {
                self.pin_members(node, members, in_list);
                Watch::Members
            }
            Type::List(element) => {
                let inner = self.add(node, String::new(), true, Watch::Nothing);
                self.pin(inner, element, true);
                Watch::Elements
            }
            _ => Watch::Nothing,
        };
        self.node_mut(node).watch = watch;
    }

    fn add(&mut self, parent: u32, key: String, is_element: bool, watch: Watch) -> u32 {
        let at = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let depth = self.node(parent).map_or(0, |node| node.depth) + 1;
        let folded = key.to_lowercase();
        self.nodes.push(Node::new(parent, key, is_element, depth, watch));
        let above = self.node_mut(parent);
        if is_element {
            above.element = Some(at);
        } else {
            above.members.push(at);
            above.by_folded.entry(folded).or_insert(at);
        }
        at
    }

    /// The node at `at`.
    pub(crate) fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        // Indices come from this arena alone; the root stands in for one that can't be.
        let at = if (at as usize) < self.nodes.len() { at as usize } else { 0 };
        #[expect(clippy::indexing_slicing, reason = "the arena always holds its root and the index was just checked")]
        &mut self.nodes[at]
    }

    fn watch_of(&self, at: u32) -> Watch {
        self.node(at).map_or(Watch::Nothing, |node| node.watch)
    }

    /// The member of `parent` that `key` fills: equal, or equal but for case.
    pub(crate) fn member(&self, parent: u32, key: &str) -> Option<u32> {
        self.node(parent)?.by_folded.get(&key.to_lowercase()).copied()
    }

    /// Adds so many values of each kind at a path that is no column yet.
    pub(crate) fn add_kinds(&mut self, at: u32, kinds: &Kinds) {
        if self.watch_of(at) == Watch::All {
            self.node_mut(at).kinds.absorb(kinds);
        }
    }

    /// How many paths are known, pinned ones too: it grows when one is met for the first time.
    pub(crate) fn paths(&self) -> usize {
        self.nodes.len()
    }

    /// Whether anything was observed that is not pinned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == self.pinned && self.nodes.iter().all(|node| node.kinds == Kinds::default())
    }

    /// Counts the values of the record on `tape`; of a repeated key the last.
    pub fn observe(&mut self, tape: &mut Tape, buffer: &[u8]) {
        if self.try_observe(tape, buffer).is_err() {
            tape.drop_repeats(buffer);
            // With the repeats marked it can't fail again.
            let _ = self.try_observe(tape, buffer);
        }
    }

    /// Fails, and leaves no trace of the record, when it repeats a key whose repeats are not marked.
    fn try_observe(&mut self, tape: &Tape, buffer: &[u8]) -> Result<(), Repeats> {
        self.pending.clear();
        let known = self.nodes.len();
        if self.members_of(0, 0, tape, buffer).is_err() {
            self.forget_from(known);
            return Err(Repeats);
        }
        let pending = std::mem::take(&mut self.pending);
        for &(node, seen) in &pending {
            self.node_mut(node).kinds.add(seen);
        }
        self.pending = pending;
        Ok(())
    }

    /// Takes the nodes from `known` on out again.
    fn forget_from(&mut self, known: usize) {
        let is_known = |at: &u32| (*at as usize) < known;
        for node in self.nodes.split_off(known) {
            if is_known(&node.parent) {
                let parent = self.node_mut(node.parent);
                parent.members.retain(is_known);
                parent.by_folded.retain(|_, member| is_known(member));
                parent.element = parent.element.filter(is_known);
                parent.follow.clear();
            }
        }
    }

    fn members_of(&mut self, node: u32, object: u32, tape: &Tape, buffer: &[u8]) -> Result<(), Repeats> {
        self.objects += 1;
        let stamp = self.objects;
        let end = tape.token(object).next;
        let mut at = object + 1;
        let mut after = 0;
        while at < end {
            let key_at = at;
            let key = tape.token(at);
            let value_at = at + 1;
            at = tape.token(value_at).next;
            if key.is_repeated() {
                continue;
            }
            if tape.is_nothing(value_at) {
                // It counts for nothing, but it overrides what the same key had before.
                if !tape.knows_repeats() && may_repeat(tape, object, key_at, buffer) {
                    return Err(Repeats);
                }
                continue;
            }
            let Some(member) = self.find(node, after, &key, buffer) else { continue };
            after += 1;
            let watched = self.node_mut(member);
            if watched.stamp == stamp && !tape.knows_repeats() {
                return Err(Repeats);
            }
            watched.stamp = stamp;
            self.value(member, value_at, tape, buffer)?;
        }
        Ok(())
    }

    fn value(&mut self, node: u32, at: u32, tape: &Tape, buffer: &[u8]) -> Result<(), Repeats> {
        let token = tape.token(at);
        let watch = self.watch_of(node);
        match (watch, token.kind) {
            (Watch::Fractions, TokenKind::Number)
                if exact_int64(token.text(buffer)).is_none() && is_fraction(token.text(buffer)) =>
            {
                self.pending.push((node, Seen::OtherNumber));
            }
            (Watch::Members, TokenKind::Object) => self.members_of(node, at, tape, buffer)?,
            (Watch::Elements, TokenKind::Array) => self.elements_of(node, at, tape, buffer)?,
            (Watch::All, kind) => {
                let seen = match kind {
                    TokenKind::Null => return Ok(()),
                    TokenKind::True | TokenKind::False => Seen::Boolean,
                    TokenKind::Number if exact_int64(token.text(buffer)).is_some() => Seen::Int64,
                    TokenKind::Number => Seen::OtherNumber,
                    TokenKind::String => Seen::Text,
                    TokenKind::Object => Seen::Object,
                    TokenKind::Array => Seen::List,
                };
                self.pending.push((node, seen));
                match kind {
                    TokenKind::Object => self.members_of(node, at, tape, buffer)?,
                    TokenKind::Array => self.elements_of(node, at, tape, buffer)?,
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn elements_of(&mut self, node: u32, array: u32, tape: &Tape, buffer: &[u8]) -> Result<(), Repeats> {
        let element = match self.node(node).and_then(|list| list.element) {
            Some(element) => element,
            None if self.may_grow(node) => self.add(node, String::new(), true, Watch::All),
            None => return Ok(()),
        };
        if self.watch_of(element) == Watch::Nothing {
            return Ok(());
        }
        let end = tape.token(array).next;
        let mut at = array + 1;
        while at < end {
            if !tape.is_nothing(at) {
                self.value(element, at, tape, buffer)?;
            }
            at = tape.token(at).next;
        }
        Ok(())
    }

    fn may_grow(&self, parent: u32) -> bool {
        // Enough for every column that the budget can hold, with what is above them; a hostile day's further paths are rescued. It is the
        // first paths of the input that count, wherever it is cut into chunks.
        let most = self.pinned + 4 * self.limits.max_columns + 1_000;
        self.nodes.len() < most && self.node(parent).is_some_and(|node| node.depth < self.limits.max_column_depth)
    }

    /// The member of `parent` under `key`, made if it may be; `None` where the limits forbid it.
    fn find(&mut self, parent: u32, after: usize, key: &Token, buffer: &[u8]) -> Option<u32> {
        let inner = key.inner(buffer);
        if !key.is_escaped()
            && let Some(&guess) = self.node(parent).and_then(|node| node.follow.get(after))
            && self.node(guess).is_some_and(|node| is_same(node.key.as_bytes(), inner))
        {
            return Some(guess);
        }
        if inner.len() > LONGEST_KEY {
            return None;
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        unescape(key, buffer, &mut text);
        let name = String::from_utf8_lossy(&text).into_owned();
        self.text = text;
        let member = match self.member(parent, &name) {
            Some(member) => member,
            None if self.may_grow(parent) => self.add(parent, name, false, Watch::All),
            None => return None,
        };
        let follow = &mut self.node_mut(parent).follow;
        if follow.len() <= after {
            follow.resize(after + 1, member);
        }
        if let Some(guess) = follow.get_mut(after) {
            *guess = member;
        }
        Some(member)
    }

    /// Adds what a later part of the input showed, over the same base.
    pub fn absorb(&mut self, later: &Evidence) {
        self.restore(&later.observed());
    }

    /// Every node's counts and every new path, to be kept in a journal.
    #[must_use]
    pub fn observed(&self) -> Vec<Observed> {
        self.nodes
            .iter()
            .map(|node| Observed { parent: node.parent, key: node.key.clone(), is_element: node.is_element, kinds: node.kinds })
            .enumerate()
            .map(|(at, observed)| if at < self.pinned { Observed { key: String::new(), ..observed } } else { observed })
            .collect()
    }

    /// Adds evidence that was kept; it must come from the same base, in input order.
    pub fn restore(&mut self, observed: &[Observed]) {
        let mut here: Vec<Option<u32>> = Vec::with_capacity(observed.len());
        for (at, other) in observed.iter().enumerate() {
            let node = if at < self.pinned {
                u32::try_from(at).ok()
            } else {
                let parent = here.get(other.parent as usize).copied().flatten();
                parent.and_then(|parent| self.counterpart(parent, other))
            };
            if let Some(node) = node {
                self.node_mut(node).kinds.absorb(&other.kinds);
            }
            here.push(node);
        }
    }

    fn counterpart(&mut self, parent: u32, other: &Observed) -> Option<u32> {
        let known = if other.is_element { self.node(parent)?.element } else { self.member(parent, &other.key) };
        match known {
            Some(node) => Some(node),
            None if self.may_grow(parent) => Some(self.add(parent, other.key.clone(), other.is_element, Watch::All)),
            None => None,
        }
    }

    /// Whether the node was pinned before the run.
    pub(crate) fn is_pinned(&self, at: u32) -> bool {
        (at as usize) < self.pinned
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }
}

/// Whether an earlier key of the object could be the same as the one at `key_at`; who wants to know has to mark the repeats.
fn may_repeat(tape: &Tape, object: u32, key_at: u32, buffer: &[u8]) -> bool {
    let key = tape.token(key_at);
    let mut at = object + 1;
    let mut looked_at = 0;
    while at < key_at {
        let earlier = tape.token(at);
        looked_at += 1;
        if earlier.is_escaped() || key.is_escaped() || looked_at > MOST_COMPARED || earlier.inner(buffer) == key.inner(buffer) {
            return true;
        }
        at = tape.token(at + 1).next;
    }
    false
}

impl Node {
    fn new(parent: u32, key: String, is_element: bool, depth: usize, watch: Watch) -> Node {
        Node {
            parent,
            key,
            is_element,
            depth,
            watch,
            kinds: Kinds::default(),
            members: Vec::new(),
            by_folded: HashMap::new(),
            follow: Vec::new(),
            element: None,
            stamp: 0,
        }
    }
}
