//! The manager's module `balancer`, as far as it looks: how evenly PGs, objects and bytes lie on the OSDs. It moves
//! nothing by itself; an operator does, with `osd pg-upmap-items` and `osd reweight`.

use std::collections::BTreeMap;

use serde_json::json;
use types::{Errno, OsdId, PoolId};

use crate::{
    Mon,
    commands::{Reply, Request},
    format::python_sorted,
    stats::rule_weights,
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
    "balancer show name=plan,type=CephString" "r" "Show details of an optimization plan" no_plan
    "balancer dump name=plan,type=CephString" "r" "Show an optimization plan" no_plan
    "balancer execute name=plan,type=CephString" "rw" "Execute an optimization plan" no_plan
    "balancer rm name=plan,type=CephString" "rw" "Discard an optimization plan" nothing
    "balancer reset" "rw" "Discard all optimization plans" nothing
}

/// What is not done here.
const NOT_MOVED: &str =
    "PGs are not moved by this manager; see `ceph balancer eval` and `ceph osd pg-upmap-items`";

fn status(_: &mut Request<'_>) -> Reply {
    let out = json!({
        "active": false,
        "last_optimize_duration": "",
        "last_optimize_started": "",
        "mode": "none",
        "no_optimization_needed": false,
        "optimize_result": NOT_MOVED,
        "plans": [],
    });
    Reply::module(python_sorted(&out))
}

fn mode(req: &mut Request<'_>) -> Reply {
    match req.args.text("mode").as_deref() {
        Some("none") => Reply::default(),
        _ => Reply::fail(Errno::EOPNOTSUPP, NOT_MOVED),
    }
}

fn on(_: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::EOPNOTSUPP, NOT_MOVED)
}

fn off(_: &mut Request<'_>) -> Reply {
    Reply::default()
}

fn pool_ls(_: &mut Request<'_>) -> Reply {
    Reply::default()
}

fn ls(_: &mut Request<'_>) -> Reply {
    Reply::module("[]".to_owned())
}

fn optimize(_: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::EOPNOTSUPP, NOT_MOVED)
}

fn no_plan(req: &mut Request<'_>) -> Reply {
    let plan = req.args.text("plan").unwrap_or_default();
    Reply::fail(Errno::ENOENT, format!("plan {plan} not found"))
}

fn nothing(_: &mut Request<'_>) -> Reply {
    Reply::default()
}

/// The error function, by the approximation 7.1.26 of Abramowitz and Stegun: exact to 1.5e-7.
fn erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let poly = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let sum = poly.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    (1.0 - sum * (-x * x).exp()).copysign(x)
}

/// How far amounts on OSDs are above their weights' shares: 0 for even, below 1 for anything.
fn score(weights: &BTreeMap<OsdId, f64>, amounts: &BTreeMap<OsdId, f64>) -> f64 {
    let total: f64 = amounts.values().sum();
    let all: f64 = weights.values().sum();
    let count = weights.len().max(1) as f64;
    if total == 0.0 || all == 0.0 {
        return 0.0;
    }
    let average = total / count;
    let (mut score, mut weight_sum) = (0.0, 0.0);
    for (osd, weight) in weights.iter().filter(|(_, weight)| **weight > 0.0) {
        let share = weight / all;
        let adjusted = amounts.get(osd).copied().unwrap_or(0.0) / share / count;
        // Whole PGs cannot lie more evenly than to a rounding error.
        if adjusted > average * (1.0 + 1e-9) {
            score += share * erf((adjusted - average) / average / std::f64::consts::SQRT_2);
            weight_sum += share;
        }
    }
    if weight_sum > 0.0 { score / weight_sum } else { 0.0 }
}

/// The score of some pools: the mean of those of PGs, objects and bytes.
fn score_of(mon: &Mon, pools: &[PoolId]) -> f64 {
    let map = &mon.committed.osdmap;
    let mut weights: BTreeMap<OsdId, f64> = BTreeMap::new();
    let mut amounts: [BTreeMap<OsdId, f64>; 3] = Default::default();
    for pool in pools {
        let Some(facts) = map.pools.get(pool) else { continue };
        for (osd, weight) in rule_weights(map.crush.map(), facts.crush_rule, map) {
            weights.insert(osd, weight);
        }
        for pg in map.pgs_of(*pool) {
            let sum = mon.stats.pg(pg).map(|stat| stat.sum).unwrap_or_default();
            for osd in map.pg_to_up_acting(pg).up {
                for (kind, amount) in [1, sum.objects, sum.bytes].into_iter().enumerate() {
                    *amounts[kind].entry(osd).or_default() += amount as f64;
                }
            }
        }
    }
    amounts.iter().map(|amounts| score(&weights, amounts)).sum::<f64>() / 3.0
}

fn eval(req: &mut Request<'_>) -> Reply {
    let map = &req.mon.committed.osdmap;
    let Some(option) = req.args.text("option").filter(|option| !option.is_empty()) else {
        let pools: Vec<PoolId> = map.pools.keys().copied().collect();
        let score = score_of(req.mon, &pools);
        return Reply::module(format!("current cluster score {score:.6} (lower is better)"));
    };
    let Some((pool, _)) = map.pool_by_name(&option) else {
        return Reply::fail(Errno::EINVAL, format!("option \"{option}\" not a plan or a pool"));
    };
    Reply::module(format!("pool \"{option}\" score {:.6} (lower is better)", score_of(req.mon, &[pool])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_is_zero_and_uneven_is_not() {
        let of =
            |amounts: &[f64]| amounts.iter().enumerate().map(|(osd, n)| (OsdId(osd as i32), *n)).collect();
        let weights: BTreeMap<OsdId, f64> = of(&[1.0, 1.0, 2.0]);
        assert_eq!(score(&weights, &of(&[8.0, 8.0, 16.0])), 0.0);
        let uneven = score(&weights, &of(&[16.0, 0.0, 16.0]));
        assert!(uneven > 0.3 && uneven < 1.0, "{uneven}");
        assert!((erf(0.5) - 0.520_499_877).abs() < 1e-6 && (erf(-0.5) + 0.520_499_877).abs() < 1e-6);
    }
}
