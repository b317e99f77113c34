//! Reweights of OSDs that hold more than their share: `osd reweight-by-utilization`, `osd reweight-by-pg`.
//!
//! Authority: `reweight::by_utilization`, `OSDMap::summarize_mapping_stats` (16.2).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use types::{Errno, OsdId, OsdMap, PoolId, WEIGHT_IN, find_option};

use super::{Reply, Request, Row};

const fn row(sig: &'static str, help: &'static str, perm: &'static str) -> Row {
    Row { sig, help, module: "osd", perm, run: |req| run(req).into() }
}

pub(super) const ROWS: &[Row] = &[
    row(
        "osd reweight-by-utilization name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false name=max_osds,type=CephInt,req=false name=no_increasing,type=CephBool,req=false",
        "reweight OSDs by utilization [overload-percentage-for-consideration, default 120]",
        "rw",
    ),
    row(
        "osd test-reweight-by-utilization name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false name=max_osds,type=CephInt,req=false name=no_increasing,type=CephBool,req=false",
        "dry run of reweight OSDs by utilization [overload-percentage-for-consideration, default 120]",
        "r",
    ),
    row(
        "osd reweight-by-pg name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false name=max_osds,type=CephInt,req=false name=pools,type=CephPoolname,n=N,req=false",
        "reweight OSDs by PG distribution [overload-percentage-for-consideration, default 120]",
        "rw",
    ),
    row(
        "osd test-reweight-by-pg name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false name=max_osds,type=CephInt,req=false name=pools,type=CephPoolname,n=N,req=false",
        "dry run of reweight OSDs by PG distribution [overload-percentage-for-consideration, default 120]",
        "r",
    ),
];

/// What a run goes by.
struct Plan {
    oload: i64,
    max_change: f64,
    max_osds: i64,
    may_increase: bool,
    /// Pools whose PGs count; none for all.
    pools: BTreeSet<PoolId>,
}

/// How much each OSD holds, and what it should hold.
struct Load {
    average: f64,
    by_osd: Vec<(OsdId, f64)>,
}

fn refuse(text: String) -> Reply {
    Reply::fail(Errno::EINVAL, text)
}

/// An option of the manager, as the configuration database has it.
fn option(req: &Request<'_>, name: &str) -> f64 {
    let default = || find_option(name).map(|info| info.default_for(true)).unwrap_or_default();
    req.mon.mgr_config.get(name).cloned().unwrap_or_else(default).parse().unwrap_or(0.0)
}

fn plan(req: &Request<'_>) -> Result<Plan, Reply> {
    let oload = req.args.int("oload").unwrap_or(120);
    if oload <= 100 {
        return Err(refuse(
            "You must give a percentage higher than 100. The reweighting threshold will be calculated as <average-utilization> times <input-percentage>. For example, an argument of 200 would reweight OSDs which are twice as utilized as the average OSD.\nFAILED reweight-by-pg"
                .to_owned(),
        ));
    }
    let max_change = req.args.float("max_change").unwrap_or_else(|| option(req, "mon_reweight_max_change"));
    if max_change <= 0.0 {
        return Err(refuse(format!("max_change {max_change} must be positive")));
    }
    let max_osds = req.args.int("max_osds").unwrap_or_else(|| option(req, "mon_reweight_max_osds") as i64);
    if max_osds <= 0 {
        return Err(refuse(format!("max_osds {max_osds} must be positive")));
    }
    let mut pools = BTreeSet::new();
    for name in req.args.list("pools") {
        match req.map().pool_by_name(&name) {
            Some((id, _)) => pools.insert(id),
            None => return Err(Reply::fail(Errno::ENOENT, format!("pool '{name}' does not exist"))),
        };
    }
    Ok(Plan { oload, max_change, max_osds, may_increase: !req.args.flag("no_increasing"), pools })
}

/// PGs by OSD.
fn counts(map: &OsdMap, pools: &BTreeSet<PoolId>) -> BTreeMap<OsdId, usize> {
    let mut out: BTreeMap<OsdId, usize> = map.osds().map(|osd| (osd, 0)).collect();
    for pg in map.pgs().filter(|pg| pools.is_empty() || pools.contains(&pg.pool)) {
        for osd in map.pg_to_up_acting(pg).up {
            if let Some(count) = out.get_mut(&osd) {
                *count += 1;
            }
        }
    }
    out
}

