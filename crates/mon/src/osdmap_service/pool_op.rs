//! `MPoolOp`: pools and snapshots as librados changes them.

use auth::{MonAccess, OsdCaps};
use bytes::Bytes;
use messages::{MPoolOp, MPoolOpReply, PaxosHeader, PoolOpCode};
use types::{Errno, IntervalSet, PgPool, PoolFlags, PoolId, PoolSnapInfo, SnapId, UTime};

use super::{PoolParams, RuleRef};
use crate::{ConnId, Effect, Effects, Mon, ledger_keys, state::value};

type OpResult = Result<Option<Bytes>, Errno>;

impl Mon {
    pub(crate) fn on_pool_op(
        &mut self,
        wall: UTime,
        conn: ConnId,
        tid: u64,
        op: &MPoolOp,
        effects: &mut Effects,
    ) {
        let outcome = if op.fsid != self.committed.monmap.fsid {
            Err(Errno::EINVAL)
        } else if !self.may_pool_op(conn, op) {
            Err(Errno::EPERM)
        } else if self.cannot_change_osdmap().is_some() {
            // A snapshot's id would be one that was given before.
            Err(Errno::EIO)
        } else {
            self.run_pool_op(wall, op)
        };
        // The epoch is filled in when the change is committed.
        let epoch = self.committed.osdmap.epoch;
        let (reply_code, response) = match outcome {
            Ok(response) => (0, response),
            Err(errno) => (errno.negated(), None),
        };
        let header = PaxosHeader::new(u64::from(epoch.0));
        let reply = MPoolOpReply { header, fsid: op.fsid, reply_code, epoch, response };
        self.answer_when_committed(Effect::Send { conn, tid, message: reply.into() }, effects);
    }

    /// Any peer that may write to the pool may make and remove self-managed snapshots; everything else takes
    /// capabilities on the monitors.
    fn may_pool_op(&self, conn: ConnId, op: &MPoolOp) -> bool {
        let Some(session) = self.sessions.get(&conn) else { return false };
        let is_unmanaged =
            matches!(op.op, PoolOpCode::CREATE_UNMANAGED_SNAP | PoolOpCode::DELETE_UNMANAGED_SNAP);
        let pool_name = self.next.osdmap.pool_name(PoolId(i64::from(op.pool))).filter(|_| is_unmanaged);
        // Only these have the name of a command that capabilities can grant.
        let command = if is_unmanaged { "osd pool op unmanaged-snap" } else { "" };
        let arguments = pool_name.map(|name| ("poolname".to_owned(), name.to_owned())).into_iter().collect();
        let entity = session.peer.name.to_string();
        let access = MonAccess {
            entity: &entity,
            service: "osd",
            command,
            arguments: &arguments,
            read: false,
            write: true,
            execute: false,
        };
        if self.allows(&session.peer, &access) {
            return true;
        }
        let Some(name) = pool_name else { return false };
        let caps = self.caps_of(&session.peer, "osd");
        OsdCaps::parse(&caps).is_ok_and(|caps| caps.at(session.peer.ip).may_snap_in(name))
    }

