//! A cluster made by hand from a ceph.conf, as README shows it, but on loopback addresses: `loligo mkfs`, `loligo
//! mon`, `loligo osd`; with cephx and without, in crc and secure mode.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::cluster::{LOLIGO, free_port, is_done_within, run_in, temp_dir};

/// Daemons started one by one; ended, by pid, when it is dropped.
struct ByHand {
    dir: PathBuf,
    daemons: Vec<Child>,
}

impl ByHand {
    /// A ceph.conf for three "machines": one OSD takes the monitor's, the others have a loopback address each, and one
    /// another for other OSDs.
    fn new(auth: &str) -> ByHand {
        let dir = temp_dir();
        let port = free_port();
        let dir_text = dir.display();
        fs::write(
            dir.join("ceph.conf"),
            format!(
                "[global]\nfsid = 6e1f6a8e-54b1-4d4f-9c7b-b7c6c9fb9d36\nmon host = 127.0.0.1:{port}\n\
                 auth_cluster_required = {auth}\nauth-service-required = {auth}\nauth client required = {auth}\n\
                 keyring = {dir_text}/admin.keyring\nrun dir = {dir_text}\nosd crush chooseleaf type = 0\n\
                 [mon]\nmon data = {dir_text}/mon.$id\nmon data avail warn = 1\nmon data avail crit = 0\n\
                 [osd]\nosd data = {dir_text}/osd.$id ; a comment\nlog file = {dir_text}/$name.log\n\
                 [osd.1]\npublic addr = 127.0.0.3\n[osd.2]\npublic addr = 127.0.0.4\ncluster addr = 127.0.0.5\n"
            ),
        )
        .unwrap();
        let mut made = ByHand { dir, daemons: Vec::new() };
        made.sh(&format!("{LOLIGO} mkfs mon --id a --conf ceph.conf"));
        made.serve("mon", "a");
        for id in ["0", "1", "2"] {
            made.sh(&format!("mkdir osd.{id}"));
            made.sh(&format!(
                "ceph auth get-or-create osd.{id} mon 'allow profile osd' osd 'allow *' -o osd.{id}/keyring"
            ));
            made.sh(&format!("{LOLIGO} mkfs osd --id {id} --conf ceph.conf --size 512M"));
            made.serve("osd", id);
        }
        made.sh("ceph osd pool create rbd 16");
        made.sh("rbd pool init rbd");
        let is_healthy = || made.sh("ceph health").contains("HEALTH_OK");
        assert!(is_done_within(Duration::from_secs(180), is_healthy), "{}", made.sh("ceph -s"));
        made
    }

    fn serve(&mut self, kind: &str, id: &str) {
        let log = fs::File::create(self.dir.join(format!("{kind}.{id}.stderr"))).unwrap();
        let child = Command::new(LOLIGO)
            .args([kind, "--id", id, "--conf", "ceph.conf"])
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.daemons.push(child);
    }

    /// Runs a shell command that must succeed; what it printed.
    fn sh(&self, command: &str) -> String {
        let ran = run_in(&self.dir, command, Duration::from_secs(180));
        assert_eq!(ran.code, 0, "{command}: {}\n{}", ran.out, ran.err);
        ran.out
    }

    fn data_survives(&self, client_options: &str) {
        self.sh("head -c 3000000 /dev/urandom > data");
        self.sh(&format!(
            "rbd {client_options} import data img; rbd {client_options} export img - | cmp - data"
        ));
        self.sh(&format!("rbd {client_options} rm img"));
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        for child in self.daemons.iter_mut().rev() {
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_cluster_made_by_hand_serves_with_cephx_in_both_modes() {
    let c = ByHand::new("cephx");
    c.data_survives("--ms_client_mode crc");
    c.data_survives("--ms_client_mode secure --ms_mon_client_mode secure");
    let map = c.sh("ceph osd dump");
    let addrs = |osd: &str| {
        let line = map.lines().find(|line| line.starts_with(osd)).unwrap();
        line.split("v2:").skip(1).map(|rest| rest.split_once(':').unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(addrs("osd.0 "), ["127.0.0.1", "127.0.0.1"], "{map}");
    assert_eq!(addrs("osd.1 "), ["127.0.0.3", "127.0.0.3"], "{map}");
    assert_eq!(addrs("osd.2 "), ["127.0.0.4", "127.0.0.5"], "{map}");
    let nobody = run_in(&c.dir, "ceph --connect-timeout 10 -n client.nobody -s", Duration::from_secs(60));
    assert!(nobody.code != 0, "{}", nobody.out);
}

#[test]
fn a_cluster_made_by_hand_serves_without_authentication() {
    let c = ByHand::new("none");
    c.data_survives("");
    fs::remove_file(c.dir.join("admin.keyring")).unwrap();
    c.data_survives("");
}

#[test]
fn errors_say_what_to_do() {
    let dir = temp_dir();
    let cases = [
        ("mon --id a --conf nosuch.conf", "give it with --conf or CEPH_CONF"),
        ("mkfs mon --id a --conf empty.conf", "ceph.conf has no `fsid` for mon.a: add it"),
        ("osd --id 0 --conf no-data.conf", "run `loligo mkfs osd --id 0` first"),
        ("up --data up --size 20Q", "a size ends with K, M, G or T"),
    ];
    fs::write(dir.join("empty.conf"), "").unwrap();
    fs::write(dir.join("no-data.conf"), format!("[osd]\nosd data = {}/none\n", dir.display())).unwrap();
    for (arguments, expected) in cases {
        let ran = run_in(&dir, &format!("{LOLIGO} {arguments}"), Duration::from_secs(60));
        assert!(ran.code != 0 && ran.err.contains(expected), "{arguments}: {} {}", ran.code, ran.err);
    }
    fs::remove_dir_all(dir).unwrap();
}
