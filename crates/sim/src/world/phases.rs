//! What clients do, and when.

use std::time::Duration;

use client::Outcome;
use rand::Rng;

use super::World;
use crate::{
    faults::OTHER_POOL,
    process::Ctx,
    schedule::{ProcessId, Scheduled},
    workload::Moment,
};

/// By so long after everything was mended, clients have noticed which connections are gone.
const SETTLING: Duration = Duration::from_secs(20);
/// For so long, clients watch and notify while nothing breaks.
const CALM: Duration = Duration::from_secs(60);

/// What clients do at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Working,
    /// They remove what is large, while some OSD is too full.
    MakingRoom,
    /// They only watch and notify; from some time on, nothing that broke before is left to be noticed.
    Watching {
        is_calm: bool,
    },
    /// They end their watches.
    Unwatching,
    Reading,
}

impl World {
    /// A client begins a request, if it may.
    pub(super) fn work(&mut self, who: ProcessId) {
        if self.options.is_full {
            self.look_at_room();
        }
        let client = who.0 - 1 - self.osds.len();
        let lacks_room = self.phase == Phase::MakingRoom && self.lacks_room();
        if lacks_room {
            self.give_way();
        }
        let workload = &mut self.workloads[client];
        let map = self.clients[client].map();
        let moment = Moment {
            now: self.schedule.now(),
            is_full: map.is_some_and(|map| map.is_full(workload.pool)),
            is_calm: self.phase == Phase::Watching { is_calm: true },
            other: map.and_then(|map| Some(map.pool_by_name(OTHER_POOL)?.0)),
        };
        let next = match self.phase {
            _ if !workload.may_begin(map) => None,
            Phase::Idle => None,
            Phase::Working => workload.next(moment, &mut self.shared),
            Phase::MakingRoom if lacks_room => workload.next_removal(),
            Phase::MakingRoom => None,
            Phase::Watching { .. } => workload.next_of_watches(moment, &mut self.shared),
            Phase::Unwatching => workload.next_unwatch(&mut self.shared),
            Phase::Reading => workload.next_read(moment, &self.shared),
        };
        let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
        if let Some((token, request)) = next {
            self.clients[client].submit(token, request, &mut ctx);
        }
        let pause = Duration::from_micros(self.rng.random_range(0..150_000));
        self.schedule.after(pause, who, Scheduled::Work);
    }

    pub(super) fn collect(&mut self, client: usize) {
        if client >= self.workloads.len() {
            return;
        }
        for outcome in self.clients[client].take_outcomes() {
            let (workload, shared) = (&mut self.workloads[client], &mut self.shared);
            let checked = match outcome {
                Outcome::Done(token, response) => workload.done(token, &response, shared),
                Outcome::Notified(message) => workload.notified(&message, self.schedule.now(), shared),
                Outcome::CommandDone(reply) if reply.result < 0 => {
                    self.broken.get_or_insert(format!("a command failed: {}", reply.status));
                    Ok(())
                }
                Outcome::CommandDone(reply) => {
                    self.take_key(&reply);
                    Ok(())
                }
            };
            if let Err(why) = checked {
                self.broken.get_or_insert(format!("client {}: {why}", client + 1));
            }
        }
    }

    /// Clients watch and notify while nothing breaks any more: each notification ends, and reaches all that answer.
    /// Then they end their watches.
    pub(super) fn watch_calmly(&mut self) -> Result<(), String> {
        self.phase = Phase::Watching { is_calm: false };
        self.pass(SETTLING)?;
        self.phase = Phase::Watching { is_calm: true };
        self.pass(CALM)?;
        self.phase = Phase::Watching { is_calm: false };
        self.until("notifications to end", |w| !w.shared.watched.awaits_calm())?;
        self.phase = Phase::Unwatching;
        self.until("watches to end", |w| {
            w.workloads.iter().all(|work| work.has_no_watch() && work.in_flight() == 0)
        })
    }
}
