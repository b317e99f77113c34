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

impl Need {
    /// What `op` needs. A method that does not exist, or whose name is cut off, needs nothing: its execution refuses
    /// it.
    pub(crate) fn of(op: &MOSDOp) -> Need {
        let mut need = Need::default();
        for step in &op.ops {
            if step.code == OpCode::CALL {
                let method = step.call_names().and_then(|(class, name)| registry::find(class, name));
                need.classes.extend(method.map(|method| ClassCall {
                    class: method.class,
                    method: method.name,
                    read: method.flags & classes::method::RD != 0,
                    write: method.is_write(),
                }));
                continue;
            }
            // What a watch does depends on those that the object has.
            need.read |= step.code.is_read() || step.code == OpCode::WATCH;
            // In Ceph a client that may only read may change what an object refers to; not here.
            need.write |= step.may_change();
        }
        need
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use messages::{OpParams, OsdOp, watch_op};

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
            let params = OpParams::from_parts(&[&[0; 16], &[kind]]);
            let step = OsdOp { code: OpCode::WATCH, params, ..OsdOp::default() };
            Need::of(&MOSDOp { ops: vec![step], ..MOSDOp::default() })
        };
        for kind in [watch_op::UNWATCH, watch_op::LEGACY_WATCH, watch_op::WATCH, watch_op::RECONNECT] {
            assert_eq!(watch(kind), Need { read: true, write: true, ..Need::default() });
        }
        assert_eq!(watch(watch_op::PING), Need { read: true, ..Need::default() });
    }

    #[test]
    fn what_executes_as_a_change_needs_the_right_to_write() {
        for code in OpCode::ALL.iter().copied().filter(|code| *code != OpCode::CALL) {
            assert_eq!(need(code, "", "").write, OsdOp::new(code).may_change(), "{code:?}");
        }
    }
}
