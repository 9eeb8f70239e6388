//! An S3 endpoint over a folder, on loopback, for trying things without an account.
//!
//! It answers as AWS S3 does in everything that Dayport leans on, so that the same SDK code runs
//! against it and against AWS:
//!
//! - conditional writes are decided and carried out under one lock: of any number that race, one wins;
//! - checksums (`Content-MD5`, CRC32, CRC32C, CRC64NVME, SHA-1, SHA-256; header, trailer or signed
//!   payload) are computed from the bytes that came in, and a part or object that differs is refused;
//! - an upload is invisible until it is completed, appears whole, and its completion may be repeated;
//! - a `GET` reads one version from start to end, whatever is written meanwhile;
//! - what it does not do it refuses with `NotImplemented`.
//!
//! # On disk
//!
//! A bucket is a folder under the root, and an object with an ordinary key is a plain file in it, so
//! that `find` and other programs can read what landed; a file that was copied in by hand is an object
//! too (its `ETag` is made from its name, time and size). Symbolic links are not followed.
//! Everything else lies in `.dayport-local` beside the buckets: what S3 keeps about an object, pending
//! uploads, and the objects whose key no file can have (`a//b`, `../a`, `a/` or `a` beside `a/b`).
//!
//! Nothing is flushed to the disk: it survives a killed process, not a power cut.
//! One process serves a root at a time. The region is whatever the client signs with.

#![allow(clippy::disallowed_methods, reason = "an S3 endpoint dates what it keeps by the wall clock, as S3 does")]

mod access;
mod body;
mod checksum;
mod completion;
mod disk;
mod failure;
mod key;
mod listing;
mod meta;
mod multipart;
mod object;
mod pages;
mod place;
mod service;
#[cfg(all(test, feature = "aws"))]
mod tests;
mod upload;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use self::disk::Disk;

pub use self::access::OWNER;

/// The longest time that requests under way are waited for at shutdown.
const GRACE: Duration = Duration::from_secs(5);

/// The one key pair that the endpoint accepts.
///
/// The secret is never printed: `Debug` shows the id only.
#[derive(Clone)]
pub struct LocalKeys {
    /// The access key id, sent with each request.
    pub access_key_id: String,
    /// The secret that requests are signed with.
    pub secret_access_key: String,
}

impl Default for LocalKeys {
    /// `local` and `localsecret`.
    fn default() -> Self {
        Self { access_key_id: "local".to_owned(), secret_access_key: "localsecret".to_owned() }
    }
}

impl fmt::Debug for LocalKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LocalKeys").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

/// A bound endpoint that answers as soon as [`LocalS3::serve`] runs.
pub struct LocalS3 {
    listener: TcpListener,
    address: SocketAddr,
    service: S3Service,
}

impl LocalS3 {
    /// Opens `root` (made if it is missing), takes hold of it, and binds `address` (port 0: any free one).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an address that is not loopback, `ResourceBusy` if another process
    /// serves the same root, or what the file system or the network says.
    pub async fn bind(root: PathBuf, address: SocketAddr, keys: LocalKeys) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{address}` is not a loopback address; bind 127.0.0.1"),
            ));
        }
        let disk = Arc::new(Disk::open(root).await?);
        let mut builder = S3ServiceBuilder::new(service::Service::new(disk));
        builder.set_auth(access::Keys::new(keys));
        builder.set_access(access::Owner);
        builder.set_host(access::Host);
        let listener = TcpListener::bind(address).await?;
        Ok(Self { address: listener.local_addr()?, listener, service: builder.build() })
    }

    /// The address that it is bound to.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is ready, then ends the requests under way within five seconds.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _peer)) => {
                        connections.spawn(converse(stream, self.service.clone(), stopped.clone()));
                    }
                    Err(error) => {
                        // Out of file handles, mostly: let some requests end first.
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(_ended) = connections.join_next() => {}
            }
        }
        drop(self.listener);
        drop(stopping);
        let all_ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all_ended).await.is_err() {
            tracing::warn!("requests still under way at shutdown were cut off");
        }
    }

    /// Binds a free port on 127.0.0.1 and serves in the background; stops when the handle is dropped.
    ///
    /// # Errors
    ///
    /// As [`LocalS3::bind`].
    pub async fn spawn(root: PathBuf, keys: LocalKeys) -> io::Result<LocalHandle> {
        let server = Self::bind(root, SocketAddr::from(([127, 0, 0, 1], 0)), keys).await?;
        let address = server.addr();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.serve(async move {
            // A dropped sender means the same as a sent word.
            let _ = stopped.await;
        }));
        Ok(LocalHandle { address, stop: Some(stop), task: Some(task) })
    }
}

impl fmt::Debug for LocalS3 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LocalS3").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A running endpoint. Dropping it cuts every connection at once, as a killed process would.
#[derive(Debug)]
pub struct LocalHandle {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

impl LocalHandle {
    /// The address that it serves.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// What goes into `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops as [`LocalS3::serve`] does when told to, and waits for it.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take()
            && task.await.is_err()
        {
            tracing::error!("the local endpoint ended by a panic");
        }
    }
}

impl Drop for LocalHandle {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Serves one connection to its end, or to the end of the request under way once `stopped` fires.
async fn converse(stream: TcpStream, service: S3Service, mut stopped: watch::Receiver<()>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a socket keeps its delay");
    }
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // An error is what it waits for: the sender was dropped.
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
