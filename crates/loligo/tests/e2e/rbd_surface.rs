//! What `rbd` and python-rbd do beyond the life of one image: snapshots and clones, diffs, trash, groups,
//! namespaces, migration, metadata, journals, watches. The expected output is
//! what Ceph 16.2 prints for the same commands.

use std::time::Duration;

use crate::cluster::Cluster;

/// The names in a list of snapshots.
fn names(list: &serde_json::Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap().to_owned()).collect()
}

/// A command that must fail with this exit code, and say so.
fn refuse(c: &Cluster, command: &str, code: i32, says: &str) {
    let ran = c.run(command);
    assert_eq!(ran.code, code, "{command}: {}", ran.err);
    assert!(ran.err.contains(says), "{command}: {}", ran.err);
}

#[test]
fn snapshots_clones_and_flattening() {
    let c = Cluster::start();
    c.sh("rbd create --size 32M a; rbd bench --io-type write --io-size 64K --io-total 4M a");
    c.sh("rbd snap create a@s1; rbd snap protect a@s1");
    refuse(&c, "rbd snap create a@s1", 17, "(17) File exists");
    refuse(&c, "rbd snap rm a@s1", 16, "protected");
    refuse(&c, "rbd rm a", 39, "image has snapshots");
    c.sh("rbd snap limit set --limit 2 a; rbd snap create a@s2");
    refuse(&c, "rbd snap create a@s3", 122, "(122) Disk quota exceeded");
    c.sh("rbd snap limit clear a; rbd snap rename a@s2 a@s3");
    assert_eq!(names(&c.json("rbd snap ls a")), ["s1", "s3"]);
    // Clones of format 1 need a protected snapshot, those of format 2 do not.
    c.sh("rbd clone a@s1 v1; rbd clone a@s3 v2 --rbd-default-clone-format 2");
    refuse(&c, "rbd clone a@s3 v3 --rbd-default-clone-format 1", 22, "parent snapshot must be protected");
    assert_eq!(c.json("rbd info v1")["parent"]["snapshot"], "s1");
    let children = c.json("rbd children a");
    let mut children: Vec<_> = children.as_array().unwrap().iter().map(|e| &e["image"]).collect();
    children.sort_by_key(|name| name.to_string());
    assert_eq!(children, ["v1", "v2"]);
    refuse(&c, "rbd snap unprotect a@s1", 16, "(16) Device or resource busy");
    c.sh("rbd export a@s1 want; rbd export v1 - | cmp want; rbd export v2 - | cmp want");
    c.sh("rbd flatten v1; rbd export v1 - | cmp want; rbd snap unprotect a@s1; rbd snap rm a@s1");
    // The parent's snapshot lives in the trash until its last child of format 2 is gone.
    c.sh("rbd snap rm a@s3");
    assert_eq!(c.json("rbd snap ls --all a")[0]["namespace"]["type"], "trash");
    c.sh("rbd flatten v2; rbd export v2 - | cmp want");
    c.wait("end of the parent's snapshot", Duration::from_secs(60), |c| {
        c.json("rbd snap ls --all a").as_array().is_some_and(Vec::is_empty)
    });
    c.sh("rbd rm a; rbd rm v1; rbd rm v2");
}

#[test]
fn images_travel_as_files_and_diffs() {
    let c = Cluster::start();
    c.sh("head -c 9000000 /dev/urandom > raw; rbd import raw a; rbd snap create a@e1; rbd image-meta set a k v");
    c.sh("rbd export --export-format 2 a v2; rbd import --export-format 2 v2 b; rbd export b - | cmp raw");
    assert_eq!(names(&c.json("rbd snap ls b")), ["e1"]);
    assert_eq!(c.json("rbd image-meta ls b")["k"], "v");
    for snap in ["e2", "e3"] {
        c.sh(&format!("rbd bench --io-type write --io-size 4K --io-total 256K a; rbd snap create a@{snap}"));
    }
    c.sh("rbd export-diff a@e1 d1; rbd export-diff --from-snap e1 a@e2 d12; rbd export-diff --from-snap e2 a@e3 d23");
    c.sh("rbd merge-diff d12 d23 d13; rbd create --size 1M dst; rbd import-diff d1 dst");
    refuse(&c, "rbd import-diff d23 dst", 22, "start snapshot 'e2' does not exist");
    c.sh("rbd import-diff d13 dst; rbd export a@e3 e3; rbd export dst@e3 - | cmp e3");
    refuse(&c, "rbd import-diff d13 dst", 17, "end snapshot 'e3' already exists");
    assert!(!c.json("rbd diff --from-snap e1 a").as_array().unwrap().is_empty());
    c.sh(
        "ceph osd pool create other 8; rbd pool init other; rbd deep cp a other/deep; rbd cp a@e1 other/flat",
    );
    assert_eq!(names(&c.json("rbd snap ls other/deep")), ["e1", "e2", "e3"]);
    c.sh("rbd export a@e2 e2; rbd export other/deep@e2 - | cmp e2; rbd export other/flat - | cmp raw");
    // Live migration, there and half the way back.
    c.sh("rbd migration prepare b other/mig");
    assert_eq!(c.json("rbd status other/mig")["migration"]["state"], "prepared");
    c.sh("rbd migration execute other/mig; rbd migration commit other/mig; rbd export other/mig - | cmp raw");
    c.sh("rbd migration prepare other/mig b; rbd export b - | cmp raw; rbd migration abort b");
    c.sh("rbd export other/mig - | cmp raw");
    // Zeros that were written take no space any more.
    c.sh("head -c 8388608 /dev/zero > zeros; rbd import --sparse-size 4194304 zeros z");
    c.sh("rbd bench --io-type write --io-size 1M --io-total 8M z; rbd sparsify z");
    let sizes = c.json("rbd du z")["images"][0].clone();
    assert_eq!(sizes["provisioned_size"], 8 << 20);
    c.sh("rbd object-map check a; rbd object-map rebuild a; rbd object-map check a@e1");
}

