use super::*;

fn place(kind: &str, name: &str) -> Vec<(String, String)> {
    vec![(kind.to_owned(), name.to_owned())]
}

fn weight_of(map: &CrushMap, name: &str) -> u32 {
    map.bucket(map.id_of(name).unwrap()).unwrap().weight
}

/// Two devices on two hosts below `default`.
fn two_hosts() -> CrushMap {
    let mut map = CrushMap::initial();
    for osd in 0..2 {
        let location = [("host".to_owned(), format!("h{osd}")), ("root".to_owned(), "default".to_owned())];
        map.place_device(osd, &format!("osd.{osd}"), WEIGHT_ONE, &location).unwrap();
        map.set_device_classes(&[osd], Some("ssd")).unwrap();
    }
    map
}

#[test]
fn a_bucket_in_two_places_weighs_in_both() {
    let mut map = two_hosts();
    map.link_bucket("h0", &place("root", "other")).unwrap();
    assert_eq!([weight_of(&map, "default"), weight_of(&map, "other")], [2 * WEIGHT_ONE, WEIGHT_ONE]);
    map.reweight("osd.0", 3 * WEIGHT_ONE).unwrap();
    assert_eq!([weight_of(&map, "default"), weight_of(&map, "other")], [4 * WEIGHT_ONE, 3 * WEIGHT_ONE]);
    assert!(map.unlink_item("h0", Some("default")).unwrap());
    assert!(!map.unlink_item("h0", Some("default")).unwrap(), "it is not there any more");
    assert_eq!([weight_of(&map, "default"), weight_of(&map, "other")], [WEIGHT_ONE, 3 * WEIGHT_ONE]);
    // Without an ancestor it always succeeds, and the bucket stays.
    assert!(map.unlink_item("h0", None).unwrap() && map.unlink_item("h0", None).unwrap());
    assert_eq!(map.parents_of(map.id_of("h0").unwrap()), []);
    let up = map.link_bucket("default", &place("host", "h1"));
    assert!(matches!(up, Err(EditError::Loop(_))));
}

#[test]
fn types_and_classes_of_any_number_are_no_others() {
    let mut map = two_hosts();
    map.type_names.insert(65_536 + 1, "wide".to_owned());
    map.class_names.insert(i32::MAX, "last".to_owned());
    let missing = Err(EditError::NotFound("type wide".to_owned()));
    assert_eq!(map.add_bucket("b", "wide"), missing);
    assert_eq!(map.move_item("h0", &place("wide", "default")), missing.map(|_: i32| ()));
    assert_eq!([map.create_class("x"), map.create_class("y")], [Ok(1), Ok(2)]);
    map.set_device_classes(&[0], Some("z")).unwrap();
    assert_eq!(map.device_class(0), Some("z"));
}

#[test]
fn classes_that_nothing_uses_go_with_the_next_change() {
    let mut map = two_hosts();
    let classes = |map: &CrushMap| map.class_names.values().cloned().collect::<Vec<_>>();
    map.create_class("empty").unwrap();
    assert_eq!(classes(&map), ["ssd", "empty"]);
    map.add_simple_rule("r", "default", "host", Some("ssd"), RuleForm::REPLICATED).unwrap();
    assert_eq!(classes(&map), ["ssd", "empty"]);
    map.set_device_classes(&[0, 1], Some("ssd")).unwrap();
    assert_eq!(classes(&map), ["ssd", "empty"]);
    let shadow = map.id_of("default~ssd");
    map.set_device_classes(&[0, 1], None).unwrap();
    assert_eq!((classes(&map), map.id_of("default~ssd")), (vec!["ssd".to_owned()], shadow));
    map.remove_rule("r").unwrap();
    assert!(classes(&map).is_empty() && map.class_buckets.is_empty());
    assert!(!map.names.keys().any(|id| map.is_shadow(*id)));
}

#[test]
fn all_holders_are_the_parents_of_each() {
    let mut map = two_hosts();
    map.link_bucket("h0", &place("root", "other")).unwrap();
    let holders = map.holders();
    for id in map.names.keys().filter(|id| !map.is_shadow(**id)) {
        let held = holders.get(id).copied();
        assert_eq!(held.map(|(bucket, _)| bucket), map.parent_of(*id), "{id}");
        let weight = held.map(|(bucket, at)| map.bucket(bucket).unwrap().item_weight(at));
        assert_eq!(weight, map.item_weight(*id), "{id}");
    }
}

#[test]
fn a_bucket_stays_that_a_rule_starts_from() {
    let mut map = two_hosts();
    for root in ["fast", "plain", "idle"] {
        map.add_bucket(root, "root").unwrap();
    }
    // Its shadow comes with the next change.
    map.reweight_all().unwrap();
    map.add_simple_rule("of_class", "fast", "host", Some("ssd"), RuleForm::REPLICATED).unwrap();
    map.add_simple_rule("of_all", "plain", "host", None, RuleForm::REPLICATED).unwrap();
    let is_taken = |map: &CrushMap, name: &str| map.is_taken(map.id_of(name).unwrap());
    assert!(is_taken(&map, "fast") && is_taken(&map, "plain") && !is_taken(&map, "idle"));
    for root in ["fast", "plain"] {
        assert_eq!(map.remove_item(root), Err(EditError::InUse(root.to_owned())));
    }
    map.remove_item("idle").unwrap();
    map.remove_rule("of_class").unwrap();
    map.remove_item("fast").unwrap();
    // Taken out of its places, a bucket is still there.
    map.move_item("plain", &place("root", "default")).unwrap();
    assert_eq!(map.unlink_item("plain", None), Ok(true));
    assert!(is_taken(&map, "plain"));
}

