//! Where each document lies in the state bucket.

use super::head::Head;
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
    place: String,
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
            place,
        }
    }

    /// `heads/`: every destination's head, those that the configuration no longer has among them.
    #[must_use]
    pub fn heads(state: &State) -> String {
        format!("{}heads/", state.s3_prefix)
    }

    /// The keys of the destination whose head was written at `head_key`, with the name and the place that the head says.
    #[must_use]
    pub fn of_head(state: &State, head_key: &str, head: &Head) -> Option<Paths> {
        let id = head_key.strip_prefix(&Paths::heads(state))?.strip_suffix(".json")?;
        let root = state.s3_prefix.as_str().to_owned();
        Some(Paths { root, destination: head.destination.clone(), place: head.place.clone(), id: id.to_owned() })
    }

    /// Where the destination is: its bucket and prefix, `bucket/prefix/`.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
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

    /// `.../verified.json`: what re-reading what the run landed came to.
    #[must_use]
    pub fn verified(&self, day: Day, generation: u32) -> String {
        format!("{}verified.json", self.run(day, generation))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::layout::Prefix;
    use crate::run::testing::{destination, settings};

    #[test]
    fn every_document_has_its_key() {
        let (state, destination) = (settings().state, destination("permutive"));
        let paths = Paths::new(&state, &destination);
        let day = "2026-01-15".parse().unwrap();
        let id = format!("acme-{}", hash8("acme-data/exports/"));
        assert_eq!(paths.head(), format!("dayport/heads/{id}.json"));
        assert_eq!(paths.run_state(day, 2), format!("dayport/runs/{id}/2026-01-15/2/state.json"));
        assert_eq!(paths.commit(day, 0, 3), format!("dayport/runs/{id}/2026-01-15/0/commit-3.json"));
        let table = TableName::parse("domains").unwrap();
        assert_eq!(paths.registry(&table, 12), format!("dayport/registry/{id}/domains/v000012.json"));
        assert_eq!(paths.quarantine(day, 1, 0, 12, 3), "dayport/quarantine/acme/2026-01-15/1-0/part-120003.ndjson.gz");
    }

    #[test]
    fn a_destination_that_moves_starts_anew_and_its_old_head_can_still_be_read() {
        let (state, mut destination) = (settings().state, destination("permutive"));
        let before = Paths::new(&state, &destination);
        destination.s3_prefix = Prefix::parse("elsewhere").unwrap();
        assert_ne!(Paths::new(&state, &destination).head(), before.head());
        let head = Head { destination: "acme".into(), place: "acme-data/exports/".into(), ..Head::new() };
        assert_eq!(Paths::of_head(&state, &before.head(), &head), Some(before));
    }
}
