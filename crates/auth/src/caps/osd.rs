//! Capabilities on OSDs (`OSDCap`): rights on pools, namespaces, object prefixes, application tags, and
//! on single class methods.

use std::{collections::BTreeMap, net::IpAddr};

use super::{
    CapsError,
    grammar::{Network, Text, list, right},
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
    /// Class methods that are called.
    pub classes: &'a [ClassCall],
}

/// A call of a class method (`OpRequest::ClassInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCall {
    /// The class.
    pub class: &'static str,
    /// The method.
    pub method: &'static str,
    /// It reads.
    pub read: bool,
    /// It changes.
    pub write: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tag {
    application: String,
    /// `*` is any.
    key: String,
    /// `*` is any.
    value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Scope {
    pool: Option<String>,
    /// A `*` at the end is any end.
    namespace: Option<String>,
    prefix: Option<String>,
    tag: Option<Tag>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Spec {
    rights: u8,
    /// A class that may be called, and the only method of it that may be called, if one is named.
    class: Option<(String, Option<String>)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Grant {
    scope: Scope,
    spec: Spec,
    network: Option<Network>,
}

/// A parsed capability text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdCaps {
    grants: Vec<Grant>,
}

impl OsdCaps {
    /// Everything on everything.
    pub fn allow_all() -> OsdCaps {
        OsdCaps { grants: vec![Grant { spec: rights(right::ANY), ..Grant::default() }] }
    }

    /// Parses `allow rw pool=x namespace=y, profile rbd pool=z`. A profile that does not exist is one
    /// without rights, as with Ceph.
    pub fn parse(text: &str) -> Result<OsdCaps, CapsError> {
        let mut grants = Vec::new();
        list(text, |t| t.attempt(|t| allow(t, &mut grants)).or_else(|| profile(t, &mut grants)))?;
        Ok(OsdCaps { grants })
    }

    /// The part of the capability that holds for a peer at `ip`. Grants for networks hold in no other way.
    pub fn at(mut self, ip: IpAddr) -> OsdCaps {
        self.grants.retain(|grant| grant.network.is_none_or(|network| network.contains(ip)));
        self.grants.iter_mut().for_each(|grant| grant.network = None);
        self
    }

    /// True when one grant has all that `access` reads and changes, and with those before it all that it
    /// calls.
    pub fn allows(&self, access: &OsdAccess<'_>) -> bool {
        let mut callable = vec![false; access.classes.len()];
        self.grants.iter().any(|grant| grant.allows(access, &mut callable))
    }

    /// True for a caller with a grant to write that names the pool, or neither a pool nor a tag: it may take snapshots
    /// of its own there (`is_unmanaged_snap_op_permitted` in Ceph's monitor), in whatever namespace it writes. A tag
    /// is too little. So it is since 18.2; 16.2.15 refuses grants that name a namespace or a prefix and no pool.
    pub fn may_snap_in(&self, pool_name: &str) -> bool {
        self.grants.iter().any(|grant| {
            grant.network.is_none()
                && grant.spec.rights & right::W != 0
                && grant.scope.tag.is_none()
                && grant.scope.pool.as_deref().is_none_or(|pool| pool == pool_name)
        })
    }

    /// True for a caller who may do nothing, whatever the map says.
    pub fn are_none(&self) -> bool {
        self.grants.is_empty()
    }

    /// True for a caller who may do anything: what `ceph tell osd.N` asks for.
    pub fn allows_all(&self) -> bool {
        self.grants.iter().any(|g| *g == Grant { spec: rights(right::ANY), ..Grant::default() })
    }
}

impl Grant {
    fn allows(&self, access: &OsdAccess<'_>, callable: &mut [bool]) -> bool {
        if self.network.is_some() || !self.scope.matches(access) {
            return false;
        }
        let has = |bit: u8| self.spec.rights & bit != 0;
        if (access.read && !has(right::R)) || (access.write && !has(right::W)) {
            return false;
        }
        for (call, callable) in access.classes.iter().zip(callable.iter_mut()) {
            let is_named = self.spec.class.as_ref().is_some_and(|(class, method)| {
                class == call.class && method.as_deref().is_none_or(|m| m == call.method)
            });
            let has_rights = (!call.read || has(right::CLASS_READ))
                && (!call.write || has(right::CLASS_WRITE))
                && self.spec.class.is_none();
            *callable |= is_named || has_rights;
        }
        callable.iter().all(|callable| *callable)
    }
}

impl Scope {
    fn matches(&self, access: &OsdAccess<'_>) -> bool {
        self.pool.as_deref().is_none_or(|pool| pool == access.pool_name)
            && self.namespace.as_deref().is_none_or(|ns| match ns.strip_suffix('*') {
                Some(prefix) => access.namespace.starts_with(prefix.as_bytes()),
                None => access.namespace == ns.as_bytes(),
            })
            && self.prefix.as_deref().is_none_or(|prefix| access.key.starts_with(prefix.as_bytes()))
            && self.tag.as_ref().is_none_or(|tag| tag.matches(access.application_metadata))
    }
}

impl Tag {
    fn matches(&self, metadata: &BTreeMap<String, BTreeMap<String, String>>) -> bool {
        let fits = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        metadata.get(&self.application).is_some_and(|pairs| {
            (self.key == "*" && self.value == "*")
                || pairs.iter().any(|(k, v)| fits(&self.key, k) && fits(&self.value, v))
        })
    }
}

fn rights(bits: u8) -> Spec {
    Spec { rights: bits, class: None }
}

fn class(class: &str, method: &str) -> Spec {
    Spec { rights: 0, class: Some((class.to_owned(), Some(method.to_owned()))) }
}

/// `allow SPEC SCOPE` or `allow SCOPE SPEC`, `network CIDR`.
fn allow(t: &mut Text<'_>, out: &mut Vec<Grant>) -> Option<()> {
    t.word("allow")?;
    let (spec, scope) = match t.attempt(spec) {
        Some(spec) => (spec, scope(t)),
        None => {
            let scope = scope(t);
            (spec(t)?, scope)
        }
    };
    out.push(Grant { scope, spec, network: t.network() });
    Some(())
}

/// ` *`, ` rwx class-read class-write` or ` class NAME METHOD`.
fn spec(t: &mut Text<'_>) -> Option<Spec> {
    let all = |t: &mut Text<'_>| {
        t.spaces()?;
        t.wildcard()
    };
    if t.attempt(all).is_some() {
        return Some(rights(right::ANY));
    }
    let letters = t.attempt(|t| {
        t.spaces()?;
        t.letters()
    });
    let words = [("class-read", right::CLASS_READ), ("class-write", right::CLASS_WRITE)];
    let bits = words
        .iter()
        .fold(letters.unwrap_or_default(), |bits, (word, bit)| bits | t.spaced(word).map_or(0, |()| *bit));
    if bits != 0 {
        return Some(rights(bits));
    }
    t.spaced("class")?;
    t.spaces()?;
    let class = t.string()?;
    let method = t.attempt(|t| {
        t.spaces()?;
        t.string()
    });
    Some(Spec { rights: 0, class: Some((class, method)) })
}

/// ` tag APP KEY=VALUE`, with a namespace before it, or ` pool=P namespace=N object_prefix O`; maybe nothing.
fn scope(t: &mut Text<'_>) -> Scope {
    let tagged = |t: &mut Text<'_>| {
        let namespace = namespace(t);
        Some(Scope { namespace, tag: Some(tag(t)?), ..Scope::default() })
    };
    if let Some(scope) = t.attempt(tagged) {
        return scope;
    }
    let (pool, namespace) = (pool(t), namespace(t));
    let prefix = t.attempt(|t| {
        t.spaced("object_prefix")?;
        t.spaces()?;
        t.string()
    });
    Scope { pool, namespace, prefix, tag: None }
}

