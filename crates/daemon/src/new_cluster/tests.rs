use std::{cell::Cell, fs, os::unix::fs::PermissionsExt};

use codec::{Encode, Features};
use mon::Ledger;
use reactor::Reactor;
use store::Label;

use super::*;
use crate::{
    device::{Access, Device},
    device_paths::NamedDevices,
    mkfs::{self, MkfsOptions, mkfs},
    undo::Made,
};

/// The files go with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("loligo-new-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    /// One OSD.
    fn cluster(&self) -> NewCluster<'_> {
        NewCluster::small(&self.0)
    }

    fn mkfs_osd(&self, is_forced: bool, journal: Option<&Path>) -> Result<()> {
        let devices = NamedDevices { journal: journal.map(Path::to_owned), ..NamedDevices::default() };
        mkfs(&MkfsOptions { devices, is_forced, ..self.mkfs_options("osd", "0") })
    }

    fn mkfs_options(&self, kind: &str, id: &str) -> MkfsOptions {
        MkfsOptions {
            kind: kind.to_owned(),
            id: id.to_owned(),
            conf: self.0.join("ceph.conf"),
            device_bytes: 64 << 20,
            reactors: (kind == "osd").then_some(1),
            devices: NamedDevices::default(),
            uuid: None,
            is_forced: false,
            key_type: KeyType::Aes,
        }
    }

    /// Of the store at a path.
    fn label(&self, main: &str) -> Label {
        let mut reactor = Reactor::new(reactor::Config::default()).unwrap();
        let paths = DevicePaths { main: self.0.join(main), journal: None, index: None };
        Device::open(&mut reactor, &paths, Access::Offline).unwrap().label(&mut reactor).unwrap()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.0.join(name)).unwrap().permissions().mode() & 0o777
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn fails_with(result: Result<()>, words: &str) {
    let text = format!("{:#}", result.expect_err(words));
    assert!(text.contains(words), "{text}");
}

#[test]
fn what_a_cluster_keeps_is_its_owners() {
    let folder = Folder::new("modes");
    folder.cluster().make().unwrap();
    assert_eq!(["mon.a", "osd.0"].map(|name| folder.mode(name)), [0o700; 2]);
    let files = ["mon.a/ledger.redb", "mon.a/keyring", "osd.0/keyring", "osd.0/block", "keyring"];
    assert_eq!(files.map(|name| folder.mode(name)), [0o600; 5]);
}

#[test]
fn a_cluster_that_could_not_be_made_can_be_made_later() {
    let folder = Folder::new("again");
    let device = [folder.0.join("device")];
    fails_with(NewCluster { reactors: 3, ..folder.cluster() }.make(), "not 3");
    fails_with(NewCluster { device_bytes: 1 << 16, ..folder.cluster() }.make(), "too few for a store");
    fs::write(&device[0], b"XFSB").unwrap();
    let others = NewCluster { osds: 2, devices: &device, ..folder.cluster() };
    fails_with(others.make(), "too few for a store");
    let file = fs::File::options().write(true).open(&device[0]).unwrap();
    file.set_len(64 << 20).unwrap();
    fails_with(others.make(), "holds an XFS file system: `--force` gives it up");
    let left = fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(left, 1, "the device");
    folder.cluster().make().unwrap();
    NewCluster { is_forced: true, ..others }.make().unwrap_err();
}

#[test]
fn what_is_left_of_a_cluster_without_its_ceph_conf_is_not_replaced() {
    let folder = Folder::new("remains");
    folder.cluster().make().unwrap();
    fs::remove_file(folder.0.join("ceph.conf")).unwrap();
    let key = fs::read_to_string(folder.0.join("keyring")).unwrap();
    fails_with(folder.cluster().make(), "ledger.redb of a cluster: put its ceph.conf back");
    assert_eq!(fs::read_to_string(folder.0.join("keyring")).unwrap(), key);
}

