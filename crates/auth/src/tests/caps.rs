use std::{collections::BTreeMap, net::IpAddr};

use crate::*;

/// What stock Ceph takes, we take; what it refuses, we refuse.
#[test]
fn texts_are_taken_and_refused_as_by_stock_monitors() {
    for line in include_str!("../../testdata/caps.tsv").lines() {
        let mut fields = line.splitn(3, '\t');
        let (service, taken, text) =
            (fields.next().unwrap(), fields.next().unwrap() == "yes", fields.next().unwrap());
        let ours = match service {
            "osd" => OsdCaps::parse(text).is_ok(),
            _ => MonCaps::parse(text).is_ok(),
        };
        assert_eq!(ours, taken, "{service}: {text:?}");
    }
}

#[test]
fn errors_name_what_was_not_understood() {
    let syntax = |at: &str| CapsError::Syntax { at: at.to_owned() };
    let check = |text: &str, at: &str| assert_eq!(OsdCaps::parse(text).unwrap_err(), syntax(at));
    check("hello", "hello");
    check("allow rw, hello", ", hello");
    check("allow rw what", "what");
    assert_eq!(MonCaps::parse("allow r, profile").unwrap_err(), syntax(", profile"));
    assert!(OsdCaps::parse("").is_err() && MonCaps::parse(" ").is_err());
}

const GET: ClassCall = ClassCall { class: "rbd", method: "get_size", read: true, write: false };
const SET: ClassCall = ClassCall { class: "rbd", method: "set_size", read: true, write: true };
const ATTACH: ClassCall = ClassCall { class: "rbd", method: "child_attach", read: true, write: true };
const LOCK: ClassCall = ClassCall { class: "lock", method: "lock", read: true, write: true };
const METADATA: ClassCall = ClassCall { class: "rbd", method: "metadata_list", read: true, write: false };

/// `object` is `pool/namespace/name`; `need` has letters of `rw`.
fn osd(caps: &str, object: &str, need: &str, classes: &[ClassCall]) -> bool {
    let tags = BTreeMap::from([
        ("rbd".to_owned(), BTreeMap::new()),
        ("cephfs".to_owned(), BTreeMap::from([("data".to_owned(), "x".to_owned())])),
    ]);
    let mut parts = object.splitn(3, '/');
    let mut part = || parts.next().unwrap();
    OsdCaps::parse(caps).unwrap().allows(&OsdAccess {
        pool_name: part(),
        namespace: part().as_bytes(),
        key: part().as_bytes(),
        application_metadata: &tags,
        read: need.contains('r'),
        write: need.contains('w'),
        classes,
    })
}

#[test]
fn rights_hold_where_the_grant_says() {
    let yes = |caps, object, need| assert!(osd(caps, object, need, &[]), "{caps} on {object}");
    let no = |caps, object, need| assert!(!osd(caps, object, need, &[]), "{caps} on {object}");
    yes("allow *", "p//o", "rw");
    yes("allow rw pool=p", "p/n/o", "rw");
    yes("allow pool p rwx", "p//o", "rw");
    no("allow rw pool=p", "q//o", "r");
    no("allow r", "p//o", "rw");
    yes("allow rw namespace=n", "p/n/o", "w");
    no("allow rw namespace=n", "p//o", "w");
    no("allow rw namespace=\"\"", "p/n/o", "w");
    yes("allow rw namespace=n*", "p/nn/o", "w");
    no("allow rw namespace=n*", "p/m/o", "w");
    yes("allow rw object_prefix a", "p//abc", "w");
    no("allow rw object_prefix a", "p//b", "w");
    yes("allow rw tag rbd *=*", "p//o", "rw");
    yes("allow rw tag cephfs data=x", "p//o", "rw");
    yes("allow rw tag cephfs *=x", "p//o", "rw");
    no("allow rw tag cephfs data=y", "p//o", "rw");
    no("allow rw tag cephfs metadata=*", "p//o", "rw");
    no("allow rw tag rgw *=*", "p//o", "rw");
    yes("allow r pool=q, allow rw pool=p", "p//o", "rw");
    // Rights of several grants do not add up, as with Ceph.
    no("allow r, allow w", "p//o", "rw");
    no("profile nobody", "p//o", "r");
}

