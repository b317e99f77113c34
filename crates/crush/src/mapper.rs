//! Rules: from an input to the devices that hold it (`crush_do_rule`).

use std::{cell::Cell, collections::BTreeMap};

use crate::{
    choose::{choose, permuted},
    hash::crush_hash32_2,
    map::{Bucket, BucketAlg, ChooseArg, CrushMap, WEIGHT_ONE, step},
};

/// `CRUSH_ITEM_NONE`: a place that no item fills.
pub const ITEM_NONE: i32 = 0x7fff_ffff;
/// `CRUSH_ITEM_UNDEF`: a place not filled yet.
const ITEM_UNDEF: i32 = 0x7fff_fffe;

/// The most work for one input. A map may ask for any number of attempts, and stock clients make them all; what asks
/// for this many finds nothing in a useful time. A choice among 10,000 devices at once may still be made 1,600 times.
const WORK_MAX: u64 = 1 << 24;

/// What stays the same during one rule.
struct Mapper<'a> {
    map: &'a CrushMap,
    weights: &'a [u32],
    x: u32,
    args: Option<&'a BTreeMap<u32, ChooseArg>>,
    tries: Tries,
    /// The work that may still be done.
    left: Cell<u64>,
}

#[derive(Clone, Copy)]
struct Tries {
    total: u32,
    leaf: u32,
    local: u32,
    local_fallback: u32,
    vary_r: u32,
    is_stable: bool,
}

/// What one call of `firstn` or `indep` looks for.
#[derive(Clone, Copy)]
struct Wanted {
    count: u32,
    kind: i32,
    tries: u32,
    leaf_tries: u32,
    is_leaf: bool,
    parent_r: u32,
}

impl CrushMap {
    /// The devices that rule `rule` chooses for input `x`: at most `count`, [`ITEM_NONE`] where a position of an
    /// `indep` rule stays empty. `weights` are the devices' reweights (16.16), `args` other weights for the buckets.
    /// Empty for a rule that does not exist. A rule that would try on for seconds ends with what it has found.
    pub fn do_rule(
        &self,
        rule: u8,
        x: u32,
        count: usize,
        weights: &[u32],
        args: Option<&BTreeMap<u32, ChooseArg>>,
    ) -> Vec<i32> {
        self.mapper(x, weights, args, WORK_MAX).run(rule, count)
    }

    /// The work of [`do_rule`](Self::do_rule) with these arguments: the items that it weighs, and its attempts.
    /// [`None`] if it takes `limit` or more.
    pub fn rule_work(
        &self,
        rule: u8,
        x: u32,
        count: usize,
        weights: &[u32],
        args: Option<&BTreeMap<u32, ChooseArg>>,
        limit: u64,
    ) -> Option<u64> {
        let mut mapper = self.mapper(x, weights, args, limit);
        mapper.run(rule, count);
        (!mapper.is_spent()).then(|| limit - mapper.left.get())
    }

    fn mapper<'a>(
        &'a self,
        x: u32,
        weights: &'a [u32],
        args: Option<&'a BTreeMap<u32, ChooseArg>>,
        work_max: u64,
    ) -> Mapper<'a> {
        let t = &self.tunables;
        let tries = Tries {
            // The tunable counts retries.
            total: t.choose_total_tries.saturating_add(1),
            leaf: 0,
            local: t.choose_local_tries,
            local_fallback: t.choose_local_fallback_tries,
            vary_r: u32::from(t.chooseleaf_vary_r),
            is_stable: t.chooseleaf_stable != 0,
        };
        Mapper { map: self, weights, x, args, tries, left: Cell::new(work_max) }
    }

    fn can_take(&self, id: i32) -> bool {
        (0..self.max_devices).contains(&id) || self.bucket(id).is_some()
    }
}

