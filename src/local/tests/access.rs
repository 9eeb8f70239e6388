//! Who is let in, and what is not there.

use std::time::Duration;

use aws_sdk_s3::presigning::PresigningConfig;

use super::*;

#[tokio::test]
async fn a_wrong_secret_and_an_unknown_key_are_refused_as_on_aws() {
    let world = World::new().await;
    let keys = |id: &str, secret: &str| LocalKeys { access_key_id: id.to_owned(), secret_access_key: secret.to_owned() };
    let endpoint = world.server.endpoint_url();

    let with_wrong_secret = client(&endpoint, &keys("local", "other"), true);
    assert_eq!(refusal(with_wrong_secret.list_buckets().send().await), refused(403, "SignatureDoesNotMatch"));
    let with_unknown_key = client(&endpoint, &keys("nobody", "localsecret"), true);
    assert_eq!(refusal(with_unknown_key.list_buckets().send().await), refused(403, "InvalidAccessKeyId"));
}

#[tokio::test]
async fn the_expected_owner_is_compared_on_every_operation() {
    let world = World::new().await;
    world.put("a", "x").await;
    let head = || world.client.head_object().bucket(BUCKET).key("a");
    head().expected_bucket_owner(crate::local::OWNER).send().await.unwrap();
    let list = world.client.list_objects_v2().bucket(BUCKET);
    assert_eq!(refusal(list.expected_bucket_owner("999999999999").send().await), refused(403, "AccessDenied"));
}

#[tokio::test]
async fn a_bucket_may_be_named_by_the_host() {
    let world = World::new().await;
    let endpoint = format!("http://localhost:{}", world.server.addr().port());
    let by_host = client(&endpoint, &LocalKeys::default(), false);
    let put = by_host.put_object().bucket(BUCKET).key("by/host");
    let lifetime = PresigningConfig::expires_in(Duration::from_mins(1)).unwrap();
    let signed = put.presigned(lifetime).await.unwrap();

    // Not every machine finds names below `localhost`, so the connection is made by hand.
    let uri = signed.uri();
    assert!(uri.starts_with("http://landing.localhost:"), "{uri}");
    let answer = send_raw(world.server.addr(), "PUT", uri, &[], b"x").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(world.get("by/host").await, b"x");
}

#[tokio::test]
async fn operations_that_are_not_there_say_so() {
    let world = World::new().await;
    let policy = world.client.get_bucket_policy().bucket(BUCKET).send().await;
    assert_eq!(refusal(policy), refused(501, "NotImplemented"));
    let with_tags = world.client.put_object().bucket(BUCKET).key("a");
    assert_eq!(refusal(with_tags.tagging("a=b").send().await), refused(501, "NotImplemented"));
}

#[tokio::test]
async fn it_binds_loopback_only_and_one_process_serves_a_folder() {
    let world = World::new().await;
    let folder = world.folder.path().to_owned();
    let anywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let exposed = LocalS3::bind(folder.clone(), anywhere, LocalKeys::default()).await;
    assert_eq!(exposed.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);

    let second = LocalS3::spawn(folder, LocalKeys::default()).await;
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
}

#[tokio::test]
async fn it_stops_when_told_to_and_frees_the_folder() {
    let world = World::new().await;
    world.put("a", "x").await;
    let World { folder, server, client } = world;
    server.stop().await;
    let answer = client.list_buckets().send().await;
    assert!(answer.unwrap_err().raw_response().is_none());
    LocalS3::spawn(folder.path().to_owned(), LocalKeys::default()).await.unwrap();
}

#[test]
fn the_secret_is_never_printed() {
    let printed = format!("{:?}", LocalKeys::default());
    assert!(printed.contains("local") && !printed.contains("localsecret"), "{printed}");
}

#[tokio::test]
async fn buckets_are_the_folders_under_the_root() {
    let world = World::new().await;
    world.client.create_bucket().bucket("made-here").send().await.unwrap();
    // In the first region it succeeds again, as on AWS.
    world.client.create_bucket().bucket("made-here").send().await.unwrap();
    std::fs::write(world.folder.path().join("a-file"), "no bucket").unwrap();
    std::fs::create_dir(world.folder.path().join("No_Bucket")).unwrap();

    let listed = world.client.list_buckets().send().await.unwrap();
    let names: Vec<_> = listed.buckets().iter().filter_map(|bucket| bucket.name()).collect();
    assert_eq!(names, [BUCKET, "made-here"]);
    assert!(world.folder.path().join("made-here").is_dir());

    let head = world.client.head_bucket().bucket("made-here").send().await.unwrap();
    assert_eq!(head.bucket_region(), Some("us-east-1"));
    world.client.get_bucket_location().bucket("made-here").send().await.unwrap();
    world.client.delete_bucket().bucket("made-here").send().await.unwrap();
    let gone = world.client.head_bucket().bucket("made-here").send().await;
    assert_eq!(refusal(gone).0, 404);
}

#[tokio::test]
async fn a_bucket_with_objects_is_not_deleted() {
    let world = World::new().await;
    let delete = || world.client.delete_bucket().bucket(BUCKET).send();
    for key in ["deep/er/key", "odd//key"] {
        world.put(key, "x").await;
        assert_eq!(refusal(delete().await), refused(409, "BucketNotEmpty"));
        world.client.delete_object().bucket(BUCKET).key(key).send().await.unwrap();
    }
    delete().await.unwrap();
    assert!(!world.folder.path().join(BUCKET).exists());
}

#[tokio::test]
async fn nothing_can_be_put_into_a_missing_bucket() {
    // s3s-fs made the bucket and succeeded.
    let world = World::new().await;
    let client = &world.client;
    let large = ByteStream::from(noise(3 << 20));
    let put = client.put_object().bucket("absent").key("a").body(large);
    assert_eq!(refusal(put.send().await), refused(404, "NoSuchBucket"));
    let create = client.create_multipart_upload().bucket("absent").key("a");
    assert_eq!(refusal(create.send().await), refused(404, "NoSuchBucket"));
    let list = client.list_objects_v2().bucket("absent");
    assert_eq!(refusal(list.send().await), refused(404, "NoSuchBucket"));
    assert!(!world.folder.path().join("absent").exists());
}
