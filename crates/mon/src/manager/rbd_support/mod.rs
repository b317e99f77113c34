//! The manager's module `rbd_support`: tasks on images in the background, schedules of trash purges and of mirror
//! snapshots, and what images do.
//!
//! What the module knows of images it reads from their objects; what it does with them the stock `rbd` does, which
//! whoever executes the monitor's effects starts as the manager's entity. Commands and the module's own work wait
//! in one queue, since each builds on what the one before it wrote.

mod add_task;
mod commands;
mod image;
mod perf;
mod runs;
mod schedule;
mod schedules;
mod spec;
mod task;
mod tasks;

use std::{collections::VecDeque, mem, time::Duration};

use bytes::Bytes;
use types::{Errno, Instant, Token, UTime};

use self::{
    commands::{Change, Command, Plan},
    perf::Perf,
    runs::Runs,
    schedule::Minute,
    schedules::{Kind, Schedules, rbd_pools},
    task::Task,
    tasks::Tasks,
};
use super::objects::{ObjectRequest, Place, ReadKey, Reads, Stop, View};
use crate::{Effect, Effects, Mon, commands::Reply};

pub(crate) use commands::ROWS;
pub use runs::RunId;

/// How often pools are looked through for schedules and for what they are for.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// Commands that wait; more are told to try again.
const COMMANDS_MAX: usize = 1_000;

/// A piece of work.
#[derive(Debug)]
enum Work {
    /// Finds the tasks that are kept.
    Load,
    /// Looks through pools for schedules.
    Look(Kind),
    /// A command of a client.
    Command(Box<Command>),
    /// Looks up the names of images.
    Names(Place),
    /// Changes an object; that it is not there does not matter.
    Write(ObjectRequest),
}

/// A piece of work on its way.
#[derive(Debug)]
struct Job {
    work: Work,
    reads: Reads,
}

/// What the first job waits for.
#[derive(Debug)]
enum Waiting {
    Read(ReadKey),
    /// The change to make when the last write is done, and the writes behind the one that is on its way.
    Write(Box<Change>, VecDeque<ObjectRequest>),
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct RbdSupport {
    is_started: bool,
    looked_at: Instant,
    queue: VecDeque<Job>,
    waiting: Option<(Token, Waiting)>,
    next_token: u64,
    tasks: Tasks,
    trash: Schedules,
    mirror: Schedules,
    runs: Runs,
    perf: Perf,
}

impl Default for RbdSupport {
    fn default() -> Self {
        RbdSupport {
            is_started: false,
            looked_at: Instant::default(),
            queue: VecDeque::new(),
            waiting: None,
            next_token: 0,
            tasks: Tasks::default(),
            trash: Schedules::new(Kind::TrashPurge),
            mirror: Schedules::new(Kind::MirrorSnapshot),
            runs: Runs::default(),
            perf: Perf::default(),
        }
    }
}

impl RbdSupport {
    fn enqueue(&mut self, work: Work) {
        self.queue.push_back(Job { work, reads: Reads::new() });
    }

    fn schedules(&mut self, kind: Kind) -> &mut Schedules {
        match kind {
            Kind::TrashPurge => &mut self.trash,
            Kind::MirrorSnapshot => &mut self.mirror,
        }
    }

    /// The module ends: what it started is ended too.
    pub(crate) fn stop(self) -> impl Iterator<Item = Effect> {
        self.runs.into_ids().map(Effect::Kill)
    }

