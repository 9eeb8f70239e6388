//! Days that land through a network and a store that fail at random, and what each single kind of failure comes to.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dayport::run::answer::{RunAnswer, RunOutcome};
use dayport::store::operation::Operation::{
    self, CompleteMultipartUpload, CreateMultipartUpload, DeleteObject, GetObject, ListObjectsV2, PutObject, UploadPart,
};
use tokio::sync::watch;

use crate::lab::{HASTY, Lab};
use crate::landed::json_lines;
use crate::proxy::{Fate, Proxy, Refusal, Seen};
use crate::torture::{DAY, Kind, Moment, Random, Scene, Tally, each_seed, gzip};

/// So many invocations meet the storm; then it is over.
const STORMY: usize = 6;

/// What a request may meet, as the seed draws it.
fn fate(random: &mut Random, seen: &Seen) -> Fate {
    let sends_bytes = matches!(seen.operation, Some(UploadPart | PutObject));
    let is_packed = seen.operation == Some(GetObject) && seen.key.ends_with(".gz");
    loop {
        return match random.below(15) {
            0 | 1 => Fate::LoseRequest,
            2 | 3 => Fate::LoseAnswer,
            4 => Fate::Refuse(Refusal::SLOW_DOWN),
            5 => Fate::Refuse(Refusal::INTERNAL),
            6 => Fate::DoAndRefuse(Refusal::SLOW_DOWN),
            7 => Fate::DoAndRefuse(Refusal::INTERNAL),
            8 if seen.operation == Some(CompleteMultipartUpload) => Fate::Refuse(Refusal::LATE),
            9 if seen.operation == Some(CompleteMultipartUpload) => Fate::DoAndRefuse(Refusal::LATE),
            10 if random.one_in(4) => Fate::Refuse(Refusal::DENIED),
            11 => Fate::Refuse(Refusal::ELSEWHERE),
            12 => Fate::CutAnswer(random.below(3_000)),
            13 if sends_bytes => Fate::FlipRequest(random.below(1 << 20)),
            // Bytes that nothing but TLS protects are left alone.
            13 if is_packed => Fate::FlipAnswer(random.below(1 << 20)),
            14 => {
                let mut pause = || Duration::from_millis(random.below(40) as u64);
                Fate::Delay(pause(), pause())
            }
            _ => continue,
        };
    }
}

async fn stormed(seed: u64, scene: &Scene) -> Tally {
    let mut random = Random::new(seed);
    let lab = scene.lab().await;
    let proxy = Proxy::spawn(lab.address()).await;
    let odds = [2, 3, 4, 8, 30][random.below(5)];
    let drawn = Mutex::new(random);
    proxy.direct(move |seen| {
        let mut random = drawn.lock().unwrap();
        if random.one_in(odds) { fate(&mut random, seen) } else { Fate::Pass }
    });
    let services = lab.services_at(&proxy.url(), HASTY);
    let mut tally = Tally::default();
    let mut moments = Vec::new();
    loop {
        if tally.runs == STORMY {
            proxy.direct(|_| Fate::Pass);
        }
        let answer = scene.invoke(&services, "again").await.remove(0);
        tally.runs += 1;
        proxy.quiet().await;
        moments.push(Moment::of(&lab));
        let kind = answer.error.as_ref().map_or("", |error| error.kind);
        match answer.state {
            RunOutcome::Committed | RunOutcome::AlreadyCommitted => break,
            RunOutcome::Failed if kind != "bug" && tally.runs < STORMY + 2 => {}
            _ => {
                tally.violations.push(format!("invocation {} answered {answer:?}", tally.runs));
                break;
            }
        }
    }
    tally.faults = proxy.faults();
    tally.violations.extend(scene.faults(&lab, &moments).await);
    tally
}

#[test]
fn a_day_that_lands_through_a_storm_shows_none_or_right_files_only_and_ends_as_an_undisturbed_one() {
    let all = each_seed("storms", 48, 4, stormed);
    assert!(!all.is_telling() || all.faults > 5 * all.runs / 2, "{} faults in {} runs are no storm", all.faults, all.runs);
}

const FIRST_RUN: Kind = Kind { layout: "permutive", format: "json", is_rerun: false };

fn failed(answer: &RunAnswer) -> (&'static str, String) {
    assert_eq!(answer.state, RunOutcome::Failed, "{answer:?}");
    let error = answer.error.clone().unwrap();
    (error.kind, error.message)
}

