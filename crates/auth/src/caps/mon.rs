//! Capabilities on monitors (`MonCap`): rights on services and single commands.

use std::{collections::BTreeMap, net::IpAddr};

use super::{
    CapsError,
    constraint::{Limits, all_fit, with},
    grammar::{Text, list, right},
    grants::Grants,
    mon_profiles::profile_grants,
};

/// What a command needs.
#[derive(Clone, Debug)]
pub struct MonAccess<'a> {
    /// The entity that asks (`osd.3`).
    pub entity: &'a str,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Every service; `config-key`, which holds secrets, only with `*`.
    All,
    Service(String),
    Command(String, Limits),
    /// A command on the caller's own keys, `daemon-private/ENTITY/…`.
    OwnKeys(&'static str),
}

/// A parsed capability text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonCaps(Grants<Target>);

impl MonCaps {
    /// Everything.
    pub fn allow_all() -> MonCaps {
        let mut grants = Grants::default();
        grants.add(Target::All, right::ANY, None);
        MonCaps(grants)
    }

    /// Parses `allow r, allow command "osd blocklist", profile rbd`. A profile that does not exist is one
    /// without rights, as with Ceph.
    pub fn parse(text: &str) -> Result<MonCaps, CapsError> {
        let mut grants = Grants::default();
        list(text, |t| {
            let pairs = t.attempt(profile).or_else(|| allow(t))?;
            let network = t.network();
            pairs.into_iter().for_each(|(target, rights)| grants.add(target, rights, network));
            Some(())
        })?;
        Ok(MonCaps(grants))
    }

    /// The part of the capability that holds for a peer at `ip`. Grants for networks hold in no other way.
    pub fn at(self, ip: IpAddr) -> MonCaps {
        MonCaps(self.0.at(ip))
    }

    /// True when all that `access` needs is granted, by one grant or by several together.
    pub fn allows(&self, access: &MonAccess<'_>) -> bool {
        self.0.allow([access.read, access.write, access.execute], |target, rights| match target {
            Target::All => rights == right::ANY || access.service != "config-key",
            Target::Service(service) => service == access.service,
            Target::Command(command, with) => command == access.command && all_fit(with, access.arguments),
            Target::OwnKeys(command) => *command == access.command && has_own_key(access),
        })
    }
}

fn has_own_key(access: &MonAccess<'_>) -> bool {
    let key = access.arguments.get("key").and_then(|key| key.strip_prefix("daemon-private/"));
    key.and_then(|key| key.strip_prefix(access.entity)).is_some_and(|rest| rest.starts_with('/'))
}

/// `profile NAME`, `allow profile NAME`.
fn profile(t: &mut Text<'_>) -> Option<Vec<(Target, u8)>> {
    Some(profile_grants(&t.profile()?))
}

/// `allow rwx`, `allow service NAME rwx`, `allow command NAME with KEY=VALUE …`.
fn allow(t: &mut Text<'_>) -> Option<Vec<(Target, u8)>> {
    t.word("allow")?;
    t.spaces()?;
    if t.word("service").is_some() {
        t.equals_or_spaces()?;
        let service = t.string()?;
        t.spaces()?;
        return Some(vec![(Target::Service(service), t.rights()?)]);
    }
    if t.word("command").is_some() {
        t.equals_or_spaces()?;
        let command = t.string()?;
        let with = t.attempt(with).unwrap_or_default();
        return Some(vec![(Target::Command(command, with), right::RWX)]);
    }
    Some(vec![(Target::All, t.rights()?)])
}
