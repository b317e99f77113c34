//! How often the bytes of a request are gone over. Counted by builds with debug assertions alone.
#![cfg(debug_assertions)]

use sim::{Load, World};

const REQUESTS: u64 = 1_200;
const BLOCK_BYTES: u64 = 4096;

/// Passes over a block's worth of bytes by copies, checksums and clearings, of all three OSDs together.
fn passes(load: Load) -> f64 {
    let traffic = World::steady(&load).expect("a steady world");
    let per_block = |bytes: u64| bytes as f64 / (load.requests * BLOCK_BYTES) as f64;
    let parts = [traffic.summed, traffic.copied, traffic.cleared].map(per_block);
    println!("{load:?}: summed {:.2}, copied {:.2}, cleared {:.2}", parts[0], parts[1], parts[2]);
    per_block(traffic.total())
}

/// Each copy checks what it receives, and takes it into memory of its own: six of these are needed. What is
/// flushed to its place is neither copied nor summed again. The rest are fronts and descriptions in the journal.
#[test]
fn the_bytes_of_a_write_are_gone_over_a_few_times() {
    for (depth, most) in [(1, 7.8), (32, 7.7)] {
        let load = Load { pending_bytes_max: 1 << 20, ..Load::new(true, REQUESTS, depth) };
        let passes = passes(load);
        assert!(passes <= most, "{passes:.2} at depth {depth}");
    }
}

/// Bytes that were checked when they came from the device are sent as they lie there, with the checksum that they have
/// there. A pass is the clearing of the virtual disk's answer.
#[test]
fn the_bytes_of_a_read_are_gone_over_once() {
    let passes = passes(Load::new(false, REQUESTS, 1));
    assert!(passes <= 2.2, "{passes:.2}");
}
