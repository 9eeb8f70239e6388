//! See `bodies/shred.rs`.

#![no_main]

#[path = "../bodies/shred.rs"]
mod shred;

libfuzzer_sys::fuzz_target!(|data: &[u8]| shred::run(data));
