//! S3 clients: made once, with our own retries, timeouts and addressing.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::endpoint::{DefaultResolver, EndpointFuture, Params, ResolveEndpoint};
use aws_sdk_s3::config::retry::{RetryConfig, RetryPartition, TokenBucket};
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    AppName, Builder, RequestChecksumCalculation, ResponseChecksumValidation, SharedCredentialsProvider,
    StalledStreamProtectionConfig,
};

use super::{RequestOptions, S3Bucket, Side};
use crate::domain::settings::{Destination, Staging, State};
use crate::store::sqs::{SqsQueue, region_of};

/// A connection that is not there by then is tried again.
const CONNECT: Duration = Duration::from_secs(5);
/// What completing an upload gets on top of an ordinary request: S3 says that it "can take several minutes".
const COMPLETION: Duration = Duration::from_mins(5);
/// The slowest upload that is waited for, in bytes a second: a part of 16 MiB gets 256 seconds on top of an ordinary request.
const SLOWEST_UPLOAD: u64 = 64 * 1024;
/// What a request's attempts may wait for in all, beside two whole attempts.
const WAITING: Duration = Duration::from_secs(150);
/// A body that brings nothing for so long is broken, and is read on.
const STALLED: Duration = Duration::from_secs(20);

/// How patient requests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// The most attempts of one request.
    pub attempts: u32,
    /// The base of the first pause after throttling; it doubles each time. (After other failures the SDK begins with 50 ms.)
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// The longest that one attempt of an ordinary request takes until its answer's headers are there. Uploads get more for their
    /// bytes, completions for their work.
    pub attempt: Duration,
}

impl Default for Retries {
    /// Outlasts throttling for about a minute: pauses are drawn evenly from 0 to 1, 2, 4, 8, 16, 20, 20, … seconds, so that 12
    /// attempts wait 75 seconds on average.
    fn default() -> Self {
        Retries {
            attempts: 12,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(20),
            attempt: Duration::from_mins(1),
        }
    }
}

/// Where a bucket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its name.
    pub bucket: String,
    /// Its region; found out from S3's own answers if left out.
    pub region: Option<String>,
    /// Path-style addressing (implied by a name with dots and by a custom endpoint).
    pub path_style: bool,
}

/// Makes the clients of all buckets from one loaded configuration, so that they share credentials and their cache.
#[derive(Clone, Debug)]
pub struct Clients {
    config: SdkConfig,
    retries: Retries,
}

impl Clients {
    /// Loads the SDK's configuration (environment, profile, the function's role) once. `AWS_ENDPOINT_URL` and
    /// `AWS_ENDPOINT_URL_S3` are honoured. Without a region anywhere it is `us-east-1`, whose endpoint names any other.
    pub async fn from_environment(retries: Retries) -> Self {
        let mut config = aws_config::defaults(BehaviorVersion::latest());
        if let Ok(name) = AppName::new("dayport") {
            config = config.app_name(name);
        }
        Self::new(config.load().await, retries)
    }

    /// Clients over a configuration that was made by hand.
    #[must_use]
    pub fn new(config: SdkConfig, retries: Retries) -> Self {
        let config = match config.region() {
            Some(_) => config,
            None => config.into_builder().region(Region::from_static("us-east-1")).build(),
        };
        Clients { config, retries }
    }

    /// The SDK's configuration, for the clients of other services.
    #[must_use]
    pub fn sdk_config(&self) -> &SdkConfig {
        &self.config
    }

    /// The staging bucket.
    #[must_use]
    pub fn staging(&self, staging: &Staging) -> S3Bucket {
        let address = Address { bucket: staging.s3_bucket.clone(), region: staging.s3_region.clone(), path_style: false };
        self.bucket(&address, None, RequestOptions::default(), Side::Vendor)
    }

    /// The state bucket.
    #[must_use]
    pub fn state(&self, state: &State) -> S3Bucket {
        let address = Address { bucket: state.s3_bucket.clone(), region: state.s3_region.clone(), path_style: false };
        self.bucket(&address, None, RequestOptions::default(), Side::Vendor)
    }

    /// A destination's bucket; `credentials` where the destination's are not our own.
    #[must_use]
    pub fn destination(&self, destination: &Destination, credentials: Option<SharedCredentialsProvider>) -> S3Bucket {
        let address = Address {
            bucket: destination.s3_bucket.clone(),
            region: destination.s3_region.clone(),
            path_style: destination.path_style,
        };
        self.bucket(&address, credentials, RequestOptions::of_destination(destination), Side::Customer)
    }

    /// Any bucket. Its region is found out from S3's answers where the address names none.
    #[must_use]
    pub fn bucket(
        &self,
        address: &Address,
        credentials: Option<SharedCredentialsProvider>,
        options: RequestOptions,
        side: Side,
    ) -> S3Bucket {
        let renews = credentials.is_some();
        let client = self.client(address, credentials);
        S3Bucket::new(client, &address.bucket, options, side)
            .following_region(address.region.is_none())
            .renewing_credentials(renews)
    }

