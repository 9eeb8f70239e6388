//! Who may ask: the key pair, the bucket owner, and how a host names a bucket.

use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::host::{S3Host, VirtualHost};
use s3s::{S3Result, s3_error};

use super::LocalKeys;

/// The account that owns every local bucket: the one that `x-amz-expected-bucket-owner` must name, if sent.
pub const OWNER: &str = "123456789012";

/// The headers by which a client says whose bucket it expects, on any operation.
const EXPECTED_OWNER: [&str; 2] = ["x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"];

/// Knows the one key pair.
pub(super) struct Keys {
    access_key_id: String,
    secret: SecretKey,
}

impl Keys {
    pub(super) fn new(keys: LocalKeys) -> Self {
        Self { access_key_id: keys.access_key_id, secret: SecretKey::from(keys.secret_access_key) }
    }
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == self.access_key_id {
            Ok(self.secret.clone())
        } else {
            Err(s3_error!(InvalidAccessKeyId, "The AWS Access Key Id you provided does not exist in our records."))
        }
    }
}

/// Refuses unsigned requests and those that expect another owner.
pub(super) struct Owner;

#[async_trait::async_trait]
impl S3Access for Owner {
    async fn check(&self, request: &mut S3AccessContext<'_>) -> S3Result<()> {
        let expects_another = EXPECTED_OWNER
            .iter()
            .filter_map(|header| request.headers().get(*header))
            .any(|value| value.as_bytes() != OWNER.as_bytes());
        if request.credentials().is_none() || expects_another {
            return Err(s3_error!(AccessDenied, "Access Denied"));
        }
        Ok(())
    }
}

/// Reads `<bucket>.localhost` as a bucket; any other host means that the path names it.
pub(super) struct Host;

impl S3Host for Host {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
        let virtual_host = VirtualHost::new(name);
        Ok(match name.strip_suffix(".localhost") {
            Some(bucket) if !bucket.is_empty() => virtual_host.with_bucket(bucket),
            _ => virtual_host,
        })
    }
}
