//! Objects in the folder: where a key's bytes lie, and how one version replaces another at once.
//!
//! What is kept about a version is found by the time and size of its file, and written before the
//! file gets its name. Who has opened a file thus finds what belongs to exactly these bytes.

use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::SystemTime;

use s3s::S3Result;
use s3s::crypto::{Checksum as _, Md5};

use super::disk::{Disk, Drawer, Temporary, is_absent, read_document, with_parent};
use super::failure;
use super::key::{is_plain, side_name};
use super::meta::{Attributes, Meta, WriteCondition};
use crate::domain::hex::hex;

/// How often a lookup is begun anew because the object was replaced under it.
const ATTEMPTS: usize = 1000;

/// A version of an object.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) meta: Meta,
    /// Bytes.
    pub(super) size: u64,
    pub(super) modified: SystemTime,
}

/// What tells the versions of a file apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    modified: SystemTime,
    size: u64,
}

impl Identity {
    fn of(found: &Metadata) -> io::Result<Self> {
        Ok(Self { modified: found.modified()?, size: found.len() })
    }

    fn of_version(stored: &Stored) -> Self {
        Self { modified: stored.modified, size: stored.size }
    }

    fn name(self) -> String {
        let since = self.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        format!("{}-{}", since.as_nanos(), self.size)
    }
}

/// What there is at a plain key's path.
enum Spot {
    Free,
    Taken(PathBuf, Identity),
    /// A folder of that name.
    Folder,
    /// A link, or a file where a folder would have to be.
    Blocked,
}

impl Disk {
    /// The version of an object that stands now.
    pub(super) fn head(&self, bucket: &str, key: &str) -> S3Result<Option<Stored>> {
        self.stable(bucket, key, |_path, identity| Ok(Some(((), identity)))).map(|found| found.map(|((), stored)| stored))
    }

