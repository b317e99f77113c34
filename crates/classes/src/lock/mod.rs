//! The `lock` class: advisory locks on an object, kept in xattrs `lock.<name>`.
//!
//! Authority: `cls/lock` of Ceph 16.2. RBD's exclusive lock and `rados lock` are made of it.

mod types;

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::{
    AssertOp, BreakOp, GetInfoOp, GetInfoReply, ListLocksReply, LockInfo, LockOp, LockerId, LockerInfo,
    SetCookieOp, UnlockOp, flag, kind,
};

use ::types::{AddrType, Errno};

use crate::{
    Method, ObjectView, Stop,
    keys::input,
    method::{self, row},
};

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("lock", "lock", method::RD | method::WR | method::PROMOTE, lock),
    row("lock", "unlock", method::RD | method::WR | method::PROMOTE, unlock),
    row("lock", "break_lock", method::RD | method::WR, break_lock),
    row("lock", "get_info", method::RD, get_info),
    row("lock", "list_locks", method::RD, list_locks),
    row("lock", "assert_locked", method::RD | method::PROMOTE, assert_locked),
    row("lock", "set_cookie", method::RD | method::WR | method::PROMOTE, set_cookie),
];

const PREFIX: &[u8] = b"lock.";

fn xattr_name(name: &[u8]) -> Vec<u8> {
    [PREFIX, name].concat()
}

/// The caller, in the form in which lockers are named.
fn caller(view: &dyn ObjectView, cookie: &Bytes) -> LockerId {
    LockerId { locker: view.context().origin, cookie: cookie.clone() }
}

/// The lock with its expired lockers left out; an unknown lock is a free one. ENOENT without object.
fn read_lock(view: &mut dyn ObjectView, name: &[u8]) -> Result<LockInfo, Stop> {
    if view.stat()?.is_none() {
        return Err(Errno::ENOENT.into());
    }
    let Some(bytes) = view.xattr(&xattr_name(name))? else { return Ok(LockInfo::default()) };
    let mut info = LockInfo::from_prefix(bytes).map_err(|_| Stop::Refused(Errno::EIO))?;
    let now = view.context().now;
    info.lockers.retain(|_, locker| locker.expiration == Default::default() || locker.expiration >= now);
    Ok(info)
}

fn write_lock(view: &mut dyn ObjectView, name: &[u8], info: &LockInfo) -> Result<(), Stop> {
    view.set_xattr(&xattr_name(name), info.to_bytes(Features::PACIFIC))
}

fn lock(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: LockOp = input(bytes)?;
    let is_renewal = op.flags & (flag::MAY_RENEW | flag::MUST_RENEW);
    if !kind::is_valid(op.kind) || op.name.is_empty() || is_renewal == flag::MAY_RENEW | flag::MUST_RENEW {
        return Err(Errno::EINVAL.into());
    }
    let mut info = match read_lock(view, &op.name) {
        Err(Stop::Refused(Errno::ENOENT)) => LockInfo::default(),
        other => other?,
    };
    if !info.lockers.is_empty() && op.tag != info.tag {
        return Err(Errno::EBUSY.into());
    }
    let id = caller(view, &op.cookie);
    let is_held = info.lockers.remove(&id).is_some();
    if is_held && is_renewal == 0 {
        return Err(Errno::EEXIST.into());
    }
    if !is_held && is_renewal == flag::MUST_RENEW {
        return Err(Errno::ENOENT.into());
    }
    if !info.lockers.is_empty() && (kind::is_exclusive(op.kind) || info.kind != op.kind) {
        return Err(Errno::EBUSY.into());
    }
    let context = view.context();
    let expiration = match op.duration {
        d if d == Default::default() => d,
        d => context.now.plus(std::time::Duration::new(u64::from(d.sec), d.nsec)),
    };
    let mut addr = context.origin_addr;
    // The protocol is not what names a client; clients of v1 read this kind without a prefix.
    addr.kind = AddrType::LEGACY;
    info.kind = op.kind;
    info.tag = op.tag;
    info.lockers.insert(id, LockerInfo { expiration, addr, description: op.description });
    write_lock(view, &op.name, &info)?;
    Ok(Bytes::new())
}

fn remove_locker(view: &mut dyn ObjectView, name: &[u8], id: &LockerId) -> Result<Bytes, Stop> {
    let mut info = read_lock(view, name)?;
    if info.lockers.remove(id).is_none() {
        return Err(Errno::ENOENT.into());
    }
    if kind::is_ephemeral(info.kind) && info.lockers.is_empty() {
        view.remove()?;
    } else {
        write_lock(view, name, &info)?;
    }
    Ok(Bytes::new())
}

fn unlock(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: UnlockOp = input(bytes)?;
    let id = caller(view, &op.cookie);
    remove_locker(view, &op.name, &id)
}

fn break_lock(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: BreakOp = input(bytes)?;
    remove_locker(view, &op.name, &LockerId { locker: op.locker, cookie: op.cookie })
}

fn get_info(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: GetInfoOp = input(bytes)?;
    let info = read_lock(view, &op.name)?;
    let reply = GetInfoReply { lockers: info.lockers, kind: info.kind, tag: info.tag };
    Ok(reply.to_bytes(Features::PACIFIC))
}

fn list_locks(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    if view.stat()?.is_none() {
        return Err(Errno::ENOENT.into());
    }
    let names = view.xattrs()?;
    let locks = names.keys().filter(|name| name.starts_with(PREFIX));
    let locks = locks.map(|name| name.slice(PREFIX.len()..)).collect();
    Ok(ListLocksReply { locks }.to_bytes(Features::PACIFIC))
}

/// The lock if `op` describes it as it is held by the caller, else EBUSY.
fn assert_held(
    view: &mut dyn ObjectView,
    name: &[u8],
    lock_kind: u8,
    tag: &[u8],
    id: &LockerId,
) -> Result<LockInfo, Stop> {
    if !kind::is_valid(lock_kind) || name.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let info = read_lock(view, name)?;
    if info.kind != lock_kind || info.tag != tag || !info.lockers.contains_key(id) {
        return Err(Errno::EBUSY.into());
    }
    Ok(info)
}

fn assert_locked(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: AssertOp = input(bytes)?;
    let id = caller(view, &op.cookie);
    assert_held(view, &op.name, op.kind, &op.tag, &id)?;
    Ok(Bytes::new())
}

fn set_cookie(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: SetCookieOp = input(bytes)?;
    let id = caller(view, &op.cookie);
    let mut info = assert_held(view, &op.name, op.kind, &op.tag, &id)?;
    let renamed = LockerId { cookie: op.new_cookie, ..id.clone() };
    if info.lockers.contains_key(&renamed) {
        return Err(Errno::EBUSY.into());
    }
    if let Some(locker) = info.lockers.remove(&id) {
        info.lockers.insert(renamed, locker);
    }
    write_lock(view, &op.name, &info)?;
    Ok(Bytes::new())
}

#[cfg(test)]
mod tests;
