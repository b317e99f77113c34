//! What a mount makes of a journal, and of superblocks, that are not as they were left.

use super::*;
use crate::{
    DeviceCommand, DeviceError, Problem,
    journal::Header,
    space::Run,
    superblock::{COPIES, Superblock, VERSION},
};

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

/// A store of which a checkpoint has committed a transaction that has no record; with the superblock before that.
fn checkpointed_over_a_full_ring(rng: &mut StdRng) -> (Store, VirtualDisk, Superblock) {
    let mut disk = formatted(DISK_BYTES, &small_ring());
    let mut store = disk.mount(small_ring(), rng).unwrap();
    let mut held = Vec::new();
    // Three records of 17 blocks fit, a fourth one does not, and what would make room is slow.
    for number in 0..4 {
        write(&mut store, number, 64 << 10);
        held.extend(write_ring(&mut store, &mut disk));
    }
    assert!(store.is_journal_full && store.queue.len() == 1);
    let older = store.superblock.clone();
    disk.submit(held);
    settle(&mut store, &mut disk, rng);
    assert_eq!((store.uncommitted_count(), store.superblock.last_txn), (0, 4));
    (store, disk, older)
}

/// The offset of the copy that a superblock with this number goes to first.
fn copy_of(sequence: u64) -> u64 {
    COPIES[(sequence % COPIES.len() as u64) as usize] * BLOCK
}

#[test]
fn what_a_checkpoint_commits_without_a_record_is_there_by_both_superblocks() {
    let mut rng = StdRng::seed_from_u64(2);
    let (store, disk, _) = checkpointed_over_a_full_ring(&mut rng);
    for copy in 0..2 {
        let mut damaged = disk.clone();
        damaged.set_unreadable(copy_of(store.superblock.sequence + copy));
        let mut found = damaged.mount(small_ring(), &mut rng).unwrap();
        for number in 0..4 {
            let meta = ask(&mut found, &mut damaged, &mut rng, |s| s.meta(coll(0), &object(number)));
            assert!(meta.unwrap().is_some(), "{number}, without copy {copy}");
        }
    }
}

#[test]
fn a_clean_end_is_in_both_superblocks() {
    let mut rng = StdRng::seed_from_u64(2);
    let (mut store, mut disk, _) = checkpointed_over_a_full_ring(&mut rng);
    store.unmount_after(&mut disk, &mut rng);
    for place in COPIES {
        let read = DeviceCommand::Read { token: Token(1), offset: place * BLOCK, len: BLOCK };
        let block = disk.execute(read).1.unwrap().unwrap();
        assert_eq!(Superblock::from_block(&block).as_ref(), Some(&store.superblock));
    }
}

#[test]
fn an_older_superblock_is_no_way_around_transactions_that_only_the_newer_one_has() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut store, mut disk, older) = checkpointed_over_a_full_ring(&mut rng);
    // It fits behind the others: none of these is written over.
    write(&mut store, 4, 4096);
    settle(&mut store, &mut disk, &mut rng);
    assert_eq!((store.ring.used_count(), store.uncommitted_count()), (2, 0));
    let mut sound = disk.clone();
    let mut found = sound.mount(small_ring(), &mut rng).unwrap();
    for number in 0..5 {
        assert!(
            ask(&mut found, &mut sound, &mut rng, |s| s.meta(coll(0), &object(number))).unwrap().is_some()
        );
    }
    // As the disk of a build that wrote the newest one to its own place alone.
    let mut damaged = disk;
    let (offset, data) = (copy_of(older.sequence), codec::AlignedBuf::from_slice(&older.to_block()).into());
    let write = DeviceCommand::Write { token: Token(1), offset, data, more: Vec::new(), durable: true };
    damaged.execute(write).1.unwrap();
    damaged.flip_bit(copy_of(store.superblock.sequence) + 100, 3);
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
        let mut mount = Store::mount(disk.sizes(), small_ring(), JOURNAL_KEY);
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
    assert_eq!(store.ring.head().position, 2 * u64::from(count));
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
fn a_later_record_proves_a_gap_though_its_payload_is_gone() {
    let mut rng = StdRng::seed_from_u64(4);
    let (start, mut disk) = with_records(&mut rng, 10);
    for block in [8 * 2, 8 * 2 + 1, 9 * 2 + 1] {
        disk.flip_bit(start + block * BLOCK + 70, 1);
    }
    // Both may have been in flight, so this is an end.
    assert_eq!(mount(&mut disk.clone(), &mut rng).unwrap().replayed().records, 8);
    for block in [6 * 2, 7 * 2 + 1] {
        disk.flip_bit(start + block * BLOCK + 70, 1);
    }
    let offset = start + 6 * 2 * BLOCK;
    assert_eq!(mount(&mut disk, &mut rng).err(), Some(MountError::JournalGap { offset }));
}

