//! Days, runs and transfers: what identifies one delivery.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::{Date, Duration, Month};

use super::error::{Error, Result};

/// A UTC calendar day, written `2026-01-15`; from 1970 to 9998, so that a day's end is always a day too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(Date);

impl Day {
    /// The day of that year, month (1 to 12) and day of month, if there is one within 1970 to 9998.
    #[must_use]
    pub fn from_ymd(year: i32, month: u8, day: u8) -> Option<Day> {
        let month = Month::try_from(month).ok()?;
        let date = Date::from_calendar_date(year, month, day).ok()?;
        (1970..=9998).contains(&year).then_some(Day(date))
    }

    /// The UTC day that an instant in microseconds since 1970 falls on; `None` outside 1970 to 9998.
    #[must_use]
    pub fn from_epoch_micros(micros: i64) -> Option<Day> {
        const MICROS_A_DAY: i64 = 86_400_000_000;
        let days = i32::try_from(micros.div_euclid(MICROS_A_DAY)).ok()?;
        Self::from_epoch_days(days)
    }

    /// The day that is `days` after 1970-01-01; `None` outside 1970 to 9998.
    #[must_use]
    pub fn from_epoch_days(days: i32) -> Option<Day> {
        const JULIAN_DAY_OF_1970: i32 = 2_440_588;
        let date = Date::from_julian_day(days.checked_add(JULIAN_DAY_OF_1970)?).ok()?;
        (1970..=9998).contains(&date.year()).then_some(Day(date))
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub fn epoch_days(self) -> i32 {
        self.0.to_julian_day() - 2_440_588
    }

    /// The year.
    #[must_use]
    pub fn year(self) -> i32 {
        self.0.year()
    }

    /// The month, 1 to 12.
    #[must_use]
    pub fn month(self) -> u8 {
        self.0.month().into()
    }

    /// The day of the month, 1 to 31.
    #[must_use]
    pub fn day(self) -> u8 {
        self.0.day()
    }

    /// The day `days` later (earlier when negative), held within 1970 to 9998.
    #[must_use]
    pub fn plus_days(self, days: i64) -> Day {
        let first = Day::from_ymd(1970, 1, 1).unwrap_or(self);
        let last = Day::from_ymd(9998, 12, 31).unwrap_or(self);
        match self.0.checked_add(Duration::days(days.clamp(-4_000_000, 4_000_000))) {
            Some(date) => Day(date).clamp(first, last),
            None if days < 0 => first,
            None => last,
        }
    }

    /// Days from `earlier` to this one; negative if `earlier` is later.
    #[must_use]
    pub fn days_since(self, earlier: Day) -> i64 {
        (self.0 - earlier.0).whole_days()
    }

    /// Every day from this one to `last`, both included; none when `last` is earlier.
    pub fn up_to(self, last: Day) -> impl Iterator<Item = Day> {
        (0..=last.days_since(self)).map(move |days| self.plus_days(days))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year(), self.month(), self.day())
    }
}

impl FromStr for Day {
    type Err = Error;

    fn from_str(text: &str) -> Result<Day> {
        parse_day(text).ok_or_else(|| Error::vendor(format!("`{text}` is not a day, write it as `2026-01-15` (1970 to 9998)")))
    }
}

fn parse_day(text: &str) -> Option<Day> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |part: &str, width: usize| part.len() == width && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || !digits(year, 4) || !digits(month, 2) || !digits(day, 2) {
        return None;
    }
    Day::from_ymd(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error: Error| serde::de::Error::custom(error.message()))
    }
}

/// What a run is: one destination and one day. A second trigger for the same run changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId {
    /// The destination's configured name.
    pub destination: String,
    /// The staged day.
    pub day: Day,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.destination, self.day)
    }
}

/// The instant at which a transfer started: in pontoon's file names, and kept in the journal so that a retry has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Transfer {
    /// Milliseconds since 1970; pontoon's batch id.
    pub started_millis: i64,
}

impl Transfer {
    /// The transfer that starts at `now_millis`, or, when the destination's last one is not at least a second older, in the second
    /// after that one: two transfers never share a timestamp.
    #[must_use]
    pub fn after(last: Option<Transfer>, now_millis: i64) -> Transfer {
        let least = last.map_or(i64::MIN, |last| (last.started_millis.div_euclid(1000) + 1) * 1000);
        Transfer { started_millis: now_millis.max(least) }
    }

    /// The UTC day on which the transfer started; pontoon's `dt`.
    #[must_use]
    pub fn day(self) -> Option<Day> {
        Day::from_epoch_micros(self.started_millis.checked_mul(1000)?)
    }

    /// `YYYYMMDDHHMMSS` in UTC.
    #[must_use]
    pub fn timestamp(self) -> String {
        let seconds = self.started_millis.div_euclid(1000).rem_euclid(86_400);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        match self.day() {
            Some(day) => format!("{:04}{:02}{:02}{hour:02}{minute:02}{second:02}", day.year(), day.month(), day.day()),
            None => format!("{:020}", self.started_millis),
        }
    }

    /// The second in which the transfer started, `2026-01-16T03:00:12Z`.
    #[must_use]
    pub fn instant(self) -> String {
        let seconds = self.started_millis.div_euclid(1000).rem_euclid(86_400);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let day = self.day().map_or_else(|| "?".to_owned(), |day| day.to_string());
        format!("{day}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// Unix milliseconds in decimal.
    #[must_use]
    pub fn batch_id(self) -> String {
        self.started_millis.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_as_it_is_read() {
        for text in ["1970-01-01", "2024-02-29", "2026-01-15", "9998-12-31"] {
            assert_eq!(text.parse::<Day>().unwrap().to_string(), text);
        }
        for text in ["2023-02-29", "2026-1-15", "2026-01-15T00:00:00Z", "1969-12-31", "9999-01-01", "", "20260115", "+026-01-15"]
        {
            assert!(text.parse::<Day>().is_err(), "{text}");
        }
    }

    #[test]
    fn days_count_across_months_and_leap_years() {
        let day: Day = "2024-02-28".parse().unwrap();
        assert_eq!(day.plus_days(2).to_string(), "2024-03-01");
        assert_eq!(day.plus_days(2).days_since(day), 2);
        assert_eq!(Day::from_epoch_days(day.epoch_days()), Some(day));
        assert_eq!(Day::from_epoch_micros(-1), None);
        assert_eq!(day.up_to(day.plus_days(2)).count(), 3);
        assert_eq!(day.up_to(day.plus_days(-1)).count(), 0);
        assert_eq!(day.plus_days(i64::MAX).to_string(), "9998-12-31");
        assert_eq!(day.plus_days(i64::MIN).to_string(), "1970-01-01");
    }

    #[test]
    fn two_transfers_never_share_a_second() {
        let first = Transfer::after(None, 1_768_546_800_250);
        assert_eq!((first.timestamp().as_str(), first.batch_id().as_str()), ("20260116070000", "1768546800250"));
        assert_eq!((first.day(), first.instant().as_str()), (Day::from_ymd(2026, 1, 16), "2026-01-16T07:00:00Z"));
        let second = Transfer::after(Some(first), 1_768_546_800_900);
        assert_eq!(second.timestamp(), "20260116070001");
        let clock_went_back = Transfer::after(Some(second), 1_000);
        assert_eq!(clock_went_back.timestamp(), "20260116070002");
    }
}