impl Tries {
    fn set(&mut self, op: u32, value: i32) {
        let Ok(value) = u32::try_from(value) else { return };
        match op {
            step::SET_CHOOSE_TRIES if value > 0 => self.total = value,
            step::SET_CHOOSELEAF_TRIES if value > 0 => self.leaf = value,
            step::SET_CHOOSE_LOCAL_TRIES => self.local = value,
            step::SET_CHOOSE_LOCAL_FALLBACK_TRIES => self.local_fallback = value,
            step::SET_CHOOSELEAF_VARY_R => self.vary_r = value,
            step::SET_CHOOSELEAF_STABLE => self.is_stable = value != 0,
            _ => {}
        }
    }
}

impl Mapper<'_> {
    fn run(&mut self, rule: u8, count: usize) -> Vec<i32> {
        let Some(rule) = self.map.rule(rule) else { return Vec::new() };
        let (mut working, mut result) = (Vec::new(), Vec::new());
        for s in &rule.steps {
            match s.op {
                step::TAKE if self.map.can_take(s.arg1) => working = vec![s.arg1],
                step::EMIT => {
                    let room = count - result.len();
                    result.extend(working.drain(..).take(room));
                }
                step::CHOOSE_FIRSTN
                | step::CHOOSELEAF_FIRSTN
                | step::CHOOSE_INDEP
                | step::CHOOSELEAF_INDEP => {
                    working = self.choose_step(s.op, s.arg1, s.arg2, &working, count);
                }
                op => self.tries.set(op, s.arg1),
            }
        }
        result
    }

    /// Counts the work of one choice in a bucket, or of an attempt that finds it empty.
    fn spend(&self, bucket: &Bucket) {
        self.left.set(self.left.get().saturating_sub(bucket.items.len() as u64 + 1));
    }

    fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// A choose step: for each bucket at hand, `number` items of type `kind` below it.
    fn choose_step(&self, op: u32, number: i32, kind: i32, working: &[i32], result_max: usize) -> Vec<i32> {
        let is_firstn = matches!(op, step::CHOOSE_FIRSTN | step::CHOOSELEAF_FIRSTN);
        let is_leaf = matches!(op, step::CHOOSELEAF_FIRSTN | step::CHOOSELEAF_INDEP);
        // Zero and less count from the number of results wanted.
        let number = if number > 0 { i64::from(number) } else { i64::from(number) + result_max as i64 };
        let (mut chosen, mut leaves) = (Vec::new(), Vec::new());
        for bucket in working.iter().filter_map(|id| self.map.bucket(*id)) {
            let Some(count) = u32::try_from(number).ok().filter(|n| *n > 0) else { continue };
            let room = result_max - chosen.len();
            let leaf_tries = match (self.tries.leaf, is_firstn) {
                (0, true) if self.map.tunables.chooseleaf_descend_once == 0 => self.tries.total,
                (0, _) => 1,
                (tries, _) => tries,
            };
            let wanted = Wanted { count, kind, tries: self.tries.total, leaf_tries, is_leaf, parent_r: 0 };
            let (mut out, mut out_leaves) = (Vec::new(), Vec::new());
            if is_firstn {
                self.firstn(bucket, wanted, &mut out, room, Some(&mut out_leaves));
                // A device that turned out to be out may be left behind the last item.
                out_leaves.truncate(out.len());
            } else {
                let size = room.min(count as usize);
                out = vec![ITEM_UNDEF; size];
                out_leaves = vec![ITEM_UNDEF; size];
                self.indep(bucket, wanted, &mut out, 0..size, Some(&mut out_leaves));
            }
            chosen.append(&mut out);
            leaves.append(&mut out_leaves);
        }
        if is_leaf { leaves } else { chosen }
    }

    fn arg(&self, bucket: &Bucket) -> Option<&ChooseArg> {
        self.args?.get(&u32::try_from(-1 - bucket.id).ok()?)
    }

    /// The type of an item that exists.
    fn kind_of(&self, item: i32) -> Option<i32> {
        if item >= 0 {
            return (item < self.map.max_devices).then_some(0);
        }
        self.map.bucket(item).map(|b| i32::from(b.kind))
    }

    /// True for a device that counts as out for this input because of its reweight.
    fn is_out(&self, device: i32) -> bool {
        match usize::try_from(device).ok().and_then(|at| self.weights.get(at)) {
            None | Some(0) => true,
            Some(weight) if *weight >= WEIGHT_ONE => false,
            Some(weight) => crush_hash32_2(self.x, device as u32) & 0xffff >= *weight,
        }
    }

    /// Appends to `out` until it has `wanted.count` entries more than holes, in `room` at most.
    /// With `leaves`, a device below each item goes there at the same place.
    fn firstn(
        &self,
        top: &Bucket,
        wanted: Wanted,
        out: &mut Vec<i32>,
        room: usize,
        mut leaves: Option<&mut Vec<i32>>,
    ) {
        let first = if self.tries.is_stable { 0 } else { out.len() as u32 };
        let mut room = room;
        for rep in first..wanted.count {
            if room == 0 || self.is_spent() {
                break;
            }
            if let Some(item) = self.firstn_one(top, wanted, rep, out, room, leaves.as_deref_mut()) {
                out.push(item);
                room -= 1;
            }
        }
    }

    /// One item that is neither out nor chosen already.
    fn firstn_one(
        &self,
        top: &Bucket,
        wanted: Wanted,
        rep: u32,
        out: &[i32],
        room: usize,
        mut leaves: Option<&mut Vec<i32>>,
    ) -> Option<i32> {
        let mut failed_total = 0u32;
        loop {
            let (mut bucket, mut failed_local) = (top, 0u32);
            // Down through the hierarchy; back to the top after a failure that is not retried here.
            loop {
                self.spend(bucket);
                if self.is_spent() {
                    return None;
                }
                let r = rep.wrapping_add(wanted.parent_r).wrapping_add(failed_total);
                let item = match self.firstn_item(bucket, r, failed_local, out.len()) {
                    Some(item) => {
                        let kind = self.kind_of(item)?;
                        if kind != wanted.kind {
                            bucket = self.map.bucket(item)?;
                            continue;
                        }
                        Some(item)
                    }
                    None => None,
                };
                let is_collision = item.is_some_and(|item| out.contains(&item));
                if let Some(item) = item
                    && !is_collision
                    && self.firstn_accepts(item, wanted, r, out.len(), room, leaves.as_deref_mut())
                {
                    return Some(item);
                }
                failed_total += 1;
                failed_local += 1;
                let size = bucket.items.len() as u32;
                let fallback = self.tries.local_fallback;
                if (is_collision && failed_local <= self.tries.local)
                    || (fallback > 0 && failed_local <= size.saturating_add(fallback))
                {
                    continue;
                }
                break;
            }
            if failed_total >= wanted.tries {
                return None;
            }
        }
    }

    fn firstn_item(&self, bucket: &Bucket, r: u32, failed_local: u32, position: usize) -> Option<i32> {
        let size = bucket.items.len() as u32;
        if size == 0 {
            return None;
        }
        let fallback = self.tries.local_fallback;
        let is_exhaustive = fallback > 0 && failed_local >= size >> 1 && failed_local > fallback;
        Some(if is_exhaustive {
            permuted(bucket, self.x, r)
        } else {
            choose(bucket, self.x, r, self.arg(bucket), position)
        })
    }

    /// True when the item is usable: a leaf was found below it, or it is a device that is not out.
    fn firstn_accepts(
        &self,
        item: i32,
        wanted: Wanted,
        r: u32,
        position: usize,
        room: usize,
        leaves: Option<&mut Vec<i32>>,
    ) -> bool {
        if wanted.is_leaf
            && let Some(leaves) = leaves
        {
            leaves.truncate(position);
            match self.map.bucket(item) {
                Some(below) => {
                    let parent_r = match self.tries.vary_r {
                        0 => 0,
                        vary => r >> (vary - 1).min(31),
                    };
                    let count = if self.tries.is_stable { 1 } else { position as u32 + 1 };
                    let leaf = Wanted {
                        count,
                        kind: 0,
                        tries: wanted.leaf_tries,
                        leaf_tries: 0,
                        is_leaf: false,
                        parent_r,
                    };
                    self.firstn(below, leaf, leaves, room, None);
                    if leaves.len() <= position {
                        return false;
                    }
                }
                None => leaves.push(item),
            }
        }
        wanted.kind != 0 || !self.is_out(item)
    }

    /// Fills `places` of `out`, each independently of the others; [`ITEM_NONE`] where none is found.
    fn indep(
        &self,
        top: &Bucket,
        wanted: Wanted,
        out: &mut [i32],
        places: std::ops::Range<usize>,
        mut leaves: Option<&mut [i32]>,
    ) {
        out[places.clone()].fill(ITEM_UNDEF);
        if let Some(leaves) = leaves.as_deref_mut() {
            leaves[places.clone()].fill(ITEM_UNDEF);
        }
        for failed in 0..wanted.tries {
            if self.is_spent() || !out[places.clone()].contains(&ITEM_UNDEF) {
                break;
            }
            for place in places.clone() {
                if out[place] == ITEM_UNDEF {
                    self.indep_one(top, wanted, failed, out, &places, place, leaves.as_deref_mut());
                }
            }
        }
        let close = |list: &mut [i32]| {
            list.iter_mut().filter(|item| **item == ITEM_UNDEF).for_each(|item| *item = ITEM_NONE);
        };
        close(&mut out[places.clone()]);
        if let Some(leaves) = leaves {
            close(&mut leaves[places]);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one attempt of a recursion with two outputs")]
    fn indep_one(
        &self,
        top: &Bucket,
        wanted: Wanted,
        failed: u32,
        out: &mut [i32],
        places: &std::ops::Range<usize>,
        place: usize,
        mut leaves: Option<&mut [i32]>,
    ) {
        let mut bucket = top;
        loop {
            self.spend(bucket);
            if self.is_spent() || bucket.items.is_empty() {
                return;
            }
            // Positions must not repeat each other's attempts in a bucket whose size they divide.
            let is_uniform = matches!(bucket.alg, BucketAlg::Uniform { .. });
            let divides = is_uniform && bucket.items.len().is_multiple_of(wanted.count as usize);
            let stride = if divides { wanted.count.wrapping_add(1) } else { wanted.count };
            let r = (place as u32).wrapping_add(wanted.parent_r).wrapping_add(stride.wrapping_mul(failed));
            let item = choose(bucket, self.x, r, self.arg(bucket), places.start);
            match self.kind_of(item) {
                Some(kind) if kind == wanted.kind => {
                    if out[places.clone()].contains(&item) {
                        return;
                    }
                    if wanted.is_leaf
                        && let Some(leaves) = leaves.as_deref_mut()
                        && !self.indep_leaf(item, wanted, r, place, leaves)
                    {
                        return;
                    }
                    if kind != 0 || !self.is_out(item) {
                        out[place] = item;
                    }
                    return;
                }
                Some(kind) if kind != 0 => match self.map.bucket(item) {
                    Some(below) => bucket = below,
                    None => return,
                },
                Some(_) | None => {
                    out[place] = ITEM_NONE;
                    if let Some(leaves) = leaves {
                        leaves[place] = ITEM_NONE;
                    }
                    return;
                }
            }
        }
    }

    /// Finds a device below `item` for `place`; false when there is none.
    fn indep_leaf(&self, item: i32, wanted: Wanted, r: u32, place: usize, leaves: &mut [i32]) -> bool {
        let Some(below) = self.map.bucket(item) else {
            leaves[place] = item;
            return true;
        };
        let leaf = Wanted {
            kind: 0,
            tries: wanted.leaf_tries,
            leaf_tries: 0,
            is_leaf: false,
            parent_r: r,
            ..wanted
        };
        self.indep(below, leaf, leaves, place..place + 1, None);
        leaves[place] != ITEM_NONE
    }
}