/// The day, run once through a proxy with these fates, and once more in peace: the first answer. Panics unless all is right at the end.
async fn mended(scene: &Scene, director: impl Fn(&Seen) -> Fate + Send + Sync + 'static) -> RunAnswer {
    let lab = scene.lab().await;
    let proxy = Proxy::spawn(lab.address()).await;
    proxy.direct(director);
    let services = lab.services_at(&proxy.url(), HASTY);
    let first = scene.invoke(&services, "again").await.remove(0);
    proxy.quiet().await;
    let moment = Moment::of(&lab);
    assert!(proxy.faults() > 0, "nothing happened to any request");
    proxy.direct(|_| Fate::Pass);
    let second = scene.invoke(&services, "again").await.remove(0);
    assert!(matches!(second.state, RunOutcome::Committed | RunOutcome::AlreadyCommitted), "{first:?}, then {second:?}");
    let faults = scene.faults(&lab, &[moment]).await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    first
}

#[tokio::test]
async fn a_bit_that_turns_on_its_way_to_the_bucket_never_lands() {
    let scene = Scene::new(Kind { format: "parquet", ..FIRST_RUN }).await;
    let is_ours = |seen: &Seen| seen.bucket == "acme" && matches!(seen.operation, Some(UploadPart | PutObject));
    // Once in a while: the bytes are sent again.
    let sent = AtomicUsize::new(0);
    let answer = mended(&scene, move |seen| {
        let number = sent.fetch_add(usize::from(is_ours(seen)), Ordering::SeqCst);
        if is_ours(seen) && number.is_multiple_of(2) { Fate::FlipRequest(number * 7_919) } else { Fate::Pass }
    });
    assert_eq!(answer.await.state, RunOutcome::Committed);
    // Always: the run fails, and nothing can be seen.
    let answer = mended(&scene, move |seen| if is_ours(seen) { Fate::FlipRequest(seen.number * 31) } else { Fate::Pass }).await;
    let (kind, message) = failed(&answer);
    assert!(kind == "retryable" && message.contains("damaged on their way"), "{kind}: {message}");
}

#[tokio::test]
async fn a_bit_that_turns_on_its_way_from_staging_is_found_or_changes_nothing() {
    let scene = Scene::new(FIRST_RUN).await;
    let mut found = 0;
    // The first ones lie in the gzip header, where some bits mean nothing; the last ones in its checksum and length. (The first two
    // bytes say that it is gzip at all: without them it is a text of lines that are no records, and these are quarantined.)
    for bit in [35, 40, 75, 90, 1_000, 2_000, 4_000, 7_000] {
        let answer = mended(&scene, move |seen| {
            let is_it = seen.operation == Some(GetObject) && seen.key.ends_with("0.ndjson.gz");
            if is_it { Fate::FlipAnswer(bit) } else { Fate::Pass }
        });
        let answer = answer.await;
        if answer.state == RunOutcome::Failed {
            let (kind, message) = failed(&answer);
            assert!(kind == "vendor" && message.contains("0.ndjson.gz"), "bit {bit}, {kind}: {message}");
            found += 1;
        }
    }
    assert!(found >= 5, "{found} of eight were found");
}

#[tokio::test]
async fn a_right_that_is_taken_away_in_the_middle_is_the_customers_and_the_day_goes_on_when_it_is_back() {
    let scene = Scene::new(Kind { is_rerun: true, ..FIRST_RUN }).await;
    for operation in [CreateMultipartUpload, UploadPart, CompleteMultipartUpload, DeleteObject, PutObject] {
        let answer = mended(&scene, move |seen| {
            let is_it = seen.bucket == "acme" && seen.operation == Some(operation);
            if is_it { Fate::Refuse(Refusal::DENIED) } else { Fate::Pass }
        });
        let (kind, message) = failed(&answer.await);
        assert!(kind == "customer" && message.contains(operation.action()), "{operation}, {kind}: {message}");
    }
}

