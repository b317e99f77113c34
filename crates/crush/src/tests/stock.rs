//! Maps that the stock `crushtool` built, compared with its own mappings.

use std::{io::Write, path::Path, process::Command};

use bytes::Bytes;
use codec::{Decode, Encode, Features};

use super::{Random, check_mappings, generated};
use crate::*;

/// Whether there is a tool to compare with. Says so past the harness, which keeps to itself what a test prints that
/// passes.
pub(super) fn is_tool_here() -> bool {
    let found = Command::new("crushtool").arg("--version").output().is_ok();
    if !found {
        std::io::stderr()
            .write_all(b"SKIPPED: crushtool is not installed (Debian package ceph-base)\n")
            .unwrap();
    }
    found
}

struct Dir(std::path::PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("loligo-crush-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn mappings(file: &Path, rule: usize, count: usize, last: u32, reweights: &[(usize, f64)]) -> String {
    let mut tool = Command::new("crushtool");
    tool.arg("-i").arg(file).args(["--test", "--show-mappings", "--min-x", "0"]);
    tool.args(["--max-x", &last.to_string(), "--rule", &rule.to_string(), "--num-rep", &count.to_string()]);
    for (osd, weight) in reweights {
        tool.args(["--weight", &osd.to_string(), &weight.to_string()]);
    }
    String::from_utf8(tool.output().unwrap().stdout).unwrap()
}

/// Every algorithm at every level, rules of both kinds, stock bytes kept.
#[test]
fn maps_built_by_crushtool_map_alike() {
    if !is_tool_here() {
        return;
    }
    let dir = Dir::new("built");
    let file = dir.0.join("map");
    let mut total = 0;
    for alg in ["uniform", "list", "tree", "straw", "straw2"] {
        for osds in [5, 24, 60] {
            let build = [
                "--build",
                "--num_osds",
                &osds.to_string(),
                "host",
                alg,
                "4",
                "rack",
                alg,
                "3",
                "root",
                alg,
                "0",
            ]
            .map(str::to_owned);
            let done = Command::new("crushtool").arg("--outfn").arg(&file).args(build).output().unwrap();
            assert!(done.status.success(), "{alg}");
            let bytes = Bytes::from(std::fs::read(&file).unwrap());
            let mut map = CrushMap::from_bytes(bytes.clone()).unwrap();
            assert_eq!(map.to_bytes(Features::PACIFIC), bytes, "{alg} {osds}");
            let take = map.roots()[0];
            let rack = map.type_of("rack").unwrap();
            let of = |op, arg1, arg2| Step { op, arg1, arg2 };
            for steps in [
                vec![of(step::CHOOSE_FIRSTN, 2, rack), of(step::CHOOSELEAF_FIRSTN, 2, 1)],
                vec![of(step::CHOOSE_INDEP, 2, rack), of(step::CHOOSELEAF_INDEP, 3, 1)],
                vec![of(step::CHOOSE_INDEP, 0, 0)],
            ] {
                let mut all = vec![of(step::TAKE, take, 0)];
                all.extend(steps);
                all.push(of(step::EMIT, 0, 0));
                let ruleset = map.rules.len() as u8;
                map.rules.push(Some(Rule { ruleset, kind: 1, min_size: 1, max_size: 10, steps: all }));
            }
            std::fs::write(&file, map.to_bytes(Features::PACIFIC)).unwrap();
            for rule in 0..map.rules.len() {
                for count in [1, 3, 6] {
                    let text = mappings(&file, rule, count, 999, &[]);
                    total += check_mappings(&map, &text, &vec![WEIGHT_ONE; osds as usize], count, false);
                }
            }
        }
    }
    assert_eq!(total, 5 * 3 * 4 * 3 * 1_000);
}

/// Weight sets of one and of several positions, with and without ids, by both kinds of rules.
#[test]
fn weight_sets_map_alike() {
    if !is_tool_here() {
        return;
    }
    let dir = Dir::new("sets");
    let file = dir.0.join("map");
    let mut random = Random(11);
    let mut total = 0;
    for (osds, positions) in [(12, 1), (40, 3), (200, 5)] {
        let mut map = generated(osds, 4, &mut random);
        let mut set = std::collections::BTreeMap::new();
        for bucket in map.all_buckets() {
            let size = bucket.items.len();
            let one = |random: &mut Random| (0..size).map(|_| random.below(200_000) as u32).collect();
            let weight_set = (0..positions).map(|_| one(&mut random)).collect();
            let is_odd = bucket.id % 2 != 0;
            let ids = if is_odd { bucket.items.iter().map(|id| id * 7 + 1).collect() } else { Vec::new() };
            set.insert((-1 - bucket.id) as u32, ChooseArg { weight_set, ids });
        }
        map.choose_args.insert(-1, set);
        std::fs::write(&file, map.to_bytes(Features::PACIFIC)).unwrap();
        for rule in 0..4 {
            for count in [2, 5] {
                let text = mappings(&file, rule, count, 9_999, &[]);
                total += check_mappings(&map, &text, &vec![WEIGHT_ONE; osds as usize], count, true);
            }
        }
    }
    assert_eq!(total, 3 * 4 * 2 * 10_000);
}

/// A map of one root with that many devices, and rules that choose them by leaf.
fn flat(osds: i32) -> CrushMap {
    let mut map = CrushMap::initial();
    for osd in 0..osds {
        let location = [("root".to_owned(), "default".to_owned())];
        map.place_device(osd, &format!("osd.{osd}"), WEIGHT_ONE, &location).unwrap();
    }
    let take = map.id_of("default").unwrap();
    let of = |op, arg1| Step { op, arg1, arg2: 0 };
    for choose in [step::CHOOSELEAF_FIRSTN, step::CHOOSELEAF_INDEP] {
        let steps = vec![of(step::TAKE, take), of(choose, 0), of(step::EMIT, 0)];
        let ruleset = map.rules.len() as u8;
        map.rules.push(Some(Rule { ruleset, kind: 1, min_size: 1, max_size: 10, steps }));
    }
    map
}

/// Reweights of any size, zero included, in maps with hardly enough devices.
#[test]
fn leaves_that_are_out_map_alike() {
    if !is_tool_here() {
        return;
    }
    let dir = Dir::new("leaves");
    let file = dir.0.join("map");
    let mut random = Random(5);
    let mut total = 0;
    let legacy = Tunables::default().of_profile("legacy").unwrap();
    for (osds, tunables) in [(3, Tunables::default()), (4, legacy), (6, Tunables::default()), (9, legacy)] {
        let map = CrushMap { tunables, ..flat(osds) };
        std::fs::write(&file, map.to_bytes(Features::PACIFIC)).unwrap();
        for _ in 0..4 {
            let fraction = |random: &mut Random| [0.0, 0.0, 0.25, 0.5, 1.0][random.below(5) as usize];
            // The tool shows nothing where all are out.
            let mut reweights = vec![(0, 1.0)];
            reweights.extend((1..osds as usize).map(|osd| (osd, fraction(&mut random))));
            let weights: Vec<u32> =
                reweights.iter().map(|(_, weight)| (weight * f64::from(WEIGHT_ONE)) as u32).collect();
            for rule in 0..2 {
                for count in [3, 5] {
                    let text = mappings(&file, rule, count, 999, &reweights);
                    total += check_mappings(&map, &text, &weights, count, false);
                }
            }
        }
    }
    assert_eq!(total, 4 * 4 * 2 * 2 * 1_000);
}

/// Stock takes weights for signed numbers, also those that no command sets.
#[test]
fn weights_beyond_the_largest_signed_number_map_alike() {
    if !is_tool_here() {
        return;
    }
    let dir = Dir::new("weights");
    let file = dir.0.join("map");
    let mut map = flat(6);
    let root = map.roots()[0];
    let item_weights = vec![WEIGHT_ONE, 0x7fff_ffff, 0x8000_0000, 0x9000_0000, 0xffff_ffff, 0];
    map.buckets[(-1 - root) as usize].as_mut().unwrap().alg = BucketAlg::Straw2 { item_weights };
    std::fs::write(&file, map.to_bytes(Features::PACIFIC)).unwrap();
    let text = mappings(&file, 0, 4, 999, &[]);
    assert_eq!(check_mappings(&map, &text, &[WEIGHT_ONE; 6], 4, false), 1_000);
}
