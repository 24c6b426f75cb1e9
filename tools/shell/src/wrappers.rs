//! Commands that run other commands: `sudo rm x` is `rm x` too.

use crate::inner::{Inner, joined, line};
use crate::word::{Word, expanded};
use crate::{assignments, git, scripts};

/// A program that runs the rest of its arguments.
struct Wrapper {
    name: &'static str,
    /// Options that take a value as a word of its own.
    valued: &'static [&'static str],
    /// Options without one. What is in neither list may have one or not.
    flags: &'static [&'static str],
    /// Words before the command.
    skipped: usize,
}

const fn wrapper(
    name: &'static str,
    valued: &'static [&'static str],
    flags: &'static [&'static str],
    skipped: usize,
) -> Wrapper {
    Wrapper { name, valued, flags, skipped }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("builtin", &[], &[], 0),
    wrapper("busybox", &[], &[], 0),
    wrapper("caffeinate", &["-t", "-w"], &["-d", "-i", "-m", "-s", "-u"], 0),
    wrapper("chroot", &[], &[], 1),
    wrapper("chrt", &[], &["-b", "-f", "-i", "-o", "-r"], 1),
    wrapper("command", &[], &["-p"], 0),
    wrapper("doas", &["-C", "-u"], &["-L", "-n", "-s"], 0),
    wrapper("env", &["-u", "-C", "--unset", "--chdir"], &["-", "-i", "-0", "-v"], 0),
    wrapper("exec", &["-a"], &["-c", "-l"], 0),
    wrapper("dbus-run-session", &[], &[], 0),
    wrapper("eatmydata", &[], &[], 0),
    wrapper("fakeroot", &[], &[], 0),
    wrapper("flock", &["-w", "-E"], &["-e", "-n", "-o", "-s", "-u", "-x"], 1),
    wrapper("ionice", &["-c", "-n", "-p"], &["-t"], 0),
    wrapper("ltrace", &["-e", "-o", "-p", "-s"], &["-f"], 0),
    wrapper("nice", &["-n", "--adjustment"], &[], 0),
    wrapper("nohup", &[], &[], 0),
    wrapper("nsenter", &[], &[], 0),
    wrapper("numactl", &[], &[], 0),
    wrapper("parallel", &["-j"], &["-k", "-0"], 0),
    wrapper("prlimit", &[], &[], 0),
    wrapper("rlwrap", &[], &[], 0),
    wrapper("setarch", &[], &[], 1),
    wrapper("setpriv", &[], &[], 0),
    wrapper("setsid", &[], &["-c", "-f", "-w", "--fork", "--wait"], 0),
    wrapper("stdbuf", &["-i", "-o", "-e"], &[], 0),
    wrapper("strace", &["-e", "-o", "-p", "-s", "-u"], &["-f", "-ff", "-c", "-t", "-tt", "-y"], 0),
    wrapper(
        "sudo",
        &["-C", "-D", "-g", "-h", "-p", "-R", "-r", "-T", "-t", "-U", "-u", "--user", "--group"],
        &["-A", "-b", "-E", "-H", "-i", "-k", "-n", "-P", "-S", "-s"],
        0,
    ),
    wrapper("systemd-run", &[], &[], 0),
    wrapper("taskset", &[], &[], 1),
    wrapper("time", &["-f", "-o"], &["-a", "-p", "-v"], 0),
    wrapper(
        "timeout",
        &["-k", "-s", "--kill-after", "--signal"],
        &["-v", "--foreground", "--preserve-status", "--verbose"],
        1,
    ),
    wrapper("toybox", &[], &[], 0),
    wrapper("torsocks", &[], &[], 0),
    wrapper("unbuffer", &[], &["-p"], 0),
    wrapper("unshare", &[], &["-f", "-m", "-n", "-p", "-r", "-u", "-U"], 0),
    wrapper(
        "xargs",
        &["-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s", "--max-args", "--max-procs"],
        &["-0", "-o", "-p", "-r", "-t", "-x", "--null", "--no-run-if-empty", "--verbose"],
        0,
    ),
    wrapper("xvfb-run", &["-e", "-f", "-n", "-p", "-s", "-w"], &["-a", "-l"], 0),
];

/// Wrappers that start a shell if they are given no command.
const START_SHELLS: &[&str] =
    &["chroot", "dbus-run-session", "fakeroot", "nsenter", "systemd-run", "unshare"];

