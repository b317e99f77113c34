//! What the copies of a PG say to each other. Names follow the Ceph messages of the same part,
//! encodings are ours.

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};
use types::{
    ChunkMap, EVersion, Epoch, HObject, IntervalSet, LogEntry, Missing, ObjectVersions, OsdId, PgId, PgInfo,
    PgInterval, PgTotals, ScrubHistory, SnapId, Transaction, UTime, decode_chunks,
};

use crate::{
    RawMessage,
    table::{Body, front_only},
};

/// A change to be made durable: from the primary to each replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MOSDRepOp {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The newest version of `log`; the answer names it.
    pub version: EVersion,
    /// Log entries of the change.
    pub log: Vec<LogEntry>,
    /// Log entries up to here may go.
    pub trim_to: EVersion,
    /// What the PG holds with the change.
    pub totals: PgTotals,
    /// The change.
    pub txn: Transaction,
    /// All members have all changes up to this one durable (`min_last_complete_ondisk`).
    pub committed_to: EVersion,
}

/// Appends a transaction: metadata to the front, payload to the data segment.
fn encode_txn(txn: &Transaction, front: &mut Vec<u8>, raw: &mut RawMessage) {
    txn.encode_split(front, &mut raw.data_more);
}

fn decode_txn(front: &mut Reader, raw: &RawMessage) -> Result<Transaction, DecodeError> {
    let mut payload = Reader::new(Bytes::clone(&raw.data));
    let mut txn = Transaction::decode_split(front, &mut payload)?;
    if let (Some(sums), 0) = (raw.data.sums(), payload.remaining()) {
        txn.set_payload_sums(sums);
    }
    Ok(txn)
}

impl Body for MOSDRepOp {
    fn encode_body(&self, raw: &mut RawMessage) {
        let (f, mut out) = (Features::PACIFIC, Vec::with_capacity(768));
        (self.pgid, self.epoch, self.version).encode(&mut out, f);
        self.log.encode(&mut out, f);
        (self.trim_to, self.totals).encode(&mut out, f);
        encode_txn(&self.txn, &mut out, raw);
        self.committed_to.encode(&mut out, f);
        raw.front = out.into();
    }

    fn decode_body(mut raw: RawMessage) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(std::mem::take(&mut raw.front));
        let (pgid, epoch, version) = Decode::decode(&mut reader)?;
        let log = Decode::decode(&mut reader)?;
        let (trim_to, totals) = Decode::decode(&mut reader)?;
        let txn = decode_txn(&mut reader, &raw)?;
        let committed_to = if raw.version >= 2 { Decode::decode(&mut reader)? } else { EVersion::ZERO };
        Ok(MOSDRepOp { pgid, epoch, version, log, trim_to, totals, txn, committed_to })
    }
}

/// The change is durable.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDRepOpReply {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// Which.
    pub version: EVersion,
}
front_only!(MOSDRepOpReply);

/// Primary to replica: what is new of the PG's info that no change of an object tells (`MOSDPGInfo2`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct MPgInfo {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// When it was scrubbed, and with what result.
    pub history: ScrubHistory,
    /// What it holds.
    pub totals: PgTotals,
    /// Snapshots whose clones are trimmed, on all copies.
    #[codec(since = 2)]
    pub purged_snaps: IntervalSet,
}
front_only!(MPgInfo);

/// Primary to replica, when no change tells it: the primary serves, and all members have all changes up to this one
/// durable (`MOSDPGPCT` of later releases).
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MPgCommitted {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The change.
    pub committed_to: EVersion,
}
front_only!(MPgCommitted);

/// The primary asks for a copy's info, or for its log.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct MPgQuery {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The epoch in which the PG was made.
    pub created: Epoch,
    /// True to ask for the log.
    pub wants_log: bool,
    /// For the log: what the primary has.
    pub since: EVersion,
    /// For the log: where the primary's own begins.
    #[codec(since = 2)]
    pub tail: EVersion,
}
front_only!(MPgQuery);

/// A member of an earlier interval may still serve, as far as the sender knows.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct PriorLease {
    /// The member.
    pub osd: OsdId,
    /// How many nanoseconds longer it may serve.
    pub left_ns: u64,
}

/// A copy tells the primary that it exists.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 2)]
pub struct MPgNotify {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// Where it is.
    pub info: PgInfo,
    /// What it knows of the past.
    pub intervals: Vec<PgInterval>,
    /// The members of earlier intervals that may still serve, as far as the sender knows.
    pub leases: Vec<PriorLease>,
}
front_only!(MPgNotify);

/// A log: the best copy's, for the primary, or the primary's, by which replicas activate.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MPgLog {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The sender's info.
    pub info: PgInfo,
    /// Entries, ascending, up to `info.last_update`.
    pub entries: Vec<LogEntry>,
    /// All objects with their versions, where the log does not reach the receiver.
    pub objects: Option<ObjectVersions>,
    /// What the sender itself lacks.
    pub missing: Missing,
    /// True from the primary: take this as yours and activate.
    pub is_activation: bool,
    /// The past, as the sender knows it.
    pub intervals: Vec<PgInterval>,
}
front_only!(MPgLog);

