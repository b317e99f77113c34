//! What a mount makes of a journal, and of superblocks, that are not as they were left.

use super::*;
use crate::{DeviceCommand, Problem, space::Run, superblock::COPIES};

/// A ring of 64 blocks, and writes of 16 blocks that go through it.
fn small_ring() -> Config {
    Config { journal_bytes: 256 << 10, ..config() }
}

fn write(store: &mut Store, number: u32, bytes: usize) {
    let mut txn = Transaction::new(coll(0));
    let data = Bytes::from(vec![number as u8 + 1; bytes]);
    txn.push(&object(number), Mutation::Write { offset: 0, data: data.into() });
    store.submit(Token(u64::from(number)), txn);
    store.kick();
}

/// Executes what goes to the ring and gives back the rest.
fn write_ring(store: &mut Store, disk: &mut VirtualDisk) -> Vec<DeviceCommand> {
    let journal = store.superblock.journal;
    let in_ring = |command: &DeviceCommand| matches!(command, DeviceCommand::Write { offset, .. } if journal.holds(Run { start: offset / BLOCK, count: 1 }));
    let mut others = Vec::new();
    loop {
        let (records, rest): (Vec<_>, Vec<_>) = store.take_commands().into_iter().partition(in_ring);
        others.extend(rest);
        if records.is_empty() {
            return others;
        }
        for record in records {
            let (token, result) = disk.execute(record);
            store.device_done(token, result);
        }
    }
}

/// A store of which a checkpoint has committed a transaction that has no record, and with a record after it.
fn checkpointed_over_a_full_ring(rng: &mut StdRng) -> (Store, VirtualDisk) {
    let mut disk = formatted(DISK_BYTES, &small_ring());
    let mut store = disk.mount(small_ring(), rng).unwrap();
    let mut held = Vec::new();
    // Three records of 17 blocks fit, a fourth one does not, and what would make room is slow.
    for number in 0..4 {
        write(&mut store, number, 64 << 10);
        held.extend(write_ring(&mut store, &mut disk));
    }
    assert!(store.is_journal_full && store.queue.len() == 1);
    disk.submit(held);
    settle(&mut store, &mut disk, rng);
    assert_eq!((store.uncommitted_count(), store.superblock.last_txn), (0, 4));
    // It fits behind the others: none of these is written over.
    write(&mut store, 4, 4096);
    settle(&mut store, &mut disk, rng);
    assert_eq!((store.ring.used_count(), store.uncommitted_count()), (2, 0));
    (store, disk)
}

#[test]
fn an_older_superblock_is_no_way_around_transactions_that_only_the_newer_one_has() {
    let mut rng = StdRng::seed_from_u64(1);
    let (store, disk) = checkpointed_over_a_full_ring(&mut rng);
    let newest = COPIES[(store.superblock.sequence % 2) as usize] * BLOCK;
    let mut sound = disk.clone();
    let mut found = sound.mount(small_ring(), &mut rng).unwrap();
    for number in 0..5 {
        assert!(
            ask(&mut found, &mut sound, &mut rng, |s| s.meta(coll(0), &object(number))).unwrap().is_some()
        );
    }
    let mut damaged = disk;
    damaged.flip_bit(newest + 100, 3);
    let offset = (store.superblock.journal.start + 51) * BLOCK;
    let problem = Problem::Unmountable(MountError::JournalGap { offset });
    assert_eq!(damaged.clone().fsck(small_ring(), &mut rng).problems, [problem]);
    let refused = damaged.mount(small_ring(), &mut rng);
    assert_eq!(refused.err(), Some(MountError::JournalGap { offset }));
}

#[test]
fn a_mount_makes_the_journal_durable_before_it_writes_over_what_that_covers() {
    for seed in 0..40 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut disk = formatted(DISK_BYTES, &small_ring());
        let mut store = disk.mount(small_ring(), &mut rng).unwrap();
        write(&mut store, 7, 16 << 10);
        store.unmount_after(&mut disk, &mut rng);
        let mut store = disk.mount(small_ring(), &mut rng).unwrap();
        // The record reaches the disk's cache, or not, and nobody is told.
        let mut txn = Transaction::new(coll(0));
        let data = Bytes::from(vec![99; 8 << 10]);
        txn.push(&object(7), Mutation::Write { offset: 0, data: data.into() });
        store.submit(Token(1), txn);
        store.kick();
        disk.submit(store.take_commands());
        disk.kill(&mut rng);
        let mut mount = Store::mount(disk.sizes(), small_ring());
        while mount.take().is_none() {
            disk.submit(mount.take_commands());
            let mut cut = disk.clone();
            cut.crash(&mut rng);
            assert_eq!(cut.fsck(small_ring(), &mut rng).problems, [], "seed {seed}");
            let (token, result) = disk.step(&mut rng).expect("a mount that is not done waits for the disk");
            mount.device_done(token, result);
        }
    }
}

