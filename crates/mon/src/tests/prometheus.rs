//! Metrics for Prometheus.

use std::{collections::BTreeMap, time::Duration};

use messages::{MMgrOpen, MOSDBoot, MPGStats, PerfValue};
use types::OsdId;

use super::cluster::{ADMIN, Cluster, boot_message};

/// Families of a 16.2.15 and their types, without those of its own parts.
const FAMILIES: &str = include_str!("../../testdata/prometheus_families.txt");

/// How the names of its families begin that are not served here: of what is not counted, and of parts that do not
/// exist.
const ABSENT: &[&str] = &[
    "ceph_fs_metadata",
    "ceph_mds_metadata",
    "ceph_mon_election_",
    "ceph_mon_num_elections",
    "ceph_mon_session_",
    "ceph_osd_numpg_removing",
    "ceph_osd_op_prepare_latency_",
    "ceph_osd_op_process_latency_",
    "ceph_osd_op_r_prepare_latency_",
    "ceph_osd_op_r_process_latency_",
    "ceph_osd_op_rw_prepare_latency_",
    "ceph_osd_op_rw_process_latency_",
    "ceph_osd_op_w_prepare_latency_",
    "ceph_osd_op_w_process_latency_",
    "ceph_osd_recovery_",
    "ceph_prometheus_collect_duration_seconds_",
    "ceph_rgw_metadata",
];

