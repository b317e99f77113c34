//! Requests that other OSDs have passed on, and that wait until their PGs are here.

use std::collections::{BTreeMap, BTreeSet};

use messages::MPgProxyOp;
use types::{OsdId, PgId};

/// For one PG.
#[derive(Default)]
struct OfPg {
    /// In the order in which they came.
    questions: Vec<(OsdId, Box<MPgProxyOp>)>,
    /// Their names: one that is sent again is kept once.
    names: BTreeSet<(OsdId, PgId, u64)>,
}

/// All of them.
#[derive(Default)]
pub(super) struct EarlyPassedOn(BTreeMap<PgId, OfPg>);

impl EarlyPassedOn {
    pub(super) fn keep(&mut self, from: OsdId, question: Box<MPgProxyOp>) {
        let of_pg = self.0.entry(question.pgid).or_default();
        if of_pg.names.insert((from, question.asker, question.id)) {
            of_pg.questions.push((from, question));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.values().map(|of_pg| of_pg.questions.len()).sum()
    }

    /// Drops those that are not meant for this OSD any more, or that their senders will ask anew.
    pub(super) fn retain(&mut self, is_kept: impl Fn(OsdId, &MPgProxyOp) -> bool) {
        for OfPg { questions, names } in self.0.values_mut() {
            for (from, gone) in questions.extract_if(.., |(from, question)| !is_kept(*from, question)) {
                names.remove(&(from, gone.asker, gone.id));
            }
        }
        self.0.retain(|_, of_pg| !of_pg.questions.is_empty());
    }

    /// Takes those for PGs that are here, of each PG in their order.
    pub(super) fn take(&mut self, is_here: impl Fn(PgId) -> bool) -> Vec<(OsdId, Box<MPgProxyOp>)> {
        let here = self.0.extract_if(.., |pgid, _| is_here(*pgid));
        here.flat_map(|(_, of_pg)| of_pg.questions).collect()
    }
}

#[cfg(test)]
mod tests {
    use messages::MOSDOp;
    use types::{EntityAddr, EntityNum, Epoch, PoolId};

    use super::*;

    fn question(seed: u32, id: u64) -> Box<MPgProxyOp> {
        let (pgid, asker) = (PgId::new(PoolId(2), seed), PgId::new(PoolId(1), 0));
        let (epoch, client, addr) = (Epoch(7), EntityNum::client(4), EntityAddr::default());
        let (tid, path, op) = (1, Vec::new(), MOSDOp::default());
        Box::new(MPgProxyOp { pgid, epoch, asker, id, client, addr, tid, path, op })
    }

    #[test]
    fn what_was_passed_on_before_its_pg_is_here_waits_in_order_and_once() {
        let mut early = EarlyPassedOn::default();
        for (from, id) in [(1, 8), (1, 9), (1, 8), (2, 8), (2, 7)] {
            early.keep(OsdId(from), question(5, id));
        }
        early.keep(OsdId(1), question(6, 8));
        assert_eq!(early.len(), 5);
        early.retain(|from, question| (from, question.id) != (OsdId(1), 9));
        let mut taken = |seed: u32| {
            let taken = early.take(|pgid| pgid.seed == seed).into_iter();
            taken.map(|(from, kept)| (from.0, kept.id)).collect::<Vec<_>>()
        };
        assert_eq!((taken(5), taken(5), taken(6)), (vec![(1, 8), (2, 8), (2, 7)], vec![], vec![(1, 8)]));
        // One that was dropped may come again.
        early.keep(OsdId(1), question(5, 9));
        assert_eq!(early.len(), 1);
    }

    /// If each were compared with all that wait, this would not end.
    #[test]
    fn very_many_may_wait() {
        const COUNT: u64 = 50_000;
        let mut early = EarlyPassedOn::default();
        (0..2 * COUNT).for_each(|at| early.keep(OsdId(1), question(5, at % COUNT)));
        assert_eq!(early.len() as u64, COUNT);
    }
}
