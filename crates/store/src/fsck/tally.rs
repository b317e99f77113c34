//! What the entries of an index come to, in memory that does not grow with them: a bit for each block of the data area.

use std::collections::BTreeSet;

use types::{CollId, HObject, PoolId};

use super::{Owner, Problem, StoreCounts};
use crate::{
    DeviceRole,
    allocator::Run,
    device::BLOCK,
    index::{Entry, piece_bytes},
    onode::Onode,
    pool_usage::{PoolUsage, PoolUsages},
    run_map::RunMap,
};

/// Sums over entries, and which blocks their data is in.
#[derive(Debug)]
pub(crate) struct Tally {
    /// What was counted, as far as entries tell.
    pub(crate) counts: StoreCounts,
    /// Objects with pending bytes.
    pub(crate) pending_objects: u64,
    /// Bytes that tell whose pending pieces are.
    pub(crate) pending_names: u64,
    /// Of omap, keys and values.
    pub(crate) omap_bytes: u64,
    pools: PoolUsages,
    data: Blocks,
    /// Blocks that were named more than once, and how many times more.
    again: RunMap<u32>,
    /// Data where no data may be.
    outside: Vec<Run>,
}

impl Tally {
    /// Of nothing yet; data is in `area`.
    pub(crate) fn new(area: Run) -> Tally {
        Tally {
            counts: StoreCounts::default(),
            pending_objects: 0,
            pending_names: 0,
            omap_bytes: 0,
            pools: PoolUsages::default(),
            data: Blocks::new(area),
            again: RunMap::default(),
            outside: Vec::new(),
        }
    }

    /// Counts an entry.
    pub(crate) fn add(&mut self, coll: CollId, object: &HObject, entry: Entry<'_>) {
        match entry {
            Entry::Onode(onode) => self.add_onode(coll, object, onode),
            Entry::Omap(key, value) => {
                self.counts.omap_entries += 1;
                let bytes = (key.len() + value.len()) as u64;
                self.omap_bytes += bytes;
                self.pools.add_omap(coll, object, bytes);
            }
        }
    }

    fn add_onode(&mut self, coll: CollId, object: &HObject, onode: &Onode) {
        self.counts.objects += 1;
        self.counts.object_bytes += onode.size;
        self.counts.pending_bytes += onode.pending.bytes();
        self.counts.xattrs += onode.xattrs.len() as u64;
        self.pending_names += onode.pending.amount().pieces * piece_bytes(object);
        self.pending_objects += u64::from(!onode.pending.is_empty());
        for run in onode.extents.runs() {
            self.counts.extents += 1;
            self.counts.mapped_bytes += run.count * BLOCK;
            let again_count = self.add_data(run);
            self.pools.share(coll, again_count);
        }
        self.pools.add(coll, PoolUsage::of(onode));
    }

    /// How many of the blocks were named before.
    pub(super) fn add_data(&mut self, run: Run) -> u64 {
        if !self.data.area.holds(run) {
            self.outside.push(run);
            return 0;
        }
        let (mut again_count, mut at) = (0, run.start);
        while at < run.end() {
            let is_again = self.data.insert(at);
            let start = at;
            at += 1;
            while at < run.end() && self.data.has(at) == is_again {
                self.data.insert(at);
                at += 1;
            }
            let named = Run { start, count: at - start };
            let parts = if is_again { self.again.parts(named) } else { Vec::new() };
            for (part, count) in parts {
                self.again.set(part, Some(count.map_or(1, |count| count + 1)));
                again_count += part.count;
            }
        }
        again_count
    }

    /// Checks what a store says that its pools take.
    pub(crate) fn pool_usages(&self, known: &PoolUsages, out: &mut Vec<Problem>) {
        let pools: BTreeSet<PoolId> = self.pools.iter().chain(known.iter()).map(|(pool, _)| pool).collect();
        for pool in pools {
            let (expected, found) = (known.get(pool), self.pools.get(pool));
            for (what, expected, found) in [
                ("blocks", expected.blocks, found.blocks),
                ("stored bytes", expected.stored_bytes, found.stored_bytes),
                ("bytes of omap", expected.omap_bytes, found.omap_bytes),
            ] {
                if expected != found {
                    out.push(Problem::Pool { pool, what, expected, found });
                }
            }
        }
    }

