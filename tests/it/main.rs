//! The one integration test binary: Dayport as its users meet it, over a local S3 in the same process.

/// The command line: what it prints, and how it ends.
mod command;
/// The Lambda function: events in, answers, errors and log lines out.
mod function;
/// A local S3 with buckets, a configuration and clients, for all the others.
mod lab;
/// The rooms of the house: who may use whom.
mod layers;
/// The README's commands, tables and examples are what the code says.
mod readme;
/// Every file in `events/` is the request that it must be.
mod trigger;
