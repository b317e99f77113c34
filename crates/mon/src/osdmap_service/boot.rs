//! OSDs that come up, tell that they live, and go down in order.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use messages::{MOSDAlive, MOSDBoot, MOSDMarkMeDown};
use types::{
    Epoch, Incremental, Instant, MapFlags, OsdId, OsdMap, OsdState, OsdXInfo, UTime, Uuid, WEIGHT_IN,
};

use super::failure::DownKind;
use crate::{ConnId, Effect, Effects, Mon, ledger_keys, state::value};

/// The cluster log hears of a refused OSD that often: it asks again every few seconds, and started anew at once.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(60);

impl Mon {
    /// Marks an OSD up, and makes its place in the map when it is new.
    pub(crate) fn on_osd_boot(
        &mut self,
        now: Instant,
        wall: UTime,
        conn: ConnId,
        boot: &MOSDBoot,
        effects: &mut Effects,
    ) {
        let osd = boot.osd;
        let map = self.next.osdmap.clone();
        let known_uuid = map.osd_uuid.get(osd.0.max(0) as usize).copied().unwrap_or(Uuid::NIL);
        if !(0..map.max_osd).contains(&osd.0) && !self.options.osd_ids().contains(&osd.0) {
            self.log_refusal(
                now,
                wall,
                osd,
                format!("osd.{osd} boots, but by mon_max_osd no OSD may have that id: refused"),
            );
            return;
        }
        if known_uuid != Uuid::NIL && known_uuid != boot.uuid {
            let text = format!(
                "osd.{osd} boots with another uuid than the map's: refused; if its store was made anew, `ceph osd \
                 destroy {osd}` makes room for it"
            );
            self.log_refusal(now, wall, osd, text);
            return;
        }
        // No OSD is told of an epoch before it is committed. The lost maps may have had other OSDs take writes.
        if boot.newest_map > map.epoch {
            let text = format!(
                "osd.{osd} boots with OSD map {}, but the newest here is {}: refused; this monitor's ledger is an older \
                 copy, see `loligo mon-rebuild`",
                boot.newest_map, map.epoch
            );
            self.log_refusal(now, wall, osd, text);
            return;
        }
        if map.has_flag(MapFlags::NOUP) || map.group_flags(osd).has(OsdState::NOUP) {
            return;
        }
        // An OSD asks to be marked up once it has the newest map. A request that does not know the last map that marked
        // the OSD up was sent before that map: it may come late, from an earlier life of the OSD. If the OSD lives, it
        // asks again.
        if boot.newest_map < map.up_from(osd) {
            self.send_osdmaps(conn, boot.newest_map.next(), false, effects);
            return;
        }
        self.osds.last_report.insert(osd, now);
        if map.is_up(osd) {
            if map.osd_addrs(osd) == Some(&boot.public_addrs) && map.osd_uuid[osd.0 as usize] == boot.uuid {
                return;
            }
            self.change_osdmap(wall, |_, inc| {
                inc.new_state.insert(osd, OsdState::UP);
            });
        }
        // An OSD that was only marked down has not moved.
        let is_start = map.osd_addrs(osd) != Some(&boot.public_addrs);
        if is_start || map.crush.map().parent_of(osd.0).is_none() {
            self.place_in_crush(wall, boot);
        }
        self.change_osdmap(wall, |map, inc| mark_up(map, inc, boot));
        self.put(ledger_keys::osd_metadata(osd), value(&metadata_of(boot)));
        self.log_info(wall, format!("osd.{osd} {} boot", boot.public_addrs));
    }

    /// An OSD that is up has had the map of this epoch. No OSD is told of an epoch before it is committed: if it is
    /// beyond the newest one here, the OSD ignores all maps up to it.
    pub(crate) fn note_osd_epoch(&mut self, now: Instant, wall: UTime, osd: OsdId, epoch: Epoch) {
        let newest = self.committed.osdmap.epoch;
        if epoch <= newest {
            self.osds.ahead.remove(&osd);
            return;
        }
        self.osds.ahead.insert(osd, epoch);
        let text = format!(
            "osd.{osd} has OSD map {epoch}, but the newest here is {newest}: this monitor's ledger is an older copy, see \
             `loligo mon-rebuild`"
        );
        self.log_refusal(now, wall, osd, text);
    }

    /// Why the OSD map may not be changed by a command, if that is so: OSDs would ignore the change.
    pub(crate) fn cannot_change_osdmap(&self) -> Option<String> {
        let newest = self.osds_ahead().map(|(_, epoch)| epoch).max()?;
        let known = self.committed.osdmap.epoch;
        Some(format!("OSDs have had OSD map {newest}, and this monitor {known}: its ledger is an older copy"))
    }

    /// An OSD asks for maps from `start` on: it has the one before. It asks before it reports.
    pub(crate) fn note_wanted_map(&mut self, osd: OsdId, start: u64) {
        let epoch = Epoch(u32::try_from(start.saturating_sub(1)).unwrap_or(u32::MAX));
        if epoch > self.committed.osdmap.epoch {
            self.osds.ahead.insert(osd, epoch);
        }
    }

    /// OSDs that have had maps that are not known here: those that are up, and those that are here, as an older map may
    /// not know that they are up.
    pub(crate) fn osds_ahead(&self) -> impl Iterator<Item = (OsdId, Epoch)> {
        let map = &self.committed.osdmap;
        let ahead = self.osds.ahead.iter().map(|(osd, epoch)| (*osd, *epoch));
        let is_here = |osd| self.sessions.keys().any(|conn| self.osd_of(*conn) == Some(osd));
        ahead.filter(move |(osd, epoch)| *epoch > map.epoch && (map.is_up(*osd) || is_here(*osd)))
    }

