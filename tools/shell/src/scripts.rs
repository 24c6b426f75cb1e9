//! Programs of sed and awk, and options that run programs: whether a command with them may run others
//! or write files.
//!
//! Only forms that are certain to be harmless are accepted, as `builtins` does.

use crate::word::{Word, quoted};

/// The effects of a program text in the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// It neither writes files nor runs programs.
    Reads,
    /// It is not known, or the program takes no such text.
    Unknown,
    /// It may write files or run programs.
    Writes,
}

/// Options that run programs: letters, and long options, which may be shortened.
const EXECUTES: &[(&str, &str, &[&str])] = &[
    ("ack", "", &["--pager"]),
    ("ag", "", &["--pager"]),
    ("bat", "", &["--pager"]),
    ("bsdtar", "", &["--use-compress-program"]),
    ("man", "HP", &["--html", "--pager"]),
    ("rg", "", &["--hostname-bin", "--pre"]),
    ("rsync", "e", &["--rsh"]),
    ("sort", "", &["--compress-program"]),
    ("split", "", &["--filter"]),
    (
        "tar",
        "FI",
        &[
            "--checkpoint-action", "--info-script", "--new-volume-script", "--rmt-command",
            "--rsh-command", "--to-command", "--use-compress-program",
        ],
    ),
    ("zip", "", &["--unzip-command", "-TT"]),
];

/// Whether a command may run others, apart from those that `wrappers` finds. `fed` says that more words
/// follow.
pub(crate) fn executes(name: &str, words: &[Word], fed: bool) -> bool {
    if is_awk(name) || name == "sed" {
        return fed || for_program(name, words) != Script::Reads;
    }
    let Some((_, letters, long)) = EXECUTES.iter().find(|(known, ..)| *known == name) else {
        return false;
    };
    let mut options = true;
    let runs = |word: &Word| {
        let Some(text) = word.literal() else { return options && !word.starts_plain() };
        options &= text != "--";
        let option = text.split('=').next().unwrap_or_default();
        let is_long = option.len() > 2 && long.iter().any(|known| known.starts_with(option));
        let is_short = text.starts_with('-')
            && !text.starts_with("--")
            && text.contains(|c| letters.contains(c));
        options && (is_long || is_short)
    };
    // `tar xIf program`
    let bundled = name == "tar"
        && words.first().is_some_and(|word| word.shown().contains(|c| letters.contains(c)));
    fed || bundled || words.iter().any(runs)
}

/// The effects of the program texts in the arguments of sed or awk.
pub(crate) fn for_program(name: &str, words: &[Word]) -> Script {
    match name {
        "sed" => sed(words),
        _ if is_awk(name) => awk(words),
        _ => Script::Unknown,
    }
}

fn is_awk(name: &str) -> bool {
    matches!(name, "awk" | "gawk" | "mawk" | "nawk" | "original-awk")
}

/// The strictest of the effects of some texts.
fn together(texts: &[&Word], effects: fn(&str) -> Option<()>) -> Script {
    let mut all = Script::Reads;
    for text in texts {
        match text.literal().as_deref().map(effects) {
            Some(Some(())) => {}
            Some(None) => return Script::Writes,
            None => all = Script::Unknown,
        }
    }
    all
}

fn sed(words: &[Word]) -> Script {
    let (mut scripts, mut operands) = (Vec::new(), Vec::new());
    let mut rest = words.iter();
    let mut options = true;
    while let Some(word) = rest.next() {
        let text = match word.literal() {
            Some(text) => text,
            None if options && !word.starts_plain() => return Script::Unknown,
            None => {
                operands.push(word.clone());
                continue;
            }
        };
        if !options || !text.starts_with('-') || text == "-" {
            operands.push(word.clone());
        } else if text == "--" {
            options = false;
        } else if let Some(long) = text.strip_prefix("--") {
            match long.split_once('=') {
                Some((name, script)) if "expression".starts_with(name) => {
                    scripts.push(Word::new(&quoted(script)));
                }
                None if "expression".starts_with(long) => scripts.extend(rest.next().cloned()),
                _ if "file".starts_with(long.split('=').next().unwrap_or_default()) => {
                    return Script::Unknown;
                }
                _ => {}
            }
        } else {
            let letters = &text[1..];
            let end = letters.find(['e', 'f', 'i', 'l']).unwrap_or(letters.len());
            let value = letters.get(end + 1..).unwrap_or_default();
            match letters[end..].chars().next() {
                Some('e') if value.is_empty() => scripts.extend(rest.next().cloned()),
                Some('e') => scripts.push(Word::new(&quoted(value))),
                Some('f') => return Script::Unknown,
                Some('l') if value.is_empty() => drop(rest.next()),
                _ => {}
            }
        }
    }
    if scripts.is_empty() {
        scripts.extend(operands.first().cloned());
    }
    together(&scripts.iter().collect::<Vec<_>>(), sed_reads)
}

