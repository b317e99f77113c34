//! Attacks that worked on Ceph's monitors and managers, each tried by a client that may only read.

use messages::{
    LogEntry, LogLevel, MCommand, MGetPoolStats, MLog, MMgrCommand, MMgrOpen, MMonCommand, MMonGetMap,
    MMonGetOSDMap, MMonGetVersion, MMonSubscribe, MPoolOp, MStatfs, Message, PoolOpCode, SubscribeItem,
};
use types::{EntityAddr, EntityAddrVec, EntityName, EntityNum, Epoch, SnapId};

use super::cluster::{ADMIN, Cluster, FSID, addr, boot_message};
use crate::{ConnId, Event, Peer};

/// A session of an entity with `caps`, pairs of service and text.
fn enter(cluster: &mut Cluster, conn: u64, name: &str, caps: &str) -> ConnId {
    let made = format!(r#"{{"prefix":"auth get-or-create","entity":"{name}","caps":[{caps}]}}"#);
    cluster.ok(&made);
    cluster.connect(ConnId(conn), name);
    ConnId(conn)
}

/// What was sent to `conn` since the last look.
fn heard(cluster: &mut Cluster, conn: ConnId) -> Vec<Message> {
    let sent = std::mem::take(&mut cluster.sent).into_iter();
    sent.filter_map(|(to, _, message)| (to == conn).then_some(message)).collect()
}

fn subscribe(cluster: &mut Cluster, conn: ConnId, names: &[&str]) -> Vec<Message> {
    heard(cluster, conn);
    let what = names.iter().map(|name| ((*name).to_owned(), SubscribeItem { start: 0, flags: 0 })).collect();
    cluster.say(conn, MMonSubscribe { what, ..MMonSubscribe::default() });
    heard(cluster, conn)
}

/// CVE-2018-10861: pools and their snapshots were made and deleted by messages without a check of the sender's
/// capabilities.
#[test]
fn pool_operations_want_the_right_to_write() {
    let mut cluster = Cluster::with_rbd();
    cluster.allow_pool_delete();
    let reader = enter(&mut cluster, 60, "client.ro", r#""mon","allow r","osd","allow r""#);
    let before = cluster.map().epoch;
    for op in [
        PoolOpCode::CREATE,
        PoolOpCode::DELETE,
        PoolOpCode::CREATE_SNAP,
        PoolOpCode::DELETE_SNAP,
        PoolOpCode::CREATE_UNMANAGED_SNAP,
        PoolOpCode::DELETE_UNMANAGED_SNAP,
    ] {
        let (pool, name, snapid) = (1, "x".into(), SnapId(1));
        let tid = cluster.say(reader, MPoolOp { fsid: FSID, pool, op, snapid, name, ..MPoolOp::default() });
        let code = cluster.sent.iter().find_map(|(_, t, message)| match message {
            Message::MPoolOpReply(reply) if *t == tid => Some(reply.reply_code),
            _ => None,
        });
        assert_eq!(code, Some(-1), "{op:?}");
    }
    assert_eq!(cluster.map().epoch, before);
}

#[test]
fn a_grant_for_snapshots_of_one_pool_is_for_that_pool() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool create","pool":"other"}"#);
    let ask = |cluster: &mut Cluster, conn: ConnId, pool: u32, op: PoolOpCode| {
        let (snapid, name) = (SnapId(1), "x".into());
        let tid = cluster.say(conn, MPoolOp { fsid: FSID, pool, op, snapid, name, ..MPoolOp::default() });
        cluster.sent.iter().find_map(|(_, t, message)| match message {
            Message::MPoolOpReply(reply) if *t == tid => Some(reply.reply_code),
            _ => None,
        })
    };
    let caps = r#""mon","allow command \"osd pool op unmanaged-snap\" with poolname=rbd""#;
    let user = enter(&mut cluster, 60, "client.snaps", caps);
    assert_eq!(ask(&mut cluster, user, 1, PoolOpCode::CREATE_UNMANAGED_SNAP), Some(0));
    assert_eq!(ask(&mut cluster, user, 2, PoolOpCode::CREATE_UNMANAGED_SNAP), Some(-1));
    // The other messages are no commands, as with Ceph.
    let caps = r#""mon","allow command \"osd pool create\"""#;
    let user = enter(&mut cluster, 61, "client.pools", caps);
    assert_eq!(ask(&mut cluster, user, 0, PoolOpCode::CREATE), Some(-1));
    let user = enter(&mut cluster, 62, "client.osds", r#""mon","allow service osd w""#);
    assert_eq!(ask(&mut cluster, user, 0, PoolOpCode::CREATE), Some(0));
}

/// Ceph takes any bytes for a name; a client whose connection is closed for them sends them again for ever.
#[test]
fn names_that_are_no_text_are_refused() {
    let mut cluster = Cluster::with_rbd();
    for op in [PoolOpCode::CREATE, PoolOpCode::CREATE_SNAP, PoolOpCode::DELETE_SNAP] {
        let (pool, name) = (1, (&b"caf\xe9"[..]).into());
        let tid = cluster.say(ADMIN, MPoolOp { fsid: FSID, pool, op, name, ..MPoolOp::default() });
        let code = cluster.sent.iter().find_map(|(_, t, message)| match message {
            Message::MPoolOpReply(reply) if *t == tid => Some(reply.reply_code),
            _ => None,
        });
        assert_eq!(code, Some(-22), "{op:?}");
    }
    // A command that is no text is logged without any words.
    let tid = cluster.say(ADMIN, MMonCommand { fsid: FSID, ..MMonCommand::default() });
    let refused = |(_, t, message): &(_, u64, Message)| {
        *t == tid && matches!(message, Message::MMonCommandAck(ack) if ack.result == -22)
    };
    assert!(cluster.sent.iter().any(refused));
}

/// CVE-2018-14662: a client that could read anything could read the configuration keys, disks' passphrases among them.
/// CVE-2026-50152: a client got them by a subscription, too.
#[test]
fn configuration_keys_are_for_those_who_may_do_everything() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"config-key set","key":"dm-crypt/osd/0/luks","val":"secret"}"#);
    for (conn, caps) in [(60, "allow r"), (61, "allow rwx"), (62, "profile rbd"), (63, "profile osd")] {
        let conn = enter(&mut cluster, conn, &format!("client.c{conn}"), &format!(r#""mon","{caps}""#));
        for command in [
            r#"{"prefix":"config-key get","key":"dm-crypt/osd/0/luks"}"#,
            r#"{"prefix":"config-key exists","key":"dm-crypt/osd/0/luks"}"#,
            r#"{"prefix":"config-key dump"}"#,
            r#"{"prefix":"config-key ls"}"#,
        ] {
            let ack = cluster.try_command(conn, command, b"").unwrap();
            assert_eq!((ack.result, ack.output.len()), (-13, 0), "{caps}: {command}");
        }
        let all = ["kv:", "kv:config-key", "kv:dm-crypt/", "kv:config/", "config-key"];
        assert!(subscribe(&mut cluster, conn, &all).is_empty(), "{caps}");
        assert!(cluster.mon.sessions[&conn].subs.is_empty(), "what is not served is not kept");
    }
    assert!(cluster.text(r#"{"prefix":"config-key dump"}"#).contains("secret"));
    assert!(subscribe(&mut cluster, ADMIN, &["kv:"]).is_empty());
}

/// CVE-2020-10736: daemons ran commands and took options from any client that was authenticated.
#[test]
fn daemons_obey_none_but_those_who_may_do_everything() {
    let mut cluster = Cluster::with_rbd();
    let reader = enter(&mut cluster, 60, "client.ro", r#""mon","allow r","mgr","allow r""#);
    for command in [
        r#"{"prefix":"config set","key":"mon_allow_pool_delete","value":["true"]}"#,
        r#"{"prefix":"injectargs","injected_args":["--mon_allow_pool_delete=true"]}"#,
        r#"{"prefix":"sessions"}"#,
        r#"{"prefix":"get_command_descriptions"}"#,
        r#"{"prefix":"no such command"}"#,
    ] {
        heard(&mut cluster, reader);
        cluster.say(reader, MCommand { fsid: FSID, cmd: vec![command.to_owned()], ..MCommand::default() });
        let [Message::MCommandReply(reply)] = &heard(&mut cluster, reader)[..] else { panic!("{command}") };
        assert_eq!((reply.result, reply.output.len()), (-13, 0), "{command}");
    }
    let peer = cluster.peer(reader);
    let command = r#"{"prefix":"config set","who":"mon","name":"debug_ms","value":"1"}"#;
    let ask = MMgrCommand { cmd: vec![command.to_owned()], ..MMgrCommand::default() };
    let Some(Message::MMgrCommandReply(reply)) = cluster.manage(&peer, ask).pop() else {
        panic!("{command}");
    };
    assert!(reply.result < 0, "{command}");
}

/// Maps, statistics and the cluster log: a session alone gives no right to them.
#[test]
fn messages_want_the_right_to_their_service() {
    let mut cluster = Cluster::with_rbd();
    let weak = enter(&mut cluster, 60, "client.weak", r#""mon","allow service auth r""#);
    assert!(subscribe(&mut cluster, weak, &["osdmap", "log-info", "log-debug"]).is_empty());
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    cluster.ok(r#"{"prefix":"log","logtext":["a line"]}"#);
    assert!(heard(&mut cluster, weak).is_empty());
    cluster.say(weak, MStatfs { fsid: FSID, ..MStatfs::default() });
    cluster
        .say(weak, MGetPoolStats { fsid: FSID, pools: vec!["rbd".to_owned()], ..MGetPoolStats::default() });
    cluster.say(weak, MMonGetOSDMap::whole(Epoch(1)));
    assert!(heard(&mut cluster, weak).is_empty());
    let entry = LogEntry {
        name: EntityName::parse("client.weak").unwrap(),
        rank: EntityNum { kind: 8, num: 1 },
        addrs: EntityAddrVec::default(),
        stamp: cluster.wall(),
        seq: 1,
        level: LogLevel::INFO,
        message: "all is well".to_owned(),
        channel: "cluster".to_owned(),
    };
    cluster.say(weak, MLog { fsid: FSID, entries: vec![entry], ..MLog::default() });
    assert!(!cluster.text(r#"{"prefix":"log last"}"#).contains("all is well"));
    // A client that gets the right later gets the map when it asks again.
    cluster.ok(r#"{"prefix":"auth caps","entity":"client.weak","caps":["mon","allow r"]}"#);
    assert!(heard(&mut cluster, weak).is_empty());
    let maps = subscribe(&mut cluster, weak, &["osdmap"]);
    assert!(matches!(maps[..], [Message::MOSDMap(_)]), "{maps:?}");
}

/// A client that may not read the monitor gets no maps and no versions, whatever else it may do, except the monitor map
/// and its own options, with which every client begins.
#[test]
fn subscriptions_want_the_right_to_read_the_monitor() {
    let names = |messages: &[Message]| -> Vec<&str> { messages.iter().map(Message::name).collect() };
    let mut cluster = Cluster::with_rbd();
    cluster.mon.set_manager(addr(6900));
    let all = ["config", "log-info", "mgrmap", "monmap", "osdmap"];
    let begin = ["MConfig", "MMonMap"];
    for (conn, caps, expect) in [
        (60, r#"allow command \"osd dump\""#, &begin[..]),
        (61, "allow service osd rwx, allow service log r", &begin[..]),
        (62, "allow wx", &begin[..]),
        (63, "allow r network 10.0.0.0/8", &begin[..]),
        (64, "profile nonsense", &begin[..]),
        (65, "profile crash", &["MConfig", "MMgrMap", "MMonMap"][..]),
        (66, "profile bootstrap-osd", &["MConfig", "MMgrMap", "MMonMap", "MOSDMap"][..]),
        (67, "profile rbd", &["MConfig", "MMgrMap", "MMonMap", "MOSDMap"][..]),
        (68, "allow r", &["MConfig", "MMgrMap", "MMonMap", "MOSDMap", "MLog"][..]),
    ] {
        let conn = enter(&mut cluster, conn, &format!("client.c{conn}"), &format!(r#""mon","{caps}""#));
        let got = subscribe(&mut cluster, conn, &all);
        assert_eq!(names(&got), expect, "{caps}");
        cluster.say(conn, MMonGetVersion { handle: 1, what: "osdmap".to_owned() });
        let versions = heard(&mut cluster, conn).len();
        assert_eq!(versions, usize::from(expect.len() > begin.len()), "{caps}");
        cluster.say(conn, MMonGetMap::default());
        assert_eq!(names(&heard(&mut cluster, conn)), ["MMonMap"], "{caps}");
    }
}

/// The address that a peer states is not proven.
#[test]
fn networks_of_capabilities_are_those_that_connections_come_from() {
    let mut cluster = Cluster::with_rbd();
    let caps = r#""mon","allow r network 10.0.0.0/8","mgr","allow r network 10.0.0.0/8""#;
    let conn = enter(&mut cluster, 60, "client.x", caps);
    for (said, from, result) in [([10, 0, 0, 1], [192, 168, 0, 1], -13), ([192, 168, 0, 1], [10, 0, 0, 1], 0)]
    {
        let addr = EntityAddr::msgr2((said, 0).into(), 99);
        let peer = Peer { addr, ip: from.into(), ..cluster.peer(conn) };
        cluster.event(Event::ConnOpened(conn, Box::new(peer.clone())));
        assert_eq!(cluster.try_command(conn, r#"{"prefix":"osd dump"}"#, b"").unwrap().result, result);
        let command =
            MMgrCommand { cmd: vec![r#"{"prefix":"pg stat"}"#.to_owned()], ..MMgrCommand::default() };
        let answer = cluster.manage(&peer, command).pop();
        let Some(Message::MMgrCommandReply(reply)) = answer else { panic!("{answer:?}") };
        assert_eq!(reply.result, result);
    }
}

/// The capabilities that a bootstrap key may give are those that the command gives: words of the same names that the
/// command never looks at open no entity.
#[test]
fn bootstrap_keys_read_no_key_but_what_they_may_make() {
    let mut cluster = Cluster::with_rbd();
    for (name, victim, caps) in [
        ("rbd", "client.admin", &[("mon", "profile rbd"), ("osd", "profile rbd")][..]),
        ("rbd-mirror", "client.admin", &[("mon", "profile rbd-mirror"), ("osd", "profile rbd")]),
        ("mgr", "mgr.strong", &[("mon", "allow profile mgr")]),
        ("mds", "mds.strong", &[("mon", "allow profile mds"), ("osd", "allow rwx"), ("mds", "allow")]),
        ("rgw", "client.rgw.strong", &[("mon", "allow rw"), ("osd", "allow rwx")]),
    ] {
        if victim != "client.admin" {
            let made = r#""caps":["mon","allow *","osd","allow *"]"#;
            cluster.ok(&format!(r#"{{"prefix":"auth get-or-create","entity":"{victim}",{made}}}"#));
        }
        let conn = ConnId(60);
        enter(
            &mut cluster,
            conn.0,
            &format!("client.b-{name}"),
            &format!(r#""mon","profile bootstrap-{name}""#),
        );
        let forged: Vec<String> = caps.iter().map(|(s, text)| format!(r#""caps_{s}":"{text}""#)).collect();
        let given: Vec<String> = caps.iter().map(|(s, text)| format!(r#""{s}","{text}""#)).collect();
        let (forged, given) = (forged.join(","), given.join(","));
        let new = format!("{}new-{name}", victim.trim_end_matches("admin").trim_end_matches("strong"));
        let mut ask = |prefix: &str, entity: &str, rest: &str| {
            let command = format!(r#"{{"prefix":"auth {prefix}","entity":"{entity}",{rest}}}"#);
            let ack = cluster.try_command(conn, &command, b"").unwrap();
            (ack.result, ack.output)
        };
        for prefix in ["get-or-create", "get-or-create-key"] {
            for rest in [
                forged.clone(),
                format!(r#"{forged},"caps":[]"#),
                format!(r#"{forged},"caps":["mgr","allow *"]"#),
            ] {
                let (result, output) = ask(prefix, victim, &rest);
                assert_eq!((result, output.len()), (-13, 0), "{name}: {prefix} {rest}");
            }
        }
        // With what the profile may give, an entity that has something else stays closed.
        let given = format!(r#""caps":[{given}]"#);
        let (result, output) = ask("get-or-create", victim, &given);
        assert_eq!((result, output.len()), (-22, 0), "{name}");
        let (result, first) = ask("get-or-create", &new, &given);
        assert!(result == 0 && !first.is_empty(), "{name}");
        assert_eq!(ask("get-or-create", &new, &given), (0, first), "{name}: asked again");
    }
}

/// A client that may fence a dead client may not fence a network, nor take back what was fenced, in whatever form it
/// asks.
#[test]
fn clients_of_images_fence_one_client_at_a_time() {
    let mut cluster = Cluster::with_rbd();
    let client = enter(&mut cluster, 60, "client.rbd", r#""mon","profile rbd""#);
    let fenced = |cluster: &Cluster| (cluster.map().blocklist.len(), cluster.map().range_blocklist.0.len());
    let mut run = |rest: &str| {
        cluster.try_command(client, &format!(r#"{{"prefix":"osd {rest}}}"#), b"").unwrap().result
    };
    assert_eq!(run(r#"blocklist","blocklistop":"add","addr":"10.0.0.1:0/7""#), 0);
    for rest in [
        r#"blocklist","range":"range","blocklistop":"add","addr":"0.0.0.0/0""#,
        r#"blocklist","range":"range","blocklistop":"add","addr":"0.0.0.0/8""#,
        r#"blocklist","range":["range"],"blocklistop":"add","addr":"0.0.0.0/8""#,
        r#"blacklist","range":"range","blacklistop":"add","addr":"10.0.0.0/8""#,
        r#"blocklist","blocklistop":"add","addr":"10.0.0.2:0/0""#,
        r#"blocklist","blocklistop":"rm","addr":"10.0.0.1:0/7""#,
    ] {
        assert_eq!(run(rest), -13, "{rest}");
    }
    // It says `add` where the capability looks, so `add` it is.
    run(r#"blacklist","blacklistop":"add","blocklistop":"rm","addr":"10.0.0.1:0/7""#);
    assert_eq!(fenced(&cluster), (1, 0));
}

/// A name alone makes no OSD.
#[test]
fn osds_want_the_rights_of_an_osd() {
    let mut cluster = Cluster::with_rbd();
    let weak = enter(&mut cluster, 60, "osd.7", r#""mon","allow r""#);
    let before = cluster.map().epoch;
    cluster.say(weak, boot_message(7, Epoch(1)));
    assert_eq!(cluster.map().epoch, before);
    let client = enter(&mut cluster, 61, "client.strong", r#""mon","allow *""#);
    cluster.say(client, boot_message(7, Epoch(1)));
    assert_eq!(cluster.map().epoch, before);
}

/// Whatever a client sends to be remembered is cut first: a message may have megabytes.
#[test]
fn what_clients_send_is_kept_only_in_part() {
    let mut cluster = Cluster::with_rbd();
    let weak = enter(&mut cluster, 60, "client.weak", r#""mon","allow service log rw""#);
    let long = "x".repeat(1 << 20);
    cluster.say(weak, MMonSubscribe { hostname: long.clone(), ..MMonSubscribe::default() });
    assert_eq!(cluster.mon.sessions[&weak].hostname.len(), 255);
    let entry = LogEntry {
        name: EntityName::parse("client.weak").unwrap(),
        rank: EntityNum { kind: 8, num: 1 },
        addrs: EntityAddrVec(vec![addr(1).0[0]; 1_000]),
        stamp: cluster.wall(),
        seq: 1,
        level: LogLevel::INFO,
        message: long.clone(),
        channel: long.clone(),
    };
    cluster.say(weak, MLog { fsid: FSID, entries: vec![entry], ..MLog::default() });
    let kept = cluster.mon.committed.log.back().unwrap();
    assert_eq!((kept.message.len(), kept.channel.len(), kept.addrs.0.len()), (4_096, 64, 4));
    let cmd = vec![format!(r#"{{"prefix":"status","{long}":1}}"#)];
    let command = MMonCommand { fsid: FSID, cmd, ..MMonCommand::default() };
    assert_eq!(crate::op_history::describe(&command.into()).len(), 4_096);
}

/// Widths of the standard library end at 65,535, and a client that may write to the manager, or report a crash, chooses
/// how long a name is.
#[test]
fn names_of_any_length_are_shown() {
    let mut cluster = Cluster::with_rbd();
    let weak = enter(&mut cluster, 60, "client.weak", r#""mon","profile crash","mgr","profile crash""#);
    let peer = cluster.peer(weak);
    let service_name = "x".repeat(65_536);
    let service = Some(Default::default());
    cluster.manage(&peer, MMgrOpen { service_name, service, ..MMgrOpen::default() });
    assert!(cluster.text(r#"{"prefix":"status"}"#).contains(&"x".repeat(65_536)));
    let id = "y".repeat(70_000);
    let report = format!(r#"{{"crash_id":"{id}","timestamp":"2026-09-20T10:00:00.123456Z"}}"#);
    let post = MMgrCommand {
        cmd: vec![r#"{"prefix":"crash post"}"#.to_owned()],
        input: report.into(),
        ..MMgrCommand::default()
    };
    let answer = cluster.manage(&peer, post).pop();
    assert!(matches!(&answer, Some(Message::MMgrCommandReply(reply)) if reply.result == 0), "{answer:?}");
    assert!(cluster.text(r#"{"prefix":"crash ls"}"#).contains(&id));
    let pool = "z".repeat(70_000);
    cluster.ok(&format!(r#"{{"prefix":"osd pool create","pool":"{pool}"}}"#));
    assert!(cluster.text(r#"{"prefix":"df"}"#).contains(&pool));
}
