//! A device that answers nothing holds up no request for long.

#[test]
fn an_osd_without_its_device_plays_dead_and_ends() {
    sim::World::silenced().unwrap_or_else(|why| panic!("{why}"));
}
