//! Many objects: pages that split, empty and vanish, tables of them, checkpoints that last for many requests.

use super::*;

const DISK_BYTES: u64 = 64 << 20;
const OBJECTS: u32 = 2_500;
/// Its xattr says which transaction was the last.
const MARKER: u32 = u32::MAX;

/// Every second seed has an index that is larger than what it may hold in memory.
fn wide_config(seed: u64) -> Config {
    let config = Config { journal_bytes: 2 << 20, pending_bytes_max: 256 << 10, ..config() };
    if seed.is_multiple_of(2) {
        config
    } else {
        Config { index_bytes_max: 300 << 10, page_bytes_max: 4 << 10, ..config }
    }
}

fn xattr(rng: &mut StdRng, bytes: usize) -> Mutation {
    let name = Bytes::from(format!("a{}", rng.random_range(0..2)));
    Mutation::SetXattrs([(name, Bytes::from(vec![rng.random(); bytes]))].into())
}

/// A change of a few objects; in some transactions of many that follow each other.
fn wide_txn(number: u64, rng: &mut StdRng, model: &MemStore) -> Transaction {
    let c = coll(0);
    let mut txn = Transaction::new(c);
    txn.ops.push(TxnOp::CreateCollection);
    let marker = (Bytes::from_static(b"n"), Bytes::copy_from_slice(&number.to_le_bytes()));
    txn.push(&object(MARKER), Mutation::SetXattrs([marker].into()));
    match rng.random_range(0..40) {
        0 => {
            let from = object(rng.random_range(0..OBJECTS));
            let names = model.list(c, &from, 200).unwrap();
            let names = names.iter().filter(|name| **name != object(MARKER));
            names.for_each(|name| txn.push(name, Mutation::Remove));
        }
        1 => {
            let target = object(rng.random_range(0..OBJECTS));
            let entry = |at: u32| (Bytes::from(format!("k{at:05}")), Bytes::from(vec![at as u8; 100]));
            let from = rng.random_range(0..2_000);
            txn.push(&target, Mutation::OmapSet((from..from + 300).map(entry).collect()));
        }
        2 => {
            let (target, source) =
                (object(rng.random_range(0..OBJECTS)), object(rng.random_range(0..OBJECTS)));
            txn.push(&target, Mutation::CloneFrom { source: source.into() });
        }
        3..12 => {
            for _ in 0..40 {
                let bytes = rng.random_range(200..900);
                txn.push(&object(rng.random_range(0..OBJECTS)), xattr(rng, bytes));
            }
        }
        _ => {
            let target = object(rng.random_range(0..OBJECTS));
            let data = Bytes::from(vec![rng.random(); 4096]);
            txn.push(&target, Mutation::Write { offset: rng.random_range(0..4) * BLOCK, data: data.into() });
        }
    }
    txn
}

fn marker(store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng) -> u64 {
    let value = ask(store, disk, rng, |store| store.xattr(coll(0), &object(MARKER), b"n")).unwrap();
    value.map_or(0, |value| u64::from_le_bytes(*value.first_chunk().unwrap()))
}

fn live(seed: u64, rounds: usize, txns: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let config = wide_config(seed);
    let mut disk = formatted(DISK_BYTES, &config);
    let (mut model, mut done) = (MemStore::new(), 0);
    for round in 0..rounds {
        let mut store = disk.mount(config, &mut rng).unwrap();
        let (mut last, mut submitted, mut committed) = (model.clone(), Vec::new(), done);
        for number in done + 1..=done + txns {
            let txn = wide_txn(number, &mut rng, &last);
            last.submit(Token(0), txn.clone());
            last.complete();
            submitted.push(txn.clone());
            store.submit(Token(number), txn);
            store.kick();
            disk.submit(store.take_commands());
            for _ in 0..rng.random_range(0..6) {
                let Some((token, result)) = disk.step(&mut rng) else { break };
                store.device_done(token, result);
                disk.submit(store.take_commands());
            }
            let commits = store.take_completions().into_iter();
            committed += commits.filter(|done| matches!(done, Completion::Committed(_))).count() as u64;
        }
        if round % 3 == 2 {
            store.unmount();
            settle(&mut store, &mut disk, &mut rng);
            assert!(store.is_unmounted());
            committed = done + txns;
        }
        disk.crash(&mut rng);
        assert_eq!(disk.fsck(config, &mut rng).problems, [], "seed {seed} round {round}");
        let mut store = disk.mount(config, &mut rng).unwrap();
        let found = marker(&mut store, &mut disk, &mut rng);
        assert!(
            (committed..=done + txns).contains(&found),
            "seed {seed} round {round}: {committed}, {found}"
        );
        for txn in submitted.drain(..(found - done) as usize) {
            model.submit(Token(0), txn);
            model.complete();
        }
        done = found;
        store.check_invariants();
        assert_same(&mut store, &model, &mut disk, &mut rng);
        assert!(round == 0 || store.index.directory.tables().len() > 1, "seed {seed}: too few pages");
    }
}

#[test]
fn many_objects_survive_crashes_in_long_checkpoints() {
    for seed in crash::seeds(3) {
        live(seed, 4, 600);
    }
}
