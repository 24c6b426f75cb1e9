//! Commands that run other commands: `sudo rm x` is `rm x` too.

use super::word::Word;

/// What a command runs besides itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    Command(Vec<Word>),
    /// With arguments added that do not stand in the line.
    Fed(Vec<Word>),
    /// A line for a shell.
    Line(String),
    /// Something that is not known before it runs.
    Unknown,
}

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
    wrapper("fakeroot", &[], &[], 0),
    wrapper("flock", &["-w", "-E"], &["-e", "-n", "-o", "-s", "-u", "-x"], 1),
    wrapper("ionice", &["-c", "-n", "-p"], &["-t"], 0),
    wrapper("ltrace", &["-e", "-o", "-p", "-s"], &["-f"], 0),
    wrapper("nice", &["-n", "--adjustment"], &[], 0),
    wrapper("nohup", &[], &[], 0),
    wrapper("parallel", &["-j"], &["-k", "-0"], 0),
    wrapper("setsid", &[], &["-c", "-f", "-w", "--fork", "--wait"], 0),
    wrapper("stdbuf", &["-i", "-o", "-e"], &[], 0),
    wrapper("strace", &["-e", "-o", "-p", "-s", "-u"], &["-f", "-ff", "-c", "-t", "-tt", "-y"], 0),
    wrapper(
        "sudo",
        &["-C", "-D", "-g", "-h", "-p", "-R", "-r", "-T", "-t", "-U", "-u", "--user", "--group"],
        &["-A", "-b", "-E", "-H", "-i", "-k", "-n", "-P", "-S", "-s"],
        0,
    ),
    wrapper("taskset", &[], &[], 1),
    wrapper("time", &["-f", "-o"], &["-a", "-p", "-v"], 0),
    wrapper(
        "timeout",
        &["-k", "-s", "--kill-after", "--signal"],
        &["-v", "--foreground", "--preserve-status", "--verbose"],
        1,
    ),
    wrapper("toybox", &[], &[], 0),
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

/// Programs that read lines for a shell.
const SHELLS: &[&str] = &["ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "zsh"];

/// Programs that run a line they are given, in ways of their own.
const RUNNERS: &[&str] =
    &["eval", "fd", "fdfind", "find", "runuser", "script", "su", "trap", "watch"];

/// Whether allowing `name` for any arguments would allow everything.
pub(super) fn wraps(name: &str) -> bool {
    let name = base(name);
    SHELLS.contains(&name) || RUNNERS.contains(&name) || WRAPPERS.iter().any(|w| w.name == name)
}

/// The last component of a program's path.
pub(super) fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// What `words` run besides themselves. `stdin` is what stands in the line as their input, if that
/// is known.
pub(super) fn inner(words: &[Word], stdin: Option<&str>) -> Vec<Inner> {
    let Some(name) = words.first().and_then(Word::literal) else { return Vec::new() };
    let (name, rest) = (base(&name), &words[1..]);
    match name {
        "eval" => joined(rest),
        "source" | "." if rest.first().is_some_and(is_stream) => vec![Inner::Unknown],
        "watch" => watched(rest),
        "trap" => trapped(rest),
        "find" => found(rest),
        "fd" | "fdfind" => searched(rest),
        "su" | "runuser" | "script" => line_option(rest),
        "flock" if has(rest, "-c") => line_option(rest),
        "command" if has(rest, "-v") || has(rest, "-V") => Vec::new(),
        "env"
            if rest.iter().any(|w| w.shown().starts_with("-S") || w.shown().starts_with("--s")) =>
        {
            vec![Inner::Unknown]
        }
        _ if SHELLS.contains(&name) => shell(rest, stdin),
        _ => WRAPPERS.iter().find(|w| w.name == name).map_or(Vec::new(), |w| w.inner(rest)),
    }
}

impl Wrapper {
    fn inner(&self, words: &[Word]) -> Vec<Inner> {
        let mut found = Vec::new();
        let (mut at, mut skipped) = (0, self.skipped);
        while let Some(word) = words.get(at) {
            let shown = word.shown();
            if shown == "--" {
                at += 1 + skipped;
                break;
            }
            if shown.starts_with('-') {
                at += 1 + usize::from(self.valued.contains(&shown.as_str()));
                if !self.knows(&shown) {
                    found.push(Inner::Unknown);
                }
            } else if is_assignment(&shown) {
                at += 1;
            } else if skipped > 0 {
                (at, skipped) = (at + 1, skipped - 1);
            } else {
                break;
            }
        }
        match words.get(at..).filter(|rest| !rest.is_empty()) {
            Some(rest) if matches!(self.name, "xargs" | "parallel") => {
                found.push(Inner::Fed(rest.to_vec()));
            }
            Some(rest) => found.push(Inner::Command(rest.to_vec())),
            None if self.name == "parallel" => found.push(Inner::Unknown),
            None => {}
        }
        found
    }

    /// Whether it is certain where an option ends.
    fn knows(&self, option: &str) -> bool {
        let valued = |known: &&'static str| match option.strip_prefix(*known) {
            Some(value) if known.starts_with("--") => value.is_empty() || value.starts_with('='),
            // a value in the same word, as in `-n1`
            Some(_) => true,
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

pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| super::word::is_name(name.trim_end_matches('+')))
}

fn has(words: &[Word], option: &str) -> bool {
    words.iter().any(|word| word.shown() == option)
}

/// A line that is not known in full is looked into as far as it stands there.
fn line(word: &Word) -> Vec<Inner> {
    match word.literal() {
        Some(line) => vec![Inner::Line(line)],
        None => {
            let quoted = word.0.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let line = quoted.filter(|line| !line.contains(['"', '\\']));
            line.map(|line| Inner::Line(line.to_owned()))
                .into_iter()
                .chain([Inner::Unknown])
                .collect()
        }
    }
}

/// As the shell puts arguments together again before it reads them once more.
fn joined(words: &[Word]) -> Vec<Inner> {
    let literal: Option<Vec<String>> = words.iter().map(Word::literal).collect();
    match (literal, words) {
        (Some(words), _) => vec![Inner::Line(words.join(" "))],
        (None, [only]) => line(only),
        (None, _) => vec![Inner::Command(words.to_vec()), Inner::Unknown],
    }
}

fn watched(words: &[Word]) -> Vec<Inner> {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.shown().starts_with('-')) {
        at += if matches!(word.shown().as_str(), "-n" | "--interval") { 2 } else { 1 };
    }
    words.get(at..).filter(|rest| !rest.is_empty()).map(joined).unwrap_or_default()
}

