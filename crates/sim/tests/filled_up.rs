//! Devices that fill up while the monitor is away have room again when something is removed.

use sim::World;

#[test]
fn devices_that_fill_up_unnoticed_have_room_again_when_something_is_removed() {
    for (shards, bytes) in [(1, 32 << 10), (2, 32 << 10), (1, 600 << 10), (2, 600 << 10)] {
        World::filled_up(shards, bytes).unwrap_or_else(|why| panic!("{shards} shards, {bytes} bytes: {why}"));
    }
}
