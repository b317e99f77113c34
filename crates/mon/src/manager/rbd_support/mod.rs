//! The manager's module `rbd_support`: tasks on images in the background, schedules of trash purges and of mirror
//! snapshots, and what images do.
//!
//! The module reads what it knows of images from their objects; for what it does with them it runs the stock `rbd`,
//! which the caller that executes the monitor's effects starts as the manager's entity. Commands and the module's own
//! work wait in a queue for each pool (`pool_queues.rs`), since each builds on what the one before it wrote.

mod add_task;
mod commands;
mod image;
mod perf;
mod pool_queues;
mod runs;
mod schedule;
mod schedules;
mod spec;
mod task;
mod tasks;

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use types::{Errno, Instant, PoolId, Token, UTime};

use self::{
    commands::{Change, Command, Plan},
    perf::Perf,
    pool_queues::{PoolQueues, Progress, QueueId},
    runs::Runs,
    schedule::{Minute, Schedule},
    schedules::{Kind, Schedules},
    task::Task,
    tasks::Tasks,
};
use super::objects::{ObjectRequest, Place, Stop, UnreadObjects, View};
use crate::{Effect, Effects, Mon, commands::Reply};

pub(crate) use commands::ROWS;
pub use runs::RunId;
pub(crate) use schedules::rbd_pools;

/// How often pools are looked through for schedules and for their targets.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// Commands that wait for a pool; more are told to try again.
const COMMANDS_MAX: usize = 1_000;

/// The JSON of a command that waits, and of a task or a schedule that a pool keeps.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// What the module could not read or write is tried again after that time.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// What callers are told to try again with.
const NOT_READY: &str = "rbd_support module is not ready, try again";

/// A piece of work.
#[derive(Debug)]
enum Work {
    /// Finds the tasks that a pool keeps.
    Load(PoolId),
    /// Looks through a pool for schedules.
    Look(Kind, PoolId),
    /// A command of a client.
    Command(Box<Command>),
    /// Looks up the names of images.
    Names(Place),
    /// Changes an object; it does not matter if the object does not exist.
    Write(ObjectRequest),
    /// Sees whether the image in a place is still the one that a task was added for.
    Begin(Place, Box<Task>),
}

impl Work {
    /// The queue that it belongs into.
    fn queue(&self) -> QueueId {
        match self {
            Work::Load(pool) | Work::Look(_, pool) => Some(*pool),
            Work::Command(command) => command.queue,
            Work::Names(place) | Work::Begin(place, _) => Some(place.pool),
            Work::Write(request) => Some(request.pool),
        }
    }

    /// True for work that need not be done twice.
    fn is_same(&self, other: &Work) -> bool {
        match (self, other) {
            (Work::Look(kind, pool), Work::Look(other, in_pool)) => (kind, pool) == (other, in_pool),
            (Work::Names(place), Work::Names(other)) => place == other,
            _ => false,
        }
    }
}

/// The module's tasks, schedules and statistics of images, and the work that waits.
#[derive(Debug)]
pub(crate) struct RbdSupport {
    looked_at: Option<Instant>,
    /// Pools that it looks at.
    pools: Vec<PoolId>,
    queues: PoolQueues,
    tasks: Tasks,
    trash: Schedules,
    mirror: Schedules,
    runs: Runs,
    perf: Perf,
}

impl Default for RbdSupport {
    fn default() -> Self {
        RbdSupport {
            looked_at: None,
            pools: Vec::new(),
            queues: PoolQueues::default(),
            tasks: Tasks::default(),
            trash: Schedules::new(Kind::TrashPurge),
            mirror: Schedules::new(Kind::MirrorSnapshot),
            runs: Runs::default(),
            perf: Perf::default(),
        }
    }
}

impl RbdSupport {
    fn schedules(&mut self, kind: Kind) -> &mut Schedules {
        match kind {
            Kind::TrashPurge => &mut self.trash,
            Kind::MirrorSnapshot => &mut self.mirror,
        }
    }

    /// Why tasks and schedules get nowhere, as long as there are any.
    pub(crate) fn failed_dependency(&self) -> Option<&str> {
        let has_work = self.tasks.all().next().is_some() || self.trash.are_any() || self.mirror.are_any();
        self.runs.obstacle.as_deref().filter(|_| has_work)
    }

    /// The module ends: the runs that it started are ended, too.
    pub(crate) fn stop(&mut self) -> impl Iterator<Item = Effect> + use<> {
        let (queues, runs) = (self.queues.anew(), self.runs.anew());
        let before = std::mem::replace(self, RbdSupport { queues, runs, ..RbdSupport::default() });
        before.runs.into_ids().map(Effect::Kill)
    }
}

