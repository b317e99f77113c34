//! How a row of `xtask/data/surface/commands.tsv` names its command. The tests of crate `osd` have this file, too.

/// A command as an operator types it: its words, and those arguments that must be given and have one value only.
pub(crate) fn shown(sig: &str) -> String {
    let word = |part: &str| {
        let Some(keys) = part.strip_prefix("name=") else { return Some(part.to_owned()) };
        let value = keys.split(',').find_map(|pair| pair.strip_prefix("strings="))?;
        let is_needed = keys.split(',').all(|pair| pair != "req=false");
        (is_needed && !value.contains('|')).then(|| value.to_owned())
    };
    sig.split(' ').filter_map(word).collect::<Vec<_>>().join(" ")
}
