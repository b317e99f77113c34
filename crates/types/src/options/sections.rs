//! The text of a `ceph.conf`: sections, keys with spaces, underscores or dashes alike, comments.
//!
//! Authority: Ceph's `common/ConfUtils.cc` and the documentation of its configuration file.

use std::collections::BTreeMap;

use thiserror::Error;

/// Options by section and name, names with underscores. What stands before any section is in `global`.
pub type ConfSections = BTreeMap<String, BTreeMap<String, String>>;

/// A line that is neither a section nor `key = value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("line {line}: neither [section] nor key = value")]
pub struct ConfParseError {
    /// Counted from 1.
    pub line: usize,
    /// Where something is missing, counted from 1.
    pub column: usize,
}

/// The name of an option as it is kept: spaces, dashes and underscores are one underscore.
pub fn option_name(key: &str) -> String {
    key.split([' ', '-', '_', '\t']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}

/// Sections and options of a file's text.
pub fn parse_conf(text: &str) -> Result<ConfSections, ConfParseError> {
    let mut conf = ConfSections::new();
    let mut section = "global".to_owned();
    let joined = text.replace("\\\n", " ");
    for (index, line) in joined.lines().enumerate() {
        let line = line.split([';', '#']).next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let error = ConfParseError { line: index + 1, column: line.len() + 1 };
        if let Some(name) = line.strip_prefix('[') {
            name.strip_suffix(']').ok_or(error)?.trim().clone_into(&mut section);
        } else {
            let (key, value) = line.split_once('=').ok_or(error)?;
            let value = value.trim().trim_matches('"').to_owned();
            conf.entry(section.clone()).or_default().insert(option_name(key), value);
        }
    }
    Ok(conf)
}
