//! How much memory an OSD may use: `osd_memory_target` and `bluestore_cache_size`.
//!
//! The target bounds what the process really holds, as the kernel counts it: caches give way before it is reached, and
//! what they leave is not at once the kernel's again. So a tenth below the target is what is aimed at, and from a
//! little below that on the allocator is to keep nothing that is free, which costs time. Far from the target this costs
//! nothing. The data cache has a quarter of what the target leaves above half a GiB, unless `bluestore_cache_size` says
//! otherwise, and is the first to give way, down to a modest size. Pages of the store's index may take most of the
//! rest. Where the kernel allows the process less than the target, that limit, less a reserve, takes its place.

use std::sync::OnceLock;

use anyhow::{Context, Result};
use osd::Shard;
use store::ObjectStore;
use types::EntityName;

use crate::{ceph_conf::CephConf, size};

/// Ceph's default of `osd_memory_target`.
const TARGET_BYTES_DEFAULT: u64 = 4 << 30;
/// The data cache of a small target, which a larger one gives way down to for the index.
const CACHE_BYTES_MODEST: u64 = 32 << 20;
/// The least that a cache is shrunk to.
const CACHE_BYTES_MIN: u64 = 1 << 20;
/// The modest data cache and pending writes have at most such a part of the target.
const CACHE_PART: u64 = 16;
const PENDING_PART: u64 = 16;
/// What clients have not taken of their answers has at most such a part.
const QUEUED_PART: u64 = 2;
/// What the index and the rest need before the data cache has more, and then such a part of what is above.
const CACHE_FROM: u64 = 512 << 20;
const CACHE_PART_ABOVE: u64 = 4;
/// The index begins with so many eighths of the target, has never less than one, and at most six.
const INDEX_BEGINNING: u64 = 4;
const INDEX_MAX: u64 = 6;
/// Parts of the target, in 32ths: above which data gives way, what is aimed at, below which the index grows, from which
/// on the allocator keeps nothing, and below which it may again.
const DATA_GIVES_WAY: u64 = 30;
const AIM: u64 = 29;
const GROW_BELOW: u64 = 27;
const EAGER_FROM: u64 = 26;
const LAZY_BELOW: u64 = 22;
/// Of what a control group may hold (`osd_memory_target_cgroup_limit_ratio`), in tenths.
const CGROUP_TENTHS: u64 = 8;

/// Told true, again and again, while the process' allocator is to give back what is free, and false when it may keep
/// that for a while.
static ALLOCATOR: OnceLock<fn(bool)> = OnceLock::new();

/// Sets the function that tells the allocator of this program how eagerly to give memory back. Only the first call
/// counts.
pub fn set_allocator(tell: fn(bool)) {
    ALLOCATOR.get_or_init(|| tell);
}

/// What governs the cache of one OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    target: u64,
    cache_max: u64,
    cache: u64,
    /// What the index' pages may take.
    index: u64,
    /// Shards that the caches are divided between.
    sharers: u64,
    /// What the kernel allows, if it says.
    limit: u64,
    /// What the process held when it was looked at last.
    seen: u64,
    /// True while the allocator keeps nothing.
    is_eager: bool,
}

/// What the caches of a shard may hold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheSizes {
    /// Data.
    pub(crate) data: u64,
    /// Pages of the index.
    pub(crate) index: u64,
    /// Small writes that are not in their places.
    pub(crate) pending: u64,
}

impl Memory {
    /// Reads the options for `who`.
    pub(crate) fn read(conf: &CephConf, who: &EntityName) -> Result<Memory> {
        let option = |name: &str| match conf.get(who, name) {
            Some(text) => size::parse(&text).map(Some).with_context(|| format!("{name} = {text}")),
            None => Ok(None),
        };
        let mut memory = Memory::unset();
        memory.apply(option("osd memory target")?, option("bluestore cache size")?);
        Ok(memory)
    }

    /// The memory of an OSD with this target, in bytes.
    pub(crate) fn with_target(bytes: u64) -> Memory {
        let mut memory = Memory::unset();
        memory.apply(Some(bytes), None);
        memory
    }

    fn unset() -> Memory {
        Memory {
            target: TARGET_BYTES_DEFAULT,
            cache_max: 0,
            cache: 0,
            index: 0,
            sharers: 1,
            limit: reactor::memory_limit_bytes().map_or(u64::MAX, |bytes| bytes / 10 * CGROUP_TENTHS),
            seen: u64::MAX,
            is_eager: false,
        }
    }

    /// Takes new values of the two options, in bytes; None is the default.
    pub(crate) fn set(&mut self, target: Option<String>, cache: Option<String>) {
        let number = |text: Option<String>| text?.parse().ok();
        self.apply(number(target), number(cache));
    }

