//! Listings: order, pages, prefixes, delimiters.

use std::collections::BTreeSet;

use aws_sdk_s3::types::EncodingType;

use super::*;

/// Makes objects without the API, which is faster.
fn make(world: &World, keys: impl IntoIterator<Item = String>) {
    for key in keys {
        let path = world.path(&key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
}

#[tokio::test]
async fn a_listing_of_2500_keys_comes_in_pages_of_a_thousand() {
    let world = World::new().await;
    let mut keys: Vec<String> = (0..2500).map(|n| format!("p/{}/{n:04}", n % 7)).collect();
    make(&world, keys.clone());
    world.put("p/3//odd", "x").await;
    keys.push("p/3//odd".to_owned());
    keys.sort();

    let mut pages = Vec::new();
    let mut stream = world.client.list_objects_v2().bucket(BUCKET).prefix("p/").into_paginator().send();
    while let Some(page) = stream.next().await {
        let page = page.unwrap();
        assert_eq!(page.key_count(), Some(i32::try_from(page.contents().len()).unwrap()));
        pages.push(keys_of(page.contents()));
    }
    let lengths: Vec<_> = pages.iter().map(Vec::len).collect();
    assert_eq!(lengths, [1000, 1000, 501]);
    assert_eq!(pages.concat(), keys);

    // More than a thousand can't be asked for.
    let list = world.client.list_objects_v2().bucket(BUCKET).max_keys(5000);
    assert_eq!(list.send().await.unwrap().contents().len(), 1000);
}

#[tokio::test]
async fn keys_are_in_the_order_of_their_bytes_across_folders() {
    let world = World::new().await;
    // `.` and `-` sort before `/`, `0` and letters after it.
    let keys = ["a-b", "a.txt", "a/b", "a/b.c", "a/b/c", "a0", "a~", "b", "é", "日"];
    for key in keys.iter().rev() {
        world.put(key, "x").await;
    }
    assert_eq!(world.list().await, keys);
}

/// What a listing has to show, from all keys: the rule, spelled out.
fn expected(keys: &BTreeSet<String>, prefix: &str, delimiter: &str) -> Vec<String> {
    let mut shown = Vec::new();
    for key in keys.iter().filter(|key| key.starts_with(prefix)) {
        let rest = &key[prefix.len()..];
        let entry = match rest.find(delimiter) {
            Some(at) if !delimiter.is_empty() => &key[..prefix.len() + at + delimiter.len()],
            _ => key,
        };
        if shown.last().map(String::as_str) != Some(entry) {
            shown.push(entry.to_owned());
        }
    }
    shown
}

#[tokio::test]
async fn prefixes_and_delimiters_show_the_same_whatever_the_page_size() {
    let world = World::new().await;
    let keys: BTreeSet<String> =
        ["a", "a/", "a/1", "a/2", "a//x", "ab/c/d", "ab/c/e", "ab/f", "b-x", "b/c", "b/c/d", "z/../y"].map(str::to_owned).into();
    for key in &keys {
        world.put(key, "x").await;
    }
    for prefix in ["", "a", "a/", "ab/", "ab/c", "b/c", "zz"] {
        for delimiter in ["", "/", "b/", "c"] {
            for size in [1, 2, 3, 1000] {
                let list = world.client.list_objects_v2().bucket(BUCKET).prefix(prefix);
                let list = list.delimiter(delimiter).max_keys(size);
                let mut stream = list.into_paginator().send();
                let mut shown = Vec::new();
                while let Some(page) = stream.next().await {
                    let page = page.unwrap();
                    let mut entries = keys_of(page.contents());
                    let prefixes = page.common_prefixes().iter().filter_map(|found| found.prefix());
                    entries.extend(prefixes.map(str::to_owned));
                    assert!(entries.len() <= usize::try_from(size).unwrap());
                    entries.sort();
                    shown.extend(entries);
                }
                assert_eq!(shown, expected(&keys, prefix, delimiter), "`{prefix}` `{delimiter}` {size}");
            }
        }
    }
}

#[tokio::test]
async fn a_listing_begins_after_the_key_it_is_told() {
    let world = World::new().await;
    make(&world, ["a/1", "a/2", "a/3", "b"].map(str::to_owned));
    let after = |key: &str| world.client.list_objects_v2().bucket(BUCKET).start_after(key).send();
    assert_eq!(keys_of(after("a/2").await.unwrap().contents()), ["a/3", "b"]);
    assert_eq!(keys_of(after("a/").await.unwrap().contents()), ["a/1", "a/2", "a/3", "b"]);
    assert_eq!(keys_of(after("a0").await.unwrap().contents()), ["b"]);
    let with_bad_token = world.client.list_objects_v2().bucket(BUCKET).continuation_token("?");
    assert_eq!(refusal(with_bad_token.send().await), refused(400, "InvalidArgument"));
}

#[tokio::test]
async fn no_keys_may_be_asked_for() {
    let world = World::new().await;
    make(&world, ["a".to_owned()]);
    let none = world.client.list_objects_v2().bucket(BUCKET).max_keys(0).send().await.unwrap();
    assert_eq!((none.contents().len(), none.is_truncated()), (0, Some(false)));
}

#[tokio::test]
async fn keys_can_be_listed_encoded() {
    let world = World::new().await;
    world.put("a b/c+d=é\u{1}", "x").await;
    let list = world.client.list_objects_v2().bucket(BUCKET).prefix("a b/");
    let listed = list.encoding_type(EncodingType::Url).send().await.unwrap();
    assert_eq!(keys_of(listed.contents()), ["a+b/c%2Bd%3D%C3%A9%01"]);
    assert_eq!(listed.prefix(), Some("a+b/"));
}

#[tokio::test]
async fn the_first_version_of_the_listing_works_too() {
    let world = World::new().await;
    make(&world, ["a/1", "a/2", "b", "c"].map(str::to_owned));
    let list = world.client.list_objects().bucket(BUCKET).delimiter("/").max_keys(2);
    let first = list.clone().send().await.unwrap();
    assert_eq!(first.common_prefixes()[0].prefix(), Some("a/"));
    assert_eq!(keys_of(first.contents()), ["b"]);
    assert_eq!((first.is_truncated(), first.next_marker()), (Some(true), Some("b")));
    let second = list.marker("b").send().await.unwrap();
    assert_eq!(keys_of(second.contents()), ["c"]);
}
