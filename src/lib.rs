//! Dayport lands a day of staged event data in each customer's own S3 bucket: typed, once, all or nothing.

#[cfg(feature = "aws")]
pub mod access;
#[cfg(all(feature = "cli", feature = "local"))]
pub mod cli;
pub mod columns;
#[cfg(feature = "aws")]
pub mod config;
pub mod domain;
pub mod files;
#[cfg(feature = "aws")]
pub mod handler;
#[cfg(feature = "local")]
pub mod local;
pub mod records;
#[cfg(feature = "aws")]
pub mod report;
#[cfg(feature = "aws")]
pub mod run;
#[cfg(feature = "cli")]
pub mod sample;
#[cfg(feature = "aws")]
pub mod spool;
#[cfg(feature = "aws")]
pub mod store;
#[cfg(feature = "aws")]
pub mod trigger;

/// A day is millions of small columns that grow and go; the C library took a tenth of its time for them, and kept more than it needed.
#[cfg(any(feature = "lambda", feature = "cli"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