/// Programs that read lines for a shell.
const SHELLS: &[&str] = &["ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "zsh"];

/// Programs that run a line they are given, in ways of their own.
const RUNNERS: &[&str] =
    &["eval", "fd", "fdfind", "find", "runuser", "script", "su", "trap", "watch"];

/// Whether `name` runs the rest of its arguments, and has no other effect.
pub(crate) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.name == name)
}

/// Whether allowing `name` for any arguments would allow everything.
pub(crate) fn wraps(name: &str) -> bool {
    let name = base(name);
    SHELLS.contains(&name) || RUNNERS.contains(&name) || is_wrapper(name)
}

/// The last component of a program's path.
pub(crate) fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The commands that `words` run besides themselves. `stdin` is their input, if the line contains it.
/// With `fed`, more words follow that are not known.
pub(crate) fn inner(words: &[Word], stdin: Option<&str>, fed: bool) -> Vec<Inner> {
    let words = expanded(words);
    let Some(name) = words.first().and_then(Word::literal) else { return Vec::new() };
    let (name, rest) = (base(&name), &words[1..]);
    let mut found = match name {
        "eval" => joined(rest),
        "source" | "." => sourced(rest),
        "watch" => watched(rest),
        "trap" => trapped(rest),
        "find" => found(rest),
        "fd" | "fdfind" => searched(rest),
        "git" => git::inner(rest),
        "su" | "runuser" | "script" => line_option(rest),
        "flock" if has(rest, "-c") => line_option(rest),
        "command" if looks_up(rest) => return Vec::new(),
        "env"
            if rest.iter().any(|w| w.shown().starts_with("-S") || w.shown().starts_with("--s")) =>
        {
            vec![Inner::Unreadable]
        }
        _ if SHELLS.contains(&name) => shell(name, rest, stdin),
        _ => match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            Some(wrapper) => wrapper.inner(rest, fed),
            None if scripts::executes(name, rest, fed) => vec![Inner::Unknown],
            None => Vec::new(),
        },
    };
    if fed && (RUNNERS.contains(&name) || name == "git") {
        found.push(Inner::Unknown);
    }
    found
}

/// `command -v NAME` runs nothing.
fn looks_up(words: &[Word]) -> bool {
    let option = |word: &&Word| word.0.starts_with('-');
    words
        .iter()
        .take_while(option)
        .any(|word| matches!(word.0.as_str(), "-v" | "-V" | "-pv" | "-pV"))
}

impl Wrapper {
    fn inner(&self, words: &[Word], fed: bool) -> Vec<Inner> {
        let mut found = Vec::new();
        let (mut at, mut skipped) = (0, self.skipped);
        let assigns = matches!(self.name, "env" | "sudo" | "doas");
        while let Some(word) = words.get(at) {
            let shown = word.shown();
            if shown == "--" {
                at += 1;
                let rest = words.get(at..).unwrap_or_default();
                let count = rest.iter().take_while(|word| assigns && word.0.contains('=')).count();
                found.extend(rest[..count].iter().cloned().filter_map(assigned));
                at += count + skipped;
                break;
            }
            if shown.starts_with('-') {
                let valued = self.valued.contains(&shown.as_str());
                at += 1 + usize::from(valued);
                // `strace -o '|command'`
                let piped = valued && words.get(at - 1).is_none_or(is_piped);
                if piped || !self.knows(&shown) {
                    found.push(Inner::Unreadable);
                }
            } else if is_assignment(&shown) || (assigns && shown.contains('=')) {
                found.extend(assigned(word.clone()));
                at += 1;
            } else if skipped > 0 {
                (at, skipped) = (at + 1, skipped - 1);
            } else {
                break;
            }
        }
        let placeholder =
            if self.name == "xargs" { placeholder(&words[..at.min(words.len())]) } else { None };
        match words.get(at..).filter(|rest| !rest.is_empty()) {
            Some(rest) if matches!(self.name, "xargs" | "parallel") => {
                let appended = placeholder.is_none();
                found.push(Inner::Fed { words: rest.to_vec(), appended, placeholder });
            }
            Some(rest) => found.push(Inner::Command(rest.to_vec())),
            None if fed || self.starts_shell(words) => found.push(Inner::Unreadable),
            None => {}
        }
        // it makes a line for a shell of all that it is given
        if self.name == "parallel" {
            let runs_input = words.get(at).is_none_or(|word| word.0.starts_with(":::"));
            found.push(if runs_input { Inner::Unreadable } else { Inner::Unknown });
        }
        found
    }

    /// Whether it starts a shell, as no command follows the options.
    fn starts_shell(&self, options: &[Word]) -> bool {
        let asks = |word: &Word| is_cluster(&word.shown()) && word.shown().contains(['s', 'i']);
        match self.name {
            "sudo" | "doas" => options.iter().any(asks),
            name => START_SHELLS.contains(&name),
        }
    }

