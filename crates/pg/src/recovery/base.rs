//! What a pushed object begins with: a neighbour that the receiver has, the head of the same object or another clone of
//! it, so that the two share there what they share here, and only the rest is sent.
//!
//! The receiver takes the neighbour in the very version that the sender names, as it is when the push arrives, or has
//! the object sent whole. So nothing that becomes of the neighbour on either side can make a wrong object: once the
//! first part is in, nothing refers to the neighbour any more. What it shares is read again for each part, from the
//! head, which has to be the same for all of them.
//!
//! Authority: `calc_clone_subsets`, `calc_head_subsets` (16.2).

use std::collections::BTreeSet;

use messages::{CloneBase, MPgPull, MPgPush, ObjectCursor};
use store::{Completion, NotCached, ObjectStore, OmapMost};
use types::{CollId, EVersion, HObject, IntervalSet, Mutation, OsdId, SnapId, Token, Transaction, TxnOp};

use super::{Push, lacked};
use crate::{
    Ctx, Effect, Pg,
    exec::{self, Kept, OBJECT_BYTES_MAX, ObjectInfo, SnapSet},
    pg::Pending,
};

/// Less in common is not worth it.
const SHARED_BYTES_MIN: u64 = 64 << 10;
/// What is shared is so in whole blocks, so that no part of one is written.
const SHARED_BLOCK: u64 = 4 << 10;
/// Entries of an omap that come with a neighbour, at most, though they are dropped at once.
const OMAP_MOST: OmapMost = OmapMost { count: 64, bytes: 64 << 10 };
/// Neighbours that are looked for on each side.
const NEIGHBOURS_MAX: usize = 64;
/// More objects that are lacking than a pull names: then the object is sent whole.
const LACKS_MAX: usize = 1024;

/// What of its family, the head and the clones of one object, the receiver of a push lacks.
#[derive(Debug)]
pub(super) enum Lacks {
    /// It is not known, or the object is to be sent whole.
    Unknown,
    /// The receiver has said it.
    These(BTreeSet<SnapId>),
    /// The primary knows it of its members.
    OfMember,
}

impl Lacks {
    /// As a pull has it.
    pub(super) fn of_pull(lacks: Option<Vec<SnapId>>) -> Lacks {
        lacks.map_or(Lacks::Unknown, |lacks| Lacks::These(lacks.into_iter().collect()))
    }
}

/// A push that came. It may wait for what is known of the neighbour that it begins with.
#[derive(Debug)]
pub(crate) struct Arrived {
    from: OsdId,
    push: MPgPush,
    /// What was loaded for it.
    pub(crate) loads: Vec<Token>,
    /// Something could not be loaded.
    has_failed: bool,
}

/// What a push, or its next part, begins with.
#[derive(Debug)]
pub(super) enum Base {
    /// All of the object is sent.
    Nothing,
    /// What is shared is not.
    With(Shared),
    /// The part cannot follow those before, as it is not known any more what they left out.
    Outdated,
}

/// A neighbour, and what an object need not be sent of as it is the same there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) base: CloneBase,
    pub(super) neighbour: HObject,
    pub(super) ranges: IntervalSet,
}

/// An object's head and clones, as the sender has them.
struct Family {
    snapset: SnapSet,
    head: HObject,
    head_version: EVersion,
    head_size: u64,
}

impl Family {
    /// None if there is no head that could tell.
    fn of(store: &dyn ObjectStore, coll: CollId, object: &HObject) -> Result<Option<Family>, NotCached> {
        let head = object.head();
        let Some(meta) = store.meta(coll, &head)? else { return Ok(None) };
        let Kept::Known(snapset) = exec::snapset_at(store, coll, &head)? else { return Ok(None) };
        let Kept::Known(info) = exec::info_at(store, coll, &head)? else { return Ok(None) };
        let is_whole = info.manifest.is_none() && info.version != EVersion::ZERO;
        let (head_version, head_size) = (info.version, meta.size);
        Ok(is_whole.then_some(Family { snapset, head, head_version, head_size }))
    }

