//! What the pages of a row group claim, added up before any of them is read.

use std::io;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::column::page::{Page, PageReader as _};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::Length as _;
use parquet::file::serialized_reader::SerializedPageReader;

use super::compact::{Met, Walk};
use super::{Fault, File, damage};

/// Rows of a batch, where they are short.
const MOST_BATCH_ROWS: u64 = 1_024;
/// Bytes of a batch that its values may claim.
const BATCH_BYTES: u64 = 32 << 20;
/// Bytes of a value's place in a batch beside itself: its levels, and for texts and bytes their view.
const BESIDE_VALUE: u64 = 4;
const VIEW_BYTES: u64 = 16;
/// Bytes at which a page's header is looked for, one length after the other: statistics make some long.
const HEADER_BYTES: [u64; 3] = [1 << 10, 32 << 10, 2 << 20];
/// Bytes that are read of a Brotli page at a time.
const BROTLI_BUFFER: usize = 4 << 10;
/// LZ4 packs 255 bytes into one, at most.
const LZ4_RATIO: u64 = 255;

/// `Encodings` in the Parquet format: 6 and 7.
const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
const DELTA_BYTE_ARRAY: i64 = 7;

/// Checks that what a row group's pages claim fits `memory` and their chunks; how many rows may be read at a time.
pub(super) fn check(file: &File, group: &RowGroupMetaData, memory: u64) -> Result<usize, Fault> {
    let (mut open, mut in_lists, mut a_row) = (0_u64, 0_u64, 0_u64);
    for column in group.columns() {
        let claims = claims(file, column, memory)?;
        let leaf = column.column_descr();
        let mut width = match leaf.physical_type() {
            Physical::FIXED_LEN_BYTE_ARRAY => u64::try_from(leaf.type_length()).unwrap_or(u64::MAX).max(VIEW_BYTES),
            _ => VIEW_BYTES,
        };
        if claims.repeats_prefixes {
            // Each value is made in full, and may be as long as all that its page holds.
            width = width.max(claims.largest_page);
        }
        let width = width.saturating_add(BESIDE_VALUE);
        open = open.saturating_add(claims.largest_page).saturating_add(claims.largest_packed).saturating_add(claims.dictionary);
        if leaf.max_rep_level() > 0 {
            // One row may hold all of them.
            in_lists = in_lists.saturating_add(claims.values.saturating_mul(width));
        } else {
            a_row = a_row.saturating_add(width);
        }
    }
    let needed = open.saturating_add(in_lists).saturating_add(a_row);
    if needed > memory {
        return Err(damage(format!(
            "has a row group whose pages may take {} MiB at once, over {} MiB: write smaller row groups or pages, or raise `run.memory_budget`",
            needed >> 20,
            memory >> 20
        )));
    }
    let rows = (BATCH_BYTES / a_row.max(1)).clamp(1, MOST_BATCH_ROWS);
    Ok(usize::try_from(rows).unwrap_or(1))
}

