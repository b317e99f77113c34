//! `ceph osd pool autoscale-status`: what pools hold of their part of the cluster. Nothing scales by itself
//! here, so that what is advised is what is.

use serde_json::{Value, json};
use types::{MapFlags, OsdMap, PgPool, PoolId};

use super::{Reply, Request, Row};
use crate::{
    Mon,
    format::{Align, TextTable},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd pool autoscale-status name=format,type=CephString,req=false",
        help: "report on pool pg_num sizing recommendation and intent",
        module: "mgr",
        perm: "r",
        run: status,
    },
    Row {
        sig: "osd pool get noautoscale",
        help: "Get the noautoscale flag to see if all pools are setting the autoscaler on or off as well as newly created pools in the future.",
        module: "mgr",
        perm: "r",
        run: flag_get,
    },
    Row {
        sig: "osd pool set noautoscale",
        help: "set the noautoscale for all pools (including newly created pools in the future) and complete all on-going progress events regarding PG-autoscaling.",
        module: "mgr",
        perm: "rw",
        run: flag_set,
    },
    Row {
        sig: "osd pool unset noautoscale",
        help: "Unset the noautoscale flag so all pools will have autoscale enabled (including newly created pools in the future).",
        module: "mgr",
        perm: "rw",
        run: flag_unset,
    },
];

fn flag_get(req: &mut Request<'_>) -> Reply {
    let is_on = req.map().has_flag(MapFlags::NOAUTOSCALE);
    Reply::done(format!("noautoscale is {}", if is_on { "on" } else { "off" }))
}

fn flag_set(req: &mut Request<'_>) -> Reply {
    if req.next_map().has_flag(MapFlags::NOAUTOSCALE) {
        return Reply::done("noautoscale is already set!");
    }
    change_flag(req, true);
    Reply::done("noautoscale is set, all pools now have autoscale off")
}

fn flag_unset(req: &mut Request<'_>) -> Reply {
    if !req.next_map().has_flag(MapFlags::NOAUTOSCALE) {
        return Reply::done("noautoscale is already unset!");
    }
    change_flag(req, false);
    Reply::done("noautoscale is unset, all pools now back to its previous mode")
}

fn change_flag(req: &mut Request<'_>, is_set: bool) {
    let flags = req.next_map().flags.with(MapFlags::NOAUTOSCALE, is_set);
    req.mon.change_osdmap(req.wall, |_, inc| inc.new_flags = Some(flags));
}

/// A pool's line.
struct Line<'a> {
    id: PoolId,
    name: &'a str,
    pool: &'a PgPool,
    /// Bytes that users stored.
    stored: u64,
    /// Bytes of all devices that the pool's rule may take.
    capacity: u64,
    /// The bucket that the rule starts from.
    root: i32,
    /// `on`, `off` or `warn`.
    mode: &'static str,
}

impl Line<'_> {
    fn rate(&self) -> f64 {
        f64::from(self.pool.size)
    }

    fn raw_used(&self) -> f64 {
        self.stored as f64 * self.rate()
    }

    fn ratio(&self) -> f64 {
        if self.capacity == 0 { 0.0 } else { self.raw_used() / self.capacity as f64 }
    }
}

fn root_of(map: &OsdMap, pool: &PgPool) -> i32 {
    let take =
        map.crush.map().rule(pool.crush_rule).and_then(|rule| {
            rule.steps.iter().find(|step| step.op == crush::step::TAKE).map(|step| step.arg1)
        });
    take.unwrap_or(0)
}

fn lines(mon: &Mon) -> Vec<Line<'_>> {
    let map = &mon.committed.osdmap;
    let is_off = map.has_flag(MapFlags::NOAUTOSCALE);
    let line = |(id, pool): (&PoolId, _)| {
        let root = root_of(map, pool);
        let mut devices = Vec::new();
        map.crush.map().devices_below(root, &mut devices);
        let kb: u64 = devices.iter().filter_map(|id| mon.stats.osd(types::OsdId(*id))).map(|s| s.kb).sum();
        Line {
            id: *id,
            name: map.pool_name(*id).unwrap_or_default(),
            pool,
            stored: mon.stats.pool_sum(*id).bytes,
            capacity: kb << 10,
            root,
            mode: "",
        }
    };
    let mode = |line: &Line<'_>| if is_off { "off" } else { line.pool.pg_autoscale_mode.name() };
    map.pools.iter().map(line).map(|line| Line { mode: mode(&line), ..line }).collect()
}

fn line_json(line: &Line<'_>) -> Value {
    json!({
        "actual_capacity_ratio": line.ratio(),
        "actual_raw_used": line.raw_used(),
        "bias": 1.0,
        "bulk": false,
        "capacity_ratio": line.ratio(),
        "crush_root_id": line.root,
        "effective_target_ratio": 0.0,
        "logical_used": line.stored,
        "pg_autoscale_mode": line.mode,
        "pg_num_final": line.pool.pg_num,
        "pg_num_ideal": line.pool.pg_num,
        "pg_num_target": line.pool.pg_num_target,
        "pool_id": line.id.0,
        "pool_name": line.name,
        "raw_used": line.raw_used(),
        "raw_used_rate": line.rate(),
        "subtree_capacity": line.capacity,
        "target_bytes": 0,
        "target_ratio": 0.0,
        "would_adjust": false,
    })
}

/// `19`, `12288M`: four significant digits, as the manager's module prints sizes.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let (mut n, mut unit) = (bytes, 0);
    while n >= 100_000 && unit + 1 < UNITS.len() {
        n /= 1024;
        unit += 1;
    }
    format!("{n}{}", UNITS[unit])
}

fn status(req: &mut Request<'_>) -> Reply {
    let lines = lines(req.mon);
    let json = || lines.iter().map(line_json).collect();
    let text = || {
        let (l, r) = (Align::Left, Align::Right);
        let headings = [
            ("POOL", l),
            ("SIZE", r),
            ("TARGET SIZE", r),
            ("RATE", r),
            ("RAW CAPACITY", r),
            ("RATIO", r),
            ("TARGET RATIO", r),
            ("EFFECTIVE RATIO", r),
            ("BIAS", r),
            ("PG_NUM", r),
            ("NEW PG_NUM", r),
            ("AUTOSCALE", l),
            ("BULK", l),
        ];
        let mut table = TextTable::default().columns(&headings);
        for line in &lines {
            let mut cells = vec![line.name.to_owned(), size(line.stored), String::new()];
            cells.extend([
                format!("{:.1}", line.rate()),
                size(line.capacity),
                format!("{:.4}", line.ratio()),
            ]);
            cells.extend([String::new(), String::new(), "1.0".to_owned(), line.pool.pg_num.to_string()]);
            let mode = line.mode.to_owned();
            cells.extend([String::new(), mode, "False".to_owned()]);
            table.row(cells);
        }
        table.render()
    };
    Reply::show(req.args, json, text)
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_few_digits() {
        assert_eq!([19, 12 << 30, 99_999].map(size), ["19", "12288M", "99999"]);
    }
}
