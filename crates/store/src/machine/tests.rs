//! The store against its model, on a disk that crashes.

use std::ops::Bound;

use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};
use types::{
    CollId, CollMerge, CollSplit, HObject, Mutation, PgId, PoolId, SnapId, Token, Transaction, TxnOp, Uuid,
};

mod checkpoint;
mod checkpoint_room;
mod clones;
mod crash;
mod damage;
mod data_reads;
mod devices;
mod discard;
mod fragmentation;
mod full;
mod journal;
mod paging;
mod steps;
mod wide;
mod write_throttle;

use super::{Mount, MountError, Store, StoreIdentity};
use crate::{
    Completion, Config, DeviceSizes, JournalKey, MemStore, NotCached, ObjectMeta, ObjectStore, OmapMost,
    ReadError, device::BLOCK, virtual_disk::VirtualDisk,
};

const DISK_BYTES: u64 = 8 << 20;

fn config() -> Config {
    Config {
        journal_bytes: 1 << 20,
        pending_bytes_max: 128 << 10,
        cache_bytes_max: 256 << 10,
        reading_bytes_max: 16 << 10,
        ..Config::default()
    }
}

fn coll(seed: u32) -> CollId {
    CollId::pg(PgId::new(PoolId(1), seed))
}

fn object(number: u32) -> HObject {
    HObject {
        oid: Bytes::from(format!("object{number}")),
        pool: PoolId(1),
        hash: number.wrapping_mul(0x9e37_79b9),
        snap: SnapId::HEAD,
        ..HObject::default()
    }
}

const STORE_UUID: Uuid = Uuid([7; 16]);
const JOURNAL_KEY: JournalKey = JournalKey::new([9; 16]);

fn formatted(sizes: impl Into<DeviceSizes>, config: &Config) -> VirtualDisk {
    let mut disk = VirtualDisk::new(sizes);
    format(&mut disk, JOURNAL_KEY, config);
    disk
}

fn format(disk: &mut VirtualDisk, key: JournalKey, config: &Config) {
    let identity = StoreIdentity { store_uuid: STORE_UUID, fsid: Uuid([8; 16]), osd: 3, shard: 0, shards: 1 };
    for command in Store::format(disk.sizes(), identity, key, config).unwrap() {
        disk.execute(command).1.unwrap();
    }
}

fn mount(disk: &mut VirtualDisk, rng: &mut StdRng) -> Result<Store, MountError> {
    disk.mount(config(), rng)
}

/// Executes everything that is outstanding.
fn settle(store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng) -> Vec<Completion> {
    let mut out = Vec::new();
    loop {
        disk.submit(store.take_commands());
        out.extend(store.take_completions());
        match disk.step(rng) {
            Some((token, result)) => store.device_done(token, result),
            None => return out,
        }
    }
}

fn read(
    store: &mut Store,
    disk: &mut VirtualDisk,
    rng: &mut StdRng,
    c: CollId,
    o: &HObject,
    at: (u64, u64),
) -> Result<Bytes, ReadError> {
    ask(store, disk, rng, |store| {
        let found = store.read(c, o, at.0, at.1);
        assert!(found.is_err() || store.lacks(c, o, at.0, at.1).is_none(), "what can be read lacks nothing");
        found
    })
}

/// Asks until it is answered, and loads what is missing meanwhile.
fn ask<T>(
    store: &mut Store,
    disk: &mut VirtualDisk,
    rng: &mut StdRng,
    question: impl Fn(&Store) -> Result<T, NotCached>,
) -> Result<T, ReadError> {
    for _ in 0..1000 {
        let missing = match question(store) {
            Ok(answer) => {
                store.unload(Token(77));
                return Ok(answer);
            }
            Err(missing) => missing,
        };
        store.load(Token(77), missing);
        store.kick();
        for done in settle(store, disk, rng) {
            if let Completion::Loaded(_, Err(error)) = done {
                store.unload(Token(77));
                return Err(error);
            }
        }
    }
    panic!("a load brings what was missing");
}

/// Settings with which hardly anything of the index is in memory, and collections go an object or a few at a time.
fn paged(config: Config, seed: u64) -> Config {
    let index_bytes_max = [0, 10 << 10, 40 << 10][(seed % 3) as usize];
    let page_bytes_max = [256, 512, 2048][(seed / 3 % 3) as usize];
    let step_objects_max = [1, 2, 128][(seed / 2 % 3) as usize];
    Config { index_bytes_max, page_bytes_max, step_objects_max, ..config }
}

type AllButData = (Option<ObjectMeta>, Vec<(Bytes, Bytes)>, Bytes, Vec<(Bytes, Bytes)>);

