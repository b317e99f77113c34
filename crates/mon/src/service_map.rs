//! Service daemons that report to the manager, such as `rbd-mirror` (`ServiceMap`, mgr/ServiceMap.h). Soft state: they
//! make themselves known again when they dial another incarnation.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use messages::{MMgrConfigure, MMgrOpen, MMgrReport, Message, ServiceFacts};
use serde_json::{Map, Value, json};
use types::UTime;

use crate::{Mon, Peer};

/// `mgr_stats_period`: seconds between reports.
const REPORT_PERIOD_SEC: u32 = 5;
/// Above the priority of every counter, so that daemons send none: nothing evaluates them here.
const NO_COUNTERS: u32 = 100;
/// `mgr_service_beacon_grace`: a daemon that is silent for longer is gone.
const GRACE: Duration = Duration::from_secs(60);
/// The most daemons that are kept, and what each may say of itself: any entity with a key may register some.
const DAEMONS_MAX: usize = 1_000;
const FACTS_BYTES_MAX: usize = 64 << 10;

/// One service daemon (`ServiceMap::Daemon`).
#[derive(Clone, Debug, Default)]
struct Daemon {
    start_epoch: u64,
    start_stamp: UTime,
    gid: u64,
    addr: String,
    metadata: ServiceFacts,
    status: ServiceFacts,
    status_stamp: UTime,
    last_beacon: UTime,
}

/// The service daemons that have made themselves known.
#[derive(Debug, Default)]
pub(crate) struct ServiceMap {
    epoch: u64,
    modified: UTime,
    /// By service, then by name.
    daemons: BTreeMap<String, BTreeMap<String, Daemon>>,
}

fn bytes_of(facts: &ServiceFacts) -> usize {
    facts.iter().map(|(key, value)| key.len() + value.len()).sum()
}

impl ServiceMap {
    /// None yet; the manager begins now.
    pub(crate) fn started(wall: UTime) -> ServiceMap {
        ServiceMap { epoch: 1, modified: wall, daemons: BTreeMap::new() }
    }

    fn changed(&mut self, wall: UTime) {
        self.epoch += 1;
        self.modified = wall;
        self.daemons.retain(|_, daemons| !daemons.is_empty());
    }

    fn open(&mut self, wall: UTime, peer: &Peer, open: MMgrOpen) {
        let Some((metadata, status)) = open.service else { return };
        let count: usize = self.daemons.values().map(BTreeMap::len).sum();
        let size = bytes_of(&metadata) + bytes_of(&status) + open.daemon_name.len() + open.service_name.len();
        if count >= DAEMONS_MAX || size > FACTS_BYTES_MAX {
            tracing::warn!("{} of {} is not registered: too much", open.daemon_name, open.service_name);
            return;
        }
        let daemon = Daemon {
            start_epoch: self.epoch + 1,
            start_stamp: wall,
            gid: peer.global_id.0,
            addr: peer.addr.legacy_str(),
            metadata,
            status,
            status_stamp: wall,
            last_beacon: wall,
        };
        self.daemons.entry(open.service_name).or_default().insert(open.daemon_name, daemon);
        self.changed(wall);
    }

    fn report(&mut self, wall: UTime, report: MMgrReport) {
        let daemons = self.daemons.get_mut(&report.service_name);
        let Some(daemon) = daemons.and_then(|d| d.get_mut(&report.daemon_name)) else { return };
        daemon.last_beacon = wall;
        if let Some(status) = report.status.filter(|status| bytes_of(status) <= FACTS_BYTES_MAX) {
            daemon.status = status;
            daemon.status_stamp = wall;
        }
    }

    fn close(&mut self, wall: UTime, service: &str, name: &str) {
        if self.daemons.get_mut(service).and_then(|daemons| daemons.remove(name)).is_some() {
            self.changed(wall);
        }
    }

    /// Forgets daemons that have been silent for longer than `GRACE`.
    pub(crate) fn tick(&mut self, wall: UTime) {
        let mut is_changed = false;
        for daemons in self.daemons.values_mut() {
            let before = daemons.len();
            daemons.retain(|_, daemon| wall.since(daemon.last_beacon) <= GRACE);
            is_changed |= daemons.len() != before;
        }
        if is_changed {
            self.changed(wall);
        }
    }

    /// `service dump`.
    pub(crate) fn dump(&self) -> Value {
        let daemon = |d: &Daemon| {
            json!({
                "start_epoch": d.start_epoch,
                "start_stamp": d.start_stamp.to_string(),
                "gid": d.gid,
                "addr": d.addr,
                "metadata": d.metadata,
                "task_status": {},
            })
        };
        let service = |(name, daemons): (&String, &BTreeMap<String, Daemon>)| {
            let mut all: Map<String, Value> = [("summary".to_owned(), json!(""))].into_iter().collect();
            all.extend(daemons.iter().map(|(id, d)| (id.clone(), daemon(d))));
            (name.clone(), json!({"daemons": all}))
        };
        let services: Map<String, Value> = self.daemons.iter().map(service).collect();
        json!({"epoch": self.epoch, "modified": self.modified.to_string(), "services": services})
    }

