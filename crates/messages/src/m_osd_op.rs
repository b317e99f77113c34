//! `MOSDOp` (42), version 8 (messages/MOSDOp.h).

use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Payload, Reader, Sums};
use types::{Epoch, HObject, PgId, PoolId, ReqId, SnapContext, SnapId, SpgId, UTime};

use crate::{OpCode, OsdOp, RawMessage, table::Body};

/// An op's data that is less than such a part of a message's gets memory of its own: attributes and omap stay for long,
/// and would keep all that came with them.
const SMALL_PART: usize = 4;
/// No object gets larger (`osd_max_object_size`): what WRITESAME asks for beyond is refused.
const REPEATED_BYTES_MAX: u64 = 128 << 20;

/// `CEPH_OSD_FLAG_*`: flags of the whole operation.
#[allow(missing_docs, reason = "Ceph's own names")]
pub mod osd_flag {
    pub const ACK: u32 = 0x0001;
    pub const ONNVRAM: u32 = 0x0002;
    pub const ONDISK: u32 = 0x0004;
    pub const RETRY: u32 = 0x0008;
    pub const READ: u32 = 0x0010;
    pub const WRITE: u32 = 0x0020;
    pub const ORDERSNAP: u32 = 0x0040;
    pub const PEERSTAT_OLD: u32 = 0x0080;
    pub const BALANCE_READS: u32 = 0x0100;
    pub const PARALLELEXEC: u32 = 0x0200;
    pub const PGOP: u32 = 0x0400;
    pub const EXEC: u32 = 0x0800;
    pub const LOCALIZE_READS: u32 = 0x2000;
    pub const RWORDERED: u32 = 0x4000;
    pub const IGNORE_CACHE: u32 = 0x8000;
    pub const SKIPRWLOCKS: u32 = 0x1_0000;
    pub const IGNORE_OVERLAY: u32 = 0x2_0000;
    pub const FLUSH: u32 = 0x4_0000;
    pub const MAP_SNAP_CLONE: u32 = 0x8_0000;
    pub const ENFORCE_SNAPC: u32 = 0x10_0000;
    pub const REDIRECTED: u32 = 0x20_0000;
    pub const KNOWN_REDIR: u32 = 0x40_0000;
    pub const FULL_TRY: u32 = 0x80_0000;
    pub const FULL_FORCE: u32 = 0x100_0000;
    pub const IGNORE_REDIRECT: u32 = 0x200_0000;
    pub const RETURNVEC: u32 = 0x400_0000;
    pub const SUPPORTSPOOLEIO: u32 = 0x800_0000;

    /// The flags of reads that any copy may answer. A flag that says which copy is treated like one that does not.
    pub const ANY_COPY: u32 = BALANCE_READS | LOCALIZE_READS;
}

/// True when an op's mode, or the client's flags, say that a request may change its object. What its ops really do can
/// differ either way ([`OsdOp::may_change`], and methods of classes).
pub fn says_it_writes(flags: u32, ops: &[OsdOp]) -> bool {
    flags & osd_flag::WRITE != 0 || ops.iter().any(|op| op.code.is_write())
}

/// True for the flags of a request that its client does not hold back when the pool has no room.
pub fn tries_when_full(flags: u32) -> bool {
    flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) != 0
}

/// `object_locator_t`: where in a pool an object is placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectLocator {
    /// The pool.
    pub pool: PoolId,
    /// Hashed instead of the name, if not empty.
    pub key: Bytes,
    /// The namespace.
    pub nspace: Bytes,
    /// The PG's seed for PG ops, else -1.
    pub hash: i64,
}

impl Default for ObjectLocator {
    fn default() -> Self {
        ObjectLocator { pool: PoolId(-1), key: Bytes::new(), nspace: Bytes::new(), hash: -1 }
    }
}

impl ObjectLocator {
    /// For the object of that name: a key that is the name is none (`hobject_t::set_key`).
    pub fn of(self, oid: &Bytes) -> ObjectLocator {
        let key = if self.key == *oid { Bytes::new() } else { self.key };
        ObjectLocator { key, ..self }
    }
}

