//! Decoding, whole and cut up: packings, damage, limits.

use std::io::Write as _;

use flate2::{Compression, GzBuilder, write::GzEncoder};
use proptest::prelude::*;

use super::*;

const LIMITS: DecodeLimits = DecodeLimits { max_object_bytes: 64 << 30, max_ratio: 1000 };
const LINES: &[u8] = b"{\"a\":1}\n{\"a\":2}\n";

/// Decodes `object` with pushes of at most `piece` bytes and an output buffer of `room` bytes that is emptied whenever it is full.
fn decode_cut(object: &[u8], limits: DecodeLimits, piece: usize, room: usize) -> Result<Vec<u8>, Damage> {
    let mut decoder = Decoder::new(limits, object.len() as u64);
    let (mut all, mut out) = (Vec::new(), Vec::with_capacity(room));
    for mut input in object.chunks(piece.max(1)) {
        while !input.is_empty() {
            let progress = decoder.push(input, &mut out, room)?;
            assert!(out.len() <= room);
            assert!(progress.consumed > 0 || out.len() == room, "neither input used nor output full");
            input = &input[progress.consumed..];
            if out.len() == room {
                all.append(&mut out);
                // Another capacity than the limit, so that both ways to append are used.
                out.reserve(room + piece % 3);
            }
        }
    }
    while !decoder.finish(&mut out, room)? {
        assert_eq!(out.len(), room, "not done, though there is room");
        all.append(&mut out);
    }
    all.append(&mut out);
    Ok(all)
}

fn decode(object: &[u8]) -> Result<Vec<u8>, Damage> {
    let whole = decode_cut(object, LIMITS, usize::MAX, 1 << 20);
    assert_eq!(decode_cut(object, LIMITS, 1, 1), whole, "byte by byte");
    whole
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ::zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Text that packs about as events do, of which no two parts are alike.
fn text(bytes: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut text = Vec::with_capacity(bytes + 64);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        writeln!(text, "{{\"event_name\":\"pageview\",\"id\":\"{state:016x}\"}}").unwrap();
    }
    text.truncate(bytes);
    text
}

#[test]
fn the_bytes_tell_the_packing_and_every_member_and_frame_is_read() {
    let skippable = b"\x5A\x2A\x4D\x18\x03\x00\x00\x00abc";
    for object in [
        LINES.to_vec(),
        gzip(LINES),
        zstd(LINES),
        joined(&[&gzip(b""), &gzip(&LINES[..5]), &gzip(b""), &gzip(&LINES[5..]), &gzip(b"")]),
        joined(&[&zstd(b""), &zstd(&LINES[..5]), skippable, &zstd(&LINES[5..]), skippable]),
        joined(&[skippable, &zstd(LINES)]),
        joined(&[&gzip(LINES), &[0; 600]]),
        gzip(&gzip(LINES)),
        gzip(&zstd(LINES)),
        zstd(&gzip(LINES)),
        zstd(&zstd(LINES)),
        gzip(&joined(&[&gzip(&LINES[..3]), &gzip(&LINES[3..]), &[0; 3]])),
    ] {
        assert_eq!(decode(&object).as_deref(), Ok(LINES), "{object:?}");
    }
}

#[test]
fn nothing_at_all_is_an_object_without_bytes() {
    for object in [vec![], gzip(b""), zstd(b""), gzip(&gzip(b"")), gzip(&zstd(b"")), joined(&[&gzip(b""), &[0; 9]])] {
        assert_eq!(decode(&object).as_deref(), Ok(&b""[..]), "{object:?}");
    }
}

#[test]
fn all_optional_header_fields_are_skipped_and_the_headers_checksum_is_checked() {
    let mut member = Vec::new();
    let builder = GzBuilder::new().extra(vec![b'x'; 300]).filename("events.ndjson").comment("a comment").mtime(1);
    builder.write(&mut member, Compression::best()).write_all(LINES).unwrap();
    assert_eq!(decode(&member).as_deref(), Ok(LINES));

    let plain = gzip(LINES);
    let mut header = plain[..10].to_vec();
    header[3] = FHCRC;
    let mut crc = flate2::Crc::new();
    crc.update(&header);
    let with_crc = joined(&[&header, &crc.sum().to_le_bytes()[..2], &plain[10..]]);
    assert_eq!(decode(&with_crc).as_deref(), Ok(LINES));
    let mut wrong = with_crc;
    wrong[11] ^= 1;
    assert_eq!(decode(&wrong), Err(Damage::Corrupt(Packing::Gzip)));
}

