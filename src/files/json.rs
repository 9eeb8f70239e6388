//! One JSON file while it is written: lines in, gzip bytes out.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use crate::domain::error::{Error, Result};

/// An open file: one gzip member (RFC 1952), as every reader takes it, with no name and no time in its header.
///
/// Every block of lines is deflated for itself and ends on a byte (a sync flush, RFC 1951 §3.2.4), so that an open file costs no compressor and
/// equal blocks give equal bytes.
#[derive(Default)]
pub struct JsonFile {
    crc: Crc,
    bytes: Vec<u8>,
    size: u64,
    rows: u64,
}

/// zlib's own default; measured in `benches/RESULTS.md`.
const LEVEL: u32 = 6;

/// ID1 ID2, deflate, no flags, no time, no extra flags, unknown operating system.
const HEADER: [u8; 10] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255];

/// The last block of a deflate stream, empty, with fixed codes.
const LAST_BLOCK: [u8; 2] = [3, 0];

impl JsonFile {
    /// Appends a block of `rows` whole lines.
    pub fn write(&mut self, lines: &[u8], rows: u64) -> Result<()> {
        if self.size == 0 {
            self.append(&HEADER);
        }
        self.crc.update(lines);
        self.rows += rows;
        let before = self.bytes.len();
        deflate(lines, &mut self.bytes)?;
        self.size += (self.bytes.len() - before) as u64;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.size += bytes.len() as u64;
    }

    /// The bytes that are final since the last call.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Bytes of the file so far.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Rows of the file so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the file; its last bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let (crc, amount) = (self.crc.sum(), self.crc.amount());
        self.append(&LAST_BLOCK);
        self.append(&crc.to_le_bytes());
        self.append(&amount.to_le_bytes());
        self.bytes
    }
}

fn deflate(lines: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut compress = Compress::new(Compression::new(LEVEL), false);
    loop {
        let read = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
        out.reserve(lines.len() / 4 + 1024);
        let rest = lines.get(read..).unwrap_or_default();
        let status = compress.compress_vec(rest, out, FlushCompress::Sync);
        let status = status.map_err(|error| Error::bug("deflate failed in memory, please report it").with_source(error))?;
        let read = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
        // A flush is complete once everything is read and there is room left behind it.
        if read == lines.len() && out.len() < out.capacity() {
            return Ok(());
        }
        if status == Status::StreamEnd {
            return Err(Error::bug("deflate ended a stream that goes on, please report it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn blocks_are_one_gzip_member_that_gives_the_lines_back() {
        let mut file = JsonFile::default();
        let mut staged = Vec::new();
        let mut landed = Vec::new();
        for block in 0..5_u32 {
            let lines: String =
                (0..20_000).map(|line| format!("{{\"block\":{block},\"line\":{}}}\n", line * 7919 % 1000)).collect();
            file.write(lines.as_bytes(), 20_000).unwrap();
            staged.extend_from_slice(lines.as_bytes());
            landed.extend(file.take_bytes());
        }
        assert_eq!(file.rows(), 100_000);
        let before_last = file.size();
        landed.extend(file.finish());
        assert_eq!(landed.len() as u64, before_last + 10);
        let mut read = Vec::new();
        flate2::bufread::MultiGzDecoder::new(landed.as_slice()).read_to_end(&mut read).unwrap();
        assert_eq!(read, staged);
        let mut inflate = flate2::Decompress::new(false);
        let mut all = Vec::with_capacity(staged.len() + 1);
        let status = inflate.decompress_vec(&landed[10..], &mut all, flate2::FlushDecompress::Finish).unwrap();
        assert_eq!(status, flate2::Status::StreamEnd);
        assert_eq!(inflate.total_in(), landed.len() as u64 - 18, "one member alone");
    }
}
