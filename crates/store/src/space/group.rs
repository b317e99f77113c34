//! A set of the blocks of one group.

use super::{GROUP_BLOCKS, Run};

const WORD_BITS: u64 = u64::BITS as u64;
const WORDS: usize = (GROUP_BLOCKS / WORD_BITS) as usize;

/// A list of more runs than that becomes a bitmap: it would be as large.
const LISTED_MAX: usize = 256;
/// A bitmap of fewer runs than that becomes a list: far fewer, so that it does not go back and forth.
const MAPPED_MIN: usize = 64;

/// Blocks, counted from the group's first one.
#[derive(Clone, Debug)]
pub(super) enum Group {
    /// In order; they do not touch each other.
    Listed(Vec<Piece>),
    Mapped(Box<Bitmap>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    first: u16,
    count: u16,
}

#[derive(Clone, Debug)]
pub(super) struct Bitmap {
    /// The lowest bit is the first block.
    words: [u64; WORDS],
    run_count: usize,
}

impl Default for Group {
    fn default() -> Group {
        Group::Listed(Vec::new())
    }
}

impl Piece {
    /// A run of the group: its blocks have 16 bits.
    fn of(run: Run) -> Piece {
        Piece { first: run.start as u16, count: run.count as u16 }
    }

    fn run(self) -> Run {
        Run { start: self.first.into(), count: self.count.into() }
    }
}

impl Group {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Group::Listed(pieces) if pieces.is_empty())
    }

    pub(super) fn has(&self, block: u64) -> bool {
        match self {
            Group::Listed(_) => self.holding(block).is_some(),
            Group::Mapped(map) => map.has(block),
        }
    }

    /// The longest run of blocks of the set that `block` is in.
    pub(super) fn holding(&self, block: u64) -> Option<Run> {
        match self {
            Group::Listed(pieces) => {
                let run = pieces.get(ends_behind(pieces, block))?.run();
                (run.start <= block).then_some(run)
            }
            Group::Mapped(map) => map.has(block).then(|| {
                let start = map.start_of(block);
                Run { start, count: map.next(block, false) - start }
            }),
        }
    }

    /// The first run that has blocks from `from` on, without those before.
    pub(super) fn next(&self, from: u64) -> Option<Run> {
        let (start, end) = match self {
            Group::Listed(pieces) => {
                let run = pieces.get(ends_behind(pieces, from))?.run();
                (run.start.max(from), run.end())
            }
            Group::Mapped(map) => {
                let start = map.next(from, true);
                (start, map.next(start, false))
            }
        };
        (start < end).then(|| Run { start, count: end - start })
    }

    /// The smallest run of `low` to `high` blocks. `from` is where one was found last.
    pub(super) fn fit(&self, low: u64, high: u64, from: u64) -> Option<Run> {
        match self {
            Group::Listed(pieces) => {
                let all = pieces.iter().filter(|piece| (low..=high).contains(&piece.count.into()));
                all.min_by_key(|piece| piece.count).map(|piece| piece.run())
            }
            Group::Mapped(map) => map.fit(low, high, from),
        }
    }

    /// Adds blocks; some may be there.
    pub(super) fn insert(&mut self, run: Run) {
        match self {
            Group::Listed(pieces) => {
                // What touches the run becomes one with it.
                let first = run.start.checked_sub(1).map_or(0, |before| ends_behind(pieces, before));
                let last =
                    first + pieces[first..].partition_point(|piece| u64::from(piece.first) <= run.end());
                let Some(end) = pieces[first..last].last().map(|piece| piece.run().end()) else {
                    pieces.insert(first, Piece::of(run));
                    return self.settle();
                };
                let start = run.start.min(pieces[first].first.into());
                pieces[first] = Piece::of(Run { start, count: end.max(run.end()) - start });
                pieces.drain(first + 1..last);
            }
            Group::Mapped(map) => {
                map.set(run, true);
                self.settle();
            }
        }
    }

    /// Takes blocks away; some may not be there.
    pub(super) fn remove(&mut self, run: Run) {
        match self {
            Group::Listed(pieces) => {
                let first = ends_behind(pieces, run.start);
                let last =
                    first + pieces[first..].partition_point(|piece| u64::from(piece.first) < run.end());
                let Some(last_piece) = pieces[first..last].last() else { return };
                let (start, end) = (u64::from(pieces[first].first), last_piece.run().end());
                let before = (start < run.start).then(|| Run { start, count: run.start - start });
                let behind = (run.end() < end).then(|| Run { start: run.end(), count: end - run.end() });
                match (before, behind) {
                    // The usual case: the first blocks of a run are taken.
                    (Some(one), None) | (None, Some(one)) if last == first + 1 => {
                        pieces[first] = Piece::of(one)
                    }
                    _ => drop(pieces.splice(first..last, before.into_iter().chain(behind).map(Piece::of))),
                }
                self.settle();
            }
            Group::Mapped(map) => {
                map.set(run, false);
                self.settle();
            }
        }
    }

    /// Becomes what takes less.
    fn settle(&mut self) {
        match self {
            Group::Listed(pieces) if pieces.len() > LISTED_MAX => {
                let mut map = Box::new(Bitmap { words: [0; WORDS], run_count: 0 });
                pieces.iter().for_each(|piece| map.set(piece.run(), true));
                *self = Group::Mapped(map);
            }
            Group::Mapped(map) if map.run_count < MAPPED_MIN => {
                let mut from = 0;
                let runs = std::iter::from_fn(|| {
                    let start = map.next(from, true);
                    from = map.next(start, false);
                    (start < from).then(|| Piece::of(Run { start, count: from - start }))
                });
                *self = Group::Listed(runs.collect());
            }
            Group::Listed(_) | Group::Mapped(_) => {}
        }
    }
}

