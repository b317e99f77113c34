//! `ceph pg ID query`: how a PG's primary sees the PG, under Ceph's keys.
//!
//! Authority: `PrimaryLogPG::do_command`, `PeeringState::dump_peering_state` (16.2).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use types::{OsdId, OsdMap, PgInfoContext, PgStat, UTime};

use crate::{Pg, pg::Phase, state_history::queried_name};

impl Pg {
    /// The whole answer. Counts as a report: `reported_seq` goes on.
    pub fn query(&mut self, map: &OsdMap, wall: UTime) -> Value {
        let stat = self.stat(map, wall);
        let ids = |osds: &[OsdId]| osds.iter().map(|osd| osd.0).collect::<Vec<_>>();
        let members: BTreeSet<OsdId> = self.members.all().collect();
        let members: Vec<String> = members.iter().map(ToString::to_string).collect();
        let left = self.snaps_to_trim(map);
        let ranges: Vec<String> = left.iter().map(|(start, len)| format!("{start:x}~{len:x}")).collect();
        json!({
            "snap_trimq": format!("[{}]", ranges.join(",")),
            "snap_trimq_len": left.size(),
            "state": stat.state.to_string(),
            "epoch": map.epoch.0,
            "up": ids(&self.members.up),
            "acting": ids(&self.members.acting),
            "acting_recovery_backfill": members,
            "info": self.own_info().dump(&self.info_context(&stat)),
            "peer_info": self.peers_json(),
            "recovery_state": self.recovery_json(map),
            "scrubber": self.scrubber_json(),
            // There is no cache tier.
            "agent_state": {},
        })
    }

    fn info_context<'a>(&self, stat: &'a PgStat) -> PgInfoContext<'a> {
        PgInfoContext {
            pgid: self.pgid,
            stat,
            since: self.info.since.0,
            primary_since: self.info.primary_since.0,
        }
    }

    /// The other members' infos, as they told them in this interval.
    fn peers_json(&self) -> Value {
        let unknown = PgStat::default();
        let one = |(osd, info): (&OsdId, &types::PgInfo)| {
            let mut out = serde_json::Map::new();
            out.insert("peer".to_owned(), osd.to_string().into());
            out.extend(info.dump(&self.info_context(&unknown)));
            Value::from(out)
        };
        self.peer_info.iter().map(one).collect()
    }

    fn recovery_json(&self, map: &OsdMap) -> Value {
        let entered = self.stats.stamps.change.to_string();
        let mut state = json!({"name": queried_name(&self.phase), "enter_time": entered});
        match &self.phase {
            Phase::Active | Phase::Activating { .. } => {
                let lacking: Vec<String> = self.missing.keys().map(ToString::to_string).collect();
                state["might_have_unfound"] = self.might_have_json(map);
                state["recovery_progress"] = json!({
                    "backfill_targets": self.targets().map(|osd| osd.to_string()).collect::<Vec<_>>(),
                    "waiting_on_backfill": [],
                    "last_backfill_started": "MIN",
                    "backfill_info": {"begin": "MIN", "end": "MIN", "objects": []},
                    "peer_backfill_info": [],
                    "backfills_in_flight": [],
                    "recovering": lacking,
                    "pg_backend": {"pull_from_peer": [], "pushing": []},
                });
            }
            Phase::GetInfo { waiting } => {
                let asked: Vec<Value> = waiting.iter().map(|osd| json!({"osd": osd.to_string()})).collect();
                state["requested_info_from"] = json!(asked);
            }
            Phase::Down => state["comment"] = "not enough up instances of this PG to go active".into(),
            Phase::WaitActing { .. } => state["comment"] = "waiting for pg acting set to change".into(),
            Phase::WaitUpThru if !self.is_flushed() => {
                state["comment"] = "waiting for this osd's store to commit earlier changes".into();
            }
            Phase::Idle | Phase::Replica | Phase::GetLog { .. } | Phase::WaitUpThru => {}
        }
        let peering = match &self.phase {
            Phase::GetInfo { .. } | Phase::GetLog { .. } | Phase::Down | Phase::WaitUpThru => {
                Some(self.peering_json(&entered, map))
            }
            // The wait for others to act is no part of Ceph's `Peering`.
            Phase::Idle
            | Phase::Replica
            | Phase::WaitActing { .. }
            | Phase::Activating { .. }
            | Phase::Active => None,
        };
        let started = json!({"name": "Started", "enter_time": entered});
        [Some(state), peering, Some(started)].into_iter().flatten().collect()
    }

    /// Where copies may be that are missing here.
    fn might_have_json(&self, map: &OsdMap) -> Value {
        let one = |osd: OsdId| {
            let status = match () {
                () if self.is_probed(osd, map) => "already probed",
                () if map.is_up(osd) => "not queried",
                () => "osd is down",
            };
            json!({"osd": osd.to_string(), "status": status})
        };
        self.might_have().into_iter().map(one).collect()
    }

    /// `ceph pg ID list_unfound`: objects that no OSD that is up can supply.
    pub fn list_unfound(&self, map: &OsdMap) -> Value {
        let objects: Vec<Value> = self
            .unfound
            .iter()
            .filter_map(|object| Some((object, self.missing.get(object)?)))
            .map(|(object, need)| {
                json!({
                    "oid": {
                        "oid": String::from_utf8_lossy(&object.oid),
                        "key": String::from_utf8_lossy(&object.key),
                        "snapid": object.snap.0 as i64,
                        "hash": object.hash,
                        "max": 0,
                        "pool": object.pool.0,
                        "namespace": String::from_utf8_lossy(&object.nspace),
                    },
                    "need": need.to_string(),
                    "have": "0'0",
                    "flags": "none",
                    // Objects are recovered whole.
                    "clean_regions": "clean_offsets: [], clean_omap: 0, new_object: 1",
                    "locations": [],
                })
            })
            .collect();
        let state = match (&self.phase, objects.is_empty()) {
            (Phase::Active, false) if self.recovery.is_idle() => "NotRecovering",
            (Phase::Active, false) => "Recovering",
            (Phase::Active, true) => "Active",
            _ => "Peering",
        };
        json!({
            "num_missing": self.missing.len(),
            "num_unfound": objects.len(),
            "objects": objects,
            "state": state,
            "available_might_have_unfound": true,
            "might_have_unfound": self.might_have_json(map),
            "more": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_world::World;

    #[test]
    fn a_pg_that_waits_for_others_to_act_is_past_peering() {
        let mut world = World::active();
        let mut states = |phase| {
            world.pg.phase = phase;
            let state = world.pg.recovery_json(&world.map);
            let names =
                state.as_array().into_iter().flatten().map(|one| one["name"].as_str().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(
            states(Phase::WaitActing { has_log: true }),
            ["Started/Primary/WaitActingChange", "Started"]
        );
        let peering = ["Started/Primary/Peering/WaitUpThru", "Started/Primary/Peering", "Started"];
        assert_eq!(states(Phase::WaitUpThru), peering);
        assert_eq!(states(Phase::Active), ["Started/Primary/Active", "Started"]);
    }

    #[test]
    fn a_primary_says_that_it_waits_for_its_store() {
        let mut world = World::active();
        world.pg.phase = Phase::WaitUpThru;
        for (flushes, is_told) in [(1, true), (0, false)] {
            world.pg.flushes = flushes;
            assert_eq!(world.pg.recovery_json(&world.map)[0]["comment"].is_string(), is_told);
        }
    }
}
