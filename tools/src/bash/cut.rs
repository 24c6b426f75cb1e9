//! Lines that are not understood: cut wherever a shell might begin another command, inside quotes
//! too. So no command in them goes unseen, and a line that is cut too often is asked about and not
//! waved on.

use super::check::RESERVED;
use super::step::{Run, Step};
use super::word::Word;
use super::wrappers::{self, Inner, is_assignment};

/// How deep commands may be in wrappers here.
const MAX_WRAPPERS: usize = 8;

/// Always with [`Step::Unknown`]: only a rule for everything allows such a line.
pub(super) fn steps(line: &str) -> Vec<Step> {
    let mut steps = vec![Step::Unknown];
    let mut start = 0;
    let ends = line.char_indices().filter(|(at, c)| separates(line, *at, *c)).map(|(at, _)| at);
    for end in ends.chain([line.len()]) {
        let words = line[start..end].split_whitespace().map(plain).filter(|word| !word.is_empty());
        command(words.map(|word| Word::new(&word)).collect(), 0, &mut steps);
        // every separator is one byte long
        start = (end + 1).min(line.len());
    }
    steps
}

/// Without quotes, which may be in the wrong place by now.
fn plain(word: &str) -> String {
    word.chars().filter(|c| !"'\"\\".contains(*c)).collect::<String>()
}

fn command(words: Vec<Word>, depth: usize, steps: &mut Vec<Step>) {
    let skipped = |word: &Word| {
        RESERVED.contains(&word.0.as_str()) || is_assignment(&word.0) || word.0 == "$"
    };
    let words: Vec<Word> = words.into_iter().skip_while(skipped).collect();
    if words.is_empty() || depth > MAX_WRAPPERS {
        return;
    }
    let opens = words.iter().position(|word| word.0 == "{");
    if let Some(at) = opens {
        command(words[at + 1..].to_vec(), depth + 1, steps);
    }
    for inner in wrappers::inner(&words, None) {
        match inner {
            Inner::Command(words) | Inner::Fed(words) => command(words, depth + 1, steps),
            Inner::Line(line) => {
                command(line.split_whitespace().map(Word::new).collect(), depth + 1, steps);
            }
            Inner::Unknown => {}
        }
    }
    let mut run = Run::new(words);
    run.fed = true;
    steps.push(Step::Run(run));
}

fn separates(line: &str, at: usize, c: char) -> bool {
    match c {
        '\n' | ';' | '|' | '(' | ')' | '`' => true,
        // but `2>&1` and `&>file` only say where output goes
        '&' => !line[..at].ends_with('>') && !line[at + 1..].starts_with('>'),
        _ => false,
    }
}
