//! Buckets that others hold more than once, so that items have many places.

use codec::{Decode, Encode, Features};

use super::{Random, generated};
use crate::*;

/// Pairs of racks, each of which holds both racks of the next pair: the items of level `n` have `2^n` places each.
fn ladder(levels: usize) -> CrushMap {
    let mut map = CrushMap::initial();
    let mut pair =
        |level: usize| ["a", "b"].map(|side| map.add_bucket(&format!("{side}{level}"), "rack").unwrap());
    let pairs: Vec<[i32; 2]> = (0..levels).map(&mut pair).collect();
    for pair in pairs.windows(2) {
        for id in pair[0] {
            let bucket = map.buckets[(-1 - id) as usize].as_mut().unwrap();
            bucket.items = pair[1].to_vec();
            bucket.alg = BucketAlg::Straw2 { item_weights: vec![0; 2] };
        }
    }
    map
}

fn in_rack(name: &str) -> Vec<(String, String)> {
    vec![("rack".to_owned(), name.to_owned())]
}

fn weight_of(map: &CrushMap, name: &str) -> u32 {
    map.bucket(map.id_of(name).unwrap()).unwrap().weight
}

#[test]
fn each_way_to_an_item_is_a_place() {
    assert_eq!(CrushMap::initial().places(), 1);
    assert_eq!(ladder(3).places(), 1 + 2 + 4 + 8);
    // The root, three hosts, four devices; the same again as a shadow for each of two classes, without the devices,
    // each of which is in one class.
    let map = generated(4, 2, &mut Random(1));
    let buckets = map.all_buckets().filter(|bucket| !map.is_shadow(bucket.id)).count() as u64;
    assert_eq!(map.places(), 3 * buckets + 2 * 4);
    assert_eq!(map.check_places(), Ok(()));
}

#[test]
fn a_map_with_too_many_places_is_read_and_refused() {
    assert_eq!(ladder(17).check_places(), Ok(()));
    for levels in [18, 31, 64] {
        let map = ladder(levels);
        assert_eq!(CrushMap::from_bytes(map.to_bytes(Features::PACIFIC)).unwrap(), map);
        assert_eq!(map.check_places(), Err(EditError::TooManyPlaces), "{levels}");
    }
}

#[test]
fn no_change_gives_items_too_many_places() {
    let mut map = ladder(17);
    map.add_bucket("x", "rack").unwrap();
    let before = map.clone();
    assert_eq!(map.link_bucket("x", &in_rack("a16")), Err(EditError::TooManyPlaces));
    assert_eq!(map.move_item("x", &in_rack("a16")), Err(EditError::TooManyPlaces));
    assert_eq!(map.place_device(0, "osd.0", WEIGHT_ONE, &in_rack("a16")), Err(EditError::TooManyPlaces));
    assert_eq!(map, before);

    let mut map = ladder(16);
    map.add_bucket("y", "rack").unwrap();
    for osd in 0..5 {
        map.place_device(osd, &format!("osd.{osd}"), WEIGHT_ONE, &in_rack("y")).unwrap();
    }
    let before = map.clone();
    assert_eq!(map.swap_buckets("y", "a15"), Err(EditError::TooManyPlaces));
    assert_eq!(map, before);
}

#[test]
fn no_device_class_gives_items_too_many_places() {
    // Nearly half of the places that a map may have; each class has as many.
    let mut map = ladder(16);
    map.set_device_classes(&[0], Some("one")).unwrap();
    let before = map.clone();
    assert_eq!(map.create_class("two"), Err(EditError::TooManyPlaces));
    assert_eq!(map.set_device_classes(&[1], Some("two")), Err(EditError::TooManyPlaces));
    assert_eq!(map, before);
    // A map that comes without the shadows of its classes gets them with the next change.
    map.class_names.insert(7, "two".to_owned());
    assert_eq!(map.check_places(), Err(EditError::TooManyPlaces));
    map.remove_class(7).unwrap();
    assert_eq!(map, before);
}

#[test]
fn a_location_has_no_more_levels_than_a_map_may_have() {
    let mut map = CrushMap::initial();
    let before = map.clone();
    let racks = |count: usize| -> Vec<(String, String)> {
        (0..count).map(|at| ("rack".to_owned(), format!("r{at}"))).collect()
    };
    for count in [LEVELS_MAX + 1, 100_000] {
        let placed = map.place_device(0, "osd.0", WEIGHT_ONE, &racks(count));
        assert_eq!(placed, Err(EditError::TooManyLevels));
        assert_eq!(map.link_bucket("default", &racks(count)), Err(EditError::TooManyLevels));
    }
    assert_eq!(map, before);
    map.place_device(0, "osd.0", WEIGHT_ONE, &racks(LEVELS_MAX)).unwrap();
    assert_eq!(CrushMap::from_bytes(map.to_bytes(Features::PACIFIC)).unwrap(), map);
}

