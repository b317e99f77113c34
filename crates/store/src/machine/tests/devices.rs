//! Devices that grow, are several, or are the wrong ones.

use std::collections::BTreeMap;

use super::*;
use crate::{
    DeviceCommand, DeviceError, DeviceRole,
    superblock::{COPIES, DeviceLabel, Superblock},
};

const BOTH: DeviceSizes = DeviceSizes { main: DISK_BYTES, journal: Some(2 << 20), index: Some(2 << 20) };

fn write(store: &mut Store, number: u32, bytes: usize) {
    let mut txn = Transaction::new(coll(0));
    let data = Bytes::from(vec![number as u8 + 1; bytes]);
    txn.push(&object(number), Mutation::Write { offset: 0, data: data.into() });
    store.submit(Token(u64::from(number)), txn);
}

/// The store after some writes.
fn used(disk: &mut VirtualDisk, rng: &mut StdRng) -> Store {
    let mut store = mount(disk, rng).unwrap();
    for number in 0..20 {
        write(&mut store, number, 100_000);
        store.kick();
        settle(&mut store, disk, rng);
    }
    store
}

fn mount_error(disk: &mut VirtualDisk, rng: &mut StdRng) -> String {
    mount(disk, rng).expect_err("the device is refused").to_string()
}

#[test]
fn a_device_that_grew_is_used_after_the_next_mount() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut disk = formatted(DISK_BYTES, &config());
    let store = used(&mut disk, &mut rng);
    let before = store.usage();
    disk.crash(&mut rng);
    disk.resize(DISK_BYTES * 4);
    let mut store = mount(&mut disk, &mut rng).unwrap();
    let after = store.usage();
    assert_eq!((before.total_bytes, after.total_bytes), (DISK_BYTES, DISK_BYTES * 4));
    assert!(after.available_bytes - before.available_bytes > DISK_BYTES * 2);
    // More than there was room for.
    for number in 20..120 {
        write(&mut store, number, 200_000);
        store.kick();
        settle(&mut store, &mut disk, &mut rng);
    }
    store.check_invariants();
    store.unmount_after(&mut disk, &mut rng);
    let mut store = mount(&mut disk, &mut rng).unwrap();
    let found = read(&mut store, &mut disk, &mut rng, coll(0), &object(119), (0, u64::MAX)).unwrap();
    assert_eq!(found, vec![120; 200_000]);
    disk.resize(DISK_BYTES);
    assert_eq!(
        mount_error(&mut disk, &mut rng),
        "the main device has 8388608 bytes, the store needs 33554432"
    );
}

#[test]
fn the_power_may_fail_while_a_device_that_grew_is_mounted_for_the_first_time() {
    let grown = |sizes: DeviceSizes| DeviceSizes {
        main: 3 * sizes.main + 5 * BLOCK,
        index: sizes.index.map(|bytes| 4 * bytes + BLOCK),
        ..sizes
    };
    for (seed, sizes) in [DeviceSizes::from(DISK_BYTES), BOTH].into_iter().cycle().take(8).enumerate() {
        let mut rng = StdRng::seed_from_u64(seed as u64);
        let mut disk = formatted(sizes, &config());
        used(&mut disk, &mut rng);
        disk.crash(&mut rng);
        disk.resize(grown(sizes));
        let survives = |mut disk: VirtualDisk, rng: &mut StdRng| {
            assert_eq!(disk.fsck(config(), rng).problems, [], "seed {seed}");
            let mut store = mount(&mut disk, rng).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            store.check_invariants();
            for number in 0..20 {
                let found = read(&mut store, &mut disk, rng, coll(0), &object(number), (0, u64::MAX));
                assert_eq!(found.unwrap(), vec![number as u8 + 1; 100_000], "seed {seed}");
            }
        };
        let mut mount = Store::mount(disk.sizes(), config(), JOURNAL_KEY);
        while mount.take().is_none() {
            disk.submit(mount.take_commands());
            let mut cut = disk.clone();
            cut.crash(&mut rng);
            // Whoever made it larger may take that back while no superblock says so.
            let is_known = Store::LABEL_OFFSETS.iter().any(|offset| {
                let read = DeviceCommand::Read { token: Token(1), offset: *offset, len: BLOCK };
                let block = cut.execute(read).1.unwrap().unwrap();
                Superblock::from_block(&block).is_some_and(|found| found.device_bytes > sizes.main)
            });
            let mut smaller = cut.clone();
            smaller.resize(sizes);
            if !is_known {
                survives(smaller, &mut rng);
            } else {
                assert!(mount_error(&mut smaller, &mut rng).starts_with("the main device has"));
            }
            survives(cut, &mut rng);
            let (token, result) = disk.step(&mut rng).expect("a mount that is not done waits for the disk");
            mount.device_done(token, result);
        }
    }
}

