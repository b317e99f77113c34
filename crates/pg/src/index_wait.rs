//! Work of a PG's own that cannot be finished at once, as the store has to read part of its index first: the PG waits
//! for that and tries again from where it was.
//!
//! Each kind of work waits at most once. What was loaded is held until the work gets on, so that with an
//! index far larger than memory one load does not push out what another one brought.

use std::collections::{BTreeMap, VecDeque};

use messages::Message;
use store::{Completion, NotCached, ObjectStore};
use types::{EVersion, HObject, OsdId, Token};

use crate::{
    Ctx, Pg,
    exec::{Kept, info_at},
    pg::{Pending, Phase},
};

/// Objects listed at once in a scan.
const SCAN_STEP: usize = 64;
/// Objects looked up at once.
const LOOKUPS_MAX: usize = 16;

/// The work that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IndexWait {
    /// Another copy's message, which holds up those behind it.
    Peer,
    /// The log for copies to be activated.
    Activate,
    /// Trimming of snapshots.
    Trim,
    /// Ending of watches.
    Watches,
    /// Choosing what to scrub next.
    Scrub,
    /// Counting what the PG holds.
    Recount,
}

/// What was loaded for some work, and how many loads are under way.
#[derive(Debug, Default)]
struct Held {
    tokens: Vec<Token>,
    loading: usize,
}

/// The work of a PG that waits for the index, and what was loaded for it.
#[derive(Debug, Default)]
pub(crate) struct IndexWaits {
    held: BTreeMap<IndexWait, Held>,
    /// Messages of other copies, in order: the first one waits. Behind it come, at most, those that the others send
    /// without an answer: the primary's changes, which are as many as the ops that its OSD holds for clients, and what
    /// recoveries, scrubs and requests that copy have under way, which have limits of their own.
    peers: VecDeque<(OsdId, Message)>,
    versions: Versions,
}

/// Versions of objects that are here, as far as they were read.
#[derive(Debug, Default)]
struct Versions {
    known: BTreeMap<HObject, EVersion>,
    /// How far a scan of all objects is: those before are known.
    scanned: Option<HObject>,
    is_scanned: bool,
    has_grown: bool,
}

impl Versions {
    fn learn(&mut self, object: HObject, version: EVersion) {
        self.known.insert(object, version);
        self.has_grown = true;
    }
}

/// The version of an object at hand; zero without one, or where what is kept with it cannot be decoded: a good copy is
/// to take its place.
pub(crate) fn object_version(
    store: &dyn ObjectStore,
    coll: types::CollId,
    object: &HObject,
) -> Result<EVersion, NotCached> {
    Ok(match info_at(store, coll, object)? {
        Kept::Known(info) => info.version,
        Kept::Absent => EVersion::ZERO,
        Kept::Undecodable => {
            tracing::error!(%object, "the version of an object cannot be decoded");
            EVersion::ZERO
        }
    })
}

impl Pg {
    /// True while the store loads for it.
    pub(crate) fn is_waiting(&self, wait: IndexWait) -> bool {
        self.index_waits.held.get(&wait).is_some_and(|held| held.loading > 0)
    }

    /// Has the work tried again when all that it lacks is at hand.
    pub(crate) fn wait(&mut self, wait: IndexWait, lacking: Vec<NotCached>, ctx: &mut Ctx<'_>) {
        if std::mem::take(&mut self.index_waits.versions.has_grown) {
            self.let_go(wait, ctx);
        }
        for missing in lacking {
            self.index_waits.held.entry(wait).or_default().loading += 1;
            let token = self.token(Pending::IndexWait(wait));
            ctx.store.load(token, missing);
        }
    }

    /// The work got on: what was loaded for it may go.
    pub(crate) fn let_go(&mut self, wait: IndexWait, ctx: &mut Ctx<'_>) {
        if let Some(held) = self.index_waits.held.get_mut(&wait) {
            held.tokens.drain(..).for_each(|token| ctx.store.unload(token));
        }
    }

    /// An object that was pushed is here, as far as all that comes later in the store is concerned.
    pub(crate) fn count_pushed(&mut self) {
        for pending in self.pending.values_mut() {
            if let Pending::Pushed { object, .. } = pending {
                self.missing.remove(object);
            }
        }
    }

    /// An interval ends: completions answer no request any more, and what was loaded for work that waits, pushes and
    /// copies may go. Of what other copies have said, only the requests that they pass on outlive an interval
    /// ([`Pg::on_peer_message`]): they keep their place before those that come later.
    pub(crate) fn drop_loads(&mut self, ctx: &mut Ctx<'_>) {
        self.count_pushed();
        let mut loads = self.copies.on_new_interval();
        for pending in self.pending.values_mut() {
            match std::mem::replace(pending, Pending::Nothing) {
                Pending::PushRead(push) => loads.extend(push.loads),
                Pending::CopyRead { asked, .. } => loads.extend(asked.loads),
                Pending::LocalCommit(..)
                | Pending::ReplicaCommit { .. }
                | Pending::ReplicaActivated { .. }
                | Pending::Activated
                | Pending::Pushed { .. }
                | Pending::Gathered(_)
                | Pending::IndexWait(_)
                | Pending::ScrubLoad { .. }
                | Pending::OpLoad { .. }
                | Pending::Nothing => {}
            }
        }
        let mut index_waits = std::mem::take(&mut self.index_waits);
        index_waits.peers.retain(|(_, message)| matches!(message, Message::MPgProxyOp(_)));
        self.index_waits.peers = index_waits.peers;
        loads.extend(index_waits.held.into_values().flat_map(|held| held.tokens));
        loads.into_iter().for_each(|token| ctx.store.unload(token));
    }

