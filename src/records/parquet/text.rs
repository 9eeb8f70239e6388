//! A row of Arrow columns as one canonical line of JSON.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, MapArray, PrimitiveArray, StructArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::records::json;

const MICROS_A_DAY: i64 = 86_400_000_000;

/// A row that was longer than is kept.
#[derive(Debug)]
pub(super) struct Long {
    /// Its length.
    pub(super) length: u64,
    /// The SHA-256 of all of it.
    pub(super) sha256: [u8; 32],
}

/// The text of rows, one after the other; of each at most `most_row` bytes are kept, of all together at most `most_in_all` made.
pub(super) struct Text {
    /// The rows, without separators: the caller's to take.
    pub(super) bytes: Vec<u8>,
    start: usize,
    most_row: usize,
    long: Option<(Sha256, u64)>,
    left: u64,
    is_over: bool,
}

impl Text {
    pub(super) fn new(most_row: usize, most_in_all: u64) -> Text {
        Text { bytes: Vec::new(), start: 0, most_row, long: None, left: most_in_all, is_over: false }
    }

    /// Whether more than `most_in_all` bytes were to be made; nothing is made any more then.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Begins a row after what `bytes` holds.
    pub(super) fn begin_row(&mut self) {
        self.start = self.bytes.len();
    }

    /// Ends a row: if it was longer than is kept, what was kept is at the end of `bytes`.
    pub(super) fn end_row(&mut self) -> Option<Long> {
        self.long.take().map(|(digest, length)| Long { length, sha256: digest.finalize().into() })
    }

    fn push(&mut self, text: &[u8]) {
        let length = text.len() as u64;
        self.is_over |= length > self.left;
        if self.is_over {
            return;
        }
        self.left -= length;
        if let Some((digest, all)) = &mut self.long {
            digest.update(text);
            *all += length;
            return;
        }
        self.bytes.extend_from_slice(text);
        let row = self.bytes.get(self.start..).unwrap_or_default();
        if row.len() > self.most_row {
            self.long = Some((Sha256::new_with_prefix(row), row.len() as u64));
            self.bytes.truncate(self.start + self.most_row);
        }
    }

    fn push_string(&mut self, text: &str, scratch: &mut Vec<u8>) {
        scratch.clear();
        json::escape(text, scratch);
        self.push(scratch);
    }
}

/// What the Arrow type of a leaf does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    /// Nothing more.
    Usual,
    /// Sixteen bytes that are a UUID.
    Uuid,
}

type Write<'a> = Box<dyn Fn(usize, &mut Text, &mut Vec<u8>) + 'a>;

/// Writes the rows of one batch.
pub(super) struct Rows<'a> {
    members: Vec<(Vec<u8>, Write<'a>)>,
}