#[test]
fn class_methods_are_called_with_rights_or_by_name() {
    let yes = |caps, object, calls: &[ClassCall]| assert!(osd(caps, object, "", calls), "{caps}");
    let no = |caps, object, calls: &[ClassCall]| assert!(!osd(caps, object, "", calls), "{caps}");
    yes("allow x", "p//o", &[GET, SET]);
    yes("allow *", "p//o", &[SET]);
    no("allow rw", "p//o", &[GET]);
    yes("allow class-read", "p//o", &[GET]);
    no("allow class-read", "p//o", &[SET]);
    no("allow class-write", "p//o", &[SET]);
    yes("allow class rbd", "p//o", &[GET, SET]);
    no("allow class rbd", "p//o", &[LOCK]);
    no("allow class rbd get_size", "p//o", &[SET]);
    yes("allow class rbd get_size, allow class lock", "p//o", &[GET, LOCK]);
}

#[test]
fn profiles_of_rbd_users() {
    let image = "p//rbd_header.1";
    assert!(osd("profile rbd pool=p", image, "rw", &[SET, LOCK]));
    assert!(!osd("profile rbd pool=p", "q//rbd_data.1", "r", &[]));
    assert!(osd("profile rbd pool=p", "q//rbd_children", "", &[GET]));
    assert!(!osd("profile rbd pool=p", "q//rbd_children", "", &[SET]));
    assert!(osd("profile rbd pool=p", "q//rbd_info", "r", &[]));
    assert!(osd("profile rbd pool=p namespace=n", "p//rbd_info", "", &[METADATA]));
    let read_only = "profile rbd-read-only pool=p";
    assert!(osd(read_only, image, "r", &[GET]));
    assert!(osd(read_only, image, "", &[ATTACH]));
    assert!(!osd(read_only, image, "w", &[]), "the header of an image is not a reader's to change");
    assert!(!osd(read_only, image, "", &[SET]) && !osd(read_only, image, "", &[LOCK]));
    assert!(!osd(read_only, "p//rbd_data.1", "", &[ATTACH]));
}

#[test]
fn networks_bound_where_a_grant_is_used() {
    let tags = BTreeMap::new();
    let access = OsdAccess {
        pool_name: "p",
        namespace: b"",
        key: b"o",
        application_metadata: &tags,
        read: true,
        write: false,
        classes: &[],
    };
    let arguments = BTreeMap::new();
    let command = MonAccess {
        entity: "client.a",
        service: "mon",
        command: "status",
        arguments: &arguments,
        read: true,
        write: false,
        execute: false,
    };
    let check = |network: &str, ip: &str, expect: bool| {
        let ip: IpAddr = ip.parse().unwrap();
        let text = format!("allow r network {network}");
        let (osd, mon) = (OsdCaps::parse(&text).unwrap(), MonCaps::parse(&text).unwrap());
        assert!(!osd.allows(&access) && !mon.allows(&command), "nowhere is not everywhere");
        assert_eq!(osd.at(ip).allows(&access), expect, "{network} {ip}");
        assert_eq!(mon.at(ip).allows(&command), expect, "{network} {ip}");
    };
    check("10.0.0.0/8", "10.1.2.3", true);
    check("10.0.0.0/8", "11.1.2.3", false);
    check("10.0.0.0/8", "::1", false);
    check("0.0.0.0/0", "11.1.2.3", true);
    check("10.1.2.3/32", "10.1.2.3", true);
    check("10.1.2.3/32", "10.1.2.2", false);
    check("10.1.2.3", "10.1.2.3", false);
    check("10.0.0.0/33", "10.1.2.3", false);
    check("fd00::/8", "fd12::3", true);
    check("::/0", "fd12::3", true);
    check("fd00::/128", "fd00::1", false);
}

