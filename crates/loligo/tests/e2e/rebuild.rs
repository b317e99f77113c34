//! `loligo mon-rebuild`: clusters that lose their ledger and go on.

use std::fs;

use crate::cluster::{Cluster, LOLIGO};

/// Makes epochs.
fn pass_epochs(c: &Cluster, count: usize) {
    c.sh(&format!("for n in $(seq {count}); do echo osd set noout; echo osd unset noout; done | ceph"));
}

fn epoch(c: &Cluster) -> u64 {
    c.json("ceph osd dump")["epoch"].as_u64().unwrap()
}

/// Runs `loligo mon-rebuild`; its output. None of what it wants to say may be an error.
fn rebuild(c: &Cluster, arguments: &str) -> String {
    c.sh(&format!("{LOLIGO} mon-rebuild --id a {arguments}")).out
}

fn refused(c: &Cluster, arguments: &str, why: &str) {
    let ran = c.run(&format!("{LOLIGO} mon-rebuild --id a {arguments}"));
    assert!(ran.code == 1 && ran.err.contains(why), "{} {}", ran.out, ran.err);
}

#[test]
fn a_cluster_whose_ledger_is_lost_goes_on_from_its_osds() {
    let mut c = Cluster::start();
    c.sh("head -c 3000000 /dev/urandom > data; rados -p rbd put early data");
    c.sh("ceph auth get-or-create client.x mon 'profile rbd' osd 'profile rbd' > x.keyring");
    c.sh("ceph auth get client.x -o users.keyring");
    // This one does not see the last epochs, nor what is written in them.
    c.kill("osd.2");
    c.wait_up_osds(2);
    pass_epochs(&c, 30);
    c.sh("rados -p rbd put late data; rados -p rbd put early data");
    let before = epoch(&c);
    refused(&c, "osd.0 osd.1 osd.2", "stop the monitor first");
    c.stop();
    refused(&c, "osd.0 osd.1 osd.2", "ledger.redb exists");
    fs::remove_file(c.dir().join("mon.a/ledger.redb")).unwrap();
    refused(&c, "osd.0 osd.2", "missing: osd.1");
    let shown = c.sh(&format!("{LOLIGO} store maps --id 1 --export osd.1.maps")).out;
    assert!(shown.contains("store of reactor 0: OSD maps "), "{shown}");
    let again = c.run(&format!("{LOLIGO} store maps --id 1 --export osd.1.maps"));
    assert!(again.code == 1 && again.err.contains("osd.1.maps exists"), "{}", again.err);
    let said = rebuild(&c, "osd.0 osd.1.maps osd.2 --keyring users.keyring");
    assert!(said.contains("users: mon., osd.0, osd.1, osd.2, client.admin, client.x;"), "{said}");
    assert!(
        !said.contains("missing") && !said.contains("no store here") && !said.contains("no key"),
        "{said}"
    );
    c.up();
    assert!(epoch(&c) > before + 10_000);
    c.sh("rados -p rbd get late - | cmp - data; rados -p rbd get early - | cmp - data");
    c.sh("rados -p rbd put new data; rados -p rbd get new - | cmp - data");
    c.sh("rados -n client.x -k x.keyring -p rbd get new - | cmp - data");
    c.sh("ceph osd pool create second 8; rbd pool init second; rbd create -s 8M second/img");
    // With maps of both sides of the gap in its store.
    c.crash_all();
    c.sh("rados -p rbd get new - | cmp - data; rbd info second/img");
    c.listed_once("rbd");
}

#[test]
fn an_older_ledger_keeps_its_users_and_options_and_gets_the_newest_maps() {
    let mut c = Cluster::start();
    c.sh("head -c 3000000 /dev/urandom > data; rados -p rbd put early data");
    c.sh("ceph auth get-or-create client.x mon 'profile rbd' osd 'profile rbd' > x.keyring");
    c.sh("ceph config set client rbd_cache false; ceph config-key set a/b c");
    c.stop();
    c.sh("cp mon.a/ledger.redb backup");
    c.up();
    pass_epochs(&c, 5);
    c.sh("ceph osd pool create second 8; rbd pool init second; rbd import data second/img");
    c.wait_healthy();
    c.kill("osd.1");
    c.wait_up_osds(2);
    c.sh("rados -p rbd put late data; rbd snap create second/img@s");
    pass_epochs(&c, 5);
    let before = epoch(&c);
    c.stop();
    c.sh("rm mon.a/ledger.redb");
    let said = rebuild(&c, "--base backup osd.0 osd.1 osd.2");
    assert!(said.contains("what was changed since is lost"), "{said}");
    let left = c.sh("ls mon.a").out;
    assert!(left.contains("ledger.redb") && !left.contains("ledger.base"), "{left}");
    c.up();
    assert!(epoch(&c) > before + 10_000);
    c.sh("for o in early late; do rados -n client.x -k x.keyring -p rbd get $o - | cmp - data; done");
    c.sh("rbd export second/img@s - | cmp - data; rbd snap create second/img@t; rbd snap ls second/img | grep t");
    assert_eq!(c.sh("ceph config get client.y rbd_cache; ceph config-key get a/b").out, "false\nc");
    c.sh("rados -p rbd put new data; rados -p rbd get new - | cmp - data");
}
