//! `loligo mkfs`: the data of one daemon that ceph.conf names.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, Result, bail};
use auth::{CryptoKey, Keyring, KeyringEntry};
use mon::{Ledger, MkfsParams};
use rand::{SeedableRng, rngs::StdRng};
use types::{EntityAddrVec, EntityName, EntityType, KeyType, Uuid};

use crate::{
    ceph_conf::CephConf,
    clock,
    device::GoOn,
    device_paths::{DevicePaths, Links, NamedDevices},
    embedded_ledger::EmbeddedLedger,
    file_space::shortage,
    interrupt::Interrupt,
    new_cluster::operator_caps,
    new_stores::{NewStores, Wanted, reactors_for},
    private,
    undo::Undo,
    up::about_keys,
};

/// OSDs of a machine, where nobody tells how many there are.
const OSDS_ASSUMED: usize = 4;

/// Arguments of `loligo mkfs`.
pub struct MkfsOptions {
    /// `mon` or `osd`.
    pub kind: String,
    /// The daemon's id.
    pub id: String,
    /// ceph.conf of the cluster.
    pub conf: PathBuf,
    /// Size of an OSD's file if it is made, in bytes.
    pub device_bytes: u64,
    /// Reactors of an OSD; as many as suit the machine without it.
    pub reactors: Option<u16>,
    /// Devices for an OSD.
    pub devices: NamedDevices,
    /// An OSD's uuid, if it has one already.
    pub uuid: Option<String>,
    /// An OSD's devices are taken whatever they hold, and files made whatever room there is.
    pub is_forced: bool,
    /// The type of client keys that a monitor's data begins with.
    pub key_type: KeyType,
}

/// Makes it. A signal ends this between two steps.
pub fn mkfs(options: &MkfsOptions) -> Result<()> {
    let interrupt = Interrupt::new()?;
    make(options, &|| interrupt.check())
}

/// The same; `go_on` is asked between two steps.
pub(crate) fn make(options: &MkfsOptions, go_on: GoOn<'_>) -> Result<()> {
    let conf = CephConf::read(&options.conf)?;
    if options.kind == "osd" {
        return mkfs_osd(&conf, options, go_on);
    }
    let NamedDevices { main, journal, index } = &options.devices;
    if main.is_some() || journal.is_some() || index.is_some() || options.uuid.is_some() {
        bail!("a monitor has neither devices nor a uuid");
    }
    mkfs_mon(&conf, &options.id, options.key_type, go_on)
}

