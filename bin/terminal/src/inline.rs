//! Parses markup within a line: bold, italic, code. Text that may still become markup waits.

use super::style::Face;

/// Text that waits longer than this many bytes for its closing mark is printed as it is.
const PATIENCE: usize = 200;

const CODE: Face = Face::CYAN;
const ITALIC: Face = Face { italic: true, ..Face::PLAIN };

/// Literal text and its face.
pub(super) type Span = (Face, String);

/// The spans that are certain, and the number of bytes in them. With `complete` the line ends here,
/// so everything is certain.
pub(super) fn spans(text: &str, complete: bool) -> (Vec<Span>, usize) {
    let mut spans = Vec::new();
    let used = parse(text, 0, Face::PLAIN, complete, &mut spans);
    (spans, used)
}

fn parse(text: &str, from: usize, face: Face, complete: bool, spans: &mut Vec<Span>) -> usize {
    let mut at = from;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let plain = rest.find(['`', '*', '_', '\\']).unwrap_or(rest.len());
        if plain > 0 {
            push(spans, face, &rest[..plain]);
            at += plain;
            continue;
        }
        match mark(text, at) {
            Found::Span { marker, end, face: own } => {
                let inner = &text[at + marker..end];
                if own == CODE {
                    push(spans, face.with(own), inner.trim_matches(' '));
                } else {
                    parse(inner, 0, face.with(own), true, spans);
                }
                at = end + marker;
            }
            Found::Literal(length) => {
                let shown = rest[..length].strip_prefix('\\').filter(|shown| !shown.is_empty());
                push(spans, face, shown.unwrap_or(&rest[..length]));
                at += length;
            }
            Found::Open(length) => {
                if !complete && rest.len() < PATIENCE {
                    return at;
                }
                push(spans, face, &rest[..length]);
                at += length;
            }
        }
    }
    at
}

enum Found {
    /// A complete span: its marks are `marker` bytes long, and the closing one begins at `end`.
    Span { marker: usize, end: usize, face: Face },
    /// This many bytes are not markup.
    Literal(usize),
    /// This many bytes open a span that is not closed in this text.
    Open(usize),
}

/// Classifies the mark at `at`.
fn mark(text: &str, at: usize) -> Found {
    let rest = &text[at..];
    let sign = rest.chars().next().unwrap_or_default();
    if sign == '\\' {
        return match rest[1..].chars().next() {
            None => Found::Open(1),
            Some(c) if c.is_ascii_punctuation() => Found::Literal(2),
            Some(_) => Found::Literal(1),
        };
    }
    let run = rest.len() - rest.trim_start_matches(sign).len();
    let Some(next) = rest[run..].chars().next() else { return Found::Open(run) };
    if sign == '`' {
        return match closing_code(rest, run) {
            Some(end) => Found::Span { marker: run, end: at + end, face: CODE },
            None => Found::Open(run),
        };
    }
    let before = text[..at].chars().next_back();
    let within = before.is_some_and(char::is_alphanumeric);
    if run > 2 || next.is_whitespace() || (within && (sign == '_' || next.is_alphanumeric())) {
        return Found::Literal(run);
    }
    let face = if run == 2 { Face::BOLD } else { ITALIC };
    match closing(rest, sign, run) {
        Some(end) => Found::Span { marker: run, end: at + end, face },
        None => Found::Open(run),
    }
}

/// The start of the run of exactly `run` backquotes that closes the one at the beginning.
fn closing_code(rest: &str, run: usize) -> Option<usize> {
    let mut at = run;
    while let Some(found) = rest[at..].find('`') {
        let begin = at + found;
        let length = rest[begin..].len() - rest[begin..].trim_start_matches('`').len();
        if length == run {
            return Some(begin);
        }
        at = begin + length;
    }
    None
}

/// The start of the mark that closes the one at the beginning.
fn closing(rest: &str, sign: char, run: usize) -> Option<usize> {
    let mut at = run;
    while let Some(found) = rest[at..].find([sign, '`']) {
        let begin = at + found;
        if rest[begin..].starts_with('`') {
            // Marks within code are not markup.
            let ticks = rest[begin..].len() - rest[begin..].trim_start_matches('`').len();
            at = begin + closing_code(&rest[begin..], ticks)? + ticks;
            continue;
        }
        let length = rest[begin..].len() - rest[begin..].trim_start_matches(sign).len();
        let before = rest[..begin].chars().next_back().unwrap_or(' ');
        let after = rest[begin + length..].chars().next().unwrap_or(' ');
        if length == run && !before.is_whitespace() && !(sign == '_' && after.is_alphanumeric()) {
            return Some(begin);
        }
        at = begin + length;
    }
    None
}

fn push(spans: &mut Vec<Span>, face: Face, text: &str) {
    match spans.last_mut() {
        Some((last, before)) if *last == face => before.push_str(text),
        _ => spans.push((face, text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faces as letters: `b` bold, `i` italic, `c` code.
    fn marked(text: &str, complete: bool) -> (String, usize) {
        let (spans, used) = spans(text, complete);
        let letter = |face: Face| match (face.bold, face.italic, face.colour.is_some()) {
            (false, false, false) => "",
            (true, false, false) => "b",
            (false, true, false) => "i",
            (_, _, true) => "c",
            (true, true, false) => "bi",
        };
        let shown = spans.iter().map(|(face, text)| match letter(*face) {
            "" => text.clone(),
            letter => format!("<{letter}:{text}>"),
        });
        (shown.collect(), used)
    }

    #[test]
    fn marks_that_are_closed_are_markup() {
        for (text, expected) in [
            ("a **bold** word", "a <b:bold> word"),
            ("an *italic* and _another_", "an <i:italic> and <i:another>"),
            ("`code` and ``a ` b``", "<c:code> and <c:a ` b>"),
            ("**bold with `code` in it**", "<b:bold with ><c:code><b: in it>"),
            ("**`a**b`**", "<c:a**b>"),
            ("2 * 3 ** 4 and snake_case_name", "2 * 3 ** 4 and snake_case_name"),
            ("an open ** mark and `tick", "an open ** mark and `tick"),
            ("def f(*args, **kwargs)", "def f(*args, **kwargs)"),
            (r"\*not\* C:\dir", r"*not* C:\dir"),
            ("*", "*"),
        ] {
            assert_eq!(marked(text, true), (expected.to_owned(), text.len()), "{text}");
        }
    }

    #[test]
    fn what_may_still_become_markup_waits() {
        for (text, shown) in
            [("some **bo", "some "), ("`co", ""), ("a *", "a "), ("plain wo", "plain wo")]
        {
            assert_eq!(marked(text, false), (shown.to_owned(), shown.len()), "{text}");
        }
        let long = format!("**{}", "word ".repeat(60));
        assert_eq!(marked(&long, false).1, long.len());
    }
}
