//! What two keys together may not say: overlapping places, organisations without a filter, budgets that hold nothing.

use std::time::Duration;

use super::environment::Environment;
use super::minimum_memory;
use super::values::{printable, size_text};
use super::written::{Fields, Report};
use crate::domain::settings::{Destination, Settings};

/// The most parts of a multipart upload. Source: Amazon S3 User Guide, "Multipart upload limits".
const MOST_PARTS: u64 = 10_000;

/// Where a section stands and what of it may be compared with others.
pub(super) struct Origin {
    at: Option<usize>,
    label: String,
    /// Whether no mistake was found in it.
    sound: bool,
    /// Whether its bucket and prefix could be read.
    place_known: bool,
}

impl Origin {
    pub(super) fn of(fields: &Fields<'_>, mistakes_before: usize, place_known: bool) -> Origin {
        let sound = fields.report.count() == mistakes_before;
        Origin { at: fields.at, label: fields.label.clone(), sound, place_known }
    }
}

/// The origins of all sections that are compared.
pub(super) struct Origins {
    pub(super) staging: Origin,
    pub(super) state: Origin,
    pub(super) run: Origin,
    pub(super) parquet: Origin,
    pub(super) destinations: Vec<Origin>,
}

/// Reports every mistake that lies between sections.
pub(super) fn check(report: &Report<'_>, settings: &Settings, origins: &Origins, environment: &Environment) {
    check_names(report, settings, origins);
    check_places(report, settings, origins);
    check_organizations(report, settings, origins);
    check_file_sizes(report, settings, origins);
    let queue = settings.staging.queue.as_ref().map(|queue| queue.url.as_str());
    if queue.is_some() && queue == settings.run.work_queue_url.as_deref() {
        // Each would take the other's messages for garbage, and the staging queue's are deleted.
        let message = "`work_queue_url` in `[run]` is the `sqs_queue_url` of `[staging]`, give each a queue of its own";
        report.add(origins.run.at, message.to_owned());
    }
    if origins.run.sound && origins.staging.sound && origins.parquet.sound {
        let (budget, least) = (settings.run.memory_budget, minimum_memory(settings));
        if budget < least {
            // Rounded so that the two numbers never look the same.
            let (budget, least) = (budget >> 20, least.div_ceil(1 << 20));
            let message = format!(
                "`memory_budget` in `[run]` is {budget}MiB and has to be {least}MiB for the row groups and limits configured, give the function more memory, or lower `threads`, `part_size`, `row_group_size` or `max_record_bytes`"
            );
            report.add(origins.run.at, message);
        }
    }
    if origins.run.sound && origins.state.sound {
        let mistake = environment.function_timeout.and_then(|timeout| timeout_mistake(settings, timeout));
        if let Some(mistake) = mistake {
            report.add(origins.state.at, mistake);
        }
    }
}

/// What is wrong with a function's timeout, if it is too short for the lease.
pub(super) fn timeout_mistake(settings: &Settings, timeout: Duration) -> Option<String> {
    let least = settings.state.lease * 2 + settings.run.deadline_margin;
    (timeout < least).then(|| {
        let (timeout, least) = (timeout.as_secs_f64(), least.as_secs_f64());
        format!(
            "the function's timeout of {timeout}s is under twice `lease` plus `deadline_margin` ({least}s), raise it or lower those"
        )
    })
}

fn check_names(report: &Report<'_>, settings: &Settings, origins: &Origins) {
    for (index, (destination, origin)) in settings.destinations.iter().zip(&origins.destinations).enumerate() {
        let earlier = settings.destinations.iter().zip(&origins.destinations).take(index);
        for (other, other_origin) in earlier {
            if destination.name == other.name && !destination.name.is_empty() {
                let line = other_origin.at.map_or(0, |at| report.line(at));
                report.add(origin.at, format!("{} has the name of the one in line {line}, give it its own", origin.label));
                break;
            }
        }
    }
}

fn check_places(report: &Report<'_>, settings: &Settings, origins: &Origins) {
    let (staging, state) = (&settings.staging, &settings.state);
    let overlap = |at, one: &str, place: String, other: &str, other_place: String| {
        report.add(at, format!("{one} (`{place}`) overlaps {other} (`{other_place}`), give each a bucket or prefix of its own"));
    };
    let place = |bucket: &str, prefix: &str| printable(&format!("s3://{bucket}/{prefix}"));
    let staging_place = place(&staging.s3_bucket, &staging.s3_prefix);
    let state_place = place(&state.s3_bucket, state.s3_prefix.as_str());
    let staging_meets = |bucket: &str, prefix: &str| {
        origins.staging.place_known && staging.s3_bucket == bucket && may_overlap(&staging.s3_prefix, prefix)
    };
    if origins.state.place_known && staging_meets(&state.s3_bucket, state.s3_prefix.as_str()) {
        overlap(origins.state.at, "`[state]`", state_place.clone(), "`[staging]`", staging_place.clone());
    }
    for (index, (destination, origin)) in settings.destinations.iter().zip(&origins.destinations).enumerate() {
        if !origin.place_known {
            continue;
        }
        let own_place = place(&destination.s3_bucket, destination.s3_prefix.as_str());
        if staging_meets(&destination.s3_bucket, destination.s3_prefix.as_str()) {
            overlap(origin.at, &origin.label, own_place.clone(), "`[staging]`", staging_place.clone());
        }
        let same_bucket = destination.s3_bucket == state.s3_bucket;
        if origins.state.place_known && same_bucket && destination.s3_prefix.overlaps(&state.s3_prefix) {
            overlap(origin.at, &origin.label, own_place.clone(), "`[state]`", state_place.clone());
        }
        for (other, other_origin) in settings.destinations.iter().zip(&origins.destinations).take(index) {
            let meets = destination.s3_bucket == other.s3_bucket && destination.s3_prefix.overlaps(&other.s3_prefix);
            if other_origin.place_known && meets {
                let other_place = place(&other.s3_bucket, other.s3_prefix.as_str());
                overlap(origin.at, &origin.label, own_place.clone(), &other_origin.label, other_place);
            }
        }
    }
}

