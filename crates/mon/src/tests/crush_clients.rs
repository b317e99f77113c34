//! CRUSH maps that not all clients would understand.

use crush::BucketAlg;
use types::CrushBlob;

use super::cluster::{ADMIN, Cluster};

fn tunables(profile: &str) -> String {
    format!(r#"{{"prefix":"osd crush tunables","profile":"{profile}"}}"#)
}

fn serve(release: &str) -> String {
    format!(r#"{{"prefix":"osd set-require-min-compat-client","version":"{release}"}}"#)
}

fn why(needed: &str, served: &str) -> (i32, String) {
    let text =
        format!("new crush map requires client version {needed} but require_min_compat_client is {served}");
    (-22, text)
}

fn set_map(cluster: &mut Cluster, crush: &CrushBlob) -> (i32, String) {
    let ack = cluster.try_command(ADMIN, r#"{"prefix":"osd setcrushmap"}"#, crush.bytes()).unwrap();
    (ack.result, ack.status)
}

#[test]
fn a_crush_map_is_for_the_oldest_clients_that_are_served() {
    let mut cluster = Cluster::with_rbd();
    let newest = cluster.map().crush.clone();
    cluster.ok(&tunables("hammer"));
    cluster.ok(&serve("hammer"));
    assert_eq!(cluster.refused(&tunables("jewel")), why("jewel", "hammer"));
    assert_eq!(set_map(&mut cluster, &newest), why("jewel", "hammer"));
    cluster.ok(&tunables("firefly"));
    cluster.ok(&serve("jewel"));
    cluster.ok(&tunables("jewel"));
    assert_eq!(set_map(&mut cluster, &newest).0, 0);
}

#[test]
fn straw2_is_not_for_clients_that_do_not_know_it() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(&tunables("firefly"));
    let mut crush = cluster.map().crush.map().clone();
    for bucket in crush.buckets.iter_mut().flatten() {
        let item_weights: Vec<u32> = (0..bucket.items.len()).map(|at| bucket.item_weight(at)).collect();
        let straws = vec![0x10000; item_weights.len()];
        bucket.alg = BucketAlg::Straw { item_weights, straws };
    }
    assert_eq!(set_map(&mut cluster, &CrushBlob::from(crush)).0, 0);
    cluster.ok(&serve("firefly"));
    let to_straw2 = r#"{"prefix":"osd crush set-all-straw-buckets-to-straw2"}"#;
    assert_eq!(cluster.refused(to_straw2), why("hammer", "firefly"));
    cluster.ok(&serve("hammer"));
    cluster.ok(to_straw2);
}
