//! Multipart uploads on disk: pending ones with their parts, and completed ones, remembered for a while.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use s3s::S3Result;
use serde::{Deserialize, Serialize};

use super::body::Received;
use super::checksum::{Algorithm, Checksum, kind_name};
use super::disk::{Disk, Drawer, Temporary, names_in, read_document, with_parent};
use super::failure;
use super::meta::{Attributes, Encryption};
use crate::domain::hex::hex;

const UPLOAD: &str = "upload.json";
const PART: &str = ".part";

/// A pending upload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Upload {
    pub(super) key: String,
    pub(super) initiated: SystemTime,
    pub(super) attributes: Attributes,
    /// Named on create; without one S3 keeps a CRC64NVME of its own.
    pub(super) algorithm: Option<Algorithm>,
    /// Whether the object's checksum is over its bytes, not over its parts' checksums.
    pub(super) full_object: bool,
}

impl Upload {
    /// The algorithm of the parts' digests and of the object's checksum.
    pub(super) fn kept_algorithm(&self) -> Algorithm {
        self.algorithm.unwrap_or(Algorithm::Crc64Nvme)
    }

    /// The name in `x-amz-checksum-type`.
    pub(super) fn checksum_kind(&self) -> &'static str {
        kind_name(self.full_object)
    }
}

/// A part that was received.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) number: i32,
    /// The name of its file in the upload's folder.
    file: String,
    /// Bytes.
    pub(super) size: u64,
    /// MD5, as hex digits.
    pub(super) etag: String,
    /// Base64, of the upload's algorithm.
    digest: String,
    pub(super) modified: SystemTime,
}

impl Part {
    pub(super) fn digest(&self) -> Vec<u8> {
        STANDARD.decode(&self.digest).unwrap_or_default()
    }

    /// Its checksum, for an upload of this algorithm.
    pub(super) fn checksum(&self, algorithm: Algorithm) -> Checksum {
        Checksum::of_object(algorithm, &self.digest())
    }
}

/// What a completed upload answers when it is completed again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) key: String,
    pub(super) etag: String,
    pub(super) checksum: Option<Checksum>,
    pub(super) encryption: Encryption,
}

impl Disk {
    /// Begins an upload; its id.
    pub(super) fn create_upload(&self, bucket: &str, upload: &Upload) -> S3Result<String> {
        let upload_id = self.fresh_name();
        let path = self.upload_folder(bucket, &upload_id).join(UPLOAD);
        self.write_document(bucket, &path, upload)?;
        Ok(upload_id)
    }

    /// A pending upload of `key`.
    ///
    /// # Errors
    ///
    /// `NoSuchUpload`.
    pub(super) fn upload(&self, bucket: &str, key: &str, upload_id: &str) -> S3Result<Upload> {
        if !is_upload_id(upload_id) {
            return Err(failure::no_such_upload());
        }
        let path = self.upload_folder(bucket, upload_id).join(UPLOAD);
        read_document(&path)?.filter(|upload: &Upload| upload.key == key).ok_or_else(failure::no_such_upload)
    }

    /// All pending uploads of a bucket with their ids, in the order of keys, then age.
    pub(super) fn uploads(&self, bucket: &str) -> S3Result<Vec<(String, Upload)>> {
        let folder = self.drawer(bucket, Drawer::Uploads);
        let names = names_in(&folder).map_err(|error| failure::internal("list uploads", &error))?;
        let mut uploads = Vec::new();
        for upload_id in names {
            let found: Option<Upload> = read_document(&folder.join(&upload_id).join(UPLOAD))?;
            uploads.extend(found.map(|upload| (upload_id, upload)));
        }
        uploads
            .sort_by(|(id, one), (other_id, other)| (&one.key, one.initiated, id).cmp(&(&other.key, other.initiated, other_id)));
        Ok(uploads)
    }

