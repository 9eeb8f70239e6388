//! Staged bytes to routed records.

pub mod decode;
pub mod json;
pub mod lines;
pub mod reader;
pub mod route;
pub mod time;
