//! `[[destination]]`: from what was written to ready values.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::Section;
use super::rules::Origin;
use super::sections::{MOST_BYTES, days};
use super::values::{self, shown};
use super::written::{Fields, Report};
use crate::domain::format::Format;
use crate::domain::layout::Layout;
use crate::domain::settings::{Checksum, Credentials, Destination, Encryption, PartitionBy};

/// All destinations, in the file's order.
pub(super) fn read_all(report: &Report<'_>, document: &DeTable<'_>) -> (Vec<Destination>, Vec<Origin>) {
    let Some((key, written)) = document.get_key_value("destination") else {
        report.add(None, "no destination is configured, add a section `[[destination]]`");
        return (Vec::new(), Vec::new());
    };
    let at = Some(key.span().start);
    match written.get_ref() {
        DeValue::Array(list) if list.is_empty() => {
            report.add(at, "no destination is configured, add a section `[[destination]]`");
            (Vec::new(), Vec::new())
        }
        DeValue::Array(list) => list.iter().filter_map(|element| read_element(report, element)).unzip(),
        other => {
            report.add(at, format!("`destination` is {}, write `[[destination]]` with two brackets for each", shown(other)));
            (Vec::new(), Vec::new())
        }
    }
}

fn read_element(report: &Report<'_>, element: &Spanned<DeValue<'_>>) -> Option<(Destination, Origin)> {
    let at = Some(element.span().start);
    let Some(table) = element.get_ref().as_table() else {
        report.add(at, format!("a destination is {}, write a section `[[destination]]`", shown(element.get_ref())));
        return None;
    };
    let name = table.get("name").and_then(|name| values::destination_name(name.get_ref()).ok());
    let label = name.map_or_else(|| "`[[destination]]`".to_owned(), |name| format!("`[[destination]]` `{name}`"));
    let fields = Fields::new(report, Section::Destination, label, at, Some(table));
    Some(read(&fields))
}

fn read(fields: &Fields<'_>) -> (Destination, Origin) {
    let mistakes_before = fields.report.count();
    let s3_bucket = fields.get("s3_bucket", values::bucket);
    let s3_prefix = fields.get("s3_prefix", values::prefix);
    let place_known = s3_bucket.is_some() && s3_prefix.is_some();
    let format = fields
        .get("format", |value| values::one_of(value, &[("parquet", Format::Parquet), ("json", Format::Json)]))
        .unwrap_or(Format::Parquet);
    let layout = fields
        .get("layout", |value| values::one_of(value, &[("permutive", Layout::Permutive), ("pontoon", Layout::Pontoon)]))
        .unwrap_or(Layout::Permutive);
    let partition_by = fields
        .get("partition_by", |value| {
            values::one_of(value, &[("staged_day", PartitionBy::StagedDay), ("time", PartitionBy::Time)])
        })
        .unwrap_or(PartitionBy::StagedDay);
    if partition_by == PartitionBy::Time && !layout.can_partition_by_time() {
        fields
            .mistake("partition_by", format!("can't be `time` with `layout = \"{}\"`, leave one of the two out", layout.name()));
    }
    let file_size = |value: &DeValue<'_>| values::size(value, 1024, MOST_BYTES);
    let destination = Destination {
        name: fields.ready("name", values::destination_name),
        s3_bucket: s3_bucket.unwrap_or_default(),
        s3_prefix: s3_prefix.unwrap_or_default(),
        s3_region: fields.get("s3_region", values::region),
        format,
        layout,
        partition_by,
        max_lateness_days: fields.ready("max_lateness_days", |value| values::whole(value, 0, 36_500)),
        target_file_size: fields.get("target_file_size", file_size).unwrap_or(format.default_target_file_size()),
        snapshot_file_size: fields.ready("snapshot_file_size", file_size),
        allow_empty_snapshot: fields.ready("allow_empty_snapshot", values::boolean),
        dedupe: fields.get("dedupe", values::text),
        organization: fields.get("organization", values::text),
        enabled: fields.ready("enabled", values::boolean),
        start_date: fields.get("start_date", values::day),
        lag_days: fields.get("lag_days", days),
        manifest: fields.ready("manifest", values::boolean),
        verify: fields.ready("verify", values::boolean),
        sweep: fields.ready("sweep", values::boolean),
        expected_bucket_owner: fields.get("expected_bucket_owner", values::account),
        encryption: encryption(fields),
        acl: fields
            .get("acl", |value| values::one_of(value, &[("bucket-owner-full-control", "bucket-owner-full-control".to_owned())])),
        requester_pays: fields.ready("requester_pays", values::boolean),
        path_style: fields.ready("path_style", values::boolean),
        checksum: fields
            .get("checksum", |value| {
                values::one_of(value, &[("always", Checksum::Always), ("when_required", Checksum::WhenRequired)])
            })
            .unwrap_or(Checksum::Always),
        credentials: credentials(fields),
    };
    (destination, Origin::of(fields, mistakes_before, place_known))
}

