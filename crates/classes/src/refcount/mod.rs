//! The `refcount` class: tagged references to an object, kept in its xattr `refcount`; the object goes
//! with the last of them.
//!
//! Authority: `cls/refcount` of Ceph 16.2 (cls_refcount.cc, cls_refcount_ops.h).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Codec, Decode};
use types::Errno;

use crate::{
    Method, ObjectView, Stop,
    keys::{check_exists, input, output},
    method::{self, row},
};

const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("refcount", "get", RW, get),
    row("refcount", "put", RW, put),
    row("refcount", "set", RW, set),
    row("refcount", "read", method::RD, read),
];

const XATTR: &[u8] = b"refcount";
/// The reference that an object without the xattr has, for callers that ask for one.
const WILDCARD: &[u8] = b"";

/// `obj_refcount`: what the xattr holds.
#[derive(Codec, Default)]
#[codec(version = 2, compat = 1)]
struct References {
    /// By tag; always true.
    held: BTreeMap<Bytes, bool>,
    /// Tags that were put: another put of one changes nothing.
    #[codec(since = 2)]
    retired: BTreeSet<Bytes>,
}

/// `cls_refcount_get_op`, and `cls_refcount_put_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct TagOp {
    tag: Bytes,
    implicit_ref: bool,
}

/// `cls_refcount_set_op`, and `cls_refcount_read_ret`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Tags {
    tags: Vec<Bytes>,
}

/// `cls_refcount_read_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct ReadOp {
    implicit_ref: bool,
}

/// The references; ENOENT without an object.
fn load(view: &mut dyn ObjectView, implicit_ref: bool) -> Result<References, Stop> {
    check_exists(view)?;
    if let Some(bytes) = view.xattr(XATTR)? {
        return References::from_prefix(bytes).map_err(|_| Errno::EIO.into());
    }
    let mut references = References::default();
    if implicit_ref {
        references.held.insert(Bytes::from_static(WILDCARD), true);
    }
    Ok(references)
}

fn store(view: &mut dyn ObjectView, references: &References) -> Result<Bytes, Stop> {
    view.set_xattr(XATTR, output(references)?)?;
    Ok(Bytes::new())
}

fn get(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: TagOp = input(bytes)?;
    let mut references = load(view, op.implicit_ref)?;
    references.held.insert(op.tag, true);
    store(view, &references)
}

fn put(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: TagOp = input(bytes)?;
    let mut references = load(view, op.implicit_ref)?;
    if references.held.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let held = match references.held.contains_key(&op.tag) {
        true => Some(op.tag.clone()),
        false if op.implicit_ref => Some(Bytes::from_static(WILDCARD)),
        false => None,
    };
    let Some(held) = held.filter(|tag| references.held.contains_key(tag)) else { return Ok(Bytes::new()) };
    if !references.retired.insert(op.tag) {
        return Ok(Bytes::new());
    }
    references.held.remove(&held);
    if references.held.is_empty() {
        view.remove()?;
        return Ok(Bytes::new());
    }
    store(view, &references)
}

fn set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: Tags = input(bytes)?;
    if op.tags.is_empty() {
        view.remove()?;
        return Ok(Bytes::new());
    }
    let held = op.tags.into_iter().map(|tag| (tag, true)).collect();
    store(view, &References { held, ..References::default() })
}

fn read(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ReadOp = input(bytes)?;
    let references = load(view, op.implicit_ref)?;
    output(&Tags { tags: references.held.into_keys().collect() })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use codec::{Encode, Features};
    use types::Errno;

    use super::{TagOp, Tags};
    use crate::test_view::TestView;

    fn call(view: &mut TestView, name: &str, tag: &'static str, implicit_ref: bool) -> Result<Bytes, Errno> {
        let op = TagOp { tag: Bytes::from_static(tag.as_bytes()), implicit_ref };
        view.call("refcount", name, op.to_bytes(Features::PACIFIC))
    }

    fn object() -> TestView {
        TestView { exists: true, ..TestView::default() }
    }

    #[test]
    fn bytes_are_those_of_a_stock_osd() {
        let mut view = object();
        assert_eq!(call(&mut view, "put", "a", false).unwrap_err(), Errno::EINVAL);
        call(&mut view, "get", "a", true).unwrap();
        call(&mut view, "get", "b", true).unwrap();
        call(&mut view, "put", "b", false).unwrap();
        let stored = b"\x02\x01\x18\0\0\0\x02\0\0\0\0\0\0\0\x01\x01\0\0\0a\x01\x01\0\0\0\x01\0\0\0b";
        assert_eq!(view.xattrs[&b"refcount"[..]], &stored[..]);
        call(&mut view, "get", "b", false).unwrap();
        call(&mut view, "put", "b", false).unwrap();
        let read = view.call("refcount", "read", &b"\x01\x01\x01\0\0\0\0"[..]).unwrap();
        let tags = vec![Bytes::new(), Bytes::from_static(b"a"), Bytes::from_static(b"b")];
        assert_eq!(read, Tags { tags }.to_bytes(Features::PACIFIC), "a tag can be put once only");
    }

    #[test]
    fn the_object_goes_with_the_last_reference() {
        let mut view = object();
        call(&mut view, "put", "x", true).unwrap();
        assert!(!view.exists, "the implicit reference was the last");
        assert_eq!(call(&mut view, "get", "x", true).unwrap_err(), Errno::ENOENT);
        let mut view = object();
        let none = Tags { tags: Vec::new() }.to_bytes(Features::PACIFIC);
        view.call("refcount", "set", none).unwrap();
        assert!(!view.exists);
    }
}
