use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Decode, Encode, Features, Reader};
use types::{EntityAddr, EntityNum, Errno, SnapId, UTime};

use super::types::{Image, MirrorNamespace, Peer, direction, image_state};
use crate::{
    Stop,
    rbd::types::{SnapshotInfo, SnapshotNamespace, namespace},
    registry,
    test_view::TestView,
};

fn bytes<T: Encode>(value: T) -> Bytes {
    value.to_bytes(Features::PACIFIC)
}

fn pool() -> TestView {
    let mut view = TestView::default();
    view.context.origin = EntityNum::client(7);
    view.context.origin_addr = EntityAddr::parse("v2:10.0.0.1:0/5").unwrap();
    view.call("rbd", "mirror_mode_set", bytes(0u32)).expect("what is not there is not mirrored");
    assert_eq!(view.call("rbd", "mirror_mode_set", bytes(2u32)).unwrap_err(), Errno::EINVAL);
    view.call("rbd", "mirror_uuid_set", bytes("here".to_owned())).unwrap();
    view.call("rbd", "mirror_mode_set", bytes(2u32)).unwrap();
    assert_eq!(view.call("rbd", "mirror_uuid_set", bytes("x".to_owned())).unwrap_err(), Errno::EINVAL);
    view
}

fn peer(uuid: &'static str, site: &'static str) -> Peer {
    let (uuid, site_name, client_name) = (uuid.into(), site.into(), "client.m".into());
    Peer { uuid, site_name, client_name, pool_id: -1, direction: direction::RX_TX, ..Peer::default() }
}

fn peers(view: &mut TestView) -> Vec<Peer> {
    Vec::from_bytes(view.call("rbd", "mirror_peer_list", "").unwrap()).unwrap()
}

#[test]
fn a_mode_that_has_to_be_loaded_first_is_not_taken_for_none() {
    let mut view = pool();
    view.is_omap_absent = true;
    let method = registry::find(b"rbd", b"mirror_uuid_set").unwrap();
    assert_eq!((method.run)(&mut view, &bytes("x".to_owned())), Err(Stop::Missing));
    assert_eq!(view.omap.get(&b"mirror_uuid"[..]).map(|uuid| &uuid[..]), Some(&b"here"[..]));
}

#[test]
fn peers_are_one_of_a_kind() {
    let mut view = pool();
    let add = |view: &mut TestView, peer: Peer| view.call("rbd", "mirror_peer_add", bytes(peer)).err();
    assert_eq!(add(&mut view, peer("a", "east")), None);
    assert_eq!(add(&mut view, peer("a", "west")), Some(Errno::ESTALE));
    assert_eq!(add(&mut view, peer("b", "east")), Some(Errno::EEXIST));
    assert_eq!(add(&mut view, peer("here", "west")), Some(Errno::EINVAL));
    assert_eq!(add(&mut view, Peer { client_name: Bytes::new(), ..peer("b", "w") }), Some(Errno::EINVAL));
    let ping = |site: &str, uuid: &str| bytes((site.to_owned(), uuid.to_owned(), direction::TX));
    view.call("rbd", "mirror_peer_ping", ping("east", "u-east")).unwrap();
    assert_eq!(peers(&mut view)[0].mirror_uuid, "u-east");
    view.call("rbd", "mirror_peer_ping", ping("north", "u-north")).unwrap();
    assert_eq!(peers(&mut view).iter().filter(|p| p.direction == direction::TX).count(), 1);
    assert_eq!(view.call("rbd", "mirror_mode_set", bytes(0u32)).unwrap_err(), Errno::EBUSY);
    for peer in peers(&mut view) {
        view.call("rbd", "mirror_peer_remove", bytes(peer.uuid)).unwrap();
        // Observed: without an object, too.
        for method in ["mirror_peer_remove", "mirror_image_map_remove"] {
            TestView::default().call("rbd", method, bytes("x".to_owned())).unwrap();
        }
    }
    view.call("rbd", "mirror_mode_set", bytes(0u32)).unwrap();
    assert_eq!(view.call("rbd", "mirror_uuid_get", "").unwrap_err(), Errno::ENOENT);
}

