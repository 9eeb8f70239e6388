//! What the README says of commands, events and errors is what the code says.

use std::collections::BTreeSet;

use clap::Parser as _;
use dayport::cli::Arguments;
use dayport::config::{self, Environment};
use dayport::domain::error::Kind;

use crate::trigger::event_files;

const README: &str = include_str!("../../README.md");

/// What stands between two marks, each time they stand in the text.
fn between<'t>(text: &'t str, start: &str, end: &str) -> Vec<&'t str> {
    text.split(start).skip(1).filter_map(|rest| rest.split_once(end)).map(|(found, _)| found).collect()
}

#[test]
fn every_event_file_is_in_the_table_and_every_file_of_the_table_is_there() {
    let named: BTreeSet<String> = between(README, "](events/", ")").into_iter().map(str::to_owned).collect();
    assert_eq!(named, event_files());
}

#[test]
fn every_command_of_the_readme_is_one_that_the_command_line_takes() {
    let lines: Vec<&str> =
        README.lines().filter_map(|line| line.trim().split_once("release/dayport ")).map(|(_, rest)| rest).collect();
    assert!(lines.len() >= 3, "the commands are written in another way now: look for them anew");
    for line in lines {
        let words = line.split_whitespace().take_while(|word| !matches!(*word, "&" | "#" | "|" | ">"));
        let parsed = Arguments::try_parse_from(std::iter::once("dayport").chain(words));
        assert!(parsed.is_ok(), "`dayport {line}`: {}", parsed.err().unwrap());
    }
}

#[test]
fn every_flag_that_the_readme_names_exists() {
    let commands = [
        "run",
        "check",
        "policy",
        "quarantine list",
        "quarantine show",
        "quarantine replay",
        "verify",
        "status",
        "schema show",
        "schema set",
        "schema diff",
        "schema rebuild",
        "ddl",
        "local",
        "sample",
    ];
    let help_of = |command: &str| {
        let words = ["dayport"].into_iter().chain(command.split(' ')).chain(["--help"]);
        Arguments::try_parse_from(words).unwrap_err().to_string()
    };
    let help: String = commands.into_iter().map(help_of).collect();
    for flag in between(README, "`--", "`") {
        let flag = flag.split([' ', '=']).next().unwrap();
        assert!(help.contains(&format!("--{flag}")), "`--{flag}` is no flag of the command line");
    }
}

#[test]
fn the_configuration_of_the_readme_is_one_that_works() {
    let example = between(README, "```toml\n", "```");
    let environment = Environment { function_memory: Some(3008 << 20), ..Environment::default() };
    assert!(!example.is_empty());
    for text in example {
        config::parse(text, &environment).unwrap();
    }
    config::parse(include_str!("../../demo/dayport.toml"), &environment).unwrap();
}

#[test]
fn every_error_type_is_explained() {
    for kind in [Kind::Retryable, Kind::Customer, Kind::Vendor, Kind::Bug] {
        assert!(README.contains(&format!("`{}`", kind.error_type())), "{}", kind.error_type());
    }
}
