//! The manager's module `iostat`: one line of what clients do.

use crate::{
    commands::{Reply, Request},
    format,
};

module_rows! {
    "iostat name=width,type=CephInt,req=false name=print_header,type=CephBool,req=false" "r" "Get IO rates" iostat
}

/// Columns of rates, for a terminal of some width.
fn iostat(req: &mut Request<'_>) -> Reply {
    const COLUMNS: usize = 6;
    let rates = req.mon.stats.rates(None);
    let bytes = |value: u64| format!("{}/s", format::bytes(value));
    let cells = [
        ("Read", bytes(rates.read_bytes)),
        ("Write", bytes(rates.write_bytes)),
        ("Total", bytes(rates.read_bytes.saturating_add(rates.write_bytes))),
        ("Read IOPS", rates.reads.to_string()),
        ("Write IOPS", rates.writes.to_string()),
        ("Total IOPS", rates.ops().to_string()),
    ];
    let width = usize::try_from(req.args.int("width").unwrap_or(80)).unwrap_or(80).clamp(80, 1_000) / COLUMNS;
    let border = format!("+{}\n", format!("{}+", "-".repeat(width)).repeat(COLUMNS));
    let line = |texts: Vec<&str>| {
        let cells: String = texts.iter().map(|text| format!("{text:>width$} |")).collect();
        format!("|{cells}\n")
    };
    let mut out = String::new();
    if req.args.flag("print_header") {
        out.push_str(&border);
        out.push_str(&line(cells.iter().map(|(heading, _)| *heading).collect()));
        out.push_str(&border);
    }
    out.push_str(&line(cells.iter().map(|(_, text)| text.as_str()).collect()));
    Reply::text(out)
}
