//! A PG on a store, for tests: events go in; what the store finishes and what the PG tells itself comes back at once.

use bytes::Bytes;
use codec::{Encode, Features, Payload};
use messages::{
    MOSDOp, MOSDRepOpReply, MPgActivated, MPgLog, MPgNotify, MPgPush, Message, ObjectLocator, OpCode,
    OpParams, OsdOp, RawMessage,
};
use store::{MemStore, ObjectStore};
use types::{
    CollId, EVersion, EntityAddr, EntityNum, HObject, Instant, LogEntry, Missing, Mutation, ObjectVersions,
    OsdId, OsdMap, PgId, PgInfo, SnapId, Token, Transaction, UTime,
};

use crate::{
    Client, Ctx, Effect, Event, IntervalStart, Leases, OpThrottle, Pg, ReadSlots, RecoveryPolicy, Room,
    Rooms, ScrubPolicy, Slots,
    exec::{INFO_XATTR, ObjectInfo},
    interval::tests::captured,
    ops::WaitingOp,
    pg::Phase,
};

/// A PG on a store, with all that it needs of an OSD.
pub(crate) struct World {
    pub(crate) map: OsdMap,
    pub(crate) rooms: Rooms,
    pub(crate) store: MemStore,
    pub(crate) effects: Vec<Effect>,
    pub(crate) pg: Pg,
    /// The other members.
    pub(crate) peers: Vec<OsdId>,
    pub(crate) now: Instant,
    pub(crate) wall: UTime,
    pub(crate) recovery: RecoveryPolicy,
    pub(crate) copying: Slots,
    pub(crate) reading: ReadSlots,
    pub(crate) notifying: OpThrottle,
    pub(crate) random: u64,
    pub(crate) scrub: ScrubPolicy,
    pub(crate) leases: Leases,
}

impl World {
    /// The primary of an active PG with three objects, which all of its three members have.
    pub(crate) fn active() -> World {
        World::of(3)
    }

    /// The primary of an active PG of `size` members with three objects, which all of them have.
    pub(crate) fn of(size: u8) -> World {
        let mut world = World::filled(size, 0);
        world.activate_all();
        assert_eq!(world.pg.phase, Phase::Active);
        world
    }

    /// Primary: the others say that they have what it has, and follow it.
    pub(crate) fn activate_all(&mut self) {
        let (pgid, epoch) = (self.pg.pgid, self.map.epoch);
        let info = PgInfo { last_update: self.pg.info.last_update, ..PgInfo::default() };
        for peer in self.peers.clone() {
            let (info, intervals, leases) = (info.clone(), Vec::new(), Vec::new());
            self.say(peer, MPgNotify { pgid, epoch, info, intervals, leases }.into());
        }
        for peer in self.peers.clone() {
            self.say(peer, MPgActivated { pgid, epoch, missing: Missing::new(), takes_clones: true }.into());
        }
    }

    /// A client writes an object.
    pub(crate) fn write(&mut self, at: u64, tid: u64) {
        self.ask(at, tid, vec![write()]);
    }

    /// A client does something with an object.
    pub(crate) fn ask(&mut self, at: u64, tid: u64, ops: Vec<OsdOp>) {
        let event = self.asking(at, tid, ops);
        self.handle(event);
    }

    /// What tells the PG that a client does something with an object.
    pub(crate) fn asking(&self, at: u64, tid: u64, ops: Vec<OsdOp>) -> Event {
        Event::Op { client: client(), tid, op: self.request(at, ops), permit: OpThrottle::default().take(0) }
    }

    /// What tells the PG that a client writes an object.
    pub(crate) fn writing(&self, at: u64, tid: u64) -> Event {
        self.asking(at, tid, vec![write()])
    }

    /// The others say that they have all changes.
    pub(crate) fn confirm_all(&mut self) {
        self.confirm(self.pg.info.last_update);
    }

    /// The others say that they have all changes up to this one.
    pub(crate) fn confirm(&mut self, version: EVersion) {
        let (pgid, epoch) = (self.pg.pgid, self.map.epoch);
        for peer in self.peers.clone() {
            self.say(peer, MOSDRepOpReply { pgid, epoch, version }.into());
        }
    }

    /// A client's write that is to be put aside.
    pub(crate) fn waiting(&self, at: u64, tid: u64) -> WaitingOp {
        WaitingOp::new(
            client(),
            tid,
            self.request(at, vec![write()]),
            OpThrottle::default().take(0),
            self.now,
        )
    }

    fn request(&self, at: u64, ops: Vec<OsdOp>) -> Box<MOSDOp> {
        let pool = self.pg.pgid.pool;
        Box::new(MOSDOp {
            pgid: self.pg.pgid,
            epoch: self.map.epoch,
            locator: ObjectLocator { pool, ..ObjectLocator::default() },
            oid: self.object(at).oid,
            ops,
            snapid: SnapId::HEAD,
            ..MOSDOp::default()
        })
    }

