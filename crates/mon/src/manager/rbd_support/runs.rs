//! Runs of `rbd`: one task at a time, and what is scheduled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use types::{Errno, UTime};

use super::{
    RbdSupport, Work,
    schedule::Minute,
    schedules::Kind,
    spec::Level,
    task::{self, Task},
    tasks::Ended,
};
use crate::{
    Effect, Effects, Mon,
    manager::{
        objects::{Place, remove_omap},
        progress::Origin,
    },
};

/// One start of `rbd`; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId(pub u64);

/// `max_concurrent_snap_create`: runs of schedules at a time.
const SCHEDULED_MAX: usize = 10;

#[derive(Debug)]
enum Purpose {
    Task,
    Scheduled(Scheduled),
}

/// A run of a schedule.
#[derive(Debug)]
struct Scheduled {
    kind: Kind,
    target: Level,
    args: Vec<String>,
}

/// The runs of `rbd` that go on, and those that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Runs {
    next: u64,
    running: BTreeMap<RunId, Purpose>,
    /// What is due and waits for its turn.
    due: VecDeque<Scheduled>,
    /// All that waits for its turn or runs.
    scheduled: BTreeSet<(Kind, Level)>,
    /// What was due while `rbd` could not be started.
    unstarted: BTreeSet<(Kind, Level)>,
    /// Why `rbd` could not be started when it was last tried.
    pub(super) obstacle: Option<String>,
}

impl Runs {
    fn start(&mut self, purpose: Purpose, args: Vec<String>, effects: &mut Effects) {
        self.next += 1;
        self.running.insert(RunId(self.next), purpose);
        effects.push(Effect::Run(RunId(self.next), args));
    }

    /// Without any runs; their numbers are not used again.
    pub(super) fn anew(&self) -> Runs {
        Runs { next: self.next, ..Runs::default() }
    }

    /// All that runs.
    pub(super) fn into_ids(self) -> impl Iterator<Item = RunId> {
        self.running.into_keys()
    }

    /// The run of the task that is in progress.
    pub(super) fn task(&self) -> Option<RunId> {
        self.running.iter().find(|(_, purpose)| matches!(purpose, Purpose::Task)).map(|(id, _)| *id)
    }

    /// Queues a run of what is due. What is due again while it waits or runs is done once.
    pub(super) fn schedule(&mut self, kind: Kind, pool: &str, target: Level, name: &str) {
        self.unstarted.remove(&(kind, target.clone()));
        if !self.scheduled.insert((kind, target.clone())) {
            return;
        }
        let words: &[&str] = match kind {
            Kind::TrashPurge => &["trash", "purge", "--no-progress"],
            Kind::MirrorSnapshot => &["mirror", "image", "snapshot"],
        };
        let mut args: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        // Each is one word, as in a task's command.
        args.push(format!("--pool={pool}"));
        if let Some(nspace) = target.nspace.as_ref().filter(|nspace| !nspace.is_empty()) {
            args.push(format!("--namespace={nspace}"));
        }
        if target.image.is_some() {
            args.push(format!("--image={}", name.rsplit('/').next().unwrap_or_default()));
        }
        self.due.push_back(Scheduled { kind, target, args });
    }
}

impl RbdSupport {
    /// What was due while `rbd` could not be started is due again: all of it once something has run, and one of it
    /// before, which shows whether `rbd` is there by now.
    pub(super) fn resume_unstarted(&mut self, now: Minute) {
        while let Some((kind, target)) = self.runs.unstarted.pop_first() {
            // Its schedule may be gone.
            if self.schedules(kind).make_due(now, target) && self.runs.obstacle.is_some() {
                return;
            }
        }
    }
}

impl Mon {
    /// Starts what is to run and may.
    pub(super) fn start_runs(&mut self, wall: UTime, effects: &mut Effects) {
        let support = &mut self.rbd_support;
        if let Some(task) = support.tasks.start(wall) {
            // A pool that is gone has no image to look at.
            match self.committed.osdmap.pool_by_name(&task.refs.pool) {
                Some((pool, _)) => {
                    let place = Place::new(pool, &task.refs.nspace);
                    support.queues.enqueue(Work::Begin(place, Box::new(task)));
                }
                None => support.runs.start(Purpose::Task, task.command(), effects),
            }
        }
        let is_scheduled = |purpose: &&Purpose| matches!(purpose, Purpose::Scheduled(_));
        while support.runs.running.values().filter(is_scheduled).count() < SCHEDULED_MAX {
            let Some(run) = support.runs.due.pop_front() else { return };
            let args = run.args.clone();
            support.runs.start(Purpose::Scheduled(run), args, effects);
        }
    }

