//! Text as the stock tools print it: tables, sizes, durations; and the JSON of the formatters.

mod python;
mod table;

use std::time::Duration;

use serde_json::Value;

pub(crate) use types::pretty_json as pretty;

pub(crate) use python::{python_line, python_sorted};
pub(crate) use table::{Align, TextTable, pad};
pub(crate) use types::xml;

fn scaled(value: u64, base: u64, units: &[&str]) -> String {
    let (mut n, mut mult, mut index) = (value, 1u64, 0);
    while n >= base && index + 1 < units.len() {
        n /= base;
        mult = mult.saturating_mul(base);
        index += 1;
    }
    let unit = units[index];
    if value.is_multiple_of(mult) {
        return format!("{n}{unit}");
    }
    // The best precision that fits in seven characters.
    let exact = value as f64 / mult as f64;
    let fits = (0..=2).rev().map(|digits| format!("{exact:.digits$}{unit}")).find(|text| text.len() <= 7);
    fits.unwrap_or_else(|| format!("{exact:.0}{unit}"))
}

/// `20 GiB`, `1.2 MiB`, `0 B`.
pub(crate) fn bytes(value: u64) -> String {
    scaled(value, 1024, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// `48`, `1.23k`.
pub(crate) fn count(value: u64) -> String {
    scaled(value, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

/// `1.50G`, `  19 `: a size in so many characters, as the manager's modules print it (`mgr_util.format_bytes`).
pub(crate) fn short_bytes(value: u64, width: usize) -> String {
    const UNITS: [&str; 7] = [" ", "k", "M", "G", "T", "P", "E"];
    let places = width.saturating_sub(1);
    let fits = |unit: &usize| (value >> (10 * unit)).to_string().len() <= places;
    let unit = (0..UNITS.len()).find(fits).unwrap_or(UNITS.len() - 1);
    if unit == 0 {
        return format!("{value:>places$} ");
    }
    let mut text = format!("{:.6}", value as f64 / (1u64 << (10 * unit)) as f64);
    text.truncate(places);
    match text.strip_suffix('.') {
        Some(whole) => format!(" {whole}{}", UNITS[unit]),
        None => text + UNITS[unit],
    }
}

/// `14m`, `2h`, `3d`: the unit that says most.
pub(crate) fn timespan(span: Duration) -> String {
    const UNITS: [(&str, u64); 6] =
        [("y", 31_536_000), ("M", 2_592_000), ("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60)];
    let secs = span.as_secs();
    // A unit is used from twice its length on.
    match UNITS.iter().find(|(_, len)| secs >= 2 * len) {
        Some((unit, len)) => format!("{}{unit}", secs / len),
        None => format!("{secs}s"),
    }
}

/// A number as Ceph's JSON has it: whole ones without a fraction.
pub(crate) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { Value::from(value as i64) } else { Value::from(value) }
}

/// A number as a C++ stream prints it: six significant digits, without zeros behind (`4.69042`, `0`).
pub(crate) fn decimal(value: f64) -> String {
    const DIGITS: i32 = 6;
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let whole_digits = value.abs().log10().floor() as i32 + 1;
    let places = usize::try_from(DIGITS - whole_digits).unwrap_or(0);
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `[0,1,2]`.
pub(crate) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    format!("[{}]", items.into_iter().map(|i| i.to_string()).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_look_like_cephs() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(20 << 30), "20 GiB");
        assert_eq!(bytes(33_478_910), "32 MiB");
        assert_eq!(bytes(1_500_000), "1.4 MiB");
        assert_eq!(count(1_234), "1.23k");
        assert_eq!(
            [19, 60 << 30, 3 << 29, 100 << 30].map(|n| short_bytes(n, 5)),
            ["  19 ", "60.0G", "1536M", " 100G"]
        );
        assert_eq!(timespan(Duration::from_secs(858)), "14m");
        assert_eq!(timespan(Duration::from_secs(100)), "100s");
        assert_eq!(
            [33.0, 0.0, 4.690_415_759, 0.003_333_33].map(decimal),
            ["33", "0", "4.69042", "0.00333333"]
        );
    }
}
