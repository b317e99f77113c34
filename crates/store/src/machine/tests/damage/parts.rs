//! Each part of a store by itself: what is decoded is what would be encoded, and can be looked at.

use codec::{Decode, DecodeError, Encode, Features};
use proptest::collection::vec;

use super::{
    sample::{Part, SAMPLES, Sample, damage_part, sample},
    *,
};
use crate::{
    index::{Bounds, Directory, Key, PendingPage, Root, Table, Value, open_page},
    journal::{Body, Header},
    onode::Onode,
    pool_usage::PoolUsage,
    space::{Run, Space},
    superblock::{DeviceLabel, Superblock},
};

/// Behind magics and a record's header.
const NOISE_AT: usize = 76;

/// What is decoded is encoded to bytes that decode to the same.
fn comes_again<T: Encode>(found: &T, decode: impl Fn(Bytes) -> Result<T, DecodeError>) {
    let bytes = found.to_bytes(Features::default());
    let again = decode(bytes.clone()).expect("what was decoded is encoded as it should be");
    assert_eq!(again.to_bytes(Features::default()), bytes);
}

fn look_at_superblock(block: &[u8]) -> bool {
    let _ = Store::device_owner(block);
    let label = Store::label([block]);
    let Some(found) = Superblock::from_block(block) else {
        assert!(label.is_err());
        return false;
    };
    assert_eq!(Superblock::from_block(&found.to_block()), Some(found.clone()));
    assert_eq!(label.map(|label| label.identity), Ok(found.identity()));
    let mut grown = found.clone();
    let larger = |bytes: u64| bytes.saturating_add(1 << 30);
    grown.grow(&DeviceSizes { main: larger(found.device_bytes), journal: None, index: Some(1 << 40) });
    assert!(!found.holds_index(&found.root) || grown.holds_index(&found.root));
    true
}

fn look_at_label(block: &[u8]) -> bool {
    let _ = Store::device_owner(block);
    let found = DeviceLabel::from_block(block);
    let again = found.as_ref().map(|label| DeviceLabel::from_block(&label.to_block()));
    assert!(again.is_none_or(|again| again == found));
    found.is_some()
}

fn look_at_onode(onode: &Onode) {
    comes_again(onode, Onode::from_bytes);
    let usage = PoolUsage::of(onode);
    assert_eq!(usage.blocks, onode.extents.count());
    let mut last = 0;
    for (block, device, crcs) in onode.extents.range(0, u64::MAX) {
        let count = crcs.len() as u64;
        assert!(block >= last && count > 0 && device.checked_add(count).is_some());
        last = block + count;
        assert!(onode.extents.lookup(block).is_some() && last.checked_mul(BLOCK).is_some());
    }
}

/// Whether it is a page as the store takes one in.
fn look_at_page(bytes: Bytes, area: Run) -> bool {
    let (first, mut last) = (Key::min(), None::<Key>);
    let bounds = Bounds { first: &first, next: None, area };
    let found = open_page(bytes, &bounds, |_, key, value| {
        if let Value::Onode(onode) = &value {
            look_at_onode(onode);
            assert!(onode.extents.runs().all(|run| area.holds(run)));
        }
        assert!(last.as_ref().is_none_or(|last| *last < key));
        last = Some(key);
    });
    found.is_ok()
}

fn look_at_region(sample: &Sample, at: usize, bytes: Bytes) -> bool {
    let area = sample.superblock.area;
    let mut space = Space::new(area, Run::default());
    let is_opened = space.open_region(at as u64, Some(bytes)).is_ok();
    assert!(space.free_count() <= area.count && space.contradiction().is_none());
    let shared: Vec<Run> = space.shared.iter().map(|(run, _)| run).collect();
    assert!(shared.iter().all(|run| area.holds(*run)));
    shared.into_iter().for_each(|run| space.share(run));
    is_opened
}

