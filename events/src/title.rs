//! Extracts a session's title, or its summary, from a model's text. `next` decides when a model writes one
//! (`wants_title`).

/// The maximum length of a title in characters; a longer one is cut and ends in `...`.
const LONGEST: usize = 100;

/// The first line with content, outside of any thoughts. `None` without one.
pub fn clean(written: &str) -> Option<String> {
    let spoken = without_thoughts(written);
    let line = spoken.lines().map(str::trim).find(|line| !line.is_empty())?;
    if line.chars().count() <= LONGEST {
        return Some(line.to_owned());
    }
    let kept: String = line.chars().take(LONGEST - 3).collect();
    Some(format!("{kept}..."))
}

/// The maximum length of a session's summary in characters; a longer one is cut and ends in `...`.
const LONGEST_SUMMARY: usize = 600;

/// A session's summary as one paragraph, outside of any thoughts. `None` without content.
pub fn clean_summary(written: &str) -> Option<String> {
    let spoken = without_thoughts(written);
    let text = spoken.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(LONGEST_SUMMARY) {
        _ if text.is_empty() => None,
        Some((end, _)) => Some(format!("{}...", text[..end].trim_end())),
        None => Some(text),
    }
}

/// Removes thoughts that are marked with tags. A truncated text may not close the last tag.
fn without_thoughts(written: &str) -> String {
    let (open, close) = ("<think>", "</think>");
    let mut spoken = String::new();
    let mut rest = written;
    while let Some((before, thoughts)) = rest.split_once(open) {
        spoken.push_str(before);
        rest = thoughts.split_once(close).map_or("", |(_, after)| after);
    }
    spoken.push_str(rest);
    // some templates swallow the opening tag
    match spoken.rsplit_once(close) {
        Some((_, after)) => after.to_owned(),
        None => spoken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_paragraph() {
        for (written, summary) in [
            ("<think>Well.</think>\n\nFixed the\n  test. \n", Some("Fixed the test.".to_owned())),
            (" \n", None),
            ("<think>never ends", None),
            (&*"ab ".repeat(300), Some(format!("{}...", "ab ".repeat(200).trim_end()))),
        ] {
            assert_eq!(clean_summary(written), summary, "{written:?}");
        }
    }

    #[test]
    fn the_first_spoken_line_within_a_hundred_characters() {
        let long = "ä".repeat(101);
        let cut = format!("{}...", "ä".repeat(97));
        let whole = "ä".repeat(100);
        for (written, title) in [
            ("Fix the parser", Some("Fix the parser")),
            ("\n\n  Fix the parser \nand more", Some("Fix the parser")),
            ("<think>hm\nhm</think>\n\nFix it", Some("Fix it")),
            ("<think>a</think>One <think>b</think>title", Some("One title")),
            ("hm, so\n</think>\nFix it", Some("Fix it")),
            ("Fix it\n<think>cut off", Some("Fix it")),
            ("<think>cut off", None),
            ("", None),
            (" \n\t\n", None),
            (&whole, Some(whole.as_str())),
            (&long, Some(cut.as_str())),
        ] {
            assert_eq!(clean(written).as_deref(), title, "{written:?}");
        }
    }
}
