//! Scrubs of whole worlds: what they may find, and damage that they must find.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use client::Request;
use codec::{Encode, Features};
use messages::{OpCode, OpParams, OsdOp};
use rand::{Rng, SeedableRng, rngs::StdRng};
use types::{CollId, HObject, Mutation, OsdId, Pairs, PgState, PoolId, ScrubHistory, Transaction};

use crate::{
    Options, World,
    clocks::WALL_ERROR_MAX,
    osd_process::small_store,
    slot::Slot,
    world::{POOL, Scale},
};

/// The operator's order to scrub may get lost with a session: it is repeated after so long.
const ORDER_AGAIN: Duration = Duration::from_secs(40);
/// So often.
const ORDERS_MAX: usize = 12;
/// Objects of a world that is damaged.
const OBJECTS: usize = 60;

/// What happens to one copy of an object, unnoticed at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It is gone.
    Removed,
    /// It has other data, with good checksums.
    Rewritten,
    /// It is shorter.
    Cut,
    /// An xattr has another value.
    Xattr,
    /// An omap key has another value.
    Omap,
    /// The PG's record of the object is gone.
    Info,
}

impl Damage {
    /// All there are.
    pub const ALL: [Damage; 6] =
        [Damage::Removed, Damage::Rewritten, Damage::Cut, Damage::Xattr, Damage::Omap, Damage::Info];

    /// True for damage that even a scrub that does not read all data must find.
    pub fn is_shallow(self) -> bool {
        !matches!(self, Damage::Rewritten | Damage::Omap)
    }

    fn mutation(self) -> Mutation {
        let pair = |name: &'static [u8]| {
            Pairs::from([(Bytes::from_static(name), Bytes::from_static(b"something else"))])
        };
        match self {
            Damage::Removed => Mutation::Remove,
            Damage::Rewritten => Mutation::Write { offset: 7, data: Bytes::from_static(b"else").into() },
            Damage::Cut => Mutation::Truncate { size: 11 },
            Damage::Xattr => Mutation::SetXattrs(pair(b"uname")),
            Damage::Omap => Mutation::OmapSet(pair(b"key")),
            Damage::Info => Mutation::RemoveXattr(Bytes::from_static(b"_")),
        }
    }
}

impl World {
    fn scrubs(&self) -> Vec<ScrubHistory> {
        self.parts().flat_map(|part| part.machine.osd.led_scrubs()).map(|(_, history)| history).collect()
    }