/// Version 6; compat 6 when `hash` is used, else 3.
impl Encode for ObjectLocator {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        let compat = if self.hash == -1 { 3 } else { 6 };
        codec::encode_envelope(out, 6, compat, |out| {
            self.pool.encode(out, features);
            (-1i32).encode(out, features);
            self.key.encode(out, features);
            self.nspace.encode(out, features);
            self.hash.encode(out, features);
        });
    }
}

impl Decode for ObjectLocator {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        codec::decode_envelope(input, 6, "object_locator_t", |input, version| {
            let pool = PoolId::decode(input)?;
            let _preferred = i32::decode(input)?;
            let key = Bytes::decode(input)?;
            let nspace = if version >= 5 { Bytes::decode(input)? } else { Bytes::new() };
            let hash = if version >= 6 { i64::decode(input)? } else { -1 };
            Ok(ObjectLocator { pool, key, nspace, hash })
        })
    }
}

/// A client's operation: ops on one object (or PG) that happen together.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MOSDOp {
    /// The PG, its seed already folded to `pg_num`.
    pub pgid: PgId,
    /// The shard, -1 for replicated pools.
    pub shard: i8,
    /// The object's full hash.
    pub hash: u32,
    /// The map epoch that the client mapped the object with.
    pub epoch: Epoch,
    /// [`osd_flag`]s.
    pub flags: u32,
    /// All zero from clients, whose name and tid the session and header give.
    pub reqid: ReqId,
    /// The client's incarnation.
    pub client_inc: u32,
    /// The client's wall clock; becomes the object's mtime.
    pub mtime: UTime,
    /// Placement.
    pub locator: ObjectLocator,
    /// The object's name; empty for PG ops.
    pub oid: Bytes,
    /// The ops, done in order.
    pub ops: Vec<OsdOp>,
    /// What to read: the head or a snapshot.
    pub snapid: SnapId,
    /// For writes: the snapshots that exist.
    pub snapc: SnapContext,
    /// 0 at the first attempt.
    pub retry_attempt: i32,
    /// The client's features.
    pub features: u64,
    /// The header's tid. Not part of the front.
    pub tid: u64,
    /// What is known of all ops' data end to end, if a connection has checked it.
    pub data_sums: Option<Sums>,
    /// How long the front is that it was received in, which names and ops keep in memory. Not part of the front.
    pub front_bytes: usize,
}

impl MOSDOp {
    /// The object that is addressed, at the snapshot that is addressed.
    pub fn object(&self) -> HObject {
        HObject {
            oid: self.oid.clone(),
            key: self.locator.key.clone(),
            nspace: self.locator.nspace.clone(),
            pool: self.pgid.pool,
            hash: self.hash,
            snap: self.snapid,
            is_max: false,
        }
    }

    /// The head of the object that is addressed. Ops are put in order by it, and wait until all copies have it: a clone
    /// counts as part of its head.
    pub fn head(&self) -> HObject {
        HObject { snap: SnapId::HEAD, ..self.object() }
    }

    /// Bytes of data that all ops have.
    pub fn data_bytes(&self) -> usize {
        self.ops.iter().map(|op| op.data.len()).sum()
    }

    /// The data of one of the ops, of which all have so many `bytes`; with its checksum where it is the only one that
    /// has data.
    pub fn payload_of(&self, op: &OsdOp, bytes: usize) -> Payload {
        Payload::with_sums(op.data.clone(), self.data_sums.clone().filter(|_| op.data.len() == bytes))
    }

    /// The ops as an answer echoes them: without their data.
    pub fn echoed_ops(&self) -> Vec<OsdOp> {
        let echo = |step: &OsdOp| {
            let OsdOp { code, flags, params, result, .. } = *step;
            OsdOp { code, flags, params, result, ..OsdOp::default() }
        };
        self.ops.iter().map(echo).collect()
    }

    /// What the request may hold while it is on its way: its front, its data, and what its ops make of a few bytes.
    pub fn held_bytes(&self) -> u64 {
        let held = |op: &OsdOp| match op.code {
            OpCode::WRITESAME => op.params.length().min(REPEATED_BYTES_MAX).max(op.data.len() as u64),
            _ => op.data.len() as u64,
        };
        self.ops.iter().map(held).fold(self.front_bytes as u64, u64::saturating_add)
    }