#[test]
fn journal_and_index_go_to_their_devices() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut disk = formatted(BOTH, &config());
    let mut store = used(&mut disk, &mut rng);
    store.unmount_after(&mut disk, &mut rng);
    let roles: Vec<DeviceRole> =
        disk.written_offsets().into_iter().map(|offset| DeviceRole::of(offset).0).collect();
    let count = |role| roles.iter().filter(|other| **other == role).count();
    assert!(count(DeviceRole::Journal) > 20 && count(DeviceRole::Index) > 4, "records, pages, and labels");
    // No index page but the superblock: all else on the main device is data.
    let mut store = mount(&mut disk, &mut rng).unwrap();
    assert!(
        store.superblock.root.runs.iter().all(|run| DeviceRole::of(run.start * BLOCK).0 == DeviceRole::Index)
    );
    store.check_invariants();
    // The index grows with its device.
    store.unmount_after(&mut disk, &mut rng);
    disk.resize(DeviceSizes { index: Some(4 << 20), ..BOTH });
    let store = mount(&mut disk, &mut rng).unwrap();
    assert_eq!(store.superblock.index_area.end() * BLOCK - DeviceRole::Index.base(), 4 << 20);
    store.check_invariants();
}

#[test]
fn missing_swapped_and_foreign_devices_are_refused() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut disk = formatted(BOTH, &config());
    used(&mut disk, &mut rng).unmount_after(&mut disk, &mut rng);
    disk.resize(DeviceSizes { journal: None, ..BOTH });
    assert_eq!(
        mount_error(&mut disk, &mut rng),
        "the store keeps its journal on a device of its own, and none is given for it"
    );
    disk.resize(DeviceSizes { index: Some(1 << 20), ..BOTH });
    assert_eq!(
        mount_error(&mut disk, &mut rng),
        "the index device has 1048576 bytes, the store needs 2097152"
    );
    disk.resize(BOTH);
    // Its first block and the copy are those of another store.
    LABELS[2..].iter().for_each(|offset| give_label_to_another(&mut disk, *offset));
    assert_eq!(
        mount_error(&mut disk, &mut rng),
        "the device given for the index is not this store's: it is of a store of osd.9, or of another use"
    );
    let mut plain = formatted(DISK_BYTES, &config());
    plain.resize(BOTH);
    assert_eq!(
        mount_error(&mut plain, &mut rng),
        "a device is given for the journal, and the store keeps its journal on the main device"
    );
}

#[test]
fn a_label_that_cannot_be_read_once_is_read_again() {
    let mut rng = StdRng::seed_from_u64(6);
    let mut disk = formatted(BOTH, &config());
    used(&mut disk, &mut rng).unmount_after(&mut disk, &mut rng);
    for (failures, is_mounted) in [(3, true), (4, false)] {
        let mut disk = disk.clone();
        let mut left: BTreeMap<u64, u32> = LABELS.into_iter().map(|offset| (offset, failures)).collect();
        let mut mount = Store::mount(disk.sizes(), config(), JOURNAL_KEY);
        let result = loop {
            if let Some(result) = mount.take() {
                break result;
            }
            for command in mount.take_commands() {
                let is_label = |offset: &u64| left.get(offset).is_some_and(|left| *left > 0);
                let fails = matches!(&command, DeviceCommand::Read { offset, .. } if is_label(offset));
                if let (true, DeviceCommand::Read { offset, .. }) = (fails, &command) {
                    *left.entry(*offset).or_default() -= 1;
                }
                let (token, result) = disk.execute(command);
                mount.device_done(token, if fails { Err(DeviceError::Io) } else { result });
            }
        };
        assert_eq!(result.is_ok(), is_mounted, "{failures}");
    }
}

