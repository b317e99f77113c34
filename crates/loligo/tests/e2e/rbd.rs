//! The stock `rbd`, fio's rbd engine, qemu-img and python-rbd against real daemons.

use crate::cluster::Cluster;

#[test]
fn images_with_all_default_features_live_their_lives() {
    let c = Cluster::start();
    c.sh("rbd create --size 64M img");
    let info = c.json("rbd info img");
    for feature in ["layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten"] {
        assert!(info["features"].as_array().unwrap().iter().any(|f| f == feature), "{info}");
    }
    assert!(c.sh("rbd ls -l").out.contains("img"));
    c.sh("rbd bench --io-type write --io-size 4K --io-total 1M --io-threads 4 img");
    c.sh("rbd resize --size 128M img; rbd resize --size 96M --allow-shrink img");
    assert_eq!(c.json("rbd info img")["size"], 96 << 20);
    assert!(c.sh("rbd du img").out.contains("96 MiB"));
    c.sh("head -c 20000000 /dev/urandom > raw; rbd import raw imp; rbd export imp back; cmp raw back");
    c.sh("rbd snap create imp@s1; rbd bench --io-type write --io-size 64K --io-total 4M imp");
    assert_eq!(c.json("rbd snap ls imp").as_array().unwrap().len(), 1);
    c.sh("rbd export imp@s1 old; cmp raw old; rbd snap rollback imp@s1; rbd export imp again; cmp raw again");
    c.sh("rbd snap rm imp@s1; rbd status imp; rbd lock add img l1");
    let locks = c.json("rbd lock ls img");
    let locker = locks[0]["locker"].as_str().unwrap().to_owned();
    c.sh(&format!("rbd lock rm img l1 {locker}"));
    c.sh("rbd rm imp; rbd rm img");
    assert_eq!(c.sh("rbd ls").out, "");
    assert!(c.run("rbd info img").code == 2);
}

#[test]
fn fio_verifies_what_it_wrote_at_every_depth() {
    let c = Cluster::start();
    c.sh("rbd create --size 256M fio");
    for depth in [1, 16, 64] {
        c.sh(&format!(
            "fio --name=v --ioengine=rbd --clientname=admin --pool=rbd --rbdname=fio --rw=randwrite --bs=4k \
             --size=16M --iodepth={depth} --verify=crc32c --do_verify=1 --verify_fatal=1 \
             --verify_state_save=0"
        ));
    }
    c.sh("fio --name=b --ioengine=rbd --clientname=admin --pool=rbd --rbdname=fio --rw=write --bs=4M \
          --size=128M --iodepth=4 --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0");
}

#[test]
fn qemu_images_convert_and_compare() {
    let c = Cluster::start();
    c.sh("head -c 30000000 /dev/urandom > raw; truncate -s 32M raw");
    let conf = c.conf().display().to_string();
    c.sh(&format!("qemu-img create -f raw rbd:rbd/q1:conf={conf} 16M"));
    c.sh(&format!("qemu-img info rbd:rbd/q1:conf={conf}"));
    c.sh(&format!("qemu-img convert -f raw -O raw raw rbd:rbd/q2:conf={conf}"));
    c.sh(&format!("qemu-img compare -f raw -F raw raw rbd:rbd/q2:conf={conf}"));
    c.sh(&format!("qemu-img convert -f raw -O raw rbd:rbd/q2:conf={conf} back; cmp raw back"));
}

#[test]
fn two_clients_hand_over_the_exclusive_lock() {
    let c = Cluster::start();
    c.sh("rbd create --size 32M img");
    std::fs::write(c.dir().join("handover.py"), HANDOVER).unwrap();
    assert_eq!(c.sh("timeout 300 /usr/bin/python3 handover.py").out, "ok\n");
}

/// Two librbd clients write in turn: the lock goes over each time.
const HANDOVER: &str = r"
import rados, rbd, os
def connect():
    c = rados.Rados(conffile=os.environ['CEPH_CONF']); c.connect(); return c, c.open_ioctx('rbd')
a, ioa = connect(); b, iob = connect()
ia, ib = rbd.Image(ioa, 'img'), rbd.Image(iob, 'img')
for n in range(3):
    ia.write(b'a' * 4096, 0)
    assert ib.read(0, 4096) == b'a' * 4096
    ib.write(b'b' * 4096, 0)
    assert ia.read(0, 4096) == b'b' * 4096
ia.close(); ib.close()
with rbd.Image(ioa, 'img') as image:
    image.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
    assert image.is_exclusive_lock_owner()
a.shutdown(); b.shutdown()
print('ok')
";

/// Headers, owners, names, locks, maps of objects: `two_clients.py` passes beside 16.2.15, too.
#[test]
fn what_one_client_does_another_sees() {
    let c = Cluster::start();
    std::fs::write(c.dir().join("two_clients.py"), include_str!("data/two_clients.py")).unwrap();
    assert_eq!(c.sh("timeout 300 /usr/bin/python3 two_clients.py").out, "ok\n");
}

#[test]
fn a_client_whose_lock_was_broken_is_shut_out() {
    let c = Cluster::start();
    c.sh("rbd create --size 32M img");
    std::fs::write(c.dir().join("breaking.py"), BREAKING).unwrap();
    assert_eq!(c.sh("timeout 300 /usr/bin/python3 breaking.py").out, "ok\n");
    assert_eq!(c.json("ceph osd blocklist ls").as_array().unwrap().len(), 1);
}

/// One librbd client breaks the other's lock. That puts the other on the blocklist, in force for its very next
/// op, of whatever kind (ESHUTDOWN, as with Ceph), and what it wrote before is there.
const BREAKING: &str = r"
import rados, rbd, os, errno
def connect():
    c = rados.Rados(conffile=os.environ['CEPH_CONF']); c.connect(); return c, c.open_ioctx('rbd')
a, ioa = connect(); b, iob = connect()
ia, ib = rbd.Image(ioa, 'img'), rbd.Image(iob, 'img')
ia.write(b'a' * 4096, 0)
owner = list(ib.lock_get_owners())[0]
ib.lock_break(owner['mode'], owner['owner'])
for op in [lambda: ia.write(b'c' * 4096, 0), lambda: ia.read(0, 4), lambda: ioa.write_full('o', b'x')]:
    try: op(); raise Exception('not refused')
    except (rbd.Error, rados.Error) as e: assert e.errno == errno.ESHUTDOWN, e
ib.write(b'b' * 4096, 4096)
assert ib.is_exclusive_lock_owner()
assert ib.read(0, 8192) == b'a' * 4096 + b'b' * 4096
ib.close()
print('ok', flush=True)
os._exit(0)
";
