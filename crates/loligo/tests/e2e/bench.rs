//! `loligo bench` does what it says on a real cluster, and leaves no object behind.

use crate::cluster::{Cluster, LOLIGO};

#[test]
fn the_load_generator_measures_and_cleans_up() {
    let c = Cluster::start();
    for (workload, block) in [("randwrite", "4K"), ("randread", "4K"), ("write", "1M"), ("read", "1M")] {
        let out = c.sh(&format!(
            "{LOLIGO} bench --rw {workload} --bs {block} --depth 1,8 --seconds 1 --objects 4 --json"
        ));
        let report: serde_json::Value = serde_json::from_str(&out.out).unwrap();
        let rounds = report["rounds"].as_array().unwrap();
        assert_eq!(rounds.iter().map(|r| r["depth"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 8]);
        for round in rounds {
            assert!(round["iops"].as_f64().unwrap() > 0.0, "{report}");
            assert!(round["p99_us"].as_f64() >= round["p50_us"].as_f64(), "{report}");
            assert!(round["osd_cpu_us"].as_f64().is_some(), "the OSDs' pid files are found: {report}");
            assert!(round["machine_cpu_sec"].as_f64() > Some(0.0), "{report}");
        }
    }
    assert_eq!(c.sh("rados -p loligo-bench ls").out, "");
    let table = c.sh(&format!("{LOLIGO} bench --depth 4 --seconds 1 --objects 2 --warm-up 1M")).out;
    assert!(table.contains("p99.9 us"), "{table}");
    let out = c.sh(&format!("{LOLIGO} bench --depth 64 --rate 100 --seconds 2 --objects 2 --json"));
    let report: serde_json::Value = serde_json::from_str(&out.out).unwrap();
    let begun = report["rounds"][0]["requests"].as_u64().unwrap();
    assert!((140..260).contains(&begun), "four standard deviations off 200: {report}");
    let refused = c.run(&format!("{LOLIGO} bench --client nobody"));
    assert!(refused.code != 0 && refused.err.contains("the keyring has no client.nobody"), "{}", refused.err);
    let refused = c.run(&format!("{LOLIGO} bench --depth 4,0"));
    assert!(refused.code != 0 && refused.err.contains("--depth"), "{}", refused.err);
}

#[test]
fn objects_go_when_the_load_generator_is_ended_or_told_to() {
    let c = Cluster::start();
    let until_there = |count: u32| {
        format!("until [ \"$(rados -p loligo-bench ls 2>/dev/null | wc -l)\" = {count} ]; do sleep 0.2; done")
    };
    let ended = c.run(&format!(
        "{LOLIGO} bench --depth 1 --seconds 90 --objects 2 & {}; kill -TERM $!; wait $!",
        until_there(2)
    ));
    assert!(ended.code != 0 && ended.err.contains("interrupted"), "{}", ended.err);
    assert_eq!(c.sh("rados -p loligo-bench ls").out, "");
    let out = c.sh(&format!(
        "(echo; {}; sleep 3; rados -p loligo-bench ls | wc -l >&2; echo) |
         {LOLIGO} bench --in-step --json --depth 4 --seconds 1 --objects 3",
        until_there(3)
    ));
    let report: serde_json::Value = serde_json::from_str(out.out.strip_prefix("ready\n").unwrap()).unwrap();
    let round = &report["rounds"][0];
    assert!(round["requests_in_time"].as_u64() > Some(0), "{report}");
    assert!(round["requests_in_time"].as_u64() <= round["requests"].as_u64(), "{report}");
    assert_eq!(out.err.trim(), "3", "they stay until the second line");
    assert_eq!(c.sh("rados -p loligo-bench ls").out, "");
}
