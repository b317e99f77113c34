//! `loligo store dump`: what a store holds, as JSON or for people.

use std::ops::Bound;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use store::{DeviceRole, Inspected, LayoutExtent, ObjectLayout, ObjectStore, OmapMost};
use types::{CollId, HObject, PgId, pretty_json};

use super::{StoreTarget, identity_json, inspection::Inspection};

/// What to show.
#[derive(Default)]
pub struct DumpOptions {
    /// Only this collection: `POOL.SEED`, the seed in hex, as PGs are named; `meta` for the OSD's own.
    pub collection: Option<String>,
    /// List the objects.
    pub has_objects: bool,
    /// Everything about the objects of this name.
    pub object: Option<String>,
    /// The journal's records.
    pub has_journal: bool,
    /// JSON instead of a table.
    pub is_json: bool,
}

/// Prints it.
pub fn store_dump(target: &StoreTarget, options: &DumpOptions) -> Result<()> {
    let mut inspection = Inspection::open(target)?;
    let only = options.collection.as_deref().map(parse_collection).transpose()?;
    let mut doc = json!({"superblock": identity_json(&inspection.inspected)});
    let colls: Vec<CollId> = inspection.inspected.store.collections();
    let colls = colls.into_iter().filter(|coll| only.is_none_or(|only| only == *coll));
    let colls: Vec<Value> =
        colls.map(|coll| collection_json(&mut inspection, coll, options)).collect::<Result<_>>()?;
    if let Some(name) = &options.object
        && colls.iter().all(|coll| coll["objects"].as_array().is_none_or(Vec::is_empty))
    {
        bail!("there is no object {name}");
    }
    doc["collections"] = Value::Array(colls);
    if options.has_journal {
        doc["journal"] = journal_json(&inspection.inspected);
    }
    if options.is_json {
        println!("{}", pretty_json(&doc));
    } else {
        print!("{}", table(&doc, 0));
    }
    Ok(())
}

fn parse_collection(text: &str) -> Result<CollId> {
    if text == "meta" {
        return Ok(CollId::META);
    }
    let pgid = PgId::parse(text).with_context(|| format!("{text} is not a collection: 1.a, or meta"))?;
    Ok(CollId::pg(pgid))
}

fn collection_name(coll: CollId) -> String {
    if coll == CollId::META { "meta".to_owned() } else { coll.0.to_string() }
}

fn collection_json(inspection: &mut Inspection, coll: CollId, options: &DumpOptions) -> Result<Value> {
    let (mut count, mut bytes) = (0u64, 0u64);
    let mut objects = Vec::new();
    let mut names = inspection.objects_after(coll, None)?;
    while let Some(last) = names.last().cloned() {
        for name in &names {
            count += 1;
            let layout = inspection.ask(|store| store.layout(coll, name))?.unwrap_or_default();
            bytes = bytes.saturating_add(layout.size);
            match &options.object {
                Some(wanted) if name.oid == wanted.as_bytes() => {
                    objects.push(object_json(inspection, coll, name, &layout)?);
                }
                None if options.has_objects => objects.push(summary_json(name, &layout)),
                Some(_) | None => {}
            }
        }
        names = inspection.objects_after(coll, Some(&last))?;
    }
    let mut out = json!({"collection": collection_name(coll), "object_count": count, "bytes": bytes});
    if options.has_objects || options.object.is_some() {
        out["objects"] = Value::Array(objects);
    }
    Ok(out)
}

/// Names may be any bytes: those that are no ASCII text are escaped.
fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn summary_json(name: &HObject, layout: &ObjectLayout) -> Value {
    json!({
        "object": name.to_string(),
        "name": text(&name.oid),
        "size": layout.size,
        "extent_count": layout.extents.len(),
        "pending_bytes": layout.pending.iter().map(|(_, len)| len).sum::<u64>(),
    })
}

fn object_json(
    inspection: &mut Inspection,
    coll: CollId,
    name: &HObject,
    layout: &ObjectLayout,
) -> Result<Value> {
    let extent = |extent: &LayoutExtent| {
        json!({
            "offset": extent.offset,
            "bytes": extent.crcs.len() * codec::BLOCK_BYTES,
            "device_offset": extent.device_offset,
            "crc32c": extent.crcs.iter().map(|crc| format!("{crc:08x}")).collect::<Vec<_>>(),
        })
    };
    let pairs = |pairs: Vec<(bytes::Bytes, bytes::Bytes)>| {
        pairs.into_iter().map(|(key, value)| (text(&key), Value::from(text(&value)))).collect::<Value>()
    };
    let mut out = summary_json(name, layout);
    out["namespace"] = text(&name.nspace).into();
    out["locator"] = text(&name.key).into();
    out["snap"] = name.snap.to_string().into();
    out["extents"] = layout.extents.iter().map(extent).collect();
    out["pending"] =
        layout.pending.iter().map(|(offset, bytes)| json!({"offset": offset, "bytes": bytes})).collect();
    out["xattrs"] = pairs(inspection.ask(|store| store.xattrs(coll, name))?);
    out["omap_header"] = text(&inspection.ask(|store| store.omap_header(coll, name))?).into();
    let omap = inspection.ask(|store| store.omap_range(coll, name, Bound::Unbounded, OmapMost::ALL))?;
    out["omap"] = pairs(omap);
    Ok(out)
}

fn journal_json(inspected: &Inspected) -> Value {
    let records = inspected.records().iter().map(|record| {
        let txns = record.txns.iter().enumerate().map(|(at, (coll, ops))| {
            json!({
                "transaction": record.first_txn + at as u64,
                "collection": collection_name(*coll),
                "ops": ops,
            })
        });
        json!({
            "offset": DeviceRole::of(record.offset).1,
            "bytes": record.bytes,
            "sequence": record.sequence,
            "transactions": txns.collect::<Vec<_>>(),
        })
    });
    records.collect()
}

/// A document for people: names and values, a list's items as rows.
fn table(doc: &Value, depth: usize) -> String {
    let pad = "  ".repeat(depth);
    match doc {
        Value::Object(map) => {
            let line = |(key, value): (&String, &Value)| match value {
                Value::Object(inner) if inner.is_empty() => format!("{pad}{key}: none\n"),
                Value::Array(items) if items.is_empty() => format!("{pad}{key}: none\n"),
                Value::Array(items) if items.iter().all(|item| !item.is_object()) => {
                    let items: Vec<String> = items.iter().map(plain).collect();
                    format!("{pad}{key}: {}\n", items.join(", "))
                }
                Value::Object(_) | Value::Array(_) => format!("{pad}{key}:\n{}", table(value, depth + 1)),
                _ => format!("{pad}{key}: {}\n", plain(value)),
            };
            map.iter().map(line).collect()
        }
        Value::Array(items) => items.iter().map(|item| row(item, depth)).collect(),
        other => format!("{pad}{}\n", plain(other)),
    }
}

/// An item on one line if it is flat.
fn row(item: &Value, depth: usize) -> String {
    let pad = "  ".repeat(depth);
    match item.as_object() {
        Some(map) if map.values().all(|value| !value.is_object() && !value.is_array()) => {
            let parts: Vec<String> =
                map.iter().map(|(key, value)| format!("{key} {}", plain(value))).collect();
            format!("{pad}{}\n", parts.join("  "))
        }
        Some(_) => format!("{pad}-\n{}", table(item, depth + 1)),
        None => format!("{pad}{}\n", plain(item)),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