/// Each change is a few passes over the map: with one for each device or bucket, this would take days.
#[test]
fn a_map_of_many_hosts_is_changed_at_once() {
    const HOSTS: i32 = 50_000;
    let mut map = CrushMap::initial();
    let host = map.bucket_type("host").unwrap();
    let alg = BucketAlg::Straw2 { item_weights: vec![WEIGHT_ONE] };
    for osd in 0..HOSTS {
        let id = -2 - osd;
        let bucket =
            Bucket { id, kind: host, alg: alg.clone(), hash: 0, weight: WEIGHT_ONE, items: vec![osd] };
        map.buckets.truncate((osd + 1) as usize);
        map.buckets.push(Some(bucket));
        map.names.extend([(id, format!("h{osd}")), (osd, format!("osd.{osd}"))]);
    }
    map.max_devices = HOSTS;
    let root = map.bucket_mut(-1).unwrap();
    root.items = (0..HOSTS).map(|osd| -2 - osd).collect();
    root.alg = BucketAlg::Straw2 { item_weights: vec![0; HOSTS as usize] };
    assert!(map.create_weight_set(COMPAT_SET, 1));

    map.reweight_all().unwrap();
    assert_eq!(weight_of(&map, "default"), HOSTS as u32 * WEIGHT_ONE);
    map.reweight("default", 2).unwrap();
    map.set_device_classes(&Vec::from_iter(0..HOSTS), Some("ssd")).unwrap();
    assert_eq!(map.roots(), [-1]);
    for root in ["default", "default~ssd"] {
        assert_eq!(weight_of(&map, root), HOSTS as u32 * 2, "{root}");
    }
    let class = map.class_of("ssd").unwrap();
    map.remove_class(class).unwrap();
    assert_eq!(map.id_of("default~ssd"), None);
}

#[test]
fn a_map_that_has_too_many_places_may_get_fewer() {
    let mut map = ladder(31);
    map.add_bucket("x", "rack").unwrap();
    map.move_item("x", &[("root".to_owned(), "default".to_owned())]).unwrap();
    assert!(map.unlink_item("a30", None).unwrap());
    assert!(map.create_weight_set(COMPAT_SET, 1));
    let last = map.id_of("b30").unwrap();
    assert!(map.reweigh_in_set(COMPAT_SET, last, &[WEIGHT_ONE]));
    assert!(map.unlink_item("a1", None).unwrap() && map.unlink_item("b1", None).unwrap());
}

#[test]
fn a_weight_counts_in_each_place() {
    let mut map = ladder(10);
    map.place_device(0, "osd.0", WEIGHT_ONE, &in_rack("a9")).unwrap();
    for (rack, places) in [("a9", 1), ("a8", 1), ("b8", 1), ("a7", 2), ("a0", 256), ("b0", 256)] {
        assert_eq!(weight_of(&map, rack), places * WEIGHT_ONE, "{rack}");
    }
    map.reweight("osd.0", 2 * WEIGHT_ONE).unwrap();
    assert_eq!(weight_of(&map, "a0"), 512 * WEIGHT_ONE);
}

#[test]
fn what_stock_clients_cannot_read_is_refused() {
    let map = generated(4, 2, &mut Random(1));
    assert_eq!(map.check_for_clients(), Ok(()));
    let host = map.id_of("h0").unwrap();
    let slot = (-1 - host) as usize;
    let mut hashed = map.clone();
    hashed.buckets[slot].as_mut().unwrap().hash = 1;
    assert!(hashed.check_for_clients().is_err());
    let size = map.bucket(host).unwrap().items.len();
    let with_ids = |slot: usize, buckets: &CrushMap| {
        let arg = ChooseArg { weight_set: Vec::new(), ids: vec![0; size] };
        let mut map = buckets.clone();
        map.choose_args.insert(-1, [(slot as u32, arg)].into());
        map.check_for_clients().is_ok()
    };
    let mut emptied = map.clone();
    emptied.buckets[slot] = None;
    assert_eq!(
        [with_ids(slot, &map), with_ids(slot, &emptied), with_ids(map.buckets.len(), &map)],
        [true, false, false]
    );
}

#[test]
fn an_item_that_is_twice_in_a_bucket_is_refused_and_can_be_taken_out() {
    let mut map = generated(4, 2, &mut Random(1));
    let host = map.id_of("h0").unwrap();
    let bucket = map.buckets[(-1 - host) as usize].as_mut().unwrap();
    bucket.items = vec![0, 1, 0];
    bucket.alg = BucketAlg::Straw2 { item_weights: vec![WEIGHT_ONE; 3] };
    assert_eq!(map.check_places(), Err(EditError::Twice("osd.0".to_owned(), "h0".to_owned())));
    map.remove_item("osd.0").unwrap();
    assert_eq!(map.bucket(host).unwrap().items, [1]);
    assert_eq!(CrushMap::from_bytes(map.to_bytes(Features::PACIFIC)).unwrap(), map);
}
