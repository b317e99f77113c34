//! The binary form of a map (`CrushWrapper::encode`), byte for byte.

use std::collections::BTreeMap;

use codec::{Decode, DecodeError, Encode, Features, Reader};

use crate::map::{Bucket, BucketAlg, ChooseArg, CrushMap, Rule, Step, Tunables};

const MAGIC: u32 = 0x0001_0000;

/// More buckets, rules or items than any cluster has: a damaged map must not cost memory.
pub(crate) const SLOTS_MAX: usize = 1 << 20;

/// Levels of buckets. Ceph's own limit is 10 (`CRUSH_MAX_DEPTH`), with 12 types by default; beyond this
/// is damage, and the check for cycles would take a pass per level.
pub const LEVELS_MAX: usize = 64;

impl Encode for CrushMap {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        MAGIC.encode(out, f);
        (self.buckets.len() as i32).encode(out, f);
        (self.rules.len() as u32).encode(out, f);
        self.max_devices.encode(out, f);
        for bucket in &self.buckets {
            match bucket {
                Some(bucket) => encode_bucket(bucket, out),
                None => 0u32.encode(out, f),
            }
        }
        for rule in &self.rules {
            u32::from(rule.is_some()).encode(out, f);
            if let Some(rule) = rule {
                (rule.steps.len() as u32).encode(out, f);
                out.extend_from_slice(&[rule.ruleset, rule.kind, rule.min_size, rule.max_size]);
                for step in &rule.steps {
                    (step.op, step.arg1, step.arg2).encode(out, f);
                }
            }
        }
        self.type_names.encode(out, f);
        self.names.encode(out, f);
        self.rule_names.encode(out, f);
        let t = &self.tunables;
        (t.choose_local_tries, t.choose_local_fallback_tries, t.choose_total_tries).encode(out, f);
        (t.chooseleaf_descend_once, t.chooseleaf_vary_r, t.straw_calc_version).encode(out, f);
        (t.allowed_bucket_algs, t.chooseleaf_stable).encode(out, f);
        self.classes.encode(out, f);
        self.class_names.encode(out, f);
        self.class_buckets.encode(out, f);
        encode_choose_args(&self.choose_args, out);
    }
}

fn encode_all(values: &[u32], out: &mut Vec<u8>) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn encode_bucket(bucket: &Bucket, out: &mut Vec<u8>) {
    let f = Features::default();
    u32::from(bucket.alg.number()).encode(out, f);
    bucket.id.encode(out, f);
    bucket.kind.encode(out, f);
    out.extend_from_slice(&[bucket.alg.number(), bucket.hash]);
    bucket.weight.encode(out, f);
    (bucket.items.len() as u32).encode(out, f);
    bucket.items.iter().for_each(|item| item.encode(out, f));
    match &bucket.alg {
        BucketAlg::Uniform { item_weight } => item_weight.encode(out, f),
        BucketAlg::List { item_weights: a, sum_weights: b }
        | BucketAlg::Straw { item_weights: a, straws: b } => {
            a.iter().zip(b).for_each(|pair| (*pair.0, *pair.1).encode(out, f));
        }
        BucketAlg::Tree { node_weights } => {
            out.push(node_weights.len() as u8);
            encode_all(node_weights, out);
        }
        BucketAlg::Straw2 { item_weights } => encode_all(item_weights, out),
    }
}

fn encode_choose_args(all: &BTreeMap<i64, BTreeMap<u32, ChooseArg>>, out: &mut Vec<u8>) {
    let f = Features::default();
    (all.len() as u32).encode(out, f);
    for (index, args) in all {
        index.encode(out, f);
        (args.len() as u32).encode(out, f);
        for (slot, arg) in args {
            slot.encode(out, f);
            arg.weight_set.encode(out, f);
            arg.ids.encode(out, f);
        }
    }
}

