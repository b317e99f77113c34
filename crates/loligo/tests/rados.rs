//! The stock `rados` command and python-rados against real daemons (issue 2, items 4 and 7's peers).

mod cluster;

use cluster::Cluster;

#[test]
fn rados_does_what_it_does_on_ceph() {
    let c = Cluster::start();
    c.sh("ceph osd pool create tp 8 8; ceph osd pool application enable tp rados");
    assert!(c.sh("rados lspools").out.lines().any(|l| l == "tp"));
    c.sh("head -c 5000 /dev/urandom > small; head -c 9000000 /dev/urandom > big");
    c.sh("rados -p tp put o1 small; rados -p tp put o2 big; rados -p tp get o2 big.out; cmp big big.out");
    assert!(c.sh("rados -p tp stat o1").out.contains("size 5000"));
    assert_eq!(c.sh("rados -p tp ls | sort").out, "o1\no2\n");
    c.sh("rados -p tp append o1 small; rados -p tp get o1 twice; cat small small | cmp - twice");
    c.sh("rados -p tp truncate o1 100; rados -p tp get o1 cut; head -c 100 small | cmp - cut");
    c.sh("rados -p tp put o3 big");
    c.sh("rados -p tp setxattr o1 k v1");
    assert_eq!(c.sh("rados -p tp getxattr o1 k").out.trim_end(), "v1");
    assert_eq!(c.sh("rados -p tp listxattr o1").out, "k\n");
    c.sh("rados -p tp rmxattr o1 k");
    c.sh("rados -p tp setomapval o1 a 1; rados -p tp setomapval o1 b 2; rados -p tp setomapheader o1 head");
    assert_eq!(c.sh("rados -p tp listomapkeys o1").out, "a\nb\n");
    assert!(c.sh("rados -p tp listomapvals o1").out.contains("value (1 bytes)"));
    c.sh("rados -p tp rmomapkey o1 a");
    assert_eq!(c.sh("rados -p tp listomapkeys o1").out, "b\n");
    c.sh("rados -p tp clearomap o1");
    c.sh("rados -p tp -N ns put inside small");
    assert_eq!(c.sh("rados -p tp -N ns ls").out, "inside\n");
    assert!(c.sh("rados -p tp --all ls").out.contains("ns\tinside"));
    c.sh("rados -p tp rm o3");
    let gone = c.run("rados -p tp get o3 x");
    assert!(gone.code != 0 && gone.err.contains("(2) No such file or directory"), "{}", gone.err);
    assert!(c.run("rados -p nosuchpool ls").code != 0);
    let df = c.json("rados df");
    assert!(df["pools"].as_array().unwrap().iter().any(|p| p["name"] == "tp"));
}

#[test]
fn rados_bench_runs_in_all_modes() {
    let c = Cluster::start();
    c.sh("ceph osd pool create bench 8 8; ceph osd pool application enable bench rados");
    c.sh("rados -p bench bench 2 write -b 4096 -t 8 --no-cleanup");
    c.sh("rados -p bench bench 2 seq -t 8; rados -p bench bench 2 rand -t 8; rados -p bench cleanup");
    assert_eq!(c.sh("rados -p bench ls").out, "");
}

#[test]
fn pool_snapshots_keep_old_data() {
    let c = Cluster::start();
    c.sh("ceph osd pool create sp 8 8; ceph osd pool application enable sp rados");
    c.sh("echo one > v1; echo two > v2; rados -p sp put o v1; rados -p sp mksnap s1; rados -p sp put o v2");
    assert!(c.sh("rados -p sp -s s1 get o -").out.ends_with("one\n"));
    assert_eq!(c.sh("rados -p sp get o -").out, "two\n");
    assert!(c.sh("rados -p sp listsnaps o").out.contains("head"));
    c.sh("rados -p sp rollback o s1");
    assert_eq!(c.sh("rados -p sp get o -").out, "one\n");
    c.sh("rados -p sp rmsnap s1");
    assert!(c.run("rados -p sp -s s1 get o -").code != 0);
}

#[test]
fn watch_and_notify_reach_each_other() {
    let c = Cluster::start();
    c.sh("ceph osd pool create wp 8 8; ceph osd pool application enable wp rados; rados -p wp create o");
    std::fs::write(c.dir().join("watch.py"), WATCH).unwrap();
    let out = c.sh("/usr/bin/python3 watch.py").out;
    assert_eq!(out, "notified hello\nacked 1 timed out 0\n");
}

/// Watches, notifies itself from a second client, and prints what came.
const WATCH: &str = r"
import rados, threading, os
def connect():
    c = rados.Rados(conffile=os.environ['CEPH_CONF']); c.connect(); return c, c.open_ioctx('wp')
a, ioa = connect(); b, iob = connect()
seen = threading.Event()
def on_notify(notify_id, notifier_id, watch_id, data):
    print('notified', data.decode()); seen.set()
watch = ioa.watch('o', on_notify)
done = threading.Event()
def on_done(completion, r, acks, timeouts):
    print('acked', len(acks), 'timed out', len(timeouts)); done.set()
iob.aio_notify('o', on_done, 'hello')
assert seen.wait(20) and done.wait(20)
watch.close(); a.shutdown(); b.shutdown()
";
