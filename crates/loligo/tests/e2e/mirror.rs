//! The stock `rbd-mirror` between two clusters, with journals and with snapshots.

use std::time::Duration;

use crate::cluster::Cluster;

/// The images on both sides hold the same.
fn is_same(one: &Cluster, two: &Cluster, image: &str) -> bool {
    let sum = |c: &Cluster| c.sh(&format!("rbd export {image} - 2>/dev/null | md5sum")).out;
    sum(one) == sum(two)
}

/// Waits until an image's mirror says so.
fn wait_for(c: &Cluster, image: &str, what: &str) {
    c.wait(what, Duration::from_secs(180), |c| {
        let status = c.run(&format!("rbd mirror image status {image}"));
        status.code == 0 && status.out.contains(what)
    });
}

#[test]
fn a_second_cluster_follows_and_takes_over() {
    let (one, two) = (Cluster::start_with(3, &[]), Cluster::start_with(3, &[]));
    for c in [&one, &two] {
        c.sh("rbd mirror pool enable rbd image");
    }
    one.sh("rbd create --size 16M journal; rbd create --size 16M snapshot");
    for image in ["journal", "snapshot"] {
        one.sh(&format!("rbd bench --io-type write --io-size 16K --io-total 2M {image}"));
    }
    one.sh("rbd mirror pool peer bootstrap create --site-name one rbd > token");
    std::fs::copy(one.dir().join("token"), two.dir().join("token")).unwrap();
    two.sh("rbd mirror pool peer bootstrap import --site-name two --direction rx-only rbd token");
    assert_eq!(two.json("rbd mirror pool info rbd")["peers"][0]["site_name"], "one");
    let daemon = two.spawn("exec rbd-mirror -n client.admin -f --log-file rbd-mirror.log");
    one.sh("rbd mirror image enable journal journal");
    wait_for(&two, "journal", "\"entries_behind_primary\":0");
    // The primary knows the peer for which it makes snapshots once the other side has introduced itself.
    one.wait("the peer", Duration::from_secs(180), |c| {
        c.json("rbd mirror pool info rbd")["peers"].as_array().is_some_and(|peers| !peers.is_empty())
    });
    one.sh("rbd mirror image enable snapshot snapshot");
    for image in ["journal", "snapshot"] {
        one.sh(&format!("rbd bench --io-type write --io-size 16K --io-total 2M --io-pattern rand {image}"));
    }
    one.sh("rbd mirror image snapshot snapshot");
    wait_for(&two, "snapshot", "\"replay_state\":\"idle\"");
    for image in ["journal", "snapshot"] {
        two.wait("the same bytes", Duration::from_secs(180), |two| is_same(&one, two, image));
    }
    // The daemon tells the manager how it fares.
    two.wait("health of the mirror", Duration::from_secs(180), |two| {
        two.json("rbd mirror pool status rbd")["summary"]["daemon_health"] == "OK"
    });
    assert!(two.sh("ceph -s").out.contains("rbd-mirror: 1 daemon active (1 hosts)"));
    // An image that follows is read-only; after a change of roles it is the other one.
    assert_ne!(two.run("rbd bench --io-type write --io-size 4K --io-total 4K journal").code, 0);
    one.sh("rbd mirror image demote journal");
    two.wait("promotion", Duration::from_secs(180), |two| {
        two.run("rbd mirror image promote journal").code == 0
    });
    two.sh("rbd bench --io-type write --io-size 4K --io-total 64K journal");
    drop(daemon);
}
