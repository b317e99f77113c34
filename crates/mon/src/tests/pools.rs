use std::time::Duration;

use codec::Decode;
use messages::{MOSDAlive, MPGStats, MPoolOp, MPoolOpReply, MStatfs, Message, PgCreation, PoolOpCode};
use types::{Epoch, OsdId, OsdState, PgId, PgInterval, PoolFlags, PoolId, PoolStatfs, SnapId};

use super::cluster::{ADMIN, Cluster, FSID};

pub(super) fn pool_op(
    cluster: &mut Cluster,
    op: PoolOpCode,
    snapid: u64,
    name: &'static str,
) -> MPoolOpReply {
    let message =
        MPoolOp { fsid: FSID, pool: 1, op, snapid: SnapId(snapid), name: name.into(), ..MPoolOp::default() };
    let tid = cluster.say(ADMIN, message);
    let found = cluster.sent.iter().find_map(|(_, t, m)| match m {
        Message::MPoolOpReply(reply) if *t == tid => Some(MPoolOpReply::clone(reply)),
        _ => None,
    });
    found.expect("pool operations are answered")
}

#[test]
fn a_new_pool_is_created_on_its_primaries_and_the_cluster_gets_healthy() {
    let mut cluster = Cluster::new();
    (0..3).for_each(|id| cluster.boot_osd(id));
    assert_eq!(cluster.text(r#"{"prefix":"health"}"#), "HEALTH_OK\n");
    cluster.ok(r#"{"prefix":"osd pool create","pool":"rbd","pg_num":8}"#);
    let told: usize = cluster
        .sent
        .iter()
        .filter_map(|(_, _, m)| if let Message::MOSDPGCreate(m) = m { Some(m.pgs.len()) } else { None })
        .sum();
    assert!(told >= 8, "{told} PGs");
    let has_idle_pgs = |cluster: &mut Cluster| {
        cluster.text(r#"{"prefix":"health","detail":"detail"}"#).contains(
            "[WRN] PG_AVAILABILITY: Reduced data availability: 8 pgs inactive\n    pg 1.0 is stuck inactive for 6",
        )
    };
    let threshold = |secs: u32| {
        format!(r#"{{"prefix":"config set","who":"mon","name":"mon_pg_stuck_threshold","value":"{secs}"}}"#)
    };
    cluster.pass(Duration::from_secs(6));
    assert!(!has_idle_pgs(&mut cluster), "a PG has a minute to become active");
    cluster.ok(&threshold(5));
    assert!(has_idle_pgs(&mut cluster));
    cluster.report_all();
    cluster.pass(Duration::from_secs(3));
    let health = cluster.text(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("POOL_APP_NOT_ENABLED"), "{health}");
    cluster.ok(r#"{"prefix":"osd pool application enable","pool":"rbd","app":"rbd"}"#);
    assert_eq!(cluster.text(r#"{"prefix":"health"}"#), "HEALTH_OK\n");
    assert!(cluster.mon.committed.creating.is_empty());
}

/// `pg_num`, `pgp_num` and what they move to.
fn pg_nums(cluster: &Cluster) -> [u32; 4] {
    let pool = &cluster.map().pools[&PoolId(1)];
    [pool.pg_num, pool.pgp_num, pool.pg_num_target, pool.pgp_num_target]
}

fn set_pool(var: &str, val: &str) -> String {
    format!(r#"{{"prefix":"osd pool set","pool":"rbd","var":"{var}","val":"{val}"}}"#)
}

#[test]
fn a_pool_grows_when_its_pgs_are_there_and_moves_them_when_they_are_clean() {
    let mut cluster = Cluster::with_rbd();
    cluster.sent.clear();
    assert_eq!(cluster.ok(&set_pool("pg_num", "16")), "set pool 1 pg_num to 16");
    cluster.pass(Duration::from_secs(3));
    assert_eq!(pg_nums(&cluster), [8, 8, 16, 16], "nobody has said that all PGs are there");
    assert!(
        cluster
            .text(r#"{"prefix":"osd dump"}"#)
            .contains(" pg_num 8 pgp_num 8 pg_num_target 16 pgp_num_target 16 autoscale")
    );
    cluster.report_all();
    cluster.pass(Duration::from_secs(2));
    assert_eq!(pg_nums(&cluster), [16, 8, 16, 16]);
    assert_eq!(cluster.map().pools[&PoolId(1)].first_pg_num(), 8);
    cluster.report_all();
    cluster.pass(Duration::from_secs(2));
    assert_eq!(pg_nums(&cluster), [16; 4]);
    // PGs that come of a split are not made: that would make them anew, and empty.
    assert!(!cluster.sent.iter().any(|(_, _, message)| matches!(message, Message::MOSDPGCreate(_))));
    assert!(cluster.text(r#"{"prefix":"osd dump"}"#).contains(" pg_num 16 pgp_num 16 autoscale_mode"));

    // What is set apart stays apart.
    cluster.ok(&set_pool("pgp_num", "12"));
    cluster.ok(&set_pool("pg_num", "20"));
    for _ in 0..12 {
        cluster.report_all();
        cluster.pass(Duration::from_secs(2));
    }
    assert_eq!(pg_nums(&cluster), [20, 12, 20, 12]);
    assert_eq!(cluster.map().pools[&PoolId(1)].first_pg_num(), 8);
}

#[test]
fn a_pool_in_use_moves_a_few_pgs_at_a_time() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(&set_pool("pg_num", "16"));
    for pgp_num in 8..=16 {
        cluster.report_all();
        // More objects than PGs.
        let extra = |stat: &mut types::PgStat| stat.sum.objects += 100;
        cluster.mon.stats.pgs_mut().for_each(extra);
        cluster.pass(Duration::from_secs(1));
        assert_eq!(pg_nums(&cluster), [16, pgp_num, 16, 16]);
    }
}

#[test]
fn the_autoscaler_warns_of_too_few_pgs_or_makes_more() {
    let mut cluster = Cluster::with_rbd();
    let status = |cluster: &mut Cluster| cluster.json(r#"{"prefix":"osd pool autoscale-status"}"#)[0].clone();
    let found = status(&mut cluster);
    // Of a pool that is not left to it the module says what it should have, and changes nothing.
    assert_eq!((&found["pg_num_final"], &found["would_adjust"]), (&32.into(), &false.into()), "{found}");
    assert_eq!(cluster.text(r#"{"prefix":"health"}"#), "HEALTH_OK\n");

    cluster.ok(&set_pool("pg_autoscale_mode", "warn"));
    let health = cluster.text(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("POOL_TOO_FEW_PGS: 1 pools have too few placement groups"), "{health}");
    assert!(health.contains("Pool rbd has 8 placement groups, should have 32"), "{health}");

    // All that three OSDs are to have, in three copies.
    cluster.ok(&set_pool("target_size_ratio", "0.5"));
    cluster.ok(&set_pool("bulk", "true"));
    assert_eq!(status(&mut cluster)["pg_num_final"], 128);
    cluster.ok(&set_pool("pg_num_max", "64"));
    assert_eq!(status(&mut cluster)["pg_num_final"], 64);
    cluster.ok(&set_pool("pg_autoscale_mode", "on"));
    cluster.pass(Duration::from_secs(2));
    assert_eq!(pg_nums(&cluster), [8, 8, 64, 64]);
    // What is near enough is left alone, what is much too large is not.
    cluster.ok(&set_pool("pg_num_max", "0"));
    cluster.pass(Duration::from_secs(2));
    assert_eq!(pg_nums(&cluster), [8, 8, 64, 64]);
    cluster.ok(&set_pool("pg_num", "128"));
    cluster.ok(&set_pool("target_size_ratio", "0"));
    cluster.ok(&set_pool("bulk", "false"));
    cluster.pass(Duration::from_secs(2));
    assert_eq!(pg_nums(&cluster), [8, 8, 32, 32]);
}

#[test]
fn options_of_pools_are_finite_numbers_within_their_bounds() {
    let mut cluster = Cluster::with_rbd();
    for value in ["-1", "1000.5", "nan", "inf"] {
        let why = "pg_autoscale_bias must be between 0 and 1000".to_owned();
        assert_eq!(cluster.refused(&set_pool("pg_autoscale_bias", value)), (-22, why), "{value}");
    }
    cluster.ok(&set_pool("pg_autoscale_bias", "1000"));
    for (var, value) in
        [("target_size_ratio", "nan"), ("target_size_ratio", "inf"), ("scrub_min_interval", "NaN")]
    {
        let why = format!(
            "error parsing floating point value '{value}': strict_strtod: expected double, got: '{value}'"
        );
        assert_eq!(cluster.refused(&set_pool(var, value)), (-22, why), "{var}");
    }
}

/// As a monitor of Ceph 16.2.15 answers.
#[test]
fn zero_takes_numbers_away_from_a_pool_and_unset_takes_words() {
    let mut cluster = Cluster::with_rbd();
    let no_double = "strict_strtod: expected double, got: 'unset'";
    let no_int = "Expected option value to be integer, got 'unset'";
    let no_bytes = "strict_iecstrtoll: illegal prefix (length > 2)";
    for (var, value, kind, why) in [
        ("scrub_min_interval", "60", "floating point", no_double),
        ("deep_scrub_interval", "60.5", "floating point", no_double),
        ("compression_required_ratio", "0.5", "float", no_double),
        ("target_size_ratio", "0.5", "floating point", no_double),
        ("recovery_priority", "5", "int", no_int),
        ("recovery_op_priority", "5", "integer", no_int),
        ("pg_num_min", "4", "int", no_int),
        ("dedup_cdc_chunk_size", "4096", "int", no_int),
        ("csum_max_block", "4K", "int", no_bytes),
        ("target_size_bytes", "1G", "unit", no_bytes),
    ] {
        cluster.ok(&set_pool(var, value));
        let why = format!("error parsing {kind} value 'unset': {why}");
        assert_eq!(cluster.refused(&set_pool(var, "unset")), (-22, why), "{var}");
        assert_eq!(cluster.map().pools[&PoolId(1)].opts.0.len(), 1);
        assert_eq!(cluster.ok(&set_pool(var, "0")), format!("set pool 1 {var} to 0"));
        assert!(cluster.map().pools[&PoolId(1)].opts.0.is_empty(), "{var}");
    }
    for (var, value) in
        [("compression_mode", "force"), ("csum_type", "none"), ("fingerprint_algorithm", "sha1")]
    {
        cluster.ok(&set_pool(var, value));
        assert_eq!(cluster.ok(&set_pool(var, "unset")), format!("unset pool 1 {var}"));
        assert!(cluster.map().pools[&PoolId(1)].opts.0.is_empty(), "{var}");
    }
    let denied = (-13, "(13) Permission denied".to_owned());
    assert_eq!(cluster.refused(&set_pool("use_gmt_hitset", "true")), denied);
}

#[test]
fn bounds_of_pg_num_are_those_of_the_number_that_it_moves_to() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(&set_pool("pg_num", "64"));
    assert_eq!(pg_nums(&cluster), [8, 8, 64, 64]);
    let refused = |cluster: &mut Cluster, var, val| cluster.refused(&set_pool(var, val));
    let why = "specified pg_num_max 16 < pg_num 64".to_owned();
    assert_eq!(refused(&mut cluster, "pg_num_max", "16"), (-22, why));
    cluster.ok(&set_pool("pg_num_max", "64"));
    let why = "specified pg_num_min 65 > pg_num 64".to_owned();
    assert_eq!(refused(&mut cluster, "pg_num_min", "65"), (-22, why));
    cluster.ok(&set_pool("pg_num_min", "32"));
}

#[test]
fn the_autoscaler_shares_what_is_left_and_keeps_to_what_operators_may() {
    let mut cluster = Cluster::with_rbd();
    let create = |name: &str, kind: &str| {
        format!(r#"{{"prefix":"osd pool create","pool":"{name}","pg_num":8,"rule":"{kind}"}}"#)
    };
    cluster.ok(&create("two", ""));
    cluster.report_all();
    // A half of the space is in each: the second one is given a half of what the first one left.
    cluster.mon.stats.pgs_mut().for_each(|stat| stat.sum.bytes = (10 << 30) / 8);
    let ideal = |cluster: &mut Cluster| {
        let status = cluster.json(r#"{"prefix":"osd pool autoscale-status"}"#);
        let pools = status.as_array().unwrap().iter();
        pools.map(|pool| pool["pg_num_ideal"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ideal(&mut cluster), [50, 25]);
    cluster.ok(&set_pool("pg_autoscale_mode", "on"));
    cluster.ok(&set_pool("nopgchange", "true"));
    cluster.pass(Duration::from_secs(2));
    assert_eq!(pg_nums(&cluster), [8, 8, 8, 8]);
    cluster.ok(&set_pool("nopgchange", "false"));
    cluster.ok(r#"{"prefix":"config set","who":"mon","name":"mon_max_pg_per_osd","value":"30"}"#);
    cluster.pass(Duration::from_secs(2));
    assert_eq!(pg_nums(&cluster), [8, 8, 8, 8], "more than OSDs may have");
    cluster.ok(r#"{"prefix":"config rm","who":"mon","name":"mon_max_pg_per_osd"}"#);
    cluster.pass(Duration::from_secs(2));
    assert_eq!(pg_nums(&cluster), [8, 8, 64, 64]);
    // Pools that share some OSDs, but not all, are left alone.
    cluster.ok(r#"{"prefix":"osd crush set-device-class","class":"ssd","ids":["0","1"]}"#);
    cluster.ok(
        r#"{"prefix":"osd crush rule create-replicated","name":"ssd","root":"default","type":"osd","class":"ssd"}"#,
    );
    cluster.ok(&create("fast", "ssd"));
    assert_eq!(ideal(&mut cluster), [0; 0]);
}

#[test]
fn numbers_of_pgs_that_cannot_be_are_refused() {
    let mut cluster = Cluster::with_rbd();
    let cases = [
        ("pg_num", "0", -34, "'pg_num' must be greater than 0"),
        ("pg_num", "70000", -34, "'pg_num' must be greater than 0 and less than or equal to 65536"),
        (
            "pg_num",
            "2000",
            -34,
            "pool id 1 pg_num 2000 size 3 would mean 6000 total pgs, which exceeds max 3000",
        ),
        ("pg_num", "many", -22, "error parsing integer value 'many'"),
        ("pgp_num", "9", -22, "specified pgp_num 9 > pg_num 8"),
        ("pgp_num", "0", -22, "specified pgp_num must > 0, but you set to 0"),
    ];
    for (var, val, errno, why) in cases {
        let (result, said) = cluster.refused(&set_pool(var, val));
        assert!(result == errno && said.contains(why), "{var} {val}: {result} {said}");
    }
    cluster.ok(&set_pool("pg_num_max", "32"));
    assert_eq!(cluster.refused(&set_pool("pg_num", "33")).1, "specified pg_num 33 > pg_num_max 32");
    cluster.ok(&set_pool("nopgchange", "true"));
    assert_eq!(cluster.refused(&set_pool("pg_num", "16")).0, -1);
}

#[test]
fn a_pool_of_too_many_pgs_may_have_less() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(&set_pool("pg_num", "32"));
    cluster.ok(r#"{"prefix":"config set","who":"mon","name":"mon_max_pg_per_osd","value":"4"}"#);
    assert_eq!(cluster.refused(&set_pool("pg_num", "64")).0, -34);
    cluster.ok(&set_pool("pg_num", "16"));
    assert_eq!(cluster.refused(&set_pool("pg_num", "0")).0, -34);
}

#[test]
fn self_managed_snapshots_count_from_two_and_are_purged_when_trimmed() {
    let mut cluster = Cluster::with_rbd();
    let first = pool_op(&mut cluster, PoolOpCode::CREATE_UNMANAGED_SNAP, 0, "");
    assert_eq!(u64::from_bytes(first.response.unwrap()).unwrap(), 2);
    assert_eq!(first.epoch, cluster.map().epoch);
    let second = pool_op(&mut cluster, PoolOpCode::CREATE_UNMANAGED_SNAP, 0, "");
    assert_eq!(u64::from_bytes(second.response.unwrap()).unwrap(), 3);
    assert_eq!(pool_op(&mut cluster, PoolOpCode::CREATE_SNAP, 0, "s").reply_code, -22);
    assert_eq!(pool_op(&mut cluster, PoolOpCode::DELETE_UNMANAGED_SNAP, 2, "").reply_code, 0);
    let queue = &cluster.map().removed_snaps_queue[&PoolId(1)];
    assert_eq!(
        queue.iter().collect::<Vec<_>>(),
        [(2, 1), (4, 1)],
        "it, and the number that its removal took"
    );
    let epoch = cluster.map().epoch;
    assert_eq!(pool_op(&mut cluster, PoolOpCode::DELETE_UNMANAGED_SNAP, 2, "").reply_code, 0);
    assert_eq!(cluster.map().epoch, epoch, "it is gone already");
    cluster.pass(Duration::from_secs(2));
    assert!(!cluster.map().removed_snaps_queue.is_empty(), "nobody has trimmed it");
    cluster.report_all();
    cluster.pass(Duration::from_secs(2));
    assert!(cluster.map().removed_snaps_queue.is_empty());
}

#[test]
fn pool_snapshots_have_names() {
    let mut cluster = Cluster::with_rbd();
    assert_eq!(pool_op(&mut cluster, PoolOpCode::CREATE_SNAP, 0, "s1").reply_code, 0);
    assert_eq!(cluster.map().pools[&PoolId(1)].snap_by_name("s1"), Some(SnapId(1)));
    assert!(cluster.map().pools[&PoolId(1)].flags.has(PoolFlags::POOL_SNAPS));
    assert_eq!(pool_op(&mut cluster, PoolOpCode::CREATE_UNMANAGED_SNAP, 0, "").reply_code, -22);
    assert_eq!(pool_op(&mut cluster, PoolOpCode::DELETE_SNAP, 0, "s1").reply_code, 0);
    assert_eq!(cluster.map().pools[&PoolId(1)].snap_by_name("s1"), None);
}

#[test]
fn pools_are_deleted_only_when_named_twice() {
    let mut cluster = Cluster::with_rbd();
    cluster.allow_pool_delete();
    assert_eq!(cluster.refused(r#"{"prefix":"osd pool rm","pool":"rbd"}"#).0, -1);
    let rm = r#"{"prefix":"osd pool rm","pool":"rbd","pool2":"rbd","yes_i_really_really_mean_it":true}"#;
    assert_eq!(cluster.ok(rm), "pool 'rbd' removed");
    assert!(cluster.map().pools.is_empty());
    assert_eq!(cluster.ok(rm), "pool 'rbd' does not exist");
    cluster.ok(r#"{"prefix":"osd pool create","pool":"rbd"}"#);
    assert_eq!(cluster.map().pool_by_name("rbd").unwrap().0, PoolId(2), "ids are never given again");
}

#[test]
fn a_pool_that_is_asked_for_again_is_there() {
    let mut cluster = Cluster::with_rbd();
    let create = |cluster: &mut Cluster, name: &'static str, crush_rule: i16| {
        let (fsid, name) = (FSID, name.into());
        let op = MPoolOp { fsid, op: PoolOpCode::CREATE, name, crush_rule, ..MPoolOp::default() };
        let tid = cluster.say(ADMIN, op);
        let found = cluster.sent.iter().find_map(|(_, t, m)| match m {
            Message::MPoolOpReply(reply) if *t == tid => Some(reply.reply_code),
            _ => None,
        });
        found.expect("pool operations are answered")
    };
    let rule = r#"{"prefix":"osd crush rule create-simple","name":"other","root":"default","type":"osd"}"#;
    cluster.ok(rule);
    let id = cluster.map().crush.map().rule_of("other").unwrap();
    assert_ne!(id, 0);
    for (name, rule) in [("a", i16::from(id)), ("b", -1)] {
        assert_eq!(create(&mut cluster, name, rule), 0);
        let epoch = cluster.map().epoch;
        assert_eq!(create(&mut cluster, name, rule), 0, "it was done before");
        assert_eq!(cluster.map().epoch, epoch);
    }
    let rules = ["a", "b"].map(|name| cluster.map().pool_by_name(name).unwrap().1.crush_rule);
    assert_eq!(rules, [id, 0]);
    assert_eq!((create(&mut cluster, "c", 77), create(&mut cluster, "c", 777)), (-2, -2));
}

#[test]
fn quotas_fill_the_pool() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool set-quota","pool":"rbd","field":"max_bytes","val":"4K"}"#);
    cluster.pass(Duration::from_secs(2));
    let flags = cluster.map().pools[&PoolId(1)].flags;
    assert!(flags.has(PoolFlags::FULL | PoolFlags::FULL_QUOTA));
    assert!(cluster.text(r#"{"prefix":"health"}"#).contains("1 pool(s) full"));
    cluster.ok(r#"{"prefix":"osd pool set-quota","pool":"rbd","field":"max_bytes","val":"0"}"#);
    cluster.pass(Duration::from_secs(2));
    assert!(!cluster.map().pools[&PoolId(1)].flags.has(PoolFlags::FULL));
}

#[test]
fn a_full_osd_fills_its_pools() {
    let mut cluster = Cluster::with_rbd();
    for (command, ratio, flag) in [
        ("osd set-nearfull-ratio", "0.04", PoolFlags::NEARFULL),
        ("osd set-backfillfull-ratio", "0.04", PoolFlags::BACKFILLFULL),
        ("osd set-full-ratio", "0.04", PoolFlags::FULL),
    ] {
        cluster.ok(&format!(r#"{{"prefix":"{command}","ratio":{ratio}}}"#));
        cluster.pass(Duration::from_secs(2));
        let all = [PoolFlags::NEARFULL, PoolFlags::BACKFILLFULL, PoolFlags::FULL];
        let set = all.map(|one| cluster.map().pools[&PoolId(1)].flags.has(one));
        assert_eq!(set, all.map(|one| one == flag), "{command}");
    }
    assert!(cluster.map().state(OsdId(0)).has(OsdState::FULL));
    for command in ["osd set-full-ratio", "osd set-backfillfull-ratio", "osd set-nearfull-ratio"] {
        cluster.ok(&format!(r#"{{"prefix":"{command}","ratio":0.9}}"#));
    }
    cluster.pass(Duration::from_secs(2));
    assert!(!cluster.map().is_full(PoolId(1)) && !cluster.map().state(OsdId(0)).has(OsdState::FULL));
}

#[test]
fn an_osd_that_is_out_fills_no_pool() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd set-full-ratio","ratio":0.04}"#);
    cluster.pass(Duration::from_secs(2));
    assert!(cluster.map().is_full(PoolId(1)));
    assert!(cluster.text(r#"{"prefix":"health"}"#).contains("3 full osd(s)"));
    cluster.ok(r#"{"prefix":"osd out","ids":["0","1","2"]}"#);
    cluster.pass(Duration::from_secs(2));
    assert!(!cluster.map().is_full(PoolId(1)));
    assert!(cluster.map().state(OsdId(0)).has(OsdState::FULL), "its device is as it was");
    assert!(!cluster.text(r#"{"prefix":"health"}"#).contains("full osd(s)"));
    cluster.ok(r#"{"prefix":"osd in","ids":["0"]}"#);
    cluster.pass(Duration::from_secs(2));
    assert!(cluster.map().is_full(PoolId(1)));
}

#[test]
fn statfs_sums_the_devices() {
    let mut cluster = Cluster::with_rbd();
    let tid = cluster.say(ADMIN, MStatfs { fsid: FSID, ..MStatfs::default() });
    let reply = cluster.sent.iter().find_map(|(_, t, m)| match m {
        Message::MStatfsReply(reply) if *t == tid => Some(**reply),
        _ => None,
    });
    let reply = reply.unwrap();
    assert_eq!((reply.kb, reply.kb_used, reply.num_objects), (60 << 20, 3 << 20, 8));
}

#[test]
fn a_pool_takes_what_the_osds_say_it_does() {
    let mut cluster = Cluster::with_rbd();
    let stats = |cluster: &mut Cluster| {
        let df = cluster.json(r#"{"prefix":"df","detail":"detail"}"#);
        let names = ["stored", "bytes_used", "data_bytes_used", "omap_bytes_used", "stored_raw"];
        names.map(|name| df["pools"][0]["stats"][name].as_u64().unwrap())
    };
    // Eight PGs, three copies of each with 100 bytes in a block.
    assert_eq!(stats(&mut cluster), [800, 24 << 12, 24 << 12, 0, 2400]);
    let dump = cluster.json(r#"{"prefix":"pg dump","dumpcontents":["pools","osds"]}"#);
    assert_eq!(dump["pool_stats"][0]["store_stats"]["allocated"], 24 << 12);
    let of_osds = dump["pool_statfs"].as_array().unwrap().iter();
    assert_eq!(of_osds.map(|one| one["data_stored"].as_u64().unwrap()).sum::<u64>(), 2400);
    // What is known of an OSD goes with it.
    let epoch = cluster.map().epoch;
    let omap = PoolStatfs { omap_allocated: 30, ..PoolStatfs::default() };
    let of_pools = vec![(PoolId(1), omap), (PoolId(77), omap)];
    let report = MPGStats { osd: OsdId(0), epoch, pool_stat: of_pools, ..MPGStats::default() };
    cluster.say(Cluster::osd_conn(0), report);
    assert_eq!(stats(&mut cluster), [533 + 10, (16 << 12) + 30, 16 << 12, 30, 1629]);
}

#[test]
fn a_pool_is_made_with_what_is_known_of_its_size_to_come() {
    let mut cluster = Cluster::with_rbd();
    cluster
        .ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":8,"pg_num_min":2,"pg_num_max":64,"bulk":true,
            "target_size_bytes":1048576,"target_size_ratio":1.5}"#);
    for (var, value) in [
        ("pg_num_min", "2"),
        ("pg_num_max", "64"),
        ("bulk", "true"),
        ("target_size_bytes", "1048576"),
        ("target_size_ratio", "1.5"),
    ] {
        let command = format!(r#"{{"prefix":"osd pool get","pool":"p","var":"{var}"}}"#);
        assert_eq!(cluster.text(&command), format!("{var}: {value}\n"));
    }
    // What is not given, or is zero, is not set.
    cluster.ok(r#"{"prefix":"osd pool create","pool":"q","pg_num":8,"pg_num_max":0}"#);
    assert_eq!(cluster.map().pools[&types::PoolId(3)].opts, types::PoolOpts::default());
}

#[test]
fn sizes_in_bytes_may_have_units() {
    let mut cluster = Cluster::with_rbd();
    for (val, bytes) in [("4096", 4096), ("1Ki", 1024), ("1M", 1 << 20)] {
        for var in ["target_size_bytes", "compression_max_blob_size", "csum_min_block"] {
            cluster.ok(&format!(r#"{{"prefix":"osd pool set","pool":"rbd","var":"{var}","val":"{val}"}}"#));
            let get = format!(r#"{{"prefix":"osd pool get","pool":"rbd","var":"{var}"}}"#);
            assert_eq!(cluster.text(&get), format!("{var}: {bytes}\n"));
        }
    }
    let set = r#"{"prefix":"osd pool set","pool":"rbd","var":"csum_max_block","val":"1F"}"#;
    assert_eq!(cluster.refused(set).0, -22);
}

#[test]
fn sizes_stay_where_they_may_not_change() {
    let mut cluster = Cluster::with_rbd();
    let set = |var: &str, val: &str| {
        format!(r#"{{"prefix":"osd pool set","pool":"rbd","var":"{var}","val":"{val}"}}"#)
    };
    cluster.ok(&set("nosizechange", "1"));
    for (var, what) in [("size", "size"), ("min_size", "min size")] {
        let why =
            format!("pool {what} change is disabled; you must unset nosizechange flag for the pool first");
        assert_eq!(cluster.refused(&set(var, "2")), (-1, why));
    }
    cluster.ok(&set("nosizechange", "0"));
    cluster.ok(&set("min_size", "1"));
}

/// What the OSD was told last of a PG that it is to make.
fn creation(cluster: &Cluster, osd: OsdId, pg: PgId) -> Option<PgCreation> {
    let to = Cluster::osd_conn(osd.0);
    let told = cluster.sent.iter().rev().find_map(|(conn, _, message)| match message {
        Message::MOSDPGCreate(create) if *conn == to => Some(create.pgs.clone()),
        _ => None,
    });
    told?.into_iter().find(|creation| creation.pgid == pg)
}

#[test]
fn whoever_makes_a_pg_knows_who_may_have_made_it_before() {
    let mut cluster = Cluster::new();
    (0..3).for_each(|id| cluster.boot_osd(id));
    cluster.ok(r#"{"prefix":"osd pool create","pool":"rbd","pg_num":8}"#);
    cluster.pass(Duration::from_secs(3));
    let (pg, created) = (PgId::new(PoolId(1), 3), cluster.map().epoch);
    let before = cluster.map().pg_to_up_acting(pg);
    let first = before.acting_primary;
    let told = creation(&cluster, first, pg).unwrap();
    assert_eq!((told.created, told.intervals), (created, vec![]));
    // The OSD serves, and is gone before the monitor hears that the PG exists.
    cluster.say(Cluster::osd_conn(first.0), MOSDAlive { osd: first, want: created });
    cluster.ok(&format!(r#"{{"prefix":"osd down","ids":["{first}"]}}"#));
    let last = Epoch(cluster.map().epoch.0 - 1);
    cluster.pass(Duration::from_secs(3));
    let expected = [PgInterval {
        first: created,
        last,
        acting: before.acting,
        primary: first,
        maybe_went_rw: true,
        forgotten_since: Epoch(0),
    }];
    let second = cluster.map().pg_to_up_acting(pg).acting_primary;
    assert_eq!(creation(&cluster, second, pg).unwrap().intervals, expected);
    // A new monitor learns it from the maps.
    cluster.restart();
    (0..3).filter(|id| OsdId(*id) != first).for_each(|id| cluster.boot_osd(id));
    cluster.pass(Duration::from_secs(3));
    let told = creation(&cluster, second, pg).unwrap();
    assert_eq!((told.created, &told.intervals[0]), (created, &expected[0]));
}

/// Clients that split objects into chunks set it, and read where the chunks go.
#[test]
fn a_pool_for_chunks_is_kept_by_its_number() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool create","pool":"chunks","pg_num":8}"#);
    let number = cluster.map().pool_by_name("chunks").unwrap().0.0;
    let get = r#"{"prefix":"osd pool get","pool":"rbd","var":"dedup_tier"}"#;
    assert_eq!(cluster.refused(get).0, -2);
    for (value, refusal) in [
        ("7", (-22, "expecting value 'pool name'")),
        ("nope", (-2, "unrecognized pool 'nope'")),
        ("unset", (-2, "unrecognized pool 'unset'")),
    ] {
        assert_eq!(cluster.refused(&set_pool("dedup_tier", value)), (refusal.0, refusal.1.to_owned()));
    }
    assert_eq!(cluster.ok(&set_pool("dedup_tier", "chunks")), "set pool 1 dedup_tier to chunks");
    assert_eq!(cluster.text(get), format!("dedup_tier: {number}\n"));
}

#[test]
fn a_pg_that_is_lost_is_made_anew_when_an_operator_insists() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    let force = |pg: &str, is_meant: bool| {
        format!(r#"{{"prefix":"osd force-create-pg","pgid":"{pg}","yes_i_really_mean_it":{is_meant}}}"#)
    };
    assert_eq!(cluster.refused(&force("1.77", true)), (-2, "pg 1.77 should not exist".to_owned()));
    assert_eq!(cluster.refused(&force("1.3", false)).0, -1);
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    let (pg, epoch) = (PgId::new(PoolId(1), 3), cluster.map().epoch);
    assert_eq!(cluster.ok(&force("1.3", true)), "pg 1.3 now creating, ok");
    assert_eq!(cluster.ok(&force("1.3", true)), "pg 1.3 already creating");
    cluster.pass(Duration::from_secs(3));
    let primary = cluster.map().pg_to_up_acting(pg).acting_primary;
    let told = creation(&cluster, primary, pg).unwrap();
    assert_eq!((told.created, told.intervals), (epoch, vec![]));
    cluster.report_all();
    cluster.pass(Duration::from_secs(1));
    assert!(cluster.mon.committed.creating.is_empty());
}

fn tier(what: &str, rest: &str) -> String {
    format!(r#"{{"prefix":"osd tier {what}",{rest}}}"#)
}

const TIER_PAIR: &str = r#""pool":"rbd","tierpool":"cache","force_nonempty":"""#;
const READONLY: &str = r#""pool":"cache","mode":"readonly","yes_i_really_mean_it":true"#;

/// Pools `rbd`, `cache` and `other`; the second is the first one's tier.
fn with_tier() -> Cluster {
    let mut cluster = Cluster::with_rbd();
    for name in ["cache", "other"] {
        cluster.ok(&format!(r#"{{"prefix":"osd pool create","pool":"{name}","pg_num":8}}"#));
    }
    let not_tier = "pool 'cache' is not a tier".to_owned();
    assert_eq!(cluster.refused(&tier("cache-mode", READONLY)), (-22, not_tier));
    // Asked for twice it is the same.
    for _ in 0..2 {
        let said = cluster.ok(&tier("add", TIER_PAIR));
        assert_eq!(said, "pool 'cache' is now (or already was) a tier of 'rbd'");
    }
    cluster
}

#[test]
fn tiers_are_not_chained_and_no_client_is_sent_to_one() {
    let mut cluster = with_tier();
    let not_cached = "cache tiers that clients use are not supported";
    let add = |base: &str, pool: &str| tier("add", &format!(r#""pool":"{base}","tierpool":"{pool}""#));
    let overlay = |pool: &str| tier("set-overlay", &format!(r#""pool":"rbd","overlaypool":"{pool}""#));
    let refused = [
        (add("other", "cache"), -22, "tier pool 'cache' is already a tier of 'rbd'"),
        (
            add("cache", "other"),
            -22,
            "pool 'cache' is already a tier of 'rbd', multiple tiers are not yet supported.",
        ),
        (
            add("other", "rbd"),
            -22,
            "pool 'rbd' has following tier(s) already:'cache', multiple tiers are not yet supported.",
        ),
        (add("other", "other"), -22, "pool 'other' cannot be a tier of itself"),
        (overlay("other"), -22, "tier pool 'other' is not a tier of 'rbd'"),
        (overlay("cache"), -95, not_cached),
        (tier("cache-mode", r#""pool":"cache","mode":"writeback""#), -95, not_cached),
        (
            r#"{"prefix":"osd pool mksnap","pool":"cache","snap":"s"}"#.to_owned(),
            -22,
            "pool cache is a cache tier",
        ),
    ];
    for (json, result, status) in refused {
        assert_eq!(cluster.refused(&json), (result, status.to_owned()), "{json}");
    }
    let (op, name) = (PoolOpCode::CREATE_SNAP, "s".into());
    let tid = cluster.say(ADMIN, MPoolOp { fsid: FSID, pool: 2, op, name, ..MPoolOp::default() });
    let refused = |(_, t, m): &(_, u64, Message)| {
        *t == tid && matches!(m, Message::MPoolOpReply(reply) if reply.reply_code == -22)
    };
    assert!(cluster.sent.iter().any(refused));
    let unsure = tier("cache-mode", r#""pool":"cache","mode":"readonly""#);
    assert_eq!(cluster.refused(&unsure).0, -1);
}

#[test]
fn a_tier_and_its_base_are_shown_and_kept_until_they_part() {
    let mut cluster = with_tier();
    cluster.allow_pool_delete();
    let said = cluster.ok(&tier("cache-mode", READONLY));
    assert_eq!(said, "set cache-mode for pool 'cache' to readonly");
    let text = cluster.text(r#"{"prefix":"osd dump"}"#);
    assert!(text.contains("flags hashpspool tiers 2 stripe_width"), "{text}");
    let shown = "flags hashpspool,incomplete_clones tier_of 1 cache_mode readonly stripe_width";
    assert!(text.contains(shown), "{text}");
    for (pool, why) in [("rbd", "pool 'rbd' has tiers cache"), ("cache", "pool 'cache' is a tier of 'rbd'")] {
        let rm = format!(
            r#"{{"prefix":"osd pool rm","pool":"{pool}","pool2":"{pool}","yes_i_really_really_mean_it":true}}"#
        );
        assert_eq!(cluster.refused(&rm), (-16, why.to_owned()));
    }
    assert_eq!(pool_op(&mut cluster, PoolOpCode::DELETE, 0, "").reply_code, -16);
    cluster.ok(&tier("remove", TIER_PAIR));
    let map = cluster.map();
    let (base, cache) = (&map.pools[&PoolId(1)], &map.pools[&PoolId(2)]);
    assert!(base.tiers.is_empty() && !cache.is_tier() && cache.cache_mode == 0);
    cluster.ok(r#"{"prefix":"osd pool mksnap","pool":"cache","snap":"s"}"#);
    assert_eq!(cluster.refused(&tier("add", TIER_PAIR)).0, -39);
}

#[test]
fn a_new_size_is_as_safe_as_that_of_a_new_pool() {
    let mut cluster = Cluster::with_rbd();
    let sure = |val: &str| set_pool("size", val).replacen('}', r#","yes_i_really_mean_it":true}"#, 1);
    let sizes = |cluster: &Cluster| {
        let pool = &cluster.map().pools[&PoolId(1)];
        (pool.size, pool.min_size)
    };
    let why = "configuring pool size as 1 is disabled by default.".to_owned();
    assert_eq!(cluster.refused(&sure("1")), (-1, why));
    let set = |name: &str, value: &str| {
        format!(r#"{{"prefix":"config set","who":"mon","name":"{name}","value":"{value}"}}"#)
    };
    cluster.ok(&set("mon_allow_pool_size_one", "true"));
    assert_eq!(cluster.refused(&set_pool("size", "1")).0, -1);
    cluster.ok(&sure("1"));
    assert_eq!(sizes(&cluster), (1, 1));
    cluster.ok(&set("osd_pool_default_min_size", "2"));
    cluster.ok(&set_pool("size", "2"));
    assert_eq!(sizes(&cluster), (2, 2));
    cluster.ok(&set("osd_pool_default_min_size", "1"));
    cluster.ok(&set_pool("size", "3"));
    assert_eq!(sizes(&cluster), (3, 1));
    // 8 PGs of 3 copies on 3 OSDs.
    cluster.ok(&set("mon_max_pg_per_osd", "8"));
    assert_eq!(cluster.refused(&set_pool("size", "4")).0, -34);
    cluster.ok(&set("mon_max_pg_per_osd", "4"));
    cluster.ok(&set_pool("size", "2"));
}

#[test]
fn pools_begin_in_the_mode_that_is_set_unless_told_otherwise() {
    let mut cluster = Cluster::with_rbd();
    let name = r#""who":"mon","name":"osd_pool_default_pg_autoscale_mode""#;
    cluster.ok(&format!(r#"{{"prefix":"config set",{name},"value":"warn"}}"#));
    cluster.ok(r#"{"prefix":"osd pool create","pool":"a"}"#);
    cluster.ok(r#"{"prefix":"osd pool create","pool":"b","autoscale_mode":"on"}"#);
    let modes = cluster.map().pools.values().map(|pool| pool.pg_autoscale_mode.name());
    assert_eq!(modes.collect::<Vec<_>>(), ["off", "warn", "on"]);
    assert_eq!(cluster.refused(&format!(r#"{{"prefix":"config set",{name},"value":"maybe"}}"#)).0, -22);
}