/// What a column chunk's page headers claim.
#[derive(Debug, Default)]
struct Claims {
    /// Bytes of the largest data page, unpacked, and of the largest page, packed.
    largest_page: u64,
    largest_packed: u64,
    /// Bytes of the dictionary, with a view for each of its values.
    dictionary: u64,
    /// Values of all data pages.
    values: u64,
    /// Whether some page shares prefixes between its values.
    repeats_prefixes: bool,
    /// Whether some page's lengths are packed in front of its values.
    packs_lengths: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct PageHeader {
    kind: i64,
    unpacked: i64,
    packed: i64,
    values: i64,
    encoding: i64,
    /// Of a page of the second version: bytes of its levels, which are never packed.
    levels: i64,
}

fn claims(file: &File, column: &ColumnChunkMetaData, memory: u64) -> Result<Claims, Fault> {
    let wrong = || {
        damage(format!(
            "has pages of the column `{}` that contradict its footer, write it again",
            column.column_path().string().escape_debug()
        ))
    };
    let number = |value: i64| u64::try_from(value).map_err(|_| wrong());
    let start = number(column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset()))?;
    let end = start.checked_add(number(column.compressed_size())?).filter(|end| *end <= file.len()).ok_or_else(wrong)?;
    let mut claims = Claims::default();
    let mut at = start;
    while at < end {
        let (header, length) = header_at(file, at, end)?.ok_or_else(wrong)?;
        let (unpacked, packed, values) = (number(header.unpacked)?, number(header.packed)?, number(header.values)?);
        let body = at + length;
        at = body.checked_add(packed).filter(|at| *at <= end).ok_or_else(wrong)?;
        if unpacked > memory {
            return Err(damage(format!("has a page of {unpacked} bytes, write smaller pages or raise `run.memory_budget`")));
        }
        let levels = number(header.levels)?.min(packed);
        let packed_bytes = || file.bytes_at(body + levels, packed - levels).map_err(Fault::Source);
        match column.compression() {
            Compression::GZIP(_) => check_unpacked(MultiGzDecoder::new(packed_bytes()?.as_slice()), unpacked)?,
            Compression::BROTLI(_) => {
                check_unpacked(brotli::Decompressor::new(packed_bytes()?.as_slice(), BROTLI_BUFFER), unpacked)?;
            }
            Compression::LZ4 if packed.saturating_mul(LZ4_RATIO) > memory => {
                return Err(damage(
                    "has large pages in LZ4's Hadoop form, write them with LZ4_RAW, Snappy or Zstandard".to_owned(),
                ));
            }
            _ => {}
        }
        claims.largest_packed = claims.largest_packed.max(packed);
        match header.kind {
            // DATA_PAGE, DATA_PAGE_V2
            0 | 3 => {
                claims.largest_page = claims.largest_page.max(unpacked);
                claims.values = claims.values.saturating_add(values);
                claims.repeats_prefixes |= header.encoding == DELTA_BYTE_ARRAY;
                claims.packs_lengths |= matches!(header.encoding, DELTA_LENGTH_BYTE_ARRAY | DELTA_BYTE_ARRAY);
            }
            // DICTIONARY_PAGE: a value of it takes a byte at least.
            2 if values <= unpacked => {
                claims.dictionary = claims.dictionary.saturating_add(unpacked).saturating_add(values.saturating_mul(VIEW_BYTES));
            }
            2 => return Err(wrong()),
            _ => {}
        }
    }
    if claims.packs_lengths {
        check_lengths(file, column)?;
    }
    Ok(claims)
}

/// The page header that begins at `at`, and its length; `None` if there is none before `end`.
fn header_at(file: &File, at: u64, end: u64) -> Result<Option<(PageHeader, u64)>, Fault> {
    for most in HEADER_BYTES {
        let bytes = file.bytes_at(at, most.min(end - at)).map_err(Fault::Source)?;
        let mut header = PageHeader::default();
        let walked = Walk::new(&bytes).whole_struct(&mut |path, met| {
            let Met::Integer(value) = met else { return };
            match path {
                [1] => header.kind = value,
                [2] => header.unpacked = value,
                [3] => header.packed = value,
                // Of a data page, a dictionary page, and a data page of the second version.
                [5 | 7 | 8, 1] => header.values = value,
                [5 | 7, 2] | [8, 4] => header.encoding = value,
                [8, 5 | 6] => header.levels = header.levels.saturating_add(value),
                _ => {}
            }
        });
        if let Some(length) = walked {
            return Ok(Some((header, length as u64)));
        }
        if most >= end - at {
            break;
        }
    }
    Ok(None)
}

