//! How an OSD that has failed ends. Memory may be let go of only when the device commands that use it are answered, so
//! a reactor waits for them; but a device may never answer.

use std::{
    process,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};

use osd::Fault;
use types::EntityName;

use crate::device::Interrupted;

/// How long the shards of an OSD that has failed may take to end.
const LIMIT: Duration = Duration::from_secs(10);

/// Ends the process where the shards of an OSD that has failed do not end. The last clone is dropped when they have.
#[derive(Clone)]
pub(super) struct EndLimit {
    who: EntityName,
    /// There once a shard has failed.
    guard: Arc<Mutex<Option<Guard>>>,
}

impl EndLimit {
    /// Of an OSD that has not failed.
    pub(super) fn new(who: EntityName) -> EndLimit {
        EndLimit { who, guard: Arc::default() }
    }

    /// Begins with the first error. The process ends at once where there is nothing to wait for: a thread that stands
    /// still cannot be joined, and what an interrupted mount has done the next one does again.
    pub(super) fn begin(&self, error: &anyhow::Error) {
        let who = &self.who;
        if error.is::<Interrupted>() {
            tracing::info!("{who}: {error:#}");
            process::exit(0);
        }
        if matches!(error.downcast_ref(), Some(Fault::Stalled(_))) {
            tracing::error!("{who}: {error:#}");
            process::exit(1);
        }
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_some() {
            return;
        }
        let text = format!(
            "{who}: {error:#}; its shards have not ended within {} s and are not waited for",
            LIMIT.as_secs()
        );
        *guard = watch(LIMIT, move || {
            tracing::error!("{text}");
            process::exit(1);
        });
    }
}

/// Nothing is sent: what counts is when it is dropped.
type Guard = mpsc::Sender<()>;

/// Calls `late` unless the guard is dropped within `limit`.
fn watch(limit: Duration, late: impl FnOnce() + Send + 'static) -> Option<Guard> {
    let (guard, dropped) = mpsc::channel();
    let wait = move || match dropped.recv_timeout(limit) {
        Err(mpsc::RecvTimeoutError::Timeout) => late(),
        Err(mpsc::RecvTimeoutError::Disconnected) | Ok(()) => {}
    };
    match reactor::spawn("end_limit", None, wait) {
        Ok(_) => Some(guard),
        Err(error) => {
            tracing::warn!(%error, "the OSD ends only when its devices answer");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_in_time_is_ended() {
        let (says, heard) = mpsc::channel();
        let guard = watch(Duration::ZERO, move || says.send("late").unwrap());
        assert_eq!(heard.recv(), Ok("late"));
        drop(guard);
        let (says, heard) = mpsc::channel();
        let guard = watch(Duration::from_secs(3_600), move || says.send("late").unwrap());
        drop(guard);
        assert_eq!(heard.recv(), Err(mpsc::RecvError), "its thread has ended and said nothing");
    }

    #[test]
    fn the_limit_begins_with_the_first_error() {
        let limit = EndLimit::new(EntityName::parse("osd.0").unwrap());
        let is_running = || limit.guard.lock().unwrap().is_some();
        assert!(!is_running());
        for _ in 0..2 {
            limit.clone().begin(&anyhow::anyhow!("the store failed"));
            assert!(is_running());
        }
    }
}
