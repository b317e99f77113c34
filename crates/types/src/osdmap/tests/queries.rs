//! Queries, names, and the rules of applying that the captured sequence does not show.

use super::*;
use crate::{AddrType, Membership};

/// A map of `count` OSDs that are up and in, one epoch each.
fn cluster(count: i32) -> OsdMap {
    let mut map = OsdMap::new(Uuid([7; 16]), UTime::new(1, 0), full(124).crush);
    let mut inc = Incremental::new(Uuid([7; 16]), Epoch(1));
    inc.new_max_osd = Some(count);
    for osd in (0..count).map(OsdId) {
        inc.new_state.insert(osd, OsdState::EXISTS | OsdState::NEW);
        inc.new_weight.insert(osd, 0);
        inc.new_uuid.insert(osd, Uuid([osd.0 as u8; 16]));
    }
    map.apply(&inc).unwrap();
    let mut inc = next(&map);
    for osd in (0..count).map(OsdId) {
        let addrs =
            |base: i32| EntityAddrVec::msgr2(format!("127.0.0.1:{}", base + osd.0).parse().unwrap(), 1);
        inc.new_up_client.insert(osd, addrs(6000));
        inc.new_up_cluster.insert(osd, addrs(7000));
        inc.new_hb_back_up.insert(osd, addrs(8000));
        inc.new_hb_front_up.insert(osd, addrs(9000));
        inc.new_weight.insert(osd, WEIGHT_IN);
    }
    map.apply(&inc).unwrap();
    map
}

fn next(map: &OsdMap) -> Incremental {
    Incremental { modified: UTime::new(100 + map.epoch.0, 0), ..Incremental::new(map.fsid, map.epoch.next()) }
}