    /// `service status`.
    pub(crate) fn status(&self) -> Value {
        let daemon = |(id, d): (&String, &Daemon)| {
            let status = json!({
                "status_stamp": d.status_stamp.to_string(),
                "last_beacon": d.last_beacon.to_string(),
                "status": d.status,
            });
            (id.clone(), status)
        };
        let services = self.daemons.iter();
        services.map(|(name, d)| (name.clone(), Value::Object(d.iter().map(daemon).collect()))).collect()
    }

    /// What the daemons of a service have told of themselves, by name.
    pub(crate) fn facts(&self, service: &str) -> impl Iterator<Item = (&str, &ServiceFacts)> {
        let daemons = self.daemons.get(service).into_iter().flatten();
        daemons.map(|(name, daemon)| (name.as_str(), &daemon.metadata))
    }

    /// How many daemons of each service run each version. Services that are parts of Ceph itself are counted where the
    /// cluster's maps have them.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&str, BTreeMap<String, u64>)> {
        const PARTS: [&str; 5] = ["client", "mds", "mgr", "mon", "osd"];
        self.daemons.iter().filter(|(service, _)| !PARTS.contains(&service.as_str())).map(
            |(service, daemons)| {
                let mut counts = BTreeMap::new();
                for daemon in daemons.values() {
                    let version = daemon.metadata.get("ceph_version").map_or("unknown", String::as_str);
                    *counts.entry(version.to_owned()).or_default() += 1;
                }
                (service.as_str(), counts)
            },
        )
    }

    /// Lines of `ceph -s`: a service, and how many of its daemons are active.
    pub(crate) fn lines(&self) -> Vec<(String, String)> {
        let line = |(name, daemons): (&String, &BTreeMap<String, Daemon>)| (name.clone(), summary(daemons));
        self.daemons.iter().map(line).collect()
    }
}

/// How many daemons of a service there are, in its own word for them, on how many hosts and in how many
/// zones.
fn summary(daemons: &BTreeMap<String, Daemon>) -> String {
    let values = |key: &str| -> BTreeSet<&String> {
        daemons.values().filter_map(|daemon| daemon.metadata.get(key)).collect()
    };
    let kind = daemons.values().filter_map(|daemon| daemon.metadata.get("daemon_type")).next_back();
    let kind = kind.map_or("daemon", String::as_str);
    let plural = if daemons.len() == 1 { "" } else { "s" };
    let groups = [("host", values("hostname").len()), ("zone", values("zone_id").len())];
    let groups: Vec<String> =
        groups.iter().filter(|(_, n)| *n > 0).map(|(group, n)| format!("{n} {group}s")).collect();
    let groups = if groups.is_empty() { String::new() } else { format!(" ({})", groups.join(", ")) };
    format!("{} {kind}{plural} active{groups}", daemons.len())
}

impl Mon {
    /// Takes what daemons tell the manager; gives the answer that they wait for, if any.
    pub(crate) fn on_service_message(
        &mut self,
        wall: UTime,
        peer: &Peer,
        message: Message,
    ) -> Option<Message> {
        match message {
            Message::MMgrOpen(open) => {
                self.service_map.open(wall, peer, *open);
                let stats_period_sec = REPORT_PERIOD_SEC;
                Some(MMgrConfigure { stats_period_sec, stats_threshold: NO_COUNTERS }.into())
            }
            Message::MMgrReport(report) => {
                self.service_map.report(wall, *report);
                None
            }
            Message::MMgrClose(close) => {
                self.service_map.close(wall, &close.service_name, &close.daemon_name);
                Some((*close).into())
            }
            other => {
                tracing::debug!("{} from {} to the manager ignored", other.name(), peer.name);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_are_counted_in_their_own_word_with_hosts_and_zones() {
        let daemon = |facts: &[(&str, &str)]| {
            let metadata = facts.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            Daemon { metadata, ..Daemon::default() }
        };
        let bare = BTreeMap::from([("a".to_owned(), daemon(&[]))]);
        assert_eq!(summary(&bare), "1 daemon active");
        let kind = ("daemon_type", "portal");
        let both = BTreeMap::from([
            ("a".to_owned(), daemon(&[("hostname", "h"), ("zone_id", "1"), kind])),
            ("b".to_owned(), daemon(&[("hostname", "h"), ("zone_id", "2"), kind])),
        ]);
        assert_eq!(summary(&both), "2 portals active (1 hosts, 2 zones)");
    }
}
