//! Recovery: whole objects go to copies that lack them, a few at a time, those first that ops wait for.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use messages::{MPgPull, MPgPush, MPgPushReply};
use store::{Completion, ObjectStore};
use types::{EVersion, HObject, Mutation, OsdId, Transaction};

use crate::{
    Ctx, Effect, Pg,
    meta::MetaChange,
    peering::object_version,
    pg::{Pending, Phase},
};

/// Objects on their way at once (`osd_recovery_max_active`).
const ACTIVE_MAX: usize = 8;

/// What is on its way.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pulling: BTreeSet<HObject>,
    pushing: BTreeSet<(OsdId, HObject)>,
    urgent: BTreeSet<HObject>,
}

impl Recovery {
    pub(crate) fn clear(&mut self) {
        *self = Recovery::default();
    }

    fn active(&self) -> usize {
        self.pulling.len() + self.pushing.len()
    }
}

impl Pg {
    /// True when some copy lacks the object, or a clone of it.
    pub(crate) fn is_degraded(&self, head: &HObject) -> bool {
        let lacks = |missing: &types::Missing| missing.keys().any(|o| o.oid == head.oid && o.head() == *head);
        lacks(&self.missing)
            || self.peer_missing.iter().any(|(o, m)| self.members.acting.contains(o) && lacks(m))
    }

    /// True when this copy lacks the object, or a clone of it.
    pub(crate) fn is_missing(&self, head: &HObject) -> bool {
        self.missing.keys().any(|o| o.oid == head.oid && o.head() == *head)
    }

    /// An op waits for the object.
    pub(crate) fn recover_soon(&mut self, head: &HObject, cx: &mut Ctx<'_>) {
        self.recovery.urgent.insert(head.clone());
        self.recover(cx);
    }

    /// Starts what may be started; the PG is clean when nothing is left.
    pub(crate) fn recover(&mut self, cx: &mut Ctx<'_>) {
        if self.phase != Phase::Active || self.is_clean {
            return;
        }
        let is_urgent = |r: &Recovery, o: &HObject| r.urgent.contains(&o.head());
        let mut pulls: Vec<HObject> = self.missing.keys().cloned().collect();
        pulls.sort_by_key(|o| !is_urgent(&self.recovery, o));
        for object in pulls {
            if self.recovery.active() >= ACTIVE_MAX {
                return;
            }
            self.pull(object, cx);
        }
        let mut pushes: Vec<(OsdId, HObject)> = Vec::new();
        for (osd, missing) in self.peer_missing.iter().filter(|(o, _)| self.members.acting.contains(o)) {
            pushes
                .extend(missing.keys().filter(|o| !self.missing.contains_key(o)).map(|o| (*osd, o.clone())));
        }
        pushes.sort_by_key(|(_, o)| !is_urgent(&self.recovery, o));
        for (osd, object) in pushes {
            if self.recovery.active() >= ACTIVE_MAX {
                return;
            }
            if self.recovery.pushing.insert((osd, object.clone())) {
                let version = object_version(cx.store, self.coll, &object);
                self.push(osd, object, version, cx);
            }
        }
        let peers_lack =
            self.members.acting.iter().filter_map(|o| self.peer_missing.get(o)).any(|m| !m.is_empty());
        if self.missing.is_empty() && !peers_lack {
            self.become_clean(cx);
        }
    }

    fn pull(&mut self, object: HObject, cx: &mut Ctx<'_>) {
        let Some(version) = self.missing.get(&object).copied() else { return };
        let has_it = |osd: &&OsdId| {
            let reaches = self.peer_info.get(osd).is_some_and(|i| i.last_update >= version);
            let lacks = self.peer_missing.get(osd).is_some_and(|m| m.contains_key(&object));
            **osd != self.me && cx.map.is_up(**osd) && reaches && !lacks
        };
        let Some(source) = self.peer_info.keys().find(has_it).copied() else { return };
        if self.recovery.pulling.insert(object.clone()) {
            let message = MPgPull { pgid: self.pgid, epoch: cx.map.epoch, object, version };
            cx.effects.push(Effect::SendOsd(source, message.into()));
        }
    }

    pub(crate) fn on_pull(&mut self, from: OsdId, message: MPgPull, cx: &mut Ctx<'_>) {
        let version = object_version(cx.store, self.coll, &message.object);
        self.push(from, message.object, version, cx);
    }

