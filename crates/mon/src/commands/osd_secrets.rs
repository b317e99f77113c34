//! What `osd new` is told of an OSD: the class of its device, and the secrets of one with an encrypted device, which
//! come and go with it: its key, the key with which its host fetches the device's passphrase, and that passphrase.
//!
//! Authority: `OSDMonitor::prepare_command_osd_new`, `AuthMonitor::validate_osd_new`, `ConfigKeyService` (16.2).

use std::collections::BTreeMap;

use auth::{CryptoKey, EntityAuth};
use bytes::Bytes;
use serde_json::{Map, Value};
use types::{EntityName, EntityType, Errno, OsdId, Uuid};

use super::{Reply, Request};

/// What `osd new -i FILE` brings.
#[derive(Default)]
pub(super) struct OsdParams {
    pub(super) secrets: Option<OsdSecrets>,
    /// The class of its device (`crush_device_class`).
    pub(super) device_class: Option<String>,
}

/// The keys that the file has for secrets.
const SECRETS: [&str; 3] = ["cephx_secret", "cephx_lockbox_secret", "dmcrypt_key"];

/// The secrets of an OSD.
pub(super) struct OsdSecrets {
    key: CryptoKey,
    lockbox: Option<Lockbox>,
}

struct Lockbox {
    key: CryptoKey,
    passphrase: String,
}

fn refuse(text: &str) -> Reply {
    Reply::fail(Errno::EINVAL, text)
}

fn osd_name(osd: OsdId) -> EntityName {
    EntityName::new(EntityType::OSD, osd.to_string())
}

fn lockbox_name(uuid: &str) -> EntityName {
    EntityName::new(EntityType::CLIENT, format!("osd-lockbox.{uuid}"))
}

fn passphrase_key(uuid: &str) -> String {
    format!("dm-crypt/osd/{uuid}/luks")
}

impl OsdParams {
    /// Reads the file; an empty one brings nothing.
    pub(super) fn parse(input: &Bytes) -> Result<OsdParams, Reply> {
        if input.iter().all(u8::is_ascii_whitespace) {
            return Ok(OsdParams::default());
        }
        let Ok(Value::Object(fields)) = serde_json::from_slice(input) else {
            return Err(refuse("invalid json"));
        };
        let class = fields.get("crush_device_class").and_then(Value::as_str);
        let device_class = class.filter(|class| !class.is_empty()).map(str::to_owned);
        Ok(OsdParams { secrets: OsdSecrets::parse(&fields)?, device_class })
    }
}

impl OsdSecrets {
    /// The secrets among the fields of the file, if there are any.
    fn parse(fields: &Map<String, Value>) -> Result<Option<OsdSecrets>, Reply> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let key = |name: &str| match text(name) {
            Some(text) => CryptoKey::from_base64(&text).map(Some).map_err(|_| refuse("invalid key")),
            None => Ok(None),
        };
        if !SECRETS.iter().any(|name| fields.contains_key(*name)) {
            return Ok(None);
        }
        let own = key("cephx_secret")?.ok_or_else(|| refuse("requires a cephx secret."))?;
        let lockbox = match (key("cephx_lockbox_secret")?, text("dmcrypt_key")) {
            (Some(key), Some(passphrase)) => Some(Lockbox { key, passphrase }),
            (None, None) => None,
            _ => return Err(refuse("requires both a cephx lockbox secret and a dm-crypt key.")),
        };
        Ok(Some(OsdSecrets { key: own, lockbox }))
    }

    /// True when that OSD has these secrets already.
    pub(super) fn are_known(&self, req: &Request<'_>, osd: OsdId) -> bool {
        let known = &req.mon.next;
        let uuid = req.next_map().osd_uuid.get(osd.0 as usize).map(Uuid::to_string).unwrap_or_default();
        let has = |name: &EntityName, key: &CryptoKey| {
            known.entities.get(name).is_some_and(|entity| entity.key == *key)
        };
        let has_lockbox = |lockbox: &Lockbox| {
            let passphrase = known.config_keys.get(&passphrase_key(&uuid));
            has(&lockbox_name(&uuid), &lockbox.key) && passphrase.is_some_and(|p| p == &lockbox.passphrase)
        };
        has(&osd_name(osd), &self.key) && self.lockbox.as_ref().is_none_or(has_lockbox)
    }

    /// Writes the secrets of a new OSD.
    pub(super) fn write(self, req: &mut Request<'_>, osd: OsdId, uuid: &str) -> Result<(), Reply> {
        let caps = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(service, text)| ((*service).to_owned(), (*text).to_owned())).collect()
        };
        let own = caps(&[("osd", "allow *"), ("mon", "allow profile osd"), ("mgr", "allow profile osd")]);
        let mut entities = vec![(osd_name(osd), EntityAuth { key: self.key, caps: own })];
        let mut passphrase = None;
        if let Some(lockbox) = self.lockbox {
            let may = format!("allow command \"config-key get\" with key=\"{}\"", passphrase_key(uuid));
            let entity = EntityAuth { key: lockbox.key, caps: caps(&[("mon", &may)]) };
            entities.push((lockbox_name(uuid), entity));
            passphrase = Some(lockbox.passphrase);
        }
        let differs = |(name, entity): &&(EntityName, EntityAuth)| {
            let known = req.mon.next.entities.get(name);
            known.is_some_and(|known| known.key != entity.key || known.caps != entity.caps)
        };
        if let Some((name, _)) = entities.iter().find(differs) {
            return Err(Reply::fail(
                Errno::EEXIST,
                format!("entity {name} exists but key or caps do not match"),
            ));
        }
        for (name, entity) in &entities {
            req.mon.put_entity(name, entity);
        }
        if let Some(passphrase) = passphrase {
            req.mon.put_config_key(&passphrase_key(uuid), Some(passphrase.into()));
        }
        Ok(())
    }
}

/// Takes all secrets of an OSD away; to be called while the map still knows its uuid.
pub(super) fn drop_secrets(req: &mut Request<'_>, osd: OsdId) {
    let uuid = req.next_map().osd_uuid.get(osd.0 as usize).map(Uuid::to_string).unwrap_or_default();
    for name in [osd_name(osd), lockbox_name(&uuid)] {
        req.mon.drop_entity(&name);
    }
    let folder = format!("dm-crypt/osd/{uuid}/");
    let of_osd: Vec<String> =
        req.mon.next.config_keys.keys().filter(|key| key.starts_with(&folder)).cloned().collect();
    for key in of_osd {
        req.mon.put_config_key(&key, None);
    }
}
