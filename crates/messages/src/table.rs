//! The table of messages: number, type, encoding version and compat, priority as a sender sets it, and whether clients
//! send it, too: all others come from monitors and OSDs alone.

use codec::DecodeError;

use crate::*;

/// Implemented by each message type: its body in segments.
pub(crate) trait Body: Sized {
    /// Writes the front and says what goes to the data segment.
    fn encode_body(&self, raw: &mut RawMessage);
    /// Reads the segments back; `raw.version` tells the encoding.
    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError>;
}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident = $kind:literal, v $version:literal / $compat:literal, prio $prio:literal $(, $from:ident)?;)*) => {
        /// A decoded message. `Unknown` keeps what this version does not know.
        #[derive(Clone, Debug)]
        pub enum Message {
            $($(#[$doc])* $name(Box<$name>),)*
            /// A type number without a row in the table, a version newer than we read, or what clients do not send.
            Unknown(Box<RawMessage>),
        }

        $(impl From<$name> for Message {
            fn from(body: $name) -> Message { Message::$name(Box::new(body)) }
        })*

        $(impl $name {
            /// The message's type number.
            pub const KIND: u16 = $kind;

            /// The segments to send; `tid` names the request (or the request that this answers).
            pub fn to_raw(&self, tid: u64) -> RawMessage {
                let mut raw = RawMessage {
                    kind: $kind, version: $version, compat: $compat, priority: $prio, tid,
                    ..RawMessage::default()
                };
                self.encode_body(&mut raw);
                raw
            }
        })*

        impl Message {
            /// The message's type number.
            pub fn kind(&self) -> u16 {
                match self {
                    $(Message::$name(_) => $kind,)*
                    Message::Unknown(raw) => raw.kind,
                }
            }

            /// The message's Ceph name, for logs.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Message::$name(_) => stringify!($name),)*
                    Message::Unknown(_) => "unknown",
                }
            }

            /// See `to_raw` of each message.
            pub fn encode(&self, tid: u64) -> RawMessage {
                match self {
                    $(Message::$name(body) => body.to_raw(tid),)*
                    Message::Unknown(raw) => RawMessage::clone(raw),
                }
            }

            /// True for a type that clients send.
            fn is_from_clients(kind: u16) -> bool {
                match kind {
                    $($($kind => stringify!($from) == "clients",)?)*
                    _ => false,
                }
            }

            /// Reads a message from a client. What clients do not send stays as it is: some of it takes many times the
            /// memory when it is read.
            pub fn decode_from_client(raw: RawMessage) -> Result<Message, DecodeError> {
                if Message::is_from_clients(raw.kind) {
                    Message::decode(raw)
                } else {
                    Ok(Message::Unknown(Box::new(raw)))
                }
            }

            /// Reads a message from its segments.
            pub fn decode(raw: RawMessage) -> Result<Message, DecodeError> {
                match raw.kind {
                    $($kind if raw.compat <= $version => {
                        Ok(Message::$name(Box::new(<$name as Body>::decode_body(raw)?)))
                    })*
                    _ => Ok(Message::Unknown(Box::new(raw))),
                }
            }
        }

        /// Rows of the table: number, name, version, compat; `docs/` and tests derive from it.
        pub const TABLE: &[(u16, &str, u16, u16)] = &[$(($kind, stringify!($name), $version, $compat),)*];
    };
}

