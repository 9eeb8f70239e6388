//! Multipart uploads: parts, completion, checksums of the whole.

use aws_sdk_s3::types::{
    ChecksumAlgorithm, ChecksumMode, ChecksumType, CompletedMultipartUpload, CompletedPart, ServerSideEncryption,
};

use super::*;

pub(super) const MIB: usize = 1 << 20;

impl World {
    /// Begins an upload as Dayport does: CRC64NVME, full object.
    pub(super) async fn create(&self, key: &str) -> String {
        let create = self.client.create_multipart_upload().bucket(BUCKET).key(key);
        let create = create.checksum_algorithm(ChecksumAlgorithm::Crc64Nvme).checksum_type(ChecksumType::FullObject);
        create.send().await.unwrap().upload_id.unwrap()
    }

    pub(super) async fn part(&self, key: &str, id: &str, number: i32, body: &[u8]) -> CompletedPart {
        let part = self.client.upload_part().bucket(BUCKET).key(key).upload_id(id);
        let part = part.part_number(number).checksum_crc64_nvme(crc64(body)).body(ByteStream::from(body.to_vec()));
        let answer = part.send().await.unwrap();
        assert_eq!(answer.checksum_crc64_nvme(), Some(crc64(body).as_str()));
        CompletedPart::builder()
            .part_number(number)
            .set_e_tag(answer.e_tag)
            .set_checksum_crc64_nvme(answer.checksum_crc64_nvme)
            .build()
    }
}

pub(super) fn crc64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes);
    base64::engine::general_purpose::STANDARD.encode(sum.to_be_bytes())
}

pub(super) fn list_of(parts: &[CompletedPart]) -> CompletedMultipartUpload {
    CompletedMultipartUpload::builder().set_parts(Some(parts.to_vec())).build()
}

// A macro, since the builder's type is long; a part may be given as a list of one.
macro_rules! complete {
    ($world:expr, $key:expr, $id:expr, $parts:expr) => {
        $world
            .client
            .complete_multipart_upload()
            .bucket(BUCKET)
            .key($key)
            .upload_id($id)
            .multipart_upload(list_of($parts.as_ref()))
    };
}
pub(super) use complete;

#[tokio::test]
async fn an_upload_appears_whole_when_it_is_completed() {
    let world = World::new().await;
    let create = world.client.create_multipart_upload().bucket(BUCKET).key("x/a.parquet");
    let created = create
        .checksum_algorithm(ChecksumAlgorithm::Crc64Nvme)
        .checksum_type(ChecksumType::FullObject)
        .content_type("application/octet-stream")
        .metadata("run", "1")
        .server_side_encryption(ServerSideEncryption::Aes256)
        .send()
        .await
        .unwrap();
    assert_eq!(created.checksum_type(), Some(&ChecksumType::FullObject));
    let id = created.upload_id().unwrap();
    let whole = noise(11 * MIB + 12_345);
    let mut parts = Vec::new();
    for (number, body) in (1..).zip(whole.chunks(5 * MIB)) {
        parts.push(world.part("x/a.parquet", id, number, body).await);
    }
    assert_eq!(world.list().await, Vec::<String>::new());
    assert_eq!(files_below(&world.path("")), Vec::<PathBuf>::new());
    let get = world.client.get_object().bucket(BUCKET).key("x/a.parquet").send().await;
    assert_eq!(refusal(get), refused(404, "NoSuchKey"));

    let complete = complete!(world, "x/a.parquet", id, parts)
        .checksum_crc64_nvme(crc64(&whole))
        .checksum_type(ChecksumType::FullObject)
        .mpu_object_size(i64::try_from(whole.len()).unwrap());
    let done = complete.clone().send().await.unwrap();
    assert_eq!(done.checksum_crc64_nvme(), Some(crc64(&whole).as_str()));
    assert_eq!(done.checksum_type(), Some(&ChecksumType::FullObject));
    assert_eq!(done.server_side_encryption(), Some(&ServerSideEncryption::Aes256));
    // The MD5 of the three MD5s, computed by another program.
    assert_eq!(done.e_tag(), Some(etag_of_parts(&whole, 5 * MIB).as_str()));

    let get = world.client.get_object().bucket(BUCKET).key("x/a.parquet");
    let get = get.checksum_mode(ChecksumMode::Enabled).send().await.unwrap();
    assert_eq!(get.e_tag(), done.e_tag());
    assert_eq!(get.checksum_crc64_nvme(), done.checksum_crc64_nvme());
    assert_eq!(get.metadata().unwrap()["run"], "1");
    assert_eq!(get.body.collect().await.unwrap().to_vec(), whole);
    assert_eq!(std::fs::read(world.path("x/a.parquet")).unwrap(), whole);

    // s3s-fs answered AccessDenied to the second completion.
    let again = complete.clone().send().await.unwrap();
    assert_eq!(again.e_tag(), done.e_tag());
    let world = world.kill_and_restart().await;
    let again = complete!(world, "x/a.parquet", id, parts).send().await.unwrap();
    assert_eq!(again.e_tag(), done.e_tag());
    assert_eq!(again.checksum_crc64_nvme(), done.checksum_crc64_nvme());
}