    /// The place of one of them, from the oldest clone to the head.
    fn place(&self, snap: SnapId) -> Option<usize> {
        match snap {
            SnapId::HEAD => Some(self.snapset.clones.len()),
            snap => self.snapset.clones.iter().position(|clone| clone.id == snap),
        }
    }

    /// The snapshot and the size of the one in a place.
    fn at(&self, place: usize) -> Option<(SnapId, u64)> {
        match self.snapset.clones.get(place) {
            Some(clone) => Some((clone.id, clone.size)),
            None => (place == self.snapset.clones.len()).then_some((SnapId::HEAD, self.head_size)),
        }
    }

    /// What two of them share.
    fn shared(&self, one: usize, other: usize) -> IntervalSet {
        let size = |place| self.at(place).map_or(0, |(_, size)| size);
        let own = size(one);
        let mut all = IntervalSet::new();
        all.insert(0, own.min(size(other)).min(OBJECT_BYTES_MAX));
        let between = self.snapset.clones.iter().take(one.max(other)).skip(one.min(other));
        let shared = between.fold(all, |shared, clone| shared.intersection(&clone.overlap));
        let mut blocks = IntervalSet::new();
        for (start, len) in shared.iter() {
            let (from, to) = (start.next_multiple_of(SHARED_BLOCK), start + len);
            // Nothing follows the end of the object that would be in the same block.
            let to = if to == own { to } else { to / SHARED_BLOCK * SHARED_BLOCK };
            blocks.insert(from, to.saturating_sub(from));
        }
        blocks
    }
}

/// The copy's info, if it is one of which others may be made: in its place, with all of its data.
fn sound(
    store: &dyn ObjectStore,
    coll: CollId,
    object: &HObject,
    size: u64,
) -> Result<Option<ObjectInfo>, NotCached> {
    let has_size = store.meta(coll, object)?.is_some_and(|meta| meta.size == size);
    let Kept::Known(info) = exec::info_at(store, coll, object)? else { return Ok(None) };
    Ok(Some(info).filter(|info| has_size && info.manifest.is_none() && info.version != EVersion::ZERO))
}

/// The neighbour with which an object may begin at a receiver that `has` it: the nearest newer or the nearest older
/// one, or the head, with which it has most in common.
pub(super) fn choose(
    store: &dyn ObjectStore,
    coll: CollId,
    object: &HObject,
    has: &dyn Fn(&HObject) -> bool,
) -> Result<Option<Shared>, NotCached> {
    let Some(family) = Family::of(store, coll, object)? else { return Ok(None) };
    let Some(own) = family.place(object.snap) else { return Ok(None) };
    let Some((_, size)) = family.at(own) else { return Ok(None) };
    if sound(store, coll, object, size)?.is_none() {
        return Ok(None);
    }
    let name = |place: usize| family.at(place).map(|(snap, size)| (place, family.head.with_snap(snap), size));
    let is_there = |named: &(usize, HObject, u64)| has(&named.1);
    let newer = own + 1..=family.snapset.clones.len();
    let newer = newer.take(NEIGHBOURS_MAX).filter_map(name).find(is_there);
    let newer =
        newer.or_else(|| name(family.snapset.clones.len()).filter(|head| own < head.0 && is_there(head)));
    let older = (0..own).rev().take(NEIGHBOURS_MAX).filter_map(name).find(is_there);
    let mut best: Option<Shared> = None;
    for (place, neighbour, size) in newer.into_iter().chain(older) {
        let ranges = family.shared(own, place);
        let least = best.as_ref().map_or(SHARED_BYTES_MIN, |best| best.ranges.size() + 1);
        if ranges.size() < least {
            continue;
        }
        let Some(info) = sound(store, coll, &neighbour, size)? else { continue };
        let omap = store.omap_range(coll, &neighbour, std::ops::Bound::Unbounded, OMAP_MOST)?;
        if !OMAP_MOST.is_met_by(&omap) {
            let base = CloneBase { snap: neighbour.snap, version: info.version, head: family.head_version };
            best = Some(Shared { base, neighbour, ranges });
        }
    }
    Ok(best)
}

