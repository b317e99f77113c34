//! Whole stores with one damaged part: what opens them, looks at them, reads and changes them ends with an error or
//! goes on, and no object is other than it was because another one is damaged.

use std::collections::BTreeSet;

use proptest::collection::vec;

use super::{
    sample::{Part, SAMPLES, Sample, inspect, sample},
    *,
};
use crate::{
    Inspected,
    index::{Bounds, Key, open_page},
};

/// Bytes read of an object, at its beginning and at its end: a damaged one may be as large as it likes.
const READ_BYTES: u64 = 16 << 10;
/// What a question may lack one after the other.
const MISSES_MAX: usize = 1_000;
/// Objects of a listing.
const LIST_MAX: usize = 1_000;

/// Asks as the tools do that only look at a store.
fn ask_inspected<T>(
    inspected: &mut Inspected,
    disk: &mut VirtualDisk,
    question: impl Fn(&Store) -> Result<T, NotCached>,
) -> Result<T, ReadError> {
    for _ in 0..MISSES_MAX {
        let store = &mut inspected.store;
        let missing = match question(store) {
            Ok(answer) => {
                store.unload(Token(1));
                inspected.forget();
                return Ok(answer);
            }
            Err(missing) => missing,
        };
        store.load(Token(1), missing);
        loop {
            let found = store.take_completions().into_iter().find_map(|done| match done {
                Completion::Loaded(_, result) => Some(result),
                Completion::Committed(_) => None,
            });
            if let Some(result) = found {
                result?;
                break;
            }
            let commands = store.take_commands();
            assert!(!commands.is_empty(), "a load ends");
            for command in commands {
                let (token, result) = disk.execute(command);
                store.device_done(token, result);
            }
        }
    }
    panic!("a load brings what was missing");
}

/// Looks at everything, as `loligo store dump` does.
fn dump(sample: &mut Sample) {
    let Ok(mut inspected) = inspect(&mut sample.disk, sample.config) else { return };
    let (superblock, records) = (inspected.superblock(), inspected.records().len());
    assert!(records as u64 <= superblock.journal.1 / BLOCK);
    for coll in inspected.store.collections() {
        let disk = &mut sample.disk;
        let listed = ask_inspected(&mut inspected, disk, |store| store.list(coll, &HObject::min(), LIST_MAX));
        for object in listed.unwrap_or_default() {
            let layout = ask_inspected(&mut inspected, disk, |store| store.layout(coll, &object));
            if let Ok(Some(layout)) = layout {
                assert!(layout.extents.iter().all(|extent| extent.device_offset.is_multiple_of(BLOCK)));
            }
            let _ = ask_inspected(&mut inspected, disk, |store| all_but_data(store, coll, &object));
        }
    }
}

/// The objects that a page has something of.
fn objects_in(sample: &Sample, part: Part) -> BTreeSet<(CollId, HObject)> {
    let (first, mut out) = (Key::min(), BTreeSet::new());
    let bounds = Bounds { first: &first, next: None, area: sample.superblock.area };
    let bytes = sample.bytes[&part].clone();
    open_page(bytes.into(), &bounds, |_, key, _| {
        out.insert((key.coll, key.object));
    })
    .unwrap();
    out
}

/// What is known of objects.
#[derive(Default)]
struct Known {
    /// They are as they were, or not there, or unreadable.
    objects: BTreeSet<(CollId, HObject)>,
    /// False if some of their omaps may be lost.
    has_omap: bool,
}

fn known(sample: &Sample, part: Part) -> Known {
    let damaged = match part {
        Part::Page(..) => objects_in(sample, part),
        Part::Table(_) | Part::Region(_) | Part::Label => BTreeSet::new(),
        // What they name may be any object.
        Part::Superblock | Part::Root | Part::Pending(_) | Part::Record(_) => return Known::default(),
    };
    let model = &sample.model;
    let colls = model.collections().into_iter().filter(|_| !sample.is_moving);
    let all = colls.flat_map(|coll| {
        let names = model.list(coll, &HObject::min(), usize::MAX).unwrap();
        names.into_iter().map(move |object| (coll, object))
    });
    let objects = all.filter(|object| !damaged.contains(object)).collect();
    Known { objects, has_omap: !matches!(part, Part::Table(_)) }
}