fn set(name: &str, value: &str) -> String {
    format!(r#"{{"prefix":"config set","who":"mgr","name":"mgr/prometheus/{name}","value":"{value}"}}"#)
}

#[test]
fn the_module_says_where_it_listens_while_it_is_on() {
    let mut cluster = Cluster::with_rbd();
    cluster.mon.set_manager(super::cluster::addr(6800));
    let module = |verb: &str| format!(r#"{{"prefix":"mgr module {verb}","module":"prometheus"}}"#);
    assert_eq!(cluster.mon.metrics_socket(), None);
    cluster.ok(&module("enable"));
    let socket = cluster.mon.metrics_socket();
    assert_eq!(socket.map(|socket| socket.to_string()).as_deref(), Some("0.0.0.0:9283"));
    assert_eq!(cluster.json(r#"{"prefix":"mgr services"}"#), serde_json::json!({}));
    cluster.mon.set_metrics_served(socket);
    let services = cluster.json(r#"{"prefix":"mgr services"}"#);
    assert_eq!(services["prometheus"], "http://127.0.0.1:9283/");
    for (name, value) in [("server_port", "0"), ("server_port", "x"), ("server_addr", "y"), ("none", "1")] {
        assert_eq!(cluster.refused(&set(name, value)).0, -22, "{name} {value}");
    }
    cluster.ok(&set("server_port", "9999"));
    cluster.ok(&set("server_addr", "::1"));
    let socket = cluster.mon.metrics_socket().map(|socket| socket.to_string());
    assert_eq!(socket.as_deref(), Some("[::1]:9999"));
    let targets = cluster.text(r#"{"prefix":"prometheus file_sd_config"}"#);
    assert!(targets.contains(r#""targets":["localhost:9999"]"#), "{targets}");
    cluster.ok(&module("disable"));
    assert_eq!(cluster.mon.metrics_socket(), None);
}

/// Rook reads `rbd_stats_pools` before it calls a pool ready, and adds pools to it.
#[test]
fn options_of_the_module_are_known_and_kept() {
    let mut cluster = Cluster::with_rbd();
    let get = |name: &str| format!(r#"{{"prefix":"config get","who":"mgr","key":"mgr/prometheus/{name}"}}"#);
    for (name, default, value) in [
        ("rbd_stats_pools", "", "rbd,images/ns"),
        ("rbd_stats_pools_refresh_interval", "300", "60"),
        ("scrape_interval", "15.000000", "7.500000"),
        ("cache", "true", "false"),
        ("stale_cache_strategy", "log", "fail"),
        ("standby_behaviour", "default", "error"),
        ("standby_error_status_code", "500", "503"),
        ("log_level", "", "debug"),
    ] {
        assert_eq!(cluster.text(&get(name)), format!("{default}\n"), "{name}");
        cluster.ok(&set(name, value));
        assert_eq!(cluster.text(&get(name)), format!("{value}\n"), "{name}");
    }
    for (name, value) in [("standby_error_status_code", "399"), ("standby_behaviour", "x")] {
        assert_eq!(cluster.refused(&set(name, value)).0, -22, "{name} {value}");
    }
}

#[test]
fn families_have_the_names_and_types_that_ceph_gives_them() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    cluster.ok(r#"{"prefix":"osd set","key":"nodeep-scrub"}"#);
    cluster.ok(r#"{"prefix":"osd pool set","pool":"rbd","var":"compression_mode","val":"force"}"#);
    let page = cluster.mon.metrics();
    let theirs: BTreeMap<&str, &str> = FAMILIES.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut types = BTreeMap::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a name and a type");
        assert_eq!(theirs.get(name), Some(&kind), "{name}");
        assert!(types.insert(name, kind).is_none(), "{name} twice");
    }
    let is_absent = |name: &str| ABSENT.iter().any(|absent| name.starts_with(absent));
    for name in theirs.keys() {
        assert_ne!(types.contains_key(name), is_absent(name), "{name}");
    }
    // Samples stand below their families.
    let mut family = "";
    for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with("# HELP ")) {
        match line.strip_prefix("# TYPE ") {
            Some(line) => family = line.split(' ').next().unwrap_or_default(),
            None => assert_eq!(line.split(['{', ' ']).next(), Some(family)),
        }
    }
    for line in [
        "ceph_health_status 1.0",
        "ceph_health_detail{name=\"OSDMAP_FLAGS\",severity=\"HEALTH_WARN\"} 1.0",
        "ceph_osd_flag_nodeep_scrub 1.0",
        "ceph_osd_flag_noout 0.0",
        "ceph_osd_up{ceph_daemon=\"osd.0\"} 1.0",
        "ceph_pool_metadata{pool_id=\"1\",name=\"rbd\",type=\"replicated\",description=\"replica:3\",compression_mode=\"force\"} 1.0",
        "ceph_pg_total{pool_id=\"1\"} 8.0",
        "ceph_pg_active{pool_id=\"1\"} 8.0",
        "ceph_mgr_module_status{name=\"prometheus\"} 0.0",
        "ceph_mgr_module_status{name=\"balancer\"} 2.0",
        "ceph_mgr_module_can_run{name=\"iostat\"} 1.0",
        "ceph_daemon_health_metrics{type=\"SLOW_OPS\",ceph_daemon=\"osd.2\"} 0.0",
    ] {
        assert!(page.lines().any(|have| have == line), "{line} is missing from {page}");
    }
}

#[test]
fn osds_that_are_down_are_still_told_of() {
    let mut cluster = Cluster::with_rbd();
    let facts = [("hostname", "h1"), ("bluestore_bdev_dev_node", "/dev/sda")];
    let metadata = facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    cluster.ok(r#"{"prefix":"osd down","ids":["1"]}"#);
    let boot = MOSDBoot { metadata, ..boot_message(1, cluster.map().epoch) };
    cluster.say(Cluster::osd_conn(1), boot);
    cluster.ok(r#"{"prefix":"osd set","key":"noup"}"#);
    cluster.ok(r#"{"prefix":"osd down","ids":["1","2"]}"#);
    cluster.ok(r#"{"prefix":"osd crush rm","name":"osd.2"}"#);
    cluster.ok(r#"{"prefix":"osd create"}"#);
    let page = cluster.mon.metrics();
    let of = |family: &str| {
        let is_it = |line: &&str| line.starts_with(&format!("ceph_{family}{{"));
        page.lines().filter(is_it).collect::<Vec<_>>()
    };
    let hosts: Vec<bool> = of("osd_metadata").iter().map(|line| line.contains("hostname=\"h1\"")).collect();
    assert_eq!(hosts, [false, true], "osd.2 has no place, osd.3 was never up");
    assert!(matches!(&of("disk_occupation")[..], [line] if line.contains("instance=\"h1\"")), "{page}");
    let human = "ceph_disk_occupation_human{ceph_daemon=\"osd.1\",device=\"/dev/sda\",instance=\"h1\"} 1.0";
    assert_eq!(of("disk_occupation_human"), [human]);
    assert_eq!(of("osd_up").len(), 4);
    assert_eq!(of("daemon_health_metrics").len(), 1, "of one that is up");
}

#[test]
fn osds_that_share_a_device_are_told_of_together() {
    let mut cluster = Cluster::with_rbd();
    for (osd, host) in [(0, "h1"), (1, "h2"), (2, "h1")] {
        let facts = [("hostname", host), ("bluestore_bdev_dev_node", "/dev/sda")];
        let metadata = facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        cluster.ok(&format!(r#"{{"prefix":"osd down","ids":["{osd}"]}}"#));
        let boot = MOSDBoot { metadata, ..boot_message(osd, cluster.map().epoch) };
        cluster.say(Cluster::osd_conn(osd), boot);
    }
    let page = cluster.mon.metrics();
    let shown: Vec<&str> =
        page.lines().filter(|line| line.starts_with("ceph_disk_occupation_human{")).collect();
    let line = |osds: &str, host: &str| {
        format!(
            "ceph_disk_occupation_human{{ceph_daemon=\"{osds}\",device=\"/dev/sda\",instance=\"{host}\"}} 1.0"
        )
    };
    assert_eq!(shown, [line("osd.0, osd.2", "h1"), line("osd.1", "h2")]);
}

#[test]
fn daemons_that_mirror_are_told_of() {
    let mut cluster = Cluster::with_rbd();
    let facts = [("id", "a"), ("instance_id", "4107"), ("hostname", "h"), ("ceph_version", "v")];
    let facts = facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let open = MMgrOpen {
        daemon_name: "4107".to_owned(),
        service_name: "rbd-mirror".to_owned(),
        service: Some((facts, BTreeMap::new())),
        ..MMgrOpen::default()
    };
    let daemon = cluster.peer(ADMIN);
    cluster.manage(&daemon, open);
    let line = "ceph_rbd_mirror_metadata{ceph_daemon=\"rbd-mirror.4107\",id=\"a\",instance_id=\"4107\",\
                hostname=\"h\",ceph_version=\"v\"} 1.0";
    assert!(cluster.mon.metrics().lines().any(|have| have == line));
}

#[test]
fn counters_of_daemons_are_shown_with_their_names() {
    let mut cluster = Cluster::with_rbd();
    let latency = PerfValue { sum: 1_500_000_000, count: 3 };
    let perf = [("op_r", 7.into()), ("op_r_latency", latency), ("unheard_of", 1.into())];
    let perf = perf.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let report = MPGStats { osd: OsdId(1), epoch: cluster.map().epoch, perf, ..MPGStats::default() };
    cluster.say(Cluster::osd_conn(1), report);
    let page = cluster.mon.metrics();
    for line in [
        "ceph_osd_op_r{ceph_daemon=\"osd.1\"} 7.0",
        "ceph_osd_op_r_latency_sum{ceph_daemon=\"osd.1\"} 1.5",
        "ceph_osd_op_r_latency_count{ceph_daemon=\"osd.1\"} 3.0",
        "# TYPE ceph_mon_num_sessions gauge",
    ] {
        assert!(page.lines().any(|have| have == line), "{line} is missing from {page}");
    }
    assert!(!page.contains("unheard_of"), "what is not declared is not shown");
}

/// Alerts subtract checks that are not raised, which needs a sample of 0.
#[test]
fn checks_that_were_raised_before_are_told_of_and_listed() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    cluster.ok(r#"{"prefix":"mgr module enable","module":"prometheus"}"#);
    let list = |format: &str| format!(r#"{{"prefix":"healthcheck history ls","format":"{format}"}}"#);
    let sample =
        |value: &str| format!("ceph_health_detail{{name=\"OSDMAP_FLAGS\",severity=\"HEALTH_WARN\"}} {value}");
    let has = |cluster: &Cluster, line: String| cluster.mon.metrics().lines().any(|have| have == line);
    let switch = |cluster: &mut Cluster, verb: &str| {
        cluster.ok(&format!(r#"{{"prefix":"osd {verb}","key":"nodeep-scrub"}}"#));
        cluster.pass(Duration::from_secs(6));
    };
    switch(&mut cluster, "set");
    assert!(has(&cluster, sample("1.0")));
    switch(&mut cluster, "unset");
    assert!(has(&cluster, sample("0.0")));
    cluster.restart();
    assert!(has(&cluster, sample("0.0")), "it is kept");
    let text = cluster.text(&list("plain"));
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("Healthcheck Name          First Seen (UTC)      Last seen (UTC)       Count  Active")
    );
    let line = lines.find(|line| line.starts_with("OSDMAP_FLAGS ")).expect("it was raised");
    assert!(line.ends_with("      1    No  "), "{line:?}");
    switch(&mut cluster, "set");
    let listed = cluster.json(&list("json"));
    let event = &listed["OSDMAP_FLAGS"];
    assert_eq!((&event["count"], &event["active"]), (&2.into(), &true.into()));
    assert_eq!((&event["name"], &event["severity"]), (&"OSDMAP_FLAGS".into(), &"HEALTH_WARN".into()));
    assert!(event["last_seen"].as_f64() > event["first_seen"].as_f64());
    let yaml = cluster.text(&list("yaml"));
    assert!(
        yaml.starts_with("---\n") && yaml.contains("OSDMAP_FLAGS:\n  active: true\n  count: 2\n"),
        "{yaml}"
    );
    switch(&mut cluster, "unset");
    assert_eq!(cluster.text(r#"{"prefix":"healthcheck history clear"}"#), "healthcheck history cleared\n");
    assert!(!cluster.text(&list("plain")).contains("OSDMAP_FLAGS"));
    assert!(!has(&cluster, sample("0.0")));
}

#[test]
fn a_history_that_was_written_by_hand_is_read_as_far_as_it_can_be() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"mgr module enable","module":"prometheus"}"#);
    let kept =
        r#"{"A": {"severity": "HEALTH_ERR", "first_seen": -1e300, "last_seen": 1e300}, "b c": {}, "D": 1}"#;
    let set =
        serde_json::json!({"prefix": "config-key set", "key": "mgr/prometheus/health_history", "val": kept});
    cluster.ok(&set.to_string());
    assert!(cluster.mon.metrics().contains("{name=\"A\",severity=\"HEALTH_ERR\"} 0.0"));
    assert!(cluster.text(r#"{"prefix":"healthcheck history ls"}"#).contains("1 health check(s) listed"));
}
