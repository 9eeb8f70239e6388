//! The command line as a process: its exit codes, what goes to standard output and what to standard error.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{CONFIGURATION, Lab};

const EVENT: &str = r#"{"event_name":"Pageview","time":"2026-01-15T10:00:00Z"}"#;

/// Ends the process with the test, whatever becomes of it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn output(mut command: Command) -> (Option<i32>, String, String) {
    // The lab's S3 serves on this runtime meanwhile.
    let output = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output().unwrap());
    let Output { status, stdout, stderr } = output.await.unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

pub(crate) async fn dayport(lab: &Lab, arguments: &[&str]) -> (Option<i32>, String, String) {
    output(lab.command(arguments)).await
}

fn end(running: &mut Running, signal: &str) -> Option<i32> {
    assert!(Command::new("kill").args([signal, &running.0.id().to_string()]).status().unwrap().success());
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if let Some(status) = running.0.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the process did not end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_day_is_staged_landed_and_told() {
    let lab = Lab::new().await;
    let (code, out, err) = dayport(
        &lab,
        &["sample", "--date", "2026-01-15", "--records", "300", "--objects", "3", "--out", "s3://staging/events/2026-01-15"],
    )
    .await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("300 records of 2026-01-15") && out.contains(" under s3://staging/events/2026-01-15\n"), "{out}");
    assert!(lab.keys("staging").await.iter().all(|key| key.starts_with("events/2026-01-15/")));

    let (code, out, err) = dayport(&lab, &["run", "--date", "2026-01-15"]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "nothing is drawn where standard error is no terminal");
    assert!(out.starts_with("acme 2026-01-15: committed in "), "{out}");
    assert!(out.contains("  records: 300 read, 300 delivered\n"), "{out}");
    assert!(out.contains("  manifest: s3://acme/_dayport/2026-01-15.json\n"), "{out}");

    let (code, out, _) = dayport(&lab, &["run", "--date", "2026-01-15", "--output", "json"]).await;
    assert_eq!((code, out.lines().count()), (Some(0), 1));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["runs"][0]["state"], "already_committed");
    assert_eq!(answer["runs"][0]["counts"]["delivered"], 300);
    assert!(answer["runs"][0]["tables"][0]["files"][0]["key"].is_string());
    assert_eq!(answer.get("truncated"), None);

    let (_, out, _) = dayport(&lab, &["run", "--date", "2026-01-15", "--force", "--output", "json"]).await;
    assert!(out.contains(r#""state":"committed""#), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_of_several_uploads_at_a_time_is_what_a_folder_gets() {
    let lab = Lab::new().await;
    let folder = lab.path().join("folder");
    for out in ["s3://staging", folder.to_str().unwrap()] {
        let arguments = ["sample", "--date", "2026-01-15", "--records", "600", "--seed", "7", "--objects", "30", "--out", out];
        let (code, _, err) = dayport(&lab, &arguments).await;
        assert_eq!((code, err.as_str()), (Some(0), ""));
    }
    let uploaded = lab.landed("staging").await;
    assert_eq!(uploaded.len(), 34);
    for (key, bytes) in uploaded {
        assert_eq!(std::fs::read(folder.join(&key)).unwrap(), bytes, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_failure_is_one_line_with_its_kind_and_exit_code_1() {
    let mut lab = Lab::new().await;
    let day = ["run", "--date", "2026-01-15"];
    let (code, out, err) = dayport(&lab, &day).await;
    assert_eq!(code, Some(1));
    assert!(out.starts_with("acme 2026-01-15: failed in "), "{out}");
    assert!(err.starts_with("error: acme 2026-01-15 failed (retryable): nothing is staged under `events/2026-01-15/`"), "{err}");
    assert_eq!(err.lines().count(), 1);

    let (code, out, err) = dayport(&lab, &[&day[..], &["--destination", "acmee"]].concat()).await;
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(err, "error (vendor): there is no destination `acmee`, did you mean `acme`? (there are `acme`)\n");

    let (code, _, err) = dayport(&lab, &[&day[..], &["--config", "no/such.toml"]].concat()).await;
    assert_eq!((code, err.lines().count()), (Some(1), 1));
    assert!(err.starts_with("error (vendor): the configuration `no/such.toml` could not be read"), "{err}");

    std::fs::write(lab.configuration_path(), CONFIGURATION.replace("s3_bucket = \"acme\"", "s3_buket = \"acme\"")).unwrap();
    let (code, out, err) = dayport(&lab, &day).await;
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        err.contains("error (vendor): dayport.toml:9: unknown key `s3_buket`") && err.contains("did you mean `s3_bucket`?"),
        "{err}"
    );

    lab.settings(CONFIGURATION);
    lab.stage_lines("events/2026-01-15/a.ndjson", &[EVENT]).await;
    std::fs::remove_dir(lab.bucket_folder("acme")).unwrap();
    let (code, _, err) = dayport(&lab, &day).await;
    assert_eq!((code, err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.starts_with("error: acme 2026-01-15 failed (customer): ") && err.contains("NoSuchBucket"), "{err}");

    let (code, _, err) = dayport(&lab, &["sample", "--date", "2026-01-15", "--records", "50", "--out", "s3://no-bucket/"]).await;
    assert_eq!((code, err.lines().count()), (Some(1), 1));
    assert!(err.starts_with("error (vendor): ") && err.contains("NoSuchBucket"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_make_no_sense_are_exit_code_2() {
    let lab = Lab::new().await;
    for arguments in [&["run"][..], &["run", "--date", "15.1.2026"], &["fly"], &["local"], &[]] {
        let (code, out, err) = dayport(&lab, arguments).await;
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(err.contains("--help"), "{err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_went_away_is_no_failure() {
    let lab = Lab::new().await;
    let folder = lab.path().join("out");
    let mut command = lab.command(&["sample", "--date", "2026-01-15", "--records", "50", "--out", folder.to_str().unwrap()]);
    let mut running = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    drop(running.0.stdout.take());
    let status = tokio::task::spawn_blocking(move || {
        let mut err = String::new();
        running.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (running.0.wait().unwrap().code(), err)
    });
    assert_eq!(status.await.unwrap(), (Some(0), String::new()));
}

#[test]
fn local_says_what_to_export_and_ends_in_order_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    for signal in ["-INT", "-TERM"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dayport"));
        command.args(["local", "--port", "0", "--root"]).arg(folder.path()).env_clear();
        let mut running = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        let exports = lines.find(|line| line.contains("export AWS_ENDPOINT_URL=http://127.0.0.1:")).unwrap();
        assert!(exports.contains("AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=localsecret"), "{exports}");
        assert_eq!(end(&mut running, signal), Some(0));
    }
}

#[test]
fn a_policy_is_printed_without_account_region_or_network() {
    // It used to ask the machine's metadata service for a region, and warned of what it did not need.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dayport.toml");
    std::fs::write(&path, CONFIGURATION).unwrap();
    let metadata = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    metadata.set_nonblocking(true).unwrap();
    let endpoint = format!("http://{}", metadata.local_addr().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_dayport"));
    command.args(["policy", "acme", "--principal", "arn:aws:iam::999988887777:role/dayport", "--config"]).arg(&path);
    command.env_clear().env("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(0), "{err}");
    assert!(serde_json::from_str::<Value>(&out).unwrap()["Statement"].is_array(), "{out}");
    assert!(!err.contains("WARN"), "{err}");
    assert_eq!(metadata.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody was asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_interrupted_keeps_what_is_done_and_the_next_one_goes_on() {
    let mut lab = Lab::new().await;
    // Many small shards, so that there is something to stop between.
    lab.settings(&CONFIGURATION.replace("[state]", "[run]\nthreads = 1\nshard_size = \"1MiB\"\n[state]"));
    let line = format!(
        "{{\"event_name\":\"Pageview\",\"time\":\"2026-01-15T10:00:00Z\",\"properties\":{{\"text\":\"{}\"}}}}\n",
        "x".repeat(900)
    );
    for object in 0..40 {
        lab.stage(&format!("events/2026-01-15/{object:02}.ndjson"), line.repeat(1100)).await;
    }
    let mut command = lab.command(&["run", "--date", "2026-01-15", "--output", "json"]);
    let mut running = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    // Its first upload shows that it is under way.
    while lab.open_uploads("acme").await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (code, out, err) = tokio::task::spawn_blocking(move || {
        let code = end(&mut running, "-INT");
        let (mut out, mut err) = (String::new(), String::new());
        running.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        running.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (code, out, err)
    })
    .await
    .unwrap();
    assert!(err.starts_with("stopping after the shard under way"), "{err}");
    assert!(out.contains(r#""state":"continued""#), "{out}");
    assert_eq!(code, Some(130));
    assert!(lab.landed("acme").await.is_empty(), "nothing of a run that has not ended can be seen");

    let answers = lab.run("2026-01-15").await;
    assert_eq!(answers[0].state, dayport::run::answer::RunOutcome::Committed);
    assert_eq!(answers[0].counts.delivered, 44_000);
    assert_eq!(lab.open_uploads("acme").await, 0);
}
