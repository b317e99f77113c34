//! The manager's devices: the drives that the OSDs report to be on, and how long each is expected to live.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use types::Errno;

use crate::{
    commands::{Args, Reply, Request},
    format::{Align, TextTable, python_sorted},
};

module_rows! {
    "device ls" "r" "Show devices" ls
    "device info name=devid,type=CephString" "r" "Show information about a device" info
    "device ls-by-daemon name=who,type=CephString" "r" "Show devices associated with a daemon" ls_by_daemon
    "device ls-by-host name=host,type=CephString" "r" "Show devices on a host" ls_by_host
    "device set-life-expectancy name=devid,type=CephString name=from,type=CephString name=to,type=CephString,req=false"
        "rw" "Set predicted device life expectancy" set_life
    "device rm-life-expectancy name=devid,type=CephString" "rw" "Clear predicted device life expectancy" rm_life
    "device ls-lights" "r" "List currently active device indicator lights" lights
}

/// Where life expectancies are kept.
fn key_of(devid: &str) -> String {
    format!("device/{devid}")
}

/// A drive.
#[derive(Default)]
struct Device {
    /// The hosts that have the drive, and its name on each.
    places: BTreeSet<(String, String)>,
    daemons: BTreeSet<String>,
    /// From when to when it is expected to fail, and since when that is known.
    life: Option<(String, String, String)>,
}

fn devices(req: &Request<'_>) -> BTreeMap<String, Device> {
    let mut out: BTreeMap<String, Device> = BTreeMap::new();
    for (osd, metadata) in req.state().osd_metadata.iter() {
        let host = metadata.get("hostname").cloned().unwrap_or_default();
        let ids = metadata.get("device_ids").map(String::as_str).unwrap_or_default();
        for (name, id) in
            ids.split(',').filter_map(|pair| pair.split_once('=')).filter(|(_, id)| !id.is_empty())
        {
            let device = out.entry(id.to_owned()).or_default();
            device.places.insert((host.clone(), name.to_owned()));
            device.daemons.insert(format!("osd.{osd}"));
        }
    }
    for (id, device) in &mut out {
        let kept: Option<Value> =
            req.state().config_keys.get(&key_of(id)).and_then(|text| serde_json::from_slice(text).ok());
        device.life = kept.map(|kept| {
            let text = |key: &str| kept[key].as_str().unwrap_or_default().to_owned();
            (text("life_expectancy_min"), text("life_expectancy_max"), text("life_expectancy_stamp"))
        });
    }
    out
}

impl Device {
    fn to_value(&self, id: &str) -> Value {
        let places: Vec<Value> =
            self.places.iter().map(|(host, dev)| json!({"host": host, "dev": dev, "path": ""})).collect();
        let mut out = json!({"devid": id, "location": places, "daemons": self.daemons});
        if let Some((min, max, stamp)) = &self.life {
            out["life_expectancy_min"] = min.as_str().into();
            out["life_expectancy_max"] = max.as_str().into();
            out["life_expectancy_stamp"] = stamp.as_str().into();
        }
        out
    }