/// What an object began with, for its next part; none if that cannot be told any more.
fn chosen(
    store: &dyn ObjectStore,
    coll: CollId,
    object: &HObject,
    base: CloneBase,
) -> Result<Option<Shared>, NotCached> {
    let Some(family) = Family::of(store, coll, object)? else { return Ok(None) };
    // The same head has the same clones, and shares the same with them.
    let places = family.place(object.snap).zip(family.place(base.snap));
    let Some((own, other)) = places.filter(|_| family.head_version == base.head) else { return Ok(None) };
    let (neighbour, ranges) = (family.head.with_snap(base.snap), family.shared(own, other));
    Ok(Some(Shared { base, neighbour, ranges }))
}

/// What makes an object that begins with a neighbour, before its own contents come.
pub(super) fn begin(txn: &mut Transaction, object: &HObject, neighbour: &HObject) {
    txn.push(object, Mutation::CloneFrom { source: Box::new(neighbour.clone()) });
    txn.push(object, Mutation::ClearXattrs);
    txn.push(object, Mutation::OmapClear);
}

/// True if a first part begins as [`MPgPush::begin`] says, and no part contains a clone otherwise.
pub(crate) fn begins_as_said(push: &MPgPush) -> bool {
    let is_clone = |op: &TxnOp| matches!(op, TxnOp::Object(_, Mutation::CloneFrom { .. }));
    let base = push.begin.base.filter(|_| push.begin.is_begin());
    let Some(base) = base else { return !push.txn.ops.iter().any(is_clone) };
    let neighbour = push.object.with_snap(base.snap);
    let is_said = match push.txn.ops.first() {
        Some(TxnOp::Object(object, Mutation::CloneFrom { source })) => {
            *object == push.object && **source == neighbour && neighbour != push.object
        }
        _ => false,
    };
    is_said && !push.txn.ops.iter().skip(1).any(is_clone)
}

impl Pg {
    /// What a push, or the next part of it, begins with, and need not bring.
    pub(super) fn base_of(&self, push: &Push, store: &dyn ObjectStore) -> Result<Base, NotCached> {
        let (object, coll) = (&push.object, self.coll);
        let is_here = |object: &HObject| !self.missing.contains_key(object);
        let with = |shared: Option<Shared>, or| Ok(shared.map_or(or, Base::With));
        // Only the head says what is shared.
        let can_tell = is_here(&object.head());
        match (&push.begin.base, &push.lacks) {
            (None, _) if !push.begin.is_begin() => Ok(Base::Nothing),
            (Some(_), _) if !push.begin.is_begin() && !can_tell => Ok(Base::Outdated),
            (Some(base), _) if !push.begin.is_begin() => {
                with(chosen(store, coll, object, *base)?, Base::Outdated)
            }
            (_, Lacks::These(lacks)) if can_tell && push.need != EVersion::ZERO => {
                let has = |object: &HObject| is_here(object) && !lacks.contains(&object.snap);
                with(choose(store, coll, object, &has)?, Base::Nothing)
            }
            (_, Lacks::OfMember) if can_tell && self.recovery.takes_clones.contains(&push.to) => {
                // What is on its way to the member is lacking there until the member says that it has come.
                let Some(missing) = self.peer_missing.get(&push.to) else { return Ok(Base::Nothing) };
                let has = |object: &HObject| is_here(object) && !missing.contains_key(object);
                with(choose(store, coll, object, &has)?, Base::Nothing)
            }
            _ => Ok(Base::Nothing),
        }
    }

    /// What this copy lacks of an object's family, for a pull of it. None if the object is to be sent whole: as there
    /// is too much to name, or as the copy here may be bad.
    pub(super) fn lacks_beside(
        &self,
        object: &HObject,
        need: EVersion,
        store: &dyn ObjectStore,
    ) -> Option<Vec<SnapId>> {
        // What is not at hand is looked up when the push arrives.
        if self.may_be_bad(object, need, store).unwrap_or(false) {
            return None;
        }
        let head = object.head();
        let lacks: Vec<SnapId> =
            lacked(&self.missing, &head).map(|(object, _)| object.snap).take(LACKS_MAX + 1).collect();
        (lacks.len() <= LACKS_MAX).then_some(lacks)
    }

