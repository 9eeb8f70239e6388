//! JSON numbers as columns hold them: exactly, or not at all.

/// The value of a JSON number if it is a whole number within 64 signed bits, however it is written (`12`, `6.7E8`, `1.0`, `-0`).
#[inline]
#[must_use]
pub fn exact_int64(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.len() <= 18 {
        let mut value: i64 = 0;
        for &byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return exact_int64_of_any_form(text);
            }
            value = value * 10 + i64::from(digit);
        }
        return Some(if digits.len() == text.len() { value } else { -value });
    }
    exact_int64_of_any_form(text)
}

/// The digits of a number without its sign, dot and exponent, and the power of ten that they are multiplied by.
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    fn parse(text: &[u8]) -> Option<Decimal> {
        let text = std::str::from_utf8(text).ok()?;
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            // An exponent that no i64 holds is as good as the largest: nothing is that large or small and not zero.
            Some((mantissa, exponent)) => {
                let huge = if exponent.starts_with('-') { i64::MIN / 4 } else { i64::MAX / 4 };
                (mantissa, exponent.parse::<i64>().unwrap_or(huge).clamp(i64::MIN / 4, i64::MAX / 4))
            }
            None => (text, 0),
        };
        let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let mut exponent = exponent - i64::try_from(fraction.len()).ok()?;
        while digits.last() == Some(&b'0') {
            digits.pop();
            exponent += 1;
        }
        let leading = digits.iter().take_while(|&&digit| digit == b'0').count();
        digits.drain(..leading);
        if digits.is_empty() {
            exponent = 0;
        }
        Some(Decimal { negative, digits, exponent })
    }

    fn is_whole(&self) -> bool {
        self.exponent >= 0
    }
}

#[cold]
fn exact_int64_of_any_form(text: &[u8]) -> Option<i64> {
    let decimal = Decimal::parse(text)?;
    if !decimal.is_whole() || decimal.digits.len() > 19 || decimal.exponent > 19 {
        return None;
    }
    let mut value: i128 = 0;
    for digit in &decimal.digits {
        value = value * 10 + i128::from(digit - b'0');
    }
    value = value.checked_mul(10_i128.checked_pow(u32::try_from(decimal.exponent).ok()?)?)?;
    i64::try_from(if decimal.negative { -value } else { value }).ok()
}

/// The double that a double column holds for a JSON number, or `None` where that would lose something: a number beyond the doubles
/// (`1e400`), and a whole number that is not exact in a double.
///
/// A fraction becomes the nearest double, as JSON's readers take it. A whole number written with a dot or an exponent (`1e30`) is kept when
/// the double's own shortest text has the same value.
#[inline]
#[must_use]
pub fn exact_double(text: &[u8]) -> Option<f64> {
    if let Some(value) = short_decimal(text) {
        return Some(value);
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    if !value.is_finite() {
        return None;
    }
    const ALL_EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
    if value.abs() < ALL_EXACT_BELOW {
        return Some(value);
    }
    large_whole_number(text, value).then_some(value)
}

/// The double nearest to a number of at most 15 digits without an exponent.
///
/// Its digits and the power of ten that divides them are exact doubles, so that their quotient is rounded once, and correctly (Clinger 1990).
#[inline]
pub(crate) fn short_decimal(text: &[u8]) -> Option<f64> {
    const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    if unsigned.len() > 16 {
        return None;
    }
    let (mut fraction, mut count) = (0_usize, 0_usize);
    let mut value = 0_u64;
    let mut has_point = false;
    for &byte in unsigned {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + u64::from(digit);
            count += 1;
            fraction += usize::from(has_point);
        } else if byte == b'.' && !has_point {
            has_point = true;
        } else {
            return None;
        }
    }
    if count == 0 || count > 15 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "15 digits are fewer than 53 bits hold")]
    let value = value as f64 / POWERS.get(fraction)?;
    Some(if unsigned.len() < text.len() { -value } else { value })
}

/// Whether a JSON number has a fraction (and is one that a double can hold at all).
#[must_use]
pub fn is_fraction(text: &[u8]) -> bool {
    Decimal::parse(text).is_some_and(|decimal| !decimal.is_whole()) && exact_double(text).is_some()
}

#[cold]
fn large_whole_number(text: &[u8], value: f64) -> bool {
    let Some(written) = Decimal::parse(text) else { return false };
    if !written.is_whole() {
        return true;
    }
    let plain = !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    // `{:.0}` prints every digit of the double's exact value, `{:e}` the shortest text that reads back as it.
    let shown = if plain { format!("{value:.0}") } else { format!("{value:e}") };
    Decimal::parse(shown.as_bytes()).is_some_and(|held| held.digits == written.digits && held.exponent == written.exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_exact_however_they_are_written() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("-0.0", 0),
            ("0e99999999999999999999", 0),
            ("1.0", 1),
            ("6.7E8", 670_000_000),
            ("1e3", 1000),
            ("120e-1", 12),
            ("9007199254740993", 9_007_199_254_740_993),
            ("1710410400123456789", 1_710_410_400_123_456_789),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("9223372036854775807.000", i64::MAX),
            ("000000000000000000000".get(..1).unwrap(), 0),
        ] {
            assert_eq!(exact_int64(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "1.5",
            "1e-1",
            "9223372036854775808",
            "-9223372036854775809",
            "1e19",
            "1e400",
            "123456789012345678901",
            "1e99999999999999999999",
        ] {
            assert_eq!(exact_int64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_double_column_holds_the_nearest_double_of_a_fraction_and_only_exact_whole_numbers() {
        for (text, value) in [
            ("0.1", 0.1),
            ("10.50", 10.5),
            ("5e-324", 5e-324),
            ("1.7976931348623157e308", f64::MAX),
            ("9007199254740992", 9_007_199_254_740_992.0),
            ("9007199254740991.0", 9_007_199_254_740_991.0),
            ("18014398509481984", 18_014_398_509_481_984.0),
            ("1e30", 1e30),
            ("-7", -7.0),
        ] {
            assert_eq!(exact_double(text.as_bytes()).map(f64::to_bits), Some(value.to_bits()), "{text}");
        }
        for text in ["1e400", "-1e400", "9007199254740993", "-9007199254740993", "9007199254740993.0", "100000000000000000000000"]
        {
            assert_eq!(exact_double(text.as_bytes()), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_short_decimal_is_the_nearest_double(whole in 0_u64..100_000_000, fraction in "[0-9]{0,9}", negative: bool) {
            let sign = if negative { "-" } else { "" };
            let point = if fraction.is_empty() { "" } else { "." };
            let text = format!("{sign}{whole}{point}{fraction}");
            let parsed = text.parse::<f64>().unwrap();
            proptest::prop_assert_eq!(exact_double(text.as_bytes()).map(f64::to_bits), Some(parsed.to_bits()), "{}", text);
        }
    }
}
