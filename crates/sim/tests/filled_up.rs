//! Devices that fill up while the monitor is away have room again when something is removed.

use sim::{Filling, World};

fn has_room_again(filling: Filling) {
    for (shards, bytes) in [(1, 32 << 10), (2, 32 << 10), (1, 600 << 10), (2, 600 << 10)] {
        World::filled_up(filling, shards, bytes)
            .unwrap_or_else(|why| panic!("{shards} shards, {bytes} bytes: {why}"));
    }
}

#[test]
fn devices_that_fill_up_unnoticed_have_room_again_when_something_is_removed() {
    has_room_again(Filling::Writes);
}

#[test]
fn devices_that_copies_fill_have_room_again() {
    has_room_again(Filling::Copies);
}

#[test]
fn overwrites_that_do_not_wait_for_room_leave_some_for_removals() {
    has_room_again(Filling::Overwrites);
}

#[test]
fn a_device_that_is_too_small_for_what_its_osd_missed_holds_up_nothing_else() {
    for bytes in [32 << 10, 600 << 10] {
        World::too_small(bytes).unwrap_or_else(|why| panic!("{bytes} bytes: {why}"));
    }
}
