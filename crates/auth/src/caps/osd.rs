//! Capabilities on OSDs (`OSDCap`): rights on pools, namespaces, object prefixes, application tags.

use std::collections::BTreeMap;

use super::{
    CapsError,
    grammar::{grants, right, rights},
};

/// What an operation touches and needs.
#[derive(Clone, Debug)]
pub struct OsdAccess<'a> {
    /// The pool's name.
    pub pool_name: &'a str,
    /// The object's namespace.
    pub namespace: &'a [u8],
    /// The pool's application metadata.
    pub application_metadata: &'a BTreeMap<String, BTreeMap<String, String>>,
    /// The object's name (or locator key).
    pub key: &'a [u8],
    /// Reads.
    pub read: bool,
    /// Changes.
    pub write: bool,
    /// Calls a reading class method.
    pub class_read: bool,
    /// Calls a changing class method.
    pub class_write: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Grant {
    rights: u8,
    pool: Option<String>,
    namespace: Option<String>,
    prefix: Option<String>,
    /// Application, key, value; `*` matches any.
    tag: Option<(String, String, String)>,
    /// Classes that `allow class NAME` names; no other rights then.
    is_class_only: bool,
}

/// A parsed capability text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdCaps {
    grants: Vec<Grant>,
}

impl OsdCaps {
    /// Everything on everything.
    pub fn allow_all() -> OsdCaps {
        OsdCaps { grants: vec![Grant { rights: right::ANY, ..Grant::default() }] }
    }

    /// Parses `allow rw pool=x namespace=y, profile rbd pool=z`.
    pub fn parse(text: &str) -> Result<OsdCaps, CapsError> {
        let mut out = OsdCaps::default();
        for words in grants(text)? {
            parse_grant(&words, &mut out.grants)?;
        }
        Ok(out)
    }

    /// True when all that `access` needs is granted.
    pub fn allows(&self, access: &OsdAccess<'_>) -> bool {
        let granted = self.grants.iter().filter(|g| g.matches(access)).fold(0, |bits, g| bits | g.rights);
        let needs = [
            (access.read, right::R),
            (access.write, right::W),
            (access.class_read, right::CLASS_READ),
            (access.class_write, right::CLASS_WRITE),
        ];
        needs.iter().all(|(is_needed, bit)| !is_needed || granted & bit != 0)
    }

    /// True for a caller who may do anything: what `ceph tell osd.N` asks for.
    pub fn allows_all(&self) -> bool {
        self.grants.iter().any(|g| *g == Grant { rights: right::ANY, ..Grant::default() })
    }
}

impl Grant {
    fn matches(&self, access: &OsdAccess<'_>) -> bool {
        let tag_matches = |(app, key, value): &(String, String, String)| {
            let fits = |pattern: &str, text: &str| pattern == "*" || pattern == text;
            access.application_metadata.iter().filter(|(a, _)| fits(app, a)).any(|(_, pairs)| {
                (key == "*" && value == "*") || pairs.iter().any(|(k, v)| fits(key, k) && fits(value, v))
            })
        };
        self.pool.as_deref().is_none_or(|pool| pool == access.pool_name)
            && self.namespace.as_deref().is_none_or(|ns| match ns.strip_suffix('*') {
                Some(prefix) => access.namespace.starts_with(prefix.as_bytes()),
                None => access.namespace == ns.as_bytes(),
            })
            && self.prefix.as_deref().is_none_or(|prefix| access.key.starts_with(prefix.as_bytes()))
            && self.tag.as_ref().is_none_or(tag_matches)
    }
}

fn fail(word: &str) -> CapsError {
    CapsError { at: word.to_owned() }
}

fn parse_grant(words: &[String], out: &mut Vec<Grant>) -> Result<(), CapsError> {
    let (first, mut rest) = words.split_first().ok_or(fail(""))?;
    let profile = match first.as_str() {
        "allow" => None,
        "profile" => {
            let (name, tail) = rest.split_first().ok_or(fail(first))?;
            rest = tail;
            Some(name.as_str())
        }
        other => return Err(fail(other)),
    };
    let mut grant = Grant::default();
    while let Some((word, tail)) = rest.split_first() {
        let argument = || tail.first().cloned().ok_or(fail(word));
        let used = match word.as_str() {
            "pool" => {
                grant.pool = Some(argument()?);
                1
            }
            "namespace" => {
                grant.namespace = Some(argument()?);
                1
            }
            "object_prefix" => {
                grant.prefix = Some(argument()?);
                1
            }
            "tag" => {
                let [app, key, value, ..] = tail else { return Err(fail(word)) };
                grant.tag = Some((app.clone(), key.clone(), value.clone()));
                3
            }
            "network" => return Err(fail(word)),
            "class" => {
                // `allow class NAME [METHOD]`: both rights on classes.
                grant.rights |= right::X;
                grant.is_class_only = true;
                tail.len().min(2)
            }
            _ if profile.is_none() => {
                grant.rights |= rights(word).ok_or(fail(word))?;
                0
            }
            _ => return Err(fail(word)),
        };
        rest = &tail[used..];
    }
    match profile {
        None => out.push(grant),
        Some(name) => push_profile(name, grant, out)?,
    }
    Ok(())
}

/// `OSDCapProfile`: what RBD users and the cluster's own daemons need.
fn push_profile(name: &str, scope: Grant, out: &mut Vec<Grant>) -> Result<(), CapsError> {
    let object =
        |rights: u8, prefix: &str| Grant { rights, prefix: Some(prefix.to_owned()), ..scope.clone() };
    match name {
        "osd" | "crash" => out.push(Grant { rights: right::ANY, ..scope }),
        "rbd" => {
            // The pool may be written to only where the grant says; these two are read everywhere.
            out.push(object(right::R | right::CLASS_READ, "rbd_info"));
            out.push(object(right::CLASS_READ, "rbd_children"));
            out.push(object(right::CLASS_READ, "rbd_mirroring"));
            out.push(Grant { rights: right::R | right::W | right::X, ..scope });
        }
        "rbd-read-only" => {
            out.push(Grant { rights: right::R | right::CLASS_READ, ..scope.clone() });
            out.push(object(right::W, "rbd_header."));
        }
        "rbd-mirror" => out.push(Grant { rights: right::R | right::W | right::X, ..scope }),
        other => return Err(fail(other)),
    }
    Ok(())
}
