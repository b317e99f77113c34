//! What ten overwrites of a device at 90 % do to its objects: extents per object before and after.
//!
//! STORE_FRAGMENTATION_MIB chooses the device's size; `--nocapture` shows the numbers.

use super::*;

const OBJECT_BYTES: u64 = 4 << 20;

struct Bed {
    disk: VirtualDisk,
    store: Store,
    rng: StdRng,
    objects: u32,
    device_bytes: u64,
}

/// What an object is cut in.
#[derive(Debug)]
struct Cuts {
    mean: f64,
    most: usize,
}

impl Bed {
    /// 90 % of the data area are full, object after object.
    fn new() -> Bed {
        let mib = std::env::var("STORE_FRAGMENTATION_MIB").ok().and_then(|n| n.parse().ok()).unwrap_or(32);
        let device_bytes: u64 = mib << 20;
        let config = Config { journal_bytes: 4 << 20, pending_bytes_max: 2 << 20, ..config() };
        let mut rng = StdRng::seed_from_u64(1);
        let mut disk = formatted(device_bytes, &config);
        let store = disk.mount(config, &mut rng).unwrap();
        let objects = (store.usage().available_bytes * 9 / 10 / OBJECT_BYTES) as u32;
        let mut bed = Bed { disk, store, rng, objects, device_bytes };
        for number in 0..objects {
            bed.write(number, 0, OBJECT_BYTES);
        }
        bed
    }

    fn submit(&mut self, number: u32, mutation: Mutation) {
        let mut txn = Transaction::new(coll(0));
        txn.push(&object(number), mutation);
        self.store.submit(Token(0), txn);
        self.store.kick();
        settle(&mut self.store, &mut self.disk, &mut self.rng);
    }

    fn write(&mut self, number: u32, offset: u64, len: u64) {
        let data = bytes::Bytes::from(codec::AlignedBuf::zeroed(len as usize)).into();
        self.submit(number, Mutation::Write { offset, data });
    }

    /// Writes of a size, at multiples of `step`, until the device was written ten times over.
    fn overwrite(&mut self, step: u64, mut size: impl FnMut(&mut StdRng) -> u64) {
        let mut left = self.device_bytes * 10;
        while left > 0 {
            let len = size(&mut self.rng);
            let number = self.rng.random_range(0..self.objects);
            let offset = self.rng.random_range(0..=(OBJECT_BYTES - len) / step) * step;
            self.write(number, offset, len);
            left = left.saturating_sub(len);
        }
    }

    fn cuts(&self) -> Cuts {
        let mut counts = Vec::new();
        self.store.index.each_entry(|_, _, entry| {
            if let crate::index::Entry::Onode(onode) = entry {
                counts.push(pieces(onode));
            }
        });
        let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
        let most = counts.iter().copied().max().unwrap_or(0);
        Cuts { mean, most }
    }
}

/// Pieces that do not follow each other on the device.
fn pieces(onode: &crate::onode::Onode) -> usize {
    let mut end = 0;
    let starts = onode.extents.runs().filter(|run| std::mem::replace(&mut end, run.end()) != run.start);
    starts.count()
}

fn measured(name: &str, run: impl FnOnce(&mut Bed)) -> (Cuts, Cuts) {
    let mut bed = Bed::new();
    let before = bed.cuts();
    run(&mut bed);
    bed.store.check_invariants();
    let after = bed.cuts();
    println!("{name}: {} objects of 4 MiB; before {before:?}, after {after:?}", bed.objects);
    (before, after)
}

#[test]
fn small_overwrites_stay_in_place() {
    let (before, after) = measured("4 KiB", |bed| bed.overwrite(BLOCK, |_| BLOCK));
    assert_eq!((before.mean, before.most), (after.mean, after.most));
}

#[test]
fn aligned_overwrites_cut_objects_in_pieces_of_their_size() {
    let (_, after) = measured("128 KiB, aligned", |bed| bed.overwrite(128 << 10, |_| 128 << 10));
    assert!(after.most <= (OBJECT_BYTES / (128 << 10)) as usize + 8, "{after:?}");
}

#[test]
fn unaligned_overwrites_leave_pieces_of_some_blocks() {
    let (_, after) = measured("128 KiB, at any block", |bed| bed.overwrite(BLOCK, |_| 128 << 10));
    assert!(after.mean < (OBJECT_BYTES / (16 << 10)) as f64, "{after:?}");
}

#[test]
fn small_writes_after_a_snapshot_cut_one_piece_each() {
    let (_, after) = measured("clones", |bed| {
        // One clone at a time, as a rolling snapshot has it.
        for round in 0..bed.device_bytes / OBJECT_BYTES * 10 {
            let (source, clone) = (round as u32 % bed.objects, 1_000);
            bed.submit(clone, Mutation::CloneFrom { source: object(source).into() });
            for _ in 0..8 {
                let offset = bed.rng.random_range(0..OBJECT_BYTES / BLOCK) * BLOCK;
                bed.write(source, offset, BLOCK);
            }
            bed.submit(clone, Mutation::Remove);
        }
    });
    // 80 rounds an object of 8 blocks: each of those moves at most once a round.
    assert!(after.mean < 1024.0, "{after:?}");
}