#[test]
fn only_buckets_get_another_name() {
    let mut map = two_hosts();
    let refused = map.rename_bucket("osd.0", "osd.7");
    assert_eq!(refused, Err(EditError::NotBucket("osd.0".to_owned())));
    assert_eq!((map.id_of("osd.0"), map.id_of("osd.7")), (Some(0), None));
    map.rename_bucket("h0", "h7").unwrap();
}

#[test]
fn swapped_buckets_stand_in_each_others_place() {
    let mut map = two_hosts();
    map.add_bucket("spare", "host").unwrap();
    let at = |map: &CrushMap, name: &str| map.location(map.id_of(name).unwrap());
    map.swap_buckets("spare", "h0").unwrap();
    assert_eq!((at(&map, "spare"), at(&map, "h0")), (place("root", "default"), Vec::new()));
    assert_eq!(
        [weight_of(&map, "spare"), weight_of(&map, "h0"), weight_of(&map, "default")],
        [0, WEIGHT_ONE, WEIGHT_ONE]
    );
    assert_eq!(map.location(0), place("host", "h0"));
    assert!(matches!(map.swap_buckets("default", "h1"), Err(EditError::Loop(_))));
}

#[test]
fn a_weight_set_has_its_own_sums() {
    let mut map = two_hosts();
    assert!(map.create_weight_set(COMPAT_SET, 1) && !map.create_weight_set(COMPAT_SET, 2));
    assert!(map.create_weight_set(7, 2));
    assert_eq!([COMPAT_SET, 7, 8].map(|set| map.weight_set_positions(set)), [Some(1), Some(2), None]);
    assert!(map.reweigh_in_set(7, 0, &[5 * WEIGHT_ONE, 6 * WEIGHT_ONE]));
    assert!(!map.reweigh_in_set(7, 9, &[0, 0]));
    let root = map.id_of("default").unwrap();
    let sums = |map: &CrushMap, id: i32| {
        let sets = &map.choose_args[&7][&((-1 - id) as u32)].weight_set;
        sets.iter().map(|weights| weights.iter().sum::<u32>() / WEIGHT_ONE).collect::<Vec<_>>()
    };
    assert_eq!(sums(&map, root), [6, 7]);
    let shadow = map.id_of("default~ssd").unwrap();
    assert_eq!(sums(&map, shadow), [6, 7], "shadows follow");
    assert_eq!(weight_of(&map, "default"), 2 * WEIGHT_ONE, "the map's own weights stay");
    let bytes = codec::Encode::to_bytes(&map, codec::Features::PACIFIC);
    assert_eq!(<CrushMap as codec::Decode>::from_prefix(bytes).unwrap(), map);
}

/// As an operator's map may have it.
#[test]
fn a_bucket_takes_over_no_weights_of_its_place() {
    let mut map = two_hosts();
    map.create_weight_set(COMPAT_SET, 1);
    let free = map.buckets.iter().position(Option::is_none).unwrap();
    let left = ChooseArg { weight_set: vec![vec![WEIGHT_ONE; 3]], ids: Vec::new() };
    map.choose_args.get_mut(&COMPAT_SET).unwrap().insert(free as u32, left);
    let bytes = codec::Encode::to_bytes(&map, codec::Features::PACIFIC);
    let mut map = <CrushMap as codec::Decode>::from_prefix(bytes).unwrap();
    let location = [("host".to_owned(), "another".to_owned()), ("root".to_owned(), "default".to_owned())];
    map.place_device(9, "osd.9", WEIGHT_ONE, &location).unwrap();
    assert_eq!(map.id_of("another"), Some(-1 - free as i32));
    let bytes = codec::Encode::to_bytes(&map, codec::Features::PACIFIC);
    assert_eq!(<CrushMap as codec::Decode>::from_prefix(bytes).unwrap(), map);
}

/// Observed with 16.2.15.
#[test]
fn buckets_that_came_after_a_weight_set_join_it_with_the_next_change() {
    let mut map = two_hosts();
    map.create_weight_set(COMPAT_SET, 1);
    let root = map.id_of("default").unwrap();
    assert!(!map.reweigh_in_set(COMPAT_SET, root, &[WEIGHT_ONE]), "nobody holds a root");
    let rack = map.add_bucket("rack1", "rack").unwrap();
    assert!(map.reweigh_in_set(COMPAT_SET, root, &[WEIGHT_ONE]));
    assert!(!map.reweigh_in_set(COMPAT_SET, root, &[WEIGHT_ONE]));
    let of = |map: &CrushMap, id: i32| map.choose_args[&COMPAT_SET][&((-1 - id) as u32)].weight_set.clone();
    assert_eq!(of(&map, rack), [Vec::<u32>::new()]);
    map.move_item("rack1", &place("root", "default")).unwrap();
    assert!(map.reweigh_in_set(COMPAT_SET, rack, &[3 * WEIGHT_ONE]));
    assert_eq!(of(&map, root), [[WEIGHT_ONE, WEIGHT_ONE, 3 * WEIGHT_ONE]]);
}

#[test]
fn profiles_of_tunables_are_known_again() {
    for name in ["argonaut", "bobtail", "firefly", "hammer", "jewel"] {
        let tunables = Tunables::default().of_profile(name).unwrap();
        assert_eq!(tunables.profile(), name);
    }
    assert_eq!(Tunables::default().of_profile("legacy").unwrap().profile(), "argonaut");
    assert_eq!(Tunables::default().of_profile("optimal"), Some(Tunables::default()));
    assert_eq!(Tunables { choose_total_tries: 7, ..Tunables::default() }.profile(), "unknown");
}
