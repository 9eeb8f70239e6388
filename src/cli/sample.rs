//! `dayport sample`: makes a sample day, in a folder or, several objects at a time, in a bucket.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Outcome, SampleArguments, Terminal};
use crate::config::split_s3_url;
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::report::progress::{bytes, count};
use crate::sample::{SampleError, SampleSpec, SampleTotals, write_day};
use crate::store::checksum::Crc64Nvme;
use crate::store::ports::{Completed, Condition, Multipart, Upload, Write};
use crate::store::s3::{Address, Clients, RequestOptions, Retries, S3Bucket, Side};

/// Uploads under way at a time.
const UPLOADS: usize = 8;
/// An object up to this size is one request.
const LARGEST_PUT: usize = 64 << 20;
/// The parts of a larger one.
const PART: usize = 16 << 20;

pub(super) async fn stage(arguments: &SampleArguments, terminal: &Terminal) -> Outcome {
    let spec = SampleSpec {
        date: date_of(arguments.date)?,
        records: arguments.records,
        seed: arguments.seed,
        objects: arguments.objects,
        gzip_only: arguments.gzip_only,
    };
    let totals = match Place::of(&arguments.out)? {
        Place::Folder(folder) => {
            let made =
                tokio::task::spawn_blocking(move || write_day(&spec, &mut |key, bytes| write_file(&folder.join(key), &bytes)));
            made.await.map_err(|_| panicked())?.map_err(untold)?
        }
        Place::Bucket { bucket, prefix } => upload(spec, bucket, prefix).await?,
    };
    terminal.print(&summary(arguments, &totals))?;
    Ok(ExitCode::SUCCESS)
}

/// Where a sample day goes.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    /// `prefix` is empty or ends in `/`.
    Bucket {
        bucket: String,
        prefix: String,
    },
}

impl Place {
    fn of(out: &str) -> Result<Place> {
        if out.is_empty() {
            return Err(Error::vendor("`--out` is empty, name a folder or `s3://bucket/prefix/`"));
        }
        // A prefix is checked as the address of an object below it.
        let object = format!("{out}{}x", if out.ends_with('/') { "" } else { "/" });
        Ok(match split_s3_url(&object)? {
            Some((bucket, key)) => {
                Place::Bucket { bucket: bucket.to_owned(), prefix: key.strip_suffix('x').unwrap_or(key).to_owned() }
            }
            None => Place::Folder(PathBuf::from(out)),
        })
    }
}

fn date_of(day: Day) -> Result<time::Date> {
    let month = time::Month::try_from(day.month());
    let date = month.and_then(|month| time::Date::from_calendar_date(day.year(), month, day.day()));
    date.map_err(|error| Error::bug("a day is no date, please report it").with_source(error))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent)
        .and_then(|()| std::fs::write(path, bytes))
        .map_err(|error| Error::vendor(format!("`{}` could not be written, see `--out`", path.display())).with_source(error))
}

/// Makes the day on one thread and uploads what is made on the others; at most [`UPLOADS`] objects wait.
async fn upload(spec: SampleSpec, bucket: String, prefix: String) -> Result<SampleTotals> {
    let clients = Clients::from_environment(Retries::default()).await;
    let address = Address { bucket, region: None, path_style: false };
    let bucket = clients.bucket(&address, None, RequestOptions::default(), Side::Vendor);
    let (sender, mut receiver) = mpsc::channel::<(String, Vec<u8>)>(1);
    let making = tokio::task::spawn_blocking(move || {
        // A receiver that is gone has failed, and says why itself.
        write_day(&spec, &mut |key, bytes| {
            sender.blocking_send((format!("{prefix}{key}"), bytes)).map_err(|_| Error::vendor("the uploads ended early"))
        })
    });
    let mut uploads: JoinSet<Result<()>> = JoinSet::new();
    let mut outcome = Ok(());
    while let Some((key, bytes)) = receiver.recv().await {
        if uploads.len() >= UPLOADS {
            outcome = outcome.and(ended(uploads.join_next().await));
        }
        if outcome.is_err() {
            break;
        }
        let bucket = bucket.clone();
        uploads.spawn(async move { upload_object(&bucket, &key, bytes.into()).await });
    }
    drop(receiver);
    while let Some(joined) = uploads.join_next().await {
        outcome = outcome.and(ended(Some(joined)));
    }
    let made = making.await.map_err(|_| panicked())?;
    outcome?;
    made.map_err(untold)
}

