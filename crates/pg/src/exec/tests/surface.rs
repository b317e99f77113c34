//! What `docs/compatibility/osd-ops.md` and `object-classes.md` say, compared with what requests are answered.

use messages::OpCode;
use types::{Errno, SnapId};

use super::bench::{Bench, call, plain};

const OPS: &str = include_str!("../../../../../xtask/data/surface/osd-ops.tsv");
const CLASSES: &str = include_str!("../../../../../xtask/data/surface/object-classes.tsv");

/// Refused of an object without a redirect or chunks, as Ceph does: `manifests.rs` and `chunks.rs` have others.
const OF_MANIFESTS: [OpCode; 3] = [OpCode::UNSET_MANIFEST, OpCode::TIER_FLUSH, OpCode::TIER_EVICT];

/// `EOPNOTSUPP` and `EPERM`, as the data names them.
fn errno(name: &str) -> Errno {
    match name {
        "EOPNOTSUPP" => Errno::EOPNOTSUPP,
        "EPERM" => Errno::EPERM,
        _ => panic!("no op is refused with {name}"),
    }
}

fn cells(data: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    data.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

/// What an op of an object that is there answers.
fn result(code: OpCode) -> i32 {
    let mut bench = Bench::new();
    bench.put("0123");
    let snap = if code == OpCode::LIST_SNAPS { SnapId::DIR } else { SnapId::HEAD };
    bench.at(snap, vec![plain(code)]).map_or_else(Errno::negated, |done| done.result)
}

#[test]
fn ops_are_answered_as_listed() {
    let mut unlisted = OpCode::ALL.to_vec();
    for row in cells(OPS) {
        let [name, number, state, refusal, _] = row[..] else { panic!("{row:?}") };
        let code = OpCode(u16::from_str_radix(number.trim_start_matches("0x"), 16).unwrap());
        assert_eq!(code.name(), Some(name));
        unlisted.retain(|other| *other != code);
        match state {
            "refused" => assert_eq!(result(code), errno(refusal).negated(), "{name}"),
            _ if OF_MANIFESTS.contains(&code) => {}
            _ => assert_ne!(result(code), Errno::EOPNOTSUPP.negated(), "{name} is {state}"),
        }
    }
    assert!(unlisted.is_empty(), "not listed: {unlisted:?}");
}

#[test]
fn classes_that_are_not_here_are_refused_as_listed() {
    for row in cells(CLASSES) {
        let [class, method, _, state, refusal, _] = row[..] else { panic!("{row:?}") };
        if state == "refused" {
            let done = Bench::new().run(vec![call(class, method, b"")]);
            assert_eq!(done.map(|done| done.result), Err(errno(refusal)), "{class}.{method}");
        }
    }
}
