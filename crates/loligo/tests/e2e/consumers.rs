//! The calls of software that builds on Ceph's clients, in its order: Proxmox, OpenStack (Cinder, Glance, Nova),
//! ceph-csi.

use std::time::Duration;

use crate::cluster::Cluster;

/// What Proxmox's GUI and `pveceph` poll, through librados and as JSON.
const PROXMOX_POLLS: &[&str] = &[
    "status",
    "health detail",
    "versions",
    "mon dump",
    "mon metadata",
    "mgr dump",
    "mgr metadata",
    "mds metadata",
    "mds stat",
    "fs ls",
    "fs dump",
    "osd dump",
    "osd metadata",
    "osd tree",
    "osd df tree",
    "osd perf",
    "osd crush tree",
    "osd crush dump",
    "osd crush rule dump",
    "osd pool ls",
    "osd pool ls detail",
    "osd pool get rbd all",
    "osd pool get rbd size",
    "osd pool get-quota rbd",
    "osd pool application get",
    "osd erasure-code-profile ls",
    "osd crush rule ls",
    "osd crush class ls",
    "osd find 0",
    "osd metadata 0",
    "osd ls",
    "osd stat",
    "osd safe-to-destroy 0",
    "osd ok-to-stop 0",
    "osd getmaxosd",
    "quorum_status",
    "mgr module ls",
    "mgr services",
    "mgr versions",
    "device ls",
    "device ls-by-daemon osd.0",
    "log last 5",
    "pg stat",
    "features",
    "config-key ls",
    "auth get client.admin",
    "osd pool stats",
    "osd pool autoscale-status",
    "pg dump",
    "df",
    "df detail",
    "config dump",
    "auth ls",
    "service dump",
    "report",
];

#[test]
fn proxmox_polls_and_keeps_disks() {
    let c = Cluster::start();
    for command in PROXMOX_POLLS {
        c.json(&format!("ceph {command}"));
    }
    // A pool as the wizard makes it, a key for the storage, and a disk's life.
    c.sh("ceph osd pool create vms --pg_num 8 --size 3 --rule replicated_rule");
    c.sh("ceph osd pool application enable vms rbd; ceph osd pool set vms min_size 2");
    c.sh("ceph auth get-or-create client.pve mon 'profile rbd' osd 'profile rbd pool=vms' -o pve.keyring");
    let rbd = "rbd -n client.pve --keyring pve.keyring -p vms";
    c.sh(&format!(
        "{rbd} create --image-format 2 --size 64 vm-100-disk-0; {rbd} resize --size 96 vm-100-disk-0"
    ));
    let list = c.json(&format!("{rbd} ls -l"));
    assert_eq!((&list[0]["image"], &list[0]["size"]), (&"vm-100-disk-0".into(), &(96u64 << 20).into()));
    c.sh(&format!("{rbd} snap create vm-100-disk-0@s; {rbd} snap protect vm-100-disk-0@s"));
    c.sh(&format!(
        "{rbd} clone vms/vm-100-disk-0@s vms/vm-101-disk-0; {rbd} flatten vm-101-disk-0 --no-progress"
    ));
    c.sh(&format!("{rbd} snap unprotect vm-100-disk-0@s; {rbd} snap purge vm-100-disk-0 --no-progress"));
    c.sh(&format!("{rbd} rm vm-100-disk-0 --no-progress; {rbd} rm vm-101-disk-0 --no-progress"));
    for flag in ["noout", "noscrub", "nodeep-scrub"] {
        c.sh(&format!("ceph osd set {flag}; ceph osd unset {flag}"));
    }
    c.sh("ceph osd pool delete vms vms --yes-i-really-really-mean-it; ceph auth del client.pve");
}

