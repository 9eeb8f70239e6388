//! Words for people: what somebody who wrote an unknown name probably meant, and text from outside that is safe to show.

/// The one of `known` names (in lower case) that looks most like `written`, whatever its case; `None` where none is known.
#[must_use]
pub fn nearest<'k>(written: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let written = written.to_lowercase();
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(&written, name);
    known.max_by(|one, other| likeness(one).total_cmp(&likeness(other)))
}

/// Text as it may be shown: control characters are escaped, all but line feeds and tabs, so that a name from outside (an object's key,
/// say) commands no terminal.
#[must_use]
pub fn legible(text: &str) -> String {
    let mut legible = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() && !matches!(letter, '\n' | '\t') {
            legible.extend(letter.escape_default());
        } else {
            legible.push(letter);
        }
    }
    legible
}

/// One line of at most `most` characters of a text from outside: each control character is a U+FFFD.
#[must_use]
pub fn brief(text: &str, most: usize) -> String {
    text.chars().take(most).map(|letter| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_outside_commands_no_terminal() {
        assert_eq!(legible("a\u{1b}[31m\u{9b}2J\r\u{7f}b\n\tc é"), "a\\u{1b}[31m\\u{9b}2J\\r\\u{7f}b\n\tc é");
    }

    #[test]
    fn a_long_text_from_outside_is_one_short_line() {
        assert_eq!(brief("a\nb\u{1b}cdé", 6), "a\u{fffd}b\u{fffd}cd");
        assert_eq!(brief("\t", usize::MAX), "\u{fffd}");
    }

    #[test]
    fn the_name_that_is_most_alike_is_meant() {
        let known = ["s3_bucket", "s3_prefix", "name"];
        for (written, meant) in [("s3_buket", "s3_bucket"), ("S3_Prefx", "s3_prefix"), ("nmae", "name")] {
            assert_eq!(nearest(written, known.into_iter()), Some(meant));
        }
        assert_eq!(nearest("x", [].into_iter()), None);
    }
}
