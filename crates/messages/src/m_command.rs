//! `MCommand` (97), `MMgrCommand` (0x709) and their answers: commands to one daemon.

use bytes::Bytes;
use codec::{Codec, DecodeError, Encode, Features};
use types::Uuid;

use crate::{RawMessage, table::Body};

/// The words of a command as they came. If one is not UTF-8, the command is left without words, which is no valid
/// command: the client gets an error. (Replacing the bad characters could turn it into another, valid command.)
pub(crate) fn words(cmd: Vec<Bytes>) -> Vec<String> {
    let texts = cmd.into_iter().map(|word| String::from_utf8(word.into()));
    texts.collect::<Result<_, _>>().unwrap_or_default()
}

/// The words of a command as they are sent.
pub(crate) fn word_bytes(cmd: &[String]) -> Vec<Bytes> {
    cmd.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

macro_rules! command {
    ($name:ident, $front:ident, $reply:ident, $reply_front:ident, $who:literal) => {
        #[derive(Codec)]
        struct $front {
            fsid: Uuid,
            cmd: Vec<Bytes>,
        }

        #[doc = concat!("A command to ", $who, ".")]
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            /// The cluster.
            pub fsid: Uuid,
            /// One JSON document; nothing if it came as something other than text.
            pub cmd: Vec<String>,
            /// What `-i FILE` gave. Data segment.
            pub input: Bytes,
        }

        impl Body for $name {
            fn encode_body(&self, raw: &mut RawMessage) {
                raw.front =
                    $front { fsid: self.fsid, cmd: word_bytes(&self.cmd) }.to_bytes(Features::PACIFIC);
                raw.data = self.input.clone().into();
            }

            fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
                let $front { fsid, cmd } = codec::Decode::from_prefix(raw.front.clone())?;
                Ok($name { fsid, cmd: words(cmd), input: Bytes::clone(&raw.data) })
            }
        }

        #[derive(Codec)]
        struct $reply_front {
            result: i32,
            status: String,
        }

        #[doc = concat!("The answer of ", $who, ".")]
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $reply {
            /// 0 or a negative errno.
            pub result: i32,
            /// A line for the operator.
            pub status: String,
            /// Goes to stdout. Data segment.
            pub output: Bytes,
        }

        impl Body for $reply {
            fn encode_body(&self, raw: &mut RawMessage) {
                let front = $reply_front { result: self.result, status: self.status.clone() };
                raw.front = front.to_bytes(Features::PACIFIC);
                raw.data = self.output.clone().into();
            }

            fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
                let $reply_front { result, status } = codec::Decode::from_prefix(raw.front.clone())?;
                Ok($reply { result, status, output: Bytes::clone(&raw.data) })
            }
        }
    };
}

command!(MCommand, CommandFront, MCommandReply, CommandReplyFront, "an OSD or a monitor");
command!(MMgrCommand, MgrCommandFront, MMgrCommandReply, MgrCommandReplyFront, "the manager");
