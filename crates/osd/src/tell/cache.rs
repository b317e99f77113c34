//! `cache status`, `dump_mempools`: what memory holds that could be read from the device again.
//!
//! Authority: `OSD::asok_command`, `mempool::dump` (16.2). Ceph's names are for what is nearest to them here; pools of
//! memory that are not accounted for here are left out.

use serde_json::{Map, Value, json};
use store::{Cached, MemoryUse};

/// A shard's part. PGs keep nothing of an object between two requests, as Ceph does in object contexts.
pub(super) fn status(cached: Cached) -> Value {
    json!({
        "object_ctx": 0,
        "bluestore_onode": cached.onodes.items,
        "bluestore_buffers": cached.data.bytes,
    })
}

/// A shard's part.
pub(super) fn mempools(cached: Cached) -> Value {
    let pools = [
        ("bluestore_cache_data", cached.data),
        ("bluestore_cache_onode", cached.onodes),
        ("bluestore_cache_meta", cached.pages),
        ("bluestore_cache_other", cached.omap),
    ];
    let show = |held: MemoryUse| json!({"items": held.items, "bytes": held.bytes});
    let total = pools.iter().fold(MemoryUse::default(), |sum, (_, held)| MemoryUse {
        items: sum.items + held.items,
        bytes: sum.bytes + held.bytes,
    });
    let by_pool: Map<String, Value> =
        pools.iter().map(|(name, held)| ((*name).to_owned(), show(*held))).collect();
    json!({"mempool": {"by_pool": by_pool, "total": show(total)}})
}

/// The parts of all shards as one, number by number.
pub(super) fn sum(parts: Vec<Value>) -> Value {
    parts.into_iter().reduce(add).unwrap_or_default()
}

fn add(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Object(a), Value::Object(mut b)) => {
            let both = |(name, a): (String, Value)| {
                let b = b.remove(&name).unwrap_or_default();
                (name, add(a, b))
            };
            Value::Object(a.into_iter().map(both).collect())
        }
        (a, b) => (a.as_u64().unwrap_or(0) + b.as_u64().unwrap_or(0)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_shards_are_added() {
        let cached = Cached {
            data: MemoryUse { items: 2, bytes: 8192 },
            onodes: MemoryUse { items: 3, bytes: 600 },
            ..Cached::default()
        };
        let all = sum(vec![status(cached), status(cached)]);
        assert_eq!(all, json!({"object_ctx": 0, "bluestore_onode": 6, "bluestore_buffers": 16384}));
        let all = sum(vec![mempools(cached), mempools(cached)]);
        assert_eq!(all["mempool"]["by_pool"]["bluestore_cache_onode"], json!({"items": 6, "bytes": 1200}));
        assert_eq!(all["mempool"]["total"], json!({"items": 10, "bytes": 17584}));
    }
}
