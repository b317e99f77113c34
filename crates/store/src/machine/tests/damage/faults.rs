//! Single damages, each of which would once have ended the process.

use codec::{Decode, Encode, Features};

use super::{
    sample::{Part, Sample, sample, write},
    *,
};
use crate::{
    DeviceCommand, DeviceError, DeviceRole, Problem,
    index::{PendingPage, Root},
    journal::{Direct, Draft, Header},
    machine::moves::mark,
    space::Run,
    superblock::{COPIES, Superblock},
};

fn mount_error(disk: &mut VirtualDisk) -> Option<MountError> {
    disk.mount(config(), &mut StdRng::seed_from_u64(1)).err()
}

fn with_root(change: impl Fn(&mut Root)) -> Sample {
    let mut sample = sample(0).clone();
    change(&mut sample.root);
    let bytes = sample.root.to_bytes(Features::default());
    sample.put(Part::Root, &bytes);
    sample
}

/// Marks the blocks from `first` on as free, in the map of used space.
fn with_free(run: Run) -> Sample {
    let mut sample = sample(0).clone();
    let mut bytes = sample.bytes[&Part::Region(0)].clone();
    // A magic and a length, then a bit for each block.
    for block in run.start..run.end() {
        bytes[8 + block as usize / 8] &= !(1 << (block % 8));
    }
    sample.put(Part::Region(0), &bytes);
    sample
}

#[test]
fn a_root_without_tables_or_with_records_of_more_than_there_is_is_refused() {
    let refused = Some(MountError::Corrupt { what: "index entry" });
    // As long as it was, whatever follows.
    let with_tail = |change: &dyn Fn(&mut Root)| {
        let mut sample = sample(0).clone();
        let len = sample.bytes[&Part::Root].len();
        let mut root = sample.root.clone();
        change(&mut root);
        let mut bytes = root.to_bytes(Features::default()).to_vec();
        bytes.resize(len, 0);
        sample.put(Part::Root, &bytes);
        sample
    };
    assert_eq!(mount_error(&mut with_tail(&|_| ()).disk), None);
    assert_eq!(mount_error(&mut with_tail(&|root| root.tables.clear()).disk), refused);
    let mut more = with_tail(&|root| {
        let table = root.tables[0].1.clone();
        root.pools.clear();
        root.colls.clear();
        root.regions.push(table);
    });
    assert_eq!(mount_error(&mut more.disk), refused);
}

/// Mounts while the first reads of a place fail, or bring a wrong bit in that byte.
fn mounted_with_failures(
    disk: &VirtualDisk,
    offset: u64,
    failures: u32,
    wrong: Option<usize>,
) -> Result<Box<Store>, MountError> {
    let (mut disk, mut left) = (disk.clone(), failures);
    let mut mount = Store::mount(disk.sizes(), config(), JOURNAL_KEY);
    loop {
        if let Some(result) = mount.take() {
            assert_eq!(left, 0, "it is read so often");
            return result.map(Box::new);
        }
        for command in mount.take_commands() {
            let is_there = matches!(command, DeviceCommand::Read { offset: at, .. } if at == offset);
            let (token, mut result) = disk.execute(command);
            if is_there && left > 0 {
                left -= 1;
                result = match wrong {
                    None => Err(DeviceError::Io),
                    Some(at) => {
                        let mut bytes = result.unwrap().unwrap().to_vec();
                        bytes[at] ^= 1;
                        Ok(Some(bytes.into()))
                    }
                };
            }
            mount.device_done(token, result);
        }
    }
}

fn mount_with_failures(sample: &Sample, offset: u64, failures: u32, is_error: bool) -> Option<MountError> {
    mounted_with_failures(&sample.disk, offset, failures, (!is_error).then_some(8)).err()
}

#[test]
fn what_leads_to_the_index_counts_though_it_cannot_be_read_a_few_times() {
    let sample = sample(0);
    for part in [Part::Root, Part::Table(0), Part::Region(0), Part::Pending(0)] {
        let offset = sample.blob(part).unwrap().runs.first().unwrap().start * BLOCK;
        for is_error in [false, true] {
            assert_eq!(mount_with_failures(sample, offset, 3, is_error), None, "{part:?}");
        }
        let failed = Some(MountError::Device(DeviceError::Io));
        assert_eq!(mount_with_failures(sample, offset, 4, true), failed, "{part:?}");
        let refused = mount_with_failures(sample, offset, 4, false);
        assert!(matches!(refused, Some(MountError::Corrupt { .. })), "{part:?}: {refused:?}");
    }
}

