//! Secret keys of both types, as clients meet them: beside each other, rotated, revoked, wiped.

use crate::cluster::{self, Cluster, load::Load, say_skipped};

/// True when the clients are new enough for `aes256k` keys; else a client of our own stands for them.
fn is_new(c: &Cluster) -> bool {
    c.run("ceph-authtool --gen-print-key --key-type aes256k").code == 0
}

#[test]
fn clients_with_keys_of_both_types_share_a_cluster() {
    let c = Cluster::start_with(3, &[]);
    c.sh("ceph auth get-or-create client.k mon 'profile rbd' osd 'profile rbd' --key-type aes256k -o k.keyring");
    c.sh("ceph auth caps client.k mon 'allow *' osd 'allow *' mgr 'allow *'");
    c.sh("sed 's#^keyring.*#keyring = k.keyring#' ceph.conf > k.conf");
    assert!(c.sh("cat k.keyring").out.contains("key = Ag") && c.sh("cat keyring").out.contains("key = AQ"));
    let bench = "--client k --depth 4 --seconds 1 --objects 4 --object-size 64K";
    c.sh(&format!("{} bench --conf k.conf {bench}", env!("CARGO_BIN_EXE_loligo")));
    let is_new = is_new(&c);
    if !is_new {
        say_skipped("keys", "stock clients here know no keys of type aes256k: only loligo bench uses one");
    }
    for mode in ["crc", "secure"] {
        let with = format!("-n client.k --ms_client_mode={mode} --ms_mon_client_mode={mode}");
        let commands = [
            format!("ceph {with} -s"),
            format!(
                "rados {with} -p rbd put o k.conf && rados {with} -p rbd get o o.{mode} && cmp k.conf o.{mode}"
            ),
            format!(
                "rbd {with} create --size 8M i.{mode} && rbd {with} bench --io-type write --io-total 1M i.{mode}"
            ),
        ];
        for command in commands.iter().filter(|_| is_new) {
            c.sh(&format!("export CEPH_CONF=$PWD/k.conf; {command}"));
        }
        // A client that knows only `aes` keys beside it.
        c.sh(&format!("rados --ms_client_mode={mode} --ms_mon_client_mode={mode} -p rbd put old k.conf"));
    }
}

#[test]
fn rotation_and_revocation_take_effect() {
    let c = Cluster::start_with(3, &[]);
    c.sh("ceph auth get-or-create client.r mon 'profile rbd' osd 'profile rbd' -o old.keyring");
    c.sh("rbd -n client.r --keyring old.keyring create --size 1M i");
    c.sh("ceph auth rotate client.r -o new.keyring");
    assert_ne!(c.run("rbd -n client.r --keyring old.keyring ls").code, 0);
    c.sh("rbd -n client.r --keyring new.keyring info i");
    // All tickets for services become void at once; connected clients go on, and new ones are let in.
    let mut load = Load::start(&c, "rbd", 1, "rados bench -p rbd 6 write -b 4096 -t 2 --no-cleanup");
    load.wait_for_writes(&c, 1);
    c.sh("ceph auth wipe-rotating-service-keys");
    c.sh("rados -p rbd put o new.keyring && rbd -n client.r --keyring new.keyring info i");
    load.assert_running(&c);
    load.finish(&c);
    // An operator who would lock themselves out by forbidding `aes` keys is told so.
    let locked = c.run("ceph mon set auth_allowed_ciphers aes256k");
    assert!(
        locked.code == 22 && locked.err.contains("has a key of type aes: rotate it first"),
        "{}",
        locked.err
    );
    c.sh("ceph auth caps client.r mon 'profile rbd'");
    assert_ne!(c.run("timeout 20 rbd -n client.r --keyring new.keyring info i").code, 0, "no right on OSDs");
    c.sh("ceph auth rm client.r");
    assert_ne!(c.run("rbd -n client.r --keyring new.keyring ls").code, 0);
}

#[test]
fn a_cluster_can_be_for_newer_clients_alone() {
    let dir = cluster::temp_dir();
    let path = dir.display();
    std::fs::write(dir.join("ceph.conf"), format!(
        "[global]\nfsid = 1e1d1b8e-7c5b-4b0a-9d8f-6c6c0c3e4c11\nmon host = v2:127.0.0.1:1\nkeyring = {path}/keyring\n[mon.a]\nmon data = {path}/mon.a\n"
    )).unwrap();
    let mkfs = |extra: &str| {
        let command = format!("{} mkfs mon --id a --conf ceph.conf {extra}", env!("CARGO_BIN_EXE_loligo"));
        cluster::run_in(&dir, &command, std::time::Duration::from_secs(120))
    };
    std::fs::write(dir.join("keyring"), "[client.admin]\n\tkey = AQAQuQBrA94mIBAAo+GWtvvESSLUPpNJ+huiaA==\n")
        .unwrap();
    let refused = mkfs("--key-type aes256k");
    assert!(refused.code != 0 && refused.err.contains("it would not be let in"), "{}", refused.err);
    std::fs::remove_file(dir.join("keyring")).unwrap();
    let made = mkfs("--key-type aes256k");
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(std::fs::read_to_string(dir.join("keyring")).unwrap().contains("key = Ag"));
    assert_ne!(mkfs("--key-type des").code, 0);
    std::fs::remove_dir_all(&dir).unwrap();
}
