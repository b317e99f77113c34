//! Types of secret keys: what is made, what is let in, and how a cluster changes from one to the other.

use std::time::Duration;

use auth::{Authority, CryptoKey, method};
use bytes::Bytes;
use messages::{MAuth, Message};
use types::{EntityName, EntityType, KeyType};

use super::cluster::{ADMIN, Cluster};
use crate::{ConnId, Event};

fn key_of(cluster: &mut Cluster, name: &str) -> CryptoKey {
    let text = cluster.text(&format!(r#"{{"prefix":"auth get-key","entity":"{name}"}}"#));
    CryptoKey::from_base64(&text).unwrap()
}

fn is_let_in(cluster: &Cluster, name: &str) -> bool {
    cluster.mon.entity(&EntityName::parse(name).unwrap()).is_some()
}

#[test]
fn keys_are_of_the_type_that_is_asked_for_or_preferred() {
    let mut cluster = Cluster::new();
    cluster.ok(r#"{"prefix":"auth get-or-create","entity":"client.a","caps":["mon","allow r"]}"#);
    assert_eq!(key_of(&mut cluster, "client.a").kind(), KeyType::Aes);
    cluster.ok(r#"{"prefix":"auth rotate","entity":"client.a","key_type":"aes256k"}"#);
    assert_eq!(key_of(&mut cluster, "client.a").kind(), KeyType::Aes256k);
    for command in ["auth get-or-create", "auth get-or-create-key", "auth add"] {
        let name = command.replace(' ', "-");
        cluster.ok(&format!(r#"{{"prefix":"{command}","entity":"client.{name}","key_type":"AES256K"}}"#));
        assert_eq!(key_of(&mut cluster, &format!("client.{name}")).kind(), KeyType::Aes256k);
    }
    cluster.ok(r#"{"prefix":"mon set","name":"auth_preferred_cipher","value":"aes256k"}"#);
    cluster.ok(r#"{"prefix":"auth add","entity":"client.b"}"#);
    assert_eq!(key_of(&mut cluster, "client.b").kind(), KeyType::Aes256k);
    let refused = cluster.refused(r#"{"prefix":"auth add","entity":"client.c","key_type":"des"}"#);
    assert_eq!(refused, (-22, "invalid key type: des".to_owned()));
}

/// A cluster changes to `aes256k`: it warns of the keys that are left, and no entity gets back in with its old key.
#[test]
fn there_is_no_way_back_by_a_weaker_key() {
    let mut cluster = Cluster::new();
    (0..3).for_each(|id| cluster.boot_osd(id));
    cluster.ok(r#"{"prefix":"auth get-or-create","entity":"client.old","caps":["mon","allow r"]}"#);
    cluster.ok(r#"{"prefix":"mon set","name":"auth_preferred_cipher","value":"aes256k"}"#);
    let health = cluster.text(r#"{"prefix":"health","detail":"detail"}"#);
    for line in [
        "AUTH_INSECURE_CLIENT_KEY_TYPE: 8 auth client entities with insecure key types",
        "entity client.old using insecure key type: aes",
        "AUTH_INSECURE_KEYS_ALLOWED",
        "AUTH_INSECURE_KEYS_CREATABLE",
    ] {
        assert!(health.contains(line), "{line} in {health}");
    }
    let set = r#"{"prefix":"mon set","name":"auth_allowed_ciphers","value":"aes256k"}"#;
    let why = "client.admin has a key of type aes: rotate it first";
    assert_eq!(cluster.refused(set), (-22, why.to_owned()), "nobody locks himself out");
    cluster.ok(r#"{"prefix":"auth rotate","entity":"client.admin"}"#);
    assert!(is_let_in(&cluster, "client.old"));
    cluster.ok(set);
    assert_eq!(cluster.ok(set), "already set");
    assert!(!is_let_in(&cluster, "client.old") && is_let_in(&cluster, "client.admin"));
    let again = r#"{"prefix":"auth rotate","entity":"client.admin","key_type":"aes"}"#;
    assert_eq!(cluster.refused(again).0, -22);
    cluster.ok(r#"{"prefix":"auth rm","entity":"client.old"}"#);
    for kind in ["mds", "mgr", "osd", "rbd", "rbd-mirror", "rgw"] {
        cluster.ok(&format!(r#"{{"prefix":"auth rotate","entity":"client.bootstrap-{kind}"}}"#));
    }
    cluster.ok(r#"{"prefix":"config set","who":"mon","name":"mon_auth_allow_insecure_key","value":"false"}"#);
    assert!(!cluster.text(r#"{"prefix":"health"}"#).contains("AUTH_"));
    let again = cluster.refused(again);
    assert_eq!(again, (-22, r#"creating key with insecure key type ("aes") not allowed"#.to_owned()));
    for (name, value) in [
        ("auth_allowed_ciphers", ""),
        ("auth_allowed_ciphers", "aes256k,des"),
        ("auth_service_cipher", "none"),
        ("auth_preferred_cipher", "aes,aes256k"),
        ("auth_preferred", "aes"),
    ] {
        let text = format!(r#"{{"prefix":"mon set","name":"{name}","value":"{value}"}}"#);
        assert_eq!(cluster.refused(&text).0, -22, "{text}");
    }
}

/// Wiped secrets are replaced by secrets of the type that is set now, which are in no client's ticket and reach the
/// OSDs at once.
#[test]
fn rotating_secrets_are_wiped() {
    let mut cluster = Cluster::new();
    (0..3).for_each(|id| cluster.boot_osd(id));
    let kinds = |cluster: &Cluster| -> Vec<(u64, KeyType)> {
        cluster.mon.secrets(EntityType::OSD).unwrap().all().map(|(id, key, _)| (id, key.kind())).collect()
    };
    let three = |from: u64, kind| [(from, kind), (from + 1, kind), (from + 2, kind)];
    assert_eq!(kinds(&cluster), three(1, KeyType::Aes256k));
    cluster.ok(r#"{"prefix":"mon set","name":"auth_service_cipher","value":"aes"}"#);
    assert!(
        cluster.text(r#"{"prefix":"health"}"#).starts_with("HEALTH_ERR Monitors are configured to issue")
    );
    assert_eq!(kinds(&cluster), three(1, KeyType::Aes256k), "until they rotate");
    let proof = cluster.mon.secrets(EntityType::AUTH).unwrap().clone();
    cluster.sent.clear();
    assert_eq!(cluster.ok(r#"{"prefix":"auth wipe-rotating-service-keys"}"#), "wiped rotating service keys!");
    assert_eq!(kinds(&cluster), three(4, KeyType::Aes));
    assert_eq!(*cluster.mon.secrets(EntityType::AUTH).unwrap(), proof);
    let told = |(conn, _, message): &&(ConnId, u64, Message)| {
        (0..3).any(|id| *conn == Cluster::osd_conn(id))
            && matches!(message, Message::MAuthReply(r) if r.result == 0)
    };
    assert_eq!(cluster.sent.iter().filter(told).count(), 3);
    cluster.ok(r#"{"prefix":"mon set","name":"auth_service_cipher","value":"aes256k"}"#);
    let health = cluster.text(r#"{"prefix":"health"}"#);
    assert!(health.contains("4 rotating auth service keys using insecure key types"), "{health}");
    cluster.ok(r#"{"prefix":"auth wipe-rotating-service-keys"}"#);
    assert_eq!(cluster.text(r#"{"prefix":"health"}"#), "HEALTH_OK\n");
    let dump = cluster.json(r#"{"prefix":"mon dump"}"#);
    assert_eq!((&dump["auth_epoch"], &dump["auth_service_cipher"]["name"]), (&2.into(), &"aes256k".into()));
    let keys = cluster.json(r#"{"prefix":"auth dump-keys"}"#);
    assert_eq!(keys["data"]["rotating_secrets"].as_array().unwrap().len(), 5);
    assert!(!keys.to_string().contains(&key_of(&mut cluster, "client.admin").to_base64()));
}

/// OSDs ask for secrets every few minutes, and know the next one for an hour before it is in a ticket.
#[test]
fn osds_are_told_of_secrets_when_the_clock_leaps() {
    let mut cluster = Cluster::new();
    cluster.boot_osd(0);
    let current = |cluster: &Cluster| cluster.mon.secrets(EntityType::OSD).unwrap().current().unwrap().0;
    for (hours, id, is_told) in [(1, 2, false), (1, 3, false), (3, 5, true)] {
        cluster.sent.clear();
        cluster.now = cluster.now + Duration::from_secs(hours * 3_600);
        cluster.event(Event::Timer);
        assert_eq!(current(&cluster), id);
        let is_answer =
            |message: &Message| matches!(message, Message::MAuthReply(reply) if reply.result == 0);
        let has_told = cluster.sent.iter().any(|(conn, _, m)| *conn == Cluster::osd_conn(0) && is_answer(m));
        assert_eq!(has_told, is_told, "{hours} h, now {id}");
    }
}

/// A second key of a deleted entity does not become a key of the next entity of that name.
#[test]
fn a_pending_key_goes_with_its_entity() {
    let name = EntityName::parse("osd.1").unwrap();
    let ring =
        b"[osd.1]\n\tkey = AQAQuQBrA94mIBAAo+GWtvvESSLUPpNJ+huiaA==\n\tcaps mon = \"allow profile osd\"\n";
    let import = |cluster: &mut Cluster| {
        let ack = cluster.try_command(ADMIN, r#"{"prefix":"auth import"}"#, ring).unwrap();
        assert_eq!(ack.result, 0, "{}", ack.status);
    };
    let pend = |cluster: &mut Cluster| {
        cluster.text(r#"{"prefix":"auth get-or-create-pending","entity":"osd.1"}"#);
        assert!(cluster.mon.next.pending_keys.contains_key(&name));
    };
    for command in [
        r#"{"prefix":"osd purge","id":"1","yes_i_really_mean_it":true}"#,
        r#"{"prefix":"osd destroy","id":"1","yes_i_really_mean_it":true,"force":true}"#,
        r#"{"prefix":"auth rm","entity":"osd.1"}"#,
    ] {
        let mut cluster = Cluster::new();
        cluster.boot_osd(1);
        pend(&mut cluster);
        cluster.ok(r#"{"prefix":"osd down","ids":["1"]}"#);
        assert_eq!(cluster.command(command).result, 0, "{command}");
        assert!(!cluster.mon.next.entities.contains_key(&name));
        assert!(cluster.mon.next.pending_keys.is_empty(), "{command}");
        import(&mut cluster);
        pend(&mut cluster);
        import(&mut cluster);
        assert!(cluster.mon.next.pending_keys.is_empty(), "the file says all of an entity");
    }
}

/// A second key is no way around the types that are allowed, and goes when the first one is rotated.
#[test]
fn a_pending_key_is_of_an_allowed_type_and_goes_when_the_key_is_rotated() {
    let mut cluster = Cluster::new();
    let name = EntityName::parse("client.a").unwrap();
    let pend = r#"{"prefix":"auth get-or-create-pending","entity":"client.a"}"#;
    cluster.ok(r#"{"prefix":"auth add","entity":"client.a"}"#);
    cluster.text(pend);
    assert!(cluster.mon.pending_key(&name).is_some());
    cluster.ok(r#"{"prefix":"auth rotate","entity":"client.a"}"#);
    assert!(cluster.mon.pending_key(&name).is_none());
    cluster.text(pend);
    assert_eq!(cluster.mon.pending_key(&name).map(|key| key.kind()), Some(KeyType::Aes));
    cluster.ok(r#"{"prefix":"auth rotate","entity":"client.admin","key_type":"aes256k"}"#);
    cluster.ok(r#"{"prefix":"mon set","name":"auth_allowed_ciphers","value":"aes256k"}"#);
    assert!(cluster.mon.pending_key(&name).is_none());
}

/// A client whose ticket grows old connects anew: nothing is left of the connection that it asked over.
#[test]
fn a_peer_that_is_made_to_connect_anew_leaves_no_session() {
    const CLIENT: ConnId = ConnId(77);
    let mut cluster = Cluster::new();
    cluster.connect(CLIENT, "client.admin");
    let before = cluster.mon.sessions.len();
    // `CEPHX_GET_AUTH_SESSION_KEY`
    let payload = Bytes::from_static(&[0, 1]);
    cluster.say(CLIENT, MAuth { protocol: method::CEPHX, payload, ..MAuth::default() });
    assert_eq!(cluster.closed, [CLIENT]);
    assert_eq!(cluster.mon.sessions.len(), before - 1);
}

/// Who has shown one second key has not shown the one that came in its place.
#[test]
fn a_pending_key_that_nobody_has_used_stays_pending() {
    let name = EntityName::parse("osd.1").unwrap();
    let mut cluster = Cluster::new();
    cluster.boot_osd(1);
    let first = key_of(&mut cluster, "osd.1");
    let pend = r#"{"prefix":"auth get-or-create-pending","entity":"osd.1"}"#;
    cluster.text(pend);
    cluster.mon.note_pending_key_used(&name);
    cluster.ok(r#"{"prefix":"auth clear-pending","entity":"osd.1"}"#);
    cluster.text(pend);
    cluster.connect(ConnId(77), "client.admin");
    assert_eq!(key_of(&mut cluster, "osd.1"), first);
    cluster.mon.note_pending_key_used(&name);
    cluster.connect(ConnId(78), "client.admin");
    assert_ne!(key_of(&mut cluster, "osd.1"), first);
}

/// An export is what a cluster is built from again: no name and no capability adds lines of its own to it.
#[test]
fn an_export_is_imported_as_it_was() {
    let mut cluster = Cluster::new();
    for entity in [r"client.a]\n\tkey = x\n[client.admin", r"client.a\n", "client.a]", "client.a "] {
        for prefix in ["auth add", "auth get-or-create", "auth get-or-create-key"] {
            let command = format!(r#"{{"prefix":"{prefix}","entity":"{entity}","caps":["mon","allow r"]}}"#);
            assert_eq!(cluster.refused(&command), (-22, "bad entity name".to_owned()), "{command}");
        }
    }
    let mon = r#"allow command x with a regex \"^b\\.c$\",\nallow r"#;
    cluster.ok(&format!(r#"{{"prefix":"auth add","entity":"client.a","caps":["mon","{mon}"]}}"#));
    let export = r#"{"prefix":"auth export"}"#;
    let all = cluster.text(export);
    assert!(all.contains(r#"caps mon = "allow command x with a regex \"^b\\.c$\", allow r""#), "{all}");
    let ack = cluster.try_command(ADMIN, r#"{"prefix":"auth import"}"#, all.as_bytes());
    assert_eq!(ack.map(|ack| (ack.result, ack.status)), Some((0, "imported keyring".to_owned())));
    assert_eq!(cluster.text(export), all);
}
