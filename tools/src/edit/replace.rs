//! Makes one replacement in a text.

use std::fmt::Write as _;

use super::chain::{self, Failure, Matches, Strategy};
use super::ending::Ending;
use super::search::{Candidate, Search};
use super::shift::Shift;
use super::{nearest, source};
use crate::{Error, fold, text};

/// Most places that an error lists.
const QUOTE: usize = 10;

/// A text after the replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    pub text: String,
    /// Number of places replaced.
    pub count: usize,
    pub strategy: Strategy,
    /// For matches that are not exact: first and last line, from 1, of each place in the original text.
    pub lines: Vec<(usize, usize)>,
    /// The lines of the original text, from 1, whose words differ from those searched for.
    pub differing: Vec<(usize, String)>,
    /// Whether the indentation of the inserted text was made that of the place.
    pub indented: bool,
}

/// Replaces `old` with `new` in `text`; `shown` names the text in errors. `new` is taken literally,
/// except that its line endings become those of the text. A byte order mark stays.
///
/// # Errors
/// `old` and `new` are identical; `old` is empty, is missing in the text, or (unless `all`) occurs
/// more than once; the only match is far larger than `old`.
pub fn replace(
    text: &str,
    old: &str,
    new: &str,
    all: bool,
    shown: &str,
) -> Result<Replaced, Error> {
    let [old, new] = [old, new].map(|given| given.trim_start_matches(text::BOM));
    if old == new {
        return Err(Error::Identical);
    }
    if old.is_empty() {
        return Err(empty(shown));
    }
    let body = text.trim_start_matches(text::BOM);
    let mark = &text[..text.len() - body.len()];
    if text.len().max(old.len()) > source::LONGEST / 2 {
        return Err(Error::TooLarge(format!("{shown} is too large to be edited.")));
    }
    let ending = Ending::for_edit(body, old);
    let [old, new] = [old, new].map(|given| ending.apply(given));
    let search = Search::new(body, &old, ending);
    let found = if all { chain::every(&search) } else { chain::unique(&search) };
    let found = found.map_err(|failure| explain(&search, failure, shown))?;
    let is_loose = found.strategy.leniency().is_some();
    let loose = || found.places.iter().filter(|_| is_loose);
    let shifts: Vec<Option<Shift>> = found
        .places
        .iter()
        .map(|place| Shift::for_candidate(&search, place).filter(|_| is_loose))
        .collect();
    Ok(Replaced {
        text: spliced(mark, &search, &found, &shifts, &new),
        count: found.places.len(),
        strategy: found.strategy,
        lines: loose().map(|place| lines_of(&search, place)).collect(),
        differing: loose().flat_map(|place| differing(&search, place)).collect(),
        indented: shifts.iter().any(Option::is_some),
    })
}

/// The lines of the place that differ from those searched for in more than white space.
fn differing(search: &Search<'_>, place: &Candidate) -> Vec<(usize, String)> {
    let (first, last) = lines_of(search, place);
    if !place.lines || last + 1 - first != search.old.count() {
        return Vec::new();
    }
    let words = |line: &str| line.split_whitespace().collect::<String>();
    (first - 1..last)
        .filter(|line| words(search.file.whole(*line)) != words(search.old.whole(line + 1 - first)))
        .map(|line| (line + 1, text::clip(search.file.whole(line).to_owned(), nearest::LONGEST)))
        .collect()
}

pub(super) fn empty(shown: &str) -> Error {
    Error::EmptyOldString(format!(
        "oldString is empty, but {shown} exists. Give the text to replace, or use write to replace the whole file."
    ))
}

fn spliced(
    mark: &str,
    search: &Search<'_>,
    found: &Matches,
    shifts: &[Option<Shift>],
    new: &str,
) -> String {
    let body = search.file.text;
    let mut text = String::with_capacity(mark.len() + body.len() + new.len());
    text.push_str(mark);
    let mut from = 0;
    for (place, shift) in found.places.iter().zip(shifts) {
        let (end, new) = fitted(search, place, new);
        text.push_str(&body[from..place.span.start]);
        match shift {
            Some(shift) => text.push_str(&shift.apply(new)),
            None => text.push_str(new),
        }
        from = end;
    }
    text.push_str(&body[from..]);
    text
}

/// The end of the replaced text, and the text to insert. Lines are replaced as lines: the last line
/// keeps the file's ending, which is removed only if `new` is empty.
fn fitted<'a>(search: &Search<'_>, place: &Candidate, new: &'a str) -> (usize, &'a str) {
    if !place.lines || !search.old.text.ends_with('\n') {
        return (place.span.end, new);
    }
    if new.is_empty() {
        return (search.file.end_of_line(place.span.end), new);
    }
    let line = new.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    (place.span.end, line.unwrap_or(new))
}

fn lines_of(search: &Search<'_>, place: &Candidate) -> (usize, usize) {
    let line = |at| search.file.line_of(at) + 1;
    (line(place.span.start), line(place.span.end - usize::from(!place.lines)))
}

fn explain(search: &Search<'_>, failure: Failure, shown: &str) -> Error {
    match failure {
        Failure::Nothing => Error::NoMatch(no_match(search, shown)),
        Failure::Several { strategy, places } => {
            Error::MultipleMatches(several(search, strategy, &places, shown))
        }
        Failure::TooLarge(place) => {
            let (first, last) = lines_of(search, &place);
            Error::MatchTooLarge(format!(
                "oldString matches lines {first} to {last} of {shown} only loosely, and they are much longer than it is; nothing was changed. Read them and give them exactly."
            ))
        }
    }
}

fn several(search: &Search<'_>, strategy: Strategy, places: &[Candidate], shown: &str) -> String {
    let quoted: Vec<String> =
        places.iter().take(QUOTE).map(|place| lines_of(search, place).0.to_string()).collect();
    let more = if places.len() > QUOTE { ", …" } else { "" };
    let how = strategy.leniency().map(|how| format!(" ({how})")).unwrap_or_default();
    // a single candidate is ambiguous if its text also occurs within other lines
    let count = places.len().max(2);
    format!(
        "oldString occurs {count} times in {shown}{how}, at lines {}{more}. Add lines around it until it is the only one, or set replaceAll.",
        quoted.join(", ")
    )
}

fn no_match(search: &Search<'_>, shown: &str) -> String {
    let mut text = format!("oldString was not found in {shown}.");
    if search.file.text.is_empty() {
        return text + " The file is empty.";
    }
    let numbered =
        |line: &str| line.split_once(": ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
    if search.old.text.lines().all(numbered) {
        text += " It seems to contain the line numbers that read puts before each line; leave them out.";
    }
    match nearest::lines(search) {
        Some(lines) => {
            text += " The most similar lines are:\n";
            let wanted = (0..search.old.count()).skip_while(|line| search.old.is_blank(*line));
            let rows = lines.clone().zip(wanted).map(|(line, wanted)| {
                (line + 1, search.file.trimmed(line), search.old.trimmed(wanted))
            });
            let hint = fold::hint(rows).map(|hint| hint + " ").unwrap_or_default();
            for line in lines {
                let quoted = text::clip(search.file.whole(line).to_owned(), nearest::LONGEST);
                // writing to a String cannot fail
                let _ = writeln!(text, "{}: {quoted}", line + 1);
            }
            text += &hint;
            text += "Give the text exactly as it is in the file, including white space.";
        }
        None => text += " Read the file again: nothing in it is similar.",
    }
    text
}