impl Decode for CrushMap {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let magic = u32::decode(input)?;
        if magic != MAGIC {
            return Err(invalid("crush magic", u64::from(magic)));
        }
        let bucket_count = bounded("crush buckets", i64::from(i32::decode(input)?))?;
        let rule_count = bounded("crush rules", i64::from(u32::decode(input)?))?;
        let max_devices = i32::decode(input)?;
        bounded("crush devices", i64::from(max_devices))?;
        // An empty slot takes four bytes.
        if (bucket_count + rule_count) * 4 > input.remaining() {
            return Err(DecodeError::Truncated {
                needed: (bucket_count + rule_count) * 4,
                available: input.remaining(),
            });
        }
        let buckets = (0..bucket_count).map(|slot| decode_bucket(input, slot)).collect::<Result<_, _>>()?;
        let rules = (0..rule_count).map(|_| decode_rule(input)).collect::<Result<_, _>>()?;
        let mut map = CrushMap {
            buckets,
            rules,
            max_devices,
            type_names: Decode::decode(input)?,
            names: Decode::decode(input)?,
            rule_names: Decode::decode(input)?,
            tunables: decode_tunables(input)?,
            ..CrushMap::default()
        };
        map.classes = Decode::decode(input)?;
        map.class_names = Decode::decode(input)?;
        map.class_buckets = Decode::decode(input)?;
        map.choose_args = decode_choose_args(input)?;
        check_shape(&map)?;
        Ok(map)
    }
}

fn invalid(what: &'static str, value: u64) -> DecodeError {
    DecodeError::Invalid { what, value }
}

fn bounded(what: &'static str, value: i64) -> Result<usize, DecodeError> {
    usize::try_from(value).ok().filter(|v| *v <= SLOTS_MAX).ok_or(invalid(what, value as u64))
}

fn decode_many(input: &mut Reader, count: usize) -> Result<Vec<u32>, DecodeError> {
    (0..count).map(|_| u32::decode(input)).collect()
}

fn decode_pairs(input: &mut Reader, count: usize) -> Result<(Vec<u32>, Vec<u32>), DecodeError> {
    let pairs: Vec<(u32, u32)> = (0..count).map(|_| Decode::decode(input)).collect::<Result<_, _>>()?;
    Ok(pairs.into_iter().unzip())
}

fn decode_bucket(input: &mut Reader, slot: usize) -> Result<Option<Bucket>, DecodeError> {
    if u32::decode(input)? == 0 {
        return Ok(None);
    }
    let id = i32::decode(input)?;
    if crate::map::slot(id) != Some(slot) {
        return Err(invalid("crush bucket id", id as u64));
    }
    let kind = u16::decode(input)?;
    let (alg, hash): (u8, u8) = Decode::decode(input)?;
    let weight = u32::decode(input)?;
    let size = input.count(4)?;
    let items: Vec<i32> = (0..size).map(|_| i32::decode(input)).collect::<Result<_, _>>()?;
    let alg = match alg {
        1 => BucketAlg::Uniform { item_weight: u32::decode(input)? },
        2 => {
            let (item_weights, sum_weights) = decode_pairs(input, size)?;
            BucketAlg::List { item_weights, sum_weights }
        }
        3 => {
            let nodes = usize::from(u8::decode(input)?);
            BucketAlg::Tree { node_weights: decode_many(input, nodes)? }
        }
        4 => {
            let (item_weights, straws) = decode_pairs(input, size)?;
            BucketAlg::Straw { item_weights, straws }
        }
        5 => BucketAlg::Straw2 { item_weights: decode_many(input, size)? },
        other => return Err(invalid("crush bucket algorithm", u64::from(other))),
    };
    Ok(Some(Bucket { id, kind, alg, hash, weight, items }))
}

fn decode_rule(input: &mut Reader) -> Result<Option<Rule>, DecodeError> {
    if u32::decode(input)? == 0 {
        return Ok(None);
    }
    let count = u32::decode(input)? as usize;
    let [ruleset, kind, min_size, max_size] = input.array()?;
    if count * 12 > input.remaining() {
        return Err(DecodeError::Truncated { needed: count * 12, available: input.remaining() });
    }
    let step = |input: &mut Reader| {
        let (op, arg1, arg2) = Decode::decode(input)?;
        Ok(Step { op, arg1, arg2 })
    };
    let steps = (0..count).map(|_| step(input)).collect::<Result<_, DecodeError>>()?;
    Ok(Some(Rule { ruleset, kind, min_size, max_size, steps }))
}

