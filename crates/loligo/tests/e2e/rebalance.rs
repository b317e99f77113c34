//! A PG moves to other OSDs while stock clients write to it: the OSDs that have its data act until the others have it.

use std::{collections::BTreeSet, thread, time::Duration};

use crate::cluster::{Cluster, load::Load};
use serde_json::Value;

fn osds(value: &Value) -> Vec<i64> {
    value.as_array().map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_i64).collect())
}

/// The PG's name, its up set and its acting set.
fn pg(c: &Cluster) -> (String, Vec<i64>, Vec<i64>) {
    let stat = &c.json("ceph pg ls-by-pool moved")["pg_stats"][0];
    (stat["pgid"].as_str().unwrap_or_default().to_owned(), osds(&stat["up"]), osds(&stat["acting"]))
}

fn wait_for(c: &Cluster, wanted: &[i64]) {
    c.wait("those who are up to act", Duration::from_secs(180), |c| {
        let (_, up, acting) = pg(c);
        up == wanted && acting == wanted
    });
    c.wait_healthy();
}

#[test]
fn who_has_the_data_acts_until_the_others_have_it() {
    let mut c = Cluster::start_with(4, &["--separate"]);
    c.sh("ceph osd pool create moved 1 && ceph osd pool set moved size 2 && ceph osd pool application enable moved rados");
    c.sh("ceph osd set-require-min-compat-client luminous");
    c.wait_healthy();
    // More objects than a member may lack and act all the same.
    c.sh("rados -p moved bench 3 write -b 4096 -t 16 --no-cleanup --run-name old");
    let (name, before, _) = pg(&c);
    let after: Vec<i64> = (0..4).filter(|osd| !before.contains(osd)).collect();
    let first = c.json("ceph osd dump")["epoch"].as_u64().unwrap();

    let bench = "rados -p moved bench 4 write -b 4096 -t 4 --no-cleanup --run-name new$seed";
    let mut load = Load::start(&c, "moved", 1, bench);
    load.wait_for_writes(&c, 100);
    let pairs: Vec<String> = before.iter().zip(&after).map(|(from, to)| format!("{from} {to}")).collect();
    c.sh(&format!("ceph osd pg-upmap-items {name} {}", pairs.join(" ")));
    // A while, so that the new OSDs are being filled.
    thread::sleep(Duration::from_millis(500));
    load.assert_running(&c);
    let filled = format!("osd.{}", after[1]);
    c.kill(&filled);
    thread::sleep(Duration::from_secs(1));
    load.assert_running(&c);
    c.restart(&filled);
    load.wait_for_writes(&c, 100);
    let last_seed = load.finish(&c);
    wait_for(&c, &after);

    let last = c.json("ceph osd dump")["epoch"].as_u64().unwrap();
    let stood_in = |epoch: u64| {
        let temps = c.json(&format!("ceph osd dump {epoch}"))["pg_temp"].clone();
        let temp = temps.as_array()?.iter().find(|temp| temp["pgid"] == *name)?.clone();
        Some(BTreeSet::from_iter(osds(&temp["osds"])))
    };
    let both = BTreeSet::from_iter(before.clone());
    assert!(
        (first..=last).any(|epoch| stood_in(epoch).as_ref() == Some(&both)),
        "those with the data did not act"
    );
    // It reads what it wrote, and compares.
    let check = format!(
        "for name in old $(seq --format new%g {last_seed}); do rados -p moved bench 120 seq -t 4 --run-name $name; done"
    );
    c.sh(&check);

    // An operator may have a PG peer anew, or take an OSD out.
    c.sh(&format!("ceph pg repeer {name}"));
    wait_for(&c, &after);
    c.sh(&format!("ceph osd rm-pg-upmap-items {name}"));
    wait_for(&c, &before);
    c.sh(&format!("ceph osd out {}", before[0]));
    c.wait("the OSD to hold nothing", Duration::from_secs(180), |c| !pg(c).2.contains(&before[0]));
    c.wait_healthy();
    c.sh(&check);
}
