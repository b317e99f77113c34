//! `ceph pg dump` as tables.

use types::{OsdStat, PgStat, PgStatSum, PoolId, UTime};

use super::{
    pg::{OMAP_NOTE, all_stats},
    pg_dump::log_size,
};
use crate::{
    Mon,
    format::{self, Align, TextTable},
};

/// `pg dump pgs_brief`.
pub(super) fn brief_text(stats: &[PgStat]) -> String {
    let (l, r) = (Align::Left, Align::Right);
    let mut table = TextTable::default();
    for (heading, align) in
        [("PG_STAT", l), ("STATE", l), ("UP", l), ("UP_PRIMARY", r), ("ACTING", l), ("ACTING_PRIMARY", r)]
    {
        table = table.column(heading, l, align);
    }
    for stat in stats {
        table.row(vec![
            stat.pgid.to_string(),
            stat.state.to_string(),
            format::list(&stat.up),
            stat.up_primary.to_string(),
            format::list(&stat.acting),
            stat.acting_primary.to_string(),
        ]);
    }
    table.render()
}

/// Headings of the columns of sums.
const SUMS: [&str; 10] = [
    "OBJECTS",
    "MISSING_ON_PRIMARY",
    "DEGRADED",
    "MISPLACED",
    "UNFOUND",
    "BYTES",
    "OMAP_BYTES*",
    "OMAP_KEYS*",
    "LOG",
    "DISK_LOG",
];

/// The parts asked for, as tables.
pub(super) fn parts_text(mon: &Mon, wall: UTime, wanted: &[String]) -> String {
    let stats = all_stats(mon);
    let wants = |name: &str| wanted.iter().any(|w| w == name);
    let is_all = wanted.is_empty() || wants("all");
    let head = format!("version {}\nstamp {wall}\nlast_osdmap_epoch 0\nlast_pg_scan 0\n", mon.stats.version);
    let log = log_size(stats.iter());
    let sum = vec![("sum".to_owned(), mon.stats.total(), log)];
    if is_all {
        // Under the PGs the sums go without headings: their columns are the same.
        let rows = sums_text("", pool_rows(mon, &stats)) + &sums_text("", sum);
        return head + &pgs_text(&stats) + &rows + &osds_text(mon) + OMAP_NOTE;
    }
    if wants("summary") || wants("sum") {
        return head + &sums_text("PG_STAT", sum) + &osd_sum_text(mon) + OMAP_NOTE;
    }
    let mut out = String::new();
    if wants("pgs") {
        out.push_str(&pgs_text(&stats));
    }
    if wants("pools") {
        let heading = if wants("pgs") { "" } else { "POOLID" };
        out.push_str(&sums_text(heading, pool_rows(mon, &stats)));
    }
    if wants("osds") {
        out.push_str(&osds_text(mon));
    }
    if wants("pgs") || wants("pools") {
        out.push_str(OMAP_NOTE);
    }
    out
}

fn pool_rows(mon: &Mon, stats: &[PgStat]) -> Vec<(String, PgStatSum, u64)> {
    let row = |id: &PoolId| {
        let log = log_size(stats.iter().filter(|s| s.pgid.pool == *id));
        (id.to_string(), mon.stats.pool_sum(*id), log)
    };
    mon.committed.osdmap.pools.keys().map(row).collect()
}

/// The sum over the OSDs alone.
fn osd_sum_text(mon: &Mon) -> String {
    let stat = mon.stats.all_devices(&mon.committed.osdmap);
    let mut table = TextTable::default().column("OSD_STAT", Align::Left, Align::Left);
    for heading in ["USED", "AVAIL", "USED_RAW", "TOTAL"] {
        table = table.column(heading, Align::Left, Align::Right);
    }
    let sizes = [stat.kb_used, stat.kb_avail, stat.kb_used, stat.kb].map(|kb| format::bytes(kb << 10));
    table.row([vec!["sum".to_owned()], sizes.to_vec()].concat());
    table.render()
}

