//! Upmaps that operators set.

use types::{OsdId, PgId, PoolId};

use super::cluster::Cluster;

#[test]
fn upmaps_leave_no_pg_with_fewer_copies_than_they_name() {
    let mut cluster = Cluster::with_rbd();
    let upmap = |ids: &str| format!(r#"{{"prefix":"osd pg-upmap","pgid":"1.0","id":[{ids}]}}"#);
    let items = |ids: &str| format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"1.0","id":[{ids}]}}"#);
    for (command, why) in [
        (upmap("0"), "num of osds (1) < pool min size (2)"),
        (upmap("0,1,2,0"), "num of osds (4) > pool size (3)"),
        (items("0,1,0,2,1,2,2,1"), "num of osd pairs (4) > pool size (3)"),
        (items("1,1"), "no valid upmap items(pairs) is specified"),
    ] {
        assert_eq!(cluster.refused(&command), (-22, why.to_owned()), "{command}");
    }
    let said = cluster.ok(&upmap("0,0,0"));
    assert_eq!(said, "osd.0 already exists, osd.0 already exists, set 1.0 pg_upmap mapping to [0]");
    let pg = PgId::new(PoolId(1), 0);
    assert_eq!(cluster.map().pg_to_up_acting(pg).up, [OsdId(0)]);
    let said = cluster.ok(&items("0,0,0,1,0,1"));
    let skipped = "from osd.0 == to osd.0, osd.0 -> osd.1 already exists, ";
    assert_eq!(said, format!("{skipped}set 1.0 pg_upmap_items mapping to [0->1]"));
}
