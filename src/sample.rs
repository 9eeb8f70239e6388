//! Makes a sample day: staged events and reference tables of an invented publisher, the same for the same date, size and seed.

mod events;
mod line;
mod pack;
mod properties;
mod random;
mod reference;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use events::Events;
use line::Line;
use pack::{Packer, Packing};
use reference::Reference;

/// What day to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleSpec {
    /// The UTC day that all times of events and aliases fall in.
    pub date: time::Date,
    /// Records in all, events and rows of the reference tables together. A million take about 1.2 GB of JSON.
    pub records: u64,
    /// Another seed gives other users, articles and events, of the same kinds and shares.
    pub seed: u64,
    /// Objects to cut the events into; at least one, at most one an event. The reference tables have objects of their own.
    pub objects: u32,
    /// Pack every object as a single gzip member, instead of gzip (also of two members), zstd (also of three frames) and plain text in turn.
    pub gzip_only: bool,
}

/// What a sample day holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleTotals {
    /// Records by the name of the table where they belong; they sum up to the day's records.
    pub records: BTreeMap<String, u64>,
    /// Bytes of the JSON lines, line feeds included, before they are packed.
    pub json_bytes: u64,
    /// Bytes of the objects as they are staged.
    pub staged_bytes: u64,
    /// Objects handed over.
    pub objects: u64,
}

/// Why a sample day could not be made.
#[derive(Debug)]
pub enum SampleError<E> {
    /// An object could not be compressed, which only a lack of memory explains.
    Compress(io::Error),
    /// The caller could not put an object away.
    Put(E),
}

impl<E: fmt::Display> fmt::Display for SampleError<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compress(error) => write!(formatter, "a sample object could not be compressed: {error}"),
            Self::Put(error) => write!(formatter, "a sample object could not be written: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for SampleError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Compress(error) => Some(error),
            Self::Put(error) => Some(error),
        }
    }
}

/// Takes an object away: its key below the staged prefix, and its bytes.
pub type Put<'a, E> = dyn FnMut(&str, Vec<u8>) -> Result<(), E> + 'a;

/// Makes the day and hands over each object as soon as it is full, with its key below the staged prefix.
///
/// Guarantees: the same spec gives the same keys and bytes, on every machine. The records themselves depend on date, number and
/// seed alone; `objects` and `gzip_only` decide only how they are cut and packed. No key comes twice. One object is held at a time.
///
/// Events go to `events/`, reference tables to the folders `aliases/`, `domains/` and `segment_metadata/`. A day of 100 records or
/// more has every table; a shorter one has events first.
///
/// # Errors
///
/// [`SampleError::Put`] with the first error of `put`, after which nothing more is made.
pub fn write_day<E>(spec: &SampleSpec, put: &mut Put<'_, E>) -> Result<SampleTotals, SampleError<E>> {
    let sizes = Sizes::of(spec.records);
    let mut stage = Stage { spec, put, totals: SampleTotals::default() };

    let mut events = Events::new(spec.date, spec.seed, sizes.events, sizes.segments.max(1));
    stage.write_folder("events", sizes.events, u64::from(spec.objects), &mut |line, _| {
        let name = events.write(line);
        format!("{}_events", name.to_ascii_lowercase())
    })?;

    let reference = Reference { date: spec.date, seed: spec.seed, aliases: sizes.aliases, events: sizes.events };
    stage.write_folder("aliases", sizes.aliases, 2, &mut |line, row| {
        reference.write_alias(line, row);
        "aliases".to_owned()
    })?;
    stage.write_folder("domains", sizes.domains, 1, &mut |line, row| {
        reference.write_domain(line, row);
        "domains".to_owned()
    })?;
    stage.write_folder("segment_metadata", sizes.segments, 1, &mut |line, row| {
        reference.write_segment(line, row);
        "segment_metadata".to_owned()
    })?;
    Ok(stage.totals)
}

/// How many records each part of the day gets.
struct Sizes {
    events: u64,
    aliases: u64,
    domains: u64,
    segments: u64,
}

impl Sizes {
    fn of(records: u64) -> Self {
        let aliases = records / 50;
        let domains = Reference::domains().min(records / 20);
        let segments = (records / 20).min(400);
        Self { events: records - aliases - domains - segments, aliases, domains, segments }
    }
}