    /// Whether it is certain where an option ends.
    fn knows(&self, option: &str) -> bool {
        let valued = |known: &&'static str| match option.strip_prefix(*known) {
            Some(value) if known.starts_with("--") => value.is_empty() || value.starts_with('='),
            // a value in the same word, as in `-n1`
            Some(value) => !value.contains('|'),
            None => false,
        };
        let number = option.len() > 1 && option[1..].bytes().all(|b| b.is_ascii_digit());
        let cluster = !option.starts_with("--")
            && option[1..].chars().all(|c| self.flags.contains(&format!("-{c}").as_str()));
        self.flags.contains(&option)
            || cluster
            || self.valued.iter().any(valued)
            || (number && self.name == "nice")
    }
}

fn is_piped(word: &Word) -> bool {
    word.literal().is_none_or(|text| text.starts_with(['|', '!']))
}

/// Rules judge the assignment unless it is harmless.
fn assigned(word: Word) -> Option<Inner> {
    (!assignments::is_harmless(&word)).then_some(Inner::Assigns(word))
}

/// The text that `xargs` replaces, if an option says so.
fn placeholder(options: &[Word]) -> Option<String> {
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let text = word.shown();
        if text == "-I" {
            return words.next().map(Word::shown);
        }
        let glued = ["--replace=", "-I", "-i"].iter().find_map(|start| text.strip_prefix(start));
        match glued {
            Some("") => return Some("{}".to_owned()),
            Some(text) => return Some(text.to_owned()),
            None if text.starts_with("--re") => return Some("{}".to_owned()),
            None => {}
        }
    }
    None
}

pub(crate) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| crate::word::is_name(name.trim_end_matches('+')))
}

fn has(words: &[Word], option: &str) -> bool {
    words.iter().any(|word| word.shown() == option)
}

fn watched(words: &[Word]) -> Vec<Inner> {
    let mut at = 0;
    let mut found = Vec::new();
    while let Some(word) = words.get(at).filter(|word| word.shown().starts_with('-')) {
        let option = word.shown();
        let valued = matches!(option.as_str(), "-n" | "--interval");
        let glued = option.strip_prefix("-n").is_some_and(|rest| rest.parse::<f64>().is_ok());
        let flag = option
            .strip_prefix('-')
            .is_some_and(|rest| rest.chars().all(|c| "bcdegtwx".contains(c)));
        if !(valued || glued || flag || option.starts_with("--interval=") || option == "--") {
            found.push(Inner::Unreadable);
        }
        at += if valued { 2 } else { 1 };
    }
    if let Some(rest) = words.get(at..).filter(|rest| !rest.is_empty()) {
        found.extend(joined(rest));
    }
    found
}

fn trapped(words: &[Word]) -> Vec<Inner> {
    let mut words = words.iter().skip_while(|word| word.shown() == "--");
    let handler = words.next().filter(|word| !word.shown().starts_with('-'));
    handler.filter(|_| words.next().is_some()).map(line).unwrap_or_default()
}

/// A file is a program like any other; a stream is not.
fn sourced(words: &[Word]) -> Vec<Inner> {
    let file = words.iter().find(|word| word.0 != "--");
    match file {
        // a file with a name that is not known
        Some(file) if file.varies() && file.is_single() => vec![Inner::Unknown],
        Some(file) if is_stream(file) || file.shown().starts_with('-') => vec![Inner::Unreadable],
        _ => Vec::new(),
    }
}

