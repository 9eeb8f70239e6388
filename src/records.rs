//! From an object's staged bytes to its records: unpacking, whole lines, times. Knows `domain` alone, and no byte of it may stop a day.

pub mod decode;
pub mod lines;
pub mod time;

#[cfg(test)]
mod cases;
