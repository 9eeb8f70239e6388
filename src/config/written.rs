//! What was written: a section of the document with its lines, and the report that gathers every mistake.

use std::cell::RefCell;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, Fallback, Section};
use super::values::{printable, shown};
use crate::domain::error::{Error, Result};
use crate::domain::spelling::nearest;

/// The file's name in messages, whatever path it was read from.
const FILE: &str = "dayport.toml";

/// Every mistake found so far.
pub(super) struct Report<'t> {
    text: &'t str,
    mistakes: RefCell<Vec<(Option<usize>, String)>>,
}

impl<'t> Report<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Report { text, mistakes: RefCell::default() }
    }

    /// Notes a mistake at a byte offset of the text, or at no line where something is missing as a whole.
    pub(super) fn add(&self, at: Option<usize>, message: impl Into<String>) {
        self.mistakes.borrow_mut().push((at.map(|at| self.line(at)), message.into()));
    }

    /// The line, from 1, of a byte offset.
    pub(super) fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|&byte| byte == b'\n').count()
    }

    /// Fails with all mistakes, in the order of their lines, if there is any.
    pub(super) fn finish(&self) -> Result<()> {
        let mut mistakes = self.mistakes.borrow().clone();
        if mistakes.is_empty() {
            return Ok(());
        }
        mistakes.sort_by_key(|(line, _)| line.unwrap_or(usize::MAX));
        let lines: Vec<String> = mistakes
            .iter()
            .map(|(line, message)| match line {
                Some(line) => format!("{FILE}:{line}: {message}"),
                None => format!("{FILE}: {message}"),
            })
            .collect();
        Err(Error::vendor(lines.join("\n")))
    }

    /// How many mistakes were found so far.
    pub(super) fn count(&self) -> usize {
        self.mistakes.borrow().len()
    }
}

/// One section as it was written, or as nothing where it was left out.
pub(super) struct Fields<'d> {
    pub(super) report: &'d Report<'d>,
    section: Section,
    /// The section in messages, in backticks.
    pub(super) label: String,
    /// Where it begins.
    pub(super) at: Option<usize>,
    table: Option<&'d DeTable<'d>>,
}

impl<'d> Fields<'d> {
    /// A section of the document; keys that it does not know are reported at once.
    pub(super) fn new(
        report: &'d Report<'d>,
        section: Section,
        label: String,
        at: Option<usize>,
        table: Option<&'d DeTable<'d>>,
    ) -> Self {
        let fields = Fields { report, section, label, at, table };
        for (key, _) in in_order(table) {
            fields.check_key(key);
        }
        fields
    }

    fn check_key(&self, key: &Spanned<std::borrow::Cow<'d, str>>) {
        let (at, name) = (Some(key.span().start), key.get_ref().as_ref());
        if keys::find(self.section, name).is_none() {
            self.report.add(at, format!("unknown key `{}` in {}, {}", printable(name), self.label, self.advice(name)));
        }
    }

    fn advice(&self, name: &str) -> String {
        if self.section == Section::Destination && name.to_lowercase().starts_with("sse") {
            return "customer-provided keys (SSE-C) are refused, ask for `encryption = \"aws:kms\"` instead".to_owned();
        }
        if self.section == Section::Credentials {
            return "keys are never written here: write `secret_arn`, or `access_key_id_env` and `secret_access_key_env`"
                .to_owned();
        }
        if let Some(home) = keys::home_of(name) {
            return format!("it belongs in `{}`", home.header());
        }
        match nearest(name, keys::names(self.section)) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "leave it out".to_owned(),
        }
    }

    /// A key as it was written: where, and its value.
    pub(super) fn written(&self, name: &str) -> Option<(usize, &'d DeValue<'d>)> {
        let (key, value) = self.table?.get_key_value(name)?;
        Some((key.span().start, value.get_ref()))
    }

    /// Whether the key was written at all.
    pub(super) fn has(&self, name: &str) -> bool {
        self.written(name).is_some()
    }

    /// The value of a key, written or default, through its rule. `rule` fails with what to do, such as ``write `a` or `b` ``.
    ///
    /// `None` where the key is optional and left out, or where a mistake was reported.
    pub(super) fn get<T>(&self, name: &str, rule: impl Fn(&DeValue<'_>) -> std::result::Result<T, String>) -> Option<T> {
        if let Some((_, value)) = self.written(name) {
            return match rule(value) {
                Ok(ready) => Some(ready),
                Err(advice) => {
                    self.mistake(name, format!("is {}, {advice}", self.shown(value)));
                    None
                }
            };
        }
        match keys::find(self.section, name)?.default {
            Fallback::None | Fallback::Computed(_) => None,
            Fallback::Required => {
                self.mistake(name, "is missing, add it");
                None
            }
            Fallback::Toml(text) => {
                let ready = DeValue::parse(text).ok().and_then(|value| rule(value.get_ref()).ok());
                if ready.is_none() {
                    self.mistake(name, "has a default that its own rule refuses, please report it");
                }
                ready
            }
        }
    }

    /// The same for a key whose default can't be missing: after a mistake, which was reported, any value will do.
    pub(super) fn ready<T: Default>(&self, name: &str, rule: impl Fn(&DeValue<'_>) -> std::result::Result<T, String>) -> T {
        self.get(name, rule).unwrap_or_default()
    }

    /// Reports a mistake in a key: `` `name` in `[section]` `` and then `what`.
    pub(super) fn mistake(&self, name: &str, what: impl AsRef<str>) {
        let at = self.written(name).map(|(at, _)| at).or(self.at);
        self.report.add(at, format!("`{name}` in {} {}", self.label, what.as_ref()));
    }

    fn shown(&self, value: &DeValue<'_>) -> String {
        // A key that was pasted where its variable's name belongs must not get into a log.
        if self.section == Section::Credentials { "not that".to_owned() } else { shown(value) }
    }
}

/// A table's entries in the order in which they were written.
pub(super) fn in_order<'d>(
    table: Option<&'d DeTable<'d>>,
) -> Vec<(&'d Spanned<std::borrow::Cow<'d, str>>, &'d Spanned<DeValue<'d>>)> {
    let mut entries: Vec<_> = table.into_iter().flatten().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}