fn mkfs_osd(conf: &CephConf, options: &MkfsOptions, go_on: GoOn<'_>) -> Result<()> {
    let cpus = reactor::available_cpus()?.len();
    let reactors = options.reactors.unwrap_or_else(|| reactors_for(cpus, OSDS_ASSUMED));
    let who = EntityName::new(EntityType::OSD, &options.id);
    let uuid = options.uuid.as_deref().map(Uuid::from_str).transpose()?;
    if uuid == Some(Uuid::NIL) {
        bail!("an OSD's uuid is not zero: that stands for none");
    }
    let links = Links::check(conf, &who, &options.devices)?;
    let mut paths = DevicePaths::read(conf, &who);
    paths.replace(&options.devices);
    if !options.is_forced
        && let Some(shortage) = shortage([&paths], options.device_bytes)?
    {
        bail!("{shortage}, and `--force` makes these all the same");
    }
    let mut undo = Undo::default();
    let mut stores = NewStores::new(options.is_forced, Vec::new())?;
    let wanted = Wanted { device_bytes: options.device_bytes, reactors, uuid };
    stores.add(conf, &who, paths, wanted, &mut undo)?;
    let described: Vec<String> = stores.describe().collect();
    // The last time: what the devices held is gone from here on.
    go_on()?;
    stores.format()?;
    // Last: an OSD whose devices are refused keeps its links.
    links.make()?;
    stores.keep();
    undo.keep();
    described.iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn mkfs_mon(conf: &CephConf, id: &str, key_type: KeyType, go_on: GoOn<'_>) -> Result<()> {
    let who = EntityName::new(EntityType::MON, id);
    // First: without them nothing is made.
    let fsid = conf.fsid(&who)?;
    let addrs = only_monitor(conf, &who)?;
    let data = PathBuf::from(conf.data(&who));
    let mut undo = Undo::default();
    if private::make_folder(&data)? {
        undo.made(&data)?;
    }
    let ledger_path = unused_ledger(&data)?;
    let configured = conf.keyring(&who);
    let mut keys = BTreeMap::new();
    for path in first_keyrings(configured.as_deref(), &data) {
        keys.extend(keyring_in(&path)?.0);
    }
    if let Some((name, entry)) = keys.iter().find(|(_, entry)| entry.key.kind() < key_type) {
        bail!("the key of {name} is of type {}: it would not be let in", entry.key.kind());
    }
    // The last time: the rest takes a moment.
    go_on()?;
    if let Entry::Vacant(slot) = keys.entry(admin()) {
        // Before the ledger: one that is tried again finds the key there.
        slot.insert(make_admin_key(configured.as_deref(), &data, key_type)?);
    }
    let chooseleaf_type =
        conf.get(&who, "osd crush chooseleaf type").and_then(|v| v.parse().ok()).unwrap_or(1);
    let seed = clock::random_seed();
    let described = format!("mon.{id} of cluster {fsid}: {addrs}");
    let mons = [(id.to_owned(), addrs)].into();
    let params = MkfsParams { fsid, now: clock::wall(), mons, keys, chooseleaf_type, key_type, seed };
    EmbeddedLedger::make(&ledger_path, &mon::mkfs(&params), &mut undo)?;
    undo.keep();
    println!("{described}\n{}", about_keys(key_type));
    Ok(())
}

/// The place of a ledger that is to be made.
pub(crate) fn unused_ledger(data: &Path) -> Result<PathBuf> {
    let path = data.join("ledger.redb");
    // One without entries is of an attempt that was cut off.
    if let Some(ledger) = EmbeddedLedger::find(&path)?
        && !ledger.load()?.entries.is_empty()
    {
        bail!("{} exists: a monitor's data is made once", path.display());
    }
    Ok(path)
}

/// The operator's name.
pub(crate) fn admin() -> EntityName {
    EntityName::new(EntityType::CLIENT, "admin")
}

/// The keyrings whose keys a monitor's data begins with. In the first, an attempt that was cut off may have left a key
/// for the operator.
pub(crate) fn first_keyrings(configured: Option<&Path>, data: &Path) -> [PathBuf; 2] {
    [operator_keyring(configured, data), data.join("keyring")]
}

/// Where a key for the operator goes: to the keyring that ceph.conf names, or else to one in the monitor's data.
fn operator_keyring(configured: Option<&Path>, data: &Path) -> PathBuf {
    configured.map_or_else(|| data.join("client.admin.keyring"), Path::to_owned)
}

/// Makes a key for the operator, and writes it to the operator's keyring.
pub(crate) fn make_admin_key(
    configured: Option<&Path>,
    data: &Path,
    key_type: KeyType,
) -> Result<KeyringEntry> {
    let mut rng = StdRng::from_seed(clock::random_seed());
    let key = CryptoKey::generate(key_type, clock::wall(), &mut rng);
    let entry = KeyringEntry { key, caps: operator_caps() };
    let keyring = Keyring([(admin(), entry.clone())].into());
    private::append_secret(&operator_keyring(configured, data), &keyring.to_string())?;
    Ok(entry)
}

/// The addresses of the monitor: `mon host` names one alone.
pub(crate) fn only_monitor(conf: &CephConf, who: &EntityName) -> Result<EntityAddrVec> {
    let mut monitors = conf.mon_hosts(who)?;
    match (monitors.pop(), monitors.len()) {
        (Some(addrs), 0) => Ok(addrs),
        (_, others) => bail!(
            "mon host names {} monitors, a cluster has one: brackets hold the addresses of one monitor",
            others + 1
        ),
    }
}

/// A keyring file; an empty one if there is none.
pub(crate) fn keyring_in(path: &Path) -> Result<Keyring> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Keyring::default()),
        read => read.with_context(|| format!("reading {}", path.display()))?,
    };
    Keyring::parse(&text).with_context(|| path.display().to_string())
}
