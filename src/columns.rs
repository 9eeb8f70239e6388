//! JSON records to typed columns: naming, schemas that are decided by all values, shredding, rescue.

mod builder;
mod direct;
pub mod evidence;
pub mod fields;
pub mod join;
pub mod naming;
pub mod number;
pub mod pin;
mod recount;
mod rescue;
pub mod shred;
pub mod texts;
