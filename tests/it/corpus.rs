//! The bodies of the fuzz targets over their seeds and over mutations of them, on a stable toolchain.
//!
//! `DAYPORT_FUZZ_ROUNDS=100000 cargo test --test it corpus -- --nocapture` goes on for longer; `docs/fuzzing.md` says more.

#[path = "../../fuzz/bodies/object.rs"]
mod object;
#[path = "../../fuzz/bodies/records.rs"]
mod records;
#[path = "../../fuzz/bodies/shred.rs"]
mod shred;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

use crate::suite::documents;

/// What mutations put in: pieces that the formats take for more than letters.
const TOKENS: [&[u8]; 28] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b",",
    b":",
    b"\n",
    b"\r\n",
    b" ",
    b"null",
    b"true",
    b"1e400",
    b"-0",
    b"0.5",
    b"9223372036854775808",
    b"\\ud800",
    b"\\u0000",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\0",
    b"{}",
    b"[]",
    b"\"event_name\":\"a\"",
    b"\"time\":\"2026-01-15\"",
    b"\x1f\x8b\x08",
    b"PAR1",
];
/// Beyond this a mutation is cut: large inputs are seeds' business.
const LONGEST: usize = 1 << 14;

/// The same sequence for the same seed, everywhere (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit.max(1)
    }
}

/// Name and bytes of every seed: the staged cases, the JSON suite, and the hostile ones beside the targets.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seeds = Vec::new();
    for folder in ["tests/cases", "fuzz/seeds"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            seeds.push((name, std::fs::read(path).unwrap()));
        }
    }
    seeds.sort();
    let documents = documents();
    let line = |bytes: &[u8]| {
        [br#"{"event_name":"a","time":"2026-01-15T10:00:00Z","properties":{"v":"#.as_slice(), bytes, b"}}\n"].concat()
    };
    let joined = documents.iter().flat_map(|(_, bytes)| line(bytes)).collect();
    seeds.extend(documents.iter().map(|(name, bytes)| (name.clone(), line(bytes))));
    seeds.push(("the suite joined".to_owned(), joined));
    seeds
}

fn mutated(dice: &mut Dice, seeds: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].1.clone();
    if bytes.len() > LONGEST {
        let start = dice.below(bytes.len() - LONGEST);
        bytes = bytes[start..start + LONGEST].to_vec();
    }
    for _ in 0..=dice.below(6) {
        let at = dice.below(bytes.len() + 1);
        let end = (at + dice.below(40)).min(bytes.len());
        match dice.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 => drop(bytes.splice(at..at, TOKENS[dice.below(TOKENS.len())].iter().copied())),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            4 => {
                let other = &seeds[dice.below(seeds.len())].1;
                let from = dice.below(other.len() + 1);
                let piece = other[from..(from + dice.below(200)).min(other.len())].to_vec();
                drop(bytes.splice(at..end, piece));
            }
            5 => bytes.truncate(at),
            _ => drop(bytes.splice(at..end, TOKENS[dice.below(TOKENS.len())].iter().copied())),
        }
    }
    bytes
}

/// What a person asked for, or as many as there is time for in every test run.
fn rounds(usual: usize) -> usize {
    std::env::var("DAYPORT_FUZZ_ROUNDS").ok().map_or(usual, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Runs the body over all seeds that `takes` takes and `rounds` mutations; an input that fails is kept, and named.
fn go(target: &str, body: fn(&[u8]), takes: impl Fn(&str) -> bool, rounds: usize) {
    let seeds: Vec<_> = seeds().into_iter().filter(|(name, _)| takes(name)).collect();
    let attempt = |what: &str, bytes: &[u8]| {
        if catch_unwind(AssertUnwindSafe(|| body(bytes))).is_err() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{target}.failed"));
            std::fs::write(&kept, bytes).unwrap();
            panic!("{target} fails for {what}, which is kept in {}", kept.display());
        }
    };
    for (name, bytes) in &seeds {
        attempt(name, bytes);
    }
    let first: u64 = std::env::var("DAYPORT_FUZZ_SEED").ok().map_or(1, |seed| seed.parse().expect("a seed"));
    for round in 0..rounds {
        let mut dice = Dice((first << 32 | round as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        attempt(&format!("round {round} of seed {first}"), &mutated(&mut dice, &seeds));
    }
    println!("{target}: {} seeds and {rounds} mutations hold", seeds.len());
}

#[test]
fn records_are_the_same_wherever_chunks_are_cut_and_json_to_another_parser() {
    go("records", records::run, |_| true, rounds(1500));
}

#[test]
fn columns_keep_their_limits_and_the_same_records_change_nothing_the_next_day() {
    // Sixty columns of six thousand records say no more than those of fewer.
    go("shred", shred::run, |name| !name.starts_with("b058"), rounds(1000));
}

#[test]
fn an_object_of_any_bytes_holds_the_balance_in_both_formats() {
    go(
        "object",
        object::run,
        |name| name.contains('.') && !name.starts_with(['y', 'n', 'i']) || name == "the suite joined",
        rounds(100),
    );
    println!("peak: {} KiB", peak_kib());
}

/// The most memory that this process ever had.
fn peak_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The objects' hostile seeds unpack to far more than this; what the runs hold at a time is bounded by the limits they run with.
#[test]
fn objects_that_unpack_to_much_more_than_the_memory_there_is_stay_within_it() {
    const MOST_KIB: usize = 256 << 10;
    let own = std::env::current_exe().unwrap();
    let only = "corpus::an_object_of_any_bytes_holds_the_balance_in_both_formats";
    let done = Command::new(own).args([only, "--exact", "--nocapture"]).env("DAYPORT_FUZZ_ROUNDS", "0").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}");
    let peak = said.split("peak: ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("{said}"));
    let peak: usize = peak.parse().unwrap();
    assert!(peak > 0 && peak < MOST_KIB, "{peak} KiB");
}
