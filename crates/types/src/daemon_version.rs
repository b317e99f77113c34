//! What daemons call themselves: in Ceph's form, as tools read the version of a cluster from it.

/// The version alone: that of the Ceph whose protocol is spoken, then Loligo's own.
pub const DAEMON_VERSION: &str = concat!("16.2.15-loligo-", env!("CARGO_PKG_VERSION"));

/// The line of `ceph version` and `ceph versions`, of a daemon that was built from this commit.
pub fn daemon_version_line(commit: &str) -> String {
    format!("ceph version {DAEMON_VERSION} ({commit}) pacific (stable)")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rook, for one, takes the three numbers behind `ceph version`.
    #[test]
    fn the_line_has_the_form_that_tools_parse() {
        let line = daemon_version_line("no_version");
        let rest = line.strip_prefix("ceph version ").unwrap();
        let numbers: Vec<u32> =
            rest.split('-').next().unwrap().split('.').map(|n| n.parse().unwrap()).collect();
        assert_eq!(numbers, [16, 2, 15]);
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[2..], [DAEMON_VERSION, "(no_version)", "pacific", "(stable)"]);
    }
}
