//! What operators do by hand, as Ceph's own command-line workunits do it: admin sockets, keys in files, flags and
//! weights.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use crate::cluster::Cluster;

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
    counters_are_shown_and_begin_anew(&c);
    osds_tell_of_their_network_and_their_scrubs(&c);
    daemons_tell_what_they_went_through(&c);
    osds_tell_of_their_caches_their_reports_and_who_is_shut_out(&c);
    // An OSD may claim to be fuller than it is.
    c.sh("ceph tell osd.1 injectfull nearfull");
    c.wait("a warning", Duration::from_secs(60), |c| {
        c.sh("ceph health detail").out.contains("osd.1 is near full")
    });
    c.sh("ceph tell osd.1 injectfull none");
    c.wait("the end of it", Duration::from_secs(60), |c| !c.sh("ceph health").out.contains("nearfull"));
}

/// What clients do is counted as what it is, in parts that make the whole.
fn counters_are_shown_and_begin_anew(c: &Cluster) {
    c.sh("echo counted > f; rados -p rbd put counted f; rados -p rbd get counted f2; cmp f f2");
    let primary = c.json("ceph osd map rbd counted")["acting_primary"].as_u64().unwrap();
    let counters = |c: &Cluster| c.json(&format!("ceph tell osd.{primary} perf dump osd"))["osd"].clone();
    // An OSD of several reactors hears of the others' counts with statistics.
    c.sh(&format!("ceph tell osd.{primary} flush_pg_stats"));
    let seen = counters(c);
    let count = |name: &str| seen[name].as_u64().unwrap();
    assert!(count("op_r") >= 1 && count("op_w") >= 1, "{seen}");
    assert_eq!(count("op"), count("op_r") + count("op_w") + count("op_rw"), "{seen}");
    assert_eq!(seen["op_r_latency"]["avgcount"], seen["op_r"]);
    assert!(seen["op_w_latency"]["sum"].as_f64().unwrap() > 0.0, "{seen}");
    let schema = c.json(&format!("ceph tell osd.{primary} perf schema"));
    assert_eq!(schema["osd"].as_object().unwrap().len(), seen.as_object().unwrap().len());
    let answer = c.json(&format!("ceph tell osd.{primary} perf reset osd"));
    assert_eq!(answer["success"], "perf reset osd");
    let anew = counters(c);
    assert!(anew["op_w_in_bytes"].as_u64() < seen["op_w_in_bytes"].as_u64(), "{anew}");
    assert_eq!(anew["numpg"], seen["numpg"]);
    assert_eq!(c.json("ceph tell mon.a perf dump cluster num_osd_up")["cluster"]["num_osd_up"], 3);
    c.sh(&format!("ceph tell osd.{primary} get_latest_osdmap"));
}

/// What Ceph's own command-line tests ask daemons for.
fn daemons_tell_what_they_went_through(c: &Cluster) {
    let history = c.json("ceph tell osd.0 dump_pgstate_history");
    let pgs = history["pgs"].as_array().unwrap();
    assert!(pgs.iter().any(|pg| pg["currently"] == "Started/Primary/Active/Clean"), "{history}");
    assert!(pgs.iter().all(|pg| pg["history"][0]["states"][0]["state"] == "Initial"), "{history}");
    assert!(c.sh("ceph tell osd.0 dump_pg_recovery_stats").out.contains("Started"));
    c.sh("ceph tell osd.0 reset_pg_recovery_stats && ceph tell osd.0 scrub_purged_snaps");
    c.sh("ceph tell osd.0 flush_store_cache && ceph tell osd.0 flush_journal");
    let reserved = c.json("ceph tell osd.0 dump_recovery_reservations");
    assert_eq!(reserved["local_reservations"]["in_progress"], serde_json::json!([]));
    assert_eq!(c.json("ceph tell osd.0 objecter_requests")["ops"], serde_json::json!([]));
    assert!(c.json("ceph tell osd.0 dump_op_pq_state")["OSD:ShardedOpWQ:0"].is_object());
    for daemon in ["osd.0", "mon.a"] {
        assert!(c.json(&format!("ceph tell {daemon} git_version"))["git_version"].is_string());
        assert_eq!(c.json(&format!("ceph tell {daemon} smart")), serde_json::json!({}));
    }
    c.sh("rados -p rbd bench 1 write -b 4096 --no-cleanup > /dev/null");
    let name = "op_w_latency_in_bytes_histogram";
    let counted = |osd| {
        let dump = c.json(&format!("ceph tell osd.{osd} perf histogram dump osd {name}"));
        let rows = dump["osd"][name]["values"].as_array().unwrap().clone();
        // 4 KiB are in the sixth bucket.
        rows.iter().map(|row| row[5].as_u64().unwrap()).sum::<u64>()
    };
    (0..3).for_each(|osd| drop(c.sh(&format!("ceph tell osd.{osd} flush_pg_stats"))));
    assert!((0..3).map(counted).sum::<u64>() > 10);
    let schema = c.json("ceph tell osd.0 perf histogram schema");
    assert_eq!(schema["osd"][name]["value_type"], "integer-2d-histogram");
    // The monitor.
    assert!(c.sh("ceph tell mon.a compact").out.starts_with("compacted redb in "));
    assert_eq!(c.json("ceph tell mon.a connection scores dump")["rank"], 0);
    assert!(c.json("ceph tell mon.a dump_historic_ops")["ops"].as_array().unwrap().len() > 5);
    c.sh("ceph pg getmap -o pgs && test -s pgs");
}