#[test]
fn a_wrong_sum_of_omap_bytes_counts_on() {
    for wrong in [0, u64::MAX] {
        let mut sample = with_root(|root| root.omap_bytes = wrong);
        let mut rng = StdRng::seed_from_u64(1);
        let mut store = sample.disk.mount(config(), &mut rng).unwrap();
        for mutation in
            [Mutation::OmapClear, Mutation::OmapSet([(Bytes::from("k"), Bytes::from("v"))].into())]
        {
            let mut txn = Transaction::new(coll(0));
            txn.push(&object(7), mutation);
            store.submit(Token(1), txn);
        }
        store.kick();
        assert_eq!(settle(&mut store, &mut sample.disk, &mut rng).len(), 2);
        assert!(store.fault().is_none());
    }
}

#[test]
fn pending_bytes_where_no_object_ends_are_refused() {
    for offset in [u64::MAX - 10, u64::MAX / BLOCK * BLOCK] {
        let mut sample = sample(0).clone();
        let mut page = PendingPage::from_bytes(sample.bytes[&Part::Pending(0)].clone().into()).unwrap();
        page.pieces[0].offset = offset;
        sample.put(Part::Pending(0), &page.to_bytes(Features::default()));
        assert_eq!(mount_error(&mut sample.disk), Some(MountError::Corrupt { what: "pending data" }));
    }
}

#[test]
fn a_page_in_free_blocks_is_refused() {
    let pages = &sample(0).tables[0].pages;
    let mut sample = with_free(pages.iter().find_map(|(_, blob)| blob.runs.first().copied()).unwrap());
    assert_eq!(mount_error(&mut sample.disk), Some(MountError::Corrupt { what: "block reference" }));
}

#[test]
fn a_store_that_lets_go_of_blocks_twice_stops_and_commits_nothing() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut disk = sample(0).disk.clone();
    let mut store = disk.mount(config(), &mut rng).unwrap();
    // As if another object had had these blocks, too, and was removed.
    let onode = store.index.peek(coll(0), &object(35)).unwrap();
    onode.extents.runs().for_each(|run| _ = store.space.release(run));
    let mut txn = Transaction::new(coll(0));
    txn.push(&object(35), Mutation::Remove);
    store.submit(Token(1), txn);
    store.kick();
    assert_eq!(settle(&mut store, &mut disk, &mut rng), []);
    assert!(store.fault().is_some());
}

/// A store that ended in order, to which `change` adds one transaction's record.
fn with_record(draft: Draft) -> VirtualDisk {
    with_record_at(draft).0
}

/// As [`with_record`]; and the byte at which the record begins.
fn with_record_at(draft: Draft) -> (VirtualDisk, u64) {
    let mut rng = StdRng::seed_from_u64(1);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    let mut txn = Transaction::new(coll(0));
    txn.push(&object(1), Mutation::Write { offset: 0, data: Bytes::from(vec![1; 9_000]).into() });
    store.submit(Token(1), txn);
    store.unmount_after(&mut disk, &mut rng);
    let superblock = &store.superblock;
    let ids = (superblock.epoch, superblock.journal_sequence, superblock.last_txn + 1);
    let (first, more) = Header::build(superblock.record_key(), ids, std::iter::once(&draft.finish()));
    let start = superblock.journal.start + superblock.journal_position;
    let record = [&first[..], &more.concat()].concat();
    write(&mut disk, &[Run { start, count: record.len() as u64 / BLOCK }], &record);
    (disk, start * BLOCK)
}

/// What was acknowledged with the journal's last record is not lost for what a device, or the path to it, does once.
#[test]
fn a_record_that_is_read_wrong_a_few_times_is_read_again() {
    let mut draft = Draft::new(coll(0));
    let data = Bytes::from(vec![5; 9_000]).into();
    draft.push(&TxnOp::Object(object(2), Mutation::Write { offset: 0, data }));
    let (disk, offset) = with_record_at(draft);
    // In its header, and in its data.
    for (wrong, failures) in [(8, 1), (5_000, 3)] {
        let store = mounted_with_failures(&disk, offset, failures, Some(wrong)).unwrap();
        assert!(store.index.peek(coll(0), &object(2)).is_some(), "{wrong}");
    }
}

