//! What a customer's security team is asked for: the least that a destination's settings need, as JSON, Terraform or CloudFormation.
//!
//! Pure: settings and the owner's present policy go in, text comes out. No statement denies anything. A Deny on encryption or ACL headers
//! would have to spare the requests that carry none (parts and completions), and `…IfExists` does not: in a Deny it meets exactly the
//! requests without the header. `docs/onboarding.md` has the form that works, and `tests/policy` evaluates it.

mod document;
mod merge;
mod output;

#[cfg(test)]
mod tests;

use crate::domain::error::{Error, Result};
use crate::domain::settings::{Credentials, Destination, Encryption, Run};

use self::document::Statement;
use self::output::Resource;

/// How a policy is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// The policy's own JSON.
    #[default]
    Json,
    /// A Terraform resource.
    Terraform,
    /// A CloudFormation template.
    CloudFormation,
}

/// What a policy is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The destination.
    pub destination: &'a Destination,
    /// The principal: `--principal`, or `function_role_arn` in `[run]`.
    pub principal: Option<&'a str>,
    /// How it is written down.
    pub output: Output,
    /// The policy that is there, as JSON: ours is added to it.
    pub merge: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// What `dayport policy NAME` asks for: JSON, merged with nothing, with the principal that `[run]` names.
    #[must_use]
    pub fn new(destination: &'a Destination, run: &'a Run) -> Self {
        Wanted { destination, principal: run.function_role_arn.as_deref(), output: Output::Json, merge: None }
    }
}

/// A policy, and what has to be said with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// The text, for standard output: nothing but the document, so that it can go into a file.
    pub text: String,
    /// One line each, for standard error: where the document goes, what it replaces, what the other side needs.
    pub notes: Vec<String>,
}

/// The most bytes of a bucket policy. Source: Amazon S3 User Guide, "Bucket policies for Amazon S3".
const MOST_BYTES: usize = 20 * 1024;

/// What opens the customer's bucket: the bucket policy for the function's role; with `role_arn` or a key pair, the identity policy of
/// that role or user instead, since then it is theirs that signs.
///
/// Fails with kind `Vendor` when there is no principal to name, or `merge` is not a policy.
pub fn bucket(wanted: &Wanted<'_>) -> Result<Printed> {
    let destination = wanted.destination;
    match &destination.credentials {
        Credentials::Own => bucket_policy(wanted),
        Credentials::Role { role_arn, .. } => {
            let (_, role) = path_and_name(role_arn);
            identity_policy(wanted, &format!("the role `{role_arn}`"), Some(role))
        }
        Credentials::Secret { .. } | Credentials::Environment { .. } => {
            identity_policy(wanted, "the IAM user that the key pair belongs to", None)
        }
    }
}

fn bucket_policy(wanted: &Wanted<'_>) -> Result<Printed> {
    let destination = wanted.destination;
    let principal = role(wanted.principal)?;
    let statements: Vec<Statement> = object_statements(destination, &partition(Some(principal), destination))
        .into_iter()
        .map(|statement| statement.granted_to(principal))
        .collect();
    let text = document::assemble(destination, &statements, wanted.merge)?;
    if text.len() > MOST_BYTES {
        return Err(Error::vendor(format!(
            "the bucket policy would be {} bytes and S3 takes {MOST_BYTES}, shorten the one that is there",
            text.len()
        )));
    }
    let bucket = &destination.s3_bucket;
    let mut notes = vec![format!("for the owner of `{bucket}`: this is the bucket's policy, apply it as a whole")];
    if wanted.merge.is_none() {
        notes.push(format!(
            "applying a policy replaces the one that is there: save that with `aws s3api get-bucket-policy --bucket {bucket} --query Policy --output text > theirs.json`, and `--merge theirs.json` adds ours to it"
        ));
    }
    notes.extend(wanted.merge.map(merge::warnings).unwrap_or_default());
    if destination.encryption.as_ref().is_some_and(|encryption| matches!(encryption, Encryption::Kms(_))) {
        notes.push("the KMS key has a policy of its own: `--kms` prints its statement".to_owned());
    }
    let text = output::write(wanted.output, destination, &Resource::BucketPolicy, text)?;
    Ok(Printed { text, notes })
}