/// Whether a staged prefix, on some day and for some organisation, can hold the other prefix or lie in it.
fn may_overlap(template: &str, prefix: &str) -> bool {
    template.split_terminator('/').zip(prefix.split_terminator('/')).all(|(pattern, part)| may_be(pattern, part))
}

fn may_be(pattern: &str, part: &str) -> bool {
    let digits = pattern
        .replace("{date}", "\0\0\0\0-\0\0-\0\0")
        .replace("{year}", "\0\0\0\0")
        .replace("{month}", "\0\0")
        .replace("{day}", "\0\0");
    // Each piece between organisations must follow the one before; `\0` stands for any digit.
    let fits = |piece: &str, text: &str| {
        text.len() == piece.len()
            && text.bytes().zip(piece.bytes()).all(|(byte, wanted)| byte == wanted || (wanted == 0 && byte.is_ascii_digit()))
    };
    let pieces: Vec<&str> = digits.split("{organization}").collect();
    let ([first, ..], [.., last]) = (pieces.as_slice(), pieces.as_slice()) else {
        return true;
    };
    if pieces.len() == 1 {
        return fits(first, part);
    }
    let start = part.get(..first.len()).is_some_and(|text| fits(first, text));
    let end = part.len().checked_sub(last.len()).and_then(|at| part.get(at..)).is_some_and(|text| fits(last, text));
    // With several organisations in one part the middle is taken to fit: a refusal too many is harmless here.
    start && end && part.len() > first.len() + last.len()
}

fn check_organizations(report: &Report<'_>, settings: &Settings, origins: &Origins) {
    let staging = &settings.staging;
    if !origins.staging.place_known {
        return;
    }
    let pairs = || settings.destinations.iter().zip(&origins.destinations);
    if staging.s3_prefix.contains("{organization}") {
        for (destination, origin) in pairs().filter(|(_, origin)| origin.sound) {
            let what = match &destination.organization {
                None => "`organization` is missing".to_owned(),
                Some(name) if !is_folder_name(name) => {
                    format!("`organization` is `{}`, which can't be a folder's name", printable(name))
                }
                Some(_) => continue,
            };
            report.add(
                origin.at,
                format!("{what} in {}, and `s3_prefix` of `[staging]` has `{{organization}}`, write one that fits", origin.label),
            );
        }
    } else if staging.organization_field.is_none()
        && let Some((first, _)) = pairs().next()
        && let Some((_, origin)) = pairs().find(|(destination, _)| destination.organization != first.organization)
    {
        report.add(
            origin.at,
            format!(
                "{} has another `organization` than `{}`, and nothing tells their records apart, put `{{organization}}` into `s3_prefix` of `[staging]` or set `organization_field` there",
                origin.label, first.name
            ),
        );
    } else if let Some(field) = &staging.organization_field
        && pairs().any(|(destination, _)| destination.organization.is_some())
    {
        for (_, origin) in pairs().filter(|(destination, origin)| destination.organization.is_none() && origin.sound) {
            report.add(
                origin.at,
                format!(
                    "`organization` is missing in {}, which would get every organisation's records, write the value of `{}` that is its own",
                    origin.label,
                    printable(field)
                ),
            );
        }
    }
}

/// Whether a name fills `{organization}` without leaving its folder.
fn is_folder_name(name: &str) -> bool {
    name.len() <= 200 && !matches!(name, "." | "..") && !name.contains(['/', '{', '}'])
}

fn check_file_sizes(report: &Report<'_>, settings: &Settings, origins: &Origins) {
    let most = settings.run.part_size.saturating_mul(MOST_PARTS);
    for (destination, origin) in settings.destinations.iter().zip(&origins.destinations) {
        if !origins.run.sound || !origin.sound {
            continue;
        }
        for (key, size) in file_sizes(destination) {
            if size > most {
                let part_size = size_text(settings.run.part_size);
                report.add(
                    origin.at,
                    format!(
                        "`{key}` in {} is {}, over 10,000 parts of {part_size}, raise `part_size` in `[run]` or lower it",
                        origin.label,
                        size_text(size)
                    ),
                );
            }
        }
    }
}

fn file_sizes(destination: &Destination) -> [(&'static str, u64); 2] {
    [("target_file_size", destination.target_file_size), ("snapshot_file_size", destination.snapshot_file_size)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staged_prefix_meets_what_one_of_its_days_could_meet() {
        for (template, prefix) in [
            ("events/{date}/", ""),
            ("events/{date}/", "events/"),
            ("events/{date}/", "events/2026-01-15/"),
            ("events/{date}/", "events/2026-01-15/acme/"),
            ("{year}/{month}/{day}/", "2026/01/"),
            ("{organization}/{date}/", "acme/"),
            ("in-{organization}-x/{date}/", "in-acme-x/2026-01-15/"),
        ] {
            assert!(may_overlap(template, prefix), "{template} {prefix}");
        }
        for (template, prefix) in [
            ("events/{date}/", "dayport/"),
            ("events/{date}/", "events/exports/"),
            ("{date}/", "dayport/"),
            ("{year}/{month}/{day}/", "2026/1/"),
            ("in-{organization}-x/{date}/", "in-acme-y/"),
            ("in-{organization}/{date}/", "in-/"),
            ("{organization}/{date}/", "acme/exports/"),
        ] {
            assert!(!may_overlap(template, prefix), "{template} {prefix}");
        }
    }
}
