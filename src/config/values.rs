//! The rules of single values: sizes, durations, names, ARNs. Each gives the ready value, or what to write instead.

use std::time::Duration;

use toml::de::DeValue;

use crate::domain::layout::Prefix;
use crate::domain::run::Day;
use crate::domain::settings::ScratchBudget;

/// The ready value, or what to write instead.
pub(super) type Ruled<T> = Result<T, String>;

const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];
const DURATION_UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Text for a message: control characters escaped, so that a message stays one line, and cut after 80 characters.
pub(super) fn printable(text: &str) -> String {
    let mut safe = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == 80 {
            safe.push('…');
            break;
        }
        if character.is_control() { safe.extend(character.escape_default()) } else { safe.push(character) }
    }
    safe
}

/// A value as a message shows it.
pub(super) fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.is_empty() => "empty".to_owned(),
        DeValue::String(text) => format!("`{}`", printable(text)),
        DeValue::Integer(integer) => format!("`{}`", printable(&integer.to_string())),
        DeValue::Float(float) => format!("`{}`", printable(&float.to_string())),
        DeValue::Boolean(boolean) => format!("`{boolean}`"),
        DeValue::Datetime(datetime) => format!("`{datetime}`"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Bytes in the largest unit that divides them: `16MiB`.
pub(super) fn size_text(bytes: u64) -> String {
    let unit = SIZE_UNITS.iter().take(4).find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes}B"), |(name, unit)| format!("{}{name}", bytes / unit))
}

fn integer(value: &DeValue<'_>) -> Option<i128> {
    let integer = value.as_integer()?;
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn in_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

pub(super) fn boolean(value: &DeValue<'_>) -> Ruled<bool> {
    value.as_bool().ok_or_else(|| "write `true` or `false`".to_owned())
}

/// A whole number within both bounds.
pub(super) fn whole<T: TryFrom<i128>>(value: &DeValue<'_>, least: i128, most: i128) -> Ruled<T> {
    let number = integer(value).filter(|number| (least..=most).contains(number));
    let ready = number.and_then(|number| T::try_from(number).ok());
    ready.ok_or_else(|| format!("write a whole number from {least} to {most}"))
}

/// A number from 0 to 1.
pub(super) fn share(value: &DeValue<'_>) -> Ruled<f64> {
    let text = match value {
        DeValue::Float(float) => float.as_str(),
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
        _ => "",
    };
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "write a number from 0 to 1, such as `0.01`".to_owned())
}

/// Bytes, as a plain integer or with a unit, within both bounds.
pub(super) fn size(value: &DeValue<'_>, least: u64, most: u64) -> Ruled<u64> {
    let bytes = match value {
        DeValue::String(text) => in_units(text, &SIZE_UNITS),
        _ => integer(value).and_then(|bytes| u64::try_from(bytes).ok()),
    };
    bytes
        .filter(|bytes| (least..=most).contains(bytes))
        .ok_or_else(|| format!("write a size from {} to {}, such as `\"16MiB\"` or bytes", size_text(least), size_text(most)))
}

/// A time span with a unit, within both bounds in milliseconds.
pub(super) fn duration(value: &DeValue<'_>, least: u64, most: u64) -> Ruled<Duration> {
    let text = |millis: u64| if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") };
    let millis = value.as_str().and_then(|text| in_units(text, &DURATION_UNITS)).filter(|millis| (least..=most).contains(millis));
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| format!("write a duration from {} to {}, such as `\"60s\"` or `\"5m\"`", text(least), text(most)))
}

/// A size, or a percentage of what is free.
pub(super) fn scratch_budget(value: &DeValue<'_>) -> Ruled<ScratchBudget> {
    if let Some(number) = value.as_str().and_then(|text| text.strip_suffix('%')) {
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percent = number.parse::<f64>().ok().filter(|percent| is_plain && *percent > 0.0 && *percent <= 100.0);
        if let Some(percent) = percent {
            return Ok(ScratchBudget::ShareOfFree(percent / 100.0));
        }
    }
    size(value, 1, u64::MAX)
        .map(ScratchBudget::Bytes)
        .map_err(|_| "write a size such as `\"8GiB\"` or a percentage such as `\"80%\"`".to_owned())
}

