//! What clients with few rights may do: 80 capabilities, each tried with some fifty operations or commands, beside what
//! 16.2.15 answered to the same program; except that grants to write in a namespace or under a prefix, of any pool,
//! suffice for the client's own snapshots, as since 18.2.

use crate::cluster::Cluster;

#[test]
fn capabilities_grant_what_ceph_grants() {
    let c = Cluster::start_with(3, &[]);
    std::fs::write(c.dir().join("capabilities.py"), include_str!("data/capabilities.py")).unwrap();
    let out = c.sh("/usr/bin/python3 capabilities.py ceph.conf").out;
    let (ours, ceph): (Vec<&str>, Vec<&str>) =
        (out.lines().collect(), include_str!("data/capabilities.txt").lines().collect());
    let differing: Vec<_> = ours.iter().zip(&ceph).filter(|(ours, ceph)| ours != ceph).collect();
    assert!(differing.is_empty() && ours.len() == ceph.len(), "{} lines: {differing:#?}", ours.len());
}
