//! The one integration test binary: Dayport as its users meet it, and whole days read back and compared.

#![allow(
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test ends at the first surprise, and its own patience is measured by the clock"
)]

/// Policies and connection tests, as commands and as an event.
mod access;
/// Every row of `tests/cases/index.tsv`.
mod cases;
/// The command line: what it prints, and how it ends.
mod command;
/// The bodies of the fuzz targets, over seeds and mutations.
mod corpus;
/// Each id once, whatever the run is like.
mod dedupe;
/// When a landed record is the staged one: the one definition.
mod equality;
/// Days that go wrong: broken reads, damage, limits, quarantine.
mod faults;
/// The Lambda function: events in, answers, errors and log lines out.
mod function;
/// Days that nobody thought of.
mod generated;
/// Every promise of `docs/guarantees.md` and its tests.
mod guarantees;
/// Days made to exhaust memory.
mod hostile;
/// Names that other people chose, and where they might lead.
mod injection;
/// Commands that look: verify, status, schema, ddl.
mod inspect;
/// JSON values with numbers as they were written: the tests' own reader.
mod json;
/// Runs that are killed at any request, as processes, until they have ended.
mod kills;
/// A local S3 with buckets, a configuration and clients, for all the others.
mod lab;
/// Landed files, read back by the crates that users have.
mod landed;
/// The rooms of the house: who may use whom.
mod layers;
/// Staged Parquet, as other people's writers make it.
mod parquet;
/// A proxy that loses, delays, refuses, cuts and damages what passes through it.
mod proxy;
/// What was held back: listed, shown, replayed.
mod quarantine;
/// The README's commands, tables and examples are what the code says.
mod readme;
/// Scheduled triggers: missed days, failed days, paused destinations.
mod schedule;
/// Pinned schemas by hand, and as DDL.
mod schemas;
/// A staging queue: messages handed over, late ones, whose they are.
mod spool;
/// Invocations that stall, wake, and meet others of the same run.
mod stalls;
/// Days whose every request may be lost, refused, cut or damaged on its way.
mod storms;
/// A public JSON conformance suite.
mod suite;
/// What every torture shares: days, seeds, and what must be true at every moment.
mod torture;
/// Every file in `events/` is the request that it must be.
mod trigger;
/// Which columns a day must get: a model of its own.
mod types;
/// A vendor, a state bucket and a customer, in memory.
mod world;
