//! Damaged addresses, names and ids: an error, or a value that reads and prints as the same again.

use std::{
    fmt::Display,
    net::{Ipv6Addr, SocketAddrV6},
};

use ::damage::{Damage, damaged};
use bytes::Bytes;
use codec::{Decode, Encode, Features};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};

use crate::*;

/// A change of a text: this many characters from there on become the word.
pub(crate) type Edit = (Index, usize, &'static str);

/// One of the words between bars.
pub(crate) fn one_of(words: &'static str) -> impl Strategy<Value = &'static str> {
    select(words.split('¦').collect::<Vec<_>>())
}

/// Changes to any of these words.
pub(crate) fn edits(words: &'static str) -> impl Strategy<Value = Vec<Edit>> {
    vec((any::<Index>(), 0usize..4, one_of(words)), 0..4)
}

pub(crate) fn edited(text: &str, edits: &[Edit]) -> String {
    edits.iter().fold(text.to_owned(), |text, (at, len, word)| {
        let chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len() + 1);
        let rest = chars.iter().skip(at + len);
        chars[..at].iter().copied().chain(word.chars()).chain(rest.copied()).collect()
    })
}

const WORDS: &str = "\
    ¦v1:¦v2:¦any:¦cidr:¦-¦[¦]¦:¦::¦/¦.¦+¦ ¦%¦0¦1¦f¦g¦65536¦4294967295¦4294967296¦\
    9223372036854775808¦ffffffff¦{¦}¦é¦\u{0}¦osd.¦client¦mon.a";

const TEXTS: &str = "\
    v2:127.0.0.1:6800/77¦1.2.3.4¦v1:[::1]:6789/4294967295¦v2:[fe80::1%2]:6800/1¦[::ffff:1.2.3.4]¦\
    any:::1¦d115b587-6118-415a-af14-47309b5357db¦{d115b5876118415aaf1447309b5357db}¦osd.3¦\
    client.rgw.a b¦1.2f¦-1.ffffffff¦9223372036854775807.0";

fn damage() -> impl Strategy<Value = Damage> {
    let number = prop_oneof![Just(0), Just(u64::MAX), Just(1 << 31), 0u64..40, any::<u64>()];
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        3 => (any::<Index>(), number, select(vec![2, 4, 8])).prop_map(|(at, n, width)| Damage::Number(at, n, width)),
        1 => any::<Index>().prop_map(Damage::Cut),
    ]
}

/// What damage makes of a value: nothing, or a value that is read from its own bytes again.
fn read<T: Encode + Decode + PartialEq + std::fmt::Debug>(value: &T, damages: &[Damage]) -> Option<T> {
    let found = T::from_prefix(damaged(&value.to_bytes(Features::PACIFIC), damages)).ok()?;
    assert_eq!(T::from_bytes(found.to_bytes(Features::PACIFIC)).as_ref(), Ok(&found));
    Some(found)
}

/// What a text is read as prints as a text that is read as the same.
fn assert_prints<T: Display + PartialEq + std::fmt::Debug>(text: &str, parse: impl Fn(&str) -> Option<T>) {
    if let Some(value) = parse(text) {
        assert_eq!(parse(&value.to_string()).as_ref(), Some(&value), "{text}");
    }
}

fn addrs() -> Vec<EntityAddr> {
    let labelled = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 6800, 0x12345, 7);
    let parsed = ["v2:127.0.0.1:6800/77", "v1:[::1]:6789/1", "v2:[fe80::1%2]:6800/1"].map(EntityAddr::parse);
    let mut out: Vec<EntityAddr> = parsed.into_iter().flatten().collect();
    out.extend([EntityAddr::msgr2(labelled.into(), 1), EntityAddr::default()]);
    out.push(EntityAddr { kind: AddrType::CIDR, nonce: 24, ..out[0] });
    out
}

fn object() -> HObject {
    let [oid, key, nspace] = ["name", "key", "ns"].map(|text| Bytes::from_static(text.as_bytes()));
    HObject { oid, key, nspace, pool: PoolId(3), hash: 0x1234_5678, snap: SnapId(4), is_max: false }
}

proptest! {
    #![proptest_config(::damage::cases(2_000))]

    #[test]
    fn damaged_addresses_are_refused_or_read(
        which: Index,
        many in vec(any::<Index>(), 0..4),
        damages in vec(damage(), 1..4),
    ) {
        let all = addrs();
        let one = all[which.index(all.len())];
        let list = EntityAddrVec(many.iter().map(|at| all[at.index(all.len())]).collect());
        if let Some(found) = read(&one, &damages) {
            let _ = (found.to_string(), found.dump());
            for other in all {
                prop_assert_eq!(found.cmp(&other), other.cmp(&found).reverse());
                prop_assert_eq!(found.cmp(&other).is_eq(), found == other);
            }
        }
        if let Some(found) = read(&list, &damages) {
            let _ = (found.to_string(), found.msgr2_addr());
        }
        // A lone address in the place of a vector, as older encoders write it.
        if let Ok(found) = EntityAddrVec::from_prefix(damaged(&one.to_bytes(Features::PACIFIC), &damages)) {
            prop_assert_eq!(EntityAddrVec::from_bytes(found.to_bytes(Features::PACIFIC)), Ok(found));
        }
    }

    #[test]
    fn damaged_names_are_refused_or_read(damages in vec(damage(), 1..4), more in vec(damage(), 1..4)) {
        if let (Some(one), Some(other)) = (read(&object(), &damages), read(&object(), &more)) {
            prop_assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
            prop_assert_eq!(one.cmp(&other).is_eq(), one == other || one.is_max && other.is_max);
            let _ = (one.to_string(), one.head(), one.detached());
        }
        for name in ["client.admin", "osd.3", "mon."] {
            let _ = read(&EntityName::parse(name).unwrap(), &damages).map(|name| name.to_string());
        }
        let pg = PgId::new(PoolId(3), 0x1f);
        let _ = read(&EntityNum::osd(3), &damages).map(|name| name.to_string());
        let _ = read(&SpgId::replicated(pg), &damages);
        let _ = read(&Uuid([7; 16]), &damages).map(|uuid| uuid.to_string());
        if let Some(pg) = read(&pg, &damages) {
            let _ = (pg.to_string(), HObject::range_of(pg, 12), HObject::range_of(pg, u32::MAX));
        }
    }

    #[test]
    fn texts_of_addresses_and_names_are_refused_or_print_as_they_are_read(
        text in one_of(TEXTS),
        edits in edits(WORDS),
    ) {
        let text = edited(text, &edits);
        assert_prints(&text, EntityAddr::parse);
        assert_prints(&text, |text| text.parse::<Uuid>().ok());
        assert_prints(&text, EntityName::parse);
        assert_prints(&text, PgId::parse);
    }

    #[test]
    fn noise_never_panics(bytes: Vec<u8>, text: String) {
        let bytes = Bytes::from(bytes);
        let _ = (EntityAddr::from_prefix(bytes.clone()), EntityAddrVec::from_prefix(bytes.clone()));
        let _ = (HObject::from_prefix(bytes.clone()), EntityName::from_prefix(bytes));
        let _ = (EntityAddr::parse(&text), text.parse::<Uuid>(), EntityName::parse(&text), PgId::parse(&text));
    }
}