fn set_image(view: &mut TestView, id: &'static str, global_id: &'static str, state: u8) -> Option<Errno> {
    let image = Image { global_id: global_id.into(), state, mode: 1 };
    view.call("rbd", "mirror_image_set", bytes((id.to_owned(), image))).err()
}

#[test]
fn images_have_one_global_id_each() {
    let mut view = pool();
    assert_eq!(set_image(&mut view, "1", "g1", 0), Some(Errno::ENOENT));
    assert_eq!(set_image(&mut view, "1", "g1", 1), None);
    assert_eq!(set_image(&mut view, "1", "g2", 1), Some(Errno::EINVAL));
    assert_eq!(set_image(&mut view, "2", "g1", 1), Some(Errno::EEXIST));
    let remove = |view: &mut TestView| view.call("rbd", "mirror_image_remove", bytes("1".to_owned())).err();
    assert_eq!(remove(&mut view), Some(Errno::EBUSY));
    assert_eq!(set_image(&mut view, "1", "g1", 0), None);
    assert_eq!(remove(&mut view), None);
    let out = view.call("rbd", "mirror_image_list", bytes((String::new(), 10u64))).unwrap();
    assert!(BTreeMap::<String, String>::from_bytes(out).unwrap().is_empty());
    assert_eq!(view.omap.len(), 2, "mode and uuid: {:?}", view.omap);
}

/// A site's status, version 1 or 2 as the site's id needs it.
fn status(uuid: &str, state: u8) -> Bytes {
    let mut out = Vec::new();
    let version = if uuid.is_empty() { 1 } else { 2 };
    codec::encode_envelope(&mut out, version, version, |out| {
        if version == 2 {
            uuid.to_owned().encode(out, Features::PACIFIC);
        }
        ((state, "well".to_owned()), (UTime::default(), false)).encode(out, Features::PACIFIC);
    });
    Bytes::from(out)
}

fn summary(view: &mut TestView, peers: Vec<Peer>) -> BTreeMap<u8, i32> {
    let out = view.call("rbd", "mirror_image_status_get_summary", bytes(peers)).unwrap();
    BTreeMap::from_bytes(out).unwrap()
}

#[test]
fn a_status_is_up_while_its_reporter_watches() {
    let mut view = pool();
    set_image(&mut view, "1", "g1", 1);
    let set = |view: &mut TestView, uuid: &str, state: u8| {
        let input = [bytes("g1".to_owned()), status(uuid, state)].concat();
        view.call("rbd", "mirror_image_status_set", input).unwrap();
    };
    set(&mut view, "", 4);
    assert_eq!(summary(&mut view, vec![]), BTreeMap::from([(0, 1)]));
    let addr = EntityAddr::parse("v1:10.0.0.1:0/5").unwrap();
    view.watchers.push((EntityNum::client(7), addr));
    assert_eq!(summary(&mut view, vec![]), BTreeMap::from([(4, 1)]));
    let tx = Peer { direction: direction::TX, mirror_uuid: "u".into(), ..peer("p", "s") };
    assert_eq!(summary(&mut view, vec![tx.clone()]), BTreeMap::from([(0, 1)]), "the peer said nothing");
    set(&mut view, "u", 3);
    assert_eq!(summary(&mut view, vec![tx]), BTreeMap::from([(3, 1)]));
    let out = view.call("rbd", "mirror_image_instance_get", bytes("g1".to_owned())).unwrap();
    assert_eq!(<(EntityNum, EntityAddr)>::from_bytes(out).unwrap().0, EntityNum::client(7));
    view.call("rbd", "mirror_image_status_remove_down", "").unwrap();
    assert!(view.call("rbd", "mirror_image_status_get", bytes("g1".to_owned())).is_ok());
    view.watchers.clear();
    assert_eq!(
        view.call("rbd", "mirror_image_instance_get", bytes("g1".to_owned())).unwrap_err(),
        Errno::ESTALE
    );
    view.call("rbd", "mirror_image_status_remove_down", "").unwrap();
    let gone = view.call("rbd", "mirror_image_status_get", bytes("g1".to_owned()));
    assert_eq!(gone.unwrap_err(), Errno::ENOENT);
}