messages! {
    /// Keeps an OSD session alive; no answer.
    MPing = 2, v 1/1, prio 127, clients;
    /// The monitor map.
    MMonMap = 4, v 1/1, prio 196;
    /// Asks for it.
    MMonGetMap = 5, v 1/1, prio 127, clients;
    /// Asks for OSD maps by epoch.
    MMonGetOSDMap = 6, v 0/0, prio 127, clients;
    /// How full is the cluster?
    MStatfs = 13, v 2/1, prio 127, clients;
    /// Its answer.
    MStatfsReply = 14, v 1/1, prio 196;
    /// What a client wants to be told.
    MMonSubscribe = 15, v 3/1, prio 127, clients;
    /// Renewal of tickets.
    MAuth = 17, v 1/1, prio 127, clients;
    /// Its answer.
    MAuthReply = 18, v 1/1, prio 196;
    /// How new is a map?
    MMonGetVersion = 19, v 1/1, prio 127, clients;
    /// Its answer.
    MMonGetVersionReply = 20, v 2/2, prio 196;
    /// Maps, from monitors and OSDs.
    MOSDMap = 41, v 4/3, prio 196;
    /// A client's operation on an object.
    MOSDOp = 42, v 8/3, prio 63, clients;
    /// Its answer.
    MOSDOpReply = 43, v 8/2, prio 127;
    /// To a watcher or a notifier.
    MWatchNotify = 44, v 3/1, prio 127;
    /// Answer to a change of a pool.
    MPoolOpReply = 48, v 1/1, prio 196;
    /// A change of a pool by librados.
    MPoolOp = 49, v 4/2, prio 127, clients;
    /// A command to the monitors.
    MMonCommand = 50, v 1/1, prio 127, clients;
    /// Its answer.
    MMonCommandAck = 51, v 1/1, prio 196;
    /// Lines of the cluster log.
    MLog = 52, v 1/1, prio 127, clients;
    /// They are written down.
    MLogAck = 53, v 1/1, prio 127;
    /// Statistics of pools?
    MGetPoolStats = 58, v 1/1, prio 127, clients;
    /// Its answer.
    MGetPoolStatsReply = 59, v 2/1, prio 196;
    /// OSD to client: hold operations.
    MOSDBackoff = 61, v 1/1, prio 127, clients;
    /// Options of a client.
    MConfig = 62, v 1/1, prio 196;
    /// A command to one daemon.
    MCommand = 97, v 1/1, prio 127, clients;
    /// Its answer.
    MCommandReply = 98, v 1/1, prio 127;
    /// A daemon makes itself known to the manager.
    MMgrOpen = 0x700, v 3/1, prio 127, clients;
    /// What the manager wants reported.
    MMgrConfigure = 0x701, v 2/1, prio 127;
    /// A daemon reports.
    MMgrReport = 0x702, v 9/1, prio 127, clients;
    /// A daemon ends.
    MMgrClose = 0x708, v 1/1, prio 127, clients;
    /// The manager map.
    MMgrMap = 0x704, v 1/1, prio 196;
    /// A command to the manager.
    MMgrCommand = 0x709, v 1/1, prio 127, clients;
    /// Its answer.
    MMgrCommandReply = 0x70a, v 1/1, prio 127;
    /// OSD to monitor: mark me up.
    MOSDBoot = 0x8001, v 1/1, prio 127;
    /// OSD to monitor: record that I was alive in this interval.
    MOSDAlive = 0x8002, v 1/1, prio 127;
    /// OSD to monitor: these are to act in PGs.
    MOSDPGTemp = 0x800c, v 1/1, prio 127;
    /// OSD to monitor: a peer does not answer.
    MOSDFailure = 0x8003, v 2/1, prio 196;
    /// OSD to monitor and back: an orderly stop.
    MOSDMarkMeDown = 0x8004, v 1/1, prio 127;
    /// OSD to monitor: statistics and beacon.
    MPGStats = 0x8005, v 1/1, prio 63;
    /// Monitor to OSD: make these PGs.
    MOSDPGCreate = 0x8006, v 2/2, prio 127;
    /// OSD to OSD: heartbeat.
    MOSDPing = 0x8007, v 1/1, prio 196;
    /// Monitor to OSD: count what clients do with images.
    MOSDImageQuery = 0x8008, v 1/1, prio 127;
    /// OSD to monitor: what they did.
    MOSDImageStats = 0x8009, v 1/1, prio 63;
    /// Monitor to OSD: scrub these PGs.
    MOSDScrub = 0x800a, v 1/1, prio 127;
    /// Monitor to OSD: recover these PGs before others, or no more.
    MOSDForceRecovery = 0x800b, v 1/1, prio 127;
    /// Primary to replica: make this change.
    MOSDRepOp = 0x8010, v 2/1, prio 127;
    /// Replica to primary: it is durable.
    MOSDRepOpReply = 0x8011, v 1/1, prio 196;
    /// Primary to copy: what are you, what is your log?
    MPgQuery = 0x8012, v 1/1, prio 127;
    /// Copy to primary: here I am.
    MPgNotify = 0x8013, v 1/1, prio 127;
    /// A log, asked for or to activate by.
    MPgLog = 0x8014, v 1/1, prio 127;
    /// Replica to primary: active.
    MPgActivated = 0x8015, v 1/1, prio 127;
    /// Primary to copy: I lack this object. Receiver of an object to its sender: send the next part.
    MPgPull = 0x8016, v 1/1, prio 63;
    /// An object, or a part of it.
    MPgPush = 0x8017, v 3/1, prio 63;
    /// It is durable.
    MPgPushReply = 0x8018, v 1/1, prio 63;
    /// Primary to copies: the past is settled.
    MPgClean = 0x8019, v 1/1, prio 63;
    /// Primary to another PG's primary: I copy this object.
    MPgCopyGet = 0x801a, v 1/1, prio 63;
    /// Its contents.
    MPgCopyData = 0x801b, v 4/1, prio 63;
    /// Primary to another PG's primary: a client asks this of an object that is redirected.
    MPgProxyOp = 0x801c, v 1/1, prio 63;
    /// Its answer.
    MPgProxyReply = 0x801d, v 1/1, prio 63;
    /// Primary to replica: what do you have in this range?
    MOSDRepScrub = 0x8020, v 1/1, prio 63;
    /// Replica to primary: this.
    MOSDRepScrubMap = 0x8021, v 1/1, prio 63;
    /// Primary to replica: this is new of the PG's info.
    MPgInfo = 0x8022, v 1/1, prio 63;
    /// Primary to replica: your copy of this object is bad; replica to primary: mine is.
    MPgBadCopy = 0x8023, v 1/1, prio 63;
    /// Slots for a scrub.
    MOSDScrubReserve = 0x8024, v 1/1, prio 63;
    /// Primary to replica: all have the changes up to this one.
    MPgCommitted = 0x8025, v 1/1, prio 127;
    /// Replica to primary: there is no room for the object that you pushed.
    MPgPushRefused = 0x8026, v 1/1, prio 63;
}

/// Encodes a `Codec` struct as a message that has a front only.
macro_rules! front_only {
    ($name:ident) => {
        impl $crate::table::Body for $name {
            fn encode_body(&self, raw: &mut $crate::RawMessage) {
                raw.front = codec::Encode::to_bytes(self, codec::Features::PACIFIC);
            }
            fn decode_body(raw: $crate::RawMessage) -> Result<Self, codec::DecodeError> {
                codec::Decode::from_prefix(raw.front)
            }
        }
    };
}
pub(crate) use front_only;
