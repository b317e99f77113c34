//! A new cluster: the first transaction of its ledger.

use std::collections::BTreeMap;

use auth::{CryptoKey, KeyringEntry, RotatingSecrets};
use bytes::Bytes;
use crush::CrushMap;
use rand::{SeedableRng, rngs::StdRng};
use types::{
    EntityAddrVec, EntityName, EntityType, Epoch, Incremental, KeyType, MonMap, OsdMap, UTime, Uuid,
};

use crate::{
    LedgerTxn, Revision,
    auth_service::{GLOBAL_IDS_PER_BATCH, SERVICES},
    ledger_keys,
    state::value,
};

/// What a new cluster is made from.
#[derive(Clone, Debug)]
pub struct MkfsParams {
    /// The cluster's id.
    pub fsid: Uuid,
    /// When.
    pub now: UTime,
    /// Names and addresses of the monitors.
    pub mons: BTreeMap<String, EntityAddrVec>,
    /// Keys of entities, and what these may do: `mon.`, `client.admin` and `osd.N` where the caller wants to know them,
    /// and others. Any of the first two that is missing, and the bootstrap keys, are made up. Entities without
    /// capabilities have the usual ones of those that every cluster has, and else none.
    pub keys: BTreeMap<EntityName, KeyringEntry>,
    /// `osd_crush_chooseleaf_type`: copies are spread over OSDs (0, for one machine) or hosts (1).
    pub chooseleaf_type: i32,
    /// The type of keys that are made up, and of those that commands make later. With `aes256k` others are
    /// neither made nor let in; with `aes` both types are.
    pub key_type: KeyType,
    /// Seed of the keys that are made up.
    pub seed: [u8; 32],
}

/// Kinds of daemons whose keys are made with a bootstrap key, which is for that alone.
const BOOTSTRAP: [&str; 6] = ["mds", "mgr", "osd", "rbd", "rbd-mirror", "rgw"];

/// What an entity may do that every cluster has; nobody else may do anything until an operator says so.
pub(crate) fn default_caps(name: &EntityName) -> BTreeMap<String, String> {
    if name.kind == EntityType::CLIENT && name.id.starts_with("bootstrap-") {
        return [("mon".to_owned(), format!("allow profile {}", name.id))].into();
    }
    let caps: &[(&str, &str)] = match (name.kind, name.id.as_str()) {
        (EntityType::MON, _) => &[("mon", "allow *")],
        (EntityType::OSD, _) => {
            &[("mgr", "allow profile osd"), ("mon", "allow profile osd"), ("osd", "allow *")]
        }
        (EntityType::CLIENT, "admin") => {
            &[("mds", "allow *"), ("mgr", "allow *"), ("mon", "allow *"), ("osd", "allow *")]
        }
        _ => &[],
    };
    caps.iter().map(|(service, text)| ((*service).to_owned(), (*text).to_owned())).collect()
}

/// The first transaction: monitor map, authentication database, an OSD map without OSDs and pools.
pub fn mkfs(params: &MkfsParams) -> LedgerTxn {
    let mut rng = StdRng::from_seed(params.seed);
    let mut ops = BTreeMap::new();
    let mut monmap = MonMap::new(params.fsid, params.now);
    monmap.epoch = Epoch(1);
    for (name, addrs) in &params.mons {
        monmap.add(name, addrs.clone());
    }
    if params.key_type.is_secure() {
        monmap.set_key_types([params.key_type], params.key_type);
        let option = format!("{}/mon/mon_auth_allow_insecure_key", ledger_keys::CONFIG);
        ops.insert(option, value(&"false".to_owned()));
    }
    ops.insert(ledger_keys::MONMAP.to_owned(), value(&monmap));

    let mut entities = params.keys.clone();
    let bootstrap = BOOTSTRAP.map(|kind| format!("client.bootstrap-{kind}"));
    for name in ["mon.", "client.admin"].into_iter().chain(bootstrap.iter().map(String::as_str)) {
        let name = EntityName::parse(name).expect("the names are well formed");
        entities.entry(name).or_insert_with(|| KeyringEntry {
            key: CryptoKey::generate(params.key_type, params.now, &mut rng),
            caps: BTreeMap::new(),
        });
    }
    for (name, KeyringEntry { key, caps }) in entities {
        let caps = if caps.is_empty() { default_caps(&name) } else { caps };
        ops.insert(ledger_keys::auth(&name), value(&(key, caps)));
    }
    for service in SERVICES {
        let mut secrets = RotatingSecrets::default();
        secrets.rotate(service, monmap.service_key_type(), params.now, &mut rng);
        ops.insert(ledger_keys::rotating(service), value(&secrets));
    }
    ops.insert(ledger_keys::GLOBAL_ID.to_owned(), value(&GLOBAL_IDS_PER_BATCH));
    add_osdmap(params, &mut ops);
    LedgerTxn { expected: Revision(0), ops }
}

