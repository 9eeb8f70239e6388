//! The policy that is there: read only as far as ours has to be put beside it.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::error::{Error, Result};

/// A policy of the owner's.
pub(super) struct Theirs {
    pub(super) version: String,
    pub(super) id: Option<Box<RawValue>>,
    pub(super) statements: Vec<TheirStatement>,
}

/// One statement of theirs.
pub(super) struct TheirStatement {
    pub(super) sid: Option<String>,
    /// As it was written.
    pub(super) text: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Written {
    version: Option<String>,
    id: Option<Box<RawValue>>,
    statement: Box<RawValue>,
}

/// What `aws s3api get-bucket-policy` answers without `--query`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Answer {
    policy: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Identified {
    sid: Option<String>,
}

impl Theirs {
    /// Reads a policy, or the answer of `aws s3api get-bucket-policy` that holds one.
    pub(super) fn parse(text: &str) -> Result<Theirs> {
        if let Ok(Answer { policy }) = serde_json::from_str(text) {
            return Theirs::parse_policy(&policy);
        }
        Theirs::parse_policy(text)
    }

    fn parse_policy(text: &str) -> Result<Theirs> {
        let Written { version, id, statement } = serde_json::from_str(text).map_err(|error| not_a_policy(&error))?;
        let texts: Vec<Box<RawValue>> = if statement.get().starts_with('[') {
            serde_json::from_str(statement.get()).map_err(|error| not_a_policy(&error))?
        } else {
            vec![statement]
        };
        let identify = |text: Box<RawValue>| {
            let Identified { sid } = serde_json::from_str(text.get()).map_err(|error| not_a_policy(&error))?;
            Ok(TheirStatement { sid, text })
        };
        let statements = texts.into_iter().map(identify).collect::<Result<Vec<_>>>()?;
        // The older version is the default. Source: IAM User Guide, "IAM JSON policy elements: Version".
        Ok(Theirs { version: version.unwrap_or_else(|| "2008-10-17".to_owned()), id, statements })
    }
}

fn not_a_policy(error: &serde_json::Error) -> Error {
    Error::vendor(format!(
        "what is to be merged is not a policy ({error}), give the JSON that `aws s3api get-bucket-policy --query Policy --output text` wrote"
    ))
}

/// What of theirs is likely to stop our uploads: a Deny by a header that parts and completions never carry.
///
/// In a Deny both `StringNotEquals` and `StringNotEqualsIfExists` meet a request that has no such header, and so does `Null: true`.
/// Source: IAM User Guide, "IAM JSON policy elements: Condition operators".
pub(super) fn warnings(theirs: &str) -> Vec<String> {
    let Ok(Theirs { statements, .. }) = Theirs::parse(theirs) else { return Vec::new() };
    let mut warnings = Vec::new();
    for (index, statement) in statements.iter().enumerate() {
        let Ok(value) = serde_json::from_str::<Value>(statement.text.get()) else { continue };
        let is_deny = value.get("Effect").and_then(Value::as_str) == Some("Deny");
        let Some(header) = Some(&value).filter(|_| is_deny).and_then(header_that_parts_lack) else { continue };
        let which = match &statement.sid {
            Some(sid) => format!("`{}`", sid.escape_debug()),
            None => format!("number {}", index + 1),
        };
        warnings.push(format!(
            "their Deny statement {which} looks at `{}`, which the parts of an upload do not carry: if it means our prefix, ask its owner to add the condition `\"Null\": {{\"{0}\": \"false\"}}`",
            header.escape_debug()
        ));
    }
    warnings
}

fn header_that_parts_lack(statement: &Value) -> Option<&str> {
    let operators = statement.get("Condition")?.as_object()?;
    let is_said_to_be_there = |key: &str| {
        operators.iter().any(|(operator, keys)| {
            let says_false = |value: &Value| value.as_str() == Some("false") || value.as_bool() == Some(false);
            operator.eq_ignore_ascii_case("null")
                && keys
                    .as_object()
                    .is_some_and(|keys| keys.iter().any(|(other, value)| other.eq_ignore_ascii_case(key) && says_false(value)))
        })
    };
    let keys = operators
        .iter()
        .filter(|(operator, _)| {
            let operator = operator.to_ascii_lowercase();
            operator == "null" || operator.contains("not") || operator.ends_with("ifexists")
        })
        .filter_map(|(_, keys)| keys.as_object())
        .flat_map(|keys| keys.keys());
    keys.map(String::as_str).find(|key| {
        let key_lower = key.to_ascii_lowercase();
        let parts_lack_it =
            ["s3:x-amz-server-side-encryption", "s3:x-amz-acl", "s3:x-amz-grant-", "s3:x-amz-storage-class", "s3:object-lock-"];
        parts_lack_it.iter().any(|start| key_lower.starts_with(start)) && !is_said_to_be_there(key)
    })
}