/// Reads all that there is, until the store stops.
fn read_all(store: &mut Store, sample: &mut Sample, known: &Known, rng: &mut StdRng) {
    let Sample { disk, model, .. } = sample;
    for c in store.collections() {
        let Ok(names) = ask(store, disk, rng, |store| store.list(c, &HObject::min(), LIST_MAX)) else {
            continue;
        };
        for o in names {
            let Ok(mut found) = ask(store, disk, rng, |store| all_but_data(store, c, &o)) else { continue };
            if store.fault().is_some() {
                return;
            }
            let size = found.0.map_or(0, |meta| meta.size);
            let is_known = known.objects.contains(&(c, o.clone()));
            if is_known {
                let expected = all_but_data(model, c, &o).unwrap();
                if !known.has_omap {
                    found.3.clone_from(&expected.3);
                }
                assert_eq!(found, expected, "{o}");
            }
            for offset in [0, size.saturating_sub(READ_BYTES)] {
                let data = read(store, disk, rng, c, &o, (offset, READ_BYTES));
                if let (true, Ok(data)) = (is_known, data) {
                    assert!(data == model.read(c, &o, offset, READ_BYTES).unwrap(), "{o} from {offset} on");
                }
            }
        }
    }
}

/// Changes and removes what there is, and ends in order if it can.
fn change_all(mut store: Store, sample: &mut Sample, rng: &mut StdRng) {
    let Sample { disk, model, .. } = sample;
    for at in 0..20 {
        let txn = random_txn(rng, model, 2);
        store.submit(Token(at), txn);
        store.kick();
        settle(&mut store, disk, rng);
    }
    for c in store.collections() {
        for number in (0..40).step_by(3) {
            let mut txn = Transaction::new(c);
            txn.push(&object(number), Mutation::Remove);
            store.submit(Token(1), txn);
        }
        settle(&mut store, disk, rng);
        let mut txn = Transaction::new(c);
        txn.ops.push(TxnOp::RemoveCollection);
        store.submit(Token(1), txn);
    }
    store.kick();
    settle(&mut store, disk, rng);
    store.unmount();
    settle(&mut store, disk, rng);
}

fn check(sample: &mut Sample, part: Part, rng: &mut StdRng) {
    let known = known(sample, part);
    let report = sample.disk.fsck(sample.config, rng);
    let memory = report.problems.iter().map(|problem| problem.to_string().len()).sum::<usize>();
    assert!(memory < 1 << 20, "{} problems", report.problems.len());
    dump(sample);
    let is_sound = report.problems.is_empty();
    let mounted = sample.disk.mount(sample.config, rng);
    let Ok(mut store) = mounted.inspect_err(|error| {
        assert!(!is_sound, "the check finds no fault with what is refused: {error}");
    }) else {
        return;
    };
    read_all(&mut store, sample, &known, rng);
    change_all(store, sample, rng);
    if let Ok(mut store) = sample.disk.mount(sample.config, rng) {
        read_all(&mut store, sample, &Known::default(), rng);
    }
}

proptest! {
    #![proptest_config(::damage::cases(60))]

    #[test]
    fn a_damaged_store_is_refused_or_goes_on(
        number in 0..SAMPLES,
        at: [Index; 2],
        damages in vec(damage(), 1..3),
        seed: u64,
    ) {
        let mut sample = sample(number).clone();
        let part = sample.part(at);
        sample.damage(part, &damages);
        check(&mut sample, part, &mut StdRng::seed_from_u64(seed));
    }
}

#[test]
fn undamaged_stores_pass_the_same_checks() {
    for number in 0..SAMPLES {
        let mut sample = sample(number).clone();
        check(&mut sample, Part::Region(0), &mut StdRng::seed_from_u64(1));
    }
}
