//! `ceph osd pool autoscale-status`: how much of their part of the cluster pools hold, and how many PGs they should
//! have.

use serde_json::{Value, json};
use types::{MapFlags, OsdMap, PgPool, PoolFlags};

use super::{Reply, Request, Row};
use crate::{
    format::{Align, TextTable},
    manager::pg_autoscaler::Advice,
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

fn line_json(map: &OsdMap, pool: &PgPool, advice: &Advice) -> Value {
    let (raw_used, expected) = (advice.raw_used(), advice.raw_expected());
    json!({
        "actual_capacity_ratio": advice.part(raw_used),
        "actual_raw_used": raw_used,
        "bias": advice.bias,
        "bulk": pool.flags.has(PoolFlags::BULK),
        "capacity_ratio": advice.part(expected).max(advice.effective_ratio),
        "crush_root_id": advice.root,
        "effective_target_ratio": advice.effective_ratio,
        "logical_used": advice.stored,
        "pg_autoscale_mode": advice.mode.name(),
        "pg_num_final": advice.pg_num,
        "pg_num_ideal": advice.ideal as u64,
        "pg_num_target": pool.pg_num_target,
        "pool_id": advice.id.0,
        "pool_name": map.pool_name(advice.id).unwrap_or_default(),
        "raw_used": expected,
        "raw_used_rate": advice.rate,
        "subtree_capacity": advice.capacity,
        "target_bytes": advice.target_bytes,
        "target_ratio": advice.target_ratio,
        "would_adjust": advice.would_adjust(),
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
    let map = &req.mon.committed.osdmap;
    let lines = req.mon.pg_advice();
    let json = || lines.iter().map(|(pool, advice)| line_json(map, pool, advice)).collect();
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
        let some = |is_there: bool, text: String| if is_there { text } else { String::new() };
        for (pool, line) in &lines {
            table.row(vec![
                map.pool_name(line.id).unwrap_or_default().to_owned(),
                size(line.stored),
                some(line.target_bytes > 0, size(line.target_bytes)),
                format!("{:.1}", line.rate),
                size(line.capacity),
                format!("{:.4}", line.part(line.raw_expected()).max(line.effective_ratio)),
                some(line.target_ratio > 0.0, format!("{:.4}", line.target_ratio)),
                some(line.effective_ratio > 0.0, format!("{:.4}", line.effective_ratio)),
                format!("{:?}", line.bias),
                pool.pg_num_target.to_string(),
                some(line.would_adjust(), line.pg_num.to_string()),
                line.mode.name().to_owned(),
                if pool.flags.has(PoolFlags::BULK) { "True" } else { "False" }.to_owned(),
            ]);
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