/// A store with so many records of two blocks behind its checkpoint, stopped.
fn with_records(rng: &mut StdRng, count: u32) -> (u64, VirtualDisk) {
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, rng).unwrap();
    for number in 0..count {
        write(&mut store, number, 4096);
        settle(&mut store, &mut disk, rng);
    }
    assert_eq!(store.ring.head().0, 2 * u64::from(count));
    (store.superblock.journal.start * BLOCK, disk)
}

#[test]
fn unreadable_blocks_behind_the_last_record_are_its_end() {
    let mut rng = StdRng::seed_from_u64(3);
    let (start, mut disk) = with_records(&mut rng, 10);
    // The first one cannot be read as part of the window either.
    [20, 21, 25].into_iter().for_each(|block| disk.set_unreadable(start + block * BLOCK));
    let mut store = mount(&mut disk, &mut rng).unwrap();
    assert_eq!(store.replayed().records, 10);
    for number in 0..10 {
        let found = read(&mut store, &mut disk, &mut rng, coll(0), &object(number), (0, 4096)).unwrap();
        assert_eq!(found, vec![number as u8 + 1; 4096]);
    }
}

#[test]
fn an_unreadable_record_among_others_is_a_gap() {
    let mut rng = StdRng::seed_from_u64(4);
    let (start, mut disk) = with_records(&mut rng, 10);
    disk.set_unreadable(start + 9 * BLOCK);
    let offset = start + 8 * BLOCK;
    assert_eq!(mount(&mut disk.clone(), &mut rng).err(), Some(MountError::JournalGap { offset }));
    let problem = Problem::Unmountable(MountError::JournalGap { offset });
    assert_eq!(disk.fsck(config(), &mut rng).problems, [problem]);
}

#[test]
fn a_journal_of_which_much_is_unreadable_is_no_end_of_one() {
    let mut rng = StdRng::seed_from_u64(5);
    let (start, mut disk) = with_records(&mut rng, 10);
    (0..17).for_each(|block| disk.set_unreadable(start + block * BLOCK));
    assert_eq!(mount(&mut disk, &mut rng).err(), Some(MountError::Device(crate::DeviceError::Io)));
}

#[test]
fn a_store_of_another_format_is_told_from_none() {
    let mut rng = StdRng::seed_from_u64(4);
    let disk = formatted(DISK_BYTES, &config());
    let mut other = VirtualDisk::new(DISK_BYTES);
    let mut damaged = VirtualDisk::new(DISK_BYTES);
    let mut blocks = Vec::new();
    for (number, offset) in Store::LABEL_OFFSETS.into_iter().enumerate() {
        let read = DeviceCommand::Read { token: Token(1), offset, len: BLOCK };
        let Ok(Some(block)) = disk.clone().execute(read).1 else { panic!("there is a superblock") };
        let mut block = block.to_vec();
        block[8..12].copy_from_slice(&(1_000 + number as u32).to_le_bytes());
        write_block(&mut damaged, offset, &block);
        block[12..16].fill(0);
        let crc = codec::crc32c(u32::MAX, &block);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
        write_block(&mut other, offset, &block);
        blocks.push(block);
    }
    let version = MountError::Version { found: 1_001, expected: crate::superblock::VERSION };
    assert_eq!(mount(&mut other, &mut rng).err(), Some(version));
    assert_eq!(Store::label(blocks.iter().map(|block| &block[..])).err(), Some(version));
    let text = format!("has format 1001, which this build (format {})", crate::superblock::VERSION);
    assert!(version.to_string().contains(&text), "{version}");
    // Without a checksum that fits nobody says that it is a version.
    assert_eq!(mount(&mut damaged, &mut rng).err(), Some(MountError::NoSuperblock));
    assert_eq!(mount(&mut VirtualDisk::new(DISK_BYTES), &mut rng).err(), Some(MountError::NoSuperblock));
}

fn write_block(disk: &mut VirtualDisk, offset: u64, block: &[u8]) {
    let data = Bytes::from(codec::AlignedBuf::from_slice(block));
    let write = DeviceCommand::Write { token: Token(1), offset, data, more: Vec::new(), durable: true };
    disk.execute(write).1.unwrap();
}
