//! Filters of listings (`PrimaryLogPG::get_pgls_filter`, `PGLSFilter`).

use bytes::Bytes;
use classes::registry;
use codec::{Decode, Reader};
use store::ObjectStore;
use types::{CollId, Errno, HObject};

use super::{object_info::USER_XATTR, request};

/// In front of users' xattrs where clients give the names that Ceph's stores use.
const CEPH_USER_XATTR: &[u8] = b"_";

/// A filter: objects pass whose xattr has the value.
pub(super) struct Filter {
    /// As our store names it; `None` compares with nothing, whatever the object has.
    xattr: Option<Bytes>,
    value: Bytes,
}

impl Filter {
    /// Reads the filter in front of a listing's cursor.
    pub(super) fn decode(input: &mut Reader) -> Result<Filter, Errno> {
        let mut next = || Bytes::decode(input).map_err(|_| Errno::EINVAL);
        // A class and a method, which are not used.
        let (_, _) = (next()?, next()?);
        let kind = next()?;
        if kind != "plain" {
            find_class_filter(&kind)?;
        }
        let (xattr, value) = (next()?, next()?);
        let xattr = match xattr.strip_prefix(CEPH_USER_XATTR) {
            Some(name) => Some(Bytes::from([&[USER_XATTR], name].concat())),
            None if xattr.is_empty() => None,
            // What a store keeps for itself has other names here: no object has it.
            None => Some(Bytes::new()),
        };
        Ok(Filter { xattr, value })
    }

    /// True if an object passes. One without the xattr does not.
    pub(super) fn passes(
        &self,
        store: &dyn ObjectStore,
        coll: CollId,
        object: &HObject,
    ) -> Result<bool, store::NotCached> {
        match &self.xattr {
            Some(name) => Ok(store.xattr(coll, object, name)?.is_some_and(|value| value == self.value)),
            None => Ok(self.value.is_empty()),
        }
    }
}

/// Checks that `class.filter` is there.
fn find_class_filter(kind: &Bytes) -> Result<(), Errno> {
    let dot = kind.iter().position(|b| *b == b'.').ok_or(Errno::EINVAL)?;
    let (class, name) = (&kind[..dot], &kind[dot + 1..]);
    if class.is_empty() || name.is_empty() {
        return Err(Errno::EINVAL);
    }
    if !request::is_class(class) {
        return Err(Errno::EPERM);
    }
    if registry::has_xattr_filter(class, name) { Ok(()) } else { Err(Errno::EINVAL) }
}
