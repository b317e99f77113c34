//! A change that its primary loses in a crash is lost nowhere else.

#[test]
fn what_a_primary_has_not_committed_is_taken_over_by_nobody() {
    for seed in 0..8 {
        sim::World::held_change(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}
