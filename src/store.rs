//! Buckets: one trait per permission, S3 behind them, and a twin in memory for tests.

pub mod ports;
