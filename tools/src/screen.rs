//! Reduces the output of a command to the text that a terminal would show in the end: without control sequences, and with
//! the last of the frames that a progress display writes over each other.
//!
//! Columns are counted in characters, and a line is as wide as it needs to be. Bytes that are not UTF-8 stay.

use std::iter::repeat_n;

use memchr::{memchr, memrchr};

/// Most bytes of output that later sequences can still change, and how many of them stay when it is more.
const MAX_HELD: usize = 32 * 1024;
const KEPT: usize = 8 * 1024;

/// Most columns behind the end of a line that sequences can move the cursor.
const MAX_BEYOND: usize = 1_000;

/// Most bytes of a sequence's parameters that are looked at.
const MAX_PARAMETERS: usize = 16;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
const BACKSPACE: u8 = 0x08;

/// A stream of output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Screen {
    /// The last lines.
    held: Vec<u8>,
    /// The place of the cursor in `held`.
    at: usize,
    /// How many columns the cursor is behind the end of its line.
    beyond: usize,
    sequence: Sequence,
}

/// The part of a control sequence that the output is in (ECMA-48).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Sequence {
    #[default]
    None,
    /// After ESC.
    Escape,
    /// After ESC and intermediate bytes, up to the final byte.
    Designation,
    /// After `ESC [`, with the parameters so far.
    Parameters(Vec<u8>),
    /// In a title, link or device string, which ends with BEL, `ESC \` or the line.
    String,
}

/// The text of a whole output.
pub(crate) fn shown(output: &str) -> String {
    let mut screen = Screen::default();
    let mut text = screen.push(output.as_bytes());
    text.extend(screen.finish());
    String::from_utf8_lossy(&text).into_owned()
}

