//! Conditions on a command's arguments, or on what a module touches: `with KEY=VALUE KEY prefix VALUE`.

use std::collections::BTreeMap;

use regex_lite::Regex;

use super::grammar::Text;

/// What an argument of a command must be like (`StringConstraint`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Constraint {
    Equal(String),
    Prefix(String),
    /// The prefix and one more name without a slash.
    Child(String),
    /// `IP/nonce`: one incarnation of one client, and not all that run there, which the nonce 0 would mean.
    Incarnation,
    /// It must not be given.
    Absent,
    /// A regular expression for the whole of it. One that does not compile fits nothing.
    Regex(String),
}

/// Arguments by name, and what each must be like.
pub(super) type Limits = Vec<(String, Constraint)>;

impl Constraint {
    pub(super) fn fits(&self, given: &str) -> bool {
        match self {
            Constraint::Equal(value) => given == value,
            Constraint::Prefix(prefix) => given.starts_with(prefix.as_str()),
            Constraint::Child(prefix) => given
                .strip_prefix(prefix.as_str())
                .is_some_and(|name| !name.is_empty() && !name.contains('/')),
            Constraint::Incarnation => given.split_once('/').is_some_and(|(addr, nonce)| {
                let is_number = nonce.bytes().all(|b| b.is_ascii_digit());
                !addr.is_empty() && is_number && nonce.parse::<u32>().is_ok_and(|nonce| nonce != 0)
            }),
            Constraint::Absent => false,
            Constraint::Regex(pattern) => {
                // By itself first: a bracket too many would close the group and free what follows of its end.
                let is_regex = Regex::new(pattern).is_ok();
                is_regex && Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(given))
            }
        }
    }
}

/// True if all that is limited was given and fits, and nothing was given that must not be.
pub(super) fn all_fit(limits: &Limits, arguments: &BTreeMap<String, String>) -> bool {
    limits.iter().all(|(name, constraint)| match arguments.get(name) {
        Some(given) => constraint.fits(given),
        None => *constraint == Constraint::Absent,
    })
}

/// ` with KEY=VALUE KEY prefix VALUE …`.
pub(super) fn with(t: &mut Text<'_>) -> Option<Limits> {
    t.spaced("with")?;
    let out = pairs(t);
    (!out.is_empty()).then_some(out)
}

/// ` KEY=VALUE KEY prefix VALUE`, as many as there are.
pub(super) fn pairs(t: &mut Text<'_>) -> Limits {
    std::iter::from_fn(|| t.attempt(pair)).collect()
}

fn pair(t: &mut Text<'_>) -> Option<(String, Constraint)> {
    t.spaces()?;
    let name = t.string()?;
    if t.word("=").is_some() {
        return Some((name, Constraint::Equal(t.string()?)));
    }
    let is_prefix = t.spaced("prefix").is_some();
    if !is_prefix {
        t.spaced("regex")?;
    }
    t.spaces()?;
    let value = t.string()?;
    Some((name, if is_prefix { Constraint::Prefix(value) } else { Constraint::Regex(value) }))
}
