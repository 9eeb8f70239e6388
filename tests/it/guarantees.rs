//! Every promise of `docs/guarantees.md` names tests, and every test that it names is there.

use std::collections::BTreeSet;
use std::path::Path;

const GUARANTEES: &str = include_str!("../../docs/guarantees.md");

/// The cells of a table's line.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The names of a file's tests: Rust functions under a test attribute, Python's by their names.
fn tests_of(path: &Path, into: &mut BTreeSet<String>) {
    let text = std::fs::read_to_string(path).unwrap();
    let name = |line: &str, word: &str| {
        let rest = line.trim_start().trim_start_matches("pub ").trim_start_matches("async ").strip_prefix(word)?;
        rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().map(str::to_owned)
    };
    let is_python = path.extension().is_some_and(|extension| extension == "py");
    let mut is_test = false;
    for line in text.lines() {
        if is_python {
            into.extend(name(line, "def ").filter(|name| name.starts_with("test_")));
            continue;
        }
        let trimmed = line.trim_start();
        is_test |= trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test");
        if is_test && let Some(found) = name(line, "fn ") {
            into.insert(found);
            is_test = false;
        }
    }
}

fn all_tests(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("node_modules") {
                all_tests(&path, into);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            tests_of(&path, into);
        }
    }
}

#[test]
fn every_promise_names_tests_and_every_test_that_is_named_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known = BTreeSet::new();
    all_tests(&root.join("src"), &mut known);
    all_tests(&root.join("tests"), &mut known);
    assert!(known.len() > 400 && known.contains("every_promise_names_tests_and_every_test_that_is_named_is_there"));
    let (mut promises, mut wrong) = (BTreeSet::new(), Vec::new());
    for line in
        GUARANTEES.lines().filter(|line| line.starts_with('|') && !line.starts_with("|-") && !line.starts_with("| Promise"))
    {
        let [promise, how, proof] = cells(line)[..] else { panic!("not three cells: {line}") };
        assert!(!promise.is_empty() && !how.is_empty(), "{line}");
        if !promises.insert(promise) {
            wrong.push(format!("promised twice: {promise}"));
        }
        let named = quoted(proof);
        if named.is_empty() {
            wrong.push(format!("without a test: {promise}"));
        }
        wrong.extend(named.into_iter().filter(|name| !known.contains(*name)).map(|name| format!("no test `{name}`: {promise}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(promises.len() > 40, "{} promises are fewer than the contract makes", promises.len());
}
