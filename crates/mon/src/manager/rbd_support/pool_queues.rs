//! The work of the module, in one queue for each pool: work in a pool builds on what was done there before, and a pool
//! that does not answer holds up no other. Work that needs no pool has a queue of its own.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use types::{Errno, PoolId, Token, UTime};

use super::{RETRY_INTERVAL, Work, commands::Change};
use crate::{
    Effect, Effects,
    manager::objects::{ObjectRequest, READS_MAX, ReadKey, Reads},
};

/// The pool whose queue it is; none for what concerns no pool.
pub(super) type QueueId = Option<PoolId>;

/// A piece of work on its way.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) reads: Reads,
}

/// What the first job of a queue waits for.
#[derive(Debug)]
enum Waiting {
    Reads(BTreeMap<Token, ReadKey>),
    /// The change to make when the last write is done, and the writes behind the one that is on its way.
    Write(Token, Box<Change>, VecDeque<ObjectRequest>),
}

#[derive(Debug, Default)]
struct PoolQueue {
    jobs: VecDeque<Job>,
    waiting: Option<Waiting>,
    /// The tasks that the pool keeps are known.
    is_loaded: bool,
}

impl PoolQueue {
    fn waits_for(&self, token: Token) -> bool {
        match &self.waiting {
            Some(Waiting::Reads(reads)) => reads.contains_key(&token),
            Some(Waiting::Write(write, ..)) => *write == token,
            None => false,
        }
    }
}

/// What came of an answer.
#[derive(Debug)]
pub(super) enum Progress {
    /// There is more to wait for, or the job goes on.
    Going,
    /// The job's writes are done.
    Done(Change),
    /// A write failed.
    Failed(Work, Errno),
}

/// The queues, by pool.
#[derive(Debug, Default)]
pub(super) struct PoolQueues {
    by_pool: BTreeMap<QueueId, PoolQueue>,
    /// Work that failed, and when it is tried again.
    later: Vec<(UTime, Work)>,
    next_token: u64,
}

impl PoolQueues {
    /// The queues without any work. Answers to what was asked before find no job and are dropped.
    pub(super) fn anew(&self) -> PoolQueues {
        PoolQueues { next_token: self.next_token, ..PoolQueues::default() }
    }

    /// The queue of a pool; a new one begins with finding the tasks that the pool keeps.
    fn queue(&mut self, id: QueueId) -> &mut PoolQueue {
        self.by_pool.entry(id).or_insert_with(|| {
            let load = id.map(|pool| Job { work: Work::Load(pool), reads: Reads::default() });
            PoolQueue { jobs: load.into_iter().collect(), ..PoolQueue::default() }
        })
    }

    /// Sees to it that there is a queue for each of these pools.
    pub(super) fn open(&mut self, pools: &[PoolId]) {
        for pool in pools {
            self.queue(Some(*pool));
        }
    }

    pub(super) fn enqueue(&mut self, work: Work) {
        self.queue(work.queue()).jobs.push_back(Job { work, reads: Reads::default() });
    }

    /// Queues a piece of work, unless the same work waits already.
    pub(super) fn enqueue_once(&mut self, work: Work) {
        if !self.queue(work.queue()).jobs.iter().any(|job| job.work.is_same(&work)) {
            self.enqueue(work);
        }
    }

    /// Work that failed is done again after a while.
    pub(super) fn put_off(&mut self, wall: UTime, work: Work) {
        self.later.push((wall.plus(RETRY_INTERVAL), work));
    }

    /// Queues the work that was put off and is due again.
    pub(super) fn resume(&mut self, wall: UTime) {
        let (due, later) = std::mem::take(&mut self.later).into_iter().partition(|(at, _)| *at <= wall);
        self.later = later;
        let due: Vec<(UTime, Work)> = due;
        due.into_iter().for_each(|(_, work)| self.enqueue(work));
    }

    /// How much waits in a queue.
    pub(super) fn len(&self, id: QueueId) -> usize {
        self.by_pool.get(&id).map_or(0, |queue| queue.jobs.len())
    }

