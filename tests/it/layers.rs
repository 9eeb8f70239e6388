//! The rooms of HOUSE.md: a module uses rooms of a lower layer, or its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Every room with its layer, as the crate's page lists them.
const ROOMS: [(&str, u8); 15] = [
    ("domain", 0),
    ("records", 1),
    ("columns", 2),
    ("files", 3),
    ("store", 4),
    ("run", 5),
    ("spool", 5),
    ("access", 5),
    ("report", 6),
    ("config", 6),
    ("trigger", 6),
    ("handler", 7),
    ("sample", 7),
    ("local", 7),
    ("cli", 8),
];

fn layer_of(room: &str) -> Option<u8> {
    ROOMS.iter().find(|(name, _)| *name == room).map(|(_, layer)| *layer)
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The rooms that a file's code (without its tests) names by `crate::`.
fn used_rooms(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.split("crate::")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next())
        .filter(|room| layer_of(room).is_some())
        .map(str::to_owned)
        .collect()
}

/// What is wrong in a file of `room`, in the words of the house.
fn faults(room: &str, text: &str) -> Vec<String> {
    let own = layer_of(room).unwrap();
    used_rooms(text)
        .into_iter()
        .filter(|used| used != room && layer_of(used).unwrap() >= own)
        .map(|used| format!("{room} uses {used}"))
        .collect()
}

#[test]
fn no_room_uses_one_of_its_own_layer_or_above() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&source, &mut files);
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for file in files {
        let inner = file.strip_prefix(&source).unwrap();
        let first = inner.components().next().unwrap().as_os_str().to_str().unwrap();
        let room = first.trim_end_matches(".rs").to_owned();
        if matches!(room.as_str(), "lib" | "main" | "bin") {
            continue;
        }
        assert!(layer_of(&room).is_some(), "`{}` is in no room of HOUSE.md", inner.display());
        let text = std::fs::read_to_string(&file).unwrap();
        // Files that are tests as a whole say so where their parent lists them.
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let is_test = is_test_module(&file, stem);
        seen.insert(room.clone());
        if !is_test {
            wrong.extend(faults(&room, &text).into_iter().map(|fault| format!("{fault} (in {})", inner.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for room in ["domain", "records", "columns", "files", "store", "run"] {
        assert!(seen.contains(room), "the room {room} was not looked at");
    }
}

/// Whether the module is declared under `#[cfg(test)]` by its parent.
fn is_test_module(file: &Path, stem: &str) -> bool {
    let folder = file.parent().unwrap();
    let parents = [folder.with_extension("rs"), folder.join("lib.rs")];
    parents.iter().filter_map(|parent| std::fs::read_to_string(parent).ok()).any(|text| {
        let declared = text.find(&format!("mod {stem};")).map(|at| text[..at].trim_end_matches("pub ").trim_end().to_owned());
        declared.is_some_and(|before| before.lines().last().is_some_and(|line| line.contains("cfg(") && line.contains("test")))
    }) || file.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn a_fault_is_said_in_the_words_of_the_house() {
    assert_eq!(faults("domain", "use crate::store::ports::List;"), ["domain uses store"]);
    assert_eq!(faults("run", "use crate::run::plan; use crate::store::ports;"), [""; 0]);
    assert_eq!(faults("spool", "fn f() { crate::run::plan(); }"), ["spool uses run"]);
    assert_eq!(faults("records", "#[cfg(test)]\nmod tests {\nuse crate::run;\n}"), [""; 0]);
}
