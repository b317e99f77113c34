//! What belongs to an account, in an object of its own: names without regard to case, how many there are in
//! the omap's header (`cls_user_account_resource*`, Ceph 19.2 and newer).

use ::types::Errno;
use bytes::Bytes;
use codec::{Codec, Decode};

use crate::{
    ObjectView, Stop,
    keys::{Reach, find, input, output, read, remove, walk, write},
};

/// Entries of one answer.
const COUNT_MAX: u32 = 1_000;

/// `cls_user_account_header`.
#[derive(Codec, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct Header {
    count: u32,
}

/// `cls_user_account_resource`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct Resource {
    name: Bytes,
    path: Bytes,
    metadata: Bytes,
}

/// `cls_user_account_resource_add_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct AddOp {
    entry: Resource,
    exclusive: bool,
    limit: u32,
}

/// `cls_user_account_resource_get_op` and `…_rm_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct NameOp {
    name: Bytes,
}

/// `cls_user_account_resource_get_ret`.
#[derive(Codec, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct GetReply {
    entry: Resource,
}

/// `cls_user_account_resource_list_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct ListOp {
    marker: Bytes,
    path_prefix: Bytes,
    count_max: u32,
}

/// `cls_user_account_resource_list_ret`.
#[derive(Codec, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct ListReply {
    entries: Vec<Resource>,
    truncated: bool,
    marker: Bytes,
}

fn load_header(view: &mut dyn ObjectView) -> Result<Header, Stop> {
    let bytes = view.omap_header()?;
    if bytes.is_empty() {
        return Ok(Header::default());
    }
    Header::from_prefix(bytes).map_err(|_| Errno::EIO.into())
}

fn key(name: &Bytes) -> Vec<u8> {
    name.to_ascii_lowercase()
}

/// EUSERS beyond the limit.
pub(super) fn add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: AddOp = input(bytes)?;
    let key = key(&op.entry.name);
    if find::<Resource>(view, &key)?.is_none() {
        let header = load_header(view)?;
        if header.count >= op.limit {
            return Err(Errno::EUSERS.into());
        }
        view.omap_set_header(output(&Header { count: header.count + 1 })?)?;
    } else if op.exclusive {
        return Err(Errno::EEXIST.into());
    }
    write(view, &key, &op.entry)?;
    Ok(Bytes::new())
}

pub(super) fn get(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: NameOp = input(bytes)?;
    output(&GetReply { entry: read(view, &key(&op.name))? })
}

pub(super) fn rm(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: NameOp = input(bytes)?;
    let key = key(&op.name);
    read::<Resource>(view, &key)?;
    remove(view, &key)?;
    let header = load_header(view)?;
    view.omap_set_header(output(&Header { count: header.count.saturating_sub(1) })?)?;
    Ok(Bytes::new())
}

pub(super) fn list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ListOp = input(bytes)?;
    let count_max = op.count_max.min(COUNT_MAX) as usize;
    let mut reply = ListReply::default();
    // One more tells whether there are more. Where most paths may be others, nobody knows where the list ends.
    let reach = if op.path_prefix.is_empty() { Reach::First(count_max as u64 + 1) } else { Reach::All };
    walk(view, b"", &op.marker, reach, |key, value| {
        let entry = Resource::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?;
        if entry.path.starts_with(&op.path_prefix) {
            if reply.entries.len() >= count_max {
                reply.truncated = true;
                return Ok(false);
            }
            reply.entries.push(entry);
        }
        reply.marker = Bytes::copy_from_slice(key);
        Ok(true)
    })?;
    output(&reply)
}

#[cfg(test)]
mod tests {
    use codec::{Encode, Features};

    use super::*;
    use crate::test_view::TestView;

    fn call(view: &mut TestView, name: &str, op: &impl Encode) -> Result<Bytes, Errno> {
        view.call("user", name, op.to_bytes(Features::PACIFIC))
    }

    fn add(view: &mut TestView, name: &'static str, path: &'static str, limit: u32) -> Result<(), Errno> {
        let entry = Resource { name: name.into(), path: path.into(), metadata: Bytes::new() };
        call(view, "account_resource_add", &AddOp { entry, exclusive: true, limit }).map(|_| ())
    }

    #[test]
    fn names_are_the_same_in_any_case_and_their_number_has_a_limit() {
        let mut view = TestView::default();
        assert_eq!(add(&mut view, "user1", "", 0), Err(Errno::EUSERS));
        assert_eq!(add(&mut view, "user1", "", 1), Ok(()));
        assert_eq!(add(&mut view, "USER1", "", 1), Err(Errno::EEXIST));
        assert_eq!(add(&mut view, "user2", "A", 1), Err(Errno::EUSERS));
        let rm = NameOp { name: "User1".into() };
        call(&mut view, "account_resource_rm", &rm).unwrap();
        assert_eq!(call(&mut view, "account_resource_rm", &rm), Err(Errno::ENOENT));
        assert_eq!(add(&mut view, "user2", "A", 1), Ok(()));
    }

    #[test]
    fn entries_are_listed_by_the_beginning_of_their_paths() {
        let mut view = TestView::default();
        for (name, path) in [("a", ""), ("b", "A"), ("c", "AA"), ("d", "")] {
            add(&mut view, name, path, 9).unwrap();
        }
        let mut list = |marker: Bytes, path_prefix: &'static str, count_max| {
            let op = ListOp { marker, path_prefix: path_prefix.into(), count_max };
            ListReply::from_bytes(call(&mut view, "account_resource_list", &op).unwrap()).unwrap()
        };
        let first = list(Bytes::new(), "A", 1);
        assert_eq!((first.entries[0].name.as_ref(), first.truncated), (&b"b"[..], true));
        let rest = list(first.marker, "A", 1);
        assert_eq!((rest.entries[0].name.as_ref(), rest.truncated), (&b"c"[..], false));
    }
}
