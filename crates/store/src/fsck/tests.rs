use super::*;

fn problems(claims: &[(u64, u64, Owner)], shared: &[(u64, u32)], is_complete: bool) -> Vec<String> {
    let mut all = Claims::default();
    claims.iter().for_each(|&(start, count, owner)| all.add(Run { start, count }, owner));
    let mut out = Vec::new();
    all.problems(Run { start: 10, count: 10 }, &shared.iter().copied().collect(), is_complete, &mut out);
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
        ["the block at byte 53248 is used 2 times, the allocator says 1"]
    );
    assert_eq!(
        problems(&[(10, 10, Owner::Data)], &[(13, 1)], true),
        ["the block at byte 53248 is used 1 times, the allocator says 2"]
    );
}