#[test]
fn a_dump_of_the_captured_map_agrees() {
    let map = full(124);
    let json: serde_json::Value = serde_json::from_slice(&vector("osdmap.full.json")).unwrap();
    assert_eq!(json["epoch"], map.epoch.0);
    assert_eq!(json["flags"], map.flags.to_string());
    assert_eq!(json["created"], map.created.to_string());
    assert_eq!(json["modified"], map.modified.to_string());
    assert_eq!(json["last_up_change"], map.last_up_change.to_string());
    assert_eq!(json["crush_version"], map.crush_version);
    assert_eq!(json["max_osd"], map.max_osd);
    assert_eq!(json["pool_max"], map.pool_max);
    assert_eq!(json["require_min_compat_client"], map.require_min_compat_client.name());
    assert_eq!(json["require_osd_release"], map.require_osd_release.name());
    let pools = json["pools"].as_array().unwrap();
    assert_eq!(pools.len(), map.pools.len());
    for row in pools {
        let id = PoolId(row["pool"].as_i64().unwrap());
        let pool = &map.pools[&id];
        assert_eq!(row["pool_name"], map.pool_name[&id]);
        assert_eq!(map.pool_by_name(&map.pool_name[&id]).unwrap().0, id);
        assert_eq!(row["flags_names"], pool.flags.to_string());
        assert_eq!(row["create_time"], pool.create_time.to_string());
        assert_eq!(
            (row["size"].as_u64(), row["pg_num"].as_u64()),
            (Some(pool.size.into()), Some(pool.pg_num.into()))
        );
        assert_eq!(row["pg_autoscale_mode"], pool.pg_autoscale_mode.name());
        let options = row["options"].as_object().unwrap();
        assert_eq!(options.len(), pool.opts.0.len());
        for (name, value) in options {
            assert_eq!(value.to_string(), pool.opts.get(name).unwrap().to_string());
        }
        let applications: Vec<_> = row["application_metadata"].as_object().unwrap().keys().collect();
        assert_eq!(applications, pool.application_metadata.keys().collect::<Vec<_>>());
    }
    for row in json["osds"].as_array().unwrap() {
        let osd = OsdId(row["osd"].as_i64().unwrap() as i32);
        assert_eq!(row["uuid"], map.osd_uuid[osd.0 as usize].to_string());
        assert_eq!((row["up"] == 1, row["in"] == 1), (map.is_up(osd), map.is_in(osd)));
        assert_eq!(row["up_from"], map.up_from(osd).0);
        assert_eq!(row["up_thru"], map.up_thru(osd).0);
        assert_eq!(row["down_at"], map.info(osd).down_at.0);
        let mut states: Vec<&str> =
            row["state"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
        states.reverse();
        let ours: Vec<&str> = map.state(osd).names().collect();
        states.sort_by_key(|s| ours.iter().position(|o| o == s));
        assert_eq!(states, ours);
    }
    assert_eq!(json["pg_temp"].as_array().unwrap().len(), map.pg_temp.len());
    assert_eq!(json["blocklist"].as_object().unwrap().len(), map.blocklist.len());
    assert_eq!(json["erasure_code_profiles"].as_object().unwrap().len(), map.erasure_code_profiles.len());
}

#[test]
fn osds_come_up_and_go_down() {
    let mut map = cluster(3);
    assert_eq!((map.num_osds(), map.num_up(), map.num_in()), (3, 3, 3));
    assert!(!map.state(OsdId(1)).has(OsdState::NEW));
    assert_eq!(map.up_from(OsdId(1)), Epoch(2));
    assert_eq!(map.osd_cluster_addrs(OsdId(1)).unwrap().to_string(), "v2:127.0.0.1:7001/1");
    assert_eq!(map.hb_front_addrs[1].to_string(), "v2:127.0.0.1:9001/1");
    let mut inc = next(&map);
    inc.new_state.insert(OsdId(1), OsdState(0));
    map.apply(&inc).unwrap();
    assert!(map.is_down(OsdId(1)) && map.is_in(OsdId(1)) && map.exists(OsdId(1)));
    assert_eq!((map.info(OsdId(1)).down_at, map.osd_xinfo[1].down_stamp), (Epoch(3), UTime::new(102, 0)));
    let mut inc = next(&map);
    inc.new_state.insert(OsdId(1), OsdState::EXISTS);
    map.apply(&inc).unwrap();
    assert!(!map.exists(OsdId(1)) && map.osd_uuid[1] == Uuid::NIL && map.osd_addrs[1].0.is_empty());
    // Ceph allocates the affinities when it forgets an OSD, and the bytes tell.
    assert_eq!(map.osd_primary_affinity, [PRIMARY_AFFINITY_DEFAULT; 3]);
    for id in [OsdId::NONE, OsdId(3), OsdId::HOLE] {
        assert!(!map.exists(id) && map.weight(id) == 0 && map.osd_addrs(id).is_none());
    }
}

#[test]
fn a_refused_incremental_changes_nothing() {
    let map = cluster(2);
    let mut other_fsid = next(&map);
    other_fsid.fsid = Uuid([8; 16]);
    let mut gap = next(&map);
    gap.epoch = Epoch(9);
    let mut no_osd = next(&map);
    no_osd.new_flags = Some(MapFlags::NOOUT);
    no_osd.new_weight.insert(OsdId(2), 0);
    let mut too_many = next(&map);
    too_many.new_max_osd = Some(OSD_COUNT_MAX + 1);
    let mut bad_map = next(&map);
    bad_map.fullmap = Bytes::from_static(b"x");
    let with_map = |fsid, epoch: Epoch| {
        let whole = OsdMap { fsid, epoch, ..map.clone() };
        Incremental { fullmap: whole.to_bytes_and_crc().0, ..next(&map) }
    };
    let epoch = map.epoch.next();
    let [its_own, older, newer, others] = [
        with_map(map.fsid, epoch),
        with_map(map.fsid, map.epoch),
        with_map(map.fsid, epoch.next()),
        with_map(Uuid([8; 16]), epoch),
    ];
    assert_eq!(map.clone().apply(&its_own), Ok(()));
    for inc in [other_fsid, gap, no_osd, too_many, bad_map, older, newer, others] {
        let mut copy = map.clone();
        assert!(copy.apply(&inc).is_err());
        assert_eq!(copy, map);
    }
}

#[test]
fn pools_snapshots_and_settings_change() {
    let mut map = cluster(1);
    let snaps = |start, len| {
        let mut set = IntervalSet::new();
        set.insert(start, len);
        [(PoolId(1), set)].into()
    };
    let mut inc = next(&map);
    inc.new_pool_max = Some(PoolId(1));
    inc.new_pools.insert(PoolId(1), PgPool::new(PoolType::REPLICATED, 3, 2, 0, 12));
    inc.new_pool_names.insert(PoolId(1), "rbd".into());
    inc.new_removed_snaps = snaps(1, 4);
    inc.new_flags = Some(map.flags | MapFlags::NOOUT);
    inc.new_full_ratio = Some(0.5);
    map.apply(&inc).unwrap();
    let (id, pool) = map.pool_by_name("rbd").unwrap();
    assert_eq!((id, pool.last_change, pool.pg_num_mask()), (PoolId(1), map.epoch, 15));
    assert_eq!(map.pgs().count(), 12);
    assert!(map.has_flag(MapFlags::NOOUT) && map.full_ratio == 0.5 && !map.is_full(id));
    let mut inc = next(&map);
    inc.new_purged_snaps = snaps(1, 3);
    map.apply(&inc).unwrap();
    assert_eq!(map.removed_snaps_queue[&PoolId(1)].iter().collect::<Vec<_>>(), [(4, 1)]);
    assert!(map.new_removed_snaps.is_empty());
    let mut inc = next(&map);
    inc.new_purged_snaps = snaps(4, 1);
    inc.old_pools.insert(PoolId(1));
    map.apply(&inc).unwrap();
    assert!(map.removed_snaps_queue.is_empty() && map.pools.is_empty() && map.pool_by_name("rbd").is_none());
    let bytes = map.to_bytes(F);
    assert_eq!(OsdMap::from_bytes(bytes).unwrap(), map);
}

#[test]
fn blocklist_matches_incarnations_and_whole_hosts() {
    let mut map = cluster(1);
    let mut inc = next(&map);
    for text in ["10.0.0.1:0/77", "10.0.0.2:0/0"] {
        inc.new_blocklist.insert(EntityAddr::parse(text).unwrap(), UTime::new(5, 0));
    }
    map.apply(&inc).unwrap();
    let listed =
        |kind, text: &str| map.is_blocklisted(&EntityAddr { kind, ..EntityAddr::parse(text).unwrap() });
    assert!(listed(AddrType::MSGR2, "10.0.0.1:0/77") && listed(AddrType::ANY, "10.0.0.1:0/77"));
    assert!(!listed(AddrType::MSGR2, "10.0.0.1:0/78") && !listed(AddrType::MSGR2, "10.0.0.1:1/77"));
    assert!(listed(AddrType::MSGR2, "10.0.0.2:4000/9") && !listed(AddrType::MSGR2, "10.0.0.3:0/77"));
    assert!(!map.is_blocklisted(&EntityAddr::default()));
}

#[test]
fn what_is_blocklisted_again_stays_for_the_longer_time() {
    let mut map = cluster(1);
    let (addr, range) =
        (EntityAddr::parse("10.0.0.1:0/77").unwrap(), EntityAddr::cidr([10, 0, 0, 5].into(), 32));
    for (until, holds) in [(5, 5), (9, 9), (7, 9)] {
        let mut inc = next(&map);
        inc.new_blocklist.insert(addr, UTime::new(until, 0));
        inc.ranges.new.insert(range.unwrap(), UTime::new(until, 0));
        map.apply(&inc).unwrap();
        let times = [map.blocklist[&addr], map.range_blocklist.0[&range.unwrap()]];
        assert_eq!(times, [UTime::new(holds, 0); 2]);
    }
}

/// Three times the same OSD is one copy, however it came into the map.
#[test]
fn an_osd_that_is_named_twice_is_one_member() {
    let mut map = cluster(3);
    let mut inc = next(&map);
    inc.new_pool_max = Some(PoolId(1));
    inc.new_pools.insert(PoolId(1), PgPool::new(PoolType::REPLICATED, 3, 2, 0, 4));
    inc.new_pool_names.insert(PoolId(1), "rbd".into());
    let pg = |seed| PgId::new(PoolId(1), seed);
    let osds = |ids: [i32; 3]| ids.map(OsdId).to_vec();
    inc.new_pg_upmap = [(pg(0), osds([0, 0, 0])), (pg(1), osds([2, 1, 2]))].into();
    inc.new_pg_temp.insert(pg(2), osds([1, 1, 0]));
    map.apply(&inc).unwrap();
    let acting = |seed| map.pg_to_up_acting(pg(seed)).acting;
    assert_eq!(acting(0), [OsdId(0)]);
    assert_eq!(acting(1), [OsdId(2), OsdId(1)]);
    assert_eq!(acting(2), [OsdId(1), OsdId(0)]);
    let members = Membership { acting: osds([2, 1, 2]), ..Membership::of(&map, pg(1)) };
    assert_eq!(members.acting_count(), 2);
    let members = Membership { up: osds([1, 0, 0]), ..members };
    assert_eq!(members.all().collect::<Vec<_>>(), osds([2, 1, 0]));
}

#[test]
fn names_parse_and_print() {
    assert_eq!(MapFlags::PACIFIC.to_string(), "sortbitwise,recovery_deletes,purged_snapdirs,pglog_hardlimit");
    assert_eq!(MapFlags::parse("nodeep-scrub"), Some(MapFlags::NODEEP_SCRUB));
    assert_eq!(PoolFlags(0x2001).to_string(), "hashpspool,selfmanaged_snaps");
    assert_eq!((OsdState::EXISTS | OsdState::UP).to_string(), "exists,up");
    assert_eq!((Release::parse("pacific"), Release(12).name()), (Some(Release::PACIFIC), "luminous"));
    assert_eq!(PoolOptKey::parse("pg_num_max"), Some((PoolOptKey(23), PoolOptKind::Int)));
}

/// As `ceph features` of real clusters tells them.
#[test]
fn releases_are_told_by_their_features() {
    for (features, release) in [
        (0x0001_07b8_4a84_2aca, Release::HAMMER),
        (575_862_587_619_852_283, Release::JEWEL),
        (0x2701_8fb8_6aa4_2ada, Release::JEWEL),
        (0x2f01_8fb8_6aa4_2ada, Release::LUMINOUS),
        (1_152_323_339_925_389_307, Release::LUMINOUS),
        (Features::PACIFIC.0, Release::LUMINOUS),
        (0, Release::default()),
    ] {
        assert_eq!(Release::of_features(features), release, "{features:#x}");
    }
    assert_eq!(Release::JEWEL.features() & !0x0001_07b8_4a84_2aca, 1 << 58);
    assert_eq!(Release::PACIFIC.features(), Release::LUMINOUS.features());
}

#[test]
fn addresses_are_ordered_as_memory() {
    let parse = |text: &str| EntityAddr::parse(text).unwrap();
    // The nonce is little-endian in memory, the port big-endian.
    assert!(parse("10.0.0.1:0/256") < parse("10.0.0.1:0/1"));
    assert!(parse("10.0.0.1:1/0") < parse("10.0.0.1:256/0"));
    assert!(parse("9.0.0.9:2/0") < parse("1.0.0.1:3/0"));
    assert!(parse("9.0.0.9:9/0") < parse("[::1]:0/0"));
}