    /// Tells the cluster log that an OSD is not let in, or may not be heeded, unless it was told lately.
    fn log_refusal(&mut self, now: Instant, wall: UTime, osd: OsdId, text: String) {
        let told = &mut self.osds.refusals_told;
        told.retain(|_, at| now.since(*at) < REFUSAL_LOG_INTERVAL);
        if let Entry::Vacant(new) = told.entry(osd) {
            new.insert(now);
            self.log_warn(wall, text);
        }
    }

    /// Makes `crush` the map's CRUSH map.
    pub(crate) fn change_crush(&mut self, wall: UTime, crush: crush::CrushMap) {
        let blob = types::CrushBlob::from(crush);
        self.change_osdmap(wall, |map, inc| {
            inc.crush = blob.bytes().clone();
            drop_flags(map, inc, blob.map());
        });
    }

    pub(crate) fn on_osd_alive(&mut self, wall: UTime, alive: &MOSDAlive) {
        let map = &self.next.osdmap;
        // An epoch from the future is a lie, or comes from another life of the cluster.
        if map.is_up(alive.osd) && alive.want > map.up_thru(alive.osd) && alive.want <= map.epoch {
            self.change_osdmap(wall, |_, inc| {
                inc.new_up_thru.insert(alive.osd, alive.want);
            });
        }
    }

    pub(crate) fn on_mark_me_down(
        &mut self,
        wall: UTime,
        conn: ConnId,
        tid: u64,
        request: &MOSDMarkMeDown,
        effects: &mut Effects,
    ) {
        let osd = request.osd;
        // The sender's map shows it up. A request that does not know the map that marked the OSD up comes from an
        // earlier life, and must not have the present one taken for dead.
        if request.epoch >= self.next.osdmap.up_from(osd) {
            self.mark_down(wall, osd, DownKind::Dead, format!("osd.{osd} marked itself down"));
        }
        let ack = MOSDMarkMeDown { is_ack: true, ..*request };
        self.answer_when_committed(Effect::Send { conn, tid, message: ack.into() }, effects);
    }
}

/// Flags go with their nodes and classes: what comes later under the same ids is something else.
pub(crate) fn drop_flags(map: &OsdMap, inc: &mut Incremental, next: &crush::CrushMap) {
    let gone = map.crush_node_flags.keys().filter(|id| !next.names.contains_key(id));
    inc.new_crush_node_flags.extend(gone.map(|id| (*id, OsdState::default())));
    let gone = map.device_class_flags.keys().filter(|id| !next.class_names.contains_key(id));
    inc.new_device_class_flags.extend(gone.map(|id| (*id, OsdState::default())));
}

fn mark_up(map: &OsdMap, inc: &mut Incremental, boot: &MOSDBoot) {
    let osd = boot.osd;
    if osd.0 >= map.max_osd {
        inc.new_max_osd = Some(osd.0 + 1);
    }
    inc.new_up_client.insert(osd, boot.public_addrs.clone());
    inc.new_up_cluster.insert(osd, boot.cluster_addrs.clone());
    inc.new_hb_back_up.insert(osd, boot.cluster_addrs.clone());
    inc.new_hb_front_up.insert(osd, boot.public_addrs.clone());
    inc.new_uuid.insert(osd, boot.uuid);
    let known = map.osd_xinfo.get(osd.0 as usize).copied().unwrap_or_default();
    let mut xinfo = OsdXInfo { features: boot.features, ..known };
    let state = map.state(osd);
    let may_be_in = !map.has_flag(MapFlags::NOIN) && !map.group_flags(osd).has(OsdState::NOIN);
    // The store that boots replaces a destroyed OSD, whether or not `osd new` announced it.
    let is_new = !map.exists(osd) || state.has(OsdState::NEW) || state.has(OsdState::DESTROYED);
    if state.has(OsdState::DESTROYED) {
        inc.new_state.insert(osd, OsdState::DESTROYED);
    }
    let is_out = map.weight(osd) == 0;
    // One that was replaced while it was in is not new any more either: a weight says so.
    if may_be_in && (if is_out { is_new || state.has(OsdState::AUTOOUT) } else { state.has(OsdState::NEW) }) {
        let weight = match map.weight(osd) {
            0 if known.old_weight > 0 => known.old_weight,
            0 => WEIGHT_IN,
            weight => weight,
        };
        inc.new_weight.insert(osd, weight);
        // The weight from before holds again. This entry takes effect after the weight, which clears it, too.
        xinfo.old_weight = 0;
    }
    inc.new_xinfo.insert(osd, xinfo);
}

/// `ceph osd metadata` as Ceph's OSDs fill it, as far as the boot message tells.
fn metadata_of(boot: &MOSDBoot) -> BTreeMap<String, String> {
    let mut out = boot.metadata.clone();
    let addrs = |vec: &types::EntityAddrVec| {
        format!("[{}]", vec.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
    };
    for (key, value) in [
        ("front_addr", addrs(&boot.public_addrs)),
        ("hb_front_addr", addrs(&boot.public_addrs)),
        ("back_addr", addrs(&boot.cluster_addrs)),
        ("hb_back_addr", addrs(&boot.cluster_addrs)),
        ("bluestore_bdev_size", boot.device_bytes.to_string()),
        ("osd_objectstore", "loligo".to_owned()),
    ] {
        out.entry(key.to_owned()).or_insert(value);
    }
    out
}