/// This copy of the index device's label becomes that of another store.
fn give_label_to_another(disk: &mut VirtualDisk, offset: u64) {
    let read = DeviceCommand::Read { token: Token(1), offset, len: BLOCK };
    let own = DeviceLabel::from_block(&disk.execute(read).1.unwrap().unwrap()).expect("a label");
    let label = DeviceLabel { osd: 9, store_uuid: Uuid([9; 16]), ..own };
    let data = Bytes::from(codec::AlignedBuf::from_slice(&label.to_block()));
    let write = DeviceCommand::Write { token: Token(1), offset, data, more: Vec::new(), durable: true };
    disk.execute(write).1.unwrap();
}

/// Where labels and their copies are.
const LABELS: [u64; 4] = [
    DeviceRole::Journal.base() + COPIES[0] * BLOCK,
    DeviceRole::Journal.base() + COPIES[1] * BLOCK,
    DeviceRole::Index.base() + COPIES[0] * BLOCK,
    DeviceRole::Index.base() + COPIES[1] * BLOCK,
];

#[test]
fn a_mount_writes_a_bad_copy_of_a_label_again() {
    let mut rng = StdRng::seed_from_u64(7);
    let mut disk = formatted(BOTH, &config());
    used(&mut disk, &mut rng).unmount_after(&mut disk, &mut rng);
    disk.flip_bit(LABELS[0] + 40, 1);
    disk.set_unreadable(LABELS[3]);
    assert_eq!(disk.fsck(config(), &mut rng).problems.len(), 2);
    mount(&mut disk, &mut rng).unwrap();
    disk.crash(&mut rng);
    assert_eq!(disk.fsck(config(), &mut rng).problems, []);
}

#[test]
fn a_mount_writes_a_copy_of_a_label_again_that_is_another_stores() {
    for offset in [LABELS[2], LABELS[3]] {
        let mut rng = StdRng::seed_from_u64(8);
        let mut disk = formatted(BOTH, &config());
        used(&mut disk, &mut rng).unmount_after(&mut disk, &mut rng);
        give_label_to_another(&mut disk, offset);
        assert_eq!(disk.fsck(config(), &mut rng).problems.len(), 1);
        mount(&mut disk, &mut rng).expect("one copy is enough");
        disk.crash(&mut rng);
        assert_eq!(disk.fsck(config(), &mut rng).problems, []);
    }
}

#[test]
fn a_roomy_index_device_is_no_room_for_data() {
    let mut rng = StdRng::seed_from_u64(1);
    let sizes = DeviceSizes { main: 16 << 20, journal: None, index: Some(256 << 20) };
    let mut disk = formatted(sizes, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    for number in 0..200 {
        write(&mut store, number, 200_000);
        store.kick();
        settle(&mut store, &mut disk, &mut rng);
        assert!(store.pending.bytes < 4 * config().pending_bytes_max, "{number}: {}", store.pending.bytes);
    }
    assert!(store.waiting.has_held() && !store.has_no_room());
    store.check_invariants();
    disk.crash(&mut rng);
    let mut store = mount(&mut disk, &mut rng).unwrap();
    let mut txn = Transaction::new(coll(0));
    (0..40).for_each(|number| txn.push(&object(number), Mutation::Remove));
    store.submit(Token(1), txn);
    write(&mut store, 999, 200_000);
    store.kick();
    let done = settle(&mut store, &mut disk, &mut rng);
    assert_eq!(done, [1, 999].map(|token| Completion::Committed(Token(token))), "there is room again");
}

#[test]
fn a_superblock_that_cannot_be_read_once_counts() {
    for (failures, is_newest) in [(3, true), (4, false)] {
        let mut rng = StdRng::seed_from_u64(5);
        let mut disk = formatted(DISK_BYTES, &config());
        let store = used(&mut disk, &mut rng);
        let newest = store.superblock.sequence;
        let place = COPIES[(newest % COPIES.len() as u64) as usize] * BLOCK;
        let mut left = failures;
        let mut inspection = Store::inspect(disk.sizes(), config());
        let inspected = loop {
            if let Some(result) = inspection.take_inspected() {
                break result.unwrap();
            }
            for command in inspection.take_commands() {
                let is_there = matches!(command, DeviceCommand::Read { offset, .. } if offset == place);
                let (token, result) = disk.execute(command);
                let fails = is_there && left > 0;
                left -= u32::from(fails);
                inspection.device_done(token, if fails { Err(DeviceError::Io) } else { result });
            }
        };
        assert_eq!(left, 0);
        assert_eq!(inspected.superblock().sequence == newest, is_newest);
        assert_eq!(inspected.valid_copies() == [true; 2], is_newest);
    }
}
