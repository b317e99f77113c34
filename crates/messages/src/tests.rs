use std::{fs, path::PathBuf};

use bytes::Bytes;

use crate::{
    MOSDOp, MOSDOpReply, MPgCopyData, MPgProxyOp, MPgProxyReply, Message, OpCode, OpParams, OsdOp, RawMessage,
};

/// Decodes and re-encodes a captured message and compares the bytes.
fn round_trip(kind: u16, version: u16, compat: u16, front: Bytes, data: Bytes) -> Message {
    let raw = RawMessage { kind, version, compat, front, data: data.into(), ..RawMessage::default() };
    let message = Message::decode(raw.clone()).unwrap();
    let back = message.encode(0);
    assert_eq!((back.kind, back.version, back.compat), (kind, version, compat));
    assert_eq!(back.front, raw.front);
    let mut payload = back.data.to_vec();
    back.data_more.iter().for_each(|d| payload.extend_from_slice(d));
    assert_eq!(payload, raw.data[..]);
    for end in 0..raw.front.len() {
        let cut = RawMessage { front: raw.front.slice(..end), ..raw.clone() };
        assert!(Message::decode(cut).is_err(), "{end} of {}", raw.front.len());
    }
    message
}

#[test]
fn service_daemons_make_themselves_known() {
    use crate::{MMgrOpen, MMgrReport, PerfCounterType, ServiceFacts};
    let facts = |value: &str| ServiceFacts::from([("json".to_owned(), value.to_owned())]);
    let open = MMgrOpen {
        daemon_name: "4107".into(),
        service_name: "rbd-mirror".into(),
        service: Some((facts("a"), facts("b"))),
        config: [("osd_data".into(), [(2, "x".into())].into())].into(),
        ignored_config: [("fsid".into(), "y".into())].into(),
    };
    let raw = Message::from(open.clone()).encode(0);
    let back = Message::decode(raw).unwrap();
    assert!(matches!(back, Message::MMgrOpen(back) if *back == open));
    let report = MMgrReport {
        daemon_name: "4107".into(),
        declared: vec![PerfCounterType { path: "x".into(), priority: 5, ..PerfCounterType::default() }],
        values: Bytes::from_static(b"values"),
        undeclared: vec!["y".into()],
        service_name: "rbd-mirror".into(),
        status: Some(facts("c")),
    };
    let raw = Message::from(report.clone()).encode(0);
    for end in 0..raw.front.len() {
        let cut = RawMessage { front: raw.front.slice(..end), ..raw.clone() };
        assert!(Message::decode(cut).is_err(), "{end}");
    }
    // Newer versions go on behind what is read.
    let newer = RawMessage { front: [&raw.front[..], &[1; 9]].concat().into(), version: 9, ..raw };
    assert!(matches!(Message::decode(newer).unwrap(), Message::MMgrReport(back) if *back == report));
}

/// A daemon that closed the connection for one of these messages would get it again for ever: clients resend messages
/// that were not answered.
#[test]
fn text_of_clients_may_hold_any_bytes() {
    use crate::{MCommand, MGetPoolStats, MMgrCommand, MMonCommand, MMonGetVersion, MMonSubscribe, MPoolOp};
    let latin = |message: Message| {
        let mut raw = message.encode(0);
        let at = raw.front.windows(3).position(|text| text == b"caf").expect("the text is there");
        raw.front = [&raw.front[..at + 3], &b"\xe9"[..], &raw.front[at + 4..]].concat().into();
        Message::decode(raw).expect("any bytes will do")
    };
    let (cmd, json) = (vec!["{\"x\":\"cafe\"}".to_owned()], Vec::<String>::new());
    let read = latin(MMonCommand { cmd: cmd.clone(), ..MMonCommand::default() }.into());
    assert!(matches!(read, Message::MMonCommand(read) if read.cmd == json), "no command at all");
    let read = latin(MCommand { cmd: cmd.clone(), ..MCommand::default() }.into());
    assert!(matches!(read, Message::MCommand(read) if read.cmd == json));
    let read = latin(MMgrCommand { cmd, ..MMgrCommand::default() }.into());
    assert!(matches!(read, Message::MMgrCommand(read) if read.cmd == json));
    let read = latin(MPoolOp { name: "cafe".into(), ..MPoolOp::default() }.into());
    assert!(matches!(read, Message::MPoolOp(read) if read.name[..] == b"caf\xe9"[..]));
    let pools = vec!["cafe".to_owned(), "rbd".to_owned()];
    let read = latin(MGetPoolStats { pools, ..MGetPoolStats::default() }.into());
    assert!(matches!(read, Message::MGetPoolStats(read) if read.pools == ["caf\u{fffd}", "rbd"]));
    let read = latin(MMonGetVersion { what: "cafe".into(), handle: 1 }.into());
    assert!(matches!(read, Message::MMonGetVersion(read) if read.what == "caf\u{fffd}"));
    let what = ["cafe", "osdmap"].map(|map| (map.to_owned(), crate::SubscribeItem::default()));
    let read = latin(MMonSubscribe { what: what.into(), hostname: "x".into() }.into());
    assert!(
        matches!(read, Message::MMonSubscribe(read) if read.what.keys().eq(["osdmap"]) && read.hostname == "x")
    );
}