/// A replica is active.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct MPgActivated {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// What it lacks.
    pub missing: Missing,
    /// It takes pushes that begin with a neighbour ([`CloneBase`]): an OSD that does not know of them says nothing.
    #[codec(since = 2)]
    pub takes_clones: bool,
}
front_only!(MPgActivated);

/// The neighbour that a pushed object begins as a clone of: the head of the same object, or another clone of it. What
/// the two share is not sent.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct CloneBase {
    /// Which.
    pub snap: SnapId,
    /// The version in which the receiver has to have it.
    pub version: EVersion,
    /// The version of the head at the sender, which says what is shared: that must not change from part to part.
    pub head: EVersion,
}

/// How far an object has been sent: its data comes first, then its xattrs and the header of its omap, then that (the
/// part of `ObjectRecoveryProgress`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct ObjectCursor {
    /// Data before this byte.
    pub data: u64,
    /// All data.
    pub has_data: bool,
    /// Xattrs up to this one.
    pub xattr: Option<Bytes>,
    /// All xattrs, and the header.
    pub has_xattrs: bool,
    /// Entries of the omap up to this key.
    pub omap: Option<Bytes>,
    /// What the object began with, from its first part on; none where it began with nothing.
    #[codec(since = 2)]
    pub base: Option<CloneBase>,
}

impl ObjectCursor {
    /// True where nothing has been sent.
    pub fn is_begin(&self) -> bool {
        let ObjectCursor { data, has_data, xattr, has_xattrs, omap, base: _ } = self;
        *data == 0 && !has_data && xattr.is_none() && !has_xattrs && omap.is_none()
    }
}

/// The primary asks for an object that it lacks; or the receiver of an object asks for its next part.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 3, compat = 1)]
pub struct MPgPull {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The object.
    pub object: HObject,
    /// The version needed; zero asks for what there is, in whatever version.
    pub version: EVersion,
    /// What has come of it.
    #[codec(since = 2)]
    pub begin: ObjectCursor,
    /// What the asking OSD lacks of the object's head and clones: the object may begin with one that it has. None to
    /// have all of the object sent.
    #[codec(since = 3)]
    pub lacks: Option<Vec<SnapId>>,
}
front_only!(MPgPull);

/// An object, or a part of it, for a copy that lacks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MPgPush {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The object.
    pub object: HObject,
    /// Its version; zero if the sender does not have it.
    pub version: EVersion,
    /// What makes it, or this part of it.
    pub txn: Transaction,
    /// What was sent before this. Of the first part it says only what that begins with.
    pub begin: ObjectCursor,
    /// What has been sent with this, if there is more.
    pub next: Option<ObjectCursor>,
}

impl MPgPush {
    /// All of an object in one message, as most are sent.
    pub fn whole(
        (pgid, epoch): (PgId, Epoch),
        object: HObject,
        version: EVersion,
        txn: Transaction,
    ) -> MPgPush {
        MPgPush { pgid, epoch, object, version, txn, begin: ObjectCursor::default(), next: None }
    }

    /// True for one of several parts.
    pub fn is_part(&self) -> bool {
        !self.begin.is_begin() || self.next.is_some()
    }
}

/// The first version that knows of parts.
const PARTS_VERSION: u16 = 2;
/// The first version that knows of objects that begin with a neighbour.
const BASE_VERSION: u16 = 3;

#[derive(Codec)]
struct PushFront {
    pgid: PgId,
    epoch: Epoch,
    object: HObject,
    version: EVersion,
}

impl Body for MPgPush {
    fn encode_body(&self, raw: &mut RawMessage) {
        let front = PushFront {
            pgid: self.pgid,
            epoch: self.epoch,
            object: self.object.clone(),
            version: self.version,
        };
        let mut out = Vec::new();
        front.encode(&mut out, Features::PACIFIC);
        encode_txn(&self.txn, &mut out, raw);
        self.begin.encode(&mut out, Features::PACIFIC);
        self.next.encode(&mut out, Features::PACIFIC);
        raw.front = out.into();
        // An OSD that does not know of parts must not take one for the whole object.
        if self.begin.base.is_some() {
            raw.compat = BASE_VERSION;
        } else if self.is_part() {
            raw.compat = PARTS_VERSION;
        }
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(raw.front.clone());
        let PushFront { pgid, epoch, object, version } = PushFront::decode(&mut reader)?;
        let txn = decode_txn(&mut reader, &raw)?;
        let knows_parts = raw.version >= PARTS_VERSION;
        let (begin, next) = if knows_parts { Decode::decode(&mut reader)? } else { Default::default() };
        Ok(MPgPush { pgid, epoch, object, version, txn, begin, next })
    }
}

/// A pushed object is durable.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MPgPushReply {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The object.
    pub object: HObject,
}
front_only!(MPgPushReply);

/// A pushed object, or a part of it, finds no room.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MPgPushRefused {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The object.
    pub object: HObject,
    /// What it takes, as far as that is known.
    pub bytes: u64,
}
front_only!(MPgPushRefused);

