//! Makes text safe to show: text of models, tools, files, servers and settings must not control the
//! user's terminal or look different from what it is.
//!
//! | function | for | does |
//! | --- | --- | --- |
//! | [`Cleaner`], [`clean`], [`clean_line`] | text to read: replies, output of tools | removes |
//! | [`visible`], [`visible_line`], [`visible_code`] | text to decide on: commands, paths, patterns; lines of files | shows as escapes |
//! | [`printable`], [`printable_line`], [`guarded`] | everything that is printed, at the last moment | shows as escapes |
//! | [`escape_json`] | JSON on standard output | escapes as JSON does |
//!
//! All of them agree about which characters are meant: controls, and characters without a look of
//! their own (Unicode's `Default_Ignorable_Code_Point` and format controls, line and paragraph
//! separators). It never judges letters: two letters that look alike stay.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

/// The spaces that replace a tab.
const TAB: &str = "    ";
/// The escape of a space at the end of a line.
const BLANK_AT_END: &str = "\\x20";

/// Removes control sequences, controls and invisible characters from text in pieces; a sequence may
/// span several pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaner {
    sequence: Sequence,
    /// The last character that was let through.
    before: Option<char>,
    /// A joiner that is let through if the next character needs it.
    joiner: Option<char>,
    keeps_tabs: bool,
}

/// The part of a control sequence that the text is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sequence {
    /// Not in a sequence.
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After `ESC [`, up to its final byte.
    Parameters,
    /// After ESC and intermediate bytes, up to the final byte.
    Designation,
    /// In a title, link or device string, which ends with BEL, `ESC \` or the line.
    Command,
}

impl Cleaner {
    /// Leaves tabs as they are, for text that may be stored in a file.
    pub fn keeping_tabs() -> Self {
        Self { keeps_tabs: true, ..Self::default() }
    }

    pub fn clean(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            self.step(c, &mut out);
        }
        out
    }

    fn step(&mut self, c: char, out: &mut String) {
        if c == '\n' || (c.is_control() && self.sequence != Sequence::Command && c != '\u{1b}') {
            // A line end or another control character ends every sequence.
            self.sequence = after_control(c);
            self.joiner = None;
            match c {
                '\n' => out.push('\n'),
                '\t' if self.keeps_tabs => out.push('\t'),
                '\t' => out.push_str(TAB),
                _ => return,
            }
            self.before = Some(c);
            return;
        }
        self.sequence = match self.sequence {
            _ if c == '\u{1b}' => Sequence::Escape,
            Sequence::Text => {
                self.text(c, out);
                Sequence::Text
            }
            Sequence::Escape => match c {
                '[' => Sequence::Parameters,
                ']' | 'P' | 'X' | '^' | '_' => Sequence::Command,
                ' '..='/' => Sequence::Designation,
                _ => Sequence::Text,
            },
            Sequence::Parameters if !('@'..='~').contains(&c) => Sequence::Parameters,
            Sequence::Designation if (' '..='/').contains(&c) => Sequence::Designation,
            Sequence::Parameters | Sequence::Designation => Sequence::Text,
            Sequence::Command if c == '\u{7}' || c == '\u{9c}' => Sequence::Text,
            Sequence::Command => Sequence::Command,
        };
    }

    /// Lets a character through unless it is invisible. A joiner waits for the next character.
    fn text(&mut self, c: char, out: &mut String) {
        if is_joiner(c) {
            self.joiner.get_or_insert(c);
            return;
        }
        if is_invisible(c) && !(is_emoji_style(c) && self.before.is_some_and(is_emoji)) {
            return;
        }
        if let (Some(before), Some(joiner)) = (self.before, self.joiner.take())
            && is_joined(before, joiner, c)
        {
            out.push(joiner);
        }
        out.push(c);
        self.before = Some(c);
    }
}

/// Some terminals accept the 8-bit forms of the introducers.
fn after_control(c: char) -> Sequence {
    match c {
        '\u{9b}' => Sequence::Parameters,
        '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => Sequence::Command,
        _ => Sequence::Text,
    }
}

/// Characters without a look of their own. Some change the direction of the text around them, others
/// make two texts look equal, and some can carry a message that only machines read.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{70f}'
        | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Characters that look like a space in most fonts, and those for private use, which look like anything.
fn is_blank(c: char) -> bool {
    matches!(c,
        '\u{2800}' | '\u{13441}'..='\u{13442}' | '\u{16fe4}' | '\u{1d159}'
        | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

/// Zero-width joiner and non-joiner.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// The selectors of text and emoji style.
fn is_emoji_style(c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}')
}

/// Characters that can be emoji, without digits.
fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2194}'..='\u{21aa}' | '\u{231a}'..='\u{23ff}' | '\u{24c2}' | '\u{25aa}'..='\u{25fe}'
        | '\u{2600}'..='\u{27bf}' | '\u{2934}'..='\u{2935}' | '\u{2b05}'..='\u{2b55}' | '\u{3030}'
        | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Letters and marks of Arabic and Indic scripts, whose spelling uses joiners.
fn is_joining_letter(c: char) -> bool {
    matches!(c,
        '\u{620}'..='\u{6d3}' | '\u{6fa}'..='\u{6ff}' | '\u{750}'..='\u{77f}'
        | '\u{8a0}'..='\u{8c7}' | '\u{900}'..='\u{dff}')
}

