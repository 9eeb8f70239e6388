//! A proxy before an S3 that does what networks and busy stores do: it loses, delays, refuses, cuts and damages, as it is told.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dayport::store::operation::Operation;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1 as client;
use hyper::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A request, as whoever decides its fate sees it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Its number since [`Proxy::direct`], from 1.
    pub(crate) number: usize,
    /// `None` for what Dayport never asks.
    pub(crate) operation: Option<Operation>,
    pub(crate) bucket: String,
    /// As in the URL; empty for the bucket itself.
    pub(crate) key: String,
}

/// An error answer in S3's form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) region: Option<&'static str>,
}

impl Refusal {
    pub(crate) const SLOW_DOWN: Refusal = Refusal::new(503, "SlowDown");
    pub(crate) const INTERNAL: Refusal = Refusal::new(500, "InternalError");
    pub(crate) const DENIED: Refusal = Refusal::new(403, "AccessDenied");
    /// An error in a 200, as S3 answers a completion that failed after it had begun to answer.
    pub(crate) const LATE: Refusal = Refusal::new(200, "InternalError");
    pub(crate) const ELSEWHERE: Refusal = Refusal { status: 301, code: "PermanentRedirect", region: Some("eu-central-1") };

    const fn new(status: u16, code: &'static str) -> Refusal {
        Refusal { status, code, region: None }
    }
}

/// When a process dies of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before it has arrived.
    Before,
    /// When it is done, before its answer.
    After,
    /// So long after its answer was given.
    Answered(Duration),
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    Pass,
    /// The connection ends, and nothing is done.
    LoseRequest,
    /// It is done, and the connection ends instead of the answer.
    LoseAnswer,
    /// Nothing is done.
    Refuse(Refusal),
    /// It is done, and the answer says otherwise.
    DoAndRefuse(Refusal),
    /// The connection ends after so many bytes of the answer's body.
    CutAnswer(usize),
    /// One bit of the body that is sent is turned.
    FlipRequest(usize),
    /// One bit of the body that is answered is turned.
    FlipAnswer(usize),
    /// It takes its time, before it is done and after.
    Delay(Duration, Duration),
    /// It waits, before it is done, until the value is true.
    Hold(watch::Receiver<bool>),
    /// Whoever was given to [`Proxy::on_kill`] is killed.
    Kill(Moment),
}

type Director = dyn Fn(&Seen) -> Fate + Send + Sync;
type Killer = dyn Fn() + Send + Sync;

struct Shared {
    upstream: SocketAddr,
    director: Mutex<Arc<Director>>,
    killer: Mutex<Arc<Killer>>,
    requests: AtomicUsize,
    faults: AtomicUsize,
    under_way: watch::Sender<usize>,
    idle: Mutex<Vec<client::SendRequest<Whole>>>,
}