    fn run_pool_op(&mut self, wall: UTime, op: &MPoolOp) -> OpResult {
        let id = PoolId(i64::from(op.pool));
        // Commands could name nothing that is not UTF-8, nor maps show it.
        let name = std::str::from_utf8(&op.name).map_err(|_| Errno::EINVAL)?;
        if op.op == PoolOpCode::CREATE {
            // A client may ask again for what was already done: clients check themselves whether there is such a pool.
            if self.next.osdmap.pool_by_name(name).is_some() {
                return Ok(None);
            }
            let rule = match op.crush_rule {
                ..0 => None,
                id => Some(RuleRef::Id(u8::try_from(id).map_err(|_| Errno::ENOENT)?)),
            };
            let params = PoolParams { name: name.to_owned(), rule, ..PoolParams::default() };
            return self.create_pool(wall, &params).map(|_| None).map_err(|(errno, _)| errno);
        }
        let Some(pool) = self.next.osdmap.pools.get(&id).cloned() else {
            // Deleting what is gone succeeds.
            return if op.op == PoolOpCode::DELETE { Ok(None) } else { Err(Errno::ENOENT) };
        };
        match op.op {
            PoolOpCode::DELETE if !self.options.is_pool_delete_allowed => Err(Errno::EPERM),
            PoolOpCode::DELETE => self.delete_pool(wall, id).map(|()| None).map_err(|(errno, _)| errno),
            PoolOpCode::CREATE_SNAP if pool.is_tier() => Err(Errno::EINVAL),
            PoolOpCode::CREATE_SNAP => self.make_pool_snap(wall, id, pool, name),
            PoolOpCode::DELETE_SNAP => self.remove_pool_snap(wall, id, pool, name),
            PoolOpCode::CREATE_UNMANAGED_SNAP => self.make_unmanaged_snap(wall, id, pool),
            PoolOpCode::DELETE_UNMANAGED_SNAP => self.remove_unmanaged_snap(wall, id, pool, op.snapid),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn put_pool(&mut self, wall: UTime, id: PoolId, pool: PgPool, removed: &IntervalSet) {
        self.change_osdmap(wall, |_, inc| {
            if !removed.is_empty() {
                inc.new_removed_snaps.entry(id).or_default().union_with(removed);
            }
            let pool = PgPool { snap_epoch: inc.epoch, ..pool };
            inc.new_pools.insert(id, pool);
        });
        if !removed.is_empty() {
            let mut all = self.next.removed_snaps.get(&id).cloned().unwrap_or_default();
            all.union_with(removed);
            self.put(ledger_keys::removed_snaps(id), value(&all));
        }
    }

    /// A snapshot of the whole pool.
    pub(crate) fn make_pool_snap(
        &mut self,
        wall: UTime,
        id: PoolId,
        mut pool: PgPool,
        name: &str,
    ) -> OpResult {
        if pool.is_unmanaged_snaps_mode() {
            return Err(Errno::EINVAL);
        }
        if pool.snap_by_name(name).is_none() {
            pool.flags |= PoolFlags::POOL_SNAPS;
            pool.snap_seq = SnapId(pool.snap_seq.0 + 1);
            let snap = PoolSnapInfo { snapid: pool.snap_seq, stamp: wall, name: name.to_owned() };
            pool.snaps.insert(pool.snap_seq, snap);
            self.put_pool(wall, id, pool, &IntervalSet::new());
        }
        Ok(None)
    }

    /// Removes a snapshot of the whole pool.
    pub(crate) fn remove_pool_snap(
        &mut self,
        wall: UTime,
        id: PoolId,
        mut pool: PgPool,
        name: &str,
    ) -> OpResult {
        if pool.is_unmanaged_snaps_mode() {
            return Err(Errno::EINVAL);
        }
        if let Some(snap) = pool.snap_by_name(name) {
            pool.snaps.remove(&snap);
            pool.snap_seq = SnapId(pool.snap_seq.0 + 1);
            let mut removed = IntervalSet::new();
            removed.insert(snap.0, 1);
            self.put_pool(wall, id, pool, &removed);
        }
        Ok(None)
    }

    fn make_unmanaged_snap(&mut self, wall: UTime, id: PoolId, mut pool: PgPool) -> OpResult {
        if pool.is_pool_snaps_mode() {
            return Err(Errno::EINVAL);
        }
        pool.flags |= PoolFlags::SELFMANAGED_SNAPS;
        // The first id is 2, as in Ceph: 1 marked the mode in old pools.
        let snap = pool.snap_seq.0.max(1) + 1;
        pool.snap_seq = SnapId(snap);
        self.put_pool(wall, id, pool, &IntervalSet::new());
        Ok(value(&snap))
    }

    fn remove_unmanaged_snap(&mut self, wall: UTime, id: PoolId, mut pool: PgPool, snap: SnapId) -> OpResult {
        if pool.is_pool_snaps_mode() {
            return Err(Errno::EINVAL);
        }
        if !pool.is_unmanaged_snaps_mode() {
            return Err(Errno::EOPNOTSUPP);
        }
        if snap.0 == 0 || snap > pool.snap_seq {
            return Err(Errno::ENOENT);
        }
        if !self.next.removed_snaps.get(&id).is_some_and(|set| set.contains(snap.0)) {
            pool.snap_seq = SnapId(pool.snap_seq.0 + 1);
            let mut removed = IntervalSet::new();
            removed.insert(snap.0, 1);
            // The number that this takes never is a snapshot. With it, the numbers of snapshots that are made and
            // removed one after another become one interval, here and in each PG, instead of one each for ever.
            // (Snapshots of the whole pool leave theirs out: clones are named by it, as it is the sequence number of
            // later changes.)
            removed.insert(pool.snap_seq.0, 1);
            self.put_pool(wall, id, pool, &removed);
        }
        Ok(None)
    }
}
