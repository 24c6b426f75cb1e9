//! Builtins of the shell that evaluate their arguments, or that change how later text is read.
//!
//! `printf -v 'a[$(rm x)]' y` runs `rm x`, because a builtin that takes the name of a variable evaluates
//! a subscript in it. Each function here accepts the forms that are certain to be harmless; every other
//! form is unknown.

use crate::assignments;
use crate::expansions;
use crate::word::{self, Word};

/// A side effect of a builtin that its name does not tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It may run a command that does not stand in the line.
    Unknown,
    /// It assigns to a variable that decides what other commands do. The word is the assignment, or the
    /// name alone.
    Assigns(Word),
}

/// Options of `set` by name that change neither parsing nor the environment.
const SET_OPTIONS: &[&str] = &[
    "errexit", "errtrace", "functrace", "hashall", "ignoreeof", "monitor", "noclobber", "noexec",
    "noglob", "notify", "nounset", "physical", "pipefail", "verbose", "xtrace",
];

/// Options of `shopt` that change neither parsing nor what a name runs.
const SHOPT_OPTIONS: &[&str] = &[
    "checkwinsize", "dotglob", "failglob", "globasciiranges", "globstar", "huponexit",
    "inherit_errexit", "lastpipe", "nocaseglob", "nocasematch", "nullglob", "xpg_echo",
];

/// The effects of a command, if it is such a builtin. `declares` says that the shell reads the words as
/// those of a declaration, without splitting values.
pub(crate) fn effects(words: &[Word], declares: bool) -> Vec<Effect> {
    let Some(name) = words.first().and_then(Word::literal) else { return Vec::new() };
    let rest = &words[1..];
    let effects = match name.as_str() {
        "printf" => printf(rest),
        "read" => names(rest, "adinNptu", "ers"),
        "mapfile" | "readarray" => names(rest, "dnOsu", "t"),
        "getopts" => getopts(rest),
        "wait" => wait(rest),
        "unset" => unset(rest),
        "let" => rest.iter().all(is_arithmetic).then(Vec::new),
        "declare" | "typeset" | "local" => declaration(rest, declares, false),
        "export" | "readonly" => declaration(rest, declares, true),
        "test" => is_plain_test(rest).then(Vec::new),
        "[" => is_plain_test(rest.split_last().map_or(rest, |(_, rest)| rest)).then(Vec::new),
        "set" => is_plain_set(rest).then(Vec::new),
        "shopt" => is_plain_shopt(rest).then(Vec::new),
        "hash" => only_options(rest, "dltr").then(Vec::new),
        "jobs" => only_options(rest, "lnprs").then(Vec::new),
        "trap" | "source" | "." => is_certain(rest).then(Vec::new),
        "alias" | "bind" | "compgen" | "complete" | "compopt" | "enable" | "fc" | "history" => {
            rest.is_empty().then(Vec::new)
        }
        _ => Some(Vec::new()),
    };
    effects.unwrap_or_else(|| vec![Effect::Unknown])
}

/// Whether no word may become several, or an option.
fn is_certain(words: &[Word]) -> bool {
    words.iter().all(|word| word.literal().is_some() || word.is_single())
}

fn only_options(words: &[Word], letters: &str) -> bool {
    words.iter().all(|word| {
        let literal = word.literal();
        literal.is_some_and(|text| match text.strip_prefix('-') {
            Some(options) => options.chars().all(|option| letters.contains(option)),
            None => true,
        })
    })
}

fn is_arithmetic(word: &Word) -> bool {
    word.literal().is_some_and(|text| expansions::is_literal_arithmetic(&text))
}

/// A number such as `$!` or `"$?"`, which can be neither an option nor a name.
fn is_number(word: &Word) -> bool {
    let unquoted = word.0.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    matches!(unquoted.unwrap_or(&word.0), "$!" | "$?" | "$#" | "$$")
}

/// Assigning to a variable by its name alone.
fn assigned(name: &str) -> Option<Vec<Effect>> {
    let name = match name.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some((name, index)) if expansions::is_literal_subscript(index) => name,
        Some(_) => return None,
        None => name,
    };
    if !word::is_name(name) {
        return None;
    }
    let judged = assignments::is_decisive(name);
    Some(judged.then(|| Effect::Assigns(Word::new(name))).into_iter().collect())
}

/// `-v NAME`, then the format, in which `%n` assigns to the variable that an argument names.
fn printf(words: &[Word]) -> Option<Vec<Effect>> {
    let Some(first) = words.first() else { return Some(Vec::new()) };
    let text = match first.literal() {
        Some(text) => text,
        // a value in quotes after a text cannot be an option
        None if first.starts_plain() => return formatted(words),
        None => return None,
    };
    match text.strip_prefix("-v") {
        Some("") => {
            let mut found = assigned(&words.get(1)?.literal()?)?;
            found.extend(formatted(&words[2..])?);
            Some(found)
        }
        Some(name) => {
            let mut found = assigned(name)?;
            found.extend(formatted(&words[1..])?);
            Some(found)
        }
        None if text == "--" => formatted(&words[1..]),
        None if text == "-" || !text.starts_with('-') => formatted(words),
        None => None,
    }
}

