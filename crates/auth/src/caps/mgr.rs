//! Capabilities on managers (`MgrCap`): rights on services, on modules and on single commands.

use std::{collections::BTreeMap, net::IpAddr};

use super::{
    CapsError,
    constraint::{Limits, all_fit, pairs, with},
    grammar::{Text, list, right},
    grants::Grants,
};

/// What a command to the manager needs, or an operation of one of its modules.
#[derive(Clone, Debug)]
pub struct MgrAccess<'a> {
    /// `pg`, `osd`, …; `py` for commands of modules.
    pub service: &'a str,
    /// The module; empty for commands that are no module's.
    pub module: &'a str,
    /// The command's prefix; empty where a module asks what one of its commands may touch.
    pub command: &'a str,
    /// Arguments of the command, or what the module asks about, such as `pool`.
    pub arguments: &'a BTreeMap<String, String>,
    /// Reads.
    pub read: bool,
    /// Changes.
    pub write: bool,
    /// Executes.
    pub execute: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    All,
    Service(String),
    Module(String, Limits),
    Command(String, Limits),
}

/// Profiles, and the names of the limits that each takes; none of them: any.
const PROFILES: [(&str, Option<&[&str]>); 7] = [
    ("read-only", None),
    ("read-write", None),
    ("crash", None),
    ("osd", None),
    ("mds", None),
    ("rbd", Some(&["pool", "namespace"])),
    ("rbd-read-only", Some(&["pool", "namespace"])),
];

/// A profile's name and what it is limited to.
type Profile = (String, Limits);

/// A parsed capability text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrCaps(Grants<Target>);

impl MgrCaps {
    /// Parses `allow r, allow module crash rw, profile rbd pool=p`. A profile that does not exist is one
    /// without rights, as with Ceph.
    pub fn parse(text: &str) -> Result<MgrCaps, CapsError> {
        let mut grants = Grants::default();
        list(text, |t| {
            let profile = t.attempt(profile).map(profile_grant);
            let found = profile.or_else(|| t.attempt(allow).map(Some))?;
            let network = t.network();
            if let Some((target, rights)) = found {
                grants.add(target, rights, network);
            }
            Some(())
        })?;
        Ok(MgrCaps(grants))
    }

    /// Refuses what Ceph's monitors refuse to keep as a capability on managers: also profiles that do not exist.
    pub fn check(text: &str) -> Result<(), CapsError> {
        let mut profiles = Vec::new();
        list(text, |t| {
            match t.attempt(profile) {
                Some(found) => profiles.push(found),
                None => drop(t.attempt(allow)?),
            }
            t.network();
            Some(())
        })?;
        for (name, limits) in profiles {
            let Some((_, takes)) = PROFILES.iter().find(|(known, _)| *known == name) else {
                return Err(CapsError::Profile(format!("unrecognized profile '{name}'")));
            };
            let is_taken = |limit: &str| takes.is_none_or(|takes| takes.contains(&limit));
            if let Some((limit, _)) = limits.iter().find(|(limit, _)| !is_taken(limit)) {
                return Err(CapsError::Profile(format!("profile '{name}' does not recognize key '{limit}'")));
            }
        }
        Ok(())
    }

    /// The part of the capability that holds for a peer at `ip`. Grants for networks hold in no other way.
    pub fn at(self, ip: IpAddr) -> MgrCaps {
        MgrCaps(self.0.at(ip))
    }

    /// True when all that `access` needs is granted, by one grant or by several together.
    pub fn allows(&self, access: &MgrAccess<'_>) -> bool {
        self.0.allow([access.read, access.write, access.execute], |target, _| match target {
            Target::All => true,
            Target::Service(service) => service == access.service,
            // What a module may touch is its own question: a command says it in a way of its own.
            Target::Module(module, with) => {
                module == access.module && (!access.command.is_empty() || all_fit(with, access.arguments))
            }
            Target::Command(command, with) => command == access.command && all_fit(with, access.arguments),
        })
    }
}

/// `profile NAME`, `allow profile NAME`, and what it is limited to: `pool=p namespace=n`.
fn profile(t: &mut Text<'_>) -> Option<Profile> {
    Some((t.profile()?, pairs(t)))
}

fn profile_grant((name, limits): Profile) -> Option<(Target, u8)> {
    let rbd = || Target::Module("rbd_support".to_owned(), limits);
    match name.as_str() {
        "read-only" => Some((Target::All, right::R)),
        "read-write" => Some((Target::All, right::R | right::W)),
        "crash" => Some((Target::Command("crash post".to_owned(), Vec::new()), right::ANY)),
        "rbd" => Some((rbd(), right::R | right::W)),
        "rbd-read-only" => Some((rbd(), right::R)),
        _ => None,
    }
}

/// `allow rwx`, `allow service NAME rwx`, `allow module NAME with KEY=VALUE rwx`, `allow command NAME with …`.
fn allow(t: &mut Text<'_>) -> Option<(Target, u8)> {
    t.word("allow")?;
    t.spaces()?;
    if t.word("service").is_some() {
        t.equals_or_spaces()?;
        let service = t.string()?;
        t.spaces()?;
        return Some((Target::Service(service), t.rights()?));
    }
    if t.word("module").is_some() {
        t.equals_or_spaces()?;
        let module = t.string()?;
        let limits = t.attempt(with).unwrap_or_default();
        t.spaces()?;
        return Some((Target::Module(module, limits), t.rights()?));
    }
    if t.word("command").is_some() {
        t.equals_or_spaces()?;
        let command = t.string()?;
        return Some((Target::Command(command, t.attempt(with).unwrap_or_default()), right::ANY));
    }
    Some((Target::All, t.rights()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(caps: &str, module: &str, command: &str, pool: &str, write: bool) -> bool {
        let arguments = BTreeMap::from([("pool".to_owned(), pool.to_owned())]);
        let access = MgrAccess {
            service: "py",
            module,
            command,
            arguments: &arguments,
            read: !write,
            write,
            execute: false,
        };
        MgrCaps::parse(caps).unwrap_or_default().at(IpAddr::from([10, 0, 0, 1])).allows(&access)
    }

    #[test]
    fn modules_are_granted_as_a_whole_or_for_what_they_touch() {
        let task = "rbd task add flatten";
        assert!(may("allow *", "rbd_support", task, "", true));
        assert!(may("profile rbd", "rbd_support", task, "", true));
        assert!(!may("profile rbd-read-only", "rbd_support", task, "", true));
        assert!(!may("profile rbd", "crash", "crash ls", "", false));
        // The command as such, then the pool that it names.
        assert!(may("profile rbd pool=vms", "rbd_support", task, "", true));
        assert!(may("profile rbd pool=vms", "rbd_support", "", "vms", false));
        assert!(!may("profile rbd pool=vms", "rbd_support", "", "other", false));
        assert!(!may("profile rbd pool=vms namespace=n", "rbd_support", "", "vms", false));
        assert!(may("allow module crash with pool=a r", "crash", "", "a", false));
        assert!(!may("allow module crash r", "crash", "crash post", "", true));
        assert!(may("profile crash", "crash", "crash post", "", true));
        assert!(!may("profile crash", "crash", "crash rm", "", true));
        assert!(may("allow command \"crash rm\"", "crash", "crash rm", "", true));
        assert!(may("allow r, allow service py w", "x", "y", "", true));
        assert!(may("allow rw network 10.0.0.0/8", "x", "y", "", true));
        assert!(!may("profile rbd network 11.0.0.0/8", "rbd_support", task, "", true));
        assert!(!may("", "x", "y", "", false) && !may("profile nope", "x", "y", "", false));
    }
}