fn osds_tell_of_their_network_and_their_scrubs(c: &Cluster) {
    let peers = |c: &Cluster, threshold: &str| {
        c.json(&format!("ceph tell osd.1 dump_osd_network {threshold}"))["entries"]
            .as_array()
            .unwrap()
            .clone()
    };
    c.wait("answers of both peers", Duration::from_secs(60), |c| peers(c, "0").len() == 2);
    for entry in peers(c, "0") {
        let of = |what: &str| entry[what]["15min"].as_f64().unwrap();
        assert!(of("min") > 0.0 && of("min") <= of("average") && of("average") <= of("max"), "{entry}");
        assert_eq!((&entry["from osd"], &entry["interface"]), (&1.into(), &"back".into()));
    }
    assert_eq!(peers(c, "100000").len(), 0);
    // A twentieth of the grace, 20 s.
    assert_eq!(c.json("ceph tell osd.1 dump_osd_network")["threshold"], 1_000);

    let jobs: Vec<_> = (0..3)
        .flat_map(|osd| c.json(&format!("ceph tell osd.{osd} dump_scrubs")).as_array().unwrap().clone())
        .collect();
    assert_eq!(jobs.len() as u64, c.json("ceph pg stat")["pg_summary"]["num_pgs"].as_u64().unwrap());
    for job in jobs {
        let at = |what: &str| job[what].as_str().unwrap().to_owned();
        assert!(at("sched_time") < at("deadline"), "{job}");
    }
    let slots = c.json("ceph tell osd.0 dump_scrub_reservations");
    assert_eq!(slots, serde_json::json!({"scrubs_local": 0, "scrubs_remote": 0, "osd_max_scrubs": 1}));
    // Documents that 16.2 leaves empty, or puts behind a word.
    assert_eq!(c.sh("ceph node ls mds").out, "");
    assert_eq!(c.sh("ceph pg debug unfound_objects_exist -f json").out, "\nFALSE\n{\"pg_ready\":true}\n");
}

