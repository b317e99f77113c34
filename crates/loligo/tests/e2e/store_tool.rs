//! `loligo store` on real files: stores of OSDs that do not run, sound and damaged.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::cluster::{Cluster, LOLIGO, Ran, run_in, temp_dir};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(600);

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
    assert_eq!(damaged.code, 0, "the other one counts");
    assert!(damaged.out.contains("note: superblock copy A at byte 0 "), "{}", damaged.out);
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
        if round["target"] == "store" {
            let sum_of = |parts: &Value| -> u64 {
                let parts = parts
                    .as_object()
                    .map(|all| all.values().cloned().collect())
                    .or(parts.as_array().cloned());
                parts.unwrap().iter().map(|part| part["requests"].as_u64().unwrap()).sum()
            };
            assert_eq!(Some(sum_of(&round["while"])), round["requests"].as_u64(), "{round}");
            assert_eq!(Some(sum_of(&round["curve"])), round["requests"].as_u64(), "{round}");
        }
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
    // So many that pages of the index hold nothing else.
    c.sh("ceph osd pool create many 1; rados -p many bench 60 write -b 16 -t 64 --max-objects 400 --no-cleanup");
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
    let many = &dump("--collection 2.0 --objects")["collections"][0];
    let bytes: u64 =
        many["objects"].as_array().unwrap().iter().filter_map(|each| each["size"].as_u64()).sum();
    assert!(
        many["object_count"].as_u64().unwrap() >= 400 && many["bytes"].as_u64() == Some(bytes),
        "{bytes}"
    );
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

#[test]
fn a_missing_or_swapped_fast_device_is_refused() {
    let alone = Alone::new();
    for id in [8, 9] {
        let made = alone.run(&format!(
            "mkfs osd --id {id} --conf ceph.conf --size 512M --journal-device j{id} --index-device i{id}"
        ));
        assert_eq!(made.code, 0, "{}", made.err);
    }
    let fsck = |id: u32| alone.run(&format!("store fsck --id {id} --conf ceph.conf --deep"));
    assert_eq!(fsck(8).code, 0);
    let dump = alone.run("store dump --id 8 --conf ceph.conf --format json");
    let doc: Value = serde_json::from_str(&dump.out).unwrap();
    assert_eq!(
        (&doc["superblock"]["journal"]["device"], &doc["superblock"]["index_area"]["device"]),
        (&Value::from("journal"), &Value::from("index"))
    );
    let by_path = alone.run("store fsck --device osd.8/block --journal-device j8 --index-device i8");
    assert_eq!(by_path.code, 0, "{} {}", by_path.out, by_path.err);
    for (of_8, of_9) in [("j8", "j9"), ("i8", "i9")] {
        let swap = format!("mv {of_8} x; mv {of_9} {of_8}; mv x {of_9}");
        run_in(&alone.0, &swap, LIMIT);
        let wrong = fsck(8);
        assert!(
            wrong.code == 1 && wrong.out.contains("is of a store of osd.9"),
            "{} {}",
            wrong.out,
            wrong.err
        );
        run_in(&alone.0, &swap, LIMIT);
    }
    assert_eq!(fsck(9).code, 0);
    // With several reactors each store has a part of each device.
    let made = alone.run(
        "mkfs osd --id 6 --conf ceph.conf --size 512M --reactors 2 --journal-device j6 --index-device i6",
    );
    assert_eq!(made.code, 0, "{}", made.err);
    let used =
        alone.run("store bench --id 6 --conf ceph.conf --reactor 1 --depth 4 --seconds 0.1 --objects 4");
    assert_eq!(used.code, 0, "{}", used.err);
    assert_eq!(fsck(6).code, 0);
    fs::remove_file(alone.0.join("osd.8/journal")).unwrap();
    let missing = fsck(8);
    let words = "keeps its journal on a device of its own, and none is given";
    assert!(missing.code == 1 && missing.out.contains(words), "{} {}", missing.out, missing.err);
}

