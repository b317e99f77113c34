//! Who is let in by a rebuilt ledger.

use std::collections::BTreeMap;

use auth::{CryptoKey, Keyring};
use bytes::Bytes;
use codec::Decode;
use types::{EntityName, EntityType, KeyType, OsdMap, UTime};

use super::{has_store, records::OsdRecords};
use crate::{ledger_keys, mkfs::default_caps, state::value};

/// The values of a ledger by key.
type Entries = BTreeMap<String, Bytes>;

/// Global ids that a cluster is taken to give out in a second, at most. A client's requests are told from others by its
/// global id: a client that got the id of an earlier one could have a write taken for one that was done already. So a
/// ledger that does not know which were given out begins at this many for each second since 1970.
const GLOBAL_IDS_PER_SECOND: u64 = 1 << 16;

/// Makes sure that no global id is given out again.
pub(super) fn skip_global_ids(entries: &mut Entries, newest: &OsdMap, now: UTime) {
    let kept = entries.get(ledger_keys::GLOBAL_ID).and_then(|bytes| u64::from_prefix(bytes.clone()).ok());
    // A clock that is behind is not to lead back.
    let seconds = u64::from(now.max(newest.modified).sec);
    let limit = kept.unwrap_or(0).max(seconds * GLOBAL_IDS_PER_SECOND);
    put(entries, ledger_keys::GLOBAL_ID.to_owned(), &limit);
}

fn put<T: codec::Encode>(entries: &mut Entries, key: String, entry: &T) {
    entries.extend(value(entry).map(|bytes| (key, bytes)));
}

/// Takes in the keys of OSDs and of keyrings. Returns whose they are, with the types of the keys, and what an operator
/// should know.
pub(super) fn import(
    entries: &mut Entries,
    newest: &OsdMap,
    osds: &[OsdRecords],
    keyring: &Keyring,
) -> (BTreeMap<EntityName, KeyType>, Vec<String>) {
    let (mut taken, mut said) = (BTreeMap::new(), Vec::new());
    // A store that another took the place of may have an older key.
    let is_current = |records: &&OsdRecords| uuid_of(newest, records) == Some(records.uuid);
    for records in osds.iter().filter(is_current) {
        let name = EntityName::new(EntityType::OSD, records.osd.to_string());
        if let Some(key) = &records.key {
            take(entries, &name, key, &BTreeMap::new());
            taken.insert(name, key.kind());
        }
    }
    for (name, entry) in &keyring.0 {
        let caps = take(entries, name, &entry.key, &entry.caps);
        taken.insert(name.clone(), entry.key.kind());
        if caps.is_empty() {
            said.push(format!("{name} has no capabilities in its keyring: `ceph auth caps` gives it some"));
        }
    }
    for osd in newest.osds().filter(|osd| has_store(newest, *osd)) {
        let name = EntityName::new(EntityType::OSD, osd.to_string());
        if !entries.contains_key(&ledger_keys::auth(&name)) {
            said.push(format!(
                "no key of {name} was found: it is let in once `ceph auth import -i FILE` has read its keyring"
            ));
        }
    }
    (taken, said)
}

/// The uuid that the map has of the OSD of these records.
pub(super) fn uuid_of(map: &OsdMap, records: &OsdRecords) -> Option<types::Uuid> {
    map.exists(records.osd).then(|| map.osd_uuid[records.osd.0 as usize])
}

/// Writes an entity, with the capabilities that are given, or else those that it has, or those that it is made with.
fn take(
    entries: &mut Entries,
    name: &EntityName,
    key: &CryptoKey,
    caps: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let known = entries.get(&ledger_keys::auth(name));
    let known =
        known.and_then(|bytes| <(CryptoKey, BTreeMap<String, String>)>::from_prefix(bytes.clone()).ok());
    let caps = match &known {
        _ if !caps.is_empty() => caps.clone(),
        Some((_, caps)) => caps.clone(),
        None => default_caps(name),
    };
    if known.is_none_or(|(known, _)| known != *key) {
        // What was to take the place of the key before.
        entries.remove(&ledger_keys::pending_key(name));
    }
    put(entries, ledger_keys::auth(name), &(key.clone(), caps.clone()));
    caps
}
