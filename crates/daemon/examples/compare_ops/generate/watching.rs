//! Watches and notifications.

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{OpCode, OpParams, OsdOp};

use super::{Generator, plain};
use crate::plan::Planned;

impl Generator<'_> {
    pub(super) fn watching(&mut self) -> Planned {
        let mut planned = self.object();
        // Few objects, so that notifications find watchers.
        planned.request.oid = Bytes::from_static(self.dice.pick(&[b"w0".as_slice(), b"w0", b"w1"]));
        let cookie = self.dice.pick(&[1u64, 2, 3]);
        let op = match self.dice.below(16) {
            0 | 1 => OsdOp::new(OpCode::CREATE),
            2 if self.dice.one_in(3) => OsdOp::new(OpCode::DELETE),
            2 => OsdOp::new(OpCode::LIST_WATCHERS),
            3..=7 => self.watch(cookie),
            8..=11 => self.notify(cookie),
            _ => self.acknowledgement(cookie),
        };
        planned.request.ops = vec![op];
        if self.dice.one_in(8) {
            let other = self.notify(cookie);
            planned.request.ops.push(other);
        }
        planned
    }

    pub(super) fn watch(&mut self, cookie: u64) -> OsdOp {
        let what = self.dice.pick(&[0u8, 1, 3, 3, 3, 5, 7]);
        let mut op = OsdOp::new(OpCode::WATCH);
        let timeout = self.dice.pick(&[0u32, 60, 60]);
        op.params = OpParams::from_parts(&[
            &cookie.to_le_bytes(),
            &[0; 8],
            &[what],
            &1u32.to_le_bytes(),
            &timeout.to_le_bytes(),
        ]);
        op
    }

    fn notify(&mut self, cookie: u64) -> OsdOp {
        let timeout = self.dice.pick(&[1u32, 1, 0, 20]);
        let payload = self.value();
        let data = (1u32, timeout, payload).to_bytes(Features::default());
        let params = OpParams::from_parts(&[&cookie.to_le_bytes()]);
        OsdOp { params, data, ..OsdOp::new(OpCode::NOTIFY) }
    }

    /// The notification's number is filled in by the cluster.
    fn acknowledgement(&mut self, cookie: u64) -> OsdOp {
        let mut data = (1u64, cookie).to_bytes(Features::default()).to_vec();
        if !self.dice.one_in(4) {
            self.value().encode(&mut data, Features::default());
        }
        plain(OpCode::NOTIFY_ACK, Bytes::from(data))
    }
}
