//! What people and alarms read: log lines that are counted, and answers as text.

pub mod ddl;
pub mod metrics;
pub mod progress;
pub mod schema;
pub mod status;
pub mod table;
pub mod verify;
