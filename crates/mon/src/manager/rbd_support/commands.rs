//! The commands of the module (`rbd_support/module.py` of 16.2 says what they are called).

use std::collections::BTreeMap;

use auth::{MgrAccess, MgrCaps};
use serde_json::Value;
use types::{Errno, Instant, PoolId, UTime};

use super::{
    NOT_READY, TEXT_BYTES_MAX,
    add_task::{self, Wanted},
    perf::COUNTERS,
    pool_queues::QueueId,
    schedule::{Interval, Schedule, StartTime},
    schedules::{Found, Kind},
    spec::{ImageSpec, LevelSpec, NamedLevel},
    task::{self, Action, Task},
};
use crate::{
    Mon,
    commands::{Args, Reply, Request, Row},
    format::{python_line, python_sorted},
    manager::{
        Caller, MODULE_SERVICE,
        objects::{ObjectRequest, Place, Stop, View, remove_omap, set_omap},
    },
};

/// The command that changes something, although the right to read is enough for it.
const CANCEL: &str = "rbd task cancel";

macro_rules! rows {
    ($($sig:literal $perm:literal $help:literal)*) => {
        /// All answer later.
        pub(crate) const ROWS: &[Row] = &[$(Row {
            sig: $sig,
            help: $help,
            module: "mgr",
            perm: $perm,
            run: take,
        }),*];
    };
}

rows! {
    "rbd mirror snapshot schedule add name=level_spec,type=CephString name=interval,type=CephString name=start_time,type=CephString,req=false"
        "w" "Add rbd mirror snapshot schedule"
    "rbd mirror snapshot schedule remove name=level_spec,type=CephString name=interval,type=CephString,req=false name=start_time,type=CephString,req=false"
        "w" "Remove rbd mirror snapshot schedule"
    "rbd mirror snapshot schedule list name=level_spec,type=CephString,req=false"
        "r" "List rbd mirror snapshot schedule"
    "rbd mirror snapshot schedule status name=level_spec,type=CephString,req=false"
        "r" "Show rbd mirror snapshot schedule status"
    "rbd perf image stats name=pool_spec,type=CephString,req=false name=sort_by,type=CephChoices,strings=write_ops|write_bytes|write_latency|read_ops|read_bytes|read_latency,req=false"
        "r" "Retrieve current RBD IO performance stats"
    "rbd perf image counters name=pool_spec,type=CephString,req=false name=sort_by,type=CephChoices,strings=write_ops|write_bytes|write_latency|read_ops|read_bytes|read_latency,req=false"
        "r" "Retrieve current RBD IO performance counters"
    "rbd task add flatten name=image_spec,type=CephString"
        "w" "Flatten a cloned image asynchronously in the background"
    "rbd task add remove name=image_spec,type=CephString"
        "w" "Remove an image asynchronously in the background"
    "rbd task add trash remove name=image_id_spec,type=CephString"
        "w" "Remove an image from the trash asynchronously in the background"
    "rbd task add migration execute name=image_spec,type=CephString"
        "w" "Execute an image migration asynchronously in the background"
    "rbd task add migration commit name=image_spec,type=CephString"
        "w" "Commit an executed migration asynchronously in the background"
    "rbd task add migration abort name=image_spec,type=CephString"
        "w" "Abort a prepared migration asynchronously in the background"
    "rbd task cancel name=task_id,type=CephString"
        "r" "Cancel a pending or running asynchronous task"
    "rbd task list name=task_id,type=CephString,req=false"
        "r" "List pending or running asynchronous tasks"
    "rbd trash purge schedule add name=level_spec,type=CephString name=interval,type=CephString name=start_time,type=CephString,req=false"
        "w" "Add rbd trash purge schedule"
    "rbd trash purge schedule remove name=level_spec,type=CephString name=interval,type=CephString,req=false name=start_time,type=CephString,req=false"
        "w" "Remove rbd trash purge schedule"
    "rbd trash purge schedule list name=level_spec,type=CephString,req=false"
        "r" "List rbd trash purge schedule"
    "rbd trash purge schedule status name=level_spec,type=CephString,req=false"
        "r" "Show rbd trash purge schedule status"
}

