//! The last copy of a PG, taken from an OSD that is not to start any more.

use std::{fs, os::unix::fs::FileExt, time::Duration};

use crate::cluster::{Cluster, LOLIGO};

const LIMIT: Duration = Duration::from_secs(120);

/// What clients see of the pool.
fn seen(c: &Cluster) -> String {
    let names = c.sh("rados -p one ls | sort").out;
    let mut seen = names.clone();
    for name in ["big", "far", "small"] {
        seen += &c.sh(&format!("rados -p one get {name} got; md5sum < got; rados -p one stat {name}")).out;
        seen +=
            &c.sh(&format!("rados -p one listxattr {name}; rados -p one getxattr {name} color || true")).out;
        seen += &c.sh(&format!("rados -p one listomapvals {name}; rados -p one getomapheader {name}")).out;
    }
    seen + &c.sh("rados -p one -s before get big old; md5sum < old").out
}

/// Neither a part of the file, nor a store of another cluster for all of it; the file is whole afterwards.
fn refuse_what_is_no_copy_of_the_cluster(c: &Cluster, import: &str) {
    let bytes = fs::read(c.dir().join("copy")).unwrap();
    for broken in [bytes.len() / 2, bytes.len() - 1] {
        fs::write(c.dir().join("copy"), &bytes[..broken]).unwrap();
        let short = c.run(import);
        assert!(short.code == 1 && short.err.contains("it ends too early"), "{}", short.err);
    }
    fs::write(c.dir().join("copy"), &bytes).unwrap();
    // A store of another cluster.
    let conf = "[global]\nfsid = 6e1f6a8e-54b1-4d4f-9c7b-b7c6c9fb9d36\n[osd]\nosd data = other.$id\n";
    fs::write(c.dir().join("other.conf"), conf).unwrap();
    c.sh(&format!("{LOLIGO} mkfs osd --id 7 --conf other.conf --size 512M"));
    let other = c.run(&format!("{LOLIGO} store import -c other.conf --id 7 copy"));
    assert!(other.err.contains("it is of cluster "), "{}", other.err);
}

/// Of an OSD whose journal is damaged, what came after is not there, newer maps perhaps among it. Damage near the end
/// would be taken for writes that the kill cut off.
fn refuse_what_a_damaged_journal_hides(c: &Cluster, osd: i64, export: &str, device: &fs::File) {
    let journal = c.json(&format!("{LOLIGO} store dump -c ceph.conf --id {osd} --journal"));
    let records = journal["journal"].as_array().unwrap();
    assert!(records.len() > 100, "{records:?}");
    device.write_all_at(&[7; 4096], records[records.len() - 50]["offset"].as_u64().unwrap()).unwrap();
    let refused = c.run(&format!("{export} hidden"));
    assert!(refused.code == 1 && refused.err.contains("--despite-damage"), "{}", refused.err);
    let maps = c.run(&format!("{LOLIGO} store maps -c ceph.conf --id {osd}"));
    assert!(maps.code == 1 && maps.err.contains("may be old"), "{} {}", maps.out, maps.err);
    let hidden = c.sh(&format!("{export} hidden --despite-damage"));
    assert!(hidden.out.contains("some of it may be missing or old: "), "{}", hidden.out);
}

#[test]
fn a_pg_is_what_it_was_once_another_osd_has_taken_its_last_copy_in() {
    let mut c = Cluster::start_with(4, &["--separate"]);
    c.sh("ceph config set mon mon_allow_pool_size_one true");
    c.sh("ceph osd pool create one 1 && ceph osd pool set one size 1 --yes-i-really-mean-it");
    c.sh("head -c 9000001 /dev/urandom > data && rados -p one put big data && rados -p one mksnap before");
    c.sh("echo changed | rados -p one put big - --offset 5000000");
    c.sh("rados -p one truncate far 70000 && echo hi | rados -p one put far - --offset 12288");
    c.sh("echo hi | rados -p one put small - && rados -p one setxattr small color blue");
    c.sh("rados -p one setomapheader small head && for i in $(seq 20); do rados -p one setomapval small k$i v$i; done");
    c.sh("rados -p one bench 20 write -b 64 -t 32 --max-objects 1200 --no-cleanup");
    let before = seen(&c);
    let pg = format!(
        "{}.0",
        c.json("ceph osd pool ls detail --format json").as_array().unwrap().last().unwrap()["pool_id"]
    );
    let mapped =
        |c: &Cluster| c.json(&format!("ceph pg map {pg} --format json"))["acting"][0].as_i64().unwrap();
    let old = mapped(&c);
    c.kill(&format!("osd.{old}"));
    c.sh(&format!("ceph osd down {old} && ceph osd out {old}"));
    c.wait("another primary", LIMIT, |c| mapped(c) != old);
    let export = format!("{LOLIGO} store export -c ceph.conf --id {old} --pg {pg}");
    let told = c.sh(&format!("{export} copy"));
    assert!(told.out.contains(&format!("PG {pg} of osd.{old} at OSD map ")), "{}", told.out);
    let again = c.run(&format!("{export} copy"));
    assert!(again.code == 1 && again.err.contains("exists"), "{}", again.err);
    let unknown = c.run(&format!("{LOLIGO} store export -c ceph.conf --id {old} --pg 99.0 other"));
    assert!(unknown.err.contains("the OSD has no copy of PG 99.0"), "{}", unknown.err);

    // The same with an object that is damaged.
    let dump = format!("{LOLIGO} store dump -c ceph.conf --id {old} --object big");
    let objects = c.json(&dump)["collections"].as_array().unwrap().clone();
    let big = objects.iter().flat_map(|coll| coll["objects"].as_array().unwrap()).next().unwrap();
    let place = big["extents"][0]["device_offset"].as_u64().unwrap();
    let device = fs::File::options().write(true).open(c.dir().join(format!("osd.{old}/block"))).unwrap();
    device.write_all_at(b"not what it was", place + 17).unwrap();
    let lacking = c.sh(&format!("{export} lacking"));
    assert!(
        lacking.out.contains("missing in it: ") && lacking.out.contains("checksum mismatch"),
        "{}",
        lacking.out
    );

    refuse_what_a_damaged_journal_hides(&c, old, &export, &device);

    // An OSD that does not lead the PG has no copy of it.
    let new = (0..4).find(|osd| *osd != old && *osd != mapped(&c)).unwrap();
    let import = format!("{LOLIGO} store import -c ceph.conf --id {new} copy");
    let busy = c.run(&import);
    assert!(busy.err.contains("stop its OSD"), "{}", busy.err);
    c.kill(&format!("osd.{new}"));
    refuse_what_is_no_copy_of_the_cluster(&c, &import);
    c.sh(&import);
    let twice = c.run(&import);
    assert!(twice.err.contains(&format!("the OSD has a copy of PG {pg}")), "{}", twice.err);
    let sound = c.run(&format!("{LOLIGO} store fsck --id {new} -c ceph.conf --deep"));
    assert_eq!(sound.code, 0, "{} {}", sound.out, sound.err);
    c.restart(&format!("osd.{new}"));
    c.wait_up_osds(3);
    c.sh(&format!("ceph osd lost {old} --yes-i-really-mean-it"));
    c.wait("the PG is clean", LIMIT, |c| {
        c.json(&format!("ceph pg {pg} query --format json"))["state"] == "active+clean"
    });
    assert_eq!(seen(&c), before);
}
