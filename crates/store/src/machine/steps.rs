//! Splits, merges and removals of collections go some objects at a time, however large the collections are.
//!
//! Such a transaction waits at the head of its collection's queue ([`super::deferred`]) while others are made and
//! applied that move or remove its first objects, each a transaction of its own in the journal; when little is left, it
//! is submitted itself. One step is taken when the one before it is durable, so requests to other collections go on
//! between them; and one collection is worked on at a time, the one that has waited longest, so no more than the pages
//! of one step are held. What is small and at hand goes at once, up to a step's worth in a turn.
//!
//! To readers all of it has happened from the start: they wait for what moves ([`super::moves`] says what a crash
//! leaves), and a collection that is removed is gone. After a crash a part of that may be left, without its first
//! objects: those that the OSD keeps for itself come first, so a collection without them was being removed, and is
//! to be removed again.

use types::{CollId, HObject, Mutation, Transaction, TxnOp};

use super::{Store, Unmount, deferred::other_colls};
use crate::index::Key;

/// Pages of a step, unless one object has more.
pub(super) const STEP_PAGES_MAX: usize = 16;
/// Omap entries that count as an object.
const OMAP_ENTRIES: usize = 16;

/// Objects of a collection that an op moves or removes.
struct Span<'a> {
    coll: CollId,
    /// Where they go; none for a removal.
    target: Option<CollId>,
    from: HObject,
    to: &'a HObject,
    /// Which op of the transaction.
    op: usize,
}

/// What a transaction needs next.
pub(super) enum Step {
    /// Pages, which have to be read to find the step or to take it.
    Read(Vec<Key>),
    /// A part of what is left.
    Part(Part),
    /// All that is left, which counts as so many objects.
    Rest(usize),
}

/// Some objects, and the first one behind them.
pub(super) struct Part {
    pub(super) coll: CollId,
    pub(super) target: Option<CollId>,
    pub(super) op: usize,
    pub(super) from: HObject,
    pub(super) end: HObject,
    objects: Vec<HObject>,
}

/// True for a move of objects between collections.
pub(super) fn is_move(op: &TxnOp) -> bool {
    matches!(op, TxnOp::Split(_) | TxnOp::Merge(_))
}

/// True if the transaction may go in steps: no other op lies between its moves.
pub(super) fn is_stepwise(txn: &Transaction) -> bool {
    let Some(first) = txn.ops.iter().position(is_move) else {
        return txn.ops.first() == Some(&TxnOp::RemoveCollection);
    };
    let last = txn.ops.iter().rposition(is_move).unwrap_or(first);
    let mut others: Vec<CollId> = other_colls(txn).collect();
    let count = others.len();
    others.sort_unstable();
    others.dedup();
    txn.ops[first..=last].iter().all(is_move)
        && !txn.ops[..first].contains(&TxnOp::RemoveCollection)
        && others.len() == count
        && !others.contains(&txn.coll)
}

/// The spans of objects that a stepwise transaction moves or removes.
fn spans<'a>(txn: &'a Transaction, end: &'a HObject) -> impl Iterator<Item = Span<'a>> {
    let coll = txn.coll;
    txn.ops.iter().enumerate().filter_map(move |(op, what)| match what {
        TxnOp::RemoveCollection => {
            (op == 0).then(|| Span { coll, target: None, from: HObject::min(), to: end, op })
        }
        TxnOp::Split(split) => {
            let (target, from) = (Some(split.child), split.from.clone());
            Some(Span { coll, target, from, to: &split.to, op })
        }
        TxnOp::Merge(merge) => {
            let (target, from) = (Some(coll), merge.from.clone());
            Some(Span { coll: merge.source, target, from, to: &merge.to, op })
        }
        TxnOp::CreateCollection | TxnOp::Object(..) => None,
    })
}

impl Store {
    /// True if the transaction goes in steps. If not, what it moves or removes counts for this turn.
    pub(super) fn goes_in_steps(&mut self, txn: &Transaction) -> bool {
        if !is_stepwise(txn) {
            return false;
        }
        match self.next_step(txn) {
            Step::Rest(count) if count <= self.turn_objects_left => {
                self.turn_objects_left -= count;
                false
            }
            Step::Rest(_) | Step::Part(_) | Step::Read(_) => true,
        }
    }

