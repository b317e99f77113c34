//! Keyring files: `[client.admin]`, `key = …`, `caps mon = "allow *"`.

use std::collections::BTreeMap;

use types::EntityName;

use crate::{CryptoKey, KeyError};

/// One entity of a keyring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyringEntry {
    /// Its secret.
    pub key: CryptoKey,
    /// Capability by service (`mon`, `osd`, …).
    pub caps: BTreeMap<String, String>,
}

/// Entities with their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring(pub BTreeMap<EntityName, KeyringEntry>);

impl Keyring {
    /// Parses a file as `ceph-authtool` writes it.
    pub fn parse(text: &str) -> Result<Keyring, KeyError> {
        let mut out = Keyring::default();
        let mut name: Option<EntityName> = None;
        let mut caps: BTreeMap<String, String> = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with(['#', ';'])) {
            if let Some(section) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                name = Some(EntityName::parse(section.trim()).ok_or(KeyError::Malformed)?);
                caps.clear();
                continue;
            }
            let (Some(name), Some((key, value))) = (&name, line.split_once('=')) else {
                return Err(KeyError::Malformed);
            };
            let value = unquote(value.trim());
            match key.trim() {
                "key" => {
                    let key = CryptoKey::from_base64(&value)?;
                    out.0.insert(name.clone(), KeyringEntry { key, caps: caps.clone() });
                }
                key => {
                    let Some(service) = key.strip_prefix("caps ") else { continue };
                    caps.insert(service.trim().to_owned(), value.clone());
                    if let Some(entry) = out.0.get_mut(name) {
                        entry.caps.insert(service.trim().to_owned(), value.clone());
                    }
                }
            }
        }
        Ok(out)
    }
}

/// What stands between quotes, quotes inside it behind backslashes; or the text without a comment.
fn unquote(text: &str) -> String {
    let Some(quoted) = text.strip_prefix('"') else {
        return text.split(['#', ';']).next().unwrap_or_default().trim_end().to_owned();
    };
    let mut out = String::new();
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => out.extend(chars.next()),
            c => out.push(c),
        }
    }
    out
}

/// As `ceph-authtool` prints it.
impl std::fmt::Display for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, entry) in &self.0 {
            writeln!(f, "[{name}]\n\tkey = {}", entry.key.to_base64())?;
            for (service, caps) in &entry.caps {
                writeln!(f, "\tcaps {service} = \"{}\"", caps.replace('"', "\\\""))?;
            }
        }
        Ok(())
    }
}