    /// A replica of the same PG, which its primary has activated.
    pub(crate) fn replica() -> World {
        let mut world = World::filled(3, 1);
        world.activate(3, Vec::new(), 3, None);
        assert_eq!(world.pg.phase, Phase::Replica);
        world.effects.clear();
        world
    }

    /// The member at this place of the acting set, the primary first.
    fn filled(size: u8, place: usize) -> World {
        let mut map = captured();
        let pool = *map.pools.keys().next().unwrap();
        map.pools.get_mut(&pool).unwrap().size = size;
        let pgid = PgId::new(pool, 0);
        let at = map.pg_to_up_acting(pgid);
        let mut peers = at.acting.clone();
        peers.sort_by_key(|osd| *osd != at.acting_primary);
        let me = peers.remove(place);
        let epoch = map.epoch;
        map.osd_info[usize::try_from(me.0).unwrap()].up_thru = epoch;
        let start = IntervalStart { since: epoch, primary_since: epoch, seen_since: epoch };
        let mut world = World {
            pg: Pg::absent(1, pgid, me),
            map,
            rooms: Rooms::default(),
            store: MemStore::new(),
            effects: Vec::new(),
            peers,
            now: Instant(u64::MAX / 2),
            wall: UTime::default(),
            recovery: RecoveryPolicy::default(),
            copying: Slots::default(),
            reading: ReadSlots::default(),
            notifying: OpThrottle::default(),
            random: 0,
            scrub: ScrubPolicy::default(),
            leases: Leases::default(),
        };
        world.act(|pg, ctx| pg.begin(epoch, start, Vec::new(), ctx));
        for at in 1..=3 {
            let entry = world.entry(at, at, 0);
            world.pg.info.last_update = entry.version;
            world.pg.log.extend([entry]);
            let txn = world.content(at, at);
            world.store.submit(Token(0), txn);
        }
        world
    }

    pub(crate) fn version(&self, at: u64) -> EVersion {
        if at == 0 { EVersion::ZERO } else { EVersion::new(self.map.epoch, at) }
    }

    pub(crate) fn object(&self, at: u64) -> HObject {
        let (pool, snap) = (self.pg.pgid.pool, SnapId::HEAD);
        HObject { oid: Bytes::from(format!("o{at}")), pool, snap, ..HObject::default() }
    }

    /// A change of an object.
    pub(crate) fn entry(&self, at: u64, version: u64, prior: u64) -> LogEntry {
        let (version, prior_version) = (self.version(version), self.version(prior));
        LogEntry { version, prior_version, object: self.object(at), ..LogEntry::default() }
    }

    /// What makes an object, in a version.
    pub(crate) fn content(&self, at: u64, version: u64) -> Transaction {
        let info = ObjectInfo { version: self.version(version), ..ObjectInfo::default() };
        let mut txn = Transaction::new(CollId::pg(self.pg.pgid));
        let object = self.object(at);
        txn.push(&object, Mutation::Remove);
        txn.push(&object, Mutation::Write { offset: 0, data: Bytes::from(vec![version as u8; 10]).into() });
        let pair = (Bytes::from_static(INFO_XATTR), info.to_bytes(Features::default()));
        txn.push(&object, Mutation::SetXattrs([pair].into()));
        txn
    }

    /// What the PG keeps with an object cannot be decoded from now on.
    pub(crate) fn damage(&mut self, at: u64) {
        let pair = (Bytes::from_static(INFO_XATTR), Bytes::from_static(b"?"));
        let mut txn = Transaction::new(self.pg.coll);
        txn.push(&self.object(at), Mutation::SetXattrs([pair].into()));
        self.store.submit(Token(0), txn);
    }

    /// An OSD says that it has room for so many bytes.
    pub(crate) fn set_room(&mut self, osd: OsdId, bytes: u64) {
        self.rooms.set(osd, Room { bytes, left_bytes: bytes });
    }

    /// The version of an object in the store; 0 without one.
    pub(crate) fn stored(&self, at: u64) -> u64 {
        crate::object_versions::object_version(&self.store, self.pg.coll, &self.object(at)).unwrap().version
    }

    /// Objects that are missing here, with the versions that are needed.
    pub(crate) fn missing(&self) -> Vec<(HObject, u64)> {
        self.pg.missing.iter().map(|(object, need)| (object.clone(), need.version)).collect()
    }

