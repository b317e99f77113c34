//! A device that answers nothing holds up no request for long.

#[test]
fn an_osd_without_its_device_withholds_heartbeats_and_ends() {
    sim::World::hung_device().unwrap_or_else(|why| panic!("{why}"));
}
