//! The schemas that a run begins with: the registry's, and what the heads of some objects show beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Export;
use super::chunk::ChunkInput;
use super::unpack::Unpacker;
use crate::columns::evidence::Evidence;
use crate::columns::pin::decide;
use crate::domain::error::{Error, Result};
use crate::domain::schema::TableSchema;
use crate::domain::settings::{CHUNK_BYTES, NewColumns, Run};
use crate::domain::table::TableName;
use crate::records::json::Tape;
use crate::records::reader::{Place, Reader, Visit};
use crate::records::route::{Reason, Routed, Router};
use crate::store::ports::{Body, ObjectInfo, Read};
use crate::store::resume::ResumingBody;

/// Objects that are looked at on a first day, and staged bytes of each: enough that a right guess is the rule, and little beside a day.
const FIRST_DAY: (usize, usize) = (16, 512 << 10);
/// The same where the registry knows tables already.
const ORDINARY_DAY: (usize, usize) = (4, 128 << 10);

impl Export<'_> {
    /// Guesses the run's schemas and puts them into the book; what it guessed, for the journal.
    ///
    /// A guess is a saving of work: what all values show decides the columns, and a table that was guessed wrong is written again. As new
    /// columns stand in the guess's order, it is a function of the staged objects alone: a body that breaks is read on.
    pub async fn guess<S: Read + Clone + Send + Sync>(&self, staging: &S) -> Result<BTreeMap<TableName, TableSchema>> {
        let knows_tables = self.book.knows_tables();
        let (most_objects, bytes) = if knows_tables { ORDINARY_DAY } else { FIRST_DAY };
        let mut looker = Looker {
            export: self,
            router: Router::new(Arc::new(self.rules())),
            folder: None,
            evidence: BTreeMap::new(),
            failure: None,
        };
        for object in spread(&self.plan.shards.iter().flat_map(|shard| &shard.objects).collect::<Vec<_>>(), most_objects) {
            looker.folder = self.folder_table(&object.key).and_then(|name| looker.router.configured(name));
            for chunk in self.head_of(staging, object, bytes).await? {
                looker.look(&chunk);
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

    /// The lines that an object begins with: those of its first `most` staged bytes, or of its first chunk if that is less.
    async fn head_of<S: Read + Clone + Send + Sync>(
        &self,
        staging: &S,
        object: &ObjectInfo,
        most: usize,
    ) -> Result<Vec<ChunkInput>> {
        let mut body = ResumingBody::new(staging.clone(), object.clone());
        let run = Run { chunk_bytes: CHUNK_BYTES, ..self.settings.run.clone() };
        let mut unpacker = Unpacker::new(&self.settings.staging, &run, object.size, Arc::clone(self.scratch));
        let mut chunks = Vec::new();
        let mut left = most;
        // One chunk is enough of an object that was packed far better than most.
        while left > 0 && chunks.is_empty() {
            let Some(bytes) = body.next().await else { break };
            let bytes = bytes.map_err(|error| error.context(format!("staged object `{}`", object.key)))?;
            let bytes = bytes.slice(..bytes.len().min(left));
            left -= bytes.len();
            let is_complete = (most - left) as u64 == object.size;
            let mut input = vec![bytes];
            // Damage shows in the export, by name; here it only ends the look.
            while !unpacker.unpack(0, std::mem::take(&mut input), is_complete, true, &mut chunks).unwrap_or(true)
                && unpacker.has_more()
                && chunks.is_empty()
            {}
        }
        if chunks.is_empty() {
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
    fn look(&mut self, chunk: &ChunkInput) {
        let staging = &self.export.settings.staging;
        chunk.read_by(&mut Reader::new(staging.max_depth, staging.max_record_len()), self);
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
        evidence.observe(tape, text);
        Ok(())
    }
}

impl Visit for Looker<'_, '_> {
    fn record(&mut self, _: Place, tape: &mut Tape, text: &[u8], _: bool, _: &[u8]) {
        let Routed::Row(route) = self.router.route(tape, text, self.folder) else { return };
        let Some(name) = self.router.table(route.table).map(|table| Arc::clone(&table.name)) else { return };
        if self.evidence.len() >= self.export.settings.run.max_tables && !self.evidence.contains_key(name.as_ref()) {
            return;
        }
        if let Err(error) = self.observe(&name, tape, text) {
            self.failure.get_or_insert(error);
        }
    }

    fn reject(&mut self, _: Place, _: Reason, _: &[u8], _: Option<&'static str>) {}
}
