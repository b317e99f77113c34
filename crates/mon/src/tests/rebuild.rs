//! Ledgers that are rebuilt from what OSDs know, and monitors that go on with them.

use std::{collections::BTreeMap, ops::RangeInclusive};

use auth::{Authority, CryptoKey, Keyring, KeyringEntry};
use bytes::Bytes;
use rand::{SeedableRng, rngs::StdRng};
use types::{EntityName, Epoch, KeyType, OsdId, PgId, PoolId, UTime, Uuid};

use super::cluster::{Cluster, FSID, addr};
use crate::{
    Ledger, MemLedger, OsdRecords, RebuildError, RebuildParams, Rebuilt, RecordsError, StoreRecords, rebuild,
};

const GAP: u32 = 1_000;

fn name(text: &str) -> EntityName {
    EntityName::parse(text).unwrap()
}

fn key(seed: u64) -> CryptoKey {
    CryptoKey::generate(KeyType::Aes, UTime::new(1, 0), &mut StdRng::seed_from_u64(seed))
}

/// A cluster with 40 more epochs, so that full maps are not all that there is.
fn lived() -> Cluster {
    let mut cluster = Cluster::with_rbd();
    for _ in 0..20 {
        cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
        cluster.ok(r#"{"prefix":"osd unset","key":"noout"}"#);
    }
    cluster
}

/// What an OSD of the cluster knows that has these maps.
fn records(cluster: &Cluster, osd: i32, epochs: RangeInclusive<u32>) -> OsdRecords {
    let state = &cluster.mon.committed;
    let full = |epoch: u32| state.full_map(Epoch(epoch)).unwrap().to_bytes_and_crc().0;
    let incrementals = state.incrementals.from(Epoch(epochs.start() + 1));
    let incrementals = incrementals.map(|(epoch, bytes)| (epoch, bytes.clone()));
    let store = StoreRecords {
        pgs: cluster.map().pgs().collect(),
        first: full(*epochs.start()),
        incrementals: incrementals.take_while(|(epoch, _)| epochs.contains(&epoch.0)).collect(),
        newest: full(*epochs.end()),
    };
    let key = Some(key(osd as u64));
    OsdRecords { fsid: FSID, osd: OsdId(osd), uuid: Uuid([osd as u8 + 1; 16]), key, stores: vec![store] }
}

/// All three OSDs know these maps, and the admin has a key.
fn params(cluster: &Cluster, epochs: [RangeInclusive<u32>; 3]) -> RebuildParams {
    let osds = (0..).zip(epochs).map(|(osd, epochs)| records(cluster, osd, epochs));
    let admin = KeyringEntry { key: key(77), caps: BTreeMap::new() };
    RebuildParams {
        fsid: FSID,
        now: UTime::new(1_800_000_000, 0),
        name: "a".to_owned(),
        addrs: addr(3300),
        osds: osds.collect(),
        base: None,
        keyring: Keyring([(name("client.admin"), admin)].into()),
        key_type: KeyType::Aes,
        epoch_gap: GAP,
        allows_missing: false,
        seed: [4; 32],
    }
}

/// All three know all maps.
fn all(cluster: &Cluster) -> RebuildParams {
    let range = 3..=cluster.map().epoch.0;
    params(cluster, [range.clone(), range.clone(), range])
}

/// A monitor that goes on with what was rebuilt.
fn go_on(rebuilt: &Rebuilt) -> Cluster {
    let mut ledger = MemLedger::default();
    ledger.commit(&rebuilt.txn).unwrap();
    Cluster::on(ledger)
}

fn says(rebuilt: &Rebuilt, words: &str) -> bool {
    rebuilt.said.iter().any(|line| line.contains(words))
}

#[test]
fn a_monitor_goes_on_with_what_the_osds_know() {
    let old = lived();
    let newest = old.map().epoch.0;
    // Each continues what another has.
    let params = params(&old, [newest - 5..=newest, newest..=newest, 4..=newest - 3]);
    let rebuilt = rebuild(&params).unwrap();
    let mut new = go_on(&rebuilt);
    assert_eq!(new.map().epoch, Epoch(newest + GAP + 2));
    assert_eq!((new.map().num_up(), new.map().num_osds()), (0, 3));
    assert_eq!(new.map().pool_name, old.map().pool_name);
    assert_eq!(new.map().pool_max, old.map().pool_max, "no OSD is missing that could know more");
    let state = &new.mon.committed;
    assert_eq!(state.oldest_epoch(), Epoch(5));
    for epoch in [5, newest - 4, newest] {
        assert_eq!(state.full_map(Epoch(epoch)), old.mon.committed.full_map(Epoch(epoch)));
    }
    // The PGs of an OSD that jumps over the gap find the members of the last map that is known.
    let mut first = state.full_map(Epoch(newest + GAP + 1)).unwrap();
    assert!((0..3).all(|osd| first.is_up(OsdId(osd))));
    (first.epoch, first.modified) = (old.map().epoch, old.map().modified);
    assert_eq!(first, *old.map());
    (0..3).for_each(|osd| new.boot_osd(osd));
    assert_eq!(new.map().num_up(), 3);
    assert!(
        says(&rebuilt, "lost without an older ledger")
            && says(&rebuilt, "users: osd.0, osd.1, osd.2, client.admin;")
    );
    let said = |words| says(&rebuilt, words);
    assert!(!said("missing") && !said("no key of") && !said("no store") && !said("another map"));
}

#[test]
fn keys_are_those_of_keyrings_with_the_usual_capabilities() {
    let old = lived();
    let mut params = all(&old);
    params.osds[2].key = None;
    let caps = BTreeMap::from([("mon".to_owned(), "profile rbd".to_owned())]);
    params.keyring.0.insert(name("client.x"), KeyringEntry { key: key(5), caps: caps.clone() });
    params.keyring.0.insert(name("client.y"), KeyringEntry { key: key(6), caps: BTreeMap::new() });
    let rebuilt = rebuild(&params).unwrap();
    let new = go_on(&rebuilt);
    let entity = |text: &str| new.mon.committed.entities.get(&name(text)).cloned();
    let of = |text: &str| entity(text).map(|entity| (entity.key, entity.caps));
    assert_eq!(of("client.x"), Some((key(5), caps)));
    assert_eq!(of("client.y"), Some((key(6), BTreeMap::new())));
    let (admin, admin_caps) = of("client.admin").unwrap();
    assert_eq!((admin, admin_caps["mon"].as_str()), (key(77), "allow *"));
    let (osd, osd_caps) = of("osd.0").unwrap();
    assert_eq!((osd, osd_caps["mon"].as_str()), (key(0), "allow profile osd"));
    assert!(of("osd.2").is_none() && of("mon.").is_some() && of("client.bootstrap-osd").is_some());
    assert!(says(&rebuilt, "no key of osd.2") && says(&rebuilt, "client.y has no capabilities"));
    params.key_type = KeyType::Aes256k;
    let refused = rebuild(&params).unwrap_err();
    assert!(matches!(refused, RebuildError::KeyType { kind: KeyType::Aes, .. }), "{refused:?}");
}

/// A request of a client with the global id of an earlier one could be taken for one of that client.
#[test]
fn no_global_id_is_given_again() {
    let mut old = lived();
    let last = (0..100).map(|_| old.mon.next_global_id()).last().unwrap();
    let first = |params: &RebuildParams| go_on(&rebuild(params).unwrap()).mon.next_global_id();
    let mut params = all(&old);
    let at_first = first(&params);
    assert!(at_first > last + 1_000_000_000);
    // By a day later, a ledger may have given out billions.
    params.now.sec += 86_400;
    assert!(first(&params) > at_first + 5_000_000_000);
    params.now = UTime::new(1, 0);
    assert!(first(&params) > last + 1_000_000_000, "the clock is wrong, the map knows better");
}

#[test]
fn missing_osds_are_named_and_what_they_may_know_is_not_used_again() {
    let mut old = lived();
    old.ok(r#"{"prefix":"osd pool mksnap","pool":"rbd","snap":"s"}"#);
    let mut params = all(&old);
    params.osds.pop();
    // A store of osd.1 whose place another has taken.
    params.osds[1].uuid = Uuid([9; 16]);
    let missing = RebuildError::MissingOsds { osds: vec![OsdId(1), OsdId(2)] };
    assert_eq!(rebuild(&params).unwrap_err(), missing);
    params.allows_missing = true;
    let rebuilt = rebuild(&params).unwrap();
    assert!(says(&rebuilt, "missing: osd.1, osd.2;"));
    let (new, pool) = (go_on(&rebuilt), PoolId(1));
    assert_eq!(new.map().pool_max, old.map().pool_max + GAP as i32);
    assert_eq!(new.map().pools[&pool].snap_seq.0, old.map().pools[&pool].snap_seq.0 + u64::from(GAP));
    assert!(new.mon.committed.entities.contains_key(&name("osd.0")));
    assert!(!new.mon.committed.entities.contains_key(&name("osd.1")), "its key may be an older one");
    // One that was destroyed is not missed.
    old.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
    old.ok(r#"{"prefix":"osd destroy","id":"2","yes_i_really_mean_it":true,"force":true}"#);
    let mut params = all(&old);
    params.osds.pop();
    assert!(rebuild(&params).is_ok());
}

#[test]
fn what_an_older_ledger_has_stays_and_its_maps_do_not() {
    let mut old = Cluster::with_rbd();
    old.ok(r#"{"prefix":"config set","who":"client","name":"rbd_cache","value":"false"}"#);
    old.ok(r#"{"prefix":"config-key set","key":"a/b","val":"c"}"#);
    old.ok(r#"{"prefix":"auth get-or-create","entity":"client.x","caps":["mon","allow r"]}"#);
    let user = old.mon.committed.entities[&name("client.x")].key.clone();
    // Its PGs are still to be made.
    old.ok(r#"{"prefix":"osd pool create","pool":"second","pg_num":8}"#);
    let base = old.ledger.load().unwrap();
    assert!(!old.mon.committed.creating.is_empty());
    let behind = old.map().epoch;
    old.ok(r#"{"prefix":"osd pool create","pool":"third","pg_num":8}"#);
    let newest = old.map().epoch.0;
    let some = behind.0..=newest;
    let mut params = params(&old, [some.clone(), some.clone(), some]);
    params.keyring = Keyring::default();
    params.base = Some(base);
    let rebuilt = rebuild(&params).unwrap();
    let mut new = go_on(&rebuilt);
    assert!(new.map().pool_by_name("third").is_some());
    assert!(new.mon.committed.creating.is_empty());
    assert!(new.mon.committed.monmap.epoch > old.mon.committed.monmap.epoch);
    // The older ledger has maps that no OSD keeps any more.
    assert_eq!(new.mon.committed.oldest_epoch(), Epoch(2));
    assert_eq!(new.mon.committed.full_map(behind), old.mon.committed.full_map(behind));
    let entities = &new.mon.committed.entities;
    assert_eq!(entities[&name("client.x")].key, user);
    assert_eq!(entities[&name("osd.1")].key, key(1), "the OSD knows its key better");
    assert_eq!(entities[&name("client.admin")].key, old.mon.committed.entities[&name("client.admin")].key);
    assert_eq!(new.text(r#"{"prefix":"config get","who":"client.y","key":"rbd_cache"}"#), "false\n");
    assert_eq!(new.text(r#"{"prefix":"config-key get","key":"a/b"}"#), "c");
    assert!(says(&rebuilt, &format!("of epoch {behind}: what was changed since is lost")));
    params.name = "b".to_owned();
    assert_eq!(rebuild(&params).unwrap_err(), RebuildError::OtherMonitor("b".to_owned()));
    // A ledger that was rebuilt may be rebuilt again.
    params.name = "a".to_owned();
    (0..3).for_each(|osd| new.boot_osd(osd));
    let newest = new.map().epoch.0;
    let range = newest - 1..=newest;
    params.osds = (0..3).map(|osd| records(&new, osd, range.clone())).collect();
    params.base = Some(new.ledger.load().unwrap());
    let again = go_on(&rebuild(&params).unwrap());
    assert_eq!(again.map().epoch, Epoch(newest + GAP + 2));
}

#[test]
fn a_history_ends_where_maps_do_not_lead_to_each_other() {
    let old = lived();
    let newest = old.map().epoch.0;
    let oldest = |params: &RebuildParams| go_on(&rebuild(params).unwrap()).mon.committed.oldest_epoch();
    let mut params = params(&old, [3..=newest, newest - 9..=newest, newest..=newest]);
    assert_eq!(oldest(&params), Epoch(4));
    let sound = params.osds[0].stores[0].clone();
    let longer = |bytes: &Bytes| Bytes::from([bytes, &[0][..]].concat());
    let (at, other) = (Epoch(newest - 19), sound.incrementals[&Epoch(newest - 20)].clone());
    // An incremental of another epoch, and maps with bytes behind them, which no OSD would take.
    let spoils: [&dyn Fn(&mut StoreRecords); 3] = [
        &|store| store.incrementals.extend([(at, other.clone())]),
        &|store| store.incrementals.extend([(at, longer(&sound.incrementals[&at]))]),
        &|store| store.first = longer(&sound.first),
    ];
    for spoil in spoils {
        params.osds[0].stores[0] = sound.clone();
        spoil(&mut params.osds[0].stores[0]);
        assert_eq!(oldest(&params), Epoch(newest - 8));
    }
    for newest in [Bytes::from_static(b"no map"), longer(&sound.newest)] {
        params.osds[0].stores[0] = StoreRecords { newest, ..sound.clone() };
        let refused = rebuild(&params).unwrap_err();
        assert!(matches!(&refused, RebuildError::BadMap { name, .. } if name == "osd.0"), "{refused:?}");
    }
}

/// An older ledger was put in place once, and OSDs came to have different maps of one epoch.
#[test]
fn of_two_maps_of_one_epoch_the_later_one_counts() {
    let mut old = lived();
    let epochs = 3..=old.map().epoch.0 + 1;
    let mut fork = go_on(&Rebuilt {
        txn: crate::LedgerTxn {
            ops: old.ledger.0.entries.iter().map(|(key, bytes)| (key.clone(), Some(bytes.clone()))).collect(),
            ..crate::LedgerTxn::default()
        },
        said: Vec::new(),
    });
    fork.ok(r#"{"prefix":"osd set","key":"noscrub"}"#);
    old.pass(std::time::Duration::from_secs(9));
    old.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert_eq!(old.map().epoch, fork.map().epoch);
    let mut params = params(&old, [epochs.clone(), epochs.clone(), epochs.clone()]);
    params.osds[2] = records(&fork, 2, epochs);
    let rebuilt = rebuild(&params).unwrap();
    assert!(says(&rebuilt, "osd.2 has another map"));
    assert_eq!(go_on(&rebuilt).map().flags, old.map().flags);
}

#[test]
fn what_is_of_another_cluster_is_refused() {
    let old = lived();
    let refused = |change: &dyn Fn(&mut RebuildParams)| {
        let mut params = all(&old);
        change(&mut params);
        rebuild(&params).unwrap_err()
    };
    let other = Uuid([8; 16]);
    let of_store = refused(&|params| params.osds[1].fsid = other);
    assert!(matches!(&of_store, RebuildError::OtherCluster { what, .. } if what == "osd.1"), "{of_store:?}");
    let of_all = refused(&|params| {
        params.fsid = other;
        params.osds.iter_mut().for_each(|osd| osd.fsid = other);
    });
    assert!(matches!(&of_all, RebuildError::OtherCluster { what, .. } if what == "a map of osd.0"));
    let nothing = refused(&|params| params.osds.iter_mut().for_each(|osd| osd.stores.clear()));
    assert_eq!(nothing, RebuildError::NoMaps);
    let end = refused(&|params| params.epoch_gap = u32::MAX);
    assert!(matches!(end, RebuildError::Unreadable(_)), "{end:?}");
}

#[test]
fn pgs_without_a_copy_are_named() {
    let old = lived();
    let mut params = all(&old);
    let pg = PgId::new(PoolId(1), 3);
    params.osds[0].stores[0].pgs.clear();
    params.osds[1].stores[0].pgs.remove(&pg);
    assert!(!says(&rebuild(&params).unwrap(), "no store here"));
    params.osds[2].stores[0].pgs.remove(&pg);
    assert!(says(&rebuild(&params).unwrap(), "no store here has a copy of PG 1.3:"));
}

#[test]
fn a_file_carries_what_an_osd_knows() {
    let old = lived();
    let records = records(&old, 1, 3..=9);
    let file = records.to_file();
    assert_eq!(OsdRecords::from_file(&file), Ok(records));
    for at in 16..file.len() {
        let mut damaged = file.to_vec();
        damaged[at] ^= 1;
        assert_eq!(OsdRecords::from_file(&damaged.into()), Err(RecordsError::Damaged));
    }
    assert_eq!(OsdRecords::from_file(&file.slice(..15)), Err(RecordsError::NoRecords));
    let mut later = file.to_vec();
    later[8] = 2;
    assert_eq!(OsdRecords::from_file(&later.into()), Err(RecordsError::Version(2)));
}
