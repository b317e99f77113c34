//! What operators are told when they name something that does not exist, or say only half of it; expectations are
//! Ceph's of 16.2 and 18.2.

use std::time::Duration;

use messages::MPGStats;
use serde_json::{Value, json};
use types::{EntityAddr, EntityName, GlobalId, PgId, PgStat, PgState, PgTimes, PoolId, UTime};

use super::cluster::{ADMIN, Cluster};
use crate::{ConnId, Event, Peer};

#[test]
fn a_pg_is_stuck_after_a_while() {
    let mut cluster = Cluster::with_rbd();
    let pgid = PgId::new(PoolId(1), 0);
    let osd = cluster.map().pg_to_up_acting(pgid).acting_primary;
    let (epoch, wall) = (cluster.map().epoch, cluster.wall());
    let state = PgState::PEERING.with(PgState::DEGRADED);
    let (reported_epoch, reported_seq) = (epoch, cluster.now.0);
    let pg = PgStat { pgid, state, reported_epoch, reported_seq, acting_primary: osd, ..PgStat::default() };
    let times = PgTimes::at(wall);
    let pg = PgStat { last_active: wall, last_clean: wall, last_fresh: wall, times, ..pg };
    cluster.say(Cluster::osd_conn(osd.0), MPGStats { osd, epoch, pgs: vec![pg], ..MPGStats::default() });
    let stuck = |cluster: &mut Cluster, rest: &str| {
        let all = cluster.json(&format!(r#"{{"prefix":"pg dump_stuck"{rest}}}"#));
        all["stuck_pg_stats"].as_array().unwrap().len()
    };
    cluster.pass(Duration::from_secs(30));
    let detail = r#"{"prefix":"health","detail":"detail"}"#;
    let health = cluster.text(detail);
    assert!(!health.contains("PG_AVAILABILITY") && health.contains("1 pg degraded"), "{health}");
    assert_eq!(
        (stuck(&mut cluster, ""), stuck(&mut cluster, r#","stuckops":["inactive","degraded"]"#)),
        (0, 0)
    );
    assert_eq!(stuck(&mut cluster, r#","stuckops":["inactive"],"threshold":20"#), 1);
    let threshold = r#""who":"mon","name":"mon_pg_stuck_threshold""#;
    cluster.ok(&format!(r#"{{"prefix":"config set",{threshold},"value":"20"}}"#));
    let health = cluster.text(detail);
    for text in [
        "[WRN] PG_AVAILABILITY: Reduced data availability: 1 pg inactive, 1 pg peering\n    pg 1.0 is stuck peering for 30s, current state degraded+peering, last acting [",
        "[WRN] PG_DEGRADED: Degraded data redundancy: 1 pg degraded\n    pg 1.0 is degraded+peering, acting [",
    ] {
        assert!(health.contains(text), "{health}");
    }
    cluster.ok(&format!(r#"{{"prefix":"config rm",{threshold}}}"#));
    // Another primary knows of older times alone.
    let (times, last) = (PgTimes::at(UTime::default()), UTime::default());
    let reported_seq = cluster.now.0;
    let other =
        PgStat { pgid, state, reported_epoch, reported_seq, last_active: last, times, ..PgStat::default() };
    let report = MPGStats { osd, epoch, pgs: vec![other], ..MPGStats::default() };
    cluster.say(Cluster::osd_conn(osd.0), report);
    assert_eq!(stuck(&mut cluster, r#","stuckops":["inactive"]"#), 0);
    cluster.pass(Duration::from_secs(31));
    assert_eq!((stuck(&mut cluster, ""), stuck(&mut cluster, r#","stuckops":["inactive"]"#)), (1, 1));
    assert_eq!(
        (
            stuck(&mut cluster, r#","stuckops":["degraded"]"#),
            stuck(&mut cluster, r#","stuckops":["undersized"]"#)
        ),
        (1, 0)
    );
}

#[test]
fn refusals_come_in_cephs_order() {
    let mut cluster = Cluster::with_rbd();
    let cases = [
        (
            r#"{"prefix":"osd pg-upmap-items","pgid":"1.0","id":[7]}"#,
            -22,
            "you must specify pairs of osd ids to be remapped",
        ),
        (r#"{"prefix":"osd crush move","name":"none","args":["bogus"]}"#, -2, "item none does not exist"),
        (
            r#"{"prefix":"osd crush reweight-subtree","name":"osd.0","weight":1}"#,
            -22,
            "device 'osd.0' is not a subtree in the crush map",
        ),
        (
            r#"{"prefix":"osd crush create-or-move","id":7,"weight":1,"args":["root=default"]}"#,
            -2,
            "osd.7 does not exist.  create it before updating the crush map",
        ),
        (
            r#"{"prefix":"osd crush rename-bucket","srcname":"r2","dstname":"r3"}"#,
            -2,
            "srcname = 'r2' does not exist",
        ),
        (
            r#"{"prefix":"osd crush rename-bucket","srcname":"default","dstname":"osd.0"}"#,
            -17,
            "dstname = 'osd.0' already exists",
        ),
        (r#"{"prefix":"osd crush rm","name":"default"}"#, -39, "(39) Directory not empty"),
        (
            r#"{"prefix":"auth caps","entity":"client.none","caps":["osd"]}"#,
            -22,
            "bad capabilities request; odd number of arguments",
        ),
        (r#"{"prefix":"osd crush get-device-class","ids":["x"]}"#, -22, "unable to parse osd id:'x'"),
        (r#"{"prefix":"osd create","uuid":"x"}"#, -22, "invalid uuid value 'x'"),
        (
            r#"{"prefix":"auth caps","entity":"client.none","caps":["osd","allow bogus"]}"#,
            -2,
            "couldn't find entry client.none",
        ),
        (
            r#"{"prefix":"osd pool set-quota","pool":"rbd","field":"max_bytes","val":"-1"}"#,
            -22,
            "error parsing value '-1': strict_iecstrtoll: value should not be negative",
        ),
        (
            r#"{"prefix":"osd pool set-quota","pool":"rbd","field":"max_objects","val":"1X"}"#,
            -22,
            "error parsing value '1X': strict_sistrtoll: unit prefix not recognized",
        ),
        (
            r#"{"prefix":"osd pool set","pool":"rbd","var":"compression_required_ratio","val":"1.1"}"#,
            -22,
            "compression_required_ratio is out of range (0-1): '1.1'",
        ),
        (r#"{"prefix":"osd ls","epoch":0}"#, -2, "there is no map for epoch 0"),
        (
            r#"{"prefix":"osd df","filter":"nothing"}"#,
            -22,
            "'nothing' not a pool, crush node or device class name",
        ),
    ];
    for (command, result, status) in cases {
        assert_eq!(cluster.refused(command), (result, status.to_owned()), "{command}");
    }
    let refused = cluster.refused(r#"{"prefix":"osd lost","id":7}"#);
    assert_eq!(refused.0, -1, "whether it is meant comes before whether it is there");
}

#[test]
fn health_is_muted_for_a_while_that_is_one() {
    let mut cluster = Cluster::with_rbd();
    let mute =
        |ttl: &str| format!(r#"{{"prefix":"health mute","code":"OSD_DOWN","ttl":"{ttl}","sticky":true}}"#);
    for (ttl, why) in [("x", "expected digit"), ("0s", "timespan = 0"), ("5 apples", "unrecognized unit")] {
        let expected = format!("invalid duration: {ttl} ({why})");
        assert_eq!(cluster.refused(&mute(ttl)), (-22, expected));
    }
    for ttl in ["30", "1h 30m", "2 weeks", "1day"] {
        cluster.ok(&mute(ttl));
    }
    let refused = cluster.refused(r#"{"prefix":"health mute","code":"OSD_DOWN","ttl":"1h"}"#);
    assert_eq!(refused, (-2, "health alert OSD_DOWN is not currently raised".to_owned()));
}

#[test]
fn what_is_not_there_has_nothing_in_it() {
    let mut cluster = Cluster::with_rbd();
    assert_eq!(cluster.json(r#"{"prefix":"osd crush class ls-osd","class":"none"}"#), json!([]));
    assert_eq!(cluster.text(r#"{"prefix":"osd crush get-device-class","ids":["0"]}"#).lines().count(), 1);
    let several = cluster.text(r#"{"prefix":"osd crush get-device-class","ids":["7","0"]}"#);
    let names: Vec<&str> = several.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["osd.0", "osd.7"]);
    let all = cluster.text(r#"{"prefix":"osd pool stats"}"#);
    assert_eq!(cluster.text(r#"{"prefix":"osd pool stats","pool_name":""}"#), all);
    assert!(cluster.json(r#"{"prefix":"osd pool application get","pool":""}"#).get("rbd").is_some());
    let again = cluster.ok(r#"{"prefix":"osd pool rename","srcpool":"gone","destpool":"rbd"}"#);
    assert_eq!(again, "pool 'gone' does not exist; pool 'rbd' does -- assuming successful rename");
    // A module's own way to fail.
    cluster.ok(r#"{"prefix":"osd set","key":"noup"}"#);
    cluster.ok(r#"{"prefix":"osd down","ids":["1"]}"#);
    cluster.ok(r#"{"prefix":"osd destroy","id":"1","yes_i_really_mean_it":true}"#);
    let shown = cluster.json(r#"{"prefix":"osd status"}"#);
    assert_eq!(shown["OSDs"][1]["state"], json!(["destroyed", "exists"]));
    assert_eq!(
        (&shown["OSDs"][0]["kb used"], &shown["OSDs"][0]["host name"]),
        (&json!(1u64 << 30), &json!("vm"))
    );
    assert!(cluster.text(r#"{"prefix":"osd status"}"#).contains("destroyed,exists"));
    let unknown = cluster.try_command(ADMIN, r#"{"prefix":"osd status","bucket":"none"}"#, b"").unwrap();
    assert_eq!((unknown.result, &unknown.output[..]), (2, &b"Bucket 'none' not found\n"[..]));
}

#[test]
fn every_command_on_the_configuration_is_a_version() {
    let mut cluster = Cluster::new();
    let set = r#"{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"2"}"#;
    let newest = |cluster: &mut Cluster| {
        let log = cluster.json(r#"{"prefix":"config log"}"#);
        log[0]["version"].as_u64().unwrap()
    };
    cluster.ok(set);
    let first = newest(&mut cluster);
    cluster.ok(set);
    cluster.ok(r#"{"prefix":"config rm","who":"osd","name":"osd_max_scrubs"}"#);
    assert_eq!(newest(&mut cluster), first + 2);
    cluster.ok(&format!(r#"{{"prefix":"config reset","num":{}}}"#, first + 2));
    assert_eq!(newest(&mut cluster), first + 2, "that is what it is");
    cluster.ok(&format!(r#"{{"prefix":"config reset","num":{}}}"#, first - 1));
    assert_eq!(newest(&mut cluster), first + 3);
    assert_eq!(cluster.json(r#"{"prefix":"config dump"}"#), json!([]));
}

#[test]
fn what_holds_osds_back_is_told_with_their_number() {
    let mut cluster = Cluster::with_rbd();
    assert_eq!(cluster.text(r#"{"prefix":"osd stat"}"#).lines().count(), 1);
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert!(cluster.text(r#"{"prefix":"osd stat"}"#).ends_with("\nflags noout\n"));
    assert!(cluster.text(r#"{"prefix":"status"}"#).contains("\n         flags noout\n"));
}

#[test]
fn words_that_are_no_place_end_a_location() {
    let mut cluster = Cluster::with_rbd();
    let add = |name: &str, args: &str| {
        format!(r#"{{"prefix":"osd crush add-bucket","name":"{name}","type":"host","args":[{args}]}}"#)
    };
    assert_eq!(cluster.ok(&add("h1", r#""bogus""#)), "added bucket h1 type host to crush map");
    let placed = cluster.ok(&add("h2", r#""root=default","bogus""#));
    assert_eq!(placed, "added bucket h2 type host to location {root=default}");
    for command in ["osd crush add", "osd crush create-or-move"] {
        let refused =
            cluster.refused(&format!(r#"{{"prefix":"{command}","id":0,"weight":1,"args":["bogus"]}}"#));
        assert_eq!(refused.0, -22, "{command}");
    }
}

fn ids(listing: &Value, part: &str) -> Vec<i64> {
    listing[part].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
}

#[test]
fn osd_df_is_filtered_by_whatever_has_that_name() {
    let mut cluster = Cluster::with_rbd();
    let df = |cluster: &mut Cluster, filter: &str, method: &str| {
        cluster.json(&format!(r#"{{"prefix":"osd df","output_method":"{method}","filter":"{filter}"}}"#))
    };
    assert_eq!(ids(&df(&mut cluster, "osd.1", "plain"), "nodes"), [1]);
    assert_eq!(ids(&df(&mut cluster, "default", "plain"), "nodes"), [0, 1, 2]);
    assert_eq!(ids(&df(&mut cluster, "rbd", "plain"), "nodes"), [0, 1, 2], "what the pool's rule takes");
    cluster.ok(r#"{"prefix":"osd crush rm-device-class","ids":["2"]}"#);
    cluster.ok(r#"{"prefix":"osd crush set-device-class","class":"fast","ids":["2"]}"#);
    assert_eq!(ids(&df(&mut cluster, "fast", "plain"), "nodes"), [2]);
    cluster.ok(r#"{"prefix":"osd crush rm","name":"osd.1"}"#);
    cluster.ok(r#"{"prefix":"osd crush add-bucket","name":"empty","type":"host"}"#);
    let tree = df(&mut cluster, "", "tree");
    assert_eq!(ids(&tree, "stray"), [1], "in no bucket");
    let names: Vec<&Value> = tree["nodes"].as_array().unwrap().iter().map(|node| &node["name"]).collect();
    assert!(names.contains(&&json!("empty")), "with nothing in it");
}

/// Observed with 16.2.15.
#[test]
fn what_no_bucket_of_a_weight_set_holds_is_told_bucket_by_bucket() {
    let mut cluster = Cluster::with_rbd();
    let reweight = |item: &str, weights: &str| {
        format!(r#"{{"prefix":"osd crush weight-set reweight-compat","item":"{item}","weight":[{weights}]}}"#)
    };
    cluster.ok(r#"{"prefix":"osd crush weight-set create-compat"}"#);
    let missing = (-2, "item -1 not found in crush map".to_owned());
    assert_eq!(cluster.refused(&reweight("default", "2")), missing);
    let (result, status) = cluster.refused(&reweight("osd.0", "2, 3"));
    assert_eq!(result, -2);
    assert!(
        status.starts_with("weight_set_positions != 2 for bucket -1weight_set_positions != 2 for bucket -2")
    );
    assert!(status.ends_with("item 0 not found in crush map"), "{status}");
    cluster.ok(r#"{"prefix":"osd crush add-bucket","name":"rack1","type":"rack"}"#);
    cluster.ok(&reweight("default", "2"));
    assert_eq!(cluster.refused(&reweight("default", "2")), missing);
}

#[test]
fn a_weight_set_goes_with_its_pool() {
    let mut cluster = Cluster::with_rbd();
    cluster.allow_pool_delete();
    cluster.ok(r#"{"prefix":"osd crush weight-set create-compat"}"#);
    cluster.ok(r#"{"prefix":"osd crush weight-set create","pool":"rbd","mode":"flat"}"#);
    let sets = |cluster: &Cluster| cluster.map().crush.map().choose_args.keys().copied().collect::<Vec<_>>();
    assert_eq!(sets(&cluster), [-1, 1]);
    let epoch = cluster.map().epoch;
    cluster.ok(r#"{"prefix":"osd pool rm","pool":"rbd","pool2":"rbd","yes_i_really_really_mean_it":true}"#);
    assert_eq!((sets(&cluster), cluster.map().epoch), (vec![-1], epoch.next()));
}

#[test]
fn weights_of_weight_sets_are_shown() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd crush weight-set create-compat"}"#);
    cluster.ok(r#"{"prefix":"osd crush weight-set reweight-compat","item":"osd.0","weight":[0.25]}"#);
    let dump = cluster.json(r#"{"prefix":"osd crush dump"}"#);
    let sets = cluster.json(r#"{"prefix":"osd crush weight-set dump"}"#);
    assert!(sets["-1"].as_array().is_some_and(|buckets| !buckets.is_empty()));
    assert_eq!(dump["choose_args"], sets);
    let tree = cluster.json(r#"{"prefix":"osd tree"}"#);
    let nodes = tree["nodes"].as_array().unwrap();
    let osd = nodes.iter().find(|node| node["id"] == 0).unwrap();
    assert_eq!(osd["pool_weights"], json!({"(compat)": [0.25]}));
    let table = cluster.text(r#"{"prefix":"osd crush tree"}"#);
    let columns: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(columns, ["ID", "CLASS", "WEIGHT", "(compat)", "TYPE", "NAME"]);
    assert!(table.lines().any(|line| line.contains(" 0.25000 ") && line.contains("osd.0")), "{table}");
    let shadows = cluster.json(r#"{"prefix":"osd crush tree","show_shadow":true}"#);
    let classes = shadows["nodes"].as_array().unwrap().iter().filter(|node| node["id"].as_i64() < Some(0));
    assert!(classes.clone().any(|node| node.get("device_class").is_some()), "shadow buckets have one");
}

#[test]
fn features_that_clients_lack_are_not_required_by_mistake() {
    let mut cluster = Cluster::with_rbd();
    let old = |name: &str, features: u64| Peer {
        name: EntityName::parse(name).unwrap(),
        global_id: GlobalId(4099),
        addr: EntityAddr::parse("127.0.0.1:0/9").unwrap(),
        ip: [127, 0, 0, 1].into(),
        features,
    };
    // What kernels of 4.13 announce; and an OSD, which is not asked.
    for (conn, name) in [(70, "client.admin"), (71, "client.x"), (72, "osd.7")] {
        cluster.event(Event::ConnOpened(ConnId(conn), Box::new(old(name, 0x2701_8fb8_6aa4_2ada))));
    }
    let set = r#"{"prefix":"osd set-require-min-compat-client","version":"luminous"}"#;
    let why = "cannot set require_min_compat_client to luminous: 2 connected client(s) look like jewel \
               (missing 0x800000000000000); add --yes-i-really-mean-it to do it anyway";
    assert_eq!(cluster.refused(set), (-1, why.to_owned()));
    cluster.ok(r#"{"prefix":"osd set-require-min-compat-client","version":"jewel"}"#);
    cluster.ok(&set.replacen('}', r#","yes_i_really_mean_it":true}"#, 1));
}

#[test]
fn what_is_not_there_is_refused_in_the_same_words() {
    let mut cluster = Cluster::with_rbd();
    for command in ["osd find", "osd lost", "osd reweight", "osd metadata", "osd destroy", "osd crush set"] {
        let rest = r#""weight":"1","args":["root=default"],"yes_i_really_mean_it":true"#;
        let ask = |id: &str| format!(r#"{{"prefix":"{command}","id":"{id}",{rest}}}"#);
        assert_eq!(cluster.refused(&ask("x")), (-22, "osd id x is invalid".to_owned()), "{command}");
        if !matches!(command, "osd destroy" | "osd crush set") {
            assert_eq!(cluster.refused(&ask("7")), (-2, "osd.7 does not exist".to_owned()), "{command}");
        }
    }
    for (command, argument) in [
        ("osd pool get", r#""pool":"no""#),
        ("osd pool stats", r#""pool_name":"no""#),
        ("osd pool scrub", r#""who":["no"]"#),
        ("osd pool force-recovery", r#""who":["no"]"#),
        ("osd pool rename", r#""srcpool":"no","destpool":"none""#),
        ("osd tier add", r#""pool":"no","tierpool":"rbd""#),
    ] {
        let command = format!(r#"{{"prefix":"{command}",{argument},"var":"size"}}"#);
        assert_eq!(cluster.refused(&command), (-2, "unrecognized pool 'no'".to_owned()), "{command}");
    }
}
