//! Health checks, with Ceph's codes.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use types::{AutoscaleMode, MapFlags, OsdId, OsdState, PgState, PoolFlags, UTime};

use crate::Mon;

mod keys;
mod scrubs;
mod slow_ops;

/// Crashes in the details of the check.
const CRASHES_SHOWN: usize = 30;

/// How grave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Ok,
    Warn,
    Err,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Severity::Ok => "HEALTH_OK",
            Severity::Warn => "HEALTH_WARN",
            Severity::Err => "HEALTH_ERR",
        }
    }

    fn tag(self) -> &'static str {
        match self {
            Severity::Ok => "[INF]",
            Severity::Warn => "[WRN]",
            Severity::Err => "[ERR]",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) severity: Severity,
    pub(crate) summary: String,
    pub(crate) count: usize,
    pub(crate) detail: Vec<String>,
}

/// All that is wrong, by code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) checks: BTreeMap<&'static str, Check>,
    /// Codes that are muted.
    pub(crate) muted: BTreeMap<String, UTime>,
}

impl Health {
    fn add(&mut self, code: &'static str, severity: Severity, summary: String, detail: Vec<String>) {
        let count = detail.len().max(1);
        self.checks.insert(code, Check { severity, summary, count, detail });
    }

    /// True when the check is raised, muted or not.
    pub(crate) fn has(&self, code: &str) -> bool {
        self.checks.contains_key(code)
    }

    fn active(&self) -> impl Iterator<Item = (&&'static str, &Check)> {
        self.checks.iter().filter(|(code, _)| !self.muted.contains_key(**code))
    }

    pub(crate) fn status(&self) -> Severity {
        self.active().map(|(_, check)| check.severity).max().unwrap_or(Severity::Ok)
    }

    pub(crate) fn json(&self, with_detail: bool) -> Value {
        let mut checks = serde_json::Map::new();
        for (code, check) in &self.checks {
            let mut entry = json!({
                "severity": check.severity.name(),
                "summary": {"message": check.summary, "count": check.count},
            });
            if with_detail {
                let detail: Vec<Value> = check.detail.iter().map(|line| json!({"message": line})).collect();
                entry["detail"] = detail.into();
            }
            entry["muted"] = self.muted.contains_key(*code).into();
            checks.insert((*code).to_owned(), entry);
        }
        let mutes: Vec<Value> =
            self.muted.keys().map(|code| json!({"code": code, "sticky": false})).collect();
        json!({"status": self.status().name(), "checks": checks, "mutes": mutes})
    }

    /// `HEALTH_WARN 1 osds down; …`, with details behind.
    pub(crate) fn text(&self, with_detail: bool) -> String {
        let mut out = self.status().name().to_owned();
        let summaries: Vec<&str> = self.active().map(|(_, check)| check.summary.as_str()).collect();
        if !summaries.is_empty() {
            out = format!("{out} {}", summaries.join("; "));
        }
        if !self.muted.is_empty() {
            let codes: Vec<&str> = self.muted.keys().map(String::as_str).collect();
            out = format!("{out} (muted: {})", codes.join(" "));
        }
        if with_detail {
            for (code, check) in &self.checks {
                let muted = if self.muted.contains_key(*code) { "(MUTED) " } else { "" };
                out.push_str(&format!("\n{muted}{} {code}: {}", check.severity.tag(), check.summary));
                out.extend(check.detail.iter().map(|line| format!("\n    {line}")));
            }
        }
        out + "\n"
    }

    /// The lines of `ceph -s`.
    pub(crate) fn summary_lines(&self) -> Vec<String> {
        let mut out = vec![self.status().name().to_owned()];
        out.extend(self.active().map(|(_, check)| check.summary.clone()));
        if !self.muted.is_empty() {
            let codes: Vec<&str> = self.muted.keys().map(String::as_str).collect();
            out.push(format!("(muted: {})", codes.join(" ")));
        }
        out
    }
}

/// `7/30 objects degraded (23.333%)`.
pub(crate) fn ratio_text(part: u64, whole: u64, what: &str) -> String {
    let percent = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    format!("{part}/{whole} objects {what} ({percent:.3}%)")
}

