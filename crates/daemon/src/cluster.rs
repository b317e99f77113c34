//! A cluster's folder: ceph.conf, keyrings, data of daemons; and making it.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use auth::{CryptoKey, Keyring, KeyringEntry};
use mon::{Ledger, MkfsParams};
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};
use reactor::Reactor;
use store::StoreIdentity;
use types::{EntityName, EntityType, KeyType};

use crate::{
    ceph_conf::CephConf,
    clock,
    device::{Access, Device},
    device_paths::{self, DevicePaths, FastDevices},
    embedded_ledger::EmbeddedLedger,
};

/// A new uuid, version 4.
pub(crate) fn new_uuid(rng: &mut StdRng) -> [u8; 16] {
    let mut bytes: [u8; 16] = rng.random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// The usual form of a uuid.
pub(crate) fn format_uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Reads the usual form.
pub(crate) fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    let bytes: Option<Vec<u8>> =
        (0..hex.len() / 2).map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()).collect();
    bytes.and_then(|b| b.try_into().ok()).with_context(|| format!("{text} is not a uuid"))
}

/// The machine's name; `localhost` for one that was given none, as no bucket of a CRUSH map can have Linux's `(none)`.
pub(crate) fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" | "(none)" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

fn pid_path(conf: &CephConf, who: &EntityName) -> Option<PathBuf> {
    conf.get(who, "pid file").map(PathBuf::from)
}

/// Where the daemon logs to, if its ceph.conf says.
pub fn log_file(kind: &str, id: &str, conf_path: &Path) -> Result<Option<PathBuf>> {
    let kind = if kind == "mon" { EntityType::MON } else { EntityType::OSD };
    Ok(CephConf::read(conf_path)?.get(&EntityName::new(kind, id), "log file").map(PathBuf::from))
}

/// Writes the pid file, if one is configured.
pub(crate) fn write_pid(conf: &CephConf, who: &EntityName) -> Result<()> {
    let Some(path) = pid_path(conf, who) else { return Ok(()) };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, format!("{}\n", std::process::id())).with_context(|| path.display().to_string())
}

/// Removes it.
pub(crate) fn remove_pid(conf: &CephConf, who: &EntityName) {
    if let Some(path) = pid_path(conf, who) {
        // It may be gone already: its folder belongs to the operator.
        let _ = fs::remove_file(path);
    }
}

/// What a new cluster on one machine is made of.
pub(crate) struct NewCluster<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) osds: u32,
    pub(crate) devices: &'a [PathBuf],
    /// Journal devices, one each.
    pub(crate) journal_devices: &'a [PathBuf],
    /// Index devices, one each.
    pub(crate) index_devices: &'a [PathBuf],
    pub(crate) device_bytes: u64,
    /// Reactors of each OSD.
    pub(crate) reactors: u16,
    pub(crate) port: u16,
    /// The type of client keys.
    pub(crate) key_type: KeyType,
}

