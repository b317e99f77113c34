//! What operators say of single OSDs, nodes and keys.

use std::time::Duration;

use super::cluster::{ADMIN, Cluster, boot_message};
use messages::{MOSDBoot, MPGStats, PeerPing};
use serde_json::json;
use types::{EntityName, OSD_COUNT_MAX, OsdId, OsdState, Uuid, WEIGHT_IN};

#[test]
fn flags_of_nodes_and_classes_hold_for_what_is_below() {
    let mut cluster = Cluster::with_rbd();
    let set = |who: &str| format!(r#"{{"prefix":"osd set-group","flags":"noup,noout","who":["{who}"]}}"#);
    cluster.ok(&set("osd.0"));
    cluster.ok(&set("default"));
    assert!(cluster.map().group_flags(OsdId(1)).has(OsdState::NOUP | OsdState::NOOUT));
    assert!(!cluster.map().state(OsdId(1)).has(OsdState::NOUP), "it is the node's flag");
    let dump = cluster.json(r#"{"prefix":"osd dump","format":"json"}"#);
    assert_eq!(dump["crush_node_flags"]["default"], serde_json::json!(["noup", "noout"]));
    let health = cluster.text(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(
        health.contains("2 OSDs or CRUSH {nodes, device-classes} have {NOUP,NODOWN,NOIN,NOOUT} flags set")
    );
    assert!(health.contains("osd.0 has flags noup,noout"), "{health}");
    cluster.ok(r#"{"prefix":"osd unset-group","flags":"noup,noout","who":["default"]}"#);
    cluster.ok(r#"{"prefix":"osd rm-noup","ids":["all"]}"#);
    assert_eq!(cluster.map().group_flags(OsdId(0)), OsdState::NOOUT);
    assert_eq!(cluster.map().group_flags(OsdId(1)), OsdState::default());
    let refused = cluster.refused(r#"{"prefix":"osd add-noup","ids":["797er"]}"#);
    let why = "unable to parse osd id or crush node or device class: \"797er\". ";
    assert_eq!(refused, (-22, why.to_owned()));
    assert_eq!(cluster.refused(&set("x").replace("noup,", "full,")).0, -22);
}

#[test]
fn flags_go_with_their_node() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd crush add-bucket","name":"foo","type":"host"}"#);
    cluster.ok(r#"{"prefix":"osd add-noin","ids":["foo"]}"#);
    assert_eq!(cluster.map().crush_node_flags.len(), 1);
    cluster.ok(r#"{"prefix":"osd crush rm","name":"foo"}"#);
    assert!(cluster.map().crush_node_flags.is_empty());
    // Or with a map that has it no more.
    let without = cluster.command(r#"{"prefix":"osd getcrushmap"}"#).output;
    cluster.ok(r#"{"prefix":"osd crush add-bucket","name":"foo","type":"host"}"#);
    cluster.ok(r#"{"prefix":"osd add-noin","ids":["foo"]}"#);
    assert_eq!(cluster.map().crush_node_flags.len(), 1);
    assert_eq!(cluster.try_command(ADMIN, r#"{"prefix":"osd setcrushmap"}"#, &without).unwrap().result, 0);
    assert!(cluster.map().crush_node_flags.is_empty());
}

#[test]
fn a_pending_key_takes_over_when_it_is_used() {
    use auth::Authority;
    let mut cluster = Cluster::new();
    cluster.ok(r#"{"prefix":"auth get-or-create","entity":"client.a","caps":["mon","allow r"]}"#);
    let text = cluster.text(r#"{"prefix":"auth get-or-create-pending","entity":"client.a"}"#);
    let pending = text.lines().find_map(|line| line.strip_prefix("\tpending key = ")).unwrap().to_owned();
    assert!(cluster.text(r#"{"prefix":"auth export","entity":"client.a"}"#).contains(&pending));
    let name = EntityName::parse("client.a").unwrap();
    cluster.restart();
    assert_eq!(cluster.mon.pending_key(&name).unwrap().to_base64(), pending, "it outlives a restart");
    cluster.mon.note_pending_key_used(&name);
    cluster.connect(crate::ConnId(77), "client.a");
    assert!(cluster.mon.pending_key(&name).is_none());
    assert_eq!(cluster.mon.entity(&name).unwrap().key.to_base64(), pending);
    assert_eq!(cluster.ok(r#"{"prefix":"auth commit-pending","entity":"client.a"}"#), "no pending key");
    cluster.ok(r#"{"prefix":"auth get-or-create-pending","entity":"client.a"}"#);
    cluster.ok(r#"{"prefix":"auth rm","entity":"client.a"}"#);
    assert!(cluster.mon.pending_key(&name).is_none(), "it goes with its entity");
}

#[test]
fn a_new_osd_brings_its_secrets_and_takes_them_along() {
    let mut cluster = Cluster::new();
    let uuid = "1111111a-1111-1111-1111-111111111111";
    let key = "AQAQuQBrA94mIBAAo+GWtvvESSLUPpNJ+huiaA==";
    // However it is written, what belongs to it is found by how it is shown.
    let asked = uuid.to_uppercase();
    let new = format!(r#"{{"prefix":"osd new","uuid":"{asked}","id":7}}"#);
    let secrets =
        format!(r#"{{"cephx_secret":"{key}","cephx_lockbox_secret":"{key}","dmcrypt_key":"secret"}}"#);
    let try_with = |cluster: &mut Cluster, input: &str| {
        let ack = cluster.try_command(super::cluster::ADMIN, &new, input.as_bytes()).unwrap();
        (ack.result, String::from_utf8(ack.output.to_vec()).unwrap())
    };
    assert_eq!(try_with(&mut cluster, "{asd: ; }").0, -22);
    assert_eq!(try_with(&mut cluster, &secrets.replace("cephx_secret", "x")).0, -22);
    assert_eq!(try_with(&mut cluster, &secrets), (0, "7\n".to_owned()));
    assert_eq!(try_with(&mut cluster, &secrets), (0, "7\n".to_owned()), "asked for again");
    let other = "22222222-2222-2222-2222-222222222222";
    let refused = cluster.refused(&new.replace(&asked, other));
    assert_eq!(refused, (-22, format!("id 7 already in use and does not match uuid {other}")));
    assert_eq!(try_with(&mut cluster, &secrets.replace("secret\"}", "other\"}")).0, -17);
    // Destroyed and made again before it ever was up, it is still new.
    cluster.ok(r#"{"prefix":"osd destroy","id":7,"yes_i_really_mean_it":true}"#);
    let tree = cluster.json(r#"{"prefix":"osd tree"}"#);
    assert_eq!(tree["stray"][0]["status"], "destroyed");
    assert_eq!(try_with(&mut cluster, &secrets), (0, "7\n".to_owned()));
    let lockbox = format!(r#"{{"prefix":"auth get-key","entity":"client.osd-lockbox.{uuid}"}}"#);
    assert_eq!(cluster.text(&lockbox), key);
    let passphrase = format!(r#"{{"prefix":"config-key exists","key":"dm-crypt/osd/{uuid}/luks"}}"#);
    cluster.ok(&passphrase);
    cluster.ok(r#"{"prefix":"osd purge-new","id":7,"yes_i_really_mean_it":true}"#);
    assert_eq!((cluster.refused(&lockbox).0, cluster.refused(&passphrase).0), (-2, -2));
}

#[test]
fn a_new_osd_brings_its_device_class_and_keeps_it() {
    let mut cluster = Cluster::new();
    let new = |cluster: &mut Cluster, id: u8, input: &str| {
        let uuid = Uuid([id + 1; 16]);
        let command = format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":{id}}}"#);
        cluster.try_command(super::cluster::ADMIN, &command, input.as_bytes()).unwrap().result
    };
    let class =
        |cluster: &Cluster, id: i32| cluster.map().crush.map().device_class(id).map(ToOwned::to_owned);
    let file = r#"{"crush_device_class":"nvme"}"#;
    let key = "AQAQuQBrA94mIBAAo+GWtvvESSLUPpNJ+huiaA==";
    let with_key = format!(r#"{{"cephx_secret":"{key}","crush_device_class":"nvme"}}"#);
    for id in [0, 7] {
        let input = if id == 0 { file } else { &with_key };
        assert_eq!(new(&mut cluster, id, input), 0);
        assert_eq!(class(&cluster, id.into()).as_deref(), Some("nvme"));
        assert_eq!(new(&mut cluster, id, input), 0, "asked for again");
    }
    assert_eq!(cluster.refused(r#"{"prefix":"auth get","entity":"osd.8"}"#).0, -2);
    // Its device would be of another class.
    cluster.boot_osd(0);
    assert!(cluster.map().is_up(OsdId(0)));
    assert_eq!(class(&cluster, 0).as_deref(), Some("nvme"));
    // Without a key of its own, an OSD has no other secrets.
    let passphrase = r#"{"dmcrypt_key":"secret","crush_device_class":"nvme"}"#;
    assert_eq!((new(&mut cluster, 8, passphrase), class(&cluster, 8)), (-22, None));
    // The class goes with an OSD that never came, though it has no place.
    cluster.ok(r#"{"prefix":"osd purge-new","id":7,"yes_i_really_mean_it":true}"#);
    assert_eq!(class(&cluster, 7), None);
}

#[test]
fn a_new_osd_for_which_there_is_no_id_leaves_no_key() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"config set","who":"mon","name":"mon_max_osd","value":"3"}"#);
    let epoch = cluster.map().epoch;
    let secrets = br#"{"cephx_secret":"AQAQuQBrA94mIBAAo+GWtvvESSLUPpNJ+huiaA=="}"#;
    for (id, named) in [("", 3), (r#","id":7"#, 7)] {
        let new = format!(r#"{{"prefix":"osd new","uuid":"1111111a-1111-1111-1111-111111111111"{id}}}"#);
        let ack = cluster.try_command(super::cluster::ADMIN, &new, secrets).unwrap();
        assert_eq!((ack.result, ack.status), (-34, format!("osd id {named} is not below mon_max_osd (3)")));
        assert_eq!(cluster.refused(&format!(r#"{{"prefix":"auth get","entity":"osd.{named}"}}"#)).0, -2);
    }
    assert_eq!(cluster.map().epoch, epoch);
}

/// A full map has more than 100 bytes for each, and one is kept for each epoch.
#[test]
fn no_map_has_more_osds_than_mon_max_osd_says() {
    let mut cluster = Cluster::with_rbd();
    let refused = |cluster: &mut Cluster, max: i64, limit: i64| {
        let why = format!("cannot set max_osd to {max} which is > conf.mon_max_osd ({limit})");
        assert_eq!(cluster.refused(&format!(r#"{{"prefix":"osd setmaxosd","newmax":{max}}}"#)), (-34, why));
    };
    let set = |cluster: &mut Cluster, limit: &str| {
        cluster
            .ok(&format!(r#"{{"prefix":"config set","who":"mon","name":"mon_max_osd","value":"{limit}"}}"#));
    };
    refused(&mut cluster, 10_001, 10_000);
    set(&mut cluster, "2000000000");
    refused(&mut cluster, i64::from(OSD_COUNT_MAX) + 1, OSD_COUNT_MAX.into());
    set(&mut cluster, "20");
    cluster.ok(r#"{"prefix":"osd setmaxosd","newmax":20}"#);
    assert_eq!(cluster.map().max_osd, 20);
    // An OSD that boots makes room for itself as far as that; those that there is room for need none.
    set(&mut cluster, "22");
    let boot = |cluster: &mut Cluster, id: i32| {
        cluster.ok(&format!(
            r#"{{"prefix":"auth get-or-create","entity":"osd.{id}","caps":["mon","allow profile osd","osd","allow *"]}}"#
        ));
        cluster.boot_osd(id);
        cluster.pass(Duration::from_secs(1));
    };
    boot(&mut cluster, 21);
    assert_eq!(cluster.map().max_osd, 22);
    set(&mut cluster, "10");
    for (id, is_up) in [(19, true), (21, true), (22, false)] {
        boot(&mut cluster, id);
        assert_eq!(cluster.map().is_up(OsdId(id)), is_up, "osd.{id}");
    }
    // Fewer than there are.
    set(&mut cluster, "-1");
    refused(&mut cluster, 0, -1);
}

#[test]
fn an_osd_on_a_new_device_comes_in_under_the_id_of_the_one_that_was_destroyed() {
    let mut cluster = Cluster::with_rbd();
    for is_announced in [false, true] {
        cluster.ok(r#"{"prefix":"osd out","ids":["2"]}"#);
        cluster.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
        cluster.ok(r#"{"prefix":"osd destroy","id":2,"yes_i_really_mean_it":true}"#);
        let uuid = Uuid([if is_announced { 9 } else { 8 }; 16]);
        if is_announced {
            let uuid = "09090909-0909-0909-0909-090909090909";
            cluster.ok(&format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":2}}"#));
        }
        let caps = r#"["mon","allow profile osd","osd","allow *"]"#;
        cluster.ok(&format!(r#"{{"prefix":"auth get-or-create","entity":"osd.2","caps":{caps}}}"#));
        cluster.connect(Cluster::osd_conn(2), "osd.2");
        let boot = MOSDBoot { uuid, ..boot_message(2, cluster.map().epoch) };
        cluster.say(Cluster::osd_conn(2), boot);
        let map = cluster.map();
        assert!(map.is_up(OsdId(2)) && !map.state(OsdId(2)).has(OsdState::DESTROYED), "{is_announced}");
        assert_eq!((map.weight(OsdId(2)), map.osd_uuid[2]), (WEIGHT_IN, uuid), "{is_announced}");
    }
}

#[test]
fn an_osd_that_was_replaced_while_it_was_in_is_new_no_more() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd reweight","id":2,"weight":0.5}"#);
    cluster.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
    cluster.ok(r#"{"prefix":"osd destroy","id":2,"yes_i_really_mean_it":true}"#);
    let uuid = Uuid([9; 16]);
    cluster.ok(&format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":2}}"#));
    assert!(cluster.map().state(OsdId(2)).has(OsdState::NEW));
    let caps = r#"["mon","allow profile osd","osd","allow *"]"#;
    cluster.ok(&format!(r#"{{"prefix":"auth get-or-create","entity":"osd.2","caps":{caps}}}"#));
    let boot = |cluster: &mut Cluster| {
        cluster.connect(Cluster::osd_conn(2), "osd.2");
        let boot = MOSDBoot { uuid, ..boot_message(2, cluster.map().epoch) };
        cluster.say(Cluster::osd_conn(2), boot);
        assert!(cluster.map().is_up(OsdId(2)));
        (cluster.map().weight(OsdId(2)), cluster.map().state(OsdId(2)).has(OsdState::NEW))
    };
    assert_eq!(boot(&mut cluster), (WEIGHT_IN / 2, false));
    // So it stays out once it is taken out.
    cluster.ok(r#"{"prefix":"osd out","ids":["2"]}"#);
    cluster.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
    assert_eq!(boot(&mut cluster), (0, false));
}

#[test]
fn profiles_are_completed_and_checked() {
    let mut cluster = Cluster::new();
    let set = |profile: &str| {
        format!(r#"{{"prefix":"osd erasure-code-profile set","name":"p","profile":[{profile}]}}"#)
    };
    cluster.ok(&set(r#""k=4","m=2""#));
    cluster.ok(&set(r#""m=2","k=4""#));
    let profile = cluster.json(r#"{"prefix":"osd erasure-code-profile get","name":"p","format":"json"}"#);
    assert_eq!((&profile["technique"], &profile["crush-root"]), (&"reed_sol_van".into(), &"default".into()));
    assert_eq!(cluster.refused(&set(r#""k=5","m=2""#)).0, -1);
    assert_eq!(cluster.refused(&set(r#""k=1","m=2""#)), (-22, "k=1 must be >= 2".to_owned()));
    let rule = cluster.ok(r#"{"prefix":"osd crush rule create-erasure","name":"r","profile":"p"}"#);
    assert_eq!(rule, "created rule r at 1");
    let rule = cluster.json(r#"{"prefix":"osd crush rule dump","name":"r","format":"json"}"#);
    assert_eq!((&rule["type"], &rule["steps"][3]["op"]), (&3.into(), &"chooseleaf_indep".into()));
}

#[test]
fn temporary_sets_are_checked_and_begin_an_interval() {
    let mut cluster = Cluster::with_rbd();
    let temp = |ids: &str| format!(r#"{{"prefix":"osd pg-temp","pgid":"1.0","id":{ids}}}"#);
    assert_eq!(cluster.ok(&temp("[2,1]")), "set 1.0 pg_temp mapping to [2,1]");
    assert_eq!(cluster.refused(&temp("[1]")), (-22, "num of osds (1) < pool min size (2)".to_owned()));
    assert_eq!(cluster.refused(&temp("[0,1,2,0]")), (-22, "num of osds (4) > pool size (3)".to_owned()));
    assert_eq!(cluster.refused(&temp("[0,77]")), (-2, "osd.77 does not exist".to_owned()));
    assert_eq!(cluster.ok(&temp("[]")), "done cleaning up pg_temp of 1.0");
    cluster.ok(r#"{"prefix":"pg repeer","pgid":"1.0"}"#);
    assert_eq!(cluster.map().pg_temp.values().map(Vec::len).collect::<Vec<_>>(), [1], "the primary alone");
    let refused = cluster.refused(r#"{"prefix":"pg repeer","pgid":"9.0"}"#);
    assert_eq!(refused, (-2, "pg '9.0' does not exist".to_owned()));
    let refused = cluster.refused(r#"{"prefix":"osd pg-temp","pgid":"9.0","id":[0]}"#);
    assert_eq!(refused, (-2, "pg 9.0 does not exist".to_owned()));
}

#[test]
fn the_number_of_an_osds_last_report_is_told() {
    let mut cluster = Cluster::with_rbd();
    let ask = |cluster: &mut Cluster, osd: i32| {
        cluster.text(&format!(r#"{{"prefix":"osd last-stat-seq","id":{osd}}}"#))
    };
    let (epoch, osd, seq) = (cluster.map().epoch, OsdId(1), (4 << 32) | 17);
    cluster.say(Cluster::osd_conn(1), MPGStats { osd, epoch, seq, ..MPGStats::default() });
    assert_eq!(ask(&mut cluster, 1), format!("{seq}\n"));
    assert_eq!(ask(&mut cluster, 77), "0\n");
}

/// An OSD reports requests that take long.
fn say_slow(cluster: &mut Cluster, osd: i32, slow_ops: u32, oldest_slow_op_sec: u32) {
    let (epoch, osd) = (cluster.map().epoch, OsdId(osd));
    let report = MPGStats { osd, epoch, slow_ops, oldest_slow_op_sec, ..MPGStats::default() };
    cluster.say(Cluster::osd_conn(osd.0), report);
}

#[test]
fn slow_heartbeats_are_told_as_the_manager_of_ceph_does() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    let say = |cluster: &mut Cluster, from: i32, pings: &[(i32, [u32; 3])]| {
        let ping = |&(to, [mean_1min_us, mean_5min_us, mean_15min_us]): &(i32, [u32; 3])| PeerPing {
            osd: OsdId(to),
            mean_1min_us,
            mean_5min_us,
            mean_15min_us,
        };
        let pings = pings.iter().map(ping).collect();
        let (epoch, osd) = (cluster.map().epoch, OsdId(from));
        cluster.say(Cluster::osd_conn(from), MPGStats { osd, epoch, pings, ..MPGStats::default() });
    };
    let health = |cluster: &mut Cluster| cluster.text(r#"{"prefix":"health","detail":"detail"}"#) + "\n";
    say(&mut cluster, 0, &[(1, [999_999, 1_000_000, 0]), (2, [200, 300, 400])]);
    assert!(!health(&mut cluster).contains("OSD_SLOW_PING_TIME"), "a second is not too long");
    say(&mut cluster, 0, &[(1, [1_000_000, 1_100_000, 1_118_001]), (2, [200, 300, 400])]);
    say(&mut cluster, 2, &[(1, [1_020_005, 300, 400])]);
    let slow = "\n[WRN] OSD_SLOW_PING_TIME_BACK: Slow OSD heartbeats on back (longest 1118.001ms)\n    \
        Slow OSD heartbeats on back from osd.0 [] to osd.1 [] 1118.001 msec possibly improving\n    \
        Slow OSD heartbeats on back from osd.2 [] to osd.1 [] 1020.005 msec\n";
    assert!(health(&mut cluster).contains(slow), "{}", health(&mut cluster));
    // One millisecond is too long, and there is room for ten pairs.
    cluster.ok(r#"{"prefix":"config set","who":"mon","name":"mon_warn_on_slow_ping_time","value":"1"}"#);
    say(&mut cluster, 0, &(1..=12).map(|to| (to, [1_001, 0, 0])).collect::<Vec<_>>());
    say(&mut cluster, 2, &[]);
    let text = health(&mut cluster);
    let lines = text.lines().skip_while(|line| !line.contains("OSD_SLOW_PING_TIME_BACK: "));
    let lines: Vec<_> = lines.skip(1).take_while(|line| line.starts_with("    ")).collect();
    assert_eq!(lines.len(), 11, "{text}");
    assert!(
        lines[0].ends_with("to osd.12 [] (down) 1.001 msec") && lines[10].starts_with("    Truncated"),
        "{text}"
    );
    say(&mut cluster, 0, &[(1, [1_000, 0, 0])]);
    assert!(!health(&mut cluster).contains("OSD_SLOW_PING_TIME"));
}

#[test]
fn slow_ops_are_told_as_the_manager_of_ceph_does() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    let health = |cluster: &mut Cluster| cluster.text(r#"{"prefix":"health","detail":"detail"}"#) + "\n";
    say_slow(&mut cluster, 1, 2, 86);
    let one = "\n[WRN] SLOW_OPS: 2 slow ops, oldest one blocked for 86 sec, osd.1 has slow ops\n";
    assert!(health(&mut cluster).contains(one), "{}", health(&mut cluster));
    say_slow(&mut cluster, 2, 1, 90);
    let two = "3 slow ops, oldest one blocked for 90 sec, daemons [osd.1,osd.2] have slow ops.\n";
    assert!(health(&mut cluster).contains(two), "{}", health(&mut cluster));
    say_slow(&mut cluster, 1, 0, 0);
    say_slow(&mut cluster, 2, 0, 0);
    assert!(!health(&mut cluster).contains("SLOW_OPS"));
}

#[test]
fn only_osds_that_are_up_are_counted_and_none_has_facts_before_it_was() {
    let mut cluster = Cluster::with_rbd();
    assert_eq!(cluster.json(r#"{"prefix":"osd versions"}"#), json!({"unknown": 3}), "they do not say");
    cluster.ok(r#"{"prefix":"osd set","key":"noup"}"#);
    cluster.ok(r#"{"prefix":"osd down","ids":["1"]}"#);
    cluster.ok(r#"{"prefix":"osd create"}"#);
    assert_eq!(cluster.json(r#"{"prefix":"osd versions"}"#), json!({"unknown": 2}));
    assert_eq!(cluster.json(r#"{"prefix":"versions"}"#)["osd"], json!({"unknown": 2}));
    let hosts = cluster.json(r#"{"prefix":"osd count-metadata","property":"hostname"}"#);
    assert_eq!(hosts, json!({"vm": 2}));
    assert_eq!(cluster.json(r#"{"prefix":"osd metadata","id":"1"}"#)["hostname"], "vm");
    assert_eq!(cluster.refused(r#"{"prefix":"osd metadata","id":"3"}"#).0, -2);
    assert_eq!(cluster.json(r#"{"prefix":"osd metadata"}"#)[3], json!({"id": 3}));
}
