//! `MMonCommand` (50) and `MMonCommandAck` (51): commands of operators and of librados.

use bytes::Bytes;
use codec::{Codec, DecodeError, Encode, Features};
use types::Uuid;

use crate::{
    PaxosHeader, RawMessage,
    m_command::{word_bytes, words},
    table::Body,
};

#[derive(Codec)]
struct Front {
    header: PaxosHeader,
    fsid: Uuid,
    cmd: Vec<Bytes>,
}

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMonCommand {
    /// See there.
    pub header: PaxosHeader,
    /// The cluster that is meant.
    pub fsid: Uuid,
    /// One JSON document; nothing if it came as something other than text.
    pub cmd: Vec<String>,
    /// What `-i FILE` gave. Data segment.
    pub input: Bytes,
}

impl Body for MMonCommand {
    fn encode_body(&self, raw: &mut RawMessage) {
        let front = Front { header: self.header, fsid: self.fsid, cmd: word_bytes(&self.cmd) };
        raw.front = front.to_bytes(Features::PACIFIC);
        raw.data = self.input.clone().into();
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let Front { header, fsid, cmd } = codec::Decode::from_prefix(raw.front.clone())?;
        Ok(MMonCommand { header, fsid, cmd: words(cmd), input: Bytes::clone(&raw.data) })
    }
}

#[derive(Codec)]
struct AckFront {
    header: PaxosHeader,
    result: i32,
    status: String,
    cmd: Vec<String>,
}

/// The answer to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMonCommandAck {
    /// Its version makes the client wait for that OSD map before it goes on.
    pub header: PaxosHeader,
    /// 0 or a negative errno.
    pub result: i32,
    /// A line for the operator; goes to stderr.
    pub status: String,
    /// The command, echoed.
    pub cmd: Vec<String>,
    /// Goes to stdout. Data segment.
    pub output: Bytes,
}

impl Body for MMonCommandAck {
    fn encode_body(&self, raw: &mut RawMessage) {
        let front = AckFront {
            header: self.header,
            result: self.result,
            status: self.status.clone(),
            cmd: self.cmd.clone(),
        };
        raw.front = front.to_bytes(Features::PACIFIC);
        raw.data = self.output.clone().into();
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let AckFront { header, result, status, cmd } = codec::Decode::from_prefix(raw.front.clone())?;
        Ok(MMonCommandAck { header, result, status, cmd, output: Bytes::clone(&raw.data) })
    }
}
