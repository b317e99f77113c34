//! OSDs on block devices: loop devices over files, where this machine lets us have them.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::cluster::{Cluster, say_skipped, temp_dir};

const LIMIT: Duration = Duration::from_secs(180);
const DEVICE_BYTES: u64 = 1 << 30;

/// A loop device over a sparse file.
struct LoopDevice {
    file: PathBuf,
    path: String,
}

impl LoopDevice {
    /// `None` where there are no loop devices, or not for us.
    fn attach(file: PathBuf, sector_bytes: u32) -> Option<LoopDevice> {
        File::create(&file).unwrap().set_len(DEVICE_BYTES).unwrap();
        let made = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on", "--sector-size", &sector_bytes.to_string()])
            .arg(&file)
            .output()
            .ok()?;
        let path = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        made.status.success().then_some(LoopDevice { file, path })
    }

    fn grow(&self, bytes: u64) {
        File::options().write(true).open(&self.file).unwrap().set_len(bytes).unwrap();
        assert!(Command::new("losetup").args(["--set-capacity", &self.path]).status().unwrap().success());
    }

    fn used_bytes(&self) -> u64 {
        fs::metadata(&self.file).unwrap().blocks() * 512
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

fn attach_three(dir: &Path) -> Option<Vec<LoopDevice>> {
    [512, 4096, 512]
        .into_iter()
        .enumerate()
        .map(|(n, sector_bytes)| LoopDevice::attach(dir.join(format!("disk{n}")), sector_bytes))
        .collect()
}

#[test]
fn block_devices_survive_a_crash_are_trimmed_and_grow() {
    const DATA_BYTES: u64 = 200 << 20;
    let dir = temp_dir();
    let Some(disks) = attach_three(&dir) else {
        say_skipped("block_devices", "there are no loop devices");
        return fs::remove_dir_all(dir).unwrap();
    };
    let mut extra = vec!["--separate", "--device"];
    extra.extend(disks.iter().map(|disk| disk.path.as_str()));
    let mut c = Cluster::start_with(3, &extra);
    c.sh(&format!("head -c {DATA_BYTES} /dev/urandom > data; rbd import data img"));
    c.crash_all();
    c.sh("rbd export img - | cmp - data; rbd create --size 8M small");
    let before: Vec<u64> = disks.iter().map(LoopDevice::used_bytes).collect();
    // What is freed is trimmed once a checkpoint says that it is free: when half the journal is full, for which
    // 96 MB of it are used for the first time.
    c.sh("rbd rm img; rbd bench --io-type write --io-size 16K --io-threads 32 --io-total 96M --io-pattern rand small");
    c.wait("trimmed devices", LIMIT, |_| {
        disks.iter().zip(&before).all(|(disk, before)| disk.used_bytes() < before - DATA_BYTES / 4)
    });
    let total = |c: &Cluster, osd: usize| c.json("ceph osd df")["nodes"][osd]["kb"].as_u64().unwrap();
    assert_eq!(total(&c, 0), DEVICE_BYTES >> 10);
    c.stop();
    disks[0].grow(DEVICE_BYTES * 2);
    c.up();
    c.wait("the new size", LIMIT, |c| {
        total(c, 0) == (DEVICE_BYTES * 2) >> 10 && total(c, 1) == DEVICE_BYTES >> 10
    });
    drop(c);
    drop(disks);
    fs::remove_dir_all(dir).unwrap();
}
