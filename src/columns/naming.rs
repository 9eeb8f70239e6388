//! From a JSON key to a column name that every catalogue takes.

use crate::domain::table::hash8;

/// The longest column name (CONTRACT.md §2).
const LONGEST: usize = 120;

/// Names that a table's partitions or Dayport's own columns have; only the top level shares a namespace with them.
fn is_reserved(name: &str, rescue_column: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    matches!(lower.as_str(), "year" | "month" | "day" | "dt")
        || lower == rescue_column.to_ascii_lowercase()
        || lower.starts_with("pontoon__")
}

/// The column name of `key`, before clashes.
///
/// A key that matches `[A-Za-z_][A-Za-z0-9_]*`, is at most 120 long and (at top level, where `rescue_column` is given) not reserved is kept.
/// In any other every other character becomes `_`, a leading digit or an empty name gets `c` before it, it is cut to fit, and `_` and 8 hex
/// digits of the SHA-256 of the key are added, always.
#[must_use]
pub fn column_name(key: &str, rescue_column: Option<&str>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let kept =
        key.chars().all(plain) && !key.is_empty() && !key.starts_with(|c: char| c.is_ascii_digit()) && key.len() <= LONGEST;
    if kept && !rescue_column.is_some_and(|rescue| is_reserved(key, rescue)) {
        return key.to_owned();
    }
    let mut name: String = key.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, 'c');
    }
    name.truncate(LONGEST - 9);
    name.push('_');
    name.push_str(&hash8(key));
    name
}

/// `wanted`, or, where `is_taken` says that a sibling has that name (compared without case), with the key's hash after it, as often as it takes.
#[must_use]
pub fn free_name(wanted: String, key: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = wanted;
    while is_taken(&name) {
        name = format!("{name}_{}", hash8(key));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_key_is_its_own_column() {
        for key in ["a", "_x9", "camelCase", "SELECT", "x".repeat(120).as_str()] {
            assert_eq!(column_name(key, Some("_rescued_data")), key);
        }
        assert_eq!(column_name("year", None), "year", "only the top level shares its names with the partitions");
    }

    #[test]
    fn any_other_key_says_by_its_hash_that_it_was_changed() {
        for (key, start) in [
            ("a.b", "a_b_"),
            ("engine speed", "engine_speed_"),
            ("engine-speed", "engine_speed_"),
            ("9lives", "c9lives_"),
            ("", "c_"),
            ("é", "__"),
            ("Year", "Year_"),
            ("dt", "dt_"),
            ("_RESCUED_data", "_RESCUED_data_"),
            ("Pontoon__x", "Pontoon__x_"),
        ] {
            assert_eq!(column_name(key, Some("_rescued_data")), format!("{start}{}", hash8(key)));
        }
        assert_eq!(column_name(&"x".repeat(121), None).len(), 120);
    }

    #[test]
    fn a_clash_adds_the_hash_until_the_name_is_free() {
        let hash = hash8("k");
        let taken = ["k".to_owned(), format!("k_{hash}")];
        let name = free_name("k".to_owned(), "k", |name| taken.iter().any(|t| t == name));
        assert_eq!(name, format!("k_{hash}_{hash}"));
    }
}
