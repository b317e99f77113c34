//! Every kind of damage to a copy is found by a scrub and mended by a repair, wherever the copy is.

use sim::{Damage, World};

#[test]
fn damage_is_found_and_mended() {
    for damage in Damage::ALL {
        for is_on_primary in [false, true] {
            World::damaged(damage, is_on_primary)
                .unwrap_or_else(|why| panic!("{damage:?}, on the primary: {is_on_primary}: {why}"));
        }
    }
}
