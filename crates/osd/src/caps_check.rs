//! Which capability an operation needs.

use auth::ClassCall;
use classes::registry;
use messages::{MOSDOp, OpCode};

/// What an operation's ops do, as capabilities see it (`OpRequest`'s flags).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// Reads data or attributes.
    pub(crate) read: bool,
    /// Changes the object.
    pub(crate) write: bool,
    /// Class methods that it calls.
    pub(crate) classes: Vec<ClassCall>,
}

/// Where a watch op says what it wants, and `CEPH_OSD_WATCH_OP_PING`.
const WATCH_OP_AT: usize = 16;
const WATCH_PING: u8 = 7;

impl Need {
    /// What `op` needs. A method that does not exist needs nothing: its execution refuses it.
    pub(crate) fn of(op: &MOSDOp) -> Need {
        let mut need = Need::default();
        for step in &op.ops {
            match step.code {
                OpCode::CALL => {
                    let (class_len, method_len) =
                        (usize::from(step.params.u8_at(0)), usize::from(step.params.u8_at(1)));
                    let class = step.data.get(..class_len).unwrap_or_default();
                    let name = step.data.get(class_len..class_len + method_len).unwrap_or_default();
                    if let Some(method) = registry::find(class, name) {
                        need.classes.push(ClassCall {
                            class: method.class,
                            method: method.name,
                            read: method.flags & classes::method::RD != 0,
                            write: method.is_write(),
                        });
                    }
                }
                // A ping changes nothing; to watch and to end watching changes the object's record.
                OpCode::WATCH => {
                    need.read = true;
                    need.write |= step.params.u8_at(WATCH_OP_AT) != WATCH_PING;
                }
                // These ops change what an object refers to. In Ceph a client that may read may do so.
                OpCode::SET_CHUNK | OpCode::TIER_EVICT => need.write = true,
                code => {
                    need.read |= code.is_read();
                    need.write |= code.is_write();
                }
            }
        }
        need
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use messages::{OpParams, OsdOp};

    use super::*;

    fn need(code: OpCode, class: &str, method: &str) -> Need {
        let params = OpParams::from_parts(&[&[class.len() as u8, method.len() as u8]]);
        let step = OsdOp { code, params, data: Bytes::from(format!("{class}{method}")), ..OsdOp::default() };
        Need::of(&MOSDOp { ops: vec![step], ..MOSDOp::default() })
    }

    #[test]
    fn methods_need_class_capabilities() {
        let calls = |method, write| Need {
            classes: vec![ClassCall { class: "rbd", method, read: true, write }],
            ..Need::default()
        };
        assert_eq!(need(OpCode::CALL, "rbd", "get_size"), calls("get_size", false));
        assert_eq!(need(OpCode::CALL, "rbd", "set_size"), calls("set_size", true));
        assert_eq!(need(OpCode::CALL, "no", "such"), Need::default());
        assert_eq!(need(OpCode::READ, "", ""), Need { read: true, ..Need::default() });
        for code in [OpCode::WRITE, OpCode::SET_CHUNK, OpCode::TIER_EVICT] {
            assert_eq!(need(code, "", ""), Need { write: true, ..Need::default() });
        }
    }

    #[test]
    fn who_may_only_read_cannot_watch() {
        let watch = |kind: u8| {
            let params = OpParams::from_parts(&[&[0; WATCH_OP_AT], &[kind]]);
            let step = OsdOp { code: OpCode::WATCH, params, ..OsdOp::default() };
            Need::of(&MOSDOp { ops: vec![step], ..MOSDOp::default() })
        };
        for kind in [0, 1, 3, 5] {
            assert_eq!(watch(kind), Need { read: true, write: true, ..Need::default() });
        }
        assert_eq!(watch(WATCH_PING), Need { read: true, ..Need::default() });
    }
}
