//! Unpacks one staged object as its bytes arrive: gzip, zstd or plain, told by the bytes; finds damage and holds the limits.

mod gzip;
mod zstandard;

use std::fmt;

use self::gzip::Gzip;
use self::zstandard::Zstd;

/// How many bytes tell what an object is; no packing's magic number is longer.
const MAGIC_BYTES: usize = 4;
/// An object may be packed so many times.
const MAX_WRAPPINGS: usize = 2;
/// Bytes between the two unpackers of a doubly packed object.
const BETWEEN_BYTES: usize = 64 * 1024;
/// Up to here an object may unpack whatever the ratio: the smallest ones are all header.
const RATIO_FREE_BYTES: u64 = 1024 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What one object may unpack to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// The most bytes, at either of two wrappings.
    pub max_object_bytes: u64,
    /// The most unpacked bytes per staged byte of the whole object; not held against the first MiB.
    pub max_ratio: u64,
}

/// What a staged object is, seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Lines of JSON, or nothing.
    Plain,
    /// One or more gzip members (RFC 1952).
    Gzip,
    /// One or more zstd frames (RFC 8878).
    Zstd,
    /// Begins with `PAR1`: Parquet, which needs another reader; its bytes are passed through as they are.
    Parquet,
}

/// A packing that can be unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        })
    }
}

/// Why an object can't be read; the whole object is held back, because what was read of it before may be wrong too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It ends within a magic number, a member or a frame.
    Truncated(Packing),
    /// A header, a block or a frame breaks its format, or asks for a dictionary. Which of them is not said: the libraries' words depend
    /// on how the bytes were cut into pushes.
    Corrupt(Packing),
    /// The unpacked bytes are not those that were packed: CRC-32, length or XXH64 differ.
    BadChecksum(Packing),
    /// After the last member or frame comes something else (gzip may be padded with zero bytes).
    TrailingGarbage(Packing),
    /// A zstd frame asks for a window of more than 128 MiB.
    WindowTooLarge,
    /// Packed more than twice.
    TooManyWrappings,
    /// Parquet inside gzip or zstd.
    PackedParquet,
    /// Parquet that breaks its format or a limit; what is wrong, in words that go after "its Parquet".
    Parquet(String),
    /// Unpacks to more than `max_object_bytes`.
    OverObjectBytes {
        /// The limit.
        max_object_bytes: u64,
    },
    /// Unpacks to more than `max_ratio` times its staged size.
    OverRatio {
        /// The limit.
        max_ratio: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Truncated(packing) => write!(f, "its {packing} ends in the middle, stage the whole object again"),
            Damage::Corrupt(packing) => write!(f, "its {packing} is corrupt, stage it again"),
            Damage::BadChecksum(packing) => write!(f, "its {packing} checksum is wrong, stage it again"),
            Damage::TrailingGarbage(packing) => write!(f, "after its {packing} come other bytes, stage it without them"),
            Damage::WindowTooLarge => f.write_str("its zstd window is over 128 MiB, pack it without `--long`"),
            Damage::TooManyWrappings => f.write_str("it is packed more than twice, stage it packed once"),
            Damage::PackedParquet => f.write_str("it is Parquet inside gzip or zstd, stage the Parquet file itself"),
            Damage::Parquet(what) => write!(f, "its Parquet {what}"),
            Damage::OverObjectBytes { max_object_bytes } => {
                write!(
                    f,
                    "it unpacks to more than `{max_object_bytes}` bytes, stage smaller objects or raise `staging.max_object_bytes`"
                )
            }
            Damage::OverRatio { max_ratio } => {
                write!(f, "it unpacks to more than `{max_ratio}` times its size, raise `staging.max_ratio` if that is meant")
            }
        }
    }
}

impl std::error::Error for Damage {}

/// What one [`Decoder::push`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How many of the pushed bytes were used; the rest is to be pushed again once there is room.
    pub consumed: usize,
}