#[tokio::test]
async fn a_completion_whose_200_holds_an_error_is_no_success() {
    let scene = Scene::new(FIRST_RUN).await;
    for lasting in [Fate::Refuse(Refusal::LATE), Fate::DoAndRefuse(Refusal::LATE), Fate::CutAnswer(0), Fate::CutAnswer(60)] {
        // Only the third: the files before it may stand, those after it too.
        let answer = mended(&scene, move |seen| {
            let is_it = seen.operation == Some(CompleteMultipartUpload) && seen.key.contains("domains");
            if is_it { lasting.clone() } else { Fate::Pass }
        });
        let (kind, message) = failed(&answer.await);
        assert!(kind == "retryable" && message.contains("data/domains/"), "{kind}: {message}");
    }
}

#[tokio::test]
async fn a_bucket_that_answers_from_another_region_is_followed_there() {
    let scene = Scene::new(FIRST_RUN).await;
    let asked = AtomicUsize::new(0);
    let answer = mended(&scene, move |seen| {
        let is_first = seen.bucket == "acme" && asked.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first { Fate::Refuse(Refusal::ELSEWHERE) } else { Fate::Pass }
    });
    assert_eq!(answer.await.state, RunOutcome::Committed);
}

#[tokio::test]
async fn throttling_of_seconds_is_outlasted_by_the_command() {
    let scene = Scene::new(FIRST_RUN).await;
    let lab = scene.lab().await;
    let proxy = Proxy::spawn(lab.address()).await;
    let begun = Mutex::new(None);
    proxy.direct(move |seen| {
        let is_asked = seen.bucket == "acme";
        let mut begun = begun.lock().unwrap();
        let begun = *begun.get_or_insert_with(Instant::now);
        if is_asked && begun.elapsed() < Duration::from_secs(3) { Fate::Refuse(Refusal::SLOW_DOWN) } else { Fate::Pass }
    });
    let mut command = lab.command(&["run", "--date", DAY]);
    command.env("AWS_ENDPOINT_URL", proxy.url());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(proxy.faults() > 2, "{} requests were throttled", proxy.faults());
    assert_eq!(scene.faults(&lab, &[]).await, Vec::<String>::new());
}

fn lines(count: usize) -> String {
    let mut random = Random::new(7);
    let line = |n| {
        format!(
            "{{\"event_name\":\"Pageview\",\"time\":1768471200,\"n\":{n},\"x\":\"{:032x}\"}}\n",
            u128::from(random.next()) << 40
        )
    };
    (0..count).map(line).collect()
}

/// A lab with one JSON destination, and a proxy before its S3.
async fn json_lab() -> (Lab, Proxy) {
    let mut lab = Lab::new().await;
    lab.settings(&format!("{}format = \"json\"\n", crate::lab::CONFIGURATION));
    let proxy = Proxy::spawn(lab.address()).await;
    (lab, proxy)
}

async fn run(lab: &Lab, proxy: &Proxy) -> RunAnswer {
    use dayport::handler::{Failure, Invocation, Nobody, handle};
    let services = lab.services_at(&proxy.url(), HASTY);
    let asked = crate::lab::by_hand(DAY, false);
    match handle(&services, &asked, &Invocation::unlimited("one"), &Nobody).await {
        Ok(mut answer) | Err(Failure { answer: Some(mut answer), .. }) => answer.runs.remove(0),
        Err(failure) => panic!("{failure:?}"),
    }
}

async fn landed_lines(lab: &Lab) -> Vec<String> {
    let files = lab.files("acme").into_iter().filter(|(key, _)| !key.starts_with("_dayport/"));
    files.flat_map(|(_, bytes)| json_lines(&bytes)).collect()
}

#[tokio::test]
async fn a_read_that_breaks_at_a_random_byte_again_and_again_gives_the_same_rows() {
    let text = lines(4_000);
    for packed in [true, false] {
        for seed in 1..4 {
            let (lab, proxy) = json_lab().await;
            let bytes = if packed { gzip(&text) } else { text.clone().into_bytes() };
            let size = bytes.len();
            lab.stage(&format!("events/{DAY}/a"), bytes).await;
            let random = Mutex::new((Random::new(seed), 0));
            proxy.direct(move |seen| {
                let (random, breaks) = &mut *random.lock().unwrap();
                let is_it = seen.operation == Some(GetObject) && seen.bucket == "staging" && *breaks < 6;
                *breaks += usize::from(is_it);
                if is_it { Fate::CutAnswer(1 + random.below(size / 8)) } else { Fate::Pass }
            });
            let answer = run(&lab, &proxy).await;
            assert_eq!(answer.state, RunOutcome::Committed, "{answer:?}");
            assert_eq!(proxy.faults(), 6, "each broken read was followed by another");
            assert!(landed_lines(&lab).await.iter().map(String::as_str).eq(text.lines()), "seed {seed}");
        }
    }
}