/// A format and its arguments.
fn formatted(words: &[Word]) -> Option<Vec<Effect>> {
    let Some((format, arguments)) = words.split_first() else { return Some(Vec::new()) };
    match format.literal() {
        Some(format) if !has_conversion(&format, 'n') => return Some(Vec::new()),
        // it may hold `%n`, but nothing follows to which that could assign
        None if format.is_single() && arguments.is_empty() => return Some(Vec::new()),
        None if !format.is_single() => return None,
        Some(_) | None => {}
    }
    let mut found = Vec::new();
    for argument in arguments {
        let text = argument.literal()?;
        if word::is_name(&text) {
            found.extend(assigned(&text)?);
        } else if text.contains('[') {
            return None;
        }
    }
    Some(found)
}

/// Whether a format of `printf` holds a conversion by this letter.
fn has_conversion(format: &str, letter: char) -> bool {
    let mut rest = format;
    while let Some((_, behind)) = rest.split_once('%') {
        let behind = behind
            .trim_start_matches(|c: char| c.is_ascii_digit() || "#-+ 0'.*hjlLqtz".contains(c));
        if behind.starts_with(letter) {
            return true;
        }
        rest = behind.strip_prefix('%').unwrap_or(behind);
    }
    false
}

/// Options, then names of variables. `valued` options take a word.
fn names(words: &[Word], valued: &str, flags: &str) -> Option<Vec<Effect>> {
    let mut found = Vec::new();
    let mut words = words.iter();
    let mut options = true;
    while let Some(word) = words.next() {
        let text = word.literal()?;
        match text.strip_prefix('-').filter(|_| options) {
            Some("-") => options = false,
            Some(letters) => {
                let end = letters.find(|letter| !flags.contains(letter)).unwrap_or(letters.len());
                let Some(option) = letters[end..].chars().next() else { continue };
                if !valued.contains(option) {
                    return None;
                }
                let value = &letters[end + option.len_utf8()..];
                // of an array, a prompt or a number; only the array is a name
                match (option, value.is_empty()) {
                    ('a', true) => found.extend(assigned(&words.next()?.literal()?)?),
                    ('a', false) => found.extend(assigned(value)?),
                    (_, true) if !words.next()?.is_single() => return None,
                    (_, _) => {}
                }
            }
            None => {
                options = false;
                found.extend(assigned(&text)?);
            }
        }
    }
    Some(found)
}

/// Letters and a name; the rest are values.
fn getopts(words: &[Word]) -> Option<Vec<Effect>> {
    words.first().map_or(Some(()), |letters| letters.literal().map(drop))?;
    match words.get(1) {
        Some(name) => assigned(&name.literal()?),
        None => Some(Vec::new()),
    }
}

fn wait(words: &[Word]) -> Option<Vec<Effect>> {
    let plain = |word: &Word| {
        is_number(word)
            || word
                .literal()
                .is_some_and(|text| matches!(text.as_str(), "-n" | "-f") || !text.starts_with('-'))
    };
    words.iter().all(plain).then(Vec::new)
}

fn unset(words: &[Word]) -> Option<Vec<Effect>> {
    let mut found = Vec::new();
    for word in words {
        let text = word.literal()?;
        match text.as_str() {
            "-v" | "-f" | "-n" | "--" => {}
            name => found.extend(assigned(name)?),
        }
    }
    Some(found)
}

/// `keeps_text` says that a value stays text even if it looks like the value of an array.
fn declaration(words: &[Word], declares: bool, keeps_text: bool) -> Option<Vec<Effect>> {
    let mut found = Vec::new();
    let (mut options, mut functions, mut arrays) = (true, false, false);
    for word in words {
        let source = word.0.as_str();
        let literal = word.literal();
        if let Some(text) =
            literal.as_deref().filter(|text| options && text.starts_with(['-', '+']))
        {
            if text == "--" {
                options = false;
                continue;
            }
            let plain = |letter| "aAfFglprtux".contains(letter) || (keeps_text && letter == 'n');
            if !text[1..].chars().all(plain) {
                return None;
            }
            functions |= text.contains(['f', 'F']);
            arrays |= text.contains(['a', 'A']);
            continue;
        }
        options = false;
        // unquoted up to the value, so that its name is certain
        let plain =
            source.split_once('=').filter(|(name, _)| word::is_name(name.trim_end_matches('+')));
        if let Some((name, value)) = plain {
            let compound = declares && value.starts_with('(');
            let text = Word::new(value).literal().filter(|text| !text.starts_with('('));
            if !compound && text.is_none() && !(declares && keeps_text && !arrays) {
                return None;
            }
            if assignments::is_decisive(name.trim_end_matches('+')) {
                found.push(Effect::Assigns(word.clone()));
            }
            continue;
        }
        let text = literal?;
        match text.split_once('=') {
            Some((_, value)) if value.starts_with('(') => return None,
            Some((name, _)) => {
                let name = name.trim_end_matches('+');
                assigned(name)?;
                if assignments::is_decisive(name) {
                    found.push(Effect::Assigns(word.clone()));
                }
            }
            None if functions => {}
            // declaring it without a value leaves the value as it is
            None => drop(assigned(&text)?),
        }
    }
    Some(found)
}