    /// Runs a task, unless it was cancelled meanwhile, or its image is another one by now.
    pub(super) fn begin_task(&mut self, wall: UTime, task: &Task, is_same: bool, effects: &mut Effects) {
        let is_canceled = self.rbd_support.tasks.running().is_none_or(|task| task.is_canceled);
        if is_canceled || !is_same {
            self.on_task_ended(wall, Some(Errno::ENOENT), "the image is another one");
            return;
        }
        self.rbd_support.runs.start(Purpose::Task, task.command(), effects);
        // `rbd` reports whole percents only, and the first one of a large image only after a while.
        let refs = Origin::Module("rbd_support", task.refs.to_value());
        self.progress.update(wall, &task.id, &task.message, refs, 0.0);
    }

    /// `rbd` says how far it is, from 0 to 1.
    pub(crate) fn on_run_progress(&mut self, wall: UTime, run: RunId, fraction: f64) {
        if !matches!(self.rbd_support.runs.running.get(&run), Some(Purpose::Task)) {
            return;
        }
        self.rbd_support.tasks.set_progress(fraction);
        // What one said before it was killed would bring back its event.
        if let Some(task) = self.rbd_support.tasks.running().filter(|task| !task.is_canceled) {
            let refs = task.refs.to_value();
            self.progress.update(
                wall,
                &task.id,
                &task.message,
                Origin::Module("rbd_support", refs),
                fraction,
            );
        }
    }

    /// `rbd` has ended: with what exit code (none where it was killed), and what it said last.
    pub(crate) fn on_run_ended(
        &mut self,
        wall: UTime,
        run: RunId,
        code: Option<i32>,
        text: &str,
        effects: &mut Effects,
    ) {
        self.rbd_support.runs.obstacle = None;
        let errno = match code {
            Some(0) => None,
            Some(code) => Some(Errno(code)),
            None => Some(Errno::EIO),
        };
        self.end_run(wall, run, errno, text, effects);
    }

    /// `rbd` could not be started.
    pub(crate) fn on_run_failed(&mut self, wall: UTime, run: RunId, text: String, effects: &mut Effects) {
        let runs = &mut self.rbd_support.runs;
        if let Some(Purpose::Scheduled(run)) = runs.running.get(&run) {
            runs.unstarted.insert((run.kind, run.target.clone()));
        }
        self.end_run(wall, run, Some(Errno::EIO), &text, effects);
        self.rbd_support.runs.obstacle = Some(text);
    }

    fn end_run(&mut self, wall: UTime, run: RunId, errno: Option<Errno>, text: &str, effects: &mut Effects) {
        let Some(purpose) = self.rbd_support.runs.running.remove(&run) else { return };
        match purpose {
            Purpose::Scheduled(run) => {
                if errno.is_some() {
                    tracing::warn!("rbd {}: {text}", run.args.join(" "));
                }
                self.rbd_support.runs.scheduled.remove(&(run.kind, run.target));
            }
            Purpose::Task => self.on_task_ended(wall, errno, text),
        }
        self.start_runs(wall, effects);
    }

    pub(super) fn on_task_ended(&mut self, wall: UTime, errno: Option<Errno>, text: &str) {
        let Some((task, ended)) = self.rbd_support.tasks.end(wall, errno, text) else { return };
        let refs = Origin::Module("rbd_support", task.refs.to_value());
        match ended {
            Ended::Again => {
                tracing::warn!("task {} ({}): {text}", task.id, task.message);
                self.progress.set_back(&task.id);
                return;
            }
            // The task's key and its event have been gone since it was cancelled.
            Ended::Canceled => return,
            Ended::Gone(why) => {
                self.progress.update(wall, &task.id, &task.message, refs, 0.0);
                match why {
                    Some(why) => self.progress.fail(wall, &task.id, why),
                    None => self.progress.complete(wall, &task.id),
                }
            }
        }
        if let Some((pool, _)) = self.committed.osdmap.pool_by_name(&task.refs.pool) {
            let place = Place::new(pool, &task.refs.nspace);
            self.rbd_support.queues.enqueue(Work::Write(remove_omap(&place, task::OID, vec![task.key()])));
        }
    }
}
