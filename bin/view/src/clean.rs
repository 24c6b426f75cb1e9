//! Removes escape sequences and control characters from text of models and tools before it is
//! printed, so that the text cannot control the user's terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Removes control sequences from text in pieces; a sequence may span several pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cleaner {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After `ESC [`, up to its final byte.
    Sequence,
    /// After ESC and intermediate bytes; one more byte follows.
    Designation,
    /// In a title, link or device string, which ends with BEL, `ESC \` or the line.
    Command,
}

/// The spaces that replace a tab.
const TAB: &str = "    ";

impl Cleaner {
    pub fn clean(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            self.step(c, &mut out);
        }
        out
    }

    fn step(&mut self, c: char, out: &mut String) {
        if c == '\n' || (c.is_control() && *self != Self::Command && c != '\u{1b}') {
            // A line end or another control character ends every sequence.
            *self = after_control(c);
            match c {
                '\n' => out.push('\n'),
                '\t' => out.push_str(TAB),
                _ => {}
            }
            return;
        }
        *self = match *self {
            _ if c == '\u{1b}' => Self::Escape,
            Self::Text => {
                if !is_invisible(c) {
                    out.push(c);
                }
                Self::Text
            }
            Self::Escape => match c {
                '[' => Self::Sequence,
                ']' | 'P' | 'X' | '^' | '_' => Self::Command,
                ' '..='/' => Self::Designation,
                _ => Self::Text,
            },
            Self::Sequence if !('@'..='~').contains(&c) => Self::Sequence,
            Self::Sequence | Self::Designation => Self::Text,
            Self::Command if c == '\u{7}' || c == '\u{9c}' => Self::Text,
            Self::Command => Self::Command,
        };
    }
}

/// Some terminals accept the 8-bit forms of the introducers.
fn after_control(c: char) -> Cleaner {
    match c {
        '\u{9b}' => Cleaner::Sequence,
        '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => Cleaner::Command,
        _ => Cleaner::Text,
    }
}

/// Invisible characters that change the direction of the text around them, so that it would look
/// different from what it is.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Cleans a complete text. Of a line that was overwritten (a progress bar), the last state stays.
pub fn clean(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').next().unwrap_or(line)
    });
    Cleaner::default().clean(&lines.collect::<Vec<_>>().join("\n"))
}

/// Cleans a text and joins its lines into one.
pub fn clean_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most `columns` of the text, with a mark if something was left out.
pub fn clip(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let mut used = 0;
    let kept = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= room
    });
    let mut kept: String = kept.collect();
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [(&str, &str); 14] = [
        ("plain\ntext", "plain\ntext"),
        ("\u{1b}[31mred\u{1b}[0m", "red"),
        ("\u{1b}[2J\u{1b}[Hhome", "home"),
        ("\u{1b}]0;a title\u{7}shown", "shown"),
        ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
        ("\u{1b}]52;c;never ended\nnext line", "\nnext line"),
        ("\u{1b}P1$r\u{1b}\\device", "device"),
        ("\u{1b}(B\u{1b}=\u{1b}cx", "x"),
        ("\u{9b}31meight bit", "eight bit"),
        ("bell\u{7} back\u{8}space del\u{7f}", "bell backspace del"),
        ("a\tb", "a    b"),
        ("10%\r50%\r100%\r\ndone", "100%\ndone"),
        ("right\u{202e}left\u{2066}", "rightleft"),
        ("wide 漢字 🦀", "wide 漢字 🦀"),
    ];

    #[test]
    fn nothing_that_drives_a_terminal_is_left() {
        for (text, expected) in TABLE {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn sequences_are_found_however_they_are_cut() {
        for (text, _) in TABLE {
            let whole = Cleaner::default().clean(text);
            let mut cleaner = Cleaner::default();
            let pieces: String = text.chars().map(|c| cleaner.clean(&c.to_string())).collect();
            assert_eq!(pieces, whole, "{text:?}");
        }
    }
}
