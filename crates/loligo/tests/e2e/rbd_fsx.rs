//! An image is changed at random through python-rbd, and compared with the same changes of bytes in memory
//! (in the manner of Ceph's `ceph_test_librbd_fsx`), while OSDs are killed and started again:
//! one, in the time that it has by default.
//! `LOLIGO_FSX_SECONDS` makes it run longer, `LOLIGO_FSX_SEED` makes it another run.

use crate::cluster::{Cluster, number};

const FSX: &str = include_str!("rbd_fsx/fsx.py");

#[test]
fn an_image_is_what_was_done_to_it_while_osds_come_and_go() {
    let (seconds, seed) = (number("LOLIGO_FSX_SECONDS", 12), number("LOLIGO_FSX_SEED", 1));
    let mut c = Cluster::start();
    std::fs::write(c.dir().join("fsx.py"), FSX).unwrap();
    c.run_while_osds_come_and_go(&format!("/usr/bin/python3 fsx.py rbd {seed} {seconds}"), seed, seconds);
}
