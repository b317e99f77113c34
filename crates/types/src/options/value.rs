//! Values of options: read as Ceph reads them, kept in one form each.
//!
//! Authority: `Option::parse_value`, `common/strtol.cc`, `std::chrono` parsing in `common/ceph_time.cc` (16.2);
//! the texts of errors are what scripts see.

use super::{OptionInfo, OptionKind};
use crate::{AddrType, EntityAddr, EntityAddrVec, Errno, Uuid};

/// A value that an option cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct OptionValueError {
    /// EINVAL, or ERANGE for debug levels.
    pub errno: Errno,
    /// What is wrong, in Ceph's words; empty where Ceph says nothing.
    pub text: String,
}

fn bad(text: impl Into<String>) -> OptionValueError {
    OptionValueError { errno: Errno::EINVAL, text: text.into() }
}

/// Digits in front, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let sign = usize::from(text.starts_with('-'));
    let end = text[sign..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |at| at + sign);
    text.split_at(end)
}

/// A number with one of the letters `BKMGTPE` behind it, each `base` times the one before.
fn scaled(text: &str, base: i64, name: (&str, &str)) -> Result<i64, OptionValueError> {
    let (number, unit) = digits(text);
    if text.is_empty() {
        return Err(bad(format!("{}: value not specified", name.0)));
    }
    let is_iec = base == 1024;
    if is_iec && (unit.len() > 2 || (unit.len() == 2 && !unit.ends_with(['i', 'B']))) {
        return Err(bad(format!(
            "{}: illegal prefix{}",
            name.0,
            if unit.len() > 2 { " (length > 2)" } else { "" }
        )));
    }
    let letter = if is_iec { &unit[..unit.len().min(1)] } else { unit };
    let power = match letter {
        "" | "B" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return Err(bad(format!("{}: unit prefix not recognized", name.1))),
    };
    let value: i64 =
        number.parse().map_err(|_| bad(format!("The option value '{text}' seems to be invalid")))?;
    value.checked_mul(base.pow(power)).ok_or_else(|| bad(format!("{}: value seems to be too large", name.0)))
}

fn uint(text: &str) -> Result<i64, OptionValueError> {
    let value = scaled(text, 1000, ("strict_sistrtoll", "strict_si_cast"))?;
    if value < 0 { Err(bad("strict_sistrtoll: value should not be negative")) } else { Ok(value) }
}

fn size(text: &str) -> Result<i64, OptionValueError> {
    let value = scaled(text, 1024, ("strict_iecstrtoll", "strict_iecstrtoll"))?;
    if value < 0 { Err(bad("strict_iecstrtoll: value should not be negative")) } else { Ok(value) }
}

fn float(text: &str) -> Result<f64, OptionValueError> {
    if let Ok(value) = text.parse() {
        return Ok(value);
    }
    let starts_as_number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text.contains(|c: char| c.is_ascii_digit());
    let what = if starts_as_number { "garbage at end of string." } else { "expected double," };
    Err(bad(format!("strict_strtod: {what} got: '{text}'")))
}

fn boolean(text: &str) -> Result<bool, OptionValueError> {
    if text.eq_ignore_ascii_case("true") {
        return Ok(true);
    }
    if text.eq_ignore_ascii_case("false") {
        return Ok(false);
    }
    let number = text.parse::<i32>();
    number.map(|n| n != 0).map_err(|_| bad(format!("Expected option value to be integer, got '{text}'")))
}

/// `1h 30m`, `90`, `2 weeks`, in seconds.
fn timespan(text: &str) -> Result<u64, OptionValueError> {
    const UNITS: [(&[&str], u64); 7] = [
        (&["s", "sec", "second", "seconds"], 1),
        (&["m", "min", "minute", "minutes"], 60),
        (&["h", "hr", "hour", "hours"], 3_600),
        (&["d", "day", "days"], 86_400),
        (&["w", "wk", "week", "weeks"], 604_800),
        (&["mo", "month", "months"], 2_592_000),
        (&["y", "yr", "year", "years"], 31_536_000),
    ];
    let mut total = 0u64;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = match end {
            0 => return Err(bad("expected digit")),
            _ => rest[..end].parse().map_err(|_| bad("value is too large"))?,
        };
        let tail = rest[end..].trim_start();
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        if unit.is_empty() && !tail.is_empty() {
            return Err(bad(format!("unexpected trailing '{tail}'")));
        }
        let secs = match unit {
            "" => 1,
            unit => {
                let known = UNITS.iter().find(|(names, _)| names.contains(&unit));
                known.map(|(_, secs)| *secs).ok_or_else(|| bad(format!("unrecognized unit '{unit}'")))?
            }
        };
        let span = number.checked_mul(secs).ok_or_else(|| bad("value is too large"))?;
        total = total.checked_add(span).ok_or_else(|| bad("value is too large"))?;
        rest = tail.trim_start();
    }
    Ok(total)
}

/// `1.2.3.4` and `1.2.3.4:5` are addresses of msgr2.
fn addr(text: &str) -> Result<EntityAddr, OptionValueError> {
    let text = text.trim();
    let mut addr = EntityAddr::parse(text).ok_or_else(|| bad(""))?;
    if addr.kind == AddrType::ANY {
        addr.kind = AddrType::MSGR2;
    }
    Ok(addr)
}

