//! The customer's bucket: the policies that open it, the credentials that sign for it, and a test of the connection that tells the truth.

pub mod check;
pub mod credentials;
pub mod policy;

#[cfg(test)]
mod testing;
