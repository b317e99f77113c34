//! Random ops of every kind against a model in memory, with snapshots, while OSDs are killed and started
//! again (in the manner of Ceph's `ceph_test_rados`). `LOLIGO_MODEL_SECONDS` makes it run longer,
//! `LOLIGO_MODEL_SEED` makes it another run.

mod cluster;

use std::time::{Duration, Instant};

use cluster::Cluster;

const MODEL: &str = include_str!("rados_model/model.py");

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn objects_are_what_a_model_says_while_osds_come_and_go() {
    let (seconds, seed) = (number("LOLIGO_MODEL_SECONDS", 12), number("LOLIGO_MODEL_SEED", 1));
    let mut c = Cluster::start();
    c.sh("ceph osd pool create model 8 8; ceph osd pool application enable model rados");
    std::fs::write(c.dir().join("model.py"), MODEL).unwrap();
    let start = Instant::now();
    let mut model = c.spawn(&format!("/usr/bin/python3 model.py model {seed} {seconds} > model.out 2>&1"));
    for round in 0.. {
        // A life of some seconds each; the last one has time to come back before the model ends.
        std::thread::sleep(Duration::from_secs(3));
        if start.elapsed().as_secs() + 4 > seconds {
            break;
        }
        let victim = format!("osd.{}", (seed + round) % 3);
        c.kill(&victim);
        c.wait("mark-down", Duration::from_secs(30), |c| {
            c.json("ceph osd stat")["num_up_osds"].as_u64() == Some(2)
        });
        c.restart(&victim);
        c.wait_healthy(Duration::from_secs(60));
    }
    let status = model.wait().unwrap();
    let said = std::fs::read_to_string(c.dir().join("model.out")).unwrap();
    assert!(status.success(), "{said}\n{}", c.logs());
    c.wait_healthy(Duration::from_secs(60));
}