    /// An operator wants all PGs, or one, looked at.
    pub(crate) fn order_scrub(&mut self) {
        let kind = ["scrub", "deep-scrub", "repair"][self.rng.random_range(0..3)];
        self.note(format!("a {kind} is ordered"));
        self.command(format!(r#"{{"prefix":"osd pool {kind}","who":["{POOL}"]}}"#));
    }

    /// Has every PG repaired, and checks that nothing needed repair except what rotted.
    pub(crate) fn repair(&mut self) -> Result<(), String> {
        let since = self.schedule.wall().plus(WALL_ERROR_MAX);
        self.pass(2 * WALL_ERROR_MAX)?;
        let is_done = move |world: &World| {
            let are_new = world.scrubs().iter().all(|h| h.last_deep_scrub_stamp > since && h.errors() == 0);
            are_new && world.is_clean()
        };
        for _ in 0..ORDERS_MAX {
            self.command(r#"{"prefix":"osd repair","who":"all"}"#.to_owned());
            self.pass(ORDER_AGAIN)?;
            if is_done(self) {
                return self.check_log();
            }
        }
        let log: Vec<&str> = self.cluster_log().collect();
        Err(format!("PGs are not scrubbed and sound after all: {:#?}", &log[log.len().saturating_sub(20)..]))
    }

    /// A scrub finds unreadable copies, and nothing else: it was the device that failed, not we.
    fn check_log(&self) -> Result<(), String> {
        let is_ours = |line: &&str| {
            [
                "stat mismatch",
                ": missing",
                "mismatch '",
                "inconsistent ,",
                "_digest",
                "clone",
                "failed to pick",
            ]
            .iter()
            .any(|words| line.contains(words))
        };
        match self.cluster_log().find(is_ours) {
            Some(line) => Err(format!("a scrub found what must not be: {line}")),
            None => Ok(()),
        }
    }

    /// Lives through damage to one copy of an object, on the primary or on a replica: found by a scrub, deep
    /// if it must be, and gone after a repair. What went wrong, if anything did.
    pub fn damaged(damage: Damage, is_on_primary: bool) -> Result<(), String> {
        let mut rng = StdRng::seed_from_u64(damage as u64 * 2 + u64::from(is_on_primary));
        // The search for a victim looks at the index, and cannot wait until it is loaded.
        let store = store::Config { index_bytes_max: u64::MAX, ..small_store(&mut rng) };
        let scale = Scale { is_busy: true, ..Scale::new(3, store, 4) };
        let mut world = World::of(Options::new(1), scale, rng);
        let pool = world.set_up()?;
        world.all((0..OBJECTS).map(|at| fill(pool, at)), 8)?;
        world.until("all PGs to be clean", World::is_clean)?;
        // New PGs count as scrubbed when they first tick.
        world.pass(Duration::from_secs(2))?;
        let (osd, coll, object) = world.victim(is_on_primary).ok_or("there is no object")?;
        let mut txn = Transaction::new(coll);
        txn.push(&object, damage.mutation());
        let Slot::Up(process) = &mut world.osds[osd.0 as usize] else { return Err("an OSD is down".into()) };
        process.damage(txn);
        world.order("scrub", Some(damage.is_shallow()))?;
        world.order("deep-scrub", Some(true))?;
        // Where one error made several copies bad, only the scrub after the repair takes it back.
        world.order("repair", None)?;
        world.until("all PGs to be clean", World::is_clean)?;
        world.order("deep-scrub", Some(false))?;
        world.compare_copies()
    }

    /// An object with some copy of it.
    fn victim(&self, is_on_primary: bool) -> Option<(OsdId, CollId, HObject)> {
        let map = self.osdmap()?;
        let objects = self.parts().flat_map(|part| {
            let colls = store::ObjectStore::collections(&part.machine.store).into_iter();
            colls.flat_map(|coll| {
                let listed = store::ObjectStore::list(&part.machine.store, coll, &HObject::min(), 9)
                    .unwrap_or_default();
                listed.into_iter().map(move |object| (coll, object))
            })
        });
        let (coll, object) = objects.into_iter().filter(|(coll, o)| o.pool == coll.0.pool).last()?;
        let placed = map.pg_to_up_acting(coll.0);
        let osd = placed.acting.iter().find(|osd| (**osd == placed.acting_primary) == is_on_primary)?;
        Some((*osd, coll, object))
    }

    /// Has the pool scrubbed, and checks that damage is found if it must be, and none if it must not.
    fn order(&mut self, kind: &str, must_find: Option<bool>) -> Result<(), String> {
        let since = self.schedule.wall();
        self.command(format!(r#"{{"prefix":"osd pool {kind}","who":["{POOL}"]}}"#));
        let is_done = move |world: &World| world.scrubs().iter().all(|h| h.last_scrub_stamp > since);
        self.until("PGs to be scrubbed", is_done)?;
        let states: Vec<PgState> =
            self.parts().flat_map(|part| part.machine.osd.led_states()).map(|(_, state)| state).collect();
        let is_found = states.iter().any(|state| state.has(PgState::INCONSISTENT));
        if must_find.is_some_and(|must_find| must_find != is_found) {
            let log: Vec<&str> = self.cluster_log().collect();
            return Err(format!("after a {kind}, inconsistent: {is_found}; {log:#?}"));
        }
        Ok(())
    }
}

/// A request that makes an object with all that one can have.
pub(crate) fn fill(pool: PoolId, at: usize) -> Request {
    let data = Bytes::from(vec![at as u8; 9_000]);
    let f = Features::default();
    let omap = BTreeMap::from([(Bytes::from_static(b"key"), Bytes::from_static(b"value"))]);
    let mut name_and_value = OsdOp::new(OpCode::SETXATTR);
    name_and_value.params = OpParams::from_parts(&[&4u32.to_le_bytes(), &5u32.to_le_bytes()]);
    name_and_value.data = Bytes::from_static(b"namevalue");
    let ops = vec![
        OsdOp { params: OpParams::extent(0, data.len() as u64), data, ..OsdOp::new(OpCode::WRITEFULL) },
        OsdOp { data: omap.to_bytes(f), ..OsdOp::new(OpCode::OMAPSETVALS) },
        name_and_value,
    ];
    Request::new(pool, Bytes::from(format!("object {at}")), ops)
}
