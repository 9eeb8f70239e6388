//! Scheduled triggers over days: what was missed is caught up with, what failed is tried first, and by hand nothing is added.

use dayport::run::answer::{RunAnswer, RunOutcome};
use dayport::trigger::Request;
use serde_json::json;

use crate::lab::{CONFIGURATION, Lab};

const EVENT: &str = r#"{"event_name":"Pageview","time":"2026-01-15T10:00:00Z"}"#;

async fn stage(lab: &Lab, days: &[&str]) {
    for day in days {
        lab.stage_lines(&format!("events/{day}/a.ndjson"), &[EVENT]).await;
    }
}

/// The trigger of 03:00 on a day, for the day before.
async fn scheduled(lab: &Lab, on: &str) -> Vec<String> {
    let event = json!({ "time": format!("{on}T03:00:00Z") });
    told(&lab.ask(&Request::from_event(&event).unwrap()).await)
}

fn told(answers: &[RunAnswer]) -> Vec<String> {
    answers.iter().map(|answer| format!("{} {:?}", &answer.date.to_string()[5..], answer.state)).collect()
}

#[tokio::test]
async fn a_schedule_catches_up_with_missed_days_and_a_day_that_failed_is_tried_first_and_blocks_no_other() {
    let lab = Lab::new().await;
    stage(&lab, &["2026-01-11", "2026-01-13", "2026-01-14"]).await;
    assert_eq!(scheduled(&lab, "2026-01-12").await, ["01-11 Committed"]);
    // Two triggers got lost, and day 12 is not staged yet.
    assert_eq!(scheduled(&lab, "2026-01-15").await, ["01-12 Failed", "01-13 Committed", "01-14 Committed"]);
    stage(&lab, &["2026-01-15"]).await;
    assert_eq!(scheduled(&lab, "2026-01-16").await, ["01-12 Failed", "01-15 Committed"]);
    stage(&lab, &["2026-01-12"]).await;
    assert_eq!(scheduled(&lab, "2026-01-16").await, ["01-12 Committed", "01-15 AlreadyCommitted"]);
    assert_eq!(scheduled(&lab, "2026-01-16").await, ["01-15 AlreadyCommitted"]);
    // By hand it is the named day alone.
    assert_eq!(told(&lab.run("2026-01-18").await), ["01-18 Failed"]);
}

#[tokio::test]
async fn a_new_destination_begins_with_its_start_date_at_most_so_many_days_back() {
    let mut lab = Lab::new().await;
    lab.settings(&format!("[run]\ncatch_up_days = 2\n{CONFIGURATION}start_date = \"2026-01-01\"\n"));
    stage(&lab, &["2026-01-12", "2026-01-13", "2026-01-14", "2026-01-15"]).await;
    assert_eq!(scheduled(&lab, "2026-01-16").await, ["01-13 Committed", "01-14 Committed", "01-15 Committed"]);
    assert!(!lab.keys("acme").await.iter().any(|key| key.contains("day=12")));
}

#[tokio::test]
async fn a_paused_destination_rests_and_is_caught_up_with_when_it_is_enabled_again() {
    let mut lab = Lab::new().await;
    stage(&lab, &["2026-01-13", "2026-01-14", "2026-01-15"]).await;
    assert_eq!(scheduled(&lab, "2026-01-14").await, ["01-13 Committed"]);
    lab.settings(&format!("{CONFIGURATION}enabled = false\n"));
    assert_eq!(scheduled(&lab, "2026-01-15").await, ["01-14 Paused"]);
    lab.settings(CONFIGURATION);
    assert_eq!(scheduled(&lab, "2026-01-16").await, ["01-14 Committed", "01-15 Committed"]);
}

#[tokio::test]
async fn a_destination_that_is_no_longer_in_the_file_holds_up_nobody() {
    let mut lab = Lab::new().await;
    let second = "[[destination]]\nname = \"globex\"\ns3_bucket = \"globex\"\n";
    lab.settings(&format!("{CONFIGURATION}{second}"));
    assert_eq!(scheduled(&lab, "2026-01-15").await, ["01-14 Failed", "01-14 Failed"], "nothing is staged: both are open");
    lab.settings(CONFIGURATION);
    stage(&lab, &["2026-01-14", "2026-01-15"]).await;
    assert_eq!(scheduled(&lab, "2026-01-16").await, ["01-14 Committed", "01-15 Committed"]);
    assert!(lab.landed("globex").await.is_empty());
    let heads = lab.keys("state").await;
    assert!(heads.iter().any(|key| key.contains("heads/globex-")), "its state stays, for `dayport status`: {heads:?}");
    // Back in the file it goes on.
    lab.settings(&format!("{CONFIGURATION}{second}"));
    let told = scheduled(&lab, "2026-01-16").await;
    assert_eq!(told, ["01-14 Committed", "01-15 AlreadyCommitted", "01-15 Committed"]);
    assert!(matches!(lab.run("2026-01-14").await[1].state, RunOutcome::AlreadyCommitted));
}
