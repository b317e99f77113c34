//! What a checkpoint places, and where.

use super::*;
use crate::{
    DeviceCommand, DeviceRole, index::Place, machine::checkpoint::BlobKind, space::Run, superblock::Blob,
};

/// Takes every other block of what is free of one device.
fn scatter(store: &mut Store, role: DeviceRole) {
    let is_there = |run: &Run| DeviceRole::of(run.start * BLOCK).0 == role;
    let runs: Vec<Run> = store.space.free_runs().filter(is_there).collect();
    for block in runs.into_iter().flat_map(|run| run.start..run.end()).filter(|block| block % 2 == 0) {
        assert!(store.space.reserve(Run { start: block, count: 1 }));
    }
}

#[test]
fn nothing_is_written_to_a_root_of_too_many_runs() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    scatter(&mut store, DeviceRole::Main);
    store.start_checkpoint();
    store.take_commands();
    let free_count = store.space.free_count();
    store.place_blob(&[1; 3 * BLOCK as usize], BlobKind::Root(2)).unwrap_err();
    assert_eq!(store.space.free_count(), free_count);
    store.place_blob(&[2; 2 * BLOCK as usize], BlobKind::Root(2)).unwrap();
    settle_writes(&mut store, &mut disk, &mut rng, |data| assert!(data.iter().all(|byte| *byte != 1)));
}

#[test]
fn a_root_for_which_the_index_device_is_too_scattered_goes_to_the_main_one() {
    let mut rng = StdRng::seed_from_u64(1);
    let sizes = DeviceSizes { main: DISK_BYTES, journal: None, index: Some(DISK_BYTES) };
    let mut disk = formatted(sizes, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    scatter(&mut store, DeviceRole::Index);
    store.start_checkpoint();
    store.take_commands();
    let devices_of = |blob: &Blob| -> Vec<DeviceRole> {
        blob.runs.iter().map(|run| DeviceRole::of(run.start * BLOCK).0).collect()
    };
    let free_counts = store.space.free_counts();
    let root = [1; 3 * BLOCK as usize];
    let placed = store.place_blob(&root, BlobKind::Root(2)).unwrap();
    assert_eq!(devices_of(&placed), [DeviceRole::Main]);
    assert_eq!(store.space.free_counts(), [free_counts[0] - 3, free_counts[1]], "the others are free again");
    // What is few enough runs stays where the index is, and so does what may have any number of them.
    let placed = store.place_blob(&root, BlobKind::Root(3)).unwrap();
    assert_eq!(devices_of(&placed), [DeviceRole::Index; 3]);
    let placed = store.place_blob(&root, BlobKind::Map).unwrap();
    assert_eq!(devices_of(&placed), [DeviceRole::Index; 3]);
    // Where neither has it, there is no room.
    scatter(&mut store, DeviceRole::Main);
    let free_counts = store.space.free_counts();
    store.place_blob(&root, BlobKind::Root(2)).unwrap_err();
    assert_eq!(store.space.free_counts(), free_counts);
}

#[test]
fn the_room_for_a_checkpoint_counts_the_regions_in_the_root() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    let mut txn = Transaction::new(coll(0));
    txn.push(&object(0), Mutation::Touch);
    store.submit(Token(1), txn);
    let of_few = store.index_need();
    assert!(of_few > 0);
    // A region has 124 MiB: a device of more than a TiB has so many.
    let added = 10_000u64;
    store.regions.resize_with(store.regions.len() + added as usize, Place::default);
    assert_eq!(store.index_need() - of_few, added * 28);
}

#[test]
fn what_the_index_takes_is_whole_blocks_however_small_its_pages_are() {
    let mut rng = StdRng::seed_from_u64(1);
    let config = Config { page_bytes_max: 512, ..config() };
    let mut disk = formatted(DISK_BYTES, &config);
    let taken = |store: &Store| {
        let runs = store.index.directory.blobs().flat_map(|blob| &blob.runs);
        (store.superblock.area.start + runs.map(|run| run.count).sum::<u64>()) * BLOCK
    };
    for round in 0..3 {
        let mut store = disk.mount(config, &mut rng).unwrap();
        assert_eq!(store.usage().meta_bytes, taken(&store), "as a mount finds it");
        for number in 0..100 {
            let mut txn = Transaction::new(coll(0));
            let mutation = if round < 2 { Mutation::Touch } else { Mutation::Remove };
            txn.push(&object(number * (round + 1)), mutation);
            store.submit(Token(u64::from(number)), txn);
        }
        store.unmount_after(&mut disk, &mut rng);
        assert_eq!(store.usage().meta_bytes, taken(&store));
    }
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