fn osds_tell_of_their_caches_their_reports_and_who_is_shut_out(c: &Cluster) {
    // Large enough to be written to its place at once, small enough to be kept when it is read.
    c.sh("dd if=/dev/urandom of=f bs=64K count=2 2>/dev/null; rados -p rbd put cached f; rados -p rbd get cached f2; cmp f f2");
    let primary = c.json("ceph osd map rbd cached")["acting_primary"].as_u64().unwrap();
    let buffers = |c: &Cluster| {
        let mut bytes = 0;
        // Other reads may come between the two questions.
        c.wait("two answers that agree", Duration::from_secs(60), |c| {
            let status = c.json(&format!("ceph tell osd.{primary} cache status"));
            let pools = c.json(&format!("ceph tell osd.{primary} dump_mempools"));
            let data = &pools["mempool"]["by_pool"]["bluestore_cache_data"]["bytes"];
            bytes = data.as_u64().unwrap();
            status["bluestore_buffers"] == *data
        });
        bytes
    };
    assert!(buffers(c) >= 128 << 10);
    c.sh(&format!("ceph tell osd.{primary} cache drop"));
    assert_eq!(buffers(c), 0);
    c.sh("rados -p rbd get cached f2; cmp f f2");

    let flushed: u64 = c.sh("ceph tell osd.1 flush_pg_stats").out.trim().parse().unwrap();
    c.wait("the report", Duration::from_secs(60), |c| {
        c.sh("ceph osd last-stat-seq 1").out.trim().parse::<u64>().unwrap() >= flushed
    });

    c.sh("ceph osd blocklist add 192.0.2.1 && ceph osd blocklist range add 198.51.100.0/24");
    let lists = |c: &Cluster| -> Vec<serde_json::Value> {
        let text = c.sh("ceph tell osd.1 dump_blocklist -f json").out;
        serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect()
    };
    let of =
        |list: &serde_json::Value| list[0]["entity_addr_t"]["addr"].as_str().unwrap_or_default().to_owned();
    c.wait("the map at the OSD", Duration::from_secs(60), |c| {
        lists(c).iter().map(of).collect::<Vec<_>>() == ["192.0.2.1:0", "198.51.100.0:0"]
    });
}

/// `logrotate` moves the file and sends SIGHUP.
fn a_daemon_outlives_the_rotation_of_its_log(c: &Cluster) {
    for name in ["osd.0", "mon.a"] {
        c.sh(&format!("mv log/{name}.log log/{name}.log.1; kill -HUP $(cat run/{name}.pid)"));
        c.sh(&format!("ceph tell {name} log reopen && ceph tell {name} version"));
    }
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
    c.wait("the manager's client", Duration::from_secs(60), |c| client(c).contains(':'));
    c.sh("rbd trash purge schedule add -p rbd 2d");
    let before = client(&c);
    let listed_at = Instant::now();
    c.sh(&format!("ceph osd blocklist add {before}"));
    let add = "rbd trash purge schedule add -p rbd 10m";
    let is_refused = c.run(add).code != 0;
    // It stays away for 5 s, which a slow machine may need for these commands.
    assert!(is_refused || listed_at.elapsed() > Duration::from_secs(4), "it goes on at once");
    c.wait("a schedule", Duration::from_secs(60), |c| c.run(add).code == 0);
    assert_ne!(client(&c), before);
    assert!(c.sh("rbd trash purge schedule ls -p rbd").out.contains("every 10m"));
}

/// A process that stands still until this is dropped, in a test that failed, too: it could not be told to end.
struct StandsStill(i32);

impl StandsStill {
    fn start(pid: i32) -> StandsStill {
        assert!(Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap().success());
        StandsStill(pid)
    }
}

impl Drop for StandsStill {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-CONT", &self.0.to_string()]).status();
    }
}

