//! The manager's module `volumes`: there are no file systems to have subvolumes in. Commands answer as those of a Ceph
//! without file systems.

use types::Errno;

use crate::commands::{NO_FILE_SYSTEMS, Reply, Request};

module_rows! {
    "fs clone cancel name=vol_name,type=CephString name=clone_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs clone status name=vol_name,type=CephString name=clone_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume authorize name=vol_name,type=CephString name=sub_name,type=CephString name=auth_id,type=CephString name=group_name,type=CephString,req=false name=access_level,type=CephString,req=false name=tenant_id,type=CephString,req=false name=allow_existing_id,type=CephBool,req=false" "rw" "needs a volume" missing
    "fs subvolume authorized_list name=vol_name,type=CephString name=sub_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume create name=vol_name,type=CephString name=sub_name,type=CephString,goodchars=[A-Za-z0-9-_.] name=size,type=CephInt,req=false name=group_name,type=CephString,req=false name=pool_layout,type=CephString,req=false name=uid,type=CephInt,req=false name=gid,type=CephInt,req=false name=mode,type=CephString,req=false name=namespace_isolated,type=CephBool,req=false" "rw" "needs a volume" missing
    "fs subvolume deauthorize name=vol_name,type=CephString name=sub_name,type=CephString name=auth_id,type=CephString name=group_name,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolume evict name=vol_name,type=CephString name=sub_name,type=CephString name=auth_id,type=CephString name=group_name,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolume exist name=vol_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume getpath name=vol_name,type=CephString name=sub_name,type=CephString name=group_name,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolume info name=vol_name,type=CephString name=sub_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume ls name=vol_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume metadata get name=vol_name,type=CephString name=sub_name,type=CephString name=key_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume metadata ls name=vol_name,type=CephString name=sub_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume metadata rm name=vol_name,type=CephString name=sub_name,type=CephString name=key_name,type=CephString name=group_name,type=CephString,req=false name=force,type=CephBool,req=false" "rw" "needs a volume" missing
    "fs subvolume metadata set name=vol_name,type=CephString name=sub_name,type=CephString name=key_name,type=CephString name=value,type=CephString name=group_name,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolume pin name=vol_name,type=CephString name=sub_name,type=CephString name=pin_type,type=CephChoices,strings=export|distributed|random name=pin_setting,type=CephString,req=true name=group_name,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolume resize name=vol_name,type=CephString name=sub_name,type=CephString name=new_size,type=CephString,req=true name=group_name,type=CephString,req=false name=no_shrink,type=CephBool,req=false" "rw" "needs a volume" missing
    "fs subvolume rm name=vol_name,type=CephString name=sub_name,type=CephString name=group_name,type=CephString,req=false name=force,type=CephBool,req=false name=retain_snapshots,type=CephBool,req=false" "rw" "needs a volume" missing
    "fs subvolume snapshot clone name=vol_name,type=CephString name=sub_name,type=CephString name=snap_name,type=CephString name=target_sub_name,type=CephString name=pool_layout,type=CephString,req=false name=group_name,type=CephString,req=false name=target_group_name,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolume snapshot create name=vol_name,type=CephString name=sub_name,type=CephString name=snap_name,type=CephString name=group_name,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolume snapshot info name=vol_name,type=CephString name=sub_name,type=CephString name=snap_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume snapshot ls name=vol_name,type=CephString name=sub_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume snapshot metadata get name=vol_name,type=CephString name=sub_name,type=CephString name=snap_name,type=CephString name=key_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume snapshot metadata ls name=vol_name,type=CephString name=sub_name,type=CephString name=snap_name,type=CephString name=group_name,type=CephString,req=false" "r" "needs a volume" missing
    "fs subvolume snapshot metadata rm name=vol_name,type=CephString name=sub_name,type=CephString name=snap_name,type=CephString name=key_name,type=CephString name=group_name,type=CephString,req=false name=force,type=CephBool,req=false" "rw" "needs a volume" missing
    "fs subvolume snapshot metadata set name=vol_name,type=CephString name=sub_name,type=CephString name=snap_name,type=CephString name=key_name,type=CephString name=value,type=CephString name=group_name,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolume snapshot protect name=vol_name,type=CephString name=sub_name,type=CephString name=snap_name,type=CephString name=group_name,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolume snapshot rm name=vol_name,type=CephString name=sub_name,type=CephString name=snap_name,type=CephString name=group_name,type=CephString,req=false name=force,type=CephBool,req=false" "rw" "needs a volume" missing
    "fs subvolume snapshot unprotect name=vol_name,type=CephString name=sub_name,type=CephString name=snap_name,type=CephString name=group_name,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolumegroup create name=vol_name,type=CephString name=group_name,type=CephString,goodchars=[A-Za-z0-9-_.] name=size,type=CephInt,req=false name=pool_layout,type=CephString,req=false name=uid,type=CephInt,req=false name=gid,type=CephInt,req=false name=mode,type=CephString,req=false" "rw" "needs a volume" missing
    "fs subvolumegroup exist name=vol_name,type=CephString" "r" "needs a volume" missing
    "fs subvolumegroup getpath name=vol_name,type=CephString name=group_name,type=CephString" "r" "needs a volume" missing
    "fs subvolumegroup info name=vol_name,type=CephString name=group_name,type=CephString" "r" "needs a volume" missing
    "fs subvolumegroup ls name=vol_name,type=CephString" "r" "needs a volume" missing
    "fs subvolumegroup pin name=vol_name,type=CephString name=group_name,type=CephString,req=true name=pin_type,type=CephChoices,strings=export|distributed|random name=pin_setting,type=CephString,req=true" "rw" "needs a volume" missing
    "fs subvolumegroup resize name=vol_name,type=CephString name=group_name,type=CephString name=new_size,type=CephString,req=true name=no_shrink,type=CephBool,req=false" "rw" "needs a volume" missing
    "fs subvolumegroup rm name=vol_name,type=CephString name=group_name,type=CephString name=force,type=CephBool,req=false" "rw" "needs a volume" missing
    "fs subvolumegroup snapshot create name=vol_name,type=CephString name=group_name,type=CephString name=snap_name,type=CephString" "rw" "needs a volume" missing
    "fs subvolumegroup snapshot ls name=vol_name,type=CephString name=group_name,type=CephString" "r" "needs a volume" missing
    "fs subvolumegroup snapshot rm name=vol_name,type=CephString name=group_name,type=CephString name=snap_name,type=CephString name=force,type=CephBool,req=false" "rw" "needs a volume" missing
    "fs volume create name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=placement,type=CephString,req=false" "rw" "Create a volume" create
    "fs volume info name=vol_name,type=CephString name=human_readable,type=CephBool,req=false" "r" "needs a volume" missing
    "fs volume ls" "r" "List volumes" ls
    "fs volume rm name=vol_name,type=CephString name=yes-i-really-mean-it,type=CephString,req=false" "rw" "Remove a volume" rm
}

/// What `fs volume rm` wants to read.
const CONFIRMED: &str = "--yes-i-really-mean-it";

fn name(req: &Request<'_>) -> String {
    req.args.text("vol_name").unwrap_or_default()
}

fn ls(_: &mut Request<'_>) -> Reply {
    Reply::module("[]".to_owned())
}

fn create(_: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::EOPNOTSUPP, NO_FILE_SYSTEMS)
}

fn missing(req: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::ENOENT, format!("FS '{}' not found", name(req)))
}

fn rm(req: &mut Request<'_>) -> Reply {
    let name = name(req);
    if req.args.text("yes-i-really-mean-it").as_deref() != Some(CONFIRMED) {
        let text = format!("this would destroy the filesystem '{name}'; if you mean it, add {CONFIRMED}");
        return Reply::fail(Errno::EPERM, text);
    }
    if !req.mon.options.is_pool_delete_allowed {
        let text =
            "pool deletion is disabled; mon_allow_pool_delete must be true before volumes can be deleted";
        return Reply::fail(Errno::EPERM, text);
    }
    Reply::fail(Errno::ENOENT, format!("volume {name} doesn't exist"))
}
