//! Recovery leaves heartbeats their place on a slow network.

use sim::World;

#[test]
fn an_osd_behind_a_slow_link_stays_up_while_it_is_recovered() {
    World::slow_link().unwrap_or_else(|why| panic!("{why}"));
}