fn add_osdmap(params: &MkfsParams, ops: &mut BTreeMap<String, Option<Bytes>>) {
    let mut crush = CrushMap::initial();
    let domain = crush.type_names.get(&params.chooseleaf_type).cloned().unwrap_or("host".to_owned());
    crush
        .add_simple_rule("replicated_rule", "default", &domain, None, crush::RuleForm::REPLICATED)
        .expect("the map has no rules");
    let mut map = OsdMap::new(params.fsid, params.now, crush.into());
    map.epoch = Epoch(1);
    map.modified = params.now;
    let profile = [("plugin", "jerasure"), ("technique", "reed_sol_van"), ("k", "2"), ("m", "2")];
    let profile = profile.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    map.erasure_code_profiles.insert("default".to_owned(), profile);
    put_whole_map(&map, ops);
}

/// Writes a map that no map in the ledger leads to. It has an incremental, too, for receivers that have no map yet: it
/// carries the whole map.
pub(crate) fn put_whole_map(map: &OsdMap, ops: &mut BTreeMap<String, Option<Bytes>>) {
    let (full, crc) = map.to_bytes_and_crc();
    let mut inc = Incremental::new(map.fsid, map.epoch);
    inc.fullmap = full.clone();
    inc.modified = map.modified;
    inc.full_crc = crc;
    ops.insert(ledger_keys::osdmap_full(map.epoch), Some(full));
    ops.insert(ledger_keys::osdmap_inc(map.epoch), value(&inc));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_may_do_what_their_keyring_says_and_none_is_made_an_operator() {
        let mut rng = StdRng::from_seed([1; 32]);
        let now = UTime::new(1_790_000_000, 0);
        let stated = BTreeMap::from([("mon".to_owned(), "allow r".to_owned())]);
        let operator: BTreeMap<_, _> =
            ["mds", "mgr", "mon", "osd"].map(|service| (service.to_owned(), "allow *".to_owned())).into();
        let wanted = [
            ("client.backup", stated.clone(), stated.clone()),
            ("client.bare", BTreeMap::new(), BTreeMap::new()),
            ("client.bootstrap-osd", stated.clone(), stated),
            ("client.admin", BTreeMap::new(), operator),
        ];
        let mut keys = BTreeMap::new();
        for (name, caps, _) in &wanted {
            let key = CryptoKey::generate(KeyType::Aes256k, now, &mut rng);
            keys.insert(EntityName::parse(name).unwrap(), KeyringEntry { key, caps: caps.clone() });
        }
        let params = MkfsParams {
            fsid: Uuid([1; 16]),
            now,
            mons: BTreeMap::new(),
            keys: keys.clone(),
            chooseleaf_type: 0,
            key_type: KeyType::Aes,
            seed: [2; 32],
        };
        let made = mkfs(&params).ops;
        for (name, _, caps) in wanted {
            let name = EntityName::parse(name).unwrap();
            assert_eq!(made[&ledger_keys::auth(&name)], value(&(keys[&name].key.clone(), caps)), "{name}");
        }
    }
}
