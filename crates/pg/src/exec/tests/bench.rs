//! One object's PG in memory: requests in, results out, changes applied at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{MOSDOp, MPgCopyData, ObjectLocator, OpCode, OpParams, OsdOp, osd_flag};
use store::{MemStore, ObjectStore};
use types::{
    CollId, EVersion, EntityAddr, EntityNum, Epoch, Errno, HObject, Mutation, PgId, PoolId, ReqId,
    SnapContext, SnapId, Token, Transaction, TxnOp, UTime,
};

use crate::exec::{
    Blocked, CopySource, Delta, Executed, MeasuredOmap, OpContext, copy_out, execute, keep_part,
};

pub(super) const POOL: PoolId = PoolId(1);

pub(super) struct Bench {
    pub(super) store: MemStore,
    pub(super) ctx: OpContext,
    pub(super) snapc: SnapContext,
    pub(super) flags: u32,
    pub(super) total: Delta,
}

pub(super) fn step(code: OpCode, params: OpParams, data: impl Into<Bytes>) -> OsdOp {
    OsdOp { code, params, data: data.into(), ..OsdOp::default() }
}

pub(super) fn plain(code: OpCode) -> OsdOp {
    OsdOp::new(code)
}

/// An extent op whose length is that of its data.
pub(super) fn extent(code: OpCode, offset: u64, data: &'static str) -> OsdOp {
    step(code, OpParams::extent(offset, data.len() as u64), data)
}

pub(super) fn range(code: OpCode, offset: u64, len: u64) -> OsdOp {
    step(code, OpParams::extent(offset, len), "")
}

/// As [`extent`], of a client that knows of a truncation.
pub(super) fn truncated(mut op: OsdOp, seq: u32, size: u64) -> OsdOp {
    op.params.0[16..24].copy_from_slice(&size.to_le_bytes());
    op.params.0[24..28].copy_from_slice(&seq.to_le_bytes());
    op
}

pub(super) fn xattr(code: OpCode, name: &str, value: &str) -> OsdOp {
    compared_xattr(code, name, value.as_bytes(), 0, 0)
}

pub(super) fn compared_xattr(code: OpCode, name: &str, value: &[u8], op: u8, mode: u8) -> OsdOp {
    let lens = [(name.len() as u32).to_le_bytes(), (value.len() as u32).to_le_bytes()];
    let params = OpParams::from_parts(&[&lens[0], &lens[1], &[op, mode]]);
    step(code, params, [name.as_bytes(), value].concat())
}

pub(super) fn encoded(code: OpCode, input: impl Encode) -> OsdOp {
    step(code, OpParams::default(), input.to_bytes(Features::default()))
}

pub(super) fn call(class: &str, method: &str, input: &[u8]) -> OsdOp {
    let lens = [class.len() as u8, method.len() as u8, 0];
    let params = OpParams::from_parts(&[&lens, &(input.len() as u32).to_le_bytes()]);
    step(OpCode::CALL, params, [class.as_bytes(), method.as_bytes(), input].concat())
}

pub(super) fn watch(op: u8, cookie: u64) -> OsdOp {
    step(OpCode::WATCH, OpParams::from_parts(&[&cookie.to_le_bytes(), &[0; 8], &[op]]), "")
}

pub(super) fn snap(code: OpCode, snap: u64) -> OsdOp {
    step(code, OpParams::from_parts(&[&snap.to_le_bytes()]), "")
}

/// True if the request changed its object; one that came to nothing is logged and changes nothing.
pub(super) fn has_changed(done: &Executed) -> bool {
    done.staged.as_ref().is_some_and(|staged| !staged.txn.ops.is_empty())
}

pub(super) fn entries(pairs: &[(&'static str, &'static str)]) -> BTreeMap<Bytes, Bytes> {
    pairs.iter().map(|(k, v)| (Bytes::from(*k), Bytes::from(*v))).collect()
}

/// A copy that has nothing yet.
pub(super) fn copy_data(coll: CollId) -> MPgCopyData {
    MPgCopyData {
        pgid: PgId::new(POOL, 0),
        epoch: Epoch(1),
        id: 1,
        result: 0,
        user_version: 0,
        truncate_seq: 0,
        truncate_size: 0,
        txn: Transaction::new(coll),
        elsewhere: None,
        missing: Default::default(),
        mtime: None,
    }
}

impl Bench {
    pub(super) fn new() -> Bench {
        let coll = CollId::pg(PgId::new(POOL, 0));
        let mut store = MemStore::new();
        let mut txn = Transaction::new(coll);
        txn.ops.push(TxnOp::CreateCollection);
        store.submit(Token(0), txn);
        let ctx = OpContext {
            coll,
            wall: UTime::default(),
            reqid: ReqId::default(),
            origin: EntityNum::client(7),
            origin_addr: EntityAddr::default(),
            next_version: EVersion::new(Epoch(1), 1),
            last_user_version: 0,
            pool_snapc: None,
            removed_snaps: Arc::default(),
            connected: BTreeSet::new(),
            missing: BTreeSet::new(),
            copied: BTreeMap::new(),
            asked: BTreeMap::new(),
            past: Vec::new(),
            pg_num: 1,
            full: None,
            notify_id: 900,
            notify_room: u64::MAX,
            random_seed: 0,
            loads_most: 64,
        };
        let (snapc, total) = (SnapContext::default(), Delta::default());
        Bench { store, ctx, snapc, flags: 0, total }
    }

