//! A laboratory: a local S3 over a temporary folder, the buckets that its configuration names, and everything to run days in it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};
use dayport::config::{self, Environment};
use dayport::domain::run::Day;
use dayport::handler::{Answer, Failure, Invocation, Nobody, Services, Watcher, handle};
use dayport::local::{LocalHandle, LocalKeys, LocalS3};
use dayport::run::answer::RunAnswer;
use dayport::store::ports::{Condition, List as _, Write as _};
use dayport::store::s3::{Address, Clients, RequestOptions, Retries, S3Bucket, Side};
use dayport::trigger::Request;
use tempfile::TempDir;

/// One destination, `acme`: Parquet in the permutive layout, at the root of its bucket.
pub(crate) const CONFIGURATION: &str = r#"
[staging]
s3_bucket = "staging"
[state]
s3_bucket = "state"
lease = "5s"
[[destination]]
name = "acme"
s3_bucket = "acme"
"#;

/// 2026-01-16T03:00:12Z, at which every transfer starts unless the lab is told otherwise.
pub(crate) const STARTED: i64 = 1_768_532_412_000;

/// Little patience, so that a test soon sees what lasting failures come to.
pub(crate) const HASTY: Retries = Retries {
    attempts: 3,
    first_pause: Duration::from_millis(5),
    longest_pause: Duration::from_millis(20),
    attempt: Duration::from_secs(30),
};

/// See the module. What it holds ends with it.
pub(crate) struct Lab {
    folder: TempDir,
    server: LocalHandle,
    clients: Clients,
    sdk: SdkConfig,
    configuration: String,
    now_millis: i64,
    invocations: AtomicU32,
}