/// Mounts, and tells how many blocks the longest read of the ring had.
fn longest_read(disk: &mut VirtualDisk, config: Config) -> u64 {
    let mut mount = Store::mount(disk.sizes(), config, JOURNAL_KEY);
    let mut longest = 0;
    loop {
        if let Some(result) = mount.take() {
            result.expect("a damaged end is an end");
            return longest;
        }
        for command in mount.take_commands() {
            if let DeviceCommand::Read { len, .. } = command {
                longest = longest.max(len / BLOCK);
            }
            let (token, result) = disk.execute(command);
            mount.device_done(token, result);
        }
    }
}

#[test]
fn what_a_damaged_header_says_of_its_length_is_not_read() {
    let mut rng = StdRng::seed_from_u64(5);
    let config = Config { journal_bytes: 48 << 20, ..config() };
    let mut disk = formatted(64 << 20, &config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    write(&mut store, 0, 4096);
    settle(&mut store, &mut disk, &mut rng);
    let start = store.superblock.journal.start * BLOCK;
    let (block_count, payload_bytes) = (56, 68);
    let with = |numbers: &[(usize, u32)]| {
        let mut disk = disk.clone();
        let mut block = block_at(&disk, start);
        for (at, number) in numbers {
            block[*at..*at + 4].copy_from_slice(&number.to_le_bytes());
        }
        write_block(&mut disk, start, &block);
        disk
    };
    let limit = longest_read(&mut with(&[(0, 0)]), config);
    let blocks = 10_000;
    for damages in
        [&[(block_count, blocks)][..], &[(block_count, blocks), (payload_bytes, (blocks - 1) << 12)]]
    {
        assert_eq!(longest_read(&mut with(damages), config), limit, "{damages:?}");
    }
}

#[test]
fn a_journal_of_which_much_is_unreadable_is_no_end_of_one() {
    let mut rng = StdRng::seed_from_u64(5);
    let (start, mut disk) = with_records(&mut rng, 10);
    (0..17).for_each(|block| disk.set_unreadable(start + block * BLOCK));
    assert_eq!(mount(&mut disk, &mut rng).err(), Some(MountError::Device(DeviceError::Io)));
}

#[test]
fn a_block_of_the_journal_that_cannot_be_read_a_few_times_counts() {
    // One read is that of all blocks at once. Where the journal seems to end, it is read at the ring's start, and there
    // once more.
    for (failures, records) in [(4, 10), (14, 10), (15, 9)] {
        let mut rng = StdRng::seed_from_u64(6);
        let (start, mut disk) = with_records(&mut rng, 10);
        let last = start + 18 * BLOCK;
        let mut left = failures;
        let mut mount = Store::mount(disk.sizes(), config(), JOURNAL_KEY);
        let store = loop {
            if let Some(result) = mount.take() {
                break result.unwrap();
            }
            for command in mount.take_commands() {
                let is_there = matches!(command, DeviceCommand::Read { offset, len, .. } if (offset..offset + len).contains(&last));
                let (token, result) = disk.execute(command);
                let fails = is_there && left > 0;
                left -= u32::from(fails);
                mount.device_done(token, if fails { Err(DeviceError::Io) } else { result });
            }
        };
        assert_eq!((left, store.replayed().records), (0, records));
    }
}

/// The store as a mount finds it, before that flushes anything.
fn look_at(disk: &mut VirtualDisk, config: Config, rng: &mut StdRng) -> Store {
    let mut mount = Store::inspect(disk.sizes(), config);
    let take = Mount::take_inspected;
    disk.drive(rng, &mut mount, Mount::take_commands, Mount::device_done, take).unwrap().store
}

/// Writes, each looked at when all that it leads to is done, until some checkpoints were made and behind the last one
/// there is nearly as much as there may be. What the transactions behind the last one wrote, in memory.
fn write_until_much_is_behind(
    (store, disk): (&mut Store, &mut VirtualDisk),
    rng: &mut StdRng,
    (memory_max, txn_memory): (u64, u64),
    write: impl Fn(u64) -> Transaction,
) -> u64 {
    let begun = store.superblock.sequence;
    let mut records: Vec<u64> = Vec::new();
    for number in 0.. {
        records.push(store.ring.head().position);
        store.submit(Token(number), write(number));
        store.kick();
        settle(store, disk, rng);
        let behind = records.iter().filter(|position| **position >= store.superblock.journal_position);
        let memory = behind.count() as u64 * txn_memory;
        assert!(memory <= memory_max + txn_memory, "{memory} behind the checkpoint after {number}");
        if store.superblock.sequence > begun + 2 && store.ring.replay_memory() > memory_max / 4 * 3 {
            return memory;
        }
    }
    unreachable!("there are numbers enough")
}

#[test]
fn what_a_mount_has_to_hold_of_the_journal_is_bounded_by_the_memory_for_what_is_pending() {
    // Blocks and a bit, and single bytes with far less than a piece takes.
    for (bytes, pieces, piece_memory) in [(60_001, 1, 60_001), (1, 100, 100)] {
        let mut rng = StdRng::seed_from_u64(11);
        let pending_bytes_max = 128 << 10;
        let config = Config { journal_bytes: 32 * pending_bytes_max, pending_bytes_max, ..config() };
        let mut disk = formatted(64 << 20, &config);
        let mut store = disk.mount(config, &mut rng).unwrap();
        let offset_of = |number: u64, piece: u64| (number / 10 * pieces + piece) * (bytes + 20);
        let write = |number: u64| {
            let mut txn = Transaction::new(coll(0));
            for piece in 0..pieces {
                let data = Bytes::from(vec![number as u8; bytes as usize]);
                let offset = offset_of(number, piece);
                txn.push(&object(number as u32 % 10), Mutation::Write { offset, data: data.into() });
            }
            txn
        };
        let (max, of_one) = (8 * pending_bytes_max, pieces * piece_memory);
        let behind = write_until_much_is_behind((&mut store, &mut disk), &mut rng, (max, of_one), write);
        disk.crash(&mut rng);
        let found = look_at(&mut disk, config, &mut rng).pending;
        assert!(found.bytes >= behind / piece_memory * bytes, "{found:?}");
        assert!(found.memory() <= max + pending_bytes_max, "{found:?}");
        disk.mount(config, &mut rng).unwrap().check_invariants();
    }
}

#[test]
fn nothing_that_a_mount_takes_from_the_journal_keeps_the_memory_that_it_was_read_into() {
    let mut rng = StdRng::seed_from_u64(12);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    for (number, bytes) in [(0, 100), (1, 5000), (2, 3000), (3, 50)] {
        let mut txn = Transaction::new(coll(0));
        let data = Bytes::from(vec![number as u8 + 1; bytes]);
        txn.push(&object(number), Mutation::Write { offset: 0, data: data.into() });
        txn.push(&object(number), Mutation::OmapSet([(Bytes::from("key"), Bytes::from("value"))].into()));
        store.submit(Token(u64::from(number)), txn);
        store.kick();
        settle(&mut store, &mut disk, &mut rng);
    }
    disk.crash(&mut rng);
    let store = look_at(&mut disk, config(), &mut rng);
    let objects = &store.index.colls[&coll(0)];
    assert_eq!((store.pending.objects.len(), objects.omaps.len()), (4, 4));
    for (_, object) in &store.pending.objects {
        let (_, piece) = objects.onodes[object].pending.piece_from(0).unwrap();
        assert!(piece.is_unique(), "{object}: its data is part of more");
        assert!(object.oid.is_unique(), "{object}: its name among those with pending bytes is part of more");
    }
    for object in objects.onodes.keys().chain(objects.omaps.keys()) {
        assert!(object.oid.is_unique(), "{object}: its name in the index is part of more");
    }
}

/// A block that reads like a record, later than all others, of a store without a key.
fn forged() -> Bytes {
    let key = JournalKey::new(STORE_UUID.0);
    let (block, more) = Header::build(key, (u64::MAX, 1, 1), std::iter::empty());
    assert_eq!((block.len() as u64, more.len()), (BLOCK, 0));
    assert!(Header::peek_any(&block, key).unwrap().open(&block).is_some_and(|bodies| bodies.is_ok()));
    block
}

#[test]
fn what_a_client_writes_is_no_record() {
    let mut rng = StdRng::seed_from_u64(7);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    let block = forged();
    let data = Bytes::from(block.repeat(4));
    let mut txn = Transaction::new(coll(0));
    txn.push(&object(0), Mutation::Write { offset: 0, data: data.clone().into() });
    store.submit(Token(1), txn);
    store.kick();
    settle(&mut store, &mut disk, &mut rng);
    let in_ring = (store.superblock.journal.start + 1) * BLOCK;
    let read_block = DeviceCommand::Read { token: Token(1), offset: in_ring, len: BLOCK };
    assert_eq!(disk.execute(read_block).1, Ok(Some(block)), "the journal has it as it is");
    assert_eq!(disk.clone().fsck(config(), &mut rng).problems, []);
    let mut store = mount(&mut disk, &mut rng).unwrap();
    assert_eq!(store.replayed().records, 1);
    assert_eq!(read(&mut store, &mut disk, &mut rng, coll(0), &object(0), (0, u64::MAX)), Ok(data));
}

#[test]
fn a_store_made_anew_with_the_same_uuid_has_nothing_of_the_old_one() {
    let mut rng = StdRng::seed_from_u64(8);
    let (_, mut disk) = with_records(&mut rng, 10);
    format(&mut disk, JournalKey::new([10; 16]), &config());
    let store = mount(&mut disk, &mut rng).unwrap();
    assert_eq!((store.replayed().records, store.collections()), (0, Vec::new()));
}

/// Makes a store one of the format before, which has no key: its records must bear its uuid.
fn set_back(disk: &mut VirtualDisk) {
    for offset in Store::LABEL_OFFSETS {
        let superblock = superblock_at(disk, offset);
        let block = Superblock { journal_key: JournalKey::NONE, ..superblock }.to_block();
        write_block(disk, offset, &with_version(&block, VERSION - 1));
    }
}

fn superblock_at(disk: &VirtualDisk, offset: u64) -> Superblock {
    Superblock::from_block(&block_at(disk, offset)).expect("a valid superblock")
}

#[test]
fn a_store_without_a_key_keeps_its_records_and_gets_one_in_both_superblocks() {
    let mut rng = StdRng::seed_from_u64(9);
    let mut disk = VirtualDisk::new(DISK_BYTES);
    format(&mut disk, JournalKey::new(STORE_UUID.0), &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    write(&mut store, 0, 4096);
    settle(&mut store, &mut disk, &mut rng);
    set_back(&mut disk);
    let survives = |disk: &mut VirtualDisk, rng: &mut StdRng, numbers: std::ops::Range<u32>| {
        let mut store = mount(disk, rng).unwrap();
        for number in numbers {
            let found = read(&mut store, disk, rng, coll(0), &object(number), (0, u64::MAX));
            assert_eq!(found, Ok(Bytes::from(vec![number as u8 + 1; 4096])));
        }
        store
    };
    // The power may fail at any time meanwhile.
    let mut mount = Store::mount(disk.sizes(), config(), JOURNAL_KEY);
    let mut store = loop {
        if let Some(result) = mount.take() {
            break result.unwrap();
        }
        disk.submit(mount.take_commands());
        let mut cut = disk.clone();
        cut.crash(&mut rng);
        survives(&mut cut, &mut rng, 0..1);
        let (token, result) = disk.step(&mut rng).expect("a mount that is not done waits for the disk");
        mount.device_done(token, result);
    };
    assert_eq!(store.replayed().records, 1);
    for offset in Store::LABEL_OFFSETS {
        assert_eq!(Superblock::version_of(&block_at(&disk, offset)), Some(VERSION));
        assert_eq!(superblock_at(&disk, offset).journal_key, JOURNAL_KEY);
    }
    write(&mut store, 1, 4096);
    settle(&mut store, &mut disk, &mut rng);
    // By either of them the new record is found, with the new key.
    for offset in Store::LABEL_OFFSETS {
        let mut damaged = disk.clone();
        damaged.flip_bit(offset + 100, 3);
        let store = survives(&mut damaged, &mut rng, 0..2);
        assert_eq!((store.replayed().records, store.superblock.journal_key), (1, JOURNAL_KEY));
    }
}

#[test]
fn a_superblock_of_a_later_format_is_not_passed_over_in_favour_of_the_other() {
    let mut rng = StdRng::seed_from_u64(10);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    store.unmount_after(&mut disk, &mut rng);
    let newest = (store.superblock.sequence % 2) as usize;
    let with = |copy: usize, version| {
        let (mut disk, offset) = (disk.clone(), COPIES[copy] * BLOCK);
        let block = block_at(&disk, offset);
        write_block(&mut disk, offset, &with_version(&block, version));
        disk
    };
    let refusal = MountError::Version { found: VERSION + 1, expected: VERSION };
    let mut later = with(newest, VERSION + 1);
    assert_eq!(mount(&mut later, &mut rng).err(), Some(refusal));
    let blocks = Store::LABEL_OFFSETS.map(|offset| block_at(&later, offset));
    assert_eq!(Store::label(blocks.iter().map(|block| &block[..])).err(), Some(refusal));
    // One of a format that is not read any more is older than what this build wrote since.
    mount(&mut with(1 - newest, 7), &mut rng).unwrap();
}

#[test]
fn a_store_of_another_format_is_told_from_none() {
    let mut rng = StdRng::seed_from_u64(4);
    let disk = formatted(DISK_BYTES, &config());
    let mut other = VirtualDisk::new(DISK_BYTES);
    let mut damaged = VirtualDisk::new(DISK_BYTES);
    let mut blocks = Vec::new();
    for (number, offset) in Store::LABEL_OFFSETS.into_iter().enumerate() {
        let mut block = block_at(&disk, offset);
        block[8..12].copy_from_slice(&(1_000 + number as u32).to_le_bytes());
        write_block(&mut damaged, offset, &block);
        let block = with_version(&block, 1_000 + number as u32);
        write_block(&mut other, offset, &block);
        blocks.push(block);
    }
    let version = MountError::Version { found: 1_001, expected: VERSION };
    assert_eq!(mount(&mut other, &mut rng).err(), Some(version));
    assert_eq!(Store::label(blocks.iter().map(|block| &block[..])).err(), Some(version));
    let text = format!("has format 1001, which this build (format {VERSION})");
    assert!(version.to_string().contains(&text), "{version}");
    // Without a checksum that fits nobody says that it is a version.
    assert_eq!(mount(&mut damaged, &mut rng).err(), Some(MountError::NoSuperblock));
    assert_eq!(mount(&mut VirtualDisk::new(DISK_BYTES), &mut rng).err(), Some(MountError::NoSuperblock));
}

fn block_at(disk: &VirtualDisk, offset: u64) -> Vec<u8> {
    let read = DeviceCommand::Read { token: Token(1), offset, len: BLOCK };
    let Ok(Some(block)) = disk.clone().execute(read).1 else { panic!("the block can be read") };
    block.to_vec()
}

/// The superblock as a build of that version would have sealed it.
fn with_version(block: &[u8], version: u32) -> Vec<u8> {
    let mut block = block.to_vec();
    block[8..12].copy_from_slice(&version.to_le_bytes());
    block[12..16].fill(0);
    let crc = codec::crc32c(u32::MAX, &block);
    block[12..16].copy_from_slice(&crc.to_le_bytes());
    block
}

fn write_block(disk: &mut VirtualDisk, offset: u64, block: &[u8]) {
    let data = Bytes::from(codec::AlignedBuf::from_slice(block));
    let write = DeviceCommand::Write { token: Token(1), offset, data, more: Vec::new(), durable: true };
    disk.execute(write).1.unwrap();
}