/// `need` has letters of `rwx`; `arguments` are `name=value` between spaces.
fn mon(caps: &str, service: &str, command: &str, need: &str, arguments: &str) -> bool {
    let arguments = arguments.split_whitespace().filter_map(|pair| pair.split_once('='));
    MonCaps::parse(caps).unwrap().allows(&MonAccess {
        entity: "osd.1",
        service,
        command,
        arguments: &arguments.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        read: need.contains('r'),
        write: need.contains('w'),
        execute: need.contains('x'),
    })
}

#[test]
fn commands_need_rights_on_their_service() {
    let yes = |caps, service, need| assert!(mon(caps, service, "some command", need, ""), "{caps}");
    let no = |caps, service, need| assert!(!mon(caps, service, "some command", need, ""), "{caps}");
    yes("allow *", "config-key", "rwx");
    yes("allow r", "mon", "r");
    no("allow r", "osd", "rw");
    no("allow rwx", "config-key", "r");
    yes("allow service osd rw", "osd", "rw");
    no("allow service osd rw", "auth", "r");
    yes("allow r, allow w", "osd", "rw");
    yes("profile osd", "osd", "rwx");
    no("profile osd", "auth", "rx");
    no("profile osd", "mon", "rw");
    yes("profile mgr", "auth", "rwx");
    no("profile crash", "osd", "r");
    no("profile nobody", "mon", "r");
    yes("profile role-definer", "auth", "rwx");
}

#[test]
fn daemons_have_keys_of_their_own() {
    let check = |caps: &str, command: &str, key: &str| {
        let text = format!("key={key}");
        mon(caps, "config-key", command, "rw", &text)
    };
    for profile in ["profile osd", "profile mds", "profile mon"] {
        assert!(check(profile, "config-key put", "daemon-private/osd.1/a"), "{profile}");
        assert!(check(profile, "config-key get", "daemon-private/osd.1/a/b"), "{profile}");
        assert!(!check(profile, "config-key rm", "daemon-private/osd.1/a"), "{profile}");
        for other in ["daemon-private/osd.11/a", "daemon-private/osd.2/a", "daemon-private/osd.1", "mgr/a"] {
            assert!(!check(profile, "config-key get", other), "{profile} {other}");
        }
    }
    assert!(!check("profile rbd", "config-key get", "daemon-private/osd.1/a"));
}

#[test]
fn commands_are_granted_by_name_and_arguments() {
    let check = |caps: &str, arguments: &str| mon(caps, "config-key", "config-key get", "r", arguments);
    assert!(check("allow command 'config-key get'", ""));
    assert!(!check("allow command 'config-key set'", ""));
    let exact = "allow command 'config-key get' with key=a";
    assert!(check(exact, "key=a") && !check(exact, "key=ab") && !check(exact, ""));
    let prefix = "allow command 'config-key get' with key prefix a";
    assert!(check(prefix, "key=ab") && !check(prefix, "key=ba"));
    let regex = |pattern: &str| format!("allow command 'config-key get' with key regex '{pattern}'");
    assert!(check(&regex(".*"), "key=a") && check(&regex("a/[a-c]+|x"), "key=a/b"));
    assert!(
        !check(&regex("a"), "key=ab") && !check(&regex("a|b"), "key=ab") && !check(&regex("a("), "key=a(")
    );

    let fence = |caps: &str, arguments: &str| mon(caps, "osd", "osd blocklist", "rw", arguments);
    assert!(fence("profile rbd", "blocklistop=add addr=10.0.0.1:0/77"));
    assert!(!fence("profile rbd", "blocklistop=rm addr=10.0.0.1:0/77"));
    assert!(!fence("profile rbd", "blocklistop=add addr=10.0.0.1"), "all clients of a machine");
    assert!(!fence("profile rbd", "blocklistop=add addr=10.0.0.1:0/0"), "the same");
    assert!(!fence("profile rbd", "blocklistop=add addr=10.0.0.1:0/"));
    assert!(!fence("profile rbd", "blocklistop=add addr=10.0.0.0/8 range=range"), "a whole network");
    assert!(!fence("profile rbd", "blocklistop=add addr=10.0.0.1:0/77 range=x"));
    assert!(fence("profile rbd-read-only", "blocklistop=add addr=10.0.0.1:0/77"));
    assert!(!mon("profile rbd", "osd", "osd out", "rw", ""));
    let mirror =
        |caps: &str, key: &str| mon(caps, "config-key", "config-key get", "r", &format!("key={key}"));
    assert!(mirror("profile rbd-mirror", "rbd/mirror/peer/1/x"));
    assert!(mirror("profile rbd-mirror-peer", "rbd/mirror/site_name"));
    assert!(!mirror("profile rbd-mirror-peer", "rbd/mirror/peer/1/x"));
    assert!(!mirror("profile rbd", "rbd/mirror/site_name"));
    let set = |caps: &str, key: &str| mon(caps, "config-key", "config-key set", "w", &format!("key={key}"));
    assert!(set("profile rbd-mirror-peer", "rbd/mirror/peer/1/x"));
    assert!(!set("profile rbd-mirror-peer", "rbd/mirror/site_name"));
    assert!(!set("profile rbd-mirror", "rbd/mirror/peer/1/x"));
    let key = |caps: &str, arguments: &str| mon(caps, "auth", "auth get-or-create", "rwx", arguments);
    assert!(!key("profile bootstrap-mgr", "entity=mgr.x caps_mon=allow"));
    assert!(!key("profile bootstrap-mgr", "entity=mgr.x"));
}

