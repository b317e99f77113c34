//! The manager's module `status`: which daemons run where, for humans.

use types::Errno;

use crate::{
    commands::{Reply, Request, Row},
    format::{Align, TextTable},
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
    for osd in map.osds().filter(|osd| wanted.as_ref().is_none_or(|wanted| wanted.contains(&osd.0))) {
        let host = mon.committed.osd_metadata.get(&osd).and_then(|facts| facts.get("hostname"));
        let stat = mon.stats.osd(osd);
        let rates = mon.stats.osd_rates(osd);
        let bytes = |kb: Option<u64>| five_wide(kb.unwrap_or(0) << 10, 1024);
        let state = if map.is_up(osd) { "exists,up" } else { "exists" };
        table.row(vec![
            osd.0.to_string(),
            host.cloned().unwrap_or_default(),
            bytes(stat.map(|stat| stat.kb_used)),
            bytes(stat.map(|stat| stat.kb_avail)),
            five_wide(rates.writes, 1000),
            five_wide(rates.write_bytes, 1024),
            five_wide(rates.reads, 1000),
            five_wide(rates.read_bytes, 1024),
            state.to_owned(),
        ]);
    }
    // The last column is as far from the line's end as the others are from each other.
    Reply::text(table.render().replace('\n', "  \n"))
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
