//! Stock clients let any copy answer their reads: replicas do, and nobody reads what is old.

use std::{fs, time::Duration};

use crate::cluster::{Cluster, number};

const READER: &str = include_str!("replica_reads/reader.py");

/// As long as replicas may take to answer: what was written last is known to be everywhere soon.
const LIMIT: Duration = Duration::from_secs(90);

/// Reads that each OSD has answered. It hears of its other reactors' counts with statistics.
fn reads(c: &Cluster) -> Vec<u64> {
    c.sh("ceph tell 'osd.*' flush_pg_stats");
    let of = |osd| c.json(&format!("ceph tell osd.{osd} perf dump"))["osd"]["op_r"].as_u64();
    (0..3).map(|osd| of(osd).expect("the OSD counts reads")).collect()
}

/// What `command` made each OSD answer.
fn reads_of(c: &Cluster, command: &str) -> Vec<u64> {
    let before = reads(c);
    c.sh(command);
    reads(c).iter().zip(before).map(|(after, before)| after - before).collect()
}

/// A cluster in which one OSD leads all PGs, once replicas answer.
fn led_by_one(extra: &[&str]) -> Cluster {
    let c = Cluster::start_with(3, extra);
    fs::write(c.dir().join("reader.py"), READER).expect("the folder is there");
    c.sh("ceph osd primary-affinity osd.1 0; ceph osd primary-affinity osd.2 0");
    c.wait_healthy();
    c
}

#[test]
fn reads_that_may_be_balanced_are_answered_by_all_copies() {
    let c = led_by_one(&["--separate"]);
    c.sh("echo hello > note; rados -p rbd put note note");
    let (plain, balanced) = ("/usr/bin/python3 reader.py 90 note 0", "/usr/bin/python3 reader.py 90 note 1");
    // The manager reads, too, and from primaries.
    let answered = reads_of(&c, plain);
    assert!(answered[0] >= 90 && answered[1..] == [0, 0], "{answered:?}");
    c.wait("replicas that answer", LIMIT, |c| {
        let answered = reads_of(c, balanced);
        answered.iter().sum::<u64>() >= 90 && answered.iter().all(|count| *count > 10)
    });
    assert_eq!(c.sh(balanced).out.trim(), "{b'hello\\n'}");

    c.sh("rbd create --size 32M img; rbd bench --io-type write --io-size 64K --io-total 32M img");
    c.sh("rbd snap create img@then");
    let bench = "rbd bench --rbd-cache=false --io-type read --io-pattern rand --io-size 4K --io-total 4M";
    let count =
        |policy, image| reads_of(&c, &format!("{bench} --rbd-read-from-replica-policy {policy} {image}"));
    for image in ["img", "img@then"] {
        c.wait("replicas that answer for the image", LIMIT, |_| {
            count("balance", image).iter().all(|count| *count > 200)
        });
    }
    let default = count("default", "img");
    assert!(default[0] > 1_000 && default[1..] == [0, 0], "{default:?}");
}

#[test]
fn nobody_reads_what_is_old_while_osds_come_and_go() {
    let mut c = led_by_one(&["--separate", "--reactors", "2"]);
    // While nothing fails, replicas answer for what is overwritten all the time: the check is of them, too.
    c.wait("replicas that answer", LIMIT, |c| {
        reads_of(c, "/usr/bin/python3 reader.py check 3")[1..].iter().all(|count| *count > 0)
    });
    c.sh("ceph osd primary-affinity osd.1 1; ceph osd primary-affinity osd.2 1");
    let seconds = number("LOLIGO_REPLICA_READS_SECONDS", 20);
    c.run_while_osds_come_and_go(&format!("/usr/bin/python3 reader.py check {seconds}"), 1, seconds);
}
