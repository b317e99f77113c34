//! Messages of other copies, which are handled in their order: one waits until what it needs of the index is at hand,
//! and holds up those behind it.

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
}

impl Pg {
    /// Another copy's message takes its turn.
    pub(crate) fn on_peer(&mut self, from: OsdId, message: Message, ctx: &mut Ctx<'_>) {
        self.peer_queue.0.push_back((from, message));
        self.run_peers(ctx);
    }

    pub(crate) fn run_peers(&mut self, ctx: &mut Ctx<'_>) {
        while !self.is_waiting(IndexWait::Peer)
            && let Some((from, message)) = self.peer_queue.0.pop_front()
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
                    self.peer_queue.0.push_front((from, message));
                    self.wait(IndexWait::Peer, lacking, ctx);
                }
            }
        }
    }
}
