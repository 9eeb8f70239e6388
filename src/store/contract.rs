//! One suite of promises, run against the memory twin and against S3 through the SDK and a local endpoint: what holds for one holds
//! for the other, so that what is proved over the twin is proved for S3.

use std::fmt::Debug;
use std::future::Future;

use bytes::Bytes;

use super::checksum::Crc64Nvme;
use super::memory::MemoryBucket;
use super::ports::{
    Body, Completed, Condition, Delete, List, ListUploads, Multipart, ObjectInfo, Part, Put, Read, Upload, Write,
};
use super::resume::ResumingBody;
use crate::domain::error::Kind;

/// S3's least size of a part that is not the last.
const LEAST_PART: usize = 5 * 1024 * 1024;

trait Store: List + ListUploads + Read + Write + Multipart + Delete + Clone + Debug + Send + Sync + 'static {}
impl<T: List + ListUploads + Read + Write + Multipart + Delete + Clone + Debug + Send + Sync + 'static> Store for T {}

async fn put<S: Store>(store: &S, key: &str, body: &str) -> String {
    let put = store.put(key, Bytes::copy_from_slice(body.as_bytes()), "application/json", &Condition::None).await.unwrap();
    let Put::Done(etag) = put else { panic!("an unconditional write can't lose") };
    etag
}

async fn read<S: Store>(store: &S, object: &ObjectInfo) -> Vec<u8> {
    let mut body = ResumingBody::new(store, object.clone());
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    bytes
}

async fn small<S: Store>(store: &S, key: &str) -> Option<String> {
    let found = store.read_small(key).await.unwrap();
    found.map(|(body, _)| String::from_utf8(body.to_vec()).unwrap())
}

async fn listed<S: Store>(store: &S, prefix: &str) -> Vec<String> {
    store.list_all(prefix).await.unwrap().into_iter().map(|object| object.key).collect()
}

/// Begins an upload and sends its parts; not completed.
async fn uploaded<S: Store>(store: &S, key: &str, parts: &[Vec<u8>]) -> Upload {
    let id = store.create(key, "application/gzip").await.unwrap();
    let mut whole = Crc64Nvme::new();
    let mut sent = Vec::new();
    for (number, body) in (1..).zip(parts) {
        whole.update(body);
        sent.push(store.part(key, &id, number, Bytes::from(body.clone())).await.unwrap());
    }
    Upload { key: key.to_owned(), id, parts: sent, size: whole.bytes(), checksum: Some(whole.base64()) }
}

#[expect(clippy::cast_possible_truncation, reason = "a remainder of 251")]
fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(31).wrapping_add(n >> 8).wrapping_add(seed) % 251) as u8).collect()
}

async fn a_listing_gives_every_key_of_the_prefix_once_in_byte_order(store: impl Store) {
    let mut keys: Vec<String> = ["a/1", "a/10", "a/2", "a/\u{e9}", "a/\u{ffee}", "a/\u{1f600}", "a/b c+d%41&e='\"<>", "a/b/c"]
        .map(str::to_owned)
        .to_vec();
    for key in &keys {
        put(&store, key, key).await;
    }
    for stranger in ["a", "b/1", "aa/1", "A/1"] {
        put(&store, stranger, "x").await;
    }
    keys.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    assert_eq!(listed(&store, "a/").await, keys);
    assert_eq!(listed(&store, "a/1").await, ["a/1", "a/10"], "a prefix is text, not a folder");
    assert_eq!(listed(&store, "none/").await, [""; 0]);
    assert_eq!(listed(&store, "").await.len(), keys.len() + 4);
    for (index, key) in keys.iter().enumerate() {
        let (page, more) = store.list_page("a/", Some(key)).await.unwrap();
        let rest: Vec<String> = page.into_iter().map(|object| object.key).collect();
        assert_eq!((rest.as_slice(), more), (&keys[index + 1..], false), "after {key}");
    }
    let (page, _) = store.list_page("a/", Some("a/15")).await.unwrap();
    assert_eq!(page[0].key, "a/2", "the key to start after need not be there");
}

async fn a_listing_of_more_than_a_page_is_whole(store: impl Store) {
    let expected: Vec<String> = (0..1003).map(|n| format!("p/{n:05}")).collect();
    for key in &expected {
        put(&store, key, "").await;
    }
    let (page, more) = store.list_page("p/", None).await.unwrap();
    assert_eq!((page.len(), more), (1000, true));
    assert_eq!(listed(&store, "p/").await, expected);
}

