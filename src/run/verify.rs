//! Re-reads what a run landed and compares it with what was written: existence, size, checksum, rows, schema.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::compose::CommitDocument;
use super::document::{self, FORM};
use super::head::Head;
use super::manifest::{ManifestColumn, describe_all};
use super::paths::Paths;
use crate::domain::error::{Error, Kind, Result};
use crate::domain::format::Format;
use crate::domain::run::{Day, RunId};
use crate::domain::table::{SyncMode, TableName};
use crate::files::footer::{self, Footer};
use crate::records::decode::{DecodeLimits, Decoder};
use crate::store::checksum::Crc64Nvme;
use crate::store::lanes::{LANES, bounded};
use crate::store::ports::{Body as _, List, ObjectInfo, Read, Write};
use crate::store::resume::ResumingBody;

/// Files that are read at once.
const READERS: usize = 4;
/// Unpacked bytes of a JSON file that are looked at at a time.
const PIECE_BYTES: usize = 256 << 10;
/// How many invocations in a row may end without having re-read one more file.
const MOST_IDLE: u32 = 2;

/// What is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The object is not there.
    Missing,
    /// It has another size.
    Size,
    /// It has other bytes.
    Checksum,
    /// It has another number of rows, or they can't be counted.
    Rows,
    /// It has other columns, or is no Parquet.
    Schema,
    /// The customer's manifest says something else than the vendor's copy.
    Manifest,
    /// It could not be read.
    Unread,
}

impl FaultKind {
    /// The name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Missing => "missing",
            FaultKind::Size => "size",
            FaultKind::Checksum => "checksum",
            FaultKind::Rows => "rows",
            FaultKind::Schema => "schema",
            FaultKind::Manifest => "manifest",
            FaultKind::Unread => "unread",
        }
    }
}

/// One object that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Its key.
    pub key: String,
    /// Its table; none for the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableName>,
    /// What differs.
    #[serde(rename = "fault")]
    pub kind: FaultKind,
    /// On whose side: who must act.
    pub side: Kind,
    /// What was found, and what to do.
    pub message: String,
}

/// What re-reading came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Files that are as they were written.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that are not, in key order.
    pub faults: Vec<Fault>,
    /// What was not looked at, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Verification {
    /// Who must act first; `None` where everything is as it was written.
    #[must_use]
    pub fn worst(&self) -> Option<Kind> {
        self.faults.iter().map(|fault| fault.side).max()
    }

    /// The failure of a run of which something is not as it was written.
    #[must_use]
    pub fn failure(&self, run: &RunId) -> Option<Error> {
        let worst = self.worst()?;
        let first = self.faults.iter().find(|fault| fault.side == worst)?;
        let RunId { destination, day } = run;
        let (faults, key, message) = (self.faults.len(), &first.key, &first.message);
        Some(Error::new(
            worst,
            format!(
                "the day is committed, and {faults} of its objects are not as they were written: `{key}`: {message}; `dayport verify {destination} --date {day}` names all"
            ),
        ))
    }
}

/// A file that a run landed and that still is to stand.
#[derive(Clone, Debug)]
struct LandedFile {
    table: TableName,
    key: String,
    rows: u64,
    bytes: u64,
    checksum: Option<String>,
    columns: std::sync::Arc<[ManifestColumn]>,
}

/// What a commit landed and what of it still is to stand.
#[derive(Clone, Debug)]
pub struct Landed {
    day: Day,
    files: Vec<LandedFile>,
    manifest: Option<(String, String)>,
    notes: Vec<String>,
}

impl Landed {
    /// What `commit` landed, and where the layout keeps the day's earlier transfers, those too if `with_earlier`. Snapshots that a later
    /// run replaced (`head` says so) are left out.
    pub fn of(commit: &CommitDocument, head: &Head, with_earlier: bool) -> Result<Landed> {
        let manifest = commit.manifest()?;
        let day = commit.run.day;
        let earlier = manifest.earlier_transfers.iter().filter(|_| with_earlier).flat_map(|transfer| &transfer.tables);
        let mut files = Vec::new();
        let mut notes = Vec::new();
        for table in earlier.chain(&manifest.tables) {
            let columns: std::sync::Arc<[ManifestColumn]> = table.columns.clone().into();
            let is_replaced_in_place = table.sync == SyncMode::Snapshot && commit.layout.replaces_snapshots();
            let pointer = head.snapshots.get(&table.name).filter(|pointer| is_replaced_in_place && pointer.day != day);
            if let Some(pointer) = pointer {
                notes.push(format!("snapshot table `{}` was replaced by the run of {}", table.name, pointer.day));
                continue;
            }
            files.extend(table.files.iter().map(|file| LandedFile {
                table: table.name.clone(),
                key: file.key.clone(),
                rows: file.rows,
                bytes: file.bytes,
                checksum: file.checksum.clone(),
                columns: columns.clone(),
            }));
        }
        let manifest = commit.manifest_key.clone().map(|key| (key, commit.manifest.clone()));
        Ok(Landed { day, files, manifest, notes })
    }
}

