//! The checksums of S3: what a client claims, what the bytes have, and what parts add up to.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use hyper::HeaderMap;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use s3s::dto::ChecksumAlgorithm;
use s3s::{S3Error, S3Result, s3_error};
use serde::{Deserialize, Serialize};

use super::failure;

/// The algorithms of `x-amz-checksum-*`, in the order of [`fields!`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

impl Algorithm {
    const ALL: [Self; 5] = [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    /// The name in `x-amz-checksum-algorithm`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Crc32 => ChecksumAlgorithm::CRC32,
            Self::Crc32c => ChecksumAlgorithm::CRC32C,
            Self::Crc64Nvme => ChecksumAlgorithm::CRC64NVME,
            Self::Sha1 => ChecksumAlgorithm::SHA1,
            Self::Sha256 => ChecksumAlgorithm::SHA256,
        }
    }

    /// The header that carries a value.
    fn header(self) -> String {
        format!("x-amz-checksum-{}", self.name().to_ascii_lowercase())
    }

    /// Length of a digest, in bytes.
    fn length(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    pub(super) fn parse(name: &ChecksumAlgorithm) -> S3Result<Self> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name.as_str())
            .ok_or_else(|| {
                s3_error!(
                    InvalidRequest,
                    "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]"
                )
            })
    }

    /// The CRC whose values can be combined, if it is one.
    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Self::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Self::Sha1 | Self::Sha256 => None,
        }
    }

    /// Whether the whole object's checksum can be had from those of its parts.
    pub(super) fn adds_up(self) -> bool {
        self.crc().is_some()
    }
}

/// The five checksum fields of a request, for [`Claim`] and [`stated`].
macro_rules! fields {
    ($input:expr) => {
        [
            $input.checksum_crc32.as_deref(),
            $input.checksum_crc32c.as_deref(),
            $input.checksum_crc64nvme.as_deref(),
            $input.checksum_sha1.as_deref(),
            $input.checksum_sha256.as_deref(),
        ]
    };
}

/// Puts a checksum into the field of an answer that is named after its algorithm.
macro_rules! show {
    ($output:expr, $checksum:expr) => {{
        use $crate::local::checksum::Algorithm;
        let checksum: &$crate::local::checksum::Checksum = $checksum;
        let field = match checksum.algorithm {
            Algorithm::Crc32 => &mut $output.checksum_crc32,
            Algorithm::Crc32c => &mut $output.checksum_crc32c,
            Algorithm::Crc64Nvme => &mut $output.checksum_crc64nvme,
            Algorithm::Sha1 => &mut $output.checksum_sha1,
            Algorithm::Sha256 => &mut $output.checksum_sha256,
        };
        *field = Some(checksum.value.clone());
    }};
}

pub(super) use {fields, show};

/// A checksum as S3 states it: base64, with `-N` behind it if it is one over N parts' checksums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checksum {
    pub(super) algorithm: Algorithm,
    pub(super) value: String,
    /// Over the object's bytes, not over its parts' checksums.
    pub(super) full_object: bool,
}

impl Checksum {
    pub(super) fn of_object(algorithm: Algorithm, digest: &[u8]) -> Self {
        Self { algorithm, value: STANDARD.encode(digest), full_object: true }
    }

    /// The name in `x-amz-checksum-type`.
    pub(super) fn kind(&self) -> &'static str {
        kind_name(self.full_object)
    }
}

/// The name in `x-amz-checksum-type`.
pub(super) fn kind_name(full_object: bool) -> &'static str {
    if full_object { "FULL_OBJECT" } else { "COMPOSITE" }
}

/// The one checksum that a request's fields state, if any.
///
/// # Errors
///
/// `InvalidRequest` for two of them.
pub(super) fn stated(fields: [Option<&str>; 5]) -> S3Result<Option<(Algorithm, String)>> {
    let mut found = Algorithm::ALL.into_iter().zip(fields).filter_map(|(algorithm, value)| Some((algorithm, value?.to_owned())));
    let first = found.next();
    if found.next().is_some() {
        return Err(s3_error!(
            InvalidRequest,
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        ));
    }
    Ok(first)
}

/// What a client says about the body that it sends.
pub(super) struct Claim {
    md5: Option<Vec<u8>>,
    value: Option<(Algorithm, Vec<u8>)>,
    in_trailer: Option<Algorithm>,
}

