//! A client that is fenced off, and the one that takes its place.

use client::{Request, Response};
use rand::{Rng, SeedableRng, rngs::StdRng};
use types::{EntityAddr, Errno, OsdMap, SnapId, Token};

use super::{InFlightOp, Workload};
use crate::{model::Expected, shared::SharedObjects};

/// A client makes fewer requests.
const TOKENS: u64 = 1 << 24;

/// How a client stands with the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody else works on its objects.
    #[default]
    Alone,
    /// It is being fenced off: a request that is refused for that may be done, or not.
    Fenced,
    /// Another client works on its objects, and what becomes of its requests is of no account.
    Replaced { is_told: bool },
}

impl Workload {
    /// True for a client that nothing needs afterwards but its objects. Who has a claim then may not know.
    pub(crate) fn may_be_fenced(&self, shared: &SharedObjects) -> bool {
        self.standing == Standing::Alone && self.begun() > 0 && !shared.conditional.is_claimed_by(self.client)
    }

    /// The client is being fenced off. It goes on.
    pub(crate) fn fence(&mut self) {
        self.standing = Standing::Fenced;
    }

    /// True for one that may make a claim.
    pub(super) fn is_alone(&self) -> bool {
        self.standing == Standing::Alone
    }

    /// What another client does from now on in place of this one, whose address is fenced off.
    pub(crate) fn succeed(&mut self, addr: EntityAddr) -> Workload {
        self.standing = Standing::Replaced { is_told: false };
        let rng = StdRng::from_rng(&mut self.rng);
        let mut own = self.own.clone();
        // Any of them may be changed until it is read by a client that has the map.
        own.iter_mut().for_each(|model| model.be_vague());
        // Writes of the two tell themselves apart.
        let first_token = self.next_token + TOKENS;
        Workload {
            own,
            first_token,
            next_token: first_token,
            succeeds: Some(addr),
            ..Workload::new(self.client, self.pool, rng)
        }
    }

    /// True if the client may begin, with the map that it has.
    pub(crate) fn may_begin(&self, map: Option<&OsdMap>) -> bool {
        let is_fenced = |addr| map.is_some_and(|map| map.is_blocklisted(addr));
        self.succeeds.as_ref().is_none_or(is_fenced)
    }

    /// The next change by a client that has been replaced, until it is told.
    pub(super) fn next_in_vain(&mut self) -> Option<(Token, Request)> {
        let is_told = self.standing == Standing::Replaced { is_told: true };
        if is_told || self.in_flight.len() - self.probes.len() >= self.depth {
            return None;
        }
        let free: Vec<usize> = (0..self.own.len()).filter(|at| !self.busy.contains(at)).collect();
        let at = *free.get(self.rng.random_range(0..free.len().max(1)))?;
        let stamp = self.client << 32 | self.next_token;
        let (ops, expected) = self.own[at].change(&mut self.rng, stamp, None);
        self.busy.insert(at);
        Some(self.begin(self.own_name(at), ops, InFlightOp::Own(at, SnapId::HEAD, expected)))
    }

    /// What has ended and is still to be checked: nothing that tells of a fence, and no object that another client
    /// works on.
    pub(super) fn of_account(
        &mut self,
        in_flight: Option<InFlightOp>,
        response: &Response,
    ) -> Option<Option<InFlightOp>> {
        let is_refused = response.result == -Errno::EBLOCKLISTED.0;
        match (&mut self.standing, &in_flight) {
            (Standing::Alone, _) => return Some(in_flight),
            (Standing::Fenced, _) if !is_refused => return Some(in_flight),
            (Standing::Replaced { .. }, Some(InFlightOp::Shared(_) | InFlightOp::Conditional(_)))
                if !is_refused =>
            {
                return Some(in_flight);
            }
            (Standing::Fenced, _) => {}
            (Standing::Replaced { is_told }, _) => *is_told |= is_refused,
        }
        if let Some(InFlightOp::Own(at, _, expected)) = in_flight {
            self.busy.remove(&at);
            if let Expected::Change { .. } = expected {
                self.own[at].be_vague();
            }
        }
        None
    }
}
