//! What everything else speaks of: errors, days, tables, layouts, schemas, ready settings. Knows no other room.

pub mod counts;
pub mod error;
pub mod format;
pub mod hex;
pub mod layout;
pub mod replay;
pub mod run;
pub mod schema;
pub mod settings;
#[cfg(feature = "aws")]
pub mod spelling;
pub mod staged;
pub mod table;