#[test]
fn what_is_left_of_more_osds_than_a_new_cluster_has_is_not_taken_for_its_own() {
    let folder = Folder::new("more");
    fs::create_dir_all(folder.0.join("osd.old")).unwrap();
    fs::write(folder.0.join("osd.old/keyring"), "").unwrap();
    // Files that are made ahead are the new cluster's.
    fs::create_dir_all(folder.0.join("osd.0")).unwrap();
    fs::create_dir_all(folder.0.join("osd.7")).unwrap();
    fails_with(folder.cluster().make(), "osd.7 of a cluster");
    fs::remove_dir(folder.0.join("osd.7")).unwrap();
    folder.cluster().make().unwrap();
}

#[test]
fn a_cluster_whose_making_is_interrupted_leaves_nothing() {
    let folder = Folder::new("interrupted");
    let mut steps = 0;
    loop {
        let left = Cell::new(steps);
        let go_on = || match left.get() {
            0 => bail!("interrupted"),
            more => {
                left.set(more - 1);
                Ok(())
            }
        };
        let made = NewCluster { osds: 2, go_on: &go_on, ..folder.cluster() }.make();
        if made.is_ok() {
            break;
        }
        fails_with(made, "interrupted");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "after {steps} steps");
        steps += 1;
    }
    assert_eq!(steps, 3, "before each OSD, and before anything is written to their devices");
    fs::remove_file(folder.0.join("osd.0/block")).unwrap();
    for (kind, id) in [("osd", "0"), ("mon", "b")] {
        let made = mkfs::make(&folder.mkfs_options(kind, id), &|| bail!("interrupted"));
        fails_with(made, "interrupted");
    }
    assert!(!folder.0.join("osd.0/block").exists());
}

#[test]
fn what_a_killed_process_left_of_a_cluster_is_made_anew() {
    let folder = Folder::new("killed");
    let device = [folder.0.join("device")];
    fs::File::create(&device[0]).unwrap().set_len(64 << 20).unwrap();
    let new = NewCluster { osds: 2, devices: &device, ..folder.cluster() };
    new.make().unwrap();
    assert!(!folder.0.join("unfinished").exists());
    let conf = CephConf::read(&folder.0.join("ceph.conf")).unwrap();
    let fsid = conf.fsid(&EntityName::new(EntityType::MON, "a")).unwrap();
    fs::remove_file(folder.0.join("ceph.conf")).unwrap();
    // As it would be had the process been killed just before it wrote its ceph.conf.
    let mut record = Unfinished::begin(&folder.0, fsid).unwrap();
    fails_with(new.make(), "another process makes a cluster in");
    let files =
        ["mon.a/ledger.redb", "mon.a/keyring", "osd.0/keyring", "osd.1/block", "osd.1/keyring", "keyring"];
    for name in ["mon.a", "osd.0", "osd.1"].into_iter().chain(files) {
        record.note(&Made::at(&folder.0.join(name)).unwrap()).unwrap();
    }
    drop(record);
    new.make().unwrap();
    assert!(!folder.0.join("unfinished").exists());
}

/// What is in the way appears only once the devices are being formatted.
#[test]
fn a_cluster_or_an_osd_that_could_not_be_made_leaves_no_store_on_its_devices() {
    let folder = Folder::new("devices");
    let devices = ["main", "journal", "index"].map(|name| folder.0.join(name));
    for device in &devices {
        fs::File::create(device).unwrap().set_len(128 << 20).unwrap();
    }
    let [main, journal, index] = devices.each_ref().map(std::slice::from_ref);
    let left = Cell::new(0i32);
    let go_on = || {
        left.set(left.get() - 1);
        if left.get() == 0 {
            fs::write(folder.0.join("mon.a"), "").unwrap();
        }
        Ok(())
    };
    let new = NewCluster {
        osds: 2,
        devices: main,
        journal_devices: journal,
        index_devices: index,
        device_bytes: 128 << 20,
        reactors: 2,
        go_on: &go_on,
        ..folder.cluster()
    };
    for round in 0..2 {
        left.set(3);
        fails_with(new.make(), "mon.a");
        fs::remove_file(folder.0.join("mon.a")).unwrap();
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 3, "the devices are left after round {round}");
    }
    new.make().unwrap();

    fs::remove_file(folder.0.join("osd.1/block")).unwrap();
    let device = folder.0.join("disk");
    fs::File::create(&device).unwrap().set_len(64 << 20).unwrap();
    let named = NamedDevices { main: Some(device), ..NamedDevices::default() };
    let options = MkfsOptions { devices: named, ..folder.mkfs_options("osd", "1") };
    let block = folder.0.join("osd.1/block");
    for _ in 0..2 {
        let made = mkfs::make(&options, &|| Ok(fs::create_dir(&block)?));
        fails_with(made, "osd.1/block");
        fs::remove_dir(&block).unwrap();
    }
    mkfs(&options).unwrap();
}

