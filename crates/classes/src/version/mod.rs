//! The `version` class: a version with a tag, kept in the xattr `ceph.objclass.version`, and changes that
//! depend on it.
//!
//! Authority: `cls/version` of Ceph 16.2 (cls_version.cc, cls_version_types.h, cls_version_ops.h).

#[cfg(test)]
mod tests;

use bytes::Bytes;
use codec::{Codec, Decode};
use types::Errno;

use crate::{
    Method, ObjectView, Stop,
    keys::{input, output},
    method::{self, row},
};

const RD: u8 = method::RD;
const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("version", "set", RW, set),
    row("version", "inc", RW, increment),
    row("version", "inc_conds", RW, increment),
    row("version", "read", RD, read),
    row("version", "check_conds", RD, check_conditions),
];

const XATTR: &[u8] = b"ceph.objclass.version";
/// Characters of a new version's tag.
const TAG_CHARS: usize = 24;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// `obj_version`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct Version {
    number: u64,
    tag: Bytes,
}

/// `obj_version_cond`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Condition {
    version: Version,
    /// `VersionCond`.
    kind: u32,
}

impl Condition {
    fn holds(&self, version: &Version) -> bool {
        match self.kind {
            1 => *version == self.version,
            2 => version.number > self.version.number,
            3 => version.number >= self.version.number,
            4 => version.number < self.version.number,
            5 => version.number <= self.version.number,
            6 => version.tag == self.version.tag,
            7 => version.tag != self.version.tag,
            _ => true,
        }
    }
}

/// `cls_version_set_op`, and `cls_version_read_ret`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Just {
    version: Version,
}

/// `cls_version_inc_op`, and `cls_version_check_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Conditional {
    version: Version,
    conditions: Vec<Condition>,
}

fn load(view: &mut dyn ObjectView) -> Result<Option<Version>, Stop> {
    let Some(bytes) = view.xattr(XATTR)? else { return Ok(None) };
    Version::from_prefix(bytes).map(Some).map_err(|_| Errno::EIO.into())
}

fn store(view: &mut dyn ObjectView, version: &Version) -> Result<Bytes, Stop> {
    view.set_xattr(XATTR, output(version)?)?;
    Ok(Bytes::new())
}

/// A tag that no other object's version has.
fn random_tag(view: &dyn ObjectView) -> Bytes {
    // SplitMix64, of which any seed will do.
    let mut state = view.context().random_seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        BASE64[((mixed ^ mixed >> 31) & 63) as usize]
    };
    (0..TAG_CHARS).map(|_| next()).collect()
}

fn set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: Just = input(bytes)?;
    store(view, &op.version)
}

fn increment(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: Conditional = input(bytes)?;
    let mut version = match load(view)? {
        Some(version) => version,
        None => Version { number: 1, tag: random_tag(view) },
    };
    check(&op.conditions, &version)?;
    version.number = version.number.wrapping_add(1);
    store(view, &version)
}

fn check(conditions: &[Condition], version: &Version) -> Result<(), Stop> {
    if conditions.iter().all(|c| c.holds(version)) { Ok(()) } else { Err(Errno::ECANCELED.into()) }
}

fn check_conditions(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: Conditional = input(bytes)?;
    let version = load(view)?.unwrap_or_default();
    check(&op.conditions, &version)?;
    Ok(Bytes::new())
}

fn read(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let version = load(view)?.unwrap_or_default();
    output(&Just { version })
}
