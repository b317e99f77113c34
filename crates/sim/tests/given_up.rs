//! What an operator gives up is lost, and nothing else.

use sim::{GivenUp, World};

const SEEDS: u64 = 4;

#[test]
fn what_is_given_up_is_lost_and_nothing_else() {
    for how in GivenUp::ALL {
        let seeds = std::env::var("SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
        let lost = (0..seeds).map(|seed| {
            World::given_up(how, seed, false).unwrap_or_else(|why| panic!("{how:?}, seed {seed}: {why}"))
        });
        assert!(lost.sum::<usize>() > 0, "{how:?}: nothing was lost, so that nothing was proved");
    }
}

#[test]
fn what_is_lost_besides_is_told() {
    let why = World::given_up(GivenUp::Revert, 0, true).expect_err("more is lost");
    assert!(why.contains("it was not given up"), "{why}");
}
