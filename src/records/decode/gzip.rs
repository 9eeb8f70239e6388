//! Gzip (RFC 1952), every member: own header and trailer around a raw inflater, so that each way to be damaged can be told.

use flate2::{Decompress, FlushDecompress, Status};

use super::{Damage, Packing, Room, append_within};
use crate::records::crc32::Crc32;

/// Unpacks a sequence of gzip members, and zero padding after the last.
pub(super) struct Gzip {
    inflater: Decompress,
    /// Of the member's unpacked bytes; within a header, of the header's bytes.
    crc: Crc32,
    /// Unpacked bytes of the member, modulo 2^32 as in its trailer.
    length: u32,
    state: State,
}

enum State {
    /// Before a member's first byte, which may not come.
    Between,
    Header {
        flags: u8,
        field: Field,
    },
    Body,
    Trailer {
        bytes: u64,
        read: u32,
    },
    /// Zero bytes after the last member.
    Padding,
}

/// The next byte of a member's header (RFC 1952, 2.3).
#[derive(Clone, Copy)]
enum Field {
    Fixed(u8),
    ExtraLengthLow,
    ExtraLengthHigh(u8),
    Extra(u16),
    Name,
    Comment,
    CrcLow,
    CrcHigh(u8),
    End,
}

const FLAG_HEADER_CRC: u8 = 1 << 1;
const FLAG_EXTRA: u8 = 1 << 2;
const FLAG_NAME: u8 = 1 << 3;
const FLAG_COMMENT: u8 = 1 << 4;
const FLAGS_RESERVED: u8 = 0b1110_0000;

impl Gzip {
    pub(super) fn new() -> Gzip {
        Gzip { inflater: Decompress::new(false), crc: Crc32::new(), length: 0, state: State::Between }
    }

    /// Whether the stream may end here.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.state, State::Between | State::Padding)
    }

    /// Appends to `out` until it holds `limit` bytes, or `input` is used up and nothing more comes out.
    pub(super) fn unpack(&mut self, input: &mut &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), Damage> {
        while out.len() < limit {
            match &mut self.state {
                State::Body => {
                    let progressed = self.inflate(input, out, limit)?;
                    if !progressed {
                        return Ok(());
                    }
                }
                State::Padding => {
                    let all_zero = input.iter().all(|byte| *byte == 0);
                    *input = &[];
                    return if all_zero { Ok(()) } else { Err(Damage::TrailingGarbage(Packing::Gzip)) };
                }
                _ => {
                    let Some((byte, rest)) = input.split_first() else { return Ok(()) };
                    self.take_byte(*byte)?;
                    *input = rest;
                }
            }
        }
        Ok(())
    }

    /// One call of the inflater; answers whether anything went in or came out.
    fn inflate(&mut self, input: &mut &[u8], out: &mut Vec<u8>, limit: usize) -> Result<bool, Damage> {
        let inflater = &mut self.inflater;
        let before = out.len();
        let (total_in, total_out) = (inflater.total_in(), inflater.total_out());
        let status = append_within(out, limit, |room| {
            let status = match room {
                Room::Spare(out) => inflater.decompress_vec(input, out, FlushDecompress::None),
                Room::Over(room) => inflater.decompress(input, room, FlushDecompress::None),
            };
            (usize::try_from(inflater.total_out() - total_out).unwrap_or(usize::MAX), status)
        });
        let status = status.map_err(|_| Damage::Corrupt(Packing::Gzip))?;
        let consumed = usize::try_from(self.inflater.total_in() - total_in).unwrap_or(usize::MAX);
        *input = input.get(consumed..).unwrap_or_default();
        let unpacked = out.get(before..).unwrap_or_default();
        self.crc.update(unpacked);
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32 is what the format stores")]
        let unpacked_length = unpacked.len() as u32;
        self.length = self.length.wrapping_add(unpacked_length);
        if status == Status::StreamEnd {
            self.state = State::Trailer { bytes: 0, read: 0 };
            return Ok(true);
        }
        Ok(consumed > 0 || !unpacked.is_empty())
    }

    /// A byte of anything but compressed data or padding.
    fn take_byte(&mut self, byte: u8) -> Result<(), Damage> {
        match &mut self.state {
            State::Between if byte == 0 => self.state = State::Padding,
            State::Between => {
                self.crc.reset();
                self.state = State::Header { flags: 0, field: Field::Fixed(0) };
                return self.take_byte(byte);
            }
            State::Header { flags, field } => {
                let header_crc = self.crc.sum();
                self.crc.update(&[byte]);
                *field = next_field(*field, byte, flags, header_crc)?;
                if matches!(field, Field::End) {
                    self.crc.reset();
                    self.length = 0;
                    self.inflater.reset(false);
                    self.state = State::Body;
                }
            }
            State::Trailer { bytes, read } => {
                *bytes |= u64::from(byte) << (8 * *read);
                *read += 1;
                if *read == 8 {
                    let expected = u64::from(self.length) << 32 | u64::from(self.crc.sum());
                    if *bytes != expected {
                        return Err(Damage::BadChecksum(Packing::Gzip));
                    }
                    self.state = State::Between;
                }
            }
            State::Body | State::Padding => {}
        }
        Ok(())
    }
}

/// Reads one header byte: what the next one is, or that the header is at its end.
fn next_field(field: Field, byte: u8, flags: &mut u8, header_crc: u32) -> Result<Field, Damage> {
    let [crc_low, crc_high, ..] = header_crc.to_le_bytes();
    Ok(match field {
        Field::Fixed(0) if byte != 0x1F => return Err(Damage::TrailingGarbage(Packing::Gzip)),
        Field::Fixed(1) if byte != 0x8B => return Err(Damage::TrailingGarbage(Packing::Gzip)),
        // 8 is deflate, and there is no other method.
        Field::Fixed(2) if byte != 8 => return Err(Damage::Corrupt(Packing::Gzip)),
        Field::Fixed(3) if byte & FLAGS_RESERVED != 0 => return Err(Damage::Corrupt(Packing::Gzip)),
        Field::Fixed(3) => {
            *flags = byte;
            Field::Fixed(4)
        }
        Field::Fixed(at @ 0..=8) => Field::Fixed(at + 1),
        Field::Fixed(_) => first_optional(*flags, 0),
        Field::ExtraLengthLow => Field::ExtraLengthHigh(byte),
        Field::ExtraLengthHigh(low) => match u16::from_le_bytes([low, byte]) {
            0 => first_optional(*flags, 1),
            length => Field::Extra(length),
        },
        Field::Extra(1) => first_optional(*flags, 1),
        Field::Extra(left) => Field::Extra(left.saturating_sub(1)),
        Field::Name if byte == 0 => first_optional(*flags, 2),
        Field::Comment if byte == 0 => first_optional(*flags, 3),
        Field::Name | Field::Comment => field,
        Field::CrcLow if byte == crc_low => Field::CrcHigh(crc_high),
        Field::CrcHigh(high) if byte == high => Field::End,
        Field::CrcLow | Field::CrcHigh(_) => return Err(Damage::Corrupt(Packing::Gzip)),
        Field::End => Field::End,
    })
}

/// The first of the optional header fields, from the `from`th on, that the flags announce.
fn first_optional(flags: u8, from: usize) -> Field {
    let optional = [
        (FLAG_EXTRA, Field::ExtraLengthLow),
        (FLAG_NAME, Field::Name),
        (FLAG_COMMENT, Field::Comment),
        (FLAG_HEADER_CRC, Field::CrcLow),
    ];
    optional.into_iter().skip(from).find(|(flag, _)| flags & flag != 0).map_or(Field::End, |(_, field)| field)
}
