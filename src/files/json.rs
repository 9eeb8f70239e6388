//! One JSON file while it is written: lines in, gzip bytes out.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::domain::error::{Error, Result};

/// An open file: one gzip member (RFC 1952), as every reader takes it, with no name and no time in its header, so that equal lines give equal
/// bytes.
pub struct JsonFile {
    encoder: GzEncoder<Vec<u8>>,
    taken: u64,
    rows: u64,
}

/// zlib's own default; measured in `benches/RESULTS.md`.
const LEVEL: u32 = 6;

impl Default for JsonFile {
    fn default() -> Self {
        JsonFile { encoder: GzEncoder::new(Vec::new(), Compression::new(LEVEL)), taken: 0, rows: 0 }
    }
}

impl JsonFile {
    /// Appends `rows` whole lines.
    pub fn write(&mut self, lines: &[u8], rows: u64) -> Result<()> {
        self.encoder.write_all(lines).map_err(failed)?;
        self.rows += rows;
        Ok(())
    }

    /// The bytes that are final since the last call.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(self.encoder.get_mut());
        self.taken += bytes.len() as u64;
        bytes
    }

    /// Bytes of the file so far, without what the compressor holds back.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.taken + self.encoder.get_ref().len() as u64
    }

    /// Rows of the file so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the file; its last bytes.
    pub fn finish(self) -> Result<Vec<u8>> {
        self.encoder.finish().map_err(failed)
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::bug("gzip failed in memory, please report it").with_source(error)
}
