//! Transactions that need index pages which are not in memory, or room for more changes ([`super::write_throttle`]).
//!
//! They wait in the order of their collection, and so do the collection's later transactions; other collections go on.
//! A transaction that splits a collection, or merges it with another, makes the transactions of the other collection
//! wait, too: a barrier stands in their queue for it. A transaction that splits, merges or removes a large collection
//! does it in steps ([`super::steps`]), when its turn comes. To readers a transaction that waits is applied already:
//! what it changes is not at hand until it is, so they wait for it as they wait for a page, and listings are told what
//! it makes and removes.

use std::collections::{BTreeMap, VecDeque};

use types::{CollId, HObject, Mutation, Token, Transaction, TxnOp};

use super::{
    Store,
    moves::mark,
    pages::Waiter,
    space_estimate::SpaceEstimate,
    steps::{is_move, is_stepwise},
};
use crate::index::Key;

/// A transaction that waits.
#[derive(Debug)]
pub(super) struct Deferred {
    number: u64,
    /// The caller's; none for what a mount goes on with.
    token: Option<Token>,
    txn: Transaction,
    steps: Steps,
    /// What its end takes of the device for what the OSD keeps for itself, if it moves objects.
    own_bytes: u64,
    /// Pages being read for it.
    loading: usize,
    pins: Vec<Key>,
    /// Loads of what it changes.
    pub(super) waiters: Vec<(Token, Key)>,
    /// Where it only waits for the transaction of another collection that makes or removes its own.
    barrier: Option<Barrier>,
}

/// How a transaction is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Steps {
    /// At once.
    #[default]
    None,
    /// In steps, none of which has been taken.
    Planned,
    /// It moves objects, and is marked as begun.
    Begun,
}

/// What stands in the queue of a collection that a transaction of another one makes or removes.
#[derive(Clone, Copy, Debug)]
struct Barrier {
    /// The collection whose transaction it is.
    by: CollId,
    /// True where the collection is there after it.
    is_made: bool,
}

impl Deferred {
    fn new(number: u64, token: Option<Token>, txn: Transaction, steps: Steps) -> Deferred {
        Deferred {
            number,
            token,
            txn,
            steps,
            own_bytes: 0,
            loading: 0,
            pins: Vec::new(),
            waiters: Vec::new(),
            barrier: None,
        }
    }

    fn changes(&self, object: &HObject) -> bool {
        let is_changed = |op: &TxnOp| match op {
            TxnOp::CreateCollection => false,
            TxnOp::RemoveCollection => true,
            // Listings wait for the mark ([`Store::list_from`]).
            TxnOp::Split(split) => split.moves(object) || *object == mark(),
            TxnOp::Merge(merge) => merge.moves(object) || *object == mark(),
            TxnOp::Object(other, _) => other == object,
        };
        self.barrier.is_some() || self.txn.ops.iter().any(is_changed)
    }
}

/// The other collection that the op reaches into, and whether that is there after it.
fn other_coll(op: &TxnOp) -> Option<(CollId, bool)> {
    match op {
        TxnOp::Split(split) => Some((split.child, true)),
        TxnOp::Merge(merge) => Some((merge.source, false)),
        TxnOp::CreateCollection | TxnOp::RemoveCollection | TxnOp::Object(..) => None,
    }
}

/// All of them that a transaction reaches into.
pub(super) fn other_colls(txn: &Transaction) -> impl Iterator<Item = CollId> + '_ {
    txn.ops.iter().filter_map(other_coll).map(|(coll, _)| coll)
}