/// Whether a program of sed has only commands that print and change text.
fn sed_reads(script: &str) -> Option<()> {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches(|c: char| {
            c.is_ascii_whitespace() || c.is_ascii_digit() || ";{}!,$~+".contains(c)
        });
        let Some(c) = rest.chars().next() else { return Some(()) };
        rest = &rest[c.len_utf8()..];
        match c {
            '/' => rest = delimited(rest, '/')?.trim_start_matches(['I', 'M']),
            '\\' => {
                let end = rest.chars().next()?;
                rest = delimited(&rest[end.len_utf8()..], end)?.trim_start_matches(['I', 'M']);
            }
            's' | 'y' => {
                let end = rest.chars().next().filter(|c| !matches!(c, '\\' | '\n'))?;
                rest = delimited(delimited(&rest[end.len_utf8()..], end)?, end)?;
                let flags = |c: char| c.is_ascii_digit() || "gipIM".contains(c);
                rest = rest.trim_start_matches(flags).trim_start_matches(' ');
                if !(rest.is_empty() || rest.starts_with([';', '\n', '}', '#'])) {
                    return None;
                }
            }
            '=' | 'd' | 'D' | 'F' | 'g' | 'G' | 'h' | 'H' | 'l' | 'n' | 'N' | 'p' | 'P' | 'q'
            | 'Q' | 'x' | 'z' => {}
            'b' | 't' | 'T' | ':' => {
                rest = &rest[rest.find([';', '\n', '}']).unwrap_or(rest.len())..];
            }
            // texts, comments and names of files that are read reach to the end of the line
            'a' | 'c' | 'i' | 'r' | 'R' | '#' => {
                let mut lines = rest.split_inclusive('\n');
                let mut end = 0;
                for line in lines.by_ref() {
                    end += line.len();
                    if !line.trim_end_matches('\n').ends_with('\\') {
                        break;
                    }
                }
                rest = &rest[end..];
            }
            _ => return None,
        }
    }
}

/// The text after the next `end` without a backslash before it.
fn delimited(text: &str, end: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == end {
            return Some(&text[at + c.len_utf8()..]);
        }
    }
    None
}

fn awk(words: &[Word]) -> Script {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = match word.literal() {
            Some(text) => text,
            None => return Script::Unknown,
        };
        match text.as_str() {
            "-F" | "-v" => drop(rest.next()),
            "--" => return rest.next().map_or(Script::Reads, |word| together(&[word], awk_reads)),
            option if option.starts_with("-F") || option.starts_with("-v") => {}
            option if option.starts_with('-') => return Script::Unknown,
            _ => return together(&[word], awk_reads),
        }
    }
    Script::Reads
}

/// Whether a program of awk has neither pipes nor output to files.
fn awk_reads(program: &str) -> Option<()> {
    let mut chars = program.chars().peekable();
    // the last character that is no blank, and the word that ends here
    let (mut before, mut word) = ('\n', String::new());
    let mut prints = false;
    while let Some(c) = chars.next() {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            before = c;
            prints |= word.starts_with("print");
            if word == "system" {
                return None;
            }
            continue;
        }
        word.clear();
        match c {
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' => loop {
                match chars.next()? {
                    '"' => break,
                    '\\' => drop(chars.next()?),
                    _ => {}
                }
            },
            // after a value, it divides
            '/' if "(,{};!~&|\n".contains(before) => loop {
                match chars.next()? {
                    '/' => break,
                    '\\' => drop(chars.next()?),
                    '[' if chars.clone().take_while(|c| *c != ']').any(|c| c == '/') => {
                        return None;
                    }
                    '\n' => return None,
                    _ => {}
                }
            },
            '|' if chars.next_if_eq(&'|').is_none() => return None,
            '>' if prints => return None,
            '@' => return None,
            ';' | '}' => prints = false,
            _ => {}
        }
        if !c.is_ascii_whitespace() || c == '\n' {
            before = c;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_only_print() {
        for script in [
            "1,20p", "$!N;s/a/b/g", "/a/,/b/{p;q}", "s|a/b|c;d|gI; y/ab/cd/", "\\,x,d",
            "/x/a some words; w file", ":a;N;$!ba;s/\\n/ /g", "s/a\\/b/c/2p", "# w file\n1d",
        ] {
            assert_eq!(sed_reads(script), Some(()), "{script}");
        }
        for script in [
            "w out", "1w out", "s/a/b/w out", "s/a/b/e", "1e ls", "e", "s/a/b/ge", "W out", "s/a",
            "s/a/b/ w x", "p;w x", "1!w x", "/x/{w x\n}", "a x\nw y", "\u{e9}",
        ] {
            assert_eq!(sed_reads(script), None, "{script}");
        }
    }

    #[test]
    fn awk_programs_that_only_print() {
        for program in [
            "{print $1}",
            "$1 > 5",
            "NR>=10 && NR<=20 {print; n++}",
            "/a|b/ || x",
            "{ print \"a > b | c\" } # > x",
            "a / b > 1",
            "BEGIN { FS = \"|\" } { s += $2 / 2 } END { printf \"%s\\n\", s }",
        ] {
            assert_eq!(awk_reads(program), Some(()), "{program}");
        }
        for program in [
            "{print > \"x\"}", "{print >> f}", "{print | \"sh\"}", "BEGIN{system(\"x\")}",
            "\"x\" | getline", "{print(a,\nb) > \"x\"}", "{ x = 1 / 2 | \"sh\" / 3 }",
            "@load \"x\"", "BEGIN { f = \"system\"; @f(\"x\") }", "/[/]/ | \"x\"", "\"",
        ] {
            assert_eq!(awk_reads(program), None, "{program}");
        }
    }
}