    /// Checks on the device of `area` that nothing but data of several objects shares a block, and that all of it is
    /// claimed, or has data, if `is_complete`.
    pub(crate) fn overlaps(
        &self,
        area: Run,
        claims: &[(Run, Owner)],
        is_complete: bool,
        out: &mut Vec<Problem>,
    ) {
        let role = DeviceRole::of(area.start * BLOCK).0;
        let ends = |(run, owner): (Run, Owner)| [(run.start, true, owner), (run.end(), false, owner)];
        let is_there =
            |(run, _): &&(Run, Owner)| run.count > 0 && DeviceRole::of(run.start * BLOCK).0 == role;
        let mut edges: Vec<Edge> = claims.iter().filter(is_there).copied().flat_map(ends).collect();
        edges.sort_unstable();
        let data = self.data.runs().filter(|_| area == self.data.area);
        let mut data = data.flat_map(|run| ends((run, Owner::Data))).peekable();
        let mut edges = edges.into_iter().peekable();
        let mut open: Vec<Owner> = Vec::new();
        let mut last = area.start;
        loop {
            let is_datas = match (data.peek(), edges.peek()) {
                (Some(one), Some(other)) => one < other,
                (Some(_), None) => true,
                (None, _) => false,
            };
            let Some((place, begins, owner)) = (if is_datas { data.next() } else { edges.next() }) else {
                break;
            };
            judge(Run { start: last, count: place.saturating_sub(last) }, &open, is_complete, out);
            if begins {
                open.push(owner);
            } else if let Some(at) = open.iter().position(|other| *other == owner) {
                open.swap_remove(at);
            }
            last = last.max(place);
        }
        let rest = Run { start: last, count: area.end().saturating_sub(last) };
        judge(rest, &open, is_complete, out);
    }

    /// Checks that data is where data may be, and in as many objects as `shared` says, which has how many there are
    /// beyond one.
    pub(crate) fn references(&self, shared: &RunMap<u32>, out: &mut Vec<Problem>) {
        let outside = self.outside.iter().map(|run| run.start * BLOCK);
        out.extend(outside.map(|offset| Problem::Index { what: "place of data", offset }));
        // Where the runs of one begin or end, or of the other: between two such places all blocks are alike, but for
        // those that have no data at all.
        let edges = shared.iter().chain(self.again.iter()).flat_map(|(run, _)| [run.start, run.end()]);
        let edges: BTreeSet<u64> = edges.collect();
        // Of blocks that follow each other and are alike, the first one is named.
        let mut last = None;
        for (&start, &end) in edges.iter().zip(edges.iter().skip(1)) {
            let (extra, again) = (shared.get(start), self.again.get(start));
            if extra.is_none() && again.is_none() {
                continue;
            }
            let expected = extra.map_or(1, |extra| extra.saturating_add(1));
            let mut at = start;
            while at < end {
                let has_data = self.data.has(at);
                let found = again.map_or(u32::from(has_data), |again| again.saturating_add(1));
                let from = at;
                at = if again.is_some() {
                    end
                } else {
                    (at + 1..end).find(|at| self.data.has(*at) != has_data).unwrap_or(end)
                };
                let is_new = last.replace((at, expected, found)) != Some((from, expected, found));
                if expected != found && is_new {
                    out.push(Problem::References { offset: from * BLOCK, expected, found });
                }
            }
        }
    }
}

/// A place, whether something begins there, and whose.
type Edge = (u64, bool, Owner);

/// Judges blocks that all have the same owners.
fn judge(run: Run, owners: &[Owner], is_complete: bool, out: &mut Vec<Problem>) {
    if run.count == 0 {
        return;
    }
    let offset = run.start * BLOCK;
    if owners.is_empty() && is_complete {
        out.push(Problem::Leaked { offset, bytes: run.count * BLOCK });
    }
    if let Some(other) = owners.iter().find(|owner| **owner != Owner::Data)
        && owners.len() > 1
    {
        let second = if owners.contains(&Owner::Data) { Owner::Data } else { *other };
        out.push(Problem::Overlap { offset, first: *other, second });
    }
}

/// A set of blocks of an area.
#[derive(Debug)]
struct Blocks {
    area: Run,
    words: Vec<u64>,
}

impl Blocks {
    fn new(area: Run) -> Blocks {
        Blocks { area, words: vec![0; area.count.div_ceil(u64::from(u64::BITS)) as usize] }
    }

    fn place(&self, block: u64) -> (usize, u64) {
        let at = block - self.area.start;
        ((at / u64::from(u64::BITS)) as usize, 1 << (at % u64::from(u64::BITS)))
    }

    /// True if it was there.
    fn insert(&mut self, block: u64) -> bool {
        let (word, bit) = self.place(block);
        let was_there = self.words[word] & bit != 0;
        self.words[word] |= bit;
        was_there
    }

    fn has(&self, block: u64) -> bool {
        let (word, bit) = self.place(block);
        self.area.holds(Run { start: block, count: 1 }) && self.words[word] & bit != 0
    }

    /// The first place at or behind `at` whose bit is `value`, or the end.
    fn next(&self, at: u64, value: bool) -> u64 {
        let mut at = at;
        while at < self.area.count {
            let skip = at % u64::from(u64::BITS);
            let word = self.words[(at / u64::from(u64::BITS)) as usize];
            let rest = (if value { word } else { !word }) >> skip;
            if rest != 0 {
                return (at + u64::from(rest.trailing_zeros())).min(self.area.count);
            }
            at += u64::from(u64::BITS) - skip;
        }
        self.area.count
    }

    fn runs(&self) -> impl Iterator<Item = Run> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next(at, true);
            at = self.next(start, false);
            (start < at).then(|| Run { start: self.area.start + start, count: at - start })
        })
    }
}