#[test]
fn a_store_is_given_up_only_if_that_is_said() {
    let folder = Folder::new("force");
    folder.cluster().make().unwrap();
    let conf = CephConf::read(&folder.0.join("ceph.conf")).unwrap();
    let fsid = conf.get(&EntityName::new(EntityType::OSD, "0"), "fsid").unwrap();
    fails_with(
        folder.mkfs_osd(false, None),
        &format!("holds the store of osd.0 of cluster {fsid}: `--force`"),
    );
    folder.mkfs_osd(true, None).unwrap();
    // A journal of its own is somebody's, too.
    let journal = folder.0.join("journal");
    folder.mkfs_osd(true, Some(&journal)).unwrap();
    fs::remove_file(folder.0.join("osd.0/block")).unwrap();
    fails_with(folder.mkfs_osd(false, Some(&journal)), "journal holds the store of osd.0");
    assert!(!folder.0.join("osd.0/block").exists());
}

#[test]
fn an_osd_whose_devices_are_in_use_keeps_its_links() {
    let folder = Folder::new("links");
    folder.cluster().make().unwrap();
    let (old, new, link) =
        (folder.0.join("old"), folder.0.join("new"), folder.0.join("osd.0").join("journal"));
    folder.mkfs_osd(true, Some(&old)).unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), old);
    let running = fs::File::open(folder.0.join("osd.0/block")).unwrap();
    running.lock().unwrap();
    fails_with(folder.mkfs_osd(true, Some(&new)), "is in use by another process");
    assert_eq!(fs::read_link(&link).unwrap(), old);
    assert!(!new.exists());
    drop(running);
    folder.mkfs_osd(true, Some(&new)).unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), new);
}

#[test]
fn a_store_in_a_file_is_not_replaced_by_a_link() {
    let folder = Folder::new("file");
    folder.cluster().make().unwrap();
    let devices = NamedDevices { main: Some(folder.0.join("disk")), ..NamedDevices::default() };
    let made = mkfs(&MkfsOptions { devices, is_forced: true, ..folder.mkfs_options("osd", "0") });
    fails_with(made, "osd.0/block is there already, and is no link: remove it first");
    assert!(folder.0.join("osd.0/block").is_file());
}

#[test]
fn no_files_are_made_below_dev() {
    let folder = Folder::new("dev");
    let device = [PathBuf::from("/dev/loligo-nosuch/disk")];
    let new = NewCluster { devices: &device, ..folder.cluster() };
    fails_with(new.make(), "/dev/loligo-nosuch/disk: this does not exist");
    assert!(!Path::new("/dev/loligo-nosuch").exists());
}

