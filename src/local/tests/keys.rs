//! Keys of every kind, and that none leads out of the folder.

use super::*;

fn awkward_keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "plain",
        "a",
        "a/b",
        "a/b/c",
        "a/",
        "/leading",
        "two//slashes",
        "..",
        "../escape",
        "x/../../../escape",
        "./dot",
        ".",
        "space and+plus=equals&amp;",
        "quote\"'<>&",
        "percent%2Fencoded%zz",
        "back\\slash",
        "question?mark#hash",
        "日本語/ключ/ü",
        "e\u{301}",
        ".dayport-local/landing/x",
        "year=2026/month=1/day=15/data-000000000000.json.gz",
        "*~!()[]{}|^`$,;:@",
    ]
    .map(str::to_owned)
    .to_vec();
    keys.push("n".repeat(256));
    keys.push("ü".repeat(512));
    keys.push(format!("{}/{}", "d".repeat(255), "e".repeat(255)));
    keys
}

#[tokio::test]
async fn every_legal_key_is_stored_read_listed_and_deleted_also_after_a_restart() {
    let world = World::new().await;
    let mut keys = awkward_keys();
    for key in &keys {
        world.put(key, key.as_bytes()).await;
    }
    for key in &keys {
        assert_eq!(world.get(key).await, key.as_bytes(), "{key}");
    }
    keys.sort();
    assert_eq!(world.list().await, keys);

    let world = world.kill_and_restart().await;
    assert_eq!(world.list().await, keys);
    for key in &keys {
        assert_eq!(world.get(key).await, key.as_bytes(), "{key}");
        let head = world.client.head_object().bucket(BUCKET).key(key).send().await;
        assert_eq!(head.unwrap().content_length(), Some(i64::try_from(key.len()).unwrap()));
        world.client.delete_object().bucket(BUCKET).key(key).send().await.unwrap();
    }
    assert_eq!(world.list().await, Vec::<String>::new());
    assert_eq!(files_below(&world.path("")), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_key_that_is_too_long_is_refused() {
    let world = World::new().await;
    let put = world.client.put_object().bucket(BUCKET).key("k".repeat(1025));
    assert_eq!(refusal(put.send().await), refused(400, "KeyTooLongError"));
}

#[tokio::test]
async fn no_key_writes_outside_the_bucket_and_the_side_folder() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("deep").join("root");
    std::fs::create_dir_all(root.join(BUCKET)).unwrap();
    let server = LocalS3::spawn(root.clone(), LocalKeys::default()).await.unwrap();
    let client = client(&server.endpoint_url(), &LocalKeys::default(), true);
    let keys = ["../escape", "../../escape", "x/../../../../escape", "/etc/escape", "..", "a/../../other-bucket/escape"];
    for key in keys {
        let put = client.put_object().bucket(BUCKET).key(key);
        put.body(ByteStream::from_static(b"x")).send().await.unwrap();
    }
    let create = client.create_multipart_upload().bucket(BUCKET).key("../escape");
    let upload_id = create.send().await.unwrap().upload_id.unwrap();
    for bad_id in ["..", "../../../x", "", &format!("../{upload_id}")] {
        let abort = client.abort_multipart_upload().bucket(BUCKET).key("../escape");
        let answer = abort.upload_id(bad_id).send().await;
        assert!(answer.is_err(), "{bad_id}");
    }
    for file in files_below(outer.path()) {
        assert!(file.starts_with(root.join(".dayport-local")), "{}", file.display());
    }
    assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_neither_followed_nor_listed() {
    let world = World::new().await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::fs::create_dir(outside.path().join("empty")).unwrap();
    let link = |target: &Path, key: &str| std::os::unix::fs::symlink(target, world.path(key)).unwrap();
    link(outside.path(), "folder");
    link(&outside.path().join("secret"), "file");
    std::os::unix::fs::symlink(outside.path(), world.folder.path().join("linked")).unwrap();

    for key in ["folder/secret", "file"] {
        let get = world.client.get_object().bucket(BUCKET).key(key);
        assert_eq!(refusal(get.send().await), refused(404, "NoSuchKey"));
    }
    assert_eq!(world.list().await, Vec::<String>::new());
    let head = world.client.head_bucket().bucket("linked").send().await;
    assert_eq!(refusal(head).0, 404);

    for key in ["folder/secret", "folder/new", "folder/empty", "file"] {
        world.put(key, "mine").await;
        assert_eq!(world.get(key).await, b"mine");
        world.client.delete_object().bucket(BUCKET).key(key).send().await.unwrap();
    }
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
    assert!(outside.path().join("empty").is_dir());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn ordinary_keys_are_ordinary_files() {
    let world = World::new().await;
    let key = "exports/data/pageview_events/year=2026/month=1/day=15/data-000000000000.json.gz";
    world.put(key, "line\n").await;
    assert_eq!(std::fs::read(world.path(key)).unwrap(), b"line\n");
    world.client.delete_object().bucket(BUCKET).key(key).send().await.unwrap();
    assert!(!world.path("exports").exists(), "empty folders stay behind");
    assert!(world.path("").is_dir());
}

#[tokio::test]
async fn a_file_put_by_hand_is_an_object() {
    let world = World::new().await;
    std::fs::create_dir_all(world.path("by/hand")).unwrap();
    std::fs::create_dir_all(world.path("empty/folder")).unwrap();
    std::fs::write(world.path("by/hand/events.ndjson"), "{}\n").unwrap();

    let list = world.client.list_objects_v2().bucket(BUCKET).send().await.unwrap();
    assert_eq!(keys_of(list.contents()), ["by/hand/events.ndjson"]);
    let get = || world.client.get_object().bucket(BUCKET).key("by/hand/events.ndjson");
    let first = get().send().await.unwrap();
    assert_eq!(first.e_tag(), list.contents()[0].e_tag());
    assert_eq!(first.content_type(), Some("binary/octet-stream"));
    assert_eq!(first.body.collect().await.unwrap().to_vec(), b"{}\n");

    // Overwritten by hand: another ETag, so that a reader in mid-object notices.
    std::fs::write(world.path("by/hand/events.ndjson"), "{}\n{}\n").unwrap();
    let etag = list.contents()[0].e_tag().unwrap();
    assert_eq!(refusal(get().if_match(etag).send().await), refused(412, "PreconditionFailed"));
    // And over one that was put through the API: what was kept about that is not shown any more.
    let put = world.client.put_object().bucket(BUCKET).key("api").metadata("a", "b");
    let put = put.body(ByteStream::from_static(b"api")).send().await.unwrap();
    std::fs::write(world.path("api"), "hand").unwrap();
    let head = world.client.head_object().bucket(BUCKET).key("api").send().await.unwrap();
    assert_ne!(head.e_tag(), put.e_tag());
    assert_eq!(head.metadata().unwrap().len(), 0);
}

#[tokio::test]
async fn a_key_and_one_below_it_live_side_by_side_in_any_order() {
    let world = World::new().await;
    for (first, second) in [("up", "up/down"), ("over/under", "over")] {
        world.put(first, "first").await;
        world.put(second, "second").await;
        world.put(first, "first again").await;
        world.put(second, "second again").await;
        assert_eq!(world.get(first).await, b"first again");
        assert_eq!(world.get(second).await, b"second again");
        world.client.delete_object().bucket(BUCKET).key(first).send().await.unwrap();
        assert_eq!(world.get(second).await, b"second again");
        assert_eq!(world.list().await, [second]);
        world.client.delete_object().bucket(BUCKET).key(second).send().await.unwrap();
    }
}