fn pool(t: &mut Text<'_>) -> Option<String> {
    t.attempt(|t| {
        t.spaced("pool")?;
        t.equals_or_spaces()?;
        t.string()
    })
}

fn namespace(t: &mut Text<'_>) -> Option<String> {
    t.attempt(|t| {
        t.spaced("namespace")?;
        t.equals_or_spaces()?;
        let mut namespace = t.string_or_empty()?;
        if t.word("*").is_some() {
            namespace.push('*');
        }
        Some(namespace)
    })
}

fn tag(t: &mut Text<'_>) -> Option<Tag> {
    let word = |t: &mut Text<'_>| t.wildcard().map(|()| "*".to_owned()).or_else(|| t.string());
    t.spaced("tag")?;
    t.spaces()?;
    let application = t.string()?;
    t.spaces()?;
    let key = word(t)?;
    let _ = t.spaces();
    t.word("=")?;
    let _ = t.spaces();
    Some(Tag { application, key, value: word(t)? })
}

/// `profile NAME pool=P namespace=N`.
fn profile(t: &mut Text<'_>, out: &mut Vec<Grant>) -> Option<()> {
    t.word("profile")?;
    t.equals_or_spaces()?;
    let name = t.string()?;
    let (pool, namespace) = (pool(t), namespace(t));
    let network = t.network();
    let scope = Scope { pool, namespace, ..Scope::default() };
    let grants = profile_grants(&name, &scope);
    out.extend(grants.into_iter().map(|(scope, spec)| Grant { scope, spec, network }));
    Some(())
}

/// `OSDCapGrant::expand_profile`.
fn profile_grants(name: &str, scope: &Scope) -> Vec<(Scope, Spec)> {
    let named = |scope: &Scope, prefix: &str| Scope { prefix: Some(prefix.to_owned()), ..scope.clone() };
    let anywhere = |prefix: &str| named(&Scope::default(), prefix);
    let all_namespaces = || Scope { namespace: None, ..scope.clone() };
    match name {
        "read-only" => vec![(scope.clone(), rights(right::R))],
        "read-write" => vec![(scope.clone(), rights(right::R | right::W))],
        "rbd" => vec![
            (anywhere("rbd_info"), rights(right::R)),
            (anywhere("rbd_children"), rights(right::CLASS_READ)),
            (anywhere("rbd_mirroring"), rights(right::CLASS_READ)),
            (all_namespaces(), class("rbd", "metadata_list")),
            (scope.clone(), rights(right::RWX)),
        ],
        "rbd-read-only" => vec![
            (all_namespaces(), class("rbd", "metadata_list")),
            (scope.clone(), rights(right::R | right::CLASS_READ)),
            // A clone's owner notes it at the parent.
            (named(scope, "rbd_header."), class("rbd", "child_attach")),
            (named(scope, "rbd_header."), class("rbd", "child_detach")),
        ],
        _ => Vec::new(),
    }
}