#[test]
fn a_cluster_with_fast_devices_survives_a_crash_and_grows() {
    let dir = temp_dir();
    let paths =
        |kind: &str| (0..3).map(|n| dir.join(format!("{kind}{n}")).display().to_string()).collect::<Vec<_>>();
    let (journals, indexes) = (paths("journal"), paths("index"));
    let mut extra = vec!["--separate", "--journal-device"];
    extra.extend(journals.iter().map(String::as_str));
    extra.push("--index-device");
    extra.extend(indexes.iter().map(String::as_str));
    let mut c = Cluster::start_with(3, &extra);
    c.sh("head -c 20000000 /dev/urandom > data; rbd import data img; rados -p rbd setomapval o key value");
    c.crash_all();
    c.sh("rbd export img - | cmp - data; rados -p rbd getomapval o key");
    let total = |c: &Cluster, osd: usize| c.json("ceph osd df")["nodes"][osd]["kb"].as_u64().unwrap();
    assert_eq!(total(&c, 0), 4 << 20);
    c.stop();
    c.sh("truncate -s 6G osd.0/block");
    c.up();
    c.wait("the new size", LIMIT, |c| total(c, 0) == 6 << 20 && total(c, 1) == 4 << 20);
    c.sh("rbd export img - | cmp - data");
    c.stop();
    for osd in 0..3 {
        let sound = c.run(&format!("{LOLIGO} store fsck --id {osd} -c ceph.conf --deep"));
        assert_eq!(sound.code, 0, "{} {}", sound.out, sound.err);
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_device_that_several_reactors_divide_grows() {
    let dir = temp_dir();
    let indexes = [0, 1, 2].map(|osd| dir.join(format!("index{osd}")).display().to_string());
    let mut extra = vec!["--separate", "--reactors", "2", "--size", "128M", "--index-device"];
    extra.extend(indexes.iter().map(String::as_str));
    let mut c = Cluster::start_with(3, &extra);
    let total = |c: &Cluster| c.json("ceph osd df")["nodes"][0]["kb"].as_u64().unwrap();
    assert_eq!(total(&c), 128 << 10);
    // Twice: each time less than a stripe for each reactor is left over. What is written then crosses stripes.
    c.sh("head -c 4194304 /dev/urandom > data");
    let put = |c: &Cluster, from: usize, to: usize| {
        c.sh(&format!("for n in $(seq {from} {to}); do (echo $n; cat data) | rados -p rbd put o$n -; done"));
    };
    put(&c, 1, 10);
    for (mib, grown, from, to) in [(254, 224, 11, 26), (351, 320, 27, 50)] {
        c.stop();
        let grow =
            format!("truncate -s {mib}M osd.*/block; truncate -s {}M {}/index*", mib / 2, dir.display());
        c.sh(&grow);
        c.up();
        c.wait("the new size", LIMIT, |c| total(c) == grown << 10);
        put(&c, from, to);
        c.crash_all();
        c.sh(&format!("for n in $(seq {to}); do rados -p rbd get o$n - | tail -n +2 | cmp - data; done"));
    }
    c.stop();
    for osd in 0..3 {
        let sound = c.run(&format!("{LOLIGO} store fsck --id {osd} -c ceph.conf --deep"));
        assert_eq!(sound.code, 0, "{} {}", sound.out, sound.err);
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_store_with_more_objects_than_memory_holds_keeps_to_its_memory() {
    // Their index (460 bytes each) has no room beside the rest of the process, whatever its allocator gives back.
    const OBJECTS: u64 = 200_000;
    const MEMORY: u64 = 192 << 20;
    // Pages that changed while objects are made leave with the next checkpoint only.
    const PEAK_MAX: u64 = MEMORY / 4 * 5;
    let dir = temp_dir();
    let line =
        format!("{LOLIGO} store objects --file many --objects {OBJECTS} --memory {MEMORY} --seconds 0.5");
    let ran = run_in(&dir, &line, LIMIT);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let out: Value = serde_json::from_str(&ran.out).unwrap();
    let rounds = out["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 4);
    for round in rounds {
        assert!(round["iops"].as_f64().unwrap() > 0.0, "{out:#}");
        let memory = &round["memory"];
        assert!(memory["peak_bytes"].as_u64().unwrap() <= PEAK_MAX, "{out:#}");
        assert!(memory["pages_in_memory"].as_u64() < memory["pages"].as_u64(), "{out:#}");
    }
    let read = |what: &str| out[what]["pages_read"].as_u64().unwrap();
    assert!(read("mount_after_stop") < rounds[0]["memory"]["pages"].as_u64().unwrap() / 4, "{out:#}");
    assert!(!dir.join("many").exists());
    fs::remove_dir_all(dir).unwrap();
}
