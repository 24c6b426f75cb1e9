//! Parses the bytes that a terminal sends: keys, pastes, changes of the focus. It reads nothing.
//!
//! (crossterm's own reader blocks until it knows a sequence, and spins when the terminal has gone.)

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::theme::Background;

/// Something that was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Key(KeyEvent),
    /// Text that the terminal has marked as pasted.
    Paste(String),
    Focus(bool),
    /// The terminal's background, which it was asked for.
    Background(Background),
}

const ESCAPE: u8 = 0x1b;
/// After ESC alone, the rest of a sequence arrives within this time.
const SEQUENCE_TIMEOUT: Duration = Duration::from_millis(30);
/// An answer of the terminal may come in pieces over a slow line. Its rest must not be taken for keys.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// The start of the answer about the background.
const BACKGROUND: &[u8] = b"\x1b]11;";
/// A terminal that marks pastes sends these before and after the text.
const PASTE_STARTS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Bytes that were read and not parsed yet.
#[derive(Debug, Default)]
pub(super) struct KeyParser {
    bytes: Vec<u8>,
    /// The bytes of a paste in which its end was searched already.
    searched: usize,
}

/// The number of bytes that were parsed, and the input if it means something.
type Parsed = Option<(usize, Option<Input>)>;

impl KeyParser {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// How long to wait for the rest of what has started; `None`: nothing has.
    pub(super) fn patience(&self) -> Option<Duration> {
        let is_waiting = !self.bytes.is_empty() && !self.bytes.starts_with(PASTE_STARTS);
        let is_answer = self.bytes.starts_with(BACKGROUND);
        is_waiting.then_some(if is_answer { ANSWER_TIMEOUT } else { SEQUENCE_TIMEOUT })
    }

    /// The next inputs. With `is_over` nothing follows soon, so that an ESC at the end is a key.
    pub(super) fn inputs(&mut self, is_over: bool) -> Vec<Input> {
        let mut inputs = Vec::new();
        let mut at = 0;
        while at < self.bytes.len() {
            if self.bytes[at..].starts_with(PASTE_STARTS) {
                self.bytes.drain(..at);
                at = 0;
                let Some((used, paste)) = self.paste() else { break };
                inputs.push(Input::Paste(paste));
                at += used;
                continue;
            }
            let rest = &self.bytes[at..];
            let parsed = match rest[0] {
                ESCAPE => sequence(rest),
                _ => character(rest, KeyModifiers::NONE),
            };
            let Some((used, input)) = parsed.or_else(|| is_over.then(|| cut_off(rest))) else {
                break;
            };
            inputs.extend(input);
            at += used;
        }
        self.bytes.drain(..at);
        inputs
    }

    /// The paste at the start, once it is whole.
    fn paste(&mut self) -> Option<(usize, String)> {
        let from = self.searched.max(PASTE_STARTS.len());
        let rest = self.bytes.get(from..)?;
        let Some(end) = rest.windows(PASTE_ENDS.len()).position(|found| found == PASTE_ENDS) else {
            self.searched = (self.bytes.len() + 1).saturating_sub(PASTE_ENDS.len());
            return None;
        };
        self.searched = 0;
        let text = String::from_utf8_lossy(&self.bytes[PASTE_STARTS.len()..from + end]);
        Some((from + end + PASTE_ENDS.len(), text.into_owned()))
    }
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Input> {
    Some(Input::Key(KeyEvent::new(code, modifiers)))
}

/// A start whose rest does not come: ESC is a key, anything else means nothing.
fn cut_off(rest: &[u8]) -> (usize, Option<Input>) {
    match rest {
        [ESCAPE] => (1, key(KeyCode::Esc, KeyModifiers::NONE)),
        [ESCAPE, b'O'] => (2, key(KeyCode::Char('O'), KeyModifiers::ALT)),
        [ESCAPE, b'['] => (2, key(KeyCode::Char('['), KeyModifiers::ALT)),
        // keys may follow an answer that has no end
        [ESCAPE, b']', answer @ ..] => {
            let is_of_answer = |byte: &u8| byte.is_ascii_hexdigit() || b";:/#rgba".contains(byte);
            let end = answer.iter().position(|byte| !is_of_answer(byte));
            (2 + end.unwrap_or(answer.len()), None)
        }
        _ => (rest.len(), None),
    }
}

/// Parses a sequence that begins with ESC.
fn sequence(rest: &[u8]) -> Parsed {
    match rest.get(1)? {
        b'[' => {
            let body = rest.get(2..)?;
            let end = body.iter().position(|byte| !(0x20..0x40).contains(byte))?;
            let input = match body[end] {
                // not a sequence: what follows is read by itself
                0x00..0x20 | 0x7f.. => return Some((2 + end, None)),
                last => control_sequence(&body[..end], last),
            };
            Some((2 + end + 1, input))
        }
        b'O' => {
            let last = *rest.get(2)?;
            let code = match last {
                b'M' => Some(KeyCode::Enter),
                b'P'..=b'S' => Some(KeyCode::F(last - b'P' + 1)),
                last => cursor_key(last),
            };
            Some((3, code.and_then(|code| key(code, KeyModifiers::NONE))))
        }
        // answers of the terminal. Any other control character is a key, and ends them
        b']' | b'P' | b'_' | b'^' | b'X' => {
            let end = (2..rest.len()).find(|at| rest[*at] < 0x20)?;
            let used = match (rest[end], rest.get(end + 1)) {
                (0x07, _) => end + 1,
                (ESCAPE, Some(b'\\')) => end + 2,
                (ESCAPE, None) => return None,
                _ => end,
            };
            let answer = rest[..end].strip_prefix(BACKGROUND);
            let background = answer.and_then(Background::of_answer).map(Input::Background);
            Some((used, background))
        }
        &ESCAPE => Some((1, key(KeyCode::Esc, KeyModifiers::NONE))),
        _ => character(&rest[1..], KeyModifiers::ALT).map(|(used, input)| (used + 1, input)),
    }
}

/// A control or a character.
fn character(rest: &[u8], modifiers: KeyModifiers) -> Parsed {
    let control = |c: char| key(KeyCode::Char(c), modifiers | KeyModifiers::CONTROL);
    let input = match rest[0] {
        b'\r' => key(KeyCode::Enter, modifiers),
        b'\t' => key(KeyCode::Tab, modifiers),
        0x7f => key(KeyCode::Backspace, modifiers),
        0x00 => control(' '),
        byte @ 0x01..=0x1a => control(char::from(byte - 1 + b'a')),
        byte @ 0x1b..=0x1f => control(char::from(byte + b'@')),
        _ => return text(rest, modifiers),
    };
    Some((1, input))
}

/// One character of UTF-8. Bytes that are none mean nothing.
fn text(rest: &[u8], modifiers: KeyModifiers) -> Parsed {
    let start = &rest[..rest.len().min(4)];
    let valid = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return error.error_len().map(|length| (length, None)),
    };
    let c = valid.chars().next()?;
    Some((c.len_utf8(), key(KeyCode::Char(c), modifiers)))
}

