//! The CRUSH map: buckets, rules, names, tunables (`crush/crush.h`, `CrushWrapper`).

use std::collections::{BTreeMap, BTreeSet};

/// Weights are 16.16 fixed point: this is 1.0.
pub const WEIGHT_ONE: u32 = 0x1_0000;

/// How a bucket chooses among its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketAlg {
    /// All items weigh the same.
    Uniform {
        /// That weight.
        item_weight: u32,
    },
    /// Items were added one after another; each with the sum of weights up to it.
    List {
        /// Weight of each item.
        item_weights: Vec<u32>,
        /// Sum of weights of it and all before.
        sum_weights: Vec<u32>,
    },
    /// A binary tree of weights.
    Tree {
        /// Weights of the nodes.
        node_weights: Vec<u32>,
    },
    /// The first straws.
    Straw {
        /// Weight of each item.
        item_weights: Vec<u32>,
        /// Length of each straw.
        straws: Vec<u32>,
    },
    /// Straws drawn so that a changed weight moves only what it must.
    Straw2 {
        /// Weight of each item.
        item_weights: Vec<u32>,
    },
}

impl BucketAlg {
    /// `CRUSH_BUCKET_*`.
    pub fn number(&self) -> u8 {
        match self {
            BucketAlg::Uniform { .. } => 1,
            BucketAlg::List { .. } => 2,
            BucketAlg::Tree { .. } => 3,
            BucketAlg::Straw { .. } => 4,
            BucketAlg::Straw2 { .. } => 5,
        }
    }

    /// The algorithm's name in text maps.
    pub fn name(&self) -> &'static str {
        match self {
            BucketAlg::Uniform { .. } => "uniform",
            BucketAlg::List { .. } => "list",
            BucketAlg::Tree { .. } => "tree",
            BucketAlg::Straw { .. } => "straw",
            BucketAlg::Straw2 { .. } => "straw2",
        }
    }
}

/// A node of the hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Negative.
    pub id: i32,
    /// Its type's number (host, rack, …), never 0.
    pub kind: u16,
    /// How it chooses.
    pub alg: BucketAlg,
    /// 0: rjenkins1.
    pub hash: u8,
    /// Sum of its items' weights.
    pub weight: u32,
    /// Devices (0 and up) and buckets (negative).
    pub items: Vec<i32>,
}

impl Bucket {
    /// The weight of the item at `index`.
    pub fn item_weight(&self, index: usize) -> u32 {
        match &self.alg {
            BucketAlg::Uniform { item_weight } => *item_weight,
            BucketAlg::List { item_weights, .. }
            | BucketAlg::Straw { item_weights, .. }
            | BucketAlg::Straw2 { item_weights } => item_weights[index],
            BucketAlg::Tree { node_weights } => node_weights.get(2 * index + 1).copied().unwrap_or(0),
        }
    }
}

/// One step of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// `CRUSH_RULE_*`, see [`step`].
    pub op: u32,
    /// First argument.
    pub arg1: i32,
    /// Second argument.
    pub arg2: i32,
}

/// `CRUSH_RULE_*`.
#[allow(missing_docs, reason = "Ceph's own names")]
pub mod step {
    pub const NOOP: u32 = 0;
    pub const TAKE: u32 = 1;
    pub const CHOOSE_FIRSTN: u32 = 2;
    pub const CHOOSE_INDEP: u32 = 3;
    pub const EMIT: u32 = 4;
    pub const CHOOSELEAF_FIRSTN: u32 = 6;
    pub const CHOOSELEAF_INDEP: u32 = 7;
    pub const SET_CHOOSE_TRIES: u32 = 8;
    pub const SET_CHOOSELEAF_TRIES: u32 = 9;
    pub const SET_CHOOSE_LOCAL_TRIES: u32 = 10;
    pub const SET_CHOOSE_LOCAL_FALLBACK_TRIES: u32 = 11;
    pub const SET_CHOOSELEAF_VARY_R: u32 = 12;
    pub const SET_CHOOSELEAF_STABLE: u32 = 13;
}

/// How to choose OSDs for the pools of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Older than rule ids; equal to the id.
    pub ruleset: u8,
    /// Pool type: 1 replicated, 3 erasure.
    pub kind: u8,
    /// Smallest pool size.
    pub min_size: u8,
    /// Largest pool size.
    pub max_size: u8,
    /// The steps.
    pub steps: Vec<Step>,
}