fn pgs_text(stats: &[PgStat]) -> String {
    let (l, r) = (Align::Left, Align::Right);
    let headings = [
        ("PG_STAT", l),
        ("OBJECTS", r),
        ("MISSING_ON_PRIMARY", r),
        ("DEGRADED", r),
        ("MISPLACED", r),
        ("UNFOUND", r),
        ("BYTES", r),
        ("OMAP_BYTES*", r),
        ("OMAP_KEYS*", r),
        ("LOG", r),
        ("DISK_LOG", r),
        ("STATE", l),
        ("STATE_STAMP", l),
        ("VERSION", r),
        ("REPORTED", r),
        ("UP", l),
        ("UP_PRIMARY", r),
        ("ACTING", l),
        ("ACTING_PRIMARY", r),
        ("LAST_SCRUB", r),
        ("SCRUB_STAMP", l),
        ("LAST_DEEP_SCRUB", r),
        ("DEEP_SCRUB_STAMP", l),
        ("SNAPTRIMQ_LEN", r),
    ];
    let mut table = TextTable::default();
    for (heading, align) in headings {
        table = table.column(heading, l, align);
    }
    for stat in stats {
        let sum = &stat.sum;
        let numbers = [
            sum.objects,
            sum.missing_on_primary,
            sum.degraded,
            sum.misplaced,
            sum.unfound,
            sum.bytes,
            sum.omap_bytes,
            sum.omap_keys,
            stat.log_size,
            stat.log_size,
        ];
        let mut cells = vec![stat.pgid.to_string()];
        cells.extend(numbers.map(|n| n.to_string()));
        cells.extend([
            stat.state.to_string(),
            stat.last_change.to_string(),
            stat.version.to_string(),
            format!("{}:{}", stat.reported_epoch, stat.reported_seq),
            format::list(&stat.up),
            stat.up_primary.to_string(),
            format::list(&stat.acting),
            stat.acting_primary.to_string(),
            stat.scrubs.last_scrub.to_string(),
            stat.scrubs.last_scrub_stamp.to_string(),
            stat.scrubs.last_deep_scrub.to_string(),
            stat.scrubs.last_deep_scrub_stamp.to_string(),
            stat.snaptrimq_len.to_string(),
        ]);
        table.row(cells);
    }
    table.render()
}

/// Lines of sums. Without a first heading the others are empty, too, as the stock dump has them.
fn sums_text(first: &str, rows: Vec<(String, PgStatSum, u64)>) -> String {
    let mut table = TextTable::default().column(first, Align::Left, Align::Left);
    for heading in SUMS {
        table = table.column(if first.is_empty() { "" } else { heading }, Align::Left, Align::Right);
    }
    for (name, sum, log) in rows {
        let numbers = [
            sum.objects,
            sum.missing_on_primary,
            sum.degraded,
            sum.misplaced,
            sum.unfound,
            sum.bytes,
            sum.omap_bytes,
            sum.omap_keys,
            log,
            log,
        ];
        table.row([vec![name], numbers.map(|n| n.to_string()).to_vec()].concat());
    }
    table.render()
}

fn osds_text(mon: &Mon) -> String {
    let map = &mon.committed.osdmap;
    let mut table = TextTable::default();
    let headings = ["OSD_STAT", "USED", "AVAIL", "USED_RAW", "TOTAL", "HB_PEERS", "PG_SUM", "PRIMARY_PG_SUM"];
    for (at, heading) in headings.into_iter().enumerate() {
        table = table.column(heading, Align::Left, if at == 0 { Align::Left } else { Align::Right });
    }
    let sizes = |stat: &OsdStat| {
        [stat.kb_used, stat.kb_avail, stat.kb_used, stat.kb].map(|kb| format::bytes(kb << 10))
    };
    for (osd, stat) in map.osds().filter_map(|osd| Some((osd, mon.stats.osd(osd)?))) {
        let mut cells = vec![osd.to_string()];
        cells.extend(sizes(stat));
        cells.push(format::list(&stat.heartbeat_peers));
        cells.extend([stat.pg_count.to_string(), stat.primary_pg_count.to_string()]);
        table.row(cells);
    }
    let mut cells = vec!["sum".to_owned()];
    cells.extend(sizes(&mon.stats.all_devices(map)));
    cells.extend(["", "", ""].map(str::to_owned));
    table.row(cells);
    table.render()
}
