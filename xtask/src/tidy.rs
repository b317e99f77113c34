//! What a machine can check of the house style: crate arrows, file and function length, words that
//! have no place in the tree, pages that are made from data.

mod long_functions;
mod purity;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::surface;

/// Crates from bottom to top; a crate may depend only on crates before it, and pure ones on nothing
/// that does IO.
const ORDER: &[&str] = &[
    "allocator",
    "damage",
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
const IO_CRATES: &[&str] = &["allocator", "reactor", "daemon", "loligo", "xtask"];

/// External crates that only IO crates may use.
const IO_DEPENDENCIES: &[&str] = &["io-uring", "rustix", "libc", "tokio", "redb", "mio"];

/// No file of code may be longer, in lines without tests.
const FILE_LINES_MAX: usize = 1_000;

/// No comment may be wider; rustfmt sees to the code.
const COMMENT_COLUMNS_MAX: usize = 120;

/// The document that has a table of the environment that tests read.
const CONTRIBUTING: &str = "CONTRIBUTING.md";

/// How names of the environment begin that are the project's own.
const ENVIRONMENT: &[&str] = &["LOLIGO_", "SIM_", "STORE_"];

pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// Every breach, one line each.
pub fn problems(root: &Path) -> Result<Vec<String>> {
    let mut out = Vec::new();
    check_arrows(root, &mut out)?;
    let told = fs::read_to_string(root.join(CONTRIBUTING)).context(CONTRIBUTING)?;
    let mut long_functions = Vec::new();
    for name in tracked_files(root)? {
        // What is no text has neither words nor lines; what was deleted is still tracked until that is staged.
        let Some(text) = fs::read(root.join(&name)).ok().and_then(|bytes| String::from_utf8(bytes).ok())
        else {
            continue;
        };
        check_words(&name, &text, &mut out);
        if name.ends_with(".rs") {
            check_file(&name, &text, &mut out);
            check_environment(&name, &text, &told, &mut out);
            long_functions.extend(long_functions::found(&name, &text));
        }
    }
    long_functions::check(&long_functions, &mut out);
    out.extend(surface::problems(root)?);
    Ok(out)
}

/// Paths of all files of the repository, in order; those that are not ignored count before they are added.
fn tracked_files(root: &Path) -> Result<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("starting git")?;
    if !listed.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    }
    let names = String::from_utf8(listed.stdout).context("names of files")?;
    let mut names: Vec<String> =
        names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    Ok(names)
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

/// Names in the sections of dependencies, those of tests, of builds and of one target included.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    manifest.lines().filter_map(move |line| {
        if let Some(section) = line.strip_prefix('[') {
            is_inside = section.trim_end_matches(']').ends_with("dependencies");
            return None;
        }
        let name = line.split(['.', ' ', '=']).next()?;
        (is_inside && !name.is_empty() && !name.starts_with('#')).then_some(name)
    })
}

/// What no text of the repository has.
fn check_words(name: &str, text: &str, out: &mut Vec<String>) {
    let bare_todo = ["TO", "DO"].concat();
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        if line.contains(&bare_todo) && !line.contains(&format!("{bare_todo}(#")) {
            out.push(format!("{name}:{at}: a bare {bare_todo}: name its issue"));
        }
        if [["/ro", "ot/"], ["/wo", "rk/"]].iter().any(|p| line.contains(&p.concat())) {
            out.push(format!("{name}:{at}: a path of one machine"));
        }
    }
}

/// Code reads no variable of the environment that `told` does not name. What macros read, only builds know.
fn check_environment(name: &str, text: &str, told: &str, out: &mut Vec<String>) {
    let pieces = || text.split("(\"");
    for (_, after) in pieces().zip(pieces().skip(1)).filter(|(before, _)| !before.ends_with('!')) {
        let variable = after.split('"').next().unwrap_or_default();
        let is_own = ENVIRONMENT.iter().any(|prefix| variable.starts_with(prefix));
        if is_own && !told.contains(&format!("`{variable}")) {
            out.push(format!("{name}: {CONTRIBUTING} does not name {variable}"));
        }
    }
}

