//! `OSDOp` / `ceph_osd_op`: one step of a client's operation (38 bytes, then its in or out data).

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Payload, Reader};
use types::SnapId;

/// `CEPH_OSD_OP_*`. The high nibble is the mode (1 read, 2 write, 3 both), the next the type
/// (2 data, 3 attr, 4 exec, 5 pg).
#[derive(Codec, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OpCode(pub u16);

macro_rules! opcodes {
    ($($name:ident = $value:literal;)*) => {
        #[allow(missing_docs, reason = "Ceph's own names")]
        impl OpCode { $(pub const $name: OpCode = OpCode($value);)* }
        impl OpCode {
            /// All that have a name.
            pub const ALL: &[OpCode] = &[$(OpCode($value)),*];

            /// Ceph's name of the op, if we know it.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

opcodes! {
    READ = 0x1201; STAT = 0x1202; MAPEXT = 0x1203; MASKTRUNC = 0x1204; SPARSE_READ = 0x1205;
    NOTIFY = 0x1206; NOTIFY_ACK = 0x1207; ASSERT_VER = 0x1208; LIST_WATCHERS = 0x1209;
    LIST_SNAPS = 0x120a; SYNC_READ = 0x120b;
    TMAPGET = 0x120c; OMAPGETKEYS = 0x1211; OMAPGETVALS = 0x1212; OMAPGETHEADER = 0x1213;
    OMAPGETVALSBYKEYS = 0x1214; OMAP_CMP = 0x1219; COPY_GET_CLASSIC = 0x121b; ISDIRTY = 0x121d;
    COPY_GET = 0x121e; CHECKSUM = 0x121f; CMPEXT = 0x1220;
    GETXATTR = 0x1301; GETXATTRS = 0x1302; CMPXATTR = 0x1303; SRC_CMPXATTR = 0x1304;
    CALL = 0x1401;
    PGLS = 0x1501; PGLS_FILTER = 0x1502; PG_HITSET_LS = 0x1503; PG_HITSET_GET = 0x1504;
    PGNLS = 0x1505; PGNLS_FILTER = 0x1506; SCRUBLS = 0x1507;
    WRITE = 0x2201; WRITEFULL = 0x2202; TRUNCATE = 0x2203; ZERO = 0x2204; DELETE = 0x2205;
    APPEND = 0x2206; STARTSYNC = 0x2207; SETTRUNC = 0x2208; TRIMTRUNC = 0x2209;
    TMAPPUT = 0x220b; CREATE = 0x220d; ROLLBACK = 0x220e; WATCH = 0x220f;
    OMAPSETVALS = 0x2215; OMAPSETHEADER = 0x2216; OMAPCLEAR = 0x2217; OMAPRMKEYS = 0x2218;
    COPY_FROM = 0x221a; UNDIRTY = 0x221c; SETALLOCHINT = 0x2223; CACHE_PIN = 0x2224;
    CACHE_UNPIN = 0x2225; WRITESAME = 0x2226; SET_REDIRECT = 0x2227; TIER_PROMOTE = 0x2229;
    UNSET_MANIFEST = 0x222a; OMAPRMKEYRANGE = 0x222c; COPY_FROM2 = 0x222d;
    SETXATTR = 0x2301; SETXATTRS = 0x2302; RESETXATTRS = 0x2303; RMXATTR = 0x2304;
    TMAPUP = 0x320a; CACHE_FLUSH = 0x821f; CACHE_EVICT = 0x8220; CACHE_TRY_FLUSH = 0x8221;
    TMAP2OMAP = 0x3222; SET_CHUNK = 0x8228; TIER_FLUSH = 0x822b; TIER_EVICT = 0x822c;
    PULL = 0x4001; PUSH = 0x4002; BALANCEREADS = 0x4003; UNBALANCEREADS = 0x4004; SCRUB = 0x4005;
    SCRUB_RESERVE = 0x4006; SCRUB_UNRESERVE = 0x4007; SCRUB_MAP = 0x4009;
}

impl std::fmt::Debug for OpCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "op {:#06x}", self.0),
        }
    }
}

impl OpCode {
    /// True when the op's mode says that it may change the object.
    pub fn is_write(self) -> bool {
        self.0 & 0x2000 != 0
    }

    /// True when the op's mode says that it reads.
    pub fn is_read(self) -> bool {
        self.0 & 0x1000 != 0
    }

