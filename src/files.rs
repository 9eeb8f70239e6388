//! Open files of the two formats, and when they end.

pub mod footer;
pub mod json;
pub mod parquet;
pub mod roll;
