//! What is looked at and not run: what landed, where every day stands.

use super::{Services, named};
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::domain::settings::Destination;
use crate::report::status::StatusReport;
use crate::report::verify::VerifyReport;
use crate::run::commit::committed;
use crate::run::document;
use crate::run::head::{CommitRef, Head};
use crate::run::journal;
use crate::run::paths::Paths;
use crate::run::standing::{Asked, standings};
use crate::run::verify::{Landed, verify};
use crate::spool::staged::SpooledStaging;
use crate::store::s3::S3Bucket;

impl Services {
    /// Re-reads what a committed day landed in a destination and compares it with the manifest.
    ///
    /// Fails with kind `Vendor` where the day is not committed, `Retryable` while a commit is being finished, and as the store does where
    /// the customer's bucket can't be listed.
    pub async fn verify(&self, name: &str, day: Day) -> Result<VerifyReport> {
        let (destination, customer, paths) = self.target(name)?;
        let head: Head = document::read_or_default(&self.state, &paths.head()).await?;
        let commit = self.commit_to_verify(&head, &paths, day).await?;
        let commit_document = committed(&self.state, &paths, day, commit).await?;
        let landed = Landed::of(&commit_document, &head, true)?;
        // On the heap, as a run's.
        let found = Box::pin(verify(customer, &landed)).await?;
        Ok(VerifyReport {
            destination: destination.name.clone(),
            date: day,
            generation: commit.generation,
            place: format!("s3://{}", paths.place()),
            found,
        })
    }

    async fn commit_to_verify(&self, head: &Head, paths: &Paths, day: Day) -> Result<CommitRef> {
        let is_moving = |(of, open): &(&Day, &crate::run::head::OpenRun)| {
            open.commit.is_some() && !open.dead && (**of == day || !open.landed)
        };
        if let Some((of, _)) = head.open.iter().find(is_moving) {
            return Err(Error::retryable(format!(
                "the commit of {of} to `{}` is not finished, run that day first",
                paths.destination()
            )));
        }
        let done = match head.commits.get(&day) {
            Some(done) => Some(done.commit),
            None if head.may_have_forgotten(day) => journal::last_commit(&self.state, paths, day).await?.map(|done| done.commit),
            None => None,
        };
        done.ok_or_else(|| {
            let name = paths.destination();
            Error::vendor(format!(
                "{day} is not committed to `{name}` at `s3://{}`, run it first (`dayport status {name}` shows which days are)",
                paths.place()
            ))
        })
    }

    /// Where every destination stands, or the one of that name: the latest `days` committed days, and all that are not done.
    pub async fn status(&self, name: Option<&str>, days: usize) -> Result<StatusReport> {
        let asked = Asked { name, days, today: self.today()? };
        // Nothing is taken from a queue only to look.
        let staging = |destination| SpooledStaging::new(&self.settings, destination, &self.staging, &self.state, ());
        let destinations = Box::pin(standings(&self.state, staging, &self.settings, asked)).await?;
        Ok(StatusReport { destinations })
    }

    /// The day of the clock, in UTC.
    pub(super) fn today(&self) -> Result<Day> {
        let day = Day::from_epoch_micros((self.now_millis)().saturating_mul(1000));
        day.ok_or_else(|| Error::vendor("the machine's clock is not between 1970 and 9998, set it"))
    }

    /// A destination with its client and the keys of its documents.
    pub(super) fn target(&self, name: &str) -> Result<(&Destination, &S3Bucket, Paths)> {
        let destination = named(name, &self.settings.destinations)?;
        let customer = self.customers.get(&destination.name);
        let customer = customer.ok_or_else(|| Error::bug("the destination has no client, please report it"))?;
        Ok((destination, customer, Paths::new(&self.settings.state, destination)))
    }
}