/// Checks that a page of gzip or Brotli unpacks to no more than it claims: the reader would unpack all that comes.
fn check_unpacked(unpacked: impl io::Read, claimed: u64) -> Result<(), Fault> {
    let mut unpacked = unpacked.take(claimed.saturating_add(1));
    // What is not packed so at all is the reader's to say.
    let made = io::copy(&mut unpacked, &mut io::sink()).unwrap_or_default();
    if made > claimed { Err(damage("has a page that unpacks to more than it claims, write it again".to_owned())) } else { Ok(()) }
}

/// Checks that pages with packed lengths have no more of them than values: the reader makes room for as many as they claim.
fn check_lengths(file: &File, column: &ColumnChunkMetaData) -> Result<(), Fault> {
    let bad = || damage("has a page with other numbers of lengths than of values, write it again".to_owned());
    let leaf = column.column_descr();
    let mut pages = file.guarded(|| SerializedPageReader::new(Arc::new(file.clone()), column, usize::MAX, None))?;
    while let Some(page) = file.guarded(|| pages.get_next_page())? {
        let (buffer, values, encoding, levels) = match &page {
            Page::DataPage { buf, num_values, encoding, .. } => {
                let has_levels = [leaf.max_rep_level() > 0, leaf.max_def_level() > 0];
                let mut at = 0_usize;
                for _ in has_levels.into_iter().filter(|has| *has) {
                    let length = buf.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(bad)?;
                    at = at.saturating_add(4).saturating_add(u32::from_le_bytes(*length) as usize);
                }
                (buf, *num_values, *encoding, at)
            }
            Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
                (buf, *num_values, *encoding, *def_levels_byte_len as usize + *rep_levels_byte_len as usize)
            }
            Page::DictionaryPage { .. } => continue,
        };
        let mut rest = buffer.get(levels..).ok_or_else(bad)?;
        let runs = match encoding {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => 0,
        };
        for _ in 0..runs {
            rest = after_lengths(rest, u64::from(values)).ok_or_else(bad)?;
        }
    }
    Ok(())
}

/// What follows a run of `DELTA_BINARY_PACKED` integers of which there are at most `most`; `None` if there are more, or it is none.
fn after_lengths(bytes: &[u8], most: u64) -> Option<&[u8]> {
    let mut rest = bytes;
    let (block, miniblocks) = (varint(&mut rest)?, varint(&mut rest)?);
    let (count, _first) = (varint(&mut rest)?, varint(&mut rest)?);
    if count > most || miniblocks == 0 || block % miniblocks != 0 || miniblocks > rest.len() as u64 && count > 1 {
        return None;
    }
    let in_miniblock = block / miniblocks;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        let _least = varint(&mut rest)?;
        let (widths, after) = rest.split_at_checked(usize::try_from(miniblocks).ok()?)?;
        rest = after;
        for width in widths {
            if left == 0 {
                break;
            }
            let bytes = u64::from(*width).checked_mul(in_miniblock)? / 8;
            rest = rest.get(usize::try_from(bytes).ok()?..)?;
            left = left.saturating_sub(in_miniblock.max(1));
        }
    }
    Some(rest)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A Brotli page used to be unpacked whole, whatever it claimed: a few bytes of it may be gigabytes.
    #[test]
    fn a_page_that_unpacks_to_more_than_it_claims_is_refused() {
        let zeros = vec![0_u8; 1 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&zeros).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut packed = brotli::CompressorWriter::new(Vec::new(), BROTLI_BUFFER, 5, 22);
        packed.write_all(&zeros).unwrap();
        let packed = packed.into_inner();
        assert!(gzip.len() < 2_000 && packed.len() < 2_000, "a hostile page is small");
        for (claimed, is_fine) in [(1 << 20, true), ((1 << 20) - 1, false), (0, false)] {
            assert_eq!(check_unpacked(MultiGzDecoder::new(gzip.as_slice()), claimed).is_ok(), is_fine, "{claimed}");
            let brotli = brotli::Decompressor::new(packed.as_slice(), BROTLI_BUFFER);
            assert_eq!(check_unpacked(brotli, claimed).is_ok(), is_fine, "{claimed}");
        }
    }
}