/// Text that is neither blank nor holds a control character.
pub(super) fn text(value: &DeValue<'_>) -> Ruled<String> {
    checked(value, "text that is not blank and has no control character", |text| {
        !text.trim().is_empty() && !text.chars().any(char::is_control)
    })
}

fn checked(value: &DeValue<'_>, wanted: &str, holds: impl Fn(&str) -> bool) -> Ruled<String> {
    value.as_str().filter(|text| holds(text)).map(str::to_owned).ok_or_else(|| format!("write {wanted}"))
}

/// One of a few words.
pub(super) fn one_of<T: Clone>(value: &DeValue<'_>, words: &[(&str, T)]) -> Ruled<T> {
    let chosen = value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
    chosen.map(|(_, ready)| ready.clone()).ok_or_else(|| {
        let words: Vec<String> = words.iter().map(|(word, _)| format!("`\"{word}\"`")).collect();
        format!("write {}", words.join(" or "))
    })
}

/// A day, as text or as TOML's own date.
pub(super) fn day(value: &DeValue<'_>) -> Ruled<Day> {
    let text = match value {
        DeValue::Datetime(datetime) => datetime.to_string(),
        _ => value.as_str().unwrap_or_default().to_owned(),
    };
    text.parse().map_err(|_| "write a day such as `\"2026-01-15\"` (1970 to 9998)".to_owned())
}

/// Whether S3's naming rules allow it: 3 to 63 of `a-z 0-9 . -`, a letter or digit at both ends, no two dots together, not like an IP
/// address. Source: Amazon S3 User Guide, "General purpose bucket naming rules".
pub(super) fn is_bucket_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [name.bytes().next(), name.bytes().last()];
    let like_ip = name.split('.').count() == 4 && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (3..=63).contains(&name.len())
        && name.bytes().all(|byte| plain(byte) || byte == b'-' || byte == b'.')
        && ends.into_iter().flatten().all(plain)
        && !name.contains("..")
        && !like_ip
}

pub(super) fn bucket(value: &DeValue<'_>) -> Ruled<String> {
    let wanted = "a bucket's bare name: 3 to 63 of `a-z`, `0-9`, `-` and `.`, a letter or digit at both ends";
    checked(value, wanted, is_bucket_name)
}

pub(super) fn region(value: &DeValue<'_>) -> Ruled<String> {
    checked(value, "a region such as `\"eu-central-1\"`", |text| {
        !text.is_empty()
            && text.len() <= 40
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    })
}

/// A prefix without placeholders.
pub(super) fn prefix(value: &DeValue<'_>) -> Ruled<Prefix> {
    let text = value.as_str().filter(|text| !text.contains(['{', '}']));
    let advice =
        "write it like `\"exports/acme\"`: no empty, `.` or `..` part, no control character, no `{` or `}`, at most 700 bytes";
    text.and_then(|text| Prefix::parse(text).ok()).ok_or_else(|| advice.to_owned())
}

pub(super) fn destination_name(value: &DeValue<'_>) -> Ruled<String> {
    checked(value, "1 to 64 of `a-z`, `0-9` and `-`", |text| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    })
}

/// A name that Parquet and every reader take as it is (CONTRACT.md §2), and that no other column can have.
pub(super) fn column_name(value: &DeValue<'_>) -> Ruled<String> {
    checked(
        value,
        "a name of at most 120 of `A-Za-z0-9_`, not starting with a digit, not `year`, `month`, `day`, `dt` or `pontoon__*`",
        |text| {
            let lower = text.to_ascii_lowercase();
            (1..=120).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && !text.starts_with(|first: char| first.is_ascii_digit())
                && !["year", "month", "day", "dt"].contains(&lower.as_str())
                && !lower.starts_with("pontoon__")
        },
    )
}

