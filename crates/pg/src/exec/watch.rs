//! Watch and notify as ops: what they change in the object, and what the PG is to do besides.

use bytes::Bytes;
use classes::Stop;
use codec::{Codec, Decode, Encode, Features, Reader};
use messages::{OsdOp, watch_op};
use store::ObjectStore;
use types::{CollId, EVersion, EntityAddr, EntityNum, Errno, HObject, LogEntry, Mutation, Transaction};

use super::{
    Delta, Output, Run, Staged,
    object_info::{INFO_XATTR, ObjectInfo, WatchInfo},
    view::View,
};

/// A side effect on the PG's watches; done when the op is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchChange {
    /// The client watches (again).
    Watch {
        /// The watch.
        cookie: u64,
        /// Seconds without a sign of life after which it ends.
        timeout_sec: u32,
        /// False for a client that gives no signs of life: its connection is one.
        pings: bool,
    },
    /// The client no longer watches.
    Unwatch {
        /// The watch.
        cookie: u64,
    },
    /// The watcher gives a sign of life.
    Ping {
        /// The watch.
        cookie: u64,
    },
    /// Tell all watchers.
    Notify {
        /// What it is called.
        id: u64,
        /// The notifier's name for it.
        cookie: u64,
        /// Seconds.
        timeout_sec: u32,
        /// For the watchers.
        payload: Bytes,
        /// The object's version, for the watchers.
        user_version: u64,
    },
    /// A watcher's answer.
    Ack {
        /// The notification.
        notify_id: u64,
        /// The watch; none for all of the client's.
        cookie: Option<u64>,
        /// For the notifier.
        reply: Bytes,
    },
    /// The object is gone: the watcher, by global id and cookie, is told so.
    Disconnect((u64, u64)),
}

impl WatchChange {
    /// What it holds until its notification is over.
    pub(crate) fn held(&self) -> NotifyBytes {
        match self {
            WatchChange::Notify { payload, .. } => {
                NotifyBytes { once: NOTIFY_BYTES, for_each: WATCHER_BYTES + payload.len() as u64 }
            }
            WatchChange::Ack { reply, .. } => NotifyBytes { once: reply.len() as u64, for_each: 0 },
            WatchChange::Watch { .. }
            | WatchChange::Unwatch { .. }
            | WatchChange::Ping { .. }
            | WatchChange::Disconnect(_) => NotifyBytes::default(),
        }
    }

    /// Its place in the order in which Ceph's OSDs carry out the effects of one request (`do_osd_op_effects`).
    pub(super) fn rank(&self) -> u8 {
        match self {
            WatchChange::Ping { .. } => 0,
            WatchChange::Unwatch { .. } | WatchChange::Disconnect(_) => 1,
            WatchChange::Watch { .. } => 2,
            WatchChange::Notify { .. } => 3,
            WatchChange::Ack { .. } => 4,
        }
    }
}

/// Bytes that notifications and their answers hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NotifyBytes {
    once: u64,
    /// For each watcher: the message to each has the payload in memory of its own.
    for_each: u64,
}

impl NotifyBytes {
    /// All of them, where an object has so many watchers.
    pub(crate) fn total(self, watchers: usize) -> u64 {
        self.once + self.for_each * watchers.max(1) as u64
    }

    fn and(self, other: NotifyBytes) -> NotifyBytes {
        NotifyBytes { once: self.once + other.once, for_each: self.for_each + other.for_each }
    }
}

/// A watch as it is kept with the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownWatch {
    /// Global id and cookie.
    pub(crate) watcher: (u64, u64),
    /// Seconds.
    pub(crate) timeout_sec: u32,
    /// The client, as blocklists name it.
    pub(crate) addr: EntityAddr,
}

/// The object's watchers before the request.
pub(super) fn known(view: &View<'_>) -> Vec<KnownWatch> {
    let watchers = view.info.watchers.iter();
    watchers
        .map(|(watcher, info)| KnownWatch {
            watcher: *watcher,
            timeout_sec: info.timeout_sec.min(TIMEOUT_SEC_MAX),
            addr: info.addr,
        })
        .collect()
}

/// `osd_client_watch_timeout`, and `osd_default_notify_timeout`.
const TIMEOUT_SEC: u32 = 30;

/// The longest that a watch lasts without a sign of life, or that a notification waits for watchers. Clients ask for
/// seconds.
const TIMEOUT_SEC_MAX: u32 = 3_600;

/// Watchers of an object, at most: all of them are kept with it, and written with each change of it.
const WATCHERS_MAX: usize = 4_096;

/// Memory of a notification beside its payload, about.
const NOTIFY_BYTES: u64 = 512;

/// Memory of a watcher that is waited for beside what it is sent, about.
const WATCHER_BYTES: u64 = 32;

/// `watch_item_t`, `obj_list_watch_response_t`.
#[derive(Codec)]
#[codec(version = 2, compat = 1)]
struct WatchItem {
    name: EntityNum,
    cookie: u64,
    timeout_sec: u32,
    addr: EntityAddr,
}

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Watchers {
    entries: Vec<WatchItem>,
}