fn trapped(words: &[Word]) -> Vec<Inner> {
    let mut words = words.iter().skip_while(|word| word.shown() == "--");
    let handler = words.next().filter(|word| !word.shown().starts_with('-'));
    handler.filter(|_| words.next().is_some()).map(line).unwrap_or_default()
}

fn found(words: &[Word]) -> Vec<Inner> {
    let runs =
        |word: &Word| matches!(word.shown().as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let ends = |word: &Word| matches!(word.shown().as_str(), ";" | "+");
    let starts = words.iter().enumerate().filter(|(_, word)| runs(word)).map(|(at, _)| at + 1);
    let command = |from: usize| {
        let rest = &words[from..];
        rest[..rest.iter().position(ends).unwrap_or(rest.len())].to_vec()
    };
    starts.map(command).filter(|command| !command.is_empty()).map(Inner::Command).collect()
}

fn searched(words: &[Word]) -> Vec<Inner> {
    let runs =
        |word: &Word| matches!(word.shown().as_str(), "-x" | "-X" | "--exec" | "--exec-batch");
    let rest = words.iter().position(runs).map(|at| words[at + 1..].to_vec());
    rest.filter(|rest| !rest.is_empty()).map(Inner::Fed).into_iter().collect()
}

/// The value of `-c`.
fn line_option(words: &[Word]) -> Vec<Inner> {
    let is_option = |word: &Word| {
        let shown = word.shown();
        shown == "--command" || (is_cluster(&shown) && shown.ends_with('c'))
    };
    if let Some(at) = words.iter().position(is_option) {
        return words.get(at + 1).map_or_else(|| vec![Inner::Unknown], line);
    }
    let hidden = words.iter().any(|word| word.shown().starts_with("--command="));
    hidden.then_some(Inner::Unknown).into_iter().collect()
}

/// Short options in one word.
fn is_cluster(word: &str) -> bool {
    word.strip_prefix(['-', '+'])
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// Whether what is read here is no file that somebody could have looked at.
fn is_stream(word: &Word) -> bool {
    word.literal().is_none_or(|path| path.starts_with("/dev/") || path.starts_with("/proc/"))
}

/// A script is a program like any other; a line, or input, is looked into.
fn shell(words: &[Word], stdin: Option<&str>) -> Vec<Inner> {
    let mut at = 0;
    let mut is_line = false;
    while let Some(word) = words.get(at) {
        let shown = word.shown();
        match shown.as_str() {
            "--" | "-" => {
                at += 1;
                break;
            }
            "--rcfile" | "--init-file" | "-O" | "+O" => at += 2,
            "--version" | "--help" => return Vec::new(),
            _ if shown.starts_with("--") => at += 1,
            _ if is_cluster(&shown) => {
                is_line |= shown.contains('c') && shown.starts_with('-');
                at += 1 + usize::from(shown.ends_with('o'));
            }
            _ => break,
        }
    }
    match (words.get(at), is_line) {
        (Some(word), true) => line(word),
        (Some(word), false) if !is_stream(word) => Vec::new(),
        (None, false) => vec![stdin.map_or(Inner::Unknown, |text| Inner::Line(text.to_owned()))],
        (Some(_), false) | (None, true) => vec![Inner::Unknown],
    }
}