    pub(crate) fn on_index_loaded(&mut self, wait: IndexWait, completion: Completion, ctx: &mut Ctx<'_>) {
        let Completion::Loaded(token, result) = completion else { return };
        if let Err(error) = result {
            tracing::error!(pg = %self.pgid, ?wait, %error, "part of the index cannot be read");
        }
        let Some(held) = self.index_waits.held.get_mut(&wait) else { return ctx.store.unload(token) };
        held.tokens.push(token);
        held.loading -= 1;
        if held.loading > 0 {
            return;
        }
        match wait {
            IndexWait::Peer => self.run_peers(ctx),
            IndexWait::Activate => self.check_up_thru(ctx),
            IndexWait::Trim if self.phase == Phase::Active => self.trim_snaps(ctx),
            IndexWait::Watches => self.tick_watches(ctx),
            // The scrub under way goes on after each event.
            IndexWait::Scrub if self.phase == Phase::Active => {}
            IndexWait::Recount if self.phase == Phase::Active => self.recount(ctx),
            IndexWait::Trim | IndexWait::Scrub | IndexWait::Recount => self.let_go(wait, ctx),
        }
    }

    /// Another copy's message takes its turn.
    pub(crate) fn on_peer(&mut self, from: OsdId, message: Message, ctx: &mut Ctx<'_>) {
        self.index_waits.peers.push_back((from, message));
        self.run_peers(ctx);
    }

    pub(crate) fn run_peers(&mut self, ctx: &mut Ctx<'_>) {
        while !self.is_waiting(IndexWait::Peer)
            && let Some((from, message)) = self.index_waits.peers.pop_front()
        {
            match self.ready_for(from, &message, ctx) {
                Ok(()) => {
                    // What the primary knows of the objects for an activation stays true whatever else others say.
                    let is_about_objects = match &message {
                        Message::MPgLog(_) => true,
                        Message::MPgQuery(query) => query.wants_log,
                        _ => false,
                    };
                    self.on_peer_message(from, message, ctx);
                    if is_about_objects {
                        self.forget_versions();
                    }
                    self.let_go(IndexWait::Peer, ctx);
                }
                Err(lacking) => {
                    self.index_waits.peers.push_front((from, message));
                    self.wait(IndexWait::Peer, lacking, ctx);
                }
            }
        }
    }

    /// What was read is of one moment.
    pub(crate) fn forget_versions(&mut self) {
        self.index_waits.versions = Versions::default();
    }

    /// The version of an object here, as a scan or a look-up found it; zero without one.
    pub(crate) fn known_version(&self, object: &HObject) -> EVersion {
        self.index_waits.versions.known.get(object).copied().unwrap_or(EVersion::ZERO)
    }

    /// All objects that a scan found.
    pub(crate) fn known_objects(&self) -> impl Iterator<Item = (&HObject, &EVersion)> {
        self.index_waits.versions.known.iter()
    }

    /// Learns the versions of all objects of the PG that this copy holds.
    pub(crate) fn scan_objects(&mut self, store: &dyn ObjectStore) -> Result<(), Vec<NotCached>> {
        let (coll, pool) = (self.coll, self.pgid.pool);
        let versions = &mut self.index_waits.versions;
        while !versions.is_scanned {
            let from = versions.scanned.clone().unwrap_or_else(HObject::min);
            let objects = store.list(coll, &from, SCAN_STEP).map_err(|missing| vec![missing])?;
            let is_last = objects.len() < SCAN_STEP;
            for object in objects {
                let next = object.with_snap(types::SnapId(object.snap.0.saturating_add(1)));
                if object.pool == pool {
                    let version = object_version(store, coll, &object).map_err(|missing| vec![missing])?;
                    versions.learn(object, version);
                }
                versions.scanned = Some(next);
            }
            versions.is_scanned = is_last;
        }
        Ok(())
    }

    /// Learns the versions of some objects.
    pub(crate) fn look_up<'a>(
        &mut self,
        objects: impl IntoIterator<Item = &'a HObject>,
        store: &dyn ObjectStore,
    ) -> Result<(), Vec<NotCached>> {
        let coll = self.coll;
        let versions = &mut self.index_waits.versions;
        let mut lacking = Vec::new();
        for object in objects {
            if versions.known.contains_key(object) {
                continue;
            }
            match object_version(store, coll, object) {
                Ok(version) => versions.learn(object.clone(), version),
                Err(missing) => lacking.push(missing),
            }
            if lacking.len() == LOOKUPS_MAX {
                break;
            }
        }
        if lacking.is_empty() { Ok(()) } else { Err(lacking) }
    }
}
