//! Which rows are duplicates: decided in input order in a first pass, and the same again in a second one.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::identities::{Duplicates, ID_BYTES, Identities, KnownDuplicates};
use crate::domain::error::{Error, Result};
use crate::domain::table::TableName;

/// Bytes of one object of ids in the state bucket.
const PART_BYTES: usize = 4 << 20;

/// A second pass's document: each table's [`Duplicates`] in base64.
pub type DuplicatesDocument = BTreeMap<TableName, String>;

/// How a pass decides.
#[derive(Debug, Default)]
pub enum Dedupe {
    /// `dedupe` is not set: no row is a duplicate.
    #[default]
    Off,
    /// The first record of each id stays.
    First(Box<FirstPass>),
    /// What the first pass decided.
    Known(BTreeMap<TableName, KnownDuplicates>),
}

/// A first pass over one shard.
#[derive(Debug)]
pub struct FirstPass {
    ids: Identities,
    /// Noted where a second pass may come.
    duplicates: Option<BTreeMap<TableName, Duplicates>>,
    /// New ids, where later shards have to know them.
    new: Option<Vec<u8>>,
}

impl Dedupe {
    /// A first pass after the shards whose ids are in `ids`. With `is_typed` duplicates are noted for a second pass; with `has_later` new ids
    /// are given out for the shards after it.
    #[must_use]
    pub fn first(ids: Identities, is_typed: bool, has_later: bool) -> Dedupe {
        Dedupe::First(Box::new(FirstPass {
            ids,
            duplicates: is_typed.then(BTreeMap::new),
            new: has_later.then(|| Vec::with_capacity(PART_BYTES)),
        }))
    }

    /// A second pass, over what the first one noted.
    pub fn known(document: &DuplicatesDocument) -> Result<Dedupe> {
        let read = |(table, text): (&TableName, &String)| {
            let gaps = STANDARD.decode(text).map_err(|error| {
                Error::vendor("the state's list of duplicates can't be read, run the day again with `--force`").with_source(error)
            })?;
            Ok((table.clone(), KnownDuplicates::new(gaps)))
        };
        Ok(Dedupe::Known(document.iter().map(read).collect::<Result<_>>()?))
    }

    /// Whether the next row of a table, with that id, is a duplicate.
    pub fn is_duplicate(&mut self, table: &TableName, id: u128) -> Result<bool> {
        match self {
            Dedupe::Off => Ok(false),
            Dedupe::Known(tables) => Ok(tables.get_mut(table).is_some_and(KnownDuplicates::take)),
            Dedupe::First(pass) => {
                let is_new = pass.ids.insert(id)?;
                if let Some(tables) = &mut pass.duplicates {
                    match tables.get_mut(table) {
                        Some(noted) => noted.push(!is_new),
                        None => tables.entry(table.clone()).or_default().push(!is_new),
                    }
                }
                if is_new && let Some(new) = &mut pass.new {
                    new.extend_from_slice(&id.to_le_bytes());
                }
                Ok(!is_new)
            }
        }
    }

    /// New ids for the state bucket, when they fill an object of it, or, at the end, what is left of them.
    pub fn take_new(&mut self, is_end: bool) -> Option<Bytes> {
        let Dedupe::First(pass) = self else { return None };
        let new = pass.new.as_mut().filter(|new| new.len() >= if is_end { 1 } else { PART_BYTES })?;
        Some(std::mem::take(new).into())
    }

    /// What a second pass has to know; empty where nothing is.
    pub fn take_duplicates(&mut self) -> DuplicatesDocument {
        let Dedupe::First(pass) = self else { return BTreeMap::new() };
        let noted = pass.duplicates.take().unwrap_or_default().into_iter();
        noted.map(|(table, noted)| (table, STANDARD.encode(noted.into_bytes()))).filter(|(_, text)| !text.is_empty()).collect()
    }

    /// The ids of this shard and all before it.
    #[must_use]
    pub fn into_ids(self) -> Option<Identities> {
        match self {
            Dedupe::First(pass) => Some(pass.ids),
            _ => None,
        }
    }
}

/// Adds an object of ids, as [`Dedupe::take_new`] gave it, to a set.
pub fn restore(ids: &mut Identities, part: &[u8]) -> Result<()> {
    let (whole, rest) = part.as_chunks::<ID_BYTES>();
    if !rest.is_empty() {
        return Err(Error::vendor("the state's ids of an earlier shard are cut short, run the day again with `--force`"));
    }
    whole.iter().try_for_each(|id| ids.insert(u128::from_le_bytes(*id)).map(|_| ()))
}