#[test]
fn a_device_that_is_gone_is_no_reason_to_make_a_store_in_its_place() {
    let folder = Folder::new("gone");
    folder.cluster().make().unwrap();
    let block = folder.0.join("osd.0/block");
    fs::remove_file(&block).unwrap();
    std::os::unix::fs::symlink("/dev/loligo-nosuch", &block).unwrap();
    let words = "osd.0/block: the device is gone: this is a link to /dev/loligo-nosuch";
    let start = || {
        let stop = crate::stop::Stop::new().unwrap();
        crate::osd_daemon::serve("0", &folder.0.join("ceph.conf"), &stop, false, &[])
    };
    fails_with(start(), words);
    fails_with(folder.mkfs_osd(false, None), words);
    assert!(!Path::new("/dev/loligo-nosuch").exists() && block.is_symlink());
    // What cannot be looked at may be there: `mkfs` is no help.
    fs::remove_file(&block).unwrap();
    fs::remove_file(folder.0.join("osd.0/keyring")).unwrap();
    fs::remove_dir(folder.0.join("osd.0")).unwrap();
    fs::write(folder.0.join("osd.0"), "").unwrap();
    fails_with(start(), "osd.0/block: Not a directory");
}

#[test]
fn a_monitor_adds_the_operators_key_to_a_keyring() {
    let folder = Folder::new("keyring");
    let dir = folder.0.display();
    let text = format!(
        "[global]\nfsid = 6e1f6a8e-54b1-4d4f-9c7b-b7c6c9fb9d36\nmon host = 127.0.0.1:1\n\
         keyring = {dir}/keyring\n[mon.a]\nmon data = {dir}/mon.a\n"
    );
    fs::write(folder.0.join("ceph.conf"), text).unwrap();
    let other = "[client.other]\n\tkey = AQAQuQBrA94mIBAAo+GWtvvESSLUPpNJ+huiaA==";
    fs::write(folder.0.join("keyring"), other).unwrap();
    let make = || mkfs(&folder.mkfs_options("mon", "a"));
    make().unwrap();
    let written = fs::read_to_string(folder.0.join("keyring")).unwrap();
    assert!(written.starts_with(&format!("{other}\n[client.admin]\n")), "{written}");
    assert_eq!(Keyring::parse(&written).unwrap().0.len(), 2);
    fails_with(make(), "a monitor's data is made once");
    // Once more from the start: the key that is there is the cluster's.
    fs::remove_dir_all(folder.0.join("mon.a")).unwrap();
    make().unwrap();
    assert_eq!(fs::read_to_string(folder.0.join("keyring")).unwrap(), written);
}

#[test]
fn a_monitor_that_was_started_too_early_can_be_made() {
    let folder = Folder::new("early");
    let dir = folder.0.display();
    let text = format!(
        "[global]\nfsid = 6e1f6a8e-54b1-4d4f-9c7b-b7c6c9fb9d36\nmon host = 127.0.0.1:1\n\
         [mon.a]\nmon data = {dir}/mon.a\n"
    );
    fs::write(folder.0.join("ceph.conf"), text).unwrap();
    fs::create_dir(folder.0.join("mon.a")).unwrap();
    let ledger = folder.0.join("mon.a/ledger.redb");
    let stop = crate::stop::Stop::new().unwrap();
    let start = || crate::mon_daemon::serve("a", &folder.0.join("ceph.conf"), &stop, false);
    fails_with(start(), "mon.a has no cluster yet: run `loligo mkfs mon --id a` first");
    assert!(!ledger.exists());
    // As an attempt that was cut off leaves it.
    drop(EmbeddedLedger::open(&ledger).unwrap());
    fails_with(start(), "mon.a has no cluster yet");
    mkfs(&folder.mkfs_options("mon", "a")).unwrap();
    assert!(!EmbeddedLedger::open(&ledger).unwrap().load().unwrap().entries.is_empty());
    fails_with(mkfs(&folder.mkfs_options("mon", "a")), "a monitor's data is made once");
}

