//! The manager's module `balancer`: how evenly PGs, objects and bytes lie on the OSDs, and upmaps that make it more
//! even, by plans that an operator orders or by itself.
//!
//! Authority: `pybind/mgr/balancer/module.py` (16.2), whose words and limits these are. Of its modes there is `upmap`.

mod score;
mod upmap;

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use types::{Errno, Incremental, Instant, OsdMap, PgId, PgState, PoolId, Release, UTime};

use self::{score::score_of, upmap::Pair};
use crate::{
    Mon,
    commands::{Reply, Request},
    format::python_sorted,
};

module_rows! {
    "balancer status" "r" "Show balancer status" status
    "balancer mode name=mode,type=CephChoices,strings=none|crush-compat|upmap" "rw" "Set balancer mode" mode
    "balancer on" "rw" "Enable automatic balancing" on
    "balancer off" "rw" "Disable automatic balancing" off
    "balancer pool ls" "r" "List automatic balancing pools. Note that empty list means all existing pools will be automatic balancing targets, which is the default behaviour of balancer." pool_ls
    "balancer eval name=option,type=CephString,req=false"
        "r" "Evaluate data distribution for the current cluster or specific pool or specific plan" eval
    "balancer ls" "r" "List all plans" ls
    "balancer optimize name=plan,type=CephString name=pools,type=CephString,n=N,req=false"
        "rw" "Run optimizer to create a new plan" optimize
    "balancer show name=plan,type=CephString" "r" "Show details of an optimization plan" show
    "balancer dump name=plan,type=CephString" "r" "Show an optimization plan" dump
    "balancer execute name=plan,type=CephString" "rw" "Execute an optimization plan" execute
    "balancer rm name=plan,type=CephString" "rw" "Discard an optimization plan" rm
    "balancer reset" "rw" "Discard all optimization plans" reset
}

/// The module's options, as the configuration database has them.
const ACTIVE: &str = "mgr/balancer/active";
const MODE: &str = "mgr/balancer/mode";
const SLEEP: &str = "mgr/balancer/sleep_interval";
const DEVIATION: &str = "mgr/balancer/upmap_max_deviation";
const CHANGES: &str = "mgr/balancer/upmap_max_optimizations";

/// The part of all copies that may be misplaced when more are moved (`target_max_misplaced_ratio`).
const MISPLACED_MAX: f64 = 0.05;

/// The moves that one look considers, which takes less than a second: the monitor does nothing else meanwhile. In a
/// large cluster that cannot be more even there may be more. Those that help most come first, a domain that can take no
/// copy of an OSD is considered once for it, and the next look begins with another pool.
const MOVES_MAX: usize = 1 << 21;

const NOTHING_BETTER: &str = "Unable to find further optimization, or pool(s) pg_num is decreasing, or \
                              distribution is already perfect";
const CREATED: &str = "Optimization plan created successfully";

/// Upmaps to make, change or drop.
#[derive(Debug)]
struct Plan {
    epoch: u32,
    pools: Vec<PoolId>,
    changes: BTreeMap<PgId, Vec<Pair>>,
}

/// What came of the last look.
#[derive(Debug, Default)]
struct Look {
    started: String,
    took: Duration,
    result: String,
    is_even: bool,
}

/// The balancer's plans, and what came of its looks: both are gone after a restart, as with Ceph.
#[derive(Debug, Default)]
pub(crate) struct Balancer {
    plans: BTreeMap<String, Plan>,
    last: Look,
    /// The pool that the last look began with.
    first: PoolId,
    due: Option<Instant>,
}

impl Mon {
    fn balancer_mode(&self) -> String {
        self.module_option(MODE).unwrap_or_else(|| "upmap".to_owned())
    }

    fn is_balancing(&self) -> bool {
        self.module_option(ACTIVE).as_deref() != Some("false")
    }

