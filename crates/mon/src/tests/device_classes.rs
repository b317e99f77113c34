//! The device classes of OSDs that start.

use super::cluster::{Cluster, addr, boot_message};

fn set(name: &str, value: &str) -> String {
    format!(r#"{{"prefix":"config set","who":"osd","name":"{name}","value":"{value}"}}"#)
}

/// An OSD starts, with another address each time, on a device of class `hdd`.
fn start(cluster: &mut Cluster, id: i32, port: u16) -> Option<String> {
    let mut boot = boot_message(id, cluster.map().epoch);
    boot.public_addrs = addr(port);
    boot.metadata.insert("default_device_class".to_owned(), "hdd".to_owned());
    cluster.say(Cluster::osd_conn(id), boot);
    cluster.map().crush.map().device_class(id).map(str::to_owned)
}

#[test]
fn an_osd_without_a_class_gets_that_of_its_device_when_it_starts() {
    let mut cluster = Cluster::with_rbd();
    let rm_class = r#"{"prefix":"osd crush rm-device-class","ids":["1"]}"#;
    assert_eq!(start(&mut cluster, 1, 7001).as_deref(), Some("ssd"), "it has one");
    cluster.ok(rm_class);
    cluster.ok(&set("osd_class_update_on_start", "false"));
    assert_eq!(start(&mut cluster, 1, 7002), None);
    cluster.ok(&set("osd_class_update_on_start", "true"));
    assert_eq!(start(&mut cluster, 1, 7003).as_deref(), Some("hdd"));
    // Also where operators look after its place.
    cluster.ok(rm_class);
    cluster.ok(&set("osd_crush_update_on_start", "false"));
    assert_eq!(start(&mut cluster, 1, 7004).as_deref(), Some("hdd"));
}

#[test]
fn an_osd_that_has_a_place_before_it_first_starts_gets_a_class() {
    let mut cluster = Cluster::new();
    cluster.ok(r#"{"prefix":"osd create"}"#);
    cluster.ok(r#"{"prefix":"osd crush add","id":"0","weight":1.5,"args":["root=default","host=vm"]}"#);
    cluster.connect(Cluster::osd_conn(0), "osd.0");
    assert_eq!(start(&mut cluster, 0, 7001).as_deref(), Some("hdd"));
    assert_eq!(cluster.map().crush.map().item_weight(0), Some(0x18000));
}