#[test]
fn a_superblock_that_is_read_wrong_a_few_times_is_read_again() {
    let sample = sample(0);
    for copy in COPIES {
        assert_eq!(mount_with_failures(sample, copy * BLOCK, 3, false), None);
    }
}

/// A power cut may tear the first checkpoint, and the one after it again: each goes over the older one.
#[test]
fn superblocks_of_a_new_store_lie_where_those_of_checkpoints_do() {
    let mut disk = formatted(DISK_BYTES, &config());
    for (at, copy) in COPIES.iter().enumerate() {
        let read = DeviceCommand::Read { token: Token(1), offset: copy * BLOCK, len: BLOCK };
        let block = disk.execute(read).1.unwrap().unwrap();
        assert_eq!(Superblock::from_block(&block).unwrap().sequence as usize % COPIES.len(), at);
    }
}

/// It was durable, whatever wrote it.
#[test]
fn a_whole_record_that_does_not_decode_is_no_torn_one() {
    let mut draft = Draft::new(coll(0));
    let runs = vec![Run { start: 1_000, count: 1 }];
    draft.directs.push(Direct { before_op: 0, object: object(2), block: 0, runs, crcs: vec![7, 7] });
    let refused = Some(MountError::Corrupt { what: "journal record" });
    let mut disk = with_record(draft);
    assert_eq!(mount_error(&mut disk), refused);
    // Who looks at the store sees the rest of it.
    let report = disk.fsck(config(), &mut StdRng::seed_from_u64(1));
    assert_eq!(report.problems, refused.into_iter().map(Problem::Unmountable).collect::<Vec<_>>());
}

#[test]
fn a_record_with_data_where_none_may_be_is_refused() {
    let refused = Some(MountError::Corrupt { what: "journal block reference" });
    let index = DeviceRole::Index.base_block() + COPIES[1] + 20;
    for start in [0, COPIES[1], DISK_BYTES / BLOCK, index] {
        let mut draft = Draft::new(coll(0));
        let runs = vec![Run { start, count: 1 }];
        draft.directs.push(Direct { before_op: 0, object: object(2), block: 0, runs, crcs: vec![7] });
        assert_eq!(mount_error(&mut with_record(draft)), refused, "{start}");
    }
}

#[test]
fn a_mark_that_is_of_another_collection_or_no_move_is_refused() {
    let refused = Some(MountError::Corrupt { what: "move under way" });
    let split = |child: CollId| {
        let from = HObject { pool: PoolId(1), ..HObject::default() };
        let (to, record) = (HObject::max(), HObject::default());
        TxnOp::Split(Box::new(CollSplit { child, from, to, record, omap: Default::default() }))
    };
    let write = TxnOp::Object(object(3), Mutation::Touch);
    for (coll_of_it, ops, expected) in [
        (coll(0), vec![split(coll(1))], None),
        (coll(1), vec![split(coll(2))], refused),
        (coll(0), vec![split(coll(0))], refused),
        (coll(0), vec![split(coll(1)), write.clone(), split(coll(2))], refused),
        (coll(0), vec![write], refused),
        (coll(0), Vec::new(), refused),
    ] {
        let txn = Transaction { coll: coll_of_it, ops };
        let mut meta = Vec::new();
        txn.encode_split(&mut meta, &mut Vec::new());
        let value = [&(meta.len() as u32).to_le_bytes()[..], &meta].concat();
        let mut draft = Draft::new(coll(0));
        let pairs = [(Bytes::from_static(&[0; 4]), Bytes::from(value))].into();
        draft.push(&TxnOp::Object(mark(), Mutation::OmapSet(pairs)));
        let mut disk = with_record(draft);
        let problems = disk.fsck(config(), &mut StdRng::seed_from_u64(1)).problems;
        assert_eq!(problems, expected.map(Problem::Unmountable).into_iter().collect::<Vec<_>>(), "{txn:?}");
        assert_eq!(mount_error(&mut disk), expected, "{txn:?}");
    }
}
