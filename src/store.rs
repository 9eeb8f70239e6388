//! Buckets: one trait per permission, S3 behind them, and a twin in memory for tests.

pub mod checksum;
pub mod memory;
pub mod operation;
pub mod ports;
pub mod resume;
pub mod s3;

#[cfg(test)]
mod contract;
