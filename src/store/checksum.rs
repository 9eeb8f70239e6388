//! CRC64NVME, the checksum that S3 keeps with every object that Dayport writes.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, Digest};

/// A CRC64NVME on its way (CRC-64/NVME, the full-object algorithm of S3; check value `AE8B14860A799888` for `123456789`).
#[derive(Clone)]
pub struct Crc64Nvme(Digest);

impl Crc64Nvme {
    /// The checksum of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Crc64Nvme(Digest::new(CrcAlgorithm::Crc64Nvme))
    }

    /// The checksum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut checksum = Self::new();
        checksum.update(bytes);
        checksum
    }

    /// Goes on with `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Goes on with the bytes that `next` is the checksum of, without seeing them: parts may be summed apart from each other.
    pub fn combine(&mut self, next: &Crc64Nvme) {
        self.0.combine(&next.0);
    }

    /// The checksum as a number.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.finalize()
    }

    /// How many bytes it covers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.get_amount()
    }

    /// As S3 writes it: base64 of the eight bytes, most significant first.
    #[must_use]
    pub fn base64(&self) -> String {
        STANDARD.encode(self.value().to_be_bytes())
    }
}

impl Default for Crc64Nvme {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Crc64Nvme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crc64Nvme({:016x} of {} bytes)", self.value(), self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue_comes_out() {
        assert_eq!(Crc64Nvme::of(b"123456789").value(), 0xAE8B_1486_0A79_9888);
        assert_eq!(Crc64Nvme::of(b"123456789").base64(), "rosUhgp5mIg=");
        assert_eq!(Crc64Nvme::new().base64(), "AAAAAAAAAAA=");
    }

    #[test]
    fn a_checksum_is_the_same_however_the_bytes_are_cut() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let whole = Crc64Nvme::of(&bytes);
        for cut in [0, 1, 7, 64, 4096, 99_999, 100_000] {
            let (head, tail) = bytes.split_at(cut);
            let mut updated = Crc64Nvme::of(head);
            updated.update(tail);
            assert_eq!(updated.value(), whole.value(), "updated at {cut}");
            let mut combined = Crc64Nvme::of(head);
            combined.combine(&Crc64Nvme::of(tail));
            assert_eq!((combined.value(), combined.bytes()), (whole.value(), 100_000), "combined at {cut}");
            combined.update(b"and on");
            updated.update(b"and on");
            assert_eq!(combined.value(), updated.value(), "goes on after a combine at {cut}");
        }
    }
}
