//! What a machine can check of the house style: crate arrows, file and function length, words that
//! have no place in the tree, pages that are made from data.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::surface;

/// Crates from bottom to top; a crate may depend only on crates before it, and pure ones on nothing
/// that does IO.
const ORDER: &[&str] = &[
    "allocator",
    "codec-derive",
    "codec",
    "crush",
    "types",
    "auth",
    "messages",
    "msgr",
    "net",
    "store",
    "classes",
    "pg",
    "mon",
    "osd",
    "shard",
    "client",
    "sim",
    "reactor",
    "daemon",
    "loligo",
    "xtask",
];

/// Arrows that the order allows and the design forbids.
const FORBIDDEN_ARROWS: &[(&str, &str)] = &[
    ("store", "messages"),
    ("store", "auth"),
    ("net", "pg"),
    ("net", "store"),
    ("msgr", "pg"),
    ("msgr", "mon"),
    ("msgr", "store"),
    ("classes", "messages"),
    ("classes", "store"),
    ("osd", "mon"),
    ("osd", "net"),
    ("shard", "mon"),
    ("shard", "pg"),
    ("client", "osd"),
    ("client", "mon"),
    ("client", "pg"),
    ("client", "store"),
    ("mon", "pg"),
    ("mon", "store"),
    ("reactor", "types"),
    ("reactor", "messages"),
];

/// Crates that may do IO.
const IO_CRATES: &[&str] = &["reactor", "daemon", "loligo", "xtask"];

/// External crates that only IO crates may use.
const IO_DEPENDENCIES: &[&str] = &["io-uring", "rustix", "libc", "tokio", "redb", "mio"];

/// Calls that have no place in a pure crate.
const IMPURE: &[&str] =
    &["Instant::now", "SystemTime::now", "thread::spawn", "std::net::Tcp", "std::fs::", "File::open"];

/// No file of code may be longer, in lines without tests.
const FILE_LINES_MAX: usize = 1_000;

/// A function should not be longer. Those in `LONG_FUNCTIONS` are tables in the shape of code.
const FUNCTION_LINES_MAX: usize = 70;

/// Longer functions than the limit, by file: how many there may be. Only ever shrinks.
const LONG_FUNCTIONS: &str = include_str!("long_functions.txt");

pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// Every breach, one line each.
pub fn problems(root: &Path) -> Result<Vec<String>> {
    let mut out = Vec::new();
    check_arrows(root, &mut out)?;
    let mut long_functions = BTreeMap::new();
    for file in rust_files(root)? {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let text = fs::read_to_string(&file).with_context(|| name.clone())?;
        check_file(&name, &text, &mut out);
        let long = long_function_count(&text);
        if long > 0 {
            long_functions.insert(name, long);
        }
    }
    check_ratchet(&long_functions, &mut out);
    out.extend(surface::problems(root)?);
    Ok(out)
}

fn check_arrows(root: &Path, out: &mut Vec<String>) -> Result<()> {
    let rank = |name: &str| ORDER.iter().position(|n| *n == name);
    for dir in fs::read_dir(root.join("crates"))? {
        let manifest = dir?.path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
        let name =
            text.lines().find_map(|l| l.strip_prefix("name = \"")?.strip_suffix('"')).unwrap_or_default();
        let Some(own) = rank(name) else {
            out.push(format!("crate {name} has no place in the order of xtask/src/tidy.rs"));
            continue;
        };
        for dependency in dependencies(&text) {
            let forbidden = FORBIDDEN_ARROWS.contains(&(name, dependency));
            if rank(dependency).is_some_and(|r| r > own) || forbidden {
                out.push(format!("crate {name} must not depend on {dependency}"));
            }
            if IO_DEPENDENCIES.contains(&dependency) && !IO_CRATES.contains(&name) {
                out.push(format!("pure crate {name} must not depend on {dependency}"));
            }
        }
    }
    Ok(())
}

/// Names in the `[dependencies]` section.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|l| *l != "[dependencies]")
        .skip(1)
        .take_while(|l| !l.starts_with('['))
        .filter_map(|l| l.split(['.', ' ', '=']).next())
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
}

fn check_file(name: &str, text: &str, out: &mut Vec<String>) {
    let is_test = name.contains("/tests/") || name.ends_with("tests.rs") || name.contains("/examples/");
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    if !is_test && code.lines().count() > FILE_LINES_MAX && !name.contains("/generated/") {
        out.push(format!("{name}: more than {FILE_LINES_MAX} lines: split it by meaning"));
    }
    if !is_test && !text.starts_with("//!") {
        out.push(format!("{name}: a module opens with //! and says what it is"));
    }
    if ["utils.rs", "common.rs", "helpers.rs", "misc.rs"].iter().any(|n| name.ends_with(&format!("/{n}"))) {
        out.push(format!("{name}: name the file after what it holds"));
    }
    let krate = name.strip_prefix("crates/").and_then(|n| n.split('/').next()).unwrap_or("xtask");
    for (index, line) in code.lines().enumerate() {
        let at = index + 1;
        if !IO_CRATES.contains(&krate) && !is_test {
            for word in IMPURE.iter().filter(|w| line.contains(**w) && !line.trim_start().starts_with("//")) {
                out.push(format!("{name}:{at}: {word} in a pure crate"));
            }
        }
        let bare_todo = ["TO", "DO"].concat();
        if line.contains(&bare_todo) && !line.contains(&format!("{bare_todo}(#")) {
            out.push(format!("{name}:{at}: a bare {bare_todo}: name its issue"));
        }
        if [["/ro", "ot/"], ["/wo", "rk/"]].iter().any(|p| line.contains(&p.concat())) {
            out.push(format!("{name}:{at}: a path of one machine"));
        }
    }
}

/// Functions longer than the limit, told by rustfmt's indentation.
fn long_function_count(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let mut count = 0;
    for (index, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let head = line
            .trim_start()
            .trim_start_matches("pub ")
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ");
        if !(head.starts_with("fn ") || head.starts_with("const fn ") || head.starts_with("unsafe fn ")) {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[index..].iter().position(|l| **l == close)
            && length > FUNCTION_LINES_MAX
        {
            count += 1;
        }
    }
    count
}

fn check_ratchet(found: &BTreeMap<String, usize>, out: &mut Vec<String>) {
    let allowed: BTreeMap<&str, usize> = LONG_FUNCTIONS
        .lines()
        .filter_map(|l| l.split_once(' '))
        .filter_map(|(count, file)| Some((file, count.parse().ok()?)))
        .collect();
    for (file, count) in found {
        let limit = allowed.get(file.as_str()).copied().unwrap_or(0);
        if *count > limit {
            out.push(format!("{file}: {count} functions over {FUNCTION_LINES_MAX} lines, {limit} allowed"));
        }
    }
}

fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("xtask")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    out.sort();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{long_function_count, problems, workspace_root};

    #[test]
    fn the_tree_keeps_the_house_style() {
        let problems = problems(&workspace_root()).unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn a_long_function_is_seen() {
        let body = "    let x = 1;\n".repeat(80);
        assert_eq!(long_function_count(&format!("pub fn long() {{\n{body}}}\n")), 1);
        assert_eq!(long_function_count("fn short() {\n    1;\n}\n"), 0);
    }
}
