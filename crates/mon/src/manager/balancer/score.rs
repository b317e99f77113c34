//! How evenly PGs, objects and bytes lie on the OSDs.

use std::collections::BTreeMap;

use types::{OsdId, OsdMap, PoolId};

use crate::{Mon, stats::rule_weights};

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

/// The score of some pools in a map: the mean of those of PGs, objects and bytes.
pub(super) fn score_of(mon: &Mon, map: &OsdMap, pools: &[PoolId]) -> f64 {
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