/// The key of `CSI parameters last`.
fn control_sequence(parameters: &[u8], last: u8) -> Option<Input> {
    let text = std::str::from_utf8(parameters).ok()?;
    let mut numbers = text.split(';').map(|field| field.split(':'));
    let mut number = || {
        let mut field = numbers.next()?;
        let first = field.next()?.parse::<u32>().ok();
        Some((first, field.next().and_then(|kind| kind.parse::<u32>().ok())))
    };
    let (first, second) = (number().unwrap_or_default(), number().unwrap_or_default());
    // a key that is let go
    if second.1 == Some(3) {
        return None;
    }
    let modifiers = modifiers(second.0);
    let code = match last {
        b'I' if text.is_empty() => return Some(Input::Focus(true)),
        b'O' if text.is_empty() => return Some(Input::Focus(false)),
        b'Z' => KeyCode::BackTab,
        b'u' => return of_code(first.0?, modifiers),
        b'~' => match first.0? {
            1 | 7 => KeyCode::Home,
            2 => KeyCode::Insert,
            3 => KeyCode::Delete,
            4 | 8 => KeyCode::End,
            5 => KeyCode::PageUp,
            6 => KeyCode::PageDown,
            n @ 11..=15 => function(n - 10),
            n @ 17..=21 => function(n - 11),
            n @ 23..=24 => function(n - 12),
            // a key with modifiers, as xterm tells it
            27 => return of_code(number()?.0?, modifiers),
            _ => return None,
        },
        b'P' | b'Q' | b'S' => function(u32::from(last - b'P') + 1),
        last => cursor_key(last)?,
    };
    key(code, modifiers)
}

fn function(number: u32) -> KeyCode {
    KeyCode::F(u8::try_from(number).unwrap_or_default())
}

fn cursor_key(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        _ => return None,
    })
}

/// The key with this code point.
fn of_code(code: u32, modifiers: KeyModifiers) -> Option<Input> {
    let code = match code {
        9 if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        9 => KeyCode::Tab,
        13 => KeyCode::Enter,
        27 => KeyCode::Esc,
        8 | 127 => KeyCode::Backspace,
        // keys without a character
        0xe000..=0xf8ff => return None,
        code => KeyCode::Char(char::from_u32(code).filter(|c| !c.is_control())?),
    };
    key(code, modifiers)
}