fn identity_policy(wanted: &Wanted<'_>, whose: &str, role: Option<&str>) -> Result<Printed> {
    let destination = wanted.destination;
    if wanted.merge.is_some() {
        return Err(Error::vendor(format!(
            "`--merge` is for a bucket policy, and `{}` signs as {whose}: attach the policy to it as one of its own",
            destination.name
        )));
    }
    let partition = partition(None, destination);
    let mut statements = object_statements(destination, &partition);
    if let Some(Encryption::Kms(Some(key))) = &destination.encryption {
        statements.push(key_statement(destination, key));
    }
    let text = document::assemble(destination, &statements, None)?;
    let text = output::write(wanted.output, destination, &Resource::IdentityPolicy { role }, text)?;
    let bucket = &destination.s3_bucket;
    let mut notes = vec![
        format!(
            "for the customer: attach this policy to {whose}; the policy of `{bucket}` needs nothing, if both are of one account"
        ),
        format!("if `{bucket}` is another account's, its bucket policy has to allow the same to {whose}"),
    ];
    if role.is_some() {
        notes.push("the role's trust policy is printed by `--trust`".to_owned());
    }
    Ok(Printed { text, notes })
}

/// `--kms`: the statement for the customer's key, and the one for the identity that signs; merged into a key policy, that whole policy.
///
/// Fails with kind `Vendor` without `kms_key_arn`, or without a principal to name.
pub fn kms(wanted: &Wanted<'_>) -> Result<Printed> {
    let destination = wanted.destination;
    let Some(Encryption::Kms(Some(key))) = &destination.encryption else {
        return Err(Error::vendor(format!(
            "no KMS key is configured for `{}`, set `encryption = \"aws:kms\"` and `kms_key_arn` (the AWS managed key `aws/s3` can't be used from another account)",
            destination.name
        )));
    };
    let statement = key_statement(destination, key);
    let (principal, whose, how) = match &destination.credentials {
        Credentials::Own => (role(wanted.principal)?, "our role".to_owned(), " (the stack's parameter `KmsKeyArns`)"),
        Credentials::Role { role_arn, .. } => {
            (role_arn.as_str(), format!("the role `{role_arn}`"), ", as `dayport policy` prints it")
        }
        Credentials::Secret { .. } | Credentials::Environment { .. } => match wanted.principal {
            Some(_) => (role(wanted.principal)?, "that user".to_owned(), ", as `dayport policy` prints it"),
            None => {
                return Err(Error::vendor(
                    "the key pair's user is not known here, name it with `--principal arn:aws:iam::ACCOUNT:user/NAME`",
                ));
            }
        },
    };
    let granted = statement.clone().granted_to(principal);
    let mut notes = vec![format!("for the owner of `{key}`: the key's policy needs the statement, beside what is there")];
    let text = match wanted.merge {
        Some(_) => {
            notes.push(
                "`aws kms put-key-policy --policy-name default` replaces the whole policy: keep the owner's own statement"
                    .to_owned(),
            );
            let merged = document::assemble(destination, &[granted], wanted.merge)?;
            output::write(wanted.output, destination, &Resource::KeyPolicy { key }, merged)?
        }
        None if wanted.output == Output::Json => {
            notes.push(format!("{whose} needs the same in its own policy{how}"));
            document::two_sides(&granted, &statement)?
        }
        None => {
            return Err(Error::vendor(
                "a key's policy without its owner's statement would lock everybody out, add `--merge FILE` with the one that is there",
            ));
        }
    };
    Ok(Printed { text, notes })
}

/// `--trust`: the trust policy of the customer's role that `role_arn` names.
///
/// Fails with kind `Vendor` without `role_arn`, or without a principal to name.
pub fn trust(wanted: &Wanted<'_>) -> Result<Printed> {
    let destination = wanted.destination;
    let Credentials::Role { role_arn, external_id } = &destination.credentials else {
        return Err(Error::vendor(format!("`{}` assumes no role, set `role_arn` and `external_id`", destination.name)));
    };
    let principal = role(wanted.principal)?;
    let mut statement = Statement::new(destination, "Assume", &["sts:AssumeRole"]);
    if let Some(external_id) = external_id {
        statement = statement.when("StringEquals", "sts:ExternalId", external_id);
    }
    let statement = statement.granted_to(principal);
    let text = document::assemble(destination, &[statement], wanted.merge)?;
    let (path, name) = path_and_name(role_arn);
    let text = output::write(wanted.output, destination, &Resource::TrustPolicy { path, role: name }, text)?;
    let mut notes = vec![format!("for the customer: this is the trust policy of `{role_arn}`")];
    if external_id.is_none() {
        notes.push("no `external_id` is set: with one, nobody else who uses our role can be made to use theirs".to_owned());
    }
    notes.push(format!("our role needs `sts:AssumeRole` on it: add `{role_arn}` to the stack's parameter `AssumableRoleArns`"));
    Ok(Printed { text, notes })
}