/// The transactions that wait, in one queue for each collection.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    colls: BTreeMap<CollId, VecDeque<Deferred>>,
    /// Collections whose first transaction needs nothing but room, by its number, and how much it takes.
    held: BTreeMap<u64, (CollId, SpaceEstimate)>,
    /// Collections whose first transaction goes in steps, by its number: nothing that came before it waits.
    stepping: BTreeMap<u64, CollId>,
    next: u64,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.colls.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.colls.values().map(VecDeque::len).sum()
    }

    /// True if transactions wait for room.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// True if another transaction has waited for room longer than this one.
    pub(super) fn has_held_before(&self, number: u64) -> bool {
        self.held.first_key_value().is_some_and(|(first, _)| *first < number)
    }

    /// Collections whose first transaction waits for room, by its number, and how much it takes.
    pub(super) fn held(&self) -> impl Iterator<Item = (u64, CollId, &SpaceEstimate)> + '_ {
        self.held.iter().map(|(number, (coll, growth))| (*number, *coll, growth))
    }

    /// What the transaction takes that has waited longest for room.
    pub(super) fn first_growth(&self) -> Option<&SpaceEstimate> {
        self.held.first_key_value().map(|(_, (_, growth))| growth)
    }

    /// What the transactions take that have begun to move objects and wait for room.
    pub(super) fn held_steps(&self) -> impl Iterator<Item = &SpaceEstimate> + '_ {
        let held = self.stepping.keys().filter_map(|number| self.held.get(number));
        held.filter(|(coll, _)| self.is_first_begun(*coll)).map(|(_, growth)| growth)
    }

    /// What the ends of those take that have begun to move objects ([`SpaceEstimate::own_bytes`]).
    pub(super) fn begun_bytes(&self) -> u64 {
        let fronts = self.stepping.values().filter_map(|coll| self.colls.get(coll)?.front());
        fronts.filter(|front| front.steps == Steps::Begun).map(|front| front.own_bytes).sum()
    }

    /// The transaction with this number need not wait for room any more.
    pub(super) fn let_go(&mut self, number: u64) {
        self.held.remove(&number);
    }

    /// The transaction whose step is next, of those that do not wait for room, and its collection.
    pub(super) fn next_stepping(&self) -> Option<(u64, CollId)> {
        let mut stepping = self.stepping.iter().filter(|(number, _)| !self.held.contains_key(number));
        stepping.next().map(|(number, coll)| (*number, *coll))
    }

    /// True if pages are being read for the first transaction of the collection.
    pub(super) fn is_first_loading(&self, coll: CollId) -> bool {
        self.colls.get(&coll).and_then(VecDeque::front).is_some_and(|front| front.loading > 0)
    }

    /// True if the first transaction of the collection moves objects and is marked as begun.
    pub(super) fn is_first_begun(&self, coll: CollId) -> bool {
        let front = self.colls.get(&coll).and_then(VecDeque::front);
        front.is_some_and(|front| front.steps == Steps::Begun)
    }

    /// Marks the first transaction of the collection as begun.
    pub(super) fn set_first_begun(&mut self, coll: CollId) {
        if let Some(front) = self.colls.get_mut(&coll).and_then(VecDeque::front_mut) {
            front.steps = Steps::Begun;
        }
    }

    /// True if transactions wait that come before this one.
    fn holds_up(&self, txn: &Transaction) -> bool {
        self.colls.contains_key(&txn.coll) || other_colls(txn).any(|other| self.colls.contains_key(&other))
    }

    /// True if what the store has of the object is not yet what was submitted.
    pub(super) fn changes(&self, coll: CollId, object: &HObject) -> bool {
        self.colls.get(&coll).is_some_and(|queue| queue.iter().any(|deferred| deferred.changes(object)))
    }

    /// Whether the collection will exist; `None` if no waiting transaction decides that.
    pub(super) fn makes_coll(&self, coll: CollId) -> Option<bool> {
        let says = |deferred: &Deferred| match deferred.barrier {
            Some(barrier) => Some(barrier.is_made),
            None => deferred.txn.ops.last().map(|op| *op != TxnOp::RemoveCollection),
        };
        self.colls.get(&coll)?.iter().filter_map(says).next_back()
    }

    /// True if objects come to the collection, or leave it, when those that wait are applied.
    pub(super) fn moves_objects(&self, coll: CollId) -> bool {
        let mut ops = self.colls.get(&coll).into_iter().flatten().flat_map(|deferred| &deferred.txn.ops);
        ops.any(is_move)
    }

    /// True if the contents of the collection are unknown until it has been split off, or merged with another.
    pub(super) fn has_barrier(&self, coll: CollId) -> bool {
        self.colls.get(&coll).is_some_and(|queue| queue.iter().any(|deferred| deferred.barrier.is_some()))
    }

    /// Collections with transactions that wait.
    pub(super) fn colls(&self) -> impl Iterator<Item = CollId> + '_ {
        self.colls.keys().copied()
    }

    /// What waiting transactions do to a listing of the collection.
    pub(super) fn listing(&self, coll: CollId) -> Option<Listing<'_>> {
        let mut out = Listing::default();
        for op in self.colls.get(&coll)?.iter().flat_map(|deferred| &deferred.txn.ops) {
            match op {
                // A collection that is split, or that is to get the objects of another, is not listed.
                TxnOp::CreateCollection | TxnOp::Split(_) | TxnOp::Merge(_) => {}
                TxnOp::RemoveCollection => out = Listing { hides_rest: true, ..Listing::default() },
                TxnOp::Object(object, mutation) => {
                    out.objects.insert(object, *mutation != Mutation::Remove);
                }
            }
        }
        Some(out)
    }
}

