//! `dayport run` as a process that is killed at any request, and started again until it has ended.

use std::process::{Child, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dayport::store::operation::Operation;

use crate::lab::Lab;
use crate::proxy::{Fate, Moment as Death, Proxy, Seen};
use crate::torture::{DAY, Moment, Random, Scene, Tally, each_seed, head};

/// So often a run is killed at most, so that each seed ends.
const MOST_KILLS: usize = 4;

/// At which request a process dies.
#[derive(Clone, Copy, Debug)]
enum At {
    Never,
    /// The nth.
    Request(usize),
    /// The nth from the first completion of an upload on: the commit is a short part of a run, and the one that matters.
    Commit(usize),
}

/// Runs the command to its end, which may be a violent one; its output, if it ended by itself.
async fn run(lab: &Lab, proxy: &Proxy, is_forced: bool, at: At, moment: Death) -> Option<Output> {
    let child: Arc<Mutex<Option<Child>>> = Arc::default();
    let victim = Arc::clone(&child);
    proxy.on_kill(move || {
        if let Some(child) = victim.lock().unwrap().as_mut() {
            child.kill().unwrap();
        }
    });
    let commits = Mutex::new(0);
    proxy.direct(move |seen: &Seen| {
        let mut commits = commits.lock().unwrap();
        if *commits > 0 || seen.operation == Some(Operation::CompleteMultipartUpload) {
            *commits += 1;
        }
        let is_due = match at {
            At::Never => false,
            At::Request(number) => seen.number == number,
            At::Commit(number) => *commits == number,
        };
        if is_due { Fate::Kill(moment) } else { Fate::Pass }
    });
    let mut arguments = vec!["run", "--date", DAY, "--output", "json"];
    arguments.extend(is_forced.then_some("--force"));
    let mut command = lab.command(&arguments);
    command.env("AWS_ENDPOINT_URL", proxy.url()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    {
        // Nobody kills it before it is there.
        let mut child = child.lock().unwrap();
        *child = Some(command.spawn().unwrap());
    }
    let status = loop {
        if let Some(status) = child.lock().unwrap().as_mut().unwrap().try_wait().unwrap() {
            break status;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    proxy.on_kill(|| {});
    // What it sent before it died may still have its effect.
    proxy.quiet().await;
    let child = child.lock().unwrap().take().unwrap();
    status.code().map(|_| child.wait_with_output().unwrap())
}

/// Kills a run at requests that the seed draws, until it has ended in spite of it.
async fn killed(seed: u64, scene: &Scene) -> Tally {
    let mut random = Random::new(seed);
    let lab = scene.lab().await;
    let proxy = Proxy::spawn(lab.address()).await;
    let mut tally = Tally::default();
    let mut moments = Vec::new();
    let deaths = 1 + random.below(MOST_KILLS);
    loop {
        let at = match random.below(2) {
            _ if tally.kills == deaths => At::Never,
            0 => At::Request(1 + random.below(100)),
            _ => At::Commit(1 + random.below(20)),
        };
        let moment = match random.below(3) {
            0 => Death::Before,
            1 => Death::After,
            _ => Death::Answered(Duration::from_micros(random.below(3_000) as u64)),
        };
        // A trigger that was interrupted is another one when it is given again, so a re-run that has begun is only gone on with.
        let standing = head(&lab);
        let is_begun = standing.open.contains_key(&DAY.parse().unwrap()) || scene.is_done(&standing);
        let is_forced = scene.kind.is_rerun && !is_begun;
        let ended = run(&lab, &proxy, is_forced, at, moment).await;
        tally.runs += 1;
        moments.push(Moment::of(&lab));
        match ended {
            None => tally.kills += 1,
            Some(output) if output.status.success() => break,
            Some(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                tally.violations.push(format!("run {} failed by itself: {said}", tally.runs));
                break;
            }
        }
    }
    tally.violations.extend(scene.faults(&lab, &moments).await);
    tally
}

#[test]
fn a_run_that_is_killed_at_any_request_shows_none_or_right_files_only_and_ends_as_an_undisturbed_one() {
    let all = each_seed("kills", 200, 4, killed);
    assert!(
        !all.is_telling() || all.kills * 2 > all.runs,
        "{} kills in {} runs are too few to mean anything",
        all.kills,
        all.runs
    );
}
