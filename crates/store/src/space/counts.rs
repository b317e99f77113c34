//! Counts for the blocks of one group.

use super::{GROUP_BLOCKS, Run};

/// A list of more runs than that becomes an array: of bytes, that would be twice as large.
const LISTED_MAX: usize = 512;
/// An array of fewer runs than that becomes a list: far fewer, so that it does not go back and forth.
const MAPPED_MIN: usize = 128;

/// Counts by block, which is counted from the group's first one.
#[derive(Clone, Debug)]
pub(super) enum Counts {
    /// In order; 0 where there is none. Where neighbours touch each other, their counts differ.
    Listed(Vec<Piece>),
    /// A count for each block.
    Mapped { cells: Cells, run_count: usize },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    first: u16,
    blocks: u16,
    count: u32,
}

/// As narrow as the largest count that was ever in it allows.
#[derive(Clone, Debug)]
pub(super) enum Cells {
    Bytes(Box<[u8]>),
    Halves(Box<[u16]>),
    Words(Box<[u32]>),
}

/// Does the same with cells of each width.
macro_rules! with_cells {
    ($of:expr, $cells:ident => $what:expr) => {
        match $of {
            Cells::Bytes($cells) => $what,
            Cells::Halves($cells) => $what,
            Cells::Words($cells) => $what,
        }
    };
}

impl Default for Counts {
    fn default() -> Counts {
        Counts::Listed(Vec::new())
    }
}

impl Piece {
    /// A run of the group: its blocks have 16 bits.
    fn of(run: Run, count: u32) -> Piece {
        Piece { first: run.start as u16, blocks: run.count as u16, count }
    }

    fn run(self) -> Run {
        Run { start: self.first.into(), count: self.blocks.into() }
    }
}

impl Counts {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Counts::Listed(pieces) if pieces.is_empty())
    }

    /// How many runs of blocks with equal counts there are.
    pub(super) fn run_count(&self) -> usize {
        match self {
            Counts::Listed(pieces) => pieces.len(),
            Counts::Mapped { run_count, .. } => *run_count,
        }
    }

    #[expect(clippy::useless_conversion, reason = "the widest cells are counts already")]
    pub(super) fn get(&self, block: u64) -> u32 {
        match self {
            Counts::Listed(pieces) => {
                let piece = pieces.get(ends_behind(pieces, block)).filter(|piece| piece.run().start <= block);
                piece.map_or(0, |piece| piece.count)
            }
            Counts::Mapped { cells, .. } => with_cells!(cells, cells => cells[block as usize].into()),
        }
    }

    /// The runs of blocks with equal counts that are not 0, in order, as far as they are in `run`.
    pub(super) fn within(&self, run: Run) -> impl Iterator<Item = (Run, u32)> {
        let mut at = run.start;
        std::iter::from_fn(move || {
            let (found, count) = self.next(at, run.end())?;
            at = found.end();
            Some((found, count))
        })
    }

    fn next(&self, from: u64, end: u64) -> Option<(Run, u32)> {
        match self {
            Counts::Listed(pieces) => {
                let piece = pieces.get(ends_behind(pieces, from))?;
                let (low, high) = (piece.run().start.max(from), piece.run().end().min(end));
                (low < high).then(|| (Run { start: low, count: high - low }, piece.count))
            }
            Counts::Mapped { cells, .. } => cells.next(from, end),
        }
    }

    /// Gives the blocks of a run a count.
    pub(super) fn set(&mut self, run: Run, count: u32) {
        match self {
            Counts::Listed(pieces) => set_listed(pieces, run, count),
            Counts::Mapped { cells, run_count } => {
                cells.widen(count);
                let before = cells.starts(run);
                cells.fill(run, count);
                *run_count = *run_count + cells.starts(run) - before;
            }
        }
        self.settle();
    }

    /// Becomes what takes less.
    fn settle(&mut self) {
        match self {
            Counts::Listed(pieces) if pieces.len() > LISTED_MAX => {
                let mut cells = Cells::Bytes(vec![0; GROUP_BLOCKS as usize].into());
                for piece in &*pieces {
                    cells.widen(piece.count);
                    cells.fill(piece.run(), piece.count);
                }
                *self = Counts::Mapped { run_count: pieces.len(), cells };
            }
            Counts::Mapped { run_count, .. } if *run_count < MAPPED_MIN => {
                let runs = self.within(Run { start: 0, count: GROUP_BLOCKS });
                *self = Counts::Listed(runs.map(|(run, count)| Piece::of(run, count)).collect());
            }
            Counts::Listed(_) | Counts::Mapped { .. } => {}
        }
    }
}