#[test]
fn what_ceph_conf_cannot_hold_is_refused() {
    let folder = Folder::new("odd");
    let new = NewCluster { osds: 2, port: 65_534, ..folder.cluster() };
    fails_with(new.make(), "--port 65534: with 2 OSDs the ports end at 65536");
    for name in ["a#b", "a;b", "a\\b", "$id", "a\nb"] {
        let dir = folder.0.join(name);
        fails_with(NewCluster::small(&dir).make(), "cannot stand in ceph.conf");
        assert!(!dir.exists(), "{name:?}");
        let devices = [dir];
        fails_with(NewCluster { devices: &devices, ..folder.cluster() }.make(), "cannot stand in ceph.conf");
    }
    NewCluster::small(&folder.0.join("a b'c=d")).make().unwrap();
}

#[test]
fn a_monitor_is_made_where_mon_host_names_it_alone() {
    let folder = Folder::new("mons");
    let dir = folder.0.display();
    let make = |hosts: &str| {
        let text = format!(
            "[global]\nfsid = 6e1f6a8e-54b1-4d4f-9c7b-b7c6c9fb9d36\nmon host = {hosts}\n\
             [mon.a]\nmon data = {dir}/mon.a\n"
        );
        fs::write(folder.0.join("ceph.conf"), text).unwrap();
        mkfs(&folder.mkfs_options("mon", "a"))
    };
    fails_with(make("10.0.0.1,10.0.0.2,10.0.0.3"), "mon host names 3 monitors, a cluster has one");
    assert!(!folder.0.join("mon.a").exists());
    make("[v2:10.0.0.1:3300,v1:10.0.0.1:6789]").unwrap();
    // Where stock clients do not look, but beside the monitor's data.
    let keyring = folder.0.join("mon.a/client.admin.keyring");
    let written = fs::read_to_string(&keyring).unwrap();
    // As it would be had the process been killed just before it wrote the ledger: the key is the cluster's.
    fs::remove_file(folder.0.join("mon.a/ledger.redb")).unwrap();
    make("10.0.0.1").unwrap();
    assert_eq!(fs::read_to_string(&keyring).unwrap(), written);
    let ledger = EmbeddedLedger::open(&folder.0.join("mon.a/ledger.redb")).unwrap().load().unwrap();
    let key = Keyring::parse(&written).unwrap().0[&mkfs::admin()].key.clone();
    let key = key.to_bytes(Features::PACIFIC);
    assert!(ledger.entries.values().any(|entry| entry.starts_with(&key)));
}

#[test]
fn a_store_takes_the_uuid_and_the_device_that_are_named() {
    let folder = Folder::new("uuid");
    folder.cluster().make().unwrap();
    fs::remove_file(folder.0.join("osd.0/block")).unwrap();
    let uuid = "11111111-2222-4333-8444-555555555555";
    let devices = NamedDevices { main: Some(folder.0.join("disk")), ..NamedDevices::default() };
    let options = |uuid: &str| MkfsOptions {
        uuid: Some(uuid.to_owned()),
        devices: devices.clone(),
        ..folder.mkfs_options("osd", "0")
    };
    fails_with(mkfs(&options("11111111")), "11111111 is not a uuid");
    fails_with(mkfs(&options("00000000-0000-0000-0000-000000000000")), "is not zero");
    mkfs(&options(uuid)).unwrap();
    assert_eq!(fs::read_link(folder.0.join("osd.0/block")).unwrap(), folder.0.join("disk"));
    assert_eq!(folder.label("osd.0/block").identity.store_uuid.to_string(), uuid);
}

#[test]
fn a_file_is_not_made_where_its_file_system_has_no_room_for_it() {
    let folder = Folder::new("room");
    folder.cluster().make().unwrap();
    let block = folder.0.join("osd.0/block");
    fs::remove_file(&block).unwrap();
    let device_bytes = reactor::FileSystem::of(&folder.0).unwrap().free / 4096 * 4096 + (8 << 30);
    let options = |is_forced| MkfsOptions { device_bytes, is_forced, ..folder.mkfs_options("osd", "0") };
    fails_with(mkfs(&options(false)), "the new files may grow to");
    assert!(!block.exists());
    mkfs(&options(true)).unwrap();
    assert_eq!(fs::metadata(&block).unwrap().len(), device_bytes);
}
