//! See `bodies/object.rs`.

#![no_main]

#[path = "../bodies/object.rs"]
mod object;

libfuzzer_sys::fuzz_target!(|data: &[u8]| object::run(data));