#[test]
fn what_is_no_regular_expression_fits_nothing() {
    let may = |pattern: &str, key: &str| {
        let text = format!("allow command \"config-key get\" with key regex \"{pattern}\"");
        MonCaps::parse(&text).unwrap().allows(&MonAccess {
            entity: "client.a",
            service: "config-key",
            command: "config-key get",
            arguments: &BTreeMap::from([("key".to_owned(), key.to_owned())]),
            read: true,
            write: false,
            execute: false,
        })
    };
    assert!(may("a|b", "a") && may("a|b", "b") && !may("a|b", "ab"));
    assert!(!may("a(", "a("));
    // Only inside a group would it be one.
    assert!(!may("a)|(?:b", "a") && !may("a)|(?:b", "ax"));
}

/// Arguments have spaces here.
#[test]
fn a_bootstrap_key_for_images_makes_keys_for_images() {
    let may = |profile: &str, given: [&str; 3]| {
        let names = ["entity", "caps_mon", "caps_osd"].into_iter().zip(given);
        let given = names.filter(|(_, value)| !value.is_empty());
        MonCaps::parse(profile).unwrap().allows(&MonAccess {
            entity: "client.bootstrap-rbd",
            service: "auth",
            command: "auth get-or-create",
            arguments: &given.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            read: true,
            write: true,
            execute: true,
        })
    };
    let rbd = |given| may("allow profile bootstrap-rbd", given);
    for osd in [
        "profile rbd",
        "profile rbd pool=vms",
        "profile rbd pool=vms, profile rbd-read-only pool images",
        "profile='rbd' pool='a b'",
    ] {
        assert!(rbd(["client.x", "profile rbd", osd]), "{osd}");
    }
    for osd in ["profile rbd; allow *", "profile rbd;allow *", "profile rbd pool=x; allow *"] {
        assert!(OsdCaps::parse(osd).is_ok() && !rbd(["client.x", "profile rbd", osd]), "{osd}");
    }
    for osd in ["", "allow *", "profile rbd, allow *", "profile rbd pool=vms allow *", "profile osd"] {
        // A pool's name may have spaces, as Ceph reads it: what follows is no capability.
        let expect = osd == "profile rbd pool=vms allow *";
        assert_eq!(rbd(["client.x", "profile rbd", osd]), expect, "{osd}");
    }
    assert!(!rbd(["osd.1", "profile rbd", "profile rbd"]));
    assert!(!rbd(["client.x", "profile rbd-mirror", "profile rbd"]));
    assert!(!rbd(["client.x", "allow *", "profile rbd"]));
    let mirror = "allow profile bootstrap-rbd-mirror";
    assert!(may(mirror, ["client.rbd-mirror.a", "profile rbd-mirror", "profile rbd"]));
    assert!(!may(mirror, ["client.rbd-mirror.a", "profile rbd", "profile rbd"]));
}

