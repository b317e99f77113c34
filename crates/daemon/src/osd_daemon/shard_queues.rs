//! The queues between the shards of an OSD: one for each pair and direction, so that nobody shares a lock
//! or a counter with a third.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Result, bail};
use auth::{RotatingSecrets, TicketKeeper};
use osd::ShardMessage;
use reactor::{Receiver, Sender, Socket, Waker, channel};

use super::end_limit::EndLimit;
use crate::stop::Stopped;

/// Values between two shards before the sender takes no more of its clients. Behind these wait then, at most, what the
/// ops lead to that it holds already (`Osd::is_saturated` has their limit), and what other OSDs send for PGs of the
/// other shard: changes and questions without an answer yet, each of an op, a recovery or a scrub, which have limits
/// there.
const CAPACITY: usize = 256;
/// Values taken from one shard in a turn: its own sockets and disk wait no longer.
const PER_TURN: usize = CAPACITY;

/// What goes from one shard to another.
pub(super) enum ShardItem {
    /// What their machines say.
    Message(ShardMessage),
    /// A connection that the control shard accepted for the receiver.
    Connection(Socket, SocketAddr),
    /// The tickets and secrets that the control shard has got.
    Auth(Box<TicketKeeper>, Option<Box<RotatingSecrets>>),
    /// To the control shard: services refuse the tickets.
    WantTickets,
}

/// Ends all shards of an OSD when one fails.
#[derive(Clone)]
pub(super) struct SharedFailure {
    has_failed: Arc<AtomicBool>,
    wakers: Arc<[Waker]>,
    end_limit: EndLimit,
}

impl SharedFailure {
    /// Of an OSD none of whose shards has failed.
    pub(super) fn new(wakers: Arc<[Waker]>, end_limit: EndLimit) -> SharedFailure {
        SharedFailure { has_failed: Arc::default(), wakers, end_limit }
    }

    /// Ends the others, for that error of a shard, within the limit.
    pub(super) fn fail(&self, error: &anyhow::Error) {
        self.end_limit.begin(error);
        self.end();
    }

    /// What the control shard came to. True for an operator's order, which ends the others without a limit, as it does
    /// where they serve.
    pub(super) fn take(&self, result: &Result<()>) -> bool {
        let Err(error) = result else { return false };
        let is_stopped = error.is::<Stopped>();
        if is_stopped {
            self.end()
        } else {
            self.fail(error)
        }
        is_stopped
    }

    fn end(&self) {
        self.has_failed.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Fails once a shard has.
    pub(super) fn check(&self) -> Result<()> {
        match self.has_failed.load(Ordering::Acquire) {
            true => bail!("another shard of this OSD failed: its log says why"),
            false => Ok(()),
        }
    }
}

/// The ends of queues that one shard has.
pub(super) struct ShardQueues {
    /// By shard; none for itself.
    senders: Vec<Option<Sender<ShardItem>>>,
    receivers: Vec<Option<Receiver<ShardItem>>>,
}

impl ShardQueues {
    /// The queues of all shards, which have these wakers.
    pub(super) fn between(wakers: &[Waker]) -> Vec<ShardQueues> {
        let empty = |_| ShardQueues { senders: Vec::new(), receivers: Vec::new() };
        let mut all: Vec<ShardQueues> = wakers.iter().map(empty).collect();
        for from in 0..wakers.len() {
            for to in 0..wakers.len() {
                let ends = (from != to).then(|| channel(CAPACITY, wakers[from].clone(), wakers[to].clone()));
                let (sender, receiver) = ends.unzip();
                all[from].senders.push(sender);
                all[to].receivers.push(receiver);
            }
        }
        all
    }

    /// Queues an item; it leaves with [`ShardQueues::flush`] at the latest.
    pub(super) fn send(&mut self, to: u16, item: ShardItem) {
        let sender = self.senders.get_mut(usize::from(to)).and_then(Option::as_mut);
        sender.expect("shards know how many they are, and do not write to themselves").send(item);
    }

    /// Ends a turn: what was queued leaves, and receivers that sleep are woken.
    pub(super) fn flush(&mut self) {
        self.senders.iter_mut().flatten().for_each(Sender::flush);
    }

    /// True while another shard does not keep up.
    pub(super) fn is_behind(&self) -> bool {
        self.senders.iter().flatten().any(Sender::is_behind)
    }

    /// True while nothing for that shard waits for room.
    pub(super) fn keeps_up(&self, shard: u16) -> bool {
        !self.senders.get(usize::from(shard)).and_then(Option::as_ref).is_some_and(Sender::is_behind)
    }

    /// Moves what the others have sent into `out`. True if there may be more.
    pub(super) fn receive(&mut self, out: &mut Vec<(u16, ShardItem)>) -> bool {
        let mut has_more = false;
        for (from, receiver) in (0..).zip(&mut self.receivers) {
            let Some(receiver) = receiver else { continue };
            let before = out.len();
            out.extend(std::iter::from_fn(|| receiver.receive()).take(PER_TURN).map(|item| (from, item)));
            has_more |= out.len() - before == PER_TURN;
        }
        has_more
    }
}

#[cfg(test)]
mod tests {
    use osd::ConnId;

    use super::*;

    #[test]
    fn a_shard_keeps_up_until_its_queue_is_full() {
        let wakers = [(); 3].map(|()| Waker::new().unwrap());
        let mut queues = ShardQueues::between(&wakers);
        let [own, slow, _] = &mut queues[..] else { panic!("one for each shard") };
        let item = || ShardItem::Message(ShardMessage::Close(ConnId(1)));
        (0..CAPACITY).for_each(|_| own.send(1, item()));
        assert!(own.keeps_up(1));
        own.send(1, item());
        assert_eq!([0, 1, 2].map(|shard| own.keeps_up(shard)), [true, false, true]);
        slow.receive(&mut Vec::new());
        own.flush();
        assert!(own.keeps_up(1) && !own.is_behind());
    }
}