/// A command that is worked on.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) caller: Caller,
    pub(super) queue: QueueId,
    args: Args,
    caps: MgrCaps,
    is_write: bool,
}

/// What work leads to: writes, and then a change of what the module knows.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) writes: Vec<ObjectRequest>,
    pub(super) change: Change,
}

/// What the module learns; the caller is answered with it.
#[derive(Debug)]
pub(super) enum Change {
    Nothing,
    /// The tasks that a pool keeps.
    Loaded(PoolId, Vec<Task>),
    /// A task is to run, if the image is still the same.
    Begin(Task, bool),
    Found(Kind, Found),
    Answer(Caller, Reply),
    /// The caller is answered, and from now on OSDs count what images do.
    CountImages(Caller, Reply),
    /// Images by their ids.
    Names(Place, BTreeMap<String, String>),
    AddTask(Caller, Task),
    CancelTask(Caller, Task),
    SetSchedule(Caller, Kind, NamedLevel, Schedule),
}

impl Plan {
    pub(super) fn of(change: Change) -> Plan {
        Plan { writes: Vec::new(), change }
    }
}

fn take(req: &mut Request<'_>) -> Reply {
    let Some(caller) = req.caller.cloned() else { return Reply::fail(Errno::EINVAL, "not here") };
    // It may wait for long, with many others.
    let sent: usize = caller.cmd().iter().map(String::len).sum();
    if sent.max(req.args.json_len()) > TEXT_BYTES_MAX {
        return Reply::fail(Errno::E2BIG, "the command is too long");
    }
    let row = ROWS.iter().find(|row| row.prefix_text() == req.args.prefix());
    // The right to read is enough at the manager, where capabilities must reach the task's pool, too. Those on the
    // monitor know no pools: there it takes the right to write.
    if matches!(caller, Caller::Mon { .. })
        && req.args.prefix() == CANCEL
        && !row.is_some_and(|row| req.mon.may_run_with(req.peer, row, "w", req.args))
    {
        return Reply::fail(Errno::EACCES, "access denied");
    }
    // A caller that asks the monitor had its capabilities checked there.
    let caps = match &caller {
        Caller::Mon { .. } => "allow *".to_owned(),
        Caller::Manager { .. } => req.mon.caps_of(req.peer, "mgr"),
    };
    let caps = MgrCaps::parse(&caps).unwrap_or_default().at(req.peer.ip);
    let is_write = row.is_some_and(Row::is_change);
    let queue = queue_of(req.mon, req.args, is_write);
    req.mon.take_rbd_command(Command { caller, queue, args: req.args.clone(), caps, is_write })
}

/// The pool that a command works in; none for what is answered without objects.
fn queue_of(mon: &Mon, args: &Args, is_write: bool) -> QueueId {
    let text = |name| args.text(name).unwrap_or_default();
    let prefix = args.prefix();
    let pool = if prefix.starts_with("rbd task add ") {
        let spec = args.text("image_spec").or_else(|| args.text("image_id_spec"))?;
        ImageSpec::parse(&spec).ok()?.pool
    } else if prefix == CANCEL {
        mon.rbd_support.tasks.by_id(&text("task_id"))?.refs.pool.clone()
    } else {
        let spec = text("level_spec");
        let (pool, below) = spec.split_once('/')?;
        (is_write || !below.is_empty()).then(|| pool.to_owned())?
    };
    mon.committed.osdmap.pool_by_name(&pool).map(|(id, _)| id)
}

impl Command {
    fn text(&self, name: &str) -> String {
        self.args.text(name).unwrap_or_default()
    }

    /// True for a command that adds a task.
    pub(super) fn adds_task(&self) -> bool {
        self.args.prefix().starts_with("rbd task add ")
    }

    /// Refuses what the sender's capabilities do not reach.
    fn check_may_touch(&self, pool: Option<&str>, nspace: Option<&str>) -> Result<(), Stop> {
        if self.may_touch(pool, nspace) {
            return Ok(());
        }
        let (pool, nspace) = (pool.unwrap_or_default(), nspace.unwrap_or_default());
        let text = format!("not authorized on pool={pool}, namespace={nspace}");
        Err(Stop::Refused(Errno::EACCES, text))
    }

