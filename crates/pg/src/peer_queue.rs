//! Messages of other copies, which are handled in their order: one waits until what it needs of the index is at hand,
//! and holds up those behind it. All wait until this copy may answer ([`Pg::may_answer`]).

use std::collections::VecDeque;

use messages::Message;
use types::OsdId;

use crate::{Ctx, Pg, index_wait::IndexWait};

/// Messages that were not handled yet: the first one waits. Behind it come, at most, those that the others send without
/// an answer: the primary's changes, which are as many as the ops that its OSD holds for clients, and what recoveries,
/// scrubs and requests that copy have under way, which have limits of their own.
#[derive(Debug, Default)]
pub(crate) struct PeerQueue(VecDeque<(OsdId, Message)>);

impl PeerQueue {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Of what other copies have said, only the requests that they pass on outlive an interval
    /// ([`Pg::on_peer_message`]): they keep their place before those that come later.
    pub(crate) fn on_new_interval(&mut self) {
        self.0.retain(|(_, message)| matches!(message, Message::MPgProxyOp(_)));
    }

    /// What the OSD has said does not count.
    pub(crate) fn forget(&mut self, from: OsdId) {
        self.0.retain(|(osd, _)| *osd != from);
    }
}

impl Pg {
    /// Another copy's message takes its turn.
    pub(crate) fn on_peer(&mut self, from: OsdId, message: Message, ctx: &mut Ctx<'_>) {
        self.peer_queue.0.push_back((from, message));
        self.run_peers(ctx);
    }

    pub(crate) fn run_peers(&mut self, ctx: &mut Ctx<'_>) {
        while self.may_answer()
            && !self.is_waiting(IndexWait::Peer)
            && let Some((from, message)) = self.peer_queue.0.pop_front()
        {
            // What the PG tells itself needs no check.
            if from != self.me
                && let Err(nonsense) = self.check_peer(from, &message, ctx)
            {
                self.refuse_peer(from, nonsense, ctx);
                continue;
            }
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
                    self.peer_queue.0.push_front((from, message));
                    self.wait(IndexWait::Peer, lacking, ctx);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use messages::MPgCommitted;
    use types::TxnOp;

    use crate::{
        Nonsense,
        nonsense::tests::{change, refused},
        test_world::World,
    };

    /// Whoever answers that it has the second change seems to have the first one, too.
    #[test]
    fn what_waits_behind_nonsense_is_not_heard() {
        let mut world = World::replica();
        let (peer, pgid, epoch) = (world.peers[0], world.pg.pgid, world.map.epoch);
        let mut bad = change(&world, 1);
        bad.txn.ops.push(TxnOp::RemoveCollection);
        let good = change(&world, 2);
        let committed = MPgCommitted { pgid, epoch, committed_to: world.version(3) };
        world.pg.peer_queue.0.extend([(peer, committed.into()), (peer, bad.into())]);
        world.say(peer, good.into());
        assert_eq!(refused(&mut world), [(peer, Nonsense::OtherPlace)]);
        assert_eq!(
            (world.pg.committed_to(), world.pg.info.last_update),
            (world.version(3), world.version(3))
        );
    }
}
