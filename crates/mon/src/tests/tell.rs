//! `ceph tell mon.X`: what every daemon of Ceph has.

use std::time::Duration;

use codec::Decode;
use messages::{MCommand, Message, PgMap};
use serde_json::{Value, json};

use super::cluster::{ADMIN, Cluster, boot_message};

/// The output of a command that must succeed.
fn told(cluster: &mut Cluster, json: &str) -> String {
    let tid = cluster.say(ADMIN, MCommand { cmd: vec![json.to_owned()], ..MCommand::default() });
    let reply = cluster.sent.iter().find_map(|(_, t, message)| match message {
        Message::MCommandReply(reply) if *t == tid => Some(reply.clone()),
        _ => None,
    });
    let reply = reply.unwrap_or_else(|| panic!("no answer to {json}"));
    assert_eq!(reply.result, 0, "{json}: {}", reply.status);
    String::from_utf8(reply.output.to_vec()).unwrap()
}

fn told_json(cluster: &mut Cluster, json: &str) -> Value {
    serde_json::from_str(&told(cluster, json)).unwrap()
}

#[test]
fn a_monitor_tells_what_every_daemon_tells() {
    let mut cluster = Cluster::with_rbd();
    let mut tell = |prefix: &str| told(&mut cluster, &json!({"prefix": prefix}).to_string());
    assert_eq!(tell("0"), "2");
    assert_eq!(tell("1"), tell("perf dump"));
    assert_eq!(tell("perfcounters_schema"), tell("perf schema"));
    assert_eq!(tell("compact"), "compacted redb in 0 seconds\n");
    assert_eq!(tell("connection scores reset"), "");
    let mut tell = |prefix: &str| told_json(&mut cluster, &json!({"prefix": prefix}).to_string());
    assert_eq!(tell("git_version"), json!({"git_version": "no_version"}));
    assert_eq!(tell("smart"), json!({}));
    assert_eq!(tell("perf histogram dump"), json!({"cluster": {}, "mon": {}}));
    let scores = tell("connection scores dump");
    assert_eq!((&scores["half_life"], &scores["persist_interval"]), (&json!(43_200), &json!(10)));
    assert_eq!(scores["reports"]["report"]["peer_scores"], json!({}));
    let pools = tell("dump_mempools");
    assert!(pools["mempool"]["by_pool"]["osdmap"]["bytes"].as_u64() > Some(500), "{pools}");
    assert_eq!(pools["mempool"]["by_pool"]["pgmap"]["items"], 8);
    let hint = told(&mut cluster, r#"{"prefix":"add_bootstrap_peer_hintv","addrv":"x"}"#);
    assert_eq!(hint, "mon already active; ignoring bootstrap hint\n");
}

/// Tools read the release of a cluster from any of these.
#[test]
fn a_cluster_has_the_same_version_everywhere() {
    let mut cluster = Cluster::with_rbd();
    let line = types::daemon_version_line("no_version");
    assert_eq!(cluster.json(r#"{"prefix":"version"}"#)["version"], line.as_str());
    for osd in 0..3 {
        cluster.ok(&format!(r#"{{"prefix":"osd down","ids":["{osd}"]}}"#));
        let mut boot = boot_message(osd, cluster.map().epoch);
        boot.metadata.insert("ceph_version".to_owned(), line.clone());
        cluster.say(Cluster::osd_conn(osd), boot);
    }
    let versions = cluster.json(r#"{"prefix":"versions"}"#);
    assert_eq!(
        versions["overall"],
        json!({line.as_str(): 5}),
        "a monitor, its manager's part and three OSDs"
    );
    for prefix in ["mon metadata", "mgr metadata"] {
        let facts = cluster.json(&json!({"prefix": prefix}).to_string());
        assert_eq!(facts[0]["ceph_version"], line.as_str());
        assert_eq!(facts[0]["ceph_version_short"], types::DAEMON_VERSION);
    }
    assert_eq!(told_json(&mut cluster, r#"{"prefix":"version"}"#)["version"], types::DAEMON_VERSION);
}

#[test]
fn whoever_runs_the_monitor_is_told_of_other_options() {
    let mut cluster = Cluster::with_rbd();
    let level = |cluster: &Cluster| cluster.mon.option("debug_mon").unwrap();
    let before = cluster.options_changed;
    assert_eq!((before > 0, level(&cluster)), (true, "1/5".to_owned()), "as it boots");
    cluster.ok(r#"{"prefix":"config set","who":"mon","name":"debug_mon","value":"10"}"#);
    assert_eq!((cluster.options_changed, level(&cluster)), (before + 1, "10/10".to_owned()));
    let set = told_json(&mut cluster, r#"{"prefix":"config set","var":"debug_mon","val":["20"]}"#);
    assert_eq!(set["success"], "debug_mon = '20/20' ");
    assert_eq!((cluster.options_changed, level(&cluster)), (before + 2, "20/20".to_owned()));
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert_eq!(cluster.options_changed, before + 2);
}

#[test]
fn requests_are_remembered_by_how_long_they_took() {
    let mut cluster = Cluster::with_rbd();
    let set = r#"{"prefix":"osd set","key":"noout"}"#;
    cluster.is_committing = false;
    assert_eq!(cluster.try_command(ADMIN, set, b""), None);
    cluster.now = cluster.now + Duration::from_millis(1_500);
    let waiting = told_json(&mut cluster, r#"{"prefix":"ops"}"#);
    assert_eq!((&waiting["num_ops"], &waiting["ops"][0]["duration"]), (&json!(1), &json!(1.5)));
    cluster.is_committing = true;
    cluster.commit();
    assert_eq!(told_json(&mut cluster, r#"{"prefix":"ops"}"#)["num_ops"], 0);
    let recent = told_json(&mut cluster, r#"{"prefix":"dump_historic_ops"}"#);
    let find = |all: &Value| {
        let ops = all.as_array().unwrap().iter().cloned();
        ops.filter(|op| op["description"] == format!("mon_command({set} v 0)")).collect::<Vec<_>>()
    };
    let found = find(&recent["ops"]);
    assert_eq!((&recent["size"], &found[0]["duration"]), (&json!(20), &json!(1.5)));
    assert!(recent["ops"].as_array().unwrap().len() <= 20);
    // One that takes longer than the threshold is remembered apart.
    cluster.is_committing = false;
    assert_eq!(cluster.try_command(ADMIN, &set.replace("set", "unset"), b""), None);
    cluster.now = cluster.now + Duration::from_secs(11);
    cluster.is_committing = true;
    cluster.commit();
    let slow = told_json(&mut cluster, r#"{"prefix":"dump_historic_slow_ops"}"#);
    assert_eq!((&slow["threshold to keep"], slow["Ops"].as_array().unwrap().len()), (&json!(10), 1));
    assert_eq!(slow["Ops"][0]["duration"], 11.0);
    // The others are forgotten in time.
    cluster.now = cluster.now + Duration::from_secs(601);
    let recent = told_json(&mut cluster, r#"{"prefix":"dump_historic_ops"}"#);
    assert!(find(&recent["ops"]).is_empty());
}

#[test]
fn what_keys_and_options_are_set_to_is_not_remembered() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"config-key set","key":"k","val":"secret"}"#);
    cluster.ok(r#"{"prefix":"config set","who":"mon","name":"mon_op_history_size","value":"27"}"#);
    let recent = told_json(&mut cluster, r#"{"prefix":"dump_historic_ops"}"#);
    let ops = recent["ops"].as_array().unwrap().iter();
    let shown: Vec<&str> = ops.filter_map(|op| op["description"].as_str()).collect();
    assert!(shown.contains(&"mon_command([{prefix=config-key set, key=k}] v 0)"), "{shown:?}");
    assert!(shown.contains(&"mon_command([{prefix=config set, name=mon_op_history_size}] v 0)"), "{shown:?}");
}

#[test]
fn the_map_of_pgs_is_one_that_ceph_reads() {
    let mut cluster = Cluster::with_rbd();
    let ack = cluster.command(r#"{"prefix":"pg getmap"}"#);
    let map = PgMap::from_bytes(ack.output).unwrap();
    assert_eq!((ack.result, ack.status), (0, format!("got pgmap version {}", map.version)));
    assert_eq!((map.pgs.len(), map.osds.len(), map.pools.len()), (8, 3, 3));
    let dump = cluster.json(r#"{"prefix":"pg dump","dumpcontents":["pgs"],"format":"json"}"#);
    let (pgid, stat) = map.pgs.first_key_value().unwrap();
    let shown = &dump["pg_stats"][0];
    assert_eq!(shown["pgid"], pgid.to_string());
    assert_eq!(shown["reported_seq"], stat.reported_seq);
    assert_eq!(shown["stat_sum"]["num_objects"], stat.stats.sum.num_objects);
}
