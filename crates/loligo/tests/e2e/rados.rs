//! The stock `rados` command and python-rados against real daemons.

use std::time::Duration;

use crate::cluster::{self, Cluster};

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
    // A key that is the name is none.
    c.sh("rados -p tp --object-locator o4 put o4 small; rados -p tp get o4 same; cmp small same");
    c.sh("rados -p tp --object-locator o4 cp o4 o5; rados -p tp get o5 copied; cmp small copied");
    c.sh("rados -p tp rm o4; rados -p tp rm o5");
    c.sh("rados -p tp rm o3");
    let gone = c.run("rados -p tp get o3 x");
    assert!(gone.code != 0 && gone.err.contains("(2) No such file or directory"), "{}", gone.err);
    assert!(c.run("rados -p nosuchpool ls").code != 0);
    let df = c.json("rados df");
    assert!(df["pools"].as_array().unwrap().iter().any(|p| p["name"] == "tp"));
}

#[test]
fn objects_are_copied_exported_and_imported() {
    let c = Cluster::start();
    c.sh("for p in src dst imp; do ceph osd pool create $p 8 8; ceph osd pool application enable $p rados; done");
    c.sh("head -c 5000000 /dev/urandom > big; rados -p src put big big; rados -p src -N ns put inside big");
    c.sh("rados -p src setxattr big k v; rados -p src setomapval big key value; rados -p src create empty");
    c.sh("rados -p src cp big twin; rados -p src get twin twin.out; cmp big twin.out");
    assert_eq!(c.sh("rados -p src getxattr twin k").out, "v");
    c.sh("rados cppool src dst");
    assert_eq!(c.sh("rados -p dst ls --all | sort").out, "\tbig\n\tempty\n\ttwin\nns\tinside\n");
    c.sh("rados -p dst get big copied; cmp big copied");
    c.sh("rados -p src export dump; rados -p imp import dump");
    assert_eq!(c.sh("rados -p imp ls --all | sort").out, "\tbig\n\tempty\n\ttwin\nns\tinside\n");
    c.sh("rados -p imp get twin imported; cmp big imported");
    assert_eq!(c.sh("rados -p imp getxattr big k").out, "v");
    assert!(c.sh("rados -p imp getomapval big key").out.contains("value (5 bytes)"));
    c.sh("rados purge dst --yes-i-really-really-mean-it");
    assert_eq!(c.sh("rados -p dst ls --all").out, "");
}

#[test]
fn advisory_locks_are_taken_listed_and_broken() {
    let c = Cluster::start();
    c.sh("rados -p rbd create o; rados -p rbd lock get o l --lock-cookie c1 --lock-tag t");
    let taken = c.run("rados -p rbd lock get o l --lock-cookie c2 --lock-tag t");
    assert!(taken.code != 0 && taken.err.contains("(16) Device or resource busy"), "{}", taken.err);
    let listed = c.json("rados -p rbd lock list o");
    assert_eq!(listed["locks"][0]["name"], "l", "{listed}");
    let info = c.json("rados -p rbd lock info o l");
    assert_eq!((&info["type"], &info["tag"]), (&"exclusive".into(), &"t".into()), "{info}");
    let owner = info["lockers"][0]["name"].as_str().unwrap();
    c.sh(&format!("rados -p rbd lock break o l {owner} --lock-cookie c1"));
    c.sh("rados -p rbd lock get o l --lock-cookie c2 --lock-tag t");
    c.sh("rados -p rbd lock get s l --lock-type shared --lock-cookie a; rados -p rbd lock get s l --lock-type shared --lock-cookie b");
    assert_eq!(c.json("rados -p rbd lock info s l")["lockers"].as_array().unwrap().len(), 2);
}

#[test]
fn load_is_made_and_gone_again() {
    let c = Cluster::start();
    c.sh("ceph osd pool create lp 8 8; ceph osd pool application enable lp rados");
    c.sh("rados -p lp load-gen --num-objects 20 --min-object-size 1 --max-object-size 65536 --max-ops 8 \
          --min-op-len 1 --max-op-len 4096 --run-length 2 --target-throughput 1");
    c.sh("rados -p lp put o /etc/hostname; rados -p lp listwatchers o; rados -p lp touch o; rados -p lp stat2 o");
}