/// Objects that come and go.
#[derive(Debug, Default)]
pub(super) struct Listing<'a> {
    /// Whether each will be there.
    pub(super) objects: BTreeMap<&'a HObject, bool>,
    /// True if no others will be.
    pub(super) hides_rest: bool,
}

impl Listing<'_> {
    /// True for an object that is there, and will be.
    pub(super) fn keeps(&self, object: &HObject) -> bool {
        !self.objects.contains_key(object)
    }
}

impl Store {
    /// True if the transaction has to wait.
    pub(super) fn must_defer(&mut self, txn: &Transaction) -> bool {
        !self.waiting.is_empty() && self.waiting.holds_up(txn)
            || self.must_hold(txn, None)
            || self.goes_in_steps(txn)
            || !self.absent_for(txn).is_empty()
    }

    pub(super) fn defer(&mut self, token: Token, txn: Transaction) {
        let steps = if is_stepwise(&txn) { Steps::Planned } else { Steps::None };
        self.enqueue(Some(token), txn, steps);
    }

    /// Queues a transaction that moves objects and that a crash interrupted: no caller waits for its commit.
    pub(super) fn defer_begun(&mut self, txn: Transaction) {
        self.enqueue(None, txn, Steps::Begun);
    }

    fn enqueue(&mut self, token: Option<Token>, txn: Transaction, steps: Steps) {
        self.waiting.next += 1;
        let (coll, number) = (txn.coll, self.waiting.next);
        for (other, is_made) in txn.ops.iter().filter_map(other_coll) {
            self.waiting.next += 1;
            let empty = Transaction::new(other);
            let barrier = Deferred {
                loading: 1,
                barrier: Some(Barrier { by: coll, is_made }),
                ..Deferred::new(self.waiting.next, None, empty, Steps::None)
            };
            self.waiting.colls.entry(other).or_default().push_back(barrier);
        }
        let own_bytes = if steps == Steps::None { 0 } else { self.growth_of(&txn).own_bytes };
        let queue = self.waiting.colls.entry(coll).or_default();
        let is_first = queue.is_empty();
        queue.push_back(Deferred { own_bytes, ..Deferred::new(number, token, txn, steps) });
        match steps {
            // Those behind it need not wait for its pages before theirs are read.
            Steps::None if !self.load_for_deferred(coll, number) && is_first => self.hold(coll, number),
            Steps::Planned | Steps::Begun if is_first => self.submit_deferred(coll),
            Steps::None | Steps::Planned | Steps::Begun => {}
        }
    }

    /// Starts to read what the transaction lacks. False if it lacks nothing.
    fn load_for_deferred(&mut self, coll: CollId, number: u64) -> bool {
        let Some(deferred) = self.deferred_mut(coll, number) else { return false };
        let txn = std::mem::replace(&mut deferred.txn, Transaction::new(coll));
        let absent = self.absent_for(&txn);
        if let Some(deferred) = self.deferred_mut(coll, number) {
            deferred.txn = txn;
        }
        self.read_for_deferred(coll, number, &absent);
        !absent.is_empty()
    }

    /// Reads pages that the transaction needs, and keeps them until it, or its next step, is applied.
    pub(super) fn read_for_deferred(&mut self, coll: CollId, number: u64, absent: &[Key]) {
        absent.iter().for_each(|key| self.index.pin(key.clone()));
        if let Some(deferred) = self.deferred_mut(coll, number) {
            deferred.loading = absent.len();
            deferred.pins.extend(absent.iter().cloned());
        }
        for key in absent {
            self.want_page(key, Waiter::Deferred(coll, number));
        }
    }

    fn deferred_mut(&mut self, coll: CollId, number: u64) -> Option<&mut Deferred> {
        self.waiting.colls.get_mut(&coll)?.iter_mut().find(|deferred| deferred.number == number)
    }

    /// The last one that changes the object.
    pub(super) fn last_deferred_of(&mut self, coll: CollId, object: &HObject) -> Option<&mut Deferred> {
        self.waiting.colls.get_mut(&coll)?.iter_mut().rfind(|deferred| deferred.changes(object))
    }

    pub(super) fn deferred_page_came(&mut self, coll: CollId, number: u64) {
        if let Some(deferred) = self.deferred_mut(coll, number) {
            deferred.loading -= 1;
        }
        self.submit_deferred(coll);
    }