async fn a_listed_object_is_read_as_it_was_listed(store: impl Store) {
    put(&store, "d/empty", "").await;
    let etag = put(&store, "d/one", "0123456789").await;
    let objects = store.list_all("d/").await.unwrap();
    assert_eq!(objects.iter().map(|object| object.size).collect::<Vec<_>>(), [0, 10]);
    assert_eq!(objects[1].etag, etag, "the listing's ETag is the write's");
    assert_eq!(read(&store, &objects[0]).await, b"");
    assert_eq!(read(&store, &objects[1]).await, b"0123456789");
    let mut body = store.read_from("d/one", 7, &etag).await.unwrap();
    assert_eq!(body.next().await.unwrap().unwrap(), "789");
    assert!(body.next().await.is_none());
}

async fn an_object_that_changed_or_vanished_is_a_retryable_error_that_names_it(store: impl Store) {
    let etag = put(&store, "d/one", "first").await;
    put(&store, "d/one", "second").await;
    for offset in [0, 2] {
        let error = store.read_from("d/one", offset, &etag).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::Retryable, "{error}");
        assert!(error.message().contains("`d/one`") && error.message().contains("changed"), "{error}");
    }
    store.delete("d/one").await.unwrap();
    let error = store.read_from("d/one", 0, &etag).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Retryable, "{error}");
    assert!(error.message().contains("`d/one`") && error.message().contains("vanished"), "{error}");
}

async fn a_small_object_is_read_whole_and_a_missing_one_is_none(store: impl Store) {
    assert_eq!(store.read_small("state/head.json").await.unwrap(), None);
    put(&store, "state/head.json.bak", "other").await;
    assert_eq!(store.read_small("state/head.json").await.unwrap(), None);
    let etag = put(&store, "state/head.json", "{}").await;
    assert_eq!(store.read_small("state/head.json").await.unwrap(), Some((Bytes::from("{}"), etag)));
}

async fn a_conditional_write_happens_only_under_its_condition(store: impl Store) {
    let write = async |body: &'static str, condition: Condition| {
        store.put("head.json", Bytes::from(body), "application/json", &condition).await.unwrap()
    };
    assert_eq!(write("0", Condition::Unchanged("\"there-is-none\"".to_owned())).await, Put::Lost);
    assert_eq!(small(&store, "head.json").await, None, "nothing to be unchanged");
    let Put::Done(first) = write("1", Condition::Absent).await else { panic!("nobody else writes") };
    assert_eq!(write("x", Condition::Absent).await, Put::Lost);
    let Put::Done(second) = write("2", Condition::Unchanged(first.clone())).await else { panic!("nobody else writes") };
    assert_eq!(write("x", Condition::Unchanged(first)).await, Put::Lost);
    assert_eq!(small(&store, "head.json").await.as_deref(), Some("2"));
    store.delete("head.json").await.unwrap();
    assert_eq!(write("x", Condition::Unchanged(second)).await, Put::Lost);
    assert_eq!(small(&store, "head.json").await, None);
    assert!(matches!(write("3", Condition::Absent).await, Put::Done(_)));
}

async fn of_many_writers_under_one_condition_one_wins(store: impl Store) {
    let mut etag = None;
    for round in 0..4 {
        let condition = etag.clone().map_or(Condition::Absent, Condition::Unchanged);
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (store, condition) = (store.clone(), condition.clone());
                tokio::spawn(async move {
                    let body = format!("{round} {writer}");
                    let put = store.put("head.json", Bytes::from(body.clone()), "application/json", &condition).await;
                    (body, put.unwrap())
                })
            })
            .collect();
        let mut winners = Vec::new();
        for writer in writers {
            if let (body, Put::Done(etag)) = writer.await.unwrap() {
                winners.push((body, etag));
            }
        }
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        let (body, new) = winners.remove(0);
        assert_eq!(store.read_small("head.json").await.unwrap(), Some((Bytes::from(body), new.clone())));
        etag = Some(new);
    }
}

async fn an_upload_is_invisible_until_it_is_completed(store: impl Store) {
    let parts = [bytes(LEAST_PART, 1), bytes(LEAST_PART + 17, 2), bytes(3, 3)];
    put(&store, "t/a", "what stood before").await;
    let upload = uploaded(&store, "t/a", &parts).await;
    let other = uploaded(&store, "t/b", &[bytes(10, 4)]).await;
    assert_eq!(listed(&store, "t/").await, ["t/a"]);
    assert_eq!(small(&store, "t/a").await.as_deref(), Some("what stood before"));
    assert_eq!(store.complete(&upload).await.unwrap(), Completed::Done);
    assert_eq!(store.complete(&other).await.unwrap(), Completed::Done);
    let objects = store.list_all("t/").await.unwrap();
    assert_eq!(objects[0].size, upload.size);
    assert!(read(&store, &objects[0]).await == parts.concat(), "the parts in order");
    assert_eq!(read(&store, &objects[1]).await, bytes(10, 4));
}

