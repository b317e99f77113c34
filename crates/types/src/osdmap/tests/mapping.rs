//! Placement against what stock Ceph computed.

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
        assert_eq!(map.up_acting_of_raw(pg, &set(raw).0), expected, "{line}");
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
