//! A pool gets more PGs under stock clients' load while an OSD is killed, and nothing acknowledged is lost.

use std::{thread, time::Duration};

use crate::cluster::{
    Cluster,
    load::{Load, fio_verify},
};

fn fio(seed: &str, options: &str) -> String {
    fio_verify("grow", "32M", seed, options)
}

fn pg_num(c: &Cluster, var: &str) -> Option<u64> {
    c.json(&format!("ceph osd pool get grow {var}"))[var].as_u64()
}

fn wait_grown(c: &Cluster, pg_num_wanted: u64) {
    c.wait("the PGs", Duration::from_secs(240), |c| {
        ["pg_num", "pgp_num"].iter().all(|var| pg_num(c, var) == Some(pg_num_wanted))
    });
    c.wait_healthy();
}

#[test]
fn a_pool_is_split_under_load_while_an_osd_dies() {
    let mut c = Cluster::start_with(3, &["--separate", "--reactors", "2"]);
    // One PG, so that children stay on their parent's reactor.
    c.sh("ceph osd pool create grow 1 && rbd pool init grow && rbd create --size 32M grow/img");
    c.sh("for n in 1 2 3 4 5 6 7 8 9; do echo $n > in; rados -p grow put o$n in; done");
    c.sh("rbd snap create grow/img@before");
    let mut load = Load::start(&c, "grow", 7, &fio("$seed", "--do_verify=0 --rate=4m"));
    load.wait_for_writes(&c, 500);
    assert!(c.sh("ceph osd pool set grow pg_num 12").err.contains("set pool"), "in Ceph's words");
    // A while, so that splits are under way.
    thread::sleep(Duration::from_secs(1));
    load.assert_running(&c);
    c.kill("osd.1");
    thread::sleep(Duration::from_secs(1));
    c.restart("osd.1");
    c.wait("the split", Duration::from_secs(240), |c| pg_num(c, "pg_num") == Some(12));
    load.assert_running(&c);
    // The last writes before osd.1 was up again may be whole on one OSD alone until the others are sent them. If that
    // one went now, the load would have to wait until it comes back.
    c.wait_up_osds(3);
    c.wait("all copies", Duration::from_secs(240), |c| {
        c.json("ceph status")["pgmap"]["degraded_objects"].as_u64().unwrap_or(0) == 0
    });
    load.assert_running(&c);
    c.kill("osd.2");
    // It comes back to a pool that has been split further meanwhile, and written to.
    c.sh("ceph osd pool set grow pg_num 16");
    c.wait_up_osds(2);
    load.wait_for_writes(&c, 300);
    c.restart("osd.2");
    load.wait_for_writes(&c, 300);
    let last = load.finish(&c);
    wait_grown(&c, 16);
    c.sh(&fio(&last, "--verify_only=1"));
    c.sh("for n in 1 2 3 4 5 6 7 8 9; do rados -p grow get o$n out; test $(cat out) = $n; done");
    c.sh("rbd snap rollback --no-progress grow/img@before && rbd snap rm --no-progress grow/img@before");

    let listed = c.listed_once("grow");
    c.crash_all();
    c.wait_healthy();
    c.sh("for n in 1 2 3 4 5 6 7 8 9; do rados -p grow get o$n out; test $(cat out) = $n; done");
    assert_eq!(c.sh("rados -p grow ls --all | sort").out, listed);
}
