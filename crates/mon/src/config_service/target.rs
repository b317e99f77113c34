//! What an option applies to: `osd`, `client.rbd`, `osd/host:a`, `class:ssd`, `osd/rack:r/class:hdd`.

use std::{collections::BTreeMap, fmt};

use crush::CrushMap;
use types::EntityType;

/// A section and a mask (`OptionMask`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// `global` or empty for everybody.
    section: String,
    /// A CRUSH type and the bucket.
    pub(crate) location: Option<(String, String)>,
    /// A class of devices.
    pub(crate) class: Option<String>,
}

impl Target {
    /// Reads what an operator or a key of the database says. Types and buckets of CRUSH need not exist yet.
    pub(crate) fn parse(text: &str) -> Option<Target> {
        let mut target = Target::default();
        for part in text.split('/') {
            if let Some((kind, value)) = part.split_once(':') {
                match kind {
                    "class" => target.class = Some(value.to_owned()),
                    _ => target.location = Some((kind.to_owned(), value.to_owned())),
                }
                continue;
            }
            let kind = part.split('.').next().unwrap_or_default();
            if part != "global" && EntityType::parse(kind).is_none() {
                return None;
            }
            part.clone_into(&mut target.section);
        }
        Some(target)
    }

    /// `global`, a kind of daemon, or a name.
    pub(crate) fn section(&self) -> &str {
        if self.section.is_empty() { "global" } else { &self.section }
    }

    /// `rack:r/class:hdd`, or nothing.
    pub(crate) fn mask(&self) -> String {
        let location = self.location.as_ref().map(|(kind, value)| format!("{kind}:{value}"));
        let class = self.class.as_ref().map(|class| format!("class:{class}"));
        location.into_iter().chain(class).collect::<Vec<_>>().join("/")
    }

    /// True where the mask is fulfilled.
    pub(crate) fn fits(&self, place: &BTreeMap<String, String>, class: Option<&str>) -> bool {
        self.class.as_deref().is_none_or(|wanted| class == Some(wanted))
            && self.location.as_ref().is_none_or(|(kind, value)| place.get(kind) == Some(value))
    }

    /// 0 for the most precise mask: small buckets, then large ones, then classes, then none.
    pub(crate) fn imprecision(&self, crush: &CrushMap) -> i32 {
        let kinds = i32::try_from(crush.type_names.len()).unwrap_or(i32::MAX - 1);
        let kind = self.location.as_ref().and_then(|(kind, _)| crush.type_of(kind));
        kind.unwrap_or(if self.class.is_some() { kinds } else { kinds + 1 })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mask() {
            mask if mask.is_empty() => f.write_str(self.section()),
            mask => write!(f, "{}/{mask}", self.section()),
        }
    }
}
