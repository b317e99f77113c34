//! Where an OSD finds its key.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use auth::{CryptoKey, Keyring};
use types::EntityName;

use crate::ceph_conf::CephConf;

/// The key of `who`: in a keyring that ceph.conf names, or in that of its data folder. Those may be meant for all
/// daemons and clients, and lack this key or be unreadable for this user.
pub(crate) fn own_key(conf: &CephConf, data: &Path, who: &EntityName) -> Result<CryptoKey> {
    let named = conf.keyrings(who).unwrap_or_default();
    let mut failures = Vec::new();
    for path in named.into_iter().chain([data.join("keyring")]) {
        match key_in(&path, who) {
            Ok(key) => return Ok(key),
            Err(error) => failures.push(format!("{}: {error:#}", path.display())),
        }
    }
    bail!("no key of {who}: {}", failures.join("; "))
}

fn key_in(path: &Path, who: &EntityName) -> Result<CryptoKey> {
    let keyring = Keyring::parse(&fs::read_to_string(path)?)?;
    Ok(keyring.0.get(who).context("it is not in there")?.key.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 2] =
        ["AQAQuQBrA94mIBAAo+GWtvvESSLUPpNJ+huiaA==", "AQC8tgBrh8ZHKhAA0Nz1CBNKw9wkKvTfxGQwJg=="];

    #[test]
    fn the_keyring_that_ceph_conf_names_comes_before_that_in_the_data_folder() {
        let dir = std::env::temp_dir().join(format!("loligo-own-key-{}", std::process::id()));
        let data = dir.join("osd.0");
        fs::create_dir_all(&data).unwrap();
        let who = EntityName::parse("osd.0").unwrap();
        let conf = CephConf::parse(&format!("[osd]\nkeyring = {}/osds.keyring\n", dir.display())).unwrap();
        let key = || own_key(&conf, &data, &who).map(|key| key.to_base64());
        let missing = key().unwrap_err().to_string();
        assert!(
            missing.contains("osds.keyring: No such file") && missing.contains("osd.0/keyring"),
            "{missing}"
        );
        fs::write(data.join("keyring"), format!("[osd.0]\nkey = {}\n", KEYS[0])).unwrap();
        assert_eq!(key().unwrap(), KEYS[0]);
        let named = dir.join("osds.keyring");
        fs::write(&named, format!("[client.admin]\nkey = {}\n", KEYS[1])).unwrap();
        assert_eq!(key().unwrap(), KEYS[0], "a keyring for others");
        fs::write(&named, format!("[osd.0]\nkey = {}\n", KEYS[1])).unwrap();
        assert_eq!(key().unwrap(), KEYS[1]);
        let both = format!("[osd]\nkeyring = /nowhere/keyring, {}\n", named.display());
        let conf = CephConf::parse(&both).unwrap();
        assert_eq!(own_key(&conf, &data, &who).unwrap().to_base64(), KEYS[1]);
        fs::remove_dir_all(&dir).unwrap();
    }
}
