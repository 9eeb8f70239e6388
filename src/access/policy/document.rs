//! Policy documents: statements of ours in a fixed order, beside statements of the owner's, which stay byte for byte as they are.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::merge::Theirs;
use crate::domain::error::{Error, Result};
use crate::domain::settings::Destination;
use crate::domain::table::hash8;

/// The language version in which `${*}` is a variable.
const VERSION: &str = "2012-10-17";

/// One statement, always an Allow.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Statement {
    sid: String,
    effect: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<Principal>,
    action: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    condition: BTreeMap<&'static str, BTreeMap<&'static str, String>>,
}

/// The one identity that a statement is for.
#[derive(Clone, Debug, Serialize)]
struct Principal {
    #[serde(rename = "AWS")]
    arn: String,
}

/// What follows the destination's name in the ids of our statements.
const KINDS: [&str; 8] = ["Write", "Delete", "Acl", "Read", "List", "Sweep", "UseKey", "Assume"];

impl Statement {
    /// `kind` is one of [`KINDS`].
    pub(super) fn new(destination: &Destination, kind: &str, actions: &[&'static str]) -> Statement {
        debug_assert!(KINDS.contains(&kind), "{kind} would not be replaced when it is merged again");
        Statement {
            sid: sid(destination, kind),
            effect: "Allow",
            principal: None,
            action: actions.to_vec(),
            resource: None,
            condition: BTreeMap::new(),
        }
    }

    pub(super) fn granted_to(self, arn: &str) -> Statement {
        Statement { principal: Some(Principal { arn: arn.to_owned() }), ..self }
    }

    pub(super) fn on(self, resource: &str) -> Statement {
        Statement { resource: Some(resource.to_owned()), ..self }
    }

    pub(super) fn when(mut self, operator: &'static str, key: &'static str, value: &str) -> Statement {
        self.condition.entry(operator).or_default().insert(key, value.to_owned());
        self
    }
}

/// A statement's id: letters and digits alone, as IAM wants it, and another one for every destination.
fn sid(destination: &Destination, kind: &str) -> String {
    format!("Dayport{}{kind}", camel(&destination.name))
}

/// `acme-eu` as `AcmeEu`. Where that could be another name's too (a hyphen before anything but a letter, or at an end), eight hex digits
/// of the name's hash follow.
pub(super) fn camel(name: &str) -> String {
    let mut text = String::new();
    let mut is_ambiguous = name.starts_with('-') || name.ends_with('-');
    let mut begins_word = true;
    for letter in name.chars() {
        if letter == '-' {
            is_ambiguous |= begins_word;
            begins_word = true;
            continue;
        }
        if begins_word {
            is_ambiguous |= !text.is_empty() && !letter.is_ascii_lowercase();
            text.push(letter.to_ascii_uppercase());
        } else {
            text.push(letter);
        }
        begins_word = false;
    }
    if is_ambiguous {
        text.push_str(&hash8(name));
    }
    text
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Box<RawValue>>,
    statement: Vec<Box<RawValue>>,
}

/// A whole policy: theirs, if there is one, without what it had of this destination's, then ours.
pub(super) fn assemble(destination: &Destination, ours: &[Statement], theirs: Option<&str>) -> Result<String> {
    let ours = ours.iter().map(raw).collect::<Result<Vec<_>>>()?;
    let Some(theirs) = theirs else {
        return pretty(&Document { version: VERSION.to_owned(), id: None, statement: ours });
    };
    let Theirs { version, id, statements } = Theirs::parse(theirs)?;
    let needs_variables = ours.iter().any(|statement| statement.get().contains("${"));
    if version != VERSION && needs_variables {
        return Err(Error::vendor(format!(
            "the policy that is there is of version `{}`, in which the `${{*}}` of our prefix is no variable, ask its owner to write `{VERSION}`",
            version.escape_debug()
        )));
    }
    let replaced = KINDS.map(|kind| sid(destination, kind));
    let kept = statements.into_iter().filter(|statement| statement.sid.as_ref().is_none_or(|sid| !replaced.contains(sid)));
    let statement = kept.map(|statement| statement.text).chain(ours).collect();
    pretty(&Document { version, id, statement })
}

/// The key's side and the signer's, each as a statement to add to a policy that is there.
pub(super) fn two_sides(key: &Statement, signer: &Statement) -> Result<String> {
    #[derive(Serialize)]
    struct TwoSides<'a> {
        key_policy_statement: &'a Statement,
        signer_policy_statement: &'a Statement,
    }
    pretty(&TwoSides { key_policy_statement: key, signer_policy_statement: signer })
}

/// A statement as text, indented as it will stand in the list of a document.
fn raw(statement: &Statement) -> Result<Box<RawValue>> {
    let text = serde_json::to_string_pretty(statement).map_err(|error| unwritable(&error))?;
    RawValue::from_string(text.replace('\n', "\n    ")).map_err(|error| unwritable(&error))
}

/// JSON with two spaces and a last line end.
pub(super) fn pretty<T: Serialize>(document: &T) -> Result<String> {
    let mut text = serde_json::to_string_pretty(document).map_err(|error| unwritable(&error))?;
    text.push('\n');
    Ok(text)
}

pub(super) fn unwritable(error: &serde_json::Error) -> Error {
    Error::bug(format!("a policy could not be written ({error}), please report it"))
}