async fn completing_again_answers_alike_and_after_an_abort_there_is_no_such_upload(store: impl Store) {
    let upload = uploaded(&store, "t/a", &[bytes(10, 1)]).await;
    assert_eq!(store.complete(&upload).await.unwrap(), Completed::Done);
    assert_eq!(store.complete(&upload).await.unwrap(), Completed::Done, "the first answer may have been lost");
    store.abort(&upload.key, &upload.id).await.unwrap();
    assert_eq!(listed(&store, "t/").await, ["t/a"], "an abort comes too late for a completed upload");

    let given_up = uploaded(&store, "t/b", &[bytes(10, 2)]).await;
    store.abort(&given_up.key, &given_up.id).await.unwrap();
    store.abort(&given_up.key, &given_up.id).await.unwrap();
    assert_eq!(store.complete(&given_up).await.unwrap(), Completed::NoSuchUpload);
    let error = store.part(&given_up.key, &given_up.id, 2, Bytes::from("late")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retryable, "{error}");
    assert_eq!(listed(&store, "t/").await, ["t/a"]);
}

async fn a_part_that_is_sent_again_replaces_the_one_before(store: impl Store) {
    let mut upload = uploaded(&store, "t/a", &[bytes(10, 1)]).await;
    let first = upload.clone();
    let body = bytes(12, 2);
    upload.parts = vec![store.part("t/a", &upload.id, 1, Bytes::from(body.clone())).await.unwrap()];
    upload.size = 12;
    upload.checksum = Some(Crc64Nvme::of(&body).base64());
    assert_eq!(store.complete(&first).await.unwrap_err().kind(), Kind::Bug, "that part is gone");
    assert_eq!(store.complete(&upload).await.unwrap(), Completed::Done);
    assert_eq!(read(&store, &store.list_all("t/").await.unwrap()[0]).await, body);
}

async fn nothing_becomes_visible_that_is_not_what_was_said(store: impl Store) {
    let good = uploaded(&store, "t/a", &[bytes(LEAST_PART, 1), bytes(10, 2)]).await;
    let checksum = Some(Crc64Nvme::of(b"something else").base64());
    let with_part = |change: &dyn Fn(&mut Part)| {
        let mut upload = good.clone();
        change(&mut upload.parts[1]);
        upload
    };
    let mut out_of_order = good.clone();
    out_of_order.parts.reverse();
    let wrong = [
        ("another whole checksum", Upload { checksum: checksum.clone(), ..good.clone() }),
        ("another size", Upload { size: good.size + 1, ..good.clone() }),
        ("another part's ETag", with_part(&|part| part.etag = good.parts[0].etag.clone())),
        ("another part's checksum", with_part(&|part| part.checksum = checksum.clone())),
        ("a part that was never sent", with_part(&|part| part.number = 7)),
        ("parts out of order", out_of_order),
    ];
    for (what, upload) in wrong {
        let answer = store.complete(&upload).await;
        assert!(answer.is_err(), "{what}: {answer:?}");
        assert_eq!(listed(&store, "t/").await, [""; 0], "{what}");
    }
    let small_parts = uploaded(&store, "t/b", &[bytes(LEAST_PART - 1, 1), bytes(10, 2)]).await;
    assert_eq!(store.complete(&small_parts).await.unwrap_err().kind(), Kind::Bug, "a part under 5 MiB that is not the last");
    assert_eq!(store.complete(&good).await.unwrap(), Completed::Done, "what was said wrongly can still be said rightly");
    assert_eq!(listed(&store, "t/").await, ["t/a"]);
}

async fn of_two_uploads_of_a_key_the_one_completed_last_stands(store: impl Store) {
    let first = uploaded(&store, "t/a", &[bytes(10, 1)]).await;
    let second = uploaded(&store, "t/a", &[bytes(10, 2)]).await;
    assert_ne!(first.id, second.id);
    store.complete(&second).await.unwrap();
    store.complete(&first).await.unwrap();
    assert_eq!(read(&store, &store.list_all("t/").await.unwrap()[0]).await, bytes(10, 1));
}