fn encryption(fields: &Fields<'_>) -> Option<Encryption> {
    let asked = fields.get("encryption", |value| {
        let is_customer_key = value.as_str().is_some_and(|text| text.to_lowercase().contains("sse-c"));
        if is_customer_key {
            return Err("customer-provided keys (SSE-C) are refused, write `\"aws:kms\"` or `\"AES256\"`".to_owned());
        }
        values::one_of(value, &[("AES256", Encryption::Aes256), ("aws:kms", Encryption::Kms(None))])
    });
    let key = fields.get("kms_key_arn", values::kms_key_arn);
    match asked {
        Some(Encryption::Kms(_)) => Some(Encryption::Kms(key)),
        other => {
            if fields.has("kms_key_arn") {
                fields.mistake("kms_key_arn", "goes only with `encryption = \"aws:kms\"`, write that too or leave it out");
            }
            other
        }
    }
}

fn credentials(fields: &Fields<'_>) -> Credentials {
    let role_arn = fields.get("role_arn", values::role_arn);
    let external_id = fields.get("external_id", values::external_id);
    if fields.has("external_id") && !fields.has("role_arn") {
        fields.mistake("external_id", "goes only with `role_arn`, write that too or leave it out");
    }
    let pair = fields.written("credentials").and_then(|(at, value)| key_pair(fields, at, value));
    if fields.has("credentials") && fields.has("role_arn") {
        fields.mistake("credentials", "can't go with `role_arn`, leave one of the two out");
    }
    match (pair, role_arn) {
        (Some(pair), _) => pair,
        (None, Some(role_arn)) => Credentials::Role { role_arn, external_id },
        (None, None) => Credentials::Own,
    }
}

/// `credentials = { … }`. No value of it ever gets into a message.
fn key_pair(fields: &Fields<'_>, at: usize, value: &DeValue<'_>) -> Option<Credentials> {
    let advice = "write `{ secret_arn = … }` or `{ access_key_id_env = …, secret_access_key_env = … }`";
    let Some(table) = value.as_table() else {
        fields.mistake("credentials", format!("is not a table, {advice}"));
        return None;
    };
    let label = format!("`credentials` of {}", fields.label);
    let inner = Fields::new(fields.report, Section::Credentials, label, Some(at), Some(table));
    let secret_arn = inner.get("secret_arn", values::secret_arn);
    let access_key_id_env = inner.get("access_key_id_env", values::variable_name);
    let secret_access_key_env = inner.get("secret_access_key_env", values::variable_name);
    let has = ["secret_arn", "access_key_id_env", "secret_access_key_env"].map(|name| inner.has(name));
    match has {
        [true, false, false] => Some(Credentials::Secret { secret_arn: secret_arn? }),
        [false, true, true] => Some(Credentials::Environment {
            access_key_id_env: access_key_id_env?,
            secret_access_key_env: secret_access_key_env?,
        }),
        _ => {
            fields.mistake("credentials", format!("is not whole, {advice}"));
            None
        }
    }
}