    /// True for ops that change the object though their mode does not say so. They change what it refers to, and may
    /// be asked of clones, too (`may_cache`).
    pub fn changes_despite_its_mode(self) -> bool {
        matches!(self, OpCode::SET_CHUNK | OpCode::TIER_EVICT)
    }

    /// True for ops on a PG instead of an object.
    pub fn is_pg(self) -> bool {
        self.0 & 0x0f00 == 0x0500
    }
}

/// `CEPH_OSD_OP_FLAG_*`, flags of one op.
pub mod op_flag {
    /// CREATE fails if the object exists.
    pub const EXCL: u32 = 1;
    /// A failure of this op does not fail the others.
    pub const FAILOK: u32 = 2;
    /// What becomes part of an object's manifest is told of the reference.
    pub const WITH_REFERENCE: u32 = 0x80;
}

/// `CEPH_OSD_WATCH_OP_*`: what a WATCH wants.
#[allow(missing_docs, reason = "Ceph's own names")]
pub mod watch_op {
    pub const UNWATCH: u8 = 0;
    pub const LEGACY_WATCH: u8 = 1;
    pub const WATCH: u8 = 3;
    pub const RECONNECT: u8 = 5;
    pub const PING: u8 = 7;
}

/// The 28-byte union of `ceph_osd_op`, raw: which member counts depends on the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OpParams(pub [u8; 28]);

macro_rules! le {
    ($ty:ty, $bytes:expr, $at:expr) => {
        <$ty>::from_le_bytes(
            $bytes[$at..$at + size_of::<$ty>()].try_into().expect("the range has the integer's size"),
        )
    };
}

impl OpParams {
    /// Parameters made of the little-endian bytes of `parts`, the rest zero.
    pub fn from_parts(parts: &[&[u8]]) -> OpParams {
        let mut out = OpParams::default();
        let mut at = 0;
        for part in parts {
            out.0[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        out
    }

    /// The u64 at byte `at` (at most 20): extent.offset 0, extent.length 8, watch.cookie 0,
    /// notify.cookie 0, pgls.count 0, snap.snapid 0, assert_ver.unused 0, assert_ver.ver 8,
    /// copy_from.snapid 0, copy_from.src_version 8, alloc_hint.expected_object_size 0,
    /// alloc_hint.expected_write_size 8, writesame.data_length 16, checksum.offset 0, checksum.length 8.
    pub fn u64_at(&self, at: usize) -> u64 {
        le!(u64, self.0, at)
    }

    /// The u32 at byte `at` (at most 24): extent.truncate_seq 24, xattr.name_len 0,
    /// xattr.value_len 4, cls.indata_len 3, pgls.start_epoch 8, watch.gen 17, watch.timeout 21,
    /// alloc_hint.flags 16, copy_from.src_fadvise 17, checksum.chunk_size 16.
    pub fn u32_at(&self, at: usize) -> u32 {
        le!(u32, self.0, at)
    }

    /// The byte at `at` (at most 27): cls.class_len 0, cls.method_len 1, xattr.cmp_op 8,
    /// xattr.cmp_mode 9, watch.op 16, copy_from.flags 16, checksum.type 20.
    pub fn u8_at(&self, at: usize) -> u8 {
        self.0[at]
    }

    /// extent.offset.
    pub fn offset(&self) -> u64 {
        self.u64_at(0)
    }

    /// extent.length.
    pub fn length(&self) -> u64 {
        self.u64_at(8)
    }

    /// Parameters of an extent op.
    pub fn extent(offset: u64, length: u64) -> OpParams {
        OpParams::from_parts(&[&offset.to_le_bytes(), &length.to_le_bytes()])
    }

    /// snap.snapid.
    pub fn snap(&self) -> SnapId {
        SnapId(self.u64_at(0))
    }
}

/// One op with its data: input in a request, output in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OsdOp {
    /// What to do.
    pub code: OpCode,
    /// [`op_flag`]s and fadvise hints.
    pub flags: u32,
    /// The op's parameters; a reply echoes the request's.
    pub params: OpParams,
    /// Input or output data.
    pub data: Bytes,
    /// More output, behind `data`, which is sent as it lies in memory. Always empty in received messages.
    pub data_more: Vec<Payload>,
    /// In replies: this op's result, negative errno.
    pub result: i32,
}

/// Bytes of an encoded `ceph_osd_op`.
const OP_BYTES: usize = 38;

impl OsdOp {
    /// An op without parameters or data.
    pub fn new(code: OpCode) -> OsdOp {
        OsdOp { code, ..OsdOp::default() }
    }