#[test]
fn openstack_keeps_images_and_volumes() {
    let c = Cluster::start();
    c.sh("for p in images volumes vms; do ceph osd pool create $p 8; rbd pool init $p; done");
    c.sh("ceph auth get-or-create client.cinder mon 'profile rbd' \
          osd 'profile rbd pool=volumes, profile rbd-read-only pool=images' -o cinder.keyring");
    let cinder = "--id cinder --keyring cinder.keyring";
    // Capacity and quota, as Cinder's driver asks for them; the monitors' addresses for the attachment.
    assert!(c.json(&format!("ceph {cinder} df"))["pools"].is_array());
    assert_eq!(c.json(&format!("ceph {cinder} osd pool get-quota volumes"))["quota_max_bytes"], 0);
    assert!(c.json(&format!("ceph {cinder} mon dump"))["mons"][0]["addr"].is_string());
    // Glance stores an image; Cinder clones it, flattens the copy, and snapshots it.
    c.sh("head -c 8388608 /dev/urandom > image.raw; rbd import image.raw images/i; rbd snap create images/i@snap");
    c.sh("rbd snap protect images/i@snap");
    c.sh(&format!("rbd {cinder} clone images/i@snap volumes/volume-1"));
    assert_eq!(c.json("rbd children images/i@snap")[0]["image"], "volume-1");
    c.sh(&format!("rbd {cinder} flatten volumes/volume-1 --no-progress"));
    c.sh(&format!("rbd {cinder} export volumes/volume-1 - | cmp - image.raw"));
    c.sh(&format!(
        "rbd {cinder} snap create volumes/volume-1@b; rbd {cinder} export-diff volumes/volume-1@b d"
    ));
    c.sh(&format!("rbd {cinder} trash mv volumes/volume-1; rbd {cinder} trash ls volumes"));
    assert_ne!(c.run(&format!("rbd {cinder} rm images/i --no-progress")).code, 0);
    // Nova's instances have their disks from the same image.
    c.sh("ceph auth get-or-create client.nova mon 'profile rbd' \
          osd 'profile rbd pool=vms, profile rbd-read-only pool=images' -o nova.keyring");
    std::fs::write(c.dir().join("nova.py"), include_str!("data/nova.py")).unwrap();
    c.sh("/usr/bin/python3 nova.py");
    c.sh("rbd snap unprotect images/i@snap; rbd snap rm images/i@snap --no-progress; rbd rm images/i --no-progress");
}

/// A command to the manager, as go-ceph sends it.
fn manager(c: &Cluster, json: &str) -> (i32, String) {
    let script = "import rados,sys; c=rados.Rados(conffile='ceph.conf'); c.connect(); \
                  r,o,s=c.mgr_command(sys.argv[1],b''); print(r); print(s); c.shutdown()";
    let out = c.sh(&format!("/usr/bin/python3 -c \"{script}\" '{json}'")).out;
    let (code, text) = out.split_once('\n').expect("two lines");
    (code.parse().expect("a number"), text.to_owned())
}

/// Where the monitor finds no `rbd`, health says so, and the task waits.
fn a_task_waits_for_a_monitor_that_can_run_rbd(c: &mut Cluster, task: &str) {
    c.kill("mon.a");
    c.restart_with("mon.a", Some("/nowhere"));
    assert_eq!(manager(c, task).0, 0);
    c.wait("a warning of the missing rbd", Duration::from_secs(120), |c| {
        let checks = c.json("ceph health detail")["checks"].to_string();
        checks.contains("MGR_MODULE_DEPENDENCY") && checks.contains("cannot run rbd (of ceph-common)")
    });
    assert_ne!(c.json("rbd trash ls rbd"), serde_json::json!([]));
    c.kill("mon.a");
    c.restart("mon.a");
}