    /// True when the sender's capabilities reach into a namespace, into all namespaces of a pool (none is named), or
    /// into all pools.
    fn may_touch(&self, pool: Option<&str>, nspace: Option<&str>) -> bool {
        // What is not named does not meet a limit, not even one to the namespace without a name.
        let named = [("pool", pool), ("namespace", nspace)].into_iter();
        let arguments: BTreeMap<String, String> =
            named.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        self.caps.allows(&MgrAccess {
            service: MODULE_SERVICE,
            module: "rbd_support",
            command: "",
            arguments: &arguments,
            read: !self.is_write,
            write: self.is_write,
            execute: false,
        })
    }

    /// What is to be done, given what was read so far.
    pub(super) fn plan(
        &self,
        view: View<'_>,
        now: Instant,
        wall: UTime,
        mon: &mut Mon,
    ) -> Result<Plan, Stop> {
        let prefix = self.args.prefix();
        match prefix.strip_prefix("rbd perf image ") {
            Some("stats") => return self.perf(view, now, wall, mon, "stat"),
            Some(_) => return self.perf(view, now, wall, mon, "counter"),
            None => {}
        }
        if let Some(verb) = prefix.strip_prefix("rbd trash purge schedule ") {
            return self.schedule(view, mon, Kind::TrashPurge, verb);
        }
        if let Some(verb) = prefix.strip_prefix("rbd mirror snapshot schedule ") {
            return self.schedule(view, mon, Kind::MirrorSnapshot, verb);
        }
        match prefix.strip_prefix("rbd task ").unwrap_or_default() {
            "add flatten" => self.add(view, mon, Action::Flatten),
            "add remove" => self.add(view, mon, Action::Remove),
            "add trash remove" => self.add(view, mon, Action::TrashRemove),
            "add migration execute" => self.add(view, mon, Action::MigrationExecute),
            "add migration commit" => self.add(view, mon, Action::MigrationCommit),
            "add migration abort" => self.add(view, mon, Action::MigrationAbort),
            "cancel" => self.cancel(view, mon),
            _ => self.list(mon),
        }
    }

    fn answer(&self, reply: Reply) -> Plan {
        Plan::of(Change::Answer(self.caller.clone(), reply))
    }

    fn show(&self, value: &Value) -> Plan {
        self.answer(Reply::module(python_sorted(value)))
    }

    fn perf(
        &self,
        view: View<'_>,
        now: Instant,
        wall: UTime,
        mon: &mut Mon,
        kind: &str,
    ) -> Result<Plan, Stop> {
        let spec = self.text("pool_spec");
        let (pool, nspace) = spec.split_once('/').unwrap_or((&spec, ""));
        if (pool.is_empty() && !spec.is_empty()) || nspace.contains('/') {
            return Err(Stop::Refused(Errno::EINVAL, format!("Invalid pool spec: {spec}")));
        }
        self.check_may_touch(Some(pool), Some(nspace))?;
        let mut within = (None, None);
        if !spec.is_empty() {
            let found = view.map.pool_by_name(pool).map(|(id, _)| id);
            let missing = || {
                Stop::Refused(
                    Errno::ENOENT,
                    format!("[errno 2] RADOS object not found (Pool '{pool}' not found)"),
                )
            };
            within = (Some(found.ok_or_else(missing)?), Some(nspace.to_owned()));
        }
        let sort_by = self.text("sort_by");
        let sort_by = COUNTERS.iter().position(|counter| *counter == sort_by).unwrap_or(0);
        let perf = &mut mon.rbd_support.perf;
        let is_new = perf.ask(now);
        let reply = Reply::module(python_line(&perf.report(view.map, wall, kind, &within, sort_by)));
        let caller = self.caller.clone();
        Ok(Plan::of(if is_new { Change::CountImages(caller, reply) } else { Change::Answer(caller, reply) }))
    }