/// Which of the pieces is the first that ends behind `block`.
fn ends_behind(pieces: &[Piece], block: u64) -> usize {
    pieces.partition_point(|piece| piece.run().end() <= block)
}

fn word_of(block: u64) -> usize {
    (block / WORD_BITS) as usize
}

impl Bitmap {
    fn has(&self, block: u64) -> bool {
        self.words[word_of(block)] >> (block % WORD_BITS) & 1 == 1
    }

    /// The first block from `from` on that is in the set, or not, as `value` says; or the end.
    fn next(&self, from: u64, value: bool) -> u64 {
        let mut skip = from % WORD_BITS;
        for at in word_of(from)..WORDS {
            let rest = (if value { self.words[at] } else { !self.words[at] }) >> skip << skip;
            if rest != 0 {
                return at as u64 * WORD_BITS + u64::from(rest.trailing_zeros());
            }
            skip = 0;
        }
        GROUP_BLOCKS
    }

    /// The first block of the run that `block`, which is in the set, is in.
    fn start_of(&self, block: u64) -> u64 {
        let mut word = !self.words[word_of(block)] << (WORD_BITS - 1 - block % WORD_BITS);
        let mut end = block + 1;
        loop {
            let ones = u64::from(word.leading_zeros());
            let in_word = (end - 1) % WORD_BITS + 1;
            if ones < in_word || end == in_word {
                return end - ones.min(in_word);
            }
            end -= in_word;
            word = !self.words[word_of(end - 1)];
        }
    }

    fn set(&mut self, run: Run, value: bool) {
        // Only up to the block behind the run may others begin to be a run's first, or cease to.
        let words = word_of(run.start)..=word_of(run.end()).min(WORDS - 1);
        let before = self.starts_in(words.clone());
        let (mut at, end) = (run.start, run.end());
        while at < end {
            let skip = at % WORD_BITS;
            let count = (WORD_BITS - skip).min(end - at);
            let mask = u64::MAX >> (WORD_BITS - count) << skip;
            let word = &mut self.words[word_of(at)];
            *word = if value { *word | mask } else { *word & !mask };
            at += count;
        }
        self.run_count = self.run_count + self.starts_in(words) - before;
    }

    /// Of a word, the blocks that are the first of their run.
    fn starts(&self, word: usize) -> u64 {
        let carried = if word == 0 { 0 } else { self.words[word - 1] >> (WORD_BITS - 1) };
        self.words[word] & !(self.words[word] << 1 | carried)
    }

    fn starts_in(&self, words: std::ops::RangeInclusive<usize>) -> usize {
        words.map(|word| self.starts(word).count_ones() as usize).sum()
    }

    /// As [`Group::fit`]. All blocks of a word are looked at together; what is longer than a word is measured.
    fn fit(&self, low: u64, high: u64, from: u64) -> Option<Run> {
        let mut best: Option<Run> = None;
        for at in (word_of(from)..WORDS).chain(0..word_of(from)) {
            let word = self.words[at];
            if word == 0 {
                continue;
            }
            let behind = self.words.get(at + 1).copied().unwrap_or(0);
            let pair = u128::from(behind) << WORD_BITS | u128::from(word);
            let long = begins_run(pair, low.min(WORD_BITS));
            let mut found = long as u64 & self.starts(at);
            if high < WORD_BITS {
                found &= !(begins_run(long, high + 2 - low) as u64);
            }
            while found != 0 {
                let start = at as u64 * WORD_BITS + u64::from(found.trailing_zeros());
                found &= found - 1;
                let count = self.next(start, false) - start;
                if (low..=high).contains(&count) && best.is_none_or(|best| count < best.count) {
                    best = Some(Run { start, count });
                    if count == low {
                        return best;
                    }
                }
            }
        }
        best
    }
}

/// Which bits are set as the `count - 1` above them are. Bits beyond the highest count as clear.
fn begins_run(bits: u128, count: u64) -> u128 {
    let (mut out, mut have) = (bits, 1);
    while have < count {
        let step = have.min(count - have);
        out &= out >> step;
        have += step;
    }
    out
}

#[cfg(test)]
mod tests;