    /// True if this copy lacks the object because it was found to be bad. As clones share blocks, a neighbour that is
    /// not known as bad may have the same bad blocks: what began with it would be bad again. After a restart, bad
    /// copies are known by their version, as what is lacked for other reasons is not here, or is here in another one.
    fn may_be_bad(
        &self,
        object: &HObject,
        need: EVersion,
        store: &dyn ObjectStore,
    ) -> Result<bool, NotCached> {
        if self.recovery.bad.contains(object) {
            return Ok(true);
        }
        Ok(match exec::info_at(store, self.coll, object)? {
            Kept::Known(info) => info.version >= need,
            Kept::Undecodable => true,
            Kept::Absent => store.meta(self.coll, object)?.is_some(),
        })
    }

    /// True if what was pushed may begin with the neighbour that it names.
    fn may_begin_with(
        &self,
        object: &HObject,
        version: EVersion,
        base: CloneBase,
        store: &dyn ObjectStore,
    ) -> Result<bool, NotCached> {
        let neighbour = object.with_snap(base.snap);
        // What the neighbour is now decides, as transactions are applied in the order of their submission.
        let is_same = match exec::info_at(store, self.coll, &neighbour)? {
            Kept::Known(info) => info.version == base.version && info.manifest.is_none(),
            Kept::Absent | Kept::Undecodable => false,
        };
        let is_usable = is_same && neighbour != *object && !self.missing.contains_key(&neighbour);
        Ok(is_usable && !self.may_be_bad(object, version, store)?)
    }

    /// True if a push makes the object whatever it begins with. One that begins with what is not here as the sender has
    /// it does not.
    pub(super) fn may_take(&self, push: &MPgPush, store: &dyn ObjectStore) -> Result<bool, NotCached> {
        match push.begin.base.filter(|_| push.begin.is_begin()) {
            Some(base) => self.may_begin_with(&push.object, push.version, base, store),
            None => Ok(true),
        }
    }

    /// An object came, or a part of it. What it begins with may have to be looked up first.
    pub(crate) fn on_push(&mut self, from: OsdId, push: MPgPush, ctx: &mut Ctx<'_>) {
        self.on_arrived(Arrived { from, push, loads: Vec::new(), has_failed: false }, ctx);
    }

    fn on_arrived(&mut self, arrived: Arrived, ctx: &mut Ctx<'_>) {
        if let Err(missing) = self.may_take(&arrived.push, ctx.store)
            && !arrived.has_failed
        {
            let token = self.token(Pending::BaseRead(Box::new(arrived)));
            return ctx.store.load(token, missing);
        }
        let Arrived { from, push, loads, .. } = arrived;
        self.take_push(from, push, !loads.is_empty(), ctx);
        loads.into_iter().for_each(|token| ctx.store.unload(token));
    }

    /// What is known of a neighbour has been loaded, or cannot be.
    pub(crate) fn on_base_read(&mut self, mut arrived: Arrived, completion: Completion, ctx: &mut Ctx<'_>) {
        arrived.loads.push(completion.token());
        arrived.has_failed = !matches!(completion, Completion::Loaded(_, Ok(())));
        self.on_arrived(arrived, ctx);
    }

    /// Has an object sent from its beginning, with all that it has.
    pub(super) fn ask_whole(&self, from: OsdId, object: HObject, version: EVersion, ctx: &mut Ctx<'_>) {
        tracing::debug!(pg = %self.pgid, %object, "a push begins with what is not here");
        let (begin, lacks) = (ObjectCursor::default(), None);
        let message = MPgPull { pgid: self.pgid, epoch: ctx.map.epoch, object, version, begin, lacks };
        ctx.effects.push(Effect::SendOsd(from, message.into()));
    }
}