    /// The version of an object that stands now, opened: what is written later does not change it.
    pub(super) fn open_object(&self, bucket: &str, key: &str) -> S3Result<Option<(File, Stored)>> {
        self.stable(bucket, key, |path, _identity| {
            let file = match File::open(path) {
                Ok(file) => file,
                Err(error) if is_absent(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            let identity = Identity::of(&file.metadata()?)?;
            Ok(Some((file, identity)))
        })
    }

    /// Takes hold of an object and finds what is kept about exactly that version.
    fn stable<T>(
        &self,
        bucket: &str,
        key: &str,
        take: impl Fn(&Path, Identity) -> io::Result<Option<(T, Identity)>>,
    ) -> S3Result<Option<(T, Stored)>> {
        let failed = |error: io::Error| failure::internal("look at an object", &error);
        for _attempt in 0..ATTEMPTS {
            let Some((path, seen)) = self.locate(bucket, key).map_err(failed)? else {
                return Ok(None);
            };
            let Some((taken, identity)) = take(&path, seen).map_err(failed)? else {
                continue;
            };
            let kept: Option<Meta> = read_document(&self.meta_path(bucket, key, identity))?;
            let meta = match kept.filter(|meta| meta.key == key) {
                Some(meta) => meta,
                // Nothing kept: replaced just now, or put there by hand.
                None => match self.locate(bucket, key).map_err(failed)? {
                    Some((_path, again)) if again == identity => made_by_hand(key, identity),
                    _ => continue,
                },
            };
            let stored = Stored { meta, size: identity.size, modified: identity.modified };
            return Ok(Some((taken, stored)));
        }
        Err(failed(io::Error::other("it never stood still")))
    }

    fn locate(&self, bucket: &str, key: &str) -> io::Result<Option<(PathBuf, Identity)>> {
        if self.is_odd(bucket, key) {
            let path = self.odd_path(bucket, key);
            return match fs::symlink_metadata(&path) {
                Ok(found) => Ok(Some((path, Identity::of(&found)?))),
                Err(error) if is_absent(&error) => Ok(None),
                Err(error) => Err(error),
            };
        }
        if !is_plain(key) {
            return Ok(None);
        }
        match spot(&self.folder(bucket), key)? {
            Spot::Taken(path, identity) => Ok(Some((path, identity))),
            Spot::Free | Spot::Folder | Spot::Blocked => Ok(None),
        }
    }

    /// Gives a finished file its name, if `condition` holds for the version that stands; at once for all readers.
    pub(super) fn commit(&self, bucket: &str, temporary: &Temporary, meta: Meta, condition: &WriteCondition) -> S3Result<Stored> {
        let failed = |error: io::Error| failure::internal("put an object in place", &error);
        let folder = self.bucket(bucket)?;
        let key = meta.key.clone();
        let _held = self.lock_key(bucket, &key);
        let before = self.head(bucket, &key)?;
        condition.check(before.as_ref().map(|stored| stored.meta.etag.as_str()))?;

        let identity = self.date(&temporary.path).map_err(failed)?;
        let kept = self.meta_path(bucket, &key, identity);
        self.write_document(bucket, &kept, &meta)?;
        let plain =
            !self.is_odd(bucket, &key) && is_plain(&key) && put_in_bucket(&folder, &key, &temporary.path).map_err(failed)?;
        if !plain {
            self.put_aside(bucket, &key, &temporary.path).map_err(failed)?;
        }
        if let Some(before) = before
            && Identity::of_version(&before) != identity
        {
            self.forget(bucket, &key, &before);
        }
        Ok(Stored { meta, size: identity.size, modified: identity.modified })
    }

    /// Removes an object if there is one and `allowed` lets it.
    pub(super) fn delete(&self, bucket: &str, key: &str, allowed: impl FnOnce(Option<&Stored>) -> S3Result<()>) -> S3Result<()> {
        let failed = |error: io::Error| failure::internal("delete an object", &error);
        let folder = self.bucket(bucket)?;
        let _held = self.lock_key(bucket, key);
        let before = self.head(bucket, key)?;
        allowed(before.as_ref())?;
        let Some(before) = before else {
            return Ok(());
        };
        let Some((path, _identity)) = self.locate(bucket, key).map_err(failed)? else {
            return Ok(());
        };
        match fs::remove_file(&path) {
            Err(error) if !is_absent(&error) => return Err(failed(error)),
            _ => {}
        }
        if self.is_odd(bucket, key) {
            let mut odd = self.odd.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(keys) = odd.get_mut(bucket) {
                keys.remove(key);
            }
            drop(odd);
            // Without its data the file with the key means nothing; the next start passes over it.
            let _ = fs::remove_file(path.with_extension("key"));
        } else {
            remove_empty_parents(&folder, &path);
        }
        self.forget(bucket, key, &before);
        Ok(())
    }

    /// The odd keys of a bucket from `start` on that begin with `prefix`, in order.
    pub(super) fn odd_keys(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Vec<String> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let odd = self.odd.read().unwrap_or_else(PoisonError::into_inner);
        let Some(keys) = odd.get(bucket) else {
            return Vec::new();
        };
        keys.range::<str, _>((start, Bound::Unbounded)).take_while(|key| key.starts_with(prefix)).cloned().collect()
    }

    fn is_odd(&self, bucket: &str, key: &str) -> bool {
        let odd = self.odd.read().unwrap_or_else(PoisonError::into_inner);
        odd.get(bucket).is_some_and(|keys| keys.contains(key))
    }

    fn odd_path(&self, bucket: &str, key: &str) -> PathBuf {
        self.drawer(bucket, Drawer::Odd).join(side_name(key))
    }

    fn meta_path(&self, bucket: &str, key: &str, identity: Identity) -> PathBuf {
        let name = side_name(key);
        // Two digits of folders, so that none grows too large.
        let folder = name.get(..2).unwrap_or_default();
        self.drawer(bucket, Drawer::Meta).join(folder).join(format!("{name}-{}.json", identity.name()))
    }

    /// Gives a file a time of its own.
    fn date(&self, path: &Path) -> io::Result<Identity> {
        let file = File::options().append(true).open(path)?;
        file.set_modified(self.fresh_time())?;
        // As the file system keeps it, which may be coarser.
        Identity::of(&file.metadata()?)
    }

    /// Drops what was kept about a version that is gone.
    fn forget(&self, bucket: &str, key: &str, gone: &Stored) {
        let identity = Identity::of_version(gone);
        // There was none for a file made by hand, and one that stays harms nobody.
        let _ = fs::remove_file(self.meta_path(bucket, key, identity));
    }

    fn put_aside(&self, bucket: &str, key: &str, file: &Path) -> io::Result<()> {
        let path = self.odd_path(bucket, key);
        let named = path.with_extension("key");
        with_parent(&named, || fs::write(&named, key))?;
        fs::rename(file, &path)?;
        let mut odd = self.odd.write().unwrap_or_else(PoisonError::into_inner);
        odd.entry(bucket.to_owned()).or_default().insert(key.to_owned());
        Ok(())
    }
}

/// What S3 would keep about a file that somebody copied into a bucket.
fn made_by_hand(key: &str, identity: Identity) -> Meta {
    // Not the MD5 of the content, which would take reading it for every listing; so it looks
    // like the ETag of an upload in parts, which nobody takes for one.
    let etag = Md5::checksum(format!("{}\n{key}", identity.name()).as_bytes());
    Meta { key: key.to_owned(), etag: format!("{}-1", hex(&etag)), checksum: None, attributes: Attributes::default() }
}

/// Looks at a plain key's path, following no link.
fn spot(folder: &Path, key: &str) -> io::Result<Spot> {
    let mut path = folder.to_path_buf();
    let mut names = key.split('/').peekable();
    while let Some(name) = names.next() {
        path.push(name);
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Spot::Free),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename) => {
                return Ok(Spot::Blocked);
            }
            Err(error) => return Err(error),
        };
        let is_last = names.peek().is_none();
        if is_last && found.is_file() {
            let identity = Identity::of(&found)?;
            return Ok(Spot::Taken(path, identity));
        }
        if !found.is_dir() {
            return Ok(Spot::Blocked);
        }
        if is_last {
            return Ok(Spot::Folder);
        }
    }
    Ok(Spot::Free)
}

/// Renames `file` to a plain key's path; false if something is in the way.
fn put_in_bucket(folder: &Path, key: &str, file: &Path) -> io::Result<bool> {
    let path = folder.join(key);
    for _attempt in 0..ATTEMPTS {
        match spot(folder, key)? {
            Spot::Blocked => return Ok(false),
            // An empty folder is in nobody's way.
            Spot::Folder if fs::remove_dir(&path).is_err() => return Ok(false),
            Spot::Folder | Spot::Free | Spot::Taken(..) => {}
        }
        let placed = with_parent(&path, || fs::rename(file, &path));
        match placed.map_err(|error| error.kind()) {
            Ok(()) => return Ok(true),
            // The folder was removed again by a deletion; once more.
            Err(io::ErrorKind::NotFound) => {}
            Err(
                io::ErrorKind::IsADirectory
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::AlreadyExists
                | io::ErrorKind::DirectoryNotEmpty
                | io::ErrorKind::InvalidFilename,
            ) => return Ok(false),
            Err(kind) => return Err(kind.into()),
        }
    }
    Ok(false)
}

/// Removes the folders above `path` that have become empty, up to the bucket's own.
fn remove_empty_parents(bucket: &Path, path: &Path) {
    let above = path.ancestors().skip(1);
    for folder in above.take_while(|folder| *folder != bucket) {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}
