//! Objects: conditions, ranges, checksums, snapshots, copies.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_sdk_s3::config::interceptors::{BeforeTransmitInterceptorContextMut, BeforeTransmitInterceptorContextRef};
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_sdk_s3::primitives::{DateTime, SdkBody};
use aws_sdk_s3::types::{ChecksumAlgorithm, ChecksumMode, Delete, MetadataDirective, ObjectIdentifier, ServerSideEncryption};

use super::*;

#[tokio::test]
async fn what_was_said_about_an_object_is_said_back() {
    let world = World::new().await;
    let put = world
        .client
        .put_object()
        .bucket(BUCKET)
        .key("a")
        .body(ByteStream::from_static(b"hello"))
        .content_type("application/gzip")
        .cache_control("no-cache")
        .content_disposition("inline")
        .content_language("fi")
        .metadata("Run", "7")
        .metadata("name", "Zoë")
        .server_side_encryption(ServerSideEncryption::AwsKms)
        .ssekms_key_id("arn:aws:kms:eu-west-1:123456789012:key/k")
        .bucket_key_enabled(true)
        .send()
        .await
        .unwrap();
    assert_eq!(put.e_tag(), Some("\"5d41402abc4b2a76b9719d911017c592\""));
    assert_eq!(put.server_side_encryption(), Some(&ServerSideEncryption::AwsKms));

    let world = world.kill_and_restart().await;
    let get = world.client.get_object().bucket(BUCKET).key("a").send().await.unwrap();
    assert_eq!(get.e_tag(), put.e_tag());
    assert_eq!(get.content_type(), Some("application/gzip"));
    assert_eq!(get.cache_control(), Some("no-cache"));
    assert_eq!(get.content_disposition(), Some("inline"));
    assert_eq!(get.content_language(), Some("fi"));
    assert_eq!(get.content_encoding(), None);
    assert_eq!(get.ssekms_key_id(), Some("arn:aws:kms:eu-west-1:123456789012:key/k"));
    assert_eq!(get.server_side_encryption(), Some(&ServerSideEncryption::AwsKms));
    let metadata = get.metadata().unwrap();
    assert_eq!(metadata.get("run").map(String::as_str), Some("7"));
    assert_eq!(
        metadata.get("name").map(String::as_str),
        // Encoded by RFC 2047, as S3 does with what is not ASCII.
        Some("=?UTF-8?B?Wm/Dqw==?=")
    );
    let age = SystemTime::now().duration_since(SystemTime::try_from(*get.last_modified().unwrap()).unwrap());
    assert!(age.unwrap_or_default() < Duration::from_mins(1));
}