impl<'a> Rows<'a> {
    /// For a batch's columns; `leaves` are those of all of them, in their order. `None` where a type has no JSON form.
    pub(super) fn new(columns: &'a StructArray, leaves: &[Leaf]) -> Option<Rows<'a>> {
        let members = members(columns, &mut leaves.iter().copied())?;
        Some(Rows { members })
    }

    /// Appends a row as an object of all its columns, null ones too.
    pub(super) fn write(&self, row: usize, text: &mut Text, scratch: &mut Vec<u8>) {
        object(&self.members, row, text, scratch);
    }
}

fn object(members: &[(Vec<u8>, Write<'_>)], row: usize, text: &mut Text, scratch: &mut Vec<u8>) {
    text.push(b"{");
    for (key, write) in members {
        text.push(key);
        write(row, text, scratch);
    }
    text.push(b"}");
}

/// The members of a struct: each key with what stands before and after it.
fn members<'a>(of: &'a StructArray, leaves: &mut impl Iterator<Item = Leaf>) -> Option<Vec<(Vec<u8>, Write<'a>)>> {
    let mut members = Vec::with_capacity(of.num_columns());
    for (field, column) in of.fields().iter().zip(of.columns()) {
        let mut key = if members.is_empty() { Vec::new() } else { vec![b','] };
        json::escape(field.name(), &mut key);
        key.push(b':');
        members.push((key, writer(column, leaves)?));
    }
    Some(members)
}

/// Whether every column of a schema has a JSON form.
pub(super) fn first_without_form(fields: &[std::sync::Arc<Field>]) -> Option<String> {
    let without = |field: &std::sync::Arc<Field>| match field.data_type() {
        DataType::Struct(members) => first_without_form(members).map(|name| format!("{}.{name}", field.name())),
        DataType::List(element) | DataType::Map(element, _) => {
            first_without_form(std::slice::from_ref(element)).map(|name| format!("{}.{name}", field.name()))
        }
        other => (!has_form(other)).then(|| field.name().clone()),
    };
    fields.iter().find_map(without)
}

fn has_form(leaf: &DataType) -> bool {
    matches!(
        leaf,
        DataType::Null
            | DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Float16
            | DataType::Float32
            | DataType::Float64
            | DataType::Utf8View
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
            | DataType::Date32
            | DataType::Time32(TimeUnit::Millisecond)
            | DataType::Time64(_)
            | DataType::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond, _)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
    )
}

fn writer<'a>(array: &'a ArrayRef, leaves: &mut impl Iterator<Item = Leaf>) -> Option<Write<'a>> {
    let write: Write<'a> = match array.data_type() {
        DataType::Struct(_) => {
            let members = members(array.as_struct(), leaves)?;
            Box::new(move |row, text, scratch| object(&members, row, text, scratch))
        }
        DataType::List(_) => list(array.as_list(), leaves)?,
        DataType::Map(..) => map(array.as_map(), leaves)?,
        _ => leaf(array, leaves.next()?)?,
    };
    let nulls = array.logical_nulls();
    Some(match nulls {
        None => write,
        Some(nulls) => {
            Box::new(move |row, text, scratch| if nulls.is_null(row) { text.push(b"null") } else { write(row, text, scratch) })
        }
    })
}

fn range_of(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    let at = |place: usize| offsets.get(place).copied().and_then(|offset| usize::try_from(offset).ok()).unwrap_or_default();
    at(row)..at(row + 1)
}

fn list<'a>(lists: &'a ListArray, leaves: &mut impl Iterator<Item = Leaf>) -> Option<Write<'a>> {
    let element = writer(lists.values(), leaves)?;
    let offsets = lists.value_offsets();
    Some(Box::new(move |row, text, scratch| {
        text.push(b"[");
        let range = range_of(offsets, row);
        for at in range.clone() {
            if at != range.start {
                text.push(b",");
            }
            element(at, text, scratch);
        }
        text.push(b"]");
    }))
}

fn map<'a>(maps: &'a MapArray, leaves: &mut impl Iterator<Item = Leaf>) -> Option<Write<'a>> {
    let (key, value) = (writer(maps.keys(), leaves)?, writer(maps.values(), leaves)?);
    let offsets = maps.value_offsets();
    Some(Box::new(move |row, text, scratch| {
        text.push(b"{");
        let range = range_of(offsets, row);
        for at in range.clone() {
            if at != range.start {
                text.push(b",");
            }
            // A key that is no text is its own JSON, as text.
            let mut name = Text::new(usize::MAX, text.left);
            key(at, &mut name, scratch);
            if name.bytes.first() == Some(&b'"') {
                text.push(&name.bytes);
            } else {
                text.push_string(&String::from_utf8_lossy(&name.bytes), scratch);
            }
            text.push(b":");
            value(at, text, scratch);
        }
        text.push(b"}");
    }))
}

fn primitive<'a, T: ArrowPrimitiveType>(array: &'a ArrayRef, form: impl Fn(T::Native) -> String + 'a) -> Write<'a> {
    let values: &PrimitiveArray<T> = array.as_primitive();
    Box::new(move |row, text, _| text.push(form(values.value(row)).as_bytes()))
}