    fn names(&self) -> String {
        self.daemons.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    fn expectancy(&self) -> String {
        match &self.life {
            Some((min, max, _)) if max.is_empty() => format!("> {min}"),
            Some((min, max, _)) => format!("{min} to {max}"),
            None => String::new(),
        }
    }
}

type Shown<'a> = Vec<(&'a String, &'a Device)>;

fn show(
    args: &Args,
    shown: &Shown<'_>,
    headings: &[&str],
    row: impl Fn(&str, &Device) -> Vec<String>,
) -> Reply {
    let json = || shown.iter().map(|(id, device)| device.to_value(id)).collect();
    let text = || {
        let headings: Vec<(&str, Align)> = headings.iter().map(|heading| (*heading, Align::Left)).collect();
        let mut table = TextTable::default().columns(&headings);
        shown.iter().for_each(|(id, device)| table.row(row(id, device)));
        table.render()
    };
    Reply::show(args, json, text)
}

fn ls(req: &mut Request<'_>) -> Reply {
    let devices = devices(req);
    let row = |id: &str, device: &Device| {
        let places: Vec<String> = device.places.iter().map(|(host, dev)| format!("{host}:{dev}")).collect();
        vec![id.to_owned(), places.join(" "), device.names(), String::new(), device.expectancy()]
    };
    let headings = ["DEVICE", "HOST:DEV", "DAEMONS", "WEAR", "LIFE EXPECTANCY"];
    show(req.args, &devices.iter().collect(), &headings, row)
}

fn ls_by_daemon(req: &mut Request<'_>) -> Reply {
    let who = req.args.text("who").unwrap_or_default();
    let is_known = match who.split_once('.') {
        Some(("osd", id)) => {
            id.parse().is_ok_and(|id| req.state().osd_metadata.contains_key(&types::OsdId(id)))
        }
        Some(("mon", id)) => req.state().monmap.rank_of(id).is_some(),
        Some(("mgr", id)) => id == req.mon.options.name,
        _ => return Reply::fail(Errno::EINVAL, format!("{who} is not a valid daemon name")),
    };
    if !is_known {
        return Reply::fail(Errno::ENOENT, format!("daemon {who} not found"));
    }
    let devices = devices(req);
    let shown = devices.iter().filter(|(_, device)| device.daemons.contains(&who)).collect();
    let row = |id: &str, device: &Device| {
        let places: Vec<String> = device.places.iter().map(|(host, dev)| format!("{host}:{dev}")).collect();
        vec![id.to_owned(), places.join(" "), device.expectancy()]
    };
    show(req.args, &shown, &["DEVICE", "HOST:DEV", "EXPECTED FAILURE"], row)
}

fn ls_by_host(req: &mut Request<'_>) -> Reply {
    let host = req.args.text("host").unwrap_or_default();
    let devices = devices(req);
    let is_there = |device: &Device| device.places.iter().any(|(at, _)| *at == host);
    let shown = devices.iter().filter(|(_, device)| is_there(device)).collect();
    let row = |id: &str, device: &Device| {
        let here = device.places.iter().filter(|(at, _)| *at == host).map(|(_, dev)| dev.as_str());
        vec![id.to_owned(), here.collect::<Vec<_>>().join(" "), device.names(), device.expectancy()]
    };
    show(req.args, &shown, &["DEVICE", "DEV", "DAEMONS", "EXPECTED FAILURE"], row)
}

fn info(req: &mut Request<'_>) -> Reply {
    let id = req.args.text("devid").unwrap_or_default();
    let devices = devices(req);
    let Some(device) = devices.get(&id) else {
        return Reply::fail(Errno::ENOENT, format!("device {id} not found"));
    };
    let text = || {
        let mut out = format!("device {id}\n");
        for (host, dev) in &device.places {
            out.push_str(&format!("attachment {host} {dev} \n"));
        }
        out.push_str(&format!("daemons {}\n", device.names()));
        if device.life.is_some() {
            out.push_str(&format!("life_expectancy {}\n", device.expectancy()));
        }
        out
    };
    Reply::show(req.args, || device.to_value(&id), text)
}

fn set_life(req: &mut Request<'_>) -> Reply {
    let text = |name: &str| req.args.text(name).unwrap_or_default();
    let (id, from, to) = (text("devid"), text("from"), text("to"));
    let is_date = |date: &str| date.starts_with(|c: char| c.is_ascii_digit()) && date.split('-').count() == 3;
    for (name, date) in [("from", &from), ("to", &to)] {
        let is_open_end = name == "to" && date.is_empty();
        if !is_open_end && !is_date(date) {
            return Reply::fail(Errno::EINVAL, format!("unable to parse datetime '{date}'"));
        }
    }
    let kept = json!({
        "life_expectancy_min": from,
        "life_expectancy_max": to,
        "life_expectancy_stamp": req.wall.to_string(),
    });
    req.mon.put_config_key(&key_of(&id), Some(kept.to_string().into()));
    Reply::default()
}

fn rm_life(req: &mut Request<'_>) -> Reply {
    let id = req.args.text("devid").unwrap_or_default();
    if req.mon.next.config_keys.contains_key(&key_of(&id)) {
        req.mon.put_config_key(&key_of(&id), None);
    }
    Reply::default()
}

/// Only an orchestrator could switch lights, and there is none.
fn lights(_: &mut Request<'_>) -> Reply {
    Reply::module(python_sorted(&json!({"fault": [], "ident": []})))
}
