//! The patterns that rules see of a line, one for each command, and the patterns that "always" would allow.

use std::collections::HashSet;

use super::step::{Run, Step};
use super::word::Word;
use super::{arity, assignments, cut, parse, wrappers};

/// Stands for a command that is not known before it runs. A rule for `*` matches it, and nothing
/// narrower that does not mean it.
pub(super) use leftfold_events::rules::DYNAMIC;

/// Most bytes of all patterns of a line; with more it is judged as one that is not understood.
const MAX_PATTERNS: usize = 512 * 1024;

/// The steps of a line, cut if it is not understood.
pub(super) fn steps(line: &str) -> Vec<Step> {
    parse::steps(line).unwrap_or_else(|| cut::steps(line))
}

/// Facts that the judge knows apart from the line.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// Variables that the shell passes on to commands, because it has inherited them.
    pub(super) exported: HashSet<String>,
    /// The steps that only change to a folder in the worktree. Rules don't judge them if there is
    /// something else to judge.
    pub(super) moves: HashSet<usize>,
}

/// Patterns of a line, and those that "always" would allow from now on.
pub(super) fn judged(
    line: &str,
    steps: &[Step],
    surroundings: &Surroundings,
) -> (Vec<String>, Vec<String>) {
    let judged = patterns(line, steps, surroundings, true);
    if judged.0.is_empty() { patterns(line, steps, surroundings, false) } else { judged }
}

/// With `skips`, nothing is said of commands that only change to a folder in the worktree.
fn patterns(
    line: &str,
    steps: &[Step],
    surroundings: &Surroundings,
    skips: bool,
) -> (Vec<String>, Vec<String>) {
    let (mut patterns, mut always) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    let mut bytes = 0;
    for (at, step) in steps.iter().enumerate() {
        let found = match step {
            Step::Run(_) if skips && surroundings.moves.contains(&at) => Vec::new(),
            Step::Run(run) => named(run),
            Step::Assignment(word) => vec![(word.shown(), exact(&word.shown()))],
            Step::Unknown => vec![(DYNAMIC.to_owned(), None)],
            Step::Assign(name, value) if surroundings.exported.contains(name) => {
                let value = value.as_ref().map_or_else(|| DYNAMIC.to_owned(), Word::shown);
                let text = format!("{name}={value}");
                match assignments::is_harmless(&Word::new(&text)) {
                    true => Vec::new(),
                    false => vec![(text.clone(), exact(&text))],
                }
            }
            Step::Assign(..)
            | Step::Function
            | Step::Redirect { .. }
            | Step::Enter
            | Step::Leave
            | Step::Perhaps
            | Step::Joined => Vec::new(),
        };
        for (pattern, offered) in
            found.into_iter().filter(|(pattern, _)| seen.insert(pattern.clone()))
        {
            bytes += pattern.len();
            patterns.push(pattern);
            always.push(offered);
        }
    }
    if patterns.is_empty() {
        if skips && !surroundings.moves.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let line = line.trim();
        return (vec![line.to_owned()], exact(line).into_iter().collect());
    }
    if bytes > MAX_PATTERNS {
        return (vec![DYNAMIC.to_owned()], Vec::new());
    }
    // what is not known can be allowed once, never for ever
    let mut always: Vec<String> = always.into_iter().collect::<Option<_>>().unwrap_or_default();
    always.sort();
    always.dedup();
    (patterns, always)
}

/// The pattern of one command with what "always" would make of it; two if the program is named by a
/// path that leads away, so that a rule for `rm` is a rule for `/bin/rm` too.
fn named(run: &Run) -> Vec<(String, Option<String>)> {
    let Some(name) = run.name() else { return vec![(DYNAMIC.to_owned(), None)] };
    let mut found = vec![pattern(run, &name)];
    let leads_away = name.starts_with(['/', '~']) || name.split('/').any(|part| part == "..");
    let base = wrappers::base(&name);
    if leads_away && !base.is_empty() && base != name {
        found.push(pattern(run, base));
    }
    found
}

fn pattern(run: &Run, name: &str) -> (String, Option<String>) {
    let mut words = vec![name.to_owned()];
    words.extend(run.words[1..].iter().map(Word::shown));
    let text = words.iter().chain(&run.redirects).map(String::as_str).collect::<Vec<_>>().join(" ");
    let writes = run.redirects.iter().any(|redirect| writes_file(redirect));
    let narrow = writes || run.assigns || arity::is_exact(wrappers::base(name));
    let prefix = if narrow { None } else { prefix(run, &words) };
    let offered = match prefix {
        Some(prefix) => Some(format!("{prefix} *")),
        None => exact(&text),
    };
    (text, offered)
}

fn writes_file(redirect: &str) -> bool {
    let target = redirect.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&');
    let Some((_, target)) = target.split_once('>') else { return false };
    let target = target.trim_start_matches(['>', '|']).trim();
    let descriptor = target.strip_prefix('&').is_some_and(|rest| {
        let rest = rest.trim();
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    });
    !descriptor && target != "/dev/null"
}

/// The words that say what a command does, if they stand in the line and at its start.
fn prefix(run: &Run, words: &[String]) -> Option<String> {
    let count = arity::of(words);
    let plain = |word: &String| {
        let odd = |c: char| c.is_whitespace() || matches!(c, '*' | '?');
        !word.is_empty() && !word.contains(odd)
    };
    let fits = words.len() >= count
        && run.words[..count].iter().all(|word| word.literal().is_some())
        && words[..count].iter().all(plain)
        && words[1..count].iter().all(|word| !word.starts_with('-'));
    fits.then(|| words[..count].join(" "))
}

/// A rule for this text alone. Rules have no quoting: a word `*` becomes `?`, which can stand for no second
/// argument. There is no rule for a text with other wildcards: `find . -name a*-delete` would become a rule for
/// `find . -name a -delete` too.
fn exact(text: &str) -> Option<String> {
    let words = text.split(' ').map(|word| match word {
        "*" => Some("?"),
        word if word.contains(['*', '?']) => None,
        word => Some(word),
    });
    Some(words.collect::<Option<Vec<_>>>()?.join(" "))
}
