//! Everything that is proved through the library's front door: whole days over buckets, read back and compared.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test ends at the first surprise"
)]

/// Every row of `tests/cases/index.tsv`.
mod cases;
/// When a landed record is the staged one: the one definition.
mod equality;
/// Days that nobody thought of.
mod generated;
/// JSON values with numbers as they were written: the tests' own reader.
mod json;
/// Landed files, read back by the crates that users have.
mod landed;
/// No room uses another that lies above it.
mod layers;
/// A public JSON conformance suite.
mod suite;
/// Which columns a day must get: a model of its own.
mod types;
/// A vendor, a state bucket and a customer, in memory.
mod world;
