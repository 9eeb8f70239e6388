//! Messages of the staging queue: drained before a run plans its day, or handed over by the queue's trigger.

use super::{Answer, Invocation, Services};
use crate::domain::error::{Error, Result};
use crate::domain::settings::QueueMode;
use crate::spool::book::{Places, account_and_name};
use crate::spool::drain::{Pace, drain};
use crate::spool::intake::Intake;
use crate::spool::staged::Before;
use crate::store::queue::Message;
use crate::store::s3::{S3Bucket, plain};

/// Drains the staging queue once an invocation, where the configuration says that runs do.
pub(super) struct DrainOnce<'s> {
    pub(super) services: &'s Services,
    pub(super) invocation: &'s Invocation,
}

impl Before for DrainOnce<'_> {
    async fn prepare(&self) -> Result<()> {
        let DrainOnce { services, invocation } = self;
        let staging = &services.settings.staging;
        let Some((queue, settings)) = services.queue.as_ref().zip(staging.queue.as_ref()) else { return Ok(()) };
        if settings.mode != QueueMode::Drain {
            return Ok(());
        }
        let mut drained = services.drained.lock().await;
        if drained.as_deref() == Some(invocation.id()) {
            return Ok(());
        }
        let places = Places::new(&services.settings.state, &settings.url);
        let margin = services.settings.run.margin_millis();
        let is_time_over = || invocation.millis_left().is_some_and(|left| left <= margin);
        let intake = services.intake(&places);
        // On the heap, as a run's future.
        let report = Box::pin(drain(queue, &intake, Pace::default(), (services.now_millis)(), &is_time_over)).await?;
        report.log();
        *drained = Some(invocation.id().to_owned());
        Ok(())
    }
}

impl Services {
    fn intake<'s>(&'s self, places: &'s Places) -> Intake<'s, S3Bucket, S3Bucket> {
        Intake { settings: &self.settings, places, staging: &self.staging, state: &self.state }
    }

    /// Takes in messages that a queue handed over; the answer names those that have to come again.
    ///
    /// Fails, and with that gives all of them back, where none could be taken in or the queue is none of the configuration's.
    pub(super) async fn take_in(&self, queue: &str, messages: &[Message]) -> Result<Answer> {
        let configured =
            self.settings.staging.queue.as_ref().filter(|known| account_and_name(&known.url) == account_and_name(queue));
        let Some(configured) = configured else {
            return Err(Error::vendor(format!(
                "the event comes from the queue `{}`, which the configuration does not name, set `run.work_queue_url` or `staging.sqs_queue_url`, or remove the trigger",
                plain(queue)
            )));
        };
        let places = Places::new(&self.settings.state, &configured.url);
        let outcome = Box::pin(self.intake(&places).take(messages)).await;
        outcome.report.log();
        let failed: Vec<String> =
            outcome.failed.keys().filter_map(|at| messages.get(*at)).map(|message| message.id.clone()).collect();
        let Some(error) = outcome.failed.values().next() else { return Ok(Answer::of_messages(failed)) };
        let told = format!("{} of {} messages could not be spooled and will come again: {error}", failed.len(), messages.len());
        if failed.len() == messages.len() {
            return Err(Error::new(error.kind(), told));
        }
        tracing::error!(kind = error.kind().name(), "{told}");
        Ok(Answer::of_messages(failed))
    }
}
