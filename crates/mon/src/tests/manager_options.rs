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
    for (name, value) in [("prometheus/a/server_addr", "y"), ("prometheus/a/none", "1")] {
        assert_eq!(cluster.refused(&set("mgr", &format!("mgr/{name}"), value)).0, -22, "{name}");
    }
    cluster.restart();
    cluster.mon.set_manager(addr(6800));
    assert_eq!(socket(&cluster), "10.0.0.2:9283");
}