fn load_by_pg(req: &Request<'_>, plan: &Plan) -> Result<Load, Reply> {
    let map = req.map();
    let crush = map.crush.map();
    let holders = crush.holders();
    let weight = |osd: OsdId| {
        let held = holders.get(&osd.0).and_then(|(id, at)| Some(crush.bucket(*id)?.item_weight(*at)));
        f64::from(held.unwrap_or(0)) / f64::from(WEIGHT_IN) * f64::from(map.weight_fraction(osd))
    };
    let counts = counts(map, &plan.pools);
    let all: usize = counts.values().sum();
    let used: Vec<OsdId> = counts.keys().copied().filter(|osd| weight(*osd) > 0.0).collect();
    if used.is_empty() || (all as f64) < used.len() as f64 * option(req, "mon_reweight_min_pgs_per_osd") {
        let why = format!(
            "Refusing to reweight: we only have {all} PGs across {} osds!\n\nFAILED reweight-by-pg",
            used.len()
        );
        return Err(Reply::fail(Errno::EDOM, why));
    }
    let sum: f64 = used.iter().map(|osd| weight(*osd)).sum();
    let by_osd = used.into_iter().map(|osd| (osd, counts[&osd] as f64 / weight(osd))).collect();
    Ok(Load { average: all as f64 / sum, by_osd })
}

fn load_by_space(req: &Request<'_>) -> Result<Load, Reply> {
    let stats = req.map().osds().filter_map(|osd| Some((osd, req.mon.stats.osd(osd)?)));
    let stats: Vec<_> =
        stats.filter(|(_, stat)| stat.kb > 0).map(|(osd, s)| (osd, s.kb_used, s.kb)).collect();
    let (used, all) = stats
        .iter()
        .fold((0u64, 0u64), |sum, (_, used, kb)| (sum.0.saturating_add(*used), sum.1.saturating_add(*kb)));
    if all < 1024 {
        return Err(Reply::fail(
            Errno::EDOM,
            format!("Refusing to reweight: we only have {all} kb across all osds!\nFAILED reweight-by-pg"),
        ));
    }
    let least = option(req, "mon_reweight_min_bytes_per_osd") / 1024.0 * stats.len() as f64;
    if (used as f64) < least {
        let why = format!(
            "Refusing to reweight: we only have {used} kb used across all osds!\nFAILED reweight-by-pg"
        );
        return Err(Reply::fail(Errno::EDOM, why));
    }
    let by_osd = stats.into_iter().map(|(osd, used, kb)| (osd, used as f64 / kb as f64)).collect();
    Ok(Load { average: used as f64 / all as f64, by_osd })
}

/// New weights, for the fullest OSDs first.
fn reweights(map: &OsdMap, plan: &Plan, mut load: Load) -> Vec<(OsdId, u32, u32)> {
    load.by_osd.sort_by(|a, b| b.1.total_cmp(&a.1));
    let overload = load.average * plan.oload as f64 / 100.0;
    let step = (plan.max_change * f64::from(WEIGHT_IN)) as u32;
    let mut out = Vec::new();
    for (osd, used) in load.by_osd {
        let weight = map.weight(osd);
        if weight == 0 || !map.exists(osd) {
            continue;
        }
        let fair = (load.average / used * f64::from(weight)) as u32;
        let new = if used >= overload {
            fair.max(weight.saturating_sub(step))
        } else if plan.may_increase && used <= load.average && weight < WEIGHT_IN {
            fair.min(WEIGHT_IN).min(weight.saturating_add(step))
        } else {
            continue;
        };
        if new != weight {
            out.push((osd, weight, new));
        }
        if out.len() as i64 >= plan.max_osds {
            break;
        }
    }
    out
}

/// How PGs are spread before and after.
struct Spread {
    moved: usize,
    total: usize,
    average: f64,
    deviation: (f64, f64),
    baseline: f64,
    min: (OsdId, usize, usize),
    max: (OsdId, usize, usize),
}

fn spread(map: &OsdMap, changed: &OsdMap, pools: &BTreeSet<PoolId>) -> Option<Spread> {
    let (before, after) = (counts(map, pools), counts(changed, pools));
    let before: BTreeMap<OsdId, usize> = before.into_iter().filter(|(osd, _)| map.is_in(*osd)).collect();
    let total: usize = before.values().sum();
    let pgs = map.pgs().filter(|pg| pools.is_empty() || pools.contains(&pg.pool));
    let moved = pgs.map(|pg| {
        let new = changed.pg_to_up_acting(pg).up;
        map.pg_to_up_acting(pg).up.iter().filter(|osd| !new.contains(osd)).count()
    });
    let count = before.len() as f64;
    let average = total as f64 / count;
    let deviation = |of: &dyn Fn(&OsdId) -> usize| {
        (before.keys().map(|osd| (of(osd) as f64 - average).powi(2)).sum::<f64>() / count).sqrt()
    };
    let now = |osd: &OsdId| after.get(osd).copied().unwrap_or(0);
    let one = |(osd, count): (&OsdId, &usize)| (*osd, *count, now(osd));
    Some(Spread {
        moved: moved.sum(),
        total,
        average,
        deviation: (deviation(&|osd| before[osd]), deviation(&now)),
        baseline: (average * (1.0 - 1.0 / count)).sqrt(),
        min: one(before.iter().min_by_key(|(_, count)| **count)?),
        // The first of equals, as with the smallest.
        max: one(before.iter().rev().max_by_key(|(_, count)| **count)?),
    })
}

