//! What a checkpoint places, and where.

use super::*;
use crate::{DeviceCommand, machine::checkpoint::BlobKind, space::Run};

#[test]
fn nothing_is_written_to_a_root_of_too_many_runs() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    // Every other block of what is free is taken.
    let runs: Vec<Run> = store.space.free_runs().collect();
    for block in runs.into_iter().flat_map(|run| run.start..run.end()).filter(|block| block % 2 == 0) {
        assert!(store.space.reserve(Run { start: block, count: 1 }));
    }
    store.start_checkpoint();
    store.take_commands();
    let free_count = store.space.free_count();
    store.place_blob(&[1; 3 * BLOCK as usize], BlobKind::Root(2)).unwrap_err();
    assert_eq!(store.space.free_count(), free_count);
    store.place_blob(&[2; 2 * BLOCK as usize], BlobKind::Root(2)).unwrap();
    settle_writes(&mut store, &mut disk, &mut rng, |data| assert!(data.iter().all(|byte| *byte != 1)));
}

/// Executes everything and shows what is written.
fn settle_writes(store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng, look: impl Fn(&Bytes)) {
    loop {
        let commands = store.take_commands();
        for command in &commands {
            if let DeviceCommand::Write { data, .. } = command {
                look(data);
            }
        }
        disk.submit(commands);
        let Some((token, result)) = disk.step(rng) else { return };
        store.device_done(token, result);
    }
}