pub(super) fn account(value: &DeValue<'_>) -> Ruled<String> {
    checked(value, "the account's 12 digits in quotes, such as `\"123456789012\"`", is_account)
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_arn(text: &str, service: &str, resource_start: &str) -> bool {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    let [arn, partition, found, region, owner, resource] = parts.as_slice() else {
        return false;
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_/:-".contains(&byte);
    *arn == "arn"
        && (*partition == "aws" || partition.starts_with("aws-"))
        && *found == service
        && (region.is_empty() == (service == "iam"))
        && is_account(owner)
        && resource.strip_prefix(resource_start).is_some_and(|name| !name.is_empty())
        && text.len() <= 2048
        && text.bytes().all(plain)
}

pub(super) fn role_arn(value: &DeValue<'_>) -> Ruled<String> {
    checked(value, "a role's full ARN such as `\"arn:aws:iam::123456789012:role/name\"`", |text| is_arn(text, "iam", "role/"))
}

pub(super) fn kms_key_arn(value: &DeValue<'_>) -> Ruled<String> {
    let wanted = "the key's full ARN such as `\"arn:aws:kms:eu-central-1:123456789012:key/…\"`, not an id or an alias";
    checked(value, wanted, |text| is_arn(text, "kms", "key/"))
}

pub(super) fn secret_arn(value: &DeValue<'_>) -> Ruled<String> {
    let wanted = "the secret's full ARN such as `\"arn:aws:secretsmanager:eu-central-1:123456789012:secret:name\"`";
    checked(value, wanted, |text| is_arn(text, "secretsmanager", "secret:"))
}

/// Source: AWS STS API Reference, `AssumeRole`, `ExternalId`.
pub(super) fn external_id(value: &DeValue<'_>) -> Ruled<String> {
    checked(value, "2 to 1224 of letters, digits and `+=,.@:/_-`", |text| {
        (2..=1224).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+=,.@:/_-".contains(&byte))
    })
}

pub(super) fn variable_name(value: &DeValue<'_>) -> Ruled<String> {
    checked(value, "the name of an environment variable: letters, digits and `_`", |text| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !text.starts_with(|first: char| first.is_ascii_digit())
            && !looks_like_a_key(text)
    })
}

/// Whether somebody may have written a key itself where its variable's name belongs: an access key id, or 40 letters and digits of both
/// cases.
fn looks_like_a_key(text: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| text.as_bytes().iter().any(kind);
    let is_id = text.len() >= 16 && (text.starts_with("AKIA") || text.starts_with("ASIA"));
    is_id || (text.len() == 40 && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit))
}

