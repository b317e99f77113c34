//! The end of a world sees what must not be left in stores.

use sim::{Remnant, World};

#[test]
fn what_is_left_behind_is_found() {
    for (remnant, sign) in Remnant::ALL {
        let why = World::left_behind(remnant).expect_err("something is left");
        assert!(why.contains(sign), "{remnant:?}: {why}");
    }
}
