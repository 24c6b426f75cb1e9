//! Strips the envelope of a patch: its first and last line, and the wrapping that models put around
//! them.

use crate::{Error, text};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";

/// The lines between `*** Begin Patch` and `*** End Patch`.
pub(super) struct Inside<'a> {
    pub(super) inside: Vec<&'a str>,
    /// Number of the first of these lines in the patch, from 1.
    pub(super) first: usize,
}

/// Strips the envelope and, around it, code fences, shell redirections (`apply_patch <<'EOF'`) and
/// blank lines. Lines may end in CRLF.
pub(super) fn open(patch: &str) -> Result<Inside<'_>, Error> {
    let patch = patch.strip_prefix(text::BOM).unwrap_or(patch);
    let lines: Vec<&str> =
        patch.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let begin = begin(&lines)?;
    let end = end(&lines, begin)?;
    let inside = lines.get(begin + 1..end).unwrap_or_default().to_vec();
    Ok(Inside { inside, first: begin + 2 })
}

fn begin(lines: &[&str]) -> Result<usize, Error> {
    let first = lines.iter().position(|line| !is_opening(line));
    match first.map(|at| (at, lines[at].trim())) {
        Some((at, BEGIN)) => Ok(at),
        Some((at, found)) => {
            let found = text::clip(found.to_owned(), 200);
            Err(invalid(at + 1, &format!("expected `{BEGIN}`, got {found:?}")))
        }
        None => Err(invalid(1, &format!("expected `{BEGIN}`, got nothing"))),
    }
}

fn end(lines: &[&str], begin: usize) -> Result<usize, Error> {
    let delimiter = lines[..begin].iter().rev().find_map(|line| delimiter(line));
    let closing = |line: &str| {
        let line = line.trim();
        line.is_empty() || line == "```" || line == delimiter.unwrap_or("EOF")
    };
    let last = lines.iter().rposition(|line| !closing(line)).unwrap_or(begin);
    if last > begin && lines[last].trim() == END {
        return Ok(last);
    }
    // within a hunk such a line is text of the file, but it has a sign before it
    let early = lines.iter().skip(begin).position(|line| line.trim_end() == END);
    Err(match early {
        Some(after) => invalid(begin + after + 2, &format!("nothing may follow `{END}`")),
        None => invalid(lines.len(), &format!("the patch ends without `{END}`")),
    })
}

/// Whether a patch may be introduced by this line.
fn is_opening(line: &str) -> bool {
    let line = line.trim();
    let command = line.split_whitespace().next().unwrap_or_default();
    line.is_empty()
        || line.starts_with("```")
        || matches!(command, "apply_patch" | "applypatch") && (line == command || is_heredoc(line))
        || line.starts_with("<<") && is_heredoc(line)
}

fn is_heredoc(line: &str) -> bool {
    delimiter(line).is_some()
}

/// The word that ends a heredoc: `<<EOF`, `<<'EOF'`, `<<-"EOF"`.
fn delimiter(line: &str) -> Option<&str> {
    let (_, word) = line.split_once("<<")?;
    let word = word.trim_start_matches('-').trim().trim_matches(['\'', '"']);
    let plain = |c: char| c.is_alphanumeric() || c == '_';
    (!word.is_empty() && word.chars().all(plain)).then_some(word)
}

/// The error of an unreadable patch, with the number of the line.
pub(super) fn invalid(line: usize, problem: &str) -> Error {
    Error::InvalidPatch(format!("Line {line} of the patch: {problem}. Nothing was changed."))
}
