//! CRUSH maps in which buckets stand in so many places that a listing would have no end.

use bytes::Bytes;
use crush::{BucketAlg, CrushMap};
use types::CrushBlob;

use super::cluster::{ADMIN, Cluster};

/// The cluster's map with pairs of racks, each of which holds both racks of the next pair.
fn with_ladder(cluster: &Cluster, levels: usize) -> Bytes {
    let mut crush: CrushMap = cluster.map().crush.map().clone();
    let mut pair =
        |level: usize| ["a", "b"].map(|side| crush.add_bucket(&format!("{side}{level}"), "rack").unwrap());
    let pairs: Vec<[i32; 2]> = (0..levels).map(&mut pair).collect();
    for pair in pairs.windows(2) {
        for id in pair[0] {
            let bucket = crush.buckets[(-1 - id) as usize].as_mut().unwrap();
            bucket.items = pair[1].to_vec();
            bucket.alg = BucketAlg::Straw2 { item_weights: vec![0; 2] };
        }
    }
    CrushBlob::from(crush).bytes().clone()
}

fn set_map(cluster: &mut Cluster, crush: &Bytes) -> (i32, String) {
    let ack = cluster.try_command(ADMIN, r#"{"prefix":"osd setcrushmap"}"#, crush).unwrap();
    (ack.result, ack.status)
}

#[test]
fn a_map_that_could_not_be_listed_is_refused() {
    let mut cluster = Cluster::with_rbd();
    let map = with_ladder(&cluster, 31);
    let why = "the hierarchy would have more than 262144 places";
    assert_eq!(set_map(&mut cluster, &map), (-22, why.to_owned()));
    let map = with_ladder(&cluster, 4);
    assert_eq!(set_map(&mut cluster, &map).0, 0);
    let tree = cluster.json(r#"{"prefix":"osd tree"}"#);
    // Beside the root, the host and three OSDs.
    assert_eq!(tree["nodes"].as_array().unwrap().len(), 5 + 2 + 4 + 8 + 16);
}

#[test]
fn an_operator_can_replace_a_map_that_cannot_be_listed() {
    let mut cluster = Cluster::with_rbd();
    let (good, bad) = (cluster.map().crush.bytes().clone(), with_ladder(&cluster, 31));
    let wall = cluster.wall();
    cluster.mon.change_osdmap(wall, |_, inc| inc.crush = bad);
    cluster.pass(std::time::Duration::from_secs(1));
    cluster.restart();
    for command in ["osd tree", "osd df", "osd crush tree"] {
        assert_eq!(cluster.refused(&format!(r#"{{"prefix":"{command}"}}"#)).0, -75, "{command}");
    }
    cluster.ok(r#"{"prefix":"osd tree-from","bucket":"default"}"#);
    cluster.ok(r#"{"prefix":"osd crush unlink","name":"a30"}"#);
    assert_eq!(set_map(&mut cluster, &good).0, 0);
    cluster.ok(r#"{"prefix":"osd tree"}"#);
}

/// Moves the host's bucket.
fn move_host(location: &str) -> String {
    format!(r#"{{"prefix":"osd crush move","name":"vm","args":["{location}"]}}"#)
}

#[test]
fn a_location_has_one_bucket_of_each_type_and_few_types() {
    let mut cluster = Cluster::with_rbd();
    let moved = cluster.ok(&move_host("rack=a root=default rack=b"));
    assert!(moved.ends_with("to location {rack=b,root=default} in crush map"), "{moved}");
    let crush = cluster.map().crush.map();
    assert_eq!((crush.id_of("a"), &crush.location(0)[1].1), (None, &"b".to_owned()));
    let types: Vec<String> = (0..65).map(|at| format!("t{at}=x")).collect();
    let why = "the hierarchy would have more than 64 levels";
    assert_eq!(cluster.refused(&move_host(&types.join(" "))), (-22, why.to_owned()));
    cluster.ok(r#"{"prefix":"osd crush add-bucket","name":"c","type":"rack"}"#);
    let add = format!(
        r#"{{"prefix":"osd crush add-bucket","name":"d","type":"rack","args":["{}"]}}"#,
        types.join(" ")
    );
    assert_eq!(cluster.refused(&add), (-22, why.to_owned()));
}

#[test]
fn device_classes_are_held_to_the_same_number_of_places() {
    let mut cluster = Cluster::with_rbd();
    // The map has a quarter of the places that it may have; each class has as many.
    let map = with_ladder(&cluster, 15);
    assert_eq!(set_map(&mut cluster, &map).0, 0);
    cluster.ok(r#"{"prefix":"osd crush rm-device-class","ids":["1","2"]}"#);
    cluster.ok(r#"{"prefix":"osd crush set-device-class","class":"hdd","ids":["1"]}"#);
    let why = "the hierarchy would have more than 262144 places";
    for command in [
        r#"{"prefix":"osd crush set-device-class","class":"nvme","ids":["2"]}"#,
        r#"{"prefix":"osd crush class create","class":"nvme"}"#,
    ] {
        assert_eq!(cluster.refused(command), (-22, why.to_owned()));
    }
    cluster.ok(r#"{"prefix":"osd crush class rename","srcname":"hdd","dstname":"hhd"}"#);
    cluster.ok(r#"{"prefix":"osd crush class rm","class":"hhd"}"#);
    cluster.ok(r#"{"prefix":"osd crush set-device-class","class":"nvme","ids":["2"]}"#);
    assert_eq!(cluster.map().crush.map().device_class(2), Some("nvme"));
}
