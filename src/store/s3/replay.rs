//! A loopback HTTP server for tests: it answers from a script and remembers every request as it came over the wire.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};

use super::{Address, Clients, RequestOptions, Retries, S3Bucket, Side};

/// A key pair that no message may ever show.
pub(crate) const KEY_ID: &str = "AKIADAYPORTTEST00000";
pub(crate) const SECRET: &str = "never-say-this-secret";
pub(crate) const TOKEN: &str = "never-say-this-token";

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// Path and query, as sent.
    pub(crate) target: String,
    /// By lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What to answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// How many bytes of the body are sent before the connection is closed.
    cut_after: Option<usize>,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Reply {
        Reply { status, headers: Vec::new(), body: body.into(), cut_after: None }
    }

    /// An error answer in the form of the S3 API Reference, "REST error responses".
    pub(crate) fn error(status: u16, code: &str, message: &str) -> Reply {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message>\
             <RequestId>4442587FB7D0A2F9</RequestId><HostId>host</HostId></Error>"
        );
        Reply::new(status, body).with("content-type", "application/xml")
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn cut_after(mut self, bytes: usize) -> Reply {
        self.cut_after = Some(bytes);
        self
    }
}

type Script = dyn Fn(usize, &Seen) -> Reply + Send + Sync;

/// `attempts` a request, with pauses that tests can wait for.
pub(crate) fn hasty(attempts: u32) -> Retries {
    Retries { attempts, first_pause: Duration::from_millis(2), longest_pause: Duration::from_millis(4), ..Retries::default() }
}

/// The server; it ends when it is dropped.
pub(crate) struct Replay {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    ended: Arc<AtomicBool>,
}

impl Replay {
    /// Answers the nth request (from 0) with what `script` says.
    pub(crate) fn new(script: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Replay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let script: Arc<Script> = Arc::new(script);
        let (all_seen, has_ended) = (Arc::clone(&seen), Arc::clone(&ended));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let (script, seen) = (Arc::clone(&script), Arc::clone(&all_seen));
                std::thread::spawn(move || serve(connection.unwrap(), &*script, &seen));
            }
        });
        Replay { port, seen, ended }
    }

    /// Answers every request alike.
    pub(crate) fn always(reply: Reply) -> Replay {
        Replay::new(move |_, _| reply.clone())
    }

    /// What goes into `AWS_ENDPOINT_URL`.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Our clients over this server.
    pub(crate) fn clients(&self, attempts: u32) -> Clients {
        Clients::new(self.config(), hasty(attempts))
    }

    fn config(&self) -> SdkConfig {
        let credentials = Credentials::new(KEY_ID, SECRET, Some(TOKEN.to_owned()), None, "test");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(self.url())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build()
    }

    /// The customer's bucket `acme-events` with these options, its region given or not.
    pub(crate) fn bucket(&self, options: RequestOptions, side: Side, region: Option<&str>) -> S3Bucket {
        let name = if side == Side::Customer { "acme-events" } else { "dayport-state" };
        let address = Address { bucket: name.to_owned(), region: region.map(str::to_owned), path_style: false };
        self.clients(1).bucket(&address, None, options, side)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(connection: TcpStream, script: &Script, all_seen: &Mutex<Vec<Seen>>) {
    let mut output = connection.try_clone().unwrap();
    let mut input = BufReader::new(connection);
    while let Some(seen) = read_request(&mut input, &mut output) {
        let number = {
            let mut all_seen = all_seen.lock().unwrap();
            all_seen.push(seen.clone());
            all_seen.len() - 1
        };
        let reply = script(number, &seen);
        let mut head = format!("HTTP/1.1 {} Said\r\ncontent-length: {}\r\n", reply.status, reply.body.len());
        for (name, value) in &reply.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        head.push_str("\r\n");
        let body = &reply.body[..reply.cut_after.unwrap_or(reply.body.len()).min(reply.body.len())];
        let body = if seen.method == "HEAD" { &[][..] } else { body };
        let sent = output.write_all(head.as_bytes()).and_then(|()| output.write_all(body)).and_then(|()| output.flush());
        if sent.is_err() || reply.cut_after.is_some() {
            let _ = output.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

fn read_request(input: &mut BufReader<TcpStream>, output: &mut TcpStream) -> Option<Seen> {
    let mut line = String::new();
    if input.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split_whitespace();
    let mut seen = Seen { method: words.next()?.to_owned(), target: words.next()?.to_owned(), ..Seen::default() };
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        seen.headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    if seen.header("expect").is_some() {
        output.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    seen.body = vec![0; length];
    input.read_exact(&mut seen.body).ok()?;
    Some(seen)
}