/// How far re-reading came.
#[derive(Default)]
struct Reread {
    /// Keys of files that are as they were written, those that were known to be among them.
    right: BTreeSet<String>,
    faults: Vec<Fault>,
    /// Whether every file was looked at.
    is_whole: bool,
}

/// Re-reads all that `landed` holds. Needs `s3:GetObject` and `s3:ListBucket` on the customer's bucket.
///
/// Each file is found by listing its folder, read to its end, its checksum computed from what was read, its lines counted (JSON) or its
/// footer compared (Parquet). Fails where the customer's bucket can't be listed; what is wrong with a single object is a fault.
pub async fn verify<C: List + Read + Sync>(customer: &C, landed: &Landed) -> Result<Verification> {
    let reread = reread(customer, landed, Reread::default(), &|| true).await?;
    Ok(verification(landed, reread))
}

fn verification(landed: &Landed, reread: Reread) -> Verification {
    let right = || landed.files.iter().filter(|file| reread.right.contains(&file.key));
    Verification {
        files: right().count() as u64,
        rows: right().map(|file| file.rows).sum(),
        bytes: right().map(|file| file.bytes).sum(),
        faults: reread.faults,
        notes: landed.notes.clone(),
    }
}

async fn reread<C: List + Read + Sync>(
    customer: &C,
    landed: &Landed,
    before: Reread,
    has_time: &(dyn Fn() -> bool + Sync),
) -> Result<Reread> {
    let Reread { mut right, mut faults, .. } = before;
    let is_known = |key: &String| right.contains(key) || faults.iter().any(|fault| fault.key == *key);
    let waiting: Vec<&LandedFile> = landed.files.iter().filter(|file| !is_known(&file.key)).collect();
    let folders: BTreeSet<&str> = waiting.iter().map(|file| folder_of(&file.key)).collect();
    let listed = bounded(folders, LANES, |folder| customer.list_all(folder)).await?;
    let listed: BTreeMap<String, ObjectInfo> = listed.into_iter().flatten().map(|object| (object.key.clone(), object)).collect();
    let day = landed.day;
    let looked_at = bounded(&waiting, READERS, |file| {
        let object = listed.get(&file.key);
        async move { Ok(if has_time() { Some(look_at(customer, file, object, day).await) } else { None }) }
    });
    let looked_at = looked_at.await?;
    let mut is_whole = true;
    for (file, outcome) in waiting.iter().zip(looked_at) {
        match outcome {
            None => is_whole = false,
            Some(None) => {
                right.insert(file.key.clone());
            }
            Some(Some((kind, side, message))) => {
                let table = Some(file.table.clone());
                faults.push(Fault { key: file.key.clone(), table, kind, side, message });
            }
        }
    }
    if let Some((key, text)) = landed.manifest.as_ref().filter(|_| is_whole)
        && let Some((kind, side, message)) = look_at_manifest(customer, key, text).await
    {
        faults.push(Fault { key: key.clone(), table: None, kind, side, message });
    }
    faults.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(Reread { right, faults, is_whole })
}

fn folder_of(key: &str) -> &str {
    key.rfind('/').and_then(|slash| key.get(..=slash)).unwrap_or_default()
}

/// What is wrong with an object, on whose side, and what to do; `None` where nothing is.
type Finding = Option<(FaultKind, Kind, String)>;

const LAND_AGAIN: &str = "run the day again with `--force`";

async fn look_at_manifest<C: Read + Sync>(customer: &C, key: &str, text: &str) -> Finding {
    match customer.read_small(key).await {
        Err(error) => Some((FaultKind::Unread, error.kind(), error.to_string())),
        Ok(None) => Some((FaultKind::Missing, Kind::Customer, format!("it is gone, {LAND_AGAIN}"))),
        Ok(Some((bytes, _))) if bytes != text.as_bytes() => {
            Some((FaultKind::Manifest, Kind::Customer, format!("it says something else than was written, {LAND_AGAIN}")))
        }
        Ok(Some(_)) => None,
    }
}

