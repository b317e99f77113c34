//! What operators do by hand, as Ceph's own command-line workunits do it: admin sockets, keys in files, flags and weights.

#![allow(clippy::unwrap_used, reason = "a test fails where it fails")]

mod cluster;

use std::time::Duration;

use cluster::Cluster;

#[test]
fn daemons_listen_at_admin_sockets() {
    let c = Cluster::start_with(3, &[]);
    let limit = "osd_bench_max_block_size";
    c.sh(&format!("ceph daemon osd.0 config set {limit} 2097152"));
    assert_eq!(c.json(&format!("ceph daemon osd.0 config get {limit}"))[limit], "2097152");
    assert_ne!(c.run("ceph tell osd.0 bench 1 2097153").code, 0, "it takes effect");
    c.sh("ceph tell osd.0 bench 1 2097152");
    assert_eq!(c.json("ceph daemon mon.a mon_status")["name"], "a");
    assert_eq!(c.json("ceph daemon osd.2 status")["state"], "active");
    // There is room for text alone: an error is told in it.
    let refused = c.run("ceph daemon mon.a config set mon_pg_warn_min_objects 10F");
    assert!(refused.out.starts_with("ERROR: (22) Invalid argument\n"), "{}", refused.out);
    let socket = c.dir().join("run/ceph-osd.1.asok");
    assert!(c.sh(&format!("ceph --admin-daemon {} help", socket.display())).out.contains("injectfull"));
    assert_eq!(c.json("ceph tell mgr version")["release"], "pacific");
    // An OSD may claim to be fuller than it is.
    c.sh("ceph tell osd.1 injectfull nearfull");
    c.wait("a warning", Duration::from_secs(30), |c| {
        c.sh("ceph health detail").out.contains("osd.1 is near full")
    });
    c.sh("ceph tell osd.1 injectfull none");
    c.wait("the end of it", Duration::from_secs(30), |c| !c.sh("ceph health").out.contains("nearfull"));
}

#[test]
fn keys_go_through_files_and_second_keys_take_over() {
    let c = Cluster::start_with(3, &[]);
    c.sh("ceph auth get-or-create client.x mon 'allow r' osd 'allow rw'");
    // Clients of any version read what is exported.
    c.sh("ceph auth export -o all.keyring && ceph -n client.x --keyring all.keyring -s");
    c.sh("ceph-authtool all.keyring -n osd.0 --print-key");
    let key = c.sh("ceph auth get-key client.x").out;
    let shown = c.sh("ceph auth get-or-create-pending client.x").out;
    let pending =
        shown.lines().find_map(|line| line.trim().strip_prefix("pending key = ")).unwrap().to_owned();
    c.sh(&format!("ceph -n client.x --key {key} -s"));
    c.sh(&format!("ceph -n client.x --key {pending} -s"));
    assert_ne!(c.run(&format!("ceph -n client.x --key {key} -s")).code, 0, "the first one is void");
    assert_eq!(c.sh("ceph auth get-key client.x").out, pending);
}

#[test]
fn a_blocklisted_manager_goes_on_under_another_address() {
    let c = Cluster::start_with(3, &[]);
    let client = |c: &Cluster| {
        let dump = c.json("ceph mgr dump -f json");
        let addr = &dump["active_clients"][0]["addrvec"][0];
        format!("{}/{}", addr["addr"].as_str().unwrap_or_default(), addr["nonce"])
    };
    c.wait("the manager's client", Duration::from_secs(30), |c| client(c).contains(':'));
    c.sh("rbd trash purge schedule add -p rbd 2d");
    let before = client(&c);
    c.sh(&format!("ceph osd blocklist add {before}"));
    let add = "rbd trash purge schedule add -p rbd 10m";
    assert_ne!(c.run(add).code, 0, "not at once");
    c.wait("a schedule", Duration::from_secs(60), |c| c.run(add).code == 0);
    assert_ne!(client(&c), before);
    assert!(c.sh("rbd trash purge schedule ls -p rbd").out.contains("every 10m"));
}
