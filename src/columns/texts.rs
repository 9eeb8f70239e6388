//! Rows that were looked at already and wait as text, until there are enough of them for columns.

use arrow::error::ArrowError;

use super::fields::TypedSchema;
use super::shred::{Shredded, Shredder};
use crate::records::json::Tape;

/// Makes columns of rows that a [`Shredder`] of the same schema took before and gave back as lines.
///
/// A column costs some hundred bytes and a dozen allocations whatever is in it, a row a few kilobytes of them: a piece of one or two rows
/// is handed on as its text, and read once more when it comes together with others. What comes out is what the first shredder had.
#[derive(Debug)]
pub struct TextShredder {
    shredder: Shredder,
    tape: Tape,
}

impl TextShredder {
    /// For rows of this schema.
    #[must_use]
    pub fn new(schema: &TypedSchema) -> TextShredder {
        TextShredder { shredder: Shredder::new(schema), tape: Tape::default() }
    }

    /// Appends whole lines, a record each, as [`Shredder`] took them.
    pub fn push(&mut self, lines: &[u8]) -> Result<(), ArrowError> {
        let mut rest = lines;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (text, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            // Their depth was looked at before.
            if self.shredder.append_direct(text, usize::MAX).is_some() {
                self.shredder.keep();
                continue;
            }
            self.tape
                .read(text, 0, usize::MAX)
                .map_err(|fault| ArrowError::JsonError(format!("a row that was read before is no JSON: {fault:?}")))?;
            self.shredder.append(&mut self.tape, text, None);
        }
        Ok(())
    }

    /// The number of rows that wait.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.shredder.rows()
    }

    /// Gives the rows and starts anew.
    pub fn finish(&mut self) -> Result<Shredded, ArrowError> {
        self.shredder.finish()
    }
}
