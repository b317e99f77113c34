//! An OSD that is made anew tells nothing of what its store before had.

use sim::World;

const SEEDS: u64 = 4;

#[test]
fn nothing_is_lost_with_an_osd_that_is_destroyed_while_another_one_has_all() {
    let seeds = std::env::var("SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        World::destroyed(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}