impl Lab {
    /// A lab with [`CONFIGURATION`] and its empty buckets.
    pub(crate) async fn new() -> Lab {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("s3")).unwrap();
        let mut lab = Lab::over(folder).await;
        lab.settings(CONFIGURATION);
        lab
    }

    /// A lab of its own with the same configuration and clock over a copy of everything that this one's S3 holds.
    pub(crate) async fn copy(&self) -> Lab {
        let folder = tempfile::tempdir().unwrap();
        copy_folder(&self.folder.path().join("s3"), &folder.path().join("s3"));
        let mut lab = Lab::over(folder).await;
        lab.settings(&self.configuration);
        lab.at(self.now_millis);
        lab
    }

    async fn over(folder: TempDir) -> Lab {
        let server = LocalS3::spawn(folder.path().join("s3"), LocalKeys::default()).await.unwrap();
        let keys = LocalKeys::default();
        let credentials = Credentials::new(keys.access_key_id, keys.secret_access_key, None, None, "lab");
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(server.endpoint_url())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        let clients = Clients::new(sdk.clone(), HASTY);
        Lab { folder, server, clients, sdk, configuration: String::new(), now_millis: STARTED, invocations: AtomicU32::new(0) }
    }

    /// What runs are made with where they reach S3 at another address.
    pub(crate) fn services_at(&self, endpoint_url: &str, retries: Retries) -> Services {
        let sdk = self.sdk.clone().into_builder().endpoint_url(endpoint_url).build();
        self.services_with(&Clients::new(sdk, retries))
    }

    /// Where its S3 is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.addr()
    }

    /// Every object of a bucket, read from its folder: nobody is asked, and nothing waits.
    pub(crate) fn files(&self, bucket: &str) -> BTreeMap<String, Vec<u8>> {
        let root = self.bucket_folder(bucket);
        let mut files = BTreeMap::new();
        read_folder(&root, &mut |path| {
            let key = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            files.insert(key, std::fs::read(path).unwrap());
        });
        files
    }

    /// Takes another `dayport.toml`, and makes the buckets that it names and that aren't there. What landed and the state stay.
    pub(crate) fn settings(&mut self, configuration: &str) {
        configuration.clone_into(&mut self.configuration);
        let settings = config::parse(configuration, &self.environment()).unwrap();
        let customers = settings.destinations.iter().map(|destination| &destination.s3_bucket);
        for bucket in customers.chain([&settings.staging.s3_bucket, &settings.state.s3_bucket]) {
            std::fs::create_dir_all(self.bucket_folder(bucket)).unwrap();
        }
        std::fs::write(self.configuration_path(), configuration).unwrap();
    }

    /// Has transfers start at this time from now on: milliseconds since 1970.
    pub(crate) fn at(&mut self, now_millis: i64) {
        self.now_millis = now_millis;
    }

    /// Puts an object into the staging bucket, under its whole key.
    pub(crate) async fn stage(&self, key: &str, bytes: impl Into<Vec<u8>>) {
        let bucket = self.staging_bucket();
        self.bucket(&bucket).put(key, bytes.into().into(), "application/octet-stream", &Condition::None).await.unwrap();
    }

    /// Stages lines as one object of plain NDJSON.
    pub(crate) async fn stage_lines(&self, key: &str, lines: &[&str]) {
        self.stage(key, lines.join("\n") + "\n").await;
    }

    /// Runs a day in every destination, as by hand, and answers with every run, whether or not any failed.
    pub(crate) async fn run(&self, day: &str) -> Vec<RunAnswer> {
        self.ask(&by_hand(day, false)).await
    }

    /// The same by force. Each call is another trigger.
    pub(crate) async fn force(&self, day: &str) -> Vec<RunAnswer> {
        self.ask(&by_hand(day, true)).await
    }

    /// Does what a request asks for; panics where that fails before any run.
    pub(crate) async fn ask(&self, request: &Request) -> Vec<RunAnswer> {
        // Another id each time, as Lambda gives one.
        let id = format!("lab-{}", self.invocations.fetch_add(1, Ordering::Relaxed));
        match self.invoke(request, &Invocation::unlimited(id), &Nobody).await {
            Ok(answer) | Err(Failure { answer: Some(answer), .. }) => answer.runs,
            Err(failure) => panic!("{failure:?}"),
        }
    }

    /// One invocation, as the rim makes it.
    pub(crate) async fn invoke(
        &self,
        request: &Request,
        invocation: &Invocation,
        watcher: &dyn Watcher,
    ) -> Result<Answer, Failure> {
        handle(&self.services(), request, invocation, watcher).await
    }

    /// What runs are made with, over the lab's configuration and clock.
    pub(crate) fn services(&self) -> Services {
        self.services_with(&self.clients)
    }

    fn services_with(&self, clients: &Clients) -> Services {
        let environment = self.environment();
        let settings = config::parse(&self.configuration, &environment).unwrap();
        let now_millis = self.now_millis;
        Services::new(settings, clients, &environment).with_clock(move || now_millis)
    }

    /// Every object of a bucket.
    pub(crate) async fn landed(&self, bucket: &str) -> BTreeMap<String, Vec<u8>> {
        let client = self.client();
        let mut landed = BTreeMap::new();
        for object in self.bucket(bucket).list_all("").await.unwrap() {
            let got = client.get_object().bucket(bucket).key(&object.key).send().await.unwrap();
            landed.insert(object.key, got.body.collect().await.unwrap().to_vec());
        }
        landed
    }

    /// The keys of a bucket.
    pub(crate) async fn keys(&self, bucket: &str) -> Vec<String> {
        self.bucket(bucket).list_all("").await.unwrap().into_iter().map(|object| object.key).collect()
    }

    /// Uploads of a bucket that are neither completed nor aborted.
    pub(crate) async fn open_uploads(&self, bucket: &str) -> usize {
        self.client().list_multipart_uploads().bucket(bucket).send().await.unwrap().uploads().len()
    }

    /// A plain S3 client, to look and meddle with.
    pub(crate) fn client(&self) -> Client {
        let config = aws_sdk_s3::config::Builder::from(&self.sdk).force_path_style(true).build();
        Client::from_conf(config)
    }

    /// Our clients.
    pub(crate) fn clients(&self) -> &Clients {
        &self.clients
    }

    /// A bucket through our clients.
    pub(crate) fn bucket(&self, name: &str) -> S3Bucket {
        let address = Address { bucket: name.to_owned(), region: None, path_style: false };
        self.clients.bucket(&address, None, RequestOptions::default(), Side::Vendor)
    }

    /// Where a bucket's objects lie as files.
    pub(crate) fn bucket_folder(&self, bucket: &str) -> PathBuf {
        self.folder.path().join("s3").join(bucket)
    }

    /// Where the configuration lies.
    pub(crate) fn configuration_path(&self) -> PathBuf {
        self.folder.path().join("dayport.toml")
    }

    /// A folder for whatever else a test writes.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// An environment as the function has it, with the lab's configuration.
    pub(crate) fn environment(&self) -> Environment {
        Environment {
            config: Some(self.configuration_path().to_str().unwrap().to_owned()),
            function_memory: Some(3008 << 20),
            threads: 2,
            temp_dir: self.folder.path().to_owned(),
            ..Environment::default()
        }
    }

    /// The built command line with arguments, the lab's configuration and S3, and nothing of the user's own environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dayport"));
        command
            .args(arguments)
            .env_clear()
            .env("AWS_ENDPOINT_URL", self.server.endpoint_url())
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "localsecret")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("DAYPORT_CONFIG", self.configuration_path());
        command
    }

    fn staging_bucket(&self) -> String {
        config::parse(&self.configuration, &self.environment()).unwrap().staging.s3_bucket
    }
}

fn read_folder(folder: &Path, each: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { read_folder(&path, each) } else { each(&path) }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &copy);
        } else {
            std::fs::copy(entry.path(), copy).unwrap();
        }
    }
}

/// A request by hand for one day in every destination.
pub(crate) fn by_hand(day: &str, force: bool) -> Request {
    let day: Day = day.parse().unwrap();
    Request::Days { from: day, to: day, destinations: Vec::new(), force }
}

#[tokio::test]
async fn a_labs_days_land_at_its_own_time() {
    let mut lab = Lab::new().await;
    lab.settings(&format!("{CONFIGURATION}layout = \"pontoon\"\nformat = \"json\"\nmanifest = false\n"));
    lab.stage_lines("events/2026-01-15/a.ndjson", &[r#"{"event_name":"Pageview","time":"2026-01-15T10:00:00Z"}"#]).await;
    assert_eq!(lab.run("2026-01-15").await[0].counts.delivered, 1);
    lab.at(STARTED + 86_400_000);
    assert_eq!(lab.force("2026-01-15").await[0].counts.delivered, 1);
    assert_eq!(
        lab.keys("acme").await,
        [
            "pageview_events/dt=2026-01-16/20260116030012_1768532412000_0.json.gz",
            "pageview_events/dt=2026-01-17/20260117030012_1768618812000_0.json.gz"
        ]
    );
}
