//! `ceph.conf` as a daemon reads it: whose section counts, and metavariables.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use types::{
    AddrType, ConfSections, EntityAddr, EntityAddrVec, EntityName, EntityType, Settings, Uuid, find_option,
    option_name,
};

use crate::host::hostname;

/// A parsed configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CephConf {
    sections: ConfSections,
}

impl CephConf {
    /// Reads and parses `path`.
    pub fn read(path: &Path) -> Result<CephConf> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("reading {}: give it with --conf or CEPH_CONF", path.display()))?;
        CephConf::parse(&text).with_context(|| path.display().to_string())
    }

    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<CephConf> {
        Ok(CephConf { sections: types::parse_conf(text)? })
    }

    /// All options for `who` by name, with underscores.
    pub fn all(&self, who: &EntityName) -> BTreeMap<String, String> {
        let own = who.to_string();
        let sections = ["global", who.kind.as_str(), &own];
        let names =
            sections.iter().filter_map(|section| self.sections.get(*section)).flat_map(BTreeMap::keys);
        names.filter_map(|name| Some((name.clone(), self.get(who, name)?))).collect()
    }

    /// The value for `who`: from its own section, its kind's, or `[global]`, metavariables expanded.
    pub fn get(&self, who: &EntityName, key: &str) -> Option<String> {
        self.get_within(who, key, DEPTH_MAX, &Cell::new(EXPANSIONS_MAX))
    }

    /// The keyrings that are named for `who`; none if no option says so.
    pub(crate) fn keyrings(&self, who: &EntityName) -> Option<Vec<PathBuf>> {
        let text = self.get(who, "keyring")?;
        let paths = text.split([',', ';']).map(str::trim).filter(|path| !path.is_empty());
        Some(paths.map(PathBuf::from).collect())
    }

    /// The keyring that counts of those: the first that is there, or else the first.
    pub(crate) fn keyring(&self, who: &EntityName) -> Option<PathBuf> {
        let named = self.keyrings(who)?;
        named.iter().find(|path| path.exists()).or(named.first()).cloned()
    }

    /// The value for `who`, or Ceph's default for daemons, where an option has one.
    pub fn get_or_default(&self, who: &EntityName, key: &str) -> Option<String> {
        self.get(who, key).or_else(|| {
            let default = find_option(&option_name(key))?.default_for(true);
            let left = Cell::new(EXPANSIONS_MAX);
            Some(expand(&default, &|name| self.metavariable(who, name, DEPTH_MAX, &left)))
        })
    }

    /// The value for `who`, with at most `depth` levels of values within values, and as many of these as are `left`.
    fn get_within(&self, who: &EntityName, key: &str, depth: u32, left: &Cell<u32>) -> Option<String> {
        let key = option_name(key);
        let own = who.to_string();
        let raw = [own.as_str(), who.kind.as_str(), "global"]
            .iter()
            .find_map(|section| self.sections.get(*section)?.get(&key))?;
        Some(expand(raw, &|name| self.metavariable(who, name, depth, left)))
    }

    /// What a metavariable stands for: a fact about the daemon, or another option (`md_config_t::expand_meta`).
    fn metavariable(&self, who: &EntityName, name: &str, depth: u32, left: &Cell<u32>) -> Option<String> {
        left.set(left.get().checked_sub(1)?);
        match name {
            "cluster" => Some("ceph".to_owned()),
            "type" => Some(who.kind.as_str().to_owned()),
            "id" => Some(who.id.clone()),
            "num" => Some(who.id.clone()).filter(|id| id.parse::<u32>().is_ok()),
            "name" => Some(who.to_string()),
            "host" => Some(hostname().split('.').next().unwrap_or_default().to_owned()),
            "pid" => Some(std::process::id().to_string()),
            "home" => Some(std::env::var("HOME").unwrap_or_default()),
            option => {
                let within = || self.get_within(who, option, depth.checked_sub(1)?, left);
                within().or_else(|| find_option(option).map(|known| known.default.to_string()))
            }
        }
    }

    /// The value of one of Ceph's options, in the form in which daemons show it; its default where there is none.
    pub fn option(&self, who: &EntityName, name: &str) -> Option<String> {
        Settings::from_file(&self.all(who)).get(name)
    }

    /// The value, or an error that names the key.
    pub fn require(&self, who: &EntityName, key: &str) -> Result<String> {
        self.get(who, key)
            .with_context(|| format!("ceph.conf has no `{key}` for {who}: add it to [{who}] or [global]"))
    }

    /// The cluster's uuid.
    pub(crate) fn fsid(&self, who: &EntityName) -> Result<Uuid> {
        self.require(who, "fsid")?.parse::<Uuid>().context("fsid")
    }

    /// True if `who` and its peers believe each other without authentication. A daemon takes one method from all peers,
    /// clients and daemons alike.
    pub(crate) fn is_auth_none(&self, who: &EntityName) -> Result<bool> {
        let is_none = |key| self.get(who, key).is_some_and(|method| method == "none");
        if !matches!(who.kind, EntityType::MON | EntityType::OSD) {
            return Ok(is_none("auth client required"));
        }
        let [service, cluster] = ["auth service required", "auth cluster required"].map(is_none);
        if service != cluster {
            bail!(
                "`auth service required` and `auth cluster required` of {who} differ: set both to cephx or none"
            );
        }
        Ok(service)
    }

    /// Where the daemon logs to, if ceph.conf says.
    pub fn log_file(&self, who: &EntityName) -> Option<PathBuf> {
        self.get(who, "log file").map(PathBuf::from)
    }

    /// The daemon's data directory: `mon data` or `osd data`.
    pub(crate) fn data(&self, who: &EntityName) -> String {
        let option = if who.kind == EntityType::MON { "mon data" } else { "osd data" };
        self.get_or_default(who, option).expect("both options have a default")
    }

    /// The monitors' addresses from `mon host`, one vector a monitor.
    pub fn mon_hosts(&self, who: &EntityName) -> Result<Vec<EntityAddrVec>> {
        let text = self.require(who, "mon host")?;
        let hosts = parse_mon_host(&text).with_context(|| format!("mon host = {text}"))?;
        if hosts.is_empty() {
            bail!("mon host names no monitor");
        }
        Ok(hosts)
    }
}