fn etag_of_parts(whole: &[u8], size: usize) -> String {
    let md5 = |bytes: &[u8]| <s3s::crypto::Md5 as s3s::crypto::Checksum>::checksum(bytes);
    let sums: Vec<u8> = whole.chunks(size).flat_map(md5).collect();
    let count = whole.chunks(size).count();
    format!("\"{}-{count}\"", crate::domain::hex::hex(&md5(&sums)))
}

#[tokio::test]
async fn a_small_upload_of_one_part_and_an_empty_one_are_completed() {
    let world = World::new().await;
    for body in [&b"small"[..], b""] {
        let id = world.create("a").await;
        let part = world.part("a", &id, 7, body).await;
        let done = complete!(world, "a", &id, std::slice::from_ref(&part)).send().await.unwrap();
        assert!(done.e_tag().unwrap().ends_with("-1\""));
        assert_eq!(world.get("a").await, body);
    }
}

#[tokio::test]
async fn a_corrupted_part_is_refused() {
    // s3s-fs took any bytes under any checksum.
    let world = World::new().await;
    let part = |id: &str, body: &'static [u8]| {
        let part = world.client.upload_part().bucket(BUCKET).key("a").upload_id(id);
        part.part_number(1).body(ByteStream::from_static(body))
    };
    let id = world.create("a").await;
    let right = crc64(b"hello world");
    let flipped = part(&id, b"hellp world").checksum_crc64_nvme(&right);
    assert_eq!(refusal(flipped.send().await), refused(400, "BadDigest"));
    let flipped = part(&id, b"hellp world").content_md5("XrY7u+Ae7tCTyyK7j1rNww==");
    let flipped = flipped.checksum_crc64_nvme(crc64(b"hellp world"));
    assert_eq!(refusal(flipped.send().await), refused(400, "BadDigest"));
    let malformed = part(&id, b"x").checksum_crc64_nvme("?");
    assert_eq!(refusal(malformed.send().await), refused(400, "InvalidRequest"));
    let parts = world.client.list_parts().bucket(BUCKET).key("a").upload_id(&id);
    assert_eq!(parts.send().await.unwrap().parts().len(), 0);

    for (algorithm, wrong) in [
        (ChecksumAlgorithm::Crc32, "AAAAAA=="),
        (ChecksumAlgorithm::Crc32C, "AAAAAA=="),
        (ChecksumAlgorithm::Sha1, "AAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        (ChecksumAlgorithm::Sha256, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    ] {
        let create = world.client.create_multipart_upload().bucket(BUCKET).key("a");
        let id = create.checksum_algorithm(algorithm.clone()).send().await.unwrap().upload_id.unwrap();
        let part = part(&id, b"hello");
        let part = match algorithm {
            ChecksumAlgorithm::Crc32 => part.checksum_crc32(wrong),
            ChecksumAlgorithm::Crc32C => part.checksum_crc32_c(wrong),
            ChecksumAlgorithm::Sha1 => part.checksum_sha1(wrong),
            _ => part.checksum_sha256(wrong),
        };
        assert_eq!(refusal(part.send().await), refused(400, "BadDigest"), "{algorithm}");
    }
}

#[tokio::test]
async fn a_part_of_another_algorithm_than_the_uploads_is_refused() {
    let world = World::new().await;
    let part = |id: &str| {
        let part = world.client.upload_part().bucket(BUCKET).key("a").upload_id(id);
        part.part_number(1).body(ByteStream::from_static(b"x"))
    };
    let id = world.create("a").await;
    let other = part(&id).checksum_algorithm(ChecksumAlgorithm::Crc32);
    assert_eq!(refusal(other.send().await), refused(400, "InvalidRequest"));

    let client = crate::local::tests::client(&world.server.endpoint_url(), &LocalKeys::default(), true);
    let create = client.create_multipart_upload().bucket(BUCKET).key("a");
    let sha = ChecksumAlgorithm::Sha256;
    let refused_type = create.clone().checksum_algorithm(sha.clone()).checksum_type(ChecksumType::FullObject);
    assert_eq!(refusal(refused_type.send().await), refused(400, "InvalidRequest"));
    let refused_type = create.clone().checksum_algorithm(ChecksumAlgorithm::Crc64Nvme).checksum_type(ChecksumType::Composite);
    assert_eq!(refusal(refused_type.send().await), refused(400, "InvalidRequest"));
}