#[tokio::test]
async fn of_32_writers_that_race_for_a_new_object_one_wins() {
    // s3s-fs looked and then wrote: two could win.
    let world = World::new().await;
    for round in 0..4 {
        let key = format!("lease-{round}");
        let racers: Vec<_> = (0..32)
            .map(|racer| {
                let put = world.client.put_object().bucket(BUCKET).key(&key).if_none_match("*");
                let body = ByteStream::from(format!("racer {racer}").into_bytes());
                tokio::spawn(put.body(body).send())
            })
            .collect();
        let mut winner = None;
        for (racer, task) in racers.into_iter().enumerate() {
            match task.await.unwrap() {
                Ok(_) => assert_eq!(winner.replace(racer), None, "two winners"),
                lost => assert_eq!(refusal(lost), refused(412, "PreconditionFailed")),
            }
        }
        let expected = format!("racer {}", winner.expect("no winner"));
        assert_eq!(world.get(&key).await, expected.as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_32_writers_that_race_on_one_etag_one_wins() {
    let world = World::new().await;
    for round in 0..4 {
        let etag = world.put("head", format!("before {round}")).await;
        let racers: Vec<_> = (0..32)
            .map(|racer| {
                let put = world.client.put_object().bucket(BUCKET).key("head").if_match(&etag);
                let body = ByteStream::from(format!("racer {racer:2}").into_bytes());
                tokio::spawn(put.body(body).send())
            })
            .collect();
        let mut wins = 0;
        for task in racers {
            match task.await.unwrap() {
                Ok(_) => wins += 1,
                lost => assert_eq!(refusal(lost), refused(412, "PreconditionFailed")),
            }
        }
        assert_eq!(wins, 1);
    }
    let put = world.client.put_object().bucket(BUCKET).key("nothing").if_match("\"x\"");
    assert_eq!(refusal(put.send().await), refused(404, "NoSuchKey"));
    let put = world.client.put_object().bucket(BUCKET).key("head").if_none_match("\"x\"");
    assert_eq!(refusal(put.send().await), refused(501, "NotImplemented"));
}

#[tokio::test]
async fn reads_keep_their_conditions() {
    // s3s-fs ignored If-Match on GET.
    let world = World::new().await;
    let etag = world.put("a", "hello").await;
    let get = || world.client.get_object().bucket(BUCKET).key("a");
    let head = || world.client.head_object().bucket(BUCKET).key("a");
    get().if_match(&etag).send().await.unwrap();
    get().if_match("*").send().await.unwrap();
    assert_eq!(refusal(get().if_match("\"other\"").send().await), refused(412, "PreconditionFailed"));
    assert_eq!(refusal(get().if_none_match(&etag).send().await).0, 304);
    get().if_none_match("\"other\"").send().await.unwrap();
    assert_eq!(refusal(head().if_match("\"other\"").send().await).0, 412);
    assert_eq!(refusal(head().if_none_match(&etag).send().await).0, 304);

    let earlier = DateTime::from(SystemTime::now() - Duration::from_hours(1));
    let later = DateTime::from(SystemTime::now() + Duration::from_mins(1));
    assert_eq!(refusal(get().if_modified_since(later).send().await).0, 304);
    get().if_modified_since(earlier).send().await.unwrap();
    assert_eq!(refusal(get().if_unmodified_since(earlier).send().await).0, 412);
    get().if_match(&etag).if_unmodified_since(earlier).send().await.unwrap();

    let absent = world.client.get_object().bucket(BUCKET).key("absent").send().await;
    assert_eq!(refusal(absent), refused(404, "NoSuchKey"));
    let absent = world.client.head_object().bucket(BUCKET).key("absent").send().await;
    assert_eq!(refusal(absent).0, 404);
}

#[tokio::test]
async fn ranges_are_cut_as_asked() {
    let world = World::new().await;
    let body = noise(2_000_000);
    world.put("a", body.clone()).await;
    world.put("empty", "").await;
    let get = |range: &str| world.client.get_object().bucket(BUCKET).key("a").range(range).send();
    for (range, wanted) in [
        ("bytes=0-0", 0..1),
        ("bytes=10-1500009", 10..1_500_010),
        ("bytes=1999990-", 1_999_990..2_000_000),
        ("bytes=1999990-9999999", 1_999_990..2_000_000),
        ("bytes=-7", 1_999_993..2_000_000),
        ("bytes=-9999999", 0..2_000_000),
    ] {
        let answer = get(range).await.unwrap();
        let shown = format!("bytes {}-{}/2000000", wanted.start, wanted.end - 1);
        assert_eq!(answer.content_range(), Some(shown.as_str()));
        assert_eq!(answer.content_length(), Some(i64::try_from(wanted.len()).unwrap()));
        assert_eq!(answer.body.collect().await.unwrap().to_vec(), body[wanted], "{range}");
    }
    assert_eq!(refusal(get("bytes=2000000-").await), refused(416, "InvalidRange"));
    let empty = world.client.get_object().bucket(BUCKET).key("empty");
    assert_eq!(refusal(empty.range("bytes=0-").send().await), refused(416, "InvalidRange"));
    assert_eq!(world.get("empty").await, b"");
    assert_eq!(world.get("a").await, body);
}

#[tokio::test]
async fn a_read_is_of_one_version_whatever_is_written_meanwhile() {
    let world = World::new().await;
    let before = noise(8 << 20);
    let etag = world.put("a", before.clone()).await;
    let get = world.client.get_object().bucket(BUCKET).key("a").send().await.unwrap();
    assert_eq!(get.e_tag(), Some(etag.as_str()));
    world.put("a", vec![0; 8 << 20]).await;
    assert_eq!(get.body.collect().await.unwrap().to_vec(), before);

    let get = world.client.get_object().bucket(BUCKET).key("a").send().await.unwrap();
    world.client.delete_object().bucket(BUCKET).key("a").send().await.unwrap();
    assert_eq!(get.body.collect().await.unwrap().to_vec(), vec![0; 8 << 20]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etag_always_belongs_to_the_bytes_it_comes_with() {
    let world = World::new().await;
    world.put("a", "0").await;
    let writer = {
        let client = world.client.clone();
        tokio::spawn(async move {
            for version in 1..200 {
                let body = ByteStream::from(format!("{version}").into_bytes());
                let put = client.put_object().bucket(BUCKET).key("a").metadata("version", format!("{version}"));
                put.body(body).send().await.unwrap();
            }
        })
    };
    let mut reads = 0;
    while !writer.is_finished() {
        let get = world.client.get_object().bucket(BUCKET).key("a").send().await.unwrap();
        let version = get.metadata().and_then(|kept| kept.get("version").cloned());
        let etag = get.e_tag().unwrap().to_owned();
        let body = get.body.collect().await.unwrap().to_vec();
        let md5 = <s3s::crypto::Md5 as s3s::crypto::Checksum>::checksum(&body);
        assert_eq!(etag, format!("\"{}\"", crate::domain::hex::hex(&md5)));
        assert_eq!(version.unwrap_or("0".to_owned()).as_bytes(), body);
        reads += 1;
    }
    writer.await.unwrap();
    assert!(reads > 10);
}

#[tokio::test]
async fn a_body_that_is_not_what_its_checksum_says_is_refused() {
    let world = World::new().await;
    let put = || {
        let put = world.client.put_object().bucket(BUCKET).key("a");
        put.body(ByteStream::from_static(b"hello world"))
    };
    let wrong = [
        put().content_md5("XUFAKrxLKna5cZ2REBfFkg=="),
        put().checksum_crc32("AAAAAA=="),
        put().checksum_crc32_c("AAAAAA=="),
        put().checksum_crc64_nvme("AAAAAAAAAAA="),
        put().checksum_sha1("AAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        put().checksum_sha256("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    ];
    for request in wrong {
        assert_eq!(refusal(request.send().await), refused(400, "BadDigest"));
    }
    assert_eq!(refusal(put().content_md5("short").send().await), refused(400, "InvalidDigest"));
    assert_eq!(refusal(put().checksum_crc32("AAAA").send().await), refused(400, "InvalidRequest"));
    assert_eq!(world.list().await, Vec::<String>::new());
    assert_eq!(files_below(&world.path("")), Vec::<PathBuf>::new());
    // The right ones, known from elsewhere.
    put().content_md5("XrY7u+Ae7tCTyyK7j1rNww==").send().await.unwrap();
    put().checksum_crc32("DUoRhQ==").send().await.unwrap();
}

/// Replaces a body after it was signed, as a broken network would.
#[derive(Debug)]
struct Swap(Vec<u8>);

impl Intercept for Swap {
    fn name(&self) -> &'static str {
        "swap"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        *context.request_mut().body_mut() = SdkBody::from(self.0.clone());
        Ok(())
    }
}

#[tokio::test]
async fn a_body_that_changed_on_the_way_is_refused() {
    let world = World::new().await;
    // Signed as a whole.
    let put = world.client.put_object().bucket(BUCKET).key("a");
    let put = put.body(ByteStream::from_static(b"hello world")).customize();
    let answer = put.interceptor(Swap(b"jello world".to_vec())).send().await;
    assert_eq!(refusal(answer), refused(400, "XAmzContentSHA256Mismatch"));

    assert_eq!(world.list().await, Vec::<String>::new());
}

/// Stops a request after it was signed, and keeps its URI and headers.
#[derive(Clone, Debug, Default)]
struct Keep(Arc<Mutex<(String, Vec<(String, String)>)>>);

impl Intercept for Keep {
    fn name(&self) -> &'static str {
        "keep"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request();
        let headers = request.headers().iter();
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        *self.0.lock().unwrap() = (request.uri().to_owned(), headers.collect());
        Err("kept".into())
    }
}

#[tokio::test]
async fn a_checksum_in_the_trailer_is_compared_with_the_body_before_it() {
    let world = World::new().await;
    let file = world.folder.path().join("body");
    std::fs::write(&file, "hello world").unwrap();
    let put = async |client: &Client, key: &str| {
        let put = client.put_object().bucket(BUCKET).key(key);
        let put = put.checksum_algorithm(ChecksumAlgorithm::Crc32);
        put.body(ByteStream::from_path(&file).await.unwrap())
    };
    // As the SDK sends it over plain HTTP: each chunk signed.
    let signed = put(&world.client, "signed").await.send().await.unwrap();
    assert_eq!(signed.checksum_crc32(), Some("DUoRhQ=="));

    // As it sends it over TLS: chunks and trailer unsigned.
    let over_tls = format!("https://{}", world.server.addr());
    let over_tls = client(&over_tls, &LocalKeys::default(), true);
    let keep = Keep::default();
    let stopped = put(&over_tls, "unsigned").await.customize();
    stopped.interceptor(keep.clone()).send().await.unwrap_err();
    let (uri, headers) = keep.0.lock().unwrap().clone();
    let mode = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    assert!(headers.iter().any(|(_name, value)| value == mode), "{headers:?}");
    let send = async |body: &str, trailer: &str| {
        let body = format!("B\r\n{body}\r\n0\r\n{trailer}\r\n\r\n");
        send_raw(world.server.addr(), "PUT", &uri, &headers, body.as_bytes()).await
    };
    let changed = send("jello world", "x-amz-checksum-crc32:DUoRhQ==").await;
    assert!(changed.contains("<Code>BadDigest</Code>"), "{changed}");
    let missing = send("hello world", "x-amz-checksum-abc32:DUoRhQ==").await;
    assert!(missing.contains("<Code>MalformedTrailerError</Code>"), "{missing}");
    assert_eq!(world.list().await, ["signed"]);
    let right = send("hello world", "x-amz-checksum-crc32:DUoRhQ==").await;
    assert!(right.starts_with("HTTP/1.1 200 OK"), "{right}");
    for key in ["signed", "unsigned"] {
        let head = world.client.head_object().bucket(BUCKET).key(key);
        // `aws-chunked` is how it travelled, not what it is.
        assert_eq!(head.send().await.unwrap().content_encoding(), None);
    }
    assert_eq!(world.get("unsigned").await, b"hello world");
    assert_eq!(world.get("signed").await, b"hello world");
}

#[tokio::test]
async fn checksums_are_kept_and_shown_to_who_asks() {
    let world = World::new().await;
    let algorithms = [
        ChecksumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32C,
        ChecksumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256,
    ];
    for algorithm in algorithms {
        let put = world.client.put_object().bucket(BUCKET).key("a").checksum_algorithm(algorithm);
        let put = put.body(ByteStream::from_static(b"hello")).send().await.unwrap();
        let head = world.client.head_object().bucket(BUCKET).key("a");
        let shown = head.checksum_mode(ChecksumMode::Enabled).send().await.unwrap();
        assert_eq!(shown.checksum_crc32(), put.checksum_crc32());
        assert_eq!(shown.checksum_crc32_c(), put.checksum_crc32_c());
        assert_eq!(shown.checksum_crc64_nvme(), put.checksum_crc64_nvme());
        assert_eq!(shown.checksum_sha1(), put.checksum_sha1());
        assert_eq!(shown.checksum_sha256(), put.checksum_sha256());
        assert_eq!(shown.checksum_type().map(aws_sdk_s3::types::ChecksumType::as_str), Some("FULL_OBJECT"));
    }
}

#[tokio::test]
async fn many_are_deleted_at_once_and_nothing_is_missed() {
    let world = World::new().await;
    for key in ["a", "b//c", "d"] {
        world.put(key, "x").await;
    }
    let objects = ["a", "b//c", "absent"].map(|key| ObjectIdentifier::builder().key(key).build().unwrap());
    let delete = Delete::builder().set_objects(Some(objects.to_vec())).build().unwrap();
    let answer = world.client.delete_objects().bucket(BUCKET).delete(delete).send().await.unwrap();
    assert_eq!((answer.deleted().len(), answer.errors().len()), (3, 0));
    assert_eq!(world.list().await, ["d"]);

    let delete = || world.client.delete_object().bucket(BUCKET).key("d");
    assert_eq!(refusal(delete().if_match("\"other\"").send().await), refused(412, "PreconditionFailed"));
    delete().send().await.unwrap();
    delete().send().await.unwrap();
}

#[tokio::test]
async fn objects_are_copied_with_what_is_kept_about_them() {
    let world = World::new().await;
    let put = world.client.put_object().bucket(BUCKET).key("from ü/a").content_type("text/plain");
    let put = put.body(ByteStream::from(noise(3 << 20))).send().await.unwrap();
    let copy = || {
        let copy = world.client.copy_object().bucket(BUCKET);
        copy.copy_source(format!("{BUCKET}/from%20%C3%BC/a"))
    };
    let answer = copy().key("to").send().await.unwrap();
    assert_eq!(answer.copy_object_result().unwrap().e_tag(), put.e_tag());
    assert_eq!(world.get("to").await, noise(3 << 20));
    let head = world.client.head_object().bucket(BUCKET).key("to").send().await.unwrap();
    assert_eq!(head.content_type(), Some("text/plain"));
    assert_eq!(refusal(copy().key("from ü/a").send().await), refused(400, "InvalidRequest"));
    let anew = copy().key("from ü/a").metadata_directive(MetadataDirective::Replace);
    anew.content_type("text/csv").send().await.unwrap();
    let head = world.client.head_object().bucket(BUCKET).key("from ü/a").send().await.unwrap();
    assert_eq!(head.content_type(), Some("text/csv"));
}

#[tokio::test]
async fn a_disk_that_refuses_is_an_internal_error_and_not_the_end() {
    let world = World::new().await;
    // A file where the side folder wants a folder: every write fails, reads go on.
    let side = world.folder.path().join(".dayport-local").join(BUCKET);
    std::fs::write(&side, "in the way").unwrap();
    std::fs::write(world.path("a"), "readable").unwrap();
    let put = world.client.put_object().bucket(BUCKET).key("b");
    let put = put.body(ByteStream::from(noise(4 << 20))).send().await;
    assert_eq!(refusal(put), refused(500, "InternalError"));
    assert_eq!(world.get("a").await, b"readable");
    std::fs::remove_file(&side).unwrap();
    world.put("b", "works again").await;
}
