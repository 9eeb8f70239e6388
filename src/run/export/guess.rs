//! The schemas that a run begins with: the registry's, and what the heads of some objects show beside it.

use std::collections::BTreeMap;

use super::Export;
use super::chunk::{ChunkInput, ObjectRule};
use super::unpack::Unpacker;
use crate::columns::evidence::Evidence;
use crate::columns::pin::decide;
use crate::domain::error::{Error, Kind, Result};
use crate::domain::schema::TableSchema;
use crate::domain::settings::{CHUNK_BYTES, NewColumns};
use crate::domain::table::TableName;
use crate::records::json::Tape;
use crate::records::reader::{Place, Reader, Visit};
use crate::records::route::{Reason, Routed, Router};
use crate::store::ports::{Body, ObjectInfo, Read};

/// Objects that are looked at on a first day, and staged bytes of each: enough that a right guess is the rule, and little beside a day.
const FIRST_DAY: (usize, usize) = (16, 512 << 10);
/// The same where the registry knows tables already.
const ORDINARY_DAY: (usize, usize) = (4, 128 << 10);

impl Export<'_> {
    /// Guesses the run's schemas and puts them into the book; what it guessed, for the journal.
    ///
    /// A guess is only ever a saving of work: what all values show decides, and a table that was guessed wrong is written again. An object that
    /// can't be read to the end here is looked at as far as it goes.
    pub async fn guess<S: Read + Sync>(&self, staging: &S) -> Result<BTreeMap<TableName, TableSchema>> {
        let knows_tables = self.book.knows_tables();
        let (most_objects, bytes) = if knows_tables { ORDINARY_DAY } else { FIRST_DAY };
        let mut looker = Looker {
            export: self,
            router: Router::new(std::sync::Arc::new(self.rules())),
            folder: None,
            evidence: BTreeMap::new(),
            failure: None,
        };
        for object in spread(&self.plan.shards.iter().flat_map(|shard| &shard.objects).collect::<Vec<_>>(), most_objects) {
            let rule = self.folder_rule(&object.key);
            for chunk in self.head_of(staging, object, bytes).await? {
                looker.look(&chunk, &rule);
            }
        }
        let Looker { evidence, failure, .. } = looker;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut guessed = BTreeMap::new();
        for (table, evidence) in evidence {
            let entry = self.book.entry(&table)?;
            if self.waits_for_next_run(&table) {
                continue;
            }
            let schema = decide(&entry.base, &evidence, None, self.book.rescue_column(), self.day);
            guessed.insert(table, schema);
        }
        Ok(guessed)
    }

    /// Whether new keys of a table become columns only in the next run.
    #[must_use]
    pub fn waits_for_next_run(&self, table: &TableName) -> bool {
        self.settings.parquet.new_columns == NewColumns::NextRun && self.book.pinned(table).is_some()
    }

    async fn head_of<S: Read + Sync>(&self, staging: &S, object: &ObjectInfo, most: usize) -> Result<Vec<ChunkInput>> {
        if object.size == 0 {
            return Ok(Vec::new());
        }
        let mut body = staging
            .read_from(&object.key, 0, &object.etag)
            .await
            .map_err(|error| error.context(format!("staged object `{}`", object.key)))?;
        let mut unpacker = Unpacker::new(&self.settings.staging, CHUNK_BYTES, object.size);
        let mut chunks = Vec::new();
        let mut seen = 0;
        while seen < most {
            match body.next().await {
                Some(Ok(bytes)) => {
                    let bytes = bytes.slice(..bytes.len().min(most - seen));
                    seen += bytes.len();
                    let mut input = vec![bytes];
                    // Damage shows in the export, by name; here it only ends the look.
                    while !unpacker.unpack(0, std::mem::take(&mut input), false, &mut chunks).unwrap_or(true)
                        && unpacker.has_more()
                    {}
                }
                Some(Err(error)) if error.kind() == Kind::Retryable => break,
                Some(Err(error)) => return Err(error),
                None => break,
            }
        }
        if seen as u64 == object.size {
            while !unpacker.unpack(0, Vec::new(), true, &mut chunks).unwrap_or(true) {}
        } else if chunks.is_empty() {
            chunks.extend(unpacker.first_lines(CHUNK_BYTES));
        }
        Ok(chunks)
    }
}

/// At most `most` of them, spread evenly, the first and the last among them.
fn spread<'o>(objects: &[&'o ObjectInfo], most: usize) -> Vec<&'o ObjectInfo> {
    if objects.len() <= most {
        return objects.to_vec();
    }
    (0..most).filter_map(|nth| objects.get(nth * (objects.len() - 1) / (most - 1).max(1))).copied().collect()
}

struct Looker<'a, 'e> {
    export: &'a Export<'e>,
    router: Router,
    folder: Option<usize>,
    evidence: BTreeMap<TableName, Evidence>,
    failure: Option<Error>,
}

impl Looker<'_, '_> {
    fn look(&mut self, chunk: &ChunkInput, rule: &ObjectRule) {
        let staging = &self.export.settings.staging;
        self.folder = rule.folder.as_deref().and_then(|name| self.router.configured(name));
        let mut reader = Reader::new(staging.max_depth, usize::try_from(staging.max_record_bytes).unwrap_or(usize::MAX));
        let place = Place { line: chunk.first_line, offset: chunk.offset };
        if chunk.is_elements {
            reader.read_elements(&chunk.bytes, place, self);
        } else {
            reader.read(&chunk.bytes, place, self);
        }
    }

    fn observe(&mut self, table: &TableName, tape: &mut Tape, text: &[u8]) -> Result<()> {
        let evidence = match self.evidence.get_mut(table) {
            Some(evidence) => evidence,
            None => {
                let entry = self.export.book.entry(table)?;
                let evidence = Evidence::new(&entry.base, self.export.book.limits());
                self.evidence.entry(table.clone()).or_insert(evidence)
            }
        };
        if evidence.observe(tape, text).is_err() {
            tape.drop_repeats(text);
            let _ = evidence.observe(tape, text);
        }
        Ok(())
    }
}

impl Visit for Looker<'_, '_> {
    fn record(&mut self, _: Place, tape: &mut Tape, text: &[u8], _: bool, _: &[u8]) {
        let Routed::Row(route) = self.router.route(tape, text, self.folder) else { return };
        let Some(name) = self.router.table(route.table).map(|table| std::sync::Arc::clone(&table.name)) else { return };
        if self.evidence.len() >= self.export.settings.run.max_tables && !self.evidence.contains_key(name.as_ref()) {
            return;
        }
        if let Err(error) = self.observe(&name, tape, text) {
            self.failure.get_or_insert(error);
        }
    }

    fn reject(&mut self, _: Place, _: Reason, _: &[u8], _: Option<&'static str>) {}
}