impl Run<'_, '_> {
    pub(super) fn watch(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let (cookie, op) = (step.params.u64_at(0), step.watch_op());
        let timeout_sec = match step.params.u32_at(21) {
            0 => TIMEOUT_SEC,
            given => given.min(TIMEOUT_SEC_MAX),
        };
        let key = (self.ctx.origin.num as u64, cookie);
        let is_known = self.view.info.watchers.contains_key(&key);
        match op {
            watch_op::WATCH | watch_op::LEGACY_WATCH => {
                let watchers = self.view.info.watchers.len();
                // Watches of a request begin before its notifications, whatever their order.
                if !is_known && (watchers >= WATCHERS_MAX || self.exceeds_room(self.held, watchers + 1)) {
                    return Err(Errno::EBUSY.into());
                }
                if !is_known {
                    let info = WatchInfo { addr: self.ctx.origin_addr, timeout_sec };
                    self.view.info.watchers.insert(key, info);
                    self.view.touch();
                }
                self.watch.push(WatchChange::Watch { cookie, timeout_sec, pings: op == watch_op::WATCH });
            }
            watch_op::RECONNECT | watch_op::PING if !is_known => return Err(Errno::ENOTCONN.into()),
            watch_op::RECONNECT => self.watch.push(WatchChange::Watch { cookie, timeout_sec, pings: true }),
            watch_op::PING if !self.ctx.connected.contains(&cookie) => return Err(Errno::ETIMEDOUT.into()),
            watch_op::PING => self.watch.push(WatchChange::Ping { cookie }),
            watch_op::UNWATCH if is_known => {
                self.view.info.watchers.remove(&key);
                self.view.touch();
                self.watch.push(WatchChange::Unwatch { cookie });
            }
            // Like Ceph, does nothing about ops and watches that it does not know.
            _ => {}
        }
        Ok(Output::default())
    }

    /// The notification's id is the op's output.
    pub(super) fn notify(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let mut reader = Reader::new(step.data.clone());
        let parts = <(u32, u32, Bytes)>::decode(&mut reader);
        let (_version, timeout_sec, payload) = parts.unwrap_or((0, 0, Bytes::new()));
        let timeout_sec = if timeout_sec == 0 { TIMEOUT_SEC } else { timeout_sec.min(TIMEOUT_SEC_MAX) };
        // In memory of its own: that of the request holds more.
        let payload = Bytes::copy_from_slice(&payload);
        let id = self.ctx.notify_id + self.notify_count;
        self.push_held(WatchChange::Notify {
            id,
            cookie: step.params.u64_at(0),
            timeout_sec,
            payload,
            user_version: self.view.user_version(),
        })?;
        self.notify_count += 1;
        Ok(Bytes::copy_from_slice(&id.to_le_bytes()).into())
    }

    pub(super) fn notify_ack(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let mut reader = Reader::new(step.data.clone());
        let change = match <(u64, u64)>::decode(&mut reader) {
            Ok((notify_id, cookie)) => {
                let reply = Bytes::copy_from_slice(&Bytes::decode(&mut reader).unwrap_or_default());
                WatchChange::Ack { notify_id, cookie: Some(cookie), reply }
            }
            // Old clients have only the id, where others have a cookie.
            Err(_) => {
                WatchChange::Ack { notify_id: step.params.u64_at(0), cookie: None, reply: Bytes::new() }
            }
        };
        self.push_held(change)?;
        Ok(Output::default())
    }

    /// EBUSY where the OSD holds too much for notifications: it has room again when some of them are over.
    fn push_held(&mut self, change: WatchChange) -> Result<(), Stop> {
        let held = self.held.and(change.held());
        if self.exceeds_room(held, self.view.info.watchers.len()) {
            return Err(Errno::EBUSY.into());
        }
        self.held = held;
        self.watch.push(change);
        Ok(())
    }

    fn exceeds_room(&self, held: NotifyBytes, watchers: usize) -> bool {
        held.total(watchers) > self.ctx.notify_room
    }

    /// In a request that may change the object, one that is not there has no watchers.
    pub(super) fn list_watchers(&mut self) -> Result<Output, Stop> {
        let watchers = self.view.info.watchers.iter();
        let mut entries: Vec<WatchItem> = watchers
            .map(|((gid, cookie), info)| WatchItem {
                name: EntityNum::client(*gid),
                cookie: *cookie,
                timeout_sec: info.timeout_sec,
                addr: info.addr,
            })
            .collect();
        entries.sort_by_key(|item| item.cookie);
        Ok(Watchers { entries }.to_bytes(Features::default()).into())
    }
}

/// A change that ends a watch whose client is gone; none if the object does not know it.
pub(crate) fn remove_watcher(
    store: &dyn ObjectStore,
    coll: CollId,
    head: &HObject,
    watcher: (u64, u64),
    at: EVersion,
) -> Result<Option<Staged>, store::NotCached> {
    let info = store.xattr(coll, head, INFO_XATTR)?.and_then(|b| ObjectInfo::from_bytes(b).ok());
    let Some(mut info) = info.filter(|i| i.watchers.contains_key(&watcher)) else { return Ok(None) };
    info.watchers.remove(&watcher);
    info.prior_version = info.version;
    info.version = at;
    let mut txn = Transaction::new(coll);
    let entry = (Bytes::from_static(INFO_XATTR), info.to_bytes(Features::default()));
    txn.push(head, Mutation::SetXattrs([entry].into()));
    let log = vec![LogEntry {
        version: at,
        object: head.clone(),
        prior_version: info.prior_version,
        user_version: info.user_version,
        mtime: info.mtime,
        ..LogEntry::default()
    }];
    Ok(Some(Staged { txn, log, delta: Delta::default() }))
}