async fn look_at<C: Read + Sync>(customer: &C, file: &LandedFile, object: Option<&ObjectInfo>, day: Day) -> Finding {
    let Some(object) = object else {
        return Some((FaultKind::Missing, Kind::Customer, format!("it is gone, {LAND_AGAIN}")));
    };
    if object.size != file.bytes {
        let message = format!("it has {} bytes and {} were written, {LAND_AGAIN}", object.size, file.bytes);
        return Some((FaultKind::Size, Kind::Customer, message));
    }
    match read(customer, &file.key, object, day).await {
        Err(error) => Some((FaultKind::Unread, error.kind(), error.to_string())),
        Ok(found) => judge(file, found),
    }
}

/// What a file turned out to be.
struct Found {
    checksum: String,
    content: Content,
}

enum Content {
    Lines(u64),
    Table(Footer),
    /// Why it can't be read as what its name says.
    Broken(FaultKind, String),
}

fn judge(file: &LandedFile, found: Found) -> Finding {
    if let Some(written) = file.checksum.as_ref().filter(|written| **written != found.checksum) {
        let message = format!("its CRC64NVME is `{}` and `{written}` was written, {LAND_AGAIN}", found.checksum);
        return Some((FaultKind::Checksum, Kind::Customer, message));
    }
    // The bytes are those that were written: then it is not the customer who made it differ.
    let (side, advice) = if file.checksum.is_some() { (Kind::Bug, "please report it") } else { (Kind::Customer, LAND_AGAIN) };
    let rows = match &found.content {
        Content::Lines(rows) => *rows,
        Content::Table(footer) => footer.rows,
        Content::Broken(fault, why) => return Some((*fault, side, format!("{why}, {advice}"))),
    };
    if rows != file.rows {
        let message = format!("it has {rows} rows and {} were written, {advice}", file.rows);
        return Some((FaultKind::Rows, side, message));
    }
    let Content::Table(footer) = found.content else { return None };
    let difference = first_difference(&file.columns, &describe_all(&footer.columns))?;
    Some((FaultKind::Schema, side, format!("{difference}, {advice}")))
}

/// The first column that is not as the manifest says: by its path, type and field id.
fn first_difference(told: &[ManifestColumn], found: &[ManifestColumn]) -> Option<String> {
    let text = |column: Option<&ManifestColumn>| match column {
        Some(column) => format!("`{}` ({}, id {})", column.path, column.column_type, column.id),
        None => "none".to_owned(),
    };
    (0..told.len().max(found.len())).find_map(|at| {
        let (told, found) = (text(told.get(at)), text(found.get(at)));
        (told != found).then(|| format!("its column {} is {found} and the manifest says {told}", at + 1))
    })
}

/// Reads an object to its end.
async fn read<C: Read + Sync>(customer: &C, key: &str, object: &ObjectInfo, day: Day) -> Result<Found> {
    let mut content = match Format::of_key(key) {
        Some(Format::Parquet) => Reading::Table { from: metadata_start(customer, object).await?, metadata: Vec::new() },
        _ => Reading::lines(object.size),
    };
    let mut checksum = Crc64Nvme::new();
    let mut body = ResumingBody::new(customer, object.clone());
    while let Some(piece) = body.next().await {
        let piece = piece?;
        content.take(checksum.bytes(), &piece);
        checksum.update(&piece);
    }
    Ok(Found { checksum: checksum.base64(), content: content.end(object.size, day) })
}

/// An object's bytes from `at` on.
async fn read_rest<C: Read + Sync>(customer: &C, object: &ObjectInfo, at: u64) -> Result<Vec<u8>> {
    let mut rest = Vec::new();
    let mut body = customer.read_from(&object.key, at, &object.etag).await?;
    while let Some(piece) = body.next().await {
        rest.extend_from_slice(&piece?);
    }
    Ok(rest)
}

/// Where a Parquet file's metadata begins, by its last bytes; `None` where they say nothing.
async fn metadata_start<C: Read + Sync>(customer: &C, object: &ObjectInfo) -> Result<Option<u64>> {
    let Some(at) = object.size.checked_sub(footer::TAIL_BYTES) else { return Ok(None) };
    let tail = read_rest(customer, object, at).await?;
    Ok(footer::metadata_start(object.size, &tail))
}

