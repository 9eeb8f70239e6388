//! Zstd (RFC 8878), every frame, skippable and empty ones too, with a bounded window.

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::{Damage, Packing, Room, append_within};

/// The largest window is 2^27 bytes, 128 MiB: what `zstd -d` takes without being asked for more.
const WINDOW_LOG_MAX: u32 = 27;

/// Unpacks a sequence of zstd frames.
pub(super) struct Zstd {
    decoder: Decoder<'static>,
    between: bool,
    frames_ended: bool,
    /// The last call filled its room, so that more may come out without input.
    may_hold_output: bool,
}

impl Zstd {
    pub(super) fn new() -> Result<Zstd, Damage> {
        let mut decoder = Decoder::new().map_err(|_| Damage::Corrupt(Packing::Zstd))?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(|_| Damage::Corrupt(Packing::Zstd))?;
        Ok(Zstd { decoder, between: true, frames_ended: false, may_hold_output: false })
    }

    /// Whether the stream may end here.
    pub(super) fn is_between(&self) -> bool {
        self.between
    }

    /// Appends to `out` until it holds `limit` bytes, or `input` is used up and nothing more comes out.
    pub(super) fn unpack(&mut self, input: &mut &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), Damage> {
        // A call that can do nothing is an error to zstd when it is repeated, so none is made.
        while out.len() < limit && (!input.is_empty() || self.may_hold_output) {
            let before = out.len();
            let mut source = InBuffer::around(input);
            let decoder = &mut self.decoder;
            let (hint, filled) = append_within(out, limit, |room| match room {
                Room::Spare(out) => {
                    let mut target = OutBuffer::around_pos(out, before);
                    let hint = decoder.run(&mut source, &mut target);
                    (target.pos() - before, (hint, target.pos() == target.capacity()))
                }
                Room::Over(room) => {
                    let mut target = OutBuffer::around(room);
                    let hint = decoder.run(&mut source, &mut target);
                    (target.pos(), (hint, target.pos() == target.capacity()))
                }
            });
            let consumed = source.pos();
            let hint = hint.map_err(|error| self.damage(&error))?;
            *input = input.get(consumed..).unwrap_or_default();
            if consumed == 0 && out.len() == before {
                self.may_hold_output = false;
                return Ok(());
            }
            let frame_ended = hint == 0;
            self.between = frame_ended;
            self.frames_ended |= frame_ended;
            self.may_hold_output = !frame_ended && filled;
        }
        Ok(())
    }

    /// The texts are zstd's own names of its error codes (`ZSTD_getErrorName`), all that the crate hands on.
    fn damage(&self, error: &std::io::Error) -> Damage {
        let name = error.to_string();
        if name.contains("Unknown frame descriptor") && self.frames_ended {
            Damage::TrailingGarbage(Packing::Zstd)
        } else if name.contains("doesn't match checksum") {
            Damage::BadChecksum(Packing::Zstd)
        } else if name.contains("requires too much memory") {
            Damage::WindowTooLarge
        } else {
            Damage::Corrupt(Packing::Zstd)
        }
    }
}