#[test]
fn trash_groups_and_namespaces() {
    let c = Cluster::start();
    c.sh("for i in a b t; do rbd create --size 8M $i; done; rbd trash mv t");
    let entry = c.json("rbd trash ls rbd")[0].clone();
    let id = entry["id"].as_str().unwrap();
    assert_eq!((entry["name"].as_str(), c.sh("rbd ls").out), (Some("t"), "a\nb\n".to_owned()));
    c.sh(&format!(
        "rbd trash restore {id} --image t2; rbd trash mv t2 --expires-at tomorrow; rbd trash purge rbd"
    ));
    refuse(&c, &format!("rbd trash rm {id}"), 1, "Deferment time has not expired");
    c.sh(&format!("rbd trash rm --force {id}"));
    assert_eq!(c.sh("rbd trash ls rbd").out, "");

    c.sh("rbd group create g; rbd group image add g a; rbd group image add g b");
    refuse(&c, "rbd group create g", 17, "(17) File exists");
    assert_eq!(c.json("rbd group image ls g").as_array().unwrap().len(), 2);
    c.sh("rbd bench --io-type write --io-size 64K --io-total 1M a; rbd export a before; rbd group snap create g@s");
    c.sh("rbd bench --io-type write --io-size 64K --io-total 1M --io-pattern rand b; rbd group snap rename g@s r");
    assert_eq!(c.json("rbd snap ls --all b")[0]["namespace"]["type"], "group");
    refuse(&c, "rbd rm a", 39, "image has snapshots");
    c.sh("rbd group snap rollback g@r; rbd export a - | cmp before; rbd group snap rm g@r");
    refuse(&c, "rbd rm a", 31, "image belongs to a group");
    c.sh("rbd group image rm g a; rbd group rename g h; rbd group rm h; rbd rm a; rbd rm b");

    c.sh("rbd namespace create rbd/ns; rbd create --size 1M rbd/ns/i");
    refuse(&c, "rbd namespace create rbd/ns", 17, "(17) File exists");
    refuse(&c, "rbd namespace rm rbd/ns", 16, "namespace contains images");
    refuse(&c, "rbd create --size 1M rbd/none/i", 2, "namespace 'none' does not exist");
    assert_eq!((c.sh("rbd ls").out, c.sh("rbd ls rbd/ns").out), (String::new(), "i\n".into()));
    c.sh("rbd rm rbd/ns/i; rbd namespace rm rbd/ns");
    // All that is left is what pools keep, once the snapshots' clones are trimmed.
    c.wait("an empty pool", std::time::Duration::from_secs(60), |c| {
        let left = c.sh("rados -p rbd ls --all").out;
        !left.contains("rbd_data") && !left.contains("rbd_header")
    });
}

#[test]
fn features_metadata_and_journals() {
    let c = Cluster::start();
    c.sh("rbd create --size 16M a");
    refuse(&c, "rbd feature disable a layering", 22, "(22) Invalid argument");
    refuse(&c, "rbd feature disable a exclusive-lock", 22, "(22) Invalid argument");
    c.sh("rbd feature disable a object-map,fast-diff,exclusive-lock; rbd feature enable a exclusive-lock");
    c.sh("rbd feature enable a object-map,fast-diff; rbd object-map rebuild a");
    assert!(c.json("rbd info a")["flags"].as_array().unwrap().is_empty());
    c.sh("rbd image-meta set a k v; rbd image-meta set a conf_rbd_cache false; rbd image-meta rm a k");
    refuse(&c, "rbd image-meta get a k", 2, "(2) No such file or directory");
    c.sh("rbd config pool set rbd rbd_cache_size 1048576; rbd config image set a rbd_qos_iops_limit 900");
    let config = c.json("rbd config image ls a");
    let source = |key: &str| {
        config.as_array().unwrap().iter().find(|o| o["name"] == key).map(|o| o["source"].clone()).unwrap()
    };
    assert_eq!((source("rbd_cache_size"), source("rbd_qos_iops_limit")), ("pool".into(), "image".into()));
    c.sh("rbd config global set client rbd_cache_max_dirty 1048576");
    assert_eq!(c.sh("rbd config global get client rbd_cache_max_dirty").out.trim(), "1048576");
    c.sh("rbd bench --io-type readwrite --io-size 4K --io-total 256K a");
    c.sh("head -c 8388608 /dev/urandom > raw");
    c.sh("rbd import raw b --object-size 1M --stripe-unit 64K --stripe-count 4; rbd export b - | cmp raw");
    c.sh(
        "ceph osd pool create data 8; rbd import raw d --data-pool data; rbd export d - | cmp raw; rbd rm d",
    );
    // Journaling, on a copy replayed from what was exported.
    c.sh("rbd create --size 8M j --image-feature exclusive-lock,journaling");
    c.sh("rbd bench --io-type write --io-size 4K --io-total 64K j; rbd journal inspect --image j; rbd journal export --image j --path events");
    c.sh("rbd create --size 8M k --image-feature exclusive-lock,journaling; rbd journal import --dest k --path events");
    assert_eq!(c.json("rbd journal info --image j")["order"], 24);
    c.sh("rbd journal reset --image j; rbd feature disable j journaling; rbd rm j; rbd rm k");
    let left = c.sh("rados -p rbd ls").out;
    assert!(!left.contains("journal"), "{left}");
}