/// An object may have thousands of them.
#[test]
fn watchers_are_looked_at_once_for_all_images() {
    let mut view = pool();
    view.watchers.push((EntityNum::client(7), view.context.origin_addr));
    for (id, global_id) in [("1", "g1"), ("2", "g2"), ("3", "g3")] {
        set_image(&mut view, id, global_id, image_state::ENABLED);
        let input = [bytes(global_id.to_owned()), status("", 4)].concat();
        view.call("rbd", "mirror_image_status_set", input).unwrap();
    }
    let out = view.call("rbd", "mirror_image_instance_list", bytes((String::new(), 9u64))).unwrap();
    assert_eq!(BTreeMap::<String, (EntityNum, EntityAddr)>::from_bytes(out).unwrap().len(), 3);
    assert_eq!(view.watcher_lists.get(), 1);
}

#[test]
fn mirror_snapshots_are_unlinked_peer_by_peer() {
    let mut view = TestView::default();
    view.call("rbd", "create", bytes(((1u64 << 20, 22u8), (1u64, "rbd_data.1".to_owned())))).unwrap();
    let fields = MirrorNamespace {
        state: 2,
        is_complete: false,
        mirror_peer_uuids: BTreeSet::from(["p".into(), "q".into()]),
        primary_mirror_uuid: "u".into(),
        primary_snap_id: SnapId(3),
        last_copied_object_number: 0,
        snap_seqs: BTreeMap::new(),
    };
    let kind = namespace::MIRROR;
    for id in [1, 2] {
        let namespace = SnapshotNamespace { kind, fields: fields.to_bytes(Features::PACIFIC) };
        view.call("rbd", "snapshot_add", bytes((format!("s{id}"), SnapId(id), namespace))).unwrap();
    }
    view.call("rbd", "mirror_image_snapshot_set_copy_progress", bytes((SnapId(1), true, 9u64))).unwrap();
    let unlink = |view: &mut TestView, id, peer: &str| {
        view.call("rbd", "mirror_image_snapshot_unlink_peer", bytes((SnapId(id), peer.to_owned()))).err()
    };
    assert_eq!(unlink(&mut view, 1, "x"), Some(Errno::ENOENT));
    assert_eq!(unlink(&mut view, 1, "p"), None);
    assert_eq!((unlink(&mut view, 1, "q"), unlink(&mut view, 1, "q")), (None, Some(Errno::ENOENT)));
    let info = SnapshotInfo::from_bytes(view.call("rbd", "snapshot_get", bytes(SnapId(1))).unwrap()).unwrap();
    let fields = MirrorNamespace::from_bytes(info.namespace.fields).unwrap();
    assert_eq!((fields.is_complete, fields.last_copied_object_number), (true, 9));
}

#[test]
fn an_object_that_is_not_there_has_no_statuses_to_remove() {
    let mut view = TestView::default();
    view.call("rbd", "mirror_image_status_remove", bytes("g1".to_owned())).unwrap();
    assert!(!view.exists);
}

#[test]
fn the_remote_namespace_is_fixed_while_a_pool_mirrors() {
    let mut view = TestView { exists: true, ..TestView::default() };
    let text = |text: &str| bytes(text.to_owned());
    assert_eq!(view.call("rbd", "mirror_remote_namespace_get", "").unwrap_err(), Errno::ENOENT);
    view.call("rbd", "mirror_remote_namespace_set", text("ns1")).unwrap();
    view.call("rbd", "mirror_uuid_set", text("uuid")).unwrap();
    // A pool that is but prepared for mirroring, since 20.2.
    view.call("rbd", "mirror_mode_set", bytes(3u32)).unwrap();
    view.call("rbd", "mirror_remote_namespace_set", text("ns2")).unwrap();
    assert_eq!(view.call("rbd", "mirror_mode_set", bytes(4u32)).unwrap_err(), Errno::EINVAL);
    view.call("rbd", "mirror_mode_set", bytes(1u32)).unwrap();
    let again = view.call("rbd", "mirror_remote_namespace_set", text("ns3"));
    assert_eq!(again.unwrap_err(), Errno::EINVAL);
    assert_eq!(view.call("rbd", "mirror_remote_namespace_get", "").unwrap(), text("ns2"));
    view.call("rbd", "mirror_mode_set", bytes(0u32)).unwrap();
    assert_eq!(view.call("rbd", "mirror_remote_namespace_get", "").unwrap_err(), Errno::ENOENT);
}