/// How deep values may name each other.
const DEPTH_MAX: u32 = 4;
/// How many metavariables one value may have, those in the values that it names included. Values that name each other
/// many times would fill the memory within few levels.
const EXPANSIONS_MAX: u32 = 1_000;

/// Replaces `$name` and `${name}` by what they stand for; what stands for nothing stays.
fn expand(text: &str, value_of: &dyn Fn(&str) -> Option<String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('$') {
        out.push_str(before);
        let (is_braced, inner) = match behind.strip_prefix('{') {
            Some(inner) => (true, inner),
            None => (false, behind),
        };
        let end = inner.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(inner.len());
        let (name, tail) = inner.split_at(end);
        let tail = if is_braced { tail.strip_prefix('}') } else { Some(tail) };
        match tail.and_then(|tail| Some((value_of(name)?, tail))) {
            Some((value, tail)) => {
                out.push_str(&value);
                rest = tail;
            }
            None => {
                out.push('$');
                rest = behind;
            }
        }
    }
    out + rest
}

/// `[v2:1.2.3.4:3300,v1:1.2.3.4:6789],5.6.7.8:3300 [v2:[fd00::1]:3300/0]`: brackets hold one monitor's addresses, and
/// within them the address of one that has IPv6.
fn parse_mon_host(text: &str) -> Result<Vec<EntityAddrVec>> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (group, tail) = match rest.strip_prefix("[v") {
            Some(_) => {
                let end = closing_bracket(rest).context("a bracket is not closed")?;
                (&rest[1..end], &rest[end + 1..])
            }
            None => rest.split_at(rest.find([',', ' ', ';']).unwrap_or(rest.len())),
        };
        out.push(EntityAddrVec(group.split(',').map(parse_mon_addr).collect::<Result<_>>()?));
        rest = tail.trim_start_matches([',', ' ', ';']);
    }
    Ok(out)
}

