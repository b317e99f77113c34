//! The tree of a JSON document as XML (`XMLFormatter`): an element for each key. JSON does not say how the document
//! and the items of a list are called; Ceph's commands do, and these tables (taken from 16.2).

use serde_json::Value;

/// The outermost element by the command to a monitor.
const ROOTS: &[(&str, &str)] = &[
    ("auth", "auth"),
    ("config", "config"),
    ("config get", "config"),
    ("config help", "option"),
    ("config log", "changesets"),
    ("config ls", "options"),
    ("config-key dump", "config-key store"),
    ("config-key list", "keys"),
    ("config-key ls", "keys"),
    ("device ls", "devices"),
    ("df", "stats"),
    ("features", "features"),
    ("fs dump", "fsmap"),
    ("fs ls", "filesystems"),
    ("fsid", "fsid"),
    ("health", "health"),
    ("log last", "tail"),
    ("mds metadata", "mds_metadata"),
    ("mds stat", "mds_stat"),
    ("mgr dump", "mgrmap"),
    ("mgr metadata", "mgr_metadata"),
    ("mgr module ls", "modules"),
    ("mgr services", "services"),
    ("mgr stat", "stat"),
    ("mgr versions", "ceph_version"),
    ("mon dump", "monmap"),
    ("mon feature ls", "features"),
    ("mon metadata", "mon_metadata"),
    ("mon stat", "monmap"),
    ("mon versions", "ceph_version"),
    ("node ls", "nodes"),
    ("osd blocked-by", "pg_info"),
    ("osd crush class ls", "crush_classes"),
    ("osd crush class ls-osd", "osds"),
    ("osd crush dump", "crush_map"),
    ("osd crush get-device-class", "osd_device_classes"),
    ("osd crush get-tunable", "tunable"),
    ("osd crush ls", "items"),
    ("osd crush rule", "rules"),
    ("osd crush show-tunables", "crush_map_tunables"),
    ("osd crush tree", "crush_tree"),
    ("osd crush weight-set dump", "choose_args"),
    ("osd crush weight-set ls", "weight_sets"),
    ("osd df", "df"),
    ("osd dump", "osdmap"),
    ("osd erasure-code-profile get", "profile"),
    ("osd erasure-code-profile ls", "erasure-code-profiles"),
    ("osd find", "osd_location"),
    ("osd getmaxosd", "getmaxosd"),
    ("osd info", "osds"),
    ("osd ls", "osds"),
    ("osd ls-tree", "osds"),
    ("osd lspools", "pools"),
    ("osd map", "osd_map"),
    ("osd metadata", "osd_metadata"),
    ("osd numa-status", "osds"),
    ("osd ok-to-stop", "ok_to_stop"),
    ("osd perf", "pg_info"),
    ("osd pool get", "pool"),
    ("osd pool ls", "pools"),
    ("osd pool stats", "pool_stats"),
    ("osd safe-to-destroy", "osd_status"),
    ("osd stat", "osdmap"),
    ("osd tree", "tree"),
    ("osd utilization", "utilization"),
    ("osd versions", "ceph_version"),
    ("pg", "pg_info"),
    ("pg map", "pg_map"),
    ("quorum_status", "quorum_status"),
    ("report", "report"),
    ("service dump", "service_map"),
    ("service status", "service_status"),
    ("status", "status"),
    ("time-sync-status", "time_sync"),
    ("version", "version"),
    ("versions", "version"),
];

/// Root elements of answers to commands to a single daemon (`ceph tell osd.N`), by command. For a command that is not
/// listed, such as those for options, the root element has the command's name.
const DAEMON_ROOTS: &[(&str, &str)] = &[
    ("bench", "osd_bench_results"),
    ("cache drop", "cache_drop"),
    ("dump_blocked_ops", "ops_in_flight"),
    ("dump_blocklist", "blocklist"),
    ("dump_historic_ops", "op_history"),
    ("dump_historic_ops_by_duration", "op_history"),
    ("dump_ops_in_flight", "ops_in_flight"),
    ("dump_osd_network", "network_ping_times"),
    ("dump_recovery_reservations", "reservations"),
    ("dump_scrub_reservations", "scrub_reservations"),
    ("dump_watchers", "watchers"),
    ("get_mapped_pools", "mapped_pools"),
    ("ops", "ops_in_flight"),
    ("perf dump", "perfcounter_collection"),
    ("perf histogram dump", "perfcounter_collection"),
    ("perf histogram schema", "perfcounter_collection"),
    ("perf schema", "perfcounter_collection"),
];