/// The statements of CONTRACT.md §5's table, without a principal: what `destination`'s settings need on its bucket, over TLS only, and
/// on nothing outside its prefix.
fn object_statements(destination: &Destination, partition: &str) -> Vec<Statement> {
    let bucket = format!("arn:{partition}:s3:::{}", destination.s3_bucket);
    let prefix = literal(destination.s3_prefix.as_str());
    let objects = format!("{bucket}/{prefix}*");
    let on = |kind: &str, actions: &[&'static str], resource: &str| {
        Statement::new(destination, kind, actions).on(resource).when("Bool", "aws:SecureTransport", "true")
    };
    let mut statements = vec![on("Write", &["s3:PutObject", "s3:AbortMultipartUpload"], &objects)];
    if destination.layout.deletes() {
        statements.push(on("Delete", &["s3:DeleteObject"], &objects));
    }
    if destination.acl.is_some() {
        statements.push(on("Acl", &["s3:PutObjectAcl"], &objects));
    }
    if destination.verify {
        statements.push(on("Read", &["s3:GetObject"], &objects));
        statements.push(on("List", &["s3:ListBucket"], &bucket).when("StringLike", "s3:prefix", &format!("{prefix}*")));
    }
    if destination.sweep {
        // No condition key narrows it to a prefix (Service Authorization Reference, "Actions defined by Amazon S3").
        statements.push(on("Sweep", &["s3:ListBucketMultipartUploads"], &bucket));
    }
    statements
}

/// A multipart upload under SSE-KMS needs both: the first encrypts, the second reads the parts to join them.
fn key_statement(destination: &Destination, key: &str) -> Statement {
    let statement = Statement::new(destination, "UseKey", &["kms:GenerateDataKey", "kms:Decrypt"]).on(key);
    // arn:PARTITION:kms:REGION:ACCOUNT:key/ID; the rule of `kms_key_arn` says so.
    let mut parts = key.split(':').skip(1);
    match (parts.next(), parts.nth(1)) {
        (Some(partition), Some(region)) => {
            statement.when("StringEquals", "kms:ViaService", &format!("s3.{region}.{}", dns_suffix(partition)))
        }
        _ => statement,
    }
}

/// Path (with its slashes) and name of the role in an ARN such as `arn:aws:iam::123456789012:role/exports/name`.
fn path_and_name(role_arn: &str) -> (&str, &str) {
    let resource = role_arn.split_once(":role").map_or(role_arn, |(_, resource)| resource);
    match resource.rfind('/').and_then(|slash| resource.split_at_checked(slash + 1)) {
        Some((path, name)) => (path, name),
        None => ("/", resource),
    }
}

fn dns_suffix(partition: &str) -> &'static str {
    match partition {
        "aws-cn" => "amazonaws.com.cn",
        _ => "amazonaws.com",
    }
}

/// The AWS partition that ARNs are written for: the principal's, else the region's.
fn partition(principal: Option<&str>, destination: &Destination) -> String {
    let of_arn = |arn: &str| arn.strip_prefix("arn:").and_then(|rest| rest.split(':').next()).map(str::to_owned);
    let signer = match &destination.credentials {
        Credentials::Role { role_arn, .. } => of_arn(role_arn),
        _ => principal.and_then(of_arn),
    };
    signer.unwrap_or_else(|| {
        let region = destination.s3_region.as_deref().unwrap_or_default();
        let partition = if region.starts_with("cn-") {
            "aws-cn"
        } else if region.starts_with("us-gov-") {
            "aws-us-gov"
        } else {
            "aws"
        };
        partition.to_owned()
    })
}

fn role(principal: Option<&str>) -> Result<&str> {
    let Some(principal) = principal else {
        return Err(Error::vendor(
            "there is no principal to name, set `function_role_arn` in `[run]` to the stack's output `RoleArn`, or give `--principal`",
        ));
    };
    let parts: Vec<&str> = principal.splitn(6, ':').collect();
    let is_one_identity = match parts.as_slice() {
        ["arn", partition, "iam", "", account, name] => {
            partition.starts_with("aws")
                && account.len() == 12
                && account.bytes().all(|byte| byte.is_ascii_digit())
                && (name.starts_with("role/") || name.starts_with("user/"))
                && !name.ends_with('/')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+=,.@_/-".contains(&byte))
        }
        _ => false,
    };
    if !is_one_identity {
        return Err(Error::vendor(format!(
            "`{}` names no role or user, write its full ARN such as `arn:aws:iam::123456789012:role/dayport`",
            principal.escape_debug()
        )));
    }
    Ok(principal)
}

/// Text as it stands, where a policy would read `*` and `?` as wildcards and `$` as the start of a variable.
/// Source: IAM User Guide, "IAM policy elements: Variables and tags", special characters (from version 2012-10-17 on).
fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '*' | '?' | '$' => {
                literal.push_str("${");
                literal.push(letter);
                literal.push('}');
            }
            _ => literal.push(letter),
        }
    }
    literal
}
