//! `rbd task add …`: what must hold before a task is taken.

use types::Errno;

use super::{
    image::{self, MIGRATION_EXECUTED, MIGRATION_EXECUTING, MIGRATION_PREPARED},
    spec::ImageSpec,
    task::{Action, Refs, Task},
    tasks::Tasks,
};
use crate::manager::objects::{Place, Stop, View};

/// A task that is there, or one to add: where, its message and its subject.
pub(super) enum Wanted {
    Known(Task),
    New(Place, String, Refs),
}

fn not_found(text: String) -> Stop {
    Stop::Refused(Errno::ENOENT, format!("[errno 2] RBD image not found ({text})"))
}

fn invalid(text: String) -> Stop {
    Stop::Refused(Errno::EINVAL, format!("[errno 22] RBD invalid argument ({text})"))
}

/// Checks what a task is to be added for.
pub(super) fn wanted(
    view: View<'_>,
    tasks: &Tasks,
    action: Action,
    spec: &ImageSpec,
) -> Result<Wanted, Stop> {
    let is_trash = action == Action::TrashRemove;
    let mut refs = Refs {
        action,
        pool: spec.pool.clone(),
        nspace: spec.nspace.clone(),
        image_name: (!is_trash).then(|| spec.image.clone()),
        image_id: is_trash.then(|| spec.image.clone()),
    };
    if is_trash && let Some(task) = tasks.find(&refs) {
        return Ok(Wanted::Known(task.clone()));
    }
    let place = spec.place(view.map)?;
    match action {
        Action::Flatten | Action::Remove => refs.image_id = image::id_of(view, &place, &spec.image)?,
        Action::TrashRemove => {
            if !image::is_in_trash(view, &place, &spec.image)? {
                return Err(not_found("error retrieving image from trash".to_owned()));
            }
            return Ok(Wanted::New(place, format!("Removing image {spec} from trash"), refs));
        }
        Action::MigrationExecute | Action::MigrationCommit | Action::MigrationAbort => {
            return migration(view, tasks, place, spec, refs);
        }
    }
    if let Some(task) = tasks.find(&refs) {
        return Ok(Wanted::Known(task.clone()));
    }
    let id = refs.image_id.clone().ok_or_else(|| not_found(format!("Image {spec} does not exist")))?;
    if action == Action::Flatten {
        if !image::has_parent(view, &place, &id)? {
            return Err(not_found(format!("Image {spec} does not have a parent")));
        }
        return Ok(Wanted::New(place, format!("Flattening image {spec}"), refs));
    }
    if image::has_snapshots(view, &place, &id)? {
        let text = format!("[errno 16] RBD image is busy (Image {spec} has snapshots)");
        return Err(Stop::Refused(Errno::EBUSY, text));
    }
    Ok(Wanted::New(place, format!("Removing image {spec}"), refs))
}

fn migration(
    view: View<'_>,
    tasks: &Tasks,
    place: Place,
    spec: &ImageSpec,
    mut refs: Refs,
) -> Result<Wanted, Stop> {
    let migration = image::migration(view, &place, &spec.image)?;
    refs.image_id = migration.as_ref().map(|migration| migration.id.clone());
    if let Some(task) = tasks.find(&refs) {
        return Ok(Wanted::Known(task.clone()));
    }
    let migration = migration.ok_or_else(|| invalid(format!("Image {spec} is not migrating")))?;
    let message = match refs.action {
        Action::MigrationCommit if migration.state != MIGRATION_EXECUTED => {
            return Err(invalid(format!("Image {spec} has not completed migration")));
        }
        Action::MigrationCommit => format!("Committing image migration for {spec}"),
        Action::MigrationAbort => format!("Aborting image migration for {spec}"),
        _ if ![MIGRATION_PREPARED, MIGRATION_EXECUTING].contains(&migration.state) => {
            return Err(invalid(format!("Image {spec} is not in ready state")));
        }
        _ => {
            let (pool, nspace, image) = migration.source;
            let pool = view.map.pool_name(pool).unwrap_or("<unknown>").to_owned();
            format!("Migrating image {} to {spec}", ImageSpec { pool, nspace, image })
        }
    };
    Ok(Wanted::New(place, message, refs))
}