/// The items of a list by the list's element; where it matters, behind that of the document.
const ITEMS: &[(&str, &str)] = &[
    ("acting", "osd"),
    ("active", "osd"),
    ("active_clients", "client"),
    ("addrvec", "addr"),
    ("always_on_modules", "module"),
    ("auth_dump", "auth_entities"),
    ("available_modules", "module"),
    ("blocklist", "entry"),
    ("buckets", "bucket"),
    ("changesets", "changeset"),
    ("children", "child"),
    ("crush_classes", "class"),
    ("detail", "detail_item"),
    ("devices", "device"),
    ("disabled_modules", "module"),
    ("enabled_modules", "module"),
    ("enum_allowed", "value"),
    ("erasure-code-profiles", "profile"),
    ("events", "event"),
    ("features/client", "group"),
    ("features/mds", "group"),
    ("features/mgr", "group"),
    ("features/mon", "group"),
    ("features/osd", "group"),
    ("flags", "option"),
    ("flags_set", "flag"),
    ("keys", "key"),
    ("mapped_pools", "pool_id"),
    ("mgr_metadata", "mgr"),
    ("modules", "module"),
    ("mon_metadata", "mon"),
    ("mons", "mon"),
    ("num_pg_by_state", "state"),
    ("ok_become_degraded", "pg"),
    ("op_history/ops", "op"),
    ("ops_in_flight/ops", "op"),
    ("options", "option"),
    ("osd_device_classes", "osd_device_class"),
    ("osd_metadata", "osd"),
    ("osd_perf_infos", "osd"),
    ("osd_stats", "osd_stat"),
    ("osd_xinfo", "xinfo"),
    ("osdmap/osds", "osd_info"),
    ("osds", "osd"),
    ("pacific", "module"),
    ("persistent", "bit_flag"),
    ("pg_map/acting", "acting_osd"),
    ("pg_map/up", "up_osd"),
    ("pg_stats", "pg_stat"),
    ("pgs_by_state", "pgs_by_state_element"),
    ("pool_stats", "pool"),
    ("pools", "pool"),
    ("quorum", "mon"),
    ("quorum_names", "mon"),
    ("required", "bit_flag"),
    ("rules", "rule"),
    ("see_also", "see_also"),
    ("state", "state"),
    ("status/quorum", "rank"),
    ("status/quorum_names", "id"),
    ("steps", "step"),
    ("supported", "bit_flag"),
    ("tail", "entry"),
    ("types", "type"),
    ("up", "osd"),
    ("watchers", "watch"),
];

/// Lists of plain texts and numbers that are called otherwise.
const PLAIN_ITEMS: &[(&str, &str)] = &[("pools", "pool_name"), ("rules", "name")];

fn find<'a>(table: &[(&str, &'a str)], key: &str) -> Option<&'a str> {
    table.iter().find(|(known, _)| *known == key).map(|(_, name)| *name)
}

/// The document's element: by the longest beginning of the command that is known.
fn root_of(prefix: &str) -> &str {
    let ends = prefix.match_indices(' ').map(|(at, _)| at);
    let beginnings = std::iter::once(prefix.len()).chain(ends.collect::<Vec<_>>().into_iter().rev());
    let known = beginnings.filter_map(|end| find(ROOTS, &prefix[..end])).next();
    known.unwrap_or_else(|| prefix.rsplit(' ').next().unwrap_or(prefix))
}