/// Which of the pieces is the first that ends behind `block`.
fn ends_behind(pieces: &[Piece], block: u64) -> usize {
    pieces.partition_point(|piece| piece.run().end() <= block)
}

fn set_listed(pieces: &mut Vec<Piece>, run: Run, count: u32) {
    // With those that touch the run, which become one with it if their counts are equal.
    let first = run.start.checked_sub(1).map_or(0, |before| ends_behind(pieces, before));
    let last = first + pieces[first..].partition_point(|piece| piece.run().start <= run.end());
    let (mut start, mut end) = (run.start, run.end());
    let (mut before, mut behind) = (None, None);
    if let Some(piece) = pieces[first..last].first()
        && piece.run().start < run.start
    {
        if piece.count == count {
            start = piece.run().start;
        } else {
            let kept = run.start - piece.run().start;
            before = Some(Piece { blocks: kept as u16, ..*piece });
        }
    }
    if let Some(piece) = pieces[first..last].last()
        && piece.run().end() > run.end()
    {
        if piece.count == count {
            end = piece.run().end();
        } else {
            let kept = Run { start: run.end(), count: piece.run().end() - run.end() };
            behind = Some(Piece::of(kept, piece.count));
        }
    }
    let whole = (count > 0).then(|| Piece::of(Run { start, count: end - start }, count));
    pieces.splice(first..last, before.into_iter().chain(whole).chain(behind));
}

impl Cells {
    /// Makes them hold counts up to `count`.
    fn widen(&mut self, count: u32) {
        match self {
            Cells::Bytes(cells) if count > u8::MAX.into() && count <= u16::MAX.into() => {
                *self = Cells::Halves(cells.iter().map(|&cell| cell.into()).collect());
            }
            Cells::Bytes(cells) if count > u16::MAX.into() => {
                *self = Cells::Words(cells.iter().map(|&cell| cell.into()).collect());
            }
            Cells::Halves(cells) if count > u16::MAX.into() => {
                *self = Cells::Words(cells.iter().map(|&cell| cell.into()).collect());
            }
            Cells::Bytes(_) | Cells::Halves(_) | Cells::Words(_) => {}
        }
    }

    /// The cells are wide enough.
    fn fill(&mut self, run: Run, count: u32) {
        let range = run.start as usize..run.end() as usize;
        with_cells!(self, cells => cells[range].fill(count as _));
    }

    #[expect(clippy::useless_conversion, reason = "the widest cells are counts already")]
    fn next(&self, from: u64, end: u64) -> Option<(Run, u32)> {
        let (start, len, count) = with_cells!(self, cells => {
            let cells = &cells[from as usize..end as usize];
            let skip = cells.iter().position(|cell| *cell != 0)?;
            let (count, cells) = (cells[skip], &cells[skip..]);
            (skip, cells.iter().position(|cell| *cell != count).unwrap_or(cells.len()), count.into())
        });
        Some((Run { start: from + start as u64, count: len as u64 }, count))
    }

    /// Of the blocks of a run and the one behind it, how many begin a run of equal counts.
    fn starts(&self, run: Run) -> usize {
        let before = run.start.saturating_sub(1) as usize;
        let end = (run.end() + 1).min(GROUP_BLOCKS) as usize;
        with_cells!(self, cells => {
            let first = usize::from(run.start == 0 && cells[0] != 0);
            let pairs = cells[before..end].windows(2);
            first + pairs.filter(|pair| pair[1] != 0 && pair[0] != pair[1]).count()
        })
    }
}

#[cfg(test)]
impl Counts {
    /// Memory that the counts take.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Counts::Listed(pieces) => pieces.capacity() * size_of::<Piece>(),
            Counts::Mapped { cells, .. } => with_cells!(cells, cells => size_of_val(&**cells)),
        }
    }
}
