//! A queue as a way into staging: its messages become staged objects of the state bucket, which runs read like any other.
//!
//! [`notification`] says what a message holds, [`intake`] makes it durable, [`drain`] empties a queue (or a trigger hands messages over),
//! and [`staged`] shows a run what was spooled for its day, each message and each notified object once. A message is deleted only when
//! all that it holds is durable.

pub mod book;
pub mod drain;
pub mod intake;
pub mod notification;
pub mod refused;
pub mod staged;

#[cfg(test)]
mod tests;
