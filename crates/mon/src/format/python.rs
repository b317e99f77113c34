//! JSON as Ceph's manager modules print it: those are written in Python.

use serde_json::Value;

fn text(value: &str, out: &mut String) {
    let quoted = Value::from(value).to_string();
    for c in quoted.chars() {
        if c.is_ascii() {
            out.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
}

fn write(value: &Value, out: &mut String, indent: Option<usize>, is_sorted: bool) {
    let level = indent.map(|indent| indent + 1);
    let line = |out: &mut String, level: Option<usize>, is_first: bool| match level {
        Some(level) => {
            out.push_str(if is_first { "\n" } else { ",\n" });
            out.push_str(&"    ".repeat(level));
        }
        None => out.push_str(if is_first { "" } else { ", " }),
    };
    let end = |out: &mut String| {
        if let Some(indent) = indent {
            out.push('\n');
            out.push_str(&"    ".repeat(indent));
        }
    };
    match value {
        Value::String(string) => text(string, out),
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                line(out, level, at == 0);
                write(item, out, level, is_sorted);
            }
            end(out);
            out.push(']');
        }
        Value::Object(map) if !map.is_empty() => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            if is_sorted {
                entries.sort_by_key(|(key, _)| *key);
            }
            out.push('{');
            for (at, (key, item)) in entries.into_iter().enumerate() {
                line(out, level, at == 0);
                text(key, out);
                out.push_str(": ");
                write(item, out, level, is_sorted);
            }
            end(out);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// One line: `{"a": 1, "b": [2, 3]}`.
pub(crate) fn python_line(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out, None, false);
    out
}

/// Indented by four, keys in order.
pub(crate) fn python_sorted(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out, Some(0), true);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_and_sorted_documents() {
        let value = json!({"b": [1, 2.5, null, {}], "a": "\u{e4}\"", "c": []});
        assert_eq!(python_line(&value), r#"{"b": [1, 2.5, null, {}], "a": "\u00e4\"", "c": []}"#);
        let lines = [
            "{",
            r#"    "a": "\u00e4\"","#,
            r#"    "b": ["#,
            "        1,",
            "        2.5,",
            "        null,",
            "        {}",
            "    ],",
            r#"    "c": []"#,
            "}",
        ];
        assert_eq!(python_sorted(&value), lines.join("\n"));
    }
}
