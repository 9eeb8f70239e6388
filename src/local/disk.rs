//! The folder: buckets, the side folder, locks, files in progress and small documents.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use s3s::path::check_bucket_name;
use s3s::{S3Result, s3_error};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failure;
use super::key::side_name;
use crate::domain::hex::hex;

/// The side folder's name; no bucket can have it, since it starts with a dot.
const SIDE: &str = ".dayport-local";

/// Locks that keys and uploads share by hash; more only make waiting for an unrelated one rarer.
const STRIPES: usize = 256;

/// How long a completed upload answers a repeated completion: as long as Dayport relies on one.
const REMEMBERED: Duration = Duration::from_hours(7 * 24);

/// How long a root whose last process is just ending is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the side folder holds for each bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Drawer {
    /// What is kept about objects.
    Meta,
    /// Objects that can't be a file in the bucket, each beside a file with its key.
    Odd,
    /// Pending uploads.
    Uploads,
    /// Completed uploads.
    Done,
    /// Files in progress.
    Temporary,
}

impl Drawer {
    fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Odd => "odd",
            Self::Uploads => "uploads",
            Self::Done => "done",
            Self::Temporary => "tmp",
        }
    }
}

/// The served folder. All methods block.
pub(super) struct Disk {
    root: PathBuf,
    side: PathBuf,
    key_locks: Vec<Mutex<()>>,
    upload_locks: Vec<Mutex<()>>,
    hash: RandomState,
    counter: AtomicU64,
    last_time: Mutex<SystemTime>,
    /// Keys in [`Drawer::Odd`], by bucket.
    pub(super) odd: RwLock<HashMap<String, BTreeSet<String>>>,
    /// Locked as long as this process serves the root.
    _hold: File,
}

impl Disk {
    /// Takes hold of `root`, clears what a killed process left half written, and reads the odd keys.
    pub(super) async fn open(root: PathBuf) -> io::Result<Self> {
        let side = root.join(SIDE);
        fs::create_dir_all(&side)?;
        let hold = take_hold(&side.join("lock")).await?;
        let locks = || (0..STRIPES).map(|_| Mutex::new(())).collect();
        let disk = Self {
            root,
            side,
            key_locks: locks(),
            upload_locks: locks(),
            hash: RandomState::new(),
            counter: AtomicU64::new(0),
            last_time: Mutex::new(SystemTime::UNIX_EPOCH),
            odd: RwLock::default(),
            _hold: hold,
        };
        for bucket in names_in(&disk.side)? {
            if !check_bucket_name(&bucket) {
                continue;
            }
            let temporary = disk.drawer(&bucket, Drawer::Temporary);
            if temporary.exists() {
                fs::remove_dir_all(temporary)?;
            }
            disk.forget_old_completions(&bucket)?;
            disk.read_odd_keys(&bucket)?;
        }
        Ok(disk)
    }

