//! Daemons are killed for real under load, and nothing acknowledged is lost.

use std::time::Duration;

use crate::cluster::{
    Cluster,
    load::{Load, fio_verify, write_everywhere},
};

/// Writes, or with options the check, of an image that is as large in each test.
fn fio(seed: &str, options: &str) -> String {
    fio_verify("rbd", "32M", seed, options)
}

#[test]
fn io_goes_on_without_one_osd_and_it_catches_up() {
    for (victim, features) in [(0, "--image-feature layering"), (2, "")] {
        let mut c = Cluster::start();
        c.sh(&format!("rbd create --size 32M {features} img"));
        let mut load = Load::start(&c, "rbd", 7, &fio("$seed", "--do_verify=0 --rate=3m"));
        load.wait_for_writes(&c, 1_000);
        c.kill(&format!("osd.{victim}"));
        c.wait_up_osds(2);
        // Nothing that waited for the victim to come back would get here: neither a write to any PG, nor fio's.
        write_everywhere(&c, "rbd");
        load.wait_for_writes(&c, 1_000);
        assert_eq!(c.json("ceph osd dump")["osds"][victim]["up"], 0);
        c.restart(&format!("osd.{victim}"));
        load.wait_for_writes(&c, 500);
        let last = load.finish(&c);
        c.wait_healthy();
        c.sh(&fio(&last, "--verify_only=1"));
        c.listed_once("rbd");
    }
}

#[test]
fn each_osd_dies_in_turn_and_what_it_caught_up_is_right() {
    let mut c = Cluster::start_with(3, &["--separate", "--reactors", "2"]);
    c.sh("rbd create --size 32M img");
    for (round, victim) in ["osd.0", "osd.1", "osd.2"].into_iter().enumerate() {
        // Other bytes each time: what an earlier round left does not pass.
        let first_seed = 100 * (round + 1);
        let mut load = Load::start(&c, "rbd", first_seed, &fio("$seed", "--do_verify=0 --rate=3m"));
        load.wait_for_writes(&c, 1_000);
        c.kill(victim);
        // From a restart that nobody noticed to one after the mark-down.
        std::thread::sleep(Duration::from_secs(3 * round as u64));
        load.assert_running(&c);
        c.restart(victim);
        load.wait_for_writes(&c, 500);
        let last = load.finish(&c);
        c.wait_healthy();
        // Now the victim is the primary of what its successor led.
        let other = ["osd.1", "osd.2", "osd.0"][round];
        c.kill(other);
        c.sh(&fio(&last, "--verify_only=1"));
        c.restart(other);
        c.wait_up_osds(3);
        c.wait_healthy();
    }
}

#[test]
fn writes_wait_while_too_few_osds_live() {
    let mut c = Cluster::start();
    c.sh("echo before > note; rados -p rbd put note note");
    let pid = c.pid("osd.2");
    assert_eq!(c.sh("ceph osd stop osd.2").err.trim(), "stop osd.2.");
    assert_eq!(c.up_osds(), 2, "it is down at once");
    c.wait_end(pid);
    c.kill("osd.1");
    c.wait_up_osds(1);
    let log = "--log-to-stderr --debug-objecter=20 --debug-ms=0";
    let mut put = c.spawn(&format!("echo after > note; rados {log} -p rbd put note note 2> put.log"));
    c.wait("the OSD's word to hold", Duration::from_secs(60), |c| {
        // The shell may not have made the file yet.
        c.run("cat put.log").out.to_lowercase().contains("backoff")
    });
    assert!(put.ended().is_none(), "a write was acknowledged by one OSD of three");
    c.restart("osd.1");
    assert!(put.ends_well(), "the write did not go on\n{}", c.logs());
    c.restart("osd.2");
    c.wait_healthy();
    assert_eq!(c.sh("rados -p rbd get note -").out, "after\n");

    // One that is marked down too often while it runs stops.
    let pid = c.pid("osd.1");
    c.sh("ceph config set osd.1 osd_max_markdown_count 0; ceph osd down osd.1");
    c.wait_end(pid);
}

#[test]
fn every_acknowledged_write_survives_a_crash_of_everything() {
    let mut c = Cluster::start();
    c.sh("rbd create --size 32M --image-feature layering img");
    c.sh(&fio("7", "--do_verify=0"));
    c.sh("echo kept > note; rados -p rbd put note note");
    c.crash_all();
    c.sh(&fio("7", "--verify_only=1"));
    assert_eq!(c.sh("rados -p rbd get note -").out, "kept\n");
    c.stop();
    c.up();
    assert_eq!(c.sh("rados -p rbd get note -").out, "kept\n");
}

#[test]
fn a_pg_waits_for_the_osd_that_wrote_alone_until_it_is_given_up() {
    let mut c = Cluster::start();
    c.sh("ceph osd pool create p 1 1; ceph osd pool set p size 2; ceph osd pool set p min_size 1; ceph osd pool application enable p test");
    c.wait_healthy();
    c.sh("echo before > note; rados -p p put both note");
    let stats = |c: &Cluster| c.json("ceph pg ls-by-pool p")["pg_stats"][0].clone();
    let [ahead, behind] = [0, 1].map(|at| format!("osd.{}", stats(&c)["acting"][at]));
    c.kill(&behind);
    c.wait_up_osds(2);
    c.sh("timeout 300 rados -p p put alone note");
    c.kill(&ahead);
    c.sh(&format!("ceph osd down {ahead}"));
    c.restart(&behind);
    let state = |state: &'static str| move |c: &Cluster| stats(c)["state"] == state;
    c.wait("a PG that is down", Duration::from_secs(120), state("down"));

    let ahead_id: u64 = ahead["osd.".len()..].parse().unwrap();
    let blocked = c.json("ceph osd blocked-by")["osd_blocked_by"]["osd_blocked_by_infos"].clone();
    assert!(blocked.as_array().unwrap().iter().any(|by| by["id"] == ahead_id && by["num_blocked"] == 1));
    let pgid = stats(&c)["pgid"].as_str().unwrap().to_owned();
    let why = c.json(&format!("ceph pg {pgid} query"))["recovery_state"][1]["peering_blocked_by"].clone();
    assert_eq!(why.as_array().map(Vec::len), Some(1));
    assert_eq!(why[0]["osd"], ahead_id);
    assert_eq!(c.run("timeout 5 rados -p p get both -").code, 124, "it serves what may be old");

    c.sh(&format!("ceph osd lost {ahead} --yes-i-really-mean-it"));
    c.wait("a PG that goes on", Duration::from_secs(120), state("active+undersized+degraded"));
    assert_eq!(c.sh("timeout 300 rados -p p ls").out, "both\n", "what only the lost one had is lost");
    c.sh("timeout 300 rados -p p put later note");
    // It comes back after all: what it has to itself came to nothing.
    c.restart(&ahead);
    c.wait_healthy();
    assert_eq!(c.sh("rados -p p ls | sort").out, "both\nlater\n");
}
