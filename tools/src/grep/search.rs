//! Searches the lines of one file in bounded memory.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use leftfold_events::Secrets;
use tokio_util::sync::CancellationToken;
use unicode_normalization::UnicodeNormalization;

use crate::fold;
use crate::text::{Charset, SAMPLE};

/// Most characters of a line that are shown.
const MAX_CHARS: usize = 500;

/// Bytes shown before the first match of a cut line.
const BYTES_BEFORE_MATCH: usize = 100;

/// Longest line that is searched, in bytes. Nothing after a longer line is searched.
pub(super) const MAX_LINE: usize = 32 * 1024 * 1024;

/// Most bytes of a compiled expression, and of its search cache on each thread.
const MAX_REGEX: usize = 10 * 1024 * 1024;
const MAX_CACHE: usize = 32 * 1024 * 1024;

/// Compiles an expression for single lines; `$` also matches before a carriage return at the end.
///
/// # Errors
/// The reason why the expression is invalid, with the place marked.
pub(super) fn matcher(pattern: &str, ignore_case: bool) -> Result<RegexMatcher, String> {
    if pattern.is_empty() {
        return Err("it is empty; `.` matches every line that is not".to_owned());
    }
    let wrong = |error: &dyn Display| {
        format!(
            "{pattern:?} is not a regular expression: {error}\n(To find a character such as ( or {{ itself, put a backslash before it)"
        )
    };
    // the builder wraps the expression and would mark a place in the wrapped text
    let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
    parser.parse(pattern).map_err(|error| wrong(&error))?;
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .case_insensitive(ignore_case)
        .crlf(true)
        .size_limit(MAX_REGEX)
        .dfa_size_limit(MAX_CACHE);
    // in the name of a group, for example, there can be no alternatives
    let in_both_forms = in_both_forms(pattern).and_then(|pattern| builder.build(&pattern).ok());
    in_both_forms.map_or_else(|| builder.build(pattern), Ok)
        .map_err(|error| {
            if !matches!(error.kind(), ErrorKind::NotAllowed(_)) {
                return wrong(&error);
            }
            format!(
                "{pattern:?} can only match a line break, but lines are searched one at a time. Search for a part that is on one line"
            )
        })
}

/// The expression with each accented letter outside of brackets as an alternative of its composed and its decomposed form:
/// files have either. `None` if both are the same.
fn in_both_forms(pattern: &str) -> Option<String> {
    let (mut both, mut depth, mut is_escaped) = (String::new(), 0_u32, false);
    for part in fold::clusters(pattern).map(|part| &pattern[part]) {
        let composed: String = part.nfc().collect();
        let decomposed: String = part.nfd().collect();
        let is_letter = part.starts_with(char::is_alphanumeric) && !is_escaped && depth == 0;
        if is_letter && composed != decomposed {
            both += &format!("(?:{part}|{composed}|{decomposed})");
        } else {
            both += part;
        }
        match part {
            "[" if !is_escaped => depth += 1,
            "]" if !is_escaped => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_escaped = part == "\\" && !is_escaped;
    }
    (both != pattern).then_some(both)
}

/// A line that matches.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct Hits {
    pub(super) lines: Vec<Line>,
    pub(super) binary: bool,
    /// An error if a part of the file was not searched.
    pub(super) ended: io::Result<()>,
}

/// The searcher and buffers that one thread reuses from file to file.
#[derive(Debug)]
pub(super) struct Searching {
    searcher: Searcher,
    secrets: Secrets,
    /// The beginning of the file.
    sample: Vec<u8>,
}

impl Searching {
    pub(super) fn new(secrets: Secrets) -> Self {
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_LINE))
            .build();
        Self { searcher, secrets, sample: Vec::new() }
    }

    /// The first `limit` matching lines of a file that had `size` bytes when it was opened.
    pub(super) fn file(
        &mut self,
        matcher: &RegexMatcher,
        file: File,
        size: u64,
        limit: usize,
        cancel: &CancellationToken,
    ) -> Hits {
        // a file may grow for ever while it is read; files of the kernel claim to be empty
        let left = if size == 0 { u64::MAX } else { size };
        let mut reader = Watched { file: file.take(left), cancel };
        let (lines, secrets) = (Vec::new(), &self.secrets);
        let mut found = MatchSink { matcher, secrets, limit, lines, binary: false };
        self.sample.clear();
        let sampled = (&mut reader).take(SAMPLE as u64).read_to_end(&mut self.sample);
        let ended = sampled.and_then(|_| {
            let charset = Charset::of_searched(&self.sample);
            let text = charset.decode(self.sample.as_slice().chain(reader));
            self.searcher.search_reader(matcher, text, &mut found)
        });
        Hits { lines: found.lines, binary: found.binary, ended }
    }
}

/// A reader that stops when the call is cancelled.
struct Watched<'a> {
    file: io::Take<File>,
    cancel: &'a CancellationToken,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}

struct MatchSink<'a> {
    matcher: &'a RegexMatcher,
    secrets: &'a Secrets,
    limit: usize,
    lines: Vec<Line>,
    binary: bool,
}

impl Sink for MatchSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let number = found.line_number().unwrap_or_default();
        self.lines.push(Line { number, text: shown(self.matcher, self.secrets, found.bytes()) });
        Ok(self.lines.len() < self.limit)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A line for the model. Of a long line, the part around the first match.
fn shown(matcher: &RegexMatcher, secrets: &Secrets, line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_CHARS {
        return String::from_utf8_lossy(line).into_owned();
    }
    let within = |byte: &u8| byte & 0xc0 == 0x80;
    let start = first_match(matcher, line).saturating_sub(BYTES_BEFORE_MATCH);
    let start = start + line[start..].iter().take(3).take_while(|byte| within(byte)).count();
    // the longest character has four bytes
    let end = line.len().min(start + MAX_CHARS * 4);
    let text = String::from_utf8_lossy(&line[start..end]);
    let cut: String = text.chars().take(MAX_CHARS).collect();
    let before = if start > 0 { "…" } else { "" };
    let whole = end == line.len() && cut.len() == text.len();
    let cut = uncut(secrets, line, start, cut);
    if whole {
        return format!("{before}{cut}{}", if start > 0 { note(line) } else { String::new() });
    }
    format!("{before}{cut}…{}", note(line))
}

/// The part of the line that begins at `start`, without secrets that are cut off.
fn uncut(secrets: &Secrets, line: &[u8], start: usize, cut: String) -> String {
    // in bytes that are not text the positions are unknown
    if !line[start..].starts_with(cut.as_bytes()) {
        return cut;
    }
    let kept = secrets.uncut(line, start..start + cut.len());
    cut.get(kept.start - start..kept.end - start).map(str::to_owned).unwrap_or_default()
}

fn note(line: &[u8]) -> String {
    format!(" (a line of {} bytes)", line.len())
}

fn first_match(matcher: &RegexMatcher, line: &[u8]) -> usize {
    matcher.find(line).ok().flatten().map_or(0, |found| found.start())
}
