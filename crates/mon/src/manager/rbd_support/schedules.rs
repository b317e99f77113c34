//! The schedules of one kind, and what is due: trash is purged by pool and namespace, mirror snapshots are made by
//! image. Schedules are kept where Ceph keeps them: the one for everything as an option, others in an object of their
//! pool.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use types::{OsdMap, PoolId};

use super::{
    image,
    schedule::{Minute, Schedule},
    spec::{Level, Levels, NamedLevel},
};
use crate::{
    format::python_sorted,
    manager::objects::{ObjectRequest, Place, Stop, UnreadObjects, View, remove_omap, set_omap},
};

/// What is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    TrashPurge,
    MirrorSnapshot,
}

impl Kind {
    /// The object of a pool that keeps the schedules for what is in it.
    fn oid(self) -> &'static str {
        match self {
            Kind::TrashPurge => "rbd_trash_purge_schedule",
            Kind::MirrorSnapshot => "rbd_mirror_snapshot_schedule",
        }
    }

    /// The option that keeps the schedule for everything.
    pub(super) fn option(self) -> &'static str {
        match self {
            Kind::TrashPurge => "mgr/rbd_support/trash_purge_schedule",
            Kind::MirrorSnapshot => "mgr/rbd_support/mirror_snapshot_schedule",
        }
    }

    pub(super) fn levels(self) -> Levels {
        match self {
            Kind::TrashPurge => Levels::Namespaces,
            Kind::MirrorSnapshot => Levels::MirroredImages,
        }
    }
}

/// Pools of RBD.
pub(crate) fn rbd_pools(map: &OsdMap) -> Vec<PoolId> {
    let pools = map.pools.iter().filter(|(_, pool)| pool.application_metadata.contains_key("rbd"));
    pools.map(|(id, _)| *id).collect()
}

/// Schedules by level, with the level's name.
type ByLevel = BTreeMap<Level, (String, Schedule)>;

/// What a look at a pool found.
#[derive(Debug)]
pub(super) struct Found {
    pool: PoolId,
    by_level: ByLevel,
    targets: BTreeMap<Level, String>,
    /// Removals of the keys of schedules for what is gone.
    pub(super) stale: Vec<ObjectRequest>,
}

/// The schedules of one kind, and what comes due by them.
#[derive(Debug)]
pub(super) struct Schedules {
    pub(super) kind: Kind,
    by_level: ByLevel,
    /// What may be due, and how it is called.
    targets: BTreeMap<Level, String>,
    due: BTreeSet<(Minute, Level)>,
}

impl Schedules {
    pub(super) fn new(kind: Kind) -> Schedules {
        Schedules { kind, by_level: ByLevel::new(), targets: BTreeMap::new(), due: BTreeSet::new() }
    }

    pub(super) fn are_any(&self) -> bool {
        !self.by_level.is_empty()
    }

    /// Reads the schedules of a pool and what they are for.
    pub(super) fn look(&self, view: View<'_>, pool: PoolId) -> Result<Found, Stop> {
        let (kind, oid) = (self.kind, self.kind.oid());
        let place = Place::new(pool, "");
        let mut kept = view.omap(&place, oid)?;
        // A client that may write into this pool has no say in another. Such a key may also have come with a copy of
        // the other pool's objects.
        kept.retain(|id, _| Level::pool_of(id).is_none_or(|named| named == pool));
        let is_any = !kept.is_empty() || self.by_level.contains_key(&Level::default());
        let namespaces = if is_any { image::namespaces(view, pool)? } else { BTreeSet::new() };
        let mut missing = UnreadObjects::default();
        let mut named = Vec::new();
        for id in kept.keys() {
            named.extend(missing.pass(NamedLevel::from_id(view, id, kind.levels(), &namespaces))?);
        }
        missing.end()?;
        let targets = if is_any { look_for_targets(kind, view, pool, namespaces)? } else { BTreeMap::new() };
        // Everything was read: from here on the work does not begin again.
        let (mut by_level, mut gone, mut unreadable) = (ByLevel::new(), Vec::new(), Vec::new());
        for ((id, text), named) in kept.into_iter().zip(named) {
            let Some(named) = named else {
                gone.push(id);
                continue;
            };
            match Schedule::from_text(&String::from_utf8_lossy(&text)) {
                Some(schedule) => drop(by_level.insert(named.level, (named.name, schedule))),
                None => unreadable.push(id),
            }
        }
        if let Some(id) = unreadable.first() {
            let others = unreadable.len() - 1;
            tracing::error!("{oid} of pool {pool}: {id:?} and {others} others cannot be read");
        }
        let stale = if gone.is_empty() { Vec::new() } else { vec![remove_omap(&place, kind.oid(), gone)] };
        Ok(Found { pool, by_level, targets, stale })
    }

