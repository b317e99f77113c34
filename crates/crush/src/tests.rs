use bytes::Bytes;
use codec::{Decode, Encode, Features};

use crate::*;

mod damage;
mod links;
mod places;
mod stock;

const CAPTURED: &[u8] = include_bytes!("../testdata/crush.bin");

fn captured() -> CrushMap {
    CrushMap::from_bytes(Bytes::from_static(CAPTURED)).unwrap()
}

#[test]
fn a_captured_map_round_trips() {
    assert_eq!(captured().to_bytes(Features::PACIFIC), CAPTURED);
    for end in 0..CAPTURED.len() {
        assert!(CrushMap::from_bytes(Bytes::from_static(&CAPTURED[..end])).is_err(), "{end}");
    }
}

/// Lines of `crushtool --test --show-mappings`: `CRUSH rule 0 x 5 [1,0,2]`.
fn check_mappings(map: &CrushMap, text: &str, weights: &[u32], count: usize, args: bool) -> usize {
    let mut lines = 0;
    for line in text.lines().filter(|l| l.starts_with("CRUSH rule")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (rule, x) = (words[2].parse().unwrap(), words[4].parse().unwrap());
        let list = words[5].trim_matches(['[', ']']);
        let expected: Vec<i32> =
            list.split(',').filter(|s| !s.is_empty()).map(|s| s.parse().unwrap()).collect();
        let chosen = map.do_rule(rule, x, count, weights, args.then(|| map.choose_args_of(-1)).flatten());
        assert_eq!(chosen, expected, "{line}");
        lines += 1;
    }
    lines
}