impl Claim {
    /// Reads `Content-MD5`, the checksum fields, `x-amz-sdk-checksum-algorithm` and `x-amz-trailer`.
    ///
    /// # Errors
    ///
    /// `InvalidDigest` or `InvalidRequest` for what can't be a digest, for two checksums, and for one
    /// that is announced but nowhere to be found.
    pub(super) fn read(
        content_md5: Option<&str>,
        fields: [Option<&str>; 5],
        announced: Option<&ChecksumAlgorithm>,
        headers: &HeaderMap,
    ) -> S3Result<Self> {
        let md5 = content_md5
            .map(|text| decode(text, 16))
            .map(|digest| digest.ok_or_else(|| s3_error!(InvalidDigest, "The Content-MD5 you specified is not valid.")))
            .transpose()?;
        let value = match stated(fields)? {
            Some((algorithm, text)) => Some((algorithm, decode_value(algorithm, &text)?)),
            None => None,
        };
        let trailers = headers.get("x-amz-trailer").and_then(|names| names.to_str().ok()).unwrap_or_default();
        let in_trailer = Algorithm::ALL
            .into_iter()
            .find(|algorithm| trailers.split(',').any(|name| name.trim().eq_ignore_ascii_case(&algorithm.header())));
        if value.is_some() && in_trailer.is_some() {
            return Err(s3_error!(
                InvalidRequest,
                "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
            ));
        }
        let claim = Self { md5, value, in_trailer };
        if let Some(announced) = announced
            && claim.algorithm() != Some(Algorithm::parse(announced)?)
        {
            return Err(s3_error!(
                InvalidRequest,
                "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found."
            ));
        }
        Ok(claim)
    }

    /// The algorithm to compute while the body comes in.
    pub(super) fn algorithm(&self) -> Option<Algorithm> {
        let stated = self.value.as_ref().map(|(algorithm, _digest)| *algorithm);
        stated.or(self.in_trailer)
    }

    /// Compares with what came in; `trailers` are those behind the body.
    ///
    /// # Errors
    ///
    /// `BadDigest` for bytes that differ from the claim.
    pub(super) fn check(&self, digests: &Digests, trailers: Option<&HeaderMap>) -> S3Result<()> {
        if let Some(md5) = &self.md5
            && md5.as_slice() != digests.md5
        {
            return Err(s3_error!(BadDigest, "The Content-MD5 you specified did not match what we received."));
        }
        let claimed = match (&self.value, self.in_trailer) {
            (Some((algorithm, digest)), _) => Some((*algorithm, digest.clone())),
            (None, Some(algorithm)) => {
                let text = trailers
                    .and_then(|trailers| trailers.get(algorithm.header()))
                    .and_then(|value| value.to_str().ok())
                    .ok_or_else(|| {
                        failure::bad_request(
                            "MalformedTrailerError",
                            "The request contained trailing data that was not well-formed or did not conform to our published schema.",
                        )
                    })?;
                Some((algorithm, decode_value(algorithm, text)?))
            }
            (None, None) => None,
        };
        match claimed {
            Some((algorithm, digest)) if digests.of(algorithm) != Some(digest.as_slice()) => Err(mismatch(algorithm)),
            _ => Ok(()),
        }
    }
}

/// `BadDigest` for a checksum that is not that of the bytes.
pub(super) fn mismatch(algorithm: Algorithm) -> S3Error {
    s3_error!(BadDigest, "The {} you specified did not match the calculated checksum.", algorithm.name())
}

/// The digest that `text` states.
///
/// # Errors
///
/// `InvalidRequest` if it is no base64 of the right length.
pub(super) fn decode_value(algorithm: Algorithm, text: &str) -> S3Result<Vec<u8>> {
    decode(text, algorithm.length())
        .ok_or_else(|| s3_error!(InvalidRequest, "Value for {} header is invalid.", algorithm.header()))
}

fn decode(text: &str, length: usize) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok().filter(|digest| digest.len() == length)
}

/// Computes over a body: MD5 for the `ETag`, CRC64NVME because S3 keeps one for every object, and one more if asked.
pub(super) struct Hasher {
    md5: Md5,
    crc64: Crc64Nvme,
    other: Option<Other>,
}

