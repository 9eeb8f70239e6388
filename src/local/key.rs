//! Which keys can be a file's path as they stand, and the names of those that can't.

use std::path::{Component, Path};

use sha2::{Digest, Sha256};

use crate::domain::hex::hex;

/// The longest name of a file or folder, in bytes, on the file systems that matter.
const LONGEST_NAME: usize = 255;

/// Whether `key` is, unchanged, a relative path of ordinary names: then the object is the file of that path.
///
/// Never true for anything that could leave the bucket's folder or name the folder itself.
pub(super) fn is_plain(key: &str) -> bool {
    key.split('/').all(|name| {
        let mut parts = Path::new(name).components();
        let first = parts.next();
        let only_part = parts.next().is_none();
        name.len() <= LONGEST_NAME
            && !name.contains('\0')
            && only_part
            && matches!(first, Some(Component::Normal(part)) if part == name)
    })
}

/// The name under which the side folder knows `key`: 64 hex digits.
pub(super) fn side_name(key: &str) -> String {
    hex(&Sha256::digest(key.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_keys_are_paths_and_awkward_ones_are_not() {
        for key in [
            "a",
            "a/b",
            "data/x_events/year=2026/month=1/day=15/data-000000000000.parquet",
            "with space+plus=equals",
            "日本/ü",
            "...",
            ".hidden",
            "a..b",
            "back\\slash",
        ] {
            assert!(is_plain(key), "{key}");
        }
        let too_long = "x".repeat(256);
        for key in ["", "/", "a/", "/a", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a/..", "nul\0", &too_long] {
            assert!(!is_plain(key), "{key}");
        }
    }
}
