//! What clients do with the images of chosen pools, as the module `rbd_support` counts it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use messages::ImageKey;
use types::{OsdMap, PoolId};

use super::page::{Kind::Counter, Page};
use crate::{
    Mon,
    manager::{modules, rbd_support::rbd_pools},
};

const POOLS: &str = "mgr/prometheus/rbd_stats_pools";
const REFRESH: &str = "mgr/prometheus/rbd_stats_pools_refresh_interval";
const DEFAULT_REFRESH: Duration = Duration::from_secs(300);

/// Families, each with the place of its number among an image's counters. Latencies are in nanoseconds.
const FAMILIES: [(&str, &str, usize); 8] = [
    ("rbd_write_ops", "Writes to an image", 0),
    ("rbd_read_ops", "Reads of an image", 1),
    ("rbd_write_bytes", "Bytes written to an image", 2),
    ("rbd_read_bytes", "Bytes read of an image", 3),
    ("rbd_write_latency_sum", "How long writes to an image took Total", 4),
    ("rbd_write_latency_count", "How long writes to an image took Count", 0),
    ("rbd_read_latency_sum", "How long reads of an image took Total", 5),
    ("rbd_read_latency_count", "How long reads of an image took Count", 1),
];

/// Pools and namespaces, as the option names them: `pool`, `pool/namespace` or `*` for all pools of RBD.
#[derive(Debug, Default)]
struct Chosen(
    /// By pool: its namespaces; none for all of them.
    BTreeMap<PoolId, Option<BTreeSet<String>>>,
);

impl Chosen {
    fn parse(text: &str, map: &OsdMap) -> Chosen {
        let mut chosen = BTreeMap::new();
        for word in words(text) {
            let (pool, nspace) = word.split_once('/').unwrap_or((word, ""));
            let nspace = Some(nspace).filter(|nspace| !matches!(*nspace, "" | "*"));
            let pools = match pool {
                "*" => rbd_pools(map),
                _ => map.pool_by_name(pool).map(|(id, _)| id).into_iter().collect(),
            };
            for pool in pools {
                let within = chosen.entry(pool).or_insert_with(|| Some(BTreeSet::new()));
                match nspace {
                    None => *within = None,
                    Some(nspace) => {
                        if let Some(names) = within {
                            names.insert(nspace.to_owned());
                        }
                    }
                }
            }
        }
        Chosen(chosen)
    }

    fn has(&self, image: &ImageKey) -> bool {
        let within = self.0.get(&image.pool);
        within.is_some_and(|names| names.as_ref().is_none_or(|names| names.contains(&image.nspace)))
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty())
}

impl Mon {
    /// True while images are told of, so that OSDs have to count what is done with them.
    pub(crate) fn tells_of_images(&self) -> bool {
        let chosen = modules::is_enabled(self, "prometheus").then(|| self.module_option(POOLS)).flatten();
        chosen.is_some_and(|text| words(&text).next().is_some())
    }

    /// How often the names of images are read again.
    pub(crate) fn image_names_interval(&self) -> Duration {
        let chosen = self.module_option(REFRESH).and_then(|text| text.parse::<i64>().ok());
        chosen.map_or(DEFAULT_REFRESH, |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }
}

/// Families of the images that are told of and have done something.
pub(super) fn images(mon: &Mon, page: &mut Page) {
    let map = &mon.committed.osdmap;
    let chosen = Chosen::parse(&mon.module_option(POOLS).unwrap_or_default(), map);
    let known = mon.image_counters().filter(|(image, _, _)| chosen.has(image));
    let shown: Vec<_> = known
        .filter_map(|(image, name, counters)| Some((map.pool_name(image.pool)?, image, name, counters)))
        .collect();
    if shown.is_empty() {
        return;
    }
    for (family, help, at) in FAMILIES {
        page.family(family, Counter, help);
        for (pool, image, name, counters) in &shown {
            let labels = [("pool", *pool), ("namespace", image.nspace.as_str()), ("image", *name)];
            page.sample(&labels, counters[at] as f64);
        }
    }
}