/// Tasks that are kept in all namespaces of a pool.
fn load(view: View<'_>, pool: PoolId) -> Result<Plan, Stop> {
    let mut missing = UnreadObjects::default();
    let mut kept = Vec::new();
    for nspace in std::iter::once(String::new()).chain(image::namespaces(view, pool)?) {
        let found = missing.pass(view.omap(&Place::new(pool, &nspace), task::OID))?;
        kept.extend(found.map(|found| (nspace, found)));
    }
    missing.end()?;
    // Everything was read: from here on the work does not begin again.
    let name = view.map.pool_name(pool).unwrap_or_default();
    let mut tasks = Vec::new();
    for (nspace, found) in &kept {
        let mut others = Vec::new();
        for (key, text) in found {
            match Task::from_text(&String::from_utf8_lossy(text)) {
                Some(task) if task.belongs(name, nspace, key) => tasks.push(task),
                _ => others.push(key),
            }
        }
        if let Some(key) = others.first() {
            let (place, more) = (format!("pool {pool}, namespace {nspace:?}"), others.len() - 1);
            tracing::error!("{place}: task {key:?} and {more} others cannot be read, or do not belong there");
        }
    }
    Ok(Plan::of(Change::Loaded(pool, tasks)))
}

/// Whether the image of a task's name is still the one that the task was added for. Where there is no image, `rbd` says
/// so.
fn begin(view: View<'_>, place: &Place, task: &Task) -> Result<Plan, Stop> {
    let Some(name) = &task.refs.image_name else { return Ok(Plan::of(Change::Begin(task.clone(), true))) };
    let found = image::named_id(view, place, name)?;
    let is_same = found.is_none() || task.refs.image_id.is_none() || found == task.refs.image_id;
    Ok(Plan::of(Change::Begin(task.clone(), is_same)))
}

impl Mon {
    /// Every second, while the manager's part is played.
    pub(crate) fn tick_rbd_support(&mut self, now: Instant, wall: UTime, effects: &mut Effects) {
        self.follow_pools(wall, effects);
        self.rbd_support.queues.resume(wall);
        if self.rbd_support.looked_at.is_none_or(|at| now.since(at) >= LOOK_INTERVAL) {
            self.rbd_support.looked_at = Some(now);
            self.rbd_support.resume_unstarted(Minute::of(wall));
            // What an operator has just set was taken up at once, and is on its way to the database.
            let is_settled = self.next.config == self.committed.config;
            for kind in [Kind::TrashPurge, Kind::MirrorSnapshot] {
                if is_settled {
                    let global = self.module_option(kind.option());
                    let global = global.as_deref().and_then(Schedule::from_text);
                    self.rbd_support.schedules(kind).set_global(Minute::of(wall), global);
                }
                for pool in self.rbd_support.pools.clone() {
                    self.rbd_support.queues.enqueue_once(Work::Look(kind, pool));
                }
            }
        }
        for kind in [Kind::TrashPurge, Kind::MirrorSnapshot] {
            for (level, name) in self.rbd_support.schedules(kind).take_due(Minute::of(wall)) {
                let pool = level.pool.and_then(|pool| self.committed.osdmap.pool_name(pool));
                if let Some(pool) = pool {
                    self.rbd_support.runs.schedule(kind, pool, level, &name);
                }
            }
        }
        self.tick_perf(now, wall, effects);
        self.start_runs(wall, effects);
    }

    /// Pools come and go.
    fn follow_pools(&mut self, wall: UTime, effects: &mut Effects) {
        let map = std::sync::Arc::clone(&self.committed.osdmap);
        let pools = rbd_pools(&map);
        if pools != self.rbd_support.pools {
            self.rbd_support.queues.open(&pools);
            for kind in [Kind::TrashPurge, Kind::MirrorSnapshot] {
                self.rbd_support.schedules(kind).retain(&pools);
            }
            self.rbd_support.pools = pools;
        }
        for work in self.rbd_support.queues.retain(|pool| map.pools.contains_key(&pool)) {
            let text = "[errno 2] RADOS object not found (the pool is gone)".to_owned();
            match work {
                Work::Load(_) | Work::Write(_) => {}
                other => self.refuse(wall, other, Errno::ENOENT, text, effects),
            }
        }
    }

    /// Takes a command in, which is answered later.
    fn take_rbd_command(&mut self, command: Command) -> Reply {
        if self.rbd_support.queues.len(command.queue) >= COMMANDS_MAX {
            return Reply::fail(Errno::EAGAIN, NOT_READY);
        }
        self.rbd_support.queues.enqueue(Work::Command(Box::new(command)));
        Reply::later()
    }

    /// Goes on with the work that waits, as far as it does not wait for objects.
    pub(crate) fn pump_rbd_support(&mut self, now: Instant, wall: UTime, effects: &mut Effects) {
        while let Some((id, job)) = self.rbd_support.queues.take() {
            let map = std::sync::Arc::clone(&self.committed.osdmap);
            match self.attempt(now, wall, View { map: &map, reads: &job.reads }, &job.work) {
                Ok(plan) => {
                    let mut writes: VecDeque<ObjectRequest> = plan.writes.into();
                    match writes.pop_front() {
                        Some(first) => {
                            self.rbd_support.queues.write(id, job, first, writes, plan.change, effects);
                        }
                        None => self.make_change(wall, plan.change, effects),
                    }
                }
                Err(Stop::Missing(keys)) => self.rbd_support.queues.read(id, job, keys, effects),
                Err(Stop::Refused(errno, text)) => self.refuse(wall, job.work, errno, text, effects),
            }
        }
    }

