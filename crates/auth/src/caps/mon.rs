//! Capabilities on monitors (`MonCap`): rights on services and single commands.

use std::collections::BTreeMap;

use super::{
    CapsError,
    grammar::{grants, right, rights},
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Grant {
    rights: u8,
    service: Option<String>,
    command: Option<String>,
    /// Arguments that a command must have: exact, or a prefix.
    with: Vec<(String, String, bool)>,
}

/// A parsed capability text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonCaps {
    grants: Vec<Grant>,
}

impl MonCaps {
    /// Everything.
    pub fn allow_all() -> MonCaps {
        MonCaps { grants: vec![Grant { rights: right::ANY, ..Grant::default() }] }
    }

    /// Parses `allow r, allow command "osd blocklist", profile rbd`.
    pub fn parse(text: &str) -> Result<MonCaps, CapsError> {
        let mut out = MonCaps::default();
        for words in grants(text)? {
            parse_grant(&words, &mut out.grants)?;
        }
        Ok(out)
    }

    /// True when all that `access` needs is granted.
    pub fn allows(&self, access: &MonAccess<'_>) -> bool {
        let mut granted = 0;
        for grant in &self.grants {
            match &grant.command {
                Some(command) if command == access.command && grant.arguments_fit(access.arguments) => {
                    return true;
                }
                Some(_) => {}
                None if grant.service.as_deref().is_none_or(|s| s == access.service) => {
                    granted |= grant.rights
                }
                None => {}
            }
        }
        let needs = [(access.read, right::R), (access.write, right::W), (access.execute, right::X)];
        needs.iter().all(|(is_needed, bits)| !is_needed || granted & bits == *bits)
    }
}

impl Grant {
    fn arguments_fit(&self, arguments: &BTreeMap<String, String>) -> bool {
        self.with.iter().all(|(name, value, is_prefix)| {
            let given = arguments.get(name);
            given.is_some_and(|g| if *is_prefix { g.starts_with(value.as_str()) } else { g == value })
        })
    }

    fn service(rights: u8, service: &str) -> Grant {
        Grant { rights, service: Some(service.to_owned()), ..Grant::default() }
    }

    fn command(command: &str) -> Grant {
        Grant { command: Some(command.to_owned()), ..Grant::default() }
    }
}

fn fail(word: &str) -> CapsError {
    CapsError { at: word.to_owned() }
}

fn parse_grant(words: &[String], out: &mut Vec<Grant>) -> Result<(), CapsError> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["profile", name, ..] | ["allow", "profile", name, ..] => push_profile(name, out),
        ["allow", "service", service, spec, ..] => {
            out.push(Grant::service(rights(spec).ok_or(fail(spec))?, service));
            Ok(())
        }
        ["allow", "command", command, rest @ ..] => {
            let mut grant = Grant::command(command);
            let mut rest = rest.strip_prefix(&["with"]).unwrap_or(rest);
            while let [name, tail @ ..] = rest {
                let (value, is_prefix, tail) = match tail {
                    ["prefix", value, tail @ ..] => (value, true, tail),
                    [value, tail @ ..] => (value, false, tail),
                    [] => return Err(fail(name)),
                };
                grant.with.push(((*name).to_owned(), (*value).to_owned(), is_prefix));
                rest = tail;
            }
            out.push(grant);
            Ok(())
        }
        ["allow", specs @ ..] if !specs.is_empty() => {
            let bits = specs.iter().try_fold(0, |bits, s| rights(s).map(|r| bits | r).ok_or(fail(s)))?;
            out.push(Grant { rights: bits, ..Grant::default() });
            Ok(())
        }
        other => Err(fail(other.first().unwrap_or(&""))),
    }
}

/// `MonCapGrant::expand_profile`.
fn push_profile(name: &str, out: &mut Vec<Grant>) -> Result<(), CapsError> {
    let read =
        [Grant::service(right::R, "mon"), Grant::service(right::R, "osd"), Grant::service(right::R, "pg")];
    match name {
        "osd" | "mgr" | "mon" => out.push(Grant { rights: right::ANY, ..Grant::default() }),
        "rbd" | "rbd-mirror" => {
            out.extend(read);
            out.extend(["osd blocklist", "osd blacklist"].map(Grant::command));
        }
        "rbd-read-only" | "read-only" | "simple-rados-client" => out.extend(read),
        "simple-rados-client-with-blocklist" => {
            out.extend(read);
            out.push(Grant::command("osd blocklist"));
        }
        "bootstrap-osd" => {
            out.extend(read);
            out.extend(["osd new", "mon getmap", "osd getmap"].map(Grant::command));
        }
        "bootstrap-mds" | "bootstrap-mgr" | "bootstrap-rgw" | "bootstrap-rbd" | "crash" => out.extend(read),
        other => return Err(fail(other)),
    }
    Ok(())
}