const FHCRC: u8 = 2;

#[test]
fn a_byte_order_mark_is_dropped_once_at_the_unpacked_start_only() {
    let marked = joined(&[b"\xEF\xBB\xBF", LINES]);
    let twice = joined(&[b"\xEF\xBB\xBF", &marked]);
    for pack in [|bytes: &[u8]| bytes.to_vec(), gzip, zstd, |bytes: &[u8]| gzip(&gzip(bytes))] {
        assert_eq!(decode(&pack(&marked)).as_deref(), Ok(LINES));
        assert_eq!(decode(&pack(&twice)), Ok(marked.clone()));
        assert_eq!(decode(&pack(b"\xEF\xBB\xBF")).as_deref(), Ok(&b""[..]));
        assert_eq!(decode(&pack(b"\xEF\xBB")).as_deref(), Ok(&b"\xEF\xBB"[..]));
        let later = joined(&[LINES, &marked]);
        assert_eq!(decode(&pack(&later)), Ok(later));
    }
    let mut decoder = Decoder::new(LIMITS, 100);
    decoder.push(&marked, &mut Vec::new(), 100).unwrap();
    assert_eq!(decoder.dropped_bytes(), 3);
}

#[test]
fn the_kind_is_the_outermost_one_and_parquet_passes_through() {
    for (object, kind) in [
        (LINES.to_vec(), Kind::Plain),
        (vec![], Kind::Plain),
        (b"[]".to_vec(), Kind::Plain),
        (gzip(&zstd(LINES)), Kind::Gzip),
        (zstd(LINES), Kind::Zstd),
        (b"PAR1\xEF\xBB\xBF".to_vec(), Kind::Parquet),
    ] {
        let mut decoder = Decoder::new(LIMITS, object.len() as u64);
        let mut out = Vec::new();
        decoder.push(&object, &mut out, 1000).unwrap();
        decoder.finish(&mut out, 1000).unwrap();
        assert_eq!(decoder.kind(), Some(kind));
    }
    assert_eq!(decode(b"PAR1\xEF\xBB\xBF rest").as_deref(), Ok(&b"PAR1\xEF\xBB\xBF rest"[..]));
    assert_eq!(decode(&gzip(b"PAR1....PAR1")), Err(Damage::PackedParquet));
    assert_eq!(decode(b"PAR2").as_deref(), Ok(&b"PAR2"[..]));
}

#[test]
fn each_way_to_be_damaged_has_its_name() {
    let gzipped = gzip(LINES);
    let zstandard = zstd(LINES);
    let flipped = |object: &[u8], at: usize, bit: u8| {
        let mut object = object.to_vec();
        let length = object.len();
        object[(at + length) % length] ^= bit;
        object
    };
    let garbage = |packing| Err(Damage::TrailingGarbage(packing));
    assert_eq!(decode(&joined(&[&gzipped, b"{\"a\":3}\n"])), garbage(Packing::Gzip));
    assert_eq!(decode(&joined(&[&gzipped, &[0, 0], &gzipped])), garbage(Packing::Gzip));
    assert_eq!(decode(&joined(&[&gzipped, &[0x1F, 0x8A]])), garbage(Packing::Gzip));
    assert_eq!(decode(&joined(&[&zstandard, b"{\"a\":3}\n"])), garbage(Packing::Zstd));
    assert_eq!(decode(&joined(&[&zstandard, &[0; 8]])), garbage(Packing::Zstd));
    let last_eight = gzipped.len() - 8;
    assert_eq!(decode(&flipped(&gzipped, last_eight, 1)), Err(Damage::BadChecksum(Packing::Gzip)));
    assert_eq!(decode(&flipped(&gzipped, gzipped.len() - 1, 1)), Err(Damage::BadChecksum(Packing::Gzip)));
    assert_eq!(decode(&flipped(&zstandard, zstandard.len() - 1, 1)), Err(Damage::BadChecksum(Packing::Zstd)));
    assert_eq!(decode(&flipped(&gzipped, 2, 1)), Err(Damage::Corrupt(Packing::Gzip)));
    assert_eq!(decode(&flipped(&gzipped, 3, 0x80)), Err(Damage::Corrupt(Packing::Gzip)));
    assert_eq!(decode(&flipped(&gzipped, 10, 6)), Err(Damage::Corrupt(Packing::Gzip)));
    assert_eq!(decode(&flipped(&zstandard, 4, 8)), Err(Damage::Corrupt(Packing::Zstd)), "a reserved bit");
    assert_eq!(decode(&gzip(&gzip(&gzip(LINES)))), Err(Damage::TooManyWrappings));
    assert_eq!(decode(&zstd(&gzip(&zstd(LINES)))), Err(Damage::TooManyWrappings));
    assert_eq!(decode(&gzip(&gzipped[..20])), Err(Damage::Truncated(Packing::Gzip)));
    assert_eq!(decode(&zstd(&joined(&[&gzipped, b"x"]))), garbage(Packing::Gzip));
}

