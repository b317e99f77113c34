//! Bits rot on the OSDs' devices: scrubs find it, clients list it, reads do not notice, a repair mends it. What
//! rots on all of them is unfound until an operator gives it up.

use std::{fs, os::unix::fs::FileExt, time::Duration};

use crate::cluster::{Cluster, LOLIGO, running::Running};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);

/// Inverts a bit of an object's copy on an OSD that does not run.
fn rot(c: &Cluster, osd: i64, object: &str) {
    let dump = c.run(&format!("{LOLIGO} store dump --id {osd} -c ceph.conf --format json --object {object}"));
    let doc: Value = serde_json::from_str(&dump.out).unwrap();
    let objects =
        doc["collections"].as_array().unwrap().iter().flat_map(|c| c["objects"].as_array().unwrap());
    let place = objects.into_iter().next().unwrap()["extents"][0]["device_offset"].as_u64().unwrap();
    let path = c.dir().join(format!("osd.{osd}/block"));
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, place + 17).unwrap();
    file.write_all_at(&[byte[0] ^ 4], place + 17).unwrap();
}

fn log(c: &Cluster) -> String {
    c.sh("ceph log last 1000 debug cluster").out
}

fn stamp(c: &Cluster, of: &str) -> String {
    c.json("ceph pg ls-by-pool p")["pg_stats"][0][of].as_str().unwrap().to_owned()
}

/// The lines of the log that tell how scrubs of the PG ended.
fn outcomes(c: &Cluster, kind: &str) -> Vec<String> {
    let of_kind = format!("2.0 {kind} ");
    let is_outcome =
        |line: &&str| line.contains(&of_kind) && (line.ends_with(" ok") || line.ends_with(" errors"));
    log(c).lines().filter(is_outcome).map(str::to_owned).collect()
}

/// Has the PG looked at, and waits for what the statistics and, later, the log say of it.
fn scrub(c: &Cluster, kind: &str, outcome: &str) {
    let (before, told_before) = (stamp(c, "last_scrub_stamp"), outcomes(c, kind).len());
    c.sh(&format!("ceph pg {kind} 2.0"));
    c.wait(kind, LIMIT, |c| stamp(c, "last_scrub_stamp") > before && outcomes(c, kind).len() > told_before);
    let told = outcomes(c, kind);
    assert!(told.last().is_some_and(|line| line.ends_with(outcome)), "{outcome}: {told:#?}");
}

fn inconsistent(c: &Cluster) -> Vec<Value> {
    c.json("rados list-inconsistent-obj 2.0")["inconsistents"].as_array().unwrap().clone()
}

