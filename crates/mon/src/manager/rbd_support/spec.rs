//! What commands name: images (`pool/namespace/image`) and levels of schedules (everything, a pool, a namespace,
//! an image).

use std::collections::BTreeSet;

use types::{Errno, OsdMap, PoolId};

use super::image;
use crate::manager::objects::{Place, Stop, View};

/// `rbd_default_pool`.
const DEFAULT_POOL: &str = "rbd";

fn invalid(text: String) -> Stop {
    Stop::Refused(Errno::EINVAL, text)
}

/// True for a name or an id that `rbd` takes as a whole: not for an option, for the end of a pool's or a namespace's
/// name, or for the start of a snapshot's.
pub(super) fn is_plain(name: &str) -> bool {
    let is_special = |c: char| matches!(c, '/' | '@') || c.is_control();
    !name.is_empty() && !name.starts_with('-') && !name.contains(is_special)
}

/// A pool, a namespace and the name or the id of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageSpec {
    pub(super) pool: String,
    pub(super) nspace: String,
    pub(super) image: String,
}

impl ImageSpec {
    /// Reads `image`, `pool/image` or `pool/namespace/image`.
    pub(super) fn parse(text: &str) -> Result<ImageSpec, Stop> {
        let parts: Vec<&str> = text.split('/').collect();
        let (pool, nspace, image) = match parts[..] {
            [image] => (DEFAULT_POOL, "", image),
            [pool, image] => (pool, "", image),
            [pool, nspace, image] if !nspace.is_empty() => (pool, nspace, image),
            _ => ("", "", ""),
        };
        if pool.is_empty() || !is_plain(image) || !(nspace.is_empty() || is_plain(nspace)) {
            return Err(invalid(format!("Invalid image spec: {text}")));
        }
        let (pool, nspace, image) = (pool.to_owned(), nspace.to_owned(), image.to_owned());
        Ok(ImageSpec { pool, nspace, image })
    }

    /// Where it is.
    pub(super) fn place(&self, map: &OsdMap) -> Result<Place, Stop> {
        match map.pool_by_name(&self.pool) {
            Some((id, _)) => Ok(Place::new(id, &self.nspace)),
            None => {
                let text = format!("[errno 2] RADOS object not found (error opening pool '{}')", self.pool);
                Err(Stop::Refused(Errno::ENOENT, text))
            }
        }
    }
}

impl std::fmt::Display for ImageSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/", self.pool)?;
        if !self.nspace.is_empty() {
            write!(f, "{}/", self.nspace)?;
        }
        f.write_str(&self.image)
    }
}

/// What a schedule is for: from everything down to one image.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level {
    pub(super) pool: Option<PoolId>,
    pub(super) nspace: Option<String>,
    /// The image's id.
    pub(super) image: Option<String>,
}

impl Level {
    /// The key under which its schedule is kept: ``, `2`, `2/namespace`, `2/namespace/id`.
    pub(super) fn id(&self) -> String {
        let pool = self.pool.map(|pool| pool.0.to_string()).unwrap_or_default();
        let parts = [Some(pool), self.nspace.clone(), self.image.clone()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("/")
    }

    /// The pool in the key of a kept schedule, if the key begins with one.
    pub(super) fn pool_of(id: &str) -> Option<PoolId> {
        id.split('/').next().and_then(|pool| pool.parse().ok()).map(PoolId)
    }

    /// The levels that `self` lies in, itself first.
    fn ancestors(&self) -> impl Iterator<Item = Level> {
        let Level { pool, nspace, image } = self.clone();
        let namespace = Level { pool, nspace: nspace.clone(), image: None };
        let whole_pool = Level { pool, ..Level::default() };
        let own = image.is_some().then(|| self.clone());
        let namespace = nspace.is_some().then_some(namespace);
        [own, namespace, pool.map(|_| whole_pool), Some(Level::default())].into_iter().flatten()
    }

    /// True for `other` itself and all that lies in it.
    pub(super) fn is_in(&self, other: &Level) -> bool {
        self.ancestors().any(|level| level == *other)
    }

    /// The nearest level that `is_there`, itself first.
    pub(super) fn nearest(&self, is_there: impl Fn(&Level) -> bool) -> Option<Level> {
        self.ancestors().find(is_there)
    }
}

/// A level with its name, as commands name it: ``, `pool/`, `pool/namespace/`, `pool/image`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedLevel {
    pub(super) level: Level,
    pub(super) name: String,
}

