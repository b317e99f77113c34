//! Random ops of every kind against a model in memory, with snapshots, while OSDs are killed and started
//! again (in the manner of Ceph's `ceph_test_rados`): one, in the time that it has by default. `LOLIGO_MODEL_SECONDS`
//! makes it run longer, `LOLIGO_MODEL_SEED` makes it another run.

use crate::cluster::{Cluster, number};

const MODEL: &str = include_str!("rados_model/model.py");
const REDIRECTS: &str = include_str!("rados_model/redirects.py");

#[test]
fn objects_are_what_a_model_says_while_osds_come_and_go() {
    let (seconds, seed) = (number("LOLIGO_MODEL_SECONDS", 12), number("LOLIGO_MODEL_SEED", 1));
    let mut c = Cluster::start();
    c.sh("ceph osd pool create model 8 8; ceph osd pool application enable model rados");
    std::fs::write(c.dir().join("model.py"), MODEL).unwrap();
    c.run_while_osds_come_and_go(&format!("/usr/bin/python3 model.py model {seed} {seconds}"), seed, seconds);
}

#[test]
fn what_is_appended_through_redirects_is_there_once_while_osds_come_and_go() {
    let (seconds, seed) = (number("LOLIGO_MODEL_SECONDS", 12), number("LOLIGO_MODEL_SEED", 1));
    let mut c = Cluster::start();
    c.sh(
        "for p in base tgt; do ceph osd pool create $p 8 8; ceph osd pool application enable $p rados; done",
    );
    c.sh("for i in 0 1 2 3 4 5 6 7; do rados -p base create o$i; rados -p tgt create t$i; \
          rados -p base set-redirect o$i --target-pool tgt t$i; done");
    std::fs::write(c.dir().join("redirects.py"), REDIRECTS).unwrap();
    c.run_while_osds_come_and_go(&format!("/usr/bin/python3 redirects.py {seconds}"), seed, seconds);
}
