//! Dayport lands a day of staged event data in each customer's own S3 bucket: typed, once, all or nothing.

#[cfg(feature = "aws")]
pub mod config;
pub mod domain;
#[cfg(feature = "aws")]
pub mod store;
#[cfg(feature = "aws")]
pub mod trigger;