    fn add(&self, view: View<'_>, mon: &mut Mon, action: Action) -> Result<Plan, Stop> {
        let argument = if action == Action::TrashRemove { "image_id_spec" } else { "image_spec" };
        let spec = ImageSpec::parse(&self.text(argument))?;
        self.check_may_touch(Some(&spec.pool), Some(&spec.nspace))?;
        let tasks = &mut mon.rbd_support.tasks;
        let (place, message, refs) = match add_task::wanted(view, tasks, action, &spec)? {
            Wanted::Known(task) => return Ok(self.answer(Reply::module(task.to_text()))),
            Wanted::New(place, message, refs) => (place, message, refs),
        };
        let sequence = tasks.take_sequence();
        let task = Task::new(sequence, mon.new_uuid(), message, refs);
        let write = set_omap(&place, task::OID, task.key(), task.to_text());
        Ok(Plan { writes: vec![write], change: Change::AddTask(self.caller.clone(), task) })
    }

    /// A task that the sender may know of.
    fn find<'a>(&self, mon: &'a Mon, id: &str) -> Result<&'a Task, Stop> {
        let task = mon.rbd_support.tasks.by_id(id);
        let task = task.filter(|task| self.may_touch(Some(&task.refs.pool), Some(&task.refs.nspace)));
        task.ok_or_else(|| match mon.rbd_support.queues.are_all_loaded() {
            true => Stop::Refused(Errno::ENOENT, format!("No such task {id}")),
            false => Stop::Refused(Errno::EAGAIN, NOT_READY.to_owned()),
        })
    }

    fn cancel(&self, view: View<'_>, mon: &Mon) -> Result<Plan, Stop> {
        let task = self.find(mon, &self.text("task_id"))?;
        let pool = view.map.pool_by_name(&task.refs.pool).map(|(pool, _)| pool);
        let place = pool.map(|pool| Place::new(pool, &task.refs.nspace));
        let writes =
            place.map(|place| remove_omap(&place, task::OID, vec![task.key()])).into_iter().collect();
        Ok(Plan { writes, change: Change::CancelTask(self.caller.clone(), task.clone()) })
    }

    fn list(&self, mon: &Mon) -> Result<Plan, Stop> {
        if let Some(id) = self.args.text("task_id").filter(|id| !id.is_empty()) {
            return Ok(self.show(&self.find(mon, &id)?.to_value()));
        }
        let tasks = mon.rbd_support.tasks.all();
        let visible = tasks.filter(|task| self.may_touch(Some(&task.refs.pool), Some(&task.refs.nspace)));
        Ok(self.show(&visible.map(Task::to_value).collect()))
    }

    fn schedule(&self, view: View<'_>, mon: &mut Mon, kind: Kind, verb: &str) -> Result<Plan, Stop> {
        let text = self.text("level_spec");
        let spec = LevelSpec::parse(&text, kind.levels())?;
        self.check_may_touch(spec.pool, spec.nspace)?;
        let named = NamedLevel::find(view, spec, kind.levels())?;
        let schedules = mon.rbd_support.schedules(kind);
        match verb {
            "list" => return Ok(self.show(&schedules.list(&named.level))),
            "status" => return Ok(self.show(&schedules.status(&named.level, view.map))),
            _ => {}
        }
        let interval = self.args.text("interval").map(|text| Interval::parse(&text)).transpose()?;
        let start = StartTime::parse(&self.text("start_time"))?;
        let mut schedule = schedules.get(&named.level).unwrap_or_default();
        match (verb, interval) {
            ("add", Some(_)) if schedule.is_full() => {
                let text = format!("Invalid level spec {text}: no more intervals fit into the schedule");
                return Err(Stop::Refused(Errno::EINVAL, text));
            }
            ("add", Some(interval)) => schedule.add(interval, start),
            (_, Some(interval)) => schedule.remove(interval, start),
            (_, None) => schedule = Schedule::default(),
        }
        let writes = schedules.save(&named.level, &schedule).into_iter().collect();
        Ok(Plan { writes, change: Change::SetSchedule(self.caller.clone(), kind, named, schedule) })
    }
}
