//! Buckets and queues: one trait per permission, S3 and SQS behind them, and a twin of each in memory for tests.

pub mod checksum;
pub mod lanes;
pub mod memory;
pub mod operation;
pub mod ports;
pub mod queue;
pub mod resume;
pub mod s3;
pub mod sqs;

#[cfg(test)]
mod contract;
