//! Sizes as Ceph's options write them.

use anyhow::{Context, Result};

/// Units by the power of two that they stand for.
const UNITS: [(&str, u32); 7] = [("B", 0), ("K", 10), ("M", 20), ("G", 30), ("T", 40), ("P", 50), ("E", 60)];

/// Reads `4294967296`, `4G` or `4Gi`: all units are powers of 1024 (`strict_iec_cast`).
pub(crate) fn parse(text: &str) -> Result<u64> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = unit.strip_suffix('i').filter(|short| !short.is_empty() && *short != "B").unwrap_or(unit);
    let shift = match unit {
        "" => 0,
        unit => {
            UNITS.iter().find(|(name, _)| *name == unit).context("a size ends with B, K, M, G, T, P or E")?.1
        }
    };
    let number: u64 = number.parse().context("a size begins with digits")?;
    number.checked_shl(shift).filter(|bytes| bytes >> shift == number).context("the size is too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_ceph_reads_them() {
        let good = [("4096", 4096), ("10B", 10), ("8K", 8192), ("512Mi", 512 << 20), (" 4G ", 4 << 30)];
        for (text, bytes) in good {
            assert_eq!(parse(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "G", "i", "1i", "1Bi", "1X", "1 G", "-1", "99999999E"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