/// The proxy; it ends when it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy before the S3 at `upstream`, which passes everything on until it is told otherwise.
    pub(crate) async fn spawn(upstream: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            upstream,
            director: Mutex::new(Arc::new(|_: &Seen| Fate::Pass)),
            killer: Mutex::new(Arc::new(|| {})),
            requests: AtomicUsize::new(0),
            faults: AtomicUsize::new(0),
            under_way: watch::Sender::new(0),
            idle: Mutex::new(Vec::new()),
        });
        let serving = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let shared = Arc::clone(&serving);
                tokio::spawn(async move {
                    let service = service_fn(move |request| serve(Arc::clone(&shared), request));
                    // A connection that ends in the middle is what this proxy is for.
                    let _ = server::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Proxy { address, shared, task }
    }

    /// What goes into `AWS_ENDPOINT_URL`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Decides every request's fate from now on; requests are counted anew.
    pub(crate) fn direct(&self, director: impl Fn(&Seen) -> Fate + Send + Sync + 'static) {
        *self.shared.director.lock().unwrap() = Arc::new(director);
        self.shared.requests.store(0, Ordering::SeqCst);
    }

    /// What [`Fate::Kill`] does.
    pub(crate) fn on_kill(&self, killer: impl Fn() + Send + Sync + 'static) {
        *self.shared.killer.lock().unwrap() = Arc::new(killer);
    }

    /// How many requests came since [`Proxy::direct`].
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// How many requests had another fate than to pass, ever.
    pub(crate) fn faults(&self) -> usize {
        self.shared.faults.load(Ordering::SeqCst)
    }

    /// Returns once no request is under way: what was sent has had its effect.
    pub(crate) async fn quiet(&self) {
        self.shared.under_way.subscribe().wait_for(|count| *count == 0).await.unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A body that is there as a whole.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// An answer's body, which may break off.
struct Answer {
    bytes: Option<Bytes>,
    /// So many pauses after its bytes, if it does.
    breaks_off: Option<u8>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        if let Some(bytes) = self.bytes.take().filter(|bytes| !bytes.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match self.breaks_off {
            None => Poll::Ready(None),
            Some(0) => Poll::Ready(Some(Err(lost()))),
            Some(pauses) => {
                // Whoever waits is given the bytes before the break, and not only the break.
                self.breaks_off = Some(pauses - 1);
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

fn lost() -> std::io::Error {
    std::io::Error::other("the connection ends here, as the test asked")
}

/// Counts a request until its effect is over.
struct UnderWay(Arc<Shared>);

impl UnderWay {
    fn new(shared: &Arc<Shared>) -> UnderWay {
        shared.under_way.send_modify(|count| *count += 1);
        UnderWay(Arc::clone(shared))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|count| *count -= 1);
    }
}

async fn serve(shared: Arc<Shared>, request: Request<Incoming>) -> std::io::Result<Response<Answer>> {
    let guard = UnderWay::new(&shared);
    let (parts, body) = request.into_parts();
    // A request that does not arrive whole has no effect: S3 knows its length.
    let body = whole(body).await.ok_or_else(lost)?;
    // In a task of its own: a client that goes away does not take back what it has sent.
    tokio::spawn(async move { fated(&shared, &parts, body, guard).await }).await.map_err(std::io::Error::other)?
}

async fn fated(shared: &Arc<Shared>, parts: &Parts, mut body: Bytes, guard: UnderWay) -> std::io::Result<Response<Answer>> {
    let fate = {
        let director = Arc::clone(&shared.director.lock().unwrap_or_else(PoisonError::into_inner));
        let seen = seen(shared.requests.fetch_add(1, Ordering::SeqCst) + 1, parts);
        director(&seen)
    };
    if !matches!(fate, Fate::Pass) {
        shared.faults.fetch_add(1, Ordering::SeqCst);
    }
    let kill = || {
        let killer = Arc::clone(&shared.killer.lock().unwrap_or_else(PoisonError::into_inner));
        killer();
    };
    match &fate {
        Fate::LoseRequest => return Err(lost()),
        Fate::Kill(Moment::Before) => {
            kill();
            return Err(lost());
        }
        Fate::Refuse(refusal) => return Ok(refused(*refusal)),
        Fate::FlipRequest(bit) => body = flipped(&body, *bit),
        Fate::Delay(before, _) => tokio::time::sleep(*before).await,
        Fate::Hold(gate) => {
            // A gate that is gone is open.
            let _ = gate.clone().wait_for(|open| *open).await;
        }
        _ => {}
    }
    let answer = forward(shared, parts, body).await;
    drop(guard);
    let (mut head, mut bytes) = answer?;
    let mut breaks_off = None;
    match fate {
        Fate::LoseAnswer => return Err(lost()),
        Fate::Kill(Moment::After) => {
            kill();
            return Err(lost());
        }
        Fate::Kill(Moment::Answered(pause)) => {
            let killer = Arc::clone(&shared.killer.lock().unwrap_or_else(PoisonError::into_inner));
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                killer();
            });
        }
        Fate::DoAndRefuse(refusal) => return Ok(refused(refusal)),
        Fate::CutAnswer(at) if at < bytes.len() => {
            bytes.truncate(at);
            breaks_off = Some(2);
        }
        Fate::FlipAnswer(bit) => bytes = flipped(&bytes, bit),
        Fate::Delay(_, after) => tokio::time::sleep(after).await,
        _ => {}
    }
    head.headers.remove(CONNECTION);
    Ok(Response::from_parts(head, Answer { bytes: Some(bytes), breaks_off }))
}

/// Sends a request on, and answers with the whole answer.
async fn forward(shared: &Arc<Shared>, parts: &Parts, body: Bytes) -> std::io::Result<(hyper::http::response::Parts, Bytes)> {
    let idle = || shared.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut sender = None;
    while let Some(mut found) = idle() {
        if found.ready().await.is_ok() {
            sender = Some(found);
            break;
        }
    }
    let mut sender = match sender {
        Some(sender) => sender,
        None => {
            let stream = TcpStream::connect(shared.upstream).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) = client::handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
            tokio::spawn(connection);
            sender
        }
    };
    let mut request = Request::from_parts(parts.clone(), Whole(Some(body)));
    request.headers_mut().remove(CONNECTION);
    let answer = sender.send_request(request).await.map_err(std::io::Error::other)?;
    let (mut head, incoming) = answer.into_parts();
    let bytes = whole(incoming).await.ok_or_else(lost)?;
    if head.headers.remove(TRANSFER_ENCODING).is_some() {
        head.headers.insert(CONTENT_LENGTH, bytes.len().into());
    }
    shared.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
    Ok((head, bytes))
}

/// All of a body; `None` if it breaks off.
async fn whole(mut body: Incoming) -> Option<Bytes> {
    let mut all = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame.ok()?.into_data() {
            all.extend_from_slice(&data);
        }
    }
    Some(all.into())
}

fn flipped(bytes: &Bytes, bit: usize) -> Bytes {
    let mut turned = bytes.to_vec();
    if !turned.is_empty() {
        let bit = bit % (turned.len() * 8);
        turned[bit / 8] ^= 1 << (bit % 8);
    }
    turned.into()
}

fn refused(refusal: Refusal) -> Response<Answer> {
    let Refusal { status, code, region } = refusal;
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>as the test asked</Message>\
         <RequestId>4442587FB7D0A2F9</RequestId><HostId>proxy</HostId></Error>"
    );
    let mut answer = Response::builder().status(status).header("content-type", "application/xml");
    if let Some(region) = region {
        answer = answer.header("x-amz-bucket-region", region);
    }
    answer.body(Answer { bytes: Some(body.into()), breaks_off: None }).unwrap()
}

fn seen(number: usize, parts: &Parts) -> Seen {
    let path = parts.uri.path().trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let query = parts.uri.query().unwrap_or_default();
    let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    let operation = match parts.method {
        Method::GET if has("list-type") => Some(Operation::ListObjectsV2),
        Method::GET if !key.is_empty() => Some(Operation::GetObject),
        Method::PUT if has("partNumber") => Some(Operation::UploadPart),
        Method::PUT if !key.is_empty() => Some(Operation::PutObject),
        Method::POST if has("uploads") => Some(Operation::CreateMultipartUpload),
        Method::POST if has("uploadId") => Some(Operation::CompleteMultipartUpload),
        Method::DELETE if has("uploadId") => Some(Operation::AbortMultipartUpload),
        Method::DELETE if !key.is_empty() => Some(Operation::DeleteObject),
        _ => None,
    };
    Seen { number, operation, bucket: bucket.to_owned(), key: key.to_owned() }
}