#[test]
fn what_rots_is_found_listed_and_mended() {
    let mut c = Cluster::start();
    c.sh("ceph osd pool create p 1; ceph osd pool application enable p rados");
    for object in ["a", "b", "c"] {
        c.sh(&format!("head -c 300000 /dev/urandom > {object}; rados -p p put {object} {object}"));
        c.sh(&format!("rados -p p setxattr {object} color blue; rados -p p setomapval {object} k1 v1"));
    }
    c.sh("rados -p p mksnap s; rados -p p put c a");
    let acting = c.json("ceph pg map 2.0")["acting"].clone();
    let [primary, second, third] = [0, 1, 2].map(|at| acting[at].as_i64().unwrap());
    let none = c.run("rados list-inconsistent-obj 2.0");
    assert!(none.code != 0 && none.err.contains("No scrub information available for pg 2.0"), "{}", none.err);
    scrub(&c, "scrub", "ok");
    scrub(&c, "deep-scrub", "ok");
    assert_eq!(inconsistent(&c), Vec::<Value>::new());
    c.stop();
    rot(&c, primary, "a");
    rot(&c, second, "a");
    rot(&c, third, "b");
    c.up();
    c.wait_healthy();
    scrub(&c, "scrub", "ok");
    scrub(&c, "deep-scrub", "3 errors");
    assert!(log(&c).contains("2.0 deep-scrub 0 missing, 2 inconsistent objects"));
    let found = inconsistent(&c);
    let names: Vec<&str> = found.iter().map(|found| found["object"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
    for (found, bad) in found.iter().zip([[primary, second].to_vec(), vec![third]]) {
        assert_eq!(found["union_shard_errors"], json!(["read_error"]), "{found}");
        assert_eq!(found["selected_object_info"]["size"], 300_000, "{found}");
        for copy in found["shards"].as_array().unwrap() {
            let is_bad = bad.contains(&copy["osd"].as_i64().unwrap());
            let errors = if is_bad { json!(["read_error"]) } else { json!([]) };
            assert_eq!((&copy["errors"], copy["data_digest"].is_null()), (&errors, is_bad), "{found}");
            assert_eq!(copy["primary"].as_bool(), Some(copy["osd"] == primary), "{found}");
        }
    }
    assert_eq!(c.json("rados list-inconsistent-pg p"), json!(["2.0"]));
    assert_eq!(c.json("rados list-inconsistent-snapset 2.0")["inconsistents"], json!([]));
    c.wait("the health checks", LIMIT, |c| {
        let health = c.sh("ceph health detail").out;
        health.starts_with("HEALTH_ERR")
            && health.contains("[ERR] OSD_SCRUB_ERRORS: 3 scrub errors")
            && health.contains("[ERR] PG_DAMAGED: Possible data damage: 1 pg inconsistent")
            && health.contains("pg 2.0 is active+clean+inconsistent, acting [")
    });
    // A reader gets what was written, and the primary's copy a new block.
    c.sh("rados -p p get a - | cmp - a");
    c.wait("the primary's word", LIMIT, |c| {
        log(c).contains("2.0 missing primary copy of 2:18137794:::a:head, will try copies on ")
    });
    c.sh("ceph pg repair 2.0");
    c.wait("the repair", LIMIT, |c| c.sh("ceph health").out == "HEALTH_OK\n");
    scrub(&c, "deep-scrub", "ok");
    assert_eq!(inconsistent(&c), Vec::<Value>::new());
    c.stop();
    for osd in [primary, second, third] {
        let sound = c.run(&format!("{LOLIGO} store fsck --id {osd} -c ceph.conf --deep"));
        assert_eq!(sound.code, 0, "{} {}", sound.out, sound.err);
    }
}

#[test]
fn what_all_copies_have_lost_is_unfound_until_it_is_given_up() {
    let mut c = Cluster::start();
    c.sh("ceph osd pool create p 1; ceph osd pool application enable p rados");
    for object in ["a", "b", "c"] {
        c.sh(&format!("head -c 30000 /dev/urandom > {object}; rados -p p put {object} {object}"));
    }
    assert_eq!(c.sh("ceph pg 2.0 mark_unfound_lost revert").err, "pg has no unfound objects\n");
    c.stop();
    for (object, osd) in ["a", "b"].iter().flat_map(|object| [0, 1, 2].map(|osd| (*object, osd))) {
        rot(&c, osd, object);
    }
    c.up();
    c.wait_healthy();
    // A write that reads nothing would succeed: a read finds the damage.
    c.wait("an object without a copy", LIMIT, |c| {
        assert_ne!(c.run("timeout 3 rados -p p get b got").code, 0);
        c.json("ceph pg 2.0 list_unfound")["num_unfound"] == 1
    });
    let mut waiting = [c.spawn("rados -p p get a got"), c.spawn("rados -p p put b c")];
    c.wait("the health checks", LIMIT, |c| {
        let health = c.sh("ceph health detail").out;
        ["2/4 objects unfound (50.000%)", "pg 2.0 has 2 unfound objects"]
            .iter()
            .all(|line| health.contains(line))
            && health.contains("[ERR] PG_DAMAGED: Possible data damage: 1 pg recovery_unfound")
            && health.contains("pg 2.0 is active+recovery_unfound+degraded, acting [")
            && health.contains("], 2 unfound")
    });
    let listed = c.json("ceph pg 2.0 list_unfound");
    assert_eq!((&listed["num_unfound"], &listed["state"]), (&json!(2), &json!("NotRecovering")));
    // An operator's order is seen until it is taken back, or nothing is left to recover.
    let forced = |c: &Cluster| c.json("ceph pg ls forced_recovery")["pg_stats"][0]["state"].clone();
    c.sh("ceph pg force-recovery 2.0");
    let state = "active+forced_recovery+recovery_unfound+degraded";
    c.wait("the order", LIMIT, |c| forced(c) == json!(state));
    assert_eq!(c.sh("ceph pg force-recovery 2.0").err.trim(), "pg 2.0 recovery already forced;");
    c.sh("ceph pg cancel-force-recovery 2.0");
    c.wait("its end", LIMIT, |c| forced(c).is_null());
    c.sh("ceph osd pool force-recovery p");
    // Other objects are served, and requests for the lost ones wait.
    c.sh("rados -p p get c - | cmp - c; rados -p p put d a; rados -p p ls");
    assert!(waiting.iter_mut().all(|client| client.ended().is_none()));
    let told = c.sh("ceph pg 2.0 mark_unfound_lost revert");
    assert_eq!(told.err, "pg has 2 objects unfound and apparently lost marking\n");
    let [read, written] = waiting.map(Running::ends_well);
    assert!(!read && written, "one is gone, the other new");
    c.wait_healthy();
    assert_eq!(c.sh("rados -p p ls | sort | tr '\\n' ' '").out, "b c d ");
    c.sh("rados -p p get b - | cmp - c");
}

#[test]
fn scrubs_come_when_they_are_due_unless_they_are_held_back() {
    let c = Cluster::start();
    c.sh(
        "ceph osd pool create p 1; ceph osd pool application enable p rados; rados -p p put o /etc/hostname",
    );
    c.sh("ceph osd set noscrub; ceph osd set nodeep-scrub");
    c.sh("ceph config set osd osd_scrub_min_interval 1; ceph config set osd osd_deep_scrub_interval 2");
    c.sh("ceph tell 2.0 schedule-deep-scrub");
    c.sh("for key in 1 2 3; do rados -p p setomapval o $key x; done");
    c.sh("ceph config set osd osd_deep_scrub_large_omap_object_key_threshold 2");
    // What is ordered comes all the same.
    scrub(&c, "scrub", "ok");
    assert!(!log(&c).contains("deep-scrub starts"), "it was held back");
    c.sh("ceph osd unset noscrub; ceph osd unset nodeep-scrub");
    // The other pool's PGs are due as often: each has its turn.
    c.wait("a deep scrub of its own accord", LIMIT, |c| {
        let log = log(c);
        log.contains("2.0 deep-scrub ok") && log.contains("Key count: 3 Size (bytes): 3")
    });
    let large = "LARGE_OMAP_OBJECTS: 1 large omap objects\n    1 large objects found in pool 'p'\n";
    c.wait("the warning", LIMIT, |c| c.sh("ceph health detail").out.contains(large));
    assert_eq!(c.sh("ceph osd deep-scrub all").err.trim(), "instructed osd(s) 0,1,2 to deep-scrub");
    assert_eq!(c.run("ceph pg repair 9.9").err.trim(), "Error ENOENT: pg 9.9 does not exist");
    assert_eq!(c.run("ceph osd pool scrub q").err.trim(), "Error ENOENT: unrecognized pool 'q'");
}
