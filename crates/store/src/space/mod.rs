//! Which blocks are free or shared: the allocator, its map on the device, and the sets of blocks and counts by block
//! that both are made of, in memory that the device bounds, whatever pieces its blocks are in.
//! Sets take blocks in groups. What a group holds is a sorted list of runs while these are few, and an array over all
//! of the group's blocks when they are many. Sets and counts know nothing of what the blocks are for.

mod allocator;
mod block_set;
mod counts;
mod free;
mod group;
mod map;
mod references;
mod size_index;

pub(crate) use allocator::{Run, Space};
pub(crate) use block_set::BlockSet;
pub(crate) use free::FreeMap;
pub(crate) use references::References;

use std::ops::RangeInclusive;

/// Blocks of a group: 32 MiB. A larger one would take longer to look through, a smaller one has more that is there for
/// each group.
const GROUP_BLOCKS: u64 = 8192;

/// The first block of a group.
fn base(group: u64) -> u64 {
    group * GROUP_BLOCKS
}

/// The groups that a run has blocks of.
fn groups_of(run: Run) -> Option<RangeInclusive<u64>> {
    let last = run.end().checked_sub(1)?;
    (run.count > 0).then_some(run.start / GROUP_BLOCKS..=last / GROUP_BLOCKS)
}

/// What is in a group of a run that has blocks of it, counted from the group's first block.
fn part_in(group: u64, run: Run) -> Run {
    let start = run.start.saturating_sub(base(group));
    Run { start, count: (run.end() - base(group)).min(GROUP_BLOCKS) - start }
}

/// The parts of a run that are in one group each: which, and the part.
fn split(run: Run) -> impl Iterator<Item = (u64, Run)> {
    groups_of(run).into_iter().flatten().map(move |group| (group, part_in(group, run)))
}

/// Puts runs of blocks that follow each other, and are alike, together again.
fn joined<V: Copy + Eq>(runs: impl Iterator<Item = (Run, V)>) -> impl Iterator<Item = (Run, V)> {
    let mut runs = runs.peekable();
    std::iter::from_fn(move || {
        let (mut run, value) = runs.next()?;
        while let Some((next, _)) = runs.next_if(|(next, other)| next.start == run.end() && *other == value) {
            run.count += next.count;
        }
        Some((run, value))
    })
}