fn found(words: &[Word]) -> Vec<Inner> {
    let runs =
        |word: &Word| matches!(word.shown().as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let ends = |word: &Word| matches!(word.shown().as_str(), ";" | "+");
    let mut found = Vec::new();
    let mut rest = words;
    while let Some(at) = rest.iter().position(runs) {
        rest = &rest[at + 1..];
        let (command, behind) = rest.split_at(rest.iter().position(ends).unwrap_or(rest.len()));
        rest = behind;
        if !command.is_empty() {
            let placeholder = Some("{}".to_owned());
            found.push(Inner::Fed { words: command.to_vec(), appended: false, placeholder });
        }
    }
    // a word that is not known may be `-exec`, if enough words follow it
    let varies = |word: &&Word| word.literal().is_none() && !word.starts_plain() && word.varies();
    let splits = words.iter().filter(varies).any(|word| !word.is_single());
    let ends = words.iter().filter(|word| ends(word)).count();
    let loose = words.iter().filter(varies).count();
    if splits || loose > 2 || (loose > 0 && ends > found.len()) {
        found.push(Inner::Unknown);
    }
    found
}

fn searched(words: &[Word]) -> Vec<Inner> {
    let runs = |word: &Word| {
        let text = word.shown();
        matches!(text.as_str(), "-x" | "-X") || text.starts_with("--exec")
    };
    let rest = words.iter().position(runs).map(|at| words[at + 1..].to_vec());
    match rest.filter(|rest| !rest.is_empty()) {
        Some(words) => {
            vec![Inner::Fed { words, appended: true, placeholder: Some("{".to_owned()) }]
        }
        None if words.iter().any(|word| {
            is_cluster(&word.shown()) && word.shown().contains(['x', 'X'])
                || word.shown().starts_with("--exec")
        }) =>
        {
            vec![Inner::Unreadable]
        }
        None => Vec::new(),
    }
}

/// The value of `-c`. Without one, these programs start a shell that reads its input.
fn line_option(words: &[Word]) -> Vec<Inner> {
    let is_option = |word: &Word| {
        let shown = word.shown();
        shown == "--command" || (is_cluster(&shown) && shown.ends_with('c'))
    };
    match words.iter().position(is_option) {
        Some(at) => words.get(at + 1).map_or_else(|| vec![Inner::Unreadable], line),
        None => vec![Inner::Unreadable],
    }
}

/// Short options in one word.
fn is_cluster(word: &str) -> bool {
    word.strip_prefix(['-', '+'])
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// Whether the word is not certain to name a file that somebody could have looked at.
fn is_stream(word: &Word) -> bool {
    word.literal()
        .is_none_or(|path| path.split('/').any(|name| matches!(name, "dev" | "proc" | "fd")))
}

/// A script is a program like any other; a line, or input, is looked into.
fn shell(name: &str, words: &[Word], stdin: Option<&str>) -> Vec<Inner> {
    let mut at = 0;
    let mut is_line = false;
    let mut reads_input = false;
    let mut found = Vec::new();
    while let Some(word) = words.get(at) {
        let shown = word.shown();
        match shown.as_str() {
            "--" | "-" => {
                at += 1;
                break;
            }
            "--version" | "--help" => return Vec::new(),
            "--login" | "--norc" | "--noprofile" | "--posix" | "--restricted" | "--verbose" => {
                at += 1;
            }
            // a file is read before the line, or the line is read by other rules
            "--rcfile" | "--init-file" | "-O" | "+O" => {
                found.push(Inner::Unreadable);
                at += 2;
            }
            _ if shown.starts_with("--") => {
                found.push(Inner::Unreadable);
                at += 1;
            }
            _ if is_cluster(&shown) => {
                is_line |= shown.contains('c') && shown.starts_with('-');
                reads_input |= shown.contains('s') && shown.starts_with('-');
                let named = shown.ends_with('o');
                let plain = |name: &Word| {
                    matches!(name.0.as_str(), "pipefail" | "errexit" | "nounset" | "xtrace")
                };
                let known = shown[1..].chars().all(|c| "bceEfhilmnopPrstTuvxBC".contains(c));
                if !known || (named && !words.get(at + 1).is_some_and(plain)) {
                    found.push(Inner::Unreadable);
                }
                at += 1 + usize::from(named);
            }
            _ => break,
        }
    }
    // the words after `-s` are arguments
    match (words.get(at).filter(|_| is_line || !reads_input), is_line) {
        (Some(word), true) => found.extend(line(word)),
        (Some(word), false) if !is_stream(word) => {}
        (None, false) => {
            found.push(stdin.map_or(Inner::Unreadable, |text| Inner::Line(text.to_owned())));
        }
        // a script with a name that is not known
        (Some(word), false) if word.varies() && word.is_single() => found.push(Inner::Unknown),
        (Some(_), false) | (None, true) => found.push(Inner::Unreadable),
    }
    let otherwise =
        |inner: &Inner| matches!(inner, Inner::Line(line) if !is_read_alike(name, line));
    if found.iter().any(otherwise) {
        found.push(Inner::Unknown);
    }
    found
}

/// Whether the shell `name` reads a line as bash does. zsh and its like run code in patterns of file
/// names; a POSIX shell knows neither `$'…'` nor `[[`, and runs a command in `((…))`.
pub(crate) fn is_read_alike(name: &str, line: &str) -> bool {
    match name {
        "bash" | "rbash" => true,
        "sh" | "dash" | "ash" => {
            !["$'", "$\"", "[[", "((", "&>", "<<<"].iter().any(|text| line.contains(text))
        }
        _ => false,
    }
}