/// What code begins and ends with in documentation.
const FENCE: &str = "```";

fn check_file(name: &str, text: &str, out: &mut Vec<String>) {
    let is_test = name.contains("/tests/") || name.ends_with("tests.rs") || name.contains("/examples/");
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    if !is_test && code.lines().count() > FILE_LINES_MAX && !name.contains("/generated/") {
        out.push(format!("{name}: more than {FILE_LINES_MAX} lines: split it by meaning"));
    }
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("//") && line.chars().count() > COMMENT_COLUMNS_MAX {
            out.push(format!("{name}:{}: a comment of more than {COMMENT_COLUMNS_MAX} columns", index + 1));
        }
        if ["///", "//!"].iter().any(|begin| line.trim_start().starts_with(begin)) && line.contains(FENCE) {
            out.push(format!("{name}:{}: nothing runs code in documentation: make it a test", index + 1));
        }
    }
    if !is_test && !text.starts_with("//!") {
        out.push(format!("{name}: a module opens with //! and says what it is"));
    }
    if ["utils.rs", "common.rs", "helpers.rs", "misc.rs"].iter().any(|n| name.ends_with(&format!("/{n}"))) {
        out.push(format!("{name}: name the file after what it holds"));
    }
    let krate = name.strip_prefix("crates/").and_then(|n| n.split('/').next()).unwrap_or("xtask");
    if !IO_CRATES.contains(&krate) && !is_test && !name.starts_with("fuzz/") {
        let impure = purity::breaches(code).into_iter();
        out.extend(impure.map(|(at, what)| format!("{name}:{at}: {what} in a pure crate")));
    }
}

#[cfg(test)]
mod tests {
    use super::{check_environment, check_file, check_words, dependencies, problems, workspace_root};

    #[test]
    fn the_tree_keeps_the_house_style() {
        let problems = problems(&workspace_root()).unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn code_in_documentation_is_seen() {
        let mut out = Vec::new();
        check_file("crates/x/tests/x.rs", "/// Adds.\n/// ```\n/// x();\nlet fence = \"```\";\n", &mut out);
        assert_eq!(out.len(), 1, "{out:?}");
    }

    #[test]
    fn dependencies_of_tests_count() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n[lints]\nb = 1\n\
                        [target.'cfg(unix)'.dev-dependencies]\n# d\nc = \"1\"\n";
        assert_eq!(dependencies(manifest).collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn comments_are_no_wider_than_a_screen() {
        let mut out = Vec::new();
        let wide = format!("//! Fine.\n    // {}\n    // {}\n", "é".repeat(113), "e".repeat(114));
        check_file("crates/pg/src/x.rs", &wide, &mut out);
        assert_eq!(out, ["crates/pg/src/x.rs:3: a comment of more than 120 columns"]);
    }

    #[test]
    fn variables_that_tests_read_are_told_of() {
        let mut out = Vec::new();
        let [known, unknown] = ["SIM_KNOWN", "SIM_UNKNOWN"];
        let text = format!("number(\"{known}\", 1); var(\"{unknown}\"); var(\"HOME\"); env!(\"{unknown}\")");
        check_environment("x.rs", &text, "| `SIM_KNOWN` |", &mut out);
        assert_eq!(out, ["x.rs: CONTRIBUTING.md does not name SIM_UNKNOWN"]);
    }

    #[test]
    fn words_are_looked_for_in_any_text() {
        let mut out = Vec::new();
        let text = format!("fine\nsee {}{}\n", "/ro", "ot/x");
        check_words("docs/page.md", &text, &mut out);
        assert_eq!(out, ["docs/page.md:2: a path of one machine"]);
    }
}