    /// The queue at `url`, in the region that the URL names or else the function's. `AWS_ENDPOINT_URL` and `AWS_ENDPOINT_URL_SQS` are
    /// honoured.
    #[must_use]
    pub fn queue(&self, url: &str) -> SqsQueue {
        let mut builder = aws_sdk_sqs::config::Builder::from(&self.config)
            .retry_config(self.retry_config())
            .retry_partition(retry_partition())
            .timeout_config(timeouts(self.retries.attempt))
            // A long poll brings nothing for 20 seconds, as it should; answers are small, and the attempt's timeout holds for them.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(region) = region_of(url) {
            builder = builder.region(Region::new(region.to_owned()));
        }
        SqsQueue::new(aws_sdk_sqs::Client::from_conf(builder.build()), url)
    }

    fn retry_config(&self) -> RetryConfig {
        RetryConfig::standard()
            .with_max_attempts(self.retries.attempts)
            .with_initial_backoff(self.retries.first_pause)
            .with_max_backoff(self.retries.longest_pause)
    }

    /// A client with our settings.
    #[must_use]
    pub fn client(&self, address: &Address, credentials: Option<SharedCredentialsProvider>) -> Client {
        let stalled = StalledStreamProtectionConfig::enabled().grace_period(STALLED).build();
        let mut builder = Builder::from(&self.config)
            .endpoint_resolver(Addressing::new(address.path_style))
            .retry_config(self.retry_config())
            .retry_partition(retry_partition())
            .timeout_config(timeouts(self.retries.attempt))
            .stalled_stream_protection(stalled)
            // Checksums are ours (see RequestOptions), and set in code: the environment must not add or take any. On reads, TLS
            // and the checks of gzip, zstd and Parquet stand for them: one that fails after the last byte would come too late.
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        if let Some(region) = &address.region {
            builder = builder.region(Region::new(region.clone()));
        }
        if let Some(credentials) = credentials {
            builder.set_credentials_provider(Some(credentials));
        }
        Client::from_conf(builder.build())
    }
}

/// The SDK's budget of 100 retries per process and region would end the patience of many parts at once after seconds.
fn retry_partition() -> RetryPartition {
    let budget = TokenBucket::builder().capacity(10_000).refill_rate(50.0).build();
    RetryPartition::custom("dayport").token_bucket(budget).build()
}

fn timeouts(attempt: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(attempt)
        .operation_timeout(2 * attempt + WAITING)
        .build()
}

/// For one upload of `bytes`: time for a slow link.
pub(super) fn patient_for(client: &Client, bytes: usize) -> Builder {
    longer(client, Duration::from_secs(bytes as u64 / SLOWEST_UPLOAD))
}

/// For the completion of an upload.
pub(super) fn patient_for_completion(client: &Client) -> Builder {
    longer(client, COMPLETION)
}

fn longer(client: &Client, by: Duration) -> Builder {
    let ordinary = client.config().timeout_config().and_then(TimeoutConfig::operation_attempt_timeout);
    let mut builder = Builder::new();
    builder.set_timeout_config(ordinary.map(|ordinary| timeouts(ordinary + by)));
    builder
}

/// The SDK's endpoint rules, with path style wherever a bucket's name can't be, or needn't be, a host name: dots would break the
/// TLS name check, and a custom endpoint (a local one above all) has no names below its own.
#[derive(Debug)]
pub(super) struct Addressing {
    path_style: bool,
    rules: DefaultResolver,
}

impl Addressing {
    pub(super) fn new(path_style: bool) -> Self {
        Addressing { path_style, rules: DefaultResolver::new() }
    }
}

impl ResolveEndpoint for Addressing {
    fn resolve_endpoint<'a>(&'a self, params: &'a Params) -> EndpointFuture<'a> {
        let dots = params.bucket().is_some_and(|bucket| bucket.contains('.') && !bucket.starts_with("arn:"));
        let by_path = self.path_style || dots || params.endpoint().is_some();
        if !by_path {
            return ResolveEndpoint::resolve_endpoint(&self.rules, params);
        }
        let changed = Params::builder()
            .set_bucket(params.bucket().map(str::to_owned))
            .set_region(params.region().map(str::to_owned))
            .set_use_fips(params.use_fips())
            .set_use_dual_stack(params.use_dual_stack())
            .set_endpoint(params.endpoint().map(str::to_owned))
            .set_force_path_style(Some(true))
            .set_accelerate(params.accelerate())
            .set_use_global_endpoint(params.use_global_endpoint())
            .set_use_object_lambda_endpoint(params.use_object_lambda_endpoint())
            .set_key(params.key().map(str::to_owned))
            .set_prefix(params.prefix().map(str::to_owned))
            .set_copy_source(params.copy_source().map(str::to_owned))
            .set_disable_access_points(params.disable_access_points())
            .set_disable_multi_region_access_points(params.disable_multi_region_access_points())
            .set_use_arn_region(params.use_arn_region())
            .set_use_s3_express_control_endpoint(params.use_s3_express_control_endpoint())
            .set_disable_s3_express_session_auth(params.disable_s3_express_session_auth())
            .build();
        match changed {
            Ok(changed) => EndpointFuture::new(async move { ResolveEndpoint::resolve_endpoint(&self.rules, &changed).await }),
            Err(error) => EndpointFuture::ready(Err(Box::new(error))),
        }
    }
}