/// From the primary of a clean PG: the past is settled; a copy that is not needed any more goes.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MPgClean {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map, and the epoch in which it is clean.
    pub epoch: Epoch,
    /// True for a copy that is to be removed.
    pub remove: bool,
}
front_only!(MPgClean);

/// A PG's primary asks another's for an object, to copy it (the part of Ceph's COPY_GET).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MPgCopyGet {
    /// The object's PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The object, or what it was at a snapshot.
    pub object: HObject,
    /// The PG whose primary asks.
    pub asker: PgId,
    /// The asker's name for the request.
    pub id: u64,
}
front_only!(MPgCopyGet);

/// The object asked for (the part of `object_copy_data_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MPgCopyData {
    /// The PG whose primary asked.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The asker's name for the request.
    pub id: u64,
    /// 0, or why there is none: a negative errno.
    pub result: i32,
    /// Its version as users see it.
    pub user_version: u64,
    /// The newest truncation that it knows.
    pub truncate_seq: u32,
    /// To where that cut, in bytes.
    pub truncate_size: u64,
    /// What makes its contents, from nothing; xattrs have the names that users know.
    pub txn: Transaction,
    /// The contents are another object's: it is to be asked instead.
    pub elsewhere: Option<HObject>,
    /// Parts of the contents that are to be asked of other objects, by their offset in bytes.
    pub missing: ChunkMap,
    /// Its last change, by the writer's clock; none without an object, and from an OSD of before version 4.
    pub mtime: Option<UTime>,
}

#[derive(Codec)]
struct CopyFront {
    pgid: PgId,
    epoch: Epoch,
    id: u64,
    result: i32,
    user_version: u64,
    truncate_seq: u32,
    truncate_size: u64,
}

impl Body for MPgCopyData {
    fn encode_body(&self, raw: &mut RawMessage) {
        let front = CopyFront {
            pgid: self.pgid,
            epoch: self.epoch,
            id: self.id,
            result: self.result,
            user_version: self.user_version,
            truncate_seq: self.truncate_seq,
            truncate_size: self.truncate_size,
        };
        let mut out = Vec::new();
        front.encode(&mut out, Features::PACIFIC);
        encode_txn(&self.txn, &mut out, raw);
        self.elsewhere.encode(&mut out, Features::PACIFIC);
        self.missing.encode(&mut out, Features::PACIFIC);
        self.mtime.encode(&mut out, Features::PACIFIC);
        raw.front = out.into();
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(raw.front.clone());
        let front = CopyFront::decode(&mut reader)?;
        let CopyFront { pgid, epoch, id, result, user_version, truncate_seq, truncate_size } = front;
        let txn = decode_txn(&mut reader, &raw)?;
        let elsewhere = if raw.version >= 2 { Decode::decode(&mut reader)? } else { None };
        let missing = if raw.version >= 3 { decode_chunks(&mut reader)? } else { ChunkMap::new() };
        let mtime = if raw.version >= 4 { Decode::decode(&mut reader)? } else { None };
        Ok(MPgCopyData {
            pgid,
            epoch,
            id,
            result,
            user_version,
            truncate_seq,
            truncate_size,
            txn,
            elsewhere,
            missing,
            mtime,
        })
    }
}

/// A message between copies of a PG: which one, and the sender's epoch.
pub fn pg_peer_target(message: &crate::Message) -> Option<(PgId, Epoch)> {
    use crate::Message as M;
    Some(match message {
        M::MOSDRepOp(m) => (m.pgid, m.epoch),
        M::MOSDRepOpReply(m) => (m.pgid, m.epoch),
        M::MPgQuery(m) => (m.pgid, m.epoch),
        M::MPgNotify(m) => (m.pgid, m.epoch),
        M::MPgLog(m) => (m.pgid, m.epoch),
        M::MPgActivated(m) => (m.pgid, m.epoch),
        M::MPgPull(m) => (m.pgid, m.epoch),
        M::MPgPush(m) => (m.pgid, m.epoch),
        M::MPgPushReply(m) => (m.pgid, m.epoch),
        M::MPgPushRefused(m) => (m.pgid, m.epoch),
        M::MPgClean(m) => (m.pgid, m.epoch),
        M::MPgCopyGet(m) => (m.pgid, m.epoch),
        M::MPgCopyData(m) => (m.pgid, m.epoch),
        M::MPgProxyOp(m) => (m.pgid, m.epoch),
        M::MPgProxyReply(m) => (m.pgid, m.epoch),
        M::MOSDRepScrub(m) => (m.pgid, m.epoch),
        M::MOSDRepScrubMap(m) => (m.pgid, m.epoch),
        M::MPgInfo(m) => (m.pgid, m.epoch),
        M::MPgCommitted(m) => (m.pgid, m.epoch),
        M::MOSDScrubReserve(m) => (m.pgid, m.epoch),
        M::MPgBadCopy(m) => (m.pgid, m.epoch),
        _ => return None,
    })
}
