//! What people and alarms read: log lines that are counted, and an answer as text.

pub mod metrics;
pub mod progress;
