//! Templates of commands: fills in arguments, and finds shell lines and mentions.

/// A piece of a filled template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// A shell line from `` !`…` ``, which its output replaces.
    Shell(String),
}

/// Fills the arguments into a template: `$ARGUMENTS` stands for all of them as typed, `$1` and so
/// on for one each; the highest number takes the rest. Without a placeholder the arguments are
/// appended. Text pieces, which may be empty, surround each shell line.
pub(super) fn fill(template: &str, arguments: &str) -> Vec<Piece> {
    let arguments = arguments.trim();
    let words = words(arguments);
    let last = numbers(template).max().unwrap_or(0);
    let put = |text: &str| substitute(text, arguments, &words, last);
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((before, line, after)) = shell(rest) {
        pieces.push(Piece::Text(put(before)));
        pieces.push(Piece::Shell(put(line)));
        rest = after;
    }
    let mut end = put(rest);
    if last == 0 && !template.contains(ALL) && !arguments.is_empty() {
        end = format!("{}\n\n{arguments}", end.trim_end());
    }
    pieces.push(Piece::Text(end));
    pieces
}

const ALL: &str = "$ARGUMENTS";

/// The first `` !`…` ``, with the text before and after it.
fn shell(text: &str) -> Option<(&str, &str, &str)> {
    let (before, opened) = text.split_once("!`")?;
    let (line, after) = opened.split_once('`')?;
    (!line.trim().is_empty()).then_some((before, line, after))
}

/// Splits arguments at white space. A word may be quoted as a whole, in either kind of quotes; any other quote is a
/// character, as in `it's fine`.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_end = |after: &str| after.chars().next().is_none_or(char::is_whitespace);
        let quoted =
            matches!(first, '"' | '\'').then_some(&rest[first.len_utf8()..]).and_then(|inner| {
                let mut ends = inner.match_indices(first).map(|(at, _)| at);
                ends.find(|at| is_end(&inner[at + 1..])).map(|at| (&inner[..at], &inner[at + 1..]))
            });
        let (word, after) = quoted
            .unwrap_or_else(|| rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())));
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

/// The number at the start of a text, from 1 to 99, and its length.
fn number(text: &str) -> Option<(usize, usize)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: usize = text.get(..length)?.parse().ok()?;
    (1..100).contains(&number).then_some((number, length))
}

/// The placeholders `$1`, `$2`… in a text.
fn numbers(text: &str) -> impl Iterator<Item = usize> {
    text.split('$').skip(1).filter_map(|after| Some(number(after)?.0))
}

/// Replaces placeholders; replaced text is not searched again.
fn substitute(text: &str, all: &str, words: &[String], last: usize) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, found) = rest.split_at(at);
        filled.push_str(before);
        rest = if let Some(after) = found.strip_prefix(ALL) {
            filled.push_str(all);
            after
        } else if let Some((n, length)) = number(&found[1..]) {
            let given = words.get(n - 1..).unwrap_or_default();
            let taken = if n == last { given.len() } else { given.len().min(1) };
            filled.push_str(&given[..taken].join(" "));
            &found[1 + length..]
        } else {
            filled.push('$');
            &found[1..]
        };
    }
    filled + rest
}

/// Characters that end the name of a mention, unless there is something of a longer name.
const MAY_END: &str = ",;\"'()<>[]{}";

/// The most characters of [`MAY_END`] in a name.
const MAX_ENDS: usize = 16;

/// Possible mentions in a text: the words after an `@` that follows a space or begins a line, each once. `exists` says
/// whether there is such a file; the longest name of one is taken, or else the shortest.
pub(super) fn mentions(text: &str, exists: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut end = 0;
    for (at, _) in text.match_indices('@') {
        let joined = |c: char| c.is_alphanumeric() || matches!(c, '_' | '`' | '.');
        if at < end || text[..at].chars().next_back().is_some_and(joined) {
            continue;
        }
        let rest = &text[at + 1..];
        let word =
            rest.find(|c: char| c.is_whitespace() || c == '`').map_or(rest, |end| &rest[..end]);
        let ends = word.match_indices(|c| MAY_END.contains(c)).take(MAX_ENDS);
        let mut names: Vec<&str> = ends.map(|(end, _)| &word[..end]).collect();
        names.push(word);
        let names =
            names.into_iter().flat_map(|name| [name.trim_end_matches(['.', ':', '!', '?']), name]);
        let mut names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        names.dedup();
        let Some(shortest) = names.first() else { continue };
        let name = names.iter().rev().find(|name| exists(name)).unwrap_or(shortest);
        end = at + 1 + name.len();
        if !found.contains(name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filled template, with shell lines in brackets.
    fn filled(template: &str, arguments: &str) -> String {
        let shown = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Shell(line) => format!("[{line}]"),
        };
        fill(template, arguments).iter().map(shown).collect()
    }

    #[test]
    fn arguments_are_put_in() {
        for (template, arguments, expected) in [
            ("Do $ARGUMENTS now", "a  \"b c\"", "Do a  \"b c\" now"),
            ("$1 and $2", "a b c d", "a and b c d"),
            ("$1", "a 'b c' d", "a b c d"),
            ("$2, $1", "'a b' c", "c, a b"),
            ("$1-$2-$3", "a", "a--"),
            ("$1 $1 $2", "a b c", "a a b c"),
            ("$1 $ARGUMENTS", "$2 x", "$2 x $2 x"),
            ("plain", "", "plain"),
            ("plain\n", "more of it", "plain\n\nmore of it"),
            ("cost $5000 $x $0 $", "", "cost $5000 $x $0 $"),
            ("$10 $9", "1 2 3 4 5 6 7 8 9 10 11", "10 11 9"),
            ("$1", "\"\" x", " x"),
            ("$1|$2", "it's fine, isn't it", "it's|fine, isn't it"),
            ("$1|$2", "'it's fine' x", "it's fine|x"),
            ("$1|$2", "\"open x", "\"open|x"),
            ("$1|$2", "5\" x", "5\"|x"),
            ("see !`git log $1` for $1", "a b", "see [git log a b] for a b"),
            ("$1", "!`rm x`", "!`rm x`"),
            ("!`` and !`open", "", "!`` and !`open"),
            ("!`a`!`b`", "", "[a][b]"),
        ] {
            assert_eq!(filled(template, arguments), expected, "{template:?} {arguments:?}");
        }
    }

    #[test]
    fn files_are_found_by_their_sign() {
        for (text, expected) in [
            ("see @src/a.rs, @b.md.", &["src/a.rs", "b.md"][..]),
            ("@a @a (@b)", &["a", "b"]),
            ("ann@example.org `@c` @", &[]),
            ("see @app/[id]/page.tsx, @app/[id] ok", &["app/[id]/page.tsx", "app/"]),
            ("(@a(1).md) @b's c", &["a(1).md", "b"]),
            ("@pkg/@scope/x.ts", &["pkg/@scope/x.ts"]),
            ("@a,b;c&d'e.txt, @f.", &["a,b;c&d'e.txt", "f."]),
            ("@./x/y-z_1.txt: what?", &["./x/y-z_1.txt"]),
            ("@~/notes.md", &["~/notes.md"]),
        ] {
            let there = ["app/[id]/page.tsx", "a(1).md", "a,b;c&d'e.txt", "f."];
            assert_eq!(mentions(text, |name| there.contains(&name)), expected, "{text}");
        }
    }
}
