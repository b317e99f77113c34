use std::collections::BTreeSet;

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

/// The longest runs of a set of blocks.
fn runs(model: &BTreeSet<u64>) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for &block in model {
        match out.last_mut() {
            Some(last) if last.end() == block => last.count += 1,
            Some(_) | None => out.push(Run { start: block, count: 1 }),
        }
    }
    out
}

/// Of the runs from a block on, what [`Group::next`] says.
fn next(runs: &[Run], from: u64) -> Option<Run> {
    let run = runs.iter().find(|run| run.end() > from)?;
    let start = run.start.max(from);
    Some(Run { start, count: run.end() - start })
}

fn check(group: &Group, model: &BTreeSet<u64>, rng: &mut StdRng, seed: u64) {
    let runs = runs(model);
    let (count, is_mapped) = match group {
        Group::Listed(pieces) => (pieces.len(), false),
        Group::Mapped(map) => (map.run_count, true),
    };
    assert_eq!(count, runs.len(), "seed {seed}");
    assert_eq!(group.is_empty(), runs.is_empty(), "seed {seed}");
    assert!(if is_mapped { count >= MAPPED_MIN } else { count <= LISTED_MAX }, "seed {seed}");
    for _ in 0..8 {
        let block = rng.random_range(0..GROUP_BLOCKS);
        let holding = runs.iter().find(|run| (run.start..run.end()).contains(&block)).copied();
        assert_eq!(group.holding(block), holding, "seed {seed}: block {block}");
        assert_eq!(group.next(block), next(&runs, block), "seed {seed}: block {block}");
        let low = 1 << rng.random_range(0..9);
        let high = low + rng.random_range(0..=low);
        let from = rng.random_range(0..GROUP_BLOCKS);
        let fit = group.fit(low, high, from).map(|run| (run.count, runs.contains(&run)));
        let smallest = runs.iter().map(|run| run.count).filter(|count| (low..=high).contains(count)).min();
        assert_eq!(fit, smallest.map(|count| (count, true)), "seed {seed}: {low} to {high}");
    }
}

#[test]
fn it_has_the_blocks_that_a_set_has() {
    for seed in 0..30 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut group, mut model) = (Group::default(), BTreeSet::new());
        let longest = 1 << rng.random_range(0..10);
        for step in 0..4_000 {
            let count = rng.random_range(1..=longest);
            let run = Run { start: rng.random_range(0..=GROUP_BLOCKS - count), count };
            // It fills up, and becomes empty again.
            if rng.random_range(0..4) < if step < 2_000 { 3 } else { 1 } {
                group.insert(run);
                model.extend(run.start..run.end());
            } else {
                group.remove(run);
                for block in run.start..run.end() {
                    model.remove(&block);
                }
            }
            if step % 20 == 0 {
                check(&group, &model, &mut rng, seed);
            }
        }
        group.remove(Run { start: 0, count: GROUP_BLOCKS });
        assert!(group.is_empty(), "seed {seed}");
    }
}

#[test]
fn the_borders_of_words_and_of_the_group_are_blocks_like_others() {
    for is_mapped in [false, true] {
        let (mut group, mut model) = (Group::default(), BTreeSet::new());
        let mut rng = StdRng::seed_from_u64(1);
        let mut insert = |run: Run| {
            model.extend(run.start..run.end());
            group.insert(run);
        };
        [(0, 1), (63, 2), (127, 130), (GROUP_BLOCKS - 65, 65)]
            .into_iter()
            .for_each(|(start, count)| insert(Run { start, count }));
        if is_mapped {
            (1_000..2_000).step_by(2).for_each(|start| insert(Run { start, count: 1 }));
        }
        assert_eq!(matches!(group, Group::Mapped(_)), is_mapped);
        for block in
            [0, 63, 64, 127, 128, 191, 192, 256, GROUP_BLOCKS - 65, GROUP_BLOCKS - 64, GROUP_BLOCKS - 1]
        {
            let holding = runs(&model).into_iter().find(|run| (run.start..run.end()).contains(&block));
            assert_eq!(group.holding(block), holding);
        }
        check(&group, &model, &mut rng, 1);
        group.insert(Run { start: 0, count: GROUP_BLOCKS });
        assert_eq!(group.holding(5), Some(Run { start: 0, count: GROUP_BLOCKS }));
    }
}
