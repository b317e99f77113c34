//! Metrics for Prometheus.

use std::collections::BTreeMap;

use messages::{MPGStats, PerfValue};
use types::OsdId;

use super::cluster::Cluster;

/// Families of a 16.2.15 and their types, without those of its own parts.
const FAMILIES: &str = include_str!("../../testdata/prometheus_families.txt");

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

#[test]
fn families_have_the_names_and_types_that_ceph_gives_them() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    cluster.ok(r#"{"prefix":"osd set","key":"nodeep-scrub"}"#);
    let page = cluster.mon.metrics();
    let theirs: BTreeMap<&str, &str> = FAMILIES.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut types = BTreeMap::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a name and a type");
        assert_eq!(theirs.get(name), Some(&kind), "{name}");
        assert!(types.insert(name, kind).is_none(), "{name} twice");
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
        "ceph_pg_total{pool_id=\"1\"} 8.0",
        "ceph_pg_active{pool_id=\"1\"} 8.0",
        "ceph_mgr_module_status{name=\"prometheus\"} 0.0",
        "ceph_mgr_module_status{name=\"balancer\"} 2.0",
    ] {
        assert!(page.lines().any(|have| have == line), "{line} is missing from {page}");
    }
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