    /// Sends an object, once all of it is at hand.
    fn push(&mut self, to: OsdId, object: HObject, version: EVersion, cx: &mut Ctx<'_>) {
        match whole_object(cx.store, self.coll, &object) {
            Ok(txn) => {
                let message = MPgPush { pgid: self.pgid, epoch: cx.map.epoch, object, version, txn };
                cx.effects.push(Effect::SendOsd(to, message.into()));
            }
            Err(missing) => {
                let token = self.token(Pending::PushRead { to, object, version });
                cx.store.load(token, missing);
            }
        }
    }

    pub(crate) fn on_push_read(
        &mut self,
        to: OsdId,
        object: HObject,
        version: EVersion,
        completion: Completion,
        cx: &mut Ctx<'_>,
    ) {
        if let Completion::Loaded(_, Err(error)) = completion {
            tracing::error!(pg = %self.pgid, %object, %error, "an object to push cannot be read");
            self.recovery.pushing.remove(&(to, object));
            return;
        }
        self.push(to, object, version, cx);
    }

    /// An object came that this copy lacks.
    pub(crate) fn on_push(&mut self, from: OsdId, message: MPgPush, cx: &mut Ctx<'_>) {
        let MPgPush { object, version, txn: pushed, .. } = message;
        self.recovery.pulling.remove(&object);
        let is_needed = self.missing.get(&object).is_some_and(|need| *need <= version);
        if !is_needed {
            if self.missing.contains_key(&object) {
                tracing::error!(pg = %self.pgid, %object, "a copy that should have the object does not");
                self.peer_missing.entry(from).or_default().insert(object, version);
                return;
            }
            return self.on_push_durable(from, object, cx);
        }
        let mut txn = Transaction::new(self.coll);
        txn.append(pushed);
        let mut change = MetaChange::default();
        change.missing(&object, None);
        change.into_txn(&mut txn);
        self.submit(Pending::Pushed { from, object }, txn, cx);
    }

    pub(crate) fn on_push_durable(&mut self, from: OsdId, object: HObject, cx: &mut Ctx<'_>) {
        self.missing.remove(&object);
        if self.is_primary() {
            self.sum.objects_recovered += 1;
            self.recover(cx);
            self.run_object(&object.head(), cx);
        } else {
            let reply = MPgPushReply { pgid: self.pgid, epoch: cx.map.epoch, object };
            cx.effects.push(Effect::SendOsd(from, reply.into()));
        }
    }

    pub(crate) fn on_push_reply(&mut self, from: OsdId, message: MPgPushReply, cx: &mut Ctx<'_>) {
        let object = message.object;
        self.recovery.pushing.remove(&(from, object.clone()));
        if let Some(missing) = self.peer_missing.get_mut(&from) {
            missing.remove(&object);
        }
        self.sum.objects_recovered += 1;
        self.recover(cx);
        self.run_object(&object.head(), cx);
    }

    /// Missing objects here and at peers, for statistics.
    pub(crate) fn degraded_count(&self) -> u64 {
        let peers = self.members.acting.iter().filter_map(|o| self.peer_missing.get(o));
        self.missing.len() as u64 + peers.map(|m| m.len() as u64).sum::<u64>()
    }
}

/// A transaction that makes the object what it is here, whatever was there before.
fn whole_object(
    store: &dyn ObjectStore,
    coll: types::CollId,
    object: &HObject,
) -> Result<Transaction, store::Missing> {
    let mut txn = Transaction::new(coll);
    txn.push(object, Mutation::Remove);
    let Some(meta) = store.meta(coll, object)? else { return Ok(txn) };
    txn.push(object, Mutation::Touch);
    // One read, so that one load brings all of it.
    let data = store.read(coll, object, 0, meta.size)?;
    for (offset, len) in store.extents(coll, object, 0, meta.size)? {
        let data = data.slice(offset as usize..(offset + len) as usize);
        txn.push(object, Mutation::Write { offset, data });
    }
    txn.push(object, Mutation::Truncate { size: meta.size });
    let xattrs: BTreeMap<Bytes, Bytes> = store.xattrs(coll, object)?.into_iter().collect();
    txn.push(object, Mutation::SetXattrs(xattrs));
    let header = store.omap_header(coll, object)?;
    if !header.is_empty() {
        txn.push(object, Mutation::OmapSetHeader(header));
    }
    let omap = store.omap_range(coll, object, std::ops::Bound::Unbounded, usize::MAX)?;
    if !omap.is_empty() {
        txn.push(object, Mutation::OmapSet(omap.into_iter().collect()));
    }
    Ok(txn)
}
