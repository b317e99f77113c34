use std::collections::BTreeSet;

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

/// Free blocks one by one.
struct Model {
    area: Run,
    free: BTreeSet<u64>,
}

impl Model {
    fn runs(&self) -> Vec<Run> {
        let mut out: Vec<Run> = Vec::new();
        for &block in &self.free {
            match out.last_mut() {
                Some(last) if last.end() == block => last.count += 1,
                Some(_) | None => out.push(Run { start: block, count: 1 }),
            }
        }
        out
    }

    fn take(&mut self, run: Run) {
        assert!((run.start..run.end()).all(|block| self.free.remove(&block)), "{run:?} was not free");
    }

    /// A random run of the area.
    fn random(&self, rng: &mut StdRng, longest: u64) -> Run {
        let count = rng.random_range(1..=longest);
        Run { start: rng.random_range(self.area.start..=self.area.end() - count), count }
    }
}

fn check(map: &FreeMap, model: &Model, seed: u64) {
    let runs = model.runs();
    assert!(map.runs().eq(runs.iter().copied()), "seed {seed}");
    assert_eq!(map.count(), model.free.len() as u64, "seed {seed}");
    let wide: Vec<Run> = runs.iter().copied().filter(|run| !is_narrow(*run)).collect();
    assert!(
        map.wide.iter().map(|(&start, &count)| Run { start, count }).eq(wide.iter().copied()),
        "seed {seed}"
    );
    let mut by_size: Vec<(u64, u64)> = wide.iter().map(|run| (run.count, run.start)).collect();
    by_size.sort_unstable();
    assert!(map.wide_by_size.iter().copied().eq(by_size), "seed {seed}");
    let mut counts = vec![[0; CLASSES]; map.groups.len()];
    for run in runs.iter().filter(|run| is_narrow(**run)) {
        counts[map.place(*run).0][class_of(run.count)] += 1;
    }
    for (at, (group, counts)) in map.groups.iter().zip(&counts).enumerate() {
        assert_eq!(group.runs, *counts, "seed {seed}: group {at}");
    }
    for class in 0..CLASSES {
        let expected = (0..counts.len()).filter(|at| counts[*at][class] > 0);
        assert!(map.index.groups_of(class).eq(expected), "seed {seed}: class {class}");
    }
}

#[test]
fn it_has_what_a_set_of_blocks_has() {
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let area = Run { start: rng.random_range(0..20_000), count: rng.random_range(1_000..40_000) };
        let mut model = Model { area, free: (area.start..area.end()).collect() };
        let mut map = FreeMap::new(area);
        map.free(area).unwrap();
        let longest = [1, 3, 20, 900][seed as usize % 4];
        for step in 0..3_000 {
            let run = model.random(&mut rng, longest);
            match rng.random_range(0..4) {
                0 => {
                    let is_free = (run.start..run.end()).all(|block| model.free.contains(&block));
                    assert_eq!(map.reserve(run), is_free, "seed {seed}: {run:?}");
                    if is_free {
                        model.take(run);
                    }
                }
                1 => {
                    let taken = map.take(run.count);
                    assert_eq!(taken.is_some(), model.free.len() as u64 >= run.count, "seed {seed}");
                    let taken = taken.unwrap_or_default();
                    let sum: u64 = taken.iter().map(|run| run.count).sum();
                    assert!(taken.is_empty() || sum == run.count, "seed {seed}: {taken:?} for {run:?}");
                    taken.into_iter().for_each(|run| model.take(run));
                }
                _ => {
                    for block in (run.start..run.end()).filter(|block| !model.free.contains(block)) {
                        map.free(Run { start: block, count: 1 }).unwrap();
                    }
                    model.free.extend(run.start..run.end());
                }
            }
            let asked = model.random(&mut rng, 500);
            let within = map.within(asked).flat_map(|run| run.start..run.end());
            assert!(within.eq(model.free.range(asked.start..asked.end()).copied()), "seed {seed}: {asked:?}");
            if step % 100 == 0 {
                check(&map, &model, seed);
            }
        }
        check(&map, &model, seed);
        model.runs().into_iter().for_each(|run| assert!(map.reserve(run), "seed {seed}"));
        assert_eq!((map.count(), map.runs().next()), (0, None), "seed {seed}");
    }
}

/// Of an area of several groups, these runs are free.
fn with(runs: &[(u64, u64)]) -> FreeMap {
    let mut map = FreeMap::new(Run { start: 100, count: 10 * GROUP_BLOCKS });
    runs.iter().for_each(|&(start, count)| map.free(Run { start, count }).unwrap());
    map
}

#[test]
fn the_smallest_run_that_is_large_enough_is_taken() {
    let all = [(200, 40), (9_000, 10), (9_100, 12), (20_000, 11), (30_000, 1_000), (40_000, 20_000)];
    for (count, start) in [(1, 9_000), (10, 9_000), (11, 20_000), (12, 9_100), (13, 200), (41, 30_000)] {
        assert_eq!(with(&all).take(count), Some(vec![Run { start, count }]));
    }
    // A run may be in as many groups as it likes.
    assert_eq!(with(&all).take(19_000), Some(vec![Run { start: 40_000, count: 19_000 }]));
}

#[test]
fn a_group_whose_runs_of_the_class_are_too_small_is_passed() {
    let mut map = with(&[(200, 900), (9_000, 901), (20_000, 1_000)]);
    assert_eq!(map.take(950), Some(vec![Run { start: 20_000, count: 950 }]));
}

#[test]
fn what_no_run_holds_is_cut_at_the_largest_ones() {
    let mut map = with(&[(200, 10), (9_000, 100), (20_000, 300)]);
    let run = |start, count| Run { start, count };
    assert_eq!(map.take(405), Some(vec![run(20_000, 300), run(9_000, 100), run(200, 5)]));
    assert_eq!(map.take(6), None);
    assert_eq!(map.count(), 5);
}

#[test]
fn a_block_that_is_free_already_or_elsewhere_is_told() {
    let mut map = with(&[(9_001, 2)]);
    assert_eq!(map.free(Run { start: 9_000, count: 2 }), Err(9_001));
    assert_eq!(map.free(Run { start: 99, count: 2 }), Err(99));
    assert_eq!(map.free(Run { start: u64::MAX, count: 2 }), Err(u64::MAX));
    assert_eq!(map.runs().collect::<Vec<Run>>(), [Run { start: 9_001, count: 2 }]);
}

#[test]
fn a_device_in_pieces_of_a_block_takes_a_bit_for_each() {
    let area = Run { start: 0, count: 64 * GROUP_BLOCKS };
    let mut map = FreeMap::new(area);
    (0..area.count).step_by(2).for_each(|start| map.free(Run { start, count: 1 }).unwrap());
    assert!(map.groups.iter().all(|group| matches!(group.blocks, Group::Mapped(_))));
    assert!(map.wide.is_empty());
    let bits = size_of::<Counted>() + size_of::<super::super::group::Bitmap>();
    assert!(bits as u64 * 8 < GROUP_BLOCKS * 5 / 4, "{bits} bytes for each group");
}
