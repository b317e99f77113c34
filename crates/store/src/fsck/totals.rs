//! What the entries of an index come to, in memory that does not grow with them: a bit for each block of the data area.

use std::collections::BTreeSet;

use types::{CollId, HObject, PoolId};

use super::{Owner, Problem, StoreCounts};
use crate::{
    DeviceRole,
    device::BLOCK,
    index::{Entry, piece_bytes},
    onode::Onode,
    pool_usage::{PoolUsage, PoolUsages},
    space::{References, Run},
};

/// Sums over entries, and which blocks their data is in.
#[derive(Debug)]
pub(crate) struct Totals {
    /// What was counted, as far as entries tell.
    pub(crate) counts: StoreCounts,
    /// Objects with pending bytes.
    pub(crate) pending_objects: u64,
    /// Pieces that are pending, and bytes that tell whose they are.
    pub(crate) pending_pieces: u64,
    pub(crate) pending_names: u64,
    /// Of omap, keys and values.
    pub(crate) omap_bytes: u64,
    pools: PoolUsages,
    data: Blocks,
    /// Blocks that were named more than once, and how many times more.
    again: References,
    /// Data where no data may be.
    outside: Vec<Run>,
}

impl Totals {
    /// Of nothing yet; data is in `area`.
    pub(crate) fn new(area: Run) -> Totals {
        Totals {
            counts: StoreCounts::default(),
            pending_objects: 0,
            pending_pieces: 0,
            pending_names: 0,
            omap_bytes: 0,
            pools: PoolUsages::default(),
            data: Blocks::new(area),
            again: References::default(),
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
        self.counts.object_bytes = self.counts.object_bytes.saturating_add(onode.size);
        self.counts.pending_bytes += onode.pending.bytes();
        self.counts.xattrs += onode.xattrs.len() as u64;
        let pieces = onode.pending.amount().pieces;
        self.pending_pieces += pieces;
        self.pending_names += pieces * piece_bytes(object);
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
                self.again.set(part, count + 1);
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
    /// claimed, has data or is `free`, if `is_complete`. What is free comes in order: there may be much of it.
    pub(crate) fn overlaps(
        &self,
        area: Run,
        claims: &[(Run, Owner)],
        free: impl Iterator<Item = Run>,
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
        let mut free = free.flat_map(|run| ends((run, Owner::Free))).peekable();
        let mut edges = edges.into_iter().peekable();
        let mut open: Vec<Owner> = Vec::new();
        let mut last = area.start;
        while let Some(next) = [data.peek(), free.peek(), edges.peek()].into_iter().flatten().min().copied() {
            let is_next = |edge: &Edge| *edge == next;
            let from_data = data.next_if(is_next);
            if from_data.or_else(|| free.next_if(is_next)).or_else(|| edges.next_if(is_next)).is_none() {
                break;
            }
            let (place, begins, owner) = next;
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
    /// beyond one; or in no more than that, unless all of the index was seen (`is_complete`).
    pub(crate) fn references(&self, shared: &References, is_complete: bool, out: &mut Vec<Problem>) {
        let outside = self.outside.iter().map(|run| run.start * BLOCK);
        out.extend(outside.map(|offset| Problem::Index { what: "place of data", offset }));
        // Of blocks that follow each other and are alike, the first one is named.
        let mut last = None;
        for (run, extra, again) in alike(shared.iter(), self.again.iter()) {
            let expected = extra.saturating_add(1);
            let mut at = run.start;
            while at < run.end() {
                let has_data = self.data.has(at);
                let found = if again > 0 { again.saturating_add(1) } else { u32::from(has_data) };
                let from = at;
                at = if again > 0 {
                    run.end()
                } else {
                    (at + 1..run.end()).find(|at| self.data.has(*at) != has_data).unwrap_or(run.end())
                };
                let is_new = last.replace((at, expected, found)) != Some((from, expected, found));
                let is_wrong = if is_complete { found != expected } else { found > expected };
                if is_wrong && is_new {
                    out.push(Problem::References { offset: from * BLOCK, expected, found });
                }
            }
        }
    }
}

/// Runs of blocks that have one count of `ones` and one of `others`, not both 0, in order as these are.
fn alike(
    ones: impl Iterator<Item = (Run, u32)>,
    others: impl Iterator<Item = (Run, u32)>,
) -> impl Iterator<Item = (Run, u32, u32)> {
    let (mut ones, mut others) = (ones.peekable(), others.peekable());
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            while ones.next_if(|(run, _)| run.end() <= at).is_some() {}
            while others.next_if(|(run, _)| run.end() <= at).is_some() {}
            let next = [ones.peek(), others.peek()];
            let edge = |(run, _): &(Run, u32)| if at < run.start { run.start } else { run.end() };
            let start = at;
            at = next.into_iter().flatten().map(edge).min()?;
            let count = |next: Option<&(Run, u32)>| {
                next.filter(|(run, _)| run.start <= start).map_or(0, |next| next.1)
            };
            let counts = next.map(count);
            if counts != [0, 0] {
                return Some((Run { start, count: at - start }, counts[0], counts[1]));
            }
        }
    })
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
