//! Multipart uploads: their life from create to complete or abort, lists, and a killed server.

use super::multipart::{MIB, complete, crc64, list_of};
use super::*;

#[tokio::test]
async fn an_aborted_upload_is_gone() {
    let world = World::new().await;
    let id = world.create("a").await;
    let part = world.part("a", &id, 1, b"x").await;
    let abort = |key: &str, id: &str| {
        let abort = world.client.abort_multipart_upload().bucket(BUCKET);
        abort.key(key).upload_id(id).send()
    };
    let gone = || refused(404, "NoSuchUpload");
    assert_eq!(refusal(abort("other", &id).await), gone());
    abort("a", &id).await.unwrap();
    assert_eq!(refusal(abort("a", &id).await), gone());
    assert_eq!(refusal(abort("a", "never-was").await), gone());
    assert_eq!(refusal(complete!(world, "a", &id, [part]).send().await), gone());
    let late = world.client.upload_part().bucket(BUCKET).key("a").upload_id(&id).part_number(1);
    let late = late.checksum_crc64_nvme(crc64(b"x")).body(ByteStream::from_static(b"x"));
    assert_eq!(refusal(late.send().await), gone());
    let parts = world.client.list_parts().bucket(BUCKET).key("a").upload_id(&id);
    assert_eq!(refusal(parts.send().await), gone());
}

#[tokio::test]
async fn a_completed_upload_takes_no_more_parts_and_no_abort() {
    let world = World::new().await;
    let id = world.create("a").await;
    let part = world.part("a", &id, 1, b"x").await;
    complete!(world, "a", &id, [part]).send().await.unwrap();
    let abort = world.client.abort_multipart_upload().bucket(BUCKET).key("a").upload_id(&id);
    assert_eq!(refusal(abort.send().await), refused(404, "NoSuchUpload"));
    assert_eq!(world.get("a").await, b"x");
    let uploads = world.client.list_multipart_uploads().bucket(BUCKET).send().await.unwrap();
    assert_eq!(uploads.uploads().len(), 0);
}

#[tokio::test]
async fn an_upload_survives_a_killed_server_and_half_a_part_is_never_seen() {
    let world = World::new().await;
    let id = world.create("deep/a").await;
    let first = world.part("deep/a", &id, 1, &noise(5 * MIB)).await;
    // A part is on its way when the server dies.
    let half_sent = {
        let part = world.client.upload_part().bucket(BUCKET).key("deep/a").upload_id(&id);
        let body = ByteStream::from(noise(24 * MIB));
        tokio::spawn(part.part_number(2).checksum_crc64_nvme("AAAAAAAAAAA=").body(body).send())
    };
    let temporary = world.folder.path().join(".dayport-local").join(BUCKET).join("tmp");
    while !files_of(&temporary).iter().any(|file| file.metadata().is_ok_and(|found| found.len() > 0)) {
        assert!(!half_sent.is_finished());
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }

    let world = world.kill_and_restart().await;
    assert!(half_sent.await.unwrap().is_err());
    assert_eq!(files_of(&temporary), Vec::<PathBuf>::new());
    let listed = world.client.list_parts().bucket(BUCKET).key("deep/a").upload_id(&id);
    let listed = listed.send().await.unwrap();
    let numbers: Vec<_> = listed.parts().iter().filter_map(aws_sdk_s3::types::Part::part_number).collect();
    assert_eq!(numbers, [1]);

    let second = world.part("deep/a", &id, 2, b"end").await;
    complete!(world, "deep/a", &id, [first, second]).send().await.unwrap();
    assert_eq!(world.get("deep/a").await, [noise(5 * MIB), b"end".to_vec()].concat());
    assert_eq!(files_of(&temporary), Vec::<PathBuf>::new());
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    if folder.exists() { files_below(folder) } else { Vec::new() }
}