    fn apply(&mut self, target: Option<u64>, cache: Option<u64>) {
        let target = target.unwrap_or(TARGET_BYTES_DEFAULT).min(self.limit);
        if target != self.target || self.index == 0 {
            self.target = target;
            self.index = self.share() / 8 * INDEX_BEGINNING;
        }
        // 0 means in Ceph that the size is chosen by itself.
        let by_itself = modest_cache(target).max(target.saturating_sub(CACHE_FROM) / CACHE_PART_ABOVE);
        let cache_max = cache.filter(|bytes| *bytes > 0).unwrap_or(by_itself) / self.sharers;
        // A cache that gave way goes on from where it is.
        self.cache = if self.cache == self.cache_max { cache_max } else { self.cache.min(cache_max) };
        self.cache_max = cache_max;
    }

    /// The share of one shard.
    pub(crate) fn for_shard(mut self, shard: Shard) -> Memory {
        self.sharers = u64::from(shard.count);
        self.cache_max /= self.sharers;
        self.cache = self.cache_max;
        self.index /= self.sharers;
        self
    }

    fn share(&self) -> u64 {
        self.target / self.sharers
    }

    /// What the caches may hold.
    pub(crate) fn sizes(&self) -> CacheSizes {
        let pending = (self.share() / PENDING_PART).min(store::Config::default().pending_bytes_max);
        CacheSizes { data: self.cache, index: self.index, pending }
    }

    /// What may wait to be sent to all clients of a shard, in bytes.
    pub(crate) fn queued_bytes_max(&self) -> usize {
        usize::try_from(self.share() / QUEUED_PART).unwrap_or(usize::MAX)
    }

    /// A store's settings with what its caches may hold.
    pub(crate) fn configure(&self, config: store::Config) -> store::Config {
        let CacheSizes { data, index, pending } = self.sizes();
        store::Config { cache_bytes_max: data, index_bytes_max: index, pending_bytes_max: pending, ..config }
    }

    /// True if the process is near its target: it had better be looked at often.
    pub(crate) fn is_near(&self) -> bool {
        self.is_eager
    }

    /// Looks at what the process holds, and has the store's caches keep to what they may hold.
    pub(crate) fn govern(&mut self, store: &mut store::Store) {
        let Some(resident) = reactor::resident_bytes() else { return };
        let was_eager = self.is_eager;
        self.adjust(resident, store.index_memory().bytes, store.cached().data.bytes);
        if let Some(tell) = ALLOCATOR.get().filter(|_| self.is_eager || was_eager) {
            tell(self.is_eager);
        }
        // Even if they are what they were: a cache that is above its size shrinks step by step.
        self.sizes().apply(store);
    }

    /// Looks at what the process holds, of which the shard's index and data cache are `index` and `data`, and
    /// changes the caches' sizes.
    fn adjust(&mut self, resident: u64, index: u64, data: u64) {
        // What has grown since the last look will have grown as much again by the next one.
        let growth = resident.saturating_sub(std::mem::replace(&mut self.seen, resident));
        let resident = resident.saturating_add(growth);
        let part = |count: u64| self.target / 32 * count;
        let (aim, grow_below) = (part(AIM), part(GROW_BELOW));
        self.is_eager = resident > part(if self.is_eager { LAZY_BELOW } else { EAGER_FROM });
        let modest = (modest_cache(self.target) / self.sharers).min(self.cache_max);
        if resident > aim {
            // What is above goes at once, and a little more; memory that was let go of leaves the process later.
            let excess = (resident - aim) / self.sharers;
            let held = self.cache.min(data);
            let less = held.saturating_sub(modest).min(excess + held / 64);
            if less > 0 {
                self.cache = held - less;
            }
            if excess > less {
                let less = self.index.min(index).saturating_sub((excess - less) / 2 + self.index / 64);
                self.index = less.max(self.share() / 8).min(self.index);
            }
        } else if resident < grow_below && index > self.index / 10 * 9 {
            let spare = (aim - resident) / self.sharers;
            self.index = (self.index + spare / 16).min(self.share() / 8 * INDEX_MAX);
        }
        if resident > part(DATA_GIVES_WAY) {
            self.cache = (self.cache / 2).max(CACHE_BYTES_MIN.min(self.cache_max));
        } else if resident < if self.cache < modest { aim } else { grow_below } {
            self.cache = (self.cache + self.cache / 4).min(self.cache_max);
        }
    }
}

/// The data cache of a target when there is little to spare.
fn modest_cache(target: u64) -> u64 {
    CACHE_BYTES_MODEST.min(target / CACHE_PART)
}

