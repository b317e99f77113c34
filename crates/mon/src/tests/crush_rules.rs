//! Rules by which pools could not be placed.

use crush::{CrushMap, RuleForm, Step, WEIGHT_ONE, step};
use messages::MOSDBoot;

use super::cluster::{ADMIN, Cluster, addr, boot_message};

/// A class whose OSDs are in three hosts of so many.
fn with_few_of_a_class(cluster: &Cluster, hosts: i32) -> CrushMap {
    let mut crush = cluster.map().crush.map().clone();
    for id in 0..hosts {
        let at = [("host", format!("h{id}")), ("root", "default".to_owned())];
        let at = at.map(|(kind, name)| (kind.to_owned(), name));
        crush.place_device(id, &format!("osd.{id}"), WEIGHT_ONE, &at).unwrap();
        crush.set_device_classes(&[id], Some(if id < 3 { "few" } else { "many" })).unwrap();
    }
    crush.add_simple_rule("few", "default", "host", Some("few"), RuleForm::REPLICATED).unwrap();
    crush
}

fn set_pool(var: &str, val: &str) -> String {
    format!(r#"{{"prefix":"osd pool set","pool":"rbd","var":"{var}","val":"{val}"}}"#)
}

/// The map with rules of its own: number 1 for erasure-coded pools, 2 for those of four copies and more, 3 for those of
/// one and two.
fn with_rules(cluster: &Cluster) -> CrushMap {
    let mut crush = cluster.map().crush.map().clone();
    for (name, pool_kind, sizes) in [("coded", 3, (1, 10)), ("large", 1, (4, 10)), ("small", 1, (1, 2))] {
        let form = RuleForm { pool_kind, sizes, ..RuleForm::REPLICATED };
        crush.add_simple_rule(name, "default", "osd", None, form).unwrap();
    }
    crush
}

/// Sets the CRUSH map: errno and the line for the operator.
fn set_map(cluster: &mut Cluster, crush: CrushMap) -> (i32, String) {
    let bytes = types::CrushBlob::from(crush).bytes().clone();
    let ack = cluster.try_command(ADMIN, r#"{"prefix":"osd setcrushmap"}"#, &bytes).unwrap();
    (ack.result, ack.status)
}

#[test]
fn a_pool_is_placed_by_a_rule_for_its_kind_and_size() {
    let mut cluster = Cluster::with_rbd();
    let crush = with_rules(&cluster);
    assert_eq!(set_map(&mut cluster, crush).0, 0);
    let (small, large) = (
        "pool size is smaller than the crush rule min size".to_owned(),
        "pool size is bigger than the crush rule max size".to_owned(),
    );
    let other = "crush rule 1 type does not match pool".to_owned();
    assert_eq!(cluster.refused(&set_pool("crush_rule", "coded")), (-22, other.clone()));
    assert_eq!(cluster.refused(&set_pool("crush_rule", "large")), (-22, small.clone()));
    assert_eq!(cluster.refused(&set_pool("crush_rule", "small")), (-22, large));
    assert_eq!(cluster.refused(&set_pool("crush_rule", "none")).0, -2);
    cluster.ok(&set_pool("size", "4"));
    cluster.ok(&set_pool("crush_rule", "large"));
    assert_eq!(cluster.refused(&set_pool("size", "3")), (-22, small.clone()));
    let create = |rule: &str| {
        format!(r#"{{"prefix":"osd pool create","pool":"p","pg_num":8,"rule":"{rule}","size":3}}"#)
    };
    assert_eq!(cluster.refused(&create("large")), (-22, small));
    assert_eq!(cluster.refused(&create("coded")), (-22, other));
    assert!(cluster.map().pgs().all(|pg| !cluster.map().pg_to_up_acting(pg).up.is_empty()));
}

#[test]
fn a_crush_map_that_does_not_place_a_pool_is_refused() {
    type Change = fn(&mut CrushMap);
    let mut cluster = Cluster::with_rbd();
    let crush = with_rules(&cluster);
    let changed = |change: Change| {
        let mut crush = crush.clone();
        change(&mut crush);
        crush
    };
    let cases: [(Change, &str); 4] = [
        (|crush| crush.rules[0] = None, "pool 1 references crush_rule 0 but it is not present"),
        (|crush| crush.rules[0].as_mut().unwrap().ruleset = 7, "rule 0 mask ruleset does not match rule id"),
        (|crush| crush.rules[0].as_mut().unwrap().kind = 3, "pool 1 type does not match rule 0"),
        (
            |crush| crush.rules[0].as_mut().unwrap().max_size = 2,
            "pool 1 size 3 does not fall within rule 0 min_size 1 and max_size 2",
        ),
    ];
    for (change, why) in cases {
        assert_eq!(set_map(&mut cluster, changed(change)), (-22, why.to_owned()));
    }
    assert_eq!(set_map(&mut cluster, crush.clone()).0, 0);
}

#[test]
fn a_crush_map_whose_rules_find_no_end_is_refused() {
    type Change = fn(&mut CrushMap);
    let mut cluster = Cluster::with_rbd();
    let crush = with_rules(&cluster);
    let cases: [(Change, u8); 3] = [
        (
            |crush| {
                let steps = &mut crush.rules[2].as_mut().unwrap().steps;
                steps.insert(0, Step { op: step::SET_CHOOSE_TRIES, arg1: 100_000_000, arg2: 0 });
            },
            2,
        ),
        (|crush| crush.rules[2].as_mut().unwrap().steps[1].arg1 = 2_000_000_000, 2),
        (|crush| crush.tunables.choose_local_fallback_tries = u32::MAX, 0),
    ];
    for (change, rule) in cases {
        let mut changed = crush.clone();
        change(&mut changed);
        let why = format!("crush smoke test failed with -110: rule {rule} takes too long");
        assert_eq!(set_map(&mut cluster, changed), (-110, why));
    }
    // Tries that many clusters set are none too many, also for more copies than there are OSDs.
    let mut patient = crush;
    patient.tunables.choose_total_tries = 1_000;
    assert_eq!(set_map(&mut cluster, patient).0, 0);
    let mut few = with_few_of_a_class(&cluster, 40);
    few.tunables.choose_total_tries = 1_000;
    assert_eq!(set_map(&mut cluster, few).0, 0);
}

#[test]
fn an_operator_can_set_a_crush_map_whose_rules_find_no_end() {
    let mut cluster = Cluster::with_rbd();
    let mut endless = with_rules(&cluster);
    endless.tunables.choose_total_tries = 100_000_000;
    assert_eq!(set_map(&mut cluster, endless.clone()).0, -110);
    cluster.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_crush_smoke_test","value":"false"}"#);
    assert_eq!(set_map(&mut cluster, endless).0, 0);
}

#[test]
fn weights_that_clients_take_for_negative_are_refused() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd crush weight-set create-compat"}"#);
    for (command, name) in [("osd crush reweight", "name"), ("osd crush weight-set reweight-compat", "item")]
    {
        let with = |weight: &str| {
            let list = if name == "item" { format!("[{weight}]") } else { weight.to_owned() };
            format!(r#"{{"prefix":"{command}","{name}":"osd.0","weight":{list}}}"#)
        };
        let why = "(75) Value too large for defined data type".to_owned();
        assert_eq!(cluster.refused(&with("32768.0")), (-75, why));
        cluster.ok(&with("32767.5"));
    }
}

#[test]
fn a_bucket_whose_class_a_rule_takes_stays() {
    let mut cluster = Cluster::with_rbd();
    for command in [
        r#"{"prefix":"osd crush add-bucket","name":"fast","type":"root"}"#,
        // With this its shadow comes.
        r#"{"prefix":"osd crush reweight-all"}"#,
        r#"{"prefix":"osd crush rule create-replicated","name":"r","root":"fast","type":"host","class":"ssd"}"#,
    ] {
        cluster.ok(command);
    }
    let rm = r#"{"prefix":"osd crush rm","name":"fast"}"#;
    assert_eq!(cluster.refused(rm), (-16, "(16) Device or resource busy".to_owned()));
    cluster.ok(r#"{"prefix":"osd crush unlink","name":"fast"}"#);
    cluster.ok(r#"{"prefix":"osd crush rule rm","name":"r"}"#);
    cluster.ok(rm);
    assert_eq!(cluster.map().crush.map().id_of("fast"), None);
}

#[test]
fn a_tree_that_no_map_may_have_is_refused() {
    let mut cluster = Cluster::with_rbd();
    let mut refused = 0;
    for level in 0..70 {
        cluster.ok(&format!(r#"{{"prefix":"osd crush add-bucket","name":"r{level}","type":"rack"}}"#));
        if level == 0 {
            continue;
        }
        let (below, epoch) = (level - 1, cluster.map().epoch);
        let to = format!(r#"{{"prefix":"osd crush move","name":"r{level}","args":["rack=r{below}"]}}"#);
        let result = cluster.command(&to).result;
        let crush = cluster.map().crush.map();
        let is_there = crush.parent_of(crush.id_of(&format!("r{level}")).unwrap()).is_some();
        assert_eq!((is_there, cluster.map().epoch > epoch), (result == 0, result == 0), "{level}");
        if result != 0 {
            assert_eq!(result, -22);
            refused += 1;
            break;
        }
    }
    assert_eq!(refused, 1);
    cluster.ok(r#"{"prefix":"osd crush add-bucket","name":"other","type":"rack"}"#);
}

#[test]
fn a_bucket_below_one_without_a_place_is_where_it_was_moved() {
    let mut cluster = Cluster::with_rbd();
    for (name, kind) in [("apart", "rack"), ("h9", "host")] {
        cluster.ok(&format!(r#"{{"prefix":"osd crush add-bucket","name":"{name}","type":"{kind}"}}"#));
    }
    let to = r#"{"prefix":"osd crush move","name":"h9","args":["root=default","rack=apart"]}"#;
    assert!(cluster.ok(to).starts_with("moved item"));
    let crush = cluster.map().crush.map();
    let place = |name: &str| crush.location(crush.id_of(name).unwrap());
    assert_eq!((place("h9"), place("apart")), (vec![("rack".to_owned(), "apart".to_owned())], Vec::new()));
    let epoch = cluster.map().epoch;
    assert!(cluster.ok(to).starts_with("no need to move item"));
    assert_eq!(cluster.map().epoch, epoch);
}

#[test]
fn a_device_keeps_its_name() {
    let mut cluster = Cluster::with_rbd();
    let rename = |from: &str, to: &str| {
        format!(r#"{{"prefix":"osd crush rename-bucket","srcname":"{from}","dstname":"{to}"}}"#)
    };
    let why = "srcname = 'osd.0' is not a bucket because its id = 0 is >= 0".to_owned();
    assert_eq!(cluster.refused(&rename("osd.0", "osd.9")), (-20, why));
    assert_eq!(cluster.refused(&rename("osd.0", "default")).0, -17);
    cluster.ok(&rename("default", "other"));
}

#[test]
fn an_osd_that_cannot_be_placed_comes_up_and_the_log_says_why() {
    let mut cluster = Cluster::with_rbd();
    for level in 0..crush::LEVELS_MAX {
        let place =
            level.checked_sub(1).map_or(String::new(), |above| format!(r#","args":["rack=r{above}"]"#));
        let add = format!(r#"{{"prefix":"osd crush add-bucket","name":"r{level}","type":"rack"{place}}}"#);
        cluster.ok(&add);
    }
    let to = "host=h rack=r63";
    cluster.ok(&format!(r#"{{"prefix":"config set","who":"osd","name":"crush_location","value":"{to}"}}"#));
    let boot = MOSDBoot { public_addrs: addr(7000), ..boot_message(1, cluster.map().epoch) };
    cluster.say(Cluster::osd_conn(1), boot);
    assert_eq!(cluster.map().osd_addrs(types::OsdId(1)), Some(&addr(7000)));
    assert_eq!(cluster.map().crush.map().id_of("h"), None);
    let log = cluster.text(r#"{"prefix":"log last"}"#);
    assert!(log.contains("osd.1 is not placed in the CRUSH map where it starts"), "{log}");
}
