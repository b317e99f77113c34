//! What daemons tell of the machine they run on, by Ceph's metadata keys (`collect_sys_info`,
//! `BlueStore::collect_metadata`). What cannot be read is left out: nothing depends on it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

/// The commit that this was built from, if the build was told it (`scripts/release` does); else Ceph's word for none.
pub(crate) const GIT_VERSION: &str = match option_env!("LOLIGO_COMMIT") {
    Some(commit) => commit,
    None => "no_version",
};

/// The machine's name; `localhost` for one that was given none, as no bucket of a CRUSH map can have Linux's `(none)`.
pub(crate) fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" | "(none)" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

/// The host's part of `ceph mon metadata` and `ceph osd metadata`.
pub(crate) fn facts() -> BTreeMap<String, String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let kernel = |name: &str| read(&format!("/proc/sys/kernel/{name}")).trim().to_owned();
    let release = read("/etc/os-release");
    let of_release = |key: &str| value_of(&release, key, '=').trim_matches('"').to_owned();
    let memory = read("/proc/meminfo");
    // What launchers of containers set.
    let container = |name: &str| std::env::var(name).unwrap_or_default();
    let kib = |key: &str| value_of(&memory, key, ':').trim_end_matches("kB").trim().to_owned();
    [
        ("arch", std::env::consts::ARCH.to_owned()),
        ("cpu", value_of(&read("/proc/cpuinfo"), "model name", ':')),
        ("container_image", container("CONTAINER_IMAGE")),
        ("container_name", container("CONTAINER_NAME")),
        ("distro", of_release("ID")),
        ("distro_description", of_release("PRETTY_NAME")),
        ("distro_version", of_release("VERSION_ID")),
        ("hostname", hostname()),
        ("kernel_description", kernel("version")),
        ("kernel_version", kernel("osrelease")),
        ("mem_swap_kb", kib("SwapTotal")),
        ("mem_total_kb", kib("MemTotal")),
        ("os", kernel("ostype")),
        ("pod_name", container("POD_NAME")),
        ("pod_namespace", container("POD_NAMESPACE")),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

/// The value of the first `key<separator>value` line.
fn value_of(text: &str, key: &str, separator: char) -> String {
    let found = text.lines().filter_map(|line| line.split_once(separator)).find(|(k, _)| k.trim() == key);
    found.map_or(String::new(), |(_, value)| value.trim().to_owned())
}

/// The device's part of `ceph osd metadata`, for the file or block device that holds a store.
pub(crate) fn device_facts(path: &Path) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut put = |key: &str, value: String| out.insert(key.to_owned(), value);
    let Ok(meta) = fs::metadata(path) else { return out };
    let is_device = meta.file_type().is_block_device();
    put("bluestore_bdev_access_mode", if is_device { "blk" } else { "file" }.to_owned());
    put("bluestore_bdev_path", path.display().to_string());
    let folder = format!("/sys/dev/block/{}:{}", major_of(meta.rdev()), minor_of(meta.rdev()));
    if let Some(node) = fs::canonicalize(folder).ok().filter(|_| is_device)
        && let Some(name) = node.file_name()
    {
        put("bluestore_bdev_dev_node", device_node(&name.to_string_lossy()));
    }
    let Some(disk) = disk_of(if is_device { meta.rdev() } else { meta.dev() }) else { return out };
    let name = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let setting = |file: &str| fs::read_to_string(disk.join("queue").join(file)).unwrap_or_default();
    let rotational = setting("rotational").trim().to_owned();
    if rotational == "0" || rotational == "1" {
        let is_nvme = name.starts_with("nvme");
        let kind = if rotational == "1" { "hdd" } else { "ssd" };
        put("bluestore_bdev_type", kind.to_owned());
        put("default_device_class", if is_nvme { "ssd" } else { kind }.to_owned());
        put("bluestore_bdev_rotational", rotational.clone());
        put("journal_rotational", rotational.clone());
        put("rotational", rotational);
    }
    let discards = setting("discard_granularity").trim().parse::<u64>().is_ok_and(|bytes| bytes > 0);
    put("bluestore_bdev_support_discard", u8::from(discards).to_string());
    let serial = disk_serial(&disk);
    put("device_ids", serial.map_or(String::new(), |serial| format!("{name}={serial}")));
    put("bluestore_bdev_devices", name.clone());
    put("devices", name);
    out
}

/// The node of a block device that has this name in sysfs, where `!` stands for `/`.
fn device_node(name: &str) -> String {
    format!("/dev/{}", name.replace('!', "/"))
}

/// The whole disk behind a device number, as a folder of sysfs.
fn disk_of(device: u64) -> Option<PathBuf> {
    let (major, minor) = (major_of(device), minor_of(device));
    let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A partition is a folder in its disk's.
    if folder.join("partition").exists() { folder.parent().map(Path::to_path_buf) } else { Some(folder) }
}

/// The major number in a `dev_t` of Linux.
fn major_of(device: u64) -> u64 {
    ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff)
}

/// The minor number.
fn minor_of(device: u64) -> u64 {
    (device & 0xff) | ((device >> 12) & !0xff)
}

/// Model and serial number as udev joins them.
fn disk_serial(disk: &Path) -> Option<String> {
    let read = |file: &str| fs::read_to_string(disk.join(file)).ok().map(|text| text.trim().to_owned());
    let serial = read("device/serial").or_else(|| read("serial")).filter(|text| !text.is_empty())?;
    let model = read("device/model").filter(|text| !text.is_empty());
    let joined = model.map_or(serial.clone(), |model| format!("{model}_{serial}"));
    Some(joined.split_whitespace().collect::<Vec<_>>().join("_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_the_facts_that_tools_ask_for() {
        let facts = facts();
        for key in ["arch", "hostname", "kernel_version", "mem_total_kb", "os"] {
            assert!(facts.contains_key(key), "{key}");
        }
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        assert_eq!(value_of("VERSION_ID=\"12\"\nID=debian\n", "ID", '='), "debian");
        assert_eq!(value_of("MemTotal:  24684096 kB\n", "MemTotal", ':'), "24684096 kB");
        assert_eq!(value_of("", "x", ':'), "");
    }

    #[test]
    fn nodes_of_devices_are_paths() {
        assert_eq!(device_node("dm-2"), "/dev/dm-2");
        assert_eq!(device_node("cciss!c0d0p1"), "/dev/cciss/c0d0p1");
    }

    #[test]
    fn device_numbers_come_apart_as_linux_puts_them_together() {
        assert_eq!((major_of(0xfd02), minor_of(0xfd02)), (0xfd, 2));
        assert_eq!((major_of(0x10_0345), minor_of(0x10_0345)), (3, 0x145));
    }
}
