//! `osd tree`: the order of its nodes, and which ones are shown.

use serde_json::{Value, json};

use super::cluster::Cluster;

fn names(tree: &Value) -> Vec<&str> {
    tree["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect()
}

#[test]
fn osds_stand_in_the_order_of_their_numbers_within_a_class() {
    let mut cluster = Cluster::with_rbd();
    for id in 3..12 {
        cluster.ok(r#"{"prefix":"osd create"}"#);
        cluster.ok(&format!(
            r#"{{"prefix":"osd crush add","id":"{id}","weight":1,"args":["root=default","host=vm"]}}"#
        ));
    }
    for id in [2, 10] {
        cluster.ok(&format!(r#"{{"prefix":"osd crush rm-device-class","ids":["{id}"]}}"#));
        cluster.ok(&format!(r#"{{"prefix":"osd crush set-device-class","class":"hdd","ids":["{id}"]}}"#));
    }
    let tree = cluster.json(r#"{"prefix":"osd tree"}"#);
    // Those without a class come first: their key begins with the underscore that ends a class.
    let expected = [
        "default", "vm", "osd.3", "osd.4", "osd.5", "osd.6", "osd.7", "osd.8", "osd.9", "osd.11", "osd.2",
        "osd.10", "osd.0", "osd.1",
    ];
    assert_eq!(names(&tree), expected);
    let reversed: Vec<i32> = vec![1, 0, 10, 2, 11, 9, 8, 7, 6, 5, 4, 3];
    assert_eq!(tree["nodes"][1]["children"], json!(reversed));
}

#[test]
fn osds_in_any_of_the_states_asked_for_are_shown_and_no_other_children() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd set","key":"noup"}"#);
    cluster.ok(r#"{"prefix":"osd down","ids":["0"]}"#);
    cluster.ok(r#"{"prefix":"osd out","ids":["1"]}"#);
    let tree = |cluster: &mut Cluster, states: &str| {
        cluster.json(&format!(r#"{{"prefix":"osd tree","states":[{states}]}}"#))
    };
    let both = tree(&mut cluster, r#""down","out""#);
    assert_eq!(names(&both), ["default", "vm", "osd.0", "osd.1"]);
    assert_eq!(both["nodes"][1]["children"], json!([1, 0]));
    let down = tree(&mut cluster, r#""down""#);
    assert_eq!((names(&down), &down["nodes"][1]["children"]), (vec!["default", "vm", "osd.0"], &json!([0])));
    assert_eq!(names(&tree(&mut cluster, r#""destroyed""#)), Vec::<&str>::new());
}
