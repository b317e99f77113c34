//! Work of a PG's own that cannot be finished at once, as the store has to read part of its index first: the PG waits
//! for that and tries again from where it was.
//!
//! Each kind of work waits at most once. What was loaded is held until the work gets on, so that with an
//! index far larger than memory one load does not push out what another one brought.

use std::collections::BTreeMap;

use store::{Completion, NotCached};
use types::Token;

use crate::{
    Ctx, Pg,
    object_versions::Versions,
    pg::{Pending, Phase},
};

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
    /// Making unfound objects what they were before.
    Revert,
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
}

impl IndexWaits {
    /// What is loaded or being loaded.
    pub(crate) fn count(&self) -> usize {
        self.held.values().map(|held| held.tokens.len() + held.loading).sum()
    }
}

impl Pg {
    /// True while the store loads for it.
    pub(crate) fn is_waiting(&self, wait: IndexWait) -> bool {
        self.index_waits.held.get(&wait).is_some_and(|held| held.loading > 0)
    }

    /// Has the work tried again when all that it lacks is at hand.
    pub(crate) fn wait(&mut self, wait: IndexWait, lacking: Vec<NotCached>, ctx: &mut Ctx<'_>) {
        if self.versions.take_grown() {
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
    /// copies may go, with what other copies have said and what is known of objects.
    pub(crate) fn drop_loads(&mut self, ctx: &mut Ctx<'_>) {
        self.count_pushed();
        let mut loads = self.copies.on_new_interval();
        // What is to become durable before this copy speaks of itself still has to.
        let ended = self.pending.values_mut().filter(|pending| !matches!(pending, Pending::Flushed { .. }));
        for pending in ended {
            match std::mem::replace(pending, Pending::Nothing) {
                Pending::PushRead(push) => loads.extend(push.loads),
                Pending::BaseRead(arrived) => loads.extend(arrived.loads),
                Pending::CopyRead { asked, .. } => loads.extend(asked.loads),
                Pending::LocalCommit(..)
                | Pending::ReplicaCommit { .. }
                | Pending::ReplicaActivated { .. }
                | Pending::Activated
                | Pending::Flushed { .. }
                | Pending::Pushed { .. }
                | Pending::Gathered(_)
                | Pending::IndexWait(_)
                | Pending::ScrubLoad { .. }
                | Pending::OpLoad { .. }
                | Pending::Nothing => {}
            }
        }
        self.peer_queue.on_new_interval();
        self.versions = Versions::default();
        let index_waits = std::mem::take(&mut self.index_waits);
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
            IndexWait::Revert => self.settle_all_offers(ctx),
            // The scrub under way goes on after each event.
            IndexWait::Scrub if self.phase == Phase::Active => {}
            IndexWait::Recount if self.phase == Phase::Active => self.recount(ctx),
            IndexWait::Trim | IndexWait::Scrub | IndexWait::Recount => self.let_go(wait, ctx),
        }
    }
}