/// As libceph of Linux 6.1 sends it: without a host name.
#[test]
fn the_kernel_subscribes_with_an_older_version() {
    use crate::{MMonSubscribe, SubscribeItem};
    let maps = [("monmap", 0), ("osdmap", SubscribeItem::ONETIME)];
    let what = maps.map(|(map, flags)| (map.to_owned(), SubscribeItem { start: 0, flags }));
    let asked = MMonSubscribe { what: what.into(), hostname: String::new() };
    let newer = Message::from(asked.clone()).encode(0);
    let raw = RawMessage { version: 2, front: newer.front.slice(..newer.front.len() - 4), ..newer };
    assert_eq!(raw.front.len(), 42);
    let back = Message::decode(raw).unwrap();
    assert!(matches!(back, Message::MMonSubscribe(back) if *back == asked));
}

/// Each captured message of `testdata/index.tsv`.
#[test]
fn captured_messages_round_trip() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let index = fs::read_to_string(folder.join("index.tsv")).unwrap();
    let mut count = 0;
    for line in index.lines().filter(|line| !line.starts_with('#')) {
        let row: Vec<&str> = line.split('\t').collect();
        let [file, kind, version, compat, ops] = row[..] else { panic!("bad row: {line}") };
        println!("{file} {ops}");
        let front = fs::read(folder.join(format!("{file}.front.bin"))).unwrap();
        let data = fs::read(folder.join(format!("{file}.data.bin"))).unwrap_or_default();
        let numbers = [kind, version, compat].map(|n| n.parse::<u16>().unwrap());
        let message = round_trip(numbers[0], numbers[1], numbers[2], front.into(), data.into());
        assert!(!matches!(message, Message::Unknown(_)), "{file}");
        count += 1;
    }
    assert!(count > 160, "only {count} messages");
}

#[test]
fn a_small_part_of_the_data_keeps_no_more_alive() {
    let op = |code, data: Bytes| OsdOp { data, params: OpParams::extent(0, 1), ..OsdOp::new(code) };
    let large = op(OpCode::WRITE, vec![7; 40_000].into());
    let small = op(OpCode::OMAPSETHEADER, Bytes::from_static(b"header"));
    let sent = MOSDOp { ops: vec![large, small], ..MOSDOp::default() };
    let mut raw = Message::from(sent.clone()).encode(1);
    raw.data = Bytes::from(raw.data_more.drain(..).flat_map(|part| part.to_vec()).collect::<Vec<_>>()).into();
    let data = raw.data.as_ptr_range();
    let Ok(Message::MOSDOp(back)) = Message::decode(raw.clone()) else { panic!("it is one") };
    assert_eq!(back.ops, sent.ops);
    let is_shared = back.ops.iter().map(|op| data.contains(&op.data.as_ptr())).collect::<Vec<_>>();
    assert_eq!(is_shared, [true, false]);
}

/// As the other OSD receives it: its data in one piece.
fn received(message: Message) -> RawMessage {
    let mut raw = message.encode(0);
    raw.data = Bytes::from(raw.data_more.drain(..).flat_map(|part| part.to_vec()).collect::<Vec<_>>()).into();
    raw
}

#[test]
fn a_request_holds_what_its_ops_make_of_a_few_bytes() {
    let op =
        |code, len| OsdOp { code, params: OpParams::extent(0, len), data: "0123".into(), ..OsdOp::default() };
    let held = |ops: Vec<OsdOp>| MOSDOp { ops, ..MOSDOp::default() }.held_bytes();
    assert_eq!(held(vec![op(OpCode::WRITE, 4), op(OpCode::READ, 1 << 20)]), 8);
    assert_eq!(held(vec![op(OpCode::WRITESAME, 1 << 20), op(OpCode::WRITESAME, 0)]), (1 << 20) + 4);
    assert_eq!(held(vec![op(OpCode::WRITESAME, u64::MAX); 2]), 256 << 20);
}