    /// Submits the transactions of the collection that need not wait any more.
    pub(super) fn submit_deferred(&mut self, coll: CollId) {
        while self.fault.is_none()
            && let Some(front) = self.waiting.colls.get(&coll).and_then(VecDeque::front)
        {
            let (loading, number, barrier, steps) = (front.loading, front.number, front.barrier, front.steps);
            if loading > 0 {
                // It is the turn of the transaction that makes or removes this collection.
                return barrier.into_iter().for_each(|barrier| self.submit_deferred(barrier.by));
            }
            if steps != Steps::None {
                if self.may_reach_others(coll) {
                    self.waiting.stepping.insert(number, coll);
                }
                return;
            }
            if self.load_for_deferred(coll, number) || !self.may_reach_others(coll) {
                return;
            }
            let is_held = barrier.is_none()
                && self.first_deferred(coll).is_some_and(|txn| self.must_hold(txn, Some(number)));
            if is_held {
                return self.hold(coll, number);
            }
            self.submit_first(coll);
        }
    }

    /// Submits the first one that waits in a collection.
    pub(super) fn submit_first(&mut self, coll: CollId) {
        let Some(queue) = self.waiting.colls.get_mut(&coll) else { return };
        let Some(mut deferred) = queue.pop_front() else { return };
        if queue.is_empty() {
            self.waiting.colls.remove(&coll);
        }
        self.waiting.stepping.remove(&deferred.number);
        deferred.pins.iter().for_each(|key| self.index.unpin(key));
        let others: Vec<CollId> = other_colls(&deferred.txn).collect();
        if deferred.steps == Steps::Begun {
            deferred.txn.ops.insert(0, TxnOp::Object(mark(), Mutation::Remove));
        }
        match deferred.token {
            Some(token) => self.submit_now(token, deferred.txn),
            None if deferred.barrier.is_none() => self.apply_now(deferred.txn),
            None => {}
        }
        others.into_iter().for_each(|other| self.lift_barrier(other));
        for (token, key) in deferred.waiters {
            self.go_on_loading(token, key);
        }
    }

    /// The first one in its collection waits for room: what it takes does not change until it goes on.
    pub(super) fn hold(&mut self, coll: CollId, number: u64) {
        let growth = self.first_deferred(coll).map(|txn| self.growth_of(txn)).unwrap_or_default();
        self.waiting.held.insert(number, (coll, growth));
    }

    /// The first one that waits in a collection.
    pub(super) fn first_deferred(&self, coll: CollId) -> Option<&Transaction> {
        Some(&self.waiting.colls.get(&coll)?.front()?.txn)
    }

    /// Takes its transaction out, to be given back.
    pub(super) fn take_first_txn(&mut self, coll: CollId) -> Option<Transaction> {
        let front = self.waiting.colls.get_mut(&coll)?.front_mut()?;
        Some(std::mem::replace(&mut front.txn, Transaction::new(coll)))
    }

    /// Gives it back, or another one in its place.
    pub(super) fn put_first_txn(&mut self, coll: CollId, txn: Transaction) {
        if let Some(front) = self.waiting.colls.get_mut(&coll).and_then(VecDeque::front_mut) {
            front.txn = txn;
        }
    }

    /// Lets go of the pages that were read for it.
    pub(super) fn unpin_first_deferred(&mut self, coll: CollId) {
        let front = self.waiting.colls.get_mut(&coll).and_then(VecDeque::front_mut);
        let pins = front.map(|front| std::mem::take(&mut front.pins));
        pins.into_iter().flatten().for_each(|key| self.index.unpin(&key));
    }

    /// True if nothing that came before the first transaction waits in the other collections that it reaches into.
    fn may_reach_others(&self, coll: CollId) -> bool {
        let front = self.waiting.colls.get(&coll).and_then(VecDeque::front);
        let mut others = front.into_iter().flat_map(|front| other_colls(&front.txn));
        others.all(|other| {
            let front = self.waiting.colls.get(&other).and_then(VecDeque::front);
            front.and_then(|front| front.barrier).is_some_and(|barrier| barrier.by == coll)
        })
    }

    /// A collection has been split off, or is gone: what waited for that goes on.
    fn lift_barrier(&mut self, other: CollId) {
        let front = self.waiting.colls.get_mut(&other).and_then(VecDeque::front_mut);
        if let Some(barrier) = front.filter(|front| front.barrier.is_some()) {
            barrier.loading = 0;
        }
        self.submit_deferred(other);
    }
}