impl Mon {
    /// Everything that is wrong at this moment.
    pub(crate) fn health(&self) -> Health {
        let mut health = Health::default();
        self.check_osds(&mut health);
        self.check_flags(&mut health);
        self.check_group_flags(&mut health);
        self.check_scrub_flags(&mut health);
        self.check_ratios(&mut health);
        self.check_space(&mut health);
        self.check_pools(&mut health);
        self.check_pg_nums(&mut health);
        self.check_pgs(&mut health);
        self.check_scrubs(&mut health);
        self.check_slow_ops(&mut health);
        self.check_crashes(&mut health);
        self.check_keys(&mut health);
        let codes = self.committed.mutes.iter().filter(|(code, _)| health.checks.contains_key(code.as_str()));
        health.muted = codes.map(|(code, until)| (code.clone(), *until)).collect();
        health
    }

    fn check_crashes(&self, health: &mut Health) {
        let mut detail = self.recent_crashes(self.wall);
        if detail.is_empty() {
            return;
        }
        let count = detail.len();
        if count > CRASHES_SHOWN {
            detail.truncate(CRASHES_SHOWN);
            detail.push(format!("and {} more", count - CRASHES_SHOWN));
        }
        let summary = format!("{count} daemons have recently crashed");
        health.checks.insert("RECENT_CRASH", Check { severity: Severity::Warn, summary, count, detail });
    }

    fn check_osds(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let crush = map.crush.map();
        if map.num_osds() < usize::from(self.options.pool_size) {
            let text =
                format!("OSD count {} < osd_pool_default_size {}", map.num_osds(), self.options.pool_size);
            health.add("TOO_FEW_OSDS", Severity::Warn, text, Vec::new());
        }
        let place = |id: i32| {
            let place = crush.location(id).into_iter().rev().map(|(kind, name)| format!("{kind}={name}"));
            place.collect::<Vec<_>>().join(",")
        };
        let down: Vec<OsdId> = map.osds().filter(|osd| map.is_down(*osd) && map.is_in(*osd)).collect();
        if !down.is_empty() {
            let detail = down.iter().map(|osd| format!("osd.{osd} ({}) is down", place(osd.0))).collect();
            health.add("OSD_DOWN", Severity::Warn, format!("{} osds down", down.len()), detail);
        }
        let hosts = crush.all_buckets().filter(|b| b.kind == 1 && !crush.is_shadow(b.id));
        let mut detail = Vec::new();
        let mut osds_down = 0;
        for host in hosts {
            let mut devices = Vec::new();
            crush.devices_below(host.id, &mut devices);
            let osds: Vec<OsdId> = devices.into_iter().map(OsdId).filter(|osd| map.is_in(*osd)).collect();
            if !osds.is_empty() && osds.iter().all(|osd| map.is_down(*osd)) {
                let name = crush.names.get(&host.id).map_or("", String::as_str);
                osds_down += osds.len();
                detail.push(format!("host {name} ({}) ({} osds) is down", place(host.id), osds.len()));
            }
        }
        if !detail.is_empty() {
            let text = format!("{} host{} ({osds_down} osds) down", detail.len(), plural(detail.len()));
            health.add("OSD_HOST_DOWN", Severity::Warn, text, detail);
        }
    }

    fn check_flags(&self, health: &mut Health) {
        let flags = self.committed.osdmap.flags;
        let usual = MapFlags::PACIFIC;
        let worth_saying = flags.without(usual).without(MapFlags(1 << 16 | 1 << 17 | 1 << 18));
        if worth_saying != MapFlags(0) {
            health.add("OSDMAP_FLAGS", Severity::Warn, format!("{worth_saying} flag(s) set"), Vec::new());
        }
    }