fn item_of<'a>(root: &str, list: &str, items: &[Value]) -> &'a str {
    let is_plain = items.iter().all(|item| !item.is_object() && !item.is_array());
    let plain = if is_plain { find(PLAIN_ITEMS, list) } else { None };
    let known = plain.or_else(|| find(ITEMS, &format!("{root}/{list}"))).or_else(|| find(ITEMS, list));
    known.unwrap_or("item")
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            other => out.push(other),
        }
    }
    out
}

struct Writer<'a> {
    root: &'a str,
    is_pretty: bool,
    out: String,
}

impl Writer<'_> {
    fn indent(&mut self, depth: usize) {
        if self.is_pretty {
            self.out.push_str(&" ".repeat(depth));
        }
    }

    fn end_line(&mut self) {
        if self.is_pretty {
            self.out.push('\n');
        }
    }

    fn section(&mut self, tag: &str, depth: usize, body: impl FnOnce(&mut Self)) {
        self.indent(depth);
        self.out.push_str(&format!("<{tag}>"));
        self.end_line();
        body(self);
        self.indent(depth);
        self.out.push_str(&format!("</{tag}>"));
        self.end_line();
    }

    fn element(&mut self, key: &str, value: &Value, depth: usize) {
        let tag = key.replace(' ', "_");
        let plain = match value {
            Value::Object(map) => {
                return self.section(&tag, depth, |w| {
                    map.iter().for_each(|(key, value)| w.element(key, value, depth + 1));
                });
            }
            Value::Array(items) => {
                let item = item_of(self.root, key, items);
                return self.section(&tag, depth, |w| {
                    items.iter().for_each(|value| w.element(item, value, depth + 1));
                });
            }
            Value::String(text) => escaped(text),
            Value::Null => String::new(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
        };
        self.indent(depth);
        self.out.push_str(&format!("<{tag}>{plain}</{tag}>"));
        self.end_line();
    }
}

/// A monitor's answer to a command as XML, on one line or indented by one.
pub fn xml(prefix: &str, value: &Value, is_pretty: bool) -> String {
    written(root_of(prefix), value, is_pretty)
}

/// A single daemon's answer to a command as XML, on one line or indented by one.
pub fn daemon_xml(prefix: &str, value: &Value, is_pretty: bool) -> String {
    written(find(DAEMON_ROOTS, prefix).unwrap_or(prefix), value, is_pretty)
}

fn written(root: &str, value: &Value, is_pretty: bool) -> String {
    let mut writer = Writer { root, is_pretty, out: String::new() };
    writer.element(root, value, 0);
    writer.out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_and_items_have_cephs_names() {
        let pools = json!(["rbd", "a<b"]);
        let text = "<pools><pool_name>rbd</pool_name><pool_name>a&lt;b</pool_name></pools>";
        assert_eq!(xml("osd pool ls", &pools, false), text);
        let health = json!({"status": "OK", "checks": {}, "mutes": [], "n": 1.5, "is": true});
        let lines = [
            "<health>",
            " <status>OK</status>",
            " <checks>",
            " </checks>",
            " <mutes>",
            " </mutes>",
            " <n>1.5</n>",
            " <is>true</is>",
            "</health>",
            "",
        ];
        assert_eq!(xml("health", &health, true), lines.join("\n"));
        let up = json!({"up": [1], "osds": [{"state": ["up"]}]});
        assert_eq!(xml("pg map", &json!({"up": [1]}), false), "<pg_map><up><up_osd>1</up_osd></up></pg_map>");
        let text = "<osdmap><up><osd>1</osd></up><osds><osd_info><state><state>up</state></state></osd_info></osds></osdmap>";
        assert_eq!(xml("osd dump", &up, false), text);
        assert_eq!(xml("osd crush rule ls", &json!(["r"]), false), "<rules><name>r</name></rules>");
        assert_eq!(daemon_xml("config get", &json!({"a": 1}), false), "<config_get><a>1</a></config_get>");
        assert_eq!(xml("osd nonsense", &json!({}), false), "<nonsense></nonsense>");
    }
}
