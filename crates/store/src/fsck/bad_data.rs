//! What a deep check finds wrong with data, in bounded memory: a device that fails as a whole has as many bad blocks as
//! it has data.

use types::{CollId, HObject};

use super::{Problem, walk::READS_MAX};
use crate::{ReadError, device::BLOCK};

/// Problems that are named.
const NAMED_MAX: usize = 10_000;

/// Problems of data, each of blocks that follow each other in their object.
#[derive(Debug, Default)]
pub(super) struct BadData {
    named: Vec<Problem>,
    /// Bad blocks that none of these has.
    more_blocks: u64,
}

impl BadData {
    /// Notes what is wrong with the block at a byte offset of an object.
    pub(super) fn note(&mut self, coll: CollId, object: &HObject, error: ReadError, offset: u64) {
        // Blocks that are read by themselves are answered in any order, but at most so many at a time.
        let mut last = self.named.iter_mut().rev().take(READS_MAX);
        if last.any(|problem| extend(problem, (coll, object, error, offset))) {
            return;
        }
        if self.named.len() < NAMED_MAX {
            let object = object.clone();
            self.named.push(Problem::Data { coll, object, error, offset, bytes: BLOCK });
        } else {
            self.more_blocks += 1;
        }
    }

    /// All of them, and how many blocks are not named.
    pub(super) fn into_problems(self) -> impl Iterator<Item = Problem> {
        let more = (self.more_blocks > 0).then_some(Problem::MoreData { blocks: self.more_blocks });
        self.named.into_iter().chain(more)
    }
}

/// Makes a block a part of the problem, if it follows on the problem's blocks and the same is wrong with it.
fn extend(
    problem: &mut Problem,
    (its_coll, its_object, its_error, at): (CollId, &HObject, ReadError, u64),
) -> bool {
    let Problem::Data { coll, object, error, offset, bytes } = problem else { return false };
    let is_alike = matches!(
        (&error, its_error),
        (ReadError::Corrupt { .. }, ReadError::Corrupt { .. }) | (ReadError::Device, ReadError::Device)
    );
    let follows = is_alike && *offset + *bytes == at && *coll == its_coll && object == its_object;
    if follows {
        *bytes += BLOCK;
    }
    follows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(number: u8) -> HObject {
        HObject { oid: vec![b'a' + number].into(), ..HObject::default() }
    }

    fn note(bad: &mut BadData, number: u8, block: u64) {
        let offset = block * BLOCK;
        bad.note(CollId::META, &object(number), ReadError::Corrupt { offset }, offset);
    }

    #[test]
    fn blocks_that_follow_each_other_are_one_problem() {
        let mut bad = BadData::default();
        for (number, block) in [(0, 3), (0, 4), (1, 5), (0, 5), (0, 8), (1, 6)] {
            note(&mut bad, number, block);
        }
        bad.note(CollId::META, &object(0), ReadError::Device, 6 * BLOCK);
        let found: Vec<_> = bad
            .into_problems()
            .map(|problem| match problem {
                Problem::Data { object, offset, bytes, .. } => (object, offset / BLOCK, bytes / BLOCK),
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(found, [(object(0), 3, 3), (object(1), 5, 2), (object(0), 8, 1), (object(0), 6, 1)]);
    }

    #[test]
    fn no_more_problems_are_named_than_there_is_memory_for() {
        let mut bad = BadData::default();
        (0..NAMED_MAX as u64 + 7).for_each(|at| note(&mut bad, 0, 2 * at));
        note(&mut bad, 0, 2 * (NAMED_MAX as u64 - 1) + 1);
        let problems: Vec<Problem> = bad.into_problems().collect();
        assert_eq!(problems.len(), NAMED_MAX + 1);
        assert_eq!(
            problems[NAMED_MAX].to_string(),
            "7 more blocks of objects have a checksum mismatch, or cannot be read"
        );
        assert!(
            problems[NAMED_MAX - 1].to_string().ends_with(" of the object, 8192 bytes from byte 81911808 on")
        );
    }
}
