//! Bytes as hex digits, the one way in which digests become text.

/// Two lower-case hex digits a byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The lower-case digit of a number below 16.
#[must_use]
pub fn digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_two_lower_case_digits() {
        assert_eq!(hex(&[0x00, 0x0f, 0xa5, 0xff]), "000fa5ff");
        assert_eq!(hex(&[]), "");
    }
}