impl Screen {
    /// Takes the next bytes, and returns text that cannot change any more.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        while let Some((byte, rest)) = bytes.split_first() {
            if self.sequence != Sequence::None {
                self.continue_sequence(*byte);
                bytes = rest;
                continue;
            }
            let is_text = |byte: &u8| *byte >= b' ' || matches!(byte, b'\t' | b'\n' | 0);
            let end = bytes.iter().position(|byte| !is_text(byte)).unwrap_or(bytes.len());
            let (text, rest) = bytes.split_at(end);
            self.write(text);
            bytes = rest;
            if let Some((control, rest)) = bytes.split_first() {
                self.control(*control);
                bytes = rest;
            }
        }
        self.settled()
    }

    /// The text that can still change.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// The rest of the text, at the end of the output.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(self).held
    }

    fn settled(&mut self) -> Vec<u8> {
        if self.held.len() <= MAX_HELD {
            return Vec::new();
        }
        let surplus = self.held.len() - KEPT;
        let cut = memrchr(b'\n', &self.held[..surplus]).map_or(surplus, |end| end + 1);
        self.at = self.at.saturating_sub(cut);
        self.held.drain(..cut).collect()
    }

    fn control(&mut self, byte: u8) {
        match byte {
            ESCAPE => self.sequence = Sequence::Escape,
            b'\r' => self.go_to(self.start(), 0),
            BACKSPACE => self.go_back(1),
            // bell, and shifts to other character sets
            BELL | 0x0e | 0x0f => {}
            other => self.write(&[other]),
        }
    }

    fn continue_sequence(&mut self, byte: u8) {
        let sequence = std::mem::take(&mut self.sequence);
        self.sequence = match (sequence, byte) {
            (Sequence::Escape, b'[') => Sequence::Parameters(Vec::new()),
            (Sequence::Escape, b']' | b'P' | b'X' | b'^' | b'_') => Sequence::String,
            (Sequence::Escape | Sequence::Designation, b' '..=b'/') => Sequence::Designation,
            (Sequence::Escape | Sequence::Designation, b'0'..=b'~') => Sequence::None,
            (Sequence::Parameters(mut given), b' '..=b'?') => {
                if given.len() < MAX_PARAMETERS {
                    given.push(byte);
                }
                Sequence::Parameters(given)
            }
            (Sequence::Parameters(given), b'@'..=b'~') => {
                self.dispatch(&given, byte);
                Sequence::None
            }
            (Sequence::String, BELL) => Sequence::None,
            (_, ESCAPE) => Sequence::Escape,
            (Sequence::String, other) if other != b'\n' => Sequence::String,
            // no sequence has such a byte
            (_, b'\n' | b'\t' | 0 | 0x7f..) => {
                self.write(&[byte]);
                Sequence::None
            }
            (_, control) => {
                self.control(control);
                Sequence::None
            }
        };
    }

    /// Carries out the sequence with this final byte. Those for colours, titles and whole screens have no effect.
    fn dispatch(&mut self, parameters: &[u8], last: u8) {
        let number = std::str::from_utf8(parameters).ok().and_then(|text| text.parse().ok());
        let count = number.unwrap_or(1).max(1);
        match last {
            b'A' => self.go_up(count, self.column()),
            b'B' => self.go_down(count, self.column()),
            b'C' => self.go_to(self.start(), self.column().saturating_add(count)),
            b'D' => self.go_back(count),
            b'E' => self.go_down(count, 0),
            b'F' => self.go_up(count, 0),
            b'G' => self.go_to(self.start(), count - 1),
            b'J' if number.unwrap_or(0) == 0 => self.held.truncate(self.at),
            b'K' => {
                let (start, end, column) = (self.start(), self.end(), self.column());
                let (erased, blanks) = match number {
                    Some(1) => {
                        self.go_to(self.at, 1);
                        (start..self.at, column + 1)
                    }
                    Some(2) => (start..end, 0),
                    _ => (self.at..end, 0),
                };
                self.held.splice(erased, repeat_n(b' ', blanks));
                self.go_to(start, column);
            }
            _ => {}
        }
    }

    fn write(&mut self, text: &[u8]) {
        if self.at == self.held.len() && self.beyond == 0 {
            self.held.extend_from_slice(text);
            self.at = self.held.len();
            return;
        }
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let ended = line.strip_suffix(b"\n");
            self.overwrite(ended.unwrap_or(line));
            if ended.is_some() {
                if self.end() == self.held.len() {
                    self.held.push(b'\n');
                }
                self.go_down(1, 0);
            }
        }
    }

    /// Replaces as many characters at the cursor as the text has.
    fn overwrite(&mut self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        self.held.splice(self.at..self.at, repeat_n(b' ', self.beyond));
        self.at += std::mem::take(&mut self.beyond);
        let from = self.at;
        self.go_to(from, text.iter().filter(|byte| is_first(**byte)).count());
        self.held.splice(from..self.at, text.iter().copied());
        self.at = from + text.len();
        self.beyond = 0;
    }

    /// The beginning of the cursor's line.
    fn start(&self) -> usize {
        memrchr(b'\n', &self.held[..self.at]).map_or(0, |end| end + 1)
    }

    /// The end of the cursor's line.
    fn end(&self) -> usize {
        memchr(b'\n', &self.held[self.at..]).map_or(self.held.len(), |end| self.at + end)
    }

    fn column(&self) -> usize {
        let before = &self.held[self.start()..self.at];
        before.iter().filter(|byte| is_first(**byte)).count() + self.beyond
    }

    /// Puts the cursor so many columns behind a place in a line.
    fn go_to(&mut self, place: usize, columns: usize) {
        self.at = place;
        let end = self.end();
        let line = || (place..end).filter(|at| is_first(self.held[*at]));
        let found = line().nth(columns);
        let missing = columns.saturating_sub(line().take(columns).count());
        (self.at, self.beyond) = (found.unwrap_or(end), missing.min(MAX_BEYOND));
    }

    fn go_back(&mut self, columns: usize) {
        let column = self.column().saturating_sub(columns);
        self.go_to(self.start(), column);
    }

    fn go_up(&mut self, lines: usize, column: usize) {
        for _ in 0..lines {
            let Some(before) = self.start().checked_sub(1) else { break };
            self.at = before;
        }
        self.go_to(self.start(), column);
    }

    fn go_down(&mut self, lines: usize, column: usize) {
        for _ in 0..lines {
            let end = self.end();
            if end == self.held.len() {
                break;
            }
            self.at = end + 1;
        }
        self.go_to(self.start(), column);
    }
}

