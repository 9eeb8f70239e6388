//! What the tests of this room share.

use crate::config::{Environment, parse};
use crate::domain::settings::{Destination, Settings};

/// The stack's output `RoleArn`.
pub(super) const ROLE: &str = "arn:aws:iam::999988887777:role/dayport";
/// A key of the customer's.
pub(super) const KEY: &str = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
/// A role of the customer's.
pub(super) const THEIR_ROLE: &str = "arn:aws:iam::111122223333:role/exports/dayport-writer";
/// A secret with a key pair of the customer's.
pub(super) const SECRET: &str = "arn:aws:secretsmanager:eu-central-1:999988887777:secret:acme-AbCdEf";

const CONFIGURATION: &str = r#"
[staging]
s3_bucket = "staged-events"
[state]
s3_bucket = "dayport-state"
[run]
function_role_arn = "arn:aws:iam::999988887777:role/dayport"
[[destination]]
name = "acme"
s3_bucket = "acme-events"
s3_prefix = "exports"
"#;

/// Three buckets, everything else by default.
pub(super) fn settings() -> Settings {
    parse(CONFIGURATION, &Environment::default()).unwrap()
}

/// `acme`: the permutive layout under `exports/` of `acme-events`, nothing else set.
pub(super) fn destination() -> Destination {
    settings().destinations.remove(0)
}
