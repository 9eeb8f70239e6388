//! Listing a bucket in the order of its keys' bytes, page by page, without looking at more folders than it must.

use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::{io, vec};

use s3s::S3Result;

use super::disk::{Disk, is_absent};
use super::failure;
use super::place::Stored;

/// What a page is to show.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    pub(super) prefix: String,
    /// Never empty.
    pub(super) delimiter: Option<String>,
    /// The key or common prefix that the page begins after.
    pub(super) after: Option<String>,
    /// The most keys and common prefixes together.
    pub(super) limit: usize,
}

impl Query {
    /// The common prefix that `key` is shown as, if it is.
    pub(super) fn common_prefix<'a>(&self, key: &'a str) -> Option<&'a str> {
        let delimiter = self.delimiter.as_deref()?;
        let rest = key.strip_prefix(self.prefix.as_str())?;
        let end = rest.find(delimiter)? + delimiter.len();
        key.get(..self.prefix.len() + end)
    }
}

/// A page of a listing.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) objects: Vec<(String, Stored)>,
    pub(super) prefixes: Vec<String>,
    /// What the next page begins after, if there is more.
    pub(super) next: Option<String>,
}

impl Disk {
    /// # Errors
    ///
    /// `InternalError` for a folder that can't be read.
    pub(super) fn list(&self, bucket: &str, query: &Query) -> S3Result<Page> {
        let mut page = Page::default();
        if query.limit == 0 {
            return Ok(page);
        }
        let failed = |error: io::Error| failure::internal("list a bucket", &error);
        let mut keys = Keys::new(self, bucket, query);
        let mut last = None;
        while let Some(key) = keys.next().map_err(failed)? {
            let is_full = page.objects.len() + page.prefixes.len() == query.limit;
            if let Some(prefix) = query.common_prefix(&key) {
                keys.skip = Some(prefix.to_owned());
                if query.after.as_deref() == Some(prefix) {
                    continue;
                }
                if is_full {
                    page.next = last;
                    break;
                }
                last = Some(prefix.to_owned());
                page.prefixes.push(prefix.to_owned());
            } else if is_full {
                page.next = last;
                break;
            } else if let Some(stored) = self.head(bucket, &key)? {
                last = Some(key.clone());
                page.objects.push((key, stored));
            }
        }
        Ok(page)
    }
}

/// The keys of a bucket from a place on, in order: those of its files and the odd ones.
struct Keys<'a> {
    files: Files<'a>,
    /// The next file's key, if it was looked at already.
    next_file: Option<String>,
    odd: Peekable<vec::IntoIter<String>>,
    /// Keys that begin with it are passed over.
    skip: Option<String>,
}

impl<'a> Keys<'a> {
    fn new(disk: &Disk, bucket: &str, query: &'a Query) -> Self {
        let after = query.after.as_deref();
        Self {
            files: Files::new(disk.folder(bucket), query),
            next_file: None,
            odd: disk.odd_keys(bucket, &query.prefix, after).into_iter().peekable(),
            skip: None,
        }
    }

    fn next(&mut self) -> io::Result<Option<String>> {
        let skip = self.skip.as_deref();
        let passed_over = |key: &str| skip.is_some_and(|skip| key.starts_with(skip));
        self.next_file.take_if(|key| passed_over(key));
        if self.next_file.is_none() {
            self.next_file = self.files.next(skip)?;
        }
        while self.odd.next_if(|key| passed_over(key)).is_some() {}

        let Some(file) = &self.next_file else {
            return Ok(self.odd.next());
        };
        match self.odd.next_if(|odd| odd <= file) {
            Some(odd) => {
                // The same key in both can only be a file made by hand later: the odd one counts.
                self.next_file.take_if(|file| *file == odd);
                Ok(Some(odd))
            }
            None => Ok(self.next_file.take()),
        }
    }
}

/// A walk over a bucket's folder, depth first, in the order of the keys.
struct Files<'a> {
    query: &'a Query,
    root: PathBuf,
    /// The folders that are open, outermost first, each with what is left of it in reverse order.
    open: Vec<Vec<Entry>>,
}

/// A file or, with a `/` at the end, a folder: then names sort as the keys below them do.
struct Entry {
    key: String,
}

impl<'a> Files<'a> {
    fn new(root: PathBuf, query: &'a Query) -> Self {
        let top = Entry { key: String::new() };
        Self { query, root, open: vec![vec![top]] }
    }

    fn next(&mut self, skip: Option<&str>) -> io::Result<Option<String>> {
        while let Some(folder) = self.open.last_mut() {
            let Some(Entry { key }) = folder.pop() else {
                self.open.pop();
                continue;
            };
            if skip.is_some_and(|skip| key.starts_with(skip)) {
                continue;
            }
            let is_folder = key.is_empty() || key.ends_with('/');
            if is_folder && self.may_hold_wanted(&key) {
                self.open.push(read_folder(&self.root, &key)?);
            } else if !is_folder && self.is_wanted(&key) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    fn is_wanted(&self, key: &str) -> bool {
        let is_after = self.query.after.as_deref().is_none_or(|after| key > after);
        is_after && key.starts_with(&self.query.prefix)
    }

    fn may_hold_wanted(&self, folder: &str) -> bool {
        let prefix = self.query.prefix.as_str();
        let on_the_way = prefix.starts_with(folder) || folder.starts_with(prefix);
        let not_passed = self.query.after.as_deref().is_none_or(|after| folder > after || after.starts_with(folder));
        on_the_way && not_passed
    }
}

/// The entries of the folder whose keys begin with `above`, last first. Links and names that are not Unicode are left out.
fn read_folder(root: &Path, above: &str) -> io::Result<Vec<Entry>> {
    let listed = match fs::read_dir(root.join(above)) {
        Ok(listed) => listed,
        // It was removed a moment ago.
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut entries = Vec::new();
    for entry in listed {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            entries.push(Entry { key: format!("{above}{name}/") });
        } else if kind.is_file() {
            entries.push(Entry { key: format!("{above}{name}") });
        }
    }
    entries.sort_unstable_by(|one, other| other.key.cmp(&one.key));
    Ok(entries)
}