/// Unpacks one object: staged bytes are pushed in as they come, unpacked bytes are appended to the caller's buffer.
///
/// Guarantees: all members and frames are read, at most two wrappings are taken off, a byte order mark at the start of what comes
/// out is dropped once, and nothing that is cut short or changed passes as whole. The bytes and the verdict depend on the object
/// alone, never on how it was cut into pushes. Memory stays under 200 KiB for gzip and the frame's window (at most 128 MiB) for zstd.
///
/// An object that ends within a magic number is truncated, even where those few bytes could be text: `(` alone, for one.
pub struct Decoder {
    cap: Cap,
    layers: Vec<Layer>,
    phase: Phase,
    head: Vec<u8>,
    kind: Option<Kind>,
    plain_bytes: u64,
    byte_order_mark: bool,
    damage: Option<Damage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// `head` gathers the first bytes of what the layers so far give.
    Telling,
    /// What comes out is content; `head` is still to be handed out.
    Head,
    Content,
}

impl Decoder {
    /// A decoder for one object of `staged_bytes` bytes (its listed size, which the ratio is counted against).
    #[must_use]
    pub fn new(limits: DecodeLimits, staged_bytes: u64) -> Decoder {
        Decoder {
            cap: Cap::new(limits, staged_bytes),
            layers: Vec::new(),
            phase: Phase::Telling,
            head: Vec::new(),
            kind: None,
            plain_bytes: 0,
            byte_order_mark: false,
            damage: None,
        }
    }

    /// Takes staged bytes and appends what they unpack to, until `out` holds `out_limit` bytes or `input` is used up.
    ///
    /// `out` never grows beyond `out_limit`. When all is consumed and `out` is full, there may be more to come out: from the next
    /// push, or from [`Decoder::finish`]. Fastest when `out` has a capacity of exactly `out_limit`.
    ///
    /// # Errors
    /// The object's [`Damage`], then and from then on.
    pub fn push(&mut self, input: &[u8], out: &mut Vec<u8>, out_limit: usize) -> Result<Progress, Damage> {
        let mut rest = input;
        self.advance(&mut rest, out, out_limit, false)?;
        Ok(Progress { consumed: input.len() - rest.len() })
    }

    /// Says that no bytes follow; appends what is still to come out, and answers whether that was all. If not, `out` is full: call again.
    ///
    /// # Errors
    /// The object's [`Damage`]; here what is truncated shows.
    pub fn finish(&mut self, out: &mut Vec<u8>, out_limit: usize) -> Result<bool, Damage> {
        self.advance(&mut &[][..], out, out_limit, true)?;
        if self.phase != Phase::Content || out.len() >= out_limit {
            return Ok(false);
        }
        match self.layers.iter().find(|layer| !layer.is_between()) {
            Some(layer) => Err(self.damaged(Damage::Truncated(layer.packing()))),
            None => Ok(true),
        }
    }

    /// What the object is; known once its first four bytes were pushed, or it was finished.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// How many bytes of byte order mark were dropped before the first byte that came out: 3 or 0.
    #[must_use]
    pub fn dropped_bytes(&self) -> u64 {
        if self.byte_order_mark { BYTE_ORDER_MARK.len() as u64 } else { 0 }
    }

    fn advance(&mut self, input: &mut &[u8], out: &mut Vec<u8>, out_limit: usize, end: bool) -> Result<(), Damage> {
        if let Some(damage) = &self.damage {
            return Err(damage.clone());
        }
        self.try_advance(input, out, out_limit, end).map_err(|damage| self.damaged(damage))
    }

    fn damaged(&mut self, damage: Damage) -> Damage {
        self.damage = Some(damage.clone());
        damage
    }

    fn try_advance(&mut self, input: &mut &[u8], out: &mut Vec<u8>, out_limit: usize, end: bool) -> Result<(), Damage> {
        while out.len() < out_limit {
            match self.phase {
                Phase::Telling => {
                    self.plain_bytes += pull(&mut self.layers, input, &mut self.head, MAGIC_BYTES, &self.cap)?;
                    if self.head.len() < MAGIC_BYTES && !end {
                        return Ok(());
                    }
                    self.tell()?;
                }
                Phase::Head => {
                    let room = out_limit - out.len();
                    out.extend(self.head.drain(..room.min(self.head.len())));
                    if self.head.is_empty() {
                        self.phase = Phase::Content;
                    }
                }
                Phase::Content => {
                    self.plain_bytes += pull(&mut self.layers, input, out, out_limit, &self.cap)?;
                    return self.cap.check(self.plain_bytes);
                }
            }
        }
        Ok(())
    }

