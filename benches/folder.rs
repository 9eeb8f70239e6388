//! A bucket that is a folder: the ports over `std::fs`, so that a bench's memory and time are the pipeline's alone.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use dayport::domain::error::{Error, Result};
use dayport::store::checksum::Crc64Nvme;
use dayport::store::ports::{
    Body, Completed, Condition, Delete, List, ListUploads, Multipart, ObjectInfo, Part, Put, Read, Staged, Upload, UploadInfo,
    Write,
};

/// What one read of a body gives; about what a connection does.
const PIECE: usize = 64 << 10;

/// One process, one writer: enough for a bench, and no more. Parts lie in a folder beside their object until it is complete.
#[derive(Clone)]
pub struct Folder {
    root: PathBuf,
    turn: Arc<Mutex<()>>,
}

pub struct FolderBody {
    file: File,
}

impl Folder {
    pub fn new(root: PathBuf) -> Folder {
        fs::create_dir_all(&root).unwrap();
        Folder { root, turn: Arc::default() }
    }

    pub fn insert(&self, key: &str, bytes: &[u8]) {
        fs::write(self.place(key).unwrap(), bytes).unwrap();
    }

    fn place(&self, key: &str) -> io::Result<PathBuf> {
        let path = self.root.join(key);
        fs::create_dir_all(path.parent().unwrap_or(&self.root))?;
        Ok(path)
    }

    fn tag(path: &Path) -> io::Result<String> {
        let length = fs::metadata(path)?.len();
        // Only the state's documents are ever written over.
        let sum = if length < 1 << 20 { Crc64Nvme::of(&fs::read(path)?).value() } else { 0 };
        Ok(format!("\"{length}-{sum:016x}\""))
    }
}

fn failed(error: io::Error) -> Error {
    Error::retryable("the bench's folder failed").with_source(error)
}

fn collect(folder: &Path, root: &Path, out: &mut Vec<ObjectInfo>) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, root, out)?;
        } else {
            let key = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            out.push(ObjectInfo { key, size: fs::metadata(&path)?.len(), etag: Folder::tag(&path)? });
        }
    }
    Ok(())
}

impl List for Folder {
    async fn list_page(&self, prefix: &str, after: Option<&str>) -> Result<(Vec<ObjectInfo>, bool)> {
        let mut all = Vec::new();
        let folder = self.root.join(prefix.rsplit_once('/').map_or("", |(folder, _)| folder));
        collect(&folder, &self.root, &mut all).map_err(failed)?;
        all.retain(|object| object.key.starts_with(prefix) && after.is_none_or(|after| object.key.as_str() > after));
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Ok((all, false))
    }
}

impl Staged for Folder {}

/// No bench sweeps.
impl ListUploads for Folder {
    async fn list_uploads_page(&self, _: &str, _: Option<&UploadInfo>) -> Result<(Vec<UploadInfo>, Option<UploadInfo>)> {
        Ok((Vec::new(), None))
    }
}

impl Body for FolderBody {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        let mut bytes = vec![0; PIECE];
        match self.file.read(&mut bytes) {
            Ok(0) => None,
            Ok(length) => {
                bytes.truncate(length);
                Some(Ok(bytes.into()))
            }
            Err(error) => Some(Err(failed(error))),
        }
    }
}

impl Read for Folder {
    type Body = FolderBody;

    async fn read_from(&self, key: &str, offset: u64, _etag: &str) -> Result<FolderBody> {
        let mut file = File::open(self.root.join(key)).map_err(failed)?;
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        Ok(FolderBody { file })
    }

    async fn read_small(&self, key: &str) -> Result<Option<(Bytes, String)>> {
        let path = self.root.join(key);
        if !path.is_file() {
            return Ok(None);
        }
        let tag = Folder::tag(&path).map_err(failed)?;
        Ok(Some((fs::read(&path).map_err(failed)?.into(), tag)))
    }
}

impl Write for Folder {
    async fn put(&self, key: &str, body: Bytes, _content_type: &str, condition: &Condition) -> Result<Put> {
        let _turn = self.turn.lock().unwrap();
        let path = self.place(key).map_err(failed)?;
        let holds = match condition {
            Condition::None => true,
            Condition::Absent => !path.exists(),
            Condition::Unchanged(etag) => path.exists() && Folder::tag(&path).map_err(failed)? == *etag,
        };
        if !holds {
            return Ok(Put::Lost);
        }
        fs::write(&path, &body).map_err(failed)?;
        Ok(Put::Done(Folder::tag(&path).map_err(failed)?))
    }
}

impl Multipart for Folder {
    async fn create(&self, key: &str, _content_type: &str) -> Result<String> {
        fs::create_dir_all(self.root.join(format!("{key}.parts"))).map_err(failed)?;
        Ok("upload".to_owned())
    }

    async fn part(&self, key: &str, _id: &str, number: i32, body: Bytes) -> Result<Part> {
        let write = || {
            let folder = self.place(&format!("{key}.parts/{number}"))?;
            File::create(folder)?.write_all(&body)
        };
        write().map_err(failed)?;
        Ok(Part { number, etag: format!("\"{number}\""), checksum: Some(Crc64Nvme::of(&body).base64()) })
    }

    async fn complete(&self, upload: &Upload) -> Result<Completed> {
        let path = self.root.join(&upload.key);
        let parts = self.root.join(format!("{}.parts", upload.key));
        let join = || -> io::Result<()> {
            let mut at = 0;
            let first = parts.join("1");
            let whole = File::options().write(true).open(&first)?;
            for part in &upload.parts {
                let from = parts.join(part.number.to_string());
                let length = fs::metadata(&from)?.len();
                if part.number > 1 {
                    let mut file = File::open(&from)?;
                    let mut piece = vec![0; 1 << 20];
                    let mut to = at;
                    loop {
                        let read = file.read(&mut piece)?;
                        if read == 0 {
                            break;
                        }
                        whole.write_all_at(&piece[..read], to)?;
                        to += read as u64;
                    }
                }
                at += length;
            }
            assert_eq!(at, upload.size, "{}", upload.key);
            fs::rename(&first, &path)?;
            fs::remove_dir_all(&parts)
        };
        join().map_err(failed)?;
        Ok(Completed::Done)
    }

    async fn abort(&self, key: &str, _id: &str) -> Result<()> {
        let _ = fs::remove_dir_all(self.root.join(format!("{key}.parts")));
        Ok(())
    }
}

impl Delete for Folder {
    async fn delete(&self, key: &str) -> Result<()> {
        let _ = fs::remove_file(self.root.join(key));
        Ok(())
    }
}
