//! What a pure crate does not touch: files, sockets, clocks, threads, processes, the environment.

/// Calls that have no place in a pure crate, whatever was imported for them.
const CALLS: &[&str] = &["Instant::now", "SystemTime::now", "thread::spawn", "File::open", "rand::rng()"];

/// Parts of the standard library that have no place there, as a path in the code or an import.
const PATHS: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// Line and word of each breach in `code`, which is formatted by rustfmt.
pub(super) fn breaches(code: &str) -> Vec<(usize, &'static str)> {
    let mut out = Vec::new();
    let mut lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    while let Some((index, line)) = lines.next() {
        let at = index + 1;
        let Some(import) = imported(line) else {
            let of_line = CALLS.iter().chain(PATHS).filter(|word| line.contains(**word));
            out.extend(of_line.map(|word| (at, *word)));
            continue;
        };
        let mut import = import.to_owned();
        while !import.ends_with(';') {
            let Some((_, line)) = lines.next() else { break };
            import.push_str(line.trim());
        }
        let mut paths = Vec::new();
        expand("", import.trim_end_matches(';'), &mut paths);
        let is_breach = |word: &&&str| paths.iter().any(|path| path.starts_with(**word));
        out.extend(PATHS.iter().filter(is_breach).map(|word| (at, *word)));
    }
    out
}

/// What follows `use` in a line.
fn imported(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) ")).unwrap_or(line);
    line.strip_prefix("use ")
}

/// The paths of a tree of imports, `a::{b, c::{d}}`.
fn expand(before: &str, tree: &str, out: &mut Vec<String>) {
    let mut depth = 0_u32;
    let split = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    for part in tree.split(split).map(str::trim).filter(|part| !part.is_empty()) {
        match part.strip_suffix('}').and_then(|part| part.split_once('{')) {
            Some((head, inner)) => expand(&format!("{before}{head}"), inner, out),
            None => out.push(format!("{before}{part}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::breaches;

    #[test]
    fn a_breach_is_seen_however_it_is_written() {
        let cases = [
            ("use std::fs;", "std::fs"),
            ("use std::{collections::BTreeMap, fs, io};", "std::fs"),
            (
                "use std::{\n    collections::BTreeMap,\n    net::{SocketAddr, TcpStream},\n};",
                "std::net::Tcp",
            ),
            ("let x = std::env::var(name);", "std::env"),
            ("use std::time::{Duration, Instant};", "std::time::Instant"),
            ("let now = Instant::now();", "Instant::now"),
        ];
        for (code, what) in cases {
            assert_eq!(breaches(code), [(1, what)], "{code}");
        }
    }

    #[test]
    fn what_is_pure_is_no_breach() {
        for code in [
            "use std::{collections::BTreeMap, net::{IpAddr, SocketAddr}, time::Duration};",
            "use types::Instant;",
            "// like std::fs",
            "use crate::{fs, thread};",
        ] {
            assert_eq!(breaches(code), [], "{code}");
        }
    }
}