/// Which levels a kind of schedule has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Levels {
    /// Pools and their namespaces.
    Namespaces,
    /// Images that are mirrored by snapshots, too.
    MirroredImages,
}

/// A level as commands name it, before anything is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelSpec<'a> {
    text: &'a str,
    /// None for everything.
    pub(super) pool: Option<&'a str>,
    /// None for a whole pool; empty for the namespace without a name.
    pub(super) nspace: Option<&'a str>,
    image: Option<&'a str>,
}

impl<'a> LevelSpec<'a> {
    /// Reads a name of one of `levels`.
    pub(super) fn parse(text: &'a str, levels: Levels) -> Result<LevelSpec<'a>, Stop> {
        let refused = |why: String| invalid(format!("Invalid level spec {text}: {why}"));
        let unparsed = || refused(format!("failed to parse {text}"));
        if text.is_empty() {
            return Ok(LevelSpec { text, pool: None, nspace: None, image: None });
        }
        let (pool, rest) = text.split_once('/').filter(|(pool, _)| !pool.is_empty()).ok_or_else(unparsed)?;
        let (nspace, image) = match rest.split_once('/') {
            Some((nspace, image)) => (Some(nspace), image),
            None => (None, rest),
        };
        let image = (!image.is_empty()).then_some(image);
        if image.is_some_and(|image| !is_plain(image)) {
            return Err(unparsed());
        }
        if image.is_some() && levels == Levels::Namespaces {
            return Err(refused(format!("invalid name {text}: image level is not allowed")));
        }
        // An image without a namespace is in the one without a name.
        Ok(LevelSpec { text, pool: Some(pool), nspace: nspace.or(image.map(|_| "")), image })
    }
}

impl NamedLevel {
    /// Looks up what a command names.
    pub(super) fn find(view: View<'_>, spec: LevelSpec<'_>, levels: Levels) -> Result<NamedLevel, Stop> {
        let text = spec.text;
        let refused = |why: String| invalid(format!("Invalid level spec {text}: {why}"));
        let Some(pool_name) = spec.pool else { return Ok(NamedLevel::default()) };
        let Some((pool, facts)) = view.map.pool_by_name(pool_name) else {
            return Err(refused(format!("pool {pool_name} does not exist")));
        };
        if !facts.application_metadata.contains_key("rbd") {
            return Err(refused(format!("{pool_name} is not an RBD pool")));
        }
        let mut level = Level { pool: Some(pool), ..Level::default() };
        let Some(nspace) = spec.nspace else { return Ok(NamedLevel { level, name: text.to_owned() }) };
        let place = Place::new(pool, nspace);
        let known = if nspace.is_empty() { BTreeSet::new() } else { image::namespaces(view, pool)? };
        check_namespace(view, &place, levels, &known).map_err(|stop| in_level(text, stop))?;
        level.nspace = Some(place.nspace.clone());
        let mut name = text.to_owned();
        if let Some(image_name) = spec.image {
            let id = image::id_of(view, &place, image_name)?;
            let id = id.ok_or_else(|| refused(format!("image {image_name} does not exist")))?;
            if !image::is_mirrored_by_snapshots(view, &place, &id)? {
                return Err(refused(format!("image {image_name} is not in snapshot mirror mode")));
            }
            level.image = Some(id);
            if place.nspace.is_empty() {
                name = format!("{pool_name}/{image_name}");
            }
        }
        Ok(NamedLevel { level, name })
    }