    /// What a WATCH wants, of [`watch_op`].
    pub fn watch_op(&self) -> u8 {
        self.params.u8_at(16)
    }

    /// Class and method of a CALL, before its input in the data. None if the data is too short for them.
    pub fn call_names(&self) -> Option<(&[u8], &[u8])> {
        let (class_len, method_len) = (usize::from(self.params.u8_at(0)), usize::from(self.params.u8_at(1)));
        Some(self.data.get(..class_len + method_len)?.split_at(class_len))
    }

    /// True for what may change its object by itself: whether a CALL does, its method says. Capabilities and execution
    /// both go by this, so that no client changes what it may only read.
    pub fn may_change(&self) -> bool {
        match self.code {
            // A ping changes nothing; to watch and to end watching changes the object's record.
            OpCode::WATCH => self.watch_op() != watch_op::PING,
            code => code.is_write() || code.changes_despite_its_mode(),
        }
    }

    /// Bytes of its data.
    pub fn data_bytes(&self) -> usize {
        self.data.len() + self.data_more.iter().map(|piece| piece.len()).sum::<usize>()
    }

    /// All of its data in memory of its own.
    pub fn copied_data(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.data_bytes());
        self.data_pieces().for_each(|piece| out.extend_from_slice(&piece));
        out.into()
    }

    /// Its data as it lies in memory.
    pub(crate) fn data_pieces(&self) -> impl Iterator<Item = Payload> {
        let first = (!self.data.is_empty()).then(|| self.data.clone().into());
        first.into_iter().chain(self.data_more.iter().cloned())
    }

    /// Forgets its data.
    pub fn clear_data(&mut self) {
        self.data = Bytes::new();
        self.data_more = Vec::new();
    }

    pub(crate) fn encode_ops(ops: &[OsdOp], out: &mut Vec<u8>) {
        let f = Features::PACIFIC;
        for op in ops {
            op.code.encode(out, f);
            op.flags.encode(out, f);
            out.extend_from_slice(&op.params.0);
            (op.data_bytes() as u32).encode(out, f);
        }
    }

    /// Ops without their data where that is not here.
    pub(crate) fn decode_ops(
        count: usize,
        front: &mut Reader,
        mut data: Option<&mut Reader>,
    ) -> Result<Vec<OsdOp>, DecodeError> {
        if count * OP_BYTES > front.remaining() {
            return Err(DecodeError::Truncated { needed: count * OP_BYTES, available: front.remaining() });
        }
        let mut ops = Vec::with_capacity(count);
        for _ in 0..count {
            let code = OpCode::decode(front)?;
            let flags = u32::decode(front)?;
            let params = OpParams(front.array()?);
            let bytes = u32::decode(front)? as usize;
            let data = data.as_mut().map_or_else(|| Ok(Bytes::new()), |data| data.take(bytes))?;
            ops.push(OsdOp { code, flags, params, data, ..OsdOp::default() });
        }
        Ok(ops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_change_their_object_by_their_mode_but_for_a_few() {
        let change = |code| OsdOp::new(code).may_change();
        for code in [OpCode::WRITE, OpCode::TMAPUP, OpCode::SET_CHUNK, OpCode::TIER_EVICT] {
            assert!(change(code), "{code:?}");
        }
        for code in [OpCode::READ, OpCode::CALL, OpCode::CACHE_EVICT, OpCode::TIER_FLUSH, OpCode::NOTIFY] {
            assert!(!change(code), "{code:?}");
        }
        let watch = |kind: u8| {
            let params = OpParams::from_parts(&[&[0; 16], &[kind]]);
            OsdOp { params, ..OsdOp::new(OpCode::WATCH) }.may_change()
        };
        assert_eq!([0, 1, 3, 5, 7, 9].map(watch), [true, true, true, true, false, true]);
    }

    #[test]
    fn a_call_names_its_class_and_method() {
        let call = |class: u8, method: u8| {
            let (params, data) =
                (OpParams::from_parts(&[&[class, method]]), Bytes::from_static(b"rbdget_idx"));
            let op = OsdOp { params, data, ..OsdOp::new(OpCode::CALL) };
            op.call_names().map(|(class, method)| (class.to_vec(), method.to_vec()))
        };
        assert_eq!(call(3, 6), Some((b"rbd".to_vec(), b"get_id".to_vec())));
        assert_eq!(call(3, 7), Some((b"rbd".to_vec(), b"get_idx".to_vec())));
        assert_eq!((call(3, 8), call(11, 0), call(255, 255)), (None, None, None));
    }
}