pub(super) fn queue_url(value: &DeValue<'_>) -> Ruled<String> {
    checked(value, "a standard queue's URL such as `\"https://sqs.eu-central-1.amazonaws.com/123456789012/name\"`", |text| {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let has_path =
            rest.and_then(|rest| rest.split_once('/')).is_some_and(|(host, path)| !host.is_empty() && !path.is_empty());
        has_path && text.strip_suffix(".fifo").is_none() && text.bytes().all(|byte| byte.is_ascii_graphic())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(text: &str) -> DeValue<'_> {
        DeValue::parse(text).unwrap().into_inner()
    }

    #[test]
    fn sizes_have_binary_and_decimal_units_or_none() {
        let size = |text| size(&toml(text), 0, u64::MAX).ok();
        #[rustfmt::skip]
        let good = [
            ("0", 0), ("1048576", 1 << 20), ("1_000", 1000), ("0x10", 16), (r#""5B""#, 5), (r#""16MiB""#, 16 << 20), (r#""2 GiB""#, 2 << 30),
            (r#""3KiB""#, 3072), (r#""1TiB""#, 1 << 40), (r#""256MB""#, 256_000_000), (r#""1kB""#, 1000), (r#""2TB""#, 2_000_000_000_000), (r#""1GB""#, 1_000_000_000),
        ];
        for (text, bytes) in good {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in
            ["-1", "1.5", r#""16""#, r#""1.5GiB""#, r#""16mib""#, r#""MiB""#, r#""""#, r#""99999999TiB""#, "true", r#""１MiB""#]
        {
            assert_eq!(size(text), None, "{text}");
        }
        assert_eq!([size_text(16 << 20), size_text(1000), size_text(0), size_text(1536)], ["16MiB", "1000B", "0B", "1536B"]);
    }

    #[test]
    fn durations_always_have_a_unit() {
        let duration = |text| duration(&toml(text), 0, u64::MAX).ok().map(|duration| duration.as_millis());
        assert_eq!(duration(r#""60s""#), Some(60_000));
        assert_eq!(duration(r#""5m""#), Some(300_000));
        assert_eq!(duration(r#""250ms""#), Some(250));
        assert_eq!(duration(r#""1h""#), Some(3_600_000));
        for text in ["60", r#""60""#, r#""1.5s""#, r#""-1s""#, r#""1 day""#] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn the_scratch_budget_is_bytes_or_a_share_of_what_is_free() {
        let budget = |text| scratch_budget(&toml(text)).ok();
        assert_eq!(budget(r#""80%""#), Some(ScratchBudget::ShareOfFree(0.8)));
        assert_eq!(budget(r#""12.5%""#), Some(ScratchBudget::ShareOfFree(0.125)));
        assert_eq!(budget(r#""8GiB""#), Some(ScratchBudget::Bytes(8 << 30)));
        assert_eq!(budget("4096"), Some(ScratchBudget::Bytes(4096)));
        for text in [r#""0%""#, r#""101%""#, r#""-5%""#, r#""nan%""#, r#""%""#, "0", "0.8"] {
            assert_eq!(budget(text), None, "{text}");
        }
    }

    #[test]
    fn bucket_names_follow_the_rules_of_s3() {
        for name in ["abc", "my-bucket.example.com", "1a2", "a23456789012345678901234567890123456789012345678901234567890123"] {
            assert!(is_bucket_name(name), "{name}");
        }
        for name in ["ab", "Abc", "a_b", "-ab", "ab-", "a..b", "192.168.0.1", "s3://abc", "abc/def", "", "a b"] {
            assert!(!is_bucket_name(name), "{name}");
        }
        assert!(!is_bucket_name(&"a".repeat(64)));
    }

    #[test]
    fn arns_are_full_or_refused() {
        let quoted = |text: &str| DeValue::String(text.to_owned().into());
        assert!(role_arn(&quoted("arn:aws:iam::123456789012:role/path/name")).is_ok());
        assert!(role_arn(&quoted("arn:aws-cn:iam::123456789012:role/name")).is_ok());
        assert!(kms_key_arn(&quoted("arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab")).is_ok());
        assert!(secret_arn(&quoted("arn:aws:secretsmanager:us-east-1:123456789012:secret:a/b-AbCdEf")).is_ok());
        for text in [
            "arn:aws:iam::123456789012:role/",
            "arn:aws:iam::1234:role/x",
            "arn:aws:iam::123456789012:user/x",
            "role/x",
            "arn:aws:iam::123456789012:role/x\"",
            "arn:aws:iam::123456789012:role/*",
        ] {
            assert!(role_arn(&quoted(text)).is_err(), "{text}");
        }
        for text in
            ["1234abcd-12ab", "alias/x", "arn:aws:kms:eu-central-1:123456789012:alias/x", "arn:aws:kms::123456789012:key/x"]
        {
            assert!(kms_key_arn(&quoted(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn what_a_message_shows_stays_one_line() {
        assert_eq!(printable("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(printable(&"x".repeat(200)).chars().count(), 81);
    }
}
