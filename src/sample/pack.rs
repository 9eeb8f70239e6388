//! Packs the lines of one staged object as plain text, gzip or zstd, with several members or frames where asked.

use std::io::{self, Write};

use flate2::write::GzEncoder;

/// How a staged object is packed. A reader must find this out from the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    /// Gzip (RFC 1952) at level 6, in one member.
    Gzip,
    /// Two gzip members; the border lies inside a line.
    GzipMembers,
    /// Zstandard (RFC 8878) at level 3, in one frame.
    Zstd,
    /// Three zstd frames; the borders lie inside lines.
    ZstdFrames,
}

impl Packing {
    /// The packing of the day's object number `index`: a fixed rotation, so that each kind comes early.
    pub(super) fn of_object(index: u64) -> Self {
        match index % 6 {
            0 | 3 => Self::Gzip,
            1 => Self::GzipMembers,
            2 => Self::Zstd,
            4 => Self::Plain,
            _ => Self::ZstdFrames,
        }
    }

    /// The usual end of such an object's name.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Plain => "ndjson",
            Self::Gzip | Self::GzipMembers => "ndjson.gz",
            Self::Zstd | Self::ZstdFrames => "ndjson.zst",
        }
    }

    fn members(self) -> u64 {
        match self {
            Self::Plain | Self::Gzip | Self::Zstd => 1,
            Self::GzipMembers => 2,
            Self::ZstdFrames => 3,
        }
    }
}

/// One staged object that takes lines. The same lines give the same bytes: no time or name goes into a gzip header.
pub(super) struct Packer {
    packing: Packing,
    writer: Writer,
    /// Lines between the starts of two members.
    lines_per_member: u64,
    lines: u64,
}

enum Writer {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Packer {
    /// An object that will hold about `expected_lines` lines; the number decides only where members end.
    pub(super) fn new(packing: Packing, expected_lines: u64) -> io::Result<Self> {
        let lines_per_member = (expected_lines / packing.members()).max(1);
        Ok(Self { packing, writer: Writer::new(packing, Vec::new())?, lines_per_member, lines: 0 })
    }

    /// Adds one line, which brings its own line feed.
    pub(super) fn push(&mut self, line: &[u8]) -> io::Result<()> {
        let is_border = self.lines > 0 && self.lines.is_multiple_of(self.lines_per_member);
        let starts_member = is_border && self.lines / self.lines_per_member < self.packing.members();
        self.lines += 1;
        if !starts_member {
            return self.writer.write_all(line);
        }
        let (head, tail) = line.split_at_checked(line.len() / 2).unwrap_or((line, &[]));
        self.writer.write_all(head)?;
        let done = std::mem::replace(&mut self.writer, Writer::Plain(Vec::new())).finish()?;
        self.writer = Writer::new(self.packing, done)?;
        self.writer.write_all(tail)
    }

    /// The object's bytes.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        self.writer.finish()
    }
}

impl Writer {
    /// A writer whose first byte goes behind those that are there.
    fn new(packing: Packing, bytes: Vec<u8>) -> io::Result<Self> {
        Ok(match packing {
            Packing::Plain => Self::Plain(bytes),
            Packing::Gzip | Packing::GzipMembers => Self::Gzip(GzEncoder::new(bytes, flate2::Compression::new(6))),
            Packing::Zstd | Packing::ZstdFrames => Self::Zstd(zstd::stream::write::Encoder::new(bytes, 3)?),
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(plain) => plain.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(plain) => Ok(plain),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}
