//! The two file formats that land.

use serde::{Deserialize, Serialize};

/// A destination's file format (CONTRACT.md §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One record a line, byte for byte, gzip.
    Json,
    /// Typed columns, Snappy.
    Parquet,
}

impl Format {
    /// The file name's ending, without a dot.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Format::Json => "json.gz",
            Format::Parquet => "parquet",
        }
    }

    /// The format of the file `key`, by its name's ending.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Format> {
        [Format::Json, Format::Parquet]
            .into_iter()
            .find(|format| key.strip_suffix(format.extension()).is_some_and(|name| name.ends_with('.')))
    }

    /// The object's Content-Type. There is never a Content-Encoding: a client that unpacked a `.gz` on the way would hand its reader
    /// plain text under a gzip name.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/gzip",
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }

    /// `target_file_size` when the configuration has none, in bytes of the finished object.
    #[must_use]
    pub fn default_target_file_size(self) -> u64 {
        match self {
            Format::Json => 64 << 20,
            Format::Parquet => 256 << 20,
        }
    }
}
