//! `MOSDOpReply` (43), version 8 (messages/MOSDOpReply.h).

use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Reader};
use types::{EVersion, Epoch, Errno, PgId};

use crate::{MOSDOp, OsdOp, RawMessage, osd_flag, table::Body};

/// The answer to an `MOSDOp`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MOSDOpReply {
    /// The object's name, echoed.
    pub oid: Bytes,
    /// The PG, echoed.
    pub pgid: PgId,
    /// The request's flags; with ACK and ONDISK if its ops ran.
    pub flags: u64,
    /// 0 or what a read returns; negative errno of the first op that failed.
    pub result: i32,
    /// Unused since replay is gone; zero.
    pub bad_replay_version: EVersion,
    /// The epoch of the OSD's map.
    pub epoch: Epoch,
    /// The ops with their results and output.
    pub ops: Vec<OsdOp>,
    /// Echoed.
    pub retry_attempt: i32,
    /// For writes: the version in the PG's log.
    pub replay_version: EVersion,
    /// The object's version as users see it.
    pub user_version: u64,
}

impl MOSDOpReply {
    /// The answer in this epoch to a request whose ops ran, but for what came of them.
    pub fn to(op: &MOSDOp, epoch: Epoch) -> MOSDOpReply {
        MOSDOpReply {
            oid: op.oid.clone(),
            pgid: op.pgid,
            flags: u64::from(op.flags | osd_flag::ACK | osd_flag::ONDISK),
            epoch,
            retry_attempt: op.retry_attempt,
            ..MOSDOpReply::default()
        }
    }

    /// The answer in this epoch to a request that is refused as a whole. Its flags say no more than the request's
    /// (`OSDService::reply_op_error`).
    pub fn refusal(op: &MOSDOp, errno: Errno, epoch: Epoch) -> MOSDOpReply {
        MOSDOpReply {
            flags: u64::from(op.flags),
            result: errno.negated(),
            ops: op.echoed_ops(),
            ..MOSDOpReply::to(op, epoch)
        }
    }
}

const TRACE_BYTES: usize = 24;

impl Body for MOSDOpReply {
    fn encode_body(&self, raw: &mut RawMessage) {
        let f = Features::PACIFIC;
        let mut out = Vec::with_capacity(160 + self.oid.len() + self.ops.len() * 42);
        self.oid.encode(&mut out, f);
        self.pgid.encode(&mut out, f);
        self.flags.encode(&mut out, f);
        self.result.encode(&mut out, f);
        self.bad_replay_version.encode(&mut out, f);
        self.epoch.encode(&mut out, f);
        (self.ops.len() as u32).encode(&mut out, f);
        OsdOp::encode_ops(&self.ops, &mut out);
        self.retry_attempt.encode(&mut out, f);
        for op in &self.ops {
            op.result.encode(&mut out, f);
        }
        self.replay_version.encode(&mut out, f);
        self.user_version.encode(&mut out, f);
        false.encode(&mut out, f);
        out.extend_from_slice(&[0; TRACE_BYTES]);
        raw.front = Bytes::from(out);
        raw.data_more = self.ops.iter().flat_map(OsdOp::data_pieces).collect();
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        if raw.version < 8 {
            return Err(DecodeError::Invalid { what: "MOSDOpReply version", value: u64::from(raw.version) });
        }
        let mut front = Reader::new(raw.front);
        let input = &mut front;
        let oid = Bytes::decode(input)?;
        let pgid = PgId::decode(input)?;
        let flags = u64::decode(input)?;
        let result = i32::decode(input)?;
        let bad_replay_version = EVersion::decode(input)?;
        let epoch = Epoch::decode(input)?;
        let count = u32::decode(input)? as usize;
        let mut ops = OsdOp::decode_ops(count, input, Some(&mut Reader::new(Bytes::clone(&raw.data))))?;
        let retry_attempt = i32::decode(input)?;
        for op in &mut ops {
            op.result = i32::decode(input)?;
        }
        let replay_version = EVersion::decode(input)?;
        let user_version = u64::decode(input)?;
        if bool::decode(input)? {
            // Only cache tiers redirect, and they are not served.
            return Err(DecodeError::Invalid { what: "MOSDOpReply redirect", value: 1 });
        }
        let _trace: [u8; TRACE_BYTES] = input.array()?;
        Ok(MOSDOpReply {
            oid,
            pgid,
            flags,
            result,
            bad_replay_version,
            epoch,
            ops,
            retry_attempt,
            replay_version,
            user_version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCode;

    #[test]
    fn refusals_echo_the_request_without_its_data_and_say_nothing_was_done() {
        let write = OsdOp { data: Bytes::from_static(b"data"), ..OsdOp::new(OpCode::WRITEFULL) };
        for flags in [osd_flag::WRITE, osd_flag::WRITE | osd_flag::ONDISK] {
            let op = MOSDOp { flags, ops: vec![write.clone()], retry_attempt: 2, ..MOSDOp::default() };
            let refusal = MOSDOpReply::refusal(&op, Errno::EPERM, Epoch(7));
            assert_eq!(refusal.ops, [OsdOp::new(OpCode::WRITEFULL)]);
            assert_eq!((refusal.flags, refusal.result), (u64::from(flags), Errno::EPERM.negated()));
            assert_eq!((refusal.epoch, refusal.retry_attempt), (Epoch(7), 2));
            let done = u64::from(flags | osd_flag::ACK | osd_flag::ONDISK);
            assert_eq!(MOSDOpReply::to(&op, Epoch(7)).flags, done);
        }
    }
}