    fn forget_old_completions(&self, bucket: &str) -> io::Result<()> {
        let done = self.drawer(bucket, Drawer::Done);
        for name in names_in(&done)? {
            let path = done.join(name);
            let age = fs::metadata(&path)?.modified()?.elapsed();
            if age.is_ok_and(|age| age > REMEMBERED) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn read_odd_keys(&self, bucket: &str) -> io::Result<()> {
        let odd = self.drawer(bucket, Drawer::Odd);
        let mut keys = BTreeSet::new();
        for name in names_in(&odd)? {
            let Some(data_name) = name.strip_suffix(".key") else {
                continue;
            };
            let key = fs::read_to_string(odd.join(&name))?;
            if side_name(&key) == data_name && odd.join(data_name).is_file() {
                keys.insert(key);
            }
        }
        let mut all = self.odd.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(bucket.to_owned(), keys);
        Ok(())
    }

    /// The folder of an existing bucket.
    ///
    /// # Errors
    ///
    /// `NoSuchBucket`, also for what can't be a bucket's name.
    pub(super) fn bucket(&self, bucket: &str) -> S3Result<PathBuf> {
        if !check_bucket_name(bucket) {
            return Err(failure::no_such_bucket());
        }
        let path = self.root.join(bucket);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => Ok(path),
            Ok(_) => Err(failure::no_such_bucket()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(failure::no_such_bucket()),
            Err(error) => Err(failure::internal("look at a bucket", &error)),
        }
    }

    /// Where a bucket's folder would be, whether or not it is there.
    pub(super) fn folder(&self, bucket: &str) -> PathBuf {
        self.root.join(bucket)
    }

    /// The names of all buckets, in order, with the time of the folder.
    pub(super) fn buckets(&self) -> S3Result<Vec<(String, SystemTime)>> {
        let names = names_in(&self.root).map_err(|error| failure::internal("list buckets", &error))?;
        let mut buckets: Vec<(String, SystemTime)> = names
            .into_iter()
            .filter(|name| check_bucket_name(name))
            .filter_map(|name| {
                let found = fs::symlink_metadata(self.root.join(&name)).ok()?;
                let time = found.created().or_else(|_| found.modified()).ok()?;
                found.is_dir().then_some((name, time))
            })
            .collect();
        buckets.sort();
        Ok(buckets)
    }

    /// Makes a bucket; false if it was there.
    pub(super) fn create_bucket(&self, bucket: &str) -> S3Result<bool> {
        if !check_bucket_name(bucket) {
            return Err(s3_error!(InvalidBucketName, "The specified bucket is not valid."));
        }
        match fs::create_dir(self.root.join(bucket)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(failure::internal("make a bucket", &error)),
        }
        // What was kept for a folder of this name that somebody removed by hand is nobody's now.
        self.clear_side(bucket)?;
        Ok(true)
    }

    /// Removes a bucket whose emptiness of objects the caller has seen.
    ///
    /// # Errors
    ///
    /// `BucketNotEmpty` if there is any file in it, listed or not.
    pub(super) fn delete_bucket(&self, bucket: &str) -> S3Result<()> {
        let path = self.bucket(bucket)?;
        match remove_empty_tree(&path) {
            Ok(()) => self.clear_side(bucket),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Err(s3_error!(BucketNotEmpty, "The bucket you tried to delete is not empty"))
            }
            Err(error) => Err(failure::internal("remove a bucket", &error)),
        }
    }

    fn clear_side(&self, bucket: &str) -> S3Result<()> {
        let mut odd = self.odd.write().unwrap_or_else(PoisonError::into_inner);
        odd.remove(bucket);
        match fs::remove_dir_all(self.side.join(bucket)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failure::internal("clear a bucket's side folder", &error))
            }
            _ => Ok(()),
        }
    }

    /// A bucket's part of the side folder; it may not exist yet.
    pub(super) fn drawer(&self, bucket: &str, drawer: Drawer) -> PathBuf {
        self.side.join(bucket).join(drawer.name())
    }

    /// Held from looking at a key to changing it.
    pub(super) fn lock_key(&self, bucket: &str, key: &str) -> MutexGuard<'_, ()> {
        lock(&self.key_locks, self.hash.hash_one((bucket, key)))
    }

    /// Held while an upload's parts change or are put together.
    pub(super) fn lock_upload(&self, upload_id: &str) -> MutexGuard<'_, ()> {
        lock(&self.upload_locks, self.hash.hash_one(upload_id))
    }

    /// A name that no other call gives, and that can't be guessed: 64 hex digits.
    pub(super) fn fresh_name(&self) -> String {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        // Each hasher state has its own random keys; a fresh one per word keeps the words unrelated.
        let words: Vec<u8> =
            (0_u8..4).flat_map(|word| RandomState::new().hash_one((count, word, SystemTime::now())).to_le_bytes()).collect();
        hex(&words)
    }

    /// The present, but never the same twice, so that a file's time and size tell versions apart.
    pub(super) fn fresh_time(&self) -> SystemTime {
        let mut last = self.last_time.lock().unwrap_or_else(PoisonError::into_inner);
        *last = SystemTime::now().max(*last + Duration::from_micros(1));
        *last
    }

    /// A new, empty file in progress.
    pub(super) fn temporary(&self, bucket: &str) -> S3Result<(Temporary, File)> {
        let path = self.drawer(bucket, Drawer::Temporary).join(self.fresh_name());
        let file = with_parent(&path, || File::create_new(&path)).map_err(|error| failure::internal("make a file", &error))?;
        Ok((Temporary { path }, file))
    }

    /// Writes a small document so that readers see the old or the new one, never half of it.
    pub(super) fn write_document(&self, bucket: &str, path: &Path, document: &impl Serialize) -> S3Result<()> {
        let failed = |error: &io::Error| failure::internal("write a document", error);
        let bytes = serde_json::to_vec(document).map_err(|error| failed(&io::Error::other(error)))?;
        let (temporary, mut file) = self.temporary(bucket)?;
        file.write_all(&bytes).map_err(|error| failed(&error))?;
        with_parent(path, || fs::rename(&temporary.path, path)).map_err(|error| failed(&error))
    }
}

/// A file in progress; removed when dropped, unless it was renamed.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) path: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "an unfinished file stays behind");
        }
    }
}

/// Reads a small document; `None` if there is none, or only rubbish.
pub(super) fn read_document<T: DeserializeOwned>(path: &Path) -> S3Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)
            .inspect_err(|error| tracing::warn!(%error, path = %path.display(), "a document is damaged and passed over"))
            .ok()),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(failure::internal("read a document", &error)),
    }
}

/// Whether the error says that there is nothing at a path.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Does `work` on `path`; if its folder is missing, makes it and does it again.
pub(super) fn with_parent<T>(path: &Path, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match work() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            work()
        }
        answer => answer,
    }
}

/// The names in a folder that are Unicode, in no order; none if there is no folder.
pub(super) fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok());
    }
    Ok(names)
}

/// Removes a folder that holds nothing but empty folders.
fn remove_empty_tree(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_empty_tree(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

fn lock(locks: &[Mutex<()>], hash: u64) -> MutexGuard<'_, ()> {
    static SPARE: Mutex<()> = Mutex::new(());
    let stripe = usize::try_from(hash % STRIPES as u64).unwrap_or_default();
    locks.get(stripe).unwrap_or(&SPARE).lock().unwrap_or_else(PoisonError::into_inner)
}

async fn take_hold(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    let start = tokio::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "another process serves this folder; stop it or choose another `--root`",
                ));
            }
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                tracing::warn!("this file system has no locks; let only one process serve the folder");
                return Ok(file);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
