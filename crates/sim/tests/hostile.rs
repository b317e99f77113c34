//! The bodies of the fuzz targets with random input: short fields, as raw noise hardly gets past a banner.

use rand::{Rng, SeedableRng, rngs::StdRng};

/// Inputs for each target.
const INPUTS: u64 = 10_000;
/// Bytes of an input at most.
const INPUT_BYTES: usize = 600;

/// Random bytes, of which half of the inputs have mostly small ones: tags, lengths and versions are.
fn input(seed: u64) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(seed);
    let is_small = rng.random();
    let byte = |rng: &mut StdRng| {
        if is_small && rng.random_ratio(7, 8) { rng.random_range(0..32) } else { rng.random() }
    };
    (0..rng.random_range(0..INPUT_BYTES)).map(|_| byte(&mut rng)).collect()
}

#[test]
fn a_connection_hears_anything() {
    (0..INPUTS).for_each(|seed| sim::hostile::connection(&input(seed)));
}

#[test]
fn a_message_has_any_body() {
    (0..INPUTS).for_each(|seed| sim::hostile::message(&input(seed)));
}