/// The modifiers of a sequence are a number of bits, plus one.
fn modifiers(number: Option<u32>) -> KeyModifiers {
    let bits = number.unwrap_or(1).saturating_sub(1);
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in
        [(1, KeyModifiers::SHIFT), (2, KeyModifiers::ALT), (4, KeyModifiers::CONTROL)]
    {
        if bits & bit != 0 {
            modifiers |= modifier;
        }
    }
    modifiers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The inputs of pieces that are read one after the other, in words.
    fn inputs(pieces: &[&[u8]], is_over: bool) -> Vec<String> {
        let mut parser = KeyParser::default();
        let mut inputs = Vec::new();
        for piece in pieces {
            parser.push(piece);
            inputs.extend(parser.inputs(false));
        }
        if is_over {
            inputs.extend(parser.inputs(true));
        }
        inputs.iter().map(in_words).collect()
    }

    fn in_words(input: &Input) -> String {
        match input {
            Input::Paste(text) => format!("paste {text}"),
            Input::Focus(focus) => format!("focus {focus}"),
            Input::Background(background) => format!("{background:?}"),
            Input::Key(key) => {
                let mut words = String::new();
                for (modifier, name) in [
                    (KeyModifiers::CONTROL, "C-"),
                    (KeyModifiers::ALT, "M-"),
                    (KeyModifiers::SHIFT, "S-"),
                ] {
                    words += if key.modifiers.contains(modifier) { name } else { "" };
                }
                match key.code {
                    KeyCode::Char(c) => words.push(c),
                    code => words += &format!("{code:?}"),
                }
                words
            }
        }
    }

    #[test]
    fn keys_are_told_apart() {
        for (bytes, expected) in [
            (&b"o"[..], &["o"][..]),
            (b"a\r\t\x7f\x08", &["a", "Enter", "Tab", "Backspace", "C-h"]),
            (b"\x03\x04\x0a\x15\x1a\x1f\x00", &["C-c", "C-d", "C-j", "C-u", "C-z", "C-_", "C- "]),
            ("für 漢👩".as_bytes(), &["f", "ü", "r", " ", "漢", "👩"]),
            (b"a\xffb", &["a", "b"]),
            (b"\x1b[A\x1bOB\x1b[1;5C\x1b[D", &["Up", "Down", "C-Right", "Left"]),
            (b"\x1b[H\x1b[4~\x1b[3~\x1b[3;5~", &["Home", "End", "Delete", "C-Delete"]),
            (b"\x1bb\x1b\x7f\x1b\r", &["M-b", "M-Backspace", "M-Enter"]),
            (b"\x1b[13;2u\x1b[27u\x1b[99;5u", &["S-Enter", "Esc", "C-c"]),
            (b"\x1b[97;1:3u\x1b[57441;2u\x1b[27;2;13~", &["S-Enter"]),
            (b"\x1bOP\x1b[15~\x1b[24;5~\x1b[1;2S", &["F(1)", "F(5)", "C-F(12)", "S-F(4)"]),
            (b"\x1b[I\x1b[O", &["focus true", "focus false"]),
            // answers of the terminal, and sequences without a meaning here
            (b"\x1b[?62;c\x1b]10;rgb:0/0/0\x07\x1bP1$r\x1b\\x\x1b[12;3R", &["x"]),
            (
                b"\x1b]11;rgb:0/0/0\x07\x1b]11;rgba:ffff/eeee/eeee/ffff\x1b\\y",
                &["Dark", "Light", "y"],
            ),
            (b"\x1b]11;#fafafa\x07\x1b]11;rgb:zz/0/0\x07\x1b]11;blue\x07y", &["Light", "y"]),
            // an answer without an end takes no key with it
            (b"\x1b]11;rgb:ffff\rok", &["Enter", "o", "k"]),
            (b"\x1b]11;rgb:ffff/ok", &["o", "k"]),
            (b"\x1b[200~o\ny\x1b[A\x1b[201~z", &["paste o\ny\x1b[A", "z"]),
            (b"\x1b[\x03", &["C-c"]),
        ] {
            assert_eq!(inputs(&[bytes], true), expected, "{bytes:?}");
            // however they are cut into pieces
            let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(inputs(&pieces, true), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_start_waits_for_its_rest() {
        for (pieces, at_once, over) in [
            (&[&b"\x1b"[..]][..], &[][..], &["Esc"][..]),
            (&[b"\x1b\x1b"], &["Esc"], &["Esc", "Esc"]),
            (&[b"\x1b["], &[], &["M-["]),
            (&[b"\x1b[1;"], &[], &[]),
            (&[b"\xc3"], &[], &[]),
            (&[b"\x1b]11;rgb:ffff/ff", b"ff/ffff\x07k"], &["Light", "k"], &["Light", "k"]),
            // a paste ends only with its mark
            (&[b"\x1b[200~o"], &[], &[]),
            (&[b"\x1b[200~o\x1b[20", b"1~o"], &["paste o", "o"], &["paste o", "o"]),
        ] {
            assert_eq!(inputs(pieces, false), at_once, "{pieces:?}");
            assert_eq!(inputs(pieces, true), over, "{pieces:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_to_their_end(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..12),
        ) {
            let mut parser = KeyParser::default();
            for piece in pieces {
                parser.push(&piece);
                parser.inputs(false);
            }
            parser.inputs(true);
            prop_assert_eq!(parser.patience(), None);
        }
    }
}
