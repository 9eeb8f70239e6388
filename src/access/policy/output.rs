//! The three ways in which a policy is written down.

use serde::Serialize;
use serde_json::value::RawValue;

use super::Output;
use super::document::{camel, pretty, unwritable};
use crate::domain::error::{Error, Result};
use crate::domain::settings::Destination;

/// What a document belongs to.
#[expect(clippy::enum_variant_names, reason = "the names of the kinds of policy")]
pub(super) enum Resource<'a> {
    BucketPolicy,
    /// Of the role with this name, or of a user that is not known here.
    IdentityPolicy {
        role: Option<&'a str>,
    },
    /// Of the role with this path and name.
    TrustPolicy {
        path: &'a str,
        role: &'a str,
    },
    KeyPolicy {
        key: &'a str,
    },
}

/// Writes a document (its JSON, with a last line end) as a resource of `destination`'s.
pub(super) fn write(output: Output, destination: &Destination, resource: &Resource<'_>, json: String) -> Result<String> {
    match output {
        Output::Json => Ok(json),
        Output::Terraform => terraform(destination, resource, &json),
        Output::CloudFormation => cloudformation(destination, resource, &json),
    }
}

fn terraform(destination: &Destination, resource: &Resource<'_>, json: &str) -> Result<String> {
    let label = format!("dayport_{}", destination.name.replace('-', "_"));
    let document = format!("jsonencode({})", expression(json)?.trim_end().replace('\n', "\n  "));
    let block = |kind: &str, arguments: &[(&str, String)]| {
        let width = arguments.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let lines: String = arguments.iter().map(|(name, value)| format!("  {name:<width$} = {value}\n")).collect();
        format!("resource \"{kind}\" \"{label}\" {{\n{lines}}}\n")
    };
    Ok(match resource {
        Resource::BucketPolicy => {
            block("aws_s3_bucket_policy", &[("bucket", quoted(&destination.s3_bucket)), ("policy", document)])
        }
        Resource::IdentityPolicy { role } => {
            let policy = block("aws_iam_policy", &[("name", quoted(&policy_name(destination))), ("policy", document)]);
            let attachment = role.map(|role| {
                let arguments = [("role", quoted(role)), ("policy_arn", format!("aws_iam_policy.{label}.arn"))];
                format!("\n{}", block("aws_iam_role_policy_attachment", &arguments))
            });
            policy + &attachment.unwrap_or_default()
        }
        Resource::TrustPolicy { path, role } => {
            block("aws_iam_role", &[("name", quoted(role)), ("path", quoted(path)), ("assume_role_policy", document)])
        }
        Resource::KeyPolicy { key } => block("aws_kms_key_policy", &[("key_id", quoted(key)), ("policy", document)]),
    })
}

fn policy_name(destination: &Destination) -> String {
    format!("dayport-{}", destination.name)
}

/// JSON as a Terraform expression: the same text but for what strings mean there (`${` and `%{` begin templates).
fn expression(json: &str) -> Result<String> {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, from_quote)) = rest.split_once('"') {
        text.push_str(before);
        let mut is_escaped = false;
        let end = from_quote.find(|letter: char| {
            let ends = letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            ends
        });
        let (inside, after) =
            end.and_then(|end| Some((from_quote.get(..end)?, from_quote.get(end + 1..)?))).unwrap_or((from_quote, ""));
        let string: String = serde_json::from_str(&format!("\"{inside}\"")).map_err(|error| unwritable(&error))?;
        text.push_str(&quoted(&string));
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// A quoted string of Terraform's language. Source: its documentation, "Strings and Templates", escape sequences.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '$' | '%' if letters.peek() == Some(&'{') => quoted.extend([letter, letter]),
            _ if letter.is_control() => quoted.extend(format!("\\u{:04x}", u32::from(letter)).chars()),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Template<'a> {
    #[serde(rename = "AWSTemplateFormatVersion")]
    version: &'static str,
    resources: std::collections::BTreeMap<String, Described<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Described<'a> {
    r#type: &'static str,
    properties: Properties<'a>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Properties<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    managed_policy_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    roles: Option<[&'a str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_document: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    assume_role_policy_document: Option<Box<RawValue>>,
}

fn cloudformation(destination: &Destination, resource: &Resource<'_>, json: &str) -> Result<String> {
    let indented = json.trim_end().replace('\n', "\n        ");
    let document = Some(RawValue::from_string(indented).map_err(|error| unwritable(&error))?);
    let (what, r#type, properties) = match resource {
        Resource::BucketPolicy => {
            let properties =
                Properties { bucket: Some(&destination.s3_bucket), policy_document: document, ..Properties::default() };
            ("BucketPolicy", "AWS::S3::BucketPolicy", properties)
        }
        Resource::IdentityPolicy { role } => {
            let properties = Properties {
                managed_policy_name: Some(policy_name(destination)),
                roles: role.map(|role| [role]),
                policy_document: document,
                ..Properties::default()
            };
            ("Policy", "AWS::IAM::ManagedPolicy", properties)
        }
        Resource::TrustPolicy { path, role } => {
            let properties = Properties {
                role_name: Some(role),
                path: Some(path),
                assume_role_policy_document: document,
                ..Properties::default()
            };
            ("Role", "AWS::IAM::Role", properties)
        }
        Resource::KeyPolicy { .. } => {
            return Err(Error::vendor(
                "CloudFormation keeps a key's policy in its `AWS::KMS::Key`, leave `--output` out and paste the JSON into its `KeyPolicy`",
            ));
        }
    };
    let name = format!("Dayport{}{what}", camel(&destination.name));
    let resources = [(name, Described { r#type, properties })].into();
    pretty(&Template { version: "2010-09-09", resources })
}
