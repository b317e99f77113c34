//! `loligo mon-rebuild`: a monitor's ledger, made anew of what is left of a cluster.

use std::{
    collections::btree_map::Entry,
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use auth::Keyring;
use mon::{Ledger, LedgerContents, OsdRecords, RebuildParams};
use types::{EntityAddrVec, EntityName, EntityType, KeyType};

use crate::{
    ceph_conf::CephConf,
    clock,
    device_paths::{DevicePaths, NamedDevices},
    embedded_ledger::EmbeddedLedger,
    mkfs::{admin, first_keyrings, keyring_in, make_admin_key, only_monitor, unused_ledger},
    osd_daemon::own_key,
    private,
    store_tool::{StoreTarget, read_records},
    undo::Undo,
};

/// How long a monitor may take to accept a connection, if one runs.
const ACCEPT_LIMIT: Duration = Duration::from_secs(2);

/// Arguments of `loligo mon-rebuild`.
pub struct MonRebuildOptions {
    /// The monitor's id.
    pub id: String,
    /// ceph.conf of the cluster.
    pub conf: PathBuf,
    /// Data directories of OSDs, and files with what OSDs know.
    pub sources: Vec<PathBuf>,
    /// An older copy of the ledger.
    pub base: Option<PathBuf>,
    /// Keyrings.
    pub keyrings: Vec<PathBuf>,
    /// OSDs may be missing.
    pub allows_missing: bool,
    /// Epochs that are left out.
    pub epoch_gap: u32,
    /// The type of keys, without an older ledger.
    pub key_type: KeyType,
}

/// Makes it.
pub fn mon_rebuild(options: &MonRebuildOptions) -> Result<()> {
    let conf = CephConf::read(&options.conf)?;
    let who = EntityName::new(EntityType::MON, &options.id);
    let (fsid, addrs) = (conf.fsid(&who)?, only_monitor(&conf, &who)?);
    refuse_running(&addrs)?;
    let data = PathBuf::from(conf.data(&who));
    let mut undo = Undo::default();
    if private::make_folder(&data)? {
        undo.made(&data)?;
    }
    let ledger_path = unused_ledger(&data)?;
    let base = options.base.as_deref().map(|path| read_base(path, &data)).transpose()?;
    let read = |path: &PathBuf| read_source(path, &conf).with_context(|| path.display().to_string());
    let osds = options.sources.iter().map(read).collect::<Result<Vec<OsdRecords>>>()?;
    let (configured, mut keyring) = (conf.keyring(&who), Keyring::default());
    if base.is_none() {
        // Those that `mkfs mon` would begin with.
        for path in first_keyrings(configured.as_deref(), &data) {
            keyring.0.extend(keyring_in(&path)?.0);
        }
    }
    for path in &options.keyrings {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        keyring.0.extend(Keyring::parse(&text).with_context(|| path.display().to_string())?.0);
    }
    if base.is_none()
        && let Entry::Vacant(slot) = keyring.0.entry(admin())
    {
        slot.insert(make_admin_key(configured.as_deref(), &data, options.key_type)?);
    }
    let rebuilt = mon::rebuild(&RebuildParams {
        fsid,
        now: clock::wall(),
        name: options.id.clone(),
        addrs,
        osds,
        base,
        keyring,
        key_type: options.key_type,
        epoch_gap: options.epoch_gap,
        allows_missing: options.allows_missing,
        seed: clock::random_seed(),
    })?;
    EmbeddedLedger::make(&ledger_path, &rebuilt.txn, &mut undo)?;
    undo.keep();
    println!("{} is made anew", ledger_path.display());
    rebuilt.said.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// A monitor whose ledger was removed under it runs on, and would give epochs to other maps.
fn refuse_running(addrs: &EntityAddrVec) -> Result<()> {
    let socket = addrs.msgr2_addr().and_then(|addr| addr.socket);
    if let Some(socket) = socket
        && TcpStream::connect_timeout(&socket, ACCEPT_LIMIT).is_ok()
    {
        bail!("something serves at the monitor's address {socket}: stop the monitor first");
    }
    Ok(())
}

/// Reads an older ledger from a copy of its file: to open it changes it.
fn read_base(path: &Path, data: &Path) -> Result<LedgerContents> {
    let copy = data.join("ledger.base");
    private::make_file(&copy)?;
    let read = || -> Result<LedgerContents> {
        fs::copy(path, &copy)?;
        Ok(EmbeddedLedger::open(&copy)?.load()?)
    };
    let contents = read();
    fs::remove_file(&copy).with_context(|| copy.display().to_string())?;
    let contents = contents.with_context(|| format!("reading {}", path.display()))?;
    if contents.entries.is_empty() {
        bail!("{} holds no cluster", path.display());
    }
    Ok(contents)
}

/// What an OSD knows, from its data directory or from a file.
fn read_source(path: &Path, conf: &CephConf) -> Result<OsdRecords> {
    if !path.is_dir() {
        return Ok(OsdRecords::from_file(&fs::read(path)?.into())?);
    }
    let DevicePaths { main, journal, index } = DevicePaths::in_folder(path);
    if main.symlink_metadata().is_err() {
        bail!(
            "it has no `block`: if ceph.conf names the device, `loligo store maps --id ID --export FILE` makes a file \
             to be named instead"
        );
    }
    let devices = NamedDevices { main: Some(main), journal, index };
    let target = StoreTarget { id: None, conf: PathBuf::new(), reactor: None, devices };
    let mut records = read_records(&target)?;
    let who = EntityName::new(EntityType::OSD, records.osd.to_string());
    records.key = own_key(conf, path, &who).ok();
    Ok(records)
}