#[test]
fn a_damaged_object_stays_damaged() {
    let object = joined(&[&gzip(LINES), b"garbage"]);
    let mut decoder = Decoder::new(LIMITS, object.len() as u64);
    let damage = decoder.push(&object, &mut Vec::new(), 1000).unwrap_err();
    assert_eq!(damage, Damage::TrailingGarbage(Packing::Gzip));
    assert_eq!(decoder.push(b"", &mut Vec::new(), 1000), Err(damage.clone()));
    assert_eq!(decoder.finish(&mut Vec::new(), 1000), Err(damage));
}

#[test]
fn a_zstd_window_over_128_mib_is_refused_before_memory_is_taken() {
    let with_window = |log: u32| {
        let mut encoder = ::zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(LINES).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(decode(&with_window(28)), Err(Damage::WindowTooLarge));
    assert_eq!(decode(&with_window(27)).as_deref(), Ok(LINES));
}

#[test]
fn an_object_over_a_limit_ends_there() {
    const SIZE: usize = (1 << 20) + 1000;
    let zeros = vec![b' '; SIZE];
    let (bomb, zstd_bomb) = (gzip(&zeros), zstd(&zeros));
    let limits = |max_object_bytes: usize, max_ratio| DecodeLimits { max_object_bytes: max_object_bytes as u64, max_ratio };
    for (piece, room) in [(1, 1 << 10), (100, 1 << 16), (usize::MAX, 8 << 20)] {
        let decode = |object: &[u8], limits| decode_cut(object, limits, piece, room).map(|bytes| bytes.len());
        assert_eq!(decode(&bomb, limits(SIZE, 2000)), Ok(SIZE));
        let over_bytes = Err(Damage::OverObjectBytes { max_object_bytes: SIZE as u64 - 1 });
        assert_eq!(decode(&bomb, limits(SIZE - 1, 2000)), over_bytes);
        assert_eq!(decode(&bomb, limits(usize::MAX, 100)), Err(Damage::OverRatio { max_ratio: 100 }));
        assert_eq!(decode(&zstd_bomb, limits(usize::MAX, 100)), Err(Damage::OverRatio { max_ratio: 100 }));
        assert_eq!(decode(&gzip(&zeros[..1 << 20]), limits(usize::MAX, 1)), Ok(1 << 20), "the first MiB is free");
        assert_eq!(decode(&gzip(&bomb), limits(usize::MAX, 100)), Err(Damage::OverRatio { max_ratio: 100 }));
        assert_eq!(decode(&zeros, limits(SIZE - 1, 1)), over_bytes);
        assert_eq!(decode(&zeros, limits(SIZE, 1)), Ok(SIZE));
    }
}

#[test]
fn what_lies_between_two_wrappings_is_limited_too() {
    // 100,000 empty members pack well and give no byte at all: without a limit on what lies between, only time would pass.
    let members = gzip(b"").repeat(100_000);
    let limits = DecodeLimits { max_object_bytes: u64::MAX, max_ratio: 1 };
    assert_eq!(decode_cut(&gzip(&members), limits, 1 << 16, 1 << 16), Err(Damage::OverRatio { max_ratio: 1 }));
    assert_eq!(decode_cut(&gzip(&members), LIMITS, 1 << 16, 1 << 16), Ok(vec![]));
}

#[test]
fn every_truncation_of_a_packed_object_is_found() {
    for (object, packing) in [
        (gzip(&text(3000)), Packing::Gzip),
        (zstd(&text(3000)), Packing::Zstd),
        (gzip(&gzip(&text(3000))), Packing::Gzip),
        (zstd(&gzip(&text(3000))), Packing::Zstd),
    ] {
        for end in 1..object.len() {
            for (piece, room) in [(usize::MAX, 1 << 20), (7, 13)] {
                let decoded = decode_cut(&object[..end], LIMITS, piece, room);
                assert_eq!(decoded, Err(Damage::Truncated(packing)), "cut at {end} of {}", object.len());
            }
        }
    }
}

#[test]
fn members_of_every_size_pass_whole() {
    let text = text(3 << 20);
    for packed in [gzip(&text), zstd(&text), gzip(&zstd(&text)), gzip(&text[..1 << 16]).repeat(3)] {
        let whole = decode_cut(&packed, LIMITS, usize::MAX, 64 << 20).unwrap();
        assert!(whole == text || whole == text[..1 << 16].repeat(3));
        for (piece, room) in [(1 << 16, 1 << 20), (1000, 1 << 16), (1 << 20, 777)] {
            assert!(decode_cut(&packed, LIMITS, piece, room).unwrap() == whole, "{piece} {room}");
        }
    }
}

#[test]
fn a_decoder_can_be_handed_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Decoder>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_end_the_same_way_however_they_are_cut(
        start in prop_oneof![Just(vec![]), Just(vec![0x1F, 0x8B, 8, 0]), Just(vec![0x1F, 0x8B, 8, 31]), Just(vec![0x28, 0xB5, 0x2F, 0xFD]),
            Just(vec![0x28, 0xB5, 0x2F, 0xFD, 0x20]), Just(vec![0x51, 0x2A, 0x4D, 0x18, 9, 0, 0, 0]), Just(gzip(LINES)), Just(zstd(LINES))],
        rest in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..50, room in 1_usize..50) {
        let object = joined(&[&start, &rest]);
        let whole = decode_cut(&object, LIMITS, usize::MAX, 1 << 20);
        prop_assert_eq!(decode_cut(&object, LIMITS, piece, room), whole);
    }

    #[test]
    fn a_flipped_bit_never_passes_as_the_same_object(at in any::<prop::sample::Index>(), bit in 0_u32..8, which in 0_usize..3, piece in 1_usize..99) {
        let content = text(700);
        let mut object = [gzip(&content), zstd(&content), gzip(&gzip(&content))][which].clone();
        let at = at.index(object.len());
        object[at] ^= 1 << bit;
        match decode_cut(&object, LIMITS, piece, 1 << 10) {
            // Bits that mean nothing: the time, the compressor's hints and the system in gzip's header; or the magic number, without
            // which the bytes are plain ones.
            Ok(decoded) => prop_assert!(decoded == content || decoded == object),
            Err(damage) => prop_assert!(!damage.to_string().is_empty()),
        }
    }

    #[test]
    fn packed_objects_pass_whole_however_they_are_cut(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..5),
        packing in prop::collection::vec(any::<bool>(), 1..3), piece in 1_usize..300, room in 1_usize..300) {
        let content = joined(&[LINES, &contents.concat()]);
        let pack = |bytes: &[u8], with_gzip: bool| if with_gzip { gzip(bytes) } else { zstd(bytes) };
        let mut object = joined(&[&pack(LINES, packing[0]), &contents.iter().flat_map(|part| pack(part, packing[0])).collect::<Vec<u8>>()]);
        if let Some(outer) = packing.get(1) {
            object = pack(&object, *outer);
        }
        prop_assert_eq!(decode_cut(&object, LIMITS, piece, room), Ok(content));
    }
}