#[test]
fn ceph_csi_keeps_its_journal_and_fences_networks() {
    let mut c = Cluster::start();
    // The journal: names by request in one object, facts of each volume in one of its own.
    let id = "0e7a1d2c-9f0b-4a52-8a5e-1f2f3a4b5c6d";
    c.sh(&format!("rados -p rbd setomapval csi.volumes.default csi.volume.pvc-1 {id}"));
    c.sh(&format!("rados -p rbd create csi.volume.{id}"));
    for (key, value) in [("csi.volname", "pvc-1"), ("csi.imagename", "csi-vol-1"), ("csi.imageid", "10")] {
        c.sh(&format!("rados -p rbd setomapval csi.volume.{id} {key} {value}"));
    }
    assert!(c.sh("rados -p rbd getomapval csi.volumes.default csi.volume.pvc-1").out.contains(&id[..8]));
    // The image, its metadata, its limits, its watchers.
    c.sh("rbd create rbd/csi-vol-1 --size 32 --image-feature layering,exclusive-lock,object-map,fast-diff");
    c.sh("rbd image-meta set rbd/csi-vol-1 csi.storage.k8s.io/pv/name pv-1");
    assert_eq!(c.sh("rbd image-meta get rbd/csi-vol-1 csi.storage.k8s.io/pv/name").out.trim(), "pv-1");
    c.sh("rbd config image set rbd/csi-vol-1 rbd_qos_iops_limit 500");
    assert_eq!(c.sh("rbd image-meta get rbd/csi-vol-1 conf_rbd_qos_iops_limit").out.trim(), "500");
    assert_eq!(c.json("rbd status rbd/csi-vol-1")["watchers"], serde_json::json!([]));
    // A clone is made independent and a deleted volume removed by the manager, in the background.
    c.sh("rbd snap create rbd/csi-vol-1@s --no-progress; rbd clone --rbd-default-clone-format 2 rbd/csi-vol-1@s rbd/csi-vol-2");
    let (code, text) = manager(&c, r#"{"prefix":"rbd task add flatten","image_spec":"rbd/csi-vol-2"}"#);
    assert_eq!(code, 0, "{text}");
    c.wait("a flattened clone", Duration::from_secs(120), |c| {
        c.json("rbd info rbd/csi-vol-2").get("parent").is_none()
    });
    c.sh("rbd snap rm rbd/csi-vol-1@s --no-progress; rbd trash mv rbd/csi-vol-1");
    let image = c.json("rbd trash ls rbd")[0]["id"].as_str().unwrap_or_default().to_owned();
    let task = format!(r#"{{"prefix":"rbd task add trash remove","image_id_spec":"rbd/{image}"}}"#);
    a_task_waits_for_a_monitor_that_can_run_rbd(&mut c, &task);
    c.wait("an empty trash", Duration::from_secs(120), |c| {
        c.json("rbd trash ls rbd") == serde_json::json!([])
    });
    let (code, text) = manager(&c, r#"{"prefix":"rbd task add trash remove","image_id_spec":"rbd/nope"}"#);
    assert_eq!((code, &*text), (-2, "[errno 2] RBD image not found (error retrieving image from trash)\n"));
    c.sh("rbd rm rbd/csi-vol-2 --no-progress");
    // NetworkFence: all of a node's addresses at once, in force for every op after the answer.
    c.sh("echo x > x; rados -p rbd put fenced x; ceph osd blocklist range add 127.0.0.1/32 300");
    assert!(c.sh("ceph osd blocklist ls").out.starts_with("cidr:127.0.0.1:0/32 "));
    let fenced = c.run("rados -p rbd put fenced x");
    assert!(fenced.code != 0 && fenced.err.contains("108"), "{}{}", fenced.out, fenced.err);
    assert!(
        c.sh("rados -p rbd ls").out.lines().any(|name| name == "fenced"),
        "a fenced node may list, as in Ceph"
    );
    c.sh("ceph osd blocklist range rm 127.0.0.1/32; rados -p rbd put fenced x");
    // A client that is there already learns of it by an incremental map. It shuts down before it ends: librados'
    // threads would crash now and then if Python ended under them.
    let add = r#"{"prefix":"osd blocklist","range":"range","blocklistop":"add","addr":"127.0.0.0/8"}"#;
    let script = format!(
        "import rados; c=rados.Rados(conffile='ceph.conf'); c.connect(); i=c.open_ioctx('rbd'); \
         i.write_full('fenced',b'x'); r=c.mon_command('{add}',b''); assert r[0]==0,r\n\
         try: i.write_full('fenced',b'y'); print('written')\n\
         except rados.Error as e: print('refused', e.errno)\n\
         i.close(); c.shutdown()"
    );
    std::fs::write(c.dir().join("fence.py"), script).unwrap();
    assert_eq!(c.sh("/usr/bin/python3 fence.py").out, "refused 108\n");
    c.sh("ceph osd blocklist clear; rados -p rbd get fenced - | grep -qx x");
    c.sh(&format!(
        "rados -p rbd rmomapkey csi.volumes.default csi.volume.pvc-1; rados -p rbd rm csi.volume.{id}"
    ));
    c.wait_healthy();
}

#[test]
fn options_reach_running_daemons() {
    let c = Cluster::start();
    c.sh("ceph config set osd osd_memory_target 1G; ceph config set osd.1 osd_memory_target 2G");
    let shows = |osd: u8, value: &str| {
        let wanted = format!("{value}\n");
        c.wait("the option in the OSD", Duration::from_secs(120), |c| {
            c.run(&format!("ceph config show osd.{osd} osd_memory_target")).out == wanted
        });
    };
    shows(0, "1073741824");
    shows(1, "2147483648");
    assert_eq!(c.json("ceph tell osd.0 config get osd_memory_target")["osd_memory_target"], "1073741824");
    let set = c.json("ceph tell osd.0 config set osd_memory_target 3G");
    assert_eq!(set["success"], "osd_memory_target = '3221225472' ");
    c.sh("ceph tell osd.1 injectargs --osd-memory-target 3G");
    shows(1, "3221225472");
    c.sh("ceph tell osd.0 config unset osd_memory_target; ceph config rm osd osd_memory_target");
    shows(0, "4294967296");
    // ceph.conf is stronger than the database.
    c.sh("ceph config set osd keyring x 2> refused || grep -q 'is special' refused");
    assert_eq!(c.run("ceph config set osd osd_memory_target 1").code, 22);
}
