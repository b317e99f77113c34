//! Making the cluster of `loligo up`: its folder with ceph.conf, keyrings and the data of its daemons.

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use auth::{CryptoKey, Keyring, KeyringEntry};
use mon::MkfsParams;
use rand::{Rng, SeedableRng, rngs::StdRng};
use types::{EntityName, EntityType, KeyType, Uuid};

use crate::{
    ceph_conf::CephConf,
    clock,
    cluster_folder::refuse_partial_cluster,
    device::GoOn,
    device_paths::DevicePaths,
    durable,
    embedded_ledger::EmbeddedLedger,
    file_space::shortage,
    new_stores::{NewStores, Wanted},
    private,
    undo::Undo,
    unfinished::Unfinished,
};

/// Of ceph.conf, which every client reads; what is left of it is the umask's.
const CONF_MODE: u32 = 0o666;

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
    /// Devices are taken whatever they hold.
    pub(crate) is_forced: bool,
    /// The type of client keys.
    pub(crate) key_type: KeyType,
    /// Asked between steps: an error ends the making.
    pub(crate) go_on: GoOn<'a>,
}

#[cfg(test)]
impl<'a> NewCluster<'a> {
    /// One with a small OSD in a file.
    pub(crate) fn small(dir: &'a Path) -> NewCluster<'a> {
        NewCluster {
            dir,
            osds: 1,
            devices: &[],
            journal_devices: &[],
            index_devices: &[],
            device_bytes: 64 << 20,
            reactors: 1,
            port: 3300,
            is_forced: false,
            key_type: KeyType::Aes,
            go_on: &|| Ok(()),
        }
    }
}

impl NewCluster<'_> {
    /// Makes the folder with everything in it, or nothing of it.
    pub(crate) fn make(&self) -> Result<()> {
        self.check_ports()?;
        let mut undo = Undo::default();
        if durable::make_folders(self.dir).with_context(|| format!("making {}", self.dir.display()))? {
            undo.made(self.dir)?;
        }
        let dir = &self.dir.canonicalize()?;
        check_path(dir)?;
        for device in [self.devices, self.journal_devices, self.index_devices].concat() {
            check_path(&std::path::absolute(device)?)?;
        }
        let mut rng = StdRng::from_seed(clock::random_seed());
        let fsid = Uuid::from_random(rng.random());
        let record = Unfinished::begin(dir, fsid)?;
        let given_up = record.fsids().to_vec();
        undo.record(record)?;
        let conf_path = dir.join("ceph.conf");
        if conf_path.exists() {
            bail!("another process has just made {}", conf_path.display());
        }
        refuse_partial_cluster(dir, self.osds)?;
        let run = dir.join("run");
        if durable::make_folders(&run).with_context(|| format!("making {}", run.display()))? {
            undo.made(&run)?;
        }
        let conf_text = self.conf_text(dir, fsid);
        let conf = CephConf::parse(&conf_text)?;
        let keys = self.new_keys(&mut rng);
        let stores = self.make_stores(&conf, given_up, &mut undo)?;
        self.make_ledger(dir, fsid, &conf, keys.clone(), &mut undo)?;
        for (name, key) in keys {
            write_keyring(dir, name, key, &mut undo)?;
        }
        // Last: a folder with a ceph.conf is a whole cluster, and is not taken for less if that is lost.
        undo.note_whole()?;
        let write = || durable::write(&conf_path, conf_text.as_bytes(), CONF_MODE);
        noted(&conf_path, &mut undo, || write().with_context(|| conf_path.display().to_string()))?;
        stores.keep();
        undo.keep();
        Ok(())
    }

    fn make_stores(&self, conf: &CephConf, given_up: Vec<Uuid>, undo: &mut Undo) -> Result<NewStores> {
        let mut stores = NewStores::new(self.is_forced, given_up)?;
        let osds = (0..self.osds).map(|osd| {
            let who = EntityName::new(EntityType::OSD, osd.to_string());
            let paths = DevicePaths::read(conf, &who);
            (who, paths)
        });
        let osds: Vec<(EntityName, DevicePaths)> = osds.collect();
        // To try something on a small machine much less is written than the files may hold: that is the operator's
        // choice.
        if let Some(shortage) = shortage(osds.iter().map(|(_, paths)| paths), self.device_bytes)? {
            // The output may have no reader, which is no reason to fail.
            let _ = writeln!(std::io::stdout(), "Warning: {shortage}");
        }
        let wanted = Wanted { device_bytes: self.device_bytes, reactors: self.reactors, uuid: None };
        for (who, paths) in osds {
            (self.go_on)()?;
            stores.add(conf, &who, paths, wanted, undo)?;
        }
        // The last time: what devices held is gone from here on, and the rest takes a moment.
        (self.go_on)()?;
        stores.format()?;
        Ok(stores)
    }

