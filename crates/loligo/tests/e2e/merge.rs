//! A pool gets fewer PGs under stock clients' load while an OSD is killed, and nothing acknowledged is lost.

use std::time::Duration;

use crate::cluster::{
    Cluster,
    load::{Load, fio_verify},
};

fn fio(seed: &str, options: &str) -> String {
    fio_verify("shrink", "32M", seed, options)
}

fn number(c: &Cluster, var: &str) -> Option<u64> {
    c.json(&format!("ceph osd pool get shrink {var}"))[var].as_u64()
}

fn check_objects(c: &Cluster) {
    c.sh("for n in 1 2 3 4 5 6 7 8 9; do rados -p shrink get o$n out; test $(cat out) = $n; done");
}

#[test]
fn pgs_are_merged_under_load_while_an_osd_dies() {
    let mut c = Cluster::start_with(3, &["--separate", "--reactors", "2"]);
    c.sh("ceph config set mon mon_warn_on_pool_pg_num_not_power_of_two false");
    c.sh("ceph osd pool create shrink 10 && rbd pool init shrink && rbd create --size 32M shrink/img");
    c.sh("for n in 1 2 3 4 5 6 7 8 9; do echo $n > in; rados -p shrink put o$n in; done");
    c.sh("rbd snap create shrink/img@before");
    c.wait_healthy();
    let mut load = Load::start(&c, "shrink", 7, &fio("$seed", "--do_verify=0 --rate=4m"));
    load.wait_for_writes(&c, 300);
    assert!(c.sh("ceph osd pool set shrink pg_num 3").err.contains("set pool"), "in Ceph's words");
    assert!(c.sh("ceph osd pool ls detail").out.contains(" pg_num_target 3 pgp_num_target 3 "));
    c.wait("a merge", Duration::from_secs(240), |c| number(c, "pg_num").is_some_and(|n| n < 10));
    load.assert_running(&c);
    c.kill("osd.1");
    c.wait_up_osds(2);
    load.wait_for_writes(&c, 300);
    c.restart("osd.1");
    load.wait_for_writes(&c, 300);
    let last = load.finish(&c);
    c.wait("the last merge", Duration::from_secs(300), |c| number(c, "pg_num") == Some(3));
    c.wait_healthy();
    assert_eq!(number(&c, "pgp_num"), Some(3));
    c.sh(&fio(&last, "--verify_only=1"));
    check_objects(&c);
    c.sh("rbd snap rollback --no-progress shrink/img@before && rbd snap rm --no-progress shrink/img@before");

    let listed = c.listed_once("shrink");
    c.crash_all();
    c.wait_healthy();
    check_objects(&c);
    assert_eq!(c.sh("rados -p shrink ls --all | sort").out, listed);
}