/// What trades compatibility for balance; [`Tunables::default`] is Ceph's `optimal` (jewel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Retries in the same bucket.
    pub choose_local_tries: u32,
    /// Retries by permutation in the same bucket.
    pub choose_local_fallback_tries: u32,
    /// Retries from the start.
    pub choose_total_tries: u32,
    /// A leaf choice is tried once below a failed domain.
    pub chooseleaf_descend_once: u32,
    /// The leaf choice depends on the attempt.
    pub chooseleaf_vary_r: u8,
    /// Version of the straw lengths' calculation.
    pub straw_calc_version: u8,
    /// Bit set of bucket algorithms that clients know.
    pub allowed_bucket_algs: u32,
    /// The leaf choice does not depend on the position.
    pub chooseleaf_stable: u8,
}

impl Default for Tunables {
    fn default() -> Self {
        Tunables::JEWEL
    }
}

impl Tunables {
    /// Profiles by name, the newest first: what differs from it is older.
    const PROFILES: &'static [(&'static str, Tunables)] = &[
        ("jewel", Tunables::JEWEL),
        ("hammer", Tunables { chooseleaf_stable: 0, ..Tunables::JEWEL }),
        ("firefly", Tunables { chooseleaf_stable: 0, allowed_bucket_algs: 22, ..Tunables::JEWEL }),
        (
            "bobtail",
            Tunables {
                chooseleaf_stable: 0,
                chooseleaf_vary_r: 0,
                allowed_bucket_algs: 22,
                ..Tunables::JEWEL
            },
        ),
        (
            "argonaut",
            Tunables {
                choose_local_tries: 2,
                choose_local_fallback_tries: 5,
                choose_total_tries: 19,
                chooseleaf_descend_once: 0,
                chooseleaf_vary_r: 0,
                straw_calc_version: 0,
                allowed_bucket_algs: 22,
                chooseleaf_stable: 0,
            },
        ),
    ];

    const JEWEL: Tunables = Tunables {
        choose_local_tries: 0,
        choose_local_fallback_tries: 0,
        choose_total_tries: 50,
        chooseleaf_descend_once: 1,
        chooseleaf_vary_r: 1,
        straw_calc_version: 1,
        allowed_bucket_algs: 54,
        chooseleaf_stable: 1,
    };

    /// The tunables of a profile. The version of the straws' calculation is no part of them, but for `legacy`.
    pub fn of_profile(&self, name: &str) -> Option<Tunables> {
        let name = match name {
            "optimal" | "default" => "jewel",
            "legacy" => "argonaut",
            other => other,
        };
        let (_, found) = Tunables::PROFILES.iter().find(|(profile, _)| *profile == name)?;
        let straw_calc_version = if name == "argonaut" { 0 } else { self.straw_calc_version };
        Some(Tunables { straw_calc_version, ..*found })
    }

    /// The profile that these are, `unknown` for none.
    pub fn profile(&self) -> &'static str {
        let is =
            |found: &Tunables| Tunables { straw_calc_version: self.straw_calc_version, ..*found } == *self;
        Tunables::PROFILES.iter().find(|(_, found)| is(found)).map_or("unknown", |(name, _)| *name)
    }
}

/// Other weights and ids for a bucket's items (`crush_choose_arg`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChooseArg {
    /// Weights by position in the result; the last serves all positions behind.
    pub weight_set: Vec<Vec<u32>>,
    /// Ids to hash instead of the items'; empty for none.
    pub ids: Vec<i32>,
}

/// A whole map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrushMap {
    /// Buckets by slot: the bucket with id -1 - n is in slot n.
    pub buckets: Vec<Option<Bucket>>,
    /// Rules by id.
    pub rules: Vec<Option<Rule>>,
    /// Above every device id.
    pub max_devices: i32,
    /// Names of types; 0 is the devices' (`osd`).
    pub type_names: BTreeMap<i32, String>,
    /// Names of devices and buckets.
    pub names: BTreeMap<i32, String>,
    /// Names of rules.
    pub rule_names: BTreeMap<i32, String>,
    /// See there.
    pub tunables: Tunables,
    /// Class of devices, and of the shadow buckets made for them.
    pub classes: BTreeMap<i32, i32>,
    /// Names of classes.
    pub class_names: BTreeMap<i32, String>,
    /// For a bucket: its shadow by class.
    pub class_buckets: BTreeMap<i32, BTreeMap<i32, i32>>,
    /// Weight sets by pool, -1 for all; by bucket slot.
    pub choose_args: BTreeMap<i64, BTreeMap<u32, ChooseArg>>,
}