/// The footer of a Parquet object, or what is wrong with it; two ranged reads. `since` is what each column's first day is set to.
pub async fn read_footer<C: Read + Sync>(customer: &C, object: &ObjectInfo, since: Day) -> Result<Result<Footer, String>> {
    let Some(start) = metadata_start(customer, object).await? else {
        return Ok(Err("it does not end as Parquet does".to_owned()));
    };
    let metadata = read_rest(customer, object, start).await?;
    let tail = usize::try_from(footer::TAIL_BYTES).unwrap_or_default();
    Ok(footer::parse(metadata.get(..metadata.len().saturating_sub(tail)).unwrap_or_default(), since))
}

/// The content of a file while it is read.
enum Reading {
    Lines { decoder: Box<Decoder>, lines: u64, piece: Vec<u8>, damage: Option<String> },
    Table { from: Option<u64>, metadata: Vec<u8> },
}

impl Reading {
    fn lines(size: u64) -> Reading {
        // Our own bytes, of which any ratio is right.
        let limits = DecodeLimits { max_object_bytes: u64::MAX, max_ratio: u64::MAX };
        let piece = Vec::with_capacity(PIECE_BYTES);
        Reading::Lines { decoder: Box::new(Decoder::new(limits, size)), lines: 0, piece, damage: None }
    }

    /// Takes the bytes that begin at `at`.
    fn take(&mut self, at: u64, bytes: &[u8]) {
        match self {
            Reading::Table { from: Some(from), metadata } => {
                let skipped = usize::try_from(from.saturating_sub(at)).unwrap_or(usize::MAX);
                metadata.extend_from_slice(bytes.get(skipped..).unwrap_or_default());
            }
            Reading::Table { from: None, .. } => {}
            Reading::Lines { decoder, lines, piece, damage } => {
                let mut rest = bytes;
                while !rest.is_empty() && damage.is_none() {
                    match decoder.push(rest, piece, PIECE_BYTES) {
                        Ok(progress) => rest = rest.get(progress.consumed..).unwrap_or_default(),
                        Err(found) => *damage = Some(found.to_string()),
                    }
                    count_lines(piece, lines);
                }
            }
        }
    }

    fn end(self, size: u64, day: Day) -> Content {
        match self {
            Reading::Table { from: None, .. } => Content::Broken(FaultKind::Schema, "it does not end as Parquet does".to_owned()),
            Reading::Table { metadata, .. } => {
                let length = metadata.len().saturating_sub(usize::try_from(footer::TAIL_BYTES.min(size)).unwrap_or_default());
                match footer::parse(metadata.get(..length).unwrap_or_default(), day) {
                    Ok(footer) => Content::Table(footer),
                    Err(why) => Content::Broken(FaultKind::Schema, format!("its footer can't be read ({why})")),
                }
            }
            Reading::Lines { mut decoder, mut lines, mut piece, mut damage } => {
                while damage.is_none() {
                    let finished = decoder.finish(&mut piece, PIECE_BYTES);
                    count_lines(&mut piece, &mut lines);
                    match finished {
                        Ok(true) => return Content::Lines(lines),
                        Ok(false) => {}
                        Err(found) => damage = Some(found.to_string()),
                    }
                }
                let why = damage.unwrap_or_default();
                let why = why.split(", ").next().unwrap_or_default();
                Content::Broken(FaultKind::Rows, format!("its rows can't be counted ({why})"))
            }
        }
    }
}

fn count_lines(piece: &mut Vec<u8>, lines: &mut u64) {
    *lines += memchr::memchr_iter(b'\n', piece).count() as u64;
    piece.clear();
}

/// What the journal keeps of a run's verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedDocument {
    /// The document's form.
    pub form: u32,
    /// The attempt whose commit was re-read.
    pub attempt: u32,
    /// Whether every file was looked at.
    pub is_whole: bool,
    /// How many invocations in a row ended at their deadline without one more file.
    #[serde(default)]
    pub idle: u32,
    /// Keys of files that are as they were written, unless all are.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub right: BTreeSet<String>,
    /// What it came to.
    pub found: Verification,
}

/// What verifying a run within an invocation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// Every file was looked at.
    Whole(Verification),
    /// The invocation's time is over; the next goes on.
    OutOfTime,
}