/// Whether a joiner between these characters belongs to an emoji or to a word.
fn is_joined(before: char, joiner: char, after: char) -> bool {
    let emoji =
        joiner == '\u{200d}' && (is_emoji(before) || is_emoji_style(before)) && is_emoji(after);
    emoji || (is_joining_letter(before) && is_joining_letter(after))
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

/// A text that a person decides on, as it is: every control, every character that is invisible or
/// looks blank, every tab, every space other than U+0020, and a space at the end of a line is an
/// escape, such as `\x1b` or `\u{202e}`. Line ends stay.
///
/// Two texts that differ never look equal: backslashes are doubled where they would read as such an
/// escape. The escapes are those that commands seldom contain (`\x0d`, not `\r`), so other
/// backslashes stay as they are.
pub fn visible(text: &str) -> String {
    escaped(text, |c| c == '\n')
}

/// Like [`visible`], with line ends as escapes: for names, paths and patterns.
pub fn visible_line(text: &str) -> String {
    escaped(text, |_| false)
}

/// Like [`visible`] for one line of a file, in which tabs are spaces, and blanks at the end stay.
pub fn visible_code(line: &str) -> String {
    let shown = escaped(line, |c| c == '\t');
    match shown.strip_suffix(BLANK_AT_END) {
        Some(start) if line.ends_with(' ') => format!("{start} "),
        Some(_) | None => shown,
    }
}

/// Shows a text with escapes, except for the characters that stay and U+0020 within a line. A tab that
/// stays becomes spaces.
fn escaped(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let is_escaped = |at: usize, c: char| match c {
        c if stays(c) => false,
        ' ' => matches!(text.as_bytes().get(at + 1), None | Some(b'\n')),
        c => c.is_control() || is_invisible(c) || is_blank(c) || c.is_whitespace(),
    };
    let mut backslashes = 0;
    for (at, c) in text.char_indices() {
        if c == '\\' {
            backslashes += 1;
            out.push(c);
            continue;
        }
        if backslashes > 0 && (is_escaped(at, c) || reads_as_escape(&text[at..])) {
            out.push_str(&"\\".repeat(backslashes));
        }
        backslashes = 0;
        match c {
            c if is_escaped(at, c) => push_escape(&mut out, c),
            '\t' => out.push_str(TAB),
            c => out.push(c),
        }
    }
    out
}

/// Whether the text after a backslash could be from [`push_escape`].
fn reads_as_escape(rest: &str) -> bool {
    let digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    if let Some(code) = rest.strip_prefix('x') {
        return code.chars().take(2).filter(|c| digit(*c)).count() == 2;
    }
    let code = rest.strip_prefix("u{").and_then(|rest| rest.split_once('}'));
    code.is_some_and(|(code, _)| (1..=6).contains(&code.len()) && code.chars().all(digit))
}

fn push_escape(out: &mut String, c: char) {
    let _ = match c {
        '\0'..='\u{7f}' => write!(out, "\\x{:02x}", u32::from(c)),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)),
    };
}

/// Text for people with whatever is left of controls and invisible characters as escapes. Every text
/// passes it on its way out. It changes nothing in text that was cleaned or made visible before.
pub fn printable(text: &str) -> Cow<'_, str> {
    print_escaped(text, |c, before, after| match c {
        '\n' | '\t' => false,
        c if is_joiner(c) => !before.zip(after).is_some_and(|(b, a)| is_joined(b, c, a)),
        c if is_emoji_style(c) => !before.is_some_and(is_emoji),
        c => c.is_control() || is_invisible(c),
    })
}

/// Like [`printable`], with line ends and tabs as escapes: for one line of a list.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    match printable(text) {
        Cow::Borrowed(text) => print_escaped(text, |c, _, _| matches!(c, '\n' | '\t')),
        Cow::Owned(text) => {
            Cow::Owned(print_escaped(&text, |c, _, _| matches!(c, '\n' | '\t')).into_owned())
        }
    }
}

/// Like [`printable`], for a piece of a text that a [`Cleaner`] has let through: a joiner or a
/// selector may belong to the piece before.
pub fn guarded(text: &str) -> Cow<'_, str> {
    print_escaped(text, |c, _, _| match c {
        '\n' | '\t' => false,
        c if is_joiner(c) || is_emoji_style(c) => false,
        c => c.is_control() || is_invisible(c),
    })
}

/// Escapes the characters that `is_meant` selects by the characters before and after them.
fn print_escaped(
    text: &str,
    is_meant: impl Fn(char, Option<char>, Option<char>) -> bool,
) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut before = None;
    let mut copied = 0;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        if is_meant(c, before, text[end..].chars().next()) {
            out.push_str(&text[copied..at]);
            push_escape(&mut out, c);
            copied = end;
            before = None;
        } else {
            before = Some(c);
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// JSON with controls and invisible characters as `\u` escapes. Parsed, it is equal: in JSON such
/// characters stand only in strings. Serializers escape nothing above U+001F.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let is_meant = |c: char| matches!(c, '\u{7f}'..='\u{9f}') || (!c.is_ascii() && is_invisible(c));
    if json.is_ascii() && !json.contains('\u{7f}') || !json.chars().any(is_meant) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_meant(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// At most `columns` of the text, with a mark if something was left out. Characters without width
/// count too once there are many of them.
pub fn clip(text: &str, columns: usize) -> String {
    /// Characters for each column: a base and its marks.
    const STACKED: usize = 8;
    let most = columns.saturating_mul(STACKED);
    let is_short = text.len() <= most || text.chars().nth(most).is_none();
    if is_short && text.width() <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let mut kept = String::new();
    for c in text.chars().take(most) {
        kept.push(c);
        // a selector can widen the character before it
        if kept.width() > room {
            kept.pop();
            break;
        }
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests;
