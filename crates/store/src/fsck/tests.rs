use types::{CollId, HObject};

use super::*;
use crate::{
    index::Entry,
    onode::Onode,
    space::{References, Run},
};

fn problems(claims: &[(u64, u64, Owner)], shared: &[(u64, u32)], is_complete: bool) -> Vec<String> {
    let area = Run { start: 10, count: 10 };
    let mut totals = Totals::new(area);
    let run = |&(start, count, owner): &(u64, u64, Owner)| (Run { start, count }, owner);
    let (data, others): (Vec<_>, Vec<_>) =
        claims.iter().map(run).partition(|(_, owner)| *owner == Owner::Data);
    let (free, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, owner)| *owner == Owner::Free);
    for (run, _) in data {
        totals.add_data(run);
    }
    let mut out = Vec::new();
    totals.overlaps(area, &others, free.into_iter().map(|(run, _)| run), is_complete, &mut out);
    let mut known = References::default();
    shared.iter().for_each(|&(block, count)| known.set(Run { start: block, count: 1 }, count));
    totals.references(&known, is_complete, &mut out);
    out.iter().map(ToString::to_string).collect()
}

#[test]
fn claims_that_fill_the_area_are_sound() {
    assert!(
        problems(&[(10, 4, Owner::Data), (14, 1, Owner::Page), (15, 5, Owner::Free)], &[], true).is_empty()
    );
    let clone = [(10, 4, Owner::Data), (12, 8, Owner::Data)];
    assert!(problems(&clone, &[(12, 1), (13, 1)], true).is_empty());
}

#[test]
fn what_is_lost_or_used_twice_is_named() {
    assert_eq!(
        problems(&[(10, 4, Owner::Data), (16, 3, Owner::Free)], &[], true),
        [
            "8192 bytes from byte 57344 on are lost: neither used nor free",
            "4096 bytes from byte 77824 on are lost: neither used nor free"
        ]
    );
    assert!(problems(&[(10, 4, Owner::Data), (16, 3, Owner::Free)], &[], false).is_empty());
    assert_eq!(
        problems(&[(10, 4, Owner::Data), (13, 7, Owner::Free)], &[], true),
        ["the block at byte 53248 is used twice: by the free space and by an object's data"]
    );
    assert_eq!(
        problems(&[(10, 10, Owner::Data), (13, 2, Owner::Data)], &[(13, 1)], true),
        ["the block at byte 57344 is used 2 times, the allocator says 1"]
    );
    assert_eq!(
        problems(&[(10, 10, Owner::Data)], &[(13, 1)], true),
        ["the block at byte 53248 is used 1 times, the allocator says 2"]
    );
}

#[test]
fn blocks_of_objects_that_a_lost_part_of_the_index_names_are_not_told_as_missing() {
    let of_unknown = [(13, 1), (19, 2)];
    assert!(problems(&[(10, 8, Owner::Data)], &of_unknown, false).is_empty());
    assert_eq!(
        problems(&[(10, 8, Owner::Data), (12, 2, Owner::Data), (12, 2, Owner::Data)], &of_unknown, false),
        [
            "the block at byte 49152 is used 3 times, the allocator says 1",
            "the block at byte 53248 is used 3 times, the allocator says 2",
        ]
    );
}

#[test]
fn data_outside_its_area_is_named() {
    assert_eq!(
        problems(&[(10, 10, Owner::Data), (19, 2, Owner::Data)], &[], true),
        ["corrupt place of data at byte 77824"]
    );
}

#[test]
fn a_block_of_one_owner_too_many_is_named_once_for_all_behind_it() {
    assert_eq!(
        problems(&[(10, 10, Owner::Data), (12, 8, Owner::Data), (15, 1, Owner::Data)], &[], true),
        [
            "the block at byte 49152 is used 2 times, the allocator says 1",
            "the block at byte 61440 is used 3 times, the allocator says 1",
            "the block at byte 65536 is used 2 times, the allocator says 1",
        ]
    );
}

#[test]
fn sizes_that_cannot_be_are_summed_up_to_the_largest_number() {
    let mut totals = Totals::new(Run { start: 10, count: 10 });
    let onode = Onode { size: u64::MAX, ..Onode::default() };
    for _ in 0..2 {
        totals.add(CollId::META, &HObject::default(), Entry::Onode(&onode));
    }
    assert_eq!((totals.counts.objects, totals.counts.object_bytes), (2, u64::MAX));
}