    pub(super) fn is_loaded(&self, id: QueueId) -> bool {
        id.is_none() || self.by_pool.get(&id).is_some_and(|queue| queue.is_loaded)
    }

    /// True when all tasks are known that are kept anywhere.
    pub(super) fn are_all_loaded(&self) -> bool {
        self.by_pool.iter().all(|(id, queue)| id.is_none() || queue.is_loaded)
    }

    pub(super) fn set_loaded(&mut self, pool: PoolId) {
        self.queue(Some(pool)).is_loaded = true;
    }

    /// Drops the queues of pools that are gone; gives the work that waited in them.
    pub(super) fn retain(&mut self, is_there: impl Fn(PoolId) -> bool) -> Vec<Work> {
        let gone: Vec<QueueId> =
            self.by_pool.keys().filter(|id| id.is_some_and(|pool| !is_there(pool))).copied().collect();
        self.later.retain(|(_, work)| work.queue().is_none_or(&is_there));
        let queues = gone.iter().filter_map(|id| self.by_pool.remove(id));
        queues.flat_map(|queue| queue.jobs).map(|job| job.work).collect()
    }

    /// A job that waits for nothing, and the queue that it is the first of.
    pub(super) fn take(&mut self) -> Option<(QueueId, Job)> {
        let ready = self.by_pool.iter_mut().filter(|(_, queue)| queue.waiting.is_none());
        ready.filter_map(|(id, queue)| Some((*id, queue.jobs.pop_front()?))).next()
    }

    /// A job goes on when these were read, or the first of them.
    pub(super) fn read(&mut self, id: QueueId, job: Job, mut keys: Vec<ReadKey>, effects: &mut Effects) {
        keys.sort();
        keys.dedup();
        keys.truncate(READS_MAX);
        let reads = keys.into_iter().map(|key| (self.ask(key.request(), effects), key)).collect();
        let queue = self.queue(id);
        queue.jobs.push_front(job);
        queue.waiting = Some(Waiting::Reads(reads));
    }

    /// A job is done, with this change, after these writes.
    pub(super) fn write(
        &mut self,
        id: QueueId,
        mut job: Job,
        first: ObjectRequest,
        rest: VecDeque<ObjectRequest>,
        change: Change,
        effects: &mut Effects,
    ) {
        let token = self.ask(first, effects);
        // What the job read is of no use any more.
        job.reads.clear();
        let queue = self.queue(id);
        queue.jobs.push_front(job);
        queue.waiting = Some(Waiting::Write(token, Box::new(change), rest));
    }

    fn ask(&mut self, request: ObjectRequest, effects: &mut Effects) -> Token {
        self.next_token += 1;
        effects.push(Effect::Objects(Token(self.next_token), request));
        Token(self.next_token)
    }

    /// Takes an answer to the first job of some queue. An answer to what was asked before the lease was lost finds no
    /// job.
    pub(super) fn answered(
        &mut self,
        token: Token,
        result: Result<Bytes, Errno>,
        effects: &mut Effects,
    ) -> Option<Progress> {
        let (id, queue) = self.by_pool.iter_mut().find(|(_, queue)| queue.waits_for(token))?;
        let id = *id;
        match queue.waiting.take()? {
            Waiting::Reads(mut reads) => {
                let key = reads.remove(&token)?;
                if let Some(job) = queue.jobs.front_mut() {
                    job.reads.insert(key, result);
                }
                queue.waiting = (!reads.is_empty()).then_some(Waiting::Reads(reads));
                Some(Progress::Going)
            }
            Waiting::Write(_, change, mut writes) => match (result, writes.pop_front()) {
                // An object that does not exist is no error for a write.
                (Err(errno), _) if errno != Errno::ENOENT => {
                    Some(Progress::Failed(queue.jobs.pop_front()?.work, errno))
                }
                (_, Some(next)) => {
                    let token = self.ask(next, effects);
                    self.queue(id).waiting = Some(Waiting::Write(token, change, writes));
                    Some(Progress::Going)
                }
                (_, None) => {
                    queue.jobs.pop_front();
                    Some(Progress::Done(*change))
                }
            },
        }
    }
}