    /// Takes in what a look at a pool found.
    pub(super) fn refresh(&mut self, now: Minute, found: Found) {
        let is_other = |level: &Level| level.pool != Some(found.pool);
        let before: BTreeSet<Level> = self.targets.keys().cloned().collect();
        self.by_level.retain(|level, _| is_other(level));
        self.by_level.extend(found.by_level);
        self.targets.retain(|target, _| is_other(target));
        self.targets.extend(found.targets);
        self.due.retain(|(_, target)| self.targets.contains_key(target));
        let new: Vec<Level> = self.targets.keys().filter(|t| !before.contains(t)).cloned().collect();
        new.iter().for_each(|target| self.enqueue(now, target));
    }

    /// The schedule for everything, as the option has it.
    pub(super) fn set_global(&mut self, now: Minute, schedule: Option<Schedule>) {
        let schedule = schedule.unwrap_or_default();
        if self.get(&Level::default()).unwrap_or_default() != schedule {
            self.set(now, NamedLevel::default(), schedule);
        }
    }

    /// Forgets pools other than these.
    pub(super) fn retain(&mut self, pools: &[PoolId]) {
        let is_there = |level: &Level| level.pool.is_none_or(|pool| pools.contains(&pool));
        self.by_level.retain(|level, _| is_there(level));
        self.targets.retain(|target, _| is_there(target));
        self.due.retain(|(_, target)| is_there(target));
    }

    fn enqueue(&mut self, now: Minute, target: &Level) {
        let level = target.nearest(|level| self.by_level.contains_key(level));
        let schedule = level.and_then(|level| self.by_level.get(&level));
        let next = schedule.and_then(|(_, schedule)| schedule.next_run(now));
        // Only what is due later is queued, so that what is taken out of the queue is not due again at once.
        if let Some(at) = next.filter(|at| *at > now) {
            self.due.insert((at, target.clone()));
        }
    }

    /// Schedules changed; what is due already stays so.
    fn rebuild(&mut self, now: Minute) {
        self.due.retain(|(at, _)| *at <= now);
        for target in self.targets.keys().cloned().collect::<Vec<_>>() {
            self.enqueue(now, &target);
        }
    }

    /// What is due by now, with names; each is due again later.
    pub(super) fn take_due(&mut self, now: Minute) -> Vec<(Level, String)> {
        let mut out = Vec::new();
        while let Some((at, target)) = self.due.first().cloned().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, target.clone()));
            self.enqueue(now, &target);
            let name = self.targets.get(&target).cloned().unwrap_or_default();
            out.push((target, name));
        }
        out
    }

    /// A target is due now, if a schedule still holds for it: then true.
    pub(super) fn make_due(&mut self, now: Minute, target: Level) -> bool {
        let is_scheduled = self.targets.contains_key(&target)
            && target.nearest(|level| self.by_level.contains_key(level)).is_some();
        if is_scheduled {
            self.due.insert((now, target));
        }
        is_scheduled
    }

    /// The schedule of a level as it is.
    pub(super) fn get(&self, level: &Level) -> Option<Schedule> {
        self.by_level.get(level).map(|(_, schedule)| schedule.clone())
    }

    /// The write that keeps a schedule in its pool; none for the schedule of everything, which is an option.
    pub(super) fn save(&self, level: &Level, schedule: &Schedule) -> Option<ObjectRequest> {
        let place = Place::new(level.pool?, "");
        Some(if schedule.is_empty() {
            remove_omap(&place, self.kind.oid(), vec![level.id()])
        } else {
            set_omap(&place, self.kind.oid(), level.id(), python_sorted(&schedule.to_value()))
        })
    }

    /// Sets the schedule of a level; an empty one removes it.
    pub(super) fn set(&mut self, now: Minute, named: NamedLevel, schedule: Schedule) {
        if schedule.is_empty() {
            self.by_level.remove(&named.level);
        } else {
            self.by_level.insert(named.level, (named.name, schedule));
        }
        self.rebuild(now);
    }

    /// Schedules of a level and of all below it, or the one that holds for it.
    pub(super) fn list(&self, level: &Level) -> Value {
        let holds = level.nearest(|level| self.by_level.contains_key(level));
        let shown = self.by_level.iter().filter(|(at, _)| at.is_in(level) || Some(*at) == holds.as_ref());
        let show = |(at, (name, schedule)): (&Level, &(String, Schedule))| {
            (at.id(), json!({"name": name, "schedule": schedule.to_value()}))
        };
        Value::Object(shown.map(show).collect::<Map<_, _>>())
    }

    /// What comes when, in a level.
    pub(super) fn status(&self, level: &Level, map: &OsdMap) -> Value {
        let fits = |target: &Level| {
            let same =
                |a: &Option<String>, b: &Option<String>| a.as_ref().is_none_or(|a| a.is_empty()) || a == b;
            level.pool.is_none_or(|pool| Some(pool) == target.pool)
                && same(&level.nspace, &target.nspace)
                && same(&level.image, &target.image)
        };
        let due = self.due.iter().filter(|(_, target)| fits(target));
        match self.kind {
            Kind::TrashPurge => {
                let show = |(at, target): &(Minute, Level)| {
                    let pool = target.pool.unwrap_or_default();
                    json!({
                        "schedule_time": at.to_string(),
                        "pool_id": pool.0.to_string(),
                        "pool_name": map.pool_name(pool),
                        "namespace": target.nspace,
                    })
                };
                json!({"scheduled": due.map(show).collect::<Vec<_>>()})
            }
            Kind::MirrorSnapshot => {
                let show = |(at, target): &(Minute, Level)| json!({"schedule_time": at.to_string(), "image": self.targets.get(target)});
                json!({"scheduled_images": due.map(show).collect::<Vec<_>>()})
            }
        }
    }
}

