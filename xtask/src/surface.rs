//! `cargo xtask surface`: writes the pages in `docs/compatibility/` that list what Ceph's clients can ask for, and what
//! Loligo answers. Their rows are data, `xtask/data/surface/*.tsv`; `tidy` compares the pages with them.
//!
//! The crates' own tests compare the rows with the code: ops in `pg/src/exec/tests/surface.rs`, classes in
//! `classes/src/registry.rs`, commands in `mon/src/tests/surface.rs` and `osd/src/tell/tests.rs`.

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::shown::shown;

/// A page and what it is made of.
struct Page {
    /// The page's and the data's name without its ending.
    name: &'static str,
    title: &'static str,
    intro: &'static str,
    /// Makes a row's place on the page and its first cells.
    cells: fn(&[&str]) -> Result<(String, String)>,
    /// The heads of those cells.
    heads: &'static str,
}

const PAGES: [Page; 3] = [
    Page {
        name: "osd-ops",
        title: "OSD operations",
        intro: "Every `CEPH_OSD_OP_*` of Ceph 16.2 to 20.2, and those that only older clients know. [What \
                differs](../compatibility.md#rados-operations) has more on each.",
        cells: |row| match row {
            [name, number, ..] => Ok((String::new(), format!("`{name}` | {number}"))),
            _ => bail!("name and number are missing"),
        },
        heads: "op | number",
    },
    Page {
        name: "object-classes",
        title: "Object classes",
        intro: "Every method of every class that Ceph 16.2 to 20.2 ships, with the release that it came with. A class \
                that is missing as a whole has one row. A method that no release has is EOPNOTSUPP in a class of this \
                list that stock OSDs load, and EPERM in any other.",
        cells: |row| match row {
            [class, method, release, ..] => {
                Ok((format!("Class `{class}`"), format!("`{method}` | {release}")))
            }
            _ => bail!("class, method and release are missing"),
        },
        heads: "method | since",
    },
    Page {
        name: "commands",
        title: "Commands",
        intro: "Every command that Ceph 16.2.15 describes (`get_command_descriptions`), and those of later releases that \
                are served here. [What differs](../compatibility.md#commands) says more of some.",
        cells: |row| match row {
            [place, release, sig, ..] => {
                let title = match *place {
                    "mon" => "Monitor commands",
                    "mgr" => "Manager commands",
                    "tell osd" => "ceph tell osd.N",
                    "tell mon" => "ceph tell mon.X",
                    "tell mgr" => "ceph tell mgr.X",
                    _ => bail!("there is no place {place}"),
                };
                Ok((title.to_owned(), format!("`{}` | {release}", shown(sig))))
            }
            _ => bail!("place, release and signature are missing"),
        },
        heads: "command | since",
    },
];

/// Cells of a row behind those that name its subject: state, errno, why.
const STATE_CELLS: usize = 3;

/// Writes the pages.
pub(crate) fn write(root: &Path) -> Result<()> {
    for (path, text) in pages(root)? {
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Pages that are not what their data says.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let is_stale = |(path, text): &(PathBuf, String)| fs::read_to_string(path).ok().as_ref() != Some(text);
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let stale = pages(root)?.into_iter().filter(is_stale);
    Ok(stale.map(|(path, _)| format!("{}: run `cargo xtask surface`", name(&path))).collect())
}

fn pages(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let one = |page: &Page| {
        let data = root.join("xtask/data/surface").join(page.name).with_extension("tsv");
        let rows = fs::read_to_string(&data).with_context(|| data.display().to_string())?;
        let text = render(page, &rows).with_context(|| data.display().to_string())?;
        Ok((root.join("docs/compatibility").join(page.name).with_extension("md"), text))
    };
    PAGES.iter().map(one).collect()
}

fn render(page: &Page, rows: &str) -> Result<String> {
    let mut out = format!("# {}\n\n", page.title);
    out += &filled(page.intro);
    out += "\nMade by `cargo xtask surface`. Tests compare with the code which rows there are, and what is refused with \
            which errno.\n";
    let (mut section, mut seen) = (None, BTreeSet::new());
    for line in rows.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let (title, subject) = (page.cells)(&cells).with_context(|| line.to_owned())?;
        let state = cells.len().checked_sub(STATE_CELLS).context("state, errno and why are missing")?;
        let [state, errno, why] = cells[state..] else { bail!("{line}: there is more behind the state") };
        match state {
            "works" if errno.is_empty() && why.is_empty() => {}
            "differs" if errno.is_empty() && !why.is_empty() => {}
            "refused" if errno.starts_with('E') && !why.is_empty() => {}
            _ => bail!("{line}: a state has what explains it, and nothing else"),
        }
        if section.as_ref() != Some(&title) {
            let head = if title.is_empty() { String::new() } else { format!("\n## {title}\n") };
            let rule = "---|".repeat(page.heads.matches('|').count() + 4);
            write!(out, "{head}\n| {} | state | errno | why |\n|{rule}\n", page.heads)?;
            section = Some(title.clone());
        }
        let row = format!("| {subject} | {state} | {errno} | {why} |\n");
        // Some commands have several forms that differ in arguments alone.
        if seen.insert((title, row.clone())) {
            out += &row;
        }
    }
    Ok(out)
}

/// The text in lines of at most 120 characters.
fn filled(text: &str) -> String {
    let (mut out, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        if width > 0 && width + 1 + word.len() > 120 {
            out.push('\n');
            width = 0;
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        out += word;
        width += word.len();
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::{PAGES, render};
    use crate::shown::shown;

    #[test]
    fn a_row_has_what_its_state_needs() {
        let page = &PAGES[0];
        let text =
            render(page, "# head\nREAD\t0x1201\tworks\t\t\nPULL\t0x4001\trefused\tEINVAL\tgone\n").unwrap();
        assert!(
            text.ends_with(
                "| `READ` | 0x1201 | works |  |  |\n| `PULL` | 0x4001 | refused | EINVAL | gone |\n"
            )
        );
        for bad in [
            "READ\t0x1201\tworks\t\twell",
            "READ\t1\trefused\t\tno",
            "READ\t1\tdiffers\t\t",
            "READ\t1\tworks",
        ] {
            assert!(render(page, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_is_shown_as_it_is_typed() {
        assert_eq!(shown("osd tree"), "osd tree");
        assert_eq!(shown("pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=query"), "pg query");
        assert_eq!(shown("a name=x,type=CephChoices,strings=b|c"), "a");
        assert_eq!(shown("df name=detail,type=CephChoices,strings=detail,req=false"), "df");
    }
}
