//! What daemons call themselves: in Ceph's form, as tools read the version of a cluster from it.

/// The version alone: that of the Ceph whose protocol is spoken, as a package's first build, then Loligo's own. The
/// latter has no dots and no hyphens, as tools count both.
pub const DAEMON_VERSION: &str = concat!(
    "16.2.15-0-loligo_",
    env!("CARGO_PKG_VERSION_MAJOR"),
    "_",
    env!("CARGO_PKG_VERSION_MINOR"),
    "_",
    env!("CARGO_PKG_VERSION_PATCH")
);

/// The line of `ceph version` and `ceph versions`, of a daemon that was built from this commit.
pub fn daemon_version_line(commit: &str) -> String {
    format!("ceph version {DAEMON_VERSION} ({commit}) pacific (stable)")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rook, for one, takes the three numbers behind `ceph version`, and the build behind the first hyphen.
    #[test]
    fn the_line_has_the_form_that_tools_parse() {
        let line = daemon_version_line("no_version");
        let rest = line.strip_prefix("ceph version ").unwrap();
        let (release, build) = rest.split_once('-').unwrap();
        let numbers: Vec<u32> = release.split('.').map(|n| n.parse().unwrap()).collect();
        assert_eq!(numbers, [16, 2, 15]);
        let digits: String = build.chars().take_while(char::is_ascii_digit).collect();
        assert_eq!(digits, "0");
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[2..], [DAEMON_VERSION, "(no_version)", "pacific", "(stable)"]);
    }

    /// The exporter of DigitalOcean (`ParseCephVersion`) exports nothing of a version with other parts.
    #[test]
    fn the_version_has_three_dotted_parts_and_the_last_a_revision_and_a_commit() {
        let dotted: Vec<&str> = DAEMON_VERSION.split('.').collect();
        assert_eq!(dotted.len(), 3, "{DAEMON_VERSION}");
        let last: Vec<&str> = dotted[2].split('-').collect();
        assert_eq!(last.len(), 3, "{DAEMON_VERSION}");
        assert!([dotted[0], dotted[1], last[0], last[1]].iter().all(|number| number.parse::<u32>().is_ok()));
    }
}
