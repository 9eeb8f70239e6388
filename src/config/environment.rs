//! The environment, captured once at the rim: the only place in the crate that reads environment variables.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

/// The name of each environment variable that Dayport reads.
pub mod variable {
    /// The configuration: a path, or `s3://bucket/key`. `--config` goes before it.
    pub const CONFIG: &str = "DAYPORT_CONFIG";
    /// The function's timeout in seconds, set by the template, since Lambda tells it to nobody: checked against the lease at start.
    pub const FUNCTION_TIMEOUT: &str = "DAYPORT_FUNCTION_TIMEOUT";
    /// For tests alone: the name of a step at which the process panics.
    pub const CRASH_POINT: &str = "DAYPORT_CRASH_POINT";
    /// Set by Lambda: the function's memory in MiB, of which `run.memory_budget` is 70 % by default.
    pub const FUNCTION_MEMORY: &str = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE";
    /// Set by Lambda: the function's name.
    pub const FUNCTION_NAME: &str = "AWS_LAMBDA_FUNCTION_NAME";
    /// Set by Lambda, or by hand: the region of buckets without `s3_region`.
    pub const REGION: &str = "AWS_REGION";
    /// Another address for every AWS service, such as that of `dayport local`. The SDK reads it; Dayport looks whether it is set.
    pub const ENDPOINT_URL: &str = "AWS_ENDPOINT_URL";
    /// The same for S3 alone.
    pub const ENDPOINT_URL_S3: &str = "AWS_ENDPOINT_URL_S3";
    /// The access key id that `dayport local` takes; for all else the SDK reads it.
    pub const ACCESS_KEY_ID: &str = "AWS_ACCESS_KEY_ID";
    /// The secret key that goes with it.
    pub const SECRET_ACCESS_KEY: &str = "AWS_SECRET_ACCESS_KEY";
}

/// Every environment variable that Dayport reads, with what it means: the table of `docs/configuration.md`.
pub const VARIABLES: &[(&str, &str)] = &[
    (variable::CONFIG, "the configuration: a path, or `s3://bucket/key`; `--config` goes before it"),
    (
        variable::FUNCTION_TIMEOUT,
        "the function's timeout in seconds, set by the template; one under twice `lease` plus `deadline_margin` is refused",
    ),
    (variable::CRASH_POINT, "for tests alone: the name of a step at which the process panics"),
    (variable::FUNCTION_MEMORY, "set by Lambda: the function's memory in MiB; `memory_budget` is 70 % of it by default"),
    (variable::FUNCTION_NAME, "set by Lambda: the function's name"),
    (variable::REGION, "set by Lambda, or by hand: the region of buckets without `s3_region`"),
    (variable::ENDPOINT_URL, "another address for every AWS service, such as that of `dayport local`"),
    (variable::ENDPOINT_URL_S3, "the same for S3 alone"),
    (variable::ACCESS_KEY_ID, "the access key id that `dayport local` takes, and that the SDK signs with outside Lambda"),
    (variable::SECRET_ACCESS_KEY, "the secret key that goes with it"),
];

/// What the machine and its environment say, as far as Dayport asks.
#[derive(Clone, Debug)]
pub struct Environment {
    /// [`variable::CONFIG`].
    pub config: Option<String>,
    /// [`variable::FUNCTION_MEMORY`] in bytes; `None` outside Lambda.
    pub function_memory: Option<u64>,
    /// [`variable::FUNCTION_TIMEOUT`]; `None` where it is not known.
    pub function_timeout: Option<Duration>,
    /// [`variable::FUNCTION_NAME`]; `None` outside Lambda.
    pub function_name: Option<String>,
    /// [`variable::REGION`].
    pub region: Option<String>,
    /// Whether [`variable::ENDPOINT_URL`] or [`variable::ENDPOINT_URL_S3`] is set: the store may not be AWS.
    pub has_endpoint_url: bool,
    /// [`variable::CRASH_POINT`].
    pub crash_point: Option<String>,
    /// The key pair of [`variable::ACCESS_KEY_ID`] and [`variable::SECRET_ACCESS_KEY`], where both are set.
    pub key_pair: Option<KeyPair>,
    /// How many threads the machine runs at once, at least 1.
    pub threads: usize,
    /// The system's folder for temporary files.
    pub temp_dir: PathBuf,
}