    fn check_group_flags(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let crush = map.crush.map();
        let of_osd = |osd| OsdState(map.state(osd).0 & OsdState::GROUP.0);
        let osds = map.osds().map(|osd| (format!("osd.{osd}"), of_osd(osd)));
        let name = |names: &BTreeMap<i32, String>, id| names.get(id).cloned().unwrap_or_default();
        let nodes = map.crush_node_flags.iter().map(|(id, flags)| (name(&crush.names, id), *flags));
        let classes = map.device_class_flags.iter();
        let classes =
            classes.map(|(id, flags)| (format!("device class '{}'", name(&crush.class_names, id)), *flags));
        let detail: Vec<String> = (osds.chain(nodes).chain(classes))
            .filter(|(_, flags)| *flags != OsdState::default())
            .map(|(who, flags)| format!("{who} has flags {flags}"))
            .collect();
        if !detail.is_empty() {
            let count = detail.len();
            let text = format!(
                "{count} OSDs or CRUSH {{nodes, device-classes}} have {{NOUP,NODOWN,NOIN,NOOUT}} flags set"
            );
            health.add("OSD_FLAGS", Severity::Warn, text, detail);
        }
    }

    /// Ratios that contradict each other.
    fn check_ratios(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let mut detail = Vec::new();
        let mut below = |small: f32, small_name: &str, large: f32, large_name: &str| {
            if small > large {
                detail.push(format!("{small_name} ({small}) > {large_name} ({large}), increased"));
            }
        };
        below(map.nearfull_ratio, "nearfull_ratio", map.backfillfull_ratio, "backfillfull_ratio");
        below(map.backfillfull_ratio, "backfillfull_ratio", map.full_ratio, "full_ratio");
        if !detail.is_empty() {
            health.add(
                "OSD_OUT_OF_ORDER_FULL",
                Severity::Err,
                "full ratio(s) out of order".to_owned(),
                detail,
            );
        }
    }

    /// Pools that operators keep from being scrubbed.
    fn check_scrub_flags(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let (mut detail, mut all) = (Vec::new(), PoolFlags::default());
        for (id, pool) in &map.pools {
            for flag in [PoolFlags::NOSCRUB, PoolFlags::NODEEP_SCRUB] {
                if pool.flags.has(flag) {
                    all |= flag;
                    detail.push(format!("Pool {} has {flag} flag", map.pool_name(*id).unwrap_or_default()));
                }
            }
        }
        if !detail.is_empty() {
            let names: Vec<&str> = all.names().collect();
            let text = format!("Some pool(s) have the {} flag(s) set", names.join(", "));
            health.add("POOL_SCRUB_FLAGS", Severity::Ok, text, detail);
        }
    }

    fn check_space(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let (mut full, mut backfill, mut near) = (Vec::new(), Vec::new(), Vec::new());
        for osd in map.osds().filter(|osd| map.is_up(*osd)) {
            let Some(stat) = self.stats.osd(osd).filter(|stat| stat.kb > 0) else { continue };
            let used = (stat.kb - stat.kb_avail.min(stat.kb)) as f32 / stat.kb as f32;
            if used >= map.full_ratio {
                full.push(format!("osd.{osd} is full"));
            } else if used >= map.backfillfull_ratio {
                backfill.push(format!("osd.{osd} is backfill full"));
            } else if used >= map.nearfull_ratio {
                near.push(format!("osd.{osd} is near full"));
            }
        }
        if !full.is_empty() {
            health.add("OSD_FULL", Severity::Err, format!("{} full osd(s)", full.len()), full);
        }
        if !backfill.is_empty() {
            health.add(
                "OSD_BACKFILLFULL",
                Severity::Warn,
                format!("{} backfillfull osd(s)", backfill.len()),
                backfill,
            );
        }
        if !near.is_empty() {
            health.add("OSD_NEARFULL", Severity::Warn, format!("{} nearfull osd(s)", near.len()), near);
        }
    }