fn ended(joined: Option<Result<Result<()>, tokio::task::JoinError>>) -> Result<()> {
    joined.unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> Error {
    Error::bug("a thread of the sample panicked, please report it")
}

/// The caller's own error where it was one.
fn untold(error: SampleError<Error>) -> Error {
    match error {
        SampleError::Put(error) => error,
        SampleError::Compress(error) => Error::bug("a sample object could not be packed").with_source(error),
    }
}

async fn upload_object(bucket: &S3Bucket, key: &str, body: Bytes) -> Result<()> {
    let content_type = content_type(key);
    if body.len() <= LARGEST_PUT {
        bucket.put(key, body, content_type, &Condition::None).await?;
        return Ok(());
    }
    let (size, checksum) = (body.len() as u64, Crc64Nvme::of(&body).base64());
    let id = bucket.create(key, content_type).await?;
    let uploaded = upload_parts(bucket, key, &id, body).await;
    let completed = match uploaded {
        Ok(parts) => {
            let upload = Upload { key: key.to_owned(), id: id.clone(), parts, size, checksum: Some(checksum) };
            bucket.complete(&upload).await
        }
        Err(error) => Err(error),
    };
    match completed {
        Ok(Completed::Done) => Ok(()),
        Ok(Completed::NoSuchUpload) => {
            Err(Error::retryable(format!("the upload of `{key}` was aborted by somebody else, try again")))
        }
        Err(error) => {
            // What can't be aborted now is left to the bucket's lifecycle rule; the first error is the one to tell.
            let _ = bucket.abort(key, &id).await;
            Err(error)
        }
    }
}

async fn upload_parts(bucket: &S3Bucket, key: &str, id: &str, mut body: Bytes) -> Result<Vec<crate::store::ports::Part>> {
    let mut parts = Vec::new();
    while !body.is_empty() {
        let number = i32::try_from(parts.len() + 1).unwrap_or(i32::MAX);
        let part = body.split_to(PART.min(body.len()));
        parts.push(bucket.part(key, id, number, part).await?);
    }
    Ok(parts)
}

fn content_type(key: &str) -> &'static str {
    match key.rsplit('.').next() {
        Some("gz") => "application/gzip",
        Some("zst") => "application/zstd",
        _ => "application/x-ndjson",
    }
}

fn summary(arguments: &SampleArguments, totals: &SampleTotals) -> String {
    let width = totals.records.keys().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (table, records) in &totals.records {
        let _ = writeln!(text, "  {table:<width$}  {:>12}", count(*records));
    }
    let _ = writeln!(
        text,
        "{} records of {} ({} of JSON) in {} objects ({}) under {}",
        count(totals.records.values().sum()),
        arguments.date,
        bytes(totals.json_bytes),
        count(totals.objects),
        bytes(totals.staged_bytes),
        arguments.out,
    );
    let _ = writeln!(text, "next: dayport run --config dayport.toml --date {}", arguments.date);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_goes_to_a_folder_or_below_a_prefix() {
        let bucket = |prefix: &str| Place::Bucket { bucket: "staging".to_owned(), prefix: prefix.to_owned() };
        for (out, place) in [
            ("days/2026", Place::Folder("days/2026".into())),
            ("/", Place::Folder("/".into())),
            ("s3://staging", bucket("")),
            ("s3://staging/", bucket("")),
            ("s3://staging/events/2026-01-15", bucket("events/2026-01-15/")),
            ("s3://staging/events/2026-01-15/", bucket("events/2026-01-15/")),
        ] {
            assert_eq!(Place::of(out).unwrap(), place, "{out}");
        }
        for out in ["", "s3://", "s3:///x", "s3://No_Bucket/x"] {
            assert!(Place::of(out).is_err(), "{out}");
        }
    }

    #[test]
    fn the_summary_says_what_there_is_and_what_to_do_next() {
        let arguments = SampleArguments {
            date: "2026-01-15".parse().unwrap(),
            records: 1000,
            seed: 1,
            out: "s3://staging/events/".to_owned(),
            objects: 1,
            gzip_only: false,
        };
        let records = [("aliases".to_owned(), 20), ("pageview_events".to_owned(), 1980)].into();
        let totals = SampleTotals { records, json_bytes: 2 << 20, staged_bytes: 1024, objects: 2 };
        let expected = "  aliases                    20
  pageview_events         1,980
2,000 records of 2026-01-15 (2.00 MiB of JSON) in 2 objects (1.00 KiB) under s3://staging/events/
next: dayport run --config dayport.toml --date 2026-01-15
";
        assert_eq!(summary(&arguments, &totals), expected);
    }
}
