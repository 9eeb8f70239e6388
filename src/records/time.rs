//! The times that a record may carry: the stated list of CONTRACT §3, exactly, in microseconds since 1970 and without floats.

const MICROS_A_SECOND: i64 = 1_000_000;
const SECONDS_A_DAY: i64 = 86_400;

/// 9999-01-01T00:00:00Z: years 1970 to 9998 are good, so that a day's end is always a day too.
const FIRST_REFUSED: i64 = 253_370_764_800 * MICROS_A_SECOND;

/// The instant that a text names, in microseconds since 1970; `None` when it is not on the list or outside 1970 to 9998.
///
/// The list: RFC 3339 (`T`, `t` or a space before the time) with `Z`, `z`, ` UTC`, `+08:00`, `+0530`, `+08`, or no offset, which means
/// UTC too; up to nine fraction digits, cut to micros and never rounded; a bare date, which is its midnight; second 60, which counts as
/// 59.999999 whatever its fraction; and digit strings of exactly 10, 13, 16 or 19 digits, which are epoch as in [`parse_number`].
/// White space around is not part of a time. Hour 24 is refused.
#[must_use]
pub fn parse_text(text: &[u8]) -> Option<i64> {
    let Some((date_and_time, rest)) = text.split_first_chunk::<19>() else {
        return parse_short(text);
    };
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T' | b't' | b' ', h0, h1, b':', n0, n1, b':', s0, s1] = *date_and_time
    else {
        return parse_digits(text);
    };
    let days = days_since_1970([y0, y1, y2, y3], [m0, m1], [d0, d1])?;
    let (hour, minute, second) = (two_digits(h0, h1)?, two_digits(n0, n1)?, two_digits(s0, s1)?);
    let (fraction, offset) = parse_fraction(rest)?;
    let offset_seconds = parse_offset(offset)?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (second, fraction) = if second == 60 { (59, MICROS_A_SECOND - 1) } else { (second, fraction) };
    let seconds = days * SECONDS_A_DAY + hour * 3600 + minute * 60 + second - offset_seconds;
    in_range(seconds * MICROS_A_SECOND + fraction)
}

/// The instant that a JSON number names, in microseconds since 1970; `None` when it is negative, 0, not a number, or after 9998.
///
/// The unit follows from the size: below 1e11 seconds, below 1e14 milliseconds, below 1e17 microseconds, else nanoseconds. Fractions
/// and exponents are read digit by digit, and what is below a microsecond is cut; a number that is 0 after the cut is refused as 0 is.
#[must_use]
pub fn parse_number(text: &str) -> Option<i64> {
    let text = text.as_bytes();
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.split_first() {
        Some((b'.', rest)) => {
            let (fraction, rest) = split_digits(rest);
            (non_empty(fraction)?, rest)
        }
        _ => (&[][..], rest),
    };
    let exponent = match rest.split_first() {
        None => 0,
        Some((b'e' | b'E', exponent)) => parse_exponent(exponent)?,
        Some(_) => return None,
    };
    let leading_zero = matches!(non_empty(whole)?, [b'0', _, ..]);
    if leading_zero {
        return None;
    }
    epoch_micros(whole, fraction, exponent)
}

/// `micros` since 1970 as RFC 3339 in UTC with all six fraction digits: `2024-03-14T23:59:59.999000Z`.
///
/// Years outside 0 to 9999, which only staged Parquet can hold, get a sign and as many digits as they need (ISO 8601, expanded).
#[must_use]
pub fn format_rfc3339_micros(micros: i64) -> String {
    let seconds = micros.div_euclid(MICROS_A_SECOND);
    let (year, month, day) = date_of(seconds.div_euclid(SECONDS_A_DAY));
    let of_day = seconds.rem_euclid(SECONDS_A_DAY);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let fraction = micros.rem_euclid(MICROS_A_SECOND);
    let year = if (0..=9999).contains(&year) { format!("{year:04}") } else { format!("{year:+05}") };
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
}

/// A bare date, or a digit string that is shorter than a date and a time.
fn parse_short(text: &[u8]) -> Option<i64> {
    if let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text {
        return in_range(days_since_1970([y0, y1, y2, y3], [m0, m1], [d0, d1])? * SECONDS_A_DAY * MICROS_A_SECOND);
    }
    parse_digits(text)
}

