//! The rescue column: values that did not fit, as one JSON object from JSON Pointer to the original value.

use crate::records::json::{Token, escape, unescape};

/// Where a walk through a record stands: a chain of steps from the value up to the record.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    /// The step above; `None` at the top level.
    pub(crate) parent: Option<&'a Path<'a>>,
    /// The key that led here.
    pub(crate) key: &'a Token,
}

/// The rescued values of the record at hand.
#[derive(Debug, Default)]
pub(crate) struct Rescue {
    object: Vec<u8>,
    pointers: Vec<String>,
}

impl Rescue {
    /// Forgets what was rescued.
    pub(crate) fn clear(&mut self) {
        self.object.clear();
        self.pointers.clear();
    }

    /// How many values were rescued.
    pub(crate) fn count(&self) -> usize {
        self.pointers.len()
    }

    /// Keeps the value at `value` under the JSON Pointer (RFC 6901) of `path`, verbatim.
    pub(crate) fn add(&mut self, path: &Path<'_>, value: &Token, buffer: &[u8]) {
        let mut pointer = String::new();
        push_pointer(path, buffer, &mut pointer);
        self.object.push(if self.pointers.is_empty() { b'{' } else { b',' });
        escape(&pointer, &mut self.object);
        self.object.push(b':');
        self.object.extend_from_slice(value.text(buffer));
        self.pointers.push(pointer);
    }

    /// The JSON object, complete; empty where nothing was rescued.
    pub(crate) fn finish(&mut self) -> &[u8] {
        if !self.pointers.is_empty() {
            self.object.push(b'}');
        }
        &self.object
    }

    /// The pointers of the rescued values, in order.
    pub(crate) fn pointers(&self) -> &[String] {
        &self.pointers
    }
}

fn push_pointer(path: &Path<'_>, buffer: &[u8], out: &mut String) {
    if let Some(parent) = path.parent {
        push_pointer(parent, buffer, out);
    }
    out.push('/');
    let mut key = Vec::new();
    unescape(path.key, buffer, &mut key);
    for character in String::from_utf8_lossy(&key).chars() {
        match character {
            '~' => out.push_str("~0"),
            '/' => out.push_str("~1"),
            other => out.push(other),
        }
    }
}