    fn balancer_number(&self, name: &str, default: f64) -> f64 {
        self.module_option(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    /// Once in a while looks for copies to move, and moves them.
    pub(crate) fn tick_balancer(&mut self, now: Instant, wall: UTime) {
        let sleep = Duration::try_from_secs_f64(self.balancer_number(SLEEP, 60.0)).unwrap_or_default();
        if self.balancer.due.is_some_and(|due| now < due) {
            return;
        }
        let is_first = self.balancer.due.replace(now + sleep).is_none();
        // A monitor that has just begun knows nothing of the PGs yet.
        let is_settled = self.next.osdmap.epoch == self.committed.osdmap.epoch;
        if is_first || !is_settled || !self.is_balancing() || self.balancer_mode() != "upmap" {
            return;
        }
        let mut pools: Vec<PoolId> = self.committed.osdmap.pools.keys().copied().collect();
        // The next pool comes first, so that a pool with always something to move does not keep the others from their
        // turn.
        let next = pools.partition_point(|pool| *pool <= self.balancer.first);
        pools.rotate_left(next);
        self.balancer.first = pools.first().copied().unwrap_or_default();
        if let Ok(plan) = self.look(wall, pools) {
            self.change_osdmap(wall, |map, inc| plan.write(map, inc));
        }
    }

    /// A plan for these pools, and if there is none, why not.
    fn look(&mut self, wall: UTime, pools: Vec<PoolId>) -> Result<Plan, (Errno, String)> {
        let plan = self.plan(pools);
        let (result, is_even) = match &plan {
            Ok(_) => (CREATED.to_owned(), false),
            Err((errno, why)) => (why.clone(), *errno == Errno::EALREADY),
        };
        // The state machine's clock does not move during a call.
        self.balancer.last = Look { started: wall.asctime(), took: Duration::ZERO, result, is_even };
        plan
    }

    fn plan(&self, pools: Vec<PoolId>) -> Result<Plan, (Errno, String)> {
        let map = &self.committed.osdmap;
        if map.require_min_compat_client < Release::LUMINOUS {
            let name = map.require_min_compat_client.name();
            let why = format!(
                "min_compat_client \"{name}\" < \"luminous\", which is required for pg-upmap. Try \"ceph osd \
                 set-require-min-compat-client luminous\" before using this mode"
            );
            return Err((Errno::EPERM, why));
        }
        self.may_move(map)?;
        let deviation = self.balancer_number(DEVIATION, 5.0).max(1.0);
        let mut left = self.balancer_number(CHANGES, 10.0) as usize;
        let (mut changes, mut moves_left) = (BTreeMap::new(), MOVES_MAX);
        for pool in &pools {
            let found = upmap::plan(map, *pool, deviation, left, &mut moves_left);
            left -= found.len();
            changes.extend(found);
        }
        if changes.is_empty() {
            return Err((Errno::EALREADY, NOTHING_BETTER.to_owned()));
        }
        Ok(Plan { epoch: map.epoch.0, pools, changes })
    }

    /// Refuses to move anything while copies lack something, or many are on their way.
    fn may_move(&self, map: &OsdMap) -> Result<(), (Errno, String)> {
        let (mut all, mut unknown, mut inactive) = (0u32, 0u32, 0u32);
        for pg in map.pgs() {
            all += 1;
            match self.stats.pg(pg) {
                None => unknown += 1,
                Some(stat) if !stat.state.has(PgState::ACTIVE) => inactive += 1,
                Some(_) => {}
            }
        }
        let part = |count: f64, of: f64| if of > 0.0 { count / of } else { 0.0 };
        let total = self.stats.total();
        let copies = total.object_copies as f64;
        let (unknown, inactive) = (f64::from(unknown), f64::from(inactive));
        let (degraded, misplaced) = (total.degraded as f64, total.misplaced as f64);
        let unready = [
            ("PGs", part(unknown, all.into()), "unknown"),
            ("objects", part(degraded, copies), "degraded"),
            ("PGs", part(inactive, all.into()), "inactive"),
        ];
        if let Some((of, part, what)) = unready.into_iter().find(|(_, part, _)| *part > 0.0) {
            return Err((Errno::EAGAIN, format!("Some {of} ({part:.6}) are {what}; try again later")));
        }
        let misplaced = part(misplaced, copies);
        if misplaced >= MISPLACED_MAX {
            let why = format!(
                "Too many objects ({misplaced:.6} > {MISPLACED_MAX:.6}) are misplaced; try again later"
            );
            return Err((Errno::EAGAIN, why));
        }
        Ok(())
    }
}

impl Plan {
    /// Writes the plan as a change of the map, as far as its PGs still exist.
    fn write(&self, map: &OsdMap, inc: &mut Incremental) {
        for (pg, pairs) in self.changes.iter().filter(|(pg, _)| map.pg_exists(**pg)) {
            if pairs.is_empty() {
                inc.old_pg_upmap_items.insert(*pg);
            } else {
                inc.new_pg_upmap_items.insert(*pg, pairs.clone());
            }
        }
    }

    /// The map with its changes.
    fn applied(&self, map: &OsdMap) -> OsdMap {
        let mut map = map.clone();
        for (pg, pairs) in &self.changes {
            map.pg_upmap_items.remove(pg);
            if !pairs.is_empty() {
                map.pg_upmap_items.insert(*pg, pairs.clone());
            }
        }
        map
    }
}

fn status(req: &mut Request<'_>) -> Reply {
    let (mon, last) = (&req.mon, &req.mon.balancer.last);
    let took =
        if last.started.is_empty() { String::new() } else { format!("0:00:00.{:06}", last.took.as_micros()) };
    let out = json!({
        "active": mon.is_balancing(),
        "last_optimize_duration": took,
        "last_optimize_started": last.started,
        "mode": mon.balancer_mode(),
        "no_optimization_needed": last.is_even,
        "optimize_result": last.result,
        "plans": mon.balancer.plans.keys().collect::<Vec<_>>(),
    });
    Reply::module(python_sorted(&out))
}

fn set_option(req: &mut Request<'_>, name: &str, value: &str) {
    req.mon.set_module_option(req.wall, name, Some(value.to_owned()));
}

fn mode(req: &mut Request<'_>) -> Reply {
    match req.args.text("mode").as_deref() {
        Some(mode @ ("none" | "upmap")) => {
            set_option(req, MODE, mode);
            Reply::default()
        }
        _ => Reply::fail(Errno::EOPNOTSUPP, "weight sets are not changed by this manager; use mode upmap"),
    }
}

fn on(req: &mut Request<'_>) -> Reply {
    set_option(req, ACTIVE, "true");
    Reply::default()
}

fn off(req: &mut Request<'_>) -> Reply {
    set_option(req, ACTIVE, "false");
    Reply::default()
}

fn pool_ls(_: &mut Request<'_>) -> Reply {
    Reply::default()
}

fn ls(req: &mut Request<'_>) -> Reply {
    let names: Vec<&String> = req.mon.balancer.plans.keys().collect();
    Reply::module(python_sorted(&json!(names)))
}

fn optimize(req: &mut Request<'_>) -> Reply {
    if req.mon.is_balancing() {
        return Reply::fail(Errno::EINVAL, "Balancer enabled, disable to optimize manually");
    }
    let map = &req.mon.committed.osdmap;
    let names = req.args.list("pools");
    let mut pools: Vec<PoolId> = names.iter().filter_map(|name| Some(map.pool_by_name(name)?.0)).collect();
    let unknown: Vec<String> = names
        .iter()
        .filter(|name| map.pool_by_name(name).is_none())
        .map(|name| format!("'{name}'"))
        .collect();
    if !unknown.is_empty() {
        return Reply::fail(Errno::EINVAL, format!("pools [{}] not found", unknown.join(", ")));
    }
    if names.is_empty() {
        pools = map.pools.keys().copied().collect();
    }
    let name = req.args.text("plan").unwrap_or_default();
    if req.mon.balancer_mode() == "none" {
        return Reply::fail(Errno::ENOEXEC, "Please do \"ceph balancer mode\" to choose a valid mode first");
    }
    match req.mon.look(req.wall, pools) {
        Ok(plan) => {
            req.mon.balancer.plans.insert(name, plan);
            Reply::default()
        }
        Err((errno, why)) => {
            req.mon.balancer.plans.remove(&name);
            Reply::fail(errno, why)
        }
    }
}

/// The plan that a command names.
fn plan_of<'a>(req: &'a Request<'_>) -> Result<&'a Plan, Reply> {
    let name = req.args.text("plan").unwrap_or_default();
    let plan = req.mon.balancer.plans.get(&name);
    plan.ok_or_else(|| Reply::fail(Errno::ENOENT, format!("plan {name} not found")))
}

fn show(req: &mut Request<'_>) -> Reply {
    let plan = match plan_of(req) {
        Ok(plan) => plan,
        Err(reply) => return reply,
    };
    let version = req.mon.committed.osdmap.crush_version;
    let mut lines = vec![
        format!("# starting osdmap epoch {}", plan.epoch),
        format!("# starting crush version {version}"),
        "# mode upmap".to_owned(),
    ];
    let (gone, set): (Vec<_>, Vec<_>) = plan.changes.iter().partition(|(_, pairs)| pairs.is_empty());
    lines.extend(gone.iter().map(|(pg, _)| format!("ceph osd rm-pg-upmap-items {pg}")));
    lines.extend(set.iter().map(|(pg, pairs)| {
        let pairs: Vec<String> = pairs.iter().map(|(from, to)| format!("{from} {to}")).collect();
        format!("ceph osd pg-upmap-items {pg} {}", pairs.join(" "))
    }));
    Reply::module(lines.join("\n"))
}

fn dump(req: &mut Request<'_>) -> Reply {
    let plan = match plan_of(req) {
        Ok(plan) => plan,
        Err(reply) => return reply,
    };
    let (gone, set): (Vec<_>, Vec<_>) = plan.changes.iter().partition(|(_, pairs)| pairs.is_empty());
    let mapping = |(from, to): &Pair| json!({"from": from.0, "to": to.0});
    let item = |(pg, pairs): &(&PgId, &Vec<Pair>)| json!({"pgid": pg.to_string(), "mappings": pairs.iter().map(mapping).collect::<Vec<Value>>()});
    let out = json!({
        "epoch": plan.epoch + 1,
        "new_pg_upmap_items": set.iter().map(item).collect::<Vec<Value>>(),
        "old_pg_upmap_items": gone.iter().map(|(pg, _)| pg.to_string()).collect::<Vec<String>>(),
    });
    Reply::module(python_sorted(&out))
}

fn execute(req: &mut Request<'_>) -> Reply {
    if req.mon.is_balancing() {
        return Reply::fail(Errno::EINVAL, "Balancer enabled, disable to execute a plan");
    }
    if let Err(reply) = plan_of(req) {
        return reply;
    }
    let name = req.args.text("plan").unwrap_or_default();
    if let Some(plan) = req.mon.balancer.plans.remove(&name) {
        req.mon.change_osdmap(req.wall, |map, inc| plan.write(map, inc));
    }
    Reply::default()
}

fn rm(req: &mut Request<'_>) -> Reply {
    let name = req.args.text("plan").unwrap_or_default();
    req.mon.balancer.plans.remove(&name);
    Reply::default()
}

fn reset(req: &mut Request<'_>) -> Reply {
    req.mon.balancer.plans.clear();
    Reply::default()
}

fn eval(req: &mut Request<'_>) -> Reply {
    let map = &req.mon.committed.osdmap;
    let show = |what: String, map: &OsdMap, pools: &[PoolId]| {
        Reply::module(format!("{what} score {:.6} (lower is better)", score_of(req.mon, map, pools)))
    };
    let Some(option) = req.args.text("option").filter(|option| !option.is_empty()) else {
        let pools: Vec<PoolId> = map.pools.keys().copied().collect();
        return show("current cluster".to_owned(), map, &pools);
    };
    if let Some(plan) = req.mon.balancer.plans.get(&option) {
        return show(format!("plan {option} final"), &plan.applied(map), &plan.pools);
    }
    match map.pool_by_name(&option) {
        Some((pool, _)) => show(format!("pool \"{option}\""), map, &[pool]),
        None => Reply::fail(Errno::EINVAL, format!("option \"{option}\" not a plan or a pool")),
    }
}

/// False for what no option of this module can be set to, though the table of options has such values.
pub(crate) fn may_be(name: &str, value: &str) -> bool {
    match name {
        MODE => matches!(value, "none" | "upmap"),
        SLEEP | DEVIATION | CHANGES => value.parse::<u32>().is_ok(),
        _ => true,
    }
}
