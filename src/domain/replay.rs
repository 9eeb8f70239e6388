//! Where records that are staged once more lie: in the state bucket, for one destination, by the day that delivers them.

use super::run::Day;
use super::settings::{Destination, State};

/// `<state>spool/<destination>/replay/`.
#[must_use]
pub fn folder(state: &State, destination: &Destination) -> String {
    format!("{}spool/{}/replay/", state.s3_prefix, destination.name)
}

/// `<state>spool/<destination>/replay/<day>/`: as a staged prefix, so that a configured table's folder may follow.
#[must_use]
pub fn day_folder(state: &State, destination: &Destination, day: Day) -> String {
    format!("{}{day}/", folder(state, destination))
}

/// What of a key is below the folder of its day, if it is one of these.
#[must_use]
pub fn below<'k>(state: &State, destination: &Destination, key: &'k str) -> Option<&'k str> {
    let (_day, below) = key.strip_prefix(&folder(state, destination))?.split_once('/')?;
    Some(below)
}