async fn open_uploads_are_listed_by_prefix_until_they_end(store: impl Store) {
    let odd = "t/a b+c\u{e9}";
    let keys = ["t/z", "t/a", odd, "t/a", "u/a"];
    let mut begun = Vec::new();
    for key in keys {
        begun.push((key.to_owned(), uploaded(&store, key, &[bytes(10, 1)]).await));
    }
    let listed = async |prefix: &str| {
        let found = store.list_uploads(prefix).await.unwrap();
        found.into_iter().map(|upload| (upload.key, upload.id)).collect::<Vec<_>>()
    };
    let all = listed("t/").await;
    assert_eq!(all.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["t/a", "t/a", odd, "t/z"]);
    assert!(all.iter().all(|(key, id)| begun.iter().any(|(of, upload)| of == key && upload.id == *id)));
    assert_eq!(listed("t/z").await.len(), 1, "a prefix is text, not a folder");
    assert_eq!(listed("none/").await, []);
    store.complete(&begun[0].1).await.unwrap();
    store.abort("t/a", &begun[1].1.id).await.unwrap();
    let left: Vec<(String, String)> = listed("t/").await;
    assert_eq!(left, [("t/a".to_owned(), begun[3].1.id.clone()), (odd.to_owned(), begun[2].1.id.clone())]);
}

async fn a_listing_of_more_than_a_page_of_uploads_is_whole(store: impl Store) {
    let mut expected = Vec::new();
    for n in 0..1002 {
        let key = format!("p/{:05}", n / 2);
        expected.push((key.clone(), store.create(&key, "application/gzip").await.unwrap()));
    }
    let (page, next) = store.list_uploads_page("p/", None).await.unwrap();
    assert_eq!((page.len(), next.is_some()), (1000, true));
    let mut found: Vec<_> = store.list_uploads("p/").await.unwrap().into_iter().map(|upload| (upload.key, upload.id)).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

async fn a_deleted_object_is_gone_and_a_missing_one_is_fine_to_delete(store: impl Store) {
    put(&store, "t/a", "a").await;
    put(&store, "t/a/b", "b").await;
    store.delete("t/a").await.unwrap();
    store.delete("t/a").await.unwrap();
    store.delete("t/never").await.unwrap();
    assert_eq!(listed(&store, "t/").await, ["t/a/b"]);
    assert_eq!(small(&store, "t/a").await, None);
}

fn wait_for(promise: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(promise);
}

/// Runs each promise against both stores.
macro_rules! both_keep {
    ($($promise:ident),+ $(,)?) => {
        mod memory {
            $(#[test]
            fn $promise() {
                super::wait_for(super::$promise(super::MemoryBucket::new()));
            })+
        }

        #[cfg(feature = "local")]
        mod s3 {
            $(#[test]
            fn $promise() {
                super::wait_for(async {
                    let (_endpoint, bucket) = super::local::bucket().await;
                    super::$promise(bucket).await;
                });
            })+
        }
    };
}

both_keep!(
    a_listing_gives_every_key_of_the_prefix_once_in_byte_order,
    a_listing_of_more_than_a_page_is_whole,
    a_listed_object_is_read_as_it_was_listed,
    an_object_that_changed_or_vanished_is_a_retryable_error_that_names_it,
    a_small_object_is_read_whole_and_a_missing_one_is_none,
    a_conditional_write_happens_only_under_its_condition,
    of_many_writers_under_one_condition_one_wins,
    an_upload_is_invisible_until_it_is_completed,
    completing_again_answers_alike_and_after_an_abort_there_is_no_such_upload,
    a_part_that_is_sent_again_replaces_the_one_before,
    nothing_becomes_visible_that_is_not_what_was_said,
    of_two_uploads_of_a_key_the_one_completed_last_stands,
    open_uploads_are_listed_by_prefix_until_they_end,
    a_listing_of_more_than_a_page_of_uploads_is_whole,
    a_deleted_object_is_gone_and_a_missing_one_is_fine_to_delete,
);

#[cfg(feature = "local")]
mod local {
    //! A bucket of a local endpoint over a temporary folder.

    use std::time::Duration;

    use aws_config::{BehaviorVersion, Region, SdkConfig};
    use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};

    use crate::local::{LocalHandle, LocalKeys, LocalS3};
    use crate::store::s3::{Address, Clients, RequestOptions, Retries, S3Bucket, Side};

    /// Lives as long as the bucket is used.
    pub(super) struct Endpoint {
        _root: tempfile::TempDir,
        _server: LocalHandle,
    }

    pub(super) async fn bucket() -> (Endpoint, S3Bucket) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("contract")).unwrap();
        let keys = LocalKeys::default();
        let credentials = Credentials::new(&keys.access_key_id, &keys.secret_access_key, None, None, "local");
        let server = LocalS3::spawn(root.path().to_owned(), keys).await.unwrap();
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(server.endpoint_url())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        let retries = Retries {
            attempts: 3,
            first_pause: Duration::from_millis(10),
            longest_pause: Duration::from_millis(10),
            ..Retries::default()
        };
        let address = Address { bucket: "contract".to_owned(), region: None, path_style: false };
        let bucket = Clients::new(config, retries).bucket(&address, None, RequestOptions::default(), Side::Vendor);
        (Endpoint { _root: root, _server: server }, bucket)
    }
}
