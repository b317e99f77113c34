//! Keyring files: `[client.admin]`, `key = …`, `caps mon = "allow *"`.

use std::collections::BTreeMap;

use types::{EntityName, parse_conf};

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
    /// Parses a file as `ceph-authtool` writes it, which has the form of a ceph.conf. Lines other than keys and
    /// capabilities say nothing.
    pub fn parse(text: &str) -> Result<Keyring, KeyError> {
        let mut out = Keyring::default();
        for (section, lines) in parse_conf(text)? {
            let name = EntityName::parse(&section).ok_or(KeyError::Malformed)?;
            let Some(key) = lines.get("key") else { continue };
            let key = CryptoKey::from_base64(key)?;
            let named = |(line, caps): (String, String)| Some((line.strip_prefix("caps_")?.to_owned(), caps));
            let caps = lines.into_iter().filter_map(named).collect();
            out.0.insert(name, KeyringEntry { key, caps });
        }
        Ok(out)
    }

    /// True for a name that a section can have. Any other would be read as another name, or as lines of its own.
    pub fn can_name(name: &EntityName) -> bool {
        let id = &name.id;
        !id.ends_with(char::is_whitespace) && !id.contains(|c: char| c == ']' || c.is_control())
    }
}

/// A capability as it stands between quotes, so that it is read as it was. A line break is a space there: it would end
/// the line, and means no more in a capability.
fn quoted(caps: &str) -> String {
    caps.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', " ")
}

/// As `ceph-authtool` prints it.
impl std::fmt::Display for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, entry) in &self.0 {
            writeln!(f, "[{name}]\n\tkey = {}", entry.key.to_base64())?;
            for (service, caps) in &entry.caps {
                writeln!(f, "\tcaps {service} = \"{}\"", quoted(caps))?;
            }
        }
        Ok(())
    }
}