/// A replica stands still, and with it what it has to confirm.
fn slow_requests_are_told(c: &Cluster) {
    let place = c.json("ceph osd map rbd slow");
    let primary = place["acting_primary"].as_u64().unwrap();
    let replica =
        place["acting"].as_array().unwrap().iter().filter_map(|osd| osd.as_u64()).find(|osd| *osd != primary);
    let replica = c.pid(&format!("osd.{}", replica.unwrap()));
    c.sh(
        "ceph config set osd osd_op_complaint_time 1; ceph config set osd osd_op_history_slow_op_threshold 1",
    );
    // However long the commands below take, the replica must not be marked down, which would end the wait for it.
    c.sh("echo slow > slow; ceph osd set nodown; ceph config set mon mon_warn_on_slow_ping_time 600000");
    let replica = StandsStill::start(replica);
    let put = c.spawn("rados -p rbd put slow slow");
    c.wait("a warning", Duration::from_secs(60), |c| c.sh("ceph health detail").out.contains("SLOW_OPS"));
    let detail = c.sh("ceph health detail").out;
    let blocked = c.json(&format!("ceph tell osd.{primary} dump_blocked_ops"));
    let in_flight = c.json(&format!("ceph daemon osd.{primary} ops"));
    drop(replica);
    assert!(put.ends_well());
    let line = detail.lines().find(|line| line.contains("] SLOW_OPS: ")).unwrap();
    assert!(line.starts_with("[WRN] SLOW_OPS: 1 slow ops, oldest one blocked for "), "{line}");
    assert!(line.ends_with(&format!(" sec, osd.{primary} has slow ops")), "{line}");
    assert_eq!((&blocked["num_blocked_ops"], &in_flight["num_ops"]), (&1.into(), &1.into()), "{blocked}");
    let op = &in_flight["ops"][0];
    let description = op["description"].as_str().unwrap();
    assert!(
        description.contains(":::slow:head [writefull 0~5 in=5b] snapc 0=[] ondisk+write+"),
        "{description}"
    );
    assert_eq!(op["type_data"]["flag_point"], "waiting for sub ops");
    let slow = c.json(&format!("ceph tell osd.{primary} dump_historic_slow_ops"));
    assert!(slow["Ops"][0]["description"].as_str().unwrap().contains(":::slow:head"), "{slow}");
    assert!(
        c.json(&format!("ceph tell osd.{primary} dump_historic_ops"))["ops"].as_array().unwrap().len() > 1
    );
    c.wait("the end of it", Duration::from_secs(60), |c| !c.sh("ceph health").out.contains("slow ops"));
    let log = c.sh("ceph log last 1000").out;
    let told = "1 slow requests (by type [ 'waiting for sub ops' : 1 ] most affected pool [ 'rbd' : 1 ])";
    assert!(log.contains(told), "{log}");
    c.sh("ceph config rm osd osd_op_complaint_time; ceph config rm osd osd_op_history_slow_op_threshold");
    c.sh("ceph config rm mon mon_warn_on_slow_ping_time; ceph osd unset nodown");
    c.wait_healthy();
}

#[test]
fn who_slept_while_maps_were_forgotten_goes_on() {
    let mut c = Cluster::start();
    a_daemon_outlives_the_rotation_of_its_log(&c);
    slow_requests_are_told(&c);
    c.sh("ceph config set mon mon_min_osdmap_epochs 20");
    let client = "\
import os, rados, time
cluster = rados.Rados(conffile=os.environ['CEPH_CONF'])
cluster.connect()
io = cluster.open_ioctx('rbd')
io.write_full('o', b'before')
open('asleep', 'w').close()
while not os.path.exists('awake'):
    time.sleep(0.1)
for number in range(20):
    io.write_full(f'o{number}', b'after')
assert io.read('o') == b'before'
cluster.shutdown()
";
    std::fs::write(c.dir().join("sleeper.py"), client).unwrap();
    let sleeper = c.spawn("/usr/bin/python3 sleeper.py");
    c.wait("a client", Duration::from_secs(60), |c| c.dir().join("asleep").exists());
    c.sh("echo kept > note; rados -p rbd put note note");
    c.kill("osd.1");
    c.wait_up_osds(2);
    let before = c.json("ceph osd dump")["epoch"].as_u64().unwrap();
    let first = |c: &Cluster| c.json("ceph report")["osdmap_first_committed"].as_u64().unwrap();
    let pass =
        |c: &Cluster| c.sh("for n in {1..20}; do echo osd set noout; echo osd unset noout; done | ceph");
    pass(&c);
    pass(&c);
    assert!(first(&c) <= before, "PGs that are not clean need to know what happened");
    // Two copies are all there should be.
    c.sh("ceph osd out osd.1; ceph osd pool set rbd size 2");
    c.wait("maps to be forgotten", Duration::from_secs(180), |c| {
        pass(c);
        first(c) > before
    });
    std::fs::write(c.dir().join("awake"), "").unwrap();
    assert!(sleeper.ends_well(), "a client did not go on\n{}", c.logs());
    c.restart("osd.1");
    c.sh("ceph osd in osd.1; ceph osd pool set rbd size 3");
    c.wait_healthy();
    c.kill("osd.0");
    assert_eq!(c.sh("timeout 300 rados -p rbd get note -").out, "kept\n");
    c.restart("osd.0");
    c.wait_healthy();
}
