//! Reads a window of numbered lines from a file of any size, in bounded memory.

use std::io::{self, BufRead};

use leftfold_events::Secrets;
use tokio_util::sync::CancellationToken;

/// Most characters of a line that are shown.
const MAX_CHARS: usize = 2_000;

/// Bytes that always hold [`MAX_CHARS`] characters and a partial one.
const MAX_KEPT: usize = MAX_CHARS * 4 + 4;

/// Bytes read after the window to count the lines of the file.
const COUNT_AHEAD: u64 = 64 * 1024 * 1024;

/// The requested part of a file. Lines are counted from 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineRange {
    pub(crate) first: u64,
    pub(crate) lines: usize,
    pub(crate) bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The lines as `N: text`, one a line.
    pub(crate) text: String,
    /// Lines in `text`.
    pub(crate) shown: u64,
    /// Number of lines up to the end of the file, or up to the end of counting.
    pub(crate) seen: u64,
    /// Whether `seen` counts the whole file.
    pub(crate) counted: bool,
    /// Whether a line was cut.
    pub(crate) cut: bool,
}

/// # Errors
/// Errors of the reader; `Interrupted` when cancelled.
pub(crate) fn window(
    reader: &mut impl BufRead,
    wanted: LineRange,
    secrets: &Secrets,
    cancel: &CancellationToken,
) -> io::Result<Window> {
    let mut window = Window::default();
    let (mut full, mut ahead) = (false, 0);
    loop {
        full |= window.shown >= wanted.lines as u64;
        let keep = !full && window.seen + 1 >= wanted.first;
        let most = if full { COUNT_AHEAD - ahead } else { u64::MAX };
        let Some(line) = next_line(reader, keep, most, cancel)? else {
            window.counted = true;
            return Ok(window);
        };
        window.seen += 1;
        if keep {
            full = !window.push(&line, wanted, secrets);
        }
        if full {
            ahead += line.bytes;
            if ahead > COUNT_AHEAD {
                return Ok(window);
            }
        }
    }
}

impl Window {
    /// Adds a line if it fits. The first line always does, so that a reader makes progress.
    fn push(&mut self, line: &Line, wanted: LineRange, secrets: &Secrets) -> bool {
        let (text, cut) = line.render(self.seen == 1, secrets);
        let text = format!("{}: {text}\n", self.seen);
        let lines = usize::try_from(self.shown).unwrap_or(usize::MAX);
        if lines >= wanted.lines || (lines > 0 && self.text.len() + text.len() > wanted.bytes) {
            return false;
        }
        self.text += &text;
        self.shown += 1;
        self.cut |= cut;
        true
    }
}

/// A line without its ending.
struct Line {
    start: Vec<u8>,
    bytes: u64,
}

impl Line {
    fn render(&self, first: bool, secrets: &Secrets) -> (String, bool) {
        let text = String::from_utf8_lossy(&self.start);
        let text = if first { text.strip_prefix(crate::text::BOM).unwrap_or(&text) } else { &text };
        let text = text.strip_suffix('\r').unwrap_or(text);
        match text.char_indices().nth(MAX_CHARS) {
            None => (text.to_owned(), false),
            Some((end, _)) => {
                // a part of a secret would not be recognised
                let start = &text[secrets.uncut(text.as_bytes(), 0..end)];
                let bytes = self.bytes;
                (
                    format!("{start}… (line cut at {MAX_CHARS} characters; it has {bytes} bytes)"),
                    true,
                )
            }
        }
    }
}

/// Reads one line. Keeps only its first bytes, and none unless `keep`. A line of more than `most`
/// bytes is not read to its end.
fn next_line(
    reader: &mut impl BufRead,
    keep: bool,
    most: u64,
    cancel: &CancellationToken,
) -> io::Result<Option<Line>> {
    let mut line = Line { start: Vec::new(), bytes: 0 };
    let mut any = false;
    loop {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok(any.then_some(line));
        }
        any = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        if keep {
            let room = MAX_KEPT - line.start.len();
            line.start.extend_from_slice(&part[..part.len().min(room)]);
        }
        let read = part.len();
        line.bytes += read as u64;
        reader.consume(read + usize::from(end.is_some()));
        if end.is_some() || line.bytes > most {
            return Ok(Some(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &[u8], first: u64, lines: usize, bytes: usize) -> Window {
        let wanted = LineRange { first, lines, bytes };
        // a tiny buffer, so that lines cross its edges
        let mut reader = io::BufReader::with_capacity(7, text);
        window(&mut reader, wanted, &Secrets::default(), &CancellationToken::new()).unwrap()
    }

    #[test]
    fn windows() {
        let text = b"one\ntwo\r\nthree\n\nfive";
        for (first, lines, expected) in [
            (1, 9, "1: one\n2: two\n3: three\n4: \n5: five\n"),
            (2, 2, "2: two\n3: three\n"),
            (5, 1, "5: five\n"),
            (6, 1, ""),
        ] {
            let window = of(text, first, lines, 1_000);
            assert_eq!(window.text, expected);
            assert_eq!((window.seen, window.counted, window.cut), (5, true, false));
        }
        assert_eq!(of(b"", 1, 9, 99).seen, 0);
        assert_eq!(of(b"a\n", 1, 9, 99).seen, 1);
        assert_eq!(of("\u{feff}a".as_bytes(), 1, 9, 99).text, "1: a\n");
        assert_eq!(of(b"caf\xe9\n", 1, 9, 99).text, "1: caf\u{fffd}\n");
    }

    #[test]
    fn bytes_are_limited_but_never_to_nothing() {
        assert_eq!(of(b"aaaa\nbbbb\ncccc\n", 1, 9, 16).text, "1: aaaa\n2: bbbb\n");
        assert_eq!(of(b"aaaa\nbbbb\n", 1, 9, 1).text, "1: aaaa\n");
    }

    #[test]
    fn a_huge_line_is_cut_at_a_character_and_not_kept() {
        let text = "ä".repeat(3_000_000);
        let window = of(text.as_bytes(), 1, 9, 50_000);
        assert!(window.cut && window.text.len() < 5_000);
        assert_eq!(window.text.chars().filter(|c| *c == 'ä').count(), MAX_CHARS);
        assert!(window.text.contains("it has 6000000 bytes"), "{}", window.text.len());
    }

    #[test]
    fn a_line_without_end_behind_the_window_is_left() {
        let start = &b"one\n"[..];
        let endless = io::Read::chain(start, io::repeat(b'x'));
        let mut reader = io::BufReader::with_capacity(1 << 16, endless);
        let wanted = LineRange { first: 1, lines: 1, bytes: 99 };
        let window =
            window(&mut reader, wanted, &Secrets::default(), &CancellationToken::new()).unwrap();
        assert_eq!((window.text.as_str(), window.seen, window.counted), ("1: one\n", 2, false));
    }
}
