//! Our own side of the test: the state bucket holds conditional writes, the staged records can be listed and read.

use bytes::Bytes;

use super::{Lines, Outcome, Step};
use crate::domain::error::{Error, Result};
use crate::domain::settings::{Destination, Settings};
use crate::store::ports::{Body as _, Condition, List, Put, Read, Write};

/// How often another check of the same destination may come between.
const MOST_TRIES: u32 = 3;

/// Writes a document of the test's own as a head is written: only where none is, then only over the one that was read.
pub(super) async fn head_write<V: Read + Write>(settings: &Settings, destination: &Destination, state: &V, lines: &mut Lines) {
    match conditional_writes(settings, destination, state).await {
        Ok(()) => lines.note(Step::HeadWrite, Outcome::Ok, "the state bucket takes conditional writes and refuses outdated ones"),
        Err(error) => lines.refused(Step::HeadWrite, &error),
    }
}

async fn conditional_writes<V: Read + Write>(settings: &Settings, destination: &Destination, state: &V) -> Result<()> {
    // The function's role can't delete in the state bucket, so there is one small document a destination, for ever.
    let key = format!("{}checks/{}.json", settings.state.s3_prefix, destination.name);
    let document = |number: u8| Bytes::from(format!("{{\"written_by\":\"dayport check\",\"number\":{number}}}\n"));
    let put = async |number, condition: &Condition| state.put(&key, document(number), "application/json", condition).await;
    put(1, &Condition::Absent).await?;
    if put(1, &Condition::Absent).await? != Put::Lost {
        return Err(ignores_conditions(settings));
    }
    let mut refused_etag = None;
    for _ in 0..MOST_TRIES {
        let Some((found, etag)) = state.read_small(&key).await? else {
            return Err(Error::retryable(format!("`{key}` was written to the state bucket and is not there, call again")));
        };
        // Had another check come between, the ETag would be another.
        if refused_etag.as_ref() == Some(&etag) {
            return Err(Error::vendor(format!(
                "the state bucket `{}` refuses a write whose condition holds (`If-Match` with the ETag that it gave), so no lease could be taken there: use S3, or a store that compares ETags as S3 does",
                settings.state.s3_bucket
            )));
        }
        // Another content than what is there, so that its ETag is another too.
        let (next, one_more) = if found == document(1) { (2, 1) } else { (1, 2) };
        let read = Condition::Unchanged(etag.clone());
        if put(next, &read).await? == Put::Lost {
            refused_etag = Some(etag);
            continue;
        }
        return match put(one_more, &read).await? {
            Put::Lost => Ok(()),
            Put::Done(_) => Err(ignores_conditions(settings)),
        };
    }
    Err(Error::retryable("another check of this destination is running, call again"))
}

fn ignores_conditions(settings: &Settings) -> Error {
    Error::vendor(format!(
        "the state bucket `{}` takes a write whose condition does not hold, so no lease would be safe there: use S3, or a store with `If-Match` and `If-None-Match`",
        settings.state.s3_bucket
    ))
}

/// Lists what is staged, and reads the beginning of one object.
pub(super) async fn staging<S: List + Read>(settings: &Settings, destination: &Destination, staging: &S, lines: &mut Lines) {
    let prefix = static_prefix(&settings.staging.s3_prefix, destination.organization.as_deref());
    let objects = match staging.list_page(&prefix, None).await {
        Ok((objects, _)) => objects,
        Err(error) => return lines.refused(Step::StagingList, &error),
    };
    let place = format!("`s3://{}/{prefix}`", settings.staging.s3_bucket);
    let Some(object) = objects.iter().find(|object| object.size > 0) else {
        lines.note(Step::StagingList, Outcome::Ok, format!("nothing is staged under {place} yet"));
        lines.note(Step::StagingRead, Outcome::NotTried, "nothing is staged yet");
        return;
    };
    lines.note(Step::StagingList, Outcome::Ok, place);
    match begin_to_read(staging, &object.key, &object.etag).await {
        Ok(()) => lines.note(Step::StagingRead, Outcome::Ok, "one object was begun to be read"),
        Err(error) => lines.refused(Step::StagingRead, &error),
    }
}

async fn begin_to_read<S: Read>(staging: &S, key: &str, etag: &str) -> Result<()> {
    let mut body = staging.read_from(key, 0, etag).await?;
    match body.next().await {
        Some(piece) => piece.map(|_| ()),
        None => Ok(()),
    }
}

/// The staged prefix of a destination as far as it is the same every day.
fn static_prefix(template: &str, organization: Option<&str>) -> String {
    let filled = match organization {
        Some(organization) => template.replace("{organization}", organization),
        None => template.to_owned(),
    };
    filled.split(['{']).next().unwrap_or_default().to_owned()
}
