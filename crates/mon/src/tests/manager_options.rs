//! Options that the manager's part goes by, wherever in the database they are set.

use super::cluster::{Cluster, addr};

fn set(who: &str, name: &str, value: &str) -> String {
    format!(r#"{{"prefix":"config set","who":"{who}","name":"{name}","value":"{value}"}}"#)
}

fn is_balancing(cluster: &mut Cluster) -> bool {
    let status = cluster.text(r#"{"prefix":"balancer status"}"#);
    status.contains(r#""active": true"#)
}

#[test]
fn options_of_modules_are_read_from_all_sections_of_the_manager() {
    let mut cluster = Cluster::with_rbd();
    assert!(is_balancing(&mut cluster));
    for (who, value, is_on) in [
        ("global", "false", false),
        ("mgr", "true", true),
        ("mgr.a", "false", false),
        ("mgr.b", "true", false),
    ] {
        cluster.ok(&set(who, "mgr/balancer/active", value));
        assert_eq!(is_balancing(&mut cluster), is_on, "{who}");
    }
    cluster.ok(r#"{"prefix":"config rm","who":"mgr.a","name":"mgr/balancer/active"}"#);
    assert!(is_balancing(&mut cluster));
    cluster.ok(&set("mgr/host:localhost", "mgr/balancer/active", "false"));
    assert!(!is_balancing(&mut cluster), "the manager is on this host");
}

#[test]
fn an_option_of_a_module_may_be_for_one_instance() {
    let mut cluster = Cluster::with_rbd();
    cluster.mon.set_manager(addr(6800));
    cluster.ok(r#"{"prefix":"mgr module enable","module":"prometheus"}"#);
    let socket = |cluster: &Cluster| cluster.mon.metrics_socket().unwrap().to_string();
    cluster.ok(&set("mgr", "mgr/prometheus/server_addr", "10.0.0.1"));
    cluster.ok(&set("mgr", "mgr/prometheus/b/server_addr", "10.0.0.3"));
    assert_eq!(socket(&cluster), "10.0.0.1:9283");
    cluster.ok(&set("mgr", "mgr/prometheus/a/server_addr", "10.0.0.2"));
    assert_eq!(socket(&cluster), "10.0.0.2:9283");
    let get = r#"{"prefix":"config get","who":"mgr","key":"mgr/prometheus/a/server_addr"}"#;
    assert_eq!(cluster.text(get), "10.0.0.2\n");
    let show = r#"{"prefix":"config show","who":"mgr.a","key":"mgr/prometheus/a/server_addr"}"#;
    assert_eq!(cluster.text(show), "10.0.0.2\n");
    let all = cluster.text(r#"{"prefix":"config show","who":"mgr.a"}"#);
    assert!(
        ["prometheus/server_addr ", "prometheus/a/server_addr "].iter().all(|name| all.contains(name)),
        "{all}"
    );
    for (name, value) in [("prometheus/a/server_addr", "y"), ("prometheus/a/none", "1")] {
        assert_eq!(cluster.refused(&set("mgr", &format!("mgr/{name}"), value)).0, -22, "{name}");
    }
    cluster.restart();
    cluster.mon.set_manager(addr(6800));
    assert_eq!(socket(&cluster), "10.0.0.2:9283");
}

#[test]
fn options_of_modules_have_all_forms_of_values() {
    let mut cluster = Cluster::with_rbd();
    for (value, is_on) in [("0", false), ("1", true), ("False", false), ("TRUE", true)] {
        cluster.ok(&set("mgr", "mgr/balancer/active", value));
        assert_eq!(is_balancing(&mut cluster), is_on, "{value}");
    }
    let value = |cluster: &mut Cluster, name: &str| {
        cluster.text(&format!(r#"{{"prefix":"config get","who":"mgr","key":"{name}"}}"#))
    };
    for (name, text, kept) in [
        ("mgr/balancer/active", "0", "false\n"),
        ("mgr/balancer/sleep_interval", "5m", "300\n"),
        ("mgr/balancer/upmap_max_optimizations", "1K", "1000\n"),
    ] {
        cluster.ok(&set("mgr", name, text));
        assert_eq!(value(&mut cluster, name), kept);
    }
    for (name, text) in [
        ("active", "maybe"),
        ("mode", "crush-compat"),
        ("sleep_interval", "5x"),
        ("upmap_max_deviation", "-1"),
    ] {
        assert_eq!(cluster.refused(&set("mgr", &format!("mgr/balancer/{name}"), text)).0, -22, "{name}");
    }
    // What is no value leaves the default in force, even if it is kept.
    let forced =
        r#"{"prefix":"config set","who":"mgr","name":"mgr/balancer/active","value":"off","force":true}"#;
    cluster.ok(forced);
    assert!(is_balancing(&mut cluster));
}

#[test]
fn warnings_of_cephs_manager_go_by_its_options() {
    let mut cluster = Cluster::with_rbd();
    cluster.mon.stats.pgs_mut().for_each(|stat| stat.sum.misplaced = 1);
    let warns = |cluster: &mut Cluster, of: &str| cluster.text(r#"{"prefix":"health"}"#).contains(of);
    assert!(!warns(&mut cluster, "misplaced"));
    for (who, value, is_warned) in
        [("mon", "true", true), ("mgr", "false", false), ("mon", "false", false), ("mgr", "true", true)]
    {
        cluster.ok(&set(who, "mon_warn_on_misplaced", value));
        assert_eq!(warns(&mut cluster, "misplaced"), is_warned, "{who} {value}");
    }
    cluster.ok(&set("mgr", "mon_max_pg_per_osd", "7"));
    assert!(warns(&mut cluster, "too many PGs per OSD (8 > max 7)"));
    let threshold = |cluster: &Cluster| cluster.mon.stuck_threshold().as_secs();
    assert_eq!(threshold(&cluster), 60);
    cluster.ok(&set("mgr.a", "mon_pg_stuck_threshold", "5"));
    assert_eq!(threshold(&cluster), 5);
}