fn parse_digits(text: &[u8]) -> Option<i64> {
    let all_digits = text.iter().all(u8::is_ascii_digit);
    if all_digits && matches!(text.len(), 10 | 13 | 16 | 19) { epoch_micros(text, &[], 0) } else { None }
}

fn in_range(micros: i64) -> Option<i64> {
    (0..FIRST_REFUSED).contains(&micros).then_some(micros)
}

fn digit(byte: u8) -> Option<i64> {
    let value = byte.wrapping_sub(b'0');
    (value < 10).then_some(i64::from(value))
}

fn two_digits(tens: u8, ones: u8) -> Option<i64> {
    Some(digit(tens)? * 10 + digit(ones)?)
}

/// The micros of a fraction (0 without one) and what comes after it.
fn parse_fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', text)) = text.split_first() else { return Some((0, text)) };
    let (digits, rest) = split_digits(text);
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    let six_digits = digits.iter().copied().chain(std::iter::repeat(b'0')).take(6);
    Some((six_digits.fold(0, |micros, byte| micros * 10 + i64::from(byte - b'0')), rest))
}

/// Seconds east of UTC.
fn parse_offset(text: &[u8]) -> Option<i64> {
    let (sign, [h0, h1], [m0, m1]) = match *text {
        [] | [b'Z' | b'z'] | [b' ', b'U', b'T', b'C'] => return Some(0),
        [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] | [sign @ (b'+' | b'-'), h0, h1, m0, m1] => (sign, [h0, h1], [m0, m1]),
        [sign @ (b'+' | b'-'), h0, h1] => (sign, [h0, h1], [b'0', b'0']),
        _ => return None,
    };
    let (hours, minutes) = (two_digits(h0, h1)?, two_digits(m0, m1)?);
    let seconds = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
    Some(if sign == b'-' { -seconds } else { seconds })
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar; `None` when there is no such date.
fn days_since_1970([y0, y1, y2, y3]: [u8; 4], [m0, m1]: [u8; 2], [d0, d1]: [u8; 2]) -> Option<i64> {
    let year = two_digits(y0, y1)? * 100 + two_digits(y2, y3)?;
    let (month, day) = (two_digits(m0, m1)?, two_digits(d0, d1)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    if day == 0 || day > last {
        return None;
    }
    // Years that begin in March put the leap day last, so that the months' lengths follow one formula.
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = march_year.div_euclid(4) - march_year.div_euclid(100) + march_year.div_euclid(400);
    Some(march_year * 365 + leap_days + (march_month * 153 + 2) / 5 + day - 1 - DAYS_FROM_MARCH_0_TO_1970)
}

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_FROM_MARCH_0_TO_1970: i64 = 719_468;

/// Year, month and day of month, `days` after 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    const DAYS_IN_400_YEARS: i64 = 146_097;
    let days = days + DAYS_FROM_MARCH_0_TO_1970;
    let (era, of_era) = (days.div_euclid(DAYS_IN_400_YEARS), days.rem_euclid(DAYS_IN_400_YEARS));
    // Every 4th year has a day more (1460 days before it), every 100th not (36524), the 400th again (146096).
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (year_of_era * 365 + year_of_era / 4 - year_of_era / 100);
    let march_month = (of_year * 5 + 2) / 153;
    let day = of_year - (march_month * 153 + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn non_empty(digits: &[u8]) -> Option<&[u8]> {
    (!digits.is_empty()).then_some(digits)
}

/// The power of ten after an `e`, held within bounds that are far beyond any time.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    let value =
        non_empty(digits)?.iter().try_fold(0_i64, |value, byte| Some(value.saturating_mul(10).saturating_add(digit(*byte)?)))?;
    Some(if negative { -value } else { value })
}

/// `whole.fraction` times ten to the `exponent`, as an epoch whose unit follows from its size, cut to micros.
fn epoch_micros(whole: &[u8], fraction: &[u8], exponent: i64) -> Option<i64> {
    let digits = || whole.iter().chain(fraction).copied();
    let leading_zeros = digits().position(|byte| byte != b'0')?;
    // The number is 0.DIGITS times ten to the `magnitude`, the first digit not 0: so it is at least 1eN exactly if `magnitude` > N.
    let magnitude = exponent.saturating_add(i64::try_from(whole.len()).ok()?).saturating_sub(i64::try_from(leading_zeros).ok()?);
    let to_micros = match magnitude {
        ..=11 => 6,
        12..=14 => 3,
        15..=17 => 0,
        _ => -3,
    };
    // 18 digits hold every good instant, and an i64 holds 18 digits.
    let length = usize::try_from(magnitude.saturating_add(to_micros)).ok().filter(|length| *length <= 18)?;
    let kept = digits().skip(leading_zeros).chain(std::iter::repeat(b'0')).take(length);
    let micros = kept.fold(0_i64, |micros, byte| micros * 10 + i64::from(byte - b'0'));
    in_range(micros).filter(|micros| *micros > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `2024-03-14T10:00:00Z`.
    const TEN: i64 = 1_710_410_400_000_000;

    fn text(text: &str) -> Option<i64> {
        parse_text(text.as_bytes())
    }

    #[test]
    fn every_form_on_the_list_is_the_same_utc_instant() {
        for form in [
            "2024-03-14T10:00:00Z",
            "2024-03-14t10:00:00z",
            "2024-03-14 10:00:00",
            "2024-03-14T10:00:00",
            "2024-03-14 10:00:00 UTC",
            "2024-03-14 10:00:00.0 UTC",
            "2024-03-14T10:00:00.000000000Z",
            "2024-03-14T18:00:00+08:00",
            "2024-03-14T18:00:00+08",
            "2024-03-14T15:30:00+0530",
            "2024-03-14T15:30:00+05:30",
            "2024-03-14T00:15:00-09:45",
            "2024-03-14T10:00:00-00:00",
            "2024-03-15T09:59:00+23:59",
            "1710410400",
            "1710410400000",
            "1710410400000000",
            "1710410400000000000",
        ] {
            assert_eq!(text(form), Some(TEN), "{form}");
        }
    }

    #[test]
    fn fractions_are_cut_to_micros_and_never_rounded() {
        for (form, micros) in [
            ("2024-03-14T10:00:00.1Z", 100_000),
            ("2024-03-14T10:00:00.123", 123_000),
            ("2024-03-14T10:00:00.000001Z", 1),
            ("2024-03-14T10:00:00.0000009Z", 0),
            ("2024-03-14T10:00:00.999999999+00:00", 999_999),
            ("2024-03-14 10:00:00.5 UTC", 500_000),
        ] {
            assert_eq!(text(form), Some(TEN + micros), "{form}");
        }
        assert_eq!(text("2024-03-14T10:00:00.1234567890Z"), None, "ten digits");
    }

    #[test]
    fn a_bare_date_is_its_midnight_and_second_60_stays_in_its_minute() {
        assert_eq!(text("2024-03-14"), Some(TEN - 36_000_000_000));
        assert_eq!(text("1970-01-01"), Some(0));
        assert_eq!(text("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(text("2016-12-31T23:59:60Z"), Some(1_483_228_799_999_999));
        assert_eq!(text("2016-12-31T23:59:60.25Z"), Some(1_483_228_799_999_999));
        assert_eq!(text("2017-01-01T08:59:60+09:00"), Some(1_483_228_799_999_999));
        assert_eq!(text("2024-02-29T00:00:00Z"), Some(1_709_164_800_000_000));
    }

    #[test]
    fn the_years_1970_to_9998_hold_after_the_offset() {
        assert_eq!(text("1969-12-31T23:30:00-01:00"), Some(1_800_000_000));
        assert_eq!(text("1970-01-01T00:30:00+01:00"), None);
        assert_eq!(text("9999-01-01T00:30:00+01:00"), Some(FIRST_REFUSED - 1_800_000_000));
        assert_eq!(text("9998-12-31T23:59:59.999999999Z"), Some(FIRST_REFUSED - 1));
        assert_eq!(text("9998-12-31T23:30:00-01:00"), None);
        for year in ["0000-01-01", "0001-01-01T00:00:00Z", "1969-12-31", "9999-12-31T23:59:59Z", "9999-01-01"] {
            assert_eq!(text(year), None, "{year}");
        }
    }

    #[test]
    fn what_is_not_on_the_list_is_refused() {
        for form in [
            "",
            "soon",
            "null",
            "0000-00-00T00:00:00Z",
            "2024-03-14T24:00:00Z",
            "2024-03-14T10:60:00Z",
            "2024-03-14T10:00:61Z",
            "2024-00-14",
            "2024-13-14",
            "2024-03-00",
            "2024-03-32",
            "2024-04-31",
            "2023-02-29",
            "1900-02-29",
            "2100-02-29T00:00:00Z",
            "2024-3-14",
            "2024-03-14T10:00",
            "2024-03-14T10:00Z",
            "2024-03-14T",
            "2024-03-14Z",
            "2024-03-14_10:00:00Z",
            "2024-03-14  10:00:00Z",
            "2024/03/14 10:00:00",
            "2024-03-14T10:00:00.Z",
            "2024-03-14T10:00:00,5Z",
            "2024-03-14T10:00:00 ",
            "2024-03-14T10:00:00 Z",
            "2024-03-14T10:00:00 utc",
            "2024-03-14T10:00:00UTC",
            "2024-03-14T10:00:00 UTC ",
            "2024-03-14T10:00:00+8",
            "2024-03-14T10:00:00+8:00",
            "2024-03-14T10:00:00+24:00",
            "2024-03-14T10:00:00+08:60",
            "2024-03-14T10:00:00 +08:00",
            "2024-03-14T10:00:00+08:00:00",
            " 2024-03-14T10:00:00Z",
            "+2024-03-14T10:00:00Z",
            "20240314T100000Z",
            "2024-03-14T1O:00:00Z",
            "2024-W11-4T10:00:00Z",
            "Thu, 14 Mar 2024 10:00:00 GMT",
            "0000000000",
            "0000000000000000000",
            "171041040",
            "17104104000",
            "1710410400.5",
            "-171041040",
            "17104104000000000000",
            "９９９９",
        ] {
            assert_eq!(text(form), None, "{form}");
        }
    }

    #[test]
    fn a_numbers_unit_follows_from_its_size() {
        for (number, micros) in [
            ("1710410400", TEN),
            ("1710410400123", TEN + 123_000),
            ("1710410400123456", TEN + 123_456),
            ("1710410400123456789", TEN + 123_456),
            ("1710410400.5", TEN + 500_000),
            ("1710410400.9999999", TEN + 999_999),
            ("1710410400123.4567", TEN + 123_456),
            ("1710410400000000.9", TEN),
            ("1.7104104e9", TEN),
            ("1.7104104E+9", TEN),
            ("17104104000e-1", TEN),
            ("1710410400000000000e0", TEN),
            ("1", 1_000_000),
            ("0.000001", 1),
            ("99999999999", 99_999_999_999_000_000),
            ("99999999999.9999999", 99_999_999_999_999_999),
            ("100000000000", 100_000_000_000_000),
            ("1e11", 100_000_000_000_000),
            ("99999999999999", 99_999_999_999_999_000),
            ("100000000000000", 100_000_000_000_000),
            ("99999999999999999", 99_999_999_999_999_999),
            ("100000000000000000", 100_000_000_000_000),
            ("9223372036854775807", 9_223_372_036_854_775),
            ("9999999999999999999", 9_999_999_999_999_999),
            ("253370764799999999999", FIRST_REFUSED - 1),
        ] {
            assert_eq!(parse_number(number), Some(micros), "{number}");
        }
    }

    #[test]
    fn negative_numbers_zero_and_what_is_no_number_are_refused() {
        for number in [
            "0",
            "-0",
            "0.0",
            "0e99",
            "0.0000001",
            "-1",
            "-1710410400",
            "253370764800000000000",
            "1e22",
            "1e400",
            "1e99999999999999999999",
            "1e-99999999999999999999",
            "",
            ".5",
            "5.",
            "1e",
            "1e+",
            "01710410400",
            "+1710410400",
            "0x65",
            "NaN",
            "Infinity",
            "1710410400 ",
            "1_710_410_400",
        ] {
            assert_eq!(parse_number(number), None, "{number}");
        }
    }

    #[test]
    fn times_are_written_in_utc_with_all_six_digits() {
        for (micros, written) in [
            (TEN, "2024-03-14T10:00:00.000000Z"),
            (TEN + 5, "2024-03-14T10:00:00.000005Z"),
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999999Z"),
            (-62_167_219_200_000_000, "0000-01-01T00:00:00.000000Z"),
            (-62_167_219_200_000_001, "-0001-12-31T23:59:59.999999Z"),
            (253_402_300_800_000_000, "+10000-01-01T00:00:00.000000Z"),
            (i64::MAX, "+294247-01-10T04:00:54.775807Z"),
            (i64::MIN, "-290308-12-21T19:59:05.224192Z"),
        ] {
            assert_eq!(format_rfc3339_micros(micros), written);
        }
    }

    proptest! {
        #[test]
        fn every_good_instant_agrees_with_the_time_crate(micros in 0..FIRST_REFUSED, offset in -1439_i64..1440) {
            let there = ::time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000).unwrap();
            let utc = format!("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", there.year(), u8::from(there.month()), there.day(),
                there.hour(), there.minute(), there.second(), there.microsecond());
            prop_assert_eq!(parse_text(utc.as_bytes()), Some(micros));
            prop_assert_eq!(format_rfc3339_micros(micros), utc);
            let Some(here) = there.checked_add(::time::Duration::minutes(offset)).filter(|here| (0..=9999).contains(&here.year())) else {
                return Ok(());
            };
            let (sign, minutes) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
            let colon = if offset % 2 == 0 { ":" } else { "" };
            let local = format!("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:09}{sign}{:02}{colon}{:02}", here.year(), u8::from(here.month()),
                here.day(), here.hour(), here.minute(), here.second(), here.nanosecond() + 999, minutes / 60, minutes % 60);
            prop_assert_eq!(parse_text(local.as_bytes()), Some(micros), "{}", local);
        }

        #[test]
        fn a_date_is_good_exactly_if_the_time_crate_has_it(year in 0_i32..10_000, month in 0_u8..20, day in 0_u8..40) {
            let theirs = ::time::Month::try_from(month).ok().and_then(|month| ::time::Date::from_calendar_date(year, month, day).ok());
            let theirs = theirs.filter(|date| (1970..=9998).contains(&date.year()))
                .map(|date| date.midnight().assume_utc().unix_timestamp() * MICROS_A_SECOND);
            prop_assert_eq!(parse_text(format!("{year:04}-{month:02}-{day:02}").as_bytes()), theirs);
            prop_assert_eq!(parse_text(format!("{year:04}-{month:02}-{day:02}T00:00:00").as_bytes()), theirs);
        }

        #[test]
        fn whole_numbers_are_read_as_a_wide_integer_reads_them(number in prop_oneof![any::<u64>().prop_map(u128::from), 1_u128..1 << 90,
            1_u128..300_000_000_000]) {
            let nanos = match number {
                ..100_000_000_000 => number * 1_000_000_000,
                100_000_000_000..100_000_000_000_000 => number * 1_000_000,
                100_000_000_000_000..100_000_000_000_000_000 => number * 1_000,
                _ => number,
            };
            let expected = i64::try_from(nanos / 1000).ok().filter(|micros| (1..FIRST_REFUSED).contains(micros));
            prop_assert_eq!(parse_number(&number.to_string()), expected);
            prop_assert_eq!(parse_number(&format!("{number}00e-2")), expected);
            prop_assert_eq!(parse_number(&format!("{number}.000")), expected);
        }

        #[test]
        fn no_text_panics_and_every_instant_can_be_written(bytes in prop::collection::vec(any::<u8>(), 0..40),
            near in "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt _][0-9]{2}:[0-9]{2}:[0-9]{2}[.0-9+:ZUTC -]{0,14}", number in "[0-9.eE+-]{0,30}",
            micros in any::<i64>()) {
            for micros in [parse_text(&bytes), parse_text(near.as_bytes()), parse_number(&number)].into_iter().flatten() {
                prop_assert!((0..FIRST_REFUSED).contains(&micros));
            }
            prop_assert!(format_rfc3339_micros(micros).ends_with('Z'));
        }
    }
}
