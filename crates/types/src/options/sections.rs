//! The text of a `ceph.conf`: sections, keys with spaces, underscores or dashes alike, comments; values in quotes of
//! either kind or without, in which a backslash takes its meaning from the next character.
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
    let joined = text.replace("\\\n", "");
    for (index, line) in joined.lines().enumerate() {
        let line = line.trim();
        if is_nothing(line) {
            continue;
        }
        let error = ConfParseError { line: index + 1, column: line.len() + 1 };
        if let Some(name) = line.strip_prefix('[') {
            let (name, _) = name.split_once(']').filter(|(_, rest)| is_nothing(rest)).ok_or(error)?;
            name.trim().clone_into(&mut section);
        } else {
            let (key, value) = line.split_once('=').filter(|(key, _)| !key.contains(COMMENT)).ok_or(error)?;
            let value = parse_value(value).ok_or(error)?;
            conf.entry(section.clone()).or_default().insert(option_name(key), value);
        }
    }
    Ok(conf)
}

/// What begins a comment.
const COMMENT: [char; 2] = ['#', ';'];

/// True for the rest of a line that says nothing.
fn is_nothing(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with(COMMENT)
}

/// What stands behind `=`; `None` if a quote is not closed, or something follows it.
fn parse_value(text: &str) -> Option<String> {
    let text = text.trim();
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
    let mut chars = text[quote.map_or(0, char::len_utf8)..].chars();
    let mut out = String::new();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            c if Some(c) == quote => return is_nothing(chars.as_str()).then_some(out),
            c if quote.is_none() && COMMENT.contains(&c) => break,
            c => out.push(c),
        }
    }
    out.truncate(out.trim_end().len());
    quote.is_none().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_ceph_reads_them() {
        for (text, expected) in [
            ("a b ; comment", Some("a b")),
            (r#""a b" # comment"#, Some("a b")),
            ("' a b '", Some(" a b ")),
            (r"a\;b\#c", Some("a;b#c")),
            (r#""a \"b\" c""#, Some(r#"a "b" c"#)),
            (r#"the "scare" quotes"#, Some(r#"the "scare" quotes"#)),
            ("it's", Some("it's")),
            ("", Some("")),
            ("\"open", None),
            ("'a' b", None),
        ] {
            let conf = parse_conf(&format!("key = {text}\n"));
            let found = conf.ok().map(|conf| conf["global"]["key"].clone());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn sections_and_lines_that_go_on() {
        let conf = parse_conf("[osd.0] ; one\nlog file = a \\\nb\n").unwrap();
        assert_eq!(conf["osd.0"]["log_file"], "a b");
        for wrong in ["[osd", "[osd] x", "key # no = value"] {
            assert!(parse_conf(wrong).is_err(), "{wrong}");
        }
    }
}