    /// Reads the key of a kept schedule, of whose pool `known` has the namespaces; none if what it was for is gone.
    pub(super) fn from_id(
        view: View<'_>,
        id: &str,
        levels: Levels,
        known: &BTreeSet<String>,
    ) -> Result<Option<NamedLevel>, Stop> {
        let named = Level::pool_of(id).and_then(|pool| Some((pool, view.map.pool_name(pool)?)));
        let Some((pool, pool_name)) = named else { return Ok(None) };
        let mut parts = id.splitn(3, '/').skip(1);
        let (nspace, image) = (parts.next(), parts.next());
        let level =
            Level { pool: Some(pool), nspace: nspace.map(str::to_owned), image: image.map(str::to_owned) };
        let Some(nspace) = nspace else {
            return Ok(Some(NamedLevel { level, name: format!("{pool_name}/") }));
        };
        let place = Place::new(pool, nspace);
        match check_namespace(view, &place, levels, known) {
            Err(Stop::Refused(..)) => return Ok(None),
            other => other?,
        }
        let mut name = match (nspace, image) {
            ("", Some(_)) => format!("{pool_name}/"),
            ("", None) => format!("{pool_name}//"),
            _ => format!("{pool_name}/{nspace}/"),
        };
        if let Some(id) = image {
            let Some(image_name) = image::name_of(view, &place, id)? else { return Ok(None) };
            if !image::is_mirrored_by_snapshots(view, &place, id)? {
                return Ok(None);
            }
            name.push_str(&image_name);
        }
        Ok(Some(NamedLevel { level, name }))
    }
}

fn in_level(level: &str, stop: Stop) -> Stop {
    match stop {
        Stop::Refused(errno, why) => Stop::Refused(errno, format!("Invalid level spec {level}: {why}")),
        missing => missing,
    }
}

/// Refuses a namespace that is not one of `known`, or that is not mirrored image by image.
fn check_namespace(
    view: View<'_>,
    place: &Place,
    levels: Levels,
    known: &BTreeSet<String>,
) -> Result<(), Stop> {
    let nspace = &place.nspace;
    if nspace.is_empty() {
        return Ok(());
    }
    if !known.contains(nspace) {
        return Err(invalid(format!("namespace {nspace} does not exist")));
    }
    if levels == Levels::MirroredImages && !image::is_mirrored_by_image(view, place)? {
        return Err(invalid(format!("namespace {nspace} is not in mirror image mode")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_specs() {
        let parts =
            |text: &str| ImageSpec::parse(text).map(|s| (s.pool.clone(), s.nspace.clone(), s.to_string()));
        let spec =
            |pool: &str, nspace: &str, text: &str| Ok((pool.to_owned(), nspace.to_owned(), text.to_owned()));
        assert_eq!(parts("i"), spec("rbd", "", "rbd/i"));
        assert_eq!(parts("p/i"), spec("p", "", "p/i"));
        assert_eq!(parts("p/n/i"), spec("p", "n", "p/n/i"));
        for bad in ["", "/i", "p//i", "p/", "i@s", "a/b/c/d", "-i", "p/--i", "p/-n/i", "i\n"] {
            let text = format!("Invalid image spec: {bad}");
            assert_eq!(parts(bad), Err(Stop::Refused(Errno::EINVAL, text)));
        }
    }

    #[test]
    fn levels_lie_in_levels() {
        let level = |pool: Option<i64>, nspace: Option<&str>, image: Option<&str>| Level {
            pool: pool.map(PoolId),
            nspace: nspace.map(str::to_owned),
            image: image.map(str::to_owned),
        };
        let image = level(Some(2), Some(""), Some("ab"));
        assert_eq!(image.id(), "2//ab");
        assert_eq!(level(Some(2), Some("n"), None).id(), "2/n");
        assert_eq!(Level::default().id(), "");
        assert!(image.is_in(&level(Some(2), None, None)) && image.is_in(&Level::default()));
        assert!(!image.is_in(&level(Some(2), Some("n"), None)));
        let there = [level(Some(2), None, None), Level::default()];
        assert_eq!(image.nearest(|l| there.contains(l)), Some(there[0].clone()));
    }
}
