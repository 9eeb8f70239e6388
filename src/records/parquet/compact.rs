//! Thrift's compact protocol, as much of it as tells what a Parquet footer or page header claims, without believing any of it.

/// Elements of one list: far more columns or row groups than any table has, and few enough that a reader can make room for them.
const MOST_ELEMENTS: u64 = 100_000;
/// Nesting of structs and lists; Parquet's own has seven levels.
const MOST_LEVELS: usize = 16;

/// What a walk meets, at the path of field ids that leads there; the elements of a list share the list's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// A whole number of any width.
    Integer(i64),
    /// The end of a struct.
    End,
}

/// Walks bytes that hold one struct; `None` where they break the protocol, end too soon or claim too much.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<i16>,
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Walk<'a> {
        Walk { bytes, at: 0, path: Vec::with_capacity(MOST_LEVELS) }
    }

    /// Walks one struct and tells `meet` what it holds; how many bytes it has.
    pub(super) fn whole_struct(mut self, meet: &mut impl FnMut(&[i16], Met)) -> Option<usize> {
        self.members(meet)?;
        Some(self.at)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn pass(&mut self, bytes: usize) -> Option<()> {
        self.at = self.at.checked_add(bytes).filter(|end| *end <= self.bytes.len())?;
        Some(())
    }

    fn members(&mut self, meet: &mut impl FnMut(&[i16], Met)) -> Option<()> {
        let mut id = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                meet(&self.path, Met::End);
                return Some(());
            }
            id = match head >> 4 {
                0 => i16::try_from(self.integer()?).ok()?,
                step => id.checked_add(i16::from(step))?,
            };
            let kind = head & 0x0F;
            if self.path.len() >= MOST_LEVELS {
                return None;
            }
            self.path.push(id);
            // A member's truth value is its kind; only an element's has a byte.
            if !matches!(kind, TRUE | FALSE) {
                self.value(kind, meet)?;
            }
            self.path.pop();
        }
    }

    fn value(&mut self, kind: u8, meet: &mut impl FnMut(&[i16], Met)) -> Option<()> {
        match kind {
            TRUE | FALSE | BYTE => self.pass(1),
            4..=6 => {
                let value = self.integer()?;
                meet(&self.path, Met::Integer(value));
                Some(())
            }
            DOUBLE => self.pass(8),
            BINARY => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.pass(length)
            }
            LIST | SET => {
                let head = self.byte()?;
                let size = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                // Each element has a byte at least.
                if size > MOST_ELEMENTS || size > (self.bytes.len() - self.at) as u64 {
                    return None;
                }
                (0..size).try_for_each(|_| self.value(head & 0x0F, meet))
            }
            STRUCT => self.members(meet),
            // Parquet has no maps.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(bytes: &[u8]) -> (Option<usize>, Vec<(Vec<i16>, Met)>) {
        let mut met = Vec::new();
        let length = Walk::new(bytes).whole_struct(&mut |path, what| met.push((path.to_vec(), what)));
        (length, met)
    }

    #[test]
    fn a_struct_is_walked_to_its_end_and_no_further() {
        // {1: i32 -3, 2: "ab", 3: true, 20: [i32 1, 2], 21: {1: i64 300}} and what follows.
        let bytes = [0x15, 5, 0x18, 2, b'a', b'b', 0x11, 0x09, 40, 0x25, 2, 4, 0x1C, 0x16, 0xD8, 4, 0, 0, 0xFF];
        let (length, met) = walked(&bytes);
        assert_eq!(length, Some(18));
        let integer = |path: &[i16], value| (path.to_vec(), Met::Integer(value));
        assert_eq!(
            met,
            [
                integer(&[1], -3),
                integer(&[20], 1),
                integer(&[20], 2),
                integer(&[21, 1], 300),
                (vec![21], Met::End),
                (vec![], Met::End)
            ]
        );
        for cut in 0..18 {
            assert_eq!(walked(&bytes[..cut]).0, None, "cut at {cut}");
        }
    }

    #[test]
    fn claims_that_the_bytes_can_not_hold_are_refused() {
        assert_eq!(walked(&[0x19, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0]).0, None, "a list of 2^32 structs");
        assert_eq!(walked(&[0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0]).0, None, "a text of 2^32 bytes");
        assert_eq!(
            walked(&[0x15, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]).0,
            None,
            "an endless number"
        );
        assert_eq!(walked(&vec![0x1C; 100_000]).0, None, "structs without end");
        assert_eq!(walked(&[0x1B, 0]).0, None, "a map");
    }
}
