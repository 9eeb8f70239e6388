//! Dayport lands a day of staged event data in each customer's own S3 bucket: typed, once, all or nothing.

pub mod domain;
pub mod records;
#[cfg(feature = "aws")]
pub mod store;
