use std::time::Duration;

use codec::Decode;
use crush::BucketAlg;
use messages::{
    MMgrOpen, MMonGetOSDMap, MMonSubscribe, MOSDAlive, MOSDBoot, MOSDFailure, MOSDMarkMeDown, MPGStats,
    Message, SubscribeItem,
};
use types::{Epoch, Incremental, OsdId, OsdMap, OsdState, Uuid};

use super::cluster::{ADMIN, Cluster, addr, boot_message, maps_sent};
use crate::ConnId;

fn failure(reporter: i32, target: i32, up_from: Epoch, is_immediate: bool, secs: u64) -> MOSDFailure {
    MOSDFailure {
        reporter: OsdId(reporter),
        target: OsdId(target),
        target_up_from: up_from,
        is_failed: true,
        is_immediate,
        failed_for_ms: secs * 1000,
        epoch: Epoch(1),
        may_live: false,
    }
}

#[test]
fn osds_that_boot_are_up_in_and_have_a_place() {
    let mut cluster = Cluster::new();
    (0..3).for_each(|id| cluster.boot_osd(id));
    let map = cluster.map();
    assert_eq!((map.num_osds(), map.num_up(), map.num_in()), (3, 3, 3));
    let crush = map.crush.map();
    assert_eq!(crush.location(0)[0], ("host".to_owned(), "vm".to_owned()));
    // 20 GiB in TiB.
    assert_eq!(crush.item_weight(0), Some(1280));
    assert_eq!(crush.device_class(1), Some("ssd"));
    assert!(cluster.text(r#"{"prefix":"osd tree"}"#).contains("osd.2      up   1.00000  1.00000"));
}

#[test]
fn an_osd_of_any_size_gets_a_weight_that_clients_can_read() {
    let mut cluster = Cluster::new();
    cluster.connect(Cluster::osd_conn(0), "osd.0");
    let boot = MOSDBoot { device_bytes: u64::MAX, ..boot_message(0, cluster.map().epoch) };
    cluster.say(Cluster::osd_conn(0), boot);
    assert_eq!(cluster.map().crush.map().item_weight(0), Some(i32::MAX as u32));
}

#[test]
fn an_osd_that_is_stopped_is_down_until_it_boots_again() {
    let mut cluster = Cluster::with_rbd();
    let mut stop = |ids: &str| cluster.command(&format!(r#"{{"prefix":"osd stop","ids":{ids}}}"#)).status;
    assert_eq!(stop(r#"["1"]"#), "stop osd.1. ");
    assert_eq!(stop(r#"["osd.1","7"]"#), "osd.7 does not exist. osd.1 is already stopped. ");
    assert!(cluster.map().is_down(OsdId(1)) && cluster.map().state(OsdId(1)).has(OsdState::STOP));
    cluster.command(r#"{"prefix":"osd down","ids":["2"]}"#);
    assert_eq!(cluster.command(r#"{"prefix":"osd stop","ids":["2"]}"#).status, "stop down osd.2. ");
    assert!(cluster.map().is_down(OsdId(2)) && cluster.map().state(OsdId(2)).has(OsdState::STOP));
    cluster.boot_osd(1);
    assert!(cluster.map().is_up(OsdId(1)) && !cluster.map().state(OsdId(1)).has(OsdState::STOP));
}

#[test]
fn an_osd_that_is_named_twice_is_removed_once() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd down","ids":["0"]}"#);
    assert_eq!(cluster.ok(r#"{"prefix":"osd rm","ids":["0","osd.0"]}"#), "removed osd.0");
    assert_eq!(cluster.map().state(OsdId(0)), OsdState::default());
}

#[test]
fn an_osd_with_another_uuid_is_refused() {
    let mut cluster = Cluster::new();
    cluster.boot_osd(0);
    let before = cluster.map().clone();
    let mut boot = boot_message(0, before.epoch);
    boot.uuid = Uuid([99; 16]);
    cluster.say(Cluster::osd_conn(0), boot);
    assert_eq!(cluster.map().up_from(OsdId(0)), before.up_from(OsdId(0)));
    assert_eq!(cluster.map().osd_uuid[0], Uuid([1; 16]));
    assert!(cluster.text(r#"{"prefix":"log last"}"#).contains("`ceph osd destroy 0` makes room for it"));
}

#[test]
fn an_osd_that_is_refused_again_and_again_is_logged_once_a_minute() {
    let mut cluster = Cluster::new();
    cluster.boot_osd(0);
    cluster.boot_osd(1);
    let epoch = cluster.map().epoch;
    let told = |cluster: &Cluster, osd: &str| {
        cluster.mon.cluster_log().filter(|line| line.starts_with(&format!("{osd} boots with"))).count()
    };
    for _ in 0..24 {
        cluster.pass(Duration::from_secs(5));
        for osd in [0, 1] {
            let boot = MOSDBoot { uuid: Uuid([99; 16]), ..boot_message(osd, epoch) };
            cluster.say(Cluster::osd_conn(osd), boot);
        }
    }
    assert_eq!((told(&cluster, "osd.0"), told(&cluster, "osd.1")), (2, 2));
}

#[test]
fn an_osd_cannot_speak_for_another() {
    let mut cluster = Cluster::with_rbd();
    let epoch = cluster.map().epoch;
    cluster.say(Cluster::osd_conn(0), boot_message(1, epoch));
    cluster.say(ADMIN, boot_message(1, epoch));
    cluster.say(Cluster::osd_conn(0), failure(1, 2, cluster.map().up_from(OsdId(2)), true, 0));
    assert_eq!(cluster.map().epoch, epoch);
}

#[test]
fn a_refused_connection_marks_down_at_once_and_a_boot_brings_back() {
    let mut cluster = Cluster::with_rbd();
    let up_from = cluster.map().up_from(OsdId(2));
    cluster.say(Cluster::osd_conn(0), failure(0, 2, up_from, true, 0));
    assert!(cluster.map().is_down(OsdId(2)));
    assert_eq!(cluster.map().xinfo(OsdId(2)).dead_epoch, cluster.map().epoch, "nobody has to wait for it");
    assert!(cluster.text(r#"{"prefix":"health"}"#).contains("1 osds down"));
    cluster.boot_osd(2);
    assert!(cluster.map().is_up(OsdId(2)));
    assert!(cluster.map().up_from(OsdId(2)) > up_from);
    // A late report on the earlier life changes nothing.
    cluster.say(Cluster::osd_conn(0), failure(0, 2, up_from, true, 0));
    assert!(cluster.map().is_up(OsdId(2)));
}

#[test]
fn who_takes_nothing_is_down_at_once_and_may_live() {
    let mut cluster = Cluster::with_rbd();
    let up_from = cluster.map().up_from(OsdId(2));
    let report = MOSDFailure { may_live: true, ..failure(0, 2, up_from, true, 0) };
    cluster.say(Cluster::osd_conn(0), report);
    assert!(cluster.map().is_down(OsdId(2)));
    assert_eq!(cluster.map().xinfo(OsdId(2)).dead_epoch, Epoch(0), "it may be alive and serve others");
}

#[test]
fn two_reporters_and_the_grace_are_needed() {
    let mut cluster = Cluster::with_rbd();
    let up_from = cluster.map().up_from(OsdId(2));
    cluster.say(Cluster::osd_conn(0), failure(0, 2, up_from, false, 25));
    assert!(cluster.map().is_up(OsdId(2)));
    cluster.say(Cluster::osd_conn(1), failure(1, 2, up_from, false, 25));
    assert!(cluster.map().is_down(OsdId(2)));
    assert_eq!(cluster.map().xinfo(OsdId(2)).dead_epoch, Epoch(0), "it may be alive and serve others");

    let up_from = cluster.map().up_from(OsdId(1));
    cluster.say(Cluster::osd_conn(0), failure(0, 1, up_from, false, 5));
    assert!(cluster.map().is_up(OsdId(1)), "silent for 5 s only");
    cluster.pass(Duration::from_secs(16));
    assert!(cluster.map().is_down(OsdId(1)), "with two OSDs up one reporter is enough");
}

/// OSDs up on hosts: those of each entry are together.
fn on_hosts(hosts: &[&[i32]]) -> Cluster {
    let mut cluster = Cluster::new();
    for (host, osds) in hosts.iter().enumerate() {
        for id in *osds {
            // The first three have keys.
            if *id >= 3 {
                let caps = r#""caps":["mon","allow profile osd"]"#;
                cluster.ok(&format!(r#"{{"prefix":"auth get-or-create","entity":"osd.{id}",{caps}}}"#));
            }
            cluster.connect(Cluster::osd_conn(*id), &format!("osd.{id}"));
            let mut boot = boot_message(*id, cluster.map().epoch);
            boot.metadata.insert("hostname".to_owned(), format!("host{host}"));
            cluster.say(Cluster::osd_conn(*id), boot);
        }
    }
    cluster
}

/// The reporters miss the target for longer than the grace.
fn report(cluster: &mut Cluster, reporters: &[i32], target: i32) -> bool {
    let up_from = cluster.map().up_from(OsdId(target));
    for reporter in reporters {
        cluster.say(Cluster::osd_conn(*reporter), failure(*reporter, target, up_from, false, 25));
    }
    cluster.map().is_down(OsdId(target))
}

#[test]
fn a_host_that_is_cut_off_brings_nobody_down() {
    let mut cluster = on_hosts(&[&[0, 1, 2], &[3, 4], &[5, 6]]);
    assert!(!report(&mut cluster, &[0, 1, 2], 3));
    assert!(report(&mut cluster, &[5], 3), "a second host");
    // Two OSDs of the target's own host are in one place, but may count together with one elsewhere.
    assert!(!report(&mut cluster, &[0, 1], 2));
    assert!(report(&mut cluster, &[4], 2));
    cluster
        .ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_reporter_subtree_level","value":"osd"}"#);
    assert!(report(&mut cluster, &[0, 1], 5));
}

#[test]
fn hosts_that_are_not_there_are_not_waited_for() {
    let mut cluster = on_hosts(&[&[0, 1], &[2, 3]]);
    assert!(!report(&mut cluster, &[2], 0), "two have to tell");
    assert!(report(&mut cluster, &[3], 0), "only one host is left if the other one is lost");
    let mut cluster = on_hosts(&[&[0, 1, 2]]);
    assert!(report(&mut cluster, &[1, 2], 0));
    let mut cluster = on_hosts(&[&[0, 1, 2], &[3, 4, 5]]);
    assert!(!report(&mut cluster, &[1, 2], 0), "the other host may hear it");
}

#[test]
fn osds_are_not_marked_down_without_an_order_while_few_are_up() {
    let mut cluster = on_hosts(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]);
    cluster.ok(r#"{"prefix":"osd down","ids":["0","1","2","3","4"]}"#);
    assert!(report(&mut cluster, &[6, 7], 5), "three of eight are up");
    let up_from = cluster.map().up_from(OsdId(7));
    cluster.say(Cluster::osd_conn(6), failure(6, 7, up_from, true, 0));
    assert!(cluster.map().is_up(OsdId(7)), "refused");
    assert!(!report(&mut cluster, &[6], 7));
    cluster.pass(Duration::from_secs(120));
    assert_eq!(cluster.map().num_up(), 2, "silent");
    cluster.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_min_up_ratio","value":"0"}"#);
    cluster.pass(Duration::from_secs(2));
    assert_eq!(cluster.map().num_up(), 0);
}

#[test]
fn reports_of_failures_end_with_the_life_of_their_reporter() {
    let mut cluster = Cluster::with_rbd();
    let up_from = cluster.map().up_from(OsdId(2));
    cluster.say(Cluster::osd_conn(0), failure(0, 2, up_from, false, 25));
    let own = cluster.map().up_from(OsdId(0));
    cluster.say(Cluster::osd_conn(1), failure(1, 0, own, true, 0));
    cluster.boot_osd(0);
    assert!(cluster.map().is_up(OsdId(0)) && cluster.map().is_up(OsdId(2)));
    cluster.say(Cluster::osd_conn(1), failure(1, 2, up_from, false, 5));
    cluster.pass(Duration::from_secs(20));
    assert!(cluster.map().is_up(OsdId(2)), "osd.0 has not missed it since it is back");
    cluster.say(Cluster::osd_conn(0), failure(0, 2, up_from, false, 21));
    assert!(cluster.map().is_down(OsdId(2)));
}

#[test]
fn reports_of_failures_that_are_not_repeated_are_forgotten() {
    let mut cluster = Cluster::with_rbd();
    assert!(!report(&mut cluster, &[0], 2));
    cluster.pass(Duration::from_secs(25));
    assert!(!report(&mut cluster, &[0], 2));
    cluster.pass(Duration::from_secs(31));
    assert!(!report(&mut cluster, &[1], 2), "what took osd.0's back was lost");
    assert!(report(&mut cluster, &[0], 2));
}

#[test]
fn nodown_keeps_osds_up_and_noup_keeps_them_down() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd set","key":"nodown"}"#);
    let up_from = cluster.map().up_from(OsdId(2));
    cluster.say(Cluster::osd_conn(0), failure(0, 2, up_from, true, 0));
    assert!(cluster.map().is_up(OsdId(2)));
    cluster.ok(r#"{"prefix":"osd unset","key":"nodown"}"#);
    cluster.ok(r#"{"prefix":"osd set","key":"noup"}"#);
    assert_eq!(cluster.ok(r#"{"prefix":"osd down","ids":["2"]}"#), "marked down osd.2. ");
    cluster.boot_osd(2);
    assert!(cluster.map().is_down(OsdId(2)));
}

#[test]
fn nobody_has_to_wait_for_an_osd_that_is_declared_dead() {
    let mut cluster = Cluster::with_rbd();
    let dead = |cluster: &Cluster, osd: i32| cluster.map().xinfo(OsdId(osd)).dead_epoch;
    assert_eq!(cluster.ok(r#"{"prefix":"osd down","ids":["2"]}"#), "marked down osd.2. ");
    assert_eq!(dead(&cluster, 2), Epoch(0), "it may be alive and serve others");
    cluster.pass(Duration::from_secs(1));
    let down_stamp = cluster.map().xinfo(OsdId(2)).down_stamp;
    assert_eq!(
        cluster.ok(r#"{"prefix":"osd down","ids":["1","2"],"definitely_dead":true}"#),
        "marked down osd.1. osd.2 is already down. "
    );
    let (map, wall) = (cluster.map(), cluster.wall());
    assert!(map.is_down(OsdId(1)) && map.is_down(OsdId(2)));
    assert_eq!([dead(&cluster, 1), dead(&cluster, 2)], [map.epoch; 2]);
    assert_eq!([1, 2].map(|osd| map.xinfo(OsdId(osd)).down_stamp), [wall, down_stamp]);
    assert_eq!(dead(&cluster, 0), Epoch(0));
}

#[test]
fn an_orderly_stop_is_acknowledged_once_it_is_in_the_map() {
    let mut cluster = Cluster::with_rbd();
    cluster.is_committing = false;
    let request = MOSDMarkMeDown { osd: OsdId(1), epoch: cluster.map().epoch, is_ack: false };
    cluster.say(Cluster::osd_conn(1), request);
    let is_acked =
        |c: &Cluster| c.sent.iter().any(|(_, _, m)| matches!(m, Message::MOSDMarkMeDown(m) if m.is_ack));
    assert!(!is_acked(&cluster));
    cluster.commit();
    assert!(is_acked(&cluster) && cluster.map().is_down(OsdId(1)));
    assert_eq!(cluster.map().xinfo(OsdId(1)).dead_epoch, cluster.map().epoch);
}

/// A boot of another process of the OSD.
fn another_life(cluster: &Cluster, id: i32) -> MOSDBoot {
    let addrs = addr(7000 + id as u16 + cluster.map().epoch.0 as u16);
    let boot = boot_message(id, cluster.map().epoch);
    MOSDBoot { public_addrs: addrs.clone(), cluster_addrs: addrs, ..boot }
}

#[test]
fn a_stop_of_an_earlier_life_marks_nobody_down() {
    let mut cluster = Cluster::with_rbd();
    let (osd, conn) = (OsdId(1), Cluster::osd_conn(1));
    let late = MOSDMarkMeDown { osd, epoch: cluster.map().epoch, is_ack: false };
    cluster.ok(r#"{"prefix":"osd down","ids":["1"]}"#);
    let boot = another_life(&cluster, 1);
    cluster.say(conn, boot);
    let epoch = cluster.map().epoch;
    let tid = cluster.say(conn, late);
    assert!(cluster.map().is_up(osd) && cluster.map().epoch == epoch);
    assert_eq!(cluster.map().xinfo(osd).dead_epoch, Epoch(0));
    let is_ack = |m: &Message| matches!(m, Message::MOSDMarkMeDown(m) if m.is_ack);
    assert!(cluster.sent.iter().any(|(_, t, m)| *t == tid && is_ack(m)), "it would wait for an answer");
    cluster.say(conn, MOSDMarkMeDown { epoch, ..late });
    assert!(cluster.map().is_down(osd));
}

#[test]
fn a_boot_of_an_earlier_life_comes_too_late() {
    let mut cluster = Cluster::with_rbd();
    let (osd, conn) = (OsdId(1), Cluster::osd_conn(1));
    let late = another_life(&cluster, 1);
    let boot = another_life(&cluster, 1);
    let boot = MOSDBoot { public_addrs: addr(9000), ..boot };
    cluster.say(conn, boot);
    assert_eq!(cluster.map().osd_addrs(osd), Some(&addr(9000)));
    let epoch = cluster.map().epoch;
    cluster.sent.clear();
    cluster.say(conn, late.clone());
    assert_eq!((cluster.map().epoch, cluster.map().osd_addrs(osd)), (epoch, Some(&addr(9000))));
    assert_eq!(maps_sent(&cluster, conn).1.last(), Some(&epoch), "if it lives, it has to know of the other");
    // As late as after the end of the other one.
    cluster.say(conn, MOSDMarkMeDown { osd, epoch, is_ack: false });
    cluster.say(conn, late.clone());
    assert!(cluster.map().is_down(osd));
    cluster.say(conn, MOSDBoot { newest_map: epoch, ..late.clone() });
    assert_eq!(cluster.map().osd_addrs(osd), Some(&late.public_addrs));
}

/// The buckets that hold an OSD, nearest first.
fn place(cluster: &Cluster, osd: i32) -> Vec<String> {
    let location = cluster.map().crush.map().location(osd);
    location.into_iter().map(|(kind, name)| format!("{kind}={name}")).collect()
}

#[test]
fn an_osd_that_starts_on_another_host_moves_there() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd crush reweight","name":"osd.1","weight":2.0}"#);
    let start = |cluster: &mut Cluster, host: &str| {
        let mut boot = another_life(cluster, 1);
        boot.metadata.insert("hostname".to_owned(), host.to_owned());
        boot.metadata.insert("default_device_class".to_owned(), "hdd".to_owned());
        cluster.say(Cluster::osd_conn(1), boot);
        place(cluster, 1)
    };
    assert_eq!(start(&mut cluster, "other.example.com"), ["host=other", "root=default"]);
    let crush = cluster.map().crush.map();
    assert_eq!((crush.item_weight(1), crush.device_class(1)), (Some(0x20000), Some("ssd")));
    // Its host may be anywhere.
    cluster.ok(r#"{"prefix":"osd crush add-bucket","name":"r","type":"rack"}"#);
    cluster.ok(r#"{"prefix":"osd crush move","name":"other","args":["rack=r"]}"#);
    assert_eq!(start(&mut cluster, "other"), ["host=other", "rack=r"]);
    // It says where it is, and whether operators look after that.
    let set = |name: &str, value: &str| {
        format!(r#"{{"prefix":"config set","who":"osd","name":"{name}","value":"{value}"}}"#)
    };
    cluster.ok(&set("crush_location", "root=default rack=s host=h"));
    assert_eq!(start(&mut cluster, "other"), ["host=h", "rack=s", "root=default"]);
    cluster.ok(&set("crush_location", "h"));
    assert_eq!(start(&mut cluster, "other"), ["host=h", "rack=s", "root=default"], "it cannot be read");
    let report = |name: &str, value: &str| MMgrOpen {
        config: [(name.to_owned(), [(2, value.to_owned())].into())].into(),
        ..MMgrOpen::default()
    };
    cluster.say(Cluster::osd_conn(1), report("osd_crush_update_on_start", "false"));
    assert_eq!(start(&mut cluster, "other"), ["host=h", "rack=s", "root=default"]);
    cluster.say(Cluster::osd_conn(1), report("osd_crush_update_on_start", "true"));
    assert_eq!(start(&mut cluster, "vm"), ["host=vm", "root=default"]);
    // An OSD that was marked down and lives has not moved.
    let addrs = cluster.map().osd_addrs(OsdId(1)).cloned().unwrap();
    cluster.ok(r#"{"prefix":"osd crush set","id":"osd.1","weight":2.0,"args":["root=default","host=h"]}"#);
    cluster.ok(r#"{"prefix":"osd down","ids":["1"]}"#);
    let boot = MOSDBoot { public_addrs: addrs, ..boot_message(1, cluster.map().epoch) };
    cluster.say(Cluster::osd_conn(1), boot);
    assert_eq!((cluster.map().is_up(OsdId(1)), place(&cluster, 1)[0].as_str()), (true, "host=h"));
}

#[test]
fn an_osd_that_two_buckets_hold_stays_in_both() {
    let mut cluster = Cluster::with_rbd();
    let home = place(&cluster, 1);
    for command in [
        r#"{"prefix":"osd crush add-bucket","name":"fast","type":"root"}"#,
        r#"{"prefix":"osd crush add-bucket","name":"a-fast","type":"host"}"#,
        r#"{"prefix":"osd crush move","name":"a-fast","args":["root=fast"]}"#,
    ] {
        cluster.ok(command);
    }
    let mut crush = cluster.map().crush.map().clone();
    let other = crush.id_of("a-fast").unwrap();
    let bucket = crush.buckets.iter_mut().flatten().find(|bucket| bucket.id == other).unwrap();
    bucket.items.push(1);
    bucket.weight = 0x10000;
    bucket.alg = BucketAlg::Straw2 { item_weights: vec![0x10000] };
    let bytes = types::CrushBlob::from(crush).bytes().clone();
    let set = cluster.try_command(ADMIN, r#"{"prefix":"osd setcrushmap"}"#, &bytes).unwrap();
    assert_eq!(set.result, 0, "{}", set.status);
    let parents = |cluster: &Cluster| cluster.map().crush.map().parents_of(1).len();
    assert_eq!(parents(&cluster), 2);
    let mut boot = another_life(&cluster, 1);
    let host = home[0].strip_prefix("host=").unwrap();
    boot.metadata.insert("hostname".to_owned(), host.to_owned());
    cluster.say(Cluster::osd_conn(1), boot);
    assert_eq!(parents(&cluster), 2);
}

#[test]
fn silent_osds_go_down_and_then_out_and_come_back_in() {
    let mut cluster = Cluster::with_rbd();
    cluster.pass(Duration::from_secs(65));
    assert_eq!(cluster.map().num_up(), 0);
    cluster.boot_osd(0);
    for _ in 0..70 {
        cluster.report_all();
        cluster.pass(Duration::from_secs(10));
    }
    assert!(cluster.map().is_out(OsdId(1)), "three of three are in: one may go");
    assert!(cluster.map().is_in(OsdId(2)), "two of three are below the floor: nobody else goes");
    cluster.mon.options.osd_in_ratio_min = 0.5;
    cluster.pass(Duration::from_secs(2));
    assert!(cluster.map().is_out(OsdId(2)));
    assert!(cluster.map().state(OsdId(2)).has(OsdState::AUTOOUT));
    cluster.boot_osd(2);
    assert!(cluster.map().is_in(OsdId(2)));
}

#[test]
fn osds_have_longer_to_come_back_to_a_monitor_that_starts() {
    let mut cluster = Cluster::with_rbd();
    cluster.restart();
    cluster.pass(Duration::from_secs(170));
    assert_eq!(cluster.map().num_up(), 3);
    (0..3).for_each(|id| cluster.connect(Cluster::osd_conn(id), &format!("osd.{id}")));
    cluster.report_all();
    cluster.pass(Duration::from_secs(55));
    assert_eq!(cluster.map().num_up(), 3);
    cluster.pass(Duration::from_secs(10));
    assert_eq!(cluster.map().num_up(), 0, "silent since they were heard of");
}

#[test]
fn while_the_monitor_stands_still_nobody_is_silent_or_down() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
    cluster.report_all();
    cluster.pass(Duration::from_secs(10));
    cluster.now = cluster.now + Duration::from_secs(3_000);
    // One comes first, the others wait in line.
    let (osd, epoch) = (OsdId(0), cluster.map().epoch);
    cluster.say(Cluster::osd_conn(0), MPGStats { osd, epoch, ..MPGStats::default() });
    cluster.pass(Duration::from_secs(45));
    assert_eq!((cluster.map().num_up(), cluster.map().num_in()), (2, 3));
    cluster.pass(Duration::from_secs(20));
    assert_eq!(cluster.map().num_up(), 0, "a minute counts again");
}

#[test]
fn a_rack_that_is_down_as_a_whole_stays_in() {
    let mut cluster = on_hosts(&[&[0, 1], &[2, 3], &[4, 5, 6, 7, 8, 9]]);
    for (host, rack) in [(0, "a"), (1, "a"), (2, "b")] {
        cluster.ok(&format!(r#"{{"prefix":"osd crush add-bucket","name":"{rack}","type":"rack"}}"#));
        cluster.ok(&format!(
            r#"{{"prefix":"osd crush move","name":"host{host}","args":["root=default","rack={rack}"]}}"#
        ));
    }
    cluster.ok(r#"{"prefix":"osd set","key":"nodown"}"#);
    cluster.ok(r#"{"prefix":"osd down","ids":["0","1","2","3"]}"#);
    cluster.pass(Duration::from_secs(650));
    assert_eq!(cluster.map().num_in(), 10);
    let outs = |cluster: &Cluster| (0..4).filter(|id| cluster.map().is_out(OsdId(*id))).count();
    // With one of them back, the others have ten minutes.
    cluster.boot_osd(3);
    cluster.pass(Duration::from_secs(500));
    assert_eq!(outs(&cluster), 0);
    cluster.pass(Duration::from_secs(150));
    assert_eq!(outs(&cluster), 3);
}

#[test]
fn without_a_limit_whole_buckets_go_out() {
    let mut cluster = on_hosts(&[&[0], &[1, 2, 3]]);
    cluster.ok(r#"{"prefix":"osd down","ids":["0"]}"#);
    cluster.ok(r#"{"prefix":"osd set","key":"nodown"}"#);
    let limit = |kind: &str| {
        format!(
            r#"{{"prefix":"config set","who":"mon","name":"mon_osd_down_out_subtree_limit","value":"{kind}"}}"#
        )
    };
    cluster.ok(&limit("host"));
    cluster.pass(Duration::from_secs(650));
    assert!(cluster.map().is_in(OsdId(0)));
    cluster.ok(&limit("rack"));
    cluster.pass(Duration::from_secs(610));
    assert!(cluster.map().is_out(OsdId(0)), "a host is smaller than a rack");
}

/// The operator who takes an OSD in that is down knows that it is; it has ten minutes from then on.
#[test]
fn an_osd_that_is_taken_in_while_it_is_down_has_its_time() {
    let mut cluster = Cluster::with_rbd();
    let is_in = |cluster: &Cluster| cluster.map().is_in(OsdId(2));
    cluster.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
    cluster.ok(r#"{"prefix":"osd set","key":"nodown"}"#);
    cluster.pass(Duration::from_secs(599));
    assert!(is_in(&cluster));
    while is_in(&cluster) {
        cluster.pass(Duration::from_secs(1));
    }
    // At once, and again much later.
    for secs in [0, 700] {
        cluster.pass(Duration::from_secs(secs));
        cluster.ok(r#"{"prefix":"osd in","ids":["2"]}"#);
        cluster.pass(Duration::from_secs(590));
        assert!(is_in(&cluster), "{secs}");
        cluster.pass(Duration::from_secs(20));
        assert!(!is_in(&cluster), "{secs}");
    }
    // A flag of its group kept it in.
    cluster.ok(r#"{"prefix":"osd set-group","flags":"noout","who":["osd.2"]}"#);
    cluster.ok(r#"{"prefix":"osd in","ids":["2"]}"#);
    cluster.pass(Duration::from_secs(700));
    cluster.ok(r#"{"prefix":"osd unset-group","flags":"noout","who":["osd.2"]}"#);
    cluster.pass(Duration::from_secs(590));
    assert!(is_in(&cluster));
    cluster.pass(Duration::from_secs(20));
    assert!(!is_in(&cluster));
}
#[test]
fn alive_moves_up_thru_and_never_into_the_future() {
    let mut cluster = Cluster::with_rbd();
    let epoch = cluster.map().epoch;
    cluster.say(Cluster::osd_conn(0), MOSDAlive { osd: OsdId(0), want: epoch });
    assert_eq!(cluster.map().up_thru(OsdId(0)), epoch);
    cluster.say(Cluster::osd_conn(0), MOSDAlive { osd: OsdId(0), want: Epoch(9999) });
    assert_eq!(cluster.map().up_thru(OsdId(0)), epoch);
}

fn subscribe(what: &str, start: u64, flags: u8) -> MMonSubscribe {
    MMonSubscribe {
        what: [(what.to_owned(), SubscribeItem { start, flags })].into(),
        hostname: "vm".to_owned(),
    }
}

#[test]
fn subscribers_get_what_they_ask_for_and_then_each_change() {
    let mut cluster = Cluster::with_rbd();
    let newest = cluster.map().epoch;
    let conn = ConnId(50);
    cluster.connect(conn, "client.admin");
    cluster.say(conn, subscribe("osdmap", 0, 1));
    assert_eq!(maps_sent(&cluster, conn), (vec![newest], vec![]));
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert_eq!(maps_sent(&cluster, conn).1, vec![], "one answer ends a onetime subscription");
    cluster.say(conn, subscribe("osdmap", 3, 0));
    let have: Vec<Epoch> = (3..=newest.0 + 1).map(Epoch).collect();
    assert_eq!(maps_sent(&cluster, conn).1, have);
    cluster.ok(r#"{"prefix":"osd unset","key":"noout"}"#);
    assert_eq!(maps_sent(&cluster, conn).1.last(), Some(&Epoch(newest.0 + 2)));
}

#[test]
fn one_level_of_the_log_is_subscribed_to_at_a_time() {
    let mut cluster = Cluster::with_rbd();
    let conn = ConnId(51);
    cluster.connect(conn, "client.admin");
    let lines = |cluster: &Cluster| -> usize {
        let of_log = cluster.sent.iter().filter_map(|(to, _, message)| match message {
            Message::MLog(log) if *to == conn => Some(log.entries.len()),
            _ => None,
        });
        of_log.sum()
    };
    cluster.ok(r#"{"prefix":"log","logtext":["before"]}"#);
    cluster.say(conn, subscribe("log-info", 0, 0));
    assert_eq!(lines(&cluster), 1, "the newest line");
    cluster.ok(r#"{"prefix":"log","logtext":["one"]}"#);
    assert_eq!(lines(&cluster), 3, "it, and the command");
    cluster.say(conn, subscribe("log-error", 0, 0));
    cluster.ok(r#"{"prefix":"log","logtext":["two"]}"#);
    assert_eq!(lines(&cluster), 3, "no errors");
    cluster.pass(Duration::from_secs(4));
    assert_eq!(lines(&cluster), 3, "nothing of the PGs");
    cluster.say(conn, subscribe("log-debug", 0, 0));
    cluster.pass(Duration::from_secs(4));
    assert!(lines(&cluster) > 4, "a line on the PGs every two seconds");
    let kept = cluster.text(r#"{"prefix":"log last","num":10,"level":"debug"}"#);
    assert!(!kept.contains("pgmap"), "{kept}");
}

#[test]
fn a_onetime_subscription_to_the_next_epoch_waits() {
    let mut cluster = Cluster::with_rbd();
    let next = cluster.map().epoch.next();
    let conn = ConnId(50);
    cluster.connect(conn, "client.admin");
    cluster.say(conn, subscribe("osdmap", u64::from(next.0), 1));
    assert_eq!(maps_sent(&cluster, conn), (vec![], vec![]));
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert_eq!(maps_sent(&cluster, conn), (vec![], vec![next]));
}

#[test]
fn incrementals_lead_from_the_first_map_to_the_newest() {
    let cluster = Cluster::with_rbd();
    let incs = &cluster.mon.committed.incrementals;
    let mut map = OsdMap::new(super::cluster::FSID, Default::default(), Default::default());
    for (_, bytes) in incs.from(Epoch(0)) {
        let inc = Incremental::from_bytes(bytes.clone()).unwrap();
        map.apply(&inc).unwrap();
        assert_eq!(map.to_bytes_and_crc().1, inc.full_crc);
    }
    assert_eq!(map, *cluster.map());
}

/// So many epochs.
fn pass_epochs(cluster: &mut Cluster, count: u32) {
    for _ in 0..count / 2 {
        cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
        cluster.ok(r#"{"prefix":"osd unset","key":"noout"}"#);
    }
}

#[test]
fn history_is_trimmed_and_who_is_behind_gets_a_full_map() {
    let mut cluster = Cluster::with_rbd();
    pass_epochs(&mut cluster, 1_000);
    cluster.report_all();
    pass_epochs(&mut cluster, 200);
    let oldest = cluster.mon.committed.oldest_epoch();
    assert!(oldest.0 > 100 && cluster.map().epoch.0 - oldest.0 >= 500, "{oldest}");
    let newest = cluster.map().epoch;
    cluster.connect(ConnId(50), "client.admin");
    cluster.say(ConnId(50), subscribe("osdmap", 5, 0));
    assert_eq!(maps_sent(&cluster, ConnId(50)), (vec![newest], vec![]));
    // An OSD's PGs have to know what happened.
    cluster.sent.clear();
    cluster.say(Cluster::osd_conn(0), subscribe("osdmap", 5, 0));
    let (fulls, incrementals) = maps_sent(&cluster, Cluster::osd_conn(0));
    assert_eq!(fulls, [oldest]);
    assert_eq!(incrementals, (oldest.0 + 1..=newest.0).map(Epoch).collect::<Vec<_>>());
    cluster.restart();
    assert_eq!(cluster.map().epoch, newest);
    assert!(cluster.mon.committed.full_map(Epoch(newest.0 - 400)).is_some());
}

#[test]
fn maps_are_given_by_epoch() {
    let mut cluster = Cluster::with_rbd();
    pass_epochs(&mut cluster, 20);
    let newest = cluster.map().epoch;
    let conn = Cluster::osd_conn(0);
    let mut ask = |question: MMonGetOSDMap| {
        cluster.sent.clear();
        cluster.say(conn, question);
        maps_sent(&cluster, conn)
    };
    let epochs = |range: std::ops::RangeInclusive<u32>| range.map(Epoch).collect::<Vec<_>>();
    assert_eq!(ask(MMonGetOSDMap::whole(Epoch(7))), (epochs(7..=7), vec![]));
    assert_eq!(ask(MMonGetOSDMap::whole(newest.next())), (vec![], vec![]));
    let (inc_first, inc_last) = (Epoch(newest.0 - 2), Epoch(u32::MAX));
    let both = MMonGetOSDMap { inc_first, inc_last, ..MMonGetOSDMap::whole(newest) };
    assert_eq!(ask(both), (vec![newest], epochs(newest.0 - 2..=newest.0)));
    let many = MMonGetOSDMap { full_first: Epoch(3), full_last: newest, ..MMonGetOSDMap::default() };
    assert_eq!(ask(many), (epochs(3..=7), vec![]), "the rest is for another question");
}

#[test]
fn maps_are_kept_that_a_pg_needs_which_is_not_clean() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    cluster.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
    let down = cluster.map().epoch;
    pass_epochs(&mut cluster, 1_000);
    // Two of three copies: reported often, and never clean.
    cluster.report_all();
    pass_epochs(&mut cluster, 200);
    assert!(cluster.mon.committed.full_map(down).is_some());
    pass_epochs(&mut cluster, 1_000);
    // Full maps become fewer, about equally far apart; the maps between them can still be had.
    let fulls: Vec<Epoch> = cluster.mon.committed.fulls.keys().copied().collect();
    assert!(fulls.len() <= 40 && fulls[0] < down, "{fulls:?}");
    let gaps: Vec<u32> = fulls.windows(2).map(|at| at[1].0 - at[0].0).collect();
    assert!(gaps.iter().all(|gap| *gap <= 200), "{gaps:?}");
    let oldest = cluster.mon.committed.oldest_epoch();
    for epoch in (oldest.0..=cluster.map().epoch.0).step_by(97).map(Epoch) {
        assert_eq!(cluster.mon.committed.full_map(epoch).map(|map| map.epoch), Some(epoch));
    }
    // No OSD has told the new monitor yet what is clean.
    cluster.restart();
    pass_epochs(&mut cluster, 100);
    assert!(cluster.mon.committed.full_map(down).is_some());
}
#[test]
fn who_has_all_maps_but_the_next_gets_it_however_few_are_kept() {
    let mut cluster = Cluster::new();
    cluster.ok(r#"{"prefix":"config set","who":"mon","name":"mon_min_osdmap_epochs","value":"0"}"#);
    let next = cluster.map().epoch.next();
    let what = [("osdmap".to_owned(), SubscribeItem { start: next.0.into(), flags: 0 })].into();
    cluster.say(ADMIN, MMonSubscribe { what, ..MMonSubscribe::default() });
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert!(maps_sent(&cluster, ADMIN).1.contains(&next));
}

#[test]
fn a_boot_from_the_end_of_time_changes_nothing() {
    let mut cluster = Cluster::with_rbd();
    let epoch = cluster.map().epoch;
    cluster.say(Cluster::osd_conn(1), boot_message(1, Epoch(u32::MAX)));
    assert_eq!(cluster.map().epoch, epoch);
}

#[test]
fn device_classes_of_osds_that_do_not_exist_are_passed_over() {
    let mut cluster = Cluster::new();
    cluster.boot_osd(0);
    let ack = cluster.command(r#"{"prefix":"osd crush rm-device-class","ids":["7","osd.0"]}"#);
    let expect = "osd.7 does not exist. done removing class of osd(s): 0";
    assert_eq!((ack.result, &*ack.status), (0, expect));
    assert_eq!(cluster.command(r#"{"prefix":"osd crush rm-device-class","ids":["x"]}"#).result, -22);
    let classes = cluster.text(r#"{"prefix":"osd crush get-device-class","ids":["7"],"format":"json"}"#);
    assert_eq!(classes.trim(), r#"[{"osd":7,"device_class":""}]"#);
}
