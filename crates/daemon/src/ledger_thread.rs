//! The ledger on a thread of its own, so that the monitor serves sessions while the disk takes its time.

use std::{
    sync::mpsc::{self, Receiver, RecvError, Sender, TryRecvError},
    thread::JoinHandle,
};

use anyhow::{Context, Result};
use mon::{Event, Ledger, LedgerError, LedgerTxn, Revision};
use reactor::Waker;
use types::Errno;

/// What the thread is to do, in order.
enum Job {
    Commit(LedgerTxn),
    Compact,
}

/// What became of it.
enum Done {
    Committed(Result<Revision, LedgerError>),
    Compacted(Result<(), LedgerError>),
}

/// The ledger on a thread of its own. Dropping it waits for what is under way.
pub(crate) struct LedgerThread {
    /// None once it is to end.
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    /// Jobs that are not done.
    pending_count: usize,
    thread: Option<JoinHandle<()>>,
}

impl LedgerThread {
    /// The thread wakes the monitor's reactor after each job.
    pub(crate) fn spawn(ledger: Box<dyn Ledger + Send>, waker: Waker) -> Result<LedgerThread> {
        let (jobs, taken) = mpsc::channel();
        let (answers, done) = mpsc::channel();
        let thread = reactor::spawn("ledger", None, move || work(ledger, &taken, &answers, &waker))
            .context("starting the ledger's thread")?;
        Ok(LedgerThread { jobs: Some(jobs), done, pending_count: 0, thread: Some(thread) })
    }

    /// Answered by [`Event::LedgerCommitted`], or by the error.
    pub(crate) fn commit(&mut self, txn: LedgerTxn) {
        self.push(Job::Commit(txn));
    }

    /// Answered by [`Event::Compacted`].
    pub(crate) fn compact(&mut self) {
        self.push(Job::Compact);
    }

    fn push(&mut self, job: Job) {
        self.pending_count += 1;
        if let Some(jobs) = &self.jobs {
            // That the thread has ended shows when its answer is asked for.
            let _ = jobs.send(job);
        }
    }

    /// What is done by now, if anything.
    ///
    /// # Errors
    ///
    /// A decision that was not committed: what the ledger holds is unknown from then on.
    pub(crate) fn take(&mut self) -> Result<Option<Event>, LedgerError> {
        match self.done.try_recv() {
            Ok(done) => self.event(done).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(ended()),
        }
    }

    /// Waits for what is under way; none if nothing is. Errors are those of [`LedgerThread::take`].
    pub(crate) fn wait(&mut self) -> Result<Option<Event>, LedgerError> {
        if self.pending_count == 0 {
            return Ok(None);
        }
        let done = self.done.recv().map_err(|RecvError| ended())?;
        self.event(done).map(Some)
    }

    fn event(&mut self, done: Done) -> Result<Event, LedgerError> {
        self.pending_count -= 1;
        match done {
            Done::Committed(result) => result.map(Event::LedgerCommitted),
            Done::Compacted(result) => Ok(Event::Compacted(result)),
        }
    }
}

impl Drop for LedgerThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the ledger's thread ended with a panic");
        }
    }
}

/// The thread has panicked, which leaves the ledger in an unknown state: as an EIO.
fn ended() -> LedgerError {
    LedgerError::Io { errno: Errno::EIO.0 }
}

fn work(mut ledger: Box<dyn Ledger + Send>, jobs: &Receiver<Job>, done: &Sender<Done>, waker: &Waker) {
    while let Ok(job) = jobs.recv() {
        let answer = match job {
            Job::Commit(txn) => Done::Committed(ledger.commit(&txn)),
            Job::Compact => Done::Compacted(ledger.compact()),
        };
        if done.send(answer).is_err() {
            return;
        }
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use mon::{LedgerContents, MemLedger};

    use super::*;

    /// One on a disk that commits when it is let.
    struct Slow(MemLedger, Receiver<()>);

    impl Ledger for Slow {
        fn load(&self) -> Result<LedgerContents, LedgerError> {
            self.0.load()
        }

        fn commit(&mut self, txn: &LedgerTxn) -> Result<Revision, LedgerError> {
            self.1.recv().map_err(|_| LedgerError::Io { errno: 5 })?;
            self.0.commit(txn)
        }
    }

    #[test]
    fn jobs_are_answered_in_order_while_the_monitor_goes_on() {
        let (disk, lets) = mpsc::channel();
        let slow = Box::new(Slow(MemLedger::default(), lets));
        let mut ledger = LedgerThread::spawn(slow, Waker::new().unwrap()).unwrap();
        assert!(matches!(ledger.wait(), Ok(None)), "nothing is under way");
        ledger.commit(LedgerTxn::default());
        ledger.compact();
        assert!(matches!(ledger.take(), Ok(None)), "the disk takes its time");
        disk.send(()).unwrap();
        assert!(matches!(ledger.wait(), Ok(Some(Event::LedgerCommitted(Revision(1))))));
        assert!(matches!(ledger.wait(), Ok(Some(Event::Compacted(Ok(()))))));
        ledger.commit(LedgerTxn { expected: Revision(1), ..LedgerTxn::default() });
        drop(disk);
        assert_eq!(ledger.wait().unwrap_err(), LedgerError::Io { errno: 5 });
    }
}