fn all_but_data(store: &dyn ObjectStore, c: CollId, o: &HObject) -> Result<AllButData, NotCached> {
    let omap = store.omap_range(c, o, Bound::Unbounded, OmapMost::ALL)?;
    Ok((store.meta(c, o)?, store.xattrs(c, o)?, store.omap_header(c, o)?, omap))
}

fn assert_same(store: &mut Store, model: &MemStore, disk: &mut VirtualDisk, rng: &mut StdRng) {
    assert_eq!(store.collections(), model.collections());
    for c in model.collections() {
        let names = model.list(c, &HObject::min(), usize::MAX).unwrap();
        assert_eq!(ask(store, disk, rng, |s| s.list(c, &HObject::min(), usize::MAX)).unwrap(), names);
        for o in &names {
            assert_eq!(
                ask(store, disk, rng, |s| all_but_data(s, c, o)).unwrap(),
                all_but_data(model, c, o).unwrap()
            );
            let found = read(store, disk, rng, c, o, (0, u64::MAX)).unwrap();
            let expected = model.read(c, o, 0, u64::MAX).unwrap();
            let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!((found.len(), differs), (expected.len(), None), "{o}");
        }
    }
}

fn random_mutation(rng: &mut StdRng, fill: u8) -> Mutation {
    let aligned = rng.random_bool(0.5);
    let round = |n: u64| if aligned { n / BLOCK * BLOCK } else { n };
    let offset = round(rng.random_range(0..80_000));
    let key = |rng: &mut StdRng| Bytes::from(format!("k{}", rng.random_range(0..40)));
    match rng.random_range(0..20) {
        0..6 => {
            let len = round(rng.random_range(1..12_000)).max(100);
            let data: Vec<u8> = (0..len).map(|at| fill.wrapping_add((at / 512) as u8)).collect();
            Mutation::Write { offset, data: Bytes::from(data).into() }
        }
        6 => {
            let len = rng.random_range(66_000..150_000);
            Mutation::Write { offset, data: Bytes::from(vec![fill; round(len).max(66_000) as usize]).into() }
        }
        7 => Mutation::Zero { offset, len: round(rng.random_range(1..30_000)) },
        8 => Mutation::Truncate { size: offset },
        9 => Mutation::Remove,
        10 => Mutation::SetXattrs([(key(rng), Bytes::from(vec![fill; 20]))].into()),
        11 => Mutation::RemoveXattr(key(rng)),
        12 => Mutation::OmapSet((0..5).map(|_| (key(rng), Bytes::from(vec![fill; 900]))).collect()),
        13 => Mutation::OmapRemove(vec![key(rng)]),
        14 => Mutation::OmapRemoveRange { first: key(rng), last: key(rng) },
        15 => Mutation::OmapSetHeader(Bytes::from(vec![fill; 9])),
        16 => {
            if rng.random_bool(0.2) {
                Mutation::OmapClear
            } else {
                Mutation::Touch
            }
        }
        _ => Mutation::CloneFrom { source: object(rng.random_range(0..6)).into() },
    }
}

fn random_range(rng: &mut StdRng) -> [HObject; 2] {
    let mut bounds = [object(rng.random_range(0..6)), object(rng.random_range(0..6))];
    bounds.sort_unstable();
    let [from, to] = bounds;
    let to = if rng.random_bool(0.3) { HObject::max() } else { to };
    [from, to]
}

/// A transaction of one of the first `colls` collections.
fn random_txn(rng: &mut StdRng, model: &MemStore, colls: u32) -> Transaction {
    let c = coll(rng.random_range(0..colls));
    let mut txn = Transaction::new(c);
    if rng.random_bool(0.02) {
        txn.ops.push(TxnOp::RemoveCollection);
    }
    txn.ops.push(TxnOp::CreateCollection);
    // The collection that is not there comes of this one.
    let child = (0..2).map(coll).find(|child| *child != c && !model.collection_exists(*child));
    if let Some(child) = child.filter(|_| txn.ops.len() == 1 && rng.random_bool(0.1)) {
        let [from, to] = random_range(rng);
        let omap = [(Bytes::from_static(b"info"), Bytes::from_static(b"child"))].into();
        let record = HObject { oid: Bytes::from_static(b"record"), pool: PoolId(-2), ..HObject::default() };
        txn.ops.push(TxnOp::Split(Box::new(CollSplit { child, from, to, record, omap })));
        return txn;
    }
    let other = (0..colls).map(coll).find(|other| *other != c && model.collection_exists(*other));
    if let Some(source) = other.filter(|_| txn.ops.len() == 1 && rng.random_bool(0.1)) {
        let [from, to] = random_range(rng);
        txn.ops.push(TxnOp::Merge(Box::new(CollMerge { source, from, to })));
        return txn;
    }
    let fill = rng.random();
    for _ in 0..rng.random_range(1..4) {
        let mutation = random_mutation(rng, fill);
        txn.push(&object(rng.random_range(0..6)), mutation);
    }
    txn
}

