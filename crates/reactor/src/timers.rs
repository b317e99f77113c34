//! Timers, earliest first; one per key.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Deadlines by key. Equal deadlines fire in key order.
pub(crate) struct Timers<K> {
    queue: BTreeSet<(u64, K)>,
    deadlines: BTreeMap<K, u64>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Timers { queue: BTreeSet::new(), deadlines: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Timers<K> {
    /// Sets `key` to fire at `at`, instead of when it would have fired before.
    pub(crate) fn set(&mut self, key: K, at: u64) {
        self.cancel(key);
        self.deadlines.insert(key, at);
        self.queue.insert((at, key));
    }

    /// Forgets `key`; false if it was not set.
    pub(crate) fn cancel(&mut self, key: K) -> bool {
        match self.deadlines.remove(&key) {
            Some(at) => self.queue.remove(&(at, key)),
            None => false,
        }
    }

    /// The earliest key that is due, which is unset with that.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<K> {
        let &(at, key) = self.queue.first()?;
        (at <= now).then(|| self.cancel(key)).map(|_| key)
    }

    /// Time until the earliest is due; zero if it is.
    pub(crate) fn wait(&self, now: impl FnOnce() -> u64) -> Option<Duration> {
        let (at, _) = self.queue.first()?;
        Some(Duration::from_nanos(at.saturating_sub(now())))
    }
}
