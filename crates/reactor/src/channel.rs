//! A bounded queue into another reactor, which wakes it only when it sleeps.

use std::sync::mpsc;

use crate::Waker;

/// The sending half; clone it for several senders.
pub struct Sender<T> {
    queue: mpsc::SyncSender<T>,
    waker: Waker,
}

/// The receiving half: empty it with [`try_recv`](Receiver::try_recv) on each
/// [`Event::Woken`](crate::Event::Woken).
pub struct Receiver<T> {
    queue: mpsc::Receiver<T>,
}

/// Why a value was not queued; it comes back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError<T> {
    /// `capacity` values are queued: the receiver is behind.
    #[error("the queue is full")]
    Full(T),
    /// The receiver is gone.
    #[error("the receiver is gone")]
    Disconnected(T),
}

/// A queue of at most `capacity` values to the reactor that owns `waker`.
pub fn channel<T>(capacity: usize, waker: Waker) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::sync_channel(capacity.max(1));
    (Sender { queue: sender, waker }, Receiver { queue: receiver })
}

impl<T> Sender<T> {
    /// Queues `value` without ever waiting.
    pub fn try_send(&self, value: T) -> Result<(), SendError<T>> {
        self.queue.try_send(value).map_err(|error| match error {
            mpsc::TrySendError::Full(value) => SendError::Full(value),
            mpsc::TrySendError::Disconnected(value) => SendError::Disconnected(value),
        })?;
        self.waker.wake();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { queue: self.queue.clone(), waker: self.waker.clone() }
    }
}

impl<T> Receiver<T> {
    /// The oldest value, if there is one. After `None` the next value comes with a wake-up.
    pub fn try_recv(&self) -> Option<T> {
        self.queue.try_recv().ok()
    }
}