/// Otherwise a method would run again for each part that is not in memory, over all the parts before it.
#[test]
fn what_is_said_of_many_images_is_brought_before_it_is_looked_at() {
    let mut view = pool();
    for at in 0..65u32 {
        let image = Image { global_id: format!("g{at}").into(), state: image_state::ENABLED, mode: 0 };
        view.call("rbd", "mirror_image_set", bytes((format!("i{at}"), image))).unwrap();
    }
    let brought = |view: &mut TestView, name: &str, input: Bytes| {
        (view.is_omap_absent, view.brought) = (true, Vec::new());
        let method = registry::find(b"rbd", name.as_bytes()).unwrap();
        let mut brought = BTreeSet::new();
        loop {
            view.omap_reads = 0;
            let result = (method.run)(view, &input);
            brought.extend(view.brought.iter().cloned());
            if result != Err(Stop::Missing) {
                (view.is_omap_absent, view.brought) = (false, Vec::new());
                return result.map(|_| brought.into_iter().collect::<Vec<_>>()).unwrap();
            }
            assert_eq!(view.omap_reads, 0, "{name} has looked at something in vain");
        }
    };
    let (images, own, others) = ("image_", "status_global_", "remote_status_global_");
    let list = |count: u64| bytes((String::new(), count));
    let summary = "mirror_image_status_get_summary";
    assert_eq!(brought(&mut view, "mirror_image_status_list", list(1_025)), [images, others, own]);
    assert_eq!(brought(&mut view, "mirror_image_status_remove_down", Bytes::new()), [others, own]);
    assert_eq!(brought(&mut view, summary, Bytes::new()), [images, others, own]);
    assert_eq!(brought(&mut view, "mirror_image_instance_list", list(1)), [images, own]);
    assert_eq!(brought(&mut view, "mirror_image_list", list(1_025)), [images]);
    view.call("rbd", "mirror_image_list", list(1_024)).unwrap();
    assert_eq!(view.brought, [""; 0], "a short list is looked for");
    view.call("rbd", "mirror_image_status_list", list(1_024)).unwrap();
    assert_eq!(view.brought.len(), 65);
    assert!(!view.brought.contains(&others.into()), "others may have very many");
}

#[test]
fn a_status_that_does_not_decode_is_left_out_of_the_list() {
    let mut view = pool();
    for (id, global_id) in [("1", "g1"), ("2", "g2")] {
        assert_eq!(set_image(&mut view, id, global_id, image_state::ENABLED), None);
        view.call("rbd", "mirror_image_status_set", [bytes(global_id.to_owned()), status("", 4)].concat())
            .unwrap();
    }
    let list = |view: &mut TestView| {
        let out = view.call("rbd", "mirror_image_status_list", bytes((String::new(), 9u64))).unwrap();
        let mut reader = Reader::new(out);
        let images = BTreeMap::<Bytes, Image>::decode(&mut reader).unwrap();
        (images.len(), u32::decode(&mut reader).unwrap())
    };
    assert_eq!(list(&mut view), (2, 2));
    view.omap.insert("status_global_g1".into(), "?".into());
    assert_eq!(list(&mut view), (2, 1));
    let summary = view.call("rbd", "mirror_image_status_get_summary", "");
    assert_eq!(summary.unwrap_err(), Errno::EIO);
}