/// Six significant digits at most, as C++ streams print numbers.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (5 - value.abs().log10().floor() as i64).clamp(0, 12) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

impl Spread {
    fn json(&self) -> Value {
        json!({
            "moved_pgs": self.moved,
            "total_pgs": self.total,
            "avg_pgs": self.average,
            "std_dev": self.deviation.0,
            "expected_baseline_std_dev": self.baseline,
            "new_std_dev": self.deviation.1,
            "min_osd": self.min.0.0,
            "min_osd_pgs": self.min.1,
            "new_min_osd_pgs": self.min.2,
            "max_osd": self.max.0.0,
            "max_osd_pgs": self.max.1,
            "new_max_osd_pgs": self.max.2,
        })
    }

    fn text(&self) -> String {
        let percent = if self.total == 0 { 0.0 } else { self.moved as f64 * 100.0 / self.total as f64 };
        let one = |what: &str, (osd, before, after): (OsdId, usize, usize)| {
            let mean = |count: usize| short(count as f64 / self.average);
            format!(
                "{what} osd.{osd} with {before} -> {after} pgs ({} -> {} * mean)\n",
                mean(before),
                mean(after)
            )
        };
        format!(
            "moved {} / {} ({}%)\navg {}\nstddev {} -> {} (expected baseline {})\n{}{}\n",
            self.moved,
            self.total,
            short(percent),
            short(self.average),
            short(self.deviation.0),
            short(self.deviation.1),
            short(self.baseline),
            one("min", self.min),
            one("max", self.max),
        )
    }
}

fn run(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let prefix = req.args.prefix().trim_start_matches("osd ").to_owned();
    let (is_test, is_by_pg) = (prefix.starts_with("test-"), prefix.ends_with("-pg"));
    let plan = plan(req)?;
    let load = if is_by_pg { load_by_pg(req, &plan)? } else { load_by_space(req)? };
    let average = load.average;
    let overload = average * plan.oload as f64 / 100.0;
    // An OSD may be on its way out.
    let changes = reweights(req.next_map(), &plan, load);
    let mut changed = req.next_map().clone();
    for (osd, _, new) in &changes {
        changed.osd_weight[osd.0 as usize] = *new;
    }
    let spread = spread(req.next_map(), &changed, &plan.pools);
    let fraction = |weight: u32| f64::from(weight) / f64::from(WEIGHT_IN);
    let json = || {
        let one = |(osd, old, new): &(OsdId, u32, u32)| json!({"osd": osd.0, "weight": fraction(*old), "new_weight": fraction(*new)});
        json!({
            "overload_min": plan.oload,
            "max_change": plan.max_change,
            "max_change_osds": plan.max_osds,
            "average_utilization": average,
            "overload_utilization": overload,
            "reweights": changes.iter().map(one).collect::<Vec<_>>(),
            "utilization": spread.as_ref().map(Spread::json),
        })
    };
    let text = || {
        let mut out = spread.as_ref().map(Spread::text).unwrap_or_default();
        out.push_str(&format!(
            "oload {}\nmax_change {}\nmax_change_osds {}\naverage_utilization {average:.4}\noverload_utilization {overload:.4}\n",
            plan.oload,
            short(plan.max_change),
            plan.max_osds,
        ));
        for (osd, old, new) in &changes {
            out.push_str(&format!("osd.{osd} weight {:.4} -> {:.4}\n", fraction(*old), fraction(*new)));
        }
        out
    };
    let reply = Reply::show(req.args, json, text);
    if changes.is_empty() {
        return Ok(reply.with_status("no change"));
    }
    if !is_test {
        req.mon.change_osdmap(req.wall, |_, inc| {
            inc.new_weight = changes.iter().map(|(osd, _, new)| (*osd, *new)).collect();
        });
    }
    Ok(reply.with_status(format!("SUCCESSFUL {prefix}")))
}
