//! What the tests of this room share.

use crate::domain::format::Format;
use crate::domain::layout::{Layout, Prefix};
use crate::domain::settings::{Checksum, Credentials, Destination, PartitionBy};

/// The stack's output `RoleArn`.
pub(super) const ROLE: &str = "arn:aws:iam::999988887777:role/dayport";
/// A key of the customer's.
pub(super) const KEY: &str = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
/// A role of the customer's.
pub(super) const THEIR_ROLE: &str = "arn:aws:iam::111122223333:role/exports/dayport-writer";
/// A secret with a key pair of the customer's.
pub(super) const SECRET: &str = "arn:aws:secretsmanager:eu-central-1:999988887777:secret:acme-AbCdEf";

/// `acme`: the permutive layout under `exports/` of `acme-events`, nothing else set.
pub(super) fn destination() -> Destination {
    Destination {
        name: "acme".to_owned(),
        s3_bucket: "acme-events".to_owned(),
        s3_prefix: Prefix::parse("exports").unwrap(),
        s3_region: None,
        format: Format::Json,
        layout: Layout::Permutive,
        partition_by: PartitionBy::StagedDay,
        max_lateness_days: 30,
        target_file_size: 64 << 20,
        snapshot_file_size: 4 << 30,
        allow_empty_snapshot: false,
        dedupe: None,
        organization: None,
        enabled: true,
        start_date: None,
        lag_days: None,
        manifest: true,
        verify: false,
        sweep: false,
        expected_bucket_owner: None,
        encryption: None,
        acl: None,
        requester_pays: false,
        path_style: false,
        checksum: Checksum::Always,
        credentials: Credentials::Own,
    }
}