    fn next_step(&self, txn: &Transaction) -> Step {
        let (end, mut count, mut part) = (HObject::max(), 0, None);
        for span in spans(txn, &end) {
            let (first, its_count, is_all) = match self.part_of(span) {
                Ok(found) => found,
                Err(absent) => return Step::Read(absent),
            };
            count += its_count;
            let is_enough = !is_all || count > self.config.step_objects_max;
            if !first.objects.is_empty() {
                part.get_or_insert(first);
            }
            if let Some(part) = part.take_if(|_| is_enough) {
                let absent = self.absent_for_part(&part);
                return if absent.is_empty() { Step::Part(part) } else { Step::Read(absent) };
            }
        }
        let absent = self.absent_for(txn);
        if absent.is_empty() { Step::Rest(count) } else { Step::Read(absent) }
    }

    /// The first objects of a span, no more than a step takes; what they count, and whether they are all of it. Or the
    /// pages that have to be read to tell.
    fn part_of(&self, span: Span<'_>) -> Result<(Part, usize, bool), Vec<Key>> {
        let Span { coll, target, from, to, op } = span;
        let begin = Key::of(coll, &from);
        let is_within = |first: &Key| first.coll == coll && first.object < *to;
        let count_max = self.config.step_objects_max + 1;
        let Ok(mut objects) = self.list_applied(coll, &from, to, count_max) else {
            return Err(self.index.absent_in(&begin, is_within).take(STEP_PAGES_MAX).collect());
        };
        let (mut count, mut taken) = (0, 0);
        for object in &objects {
            let entries = self.index.omap(coll, object).map_or(0, |omap| omap.len());
            let weight = 1 + entries / OMAP_ENTRIES;
            if taken > 0 && count + weight > self.config.step_objects_max {
                break;
            }
            count += weight;
            taken += 1;
        }
        if let Some(first) = objects.first().filter(|_| !self.index.directory.is_whole()) {
            let begin = Key::of(coll, first);
            let beyond = self.index.directory.pages_from(&begin).nth(STEP_PAGES_MAX);
            if let Some((beyond, _)) = beyond.filter(|(first, _)| is_within(first)) {
                let before = objects.partition_point(|object| *object < beyond.object);
                taken = taken.min(before.max(1));
            }
        }
        let is_all = taken == objects.len();
        let end = objects.get(taken).unwrap_or(to).clone();
        objects.truncate(taken);
        Ok((Part { coll, target, op, from, end, objects }, count, is_all))
    }

    fn absent_for_part(&self, part: &Part) -> Vec<Key> {
        let Some(last) = part.objects.last() else { return Vec::new() };
        let mut out = Vec::new();
        for coll in [Some(part.coll), part.target].into_iter().flatten() {
            let begin = Key::of(coll, &part.from);
            out.extend(self.index.absent_in(&begin, |first| first.coll == coll && first.object <= *last));
        }
        out
    }

    /// Takes the next step of the stepwise transaction that has waited longest, if the last step is durable.
    pub(super) fn step_on(&mut self) {
        let is_ending = matches!(self.unmount, Unmount::Flushed | Unmount::Done);
        if self.fault.is_some() || is_ending || self.step_txn > self.committed_txn {
            return;
        }
        let Some((number, coll)) = self.waiting.next_stepping() else { return };
        if self.waiting.is_first_loading(coll) {
            return;
        }
        let Some(txn) = self.take_first_txn(coll) else { return };
        if self.must_hold(&txn, Some(number)) {
            self.put_first_txn(coll, txn);
            return self.hold(coll, number);
        }
        let step = self.next_step(&txn);
        self.put_first_txn(coll, txn);
        match step {
            Step::Read(absent) => return self.read_for_deferred(coll, number, &absent),
            Step::Part(part) => self.apply_part(coll, number, &part),
            Step::Rest(_) => {
                self.submit_first(coll);
                self.submit_deferred(coll);
            }
        }
        self.step_txn = self.last_txn;
    }

    fn apply_part(&mut self, coll: CollId, number: u64, part: &Part) {
        if part.target.is_some() {
            return self.move_part(coll, number, part);
        }
        self.unpin_first_deferred(coll);
        let mut txn = Transaction::new(part.coll);
        part.objects.iter().for_each(|object| txn.push(object, Mutation::Remove));
        self.apply_now(txn);
    }
}
