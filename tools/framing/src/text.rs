//! Cuts text between characters.

/// The last character boundary in `text` at or before byte `at`.
pub fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Cuts `text` to at most `max` bytes and marks the cut with `…`. Used for messages that quote text
/// of any length.
pub fn clip(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(floor(&text, max));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_clipped_between_characters() {
        for (text, max, clipped) in [("äö", 4, "äö"), ("äö", 3, "ä…"), ("äö", 1, "…"), ("", 0, "")]
        {
            assert_eq!(clip(text.to_owned(), max), clipped);
        }
    }
}