/// Snapshots, names and ops without data may fill a front of many MiB.
#[test]
fn a_request_holds_the_front_that_it_came_in() {
    use types::{SnapContext, SnapId};
    let snaps = (1..=100_000).rev().map(SnapId).collect();
    let snapc = SnapContext { seq: SnapId(100_000), snaps };
    let sent = MOSDOp { snapc, oid: "name".into(), ..MOSDOp::default() };
    let raw = received(sent.into());
    let bytes = raw.front.len() as u64;
    let Message::MOSDOp(back) = Message::decode(raw).unwrap() else { panic!("another message") };
    assert!(bytes > 800_000);
    assert_eq!(back.held_bytes(), bytes);
}

#[test]
fn requests_that_are_passed_on_round_trip() {
    use types::{EntityAddr, EntityNum, Epoch, HObject, PgId, PoolId};
    let ops = |data: &'static [u8]| {
        vec![OsdOp {
            data: Bytes::from_static(data),
            params: OpParams::extent(0, 4),
            ..OsdOp::new(OpCode::READ)
        }]
    };
    let (pgid, asker) = (PgId::new(PoolId(2), 5), PgId::new(PoolId(1), 3));
    let asked = MPgProxyOp {
        pgid,
        epoch: Epoch(9),
        asker,
        id: 9 << 32 | 1,
        client: EntityNum::client(4107),
        addr: EntityAddr::parse("v2:10.0.0.1:1000/77").unwrap(),
        tid: 12,
        path: vec![HObject { oid: Bytes::from_static(b"o"), pool: PoolId(1), ..HObject::default() }],
        op: MOSDOp { pgid, epoch: Epoch(9), client_inc: 3, ops: ops(b"data"), ..MOSDOp::default() },
    };
    let reply =
        MOSDOpReply { pgid, result: -17, user_version: 4, ops: ops(b"more"), ..MOSDOpReply::default() };
    let told = MPgProxyReply { pgid: asker, epoch: Epoch(9), id: 8, reply };
    let raw = received(asked.clone().into());
    let Ok(Message::MPgProxyOp(mut back)) = Message::decode(raw.clone()) else { panic!("another message") };
    assert!(std::mem::take(&mut back.op.front_bytes) < raw.front.len());
    assert_eq!(*back, asked);
    let raw_reply = received(told.clone().into());
    assert!(matches!(Message::decode(raw_reply.clone()), Ok(Message::MPgProxyReply(back)) if *back == told));
    for raw in [raw, raw_reply] {
        for end in 0..raw.front.len() {
            let cut = RawMessage { front: raw.front.slice(..end), ..raw.clone() };
            assert!(Message::decode(cut).is_err(), "{end} of {}", raw.front.len());
        }
    }
}

#[test]
fn copies_are_read_from_osds_that_do_not_say_when_the_object_was_changed() {
    use types::{CollId, Epoch, PgId, PoolId, Transaction, UTime};
    let pgid = PgId::new(PoolId(1), 3);
    let sent = MPgCopyData {
        pgid,
        epoch: Epoch(9),
        id: 7,
        result: 0,
        user_version: 4,
        truncate_seq: 2,
        truncate_size: 100,
        txn: Transaction::new(CollId::pg(pgid)),
        elsewhere: None,
        missing: Default::default(),
        mtime: Some(UTime::new(77, 1)),
    };
    let raw = received(sent.clone().into());
    assert!(matches!(Message::decode(raw.clone()), Ok(Message::MPgCopyData(back)) if *back == sent));
    // A presence byte and two numbers.
    let older = RawMessage { version: 3, front: raw.front.slice(..raw.front.len() - 9), ..raw };
    let expected = MPgCopyData { mtime: None, ..sent };
    assert!(matches!(Message::decode(older), Ok(Message::MPgCopyData(back)) if *back == expected));
}

#[test]
fn a_copy_with_a_chunk_that_no_object_has_is_refused() {
    use types::{Chunk, CollId, Epoch, HObject, PgId, PoolId, Transaction};
    let pgid = PgId::new(PoolId(1), 3);
    let decoded = |at: u64, length: u32| {
        let target = HObject::default();
        let chunk = Chunk { offset: 0, length, target, is_missing: true, has_reference: true };
        let copy = MPgCopyData {
            pgid,
            epoch: Epoch(9),
            id: 7,
            result: 0,
            user_version: 4,
            truncate_seq: 0,
            truncate_size: 0,
            txn: Transaction::new(CollId::pg(pgid)),
            elsewhere: None,
            missing: [(at, chunk)].into(),
            mtime: None,
        };
        Message::decode(received(copy.into()))
    };
    assert!(decoded(127 << 20, 1 << 20).is_ok());
    for (at, length) in [(127 << 20, (1 << 20) + 1), (0, u32::MAX), (u64::MAX, 1)] {
        assert!(decoded(at, length).is_err(), "{at} {length}");
    }
}