fn decode_tunables(input: &mut Reader) -> Result<Tunables, DecodeError> {
    Ok(Tunables {
        choose_local_tries: Decode::decode(input)?,
        choose_local_fallback_tries: Decode::decode(input)?,
        choose_total_tries: Decode::decode(input)?,
        chooseleaf_descend_once: Decode::decode(input)?,
        chooseleaf_vary_r: Decode::decode(input)?,
        straw_calc_version: Decode::decode(input)?,
        allowed_bucket_algs: Decode::decode(input)?,
        chooseleaf_stable: Decode::decode(input)?,
    })
}

fn decode_choose_args(input: &mut Reader) -> Result<BTreeMap<i64, BTreeMap<u32, ChooseArg>>, DecodeError> {
    let mut out = BTreeMap::new();
    for _ in 0..input.count(12)? {
        let index = i64::decode(input)?;
        let mut args = BTreeMap::new();
        for _ in 0..input.count(12)? {
            let slot = u32::decode(input)?;
            args.insert(slot, ChooseArg { weight_set: Decode::decode(input)?, ids: Decode::decode(input)? });
        }
        out.insert(index, args);
    }
    Ok(out)
}

impl CrushMap {
    /// Refuses what stock clients read in another way than this crate does, or do not survive: for maps that come from
    /// outside.
    ///
    /// # Errors
    /// A bucket whose hash is not `CRUSH_HASH_RJENKINS1` (theirs is always 0 then), or a choose_args entry for a slot
    /// behind the last bucket, or with ids for a bucket that is not there (`CrushWrapper::decode` ends the client).
    pub fn check_for_clients(&self) -> Result<(), DecodeError> {
        if let Some(bucket) = self.all_buckets().find(|bucket| bucket.hash != 0) {
            return Err(invalid("crush bucket hash", u64::from(bucket.hash)));
        }
        for (slot, arg) in self.choose_args.values().flatten() {
            let is_readable = match self.buckets.get(*slot as usize) {
                Some(Some(_)) => true,
                Some(None) => arg.ids.is_empty(),
                None => false,
            };
            if !is_readable {
                return Err(invalid("crush weight set's bucket", u64::from(*slot)));
            }
        }
        Ok(())
    }
}

/// What the mapper relies on: items exist, no bucket holds itself at any depth, weight sets fit.
fn check_shape(map: &CrushMap) -> Result<(), DecodeError> {
    for bucket in map.all_buckets() {
        let fits = match &bucket.alg {
            BucketAlg::Tree { node_weights } => node_weights.len() >= 2 * bucket.items.len(),
            BucketAlg::Uniform { .. }
            | BucketAlg::List { .. }
            | BucketAlg::Straw { .. }
            | BucketAlg::Straw2 { .. } => true,
        };
        if !fits {
            return Err(invalid("crush tree bucket", bucket.id as u64));
        }
        for item in &bucket.items {
            let exists = if *item >= 0 { *item < map.max_devices } else { map.bucket(*item).is_some() };
            if !exists {
                return Err(invalid("crush bucket item", *item as u64));
            }
        }
    }
    for (slot, arg) in map.choose_args.values().flatten() {
        let Some(bucket) = map.buckets.get(*slot as usize).and_then(Option::as_ref) else { continue };
        let size = bucket.items.len();
        let fits =
            arg.weight_set.iter().all(|w| w.len() == size) && (arg.ids.is_empty() || arg.ids.len() == size);
        if !fits {
            return Err(invalid("crush weight set", u64::from(*slot)));
        }
    }
    if is_too_deep(map) { Err(invalid("crush hierarchy's depth", 0)) } else { Ok(()) }
}

/// Takes away buckets whose children are all gone, level by level; what stays after [`LEVELS_MAX`] levels
/// lies on a cycle, above one, or too high.
fn is_too_deep(map: &CrushMap) -> bool {
    let mut open: BTreeMap<i32, Vec<i32>> =
        map.all_buckets().map(|b| (b.id, b.items.iter().copied().filter(|i| *i < 0).collect())).collect();
    for _ in 0..LEVELS_MAX {
        let done: Vec<i32> =
            open.iter().filter(|(_, c)| c.iter().all(|i| !open.contains_key(i))).map(|(id, _)| *id).collect();
        if done.is_empty() {
            break;
        }
        done.iter().for_each(|id| {
            open.remove(id);
        });
    }
    !open.is_empty()
}