/// Re-reads what a committed run landed, as `verify = true` asks, and notes in the run's journal what that came to.
///
/// What was found right once is not read again; what was faulty is. `has_time` says whether another file may be begun. The second
/// invocation in a row that finishes no file is the vendor's to mend.
pub async fn verify_run<S, C>(
    state: &S,
    customer: &C,
    paths: &Paths,
    commit: &CommitDocument,
    head: &Head,
    has_time: &(dyn Fn() -> bool + Sync),
) -> Result<Verified>
where
    S: Read + Write + Sync,
    C: List + Read + Sync,
{
    let attempt = commit.commit.attempt;
    let key = paths.verified(commit.run.day, commit.commit.generation);
    let before: Option<VerifiedDocument> = document::read(state, &key).await?;
    let before = before.filter(|before| before.attempt == attempt);
    if let Some(before) = before.as_ref().filter(|before| before.is_whole && before.found.faults.is_empty()) {
        return Ok(Verified::Whole(before.found.clone()));
    }
    let idle_before = before.as_ref().map_or(0, |before| before.idle);
    let known = before.map_or_else(Reread::default, |before| {
        // What was found faulty in a verification that ended is looked at again.
        let faults = if before.is_whole { Vec::new() } else { before.found.faults };
        Reread { right: before.right, faults, is_whole: false }
    });
    let known_before = known.right.len() + known.faults.len();
    let landed = Landed::of(commit, head, false)?;
    let context = |error: Error| error.context(format!("{} is committed, and re-reading it failed", commit.run));
    let reread = reread(customer, &landed, known, has_time).await.map_err(context)?;
    let (is_whole, right) = (reread.is_whole, reread.right.clone());
    let has_progress = is_whole || right.len() + reread.faults.len() > known_before;
    let found = verification(&landed, reread);
    let noted = VerifiedDocument {
        form: FORM,
        attempt,
        is_whole,
        idle: if has_progress { 0 } else { idle_before + 1 },
        right: if found.faults.is_empty() && is_whole { BTreeSet::new() } else { right },
        found: found.clone(),
    };
    document::write(state, &key, &noted).await?;
    if is_whole {
        return Ok(Verified::Whole(found));
    }
    if noted.idle >= MOST_IDLE {
        return Err(Error::vendor(format!(
            "{} is committed, and {} invocations in a row could not re-read one more of its files, give the function more time, make `target_file_size` smaller, or set `verify = false`",
            commit.run, noted.idle
        )));
    }
    Ok(Verified::OutOfTime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::commit::committed;
    use crate::run::testing::{World, day};

    async fn world() -> (World, CommitDocument) {
        let world = World::new("permutive");
        world.invoke("a", "2026-01-15", None, &[("0.json", vec![("t", 3)]), ("domains/0", vec![("domains", 2)])]).await.unwrap();
        let done = world.head().commits[&day("2026-01-15")].commit;
        let commit = committed(&world.state, &world.paths(), day("2026-01-15"), done).await.unwrap();
        (world, commit)
    }

    #[tokio::test]
    async fn a_snapshot_that_a_later_day_replaced_is_left_out_and_said() {
        let (world, commit) = world().await;
        let all = Landed::of(&commit, &world.head(), true).unwrap();
        world.invoke("b", "2026-01-16", None, &[("0.json", vec![("t", 1)]), ("domains/0", vec![("domains", 4)])]).await.unwrap();
        let left = Landed::of(&commit, &world.head(), true).unwrap();
        assert!(left.files.len() < all.files.len());
        assert_eq!(left.notes, ["snapshot table `domains` was replaced by the run of 2026-01-16"]);
    }

    #[tokio::test]
    async fn an_invocation_without_time_goes_on_where_the_one_before_stopped_and_gives_up_when_none_gets_anywhere() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let (world, commit) = world().await;
        let (state, paths, head) = (&world.state, world.paths(), world.head());
        let files = Landed::of(&commit, &head, false).unwrap().files.len();
        assert!(files > 1);
        for invocation in 1..=files {
            let left = AtomicUsize::new(1);
            let has_time = || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            let came_to = verify_run(state, &world.customer, &paths, &commit, &head, &has_time).await.unwrap();
            let expected = Verification { files: 2, rows: 5, ..Verification::default() };
            match came_to {
                Verified::OutOfTime => assert!(invocation < files),
                Verified::Whole(found) => {
                    assert_eq!((found.files, found.rows, found.faults), (expected.files, expected.rows, vec![]));
                }
            }
        }
        let calls = world.customer.call_count();
        verify_run(state, &world.customer, &paths, &commit, &head, &|| true).await.unwrap();
        assert_eq!(world.customer.call_count(), calls, "what was found right is not read again");

        let (world, commit) = self::world().await;
        let none = verify_run(&world.state, &world.customer, &world.paths(), &commit, &head, &|| false).await.unwrap();
        assert_eq!(none, Verified::OutOfTime);
        let error = verify_run(&world.state, &world.customer, &world.paths(), &commit, &head, &|| false).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Vendor);
        assert!(error.message().contains("could not re-read one more of its files"), "{error}");
    }

    #[tokio::test]
    async fn whatever_happens_to_an_object_is_one_fault_and_is_looked_at_again() {
        let (world, commit) = world().await;
        let key = commit.incremental[0].upload.key.clone();
        let original = world.customer.object(&key).unwrap();
        let other = bytes::Bytes::from(vec![b'x'; original.len()]);
        let landed = Landed::of(&commit, &world.head(), true).unwrap();
        let cases =
            [(None, FaultKind::Missing), (Some(original.slice(1..)), FaultKind::Size), (Some(other), FaultKind::Checksum)];
        for (body, expected) in cases {
            match body {
                Some(body) => world.customer.insert(&key, body),
                None => world.customer.remove(&key),
            }
            let found = verify(&world.customer, &landed).await.unwrap();
            let [fault] = found.faults.as_slice() else { panic!("{found:?}") };
            assert_eq!((fault.kind, fault.side, &fault.key), (expected, Kind::Customer, &key));
            assert_eq!(found.files, 1, "the rest is as it was written");
            let noted =
                verify_run(&world.state, &world.customer, &world.paths(), &commit, &world.head(), &|| true).await.unwrap();
            let Verified::Whole(noted) = noted else { panic!("{noted:?}") };
            assert_eq!(noted.faults, found.faults);
            let error = noted.failure(&commit.run).unwrap();
            assert_eq!(error.kind(), Kind::Customer);
            assert!(error.message().ends_with("`dayport verify acme --date 2026-01-15` names all"), "{error}");
        }
        world.customer.insert(&key, original);
        let mended = verify_run(&world.state, &world.customer, &world.paths(), &commit, &world.head(), &|| true).await.unwrap();
        assert!(matches!(mended, Verified::Whole(found) if found.faults.is_empty() && found.files == 2));
        let manifest = commit.manifest_key.clone().unwrap();
        world.customer.insert(&manifest, "{}");
        let found = verify(&world.customer, &landed).await.unwrap();
        assert_eq!(found.faults.iter().map(|fault| fault.kind).collect::<Vec<_>>(), [FaultKind::Manifest]);
    }

    #[test]
    fn bytes_that_are_as_written_and_hold_other_rows_are_our_own_fault() {
        let file = |checksum: Option<&str>| LandedFile {
            table: TableName::parse("t").unwrap(),
            key: "t/x.json.gz".into(),
            rows: 3,
            bytes: 9,
            checksum: checksum.map(str::to_owned),
            columns: Vec::new().into(),
        };
        let found = |lines| Found { checksum: "c".into(), content: Content::Lines(lines) };
        assert_eq!(judge(&file(Some("c")), found(3)), None);
        for (checksum, side) in [(Some("c"), Kind::Bug), (None, Kind::Customer)] {
            let (fault, found_side, message) = judge(&file(checksum), found(2)).unwrap();
            assert_eq!((fault, found_side), (FaultKind::Rows, side));
            assert!(message.starts_with("it has 2 rows and 3 were written"), "{message}");
        }
        let mut reading = Reading::lines(4);
        reading.take(0, &[0x1f, 0x8b, 8, 0]);
        let broken = Found { checksum: "c".into(), content: reading.end(4, day("2026-01-15")) };
        let (fault, _, message) = judge(&file(Some("c")), broken).unwrap();
        assert_eq!(fault, FaultKind::Rows);
        assert_eq!(message, "its rows can't be counted (its gzip ends in the middle), please report it");
    }

    #[test]
    fn the_first_column_that_differs_is_named() {
        let column = |path: &str, id| ManifestColumn {
            path: path.into(),
            column_type: "int64".into(),
            id,
            original: None,
            since: day("2026-01-15"),
            role: None,
            declared: false,
        };
        let told = [column("a", 1), column("b", 2)];
        assert_eq!(first_difference(&told, &told), None);
        let moved = first_difference(&told, &[column("b", 2), column("a", 1)]).unwrap();
        assert_eq!(moved, "its column 1 is `b` (int64, id 2) and the manifest says `a` (int64, id 1)");
        let less = first_difference(&told, &told[..1]).unwrap();
        assert_eq!(less, "its column 2 is none and the manifest says `b` (int64, id 2)");
    }
}
