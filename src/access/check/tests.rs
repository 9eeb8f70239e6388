//! Tests of the connection test: against the twin in memory with every call failing, and against the local S3 behind a gate that refuses
//! as bucket policies, keys and regions do. What a person sees is in `tests/golden/check.txt`.

use std::collections::BTreeSet;

use super::super::testing::{destination, settings};
use super::*;
use crate::domain::layout::Layout;
use crate::store::memory::{Fault, MemoryBucket};

impl Probed for MemoryBucket {
    fn varied(&self, _: Variation) -> Option<MemoryBucket> {
        None
    }

    fn region(&self) -> Option<String> {
        None
    }
}

fn pontoon() -> Destination {
    Destination { layout: Layout::Pontoon, ..destination() }
}

fn verified() -> Destination {
    Destination { verify: true, ..destination() }
}

fn outcome(report: &Report, step: Step) -> Outcome {
    report.steps.iter().find(|line| line.step == step).unwrap().outcome
}

#[derive(Default)]
struct Memory {
    customer: MemoryBucket,
    state: MemoryBucket,
    staging: MemoryBucket,
}

impl Memory {
    fn with_staged() -> Memory {
        let memory = Memory::default();
        memory.staging.insert("events/2026-01-15/a.json", "{}");
        memory
    }

    async fn check(&self, destination: &Destination) -> Report {
        let signer = Ok("our own".to_owned());
        check(&settings(), destination, signer, &self.customer, &self.state, &self.staging).await
    }

    fn is_clean(&self) -> bool {
        self.customer.objects().is_empty() && self.customer.open_uploads().is_empty()
    }
}

#[tokio::test]
async fn a_bucket_that_allows_everything_is_left_as_it_was() {
    for destination in [destination(), pontoon(), verified()] {
        let memory = Memory::with_staged();
        memory.customer.insert("exports/_dayport/2026-01-14.json", "{}");
        let report = memory.check(&destination).await;
        assert_eq!((report.worst(), report.failure().map(|error| error.to_string())), (None, None), "{}", report.text());
        assert_eq!(report.left_behind, [""; 0]);
        assert_eq!(memory.customer.objects().len(), 1);
        assert!(memory.customer.open_uploads().is_empty());
        let keys: BTreeSet<String> = memory.customer.calls().into_iter().map(|call| call.key).collect();
        assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["exports/_dayport/check.txt"], "no other key is touched");
        assert_eq!(report.steps.iter().map(|line| line.step).collect::<Vec<_>>(), Step::ALL);
    }
}

#[tokio::test]
async fn whatever_call_fails_the_step_is_named_and_what_is_left_is_said() {
    for destination in [destination(), pontoon(), verified()] {
        let calm = Memory::with_staged();
        calm.check(&destination).await;
        let calls = calm.customer.call_count();
        for nth in 1..=calls {
            for fault in [Fault::Before, Fault::After] {
                for dies in [false, true] {
                    let memory = Memory::with_staged();
                    if dies {
                        memory.customer.die_on(nth, fault);
                    } else {
                        memory.customer.fail_on(nth, fault);
                    }
                    let report = memory.check(&destination).await;
                    let what = format!("call {nth} {fault:?}, dies: {dies}\n{}", report.text());
                    assert!(memory.is_clean() || !report.left_behind.is_empty(), "left without a word: {what}");
                    let lost_create = fault == Fault::After && !memory.customer.open_uploads().is_empty();
                    if !dies && !lost_create {
                        assert!(memory.is_clean(), "{what}");
                    }
                    // What only cleans up is tried again; what is a step of its own is named.
                    let is_clean_up = (nth >= calls - 1 && !dies) || (nth == calls && !destination.layout.deletes());
                    assert!(report.worst() == Some(Kind::Retryable) || is_clean_up, "{what}");
                    assert_eq!(outcome(&report, Step::StagingRead), Outcome::Ok, "our side is tried all the same: {what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn whatever_call_of_our_own_side_fails_it_is_ours() {
    let calm = Memory::with_staged();
    calm.check(&destination()).await;
    for nth in 1..=calm.state.call_count() {
        let memory = Memory::with_staged();
        memory.state.fail_on(nth, Fault::Before);
        let report = memory.check(&destination()).await;
        assert_eq!(outcome(&report, Step::HeadWrite), Outcome::Refused(Kind::Retryable), "call {nth}");
        assert!(memory.is_clean());
        // A later one finds the document of the earlier, and works.
        assert_eq!(memory.check(&destination()).await.worst(), None, "call {nth}");
    }
    for (nth, step) in [(1, Step::StagingList), (2, Step::StagingRead)] {
        let memory = Memory::with_staged();
        memory.staging.fail_on(nth, Fault::Before);
        assert_eq!(outcome(&memory.check(&destination()).await, step), Outcome::Refused(Kind::Retryable));
    }
}

#[tokio::test]
async fn only_what_is_staged_for_the_destination_is_looked_at() {
    for (template, organization, prefix) in [
        ("events/{date}/", None, "events/"),
        ("{organization}/{year}/", Some("acme"), "acme/"),
        ("{date}/", None, ""),
        ("in/{organization}/{date}/", Some("{date}"), "in/"),
    ] {
        let mut settings = settings();
        settings.staging.s3_prefix = template.to_owned();
        let destination = Destination { organization: organization.map(str::to_owned), ..destination() };
        let memory = Memory::with_staged();
        check(&settings, &destination, Ok(String::new()), &memory.customer, &memory.state, &memory.staging).await;
        assert_eq!(memory.staging.calls()[0].key, prefix, "{template}");
    }
}

#[tokio::test]
async fn without_credentials_the_bucket_is_not_asked() {
    let memory = Memory::with_staged();
    let signer = Err(Error::vendor("could not read the secret"));
    let report = check(&settings(), &destination(), signer, &memory.customer, &memory.state, &memory.staging).await;
    assert_eq!(memory.customer.call_count(), 0);
    assert_eq!(report.worst(), Some(Kind::Vendor));
    assert_eq!(outcome(&report, Step::Create), Outcome::NotTried);
    assert_eq!(outcome(&report, Step::HeadWrite), Outcome::Ok);
}

#[test]
fn the_report_as_json_has_a_kind_where_a_step_was_refused() {
    let line = |step, outcome| Line { step, outcome, message: "m".to_owned() };
    let report = Report {
        destination: "acme".to_owned(),
        place: "s3://b/".to_owned(),
        steps: vec![line(Step::Create, Outcome::Ok), line(Step::HeadWrite, Outcome::Refused(Kind::Vendor))],
        left_behind: Vec::new(),
    };
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        json["steps"],
        serde_json::json!([
            { "step": "create", "outcome": "ok", "message": "m" },
            { "step": "head write", "outcome": "refused", "kind": "vendor", "message": "m" },
        ])
    );
}

#[cfg(feature = "local")]
mod gate;
