//! One bucket's choice of an item (`crush/mapper.c`, `bucket_*_choose`).

use crate::{
    hash::{crush_hash32_3, crush_hash32_4},
    ln::crush_ln,
    map::{Bucket, BucketAlg, ChooseArg},
};

/// 2^48: `crush_ln` of 2^16 - 1 is just below; the difference is the logarithm of a fraction.
const LN_ONE: i64 = 1 << 48;

/// The item that `bucket` (not empty) chooses for input `x` and attempt `r`.
pub(crate) fn choose(bucket: &Bucket, x: u32, r: u32, arg: Option<&ChooseArg>, position: usize) -> i32 {
    match &bucket.alg {
        BucketAlg::Uniform { .. } => permuted(bucket, x, r),
        BucketAlg::List { item_weights, sum_weights } => list(bucket, item_weights, sum_weights, x, r),
        BucketAlg::Tree { node_weights } => tree(bucket, node_weights, x, r),
        BucketAlg::Straw { straws, .. } => straw(bucket, straws, x, r),
        BucketAlg::Straw2 { item_weights } => straw2(bucket, item_weights, x, r, arg, position),
    }
}

/// The item at place `r` of a permutation that `x` determines. Also the fallback of other buckets when
/// many tries failed.
pub(crate) fn permuted(bucket: &Bucket, x: u32, r: u32) -> i32 {
    let size = bucket.items.len();
    let place = r as usize % size;
    let mut order: Vec<u32> = (0..size as u32).collect();
    for at in 0..=place.min(size.saturating_sub(2)) {
        let swap = crush_hash32_3(x, bucket.id as u32, at as u32) as usize % (size - at);
        order.swap(at, at + swap);
    }
    bucket.items[order[place] as usize]
}

fn list(bucket: &Bucket, item_weights: &[u32], sum_weights: &[u32], x: u32, r: u32) -> i32 {
    for (at, item) in bucket.items.iter().enumerate().rev() {
        let draw = u64::from(crush_hash32_4(x, *item as u32, r, bucket.id as u32) & 0xffff);
        if (draw * u64::from(sum_weights[at])) >> 16 < u64::from(item_weights[at]) {
            return *item;
        }
    }
    bucket.items[0]
}

/// Leaves of the tree have odd numbers; item n is at 2n + 1.
fn tree(bucket: &Bucket, node_weights: &[u32], x: u32, r: u32) -> i32 {
    let weight = |node: usize| node_weights.get(node).copied().unwrap_or(0);
    let mut node = node_weights.len() >> 1;
    while node & 1 == 0 && node > 0 {
        let hash = crush_hash32_4(x, node as u32, r, bucket.id as u32);
        let draw = (u64::from(hash) * u64::from(weight(node))) >> 32;
        let half = 1usize << (node.trailing_zeros() - 1);
        node = if draw < u64::from(weight(node - half)) { node - half } else { node + half };
    }
    bucket.items[(node >> 1).min(bucket.items.len() - 1)]
}

fn straw(bucket: &Bucket, straws: &[u32], x: u32, r: u32) -> i32 {
    let (mut best, mut best_draw) = (0, 0);
    for (at, item) in bucket.items.iter().enumerate() {
        let draw = u64::from(crush_hash32_3(x, *item as u32, r) & 0xffff) * u64::from(straws[at]);
        if at == 0 || draw > best_draw {
            (best, best_draw) = (at, draw);
        }
    }
    bucket.items[best]
}

fn straw2(bucket: &Bucket, own: &[u32], x: u32, r: u32, arg: Option<&ChooseArg>, position: usize) -> i32 {
    let sets = arg.map(|a| a.weight_set.as_slice()).unwrap_or_default();
    let weights = sets.get(position).or(sets.last()).map_or(own, Vec::as_slice);
    let ids = arg.map(|a| a.ids.as_slice()).filter(|ids| !ids.is_empty()).unwrap_or(&bucket.items);
    let (mut best, mut best_draw) = (0, 0);
    for (at, (id, weight)) in ids.iter().zip(weights).enumerate() {
        let draw = match *weight {
            0 => i64::MIN,
            weight => {
                let u = crush_hash32_3(x, *id as u32, r) & 0xffff;
                // Signed, as in Ceph: a weight that no command sets draws the longest straw there.
                (crush_ln(u) as i64 - LN_ONE) / i64::from(weight as i32)
            }
        };
        if at == 0 || draw > best_draw {
            (best, best_draw) = (at, draw);
        }
    }
    bucket.items[best]
}
