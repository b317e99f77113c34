//! What clones share is shared on an OSD that is made anew, too.

use sim::World;

#[test]
fn an_osd_that_is_made_anew_takes_no_more_space_than_what_is_not_shared() {
    for part_bytes in [300 << 10, 8 << 20] {
        World::shared_clones(part_bytes).unwrap_or_else(|why| panic!("parts of {part_bytes} bytes: {why}"));
    }
}