#[test]
fn recorded_mappings_of_the_captured_map() {
    let map = captured();
    for text in [
        include_str!("../testdata/crush_rule0_rep3_x0-1023.txt"),
        include_str!("../testdata/crush_rule1_rep3_x0-255.txt"),
    ] {
        assert!(check_mappings(&map, text, &[WEIGHT_ONE; 3], 3, true) > 200);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn generated(osds: i32, per_host: i32, random: &mut Random) -> CrushMap {
    let mut map = CrushMap::initial();
    for osd in 0..osds {
        let host = osd / per_host;
        let location = [
            ("host".to_owned(), format!("h{host}")),
            ("rack".to_owned(), format!("r{}", host / 5)),
            ("root".to_owned(), "default".to_owned()),
        ];
        let weight = WEIGHT_ONE / 2 + random.below(4 * u64::from(WEIGHT_ONE)) as u32;
        map.place_device(osd, &format!("osd.{osd}"), weight, &location).unwrap();
        map.set_device_classes(&[osd], Some(if osd % 3 == 0 { "ssd" } else { "hdd" })).unwrap();
    }
    map.add_simple_rule("by_osd", "default", "osd", None, RuleForm::REPLICATED).unwrap();
    map.add_simple_rule("by_host", "default", "host", None, RuleForm::REPLICATED).unwrap();
    map.add_simple_rule("hdd", "default", "osd", Some("hdd"), RuleForm::REPLICATED).unwrap();
    let take = map.id_of("default").unwrap();
    let steps = vec![
        Step { op: step::SET_CHOOSELEAF_TRIES, arg1: 5, arg2: 0 },
        Step { op: step::SET_CHOOSE_TRIES, arg1: 100, arg2: 0 },
        Step { op: step::TAKE, arg1: take, arg2: 0 },
        Step { op: step::CHOOSELEAF_INDEP, arg1: 0, arg2: 1 },
        Step { op: step::EMIT, arg1: 0, arg2: 0 },
    ];
    map.rules.push(Some(Rule { ruleset: 3, kind: 3, min_size: 3, max_size: 20, steps }));
    map.rule_names.insert(3, "ec".to_owned());
    map
}

/// Other algorithms for the hosts' buckets.
fn vary_algorithms(map: &mut CrushMap) {
    for slot in 0..map.buckets.len() {
        let Some(bucket) = &mut map.buckets[slot] else { continue };
        if bucket.kind != 1 {
            continue;
        }
        let weights: Vec<u32> = (0..bucket.items.len()).map(|at| bucket.item_weight(at)).collect();
        let sums = weights
            .iter()
            .scan(0, |sum, w| {
                Some({
                    *sum += w;
                    *sum
                })
            })
            .collect();
        bucket.alg = match slot % 4 {
            0 => BucketAlg::Uniform { item_weight: WEIGHT_ONE },
            1 => BucketAlg::List { item_weights: weights, sum_weights: sums },
            2 => BucketAlg::Straw {
                straws: weights.iter().map(|w| w / 2 + 0x4000).collect(),
                item_weights: weights,
            },
            _ => BucketAlg::Straw2 { item_weights: weights },
        };
    }
}

/// Compares with the stock tool, if it is installed: the number of mappings is by environment.
#[test]
fn generated_maps_map_as_crushtool_maps() {
    if !stock::is_tool_here() {
        return;
    }
    let mut random = Random(7);
    let mut total = 0;
    let dir = std::env::temp_dir().join(format!("loligo-crush-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for (round, osds) in [3, 4, 10, 33, 100, 300, 1_000].into_iter().enumerate() {
        let mut map = generated(osds, [1, 2, 3, 7, 4, 6, 10][round], &mut random);
        if round % 2 == 1 {
            vary_algorithms(&mut map);
        }
        if round == 3 {
            map.tunables = Tunables {
                choose_local_tries: 2,
                choose_local_fallback_tries: 5,
                choose_total_tries: 19,
                chooseleaf_descend_once: 0,
                chooseleaf_vary_r: 0,
                chooseleaf_stable: 0,
                ..map.tunables
            };
        }
        let file = dir.join("map");
        std::fs::write(&file, map.to_bytes(Features::PACIFIC)).unwrap();
        let mut weights = vec![WEIGHT_ONE; osds as usize];
        let mut tool = std::process::Command::new("crushtool");
        tool.arg("-i").arg(&file).args(["--test", "--show-mappings", "--min-x", "0", "--max-x", "35999"]);
        for _ in 0..osds / 4 {
            let osd = random.below(osds as u64) as usize;
            let fraction = [0.0, 0.25, 0.5, 0.75][random.below(4) as usize];
            weights[osd] = (fraction * f64::from(WEIGHT_ONE)) as u32;
            tool.args(["--weight", &osd.to_string(), &fraction.to_string()]);
        }
        for rule in 0..4 {
            let output = std::process::Command::new(tool.get_program())
                .args(tool.get_args())
                .args(["--rule", &rule.to_string(), "--num-rep", "3"])
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            total += check_mappings(&map, &text, &weights, 3, false);
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(total >= 1_000_000, "{total}");
}

#[test]
fn weights_and_shadows_follow_changes() {
    let mut map = generated(6, 2, &mut Random(1));
    let root = map.id_of("default").unwrap();
    map.reweight("h0", WEIGHT_ONE).unwrap();
    assert_eq!(map.bucket(map.id_of("h0").unwrap()).unwrap().weight, 2 * WEIGHT_ONE);
    let sum: u32 = (0..6).map(|osd| map.item_weight(osd).unwrap()).sum();
    assert_eq!(map.bucket(root).unwrap().weight, sum);
    assert_eq!(
        map.bucket(map.id_of("default~ssd").unwrap()).unwrap().weight,
        map.item_weight(0).unwrap() + map.item_weight(3).unwrap()
    );
    let below = [("rack".to_owned(), "r9".to_owned()), ("root".to_owned(), "default".to_owned())];
    map.move_item("h1", &below).unwrap();
    assert_eq!(map.location(2)[1], ("rack".to_owned(), "r9".to_owned()));
    assert_eq!(map.bucket(root).unwrap().weight, sum);
    assert!(matches!(map.remove_item("h1"), Err(EditError::NotEmpty(_))));
    assert!(matches!(map.move_item("default", &[("host".into(), "h0".into())]), Err(EditError::Loop(_))));
    map.remove_item("osd.5").unwrap();
    assert_eq!(map.id_of("osd.5"), None);
    let back = CrushMap::from_bytes(map.to_bytes(Features::PACIFIC)).unwrap();
    assert_eq!(back, map);
}

/// Root `default` with three devices, and a rule that chooses them by leaf.
fn three_leaves() -> CrushMap {
    let mut map = CrushMap::initial();
    for osd in 0..3 {
        let location = [("root".to_owned(), "default".to_owned())];
        map.place_device(osd, &format!("osd.{osd}"), WEIGHT_ONE, &location).unwrap();
    }
    map.add_simple_rule("r", "default", "osd", None, RuleForm::REPLICATED).unwrap();
    map.rules[0].as_mut().unwrap().steps[1].op = step::CHOOSELEAF_FIRSTN;
    map
}

#[test]
fn a_device_that_is_out_is_no_leaf() {
    let map = three_leaves();
    for x in 0..1_000 {
        let chosen = map.do_rule(0, x, 3, &[WEIGHT_ONE, WEIGHT_ONE, 0], None);
        assert!(chosen.len() == 2 && !chosen.contains(&2), "{x}: {chosen:?}");
    }
}

/// Changes to a map of three devices after which a rule would try for longer than anybody waits.
type Endless = (&'static str, fn(&mut CrushMap));

const ENDLESS: [Endless; 5] = [
    ("tries", |map| map.tunables.choose_total_tries = u32::MAX),
    ("local tries", |map| map.tunables.choose_local_tries = u32::MAX),
    ("fallback tries", |map| map.tunables.choose_local_fallback_tries = u32::MAX),
    ("replicas", |map| map.rules[0].as_mut().unwrap().steps[1].arg1 = i32::MAX),
    ("an empty root", |map| {
        (0..3).for_each(|osd| map.remove_item(&format!("osd.{osd}")).unwrap());
        map.tunables.choose_total_tries = u32::MAX;
    }),
];

#[test]
fn a_rule_that_asks_for_any_number_of_attempts_ends() {
    for (what, change) in ENDLESS {
        for op in [step::CHOOSE_FIRSTN, step::CHOOSELEAF_FIRSTN, step::CHOOSE_INDEP, step::CHOOSELEAF_INDEP] {
            let mut map = three_leaves();
            map.rules[0].as_mut().unwrap().steps[1].op = op;
            change(&mut map);
            let found = |chosen: Vec<i32>| chosen.into_iter().filter(|osd| *osd != ITEM_NONE).count();
            let count = found(map.do_rule(0, 1, 5, &[WEIGHT_ONE; 3], None));
            assert_eq!(count, if what == "an empty root" { 0 } else { 3 }, "{what} {op}");
        }
    }
}

#[test]
fn the_work_of_a_rule_is_what_it_weighs_and_tries() {
    let map = three_leaves();
    let work = |count, limit| map.rule_work(0, 1, count, &[WEIGHT_ONE; 3], None, limit);
    // A choice among three items, as one attempt.
    assert_eq!((work(1, 100), work(1, 5), work(1, 4)), (Some(4), Some(4), None));
    // The fourth replica uses up the tries.
    assert!(work(4, 10_000).unwrap() >= 4 * (3 + 51));
    assert_eq!(map.rule_work(9, 1, 1, &[], None, 5), Some(0), "there is no such rule");
}

#[test]
fn a_bucket_that_exists_stays_where_it_is() {
    let mut map = generated(3, 1, &mut Random(1));
    let at = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
    map.add_bucket("spare", "host").unwrap();
    map.add_bucket("apart", "rack").unwrap();
    let below = |map: &CrushMap, name: &str| map.location(map.id_of(name).unwrap());
    map.place_device(3, "osd.3", WEIGHT_ONE, &[at("host", "spare"), at("root", "default")]).unwrap();
    assert_eq!((below(&map, "osd.3"), below(&map, "spare")), (vec![at("host", "spare")], Vec::new()));
    map.move_item("h0", &[at("rack", "apart"), at("root", "default")]).unwrap();
    assert_eq!((below(&map, "h0"), below(&map, "apart")), (vec![at("rack", "apart")], Vec::new()));
    // One that is made comes below the next.
    map.move_item("h0", &[at("rack", "fresh"), at("root", "default")]).unwrap();
    assert_eq!(below(&map, "h0"), [at("rack", "fresh"), at("root", "default")]);
}

#[test]
fn a_cycle_is_refused() {
    let mut map = generated(3, 1, &mut Random(1));
    let (root, host) = (map.id_of("default").unwrap(), map.id_of("h0").unwrap());
    let bucket = map.buckets[(-1 - host) as usize].as_mut().unwrap();
    bucket.items = vec![root];
    assert!(CrushMap::from_bytes(map.to_bytes(Features::PACIFIC)).is_err());
}

#[test]
fn strings_hash_as_in_ceph() {
    assert_eq!(ceph_str_hash_rjenkins(b""), 0xbd49_d10d);
    assert_eq!(ceph_stable_mod(13, 12, 15), 5);
}