impl CacheSizes {
    /// Tells the store.
    pub(crate) fn apply(self, store: &mut store::Store) {
        store.set_cache_bytes(self.data);
        store.set_index_bytes(self.index);
        store.set_pending_bytes(self.pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(target: &str) -> Memory {
        let conf =
            CephConf::parse(&format!("[osd]\nosd memory target = {target}\nbluestore_cache_size = 64M"));
        Memory::read(&conf.unwrap(), &EntityName::parse("osd.0").unwrap()).unwrap()
    }

    /// A look that finds the data cache as full as it may be.
    fn look(memory: &mut Memory, resident_mib: u64, index: u64) -> CacheSizes {
        memory.adjust(resident_mib << 20, index, memory.sizes().data);
        memory.sizes()
    }

    #[test]
    fn the_data_cache_gives_way_and_comes_back() {
        let mut memory = memory("1G");
        assert_eq!(memory.sizes().data, 64 << 20);
        let seen = [2048, 2048, 950, 100].map(|mib| look(&mut memory, mib, 0).data >> 20);
        assert_eq!(seen, [16, 8, 8, 10]);
        (0..20).for_each(|_| _ = look(&mut memory, 100, 0));
        assert_eq!(memory.sizes().data, 64 << 20);
        (0..20).for_each(|_| _ = look(&mut memory, 2048, 0));
        assert_eq!(memory.sizes().data, 1 << 20);
        memory.set(Some("4294967296".to_owned()), Some("0".to_owned()));
        assert_eq!(memory.sizes().data, 1 << 20);
        (0..40).for_each(|_| _ = look(&mut memory, 2048, 0));
        assert_eq!(memory.sizes().data, 896 << 20);
    }

    #[test]
    fn a_large_data_cache_goes_before_the_index_does_but_for_a_modest_part() {
        let mut memory = Memory::with_target(4 << 30);
        let index = memory.sizes().index;
        let sizes = look(&mut memory, 3_800, index);
        assert_eq!((sizes.data >> 20, sizes.index), (896 - 88 - 14, index));
        assert_eq!(look(&mut memory, 3_600, index), sizes, "neither above what is aimed at nor much below");
        (0..9).for_each(|_| _ = look(&mut memory, 4_000, index));
        assert!(memory.sizes().data < 32 << 20 && memory.sizes().index < index);
        let mut memory = Memory::with_target(4 << 30);
        memory.adjust(3_800 << 20, index, 0);
        assert!(memory.sizes().index < index, "there is no data to let go of");
    }

    #[test]
    fn the_index_grows_into_what_is_spare_and_gives_way_above_the_target() {
        let mut memory = memory("1G");
        let begin = memory.sizes().index;
        assert_eq!(begin, 512 << 20);
        // It is not full: nothing to be gained.
        memory.adjust(400 << 20, begin / 2, 0);
        assert_eq!(memory.sizes().index, begin);
        (0..80).for_each(|_| memory.adjust(700 << 20, memory.sizes().index, 0));
        assert_eq!(memory.sizes().index, 768 << 20);
        memory.adjust(1500 << 20, 700 << 20, 0);
        assert!(memory.sizes().index < 600 << 20);
        (0..200).for_each(|_| memory.adjust(1500 << 20, memory.sizes().index, 0));
        assert_eq!(memory.sizes().index, 128 << 20);
        let shard = Shard { index: 1, count: 4 };
        assert_eq!(
            self::memory("1G").for_shard(shard).sizes(),
            CacheSizes { data: 16 << 20, index: 128 << 20, pending: 16 << 20 }
        );
    }

    #[test]
    fn the_allocator_keeps_nothing_near_the_target_and_may_far_from_it() {
        let mut memory = memory("1600M");
        let mut is_eager = |mib: u64| {
            memory.adjust(mib << 20, 0, 0);
            memory.is_near()
        };
        assert_eq!(
            [1250, 1310, 1250, 1110, 1090, 1150].map(&mut is_eager),
            [false, true, true, true, false, false]
        );
    }

    #[test]
    fn what_grows_fast_is_met_before_it_is_there() {
        let index_after = |held: [u64; 2]| {
            let mut memory = memory("1600M");
            for mib in held {
                memory.adjust(mib << 20, 800 << 20, 0);
            }
            memory.sizes().index >> 20
        };
        assert_eq!(index_after([1390, 1400]), 800);
        assert!(index_after([1300, 1460]) < 750, "1,620 MiB by the next look");
    }

    #[test]
    fn small_targets_leave_less_for_data_and_pending_writes() {
        let sizes = |mib: u64| Memory::with_target(mib << 20).sizes();
        let (small, default) = (sizes(192), sizes(4096));
        assert_eq!((small.data, small.pending, small.index), (12 << 20, 12 << 20, 96 << 20));
        assert_eq!((default.data, default.pending), (896 << 20, 64 << 20));
        assert_eq!(sizes(1024).data, 128 << 20);
    }

    #[test]
    fn nonsense_is_refused_and_others_have_the_default() {
        let conf = CephConf::parse("[osd.1]\nosd_memory_target = x").unwrap();
        let who = |name| EntityName::parse(name).unwrap();
        assert!(Memory::read(&conf, &who("osd.1")).is_err());
        assert_eq!(Memory::read(&conf, &who("mon.a")).unwrap().sizes().data, 896 << 20);
    }
}