    /// Decides by `head`, which holds four bytes or all there are, whether there is one more wrapping to take off.
    fn tell(&mut self) -> Result<(), Damage> {
        let magic = Magic::of(&self.head)?;
        let outermost = self.layers.is_empty();
        if outermost {
            self.kind = Some(match magic {
                Magic::Packed(Packing::Gzip) => Kind::Gzip,
                Magic::Packed(Packing::Zstd) => Kind::Zstd,
                Magic::Parquet => Kind::Parquet,
                Magic::Content => Kind::Plain,
            });
        }
        match magic {
            Magic::Packed(_) if self.layers.len() == MAX_WRAPPINGS => return Err(Damage::TooManyWrappings),
            Magic::Packed(packing) => {
                self.plain_bytes = 0;
                self.layers.push(Layer::new(packing, std::mem::take(&mut self.head))?);
                return Ok(());
            }
            Magic::Parquet if !outermost => return Err(Damage::PackedParquet),
            Magic::Parquet | Magic::Content => {}
        }
        if self.head.starts_with(BYTE_ORDER_MARK) {
            self.byte_order_mark = true;
            self.head.drain(..BYTE_ORDER_MARK.len());
        }
        self.phase = Phase::Head;
        Ok(())
    }
}

enum Magic {
    Packed(Packing),
    Parquet,
    Content,
}

impl Magic {
    /// What an object is that begins with `head`, four bytes of it or all that there are.
    fn of(head: &[u8]) -> Result<Magic, Damage> {
        const GZIP: &[u8] = &[0x1F, 0x8B];
        const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
        // RFC 8878, 3.1.2: 16 magic numbers for skippable frames, which may come first.
        const SKIPPABLE: &[u8] = &[0x2A, 0x4D, 0x18];

        let (first, after_first) = head.split_first().map_or((0, head), |(first, rest)| (*first, rest));
        let skippable = (0x50..=0x5F).contains(&first);
        if head.starts_with(GZIP) {
            Ok(Magic::Packed(Packing::Gzip))
        } else if head == ZSTD || (skippable && after_first == SKIPPABLE) {
            Ok(Magic::Packed(Packing::Zstd))
        } else if head == b"PAR1" {
            Ok(Magic::Parquet)
        } else if head.is_empty() {
            Ok(Magic::Content)
        } else if GZIP.starts_with(head) {
            Err(Damage::Truncated(Packing::Gzip))
        } else if ZSTD.starts_with(head) || (skippable && SKIPPABLE.starts_with(after_first)) {
            Err(Damage::Truncated(Packing::Zstd))
        } else {
            Ok(Magic::Content)
        }
    }
}

/// The most bytes that any layer of one object may unpack to: a function of the limits and the staged size alone.
pub(super) struct Cap {
    bytes: u64,
    over: Damage,
}

