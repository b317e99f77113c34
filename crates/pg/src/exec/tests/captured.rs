//! Requests of stock clients and the replies of a stock OSD, byte for byte where they are stateless
//! enough: what is compared is the reply's result, ops with their parameters, output and version.

use std::{fs, path::PathBuf};

use bytes::Bytes;
use messages::{MOSDOp, MOSDOpReply, Message, RawMessage};
use types::{EVersion, Epoch};

use super::bench::Bench;

fn load(file: &str, kind: u16) -> Message {
    let path = |part: &str| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../messages/testdata");
        folder.join(format!("{file}.{part}.bin"))
    };
    let front = fs::read(path("front")).unwrap().into();
    let data = Bytes::from(fs::read(path("data")).unwrap_or_default()).into();
    Message::decode(RawMessage { kind, version: 8, compat: 2, front, data, ..RawMessage::default() }).unwrap()
}

fn exchange(request: u32, reply: u32) -> (MOSDOp, MOSDOpReply) {
    let request = load(&format!("osd_op_42_c2s_{request:03}"), 42);
    let reply = load(&format!("osd_opreply_43_s2c_{reply:03}"), 43);
    match (request, reply) {
        (Message::MOSDOp(request), Message::MOSDOpReply(reply)) => (*request, *reply),
        other => panic!("not a request and its reply: {other:?}"),
    }
}

/// Runs captured requests in their order.
fn replay(exchanges: &[(u32, u32)]) {
    let mut bench = Bench::new();
    for (request, reply) in exchanges {
        let (request, expect) = exchange(*request, *reply);
        if expect.replay_version != EVersion::ZERO {
            bench.ctx.next_version = expect.replay_version;
        }
        let done = bench.execute(&request).unwrap_or_else(|errno| panic!("{request:?}: {errno:?}"));
        assert_eq!(done.ops, expect.ops, "{request:?}");
        assert_eq!((done.result, done.user_version), (expect.result, expect.user_version), "{request:?}");
        assert_eq!(done.staged.is_some(), expect.replay_version.epoch != Epoch(0), "{request:?}");
    }
}

#[test]
fn rados_gets_the_replies_that_it_got() {
    // put, get, stat, xattrs, omap.
    replay(&[
        (13, 14),
        (15, 16),
        (19, 20),
        (21, 22),
        (23, 24),
        (25, 26),
        (27, 28),
        (29, 30),
        (31, 32),
        (33, 34),
    ]);
    // put, omap header, lock, watchers.
    replay(&[(13, 14), (35, 36), (37, 38), (39, 40), (43, 44)]);
    // bench; create and omap in one.
    replay(&[(57, 58)]);
    replay(&[(187, 188)]);
}

#[test]
fn watchers_and_notifiers_get_the_replies_that_they_got() {
    let mut bench = Bench::new();
    let (watch, _) = exchange(59, 60);
    let mut put = watch.clone();
    put.ops = vec![messages::OsdOp::new(messages::OpCode::CREATE)];
    bench.ctx.next_version = EVersion::new(Epoch(93), 84);
    bench.execute(&put).unwrap();
    bench.ctx.next_version = EVersion::new(Epoch(93), 85);
    for (request, reply) in [(59, 60), (62, 63), (64, 65)] {
        let (request, expect) = exchange(request, reply);
        // What a notification is called is the cluster's own.
        if let Ok(id) = <[u8; 8]>::try_from(&expect.ops[0].data[..]) {
            bench.ctx.notify_id = u64::from_le_bytes(id);
        }
        let done = bench.execute(&request).unwrap();
        assert_eq!((done.ops, done.result, done.user_version), (expect.ops, 0, 84));
    }
}

#[test]
fn an_image_gets_the_replies_that_it_got() {
    replay(&[(70, 71)]);
    replay(&[(121, 122)]);
}