#[tokio::test]
async fn a_completion_cut_off_after_the_rename_is_repeated_with_the_same_result() {
    let world = World::new().await;
    let id = world.create("a").await;
    let part = world.part("a", &id, 1, b"x").await;
    // As it lies on the disk if the process dies between the rename and the record of it.
    let side = world.folder.path().join(".dayport-local").join(BUCKET);
    let pending = side.join("uploads").join(&id);
    let copy = world.folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for file in files_below(&pending) {
        std::fs::hard_link(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    let first = complete!(world, "a", &id, [part.clone()]).send().await.unwrap();
    std::fs::remove_dir_all(side.join("done")).unwrap();
    std::fs::rename(&copy, &pending).unwrap();

    let world = world.kill_and_restart().await;
    let again = complete!(world, "a", &id, [part]).send().await.unwrap();
    assert_eq!(again.e_tag(), first.e_tag());
    let get = world.client.get_object().bucket(BUCKET).key("a").send().await.unwrap();
    assert_eq!(get.e_tag(), first.e_tag());
    assert_eq!(get.body.collect().await.unwrap().to_vec(), b"x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_upload_completed_by_many_at_once_gives_all_the_same_answer() {
    let world = World::new().await;
    let id = world.create("a").await;
    let one = world.part("a", &id, 1, &noise(5 * MIB)).await;
    let two = world.part("a", &id, 2, b"end").await;
    let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(complete!(world, "a", &id, [one.clone(), two.clone()]).send())).collect();
    let mut etags = Vec::new();
    for task in tasks {
        etags.push(task.await.unwrap().unwrap().e_tag.unwrap());
    }
    etags.dedup();
    assert_eq!(etags.len(), 1);
}

#[tokio::test]
async fn pending_uploads_are_listed_in_pages() {
    let world = World::new().await;
    let mut created = Vec::new();
    for key in ["b/1", "a", "b/2", "a", "c//d"] {
        created.push((key.to_owned(), world.create(key).await));
    }
    // By key; those of one key by age.
    created.sort_by(|one, other| one.0.cmp(&other.0));

    for size in [1, 2, 1000] {
        let mut found = Vec::new();
        let (mut key, mut id) = (None, None);
        loop {
            let list = world.client.list_multipart_uploads().bucket(BUCKET).max_uploads(size);
            let page = list.set_key_marker(key).set_upload_id_marker(id).send().await.unwrap();
            for upload in page.uploads() {
                found.push((upload.key().unwrap().to_owned(), upload.upload_id().unwrap().to_owned()));
            }
            if page.is_truncated() != Some(true) {
                break;
            }
            (key, id) = (page.next_key_marker, page.next_upload_id_marker);
        }
        assert_eq!(found, created);
    }
    let below = world.client.list_multipart_uploads().bucket(BUCKET).prefix("b/").send().await.unwrap();
    assert_eq!(below.uploads().len(), 2);
    let list = world.client.list_multipart_uploads().bucket(BUCKET).delimiter("/");
    let rolled = list.max_uploads(3).send().await.unwrap();
    let prefixes: Vec<_> = rolled.common_prefixes().iter().filter_map(|found| found.prefix()).collect();
    assert_eq!((rolled.uploads().len(), prefixes), (2, vec!["b/"]));
    assert_eq!(rolled.next_key_marker(), Some("b/"));
    let list = world.client.list_multipart_uploads().bucket(BUCKET).delimiter("/").key_marker("b/");
    let rest = list.send().await.unwrap();
    assert_eq!(rest.common_prefixes()[0].prefix(), Some("c/"));
}

#[tokio::test]
async fn received_parts_are_listed_in_pages() {
    let world = World::new().await;
    let id = world.create("a").await;
    for number in [3, 1, 10_000, 2] {
        world.part("a", &id, number, format!("part {number}").as_bytes()).await;
    }
    let list = world.client.list_parts().bucket(BUCKET).key("a").upload_id(&id).max_parts(3);
    let first = list.clone().send().await.unwrap();
    let numbers =
        |page: &[aws_sdk_s3::types::Part]| -> Vec<i32> { page.iter().filter_map(aws_sdk_s3::types::Part::part_number).collect() };
    assert_eq!(numbers(first.parts()), [1, 2, 3]);
    assert_eq!(first.parts()[0].size(), Some(6));
    assert_eq!(first.parts()[0].checksum_crc64_nvme(), Some(crc64(b"part 1").as_str()));
    assert_eq!(first.next_part_number_marker(), Some("3"));
    let rest = list.part_number_marker("3").send().await.unwrap();
    assert_eq!((numbers(rest.parts()), rest.is_truncated()), (vec![10_000], Some(false)));
    let beyond = world.client.upload_part().bucket(BUCKET).key("a").upload_id(&id).part_number(10_001);
    let beyond = beyond.checksum_crc64_nvme(crc64(b"")).send().await;
    assert_eq!(refusal(beyond), refused(400, "InvalidArgument"));
}