impl NewCluster<'_> {
    /// Makes the folder with everything in it.
    pub(crate) fn make(&self) -> Result<()> {
        let dir = self.dir;
        fs::create_dir_all(dir.join("run")).with_context(|| format!("making {}", dir.display()))?;
        let dir = &dir.canonicalize()?;
        let mut rng = StdRng::from_seed(clock::random_seed());
        let fsid = new_uuid(&mut rng);
        let mut keys = BTreeMap::new();
        let admin = EntityName::new(EntityType::CLIENT, "admin");
        // Keys that `ceph auth export` shows are of a type that clients can read. The monitors' own is not among them:
        // it is of the safest type whatever clients know.
        let mut new_key = |kind| CryptoKey::generate(kind, clock::wall(), &mut rng);
        keys.insert(EntityName::new(EntityType::MON, ""), new_key(KeyType::Aes256k));
        keys.insert(admin.clone(), new_key(self.key_type));
        for osd in 0..self.osds {
            let name = EntityName::new(EntityType::OSD, osd.to_string());
            keys.insert(name, new_key(self.key_type));
        }
        let conf_path = dir.join("ceph.conf");
        for (name, key) in &keys {
            let mut caps = BTreeMap::new();
            let path = match name.kind {
                EntityType::MON => dir.join("mon.a/keyring"),
                EntityType::OSD => dir.join(format!("{name}/keyring")),
                _ => {
                    for service in ["mds", "mgr", "mon", "osd"] {
                        caps.insert(service.to_owned(), "allow *".to_owned());
                    }
                    dir.join("keyring")
                }
            };
            let entry = KeyringEntry { key: key.clone(), caps };
            write_secret(&path, &Keyring([(name.clone(), entry)].into()).to_string())?;
        }
        let conf = CephConf::parse(&self.conf_text(dir, &fsid))?;
        let who = EntityName::new(EntityType::MON, "a");
        let mons = conf.mon_hosts(&who)?.into_iter().map(|addrs| ("a".to_owned(), addrs)).collect();
        let now = clock::wall();
        let (key_type, seed) = (self.key_type, clock::random_seed());
        let params = MkfsParams { fsid, now, mons, keys, chooseleaf_type: 0, key_type, seed };
        EmbeddedLedger::open(&dir.join("mon.a/ledger.redb"))?.commit(&mon::mkfs(&params))?;
        for osd in 0..self.osds {
            make_store(
                &conf,
                &EntityName::new(EntityType::OSD, osd.to_string()),
                self.device_bytes,
                self.reactors,
            )?;
        }
        // Last: a folder with a ceph.conf is a whole cluster.
        fs::write(&conf_path, self.conf_text(dir, &fsid)).with_context(|| conf_path.display().to_string())
    }

    fn conf_text(&self, dir: &Path, fsid: &[u8; 16]) -> String {
        let (dir, port, fsid) = (dir.display(), self.port, format_uuid(fsid));
        let mut out = format!(
            "[global]\nfsid = {fsid}\nmon initial members = a\nmon host = [v2:127.0.0.1:{port}]\n\
             auth cluster required = cephx\nauth service required = cephx\nauth client required = cephx\n\
             keyring = {dir}/keyring\npid file = {dir}/run/$name.pid\nms bind ipv6 = false\n\
             osd crush chooseleaf type = 0\n\n[mon.a]\nmon data = {dir}/mon.a\nlog file = {dir}/log/mon.a.log\n\
             admin socket = {dir}/run/$cluster-$name.asok\n\n\
             [osd]\nadmin socket = {dir}/run/$cluster-$name.asok\nosd data = {dir}/osd.$id\nlog file = {dir}/log/$name.log\n"
        );
        for osd in 0..self.osds {
            let osd_port = u32::from(port) + 1 + osd;
            out.push_str(&format!("\n[osd.{osd}]\npublic addr = 127.0.0.1:{osd_port}\n"));
            for (option, devices) in [
                ("loligo device", self.devices),
                ("loligo journal device", self.journal_devices),
                ("loligo index device", self.index_devices),
            ] {
                if let Some(device) = devices.get(osd as usize) {
                    let device = std::path::absolute(device).unwrap_or_else(|_| device.clone());
                    out.push_str(&format!("{option} = {}\n", device.display()));
                }
            }
        }
        out
    }
}

/// Writes a file that only its owner reads.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = fs::OpenOptions::new();
    let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())
}

/// As many reactors as an OSD gets by itself, on a machine with so many CPUs and OSDs: half of the CPUs are
/// for the kernel, the network and clients.
pub(crate) fn reactors_for(cpus: usize, osds: usize) -> u16 {
    let share = cpus / (2 * osds.max(1));
    let power = share.checked_ilog2().unwrap_or(0);
    1 << power.min(REACTORS_DEFAULT_MAX.ilog2())
}

/// More than this are of no use to a single NVMe device.
const REACTORS_DEFAULT_MAX: u16 = 8;

/// OSDs of a machine, where nobody tells how many there are.
const OSDS_ASSUMED: usize = 4;