fn look_at_body(body: &Body) {
    for direct in &body.directs {
        let counts: u64 = direct.runs.iter().map(|run| run.count).sum();
        assert_eq!(counts, direct.crcs.len() as u64);
    }
    let (mut meta, mut payloads) = (Vec::new(), Vec::new());
    body.txn.encode_split(&mut meta, &mut payloads);
    let payload: Vec<u8> = payloads.iter().flat_map(|payload| payload.to_vec()).collect();
    let [mut meta, mut payload] = [meta, payload].map(|bytes| codec::Reader::new(bytes.into()));
    assert_eq!(Transaction::decode_split(&mut meta, &mut payload).as_ref(), Ok(&body.txn));
}

fn look_at_record(bytes: &Bytes) -> bool {
    let Some(header) = Header::peek_any(bytes, JOURNAL_KEY) else { return false };
    let Some(Ok(bodies)) = header.open(bytes) else { return false };
    assert_eq!(bodies.len() as u64, header.txn_count);
    bodies.iter().for_each(look_at_body);
    true
}

fn look_at_table(sample: &Sample, at: usize, bytes: Bytes) -> bool {
    let Ok(table) = Table::open(bytes) else { return false };
    comes_again(&table, Table::open);
    let mut tables = sample.tables.clone();
    tables[at] = table;
    Directory::open(&sample.root, tables.into_iter(), 7).is_some()
}

fn look_at_root(sample: &Sample, bytes: Bytes) -> bool {
    let Ok(root) = Root::open(bytes) else { return false };
    comes_again(&root, Root::open);
    Directory::open(&root, sample.tables.clone().into_iter(), 7).is_some()
}

/// Decodes a part and looks at what it says. True if it says something.
fn look_at(sample: &Sample, part: Part, bytes: Vec<u8>) -> bool {
    match part {
        Part::Superblock => look_at_superblock(&bytes),
        Part::Label => look_at_label(&bytes),
        Part::Root => look_at_root(sample, bytes.into()),
        Part::Table(at) => look_at_table(sample, at, bytes.into()),
        Part::Page(..) => look_at_page(bytes.into(), sample.superblock.area),
        Part::Pending(_) => {
            let found = PendingPage::open(bytes.into());
            found.iter().for_each(|page| comes_again(page, PendingPage::open));
            found.is_ok()
        }
        Part::Region(at) => look_at_region(sample, at, bytes.into()),
        Part::Record(_) => look_at_record(&bytes.into()),
    }
}

#[test]
fn what_is_damaged_is_sound_before() {
    for number in 0..SAMPLES {
        let sample = sample(number);
        for (part, bytes) in &sample.bytes {
            assert!(look_at(sample, *part, bytes.clone()), "sample {number}: {part:?}");
        }
    }
}

proptest! {
    #![proptest_config(::damage::cases(1_000))]

    #[test]
    fn a_damaged_part_is_an_error_or_a_value(
        number in 0..SAMPLES,
        at: [Index; 2],
        damages in vec(damage(), 1..4),
    ) {
        let sample = sample(number);
        let part = sample.part(at);
        let mut bytes = sample.bytes[&part].clone();
        damage_part(part, &mut bytes, &damages);
        look_at(sample, part, bytes);
    }

    #[test]
    fn a_part_that_is_cut_off_is_an_error_or_a_value(number in 0..SAMPLES, at: [Index; 2], end: Index) {
        let sample = sample(number);
        let part = sample.part(at);
        let mut bytes = sample.bytes[&part].clone();
        bytes.truncate(end.index(bytes.len()));
        let is_whole = look_at(sample, part, bytes);
        // A record of many small changes, and a page, may end early by their own account.
        prop_assert!(!is_whole || matches!(part, Part::Page(..) | Part::Record(_)), "{part:?}");
    }

    #[test]
    fn noise_is_an_error_or_a_value(number in 0..SAMPLES, at: [Index; 2], noise in vec(any::<u8>(), 0..600)) {
        let sample = sample(number);
        let part = sample.part(at);
        look_at(sample, part, noise.clone());
        // Behind what tells what it is.
        let mut bytes = sample.bytes[&part].clone();
        let head = NOISE_AT.min(bytes.len());
        bytes[head..].iter_mut().zip(noise).for_each(|(byte, new)| *byte = new);
        damage_part(part, &mut bytes, &[]);
        look_at(sample, part, bytes);
    }
}
