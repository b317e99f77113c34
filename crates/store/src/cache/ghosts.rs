//! Places of segments that were evicted soon after they came: one that comes back is read again and again.

/// Places remembered by the least table, whatever the cache's limit.
const COUNT_MIN: u64 = 8192;
/// And by the largest: as many as 16 GiB have blocks.
const COUNT_MAX: u64 = 4 << 20;
/// Slots in which a place may be: one cache line.
const WAYS: usize = 8;
/// Odd, so that no two numbers have the same product.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The last places evicted, about as many as the cache may have blocks. In a table in which a place has but a few slots
/// that lie together, and drives the oldest out of them: so each step touches one cache line, where an exact set of
/// hundreds of thousands of places takes many. A few places are forgotten early, which costs them a turn in the short
/// queue.
#[derive(Debug)]
pub(super) struct Ghosts {
    /// A power of two. In each the tag of a place, by which those of a group are told apart, above the number of the
    /// eviction, which is 0 in an empty slot: one integer, as memory for zeros need not be written.
    slots: Vec<u64>,
    count_max: u64,
    /// Goes round, without 0.
    evictions: u32,
}

impl Ghosts {
    pub(super) fn new(blocks_max: u64) -> Ghosts {
        let count_max = blocks_max.clamp(COUNT_MIN, COUNT_MAX);
        Ghosts { slots: vec![0; count_max.next_power_of_two() as usize], count_max, evictions: 0 }
    }

    /// The cache may have so many blocks from now on. What is remembered is lost where that needs another table.
    pub(super) fn set_blocks_max(&mut self, blocks_max: u64) {
        let count_max = blocks_max.clamp(COUNT_MIN, COUNT_MAX);
        if count_max.next_power_of_two() == self.slots.len() as u64 {
            self.count_max = count_max;
        } else {
            *self = Ghosts::new(blocks_max);
        }
    }

    /// The slots in which the place may be, and its tag.
    fn group(&mut self, place: u64) -> (&mut [u64], u32) {
        // Places often lie at even distances: the second round spreads those that are multiples of a power of two.
        let once = place.wrapping_mul(SPREAD);
        let twice = (once ^ once >> u32::BITS).wrapping_mul(SPREAD);
        let groups = self.slots.len() / WAYS;
        let first = (twice >> (u64::BITS - groups.trailing_zeros())) as usize * WAYS;
        (&mut self.slots[first..][..WAYS], twice as u32)
    }

    /// How many evictions ago the one in this slot was; more than any number where it is empty.
    fn age(slot: u64, evictions: u32) -> u64 {
        if slot == 0 { u64::MAX } else { u64::from(evictions.wrapping_sub(slot as u32)) }
    }

    pub(super) fn remember(&mut self, place: u64) {
        let evictions = self.evictions.checked_add(1).unwrap_or(1);
        self.evictions = evictions;
        let (group, tag) = self.group(place);
        if let Some(oldest) = group.iter_mut().max_by_key(|slot| Self::age(**slot, evictions)) {
            *oldest = u64::from(tag) << u32::BITS | u64::from(evictions);
        }
    }

    /// Forgets the place: true if it was one of the last.
    pub(super) fn take(&mut self, place: u64) -> bool {
        let (evictions, count_max) = (self.evictions, self.count_max);
        let (group, tag) = self.group(place);
        let is_it = |slot: &&mut u64| **slot != 0 && (**slot >> u32::BITS) as u32 == tag;
        group
            .iter_mut()
            .find(is_it)
            .is_some_and(|slot| Self::age(std::mem::take(slot), evictions) < count_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_evicted_lately_is_remembered_once() {
        let mut ghosts = Ghosts::new(0);
        assert!(!ghosts.take(0) && !ghosts.take(7));
        ghosts.remember(7);
        ghosts.remember(0);
        assert!(ghosts.take(7) && !ghosts.take(7));
        assert!(ghosts.take(0) && !ghosts.take(0));
    }

    #[test]
    fn most_of_the_last_are_known_and_none_from_before_them() {
        let count = COUNT_MIN * 2;
        // Next to each other, far apart, and anywhere.
        for step in [1, 1 << 20, 0x5_deec_e66d] {
            let mut ghosts = Ghosts::new(count);
            (0..count * 3).for_each(|at| ghosts.remember(at * step));
            let known = (0..count * 3).map(|at| ghosts.take(at * step)).collect::<Vec<_>>();
            let of_last = known[count as usize * 2..].iter().filter(|known| **known).count();
            assert!(of_last as u64 > count / 10 * 8, "{of_last} of {count}, step {step}");
            assert!(known[..count as usize * 2].iter().all(|known| !known));
        }
    }

    #[test]
    fn a_table_of_another_size_is_made_only_where_it_is_needed() {
        let mut ghosts = Ghosts::new(COUNT_MIN * 3);
        ghosts.remember(5);
        ghosts.set_blocks_max(COUNT_MIN * 4);
        assert!(ghosts.take(5));
        ghosts.remember(5);
        ghosts.set_blocks_max(COUNT_MIN * 5);
        assert!(!ghosts.take(5));
    }
}