#[test]
fn a_pool_over_its_quota_takes_only_what_does_not_grow() {
    let c = Cluster::start();
    c.sh("ceph osd pool create qp 8 8; ceph osd pool application enable qp rados; echo one > one; rados -p qp put a one");
    c.sh("ceph osd pool set-quota qp max_objects 1");
    c.wait("the full flag", std::time::Duration::from_secs(60), |c| {
        c.sh("ceph osd pool ls detail").out.contains("full_quota")
    });
    std::fs::write(c.dir().join("full.py"), FULL).unwrap();
    assert_eq!(c.sh("/usr/bin/python3 full.py").out, "new 122\nlonger 122\nsame 0\nremove 0\n");
    c.wait("room", std::time::Duration::from_secs(60), |c| {
        !c.sh("ceph osd pool ls detail").out.contains("full_quota")
    });
    c.sh("rados -p qp put b one");
}

/// Tries a full pool, instead of waiting for space.
const FULL: &str = r"
import ctypes, os
lib = ctypes.CDLL('librados.so.2')
cluster, io = ctypes.c_void_p(), ctypes.c_void_p()
assert lib.rados_create(ctypes.byref(cluster), b'admin') == 0
assert lib.rados_conf_read_file(cluster, os.environ['CEPH_CONF'].encode()) == 0
assert lib.rados_connect(cluster) == 0
assert lib.rados_ioctx_create(cluster, b'qp', ctypes.byref(io)) == 0
lib.rados_set_pool_full_try(io)
size = ctypes.c_size_t
def write(name, data):
    return -lib.rados_write_full(io, name, data, size(len(data)))
print('new', write(b'n', b'new'))
print('longer', write(b'a', b'three'))
print('same', write(b'a', b'two\n'))
print('remove', -lib.rados_remove(io, b'a'))
lib.rados_ioctx_destroy(io); lib.rados_shutdown(cluster)
";

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
    assert!(c.sh("rados -p sp lssnap").out.contains("1 snaps"));
    c.sh("rados -p sp rm o");
    assert_eq!(c.sh("rados -p sp ls").out, "o\n", "a snapshot still has it");
    assert!(c.run("rados -p sp get o -").code != 0);
    assert!(c.sh("rados -p sp -s s1 get o -").out.ends_with("one\n"));
    c.sh("rados -p sp rmsnap s1");
    c.wait("a trimmed snapshot", std::time::Duration::from_secs(60), |c| {
        c.sh("rados -p sp ls").out.is_empty()
    });
    assert!(c.run("rados -p sp -s s1 get o -").code != 0);
}

#[test]
fn a_purged_snapshot_does_not_come_back_with_a_writer_that_missed_it() {
    let c = Cluster::start();
    c.sh("ceph osd pool create sp 8 8; ceph osd pool application enable sp rados");
    std::fs::write(c.dir().join("purged.py"), PURGED).unwrap();
    assert_eq!(c.sh("timeout 300 /usr/bin/python3 purged.py").out, "purged\n");
    c.sh("rados -p sp rm o");
    assert_eq!(c.sh("rados -p sp ls").out, "other\n", "a clone that nobody will trim");
}

/// Writes in a snapshot's context, before it is removed and after every PG has purged it.
const PURGED: &str = r"
import json, os, rados, time
c = rados.Rados(conffile=os.environ['CEPH_CONF']); c.connect()
o = c.open_ioctx('sp')
o.write_full('o', b'one')
s = o.create_self_managed_snap()
o.set_self_managed_snap_write([s])
o.write_full('other', b'kept')
o.remove_self_managed_snap(s)
def is_purged():
    dump = json.loads(c.mon_command(json.dumps({'prefix': 'osd dump', 'format': 'json'}), b'')[1])
    return not dump['removed_snaps_queue']
while not is_purged():
    time.sleep(0.1)
o.write_full('o', b'two!')
o.close(); c.shutdown()
print('purged')
";