    /// The OSDs have the ports behind the monitor's.
    fn check_ports(&self) -> Result<()> {
        let last = u64::from(self.port) + u64::from(self.osds);
        if last > u64::from(u16::MAX) {
            bail!(
                "--port {}: with {} OSDs the ports end at {last}, above {}",
                self.port,
                self.osds,
                u16::MAX
            );
        }
        Ok(())
    }

    /// A key for each daemon, and the operator's.
    fn new_keys(&self, rng: &mut StdRng) -> BTreeMap<EntityName, CryptoKey> {
        let mut new_key = |kind| CryptoKey::generate(kind, clock::wall(), rng);
        // Keys that `ceph auth export` shows are of a type that clients can read. The monitors' own is not among them:
        // it is of the safest type whatever clients know.
        let mut keys = BTreeMap::from([
            (EntityName::new(EntityType::MON, ""), new_key(KeyType::Aes256k)),
            (EntityName::new(EntityType::CLIENT, "admin"), new_key(self.key_type)),
        ]);
        for osd in 0..self.osds {
            keys.insert(EntityName::new(EntityType::OSD, osd.to_string()), new_key(self.key_type));
        }
        keys
    }

    fn make_ledger(
        &self,
        dir: &Path,
        fsid: Uuid,
        conf: &CephConf,
        keys: BTreeMap<EntityName, CryptoKey>,
        undo: &mut Undo,
    ) -> Result<()> {
        let who = EntityName::new(EntityType::MON, "a");
        let mons = conf.mon_hosts(&who)?.into_iter().map(|addrs| ("a".to_owned(), addrs)).collect();
        let (now, key_type, seed) = (clock::wall(), self.key_type, clock::random_seed());
        let keys = keys.into_iter().map(|(name, key)| (name, KeyringEntry { key, caps: BTreeMap::new() }));
        let keys = keys.collect();
        let params = MkfsParams { fsid, now, mons, keys, chooseleaf_type: 0, key_type, seed };
        let data = dir.join("mon.a");
        if private::make_folder(&data)? {
            undo.made(&data)?;
        }
        EmbeddedLedger::make(&data.join("ledger.redb"), &mon::mkfs(&params), undo)
    }

    fn conf_text(&self, dir: &Path, fsid: Uuid) -> String {
        let (dir, port) = (dir.display(), self.port);
        let mut out = format!(
            "[global]\nfsid = {fsid}\nmon initial members = a\nmon host = [v2:127.0.0.1:{port}]\n\
             auth cluster required = cephx\nauth service required = cephx\nauth client required = cephx\n\
             keyring = {dir}/keyring\npid file = {dir}/run/$name.pid\nms bind ipv6 = false\n\
             osd crush chooseleaf type = 0\n\n\
             [mon.a]\nmon data = {dir}/mon.a\nmon allow pool delete = true\n\
             mon data avail warn = 1\nmon data avail crit = 0\nlog file = {dir}/log/mon.a.log\n\
             admin socket = {dir}/run/$cluster-$name.asok\n\n\
             [osd]\nosd data = {dir}/osd.$id\nlog file = {dir}/log/$name.log\n\
             ms bind port min = 0\n\
             admin socket = {dir}/run/$cluster-$name.asok\n"
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

/// Refuses a path that would be read from ceph.conf as another: what begins a comment, an escape or a metavariable
/// there, and ends of lines, cannot be part of it.
fn check_path(path: &Path) -> Result<()> {
    let is_special = |c: char| matches!(c, '#' | ';' | '\\' | '$') || c.is_control();
    match path.to_str() {
        Some(text) if text.trim_end() == text && !text.contains(is_special) => Ok(()),
        _ => bail!("{path:?} cannot stand in ceph.conf: use a path without #, ;, \\ and $"),
    }
}

/// What `client.admin` may do.
pub(crate) fn operator_caps() -> BTreeMap<String, String> {
    ["mds", "mgr", "mon", "osd"].map(|service| (service.to_owned(), "allow *".to_owned())).into()
}

fn write_keyring(dir: &Path, name: EntityName, key: CryptoKey, undo: &mut Undo) -> Result<()> {
    let (path, caps) = match name.kind {
        EntityType::MON => (dir.join("mon.a/keyring"), BTreeMap::new()),
        EntityType::OSD => (dir.join(format!("{name}/keyring")), BTreeMap::new()),
        _ => (dir.join("keyring"), operator_caps()),
    };
    let keyring = Keyring([(name, KeyringEntry { key, caps })].into()).to_string();
    noted(&path, undo, || private::write_secret(&path, &keyring))
}

/// Makes a file that was not there, and notes it in `undo`.
fn noted(path: &Path, undo: &mut Undo, make: impl FnOnce() -> Result<()>) -> Result<()> {
    let made = make();
    // One that was not made durable may have its name already.
    if path.exists() {
        undo.made(path)?;
    }
    made
}

#[cfg(test)]
mod tests;