/// Where the bracket that a text begins with is closed.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.find(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// The port of msgr2 where none is given.
const MSGR2_PORT: u16 = 3300;
/// The port of msgr1, whose addresses need not name their protocol (`MonMap::_add_ambiguous_addr`).
const MSGR1_PORT: u16 = 6789;

fn parse_mon_addr(text: &str) -> Result<EntityAddr> {
    let mut addr = EntityAddr::parse(text.trim()).with_context(|| format!("{text} is not an address"))?;
    if addr.kind == AddrType::ANY {
        if addr.socket.is_some_and(|socket| socket.port() == MSGR1_PORT) {
            bail!("{text} is an address of msgr1, which is not served: name a port of msgr2, as v2:IP:PORT");
        }
        addr.kind = AddrType::MSGR2;
    }
    if let Some(socket) = addr.socket.filter(|s| s.port() == 0) {
        addr.socket = Some(SocketAddr::new(socket.ip(), MSGR2_PORT));
    }
    Ok(addr)
}

#[cfg(test)]
mod damage;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_override_and_metavariables_expand() {
        let conf = CephConf::parse(
            "[global]\nmon host = 127.0.0.1 # here\nosd-data=/data/$name\n[osd]\nosd pool size = 2\n\
             [osd.1]\nosd_data = \"/one/$type-$id\"\n; end\n",
        )
        .unwrap();
        let osd = |id: &str| EntityName::parse(&format!("osd.{id}")).unwrap();
        assert_eq!(conf.get(&osd("0"), "osd data").unwrap(), "/data/osd.0");
        assert_eq!(conf.get(&osd("1"), "osd_data").unwrap(), "/one/osd-1");
        assert_eq!(conf.get(&osd("1"), "osd pool size").unwrap(), "2");
        assert_eq!(conf.get(&osd("1"), "nothing"), None);
    }

    #[test]
    fn metavariables_are_facts_or_other_options() {
        let text = "[global]\na = ${type}s/$id-$num$name $nosuch ${id $\nb = <$a>\nhost = $host $pid\n\
                    loop = $loop\nadmin socket = $run_dir/x\n";
        let conf = CephConf::parse(text).unwrap();
        let get = |key| conf.get(&EntityName::parse("osd.1").unwrap(), key).unwrap();
        assert_eq!(get("a"), "osds/1-1osd.1 $nosuch ${id $");
        assert_eq!(get("b"), "<osds/1-1osd.1 $nosuch ${id $>");
        let host = hostname().split('.').next().unwrap().to_owned();
        assert_eq!(get("host"), format!("{host} {}", std::process::id()));
        assert_eq!(get("loop"), "$loop");
        assert_eq!(get("admin socket"), "/var/run/ceph/x");
    }

    #[test]
    fn values_that_name_each_other_often_do_not_grow_without_end() {
        let often = |name: &str| format!("${{{name}}}").repeat(40);
        let [b, c, d, e] = ["b", "c", "d", "e"].map(often);
        let text = format!("a = {b}\nb = {c}\nc = {d}\nd = {e}\ne = x\n");
        let conf = CephConf::parse(&text).unwrap();
        let value = conf.get(&EntityName::parse("osd.1").unwrap(), "a").unwrap();
        assert!(
            value.starts_with("xxxx") && value.ends_with("${b}"),
            "what is too much stays as it is written"
        );
        assert!(value.len() < EXPANSIONS_MAX as usize * text.len());
    }

    #[test]
    fn an_option_that_is_not_set_may_have_a_default() {
        let of = |text: &str, key| {
            let conf = CephConf::parse(text).unwrap();
            conf.get_or_default(&EntityName::parse("osd.1").unwrap(), key)
        };
        assert_eq!(of("", "admin socket").as_deref(), Some("/var/run/ceph/ceph-osd.1.asok"));
        assert_eq!(of("run dir = /x", "admin_socket").as_deref(), Some("/x/ceph-osd.1.asok"));
        assert_eq!(of("admin socket =", "admin socket").as_deref(), Some(""));
        assert_eq!(of("", "nothing"), None);
    }

    #[test]
    fn a_mistyped_fsid_is_refused_and_not_cut() {
        let of = |fsid: &str| {
            let conf = CephConf::parse(&format!("[global]\nfsid = {fsid}\n")).unwrap();
            conf.fsid(&EntityName::parse("osd.1").unwrap()).map_err(|error| format!("{error:#}"))
        };
        let fsid = "02020202-0202-0202-0202-020202020202";
        assert_eq!(of(fsid), Ok(Uuid([2; 16])));
        let mistyped = format!("{fsid}0");
        assert_eq!(of(&mistyped), Err(format!("fsid: {mistyped} is not a uuid")));
    }

    #[test]
    fn daemons_have_one_method_of_authentication_for_all_peers() {
        let of = |text: &str, who: &str| {
            let conf = CephConf::parse(&format!("[global]\n{text}\n")).unwrap();
            conf.is_auth_none(&EntityName::parse(who).unwrap()).map_err(|error| error.to_string())
        };
        let both = "auth cluster required = none\nauth_service_required = none";
        for who in ["mon.a", "osd.1"] {
            assert_eq!([of("", who), of(both, who)], [Ok(false), Ok(true)]);
            for mixed in ["auth cluster required = none", "auth service required = none"] {
                assert!(
                    of(mixed, who).unwrap_err().ends_with("differ: set both to cephx or none"),
                    "{mixed}"
                );
            }
        }
        assert_eq!(of(both, "client.admin"), Ok(false));
        assert_eq!(of("auth client required = none", "client.admin"), Ok(true));
    }

    #[test]
    fn data_is_where_ceph_has_it_unless_ceph_conf_says_otherwise() {
        let of = |text: &str, who| CephConf::parse(text).unwrap().data(&EntityName::parse(who).unwrap());
        assert_eq!(of("", "mon.a"), "/var/lib/ceph/mon/ceph-a");
        assert_eq!(of("[mon]\nmon data = /x", "osd.1"), "/var/lib/ceph/osd/ceph-1");
        assert_eq!(of("[osd]\nosd data = /x/$id", "osd.1"), "/x/1");
    }

    #[test]
    fn an_option_has_one_form_however_it_is_written() {
        let of = |text: &str| {
            CephConf::parse(text)
                .unwrap()
                .option(&EntityName::parse("osd.0").unwrap(), "bdev_enable_discard")
                .unwrap()
        };
        for text in ["[osd]\nbdev enable discard = 0\n", "[global]\nbdev_enable_discard = False\n"] {
            assert_eq!(of(text), "false", "{text}");
        }
        assert_eq!([of("[osd]\nbdev_enable_discard = 1\n"), of("")], ["true", "true"]);
    }

    #[test]
    fn mon_host_has_many_forms() {
        let parse = |text| parse_mon_host(text).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            parse("[v2:10.0.0.1:3300,v1:10.0.0.1:6789],10.0.0.2"),
            ["[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]", "v2:10.0.0.2:3300/0"]
        );
        assert_eq!(parse("127.0.0.1:40000 127.0.0.1:40001").len(), 2);
        assert!(parse_mon_host("[v2:1.2.3.4:1").is_err());
        // With IPv6, the first as `ceph config generate-minimal-conf` writes it.
        assert_eq!(parse("[v2:[::1]:3300/0]"), ["v2:[::1]:3300/0"]);
        assert_eq!(
            parse("[v2:[fd00::1]:3300,v1:[fd00::1]:6789],v2:[fd00::2]:3300 [fd00::3]"),
            ["[v2:[fd00::1]:3300/0,v1:[fd00::1]:6789/0]", "v2:[fd00::2]:3300/0", "v2:[fd00::3]:3300/0"]
        );
        assert!(parse_mon_host("[v2:[fd00::1]:3300").is_err());
    }

    #[test]
    fn an_address_of_msgr1_is_not_taken_for_one_of_msgr2() {
        for text in ["10.0.0.1:6789", "[fd00::1]:6789"] {
            let error = parse_mon_host(text).unwrap_err().to_string();
            assert!(error.contains("msgr1, which is not served"), "{error}");
        }
        parse_mon_host("v2:10.0.0.1:6789").unwrap();
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        assert!(CephConf::parse("[global\n").is_err());
        assert!(CephConf::parse("hello\n").is_err());
    }
}
