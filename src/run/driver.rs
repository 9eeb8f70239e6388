//! One day to one destination, from the lease to the answer.

use crate::domain::error::Error;
use crate::domain::run::{Day, RunId};
use crate::domain::settings::{Destination, Settings};
use crate::run::answer::RunAnswer;
use crate::store::ports::{Delete, List, Multipart, Read, Write};

/// What the rim knows and a run asks for: clocks, the invocation's limits, and who wants to see progress.
pub struct Rim<'a> {
    /// Milliseconds since 1970.
    pub now_millis: &'a (dyn Fn() -> i64 + Sync),
    /// Milliseconds that are left of this invocation; `None` where nothing limits it.
    pub millis_left: &'a (dyn Fn() -> Option<u64> + Sync),
    /// Told how far the run is.
    pub on_progress: &'a (dyn Fn(Progress) + Sync),
    /// The crash point `panic_on_object`, where the environment sets it.
    pub panic_on_object: Option<String>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The run will read so many staged bytes.
    Total(u64),
    /// It has read so many more.
    Read(u64),
    /// All files are uploaded; the commit begins.
    Committing,
}

/// The three buckets of a run.
pub struct Stores<'a, S, V, C> {
    /// Where the day is staged.
    pub staging: &'a S,
    /// Where the state is.
    pub state: &'a V,
    /// The customer's.
    pub customer: &'a C,
}

/// Runs one day to one destination as far as this invocation gets, and answers; a failure is an answer too.
///
/// `force` is the id of the trigger that asked for a re-run.
pub async fn run_day<S, V, C>(
    rim: &Rim<'_>,
    settings: &Settings,
    destination: &Destination,
    stores: Stores<'_, S, V, C>,
    day: Day,
    force: Option<&str>,
) -> RunAnswer
where
    S: List + Read + Clone + Send + Sync,
    V: List + Read + Write + Send + Sync,
    C: Multipart + Write + Delete + Send + Sync,
{
    let run = RunId { destination: destination.name.clone(), day };
    let _ = (rim, settings, stores, force);
    RunAnswer::failed(&run, &Error::bug("runs are not built yet"))
}
