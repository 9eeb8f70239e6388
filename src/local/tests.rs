//! The endpoint as the real SDK sees it, over loopback.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::naive_bytecount,
    clippy::format_push_string,
    clippy::type_complexity,
    reason = "a test may end at the first surprise"
)]

mod access;
mod keys;
mod listing;
mod multipart;
mod objects;
mod uploads;

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{LocalHandle, LocalKeys, LocalS3};

const BUCKET: &str = "landing";

/// A served folder with one bucket, and a client for it.
struct World {
    folder: TempDir,
    server: LocalHandle,
    client: Client,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let server = LocalS3::spawn(folder.path().to_owned(), LocalKeys::default()).await.unwrap();
        let client = client(&server.endpoint_url(), &LocalKeys::default(), true);
        Self { folder, server, client }
    }

    /// Kills the server at once and serves the same folder again.
    async fn kill_and_restart(self) -> Self {
        let Self { folder, server, .. } = self;
        drop(server);
        let server = LocalS3::spawn(folder.path().to_owned(), LocalKeys::default()).await.unwrap();
        let client = client(&server.endpoint_url(), &LocalKeys::default(), true);
        Self { folder, server, client }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.path().join(BUCKET).join(key)
    }

    async fn put(&self, key: &str, body: impl Into<Vec<u8>>) -> String {
        let put = self.client.put_object().bucket(BUCKET).key(key);
        let answer = put.body(ByteStream::from(body.into())).send().await;
        answer.unwrap().e_tag.unwrap()
    }

    async fn get(&self, key: &str) -> Vec<u8> {
        let get = self.client.get_object().bucket(BUCKET).key(key);
        let answer = get.send().await.unwrap();
        answer.body.collect().await.unwrap().to_vec()
    }

    async fn list(&self) -> Vec<String> {
        let list = self.client.list_objects_v2().bucket(BUCKET);
        keys_of(list.send().await.unwrap().contents())
    }
}

fn keys_of(objects: &[aws_sdk_s3::types::Object]) -> Vec<String> {
    objects.iter().map(|object| object.key().unwrap().to_owned()).collect()
}

fn client(endpoint: &str, keys: &LocalKeys, path_style: bool) -> Client {
    let credentials = Credentials::new(&keys.access_key_id, &keys.secret_access_key, None, None, "test");
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint)
        .credentials_provider(credentials)
        .retry_config(RetryConfig::disabled())
        .force_path_style(path_style)
        .build();
    Client::from_conf(config)
}

/// The status and the code of a refusal.
#[track_caller]
fn refusal<T: Debug, E: ProvideErrorMetadata + Debug>(answer: Result<T, SdkError<E>>) -> (u16, String) {
    let error = answer.expect_err("it was to be refused");
    let status = error.raw_response().unwrap_or_else(|| panic!("no answer: {error:?}")).status().as_u16();
    (status, error.code().unwrap_or_default().to_owned())
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

/// Sends a request as it stands, and reads the answer to its end.
async fn send_raw(address: SocketAddr, method: &str, uri: &str, headers: &[(String, String)], body: &[u8]) -> String {
    let (_scheme, rest) = uri.split_once("://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut request = format!("{method} /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    let stated = headers.iter().filter(|(name, _value)| name != "content-length");
    for (name, value) in stated {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Bytes that repeat at no distance a test would miss.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let step = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(step).collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
