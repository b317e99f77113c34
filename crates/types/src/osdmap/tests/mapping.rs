//! Placement against what stock Ceph computed.

use std::io::Write;

use super::*;

/// Parses `[1,0,2]` or `[1, 0, 2]`.
fn osds(text: &str) -> Vec<OsdId> {
    let list = text.trim_matches(['[', ']']);
    list.split(',').filter(|t| !t.is_empty()).map(|t| OsdId(t.trim().parse().unwrap())).collect()
}

/// Parses `([1,0,2], p1)`.
fn set(text: &str) -> (Vec<OsdId>, OsdId) {
    let (list, primary) = text.trim().trim_matches(['(', ')']).split_once(", p").unwrap();
    (osds(list), OsdId(primary.parse().unwrap()))
}

/// Compares each line `1.0 raw (..) up (..) acting (..)` of `osdmaptool --test-map-pgs-dump-all`.
fn check_dump(map: &OsdMap, dump: &str) -> usize {
    let mut count = 0;
    for line in dump.lines() {
        let Some((pg, rest)) = line.split_once(" raw ") else { continue };
        let pg = PgId::parse(pg).unwrap();
        let (raw, rest) = rest.split_once(" up ").unwrap();
        let (up, acting) = rest.split_once(" acting ").unwrap();
        let (up, up_primary) = set(up);
        let (acting, acting_primary) = set(acting);
        let expected = UpActing { up, up_primary, acting, acting_primary };
        let existing: Vec<OsdId> = map.pg_to_raw_osds(pg).into_iter().filter(|o| map.exists(*o)).collect();
        assert_eq!(existing, set(raw).0.into_iter().filter(|o| map.exists(*o)).collect::<Vec<_>>(), "{line}");
        assert_eq!(map.up_acting_of_raw(pg, &set(raw).0), expected, "{line}");
        // That is the two in turn, which take long together.
        if count % 16 == 0 {
            assert_eq!(map.pg_to_up_acting(pg), expected, "{line}");
        }
        count += 1;
    }
    count
}

#[test]
fn captured_mappings_agree() {
    let dump = String::from_utf8(vector("pgmap.all.txt").to_vec()).unwrap();
    let map = full(124);
    assert_eq!(check_dump(&map, &dump), map.pgs().count());
}

#[test]
fn objects_go_to_their_pgs() {
    let map = full(124);
    let table = String::from_utf8(vector("object_to_pg.tsv").to_vec()).unwrap();
    let mut count = 0;
    for line in table.lines().skip(1) {
        let row: Vec<&str> = line.split('\t').collect();
        let pool = PoolId(row[0].parse().unwrap());
        let (hash, pg) = map.object_to_pg(pool, row[2].as_bytes(), b"", row[3].as_bytes()).unwrap();
        assert_eq!(
            (PgId::new(pool, hash).to_string(), pg.to_string()),
            (row[4].into(), row[5].into()),
            "{line}"
        );
        count += 1;
    }
    assert_eq!(count, 808);
}

/// Runs `osdmaptool`; none when it is not installed.
fn osdmaptool(args: &[&str]) -> Option<String> {
    match std::process::Command::new("osdmaptool").args(args).output() {
        Ok(output) => {
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            // Past the harness, which keeps to itself what a test prints that passes.
            let why =
                format!("SKIPPED: osdmaptool does not run ({error}): mappings are not compared with its\n");
            std::io::stderr().write_all(why.as_bytes()).unwrap();
            None
        }
    }
}

/// A small seeded generator (splitmix64): the same maps in every run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(bound)) as u32
    }

    fn osds(&mut self, count: u32, max_osd: u32) -> Vec<OsdId> {
        let mut osds: Vec<OsdId> = Vec::new();
        while osds.len() < count.min(max_osd) as usize {
            let osd = OsdId(self.below(max_osd) as i32);
            if !osds.contains(&osd) {
                osds.push(osd);
            }
        }
        osds
    }
}

