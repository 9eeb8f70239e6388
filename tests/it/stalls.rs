//! Invocations that stall, wake, and meet others of the same run.

use std::sync::Mutex;
use std::time::Duration;

use dayport::run::answer::{RunAnswer, RunOutcome};
use dayport::store::operation::Operation;
use futures_util::future::join_all;
use tokio::sync::watch;

use crate::lab::{HASTY, Lab};
use crate::proxy::{Fate, Proxy, Seen};
use crate::torture::{Moment, Random, Scene, Tally, each_seed};

/// What is wrong with the answer of one of several invocations of a run, if anything is.
fn odd(answer: &RunAnswer) -> Option<String> {
    let is_fine = match answer.state {
        RunOutcome::Committed | RunOutcome::AlreadyCommitted | RunOutcome::Busy => true,
        RunOutcome::Failed => answer.error.as_ref().is_some_and(|error| error.kind == "retryable"),
        _ => false,
    };
    (!is_fine).then(|| format!("one of them answered {answer:?}"))
}

/// Ends a seed: one more invocation, whatever came before, and then all has to be right.
async fn settle(scene: &Scene, lab: &Lab, moments: &[Moment], tally: &mut Tally) {
    let last = scene.invoke(&lab.services(), "again").await.remove(0);
    tally.runs += 1;
    if !matches!(last.state, RunOutcome::Committed | RunOutcome::AlreadyCommitted) {
        tally.violations.push(format!("the last one answered {last:?}"));
    }
    tally.violations.extend(scene.faults(lab, moments).await);
}

async fn raced(seed: u64, scene: &Scene) -> Tally {
    let lab = scene.lab().await;
    let proxy = Proxy::spawn(lab.address()).await;
    let random = Mutex::new(Random::new(seed));
    proxy.direct(move |_| {
        let mut random = random.lock().unwrap();
        // Now and then longer than a lease.
        let most = if random.one_in(60) { 250 } else { 6 };
        let mut pause = || Duration::from_millis(random.below(most) as u64);
        Fate::Delay(pause(), pause())
    });
    let services = lab.services_at(&proxy.url(), HASTY);
    let answers = join_all((0..8).map(|_| scene.invoke(&services, "again"))).await;
    proxy.quiet().await;
    let mut tally = Tally { runs: answers.len(), ..Tally::default() };
    tally.violations.extend(answers.iter().flatten().filter_map(odd));
    let moments = [Moment::of(&lab)];
    settle(scene, &lab, &moments, &mut tally).await;
    tally
}

#[test]
fn eight_invocations_of_one_run_at_once_land_it_once() {
    let all = each_seed("races", 16, 2, raced);
    assert!(all.runs >= 9, "eight and one more");
}

/// The first invocation stalls, all its requests with it; others come meanwhile, and take over; then it wakes.
async fn stalled(seed: u64, scene: &Scene) -> Tally {
    let mut random = Random::new(seed);
    let lab = scene.lab().await;
    let (stalling, living) = (Proxy::spawn(lab.address()).await, Proxy::spawn(lab.address()).await);
    let (opens, gate) = watch::channel(false);
    let (is_in_commit, number) = (random.one_in(2), 1 + random.below(60));
    let number = if is_in_commit { 1 + number / 4 } else { number };
    let counted = Mutex::new(0);
    stalling.direct(move |seen: &Seen| {
        let mut counted = counted.lock().unwrap();
        let counts = !is_in_commit || *counted > 0 || seen.operation == Some(Operation::CompleteMultipartUpload);
        *counted += usize::from(counts);
        if *counted >= number { Fate::Hold(gate.clone()) } else { Fate::Pass }
    });
    let (first, other) = (lab.services_at(&stalling.url(), HASTY), lab.services_at(&living.url(), HASTY));
    let others = 1 + random.below(3);
    let mut tally = Tally { runs: 1 + others, ..Tally::default() };
    let (woken, meanwhile) = tokio::join!(scene.invoke(&first, "again"), async {
        let mut patience = 2_000;
        // A first run that ends before it stalls is an ordinary one.
        while stalling.faults() == 0 && patience > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            patience -= 1;
            if scene.is_done(&crate::torture::head(&lab)) && patience > 20 {
                patience = 20;
            }
        }
        let answers = join_all((0..others).map(|_| scene.invoke(&other, "again"))).await;
        living.quiet().await;
        let moment = Moment::of(&lab);
        opens.send(true).unwrap();
        (answers, moment)
    });
    stalling.quiet().await;
    let (answers, moment) = meanwhile;
    tally.faults = usize::from(stalling.faults() > 0);
    tally.violations.extend(woken.iter().chain(answers.iter().flatten()).filter_map(odd));
    let moments = [moment, Moment::of(&lab)];
    settle(scene, &lab, &moments, &mut tally).await;
    tally
}

#[test]
fn a_holder_that_stalls_anywhere_and_wakes_after_others_took_over_changes_nothing() {
    let all = each_seed("stalls", 32, 4, stalled);
    assert!(all.faults > 0, "none stalled");
}
