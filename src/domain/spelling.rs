//! What somebody who wrote an unknown name probably meant.

/// The one of `known` names (in lower case) that looks most like `written`, whatever its case; `None` where none is known.
#[must_use]
pub fn nearest<'k>(written: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let written = written.to_lowercase();
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(&written, name);
    known.max_by(|one, other| likeness(one).total_cmp(&likeness(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_is_most_alike_is_meant() {
        let known = ["s3_bucket", "s3_prefix", "name"];
        for (written, meant) in [("s3_buket", "s3_bucket"), ("S3_Prefx", "s3_prefix"), ("nmae", "name")] {
            assert_eq!(nearest(written, known.into_iter()), Some(meant));
        }
        assert_eq!(nearest("x", [].into_iter()), None);
    }
}
