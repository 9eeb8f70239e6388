//! Staged bytes to routed records.

#[cfg(test)]
mod cases;
pub mod crc32;
pub mod decode;
pub mod json;
pub mod lines;
pub mod parquet;
pub mod reader;
pub mod route;
pub mod time;
