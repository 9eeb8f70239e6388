

#[cfg(feature = "cli")]
pub mod sample;
