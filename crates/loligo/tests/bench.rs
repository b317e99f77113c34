//! `loligo bench` does what it says on a real cluster, and leaves no object behind.

#![allow(clippy::unwrap_used, reason = "a test fails where it fails")]

mod cluster;

use cluster::{Cluster, LOLIGO};

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
        }
    }
    assert_eq!(c.sh("rados -p loligo-bench ls").out, "");
    let table = c.sh(&format!("{LOLIGO} bench --depth 4 --seconds 1 --objects 2")).out;
    assert!(table.contains("p99.9 us"), "{table}");
    let refused = c.run(&format!("{LOLIGO} bench --client nobody"));
    assert!(refused.code != 0 && refused.err.contains("the keyring has no client.nobody"), "{}", refused.err);
}