fn leaf(array: &ArrayRef, more: Leaf) -> Option<Write<'_>> {
    Some(match array.data_type() {
        DataType::Null => Box::new(|_, text: &mut Text, _: &mut Vec<u8>| text.push(b"null")),
        DataType::Boolean => {
            let values: &BooleanArray = array.as_boolean();
            Box::new(move |row, text, _| text.push(if values.value(row) { b"true" } else { b"false" }))
        }
        DataType::Int8 => primitive::<Int8Type>(array, |value| value.to_string()),
        DataType::Int16 => primitive::<Int16Type>(array, |value| value.to_string()),
        DataType::Int32 => primitive::<Int32Type>(array, |value| value.to_string()),
        DataType::Int64 => primitive::<Int64Type>(array, |value| value.to_string()),
        DataType::UInt8 => primitive::<UInt8Type>(array, |value| value.to_string()),
        DataType::UInt16 => primitive::<UInt16Type>(array, |value| value.to_string()),
        DataType::UInt32 => primitive::<UInt32Type>(array, |value| value.to_string()),
        DataType::UInt64 => primitive::<UInt64Type>(array, |value| value.to_string()),
        DataType::Float16 => primitive::<Float16Type>(array, |value| double(f64::from(value))),
        // The value, exactly; its shortest text as a float would be another double.
        DataType::Float32 => primitive::<Float32Type>(array, |value| double(f64::from(value))),
        DataType::Float64 => primitive::<Float64Type>(array, double),
        DataType::Utf8View => {
            let values = array.as_string_view();
            Box::new(move |row, text, scratch| text.push_string(values.value(row), scratch))
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            Box::new(move |row, text, _| base64(values.value(row), text))
        }
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            Box::new(move |row, text, _| match more {
                Leaf::Uuid => text.push(uuid(values.value(row)).as_bytes()),
                Leaf::Usual => base64(values.value(row), text),
            })
        }
        DataType::Date32 => primitive::<Date32Type>(array, |days| format!("\"{}\"", date(i64::from(days)))),
        DataType::Time32(TimeUnit::Millisecond) => {
            primitive::<Time32MillisecondType>(array, |millis| time_of_day(i64::from(millis) * 1000))
        }
        DataType::Time64(TimeUnit::Microsecond) => primitive::<Time64MicrosecondType>(array, time_of_day),
        DataType::Time64(TimeUnit::Nanosecond) => {
            primitive::<Time64NanosecondType>(array, |nanos| time_of_day(nanos.div_euclid(1000)))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            primitive::<TimestampMillisecondType>(array, |millis| instant(i128::from(millis) * 1000))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            primitive::<TimestampMicrosecondType>(array, |micros| instant(i128::from(micros)))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            primitive::<TimestampNanosecondType>(array, |nanos| instant(i128::from(nanos.div_euclid(1000))))
        }
        DataType::Decimal128(_, scale) => {
            let scale = *scale;
            primitive::<Decimal128Type>(array, move |value| decimal(&value.to_string(), scale))
        }
        DataType::Decimal256(_, scale) => {
            let scale = *scale;
            primitive::<Decimal256Type>(array, move |value| decimal(&value.to_string(), scale))
        }
        _ => return None,
    })
}

fn base64(bytes: &[u8], text: &mut Text) {
    text.push(b"\"");
    // In steps of whole groups, so that a long value is never there twice.
    for piece in bytes.chunks(3 * 1024) {
        text.push(STANDARD.encode(piece).as_bytes());
    }
    text.push(b"\"");
}

fn uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(38);
    text.push('"');
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for nibble in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(nibble), 16));
        }
    }
    text.push('"');
    text
}

/// The shortest text that reads back as the same double; null where JSON has none.
fn double(value: f64) -> String {
    if value.is_finite() { serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned()) } else { "null".to_owned() }
}