/// What schedules of a pool may be for, with names.
fn look_for_targets(
    kind: Kind,
    view: View<'_>,
    pool: PoolId,
    namespaces: BTreeSet<String>,
) -> Result<BTreeMap<Level, String>, Stop> {
    let mut targets = BTreeMap::new();
    let mut missing = UnreadObjects::default();
    let pool_name = view.map.pool_name(pool).unwrap_or_default();
    for nspace in std::iter::once(String::new()).chain(namespaces) {
        let level = Level { pool: Some(pool), nspace: Some(nspace.clone()), image: None };
        match kind {
            Kind::TrashPurge => {
                targets.insert(level, pool_name.to_owned());
            }
            Kind::MirrorSnapshot => {
                let found = missing.pass(image::mirrored_primaries(view, &Place::new(pool, &nspace)))?;
                for (id, name) in found.into_iter().flatten() {
                    let parts = [pool_name, nspace.as_str(), name.as_str()];
                    let shown: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                    targets.insert(Level { image: Some(id), ..level.clone() }, shown.join("/"));
                }
            }
        }
    }
    missing.end()?;
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::rbd_support::schedule::Interval;

    fn level(pool: i64, nspace: Option<&str>) -> Level {
        Level { pool: Some(PoolId(pool)), nspace: nspace.map(str::to_owned), image: None }
    }

    #[test]
    fn the_nearest_schedule_holds_and_runs_come_again() {
        let mut schedules = Schedules::new(Kind::TrashPurge);
        for (pool, name) in [(2, "p"), (3, "q")] {
            let targets = [(level(pool, Some("")), name.to_owned())].into();
            let pool = PoolId(pool);
            let found = Found { pool, by_level: ByLevel::new(), targets, stale: Vec::new() };
            schedules.refresh(Minute(0), found);
        }
        assert_eq!(schedules.take_due(Minute(100_000)), []);
        let add = |schedules: &mut Schedules, level: Level, name: &str, interval: &str| {
            let mut schedule = schedules.get(&level).unwrap_or_default();
            schedule.add(Interval::parse(interval).unwrap(), None);
            let name = name.to_owned();
            schedules.set(Minute(0), NamedLevel { level, name }, schedule);
        };
        add(&mut schedules, Level::default(), "", "1d");
        add(&mut schedules, level(2, None), "p/", "10m");
        let ids = |found: Vec<(Level, String)>| found.into_iter().map(|(l, _)| l.id()).collect::<Vec<_>>();
        assert_eq!(ids(schedules.take_due(Minute(10))), ["2/"]);
        assert_eq!(ids(schedules.take_due(Minute(10))), [""; 0]);
        assert_eq!(ids(schedules.take_due(Minute(1440))), ["2/", "3/"]);
        let listed = schedules.list(&level(3, None));
        assert_eq!(listed.as_object().unwrap().keys().collect::<Vec<_>>(), [""]);
        assert_eq!(schedules.list(&Level::default()).as_object().unwrap().len(), 2);
        let status =
            schedules.status(&level(2, None), &OsdMap::clone(&crate::state::State::default().osdmap));
        assert_eq!(status["scheduled"][0]["schedule_time"], "1970-01-02 00:10:00");
        // A pool without a schedule of its own follows the one for everything.
        let none = Schedule::default();
        schedules.set(Minute(1440), NamedLevel { level: level(2, None), name: "p/".into() }, none);
        assert_eq!(ids(schedules.take_due(Minute(2879))), [""; 0]);
        assert_eq!(ids(schedules.take_due(Minute(2880))), ["2/", "3/"]);
    }
}