/// Whether the byte begins a character.
fn is_first(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::cases;

    /// The output in pieces of `size` bytes.
    fn in_pieces(output: &[u8], size: usize) -> Vec<u8> {
        let mut screen = Screen::default();
        let mut text: Vec<u8> = output.chunks(size).flat_map(|piece| screen.push(piece)).collect();
        text.extend(screen.finish());
        text
    }

    #[test]
    fn the_last_frame_is_left_without_sequences() {
        let steps: String = (0..300).map(|n| format!("\rstep {n}")).collect();
        for (output, text) in [
            ("plain\n\ttext ä\n", "plain\n\ttext ä\n"),
            ("a\r\nb\r\n", "a\nb\n"),
            (&format!("{steps}\nend\n"), "step 299\nend\n"),
            ("[    ] Start\r[ OK ]\n", "[ OK ] Start\n"),
            ("Grüße\rÄhr\n", "Ährße\n"),
            ("\x1b[1;31mred\x1b[0m\x1b(B\n", "red\n"),
            ("\x1b[38:2::1:2:3mred\x1b[m", "red"),
            ("50%\r\x1b[K100 %\n", "100 %\n"),
            ("loading\x1b[2K\rdone\n", "done\n"),
            ("loading\r\x1b[2Kdone\n", "done\n"),
            ("loading\x1b[2K\x1b[1Gdone\n", "done\n"),
            ("abcdef\x1b[3D\x1b[1K\n", "    ef\n"),
            ("a\x1b[3Cb\x1b[2DX\n", "a  Xb\n"),
            ("see \x1b]8;;http://x.y/\x1b\\link\x1b]8;;\x07.\n", "see link.\n"),
            ("\x1b]0;title\x07text\n", "text\n"),
            ("N\x08NA\x08AME ab\x08\x08c\n", "NAME cb\n"),
            ("1 pull\n2 wait\n\x1b[2A\x1b[2K1 done\n\x1b[B3\n", "1 done\n2 wait\n3\n"),
            ("a 1\nb 1\n\x1b[1F\x1b[Jb 2\n", "a 1\nb 2\n"),
            ("ding\x07 \x0edong\x0f\n", "ding dong\n"),
            ("cut \x1b[3", "cut "),
            ("cut \x1b[3\nnext\n", "cut \nnext\n"),
            ("cut \x1b]8;;x\nnext\n", "cut \nnext\n"),
        ] {
            for size in [1, 3, 1_000] {
                let shown = in_pieces(output.as_bytes(), size);
                assert_eq!(String::from_utf8(shown).unwrap(), text, "{output:?}");
            }
        }
        assert_eq!(in_pieces(b"caf\xe9 \0\xff\n", 2), b"caf\xe9 \0\xff\n");
    }

    #[test]
    fn long_output_is_passed_on() {
        let lines: String = (0..50_000).map(|n| format!("line {n}\r\n")).collect();
        assert_eq!(in_pieces(lines.as_bytes(), 999), lines.replace('\r', "").as_bytes());
        let wide = vec![b'x'; 1_000_000];
        let mut screen = Screen::default();
        for piece in wide.chunks(10_000) {
            screen.push(piece);
            assert!(screen.held().len() <= MAX_HELD);
        }
        assert_eq!(in_pieces(&wide, 10_000), wide);
        assert!(in_pieces(b"a\x1b[999999999999999999999Cb\x1b[99999999Gc", 9).len() < 3_000);
    }

    proptest! {
        #![proptest_config(cases(300))]

        #[test]
        fn pieces_make_no_difference_and_no_sequence_is_left(
            parts in prop::collection::vec("[a-zä\\n]{0,5}|\\r|\\x08|\\x1b\\[[0-9]{0,2}[A-KmPX]|\\x1b\\][a-z]*(\\x07|\\x1b\\\\)|\\x1b", 0..40),
            size in 1_usize..9,
        ) {
            let output = parts.concat();
            let whole = in_pieces(output.as_bytes(), usize::MAX);
            prop_assert_eq!(&in_pieces(output.as_bytes(), size), &whole);
            prop_assert!(!whole.iter().any(|byte| [ESCAPE, b'\r', BACKSPACE].contains(byte)));
            // a text without controls stays as it is
            let text = String::from_utf8(whole).unwrap();
            prop_assert_eq!(shown(&text), text);
        }
    }
}