#[test]
fn python_locks_watches_and_asynchronous_io() {
    let c = Cluster::start();
    c.sh("rbd create --size 32M img; rbd create --size 32M watched");
    std::fs::write(c.dir().join("aio.py"), PYTHON).unwrap();
    assert_eq!(c.sh("timeout 300 /usr/bin/python3 aio.py").out, "ok\n");
    // `rbd watch` sees the header's notifications of another client.
    let watch = c.spawn("(until [ -e stop ]; do sleep 0.1; done) | stdbuf -oL rbd watch watched > seen");
    c.wait("watcher", Duration::from_secs(60), |c| {
        c.json("rbd status watched")["watchers"].as_array().is_some_and(|w| w.len() == 1)
    });
    c.sh("rbd resize --size 48M watched");
    c.wait("notification", Duration::from_secs(60), |c| c.sh("cat seen").out.contains("HeaderUpdate"));
    c.sh("touch stop");
    assert!(watch.ends_well());
}

const PYTHON: &str = r"
import os, rados, rbd, threading, time
c = rados.Rados(conffile=os.environ['CEPH_CONF']); c.connect(); io = c.open_ioctx('rbd')
d = rados.Rados(conffile=os.environ['CEPH_CONF']); d.connect(); iod = d.open_ioctx('rbd')
a, b = rbd.Image(io, 'img'), rbd.Image(iod, 'img')
# One owner; a second one is told so, and who it is.
a.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
assert a.is_exclusive_lock_owner() and not b.is_exclusive_lock_owner()
try: b.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE); assert False
except rbd.ReadOnlyImage: pass
except rbd.ImageBusy: pass
owners = list(b.lock_get_owners()); assert len(owners) == 1, owners
a.lock_release()
b.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE); assert b.is_exclusive_lock_owner(); b.lock_release()
# Who has taken the lock by hand takes it no more by itself.
a.close(); b.close(); a, b = rbd.Image(io, 'img'), rbd.Image(iod, 'img')
# Watches tell of changes, watchers are listed.
assert len(list(a.watchers_list())) == 2
b.create_snap('s')
assert [s['name'] for s in a.list_snaps()] == ['s']
# Asynchronous IO: many in flight, each completes once, with what it should bring.
done, lock = [], threading.Lock()
def wrote(n):
    def cb(completion):
        with lock: done.append((n, completion.get_return_value()))
    return cb
writes = [a.aio_write(bytes([n]) * 8192, n * 65536, wrote(n)) for n in range(128)]
for w in writes: w.wait_for_complete_and_cb()
assert sorted(done) == [(n, 0) for n in range(128)], done
a.aio_flush(lambda _: None).wait_for_complete_and_cb()
got = {}
def read(n):
    def cb(completion, data): got[n] = data
    return cb
reads = [a.aio_read(n * 65536, 8192, read(n)) for n in range(128)]
for r in reads: r.wait_for_complete_and_cb()
assert all(got[n] == bytes([n]) * 8192 for n in range(128))
a.aio_discard(0, 65536, lambda _: None).wait_for_complete_and_cb(); assert a.read(0, 8192) == bytes(8192)
a.write_zeroes(65536, 65536) if hasattr(a, 'write_zeroes') else a.discard(65536, 65536)
assert a.read(65536, 8192) == bytes(8192)
extents = []; a.diff_iterate(0, a.size(), 's', lambda o, l, e: extents.append((o, l, e)), whole_object=False)
assert extents and all(e for _, _, e in extents[1:]), extents
# A dead client's lock is broken and the client blocklisted.
a.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE); owner = list(b.lock_get_owners())[0]
b.lock_break(owner['mode'], owner['owner']); b.write(b'mine', 0); assert b.read(0, 4) == b'mine'
try: a.write(b'late', 0); a.flush()
except rbd.Error: pass
# librbd may have dropped the write with its cache instead; what counts is what is stored.
b.invalidate_cache(); assert b.read(0, 4) == b'mine'
b.close(); d.shutdown()
print('ok', flush=True); os._exit(0)
";
