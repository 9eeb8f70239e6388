//! Which keys are staged, and the day that a staged key says it is of.

use super::run::Day;

/// Whether a key under the staged prefix is one of the day's objects: folder markers and keys with a part below the prefix that begins
/// with `_` or `.` are not.
#[must_use]
pub fn is_staged(prefix: &str, key: &str) -> bool {
    key.strip_prefix(prefix).is_some_and(is_object)
}

fn is_object(below: &str) -> bool {
    !below.is_empty() && !below.ends_with('/') && !below.split('/').any(|part| part.starts_with(['_', '.']))
}

/// Where a key is, seen from the staged prefix with its placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Under no day's prefix, of no organisation.
    Outside,
    /// Under it, but none of the day's objects: see [`is_staged`].
    NotAnObject,
    /// Under the prefix of this day.
    Of(Day),
    /// Under it, and it does not say a whole day.
    Undated,
}

/// Where a key is, seen from the staged prefix `template` (`{date}`, `{year}`, `{month}`, `{day}`, `{organization}`). An organisation is
/// one part of a key, or a piece of one.
#[must_use]
pub fn place_of(template: &str, key: &str) -> Place {
    let Some((found, below)) = matched(template, key, Found::default()) else { return Place::Outside };
    let day = match (found.year, found.month, found.day) {
        (Some(year), Some(month), Some(day)) => {
            let day = i32::try_from(year).ok().zip(u8::try_from(month).ok()).zip(u8::try_from(day).ok());
            match day.and_then(|((year, month), day)| Day::from_ymd(year, month, day)) {
                Some(day) => Place::Of(day),
                None => return Place::Outside,
            }
        }
        _ => Place::Undated,
    };
    if is_object(below) { day } else { Place::NotAnObject }
}

/// What the placeholders stood for so far; each has to stand for the same wherever it is.
#[derive(Clone, Copy, Default)]
struct Found<'k> {
    year: Option<u32>,
    month: Option<u32>,
    day: Option<u32>,
    organization: Option<&'k str>,
}

fn bind<T: PartialEq + Copy>(slot: &mut Option<T>, value: T) -> bool {
    *slot.get_or_insert(value) == value
}

/// A number of so many ASCII digits, and the rest.
fn digits(text: &str, count: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(count)?;
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { Some((number.parse().ok()?, rest)) } else { None }
}

/// What of a key is below a template that it begins with.
fn matched<'k>(template: &str, key: &'k str, mut found: Found<'k>) -> Option<(Found<'k>, &'k str)> {
    let Some((text, after)) = template.split_once('{') else {
        return Some((found, key.strip_prefix(template)?));
    };
    let (name, template) = after.split_once('}')?;
    let key = key.strip_prefix(text)?;
    let fits = |fits: bool| fits.then_some(());
    match name {
        "date" => {
            let (year, rest) = digits(key, 4)?;
            let (month, rest) = digits(rest.strip_prefix('-')?, 2)?;
            let (day, rest) = digits(rest.strip_prefix('-')?, 2)?;
            fits(bind(&mut found.year, year) && bind(&mut found.month, month) && bind(&mut found.day, day))?;
            matched(template, rest, found)
        }
        "year" => {
            let (year, rest) = digits(key, 4)?;
            fits(bind(&mut found.year, year))?;
            matched(template, rest, found)
        }
        "month" => {
            let (month, rest) = digits(key, 2)?;
            fits(bind(&mut found.month, month))?;
            matched(template, rest, found)
        }
        "day" => {
            let (day, rest) = digits(key, 2)?;
            fits(bind(&mut found.day, day))?;
            matched(template, rest, found)
        }
        "organization" => {
            if let Some(organization) = found.organization {
                return matched(template, key.strip_prefix(organization)?, found);
            }
            let part = key.split('/').next()?;
            let mut ends = part.char_indices().map(|(at, letter)| at + letter.len_utf8());
            ends.find_map(|end| {
                let (organization, rest) = key.split_at_checked(end)?;
                matched(template, rest, Found { organization: Some(organization), ..found })
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(day: &str) -> Place {
        Place::Of(day.parse().unwrap())
    }

    #[test]
    fn a_key_is_of_the_day_that_its_prefix_says() {
        let plain = "events/{date}/";
        for (template, key, place) in [
            (plain, "events/2026-01-15/a.json", of("2026-01-15")),
            (plain, "events/2026-01-15/b/c", of("2026-01-15")),
            (plain, "events/2026-01-15/_SUCCESS", Place::NotAnObject),
            (plain, "events/2026-01-15/x/.tmp/a", Place::NotAnObject),
            (plain, "events/2026-01-15/", Place::NotAnObject),
            (plain, "events/2026-01-15", Place::Outside),
            (plain, "events/2026-02-30/a", Place::Outside),
            (plain, "events/2026-1-15/a", Place::Outside),
            (plain, "events/２026-01-15/a", Place::Outside),
            (plain, "events/../secrets/2026-01-15/a", Place::Outside),
            (plain, "other/2026-01-15/a", Place::Outside),
            ("staged/", "staged/a", Place::Undated),
            ("staged/", "staged2/a", Place::Outside),
            ("in/{year}/", "in/2026/a", Place::Undated),
            ("{year}/{month}/{day}/", "2026/01/15/a", of("2026-01-15")),
            ("{year}/{date}/", "2026/2026-01-15/a", of("2026-01-15")),
            ("{year}/{date}/", "2025/2026-01-15/a", Place::Outside),
            ("{organization}/{date}/", "acme/2026-01-15/a", of("2026-01-15")),
            ("{organization}/{date}/", "/2026-01-15/a", Place::Outside),
            ("{organization}/{date}/", "a/b/2026-01-15/a", Place::Outside),
            ("in-{organization}-x/{date}/", "in-a-x-x/2026-01-15/a", of("2026-01-15")),
            ("{organization}/{date}/{organization}/", "ü/2026-01-15/ü/a", of("2026-01-15")),
            ("{organization}/{date}/{organization}/", "a/2026-01-15/b/a", Place::Outside),
        ] {
            assert_eq!(place_of(template, key), place, "{template} {key}");
        }
    }
}
