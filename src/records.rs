//! Staged bytes to routed records.

pub mod json;
pub mod reader;
pub mod route;
pub mod time;
