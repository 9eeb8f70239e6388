//! Whose credentials sign for a customer's bucket: the function's own, an assumed role's, or a key pair that is named and never written down.
//!
//! | configured | provider | how long | read again |
//! |---|---|---|---|
//! | nothing | none: the SDK's own chain, so the function's role | as Lambda renews it | by the SDK |
//! | `role_arn`, `external_id` | STS `AssumeRole`, signed by the function's role | one hour | before it ends |
//! | `credentials.secret_arn` | Secrets Manager `GetSecretValue`, in the secret's region | for ever | once, when S3 refuses it |
//! | `credentials.*_env` | two environment variables | for ever | once, when S3 refuses it |
//!
//! What a provider fails with is an [`Error`] of the crate inside the SDK's, so that whoever sent the request learns who must act. No
//! key gets into it, nor into `Debug`: see [`Secret`].

mod refused;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use aws_credential_types::Credentials as Signing;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Providing;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_secretsmanager::config::Region;
use serde::Deserialize;

use crate::domain::error::{Error, Result};
use crate::domain::settings::{Credentials, Destination};
use crate::store::s3::{Clients, plain};

/// The longest session of a role that was assumed by a role, which the function's is. Source: IAM User Guide, "Methods to assume a
/// role", role chaining.
const SESSION_SECONDS: i32 = 3600;
/// The longest name of a session. Source: AWS STS API Reference, `AssumeRole`, `RoleSessionName`.
const LONGEST_SESSION_NAME: usize = 64;

/// Looks an environment variable up; one that is empty counts as not set.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The provider of a destination's credentials; `None` where the function's own sign.
///
/// Nothing is read or asked for yet: that happens with the first request, and a failure is that request's.
#[must_use]
pub fn provider(destination: &Destination, clients: &Clients, variables: &Variables) -> Option<SharedCredentialsProvider> {
    let source = match &destination.credentials {
        Credentials::Own => return None,
        Credentials::Role { role_arn, external_id } => Source::Role(AssumedRole {
            client: aws_sdk_sts::Client::new(clients.sdk_config()),
            role_arn: role_arn.clone(),
            external_id: external_id.clone(),
            session_name: session_name(&destination.name),
        }),
        Credentials::Secret { secret_arn } => {
            Source::Secret(StoredSecret { client: secrets_client(clients, secret_arn), secret_arn: secret_arn.clone() })
        }
        Credentials::Environment { access_key_id_env, secret_access_key_env } => Source::Environment(Named {
            access_key_id_env: access_key_id_env.clone(),
            secret_access_key_env: secret_access_key_env.clone(),
            variables: Arc::clone(variables),
        }),
    };
    Some(SharedCredentialsProvider::new(source))
}

/// What tells a customer whose log shows it where a session comes from.
fn session_name(destination: &str) -> String {
    format!("dayport-{destination}").chars().take(LONGEST_SESSION_NAME).collect()
}

/// A secret lies in one region, which need not be the function's.
fn secrets_client(clients: &Clients, secret_arn: &str) -> aws_sdk_secretsmanager::Client {
    let region = secret_arn.split(':').nth(3).map(|region| Region::new(region.to_owned()));
    let config = aws_sdk_secretsmanager::config::Builder::from(clients.sdk_config());
    let config = match region {
        Some(region) => config.region(region),
        None => config,
    };
    aws_sdk_secretsmanager::Client::from_conf(config.build())
}

/// Text that nothing prints.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
struct Secret(String);

impl Secret {
    /// The text without what an editor or a shell may have put around it.
    fn bare(&self) -> &str {
        self.0.trim()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

/// A key pair under the names that Pontoon's secrets have.
#[derive(Clone, Debug, Deserialize)]
struct KeyPair {
    aws_access_key_id: Secret,
    aws_secret_access_key: Secret,
}

impl KeyPair {
    /// Credentials that never end by themselves.
    fn signing(&self) -> Signing {
        Signing::new(self.aws_access_key_id.bare(), self.aws_secret_access_key.bare(), None, None, "dayport")
    }

    fn is_whole(&self) -> bool {
        !self.aws_access_key_id.bare().is_empty() && !self.aws_secret_access_key.bare().is_empty()
    }
}

/// Where credentials come from.
#[derive(Debug)]
enum Source {
    Role(AssumedRole),
    Secret(StoredSecret),
    Environment(Named),
}

impl ProvideCredentials for Source {
    fn provide_credentials<'a>(&'a self) -> Providing<'a>
    where
        Self: 'a,
    {
        Providing::new(async move {
            let provided = match self {
                Source::Role(role) => role.assume().await,
                Source::Secret(secret) => secret.read().await.map(|pair| pair.signing()),
                Source::Environment(named) => named.read().map(|pair| pair.signing()),
            };
            provided.map_err(CredentialsError::provider_error)
        })
    }
}

/// A role on the customer's side.
#[derive(Debug)]
struct AssumedRole {
    client: aws_sdk_sts::Client,
    role_arn: String,
    external_id: Option<String>,
    session_name: String,
}

impl AssumedRole {
    async fn assume(&self) -> Result<Signing> {
        let role = &self.role_arn;
        let answer = self
            .client
            .assume_role()
            .role_arn(role)
            .role_session_name(&self.session_name)
            .duration_seconds(SESSION_SECONDS)
            .set_external_id(self.external_id.clone())
            .send()
            .await
            .map_err(|error| refused::by_sts(&error, role, self.external_id.is_some()))?;
        let given = answer.credentials().ok_or_else(|| {
            Error::retryable(format!(
                "the answer to AssumeRole of `{role}` has no credentials, call again and check the endpoint if it lasts"
            ))
        })?;
        let ends = SystemTime::try_from(*given.expiration()).ok();
        let token = Some(given.session_token().to_owned());
        Ok(Signing::new(given.access_key_id(), given.secret_access_key(), token, ends, "dayport"))
    }
}

/// A key pair in Secrets Manager.
#[derive(Debug)]
struct StoredSecret {
    client: aws_sdk_secretsmanager::Client,
    secret_arn: String,
}

impl StoredSecret {
    async fn read(&self) -> Result<KeyPair> {
        let arn = &self.secret_arn;
        let answer = self
            .client
            .get_secret_value()
            .secret_id(arn)
            .send()
            .await
            .map_err(|error| refused::by_secrets_manager(&error, arn))?;
        // What the parser says of a text quotes it, so it is dropped.
        let pair: Option<KeyPair> = answer.secret_string().and_then(|text| serde_json::from_str(text).ok());
        pair.filter(KeyPair::is_whole).ok_or_else(|| {
            Error::vendor(format!(
                "the secret `{arn}` is not JSON with both `aws_access_key_id` and `aws_secret_access_key`, store it as `{{\"aws_access_key_id\": …, \"aws_secret_access_key\": …}}`"
            ))
        })
    }
}

/// A key pair in the environment.
struct Named {
    access_key_id_env: String,
    secret_access_key_env: String,
    variables: Variables,
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Named({}, {})", self.access_key_id_env, self.secret_access_key_env)
    }
}

impl Named {
    fn read(&self) -> Result<KeyPair> {
        let get = |name: &str| {
            let value = (self.variables)(name).filter(|value| !value.trim().is_empty());
            value.map(Secret).ok_or_else(|| {
                Error::vendor(format!(
                    "the environment variable `{}` with the customer's key is not set, set it for the function",
                    plain(name)
                ))
            })
        };
        Ok(KeyPair { aws_access_key_id: get(&self.access_key_id_env)?, aws_secret_access_key: get(&self.secret_access_key_env)? })
    }
}
