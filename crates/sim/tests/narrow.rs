//! Recovery leaves heartbeats their place on a slow network.

use sim::World;

#[test]
fn an_osd_behind_a_narrow_link_stays_up_while_it_is_recovered() {
    World::narrow().unwrap_or_else(|why| panic!("{why}"));
}