/// The objects on their way out.
struct Stage<'a, E> {
    spec: &'a SampleSpec,
    put: &'a mut Put<'a, E>,
    totals: SampleTotals,
}

impl<E> Stage<'_, E> {
    /// Writes `rows` records in at most `objects` objects of nearly the same number each; `write` fills a line and names its table.
    fn write_folder(
        &mut self,
        folder: &str,
        rows: u64,
        objects: u64,
        write: &mut dyn FnMut(&mut Line, u64) -> String,
    ) -> Result<(), SampleError<E>> {
        let objects = objects.max(1).min(rows);
        let mut line = Line::default();
        let mut row = 0;
        for object in 0..objects {
            let end = u64::try_from(u128::from(rows) * u128::from(object + 1) / u128::from(objects)).unwrap_or(rows);
            let packing = if self.spec.gzip_only { Packing::Gzip } else { Packing::of_object(self.totals.objects) };
            let mut packer = Packer::new(packing, end - row).map_err(SampleError::Compress)?;
            while row < end {
                let table = write(&mut line, row);
                let bytes = line.finish();
                packer.push(bytes).map_err(SampleError::Compress)?;
                self.totals.json_bytes += u64::try_from(bytes.len()).unwrap_or(0);
                *self.totals.records.entry(table).or_default() += 1;
                row += 1;
            }
            let bytes = packer.finish().map_err(SampleError::Compress)?;
            self.totals.staged_bytes += u64::try_from(bytes.len()).unwrap_or(0);
            self.totals.objects += 1;
            let key = format!("{folder}/part-{object:05}.{}", packing.extension());
            (self.put)(&key, bytes).map_err(SampleError::Put)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;
    use std::io::Read;

    use sha2::{Digest, Sha256};

    use super::*;

    fn spec(records: u64, seed: u64) -> SampleSpec {
        let date = time::Date::from_calendar_date(2026, time::Month::January, 15).unwrap();
        SampleSpec { date, records, seed, objects: 12, gzip_only: false }
    }

    fn day(spec: &SampleSpec) -> (Vec<(String, Vec<u8>)>, SampleTotals) {
        let mut objects = Vec::new();
        let totals = write_day::<Infallible>(spec, &mut |key, bytes| {
            objects.push((key.to_owned(), bytes));
            Ok(())
        })
        .unwrap();
        (objects, totals)
    }

    fn unpacked(bytes: &[u8]) -> String {
        let mut text = String::new();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            flate2::read::MultiGzDecoder::new(bytes).read_to_string(&mut text).unwrap();
        } else if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            zstd::stream::read::Decoder::new(bytes).unwrap().read_to_string(&mut text).unwrap();
        } else {
            text = String::from_utf8(bytes.to_vec()).unwrap();
        }
        text
    }

    fn hash(objects: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut hasher = Sha256::new();
        for (key, bytes) in objects {
            hasher.update(key);
            hasher.update(bytes);
        }
        hasher.finalize().to_vec()
    }

    #[test]
    fn the_same_spec_gives_the_same_bytes_and_another_seed_or_date_others() {
        let first = hash(&day(&spec(3000, 7)).0);
        assert_eq!(first, hash(&day(&spec(3000, 7)).0));
        assert_ne!(first, hash(&day(&spec(3000, 8)).0));
        let next_day = SampleSpec { date: spec(3000, 7).date.next_day().unwrap(), ..spec(3000, 7) };
        assert_ne!(first, hash(&day(&next_day).0));
    }

    #[test]
    fn how_the_day_is_cut_and_packed_does_not_change_its_records() {
        let lines = |spec: &SampleSpec| day(spec).0.iter().map(|(_, bytes)| unpacked(bytes)).collect::<String>();
        let cut_otherwise = SampleSpec { objects: 5, gzip_only: true, ..spec(3000, 7) };
        assert_eq!(lines(&spec(3000, 7)), lines(&cut_otherwise));
        assert!(day(&cut_otherwise).0.iter().all(|(_, bytes)| bytes.starts_with(&[0x1f, 0x8b])));
    }

    #[test]
    fn every_line_is_a_record_and_the_totals_are_what_is_there() {
        for records in [0, 1, 11, 99, 100, 5000] {
            let (objects, totals) = day(&spec(records, 1));
            let keys: BTreeSet<&String> = objects.iter().map(|(key, _)| key).collect();
            assert_eq!(keys.len(), objects.len(), "a key came twice");
            let mut found: BTreeMap<String, u64> = BTreeMap::new();
            let mut json_bytes = 0;
            for (key, bytes) in &objects {
                let text = unpacked(bytes);
                assert!(text.ends_with('\n'), "{key}");
                json_bytes += text.len() as u64;
                for line in text.lines() {
                    let record: serde_json::Value = serde_json::from_str(line).unwrap();
                    let folder = key.split('/').next().unwrap();
                    let table = match folder {
                        "events" => format!("{}_events", record["event_name"].as_str().unwrap().to_lowercase()),
                        _ => folder.to_owned(),
                    };
                    if matches!(folder, "events" | "aliases") {
                        assert!(record["time"].as_str().unwrap().starts_with("2026-01-15T"), "{line}");
                    }
                    *found.entry(table).or_default() += 1;
                }
            }
            assert_eq!(found, totals.records);
            assert_eq!(found.values().sum::<u64>(), records);
            assert_eq!((json_bytes, objects.len() as u64), (totals.json_bytes, totals.objects));
        }
    }

    #[test]
    fn a_day_of_a_hundred_records_has_every_table() {
        let tables: Vec<String> = day(&spec(100, 3)).1.records.into_keys().collect();
        let expected = [
            "aliases",
            "domains",
            "formsubmission_events",
            "linkclick_events",
            "pageview_events",
            "pageviewcomplete_events",
            "pageviewengagement_events",
            "paywallshown_events",
            "segment_metadata",
            "segmententry_events",
            "slotclicked_events",
            "slotviewable_events",
            "videoadview_events",
            "videocompletion_events",
            "videoview_events",
        ];
        assert_eq!(tables, expected);
    }

    #[test]
    #[expect(clippy::disallowed_types, reason = "to see where the first member ends")]
    fn objects_are_gzip_zstd_and_plain_some_of_several_members_or_frames() {
        let (objects, _) = day(&spec(3000, 1));
        let starts = |magic: &[u8]| objects.iter().filter(|(_, bytes)| bytes.starts_with(magic)).count();
        assert_eq!((starts(&[0x1f, 0x8b]), starts(&[0x28, 0xb5, 0x2f, 0xfd]), starts(b"{")), (9, 5, 2));
        let (_, two_members) = &objects[1];
        let mut first_member = Vec::new();
        let mut rest = flate2::bufread::GzDecoder::new(two_members.as_slice());
        rest.read_to_end(&mut first_member).unwrap();
        let rest = rest.into_inner();
        assert!(rest.starts_with(&[0x1f, 0x8b]), "a second member follows");
        assert!(!first_member.ends_with(b"\n"), "the border lies inside a line");
    }

    #[test]
    fn the_records_have_the_shares_sizes_and_oddities_of_a_real_day() {
        let (objects, totals) = day(&spec(20_000, 1));
        let average = totals.json_bytes / 20_000;
        assert!((1100..1200).contains(&average), "{average} bytes a record");
        let page_views = totals.records["pageview_events"];
        assert!((7_200..8_400).contains(&page_views), "{page_views} page views of 20,000 records");
        let text: String = objects.iter().map(|(_, bytes)| unpacked(bytes)).collect();
        for oddity in [
            "\\u00e9",
            "\\ud83d\\udd34",
            "\\/",
            "München",
            "港町新聞",
            "\u{1F3AC}",
            "\\\"",
            "\"view_id\":null",
            "\"segments\":[]",
            "\"cohorts\":null",
            "\"referrer\":\"\"",
            "\"duration\":15.5",
            "\"completion\":1}",
            "e-05",
            "\"postal_code\":null",
        ] {
            assert!(text.contains(oddity), "no {oddity} in the day");
        }
        assert!(text.lines().any(|line| line.contains("event_name") && !line.contains("geo_info")), "no event without a place");
    }

    #[test]
    fn the_error_of_the_caller_ends_the_day() {
        let mut calls = 0;
        let result = write_day(&spec(3000, 1), &mut |_, _| {
            calls += 1;
            if calls == 3 { Err("disk full") } else { Ok(()) }
        });
        assert!(matches!(result, Err(SampleError::Put("disk full"))));
        assert_eq!(calls, 3);
    }
}
