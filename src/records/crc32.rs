//! CRC-32 as gzip has it (RFC 1952), by the widest instructions that the processor has.

use crc_fast::{CrcAlgorithm, Digest};

/// A CRC-32 on its way (CRC-32/ISO-HDLC; check value `CBF43926` for `123456789`).
pub struct Crc32 {
    digest: Digest,
    bytes: u64,
}

impl Crc32 {
    /// The checksum of no bytes.
    #[must_use]
    pub fn new() -> Crc32 {
        Crc32 { digest: Digest::new(CrcAlgorithm::Crc32IsoHdlc), bytes: 0 }
    }

    /// Goes on with `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The checksum.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "32 bits are all that it has")]
    pub fn sum(&self) -> u32 {
        self.digest.finalize() as u32
    }

    /// How many bytes it covers, modulo 2^32 as in a gzip trailer.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the modulus is meant")]
    pub fn amount(&self) -> u32 {
        self.bytes as u32
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        *self = Crc32::new();
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_catalogued_check_value() {
        let mut crc = Crc32::new();
        crc.update(b"1234");
        crc.update(b"56789");
        assert_eq!((crc.sum(), crc.amount()), (0xCBF4_3926, 9));
        crc.reset();
        assert_eq!((crc.sum(), crc.amount()), (0, 0));
    }
}