/// An access key id and its secret key. `Debug` prints neither.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The access key id.
    pub access_key_id: String,
    /// The secret key.
    pub secret_access_key: String,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPair(not shown)")
    }
}

impl Default for Environment {
    /// An environment in which nothing is set: one thread, temporary files in `/tmp`, no Lambda.
    fn default() -> Self {
        Environment {
            config: None,
            function_memory: None,
            function_timeout: None,
            function_name: None,
            region: None,
            has_endpoint_url: false,
            crash_point: None,
            key_pair: None,
            threads: 1,
            temp_dir: PathBuf::from("/tmp"),
        }
    }
}

impl Environment {
    /// Reads the process's environment. A variable that is empty or not UTF-8 counts as not set.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn capture() -> Environment {
        let threads = available_parallelism().map_or(1, usize::from);
        Environment { threads, temp_dir: env::temp_dir(), ..Environment::from_lookup(|name| env::var(name).ok()) }
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Environment {
        let get = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let number = |name: &str| get(name).and_then(|value| value.parse::<u64>().ok());
        let key_pair = get(variable::ACCESS_KEY_ID).zip(get(variable::SECRET_ACCESS_KEY));
        Environment {
            config: get(variable::CONFIG),
            function_memory: number(variable::FUNCTION_MEMORY).map(|mebibytes| mebibytes.saturating_mul(super::MIB)),
            function_timeout: number(variable::FUNCTION_TIMEOUT).map(Duration::from_secs),
            function_name: get(variable::FUNCTION_NAME),
            region: get(variable::REGION),
            has_endpoint_url: get(variable::ENDPOINT_URL).or_else(|| get(variable::ENDPOINT_URL_S3)).is_some(),
            crash_point: get(variable::CRASH_POINT),
            key_pair: key_pair.map(|(access_key_id, secret_access_key)| KeyPair { access_key_id, secret_access_key }),
            ..Environment::default()
        }
    }
}

/// One variable that `dayport.toml` names, read now: a customer's key may have been replaced since the start. Empty counts as not set.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub fn named_variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_of_the_registry_is_read_under_its_name() {
        let all = Environment::from_lookup(|name| {
            Some(if name.ends_with("SIZE") || name.ends_with("TIMEOUT") { "900" } else { name }.to_owned())
        });
        assert_eq!(all.config.as_deref(), Some("DAYPORT_CONFIG"));
        assert_eq!(all.function_memory, Some(900 << 20));
        assert_eq!(all.function_timeout, Some(Duration::from_mins(15)));
        assert_eq!(all.function_name.as_deref(), Some("AWS_LAMBDA_FUNCTION_NAME"));
        assert_eq!(all.region.as_deref(), Some("AWS_REGION"));
        assert_eq!(all.crash_point.as_deref(), Some("DAYPORT_CRASH_POINT"));
        assert!(all.has_endpoint_url);
        assert!(Environment::from_lookup(|name| (name == "AWS_ENDPOINT_URL_S3").then(|| "http://x".to_owned())).has_endpoint_url);
        let pair = all.key_pair.clone().unwrap();
        assert_eq!(
            (pair.access_key_id.as_str(), pair.secret_access_key.as_str()),
            ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        );
        assert!(!format!("{all:?}").contains("AWS_SECRET_ACCESS_KEY"), "a secret would be printed");
    }

    #[test]
    fn an_empty_variable_counts_as_not_set() {
        let none = Environment::from_lookup(|_| Some(String::new()));
        assert_eq!(format!("{none:?}"), format!("{:?}", Environment::default()));
    }

    #[test]
    fn the_machine_always_has_a_thread_and_a_folder() {
        let captured = Environment::capture();
        assert!(captured.threads >= 1);
        assert!(captured.temp_dir.is_absolute());
    }
}
