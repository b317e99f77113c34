//! Edits and decodes of maps that `initial` does not make: weight sets, links, deep chains.

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use proptest::prelude::*;

use super::{captured, generated};
use crate::{tests::Random, *};

fn at(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
}

fn assert_decodes(map: &CrushMap) {
    let back = CrushMap::from_bytes(map.to_bytes(Features::PACIFIC)).unwrap();
    assert_eq!(back, *map);
}

#[test]
fn a_change_without_effect_keeps_the_captured_bytes() {
    let mut map = captured();
    map.whole_or_nothing(|_| Ok(())).unwrap();
    assert_eq!(map, captured());
}

#[test]
fn weight_sets_follow_insertion_reweight_and_removal() {
    let mut map = captured();
    let (root, host) = (map.id_of("default").unwrap(), map.id_of("vm").unwrap());
    let set =
        |map: &CrushMap, id: i32| map.choose_args_of(-1).unwrap()[&((-1 - id) as u32)].weight_set[0].clone();
    let place = at(&[("host", "vm"), ("root", "default")]);
    map.place_device(3, "osd.3", 1_000, &place).unwrap();
    assert_decodes(&map);
    assert_eq!(set(&map, host), [1966, 983, 1277, 1_000]);
    assert_eq!(set(&map, root), [5226]);
    map.set_device_classes(&[3], Some("hdd")).unwrap();
    assert_eq!(set(&map, map.id_of("vm~hdd").unwrap()), [1966, 983, 1277, 1_000]);
    assert_eq!(set(&map, map.id_of("default~hdd").unwrap()), [5226]);
    map.reweight("osd.1", 2_000).unwrap();
    assert_eq!(set(&map, host), [1966, 2_000, 1277, 1_000]);
    map.remove_item("osd.0").unwrap();
    assert_decodes(&map);
    assert_eq!(set(&map, host), [2_000, 1277, 1_000]);
    assert_eq!(set(&map, root), [4277]);
}

#[test]
fn a_bucket_linked_twice_has_one_shadow() {
    let mut map = generated(6, 2, &mut Random(1));
    let host = map.id_of("h0").unwrap();
    let other = map.add_bucket("other", "root").unwrap();
    let slot = (-1 - other) as usize;
    let bucket = map.buckets[slot].as_mut().unwrap();
    bucket.items.push(host);
    bucket.alg = BucketAlg::Straw2 { item_weights: vec![WEIGHT_ONE] };
    map.set_device_classes(&[5], Some("nvme")).unwrap();
    assert_decodes(&map);
    assert_eq!(map.names.values().filter(|name| *name == "h0~hdd").count(), 1);
}

#[test]
fn a_deep_chain_is_refused_soon() {
    let mut map = CrushMap::initial();
    map.buckets = (0..50_000)
        .map(|slot| {
            let alg = BucketAlg::Straw2 { item_weights: vec![1] };
            Some(Bucket { id: -1 - slot, kind: 1, alg, hash: 0, weight: 1, items: vec![-2 - slot] })
        })
        .collect();
    let last = map.buckets.last_mut().unwrap().as_mut().unwrap();
    last.items.clear();
    last.alg = BucketAlg::Straw2 { item_weights: vec![] };
    assert!(CrushMap::from_bytes(map.to_bytes(Features::PACIFIC)).is_err());
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut map = generated(6, 2, &mut Random(1));
    let before = map.clone();
    assert!(map.place_device(6, "osd.6", WEIGHT_ONE, &at(&[("host", "new"), ("rack", "b d")])).is_err());
    assert!(map.place_device(6, "osd.6", WEIGHT_ONE, &at(&[("host", "r0")])).is_err());
    assert!(map.place_device(-6, "osd.6", WEIGHT_ONE, &at(&[("host", "h0")])).is_err());
    assert!(map.place_device(i32::MAX, "osd.6", WEIGHT_ONE, &at(&[("host", "h0")])).is_err());
    assert_eq!(map, before);
}

proptest! {
    /// Damaged maps are refused or usable; nothing panics.
    #[test]
    fn a_damaged_map_is_refused_or_maps(
        damage in prop::collection::vec((0usize..10_000, any::<u8>()), 1..4),
        seed in any::<u32>(),
    ) {
        let map = generated(12, 3, &mut Random(u64::from(seed)));
        for source in [captured(), map] {
            let mut bytes = source.to_bytes(Features::PACIFIC).to_vec();
            for (place, value) in &damage {
                let place = place % bytes.len();
                bytes[place] = *value;
            }
            let Ok(map) = CrushMap::from_bytes(Bytes::from(bytes)) else { continue };
            for rule in 0..4 {
                let chosen = map.do_rule(rule, seed, 3, &[WEIGHT_ONE; 12], map.choose_args_of(-1));
                prop_assert!(chosen.len() <= 3);
            }
        }
    }

    /// Devices come, move and go: the root weighs what they weigh, and the map stays readable.
    #[test]
    fn weights_add_up_after_any_edits(edits in prop::collection::vec((0i32..8, 0u32..5, 0u32..200_000), 1..30)) {
        let mut map = captured();
        for (device, action, weight) in edits {
            let name = format!("osd.{device}");
            let host = format!("h{}", weight % 3);
            match action {
                0 | 1 => map
                    .place_device(device, &name, weight, &at(&[("host", &host), ("root", "default")]))
                    .unwrap(),
                2 if map.id_of(&name).is_some() => map.remove_item(&name).unwrap(),
                3 if map.id_of(&name).is_some() => {
                    map.reweight(&name, weight).unwrap();
                }
                _ if map.id_of(&name).is_some() => map.set_device_classes(&[device], Some("ssd")).unwrap(),
                _ => {}
            }
            assert_decodes(&map);
            let root = map.bucket(map.id_of("default").unwrap()).unwrap();
            let sum: u32 = (0..8).filter_map(|osd| map.item_weight(osd)).sum();
            prop_assert_eq!(root.weight, sum);
        }
    }
}
