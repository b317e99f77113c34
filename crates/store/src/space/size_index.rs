//! Which groups have runs of about a size.

use super::GROUP_BLOCKS;

const WORD_BITS: usize = u64::BITS as usize;

/// Below this each size is a class of its own, from here on there are four to a doubling.
const FINE_MAX: u64 = 16;

/// Classes of sizes, from the smallest on.
pub(super) const CLASSES: usize = class_of(GROUP_BLOCKS) + 1;

/// The class of runs of so many blocks, of a group at most.
pub(super) const fn class_of(count: u64) -> usize {
    if count < FINE_MAX {
        return count as usize - 1;
    }
    let doubling = count.ilog2();
    let quarter = (count >> (doubling - 2)) as usize & 3;
    FINE_MAX as usize - 1 + (doubling - FINE_MAX.ilog2()) as usize * 4 + quarter
}

/// The fewest blocks of a class.
pub(super) const fn fewest_of(class: usize) -> u64 {
    if class + 1 < FINE_MAX as usize {
        return class as u64 + 1;
    }
    let above = class + 1 - FINE_MAX as usize;
    (4 + above as u64 % 4) << (FINE_MAX.ilog2() as usize + above / 4 - 2)
}

/// The most.
pub(super) const fn most_of(class: usize) -> u64 {
    fewest_of(class + 1) - 1
}

/// For each class the groups that have runs of it.
#[derive(Clone, Debug)]
pub(super) struct SizeIndex {
    groups: [Numbers; CLASSES],
    /// A bit for each class that a group has.
    present: u64,
}

const _: () = assert!(CLASSES <= WORD_BITS);

impl SizeIndex {
    /// Of so many groups that have nothing.
    pub(super) fn new(groups: usize) -> SizeIndex {
        SizeIndex { groups: std::array::from_fn(|_| Numbers::new(groups)), present: 0 }
    }

    pub(super) fn insert(&mut self, class: usize, group: usize) {
        self.groups[class].insert(group);
        self.present |= 1 << class;
    }

    pub(super) fn remove(&mut self, class: usize, group: usize) {
        if self.groups[class].remove(group) {
            self.present &= !(1 << class);
        }
    }

    /// The groups of a class, in order.
    pub(super) fn groups_of(&self, class: usize) -> impl Iterator<Item = usize> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let next = self.groups[class].next(at)?;
            at = next + 1;
            Some(next)
        })
    }

    /// The lowest class from `class` on that a group has.
    pub(super) fn lowest(&self, class: usize) -> Option<usize> {
        let above = self.present.checked_shr(class as u32).unwrap_or(0);
        (above != 0).then(|| class + above.trailing_zeros() as usize)
    }

    /// The highest class that a group has.
    pub(super) fn highest(&self) -> Option<usize> {
        self.present.checked_ilog2().map(|class| class as usize)
    }
}

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
struct Numbers {
    words: Vec<u64>,
    /// A bit for each word that is not 0, so that many of them are passed at once.
    used: Vec<u64>,
}

fn place(at: usize) -> (usize, u64) {
    (at / WORD_BITS, 1 << (at % WORD_BITS))
}

/// The first bit from `from` on that is set.
fn next_in(words: &[u64], from: usize) -> Option<usize> {
    let mut skip = from % WORD_BITS;
    for (at, word) in words.iter().enumerate().skip(from / WORD_BITS) {
        let rest = word >> skip << skip;
        if rest != 0 {
            return Some(at * WORD_BITS + rest.trailing_zeros() as usize);
        }
        skip = 0;
    }
    None
}

impl Numbers {
    /// Of numbers below `end`.
    fn new(end: usize) -> Numbers {
        let words = end.div_ceil(WORD_BITS);
        Numbers { words: vec![0; words], used: vec![0; words.div_ceil(WORD_BITS)] }
    }

    fn insert(&mut self, number: usize) {
        let (word, bit) = place(number);
        self.words[word] |= bit;
        let (top, bit) = place(word);
        self.used[top] |= bit;
    }

    /// True if none is left.
    fn remove(&mut self, number: usize) -> bool {
        let (word, bit) = place(number);
        self.words[word] &= !bit;
        if self.words[word] != 0 {
            return false;
        }
        let (top, bit) = place(word);
        self.used[top] &= !bit;
        self.used.iter().all(|word| *word == 0)
    }

    fn next(&self, from: usize) -> Option<usize> {
        let (word, _) = place(from);
        let in_word = self.words.get(word)? >> (from % WORD_BITS);
        if in_word != 0 {
            return Some(from + in_word.trailing_zeros() as usize);
        }
        let word = next_in(&self.used, word + 1)?;
        Some(word * WORD_BITS + self.words[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn classes_are_in_the_order_of_sizes_without_gaps() {
        for count in 1..=GROUP_BLOCKS {
            let class = class_of(count);
            assert!((fewest_of(class)..=most_of(class)).contains(&count), "{count}");
        }
        assert!((1..CLASSES).all(|class| class_of(fewest_of(class)) == class));
        assert!((1..CLASSES).all(|class| class_of(fewest_of(class) - 1) == class - 1));
    }

    #[test]
    fn it_has_what_a_set_for_each_class_has() {
        for seed in 0..20 {
            let mut rng = StdRng::seed_from_u64(seed);
            let end = rng.random_range(1..10_000);
            let (mut index, mut model) = (SizeIndex::new(end), vec![BTreeSet::new(); CLASSES]);
            for _ in 0..2_000 {
                let (class, group) = (rng.random_range(0..CLASSES), rng.random_range(0..end));
                let known = model[class].first().copied().filter(|_| rng.random_range(0..3) > 0);
                if let Some(group) = known {
                    model[class].remove(&group);
                    index.remove(class, group);
                } else {
                    model[class].insert(group);
                    index.insert(class, group);
                }
                let from = rng.random_range(0..CLASSES);
                let present = |class: &usize| !model[*class].is_empty();
                assert_eq!(index.lowest(from), (from..CLASSES).find(present), "seed {seed}");
                assert_eq!(index.highest(), (0..CLASSES).rev().find(present), "seed {seed}");
                assert!(index.groups_of(class).eq(model[class].iter().copied()), "seed {seed}");
            }
        }
    }
}