    /// Adds a received part to a pending upload, in the place of an earlier one of its number.
    ///
    /// # Errors
    ///
    /// `NoSuchUpload` if it was completed or aborted while the part came in.
    pub(super) fn add_part(&self, bucket: &str, key: &str, upload_id: &str, number: i32, received: &Received) -> S3Result<Part> {
        let failed = |error: io::Error| failure::internal("keep a part", &error);
        let _held = self.lock_upload(upload_id);
        let upload = self.upload(bucket, key, upload_id)?;
        let folder = self.upload_folder(bucket, upload_id);
        let document = part_document(&folder, number);
        let before: Option<Part> = read_document(&document)?;
        let digest = received.digests.of(upload.kept_algorithm());
        let part = Part {
            number,
            file: self.fresh_name(),
            size: received.size,
            etag: hex(&received.digests.md5),
            digest: STANDARD.encode(digest.unwrap_or_default()),
            modified: SystemTime::now(),
        };
        fs::rename(&received.file.path, folder.join(&part.file)).map_err(failed)?;
        self.write_document(bucket, &document, &part)?;
        if let Some(before) = before {
            // It goes with the upload at the latest.
            let _ = fs::remove_file(folder.join(before.file));
        }
        Ok(part)
    }

    /// The parts of a pending upload, by number.
    pub(super) fn parts(&self, bucket: &str, upload_id: &str) -> S3Result<Vec<Part>> {
        let folder = self.upload_folder(bucket, upload_id);
        let names = names_in(&folder).map_err(|error| failure::internal("list parts", &error))?;
        let mut parts = Vec::new();
        for name in names.iter().filter(|name| is_part_document(name)) {
            let part: Option<Part> = read_document(&folder.join(name))?;
            parts.extend(part);
        }
        parts.sort_by_key(|part: &Part| part.number);
        Ok(parts)
    }

    /// Puts parts together in one file in progress; the parts stay as they are.
    pub(super) fn assemble(&self, bucket: &str, upload_id: &str, parts: &[Part]) -> S3Result<Temporary> {
        let failed = |error: io::Error| failure::internal("put parts together", &error);
        let folder = self.upload_folder(bucket, upload_id);
        let (whole, mut file) = self.temporary(bucket)?;
        if let [only] = parts {
            let part = folder.join(&only.file);
            // A second name costs nothing, where the part is not already an object under one.
            if names_of(&part).map_err(failed)? == 1 {
                fs::remove_file(&whole.path).map_err(failed)?;
                if fs::hard_link(&part, &whole.path).is_ok() {
                    return Ok(whole);
                }
                file = File::create_new(&whole.path).map_err(failed)?;
            }
        }
        for part in parts {
            let mut from = File::open(folder.join(&part.file)).map_err(failed)?;
            let copied = io::copy(&mut from, &mut file).map_err(failed)?;
            if copied != part.size {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(whole)
    }

    /// Removes a pending upload and its parts.
    pub(super) fn drop_upload(&self, bucket: &str, upload_id: &str) -> S3Result<()> {
        let failed = |error: io::Error| failure::internal("remove an upload", &error);
        let folder = self.upload_folder(bucket, upload_id);
        // Out of sight at once; whatever is left of it goes at the next start.
        let aside = self.drawer(bucket, Drawer::Temporary).join(self.fresh_name());
        with_parent(&aside, || fs::rename(&folder, &aside)).map_err(failed)?;
        fs::remove_dir_all(&aside).map_err(failed)
    }

    pub(super) fn remember_done(&self, bucket: &str, upload_id: &str, done: &Done) -> S3Result<()> {
        self.write_document(bucket, &self.done_path(bucket, upload_id), done)
    }

    /// What a completed upload of `key` answers.
    pub(super) fn done(&self, bucket: &str, key: &str, upload_id: &str) -> S3Result<Option<Done>> {
        if !is_upload_id(upload_id) {
            return Ok(None);
        }
        let done: Option<Done> = read_document(&self.done_path(bucket, upload_id))?;
        Ok(done.filter(|done| done.key == key))
    }

    fn done_path(&self, bucket: &str, upload_id: &str) -> PathBuf {
        self.drawer(bucket, Drawer::Done).join(format!("{upload_id}.json"))
    }

    fn upload_folder(&self, bucket: &str, upload_id: &str) -> PathBuf {
        self.drawer(bucket, Drawer::Uploads).join(upload_id)
    }
}

/// Only what [`Disk::fresh_name`] gives may become a path.
fn is_upload_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// How many names a file has.
#[cfg(unix)]
fn names_of(path: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(fs::metadata(path)?.nlink())
}

/// How many names a file has: unknown here, so that it is never given another.
#[cfg(not(unix))]
fn names_of(_path: &Path) -> io::Result<u64> {
    Ok(0)
}

fn is_part_document(name: &str) -> bool {
    name.strip_suffix(PART).is_some_and(|number| number.parse::<i32>().is_ok())
}

fn part_document(folder: &Path, number: i32) -> PathBuf {
    folder.join(format!("{number:05}{PART}"))
}
