//! One day to one destination: plan, journal, commit; everything that makes a run happen once, or not at all.
//!
//! Two stores take part. The state bucket (`List + Read + Write`) holds the [`head`] of each destination, the [`journal`] of each run,
//! the [`registry`] and the [`quarantine`]; the customer's bucket is only written to (`Multipart + Write + Delete`). The head alone
//! decides: what it does not hold, by a conditional write of whoever holds its lease, has not happened.

pub mod answer;
#[cfg(test)]
mod changes;
pub mod clock;
pub mod commit;
pub mod compose;
#[cfg(test)]
mod deadlines;
pub mod declare;
pub mod document;
pub mod driver;
pub mod due;
pub mod export;
pub mod head;
pub mod journal;
pub mod late;
pub mod lease;
#[cfg(test)]
mod lifecycle;
pub mod manifest;
#[cfg(test)]
mod model;
pub mod paths;
pub mod plan;
pub mod quarantine;
#[cfg(test)]
mod races;
pub mod rebuild;
pub mod registry;
pub mod standing;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod verify;
#[cfg(test)]
mod whole_days;
