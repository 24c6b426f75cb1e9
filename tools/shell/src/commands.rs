//! The patterns that rules see of a line, one for each command, and the patterns that "always" would allow.

use std::collections::HashSet;

use crate::step::{Run, Step};
use crate::word::{Word, expanded};
use crate::{arity, assignments, cut, globals, parse, wrappers};

/// Stands for a command that is not known before it runs. A rule for `*` matches it, and nothing
/// narrower that does not mean it.
pub(crate) use leftfold_events::rules::{DYNAMIC, EVALUATED};

/// Most bytes of all patterns of a line; with more it is judged as one that is not understood.
const MAX_PATTERNS: usize = 512 * 1024;

/// Most bytes of the patterns of what is not known in a line; with more, the line may be anything.
const MAX_UNREADABLE: usize = 16 * 1024;

/// The steps of a line, cut if it is not understood.
pub(crate) fn steps(line: &str) -> Vec<Step> {
    parse::steps(line).unwrap_or_else(|| cut::steps(line))
}

/// Facts that the judge knows apart from the line.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// Variables that the shell passes on to commands, because it has inherited them.
    pub(crate) exported: HashSet<String>,
    /// The steps that only change to a folder in the worktree. Rules don't judge them if there is
    /// something else to judge.
    pub(crate) moves: HashSet<usize>,
}

/// Patterns of a line, and those that "always" would allow from now on.
pub(crate) fn judged(
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
            Step::Unreadable | Step::Unknown => vec![(DYNAMIC.to_owned(), None)],
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

/// The parts of a line that the judge cannot read: commands and values that are not known before it runs.
pub(crate) fn unreadable(steps: &[Step]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for step in steps {
        match step {
            Step::Unreadable => found.push(DYNAMIC.to_owned()),
            Step::Unknown => found.push(EVALUATED.to_owned()),
            Step::Run(run) => found.extend(partly_known(run)),
            Step::Assignment(_)
            | Step::Assign(..)
            | Step::Function
            | Step::Redirect { .. }
            | Step::Enter
            | Step::Leave
            | Step::Perhaps
            | Step::Joined => {}
        }
    }
    found.sort();
    found.dedup();
    if found.iter().map(String::len).sum::<usize>() > MAX_UNREADABLE {
        found.retain(|text| matches!(text.as_str(), DYNAMIC | EVALUATED));
        found.push(EVALUATED.to_owned());
    }
    found
}

/// The patterns of a command with [`DYNAMIC`] in the places of values that are not known.
fn partly_known(run: &Run) -> Vec<String> {
    let Some(name) = run.name() else { return vec![DYNAMIC.to_owned()] };
    let shown = |word: &Word| {
        let literal = word.literal();
        let is_replaced = |text: &String| run.replaced.as_ref().is_some_and(|it| text.contains(it));
        match literal {
            Some(text) if !is_replaced(&text) => text,
            Some(_) => DYNAMIC.to_owned(),
            None => word.known_start() + DYNAMIC,
        }
    };
    let mut words: Vec<String> = run.words[1..].iter().map(shown).collect();
    if run.fed {
        words.push(DYNAMIC.to_owned());
    }
    let (mut readings, whole) = globals::without(wrappers::base(&name), &words);
    readings.extend(names(&name).into_iter().map(|name| [&[name.to_owned()], &words[..]].concat()));
    let mut found: Vec<String> = readings.into_iter().map(|words| words.join(" ")).collect();
    found.retain(|text| text.contains(DYNAMIC));
    found.extend((!whole).then(|| EVALUATED.to_owned()));
    found
}

/// The name of a program, and its last part if the name is a path that leads away: a rule for `rm` is a rule for `/bin/rm`
/// too.
fn names(name: &str) -> Vec<&str> {
    let leads_away = name.starts_with(['/', '~']) || name.split('/').any(|part| part == "..");
    let base = wrappers::base(name);
    if leads_away && !base.is_empty() && base != name { vec![name, base] } else { vec![name] }
}

/// The patterns of one command with what "always" would make of them. A rule for `git push` is one for
/// `git -C sub push` too.
fn named(run: &Run) -> Vec<(String, Option<String>)> {
    let Some(name) = run.name() else { return vec![(DYNAMIC.to_owned(), None)] };
    let mut found: Vec<_> = names(&name).into_iter().map(|name| pattern(run, name)).collect();
    let words: Vec<String> = expanded(&run.words[1..]).iter().map(Word::shown).collect();
    let (readings, whole) = globals::without(wrappers::base(&name), &words);
    for reading in readings {
        let text = with_redirects(&reading, run);
        let offered = exact(&text);
        found.push((text, offered));
    }
    if !whole {
        found.push((DYNAMIC.to_owned(), None));
    }
    found
}

fn with_redirects(words: &[String], run: &Run) -> String {
    words.iter().chain(&run.redirects).map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// The patterns of "always" for a line that gets the network: its commands with these arguments, and none if a file of
/// the project may be what runs, or if a part of the line is not known. `is_installed` says of a name that it is no
/// program of the project.
pub(crate) fn alone(
    steps: &[Step],
    patterns: &[String],
    is_installed: impl Fn(&str) -> bool,
) -> Vec<String> {
    let is_known = |step: &Step| match step {
        Step::Run(run) => {
            let words: Option<Vec<String>> = run.words[1..].iter().map(Word::literal).collect();
            let name = run.name().filter(|name| is_installed(name));
            let known = name.zip(words).filter(|_| !run.fed && run.given.is_empty());
            known.is_some_and(|(name, words)| arity::runs_no_file(wrappers::base(&name), &words))
        }
        Step::Unreadable | Step::Unknown | Step::Assignment(_) | Step::Function => false,
        Step::Assign(..)
        | Step::Redirect { .. }
        | Step::Enter
        | Step::Leave
        | Step::Perhaps
        | Step::Joined => true,
    };
    let all: Option<Vec<String>> = patterns.iter().map(|text| exact(text)).collect();
    all.filter(|_| steps.iter().all(is_known)).unwrap_or_default()
}

fn pattern(run: &Run, name: &str) -> (String, Option<String>) {
    let mut words = vec![name.to_owned()];
    words.extend(run.words[1..].iter().map(Word::shown));
    let text = with_redirects(&words, run);
    let writes = run.redirects.iter().any(|redirect| writes_file(redirect));
    let narrow = writes || run.assigns || arity::is_exact(name);
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
    let count = arity::for_words(words);
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
