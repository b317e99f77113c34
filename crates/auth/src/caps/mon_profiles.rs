//! The named sets of capabilities on monitors (`MonCapGrant::expand_profile_mon`).

use super::{
    constraint::Constraint,
    grammar::right::{R, RWX, W},
    mon::Target,
};

fn on(service: &str, rights: u8) -> (Target, u8) {
    (Target::Service(service.to_owned()), rights)
}

fn command(command: &str, with: &[(&str, Constraint)]) -> (Target, u8) {
    let with = with.iter().map(|(name, constraint)| ((*name).to_owned(), constraint.clone())).collect();
    (Target::Command(command.to_owned(), with), RWX)
}

fn equal(value: &str) -> Constraint {
    Constraint::Equal(value.to_owned())
}

fn prefix(value: &str) -> Constraint {
    Constraint::Prefix(value.to_owned())
}

fn reads(services: &[&str]) -> Vec<(Target, u8)> {
    services.iter().map(|service| on(service, R)).collect()
}

/// Fencing of a dead client whose exclusive lock is taken over; the command by both of its names. Ceph's profile also
/// lets a client fence whole networks, and all clients of a machine by the nonce 0: no client of images needs to.
fn fencing() -> [(Target, u8); 2] {
    [("osd blocklist", "blocklistop"), ("osd blacklist", "blacklistop")].map(|(name, op)| {
        let one = [(op, equal("add")), ("addr", Constraint::Incarnation), ("range", Constraint::Absent)];
        command(name, &one)
    })
}

/// The secrets that a daemon keeps in the monitors for itself. (Ceph also names `config-key delete`, a command that
/// there is not.)
fn own_keys() -> impl Iterator<Item = (Target, u8)> {
    let commands = ["config-key get", "config-key put", "config-key set", "config-key exists"];
    commands.into_iter().map(|command| (Target::OwnKeys(command), RWX))
}

/// Capabilities on OSDs of clients of images: one of their profiles or several, each perhaps for one pool. Ceph's
/// pattern lets a name go on behind a semicolon, where the next grant begins.
const RBD_PROFILES: &str =
    r#"([ ,]*profile(=|[ ]+)['"]?rbd[^ ,;'"]*['"]?([ ]+pool(=|[ ]+)['"]?[^,;'"]+['"]?)?)+"#;

/// A new key for a client of images, or for a daemon that mirrors them.
fn bootstrap_rbd(profile: &str) -> Vec<(Target, u8)> {
    let osd = Constraint::Regex(RBD_PROFILES.to_owned());
    let with = [("entity", prefix("client.")), ("caps_mon", equal(profile)), ("caps_osd", osd)];
    reads(&["mon"]).into_iter().chain([command("auth get-or-create", &with)]).collect()
}

/// A new key for a daemon of one kind, with these capabilities. As in Ceph, those on other services are not looked at,
/// and an entity that exists with these capabilities is shown with its key: a deployment that is run again gets the
/// same key, and the caller may give a new key as much.
fn bootstrap(entity: &str, caps: &[(&str, &str)]) -> Vec<(Target, u8)> {
    let caps = caps.iter().map(|(name, text)| (*name, equal(text)));
    let with: Vec<_> = [("entity", prefix(entity))].into_iter().chain(caps).collect();
    let commands = [command("mon getmap", &[]), command("auth get-or-create", &with)];
    reads(&["mon", "osd"]).into_iter().chain(commands).collect()
}

/// What a profile grants; nothing, if there is none of that name.
pub(super) fn profile_grants(name: &str) -> Vec<(Target, u8)> {
    let mut grants = shared_grants(name);
    if matches!(name, "osd" | "mds" | "mon" | "mgr") {
        grants.extend(own_keys());
    }
    grants
}

/// What a profile grants to any entity that has it.
fn shared_grants(name: &str) -> Vec<(Target, u8)> {
    let rw = R | W;
    match name {
        "read-only" => vec![(Target::All, R)],
        "read-write" => vec![(Target::All, rw)],
        "mon" => vec![on("mon", RWX), on("log", RWX)],
        "osd" => vec![on("osd", RWX), on("mon", R), on("pg", rw), on("log", W)],
        "mds" => {
            let fence = command("osd blocklist", &[]);
            let rmsnap = command("osd pool rmsnap", &[]);
            vec![on("mds", RWX), on("mon", R), on("osd", R), rmsnap, fence, on("log", W)]
        }
        "mgr" => vec![
            on("mgr", RWX),
            on("log", rw),
            on("mon", rw),
            on("mds", rw),
            on("fs", rw),
            on("osd", rw),
            on("auth", RWX),
            on("config-key", rw),
            on("config", rw),
        ],
        "bootstrap-osd" => {
            let commands = ["mon getmap", "osd new", "osd purge-new"].map(|name| command(name, &[]));
            reads(&["mon", "osd"]).into_iter().chain(commands).collect()
        }
        "bootstrap-mds" => bootstrap(
            "mds.",
            &[("caps_mon", "allow profile mds"), ("caps_osd", "allow rwx"), ("caps_mds", "allow")],
        ),
        "bootstrap-mgr" => bootstrap("mgr.", &[("caps_mon", "allow profile mgr")]),
        "bootstrap-rgw" => bootstrap("client.rgw.", &[("caps_mon", "allow rw"), ("caps_osd", "allow rwx")]),
        "bootstrap-rbd" => bootstrap_rbd("profile rbd"),
        "bootstrap-rbd-mirror" => bootstrap_rbd("profile rbd-mirror"),
        "fs-client" => reads(&["mon", "mds", "osd", "pg"]),
        "simple-rados-client" => reads(&["mon", "osd", "pg"]),
        "simple-rados-client-with-blocklist" | "rbd" | "rbd-read-only" => {
            reads(&["mon", "osd", "pg"]).into_iter().chain(fencing()).collect()
        }
        "rbd-mirror" => {
            let peers = command("config-key get", &[("key", prefix("rbd/mirror/"))]);
            shared_grants("rbd").into_iter().chain([peers]).collect()
        }
        // What the other cluster's daemon may know: this site's name, but no keys of peers, which it may leave.
        "rbd-mirror-peer" => {
            let site = command("config-key get", &[("key", Constraint::Child("rbd/mirror/".to_owned()))]);
            let peers = command("config-key set", &[("key", prefix("rbd/mirror/peer/"))]);
            shared_grants("rbd").into_iter().chain([site, peers]).collect()
        }
        "crash" => reads(&["mon"]),
        "role-definer" => vec![on("mon", R), on("auth", RWX)],
        _ => Vec::new(),
    }
}
