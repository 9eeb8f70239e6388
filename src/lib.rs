//! Dayport lands a day of staged event data in each customer's own S3 bucket: typed, once, all or nothing.

pub mod domain;
#[cfg(feature = "local")]
pub mod local;
#[cfg(feature = "aws")]
pub mod store;
