//! `loligo store` on real files: stores of OSDs that do not run, sound and damaged.

#![allow(clippy::unwrap_used, reason = "a test fails where it fails")]

mod cluster;

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use cluster::{Cluster, LOLIGO, Ran, run_in, temp_dir};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

/// Inverts a bit of a file.
fn flip(path: &Path, offset: u64) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
}

/// An empty store of one OSD, without a cluster.
struct Alone(PathBuf);

impl Alone {
    fn new() -> Alone {
        let dir = temp_dir();
        let text = format!(
            "[global]\nfsid = 6e1f6a8e-54b1-4d4f-9c7b-b7c6c9fb9d36\n[osd]\nosd data = {}/osd.$id\n",
            dir.display()
        );
        fs::write(dir.join("ceph.conf"), text).unwrap();
        let alone = Alone(dir);
        let made = alone.run("mkfs osd --id 7 --conf ceph.conf --size 512M");
        assert_eq!(made.code, 0, "{}", made.err);
        alone
    }

    fn run(&self, arguments: &str) -> Ran {
        run_in(&self.0, &format!("{LOLIGO} {arguments}"), LIMIT)
    }

    fn block(&self) -> PathBuf {
        self.0.join("osd.7/block")
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_new_store_is_sound_and_damage_is_named() {
    let alone = Alone::new();
    let sound = alone.run("store fsck --id 7 --conf ceph.conf --deep");
    assert!(sound.code == 0 && sound.out.contains("no problems"), "{} {}", sound.out, sound.err);
    let dump = alone.run("store dump --device osd.7/block --format json");
    let doc: Value = serde_json::from_str(&dump.out).unwrap();
    assert_eq!(doc["superblock"]["osd"], 7);
    assert_eq!(doc["superblock"]["fsid"], "6e1f6a8e-54b1-4d4f-9c7b-b7c6c9fb9d36");
    flip(&alone.block(), 100);
    let damaged = alone.run("store fsck --id 7 --conf ceph.conf");
    assert_eq!(damaged.code, 1);
    assert!(damaged.out.contains("problem: superblock copy A at byte 0 is damaged"), "{}", damaged.out);
    flip(&alone.block(), 16 * 4096 + 100);
    let json = alone.run("store fsck --id 7 --conf ceph.conf --format json");
    assert_eq!(json.code, 1);
    let doc: Value = serde_json::from_str(&json.out).unwrap();
    assert!(doc["problems"][0].as_str().unwrap().contains("no valid superblock"), "{doc}");
    assert_eq!(doc["is_sound"], false);
}

#[test]
fn the_store_is_measured_beside_its_device_and_left_as_it_was() {
    let alone = Alone::new();
    let ran = alone.run("store bench --id 7 --conf ceph.conf --depth 1,4 --seconds 0.2 --objects 8 --json");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let rounds: Value = serde_json::from_str(&ran.out).unwrap();
    let rounds = rounds.as_array().unwrap();
    assert_eq!(rounds.len(), 16, "four workloads, two depths, store and disk");
    for round in rounds {
        assert!(
            round["requests"].as_u64().unwrap() > 0 && round["p99_us"].as_f64().unwrap() > 0.0,
            "{round}"
        );
    }
    let sound = alone.run("store fsck --id 7 --conf ceph.conf --deep --format json");
    let doc: Value = serde_json::from_str(&sound.out).unwrap();
    assert_eq!((&doc["problems"], &doc["objects"]), (&serde_json::json!([]), &serde_json::json!(0)), "{doc}");
    let table = alone.run("store bench --device osd.7/block --depth 1 --seconds 0.1 --objects 2");
    assert!(table.out.contains("randwrite") && table.out.contains("disk"), "{} {}", table.out, table.err);
}

#[test]
fn the_store_of_an_osd_is_checked_and_shown_when_it_stopped() {
    let mut c = Cluster::start();
    c.sh("head -c 3000000 /dev/urandom > data; rados -p rbd put big data; echo hi > small; rados -p rbd put small small");
    c.sh("rados -p rbd setxattr small color blue; rados -p rbd setomapval small key value");
    let busy = c.run(&format!("{LOLIGO} store fsck --id 0 -c ceph.conf"));
    assert!(
        busy.code == 1 && busy.err.contains("is in use by another process: stop its OSD"),
        "{}",
        busy.err
    );
    c.stop();
    for osd in 0..3 {
        let sound = c.run(&format!("{LOLIGO} store fsck --id {osd} -c ceph.conf --deep"));
        assert_eq!(sound.code, 0, "{} {}", sound.out, sound.err);
    }
    let dump = |arguments: &str| -> Value {
        let ran = c.run(&format!("{LOLIGO} store dump --id 1 -c ceph.conf --format json {arguments}"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    };
    let object = |name: &str| -> Value {
        let doc = dump(&format!("--object {name}"));
        let colls = doc["collections"].as_array().unwrap();
        colls.iter().flat_map(|coll| coll["objects"].as_array().unwrap()).next().unwrap().clone()
    };
    let small = object("small");
    assert_eq!((&small["size"], &small["omap"]["key"]), (&Value::from(3), &Value::from("value")), "{small}");
    assert!(small["xattrs"].as_object().unwrap().keys().any(|name| name.contains("color")), "{small}");
    let colls = dump("--objects")["collections"].as_array().unwrap().len();
    assert!(colls > 32, "PGs and the OSD's own: {colls}");
    assert!(dump("--journal")["journal"].is_array());
    let text = c.run(&format!("{LOLIGO} store dump --id 1 -c ceph.conf --object small"));
    assert!(text.out.contains("size: 3\n") && text.out.contains("key: value\n"), "{}", text.out);
    let place = object("big")["extents"][0]["device_offset"].as_u64().unwrap();
    flip(&c.dir().join("osd.1/block"), place + 17);
    let shallow = c.run(&format!("{LOLIGO} store fsck --id 1 -c ceph.conf"));
    assert_eq!(shallow.code, 0, "{} {}", shallow.out, shallow.err);
    let deep = c.run(&format!("{LOLIGO} store fsck --id 1 -c ceph.conf --deep"));
    assert_eq!(deep.code, 1);
    let named = deep.out.lines().any(|line| {
        line.starts_with("problem: object")
            && line.contains("big")
            && line.contains("checksum mismatch at byte 0")
    });
    assert!(named, "{}", deep.out);
}
