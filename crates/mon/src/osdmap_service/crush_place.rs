//! Where OSDs that start hang in the CRUSH map, and their device classes.
//!
//! Authority: `OSD::update_crush_location`, `OSD::update_crush_device_class`, `CrushLocation` (16.2).

use std::collections::BTreeMap;

use crush::{CrushMap, WEIGHT_ONE};
use messages::MOSDBoot;
use types::{EntityName, EntityType, OsdId, Settings, UTime};

use crate::Mon;

const TIB: f64 = (1u64 << 40) as f64;
/// The largest weight of an OSD: clients take it for a signed number.
const WEIGHT_MAX: f64 = i32::MAX as f64;

/// Names of buckets by the names of their types.
type Location = Vec<(String, String)>;

impl Mon {
    /// Hangs an OSD below the buckets in which it starts, and gives it a device class if it has none, unless operators
    /// look after these (`osd_crush_update_on_start`, `osd_class_update_on_start`).
    pub(super) fn place_in_crush(&mut self, wall: UTime, boot: &MOSDBoot) {
        let host = boot.metadata.get("hostname").map_or("localhost", String::as_str);
        let options = self.options_of_osd(boot.osd, host);
        let is_on = |option| options.get(option).as_deref() != Some("false");
        let mut crush = self.next.osdmap.crush.map().clone();
        let is_moved = is_on("osd_crush_update_on_start") && self.move_osd(wall, boot, &options, &mut crush);
        let is_classed = is_on("osd_class_update_on_start") && classify(boot, &mut crush);
        if is_moved || is_classed {
            self.change_crush(wall, crush);
            // Its place may be below more buckets than a map can have.
            if let Some(why) = self.osds.take_refused() {
                self.log_warn(wall, not_placed(boot.osd, &why));
            }
        }
    }

    /// Moves an OSD where it starts; false if it stays. One that was there before keeps its weight; a new one weighs
    /// its size in TiB.
    fn move_osd(&mut self, wall: UTime, boot: &MOSDBoot, options: &Settings, crush: &mut CrushMap) -> bool {
        let osd = boot.osd;
        let host = boot.metadata.get("hostname").map_or("localhost", String::as_str);
        let set = options.get("crush_location").filter(|text| !text.is_empty());
        let Some(location) = set.map_or_else(|| Some(default_location(host)), |text| parse_location(&text))
        else {
            self.log_warn(wall, format!("osd.{osd} keeps its place: its crush_location cannot be read"));
            return false;
        };
        if is_in(crush, osd.0, &location) {
            return false;
        }
        let weight = crush.item_weight(osd.0).unwrap_or_else(|| weight_of(boot));
        let placed = crush.place_device(osd.0, &format!("osd.{osd}"), weight, &location);
        if let Err(error) = &placed {
            self.log_warn(wall, not_placed(osd, error));
        }
        placed.is_ok()
    }

    /// The options of an OSD: as it reported them, which it does before it boots, or as the database has them.
    fn options_of_osd(&self, osd: OsdId, host: &str) -> Settings {
        self.osd_settings.get(&osd).cloned().unwrap_or_else(|| {
            let mut settings = Settings::default();
            settings.set_mon(&self.config_of(&EntityName::new(EntityType::OSD, osd.to_string()), host));
            settings
        })
    }
}

/// Gives an OSD that has a place, and no device class, that of its device. False if nothing changed.
fn classify(boot: &MOSDBoot, crush: &mut CrushMap) -> bool {
    let id = boot.osd.0;
    let class = boot.metadata.get("default_device_class").map_or("ssd", String::as_str);
    let is_wanted = crush.parent_of(id).is_some() && crush.device_class(id).is_none();
    is_wanted && crush.set_device_classes(&[id], Some(class)).is_ok()
}

fn not_placed(osd: OsdId, why: &dyn std::fmt::Display) -> String {
    format!("osd.{osd} is not placed in the CRUSH map where it starts: {why}")
}

/// The size in TiB, as far as maps can have it.
fn weight_of(boot: &MOSDBoot) -> u32 {
    (boot.device_bytes as f64 / TIB * f64::from(WEIGHT_ONE)).round().clamp(1.0, WEIGHT_MAX) as u32
}

fn default_location(host: &str) -> Location {
    let host = host.split('.').next().unwrap_or_default();
    [("root", "default"), ("host", host)].map(|(kind, name)| (kind.to_owned(), name.to_owned())).into()
}

/// Reads `root=default rack=a host=b`; none where the text names no bucket, or has another form. The last of a type
/// counts, as in commands.
fn parse_location(text: &str) -> Option<Location> {
    let parts = text.split([';', ',', ' ', '\t']).filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (kind, name) = part.split_once('=')?;
        (!kind.is_empty() && !name.is_empty()).then(|| (kind.to_owned(), name.to_owned()))
    };
    let location = parts.map(pair).collect::<Option<BTreeMap<_, _>>>()?;
    (!location.is_empty()).then(|| location.into_iter().collect())
}

/// True when the lowest of these buckets holds the item, wherever that bucket is, and whatever others hold the item.
/// Types that the map does not know are ignored (`CrushWrapper::check_item_loc`).
pub(crate) fn is_in(crush: &CrushMap, id: i32, location: &[(String, String)]) -> bool {
    let known = location
        .iter()
        .filter_map(|(kind, name)| Some((crush.type_of(kind).filter(|kind| *kind > 0)?, name)));
    let lowest = known.min_by_key(|(kind, _)| *kind).and_then(|(_, name)| crush.id_of(name));
    lowest.is_some_and(|bucket| crush.parents_of(id).contains(&bucket))
}