/// Whether the words of `test` or `[` hold no `-v` with a subscript, and cannot come to.
fn is_plain_test(words: &[Word]) -> bool {
    let literals: Option<Vec<String>> = words.iter().map(Word::literal).collect();
    if let Some(texts) = literals {
        let tests_name = |at: &usize| matches!(texts[*at].as_str(), "-v" | "-R");
        return (0..texts.len())
            .filter(tests_name)
            .all(|at| texts.get(at + 1).is_none_or(|name| word::is_name(name)));
    }
    let negated = words.first().is_some_and(|word| word.0 == "!");
    let words = &words[usize::from(negated)..];
    let single = |word: &Word| word.is_single() || is_number(word);
    let literal = |word: &Word| word.literal().filter(|text| !matches!(text.as_str(), "-v" | "-R"));
    match words {
        [only] => single(only),
        [operator, value] => literal(operator).is_some() && single(value),
        [left, operator, right] => {
            literal(operator).is_some_and(|text| is_binary(&text)) && single(left) && single(right)
        }
        _ => false,
    }
}

fn is_binary(operator: &str) -> bool {
    const BINARY: &[&str] =
        &["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];
    BINARY.contains(&operator)
}

fn is_plain_set(words: &[Word]) -> bool {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else { return false };
        if matches!(text.as_str(), "--" | "-") || !text.starts_with(['-', '+']) {
            return true;
        }
        if !text[1..].chars().all(|letter| "bBCeEfhmnopPtTuvx".contains(letter)) {
            return false;
        }
        if text.contains('o') {
            let Some(name) = words.next() else { return true };
            if !name.literal().is_some_and(|name| SET_OPTIONS.contains(&name.as_str())) {
                return false;
            }
        }
    }
    true
}

fn is_plain_shopt(words: &[Word]) -> bool {
    words.iter().all(|word| {
        word.literal().is_some_and(|text| {
            matches!(text.as_str(), "-s" | "-u" | "-q" | "-p")
                || SHOPT_OPTIONS.contains(&text.as_str())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<Effect> {
        let words: Vec<Word> = line.split(' ').map(Word::new).collect();
        let declares = matches!(words[0].0.as_str(), "declare" | "export" | "local");
        effects(&words, declares)
    }

    #[test]
    fn harmless_forms() {
        for line in [
            "printf %s\\n \"$x\"", "printf -v x %s $y", "read -r x", "read -rp \"$p\" x",
            "read -ra words", "mapfile -t x", "getopts ab x $y", "wait $!", "wait", "unset x",
            "unset 'x[0]'", "let 1+2", "declare x=1", "declare -r x=1 y", "export x=$y",
            "export -n x", "declare -f f", "local x", "test -n \"$x\"", "[ \"$x\" = a ]",
            "[ $# -gt 1 ]", "[ -v x ]", "[ ! -f \"$x\" ]", "set -euo pipefail", "set -- $x",
            "shopt -s nullglob", "hash -r", "jobs -l", "echo $x", "trap \"$x\" EXIT",
            "declare x=(a",
        ] {
            assert_eq!(of(line), [], "{line}");
        }
    }

    #[test]
    fn everything_else_is_unknown() {
        for line in [
            "printf -v a[x] y", "printf $x", "printf -- $x", "printf a$x", "printf %n $x",
            "printf \"$x\" y", "printf -v $x y", "printf -va[x] y", "read a[x]", "read $x",
            "read -a a[x]", "read -a $x", "mapfile a[x]", "mapfile -C a x", "getopts a a[x]",
            "wait -p x", "wait $x", "unset a[x]", "unset $x", "let x", "let a[x]=1",
            "declare a[x]=1", "declare -i x", "declare -n x", "declare x=$y", "declare $x",
            "declare 'x=(a)'", "typeset x=(a", "export -a x=$y", "readonly x=$y", "test -v a[x]",
            "[ -v $x ]", "[ $x ]", "[ $x = a ]", "[ a -o $x ]", "set -a", "set -k", "set -o posix",
            "set $x", "shopt -s expand_aliases", "shopt -s extglob", "alias x=y", "hash -p /x y",
            "enable -n echo", "jobs -x a", "compgen -C a", "trap $x", "fc -s", "history -r x",
        ] {
            assert_eq!(of(line), [Effect::Unknown], "{line}");
        }
    }

    #[test]
    fn variables_that_decide_are_named() {
        for (line, word) in [
            ("printf -v PATH x", "PATH"),
            ("printf a%5n PATH", "PATH"),
            ("printf -v x %n PATH", "PATH"),
            ("read PATH", "PATH"),
            ("unset PATH", "PATH"),
            ("export PATH=x", "PATH=x"),
            ("typeset PATH=x", "PATH=x"),
            ("getopts a OPTIND", "OPTIND"),
        ] {
            assert_eq!(of(line), [Effect::Assigns(Word::new(word))], "{line}");
        }
    }
}
