//! Maps of copies that say anything of their objects: where they differ, that is found, and all of it can be listed.

use messages::MOSDRepScrubMap;
use proptest::{collection::vec, prelude::*, sample::Index};
use types::{Chunk, ObjectManifest};

use super::*;
use crate::{
    damage::{Damage, damage, damaged, number},
    exec::Manifest,
    scrub::{
        listing::Results,
        wire::{ScrubLsArg, ScrubLsResult},
    },
};

/// A head with two clones, one of them with chunks, and another head.
fn objects() -> Vec<ScrubObject> {
    let f = Features::default();
    let overlap = |end| {
        let mut overlap = IntervalSet::new();
        overlap.insert(0, end);
        overlap
    };
    let clone = |id: u64| CloneInfo { overlap: overlap(id), ..clone(id) };
    let snapset = SnapSet { seq: SnapId(9), clones: vec![clone(2), clone(4)] };
    let of_head = ScrubObject { xattrs: xattrs(3, &snapset), ..head("g") };
    let target = object("target");
    let chunk = Chunk { offset: 0, length: 4, target, is_missing: true, has_reference: true };
    let manifest = ObjectManifest::Chunked([(8, chunk)].into());
    let manifest = Some(Box::new(Manifest { manifest, has_reference: false }));
    let info = ObjectInfo { version: EVersion::new(Epoch(22), 3), manifest, ..ObjectInfo::default() };
    let of_clone = |id: u64| {
        let mut clone = ScrubObject { object: object("g").with_snap(SnapId(id)), ..head("g") };
        clone.xattrs.remove(SNAPSET_XATTR);
        clone.xattrs.insert(Bytes::from_static(INFO_XATTR), info.to_bytes(f));
        clone
    };
    vec![of_clone(2), of_clone(4), of_head, head("h")]
}

/// What happens to what a copy tells.
#[derive(Clone, Debug)]
enum Change {
    /// The xattr of this number of an object is damaged.
    Xattr(Index, Index, Vec<Damage>),
    /// An object says these numbers.
    Numbers(Index, [u64; 3]),
    /// The whole message is damaged, and not taken where it cannot be read.
    Message(Vec<Damage>),
    /// An object is left out.
    Gone(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let damages = || vec(damage(), 1..3);
    prop_oneof![
        4 => (any::<Index>(), any::<Index>(), damages()).prop_map(|(at, nth, how)| Change::Xattr(at, nth, how)),
        2 => (any::<Index>(), [number(), number(), number()]).prop_map(|(at, all)| Change::Numbers(at, all)),
        2 => damages().prop_map(Change::Message),
        1 => any::<Index>().prop_map(Change::Gone),
    ]
}

impl Change {
    fn apply(&self, told: &mut Vec<ScrubObject>) {
        match self {
            Change::Message(damages) => {
                let message = MOSDRepScrubMap { objects: told.clone(), ..MOSDRepScrubMap::default() };
                let bytes = damaged(&message.to_bytes(Features::PACIFIC), damages);
                if let Ok(read) = MOSDRepScrubMap::from_bytes(bytes) {
                    *told = read.objects;
                }
            }
            _ if told.is_empty() => {}
            Change::Gone(at) => drop(told.remove(at.index(told.len()))),
            Change::Numbers(at, [size, omap_keys, omap_bytes]) => {
                let at = at.index(told.len());
                (told[at].size, told[at].omap_keys, told[at].omap_bytes) = (*size, *omap_keys, *omap_bytes);
            }
            Change::Xattr(at, nth, damages) => {
                let at = at.index(told.len());
                if !told[at].xattrs.is_empty() {
                    let nth = nth.index(told[at].xattrs.len());
                    let value = told[at].xattrs.values_mut().nth(nth).expect("it is one of them");
                    *value = damaged(value, damages);
                }
            }
        }
    }
}

/// What a scrub compares of what a copy tells, but for digests: one of which a copy tells nothing differs from none.
fn compared(map: &BTreeMap<HObject, ScrubObject>) -> Vec<ScrubObject> {
    let is_compared =
        |name: &Bytes| name == INFO_XATTR || name == SNAPSET_XATTR || name.first() == Some(&b'u');
    let compared = |found: &ScrubObject| {
        let mut found = ScrubObject {
            has_omap: false,
            omap_keys: 0,
            omap_bytes: 0,
            data_digest: None,
            omap_digest: None,
            ..found.clone()
        };
        found.xattrs.retain(|name, _| is_compared(name));
        found.long_xattrs.retain(|name, _| is_compared(name));
        found
    };
    map.values().map(compared).collect()
}

proptest! {
    #![proptest_config(::damage::cases(1_000))]

    #[test]
    fn copies_that_differ_are_found_whatever_they_tell(
        changes in vec((0i32..3, change()), 1..4),
        is_of_all: bool,
        after in vec(any::<u8>(), 0..4),
        numbers in [number(), number()],
    ) {
        let mut maps = Maps::new();
        for osd in 0..3 {
            let mut told = objects();
            let mine = changes.iter().filter(|(other, _)| is_of_all || *other == osd);
            mine.for_each(|(_, change)| change.apply(&mut told));
            maps.insert(OsdId(osd), told.into_iter().map(|told| (told.object.clone(), told)).collect());
        }
        let mut verdict = verdict_of(&maps);
        let told: Vec<_> = maps.values().map(compared).collect();
        prop_assert!(verdict.errors() > 0 || told.windows(2).all(|pair| pair[0] == pair[1]));
        for object in maps.values().flat_map(BTreeMap::values) {
            verdict.note_omap(object, pgid(), OmapMax { keys: 3, bytes: 100 });
        }
        let mut results = Results::default();
        results.take(&mut verdict);
        for wants_snapsets in [0, 1] {
            let (after_name, after_snap) = (Bytes::from(after.clone()), SnapId(numbers[0]));
            let max_return = numbers[1];
            let arg = ScrubLsArg { wants_snapsets, after_name, after_snap, max_return, ..ScrubLsArg::default() };
            let listed = results.list(&arg);
            prop_assert!(listed.len() as u64 <= max_return.min(1_024));
            let result = ScrubLsResult { interval: 1, values: listed };
            prop_assert_eq!(ScrubLsResult::from_bytes(result.to_bytes(Features::PACIFIC)), Ok(result));
        }
    }

    #[test]
    fn what_a_listing_asks_for_may_be_anything(noise in vec(any::<u8>(), 0..80), damages in vec(damage(), 1..4)) {
        let arg = ScrubLsArg { after_name: "g".into(), max_return: 5, ..ScrubLsArg::default() };
        let results = Results::default();
        for input in [Bytes::from(noise), damaged(&arg.to_bytes(Features::PACIFIC), &damages)] {
            if let Ok(arg) = ScrubLsArg::from_bytes(input) {
                prop_assert!(results.list(&arg).is_empty());
            }
        }
    }
}