enum Other {
    Crc32(Crc32),
    Crc32c(Crc32c),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Hasher {
    pub(super) fn new(algorithm: Option<Algorithm>) -> Self {
        Self {
            md5: Md5::new(),
            crc64: Crc64Nvme::new(),
            other: match algorithm {
                Some(Algorithm::Crc32) => Some(Other::Crc32(Crc32::new())),
                Some(Algorithm::Crc32c) => Some(Other::Crc32c(Crc32c::new())),
                Some(Algorithm::Sha1) => Some(Other::Sha1(Sha1::new())),
                Some(Algorithm::Sha256) => Some(Other::Sha256(Sha256::new())),
                Some(Algorithm::Crc64Nvme) | None => None,
            },
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        self.crc64.update(bytes);
        match &mut self.other {
            Some(Other::Crc32(hash)) => hash.update(bytes),
            Some(Other::Crc32c(hash)) => hash.update(bytes),
            Some(Other::Sha1(hash)) => hash.update(bytes),
            Some(Other::Sha256(hash)) => hash.update(bytes),
            None => {}
        }
    }

    pub(super) fn finish(self) -> Digests {
        Digests {
            md5: self.md5.finalize(),
            crc64: self.crc64.finalize(),
            other: self.other.map(|other| match other {
                Other::Crc32(hash) => (Algorithm::Crc32, hash.finalize().to_vec()),
                Other::Crc32c(hash) => (Algorithm::Crc32c, hash.finalize().to_vec()),
                Other::Sha1(hash) => (Algorithm::Sha1, hash.finalize().to_vec()),
                Other::Sha256(hash) => (Algorithm::Sha256, hash.finalize().to_vec()),
            }),
        }
    }
}

/// What a [`Hasher`] found.
pub(super) struct Digests {
    pub(super) md5: [u8; 16],
    crc64: [u8; 8],
    other: Option<(Algorithm, Vec<u8>)>,
}

impl Digests {
    /// The digest, if it was computed; that of CRC64NVME always is.
    pub(super) fn of(&self, algorithm: Algorithm) -> Option<&[u8]> {
        match &self.other {
            _ if algorithm == Algorithm::Crc64Nvme => Some(&self.crc64),
            Some((computed, digest)) if *computed == algorithm => Some(digest),
            _ => None,
        }
    }

    /// The checksum that S3 keeps for an object put with `algorithm`, or with none.
    pub(super) fn kept(&self, algorithm: Option<Algorithm>) -> Checksum {
        match algorithm.and_then(|algorithm| Some((algorithm, self.of(algorithm)?))) {
            Some((algorithm, digest)) => Checksum::of_object(algorithm, digest),
            None => Checksum::of_object(Algorithm::Crc64Nvme, &self.crc64),
        }
    }
}

/// The checksum of an object of `parts` (digest and size in bytes of each, in order).
///
/// `None` if a digest is of the wrong length or `full_object` is asked of a hash that does not add up.
pub(super) fn of_parts(algorithm: Algorithm, full_object: bool, parts: &[(Vec<u8>, u64)]) -> Option<Checksum> {
    if full_object {
        return add_up(algorithm, parts);
    }
    let all: Vec<u8> = parts.iter().flat_map(|(digest, _size)| digest.iter().copied()).collect();
    let digest = match algorithm {
        Algorithm::Crc32 => Crc32::checksum(&all).to_vec(),
        Algorithm::Crc32c => Crc32c::checksum(&all).to_vec(),
        Algorithm::Crc64Nvme => Crc64Nvme::checksum(&all).to_vec(),
        Algorithm::Sha1 => Sha1::checksum(&all).to_vec(),
        Algorithm::Sha256 => Sha256::checksum(&all).to_vec(),
    };
    Some(Checksum { algorithm, value: format!("{}-{}", STANDARD.encode(digest), parts.len()), full_object: false })
}

fn add_up(algorithm: Algorithm, parts: &[(Vec<u8>, u64)]) -> Option<Checksum> {
    let crc = algorithm.crc()?;
    let number = |digest: &[u8]| {
        (digest.len() == algorithm.length()).then(|| digest.iter().fold(0, |number: u64, byte| (number << 8) | u64::from(*byte)))
    };
    let mut sums = parts.iter().map(|(digest, size)| Some((number(digest)?, *size)));
    let (first, _size) = sums.next()??;
    let total = sums.try_fold(first, |sum, part| {
        let (next, size) = part?;
        Some(crc_fast::checksum_combine(crc, sum, next, size))
    })?;
    let bytes = total.to_be_bytes();
    let digest = bytes.get(bytes.len() - algorithm.length()..)?;
    Some(Checksum::of_object(algorithm, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_checksum_of_the_whole_for_every_crc() {
        let whole: Vec<u8> = (0_u32..50_000).flat_map(u32::to_le_bytes).collect();
        for algorithm in Algorithm::ALL.into_iter().filter(|found| found.adds_up()) {
            let digest = |bytes: &[u8]| {
                let mut hasher = Hasher::new(Some(algorithm));
                hasher.update(bytes);
                hasher.finish().of(algorithm).unwrap().to_vec()
            };
            let parts: Vec<_> = whole.chunks(33_333).map(|part| (digest(part), part.len() as u64)).collect();
            assert_eq!(of_parts(algorithm, true, &parts), Some(Checksum::of_object(algorithm, &digest(&whole))));
        }
    }

    #[test]
    fn hashes_do_not_add_up_but_have_a_composite() {
        let parts = vec![(vec![0; 32], 1), (vec![1; 32], 1)];
        assert_eq!(of_parts(Algorithm::Sha256, true, &parts), None);
        let composite = of_parts(Algorithm::Sha256, false, &parts).unwrap();
        assert!(composite.value.ends_with("-2"), "{}", composite.value);
        assert_eq!(composite.kind(), "COMPOSITE");
    }
}
