use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

const BLOCKS: u64 = 3 * GROUP_BLOCKS;

/// Runs of equal counts that are not 0, of those in a range.
fn runs(model: &[u32], within: std::ops::Range<u64>) -> Vec<(Run, u32)> {
    let mut out: Vec<(Run, u32)> = Vec::new();
    for block in within {
        let count = model[block as usize];
        match out.last_mut() {
            Some((last, known)) if last.end() == block && *known == count => last.count += 1,
            Some(_) | None if count > 0 => out.push((Run { start: block, count: 1 }, count)),
            Some(_) | None => {}
        }
    }
    out
}

#[test]
fn they_are_what_a_count_for_each_block_is() {
    for seed in 0..24 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut references, mut model) = (References::default(), vec![0; BLOCKS as usize]);
        let longest = [1, 4, 60, 2_000][seed as usize % 4];
        // Some need cells of each width.
        let most = [2, 300, 70_000][seed as usize % 3];
        for step in 0..6_000 {
            let blocks = rng.random_range(0..=longest);
            let run = Run { start: rng.random_range(0..=BLOCKS - blocks), count: blocks };
            let count = if step < 4_000 { rng.random_range(0..=most) } else { 0 };
            references.set(run, count);
            model[run.start as usize..run.end() as usize].fill(count);
            let asked = rng.random_range(0..BLOCKS - 300);
            let asked = Run { start: asked, count: rng.random_range(0..300) };
            assert!(references.within(asked).eq(runs(&model, asked.start..asked.end())), "seed {seed}");
            let parts = references.parts(asked);
            let of_parts =
                parts.iter().flat_map(|&(part, count)| (part.start..part.end()).map(move |b| (b, count)));
            let of_model = (asked.start..asked.end()).map(|block| (block, model[block as usize]));
            assert!(of_parts.eq(of_model), "seed {seed}");
            assert!(parts.windows(2).all(|pair| pair[0].1 != pair[1].1), "seed {seed}: {parts:?}");
            assert_eq!(references.get(asked.start), model[asked.start as usize], "seed {seed}");
            if step % 200 == 0 {
                assert!(references.iter().eq(runs(&model, 0..BLOCKS)), "seed {seed}");
                let groups = (0..3).map(|group| runs(&model, base(group)..base(group + 1)).len());
                assert_eq!(references.run_count(), groups.sum::<usize>(), "seed {seed}");
            }
        }
        references.set(Run { start: 0, count: BLOCKS }, 0);
        assert!(references.groups.is_empty() && references.run_count() == 0, "seed {seed}");
    }
}

#[test]
fn many_runs_take_a_byte_for_each_block() {
    let mut references = References::default();
    (0..BLOCKS).step_by(2).for_each(|start| references.set(Run { start, count: 1 }, 255));
    let widths = |references: &References| {
        let of = |counts: &Counts| counts.bytes();
        references.groups.values().map(of).collect::<Vec<_>>()
    };
    let blocks = GROUP_BLOCKS as usize;
    assert_eq!(widths(&references), [blocks; 3]);
    references.set(Run { start: 0, count: 1 }, 256);
    references.set(Run { start: GROUP_BLOCKS, count: 1 }, 1 << 16);
    assert_eq!(widths(&references), [2 * blocks, 4 * blocks, blocks]);
    references.set(Run { start: 0, count: BLOCKS }, 3);
    assert!(widths(&references).iter().all(|bytes| *bytes < 1_000));
    assert_eq!(references.iter().collect::<Vec<_>>(), [(Run { start: 0, count: BLOCKS }, 3)]);
}
