//! The stock `ceph` command against a real monitor: every command answers, bad ones are refused, and
//! strangers on the port change nothing.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use crate::cluster::Cluster;

/// Commands that must succeed, in this order, plain; those that only show are asked for JSON, too.
const SHOW: &[&str] = &[
    "-s",
    "health detail",
    "df",
    "df detail",
    "mon dump",
    "mon stat",
    "quorum_status",
    "osd tree",
    "osd dump",
    "osd stat",
    "osd df",
    "osd ls",
    "osd find 0",
    "osd metadata 0",
    "osd map rbd foo",
    "osd lspools",
    "osd pool ls detail",
    "osd pool get rbd all",
    "osd pool stats",
    "osd crush tree",
    "osd crush rule ls",
    "osd crush rule dump",
    "osd info",
    "osd blocked-by",
    "osd utilization",
    "osd ok-to-stop 0",
    "osd df tree",
    "pg ls",
    "pg dump sum",
    "mon metadata",
    "mgr module ls",
    "node ls",
    "tell osd.0 config show",
    "pg stat",
    "pg dump",
    "auth ls",
    "config dump",
    "versions",
    "features",
    "fsid",
    "time-sync-status",
];

const CHANGE: &[&str] = &[
    "osd pool create tp 8 8",
    "osd pool application enable tp rados",
    "osd pool set tp min_size 1",
    "osd pool rename tp tq",
    "osd pool rm tq tq --yes-i-really-really-mean-it",
    "osd set noout",
    "osd unset noout",
    "osd out 2",
    "osd in 2",
    "osd reweight 2 0.9",
    "osd reweight 2 1",
    "osd crush rule create-replicated r2 default osd",
    "osd crush add-bucket h2 host",
    "osd crush move h2 root=default",
    "osd blocklist add 127.0.0.1:0/12345",
    "osd blocklist rm 127.0.0.1:0/12345",
    "osd getmap -o osdmap.bin",
    "osd getcrushmap -o crush.bin",
    "osd setcrushmap -i crush.bin",
    "auth get-or-create client.t1 mon 'profile rbd' osd 'profile rbd pool=rbd'",
    "auth get client.t1",
    "auth get-key client.t1",
    "auth caps client.t1 mon 'allow r' osd 'allow r'",
    "auth rm client.t1",
    "config set client rbd_cache false",
    "config get client rbd_cache",
    "config rm client rbd_cache",
    "config-key set k v",
    "config-key get k",
    "config-key rm k",
    "log hello",
    "tell osd.0 version",
];

#[test]
fn commands_answer_as_in_ceph() {
    let c = Cluster::start();
    assert!(c.sh("ceph --help").out.contains("osd pool create"));
    for command in SHOW {
        assert!(!c.sh(&format!("ceph {command}")).out.trim().is_empty(), "{command} prints something");
        let _parsed = c.json(&format!("ceph {command}"));
    }
    for command in CHANGE {
        c.sh(&format!("ceph {command}"));
    }
    c.sh("osdmaptool osdmap.bin --print; crushtool -d crush.bin");
    for (command, code, text) in [
        ("ceph osd pool rm nosuch nosuch --yes-i-really-really-mean-it", 0, "does not exist"),
        ("ceph osd pool get nosuch size", 2, "ENOENT"),
        ("ceph osd crush rule rm nosuch", 0, "does not exist"),
        ("ceph nonsense", 22, "EINVAL"),
    ] {
        let ran = c.run(command);
        assert_eq!((ran.code, ran.err.contains(text)), (code, true), "{command}: {}", ran.err);
    }
    c.wait_healthy();
}

/// What Ceph tells of its own store, of its containers and of links that are measured; nothing of it exists
/// here.
const ABSENT: &[&str] = &[
    "back_iface",
    "bluefs",
    "bluestore_bdev_block_size",
    "bluestore_bdev_driver",
    "bluestore_min_alloc_size",
    "ceph_version_when_created",
    "compression_algorithms",
    "container_name",
    "created_at",
    "device_ids",
    "device_paths",
    "devices",
    "front_iface",
    "network_numa_unknown_ifaces",
    "network_ping_times",
    "objectstore_numa_unknown_devices",
    "osdspec_affinity",
];