fn make_store(conf: &CephConf, who: &EntityName, device_bytes: u64, reactors: u16) -> Result<()> {
    if !reactors.is_power_of_two() || reactors > osd::SHARDS_MAX {
        bail!("an OSD has 1, 2, 4, 8, 16 or {} reactors, not {reactors}", osd::SHARDS_MAX);
    }
    let paths = DevicePaths::read(conf, who)?;
    if let Some(folder) = paths.main.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut reactor = Reactor::new(reactor::Config::default())?;
    let device = Device::open(&mut reactor, &paths, Access::Create(device_bytes))?;
    let mut rng = StdRng::from_seed(clock::random_seed());
    let identity = StoreIdentity {
        store_uuid: new_uuid(&mut rng),
        fsid: parse_uuid(&conf.require(who, "fsid")?)?,
        osd: who.id.parse().context("an OSD's id is a number")?,
        shard: 0,
        shards: reactors,
    };
    device.format(identity, &mut reactor).with_context(|| format!("formatting {}", paths.main.display()))
}

/// Makes the data of one daemon that ceph.conf names. `reactors` and `fast` are for an OSD, `key_type` is for a
/// monitor.
pub fn mkfs(
    kind: &str,
    id: &str,
    conf_path: &Path,
    device_bytes: u64,
    reactors: Option<u16>,
    fast: &FastDevices,
    key_type: KeyType,
) -> Result<()> {
    let conf = CephConf::read(conf_path)?;
    if kind == "osd" {
        let cpus = reactor::available_cpus()?.len();
        let reactors = reactors.unwrap_or_else(|| reactors_for(cpus, OSDS_ASSUMED));
        let who = EntityName::new(EntityType::OSD, id);
        device_paths::link(&conf, &who, fast)?;
        return make_store(&conf, &who, device_bytes, reactors);
    }
    if fast.journal.is_some() || fast.index.is_some() {
        bail!("a monitor has no journal or index device");
    }
    let who = EntityName::new(EntityType::MON, id);
    let data = PathBuf::from(conf.require(&who, "mon data")?);
    fs::create_dir_all(&data)?;
    let ledger_path = data.join("ledger.redb");
    if ledger_path.exists() {
        bail!("{} exists: a monitor's data is made once", ledger_path.display());
    }
    let mut keys = BTreeMap::new();
    for path in
        [conf.get(&who, "keyring").map(PathBuf::from), Some(data.join("keyring"))].into_iter().flatten()
    {
        if let Ok(text) = fs::read_to_string(&path) {
            let keyring = Keyring::parse(&text).with_context(|| path.display().to_string())?;
            keys.extend(keyring.0.into_iter().map(|(name, entry)| (name, entry.key)));
        }
    }
    if let Some((name, key)) = keys.iter().find(|(_, key)| key.kind() < key_type) {
        bail!("the key of {name} is of type {}: it would not be let in", key.kind());
    }
    let mut rng = StdRng::from_seed(clock::random_seed());
    let admin = EntityName::new(EntityType::CLIENT, "admin");
    if let Entry::Vacant(slot) = keys.entry(admin.clone()) {
        let key = CryptoKey::generate(key_type, clock::wall(), &mut rng);
        let caps = ["mds", "mgr", "mon", "osd"].map(|s| (s.to_owned(), "allow *".to_owned())).into();
        let path = conf.get(&who, "keyring").map_or(data.join("client.admin.keyring"), PathBuf::from);
        let keyring = Keyring([(admin, KeyringEntry { key: key.clone(), caps })].into());
        write_secret(&path, &keyring.to_string())?;
        slot.insert(key);
    }
    let mons = conf.mon_hosts(&who)?.into_iter().take(1).map(|addrs| (id.to_owned(), addrs)).collect();
    let chooseleaf_type =
        conf.get(&who, "osd crush chooseleaf type").and_then(|v| v.parse().ok()).unwrap_or(1);
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    let fsid = parse_uuid(&conf.require(&who, "fsid")?)?;
    let params = MkfsParams { fsid, now: clock::wall(), mons, keys, chooseleaf_type, key_type, seed };
    EmbeddedLedger::open(&ledger_path)?.commit(&mon::mkfs(&params))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_machines_have_one_reactor_for_each_osd() {
        let found = [(2, 3), (1, 1), (4, 1), (16, 4), (64, 4), (256, 2)].map(|(c, o)| reactors_for(c, o));
        assert_eq!(found, [1, 1, 2, 2, 8, 8]);
    }
}
