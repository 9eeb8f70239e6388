//! What does not fit in memory, on disk: encoded bytes that wait for a full part, ids, staged Parquet.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::error::{Error, Result};
use crate::domain::settings::ScratchBudget;

/// A folder and how much of it may be used.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    budget: u64,
    used: Arc<AtomicU64>,
    named: AtomicU64,
}

/// One file's waiting bytes. Its name is gone from the folder as soon as it is open, so that a killed process leaves nothing behind; its
/// bytes are given back when it is dropped.
#[derive(Debug)]
pub struct ScratchFile {
    file: File,
    length: u64,
    used: Arc<AtomicU64>,
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        self.used.fetch_sub(self.length, Ordering::Relaxed);
    }
}

impl Scratch {
    /// Scratch in `dir`; a share of what is free is taken of what is free now.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is between 0 and 1")]
    pub fn open(dir: &Path, budget: ScratchBudget) -> Result<Scratch> {
        let budget = match budget {
            ScratchBudget::Bytes(bytes) => bytes,
            ScratchBudget::ShareOfFree(share) => {
                let free = rustix::fs::statvfs(dir).map_err(|error| unusable(dir, error.into()))?;
                let bytes = free.f_bavail.saturating_mul(free.f_frsize);
                // Whole percents are all that the configuration can say.
                (bytes / 100).saturating_mul((share * 100.0) as u64)
            }
        };
        Ok(Scratch { dir: dir.to_owned(), budget, used: Arc::default(), named: AtomicU64::new(0) })
    }

    /// Whether `bytes` more may be kept.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.budget
    }

    /// Bytes that are kept now.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// A new, empty file.
    pub fn create(&self) -> Result<ScratchFile> {
        let number = self.named.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("dayport-{}-{number}", std::process::id()));
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(|error| unusable(&self.dir, error))?;
        std::fs::remove_file(&path).map_err(|error| unusable(&self.dir, error))?;
        Ok(ScratchFile { file, length: 0, used: Arc::clone(&self.used) })
    }

    /// Appends to a file.
    pub fn append(&self, to: &mut ScratchFile, bytes: &[u8]) -> Result<()> {
        to.file.write_all(bytes).map_err(|error| unusable(&self.dir, error))?;
        to.length += bytes.len() as u64;
        self.used.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Fills `into` with a file's bytes from `offset` on.
    pub fn read_at(&self, from: &ScratchFile, offset: u64, into: &mut [u8]) -> Result<()> {
        from.read_at(offset, into).map_err(|error| unusable(&self.dir, error))
    }

    /// Takes everything out of a file, to the end of `bytes`; it is empty afterwards.
    pub fn take(&self, from: &mut ScratchFile, bytes: &mut Vec<u8>) -> Result<()> {
        let read = (|| {
            from.file.seek(SeekFrom::Start(0))?;
            from.file.read_to_end(bytes)?;
            from.file.set_len(0)?;
            from.file.seek(SeekFrom::Start(0))
        })();
        read.map_err(|error| unusable(&self.dir, error))?;
        self.used.fetch_sub(from.length, Ordering::Relaxed);
        from.length = 0;
        Ok(())
    }
}

impl Scratch {
    /// What an error of one of its files is to the run.
    #[must_use]
    pub fn unusable(&self, error: std::io::Error) -> Error {
        unusable(&self.dir, error)
    }
}

impl ScratchFile {
    /// Bytes in it.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Fills `into` with its bytes from `offset` on.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
}

fn unusable(dir: &Path, error: std::io::Error) -> Error {
    Error::vendor(format!(
        "the scratch folder `{}` can't be used, make it writable, give the function more ephemeral storage, or set `run.scratch_dir`",
        dir.display()
    ))
    .with_source(error)
}