impl CrushMap {
    /// The bucket with that (negative) id.
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        self.buckets.get(slot(id)?)?.as_ref()
    }

    pub(crate) fn bucket_mut(&mut self, id: i32) -> Option<&mut Bucket> {
        self.buckets.get_mut(slot(id)?)?.as_mut()
    }

    /// The rule with that id.
    pub fn rule(&self, id: u8) -> Option<&Rule> {
        self.rules.get(usize::from(id))?.as_ref()
    }

    /// All buckets.
    pub fn all_buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.buckets.iter().flatten()
    }

    /// The id of a bucket or device by its name.
    pub fn id_of(&self, name: &str) -> Option<i32> {
        self.names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }

    /// The number of a type by its name.
    pub fn type_of(&self, name: &str) -> Option<i32> {
        self.type_names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }

    /// The id of a rule by its name.
    pub fn rule_of(&self, name: &str) -> Option<u8> {
        let (id, _) = self.rule_names.iter().find(|(_, n)| *n == name)?;
        u8::try_from(*id).ok().filter(|id| self.rule(*id).is_some())
    }

    /// The id of a class by its name.
    pub fn class_of(&self, name: &str) -> Option<i32> {
        self.class_names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }

    /// The class of a device, by name.
    pub fn device_class(&self, device: i32) -> Option<&str> {
        self.class_names.get(self.classes.get(&device)?).map(String::as_str)
    }

    /// True for a shadow bucket: made for a device class, its name has a `~`.
    pub fn is_shadow(&self, id: i32) -> bool {
        self.names.get(&id).is_some_and(|name| name.contains('~'))
    }

    /// The bucket that holds `id`; shadows do not count. This looks through all buckets: for many items, there is
    /// [`holders`](Self::holders).
    pub fn parent_of(&self, id: i32) -> Option<i32> {
        self.all_buckets().find(|b| b.items.contains(&id) && !self.is_shadow(b.id)).map(|b| b.id)
    }

    /// For each item the bucket that holds it, as [`parent_of`](Self::parent_of) tells it, and its index there: for
    /// callers that ask for many items.
    pub fn holders(&self) -> BTreeMap<i32, (i32, usize)> {
        let mut out = BTreeMap::new();
        for bucket in self.all_buckets().filter(|b| !self.is_shadow(b.id)) {
            for (at, item) in bucket.items.iter().enumerate() {
                out.entry(*item).or_insert((bucket.id, at));
            }
        }
        out
    }

    /// The weight of an item in the bucket that holds it.
    pub fn item_weight(&self, id: i32) -> Option<u32> {
        let parent = self.bucket(self.parent_of(id)?)?;
        parent.items.iter().position(|item| *item == id).map(|at| parent.item_weight(at))
    }

    /// Buckets that no other holds, without shadows, by id descending (the oldest first).
    pub fn roots(&self) -> Vec<i32> {
        let own = || self.all_buckets().filter(|b| !self.is_shadow(b.id));
        let held: BTreeSet<i32> = own().flat_map(|b| &b.items).copied().collect();
        own().map(|b| b.id).filter(|id| !held.contains(id)).collect()
    }

    /// The place of a device: type name to bucket name, nearest first.
    pub fn location(&self, id: i32) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let mut at = id;
        while let Some(parent) = self.parent_of(at) {
            let kind = self.bucket(parent).map_or(0, |b| i32::from(b.kind));
            let kind_name = self.type_names.get(&kind).cloned().unwrap_or_default();
            out.push((kind_name, self.names.get(&parent).cloned().unwrap_or_default()));
            at = parent;
            if out.len() > self.buckets.len() {
                break;
            }
        }
        out
    }

    /// The weight set to use for a pool: its own, or the one for all.
    pub fn choose_args_of(&self, pool: i64) -> Option<&BTreeMap<u32, ChooseArg>> {
        self.choose_args.get(&pool).or_else(|| self.choose_args.get(&-1))
    }
}

/// The slot of a bucket id.
pub(crate) fn slot(id: i32) -> Option<usize> {
    usize::try_from(-1i64 - i64::from(id)).ok()
}