/// What a pool takes after each step of the kind that BlueStore (16.2) counts so: objects, `STORED`, `USED`.
#[test]
fn a_pool_takes_as_much_as_on_ceph() {
    let c = Cluster::start();
    c.sh("ceph osd pool create up 8; ceph osd pool application enable up rados");
    c.sh("head -c 4194304 /dev/urandom > m4; for n in 100 4096 10000 131072; do head -c $n m4 > b$n; done");
    for (step, expected) in [
        ("for n in 1 2 3; do rados -p up put full$n m4; done", [3, 12_582_912, 37_748_736]),
        ("rados -p up put small b100", [4, 12_583_012, 37_761_024]),
        ("rados -p up put odd b10000", [5, 12_593_012, 37_797_888]),
        ("rados -p up put hole b4096 --offset 1048576", [6, 12_597_108, 37_810_176]),
        ("rados -p up put hole b4096 --offset 1572864", [6, 12_601_204, 37_822_464]),
        ("rados -p up mksnap s; rados -p up put full1 b131072 --offset 8192", [7, 16_795_508, 38_215_680]),
        ("rados -p up put full2 b131072 --offset 1048576", [8, 20_989_812, 38_608_896]),
        ("rados -p up truncate full3 1000000", [9, 21_989_812, 38_608_896]),
        ("rados -p up rm full1", [9, 17_795_508, 38_215_680]),
        ("rados -p up rmsnap s", [5, 5_212_596, 15_667_200]),
        ("rados -p up truncate hole 2000000", [5, 5_212_596, 15_667_200]),
        ("for n in $(seq 20); do rados -p up put o$n b4096; done", [25, 5_294_516, 15_912_960]),
        (
            "rados -p up put full2 b4096 --offset 4096; rados -p up put small b10000",
            [25, 5_304_416, 15_937_536],
        ),
        ("rados purge up --yes-i-really-really-mean-it", [0, 0, 0]),
    ] {
        c.sh(step);
        let expected = expected.map(|number: u64| Some(number));
        let stats = |c: &Cluster| {
            let df = c.json("ceph df");
            let pool = df["pools"].as_array().unwrap().iter().find(|pool| pool["name"] == "up").unwrap();
            ["objects", "stored", "bytes_used"].map(|name| pool["stats"][name].as_u64())
        };
        let is_done = cluster::is_done_within(Duration::from_secs(60), || stats(&c) == expected);
        assert!(is_done, "{step}: {:?}, {expected:?} on Ceph", stats(&c));
    }
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
# A slow machine may not answer within 5 s, the default.
iob.aio_notify('o', on_done, 'hello', 60000)
assert seen.wait(90) and done.wait(90)
watch.close(); a.shutdown(); b.shutdown()
";

/// What is expected is what 16.2.15 does, but for redirects that lead back: its OSDs pass requests round for ever.
#[test]
fn a_redirect_is_the_object_that_it_leads_to() {
    let c = Cluster::start();
    c.sh(
        "for p in base tgt; do ceph osd pool create $p 8 8; ceph osd pool application enable $p rados; done",
    );
    std::fs::write(c.dir().join("redirect.py"), REDIRECT).unwrap();
    let make = "/usr/bin/python3 redirect.py make";
    let show = || c.sh("/usr/bin/python3 redirect.py show").out;
    let to_t = "rados -p base set-redirect o --target-pool tgt t";
    c.sh(&format!("{make}; {to_t}"));
    assert_eq!(show(), "o:target:both,tx:tk\nt:target:both,tx:tk\n");
    c.sh("printf ' and more' > more; rados -p base append o more; rados -p base setxattr o new 1");
    assert_eq!(show(), "o:target and more:both,new,tx:tk\nt:target and more:both,new,tx:tk\n");
    c.sh("rados -p base unset-manifest o");
    assert_eq!(show(), "o::both,bx:\nt:target and more:both,new,tx:tk\n");
    let refused = c.run("rados -p base unset-manifest o");
    assert!(refused.code != 0 && refused.err.contains("(95) Operation not supported"), "{}", refused.err);

    // What is deleted is the other object, until the redirect is meant.
    c.sh(&format!("{make}; {to_t}; rados -p base rm o"));
    assert_eq!(c.sh("rados -p base ls; rados -p tgt ls").out, "o\n");
    assert!(c.run("rados -p base stat o").err.contains("(2) No such file or directory"));
    c.sh("rados -p base put o more; rados -p tgt stat t; /usr/bin/python3 redirect.py remove");
    assert_eq!(c.sh("rados -p base ls; rados -p tgt ls").out, "t\n");

    c.sh(&format!("{make}; {to_t}; rados -p base tier-promote o"));
    assert_eq!(show(), "o:target:both,bx,tx:tk\nt:target:both,tx:tk\n");

    // A reference keeps the other one, which goes with the last.
    c.sh(&format!("{make}; {to_t} --with-reference"));
    assert_eq!(c.sh("rados -p tgt listxattr t").out, "both\nchunk_refs\ntx\n");
    assert!(c.run(to_t).err.contains("(22) Invalid argument"));
    c.sh("rados -p base unset-manifest o");
    c.wait("the reference to be given back", Duration::from_secs(60), |c| {
        c.sh("rados -p tgt ls").out.is_empty()
    });
    let missing = c.run(&format!("{to_t} --with-reference"));
    assert!(missing.code != 0 && missing.err.contains("(2) No such file or directory"), "{}", missing.err);

    // Whichever OSD is the target's primary, and however large the target is.
    c.sh("head -c 5000000 /dev/urandom > big; for i in 1 2 3 4 5 6; do rados -p base create b$i; \
          rados -p base set-redirect b$i --target-pool tgt big$i; rados -p base put b$i big; \
          rados -p base get b$i out; cmp big out; rados -p tgt get big$i out; cmp big out; done");

    // Through another redirect, and in a circle.
    c.sh(&format!(
        "{make}; rados -p base create c; rados -p base set-redirect c --target-pool base o; {to_t}"
    ));
    assert_eq!(c.sh("rados -p base get c -").out, "target");
    c.sh("rados -p base create l; rados -p base create m; rados -p base set-redirect l --target-pool base m");
    c.sh("rados -p base set-redirect m --target-pool base l");
    for request in ["get l out", "put l more"] {
        let refused = c.run(&format!("rados -p base {request}"));
        assert!(refused.err.contains("(40) Too many levels of symbolic links"), "{request}: {}", refused.err);
    }

    c.sh("ceph config set mon mon_allow_pool_delete true; ceph osd pool rm tgt tgt --yes-i-really-really-mean-it");
    for request in ["get o out", "stat o", "put o more"] {
        let refused = c.run(&format!("rados -p base {request}"));
        assert!(refused.err.contains("(2) No such file or directory"), "{request}: {}", refused.err);
    }
    c.sh("rados -p base unset-manifest o; rados -p base stat o");
}

/// What is expected was seen with 16.2.15.
#[test]
fn a_chunk_is_a_part_of_another_object() {
    let mut c = Cluster::start();
    c.sh(
        "for p in base tgt; do ceph osd pool create $p 8 8; ceph osd pool application enable $p rados; done",
    );
    c.sh("printf abcdefghijklmnop > own; printf ABCDEFGHIJKLMNOP > other; printf xyz > part");
    c.sh("for i in 1 2 3 4 5 6; do rados -p base put o$i own; rados -p tgt put t$i other; done");
    let all = |command: &str| format!("for i in 1 2 3 4 5 6; do rados -p base {command} || exit; done");
    let set = |at: u32, from: u32| all(&format!("set-chunk o$i {at} 8 --target-pool tgt t$i {from}"));
    c.sh(&set(0, 8));
    let overlapping = c.run("rados -p base set-chunk o1 4 8 --target-pool tgt t1 0");
    assert!(overlapping.err.contains("(95) Operation not supported"), "{}", overlapping.err);
    let missing = c.run("rados -p base set-chunk o1 8 8 --target-pool tgt none 0");
    assert!(missing.err.contains("(2) No such file or directory"), "{}", missing.err);
    c.sh(&set(8, 0));
    assert_eq!(c.sh(&all("get o$i -")).out, "abcdefghijklmnop".repeat(6));
    c.sh(&all("tier-evict o$i"));
    // Whichever OSD is either object's primary, and whichever is asked for a copy.
    let evicted = "IJKLMNOPABCDEFGH";
    assert_eq!(c.sh(&all("get o$i -")).out, evicted.repeat(6));
    c.sh(&all("cp o$i c$i"));
    assert_eq!(c.sh(&all("get c$i -")).out, evicted.repeat(6));
    c.kill("osd.1");
    c.restart("osd.1");
    c.sh(&all("put o$i part --offset 2"));
    assert_eq!(c.sh(&all("get o$i -")).out, "IJxyzNOPABCDEFGH".repeat(6));
    c.sh(&all("tier-promote o$i"));
    // The others live for as long as something refers to them.
    assert_eq!(c.sh("rados -p tgt ls | wc -l").out, "6\n");
    c.sh(&all("rm o$i"));
    c.wait("the references to be given back", Duration::from_secs(60), |c| {
        c.sh("rados -p tgt ls").out.is_empty()
    });
}

/// Makes an object and the one that it is to lead to, shows what they are, or removes the first itself.
const REDIRECT: &str = r"
import rados, os, sys
ITSELF = 256
c = rados.Rados(conffile=os.environ['CEPH_CONF']); c.connect()
base, tgt = c.open_ioctx('base'), c.open_ioctx('tgt')
def write(io, oid, step, flags=0):
    with rados.WriteOpCtx() as op:
        step(op); io.operate_write_op(op, oid, 0, flags)
def remove(io, oid):
    try: write(io, oid, lambda op: op.remove(), ITSELF)
    except rados.ObjectNotFound: pass
def make(io, oid, name, content):
    remove(io, oid)
    io.write_full(oid, content); io.set_xattr(oid, name + 'x', b'1'); io.set_xattr(oid, 'both', name.encode())
    write(io, oid, lambda op: io.set_omap(op, (name + 'k',), (b'v',)))
def show(what, io, oid):
    with rados.ReadOpCtx() as op:
        keys, _ = io.get_omap_keys(op, '', 9)
        io.operate_read_op(op, oid)
        keys = ','.join(key for key, _ in keys)
    xattrs = ','.join(sorted(name for name, _ in io.get_xattrs(oid)))
    print(what, io.read(oid).decode(), xattrs, keys, sep=':')
if sys.argv[1] == 'make':
    make(base, 'o', 'b', b'base'); make(tgt, 't', 't', b'target')
elif sys.argv[1] == 'show':
    show('o', base, 'o'); show('t', tgt, 't')
elif sys.argv[1] == 'remove':
    remove(base, 'o')
base.close(); tgt.close(); c.shutdown()
";

/// A client that does not know of a pause yet; what it sends is answered. One that knows waits.
const PAUSE: &str = r"
import rados, subprocess
c = rados.Rados(conffile='ceph.conf'); c.connect(); i = c.open_ioctx('rbd')
i.write_full('a', b'1')
subprocess.run(['ceph', 'osd', 'pause'], check=True, capture_output=True)
early = i.aio_write_full('a', b'2'); early.wait_for_complete()
d = rados.Rados(conffile='ceph.conf'); d.connect(); j = d.open_ioctx('rbd')
late = j.aio_write_full('a', b'3')
print(early.get_return_value(), late.is_complete())
subprocess.run(['ceph', 'osd', 'unpause'], check=True, capture_output=True)
late.wait_for_complete()
print(late.get_return_value(), i.read('a'))
for ioctx, cluster in ((i, c), (j, d)):
    ioctx.close(); cluster.shutdown()
";

#[test]
fn a_pause_is_kept_by_clients_alone() {
    let c = Cluster::start();
    std::fs::write(c.dir().join("pause.py"), PAUSE).unwrap();
    assert_eq!(c.sh("timeout 300 /usr/bin/python3 pause.py").out, "0 False\n0 b'3'\n");
}