#[tokio::test]
async fn a_composite_checksum_needs_those_of_its_parts() {
    let world = World::new().await;
    let create = world.client.create_multipart_upload().bucket(BUCKET).key("a");
    let create = create.checksum_algorithm(ChecksumAlgorithm::Sha256);
    let id = create.send().await.unwrap().upload_id.unwrap();
    let mut parts = Vec::new();
    for (number, body) in [(1, vec![b'a'; 5 * MIB]), (2, b"end".to_vec())] {
        let part = world.client.upload_part().bucket(BUCKET).key("a").upload_id(&id);
        let part = part.part_number(number).checksum_algorithm(ChecksumAlgorithm::Sha256);
        let answer = part.body(ByteStream::from(body)).send().await.unwrap();
        let listed = CompletedPart::builder().part_number(number).set_e_tag(answer.e_tag);
        parts.push((listed, answer.checksum_sha256.unwrap()));
    }
    let without: Vec<_> = parts.iter().map(|(part, _)| part.clone().build()).collect();
    assert_eq!(refusal(complete!(world, "a", &id, without).send().await), refused(400, "InvalidRequest"));
    let wrong: Vec<_> = parts.iter().map(|(part, _)| part.clone().checksum_sha256("AAAA").build()).collect();
    assert_eq!(refusal(complete!(world, "a", &id, wrong).send().await), refused(400, "InvalidPart"));
    let with: Vec<_> = parts.iter().map(|(part, sum)| part.clone().checksum_sha256(sum).build()).collect();
    let done = complete!(world, "a", &id, with).send().await.unwrap();
    assert!(done.checksum_sha256().unwrap().ends_with("-2"));
    assert_eq!(done.checksum_type(), Some(&ChecksumType::Composite));
}

#[tokio::test]
async fn a_completion_that_does_not_fit_is_refused_and_can_be_put_right() {
    let world = World::new().await;
    let id = world.create("a").await;
    let (first, second) = (noise(5 * MIB), noise(3));
    let one = world.part("a", &id, 1, &first).await;
    let two = world.part("a", &id, 2, &second).await;
    let small = world.part("a", &id, 3, b"after a small one").await;
    let whole = [first, second].concat();
    let listed = |parts: &[CompletedPart]| complete!(world, "a", &id, parts);

    let swapped = listed(&[two.clone(), one.clone()]);
    assert_eq!(refusal(swapped.send().await), refused(400, "InvalidPartOrder"));
    let twice = listed(&[one.clone(), one.clone()]);
    assert_eq!(refusal(twice.send().await), refused(400, "InvalidPartOrder"));
    let missing = CompletedPart::builder().part_number(9).e_tag("\"x\"").build();
    assert_eq!(refusal(listed(&[one.clone(), missing]).send().await), refused(400, "InvalidPart"));
    let wrong_etag = CompletedPart::builder().part_number(2).e_tag("\"00000000000000000000000000000000\"").build();
    assert_eq!(refusal(listed(&[one.clone(), wrong_etag]).send().await), refused(400, "InvalidPart"));
    let too_small = listed(&[one.clone(), two.clone(), small]);
    assert_eq!(refusal(too_small.send().await), refused(400, "EntityTooSmall"));
    assert_eq!(refusal(listed(&[]).send().await), refused(400, "MalformedXML"));

    let right = || listed(&[one.clone(), two.clone()]);
    let wrong_sum = right().checksum_crc64_nvme(crc64(b"other"));
    assert_eq!(refusal(wrong_sum.send().await), refused(400, "BadDigest"));
    let other_sum = right().checksum_crc32("AAAAAA==");
    assert_eq!(refusal(other_sum.send().await), refused(400, "InvalidRequest"));
    let wrong_size = right().mpu_object_size(1);
    assert_eq!(refusal(wrong_size.send().await), refused(400, "InvalidRequest"));
    let wrong_type = right().checksum_type(ChecksumType::Composite);
    assert_eq!(refusal(wrong_type.send().await), refused(400, "InvalidRequest"));
    assert_eq!(world.list().await, Vec::<String>::new());

    right().checksum_crc64_nvme(crc64(&whole)).send().await.unwrap();
    assert_eq!(world.get("a").await, whole);
}

#[tokio::test]
async fn a_part_sent_again_replaces_the_earlier_one() {
    let world = World::new().await;
    let id = world.create("a").await;
    let before = world.part("a", &id, 1, b"before").await;
    let after = world.part("a", &id, 1, b"after").await;
    assert_eq!(refusal(complete!(world, "a", &id, [before]).send().await), refused(400, "InvalidPart"));
    complete!(world, "a", &id, [after]).send().await.unwrap();
    assert_eq!(world.get("a").await, b"after");
}

#[tokio::test]
async fn a_completion_may_have_a_condition() {
    let world = World::new().await;
    world.put("a", "there").await;
    let id = world.create("a").await;
    let part = world.part("a", &id, 1, b"new").await;
    let complete = complete!(world, "a", &id, std::slice::from_ref(&part));
    assert_eq!(refusal(complete.clone().if_none_match("*").send().await), refused(412, "PreconditionFailed"));
    assert_eq!(world.get("a").await, b"there");
    complete.send().await.unwrap();
    assert_eq!(world.get("a").await, b"new");
}