    fn check_pools(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let (mut no_app, mut full, mut lone) = (Vec::new(), Vec::new(), Vec::new());
        for (id, pool) in &map.pools {
            let name = map.pool_name(*id).unwrap_or_default();
            if pool.application_metadata.is_empty() && self.stats.pool_sum(*id).objects > 0 {
                no_app.push(format!("application not enabled on pool '{name}'"));
            }
            if pool.flags.has(PoolFlags::FULL) {
                let why = if pool.flags.has(PoolFlags::FULL_QUOTA) { " (running out of quota)" } else { "" };
                full.push(format!("pool '{name}' is full{why}"));
            }
            if pool.size == 1 {
                lone.push(format!("pool '{name}' has no replicas configured"));
            }
        }
        if !no_app.is_empty() {
            let text = format!("application not enabled on {} pool(s)", no_app.len());
            no_app.push("use 'ceph osd pool application enable <pool-name> <app-name>', where <app-name> is 'cephfs', 'rbd', 'rgw', or freeform for custom applications.".to_owned());
            health.add("POOL_APP_NOT_ENABLED", Severity::Warn, text, no_app);
        }
        if !full.is_empty() {
            health.add("POOL_FULL", Severity::Warn, format!("{} pool(s) full", full.len()), full);
        }
        if !lone.is_empty() {
            health.add(
                "POOL_NO_REDUNDANCY",
                Severity::Warn,
                format!("{} pool(s) have no replicas configured", lone.len()),
                lone,
            );
        }
    }

    /// What the autoscaler would change of pools that it is to warn of.
    fn check_pg_nums(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        if !map.pools.values().any(|pool| pool.pg_autoscale_mode == AutoscaleMode::WARN) {
            return;
        }
        let (mut few, mut many) = (Vec::new(), Vec::new());
        for (pool, advice) in self.pg_advice() {
            if advice.mode != AutoscaleMode::WARN || !advice.would_adjust {
                continue;
            }
            let name = map.pool_name(advice.id).unwrap_or_default();
            let (is, wanted) = (pool.pg_num_target, advice.pg_num);
            let list = if wanted > is { &mut few } else { &mut many };
            list.push(format!("Pool {name} has {is} placement groups, should have {wanted}"));
        }
        for (code, what, list) in [("POOL_TOO_FEW_PGS", "few", few), ("POOL_TOO_MANY_PGS", "many", many)] {
            if !list.is_empty() {
                let text = format!("{} pools have too {what} placement groups", list.len());
                health.add(code, Severity::Warn, text, list);
            }
        }
    }

