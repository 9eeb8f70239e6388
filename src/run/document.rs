//! The state's documents: JSON, gzip when large, found by their bytes.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::domain::error::{Error, Result};
use crate::store::ports::{Condition, Put, Read, Write};

/// Bytes of JSON from which a document is stored as gzip.
const LARGE: usize = 64 * 1024;

/// The version of every document's form; one with a greater number was written by a later build that changed what fields mean.
pub const FORM: u32 = 1;

/// The document's bytes: compact JSON, or its gzip from 64 KiB on. The same value gives the same bytes.
pub fn encode(value: &impl Serialize) -> Result<Bytes> {
    let json = serde_json::to_vec(value)
        .map_err(|error| Error::bug("a document could not be written as JSON, please report it").with_source(error))?;
    if json.len() < LARGE {
        return Ok(json.into());
    }
    let mut gzip = GzEncoder::new(Vec::with_capacity(json.len() / 8), Compression::new(6));
    let packed = gzip.write_all(&json).and_then(|()| gzip.finish());
    Ok(packed.map_err(|error| Error::bug("a document could not be packed, please report it").with_source(error))?.into())
}

/// The value of a document's bytes; `key` is for the message.
pub fn decode<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T> {
    #[derive(serde::Deserialize)]
    struct Form {
        #[serde(default)]
        form: u32,
    }
    let damaged = |source: Box<dyn std::error::Error + Send + Sync>| {
        Error::vendor(format!("the state document `{key}` can't be read, restore its earlier version from the state bucket"))
            .with_source(source)
    };
    let mut unpacked = Vec::new();
    let json = if bytes.starts_with(&[0x1f, 0x8b]) {
        MultiGzDecoder::new(bytes).read_to_end(&mut unpacked).map_err(|error| damaged(error.into()))?;
        unpacked.as_slice()
    } else {
        bytes
    };
    // A bare list has no form of its own.
    let is_list = json.first() == Some(&b'[');
    let form = if is_list { Form { form: 0 } } else { serde_json::from_slice(json).map_err(|error| damaged(error.into()))? };
    if form.form > FORM {
        return Err(Error::vendor(format!(
            "the state document `{key}` was written by a later build of Dayport (form {}, this build knows {FORM}), deploy that build again",
            form.form
        )));
    }
    serde_json::from_slice(json).map_err(|error| damaged(error.into()))
}

/// Reads a document; `None` when there is none.
pub async fn read<T: DeserializeOwned>(store: &(impl Read + Sync), key: &str) -> Result<Option<T>> {
    match store.read_small(key).await? {
        Some((bytes, _)) => decode(key, &bytes).map(Some),
        None => Ok(None),
    }
}

/// Reads a document, or what there is before anybody wrote one.
pub async fn read_or_default<T: DeserializeOwned + Default>(store: &(impl Read + Sync), key: &str) -> Result<T> {
    Ok(read(store, key).await?.unwrap_or_default())
}

/// Reads a document that must be there.
pub async fn read_present<T: DeserializeOwned>(store: &(impl Read + Sync), key: &str) -> Result<T> {
    read(store, key)
        .await?
        .ok_or_else(|| Error::vendor(format!("the state document `{key}` is gone, restore it from the state bucket's versions")))
}

/// Writes a document whose key only one holder can have, or whose every writer writes the same.
pub async fn write(store: &(impl Write + Sync), key: &str, value: &impl Serialize) -> Result<()> {
    store.put(key, encode(value)?, "application/json", &Condition::None).await.map(|_| ())
}

/// Writes a document unless there already is one, and returns the one that stands: the first writer decides.
pub async fn write_once<T: Serialize + DeserializeOwned>(store: &(impl Read + Write + Sync), key: &str, value: T) -> Result<T> {
    const TRIES: usize = 5;
    let body = encode(&value)?;
    for _ in 0..TRIES {
        if let Put::Done(_) = store.put(key, body.clone(), "application/json", &Condition::Absent).await? {
            return Ok(value);
        }
        // A 412, to another's write or to one's own lost answer; or a 409, and then there may be nothing yet.
        if let Some(standing) = read(store, key).await? {
            return Ok(standing);
        }
    }
    Err(Error::retryable(format!("the state document `{key}` is being written by somebody else, try again")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::Kind;

    #[test]
    fn a_large_document_is_packed_and_reads_the_same() {
        let small = vec!["x".to_owned()];
        let large = vec!["y".repeat(LARGE)];
        assert_eq!(&encode(&small).unwrap()[..], b"[\"x\"]");
        let packed = encode(&serde_json::json!({ "large": large })).unwrap();
        assert!(packed.len() < 1000);
        let back: serde_json::Value = decode("k", &packed).unwrap();
        assert_eq!(back["large"][0].as_str().map(str::len), Some(LARGE));
    }

    #[test]
    fn a_damaged_or_later_document_is_the_vendors_to_mend() {
        let damaged = decode::<serde_json::Value>("runs/x", b"{\"form\":1").unwrap_err();
        assert_eq!(damaged.kind(), Kind::Vendor);
        assert!(damaged.to_string().contains("`runs/x`"), "{damaged}");
        let later = decode::<serde_json::Value>("runs/x", b"{\"form\":2}").unwrap_err();
        assert!(later.to_string().contains("later build"), "{later}");
    }
}
