//! Cleans text of other programs and servers for quotes in the text of a tool.

use crate::text;

/// The text in one line of at most `max` bytes.
pub(crate) fn line(text: &str, max: usize) -> String {
    let lines: Vec<String> = lines(text).collect();
    text::clip(lines.join(" "), max)
}

/// The text as indented lines with at most `max` bytes of text.
pub(crate) fn block(text: &str, max: usize) -> String {
    let lines: Vec<String> = lines(text).collect();
    let clipped = text::clip(lines.join("\n"), max);
    let lines: Vec<String> = clipped.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

/// The lines that have text, without control characters and characters that nobody sees.
fn lines(text: &str) -> impl Iterator<Item = String> {
    let is_break =
        |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let lines = text.split(is_break).map(|line| {
        let visible = line.chars().filter(|c| *c == '\t' || !(c.is_control() || is_invisible(*c)));
        visible.collect::<String>().trim_end().to_owned()
    });
    lines.filter(|line| !line.is_empty())
}

/// Characters that change how text looks or carry text that people do not see: directions, joiners, tags, variation
/// selectors.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    )
}