fn same_shape(
    store: &mut Store,
    model: &MemStore,
    disk: &mut VirtualDisk,
    rng: &mut StdRng,
) -> Result<bool, ReadError> {
    if store.collections() != model.collections() {
        return Ok(false);
    }
    for c in model.collections() {
        let names = model.list(c, &HObject::min(), usize::MAX).unwrap();
        if ask(store, disk, rng, |s| s.list(c, &HObject::min(), usize::MAX))? != names {
            return Ok(false);
        }
        for o in &names {
            if ask(store, disk, rng, |s| all_but_data(s, c, o))? != all_but_data(model, c, o).unwrap() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn same_data(store: &mut Store, model: &MemStore, disk: &mut VirtualDisk, rng: &mut StdRng) -> bool {
    model.collections().into_iter().all(|c| {
        model.list(c, &HObject::min(), usize::MAX).unwrap().iter().all(|o| {
            let found =
                read(store, disk, rng, c, o, (0, u64::MAX)).expect("no block is corrupt after a crash");
            found == model.read(c, o, 0, u64::MAX).unwrap()
        })
    })
}

#[test]
fn a_small_write_costs_one_journal_write_of_two_blocks() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    let mut txn = Transaction::new(coll(0));
    txn.push(&object(0), Mutation::Write { offset: 8192, data: Bytes::from(vec![5; 4096]).into() });
    store.submit(Token(9), txn);
    store.kick();
    let commands = store.take_commands();
    assert!(matches!(&commands[..], [crate::DeviceCommand::Write { data, more, durable: true, .. }]
            if data.len() == 4096 && more.iter().map(Bytes::len).eq([4096])));
    assert_eq!(store.read(coll(0), &object(0), 8192, 4096).unwrap(), vec![5; 4096]);
    disk.submit(commands);
    assert_eq!(settle(&mut store, &mut disk, &mut rng), vec![Completion::Committed(Token(9))]);
}

#[test]
fn on_a_file_zeros_go_ahead_of_the_first_lap_of_the_journal() {
    let mut rng = StdRng::seed_from_u64(1);
    let config = Config { prepares_journal: true, ..config() };
    let mut disk = formatted(DISK_BYTES, &config);
    for mounts in 0..3 {
        let mut store = disk.mount(config, &mut rng).unwrap();
        let mut zeros = 0;
        for at in 0..200 {
            let mut txn = Transaction::new(coll(0));
            let data = Bytes::from(vec![at as u8 + 1; 4096]);
            txn.push(&object(0), Mutation::Write { offset: at % 10 * 4096, data: data.into() });
            store.submit(Token(at), txn);
            store.kick();
            let commands = store.take_commands();
            let is_zeros = |command: &crate::DeviceCommand| matches!(command, crate::DeviceCommand::Write { data, .. } if data.iter().all(|b| *b == 0));
            zeros += commands.iter().filter(|command| is_zeros(command)).count();
            disk.submit(commands);
            settle(&mut store, &mut disk, &mut rng);
        }
        // The second mount knows that the first one went round.
        assert_eq!(zeros > 0, mounts == 0);
        store.unmount_after(&mut disk, &mut rng);
    }
}

#[test]
fn the_store_equals_its_model_across_mounts() {
    for seed in 0..15 {
        let mut rng = StdRng::seed_from_u64(seed);
        let config = if seed < 6 { config() } else { paged(config(), seed) };
        let mut disk = formatted(DISK_BYTES, &config);
        let mut model = MemStore::new();
        for _ in 0..4 {
            let mut store = disk.mount(config, &mut rng).unwrap();
            assert_same(&mut store, &model, &mut disk, &mut rng);
            for at in 0..120 {
                let txn = random_txn(&mut rng, &model, 2);
                model.submit(Token(at), txn.clone());
                store.submit(Token(at), txn);
                if rng.random_bool(0.5) {
                    store.kick();
                    settle(&mut store, &mut disk, &mut rng);
                }
                if at % 30 == 0 {
                    store.check_invariants();
                    assert_same(&mut store, &model, &mut disk, &mut rng);
                }
            }
            store.unmount();
            settle(&mut store, &mut disk, &mut rng);
            assert!(store.is_unmounted());
            store.check_invariants();
            assert_same(&mut store, &model, &mut disk, &mut rng);
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_and_never_data() {
    let mut rng = StdRng::seed_from_u64(3);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    let mut txn = Transaction::new(coll(0));
    txn.push(&object(0), Mutation::Write { offset: 0, data: Bytes::from(vec![5; 100 << 10]).into() });
    store.submit(Token(1), txn);
    store.unmount_after(&mut disk, &mut rng);
    let run = store.index.get(coll(0), &object(0)).unwrap().extents.runs().next().unwrap();
    disk.flip_bit((run.start + 2) * BLOCK + 17, 3);
    let mut store = mount(&mut disk, &mut rng).unwrap();
    let found = read(&mut store, &mut disk, &mut rng, coll(0), &object(0), (0, 100 << 10));
    assert_eq!(found, Err(ReadError::Corrupt { offset: 2 * BLOCK }));
    assert_eq!(
        read(&mut store, &mut disk, &mut rng, coll(0), &object(0), (0, 8192)),
        Ok(Bytes::from(vec![5; 8192]))
    );
}

#[test]
fn what_was_read_stays_unless_it_is_much() {
    let mut rng = StdRng::seed_from_u64(5);
    for (bytes, is_kept) in [(64 << 10, true), (128 << 10, true), (132 << 10, false)] {
        let mut disk = formatted(DISK_BYTES, &config());
        let mut store = mount(&mut disk, &mut rng).unwrap();
        let mut txn = Transaction::new(coll(0));
        txn.push(&object(0), Mutation::Write { offset: 0, data: Bytes::from(vec![5; bytes]).into() });
        store.submit(Token(1), txn);
        store.unmount_after(&mut disk, &mut rng);
        let mut store = mount(&mut disk, &mut rng).unwrap();
        // A read that reaches beyond the object's end gets what there is.
        let found = read(&mut store, &mut disk, &mut rng, coll(0), &object(0), (0, 4 << 20));
        assert_eq!(found, Ok(Bytes::from(vec![5; bytes])));
        assert_eq!(store.cached().data.bytes, if is_kept { bytes as u64 } else { 0 }, "{bytes} bytes");
    }
}

/// Loads from the device, whatever memory has; whether that went well.
fn load_anew(store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng, len: u64) -> Result<(), ReadError> {
    store.load_anew(Token(8), coll(0), &object(0), 0, len);
    let done = settle(store, disk, rng);
    let result = done.into_iter().find_map(|done| match done {
        Completion::Loaded(Token(8), result) => Some(result),
        Completion::Loaded(..) | Completion::Committed(_) => None,
    });
    result.expect("a load ends")
}

#[test]
fn a_load_anew_sees_what_memory_hides() {
    let mut rng = StdRng::seed_from_u64(4);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    let mut txn = Transaction::new(coll(0));
    txn.push(&object(0), Mutation::Write { offset: 0, data: Bytes::from(vec![5; 100 << 10]).into() });
    store.submit(Token(1), txn);
    // On its way: the device does not have it, and nobody says that it is bad.
    assert_eq!(load_anew(&mut store, &mut disk, &mut rng, 100 << 10), Ok(()));
    store.unload(Token(8));
    let range = (0, 100 << 10);
    let whole = Ok(Bytes::from(vec![5; 100 << 10]));
    store.load(Token(9), NotCached::Data { coll: coll(0), object: object(0), offset: 0, len: 100 << 10 });
    settle(&mut store, &mut disk, &mut rng);
    assert_eq!(load_anew(&mut store, &mut disk, &mut rng, 100 << 10), Ok(()));
    store.unload(Token(8));
    let run = store.index.get(coll(0), &object(0)).unwrap().extents.runs().next().unwrap();
    disk.flip_bit((run.start + 2) * BLOCK + 17, 3);
    // What another one holds in memory stays good.
    assert_eq!(read(&mut store, &mut disk, &mut rng, coll(0), &object(0), range), whole);
    let found = load_anew(&mut store, &mut disk, &mut rng, 100 << 10);
    assert_eq!(found, Err(ReadError::Corrupt { offset: 2 * BLOCK }));
    store.unload(Token(8));
    assert_eq!(store.read(coll(0), &object(0), 0, 100 << 10).map_err(|_| ReadError::Device), whole);
    store.unload(Token(9));
    store.check_invariants();
}

impl Store {
    fn unmount_after(&mut self, disk: &mut VirtualDisk, rng: &mut StdRng) {
        self.unmount();
        settle(self, disk, rng);
        assert!(self.is_unmounted());
    }
}
