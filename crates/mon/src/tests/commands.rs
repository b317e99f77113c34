use serde_json::Value;

use super::cluster::{ADMIN, Cluster};
use crate::{ConnId, Event, MonOptions};
use messages::{MMonGetMap, MMonSubscribe, Message, SubscribeItem};

#[test]
fn descriptions_are_what_the_stock_tool_parses() {
    let mut cluster = Cluster::new();
    let doc: Value = serde_json::from_str(&cluster.text(r#"{"prefix":"get_command_descriptions"}"#)).unwrap();
    let all = doc.as_object().unwrap();
    assert!(all.len() > 150);
    for (name, entry) in all {
        assert!(name.starts_with("cmd"));
        for key in ["sig", "help", "module", "perm", "flags"] {
            assert!(!entry[key].is_null(), "{name} has no {key}");
        }
        for param in entry["sig"].as_array().unwrap().iter().filter(|p| p.is_object()) {
            assert!(param["name"].is_string() && param["type"].is_string(), "{name}: {param}");
        }
    }
}

#[test]
fn every_prefix_is_there_once() {
    let mut cluster = Cluster::new();
    let doc: Value = serde_json::from_str(&cluster.text(r#"{"prefix":"get_command_descriptions"}"#)).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for entry in doc.as_object().unwrap().values() {
        let words: Vec<&str> = entry["sig"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(seen.insert(words.join(" ")), "{words:?} twice");
    }
}

#[test]
fn bad_commands_get_cephs_errno_and_text() {
    let mut cluster = Cluster::with_rbd();
    let cases = [
        (r#"{"prefix":"no such command"}"#, -22, "command not known"),
        (
            r#"{"prefix":"osd pool set","pool":"nopool","var":"size","val":"3"}"#,
            -2,
            "unrecognized pool 'nopool'",
        ),
        (r#"{"prefix":"osd reweight","id":99,"weight":0.5}"#, -2, "osd.99 does not exist"),
        (r#"{"prefix":"osd reweight","id":1,"weight":1.5}"#, -22, "bad value for weight: 1.5"),
        (r#"{"prefix":"osd pool rename","srcpool":"a","destpool":"b"}"#, -2, "unrecognized pool 'a'"),
        (r#"{"prefix":"osd tier rm","pool":"a","tierpool":"b"}"#, -2, "unrecognized pool 'a'"),
        (r#"{"prefix":"osd tier remove-overlay","pool":"a"}"#, -2, "unrecognized pool 'a'"),
        (r#"{"prefix":"auth get","entity":"client.nope"}"#, -2, "failed to find client.nope in keyring"),
        (
            r#"{"prefix":"auth caps","entity":"client.nope","caps":["mon","allow r"]}"#,
            -2,
            "couldn't find entry client.nope",
        ),
        (
            r#"{"prefix":"osd crush reweight","name":"osd.77","weight":1}"#,
            -2,
            "device 'osd.77' does not appear in the crush map",
        ),
        (r#"{"prefix":"osd pool get","pool":"rbd"}"#, -22, "missing required parameter var(CephChoices)"),
    ];
    for (json, result, status) in cases {
        assert_eq!(cluster.refused(json), (result, status.to_owned()), "{json}");
    }
    assert_eq!(cluster.ok(r#"{"prefix":"osd out","ids":["77"]}"#), "osd.77 does not exist. ");
    assert_eq!(cluster.try_command(ADMIN, "not json", b"").unwrap().result, -22);
}

#[test]
fn capabilities_decide_who_may_do_what() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"auth get-or-create","entity":"client.ro","caps":["mon","allow r"]}"#);
    cluster.ok(r#"{"prefix":"auth get-or-create","entity":"client.rbd","caps":["mon","profile rbd"]}"#);
    cluster.connect(ConnId(60), "client.ro");
    cluster.connect(ConnId(61), "client.rbd");
    cluster.connect(ConnId(62), "client.unknown");
    let mut run = |conn, json: &str| cluster.try_command(ConnId(conn), json, b"").unwrap();
    let denied = run(60, r#"{"prefix":"osd set","key":"noout"}"#);
    assert_eq!((denied.result, denied.status.as_str()), (-13, "access denied"));
    assert_eq!(run(60, r#"{"prefix":"osd dump"}"#).result, 0);
    assert_eq!(run(60, r#"{"prefix":"auth get-key","entity":"client.admin"}"#).result, -13);
    let blocklist = r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"127.0.0.1:0/3280368365"}"#;
    assert_eq!(run(61, blocklist).result, 0);
    assert_eq!(run(61, r#"{"prefix":"osd pool create","pool":"x"}"#).result, -13);
    assert_eq!(run(62, r#"{"prefix":"status"}"#).result, -13);
    assert_eq!(run(62, r#"{"prefix":"get_command_descriptions"}"#).result, 0);
}

#[test]
fn a_client_gets_monmap_and_config_and_each_change_of_config() {
    let mut cluster = Cluster::new();
    let conn = ConnId(70);
    cluster.connect(conn, "client.x");
    cluster.say(conn, MMonGetMap {});
    let both = ["config", "monmap"].map(|w| (w.to_owned(), SubscribeItem { start: 0, flags: 0 }));
    cluster.say(conn, MMonSubscribe { what: both.into(), hostname: "vm".to_owned() });
    let count =
        |c: &Cluster, kind: u16| c.sent.iter().filter(|(to, _, m)| *to == conn && m.kind() == kind).count();
    assert_eq!((count(&cluster, 4), count(&cluster, 62)), (2, 1));
    cluster.ok(r#"{"prefix":"config set","who":"client","name":"rbd_cache","value":"false"}"#);
    cluster.ok(r#"{"prefix":"config set","who":"osd","name":"osd_heartbeat_grace","value":"10"}"#);
    assert_eq!(count(&cluster, 62), 2, "only what concerns it");
    let last = cluster.sent.iter().rev().find_map(|(to, _, m)| match m {
        Message::MConfig(config) if *to == conn => Some(config.config.clone()),
        _ => None,
    });
    assert_eq!(last.unwrap()["rbd_cache"], "false");
}

/// `rbd map` without options would have the kernel speak msgr1.
#[test]
fn clients_are_told_to_map_images_with_msgr2_unless_the_operator_says_else() {
    let told = |cluster: &Cluster, conn: ConnId| {
        let config = cluster.sent.iter().rev().find_map(|(to, _, m)| match m {
            Message::MConfig(config) if *to == conn => Some(config.config.clone()),
            _ => None,
        });
        config.unwrap().get("rbd_default_map_options").cloned()
    };
    let mut cluster = Cluster::new();
    let (client, osd) = (ConnId(71), ConnId(72));
    for (conn, name) in [(client, "client.x"), (osd, "osd.0")] {
        cluster.connect(conn, name);
        let what = [("config".to_owned(), SubscribeItem { start: 0, flags: 0 })].into();
        cluster.say(conn, MMonSubscribe { what, ..MMonSubscribe::default() });
    }
    assert_eq!(told(&cluster, osd), None);
    let get = r#"{"prefix":"config get","who":"client.x","key":"rbd_default_map_options"}"#;
    let set = |value: &str| {
        format!(
            r#"{{"prefix":"config set","who":"global","name":"rbd_default_map_options","value":"{value}"}}"#
        )
    };
    let mut check = |command: Option<&str>, expect: &str| {
        command.map(|command| cluster.ok(command));
        assert_eq!(told(&cluster, client).as_deref(), Some(expect));
        assert_eq!(cluster.text(get), format!("{expect}\n"));
    };
    check(None, "ms_mode=prefer-crc");
    check(Some(&set("ms_mode=secure")), "ms_mode=secure");
    check(Some(&set("")), "");
    let rm = r#"{"prefix":"config rm","who":"global","name":"rbd_default_map_options"}"#;
    check(Some(rm), "ms_mode=prefer-crc");
}

#[test]
fn the_blocklist_is_listed_and_expires() {
    let mut cluster = Cluster::new();
    let status =
        cluster.ok(r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"127.0.0.1:0/12345","expire":5}"#);
    assert!(status.starts_with("blocklisting 127.0.0.1:0/12345 until "), "{status}");
    assert!(cluster.text(r#"{"prefix":"osd blocklist ls"}"#).starts_with("127.0.0.1:0/12345 "));
    cluster.pass(std::time::Duration::from_secs(6));
    assert_eq!(cluster.ok(r#"{"prefix":"osd blocklist ls"}"#), "listed 0 entries");
    let status =
        cluster.ok(r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"127.0.0.1:0/12345","expire":0}"#);
    assert!(status.ends_with(" (0 sec)"), "{status}");
    cluster.pass(std::time::Duration::from_secs(1));
    assert_eq!(cluster.ok(r#"{"prefix":"osd blocklist ls"}"#), "listed 0 entries");
}

#[test]
fn keys_are_rotated() {
    let mut cluster = Cluster::new();
    cluster.ok(r#"{"prefix":"auth get-or-create","entity":"client.r","caps":["mon","allow r"]}"#);
    let key = |cluster: &mut Cluster| cluster.text(r#"{"prefix":"auth get-key","entity":"client.r"}"#);
    let before = key(&mut cluster);
    let ring = cluster.text(r#"{"prefix":"auth rotate","entity":"client.r"}"#);
    let after = key(&mut cluster);
    assert!(before != after && ring.contains(&after) && ring.contains("allow r"), "{ring}");
    let refused = cluster.refused(r#"{"prefix":"auth rotate","entity":"client.nope"}"#);
    assert_eq!(refused, (-2, "entity does not exist".to_owned()));
}

#[test]
fn the_report_holds_what_other_commands_answer() {
    let mut cluster = Cluster::with_rbd();
    let reply = cluster.try_command(ADMIN, r#"{"prefix":"report","tags":["a","b"]}"#, b"").unwrap();
    assert_eq!(reply.status, format!("report {}", codec::crc32c(6789, &reply.output)));
    let doc: Value = serde_json::from_slice(&reply.output).unwrap();
    assert_eq!((&doc["tag"], &doc["num_pg"], &doc["num_pg_active"]), (&"a b".into(), &8.into(), &8.into()));
    for key in ["health", "monmap", "osdmap", "crushmap", "fsmap", "pool_sum", "osd_sum", "servicemap"] {
        assert!(doc[key].is_object(), "{key}");
    }
    assert_eq!(doc["osd_metadata"].as_array().map(Vec::len), Some(3));
}

/// Ceph's consumers read one document of addresses, and one of networks if another one follows.
#[test]
fn networks_that_are_blocklisted_are_a_document_of_their_own() {
    let mut cluster = Cluster::new();
    let ls = r#"{"prefix":"osd blocklist ls","format":"json"}"#;
    let documents = |text: String| -> Vec<Value> {
        serde_json::Deserializer::from_str(&text).into_iter().collect::<Result<_, _>>().unwrap()
    };
    let add = r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.5:0/7"}"#;
    cluster.ok(add);
    let [addrs] = &documents(cluster.text(ls))[..] else { panic!("one document") };
    assert_eq!(addrs[0]["addr"], "10.0.0.5:0/7");
    cluster.ok(&add.replace(":0/7", "/24").replace("\"addr\"", "\"range\":\"range\",\"addr\""));
    let [addrs, ranges] = &documents(cluster.text(ls))[..] else { panic!("two documents") };
    assert_eq!((addrs.as_array().unwrap().len(), &ranges[0]["range"]), (1, &"10.0.0.5:0/24".into()));
}

#[test]
fn networks_are_blocklisted() {
    let mut cluster = Cluster::new();
    let range = |op: &str, addr: &str| {
        format!(
            r#"{{"prefix":"osd blocklist","range":"range","blocklistop":"{op}","addr":"{addr}","expire":5}}"#
        )
    };
    let status = cluster.ok(&range("add", "10.0.0.5/24"));
    assert!(status.starts_with("blocklisting cidr:10.0.0.5:0/24 until "), "{status}");
    assert!(cluster.text(r#"{"prefix":"osd blocklist ls"}"#).starts_with("cidr:10.0.0.5:0/24 "));
    let refused = |addr: &str| types::EntityAddr::parse(addr).unwrap();
    assert!(cluster.mon.osdmap().is_blocklisted(&refused("10.0.0.77:0/1")));
    assert_eq!(
        cluster.refused(&range("add", "10.0.0.0/33")),
        (-22, "Too many bits in range for that protocol!".to_owned())
    );
    let text = "You specified a range command, but v2:10.0.1.5:0/0 does not parse as a CIDR range";
    assert_eq!(cluster.refused(&range("add", "10.0.1.5")), (-22, text.to_owned()));
    assert_eq!(cluster.ok(&range("rm", "10.9.0.0/24")), "cidr:10.9.0.0:0/24 isn't blocklisted");
    assert_eq!(cluster.ok(&range("rm", "10.0.0.5/24")), "un-blocklisting cidr:10.0.0.5:0/24");
    assert!(!cluster.mon.osdmap().is_blocklisted(&refused("10.0.0.77:0/1")));
    cluster.ok(&range("add", "fd00::/64"));
    cluster.pass(std::time::Duration::from_secs(6));
    assert_eq!(cluster.ok(r#"{"prefix":"osd blocklist ls"}"#), "listed 0 entries");
    cluster.ok(&range("add", "fd00::/64"));
    assert_eq!(cluster.ok(r#"{"prefix":"osd blacklist clear"}"#), " removed all blocklist entries");
    assert!(cluster.mon.osdmap().range_blocklist.0.is_empty());
}

#[test]
fn status_reads_like_cephs() {
    let mut cluster = Cluster::with_rbd();
    let text = cluster.text(r#"{"prefix":"status"}"#);
    for part in [
        "  cluster:\n    id:     07070707-0707-0707-0707-070707070707\n    health: HEALTH_OK\n \n  services:\n",
        "    mon: 1 daemons, quorum a (age ",
        "    osd: 3 osds: 3 up (since ",
        "    pools:   1 pools, 8 pgs\n    objects: 8 objects, 32 KiB\n    usage:   3 GiB used, 57 GiB / 60 GiB avail\n    pgs:     8 active+clean\n \n",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn a_crush_map_goes_out_and_comes_back() {
    let mut cluster = Cluster::with_rbd();
    let map = cluster.command(r#"{"prefix":"osd getcrushmap"}"#).output;
    let version = cluster.map().crush_version;
    let ack = cluster.try_command(ADMIN, r#"{"prefix":"osd setcrushmap"}"#, &map).unwrap();
    assert_eq!((ack.result, ack.status), (0, (version + 1).to_string()));
    assert_eq!(cluster.map().crush.bytes(), &map);
    let bad = cluster.try_command(ADMIN, r#"{"prefix":"osd setcrushmap"}"#, b"garbage").unwrap();
    assert_eq!(bad.result, -22);
}

#[test]
fn keyrings_are_imported() {
    let mut cluster = Cluster::new();
    let ring = b"[client.z]\n\tkey = AQCGygBr0jq9EhAA9xgRaUSnBYhA9PKf8M5x5A==\n\tcaps mon = \"allow r\"\n";
    let ack = cluster.try_command(ADMIN, r#"{"prefix":"auth import"}"#, ring).unwrap();
    assert_eq!((ack.result, ack.status.as_str()), (0, "imported keyring"));
    let text = cluster.text(r#"{"prefix":"auth get","entity":"client.z"}"#);
    assert_eq!(text.as_bytes(), ring);
}

#[test]
fn the_monitors_own_options_follow_the_database() {
    let mut cluster = Cluster::with_rbd();
    let rm = r#"{"prefix":"osd pool rm","pool":"rbd","pool2":"rbd","yes_i_really_really_mean_it":true}"#;
    assert_eq!(cluster.refused(rm).0, -1);
    cluster.allow_pool_delete();
    cluster.ok(r#"{"prefix":"config rm","who":"mon","name":"mon_allow_pool_delete"}"#);
    assert_eq!(cluster.refused(rm).0, -1);
    cluster.allow_pool_delete();
    cluster.ok(rm);
}

#[test]
fn muted_checks_do_not_count_until_the_mute_ends() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert!(cluster.text(r#"{"prefix":"health"}"#).starts_with("HEALTH_WARN"));
    cluster.ok(r#"{"prefix":"health mute","code":"OSDMAP_FLAGS","ttl":"5s"}"#);
    assert!(cluster.text(r#"{"prefix":"health"}"#).starts_with("HEALTH_OK (muted: OSDMAP_FLAGS(5s))"));
    cluster.pass(std::time::Duration::from_secs(6));
    assert!(cluster.text(r#"{"prefix":"health"}"#).starts_with("HEALTH_WARN"));
}

#[test]
fn a_mute_that_is_not_sticky_ends_with_its_check() {
    let mut cluster = Cluster::with_rbd();
    let [set, unset] = ["set", "unset"].map(|verb| format!(r#"{{"prefix":"osd {verb}","key":"noout"}}"#));
    cluster.ok(&set);
    cluster.ok(r#"{"prefix":"health mute","code":"OSDMAP_FLAGS"}"#);
    cluster.ok(r#"{"prefix":"health mute","code":"OSD_DOWN","sticky":true}"#);
    let flags = serde_json::json!({"code": "OSDMAP_FLAGS", "sticky": false, "summary": "noout flag(s) set", "count": 5});
    let down = serde_json::json!({"code": "OSD_DOWN", "sticky": true, "summary": "", "count": 0});
    cluster.pass(std::time::Duration::from_secs(2));
    assert_eq!(cluster.json(r#"{"prefix":"health"}"#)["mutes"], serde_json::json!([flags, down]));
    let text = cluster.text(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(text.contains("(MUTED) [WRN] OSDMAP_FLAGS: noout flag(s) set"), "{text}");
    // A monitor that has just begun does not know yet what is wrong.
    cluster.restart();
    cluster.ok(&unset);
    cluster.pass(std::time::Duration::from_secs(2));
    assert_eq!(cluster.json(r#"{"prefix":"health"}"#)["mutes"], serde_json::json!([flags, down]));
    cluster.pass(std::time::Duration::from_secs(60));
    assert_eq!(cluster.json(r#"{"prefix":"health"}"#)["mutes"], serde_json::json!([down]));
    cluster.ok(&set);
    assert!(cluster.text(r#"{"prefix":"health"}"#).contains("noout flag(s) set"));
}

#[test]
fn tell_has_a_table_of_its_own() {
    let mut cluster = Cluster::with_rbd();
    let mut tell = |json: &str| {
        let command = messages::MCommand { cmd: vec![json.to_owned()], ..messages::MCommand::default() };
        let tid = cluster.say(ADMIN, command);
        let answer = cluster.sent.iter().find_map(|(_, t, message)| match message {
            Message::MCommandReply(reply) if *t == tid => {
                Some((reply.result, reply.status.clone(), String::from_utf8(reply.output.to_vec()).unwrap()))
            }
            _ => None,
        });
        answer.unwrap()
    };
    assert_eq!(tell(r#"{"prefix":"osd tree"}"#).1, "unknown command prefix osd tree");
    assert_eq!(tell(r#"{"prefix":"heap","heapcmd":"stats"}"#).0, -95);
    let unknown = tell(r#"{"prefix":"config get","var":"nope"}"#);
    assert_eq!((unknown.0, unknown.1.as_str()), (-2, "error getting 'nope': (2) No such file or directory"));
    assert!(tell(r#"{"prefix":"config show"}"#).2.contains("07070707-0707"));
    let sessions: Value = serde_json::from_str(&tell(r#"{"prefix":"sessions"}"#).2).unwrap();
    assert!(sessions.as_array().unwrap().iter().any(|s| s["entity_name"] == "client.admin"), "{sessions}");
    let mons = tell(r#"{"prefix":"perf dump","logger":"cluster","counter":"num_mon"}"#).2;
    let mons: Value = serde_json::from_str(&mons).unwrap();
    assert_eq!(mons, serde_json::json!({"cluster": {"num_mon": 1}}));
    let all: Value = serde_json::from_str(&tell(r#"{"prefix":"perf dump"}"#).2).unwrap();
    let schema: Value = serde_json::from_str(&tell(r#"{"prefix":"perf schema"}"#).2).unwrap();
    for (logger, rows) in schema.as_object().unwrap() {
        let names = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(rows), names(&all[logger]), "{logger}: what is declared is counted");
    }
    let status: Value = serde_json::from_str(&tell(r#"{"prefix":"mon_status"}"#).2).unwrap();
    assert_eq!((status["state"].as_str(), status["rank"].as_u64()), (Some("leader"), Some(0)));
}

#[test]
fn classes_and_rules_are_made_renamed_and_removed() {
    let mut cluster = Cluster::with_rbd();
    let class = |op: &str, names: &str| format!(r#"{{"prefix":"osd crush class {op}",{names}}}"#);
    let fast = r#""class":"fast""#;
    assert_eq!(cluster.ok(&class("create", fast)), "created class fast with id 1 to crush map");
    assert_eq!(cluster.ok(&class("create", fast)), "class 'fast' already exists");
    cluster.ok(
        r#"{"prefix":"osd crush rule create-replicated","name":"r","root":"default","type":"osd","class":"ssd"}"#,
    );
    assert_eq!(
        cluster.ok(&class("rename", r#""srcname":"ssd","dstname":"flash""#)),
        "rename class 'ssd' to 'flash'"
    );
    assert_eq!(cluster.text(r#"{"prefix":"osd crush rule ls-by-class","class":"flash"}"#), "r\n");
    assert_eq!(
        cluster.refused(&class("rm", r#""class":"flash""#)),
        (-16, "class 'flash' still referenced by crush_rule(s): 'r'".to_owned())
    );
    cluster.ok(r#"{"prefix":"osd crush rule rename","srcname":"r","dstname":"r2"}"#);
    cluster.ok(r#"{"prefix":"osd crush rule rm","name":"r2"}"#);
    assert_eq!(
        cluster.ok(&class("rm", r#""class":"flash""#)),
        "removed class flash with id 0 from crush map"
    );
    assert_eq!(cluster.map().crush.map().device_class(0), None);
}

/// The next change after it that is one of places, devices or rules forgets a class that nothing uses.
#[test]
fn a_class_is_listed_until_nothing_uses_it() {
    let mut cluster = Cluster::with_rbd();
    let classes = |cluster: &mut Cluster| cluster.json(r#"{"prefix":"osd crush class ls"}"#);
    let create = |name: &str| format!(r#"{{"prefix":"osd crush class create","class":"{name}"}}"#);
    cluster.ok(&create("empty"));
    cluster.ok(&create("fast"));
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert_eq!(classes(&mut cluster), serde_json::json!(["ssd", "empty", "fast"]));
    cluster.ok(r#"{"prefix":"osd crush rm-device-class","ids":["1"]}"#);
    assert_eq!(classes(&mut cluster), serde_json::json!(["ssd"]));
    cluster.ok(r#"{"prefix":"osd crush set-device-class","class":"fast","ids":["1"]}"#);
    let rule = r#"{"prefix":"osd crush rule create-replicated","name":"r","root":"default","type":"osd","class":"fast"}"#;
    cluster.ok(rule);
    cluster.ok(r#"{"prefix":"osd crush rm-device-class","ids":["all"]}"#);
    assert_eq!(classes(&mut cluster), serde_json::json!(["fast"]));
    assert!(cluster.map().crush.map().id_of("default~fast").is_some());
    cluster.ok(r#"{"prefix":"osd crush rule rm","name":"r"}"#);
    assert_eq!(classes(&mut cluster), serde_json::json!([]));
    assert_eq!(cluster.map().crush.map().id_of("default~fast"), None);
}

#[test]
fn osds_that_are_needed_are_not_destroyed_unless_forced() {
    let mut cluster = Cluster::with_rbd();
    let needed = cluster.refused(r#"{"prefix":"osd destroy","id":0}"#);
    assert_eq!(needed.0, -16);
    assert!(
        needed.1.starts_with("OSD(s) 0 have 8 pgs currently mapped to them. \nYou can proceed"),
        "{needed:?}"
    );
    let up = cluster.refused(r#"{"prefix":"osd purge","id":0,"force":true}"#);
    assert_eq!(up, (-16, "osd.0 is not `down`.".to_owned()));
    assert_eq!(cluster.ok(r#"{"prefix":"osd destroy","id":77}"#), "osd.77 does not exist");
}

#[test]
fn without_authentication_nobody_is_held_to_capabilities() {
    let mut cluster = Cluster::new();
    cluster.ok(r#"{"prefix":"auth get-or-create","entity":"client.a","caps":["osd","allow r"]}"#);
    let set = r#"{"prefix":"osd set","key":"noout"}"#;
    let conn = ConnId(50);
    let result_of = |cluster: &mut Cluster, name| {
        cluster.connect(conn, name);
        let ack = cluster.try_command(conn, set, b"").unwrap();
        cluster.event(Event::ConnClosed(conn));
        ack.result
    };
    assert_eq!(result_of(&mut cluster, "client.a"), -13);
    cluster.restart_with(MonOptions { is_auth_none: true, ..MonOptions::default() });
    for name in ["client.a", "client.unknown"] {
        assert_eq!(result_of(&mut cluster, name), 0, "{name}");
    }
}
