//! Capabilities on metadata servers (`MDSAuthCaps`), as a text that monitors keep: whether it reads as one.

use super::{
    CapsError,
    grammar::{Text, list},
};

/// Refuses what Ceph's monitors refuse as a capability on metadata servers.
pub fn check_mds_caps(text: &str) -> Result<(), CapsError> {
    // An old form.
    if text == "allow" {
        return Ok(());
    }
    list(text, |t| t.attempt(grant))
}

/// `allow rwps fsname=F path=P root_squash uid=1 gids=1,2 network CIDR`.
fn grant(t: &mut Text<'_>) -> Option<()> {
    t.word("allow")?;
    t.spaces()?;
    if t.wildcard().is_none() {
        let letters = ["r", "w", "p", "s"].into_iter().filter(|letter| t.word(letter).is_some()).count();
        (letters > 0).then_some(())?;
    }
    for key in ["fsname=", "path="] {
        let _ = t.attempt(|t| {
            t.spaced(key)?;
            t.string()
        });
    }
    let _ = t.spaced("root_squash");
    let uid = t.attempt(|t| {
        t.spaced("uid=")?;
        number(t)
    });
    if uid.is_some() {
        let _ = t.attempt(|t| {
            t.spaced("gids=")?;
            number(t)?;
            while t.attempt(|t| t.word(",").and_then(|()| number(t))).is_some() {}
            Some(())
        });
    }
    t.network();
    Some(())
}

fn number(t: &mut Text<'_>) -> Option<()> {
    (!t.while_chars(|c| c.is_ascii_digit()).is_empty()).then_some(())
}
