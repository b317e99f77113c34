//! What primaries of different PGs ask of each other on behalf of clients: requests on objects that are redirected.
//! The encodings are ours.

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};
use types::{EntityAddr, EntityNum, Epoch, HObject, PgId};

use crate::{MOSDOp, MOSDOpReply, RawMessage, table::Body};

/// A client's request, passed on to the primary of the PG that has the object. (Ceph's OSDs do this as clients of each
/// other: `PrimaryLogPG::do_proxy_read`, `do_proxy_write`.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MPgProxyOp {
    /// The object's PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The PG whose primary passes it on.
    pub asker: PgId,
    /// The sender's name for the request.
    pub id: u64,
    /// The client.
    pub client: EntityNum,
    /// Its address.
    pub addr: EntityAddr,
    /// Its number of the request.
    pub tid: u64,
    /// The objects that have passed it on, the client's own first.
    pub path: Vec<HObject>,
    /// What is to be done.
    pub op: MOSDOp,
}

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct ProxyOpFront {
    pgid: PgId,
    epoch: Epoch,
    asker: PgId,
    id: u64,
    client: EntityNum,
    addr: EntityAddr,
    tid: u64,
    path: Vec<HObject>,
    op: Bytes,
}

/// Version of the encodings of a client's request and its answer.
const CLIENT_VERSION: u16 = 8;

/// The message of a client as it lies in one between OSDs.
fn inner(front: Bytes, raw: &RawMessage) -> RawMessage {
    RawMessage { version: CLIENT_VERSION, front, data: raw.data.clone(), ..RawMessage::default() }
}

impl Body for MPgProxyOp {
    fn encode_body(&self, raw: &mut RawMessage) {
        let mut op = RawMessage::default();
        self.op.encode_body(&mut op);
        let front = ProxyOpFront {
            pgid: self.pgid,
            epoch: self.epoch,
            asker: self.asker,
            id: self.id,
            client: self.client,
            addr: self.addr,
            tid: self.tid,
            path: self.path.clone(),
            op: op.front,
        };
        raw.front = front.to_bytes(Features::PACIFIC);
        raw.data_more = op.data_more;
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let front = ProxyOpFront::decode(&mut Reader::new(raw.front.clone()))?;
        let ProxyOpFront { pgid, epoch, asker, id, client, addr, tid, path, op } = front;
        let op = MOSDOp::decode_body(inner(op, &raw))?;
        Ok(MPgProxyOp { pgid, epoch, asker, id, client, addr, tid, path, op })
    }
}

/// The answer to [`MPgProxyOp`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MPgProxyReply {
    /// The PG whose primary passed the request on.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The asker's name for the request.
    pub id: u64,
    /// What the client is told.
    pub reply: MOSDOpReply,
}

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct ProxyReplyFront {
    pgid: PgId,
    epoch: Epoch,
    id: u64,
    reply: Bytes,
}

impl Body for MPgProxyReply {
    fn encode_body(&self, raw: &mut RawMessage) {
        let mut reply = RawMessage::default();
        self.reply.encode_body(&mut reply);
        let front = ProxyReplyFront { pgid: self.pgid, epoch: self.epoch, id: self.id, reply: reply.front };
        raw.front = front.to_bytes(Features::PACIFIC);
        raw.data_more = reply.data_more;
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let front = ProxyReplyFront::decode(&mut Reader::new(raw.front.clone()))?;
        let ProxyReplyFront { pgid, epoch, id, reply } = front;
        Ok(MPgProxyReply { pgid, epoch, id, reply: MOSDOpReply::decode_body(inner(reply, &raw))? })
    }
}