    /// Calls into the PG.
    pub(crate) fn act<T>(&mut self, act: impl FnOnce(&mut Pg, &mut Ctx<'_>) -> T) -> T {
        let mut store = std::mem::replace(&mut self.store, MemStore::new());
        let out = self.act_on(&mut store, act);
        self.store = store;
        out
    }

    /// Calls into the PG on another store.
    pub(crate) fn act_on<T>(
        &mut self,
        store: &mut dyn ObjectStore,
        act: impl FnOnce(&mut Pg, &mut Ctx<'_>) -> T,
    ) -> T {
        let mut ctx = Ctx {
            now: self.now,
            wall: self.wall,
            store,
            map: &self.map,
            rooms: &self.rooms,
            leases: &self.leases,
            scrub: &self.scrub,
            recovery: &self.recovery,
            copying: &self.copying,
            reading: &self.reading,
            notifying: &self.notifying,
            random: self.random,
            effects: &mut self.effects,
        };
        act(&mut self.pg, &mut ctx)
    }

    /// Hands an event in, and everything that comes of it here.
    pub(crate) fn handle(&mut self, event: Event) {
        self.handle_alone(event);
        while self.reading.next_turn().is_some() {
            self.handle_alone(Event::ReadTurn);
        }
        while let Some((_, osd)) = self.recovery.next_turn() {
            self.handle_alone(Event::RecoveryTurn(osd));
        }
    }

    /// Hands an event in where other PGs may have turns, and then everything that the store finishes and the PG tells
    /// itself.
    pub(crate) fn handle_alone(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            self.act(|pg, ctx| pg.handle(event, ctx));
            events.extend(self.store.complete().into_iter().map(Event::Store));
            let me = self.pg.me;
            let is_own = |effect: &mut Effect| matches!(effect, Effect::SendOsd(osd, _) if *osd == me);
            for effect in self.effects.extract_if(.., is_own) {
                if let Effect::SendOsd(_, message) = effect {
                    events.push(Event::Peer(me, message));
                }
            }
        }
    }

    /// Another OSD, which exists and is down.
    pub(crate) fn add_down_osd(&mut self) -> OsdId {
        let osd = OsdId(self.map.max_osd);
        self.map.set_max_osd(osd.0 + 1);
        self.map.osd_state[usize::try_from(osd.0).unwrap()] = types::OsdState::EXISTS;
        osd
    }

    /// All others answer a ping.
    pub(crate) fn hear_all(&mut self) {
        self.peers.iter().for_each(|peer| self.leases.on_granted(*peer, self.now));
    }

    pub(crate) fn say(&mut self, from: OsdId, message: Message) {
        self.handle(Event::Peer(from, message));
    }

    /// Replica: its primary has it take over a log that begins after `tail` and ends with `last`.
    pub(crate) fn activate(
        &mut self,
        tail: u64,
        entries: Vec<LogEntry>,
        last: u64,
        objects: Option<ObjectVersions>,
    ) {
        let (pgid, epoch) = (self.pg.pgid, self.map.epoch);
        let (last_update, log_tail) = (self.version(last), self.version(tail));
        let info = PgInfo { last_update, log_tail, ..PgInfo::default() };
        let (missing, is_activation, intervals) = (Missing::new(), true, Vec::new());
        let log = MPgLog { pgid, epoch, info, entries, objects, missing, is_activation, intervals };
        self.say(self.peers[0], log.into());
    }

    /// A member answers a pull.
    pub(crate) fn push(&mut self, from: OsdId, at: u64, version: u64) {
        let (pgid, epoch, object) = (self.pg.pgid, self.map.epoch, self.object(at));
        let txn = if version == 0 { Transaction::new(self.pg.coll) } else { self.content(at, version) };
        let version = self.version(version);
        self.say(from, MPgPush::whole((pgid, epoch), object, version, txn).into());
    }

    /// This copy of the object cannot be read.
    pub(crate) fn lose(&mut self, at: u64) {
        let object = self.object(at);
        self.act(|pg, ctx| pg.repair(&object, ctx));
        // What cannot be read is as good as gone.
        let mut gone = Transaction::new(self.pg.coll);
        gone.push(&object, Mutation::Remove);
        self.store.submit(Token(0), gone);
        // In the order in which they are asked.
        for peer in std::collections::BTreeSet::from_iter(self.peers.clone()) {
            self.push(peer, at, 0);
        }
    }

    /// What other OSDs were told since it was asked last.
    pub(crate) fn told(&mut self) -> Vec<(Vec<OsdId>, Message)> {
        let mut out = Vec::new();
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::SendOsds(osds, message) => out.push((osds, message)),
                Effect::SendOsd(osd, message) => out.push((vec![osd], message)),
                Effect::SendEncoded(osds, sent) => {
                    let mut raw = RawMessage::clone(&sent);
                    raw.data = Payload::joined(std::mem::take(&mut raw.data_more));
                    out.push((osds, Message::decode(raw).expect("what is encoded can be decoded")));
                }
                _ => {}
            }
        }
        out
    }

    /// The changes that replicas were told of since it was asked last.
    pub(crate) fn replicated(&mut self) -> Vec<LogEntry> {
        let told = self.told().into_iter();
        let changes = told.filter_map(|(_, message)| match message {
            Message::MOSDRepOp(op) => Some(op.log),
            _ => None,
        });
        changes.flatten().collect()
    }
}

fn client() -> Client {
    Client { session: 1, entity: EntityNum::client(1), addr: EntityAddr::default(), features: 0 }
}

fn write() -> OsdOp {
    let data = Bytes::from_static(b"new");
    OsdOp { params: OpParams::extent(0, 3), data, ..OsdOp::new(OpCode::WRITEFULL) }
}
