//! How much memory an OSD may use: `osd_memory_target` and `bluestore_cache_size`.
//!
//! The target bounds what the process really holds, as the kernel counts it: when it is above, the cache
//! gives way until it is below. The cache's own size is modest, since data that a client reads again
//! mostly sits in the client's cache; who wants more sets `bluestore_cache_size`.

use anyhow::{Context, Result};
use osd::Shard;
use types::EntityName;

use crate::{ceph_conf::CephConf, size};

/// Ceph's default of `osd_memory_target`.
const TARGET_BYTES_DEFAULT: u64 = 4 << 30;
/// The cache, unless `bluestore_cache_size` says otherwise.
const CACHE_BYTES_DEFAULT: u64 = 32 << 20;
/// The least that a cache is shrunk to.
const CACHE_BYTES_MIN: u64 = 1 << 20;

/// What governs the cache of one OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    target: u64,
    cache_max: u64,
    cache: u64,
    /// Shards that the cache is divided between.
    sharers: u64,
}

impl Memory {
    /// Reads the options for `who`.
    pub(crate) fn read(conf: &CephConf, who: &EntityName) -> Result<Memory> {
        let option = |name: &str| match conf.get(who, name) {
            Some(text) => size::parse(&text).map(Some).with_context(|| format!("{name} = {text}")),
            None => Ok(None),
        };
        let mut memory = Memory {
            target: TARGET_BYTES_DEFAULT,
            cache_max: CACHE_BYTES_DEFAULT,
            cache: CACHE_BYTES_DEFAULT,
            sharers: 1,
        };
        memory.apply(option("osd memory target")?, option("bluestore cache size")?);
        Ok(memory)
    }

    /// Takes new values of the two options, in bytes; None is the default.
    pub(crate) fn set(&mut self, target: Option<String>, cache: Option<String>) {
        let number = |text: Option<String>| text?.parse().ok();
        self.apply(number(target), number(cache));
    }

    fn apply(&mut self, target: Option<u64>, cache: Option<u64>) {
        self.target = target.unwrap_or(TARGET_BYTES_DEFAULT);
        // 0 means in Ceph that the size is chosen by itself.
        let cache_max = cache.filter(|bytes| *bytes > 0).unwrap_or(CACHE_BYTES_DEFAULT) / self.sharers;
        // A cache that gave way goes on from where it is.
        self.cache = if self.cache == self.cache_max { cache_max } else { self.cache.min(cache_max) };
        self.cache_max = cache_max;
    }

    /// The share of one shard.
    pub(crate) fn for_shard(mut self, shard: Shard) -> Memory {
        self.sharers = u64::from(shard.count);
        self.cache_max /= self.sharers;
        self.cache = self.cache_max;
        self
    }

    /// What the cache may hold.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.cache
    }

    /// Looks at what the process holds; the cache's new limit if it changes.
    pub(crate) fn tick(&mut self) -> Option<u64> {
        let resident = reactor::resident_bytes()?;
        self.adjust(resident)
    }

    fn adjust(&mut self, resident: u64) -> Option<u64> {
        let before = self.cache;
        if resident > self.target {
            self.cache = (self.cache / 2).max(CACHE_BYTES_MIN.min(self.cache_max));
        } else if resident < self.target / 10 * 9 {
            self.cache = (self.cache + self.cache / 4).min(self.cache_max);
        }
        (self.cache != before).then_some(self.cache)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_gives_way_and_comes_back() {
        let conf = CephConf::parse(
            "[osd]\nosd memory target = 1G\nbluestore_cache_size = 64M\n[osd.1]\nosd_memory_target = x",
        )
        .unwrap();
        let who = |name| EntityName::parse(name).unwrap();
        let mut memory = Memory::read(&conf, &who("osd.0")).unwrap();
        assert_eq!(memory.cache_bytes(), 64 << 20);
        assert_eq!(memory.adjust(2 << 30), Some(32 << 20));
        assert_eq!(memory.adjust(2 << 30), Some(16 << 20));
        assert_eq!(memory.adjust(1000 << 20), None);
        assert_eq!(memory.adjust(100 << 20), Some(20 << 20));
        (0..20).for_each(|_| _ = memory.adjust(100 << 20));
        assert_eq!(memory.cache_bytes(), 64 << 20);
        (0..20).for_each(|_| _ = memory.adjust(2 << 30));
        assert_eq!(memory.cache_bytes(), 1 << 20);
        memory.set(Some("4294967296".to_owned()), Some("0".to_owned()));
        assert_eq!(memory.cache_bytes(), 1 << 20);
        (0..20).for_each(|_| _ = memory.adjust(2 << 30));
        assert_eq!(memory.cache_bytes(), CACHE_BYTES_DEFAULT);
        assert!(Memory::read(&conf, &who("osd.1")).is_err());
        assert_eq!(Memory::read(&conf, &who("mon.a")).unwrap().cache_bytes(), CACHE_BYTES_DEFAULT);
    }
}
