//! Every key of Ceph's JSON is in ours, with the same type. The documents in `testdata/json` were
//! recorded on a Ceph 16.2.15 cluster.

use std::{path::PathBuf, time::Duration};

use serde_json::Value;
use types::PgState;

use super::{cluster::Cluster, pg_stats::report};

/// Keys whose names are data, or which stand for parts that do not exist here.
const SKIPPED: &[&str] = &[
    "checks",
    "/options",
    "application_metadata",
    "mgr_dump/services",
    "available_modules",
    "always_on_modules",
    "active_clients",
    "network_ping_times",
    "mon/ceph",
    "stats_by_class",
    "metadata",
    "choose_args",
    "blocklist",
    "erasure_code_profiles",
    "standbys",
    "hb_peers",
    "container",
    "features/mgr",
];

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn compare(path: &str, theirs: &Value, ours: &Value, missing: &mut Vec<String>) {
    if SKIPPED.iter().any(|s| path.contains(s)) {
        return;
    }
    if kind(theirs) != kind(ours) {
        missing.push(format!("{path}: {} instead of {}", kind(ours), kind(theirs)));
        return;
    }
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                let path = format!("{path}/{key}");
                match ours.get(key) {
                    Some(found) => compare(&path, value, found, missing),
                    None if SKIPPED.iter().any(|s| path.contains(s)) => {}
                    None => missing.push(path),
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            if let (Some(theirs), Some(ours)) = (theirs.first(), ours.first()) {
                compare(path, theirs, ours, missing);
            }
        }
        _ => {}
    }
}

#[test]
fn every_key_of_ceph_is_there() {
    let cases = [
        ("auth_ls", r#"{"prefix":"auth ls"}"#),
        ("config_dump", r#"{"prefix":"config dump"}"#),
        ("df", r#"{"prefix":"df"}"#),
        ("df_detail", r#"{"prefix":"df","detail":"detail"}"#),
        ("features", r#"{"prefix":"features"}"#),
        ("fsid", r#"{"prefix":"fsid"}"#),
        ("health", r#"{"prefix":"health"}"#),
        ("mgr_dump", r#"{"prefix":"mgr dump"}"#),
        ("mgr_stat", r#"{"prefix":"mgr stat"}"#),
        ("mon_dump", r#"{"prefix":"mon dump"}"#),
        ("osd_blocklist_ls", r#"{"prefix":"osd blocklist ls"}"#),
        ("osd_crush_dump", r#"{"prefix":"osd crush dump"}"#),
        ("osd_crush_rule_dump", r#"{"prefix":"osd crush rule dump"}"#),
        ("osd_df", r#"{"prefix":"osd df"}"#),
        ("osd_dump", r#"{"prefix":"osd dump"}"#),
        ("osd_find_0", r#"{"prefix":"osd find","id":0}"#),
        ("osd_lspools", r#"{"prefix":"osd lspools"}"#),
        ("osd_map_rbd_foo", r#"{"prefix":"osd map","pool":"rbd","object":"foo"}"#),
        ("osd_perf", r#"{"prefix":"osd perf"}"#),
        ("osd_pool_get_rbd_all", r#"{"prefix":"osd pool get","pool":"rbd","var":"all"}"#),
        ("osd_pool_ls_detail", r#"{"prefix":"osd pool ls","detail":"detail"}"#),
        ("osd_pool_stats", r#"{"prefix":"osd pool stats"}"#),
        ("osd_stat", r#"{"prefix":"osd stat"}"#),
        ("osd_tree", r#"{"prefix":"osd tree"}"#),
        ("pg_dump", r#"{"prefix":"pg dump"}"#),
        ("pg_stat", r#"{"prefix":"pg stat"}"#),
        ("quorum_status", r#"{"prefix":"quorum_status"}"#),
        ("status", r#"{"prefix":"status"}"#),
    ];
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"config set","who":"client","name":"rbd_cache","value":"false"}"#);
    cluster.ok(r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"127.0.0.1:0/1"}"#);
    // When they were recorded, clients read, and some PGs were peering.
    report(&mut cluster, 0, 0, 1, 0);
    report(&mut cluster, 0, 0, 1, 900);
    cluster.pass(Duration::from_secs(2));
    cluster.mon.stats.pgs_mut().take(1).for_each(|stat| stat.state = PgState::PEERING);
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/json");
    let mut missing = Vec::new();
    for (file, command) in cases {
        let text = std::fs::read_to_string(folder.join(format!("{file}.json"))).unwrap();
        // Some recordings hold a second document that the tool printed behind the first.
        let theirs: Value = serde_json::Deserializer::from_str(&text).into_iter().next().unwrap().unwrap();
        compare(file, &theirs, &cluster.json(command), &mut missing);
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