    /// True when the client's flags ask any copy to answer, and nothing says that the request changes the object.
    pub fn asks_any_copy(&self) -> bool {
        self.flags & osd_flag::ANY_COPY != 0 && !self.says_it_writes()
    }

    /// See [`says_it_writes`].
    pub fn says_it_writes(&self) -> bool {
        says_it_writes(self.flags, &self.ops)
    }

    /// See [`tries_when_full`].
    pub fn tries_when_full(&self) -> bool {
        tries_when_full(self.flags)
    }
}

/// Three u64 of tracing ids that no sender sets.
const TRACE_BYTES: usize = 24;

impl Body for MOSDOp {
    fn encode_body(&self, raw: &mut RawMessage) {
        let f = Features::PACIFIC;
        let mut out = Vec::with_capacity(256);
        SpgId { pg: self.pgid, shard: self.shard }.encode(&mut out, f);
        self.hash.encode(&mut out, f);
        self.epoch.encode(&mut out, f);
        self.flags.encode(&mut out, f);
        self.reqid.encode(&mut out, f);
        out.extend_from_slice(&[0; TRACE_BYTES]);
        self.client_inc.encode(&mut out, f);
        self.mtime.encode(&mut out, f);
        self.locator.encode(&mut out, f);
        self.oid.encode(&mut out, f);
        (self.ops.len() as u16).encode(&mut out, f);
        OsdOp::encode_ops(&self.ops, &mut out);
        self.snapid.encode(&mut out, f);
        self.snapc.encode(&mut out, f);
        self.retry_attempt.encode(&mut out, f);
        self.features.encode(&mut out, f);
        raw.front = Bytes::from(out);
        let (bytes, with_data) = (self.data_bytes(), self.ops.iter().filter(|op| !op.data.is_empty()));
        raw.data_more = with_data.map(|op| self.payload_of(op, bytes)).collect();
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let data = Reader::new(Bytes::clone(&raw.data));
        MOSDOp::decode_with(raw, Some(data))
    }
}

impl MOSDOp {
    /// A request whose payload was too long to be taken: its ops have no data, and it can only be refused.
    pub fn decode_too_long(raw: RawMessage) -> Result<MOSDOp, DecodeError> {
        match raw.kind {
            MOSDOp::KIND => MOSDOp::decode_with(raw, None),
            kind => Err(DecodeError::Invalid {
                what: "kind of a message without its payload",
                value: kind.into(),
            }),
        }
    }

    fn decode_with(raw: RawMessage, mut data: Option<Reader>) -> Result<MOSDOp, DecodeError> {
        if raw.version < 8 {
            return Err(DecodeError::Invalid { what: "MOSDOp version", value: u64::from(raw.version) });
        }
        let front_bytes = raw.front.len();
        let mut front = Reader::new(raw.front);
        let input = &mut front;
        let SpgId { pg: pgid, shard } = SpgId::decode(input)?;
        let hash = u32::decode(input)?;
        let epoch = Epoch::decode(input)?;
        let flags = u32::decode(input)?;
        let reqid = ReqId::decode(input)?;
        let _trace: [u8; TRACE_BYTES] = input.array()?;
        let client_inc = u32::decode(input)?;
        let mtime = UTime::decode(input)?;
        let locator = ObjectLocator::decode(input)?;
        let oid = Bytes::decode(input)?;
        let count = usize::from(u16::decode(input)?);
        let mut ops = OsdOp::decode_ops(count, input, data.as_mut())?;
        for op in &mut ops {
            if !op.data.is_empty() && op.data.len() < raw.data.len() / SMALL_PART {
                op.data = Bytes::copy_from_slice(&op.data);
            }
        }
        let data_sums = raw.data.sums().filter(|_| data.is_none_or(|data| data.remaining() == 0)).cloned();
        Ok(MOSDOp {
            pgid,
            shard,
            hash,
            epoch,
            flags,
            reqid,
            client_inc,
            mtime,
            locator: locator.of(&oid),
            oid,
            ops,
            snapid: SnapId::decode(input)?,
            snapc: SnapContext::decode(input)?,
            retry_attempt: i32::decode(input)?,
            features: u64::decode(input)?,
            tid: raw.tid,
            data_sums,
            front_bytes,
        })
    }
}

#[cfg(test)]
mod damage;
