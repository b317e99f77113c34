//! Functions longer than they should be: each is listed with its length in `long_functions.txt`, and that list only
//! ever shrinks. Those on it are tables in the shape of code.

/// A function should not be longer.
const FUNCTION_LINES_MAX: usize = 70;

/// Length, file and name of each longer one.
const LISTED: &str = include_str!("long_functions.txt");

/// A function that is too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LongFunction {
    /// As the list has it.
    file_and_name: String,
    line_count: usize,
}

/// Those of a file.
pub(super) fn found(file: &str, text: &str) -> Vec<LongFunction> {
    let lines: Vec<&str> = text.lines().collect();
    let long = |at: usize| {
        let name = function_name(lines[at])?;
        let line_count = length(&lines[at..])?;
        let is_long = line_count > FUNCTION_LINES_MAX;
        is_long.then(|| LongFunction { file_and_name: format!("{file} {name}"), line_count })
    };
    (0..lines.len()).filter_map(long).collect()
}

/// The name of the function that begins in a line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = match public.strip_prefix('(') {
            Some(scope) => scope.split_once(") ")?.1,
            None => public.strip_prefix(' ')?,
        };
    }
    for qualifier in ["const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(qualifier).unwrap_or(rest);
    }
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// Lines of the function that begins in the first of `lines`, told by rustfmt's indentation; none without a body.
fn length(lines: &[&str]) -> Option<usize> {
    let head = lines.first()?;
    let indent = &head[..head.len() - head.trim_start().len()];
    let is_same = |line: &&str| line.starts_with(indent) && !line[indent.len()..].starts_with(' ');
    for (index, line) in lines.iter().enumerate() {
        match line {
            line if index == 0 && line.ends_with(['}', ';']) => return None,
            line if index > 0 && is_same(line) && line.ends_with(';') => return None,
            line if index > 0 && is_same(line) && line.trim_start() == "}" => return Some(index),
            _ => {}
        }
    }
    None
}

/// Compares what was found with the list.
pub(super) fn check(found: &[LongFunction], out: &mut Vec<String>) {
    compare(found, LISTED, out);
}

fn compare(found: &[LongFunction], listed: &str, out: &mut Vec<String>) {
    let mut listed: Vec<(&str, usize)> = listed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(count, rest)| Some((rest, count.parse().ok()?)))
        .collect();
    for function in found {
        let (name, count) = (&function.file_and_name, function.line_count);
        let at = listed.iter().position(|(listed, _)| listed == name);
        match at.map(|at| listed.remove(at).1) {
            Some(limit) if count < limit => {
                out.push(format!("{name}: list it with {count} lines, not {limit}"))
            }
            Some(limit) if count == limit => {}
            Some(limit) => out.push(format!("{name}: {count} lines, and had {limit}: it may not grow")),
            None => out.push(format!("{name}: {count} lines, more than {FUNCTION_LINES_MAX}")),
        }
    }
    out.extend(listed.iter().map(|(name, _)| format!("{name}: is not too long any more: do not list it")));
}

#[cfg(test)]
mod tests {
    use super::{compare, found};

    fn long(head: &str, tail: &str) -> usize {
        let text = format!("{head}\n{}{tail}\n", "    let x = 1;\n".repeat(80));
        found("a.rs", &text).first().map_or(0, |function| function.line_count)
    }

    #[test]
    fn a_long_function_is_seen_whoever_may_call_it() {
        for head in [
            "fn f() {",
            "pub fn f() {",
            "pub(crate) async fn f() {",
            "pub(in crate::a) const fn f<T>() {",
            "unsafe extern \"C\" fn f() {",
        ] {
            assert_eq!(long(head, "}"), 81, "{head}");
        }
        assert_eq!(long("struct S {", "}"), 0);
        assert_eq!(long("fn declared();", "}"), 0);
        assert_eq!(found("a.rs", "fn short() {\n    1;\n}\n"), []);
    }

    #[test]
    fn the_list_only_shrinks() {
        let text = format!("fn f() {{\n{}}}\n", "    1;\n".repeat(80));
        let found = found("a.rs", &text);
        let problems = |listed: &str| {
            let mut out = Vec::new();
            compare(&found, listed, &mut out);
            out
        };
        assert_eq!(problems("81 a.rs f"), Vec::<String>::new());
        assert_eq!(problems("82 a.rs f"), ["a.rs f: list it with 81 lines, not 82"]);
        assert_eq!(problems("80 a.rs f"), ["a.rs f: 81 lines, and had 80: it may not grow"]);
        let gone = "b.rs g: is not too long any more: do not list it";
        assert_eq!(problems("81 a.rs f\n99 b.rs g"), [gone]);
        assert_eq!(problems(""), ["a.rs f: 81 lines, more than 70"]);
    }
}