    fn ask(&mut self, request: ObjectRequest, waiting: Waiting, effects: &mut Effects) {
        self.next_token += 1;
        let token = Token(self.next_token);
        self.waiting = Some((token, waiting));
        effects.push(Effect::Objects(token, request));
    }
}

/// Tasks that are kept in all pools and namespaces.
fn load(view: View<'_>) -> Result<Plan, Stop> {
    let mut tasks = Vec::new();
    for pool in rbd_pools(view.map) {
        let mut namespaces = image::namespaces(view, pool)?;
        namespaces.insert(0, String::new());
        for nspace in namespaces {
            for (key, text) in view.omap(&Place::new(pool, &nspace), task::OID)? {
                match Task::from_text(&String::from_utf8_lossy(&text)) {
                    Some(task) => tasks.push(task),
                    None => tracing::error!("task {key} of pool {pool} cannot be read"),
                }
            }
        }
    }
    Ok(Plan::of(Change::Loaded(tasks)))
}

impl Mon {
    /// Every second, while the manager's part is played.
    pub(crate) fn tick_rbd_support(&mut self, now: Instant, wall: UTime, effects: &mut Effects) {
        if !self.rbd_support.is_started {
            self.rbd_support.is_started = true;
            self.rbd_support.enqueue(Work::Load);
        }
        let is_due = now.since(self.rbd_support.looked_at) >= LOOK_INTERVAL;
        if is_due || self.rbd_support.looked_at == Instant::default() {
            self.rbd_support.looked_at = now;
            self.rbd_support.enqueue(Work::Look(Kind::TrashPurge));
            self.rbd_support.enqueue(Work::Look(Kind::MirrorSnapshot));
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

    /// Takes a command in, which is answered later.
    fn take_rbd_command(&mut self, command: Command) -> Reply {
        let waiting = self.rbd_support.queue.len();
        if waiting >= COMMANDS_MAX {
            return Reply::fail(Errno::EAGAIN, "rbd_support module is not ready, try again");
        }
        self.rbd_support.enqueue(Work::Command(Box::new(command)));
        Reply::later()
    }

    /// Goes on with the work that waits, as far as it does not wait for objects.
    pub(crate) fn pump_rbd_support(&mut self, now: Instant, wall: UTime, effects: &mut Effects) {
        while self.rbd_support.waiting.is_none() {
            let Some(mut job) = self.rbd_support.queue.pop_front() else { return };
            match self.attempt(now, wall, &job) {
                Ok(plan) => {
                    let mut writes: VecDeque<ObjectRequest> = plan.writes.into();
                    let Some(first) = writes.pop_front() else {
                        self.make_change(wall, plan.change, effects);
                        continue;
                    };
                    // It is done but for its writes: what it read is of no use any more.
                    job.reads.clear();
                    self.rbd_support.queue.push_front(job);
                    let waiting = Waiting::Write(Box::new(plan.change), writes);
                    self.rbd_support.ask(first, waiting, effects);
                }
                Err(Stop::Missing(key)) => {
                    self.rbd_support.queue.push_front(job);
                    self.rbd_support.ask(key.request(), Waiting::Read(key), effects);
                }
                Err(Stop::Refused(errno, text)) => self.refuse(job.work, errno, text, effects),
            }
        }
    }

    fn attempt(&mut self, now: Instant, wall: UTime, job: &Job) -> Result<Plan, Stop> {
        let map = std::sync::Arc::clone(&self.committed.osdmap);
        let view = View { map: &map, reads: &job.reads };
        match &job.work {
            Work::Load => load(view),
            Work::Look(kind) => {
                let global = self.module_option(kind.option());
                let mut found = Schedules::look(*kind, view, global)?;
                let writes = mem::take(&mut found.stale);
                Ok(Plan { writes, change: Change::Found(*kind, found) })
            }
            Work::Command(command) => command.plan(view, now, wall, self),
            Work::Names(place) => Ok(Plan::of(Change::Names(place.clone(), perf::look_up(view, place)?))),
            Work::Write(request) => Ok(Plan { writes: vec![request.clone()], change: Change::Nothing }),
        }
    }

    fn refuse(&mut self, work: Work, errno: Errno, text: String, effects: &mut Effects) {
        match work {
            Work::Command(command) => {
                effects.push(self.answer_of(command.caller, Reply::fail(errno, text)));
            }
            other => tracing::warn!("rbd_support: {other:?}: {text}"),
        }
    }

    /// The answer to [`Effect::Objects`].
    pub(crate) fn on_objects_done(
        &mut self,
        wall: UTime,
        token: Token,
        result: Result<Bytes, Errno>,
        effects: &mut Effects,
    ) {
        // Answers to what was asked for before the lease was lost are nobody's.
        let Some((_, waiting)) = self.rbd_support.waiting.take_if(|(asked, _)| *asked == token) else {
            return;
        };
        match waiting {
            Waiting::Read(key) => {
                if let Some(job) = self.rbd_support.queue.front_mut() {
                    job.reads.insert(key, result);
                }
            }
            Waiting::Write(change, mut writes) => match result {
                Err(errno) if errno != Errno::ENOENT => {
                    let Some(job) = self.rbd_support.queue.pop_front() else { return };
                    let text = format!("[errno {}] RADOS error ({})", errno.0, errno.text());
                    self.refuse(job.work, errno, text, effects);
                }
                _ => match writes.pop_front() {
                    Some(next) => self.rbd_support.ask(next, Waiting::Write(change, writes), effects),
                    None => {
                        self.rbd_support.queue.pop_front();
                        self.make_change(wall, *change, effects);
                    }
                },
            },
        }
    }

    /// Work that is done changes what the module knows.
    fn make_change(&mut self, wall: UTime, change: Change, effects: &mut Effects) {
        let now = Minute::of(wall);
        match change {
            Change::Nothing => {}
            Change::Loaded(tasks) => tasks.into_iter().for_each(|task| self.rbd_support.tasks.add(task)),
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
                if self.rbd_support.tasks.cancel(task.sequence) {
                    effects.extend(self.rbd_support.runs.task().map(Effect::Kill));
                }
                effects.push(self.answer_of(caller, Reply::default()));
            }
            Change::SetSchedule(caller, kind, named, schedule) => {
                if named.level.pool.is_none() {
                    let text =
                        (!schedule.is_empty()).then(|| crate::format::python_sorted(&schedule.to_value()));
                    self.set_module_option(wall, kind.option(), text);
                }
                self.rbd_support.schedules(kind).set(now, named, schedule);
                effects.push(self.answer_of(caller, Reply::default()));
            }
        }
        self.start_runs(wall, effects);
    }

    /// An option of a module as the configuration database has it.
    pub(crate) fn module_option(&self, name: &str) -> Option<&str> {
        self.next.config.get("mgr")?.get(name).map(String::as_str)
    }
}
