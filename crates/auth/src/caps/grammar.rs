//! The common part of capability texts: grants between commas or semicolons, words, `key=value`.

use super::CapsError;

/// `r`, `w`, `x`, `class-read`, `class-write` as bits.
pub(super) mod right {
    pub(in crate::caps) const R: u8 = 1;
    pub(in crate::caps) const W: u8 = 2;
    pub(in crate::caps) const CLASS_READ: u8 = 4;
    pub(in crate::caps) const CLASS_WRITE: u8 = 8;
    pub(in crate::caps) const X: u8 = CLASS_READ | CLASS_WRITE;
    pub(in crate::caps) const ANY: u8 = 0xff;
}

/// One grant: its words, quotes removed, `key=value` and `key value` alike.
pub(super) fn grants(text: &str) -> Result<Vec<Vec<String>>, CapsError> {
    let mut out = Vec::new();
    let mut grant = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let end_word = |word: &mut String, grant: &mut Vec<String>| {
        if !word.is_empty() {
            grant.push(std::mem::take(word));
        }
    };
    for c in text.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => {
                // An empty string is a word, too.
                grant.push(std::mem::take(&mut word));
                quote = None;
            }
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => {
                end_word(&mut word, &mut grant);
                quote = Some(c);
            }
            (None, ',' | ';') => {
                end_word(&mut word, &mut grant);
                if !grant.is_empty() {
                    out.push(std::mem::take(&mut grant));
                }
            }
            (None, '=' | ' ' | '\t' | '\n') => end_word(&mut word, &mut grant),
            (None, c) => word.push(c),
        }
    }
    if quote.is_some() {
        return Err(CapsError { at: word });
    }
    end_word(&mut word, &mut grant);
    if !grant.is_empty() {
        out.push(grant);
    }
    Ok(out)
}

/// The rights that a word names: `rwx`, `*`, `class-read`.
pub(super) fn rights(word: &str) -> Option<u8> {
    match word {
        "*" | "all" => return Some(right::ANY),
        "class-read" => return Some(right::CLASS_READ),
        "class-write" => return Some(right::CLASS_WRITE),
        _ => {}
    }
    word.chars().try_fold(0, |bits, c| match c {
        'r' => Some(bits | right::R),
        'w' => Some(bits | right::W),
        'x' => Some(bits | right::X),
        _ => None,
    })
}
