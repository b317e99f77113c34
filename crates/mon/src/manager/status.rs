//! The manager's module `status`: which daemons run where, for humans.

use serde_json::{Value, json};
use types::{Errno, OsdId};

use crate::{
    Mon,
    commands::{Reply, Request, Row, state_names},
    format::{Align, TextTable, python_line, python_sorted},
    stats::Rates,
};

pub(crate) const ROWS: &[Row] = &[
    Row {
        sig: "osd status name=bucket,type=CephString,req=false",
        help: "Show the status of OSDs within a bucket, or all",
        module: "mgr",
        perm: "r",
        run: osd_status,
    },
    Row {
        sig: "fs status name=fs,type=CephString,req=false",
        help: "Show the status of a CephFS filesystem",
        module: "mgr",
        perm: "r",
        run: fs_status,
    },
];

/// ` 290M`, `3805M`, `19.7G`, `   0 `: a number in four characters, and the smallest unit that it fits with
/// (`mgr_util.format_units`).
pub(crate) fn five_wide(value: u64, base: u64) -> String {
    const UNITS: [&str; 7] = [" ", "k", "M", "G", "T", "P", "E"];
    let mut at = 0;
    while value / base.pow(at as u32) >= 10_000 && at + 1 < UNITS.len() {
        at += 1;
    }
    if at == 0 {
        return format!("{value:>4} ");
    }
    let text = format!("{:.6}", value as f64 / base.pow(at as u32) as f64);
    // A point at the end says nothing.
    let number = text[..text.len().min(4)].trim_end_matches('.');
    format!("{number:>4}{}", UNITS[at])
}

fn osd_status(req: &mut Request<'_>) -> Reply {
    let (mon, map) = (&*req.mon, req.map());
    let crush = map.crush.map();
    let mut wanted = None;
    if let Some(bucket) = req.args.text("bucket").filter(|bucket| !bucket.is_empty()) {
        let Some(id) = crush.id_of(&bucket) else {
            // The errno as it is, with the words as output: Ceph's module does so.
            let text = format!("Bucket '{bucket}' not found");
            return Reply { result: Errno::ENOENT.0, ..Reply::module(text) };
        };
        let mut below = Vec::new();
        crush.devices_below(id, &mut below);
        wanted = Some(below);
    }
    let osds = map.osds().filter(|osd| wanted.as_ref().is_none_or(|wanted| wanted.contains(&osd.0)));
    let lines: Vec<Line> = osds.map(|osd| Line::of(mon, osd)).collect();
    match req.args.text("format").as_deref() {
        Some("json") => Reply::module(python_line(&json(&lines))),
        Some("json-pretty") => Reply::module(python_sorted(&json(&lines))),
        Some(_) | None => Reply::text(table(&lines)),
    }
}

/// What is told of an OSD.
struct Line {
    osd: OsdId,
    host: String,
    used_bytes: u64,
    avail_bytes: u64,
    rates: Rates,
    state: Vec<&'static str>,
}

impl Line {
    fn of(mon: &Mon, osd: OsdId) -> Line {
        let host = mon.committed.osd_metadata.get(&osd).and_then(|facts| facts.get("hostname"));
        let stat = mon.stats.osd(osd);
        Line {
            osd,
            host: host.cloned().unwrap_or_default(),
            used_bytes: stat.map_or(0, |stat| stat.kb_used << 10),
            avail_bytes: stat.map_or(0, |stat| stat.kb_avail << 10),
            rates: mon.stats.osd_rates(osd),
            state: state_names(mon.committed.osdmap.state(osd)),
        }
    }
}

/// As later releases print it (that of 16.2 has no JSON), which give bytes under the names of KiB.
fn json(lines: &[Line]) -> Value {
    let one = |line: &Line| {
        json!({
            "id": line.osd.0,
            "host name": line.host,
            "kb used": line.used_bytes,
            "kb available": line.avail_bytes,
            "write ops rate": line.rates.writes,
            "write byte rate": line.rates.write_bytes,
            "read ops rate": line.rates.reads,
            "read byte rate": line.rates.read_bytes,
            "state": line.state,
        })
    };
    json!({"OSDs": lines.iter().map(one).collect::<Vec<_>>()})
}

fn table(lines: &[Line]) -> String {
    let (l, r) = (Align::Left, Align::Right);
    let headings = [
        ("ID", r),
        ("HOST", l),
        ("USED", r),
        ("AVAIL", r),
        ("WR OPS", r),
        ("WR DATA", r),
        ("RD OPS", r),
        ("RD DATA", r),
        ("STATE", l),
    ];
    let mut table = TextTable::default().columns(&headings);
    for line in lines {
        table.row(vec![
            line.osd.0.to_string(),
            line.host.clone(),
            five_wide(line.used_bytes, 1024),
            five_wide(line.avail_bytes, 1024),
            five_wide(line.rates.writes, 1000),
            five_wide(line.rates.write_bytes, 1024),
            five_wide(line.rates.reads, 1000),
            five_wide(line.rates.read_bytes, 1024),
            line.state.join(","),
        ]);
    }
    // The last column is as far from the line's end as the others are from each other.
    table.render().replace('\n', "  \n")
}

/// There are no file systems.
fn fs_status(req: &mut Request<'_>) -> Reply {
    match req.args.text("fs").filter(|fs| !fs.is_empty()) {
        Some(fs) => Reply { result: Errno::EINVAL.0, ..Reply::done(format!("Invalid filesystem: {fs}")) },
        None if req.args.text("format").is_some_and(|format| format.starts_with("json")) => {
            Reply::module("{}".to_owned())
        }
        None => Reply::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::five_wide;

    #[test]
    fn numbers_are_narrow() {
        let shown = [0, 999, 304_087_040, 3_989_831_680, 21_152_923_648].map(|value| five_wide(value, 1024));
        assert_eq!(shown, ["   0 ", " 999 ", " 290M", "3805M", "19.7G"]);
    }
}