fn addrvec(text: &str) -> Result<EntityAddrVec, OptionValueError> {
    // Brackets may be those of an IPv6 address, too.
    let inner = text.strip_prefix("[v").and_then(|t| t.strip_suffix(']')).map(|_| &text[1..text.len() - 1]);
    match inner {
        Some(inner) => Ok(EntityAddrVec(inner.split(',').map(addr).collect::<Result<_, _>>()?)),
        None => Ok(EntityAddrVec(vec![addr(text)?])),
    }
}

/// `N` or `N/M`: what is written, and what is kept in memory.
fn debug_level(text: &str) -> Result<String, OptionValueError> {
    let form = || bad("value must take the form N or N/M, where N and M are integers");
    let (first, rest) = digits(text);
    let log: i64 = first.parse().map_err(|_| form())?;
    let gather: i64 = match rest.strip_prefix('/') {
        Some(rest) => digits(rest).0.parse().unwrap_or(log),
        None if rest.is_empty() => log,
        None => return Err(form()),
    };
    if !(0..=99).contains(&log) || !(0..=99).contains(&gather) {
        return Err(OptionValueError {
            errno: Errno::ERANGE,
            text: "value must be in range [0, 99]".to_owned(),
        });
    }
    // What Ceph keeps of more than two numbers is the text itself.
    Ok(if rest.len() > 1 { text.to_owned() } else { format!("{log}/{log}") })
}

/// Features of RBD images by their names, or as the sum of their bits.
fn rbd_features(text: &str) -> Result<String, OptionValueError> {
    const NAMES: [&str; 8] = [
        "layering",
        "striping",
        "exclusive-lock",
        "object-map",
        "fast-diff",
        "deep-flatten",
        "journaling",
        "data-pool",
    ];
    const DEFAULT: &str = "61";
    if text.is_empty() {
        return Ok(DEFAULT.to_owned());
    }
    if let Ok(bits) = text.parse::<u64>() {
        return if bits < 1 << NAMES.len() { Ok(bits.to_string()) } else { Err(bad("")) };
    }
    let bit = |name: &str| NAMES.iter().position(|known| *known == name.trim()).map(|at| 1u64 << at);
    let bits = text.split(',').try_fold(0, |bits, name| Some(bits | bit(name)?));
    bits.map(|bits| bits.to_string()).ok_or_else(|| bad(""))
}

impl OptionInfo {
    /// The value in the form in which it is kept and shown.
    pub fn normalize(&self, text: &str) -> Result<String, OptionValueError> {
        match self.kind {
            OptionKind::Uint => self.bounded(uint(text)?),
            OptionKind::Int => self.bounded(scaled(text, 1000, ("strict_sistrtoll", "strict_si_cast"))?),
            OptionKind::Size => self.bounded(size(text)?),
            OptionKind::Millisecs => {
                let lexical = "bad lexical cast: source type value could not be interpreted as target";
                self.bounded(text.parse().map_err(|_| bad(lexical))?)
            }
            OptionKind::Secs => Ok(timespan(text)?.to_string()),
            OptionKind::Float => self.bounded_float(float(text)?),
            OptionKind::Bool => Ok(boolean(text)?.to_string()),
            OptionKind::Addr => Ok(addr(text)?.to_string()),
            OptionKind::AddrVec => Ok(addrvec(text)?.to_string()),
            OptionKind::Uuid => Ok(text.parse::<Uuid>().map_err(|_| bad(""))?.to_string()),
            OptionKind::Str if self.name == "rbd_default_features" => rbd_features(text),
            OptionKind::Str if self.name.starts_with("debug_") => debug_level(text),
            OptionKind::Str => self.chosen(text),
        }
    }

    fn bounded(&self, value: i64) -> Result<String, OptionValueError> {
        let bound = |text: &str| text.parse::<i64>().ok();
        match (bound(self.min), bound(self.max)) {
            (Some(min), _) if value < min => Err(bad(format!("Value '{value}' is below minimum {min}"))),
            (_, Some(max)) if value > max => Err(bad(format!("Value '{value}' exceeds maximum {max}"))),
            _ => Ok(value.to_string()),
        }
    }

    fn bounded_float(&self, value: f64) -> Result<String, OptionValueError> {
        let bound = |text: &str| text.parse::<f64>().ok();
        let (min, max) = (bound(self.min), bound(self.max));
        if let Some(min) = min.filter(|min| value < *min) {
            return Err(bad(format!("Value '{value:.6}' is below minimum {min:.6}")));
        }
        if let Some(max) = max.filter(|max| value > *max) {
            return Err(bad(format!("Value '{value:.6}' exceeds maximum {max:.6}")));
        }
        if value.is_nan() {
            return Ok("nan".to_owned());
        }
        let kept = format!("{value:.6}");
        // Rounded beyond a limit, it would not be taken again.
        let is_beyond = bound(&kept)
            .is_some_and(|kept| min.is_some_and(|min| kept < min) || max.is_some_and(|max| kept > max));
        Ok(if is_beyond { value.to_string() } else { kept })
    }

    fn chosen(&self, text: &str) -> Result<String, OptionValueError> {
        let choices: Vec<&str> = self.choices().collect();
        if choices.is_empty() || choices.contains(&text) {
            return Ok(text.to_owned());
        }
        Err(bad(format!("'{text}' is not one of the permitted values: {}", choices.join(", "))))
    }
}
