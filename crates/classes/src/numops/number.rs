//! Numbers as text: `strtod` and `std::setprecision(10)`.

/// Significant digits that are written.
const DIGITS: i32 = 10;

/// The number that the whole text is, as `strtod` reads it: spaces before it, decimal or hexadecimal,
/// `inf` and `nan`. Text ends at a NUL; empty text is 0.
pub(super) fn parse(text: &[u8]) -> Option<f64> {
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
    let start = text.iter().position(|b| !is_space(b))?;
    let text = std::str::from_utf8(&text[start..]).ok()?;
    let (is_negative, size) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match size.get(..2) {
        Some("0x" | "0X") => parse_hex(&size[2..])?,
        // A second sign is none.
        _ if size.starts_with(['+', '-']) => return None,
        _ => size.parse::<f64>().ok()?,
    };
    Some(if is_negative { -value } else { value })
}

/// `1f.8p-3`: hexadecimal digits and a binary exponent.
fn parse_hex(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    Some(value * 2f64.powi(exponent.saturating_sub(4 * fraction.len() as i32)))
}

/// The number in ten digits at most, without zeros at the end (`%.10g`).
pub(super) fn print(value: f64) -> String {
    if !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    let scientific = format!("{value:.*e}", (DIGITS - 1) as usize);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let fixed = format!("{value:.*}", (DIGITS - 1 - exponent) as usize);
        return without_zeros(&fixed).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs())
}

fn without_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, print};

    /// What a stock OSD stores after adding the first to nothing.
    #[test]
    fn numbers_look_as_on_a_stock_osd() {
        let cases = [
            ("0.1", "0.1"),
            ("1234567.891", "1234567.891"),
            ("123456789012", "1.23456789e+11"),
            ("1e10", "1e+10"),
            ("1e9", "1000000000"),
            ("12345678901", "1.23456789e+10"),
            ("0.00001234", "1.234e-05"),
            ("0.0001", "0.0001"),
            ("1e-5", "1e-05"),
            ("100000", "100000"),
            ("1e100", "1e+100"),
            ("9999999999.5", "1e+10"),
            ("99999999999.5", "1e+11"),
            ("", "0"),
            (" 5", "5"),
            ("0x10", "16"),
            ("-0x1.8p1", "-3"),
            ("inf", "inf"),
            ("-Infinity", "-inf"),
            ("nan", "nan"),
            ("5\0x", "5"),
        ];
        for (text, stored) in cases {
            assert_eq!(print(0.0 + parse(text.as_bytes()).unwrap()), stored, "{text}");
        }
        for text in ["abc", "5 ", " ", "0x", "--5", "1e", "."] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
