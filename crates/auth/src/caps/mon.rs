//! Capabilities on monitors (`MonCap`): rights on services and single commands.

use std::{collections::BTreeMap, net::IpAddr};

use regex_lite::Regex;

use super::{
    CapsError,
    grammar::{Network, Text, list, right},
    mon_profiles::profile_grants,
};

/// What a command needs.
#[derive(Clone, Debug)]
pub struct MonAccess<'a> {
    /// The service (`osd`, `mon`, `auth`, …) that the command belongs to.
    pub service: &'a str,
    /// The command's prefix.
    pub command: &'a str,
    /// Its arguments.
    pub arguments: &'a BTreeMap<String, String>,
    /// Reads.
    pub read: bool,
    /// Changes.
    pub write: bool,
    /// Executes.
    pub execute: bool,
}

/// What an argument of a command must be like (`StringConstraint`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Constraint {
    Equal(String),
    Prefix(String),
    /// The prefix and one more name without a slash.
    Child(String),
    /// `IP/nonce`: one incarnation of one client, and not all that run there.
    Incarnation,
    /// A regular expression for the whole of it. One that does not compile fits nothing.
    Regex(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Every service; `config-key`, which holds secrets, only with `*`.
    All,
    Service(String),
    Command(String, Vec<(String, Constraint)>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    target: Target,
    rights: u8,
    network: Option<Network>,
}

/// A parsed capability text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonCaps {
    grants: Vec<Grant>,
}

impl MonCaps {
    /// Everything.
    pub fn allow_all() -> MonCaps {
        MonCaps { grants: vec![Grant { target: Target::All, rights: right::ANY, network: None }] }
    }

    /// Parses `allow r, allow command "osd blocklist", profile rbd`. A profile that does not exist is one
    /// without rights, as with Ceph.
    pub fn parse(text: &str) -> Result<MonCaps, CapsError> {
        let mut grants = Vec::new();
        list(text, |t| {
            let pairs = t.attempt(profile).or_else(|| allow(t))?;
            let network = t.network();
            grants.extend(pairs.into_iter().map(|(target, rights)| Grant { target, rights, network }));
            Some(())
        })?;
        Ok(MonCaps { grants })
    }

    /// What of it holds for a peer at `ip`. Grants for networks hold in no other way.
    pub fn at(mut self, ip: IpAddr) -> MonCaps {
        self.grants.retain(|grant| grant.network.is_none_or(|network| network.contains(ip)));
        self.grants.iter_mut().for_each(|grant| grant.network = None);
        self
    }

    /// True when all that `access` needs is granted, by one grant or by several together.
    pub fn allows(&self, access: &MonAccess<'_>) -> bool {
        let grants = self.grants.iter().filter(|grant| grant.network.is_none());
        let granted = grants.fold(0, |bits, grant| bits | grant.rights_on(access));
        let needs = [(access.read, right::R), (access.write, right::W), (access.execute, right::X)];
        granted == right::ANY || needs.iter().all(|(is_needed, bits)| !is_needed || granted & bits == *bits)
    }
}

impl Grant {
    fn rights_on(&self, access: &MonAccess<'_>) -> u8 {
        let is_in = match &self.target {
            Target::All => self.rights == right::ANY || access.service != "config-key",
            Target::Service(service) => service == access.service,
            Target::Command(command, with) => {
                command == access.command
                    && with.iter().all(|(name, constraint)| {
                        access.arguments.get(name).is_some_and(|given| constraint.fits(given))
                    })
            }
        };
        if is_in { self.rights } else { 0 }
    }
}

impl Constraint {
    pub(super) fn fits(&self, given: &str) -> bool {
        match self {
            Constraint::Equal(value) => given == value,
            Constraint::Prefix(prefix) => given.starts_with(prefix.as_str()),
            Constraint::Child(prefix) => given
                .strip_prefix(prefix.as_str())
                .is_some_and(|name| !name.is_empty() && !name.contains('/')),
            Constraint::Incarnation => given.split_once('/').is_some_and(|(addr, nonce)| {
                !addr.is_empty() && !nonce.is_empty() && nonce.bytes().all(|b| b.is_ascii_digit())
            }),
            Constraint::Regex(pattern) => {
                Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(given))
            }
        }
    }
}

/// `profile NAME`, `allow profile NAME`.
fn profile(t: &mut Text<'_>) -> Option<Vec<(Target, u8)>> {
    let _ = t.attempt(|t| {
        t.word("allow")?;
        t.spaces()
    });
    t.word("profile")?;
    t.equals_or_spaces()?;
    Some(profile_grants(&t.string()?))
}

pub(super) fn letters(t: &mut Text<'_>) -> Option<u8> {
    t.wildcard().map(|()| right::ANY).or_else(|| t.letters())
}

/// `allow rwx`, `allow service NAME rwx`, `allow command NAME with KEY=VALUE …`.
fn allow(t: &mut Text<'_>) -> Option<Vec<(Target, u8)>> {
    t.word("allow")?;
    t.spaces()?;
    if t.word("service").is_some() {
        t.equals_or_spaces()?;
        let service = t.string()?;
        t.spaces()?;
        return Some(vec![(Target::Service(service), letters(t)?)]);
    }
    if t.word("command").is_some() {
        t.equals_or_spaces()?;
        let command = t.string()?;
        let with = t.attempt(with).unwrap_or_default();
        return Some(vec![(Target::Command(command, with), right::RWX)]);
    }
    Some(vec![(Target::All, letters(t)?)])
}

/// ` with KEY=VALUE KEY prefix VALUE …`.
pub(super) fn with(t: &mut Text<'_>) -> Option<Vec<(String, Constraint)>> {
    t.spaced("with")?;
    let mut out = Vec::new();
    while let Some(pair) = t.attempt(pair) {
        out.push(pair);
    }
    (!out.is_empty()).then_some(out)
}

pub(super) fn pair(t: &mut Text<'_>) -> Option<(String, Constraint)> {
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
