//! The messages: of the sizes that Ceph's have, with a kind, a number and nothing else in them.

use std::collections::HashMap;

use bytes::{Buf, Bytes, BytesMut};
use reactor::ConnId;

/// Of a request.
pub const BLOCK: usize = codec::BLOCK_BYTES;
/// A kind, and the request's number.
const HEAD: usize = 9;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// To a primary: make this block durable.
    Write,
    /// To a primary: make this block durable, and write it to its place some time.
    WriteInPlace,
    /// To a primary: read a block.
    Read,
    /// To a primary: read a block that is in memory.
    ReadFromMemory,
    /// To a replica: make this block durable.
    Replicate,
    /// To a replica: make this block durable, and write it to its place some time.
    ReplicateInPlace,
    /// A replica's answer.
    Replicated,
    /// The answer to a client's write.
    Written,
    /// The answer to a client's read.
    Data,
}

const KINDS: [FrameKind; 9] = [
    FrameKind::Write,
    FrameKind::WriteInPlace,
    FrameKind::Read,
    FrameKind::ReadFromMemory,
    FrameKind::Replicate,
    FrameKind::ReplicateInPlace,
    FrameKind::Replicated,
    FrameKind::Written,
    FrameKind::Data,
];

impl FrameKind {
    /// Bytes without the block: what MOSDOp, MOSDRepOp and their replies take with their frames, about.
    fn front(self) -> usize {
        match self {
            FrameKind::Replicate | FrameKind::ReplicateInPlace => 768,
            FrameKind::Replicated => 192,
            FrameKind::Written | FrameKind::Data => 256,
            _ => 320,
        }
    }

    fn has_block(self) -> bool {
        !matches!(
            self,
            FrameKind::Read | FrameKind::ReadFromMemory | FrameKind::Replicated | FrameKind::Written
        )
    }

    fn bytes(self) -> usize {
        self.front() + if self.has_block() { BLOCK } else { 0 }
    }

    /// A message's front.
    pub fn frame(self, number: u64) -> Bytes {
        let mut front = BytesMut::zeroed(self.front());
        front[0] = KINDS.iter().position(|kind| *kind == self).expect("all are in it") as u8;
        front[1..HEAD].copy_from_slice(&number.to_le_bytes());
        front.freeze()
    }
}

/// One message.
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// Of the request, its sender's.
    pub number: u64,
    /// The block, or nothing.
    pub block: Bytes,
}

/// What has arrived of messages that are not whole.
#[derive(Default)]
pub struct Inboxes {
    of: HashMap<ConnId, BytesMut>,
}

impl Inboxes {
    /// Takes what arrived and gives the messages that are whole.
    pub fn receive(&mut self, conn: ConnId, bytes: &[u8], more: &[Bytes]) -> Vec<Frame> {
        let inbox = self.of.entry(conn).or_default();
        inbox.extend_from_slice(bytes);
        more.iter().for_each(|bytes| inbox.extend_from_slice(bytes));
        let mut frames = Vec::new();
        while let Some(kind) = inbox.first().map(|kind| KINDS[usize::from(*kind)])
            && inbox.len() >= kind.bytes()
        {
            let mut frame = inbox.split_to(kind.bytes()).freeze();
            let number = (&frame[1..]).get_u64_le();
            frames.push(Frame { kind, number, block: frame.split_off(kind.front()) });
        }
        frames
    }
}
