//! Where each document lies in the state bucket.

use crate::domain::run::Day;
use crate::domain::settings::{Destination, State};
use crate::domain::table::{TableName, hash8};

/// The keys of one destination's documents in the state bucket.
///
/// A destination is its name *and* its bucket and prefix: moved to another place it starts anew, since nothing of what landed before is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    root: String,
    destination: String,
    id: String,
}

impl Paths {
    /// The keys for a destination.
    #[must_use]
    pub fn new(state: &State, destination: &Destination) -> Paths {
        let place = format!("{}/{}", destination.s3_bucket, destination.s3_prefix);
        Paths {
            root: state.s3_prefix.as_str().to_owned(),
            destination: destination.name.clone(),
            id: format!("{}-{}", destination.name, hash8(&place)),
        }
    }

    /// The destination's name.
    #[must_use]
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// `heads/<id>.json`.
    #[must_use]
    pub fn head(&self) -> String {
        format!("{}heads/{}.json", self.root, self.id)
    }

    /// `runs/<id>/`: every run of the destination.
    #[must_use]
    pub fn runs(&self) -> String {
        format!("{}runs/{}/", self.root, self.id)
    }

    /// `runs/<id>/<day>/`: every generation of a day.
    #[must_use]
    pub fn day(&self, day: Day) -> String {
        format!("{}{day}/", self.runs())
    }

    /// `runs/<id>/<day>/<generation>/`: one run's documents.
    #[must_use]
    pub fn run(&self, day: Day, generation: u32) -> String {
        format!("{}{generation}/", self.day(day))
    }

    /// `.../state.json`: where a run stands.
    #[must_use]
    pub fn run_state(&self, day: Day, generation: u32) -> String {
        format!("{}state.json", self.run(day, generation))
    }

    /// `.../commit-<attempt>.json`: all that rolling a commit forward needs.
    #[must_use]
    pub fn commit(&self, day: Day, generation: u32, attempt: u32) -> String {
        format!("{}commit-{attempt}.json", self.run(day, generation))
    }

    /// `.../manifest.json`: the vendor's copy of what the customer is told.
    #[must_use]
    pub fn manifest(&self, day: Day, generation: u32) -> String {
        format!("{}manifest.json", self.run(day, generation))
    }

    /// `registry/<id>/<table>/v000001.json`: one version of a table's pinned schema.
    #[must_use]
    pub fn registry(&self, table: &TableName, version: u32) -> String {
        format!("{}registry/{}/{table}/v{version:06}.json", self.root, self.id)
    }

    /// `quarantine/<destination>/<day>/<generation>-<attempt>/part-<number>.ndjson.gz`.
    ///
    /// The number counts `part` within `shard` (shard × 10,000 + part), so that shards need not know of each other.
    #[must_use]
    pub fn quarantine(&self, day: Day, generation: u32, attempt: u32, shard: u32, part: u32) -> String {
        let number = u64::from(shard) * 10_000 + u64::from(part);
        format!("{}quarantine/{}/{day}/{generation}-{attempt}/part-{number}.ndjson.gz", self.root, self.destination)
    }
}