    fn check_pgs(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let mut by_word: BTreeMap<&'static str, usize> = BTreeMap::new();
        let (mut unavailable, mut degraded, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
        let mut unfound = Vec::new();
        for pg in map.pgs() {
            let stat = self.stats.stat_of(map, pg, self.is_creating(pg));
            let mut line = format!("pg {pg} is {}, acting {}", stat.state, crate::format::list(&stat.acting));
            if stat.sum.unfound > 0 {
                line.push_str(&format!(", {} unfound", stat.sum.unfound));
                unfound.push(format!("pg {pg} has {} unfound objects", stat.sum.unfound));
            }
            let words: Vec<&'static str> =
                AVAILABILITY.iter().filter(|(_, bit)| stat.state.has(*bit)).map(|(w, _)| *w).collect();
            let is_inactive = !stat.state.has(PgState::ACTIVE);
            if is_inactive || !words.is_empty() {
                unavailable.push(line.clone());
            }
            words.into_iter().for_each(|word| *by_word.entry(word).or_default() += 1);
            if is_inactive {
                *by_word.entry("inactive").or_default() += 1;
                if stat.state.0 == 0 {
                    *by_word.entry("unknown").or_default() += 1;
                }
            }
            for (word, _) in DEGRADATION.iter().filter(|(_, bit)| stat.state.has(*bit)) {
                *by_word.entry(word).or_default() += 1;
                if degraded.last() != Some(&line) {
                    degraded.push(line.clone());
                }
            }
            let words = DAMAGE.iter().filter(|(_, bit)| stat.state.has(*bit)).map(|(word, _)| *word);
            for word in words {
                *by_word.entry(word).or_default() += 1;
                if damaged.last() != Some(&line) {
                    damaged.push(line.clone());
                }
            }
        }
        let words = |list: &[&'static str]| {
            let found = list.iter().filter_map(|word| Some((word, by_word.get(word)?)));
            found.map(|(word, n)| format!("{n} pg{} {word}", plural(*n))).collect::<Vec<_>>().join(", ")
        };
        if !unavailable.is_empty() {
            let text = words(&["inactive", "down", "incomplete", "peering", "stale", "unknown"]);
            let text = format!("Reduced data availability: {text}");
            health.add("PG_AVAILABILITY", Severity::Warn, text, unavailable);
        }
        let total = self.stats.total();
        if !degraded.is_empty() || total.degraded > 0 {
            let mut parts = Vec::new();
            if total.degraded > 0 {
                parts.push(ratio_text(total.degraded, total.object_copies, "degraded"));
            }
            let text = words(&["degraded", "undersized"]);
            parts.extend((!text.is_empty()).then_some(text));
            health.add(
                "PG_DEGRADED",
                Severity::Warn,
                format!("Degraded data redundancy: {}", parts.join(", ")),
                degraded,
            );
        }
        if !damaged.is_empty() {
            let text = format!("Possible data damage: {}", words(&["inconsistent", "recovery_unfound"]));
            health.add("PG_DAMAGED", Severity::Err, text, damaged);
        }
        self.check_objects(unfound, health);
    }

    /// Objects in the wrong place, and those that are nowhere: `unfound` says in which PGs.
    fn check_objects(&self, unfound: Vec<String>, health: &mut Health) {
        let total = self.stats.total();
        if total.misplaced > 0 {
            let text = ratio_text(total.misplaced, total.object_copies, "misplaced");
            health.add("OBJECT_MISPLACED", Severity::Warn, text, Vec::new());
        }
        if total.unfound > 0 {
            let text = ratio_text(total.unfound, total.objects, "unfound");
            health.add("OBJECT_UNFOUND", Severity::Warn, text, unfound);
        }
    }

    /// True for a PG that waits to be made.
    pub(crate) fn is_creating(&self, pg: types::PgId) -> bool {
        self.committed.creating.get(&pg.pool).is_some_and(|c| c.seeds.contains(&pg.seed))
    }

    /// Mutes end when their time is over.
    pub(crate) fn expire_mutes(&mut self, wall: UTime) {
        let over = |until: &UTime| *until != UTime::default() && *until <= wall;
        let codes: Vec<String> =
            self.next.mutes.iter().filter(|(_, until)| over(until)).map(|(code, _)| code.clone()).collect();
        for code in codes {
            self.put(crate::keys::mute(&code), None);
        }
    }

    /// Writes to the cluster log what began to be wrong and what is right again.
    pub(crate) fn tick_health_log(&mut self, wall: UTime) {
        let checks = self.health().checks;
        let log = |mon: &mut Mon, code: &str, line: String| match checks.get(code).map(|c| c.severity) {
            Some(Severity::Err) => mon.log_error(wall, line),
            Some(_) | None => mon.log_warn(wall, line),
        };
        let found: BTreeMap<&'static str, String> =
            checks.iter().map(|(code, check)| (*code, check.summary.clone())).collect();
        let before = std::mem::replace(&mut self.health_logged, found.clone());
        for (code, summary) in &found {
            match before.get(code) {
                None => log(self, code, format!("Health check failed: {summary} ({code})")),
                Some(old) if old != summary => {
                    log(self, code, format!("Health check update: {summary} ({code})"));
                }
                Some(_) => {}
            }
        }
        for (code, summary) in before.iter().filter(|(code, _)| !found.contains_key(*code)) {
            self.log_info(wall, format!("Health check cleared: {code} (was: {summary})"));
        }
        if found.is_empty() && !before.is_empty() {
            self.log_info(wall, "Cluster is now healthy".to_owned());
        }
    }
}

/// States that keep data from being read or written.
const AVAILABILITY: [(&str, PgState); 4] = [
    ("down", PgState::DOWN),
    ("incomplete", PgState::INCOMPLETE),
    ("peering", PgState::PEERING),
    ("stale", PgState::STALE),
];

/// States with fewer copies than there should be.
const DEGRADATION: [(&str, PgState); 2] =
    [("degraded", PgState::DEGRADED), ("undersized", PgState::UNDERSIZED)];

/// States of PGs that lost something.
const DAMAGE: [(&str, PgState); 2] =
    [("inconsistent", PgState::INCONSISTENT), ("recovery_unfound", PgState::RECOVERY_UNFOUND)];

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