#[test]
fn snapshots_may_be_taken_where_something_may_be_written() {
    let may = |caps: &str, pool: &str| OsdCaps::parse(caps).unwrap().may_snap_in(pool);
    for (caps, images, volumes) in [
        ("allow r", false, false),
        ("allow w", true, true),
        ("allow w pool=images", true, false),
        ("allow w pool=images namespace=foo", true, false),
        ("profile rbd", true, true),
        ("profile rbd namespace=foo", true, true),
        ("allow rw namespace=foo", true, true),
        ("allow rwx object_prefix a", true, true),
        ("allow rwx namespace=foo tag rbd *=*", false, false),
        ("allow rwx pool=images object_prefix a", true, false),
        ("allow rwx tag cephfs data=x", false, false),
        ("profile rbd pool=images namespace=foo", true, false),
        ("profile rbd-read-only", false, false),
        ("allow w network 10.0.0.0/8", false, false),
    ] {
        assert_eq!((may(caps, "images"), may(caps, "volumes")), (images, volumes), "{caps}");
    }
}

/// What a real monitor of 16.2.15 said to each.
#[test]
fn capabilities_of_other_services_read_as_in_ceph() {
    let manager = |text: &str| MgrCaps::check(text).map_err(|error| error.to_string());
    let stopped = |at: &str| Err(format!("capability parse failed, stopped at '{at}'"));
    for good in [
        "allow *",
        "allow r, allow w",
        "allow module x r",
        "allow module x with a=b c prefix d rw",
        "profile rbd pool=a namespace=b",
        "allow service=x rwx network 10.0.0.0/8",
        "allow command x with a=b c=d",
        "allow command \"pg dump\"",
        "allow profile osd",
    ] {
        assert_eq!(manager(good), Ok(()), "{good}");
    }
    for (bad, at) in [
        ("", ""),
        ("allow", "allow"),
        ("bogus", "bogus"),
        ("allow rq", "q"),
        ("allow r allow w", "allow w"),
        ("allow module x a=b rw", "allow module x a=b rw"),
        ("allow module rbd_support with pool=a", "allow module rbd_support with pool=a"),
        ("allow command x a=b", "a=b"),
        ("profile rbd pool a", "pool a"),
    ] {
        assert_eq!(manager(bad), stopped(at), "{bad}");
    }
    assert_eq!(manager("allow r; profile y"), Err("unrecognized profile 'y'".to_owned()));
    let refused = Err("profile 'rbd' does not recognize key 'x'".to_owned());
    assert_eq!(manager("profile rbd pool=a x=y"), refused);

    let metadata = |text: &str| check_mds_caps(text).map_err(|error| error.to_string());
    for good in [
        "allow",
        "allow *",
        "allow all",
        "allow rwp",
        "allow rwps",
        "allow rw fsname=x path=/a",
        "allow rw path=/a uid=1 gids=1,2",
        "allow rw uid=1",
        "allow rw root_squash",
        "allow rw path=\"/a b\"",
        "allow r network 10.0.0.0/8",
        "allow rw, allow rw path=/foo",
    ] {
        assert_eq!(metadata(good), Ok(()), "{good}");
    }
    for (bad, at) in [
        ("", ""),
        ("allow rwpsf", "f"),
        ("allow full", "allow full"),
        ("allow r path=/a fsname=x", "fsname=x"),
        ("allow fsname=x r", "allow fsname=x r"),
        ("profile x", "profile x"),
        ("allow rw, bogus", ", bogus"),
    ] {
        assert_eq!(metadata(bad), stopped(at), "{bad}");
    }
}
