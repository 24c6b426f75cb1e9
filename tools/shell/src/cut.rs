//! Lines that are not understood: cut wherever a shell might begin another command, inside quotes
//! too. So no command in them goes unseen, and a line that is cut too often is asked about and not
//! waved on.

use crate::check::RESERVED;
use crate::inner::Inner;
use crate::step::{Run, Step};
use crate::word::Word;
use crate::wrappers::{self, is_assignment};

/// How deep commands may be in wrappers here.
const MAX_WRAPPERS: usize = 8;

/// Most redirections that are looked at; a line with more of them has one that is unknown.
const MAX_REDIRECTIONS: usize = 1_000;

/// Always with [`Step::Unreadable`]: only a rule for everything allows such a line.
pub(crate) fn steps(line: &str) -> Vec<Step> {
    let mut steps = vec![Step::Unreadable];
    let mut start = 0;
    let ends = line.char_indices().filter(|(at, c)| separates(line, *at, *c)).map(|(at, _)| at);
    for end in ends.chain([line.len()]) {
        let words = line[start..end].split_whitespace().map(plain).filter(|word| !word.is_empty());
        command(words.map(|word| Word::new(&word)).collect(), 0, &mut steps);
        // every separator is one byte long
        start = (end + 1).min(line.len());
    }
    steps.extend(redirections(line));
    steps
}

/// Where output may go, and where input may come from. A target of output that is no plain path is unknown.
fn redirections(line: &str) -> Vec<Step> {
    let mut found = Vec::new();
    for (at, operator) in line.match_indices(['<', '>']) {
        let writes = operator == ">";
        let rest =
            line[at + 1..].trim_start_matches(['>', '|', '&']).trim_start_matches([' ', '\t']);
        let separates = |c: char| c.is_whitespace() || ";&|()<>`".contains(c);
        let target = &rest[..rest.find(separates).unwrap_or(rest.len())];
        let descriptor = target.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        if descriptor && !target.is_empty() {
            continue;
        }
        let plain = |c: char| c.is_alphanumeric() || "_./,:@%+=-".contains(c);
        let unknown = target.is_empty() || !target.chars().all(plain);
        if unknown && !writes {
            continue;
        }
        let last = found.len() >= MAX_REDIRECTIONS;
        let to = Word::new(if unknown || last { "$*" } else { target });
        found.push(Step::Redirect { to, writes });
        if last {
            break;
        }
    }
    found
}

/// Without quotes, which may be in the wrong place by now.
fn plain(word: &str) -> String {
    word.chars().filter(|c| !"'\"\\".contains(*c)).collect::<String>()
}

fn command(words: Vec<Word>, depth: usize, steps: &mut Vec<Step>) {
    let reserved = |word: &Word| RESERVED.contains(&word.0.as_str());
    let skipped = |word: &Word| reserved(word) || is_assignment(&word.0) || word.0 == "$";
    let words: Vec<Word> = words.into_iter().skip_while(skipped).collect();
    if words.is_empty() || depth > MAX_WRAPPERS {
        return;
    }
    for inner in wrappers::inner(&words, None, true) {
        match inner {
            Inner::Command(words) | Inner::Fed { words, .. } => command(words, depth + 1, steps),
            Inner::Line(_) | Inner::Assigns(_) | Inner::Unreadable | Inner::Unknown => {}
        }
    }
    // a line for another shell has lost its quotes
    let gives_line = |word: &Word| word.0.starts_with('-') && word.0.ends_with('c');
    let from = words.iter().position(|word| reserved(word) || gives_line(word));
    let from = from.or((words[0].0 == "eval").then_some(0));
    if let Some(at) = from {
        command(words[at + 1..].to_vec(), depth + 1, steps);
    }
    steps.push(Step::Run(Run { fed: true, ..Run::new(words) }));
}

fn separates(line: &str, at: usize, c: char) -> bool {
    match c {
        '\n' | ';' | '|' | '(' | ')' | '`' => true,
        // but `2>&1` and `&>file` only say where output goes
        '&' => !line[..at].ends_with('>') && !line[at + 1..].starts_with('>'),
        _ => false,
    }
}