/// `digits` divided by ten to the `scale`, with every digit.
fn decimal(digits: &str, scale: i8) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    match usize::try_from(scale) {
        Ok(0) => format!("{sign}{digits}"),
        Ok(scale) => {
            let padded = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = padded.split_at_checked(padded.len() - scale).unwrap_or((&padded, ""));
            format!("{sign}{whole}.{fraction}")
        }
        Err(_) if digits == "0" => "0".to_owned(),
        Err(_) => format!("{sign}{digits}{}", "0".repeat(usize::from(scale.unsigned_abs()))),
    }
}

/// The day so many days after 1970-01-01, in the proleptic Gregorian calendar, without a bound.
fn date(days: i64) -> String {
    // A year from March on, so that the leap day comes last; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    match year {
        0..=9999 => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("{year:+05}-{month:02}-{day:02}"),
    }
}

/// Hours to microseconds of a time within a day.
fn clock(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    format!("{:02}:{:02}:{:02}.{:06}", seconds / 3600, seconds / 60 % 60, seconds % 60, micros % 1_000_000)
}

/// A time of day; what is none stays the number that it is.
fn time_of_day(micros: i64) -> String {
    if (0..MICROS_A_DAY).contains(&micros) { format!("\"{}\"", clock(micros)) } else { micros.to_string() }
}

/// RFC 3339 in UTC, with microseconds.
fn instant(micros: i128) -> String {
    let (days, of_day) = (micros.div_euclid(i128::from(MICROS_A_DAY)), micros.rem_euclid(i128::from(MICROS_A_DAY)));
    // Both fit: 64 bits of milliseconds are fewer days than an i64 holds.
    let (days, of_day) = (i64::try_from(days).unwrap_or_default(), i64::try_from(of_day).unwrap_or_default());
    format!("\"{}T{}Z\"", date(days), clock(of_day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_instants_are_those_of_the_calendar() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (19_782, "2024-02-29"),
            (20_468, "2026-01-15"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
            (-719_468, "0000-03-01"),
            (-719_529, "-0001-12-31"),
        ] {
            assert_eq!(date(days), text, "{days}");
        }
        assert_eq!(instant(-1), "\"1969-12-31T23:59:59.999999Z\"");
        assert_eq!(instant(1_768_471_200_000_001), "\"2026-01-15T10:00:00.000001Z\"");
        assert!(instant(i128::from(i64::MAX) * 1000).starts_with("\"+292278994-08-17"));
        assert_eq!((time_of_day(1), time_of_day(-1)), ("\"00:00:00.000001\"".into(), "-1".into()));
    }

    #[test]
    fn decimals_keep_every_digit_and_doubles_read_back() {
        for (digits, scale, text) in [
            ("12345", 2, "123.45"),
            ("-5", 3, "-0.005"),
            ("0", 2, "0.00"),
            ("100", 0, "100"),
            ("7", -3, "7000"),
            ("0", -3, "0"),
            ("99999999999999999999999999999999999999", 10, "9999999999999999999999999999.9999999999"),
        ] {
            assert_eq!(decimal(digits, scale), text);
        }
        for (value, text) in [(0.1, "0.1"), (1.0, "1.0"), (1e300, "1e+300"), (f64::NAN, "null"), (f64::NEG_INFINITY, "null")] {
            assert_eq!(double(value), text);
        }
        assert_eq!(double(f64::from(0.1_f32)), "0.10000000149011612");
    }

    #[test]
    fn a_long_row_is_cut_and_told_whole() {
        let mut text = Text::new(4, 1000);
        text.push(b"ab");
        text.begin_row();
        text.push(b"cde");
        text.push(b"fgh");
        text.push(b"i");
        let long = text.end_row().unwrap();
        assert_eq!((text.bytes.as_slice(), long.length), (&b"abcdef"[..], 7));
        assert_eq!(long.sha256, <[u8; 32]>::from(Sha256::digest(b"cdefghi")));
        text.begin_row();
        text.push(b"j");
        assert!(text.end_row().is_none() && !text.is_over());
        text.push(&[b'x'; 1000]);
        assert!(text.is_over());
    }
}