    pub(super) fn object(name: &str) -> HObject {
        let oid = Bytes::from(name.to_string());
        HObject { oid, pool: POOL, snap: SnapId::HEAD, ..HObject::default() }
    }

    pub(super) fn request(&self, name: &str, snapid: SnapId, ops: Vec<OsdOp>) -> MOSDOp {
        MOSDOp {
            pgid: PgId::new(POOL, 0),
            flags: self.flags,
            locator: ObjectLocator { pool: POOL, ..ObjectLocator::default() },
            oid: Bytes::from(name.to_string()),
            ops,
            snapid,
            snapc: self.snapc.clone(),
            ..MOSDOp::default()
        }
    }

    pub(super) fn apply(&mut self, done: &Executed) {
        if let Some(staged) = &done.staged {
            let last = staged.log.last().expect("a change is logged");
            self.ctx.next_version = EVersion { version: last.version.version + 1, ..last.version };
            let seen = staged.log.iter().map(|entry| entry.user_version);
            self.ctx.last_user_version = seen.fold(self.ctx.last_user_version, u64::max);
            self.total.objects += staged.delta.objects;
            self.total.clones += staged.delta.clones;
            self.total.bytes = self.total.bytes.saturating_add(staged.delta.bytes);
            self.store.submit(Token(0), staged.txn.clone());
        }
    }

    pub(super) fn execute(&mut self, op: &MOSDOp) -> Result<Executed, Errno> {
        match execute(&self.store, &self.ctx, op) {
            Ok(mut done) => {
                self.apply(&done);
                // As a client gets them.
                done.ops
                    .iter_mut()
                    .for_each(|step| *step = OsdOp { data: step.copied_data(), ..std::mem::take(step) });
                done.ops.iter_mut().for_each(|step| step.data_more.clear());
                Ok(done)
            }
            Err(Blocked::Refused(errno)) => Err(errno),
            Err(Blocked::Copy { subop, source, part }) => {
                self.fetch(subop, &source, part);
                self.execute(op)
            }
            Err(Blocked::PassOn { .. } | Blocked::Ask { .. }) => Err(Errno::EXDEV),
            Err(Blocked::NotCached(missing)) => panic!("all is in memory, not so {missing:?}"),
        }
    }

    /// What the PG keeps with an object cannot be decoded from now on.
    pub(super) fn damage(&mut self, object: &HObject, xattr: &'static [u8]) {
        let pair = (Bytes::from_static(xattr), Bytes::from_static(b"?"));
        let mut txn = Transaction::new(self.ctx.coll);
        txn.push(object, Mutation::SetXattrs([pair].into()));
        self.store.submit(Token(0), txn);
    }

    /// Fetches for a copy what the PG would fetch, from objects of this bench.
    pub(super) fn fetch(&mut self, subop: u32, source: &CopySource, part: Option<(u32, u32)>) {
        let object = HObject {
            oid: source.oid.clone(),
            nspace: source.locator.nspace.clone(),
            pool: source.locator.pool,
            snap: source.snap,
            ..HObject::default()
        };
        let mut data = copy_data(self.ctx.coll);
        let is_removed = self.ctx.removed_snaps.contains(object.snap.0);
        let measured = &mut MeasuredOmap::default();
        copy_out(&self.store, self.ctx.coll, &object, is_removed, measured, &mut data).unwrap();
        if let Some((start, length)) = part {
            keep_part(&mut data, start, length);
        }
        self.ctx.copied.insert(subop, Box::new(data));
    }

    /// Runs ops on the object `o` at a snapshot.
    pub(super) fn at(&mut self, snapid: SnapId, ops: Vec<OsdOp>) -> Result<Executed, Errno> {
        let request = self.request("o", snapid, ops);
        self.execute(&request)
    }

    /// Runs ops on the object `o`.
    pub(super) fn run(&mut self, ops: Vec<OsdOp>) -> Result<Executed, Errno> {
        self.at(SnapId::HEAD, ops)
    }

    /// As [`Bench::run`]: the request's result, refusals included.
    pub(super) fn result(&mut self, ops: Vec<OsdOp>) -> i32 {
        self.run(ops).map_or_else(Errno::negated, |done| done.result)
    }

    /// The object's data at a snapshot.
    pub(super) fn read_at(&mut self, snapid: SnapId) -> Result<Bytes, Errno> {
        let done = self.at(snapid, vec![range(OpCode::READ, 0, 0)])?;
        Ok(done.ops[0].data.clone())
    }

    pub(super) fn read(&mut self) -> Result<Bytes, Errno> {
        self.read_at(SnapId::HEAD)
    }

    pub(super) fn put(&mut self, data: &'static str) {
        assert_eq!(self.result(vec![extent(OpCode::WRITEFULL, 0, data)]), 0);
    }

    /// A snapshot is made; writers know it from then on.
    pub(super) fn make_snap(&mut self, id: u64) {
        self.snapc.seq = SnapId(id);
        self.snapc.snaps.insert(0, SnapId(id));
    }

    pub(super) fn remove_snap(&mut self, id: u64) {
        Arc::make_mut(&mut self.ctx.removed_snaps).insert(id, 1);
    }

    pub(super) fn return_outputs(&mut self) {
        self.flags |= osd_flag::RETURNVEC;
    }
}