/// Disturbs a map in every way that placement knows.
fn disturb(map: &mut OsdMap, rng: &mut Rng) -> Incremental {
    let n = map.max_osd as u32;
    let mut inc = Incremental::new(map.fsid, map.epoch.next());
    let pool = map.pools[&PoolId(1)].clone();
    let small = PgPool { size: 2, ..PgPool::new(PoolType::REPLICATED, 2, 1, pool.crush_rule, 77) };
    let unhashed = PgPool {
        flags: PoolFlags(0),
        pgp_num: 50,
        ..PgPool::new(PoolType::REPLICATED, 3, 2, pool.crush_rule, 100)
    };
    inc.new_pool_max = Some(PoolId(3));
    inc.new_pools = [(PoolId(2), small), (PoolId(3), unhashed)].into();
    inc.new_pool_names = [(PoolId(2), "small".into()), (PoolId(3), "unhashed".into())].into();
    for osd in (0..map.max_osd).map(OsdId) {
        let addrs = EntityAddrVec::msgr2("127.0.0.1:6800".parse().unwrap(), 1 + osd.0 as u32);
        match rng.below(20) {
            0 if map.exists(osd) => drop(inc.new_state.insert(osd, OsdState::EXISTS)),
            1 | 2 if map.is_up(osd) => drop(inc.new_state.insert(osd, OsdState::UP)),
            0..=2 => {}
            _ => drop(inc.new_up_client.insert(osd, addrs)),
        }
        let weights = [WEIGHT_IN, WEIGHT_IN, WEIGHT_IN, WEIGHT_IN / 2, 0x1234, 0];
        inc.new_weight.insert(osd, weights[rng.below(6) as usize]);
        let affinities = [PRIMARY_AFFINITY_DEFAULT, PRIMARY_AFFINITY_DEFAULT, 0x8000, 0];
        inc.new_primary_affinity.insert(osd, affinities[rng.below(4) as usize]);
    }
    for pg in map.pgs().collect::<Vec<_>>() {
        match rng.below(12) {
            0 => drop(inc.new_pg_temp.insert(pg, rng.osds(pool.size.into(), n))),
            1 => drop(inc.new_primary_temp.insert(pg, OsdId(rng.below(n) as i32))),
            2 => drop(inc.new_pg_upmap.insert(pg, rng.osds(pool.size.into(), n))),
            3 | 4 => {
                let pairs = (0..1 + rng.below(3)).map(|_| (rng.osds(1, n)[0], rng.osds(1, n)[0])).collect();
                inc.new_pg_upmap_items.insert(pg, pairs);
            }
            _ => {}
        }
        // On small clusters, where the pairs hit, a mapping of both kinds too.
        if rng.below(20) == 0 {
            inc.new_pg_upmap.insert(pg, rng.osds(pool.size.into(), n));
        }
    }
    inc
}

/// Disturbs a map, has stock Ceph map all of its PGs and compares.
fn compare(mut map: OsdMap, path: &str, rng: &mut Rng) -> Option<usize> {
    let inc = disturb(&mut map, rng);
    map.apply(&inc).unwrap();
    fs::write(path, map.to_bytes(F)).unwrap();
    let mapped = check_dump(&map, &osdmaptool(&[path, "--test-map-pgs-dump-all"])?);
    assert_eq!(mapped, map.pgs().count());
    Some(mapped)
}

/// `LOLIGO_MAPPING_ROUNDS` in the environment asks for more than one round of half a million mappings, each of other
/// maps. Most are of small maps, which are quick to map.
#[test]
fn generated_mappings_agree_with_stock_ceph() {
    let rounds = std::env::var("LOLIGO_MAPPING_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let folder = std::env::temp_dir().join(format!("loligo-osdmap-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("map").to_str().unwrap().to_owned();
    let mut rng = Rng(1);
    let mut count = 0;
    for _ in 0..rounds {
        for (osds, pg_bits) in
            [("3", "12"), ("5", "15"), ("12", "14"), ("40", "11"), ("250", "5"), ("1000", "3")]
        {
            let args =
                ["--createsimple", osds, &path, "--with-default-pool", "--pg-bits", pg_bits, "--clobber"];
            if osdmaptool(&args).is_none() {
                return;
            }
            let stock = Bytes::from(fs::read(&path).unwrap());
            let map = OsdMap::from_bytes(stock.clone()).unwrap();
            assert_eq!(map.to_bytes(F), stock, "{osds} OSDs");
            count += compare(map, &path, &mut rng).expect("it just ran");
            // The captured map has an erasure-coded pool.
            count += compare(full(124), &path, &mut rng).expect("it just ran");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(count > rounds * 400_000, "only {count} mappings compared");
    println!("{count} mappings agree");
}