impl Cap {
    pub(super) fn new(limits: DecodeLimits, staged_bytes: u64) -> Cap {
        let DecodeLimits { max_object_bytes, max_ratio } = limits;
        let by_ratio = staged_bytes.saturating_mul(max_ratio).max(RATIO_FREE_BYTES);
        if max_object_bytes <= by_ratio {
            Cap { bytes: max_object_bytes, over: Damage::OverObjectBytes { max_object_bytes } }
        } else {
            Cap { bytes: by_ratio, over: Damage::OverRatio { max_ratio } }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is wrong with an object that unpacks to more.
    pub(super) fn over(&self) -> Damage {
        self.over.clone()
    }

    fn check(&self, unpacked: u64) -> Result<(), Damage> {
        if unpacked > self.bytes { Err(self.over.clone()) } else { Ok(()) }
    }
}

/// One wrapping: its unpacker and the packed bytes that wait for it.
struct Layer {
    unpacker: Unpacker,
    waiting: Vec<u8>,
    taken: usize,
    unpacked: u64,
}

enum Unpacker {
    Gzip(Box<Gzip>),
    Zstd(Zstd),
}

impl Layer {
    fn new(packing: Packing, waiting: Vec<u8>) -> Result<Layer, Damage> {
        let unpacker = match packing {
            Packing::Gzip => Unpacker::Gzip(Box::new(Gzip::new())),
            Packing::Zstd => Unpacker::Zstd(Zstd::new()?),
        };
        Ok(Layer { unpacker, waiting, taken: 0, unpacked: 0 })
    }

    fn packing(&self) -> Packing {
        match self.unpacker {
            Unpacker::Gzip(_) => Packing::Gzip,
            Unpacker::Zstd(_) => Packing::Zstd,
        }
    }

    /// Whether the stream may end here: nothing waits, and the last member or frame is complete.
    fn is_between(&self) -> bool {
        let ended = match &self.unpacker {
            Unpacker::Gzip(gzip) => gzip.is_between(),
            Unpacker::Zstd(zstd) => zstd.is_between(),
        };
        ended && self.taken == self.waiting.len()
    }

    fn unpack(&mut self, input: &mut &[u8], out: &mut Vec<u8>, limit: usize, cap: &Cap) -> Result<(), Damage> {
        let before = out.len();
        let result = match &mut self.unpacker {
            Unpacker::Gzip(gzip) => gzip.unpack(input, out, limit),
            Unpacker::Zstd(zstd) => zstd.unpack(input, out, limit),
        };
        self.unpacked += (out.len() - before) as u64;
        cap.check(self.unpacked)?;
        result
    }

    fn unpack_waiting(&mut self, out: &mut Vec<u8>, limit: usize, cap: &Cap) -> Result<(), Damage> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut rest = waiting.get(self.taken..).unwrap_or_default();
        let result = self.unpack(&mut rest, out, limit, cap);
        self.taken = waiting.len() - rest.len();
        self.waiting = waiting;
        result
    }
}

/// Appends to `out`, up to `limit` bytes in it, what the innermost layer gives; without layers, `input` itself. Answers how many
/// bytes were copied unlayered.
fn pull(layers: &mut [Layer], input: &mut &[u8], out: &mut Vec<u8>, limit: usize, cap: &Cap) -> Result<u64, Damage> {
    let Some((inner, outer)) = layers.split_last_mut() else {
        let room = limit.saturating_sub(out.len()).min(input.len());
        let (now, later) = input.split_at_checked(room).unwrap_or((input, &[]));
        out.extend_from_slice(now);
        *input = later;
        return Ok(now.len() as u64);
    };
    loop {
        inner.unpack_waiting(out, limit, cap)?;
        if out.len() >= limit {
            return Ok(0);
        }
        if outer.is_empty() {
            inner.unpack(input, out, limit, cap)?;
            return Ok(0);
        }
        inner.waiting.clear();
        inner.taken = 0;
        pull(outer, input, &mut inner.waiting, BETWEEN_BYTES, cap)?;
        if inner.waiting.is_empty() {
            return Ok(0);
        }
    }
}

/// Where an unpacker writes.
enum Room<'a> {
    /// Beyond the length of the vector, whose capacity is the limit.
    Spare(&'a mut Vec<u8>),
    /// Over these bytes.
    Over(&'a mut [u8]),
}

/// Bytes that are lengthened by, and written over, at a time.
const OVER_BYTES: usize = 64 * 1024;

/// Lets an unpacker append to `out` (which holds fewer than `limit` bytes) within `limit`; `write` also answers how many it wrote.
///
/// A vector of just that capacity is written beyond its length at once; any other is lengthened with zeros first, because spare
/// capacity can't be cut short without unsafe code.
fn append_within<T>(out: &mut Vec<u8>, limit: usize, write: impl FnOnce(Room<'_>) -> (usize, T)) -> T {
    out.reserve_exact(limit - out.len());
    if out.capacity() == limit {
        return write(Room::Spare(out)).1;
    }
    let before = out.len();
    out.resize(limit.min(before + OVER_BYTES), 0);
    let (written, result) = write(Room::Over(out.get_mut(before..).unwrap_or_default()));
    out.truncate(before + written);
    result
}

#[cfg(test)]
mod tests;