    fn attempt(&mut self, now: Instant, wall: UTime, view: View<'_>, work: &Work) -> Result<Plan, Stop> {
        match work {
            Work::Load(pool) => load(view, *pool),
            Work::Look(kind, pool) => {
                let mut found = self.rbd_support.schedules(*kind).look(view, *pool)?;
                let writes = std::mem::take(&mut found.stale);
                Ok(Plan { writes, change: Change::Found(*kind, found) })
            }
            Work::Command(command)
                if command.adds_task() && !self.rbd_support.queues.is_loaded(command.queue) =>
            {
                Err(Stop::Refused(Errno::EAGAIN, NOT_READY.to_owned()))
            }
            Work::Command(command) => command.plan(view, now, wall, self),
            Work::Names(place) => Ok(Plan::of(Change::Names(place.clone(), perf::look_up(view, place)?))),
            Work::Write(request) => Ok(Plan { writes: vec![request.clone()], change: Change::Nothing }),
            Work::Begin(place, task) => begin(view, place, task),
        }
    }

    /// Work failed.
    fn refuse(&mut self, wall: UTime, work: Work, errno: Errno, text: String, effects: &mut Effects) {
        match work {
            Work::Command(command) => {
                effects.push(self.answer_of(command.caller, Reply::fail(errno, text)));
                return;
            }
            Work::Begin(..) => self.on_task_ended(wall, Some(errno), &text),
            // If the key stayed, its task would run again.
            work @ (Work::Load(_) | Work::Write(_)) => {
                tracing::warn!("rbd_support: {work:?}: {text}; it is tried again");
                self.rbd_support.queues.put_off(wall, work);
                return;
            }
            other @ (Work::Look(..) | Work::Names(_)) => tracing::warn!("rbd_support: {other:?}: {text}"),
        }
        self.start_runs(wall, effects);
    }

    /// The answer to [`Effect::Objects`].
    pub(crate) fn on_objects_done(
        &mut self,
        wall: UTime,
        token: Token,
        result: Result<Bytes, Errno>,
        effects: &mut Effects,
    ) {
        match self.rbd_support.queues.answered(token, result, effects) {
            Some(Progress::Done(change)) => self.make_change(wall, change, effects),
            Some(Progress::Failed(work, errno)) => {
                let text = format!("[errno {}] RADOS error ({})", errno.0, errno.text());
                self.refuse(wall, work, errno, text, effects);
            }
            Some(Progress::Going) | None => {}
        }
    }

    /// Work that is done changes what the module knows.
    fn make_change(&mut self, wall: UTime, change: Change, effects: &mut Effects) {
        let now = Minute::of(wall);
        match change {
            Change::Nothing => {}
            Change::Loaded(pool, tasks) => {
                self.rbd_support.queues.set_loaded(pool);
                tasks.into_iter().for_each(|task| self.rbd_support.tasks.add(task));
            }
            Change::Begin(task, is_same) => self.begin_task(wall, &task, is_same, effects),
            Change::Found(kind, found) => self.rbd_support.schedules(kind).refresh(now, found),
            Change::Names(place, names) => self.rbd_support.perf.set_names(place, names),
            Change::CountImages(caller, reply) => {
                self.ask_for_images(effects);
                effects.push(self.answer_of(caller, reply));
            }
            Change::Answer(caller, reply) => effects.push(self.answer_of(caller, reply)),
            Change::AddTask(caller, task) => {
                let reply = Reply::module(task.to_text());
                self.rbd_support.tasks.add(task);
                effects.push(self.answer_of(caller, reply));
            }
            Change::CancelTask(caller, task) => {
                self.progress.fail(wall, &task.id, "Operation canceled");
                if self.rbd_support.tasks.cancel(&task) {
                    effects.extend(self.rbd_support.runs.task().map(Effect::Kill));
                }
                effects.push(self.answer_of(caller, Reply::default()));
            }
            Change::SetSchedule(caller, kind, named, schedule) => {
                let answer = self.answer_of(caller, Reply::default());
                if named.level.pool.is_none() {
                    let text =
                        (!schedule.is_empty()).then(|| crate::format::python_sorted(&schedule.to_value()));
                    self.set_module_option(wall, kind.option(), text);
                }
                self.rbd_support.schedules(kind).set(now, named, schedule);
                // The schedule for everything is an option, which the ledger keeps.
                self.answer_when_committed(answer, effects);
            }
        }
        self.start_runs(wall, effects);
    }
}

#[cfg(test)]
mod tests;