#[tokio::test]
async fn an_object_that_is_overwritten_in_the_middle_of_its_read_fails_the_run() {
    let (lab, proxy) = json_lab().await;
    let key = format!("events/{DAY}/a");
    lab.stage(&key, lines(4_000)).await;
    let (opens, gate) = watch::channel(false);
    let reads = AtomicUsize::new(0);
    proxy.direct(move |seen| match seen.operation {
        Some(GetObject) if seen.bucket == "staging" => match reads.fetch_add(1, Ordering::SeqCst) {
            0 => Fate::CutAnswer(100_000),
            _ => Fate::Hold(gate.clone()),
        },
        _ => Fate::Pass,
    });
    let (answer, ()) = tokio::join!(run(&lab, &proxy), async {
        // Its first bytes were read, and the next ones are asked for.
        while proxy.faults() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        lab.stage(&key, lines(4_001)).await;
        opens.send(true).unwrap();
    });
    let (kind, message) = failed(&answer);
    assert!(kind == "retryable" && message.contains(&key) && message.contains("changed while it was read"), "{kind}: {message}");
    assert!(lab.files("acme").is_empty());
    proxy.direct(|_| Fate::Pass);
    assert_eq!(run(&lab, &proxy).await.counts.delivered, 4_001, "the next one takes it as it is now");
}

#[tokio::test]
async fn a_listing_whose_pages_are_lost_and_cut_is_still_whole() {
    let (lab, proxy) = json_lab().await;
    let all: Vec<String> = lines(1_100).lines().map(str::to_owned).collect();
    let folder = lab.bucket_folder("staging").join(format!("events/{DAY}"));
    std::fs::create_dir_all(&folder).unwrap();
    for (number, line) in all.iter().enumerate() {
        std::fs::write(folder.join(format!("part-{number:05}")), line).unwrap();
    }
    let pages = AtomicUsize::new(0);
    proxy.direct(move |seen| match seen.operation {
        Some(ListObjectsV2) if seen.bucket == "staging" => match pages.fetch_add(1, Ordering::SeqCst) {
            0 | 3 => Fate::LoseAnswer,
            1 | 4 => Fate::CutAnswer(20_000),
            _ => Fate::Pass,
        },
        _ => Fate::Pass,
    });
    let answer = run(&lab, &proxy).await;
    assert_eq!(answer.counts.delivered, 1_100, "{answer:?}");
    assert_eq!(proxy.faults(), 4);
    assert_eq!(landed_lines(&lab).await, all);
}

/// All that the proxy knows to do is done to a request in some test above; this one makes sure that it sees what is asked.
#[tokio::test]
async fn a_proxy_that_is_told_nothing_sees_every_operation_of_a_rerun_and_changes_nothing() {
    let scene = Scene::new(Kind { is_rerun: true, ..FIRST_RUN }).await;
    let lab = scene.lab().await;
    let proxy = Proxy::spawn(lab.address()).await;
    let (tell, told) = std::sync::mpsc::channel();
    let tell = Mutex::new(tell);
    proxy.direct(move |seen| {
        tell.lock().unwrap().send((seen.bucket.clone(), seen.operation)).unwrap();
        Fate::Pass
    });
    let answer = scene.invoke(&lab.services_at(&proxy.url(), HASTY), "again").await.remove(0);
    assert_eq!((answer.state, proxy.faults()), (RunOutcome::Committed, 0));
    let seen: std::collections::BTreeSet<(String, Option<Operation>)> = told.try_iter().collect();
    assert!(proxy.requests() > seen.len());
    let of =
        |bucket: &str| seen.iter().filter(|(of, _)| of == bucket).map(|(_, operation)| operation.unwrap()).collect::<Vec<_>>();
    assert_eq!(of("staging"), [ListObjectsV2, GetObject]);
    assert_eq!(of("state"), [ListObjectsV2, GetObject, PutObject]);
    assert_eq!(of("acme"), [PutObject, CreateMultipartUpload, UploadPart, CompleteMultipartUpload, DeleteObject]);
    assert_eq!(scene.faults(&lab, &[]).await, Vec::<String>::new());
}
