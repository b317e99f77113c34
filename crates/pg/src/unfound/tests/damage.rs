//! Older versions whose records are damaged: they are offered in vain unless they can be read.

use messages::MPgPush;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    damage::{damage, damaged},
    exec::{Kept, info_at},
};

proptest! {
    #![proptest_config(::damage::cases(200))]

    #[test]
    fn an_object_that_is_given_up_is_readable_or_gone_whatever_is_offered(
        of_info in vec(damage(), 0..4),
        of_snapset in vec(damage(), 0..4),
    ) {
        let mut world = World::active();
        let (object, version, f) = (world.object(3), world.version(1), Features::default());
        world.lose(3);
        world.replicated();
        world.handle(Event::GiveUp(GiveUp::Revert));
        let clone = |id: u64| CloneInfo { id: SnapId(id), snaps: vec![SnapId(id)], ..CloneInfo::default() };
        let snapset = SnapSet { seq: SnapId(5), clones: vec![clone(2), clone(5)] }.to_bytes(f);
        let snapset = damaged(&snapset, &of_snapset);
        let info = ObjectInfo { version, user_version: 4, ..ObjectInfo::default() };
        let info = damaged(&info.to_bytes(f), &of_info);
        let system = [(INFO_XATTR, info.clone()), (SNAPSET_XATTR, snapset.clone())];
        let system = system.map(|(name, value)| (Bytes::from_static(name), value));
        let mut txn = world.content(3, 1);
        txn.ops.pop();
        txn.push(&object, Mutation::SetXattrs(system.into()));
        let (pgid, epoch, peers) = (world.pg.pgid, world.map.epoch, world.peers.clone());
        // Of its own copy, the sender knows no more than the record says.
        let version = ObjectInfo::from_bytes(info.clone()).map_or(version, |info| info.version);
        world.say(peers[0], MPgPush::whole((pgid, epoch), object.clone(), version, txn).into());
        world.push(peers[1], 3, 0);
        prop_assert_eq!(world.pg.unfound_count(), 0);
        let entries = world.replicated();
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        let is_readable = ObjectInfo::from_bytes(info).is_ok() && SnapSet::from_bytes(snapset).is_ok();
        prop_assert!(entry.is_delete || is_readable);
        match info_at(&world.store, world.pg.coll, &object).unwrap() {
            Kept::Known(info) => prop_assert!(!entry.is_delete && info.version == entry.version),
            Kept::Absent => prop_assert!(entry.is_delete),
            Kept::Undecodable => panic!("what it became cannot be read"),
        }
    }
}
