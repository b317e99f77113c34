//! The `rbd` class: everything of an image but its data objects.
//!
//! Authority: `cls/rbd/cls_rbd.cc` of Ceph 16.2 to 20.2. Methods are grouped by the object that they work on;
//! inputs and outputs are Ceph's bytes. Of what they keep in omap, keys are Ceph's, and values but for those of
//! snapshots and parents in image headers.

mod bit_blocks;
mod bit_vector;
mod children;
mod copyup;
mod directory;
mod group;
mod header;
mod migration;
mod mirror;
mod object_map;
mod old_format;
mod parent;
mod snapshot;
mod striping;
mod trash;
mod types;

use mirror::{images, instances, peers, snapshots, status};

use crate::{
    Method,
    method::{self, row},
};

const RD: u8 = method::RD;
const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("rbd", "create", RW, header::create),
    row("rbd", "get_features", RD, header::get_features),
    row("rbd", "set_features", RW, header::set_features),
    row("rbd", "get_size", RD, header::get_size),
    row("rbd", "set_size", RW, header::set_size),
    row("rbd", "get_object_prefix", RD, header::get_object_prefix),
    row("rbd", "get_data_pool", RD, header::get_data_pool),
    row("rbd", "get_all_features", RD, header::get_all_features),
    row("rbd", "get_create_timestamp", RD, header::get_create_timestamp),
    row("rbd", "get_access_timestamp", RD, header::get_access_timestamp),
    row("rbd", "get_modify_timestamp", RD, header::get_modify_timestamp),
    row("rbd", "set_access_timestamp", RW, header::set_access_timestamp),
    row("rbd", "set_modify_timestamp", RW, header::set_modify_timestamp),
    row("rbd", "get_flags", RD, header::get_flags),
    row("rbd", "set_flags", RW, header::set_flags),
    row("rbd", "op_features_get", RD, header::op_features_get),
    row("rbd", "op_features_set", RW, header::op_features_set),
    row("rbd", "metadata_list", RD, header::metadata_list),
    row("rbd", "metadata_set", RW, header::metadata_set),
    row("rbd", "metadata_remove", RW, header::metadata_remove),
    row("rbd", "metadata_get", RD, header::metadata_get),
    row("rbd", "get_stripe_unit_count", RD, striping::get_stripe_unit_count),
    row("rbd", "set_stripe_unit_count", RW, striping::set_stripe_unit_count),
    row("rbd", "get_snapcontext", RD, snapshot::get_snapcontext),
    row("rbd", "get_snapshot_name", RD, snapshot::get_snapshot_name),
    row("rbd", "get_snapshot_timestamp", RD, snapshot::get_snapshot_timestamp),
    row("rbd", "snapshot_get", RD, snapshot::snapshot_get),
    row("rbd", "snapshot_add", RW, snapshot::snapshot_add),
    row("rbd", "snapshot_remove", RW, snapshot::snapshot_remove),
    row("rbd", "snapshot_rename", RW, snapshot::snapshot_rename),
    row("rbd", "snapshot_trash_add", RW, snapshot::snapshot_trash_add),
    row("rbd", "snapshot_get_limit", RD, snapshot::snapshot_get_limit),
    row("rbd", "snapshot_set_limit", RW, snapshot::snapshot_set_limit),
    row("rbd", "get_protection_status", RD, snapshot::get_protection_status),
    row("rbd", "set_protection_status", RW, snapshot::set_protection_status),
    row("rbd", "get_parent", RD, parent::get_parent),
    row("rbd", "set_parent", RW, parent::set_parent),
    row("rbd", "remove_parent", RW, parent::remove_parent),
    row("rbd", "parent_get", RD, parent::parent_get),
    row("rbd", "parent_overlap_get", RD, parent::parent_overlap_get),
    row("rbd", "parent_attach", RW, parent::parent_attach),
    row("rbd", "parent_detach", RW, parent::parent_detach),
    row("rbd", "add_child", RW, children::add_child),
    row("rbd", "remove_child", RW, children::remove_child),
    row("rbd", "get_children", RD, children::get_children),
    row("rbd", "child_attach", RW, children::child_attach),
    row("rbd", "child_detach", RW, children::child_detach),
    row("rbd", "children_list", RD, children::children_list),
    row("rbd", "migration_set", RW, migration::migration_set),
    row("rbd", "migration_set_state", RW, migration::migration_set_state),
    row("rbd", "migration_get", RD, migration::migration_get),
    row("rbd", "migration_remove", RW, migration::migration_remove),
    row("rbd", "assert_snapc_seq", RW, copyup::assert_snapc_seq),
    row("rbd", "copyup", RW, copyup::copyup),
    row("rbd", "sparse_copyup", RW, copyup::sparse_copyup),
    row("rbd", "sparsify", RW, copyup::sparsify),
    row("rbd", "get_id", RD, directory::get_id),
    row("rbd", "set_id", RW, directory::set_id),
    row("rbd", "dir_get_id", RD, directory::dir_get_id),
    row("rbd", "dir_get_name", RD, directory::dir_get_name),
    row("rbd", "dir_list", RD, directory::dir_list),
    row("rbd", "dir_add_image", RW, directory::dir_add_image),
    row("rbd", "dir_remove_image", RW, directory::dir_remove_image),
    row("rbd", "dir_rename_image", RW, directory::dir_rename_image),
    row("rbd", "dir_state_assert", RD, directory::dir_state_assert),
    row("rbd", "dir_state_set", RW, directory::dir_state_set),
    row("rbd", "object_map_load", RD, object_map::object_map_load),
    row("rbd", "object_map_save", RW, object_map::object_map_save),
    row("rbd", "object_map_resize", RW, object_map::object_map_resize),
    row("rbd", "object_map_update", RW, object_map::object_map_update),
    row("rbd", "object_map_snap_add", RW, object_map::object_map_snap_add),
    row("rbd", "object_map_snap_remove", RW, object_map::object_map_snap_remove),
    row("rbd", "snap_list", RD, old_format::snap_list),
    row("rbd", "snap_add", RW, old_format::snap_add),
    row("rbd", "snap_remove", RW, old_format::snap_remove),
    row("rbd", "snap_rename", RW, old_format::snap_rename),
    row("rbd", "mirror_uuid_get", RD, mirror::mirror_uuid_get),
    row("rbd", "mirror_uuid_set", RW, mirror::mirror_uuid_set),
    row("rbd", "mirror_mode_get", RD, mirror::mirror_mode_get),
    row("rbd", "mirror_mode_set", RW, mirror::mirror_mode_set),
    row("rbd", "mirror_remote_namespace_get", RD, mirror::mirror_remote_namespace_get),
    row("rbd", "mirror_remote_namespace_set", RW, mirror::mirror_remote_namespace_set),
    row("rbd", "mirror_peer_ping", RW, peers::mirror_peer_ping),
    row("rbd", "mirror_peer_list", RD, peers::mirror_peer_list),
    row("rbd", "mirror_peer_add", RW, peers::mirror_peer_add),
    row("rbd", "mirror_peer_remove", RW, peers::mirror_peer_remove),
    row("rbd", "mirror_peer_set_client", RW, peers::mirror_peer_set_client),
    row("rbd", "mirror_peer_set_cluster", RW, peers::mirror_peer_set_cluster),
    row("rbd", "mirror_peer_set_direction", RW, peers::mirror_peer_set_direction),
    row("rbd", "mirror_image_list", RD, images::mirror_image_list),
    row("rbd", "mirror_image_get_image_id", RD, images::mirror_image_get_image_id),
    row("rbd", "mirror_image_get", RD, images::mirror_image_get),
    row("rbd", "mirror_image_set", RW, images::mirror_image_set),
    row("rbd", "mirror_image_remove", RW, images::mirror_image_remove),
    row("rbd", "mirror_image_status_set", RW | method::PROMOTE, status::mirror_image_status_set),
    row("rbd", "mirror_image_status_remove", RW, status::mirror_image_status_remove),
    row("rbd", "mirror_image_status_get", RD, status::mirror_image_status_get),
    row("rbd", "mirror_image_status_list", RD, status::mirror_image_status_list),
    row("rbd", "mirror_image_status_get_summary", RD, status::mirror_image_status_get_summary),
    row("rbd", "mirror_image_status_remove_down", RW, status::mirror_image_status_remove_down),
    row("rbd", "mirror_image_instance_get", RD, status::mirror_image_instance_get),
    row("rbd", "mirror_image_instance_list", RD, status::mirror_image_instance_list),
    row("rbd", "mirror_instances_list", RD, instances::mirror_instances_list),
    row("rbd", "mirror_instances_add", RW | method::PROMOTE, instances::mirror_instances_add),
    row("rbd", "mirror_instances_remove", RW, instances::mirror_instances_remove),
    row("rbd", "mirror_image_map_list", RD, instances::mirror_image_map_list),
    row("rbd", "mirror_image_map_update", method::WR, instances::mirror_image_map_update),
    row("rbd", "mirror_image_map_remove", method::WR, instances::mirror_image_map_remove),
    row("rbd", "mirror_image_snapshot_unlink_peer", RW, snapshots::mirror_image_snapshot_unlink_peer),
    row(
        "rbd",
        "mirror_image_snapshot_set_copy_progress",
        RW,
        snapshots::mirror_image_snapshot_set_copy_progress,
    ),
    row("rbd", "group_dir_list", RD, group::group_dir_list),
    row("rbd", "group_dir_add", RW, group::group_dir_add),
    row("rbd", "group_dir_remove", RW, group::group_dir_remove),
    row("rbd", "group_dir_rename", RW, group::group_dir_rename),
    row("rbd", "group_image_set", RW, group::group_image_set),
    row("rbd", "group_image_remove", RW, group::group_image_remove),
    row("rbd", "group_image_list", RD, group::group_image_list),
    row("rbd", "image_group_add", RW, group::image_group_add),
    row("rbd", "image_group_remove", RW, group::image_group_remove),
    row("rbd", "image_group_get", RD, group::image_group_get),
    row("rbd", "group_snap_set", RW, group::group_snap_set),
    row("rbd", "group_snap_remove", RW, group::group_snap_remove),
    row("rbd", "group_snap_get_by_id", RD, group::group_snap_get_by_id),
    row("rbd", "group_snap_list", RD, group::group_snap_list),
    row("rbd", "group_snap_list_order", RD, group::group_snap_list_order),
    row("rbd", "trash_add", RW, trash::trash_add),
    row("rbd", "trash_remove", RW, trash::trash_remove),
    row("rbd", "trash_list", RD, trash::trash_list),
    row("rbd", "trash_get", RD, trash::trash_get),
    row("rbd", "trash_state_set", RW, trash::trash_state_set),
    row("rbd", "namespace_add", RW, directory::namespace_add),
    row("rbd", "namespace_remove", RW, directory::namespace_remove),
    row("rbd", "namespace_list", RD, directory::namespace_list),
];

#[cfg(test)]
mod tests;
