//! The balancer: what it moves, when, and which parts of it operators control.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crush::{
    Step,
    step::{CHOOSE_FIRSTN, CHOOSELEAF_FIRSTN},
};
use types::{OsdId, OsdMap, PoolId, Uuid};

use super::cluster::{ADMIN, Cluster, addr};

const POOL: PoolId = PoolId(1);

/// Two racks of two hosts with two OSDs each, and 64 PGs of three copies under this rule's last steps.
fn cluster(rule: &str) -> Cluster {
    cluster_at(rule, |id| (id / 4, id / 2))
}

/// The same with each OSD in the rack and the host of these numbers.
fn cluster_at(rule: &str, place: fn(i32) -> (i32, i32)) -> Cluster {
    let mut cluster = Cluster::new();
    for id in 0..8 {
        let uuid = Uuid([id as u8 + 1; 16]);
        cluster.ok(&format!(
            r#"{{"prefix":"auth get-or-create","entity":"osd.{id}","caps":["mon","allow profile osd","osd","allow *"]}}"#
        ));
        cluster.ok(&format!(r#"{{"prefix":"osd create","uuid":"{uuid}","id":{id}}}"#));
        cluster.boot_osd(id);
        let (rack, host) = place(id);
        cluster.ok(&format!(
            r#"{{"prefix":"osd crush set","id":{id},"weight":1.0,"args":["root=default","rack=r{rack}","host=h{host}"]}}"#
        ));
    }
    cluster.ok(rule);
    cluster.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":64,"rule":"r"}"#);
    cluster.mon.set_manager(addr(6800));
    cluster
}

const BY_HOST: &str =
    r#"{"prefix":"osd crush rule create-replicated","name":"r","root":"default","type":"host"}"#;

fn counts(map: &OsdMap) -> Vec<u32> {
    let mut counts: BTreeMap<OsdId, u32> = map.osds().map(|osd| (osd, 0)).collect();
    for pg in map.pgs_of(POOL) {
        let up = map.pg_to_up_acting(pg).up;
        let hosts: BTreeSet<i32> = up.iter().map(|osd| osd.0 / 2).collect();
        assert_eq!((up.len(), hosts.len()), (3, 3), "{pg} is on {up:?}");
        up.iter().for_each(|osd| *counts.get_mut(osd).unwrap() += 1);
    }
    counts.into_values().collect()
}

fn spread(map: &OsdMap) -> u32 {
    let counts = counts(map);
    counts.iter().max().unwrap() - counts.iter().min().unwrap()
}

/// A minute passes, in which all OSDs say often enough that they live.
fn pass_minute(cluster: &mut Cluster) {
    for _ in 0..6 {
        cluster.report_all();
        cluster.pass(Duration::from_secs(10));
    }
}

#[test]
fn a_plan_is_made_shown_and_executed() {
    let mut cluster = cluster(BY_HOST);
    let optimize = r#"{"prefix":"balancer optimize","plan":"a"}"#;
    for verb in ["optimize", "execute"] {
        let (errno, why) = cluster.refused(&format!(r#"{{"prefix":"balancer {verb}","plan":"a"}}"#));
        assert!(errno == -22 && why.starts_with("Balancer enabled, disable to "), "{why}");
    }
    cluster.ok(r#"{"prefix":"balancer off"}"#);
    let (errno, why) = cluster.refused(optimize);
    assert!(errno == -11 && why.starts_with("Some PGs (1.000000) are unknown"), "{why}");
    cluster.report_all();
    for (name, value) in [("upmap_max_deviation", 1), ("upmap_max_optimizations", 100)] {
        cluster.ok(&format!(
            r#"{{"prefix":"config set","who":"mgr","name":"mgr/balancer/{name}","value":"{value}"}}"#
        ));
    }
    let before = cluster.map().clone();
    assert!(spread(&before) > 2, "{:?}", counts(&before));
    cluster.ok(optimize);
    let text = cluster.text(r#"{"prefix":"balancer show","plan":"a"}"#);
    assert!(text.lines().skip(3).all(|line| line.starts_with("ceph osd pg-upmap-items 1.")), "{text}");
    let score = |text: String| text.split(' ').rev().nth(3).unwrap().parse::<f64>().unwrap();
    let now = score(cluster.text(r#"{"prefix":"balancer eval"}"#));
    let then = score(cluster.text(r#"{"prefix":"balancer eval","option":"a"}"#));
    assert!(then < now, "{then} {now}");
    assert_eq!(*cluster.map(), before, "nothing is moved by a plan");
    cluster.ok(r#"{"prefix":"balancer execute","plan":"a"}"#);
    assert!(spread(cluster.map()) <= 2, "{:?}", counts(cluster.map()));
    assert_eq!(cluster.refused(r#"{"prefix":"balancer show","plan":"a"}"#).0, -2);
    cluster.report_all();
    let (errno, why) = cluster.refused(optimize);
    assert!(errno == -114 && why.starts_with("Unable to find further optimization"), "{why}");
}

#[test]
fn racks_of_unequal_size_are_evened_each_within_itself() {
    let by_rack =
        r#"{"prefix":"osd crush rule create-replicated","name":"r","root":"default","type":"rack"}"#;
    // A rack of two OSDs and two of three: each has a copy of each PG.
    let mut cluster = cluster_at(by_rack, |id| ((id + 1) / 3, id));
    cluster.ok(r#"{"prefix":"balancer off"}"#);
    for (name, value) in [("upmap_max_deviation", 1), ("upmap_max_optimizations", 100)] {
        cluster.ok(&format!(
            r#"{{"prefix":"config set","who":"mgr","name":"mgr/balancer/{name}","value":"{value}"}}"#
        ));
    }
    let spreads = |map: &OsdMap| {
        let mut counts = [0u32; 8];
        for pg in map.pgs_of(POOL) {
            map.pg_to_up_acting(pg).up.iter().for_each(|osd| counts[osd.0 as usize] += 1);
        }
        let spread = |rack: &[u32]| rack.iter().max().unwrap() - rack.iter().min().unwrap();
        assert_eq!(counts[..2].iter().sum::<u32>(), 64);
        [spread(&counts[..2]), spread(&counts[2..5]), spread(&counts[5..])]
    };
    assert!(spreads(cluster.map()).iter().any(|spread| *spread > 2), "{:?}", spreads(cluster.map()));
    let optimize = r#"{"prefix":"balancer optimize","plan":"a"}"#;
    cluster.report_all();
    cluster.ok(optimize);
    cluster.ok(r#"{"prefix":"balancer execute","plan":"a"}"#);
    assert!(spreads(cluster.map()).iter().all(|spread| *spread <= 2), "{:?}", spreads(cluster.map()));
    cluster.report_all();
    assert_eq!(cluster.refused(optimize).0, -114);
}

#[test]
fn it_moves_a_few_at_a_time_and_only_when_all_is_well() {
    let mut cluster = cluster(BY_HOST);
    cluster
        .ok(r#"{"prefix":"config set","who":"mgr","name":"mgr/balancer/upmap_max_deviation","value":"1"}"#);
    cluster.ok(
        r#"{"prefix":"config set","who":"mgr","name":"mgr/balancer/upmap_max_optimizations","value":"2"}"#,
    );
    cluster.ok(r#"{"prefix":"balancer off"}"#);
    let minute = |cluster: &mut Cluster| {
        pass_minute(cluster);
        cluster.map().pg_upmap_items.len()
    };
    assert_eq!((minute(&mut cluster), minute(&mut cluster)), (0, 0));
    cluster.ok(r#"{"prefix":"balancer on"}"#);
    let first = minute(&mut cluster);
    assert!((1..=4).contains(&first), "{first}");
    for _ in 0..30 {
        minute(&mut cluster);
    }
    assert!(spread(cluster.map()) <= 2, "{:?}", counts(cluster.map()));
    let status = cluster.json(r#"{"prefix":"balancer status"}"#);
    assert_eq!((&status["active"], &status["no_optimization_needed"]), (&true.into(), &true.into()));
    let started = status["last_optimize_started"].as_str().unwrap();
    assert!(started.contains(" Sep ") && started.ends_with(" 2026"), "{started}");
}

#[test]
fn two_copies_a_host_stay_in_their_hosts() {
    let mut cluster = cluster(BY_HOST);
    let mut crush = cluster.map().crush.map().clone();
    let rule = crush.rule_of("r").unwrap();
    let steps = &mut crush.rules[usize::from(rule)].as_mut().unwrap().steps;
    let step = |op, arg1, arg2| Step { op, arg1, arg2 };
    let (take, emit) = (steps[0], steps[steps.len() - 1]);
    *steps = vec![take, step(CHOOSE_FIRSTN, 2, 1), step(CHOOSE_FIRSTN, 2, 0), emit];
    let bytes = types::CrushBlob::from(crush).bytes().clone();
    assert_eq!(cluster.try_command(ADMIN, r#"{"prefix":"osd setcrushmap"}"#, &bytes).unwrap().result, 0);
    cluster.ok(r#"{"prefix":"osd pool set","pool":"p","var":"size","val":"4"}"#);
    cluster.ok(r#"{"prefix":"osd reweight","id":0,"weight":0.5}"#);
    cluster
        .ok(r#"{"prefix":"config set","who":"mgr","name":"mgr/balancer/upmap_max_deviation","value":"1"}"#);
    let mut epochs = Vec::new();
    for _ in 0..20 {
        pass_minute(&mut cluster);
        epochs.push(cluster.map().epoch);
        for pg in cluster.map().pgs_of(POOL) {
            let up = cluster.map().pg_to_up_acting(pg).up;
            let hosts: BTreeSet<i32> = up.iter().map(|osd| osd.0 / 2).collect();
            assert!(hosts.len() <= 2, "{pg} is on {up:?}");
        }
    }
    assert_eq!(epochs[18], epochs[19], "it comes to an end");
}

/// The rule chooses hosts twice, once for each class, so that two copies may be in one host. An upmap of such a PG
/// leaves the map, unless it brings each copy to a host of its own.
#[test]
fn no_copy_is_moved_to_where_the_rule_would_have_its_upmap_dropped() {
    let mut cluster = cluster(BY_HOST);
    let odd = r#""ids":["1","3","5","7"]"#;
    cluster.ok(&format!(r#"{{"prefix":"osd crush rm-device-class",{odd}}}"#));
    cluster.ok(&format!(r#"{{"prefix":"osd crush set-device-class","class":"hdd",{odd}}}"#));
    for class in ["ssd", "hdd"] {
        cluster.ok(&format!(
            r#"{{"prefix":"osd crush rule create-replicated","name":"{class}","root":"default","type":"host","class":"{class}"}}"#
        ));
    }
    let mut crush = cluster.map().crush.map().clone();
    let steps = |name| &crush.rule(crush.rule_of(name).unwrap()).unwrap().steps;
    let host = |arg1| Step { op: CHOOSELEAF_FIRSTN, arg1, arg2: 1 };
    let (ssd, hdd, emit) = (steps("ssd")[0], steps("hdd")[0], *steps("ssd").last().unwrap());
    let rule = crush.rule_of("r").unwrap();
    crush.rules[usize::from(rule)].as_mut().unwrap().steps = vec![ssd, host(1), emit, hdd, host(-1), emit];
    let bytes = types::CrushBlob::from(crush).bytes().clone();
    assert_eq!(cluster.try_command(ADMIN, r#"{"prefix":"osd setcrushmap"}"#, &bytes).unwrap().result, 0);
    cluster
        .ok(r#"{"prefix":"config set","who":"mgr","name":"mgr/balancer/upmap_max_deviation","value":"1"}"#);
    let mut epochs = Vec::new();
    for _ in 0..20 {
        pass_minute(&mut cluster);
        epochs.push(cluster.map().epoch);
    }
    assert_eq!(epochs[15], epochs[19], "it comes to an end: {epochs:?}");
    assert!(!cluster.map().pg_upmap_items.is_empty(), "other copies are moved");
    // Each class has a share of its own: one copy of each PG, and two.
    let mut counts = [0u32; 8];
    for pg in cluster.map().pgs_of(POOL) {
        cluster.map().pg_to_up_acting(pg).up.iter().for_each(|osd| counts[osd.0 as usize] += 1);
    }
    for (first, share) in [(0, 16), (1, 32)] {
        let counts: Vec<u32> = counts.iter().skip(first).step_by(2).copied().collect();
        assert!(counts.iter().all(|count| count.abs_diff(share) <= 2), "{counts:?}");
    }
}

#[test]
fn what_was_moved_goes_back_first() {
    let mut cluster = cluster(BY_HOST);
    cluster.ok(r#"{"prefix":"balancer off"}"#);
    cluster.report_all();
    for (name, value) in [("upmap_max_deviation", 1), ("upmap_max_optimizations", 100)] {
        cluster.ok(&format!(
            r#"{{"prefix":"config set","who":"mgr","name":"mgr/balancer/{name}","value":"{value}"}}"#
        ));
    }
    // By hand as many as there are go from one OSD to the other of its host.
    let before = cluster.map().clone();
    let on_first: Vec<_> =
        before.pgs_of(POOL).filter(|pg| before.pg_to_up_acting(*pg).up.contains(&OsdId(0))).collect();
    for pg in &on_first {
        cluster.ok(&format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"{pg}","id":["0","1"]}}"#));
    }
    cluster.report_all();
    cluster.ok(r#"{"prefix":"balancer optimize","plan":"a"}"#);
    let text = cluster.text(r#"{"prefix":"balancer show","plan":"a"}"#);
    assert!(text.contains("ceph osd rm-pg-upmap-items 1."), "{text}");
    cluster.ok(r#"{"prefix":"balancer execute","plan":"a"}"#);
    assert!(spread(cluster.map()) <= 2, "{:?}", counts(cluster.map()));
}

#[test]
fn upmaps_without_effect_and_such_as_the_rule_forbids_leave_the_map() {
    let mut cluster = cluster(BY_HOST);
    let before = cluster.map().clone();
    let raw = |pg| before.pg_to_raw_osds(pg);
    // The other OSD of the same host is free.
    let beside = |osd: OsdId| OsdId(osd.0 ^ 1);
    let pgs: Vec<_> = before.pgs_of(POOL).take(6).collect();
    let set = |cluster: &mut Cluster, pg, pairs: &[OsdId]| {
        let ids: Vec<String> = pairs.iter().map(|osd| format!("\"{osd}\"")).collect();
        let ids = ids.join(",");
        cluster.ok(&format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"{pg}","id":[{ids}]}}"#));
    };
    let pair = |pg, place: usize| [raw(pg)[place], beside(raw(pg)[place])];
    let [good, halved, nowhere, crowded, gone, whole] = pgs[..] else { unreachable!("there are 64") };
    let absent =
        before.osds().find(|osd| !raw(halved).contains(osd) && raw(halved)[0] != beside(*osd)).unwrap();
    set(&mut cluster, good, &pair(good, 0));
    set(&mut cluster, halved, &[&pair(halved, 0)[..], &[absent, beside(absent)]].concat());
    let absent = before.osds().find(|osd| !raw(nowhere).contains(osd)).unwrap();
    set(&mut cluster, nowhere, &[absent, beside(absent)]);
    set(&mut cluster, crowded, &[raw(crowded)[0], beside(raw(crowded)[1])]);
    let same: Vec<String> = raw(whole).iter().map(|osd| format!("\"{osd}\"")).collect();
    cluster.ok(&format!(r#"{{"prefix":"osd pg-upmap","pgid":"{whole}","id":[{}]}}"#, same.join(",")));
    cluster.pass(Duration::from_secs(10));
    let kept = BTreeMap::from([(good, vec![pair(good, 0).into()]), (halved, vec![pair(halved, 0).into()])]);
    assert_eq!(cluster.map().pg_upmap_items, kept);
    assert!(cluster.map().pg_upmap.is_empty());

    // An OSD that goes out takes along what leads to it.
    set(&mut cluster, gone, &pair(gone, 0));
    let target = pair(gone, 0)[1];
    cluster.ok(&format!(r#"{{"prefix":"osd out","ids":["{target}"]}}"#));
    cluster.pass(Duration::from_secs(10));
    let epoch = cluster.map().epoch;
    assert!(cluster.map().pg_upmap_items.values().flatten().all(|(_, to)| *to != target));
    cluster.pass(Duration::from_secs(10));
    assert_eq!(cluster.map().epoch, epoch, "a map is looked at once");
}

#[test]
fn an_upmap_of_another_size_than_the_pool_leaves_the_map() {
    let mut cluster = cluster(BY_HOST);
    let pgs: Vec<_> = cluster.map().pgs_of(POOL).take(2).collect();
    let set = |cluster: &mut Cluster, pg, osds: &[i32]| {
        let ids: Vec<String> = osds.iter().map(|osd| format!("\"{osd}\"")).collect();
        cluster.ok(&format!(r#"{{"prefix":"osd pg-upmap","pgid":"{pg}","id":[{}]}}"#, ids.join(",")));
        cluster.pass(Duration::from_secs(10));
    };
    // None of these is where the rule places the PG.
    let placed = |cluster: &Cluster, pg| cluster.map().pg_to_raw_osds(pg);
    let other = |cluster: &Cluster, pg| -> Vec<i32> {
        let mut osds: Vec<i32> = placed(cluster, pg).iter().map(|osd| osd.0).collect();
        osds[0] ^= 1;
        osds
    };
    let (whole, short) = (other(&cluster, pgs[0]), other(&cluster, pgs[1]));
    set(&mut cluster, pgs[0], &whole);
    set(&mut cluster, pgs[1], &short[..2]);
    assert_eq!(cluster.map().pg_upmap.keys().copied().collect::<Vec<_>>(), pgs[..1]);
    cluster.ok(r#"{"prefix":"osd pool set","pool":"p","var":"size","val":"4"}"#);
    cluster.pass(Duration::from_secs(10));
    assert!(cluster.map().pg_upmap.is_empty());
}