/// Every path below `value`: `nodes[].id`.
fn paths(value: &serde_json::Value, at: &str, out: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                paths(value, &path, out);
                out.insert(path);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{at}[]"), out)),
        _ => {}
    }
}

#[test]
fn json_has_every_key_of_ceph() {
    let c = Cluster::start();
    c.sh("rados -p rbd put object /etc/os-release; rados -p rbd rm object");
    let pgid = c.json("ceph pg ls")["pg_stats"][0]["pgid"].as_str().unwrap().to_owned();
    let mut missing = Vec::new();
    for line in include_str!("data/ceph_keys.tsv").lines().filter(|line| !line.starts_with('#')) {
        let (command, keys) = line.split_once('\t').unwrap();
        let command = command.replace("{pgid}", &pgid);
        // Some refuse, and answer in the document all the same.
        let ran = c.run(&format!("ceph {command} --format json"));
        let Ok(value) = serde_json::from_str(&ran.out) else {
            missing.push(format!("{command}: {}{}", ran.out, ran.err));
            continue;
        };
        let mut ours = BTreeSet::new();
        paths(&value, "", &mut ours);
        let is_absent = |key: &str| ABSENT.iter().any(|absent| key.contains(absent));
        let lacking = keys.split(' ').filter(|key| !ours.contains(*key) && !is_absent(key));
        missing.extend(lacking.map(|key| format!("{command}: {key}")));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn strangers_change_nothing() {
    let c = Cluster::start();
    let port = |name: &str| -> u16 {
        let dump = c.json("ceph osd dump");
        match name {
            "mon" => c.json("ceph mon dump")["mons"][0]["public_addrs"]["addrvec"][0]["addr"].clone(),
            _ => dump["osds"][0]["public_addrs"]["addrvec"][0]["addr"].clone(),
        }
        .as_str()
        .and_then(|addr| addr.rsplit(':').next()?.parse().ok())
        .unwrap()
    };
    let banner = b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let huge = [&banner[..], &[1, 1, 255, 255, 255, 255], &[0; 26]].concat();
    let noise: Vec<u8> = (0..5_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut half_open = Vec::new();
    for port in [port("mon"), port("osd")] {
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &noise, &huge, &[&banner[..], &noise].concat()] {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // The daemon may close before it took everything.
            let _ = stream.write_all(bytes);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
        }
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(banner).unwrap();
        half_open.push(stream);
    }
    let wrong = c.dir().join("wrong.keyring");
    std::fs::write(&wrong, "[client.admin]\n\tkey = AQAQuQBrA94mIBAAo+GWtvvESSLUPpNJ+huiaA==\n").unwrap();
    let denied = c.run(&format!("ceph --connect-timeout 10 -k {} -s", wrong.display()));
    assert!(denied.code != 0, "{}", denied.out);
    let nobody = c.run("ceph --connect-timeout 10 -n client.nobody -s");
    assert!(nobody.code != 0, "{}", nobody.out);
    c.sh("echo ok > x; rados -p rbd put x x; rados -p rbd get x -");
    c.wait_healthy();
}

#[test]
fn commands_to_the_manager_get_an_answer() {
    let c = Cluster::start();
    let empty = c.sh("timeout 120 rbd trash purge schedule ls -R < /dev/null").out;
    assert_eq!(empty, "POOL  NAMESPACE  SCHEDULE\n");
    c.sh("timeout 120 rbd trash purge schedule add -p rbd 1d < /dev/null");
    let listed = c.sh("timeout 120 rbd trash purge schedule ls -p rbd < /dev/null").out;
    assert!(listed.contains("every 1d"), "{listed}");
    let ran = c.run("timeout 120 rbd trash purge schedule add -p rbd soon < /dev/null");
    assert_eq!(ran.code, 22, "{}", ran.err);
    assert!(c.sh("timeout 120 ceph tell mgr pg stat").out.contains("pgs:"));
    assert_eq!(c.json("ceph mgr dump")["available"], true);
    // A key without a capability on the manager.
    c.sh("ceph auth get-or-create client.y mon 'allow r' -o y.keyring");
    let ran = c.run("timeout 120 ceph -n client.y --keyring y.keyring tell mgr pg stat");
    assert_ne!(ran.code, 0);
}
