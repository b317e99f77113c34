//! Limits on texts that clients send and the monitor keeps.

/// Cuts a text that a client sent to at most so many bytes, before it is kept.
pub(crate) fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        // What was cut off is not kept either.
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_letters() {
        for (bytes_max, expect) in [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (9, "aéb")] {
            let mut text = "aéb".to_owned();
            cut(&mut text, bytes_max);
            assert_eq!(text, expect);
        }
    }
}
